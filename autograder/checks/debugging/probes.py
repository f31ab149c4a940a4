"""Put the programs of exercise 5 to the question, and a test that a student wrote.

`autograder build` copies all below this docstring into the set-up cell of the notebook, behind that of `measures.py`.
"""

from autograder.judging.compare import WrongAnswer


def measured_by(measure):
    """Make of a measure what makes a function of arrays of a program."""
    return lambda program: lambda *arguments: measure(program, *arguments)


def judge_trial(try_out):
    """Raise a WrongAnswer that says which candidates a student's test takes for what they are not."""
    try:
        said = try_out()
    except NotImplementedError:
        raise WrongAnswer("test_attention: not written yet.") from None
    refused = [f"{name}: {text}" for name, text in said.items() if name.startswith("right: ") and text != "passes"]
    wrong = [name for name in said if name.startswith("wrong: ")]
    missed = [name for name in wrong if said[name] == "passes"]
    if refused:
        question = "Is it stricter than rounding allows, or does it ask for what the specification does not say?"
        raise WrongAnswer(f"Your test refuses {len(refused)} right candidates. {question}\n" + "\n".join(refused))
    if missed:
        caught = f"Your test catches {len(wrong) - len(missed)} of {len(wrong)} wrong candidates so far."
        raise WrongAnswer(f"{caught} It lets these through:\n" + "\n".join(missed))

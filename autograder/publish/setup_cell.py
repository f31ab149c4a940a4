"""The set-up cell of an exercise notebook: it compares results, and holds the results that the visible tests expect.

The cell defines only the names that students use, so that a student's variables cannot break a test.
"""

import ast
import inspect
import json
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from autograder.judge import catalogue, compare, departure, message_only, overwritten, raised, steps, trace
from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import Exercise, exercises_of, seeded
from autograder.judge.mistake import mistake_of, number_of
from autograder.judge.own_module import own_module
from autograder.sandbox.guest import recorder, unwritten

QUOTES = "'''"
MAX_STEPS = 300  # in a notebook, all steps of a case together have at most this many numbers
DECIMALS = 7  # decimals of the numbers in the cell: two more than `compare.TOLERANCE` looks at
SETUP = """#@title Set-up: run this cell first {{ display-mode: "form" }}
{imports}


{loader}


run_tests = own_module("{stem}_tests", r{quotes}
{source}
{quotes}).run_tests
{more}del own_module
"""
SOURCE = '''{helper}

{tests}
BOOK = "{book}book/mistakes.html"
TESTS = {{name: {{**test, "messages": MESSAGES, "book": BOOK}} for name, test in json.loads(TABLE).items()}}
PASSED = dict.fromkeys(TESTS, "–")


def run_tests(name, *written):
    """Run the visible tests of an exercise, and say which exercises have passed theirs so far.

    Args:
        name: The name of the exercise.
        written: The answer, and what else its test needs.
    """
    PASSED[name] = "–"
    try:
        judge(PROBES[name](*written), **TESTS[name])
    except Exception as error:
        if name in BONUS and str(error).endswith(UNWRITTEN):
            return print(f"{{name}} is a bonus: left unwritten, it costs nothing.")
        said = overwritten(written, sys._getframe(1).f_globals, LIBRARIES, ANSWERS)
        if said:
            raise WrongAnswer(f"{{said}}\\n{{error}}", getattr(error, "mistake", None)) from None
        more()  # the code that finds a line takes longer to compile than all else
        recorder = recorder_of(written[0], [each for each in ANSWERS if each != name])
        raise with_line(error, lambda: PROBES[name](*written), TESTS[name]["names"], recorder) from None
    PASSED[name] = "✓"
    print(f"{{name}} passes the visible tests. {{UNTRIED.get(name, '')}}".rstrip())
    print("So far:", "  ".join(f"{{each}} {{mark}}" for each, mark in PASSED.items() if each not in BONUS or mark == "✓"))


print(f"Ready: {version}. This notebook needs only {needs}, and no GPU.")


# Only when `more` is called:
{later}'''
OF_TORCH = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn"


def setup_cell(stem: str, bonus: Sequence[str] = ()) -> str:
    """Return the set-up cell: what answers use, and `run_tests`, whose module holds all that the visible tests need.

    This module holds the comparison of `autograder/judge/compare.py`, the modules that the checks call HELPERS, and the
    frozen outcomes of the visible tests.

    Args:
        stem: The stem of the file of answers.
        bonus: The exercises that are a bonus.

    Raises:
        ValueError: a helper holds the quotes that enclose the module's source in the cell.
    """
    checks = checks_of(stem)
    helpers = getattr(checks, "HELPERS", ())
    imports = "\n".join(
        [OF_TORCH if helpers else "import numpy as np", *filter(None, [getattr(checks, "FOR_ANSWERS", "")])]
    )
    source = _source_of_tests(stem, bonus, helpers, imports)
    if QUOTES in source:
        raise ValueError(f"the tests of {stem} hold {QUOTES}, which ends their source in the set-up cell")
    return SETUP.format(
        imports=imports,
        loader=inspect.getsource(own_module).strip(),
        stem=stem,
        quotes=QUOTES,
        source=source,
        more="".join(f'{name} = run_tests.__globals__["{name}"]\n' for name in getattr(checks, "FOR_CELLS", ())),
    ).rstrip()


def _source_of_tests(stem: str, bonus: Sequence[str], helpers: Sequence[ModuleType], imports: str) -> str:
    """Return the source of the module that runs the visible tests."""
    exercises = exercises_of(stem)
    helper = "\n\n\n".join(
        [
            "import json\n\n" + imports,
            *map(_below_docstring, (unwritten, overwritten, message_only, compare, *helpers)),
        ]
    )
    with seeded(0):
        tests = {name: frozen_tests(exercise) for name, exercise in exercises.items()}
    used = sorted(
        {mistake_of(name) for test in tests.values() for case in test["cases"] for name in _named(case)}, key=number_of
    )
    messages = "".join(
        f"    {json.dumps(name)}: {json.dumps(catalogue.MESSAGES[name], ensure_ascii=False)},\n" for name in used
    )
    untried = {n: f"They do not try {each.untried_in_words}." for n, each in exercises.items() if each.untried}
    probes = "".join(
        f"    {json.dumps(name)}: {each.probe_in_notebook() or 'lambda function: function'},\n"
        for name, each in exercises.items()
    )
    answers = dict.fromkeys(name for each in exercises.values() for name in (each.name, *each.uses, *each.given))
    libraries = ", ".join(f'"{name}": {name}' for name in _imported(imports))
    table = (
        json.dumps(tests, separators=(",", ":"))
        .replace('{"name":', '\n{"name":')
        .replace('"mistakes":', '\n"mistakes":')
    )
    ready = (
        ("PyTorch {torch.__version__}", "PyTorch") if helpers else ("NumPy {np.__version__}", "NumPy and Matplotlib")
    )
    return SOURCE.format(
        helper=helper,
        later="\n\n\n".join(map(_below_docstring, (recorder, steps, trace, raised, departure))),
        tests=f"MESSAGES = {{\n{messages}}}\nUNTRIED = {json.dumps(untried, ensure_ascii=False)}\n"
        f"BONUS = {json.dumps(list(bonus))}\nPROBES = {{\n{probes}}}\n"
        f"LIBRARIES = {{{libraries}}}\nANSWERS = {json.dumps(list(answers))}\n\n"
        f'TABLE = """{table}"""',
        book=catalogue.address_of_book(),
        version=ready[0],
        needs=ready[1],
    )


def _imported(text: str) -> list[str]:
    """Return the names that a text imports."""
    lines = [node for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [name.asname or name.name for line in lines for name in line.names]


def _below_docstring(module: ModuleType) -> str:
    """Return a module's text below its docstring, without imports from this repository, because the cell has that code too."""
    text = inspect.getsource(module).split('"""', 2)[2]
    return re.sub(r"^from autograder\.\S+ import (\([^)]*\)|.*)\n", "", text, flags=re.M).strip()


def frozen_tests(exercise: Exercise) -> dict[str, Any]:
    """Return the visible tests of an exercise as plain values: inputs, right results, and each mistake's fingerprint."""
    cases = [dict(case) for case in exercise.visible_cases()]
    for case in cases:
        case["arguments"] = [
            argument.tolist() if hasattr(argument, "tolist") else argument for argument in case["arguments"]
        ]
        if "error" in case["expected"]:
            case["expected"] = {"error": case["expected"]["error"]}
        else:
            arrays = {name: _rounded(array.tolist(), 7) for name, array in case["expected"]["arrays"].items()}
            case["expected"] = {"arrays": arrays}
        case["mistakes"] = {name: _rounded(prints, 5) for name, prints in case["mistakes"].items()}
        for name in ("default_mistake", "mistake_if_refused"):
            if case[name] is None:
                del case[name]
        case["steps"] = frozen_steps(case)
        if case["steps"] is None:
            del case["steps"]
    _drop_repeated(cases)
    return {"names": list(exercise.names), "cases": cases}


def frozen_steps(case: dict[str, Any]) -> dict[str, list[Any]] | None:
    """Return the steps of a visible case as plain values; None if they have too many numbers for a notebook."""
    steps = None if case["steps"] is None or "error" in case["expected"] else case["steps"]()
    if steps is None:
        return None
    steps = {words: step if isinstance(step, tuple) else (step,) for words, step in steps.items()}
    if sum(np.size(array) for array, *_ in steps.values()) > MAX_STEPS:
        return None
    return {words: [_rounded(np.asarray(array).tolist(), 6), *free] for words, (array, *free) in steps.items()}


def _named(case: dict[str, Any]) -> list[str]:
    return [*case["mistakes"], *filter(None, [case.get("default_mistake"), case.get("mistake_if_refused")])]


def _drop_repeated(cases: list[dict[str, Any]]) -> None:
    """Drop a variant of a mistake that gives the same as an earlier variant in every case."""
    first: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(name for case in cases for name in case["mistakes"]):
        first.setdefault((mistake_of(name), json.dumps([case["mistakes"].get(name) for case in cases])), name)
    for case in cases:
        case["mistakes"] = {name: prints for name, prints in case["mistakes"].items() if name in first.values()}


def _rounded(value: Any, digits: int) -> Any:
    """Round numbers so that they are the same on every processor: rounding noise becomes 0.

    Numbers are first rounded to 12 digits. Then a number halfway between two rounded numbers, such as 1/2048 with 7
    digits, is rounded the same way with and without noise.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    return float(f"{round(float(f'{value:.12g}'), DECIMALS):.{digits}g}") + 0.0  # -0.0 becomes 0.0

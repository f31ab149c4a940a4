"""Make the book's page of known mistakes from the verdicts of the checks."""

import math
from collections import Counter
from collections.abc import Sequence

from autograder.judge import catalogue
from autograder.judge.exercise import exercises_of
from autograder.judge.kill_matrix import NUMBERS, Matrix, Verdict
from autograder.judge.mistake import Mistake, number_of
from autograder.judge.mutations import Score

PAGE = """# The known mistakes

This page lists the mistakes that the tests of the exercises can name, and proves that the tests name them.
Each mistake is code: the answer to an exercise with one step replaced, often in several variants.
In this way we made {wrong} wrong functions, and we also wrote {right} right functions.
On inputs of seed {seed}, the checks catch and name all wrong functions, and all right functions pass.
`autograder mutants` repeats this on new inputs.

Open a mistake to see its symptoms and the question that a student gets.
We measured the symptoms: {silent} of the {all} measured mistakes show only in wrong numbers of the right shape.
In the book with solutions, a folded box shows the wrong line, and with it a part of the answer.
With these and the mistakes that are [taught, and not tested](#taught-and-not-tested), the list has {listed} mistakes.

{lists}

(mutations)=
## Mutations made by a program

People wrote the mistakes above.
A program makes **mutations** of the answers: it changes one operator, constant, argument, method or line at a time.
Of {made} mutations, {run} give a result; the others end in an error on every input.
Of the {run} mutations, {equivalent} are **equivalent**: they are right, or they change what the specification leaves open.
The hidden checks catch {caught} of the other {wrong_mutations}; this share, {percent_caught} %, is the **mutation score**.
The visible tests of the notebooks alone catch {percent_seen} %.

| exercise | mutations | run | equivalent | caught by hidden checks | by the visible test | not caught |
| --- | --: | --: | --: | --: | --: | --: |
{scores}

<!-- not for students -->
::::{{dropdown}} Equivalent, and why
{equivalents}
::::

::::{{dropdown}} Caught, and not by the visible test
{unseen}
::::

<!-- to here -->
(lines)=
## How the wrong line is found

If a wrong answer fits no entry above, the message names a line of the student's own code.
To find it, we run the answer again, and give one variable a value that a right answer computes.
The first line at which this makes the result right is the line that the message names.
It names no line if an earlier array that no right answer has may be the cause, as in a loop with steps of the student's own.
The lines of mutations are known.
If a message names a line of a mutation, this is the right line, or the one next to it, in more than nine of ten cases.

(which-check)=
## Which check catches which

The tables show how many variants each mistake has.
They also show how many variants the visible test in the notebook and each hidden check catch.

{matrices}
"""
MISTAKE = """::::{{mistake}} {name} {title}
:exercises: {exercises}
:symptoms: {symptoms}

{question}
::::"""
UNTESTED = """## Taught, and not tested

These mistakes are in conclusions, or in models that no exercise asks for; no check of an exercise can see them."""


def mistakes_page(matrices: list[Matrix], scores: list[Score]) -> str:
    """Return the page of the book that lists the mistakes, which check catches them, and how many mutations are caught.

    Raises:
        ValueError: a mistake is not caught or not named, so the page would not be true.
    """
    if not all(matrix.is_complete for matrix in matrices):
        raise ValueError('the checks do not catch and name every mistake; see "autograder mutants"')
    verdicts_of: dict[str, list[Verdict]] = {}  # by the name of the mistake
    for verdict in (verdict for matrix in matrices for verdict in matrix.mutants):
        verdicts_of.setdefault(verdict.mistake, []).append(verdict)
    lists = []
    for matrix in matrices:
        made = [mistake for mistake in catalogue.mistakes_of(matrix.stem) if mistake.title]
        made.sort(key=lambda mistake: number_of(mistake.name))
        lists += [
            f"## {getattr(catalogue.checks_of(matrix.stem, 'mistakes'), 'ABOUT', matrix.stem.capitalize())}",
            *(_entry(mistake, verdicts_of.get(mistake.name, [])) for mistake in made),
        ]
    lists += [UNTESTED, *(_entry(mistake, []) for mistake in catalogue.TAUGHT)]
    tables = [
        _matrix_of(matrix, exercise)
        for matrix in matrices
        for exercise in dict.fromkeys(v.exercise for v in matrix.mutants)
    ]
    symptoms = [{symptom for each in variants for symptom in each.symptoms} for variants in verdicts_of.values()]
    facts = dict(
        wrong=sum(map(len, verdicts_of.values())),
        right=sum(len(matrix.correct) for matrix in matrices),
        seed=matrices[0].seed,
        silent=symptoms.count({NUMBERS}),
        all=sum(map(bool, symptoms)),
        listed=sum(entry.startswith("::::") for entry in lists),
    )
    return PAGE.format(**facts, **_of_mutations(scores), lists="\n\n".join(lists), matrices="\n\n".join(tables))


def _of_mutations(scores: list[Score]) -> dict[str, object]:
    """Return what the page says about mutations."""
    counts, known, unseen = {}, [], []
    for score in scores:
        kinds = (score.equivalent, score.caught, score.caught_by_visible, score.missed)
        counts[score.exercise] = (score.made, score.run, *map(len, kinds))
        known += [f"- {score.exercise}, {_code(mutation)}: {why}." for mutation, why in score.equivalent.items()]
        unseen += [f"- {score.exercise}, {_code(each)}" for each in score.caught if each not in score.caught_by_visible]
    made, run, equivalent, caught, seen, missed = map(sum, zip(*counts.values(), strict=True))
    return {
        "made": made,
        "run": run,
        "equivalent": equivalent,
        "caught": caught,
        "wrong_mutations": caught + missed,
        "percent_caught": math.floor(100 * caught / (caught + missed)),
        "percent_seen": math.floor(1000 * seen / (caught + missed)) / 10,
        "scores": "\n".join(_row(name, row) for name, row in counts.items()),
        "equivalents": "\n".join(known),
        "unseen": "\n".join(unseen),
    }


def _row(name: str, counts: Sequence[int]) -> str:
    """Return a row of a table, with a dot for 0."""
    return " | ".join([f"| {name}", *(str(count or "·") for count in counts), ""]).rstrip(" ")


def _code(mutation: str) -> str:
    """Return a mutation as one line of code."""
    return f"`{' '.join(mutation.split())}`"


def _entry(mistake: Mistake, verdicts: list[Verdict]) -> str:
    """Return the page's entry for a mistake: its exercises, and its symptoms with the most frequent first."""
    symptoms = Counter(symptom for verdict in verdicts for symptom in sorted(set(verdict.symptoms)))
    return MISTAKE.format(
        name=mistake.name,
        title=mistake.title,
        exercises=", ".join(dict.fromkeys(verdict.exercise for verdict in verdicts)),
        symptoms=", ".join(symptom for symptom, _ in symptoms.most_common()),
        question=mistake.question,
    )


def _matrix_of(matrix: Matrix, exercise: str) -> str:
    """Return one exercise's table: how many variants of each mistake each check catches."""
    verdicts = [verdict for verdict in matrix.mutants if verdict.exercise == exercise]
    stages = list(exercises_of(matrix.stem)[exercise].stages)
    lines = [
        f"::::{{dropdown}} {exercise}",
        "",
        "| mistake | variants | visible test | " + " | ".join(stages) + " |",
        "| --- | --: | --: | " + " | ".join("--:" for _ in stages) + " |",
    ]
    for name in sorted({verdict.mistake for verdict in verdicts}, key=number_of):
        variants = [verdict for verdict in verdicts if verdict.mistake == name]
        caught = [sum(stage in variant.failed for variant in variants) for stage in stages]
        lines.append(_row(name, [len(variants), sum(variant.visible != "" for variant in variants), *caught]))
    return "\n".join([*lines, "::::"])

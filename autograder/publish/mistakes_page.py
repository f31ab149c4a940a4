"""The page of the book that lists the known mistakes, made from what the checks say about each."""

import json
import math
from collections import Counter

from autograder.judge import catalogue
from autograder.judge.exercise import exercises_of
from autograder.judge.kill_matrix import NUMBERS, Matrix, Verdict
from autograder.judge.line_measure import KINDS, RECORD
from autograder.judge.mistake import Mistake, number_of
from autograder.judge.mutations import Score

PAGE = """# The known mistakes

A list of the mistakes that the exercises can name, and a proof that they do.
Each is code: the answer with one step replaced, often in several variants.
{wrong} wrong functions are made so, and {right} right ones are next to them.
On inputs of seed {seed} the checks catch and name all wrong ones, and pass all right ones.
`autograder mutants` does the same on new inputs.

Open a mistake to see what a student who made it is asked, and how it looked from outside.
That was measured too: {silent} of the {all} that are made show in nothing but wrong numbers of the right shape.
Where the book holds the solutions, the line that makes a mistake is folded below it, and shows a part of the answer.
Of the programs of exercise 5 a class gets six; what can be wrong with the others is listed without symptoms.
With these, and with those that are [taught, and not tested](#taught-and-not-tested), the list has {listed} mistakes.

{lists}

(mutations)=
## Mutations that nobody thought of

The mistakes above were written down by people.
A program makes **mutations** in the answers too: it changes every operator, constant, argument, method and line in turn.
Of {made} mutations {run} run; the others end in an error, whatever they are given.
{equivalent} of those that run give what is right, or what was left open.
The hidden checks catch {caught} of the {wrong_mutations} that are left; this share is the **mutation score**, {percent_caught} %.
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
## Which line is said

A mistake that no entry above names is answered with lines of the student's own code.
These are the last line whose value is a known step, and the first whose value is none.
Mutations know their line, so that this can be measured, in the answers and in the right answers in other styles.
Of at most {most} mutations of each exercise, drawn at random, {unnamed} are caught and have no name.
For {percent_near} % of these the line that is said is right, or the one next to it.
For {percent_elsewhere} % it is the line that raised an error, and the mutation is in another one.
For {percent_wrong} % it is wrong.

| exercise | no name | line right | next to it | no line | elsewhere | wrong |
| --- | --: | --: | --: | --: | --: | --: |
{lines}

(which-check)=
## Which check catches which

How many variants each mistake has, and how many of them the visible test in the notebook and each hidden check catch.

{matrices}
"""
MISTAKE = """::::{{mistake}} {name} {title}
:exercises: {exercises}
:symptoms: {symptoms}

{question}
::::"""
UNTESTED = """## Taught, and not tested

These show in what is concluded, or in a model that nobody asked for; no check of an exercise can see them."""


def mistakes_page(matrices: list[Matrix], scores: list[Score]) -> str:
    """Return the page of the book that lists the mistakes, which check catches them, and how many mutations are caught.

    Raises:
        ValueError: a mistake is not caught or not named, so the page would not be true.
    """
    if not all(matrix.whole for matrix in matrices):
        raise ValueError('the checks do not catch and name every mistake; see "autograder mutants"')
    found: dict[str, list[Verdict]] = {}  # by the name of the mistake
    for verdict in (verdict for matrix in matrices for verdict in matrix.mutants):
        found.setdefault(verdict.mistake, []).append(verdict)
    lists = []
    for matrix in matrices:
        made = [mistake for mistake in catalogue.mistakes_of(matrix.stem) if mistake.title]
        made.sort(key=lambda mistake: number_of(mistake.name))
        lists += [
            f"## {getattr(catalogue.checks_of(matrix.stem, 'mistakes'), 'ABOUT', matrix.stem.capitalize())}",
            *(_entry(mistake, found.get(mistake.name, [])) for mistake in made),
        ]
    lists += [UNTESTED, *(_entry(mistake, []) for mistake in catalogue.TAUGHT)]
    tables = [
        _matrix_of(matrix, exercise)
        for matrix in matrices
        for exercise in dict.fromkeys(v.exercise for v in matrix.mutants)
    ]
    facts = dict(
        wrong=sum(map(len, found.values())),
        right=sum(len(matrix.correct) for matrix in matrices),
        seed=matrices[0].seed,
        silent=sum({symptom for each in ways for symptom in each.symptoms} == {NUMBERS} for ways in found.values()),
        all=len(found),
        listed=sum(entry.startswith("::::") for entry in lists),
    )
    return PAGE.format(
        **facts, **_of_mutations(scores), **_of_lines(), lists="\n\n".join(lists), matrices="\n\n".join(tables)
    )


def _of_mutations(scores: list[Score]) -> dict[str, object]:
    """Return what the page says about mutations."""
    counts = {
        score.exercise: (
            score.made,
            score.run,
            len(score.equivalent),
            len(score.caught),
            len(score.seen),
            len(score.missed),
        )
        for score in scores
    }
    made, run, equivalent, caught, seen, missed = map(sum, zip(*counts.values(), strict=True))
    unseen = [(score.exercise, mutation) for score in scores for mutation in score.caught if mutation not in score.seen]
    known = [(score.exercise, mutation, why) for score in scores for mutation, why in score.equivalent.items()]
    return {
        "made": made,
        "run": run,
        "equivalent": equivalent,
        "caught": caught,
        "wrong_mutations": caught + missed,
        "percent_caught": math.floor(100 * caught / (caught + missed)),
        "percent_seen": math.floor(1000 * seen / (caught + missed)) / 10,
        "scores": "\n".join(
            f"| {name} | " + " | ".join(str(count) if count else "·" for count in row) + " |"
            for name, row in counts.items()
        ),
        "equivalents": "\n".join(f"- {name}, {_code(mutation)}: {why}." for name, mutation, why in known),
        "unseen": "\n".join(f"- {name}, {_code(mutation)}" for name, mutation in unseen),
    }


def _of_lines() -> dict[str, object]:
    """Return what the page says about lines, from the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    kinds = [kind for kind in KINDS if kind != "named"]
    rows = {name: [counts.get(kind, 0) for kind in kinds] for name, counts in record["counts"].items()}
    sums = dict(zip(kinds, map(sum, zip(*rows.values(), strict=True)), strict=True))
    unnamed = sum(sums.values())
    percent = lambda *some: round(100 * sum(sums[kind] for kind in some) / unnamed)
    return {
        "most": record["most"],
        "unnamed": unnamed,
        "percent_near": percent("right", "neighbour"),
        "percent_elsewhere": percent("elsewhere"),
        "percent_wrong": percent("wrong"),
        "lines": "\n".join(
            f"| {name} | {sum(row)} | " + " | ".join(str(count) if count else "·" for count in row) + " |"
            for name, row in rows.items()
        ),
    }


def _code(mutation: str) -> str:
    """Return a mutation as one line of code."""
    return f"`{' '.join(mutation.split())}`"


def _entry(mistake: Mistake, verdicts: list[Verdict]) -> str:
    """Return a mistake as the page shows it: where it is made, and how its variants show, the most frequent first."""
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
        ways = [verdict for verdict in verdicts if verdict.mistake == name]
        caught = [sum(stage in way.failed for way in ways) for stage in stages]
        cells = [len(ways), sum(way.visible != "" for way in ways), *caught]
        lines.append(f"| {name} | " + " | ".join(str(cell) if cell else "·" for cell in cells) + " |")
    return "\n".join([*lines, "::::"])

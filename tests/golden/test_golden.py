"""Does the grader decide and say what it did when the records were written?

If a difference is wanted, write the records again, and commit them with the change: `python tests/golden/record.py`.
"""

import re
from collections import Counter

import pytest
from conftest import ALL, FOLLOWED, NAME, GradedClass
from golden import record
from golden.differences import FOLDER, differences, recorded
from golden.record import line_of

from autograder.imports import ROOT

QUICK = ("matmul", "split_heads")


@FOLLOWED
def test_verdicts_of_some_exercises_are_those_recorded() -> None:
    """Are the messages about known mistakes, right answers and mutations the same, for a few exercises?"""
    before = [line for line in recorded("verdicts_multihead") if line.partition(" | ")[0] in QUICK]
    assert differences(before, list(record.verdicts("multihead", QUICK))) == []


def test_decisions_about_some_damaged_notebooks_are_those_recorded() -> None:
    """Are receipts and questions about damaged notebooks the same?"""
    assert differences(recorded("damaged")[:60], list(record.damaged(60))) == []


@FOLLOWED
def test_points_of_the_sample_class_are_those_recorded(graded_class: GradedClass) -> None:
    """Does each submission get its state and lose only the points of its mistakes, with the same messages?"""
    before = [line for line in recorded("classes") if line.startswith(NAME)]
    now = list(record.lines_of(graded_class.course, NAME, graded_class.results.values()))
    assert differences(before, now) == []


@FOLLOWED
@pytest.mark.deep
@pytest.mark.parametrize("name", [*(f"verdicts_{stem}" for stem in ALL.values()), "classes", "damaged"])
def test_everything_is_as_recorded(name: str) -> None:
    """Is every recorded message and decision the same?"""
    assert differences(recorded(name), list(record.RECORDS[name]())) == []


def test_recorded_lines_are_those_of_the_mutations() -> None:
    """Is a line that a message names the mutation's, or the next, in 15 of 16 cases, and is one named often enough?"""
    text = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("verdicts_*.txt"))
    near = Counter[bool | None]()
    for line, message in re.findall(r" \| [^|\n]+, line (\d+): [^\n]* \| \w+ [01] \| ([^\n]*)", text):
        named = re.search(r" ⏎ (?:Line|\S+ ended at line) (\d+)", message)
        near[abs(int(named[1]) - int(line)) <= 1 if named else None] += "{M" not in message
    assert near[True] > 15 * near[False]
    assert near[True] > 0.2 * near.total() > 400


def test_pages_quote_recorded_messages() -> None:
    """Are the messages on the exercises' pages real?"""
    real = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("verdicts_*.txt"))
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("book/*_exercise.md")]
    quoted = [text for page in pages for text in re.findall(r"```text\n((?:M\d|\w+, ).*?)\n```", page, re.S)]
    assert len(quoted) > 6
    assert [text for text in quoted if f"| {line_of(text)}" not in real] == []


def test_difference_is_noticed() -> None:
    """Does a changed word, a lost line or a number that differs by more than rounding show, and rounding not?"""
    before = ["a | off by up to 0.358", "b | 3 of 9"]
    assert differences(before, ["a | off by up to 0.359", "b | 3 of 9"]) == []
    numbered = [f"{n / 10} | 3_encoder | copy" for n in range(90, 110)]
    assert differences(numbered, numbered) == []
    assert differences(["ada | 19 of 40"], ["ada | 20 of 40"])[2:] == ["-ada | 19 of 40", "+ada | 20 of 40"]
    assert differences(before, before[:1]) == ["--- recorded", "+++ now", "-b | 3 of 9"]
    assert differences(before, ["a | off by up to 0.5", before[1]])[2:] == [f"-{before[0]}", "+a | off by up to 0.5"]
    assert differences(["142 of 432 numbers"], ["141 of 432 numbers"]) == []
    assert differences(["3 of 9 numbers"], ["4 of 9 numbers"])[2:] == ["-3 of 9 numbers", "+4 of 9 numbers"]

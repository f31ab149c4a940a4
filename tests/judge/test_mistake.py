"""Does a mistake change exactly the words of the answer that it names?"""

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import exercises_of, right_answers_of
from autograder.judge.kill_matrix import NUMBERS, symptom_of
from autograder.judge.mistake import Mistake, all_and_each, changed_answer, changed_lines, variant, variants_of

ANSWERS = '''"""Answers."""

import math

FACTOR = 2


def helper(x: float) -> float:
    """Double: return x * FACTOR, as helper does."""
    return x * FACTOR


def answer(x: float) -> float:
    """Return helper(x) + 1."""
    return helper(x) + 1 - 0 * math.pi


def other(x: float) -> float:
    """Return x + x + x."""
    return x + x + x
'''


@pytest.fixture
def answers(tmp_path) -> ModuleType:
    """A module of three answers; one of them uses another."""
    module = ModuleType("answers")
    module.__file__ = str(tmp_path / "answers.py")
    (tmp_path / "answers.py").write_text(ANSWERS, encoding="utf-8")
    return module


def test_words_are_changed_in_the_answer(answers: ModuleType) -> None:
    """Is the function changed, although its docstring holds the same words?"""
    assert changed_answer(answers, "answer", [])(3) == 7
    assert changed_answer(answers, "answer", [("helper(x) + 1", "helper(x) - 1")])(3) == 5


def test_words_are_changed_in_what_the_answer_uses(answers: ModuleType) -> None:
    """Are missing words searched in the functions that the answer uses, and can several words be changed at once?"""
    assert changed_answer(answers, "answer", [("x * FACTOR", "x * 10")])(3) == 31
    assert changed_answer(answers, "answer", [("x * FACTOR", "x * 10"), (" + 1", " + 2")])(3) == 32


def test_lines_that_make_a_mistake_are_those_that_it_changes(answers: ModuleType) -> None:
    """Are the changed lines shown as the mistake writes them, and no line if the mistake only removes a line?"""
    path = Path(answers.__file__)
    both = variant("answer", "x * FACTOR", "x * 10", "helper(x) + 1", "helper(x) - 1")
    assert changed_lines(path, "answer", both) == ["return x * 10", "return helper(x) - 1 - 0 * math.pi"]
    assert changed_lines(path, "other", variant("other", "    return x + x + x\n", "")) == []


@pytest.mark.parametrize(
    ("mine", "expected", "symptom"),
    [
        ({"error": "TypeError"}, {"arrays": {}}, "an error"),
        ({"arrays": {}}, {"error": "ValueError"}, "no error where one is due"),
        ({"arrays": {"weights": np.ones((2, 3))}}, {"arrays": {"weights": np.ones((3, 2))}}, "another shape"),
        ({"arrays": {"out": np.array([np.nan])}}, {"arrays": {"out": np.ones(1)}}, "NaN or infinite"),
        ({"arrays": {"weights": np.eye(2) / 2}}, {"arrays": {"weights": np.eye(2)}}, "rows that do not sum to 1"),
        ({"arrays": {"weights": np.eye(2)[::-1]}}, {"arrays": {"weights": np.eye(2)}}, NUMBERS),
        (
            {"arrays": {"other_parameters": np.ones(())}},
            {"arrays": {"other_parameters": np.zeros(())}},
            "other parameters",
        ),
        ({"arrays": {"out": np.ones(1)}, "changed": True}, {"arrays": {"out": np.ones(1)}}, "a changed argument"),
    ],
)
def test_symptom_is_how_a_mistake_looks_from_outside(mine: dict, expected: dict, symptom: str) -> None:
    """Is each kind of wrong outcome distinguished from the others?"""
    assert symptom_of(mine, expected) == symptom


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("x + 7", "x")], "other: 'x + 7' is not in the answer"),
        ([("x * FACTOR", "x")], "other: 'x * FACTOR' is not in the answer"),
        ([("+ x", "- x")], "other: '+ x' is 2 times in the answer"),
        ([("x + x + x", "x"), ("return x", "return 2")], "other: two changes overlap"),
        ([("x + x + x", "x +")], "other: with these words changed, the answer is no Python"),
    ],
)
def test_words_that_cannot_be_changed_are_an_error(answers: ModuleType, changes: list, said: str) -> None:
    """Do words that are nowhere, elsewhere, twice or overlapping raise an error that names them and the exercise?"""
    with pytest.raises(ValueError, match=said.replace("+", r"\+").replace("*", r"\*")):
        changed_answer(answers, "other", changes)


def test_a_mistake_is_said_whole_or_not_at_all() -> None:
    """Are a title without a question, and old words without new ones, errors?"""
    with pytest.raises(ValueError, match="M1: expected a title and a question"):
        Mistake("M1", "a title", variant("answer", "a", "b"))
    with pytest.raises(ValueError, match="expected pairs of words"):
        variant("answer", "a", "b", "c")
    with pytest.raises(ValueError, match="expected pairs of words"):
        variant("answer")


def test_all_and_each_makes_every_change_also_alone() -> None:
    """Do two changes make three variants: both, and each alone?"""
    both = variant("f", "a", "b", "c", "d")
    assert all_and_each("f", ("a", "b"), ("c", "d")) == [both, variant("f", "a", "b"), variant("f", "c", "d")]


def test_variants_are_counted_by_exercise() -> None:
    """Does a second variant of a mistake in an exercise get its own name?"""
    first, second, elsewhere = variant(("f", "g"), "a", "b"), variant("f", "a", "c"), variant("g", "a", "d")
    mistakes = (Mistake("M1", "title", "question?", first, elsewhere, second), Mistake("M2", second))
    assert variants_of("f", mistakes) == {"M1": first, "M1/2": second, "M2": second}
    assert variants_of("g", mistakes) == {"M1": first, "M1/2": elsewhere}


@pytest.mark.parametrize("stem", catalogue.STEMS)
def test_every_variant_can_be_made(stem: str) -> None:
    """Do the words of every variant occur exactly once in the present answers?"""
    known = exercises_of(stem)
    for exercise in known.values():
        assert exercise.mistakes()
    named = {name for mistake in catalogue.mistakes_of(stem) for each in mistake.variants for name in each.exercises}
    assert named == set(known), "a variant for an exercise that is not there, or an exercise without any"


def test_every_number_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does each number have one title and one question, and does a second use raise an error with the next free number?"""
    assert {m.name for stem in catalogue.STEMS for m in catalogue.mistakes_of(stem)} == set(catalogue.MESSAGES)
    assert all("?" in question for question in catalogue.QUESTIONS.values())
    real = catalogue.mistakes_of
    for number, words, said in (
        ("M6", ("again", "Why?"), r"M6 is '.*' and 'again'; M\d+ is free"),
        ("M54", ("again", "Why?"), r"M54 is '.*' and 'again'; M\d+ is free"),
        ("M999", (), "M999: expected a title and a question"),
    ):
        added = Mistake(number, *words)
        monkeypatch.setattr(
            catalogue, "mistakes_of", lambda stem, added=added: (*real(stem), *[added] * (stem == "vit"))
        )
        with pytest.raises(ValueError, match=said):
            catalogue.mistakes_by_number()


def test_readme_counts_what_there_is() -> None:
    """Are there more wrong functions, mistakes and right answers than the README says?"""
    exercises = {stem: exercises_of(stem).values() for stem in catalogue.STEMS}
    wrong = [name for each in exercises.values() for exercise in each for name in exercise.mistakes()]
    right = [name for stem in catalogue.STEMS for answers in right_answers_of(stem).values() for name in answers]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    made = {name.split("/")[0] for name in wrong}
    said = re.findall(r"more than ([\d,]+) (wrong functions|known mistakes|right functions)", readme, re.I)
    found = {"wrong functions": len(wrong), "known mistakes": len(made), "right functions": len(right)}
    assert [kind for _, kind in said] == list(found)
    assert all(found[kind] > int(number.replace(",", "")) > 0.9 * found[kind] - 50 for number, kind in said), found

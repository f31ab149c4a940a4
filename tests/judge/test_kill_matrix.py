"""Is the kill matrix correct, and can the proof of the checks fail?"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from conftest import NAME

from autograder.checks.attention.exercises import EXERCISES
from autograder.checks.attention.mistakes import MISTAKES
from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, right_answers_of
from autograder.judge.kill_matrix import Matrix, Verdict, kept_matrix, kill_matrix
from autograder.judge.mistake import Mistake, variant


def test_kept_matrix_is_made_once_of_the_same_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Is a stored matrix read for the same inputs and files, and made again for others?"""
    seeds = []

    def make(name: str, stem: str, seed: int, progress: Callable) -> Matrix:
        seeds.append(seed)
        mutant = Verdict("softmax", "M3", {"extreme": "M3"}, "")
        return Matrix(name, stem, seed, [mutant], [Verdict("softmax", "loops")])

    monkeypatch.setattr("autograder.judge.kill_matrix.MATRICES", tmp_path)
    monkeypatch.setattr("autograder.judge.kill_matrix.kill_matrix", make)
    assert kept_matrix(NAME, "attention", 0) == kept_matrix(NAME, "attention", 0) == make(NAME, "attention", 0, print)
    kept_matrix(NAME, "attention", 1)
    monkeypatch.setattr("autograder.judge.kill_matrix.imported_files", lambda *modules: {ROOT / "README.md"})
    kept_matrix(NAME, "attention", 1)
    assert seeds == [0, 0, 1, 1]


SOFTMAX = EXERCISES["softmax"]
WITHOUT_EXTREME = {name: cases for name, cases in SOFTMAX.stages.items() if name != "extreme"}
NOTHING = Mistake("M8", variant("softmax", "np.exp(shifted)", "np.exp(shifted)"))
TWIN = Mistake("M8", next(mistake for mistake in MISTAKES if mistake.name == "M5").variants[0])
OFF = {"off by 1 %": lambda scores, axis=-1: 1.01 * scipy.special.softmax(scores, axis)}
PICKY = {"picky": lambda scores, axis=-1: scipy.special.softmax(np.where(scores == 2.0, 9.0, scores), axis)}


@pytest.mark.parametrize(
    ("exercise", "right", "wrong"),
    [
        (SOFTMAX, right_answers_of("attention")["softmax"], []),
        (replace(SOFTMAX, stages=WITHOUT_EXTREME), {}, ["M3"]),
        (replace(SOFTMAX, known=(*MISTAKES, NOTHING)), {}, ["M8"]),
        (replace(SOFTMAX, known=(*MISTAKES, TWIN)), {}, ["M5", "M8"]),
        (SOFTMAX, OFF, ["off by 1 %"]),
        (SOFTMAX, PICKY, ["picky"]),  # the visible test alone refuses it
    ],
    ids=["whole", "a stage is missing", "no change", "two of one result", "a point is lost", "not passed by students"],
)
def test_proof_fails_for_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, exercise: Exercise, right: dict[str, Callable], wrong: list[str]
) -> None:
    """Does the proof fail for mutants that are not caught and named, and for right answers that do not pass?"""
    monkeypatch.setattr("autograder.judge.kill_matrix.exercises_of", lambda stem: {"softmax": exercise})
    monkeypatch.setattr("autograder.judge.kill_matrix.right_answers_of", lambda stem: {"softmax": right})
    matrix = kill_matrix(NAME, "attention", 0)
    found = {each.name for each in matrix.mutants if not (each.killed and each.named)}
    found |= {each.name for each in matrix.correct if not each.passes}
    assert found >= {*wrong} and bool(found) == bool(wrong)
    assert matrix.is_complete == (not wrong)
    assert not Verdict("softmax", "M5", {"values": "M5", "extreme": "M8"}).named  # another name next to the right one


def test_a_mistake_in_an_exercise_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a misspelt exercise stop the proof, instead of dropping its mistake?"""
    misspelt = Mistake("M8", variant(("softmax", "atention"), "shifted", "scores"))
    monkeypatch.setattr(catalogue, "mistakes_of", lambda stem: (*MISTAKES, misspelt))
    with pytest.raises(ValueError, match=r"M8: no exercise is called 'atention'\. The exercises are: attention, "):
        kill_matrix(NAME, "attention", 0)

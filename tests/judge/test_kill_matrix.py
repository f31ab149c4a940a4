"""Is the kill matrix correct, and can the proof of the checks fail?"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from attention_tests import compare
from conftest import NAME, lost

from autograder.checks.attention.exercises import EXERCISES
from autograder.checks.attention.mistakes import MISTAKES
from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, exercises_of
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


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Matrix]:
    """Return a function that makes the matrix of softmax alone, with other right answers or another change."""

    def proof_with(right: dict[str, Callable] | None = None, **changed) -> Matrix:
        changed_exercise = replace(EXERCISES["softmax"], **changed)
        monkeypatch.setattr("autograder.judge.kill_matrix.exercises_of", lambda stem: {"softmax": changed_exercise})
        if right is not None:
            monkeypatch.setattr("autograder.judge.kill_matrix.right_answers_of", lambda stem: {"softmax": right})
        return kill_matrix(NAME, "attention", 0)

    assert proof_with().is_complete
    return proof_with


def test_proof_fails_when_a_stage_is_missing(proof: Callable[..., Matrix]) -> None:
    """If no check has large scores, does M3 survive, and does the proof fail?"""
    stages = {name: cases for name, cases in EXERCISES["softmax"].stages.items() if name != "extreme"}
    matrix = proof(stages=stages)
    assert not matrix.is_complete
    assert "M3" in {verdict.name for verdict in matrix.mutants if not verdict.killed}


def test_proof_fails_when_a_mutant_changes_nothing(proof: Callable[..., Matrix]) -> None:
    """Does the proof notice a mutant that changes nothing?"""
    nothing = Mistake("M8", variant("softmax", "np.exp(shifted)", "np.exp(shifted)"))
    assert not proof(known=(*MISTAKES, nothing)).is_complete


def test_a_mistake_in_an_exercise_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a misspelt exercise stop the proof, instead of dropping its mistake?"""
    misspelt = Mistake("M8", variant(("softmax", "atention"), "shifted", "scores"))
    monkeypatch.setattr(catalogue, "mistakes_of", lambda stem: (*MISTAKES, misspelt))
    with pytest.raises(ValueError, match=r"M8: no exercise is called 'atention'\. The exercises are: attention, "):
        kill_matrix(NAME, "attention", 0)


def test_proof_fails_when_a_mutant_is_named_wrongly(proof: Callable[..., Matrix]) -> None:
    """Does the proof notice two mistakes with the same result, so that neither can be named?"""
    whole_array = next(mistake for mistake in MISTAKES if mistake.name == "M5")
    matrix = proof(known=(*MISTAKES, Mistake("M8", whole_array.variants[0])))
    assert not matrix.is_complete
    assert [verdict.name for verdict in matrix.mutants if verdict.killed and not verdict.named] == ["M5", "M8"]


def test_proof_fails_when_a_right_answer_loses_points(proof: Callable[..., Matrix]) -> None:
    """Does the proof notice a right answer that loses points?"""
    assert not proof(
        {"off by 1 %": lambda scores, axis=-1: 1.01 * scipy.special.softmax(scores, axis=axis)}
    ).is_complete


def test_proof_fails_when_the_visible_test_refuses_a_right_answer(proof: Callable[..., Matrix]) -> None:
    """Does the proof notice that only the visible test refuses a right answer?"""
    matrix = proof({"picky": lambda scores, axis=-1: scipy.special.softmax(np.where(scores == 2.0, 9.0, scores), axis)})
    assert not matrix.correct[0].killed
    assert not matrix.is_complete


@pytest.mark.parametrize(
    ("stem", "name", "mistake"),
    [("attention", "attention", "M8"), ("encoder", "LayerNorm", "M34"), ("vit", "train_epoch", "M53")],
)
def test_wrong_answer_survives_blind_checks(
    stem: str, name: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does a wrong function, class or training loop survive if the comparison tolerates everything?"""
    each = exercises_of(stem)[name]
    assert lost(each, each.mistakes()[mistake])
    Exercise.stage_cases.cache_clear()
    monkeypatch.setattr(compare, "TOLERANCE", {"rtol": 1e9, "atol": 1e9, "equal_nan": True})
    assert lost(each, each.mistakes()[mistake]) == {}
    Exercise.stage_cases.cache_clear()

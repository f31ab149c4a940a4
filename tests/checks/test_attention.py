"""Exercise 1: two mistakes at once, the seed, and the inputs."""

import contextlib
from itertools import combinations

import numpy as np
import pytest
import scipy.special
from attention_tests.compare import fingerprint
from conftest import lost, soon

from autograder.checks.attention.exercises import EXERCISES, check
from autograder.judge import exercise
from autograder.judge.exercise import Exercise
from autograder.judge.mistake import variants_of

# ---------------------------------------------------------------------------------------------- two mistakes at once


@pytest.mark.parametrize("name", soon(("softmax", "attention"), "softmax"))
def test_two_mistakes_never_make_a_third(name: str) -> None:
    """Do any two mistakes at once lose points, without the name of a third mistake?"""
    each, wrong = EXERCISES[name], {}
    first = {number: variant for number, variant in variants_of(name, each.known).items() if "/" not in number}
    for (one, variant), (other, second) in combinations(first.items(), 2):
        with contextlib.suppress(ValueError):  # both mistakes change the same words
            given = lost(each, each.changed(variant, second))
            if not given or not {*given.values()} <= {one, other, None}:
                wrong[one, other] = given
    assert wrong == {}


# -------------------------------------------------------------------------------- what a student reads, and when


def test_seed_gives_the_same_inputs() -> None:
    """Does a check draw the same inputs for the same seed, and different inputs for another seed?"""
    for each in EXERCISES.values():
        for stage in each.stages:
            drawn = {}
            for round_, seed in enumerate([5, 5, 6]):
                Exercise.stage_cases.cache_clear()
                drawn[round_] = [case["arguments"] for case in each.stage_cases(stage, seed)]
            for first, again, other in zip(*drawn.values(), strict=True):
                for one, same, different in zip(first, again, other, strict=True):
                    np.testing.assert_array_equal(one, same)
                    # a causal mask, and the state before the first block, are the same for every seed
                    if isinstance(one, np.ndarray) and one.dtype != bool and np.unique(one).size > 1:
                        assert not np.array_equal(one, different), f"{each.name}, {stage}"


def test_seed_differs_between_stages() -> None:
    """Do two stages draw different inputs from one seed, so that one stage tells nothing about another?"""
    arrays = [
        case["arguments"][0].tobytes()
        for each in EXERCISES.values()
        for stage in each.stages
        for case in each.stage_cases(stage, 5)
    ]
    assert len(set(arrays)) >= len(arrays) - 5, "only the six axes of one array share it"


def test_check_takes_the_seed_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a hidden test under plain nbgrader draw from AUTOGRADER_SEED?"""
    seen = []

    def spy(scores, axis=-1):
        seen.append(scores.copy())
        return scipy.special.softmax(scores, axis=axis)

    for seed in ("21", "21", "22"):
        monkeypatch.setenv("AUTOGRADER_SEED", seed)
        check("softmax", "values", spy)
    first, again, other = seen[::4]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_run_seed_is_drawn_when_nobody_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a process without AUTOGRADER_SEED draw a seed once and keep it, as plain nbgrader needs?"""
    monkeypatch.delenv("AUTOGRADER_SEED", raising=False)
    assert exercise.run_seed() == exercise.run_seed()


# --------------------------------------------------------------------------------------------- judging, in detail


def test_fingerprint_tells_orders_apart() -> None:
    """Do the fingerprints differ for the same numbers in another order, for a NaN and for an infinity?"""
    arrays = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, np.nan, 3.0], [1.0, np.inf, 3.0], [1.0, -np.inf, 3.0]]
    prints = [fingerprint({"arrays": {"weights": np.array(array)}, "changed": False})[0] for array in arrays]
    assert len({round(each, 3) for each in prints}) == len(arrays)

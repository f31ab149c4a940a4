"""Do the checks of dropout give the same verdict whatever is dropped?"""

import contextlib

import numpy as np
import pytest
from conftest import ALL, cases_of
from other_processor import other_processor

from autograder.judge.exercise import Case, Exercise, exercises_of


def cases_of_dropout(each: Exercise) -> list[Case]:
    """Return the visible and hidden cases with dropout."""
    return [case for _, case in cases_of(each, 0) if np.ndim(case.arguments[0]) == 0 and case.arguments[0] == "dropout"]


DROPPING = [
    pytest.param(each, id=each.name, marks=pytest.mark.deep if each.name in ("EncoderBlock", "Encoder", "ViT") else ())
    for stem in ALL.values()
    for each in exercises_of(stem).values()
    if cases_of_dropout(each)
]


@pytest.mark.parametrize("each", DROPPING)
def test_no_mistake_is_named_by_what_was_dropped(each: Exercise) -> None:
    """Does every mistake in a case of dropout give the same result on all processors, which draw different numbers?"""
    cases, found = cases_of_dropout(each), []
    for seed in range(3):
        with other_processor(seed) if seed else contextlib.nullcontext():
            prepared = each.prepare(cases)
            found.append(
                [{name: np.round(prints, 3) for name, prints in case["mistakes"].items()} for case in prepared]
            )
    assert all(found[0])
    for other in found[1:]:
        np.testing.assert_equal(other, found[0])


def test_every_kind_of_dropout_is_asked() -> None:
    """Does the list hold all layers with dropout?"""
    assert {each.id for each in DROPPING} >= {"MultiHeadAttention", "FeedForward", "EncoderBlock", "Encoder", "ViT"}

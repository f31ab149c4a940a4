"""Does every change of a word that makes a difference in an answer cost a point?"""

import pytest
from conftest import ALL

from autograder.judge.exercise import exercises_of, seeded
from autograder.judge.mutations import Score, equivalent_in, score_of, scores_of

SOON = {"attention": "softmax", "multihead": "split_heads", "encoder": "LayerNorm", "vit": "patchify"}


def assert_noticed(score: Score) -> None:
    """Fail with the mutations that cost nothing and are not known as equivalent, or if too few are caught."""
    assert score.missed == ()
    assert len(score.caught) > 2 * len(score.equivalent)


@pytest.mark.parametrize("stem", SOON)
def test_mutation_is_noticed(stem: str) -> None:
    """Do the hidden checks notice every possible mutation of an answer, or is the reason written down?"""
    with seeded(0):
        score = score_of(exercises_of(stem)[SOON[stem]], 0, equivalent_in(stem))
    assert_noticed(score)
    assert score.made >= score.run > 10


@pytest.mark.deep
@pytest.mark.parametrize("stem", ALL.values())
def test_mutation_is_noticed_everywhere(stem: str) -> None:
    """Do hidden checks notice every mutation in every exercise, and do visible tests notice nineteen of twenty?"""
    scores = scores_of(stem, 1)
    for score in scores:
        assert_noticed(score)
    assert sum(len(score.caught_by_visible) for score in scores) >= 0.95 * sum(len(score.caught) for score in scores)


def test_mutation_that_nobody_notices_is_missed() -> None:
    """Does a mutation that the checks do not notice count as missed, unless a reason is written down?"""
    with seeded(0):
        score = score_of(exercises_of("vit")["patchify"], 0, {})
    assert [name.partition(": ")[2] for name in score.missed] == ["-2 -> 2"]

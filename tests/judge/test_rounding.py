"""Does a right answer in float32 have a large margin for rounding, with any seed?"""

import pytest
from attention_tests import compare
from conftest import ALL

from autograder.judge.exercise import exercises_of, right_answers_of


@pytest.mark.parametrize("stem", ALL.values())
@pytest.mark.parametrize(
    ("seeds", "others", "share"),
    [
        (1, False, 1 / 3),
        pytest.param(5, False, 1 / 3, marks=pytest.mark.deep),
        pytest.param(8, True, 4 / 5, marks=pytest.mark.deep),
    ],
)
@pytest.mark.few(1)
def test_right_answers_leave_a_margin(
    monkeypatch: pytest.MonkeyPatch, stem: str, seeds: int, others: bool, share: float
) -> None:
    """Does our answer pass with a third of the allowed difference, and do all right answers with four fifths of it?"""
    for part in ("rtol", "atol"):
        monkeypatch.setitem(compare.TOLERANCE, part, share * compare.TOLERANCE[part])
    refused = []
    for name, exercise in exercises_of(stem).items():
        answers = {"ours": getattr(exercise.answers, name)} | (right_answers_of(stem).get(name, {}) if others else {})
        for title, answer in answers.items():
            for seed in range(seeds):
                failed = exercise.failures(answer, seed)
                refused += [f"{name}, {title}, seed {seed}, {stage}: {error}" for stage, error in failed.items()]
    assert not refused, "\n".join(refused)

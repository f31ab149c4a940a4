"""Does every change of a word of an answer that makes a difference cost a point?"""

from types import ModuleType

import pytest
from conftest import ALL
from slips import slips_of, unnoticed
from test_mistake import ANSWERS

from autograder.checks.debugging.student_tests import ExerciseInTests
from autograder.judging.exercise import Exercise, exercises_of, seeded

EVERY = [
    pytest.param(each, id=each.name)
    for stem in ALL.values()
    for each in exercises_of(stem).values()
    if not isinstance(each, ExerciseInTests)  # of a test that a student writes many words may be others
]
SOON = {"softmax", "split_heads", "LayerNorm", "patchify"}  # one of each assignment


def assert_noticed(each: Exercise) -> None:
    """Say which slips cost nothing and are not known to be equivalent."""
    with seeded(0):
        count, left = unnoticed(each, 0)
    assert [name for name, why in left.items() if not why] == []
    assert count > 2 * len(left)


@pytest.mark.parametrize("each", [param for param in EVERY if param.id in SOON])
def test_slip_is_noticed(each: Exercise) -> None:
    """Do the hidden checks notice every slip that can be made in an answer, or is it written down why not?"""
    assert_noticed(each)


@pytest.mark.deep
@pytest.mark.parametrize("each", [param for param in EVERY if param.id not in SOON])
def test_slip_is_noticed_everywhere(each: Exercise) -> None:
    """The same for every other exercise."""
    assert_noticed(each)


def test_slips_change_one_word(tmp_path) -> None:
    """Are operators, constants, names and lines changed, one at a time, and the answer else what it was?"""
    module = ModuleType("answers")
    module.__file__ = str(tmp_path / "answers.py")
    (tmp_path / "answers.py").write_text(ANSWERS, encoding="utf-8")
    slips = slips_of(module, "answer")
    given = {said.partition(": ")[2]: function(3) for said, function in slips.items()}
    assert given["helper(x) + 1 -> helper(x) - 1"] == 5
    assert given["helper(x) -> x"] == 4
    assert given["1 -> 2"] == 8
    assert given["0 * math.pi -> math.pi"] == pytest.approx(7 - 3.14159, abs=1e-4)

"""Does a changed notebook get the same points as the unchanged one in the sandbox, and does submit-check agree?"""

from pathlib import Path

import nbformat
import pytest
import test_repair_property as changes
from conftest import SEED, assignment_of

from autograder.grade.job import grade_one
from autograder.grade.submit_check import submit_check
from autograder.grade.task import Job, Task
from autograder.imports import ROOT

# Assignment, and the change of its solved notebook: what, where, and how.
CHANGED = {
    "halves with a cell between": ("1_attention", [(changes.split, 1, 12), (changes.scratch, 10, 2)]),
    "a helper above a half": ("1_attention", [(changes.repeat_helper, 1, 0), (changes.split, 1, 30)]),
    "all in the last cell": ("1_attention", [(changes.strip, 0, 0), (changes.all_in_one, 0, 1)]),
    "an experiment at the end": ("1_attention", [(changes.strip, 0, 0), (changes.scratch, 0, 3)]),
    "merged, in an old format": ("2_multihead", [(changes.merge, 7, 1), (changes.reformat, 0, 0)]),
    "moved and packed": ("2_multihead", [(changes.move, 9, 3), (changes.encode, 0, 4)]),
    "halves of three": ("2_multihead", [(changes.split, 3, 6), (changes.split, 3, 4), (changes.copy, 3, 9)]),
    "an import that fails": ("2_multihead", [(changes.scratch, 0, 4), (changes.picture, 0, 1)]),
}


@pytest.mark.parametrize("case", CHANGED)
@pytest.mark.few(2)
def test_a_changed_notebook_keeps_its_points(case: str, tmp_path: Path) -> None:
    """Are all points of the tests there, or is a person asked, and does submit-check say so before the submission?"""
    name, done = CHANGED[case]
    assignment, work = assignment_of(name), changes.changed(name, done)
    notebooks = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
    fields = grade_one(Task(name, *notebooks, SEED), Job(work.data))
    failed = {check["name"] for check in fields["checks"] if not check["passed"]}
    assert fields["checks"] != []
    assert failed == set() or fields["questions"] != [], (failed, fields["receipt"], fields["why"])
    if case not in list(CHANGED)[::2]:
        return
    path = tmp_path / f"{assignment.notebook}.ipynb"
    path.write_bytes(work.data)
    look = submit_check(path, ROOT / "exercises", sandboxed=True)
    assert (look.assignment, look.results == []) == (name, False)
    assert set(look.receipt) == set(fields["receipt"])
    assert look.questions == fields["questions"]
    wrong = {said for said, error in look.results if error and not said.startswith("the cell ")}
    assert wrong == {said for said, _ in look.results if any(each.startswith(f"{said}_") for each in failed)}

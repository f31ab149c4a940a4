"""Does honest work arrive, whatever editors, systems and people do to a notebook, and is any other file refused?"""

import json
from typing import Any

import hypothesis.strategies as st
import nbformat
import pytest
from conftest import SEED, assignment_of, repaired
from damage import all_in_one, changed, encode, merge, move, picture, reformat, scratch, strip
from fuzzing import EXAMPLES, fuzz
from nbformat import NotebookNode

from autograder.cells import is_grade, is_locked, is_test
from autograder.course.course import Assignment
from autograder.files import Unreadable
from autograder.grade.job import grade_one
from autograder.grade.task import Job, Task

# ---------------------------------------------------------------------------------------- the same points

# Assignment, and the change of its solved notebook: what, where, and how.
CASES = {
    "all in the last cell": ("1_attention", [(strip, 0, 0), (all_in_one, 0, 1)]),
    "an import that fails": ("1_attention", [(scratch, 0, 4), (picture, 0, 1)]),
    "an experiment at the end": ("1_attention", [(strip, 0, 0), (scratch, 0, 3)]),
    "merged, in an old format": ("2_multihead", [(merge, 7, 1), (reformat, 0, 0)]),
    "moved and packed": ("2_multihead", [(move, 9, 3), (encode, 0, 4)]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.few(4)
def test_a_changed_notebook_keeps_its_points(case: str) -> None:
    """Are all points of the tests there, or is a person asked, and does the visible test fail if a hidden one does?"""
    name, done = CASES[case]
    assignment, work = assignment_of(name), changed(name, done)
    notebooks = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
    fields = grade_one(Task(name, *notebooks, SEED), Job(work.data))
    failed = {check["name"] for check in fields["checks"] if not check["passed"]}
    assert fields["checks"] != []
    assert failed == set() or fields["questions"] != [], (failed, fields["receipt"], fields["why"])
    visible = [cell for cell in nbformat.reads(fields["notebook"], 4).cells if is_test(cell) and not is_grade(cell)]
    wrong = {cell.id for cell in visible if any(output.output_type == "error" for output in cell.outputs)}
    tests = sorted((cell.id for cell in visible), key=len)  # attention_backward_keys is none of attention's tests
    assert wrong == {[test for test in tests if f"test_{each}".startswith(f"{test}_")][-1] for each in failed}


# ------------------------------------------------------------------------------------------------- any file

ODD_WORDS = [
    "softmax",
    "def softmax(x):",
    "!pip install x",
    "<b>",
    "](javascript:x)",
    "\n",
    '"',
    "\\",
    "\ud800",
    "\x00",
    "cells",
]
TEXT = st.text(max_size=20) | st.lists(st.sampled_from(ODD_WORDS), max_size=6).map("".join)
ODD = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT, st.lists, max_leaves=4)


def repaired_or_refused(data: bytes, assignment: Assignment) -> list[NotebookNode]:
    """Return the repaired cells, or none if the file is refused; any other outcome is an error."""
    try:
        found = repaired(data, assignment)
    except Unreadable as error:
        assert str(error)
        return []
    nbformat.validate(found.notebook)
    nbformat.writes(found.notebook).encode()  # this fails if half of a character is left
    locked = sorted(cell.source for cell in found.notebook.cells if is_locked(cell))
    assert locked == sorted(cell.source for cell in assignment.instructor.cells if is_locked(cell))
    assert all("\n" not in entry for entry in found.receipt)
    return found.notebook.cells


@EXAMPLES
def test_any_bytes_are_repaired_or_refused(assignment: Assignment, perfect: NotebookNode, examples: int) -> None:
    """Does a file that is cut, joined, overwritten or generated end as a notebook or as a refusal with a reason?"""
    whole = json.dumps(perfect).encode()
    places = st.integers(0, len(whole))
    changes = st.lists(
        st.tuples(places, places, st.binary(max_size=20) | TEXT.map(lambda t: t.encode("utf-8", "replace")))
    )

    def holds(file: bytes | list[tuple[int, int, bytes]]) -> None:
        data = file if isinstance(file, bytes) else whole
        for start, end, new in file if isinstance(file, list) else []:
            data = data[:start] + new + data[end:]
        repaired_or_refused(data[: 2 * len(whole)], assignment)

    fuzz(examples, st.binary() | changes, holds)


@EXAMPLES
def test_any_notebook_is_repaired_or_refused(assignment: Assignment, perfect: NotebookNode, examples: int) -> None:
    """Do released, copied, changed and generated cells, with fields of any type, give a notebook that can be graded?"""
    known = st.sampled_from(perfect.cells).map(dict)
    metadata = st.fixed_dictionaries({"nbgrader": ODD | st.fixed_dictionaries({"grade_id": ODD | st.just("softmax")})})
    odd = st.dictionaries(
        st.sampled_from(["cell_type", "source", "metadata", "id", "outputs", "input"]), ODD | metadata
    )
    made = st.fixed_dictionaries(
        {"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": TEXT | st.lists(TEXT)}
    )
    cells = st.lists(known | st.builds(lambda one, other: one | other, known, odd) | made | odd | ODD)
    sheets = st.lists(ODD | st.fixed_dictionaries({"cells": ODD | cells}), max_size=3)
    content = st.fixed_dictionaries({"cells": ODD | cells}) | st.fixed_dictionaries({"worksheets": ODD | sheets})
    notebooks = ODD | st.builds(dict.__or__, st.dictionaries(TEXT, ODD, max_size=2), content)

    def holds(notebook: dict[str, Any]) -> None:
        repaired_or_refused(json.dumps(notebook).encode(), assignment)

    fuzz(examples, notebooks, holds)

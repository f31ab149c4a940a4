"""Does any submission give a notebook to grade, or a refusal with a reason, in steps proportional to its size?"""

import json
from typing import Any

import hypothesis.strategies as st
import nbformat
import pytest
from conftest import repaired
from fuzzing import EXAMPLES, fuzz, steps
from nbformat import NotebookNode

from autograder.cells import is_locked
from autograder.course.course import Assignment
from autograder.files import Unreadable

WORDS = [
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
TEXT = st.text(max_size=20) | st.lists(st.sampled_from(WORDS), max_size=6).map("".join)
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


@EXAMPLES
def test_work_is_kept_however_cells_lie(assignment: Assignment, perfect: NotebookNode, examples: int) -> None:
    """Are answers restored to their places after cells were moved, copied, mixed with others, or lost their ids?"""
    answers = [index for index, cell in enumerate(assignment.release.cells) if is_answer_in_code(cell)]
    released, own = [dict(cell) for cell in assignment.release.cells], {"cell_type": "code", "source": "x = 1"}
    extra = st.lists(st.sampled_from([*released, own]), max_size=8)

    def holds(drawn: tuple[list[int], list[dict[str, Any]], bool, str]) -> None:
        order, extra, with_ids, encoding = drawn
        cells = [dict(perfect.cells[index]) for index in order] + extra[: len(extra) // 2]
        cells = extra[len(extra) // 2 :] + cells
        if not with_ids:
            cells = [{"cell_type": cell["cell_type"], "source": cell["source"]} for cell in cells]
        notebook = repaired(json.dumps({"cells": cells}).encode(encoding), assignment).notebook
        graded = {cell.metadata.nbgrader.grade_id: cell.source for cell in notebook.cells if is_answer_in_code(cell)}
        assert graded == {perfect.cells[i].metadata.nbgrader.grade_id: perfect.cells[i].source for i in answers}

    orders = st.permutations(range(len(perfect.cells)))
    fuzz(examples, st.tuples(orders, extra, st.booleans(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), holds)


def is_answer_in_code(cell: NotebookNode) -> bool:
    """Whether a cell is code that students write."""
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))


@pytest.mark.parametrize("kind", ("alike", "defining", "torn", "own", "copies"))
@pytest.mark.deep
def test_repair_takes_steps_in_proportion(assignment: Assignment, perfect: NotebookNode, kind: str) -> None:
    """Do twice as many cells take at most twice the steps, whatever they look like?"""

    def file(count: int) -> bytes:
        cell = dict(perfect.cells[3])
        if kind in ("alike", "defining", "own"):
            source = {"alike": cell["source"] + " x", "defining": "def softmax(): {}", "own": "!pip install {}"}[kind]
            cells = [{"cell_type": "code", "source": source.replace("{}", str(number))} for number in range(count)]
        else:
            cells = [cell] * count
        return json.dumps({"cells": cells}).encode()[: -1 if kind == "torn" else None]

    repaired(file(10), assignment)  # the first call compiles the patterns
    few, many = file(200), file(400)
    assert steps(lambda: repaired(many, assignment)) <= 2.2 * steps(lambda: repaired(few, assignment))

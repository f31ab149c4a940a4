"""Are the released cells restored in a mangled notebook, with the student's work and a receipt in words?"""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum
from sample_class import answer

from autograder.course.course import Assignment, Course
from autograder.files import Unreadable
from autograder.grade.repair import Repaired, repair_notebook


def place(notebook: NotebookNode, name: str) -> int:
    """Return the index of a cell."""
    return next(i for i, cell in enumerate(notebook.cells) if cell.get("id") == name)


def to_bytes(notebook: NotebookNode | dict) -> bytes:
    """Write a notebook as it is: nbformat would refuse or repair a torn one."""
    return json.dumps(notebook).encode()


def repaired_from(data: bytes, assignment: Assignment) -> Repaired:
    """Repair a file, and check that the result is a valid notebook and that the receipt consists of sentences."""
    repaired = repair_notebook(data, assignment.instructor, assignment.release)
    nbformat.validate(repaired.notebook)
    assert all(" " in entry and "\n" not in entry for entry in repaired.receipt)
    return repaired


def graded_cells(notebook: NotebookNode) -> list[tuple[str, ...]]:
    """Return what a grader sees of nbgrader's cells: text, kind, outputs, and nbgrader's fields with points and flags."""
    cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    outputs = [json.dumps([cell.get("outputs"), cell.get("execution_count")]) for cell in cells]
    fields = [json.dumps(cell.metadata.nbgrader, sort_keys=True) for cell in cells]
    return [(cell.source, cell.cell_type, *more) for cell, *more in zip(cells, outputs, fields)]


# Each of these changes keeps all answers: the grader has to see the same as in the untouched submission.


def edit_locked_cells(notebook: NotebookNode) -> None:
    """Change every locked cell, and claim a very large number of points, with outputs that say so too."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "15"})]
            cell.execution_count = 5
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = "pass"
            cell.metadata.nbgrader.points = 1000
            cell.metadata.nbgrader.locked = False


def odd_fields(notebook: NotebookNode) -> None:
    """Give fields the wrong type wherever possible, and add cells that are no cells."""
    for cell in notebook.cells:
        cell.source = cell.source.splitlines(keepends=True)
        cell.outputs = "none"
        cell.execution_count = [7]
    notebook.cells[place(notebook, "setup")].metadata = {"nbgrader": [1], "id": 4}
    notebook.cells += [None, 7, "cell", [], {}, {"source": 4}, {"source": None}, {"cell_type": 1, "source": [1, "x"]}]
    notebook.nbformat = "four"
    notebook.metadata = None


def many_cells(notebook: NotebookNode) -> None:
    """Add ten thousand own cells."""
    notebook.cells += [nbformat.v4.new_code_cell(f"x = {number}") for number in range(10_000)]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (edit_locked_cells, "The locked cell softmax_extreme was changed; the changed cell runs first"),
        (odd_fields, ""),
        (many_cells, "Not placed: "),
    ],
)
def test_repair_keeps_every_answer(
    assignment: Assignment, perfect: NotebookNode, spoil: Callable[[NotebookNode], None], words: str
) -> None:
    """Does the grader see the same as in an untouched submission, and does the receipt say what was done?"""
    right = repaired_from(to_bytes(perfect), assignment)
    assert right.receipt == []
    spoil(perfect)
    repaired = repaired_from(to_bytes(perfect), assignment)
    assert sorted(graded_cells(repaired.notebook)) == sorted(graded_cells(right.notebook))
    assert words in "\n".join(repaired.receipt)


def test_repair_takes_every_answer_as_it_is_written(assignment: Assignment, perfect: NotebookNode) -> None:
    """Is a text without ASCII letters an answer, and does code that quotes a text of the notebook stay in one piece?"""
    words, question = "这一行表示动词看向名词，因为点积最大。", perfect.cells[place(perfect, "text_34")].source
    answer(perfect, "softmax").source = code = f'"""\n{question}\n"""\n{answer(perfect, "softmax").source}'
    perfect.cells[place(perfect, "why_scale")] = nbformat.v4.new_markdown_cell(words)
    repaired = repaired_from(to_bytes(perfect), assignment).notebook
    assert [answer(repaired, name).source for name in ("why_scale", "softmax")] == [words, code]


def test_repair_of_an_earlier_release_blames_nobody(assignment: Assignment, perfect: NotebookNode) -> None:
    """If a student used an earlier release, does the receipt ignore its different words?"""
    for cell in perfect.cells[:4]:
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source += "\n# as it was released last week"
            cell.metadata.nbgrader.checksum = compute_checksum(cell)
    repaired = repaired_from(to_bytes(perfect), assignment)
    assert repaired.receipt == [
        "The notebook is from an earlier release; its locked cells were replaced by those of the present release."
    ]
    assert "last week" not in nbformat.writes(repaired.notebook)


def test_repair_of_an_earlier_release_drops_its_texts(assignment: Assignment) -> None:
    """Does a student's own text count as an answer, while the text of an earlier release does not?"""
    notebook = nbformat.from_dict(assignment.release)
    sources = {
        "text_34": "## 5 In words\n\n**5.1** Explain the root of the width by the variance of a sum of products."
    }
    sources["text_08"] = notebook.cells[place(notebook, "text_08")].source + "\n\nRead chapter 2 of the book again."
    sources["text_22"] = "figure = 7  # of the earlier release"
    for name, source in sources.items():
        notebook.cells[place(notebook, name)].source = source
    earlier = frozenset(cell.source.strip() for cell in notebook.cells)
    repaired = [
        repair_notebook(to_bytes(notebook), assignment.instructor, assignment.release, earlier=texts)
        for texts in (earlier, frozenset())
    ]
    taken = ["below its question was taken" in "\n".join(each.receipt) for each in repaired]
    assert (taken, repaired[0].questions) == ([False, True], [])
    assert repaired[0].receipt[0].startswith("The notebook is from an earlier release")
    assert not [cell for cell in repaired[0].notebook.cells if "own" in cell.metadata or "changed" in cell.metadata]
    answer = notebook.cells[place(notebook, "why_scale")]
    answer.source = "An answer."
    written = repair_notebook(to_bytes(notebook), assignment.instructor, assignment.release, earlier=earlier).notebook
    assert written.cells[place(written, "why_scale")].source == answer.source


def test_course_keeps_the_texts_of_earlier_releases(assignment: Assignment, tmp_path: Path) -> None:
    """Does a course that was graded with another release know its texts later, and a new course none?"""
    course = Course(tmp_path)
    course.prepare(assignment)
    assert course.earlier_texts(assignment) == frozenset()
    changed = nbformat.from_dict(assignment.release)
    changed.cells[place(changed, "text_34")].source = "Other words."
    course.prepare(Assignment(assignment.name, assignment.notebook, assignment.instructor, changed))
    course.prepare(assignment)
    assert "Other words." in course.earlier_texts(assignment)


NOT_NOTEBOOKS = {
    "nothing": (b"", "empty"),
    "an HTML page": (b"<!DOCTYPE html><title>Sign in</title>", "HTML page.*Download"),
    "an HTML page in UTF-16": ("<html></html>".encode("utf-16"), "HTML page"),
    "a JSON list": (b"[1, 2, 3]", "JSON, but not a notebook"),
    "no cells": (b'{"nbformat": 4}', "no cells"),
    "cells of the wrong type": (b'{"cells": {"source": "x"}}', "no cells"),
    "cells that are no cells": (b'{"cells": [1, null, "x"]}', "no cells that can be read"),
    "worksheets of the wrong type": (b'{"worksheets": [1, {"cells": 3}]}', "no cells"),
    "a zip file": (b"PK\x03\x04" + bytes(range(256)) * 10, "not JSON"),
    "brackets without end": (b"[" * 200_000, "not JSON"),
    "cells without end": (b'{"cells": ' + b"[" * 200_000, "not JSON"),
    "a number without end": (b'{"cells": ' + b"9" * 100_000 + b"}", "not JSON"),
    "half a surrogate pair of UTF-16": (b"\xff\xfe\x00\xd8", "not JSON"),
}


@pytest.mark.parametrize("case", NOT_NOTEBOOKS)
def test_repair_refuses_what_is_no_notebook(assignment: Assignment, case: str) -> None:
    """Is a file without any cell unreadable, with a reason that a student understands?"""
    data, words = NOT_NOTEBOOKS[case]
    with pytest.raises(Unreadable, match=words):
        repair_notebook(data, assignment.instructor, assignment.release)


def test_repair_keeps_own_cells_where_they_stood(assignment: Assignment, perfect: NotebookNode) -> None:
    """Do a student's own cells run after the released cell that they followed, so that helpers exist in time?"""
    index = place(perfect, "attention")
    perfect.cells.insert(index, nbformat.v4.new_code_cell("def helper():\n    return 1"))
    perfect.cells.insert(0, nbformat.v4.new_code_cell("import math"))
    repaired = repaired_from(to_bytes(perfect), assignment)
    sources = [cell.source for cell in repaired.notebook.cells]
    helper = sources.index("def helper():\n    return 1")
    assert "nbgrader" not in repaired.notebook.cells[helper].metadata
    assert repaired.notebook.cells[helper + 1].id == "attention"
    assert sources[0] == "import math"
    assert repaired.receipt == []


def test_repair_leaves_out_installs(assignment: Assignment, perfect: NotebookNode) -> None:
    """Are lines that need the network removed from own cells and answers, and named in the receipt?"""
    softmax = perfect.cells[place(perfect, "softmax")]
    lines = "!pip install torch\n%pip install numpy\nfrom google.colab import drive\n"
    lines += "drive.mount(\n    '/content/drive',\n)\nx = 1"
    perfect.cells.insert(0, nbformat.v4.new_code_cell(lines))
    softmax.source = softmax.source.replace("    shifted", "    !pip install \\\n      scipy\n    shifted")
    repaired = repaired_from(to_bytes(perfect), assignment)
    ours = {answer(assignment.release, "setup").source}  # the set-up cell installs its tests if they are not there
    code = "\n".join(c.source for c in repaired.notebook.cells if c.cell_type == "code" and c.source not in ours)
    lines = [line.strip() for line in code.split("\n")]
    assert not [line for line in lines if line.startswith(("!pip", "%pip", "from google", "drive.mount"))]
    assert "    pass  # left out: !pip install \\\n      # scipy\n    shifted" in code
    assert "pass  # left out: drive.mount(\n    # '/content/drive',\n# )\nx = 1" in code
    assert sum("needs the network" in entry for entry in repaired.receipt) == 5


def test_repair_of_the_unsolved_notebook_is_silent(assignment: Assignment) -> None:
    """Is the receipt empty for a notebook that was submitted as released?"""
    repaired = repaired_from(to_bytes(assignment.release), assignment)
    assert repaired.receipt == []
    for cell in (cell for cell in repaired.notebook.cells if "nbgrader" in cell.metadata):
        assert cell.source == answer(assignment.release, cell.id).source or "HIDDEN TESTS" in cell.source

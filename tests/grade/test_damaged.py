"""Does honest work arrive, whatever editors, systems and people do to a notebook, and is any other file refused?"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import nbformat
import pytest
from conftest import ALL, SEED, assignment_of, repaired
from damage import (
    CHANGED,
    Work,
    all_in_one,
    arrives,
    changed,
    copy,
    encode,
    merge,
    move,
    others_of,
    packed,
    picture,
    reformat,
    released,
    repeat_helper,
    scratch,
    split,
    strip,
)
from fuzzing import EXAMPLES, fuzz
from nbformat import NotebookNode

from autograder.cells import is_grade, is_locked, is_test
from autograder.course.course import Assignment, Course
from autograder.course.submissions import Submission
from autograder.files import Unreadable
from autograder.grade.halves import join_halves
from autograder.grade.job import grade_one
from autograder.grade.repair import repair_notebook
from autograder.grade.task import Job, Task
from autograder.lms.collect import collect
from autograder.notebooks import Cell


def arrived(work: Work, course: Course) -> Submission:
    """Return what the grader reads of a submission."""
    assignment = assignment_of(work.assignment)
    if work.collected:
        place = course.root / "download.zip"
        place.write_bytes(packed({f"ada/{path}": data for path, data in work.files.items()}))
        collect(course, assignment, [place])
    else:
        for path, data in work.files.items():
            place = course.submission_folder("ada", assignment.name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    return course.read_submission("ada", assignment)


def check(name: str, changes: list[tuple[Callable[..., None], int, int]]) -> None:
    """Check that the work of a changed notebook arrives, or that a person is asked. Check that no word is lost."""
    work, assignment = changed(name, changes), assignment_of(name)
    with tempfile.TemporaryDirectory() as folder:
        submission = arrived(work, Course(Path(folder)))
    if work.differs or submission.data != work.data:
        (question,) = submission.questions
        assert all(Path(file).name in question for file in work.notebooks), question
        return
    if work.other in (b"", released(name)):
        assert submission.questions == []
    repaired = repair_notebook(work.data, assignment.instructor, assignment.release, others_of(name), name)
    nbformat.validate(repaired.notebook)
    lost = arrives(repaired, work)
    asked = "\n".join(repaired.questions)
    assert [each for each in lost if each not in asked] == [], (lost, repaired.receipt, repaired.questions)
    kept = nbformat.writes(repaired.notebook) + "\n".join(repaired.receipt)
    assert [word for word in work.words.values() if word not in kept] == []


@EXAMPLES
def test_work_arrives_or_a_person_is_asked(examples: int) -> None:
    """After a change, does each answer reach its tests or its reader, and is no word of the student lost?"""
    fuzz(examples, st.tuples(st.sampled_from(sorted(ALL)), CHANGED), lambda drawn: check(*drawn))


# ---------------------------------------------------------------------------------------- the same points

# Assignment, and the change of its solved notebook: what, where, and how.
CASES = {
    "halves with a cell between": ("1_attention", [(split, 1, 12), (scratch, 10, 2)]),
    "a helper above a half": ("1_attention", [(repeat_helper, 1, 0), (split, 1, 30)]),
    "all in the last cell": ("1_attention", [(strip, 0, 0), (all_in_one, 0, 1)]),
    "an import that fails": ("1_attention", [(scratch, 0, 4), (picture, 0, 1)]),
    "an experiment at the end": ("1_attention", [(strip, 0, 0), (scratch, 0, 3)]),
    "merged, in an old format": ("2_multihead", [(merge, 7, 1), (reformat, 0, 0)]),
    "moved and packed": ("2_multihead", [(move, 9, 3), (encode, 0, 4)]),
    "parts of three": ("2_multihead", [(split, 3, 6), (split, 3, 4), (copy, 3, 9)]),
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


# -------------------------------------------------------------------------------------- functions in parts

HEAD, TAIL = 'def double(x):\n    """Double it.', '    Fast.\n    """\n    return 2 * x'
OPEN, REST = "def double(x):\n    y = 2 * x", "    return y"
CLASS, METHOD = "class Twice:\n    size = 2", "    def forward(self, x):\n        return 2 * x"
OTHER = "def other():\n    return 0"
JOINED = {
    "next to each other": ([HEAD, TAIL], [f"{HEAD}\n{TAIL}"]),
    "another cell between": ([HEAD, OTHER, TAIL], [f"{HEAD}\n{TAIL}", OTHER]),
    "a body that goes on": ([OPEN, REST, OTHER], [f"{OPEN}\n{REST}", OTHER]),
    "a class": ([CLASS, METHOD], [f"{CLASS}\n{METHOD}"]),
    "the head of a method": (
        ["class Twice:\n    size = 2\n\n    def forward(self, x):", "        return 2 * x"],
        ["class Twice:\n    size = 2\n\n    def forward(self, x):\n        return 2 * x"],
    ),
    "another function below the second half": ([HEAD, f"{TAIL}\n{OTHER}"], [f"{HEAD}\n{TAIL}\n{OTHER}"]),
    "a class in three pieces": (
        [CLASS, "    name = 'twice'\n\n    def forward(self, x):", "        return 2 * x"],
        [f"{CLASS}\n    name = 'twice'\n\n    def forward(self, x):\n        return 2 * x"],
    ),
    "three pieces": ([HEAD, "    Fast.", TAIL], [f"{HEAD}\n    Fast.\n{TAIL}"]),
    "the end of a signature between": (
        ["def double(\n    x", "):", "    return 2 * x"],
        ["def double(\n    x\n):\n    return 2 * x"],
    ),
    "a function that ended between": ([OPEN, OTHER, REST], [f"{OPEN}\n{REST}", OTHER]),
    "a comment between": ([OPEN, "    # and back", REST], [f"{OPEN}\n{REST}", "    # and back"]),
    "nothing was split": ([OTHER, "x = 3", "double(2"], [OTHER, "x = 3", "double(2"]),
    "a common error": (["    x = 3", "other(", "def double(x:\n    return x"],) * 2,
}
ALONE = {
    "no beginning": [OTHER, "    return y"],
    "second half first": [TAIL, OTHER, HEAD],
    "a copy of a half": [HEAD, TAIL, TAIL],
}


def joined(sources: list[str]) -> tuple[list[str], list[str]]:
    """Return the sources of the cells after joining, and the questions."""
    questions: list[str] = []
    cells = join_halves([Cell("code", source) for source in sources], set(), [], questions)
    return [cell.source for cell in cells], questions


@pytest.mark.parametrize("case", JOINED)
def test_halves_are_joined(case: str) -> None:
    """Is the function complete again in the cell where it begins, and is everything else unchanged?"""
    sources, wanted = JOINED[case]
    assert joined(sources) == (wanted, [])


@pytest.mark.parametrize("case", ALONE)
def test_half_without_its_beginning_is_a_question(case: str) -> None:
    """Is a person asked about a half that continues no cell before it?"""
    assert len(joined(ALONE[case])[1]) == 1


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

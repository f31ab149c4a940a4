"""Is the time to read, repair and show one submission linear in what a student wrote?

Each text takes hours if a step grows with the square of its length. A process of its own has two minutes for all of them.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from conftest import assignment_of
from sample_class import fill_in

from autograder.course.course import Course
from autograder.grade.repair import repair_notebook
from autograder.grade.workers import Workers
from autograder.lms.names import read_name
from autograder.notebooks import MAX_CELLS
from autograder.report.safe_html import cleaned_code, cleaned_markdown
from autograder.report.similarity import own_code, similar_pairs
from autograder.spreadsheets import defuse

SECONDS = 120.0
MANY = 150_000
PATTERNS = (
    *("!", "!\n", "[", "](", "<", "<a", "#", "*a **a ", "`", "$", "$a$", "[a]: b\n", "> ", "|a|\n|-|\n", "&#", "_a__ "),
    *("def ", "def\n", "a:", "a: ", "a\n", "from ", "import\n", "a = \n", "%a\n", "run_tests(", "{", '"', "\\n", ", "),
    *("<<<<<<< a\n", "data:image/a;base64,", "A", "a ", "1.1 ", "**1.1", "\x1b[", "\u202e", "'", "#a\n", " "),
    *("\\begin{a}", "[^"),
)
BEGINNINGS = ("", "a:", "def (\n", '"""', "from ")
NESTED = ["    " + "(" * 90_000, "def softmax(x):\n    return " + "[" * 90_000]
CODE = ["def softmax(x):\n" + "    x = 1\n" * 99_000, "def softmax(x:\n" + "\n    x\n" * 12_000, *NESTED]


def texts() -> list[str]:
    """Return long, repetitive texts."""
    return [begin + pattern * (MANY // len(pattern)) for pattern in PATTERNS for begin in BEGINNINGS]


def repair(kind: str, sources: list[str]) -> None:
    """Repair a notebook with cells of its own next to empty answers."""
    assignment = assignment_of("1_attention")
    cells = json.loads(nbformat.writes(assignment.release))["cells"]
    own = {"cell_type": kind, "id": "own", "metadata": {}, "outputs": [], "execution_count": None}
    cells += [own | {"source": source} for source in sources]
    data = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    repair_notebook(data, assignment.instructor, assignment.release)


def repair_all(kind: str) -> None:
    """Repair a notebook with each source."""
    for source in texts() + CODE:
        repair(kind, [source])


def repair_equal(kind: str, source: str) -> None:
    """Repair a notebook with as many equal cells as it may have."""
    repair(kind, [source] * MAX_CELLS)


def show_all() -> None:
    """Show each source as text and as code."""
    for source in texts():
        cleaned_markdown(source)
        cleaned_markdown(source[:20_000])
        cleaned_code(source, in_colours=False)


def read_names() -> None:
    """Read each text as the name of a file in a download; a zip archive's names have at most 65,535 bytes."""
    for name in texts() + [begin + "_1" * 30_000 for begin in ("", "LATE_", "a_1_assignsubmission_file_")]:
        read_name(name[:60_000], "1_attention")


def defuse_all() -> None:
    """Export each text in a table for a spreadsheet, and texts of characters that nobody sees."""
    for text in [*texts(), "\n" * 10**6, " " * 10**6, ";-" * 10**5, '"' * 10**6, "-" + " " * 10**6 + "x"]:
        defuse(text)


def compare_long() -> None:
    """Compare three students who wrote three megabytes each."""
    assignment = assignment_of("1_attention")
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder))
        for student in ("ada", "ben", "cai"):
            notebook = fill_in(assignment.release, assignment.instructor)
            lines = "\n".join(f"{student}_{i} = rows_{i} @ keys_{i * 7 % 11} + {i}" for i in range(6000))
            notebook.cells += [nbformat.v4.new_code_cell(lines) for _ in range(15)]
            path = course.autograded_path(student, assignment)
            path.parent.mkdir(parents=True)
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        codes = {
            student: "\n\n".join(own_code(course, assignment, student).values()) for student in ("ada", "ben", "cai")
        }
    pairs = similar_pairs(codes)
    assert sum(len(side) for pair in pairs for side in pair.sides) < 3_000_000


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        (repair_all, ("markdown",)),
        pytest.param(repair_all, ("code",), marks=pytest.mark.deep),
        (repair_equal, ("markdown", "The variance of a score grows with the width.")),
        (repair_equal, ("code", "def softmax(x):\n    return x")),
        (show_all, ()),
        (read_names, ()),
        (compare_long, ()),
        (defuse_all, ()),
    ],
)
def test_time_is_linear(job: Callable[..., None], arguments: tuple[str, ...]) -> None:
    """Is any long, repetitive or nested text repaired, shown, compared, exported, and read as a file's name?"""
    with Workers(1, seconds=SECONDS) as workers:
        [(_, result)] = workers.run(job, {"job": arguments})
    assert result is None, result

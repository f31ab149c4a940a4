"""Is the time to read, repair and show one submission linear in what a student wrote?

Each text takes hours if a step grows with the square of its length. A process of its own has two minutes for all of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

SECONDS = 120.0
MANY = 150_000
PATTERNS = (
    *("!", "!\n", "[", "](", "<", "<a", "#", "*a **a ", "`", "$", "$a$", "[a]: b\n", "> ", "|a|\n|-|\n", "&#", "_a__ "),
    *("def ", "def\n", "a:", "a: ", "a\n", "from ", "import\n", "a = \n", "%a\n", "run_tests(", "{", '"', "\\n", ", "),
    *("<<<<<<< a\n", "data:image/a;base64,", "A", "a ", "1.1 ", "**1.1", "\x1b[", "\u202e", "'", "#a\n", " "),
)
BEGINNINGS = ("", "a:", "def (\n", '"""', "from ")
NESTED = ["    " + "(" * 90_000, "def softmax(x):\n    return " + "[" * 90_000]
CODE = ["def softmax(x):\n" + "    x = 1\n" * 99_000, "def softmax(x:\n" + "\n    x\n" * 12_000, *NESTED]


def texts() -> list[str]:
    """Return long, repetitive texts."""
    return [begin + pattern * (MANY // len(pattern)) for pattern in PATTERNS for begin in BEGINNINGS]


def repair_all(kind: str, sources: list[str], times: int = 1) -> None:
    """Repair a notebook with each source in cells of its own, next to empty answers."""
    assignment = assignment_of("1_attention")
    cells = json.loads(nbformat.writes(assignment.release))["cells"]
    for source in sources:
        own = {"cell_type": kind, "id": "own", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        data = json.dumps(
            {"cells": [*cells, *[own] * times], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        ).encode()
        repair_notebook(data, assignment.instructor, assignment.release)


def show_all(sources: list[str]) -> None:
    """Show each source as text and as code."""
    for source in sources:
        cleaned_markdown(source)
        cleaned_markdown(source[:20_000])
        cleaned_code(source, in_colours=False)


def read_names(names: list[str]) -> None:
    """Read each text as the name of a file in a download; a zip archive's names have at most 65,535 bytes."""
    for name in names:
        read_name(name[:60_000], "1_attention")


def compare_long(folder: Path) -> None:
    """Compare three students who wrote three megabytes each."""
    assignment, course = assignment_of("1_attention"), Course(folder)
    for student in ("ada", "ben", "cai"):
        notebook = fill_in(assignment.release, assignment.instructor)
        lines = "\n".join(f"{student}_{i} = rows_{i} @ keys_{i * 7 % 11} + {i}" for i in range(6000))
        notebook.cells += [nbformat.v4.new_code_cell(lines) for _ in range(15)]
        path = course.autograded_path(student, assignment)
        path.parent.mkdir(parents=True)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    codes = {student: "\n\n".join(own_code(course, assignment, student).values()) for student in ("ada", "ben", "cai")}
    pairs = similar_pairs(codes)
    assert sum(len(side) for pair in pairs for side in pair.sides) < 3_000_000


def finishes(function: Callable[..., Any], *arguments: Any) -> None:
    """Run a function in a process of its own, which is ended after SECONDS."""
    with Workers(1, seconds=SECONDS) as workers:
        [(_, result)] = workers.run(function, {"job": arguments})
    assert result is None, result


@pytest.mark.parametrize("kind", ["markdown", "code"])
def test_repair_is_linear(kind: str) -> None:
    """Is a submission with any long, repetitive or nested cell repaired?"""
    finishes(repair_all, kind, texts() + CODE)


@pytest.mark.parametrize("source", ["The variance of a score grows with the width.", "def softmax(x):\n    return x"])
def test_repair_of_many_equal_cells_is_linear(source: str) -> None:
    """Is a submission with 2,000 equal cells repaired?"""
    finishes(repair_all, "code" if "def" in source else "markdown", [source], MAX_CELLS)


def test_pages_are_linear() -> None:
    """Is any long, repetitive text shown?"""
    finishes(show_all, texts())


def test_names_of_files_are_read_in_linear_time() -> None:
    """Is any long, repetitive name of a file read?"""
    finishes(read_names, texts() + [begin + "_1" * 30_000 for begin in ("", "LATE_", "a_1_assignsubmission_file_")])


def test_similarity_is_bounded(tmp_path: Path) -> None:
    """Does a student's own code of three megabytes neither hold up the report nor fill its page?"""
    finishes(compare_long, tmp_path)

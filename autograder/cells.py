"""Read nbgrader's metadata of a cell. nbgrader.utils does the same, but importing nbgrader takes seconds."""

from collections.abc import Iterable

from nbformat import NotebookNode


def grade_id(cell: NotebookNode) -> str:
    """Return nbgrader's name of a cell; "" if it has none."""
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def is_grade(cell: NotebookNode) -> bool:
    """Return whether a cell has points."""
    return bool(cell["metadata"].get("nbgrader", {}).get("grade"))


def is_solution(cell: NotebookNode) -> bool:
    """Return whether students fill in a cell."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def points_of(cell: NotebookNode) -> float:
    """Return the points of a cell. A bonus has 0 points for nbgrader, so that the maximum does not include it."""
    return float(cell.metadata.get("bonus", cell.metadata.nbgrader.points))


def files_of(cells: Iterable[NotebookNode]) -> dict[str, str]:
    """Return the files that are submitted with a notebook: each file's name, and the name of its checks."""
    return {cell.metadata["file"]: cell.metadata["checks"] for cell in cells if "file" in cell.metadata}


def is_students(cell: NotebookNode) -> bool:
    """Return whether a student wrote a cell of a repaired notebook: an answer, a new cell, or a changed released cell."""
    return is_solution(cell) or bool(cell.metadata.get("own") or cell.metadata.get("changed"))


def is_locked(cell: NotebookNode) -> bool:
    """Return whether the released text replaces the text of a cell before grading."""
    return not is_solution(cell) and (is_grade(cell) or bool(cell["metadata"].get("nbgrader", {}).get("locked")))


def is_test(cell: NotebookNode) -> bool:
    """Return whether a cell tests answers: it is locked code that is neither the set-up nor given for answers."""
    prepares = "given" in cell.metadata or "tests" in cell.metadata
    return cell.cell_type == "code" and is_locked(cell) and not prepares

"""What nbgrader's metadata say of a cell: as nbgrader.utils does, without importing nbgrader, which takes seconds."""

from collections.abc import Iterable

from nbformat import NotebookNode


def grade_id(cell: NotebookNode) -> str:
    """Return the name that nbgrader knows a cell by; nothing where there is none."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def is_grade(cell: NotebookNode) -> bool:
    """Whether a cell has points."""
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def is_solution(cell: NotebookNode) -> bool:
    """Whether a cell is the student's to fill in."""
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def points_of(cell: NotebookNode) -> float:
    """Return how many points a cell gives; to nbgrader a bonus has 0, so that it is not in the maximum."""
    return float(cell.metadata.get("bonus", cell.metadata.nbgrader.points))


def files_of(cells: Iterable[NotebookNode]) -> dict[str, str]:
    """Return the files that are to be submitted next to a notebook: by name, whose checks judge them."""
    return {cell.metadata["file"]: cell.metadata["checks"] for cell in cells if "file" in cell.metadata}


def is_students(cell: NotebookNode) -> bool:
    """Whether a student wrote what is in a cell of a repaired notebook: an answer, a new cell, a released one changed."""
    return is_solution(cell) or bool(cell.metadata.get("own") or cell.metadata.get("changed"))


def is_locked(cell: NotebookNode) -> bool:
    """Whether a cell is brought back to what was released before it is graded."""
    return not is_solution(cell) and (is_grade(cell) or bool(cell.metadata.get("nbgrader", {}).get("locked")))

"""What nbgrader's metadata say of a cell: as nbgrader.utils does, without importing nbgrader, which takes seconds."""

from nbformat import NotebookNode


def is_grade(cell: NotebookNode) -> bool:
    """Whether a cell has points."""
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def is_solution(cell: NotebookNode) -> bool:
    """Whether a cell is the student's to fill in."""
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def points_of(cell: NotebookNode) -> float:
    """Return how many points a cell gives; to nbgrader a bonus has 0, so that it is not in the maximum."""
    return float(cell.metadata.get("bonus", cell.metadata.nbgrader.points))


def is_locked(cell: NotebookNode) -> bool:
    """Whether a cell is brought back to what was released before it is graded."""
    return not is_solution(cell) and (is_grade(cell) or bool(cell.metadata.get("nbgrader", {}).get("locked")))

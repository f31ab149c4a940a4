"""Regrade requests and their answers: regrade-requests.csv in the course's folder."""

from dataclasses import dataclass
from pathlib import Path

from autograder.files import write_atomically
from autograder.spreadsheets import read_table, write_table

FILE = "regrade-requests.csv"
COLUMNS = ("student", "assignment", "part", "why", "answer")


@dataclass(frozen=True)
class Request:
    """A student's request about one part."""

    student: str
    assignment: str
    part: str
    why: str = ""
    answer: str = ""  # empty while the request is open


def read_requests(root: Path) -> list[Request]:
    """Read the requests of a course; an empty list if there is no file.

    Raises:
        ValueError: the table lacks a column. The message says which columns it has and which it needs.
    """
    return [Request(*(row.get(name, "") for name in COLUMNS)) for row in _rows(root)[1]]


def answer_request(root: Path, student: str, assignment: str, part: str, text: str) -> None:
    """Write an answer into the table, next to its request.

    Raises:
        ValueError: there is no such request.
    """
    header, rows = _rows(root)
    asked = [row for row in rows if (row["student"], row["assignment"], row["part"]) == (student, assignment, part)]
    if not asked:
        parts = sorted({row["part"] for row in rows if (row["student"], row["assignment"]) == (student, assignment)})
        known = f"asked about {', '.join(parts)}" if parts else f"asked about no part of {assignment}"
        raise ValueError(f"{root / FILE}: {student} {known}, not about {part!r}")
    for row in asked:
        row["answer"] = text
    _write(root, list(dict.fromkeys([*header, "answer"])), rows)


def drop_requests(root: Path, student: str) -> None:
    """Delete a student's requests from the table."""
    header, rows = _rows(root)
    if any(row["student"] == student for row in rows):
        _write(root, header, [row for row in rows if row["student"] != student])


def _write(root: Path, header: list[str], rows: list[dict[str, str]]) -> None:
    write_atomically(root / FILE, write_table(header, ([row.get(name, "") for name in header] for row in rows)))


def _rows(root: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the titles of the columns, and the rows; a form may have added columns of its own."""
    path = root / FILE
    if not path.exists():
        return [], []
    table = read_table(path)
    header = [title.casefold() for title in table.header]
    if missing := [name for name in COLUMNS[:3] if name not in header]:
        raise ValueError(f"{path} has the columns {', '.join(table.header)}; it lacks {', '.join(missing)}")
    return header, [dict(zip(header, (cell.strip() for cell in row))) for row in table.rows]

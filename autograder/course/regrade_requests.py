"""Regrade requests and their answers: regrade-requests.csv in the course's folder."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.files import write_atomically
from autograder.spreadsheets import read_table, write_defused

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

    def is_by(self, student: str, assignment: str) -> bool:
        """Whether it is a student's request about an assignment. Students type names with capitals and spaces."""
        return key_of(self.student) == key_of(student) and key_of(self.assignment) == key_of(assignment)


def read_requests(root: Path) -> list[Request]:
    """Read the requests of a course; an empty list if there is no file.

    Raises:
        ValueError: the table lacks a column. The message says which columns it has and which it needs.
    """
    return [Request(*(row.get(name, "") for name in COLUMNS)) for row in _rows(root)[1]]


def key_of(text: str) -> str:
    """Return the form in which two names of students, assignments or parts are compared."""
    return re.sub(r"[\s_-]+", "_", text.lstrip("'").strip().casefold())


def answer_request(root: Path, student: str, assignment: str, part: str, text: str, students: Iterable[str]) -> None:
    """Write an answer into the table, next to the open requests about a part; if none is open, correct the last answer.

    Raises:
        ValueError: there is no such student in the course, or no such request.
    """
    if key_of(student) not in map(key_of, students):
        raise ValueError(f"nobody in the course has the id {student!r}: correct the column student of {root / FILE}")
    header, rows = _rows(root)
    own = [row for row in rows if Request(row["student"], row["assignment"], "").is_by(student, assignment)]
    asked = [row for row in own if key_of(row["part"]) == key_of(part)]
    if not asked:
        parts = sorted({row["part"] for row in own})
        known = f"asked about {', '.join(parts)}" if parts else f"asked about no part of {assignment}"
        raise ValueError(f"{root / FILE}: {student} {known}, not about {part!r}")
    for row in [row for row in asked if not row.get("answer")] or asked[-1:]:
        row["answer"] = text
    _write(root, list(dict.fromkeys([*header, "answer"])), rows)


def drop_requests(root: Path, student: str) -> None:
    """Delete a student's requests from the table."""
    header, rows = _rows(root)
    kept = [row for row in rows if key_of(row["student"]) != key_of(student)]
    if len(kept) < len(rows):
        _write(root, header, kept)


def _write(root: Path, header: list[str], rows: list[dict[str, str]]) -> None:
    write_atomically(root / FILE, write_defused(header, ([row.get(name, "") for name in header] for row in rows)))


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

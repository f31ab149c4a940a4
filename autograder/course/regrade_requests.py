"""Regrade requests and their answers: regrade-requests.csv in the course's folder."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.files import write_atomically
from autograder.spreadsheets import read_columns, write_defused

FILE = "regrade-requests.csv"
NEEDED = ("student", "assignment", "part")
COLUMNS = (*NEEDED, "why", "answer")  # a form may add columns of its own


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
    table = read_columns(root / FILE, NEEDED)
    return [Request(*(table.cell(row, name) for name in COLUMNS)) for row in table.rows]


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
    table = read_columns(root / FILE, NEEDED)
    if table.place("answer") is None:
        table.header.append("answer")
        table.rows = [[*row, ""] for row in table.rows]
    requests = [(row, Request(*(table.cell(row, name) for name in COLUMNS))) for row in table.rows]
    own = [(row, request) for row, request in requests if request.is_by(student, assignment)]
    asked = [(row, request) for row, request in own if key_of(request.part) == key_of(part)]
    if not asked:
        parts = sorted({request.part for _, request in own})
        known = f"asked about {', '.join(parts)}" if parts else f"asked about no part of {assignment}"
        raise ValueError(f"{root / FILE}: {student} {known}, not about {part!r}")
    for row, _ in [(row, request) for row, request in asked if not request.answer] or asked[-1:]:
        row[table.place("answer")] = text
    write_atomically(root / FILE, write_defused(table.header, table.rows))

"""nbgrader's gradebook of a course: its address and its content.

The gradebook is a file, gradebook.db, or a PostgreSQL database; nbgrader_config.py says which. This module reads
nbgrader's tables without importing nbgrader, and each function with one query for a whole class. Module `recording`
writes to them.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import URL, Connection, DateTime, Interval, create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session, scoped_session

# A query runs on a connection, or on the `db` of an open gradebook.
Reader = Connection | Session | scoped_session
COURSE_ID = "attention"
LENGTH = 128  # characters of a name in nbgrader's tables; PostgreSQL accepts no more
MAX_ID = 120  # bytes of an id: nbgrader's gradebook has room for 128 characters, a folder's name for 255 bytes
WAIT = {"sqlite": {"timeout": "60"}, "postgresql": {"connect_timeout": "20"}}  # seconds to wait for a lock or a server
# Every query about the submissions of an assignment begins with this text.
OF_SUBMISSIONS = """FROM submitted_assignment
JOIN assignment ON assignment.id = submitted_assignment.assignment_id
JOIN submitted_notebook ON submitted_notebook.assignment_id = submitted_assignment.id"""
# A person's points replace the grader's, and extra credit is added, as in `Grade.score` of nbgrader.api.
SCORE = "COALESCE(COALESCE(manual_score, auto_score) + COALESCE(extra_credit, 0), 0)"

# nbgrader's pages print an id and a name unescaped, within HTML and within a script, where these characters could end a
# text. An id may not hold them; in a name, a similar character replaces each.
UNSAFE = '<>"\\'
QUIET = {ord("<"): "\u2039", ord(">"): "\u203a"} | dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
REMEDIES = {  # by a pattern of SQLite's message
    "no such (column|table)": 'It is from another version of nbgrader: run "nbgrader db upgrade" in the folder of the course',
    "readonly": "Make the file and its folder writable",
    "unable to open": "It must be a plain file, and you must be able to read and write it and its folder",
    "not a database|malformed": "It is damaged, or is not a gradebook. Put a copy back, or move it away to get a new one",
    "full|disk I/O": "Is the disk full? Make room",
    "locked": "Another program writes to it: wait until that is done, or stop it",
}


class GradebookError(RuntimeError):
    """The gradebook cannot be read or written; the message says what to do."""


def read_url(address: str, root: Path) -> URL:
    """Read the address of a gradebook; the path of a file is relative to the folder of the course.

    Raises:
        GradebookError: the address cannot be used. The message does not show the address, which may hold a password.
    """
    where = f"c.CourseDirectory.db_url in {root / 'nbgrader_config.py'}"
    allowed = "sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE"
    try:
        url = make_url(address)
    except ArgumentError:
        raise GradebookError(f"{where} is not the address of a database; it must be {allowed}") from None
    if url.get_backend_name() not in WAIT:
        raise GradebookError(f"{where} begins with {url.drivername}://; it must be {allowed}")
    if not url.database:
        raise GradebookError(f"{where} names no database; it must be {allowed}")
    if "@" in (url.host or ""):
        raise GradebookError(f"{where} has two @; write %40 for one that belongs to the password")
    return url.set(database=str(root / url.database)) if url.get_backend_name() == "sqlite" else url


def address_of(url: URL) -> URL:
    """Return the address for opening a gradebook, with the time to wait for it."""
    return url.update_query_dict(WAIT[url.get_backend_name()] | dict(url.query))


@contextmanager
def connected(url: URL) -> Iterator[Connection | None]:
    """Open a gradebook for reading; yield None if there is no gradebook yet.

    Raises:
        GradebookError: as `recording.opened`.
    """
    with explaining_errors(url):
        if url.get_backend_name() == "sqlite" and not Path(url.database).exists():
            yield None
            return
        engine = create_engine(address_of(url))
        try:
            with engine.connect() as connection:
                yield connection if inspect(connection).has_table("alembic_version") else None
        finally:
            engine.dispose()


@contextmanager
def explaining_errors(url: URL) -> Iterator[None]:
    """Turn the errors of a database or its driver into a GradebookError that says what to do."""
    try:
        yield
    except (DBAPIError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise GradebookError(explanation(url, error)) from None


def explanation(url: URL, error: Exception) -> str:
    """Say what a failure of the database means and what to do, without the password."""
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    if url.password:
        message = message.replace(str(url.password), "***")
    if isinstance(error, ModuleNotFoundError | NoSuchModuleError):
        return (
            f"the gradebook is in PostgreSQL, and its driver cannot be loaded ({message}). Install it: "
            '.venv/bin/pip install -e ".[postgresql]"'
        )
    if url.get_backend_name() == "sqlite":
        fitting = [remedy for words, remedy in REMEDIES.items() if re.search(words, message)]
        remedy = fitting[0] if fitting else "Look at the file and its folder"
        return (
            f"the gradebook {url.database} cannot be used: {message}. {remedy}. "
            "Finished results are kept in results/; run the command again to record them"
        )
    return (
        f"the gradebook {url.render_as_string(hide_password=True)} cannot be used: {message}. Does the server run, and do "
        "user, password and database exist? Finished results are kept in results/; when the database works, run the "
        "command again to record them"
    )


def name_in_gradebook(name: str) -> str:
    """Return a name or an e-mail address in a form that nbgrader's pages can print, cut to the allowed length."""
    return name.translate(QUIET)[:LENGTH]


def why_unfit(student: str) -> str:
    """Say why an id cannot be the name of a folder and of a row in the gradebook; an empty string if it can."""
    if not student or student.startswith(".") or "/" in student or student != student.strip():
        return f"{student!r} cannot be the name of a folder"
    if strange := [char for char in student if char in UNSAFE or unicodedata.category(char) in ("Cc", "Cs")]:
        return f"{student!r} has {', '.join(map(repr, strange))}, which an id may not have"
    if len(student.encode()) > MAX_ID:
        return f"{student[:20]!r}… has {len(student.encode())} bytes; at most {MAX_ID} are allowed"
    return ""


def students(db: Reader) -> dict[str, dict[str, str | None]]:
    """Return what the gradebook knows about each student, by id."""
    rows = db.execute(text("SELECT id, first_name, last_name, email FROM student"))
    return {row["id"]: dict(row) for row in rows.mappings()}


def in_utc(moment: datetime) -> datetime:
    """Return a moment as nbgrader stores it: in UTC, without a time zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)


@dataclass
class Grade:
    """What the gradebook knows about one graded cell of one student."""

    score: float
    waits: bool  # whether it waits for a person
    of_person: bool = (
        False  # whether a person gave points; they stay when the submission is graded again, to be confirmed
    )
    of_tests: float | None = None  # points of the tests; None for a written answer, 0 for an empty one


def grades(db: Reader, assignment: str) -> dict[str, dict[str, Grade]]:
    """Return every grade of an assignment by student and cell."""
    query = f"""SELECT student_id, base_cell.name, {SCORE}, needs_manual_grade, manual_score, auto_score {OF_SUBMISSIONS}
    JOIN grade ON grade.notebook_id = submitted_notebook.id JOIN base_cell ON base_cell.id = grade.cell_id
    WHERE assignment.name = :name"""
    by_student: dict[str, dict[str, Grade]] = {}
    for student, cell, score, waits, of_person, of_tests in db.execute(text(query), {"name": assignment}):
        grade = Grade(score, bool(waits), of_person is not None, of_tests)
        by_student.setdefault(student, {})[cell] = grade
    return by_student


def comments(db: Reader, assignment: str) -> dict[str, dict[str, str | None]]:
    """Return every comment of an assignment by student and cell. A person's comment replaces nbgrader's."""
    query = f"""SELECT student_id, base_cell.name, COALESCE(manual_comment, auto_comment) {OF_SUBMISSIONS}
    JOIN comment ON comment.notebook_id = submitted_notebook.id JOIN base_cell ON base_cell.id = comment.cell_id
    WHERE assignment.name = :name"""
    by_student: dict[str, dict[str, str | None]] = {}
    for student, cell, comment in db.execute(text(query), {"name": assignment}):
        by_student.setdefault(student, {})[cell] = comment
    return by_student


@dataclass
class Lateness:
    """When a submission came and was due, in UTC without a time zone, and the points that it lost for being late."""

    came: datetime | None = None
    due: datetime | None = None
    extension: timedelta | None = None
    penalty: float = 0.0

    @property
    def late(self) -> bool:
        """Whether the submission came after its due date and its extension."""
        return bool(self.came and self.due and self.came > self.due + (self.extension or timedelta()))

    @property
    def words(self) -> str:
        """The words for a table."""
        return f"late, {self.penalty:g} off" if self.penalty else "late" * self.late


def lateness(db: Reader, assignment: str) -> dict[str, Lateness]:
    """Return the lateness of every submission of an assignment, by student."""
    times = "submitted_assignment.timestamp AS came, duedate, extension"
    query = text(f"SELECT student_id, {times}, late_submission_penalty {OF_SUBMISSIONS} WHERE assignment.name = :name")
    query = query.columns(came=DateTime, duedate=DateTime, extension=Interval)
    return {
        student: Lateness(came, due, extension, float(penalty or 0))
        for student, came, due, extension, penalty in db.execute(query, {"name": assignment})
    }

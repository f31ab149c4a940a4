"""Extensions: extensions.csv in the course's folder gives a student more time than the class has."""

from datetime import date, datetime, time
from pathlib import Path

from autograder.files import write_atomically
from autograder.settings import Settings
from autograder.spreadsheets import read_columns, write_table

FILE = "extensions.csv"
COLUMNS = ("student", "assignment", "until")
EXAMPLE = 'write it as "2026-12-04 18:00", or as "2026-12-04" for the end of that day'


def read_extensions(root: Path, settings: Settings, assignment: str) -> dict[str, datetime]:
    """Return until when each student may submit an assignment, in UTC, by student.

    Raises:
        ValueError: the table lacks a column, or a time cannot be read. The message names the line.
    """
    found, table = {}, read_columns(root / FILE, COLUMNS)
    for index, row in enumerate(table.rows):
        student, name, until = (table.cell(row, title) for title in COLUMNS)
        try:
            when = until_when(until, settings)
        except ValueError as error:
            raise ValueError(f"{table.where(index)}: {error}") from None
        if name == assignment:
            found[student] = when
    return found


def until_when(text: str, settings: Settings) -> datetime:
    """Return a time in UTC that a person wrote; a time without a zone is in the course's zone.

    Raises:
        ValueError: the text is not a time.
    """
    try:
        when = datetime.fromisoformat(text)
        if len(text) == len("2026-12-04"):
            when = datetime.combine(date.fromisoformat(text), time(23, 59, 59))
    except ValueError:
        raise ValueError(f"{text!r} is not a time: {EXAMPLE}") from None
    return settings.in_utc(when)


def write_extension(root: Path, student: str, assignment: str, until: str) -> None:
    """Write a student's extension; it replaces an earlier one for the same assignment."""
    table = read_columns(root / FILE, COLUMNS)
    rows = [[table.cell(row, title) for title in COLUMNS] for row in table.rows]
    kept = [row for row in rows if row[:2] != [student, assignment]]
    write_atomically(root / FILE, write_table(COLUMNS, [*kept, (student, assignment, until)]))

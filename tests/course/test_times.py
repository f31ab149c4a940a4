"""Is the time of a submission read as it was written, and is a person asked about an unclear time?"""

import contextlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from conftest import NAME
from downloads import write_zip
from nbgrader.utils import as_timezone, parse_utc
from test_report import result

from autograder.course.course import Assignment, Course
from autograder.course.times import read_time
from autograder.files import write_atomically
from autograder.lms.collect import collect

HALF_PAST_FIVE = datetime(2026, 10, 12, 17, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        b"2026-10-12 17:30:00.000000 UTC",  # nbgrader
        b"2026-10-12T19:30:00+02:00\n",  # git, as %cI
        b"2026-10-12 19:30:00 +0200",  # git, as %ci
        b"2026-10-12T17:30:00Z",
        b"2026-10-12 17:30",
        "\ufeff2026-10-12 17:30".encode(),
        "2026-10-12 17:30".encode("utf-16"),  # PowerShell
    ],
)
def test_time_is_read_with_its_zone(text: bytes) -> None:
    """Is the same moment read from every spelling of a program, with a byte-order mark, and as UTF-16?"""
    assert read_time(text) == HALF_PAST_FIVE


@pytest.mark.parametrize(
    "text",
    [
        *("2026-10-12 19:30 IST", "2026-10-12 19:30 CEST", "02/11/2026 17:30", "2026-10-12", "17:30", "yesterday"),
        *("1500-01-01 00:00", "0001-01-01 00:00 +1400", "9999-12-31 23:59:59 -1400", "9" * 5000, "", "\x00\x1b[2J"),
    ],
)
def test_time_that_nobody_can_tell_is_refused_in_words(text: str) -> None:
    """Is an unclear time refused instead of guessed, and does the message show it without characters that move a cursor?"""
    with pytest.raises(ValueError, match="is not a clear time; write it as" if text else "there is no time") as error:
        read_time(text.encode())
    assert str(error.value).isprintable() and len(str(error.value)) < 300


@pytest.mark.parametrize("written", [b"2026-10-12 19:30+02:00", b"yesterday \xff\x00 9999", b"0001-01-01 00:00 +1400"])
def test_gradebook_and_formgrader_get_a_time_that_they_can_show(
    tmp_path: Path, assignment: Assignment, written: bytes
) -> None:
    """Do gradebook and folder hold a time that nbgrader can show, and is a person asked if there is none?"""
    course = Course(tmp_path)
    place = course.submission_folder("ada", NAME)
    place.mkdir(parents=True)
    (place / "timestamp.txt").write_bytes(written)
    course.prepare(assignment)
    write_atomically(course.autograded_path("ada", assignment), nbformat.writes(assignment.release) + "\n")
    for _ in range(2):  # a second run asks again
        course.record(result(assignment, "ada", {}), assignment)
        when, question = course.time_of("ada", NAME)
        assert (when is None) == question.startswith("When was it submitted? In timestamp.txt, ")
        assert (when == HALF_PAST_FIVE) == (b"+02" in written)
    with contextlib.closing(sqlite3.connect(course.root / "gradebook.db")) as database:
        ((kept,),) = database.execute("select timestamp from submitted_assignment").fetchall()
    assert kept is None if when is None else kept.startswith("2026-10-12 17:30:00")
    if (place / "timestamp.txt").exists():  # nbgrader's list of submissions reads it in this way
        read = parse_utc((place / "timestamp.txt").read_text().strip())
        assert as_timezone(read, "Pacific/Kiritimati").year == 2026 and read == HALF_PAST_FIVE.replace(tzinfo=None)
    else:
        assert (place / "timestamp-unclear.txt").read_bytes() == written


def test_unclear_time_is_a_question_until_it_is_corrected(tmp_path: Path, assignment: Assignment) -> None:
    """Is an unclear time a question, whether copied or collected, until timestamp.txt is corrected? Each is graded again."""
    course, data = Course(tmp_path / "course"), nbformat.writes(assignment.release).encode()
    written = {"attention.ipynb": data, "timestamp.txt": b"2026-10-12 19:30 IST \xff"}
    for name, content in written.items():
        write_atomically(course.submission_folder("copied", NAME) / name, content)
    files = {f"collected/{NAME}/{name}": content for name, content in written.items()}
    collect(course, assignment, [write_zip(tmp_path / "folders.zip", files)])
    for student in ("copied", "collected"):
        found = course.read_submission(student, assignment)
        (question,) = found.questions
        assert question.startswith("When was it submitted? In timestamp.txt, ") and found.candidates == question
        write_atomically(course.submission_folder(student, NAME) / "timestamp.txt", "2026-10-12 19:30:00+02:00\n")
        found = course.read_submission(student, assignment)
        assert (found.questions, found.candidates) == ([], "")
        assert course.time_of(student, NAME) == (HALF_PAST_FIVE, "")

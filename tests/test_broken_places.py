"""Do a full disk, a read-only course, an odd path, or a folder instead of a file give one line with the fix?"""

import contextlib
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import NAME
from test_cli import run
from test_report import result

from autograder.cli import main
from autograder.course.course import Assignment, Course
from autograder.files import write_atomically

STUDENTS = ("ada", "bea")


@pytest.fixture
def course(tmp_path: Path, assignment: Assignment) -> Course:
    """A recorded course without submissions."""
    return made(tmp_path / "course", assignment)


def made(folder: Path, assignment: Assignment) -> Course:
    """Make a course with a roster, a gradebook and results."""
    course = Course(folder)
    write_atomically(course.root / "roster.csv", "id,first_name\nada,Ada\nbea,Bea\n")
    course.prepare(assignment)
    for student in STUDENTS:
        outcome = result(assignment, student, {}, state="missing")
        outcome.checks = []
        course.save_result(outcome)
        course.record(outcome, assignment)
    return course


def in_walls(course: Course, *walls: str, command: str) -> str:
    """Run a shell command with other mounts over the course; return its stderr. It must end with 1."""
    inside = ["bwrap", "--dev-bind", "/", "/", *walls, "sh", "-c", command, "sh", sys.executable, str(course.root)]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs a command in this process and returns its stderr. It must end with 1."""

    def run_main(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["autograder", *arguments])
        with pytest.raises(SystemExit, match=r"^1$"):
            main()
        return capsys.readouterr().err

    return run_main


def assert_one_line(said: str, *words: str) -> None:
    """Check that the message is no traceback, and holds some words."""
    (line,) = [line for line in said.splitlines() if line.startswith("autograder: ")]
    assert "Traceback" not in said and all(word in line for word in words), said


def test_read_only_course_is_said(course: Course) -> None:
    """Does the message name the file that cannot be written, and the fix?"""
    walls = ("--ro-bind", str(course.root), str(course.root))
    said = in_walls(course, *walls, command=f'"$1" -m autograder report {NAME} --course "$2"')
    assert_one_line(said, f"{course.root}/report", "Read-only file system", "that you can read and write")


def test_full_disk_is_said(course: Course, tmp_path: Path) -> None:
    """Does the message name the file that does not fit, and is the old file complete, without a half-written one?"""
    (course.root / "report").mkdir()
    walls = ("--size", str(2**16), "--tmpfs", f"{course.root}/report")
    command = (
        f'dd if=/dev/zero of="$2/report/full" bs=4096 2>{tmp_path}/dd; "$1" -m autograder report {NAME} --course "$2"; '
    )
    said = in_walls(course, *walls, command=command + f'r=$?; ls -AR "$2/report" >{tmp_path}/left; exit $r')
    assert_one_line(said, f"{course.root}/report", "No space left on device", "make room on the disk")
    assert ".tmp" not in (tmp_path / "left").read_text()


@pytest.mark.parametrize("name", ["what?", "%41", "$HOME", "a;b", "{x}", "~", "a b#c", "[ab]", "sqlite:", "ü%20?x=1"])
@pytest.mark.few(3)
def test_course_may_be_called_anything(tmp_path: Path, assignment: Assignment, name: str) -> None:
    """Are all files in the named folder, the gradebook too, and are they read again from there?"""
    course = made(tmp_path / name, assignment)
    assert os.listdir(tmp_path) == [name] and (course.root / "gradebook.db").is_file()
    assert course.students() == list(STUDENTS)
    done = run("report", NAME, "--course", str(course.root))
    assert done.exit_code == 0 and (course.root / "report" / NAME / "index.html").is_file(), done.output


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("roster.csv", "is not a plain file"),
        ("course.toml", "Is a directory"),
        ("regrade-requests.csv", "is not a plain file"),
        ("gradebook.db", "It must be a plain file"),
        (f"report/{NAME}/scores.csv", "move away what is there"),
        ("report", "move away what is there"),
    ],
)
def test_folder_instead_of_a_file_is_said(course: Course, stopped: Callable[..., str], file: str, said: str) -> None:
    """Does one line name the file, and also report/ if it is a file instead of a folder?"""
    path = course.root / file
    path.unlink(missing_ok=True)
    path.write_text("") if file == "report" else path.mkdir(parents=True)
    error = stopped("report" if file != "roster.csv" else "grade", NAME, "--course", str(course.root))
    assert_one_line(error, str(path), said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE student DROP COLUMN last_name", 'another version of nbgrader: run "nbgrader db upgrade"'),
        (None, "It is damaged, or is not a gradebook"),
    ],
    ids=["old", "no database"],
)
def test_gradebook_that_cannot_be_read_is_said(
    course: Course, stopped: Callable[..., str], change: str | None, said: str
) -> None:
    """Is a gradebook of an older nbgrader, or a file that is no gradebook, not reported as a full disk?"""
    path = course.root / "gradebook.db"
    if change:
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(change)
    else:
        path.write_text("this is a text, not a database " * 100)
    error = stopped("report", NAME, "--course", str(course.root))
    assert_one_line(error, str(path), said)
    assert "full" not in error


@pytest.mark.parametrize(
    ("number", "ends_with"), [(errno.ENOSPC, SystemExit), (errno.EACCES, SystemExit), (errno.ENOENT, FileNotFoundError)]
)
def test_mistake_of_ours_still_shows_where_it_was_made(
    monkeypatch: pytest.MonkeyPatch, number: int, ends_with: type[BaseException]
) -> None:
    """Does an error about a file pass through if no person can correct it?"""
    monkeypatch.setattr("autograder.cli.app", Mock(side_effect=OSError(number, "an error", "/x/y")))
    with pytest.raises(ends_with):
        main()

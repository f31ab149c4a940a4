"""Is a record nbgrader's own, complete after a kill, and the same from every process?"""

import contextlib
import sqlite3
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Base, Gradebook
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from sqlalchemy import select
from sqlalchemy.exc import OperationalError, SAWarning
from stubs import KINDS, stubs
from typer.testing import CliRunner

from autograder import cli
from autograder.cells import is_grade, points_of
from autograder.course.course import Assignment, Course
from autograder.course.gradebook import COURSE_ID, GradebookError, explanation, read_url
from autograder.course.recording import opened
from autograder.files import write_atomically

STUDENTS = ("early", "late", "much_too_late", "extended", "corrected", "untimed")
DUE = "2026-03-01 12:00:00 UTC"
TIMES = {
    "early": "2026-03-01 11:00:00 UTC",
    "late": "2026-03-01 14:30:00 UTC",
    "much_too_late": "2026-03-09 12:00:00 UTC",
    "extended": "2026-03-01 14:30:00 UTC",
    "corrected": "2026-03-01 15:00:00 UTC",
}
PLUGIN = '''from nbgrader.plugins import BasePlugin


class AnHour(BasePlugin):
    """Takes half a point for each hour, from the second on."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return (total_seconds_late / 3600 - 1) / 2
'''


def write_plugin(course: Course, text: str = PLUGIN) -> None:
    """Write the plugin for penalties, and let Python import it again."""
    write_atomically(course.root / "hourly_penalty.py", text)
    sys.modules.pop("hourly_penalty", None)


def test_gradebook_holds_the_names_of_the_roster(tmp_path: Path, assignment: Assignment) -> None:
    """Does each name arrive as it is written, and does a corrected one replace it?"""
    for last in ("Doe, Jr", "O'Brien"):
        write_atomically(
            tmp_path / "roster.csv", f'id,first_name,last_name,email\nada,名前,"{last}",a@b.org\nbea,-1,,\n'
        )
        Course(tmp_path).prepare(assignment)
        with contextlib.closing(sqlite3.connect(tmp_path / "gradebook.db")) as database:
            rows = database.execute("select id, first_name, last_name, email from student order by id").fetchall()
        assert rows == [("ada", "名前", last, "a@b.org"), ("bea", "-1", None, None)]


@pytest.mark.deep
def test_gradebook_is_made_as_nbgrader_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are tables, their version and the course as nbgrader makes them, from no file and from an empty one?"""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # nbgrader finds the program alembic there
    Gradebook(f"sqlite:///{tmp_path}/theirs.db", COURSE_ID).close()
    (tmp_path / "empty.db").touch()
    for name in ("ours", "empty"):
        with opened(read_url(f"sqlite:///{name}.db", tmp_path)):
            pass
    dumps = []
    for name in ("theirs", "ours", "empty"):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{name}.db")) as database:
            dumps.append(list(database.iterdump()))
    assert dumps[0] == dumps[1] == dumps[2]


def make_course(root: Path, assignment: Assignment, address: str | None = None) -> Course:
    """Make a course with penalties for late submission, and an extension for one student."""
    course = Course(root / "course")
    course.root.mkdir(parents=True)
    write_plugin(course)
    lines = ["c = get_config()", 'c.AssignLatePenalties.plugin_class = "hourly_penalty.AnHour"']
    lines += [f"c.CourseDirectory.db_url = {address!r}"] if address else []
    write_atomically(course.root / "nbgrader_config.py", "\n".join(lines) + "\n")
    write_atomically(course.root / "roster.csv", "id,first_name,last_name\nearly,Ada,Ünsal\nnever,Bo,\n")
    course.prepare(assignment)
    for student, when in TIMES.items():
        write_atomically(course.root / "submitted" / student / assignment.name / "timestamp.txt", when)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(assignment.name, duedate=DUE)
    return course


def record_first(course: Course, assignment: Assignment, record: Callable[..., None], turn: int) -> None:
    """Record a class for the first or a second time, with other points."""
    kinds = stubs(assignment)
    for number, student in enumerate(STUDENTS):
        text, result = kinds[(number + turn) % KINDS]
        write_atomically(course.autograded_path(student, assignment), text)
        record(course, replace(result, student=student), assignment)


def grade_manually(course: Course, assignment: Assignment) -> None:
    """Do what a person does in formgrader: points, a comment, extra credit, more time for one."""
    written = [cell.metadata.nbgrader.grade_id for cell in assignment.graded_cells() if cell.cell_type == "markdown"]
    test = next(cell.metadata.nbgrader.grade_id for cell in assignment.graded_cells() if cell.cell_type == "code")
    with course.gradebook() as gradebook:
        names = (assignment.notebook, assignment.name, "corrected")
        grade = gradebook.find_grade(written[0], *names)
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 0.5, 0.25, False
        gradebook.find_grade(test, *names).manual_score = 0.125
        gradebook.find_comment(written[0], *names).manual_comment = "Say why: „√d“."
        gradebook.db.commit()
        gradebook.grant_extension(assignment.name, "extended", hours=10)


def record_by_nbgrader(course: Course, result, assignment: Assignment) -> None:
    """Record as nbgrader's autograde does: its own preprocessors open the gradebook; a bonus counts too."""
    with course.gradebook() as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        gradebook.update_or_create_student(result.student)
        times = {"timestamp": TIMES[result.student]} if result.student in TIMES else {}
        gradebook.update_or_create_submission(assignment.name, result.student, **times)
    notebook = nbformat.read(course.autograded_path(result.student, assignment), as_version=4)
    for cell in filter(is_grade, notebook.cells):
        cell.metadata.nbgrader.points = points_of(cell)
    resources = {"notebook": assignment.notebook, "assignment": assignment.name, "student": result.student}
    resources["db_url"] = course.db_url.render_as_string(hide_password=False)
    for step in (SaveAutoGrades, AssignLatePenalties):
        step(config=course._config()).preprocess(notebook, {"nbgrader": resources})


def rows(course: Course) -> dict[str, list[str]]:
    """Return every row of every table, with names instead of random ids.

    nbgrader's preprocessors add an unused course "default_course"; it is left out.
    """
    names: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    with course.gradebook() as gradebook:
        for table in Base.metadata.sorted_tables:
            found[table.name] = []
            for row in gradebook.db.execute(select(table)).mappings():
                plain = {key: names.get(value, value) for key, value in row.items() if isinstance(value, str)}
                plain = {key: value for key, value in row.items() if key not in plain} | plain
                if len(row.get("id", "")) == 32 and row["id"] not in names:
                    del plain["id"]
                    names[row["id"]] = str(sorted(plain.items(), key=lambda item: item[0]))
                if "default_course" not in plain.values():
                    found[table.name].append(str(sorted(plain.items(), key=lambda item: item[0])))
            found[table.name].sort()
    return found


def test_record_writes_what_nbgrader_writes(assignment: Assignment, tmp_path: Path) -> None:
    """Are all rows those of nbgrader, after the first and the second record?

    They hold points, no response, late penalties, an extension, and a person's points and comments.
    """
    ours, theirs = (make_course(tmp_path / name, assignment) for name in ("ours", "theirs"))
    for turn in range(2):
        record_first(ours, assignment, Course.record, turn)
        record_first(theirs, assignment, record_by_nbgrader, turn)
        assert rows(ours) == rows(theirs)
        grade_manually(ours, assignment), grade_manually(theirs, assignment)
    assert str(ours.root) not in sys.path  # a worker and its sandbox would inherit it
    graded = len(assignment.graded_cells())
    assert len(rows(ours)["grade"]) == graded * len(STUDENTS)
    late = {student: points for student, points in penalties_of(ours, assignment).items() if points}
    with ours.gradebook() as gradebook:
        everything = gradebook.find_submission(assignment.name, "much_too_late").score
    assert late == {"late": 0.75, "corrected": 1.0, "much_too_late": pytest.approx(everything)}


def test_penalties_are_those_of_the_points_and_dates_as_they_are_now(assignment: Assignment, tmp_path: Path) -> None:
    """Are penalties, and nothing else, computed again after manual grading, another plugin and more time for one student?"""
    course = make_course(tmp_path, assignment)
    record_first(course, assignment, Course.record, 0)
    write_plugin(course, PLUGIN.replace("(total_seconds_late / 3600 - 1) / 2", "score / 4"))
    grade_manually(course, assignment)
    before = course.scores(assignment)
    course.renew_lateness(assignment)
    assert course.scores(assignment) == before
    with course.gradebook() as gradebook:
        scores = {s.student.id: s.score for s in gradebook.assignment_submissions(assignment.name)}
    late = {student: scores[student] / 4 for student in ("late", "corrected", "much_too_late")}
    found = penalties_of(course, assignment)
    assert found == pytest.approx(dict.fromkeys(STUDENTS, 0.0) | late) and found["corrected"] > 0


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (PLUGIN.replace("return ", "return score / 0 or "), "ZeroDivisionError: float division by zero"),
        (PLUGIN.replace("(BasePlugin)", ""), "class CLASS(nbgrader.plugins.BasePlugin)"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        (
            PLUGIN.replace("return ", "return 'much' or "),
            "AnHour, which takes points off for being late, failed on late",
        ),
    ],
)
@pytest.mark.few(1)
def test_plugin_that_fails_is_said_and_leaves_no_half(
    plugin: str, said: str, assignment: Assignment, tmp_path: Path
) -> None:
    """Is a plugin for penalties named that is none or raises, and are all points complete after its correction?"""
    course = make_course(tmp_path, assignment)
    write_plugin(course, plugin)
    with pytest.raises(GradebookError) as failed:
        record_first(course, assignment, Course.record, 0)  # the second student is late
    assert said in str(failed.value) and "\n" not in str(failed.value)
    assert set(course.scores(assignment)) == ({"early"} if "failed on late" in str(failed.value) else set())
    write_plugin(course)
    record_first(course, assignment, Course.record, 0)
    assert set(course.scores(assignment)) == set(STUDENTS)


def penalties_of(course: Course, assignment: Assignment) -> dict[str, float]:
    """Return the penalties by student."""
    with course.gradebook() as gradebook:
        submissions = gradebook.assignment_submissions(assignment.name)
        return {submission.student.id: submission.late_submission_penalty for submission in submissions}


def test_record_without_a_score_adds_the_student_alone(assignment: Assignment, tmp_path: Path) -> None:
    """Is a missing submission a student without a row of points?"""
    course = make_course(tmp_path, assignment)
    result = replace(stubs(assignment)[0][1], student="gone", state="missing", checks=[])
    course.record(result, assignment)
    assert [row for row in rows(course)["student"] if "gone" in row]
    assert rows(course)["submitted_assignment"] == []
    assert course.load_result("gone", assignment.name).recorded


@pytest.mark.parametrize("grows", [True, False])
def test_changed_assignment_changes_earlier_submissions(grows: bool, assignment: Assignment, tmp_path: Path) -> None:
    """Does a submission get a row for a new cell, and lose that of a removed cell, whose points would still count?"""
    fewer = deepcopy(assignment)
    for notebook in (fewer.instructor, fewer.release):
        notebook.cells = [cell for cell in notebook.cells if cell.id != "softmax_axis"]
    first, second = (fewer, assignment) if grows else (assignment, fewer)
    course = make_course(tmp_path, first)
    record_first(course, first, Course.record, 0)
    course.prepare(second)
    names = {cell.metadata.nbgrader.grade_id for cell in second.graded_cells()}
    assert {student: set(own) for student, own in course.scores(second).items()} == dict.fromkeys(STUDENTS, names)
    assert len(rows(course)["grade"]) == len(STUDENTS) * len(names)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgres://ann:s3cret@db/course", "postgresql://USER"),
        ("mysql://ann:s3cret@db/course", "begins with mysql"),
        ("ann:s3cret", "is not the address of a database"),
        ("postgresql://ann:s3@cret@db/course", "write %40"),
        ("postgresql://ann:s3cret@db", "names no database"),
        ("sqlite://", "names no database"),
    ],
)
def test_read_url_says_what_it_wants(address: str, said: str, tmp_path: Path) -> None:
    """Is an unusable address refused, with the fix and without the password?"""
    with pytest.raises(GradebookError, match=said) as caught:
        read_url(address, tmp_path)
    assert "s3cret" not in str(caught.value) and "cret@" not in str(caught.value)


def test_config_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    """Is a broken config file named, without the line that may hold a password?"""
    write_atomically(tmp_path / "nbgrader_config.py", 'c.CourseDirectory.db_url = "postgresql://ann:s3cret@db/course\n')
    with pytest.raises(GradebookError, match="cannot be run") as caught:
        Course(tmp_path).students()
    assert "s3cret" not in str(caught.value)


def test_explained_hides_the_password(tmp_path: Path) -> None:
    """Is the password removed from a driver's message?"""
    url = read_url("postgresql://ann:s3cret@db/course", tmp_path)
    said = explanation(url, OperationalError("", {}, Exception("no login with password=s3cret")))
    assert "s3cret" not in said and "postgresql://ann:***@db/course" in said


def test_command_says_that_no_server_answers(
    assignment: Assignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Does a command end with one message that says what to do if PostgreSQL does not answer, without the password?"""
    address = "postgresql://ann:s3cret@127.0.0.1:9/course"
    write_atomically(tmp_path / "nbgrader_config.py", f"c = get_config()\nc.CourseDirectory.db_url = {address!r}\n")
    course = Course(tmp_path)
    course.save_result(replace(stubs(assignment)[0][1], student="ada"))
    arguments = ["report", assignment.name, "--course", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["autograder", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "Does the server run" in said or "cannot be loaded" in said
    assert "s3cret" not in said and "s3cret" not in str(CliRunner().invoke(cli.app, arguments).exception)

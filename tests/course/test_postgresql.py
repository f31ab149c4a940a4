"""Is a course in PostgreSQL the same as one in a file, also with several graders and after a restart of the server?"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from postgresql_server import ESCAPED, NoServer, Server, server
from stubs import record_all, stubs
from test_recording import grade_manually, make_course, record_first, rows

from autograder.course.course import Assignment, Course
from autograder.course.gradebook import GradebookError
from autograder.grade.grade import load_assignment
from autograder.lms.export_scores import Export
from autograder.report.feedback import write_feedback
from autograder.report.report import write_report

pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed (psycopg, of requirements.txt)")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """A server for these tests."""
    try:
        with server() as started:
            yield started
    except NoServer as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def pair(running: Server, assignment: Assignment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, Course]:
    """The same class twice, in PostgreSQL and in a file: recorded, graded manually, recorded again with other points."""
    root = tmp_path_factory.mktemp("pair")
    courses = make_course(root / "server", assignment, running.new_database()), make_course(root / "file", assignment)
    for course in courses:
        record_first(course, assignment, Course.record, 0)
        grade_manually(course, assignment)
        record_first(course, assignment, Course.record, 1)
        course.prepare(assignment)
    return courses


def test_postgresql_has_the_rows_of_a_file(pair: tuple[Course, Course]) -> None:
    """Does PostgreSQL hold the same rows as the file, and is there no file next to it?"""
    served, filed = pair
    assert rows(served) == rows(filed)
    assert served.db_url.get_backend_name() == "postgresql"
    assert not (served.root / "gradebook.db").exists()


def test_postgresql_gives_the_same_pages(pair: tuple[Course, Course], assignment: Assignment) -> None:
    """Are report, export and a page of feedback equal to the byte?"""
    made = []
    for course in pair:
        results = course.load_results(assignment.name)
        pages = [write_report(course, assignment, results), *write_feedback(course, assignment, results[:1])]
        pages += Export(course, assignment, results, "csv", allow_waiting=True).write()
        made.append([page.read_bytes() for page in pages])
    assert made[0] == made[1]


@pytest.mark.deep
def test_postgresql_restarts_between_two_submissions(
    running: Server, pair: tuple[Course, Course], assignment: Assignment
) -> None:
    """Does a run continue after its connection was cut, and is a failed record kept, with a message that hides the password?"""
    course, kinds = pair[0], stubs(assignment)
    text, result = kinds[0]
    with course.gradebook():
        record_all(course, assignment, ["before"], kinds)
        running.stop()
        course.save_result(replace(result, student="down"))
        course.autograded_path("down", assignment).parent.mkdir(parents=True)
        course.autograded_path("down", assignment).write_text(text, encoding="utf-8")
        try:
            with pytest.raises(GradebookError, match="Does the server run") as caught:
                course.record(replace(result, student="down"), assignment)
        finally:
            running.start()
        assert ESCAPED not in str(caught.value) and not course.load_result("down", assignment.name).recorded
        record_all(course, assignment, ["after"], kinds)
    course.record(course.load_result("down", assignment.name), assignment)
    scores = course.scores(assignment)
    assert scores["before"] == scores["after"] == scores["down"]


def record_some(root: Path, who: str) -> None:
    """Record a class, and a student whom both graders record; in a process of its own."""
    assignment = load_assignment("1_attention")
    record_all(Course(root), assignment, [*(f"{who}{n}" for n in range(20)), "shared"], stubs(assignment))


@pytest.mark.deep
def test_postgresql_written_by_two_graders_at_once(running: Server, assignment: Assignment, tmp_path: Path) -> None:
    """Do two graders that record at the same time lose nothing?"""
    address = running.new_database()
    courses = [make_course(tmp_path / who, assignment, address) for who in "ab"]
    with ProcessPoolExecutor(2, get_context("spawn")) as graders:
        list(graders.map(record_some, [course.root for course in courses], "ab"))
    known = courses[0].scores(assignment).keys()
    assert {f"{who}{n}" for who in "ab" for n in range(20)} | {"shared"} <= known
    assert len(rows(courses[0])["assignment"]) == 1


def test_postgresql_refuses_a_wrong_password(running: Server, tmp_path: Path) -> None:
    """Does the message say what to check, and show neither the right nor the wrong password?"""
    address = running.new_database().replace(ESCAPED, "wr0ng%25word")
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\nc.CourseDirectory.db_url = {address!r}\n")
    with pytest.raises(GradebookError, match="do user, password and database exist") as caught:
        Course(tmp_path).students()
    assert "wr0ng" not in str(caught.value)

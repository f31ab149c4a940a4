"""Does the page of a course show every student across assignments, and is course.toml read correctly?"""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from golden.said import said
from test_cli import run
from test_report import put_in_gradebook, result, texts_of

from autograder.course.course import Assignment, Course, Result
from autograder.grade.grade import load_assignment
from autograder.report.course_page import Graded, course_table, write_course_page
from autograder.settings import read_settings

SCRIPT = "<img src=x onerror=alert(1)>"  # a name that no browser may execute

TOML = """name = "Deep Learning <1>"
repository = "https://github.com/You/course"
questions = "mailto:teacher@example.org"
timezone = "UTC"
assignments = ["1_attention", "2_multihead"]

[due]
1_attention = 2026-10-12 18:00:00Z
2_multihead = 2026-11-02
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment) -> tuple[Course, Graded]:
    """Two assignments: ada is right, goran makes M6 twice, a hostile name once, and quinn submits only the second."""
    course, second = Course(tmp_path_factory.mktemp("course")), load_assignment("2_multihead")
    (course.root / "course.toml").write_text(TOML, encoding="utf-8")
    for each in (assignment, second):
        course.prepare(each)
    firsts = [
        result(assignment, "ada", {}),
        result(assignment, "goran", {"attention_weights": "M6"}),
        result(assignment, SCRIPT, {"softmax_axis": "M5"}),
        Result("quinn", assignment.name, "missing", "No notebook was submitted."),
    ]
    seconds = [
        result(second, "goran", {"attend_weights": "M6"}),
        result(second, "quinn", {}),
        Result("ada", second.name, "unreadable", "no JSON"),
    ]
    with course.gradebook() as gradebook:
        for each, found in ((assignment, firsts), (second, seconds)):
            for outcome in found:
                if outcome.has_score:
                    put_in_gradebook(gradebook, each, outcome, {})
    for outcome in firsts + seconds:
        course.save_result(outcome)
        if outcome.has_score:
            path = course.autograded_path(outcome.student, assignment if outcome in firsts else second)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{\n}\n", encoding="utf-8")
    page = course.root / "feedback" / "ada" / assignment.name / "attention.html"
    page.parent.mkdir(parents=True)
    page.write_text("", encoding="utf-8")
    return course, [(assignment, firsts), (second, seconds)]


@pytest.fixture
def page(graded: tuple[Course, Graded]) -> Path:
    """The page of the course."""
    return write_course_page(*graded)


def test_course_page_and_table_say_everything(page: Path) -> None:
    """Do both show everybody's points, missing students, the trend, and repeated mistakes, and no number without a score?"""
    said(texts_of(page))
    said((page.parent / "course.csv").read_text(encoding="utf-8").splitlines())


def test_course_page_runs_nothing_and_asks_no_host(page: Path) -> None:
    """Is our script the only one, and does every link lead into the course's folder?"""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    assert len(soup.find_all("script")) == 1 and "alert(1)" not in soup.script.text
    links = {link["href"] for link in soup.find_all("a")}
    allowed = r"\d_\w+/(index\.html(#M\d+)?|scores\.csv|mistakes\.csv)|course\.csv|\.\./feedback/ada/1_attention/attention\.html"
    assert [link for link in links if not re.fullmatch(allowed, link)] == []
    assert "../feedback/ada/1_attention/attention.html" in links


def test_report_of_all_is_json_for_scripts(graded: tuple[Course, Graded]) -> None:
    """Do --all and --json give every report and the same table, and nothing else on stdout?"""
    done = run("report", "--all", "--json", "--course", str(graded[0].root))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert list(said["reports"]) == ["1_attention", "2_multihead"] and Path(said["course"]).name == "index.html"
    assert said["students"] == course_table(*graded)


def test_paths_are_not_broken_over_lines(graded: tuple[Course, Graded]) -> None:
    """Is each written file named on one line, in a terminal of any width?"""
    done = run("export", "--all", "--format", "csv", "--course", str(graded[0].root), width=40)
    paths = [line.removeprefix("written  ") for line in done.stdout.splitlines()]
    assert len(paths) == 2 and all(Path(path).is_file() for path in paths)


def test_settings_say_what_a_course_is(tmp_path: Path) -> None:
    """Are a course's settings read, also from a file that a Windows editor saved, with a default for each?"""
    assert read_settings(tmp_path).name == "Attention from First Principles"
    (tmp_path / "course.toml").write_text(TOML, encoding="utf-8-sig")
    settings = read_settings(tmp_path)
    assert settings.name == "Deep Learning <1>"
    assert settings.link_to_ask("ä b", "1_attention", "softmax").startswith(
        "mailto:teacher@example.org?subject=1_attention%2C%20softmax"
    )


WRONG = [
    "name = 1",
    'due = "x"',
    '[due]\n1_attention = "soon"',
    'questions = "javascript:alert(1)"',
    "name = [",
    "nmae = 1",
    "[deu]\n1_attention = 2026-10-12",
    "[[due]]\n1_attention = 2026-10-12",
    "[due.1_attention]\ndate = 2026-10-12",
    "[due]\n1_attention = 18:00:00",
    "[due]\n1_attention = 0001-01-01",
    "[due]\n1_attention = 9999-12-31 23:00:00-12:00",
    '[due]\n1_attention = 2026-10-12\nbranch = "main"',
    "assignments = [1]",
    'assignments = "1_attention"',
    "[due]\n1_atention = 2026-10-12",
    "[due]\nattention = 2026-10-12",
    "[due]\n2_Multi-Head = 2026-10-12",
    "[due]\nhomework = 2026-10-12",
    'assignments = ["2_multihaed"]',
]


def test_settings_that_are_wrong_are_one_line(tmp_path: Path) -> None:
    """Does a mistake in course.toml stop a command with where, what and the fix?"""
    messages = []
    for text in WRONG:
        (tmp_path / "course.toml").write_text(text, encoding="utf-8")
        report = run("report", "1_attention", "--course", str(tmp_path))
        students = run("student-version", "--students", str(tmp_path / "students"), "--course", str(tmp_path))
        assert (report.exit_code, report.stdout) == (students.exit_code, students.stdout) == (1, "")
        assert report.stderr == students.stderr
        messages.append(report.stderr)
    said(messages)
    assert not (tmp_path / "students").exists()


def test_due_date_comes_into_the_gradebook(tmp_path: Path, assignment: Assignment) -> None:
    """Does nbgrader know when an assignment is due, also after a change?"""
    for day in (12, 13):
        (tmp_path / "course.toml").write_text(f"[due]\n1_attention = 2026-10-{day} 18:00:00Z", encoding="utf-8")
        course = Course(tmp_path)
        course.prepare(assignment)
        with course.gradebook() as gradebook:
            assert gradebook.find_assignment(assignment.name).duedate == datetime(2026, 10, day, 18)

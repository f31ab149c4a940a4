"""Is the report on a class true, and safe to open? What it says is in tests/golden/said.txt."""

import io
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from golden.said import said
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.cells import points_of
from autograder.course.course import Assignment, Course, Result
from autograder.report.course_page import write_course_page
from autograder.report.report import write_report
from autograder.report.tables import scores_table_of

SCRIPT, FORMULA, RIGHT_TO_LEFT = "<script>alert(1)</script>", "=1+1", "\u202eنور"
WRITTEN = ("why_scale", "row_of_the_map", "graph_network")
TEXTS = ("h1", "h2", "h3", "p", "li", "summary", "figcaption", "img", "tr")  # elements of a page that hold a text


def result(assignment: Assignment, student: str, lost: dict[str, str | None], bonus: bool = False, **fields) -> Result:
    """Invent a result that passes every test except those in `lost`, each with its named mistake.

    A bonus stays unwritten, or passes, or is in `lost`.
    """
    checks = []
    for cell in assignment.graded_cells():
        name = cell.metadata.nbgrader.grade_id
        if name not in WRITTEN:
            message = f"{name}: off by {SCRIPT}" if name in lost else ""
            if "bonus" in cell.metadata and not bonus and name not in lost:
                message = f"{name}: not written yet."
            verdict = {"passed": not message, "mistake": lost.get(name), "message": message}
            checks.append({"name": name, "points": 1.0, **verdict})
    fields = {"state": "graded", "versions": "Python 3.13"} | fields
    return Result(student, assignment.name, checks=checks, seed=7, **fields)


def put_in_gradebook(gradebook: Gradebook, assignment: Assignment, outcome: Result, manual: dict[str, float]) -> None:
    """Write the grader's points, and a person's points; the other written answers wait."""
    gradebook.update_or_create_student(outcome.student)
    gradebook.update_or_create_submission(assignment.name, outcome.student)
    passed = {check["name"]: check["passed"] for check in outcome.checks}
    for cell in assignment.graded_cells():
        name = cell.metadata.nbgrader.grade_id
        grade = gradebook.find_grade(name, assignment.notebook, assignment.name, outcome.student)
        grade.auto_score = points_of(cell) * passed[name] if name in passed else None
        grade.manual_score = manual.get(name)
        grade.needs_manual_grade = name not in passed and name not in manual
    gradebook.db.commit()


def texts_of(page: Path) -> list[str]:
    """Return the texts of a page: headings, paragraphs, items, rows of tables, and what its pictures say."""
    texts = []
    for part in BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find_all(TEXTS):
        cells = [" ".join([*cell.stripped_strings, cell.get("style", "")]) for cell in part.find_all(["th", "td"])]
        texts.append(" | ".join(cells) or part.get("alt") or " ".join(part.stripped_strings))
    return texts


def compare_report(course: Course, assignment: Assignment, results: list[Result]) -> Path:
    """Write the report; compare its tables, its page and the terminal's table with what was recorded."""
    page = write_report(course, assignment, results)
    for name in ("scores.csv", "mistakes.csv"):
        said((page.parent / name).read_text(encoding="utf-8").splitlines())
    said(texts_of(page))
    console = Console(file=io.StringIO(), width=80)
    console.print(scores_table_of(course, assignment, results))
    said(line.replace("│", "|") for line in console.file.getvalue().splitlines() if "│" in line)
    return page


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment) -> Course:
    """A prepared course without submissions."""
    course = Course(tmp_path_factory.mktemp("class"))
    course.prepare(assignment)
    return course


@pytest.fixture(scope="module")
def results(course: Course, assignment: Assignment) -> list[Result]:
    """A class with every state, and with hostile names."""
    every_check = {cell.metadata.nbgrader.grade_id: None for cell in assignment.graded_cells()}
    receipt = [f"The file was called {SCRIPT}."]
    found = [
        result(assignment, "ada", {}, versions="Python 3.11"),
        result(assignment, SCRIPT, {"softmax_extreme": "M3", "attention_weights": "M3+M8", "attention_output": "M8"}),
        result(assignment, FORMULA, {"softmax_axis": "M6"}, state="graded after repair", receipt=receipt),
        result(assignment, RIGHT_TO_LEFT, {"attention_backward_keys": "M65", "self_attention_mask": None}),
        result(assignment, "untouched", every_check, state="crashed", why=f"The kernel died: {SCRIPT}"),
        Result("gone", assignment.name, "missing", "No notebook was submitted."),
        Result("picture", assignment.name, "unreadable", "attention.ipynb is no JSON"),
        Result("ours", assignment.name, "not graded", "The grader failed, not the submission: disk full"),
    ]
    manual = {"ada": {"why_scale": 2.0, "row_of_the_map": 0.5}, "untouched": dict.fromkeys(WRITTEN, 0.0)}
    with course.gradebook() as gradebook:
        for outcome in found:
            if outcome.has_score:
                put_in_gradebook(gradebook, assignment, outcome, manual.get(outcome.student, {}))
        earlier = result(assignment, "picture", {})  # an earlier submission was readable
        put_in_gradebook(gradebook, assignment, earlier, {})
    return found


@pytest.fixture(scope="module")
def page(course: Course, assignment: Assignment, results: list[Result]) -> Path:
    """The page of that class."""
    return write_report(course, assignment, results)


@pytest.fixture(scope="module")
def soup(page: Path) -> BeautifulSoup:
    """The page, parsed."""
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def test_report_says_everything(course: Course, assignment: Assignment, results: list[Result]) -> None:
    """Are points, mistakes, plots, versions and what needs a person the recorded ones, and no number shown without a score?"""
    compare_report(course, assignment, results)


def test_bonus_is_on_top_and_never_lost(assignment: Assignment, tmp_path: Path) -> None:
    """Does an unearned bonus have no number, no part in the maximum, and no message if it is unwritten?"""
    course = Course(tmp_path)
    course.prepare(assignment)
    results = [
        result(assignment, "unwritten", {}),
        result(assignment, "wrong", {"online_softmax_values": "M194", "online_softmax_hidden": "M194"}),
        result(assignment, "right", {}, bonus=True),
    ]
    with course.gradebook() as gradebook:
        for outcome in results:
            put_in_gradebook(gradebook, assignment, outcome, dict.fromkeys(WRITTEN, 0.0))
    compare_report(course, assignment, results)


def test_late_submission_is_told_and_its_score_is_what_is_left(assignment: Assignment, tmp_path: Path) -> None:
    """Do table, report and course page say who was late, and count the points after the penalty, at least 0?"""
    course, due = Course(tmp_path), datetime(2026, 3, 1, 12)
    course.prepare(assignment)
    penalties = {"punctual": None, "extended": None, "late": 4.0, "excused": None, "lowered": 16.0}
    results = [result(assignment, student, {}) for student in penalties]
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(assignment.name, duedate=due)
        for outcome in results:
            student = outcome.student
            put_in_gradebook(gradebook, assignment, outcome, dict.fromkeys(WRITTEN, 0.0))
            came = due + timedelta(seconds=student != "punctual")
            gradebook.update_or_create_submission(assignment.name, student, timestamp=came)
            submitted = gradebook.find_submission_notebook(assignment.notebook, assignment.name, student)
            submitted.late_submission_penalty = penalties[student]
        gradebook.grant_extension(assignment.name, "extended", hours=1)
    compare_report(course, assignment, results)
    said(texts_of(write_course_page(course, [(assignment, results)])))


def test_what_was_not_written_is_told_from_what_was_graded(tmp_path: Path, assignment: Assignment) -> None:
    """Is an empty answer shown as "not written", one to be seen again with its points, and a person's 0 as a number?"""
    course, outcome = Course(tmp_path), result(assignment, "ada", {})
    course.prepare(assignment)
    with course.gradebook() as gradebook:
        put_in_gradebook(gradebook, assignment, outcome, {"row_of_the_map": 0.0, "graph_network": 1.0})
        for name in ("why_scale", "graph_network"):
            grade = gradebook.find_grade(name, assignment.notebook, assignment.name, "ada")
            if name == "why_scale":
                grade.auto_score = 0.0  # nbgrader gives 0 for an unchanged cell
            grade.needs_manual_grade = name == "graph_network"
        gradebook.db.commit()
    compare_report(course, assignment, [outcome])


def test_page_runs_nothing_of_a_student(soup: BeautifulSoup) -> None:
    """Is our own script the only one, and is a name with a script shown as text?"""
    assert len(soup.find_all("script")) == 1
    assert "alert(1)" not in soup.script.text
    assert SCRIPT in [name.text for name in soup.find_all("bdi")]
    assert "script-src 'sha256-" in soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]


def test_page_asks_no_host(soup: BeautifulSoup) -> None:
    """Does the page need no other host?"""
    sources = [tag[key] for tag in soup.find_all() for key in ("src", "srcset", "href") if tag.has_attr(key)]
    assert [source[:40] for source in sources if not re.match(r"data:|#|\w+\.csv$", source)] == []
    assert "@import" not in soup.style.text and "url(" not in soup.style.text


def test_page_links_lead_somewhere(soup: BeautifulSoup) -> None:
    """Does every link within the page have exactly one target?"""
    targets = [element["id"] for element in soup.find_all(id=True)]
    assert len(targets) == len(set(targets))
    assert {link["href"][1:] for link in soup.find_all("a") if link["href"].startswith("#")} <= set(targets)


def test_write_report_gives_the_same_bytes_twice(
    page: Path, course: Course, assignment: Assignment, results: list[Result]
) -> None:
    """Does the page stay the same if nothing changed?"""
    before = page.read_bytes()
    write_report(course, assignment, results[::-1])
    assert page.read_bytes() == before


def test_write_report_of_a_class_without_scores(tmp_path: Path, assignment: Assignment) -> None:
    """Is there a page if no student has a score, and if the points never reached the gradebook?"""
    course = Course(tmp_path)
    course.prepare(assignment)
    results = [Result("gone", assignment.name, "missing"), result(assignment, "half\ud800", {"softmax_axis": "M6"})]
    compare_report(course, assignment, results)

"""Is the report on a class true, and safe to open?"""

import csv
import io
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.course.course import Assignment, Course, Result
from autograder.files import showable
from autograder.report.course_page import course_table, write_course_page
from autograder.report.report import questions_of, scores_table, write_report
from autograder.report.tables import scores_table_of

SCRIPT, FORMULA, RIGHT_TO_LEFT = "<script>alert(1)</script>", "=1+1", "\u202eنور"
WRITTEN = ("why_scale", "row_of_the_map", "graph_network")


BONUS = {"online_softmax_values", "online_softmax_hidden"}


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
    return Result(student, assignment.name, fields.pop("state", "graded"), checks=checks, seed=7, **fields)


def put_in_gradebook(gradebook: Gradebook, assignment: Assignment, outcome: Result, manual: dict[str, float]) -> None:
    """Write the grader's points, and a person's points; the other written answers wait."""
    gradebook.update_or_create_student(outcome.student)
    gradebook.update_or_create_submission(assignment.name, outcome.student)
    passed = {check["name"]: check["passed"] for check in outcome.checks}
    for cell in assignment.graded_cells():
        name = cell.metadata.nbgrader.grade_id
        grade = gradebook.find_grade(name, assignment.notebook, assignment.name, outcome.student)
        grade.auto_score = float(passed[name]) if name in passed else None
        grade.manual_score = manual.get(name)
        grade.needs_manual_grade = name not in passed and name not in manual
    gradebook.db.commit()


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
        result(assignment, "ada", {}),
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


def row_of(table: list[dict], student: str) -> dict:
    """Return the row of one student."""
    return next(row for row in table if row["student"] == student)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a table as a spreadsheet does."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_questions_of_groups_tests_by_exercise(assignment: Assignment) -> None:
    """Does each test belong to the exercise with the longest fitting name, and each written question to itself?"""
    points = {question.name: question.maximum for question in questions_of(assignment)}
    exercises = {"softmax": 3, "attention": 4, "self_attention": 3, "attention_backward": 5}
    assert points == exercises | {"why_scale": 2, "row_of_the_map": 1, "graph_network": 2, "online_softmax": 2}


def test_scores_table_adds_up(course: Course, assignment: Assignment, results: list[Result]) -> None:
    """Do the points of tests and of a person add up, and do answers that wait count as waiting?"""
    table = scores_table(course, assignment, results)
    ada = row_of(table, "ada")
    assert [ada[name] for name in ("automatic", "manual", "waiting", "total", "of")] == [15, 2.5, 1, 17.5, 20]
    assert ada["graph_network"] == "waits"
    hostile = row_of(table, SCRIPT)
    assert [hostile[name] for name in ("softmax", "attention", "total", "waiting")] == [2, 2, 12, 3]
    assert hostile["mistakes"] == "M3, M8"


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
    table = scores_table(course, assignment, results)
    rows = [row_of(table, name) for name in ("unwritten", "wrong", "right")]
    assert [row["online_softmax"] for row in rows] == ["", "", 2]
    assert [(row["automatic"], row["total"], row["of"]) for row in rows] == [(15, 15, 20), (15, 15, 20), (17, 17, 20)]
    assert [row["mistakes"] for row in rows] == ["", "M194", ""]
    page = BeautifulSoup(write_report(course, assignment, results).read_text(encoding="utf-8"), "html.parser")
    assert "online softmax (bonus 2)" in [button.get_text() for button in page.find_all("button")]
    assert "not written yet" not in page.get_text() and "waits" not in page.find_all("table")[-1].get_text()
    # The bonus is neither the hardest nor the easiest question.
    assert not [image["alt"] for image in page.find_all("img") if "online" in image["alt"]]


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
    rows = {row["student"]: row for row in scores_table(course, assignment, results)}
    words = {student: row["late"] for student, row in rows.items()}
    assert words == {
        "punctual": "",
        "extended": "",
        "late": "late, 4 off",
        "excused": "late",
        "lowered": "late, 16 off",
    }
    assert {(row["total"], row["score"]) for row in rows.values()} == {(15, 15), (15, 11), (15, 0)}
    page = BeautifulSoup(write_report(course, assignment, results).read_text(encoding="utf-8"), "html.parser")
    last = [line.find_all("td")[-1].get_text(" ") for line in page.find_all("table")[-1].tbody.find_all("tr")]
    assert sorted(last) == ["0 late, 16 off", "11 late, 4 off", "15", "15", "15 late"]
    graded = [(assignment, results)]
    page = BeautifulSoup(write_course_page(course, graded).read_text(encoding="utf-8"), "html.parser")
    assert [small.get_text() for small in page.select("td small")] == ["late", "late, 4 off", "late, 16 off"]
    assert {row["student"]: row["total"] for row in course_table(course, graded)}["late"] == 11
    console = Console(file=io.StringIO(), width=80)
    console.print(scores_table_of(course, assignment, results))
    assert "11 of 20" in console.file.getvalue() and "late, 4 off" in console.file.getvalue()


def test_scores_table_tells_zero_from_no_score(course: Course, assignment: Assignment, results: list[Result]) -> None:
    """Does an unsolved notebook get 0, and an unreadable submission no number?"""
    table = scores_table(course, assignment, results)
    untouched = row_of(table, "untouched")
    assert (untouched["total"], untouched["why_scale"], untouched["waiting"]) == (0, 0, 0)
    for student in ("gone", "picture", "ours"):
        row = row_of(table, student)
        assert {value for name, value in row.items() if name not in ("student", "state")} == {""}


def test_scores_table_keeps_earlier_points(course: Course, assignment: Assignment, results: list[Result]) -> None:
    """Do points from manual grading still count after another grading, and does the answer wait to be seen again?"""
    with course.gradebook() as gradebook:
        grade = gradebook.find_grade("why_scale", assignment.notebook, assignment.name, "ada")
        grade.needs_manual_grade = True
        gradebook.db.commit()
        again = row_of(scores_table(course, assignment, results), "ada")
        grade.needs_manual_grade = False
        gradebook.db.commit()
    assert (again["why_scale"], again["waiting"], again["total"]) == (2, 2, 17.5)


def test_terminal_tells_what_was_not_written_from_what_was_graded(tmp_path: Path, assignment: Assignment) -> None:
    """Is an empty answer shown as "not written", one to be seen again as "waits", and a person's 0 as a number?"""
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
    console = Console(file=io.StringIO(), width=160)
    console.print(scores_table_of(course, assignment, [outcome]))
    (line,) = [line for line in console.file.getvalue().splitlines() if "ada" in line]
    assert "why_scale not written, row_of_the_map 0/1, graph_network 1/2, to confirm" in line
    (row,) = scores_table(course, assignment, [outcome])
    assert (row["why_scale"], row["row_of_the_map"], row["graph_network"], row["waiting"]) == (0, 0, 1, 1)


def test_scores_csv_is_safe_in_a_spreadsheet(page: Path) -> None:
    """Does the file say that it is UTF-8, and is a name that looks like a formula plain text?"""
    assert (page.parent / "scores.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    rows = read_csv(page.parent / "scores.csv")
    assert {row["student"] for row in rows} == {
        "ada", SCRIPT, "'" + FORMULA, RIGHT_TO_LEFT, "untouched", "gone", "picture", "ours"
    }  # fmt: skip
    assert row_of(rows, "gone")["total"] == ""
    assert row_of(rows, "ada")["total"] == "17.5"


def test_mistakes_csv_says_who_made_which(page: Path) -> None:
    """Does each student and mistake have a line, with both mistakes of a pair, the most frequent first?"""
    rows = read_csv(page.parent / "mistakes.csv")
    made = {(row["mistake"], row["student"], row["questions"]) for row in rows}
    assert made == {
        ("M3", SCRIPT, "softmax, attention"),
        ("M8", SCRIPT, "attention"),
        ("M6", "'" + FORMULA, "softmax"),
        ("M65", RIGHT_TO_LEFT, "attention_backward"),
    }
    assert rows[0]["title"] == "large scores overflow"


def test_page_runs_nothing_of_a_student(soup: BeautifulSoup, page: Path) -> None:
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


def test_page_shows_states_points_and_mistakes(soup: BeautifulSoup) -> None:
    """Does an instructor see every state, the mistakes by frequency, and no number without a score?"""
    states = {item.a.text if item.a else item.text.split()[-1]: item.b.text for item in soup.select(".states li")}
    assert states["graded"] == "3" and states["missing"] == "1" and states["answers wait for manual grading"] == "10"
    assert [heading.text.split(":")[0] for heading in soup.select(".mistakes h3")] == ["M3", "M6", "M8", "M65"]
    rows = {row.th.text: [cell.text for cell in row.find_all("td")] for row in soup.select("table:not(.heat) tbody tr")}
    assert rows["picture"] == ["unreadable"] + ["–"] * 9
    assert rows[FORMULA][:2] == ["graded after repair", "2M6"]
    assert rows[showable(RIGHT_TO_LEFT)][3] == "2not named"


def test_page_maps_mistakes_to_questions(soup: BeautifulSoup) -> None:
    """Does the heat map count the students for each mistake and question, with darker cells for more?"""
    table = soup.find("table", class_="heat")
    assert [head.text for head in table.thead.find_all("th")] == [
        "mistake",
        "softmax",
        "attention",
        "attention backward",
    ]
    counts = {row.th.a.text: [cell.text for cell in row.find_all("td")] for row in table.select("tbody tr")}
    assert counts == {"M3": ["1", "1", ""], "M6": ["1", "", ""], "M8": ["", "1", ""], "M65": ["", "", "1"]}
    shaded = [cell["style"] for cell in table.find_all("td", style=True)]
    assert shaded == ["--share: 0.2"] * 5  # one of five with a score


def test_page_plots_say_their_conclusion(soup: BeautifulSoup) -> None:
    """Do the plots' texts hold the numbers, only automatic points while manual grading waits?"""
    totals, shares = (image["alt"] for image in soup.find_all("img"))
    assert totals == "The median total is 13 of 15 automatic points; the lowest is 0, the highest 15."
    assert shares == "“softmax” is the hardest with 67% of its points, “attention backward” the easiest with 76%."


def test_page_lists_what_needs_a_person(soup: BeautifulSoup) -> None:
    """Are crashed, missing, unreadable and repaired submissions listed with their reasons as text?"""
    text = soup.main.text.split("What needs a person")[1]
    for expected in ("why scale: 3 answers", f"kernel died: {SCRIPT}", "no JSON", "disk full", f"was called {SCRIPT}"):
        assert expected in text


def test_page_says_with_which_versions_submissions_were_graded(
    assignment: Assignment, results: list[Result], tmp_path: Path
) -> None:
    """Are all versions listed once, with their students if there are several?"""
    course = Course(tmp_path)
    course.prepare(assignment)

    def foot(*versions: str) -> list[str]:
        graded = [replace(result, versions=said) for result, said in zip(results, versions)]
        soup = BeautifulSoup(write_report(course, assignment, graded).read_text(encoding="utf-8"), "html.parser")
        return [text for text in soup.footer.stripped_strings if "seed" not in text and "Totals" not in text]

    assert foot("Python 3.11", "Python 3.11") == ["Graded with Python 3.11."]
    several = [
        "Graded with Python 3.11: 2 submissions",
        SCRIPT,
        FORMULA,
        "Graded with Python 3.13: 1 submission",
        "ada",
    ]
    assert foot("Python 3.13", "Python 3.11", "Python 3.11") == several


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
    text = write_report(course, assignment, results).read_text(encoding="utf-8")
    assert "nothing to plot" in text and "not in the gradebook" in text
    assert read_csv(tmp_path / "report" / assignment.name / "mistakes.csv") == []

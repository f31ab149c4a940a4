"""Does each student read about their own work only, and can a course forget a student?"""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from conftest import NAME, GradedClass
from playwright.sync_api import Browser
from test_cli import run

from autograder.course.course import Course
from autograder.course.decisions import Decision, write_decision
from autograder.report.feedback import write_feedback


@pytest.fixture(scope="module")
def pages(graded_class: GradedClass) -> dict[str, str]:
    """The pages of feedback, by student."""
    written = write_feedback(graded_class.course, graded_class.assignment, list(graded_class.results.values()))
    return {path.parents[1].name: path.read_text(encoding="utf-8") for path in written}


def text_of(page: str) -> str:
    """Return the visible text of a page, with single blanks."""
    return re.sub(r"\s+", " ", BeautifulSoup(page, "html.parser").get_text(" "))


def test_feedback_says_of_a_bonus_what_it_gives(pages: dict[str, str]) -> None:
    """Does a wrong bonus cost nothing, and an unwritten one lack nothing?"""
    wrong, unwritten = (text_of(pages[student]) for student in ("fatima", "ada"))
    assert "online softmax , a bonus 0 of 2" in wrong and "M194" in wrong and " cost " not in wrong[:400]
    assert (
        "online softmax , a bonus Not written. This costs no points; a right answer adds up to 2 points." in unwritten
    )
    assert 'class="lost"' not in pages["ada"] and "not written yet" not in unwritten


def test_feedback_holds_no_hidden_test(pages: dict[str, str]) -> None:
    """Is the page free of hidden tests' source, of our answers, and of the grader's tracebacks?"""
    secret = ("autograder.checks", "HIDDEN TESTS", "BEGIN MARK SCHEME", "autograder/", str(Path(sys.prefix).parent))
    assert [(name, words) for name, page in pages.items() for words in secret if words in page] == []
    assert "exponentials / exponentials" not in text_of(pages["ben"])


def test_feedback_shows_hidden_tests_if_the_instructor_says_so(graded_class: GradedClass, tmp_path: Path) -> None:
    """Is the source of hidden tests on the page exactly if it was requested, and gone afterwards?"""
    course = Course(shutil.copytree(graded_class.course.root, tmp_path / "course"))
    for show in (False, True, False):
        (page,) = write_feedback(course, graded_class.assignment, [graded_class.results["goran"]], show_hidden=show)
        text = text_of(page.read_text(encoding="utf-8"))
        assert ("from autograder.checks.attention.exercises import check" in text) == show


@pytest.mark.parametrize("student", ["goran", "omar"])
def test_feedback_fits_a_phone(pages: dict[str, str], student: str, browser: Browser) -> None:
    """Is the page as narrow as a phone, and do its hints look foldable?"""
    phone = browser.new_page(viewport={"width": 390, "height": 800}, is_mobile=True, offline=True)
    phone.set_content(pages[student])
    assert phone.evaluate("() => document.scrollingElement.scrollWidth") == 390
    assert phone.evaluate("() => getComputedStyle(document.querySelector('summary')).display") == "list-item"
    phone.close()


def test_feedback_is_left_alone_when_nothing_changed(graded_class: GradedClass, pages: dict[str, str]) -> None:
    """Are pages written again only if points changed?"""
    paths = [graded_class.course.root / "feedback" / student / NAME / "attention.html" for student in pages]
    before = [path.stat().st_mtime_ns for path in paths]
    write_feedback(graded_class.course, graded_class.assignment, list(graded_class.results.values()))
    assert [path.stat().st_mtime_ns for path in paths] == before


def test_feedback_says_where_the_pages_are(graded_class: GradedClass) -> None:
    """Does `feedback` say how many pages it wrote, and where?"""
    result = run("feedback", NAME, "--course", str(graded_class.course.root))
    assert result.exit_code == 0, result.output
    assert f"16 pages of feedback on {NAME}: {graded_class.course.root / 'feedback'}" in result.stdout
    assert len(list((graded_class.course.root / "feedback").rglob("*.html"))) == 16


@pytest.fixture(scope="module")
def copied(graded_class: GradedClass, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A copy of the graded class with a roster, feedback, reports and requests, for deleting."""
    root = tmp_path_factory.mktemp("copied") / "course"
    shutil.copytree(graded_class.course.root, root)
    people = [f"{name},{name.title()},of the class,{name}@example.org" for name in graded_class.results]
    (root / "roster.csv").write_text("id,first_name,last_name,email\n" + "\n".join(people) + "\n", encoding="utf-8")
    asked = f"student,assignment,part,why\ngoran,{NAME},attention,My axis is right\nhana,{NAME},attention,Why?\n"
    (root / "regrade-requests.csv").write_text(asked, encoding="utf-8")
    (root / "course.toml").write_text('questions = "mailto:teacher@example.org"\n', encoding="utf-8")
    course = Course(root)
    course.prepare(graded_class.assignment)
    for command in ("feedback", "report"):
        assert run(command, NAME, "--course", str(root)).exit_code == 0
    assert run("export", NAME, "--format", "csv", "--course", str(root)).exit_code == 0
    return course


def test_feedback_shows_nobody_else(copied: Course, graded_class: GradedClass) -> None:
    """Is each feedback page free of other students' ids, names and addresses?"""
    pages = {page.parts[-3]: page.read_text(encoding="utf-8") for page in copied.root.glob("feedback/*/*/*.html")}
    assert len(pages) == 16
    for student, page in pages.items():
        text = BeautifulSoup(page, "html.parser").get_text(" ")
        links = re.findall(r'(?:href|src)="((?!data:)[^"]*)"', page)
        said = set(re.findall(r"\w+", f"{text} {' '.join(links)}".casefold()))
        assert said & set(graded_class.results) <= {student}
    # Only goran lost points.
    assert [name for name in ("goran", "ada") if f"Student%3A%20{name}" in pages[name]] == ["goran"]


def test_feedback_has_what_the_exchange_gives_out(copied: Course) -> None:
    """Can `nbgrader release_feedback` release a page: are the submission's own files next to it, and no link?"""
    place = copied.root / "submitted" / "hana" / NAME
    (place / "timestamp.txt").write_text("2026-10-12 17:59:00 UTC", encoding="utf-8")
    (place / "submission_secret.txt").symlink_to(copied.root / "gradebook.db")
    assert run("feedback", NAME, "--course", str(copied.root)).exit_code == 0
    found = sorted(path.name for path in (copied.root / "feedback" / "hana" / NAME).iterdir())
    assert found == ["attention.html", "timestamp.txt"]
    (place / "submission_secret.txt").unlink()


def test_feedback_answers_who_asked_again(copied: Course) -> None:
    """Does the second page show the request, the answer, and the points before?"""
    said = run("answer", "goran", NAME, "attention", "Half of it is right.", "--course", str(copied.root))
    assert said.exit_code == 0, said.output
    with copied.gradebook() as gradebook:
        grade = gradebook.find_grade("attention_weights", "attention", NAME, "goran")
        grade.manual_score = 1.0
        gradebook.db.commit()
    assert run("feedback", NAME, "--course", str(copied.root)).exit_code == 0
    pages = {name: copied.root / "feedback" / name / NAME / "attention.html" for name in ("goran", "hana", "ada")}
    text = {
        name: BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").get_text(" ", True)
        for name, page in pages.items()
    }
    assert (
        "Your regrade requests attention My axis is right Half of it is right. 1 of 4 points now; the tests gave 0."
        in text["goran"]
    )
    assert "Your regrade requests attention Why? It is not answered yet. 0 of 4 points now." in text["hana"]
    assert "Your regrade requests" not in text["ada"]
    wrong = run("answer", "goran", NAME, "softmax", "x", "--course", str(copied.root))
    assert wrong.exit_code == 1 and "goran asked about attention, not about 'softmax'" in wrong.stderr
    assert run("report", NAME, "--course", str(copied.root)).exit_code == 0
    page = (copied.root / "report" / "index.html").read_text(encoding="utf-8")
    assert page.index("Why?") < page.index("My axis is right") and page.count("Not answered.") == 1


def test_forget_says_deleted_only_of_what_is_gone(tmp_path: Path) -> None:
    """If a file still holds other students, do they stay, and is it missing from the list of deleted files?"""
    for name in ("submitted/ada", "submitted/goran", "collected"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "roster.csv").write_text("id\nada\ngoran\n", encoding="utf-8")
    tables = {"regrade-requests.csv": "student,assignment,part", "extensions.csv": "student,assignment,until"}
    for name, titles in tables.items():
        (tmp_path / name).write_text(f"{titles}\nada,{NAME},x\ngoran,{NAME},x\n", encoding="utf-8")
    (tmp_path / "collected" / f"{NAME}.json").write_text('{"collected": {"ada": {}, "goran": {}}}', encoding="utf-8")
    done = run("forget", "goran", "--yes", "--course", str(tmp_path))
    named = [line.removeprefix("deleted  ") for line in done.stdout.splitlines() if line.startswith("deleted")]
    assert named == [
        "submitted/goran",
        f"the student's entries in collected/{NAME}.json",
        "the student's line in roster.csv",
    ], done.output
    assert [name for name in named if (tmp_path / name).exists()] == []
    for name, titles in tables.items():
        assert (tmp_path / name).read_text(encoding="utf-8").splitlines() == [titles, f"ada,{NAME},x"]


def test_forget_leaves_nothing_of_a_student(copied: Course) -> None:
    """Is a forgotten student's name in no file, the gradebook's free pages included, and is everything else kept?"""
    before = {kept.student: kept for kept in copied.load_results(NAME)}
    write_decision(copied.root, NAME, "goran", Decision(["Which one counts?"], ""))
    done = run("forget", "goran", "--yes", "--course", str(copied.root))
    assert done.exit_code == 0, done.output
    left = [path for path in copied.root.rglob("*") if "goran" in path.name.casefold()]
    left += [path for path in copied.root.rglob("*") if path.is_file() and b"goran" in path.read_bytes().lower()]
    assert left == []
    del before["goran"]
    assert {kept.student: kept for kept in copied.load_results(NAME)} == before
    again = run("grade", NAME, "--json", "--course", str(copied.root))
    assert again.exit_code == 0 and {row["student"] for row in json.loads(again.stdout)[0]["students"]} == set(before)
    left = sorted(copied.root.rglob("*"))
    for nobody in ("goran", "*", "?da", "..", "../feedback/ada"):
        assert run("forget", nobody, "--yes", "--course", str(copied.root)).exit_code == 1
    assert sorted(copied.root.rglob("*")) == left

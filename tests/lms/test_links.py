"""Is a student who submitted a link or a text, and no notebook, listed by name, and unreadable instead of missing?"""

import json
from pathlib import Path

import pytest
from downloads import ADA, NAME, answered, collect, notebook, submitted, write_roster, write_zip

from autograder.course.course import Assignment, Course
from autograder.files import Unreadable

LINK = "https://colab.research.google.com/drive/1aBcD?usp=sharing"
PAGE = f'<html><head><title>Essay</title></head><body><p>Hi, <a href="{LINK}">my notebook</a></p></body></html>'
REDIRECT = f'<html><head><meta http-equiv="refresh" content="0;url={LINK}"></head></html>'
TEXT = "Ada Lovelace_100_assignsubmission_onlinetext"


def cells(*sources: tuple[str, str]) -> str:
    """Return a notebook with cells, given by kind and text."""
    made = [{"cell_type": kind, "source": source, "metadata": {}} for kind, source in sources]
    made = [cell | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}) for cell in made]
    return json.dumps({"cells": made, "metadata": {"colab": {"url": LINK}}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with a roster."""
    course = Course(tmp_path / "course")
    write_roster(course)
    return course


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{TEXT}_/onlinetext.html", PAGE),
        (f"{TEXT}/onlinetext.html", f"<p>{LINK}</p>"),
        (f"{TEXT}_onlinetext.html", PAGE),
        ("lovelaceada_501_text.html", PAGE),
        ("lovelaceada_LATE_501_link.html", REDIRECT),
        ("lovelaceada_501_9001_attention.ipynb", LINK),
        (f"{ADA}/attention.ipynb", f"Here it is:\n{LINK}\n"),
        (f"{ADA}/attention.ipynb", cells(("markdown", f"My notebook is [here]({LINK})."))),
        (f"{ADA}/attention.ipynb", cells(("markdown", "# Exercise 1"), ("code", f"{LINK}\n"))),
        (f"{ADA}/notebook.url", f"[InternetShortcut]\r\nURL={LINK}\r\n"),
        ("ada/link.txt", LINK),
    ],
)
def test_link_is_not_the_notebook(name: str, text: str, course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does the line name the student, what was submitted, and what to submit?"""
    (line,) = collect(course, assignment, [write_zip(tmp_path / "all.zip", {name: text.encode()})])
    assert (line.outcome, line.student) == ("refused", "ada")
    assert "a link was submitted, not the notebook" in line.why and "Download .ipynb" in line.why
    with pytest.raises(Unreadable, match="a link was submitted, not the notebook"):
        course.read_submission("ada", assignment)


def test_link_in_a_file_of_the_course_s_folder_is_unreadable(course: Course, assignment: Assignment) -> None:
    """Is the reason the same if a person put the file there?"""
    folder = course.submission_folder("ada", NAME)
    folder.mkdir(parents=True)
    (folder / "attention.ipynb").write_text(LINK, encoding="utf-8")
    with pytest.raises(Unreadable, match="a link was submitted, not the notebook"):
        course.read_submission("ada", assignment)


def test_typed_text_is_listed(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a text without a link a submission without a notebook, and does the notebook count that comes later?"""
    text = {f"{TEXT}_/onlinetext.html": b"<p>I submitted it by e-mail.</p>"}
    (line,) = collect(course, assignment, [write_zip(tmp_path / "text.zip", text)])
    assert (line.outcome, line.student) == ("refused", "ada") and "onlinetext.html" in line.why
    assert "a link" not in line.why
    collect(course, assignment, [write_zip(tmp_path / "all.zip", text | {f"{ADA}/attention.ipynb": notebook("1")})])
    assert course.read_submission("ada", assignment).data == notebook("1")


@pytest.mark.parametrize(
    "text",
    [
        cells(("markdown", f"From {LINK}"), ("code", "x = 1")),
        cells(("code", "x = 1")),
        answered(softmax=f"'{LINK}'").decode(),
    ],
)
def test_notebook_that_mentions_a_link_counts(
    text: str, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Does a notebook with an answer and a link count, next to a text with a link?"""
    files = {f"{ADA}/attention.ipynb": text.encode(), f"{TEXT}_/onlinetext.html": PAGE.encode()}
    lines = collect(course, assignment, [write_zip(tmp_path / "all.zip", files)])
    assert sorted(line.outcome for line in lines) == ["collected", "left alone"]
    assert submitted(course) == {"ada": text.encode()}

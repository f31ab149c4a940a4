"""Is a student who submitted a link or a text, and no notebook, listed by name, and unreadable instead of missing?"""

from pathlib import Path

import pytest
from downloads import ADA, NAME, answered, collect, notebook, saved, submitted, write_zip

from autograder.course.course import Assignment, Course
from autograder.files import Unreadable

LINK = "https://colab.research.google.com/drive/1aBcD?usp=sharing"
PAGE = f'<html><head><title>Essay</title></head><body><p>Hi, <a href="{LINK}">my notebook</a></p></body></html>'
REDIRECT = f'<html><head><meta http-equiv="refresh" content="0;url={LINK}"></head></html>'
A_LINK = "a link was submitted, not the notebook.*Download .ipynb"
TEXT = "Ada Lovelace_100_assignsubmission_onlinetext"
NO_NOTEBOOK = "no notebook was found"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (f"{TEXT}_/onlinetext.html", PAGE, A_LINK),
        (f"{TEXT}/onlinetext.html", f"<p>{LINK}</p>", A_LINK),
        (f"{TEXT}_onlinetext.html", PAGE, A_LINK),
        ("lovelaceada_501_text.html", PAGE, A_LINK),
        ("lovelaceada_LATE_501_link.html", REDIRECT, A_LINK),
        ("lovelaceada_501_9001_attention.ipynb", LINK, A_LINK),
        (f"{ADA}/attention.ipynb", f"Here it is:\n{LINK}\n", A_LINK),
        (f"{ADA}/attention.ipynb", saved(("markdown", f"My notebook is [here]({LINK}).")), A_LINK),
        (f"{ADA}/attention.ipynb", saved(("markdown", "# Exercise 1"), ("code", f"{LINK}\n")), A_LINK),
        (f"{ADA}/notebook.url", f"[InternetShortcut]\r\nURL={LINK}\r\n", A_LINK),
        ("ada/link.txt", LINK, A_LINK),
        (f"{TEXT}_/onlinetext.html", "<p>I submitted it by e-mail.</p>", NO_NOTEBOOK),
        (f"{ADA}/report.pdf", "%PDF-1.4", NO_NOTEBOOK),
        (f"{ADA}/work", "%PDF-1.4", NO_NOTEBOOK),
        (f"{ADA}/work.zip", "PK\x03\x04", "it is not a zip archive"),
    ],
)
def test_what_is_no_notebook_is_unreadable_and_an_earlier_notebook_stays(
    name: str, text: str | bytes, why: str, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Does a reason name the student and what was submitted, until a notebook comes, which then stays?"""
    wrong = write_zip(tmp_path / "all.zip", {name: text if isinstance(text, bytes) else text.encode()})
    collect(course, assignment, [wrong])
    with pytest.raises(Unreadable, match=why):
        course.read_submission("ada", assignment)
    for download in (write_zip(tmp_path / "later.zip", {f"{ADA}/attention.ipynb": notebook()}), wrong):
        collect(course, assignment, [download])
        assert course.read_submission("ada", assignment).data == notebook()
        assert not (course.submission_folder("ada", NAME) / "refused.txt").exists()


@pytest.mark.parametrize(
    "text",
    [
        saved(("markdown", f"From {LINK}"), ("code", "x = 1")),
        answered(softmax=f"'{LINK}'"),
    ],
)
def test_notebook_that_mentions_a_link_counts(
    text: bytes, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Does a notebook with an answer and a link count, next to a text with a link?"""
    files = {f"{ADA}/attention.ipynb": text, f"{TEXT}_/onlinetext.html": PAGE.encode()}
    collect(course, assignment, [write_zip(tmp_path / "all.zip", files)])
    assert submitted(course) == {"ada": text}

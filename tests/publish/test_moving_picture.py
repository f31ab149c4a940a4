"""Do the README's animation and the first page of the book show the notebook's real messages?"""

import re
import tomllib

from autograder.imports import ROOT
from autograder.publish.moving_picture import ANSWER, RIGHT, TARGET, WRONG, as_gif, notebook_output


def test_moving_picture_shows_what_the_notebook_says() -> None:
    """Does the notebook name M6 and pass the fixed line, and does the committed animation show this in 300 kB?"""
    wrong = notebook_output(ANSWER)
    right = notebook_output(ANSWER.replace(WRONG, RIGHT))
    assert wrong.startswith("AssertionError: M6 (the softmax runs over the wrong axis)")
    assert right.startswith("attention passes the visible tests.")
    assert TARGET.stat().st_size < 300_000
    assert TARGET.read_bytes() == as_gif(), "the picture is stale: run python -m autograder.publish.moving_picture"


def test_page_about_the_book_shows_what_the_notebook_says() -> None:
    """Are the lines on the page about the book those of a wrong attention with the message below them?"""
    page = (ROOT / "book" / "about.md").read_text(encoding="utf-8")
    lines, message = (re.search(rf"```{kind}\n(.*?)\n```", page, re.DOTALL)[1] for kind in ("python", "text"))
    assert WRONG in lines
    assert set(lines.splitlines()) <= {line.strip() for line in ANSWER.splitlines()}
    assert notebook_output(ANSWER).removeprefix("AssertionError: ").startswith(message + "\nhttps://")


def test_first_page_gives_the_version() -> None:
    """Is the version on the first page of the book that of pyproject.toml?"""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"Version {version}, " in (ROOT / "book" / "intro.md").read_text(encoding="utf-8")

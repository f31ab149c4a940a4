"""Notice that a student submitted a link to a notebook, and not the notebook."""

import re
from contextlib import suppress

from autograder.course.archives import START
from autograder.files import Unreadable, is_notebook
from autograder.notebooks import read_notebook

A_LINK = (
    "a link was submitted, not the notebook. Submit the notebook's file (in Colab: File, Download, Download .ipynb)"
)
LINK = re.compile(r"\bhttps?://(?!www\.w3\.org/)[^\s\"'<>()\[\]\\]+", re.I)  # w3.org: a page names its standard
PAGES = (".html", ".htm", ".txt", ".md", ".url", ".webloc", ".desktop")  # files of a saved text or link
MAX_WORDS = 500  # characters next to a link, such as a greeting


def link_instead(path: str, start: bytes) -> str:
    """Return why a file that begins with these bytes is no more than a link; an empty string if it is more."""
    if len(start) == START or not (is_notebook(path) or path.lower().endswith(PAGES)):
        return ""
    text = start.decode("utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
    words, code = re.sub(r"<[^<>]*>", "", text), ""
    if is_notebook(path):
        with suppress(Unreadable):  # the file is plain text
            cells = read_notebook(start).cells
            text = words = "\n".join(cell.source for cell in cells)
            code = "\n".join(cell.source for cell in cells if cell.kind == "code")
    is_link = LINK.search(text) and len(_without_links(words)) < MAX_WORDS and not _without_links(code)
    return A_LINK if is_link else ""


def _without_links(text: str) -> str:
    return LINK.sub("", text).strip(" \n\t()[]<>\"'")

"""Special files, torn notebooks, words and names."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from making import FIRST, NO_SCORE, Attack, Place, coded, in_words, notebook
from nbformat import NotebookNode
from sample_class import strip_cells

ACTIVE_WORDS = """
<script>alert(1)</script> <img src=x onerror=alert(1)> <iframe src="javascript:alert(1)"></iframe>
<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg> <details open ontoggle=alert(1)>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) [c](java&#115;cript&colon;alert(1)) [d][d] <javascript:alert(1)>
![e](javascript:alert(1)) [f](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [g](vbscript:x) [h]( \tjavascript:alert(1))
<style>body { display: none }</style> <base href="http://127.0.0.1/"> <form action="http://127.0.0.1/"><button>h</button></form>
![image.png](attachment:image.png) $\\href{javascript:alert(1)}{x}$ {{ resources }} {% raw %} <!-- --> <meta http-equiv=refresh content="0;url=javascript:alert(1)">
<div style="position:fixed;top:0;left:0;width:100%;height:100%;background:url(javascript:alert(1))">15 / 15</div>

[d]: javascript:alert(1)

```"><script>alert(1)</script>
x
```
"""


def classmates(place: Place) -> Path:
    """Return a classmate's folder."""
    return place.course / "submitted/b-good" / place.assignment.name


# Instead of the notebook: a word, what the file is, and how it is made.
SPECIAL: tuple[tuple[str, str, Callable[[Place], Any]], ...] = (
    ("fifo", "a pipe to which nobody writes", lambda place: os.mkfifo(place.folder / place.name)),
    (
        "sparse",
        "a file of 10 GB that uses no disk space",
        lambda place: (place.submit(b""), os.truncate(place.folder / place.name, 10**10)),
    ),
    (
        "link-to-answers",
        "a link to the instructor's notebook",
        lambda place: (place.folder / place.name).symlink_to(
            place.course / "source" / place.assignment.name / place.name
        ),
    ),
    (
        "linked-folder",
        "a link to a classmate's folder, as its own folder,",
        lambda place: (place.folder.rmdir(), place.folder.symlink_to(classmates(place))),
    ),
    (
        "json-bomb",
        "JSON that takes a gigabyte of memory",
        lambda place: place.submit(b'{"cells": [' + b"[]," * 12_000_000 + b"0]}"),
    ),
)


def truncated(place: Place) -> None:
    """Cut the file in the middle of self_attention."""
    text = json.dumps(place.solved()).encode()
    place.submit(text[: text.index(b"def self_attention") + 40])


def strip(made: NotebookNode, place: Place) -> None:
    """Remove all metadata and all ids."""
    made.metadata = {}
    strip_cells(made)


def odd_fields(made: NotebookNode, place: Place) -> None:
    """Give fields the wrong type wherever possible, and add cells that are no cells."""
    for cell in made.cells:
        cell.outputs, cell.execution_count, cell.attachments = "none", [7], 5
        cell.source = cell.source.splitlines(keepends=True)
    made.cells[0].metadata = {"nbgrader": [1], "id": {"a": 1}}
    made.cells += [None, 7, "cell", [], {}, {"source": 4}, {"cell_type": 1, "source": [1, "x", None]}]
    made.nbformat, made.metadata = "four", None


def odd_metadata(made: NotebookNode, place: Place) -> None:
    """Name an unknown format and kernel; use scripts as ids, inverted flags, other versions and widgets."""
    script, made.nbformat, made.nbformat_minor = "<script>alert(1)</script>", 99, -1
    made.metadata = {
        "kernelspec": {"name": "../../bash", "language": "bash", "display_name": script},
        "language_info": {"name": "<b>", "pygments_lexer": "../../x", "version": 3},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"x": {"model_name": script}}}},
    }
    odd = ("../../x", "'; DROP TABLE grade; --", "<script>", "x" * 10_000, "\u202e", "", "setup", "feedback")
    turned = {"grade": True, "locked": False, "solution": True, "task": True, "checksum": "0"}
    for index, cell in enumerate(made.cells):
        cell.id = odd[index % len(odd)]
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= turned | {"schema_version": 2 if index % 2 else 99}


FILES = (
    *(
        Attack(name, f"Submits {what} instead of the notebook.", make, NO_SCORE, "unreadable")
        for name, what, make in SPECIAL
    ),
    Attack(
        "hard-link",
        "Submits a hard link to a classmate's file, which counts as a copy of it.",
        lambda place: (place.solved(), (place.folder / place.name).hardlink_to(classmates(place) / place.name)),
    ),
    Attack("nothing", "Submits nothing.", lambda place: None, NO_SCORE, "missing"),
    Attack(
        "truncated",
        "Submits a file that ends in the middle of self_attention.",
        truncated,
        "self_attention attention_backward",
        "needs a look",
        on=FIRST,
    ),
    Attack(
        "latin-1",
        "Submits a file in Latin-1 instead of UTF-8.",
        lambda place: place.submit(json.dumps(place.solved(), ensure_ascii=False).encode("latin-1", "replace")),
        states="graded after repair",
    ),
    Attack(
        "odd-fields",
        "Submits a notebook with fields of the wrong type, and with values in the list of cells that are not cells.",
        notebook(odd_fields),
    ),
    Attack("stripped", "Submits a notebook without metadata and ids.", notebook(strip), states="graded after repair"),
    Attack(
        "odd-metadata",
        "Names an unknown format and kernel; uses scripts as ids, inverted flags, other versions and widgets.",
        notebook(odd_metadata),
    ),
    Attack(
        "script-name",
        "Submits files whose names are an option, a script, not text, or text from right to left.",
        notebook(
            lambda made, place: None,
            name="-rf <img src=x onerror=alert(1)>\n|`*\udcff\udcfe\u202e\u0646\u0648\u0631 (1).ipynb",
        ),
        states="graded after repair",
    ),
    Attack(
        "many-files",
        "Submits a thousand other files, folders and links next to the notebook.",
        notebook(
            lambda made, place: (
                [place.submit(b"x", f"{number}.ipynb") for number in range(1000)],
                (place.folder / "up").symlink_to("/"),
                (place.folder / ".ipynb_checkpoints").mkdir(),
            )
        ),
        states="graded after repair",
    ),
    Attack(
        "bad-timestamp",
        "Submits a timestamp.txt that contains no time.",
        notebook(lambda made, place: place.submit(b"yesterday \xff\x00 9999-99-99", "timestamp.txt")),
        states="needs a look",
    ),
    Attack(
        "active-words",
        "Writes scripts, links, styles and a missing picture into text cells.",
        in_words(ACTIVE_WORDS),
        states="graded after repair",
    ),
    Attack(
        "slow-words",
        "Writes text that a Markdown parser needs hours to read.",
        in_words("\\begin{a}" * 60_000 + "[^" * 60_000),
    ),
    coded("active-outputs"),
    coded("active-error", "softmax", on=FIRST),
)


STUDENTS = (  # the last four cannot be names of students: special files are made from them
    ("option", "looks like an option of a command", "-rf"),
    ("script", "is a script and a template", "<img src=x onerror=alert(1)>{{ 7*7 }} ${HOME} %s $(id)"),
    ("formula", "is a formula with a comma and a quotation mark", '=1+1, "Jr"'),
    ("sql", "is a statement in SQL", "'; DROP TABLE student; --"),
    (
        "two-lines",
        "has two lines, text from right to left, and an emoji",
        "\u202e\u0646\u0648\n\U0001f9d1\u200d\U0001f393e\u0301",
    ),
    ("hidden", "is the name of a file of the grader", ".run"),
    ("dots", "looks like a path", "..%2f..%2fx"),
    ("long", "is as long as a file name may be", "x" * 255),
    ("no-text", "is not text", "\udcff\udcfe"),
)
NAMES = tuple(
    Attack(
        f"name-{name}",
        f"Submits the answers; the student's name {what}.",
        notebook(lambda made, place: None),
        student=student,
        **impossible,
    )
    for index, (name, what, student) in enumerate(STUDENTS)
    for impossible in ({"costs": NO_SCORE, "states": "unreadable"} if index >= len(STUDENTS) - 4 else {},)
)

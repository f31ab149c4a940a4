"""Files that are none, torn notebooks, words and names."""

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from sample_class import duplicate

from hostile.making import (
    FIRST,
    GRADED,
    LOOK,
    MISSING,
    NOTHING,
    UNMARKED,
    UNREADABLE,
    Attack,
    Maker,
    Place,
    Repaired,
    good,
    in_answers,
    in_words,
    own_cell,
    spoiled,
    with_name,
)


def edit_metadata(**entries: Any) -> Callable[[NotebookNode], None]:
    """Write something into the metadata of every nbgrader cell."""

    def spoil(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader.update(entries)

    return spoil


ACTIVE_WORDS = """
<script>alert(1)</script> <img src=x onerror=alert(1)> <iframe src="javascript:alert(1)"></iframe>
<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg> <details open ontoggle=alert(1)>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) [c](java&#115;cript&colon;alert(1)) [d][d] <javascript:alert(1)>
![e](javascript:alert(1)) [f](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [g](vbscript:x) [h]( \tjavascript:alert(1))
<style>body { display: none }</style> <base href="http://127.0.0.1/"> <form action="http://127.0.0.1/"><button>h</button></form>
$\\href{javascript:alert(1)}{x}$ {{ resources }} {% raw %} <!-- --> <meta http-equiv=refresh content="0;url=javascript:alert(1)">
<div style="position:fixed;top:0;left:0;width:100%;height:100%;background:url(javascript:alert(1))">15 / 15</div>

[d]: javascript:alert(1)

```"><script>alert(1)</script>
x
```
"""

SPECIAL: dict[str, tuple[str, Callable[[Place, Path], Any]]] = {
    "fifo": ("a pipe that nobody writes to", lambda place, path: os.mkfifo(path)),
    "folder": ("a folder", lambda place, path: path.mkdir()),
    "dangling-link": ("a link to nothing", lambda place, path: path.symlink_to("/nowhere")),
    "link-to-itself": ("a link to itself", lambda place, path: path.symlink_to(path)),
    "link-to-answers": (
        "a link to the instructor's notebook",
        lambda place, path: path.symlink_to(place.course / "source" / place.assignment.name / place.name),
    ),
    "link-to-classmate": (
        "a link to a classmate's notebook",
        lambda place, path: path.symlink_to(f"../../b-good/{place.assignment.name}/{place.name}"),
    ),
    "link-to-device": ("a link to /dev/zero", lambda place, path: path.symlink_to("/dev/zero")),
    "socket": ("a Unix socket", lambda place, path: _bind(path)),
    "device": ("a device", lambda place, path: _device(path)),
    "sparse": (
        "a file of 10 GB that takes no room on the disk",
        lambda place, path: (path.touch(), os.truncate(path, 10**10)),
    ),
}


def _bind(path: Path) -> None:
    home = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is at most 107 characters long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(home)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:  # not root: a pipe will do
        os.mkfifo(path)


def special_file(make: Callable[[Place, Path], Any]) -> Maker:
    """Put something that is no plain file where the notebook belongs."""
    return lambda place: make(place, place.folder / place.name)


def hard_link(place: Place) -> None:
    """Give a classmate's notebook a second name, next to the other files that are asked for."""
    place.solved()
    (place.folder / place.name).hardlink_to(place.course / "submitted/b-good" / place.assignment.name / place.name)


def linked_folder(place: Place) -> None:
    """Make the folder of the submission a link to a classmate's."""
    place.folder.rmdir()
    place.folder.symlink_to(f"../b-good/{place.assignment.name}")


def linked_student(place: Place) -> None:
    """Make the folder of the student a link to a classmate's."""
    place.folder.rmdir()
    place.folder.parent.rmdir()
    place.folder.parent.symlink_to("b-good")


def truncated(place: Place) -> None:
    """Break the file off in the middle of self_attention."""
    text = json.dumps(place.solved())
    place.submit(text[: text.index("def self_attention") + 40].encode())


def strip(notebook: NotebookNode) -> None:
    """Lose all metadata and all ids."""
    notebook.metadata = {}
    for cell in notebook.cells:
        cell.metadata = {}
        cell.pop("id", None)


def delete_tests(notebook: NotebookNode) -> None:
    """Delete every test cell."""
    notebook.cells = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("locked")]


def retype(notebook: NotebookNode) -> None:
    """Turn answers in code into text, and written answers into code."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.cell_type = "markdown" if cell.cell_type == "code" else "code"


def move(notebook: NotebookNode) -> None:
    """Move the answers to the end, in reversed order."""
    moved = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    notebook.cells = [cell for cell in notebook.cells if cell not in moved] + moved[::-1]


def format_3(notebook: NotebookNode) -> dict[str, Any]:
    """Write it in the format of 2014."""
    cells = [
        {"cell_type": cell.cell_type, "metadata": {}, "input" if cell.cell_type == "code" else "source": cell.source}
        for cell in notebook.cells
    ]
    return {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {},
        "worksheets": [{"cells": cells[:9]}, {"cells": cells[9:]}],
    }


def odd_fields(notebook: NotebookNode) -> None:
    """Have fields of the wrong type wherever that is possible, and cells that are none."""
    for cell in notebook.cells:
        cell.outputs, cell.execution_count, cell.attachments = "none", [7], 5
        cell.source = cell.source.splitlines(keepends=True)
    notebook.cells[0].metadata = {"nbgrader": [1], "id": {"a": 1}}
    notebook.cells += [None, 7, "cell", [], {}, {"source": 4}, {"cell_type": 1, "source": [1, "x", None]}]
    notebook.nbformat, notebook.metadata = "four", None


def another_kernel(notebook: NotebookNode) -> None:
    """Name a kernel that runs a command, a language that is none, and widgets with a script."""
    script = {"state": {"x": {"model_name": "<script>alert(1)</script>"}}}
    notebook.metadata = {
        "kernelspec": {"name": "../../bash", "language": "bash", "display_name": "<script>alert(1)</script>"},
        "language_info": {"name": "<b>", "pygments_lexer": "../../x", "version": 3},
        "widgets": {"application/vnd.jupyter.widget-state+json": script},
        "nbgrader": {"points": 100},
    }


def hostile_ids(notebook: NotebookNode) -> None:
    """Have ids that are paths, statements and scripts."""
    odd = ("../../x", "'; DROP TABLE grade; --", "<script>", "x" * 10_000, "\u202e", "", "setup", "feedback")
    for index, cell in enumerate(notebook.cells):
        cell.id = odd[index % len(odd)]


def colab(notebook: NotebookNode) -> None:
    """Come from Colab: its metadata, an installation, a mounted drive, a form."""
    notebook.metadata |= {"colab": {"provenance": [], "name": "x"}, "accelerator": "GPU"}
    lines = "#@title Mine { run: \"auto\" }\n%pip install numpy\n!pip install torch\nfrom google.colab import drive\ndrive.mount('/content/drive')"
    notebook.cells.insert(2, nbformat.v4.new_code_cell(lines))
    for index, cell in enumerate(notebook.cells):
        cell.metadata = {"id": f"x{index}Zp", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": "0"}
        cell.id = f"x{index}Zp"


FILES = (
    *(
        Attack(name, f"Submits {what} instead of the notebook.", special_file(make), UNMARKED, UNREADABLE)
        for name, (what, make) in SPECIAL.items()
    ),
    Attack(
        "hard-link",
        "Submits a second name of a classmate's file, which is the same as a copy of it.",
        hard_link,
    ),
    Attack("linked-folder", "Submits a folder that is a link to a classmate's.", linked_folder, UNMARKED, UNREADABLE),
    Attack("linked-student", "Is a link to a classmate.", linked_student, UNMARKED, UNREADABLE),
    Attack("nothing", "Submits nothing.", lambda place: None, UNMARKED, MISSING),
    Attack("empty", "Submits an empty file.", lambda place: place.submit(b""), UNMARKED, UNREADABLE),
    Attack(
        "html-page",
        "Submits the page of a login.",
        lambda place: place.submit(b"<!DOCTYPE html><title>Sign in</title>"),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "json-list",
        "Submits JSON that is no notebook.",
        lambda place: place.submit(b"[1, 2, 3]"),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "zip-bomb",
        "Submits a zip archive under the name of the notebook.",
        lambda place: place.submit(_zip_bomb()),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "too-large",
        "Submits a notebook of 60 MB.",
        lambda place: place.submit(b'{"cells": [' + b" " * 60_000_000 + b"]}"),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "json-bomb",
        "Submits JSON that takes a gigabyte of memory.",
        lambda place: place.submit(b'{"cells": [' + b"[]," * 12_000_000 + b"0]}"),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "deep-json",
        "Submits brackets without end.",
        lambda place: place.submit(b'{"cells": ' + b"[" * 1_000_000),
        UNMARKED,
        UNREADABLE,
    ),
    Attack(
        "truncated",
        "Submits a file that breaks off in self_attention.",
        truncated,
        "self_attention attention_backward",
        LOOK,
        on=FIRST,
    ),
    Attack(
        "byte-order-mark",
        "Submits a file with a byte-order mark.",
        lambda place: place.submit(b"\xef\xbb\xbf" + json.dumps(place.solved()).encode()),
    ),
    Attack(
        "utf-16",
        "Submits a file in UTF-16.",
        lambda place: place.submit(json.dumps(place.solved(), ensure_ascii=False).encode("utf-16")),
        NOTHING,
        Repaired,
    ),
    Attack(
        "latin-1",
        "Submits a file in Latin-1.",
        lambda place: place.submit(json.dumps(place.solved(), ensure_ascii=False).encode("latin-1", "replace")),
        NOTHING,
        Repaired,
    ),
    Attack("format-3", "Submits a notebook of the format of 2014.", spoiled(format_3), NOTHING, Repaired),
    Attack(
        "format-99",
        "Claims a format that does not exist yet.",
        spoiled(lambda notebook: notebook.update(nbformat=99, nbformat_minor=-1)),
    ),
    Attack("odd-fields", "Has fields of the wrong type, and cells that are none.", spoiled(odd_fields)),
    Attack("schema-version", "Has a schema_version of 99.", spoiled(edit_metadata(schema_version=99))),
    Attack("old-schema-version", "Has a schema_version of 2.", spoiled(edit_metadata(schema_version=2, checksum="0"))),
    Attack(
        "flags",
        "Has the flags of every cell turned over.",
        spoiled(edit_metadata(grade=True, locked=False, solution=True, task=True)),
    ),
    Attack("stripped", "Has lost all metadata and ids.", spoiled(strip), NOTHING, Repaired),
    Attack("hostile-ids", "Has ids that are paths, statements and scripts.", spoiled(hostile_ids)),
    Attack("duplicated", "Has every cell twice.", spoiled(duplicate), NOTHING, Repaired),
    Attack("deleted-tests", "Has no test cells.", spoiled(delete_tests), NOTHING, Repaired),
    Attack("retyped", "Has code as text and text as code.", spoiled(retype), NOTHING, Repaired),
    Attack("moved", "Has the answers at the end, in reversed order.", spoiled(move)),
    Attack("another-kernel", "Names another kernel and language, and brings widgets.", spoiled(another_kernel)),
    Attack("colab", "Comes from Colab, with installations and a mounted drive.", spoiled(colab), NOTHING, Repaired),
    Attack(
        "copy",
        "Is called “Copy of attention (1).ipynb”.",
        with_name("Copy of attention (1).ipynb"),
        NOTHING,
        Repaired,
        on=FIRST,
    ),
    Attack("option-name", "Is called “-rf.ipynb”.", with_name("-rf.ipynb"), NOTHING, Repaired),
    Attack(
        "script-name",
        "Has a script for a file name.",
        with_name("<img src=x onerror=alert(1)>\n|`*.ipynb"),
        NOTHING,
        Repaired,
    ),
    Attack(
        "right-to-left-name",
        "Has a file name that reads from right to left.",
        with_name("\u202e\u0646\u0648\u0631.ipynb"),
        NOTHING,
        Repaired,
    ),
    Attack("broken-name", "Has a file name that is no text.", with_name("\udcff\udcfe.ipynb"), NOTHING, Repaired),
    Attack(
        "many-files",
        "Has a thousand other files, folders and links next to the notebook.",
        lambda place: [
            place.submit(place.solved()),
            *(place.submit(b"x", f"{number}.ipynb") for number in range(1000)),
            (place.folder / "up").symlink_to("/"),
            (place.folder / ".ipynb_checkpoints").mkdir(),
        ],
        NOTHING,
        Repaired,
    ),
    Attack(
        "bad-timestamp",
        "Has a timestamp.txt that is no time.",
        lambda place: [place.submit(place.solved()), place.submit(b"yesterday \xff\x00 9999-99-99", "timestamp.txt")],
        NOTHING,
        LOOK,
    ),
    Attack("active-words", "Writes scripts, links and styles as text.", in_words(ACTIVE_WORDS), NOTHING, Repaired),
    Attack(
        "missing-picture",
        "Pastes a picture into an answer, which the file does not hold.",
        in_words("![image.png](attachment:image.png)"),
        NOTHING,
        Repaired,
    ),
    Attack(
        "slow-words",
        "Writes text over which a Markdown reader needs hours.",
        in_words("\\begin{a}" * 60_000 + "[^" * 60_000),
    ),
    Attack(
        "active-outputs",
        "Shows scripts as text, HTML, SVG, LaTeX, Markdown, JavaScript, errors and ANSI sequences.",
        own_cell(r"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
script = "<script>alert(1)</script><img src=x onerror=alert(1)>"
print(script, "\x1b[31mred\x1b]0;title\x07\x1b[2J\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07")
for kind in (HTML, Markdown, Latex, Javascript):
    display(kind(script))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"))
display({"text/plain": script, "application/javascript": "alert(1)"}, raw=True, metadata={"image/png": {"width": script}})
raise type(script, (Exception,), {})(script + "\x1b[31m" + script)
"""),
    ),
    Attack(
        "active-error",
        "Raises an error with a script and a table for a text.",
        in_answers(
            "raise ValueError('<script>alert(1)</script>|x|`y`\\n# [z](javascript:alert(1)) \\x1b[31m')", "softmax"
        ),
        "softmax",
        on=FIRST,
    ),
)


def _zip_bomb() -> bytes:
    import io
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"../../{number}/attention.ipynb", bytes(10**7))
    return data.getvalue()


STUDENTS = (  # the last four cannot be the names of students: files are made from them
    ("option", "is an option of a command", "-rf"),
    ("script", "is a script", "<img src=x onerror=alert(1)>"),
    ("formula", "is a formula", "=1+1"),
    ("comma", "holds a comma and a quotation mark", 'Doe, "Jr"'),
    ("sql", "is a statement", "'; DROP TABLE student; --"),
    ("right-to-left", "reads from right to left", "\u202e\u0646\u0648\u0631"),
    ("two-lines", "has two lines", "two\nlines"),
    ("template", "is a template", "{{ 7*7 }} ${HOME} %s $(id)"),
    ("emoji", "is an emoji and a letter of two parts", "\U0001f9d1\u200d\U0001f393e\u0301"),
    ("hidden", "is the name of a file of the grader", ".run"),
    ("dots", "looks like a path", "..%2f..%2fx"),
    ("long", "is as long as a file name may be", "x" * 255),
    ("no-text", "is no text", "\udcff\udcfe"),
)
NAMES = tuple(
    Attack(
        f"name-{name}",
        f"Submits the answers; the student's name {what}.",
        good,
        *((UNMARKED, UNREADABLE) if index >= len(STUDENTS) - 4 else (NOTHING, GRADED)),
        student=student,
    )
    for index, (name, what, student) in enumerate(STUDENTS)
)

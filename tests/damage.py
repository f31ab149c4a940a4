"""What editors, systems and people do to a solved notebook, and which of its work still arrives."""

import json
import re
from collections.abc import Callable
from copy import deepcopy as copied
from dataclasses import dataclass
from functools import cache
from typing import Any

import nbformat
from conftest import ALL, assignment_of
from sample_class import fill_in

from autograder.cells import grade_id
from autograder.grade.repair import Repaired
from autograder.recognition import answers_in, is_answer, name_of, names_in

Cells = list[dict[str, Any]]
NO_MATTER = re.compile(r"[^\x00-\x7f]|\?|\s")  # what an encoding loses, and empty lines
EXPERIMENT = "# an experiment"
WORDS = "The variance of a score grows with the width, so its deviation grows with the root"


@dataclass
class Work:
    """A solved notebook on its way to the grader."""

    assignment: str
    cells: Cells
    words: dict[str, str]  # by a cell's name, the student's word in it that must not be lost
    encode: Callable[[str], bytes] = str.encode
    wrap: Callable[[dict[str, Any]], str] = lambda notebook: json.dumps(notebook, ensure_ascii=False)

    @property
    def data(self) -> bytes:
        """The notebook's file."""
        notebook = {"cells": self.cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        return self.encode(self.wrap(notebook))


def solved(name: str) -> Work:
    """Return a solved notebook with a word of the student in every answer."""
    return copied(solved_once(name))


@cache
def solved_once(name: str) -> Work:
    """Return what `solved` copies."""
    assignment = assignment_of(name)
    work = Work(name, [], {})
    for cell in fill_in(assignment.release, assignment.instructor, bonus=True).cells:
        made = {key: cell[key] for key in ("cell_type", "id", "source", "metadata")}
        if is_answer(cell):
            word = work.words[name_of(cell)] = f"w{len(work.words)}mark"
            made["source"] = f"{cell.source}\n# {word}" if cell.cell_type == "code" else f"{WORDS} {word}."
        work.cells.append(made)
    return work


# ------------------------------------------------------------------------------ what editors, systems and people do


def new(source: str, kind: str = "code") -> dict[str, Any]:
    """Return an own cell of the student."""
    return {"cell_type": kind, "id": f"own{abs(hash(source)) % 10**6}", "metadata": {}, "source": source}


def is_written(cell: dict[str, Any], work: Work) -> bool:
    """Whether a cell holds a written answer."""
    return cell["cell_type"] == "markdown" and holds_answer(cell, work)


def merge(work: Work, place: int, how: int) -> None:
    """Press Shift-M: two cells of one kind become one, with the ids of one of them."""
    cells = work.cells
    pairs = [i for i in range(len(cells) - 1) if cells[i]["cell_type"] == cells[i + 1]["cell_type"]]
    pairs = [i for i in pairs if "#@title" not in cells[i]["source"] + cells[i + 1]["source"]]
    if pairs:
        i = pairs[place % len(pairs)]
        one, other = cells[i], cells[i + 1]
        kept = (one, other)[how % 2]
        cells[i : i + 2] = [kept | {"source": f"{one['source']}\n\n{other['source']}"}]


def move(work: Work, place: int, how: int) -> None:
    """Move a cell up or down."""
    cell = work.cells.pop(place % len(work.cells))
    work.cells.insert(how % (len(work.cells) + 1), cell)


def copy(work: Work, place: int, how: int) -> None:
    """Copy a cell, and paste it below."""
    index = place % len(work.cells)
    work.cells.insert(index + 1 + how % (len(work.cells) - index), dict(work.cells[index]))


def delete(work: Work, place: int, how: int) -> None:
    """Delete a cell without an answer."""
    others = [i for i, cell in enumerate(work.cells) if not holds_answer(cell, work)]
    if others:
        del work.cells[others[place % len(others)]]


def retype(work: Work, place: int, how: int) -> None:
    """Press M, Y or R in a cell."""
    cell = work.cells[place % len(work.cells)]
    cell["cell_type"] = ("code", "markdown", "raw")[how % 3]


def strip(work: Work, place: int, how: int) -> None:
    """Remove ids, metadata or both, or replace them."""
    for index, cell in enumerate(work.cells):
        if how % 3 != 1:
            cell["metadata"] = {}
        if how % 3 != 2:
            cell["id"] = f"c{index}"


def scratch(work: Work, place: int, how: int) -> None:
    """Add own cells."""
    names = [name for name in work.words if any(f"def {name}(" in cell["source"] for cell in work.cells)] or ["f"]
    name = names[how % len(names)]
    sources = [
        ("import math", 0),
        ("## my scratch", place),
        ("x = 3\nprint(x)", place),
        (f"def {name}(*a):  {EXPERIMENT}\n    return 0", len(work.cells)),
        ("import pandas as pd\nimport math", 0),
        ("%matplotlib widget\nfrom pathlib import Path", 0),
    ]
    source, at = sources[how % len(sources)]
    work.cells.insert(min(at, len(work.cells)), new(source, "markdown" if source[0] == "#" else "code"))


def repeat_helper(work: Work, place: int, how: int) -> None:
    """Repeat an earlier answer in the cell of a later one, above it."""
    code = code_answers(work)
    if len(code) > 1:
        later = 1 + place % (len(code) - 1)
        code[later]["source"] = f"{code[how % later]['source']}\n\n{code[later]['source']}"


def holds_answer(cell: dict[str, Any], work: Work) -> bool:
    """Whether a cell holds an answer."""
    return any(word in cell["source"] for word in work.words.values())


def code_answers(work: Work) -> Cells:
    """Return the code cells that define answers, and not as an experiment."""
    begins = re.compile(rf"^(?:def|class) (?:{'|'.join(work.words)})\b", re.M)
    code = [cell for cell in work.cells if cell["cell_type"] == "code" and EXPERIMENT not in cell["source"]]
    return [cell for cell in code if begins.search(cell["source"])]


def all_in_one(work: Work, place: int, how: int) -> None:
    """Keep all functions in one cell: the first one's, the last one's, or an own cell after the set-up."""
    code = code_answers(work)
    if len(code) > 1:
        together = "\n\n\n".join(cell["source"] for cell in code)
        host = code[-(how % 2)]
        host["source"] = together
        gone = [id(cell) for cell in code if cell is not host]
        work.cells = [cell for cell in work.cells if id(cell) not in gone]


def picture(work: Work, place: int, how: int) -> None:
    """Paste a photo into a written answer, as Colab or as Jupyter stores it."""
    texts = [cell for cell in work.cells if is_written(cell, work)]
    if texts:
        cell, photo = texts[place % len(texts)], "iVBORw0KGgo" * (120_000 if how % 2 else 100)
        if how % 3:
            cell["source"] = f"![photo](data:image/png;base64,{photo})\n{cell['source']}"
        else:
            cell["attachments"] = {"image.png": {"image/png": photo}}


def write_elsewhere(work: Work, place: int, how: int) -> None:
    """Write a written answer above or below its cell, at the end, in a comment, or into the question."""
    assignment = assignment_of(work.assignment)
    blanks = {name_of(cell): cell.source for cell in assignment.release.cells}
    texts = [i for i, cell in enumerate(work.cells) if is_written(cell, work) and cell["source"].startswith(WORDS)]
    if not texts:
        return
    index = texts[place % len(texts)]
    cell = work.cells[index]
    text, name = cell["source"], next(name for name, word in work.words.items() if word in cell["source"])
    cell["source"] = blanks[name]
    # A cell with an answer may be moved, so it gets no text.
    if how % 6 == 5 and index > 0 and not holds_answer(work.cells[index - 1], work):
        work.cells[index - 1]["source"] += f"\n\n{text}"
    elif how % 6 == 4:
        work.cells.insert(index + 1, new(f"# {text}"))
    elif how % 6 == 3:
        work.cells.insert(index + 1, new(text, "raw"))
    elif how % 6 == 2:
        work.cells.append(new(text, "markdown"))
    else:
        work.cells.insert(index + how % 6, new(text, "markdown"))


def conflict(work: Work, place: int, how: int) -> None:
    """Leave git's conflict marks in the file: around all of it, around a cell, or within one."""

    def wrap(notebook: dict[str, Any]) -> str:
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        lines = text.split("\n")
        start = 0 if how % 3 == 0 else 1 + place % (len(lines) - 2)
        end = len(lines) if how % 3 == 0 else min(start + 1 + how % 7, len(lines))
        part = lines[start:end]
        other = part if how % 2 else [re.sub(r'"execution_count": \w+', '"execution_count": 7', line) for line in part]
        marks = ["<<<<<<< HEAD", *part, "=======", *other, ">>>>>>> 3f2a9c1"]
        return "\n".join([*lines[:start], *marks, *lines[end:]])

    work.wrap = wrap


def encode(work: Work, place: int, how: int) -> None:
    """Write the file in another encoding, or with bytes after its end."""
    work.encode = [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("latin-1", "replace"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: f"{text}\n\x00\x00".encode(),
    ][how % 5]


def reformat(work: Work, place: int, how: int) -> None:
    """Write the notebook in another version of the format."""

    def wrap(notebook: dict[str, Any]) -> str:
        old = [dict(cell) for cell in notebook["cells"]]
        for cell in old:
            cell.pop("id", None)
            cell["source"] = cell["source"].splitlines(keepends=True)
        if how % 2:
            return json.dumps({"cells": old, "metadata": {}, "nbformat": 4, "nbformat_minor": 0})
        for cell in old:
            if cell["cell_type"] == "code":
                cell["input"] = cell.pop("source")
        return json.dumps({"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": old}]})

    work.wrap = wrap


CHANGES = [
    merge, move, copy, delete, retype, strip, scratch, repeat_helper, all_in_one, picture, write_elsewhere, conflict,
    encode, reformat,
]  # fmt: skip


def changed(name: str, changes: list[tuple[Callable[..., None], int, int]]) -> Work:
    """Return a solved notebook after some changes."""
    work = solved(name)
    for change, place, how in changes:
        change(work, place, how)
    return work


# --------------------------------------------------------------------------------------------- what reaches the tests


def arrives(repaired: Repaired, work: Work) -> list[str]:
    """List the work that does not arrive: code that reaches no test, and written answers that nobody would read.

    Fail if no person is asked about it, or if a word of the student is lost.
    """
    cells = repaired.notebook.cells
    right = {grade_id(cell): cell["source"] for cell in solved(work.assignment).cells}
    counts = answers_in(cells)[1]
    lost = []
    for index, cell in enumerate(cells):
        if is_answer(cell):
            name = grade_id(cell)
            wanted, seen = right[name], cells[counts.get(name, index)].source
            if NO_MATTER.sub("", wanted) not in NO_MATTER.sub("", seen):
                lost.append(name)
    nbformat.validate(repaired.notebook)
    if not any(EXPERIMENT in cell["source"] for cell in work.cells):  # about such a cell, a test that fails asks
        asked = "\n".join(repaired.questions)
        assert [each for each in lost if each not in asked] == [], (lost, repaired.receipt, repaired.questions)
    kept = nbformat.writes(repaired.notebook) + "\n".join(repaired.receipt)
    assert [word for word in work.words.values() if word not in kept] == []
    return lost


@cache
def others_of(name: str) -> dict[str, dict[str, bool]]:
    """Return the names of the cells of the other assignments."""
    return {other: names_in(assignment_of(other).release) for other in ALL if other != name}

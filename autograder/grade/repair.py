"""Put a submission's work into the released notebook, and write a receipt of every change.

All of the student's code cells run, in the student's order. Of a cell with two versions, ours counts if it was released
as given, and the student's if it was released to be filled in.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode

from autograder.cells import is_locked, is_test
from autograder.files import Unreadable
from autograder.grade.misplaced_texts import Item, place_texts
from autograder.notebooks import Cell, read_notebook
from autograder.recognition import (
    chapter_of,
    in_words,
    is_answer,
    name_of,
    names_defined,
    names_in,
    other_assignment,
    parsed,
)

CODE = ast.FunctionDef, ast.ClassDef  # statements that define an answer
MAX_RECEIPT = 200  # entries
MAX_ASKED = 5  # names that a question lists
LONG = 40  # characters; a longer released text is recognised inside another text
EARLIER = "The notebook is from an earlier release; its locked cells were replaced by those of the present release."
# The beginning of a tag, a link, an image or a link's address in Markdown
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:])")
# What may differ in a released cell that nobody changed: the addresses, which are the instructor's own in a student
# version, and letters that an encoding lost
NO_MATTER = re.compile(r"https://[^\s\"'<>)]+|[^\x00-\x7f]")
COLAB_LINES = re.compile(r"^\s*([%!]\s*(pip|conda|apt|apt-get|mamba)\b|from google\.colab import|drive\.mount\()")


class OtherAssignment(Unreadable):
    """The notebook belongs to another assignment, or is a chapter of the book; the message says which."""


@dataclass
class Repaired:
    """A notebook with the released cells in their places, and what the repair did."""

    notebook: NotebookNode
    receipt: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)  # questions that only a person can decide
    pictures: dict[str, str] = field(default_factory=dict)  # see `Notebook.pictures`


def repair_notebook(
    data: bytes,
    instructor: NotebookNode,
    release: NotebookNode,
    others: Mapping[str, Mapping[str, bool]] | None = None,
    submitted_as: str = "another assignment",
    earlier: Set[str] = frozenset(),
    chapters: Mapping[str, Collection[str]] | None = None,
) -> Repaired:
    """Put a submission's work into the released cells.

    Args:
        data: The submitted file.
        instructor: The notebook with hidden tests; its locked cells are used.
        release: The notebook that students got, with the same cells in the same order; it supplies a missing cell that
            students fill in.
        others: The cell names of other assignments, from `names_in`, by the assignments' names.
        submitted_as: The name of this assignment.
        earlier: Texts of the cells of earlier releases. Such a text is not the student's work.
        chapters: The code cells of each chapter of the book, from `code_in`, by the chapters' names.

    Raises:
        Unreadable: the file cannot be read as a notebook.
        OtherAssignment: it is the notebook of another assignment, or a chapter of the book.
    """
    submitted = read_notebook(data)
    if chapter := chapter_of(submitted.cells, names_in(release), chapters or {}):
        raise OtherAssignment(f"This is the chapter {chapter} of the book, not the exercise {submitted_as}.")
    other = other_assignment(submitted.cells, names_in(release), others or {})
    if other is not None:
        raise OtherAssignment(f"This is the notebook of {other}, submitted as {submitted_as}.")
    work = _Work(submitted.cells, release, earlier, submitted.receipt, submitted.questions)
    items = place_texts(work.items(instructor), release.cells, work.receipt, work.questions)
    lost = work.missing_answers()
    for item in items:
        name = "" if item.own else name_of(release.cells[item.place])
        if name in lost and item.node.source == release.cells[item.place].source:
            work.receipt.append(f"The cell {name} was missing; an empty one was added.")
    if submitted.damaged and lost:
        lost_in_words = f"the answers {', '.join(lost)} are not in what could be read"
        work.questions.append(f"The file is cut off or damaged, and {lost_in_words}. Is there a complete file?")
    items += [Item(_piece(text, work.receipt)) for text in submitted.pieces]
    return Repaired(_notebook_of(items, instructor), work.receipt, work.questions, submitted.pictures)


class _Work:
    """The cells of a submission, and the released cells that they are."""

    def __init__(
        self, cells: list[Cell], release: NotebookNode, earlier: Set[str], receipt: list[str], questions: list[str]
    ) -> None:
        self.released, self.receipt, self.questions = release.cells, receipt, questions
        answers = [(name_of(cell), place) for place, cell in enumerate(release.cells) if is_answer(cell)]
        self.code, self.texts = (  # the places of the answers by their names: functions and classes; written answers
            {name: place for name, place in answers if release.cells[place].cell_type == kind}
            for kind in ("code", "markdown")
        )
        texts = {cell.source.strip() for cell in release.cells}
        self.earlier = {_key(text) for text in earlier - texts}
        self.known = {_key(text) for text in texts | earlier}
        self.cells = self._split_texts(cells)
        self.keys = [_key(cell.source) for cell in self.cells]
        self.mine = [key != "" and not self._is_ours(index) for index, key in enumerate(self.keys)]
        # A released cell holds no definition by the student.
        self.defined = [names_defined(cell) if mine else {} for cell, mine in zip(self.cells, self.mine)]
        self.place_of: dict[int, int] = {}  # the released cell's place, by the index of the submitted cell
        self.hosts: dict[int, int] = {}  # by the place of an answer, that of the answer in whose cell it is defined
        self.unwritten = self.code.keys() - {name for names in self.defined for name in names if names[name]}
        self._find_code()
        self._find_renamed()
        self._find_texts()
        self._find_ours()

    def _split_texts(self, cells: list[Cell]) -> list[Cell]:
        """Split each text that holds a released text and something else: merged cells, or words added to a question."""
        long = {cell.source.strip(): cell for cell in self.released if cell.cell_type == "markdown"}
        long = {text: cell for text, cell in long.items() if len(text) > LONG}
        split: list[Cell] = []
        for cell in cells:
            inside = [text for text in long if text in cell.source]
            if not inside or _key(cell.source) in self.known or (cell.kind == "code" and parsed(cell.source)):
                split.append(cell)
                continue
            pattern = "|".join(map(re.escape, sorted(inside, key=len, reverse=True)))
            for part in filter(None, map(str.strip, re.split(f"({pattern})", cell.source))):
                split.append(Cell("markdown", part, [name_of(long[part])]) if part in long else Cell(cell.kind, part))
            self.receipt.append(f"A cell was merged with {in_words(long[inside[0]])}; it was taken apart.")
        return split

    def _is_ours(self, index: int) -> bool:
        """Whether a cell is as it was released, now or earlier."""
        cell = self.cells[index]
        if self.keys[index] in self.known or cell.checksum is None:
            return self.keys[index] in self.known
        blank = next((each for each in self.released if is_locked(each) and name_of(each) in cell.names), None)
        if blank is None:
            return False
        from nbgrader.utils import compute_checksum  # importing it takes seconds, and few submissions need it

        return cell.checksum == compute_checksum(nbformat.from_dict(blank | {"source": cell.source}))

    def _with_id(self, name: str) -> list[int]:
        """Return the student's cells that carry the id of a released cell and define no answer."""
        with_id = [index for index, cell in enumerate(self.cells) if self.mine[index] and name in cell.names]
        with_id = [index for index in with_id if index not in self.place_of]
        return [index for index in with_id if self.code.keys().isdisjoint(self.defined[index])]

    def _find_code(self) -> None:
        """Find the cell whose definition of each answer counts: the answer's own cell, else the last one."""
        for name, place in self.code.items():
            defining = [index for index, names in enumerate(self.defined) if name in names]
            defining = [i for i in defining if self.cells[i].kind == "code"] or defining
            written = [i for i in defining if self.defined[i][name]] or defining
            own = [i for i in written if name in self.cells[i].names]
            if (count := sum(name in self.cells[i].names for i in defining)) > 1:
                self.receipt.append(f"There were {count} cells {name}; the last changed one was taken.")
            index = max(own or written, default=None)
            if index is None:
                continue
            if index in self.place_of:
                self.hosts[place] = self.place_of[index]
                self.receipt.append(f"{name} is in the same cell as {name_of(self.released[self.hosts[place]])}.")
                continue
            self.place_of[index] = place
            if name not in self.cells[index].names or self.cells[index].kind != "code":
                self.receipt.append(
                    f"{name} was not in its own cell. It was recognised by its content, and moved to its own cell."
                )

    def _find_renamed(self) -> None:
        """Find the cells of answers that are defined nowhere, and ask about the names that these cells define instead."""
        anywhere = {name for names in self.defined for name in names}
        for name in (each for each in self.code if each not in anywhere):
            own = [index for index, cell in enumerate(self.cells) if self.mine[index] and name in cell.names]
            trees = [tree for index in own if (tree := parsed(self.cells[index].source))]
            if defined := [each.name for tree in trees for each in tree.body if isinstance(each, CODE)]:
                instead = f"The cell of {name} defines {', '.join(defined[:MAX_ASKED])}, but not {name}"
                self.questions.append(f"{instead}. Is the answer under another name?")
            if left := [index for index in own if index not in self.place_of]:
                self.place_of[left[-1]] = self.code[name]

    def _find_texts(self) -> None:
        """Find the written answers by their ids."""
        for name, place in self.texts.items():
            if same := self._with_id(name):
                texts = [index for index in same if self.cells[index].kind == "markdown"]
                self.place_of[(texts or same)[-1]] = place
                if len(same) > 1:
                    self.receipt.append(f"There were {len(same)} cells {name}; the last changed one was taken.")

    def _find_ours(self) -> None:
        """Find each released cell that has no place yet: by its text and id, else by its text, else by its id."""
        by_text: dict[str, list[int]] = {}
        for index, key in enumerate(self.keys):
            if not self.mine[index]:
                by_text.setdefault(key, []).append(index)
        left = [place for place in range(len(self.released)) if place not in {*self.place_of.values(), *self.hosts}]
        for with_id in (True, False):
            for place in list(left):
                name, blank = name_of(self.released[place]), self.released[place]
                same = [i for i in by_text.get(_key(blank.source), ()) if i not in self.place_of]
                same = [i for i in same if name in self.cells[i].names] if with_id else same
                # The prompts of written answers are the same text.
                if same and (with_id or name not in self.texts):
                    self.place_of[same[0]] = place
                    left.remove(place)
        for place in left:
            name = name_of(self.released[place])
            ours = [i for i, cell in enumerate(self.cells) if name in cell.names and not self.mine[i]]
            same = [i for i in ours if i not in self.place_of] or self._with_id(name)
            if same:
                self.place_of[same[0]] = place
        copies = [i for i, mine in enumerate(self.mine) if not mine and i not in self.place_of and self.keys[i]]
        if count := sum(self.keys[i] not in self.earlier for i in copies):
            self.receipt.append(f"Unchanged copies of released cells were left out: {count}.")

    def missing_answers(self) -> list[str]:
        """Return the names of the answers that are in no cell."""
        found = {*self.place_of.values(), *self.hosts}
        return [name for name, place in (self.code | self.texts).items() if place not in found]

    def items(self, instructor: NotebookNode) -> list[Item]:
        """Return the cells of the graded notebook in the student's order, but the set-up first.

        A cell that was put back follows the one that it follows in the release.
        """
        items: list[Item] = []
        after = -1
        for index, cell in enumerate(self.cells):
            place = self.place_of.get(index)
            if place is not None:
                after = place
                items += self._released(place, index, instructor)
            elif self.mine[index]:
                items.append(Item(_own_cell(cell, self.receipt), after=after))
        for place in range(len(self.released)):
            if place not in self.place_of.values():
                before = [i for i, item in enumerate(items) if not item.own and item.place < place]
                at = max(before, key=lambda i: items[i].place, default=-1) + 1
                items[at:at] = self._released(place, None, instructor)
        code = [item for item in items if not item.own and item.node.cell_type == "code"]
        for setup in [item for item in code[1:] if name_of(self.released[item.place]) == "setup"]:
            items.remove(setup)
            items.insert(items.index(code[0]), setup)
        return items

    def _released(self, place: int, index: int | None, instructor: NotebookNode) -> list[Item]:
        """Return a released cell, with the student's text if it is an answer, and what was changed in any other cell."""
        blank, full = self.released[place], instructor.cells[place]
        cell = None if index is None else self.cells[index]
        # nbgrader sees by the released answer's checksum whether the student wrote something.
        item, name = Item(nbformat.from_dict(blank if is_answer(blank) else full), place), name_of(blank)
        changed = index is not None and self.mine[index]
        if is_answer(blank):
            item.node.source = blank.source if cell is None else _clean(cell.source, full.cell_type, self.receipt)
            if place in self.hosts:  # the released template would define the name again
                item.node.source = f"# {name} is in the cell {name_of(self.released[self.hosts[place]])}."
            return [item]
        if cell is None and is_locked(full):
            self.receipt.append(f"The cell {name} was missing; it was put back.")
        if index is not None and not changed and self.keys[index] != _key(blank.source):
            _note(self.receipt, EARLIER)
        if not changed:
            return [item]
        if full.cell_type == "markdown":
            added = _added_lines(cell.source, blank.source)
            if added:
                _note(self.receipt, f"The text that was added to {in_words(blank)} was kept as a separate cell.")
            own = [Item(_own_cell(Cell(cell.kind, added), self.receipt), after=place)] if added else []
            return [item, *own]
        if not is_locked(full):
            item.node.metadata["changed"] = True
            item.node.source = _clean(cell.source, "code", self.receipt)
            return [item]
        self.receipt.append(f"The locked cell {name} was changed; the changed cell runs first, then the released one.")
        for answer in sorted(self.unwritten & set(re.findall(r"\w+", blank.source) if is_test(full) else ())):
            self.questions.append(f"{answer} is not written, and {name} was changed. Is the answer under another name?")
        return [Item(_own_cell(cell, self.receipt), after=place - 1), item]


def _key(text: str) -> str:
    """Return a text without what may differ in a released cell that nobody changed."""
    text = text.strip()
    return NO_MATTER.sub("", text) or text


def _added_lines(source: str, released: str) -> str:
    """Return the lines of a text that were not released."""
    left = Counter(_key(line) for line in released.splitlines())
    left.subtract(lines := [_key(line) for line in source.splitlines()])
    more = Counter({line: -count for line, count in left.items() if count < 0})
    kept = []
    for line, key in reversed(list(zip(source.splitlines(), lines))):
        if more[key] > 0:
            more[key] -= 1
            kept.append(line)
    return "\n".join(reversed(kept)).strip()


def _notebook_of(items: list[Item], instructor: NotebookNode) -> NotebookNode:
    cells = [nbformat.from_dict(item.node) for item in items]
    for index, cell in enumerate(cells):
        cell["id"] = cell.metadata.nbgrader.grade_id if "nbgrader" in cell.metadata else f"cell-{index}"
    return nbformat.v4.new_notebook(cells=cells, metadata=instructor.metadata, nbformat_minor=5)


def _piece(text: str, receipt: list[str]) -> NotebookNode:
    """Return a cell that shows a text from outside the cells."""
    first = next((line for line in text.splitlines() if line.strip()), "").strip()[:60]
    _note(receipt, f"Not placed: {first} … It is shown at the end of the notebook.")
    fenced = "\n".join(f"    {line}" for line in text.splitlines())
    return _own_cell(Cell("markdown", f"**Not placed**, and not graded:\n\n{fenced}"), receipt)


def _own_cell(cell: Cell, receipt: list[str]) -> NotebookNode:
    new = nbformat.v4.new_code_cell if cell.kind == "code" else nbformat.v4.new_markdown_cell
    return new(_clean(cell.source, cell.kind, receipt), metadata={"own": True})


def _clean(source: str, kind: str, receipt: list[str]) -> str:
    return _without_installs(source, receipt) if kind == "code" else _without_html(source, receipt)


def _without_html(source: str, receipt: list[str]) -> str:
    """Put a space where a tag or a link would begin: nbgrader's pages render all HTML in Markdown."""
    text = ACTIVE.sub(lambda match: match[0] + " ", source)
    if text != source:
        _note(receipt, "Tags and links in a text are shown as text.")
    return text


def _without_installs(source: str, receipt: list[str]) -> str:
    """Comment out lines that install packages or mount a drive: the sandbox has no network."""
    lines, goes_on, is_python, opened = source.split("\n"), False, False, 0
    for index, line in enumerate(lines):
        if begins := COLAB_LINES.match(line):
            _note(receipt, f"A line that needs the network was left out: {line.strip()[:80]}")
            is_python, opened = begins[1][0] not in "%!", 0
        if begins or goes_on:
            lines[index] = re.match(r"\s*", line)[0] + ("pass  # left out: " if begins else "# ") + line.strip()
            opened += is_python * (line.count("(") - line.count(")"))
            goes_on = opened > 0 or line.rstrip("\r").endswith("\\")
    return "\n".join(lines)


def _note(receipt: list[str], entry: str) -> None:
    """Add an entry, unless it is there or the receipt is full. A submission may cause millions of entries."""
    if entry not in receipt and len(receipt) < MAX_RECEIPT:
        receipt.append(entry)

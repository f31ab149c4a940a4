"""Bring a submitted notebook back to the released cells, keep the student's work, and write a receipt of every change.

The locked cells come from the instructor's notebook, and the student's code comes from the student's cells.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode

from autograder.cells import is_locked
from autograder.files import Unreadable
from autograder.grade.layout import Item, in_submitted_order
from autograder.grade.match import Match, Matching, is_similar, names_defined, words_of
from autograder.grade.texts import NOT_RUN, place_texts
from autograder.notebooks import Cell, Notebook, read_notebook
from autograder.recognition import (
    chapter_of,
    definitions,
    in_words,
    is_answer,
    name_of,
    names_in,
    other_assignment,
    parsed,
)

MAX_RECEIPT = 200  # entries
EARLIER = "The notebook is from an earlier release; its locked cells were replaced by those of the present release."
# The beginning of a tag, a link, an image or a link's address in Markdown
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:])")
ADDRESS = re.compile(r"https://[^\s\"'<>)]+")  # a student version has the instructor's own addresses
ASCII = re.compile(r"[^\x00-\x7f]")
TESTED = re.compile(r"""run_tests\(\s*["'](\w+)["']\s*,\s*(\w+)\s*\)""")  # the name of an answer, and what is tested
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
    names, texts = {name_of(cell) for cell in release.cells}, {cell.source.strip() for cell in release.cells}
    answers = {name_of(cell) for cell in release.cells if is_answer(cell)}

    def belongs(cell: Cell) -> bool:
        known = not names.isdisjoint(cell.names) or cell.source.strip() in texts
        return known or not answers.isdisjoint(names_defined(cell))

    submitted = read_notebook(data, belongs)
    if chapter := chapter_of(submitted.cells, names_in(release), chapters or {}):
        raise OtherAssignment(f"This is the chapter {chapter} of the book, not the exercise {submitted_as}.")
    other = other_assignment(submitted.cells, names_in(release), others or {})
    if other is not None:
        raise OtherAssignment(f"This is the notebook of {other}, submitted as {submitted_as}.")
    receipt, questions = submitted.receipt, submitted.questions
    only_earlier = earlier - texts
    if any(cell.kind != "code" and cell.source.strip() in only_earlier for cell in submitted.cells):
        _note(receipt, EARLIER)
    match = _one_side_of(submitted, release, earlier, receipt, questions)
    items = _items_of(match, instructor, release, earlier, receipt)
    if submitted.damaged:
        lost = [name_of(release.cells[item.place]) for item in items if _is_lost(item, release, match)]
        if lost:
            lost_in_words = f"the answers {', '.join(lost)} are not in what could be read"
            questions.append(f"The file is cut off or damaged, and {lost_in_words}. Is there a complete file?")
    items = place_texts(items, release.cells, receipt, questions)
    items += [Item(_piece(text, receipt), index=len(match.cells) + n) for n, text in enumerate(submitted.pieces)]
    pictures = submitted.pictures | (submitted.other.pictures if submitted.other else {})
    notebook = _notebook_of(in_submitted_order(items, release.cells), instructor)
    return Repaired(notebook, receipt, questions, pictures)


def _one_side_of(
    submitted: Notebook, release: NotebookNode, earlier: Set[str], receipt: list[str], questions: list[str]
) -> Match:
    """Match the cells with the released ones. If a git conflict gives two sides, use the side with more answers."""
    if submitted.other is None:
        return Matching(submitted.cells, release.cells, earlier, receipt, questions).match()
    receipts: tuple[list[str], list[str]] = [], []
    asked: tuple[list[str], list[str]] = [], []
    sides = submitted.cells, submitted.other.cells
    matches = [Matching(cells, release.cells, earlier, *notes).match() for cells, *notes in zip(sides, receipts, asked)]
    ours, theirs = (_answers_in(match, release) for match in matches)
    differ = [name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]]
    only = [name for name in ours.keys() ^ theirs.keys() if name in ours], [n for n in theirs if n not in ours]
    side = int(not differ and not only[0] and bool(only[1]))
    receipt += receipts[side]
    questions += asked[side]
    if differ or (only[0] and only[1]):
        names = ", ".join(sorted({*differ, *only[0], *only[1]}))
        questions.append(
            f"The file has git's conflict marks, and the two sides differ in {names}. Which side counts? "
            "The first was graded."
        )
    elif ours != theirs:
        receipt.append("The file has git's conflict marks; the side with more answers was taken.")
    else:
        receipt.append("The file has git's conflict marks; both sides have the same answers, and the first was taken.")
    known = {cell.source for cell in sides[side]} | {cell.source for cell in release.cells}
    left = [cell.source for cell in sides[1 - side] if cell.source.strip() and cell.source not in known]
    submitted.pieces += left
    return matches[side]


def _answers_in(match: Match, release: NotebookNode) -> dict[str, str]:
    """Return the answers that differ from the release, by their names."""
    answers = {}
    for place, cell in enumerate(release.cells):
        index = match.index_of.get(match.elsewhere.get(place, place))
        if is_answer(cell) and index is not None and match.cells[index].source.strip() != cell.source.strip():
            answers[name_of(cell)] = match.cells[index].source.strip()
    return answers


def _items_of(
    match: Match, instructor: NotebookNode, release: NotebookNode, earlier: Set[str], receipt: list[str]
) -> list[Item]:
    """Return the cells of the graded notebook in the order of the release, with the student's own cells among them."""
    place_of = {index: place for place, index in match.index_of.items()}
    own: dict[int, list[Item]] = {}  # by the place of the released cell before them
    place = -1
    for index, cell in enumerate(match.cells):
        place = place_of.get(index, place)
        if index not in place_of and index not in match.copies and cell.source.strip():
            own.setdefault(place, []).append(Item(_own_cell(cell, receipt), index=index, anchor=place))
    items = own.get(-1, [])
    for place, (full, blank) in enumerate(zip(instructor.cells, release.cells, strict=True)):
        index = match.index_of.get(place)
        cell = None if index is None else match.cells[index]
        item = Item(full, place, index)
        if place in match.elsewhere:
            host = match.elsewhere[place]
            item.node = _placeholder(blank, name_of(release.cells[host]))
        elif "nbgrader" in full.metadata:
            item.node = _released_cell(full, blank, cell, receipt)
        elif full.cell_type == "code" and cell is not None:
            item.node = nbformat.from_dict(full)
            if not (_same_words(cell, blank) or cell.source.strip() in earlier):
                item.node.metadata["changed"] = True
            item.node.source = _without_installs(cell.source, receipt)
        elif full.cell_type == "markdown":
            item.node = nbformat.from_dict(full)
        else:
            items += own.get(place, [])
            continue
        added = [] if cell is not None and cell.source.strip() in earlier else _added_to(item, blank, cell, receipt)
        tested = TESTED.search(cell.source) if cell is not None and full.cell_type == "code" else None
        if tested and tested[1] != tested[2] and not _is_written(match, tested[1]):
            # The student tests an answer under another name, which the released test does not know.
            _note(receipt, f"Its test was changed to call {tested[2]}, so {tested[2]} was taken for {tested[1]}.")
            alias = Cell("code", f"{tested[1]} = {tested[2]}")
            added += [Item(_own_cell(alias, receipt), index=item.index - 0.25, anchor=item.place)]
        # Code that a student wrote into the cell of a test runs before the test.
        before = full.cell_type == "code" and name_of(full) != "setup"
        items += [*added, item] if before else [item, *added]
        items += own.get(place, [])
    return items


def _is_written(match: Match, name: str) -> bool:
    """Whether a cell defines a name by more than the released template."""
    return any(definitions(cell.source).get(name) for cell in match.cells if cell.kind == "code")


def _added_to(item: Item, blank: NotebookNode, cell: Cell | None, receipt: list[str]) -> list[Item]:
    """Return what the student wrote into a cell whose released text is put back."""
    if cell is None or is_answer(blank) or (blank.cell_type == "code" and not is_locked(blank)):
        return []
    if _same_words(cell, blank) or _was_released(blank, cell):
        return []
    if blank.cell_type == "markdown" or cell.kind == "markdown":
        added, rest = _added_lines(cell.source, blank.source), ""
        kind = cell.kind
    else:
        added, rest = _added_code(cell.source, blank.source)
        kind = "code"
    step = -0.5 if kind == "code" and name_of(blank) != "setup" else 0.5
    made = [Cell(kind, added)] if added else []
    made += [Cell("markdown", f"{NOT_RUN}changes to the locked cell {name_of(blank)}.]\n\n{rest}")] if rest else []
    if made:
        _note(receipt, f"The text that was added to {in_words(blank)} was kept as a separate cell.")
    return [Item(_own_cell(each, receipt), index=item.index + step, anchor=item.place) for each in made]


def _same_words(cell: Cell, blank: NotebookNode) -> bool:
    return ADDRESS.sub("", cell.source.strip()) == ADDRESS.sub("", blank.source.strip())


def _added_lines(source: str, released: str) -> str:
    """Return the lines that a student added to a text. Lines that correct a released line are left out."""
    left = Counter(line.strip() for line in released.splitlines())
    lines = []
    for line in source.splitlines():
        if left[line.strip()] > 0:
            left[line.strip()] -= 1
        else:
            lines.append(line)
    gone = [words_of(line) for line, count in left.items() if count > 0 and line]
    kept = [line for line in lines if not any(is_similar(words_of(line), each) for each in gone)]
    return "\n".join(kept).strip()


def _added_code(source: str, released: str) -> tuple[str, str]:
    """Return what a student added to a code cell: statements that run, and changes to the cell's own definitions."""
    # A letter that an encoding lost does not count as a change.
    mine, theirs = parsed(source), parsed(ASCII.sub("", released))
    if mine is None or theirs is None:
        return "", _added_lines(source, released)
    known = {ast.dump(statement) for statement in theirs.body}
    lines, named = source.splitlines(), set(definitions(released))
    run, rest, done = [], [], 0
    comments = {ASCII.sub("", line).strip() for line in ["", *released.splitlines()]}
    plain = parsed(ASCII.sub("", source)) or mine
    for statement, same in zip(mine.body, plain.body):
        start = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))]) - 1
        above = [line for line in lines[done:start] if ASCII.sub("", line).strip() not in comments]
        text = above if ast.dump(same) in known else [*above, *lines[max(start, done) : statement.end_lineno]]
        again = named & set(definitions("\n".join(text)))
        (rest if again else run).extend(text)
        done = max(done, statement.end_lineno)
    run += [line for line in lines[done:] if ASCII.sub("", line).strip() not in comments]
    return "\n".join(run).strip(), "\n".join(rest).strip()


def _placeholder(blank: NotebookNode, host: str) -> NotebookNode:
    """Return a cell that says which other cell holds its answer. The released template would define the name again."""
    cell = nbformat.from_dict(blank)
    cell.source = f"# {name_of(blank)} is in the cell {host}."
    return cell


def _is_lost(item: Item, release: NotebookNode, match: Match) -> bool:
    missing = not item.own and is_answer(release.cells[item.place]) and item.index is None
    return missing and item.place not in match.elsewhere


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


def _released_cell(cell: NotebookNode, blank: NotebookNode, submitted: Cell | None, receipt: list[str]) -> NotebookNode:
    """Return the cell that is graded: locked text from the instructor, anything else from the student."""
    name = cell.metadata.nbgrader.grade_id
    if is_locked(cell):
        if submitted is None:
            receipt.append(f"The cell {name} was missing; it was put back.")
        elif ADDRESS.sub("", submitted.source.strip()) != ADDRESS.sub("", blank.source.strip()):
            if _was_released(blank, submitted):
                _note(receipt, EARLIER)
            else:
                receipt.append(f"The locked cell {name} was changed; its released text was put back.")
        return nbformat.from_dict(cell)
    repaired = nbformat.from_dict(blank)
    if submitted is None:
        receipt.append(f"The cell {name} was missing; an empty one was added.")
    else:
        clean = _without_installs if cell.cell_type == "code" else _without_html
        repaired.source = clean(submitted.source, receipt)
    return repaired


def _was_released(blank: NotebookNode, submitted: Cell) -> bool:
    """Whether the text of a locked cell comes from an earlier release."""
    if submitted.checksum is None or "nbgrader" not in blank.metadata:
        return False
    from nbgrader.utils import compute_checksum  # importing it takes seconds, and few submissions need it

    return submitted.checksum == compute_checksum(nbformat.from_dict(blank | {"source": submitted.source}))


def _own_cell(cell: Cell, receipt: list[str]) -> NotebookNode:
    if cell.kind == "code":
        return nbformat.v4.new_code_cell(_without_installs(cell.source, receipt), metadata={"own": True})
    return nbformat.v4.new_markdown_cell(_without_html(cell.source, receipt), metadata={"own": True})


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

"""Bring a submitted notebook back to the released cells, keep the student's work, and write a receipt of every change.

Nothing of the file is trusted: from its cells only kind, text and what identifies them is taken. The locked cells come
from the instructor's notebook, the student's code from the cells that are theirs.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.cells import is_locked
from autograder.files import Unreadable, writable

MAX_CELLS = 2000
MAX_RECEIPT = 200  # entries
# What begins a tag, a link, an image or a link's address in Markdown
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:])")
MAX_SOURCE = 1_000_000  # characters of one cell
MAX_COMPARED = 3000  # characters of a cell that are compared with those of the released cells
ADDRESS = re.compile(r"https://[^\s\"'<>)]+")  # in an edition, the instructor's own
COLAB_LINES = re.compile(r"^\s*([%!]\s*(pip|conda|apt|apt-get|mamba)\b|from google\.colab import|drive\.mount\()")


@dataclass
class _Cell:
    kind: str  # "code" or "markdown"
    source: str
    names: list[str]  # by which it may be recognised: grade id, cell id
    checksum: Any = None  # nbgrader's, of the cell as it was released


@dataclass
class Mended:
    """A notebook with the released cells in their places, and what had to be done for that."""

    notebook: NotebookNode
    receipt: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)  # what only a person can decide, in words


def read_notebook(data: bytes, belongs: Callable[[_Cell], bool] = lambda cell: False) -> tuple[list[_Cell], list[str]]:
    """Read what can be read of a file that claims to be a notebook.

    Args:
        data: The file.
        belongs: Whether a cell is to be read where there are too many.

    Returns:
        Its code and markdown cells, and a receipt of what was mended.

    Raises:
        Unreadable: there is no cell in it.
    """
    receipt: list[str] = []
    if not data.strip():
        raise Unreadable("the file is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1", errors="replace")
        receipt.append("The file was not UTF-8; it was read in another encoding.")
    if text.lstrip()[:1] == "<":
        raise Unreadable("the file is an HTML page, not a notebook: download it with File → Download → Download .ipynb")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        raw = _cells_of_broken_json(text)
        if not raw:
            raise Unreadable("the file is not JSON, and no cell can be read from it") from None
        receipt.append(f"The file is cut off or damaged; the {len(raw)} cells before the damage were read.")
    else:
        if not isinstance(content, dict):
            raise Unreadable("the file is JSON, but not a notebook")
        raw = content.get("cells")
        if raw is None and isinstance(content.get("worksheets"), list):
            sheets = [sheet for sheet in content["worksheets"] if isinstance(sheet, dict)]
            raw = [cell for sheet in sheets if isinstance(sheet.get("cells"), list) for cell in sheet["cells"]]
            receipt.append("The notebook was in format 3; its cells were converted.")
    if not isinstance(raw, list) or not raw:
        raise Unreadable("the notebook has no cells")
    if len(raw) > MAX_CELLS:
        receipt.append(
            f"The notebook has {len(raw):,} cells; the first {MAX_CELLS:,} were read, and those of the assignment."
        )
    cells = [cell for cell in map(_read_cell, raw[:MAX_CELLS]) if cell is not None]
    others = (cell for cell in map(_read_cell, raw[MAX_CELLS:]) if cell is not None and belongs(cell))
    cells += islice(others, MAX_CELLS)
    if not cells:
        raise Unreadable("the notebook has no cells that can be read")
    return cells, receipt


def _read_cell(raw: Any) -> _Cell | None:
    if not isinstance(raw, dict):
        return None
    source = raw.get("source", raw.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str) or len(source) > MAX_SOURCE:
        return None
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    nbgrader = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    names = [nbgrader.get("grade_id"), raw.get("id"), metadata.get("id")]
    kind = "code" if raw.get("cell_type") == "code" else "markdown"
    known = [name for name in names if isinstance(name, str)]
    return _Cell(kind, writable(source).replace("\x00", ""), known, nbgrader.get("checksum"))


def _cells_of_broken_json(text: str) -> list[Any]:
    """Return the cells that are whole in a JSON text that is not."""
    start = re.search(r'"cells"\s*:\s*\[', text)
    if not start:
        return []
    cells, position, decoder = [], start.end(), json.JSONDecoder()
    while len(cells) <= 10 * MAX_CELLS:
        position = re.compile(r"[\s,]*").match(text, position).end()
        try:
            cell, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError, MemoryError):
            break
        cells.append(cell)
    return cells


def mend(data: bytes, instructor: NotebookNode, release: NotebookNode) -> Mended:
    """Put a submission's work into the released cells.

    Args:
        data: The submitted file.
        instructor: The notebook with hidden tests; its locked cells are used.
        release: The notebook that students got, with the same cells in the same order; a cell that is the student's to
            fill comes from it when it is missing.

    Raises:
        Unreadable: no notebook can be made of the file.
    """
    names, texts = {_name(cell) for cell in release.cells}, {cell.source.strip() for cell in release.cells}
    answers = [_name(cell) for cell in release.cells if _is_answer(cell)]
    defines = re.compile(rf"^(def|class) ({'|'.join(map(re.escape, answers))})\b", re.M)

    def belongs(cell: _Cell) -> bool:
        return not names.isdisjoint(cell.names) or cell.source.strip() in texts or bool(defines.search(cell.source))

    submitted, receipt = read_notebook(data, belongs)
    found = _match(submitted, release.cells, receipt)
    place_of = {index: place for place, index in found.items()}
    own: dict[int, list[NotebookNode]] = {}  # the student's cells, by the place of the released cell that they follow
    place = -1
    for index, cell in enumerate(submitted):
        place = place_of.get(index, place)
        if index not in place_of:
            own.setdefault(place, []).append(_own_cell(cell, receipt))
    mended = own.get(-1, [])
    for place, (full, blank) in enumerate(zip(instructor.cells, release.cells, strict=True)):
        cell = submitted[found[place]] if place in found else None
        if "nbgrader" in full.metadata:
            mended.append(_released_cell(full, blank, cell, receipt))
        elif full.cell_type == "markdown" or cell is not None:
            mended.append(nbformat.from_dict(full))
            if full.cell_type == "code":
                mended[-1].source = _without_installs(cell.source, receipt)
        mended += own.get(place, [])
    for index, cell in enumerate(mended):
        cell["id"] = cell.metadata.nbgrader.grade_id if "nbgrader" in cell.metadata else f"cell-{index}"
    return Mended(nbformat.v4.new_notebook(cells=mended, metadata=instructor.metadata, nbformat_minor=5), receipt)


def _match(submitted: list[_Cell], released: list[NotebookNode], receipt: list[str]) -> dict[int, int]:
    """Return, by the place of a released cell, the index of the submitted cell that it is: by id, then content, then place."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    texts = {cell.source.strip() for cell in released}

    def take(place: int, index: int) -> None:
        found[place] = index
        taken.add(index)

    for place, blank in enumerate(released):
        name = _name(blank)
        same = [
            i
            for i, other in enumerate(submitted)
            if name in other.names and other.kind == blank.cell_type and i not in taken
        ]
        exact = [
            i for i, other in enumerate(submitted) if other.source.strip() == blank.source.strip() and i not in taken
        ]
        if not _is_answer(blank):
            if same or exact:
                take(place, (same or exact)[0])
            continue
        changed = [index for index in same if submitted[index].source.strip() != blank.source.strip()]
        best = changed or same
        if blank.cell_type == "code":
            defines = re.compile(rf"^(def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.M)
            defining = [
                index
                for index, other in enumerate(submitted)
                if index not in taken and defines.search(other.source) and other.source.strip() not in texts
            ]
            best = [index for index in defining if index in changed] or defining or best
        if best or exact:
            best = best or exact[:1]
            take(place, best[-1])
            if best[-1] not in same + exact:
                receipt.append(
                    f"{name} was found in another cell than its own, by its content; it was put in its place."
                )
            if len(same) > 1:
                receipt.append(f"The cell {name} stood there {len(same)} times; the last changed one was taken.")
    words = [_words(other.source) for other in submitted] if len(found) < len(released) else []
    for place, blank in enumerate(released):
        if place in found:
            continue
        if _is_answer(blank) and blank.cell_type == "markdown":  # the text that follows the question
            index = found.get(place - 1, len(submitted)) + 1
            if index < len(submitted) and index not in taken and submitted[index].source.strip() not in texts:
                take(place, index)
                receipt.append(f"The answer {_name(blank)} had lost its mark; it was recognised by its place.")
        elif not _is_answer(blank):
            wanted = _words(blank.source)
            for index, mine in enumerate(words):
                if index not in taken and _alike(mine, wanted):
                    take(place, index)
                    break
    copies = [i for i, other in enumerate(submitted) if i not in taken and other.source.strip() in texts]
    if copies:
        receipt.append(f"{len(copies)} unchanged copies of released cells were left out.")
        for index in reversed(copies):
            _remove(submitted, found, index)
    return found


def _remove(submitted: list[_Cell], found: dict[int, int], index: int) -> None:
    del submitted[index]
    for place, other in found.items():
        found[place] = other - (other > index)


def _is_answer(cell: NotebookNode) -> bool:
    return "nbgrader" in cell.metadata and not is_locked(cell)


def _name(cell: NotebookNode) -> str:
    return cell.metadata.nbgrader.grade_id if "nbgrader" in cell.metadata else cell.id


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+|[^\w\s]", text[:MAX_COMPARED]))


def _alike(one: Counter[str], other: Counter[str]) -> bool:
    """Whether nine of ten words are the same; in time linear in their number, whatever a student writes."""
    both = one.total() + other.total()
    return both > 0 and 2 * sum(min(count, other[word]) for word, count in one.items()) > 0.9 * both


def _released_cell(
    cell: NotebookNode, blank: NotebookNode, submitted: _Cell | None, receipt: list[str]
) -> NotebookNode:
    """Return the cell that is graded: locked text from the instructor, anything else from the student."""
    name = cell.metadata.nbgrader.grade_id
    if is_locked(cell):
        if submitted is None:
            receipt.append(f"The cell {name} was missing; it was put back.")
        elif ADDRESS.sub("", submitted.source.strip()) != ADDRESS.sub("", blank.source.strip()):
            if _was_released(blank, submitted):
                _note(
                    receipt,
                    "The notebook is of an earlier release; its locked cells were replaced by those of this one.",
                )
            else:
                receipt.append(f"The locked cell {name} was changed; its released text was put back.")
        return nbformat.from_dict(cell)
    mended = nbformat.from_dict(blank)
    if submitted is None:
        receipt.append(f"The cell {name} was missing; an empty one was put in its place.")
    else:
        clean = _without_installs if cell.cell_type == "code" else _without_html
        mended.source = clean(submitted.source, receipt)
    return mended


def _was_released(blank: NotebookNode, submitted: _Cell) -> bool:
    """Whether a locked cell has another text than the released one because an earlier release had it."""
    from nbgrader.utils import compute_checksum  # takes seconds, and few submissions need it

    return submitted.checksum == compute_checksum(nbformat.from_dict(blank | {"source": submitted.source}))


def _own_cell(cell: _Cell, receipt: list[str]) -> NotebookNode:
    if cell.kind == "code":
        return nbformat.v4.new_code_cell(_without_installs(cell.source, receipt), metadata={"own": True})
    return nbformat.v4.new_markdown_cell(_without_html(cell.source, receipt), metadata={"own": True})


def _without_html(source: str, receipt: list[str]) -> str:
    """Put a space where a tag or a link would begin: nbgrader's pages show Markdown with whatever HTML it holds."""
    text = ACTIVE.sub(lambda found: found[0] + " ", source)
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
    """Add an entry of which a student may cause millions."""
    if entry not in receipt and len(receipt) < MAX_RECEIPT:
        receipt.append(entry)

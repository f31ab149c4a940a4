"""Read as much as possible of a file that claims to be a notebook.

The file is not trusted: only the kind, the text and the ids of its cells are used. Text that belongs to no cell is kept
as a piece, so that no student's work is lost silently.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from autograder.files import Unreadable, writable

MAX_CELLS = 2000
MAX_SOURCE = 1_000_000  # characters of one cell
MAX_PIECES = 50  # places at which reading a damaged file starts again
MAX_PICTURES = 20  # pictures of a notebook that are kept
MAX_PIECE = 5000  # characters that are kept of a text outside the cells
# A picture in a text, as Colab stores it. An address with fewer than 200 characters is an example, not a picture.
PICTURE = re.compile(r"data:image/([a-z]{1,10})[a-z.+;=-]{0,50};base64,[A-Za-z0-9+/=%\s]{200,}")
NAMED_PICTURE = re.compile(
    r"(?:!\[[^\[\]]{0,200}\] ?\()?\[a picture, [^\[\]]{1,200}: it is in the submitted file\]\)?"
)  # see _named
CELL = re.compile(r'\{\s*"(?:cell_type|attachments|execution_count|id|metadata|outputs|source|input)"\s*:')


@dataclass
class Cell:
    """A cell of a submitted notebook."""

    kind: str  # "code" or "markdown"
    source: str
    names: list[str] = field(default_factory=list)  # ids that may identify it: grade id, cell id
    checksum: Any = None  # nbgrader's checksum of the released cell
    raw: bool = False  # whether the file called it neither code nor Markdown


@dataclass
class Notebook:
    """The content that was read from a file."""

    cells: list[Cell]
    receipt: list[str] = field(default_factory=list)  # descriptions of repairs
    pieces: list[str] = field(default_factory=list)  # texts outside the cells
    questions: list[str] = field(default_factory=list)  # questions that only a person can decide
    damaged: bool = False  # whether something could not be read
    pictures: dict[str, str] = field(default_factory=dict)  # pictures of texts in base64, by the words that name them


def read_notebook(data: bytes) -> Notebook:
    """Read as much as possible of a file that claims to be a notebook.

    Raises:
        Unreadable: no cell can be read.
    """
    text, receipt = _decode(data)
    notebook, content = Notebook([], receipt), _parsed(text)
    if content is None:
        raw = _cells_of_broken_json(text, notebook)
        if not raw and text.lstrip()[:1] == "<":
            message = "the file is an HTML page, not a notebook: download it with File → Download → Download .ipynb"
            raise Unreadable(message)
        if not raw:
            raise Unreadable("the file is not JSON, and no cell can be read from it")
    else:
        raw = _raw_cells(content, notebook)
    if (left := len(raw) - MAX_CELLS) > 0:
        notebook.receipt.append(f"Not placed: {left:,} cells after the first {MAX_CELLS:,}.")
        notebook.questions.append(f"The notebook has {len(raw):,} cells. Are parts of answers in the last {left:,}?")
    read = (_read_cell(cell, notebook) for cell in raw[:MAX_CELLS])
    notebook.cells = [cell for cell in read if cell is not None]
    if not notebook.cells:
        raise Unreadable("the notebook has no cells that can be read")
    return notebook


def _decode(data: bytes) -> tuple[str, list[str]]:
    """Return the text of a file, and a receipt of how it was decoded."""
    if not data.strip():
        raise Unreadable("the file is empty")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        receipt = ["The file was not UTF-8; it was read in another encoding."]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace"), receipt
    text = data.decode("utf-8-sig", errors="replace")
    if 2 * text.count("\ufffd") < len(text) - len(text.encode("ascii", "ignore")):
        return text, ["Some letters of the file were damaged; each is shown as \ufffd."]
    return data.decode("cp1252", errors="replace"), receipt


def _parsed(text: str) -> Any:
    """Parse a JSON text, also with text after its end; None if it is not JSON."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text.strip())[0]
    except (ValueError, RecursionError, MemoryError):
        return None


def _raw_cells(content: Any, notebook: Notebook) -> list[Any]:
    """Return the cells of the parsed file."""
    if not isinstance(content, dict):
        raise Unreadable("the file is JSON, but not a notebook")
    raw = content.get("cells")
    if raw is None and isinstance(content.get("worksheets"), list):
        sheets = [sheet for sheet in content["worksheets"] if isinstance(sheet, dict)]
        raw = [cell for sheet in sheets if isinstance(sheet.get("cells"), list) for cell in sheet["cells"]]
        notebook.receipt.append("The notebook was in format 3; its cells were converted.")
    if not isinstance(raw, list) or not raw:
        raise Unreadable("the notebook has no cells")
    return raw


def _is_cell(item: Any) -> bool:
    return isinstance(item, dict) and "cell_type" in item and ("source" in item or "input" in item)


def _cells_of_broken_json(text: str, notebook: Notebook) -> list[Any]:
    """Return the complete cells of a damaged JSON text; the text between them becomes pieces."""
    start = re.search(r'"cells"\s*:\s*\[', text)
    cells: list[Any] = []
    if start is None and not CELL.search(text):
        return cells
    notebook.damaged = True
    decoder = json.JSONDecoder(strict=False)
    position, before, first = start.end() if start else 0, None, 0  # before: where the damage begins
    for _ in range(MAX_PIECES):
        while len(cells) <= 10 * MAX_CELLS:
            position = re.compile(r"[\s,]*").match(text, position).end()
            try:
                item, end = decoder.raw_decode(text, position)
            except (ValueError, RecursionError, MemoryError):
                break
            if not _is_cell(item) and before is not None:
                break
            if before is not None:
                _add_piece(text[before:position], notebook)
                before = None
            cells.append(item)
            position = end
        if before is None:
            before, first = position, first or len(cells)
        match = CELL.search(text, position + 1)
        if match is None:
            break
        position = match.start()
    rest = text[before if before is not None else position :]
    _add_piece(rest, notebook)
    if cells:
        where = "before the damage" if len(cells) == first else "before and after the damage"
        notebook.receipt.append(f"The file is cut off or damaged; the {len(cells)} cells {where} were read.")
    return cells


def _add_piece(text: str, notebook: Notebook) -> None:
    """Keep the words of a part of the file that is not a cell."""
    words = re.sub(r'\\n"?,?\s*"?', "\n", writable(text)).replace('\\"', '"').strip(" \r\n\t,]}")
    if len(words) > 20 and len(notebook.pieces) < MAX_PIECES:
        notebook.pieces.append(words if len(words) <= MAX_PIECE else f"{words[:MAX_PIECE]}\n[Cut here.]")


def _read_cell(raw: Any, notebook: Notebook) -> Cell | None:
    if not isinstance(raw, dict):
        if isinstance(raw, str) and raw.strip():
            _add_piece(raw, notebook)
        return None
    source = raw.get("source", raw.get("input", ""))
    if isinstance(source, list):
        source = "".join(map(_text_of, source))
    source = writable(_text_of(source)).replace("\x00", "")
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    nbgrader = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    names = [nbgrader.get("grade_id"), raw.get("id"), metadata.get("id")]
    kind = "code" if raw.get("cell_type") == "code" else "markdown"
    known = [name for name in names if isinstance(name, str)]
    if kind == "markdown":
        source = _with_attachments(source, raw.get("attachments"), notebook)
    if kind == "markdown" or len(source) > MAX_SOURCE:
        source = PICTURE.sub(lambda match: _named(match[1], match[0].partition(",")[2], notebook), source)
    if len(source) > MAX_SOURCE:
        what = next(iter(known), source.lstrip()[:60].partition("\n")[0])
        more = len(source) - MAX_SOURCE
        cut = f"the last {more:,} characters of the cell {writable(what)[:60]!r}"
        notebook.receipt.append(f"Not placed: {cut}.")
        notebook.questions.append(f"A cell is too long: {cut} were not read. Are parts of answers in them?")
        source = source[:MAX_SOURCE]
    return Cell(kind, source, known, nbgrader.get("checksum"), raw.get("cell_type") not in ("code", "markdown"))


def _text_of(value: Any) -> str:
    """Return the text of a source, or of one of its lines; any other value becomes JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)[:MAX_SOURCE]


def _with_attachments(source: str, attachments: Any, notebook: Notebook) -> str:
    """Name the pictures in the attachments of a text: where the text shows them, or else at its end."""
    for name, kinds in _items(attachments):
        data = next((data for _, data in _items(kinds) if isinstance(data, str)), "")
        named = _named(re.sub(r"[\[\]]", "", writable(name))[:100], data, notebook)
        reference = f"attachment:{name}"
        source = source.replace(reference, named) if reference in source else f"{source}\n\n{named}"
    return source


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    return islice(value.items(), MAX_PIECES) if isinstance(value, dict) else iter(())


def _named(what: str, data: str, notebook: Notebook) -> str:
    """Return the words that replace a picture, and keep the picture, which is in base64, under these words."""
    size = len(data) * 3 // 4
    much = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    digest = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:6]  # two pictures of one name differ
    words = f"[a picture, {what} {digest}, {much}: it is in the submitted file]"
    if len(notebook.pictures) < MAX_PICTURES:
        notebook.pictures[words] = data
    return words

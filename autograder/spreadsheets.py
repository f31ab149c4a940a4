"""Read CSV tables as any spreadsheet or form writes them, and write them without formulas for a spreadsheet.

`read_table` reads every CSV file of a course, and `write_table` writes every one.
"""

import contextlib
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.files import Unreadable, read_plain_file

# A field may be as long as the file, whose size is bounded. Python's own limit is 131,072 characters, and students write
# more into an "Online text". The limit holds for the whole process, so it is set once.
csv.field_size_limit(2**31 - 1)

DELIMITERS = ",;\t"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # at the start of Excel's "Unicode text" files

# A spreadsheet recognises a formula by its first visible character: =, +, - or @. FORMULA also has the wide forms of
# these four characters, which Japanese keyboards write.
# A spreadsheet may split at another separator than the table's, so each part of a cell counts as a cell.
SEPARATOR = re.compile(r"([;,|\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029])")
INVISIBLE = r'[\s"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e'
INVISIBLE += r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
FORMULA = re.compile(
    rf"{INVISIBLE}*(?!-(?:\d+(?:\.\d+)?)?{INVISIBLE}*\Z)"  # a lone "-" and a number such as "-1" are no formulas
    r"[=+\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b]"
)
EATEN = re.compile(r"\d+(?:[.,]\d+)?E\+\d+", re.I)  # a spreadsheet shortens the id 126000 to this
END = "end"  # a row that we add at the end. If it is not read as a row, a quotation mark before it was not closed


@dataclass
class Table:
    """A table that was read from a file."""

    path: Path
    header: list[str]  # titles of columns, without spaces around them
    rows: list[list[str]]  # each as long as the header; rows without any text are left out
    lines: list[int]  # the line of the file on which each row begins
    delimiter: str

    def place(self, title: str) -> int | None:
        """Return the index of the column with a title, or None. Case, spaces, "_" and "-" do not matter."""
        return next((index for index, own in enumerate(self.header) if _key(own) == _key(title)), None)

    def cell(self, row: list[str], title: str) -> str:
        """Return a cell by the title of its column; "" if there is no such column."""
        place = self.place(title)
        return "" if place is None else row[place].strip()

    def where(self, row: int) -> str:
        """Return file and line of a row, for a message."""
        return f"{self.path}, line {self.lines[row]}"


def read_table(path: Path) -> Table:
    """Read a CSV file: UTF-8, or UTF-16 with a mark; commas, semicolons or tabs between cells; fields of any length.

    Raises:
        ValueError: the file cannot be read as a table. The message names the file, the line if there is one, and what to do.
    """
    text = _text_of(path)
    named = re.match(r"sep=(.)\r?\n", text, re.I)  # Excel writes this line to name the separator
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = (
        named[1] if named else max(DELIMITERS, key=lambda each: len(next(csv.reader([first], delimiter=each), [])))
    )
    if named:
        text = "\n" + text[named.end() :]
    try:
        return _parse(path, text, delimiter)
    except ValueError:
        # Moodle writes with PHP, which does not double a quotation mark after a backslash
        doubled = re.sub(rf'\\"(?!{re.escape(delimiter)}|[\r\n]|\Z)', r'\\""', text)
        with contextlib.suppress(ValueError):
            return _parse(path, doubled, delimiter)
        raise


def read_columns(path: Path, titles: Iterable[str]) -> Table:
    """Read a table that needs some columns; a table without rows if there is no file, or an empty one.

    Raises:
        ValueError: as `read_table`, or a column is missing. The message says which columns the table has and needs.
    """
    if not path.exists():
        return Table(path, list(titles), [], [], ",")
    table = read_table(path)
    missing = [title for title in titles if table.place(title) is None]
    if table.header and missing:
        raise ValueError(f"{path} has the columns {', '.join(table.header)}; it lacks {', '.join(missing)}")
    return table


def _parse(path: Path, text: str, delimiter: str) -> Table:
    reader = csv.reader(io.StringIO(f"{text}\n{END}", newline=""), delimiter=delimiter)
    numbered_rows, begun = [], 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            numbered_rows.append((begun, cells))
        begun = reader.line_num + 1
    line, last = numbered_rows.pop()
    if last != [END]:
        raise ValueError(
            f'{path}, line {line}: a cell begins with a quotation mark, ", and does not end with one; correct the row'
        )
    header = [title.strip() for title in numbered_rows[0][1]] if numbered_rows else []
    while header and not header[-1]:  # a spreadsheet writes empty columns too
        header.pop()
    rows = []
    for line, cells in numbered_rows[1:]:
        if any(cell.strip() for cell in cells[len(header) :]):
            raise ValueError(
                f"{path}, line {line}: there are {len(cells)} cells, and {len(header)} columns have a title. "
                f'Put a text that holds "{delimiter}" in quotation marks'
            )
        rows.append((cells + [""] * len(header))[: len(header)])
    return Table(path, header, rows, [line for line, _ in numbered_rows[1:]], delimiter)


def write_table(header: Iterable[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Return a table as CSV with unchanged texts. Use this for a file that only our own commands read."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write_defused(header: Iterable[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Return a table as CSV in which a spreadsheet finds no formula."""
    return write_table(header, ([defuse(cell) for cell in row] for row in rows), delimiter)


def defuse(value: Any) -> Any:
    """Return a cell in which no spreadsheet finds a formula.

    An apostrophe is put before a formula. Numbers, "-", and names such as "Anne-Marie" or "O'Brien" stay as they are.
    """
    if not isinstance(value, str):
        return value
    return "".join(f"'{part}" if FORMULA.match(part) else part for part in SEPARATOR.split(value))


def csv_text(table: list[dict[str, Any]], columns: tuple[str, ...] = ()) -> str:
    """Return rows of the same columns as CSV for a spreadsheet."""
    text = write_defused(columns or (table[0] if table else ()), (row.values() for row in table))
    return "\ufeff" + text  # without this mark spreadsheets do not read UTF-8


def eaten(value: str) -> str:
    """Say that a spreadsheet has changed an id, and what to do."""
    return (
        f"the id {value!r} looks like a number that a spreadsheet has shortened. Use the file as it was downloaded, or make "
        "the column of ids a column of text before you type them"
    )


def _text_of(path: Path) -> str:
    try:
        data = read_plain_file(path.resolve())
    except Unreadable as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        text = data.decode(BYTE_ORDER_MARKS.get(data[:2], "utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: the file is not UTF-8. Use the file as it was downloaded, or save it in the spreadsheet "
            'as "CSV UTF-8"'
        ) from None
    if "\0" in text.partition("\n")[0]:
        raise ValueError(f'{path} is not a text file. Save it in the spreadsheet as "CSV UTF-8"')
    return text.replace("\0", "\ufffd")  # a student's text may hold a zero character


def _key(title: str) -> str:
    return re.sub(r"[\s_-]+", "", title.casefold())

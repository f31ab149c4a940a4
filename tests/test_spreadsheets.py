"""Is every spreadsheet's table read, and does no student's text become a formula?"""

import csv
import io
from pathlib import Path

import pytest

from autograder.course.course import Course
from autograder.course.regrade_requests import answer_request, read_requests
from autograder.course.roster import read_worksheet
from autograder.spreadsheets import csv_text, defuse, read_table

LONG = "word " * 100_000  # more characters than Python's own limit of 131,072


def table(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    """Write a file as it is."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "data",
    [
        "id,first_name\nzoe,Zoë\n".encode(),
        "\ufeffID;First name\r\nzoe;Zoë\r\n".encode(),
        "Id\tFIRST-NAME\nzoe\tZoë\n".encode("utf-16"),
        "sep=;\nid;first_name\nzoe;Zoë\n".encode(),
        'id , First_Name ,,\n\n"zoe",Zoë,,\n'.encode(),
        "id,first_name\rzoe,Zoë\r".encode(),
    ],
    ids=["plain", "Excel in Germany", "Unicode text", "sep", "empty columns", "an old Mac"],
)
def test_roster_is_read_as_spreadsheets_write_it(tmp_path: Path, data: bytes) -> None:
    """Do separators, byte-order marks and spellings of titles make no difference?"""
    table(tmp_path, data, "roster.csv")
    assert Course(tmp_path).roster() == [{"id": "zoe", "first_name": "Zoë"}]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("id,first_name\nada,Ada\nzoe,Zoë\n".encode("cp1252"), "roster.csv, line 3: the file is not UTF-8"),
        ("id,first_name\nada,Ada\n".encode("utf-16-le"), "roster.csv is not a text file"),
        (b'id,first_name\nada,"Ada\nbea,Bea\n', "roster.csv, line 2: a cell begins with a quotation mark"),
        (b"id,first_name\n\nada,Ada,Lovelace\n", "roster.csv, line 3: there are 3 cells, and 2 columns"),
        (b"id\nada\nbea\nada\n", "roster.csv, line 4: the id 'ada' is on line 2 too"),
        (b"name\nada\n", "roster.csv has the columns name; it lacks id"),
    ],
)
def test_roster_that_is_no_table_is_refused_with_its_line(tmp_path: Path, data: bytes, said: str) -> None:
    """Does the message name the file, and the line if there is one?"""
    table(tmp_path, data, "roster.csv")
    with pytest.raises(ValueError, match=said):
        Course(tmp_path).roster()


def test_long_texts_and_zero_bytes_stop_nobody(tmp_path: Path) -> None:
    """Is the rest of a table read after a text that is longer than Python's own limit for a cell, and after a zero byte?"""
    path = table(tmp_path, f"student,why\nada,{LONG}\nbea,a\0b\ncem,c\n")
    assert [row[1] for row in read_table(path).rows] == [LONG, "a\ufffdb", "c"]
    table(tmp_path, f"student,assignment,part,why\nada,1_attention,softmax,{LONG}\n", "regrade-requests.csv")
    answer_request(tmp_path, "ada", "1_attention", "softmax", "Looked at again.", ["ada"])
    (request,) = read_requests(tmp_path)
    assert (request.why, request.answer) == (LONG.strip(), "Looked at again.")


def test_worksheet_of_moodle_with_a_backslash_before_a_quotation_mark(tmp_path: Path) -> None:
    r"""Is "\"", as PHP writes it, one cell? The students after it keep their rows."""
    text = 'Identifier,Full name,Grade,"Online text","Feedback comments"\n'
    text += 'Participant 1,Ada,,"print(\\"a, b\\") and more","well done"\nParticipant 2,Bea,,x,y\n'
    sheet = read_worksheet(table(tmp_path, text))
    assert [row[3:] for row in sheet.rows] == [['print(\\"a, b\\") and more', "well done"], ["x", "y"]]


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\uff1d1+1", "\uff0b1", "\uff0dcmd", "\uff20x", "=cmd|' /C calc'!A0"]
BEFORE = ["", " ", "\u200b", "\ufeff", "\x00", "\xa0 ", '"', "\u2060\t", "\u3164"]


@pytest.mark.parametrize("before", BEFORE, ids=ascii)
@pytest.mark.parametrize("separator", ["", ";", ",", "\t", "\n", "\r\n", "; ;"], ids=ascii)
def test_no_cell_is_a_formula_wherever_a_spreadsheet_splits_it(separator: str, before: str) -> None:
    """Does each formula get an apostrophe, whichever separator the spreadsheet uses?"""
    for formula in FORMULAS:
        cell = defuse(f"a{separator}{before}{formula}" if separator else f"{before}{formula}")
        written = csv_text([{"id": "x", "cell": cell}])
        for delimiter in (",", ";", "\t"):
            for row in csv.reader(io.StringIO(written), delimiter=delimiter):
                for part in row:
                    visible = part.lstrip(' \u200b\ufeff\x00\xa0"\u2060\u3164\t\r\n')
                    assert not visible.startswith(tuple("=+-@\uff1d\uff0b\uff0d\uff20")), (delimiter, written)
        assert defuse(cell) == cell  # a table that is exported again does not grow


NAMES = ["-", "-1", "-1.5", "O'Brien", "Anne-Marie", "D'Angelo & Söhne", "名前", "ada@example.org", "Doe, -", "M6, M7"]


@pytest.mark.parametrize("cell", [*NAMES, "Participant 101", "x = 1", "a; b", "a - b", "", -1, 2.5, None])
def test_honest_cells_stay_as_they_are(cell: object) -> None:
    """Do names, numbers and identifiers stay readable for the systems?"""
    assert defuse(cell) == cell

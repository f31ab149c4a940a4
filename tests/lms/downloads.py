"""Make downloads of an LMS, and read what was collected from them."""

import csv
import io
import json
import stat
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from golden.said import said

from autograder.course.course import Course
from autograder.lms import collect as collecting
from autograder.lms import export_scores as exporting
from autograder.lms.collect import Line
from autograder.lms.export_scores import Export

NAME = "1_attention"
ROSTER = [
    {"id": "ada", "first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.org", "canvas_id": "501"},
    {"id": "bea", "first_name": "Bea", "last_name": 'Doe, "Jr"', "email": "bea@example.org"},
    {"id": "cem", "first_name": "Çem", "last_name": "Müller", "email": "cem@example.org"},
    {"id": "dan", "first_name": "Dan", "last_name": "O'Neill", "email": "dan@example.org"},
    {"id": "eve", "first_name": "Eve", "last_name": "=1+1", "email": "eve@example.org"},
    {"id": "jan1", "first_name": "Jan", "last_name": "Smith", "email": "jan1@example.org"},
    {"id": "jan2", "first_name": "Jan", "last_name": "Smith", "email": "jan2@example.org"},
    {"id": "-rf", "first_name": "", "last_name": "", "email": ""},
    {"id": "נועה", "first_name": "", "last_name": "", "email": ""},
]


def collect(*arguments: Any) -> list[Line]:
    """Collect as `autograder.lms.collect` does, and compare what it says with what was recorded."""
    lines = heard(collecting.collect, *arguments)
    said(f"{line.outcome} {line.student}: {line.file}: {line.why}" for line in lines)
    return lines


def prepare_export(*arguments: Any, **options: Any) -> Export:
    """Export as `Export` does, and compare tables, warnings and pages with what was recorded."""
    done = heard(exporting.Export, *arguments, **options)
    said(line for table in done.tables.values() for line in table.splitlines())
    write = done.write

    def written() -> list[Path]:
        files = write()
        said(done.warnings)
        for path in files:
            if path.suffix == ".zip":
                with zipfile.ZipFile(path) as archive:
                    said(f"{name}: {archive.read(name).decode()}" for name in archive.namelist())
        return files

    done.write = written
    return done


def heard(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function; compare the text of an error with what was recorded."""
    try:
        return function(*arguments, **options)
    except ValueError as error:
        said([str(error)])
        raise


def saved(*cells: tuple[str, str], names: tuple[str, ...] = ()) -> bytes:
    """Return a notebook as Jupyter saves it: cells, given by kind and text, of which the first have names."""
    made: list[dict[str, Any]] = [{"cell_type": kind, "source": text, "metadata": {}} for kind, text in cells]
    for cell in made:
        cell.update({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})
    for name, cell in zip(names, made, strict=False):
        cell["metadata"] = {"nbgrader": {"grade_id": name}}
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def notebook(text: str = "1") -> bytes:
    """Return a small notebook; different texts give different files."""
    return saved(("code", text))


def answered(**answers: str) -> bytes:
    """Return a notebook with these answers: the name of each cell, and what it returns."""
    cells = [("code", f"def {name}(*arguments):\n    return {text}") for name, text in answers.items()]
    return saved(*cells, names=tuple(answers))


def write_roster(course: Course, rows: list[dict[str, str]] = ROSTER) -> None:
    """Write roster.csv."""
    course.root.mkdir(exist_ok=True)
    columns = sorted({key for row in rows for key in row})
    with (course.root / "roster.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    """Write an archive like a download."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2025, 3, 18, 12, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return path


def write_csv(path: Path, rows: list[list[str]]) -> Path:
    """Write a table as Moodle does, with a byte-order mark at its start."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_text("\ufeff" + text.getvalue(), encoding="utf-8")
    return path


def moodle_worksheet(path: Path, people: list[tuple[str, str, str]], when: str = "-") -> Path:
    """Write Moodle's grading worksheet for people, given by number, full name and e-mail address."""
    header = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed"]
    header += ["Last modified (submission)", "Last modified (grade)", "Feedback comments"]
    status = "Submitted for grading"
    rows = [[f"Participant {n}", name, mail, status, "", "100.00", "Yes", when, "-", ""] for n, name, mail in people]
    return write_csv(path, [header, *rows])


def listing(root: Path, without: Path | None = None) -> dict[str, object]:
    """Return every file below a folder with its content."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        if without is None or not (path == without or without in path.parents):
            plain = path.is_file() and not path.is_symlink()
            found[path.relative_to(root).as_posix()] = path.read_bytes() if plain else stat.S_IFMT(path.lstat().st_mode)
    return found


def outcomes(lines: Iterable[Line]) -> dict[str, str]:
    """Return the outcome of each file."""
    return {line.file: f"{line.outcome} {line.student}".strip() for line in lines}


def submitted(course: Course) -> dict[str, bytes]:
    """Return the notebooks in submitted/ by student."""
    return {path.parts[-3]: path.read_bytes() for path in course.root.glob("submitted/*/*/*.ipynb")}


ADA = "Ada Lovelace_100_assignsubmission_file_"


def patch(path: Path, offset: int, value: bytes) -> None:
    """Change a field of the only member in an archive's list, and in the member's header."""
    data = bytearray(path.read_bytes())
    for start in (data.index(b"PK\x01\x02") + offset, data.index(b"PK\x03\x04") + offset - 2):
        data[start : start + len(value)] = value
    path.write_bytes(data)

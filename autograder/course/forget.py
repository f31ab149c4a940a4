"""Delete everything of one student from a course."""

import glob
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.course import extensions, regrade_requests
from autograder.course.course import Course
from autograder.course.decisions import write_decision
from autograder.files import write_atomically
from autograder.spreadsheets import read_columns, write_table

OF_STUDENT = ("submitted", "autograded", "feedback", "earlier")  # folders with one folder for each student
OF_ALL = ("report", "export")  # folders in which any file may name any student; commands make them again


def forget(course: Course, student: str) -> list[str]:
    """Delete what a course holds of a student: submissions, results, points, feedback, roster, requests, reports.

    Args:
        course: The course.
        student: The student's id.

    Returns:
        What was deleted, in words.

    Raises:
        ValueError: the course knows nobody of this name.
    """
    from nbgrader.api import MissingEntry

    root, name = course.root, glob.escape(student)  # escaped, because an id may hold characters such as *
    results = sorted(root.glob(f"results/*/{name}.json")) if Path(student).name == student else []
    if student not in course.students() and not results:
        raise ValueError(f"nobody in {root} is called {student!r}; nothing was deleted")
    done = []
    folders = [root / folder / student for folder in OF_STUDENT]
    for path in folders + results:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            continue
        done.append(path.relative_to(root).as_posix())
    done += [folder for folder in OF_ALL if (root / folder).is_dir()]
    for folder in OF_ALL:
        shutil.rmtree(root / folder, ignore_errors=True)
    done += filter(None, [_remove_entries(ledger, student) for ledger in sorted(root.glob("collected/*.json"))])
    if _drop_rows(root / "roster.csv", "id", student):
        done.append("the student's line in roster.csv")
    _drop_rows(root / regrade_requests.FILE, "student", student, regrade_requests.key_of)
    _drop_rows(root / extensions.FILE, "student", student)
    for path in sorted(root.glob("settled/*.json")):
        write_decision(root, path.stem, student, None)
    with course.gradebook() as gradebook:
        try:
            gradebook.remove_student(student)
            done.append("the student's rows in the gradebook")
        except MissingEntry:
            pass
        if course.db_url.get_backend_name() == "sqlite":  # deleted rows stay in the file until VACUUM
            gradebook.db.commit()
            with gradebook.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM")
    return done


def _remove_entries(path: Path, student: str) -> str:
    """Delete a student from a ledger of collected files, and say where an entry was; "" if there was none."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(kept)
    for table in ("collected", "files", "refused"):
        for key in [key for key in kept.get(table, {}) if key == student or key.startswith(f"{student}/")]:
            del kept[table][key]
    if json.dumps(kept) == before:
        return ""
    write_atomically(path, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return f"the student's entries in {path.parent.name}/{path.name}"


def _drop_rows(path: Path, column: str, student: str, form_of: Callable[[str], str] = str) -> bool:
    """Delete a student's rows from a table, and return whether there was one. `form_of` gives the form of ids to compare."""
    table = read_columns(path, [column])
    kept = [row for row in table.rows if form_of(table.cell(row, column)) != form_of(student)]
    if len(kept) == len(table.rows):
        return False
    write_atomically(path, write_table(table.header, kept, table.delimiter))
    return True

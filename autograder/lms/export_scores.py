"""Scores and feedback for Moodle, for Canvas, and as a table.

The formats come from the source code of both systems.

Moodle (https://github.com/moodle/moodle): the import (mod/assign/feedback/offline/importgradeslib.php) needs the
columns Identifier, Grade and "Last modified (grade)". It accepts UTF-8 with or without a byte-order mark. It skips
empty grades. It also skips grades above the maximum, without a message (mod/assign/locallib.php). Feedback files
(mod/assign/feedback/file/importziplib.php) are in folders NAME_NUMBER_assignsubmission_file_.

Canvas (https://github.com/instructure/canvas-lms): the import (lib/gradebook_importer.rb) identifies an assignment by
the number in its column's title. The file must not have a byte-order mark. An empty cell means "no grade". Feedback
files (app/models/abstract_assignment.rb) have the numbers of user and upload in their names.
"""

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from autograder.course.course import NEEDS_A_LOOK, Assignment, Course, Result
from autograder.course.gradebook import students
from autograder.course.roster import Person, Roster, Worksheet
from autograder.course.worksheet_columns import number_in
from autograder.files import Unreadable, printable, read_plain_file, write_atomically
from autograder.grade.result_keys import digest_of_content
from autograder.lms.ledger import Ledger
from autograder.report.page import plain_number
from autograder.report.report import STATES, scores_table
from autograder.spreadsheets import csv_text, write_defused

COMMENT = re.compile(rf"\s*\[State: ({'|'.join(STATES)})\.[^\n<\]]*\]")  # text that an earlier export wrote
KEPT = ("EX", "N/A")  # Canvas's cells for excused students, and for students without the assignment
NUMBERS = ("automatic", "manual", "waiting", "total", "of", "late penalty")


def _refuse_if_waiting(rows: Iterable[dict[str, Any]], assignment: str) -> None:
    """Raise a ValueError if a person still has to decide something about a submission."""
    undecided = [printable(row["student"]) for row in rows if row["state"] == NEEDS_A_LOOK]
    if undecided:
        raise ValueError(
            f"{len(undecided)} submissions need a look: {', '.join(undecided)}. Settle each with "
            f'"autograder settle STUDENT {assignment}", or use --allow-waiting to send the scores so far'
        )
    open_rows = [row for row in rows if row["waiting"]]
    waiting = {
        "written answers of {} wait for manual grading": [r for r in open_rows if r["waiting"] > r["to confirm"]],
        "points that a person gave to tests of {} wait to be confirmed": [r for r in open_rows if r["to confirm"]],
    }
    if open_rows:
        reasons = [text.format(", ".join(printable(r["student"]) for r in who)) for text, who in waiting.items() if who]
        raise ValueError(
            f"{'; '.join(reasons)}. Grade them in formgrader, or use --allow-waiting to send the scores so far"
        )


class Export:
    """The tables of an assignment's scores, ready to be written, and warnings to read before you send the files."""

    def __init__(
        self,
        course: Course,
        assignment: Assignment,
        results: list[Result],
        system: str,
        *,
        worksheet: Worksheet | None = None,
        folder: Path | None = None,
        column: str | None = None,
        allow_waiting: bool = False,
    ) -> None:
        """Make scores.csv and, for Moodle or Canvas, the table that the system imports. Nothing is written yet.

        Args:
            course: The course with the scores.
            assignment: The assignment that was graded.
            results: The result of each submission.
            system: "moodle", "canvas" or "csv".
            worksheet: The table that the system exported. Moodle and Canvas need it.
            folder: The folder for the files; export/ASSIGNMENT/ in the course by default.
            column: The title of the assignment's column in Canvas, if several columns may fit.
            allow_waiting: Whether to export scores for a system although written answers wait for a person.

        Raises:
            ValueError: answers wait, or the worksheet does not fit.
        """
        if worksheet and system not in ("csv", worksheet.system):
            raise ValueError(f"the worksheet is from {worksheet.system}, not from {system}")
        if system != "csv" and not worksheet:
            raise ValueError(
                f"{system.capitalize()} knows students by their numbers: give the table that it exports as --worksheet"
            )
        self.course, self.assignment, self.worksheet = course, assignment, worksheet
        self.system, self.folder = system, folder or course.root / "export" / assignment.name
        self.ledger, self.roster = Ledger(course, assignment.name), Roster(course, worksheet)
        self.warnings: list[str] = []
        self.rows = {row["student"]: row for row in scores_table(course, assignment, results)}
        self.maximum = next((row["of"] for row in self.rows.values() if row["of"] != ""), "")
        self.why = {result.student: result.why for result in results}
        self._add_students_without_result()
        self._add_names()
        for result in results:
            if question := course.time_of(result.student, assignment.name)[1]:
                self.warnings.append(f"{printable(result.student)}: {question}")
            if result.content != self._content_now(result.student):
                self.warnings.append(
                    f"{printable(result.student)} submitted something else since the grading; run autograder grade"
                )
        self.warnings += [f"unmatched: {printable(e['file'])}: {e['why']}" for e in self.ledger.unmatched]
        self.warnings += [f"refused: {printable(student)}: {why}" for student, why in self.ledger.refused.items()]
        if system != "csv" and not allow_waiting:
            _refuse_if_waiting(self.rows.values(), assignment.name)
        self.tables: dict[str, str | bytes] = {"scores.csv": csv_text(self.table())}
        if system == "moodle":
            self.tables["moodle.csv"] = "\ufeff" + self.moodle()
        elif system == "canvas":
            self.tables["canvas.csv"] = self.canvas(column)

    def write(self) -> list[Path]:
        """Write the tables and, for Moodle or Canvas, the archive of feedback pages; return the paths."""
        files = dict(self.tables)
        if self.system != "csv":
            files[f"feedback_{self.system}.zip"] = self.feedback()
        for name, content in files.items():
            write_atomically(self.folder / name, content)
        return [self.folder / name for name in files]

    def _content_now(self, student: str) -> str:
        try:
            submission = self.course.read_submission(student, self.assignment)
        except Unreadable:
            submission = None
        return digest_of_content(submission.data, submission.files, submission.candidates) if submission else ""

    def _add_students_without_result(self) -> None:
        columns = next(iter(self.rows.values()), (*NUMBERS, "score", "late", "mistakes"))
        for student in sorted({person.id for person in self.roster.people} | set(self.ledger.collected)):
            if student not in self.rows:
                state = "not graded" if student in self.ledger.collected else "missing"
                self.rows[student] = dict.fromkeys(columns, "") | {"student": student, "state": state}
                self.why[student] = "It was not graded yet." if state == "not graded" else "No notebook was submitted."

    def _add_names(self) -> None:
        known = {person.id: person for person in self.roster.people}
        with self.course.reading() as db:
            for student, about in students(db).items():
                known.setdefault(student, Person(*(text or "" for text in about.values())))
        for student, row in self.rows.items():
            row["person"] = known.get(student) or Person(student)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each student, and a row for each file without a student."""
        table = []
        for student, row in self.rows.items():
            person = row["person"]
            late = bool(row["late"]) or self.ledger.collected.get(student, {}).get("late")  # Canvas's flag counts too
            line = {"id": student, "first name": person.first_name, "last name": person.last_name}
            line |= {"email": person.email, "state": row["state"], "score": row["score"]}
            line |= {key: row[key] for key in NUMBERS}
            why = "" if row["state"].startswith("graded") else self.why.get(student, "")
            table.append(line | {"late": "yes" if late else "", "mistakes": row["mistakes"], "why": why})
        columns = table[0] if table else dict.fromkeys(("id", "state", "why"))
        for entry in self.ledger.unmatched:
            why = f"{entry['file']}: {entry['why']}"
            table.append(dict.fromkeys(columns, "") | {"state": "unmatched", "why": why})
        return table

    def moodle(self) -> str:
        """Return the grading worksheet with scores, and the states as comments."""
        sheet, rows = self.worksheet, [list(row) for row in self.worksheet.rows]
        grade, comments = sheet.place("Grade"), sheet.place("Feedback comments")
        if comments is None:
            self.warnings.append("the worksheet has no Feedback comments: states are in scores.csv only")
        for most in sorted({sheet.cell(row, "Maximum Grade") for row in rows}):
            self._warn_if_maximum_differs(most)
        for cells, row in self._rows_of_worksheet(rows):
            if sheet.cell(cells, "Grade can be changed").casefold() == "no":
                self.warnings.append(f"{printable(row['student'])}: Moodle says that the grade cannot be changed")
                continue
            maximum = sheet.cell(cells, "Maximum Grade")
            score = self._for_moodle(row, maximum)
            cells[grade] = str(score).replace(".", ",") if "," in maximum else score
            if comments is not None:
                own = COMMENT.sub("", cells[comments])
                cells[comments] = f"{own} {self._comment(row['student'], row)}".strip()
        return write_defused(sheet.header, rows, sheet.delimiter)

    def _for_moodle(self, row: dict[str, Any], maximum: str) -> float | str:
        """Return the score, or the maximum if a bonus makes the score larger."""
        most = number_in(maximum)
        most = self.maximum if most is None else most
        if row["score"] == "" or row["score"] <= most:
            return row["score"]
        most = plain_number(most)
        self.warnings.append(f"{printable(row['student'])} has {row['score']} points; Moodle takes {most} at most")
        return most

    def canvas(self, column: str | None) -> str:
        """Return the gradebook with only the students' and the assignment's columns, so that no other score changes."""
        sheet = self.worksheet
        first = sheet.place("Section") + 1
        place = self._canvas_column(sheet.header[first:], column) + first
        rows = [[*row[:first], row[place]] for row in sheet.rows]
        students = {entry.row for entry in sheet.entries()}
        for row in rows:
            if "Points Possible" in row[0]:
                self._warn_if_maximum_differs(row[first])
        for cells, row in self._rows_of_worksheet(rows):
            if cells[first] not in KEPT:  # as in Moodle, a score stays if there is none here
                cells[first] = cells[first] if row["score"] == "" else row["score"]
            elif row["score"] != "":
                self.warnings.append(
                    f"{printable(row['student'])} has {cells[first]} in Canvas; {row['score']} was not written"
                )
        kept = [row for index, row in enumerate(rows) if index not in students or index in self.roster.of_row]
        return write_defused([*sheet.header[:first], sheet.header[place]], kept, sheet.delimiter)

    def _canvas_column(self, titles: list[str], wanted: str | None) -> int:
        """Return the index of the assignment's column: the named column, or the only column that fits."""
        numbered = [title for title in titles if re.search(r"\(\d+\)$", title)]
        short = [_letters(self.assignment.name), _letters(self.assignment.notebook)]
        if wanted:
            fits = [title for title in titles if title == wanted or re.sub(r" \(\d+\)$", "", title) == wanted]
        else:
            fits = []
            for name in short:
                fits = fits or [title for title in numbered if _letters(re.sub(r"\(\d+\)$", "", title)) == name]
        if len(fits) != 1:
            raise ValueError(
                f"it is not clear which column belongs to {self.assignment.name}; use --column with one of: "
                + ", ".join(repr(title) for title in numbered)
            )
        return titles.index(fits[0])

    def _rows_of_worksheet(self, rows: list[list[Any]]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Yield each student's row with the scores; warn about students who are only in the worksheet or the course."""
        seen, other = set(), self._of_another_assignment()
        for entry in self.worksheet.entries():
            person = self.roster.of_row.get(entry.row)
            if person and person.id in other:
                self.warnings.append(f"{other[person.id]}; nothing was written into this row")
                seen.add(person.id)
                continue
            if person is None:
                self.warnings.append(f"{printable(entry.name or entry.number)} of the worksheet is not in the course")
            else:
                seen.add(person.id)
                if self.rows[person.id]["late"] and person.id in self.roster.extensions:
                    extended = self.roster.extensions[person.id]
                    self.warnings.append(f"{printable(person.id)} counts as late. Moodle says: {extended}")
                yield rows[entry.row], self.rows[person.id]
        for student in self.rows:
            if student not in seen:
                self.warnings.append(f"{printable(student)} is not in the worksheet")

    def _of_another_assignment(self) -> dict[str, str]:
        """Return why the worksheet is another assignment's, by student: a number differs from the download's.

        Raises:
            ValueError: all numbers differ.
        """
        system, reasons, known = self.worksheet.system, {}, 0
        for entry in self.worksheet.entries():
            person = self.roster.of_row.get(entry.row)
            record = self.ledger.collected.get(person.id, {}) if person else {}
            known += bool(record.get("system") == system and record["number"])
            if record.get("system") == system and record["number"] not in ("", entry.number):
                student, number = printable(person.id), record["number"]
                reasons[person.id] = (
                    f"{student} has the number {number} in the download, and {entry.number} in the worksheet"
                )
        if reasons and len(reasons) == known:
            raise ValueError(
                f"{next(iter(reasons.values()))}. All {known} numbers differ: give the worksheet of {self.assignment.name}"
            )
        return reasons

    def _warn_if_maximum_differs(self, most: str) -> None:
        if self.maximum != "" and number_in(most) not in (None, self.maximum):
            self.warnings.append(f"the worksheet's maximum is {most}, the assignment has {self.maximum} points")

    def _comment(self, student: str, row: dict[str, Any]) -> str:
        """Say state and points in one line. Moodle shows it to the student as HTML."""
        parts = [f"State: {row['state']}."]
        if row["score"] != "":
            parts.append(f"{row['score']} of {row['of']} points.")
            parts += (
                [f"{row['late penalty']} points were taken off for submitting late."] if row["late penalty"] else []
            )
            written, tests = row["waiting"] - row["to confirm"], row["to confirm"]
            parts += [f"{written} written answer{'s wait' if written > 1 else ' waits'} to be read."] if written else []
            parts += [f"The points of {tests} test{'s' * (tests > 1)} wait to be confirmed."] if tests else []
            parts += ["The points may change."] if row["state"] == NEEDS_A_LOOK else []
        elif row["state"] == "unreadable":
            parts.append(self.why.get(student, "").splitlines()[0][:300] if self.why.get(student) else "")
        return escape(f"[{' '.join(parts).strip().replace(']', ')')}]", quote=False)

    def feedback(self) -> bytes:
        """Return the feedback pages as an archive that the system can import. The same pages give the same bytes."""
        pages: dict[str, bytes] = {}
        for student, row in self.rows.items():
            page = self.course.feedback_page(student, self.assignment)
            if row["score"] == "":  # an earlier submission may have left a page
                continue
            if not page.exists():
                self.warnings.append(f"{printable(student)} has no page of feedback; run autograder feedback")
                continue
            record, number = self.ledger.collected.get(student, {}), row["person"].numbers.get("moodle")
            if record.get("system") == self.system:
                name = re.sub(r"[\x00-\x1f\\]", "_", record["back"])
            elif self.system == "moodle" and number:
                name = f"Participant_{number}_assignsubmission_file_/{self.assignment.notebook}.html"
            else:
                self.warnings.append(f"{printable(student)}: no feedback, as its file name in {self.system} is unknown")
                continue
            pages[name] = read_plain_file(page)
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for name in sorted(pages):
                info = zipfile.ZipInfo(name)  # its date is always 1980, so that the bytes stay the same
                info.create_system, info.external_attr = 3, 0o644 << 16
                file.writestr(info, pages[name], zipfile.ZIP_DEFLATED)
        return archive.getvalue()


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text).casefold()

"""Make, open and write nbgrader's gradebook of a course, with one transaction for each submission.

Grades and penalties are those of nbgrader's own preprocessors, which open the gradebook again for every submission and
write each cell in a transaction of its own. This module imports nbgrader; to read, use `gradebook`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import nbgrader
from nbformat import NotebookNode, from_dict
from nbgrader.api import (
    Assignment,
    Base,
    Comment,
    Course,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import compute_checksum, determine_grade
from sqlalchemy import URL, and_, create_engine, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError
from traitlets.config import Config

from autograder.cells import is_grade, is_locked, is_solution, points_of
from autograder.course.gradebook import (
    COURSE_ID,
    GradebookError,
    address_of,
    explaining_errors,
    in_utc,
    name_in_gradebook,
)

# Every page of a submission asks for these columns. nbgrader has no index on them: the larger the class, the slower a page.
INDEXES = (
    ("grade", "notebook_id"),
    ("comment", "notebook_id"),
    ("submitted_notebook", "assignment_id"),
    ("submitted_assignment", "student_id"),
)


@contextmanager
def opened(url: URL) -> Iterator[Gradebook]:
    """Open a gradebook. If there is none, make it first, completely or not at all.

    Raises:
        GradebookError: it cannot be opened, or cannot be reached any more. The message never holds the password.
    """
    with explaining_errors(url):
        _make(address_of(url))
        with Gradebook(address_of(url), COURSE_ID) as gradebook:
            yield gradebook


def _make(url: URL) -> None:
    """Make nbgrader's tables if they are missing, in one transaction.

    nbgrader starts a program to learn their version; we do not.
    """
    engine = create_engine(url)
    try:
        if inspect(engine).has_table("alembic_version"):
            return
        with engine.begin() as connection:
            if url.get_backend_name() == "sqlite":  # Python begins no transaction before it makes a table
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            if inspect(connection).has_table("alembic_version"):  # another grader made it meanwhile
                return
            from alembic.script import ScriptDirectory  # takes a third of a second, and is needed once

            version = ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic")).get_current_head()
            Base.metadata.create_all(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": version})
            connection.execute(insert(Course).values(id=COURSE_ID))
    finally:
        engine.dispose()


def add_indexes(gradebook: Gradebook) -> None:
    """Add the indexes that are missing."""
    for table, column in INDEXES:
        gradebook.db.execute(text(f"CREATE INDEX IF NOT EXISTS autograder_{table}_{column} ON {table} ({column})"))
    gradebook.db.commit()


def add_students(gradebook: Gradebook, people: Iterable[dict[str, str]]) -> None:
    """Write the students of a roster, and their names, to the gradebook."""
    known = {student.id: student for student in gradebook.db.scalars(select(Student))}
    for person in people:
        keys = ("first_name", "last_name", "email")
        names = {key: name_in_gradebook(person[key]) for key in keys if person.get(key)}
        student = known.setdefault(person["id"], Student(id=person["id"]))
        gradebook.db.add(student)
        for key, name in names.items():
            setattr(student, key, name)
    gradebook.db.commit()


def register(
    gradebook: Gradebook,
    name: str,
    stem: str,
    kernelspec: dict[str, Any],
    given: list[NotebookNode],
    due: datetime | None = None,
) -> None:
    """Write an assignment's cells to the gradebook. Earlier submissions get rows for new cells.

    Args:
        gradebook: The open gradebook.
        name: The name of the assignment.
        stem: The name of its notebook's file, without its ending.
        kernelspec: The kernelspec of the notebook.
        given: The cells that nbgrader keeps.
        due: When the assignment is due; None keeps the date that nbgrader has.
    """
    gradebook.update_or_create_assignment(name, **({"duedate": in_utc(due)} if due else {}))
    try:
        notebook = gradebook.find_notebook(stem, name)
    except MissingEntry:
        notebook = gradebook.add_notebook(stem, name, kernelspec=json.dumps(kernelspec))
    for cell in given:
        info = cell.metadata.nbgrader
        text = dict(
            source=cell.source, cell_type=cell.cell_type, locked=is_locked(cell), checksum=compute_checksum(cell)
        )
        gradebook.update_or_create_source_cell(info.grade_id, stem, name, **text)
        if is_grade(cell):
            gradebook.update_or_create_grade_cell(
                info.grade_id, stem, name, max_score=float(info.points), cell_type=cell.cell_type
            )
        if is_solution(cell):
            gradebook.update_or_create_solution_cell(info.grade_id, stem, name)
    current = {cell.metadata.nbgrader.grade_id for cell in given if is_grade(cell)}
    for cell in list(notebook.grade_cells):
        if cell.name not in current:
            for grade in list(cell.grades):  # grades of a removed cell would still count
                gradebook.db.delete(grade)
            gradebook.db.delete(cell)
    gradebook.db.flush()
    for row, cells in ((Grade, notebook.grade_cells), (Comment, notebook.solution_cells)):
        for cell in cells:
            if cell.name in current or row is Comment:
                having = select(row.notebook_id).where(row.cell_id == cell.id)
                lacking = select(SubmittedNotebook.id).where(SubmittedNotebook.notebook_id == notebook.id)
                for submitted in gradebook.db.scalars(lacking.where(SubmittedNotebook.id.not_in(having))).all():
                    gradebook.db.add(row(cell_id=cell.id, notebook_id=submitted))
    gradebook.db.commit()


class Recorder:
    """Writes grades to an open gradebook as nbgrader's own preprocessors do."""

    def __init__(self, gradebook: Gradebook, url: URL, config: Config) -> None:
        self.gradebook, self.url = gradebook, url
        self._penalties = _AssignLatePenalties(config=config)

    def record(
        self,
        student: str,
        assignment: str,
        stem: str | None = None,
        notebook: NotebookNode | None = None,
        when: datetime | None = None,
    ) -> None:
        """Write a student, and the grades of a submission, in one transaction. Points and comments from a person stay.

        Args:
            student: The student's id.
            assignment: The name of the assignment.
            stem: The name of its notebook's file, without its ending.
            notebook: The executed notebook; None if there is no score.
            when: The time of submission, with a time zone; None keeps the time that is there.
        """
        db = self.gradebook.db
        for last in (False, True):
            db.remove()  # this drops the rows and the transaction of an earlier submission
            try:
                if db.get(Student, student) is None:
                    db.add(Student(id=student))
                if notebook is not None:
                    self._write(student, assignment, stem, notebook, when)
                db.commit()
                return
            except DBAPIError:  # a server was restarted, or another grader wrote the same row
                if last:
                    raise
            finally:
                db.remove()

    def _write(self, student: str, assignment: str, stem: str, notebook: NotebookNode, when: datetime | None) -> None:
        db = self.gradebook.db
        named = select(Assignment.id, Notebook.id).join(Notebook, Notebook.assignment_id == Assignment.id)
        ids = db.execute(named.where(Assignment.name == assignment, Notebook.name == stem)).one()
        submission = self._row(SubmittedAssignment, assignment_id=ids[0], student_id=student)
        if when:
            submission.timestamp = in_utc(when)
        submitted = self._row(SubmittedNotebook, notebook_id=ids[1], assignment_id=submission.id)
        grades = self._rows(Grade, GradeCell, submitted)
        comments = self._rows(Comment, SolutionCell, submitted)
        for cell in notebook.cells:  # as nbgrader's preprocessor SaveAutoGrades does
            if is_grade(cell):
                grade, worth = grades[cell.metadata.nbgrader.grade_id], from_dict(cell)
                worth.metadata.nbgrader.points = points_of(cell)  # a bonus has points too
                grade.auto_score, _ = determine_grade(worth)
                grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
            if is_solution(cell):
                unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                comments[cell.metadata.nbgrader.grade_id].auto_comment = "No response." if unchanged else None
        db.add_all([submission, submitted, *grades.values(), *comments.values()])
        db.flush()  # so that a penalty is worked out from the sum of the points
        self._penalties.assign(submission, submitted)

    def renew_lateness(
        self, assignment: str, time_of: Callable[[str], datetime | None], until: dict[str, datetime]
    ) -> None:
        """Write times of submission and the ends of extensions, by student, and compute all penalties of an assignment."""
        db = self.gradebook.db
        db.remove()
        rows = select(SubmittedAssignment, SubmittedNotebook, Assignment.duedate)
        rows = rows.join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        rows = rows.join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        for submission, submitted, due in db.execute(rows.where(Assignment.name == assignment)).all():
            when = time_of(submission.student_id)
            submission.timestamp = in_utc(when) if when else None
            if due and submission.student_id in until:
                submission.extension = max(in_utc(until[submission.student_id]) - due, timedelta())
            self._penalties.assign(submission, submitted)
        db.commit()

    def _row(self, table: type, **names: str) -> Any:
        """Return the row with these values, or a new row with an id."""
        row = self.gradebook.db.scalars(select(table).filter_by(**names)).one_or_none()
        return table(id=new_uuid(), **names) if row is None else row

    def _rows(self, table: type, cells: type, submitted: SubmittedNotebook) -> dict[str, Any]:
        """Return the grades or comments of a notebook by cell, with new rows for cells without one."""
        matches = and_(table.cell_id == cells.id, table.notebook_id == submitted.id)
        query = select(cells.name, cells.id, table).outerjoin(table, matches)
        rows = self.gradebook.db.execute(query.where(cells.notebook_id == submitted.notebook_id))
        return {name: row or table(cell_id=cell, notebook_id=submitted.id) for name, cell, row in rows}


class _AssignLatePenalties(AssignLatePenalties):
    """nbgrader's preprocessor, on rows that were read before. The plugin is the instructor's program."""

    def __init__(self, config: Config) -> None:
        try:
            super().__init__(config=config)
            self.init_plugin()
        except Exception as error:
            raise GradebookError(
                "c.AssignLatePenalties.plugin_class in nbgrader_config.py cannot be used: "
                f"{error.__cause__ or error}. It must name a class in a "
                "file next to nbgrader_config.py, as FILE.CLASS. The class must begin with: "
                "class CLASS(nbgrader.plugins.BasePlugin)"
            ) from None

    def assign(self, submission: SubmittedAssignment, notebook: SubmittedNotebook) -> None:
        """Write the penalty of a submission."""
        student, late, penalty = submission.student_id, submission.total_seconds_late, None
        if late > 0:
            try:
                penalty = self.plugin_inst.late_submission_penalty(student, notebook.score, late)
                penalty = None if penalty is None else self._check_late_penalty(notebook, penalty)
            except Exception as error:
                plugin, cause = type(self.plugin_inst).__name__, f"{type(error).__name__}: {error}"
                raise GradebookError(
                    f"{plugin}, which takes points off for being late, failed on {student}: {cause}"
                ) from None
        notebook.late_submission_penalty = penalty

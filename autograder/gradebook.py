"""nbgrader's gradebook of a course: made, opened, written to in one transaction a submission, read in one query.

It is a file, gradebook.db, or a PostgreSQL database, as nbgrader_config.py says. The marks are nbgrader's own: its
preprocessors work them out here from an open gradebook, where they would open it anew for every submission.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbgrader
from alembic.script import ScriptDirectory
from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    Base,
    BaseCell,
    Comment,
    Course,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy import URL, Connection, Select, and_, create_engine, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from traitlets.config import Config

COURSE_ID = "attention"
LENGTH = 128  # characters of an id or a name, in nbgrader's tables; PostgreSQL takes no more
WAIT = {"sqlite": {"timeout": "60"}, "postgresql": {"connect_timeout": "20"}}  # seconds, for a lock or a server
LOCK = 7_226_471  # any number: who makes the tables in PostgreSQL holds this lock
# nbgrader's tables have none for what every page of a submission asks; without them it takes longer the larger the class
INDEXES = (
    ("grade", "notebook_id"),
    ("comment", "notebook_id"),
    ("submitted_notebook", "assignment_id"),
    ("submitted_assignment", "student_id"),
)


class GradebookError(RuntimeError):
    """The gradebook cannot be read or written; the message says what to do."""


def read_url(address: str, root: Path) -> URL:
    """Read the address of a gradebook; that of a file is taken from the folder of the course.

    Raises:
        GradebookError: nothing can be kept there. The message does not hold the address: a password may stand in it.
    """
    where = f"c.CourseDirectory.db_url in {root / 'nbgrader_config.py'}"
    ways = "sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE"
    try:
        url = make_url(address)
    except ArgumentError:
        raise GradebookError(f"{where} is no address of a database; it is to be {ways}") from None
    if url.get_backend_name() not in WAIT:
        raise GradebookError(f"{where} begins with {url.drivername}://; it is to be {ways}")
    if not url.database:
        raise GradebookError(f"{where} names no database; it is to be {ways}")
    if "@" in (url.host or ""):
        raise GradebookError(f"{where} has two @; write %40 for one that belongs to the password")
    return url.set(database=str(root / url.database)) if url.get_backend_name() == "sqlite" else url


@contextmanager
def opened(url: URL) -> Iterator[Gradebook]:
    """Open a gradebook; make it first, whole or not at all, where there is none.

    Raises:
        GradebookError: it cannot be opened, or cannot be reached any more. The message never holds the password.
    """
    with explaining(url):
        _make(url)
        address = url.update_query_dict(WAIT[url.get_backend_name()] | dict(url.query))
        with Gradebook(address.render_as_string(hide_password=False), COURSE_ID) as gradebook:
            yield gradebook


@contextmanager
def explaining(url: URL) -> Iterator[None]:
    """Turn what a database or its driver raises into a GradebookError that says what to do."""
    try:
        yield
    except (DBAPIError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise GradebookError(explained(url, error)) from None


@contextmanager
def alone(gradebook: Gradebook) -> Iterator[None]:
    """Wait until no other grader prepares the same gradebook in PostgreSQL; of a file there is one grader at a time."""
    if gradebook.engine.dialect.name != "postgresql":
        yield
        return
    with gradebook.engine.connect() as connection:  # that holds the lock while nbgrader commits on another
        connection.execute(text(f"SELECT pg_advisory_lock({LOCK})"))
        try:
            yield
        finally:
            connection.execute(text(f"SELECT pg_advisory_unlock({LOCK})"))


def explained(url: URL, error: Exception) -> str:
    """Say what a failure of the database means and what to do, without the password."""
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    if url.password:
        said = said.replace(str(url.password), "***")
    if isinstance(error, ModuleNotFoundError | NoSuchModuleError):
        return (
            f"the gradebook is in PostgreSQL, and its driver cannot be loaded ({said}). Install it: "
            '.venv/bin/pip install -e ".[postgresql]"'
        )
    if url.get_backend_name() == "sqlite":
        return (
            f"the gradebook {url.database} cannot be used: {said}. Is the disk full, or does another program write to "
            "it? What was graded is kept in results/; give the command again, and it is recorded"
        )
    return (
        f"the gradebook {url.render_as_string(hide_password=True)} cannot be used: {said}. Does the server run, and do "
        "user, password and database exist? What was graded is kept in results/; give the command again when it is "
        "mended, and it is recorded"
    )


def _make(url: URL) -> None:
    """Make nbgrader's tables, all or none, where there are none."""
    if url.get_backend_name() == "sqlite":
        path = Path(url.database)
        if not path.exists() or path.stat().st_size == 0:
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".gradebook-") as folder:
                engine = create_engine(f"sqlite:///{folder}/gradebook.db")
                with engine.begin() as connection:
                    _make_tables(connection)
                engine.dispose()
                os.replace(Path(folder) / "gradebook.db", path)
        return
    engine = create_engine(url.update_query_dict(WAIT["postgresql"] | dict(url.query)))
    try:
        with engine.begin() as connection:
            if inspect(connection).has_table("alembic_version"):
                return
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
            if inspect(connection).has_table("alembic_version"):  # by now
                return
            _make_tables(connection)
    finally:
        engine.dispose()


def _make_tables(connection: Connection) -> None:
    """Make what nbgrader makes in an empty database; it would start a program to learn the version of its tables."""
    version = ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic")).get_current_head()
    Base.metadata.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": version})
    connection.execute(insert(Course).values(id=COURSE_ID))


def add_indexes(gradebook: Gradebook) -> None:
    """Add the indexes that are missing."""
    for table, column in INDEXES:
        gradebook.db.execute(text(f"CREATE INDEX IF NOT EXISTS autograder_{table}_{column} ON {table} ({column})"))
    gradebook.db.commit()


def add_students(gradebook: Gradebook, people: Iterable[dict[str, str]]) -> None:
    """Write the students of a roster, and the names that it has for them."""
    known = {student.id: student for student in gradebook.db.scalars(select(Student))}
    for person in people:
        names = {key: person[key][:LENGTH] for key in ("first_name", "last_name", "email") if person.get(key)}
        student = known.setdefault(person["id"], Student(id=person["id"]))
        gradebook.db.add(student)
        for key, name in names.items():
            setattr(student, key, name)
    gradebook.db.commit()


def student_ids(gradebook: Gradebook) -> set[str]:
    """Return everybody whom the gradebook knows."""
    return set(gradebook.db.scalars(select(Student.id)))


@dataclass
class Mark:
    """What the gradebook has of one graded cell of one student."""

    score: float
    waits: bool  # for a person
    points: float  # at most


def _of(name: str, *columns: Any) -> Select:
    """Select columns of the submissions of an assignment and their notebooks, beginning with the student."""
    found = select(SubmittedAssignment.student_id, *columns).select_from(SubmittedAssignment)
    found = found.join(Assignment, Assignment.id == SubmittedAssignment.assignment_id).where(Assignment.name == name)
    return found.join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)


def marks(gradebook: Gradebook, assignment: str) -> dict[str, dict[str, Mark]]:
    """Return every mark of an assignment by student and cell."""
    query = _of(assignment, GradeCell.name, Grade.score, Grade.needs_manual_grade, GradeCell.max_score)
    query = query.join(Grade, Grade.notebook_id == SubmittedNotebook.id).join(GradeCell, GradeCell.id == Grade.cell_id)
    found: dict[str, dict[str, Mark]] = {}
    for student, cell, score, waits, points in gradebook.db.execute(query):
        found.setdefault(student, {})[cell] = Mark(score, bool(waits), points)
    return found


def comments(gradebook: Gradebook, assignment: str) -> dict[str, dict[str, str | None]]:
    """Return every comment of an assignment by student and cell."""
    query = _of(assignment, BaseCell.name, Comment.comment)
    query = query.join(Comment, Comment.notebook_id == SubmittedNotebook.id)
    found: dict[str, dict[str, str | None]] = {}
    for student, cell, comment in gradebook.db.execute(query.join(BaseCell, BaseCell.id == Comment.cell_id)):
        found.setdefault(student, {})[cell] = comment
    return found


def penalties(gradebook: Gradebook, assignment: str) -> dict[str, float]:
    """Return by student the points that were taken off for handing in late; who has a submission, has an entry."""
    found = gradebook.db.execute(_of(assignment, SubmittedNotebook.late_submission_penalty))
    return {student: float(penalty or 0) for student, penalty in found}


class Recorder:
    """Writes marks to an open gradebook as nbgrader's own preprocessors do."""

    def __init__(self, gradebook: Gradebook, url: URL, config: Config) -> None:
        self.gradebook, self.url = gradebook, url
        self._steps = _SaveAutoGrades(config=config), _AssignLatePenalties(config=config)

    def record(
        self,
        student: str,
        assignment: str,
        stem: str | None = None,
        notebook: NotebookNode | None = None,
        timestamp: str | None = None,
    ) -> None:
        """Write a student, and the marks of a submission, in one transaction. Marks and comments of a person stay.

        Args:
            student: Who it is.
            assignment: The name of the assignment.
            stem: That of its notebook.
            notebook: As it was executed; None if there is no mark.
            timestamp: When it was handed in, in UTC; None if that is not known, and then it stays as it was.
        """
        db = self.gradebook.db
        for last in (False, True):
            db.remove()  # nothing of an earlier submission: neither rows nor a transaction
            try:
                if db.get(Student, student) is None:
                    db.add(Student(id=student))
                if notebook is not None:
                    self._write(student, assignment, stem, notebook, timestamp)
                db.commit()
                return
            except DBAPIError:  # of a server that was restarted, or another grader that wrote the same row
                if last:
                    raise
            finally:
                db.remove()

    def _write(self, student: str, assignment: str, stem: str, notebook: NotebookNode, timestamp: str | None) -> None:
        db = self.gradebook.db
        named = select(Assignment.id, Notebook.id).join(Notebook, Notebook.assignment_id == Assignment.id)
        ids = db.execute(named.where(Assignment.name == assignment, Notebook.name == stem)).one()
        submission = self._row(SubmittedAssignment, assignment_id=ids[0], student_id=student)
        if timestamp:
            submission.timestamp = parse_utc(timestamp)
        submitted = self._row(SubmittedNotebook, notebook_id=ids[1], assignment_id=submission.id)
        grades = self._rows(Grade, GradeCell, submitted)
        comments = self._rows(Comment, SolutionCell, submitted)
        rows = _Rows(submission, submitted, grades, comments)
        resources = {"notebook": stem, "assignment": assignment, "student": student, "rows": rows}
        save_marks, assign_penalties = self._steps
        save_marks.preprocess(notebook, {"nbgrader": resources})
        db.add_all([submission, submitted, *grades.values(), *comments.values()])
        db.flush()  # so that a penalty is worked out from the sum of the marks
        assign_penalties.preprocess(notebook, {"nbgrader": resources})

    def _row(self, table: type, **names: str) -> Any:
        """Return a row by what it is known by; a new one, with an id, where there is none."""
        found = self.gradebook.db.scalars(select(table).filter_by(**names)).one_or_none()
        return table(id=new_uuid(), **names) if found is None else found

    def _rows(self, table: type, cells: type, submitted: SubmittedNotebook) -> dict[str, Any]:
        """Return the grades or comments of a notebook by cell; new ones where there are none."""
        found = and_(table.cell_id == cells.id, table.notebook_id == submitted.id)
        query = select(cells.name, cells.id, table).outerjoin(table, found)
        rows = self.gradebook.db.execute(query.where(cells.notebook_id == submitted.notebook_id))
        return {name: row or table(cell_id=cell, notebook_id=submitted.id) for name, cell, row in rows}


@dataclass
class _Rows:
    """Stands for the gradebook before nbgrader's preprocessors: the rows of one submission, which were read at once."""

    submission: SubmittedAssignment
    notebook: SubmittedNotebook
    grades: dict[str, Grade]
    comments: dict[str, Comment]

    def find_grade(self, cell: str, *_: str) -> Grade:
        return self.grades[cell]

    def find_comment(self, cell: str, *_: str) -> Comment:
        return self.comments[cell]

    @property
    def db(self) -> "_Rows":
        return self

    def commit(self) -> None:
        """Leave it to the one transaction of the submission."""


class _SaveAutoGrades(SaveAutoGrades):
    """nbgrader's, on rows that were read already."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        facts = resources["nbgrader"]
        self.notebook_id, self.assignment_id, self.student_id = facts["notebook"], facts["assignment"], facts["student"]
        self.gradebook = facts["rows"]
        return super(SaveAutoGrades, self).preprocess(nb, resources)


class _AssignLatePenalties(AssignLatePenalties):
    """nbgrader's, on rows that were read already."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        rows, notebook = resources["nbgrader"]["rows"], resources["nbgrader"]["rows"].notebook
        self.init_plugin()
        notebook.late_submission_penalty = None
        late = rows.submission.total_seconds_late
        if late > 0:
            penalty = self.plugin_inst.late_submission_penalty(resources["nbgrader"]["student"], notebook.score, late)
            if penalty is not None:
                notebook.late_submission_penalty = self._check_late_penalty(notebook, penalty)
        return nb, resources

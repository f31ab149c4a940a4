"""The folder of a course in nbgrader's layout, and its gradebook."""

import glob
import hashlib
import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbformat import NotebookNode
from sqlalchemy import URL
from traitlets.config import Config, PyFileConfigLoader

from autograder.cells import files_of, is_grade, is_locked
from autograder.course import gradebook as tables
from autograder.course import submissions
from autograder.course.candidates import SortedFiles, Wanted
from autograder.course.decisions import Decision, read_decisions
from autograder.course.extensions import read_extensions
from autograder.course.gradebook import (
    COURSE_ID,
    GradebookError,
    connected,
    explaining_errors,
    read_url,
    why_unfit,
)
from autograder.course.submissions import Submission
from autograder.course.times import TIMESTAMP, UNCLEAR, read_time
from autograder.files import printable, read_plain_file, write_atomically
from autograder.imports import ROOT
from autograder.publish.tests_wheel import WHEEL, wheel_of
from autograder.settings import Settings, read_settings
from autograder.spreadsheets import EATEN, eaten, read_columns

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

    from autograder.course.gradebook import Reader
    from autograder.course.recording import Recorder

NEEDS_A_LOOK = "needs a look"  # state of a submission that waits for a person's decision
ROSTER = ("id", "first_name", "last_name", "email", "moodle_id", "canvas_id", "github")  # columns of roster.csv

CONFIG = """from pathlib import Path

c = get_config()
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "%s"
c.Exchange.root = str(Path(__file__).resolve().parent / "exchange")  # not used: submissions come by "autograder collect"
"""


@dataclass
class Result:
    """The outcome of one student's submission of one assignment."""

    student: str
    assignment: str
    # One of: needs a look, graded, graded after repair, crashed, timed out, missing, unreadable, not graded.
    # The state is "not graded" if the grader itself failed.
    state: str
    why: str = ""
    receipt: list[str] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    seed: int | None = None
    key: str = ""  # digest of the file, the assignment and the grader
    content: str = ""  # digest of the submission
    recorded: bool = False  # whether the gradebook has it
    files: dict[str, str] = field(default_factory=dict)  # outcome of each requested file next to the notebook
    questions: list[str] = field(default_factory=list)  # questions that only a person can decide
    settled_state: str = ""  # state after the questions are settled
    versions: str = ""  # versions that graded it, in words; "" if there is no score

    @property
    def has_score(self) -> bool:
        """Whether there is a score. An unreadable or not graded submission has no score, which differs from 0."""
        return bool(self.checks)

    def ask(self, decision: Decision | None) -> None:
        """Set the state to "needs a look" if no decision answers the questions, else to the settled state."""
        answered = decision is not None and decision.content == self.content and decision.questions == self.questions
        self.settled_state = self.settled_state or self.state
        asks = self.questions and not answered and self.settled_state != "not graded"  # the next run grades it again
        self.state = NEEDS_A_LOOK if asks else self.settled_state


@dataclass
class Assignment:
    """An assignment for the grader: its cells with hidden tests, and the same cells as students got them."""

    name: str
    notebook: str  # the stem of the file
    instructor: NotebookNode
    release: NotebookNode

    @property
    def files(self) -> dict[str, str]:
        """The requested files next to the notebook: by name, the exercise whose checks judge them."""
        return files_of(self.instructor.cells)

    @property
    def wanted(self) -> Wanted:
        """The description that tells which of a student's files counts."""
        return Wanted(self.name, self.notebook, tuple(self.files), self.release)

    def graded_cells(self) -> list[NotebookNode]:
        """Return the cells with points: the test cells and the written questions."""
        return [cell for cell in self.instructor.cells if is_grade(cell)]

    def gradebook_cells(self) -> list[NotebookNode]:
        """Return the cells that nbgrader keeps: tests with their hidden part, answers as stubs."""
        both = zip(self.instructor.cells, self.release.cells, strict=True)
        return [full if is_locked(full) else blank for full, blank in both if "nbgrader" in full.metadata]


class Course:
    """The folder of a course."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._recorder: Recorder | None = None  # set while the gradebook is open

    @cached_property
    def settings(self) -> Settings:
        """The settings in course.toml.

        Raises:
            ValueError: as `read_settings`.
        """
        return read_settings(self.root)

    def submission_folder(self, student: str, assignment: str) -> Path:
        """Return the folder of a student's submission."""
        return self.root / "submitted" / student / assignment

    def results_folder(self, assignment: str) -> Path:
        """Return the folder of an assignment's results."""
        return self.root / "results" / assignment

    def result_path(self, student: str, assignment: str) -> Path:
        """Return the path of a student's result."""
        return self.results_folder(assignment) / f"{student}.json"

    def autograded_path(self, student: str, assignment: Assignment) -> Path:
        """Return the path where nbgrader's formgrader looks for an executed submission."""
        return self.root / "autograded" / student / assignment.name / f"{assignment.notebook}.ipynb"

    def feedback_page(self, student: str, assignment: Assignment) -> Path:
        """Return the path of a student's page of feedback."""
        return self.root / "feedback" / student / assignment.name / f"{assignment.notebook}.html"

    def has_work_of(self, assignment: str) -> bool:
        """Whether an assignment has submissions or results."""
        return bool(self._submitted(assignment) or self._graded(assignment))

    def has_new_work_of(self, assignment: str) -> bool:
        """Whether a student submitted an assignment and has no result yet. This quick check reads no file."""
        return not self._submitted(assignment) <= self._graded(assignment)

    def _submitted(self, assignment: str) -> set[str]:
        return {path.parent.name for path in self.root.glob(f"submitted/*/{glob.escape(assignment)}")}

    def _graded(self, assignment: str) -> set[str]:
        return {path.stem for path in self.results_folder(assignment).glob("*.json")}

    @property
    def db_url(self) -> URL:
        """The address of nbgrader's gradebook in nbgrader_config.py; by default, gradebook.db in the folder."""
        return read_url(self._config().CourseDirectory.get("db_url", "sqlite:///gradebook.db"), self.root)

    def prepare(self, assignment: Assignment) -> None:
        """Make the folder and nbgrader's configuration if they are missing, and write assignment and roster to the gradebook."""
        self.root.mkdir(parents=True, exist_ok=True)
        config = self.root / "nbgrader_config.py"
        if not config.exists():
            write_atomically(config, CONFIG % COURSE_ID)
        self._keep_earlier_release(assignment)
        for step, notebook in (("source", assignment.instructor), ("release", assignment.release)):
            write_atomically(
                self.root / step / assignment.name / f"{assignment.notebook}.ipynb", nbformat.writes(notebook) + "\n"
            )
        write_atomically(self.root / "release" / assignment.name / WHEEL, wheel_of(ROOT))  # the tests that students see
        from autograder.course import recording  # this imports nbgrader, which other commands do not need

        given = assignment.instructor.metadata.kernelspec, assignment.gradebook_cells()
        with self.gradebook() as gradebook:
            recording.add_indexes(gradebook)
            due = self.settings.due.get(assignment.name)
            recording.register(gradebook, assignment.name, assignment.notebook, *given, due)
            recording.add_students(gradebook, [person for person in self.roster() if not why_unfit(person["id"])])

    def _keep_earlier_release(self, assignment: Assignment) -> None:
        """Keep the earlier release if it differs, because students go on with the notebook that they have."""
        path = self.root / "release" / assignment.name / f"{assignment.notebook}.ipynb"
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if before and _is_whole(path) and before != nbformat.writes(assignment.release) + "\n":
            name = hashlib.sha256(before.encode()).hexdigest()[:16]
            write_atomically(self.root / "released" / assignment.name / f"{name}.ipynb", before)

    def earlier_texts(self, assignment: Assignment) -> frozenset[str]:
        """Return the texts of the cells of all earlier releases."""
        paths = filter(_is_whole, (self.root / "released" / assignment.name).glob("*.ipynb"))
        notebooks = [nbformat.v4.reads(path.read_text(encoding="utf-8")) for path in paths]
        return frozenset(text for each in notebooks for cell in each.cells if (text := cell.source.strip()))

    @contextmanager
    def reading(self) -> Iterator["Reader"]:
        """Open the gradebook for the reading functions of `gradebook`. If there is none, make it first.

        Raises:
            GradebookError: as `gradebook`.
        """
        if self._recorder is None:
            with connected(self.db_url) as connection:
                if connection is not None:
                    yield connection
                    return
        with self.gradebook() as gradebook:
            yield gradebook.db

    @contextmanager
    def gradebook(self) -> Iterator["Gradebook"]:
        """Open nbgrader's gradebook. If there is none, make it first, completely or not at all. Nested calls share it.

        Raises:
            GradebookError: it cannot be opened or written to. The message says what to do, and never shows a password.
        """
        if self._recorder is not None:
            with explaining_errors(self._recorder.url):
                yield self._recorder.gradebook
            return
        from autograder.course.recording import Recorder, opened

        url = self.db_url
        with opened(url) as gradebook:
            with self._importable():
                self._recorder = Recorder(gradebook, url, self._config())
            try:
                yield gradebook
            finally:
                self._recorder = None

    def roster(self) -> list[dict[str, str]]:
        """Read roster.csv, if there is one: each row has `id`, and first_name, last_name, email and other columns if known.

        Raises:
            ValueError: the file is not a table, has no column of ids, or has an id twice. The message names file and line.
        """
        table = read_columns(self.root / "roster.csv", ["id"])
        people = [
            {title: table.cell(row, title) for title in ROSTER if table.place(title) is not None} for row in table.rows
        ]
        first: dict[str, int] = {}
        for index, person in enumerate(people):
            if EATEN.fullmatch(person["id"]):
                raise ValueError(f"{table.where(index)}: {eaten(person['id'])}")
            before = first.setdefault(unicodedata.normalize("NFC", person["id"]), index)
            if person["id"] and before != index:
                raise ValueError(f"{table.where(index)}: the id {person['id']!r} is on line {table.lines[before]} too")
        return [person for person in people if person["id"]]

    def students(self) -> list[str]:
        """Return everybody who is in the roster or in the gradebook, or has a folder in submitted/."""
        return sorted(name for name in self._names() if not why_unfit(name))

    def unfit_names(self) -> dict[str, str]:
        """Return why a folder in submitted/, or an entry of the roster, cannot belong to a student: by a printable name."""
        unfit = {name: f"{why}; rename it" for name in sorted(self._names()) if (why := why_unfit(name))}
        texts = {name: printable(name).replace("/", "|") for name in unfit}
        return {f"({text[:60]}{'…' * (len(text) > 60)})": unfit[name] for name, text in texts.items()}

    def _names(self) -> set[str]:
        with self.reading() as db:
            names = tables.students(db).keys() | {person["id"] for person in self.roster()}
        submitted = self.root / "submitted"
        if submitted.is_dir():
            names |= {entry.name for entry in os.scandir(submitted) if entry.is_symlink() or entry.is_dir()}
        return names

    def find_files(self, student: str, assignment: Assignment) -> SortedFiles:
        """Find which of a student's files may count.

        Raises:
            Unreadable: the folder cannot be read.
        """
        return submissions.find(self.submission_folder(student, assignment.name), assignment.wanted)

    def read_submission(self, student: str, assignment: Assignment) -> Submission | None:
        """Read the student's notebook that counts, and the files next to it; None if nothing was submitted.

        Raises:
            Unreadable: something was submitted, but it is not a plain file, or it is too large.
            ValueError: as `read_decisions`.
        """
        folder = self.submission_folder(student, assignment.name)
        decision = read_decisions(self.root, assignment.name).get(student)
        submission = submissions.read_submission(folder, assignment.wanted, decision.files if decision else {})
        question = self.time_of(student, assignment.name)[1]
        if submission is not None and question:
            submission.questions.append(question)
            submission.candidates = f"{submission.candidates} {question}".strip()
        return submission

    def load_result(self, student: str, assignment: str) -> Result | None:
        """Return the stored result of a submission; None if it or its executed notebook is missing or damaged."""
        try:
            result = Result(**json.loads(self.result_path(student, assignment).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        executed = (self.root / "autograded" / student / assignment).glob("*.ipynb")
        return result if not result.has_score or any(map(_is_whole, executed)) else None

    def load_results(self, assignment: str) -> list[Result]:
        """Return every stored result of an assignment, by student. An unreadable file gives a result that says so."""
        results = []
        for student in sorted(name for name in self._graded(assignment) if not name.startswith(".")):
            path = self.result_path(student, assignment)
            why = f"{path}, or the notebook that was executed for it, cannot be read. Run autograder grade to make it again."
            damaged = Result(student, assignment, "not graded", why)
            results.append(self.load_result(student, assignment) or damaged)
        return results

    def save_result(self, result: Result) -> None:
        """Store a result."""
        text = json.dumps(asdict(result), indent=1, ensure_ascii=False)
        write_atomically(self.result_path(result.student, result.assignment), text + "\n")

    def record(self, result: Result, assignment: Assignment) -> None:
        """Write the points of a result to the gradebook. Points from manual grading stay.

        Call `save_result` before. The result is marked as recorded only after the gradebook has it. If the grader is
        killed in between, the next run records the result. To record many results, open the `gradebook` around them.

        Raises:
            GradebookError: the gradebook cannot be written to.
        """
        when = self._settle_time(result.student, assignment.name)
        with self.gradebook(), self._importable():
            if result.has_score:
                text = self.autograded_path(result.student, assignment).read_text(encoding="utf-8")
                notebook = nbformat.v4.reads(text)  # we wrote this notebook, so it is not validated
                self._recorder.record(result.student, assignment.name, assignment.notebook, notebook, when)
            else:
                self._recorder.record(result.student, assignment.name)
        result.recorded = True
        self.save_result(result)

    def renew_lateness(self, assignment: Assignment) -> None:
        """Write the times of submission and the extensions, and compute the penalties again.

        A penalty depends on the time, the due date, the extension, the points and the plugin; each of them may have changed.
        A student without a line in extensions.csv keeps an extension that nbgrader has.

        Raises:
            GradebookError: as `record`, or the plugin for penalties failed.
        """
        until = read_extensions(self.root, self.settings, assignment.name)
        with self.gradebook(), self._importable():
            time_of = partial(self._settle_time, assignment=assignment.name)
            self._recorder.renew_lateness(assignment.name, time_of, until)

    def _config(self) -> Config:
        """Read nbgrader_config.py, which names the database and the plugin for late penalties.

        The plugin may be a file next to it.
        """
        if not (self.root / "nbgrader_config.py").exists():
            return Config()
        try:
            # In the course's folder, because traitlets would replace "$HOME" in a path by the variable's value
            with self._importable(), chdir(self.root):
                return PyFileConfigLoader("nbgrader_config.py").load_config()
        except Exception as error:  # the file is a program; its lines are not shown: one may hold a password
            cause = f"{type(error).__name__}: {error}"
            raise GradebookError(f"{self.root / 'nbgrader_config.py'} cannot be run ({cause}); correct it") from None

    @contextmanager
    def _importable(self) -> Iterator[None]:
        """Let Python import a plugin from the folder only inside `with`, because workers inherit the import path."""
        sys.path.append(str(self.root))
        try:
            yield
        finally:
            sys.path.remove(str(self.root))

    def time_of(self, student: str, assignment: str) -> tuple[datetime | None, str]:
        """Return the time of a submission in UTC, from its timestamp.txt; None and a question if the time is unclear.

        If there is no such file, return None and an empty question.
        """
        folder = self.submission_folder(student, assignment)
        if folder.is_symlink() or folder.parent.is_symlink():  # a link may lead out of the course
            return None, ""
        for name in (TIMESTAMP, UNCLEAR):
            if os.path.lexists(folder / name):
                try:
                    return read_time(read_plain_file(folder / name)[:1000]), ""
                except ValueError as error:
                    return (
                        None,
                        f"When was it submitted? In {TIMESTAMP}, {error}. It counts as submitted in time until this is known",
                    )
        return None, ""

    def _settle_time(self, student: str, assignment: str) -> datetime | None:
        """Return the time of a submission, and rewrite its timestamp.txt: formgrader reads the file too."""
        when, question = self.time_of(student, assignment)
        path = self.submission_folder(student, assignment) / TIMESTAMP
        if question and os.path.lexists(path):
            os.replace(path, path.with_name(UNCLEAR))
        elif when:
            write_atomically(path, f"{when.isoformat(timespec='seconds')}\n")
            path.with_name(UNCLEAR).unlink(missing_ok=True)
        return when

    def scores(self, assignment: Assignment) -> dict[str, dict[str, tuple[float, bool]]]:
        """Return every grade of an assignment by student and cell, as (score, needs a person) pairs."""
        with self.reading() as db:
            grades = tables.grades(db, assignment.name)
        return {
            student: {cell: (grade.score, grade.waits) for cell, grade in own.items()}
            for student, own in grades.items()
        }


def _is_whole(notebook: Path) -> bool:
    """Whether a notebook that we wrote is complete. Only the last bracket of a notebook begins a line."""
    with notebook.open("rb") as file:
        file.seek(-min(3, notebook.stat().st_size), os.SEEK_END)
        return file.read().rstrip().endswith(b"\n}")

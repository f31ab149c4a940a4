"""Run the tests of a notebook in the grader's process, on the student's functions in the sandbox.

A failed test is judged again without what the student's own cells may have changed in Python or a library: the cells up
to the test's answers run again in another kernel. There the student's own cells only define functions and classes, and
import. Students gain no advantage, because the same answers are judged.
"""

import ast
import builtins
import contextlib
import io
import math
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from attention_tests.compare import UNWRITTEN
from attention_tests.run import silent_tests_of
from nbformat import NotebookNode

from autograder.cells import is_grade
from autograder.files import writable
from autograder.grade.session import Cell, Session
from autograder.judge.mistake import compiled
from autograder.recognition import parsed
from autograder.sandbox.host.answer import Answer, GraderFault
from autograder.sandbox.host.kernel import KernelLost

PACKAGE = Path(__file__).resolve().parent.parent
MAX_MESSAGE = 10_000  # characters: a message may list the types of a million returned values
MAX_NAMED = 5  # cells that a message names
DEFINITIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom
Tested = tuple[list[NotebookNode], BaseException | None]  # outputs and error


class GraderError(RuntimeError):
    """Something failed on our side, so that no points can be given."""


class Runner:
    """Runs the tests of a submission. A test that fails runs again without the effects of the student's own cells."""

    def __init__(self, student: Session, answers: set[str]) -> None:
        self.student = student  # the session in which the student's cells run
        self.answers = answers  # the names of the answers
        self.namespace: dict[str, Any] = {"__name__": "tests"}
        self.clean_run: _CleanRun | None = None
        self.blamed: list[str] = []  # the message about the cells that may have made tests fail
        self.questions: dict[str, str] = {}  # about answers that are defined twice, by name
        self.wrong: set[tuple[str, ...]] = set()  # answers whose tests also fail without the student's own cells
        self.tested: tuple[str, ...] = ()  # the answers that the present test names
        self.in_process: set[str] = set()  # the answers that tests in the present process have named

    def set_up(self, stem: str) -> None:
        """Define what the tests of a notebook share, from the grader's own copy of the package."""
        run_tests, libraries = silent_tests_of(stem)
        self.namespace |= libraries | {"run_tests": run_tests}

    def test(self, cell: NotebookNode) -> Tested:
        """Run a test; return its outputs and its error. Only a lost point asks a person."""
        code = compiled(cell.source, cell.metadata.nbgrader.grade_id)
        self.tested = tuple(name for name in code.co_names if name in self.answers)
        asked = len(self.student.questions)
        outputs, error = self._test(cell)
        if error is None or not is_grade(cell):
            del self.student.questions[asked:]
        else:
            unwritten = str(error).endswith(UNWRITTEN) and "bonus" not in cell.metadata
            for name in self.tested:
                self.student.ask_about(name, unwritten=unwritten)
                if name not in self.questions:
                    question = self.student.which_counts(name, lambda: self._passes_afresh(cell))
                    self.questions |= {name: question} if question else {}
            self._end_process()
        return outputs, error

    def _test(self, cell: NotebookNode) -> Tested:
        if self.blamed and (clean := self._test_in_clean_run(cell)):
            return clean
        outputs, error = self._run(cell)
        if error is not None and not self.in_process <= set(self.tested):  # another answer may have left something
            self._end_process()
            outputs, error = self._run(cell)
        if error is None or str(error).endswith(UNWRITTEN) or self.blamed:
            return outputs, error
        return self._test_in_clean_run(cell) or (outputs, error)

    def _test_in_clean_run(self, cell: NotebookNode) -> Tested | None:
        """Run a test without the effects of the student's own cells; None if there are none, or if a written answer fails."""
        suspects = [each for each in self.student.met if each.own]
        if self.tested in self.wrong or self.student.budget.is_late() or not suspects:
            return None
        if self.clean_run is None:
            self.clean_run = _CleanRun(self)
        outputs, error = self.clean_run.test(cell)
        if str(error).endswith(UNWRITTEN):
            return outputs, error
        if error is not None:
            self.wrong.add(self.tested)
            return None
        self.blamed = self.blamed or [_message_about(suspects)]
        return [*outputs, nbformat.v4.new_output("stream", name="stdout", text=self.blamed[0])], None

    def _run(self, cell: NotebookNode) -> Tested:
        self.in_process |= set(self.tested)
        return run_test(cell, self.namespace, self.student)

    def _passes_afresh(self, cell: NotebookNode) -> bool:
        """Whether a test passes with the definitions that count now. A verdict on an earlier one is kept with its `Answer`."""
        return run_test(cell, _without_answers(self.namespace), self.student)[1] is None

    def _end_process(self) -> None:
        """Let later tests find nothing that earlier ones have changed."""
        self.student.end_test()
        self.in_process.clear()

    def close(self) -> None:
        """End all kernels."""
        self.student.close()
        if self.clean_run is not None:
            self.clean_run.session.close()


class _CleanRun:
    """The cells up to a test's answers in another kernel, without the effects of the student's own cells."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.student, self.done = runner, runner.student, 0
        limits = replace(self.student.limits, total_seconds=self.student.budget.left())
        self.session = Session(limits, self.student.sandboxed)
        self.session.budget.ends = self.student.budget.ends
        self.session.chosen = self.student.chosen
        self.namespace = _without_answers(runner.namespace)  # they are called in the other kernel

    def test(self, cell: NotebookNode) -> Tested:
        """Run a test; return its outputs and its error."""
        chosen = [self.student.chosen[name] for name in self.runner.tested if name in self.student.chosen]
        self._run_up_to(max(chosen, default=math.inf))
        return run_test(cell, self.namespace, self.session)

    def _run_up_to(self, number: float) -> None:
        """Run the cells up to a number that have not run yet."""
        for each in self.student.met[self.done :]:
            if each.number > number:
                break
            each = _without_effects(each)
            if each.source.strip():
                self.session.run(each)
            self.done += 1


def _without_answers(namespace: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in namespace.items() if not isinstance(each, Answer)}


def run_test(cell: NotebookNode, namespace: dict[str, Any], student: Session) -> Tested:
    """Run a locked cell in this process; names that it does not know are the student's functions.

    Args:
        cell: A test.
        namespace: The names that tests share; the cell may add some.
        student: The session in which the student's functions are called.

    Raises:
        GraderError: the cell failed in a way that no student's function can cause.
    """
    code = compiled(cell.source, cell.metadata.nbgrader.grade_id)
    for name in code.co_names:
        if name not in namespace and name not in vars(builtins):
            namespace[name] = Answer(name, student.call)
    printed, error = io.StringIO(), None
    student.begin_test()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except (AssertionError, KernelLost) as caught:
        error = caught
    except (Exception, GraderFault) as caught:
        if not (student.calls and _is_of_the_student(caught)):
            raise GraderError(f"{cell.metadata.nbgrader.grade_id}: {type(caught).__name__}: {caught}") from caught
        error = AssertionError(f"{type(caught).__name__}: {caught}")
    outputs, message = [], message_of(error)
    if printed.getvalue():
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=writable(printed.getvalue())))
    if error is not None:
        name = type(error).__name__
        outputs.append(nbformat.v4.new_output("error", ename=name, evalue=message, traceback=[f"{name}: {message}"]))
    return outputs, error


def _is_of_the_student(error: BaseException) -> bool:
    """Whether the student's function, and not our code, caused the error that ended a test.

    A test may be a plain assert. Our answers have passed it, so if it fails on a student's value, the value is wrong.
    """
    if isinstance(error, (GraderFault, MemoryError, OSError, ImportError)):
        return False
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[1:]]
    return not any(file.is_relative_to(PACKAGE) and not file.is_relative_to(PACKAGE / "sandbox") for file in files)


def message_of(error: BaseException) -> str:
    """Return the text of a test's error, cut if it is very long."""
    text = str(error)
    return writable(text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}\n[Cut here.]")


def _without_effects(cell: Cell) -> Cell:
    """Return a cell of the student's own with its definitions and imports alone, and any other cell as it is."""
    if not cell.own:
        return cell
    tree = parsed(cell.source)
    kept = [each for each in tree.body if isinstance(each, DEFINITIONS)] if tree else []
    return replace(cell, source="\n".join(map(ast.unparse, kept)))


def _message_about(cells: list[Cell]) -> str:
    """Say which cells may have made tests fail, by their first lines, which a student recognises."""
    lines = [f"`{cell.first_line}`" for cell in cells[:MAX_NAMED]] + ["…"] * (len(cells) > MAX_NAMED)
    which = "The cell that begins with" if len(cells) == 1 else "One of the cells that begin with"
    return (
        f"{which} {', '.join(lines)} changed Python, a library, or a name that answers use. "
        "Answers that failed were judged without such changes."
    )

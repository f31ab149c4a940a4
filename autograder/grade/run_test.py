"""Run one test of a notebook in the grader's process, on the student's functions in the sandbox."""

import builtins
import contextlib
import io
import traceback
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.files import writable
from autograder.grade.session import Session
from autograder.judge.mistake import compiled
from autograder.sandbox.host.answer import Answer, GraderFault
from autograder.sandbox.host.kernel import KernelLost

PACKAGE = Path(__file__).resolve().parent.parent
MAX_MESSAGE = 10_000  # characters: a message may list the types of a million returned values
Tested = tuple[list[NotebookNode], BaseException | None]  # outputs and error


class GraderError(RuntimeError):
    """Something failed on our side, so that no points can be given."""


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

"""Grade one submission. Processes that grade import this module, here and on a cluster.

It needs no course and no gradebook, and does not import nbgrader, which takes seconds. A result depends on everything
that this module imports, and on the checks of the assignment.
"""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import nbformat
import psutil
from nbformat import NotebookNode

from autograder.files import Unreadable
from autograder.grade.execute import execute
from autograder.grade.pictures import show_pictures
from autograder.grade.repair import OtherAssignment, repair_notebook
from autograder.grade.run_tests import GraderError
from autograder.grade.task import Job, Task, grader_failed
from autograder.sandbox.host.bubblewrap import SandboxError
from autograder.sandbox.host.kernel import KernelLost

MAX_MEMORY = 3 * 2**30  # bytes by which one submission may enlarge the grader's process; our answers do not enlarge it


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Bound this process's memory: a submission causes a MemoryError before it takes all the memory of the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = psutil.Process().memory_info().data + MAX_MEMORY
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@cache
def _read(notebook: str) -> NotebookNode:
    """Read a notebook of ours, which is the same for every student and is never changed."""
    return nbformat.reads(notebook, 4)


@_bounded_memory()
def grade_one(task: Task, job: Job) -> dict[str, Any]:
    """Repair and execute one submission. The result depends on the arguments alone, so this may run anywhere.

    Args:
        task: What all submissions of the run have in common.
        job: The submission.

    Returns:
        The fields of a Result, and the executed notebook as text.
    """
    try:
        repaired = repair_notebook(
            job.data,
            _read(task.instructor),
            _read(task.release),
            task.others,
            task.assignment,
            task.earlier,
            task.chapters,
        )
    except OtherAssignment as error:
        return {"state": "unreadable", "why": str(error), "questions": [str(error)]}
    except Unreadable as error:
        return {"state": "unreadable", "why": str(error)}
    try:
        held_out = task.held_out and replace(task.held_out, may_match_book_weights=job.may_match_book_weights)
        done = execute(repaired.notebook, task.seed, task.limits, task.sandboxed, job.files, held_out)
        show_pictures(done.notebook, repaired.pictures, task.limits, task.sandboxed)
    except (GraderError, KernelLost, SandboxError) as error:
        return grader_failed(error) | {"receipt": repaired.receipt, "questions": repaired.questions}
    return {
        "state": done.state,
        "why": done.why,
        "receipt": repaired.receipt + done.receipt,
        "questions": repaired.questions + done.questions,
        "checks": [asdict(check) for check in done.checks],
        "seed": task.seed,
        "notebook": _text_of(done.notebook),
        "files": done.files,
    }


def _text_of(notebook: NotebookNode) -> str:
    """Return an executed notebook as text, without nbformat's indentation, which would take a tenth of the time of grading.

    Its last bracket begins a line, so that `Course` can recognise a complete file.
    """
    return json.dumps(notebook, ensure_ascii=False).removesuffix("}") + "\n}\n"

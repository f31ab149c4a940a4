"""Grade one submission: what a process that grades imports, here and on a cluster.

It needs no course and no gradebook: nbgrader, which takes seconds to import, is not behind this module. Whatever is, and
the checks of the assignment, is what a mark depends on.
"""

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
from autograder.grade.execute import Execution, GraderError, execute
from autograder.grade.repair import Mended, OtherAssignment, mend
from autograder.sandbox.host.bubblewrap import Limits, SandboxError

MAX_MEMORY = 3 * 2**30  # bytes by which grading one submission may let the grader's process grow; the answers need none


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let what a submission makes this process do fail with a MemoryError before it takes all the memory of the machine."""
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
    """Read one of ours, which is the same for every student and is never changed."""
    return nbformat.reads(notebook, 4)


@_bounded_memory()
def grade_one(
    data: bytes,
    instructor: str,
    release: str,
    seed: int,
    limits: Limits,
    sandboxed: bool,
    held_out: Any = None,
    files: dict[str, bytes | str] | None = None,
    name: str = "",
    others: dict[str, dict[str, bool]] | None = None,
) -> dict[str, Any]:
    """Repair and execute one submission. A function of its arguments alone, so that it may run anywhere.

    Args:
        data: The file that was handed in.
        instructor: The notebook with hidden tests.
        release: The notebook that students got.
        seed: From which hidden checks draw their inputs.
        limits: What the submission may use.
        sandboxed: False only where the instructor asked for it.
        held_out: The images that a file of weights is shown: a `checkpoint.HeldOut`.
        files: By the name that was asked for the bytes, or why they could not be taken.
        name: Of the assignment.
        others: The names of the cells of other assignments, as `recognition.names_in` gives them, by assignment.

    Returns:
        The fields of a Result, and the executed notebook as text.
    """
    try:
        mended = mend(data, _read(instructor), _read(release), others, name)
    except OtherAssignment as error:
        return {"state": "unreadable", "why": str(error), "questions": [str(error)]}
    except Unreadable as error:
        return {"state": "unreadable", "why": str(error)}
    try:
        done = _better_of_two(mended, seed, limits, sandboxed, files, held_out)
    except (GraderError, SandboxError) as error:
        return {
            "state": "not graded",
            "why": f"The grader failed, not the submission: {error}",
            "receipt": mended.receipt,
            "questions": mended.questions,
        }
    return {
        "state": done.state,
        "why": done.why,
        "receipt": mended.receipt + done.receipt,
        "questions": mended.questions + done.questions,
        "checks": [asdict(check) for check in done.checks],
        "seed": seed,
        "notebook": nbformat.writes(done.notebook) + "\n",
        "files": done.files,
    }


def _better_of_two(mended: Mended, seed: int, limits: Limits, *options: Any) -> Execution:
    """Execute a repaired notebook; where it loses points, its cells in the student's order too, and take the better.

    What passes in the student's own run counts, whatever the repair made of it. Both have the time of one submission.
    """
    done = execute(mended.notebook, seed, limits, *options)
    if mended.as_submitted is None or all(check.passed for check in done.checks):
        return done
    left = limits.total_seconds - done.seconds
    if left < limits.call_seconds:
        done.questions.append("The cells were moved, and there was no time to run them in the order of the submission.")
        return done
    other = execute(mended.as_submitted, seed, replace(limits, total_seconds=left), *options)
    if other.points <= done.points:
        return done
    more = f"{other.points:g} points of the tests, and in the order of the released notebook {done.points:g}"
    other.receipt.append(f"The cells were run in the order in which they were submitted: that gives {more}.")
    return other

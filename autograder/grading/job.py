"""Grade one submission: what a process that grades imports, here and on a cluster.

It needs no course and no gradebook: nbgrader, which takes seconds to import, is not behind this module. Whatever is, and
the checks of the assignment, is what a mark depends on.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any

import nbformat
import psutil
from nbformat import NotebookNode

from autograder.boundary.sandbox import Limits, SandboxError
from autograder.files import Unreadable
from autograder.grading.execute import GraderError, execute
from autograder.grading.mend import mend

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
) -> dict[str, Any]:
    """Mend and execute one submission. A function of its arguments alone, so that it may run anywhere.

    Args:
        data: The file that was handed in.
        instructor: The notebook with hidden tests.
        release: The notebook that students got.
        seed: From which hidden checks draw their inputs.
        limits: What the submission may use.
        sandboxed: False only where the instructor asked for it.
        held_out: The images that a file of weights is shown: a `checkpoint.HeldOut`.
        files: By the name that was asked for the bytes, or why they could not be taken.

    Returns:
        The fields of a Result, and the executed notebook as text.
    """
    try:
        mended = mend(data, _read(instructor), _read(release))
    except Unreadable as error:
        return {"state": "unreadable", "why": str(error)}
    try:
        done = execute(mended.notebook, seed, limits, sandboxed, files, held_out)
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
        "receipt": mended.receipt,
        "questions": mended.questions + done.questions,
        "checks": [asdict(check) for check in done.checks],
        "seed": seed,
        "notebook": nbformat.writes(done.notebook) + "\n",
        "files": done.files,
    }

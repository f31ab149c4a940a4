"""The data that a grading process gets: about a run, and about one submission."""

from dataclasses import dataclass, field
from typing import Any

from autograder.sandbox.host.limits import Limits


@dataclass(frozen=True)
class Task:
    """What all submissions of a run have in common."""

    assignment: str
    instructor: str  # the notebook with hidden tests
    release: str  # the notebook that students got
    seed: int  # the seed of the hidden checks' inputs
    limits: Limits = Limits()  # what a submission may use
    sandboxed: bool = True  # False only if the instructor asked for it
    held_out: Any = None  # the images on which a file of weights is judged: a `checkpoint.HeldOut`
    others: dict[str, dict[str, bool]] = field(default_factory=dict)  # `recognition.names_in` of each other assignment
    earlier: frozenset[str] = frozenset()  # texts of cells of earlier releases
    chapters: dict[str, frozenset[str]] = field(default_factory=dict)  # `recognition.code_in` of each chapter


@dataclass(frozen=True)
class Job:
    """One submission."""

    data: bytes  # the file that was submitted
    files: dict[str, bytes | str] = field(default_factory=dict)  # other files, by name: bytes, or why one is unreadable
    may_match_book_weights: bool = (
        False  # whether the files may be the book's own weights, as in the proof of the checks
    )


def not_graded(why: str) -> dict[str, Any]:
    """Return the fields of a result that the grader owes; the submission is graded the next time."""
    return {"state": "not graded", "why": why}


def grader_failed(error: BaseException) -> dict[str, Any]:
    """Return the fields of a result if our own code failed."""
    return not_graded(f"The grader failed, not the submission: {type(error).__name__}: {error}")

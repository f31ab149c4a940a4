"""What a process that grades is told: about a run, and about one submission."""

from dataclasses import dataclass, field
from typing import Any

from autograder.sandbox.host.bubblewrap import Limits


@dataclass(frozen=True)
class Task:
    """What all submissions of a run have in common."""

    assignment: str
    instructor: str  # the notebook with hidden tests
    release: str  # the notebook that students got
    seed: int  # from which hidden checks draw their inputs
    limits: Limits = Limits()  # what a submission may use
    sandboxed: bool = True  # False only where the instructor asked for it
    held_out: Any = None  # the images that a file of weights is shown: a `checkpoint.HeldOut`
    others: dict[str, dict[str, bool]] = field(
        default_factory=dict
    )  # other assignments: `recognition.names_in` of each
    earlier: frozenset[str] = frozenset()  # texts of cells that an earlier release had


@dataclass(frozen=True)
class Job:
    """One submission."""

    data: bytes  # the file that was submitted
    files: dict[str, bytes | str] = field(default_factory=dict)  # next to it, by name; or why one could not be read
    may_be_published: bool = False  # whether the files may be the book's own weights, as in the proof of the checks

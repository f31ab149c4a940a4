"""A person's decisions about submissions that need a look: settled/ASSIGNMENT.json in the course's folder.

A decision answers the questions about one content. A new submission, or a new question, needs a new decision.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autograder.files import read_json, write_atomically


@dataclass(frozen=True)
class Decision:
    """A person's decision about one submission."""

    questions: list[str]  # the questions that it answers
    content: str  # digest of the submission that the questions are about
    # If the question is which file counts: the name of that file, and the digest of all files that it was chosen from.
    files: dict[str, str] = field(default_factory=dict)


def read_decisions(root: Path, assignment: str) -> dict[str, Decision]:
    """Return the decisions on an assignment by student; an empty dict if there is no file.

    Raises:
        ValueError: the file is damaged. The message says what to do.
    """
    kept = read_json(_path(root, assignment), "Remove it, and settle the questions again.") or {}
    return {student: Decision(**fields) for student, fields in kept.items()}


def write_decision(root: Path, assignment: str, student: str, decision: Decision | None) -> None:
    """Store a decision about a student's submission; None deletes the stored one.

    Raises:
        ValueError: as `read_decisions`.
    """
    decisions = read_decisions(root, assignment)
    kept = {name: asdict(each) for name, each in decisions.items() if name != student}
    if decision is not None:
        kept[student] = asdict(decision)
    if kept or decisions:
        write_atomically(_path(root, assignment), json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _path(root: Path, assignment: str) -> Path:
    return root / "settled" / f"{assignment}.json"

"""Read a submission from submitted/STUDENT/ASSIGNMENT/: the notebook that counts, and the files next to it."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath

from autograder.course.archives import folder_members
from autograder.course.candidates import (
    CLAIM,
    NO_NOTEBOOK,
    OLDER,
    REFUSED,
    Candidate,
    Choice,
    Decided,
    SortedFiles,
    Wanted,
    failing_reader,
    nothing_found,
    short_name,
)
from autograder.course.times import TIMESTAMP, UNCLEAR
from autograder.files import MAX_FILE, Unreadable, kind_of, printable, read_plain_file


@dataclass
class Submission:
    """The notebook that counts among a student's files, and the files next to it."""

    data: bytes  # the notebook's bytes
    receipt: list[str] = field(default_factory=list)  # how the files were found, in words
    questions: list[str] = field(default_factory=list)  # questions about the files that only a person can decide
    candidates: str = ""  # what the questions are about: digest of all files that may count, or an unclear time
    # By the requested name of each submitted file: its bytes, or a text that says why the file cannot be taken.
    files: dict[str, bytes | str] = field(default_factory=dict)


def find(folder: Path, wanted: Wanted) -> SortedFiles:
    """Find the files that may count in a submission's folder, which need not exist.

    Raises:
        Unreadable: the folder is a link, or cannot be read.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise Unreadable("the folder of the submission is a link")
    if not folder.is_dir():
        return SortedFiles()
    members, refused = [], []
    for member in folder_members(folder):
        if member.path.endswith(REFUSED):
            refused.append(member)
        elif member.path not in (TIMESTAMP, UNCLEAR):
            members.append(member)
    sorted_files = wanted.sort_out(members)
    for member in refused:
        name = member.path.removesuffix(f".{REFUSED}")
        if member.path != REFUSED and not wanted.file_for(name):
            older, claim = name.startswith(f"{OLDER}/"), name.startswith(f"{CLAIM}/")
            sorted_files.notebooks.append(
                Candidate(name, failing_reader(_text(member.read())), older=older, claim=claim)
            )
    return sorted_files


def read_submission(folder: Path, wanted: Wanted, decided: Decided) -> Submission | None:
    """Read the notebook that counts, and the files next to it; None if nothing was submitted.

    Raises:
        Unreadable: something was submitted, but no notebook, or only one that is too large.
    """
    sorted_files = find(folder, wanted)
    if not sorted_files.notebooks:
        if (folder / REFUSED).is_file():
            raise Unreadable(_text(read_plain_file(folder / REFUSED)))
        files = [(each.name, NO_NOTEBOOK) for group in sorted_files.files.values() for each in group]
        if sorted_files.others or files:
            raise Unreadable(nothing_found(sorted_files.others + files))
        return None
    chosen = wanted.choose(sorted_files.notebooks, decided)
    choice_of = {name: wanted.choose_file(group, decided) for name, group in sorted_files.files.items()}
    choices = [chosen, *choice_of.values()]
    questions = [choice.question for choice in choices if choice.question]
    candidates = " ".join(choice.digest for choice in choices if choice.digest)
    submission = Submission(chosen.taken.read(), _receipt(chosen, f"{wanted.stem}.ipynb"), questions, candidates)
    for name in wanted.files:
        refused = folder / f"{name}.{REFUSED}"
        if choice := choice_of.get(name):
            submission.files[name] = _content(choice.taken)
            if isinstance(submission.files[name], bytes):
                submission.receipt += _receipt(choice, name)
        elif (folder / name).is_dir():
            submission.files[name] = f"{name} is not a plain file but a folder"
        elif refused.is_file():
            submission.files[name] = _text(read_plain_file(refused))
    return submission


def _content(file: Candidate) -> bytes | str:
    """Return the content of a file next to the notebook, or a text that says why the file cannot be taken."""
    try:
        data = file.read()
    except Unreadable as error:
        return str(error)
    if len(data) > MAX_FILE:
        return f"{short_name(file.name)} has {len(data) / 2**20:.1f} MiB; at most {MAX_FILE / 2**20:.0f} are read"
    return data


def stored_name(candidate: Candidate, others: Collection[str]) -> str:
    """Return the path for storing a file that a question is about. `find` reads the kind of candidate from the path.

    Args:
        candidate: The file.
        others: Names in use.
    """
    path = PurePosixPath(candidate.name)
    folder = f"{CLAIM}/" if candidate.claim else f"{OLDER}/" if candidate.older else ""
    last = f"{path.parts[0]}, {path.name}" if candidate.claim and len(path.parts) > 1 else path.name
    name = re.sub(r"[\\/:]", "_", printable(last)).lstrip(". ")
    stem, suffix = PurePosixPath(name).stem.encode()[:100].decode("utf-8", "ignore") or "notebook", kind_of(name)
    if candidate.is_readable and not suffix:
        suffix = ".ipynb"
    end = suffix[:20] if candidate.is_readable else f"{suffix[:20]}.{REFUSED}"
    numbered = (f"{folder}{stem}{f' ({number})' if number > 1 else ''}{end}" for number in count(1))
    return next(each for each in numbered if each not in (*others, TIMESTAMP, UNCLEAR))


def _receipt(choice: Choice, wanted: str) -> list[str]:
    """Say, for the feedback, which of several files counts, and whether this file had another name."""
    taken = choice.taken.name
    receipt = [f"The file was called {taken!r}; it was taken as {wanted}."] if taken != wanted else []
    return receipt + [f"{short_name(each)} does not count: {why}." for each, why in list(choice.reasons.items())[:5]]


def _text(data: bytes) -> str:
    return data[:1000].decode("utf-8", "replace").strip()

"""Bring what was handed in into the course: zip downloads of Moodle and Canvas, folders, single notebooks.

The name of a file says who handed it in, and nothing else: everything is written below the course's folder, under names that
are made here. Moodle and Canvas stamp the members of a download with the time of the download (Moodle's
files/classes/local/archive_writer/zip_writer.php, Canvas's lib/content_zipper.rb), so that for them a time of submission is
taken from Moodle's worksheet only.
"""

import hashlib
import json
import os
import re
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.course.course import REFUSED, Assignment, Course
from autograder.course.roster import Person, Roster, Worksheet, check_id
from autograder.course.times import read_time
from autograder.exchange.archives import Member, members
from autograder.exchange.names import OF_THE_COURSE, Sender, read_name
from autograder.files import (
    MAX_FILE,
    Unreadable,
    is_notebook,
    kind_of,
    read_json,
    read_plain_file,
    shown,
    write_atomically,
)
from autograder.progress import Progress

COPY = re.compile(r"^copy of |( ?\(\d+\)|-\d+)+$", re.I)
ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".7z", ".rar", ".bz2", ".xz")


@dataclass
class Line:
    """A line of the receipt: what became of one file."""

    outcome: str  # collected, unchanged, older attempt, left alone, unmatched, refused
    student: str
    file: str
    why: str = ""


class Ledger:
    """What was collected for an assignment and from where, and what was not: collected/ASSIGNMENT.json."""

    def __init__(self, course: Course, assignment: str) -> None:
        self.path = course.root / "collected" / f"{assignment}.json"
        self.place = course.root / "unmatched" / assignment
        kept = read_json(self.path, "Take it away, and collect the same downloads again.") or {}
        self.collected: dict[str, dict[str, Any]] = kept.get("collected", {})  # by student
        self.files: dict[str, dict[str, Any]] = kept.get("files", {})  # beside the notebook: by student and name
        self.refused: dict[str, str] = kept.get("refused", {})  # the reason, by student or STUDENT/FILE
        unmatched: list[dict[str, str]] = kept.get("unmatched", [])  # but those that a person has taken away
        self.unmatched = [e for e in unmatched if not e["kept"] or (self.place / e["kept"]).exists()]

    def put_aside(self, member: Member, sender: Sender, source: str, why: str, wanted: bool) -> Line:
        """Keep a file that was asked for, and is nobody's, below unmatched/, and the reason."""
        data = b""
        if wanted:
            try:
                data = member.read()
            except Unreadable as error:
                why = f"{why}; {error}"
        else:
            why = f"{why}; and it is not what was asked for"
        self.settle(member, sender, source)
        # the same text may be handed in by two people, and files of the same name by many
        kept = f"{hashlib.sha256(member.path.encode() + data).hexdigest()[:16]}{kind_of(member.path)}" if data else ""
        if kept:
            write_atomically(self.place / kept, data)
        self.unmatched.append({"file": member.path, "source": source, "why": why, "kept": kept})
        return Line("unmatched", "", member.path, why)

    def settle(self, member: Member, sender: Sender, source: str) -> None:
        """Take a file from the unmatched, because it is decided anew; a system gives nobody's name to another."""
        gone = [e for e in self.unmatched if e["file"] == member.path and (sender.system or e["source"] == source)]
        self.unmatched = [entry for entry in self.unmatched if entry not in gone]
        for kept in {entry["kept"] for entry in gone} - {entry["kept"] for entry in self.unmatched} - {""}:
            (self.place / kept).unlink(missing_ok=True)

    def save(self) -> None:
        """Write it, and the reasons beside the unmatched files."""
        fields = {"collected": self.collected, "refused": self.refused, "unmatched": self.unmatched}
        fields |= {"files": self.files} if self.files else {}
        write_atomically(self.path, json.dumps(fields, indent=1, sort_keys=True) + "\n")
        reasons = [f"{e['kept'] or 'not kept':22}  {shown(e['file'])}: {e['why']}\n" for e in self.unmatched]
        if reasons or self.place.exists():
            write_atomically(self.place / "reasons.txt", "".join(reasons))


def collect(
    course: Course,
    assignment: Assignment,
    paths: list[Path],
    worksheet: Worksheet | None = None,
    progress: Progress = lambda *_: None,
) -> list[Line]:
    """Put what was handed in into submitted/STUDENT/ASSIGNMENT/, and write down what could not be.

    A later path counts as later. What was there before is moved to earlier/STUDENT/ASSIGNMENT/.

    Raises:
        ValueError: roster.csv cannot be used.
    """
    course.root.mkdir(parents=True, exist_ok=True)
    collector = _Collector(course, assignment, Roster(course, worksheet), Ledger(course, assignment.name))
    try:
        for path in paths:
            with ExitStack() as stack:
                try:
                    found = list(members(path, stack, [".ipynb", *map(kind_of, assignment.files)]))
                except (Unreadable, OSError) as error:
                    collector.lines.append(Line("refused", "", str(path), str(error)))
                else:
                    before = len(collector.lines)
                    collector.collect(str(path), found, progress)
                    if len(collector.lines) == before:
                        collector.lines.append(Line("refused", "", str(path), "no submission is in it"))
    finally:
        collector.ledger.save()
    return collector.lines


@dataclass
class _Collector:
    """Where files are collected."""

    course: Course
    assignment: Assignment
    roster: Roster
    ledger: Ledger

    def __post_init__(self) -> None:
        self.lines: list[Line] = []

    def collect(self, source: str, found: list[Member], progress: Progress) -> None:
        """Collect the members of one archive or folder: of each student the last attempt."""
        files: dict[str, list[tuple[Sender, Member]]] = {}
        senders = [read_name(member.path, self.assignment.name) for member in found]
        copies = {sender.copy for sender in senders if sender and sender.copy}
        for sender, member in zip(senders, found, strict=True):
            wanted = is_notebook(member.path) or bool(self._beside(member))
            if sender is None or not (sender.system or wanted):
                continue
            if sender.copy:
                member.when = None  # when it was copied
            elif (other := OF_THE_COURSE.fullmatch(member.path)) and (other["copy"] or ".") in copies:
                continue  # a chapter, or another exercise
            elif "." in copies:  # one student's, given without the folder that says whose it is
                sender.folder = "/"
            person, why = _whose(sender, self.roster)
            if person:
                files.setdefault(person.id, []).append((sender, member))
            else:
                self.lines.append(self.ledger.put_aside(member, sender, source, why, wanted))
        times = {
            PurePosixPath(member.path).parent: member for member in found if member.path.endswith("/timestamp.txt")
        }
        for done, (student, handed_in) in enumerate(sorted(files.items()), 1):
            of_name: dict[str, list[tuple[Sender, Member]]] = {}  # "" for the notebook
            for file in handed_in:
                of_name.setdefault(self._beside(file[1]), []).append(file)
            for name, attempts in sorted(of_name.items()):
                sender, member = max(attempts, key=self._rank)
                beside = times.get(PurePosixPath(member.path).parent)
                if beside and not sender.system:
                    member.when = _time(beside) or member.when
                try:
                    take = self._take_file if name else self._take
                    self.lines.append(take(student, sender, member, source))
                except (Unreadable, OSError) as error:
                    self._refuse(student, member, str(error), name)
                for other, left in attempts:
                    if left is not member and (name or is_notebook(left.path)):
                        same = self._fit(other) == self._fit(sender)
                        outcome = "older attempt" if same else "left alone"
                        self.lines.append(Line(outcome, student, left.path, f"{member.path} counts"))
            progress("files collected", done, len(files))

    def _beside(self, member: Member) -> str:
        """Return as which of the files beside the notebook a file can be meant, by its ending; nothing if as none."""
        return next((name for name in self.assignment.files if kind_of(name) == kind_of(member.path)), "")

    def _rank(self, file: tuple[Sender, Member]) -> tuple:
        sender, member = file
        when = member.when or datetime.min.replace(tzinfo=UTC)
        return self._fit(sender), sender.attempt, sender.attachment, when, member.path

    def _fit(self, sender: Sender) -> int:
        """Return how much a file's name looks like that which it should have."""
        names = {kind_of(name): PurePosixPath(name).stem for name in self.assignment.files}
        wanted = names.get(kind_of(sender.file), self.assignment.notebook).casefold()
        stem = COPY.sub("", PurePosixPath(sender.file).stem).casefold()
        known = kind_of(sender.file) in names or is_notebook(sender.file)
        return 3 if stem == wanted else 2 if wanted in stem else int(known)

    def _take(self, student: str, sender: Sender, member: Member, source: str) -> Line:
        """Put a file into submitted/, unless it is there or a later one is."""
        if not is_notebook(member.path):
            archive = member.path.lower().endswith(ARCHIVES)
            raise Unreadable("an archive in the archive is not opened" if archive else "it is not a notebook")
        data = member.read()
        self.ledger.settle(member, sender, source)
        folder = self._folder(student)
        submitted = self.roster.submitted.get(student) if sender.system == "moodle" else None
        record = _record(sender, member, source, data, submitted)
        before = self.ledger.collected.get(student, {})
        try:
            there = self.course.read_submission(student, self.assignment)
        except Unreadable:
            there = None
        outcome = "unchanged" if there and there.data == data else "collected"
        if there and outcome == "collected" and _is_older(record, before):
            return Line("older attempt", student, member.path, f"{before['file']} was collected before, and is later")
        if outcome == "collected":
            self._keep_earlier(folder, student)
            write_atomically(folder / f"{self.assignment.notebook}.ipynb", data)
        elif before and not submitted:
            record["submitted"] = before["submitted"]  # the same file, packed again
        if record["submitted"]:
            write_atomically(folder / "timestamp.txt", record["submitted"] + "\n")
        (folder / REFUSED).unlink(missing_ok=True)
        self.ledger.refused.pop(student, None)
        self.ledger.collected[student] = record
        return Line(outcome, student, member.path, "late" if sender.late else "")

    def _take_file(self, student: str, sender: Sender, member: Member, source: str) -> Line:
        """Put a file beside the notebook, unless it is there or a later one is."""
        name, data = self._beside(member), member.read()
        if len(data) > MAX_FILE:
            size, most = len(data) / 2**20, MAX_FILE / 2**20
            raise Unreadable(f"{shown(sender.file)} has {size:.1f} MiB; at most {most:.0f} are taken of a {name}")
        self.ledger.settle(member, sender, source)
        folder = self._folder(student)
        record = _record(sender, member, source, data)
        before = self.ledger.files.get(student, {}).get(name, {})
        try:
            there = read_plain_file(folder / name, MAX_FILE) if os.path.lexists(folder / name) else None
        except Unreadable:
            there = b""
        outcome = "unchanged" if there == data else "collected"
        if there is not None and outcome == "collected" and _is_older(record, before):
            return Line("older attempt", student, member.path, f"{before['file']} was collected before, and is later")
        if outcome == "collected":
            if there is not None:
                self._keep_earlier(folder, student, [name])
            write_atomically(folder / name, data)
        (folder / f"{name}.{REFUSED}").unlink(missing_ok=True)
        self.ledger.refused.pop(f"{student}/{name}", None)
        self.ledger.files.setdefault(student, {})[name] = record
        return Line(outcome, student, member.path, "late" if sender.late else "")

    def _keep_earlier(self, folder: Path, student: str, names: list[str] | None = None) -> None:
        """Move what lies in a folder of submitted/, by default the notebook, to earlier/STUDENT/ASSIGNMENT/NUMBER/."""
        if names is None:
            names = [name for name in sorted(os.listdir(folder)) if name.endswith(".ipynb") or name == "timestamp.txt"]
        if not names:
            return
        above = self.course.root / "earlier" / student / self.assignment.name
        numbers = [int(name) for name in os.listdir(above) if name.isdecimal()] if above.exists() else []
        place = above / f"{max(numbers, default=0) + 1:03d}"
        place.mkdir(parents=True)
        for name in names:
            if name == f"{self.assignment.notebook}.ipynb" and stat.S_ISREG((folder / name).lstat().st_mode):
                try:  # at every moment there is a submission, the old or the new one
                    os.link(folder / name, place / name)
                    continue
                except OSError:  # a file system without hard links
                    pass
            os.replace(folder / name, place / name)

    def _refuse(self, student: str, member: Member, why: str, name: str = "") -> None:
        """Leave the reason where the submission would lie, so that its state is "unreadable" and not "missing".

        Of a file beside the notebook (its name) likewise, so that the student is told.
        """
        self.lines.append(Line("refused", student, member.path, why))
        self.ledger.refused[f"{student}/{name}" if name else student] = f"{shown(member.path)}: {why}"
        try:
            folder = self._folder(student)
            if name and not os.path.lexists(folder / name):
                write_atomically(folder / f"{name}.{REFUSED}", f"{name} could not be taken: {why}\n")
            elif not name and not any(other.endswith(".ipynb") for other in os.listdir(folder)):
                write_atomically(folder / REFUSED, f"what was handed in could not be taken: {why}\n")
        except OSError as error:
            self.lines[-1].why += f"; {error}"

    def _folder(self, student: str) -> Path:
        """Make the folder of a submission; a link there might lead out of the course."""
        folder = self.course.submission_folder(student, self.assignment.name)
        for place in (folder.parent, folder):
            if place.is_symlink():
                raise OSError(f"{place} is a link; remove it")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _whose(sender: Sender, roster: Roster) -> tuple[Person | None, str]:
    """Return whose file it is, or nobody and the reason."""
    if sender.system == "moodle":
        return roster.find(sender.system, sender.number, sender.name)
    if sender.folder:
        person, why = roster.by_id(sender.folder), f"{sender.folder!r} is no id in roster.csv"
        if person is None and sender.system:
            return roster.find(sender.system, sender.number, sender.name)
        if person is None and sender.folder == "/":
            why = "it lies in a folder that is neither STUDENT nor STUDENT/ASSIGNMENT nor STUDENT/exercises/ASSIGNMENT"
        elif person is None and not roster.people:
            why = check_id(sender.folder)
            person = None if why else Person(sender.folder)
        return person, "" if person else why
    stem = re.sub(r"\.\w+$", "", sender.back or sender.file)
    fits = [person for person in roster.people if stem == person.id or stem.startswith(f"{person.id}_")]
    why = "its name is not that of a download, nor does it begin with an id of roster.csv"
    if sender.system:
        person, why = roster.find(sender.system, sender.number, sender.name)
        fits += [person] if person and person not in fits else []
    if len(fits) > 1:
        return None, f"its name fits {', '.join(sorted(person.id for person in fits))}"
    return (fits[0], "") if fits else (None, why)


def _record(
    sender: Sender, member: Member, source: str, data: bytes, submitted: datetime | None = None
) -> dict[str, Any]:
    """Return what the ledger keeps of a file that was collected."""
    return {
        "file": member.path,
        "source": source,
        "system": sender.system,
        "number": sender.number,
        "attempt": sender.attempt,
        "attachment": sender.attachment,
        "late": sender.late,
        "submitted": _iso(submitted if sender.system else member.when),
        "packed": _iso(member.when),
        "sha256": hashlib.sha256(data).hexdigest(),
        "back": sender.back,
    }


def _is_older(record: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a file is older than the one that was collected before it, as far as their system says."""
    if record["system"] != before.get("system"):
        return False
    if record["system"] == "canvas":
        return record["attachment"] < before["attachment"]  # numbers of uploads only grow
    return bool(record["packed"] and before["packed"]) and record["packed"] < before["packed"]


def _time(member: Member) -> datetime | None:
    try:
        return read_time(member.read())
    except ValueError:
        return None


def _iso(when: datetime | None) -> str | None:
    return when.isoformat(timespec="seconds") if when else None

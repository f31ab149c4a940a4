"""The record of collected files and of files without an owner: collected/ASSIGNMENT.json and unmatched/ASSIGNMENT/."""

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from autograder.course.archives import Member
from autograder.course.course import Course
from autograder.files import Unreadable, kind_of, printable, read_json, write_atomically
from autograder.lms.names import Sender


@dataclass
class Line:
    """A line of the receipt: the outcome of one file."""

    outcome: str  # one of: collected, unchanged, needs a look, older attempt, left alone, unmatched, refused, look at
    student: str
    file: str
    why: str = ""


class Ledger:
    """The collected, refused and unmatched files of an assignment: collected/ASSIGNMENT.json."""

    def __init__(self, course: Course, assignment: str) -> None:
        self.path = course.root / "collected" / f"{assignment}.json"
        self.place = course.root / "unmatched" / assignment
        kept = read_json(self.path, "Remove it, and collect the same downloads again.") or {}
        self.collected: dict[str, dict[str, Any]] = kept.get("collected", {})  # records by student
        self.files: dict[str, dict[str, Any]] = kept.get("files", {})  # files next to the notebook, by student and name
        self.refused: dict[str, str] = kept.get("refused", {})  # the reason, by student or STUDENT/FILE
        unmatched: list[dict[str, str]] = kept.get("unmatched", [])  # may name files that a person removed
        self.unmatched = [e for e in unmatched if not e["kept"] or (self.place / e["kept"]).exists()]

    def put_aside(self, member: Member, sender: Sender, source: str, why: str, wanted: bool) -> Line:
        """Keep a requested file without an owner in unmatched/, and record the reason."""
        data = b""
        if wanted:
            try:
                data = member.read()
            except Unreadable as error:
                why = f"{why}; {error}"
        else:
            why = f"{why}; and the assignment does not request such a file"
        self.forget(member, sender, source)
        # Two people may submit the same text, and many people submit files with the same name.
        kept = f"{hashlib.sha256(member.path.encode() + data).hexdigest()[:16]}{kind_of(member.path)}" if data else ""
        if kept:
            write_atomically(self.place / kept, data)
        self.unmatched.append({"file": member.path, "source": source, "why": why, "kept": kept})
        return Line("unmatched", "", member.path, why)

    def forget(self, member: Member, sender: Sender, source: str) -> None:
        """Remove a file from the unmatched files, because its owner is decided again.

        In Moodle and Canvas, a file's name belongs to one person only. The name alone identifies such a file.
        """
        gone = [e for e in self.unmatched if e["file"] == member.path and (sender.system or e["source"] == source)]
        self.unmatched = [entry for entry in self.unmatched if entry not in gone]
        for kept in {entry["kept"] for entry in gone} - {entry["kept"] for entry in self.unmatched} - {""}:
            (self.place / kept).unlink(missing_ok=True)

    def save(self) -> None:
        """Write the ledger, and the reasons next to the unmatched files."""
        fields = {"collected": self.collected, "refused": self.refused, "unmatched": self.unmatched}
        fields |= {"files": self.files} if self.files else {}
        write_atomically(self.path, json.dumps(fields, indent=1, sort_keys=True) + "\n")
        reasons = [f"{e['kept'] or 'not kept':22}  {printable(e['file'])}: {e['why']}\n" for e in self.unmatched]
        if reasons or self.place.exists():
            write_atomically(self.place / "reasons.txt", "".join(reasons))


def record_of(sender: Sender, member: Member, submitted: datetime | None = None) -> dict[str, Any]:
    """Return the ledger's entry for a collected file."""
    return {
        "file": member.path,
        "system": sender.system,
        "number": sender.number,
        "claim": unicodedata.normalize("NFC", sender.claim),
        "attachment": sender.attachment,
        "late": sender.late,
        "submitted": _iso(submitted if sender.system else member.when),
        "packed": _iso(member.when),
        "back": sender.back,
    }


def is_older(record: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a file is older than the file collected before. Only files of the same system are compared."""
    before = before.get("latest", before)
    if record["system"] != before.get("system"):
        return False
    if record["system"] == "canvas":
        return record["attachment"] < before["attachment"]  # numbers of uploads only grow
    return bool(record["packed"] and before["packed"]) and record["packed"] < before["packed"]


def latest_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what `is_older` needs to know about the newest file. The newest file may be one that does not count."""
    latest = max(records, key=lambda record: (record["attachment"], record["packed"] or ""))
    return {key: latest[key] for key in ("system", "attachment", "packed")}


def _iso(when: datetime | None) -> str | None:
    return when.isoformat(timespec="seconds") if when else None

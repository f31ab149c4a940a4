"""Bring what was handed in into the course: zip downloads of Moodle and Canvas, folders, single notebooks.

Archives and folders come from strangers. No member of an archive is extracted to a path that it names: names say only who
handed in, and everything is written below the course's folder under names that are made here. The names in downloads are
those of mod/assign/classes/downloader.php (Moodle, https://github.com/moodle/moodle) and of lib/content_zipper.rb (Canvas,
https://github.com/instructure/canvas-lms). Both zip writers stamp members with the time of the download, so that a time of
submission is taken from Moodle's worksheet only.
"""

import hashlib
import json
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.course import MAX_BYTES, REFUSED, Assignment, Course, read_plain_file, write_atomically
from autograder.mend import Unreadable
from autograder.roster import Person, Roster, Worksheet, check_id

MAX_MEMBERS = 50_000  # of an archive or a folder
MAX_DIRECTORY = 32 * 2**20  # bytes of an archive's list of members, which is read as a whole
MAX_TOTAL = 8 * 2**30  # bytes of all notebooks in an archive, unpacked
MAX_RATIO, RATIO_FROM = 500, 10 * 2**20  # a member of this many bytes may not be packed tighter

MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?P<plugin>[a-z]+)(?:_(?P<file>.*))?", re.S)
CANVAS = re.compile(
    r"(?:(?!LATE_)(?P<name>.*?)_)?(?:(?P<late>LATE)_)?(?P<number>\d+)_(?P<attachment>\d+)_(?P<file>.+)", re.S
)
ATTEMPT = re.compile(r"-(\d+)(?=\.ipynb$)", re.I)  # Canvas's mark of a file that was handed in again
COPY = re.compile(r"^copy of |( ?\(\d+\)|-\d+)+$", re.I)


@dataclass
class Member:
    """A file in an archive or a folder, not read yet."""

    path: str  # within it, with /
    read: Callable[[], bytes]
    when: datetime | None


@dataclass
class Sender:
    """What the name of a file says."""

    file: str  # as the student called it
    system: str = ""  # "moodle", "canvas", or that of none
    number: str = ""  # of the participant or user
    name: str = ""
    folder: str = ""  # the student's, where no system named the file
    late: bool = False
    attachment: int = 0
    back: str = ""  # under which name the system takes a page of feedback

    @property
    def attempt(self) -> int:
        """How often a file of this name had been handed in before, as Canvas numbers them."""
        found = ATTEMPT.search(self.file)
        return int(found[1]) if found else 0


@dataclass
class Line:
    """A line of the receipt: what became of one file."""

    outcome: str  # collected, unchanged, older attempt, left alone, unmatched, refused
    student: str
    file: str
    why: str = ""


class Ledger:
    """What was collected for an assignment, from where, and what was not: collected/ASSIGNMENT.json."""

    def __init__(self, course: Course, assignment: str) -> None:
        self.path = course.root / "collected" / f"{assignment}.json"
        self.place = course.root / "unmatched" / assignment
        kept = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        self.collected: dict[str, dict[str, Any]] = kept.get("collected", {})  # by student
        self.refused: dict[str, str] = kept.get("refused", {})  # by student, the reason
        self.unmatched: list[dict[str, str]] = kept.get("unmatched", [])

    def put_aside(self, member: Member, source: str, why: str) -> Line:
        """Keep a file that is nobody's below unmatched/, with the reason."""
        try:
            data = member.read()
        except Unreadable as error:
            data, why = b"", f"{why}; {error}"
        digest = hashlib.sha256(data or member.path.encode()).hexdigest()
        self.settle(member.path, digest)
        name = f"{digest[:16]}.ipynb" if data else ""
        if data:
            write_atomically(self.place / name, data)
        self.unmatched.append(
            {"file": member.path, "source": source, "why": why, "sha256": digest, "kept": name}
        )
        return Line("unmatched", "", member.path, why)

    def settle(self, path: str, digest: str) -> None:
        """Take a file from the unmatched, because it is looked at again."""
        gone = [entry for entry in self.unmatched if entry["sha256"] == digest or entry["file"] == path]
        self.unmatched = [entry for entry in self.unmatched if entry not in gone]
        for entry in gone:
            if entry["kept"] and entry["kept"] not in {other["kept"] for other in self.unmatched}:
                (self.place / entry["kept"]).unlink(missing_ok=True)

    def save(self) -> None:
        """Write it, and the reasons beside the unmatched files."""
        fields = {"collected": self.collected, "refused": self.refused, "unmatched": self.unmatched}
        write_atomically(self.path, json.dumps(fields, indent=1, sort_keys=True) + "\n")
        reasons = [f"{e['kept'] or '(not read)'}  {shown(e['file'])}: {e['why']}\n" for e in self.unmatched]
        if reasons or self.place.exists():
            write_atomically(self.place / "reasons.txt", "".join(reasons))


def collect(
    course: Course,
    assignment: Assignment,
    paths: list[Path],
    worksheet: Worksheet | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Line]:
    """Put what was handed in into submitted/STUDENT/ASSIGNMENT/, and write down what could not be.

    Later paths count as later. A file that was collected before is kept below earlier/ when another takes its place.

    Raises:
        ValueError: roster.csv cannot be used.
    """
    course.root.mkdir(parents=True, exist_ok=True)
    roster, ledger, lines = Roster(course, worksheet), Ledger(course, assignment.name), []
    try:
        for path in paths:
            with ExitStack() as stack:
                try:
                    members = list(_members(path, stack))
                except (Unreadable, OSError, zipfile.BadZipFile, NotImplementedError) as error:
                    lines.append(Line("refused", "", str(path), str(error)))
                    continue
                lines += _collect(course, assignment, roster, ledger, path.name, members, progress)
    finally:
        ledger.save()
    return lines


def _collect(course, assignment, roster, ledger, source, members, progress) -> list[Line]:
    """Collect the members of one archive or folder."""
    lines: list[Line] = []
    files: dict[str, list[tuple[Sender, Member]]] = {}
    for member in members:
        sender = _sender(member.path, assignment.name)
        notebook = member.path.lower().endswith(".ipynb")
        if sender is None or not (notebook or sender.system):
            continue
        person, why = _person(sender, roster)
        if person:
            files.setdefault(person.id, []).append((sender, member))
        elif notebook:
            lines.append(ledger.put_aside(member, source, why))
        else:
            lines.append(Line("unmatched", "", member.path, f"{why}; and it is not a notebook"))

    def rank(file: tuple[Sender, Member]) -> tuple:
        sender, member = file
        when = member.when or datetime.min.replace(tzinfo=UTC)
        return _fit(sender.file, assignment.notebook), sender.attempt, sender.attachment, when, member.path

    for done, (student, found) in enumerate(sorted(files.items()), 1):
        sender, member = best = max(found, key=rank)
        try:
            line = _take(course, assignment, roster, ledger, source, student, *best)
        except (Unreadable, OSError) as error:
            ledger.refused[student] = f"{shown(PurePosixPath(member.path).name)}: {error}"
            line = Line("refused", student, member.path, _refuse(course, assignment, student, ledger.refused[student]))
        lines.append(line)
        for other, left in found:
            if left is not member and left.path.lower().endswith(".ipynb"):
                same = _fit(other.file, assignment.notebook) == _fit(sender.file, assignment.notebook)
                outcome = "older attempt" if same else "left alone"
                lines.append(Line(outcome, student, left.path, f"{member.path} was taken"))
        progress(f"files of {source}"[:20], done, len(files))
    return lines


def _take(course, assignment, roster, ledger, source, student, sender, member) -> Line:
    """Put one file into submitted/, unless it is there or a later one is."""
    if not member.path.lower().endswith(".ipynb"):
        kind = "an archive inside the archive is not opened" if zip_like(member.path) else "this is not a notebook"
        raise Unreadable(f"{kind}; hand in the .ipynb file")
    data = member.read()
    digest = hashlib.sha256(data).hexdigest()
    ledger.settle(member.path, digest)
    folder = _folder(course, student, assignment.name)
    before = ledger.collected.get(student, {})
    packed = member.when.isoformat(timespec="seconds") if member.when else None
    submitted = roster.submitted.get(student) if sender.system == "moodle" else None if sender.system else member.when
    record = {
        "file": member.path,
        "source": source,
        "system": sender.system,
        "number": sender.number,
        "attempt": sender.attempt,
        "attachment": sender.attachment,
        "late": sender.late,
        "submitted": submitted.isoformat(timespec="seconds") if submitted else None,
        "packed": packed,
        "sha256": digest,
        "back": sender.back,
    }
    try:
        there = course.read_submission(student, assignment)
    except Unreadable:
        there = None
    if there is not None and there[0] == data:
        outcome = "unchanged"
        if before and not (sender.system == "moodle" and submitted):
            record["submitted"] = before["submitted"]
    elif there is not None and before.get("system") == sender.system and _is_older(record, before):
        return Line("older attempt", student, member.path, f"{before['file']} was collected before, and is newer")
    else:
        outcome = "collected"
        _keep_earlier(course, folder, student, assignment)
        write_atomically(folder / f"{assignment.notebook}.ipynb", data)
    for name, text in ((REFUSED, None), ("timestamp.txt", record["submitted"])):
        if text:
            write_atomically(folder / name, text + "\n")
        elif outcome == "collected" or name == REFUSED:
            (folder / name).unlink(missing_ok=True)
    ledger.refused.pop(student, None)
    ledger.collected[student] = record
    return Line(outcome, student, member.path, "late" if sender.late else "")


def _is_older(record: dict[str, Any], before: dict[str, Any]) -> bool:
    if record["system"] == "canvas":
        return record["attachment"] < before["attachment"]  # the numbers of uploads only grow
    return bool(record["packed"] and before["packed"]) and record["packed"] < before["packed"]


def _keep_earlier(course: Course, folder: Path, student: str, assignment: Assignment) -> None:
    """Move what lies in a folder of submitted/ to earlier/STUDENT/ASSIGNMENT/NUMBER/; nothing is ever deleted."""
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(".ipynb")]
    if not names:
        return
    above = course.root / "earlier" / student / assignment.name
    number = 1 + max((int(p.name) for p in above.glob("[0-9]*") if p.name.isdecimal()), default=0)
    place = above / f"{number:03d}"
    place.mkdir(parents=True)
    for name in [*names, "timestamp.txt"]:
        if not os.path.lexists(folder / name):
            continue
        if name == f"{assignment.notebook}.ipynb" and stat.S_ISREG(os.lstat(folder / name).st_mode):
            write_atomically(place / name, read_plain_file(folder / name))  # the new one takes its place at once
        else:
            os.replace(folder / name, place / name)


def _refuse(course: Course, assignment: Assignment, student: str, why: str) -> str:
    """Leave the reason where the submission would lie, so that its state is "unreadable", not "missing"."""
    try:
        folder = _folder(course, student, assignment.name)
        if not any(name.endswith(".ipynb") for name in os.listdir(folder)):
            write_atomically(folder / REFUSED, why + "\n")
    except OSError as error:
        return f"{why}; {error}"
    return why


def _folder(course: Course, student: str, assignment: str) -> Path:
    """Make the folder of a submission; a link there might lead out of the course."""
    folder = course.root / "submitted" / student / assignment
    for place in (folder.parent, folder):
        if place.is_symlink():
            raise OSError(f"{place} is a link; remove it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sender(path: str, assignment: str) -> Sender | None:
    """Read the name of a file; None for what nobody handed in, such as hidden files and Moodle's online texts."""
    parts = unicodedata.normalize("NFC", path).split("/")
    if any(part.startswith(".") or part == "__MACOSX" for part in parts):
        return None
    file = parts[-1]
    page = re.sub(r"\.ipynb$", "", file, flags=re.I) + ".html"
    for index, part in enumerate(parts):
        found = MOODLE.fullmatch(part)
        if found and found["plugin"] != "file":
            return None
        if found:
            folder = index < len(parts) - 1
            original = PurePosixPath(path).parts[index] if folder else ""
            back = f"{original}/{page}" if folder else page
            return Sender(file if folder else found["file"] or "", "moodle", found["number"], found["name"], back=back)
    found = CANVAS.fullmatch(file)
    sender = Sender(file)
    if found:
        late, attachment = bool(found["late"]), int(found["attachment"])
        name, number = found["name"] or "", found["number"]
        sender = Sender(found["file"], "canvas", number, name, late=late, attachment=attachment, back=page)
    if assignment in parts[1:-1]:
        sender.folder = parts[parts.index(assignment, 1) - 1]
    elif len(parts) == 2:
        sender.folder = parts[0]
    elif len(parts) > 2:
        sender.folder = "/"  # somewhere deeper: no id is like this
    return sender


def _person(sender: Sender, roster: Roster) -> tuple[Person | None, str]:
    """Return whose file it is, or nobody and the reason."""
    if sender.system == "moodle":
        return roster.find(sender.system, sender.number, sender.name)
    named = roster.by_id(sender.folder) if sender.folder else None
    if named:
        return named, ""
    stem = re.sub(r"\.ipynb$", "", PurePosixPath(sender.back).stem or sender.file, flags=re.I)
    fits = [p for p in roster.people if stem == p.id or stem.startswith(f"{p.id}_")] if not sender.folder else []
    if sender.system == "canvas":
        person, why = roster.find(sender.system, sender.number, sender.name)
        fits += [person] if person and person not in fits else []
        if not fits:
            return None, why
    if len(fits) == 1:
        return fits[0], ""
    if fits:
        return None, f"its name fits {', '.join(sorted(p.id for p in fits))}"
    if sender.folder == "/":
        return None, "it lies in a folder that is neither a student's nor STUDENT/ASSIGNMENT"
    if not sender.folder:
        return None, "its name is neither that of a download nor does it begin with an id of roster.csv"
    if roster.people:
        return None, f"{sender.folder!r} is no id in roster.csv"
    why = check_id(sender.folder)
    return (None, why) if why else (Person(sender.folder), "")


def _fit(file: str, notebook: str) -> int:
    """Return how much a file's name looks like that of the notebook that was given out."""
    stem = COPY.sub("", PurePosixPath(file).stem).casefold()
    return 2 if stem == notebook.casefold() else int(notebook.casefold() in stem)


def _members(path: Path, stack: ExitStack) -> Iterator[Member]:
    """List the files of an archive, a folder, or the one file that the path is."""
    if path.is_dir():
        yield from _folder_members(path)
    elif path.suffix.lower() == ".ipynb":
        when = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        yield Member(_text(path.name), partial(read_plain_file, path), when)
    elif not path.is_file():
        raise Unreadable("there is no such file or folder")
    else:
        yield from _zip_members(path, stack)


def _folder_members(path: Path) -> Iterator[Member]:
    def stop(error: OSError) -> None:
        raise error

    count = 0
    for here, folders, files in os.walk(path, onerror=stop):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in sorted(files) + links:
            count += 1
            if count > MAX_MEMBERS:
                raise Unreadable(f"it has more than {MAX_MEMBERS:,} files")
            file = Path(here, name)
            when = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
            yield Member(_text(file.relative_to(path).as_posix()), partial(read_plain_file, file), when)


def _zip_members(path: Path, stack: ExitStack) -> Iterator[Member]:
    file = stack.enter_context(path.open("rb"))
    _check_directory(file, path.stat().st_size)
    archive = stack.enter_context(zipfile.ZipFile(file))
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MAX_MEMBERS:
        raise Unreadable(f"it has {len(infos):,} files; at most {MAX_MEMBERS:,} are taken")
    total = sum(info.file_size for info in infos if info.filename.lower().endswith(".ipynb"))
    if total > MAX_TOTAL:
        raise Unreadable(f"its notebooks have {total / 2**30:.0f} GiB; at most {MAX_TOTAL / 2**30:.0f} are unpacked")
    times = Counter(info.filename for info in infos)
    for info in infos:
        name = info.filename
        if not info.flag_bits & 0x800:  # names that are UTF-8, although the archive does not say so
            try:
                name = name.encode("cp437").decode("utf-8")
            except UnicodeError:
                pass
        yield Member(name, partial(_read_zipped, archive, info, _why_not(info, times)), _zip_time(info))


def _check_directory(file, size: int) -> None:
    """Look at how long the list of members is before it is read."""
    file.seek(max(0, size - 2**16 - 98))
    tail = file.read()
    end, end64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    if end < 0:
        raise Unreadable("it is no zip archive")
    length = int.from_bytes(tail[end + 12 : end + 16], "little")
    if length == 0xFFFFFFFF and end64 >= 0:
        length = int.from_bytes(tail[end64 + 40 : end64 + 48], "little")
    if length > MAX_DIRECTORY:
        raise Unreadable(f"its list of members has {length / 2**20:.0f} MiB; that is no download of a class")


def _why_not(info: zipfile.ZipInfo, times: Counter) -> str:
    """Return why a member of an archive is not read; nothing if it is."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if ".." in name.split("/") or name[:1] == "/" or re.match(r"[A-Za-z]:", name) or set(name) & {"\\", "\0"}:
        return "its name leads out of the archive"
    if kind not in (0, stat.S_IFREG):
        return "it is a link or a device, not a file"
    if times[info.filename] > 1:
        return f"its name is in the archive {times[info.filename]} times"
    if info.flag_bits & 0x2041:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in an unusual way"
    if info.file_size > MAX_BYTES:
        return f"it has {info.file_size / 2**20:.0f} MiB; at most {MAX_BYTES / 2**20:.0f} are read"
    if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * info.compress_size:
        return f"it unpacks to {info.file_size / max(1, info.compress_size):.0f} times its size, as a zip bomb does"
    return ""


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, why_not: str) -> bytes:
    if why_not:
        raise Unreadable(why_not)
    try:
        with archive.open(info) as file:
            data = file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise Unreadable(f"it cannot be unpacked: {error}") from None
    if len(data) > MAX_BYTES:
        raise Unreadable(f"it has more than {MAX_BYTES / 2**20:.0f} MiB")
    return data


def _zip_time(info: zipfile.ZipInfo) -> datetime | None:
    """Return when a member was last changed; the usual field has no time zone, and is read in that of this machine."""
    try:
        return datetime(*info.date_time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def zip_like(name: str) -> bool:
    """Whether a file is an archive by its name."""
    return name.lower().endswith((".zip", ".gz", ".tgz", ".tar", ".7z", ".rar", ".bz2", ".xz"))


def shown(name: str) -> str:
    """Return a name from a stranger as it can be printed: nothing in it moves the cursor or turns the text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def _text(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")

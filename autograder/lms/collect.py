"""Bring submissions into the course: zip downloads of Moodle and Canvas, folders, single notebooks.

Only the top of a file's path says who submitted it. Files are written below the course's folder, under names that this
module makes. In a download from Moodle or Canvas, all files have the time of the download (Moodle's
files/classes/local/archive_writer/zip_writer.php, Canvas's lib/content_zipper.rb). For these files, only Moodle's
worksheet gives a time of submission.
"""

import os
import stat
import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from autograder.course.archives import START, Member, members
from autograder.course.candidates import REFUSED, Candidate, SortedFiles, Wanted, begins_notebook, nothing_found
from autograder.course.course import NEEDS_A_LOOK, Assignment, Course
from autograder.course.roster import Roster, Worksheet
from autograder.course.submissions import stored_name
from autograder.course.times import TIMESTAMP, UNCLEAR, read_time
from autograder.files import MAX_FILE, Unreadable, is_notebook, printable, read_plain_file, write_atomically
from autograder.lms.ledger import Ledger, Line, is_older, latest_of, record_of
from autograder.lms.names import Sender, read_name
from autograder.lms.owners import Owners
from autograder.progress import Progress

MAX_LISTED = 20  # most files without a notebook that are listed for one student


def collect(
    course: Course,
    assignment: Assignment,
    paths: list[Path],
    worksheet: Worksheet | None = None,
    progress: Progress = lambda *_: None,
) -> list[Line]:
    """Put submissions into submitted/STUDENT/ASSIGNMENT/, and record the files that were not accepted.

    A later path counts as a later submission. Files that were there before are moved to earlier/STUDENT/ASSIGNMENT/.

    Raises:
        ValueError: roster.csv cannot be used.
    """
    course.root.mkdir(parents=True, exist_ok=True)
    collector = _Collector(course, assignment, Roster(course, worksheet), Ledger(course, assignment.name))
    try:
        collector.look_at_worksheet(worksheet)
        for path in paths:
            with ExitStack() as stack:
                try:
                    listed = list(members(path, stack, collector.is_single))
                except (Unreadable, OSError) as error:
                    collector.lines.append(Line("refused", "", str(path), str(error)))
                else:
                    before = len(collector.lines)
                    collector.collect(str(path), listed, progress)
                    if len(collector.lines) == before:
                        collector.lines.append(Line("refused", "", str(path), "no submission is in it"))
    finally:
        collector.ledger.save()
    return collector.lines


@dataclass
class _Claim:
    """The files that one sender submitted under a student's name."""

    key: str  # names the sender
    is_sure: bool  # whether an id or a known number names the student; a name alone is not sure
    files: list[tuple[Sender, Member]] = field(default_factory=list)
    sorted_files: SortedFiles = field(default_factory=SortedFiles)

    def sort_out(self, wanted: Wanted) -> None:
        """Find the files that may count. A download of Canvas holds one attempt of each student."""
        is_explicit = all(sender.system or not sender.folder for sender, _ in self.files)
        self.sorted_files = wanted.sort_out([member for _, member in self.files], is_explicit=is_explicit)
        for group in [self.sorted_files.notebooks, *self.sorted_files.files.values()]:
            for each in group:
                sender, member = self.origin_of(each)
                if sender.system and each.name == member.path:
                    each.when = sender.attachment  # the archive has only the time of the download

    def origin_of(self, candidate: Candidate) -> tuple[Sender, Member]:
        """Return the submitted file of a candidate: the candidate itself, or the archive that contains it."""
        return next(file for file in self.files if f"{candidate.name}/".startswith(f"{file[1].path}/"))


@dataclass
class _Collector:
    """Collects files and records the outcome of each."""

    course: Course
    assignment: Assignment
    roster: Roster
    ledger: Ledger

    def __post_init__(self) -> None:
        self.lines: list[Line] = []
        self.wanted = self.assignment.wanted
        self.owners = Owners(self.course, self.assignment, self.roster)
        self.unclear: dict[str, bytes] = {}  # what the timestamp.txt above a file says, if it is unclear; else b""

    def is_single(self, path: Path) -> bool:
        """Whether a given path is one student's file, not an archive of a class."""
        if is_notebook(path.name) or self.wanted.file_for(path.name):
            return True
        return path.is_file() and begins_notebook(read_plain_file(path.resolve(), start=START))

    def look_at_worksheet(self, worksheet: Worksheet | None) -> None:
        """List the times in Moodle's worksheet that cannot be read, and the extensions that it grants."""
        if worksheet and worksheet.system == "moodle" and worksheet.place("Last modified (submission)") is None:
            why = "it has no column with times of submission: all submissions count as submitted in time"
            self.lines.append(Line("look at", "", str(worksheet.path), why))
        for student, text in self.roster.unclear.items():
            self.lines.append(Line("look at", student, text, "the worksheet's time of submission is not clear"))
        for student, text in self.roster.extensions.items():
            grant = f'autograder extend {student} {self.assignment.name} "2026-12-04 18:00"'
            why = f"Moodle's extension does not reach the gradebook: grant it, for example {grant}, or it may count as late"
            self.lines.append(Line("look at", student, text, why))

    def collect(self, source: str, listed: list[Member], progress: Progress) -> None:
        """Collect the members of one archive or folder: the files of each student that count."""
        stamps = [member for member in listed if member.path.endswith(f"/{TIMESTAMP}")]
        times = {PurePosixPath(member.path).parent: _time_in(member) for member in stamps}
        self.unclear = {}
        named = [(read_name(member.path, self.assignment.name), member) for member in listed]
        files = [(s, member) for s, member in named if s and PurePosixPath(member.path).name != TIMESTAMP]
        if any(member.path.startswith(f"exercises/{self.assignment.name}/") for member in listed):
            for sender, _ in files:  # a copy of the course that is in no student's folder has no owner
                sender.folder = sender.folder and "/"
        self.owners.copies = {sender.top for sender, _ in files if sender.copy}
        own: dict[str, dict[str, _Claim]] = {}
        for sender, member in files:
            if sender.copy:
                member.when = None  # the file has the time of the copy
            elif member.when and sender.system:
                member.when = member.when.replace(tzinfo=UTC)  # only compared with other downloads of the system
            elif member.when:
                member.when = self.course.settings.in_utc(member.when)
            above = next((at for at in PurePosixPath(member.path).parents if at in times), None)
            if above and not sender.system:
                member.when, self.unclear[member.path] = times[above]
            person, why, is_sure = self.owners.whose(sender)
            if person:
                claim = own.setdefault(person.id, {}).setdefault(sender.claim, _Claim(sender.claim, is_sure))
                claim.files.append((sender, member))
                self.ledger.forget(member, sender, source)
                continue
            may_count = self.wanted.sort_out([member], is_explicit=False)
            wanted = bool(may_count.notebooks or may_count.files)
            if wanted or sender.system:
                self.lines.append(self.ledger.put_aside(member, sender, source, why, wanted))
        for done, (student, claims) in enumerate(sorted(own.items()), 1):
            for claim in claims.values():
                claim.sort_out(self.wanted)
            self._collect_of(student, list(claims.values()))
            progress("files collected", done, len(own))

    def _collect_of(self, student: str, claims: list[_Claim]) -> None:
        """Collect one student's submission, and list the student's other files."""
        stored = self._stored_files(student)
        main = self._main(student, claims, stored)
        if any(claim.sorted_files.notebooks for claim in claims):
            self._take(student, main, claims, stored)
        for claim in claims:
            for name, group in sorted(claim.sorted_files.files.items()):
                if claim is main:
                    self._take_files(student, name, group, main, stored)
                else:
                    why = f"another sender submitted it under the id {student}"
                    self.lines += [Line("left alone", student, each.name, why) for each in group]
        others = [other for claim in claims for other in self._others(claim)]
        nothing = [other for claim in claims for other in claim.sorted_files.others]
        if main and nothing and not any(claim.sorted_files.notebooks or claim.sorted_files.files for claim in claims):
            self._refuse(student, nothing[0][0], nothing_found(nothing))
            others = [other for other in others if other != nothing[0]]
        self.lines += [Line("left alone", student, name, why) for name, why in others[:MAX_LISTED]]
        if len(others) > MAX_LISTED:
            more = f"{len(others) - MAX_LISTED} more files"
            self.lines.append(Line("left alone", student, more, "they hold no notebook of this assignment"))

    def _others(self, claim: _Claim) -> list[tuple[str, str]]:
        """Return (name, reason) of each file that was not requested. In a copy of the course, only new files count."""
        if any(sender.copy for sender, _ in claim.files):
            return [
                (name, why) for name, why in claim.sorted_files.others if f"/exercises/{self.assignment.name}/" in name
            ]
        away = [(name, "it is in the folder of another assignment") for name in claim.sorted_files.elsewhere]
        return claim.sorted_files.others + away

    def _stored_files(self, student: str) -> SortedFiles:
        """Find the files in a student's folder. They were collected earlier, or a person put them there."""
        try:
            return self.course.find_files(student, self.assignment)
        except Unreadable:  # there is a link instead of the folder; writing refuses it
            return SortedFiles()

    def _main(self, student: str, claims: list[_Claim], stored: SortedFiles) -> _Claim | None:
        """Return the claim that counts; None if an earlier claim counts and no new claim is sure."""
        before = self.ledger.collected.get(student, {})
        # Is the ledger's entry from the same sender, or is there none?
        same = {each.key: before.get("claim") in (None, unicodedata.normalize("NFC", each.key)) for each in claims}
        ranks = {claim.key: (same[claim.key], claim.is_sure) for claim in claims}
        best = [claim for claim in claims if ranks[claim.key] == max(ranks.values())]
        notebooks = [each for claim in best for each in claim.sorted_files.notebooks]
        main = best[0]
        if len(best) > 1 and notebooks:
            taken = self.wanted.choose(notebooks).taken
            main = next(claim for claim in best if taken in claim.sorted_files.notebooks)
        is_known = same[main.key] or (main.is_sure and before.get("sure", True))
        return main if is_known or not stored.notebooks else None

    def _take(self, student: str, main: _Claim | None, claims: list[_Claim], stored: SortedFiles) -> None:
        """Put the notebook that counts into submitted/, unless it is there. If a person must decide, put the contenders there."""
        new = main.sorted_files.notebooks if main else []
        claimed = [each for claim in claims if claim is not main for each in claim.sorted_files.notebooks]
        for each in claimed:
            each.claim = True
        now = {each.identity for each in stored.notebooks}
        coming = {each.digest for each in new + claimed}
        before = [each for each in stored.notebooks if each.is_readable and each.digest not in coming]
        known = self.ledger.collected.get(student, {})
        records = [record_of(*main.origin_of(each)) for each in new]
        if records and all(is_older(record, known) for record in records):
            older = new
        else:
            older = [each for each in before if new and not each.claim]
        for each in older:
            each.older = True
        choice = self.wanted.choose([*before, *new, *claimed])
        taken = choice.taken
        kept = [each for each in choice.contenders if each is not taken]
        claim = next((claim for claim in claims if taken in claim.sorted_files.notebooks), None)
        is_stored = {each.identity for each in [taken, *kept]} == now
        try:
            data = taken.read()
            if (claim or kept) and not is_stored:
                self._write(student, stored, taken, kept, data)
            if claim:
                self._record(student, claim, taken, is_stored)
            if records and older is not new and student in self.ledger.collected:
                self.ledger.collected[student]["latest"] = latest_of(records)
            (self._folder(student) / REFUSED).unlink(missing_ok=True)
            self.ledger.refused.pop(student, None)
            submission = self.course.read_submission(student, self.assignment) if kept else None
        except (Unreadable, OSError) as error:
            self._refuse(student, taken.name, str(error))
            kept, submission = [], None
            new = [each for each in new if each is not taken]
        question = "; ".join(submission.questions) if submission else ""
        for each in new + claimed:
            if each is taken:
                sender, _ = claim.origin_of(taken)
                why = question or ("late" if sender.late else "")
                self.lines.append(Line("unchanged" if is_stored else "collected", student, each.name, why))
            elif each in kept and question:
                self.lines.append(Line(NEEDS_A_LOOK, student, each.name, question))
            elif not each.is_readable and not any(other.is_readable for other in new):
                self._refuse(student, each.name, choice.reasons[each.name])
            else:
                outcome = "older attempt" if each.older else "left alone"
                self.lines.append(Line(outcome, student, each.name, choice.reasons[each.name]))

    def _write(self, student: str, stored: SortedFiles, taken: Candidate, kept: list[Candidate], data: bytes) -> None:
        """Move the earlier files, and write the notebook that counts. If a person must decide, write the contenders."""
        folder = self._folder(student)
        content: dict[str, tuple[Candidate, bytes]] = {}
        for each in [taken, *kept]:
            name = stored_name(each, content) if kept else f"{self.assignment.notebook}.ipynb"
            content[name] = each, data if each is taken else each.read_or_say()
        self._keep_earlier(folder, student, {each.name for each in stored.notebooks} | {TIMESTAMP, UNCLEAR})
        for name, (each, text) in content.items():
            write_atomically(folder / name, text)
            if kept:  # with these times, a later run chooses the same notebook
                os.utime(folder / name, (each.when, each.when))
        if (usual := f"{self.assignment.notebook}.ipynb") not in content:
            (folder / usual).unlink(missing_ok=True)  # a copy is in earlier/

    def _record(self, student: str, claim: _Claim, taken: Candidate, is_stored: bool) -> None:
        """Record the collected file and its time of submission."""
        sender, member = claim.origin_of(taken)
        unclear, written = self.unclear.get(member.path, b""), member.path in self.unclear
        submitted = self.roster.submitted.get(student) if sender.system == "moodle" else None
        if sender.system == "moodle" and student in self.roster.unclear:
            unclear = self.roster.unclear[student].encode()  # `Course.time_of` asks a person for the time
        record = record_of(sender, member, submitted) | {"sure": claim.is_sure}
        before = self.ledger.collected.get(student, {})
        if "latest" in before:
            record["latest"] = before["latest"]
        if is_stored and before and not (submitted or written):
            record["submitted"] = before["submitted"]  # the same file came in another archive
        stamp, (now, _) = self._folder(student) / TIMESTAMP, self.course.time_of(student, self.assignment.name)
        if is_stored and before and now and now.isoformat(timespec="seconds") != before["submitted"]:
            record["submitted"] = before["submitted"]  # a person has written another time, which stays
        elif unclear:
            write_atomically(self._folder(student) / UNCLEAR, unclear)
            stamp.unlink(missing_ok=True)
        elif record["submitted"]:
            write_atomically(stamp, record["submitted"] + "\n")
        self.ledger.collected[student] = record

    def _take_files(self, student: str, name: str, group: list[Candidate], claim: _Claim, stored: SortedFiles) -> None:
        """Put a file next to the notebook, unless it or a later one is there.

        If a person must decide, put all contenders there.
        """
        choice = self.wanted.choose_file(group)
        taken, earlier = choice.taken, stored.files.get(name, [])
        sender, member = claim.origin_of(taken)
        before = self.ledger.files.get(student, {}).get(name, {})
        why = choice.question or ("late" if sender.late else "")
        try:
            data = taken.read()
            content = {stored_name(taken, {}) if choice.contenders else name: data}
            if len(data) > MAX_FILE:
                size, most = len(data) / 2**20, MAX_FILE / 2**20
                raise Unreadable(f"{printable(sender.file)} has {size:.1f} MiB; a {name} may have at most {most:.0f}")
            folder, record = self._folder(student), record_of(sender, member)
            for each in choice.contenders:
                rival = each.read()
                if rival not in content.values():
                    content[stored_name(each, content)] = rival
            if {each.digest for each in earlier} == {taken.digest, *(each.digest for each in choice.contenders)}:
                outcome = "unchanged"
            elif earlier and is_older(record, before):
                outcome, why = "older attempt", choice.question or f"{before['file']}, collected before, is later"
            else:
                outcome = "collected"
                self._keep_earlier(folder, student, {each.name for each in earlier})
                for each, text in content.items():
                    write_atomically(folder / each, text)
            if outcome != "older attempt":
                (folder / f"{name}.{REFUSED}").unlink(missing_ok=True)
                self.ledger.refused.pop(f"{student}/{name}", None)
                self.ledger.files.setdefault(student, {})[name] = record
            self.lines.append(Line(outcome, student, taken.name, why))
        except (Unreadable, OSError) as error:
            self._refuse(student, taken.name, str(error), name)
        for each in group:
            if each is not taken:
                outcome = NEEDS_A_LOOK if each in choice.contenders else "older attempt" if each.older else "left alone"
                self.lines.append(Line(outcome, student, each.name, choice.reasons[each.name]))

    def _keep_earlier(self, folder: Path, student: str, paths: set[str]) -> None:
        """Move files of a folder in submitted/ to earlier/STUDENT/ASSIGNMENT/NUMBER/, with the folders that hold them."""
        tops = {path.split("/")[0] for path in paths} | {f"{path}.{REFUSED}" for path in paths if "/" not in path}
        names = sorted(name for name in tops if os.path.lexists(folder / name))
        if not names:
            return
        above = self.course.root / "earlier" / student / self.assignment.name
        numbers = [int(name) for name in os.listdir(above) if name.isdecimal()] if above.exists() else []
        place = above / f"{max(numbers, default=0) + 1:03d}"
        place.mkdir(parents=True)
        for name in names:
            if name == f"{self.assignment.notebook}.ipynb" and stat.S_ISREG((folder / name).lstat().st_mode):
                try:  # the old submission stays here until the new one replaces it
                    os.link(folder / name, place / name)
                    continue
                except OSError:  # the file system has no hard links
                    pass
            os.replace(folder / name, place / name)

    def _refuse(self, student: str, file: str, why: str, name: str = "") -> None:
        """Write the reason into the submission's folder, so that its state is "unreadable" and not "missing".

        A file next to the notebook, `name`, gets a reason too. The student then sees the reason.
        """
        self.lines.append(Line("refused", student, file, why))
        self.ledger.refused[f"{student}/{name}" if name else student] = f"{printable(file)}: {why}"
        try:
            folder = self._folder(student)
            if name and not os.path.lexists(folder / name):
                write_atomically(folder / f"{name}.{REFUSED}", f"{name} was not accepted: {why}\n")
            elif not name and not any(other.endswith(".ipynb") for other in os.listdir(folder)):
                write_atomically(folder / REFUSED, f"{why}\n" if why.startswith("submitted:") else f"{file}: {why}\n")
        except OSError as error:
            self.lines[-1].why += f"; {error}"

    def _folder(self, student: str) -> Path:
        """Make the folder of a submission; refuse a link, which might lead out of the course."""
        folder = self.course.submission_folder(student, self.assignment.name)
        for place in (folder.parent, folder):
            if place.is_symlink():
                raise OSError(f"{place} is a link; remove it")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _time_in(stamp: Member) -> tuple[datetime | None, bytes]:
    """Return the time in a timestamp.txt, and b""; None and the text if it is unclear: `Course.time_of` asks a person."""
    text = b"?"
    try:
        text = stamp.read()[:1000] or text
        return read_time(text), b""
    except ValueError:
        return None, text

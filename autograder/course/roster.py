"""Find the people in the course and the owners of files, from roster.csv or a table that Moodle or Canvas exports.

Moodle's table is the grading worksheet. Canvas's table is the gradebook export.

The source code of both systems shows which names they give to people and columns:

- Moodle (https://github.com/moodle/moodle): mod/assign/gradingtable.php and mod/assign/feedback/offline/importgradeslib.php
  for the worksheet, mod/assign/classes/downloader.php and PARAM_FILE in lib/moodlelib.php for names in a download. A
  participant's number belongs to one assignment; the same person has another number in the next assignment.
- Canvas (https://github.com/instructure/canvas-lms): lib/gradebook_exporter.rb and lib/gradebook_importer.rb for the
  columns, lib/content_zipper.rb for names in a download. The id of a user is the same everywhere.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autograder.course.course import Course
from autograder.course.gradebook import why_unfit
from autograder.course.worksheet_columns import columns_of, extension_in, read_moodle_time
from autograder.spreadsheets import EATEN, Table, eaten, read_table

MOODLE_ANONYMOUS = "participant"  # Moodle writes this word instead of every name if submissions are anonymous


@dataclass(eq=False)
class Person:
    """A student, with their names and numbers in the learning management systems."""

    id: str  # also the name of the student's folder
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    numbers: dict[str, str] = field(default_factory=dict)  # by system: Moodle's participant, Canvas's user
    names: list[str] = field(default_factory=list)  # full names, as a system or a person writes them
    github: str = ""  # user name on GitHub

    def is_called(self, name: str, system: str) -> bool:
        """Whether a name in a system's download may be this person's name."""
        return bool(key_of(name, system)) and key_of(name, system) in {key_of(own, system) for own in self.names}


@dataclass
class Entry:
    """The data of one student in a worksheet."""

    row: int
    number: str
    name: str
    ids: list[str]  # each may be the student's id in the course, or their e-mail address
    submitted: str  # the time of submission, as Moodle writes it
    status: str  # the state of the submission, as Moodle writes it


@dataclass
class Worksheet(Table):
    """A table that a learning management system exports and imports."""

    system: str  # "moodle" or "canvas"
    columns: dict[str, int] = field(
        default_factory=dict
    )  # places by English titles, if the titles are in another language

    def place(self, title: str) -> int | None:
        """Return the index of the column with an English title, or None."""
        return self.columns.get(title) if self.columns else super().place(title)

    @property
    def is_anonymous(self) -> bool:
        """Whether the worksheet has numbers only, because marking is blind."""
        return self.system == "moodle" and self.place("Full name") is None

    def entries(self) -> list[Entry]:
        """Return the students in the worksheet. Other rows, such as Canvas's "Points Possible", are skipped."""
        entries = []
        for index, row in enumerate(self.rows):
            if self.system == "moodle":
                number = re.search(r"\d+$", self.cell(row, "Identifier"))
                name = self.cell(row, "Full name")
                columns = ("ID number", "Username", "Email address")
            else:
                number = re.fullmatch(r"\d+", self.cell(row, "ID"))
                name = self.cell(row, "Student") or f"{self.cell(row, 'LastName')}, {self.cell(row, 'FirstName')}"
                columns = ("SIS User ID", "SIS Login ID")
            if number:
                ids = [value for value in (self.cell(row, column) for column in columns) if value]
                for value in ids:
                    if EATEN.fullmatch(value):
                        raise ValueError(f"{self.where(index)}: {eaten(value)}")
                submitted, status = self.cell(row, "Last modified (submission)"), self.cell(row, "Status")
                entries.append(Entry(index, number[0], name, ids, submitted, status))
        return entries


class Roster:
    """Everybody in the course. Students who cannot be told apart are never found."""

    def __init__(self, course: Course, worksheet: Worksheet | None = None) -> None:
        self.people = [_person(row) for row in course.roster()]
        entries = worksheet.entries() if worksheet else []
        if not self.people or (worksheet and worksheet.is_anonymous):  # then the worksheet is the roster
            self.people = [_person_of_entry(entry, worksheet.system) for entry in entries]
        _check_ids([person.id for person in self.people])
        fitting = {entry.row: self._fitting(entry, worksheet.system) for entry in entries}
        self.unlisted = {e.number: e.name for e in entries if not fitting[e.row]}  # names by number, of nobody's rows
        person_of_row = {row: people[0] for row, people in fitting.items() if len(people) == 1}
        times = Counter(person.id for person in person_of_row.values())
        self.of_row = {row: person for row, person in person_of_row.items() if times[person.id] == 1}
        self.submitted: dict[str, datetime] = {}  # time of submission by id, from Moodle's worksheet
        self.unclear: dict[str, str] = {}  # texts that are no clear time, by id
        self.extensions: dict[str, str] = {}  # what Moodle's worksheet says of an extension, by id
        self.anonymous = {
            MOODLE_ANONYMOUS
        }  # what Moodle writes instead of a name, in English and in the worksheet's words
        for entry in entries:
            person = self.of_row.get(entry.row)
            if person:
                person.numbers[worksheet.system] = entry.number
                person.names += [entry.name] if entry.name else []
                try:
                    if when := read_moodle_time(entry.submitted):
                        self.submitted[person.id] = course.settings.in_utc(when)
                except ValueError:
                    self.unclear[person.id] = entry.submitted
                if extension := extension_in(entry.status):
                    self.extensions[person.id] = extension
            if worksheet.system == "moodle":
                word = re.sub(r"\d+$", "", worksheet.cell(worksheet.rows[entry.row], "Identifier"))
                self.anonymous.add(key_of(word, "moodle"))

    def by_id(self, student: str) -> Person | None:
        """Return the person with an id."""
        return next((person for person in self.people if _same(person.id) == _same(student)), None)

    def find(self, system: str, number: str, name: str) -> tuple[Person | None, str]:
        """Return the person with this number and name, or nobody and the reason.

        Args:
            system: "moodle" or "canvas".
            number: The number of the participant or the user in the file's name.
            name: The name in the file's name, without the characters that the system removes.
        """
        if not number:
            return None, "its name contains the numbers of two participants, and the student wrote one of them"
        holders = [person for person in self.people if person.numbers.get(system) == number]
        if len(holders) > 1:
            return None, f"{_ids(holders)} have the same number {number}"
        if holders:
            # before a name, Moodle writes the group that the teacher looked at: "Group A-Ada Lovelace"
            ends = [name, *(name[dash.end() :] for dash in re.finditer("-", name))]
            fits = any(key_of(end, system) in self.anonymous or holders[0].is_called(end, system) for end in ends)
            if system == "moodle" and holders[0].names and not fits:
                return None, (
                    f"participant {number} is {holders[0].id}, who is not called {name!r}; "
                    "do the worksheet and moodle_id belong to this assignment?"
                )
            return holders[0], ""
        people = [person for person in self.people if person.is_called(name, system)]
        if len(people) > 1:
            return None, f"{_ids(people)} are both called {name!r}, and number {number} is unknown"
        if not self.people:
            return None, "nobody is known: there is no roster.csv in the course, and no --worksheet was given"
        if not people and number in self.unlisted:
            return (
                None,
                f"{self.unlisted[number] or f'number {number}'} is in the worksheet, not in roster.csv: add a line",
            )
        if not people:
            return None, f"nobody has the number {number}, and nobody is called {name!r}"
        if people[0].numbers.get(system, number) != number:
            return (
                None,
                f"{people[0].id} is called {name!r}, but has the number {people[0].numbers[system]}, not {number}",
            )
        return people[0], ""

    def _fitting(self, entry: Entry, system: str) -> list[Person]:
        """Return the people who fit a row: by id or e-mail address, else by a number that no name contradicts, else by name."""
        ids = {_same(value).casefold() for value in entry.ids}
        called = [p for p in self.people if p.is_called(entry.name, system)]
        matches = [
            [p for p in self.people if ids & {_same(p.id).casefold(), _same(p.email).casefold()} - {""}],
            [
                p
                for p in self.people
                if p.numbers.get(system) == entry.number and (not entry.name or not p.names or p in called)
            ],
            called,
        ]
        return next(filter(None, matches), [])


def read_worksheet(path: Path) -> Worksheet:
    """Read a table that Moodle or Canvas exported.

    Raises:
        ValueError: the table is neither of them, or cannot be read.
    """
    table = read_table(path)
    known = {
        title
        for title in ("Identifier", "Grade", "ID", "Section", "Student", "LastName")
        if table.place(title) is not None
    }
    if {"Identifier", "Grade"} <= known:
        return Worksheet(**vars(table), system="moodle")
    if {"ID", "Section"} <= known and {"Student", "LastName"} & known:
        return Worksheet(**vars(table), system="canvas")
    if columns := columns_of(table.header, table.rows):
        return Worksheet(**vars(table), system="moodle", columns=columns)
    raise ValueError(
        f"{path} has the columns {', '.join(table.header)[:300]}. Moodle's grading worksheet has the participants' numbers in "
        "the first column, and grades next to their maximum; Canvas's gradebook export has Student, ID and Section"
    )


def key_of(name: str, system: str) -> str:
    """Return the form of a name that survives in a system's file names, so that two names can be compared exactly."""
    name = unicodedata.normalize("NFC", name)
    if system == "canvas":
        name = re.sub(r"\W", "", name)
    else:
        name = re.sub(r"""[\x00-\x1f\x7f&<>"`|':\\/]|\.\.+""", "", name).replace("_", " ")
    return unicodedata.normalize("NFC", " ".join(name.split()).casefold())


def _check_ids(ids: list[str]) -> None:
    reasons = [reason for student in ids if (reason := why_unfit(student))]
    reasons += [f"{student!r} occurs {times} times" for student, times in Counter(ids).items() if times > 1]
    if reasons:
        raise ValueError(
            f"ids of students: {'; '.join(reasons[:10])}. Correct roster.csv, or without one the worksheet"
        )


def _person(row: dict[str, str]) -> Person:
    first, last = row.get("first_name", ""), row.get("last_name", "")
    names = [f"{first} {last}", f"{last} {first}", f"{last}, {first}"] if first and last else [first or last]
    numbers = {system: row[f"{system}_id"] for system in ("moodle", "canvas") if row.get(f"{system}_id")}
    known = [name for name in names if name]
    return Person(row["id"], first, last, row.get("email", ""), numbers, known, row.get("github", ""))


def _person_of_entry(entry: Entry, system: str) -> Person:
    usable = [value for value in entry.ids if not why_unfit(value)]
    email = next((value for value in entry.ids if "@" in value), "")
    last, _, first = entry.name.partition(", ") if system == "canvas" else (entry.name, "", "")
    names = [entry.name] if entry.name else []
    own = usable[0] if usable else f"{system}-{entry.number}"
    return Person(own, first, last, email, {system: entry.number}, names)


def _same(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _ids(people: list[Person]) -> str:
    return ", ".join(sorted(person.id for person in people))

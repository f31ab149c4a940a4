"""Find the owner of a file: by the top of its path, the roster and the systems' names for people."""

import os
import re
import unicodedata

from autograder.course.course import Assignment, Course
from autograder.course.gradebook import why_unfit
from autograder.course.roster import Person, Roster
from autograder.lms.names import Sender
from autograder.publish.generated import sources

Owner = tuple[Person | None, str, bool]  # owner or None; why None; whether an id or a known number decides


class Owners:
    """Everybody who can own a file. No owner is guessed."""

    def __init__(self, course: Course, assignment: Assignment, roster: Roster) -> None:
        self.roster = roster
        self.slugs = {_slug(name) for name in (assignment.name, assignment.notebook)}
        self.of_course = {"exercises", "book", *(source.parent.name for source in sources())}
        self.unlisted: dict[str, Person] = {}  # students known only by their folder, without a roster
        submitted = course.root / "submitted"
        if not roster.people and submitted.is_dir():
            self.unlisted = {_folded(name): Person(name) for name in sorted(os.listdir(submitted))}
        self.copies: set[str] = set()  # folders of the present download that are copies of the course

    def _of_clone(self, folder: str) -> list[Person]:
        """Return everybody whose clone the folder may be: GitHub Classroom calls a clone SLUG-USER.

        USER is the column `github` of the roster, or else the id. Both parts may contain dashes. A slug that can end with
        the name of the assignment does so. A copy of the course may have any slug.
        """
        cuts = [match.end() for match in re.finditer(r"[-_]", folder)]
        named = [cut for cut in cuts if any(f"-{_slug(folder[:cut])}".endswith(f"-{slug}") for slug in self.slugs)]
        users = {folder[cut:].casefold() for cut in named or (cuts if folder in self.copies else [])}
        return [person for person in self.roster.people if (person.github or person.id).casefold() in users]

    def whose(self, sender: Sender) -> Owner:
        """Return the owner of a file, or nobody and the reason."""
        if sender.folder == "/":
            return None, "the first folder of its path does not name its owner", False
        if sender.folder:
            return self._whose_folder(sender)
        person, why = None, "its name was not made by Moodle or Canvas, and does not begin with an id of roster.csv"
        if sender.system:
            person, why = self.roster.find(sender.system, sender.number, sender.name)
        is_known = person is not None and sender.system in person.numbers
        if sender.system == "moodle":
            return person, why, is_known
        stem = re.sub(r"\.\w+$", "", sender.back or sender.file)
        fits = [p for p in self.roster.people if stem in (p.id, f"{p.id}.ipynb") or stem.startswith(f"{p.id}_")]
        is_known = is_known or bool(fits)
        fits += [person] if person and person not in fits else []
        if len(fits) > 1:
            return None, f"its name fits {_ids(fits)}", False
        return (fits[0], "", is_known) if fits else (None, why, False)

    def _whose_folder(self, sender: Sender) -> Owner:
        folder = sender.folder
        if person := self.roster.by_id(folder):
            return person, "", sender.top == person.id
        if folder in self.of_course:
            return (
                None,
                f"{folder!r} is a folder of the course: the first folder of a path has to be a student's",
                False,
            )
        if not self.roster.people:
            why = why_unfit(folder)
            if not why and (folder.endswith(".") or any(unicodedata.category(char) == "Cf" for char in folder)):
                why = f"{folder!r} ends with a dot, or has characters that cannot be seen"
            person = None if why else self.unlisted.setdefault(_folded(folder), Person(folder))
            return person, why, person is not None and person.id == folder
        same = [person for person in self.roster.people if _folded(person.id) == _folded(folder)]
        fits = same or self._of_clone(sender.top)
        if len(fits) > 1:
            return None, f"the folder {folder!r} fits {_ids(fits)}", False
        if fits:
            return fits[0], "", not same and bool(fits[0].github)
        return None, f"{folder!r} is not an id in roster.csv, and the first folder of a path must be an id", False


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _slug(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name).strip("-").casefold()


def _ids(people: list[Person]) -> str:
    return ", ".join(sorted({person.id for person in people}))

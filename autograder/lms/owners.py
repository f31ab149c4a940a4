"""Find the owner of a file: by the top of its path, the roster and the systems' names for people."""

import os
import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile

from autograder.course.course import Assignment, Course
from autograder.course.roster import Person, Roster, check_id
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
        self.clones: dict[str, list[Person]] = {}

    def learn(self, senders: Iterable[Sender]) -> None:
        """Find the folders that may be GitHub Classroom's clones, which are called SLUG-USER.

        A person's user name is the column `github` of the roster, or else the id. A folder's name has three parts: a
        beginning that is the same in all folders, a dash, and the user name. If there is only one folder, its beginning
        has to end with the name of the assignment.
        """
        tops = {sender.top for sender in senders if sender.folder not in ("", "/")}
        folders = {top: top.casefold() for top in tops if self.roster.by_id(top) is None and top not in self.of_course}
        shared = "".join(letters[0] for letters in takewhile(_are_same, zip(*folders.values(), strict=False)))
        cuts = [match.end() for match in re.finditer(r"[-_]", shared)]
        if len(folders) == 1:
            cuts = [cut for cut in cuts if any(f"-{_slug(shared[:cut])}".endswith(f"-{slug}") for slug in self.slugs)]
        users: dict[str, list[Person]] = {}
        for person in self.roster.people:
            users.setdefault((person.github or person.id).casefold(), []).append(person)
        self.clones = {top: [p for cut in cuts for p in users.get(text[cut:], [])] for top, text in folders.items()}

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
            return self._unlisted(folder)
        same = [person for person in self.roster.people if _folded(person.id) == _folded(folder)]
        fits = same or self.clones.get(sender.top, [])
        if len(fits) > 1:
            return None, f"the folder {folder!r} fits {_ids(fits)}", False
        if fits:
            return fits[0], "", not same and bool(fits[0].github)
        return None, f"{folder!r} is not an id in roster.csv, and the first folder of a path must be an id", False

    def _unlisted(self, folder: str) -> Owner:
        """Return the person who is known only by a folder."""
        why = check_id(folder)
        if not why and (folder.endswith(".") or any(unicodedata.category(char) == "Cf" for char in folder)):
            why = f"{folder!r} ends with a dot, or has characters that cannot be seen"
        if why:
            return None, why, False
        person = self.unlisted.setdefault(_folded(folder), Person(folder))
        return person, "", person.id == folder


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _are_same(letters: tuple[str, ...]) -> bool:
    return len(set(letters)) == 1


def _slug(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name).strip("-").casefold()


def _ids(people: list[Person]) -> str:
    return ", ".join(sorted({person.id for person in people}))

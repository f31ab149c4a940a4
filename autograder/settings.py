"""The settings of a course: course.toml in its folder."""

import difflib
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time
from pathlib import Path
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, available_timezones

FILE = "course.toml"
TITLE = "Attention from First Principles"
# The addresses that a browser shows and that `git clone` takes, without ".git" and slashes at the end.
ON_WEB = re.compile(r"(https?)://(?:[^/@\s]+@)?([\w.-]+(?::\d+)?)/([\w.~+/-]+?)(?:\.git)?/*")
BY_SSH = re.compile(r"(?:ssh://(?:[^/@\s]+@)?([\w.-]+)(?::\d+)?/|[\w.-]+@([\w.-]+):/?)([\w.~+/-]+?)(?:\.git)?/*")
GITHUB = ("github.com", "www.github.com", "ssh.github.com")
YEARS = range(1990, 2101)  # allowed for a due date; nbgrader cannot show years near 1 or 9999 in another time zone


@dataclass(frozen=True)
class Settings:
    """A course's settings; each has a default, so that a course needs no file."""

    name: str = TITLE  # the course's title
    repository: str = ""  # address of the student version: https://github.com/YOU/COURSE, as `web_address` returns it
    branch: str = "main"
    book: str = ""  # address of the students' book; by default the repository's GitHub Pages
    timezone: str = ""  # zone of times that have none, such as Europe/Berlin; by default this machine's
    questions: str = ""  # where regrade requests go: a form, https://…, or an e-mail address, mailto:…
    assignments: tuple[str, ...] = ()  # the course's assignments; all by default
    due: dict[str, datetime] = field(default_factory=dict)  # due dates by assignment, with a time zone

    @property
    def address_of_book(self) -> str:
        """Return the address of the students' book with a slash at its end; "" if it is unknown."""
        book = self.book
        if not book and self.is_on_github:
            owner, name = self.repository.split("/")[-2:]
            host = f"{owner.lower()}.github.io"
            book = f"https://{host}/{'' if name.lower() == host else name}"
        return book and book.rstrip("/") + "/"

    @property
    def is_on_github(self) -> bool:
        """Whether the student version is on GitHub; Colab opens notebooks from no other host."""
        return self.repository.startswith("https://github.com/")

    def in_utc(self, when: datetime) -> datetime:
        """Return a moment in UTC. A time without a zone is in the course's zone."""
        return _localised(when, self.timezone).astimezone(UTC)

    def zone_of_times(self, assignment: str) -> str:
        """Say in which zone a time without a zone is read.

        Raises:
            ValueError: no zone is set, and an assignment's due date has another offset from UTC than this machine.
        """
        if self.timezone:
            return f"{self.timezone}, as {FILE} says"
        due = self.due.get(assignment)
        here = (due or datetime.now()).astimezone()
        zone = f"this machine's zone, {here.tzname()} ({here.isoformat()[-6:]})"
        if due and due.utcoffset() != here.utcoffset():
            raise ValueError(
                f"times without a zone would be read in {zone}, and {assignment} is due {due}. "
                f'Name the zone of these times in {FILE}, above [due]: timezone = "Europe/Berlin"'
            )
        return f'{zone}; timezone = "Europe/Berlin" in {FILE} names another'

    def link_to_ask(self, student: str, assignment: str, part: str) -> str:
        """Return the link for a regrade request about a part; "" if the course has none."""
        if not self.questions:
            return ""
        about = f"{assignment}, {part}"
        if self.questions.startswith("mailto:"):
            words = {"subject": f"{about}: please look again", "body": f"Student: {student}\nPart: {about}\nWhy: "}
        else:
            words = {"student": student, "assignment": assignment, "part": part}
        return f"{self.questions}{'&' if '?' in self.questions else '?'}{urlencode(words).replace('+', '%20')}"

    def check_names(self, folder: Path, known: Collection[str]) -> None:
        """Check that each assignment in course.toml exists.

        Args:
            folder: The course's folder.
            known: The names of all assignments.

        Raises:
            ValueError: one does not exist. The message has the nearest name and all names.
        """
        for place, names in (("assignments", self.assignments), ("[due]", self.due)):
            if wrong := next((name for name in names if name not in known), None):
                raise ValueError(
                    f"{folder / FILE}: {place} names {wrong!r}, and there is no such assignment{_nearest(wrong, known)}. "
                    f"The assignments are: {', '.join(known)}"
                )


def web_address(repository: str) -> str:
    """Return the address of a repository's page, https://HOST/OWNER/NAME.

    Args:
        repository: This address, or one for `git clone`: https://HOST/OWNER/NAME.git, git@HOST:OWNER/NAME.git or
            ssh://git@HOST/OWNER/NAME.git. A password in it is left out, because the address is published.

    Raises:
        ValueError: it is neither.
    """
    if found := ON_WEB.fullmatch(repository):
        scheme, host, path = found.groups()
    elif found := BY_SSH.fullmatch(repository):
        scheme, host, path = "https", found[1] or found[2], found[3]
    if found and host.lower() in GITHUB:
        scheme, host = "https", GITHUB[0]
    if not found or (host == GITHUB[0] and path.count("/") != 1):
        raise ValueError(f"{repository!r}; it must be the address of a repository, https://github.com/YOU/COURSE")
    return f"{scheme}://{host.lower()}/{path}"


def read_settings(folder: Path) -> Settings:
    """Read the settings of the course in a folder.

    Raises:
        ValueError: course.toml has an entry that is unknown or invalid. The message says which, and what is allowed.
    """
    path = folder / FILE
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows writes a byte order mark
    except FileNotFoundError:
        return Settings()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f'{path}, line {line}: the file is not UTF-8. Save it in the editor with the encoding "UTF-8"'
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except OSError as error:  # the path is a folder, or the file belongs to another user
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    known = [each.name for each in fields(Settings)]
    if unknown := [name for name in entries if name not in known]:
        near = _nearest(unknown[0], known) if len(unknown) == 1 else ""
        raise ValueError(f"{path} says {', '.join(unknown)}; it may say {', '.join(known)}{near}")
    for name, value in entries.items():
        kind, words = _KINDS.get(name, (str, 'a text in quotes, "…"'))
        if not isinstance(value, kind):
            raise ValueError(f"{path}: {name} is {value!r}; it must be {words}")
    wrong = [name for name in entries.get("assignments", []) if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"{path}: assignments has {wrong[0]!r}; it must hold texts in quotes")
    if entries.get("repository"):
        try:
            entries["repository"] = web_address(entries["repository"].strip())
        except ValueError as error:
            raise ValueError(f"{path}: repository is {error}") from None
    if entries.get("book") and not re.fullmatch(r"https?://[^\s\"<>]+", entries["book"]):
        raise ValueError(f"{path}: book is {entries['book']!r}; it must be an address, https://…")
    if entries.get("questions") and not re.fullmatch(r"(https?://|mailto:)[^\s\"<>]+", entries["questions"]):
        raise ValueError(f"{path}: questions is {entries['questions']!r}; it must be https://… or mailto:…")
    if below := [name for name in entries.get("due", {}) if name in known]:
        raise ValueError(f"{path}: {', '.join(below)} is below [due], and counts as a due date; write it above [due]")
    zone = entries.get("timezone", "")
    if zone and zone not in available_timezones():
        near = _nearest(zone, available_timezones())
        raise ValueError(f'{path}: timezone is {zone!r}; it must be the name of a zone, such as "Europe/Berlin"{near}')
    due = {name: _moment(path, name, when, zone) for name, when in entries.get("due", {}).items()}
    return Settings(**entries | {"assignments": tuple(entries.get("assignments", ())), "due": due})


_KINDS = {
    "assignments": (list, 'a list, ["1_attention", "2_multihead"]'),
    "due": (dict, "a table, [due], with a line 1_attention = 2026-10-12 20:00:00 for each assignment"),
}


def _nearest(wrong: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(wrong, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _localised(when: datetime, zone: str) -> datetime:
    """Return a time with a time zone: its own, or the zone with this name, or this machine's."""
    if when.tzinfo:
        return when
    return when.replace(tzinfo=ZoneInfo(zone)) if zone else when.astimezone()


def _moment(path: Path, name: str, when: object, zone: str) -> datetime:
    """Return a due date with a time zone. The default time is the end of the day."""
    if isinstance(when, date) and when.year not in YEARS:  # a datetime is a date too
        raise ValueError(f"{path}: {name} is due in the year {when.year}; it must be in {YEARS[0]} to {YEARS[-1]}")
    if isinstance(when, datetime):
        return _localised(when, zone)
    if isinstance(when, date):
        return _localised(datetime.combine(when, time(23, 59, 59)), zone)
    raise ValueError(f"{path}: {name} is due {when!r}; it must be a date without quotes, 2026-10-12 20:00:00")

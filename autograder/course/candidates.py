"""Choose the file of a student that counts.

The content decides first: how many of the assignment's cells a file holds, and how many changed answers. A time that a
system wrote decides next. The names' alphabetical order never decides. If two files hold different answers, a person is
asked.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import PurePosixPath

import nbformat
from nbformat import NotebookNode

from autograder.course.archives import NOT_OPENED, Member, is_archive, unpacked
from autograder.files import Unreadable, is_notebook, kind_of, shown
from autograder.imports import ROOT
from autograder.notebooks import read_notebook
from autograder.publish.generated import exercise_of, sources
from autograder.recognition import definitions, how_much_of, is_answer, name_of, names_in, other_assignment

MAX_CANDIDATES = 50  # notebooks of one student that are read, at most
REFUSED = "refused.txt"  # file in a submission's folder: why `autograder collect` could take nothing
OLDER = "older attempt"  # folder in a submission's folder: files that a later attempt may have replaced by mistake
CLAIM = "other claim"  # folder in a submission's folder: files that another sender submitted under the student's name
COPY = re.compile(r"^copy of |( ?\(\d+\)|[-_ ]copy ?\d*|-\d+)+$", re.I)
ARCHIVES = (".zip", ".gz", ".tgz", ".tar", *NOT_OPENED)
KINDS = {".pth": ".pt"}  # file endings that mean the same
OF_NOTEBOOK = re.compile(r'\s*(?:[{\[]|<<<<<<<).*?"(?:cells|cell_type|metadata|nbformat|worksheets)"\s*:', re.S)
NAMED = 5  # files that a message lists, at most
NO_NOTEBOOK = "it holds no notebook"
DECIDED = "a person decided that another one counts"


@dataclass
class Candidate:
    """A file that may be the notebook of a student, or an archive that cannot be opened and may hold the notebook."""

    name: str
    read: Callable[[], bytes]  # raises Unreadable
    when: float = 0  # a time, or a number that grows with time
    older: bool = False  # whether a system says that a newer attempt is among the candidates
    claim: bool = False  # whether another sender submitted it under the student's name

    @cached_property
    def digest(self) -> str:
        """The digest of the content, or the reason why it cannot be read."""
        try:
            return hashlib.sha256(self.read()).hexdigest()
        except Unreadable as error:
            return f"unreadable: {error}"

    @property
    def is_readable(self) -> bool:
        """Whether the file can be read. A readable file need not be a notebook."""
        return not self.digest.startswith("unreadable")

    @property
    def identity(self) -> tuple[str, bool, bool]:
        """The properties of the file that a question depends on, without the name."""
        return self.digest, self.older, self.claim

    def read_or_say(self) -> bytes:
        """Return the content, or the reason why it cannot be read."""
        return self.read() if self.is_readable else self.digest.removeprefix("unreadable: ").encode()


@dataclass
class Found:
    """The files of a student, sorted by what they may be."""

    notebooks: list[Candidate] = field(default_factory=list)
    files: dict[str, list[Candidate]] = field(default_factory=dict)  # files next to the notebook, by the requested name
    others: list[tuple[str, str]] = field(default_factory=list)  # (name, reason) of each file that holds no notebook
    elsewhere: list[str] = field(default_factory=list)  # files in the folder of another assignment


@dataclass
class Choice:
    """The file that counts among several, and why."""

    taken: Candidate
    left: dict[str, str] = field(default_factory=dict)  # why each of the other files does not count, by name
    question: str = ""  # question for a person, if the files do not decide
    contenders: list[Candidate] = field(default_factory=list)  # the taken file, and others that the question is about
    digest: str = ""  # digest of all candidates, if a person has to answer the question, or has answered it


@dataclass(frozen=True)
class Wanted:
    """What an assignment asks for."""

    assignment: str
    stem: str  # name of the notebook's file, without its ending
    files: tuple[str, ...]  # names of the requested files next to the notebook
    release: NotebookNode

    def file_for(self, path: str) -> str:
        """Return which requested file this may be, by its ending; an empty string for none."""
        return next((name for name in self.files if _kind(name) == _kind(path)), "")

    def fit(self, path: str) -> int:
        """Return how similar a file's name is to the requested name, from 0 to 3."""
        name = PurePosixPath(path).name
        wanted = PurePosixPath(self.file_for(path) or f"{self.stem}.ipynb")
        stem = COPY.sub("", name.partition(".")[0]).casefold()
        return (
            3 if name == wanted.name else 2 if stem == wanted.stem.casefold() else int(wanted.stem.casefold() in stem)
        )

    def is_elsewhere(self, path: str) -> bool:
        """Whether a path leads into the folder of another assignment, or to a chapter of a copy of the course."""
        folders = path.split("/")[:-1]
        for above, name in pairwise(["", *folders]):
            if name != self.assignment and (above == "exercises" or name in _assignments()):
                return True
        return folders[-1:] == ["book"]

    def sort_out(self, members: Iterable[Member], *, is_explicit: bool = True) -> Found:
        """Find what can count among the files of one student.

        Args:
            members: The files.
            is_explicit: Whether the files were submitted for this assignment. If not, files in the folder of another
                assignment count only if their notebook holds cells of this one and no other notebook was found.
        """
        found = Found()
        away: list[Member] = []
        for member in members:
            if self.is_elsewhere(member.path):
                away.append(member)
            else:
                self._sort(member, found)
        brought: set[str] = set()
        if not found.notebooks:
            brought = {member.path for member in away} if is_explicit else self._in_a_wrong_folder(away)
        for member in away:
            if member.path in brought:
                self._sort(member, found)
            else:
                found.elsewhere.append(member.path)
        if len(found.notebooks) > MAX_CANDIDATES:
            found.notebooks.sort(key=lambda each: (-self.fit(each.name), each.name.count("/")))
            why = f"only {MAX_CANDIDATES} notebooks of a student are read"
            found.others += [(each.name, why) for each in found.notebooks[MAX_CANDIDATES:]]
            del found.notebooks[MAX_CANDIDATES:]
        return found

    def _in_a_wrong_folder(self, members: list[Member]) -> set[str]:
        """Return the paths of notebooks that hold cells of this assignment, and of the requested files next to them."""
        notebooks = [member for member in members if is_notebook(member.path)]
        notebooks.sort(key=lambda member: -self.fit(member.path))
        held = [_Held(Candidate(member.path, member.read), self) for member in notebooks[:MAX_CANDIDATES]]
        own = {each.of.name for each in held if each.cells and not each.elsewhere}
        folders = {PurePosixPath(name).parent for name in own}
        files = {member.path for member in members if self.file_for(member.path)}
        return own | {path for path in files if PurePosixPath(path).parent in folders}

    def _sort(self, member: Member, found: Found, packed: bool = False) -> None:
        """Add a file to its group in `found`, and each file of an archive to its own group."""
        path = member.path
        when = member.when.timestamp() if member.when else 0
        candidate = Candidate(path, member.read, when, path.startswith(f"{OLDER}/"), path.startswith(f"{CLAIM}/"))
        if name := self.file_for(path):
            found.files.setdefault(name, []).append(candidate)
            return
        if is_notebook(path):
            found.notebooks.append(candidate)
            return
        try:
            start = member.start()
            if begins_notebook(start):
                found.notebooks.append(candidate)
            elif packed or not is_archive(start):
                if path.lower().endswith(NOT_OPENED) or (packed and is_archive(start)):
                    raise Unreadable("an archive of this kind is not opened")
                found.others.append((path, NO_NOTEBOOK))
            else:
                before = len(found.notebooks), len(found.files)
                for inner in unpacked(path, member.read()):
                    parts = inner.path.split("/")
                    if not (
                        inner.path.endswith("/") or any(part.startswith(("._", ".ipynb", "__MACOSX")) for part in parts)
                    ):
                        self._sort(inner, found, packed=True)
                if before == (len(found.notebooks), len(found.files)):
                    found.others = [each for each in found.others if not each[0].startswith(f"{path}/")]
                    found.others.append((path, NO_NOTEBOOK))
        except Unreadable as error:
            why = str(error)
            if path.lower().endswith(ARCHIVES):
                found.notebooks.append(Candidate(path, raising(why), candidate.when))
            else:
                found.others.append((path, why))

    def choose(self, candidates: list[Candidate], decided: dict[str, str] | None = None) -> Choice:
        """Say which notebook counts.

        Args:
            candidates: The notebooks of a student, at least one.
            decided: A person's decision: the name of the file that counts, and the digest of the candidates at that time.
        """
        if len(candidates) == 1:
            return Choice(candidates[0])
        digest = _digest_of(candidates)
        for each in candidates:
            if (decided or {}).get(each.name) == digest:
                return Choice(
                    each, {other.name: DECIDED for other in candidates if other is not each}, digest=f"decided {digest}"
                )
        held = [_Held(each, self) for each in candidates]
        own = [each for each in held if not each.of.claim] or held
        readable = [each for each in own if not each.why]
        newest = [each for each in readable if not each.of.older]
        solved = [each for each in newest if each.is_solved] or [each for each in readable if each.is_solved]
        rest = sorted(solved, key=_Held.by_answers, reverse=True)
        best: list[_Held] = []
        for each in rest:
            if not any(each.answers <= other.answers for other in best):
                best.append(each)
        taken = best[0] if best else max(readable or own, key=_Held.by_cells)
        asked, question = self._question(taken, best, newest, held)
        choice = Choice(taken.of, {each.of.name: _why_left(each, taken) for each in held if each is not taken})
        if question:
            choice.question = f"{question}: which one counts? {said(taken.of.name)} was taken."
            choice.contenders, choice.digest = asked, digest
        return choice

    def _question(
        self, taken: "_Held", best: list["_Held"], newest: list["_Held"], held: list["_Held"]
    ) -> tuple[list[Candidate], str]:
        """Return the candidates that a person has to choose from, and the question; both are empty if none is needed."""
        claims = [each for each in held if each.of.claim and each.of.digest != taken.of.digest]
        unread = [each for each in held if each.why and not each.of.claim and each.of.older == taken.of.older]
        if claims and not taken.of.claim:
            about, words = [taken, *claims], "submissions say that they are this student's"
        elif len(best) > 1:
            about, words = best, f"notebooks, {'both' if len(best) == 2 else 'all'} with changed answers"
        elif best and taken.of.older and newest:
            last = max(newest, key=_Held.by_cells)
            earlier = said(taken.of.name)
            words = f"the last attempt, {said(last.of.name)}, holds no changed answer; an earlier one, {earlier}, does"
            return [taken.of, last.of], words
        elif not best and unread and not taken.why:
            names = _listed([f"{said(each.of.name)} ({each.why})" for each in unread])
            words = (
                f"{said(taken.of.name)} holds no changed answer, and what was submitted with it cannot be read: {names}"
            )
            return [taken.of, *(each.of for each in unread)], words
        else:
            return [], ""
        count = {2: "two", 3: "three"}.get(len(about), str(len(about)))
        return [each.of for each in about], f"{count} {words}: {_listed([said(each.of.name) for each in about])}"

    def choose_file(self, candidates: list[Candidate], decided: dict[str, str] | None = None) -> Choice:
        """Say which of several files next to the notebook counts. Their content shows only whether they differ."""
        taken = max(candidates, key=lambda each: (not each.older, self.fit(each.name), each.when, each.digest))
        choice = Choice(taken, {each.name: f"{said(taken.name)} counts" for each in candidates if each is not taken})
        rivals = [each for each in candidates if self.fit(each.name) > 1 and not each.older]
        if len({each.digest for each in rivals}) < 2:
            return choice
        digest = _digest_of(candidates)
        for each in candidates:
            if (decided or {}).get(each.name) == digest:
                return Choice(
                    each, {other.name: DECIDED for other in candidates if other is not each}, digest=f"decided {digest}"
                )
        names = _listed(sorted(said(each.name) for each in rivals))
        question = f"{len(rivals)} files of weights: {names}: which one counts? {said(taken.name)} was taken."
        return Choice(taken, choice.left, question, rivals, digest)

    def describe(self, found: Found | None) -> list[str]:
        """Describe each notebook if there are several, and list the files that may be the same requested file."""
        if found is None:
            return []
        lines = [_Held(each, self).said() for each in found.notebooks] if len(found.notebooks) > 1 else []
        for name, group in found.files.items():
            lines += [f"{said(each.name)}: it may be {name}" for each in group if len(group) > 1]
        return lines

    def decide(self, found: Found | None, name: str) -> dict[str, str]:
        """Return the decision for `choose` that a file counts: its name, and the digest of all candidates.

        Raises:
            ValueError: there is no such file, or it is the only one.
        """
        groups = [found.notebooks, *found.files.values()] if found else []
        for group in groups:
            for each in group:
                if name in (each.name, said(each.name)) and len(group) > 1:
                    return {each.name: _digest_of(group)}
        names = [said(each.name) for group in groups if len(group) > 1 for each in group]
        there = f"there are {_listed(names)}" if names else "there are no files to choose from"
        raise ValueError(f"{name!r} is not one of several files; {there}")


class _Held:
    """The content of a candidate."""

    def __init__(self, of: Candidate, wanted: Wanted) -> None:
        self.of, self.fit = of, wanted.fit(of.name)
        self.cells = self.changed = self.work = 0
        self.answers: frozenset[str] = frozenset()  # the texts of the cells that answer something
        self.elsewhere: str | None = None  # the other assignment to which the notebook belongs
        self.why = ""  # why it cannot be read
        try:
            data = of.read()
        except Unreadable as error:
            self.why = str(error)
            return
        try:
            cells = read_notebook(data).cells
        except Unreadable as error:
            self.why = str(error)
            return
        amount = how_much_of(data, wanted.release)
        self.cells, self.changed = amount.cells, amount.changed
        blanks = {cell.source.strip() for cell in wanted.release.cells}
        asked = {name_of(cell) for cell in wanted.release.cells if is_answer(cell)}
        own = [cell for cell in cells if cell.source.strip() and cell.source.strip() not in blanks]
        self.work = len(own)
        self.answers = frozenset(
            cell.source.strip()
            for cell in own
            if asked & {*cell.names, *(definitions(cell.source) if cell.kind == "code" else ())}
        )
        others = {name: names for name, names in _assignments().items() if name != wanted.assignment}
        self.elsewhere = other_assignment(cells, names_in(wanted.release), others)

    @property
    def is_solved(self) -> bool:
        return self.changed > 0 and not self.elsewhere

    def said(self) -> str:
        """Describe in words what the candidate holds."""
        if self.why:
            return f"{said(self.of.name)}: it cannot be read: {self.why}"
        of_other = f"; it is the notebook of {self.elsewhere}" if self.elsewhere else ""
        return f"{said(self.of.name)}: {self.cells} cells of the assignment, {self.changed} answers changed{of_other}"

    def by_answers(self) -> tuple:
        """Return the sort key among candidates with changed answers."""
        return self.changed, len(self.answers), self.cells, self.of.when, self.fit, self.work, self.of.digest

    def by_cells(self) -> tuple:
        """Return the sort key among candidates without changed answers."""
        return not self.of.older, not self.elsewhere, self.cells, self.work, self.fit, self.of.when, self.of.digest


def _why_left(each: _Held, taken: _Held) -> str:
    """Say why a candidate does not count."""
    counts = f"{said(taken.of.name)} counts"
    if each.why:
        return f"it cannot be read: {each.why}"
    if each.of.claim:
        return f"another sender submitted it; {counts}"
    if each.of.digest == taken.of.digest:
        return f"it is the same file as {said(taken.of.name)}"
    if each.elsewhere and not taken.elsewhere:
        return f"it is the notebook of {each.elsewhere}; {counts}"
    if each.of.older:
        return f"{said(taken.of.name)} is a later attempt"
    if not each.changed and taken.changed:
        return f"it holds no changed answer; {counts}"
    if each.answers <= taken.answers and each.changed:
        return f"all its answers are in {said(taken.of.name)} too"
    return counts


def nothing_found(files: Iterable[tuple[str, str]]) -> str:
    """Say that a student submitted no notebook, and list the submitted files, each with what is wrong with it."""
    words = [(PurePosixPath(name).name, "" if why == NO_NOTEBOOK else f" ({why})") for name, why in files]
    return f"submitted: {_listed(sorted(said(name) + why for name, why in words))}; no notebook was found"


@cache
def _assignments() -> dict[str, dict[str, bool]]:
    """Return all assignments, each with the names of its cells and whether they are answers."""
    found = {}
    for source in sources():
        path = ROOT / exercise_of(source)
        found[source.parent.name] = names_in(nbformat.read(path, as_version=4)) if path.exists() else {}
    return found


def _kind(path: str) -> str:
    return KINDS.get(kind_of(path), kind_of(path))


def begins_notebook(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a notebook. A damaged notebook counts too."""
    wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    return bool(OF_NOTEBOOK.match(start.decode("utf-16" if wide else "utf-8-sig", errors="replace")))


def raising(why: str) -> Callable[[], bytes]:
    """Return a reader for a file that cannot be read: it raises Unreadable."""

    def read() -> bytes:
        raise Unreadable(why)

    return read


def said(name: str) -> str:
    """Return a student's file name in a form that fits into a sentence."""
    name = shown(name)
    return name if len(name) <= 100 else f"{name[:60]}…{name[-30:]}"


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    names = names[:NAMED] + ([f"{more} more"] if more > 0 else [])
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _digest_of(candidates: list[Candidate]) -> str:
    """Return the digest of the names and contents of some files."""
    lines = sorted(f"{each.name}\0{each.digest}" for each in candidates)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()

"""Choose the file of a student that counts.

The content decides first: how many of the assignment's cells a file holds, and how many changed answers. A time that a
system wrote decides next. The names' alphabetical order never decides. If two files hold different answers, a person is
asked.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import PurePosixPath

import nbformat
from nbformat import NotebookNode

from autograder.course.archives import NOT_OPENED, START, Member, is_archive, unpack
from autograder.course.links import link_instead
from autograder.files import Unreadable, is_notebook, kind_of, printable
from autograder.imports import ROOT
from autograder.notebooks import read_notebook
from autograder.publish.generated import exercise_of, sources
from autograder.recognition import chapter_of, code_in, definitions, is_answer, name_of, names_in, other_assignment

MAX_CANDIDATES = 50  # notebooks of one student that are read, at most
REFUSED = "refused.txt"  # file in a submission's folder: why `autograder collect` could take nothing
OLDER = "older attempt"  # folder in a submission's folder: files that a later attempt may have replaced by mistake
CLAIM = "other claim"  # folder in a submission's folder: files that another sender submitted under the student's name
MAX_NAME = 255  # characters of a file's name that are read; file systems allow no more
COPY = re.compile(r"^copy of |( ?\(\d+\)|[-_ ]copy ?\d*|-\d+)+$", re.I)
ARCHIVES = (".zip", ".gz", ".tgz", ".tar", *NOT_OPENED)
KINDS = {".pth": ".pt"}  # file endings that mean the same
OF_NOTEBOOK = re.compile(r'\s*(?:[{\[]|<<<<<<<).*?"(?:cells|cell_type|metadata|nbformat|worksheets)"\s*:', re.S)
NAMED = 5  # files that a message lists, at most
NO_NOTEBOOK = "it holds no notebook"
DECIDED = "a person decided that another one counts"
# The names of the files that count, as a person decided: each with the digest of the candidates at that time.
Decided = dict[str, str]


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
class SortedFiles:
    """The files of a student, sorted by what they may be."""

    notebooks: list[Candidate] = field(default_factory=list)
    files: dict[str, list[Candidate]] = field(default_factory=dict)  # files next to the notebook, by the requested name
    others: list[tuple[str, str]] = field(default_factory=list)  # (name, reason) of each file that holds no notebook
    elsewhere: list[str] = field(default_factory=list)  # files in the folder of another assignment


@dataclass
class Choice:
    """The file that counts among several, and why."""

    taken: Candidate
    reasons: dict[str, str] = field(default_factory=dict)  # why each of the other files does not count, by name
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
        stem = COPY.sub("", name[:MAX_NAME].partition(".")[0]).casefold()
        return (
            3 if name == wanted.name else 2 if stem == wanted.stem.casefold() else int(wanted.stem.casefold() in stem)
        )

    def belongs_elsewhere(self, path: str) -> bool:
        """Whether a path leads into the folder of another assignment, or to a chapter of a copy of the course."""
        folders = path.split("/")[:-1]
        for above, name in pairwise(["", *folders]):
            if name != self.assignment and (above == "exercises" or name in assignments()):
                return True
        return folders[-1:] == ["book"]

    def sort_out(self, members: Iterable[Member], *, is_explicit: bool = True, packed: bool = False) -> SortedFiles:
        """Find the files of one student that may count, and sort them.

        Args:
            members: The files.
            is_explicit: Whether the files were submitted for this assignment. If false, a file in the folder of another
                assignment counts only in one case: no other notebook was found, and this notebook holds cells of this assignment.
            packed: Whether they are the files of an archive, in which no other archive is opened.
        """
        result = SortedFiles()
        away: list[Member] = []
        for member in members:
            if self.belongs_elsewhere(member.path):
                away.append(member)
            else:
                self._sort(member, result, packed)
        brought: set[str] = set()
        if not result.notebooks:
            brought = {member.path for member in away} if is_explicit else self._in_a_wrong_folder(away)
        for member in away:
            if member.path in brought:
                self._sort(member, result, packed)
            else:
                result.elsewhere.append(member.path)
        if len(result.notebooks) > MAX_CANDIDATES:
            result.notebooks.sort(key=lambda each: (-self.fit(each.name), each.name.count("/")))
            why = f"only {MAX_CANDIDATES} notebooks of a student are read"
            result.others += [(each.name, why) for each in result.notebooks[MAX_CANDIDATES:]]
            del result.notebooks[MAX_CANDIDATES:]
        return result

    def _in_a_wrong_folder(self, members: list[Member]) -> set[str]:
        """Return the paths of notebooks that hold cells of this assignment, and of the requested files next to them."""
        notebooks = [member for member in members if is_notebook(member.path)]
        notebooks.sort(key=lambda member: -self.fit(member.path))
        contents = [_Content(Candidate(member.path, member.read), self) for member in notebooks[:MAX_CANDIDATES]]
        own = {each.file.name for each in contents if each.cells and not each.elsewhere}
        folders = {PurePosixPath(name).parent for name in own}
        files = {member.path for member in members if self.file_for(member.path)}
        return own | {path for path in files if PurePosixPath(path).parent in folders}

    def _sort(self, member: Member, result: SortedFiles, packed: bool) -> None:
        """Add a file to its group in `result`, and each file of an archive to its own group."""
        path = member.path
        when = member.when.timestamp() if member.when else 0
        candidate = Candidate(path, member.read, when, path.startswith(f"{OLDER}/"), path.startswith(f"{CLAIM}/"))
        if name := self.file_for(path):
            result.files.setdefault(name, []).append(candidate)
            return
        try:
            start = member.read(start=START)
            if link := link_instead(path, start):
                raise Unreadable(link)
            if is_notebook(path) or begins_notebook(start):
                result.notebooks.append(candidate)
            elif packed or not is_archive(start):
                if path.lower().endswith(NOT_OPENED) or (packed and is_archive(start)):
                    raise Unreadable("an archive of this kind is not opened")
                result.others.append((path, NO_NOTEBOOK))
            else:
                inner = [each for each in unpack(path, member.read()) if not _is_litter(each.path)]
                found = self.sort_out(inner, packed=True)
                result.notebooks += found.notebooks
                result.others += found.others if found.notebooks or found.files else [(path, NO_NOTEBOOK)]
                for name, group in found.files.items():
                    result.files.setdefault(name, []).extend(group)
        except Unreadable as error:
            why = str(error)
            if is_notebook(path) or path.lower().endswith(ARCHIVES):
                result.notebooks.append(replace(candidate, read=failing_reader(why)))
            else:
                result.others.append((path, why))

    def choose(self, candidates: list[Candidate], decided: Decided | None = None) -> Choice:
        """Say which notebook of a student, of at least one, counts."""
        if len(candidates) == 1:
            return Choice(candidates[0])
        digest = _digest_of(candidates)
        if by_person := _decided(candidates, decided, digest):
            return by_person
        contents = [_Content(each, self) for each in candidates]
        own = [each for each in contents if not each.file.claim] or contents
        readable = [each for each in own if not each.why]
        newest = [each for each in own if not each.file.older]
        solved = [each for each in newest if each.is_solved] or [each for each in readable if each.is_solved]
        rest = sorted(solved, key=_Content.by_answers, reverse=True)
        best: list[_Content] = []
        for each in rest:
            if not any(each.answers <= other.answers for other in best):
                best.append(each)
        taken = best[0] if best else max(readable or own, key=_Content.by_cells)
        asked, question = self._question(taken, best, newest, contents)
        choice = Choice(
            taken.file, {each.file.name: _reason_against(each, taken) for each in contents if each is not taken}
        )
        if question:
            choice.question = f"{question}: which one counts? {short_name(taken.file.name)} was taken."
            choice.contenders, choice.digest = asked, digest
        return choice

    def _question(
        self, taken: "_Content", best: list["_Content"], newest: list["_Content"], contents: list["_Content"]
    ) -> tuple[list[Candidate], str]:
        """Return the candidates that a person has to choose from, and the question; both are empty if none is needed."""
        claims = [each for each in contents if each.file.claim and each.file.digest != taken.file.digest]
        unread = [each for each in contents if each.why and not each.file.claim and each.file.older == taken.file.older]
        if claims and not taken.file.claim:
            about, words = [taken, *claims], "submissions say that they are this student's"
        elif len(best) > 1:
            about, words = best, f"notebooks, {'both' if len(best) == 2 else 'all'} with changed answers"
        elif best and taken.file.older and newest:
            last = max(newest, key=_Content.by_cells)
            later, earlier = short_name(last.file.name), short_name(taken.file.name)
            fault, other = ("cannot be read", "can") if last.why else ("holds no changed answer", "does")
            words = f"the last attempt, {later}, {fault}; an earlier one, {earlier}, {other}"
            return [taken.file, last.file], words
        elif not best and unread and not taken.why:
            names = _listed([f"{short_name(each.file.name)} ({each.why})" for each in unread])
            words = (
                f"{short_name(taken.file.name)} holds no changed answer, and what was submitted with it cannot be read: "
                f"{names}"
            )
            return [taken.file, *(each.file for each in unread)], words
        else:
            return [], ""
        count = {2: "two", 3: "three"}.get(len(about), str(len(about)))
        names = _listed([short_name(each.file.name) for each in about])
        return [each.file for each in about], f"{count} {words}: {names}"

    def choose_file(self, candidates: list[Candidate], decided: Decided | None = None) -> Choice:
        """Say which of several files next to the notebook counts. Their content shows only whether they differ."""
        taken = max(candidates, key=lambda each: (not each.older, self.fit(each.name), each.when, each.digest))
        choice = Choice(
            taken, {each.name: f"{short_name(taken.name)} counts" for each in candidates if each is not taken}
        )
        least = min(2, self.fit(taken.name))
        rivals = [each for each in candidates if self.fit(each.name) >= least and not each.older]
        if len({each.digest for each in rivals}) < 2:
            return choice
        digest = _digest_of(candidates)
        if by_person := _decided(candidates, decided, digest):
            return by_person
        names = _listed(sorted(short_name(each.name) for each in rivals))
        question = f"{len(rivals)} files of weights: {names}: which one counts? {short_name(taken.name)} was taken."
        return Choice(taken, choice.reasons, question, rivals, digest)

    def describe(self, sorted_files: SortedFiles) -> list[str]:
        """Describe the notebooks if there are several, and list the files if several may be the same requested file."""
        notebooks = sorted_files.notebooks
        lines = [_Content(each, self).description() for each in notebooks] if len(notebooks) > 1 else []
        for name, group in sorted_files.files.items():
            lines += [f"{short_name(each.name)}: it may be {name}" for each in group if len(group) > 1]
        return lines

    def decide(self, sorted_files: SortedFiles, name: str) -> dict[str, str]:
        """Return the decision for `choose` that a file counts: its name, and the digest of all candidates.

        Raises:
            ValueError: there is no such file, or it is the only one.
        """
        groups = [sorted_files.notebooks, *sorted_files.files.values()]
        for group in groups:
            for each in group:
                if name in (each.name, short_name(each.name)) and len(group) > 1:
                    return {each.name: _digest_of(group)}
        names = [short_name(each.name) for group in groups if len(group) > 1 for each in group]
        choices = f"there are {_listed(names)}" if names else "there are no files to choose from"
        raise ValueError(f"{name!r} is not one of several files; {choices}")


class _Content:
    """The content of a candidate."""

    def __init__(self, candidate: Candidate, wanted: Wanted) -> None:
        self.file, self.fit = candidate, wanted.fit(candidate.name)
        self.cells = self.changed = self.work = 0
        self.answers: frozenset[str] = frozenset()  # the texts of the cells that answer something
        self.elsewhere: str | None = None  # which other assignment's notebook, or which chapter, it is
        self.why = ""  # why it cannot be read
        try:
            cells = read_notebook(candidate.read()).cells
        except Unreadable as error:
            self.why = str(error)
            return
        released = wanted.release.cells
        texts, blanks = ({cell.source.strip() for cell in some} for some in (cells, released))
        own = [cell for cell in cells if cell.source.strip() and cell.source.strip() not in blanks]
        defined = [definitions(cell.source) if cell.kind == "code" else frozenset() for cell in own]
        asked = {name_of(cell) for cell in released if is_answer(cell)}
        self.work = len(own)
        self.answers = frozenset(cell.source.strip() for cell, new in zip(own, defined) if new or asked & {*cell.names})
        named = {(name, cell.kind) for cell in cells for name in cell.names}
        filled, written = {name for cell in own for name in cell.names}, {name for names in defined for name in names}
        for cell in released:
            name, is_text = name_of(cell), cell.cell_type == "markdown"
            answered = is_answer(cell) and (name in filled or (name in written and not is_text))
            known = "nbgrader" in cell.metadata and (name, cell.cell_type) in named  # text_02 is in other notebooks too
            prompt = is_answer(cell) and is_text  # all prompts have the same words
            self.changed += answered
            self.cells += answered or known or (cell.source.strip() in texts and not prompt)
        here = names_in(wanted.release)
        others = {name: names for name, names in assignments().items() if name != wanted.assignment}
        if chapter := chapter_of(cells, here, chapters()):
            self.elsewhere = f"the chapter {chapter}"
        elif other := other_assignment(cells, here, others):
            self.elsewhere = f"the notebook of {other}"

    @property
    def is_solved(self) -> bool:
        return self.changed > 0 and not self.elsewhere

    def description(self) -> str:
        """Describe in words what the candidate holds."""
        if self.why:
            return f"{short_name(self.file.name)}: it cannot be read: {self.why}"
        of_other = f"; it is {self.elsewhere}" if self.elsewhere else ""
        name = short_name(self.file.name)
        return f"{name}: {self.cells} cells of the assignment, {self.changed} answers changed{of_other}"

    def by_answers(self) -> tuple:
        """Return the sort key among candidates with changed answers."""
        return self.changed, len(self.answers), self.cells, self.file.when, self.fit, self.work, self.file.digest

    def by_cells(self) -> tuple:
        """Return the sort key among candidates without changed answers."""
        file = self.file
        return not file.older, not self.elsewhere, self.cells, self.work, self.fit, file.when, file.digest


def _reason_against(each: _Content, taken: _Content) -> str:
    """Say why a candidate does not count."""
    counts = f"{short_name(taken.file.name)} counts"
    if each.why:
        return f"it cannot be read: {each.why}"
    if each.file.claim:
        return f"another sender submitted it; {counts}"
    if each.file.digest == taken.file.digest:
        return f"it is the same file as {short_name(taken.file.name)}"
    if each.elsewhere and not taken.elsewhere:
        return f"it is {each.elsewhere}; {counts}"
    if each.file.older:
        return f"{short_name(taken.file.name)} is a later attempt"
    if not each.changed and taken.changed:
        return f"it holds no changed answer; {counts}"
    if each.answers <= taken.answers and each.changed:
        return f"all its answers are in {short_name(taken.file.name)} too"
    return counts


def nothing_found(files: Iterable[tuple[str, str]]) -> str:
    """Say that a student submitted no notebook, and list the submitted files, each with what is wrong with it."""
    words = [(PurePosixPath(name).name, "" if why == NO_NOTEBOOK else f" ({why})") for name, why in files]
    return f"submitted: {_listed(sorted(short_name(name) + why for name, why in words))}; no notebook was found"


@cache
def assignments() -> dict[str, dict[str, bool]]:
    """Return all assignments, each with the names of its cells and whether they are answers."""
    names_of = {}
    for source in sources():
        path = ROOT / exercise_of(source)
        names_of[source.parent.name] = names_in(nbformat.read(path, as_version=4)) if path.exists() else {}
    return names_of


@cache
def chapters() -> dict[str, frozenset[str]]:
    """Return the code cells of each chapter of the book, by the chapter's name."""
    return {path.stem: code_in(nbformat.read(path, as_version=4)) for path in sorted(ROOT.glob("book/*.ipynb"))}


def _is_litter(path: str) -> bool:
    """Whether an archive's entry is a folder, or a file that macOS or Jupyter made."""
    return path.endswith("/") or any(part.startswith(("._", ".ipynb", "__MACOSX")) for part in path.split("/"))


def _kind(path: str) -> str:
    return KINDS.get(kind_of(path), kind_of(path))


def begins_notebook(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a notebook. A damaged notebook counts too."""
    wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    return bool(OF_NOTEBOOK.match(start.decode("utf-16" if wide else "utf-8-sig", errors="replace")))


def failing_reader(why: str) -> Callable[[], bytes]:
    """Return a reader for a file that cannot be read: it raises Unreadable."""

    def read() -> bytes:
        raise Unreadable(why)

    return read


def short_name(name: str) -> str:
    """Return a student's file name in a form that fits into a sentence."""
    name = printable(name)
    return name if len(name) <= 100 else f"{name[:60]}…{name[-30:]}"


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    names = names[:NAMED] + ([f"{more} more"] if more > 0 else [])
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _decided(candidates: list[Candidate], decided: Decided | None, digest: str) -> Choice | None:
    """Return a person's choice, if it was made among the same candidates."""
    for each in candidates if decided else ():
        if decided.get(each.name) == digest:
            others = {other.name: DECIDED for other in candidates if other is not each}
            return Choice(each, others, digest=f"decided {digest}")
    return None


def _digest_of(candidates: list[Candidate]) -> str:
    """Return the digest of the names and contents of some files."""
    lines = sorted(f"{each.name}\0{each.digest}" for each in candidates)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()

"""A known mistake: the answer with a few words changed."""

import ast
import difflib
import itertools
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Way:
    """One way of making a mistake, in one or several exercises.

    Attributes:
        exercises: In whose answers it can be made.
        changes: Words of the answer, each with what is in their place.
    """

    exercises: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]


def way(exercises: str | tuple[str, ...], *words: str) -> Way:
    """Describe a way of making a mistake.

    Args:
        exercises: The exercise, or several, in whose answer the words are changed.
        words: Words of the answer and what is in their place; then, if more is changed, the next words and theirs.

    Raises:
        ValueError: words without what is in their place, or none at all.
    """
    if not words or len(words) % 2:
        raise ValueError(f"expected pairs of words, old and new; got {len(words)}: {words}")
    exercises = (exercises,) if isinstance(exercises, str) else exercises
    return Way(exercises, tuple(zip(words[::2], words[1::2], strict=True)))


def ways(exercises: str | tuple[str, ...], old: str, *new: str) -> list[Way]:
    """Describe ways that each replace the same words; arguments as `way`."""
    return [way(exercises, old, words) for words in new]


@dataclass(frozen=True)
class Mistake:
    """A mistake that the checks can name.

    Attributes:
        name: M and a number that is never given twice.
        title: What is wrong, in a few words. Empty where another assignment's mistakes say it.
        question: What a student who made it is asked; it does not give the answer away.
        ways: How it can be made.
    """

    name: str
    title: str
    question: str
    ways: tuple[Way, ...]

    def __init__(self, name: str, *words: str | Way) -> None:
        texts = [word for word in words if isinstance(word, str)]
        if len(texts) not in (0, 2):
            raise ValueError(f"{name}: expected a title and a question, or neither; got {texts}")
        title, question = texts or ("", "")
        fields = {"name": name, "title": title, "question": question}
        fields["ways"] = tuple(word for word in words if isinstance(word, Way))
        for field, value in fields.items():
            object.__setattr__(self, field, value)


def mistake_of(way: str) -> str:
    """Return the name of a mistake by that of one of its ways: "M10" of "M10/2"."""
    return way.split("/")[0]


def number_of(mistake: str) -> int:
    """Return the number by which mistakes are sorted: M6 is before M10, and what is none behind all."""
    digits = mistake.lstrip("M")
    return int(digits) if digits.isdecimal() else 10**6


def ways_of(exercise: str, mistakes: Iterable[Mistake]) -> dict[str, Way]:
    """Return how mistakes can be made in an exercise; a second way of making M10 is called "M10/2"."""
    found: dict[str, Way] = {}
    for mistake in mistakes:
        here = [way for way in mistake.ways if exercise in way.exercises]
        found |= {f"{mistake.name}/{i}" if i > 1 else mistake.name: way for i, way in enumerate(here, 1)}
    return found


def changed_text(path: Path, exercise: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file of answers with words of one answer changed.

    The words are looked for in the answer and, only if they are not there, in the functions and classes of the same file
    that it uses.

    Args:
        path: Of the file.
        exercise: A function or class of it.
        changes: Old and new words.

    Raises:
        ValueError: words do not occur exactly once, or two changes overlap.
    """
    file = _read(path)
    text = file.text
    spans = sorted((*file.place(exercise, old), new) for old, new in changes)
    for (_, end, _), (begin, _, new) in itertools.pairwise(spans):
        if begin < end:
            raise ValueError(f"{exercise}: two changes overlap, the second to {new!r}")
    for begin, end, new in reversed(spans):
        text = text[:begin] + new + text[end:]
    return text


def changed_answer(answers: ModuleType, exercise: str, changes: Iterable[tuple[str, str]]) -> Any:
    """Return an answer with words of its text changed; arguments and errors as `changed_text`, but for the module of answers.

    Raises:
        ValueError: also if what comes of the changes is no Python.
    """
    text = changed_text(Path(answers.__file__), exercise, changes)
    module = ModuleType(answers.__name__)
    module.__file__ = answers.__file__
    try:
        exec(_compiled(text, answers.__file__), vars(module))
    except SyntaxError as error:
        raise ValueError(f"{exercise}: with these words changed, the answer is no Python: {error}") from None
    return vars(module)[exercise]


def changed_lines(path: Path, exercise: str, way: Way) -> list[str]:
    """Return the lines of an answer that a way of making a mistake changes or adds, as they are with the mistake.

    Args:
        path: Of the file of answers.
        exercise: A function or class of it.
        way: What is changed; where it only takes lines away, nothing is returned.
    """
    lines = difflib.ndiff(_read(path).text.splitlines(), changed_text(path, exercise, way.changes).splitlines())
    return textwrap.dedent("\n".join(line[2:] for line in lines if line.startswith("+ "))).splitlines()


@cache
def _compiled(text: str, path: str) -> CodeType:
    return compile(text, path, "exec")


class _File:
    """The text of a file of answers, and where each function and class of it stands, without docstrings."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]
        self.parts: dict[str, list[tuple[int, int]]] = {}  # by name: from where to where
        self.uses: dict[str, set[str]] = {}  # by name: the names that are in it
        for node in (node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))):
            edges = [starts[min([node.lineno, *(part.lineno for part in node.decorator_list)]) - 1]]
            for inner in ast.walk(node):
                if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner):
                    edges += [starts[inner.body[0].lineno - 1], starts[inner.body[0].end_lineno]]
            edges = [*sorted(edges), starts[node.end_lineno]]
            self.parts[node.name] = list(zip(edges[::2], edges[1::2], strict=True))
            self.uses[node.name] = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}

    def place(self, name: str, words: str) -> tuple[int, int]:
        """Return from where to where words are in an answer, or in those that it uses."""
        for names in ([name], self._behind(name)):
            found = [
                begin + match.start()
                for part in names
                for begin, end in self.parts[part]
                for match in re.finditer(re.escape(words), self.text[begin:end])
            ]
            if len(found) > 1:
                raise ValueError(f"{name}: {words!r} stands {len(found)} times in the answer; take more of its words")
            if found:
                return found[0], found[0] + len(words)
        raise ValueError(f"{name}: {words!r} is not in the answer")

    def _behind(self, name: str) -> list[str]:
        found: list[str] = []
        waiting = [name]
        while waiting:
            new = sorted((self.uses[waiting.pop()] & self.parts.keys()) - {name, *found})
            found += new
            waiting += new
        return found


@cache
def _read(path: Path) -> _File:
    return _File(path.read_text(encoding="utf-8"))

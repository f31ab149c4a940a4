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
class Variant:
    """One variant of a mistake, in one or several exercises.

    Attributes:
        exercises: The exercises whose answers can contain this variant.
        changes: Pairs of words: words of the answer, and the words that replace them.
    """

    exercises: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]


def variant(exercises: str | tuple[str, ...], *words: str) -> Variant:
    """Describe a variant of a mistake.

    Args:
        exercises: The exercise, or the exercises, whose answer is changed.
        words: Words of the answer and the words that replace them; one such pair for each change.

    Raises:
        ValueError: there are no words, or the last words have no replacement.
    """
    if not words or len(words) % 2:
        raise ValueError(f"expected pairs of words, old and new; got {len(words)}: {words}")
    exercises = (exercises,) if isinstance(exercises, str) else exercises
    return Variant(exercises, tuple(zip(words[::2], words[1::2], strict=True)))


def variants(exercises: str | tuple[str, ...], old: str, *new: str) -> list[Variant]:
    """Describe variants that replace the same words; arguments as in `variant`."""
    return [variant(exercises, old, words) for words in new]


def all_and_each(exercises: str | tuple[str, ...], *changes: tuple[str, str]) -> list[Variant]:
    """Describe a variant with all of these changes, and a variant with each of them alone; exercises as in `variant`."""
    return [variant(exercises, *itertools.chain(*some)) for some in (changes, *((change,) for change in changes))]


class Mistake:
    """A mistake that the checks can name.

    Attributes:
        name: M and a number that is never used for another mistake.
        title: What is wrong, in a few words; empty if another assignment gives the title.
        question: The question to a student who made the mistake. The question does not reveal the answer.
        variants: Its variants.
    """

    def __init__(self, name: str, *words: str | Variant) -> None:
        texts = [word for word in words if isinstance(word, str)]
        if len(texts) not in (0, 2):
            raise ValueError(f"{name}: expected a title and a question, or neither; got {texts}")
        self.name = name
        self.title, self.question = texts or ("", "")
        self.variants = tuple(word for word in words if isinstance(word, Variant))


@cache
def compiled(source: str, file: str) -> CodeType:
    """Compile our code once for all notebooks that this process grades: compiling takes longer than running."""
    return compile(source, file, "exec")


def mistake_of(variant: str) -> str:
    """Return the name of the mistake of a variant: "M10" for "M10/2"."""
    return variant.split("/")[0]


def number_of(mistake: str) -> int:
    """Return the number that sorts mistakes: M6 comes before M10, and a name without a number comes last."""
    digits = mistake.lstrip("M")
    return int(digits) if digits.isdecimal() else 10**6


def variants_of(exercise: str, mistakes: Iterable[Mistake]) -> dict[str, Variant]:
    """Return the variants of mistakes in an exercise, by name; the second variant of M10 is called "M10/2"."""
    by_name: dict[str, Variant] = {}
    for mistake in mistakes:
        here = [variant for variant in mistake.variants if exercise in variant.exercises]
        by_name |= {f"{mistake.name}/{i}" if i > 1 else mistake.name: variant for i, variant in enumerate(here, 1)}
    return by_name


def changed_text(path: Path, exercise: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file of answers with words of one answer changed.

    The words are looked for in the answer. If they are not there, they are looked for in the functions and classes of
    the same file that the answer uses.

    Args:
        path: The file.
        exercise: The name of a function or class in it.
        changes: Pairs of old and new words.

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
    """Return an answer with words of its text changed. Arguments as in `changed_text`, but with a module.

    Raises:
        ValueError: also if the changed text is not valid Python.
    """
    text = changed_text(Path(answers.__file__), exercise, changes)
    module = ModuleType(answers.__name__)
    module.__file__ = answers.__file__
    try:
        exec(compiled(text, answers.__file__), vars(module))
    except SyntaxError as error:
        raise ValueError(f"{exercise}: with these words changed, the answer is no Python: {error}") from None
    return vars(module)[exercise]


def changed_lines(path: Path, exercise: str, variant: Variant) -> list[str]:
    """Return the lines that a variant of a mistake changes in an answer or adds to it. Each line has its new form.

    Args:
        path: The file of answers.
        exercise: The name of a function or class in it.
        variant: The variant; if it only removes lines, the result is empty.
    """
    lines = difflib.ndiff(_read(path).text.splitlines(), changed_text(path, exercise, variant.changes).splitlines())
    return textwrap.dedent("\n".join(line[2:] for line in lines if line.startswith("+ "))).splitlines()


class _File:
    """The text of a file of answers, and the places of its functions and classes, without docstrings."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]
        self.parts: dict[str, list[tuple[int, int]]] = {}  # by name: starts and ends
        self.uses: dict[str, set[str]] = {}  # by name: the names that it contains
        for node in (node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))):
            edges = [starts[min([node.lineno, *(part.lineno for part in node.decorator_list)]) - 1]]
            for inner in ast.walk(node):
                if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner):
                    edges += [starts[inner.body[0].lineno - 1], starts[inner.body[0].end_lineno]]
            edges = [*sorted(edges), starts[node.end_lineno]]
            self.parts[node.name] = list(zip(edges[::2], edges[1::2], strict=True))
            self.uses[node.name] = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}

    def place(self, name: str, words: str) -> tuple[int, int]:
        """Return the start and the end of words in an answer, or in a function or class that it uses."""
        for names in ([name], self._used_by(name)):
            starts = [
                begin + match.start()
                for part in names
                for begin, end in self.parts[part]
                for match in re.finditer(re.escape(words), self.text[begin:end])
            ]
            if len(starts) > 1:
                raise ValueError(f"{name}: {words!r} is {len(starts)} times in the answer; take more of its words")
            if starts:
                return starts[0], starts[0] + len(words)
        raise ValueError(f"{name}: {words!r} is not in the answer")

    def _used_by(self, name: str) -> list[str]:
        used: list[str] = []
        waiting = [name]
        while waiting:
            new = sorted((self.uses[waiting.pop()] & self.parts.keys()) - {name, *used})
            used += new
            waiting += new
        return used


@cache
def _read(path: Path) -> _File:
    return _File(path.read_text(encoding="utf-8"))

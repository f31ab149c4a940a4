"""Measure whether the right line is said: mutations whose line is known, in the answers and in right answers in other styles."""

import ast
import copy
import linecache
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from autograder.judge.exercise import Exercise, Function, right_answers_of, seeded
from autograder.judge.mutations import changes_in, without_words

KINDS = ("named", "right", "neighbour", "none", "wrong")


@dataclass(frozen=True)
class Mutation:
    """One change in one answer."""

    style: str
    line: int
    said: str
    function: Function


@dataclass
class Lines:
    """What was said of the mutations of an exercise that are caught."""

    exercise: str
    counts: Counter[str] = field(default_factory=Counter)
    mutations: dict[str, list[str]] = field(default_factory=dict)

    @property
    def unnamed(self) -> int:
        """How many have no name."""
        return sum(self.counts.values()) - self.counts["named"]


def slips_with_lines(stem: str, exercise: Exercise, draw: random.Random, share: float) -> Iterator[Mutation]:
    """Yield a share of the mutations of an exercise, in every style of its right answers."""
    for style, function in right_answers_of(stem)[exercise.name].items():
        if style != "oracle" and isinstance(function, (FunctionType, type)):
            yield from _slips_in(style, function, draw, share)


def _slips_in(style: str, function: Function, draw: random.Random, share: float) -> Iterator[Mutation]:
    module = sys.modules[function.__module__]
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    names = [getattr(node, "name", None) for node in tree.body]
    if function.__name__ not in names:  # made by another function
        return
    place = names.index(function.__name__)
    for node in tree.body:
        without_words(node)
    tree = ast.parse(ast.unparse(tree))  # so that its lines are those of the text that is run
    whole = ast.unparse(tree)
    for number, (line, before, after, changed) in enumerate(changes_in(tree.body[place])):
        if draw.random() >= share:
            continue
        made = copy.copy(tree)
        made.body = [*tree.body[:place], changed, *tree.body[place + 1 :]]
        text = ast.unparse(ast.fix_missing_locations(made))
        if text != whole and _is_python(text):
            yield Mutation(style, line, f"{before} -> {after or 'nothing'}", _defined(text, function, number))


def _is_python(text: str) -> bool:
    try:
        compile(text, "mutation", "exec")
    except SyntaxError:
        return False
    return True


def _defined(text: str, function: Function, number: int) -> Function:
    file = f"<{function.__module__}.{function.__name__} {number}>"
    module = ModuleType(function.__module__)
    exec(compile(text, file, "exec"), vars(module))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return vars(module)[function.__name__]


def lines_of(stem: str, exercise: Exercise, seed: int, share: float = 1.0) -> Lines:
    """Say how often the line of a mutation is said.

    Args:
        stem: Of the file of answers.
        exercise: One of it.
        seed: Of the inputs, and of which mutations are taken.
        share: Of the mutations that are taken.
    """
    found, draw = Lines(exercise.name), random.Random(seed)
    with seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mutation in slips_with_lines(stem, exercise, draw, share):
            errors = list(exercise.failures(mutation.function, seed).values())
            if errors:
                kind, said = _kind(mutation, errors)
                found.counts[kind] += 1
                found.mutations.setdefault(kind, []).append(
                    f"{mutation.style}, line {mutation.line}: {mutation.said}{said}"
                )
    return found


def _kind(mutation: Mutation, errors: list) -> tuple[str, str]:
    if any(error.mistake for error in errors):
        return "named", ""
    said = [error.departure for error in errors if error.departure and error.departure.line]
    if not said:
        return "none", f" | {errors[0]}"
    apart = min(abs(said[0].line - mutation.line), 2)
    return ("right", "neighbour", "wrong")[apart], f" | {said[0].text}"

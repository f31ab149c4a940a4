"""Measure how often a message names the right line, with mutations whose line is known.

The mutations are made in the answers, and in right answers in other styles. `python -m autograder.judge.line_measure 40`
tries 40 mutations of each exercise, and writes the record that the page of mistakes prints.
"""

import ast
import difflib
import json
import linecache
import random
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from autograder.imports import ROOT
from autograder.judge.exercise import Exercise, Function, exercises_of, right_answers_of, seeded
from autograder.judge.mutations import changes_in, remove_words

RECORD = ROOT / "book" / "records" / "lines.json"
MEASURED = ("attention", "multihead", "encoder", "vit")  # the files of answers whose exercises have steps
# "elsewhere": the message names the line that raised an error, and the mutation is in another line.
KINDS = ("named", "right", "neighbour", "none", "elsewhere", "wrong")


@dataclass(frozen=True)
class Mutation:
    """One change in one answer: the lines that it changes, and the text of the whole file."""

    style: str
    lines: tuple[int, ...]
    change: str
    text: str
    answer: Function

    def function(self) -> Function | None:
        """Return the answer with the mutation; None if it is not valid Python."""
        file = f"<{self.answer.__module__}.{self.answer.__name__} {zlib.crc32(self.text.encode())}>"
        module = ModuleType(self.answer.__module__)
        try:
            exec(compile(self.text, file, "exec"), vars(module))
        except (SyntaxError, TypeError):
            return None
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        return vars(module)[self.answer.__name__]


@dataclass
class Lines:
    """What the messages say about the caught mutations of an exercise."""

    exercise: str
    counts: Counter[str] = field(default_factory=Counter)
    mutations: dict[str, list[str]] = field(default_factory=dict)

    @property
    def unnamed(self) -> int:
        """The number of mutations whose messages name no mistake."""
        return sum(self.counts.values()) - self.counts["named"]


def mutations_with_lines(stem: str, exercise: Exercise) -> Iterator[Mutation]:
    """Yield the mutations of an exercise, in every style of its right answers."""
    for style, function in right_answers_of(stem)[exercise.name].items():
        if style != "oracle" and isinstance(function, (FunctionType, type)):
            yield from _mutations_in(style, function)


def _mutations_in(style: str, function: Function) -> Iterator[Mutation]:
    tree = ast.parse(Path(sys.modules[function.__module__].__file__).read_text(encoding="utf-8"))
    names = [getattr(node, "name", None) for node in tree.body]
    if function.__name__ not in names:  # another function made this answer
        return
    place = names.index(function.__name__)
    for node in tree.body:
        remove_words(node)
    whole = ast.unparse(tree)
    tree = ast.parse(whole)  # parsed again, to get the line numbers of the text that runs
    answer = tree.body[place]
    before, after = (
        whole.splitlines(keepends=True)[: answer.lineno - 1],
        whole.splitlines(keepends=True)[answer.end_lineno :],
    )
    unchanged = ast.unparse(answer).splitlines()
    for _, old, new, changed in changes_in(answer):
        text = ast.unparse(ast.fix_missing_locations(changed))
        if lines := _changed_lines(unchanged, text.splitlines(), answer.lineno):
            text = "".join([*before, text, "\n", *after])
            yield Mutation(style, lines, f"{old} -> {new or 'nothing'}", text, function)


def _changed_lines(old: list[str], new: list[str], first: int) -> tuple[int, ...]:
    """Return the numbers of the new lines that differ from the old ones; of a deleted line, the number of the next."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    places = [range(start, max(end, start + 1)) for tag, _, _, start, end in codes if tag != "equal"]
    return tuple(first + place for each in places for place in each)


def lines_of(stem: str, exercise: Exercise, seed: int, most: int | None = None) -> Lines:
    """Count how often the line of a mutation is named.

    Args:
        stem: The name of the file of answers.
        exercise: One of its exercises.
        seed: Inputs and mutations are drawn from it.
        most: The largest number of mutations to try; by default all.
    """
    lines, mutations = Lines(exercise.name), list(mutations_with_lines(stem, exercise))
    if most is not None and most < len(mutations):
        mutations = random.Random(seed).sample(mutations, most)
    with seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mutation in mutations:
            function = mutation.function()
            errors = list(exercise.failures(function, seed).values()) if function else []
            if errors:
                kind, details = _kind(mutation, errors)
                lines.counts[kind] += 1
                lines.mutations.setdefault(kind, []).append(
                    f"{mutation.style}, line {mutation.lines[0]}: {mutation.change}{details}"
                )
    return lines


def _kind(mutation: Mutation, errors: list) -> tuple[str, str]:
    if any(error.mistake for error in errors):
        return "named", ""
    departures = [error.departure for error in errors if error.departure and error.departure.line]
    if not departures:
        return "none", f" | {errors[0]}"
    named = [departures[0].line, departures[0].outer or departures[0].line]
    apart = min(2, *(abs(line - changed) for line in named for changed in mutation.lines))
    kind = ("right", "neighbour", "elsewhere" if departures[0].raised else "wrong")[apart]
    return "right" if _names_deleted(departures[0].missing, mutation) else kind, f" | {departures[0].text}"


def _names_deleted(missing: str, mutation: Mutation) -> bool:
    """Whether a message says that something is missing that the mutation deleted: it has no line."""
    old, new = mutation.change.split(" -> ")[0], mutation.change.rpartition(" -> ")[2]
    pattern = rf"\b{re.escape(missing.rpartition('.')[2])}\b"
    return bool(missing) and bool(re.search(pattern, old)) and not re.search(pattern, new)


def write_record(most: int, seed: int = 0) -> None:
    """Measure all exercises that have steps, and write the record."""
    exercises = [(stem, each) for stem in MEASURED for each in exercises_of(stem).values() if each.steps]
    counts = {each.name: dict(lines_of(stem, each, seed, most).counts) for stem, each in exercises}
    RECORD.write_text(record_of(counts, most, seed), encoding="utf-8")


def record_of(counts: dict[str, dict[str, int]], most: int, seed: int) -> str:
    """Return the text of the record."""
    return json.dumps({"most": most, "seed": seed, "counts": counts}, indent=1) + "\n"


if __name__ == "__main__":
    write_record(int(sys.argv[1]))

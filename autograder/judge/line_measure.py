"""Measure how often a message names the right line, with mutations whose line is known.

The mutations are made in the answers, and in right answers in other styles. `python -m autograder.judge.line_measure 40`
tries 40 mutations of each exercise, and writes the record that the page of mistakes prints.
"""

import ast
import contextlib
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

import torch
from attention_tests import line

from autograder.imports import ROOT
from autograder.judge.exercise import Exercise, Function, exercises_of, right_answers_of, seeded
from autograder.judge.mutations import changes_in, remove_words

RECORD = ROOT / "book" / "records" / "lines.json"
MEASURED = ("attention", "multihead", "encoder", "vit")  # the files of answers; a student's own tests have no line
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
    with seeded(seed), warnings.catch_warnings(), the_same_on_each_machine():
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


@contextlib.contextmanager
def the_same_on_each_machine() -> Iterator[None]:
    """Let no message depend on the speed of the machine, or on what memory held before."""
    kept = line.MAX_SLOW, line.MAX_SEARCH
    line.MAX_SLOW = line.MAX_SEARCH = 1000.0
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills new tensors, such as torch.empty, with NaN
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        line.MAX_SLOW, line.MAX_SEARCH = kept


def _kind(mutation: Mutation, errors: list) -> tuple[str, str]:
    if any(error.mistake for error in errors):
        return "named", ""
    found = next((error.found for error in errors if error.found), None)
    if not found:
        return "none", f" | {errors[0]}"
    apart = min(2, *(abs(found["line"] - changed) for changed in mutation.lines))
    kind = ("right", "neighbour", "elsewhere" if found["how"] == "raised" else "wrong")[apart]
    if kind == "elsewhere" and _says_what_is_missing(str(errors[0]), mutation):
        kind = "right"
    return kind, f" | {errors[0]}"


def _says_what_is_missing(message: str, mutation: Mutation) -> bool:
    """Whether Python's own error names what the mutation deleted: no line has it."""
    old, _, new = mutation.change.partition(" -> ")
    missing = re.search(r"(?:no attribute '|name '|variable '|before Module\.)(\w+)", message)
    return bool(missing) and missing[1] in re.findall(r"\w+", old) and missing[1] not in re.findall(r"\w+", new)


def write_record(most: int, seed: int = 0) -> None:
    """Measure all exercises, and write the record."""
    exercises = [(stem, each) for stem in MEASURED for each in exercises_of(stem).values() if each.has_line]
    counts = {each.name: dict(lines_of(stem, each, seed, most).counts) for stem, each in exercises}
    RECORD.write_text(record_of(counts, most, seed), encoding="utf-8")


def record_of(counts: dict[str, dict[str, int]], most: int, seed: int) -> str:
    """Return the text of the record."""
    return json.dumps({"most": most, "seed": seed, "counts": counts}, indent=1) + "\n"


if __name__ == "__main__":
    write_record(int(sys.argv[1]))

"""The riddles of the page "Find the wrong line": answers in which a known mistake changes one line."""

import ast
import difflib
import json
import re
import sys
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attention_tests.compare import TOLERANCE, difference, outcome

from autograder.files import made_once
from autograder.imports import ROOT, digest_of, imported_files
from autograder.judge import catalogue
from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import Exercise, Function, seeded
from autograder.judge.mistake import Variant, changed_text, mistake_of, variants_of
from autograder.judge.mutations import remove_words

# The parts of the book, each with the file of its checks; an assignment that is added needs no riddles
PARTS = {1: "attention", 2: "multihead", 3: "encoder", 4: "vit", 5: "debugging"}
SEED = 0  # seed of the hidden tests' inputs
LEAST, MOST = 6, 20  # fewest and most lines of a riddle
SHOWN = 5  # a map is a table of numbers, drawn in colours; it has at most this many rows and columns
KEPT = ROOT / "_build" / "wrong_lines"  # finished riddles, by the content of their sources
Riddle = dict[str, Any]  # code with one wrong line, as `_riddle` makes it


def files_of_riddles() -> set[Path]:
    """Return the files that the riddles are made of."""
    checks = [f"autograder.checks.{stem}.exercises" for stem in PARTS.values()]
    return imported_files("autograder.publish.wrong_lines", *checks)


def as_element(some: list[Riddle]) -> str:
    """Return the element of a page that holds riddles, for `book/_static/widget_wrong_lines.js`."""
    return f'<script type="application/json" id="wrong-lines">{json.dumps(some, ensure_ascii=False)}</script>'


def riddles(parts: Collection[int] = PARTS) -> list[Riddle]:
    """Return the riddles of some parts; make them unless a process has already made them from the same files."""
    digest = digest_of(files_of_riddles(), sys.version, np.__version__, torch.__version__, str([*parts]))
    return made_once(KEPT / f"{digest}.json", lambda: make_riddles(parts))


def make_riddles(parts: Collection[int]) -> list[Riddle]:
    """Make a riddle for each mistake in each function of some parts, if a variant changes or adds one line and a map shows it."""
    made: dict[tuple[int, str, str], Riddle] = {}  # one for each part, mistake, and function that has it
    with seeded(SEED), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mistake may divide by 0
        for part in parts:
            checks = checks_of(PARTS[part])
            for exercise in checks.EXERCISES.values():
                for name, variant in variants_of(exercise.name, exercise.known).items():
                    pieces = one_wrong_line(Path(exercise.answers.__file__), exercise.name, variant)
                    if pieces is None or (key := (part, mistake_of(name), pieces[0])) in made:
                        continue
                    if riddle := _riddle(part, exercise, name, *pieces[1:]):
                        made[key] = riddle
    return list(made.values())


def one_wrong_line(path: Path, exercise: str, variant: Variant) -> tuple[str, list[str], int, str] | None:
    """Return the function that has the mistake, the code, the place of the wrong line, and the right line.

    The code is the function without docstring, types and comments. If it is short, the answer that uses it is added.

    Returns:
        None if the mistake changes more than one line, removes a line, or is in code that is too short or too long.
    """
    right = _functions(path.read_text(encoding="utf-8"))
    wrong = _functions(changed_text(path, exercise, variant.changes))
    changed = [name for name, lines in right.items() if lines != wrong.get(name)]
    if len(changed) != 1:
        return None
    names = changed if len(right[changed[0]]) >= LEAST else [name for name in right if name in (exercise, *changed)]
    before, after = ([line for name in names for line in code[name]] for code in (right, wrong))
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    steps = [step for step in steps if step[0] != "equal"]
    if len(steps) != 1 or not LEAST <= len(after) <= MOST:
        return None
    [(_, start, end, place, until)] = steps
    # The change must be a single line, and no other line may be the same.
    if until - place != 1 or end - start > 1 or after.count(after[place]) > 1:
        return None
    return changed[0], after, place, before[start].strip() if end > start else ""


def _functions(text: str) -> dict[str, list[str]]:
    """Return the lines of each function and class of a file. Each line is one statement."""
    functions = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            remove_words(node)
            functions[node.name] = [line for line in ast.unparse(node).splitlines() if line]
    return functions


def _riddle(part: int, exercise: Exercise, name: str, code: list[str], wrong: int, right: str) -> Riddle | None:
    function = exercise.mistakes()[name]
    visible = _failing_cases(exercise, function, exercise.visible_cases())
    hidden = {stage: _failing_cases(exercise, function, exercise.stage_cases(stage, SEED)) for stage in exercise.stages}
    shows = _clearest_maps([each for failing in (visible, *hidden.values()) for each in failing])
    if shows is None:
        return None
    tests = [stage for stage, failing in hidden.items() if failing]
    caught, all_tests = len(tests) + bool(visible), len(hidden) + 1
    return {
        "name": f"{exercise.name} {name}",  # exercise and variant of the mistake: "attention M6/2"
        "part": part,
        "exercise": exercise.name,
        "about": getattr(exercise.answers, exercise.name).__doc__.splitlines()[0],
        "mistake": mistake_of(name),
        "title": catalogue.TITLES[mistake_of(name)],
        "level": "easy" if caught == all_tests else "medium" if 2 * caught >= all_tests else "hard",
        "code": code,  # its lines
        "wrong": wrong,  # place of the wrong line among them, from 0
        "right": right,  # the line that should be there; empty if there should be none
        "tests": tests,  # the hidden tests that catch the mistake
        "silent": [stage for stage, failing in hidden.items() if not failing],
        "visible": bool(visible),  # whether the visible test catches it
        "shows": shows,  # the right and the wrong values of the weights or of another result
    }


def _failing_cases(exercise: Exercise, function: Function, cases: list[dict[str, Any]]) -> list[tuple[dict, dict]]:
    """Return the cases in which a function gives a wrong result, with this result."""
    failing = []
    for case in cases:
        torch.default_generator.manual_seed(0)
        got = outcome(exercise.of_arrays(function), case["arguments"], exercise.names)
        if difference(got, case["expected"], show=False):
            failing.append((case, got))
    return failing


def _clearest_maps(failing: list[tuple[dict, dict]]) -> dict[str, Any] | None:
    """Return how a mistake shows best: two maps of the weights or of another result; None if no table of numbers shows it."""
    pairs = [
        _maps(name, case["name"], np.asarray(right), got["arrays"][name])
        for case, got in failing
        if "arrays" in got and "arrays" in case["expected"]
        for name, right in case["expected"]["arrays"].items()
        if np.size(right) > 1 and np.asarray(right).dtype != bool and not re.match("shape|.*parameters", name)
    ]
    return max((each for each in pairs if each), key=lambda each: each[0], default=(None, None))[1]


def _maps(name: str, case: str, right: np.ndarray, mine: np.ndarray) -> tuple[tuple, dict[str, Any]] | None:
    """Return two maps of a result, right and with a mistake, and how well they show the mistake; None if they do not."""
    right, mine = right.astype(float), mine.astype(float)
    if not (mine.ndim and mine.size) or (mine.shape == right.shape and np.allclose(mine, right, **TOLERANCE)):
        return None
    pair = [np.atleast_2d(array) for array in (right, mine)]
    pair = [array.reshape(-1, *array.shape[-2:]) for array in pair]
    first = [0, 0, 0]
    if mine.shape == right.shape:
        first = np.argwhere(~np.isclose(*pair, **TOLERANCE))[0]
    pair = [array[min(first[0], len(array) - 1)] for array in pair]
    places = [slice(start, start + SHOWN) for start in (max(0, at - SHOWN + 1) for at in first[1:])]
    pair = [array[places[0], places[1]].round(2) for array in pair]
    if np.array_equal(*pair, equal_nan=True):
        return None
    size = max(np.abs(array[np.isfinite(array)]).max(initial=0) for array in pair)
    rank = (size < 100, name == "weights", min(right.ndim, 2))
    words = name.replace("_", " ")
    return rank, {"of": words, "case": case.partition(", ")[2]} | {
        key: [[_number(each) for each in row] for row in array.tolist()]
        for key, array in zip(("right", "wrong"), pair, strict=True)
    }


def _number(number: float) -> float | str:
    """Return a number as JSON and JavaScript can read it."""
    return number if np.isfinite(number) else str(number).replace("inf", "Infinity")

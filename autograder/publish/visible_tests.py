"""The set-up cell of an exercise notebook, and the file with the results that its visible tests expect.

The file belongs to the package `exercises/attention_tests`, which the cell imports.
"""

import ast
import json
from collections.abc import Sequence
from typing import Any

from attention_tests import VERSION
from attention_tests.line import Known
from attention_tests.watch import plain

from autograder.judge import catalogue
from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import Exercise, exercises_of, seeded
from autograder.judge.mistake import mistake_of, number_of
from autograder.publish.tests_wheel import WHEEL

MAX_RIGHT = 300  # in the file, the right values of a case together have at most this many numbers
DECIMALS = 7  # decimals of the numbers in the file: two more than `compare.TOLERANCE` looks at
SETUP = """#@title Set-up: run this cell first {{ display-mode: "form" }}
{imports}
sys.path += [".", "..", "{wheel}"]  # where the tests may be
try: from attention_tests.run import tests_of
except ImportError:
    %pip install -q --retries 1 --no-deps {address}
try: from attention_tests.run import tests_of
except ImportError: tests_of = lambda *_: lambda *_: print("To test, put {wheel} next to this notebook.")
run_tests = tests_of("{stem}", "{version}")"""


def imports_of(stem: str) -> str:
    """Return the imports of a notebook, which its answers use."""
    checks, in_torch = checks_of(stem), stem != "attention"
    modules = ["sys", *getattr(checks, "MODULES", ()), "numpy as np"]
    modules += ["torch", "torch.nn.functional as F"] * in_torch
    lines = [f"import {', '.join(modules)}", *["from torch import Tensor, nn"] * in_torch]
    return "\n".join([*lines, *getattr(checks, "FOR_ANSWERS", ())])


def setup_cell(stem: str, address: str) -> str:
    """Return the set-up cell of a notebook.

    Args:
        stem: The stem of the file of answers.
        address: The address of the package's wheel, with the digest of its bytes.
    """
    return SETUP.format(imports=imports_of(stem), wheel=WHEEL, address=address, stem=stem, version=VERSION)


def frozen_file(stem: str, bonus: Sequence[str] = ()) -> str:
    """Return the file with all that the visible tests of a notebook need in addition to the code of the package.

    Args:
        stem: The stem of the file of answers.
        bonus: The exercises that are a bonus.
    """
    exercises = exercises_of(stem)
    with seeded(0):
        tests = {name: frozen_tests(exercise) for name, exercise in exercises.items()}
    cases = [case for test in tests.values() for case in test["cases"]]
    named = {name for case in cases for name in case["mistakes"]}
    named |= {case[kind] for case in cases for kind in ("default_mistake", "mistake_if_refused") if kind in case}
    for name, exercise in exercises.items():
        untried = f"They do not try {exercise.untried_in_words}." if exercise.untried else ""
        about = {"ask": exercise.ask_in_notebook(), "bonus": name in bonus, "untried": untried}
        tests[name] = about | tests[name]
    answers = dict.fromkeys(name for each in exercises.values() for name in (each.name, *each.uses, *each.given))
    content = {
        "book": f"{catalogue.address_of_book()}book/mistakes.html",
        "libraries": _imported(imports_of(stem)),
        "answers": list(answers),
        "messages": {name: catalogue.MESSAGES[name] for name in sorted(set(map(mistake_of, named)), key=number_of)},
        "exercises": tests,
    }
    return _in_lines(content) + "\n"


def _imported(text: str) -> dict[str, str]:
    """Return the dotted names of what a text imports, by the names that it gives them."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            found |= {name.asname or name.name: before + name.name for name in node.names}
    return found


def _in_lines(value: Any, depth: int = 0) -> str:
    """Return a value as JSON with lines of moderate length: lists of numbers stay on one line."""
    if (isinstance(value, dict) and value and depth < 5) or (
        isinstance(value, list) and any(isinstance(x, dict) for x in value)
    ):
        inner = " " * (depth + 1)
        items = (
            [f"{json.dumps(key, ensure_ascii=False)}: {_in_lines(item, depth + 1)}" for key, item in value.items()]
            if isinstance(value, dict)
            else [_in_lines(item, depth + 1) for item in value]
        )
        begin, end = "{}" if isinstance(value, dict) else "[]"
        return begin + "\n" + ",\n".join(inner + item for item in items) + "\n" + " " * depth + end
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def frozen_tests(exercise: Exercise) -> dict[str, Any]:
    """Return the visible tests of an exercise as plain values: inputs, right results, and each mistake's fingerprint."""
    cases = [dict(case) for case in exercise.visible_cases()]
    for case in cases:
        case["right_values"] = frozen_right_values(case) if case["right_values"] else None
        case["arguments"] = [
            argument.tolist() if hasattr(argument, "tolist") else argument for argument in case["arguments"]
        ]
        if "error" in case["expected"]:
            case["expected"] = {"error": case["expected"]["error"]}
        else:
            arrays = {name: _rounded(array.tolist(), 7) for name, array in case["expected"]["arrays"].items()}
            case["expected"] = {"arrays": arrays}
        case["mistakes"] = {name: _rounded(prints, 5) for name, prints in case["mistakes"].items()}
        for name in ("default_mistake", "mistake_if_refused"):
            if case[name] is None:
                del case[name]
    _drop_repeated(cases)
    return {"names": list(exercise.names), "cases": cases}


def frozen_right_values(case: dict[str, Any]) -> list[Any]:
    """Return the values that right answers compute in a visible case, as far as there is room, the answer's own first."""
    if "error" in case["expected"]:
        return []
    there = Known(map(plain, [*case["arguments"], *case["expected"]["arrays"].values()]))
    kept, room = [], MAX_RIGHT
    for value in case["right_values"]():
        if value.size <= room and not there.has_value(value, in_order=True):
            kept.append(_rounded(value.tolist(), 6))
            room -= value.size
    return kept


def _drop_repeated(cases: list[dict[str, Any]]) -> None:
    """Drop a variant of a mistake that gives the same as an earlier variant in every case."""
    first: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(name for case in cases for name in case["mistakes"]):
        first.setdefault((mistake_of(name), json.dumps([case["mistakes"].get(name) for case in cases])), name)
    for case in cases:
        case["mistakes"] = {name: prints for name, prints in case["mistakes"].items() if name in first.values()}


def _rounded(value: Any, digits: int) -> Any:
    """Round numbers so that they are the same on every processor: rounding noise becomes 0.

    Numbers are first rounded to 12 digits. Then a number halfway between two rounded numbers, such as 1/2048 with 7
    digits, is rounded the same way with and without noise.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    return float(f"{round(float(f'{value:.12g}'), DECIMALS):.{digits}g}") + 0.0  # -0.0 becomes 0.0

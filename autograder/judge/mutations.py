"""Mutations made systematically: how many changes of one word of an answer do the checks notice?

In addition to the catalogue, which people wrote, every operator, constant, argument and line of the answers is changed in turn. A
change that no check notices is either equivalent to the answer, and in EQUIVALENT of its `right_answers` with the reason,
or a case is missing.
"""

import ast
import copy
import itertools
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from autograder.judge.catalogue import checks_of
from autograder.judge.compare import difference, outcome
from autograder.judge.exercise import Exercise, Function, exercises_of, seeded

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv}
OPERATORS |= {ast.FloorDiv: ast.Mod, ast.Pow: ast.Mult, ast.MatMult: ast.Mult}
COMPARISONS = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
BLOCKS = ast.For, ast.While, ast.With, ast.If
NAMES = {"sum": "mean", "mean": "sum", "max": "min", "zeros": "ones", "ones": "zeros", "any": "all", "all": "any"}
NAMES |= {"train": "eval", "eval": "train", "zeros_": "ones_", "argmax": "argmin", "unflatten": "flatten"}
NAMES |= {
    "cat": "stack",
    "stack": "cat",
    "exp": "exp2",
    "sqrt": "square",
    "square": "sqrt",
    "gelu": "relu",
    "GELU": "ReLU",
}
NAMES |= {"softmax": "log_softmax", "swapaxes": "reshape", "transpose": "reshape", "permute": "reshape", "var": "std"}


@dataclass(frozen=True)
class Score:
    """What the checks notice of the mutations that can be made in one exercise, each said as "line 3: a - b -> a + b"."""

    exercise: str
    made: int
    caught: tuple[str, ...]  # by a hidden check
    seen: tuple[str, ...]  # by the visible test
    equivalent: dict[str, str]  # those that no check needs to notice, and why
    missed: tuple[str, ...]  # the others that run and that no hidden check notices

    @property
    def run(self) -> int:
        """How many of them run: give something in one case at least."""
        return len(self.caught) + len(self.equivalent) + len(self.missed)


def mutations_of(answers: ModuleType, name: str) -> dict[str, Function]:
    """Return the answers that one mutation in a function or class gives, by what is changed: "line 3: a - b -> a + b".

    Neither docstrings, types nor the texts of errors are changed.
    """
    tree = ast.parse(Path(answers.__file__).read_text(encoding="utf-8"))
    place = next(i for i, node in enumerate(tree.body) if getattr(node, "name", None) == name)
    without_words(tree.body[place])
    whole, first, found = ast.unparse(tree.body[place]), tree.body[place].lineno, {}
    for line, before, after, changed in changes_in(tree.body[place]):
        text = ast.unparse(changed)
        if text == whole:
            continue
        made = copy.copy(tree)
        made.body = [*tree.body[:place], ast.parse(text).body[0], *tree.body[place + 1 :]]
        module = ModuleType(answers.__name__)
        exec(compile(ast.unparse(made), answers.__file__, "exec"), vars(module))
        found[f"line {line - first}: {before} -> {after or 'nothing'}"] = vars(module)[name]
    return found


def without_words(tree: ast.AST) -> None:
    """Take away docstrings, types and the texts of errors."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = []


def changes_in(tree: ast.AST) -> Iterator[tuple[int, str, str, ast.AST]]:
    """Yield each change: its line, what stood there, what is there now, and the whole."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Raise) or not hasattr(node, "lineno") or number == 0:
            continue
        for field, value in ast.iter_fields(node):
            for key, (block, after) in enumerate(itertools.pairwise(value if isinstance(value, list) else ())):
                if isinstance(block, BLOCKS) and not isinstance(after, ast.Raise):
                    changed = copy.deepcopy(tree)
                    inner = getattr(next(n for i, n in enumerate(ast.walk(changed)) if i == number), field)
                    inner[key].body.append(inner.pop(key + 1))
                    yield after.lineno, ast.unparse(after), "indented", changed
            for key, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(child, (ast.expr, ast.stmt)) and not isinstance(child, ast.Raise):
                    for new in _instead_of(child):
                        changed = copy.deepcopy(tree)
                        parent = next(n for i, n in enumerate(ast.walk(changed)) if i == number)
                        if key is None:
                            setattr(parent, field, new)
                        else:
                            getattr(parent, field)[key : key + 1] = new if isinstance(new, list) else [new]
                        said = "; ".join(map(ast.unparse, new)) if isinstance(new, list) else ast.unparse(new)
                        yield child.lineno, ast.unparse(child), said, changed


def _instead_of(node: ast.AST) -> Iterator[Any]:
    """Yield what a mutation puts instead of an expression, or of a statement: then a list of statements."""
    new = copy.deepcopy
    if isinstance(node, BLOCKS) and len(node.body) > 1:  # its last line stands behind it
        block = new(node)
        yield [block, block.body.pop()]
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        if not isinstance(node.op, (ast.Add, ast.Mult)):  # which may be swapped
            yield ast.BinOp(node.right, node.op, node.left)
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        yield from node.values
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, (int, float)):
            yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
        elif isinstance(node.value, str) and "->" in node.value:
            left, right = node.value.split("->")
            yield from (ast.Constant(f"{left}->{right[1:]}{right[:1]}"), ast.Constant(f"{left}->{right[1:]}"))
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)
    elif isinstance(node, ast.Call):
        for index in range(len(node.keywords)):
            changed = new(node)
            del changed.keywords[index]
            yield changed
        either = ast.unparse(node.func).endswith(("transpose", "swapaxes"))  # of two axes the order says nothing
        for index in range(0 if either else len(node.args) - 1):
            changed = new(node)
            changed.args[index : index + 2] = changed.args[index + 1], changed.args[index]
            yield changed
        yield from node.args[:1]
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.With)):
        yield [ast.Pass()]
        kept = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) not in map(
            ast.unparse, ast.walk(node.value)
        )
        if (
            isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and not kept
        ):  # else the second does what the first did
            yield [node, node]
        if isinstance(node, ast.Assign):
            for method, *words in (("detach",), ("half",), ("astype", "float16")):
                call = ast.Call(ast.Attribute(node.value, method, ast.Load()), list(map(ast.Constant, words)), [])
                yield [ast.Assign(node.targets, call, lineno=0)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            yield [ast.AugAssign(node.targets[0], node.value.op, node.value.right)]


def scores_of(stem: str, seed: int) -> list[Score]:
    """Try every mutation in every exercise of a file of answers.

    Args:
        stem: The name of its folder of checks, "attention".
        seed: From which the hidden checks draw their inputs.
    """
    with seeded(seed):
        judged = [
            each for each in exercises_of(stem).values() if each.hidden_cases(seed)
        ]  # no test that a student writes
        return [score_of(each, seed, equivalent_in(stem)) for each in judged]


def equivalent_in(stem: str) -> dict[str, str]:
    """Return which mutations no check needs to notice: a regular expression for "exercise, line 3: a -> b", and why."""
    return getattr(checks_of(stem, "right_answers"), "EQUIVALENT", {})


def score_of(exercise: Exercise, seed: int, equivalent: dict[str, str]) -> Score:
    """Try every mutation in one exercise."""
    hidden = exercise.hidden_cases(seed)
    caught, seen, left = [], [], []
    mutations = mutations_of(exercise.answers, exercise.name)
    for name, function in mutations.items():
        runs, noticed = _tried(exercise, function, hidden)
        if not runs:
            continue
        (caught if noticed else left).append(name)
        if _tried(exercise, function, exercise.visible_cases())[1]:
            seen.append(name)
    why = {
        name: next((w for p, w in equivalent.items() if re.search(p, f"{exercise.name}, {name}")), "") for name in left
    }
    known = {name: reason for name, reason in why.items() if reason}
    missed = tuple(name for name in left if not why[name])
    return Score(exercise.name, len(mutations), tuple(caught), tuple(seen), known, missed)


def _tried(exercise: Exercise, function: Function, cases: list[dict[str, Any]]) -> tuple[bool, bool]:
    """Whether a function gives something in any case, and whether it gives what it should not in any."""
    runs = noticed = False
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings():  # a student's warning costs nothing either
        warnings.simplefilter("ignore")
        for case in cases:
            got = outcome(exercise.probe(function), case["arguments"], exercise.names)
            runs = runs or "arrays" in got
            noticed = noticed or bool(difference(got, case["expected"], show=False))
            if runs and noticed:
                break
    return runs, noticed

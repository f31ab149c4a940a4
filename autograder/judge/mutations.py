"""Make mutations of the answers systematically, and count how many of them the checks notice.

People wrote the catalogue of mistakes. In addition, this module changes every operator, constant, argument and line of
the answers, one at a time. If no check notices a change, the changed answer is equivalent to the answer, or a case is
missing. EQUIVALENT of `right_answers` lists the equivalent changes, each with the reason.
"""

import ast
import contextlib
import copy
import difflib
import itertools
import linecache
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from attention_tests.compare import difference, outcome

from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import Exercise, Function, exercises_of, seeded

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv}
OPERATORS |= {ast.FloorDiv: ast.Mod, ast.Pow: ast.Mult, ast.MatMult: ast.Mult}
COMPARISONS = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
BLOCKS = ast.For, ast.While, ast.With, ast.If
NAMES = {"sum": "mean", "mean": "sum", "max": "min", "zeros": "ones", "ones": "zeros", "any": "all", "all": "any"}
NAMES |= {"train": "eval", "eval": "train", "zeros_": "ones_", "argmax": "argmin", "unflatten": "flatten"}
NAMES |= {"cat": "stack", "stack": "cat", "exp": "exp2", "sqrt": "square", "square": "sqrt"}
NAMES |= {"gelu": "relu", "GELU": "ReLU"}
NAMES |= {"softmax": "log_softmax", "swapaxes": "reshape", "transpose": "reshape", "permute": "reshape", "var": "std"}


@dataclass(frozen=True)
class Mutation:
    """One change in one answer: "a - b -> a + b"."""

    change: str
    line: int  # the first line that changes
    start: int  # the answer's first line
    text: str  # of the whole file, without docstrings and types; the two lines are counted in it
    answer: Function

    def __str__(self) -> str:
        return f"line {self.line - self.start}: {self.change}"

    def function(self) -> Function | None:
        """Return the answer with the mutation; None if it is not valid Python."""
        with contextlib.suppress(SyntaxError, TypeError):
            return defined(self.text, self.answer)


def defined(text: str, answer: Function) -> Function:
    """Return what takes an answer's place in the changed text of its file, with lines that messages can quote."""
    file = f"<{answer.__module__}.{answer.__name__} {zlib.crc32(text.encode())}>"
    module = ModuleType(answer.__module__)
    exec(compile(text, file, "exec"), vars(module))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return vars(module)[answer.__name__]


def mutations_of(answer: Function) -> Iterator[Mutation]:
    """Yield the mutations of a function or class.

    Docstrings, types and the texts of errors are removed first, so no mutation is made in them.
    """
    tree = ast.parse(Path(sys.modules[answer.__module__].__file__).read_text(encoding="utf-8"))
    remove_words(tree)
    whole = ast.unparse(tree)
    lines = whole.splitlines()
    for node in ast.parse(whole).body:  # parsed again, to get the line numbers of the text that runs
        if getattr(node, "name", None) != answer.__name__:
            continue
        unchanged, start = ast.unparse(node).splitlines(), node.lineno
        for old, new, tree in changes_in(node):
            changed = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
            codes = difflib.SequenceMatcher(None, unchanged, changed, autojunk=False).get_opcodes()
            places = [place for tag, _, _, place, _ in codes if tag != "equal"]
            if places:
                text = "\n".join([*lines[: start - 1], *changed, *lines[node.end_lineno :]])
                yield Mutation(f"{old} -> {new or 'nothing'}", start + places[0], start, text, answer)


@dataclass(frozen=True)
class Score:
    """The mutations of one exercise that the checks notice or miss. A mutation is written "line 3: a - b -> a + b"."""

    exercise: str
    made: int
    caught: tuple[str, ...]  # the mutations that a hidden check notices
    caught_by_visible: tuple[str, ...]  # the mutations that the visible test notices
    equivalent: dict[str, str]  # the mutations that no check needs to notice, each with the reason
    missed: tuple[str, ...]  # all other mutations that run: no hidden check notices them

    @property
    def run(self) -> int:
        """The number of mutations that give a result in at least one case."""
        return len(self.caught) + len(self.equivalent) + len(self.missed)


def remove_words(tree: ast.AST) -> None:
    """Remove docstrings, types and the texts of errors."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = []


def changes_in(tree: ast.AST) -> Iterator[tuple[str, str, ast.AST]]:
    """Yield each change: the old code, the new code, and the whole changed tree."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Raise) or not hasattr(node, "lineno") or number == 0:
            continue
        for field, value in ast.iter_fields(node):
            for key, (block, after) in enumerate(itertools.pairwise(value if isinstance(value, list) else ())):
                if isinstance(block, BLOCKS) and not isinstance(after, ast.Raise):
                    changed = copy.deepcopy(tree)
                    inner = getattr(next(n for i, n in enumerate(ast.walk(changed)) if i == number), field)
                    inner[key].body.append(inner.pop(key + 1))
                    yield ast.unparse(after), "indented", changed
            for key, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(child, (ast.expr, ast.stmt)) and not isinstance(child, ast.Raise):
                    for new in _instead_of(child):
                        changed = copy.deepcopy(tree)
                        parent = next(n for i, n in enumerate(ast.walk(changed)) if i == number)
                        if key is None:
                            setattr(parent, field, new)
                        else:
                            getattr(parent, field)[key : key + 1] = new if isinstance(new, list) else [new]
                        new_code = "; ".join(map(ast.unparse, new)) if isinstance(new, list) else ast.unparse(new)
                        yield ast.unparse(child), new_code, changed


def _instead_of(node: ast.AST) -> Iterator[Any]:
    """Yield the replacements of an expression or of a statement; a statement is replaced by a list of statements."""
    new = copy.deepcopy
    if isinstance(node, BLOCKS) and len(node.body) > 1:  # move the last line out of the block
        block = new(node)
        yield [block, block.body.pop()]
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        if not isinstance(node.op, (ast.Add, ast.Mult)):  # swapped operands change no sum or product
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
        either = ast.unparse(node.func).endswith(("transpose", "swapaxes"))  # the order of two axes makes no difference
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
        # Repeat a line only if the repetition changes something.
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and not kept:
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
        stem: The name of the folder of checks for this file, "attention".
        seed: The hidden checks draw their inputs from it.
    """
    with seeded(seed):
        # An exercise that asks for a test has no cases.
        judged = [each for each in exercises_of(stem).values() if each.hidden_cases(seed)]
        return [score_of(each, seed, equivalent_in(stem)) for each in judged]


def equivalent_in(stem: str) -> dict[str, str]:
    """Return the mutations that no check needs to notice: patterns for "exercise, line 3: a -> b", with reasons."""
    return getattr(checks_of(stem, "right_answers"), "EQUIVALENT", {})


def score_of(exercise: Exercise, seed: int, equivalent: dict[str, str]) -> Score:
    """Try every mutation in one exercise."""
    hidden = exercise.hidden_cases(seed)
    caught, caught_by_visible, uncaught = [], [], []
    mutations = {str(each): each.function() for each in mutations_of(getattr(exercise.answers, exercise.name))}
    for name, function in mutations.items():
        runs, noticed = _tried(exercise, function, hidden)
        if not runs:
            continue
        (caught if noticed else uncaught).append(name)
        if _tried(exercise, function, exercise.visible_cases())[1]:
            caught_by_visible.append(name)
    why = {
        name: next((w for p, w in equivalent.items() if re.search(p, f"{exercise.name}, {name}")), "")
        for name in uncaught
    }
    known = {name: reason for name, reason in why.items() if reason}
    missed = tuple(name for name in uncaught if not why[name])
    return Score(exercise.name, len(mutations), tuple(caught), tuple(caught_by_visible), known, missed)


def _tried(exercise: Exercise, function: Function, cases: list[dict[str, Any]]) -> tuple[bool, bool]:
    """Return whether a function gives a result in at least one case, and whether at least one outcome is wrong."""
    runs = noticed = False
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings():  # warnings cost students no points either
        warnings.simplefilter("ignore")
        for case in cases:
            got = outcome(exercise.of_arrays(function), case["arguments"], exercise.names)
            runs = runs or "arrays" in got
            noticed = noticed or bool(difference(got, case["expected"], show=False))
            if runs and noticed:
                break
    return runs, noticed

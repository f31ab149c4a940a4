"""Slips made systematically: how many changes of one word of an answer do the checks notice?

Beside the catalogue, which people wrote, every operator, constant, argument and line of the answers is changed in turn. A
change that no check notices is either equivalent to the answer, and listed here with the reason, or a case is missing.
"""

import ast
import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from autograder.judging.compare import difference, outcome
from autograder.judging.exercise import Exercise, Function, _prepared, exercises_of, seeded

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv}
OPERATORS |= {ast.FloorDiv: ast.Mod, ast.Pow: ast.Mult, ast.MatMult: ast.Mult}
COMPARISONS = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
NAMES = {"sum": "mean", "mean": "sum", "max": "min", "zeros": "ones", "ones": "zeros", "any": "all", "all": "any"}
NAMES |= {"train": "eval", "eval": "train", "zeros_": "ones_", "argmax": "argmin", "unflatten": "flatten"}


# Slips that no check can or should notice, by what is said of them, and why.
EQUIVALENT = {
    r"super\(\).__init__\(\); |\.copy_\(.*; |np\.where\(mask.*; |masked_fill\(.*; |zero_grad\(\); ": "done twice is done once",
    r"repair, line \d+: .*(requires_grad_|xavier_uniform_).*; ": "done twice is done once",
    r"attend, line \d+: (mask|empty) = .*detach": "a mask has no gradient",
    r"(evaluate|attention_rollout), .*detach": "no gradient was asked for",
    r"(patchify|PatchEmbedding), line \d+: -2 -> 2$": "images have four axes",
    r"(train_epoch|evaluate), line \d+: -1 -> 1$": "scores have two axes",
    r"attention_rollout, line \d+: 1 -> 2$": "the last two axes are of one size",
    r"attention_rollout, line \d+: torch.eye.*to": "all checks run on one device, in one precision",
    r"(train_epoch|evaluate), line \d+: float\(": "a tensor of one number will do",
    r"train_epoch, line \d+: loss\.detach\(\) -> loss": "the number is the same; what it costs is memory",
    r"MultiHeadAttention, line \d+: if width % num_heads": "a divisor is asked for, and no error",
    r"EncoderBlock, line \d+: self\.dropout\(self": "dropout in the part is enough",
    r"ViT, line \d+: (0\.02|torch\.zeros)": "where class token and positions start is left open",
    r"clip_grad_norm_\(.*; |nn\.init\..*; |register_buffer\(.*; ": "done twice is done once",
    r"(train_shuffled|train_clipped|mean_loss|loss_and_accuracy), .*\.item\(\)": "a tensor of one number will do",
    r"(loss_and_accuracy|train_shuffled), .*\.detach\(\)$": "no gradient was asked for, or there is none",
    r"(loss_and_accuracy|pooled), line \d+: (-1 -> 1|1 -> 0)$": "scores have two axes, and a query has one",
    r"Standardise, .*\.detach\(\) -> ": "the numbers are the same; what it costs is memory",
    r"learning_rate, line \d+: min\(1\.0, done\)": "the smaller one of two, in either order",
    r"SkippedBranch, .*kept = .*\.detach": "what is drawn has no gradient",
    r"cut_patches, .* -> images\.reshape\(height": "the first two axes are joined again",
}


def slips_of(answers: ModuleType, name: str) -> dict[str, Function]:
    """Return the answers that one slip in a function or class gives, by what is changed: "line 3: a - b -> a + b".

    Neither docstrings, types nor the texts of errors are changed.
    """
    tree = ast.parse(Path(answers.__file__).read_text(encoding="utf-8"))
    place = next(i for i, node in enumerate(tree.body) if getattr(node, "name", None) == name)
    for node in ast.walk(tree.body[place]):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.Raise):
            node.exc.args = []
    whole, first, found = ast.unparse(tree.body[place]), tree.body[place].lineno, {}
    for line, before, after, changed in _changes(tree.body[place]):
        text = ast.unparse(changed)
        if text == whole:
            continue
        made = copy.copy(tree)
        made.body = [*tree.body[:place], ast.parse(text).body[0], *tree.body[place + 1 :]]
        module = ModuleType(answers.__name__)
        exec(compile(ast.unparse(made), answers.__file__, "exec"), vars(module))
        found[f"line {line - first}: {before} -> {after or 'nothing'}"] = vars(module)[name]
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[int, str, str, ast.AST]]:
    """Yield each change: its line, what stood there, what stands there now, and the whole."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Raise) or not hasattr(node, "lineno") or number == 0:
            continue
        for field, value in ast.iter_fields(node):
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
    """Yield what a slip puts in the place of an expression, or of a statement: then a list of statements."""
    new = copy.deepcopy
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
            yield [
                ast.Assign(node.targets, ast.Call(ast.Attribute(node.value, "detach", ast.Load()), [], []), lineno=0)
            ]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            yield [ast.AugAssign(node.targets[0], node.value.op, node.value.right)]


def unnoticed(exercise: Exercise, seed: int) -> tuple[int, dict[str, str]]:
    """Return how many slips there are in an exercise, and those that no hidden check notices: why need none?"""
    slips = slips_of(exercise.answers, exercise.name)
    hidden = [case for stage in exercise.stages for case in _prepared(exercise, stage, seed)]
    left = [name for name, function in slips.items() if not _differs(exercise, function, hidden)]
    return len(slips), {
        name: next((w for p, w in EQUIVALENT.items() if re.search(p, f"{exercise.name}, {name}")), "") for name in left
    }


def _differs(exercise: Exercise, function: Function, cases: list[dict[str, Any]]) -> bool:
    """Whether a function gives another result in any case."""
    torch.default_generator.manual_seed(0)
    for case in cases:
        got = outcome(exercise.probe(function), case["arguments"], exercise.names)
        if difference(got, case["expected"], show=False):
            return True
    return False


def main(*stems: str) -> None:
    """Print, for each exercise, how many slips are noticed, and each that is not."""
    with seeded(0):
        for stem in stems:
            for exercise in exercises_of(stem).values():
                count, left = unnoticed(exercise, 0)
                print(f"{exercise.name}: {count - len(left)} of {count} noticed", flush=True)
                for name, why in left.items():
                    print(f"    {why or 'NOT CAUGHT'}: {name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Answer a student's function that asks the grader for the correct version of an earlier exercise."""

import ast
import inspect
import math
from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from typing import Any

from autograder.sandbox.guest import wire

MAX_QUESTION = 2**20  # bytes of a question to the correct version of an earlier exercise
MAX_PRODUCT = 2**22  # numbers that the values of a question may make together: exercises have a few thousand


@cache
def text_of(replacement_class: type) -> str:
    """Return the text that makes a class in the sandbox. A function can stay with the grader, but a PyTorch module cannot.

    The text is the class, what it uses of its file, and the file's imports from other packages. A class of
    `solutions` is sent only if the notebook gives it to students. Then the text is this class and the imports.
    """
    module = inspect.getmodule(replacement_class)
    parts = ast.parse(inspect.getsource(module)).body
    named = {part.name: part for part in parts if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    needed, waiting = set(), {replacement_class.__name__}
    while waiting:
        needed |= waiting
        used = {node.id for name in waiting for node in ast.walk(named[name]) if isinstance(node, ast.Name)}
        waiting = set() if module.__name__.startswith("solutions") else used & named.keys() - needed
    lines = [ast.unparse(part) for part in parts if isinstance(part, (ast.Import, ast.ImportFrom))]
    lines = [line for line in lines if not line.split()[1].startswith(("solutions", "autograder"))]
    return "\n".join([*lines, *(ast.unparse(part) for name, part in named.items() if name in needed)])


def names_of_arguments(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments; none if it also takes arguments of any name."""
    parameters = inspect.signature(function).parameters.values()
    named = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)
    return [each.name for each in parameters] if named else []


def answer(question: dict[str, Any], size: int, correct: dict[str, Callable[..., Any]]) -> bytes:
    """Answer a question of the student's function with values of an earlier exercise. The question has `size` bytes."""
    try:
        if size > MAX_QUESTION:
            raise ValueError(f"a question has at most {MAX_QUESTION:,} bytes")
        arguments, keywords = question["arguments"], question["keywords"]
        if _product([*arguments, *keywords.values()]) > MAX_PRODUCT:
            raise ValueError(f"the values of a question may make at most {MAX_PRODUCT:,} numbers together")
        function = correct[question["question"]]
        if "gradients" in question:
            return wire.dumps({"value": _gradients(function, arguments, keywords, question["gradients"])})
        return wire.dumps({"value": function(*arguments, **keywords)})
    except Exception as error:
        return wire.dumps({"error": str(error)[:500]})


def _gradients(
    function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any], gradients: list[Any]
) -> list[Any]:
    """Carry gradients of a correct answer's results back to its arguments; None for other values than real tensors."""
    import torch  # importing it takes seconds, and students who check a notebook would wait for it

    values = [*arguments, *keywords.values()]
    leaves = [value.requires_grad_() for value in values if getattr(value, "is_floating_point", bool)()]
    with torch.enable_grad():  # autograd switches gradients off in the backward pass
        results = function(*arguments, **keywords)
        results = results if isinstance(results, tuple) else (results,)
        pairs = zip(results, gradients, strict=True)
        # A sum as in `inside._backward`. A gradient larger than its result is an error, and is not broadcast.
        total = sum((result * gradient.expand_as(result)).sum() for result, gradient in pairs)
    at_leaves = torch.autograd.grad(total, leaves, allow_unused=True)
    of_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, at_leaves, strict=True)}
    return [of_leaf.get(id(value)) for value in values]


def _product(values: list[Any]) -> int:
    """Return how many numbers a function may make of some values.

    The bound is the size of products of the arrays, with leading axes broadcast, times each whole number. A whole
    number may be a number of heads. A list counts as the array that it may become.
    """
    shapes = [_shape(value) for value in values]
    leading = zip_longest(*(shape[-3::-1] for shape in shapes), fillvalue=1)
    width = max((size for shape in shapes for size in shape[-2:]), default=1)
    return math.prod(map(max, leading)) * max(width, 1) ** 2 * math.prod(map(_number, values))


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of the largest array that can be made of a value; an empty axis counts as one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        parts = zip_longest(*(_shape(item)[::-1] for item in value), fillvalue=1)
        return (max(len(value), 1), *[max(sizes) for sizes in parts][::-1])
    if isinstance(value, str):
        return (max(len(value), 1),)
    return tuple(max(size, 1) for size in getattr(value, "shape", ()))


def _number(value: Any) -> int:
    """Return the factor by which a value may enlarge a result: a whole number, or the product of those in a list."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return math.prod(map(_number, value))
    if isinstance(value, int):
        return max(abs(value), 1)
    if math.prod(getattr(value, "shape", (0,))) != 1:
        return 1
    whole = str(value.dtype).removeprefix("torch.").startswith(("int", "uint"))
    return max(abs(int(value)), 1) if whole else 1

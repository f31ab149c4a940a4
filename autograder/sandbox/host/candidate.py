"""Answer a student's test that calls its candidate: the candidate is a function of the grader, and stays here."""

from collections.abc import Callable
from typing import Any

from autograder.sandbox.guest import wire

MAX_QUESTION = 2**20  # bytes of one call of a candidate


def reply(question: dict[str, Any], size: int, candidate: Callable[..., Any]) -> bytes:
    """Return a reply with the candidate's value, with gradients, or with an error's text.

    Args:
        question: The arguments of the call; with "gradients", the gradients of its results.
        size: The bytes of the question.
        candidate: A function that bounds its own work.
    """
    try:
        if size > MAX_QUESTION:
            raise ValueError(f"the arguments of a call take {size:,} bytes; at most {MAX_QUESTION:,} are allowed")
        arguments, keywords = question["arguments"], question["keywords"]
        if "gradients" in question:
            return wire.dumps({"value": _gradients(candidate, arguments, keywords, question["gradients"])})
        return wire.dumps({"value": candidate(*arguments, **keywords)})
    except Exception as error:
        return wire.dumps({"error": str(error)[:500]})


def _gradients(
    candidate: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any], gradients: list[Any]
) -> list[Any]:
    """Carry gradients of a call's results back to its arguments; None for other values than real tensors."""
    import torch  # importing it takes seconds, and students who check a notebook would wait for it

    values = [*arguments, *keywords.values()]
    leaves = [value.requires_grad_() for value in values if getattr(value, "is_floating_point", bool)()]
    with torch.enable_grad():  # autograd switches gradients off in the backward pass
        results = candidate(*arguments, **keywords)
        results = results if isinstance(results, tuple) else (results,)
        pairs = zip(results, gradients, strict=True)
        # The sum of the products has the same gradients. If autograd got the gradients themselves, it would import SymPy,
        # which takes half a second. A gradient larger than its result is an error, and is not broadcast.
        total = sum((result * gradient.expand_as(result)).sum() for result, gradient in pairs)
    at_leaves = torch.autograd.grad(total, leaves, allow_unused=True)
    of_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, at_leaves, strict=True)}
    return [of_leaf.get(id(value)) for value in values]

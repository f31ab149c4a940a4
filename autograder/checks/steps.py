"""The steps of a softmax and of attention, which several assignments share. The key of a step is its text in a message.

A step is an array, or a tuple with three parts: an array, "+" or "*", and an axis. A tuple means that the steps after it
stay the same if a number is added to each row along the axis ("+"), or if a number multiplies each row ("*").
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch

Array = np.ndarray
Steps = dict[str, Array | tuple[Array, str, int]]


def swap(array: Array) -> Array:
    """Transpose the last two axes."""
    return np.swapaxes(array, -1, -2)


@np.errstate(all="ignore")
def softmax(scores: Array, axis: int = -1) -> Steps:
    """Return the steps of a softmax."""
    scores = np.array(scores, dtype=float)
    shifted = scores - scores.max(axis=axis, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=axis, keepdims=True)
    return {
        "are the shifted scores": (shifted, "+", axis),
        "are the exponentials": (exponentials, "*", axis),
        "are the sums of the exponentials": sums,
        "are the log-sum-exps of the scores": np.log(sums) + scores.max(axis=axis, keepdims=True),
        "are the weights": exponentials / sums,
    }


@np.errstate(all="ignore")
def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> Steps:
    """Return the steps of attention; none if the widths differ."""
    if queries.shape[-1] != keys.shape[-1]:
        return {}
    products = queries @ swap(keys)
    scores = products / np.sqrt(queries.shape[-1])
    steps: Steps = {"are the products of queries and keys": products, "are the scaled scores": (scores, "+", -1)}
    if mask is not None:
        open_steps = softmax(scores)
        steps["are the exponentials without the mask"] = open_steps["are the exponentials"]
        steps["are the weights without the mask"] = open_steps["are the weights"]
        scores = np.where(mask, scores, -np.inf)
        steps["are the scores with -inf for hidden keys"] = (scores, "+", -1)
    steps |= softmax(scores)
    return steps | {"is the output": steps["are the weights"] @ values}


def arrays(steps: dict[str, Any]) -> Steps:
    """Convert the tensors of steps to arrays."""
    return {
        text: step.detach().double().numpy() if isinstance(step, torch.Tensor) else step for text, step in steps.items()
    }


def in_float64(steps: Callable[..., Steps | None]) -> Callable[..., Steps | None]:
    """Compute steps with float64 as PyTorch's default type. The result is None if a case has no steps."""

    @wraps(steps)
    def computed(*arguments: Any) -> Steps | None:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                return steps(*arguments)
        finally:
            torch.set_default_dtype(before)

    return computed


def no_steps(*_arguments: Any) -> Steps:
    """Return no steps: an answer in one step has only its result."""
    return {}

"""The steps of the exercises of assignment 2_multihead; `autograder/checks/steps.py` says what a step is."""

import numpy as np
import torch
from attention_tests import multihead as asks

from autograder.checks import steps
from autograder.checks.multihead import oracles, stand_ins
from autograder.checks.steps import Array, Steps, arrays, in_float64

FORWARD = ("output", "weights", "gradient")  # the values of `what` for which there are steps


def bilinear(x: Array, w: Array, y: Array, *_asked: str) -> Steps:
    return {"are the products of x and w": x @ w, "are the products of y and wᵀ": y @ w.T}


def attend(q: Array, k: Array, v: Array, mask: Array | None = None, *_asked: str) -> Steps:
    if isinstance(mask, str):
        mask = None
    if mask is not None:
        mask = stand_ins.with_axes(torch.from_numpy(mask)).numpy()
    q, k, v = (np.asarray(array, dtype=float) for array in (q, k, v))
    return steps.attention(q, k, v, mask)


@in_float64
def multi_head_attention(what: str, sizes: dict, seed: int, x: Array, mask: Array | None = None) -> Steps | None:
    if what not in FORWARD:
        return None
    layer = asks.fill(oracles.MultiHeadAttention(**sizes), seed)
    packed = layer.qkv(asks.tensor(x))  # (B, N, 3 D)
    q, k, v = (stand_ins.split_heads(part, layer.num_heads) for part in packed.chunk(3, dim=-1))
    inside = attend(q.numpy(), k.numpy(), v.numpy(), mask)
    mixed = torch.from_numpy(inside.pop("is the output"))
    merged = stand_ins.merge_heads(mixed)
    all_steps = {
        "are the queries, keys and values, packed": packed,
        "are the queries of all heads": q,
        "are the keys of all heads": k,
        "are the values of all heads": v,
        **inside,
        "are the mixed values of each head": mixed,
        "are the merged heads": merged,
        "is the output": layer.out(merged),
    }
    return arrays(all_steps)

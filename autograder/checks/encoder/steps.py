"""The steps of the exercises of assignment 3_encoder; `autograder/checks/steps.py` says what a step is."""

import numpy as np
import torch
import torch.nn.functional as F
from attention_tests import encoder as asks

from autograder.checks.encoder import oracles, stand_ins
from autograder.checks.steps import Array, Steps, arrays, in_float64

FORWARD = ("output", "learning")  # the values of `what` for which there are steps


@in_float64
def layer_norm(what: str, x: Array, eps: float | None = None, seed: int = 0) -> Steps | None:
    if what not in FORWARD:
        return None
    x = asks.tensor(x)
    norm = stand_ins.LayerNorm(x.shape[-1], *([] if eps is None else [eps]))
    asks.load(norm, asks.NORM, seed)
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    deviation = torch.sqrt(variance + norm.eps)
    return arrays(
        {
            "are the means of the tokens": mean,
            "are the centred tokens": centred,
            "are the squares of the tokens": x.square(),
            "are the means of the squares": x.square().mean(dim=-1, keepdim=True),
            "are the squares of the centred tokens": centred.square(),
            "are the variances": variance,
            "are the variances with eps": variance + norm.eps,
            "are the standard deviations": deviation,
            "are the inverses of the standard deviations": 1 / deviation,
            "are the normalised tokens": centred / deviation,
            "are the scaled centred tokens": norm.scale * centred,
            "are the scaled normalised tokens": norm.scale * centred / deviation,
            "is the output": norm(x),
        }
    )


@in_float64
def feed_forward(what: str, x: Array, hidden_width: int, dropout: float = 0.0, seed: int = 0) -> Steps | None:
    if what not in FORWARD:
        return None
    x = asks.tensor(x)
    module = stand_ins.FeedForward(x.shape[-1], hidden_width)
    asks.load(module, asks.FEED_FORWARD, seed)
    hidden = module.expand(x)
    activations = F.gelu(hidden)
    return arrays(
        {
            "are the hidden activations before the GELU": hidden,
            "are the hidden activations": activations,
            "is the output": module.contract(activations),
        }
    )


def _of_block(
    block: stand_ins.Layer, x: torch.Tensor, mask: torch.Tensor | None, which: str
) -> dict[str, torch.Tensor]:
    normed = block.norm1(x)
    hidden = stand_ins.hidden_pairs(mask, block.self_attn.num_heads)
    attended = block.self_attn(normed, normed, normed, attn_mask=hidden, need_weights=False)[0]
    first = x + attended
    normed_again = block.norm2(first)
    expanded = block.linear1(normed_again)
    added = block.linear2(F.gelu(expanded))
    return {
        f"are the normalised tokens that attention reads{which}": normed,
        f"is the result of attention{which}": attended,
        f"is the stream after attention{which}": first,
        f"are the normalised tokens that the feed-forward network reads{which}": normed_again,
        f"are the hidden activations before the GELU{which}": expanded,
        f"are the hidden activations{which}": F.gelu(expanded),
        f"is the result of the feed-forward network{which}": added,
        f"is the stream after the feed-forward network{which}": first + added,
    }


@in_float64
def encoder_block(
    what: str,
    x: Array,
    num_heads: int,
    hidden_width: int,
    mask: Array | None = None,
    dropout: float = 0.0,
    seed: int = 0,
) -> Steps | None:
    if what not in FORWARD:
        return None
    x = asks.tensor(x)
    block = stand_ins.EncoderBlock(x.shape[-1], num_heads, hidden_width).eval()
    asks.load(block, asks.BLOCK, seed)
    return arrays(_of_block(block, x, asks.tensor(mask), ""))


@in_float64
def encoder(
    what: str,
    x: Array,
    depth: int,
    num_heads: int,
    hidden_width: int,
    mask: Array | None = None,
    dropout: float = 0.0,
    seed: int = 0,
) -> Steps | None:
    if what not in FORWARD:
        return None
    stream, mask = asks.tensor(x), asks.tensor(mask)
    module = oracles.Encoder(depth, stream.shape[-1], num_heads, hidden_width).eval()
    asks.load(module, asks.encoder_names(depth), seed)
    steps = {}
    for number, block in enumerate(module.blocks, 1):
        last = _of_block(block, stream, mask, f" of block {number}")
        *_, stream = last.values()
        steps |= last | {f"is the stream after block {number}": stream}
    return arrays(steps | {"is the output": module.norm(stream)})


@in_float64
def rope(x: Array, positions: Array, *others: float | str) -> Steps | None:
    base = next((other for other in others if not isinstance(other, str)), 10_000.0)
    width = x.shape[-1]
    if width % 2:
        return None
    frequencies = base ** (-np.arange(0, width, 2) / width)
    angles = np.asarray(positions, dtype=float)[..., None] * frequencies
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = (np.asarray(x[..., start::2], dtype=float) for start in (0, 1))
    return {
        "are the frequencies": frequencies,
        "are the angles": angles,
        "are the cosines": cos,
        "are the sines": sin,
        "are the first coordinates times the cosines": first * cos,
        "are the second coordinates times the sines": second * sin,
        "are the first coordinates times the sines": first * sin,
        "are the second coordinates times the cosines": second * cos,
        "are the rotated first coordinates": first * cos - second * sin,
        "are the rotated second coordinates": first * sin + second * cos,
    }

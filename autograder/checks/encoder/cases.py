"""The cases of assignment 3_encoder, for the hidden stages and the visible tests. A seed decides the hidden cases."""

import numpy as np

from autograder.checks.encoder.mistakes import MISTAKES
from autograder.checks.masks import draw_mask
from autograder.judge.exercise import Case

# Dropout drops different numbers on different processors. The results of these mistakes do not depend on these numbers.
WHATEVER_IS_DROPPED = ("M29", "M30", "M95", "M98", "M99", "M166")


def spread(rng, *shape):
    """Draw tokens whose means and variances differ from row to row."""
    return rng.normal(size=shape) * rng.uniform(0.5, 2, size=(*shape[:-1], 1)) + rng.normal(size=(*shape[:-1], 1))


def eighths(rng, *shape):
    """Draw numbers that are exact in float16, and in float32 when 1000 is added."""
    return np.round(8 * rng.normal(size=shape)) / 8


# ----------------------------------------------------------------------------------------------------------- LayerNorm


def layer_norm_edges(rng):
    constant = np.repeat(rng.normal(size=(3, 1)), 4, axis=-1)
    tiny = 0.003 * rng.normal(size=(2, 5, 6))
    return [
        Case("a width of 2", ("output", spread(rng, 3, 2), 0.2, 8)),
        Case("tokens with equal components", ("output", constant, 1e-5, 9)),
        Case("a width of 1", ("output", spread(rng, 3, 1), 1e-3, 9)),
        Case("the default eps", ("output", tiny, None, 10)),
        Case("components near 1000", ("far", eighths(rng, 3, 8), 0.01), has_line=False),
        Case("float16", ("half", 32 * eighths(rng, 2, 3, 128), 1e-3), has_line=False),
    ]


LAYER_NORM = {
    # The first has as many tokens as components: mistakes give the right shape, and can be named.
    "values": lambda rng: [
        Case("as many tokens as components", ("output", spread(rng, 5, 5), 0.1, 1)),
        Case("a batch of tokens", ("output", spread(rng, 2, 5, 4), 0.5, 2)),
        Case("a batch of heads", ("output", spread(rng, 2, 3, 4, 6), 1e-5, 3)),
        Case("a single token", ("output", spread(rng, 3), 0.3, 4)),
        Case("one image, one token", ("output", spread(rng, 1, 1, 7), 2.0, 5)),
    ],
    "learning": lambda rng: [
        Case("initial scale and shift", ("fresh", spread(rng, 2, 5, 4), 0.1)),
        Case("as many tokens as components", ("learning", spread(rng, 4, 4), 0.2, 6)),
        Case("a batch of tokens", ("learning", spread(rng, 3, 5, 7), 0.4, 7)),
    ],
    "edges": layer_norm_edges,
}


def layer_norm_visible(rng):
    square = np.array([[1.0, 2.0, 6.0], [0.0, 1.0, 2.0], [5.0, 3.0, 1.0]])
    batch = np.array([[[1.0, 3.0], [0.0, 4.0], [2.0, 2.5]]])
    return [
        Case("three tokens, three components, eps 0.1", ("output", square, 0.1, 1)),
        Case("a batch of one image, eps 0.5", ("output", batch, 0.5, 2)),
        Case("initial scale and shift", ("fresh", square[:2])),
        Case("gradients", ("learning", square, 0.1, 3)),
        Case("components near 1000", ("far", np.array([[0.0, 0.5, 0.25, -0.75]]), 0.01), has_line=False),
        Case("float16", ("half", np.tile([[96.0, -32.0, 64.0, 0.0]], (2, 32)), 1e-3), has_line=False),
    ]


# --------------------------------------------------------------------------------------------------------- FeedForward


FEED_FORWARD = {
    "values": lambda rng: [
        Case("a batch of tokens", ("output", rng.normal(size=(2, 5, 4)), 6, 0.0, 1)),
        Case("more components than hidden ones", ("output", rng.normal(size=(3, 4, 7)), 5, 0.0, 2)),
        Case("one image, one token", ("output", rng.normal(size=(1, 1, 3)), 8, 0.0, 3)),
        Case(
            "a batch of tokens, gradients and learned parameters", ("learning", rng.normal(size=(2, 5, 4)), 6, 0.0, 4)
        ),
        Case("initial parameters", ("fresh", rng.normal(size=(2, 3, 50)), 70)),
    ],
    "dropout": lambda rng: [
        Case("dropout of 0.2", ("dropout", rng.normal(size=(2, 5, 4)), 6, 0.2), tells=WHATEVER_IS_DROPPED),
        Case("dropout of 0.1", ("dropout", rng.normal(size=(2, 3, 5)), 7, 0.1), tells=WHATEVER_IS_DROPPED),
    ],
}


def feed_forward_visible(rng):
    x = np.array([[[1.0, -2.0, 0.5], [0.0, 1.0, 2.0]]])
    return [
        Case("two tokens of width 3, hidden width 5", ("output", x, 5)),
        Case("gradients", ("learning", x, 5)),
        Case("initial parameters", ("fresh", np.zeros((1, 1, 50)), 70)),
        Case("dropout of 0.2", ("dropout", x, 5, 0.2), tells=WHATEVER_IS_DROPPED),
    ]


# -------------------------------------------------------------------------------------------------------- EncoderBlock


ENCODER_BLOCK = {
    "values": lambda rng: [
        Case("2 images, 5 tokens, 3 heads", ("output", spread(rng, 2, 5, 12), 3, 7, None, 0.0, 1)),
        Case("4 images, 3 tokens, 2 heads", ("output", spread(rng, 4, 3, 6), 2, 9, None, 0.0, 2)),
        Case("one image, one token, one head", ("output", spread(rng, 1, 1, 5), 1, 3, None, 0.0, 3)),
    ],
    "learning": lambda rng: [
        Case("gradients and learned parameters", ("learning", spread(rng, 2, 5, 12), 3, 7, None, 0.0, 4)),
        Case("initial parameters", ("fresh", spread(rng, 2, 3, 48), 4, 64)),
    ],
    # Everything else in the block must be right too.
    "masks": lambda rng: [
        Case("a mask of tokens", ("output", spread(rng, 2, 5, 12), 3, 7, draw_mask(rng, 2, 5), 0.0, 5)),
        Case("a mask of pairs", ("output", spread(rng, 2, 5, 12), 3, 7, draw_mask(rng, 2, 5, 5), 0.0, 6)),
        Case("a mask for each head", ("output", spread(rng, 3, 4, 10), 2, 6, draw_mask(rng, 3, 2, 4, 4), 0.0, 7)),
        Case("as many images as heads", ("output", spread(rng, 2, 5, 6), 2, 7, draw_mask(rng, 2, 5, 5), 0.0, 8)),
    ],
    "dropout": lambda rng: [
        Case("dropout of 0.2", ("dropout", spread(rng, 2, 6, 12), 3, 7, None, 0.2, 8), tells=WHATEVER_IS_DROPPED),
        Case("dropout of 0.4", ("dropout", spread(rng, 3, 5, 8), 2, 11, None, 0.4, 9), tells=WHATEVER_IS_DROPPED),
    ],
}


def block_visible(rng):
    x = np.round(spread(rng, 2, 5, 6), 2)
    mask = np.array([[True, True, False, True, True], [False, True, True, False, False]])
    return [
        Case("2 images, 5 tokens, 3 heads", ("output", x, 3, 7)),
        Case("a mask of tokens", ("output", x, 3, 7, mask)),
        Case("gradients", ("learning", x[:, :2], 3, 7)),
        Case("initial parameters", ("fresh", np.zeros((1, 1, 48)), 4, 64)),
        Case("dropout of 0.2", ("dropout", x, 3, 7, None, 0.2), tells=WHATEVER_IS_DROPPED),
    ]


# ------------------------------------------------------------------------------------------------------------- Encoder


ENCODER = {
    "values": lambda rng: [
        Case("depth 4", ("output", spread(rng, 2, 5, 12), 4, 3, 7, None, 0.0, 1)),
        Case("depth 2, one image, one token", ("output", spread(rng, 1, 1, 6), 2, 2, 9, None, 0.0, 2)),
        Case("depth 3, more images than tokens", ("output", spread(rng, 5, 2, 8), 3, 4, 6, None, 0.0, 3)),
    ],
    "learning": lambda rng: [
        Case("gradients and learned parameters", ("learning", spread(rng, 2, 5, 12), 4, 3, 7, None, 0.0, 4)),
        Case("initial parameters", ("fresh", spread(rng, 2, 3, 48), 3, 4, 64)),
    ],
    "hand_on": lambda rng: [
        Case("a mask of tokens", ("output", spread(rng, 2, 5, 12), 4, 3, 7, draw_mask(rng, 2, 5), 0.0, 5)),
        Case("a mask for each head", ("output", spread(rng, 3, 4, 10), 2, 5, 6, draw_mask(rng, 3, 5, 4, 4), 0.0, 6)),
        Case("dropout of 0.2", ("dropout", spread(rng, 2, 6, 12), 4, 3, 7, None, 0.2, 7), tells=WHATEVER_IS_DROPPED),
    ],
}


def encoder_visible(rng):
    x = np.round(spread(rng, 2, 5, 6), 2)
    mask = np.array([[True, True, False, True, True], [False, True, True, False, False]])
    return [
        Case("depth 3, 2 images, 5 tokens", ("output", x, 3, 1, 7)),
        Case("a mask of tokens", ("output", x, 4, 3, 7, mask)),
        Case("gradients", ("learning", x[:, :2], 4, 3, 7)),
        Case("initial parameters", ("fresh", np.zeros((1, 1, 48)), 3, 4, 64)),
        Case("dropout of 0.2", ("dropout", x, 4, 3, 7, None, 0.2), tells=WHATEVER_IS_DROPPED),
    ]


# -------------------------------------------------------------------------------------------------------------- repair


def repair(what, rng):
    """Draw cases. All sizes of a case differ, and the seed of its tokens is random."""
    seed, depth = int(rng.integers(2**31)), 4 if what in ("activations", "gradients") else 2
    # A loss cannot distinguish equal parameters (M122) from norms of scale 0 (M110); other checks can.
    tells = {mistake.name for mistake in MISTAKES} - {"M110", "M122"} if what == "loss" else ()
    return [
        Case("width 48, hidden width 80", (what, (3, 7, 48), 4, 80, depth, seed), tells=tuple(tells)),
        Case("width 96, hidden width 64", (what, (2, 5, 96), 3, 64, depth, seed), tells=tuple(tells)),
    ]


def repair_visible(rng):
    titles = {"block": "the block", "tokens": "tokens and images", "activations": "activations"}
    titles |= {"gradients": "gradients", "loss": "a small set"}
    return [Case(title, (what, (3, 7, 32), 4, 48, 3)) for what, title in titles.items()]


# ---------------------------------------------------------------------------------------------------------------- rope


def points(rng, *shape):
    """Draw queries that are exact in float32, so that rounding does not look like a change in place."""
    return rng.normal(size=shape).astype(np.float32)


ROPE = {
    "values": lambda rng: [
        Case("6 tokens of width 8", (points(rng, 6, 8), np.arange(6.0))),
        Case("5 tokens of width 2", (points(rng, 5, 2), np.arange(5.0))),
        Case("positions in another order", (points(rng, 4, 6), rng.permutation(12)[:4].astype(float))),
        Case("base 100", (points(rng, 7, 4), np.arange(3.0, 10), 100.0)),
    ],
    "axes": lambda rng: [
        Case("a batch of heads", (points(rng, 2, 3, 5, 4), np.arange(5.0))),
        Case(
            "other positions for each image",
            (points(rng, 2, 3, 4, 6), rng.permutation(np.arange(8.0)).reshape(2, 1, 4)),
        ),
        Case("positions that are fractions or below 0", (points(rng, 5, 8), 3 * rng.normal(size=5))),
        Case("gradients", (points(rng, 3, 4), np.arange(3.0), "gradient")),
        Case("an odd width", (points(rng, 4, 5), np.arange(4.0))),
    ],
}


def rope_visible(rng):
    x = np.array([[1.0, 0.0, 2.0, -1.0], [0.0, 1.0, 1.0, 1.0], [2.0, 1.0, 0.0, 3.0]])
    return [
        Case("3 tokens of width 4", (x, np.arange(3.0))),
        Case("positions in another order", (x, np.array([2.0, 5.0, 1.0]))),
        Case("base 10", (x, np.array([1.0, 0.5, 3.0]), 10.0)),
        Case("2 images", (np.stack([x, x[::-1]]), np.arange(3.0))),
        Case("an odd width", (x[:, :3], np.arange(3.0))),
        Case("gradients", (x, np.arange(3.0), "gradient")),
    ]

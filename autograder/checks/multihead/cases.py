"""The cases of assignment 2_multihead: the arguments with which hidden stages and visible tests call each function.

All sizes in a case differ, unless a mistake is visible only if two sizes are equal. A case with equal
sizes comes before the others, because in the others the same mistake raises an error and cannot be named.

Half precision is judged without a mask: well-known code hides keys with -1e9, which is right in float32 and too large
for half precision.
"""

import numpy as np

from autograder.checks.attention.cases import blank_first, far_apart
from autograder.checks.masks import draw_mask, draw_one
from autograder.judge.exercise import Case

Array = np.ndarray


def draw(rng, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def whole(rng, *shape: int) -> Array:
    """Draw small whole numbers, for tests that a student can follow."""
    return rng.integers(-3, 4, size=shape).astype(float)


# ------------------------------------------------------------------------------------------------------ one einsum each


def matmul(rng):
    return [
        Case("square matrices", (draw(rng, 4, 4), draw(rng, 4, 4))),
        Case("(3, 4) times (4, 5)", (draw(rng, 3, 4), draw(rng, 4, 5))),
        Case("(5, 2) times (2, 3)", (draw(rng, 5, 2), draw(rng, 2, 3))),
        Case("gradients", (draw(rng, 3, 4), draw(rng, 4, 2), "gradient")),
    ]


def matmul_visible(rng):
    return [
        Case("square matrices", (np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [1.0, -1.0]]))),
        Case("(2, 3) times (3, 4)", (whole(rng, 2, 3), whole(rng, 3, 4))),
        Case("gradients", (whole(rng, 2, 3), whole(rng, 3, 4), "gradient")),
    ]


def matmul_transposed(rng):
    return [
        Case("square matrices", (draw(rng, 4, 4), draw(rng, 4, 4))),
        Case("(3, 4) times the transpose of (5, 4)", (draw(rng, 3, 4), draw(rng, 5, 4))),
        Case("(5, 2) times the transpose of (3, 2)", (draw(rng, 5, 2), draw(rng, 3, 2))),
        Case("gradients", (draw(rng, 3, 4), draw(rng, 2, 4), "gradient")),
    ]


def matmul_transposed_visible(rng):
    return [
        Case("square matrices", (np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [1.0, -1.0]]))),
        Case("(2, 3) times the transpose of (4, 3)", (whole(rng, 2, 3), whole(rng, 4, 3))),
        Case("gradients", (whole(rng, 2, 3), whole(rng, 4, 3), "gradient")),
    ]


def batched_trace(rng):
    return [
        Case("three matrices of 4 rows", (draw(rng, 3, 4, 4),)),
        Case("five matrices of 2 rows", (draw(rng, 5, 2, 2),)),
        Case("one matrix", (draw(rng, 1, 3, 3),)),
        Case("gradients", (draw(rng, 2, 3, 3), "gradient")),
    ]


def batched_trace_visible(rng):
    return [
        Case("two matrices of three rows", (whole(rng, 2, 3, 3),)),
        Case("gradients", (whole(rng, 2, 3, 3), "gradient")),
    ]


def pairwise_dot(rng):
    return [
        Case("as many queries as keys and components", (draw(rng, 3, 4, 4), draw(rng, 3, 4, 4))),
        Case("as many queries as keys", (draw(rng, 3, 5, 4), draw(rng, 3, 5, 4))),
        Case("4 queries, 5 keys", (draw(rng, 2, 4, 3), draw(rng, 2, 5, 3))),
        Case("gradients", (draw(rng, 2, 4, 3), draw(rng, 2, 5, 3), "gradient")),
    ]


def pairwise_dot_visible(rng):
    return [
        Case("two images, three queries, three keys of width 3", (whole(rng, 2, 3, 3), whole(rng, 2, 3, 3))),
        Case("two images, three queries, five keys", (whole(rng, 2, 3, 4), whole(rng, 2, 5, 4))),
        Case("gradients", (whole(rng, 2, 3, 4), whole(rng, 2, 5, 4), "gradient")),
    ]


def bilinear(rng):
    return [
        Case("as many tokens, and equal widths", (draw(rng, 2, 4, 3), draw(rng, 3, 3), draw(rng, 2, 4, 3))),
        Case("all sizes different", (draw(rng, 2, 4, 3), draw(rng, 3, 6), draw(rng, 2, 5, 6))),
        Case("as many tokens", (draw(rng, 3, 4, 5), draw(rng, 5, 2), draw(rng, 3, 4, 2))),
        Case("gradients", (draw(rng, 2, 4, 3), draw(rng, 3, 6), draw(rng, 2, 5, 6), "gradient")),
    ]


def bilinear_visible(rng):
    return [
        Case("two images, equal widths", (whole(rng, 2, 4, 3), whole(rng, 3, 3), whole(rng, 2, 4, 3))),
        Case("all sizes different", (whole(rng, 2, 4, 3), whole(rng, 3, 6), whole(rng, 2, 5, 6))),
        Case("gradients", (whole(rng, 2, 4, 3), whole(rng, 3, 6), whole(rng, 2, 5, 6), "gradient")),
    ]


# --------------------------------------------------------------------------------------------- split_heads, merge_heads


def split_heads_values(rng):
    return [
        Case("3 images, 5 tokens, 4 heads of width 2", (draw(rng, 3, 5, 8), 4)),
        Case("2 images, 4 tokens, 3 heads of width 5", (draw(rng, 2, 4, 15), 3)),
    ]


def split_heads_sizes(rng):
    return [
        Case("as many heads as tokens, 2 images, width 3", (draw(rng, 2, 4, 12), 4)),
        Case("one token", (draw(rng, 3, 1, 10), 2), tells=("M81",)),
        Case("one image", (draw(rng, 1, 5, 12), 4), tells=("M81",)),
        Case("one head", (draw(rng, 3, 4, 5), 1), tells=("M81",)),
        Case("heads of width 1", (draw(rng, 3, 4, 5), 5), tells=("M81",)),
        Case("gradients", (draw(rng, 2, 3, 8), 4, "gradient")),
    ]


def split_heads_visible(rng):
    return [
        Case("1 image, 2 tokens, 3 heads of width 2", (np.arange(12.0).reshape(1, 2, 6), 3)),
        Case("2 images, 3 tokens, 4 heads of width 2", (np.arange(48.0).reshape(2, 3, 8) / 4, 4)),
        Case("gradients", (np.arange(48.0).reshape(2, 3, 8) / 4, 4, "gradient")),
    ]


def merge_heads_values(rng):
    return [
        Case("3 images, 4 heads, 5 tokens, width 2", (draw(rng, 3, 4, 5, 2),)),
        Case("2 images, 3 heads, 4 tokens, width 5", (draw(rng, 2, 3, 4, 5),)),
    ]


def merge_heads_sizes(rng):
    return [
        Case("as many heads as tokens, 2 images, width 3", (draw(rng, 2, 4, 4, 3),)),
        Case("one token", (draw(rng, 3, 2, 1, 5),), tells=("M81",)),
        Case("one image", (draw(rng, 1, 4, 5, 3),), tells=("M81",)),
        Case("one head", (draw(rng, 3, 1, 4, 5),), tells=("M81",)),
        Case("heads of width 1", (draw(rng, 3, 5, 4, 1),), tells=("M81",)),
        Case("gradients", (draw(rng, 2, 4, 3, 2), "gradient")),
    ]


def merge_heads_visible(rng):
    return [
        Case("1 image, 3 heads, 2 tokens, width 2", (np.arange(12.0).reshape(1, 3, 2, 2),)),
        Case("2 images, 4 heads, 3 tokens, width 2", (np.arange(48.0).reshape(2, 4, 3, 2) / 4,)),
        Case("gradients", (np.arange(48.0).reshape(2, 4, 3, 2) / 4, "gradient")),
    ]


# --------------------------------------------------------------------------------------------------------------- attend


def qkv(rng, images: int, heads: int, tokens: int, width: int):
    """Draw queries, keys and values; the scaled scores have a std of about 1.5."""
    return tuple(factor * draw(rng, images, heads, tokens, width) for factor in (np.float32(1.5), 1, 1))


def whole_qkv(rng, images: int, heads: int, tokens: int, width: int):
    return tuple(whole(rng, images, heads, tokens, width) for _ in range(3))


def hidden_keys_first(q: Array, k: Array, v: Array, mask: Array):
    """Raise the scores of hidden keys by 150. The mask must have shape (B, N), and the width must be 4."""
    q[..., 0], k[..., 0] = 10, np.where(mask, 0, 30)[:, None]
    return q, k, v, mask


def in_half(rng, images: int, heads: int, tokens: int):
    """Draw queries whose score for one key is the highest by at least 20: all weights are 0 or 1, in half precision too.

    Keys are different rows of signs. A query is one of these keys times 20. Its score for this key is 40, and for any
    other key at most 20. exp(40) is far above 65504, the largest number of half precision.
    """
    rows = rng.permuted(np.tile(np.arange(16), (images, heads, 1)), axis=-1)[..., :tokens]
    k = 1 - 2.0 * (rows[..., None] >> np.arange(4) & 1)  # (B, H, N, 4)
    liked = rng.integers(tokens, size=(images, heads, tokens, 1))
    q = 20 * np.take_along_axis(k, liked, axis=2)
    return tuple(array.astype(np.float16) for array in (q, k, rng.integers(-8, 9, size=k.shape)))


def without_a_key(rng, *shape: int) -> Array:
    """Draw a mask that hides all keys from one query; a mask of keys hides all keys of one image."""
    mask = draw_mask(rng, *shape)
    mask[{2: (1,), 3: (1, 2), 4: (1, 1, 2)}[len(shape)]] = False
    return mask


def attend_weights(rng):
    return [
        Case("2 images, 3 heads, 5 tokens, width 4", qkv(rng, 2, 3, 5, 4), only=("weights",)),
        Case("4 images, 2 heads, 3 tokens, width 7", qkv(rng, 4, 2, 3, 7), only=("weights",)),
    ]


def attend_output(rng):
    return [
        Case("2 images, 3 heads, 5 tokens, width 4", qkv(rng, 2, 3, 5, 4), only=("output",)),
        Case("one token", qkv(rng, 3, 4, 1, 2), only=("output",)),
        Case("one image, as many heads as tokens", qkv(rng, 1, 4, 4, 2), only=("output",)),
    ]


def attend_mask(rng):
    return [
        Case("a mask of pairs, as many images as heads", (*qkv(rng, 3, 3, 5, 4), draw_mask(rng, 3, 5, 5))),
        Case(
            "a mask of keys, as many images as heads and tokens",
            (*qkv(rng, 4, 4, 4, 2), draw_mask(rng, 4, 4)),
            mistake_if_refused="M78",
        ),
        Case("a mask of keys", (*qkv(rng, 2, 3, 5, 4), draw_mask(rng, 2, 5)), mistake_if_refused="M78"),
        Case("a mask of pairs, and queries of zeros", (*blank_first(*qkv(rng, 2, 4, 5, 3)), draw_mask(rng, 2, 5, 5))),
        Case("a mask of pairs for each head", (*qkv(rng, 3, 2, 4, 5), draw_mask(rng, 3, 2, 4, 4))),
        Case("a mask of pairs, scores far apart", (*far_apart(*qkv(rng, 2, 3, 5, 4)), draw_mask(rng, 2, 5, 5))),
        Case(
            "a mask of keys, hidden keys with the largest scores",
            hidden_keys_first(*qkv(rng, 2, 3, 5, 4), draw_mask(rng, 2, 5)),
            mistake_if_refused="M78",
        ),
        Case(
            "one key for each query, with a score that may be far below 0",
            (*far_apart(*qkv(rng, 2, 3, 5, 4), by=2e4), draw_one(rng, 2, 5, 5)),
        ),
    ]


def attend_edges(rng):
    return [
        Case("scores far apart", far_apart(*qkv(rng, 3, 5, 6, 4)), "M3"),
        Case("half precision", in_half(rng, 3, 5, 6), "M3"),
        Case("gradients", (*qkv(rng, 3, 5, 6, 4), "gradient")),
        Case("gradients with a mask", (*qkv(rng, 2, 3, 5, 4), draw_mask(rng, 2, 5, 5), "gradient")),
        Case(
            "a mask that hides all keys from a query",
            (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 5, 5)),
            "M20",
        ),
        Case("an image with no visible key", (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 5)), "M20"),
        Case(
            "a mask that hides all keys from a query in one head",
            (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 3, 5, 5)),
            "M20",
        ),
    ]


def attend_visible(rng):
    rng = np.random.default_rng(7)
    return [
        Case("2 images, 3 heads, 5 tokens, width 4", whole_qkv(rng, 2, 3, 5, 4)),
        Case("a mask of pairs, as many images as heads", (*whole_qkv(rng, 2, 2, 3, 4), draw_mask(rng, 2, 3, 3))),
        Case(
            "a mask of keys, as many images as heads",
            (*whole_qkv(rng, 3, 3, 3, 2), draw_mask(rng, 3, 3)),
            mistake_if_refused="M78",
        ),
        Case("a mask of pairs for each head", (*whole_qkv(rng, 3, 2, 3, 2), draw_mask(rng, 3, 2, 3, 3))),
        Case("gradients", (*whole_qkv(rng, 2, 1, 4, 3), "gradient")),
        Case("gradients with a mask", (*whole_qkv(rng, 2, 1, 3, 4), draw_mask(rng, 2, 3, 3), "gradient")),
        Case(
            "a mask that hides all keys from a query", (*whole_qkv(rng, 2, 1, 3, 4), without_a_key(rng, 2, 3, 3)), "M20"
        ),
        Case("an image with no visible key", (*whole_qkv(rng, 2, 1, 2, 3), without_a_key(rng, 2, 2)), "M20"),
        Case(
            "a mask that hides all keys from a query in one head",
            (*whole_qkv(rng, 2, 2, 3, 2), without_a_key(rng, 2, 2, 3, 3)),
            "M20",
        ),
    ]


# --------------------------------------------------------------------------------------------------- MultiHeadAttention


def sizes_of(num_heads: int, width: int, dropout: float = 0.0):
    """Return the arguments of a layer whose heads have this width."""
    return {"width": num_heads * width, "num_heads": num_heads, **({"dropout": dropout} if dropout else {})}


def layer_case(rng, name: str, what: str, images: int, heads: int, tokens: int, width: int, mask=None):
    x = draw(rng, images, tokens, heads * width)
    return with_mask(name, (what, sizes_of(heads, width), int(rng.integers(2**31)), x), mask)


def with_mask(name: str, arguments: tuple, mask: Array | None) -> Case:
    """Return a case with or without a mask.

    An answer that refuses a mask of keys reads it as a mask of queries, which is mistake M78.
    """
    if mask is None:
        return Case(name, arguments)
    return Case(name, (*arguments, mask), mistake_if_refused="M78" if mask.ndim == 2 else None)


def layer_values(rng):
    return [
        Case("parameters", ("parameters", sizes_of(3, 4), 0, None)),
        layer_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "output", 2, 3, 5, 4),
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "output", 4, 2, 3, 5),
        layer_case(rng, "one token", "output", 3, 2, 1, 4),
        layer_case(rng, "one image", "output", 1, 3, 4, 2),
        layer_case(rng, "one head", "output", 3, 1, 4, 5),
    ]


def layer_weights(rng):
    return [
        layer_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "weights", 2, 3, 5, 4),
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "weights", 4, 2, 3, 5),
        Case("dropout of a half", ("weights in training", sizes_of(3, 4, 0.5), 0, (4, 30, 12)), tells=("M86",)),
    ]


def layer_mask(rng):
    return [
        layer_case(rng, "a mask of pairs, as many images as heads", "weights", 3, 3, 5, 4, draw_mask(rng, 3, 5, 5)),
        layer_case(
            rng, "a mask of keys, as many images as heads and tokens", "weights", 4, 4, 4, 2, draw_mask(rng, 4, 4)
        ),
        layer_case(rng, "a mask of keys", "output", 2, 3, 5, 4, draw_mask(rng, 2, 5)),
        layer_case(rng, "a mask of pairs", "output", 2, 4, 5, 3, draw_mask(rng, 2, 5, 5)),
        layer_case(rng, "a mask of pairs for each head", "output", 3, 2, 4, 5, draw_mask(rng, 3, 2, 4, 4)),
        far_layer_case(rng),
    ]


def far_layer_case(rng):
    """Draw one visible key per image. Many scores are below -10,000, so a score of -10,000 hides no key."""
    return layer_case(rng, "large tokens, one key", "output of large tokens", 2, 3, 5, 4, draw_one(rng, 2, 5))


def layer_gradient(rng):
    return [
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "gradient", 4, 2, 3, 5),
        layer_case(rng, "a mask of pairs", "gradient", 2, 3, 5, 4, draw_mask(rng, 2, 5, 5)),
    ]


DROPOUT_MISTAKES = ("M29", "M30", "M85", "M99")


def layer_dropout(rng):
    """Use many images, so that the spread of a sum of weights or of values is known to a few per cent."""
    return [
        Case("dropout of a fifth", ("dropout", sizes_of(2, 3, 0.2), 0, (300, 8, 6)), tells=DROPOUT_MISTAKES),
        Case("dropout of a half", ("dropout", sizes_of(3, 2, 0.5), 0, (300, 7, 6)), tells=DROPOUT_MISTAKES),
    ]


def layer_visible(rng):
    rng = np.random.default_rng(7)

    def case(name, what, images, heads, tokens, width, mask=None):
        x = whole(rng, images, tokens, heads * width) / 2
        return with_mask(name, (what, sizes_of(heads, width), 1, x), mask)

    return [
        Case("parameters", ("parameters", sizes_of(3, 4), 0, None)),
        case("2 images, 3 heads, 4 tokens, head width 5", "output", 2, 3, 4, 5),
        case("weights", "weights", 2, 3, 4, 2),
        case("a mask of pairs, as many images as heads", "output", 2, 2, 3, 4, draw_mask(rng, 2, 3, 3)),
        case("a mask of keys, as many images as heads", "output", 3, 3, 3, 2, draw_mask(rng, 3, 3)),
        case("a mask of pairs for each head", "output", 3, 2, 4, 2, draw_mask(rng, 3, 2, 4, 4)),
        case("gradients", "gradient", 2, 3, 4, 1),
        Case("dropout of a fifth", ("dropout", sizes_of(2, 3, 0.2), 0, (300, 8, 6)), tells=DROPOUT_MISTAKES),
        Case("dropout of a half", ("weights in training", sizes_of(3, 4, 0.5), 0, (4, 30, 12)), tells=("M86",)),
    ]


# ------------------------------------------------------------------------------------------------------------- to_torch


def converter_case(rng, name: str, what: str, images: int, heads: int, tokens: int, width: int):
    return Case(
        name, (what, sizes_of(heads, width), int(rng.integers(2**31)), draw(rng, images, tokens, heads * width))
    )


def to_torch_parameters(rng):
    return [
        Case("type of the result", ("kind", sizes_of(3, 4), 1, None)),
        Case("parameters of 3 heads", ("parameters", sizes_of(3, 4), int(rng.integers(2**31)), None)),
        Case("parameters of one head", ("parameters", sizes_of(1, 5), int(rng.integers(2**31)), None)),
    ]


def to_torch_output(rng):
    return [
        Case("type of the result", ("kind", sizes_of(2, 3), 1, None)),
        converter_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "output", 2, 3, 5, 4),
        converter_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "output", 4, 2, 3, 5),
    ]


def to_torch_weights(rng):
    return [
        Case("type of the result", ("kind", sizes_of(4, 2), 1, None)),
        converter_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "weights", 2, 3, 5, 4),
        converter_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "weights", 4, 2, 3, 5),
    ]


def to_torch_visible(rng):
    x = whole(np.random.default_rng(7), 2, 5, 12) / 2
    return [
        Case("type of the result", ("kind", sizes_of(3, 4), 1, None)),
        Case("parameters", ("parameters", sizes_of(3, 4), 1, None)),
        Case("parameters of one head", ("parameters", sizes_of(1, 5), 1, None)),
        Case("2 images, 3 heads, 5 tokens, head width 4", ("output", sizes_of(3, 4), 1, x)),
    ]

"""The cases of assignment 1_attention: the inputs on which hidden stages and visible tests judge an answer.

All sizes in a case differ, unless a mistake is visible only if two sizes are equal.
"""

import numpy as np

from autograder.checks.masks import draw_mask, draw_one
from autograder.judge.exercise import Case

Array = np.ndarray


def exact(array: Array) -> Array:
    """Round to eighths, so that large scores are exact in float32 too."""
    return np.round(array * 8) / 8


def plain(rng, *shape: int) -> Array:
    """Draw short numbers for a visible test. None of them is 0 or 1, which could hide a mistake."""
    return rng.choice([-2.0, -1.5, -0.5, 0.5, 1.5, 2.0], size=shape)


def softmax_value_cases(rng):
    return [
        Case("square scores", (rng.normal(size=(4, 4)),)),
        Case("scores of shape (3, 5)", (2 * rng.normal(size=(3, 5)),)),
        Case("scores of shape (2, 3, 4)", (rng.normal(size=(2, 3, 4)),)),
        Case("a single row", (rng.normal(size=6),)),
    ]


def softmax_axis_cases(rng):
    scores = rng.normal(size=(3, 4, 5))
    return [
        Case("axis 0 of a square", (rng.normal(size=(3, 3)), 0)),
        *(Case(f"axis {axis} of three", (scores, axis)) for axis in (0, 1, 2, -1, -2, -3)),
    ]


def softmax_extreme_cases(rng):
    near = exact(rng.normal(size=(3, 4)))
    far = near + np.array([[0.0], [-2000.0], [-5000.0]])
    return [
        Case("one row with scores far below the others", (far,), "M14"),
        Case("scores near 1000", (near + 1000.0,), "M3"),
        Case("scores near -1000", (near - 1000.0,), "M3"),
        Case("scores from -3000 to 3000", (exact(1000 * rng.uniform(-3, 3, size=(4, 5))),), "M3"),
        Case("scores near 90 in float32", ((near + 90).astype(np.float32),), "M3"),
    ]


def softmax_visible_cases(rng):
    apart = np.array([[1000.0, 1001.0], [-1000.0, -998.0], [-900.0, 800.0]])
    return [
        Case("square scores", (plain(rng, 3, 3),)),
        Case("scores of shape (2, 3)", (plain(rng, 2, 3),)),
        Case("axis 0", (plain(rng, 2, 3), 0)),
        Case("axis 1 of three", (plain(rng, 2, 3, 4), 1)),
        Case("scores near 1000, and rows far below", (apart,), "M3"),
    ]


def qkv(rng, *shape: int, n_queries: int, n_keys: int, width: int, value_width: int):
    """Draw queries, keys and values with leading axes of this shape; the scaled scores have a std of about 1.5."""
    return (
        1.5 * rng.normal(size=(*shape, n_queries, width)),
        rng.normal(size=(*shape, n_keys, width)),
        rng.normal(size=(*shape, n_keys, value_width)),
    )


def plain_qkv(rng, *shape: int, n_queries: int, n_keys: int, width: int, value_width: int):
    """Draw queries, keys and values of short numbers."""
    sizes = ((n_queries, width), (n_keys, width), (n_keys, value_width))
    return tuple(plain(rng, *shape, *size) for size in sizes)


def far_apart(queries: Array, keys: Array, values: Array, by: float = 1000.0):
    """Shift the scores of each row by a large number, which does not change the softmax.

    The first component of every key is 1, so the first component of a query is added to all scores of its row. Everything
    is exact in float32 if the width is 4 or 16, because its square root is a power of 2.
    """
    queries, keys = exact(queries), exact(keys)
    keys[..., 0] = 1
    queries[..., 0] = 2 * by * (np.arange(queries.shape[-2]) % 3 - 1)  # adds `-by`, 0 or `by` to the scaled scores
    return queries, keys, values


def blank_first(queries: Array, keys: Array, values: Array):
    """Set the first query to 0: its scores are 0, and a mask must not take them for hidden ones."""
    queries[..., 0, :] = 0
    return queries, keys, values


def hidden_keys_first(queries: Array, keys: Array, values: Array, mask: Array):
    """Raise the scores of hidden keys by 50. The mask must have no axis of queries, and the width must be 4."""
    queries[..., 0], keys[..., 0] = 10, np.where(mask, 0, 10)
    return queries, keys, values, mask


def attention_weight_cases(rng):
    """Return cases. The first has equal sizes: a mistake then gives the right shapes, and can be named."""
    only = ("weights",)
    return [
        Case("as many queries as keys", qkv(rng, n_queries=5, n_keys=5, width=3, value_width=3), only=only),
        Case("4 queries, 6 keys", qkv(rng, n_queries=4, n_keys=6, width=3, value_width=3), only=only),
    ]


def attention_output_cases(rng):
    return [
        Case("as many queries as keys", qkv(rng, n_queries=5, n_keys=5, width=3, value_width=3)),
        Case("values of another width", qkv(rng, n_queries=5, n_keys=5, width=3, value_width=2)),
        Case("5 queries, 4 keys, values of another width", qkv(rng, n_queries=5, n_keys=4, width=7, value_width=2)),
        Case("one query", qkv(rng, n_queries=1, n_keys=4, width=2, value_width=5)),
    ]


def attention_axes_cases(rng):
    return [
        Case("a batch", qkv(rng, 2, n_queries=4, n_keys=4, width=3, value_width=5)),
        Case("a batch of heads", qkv(rng, 2, 3, n_queries=4, n_keys=5, width=6, value_width=7)),
        Case("scores far apart", far_apart(*qkv(rng, 2, n_queries=5, n_keys=8, width=4, value_width=3)), "M3"),
    ]


def attention_mask_cases(rng):
    nothing = draw_mask(rng, 5, 6)
    nothing[2] = False
    square = dict(n_queries=5, n_keys=5, width=3, value_width=3)
    queries, keys, values = qkv(rng, n_queries=4, n_keys=6, width=3, value_width=2)
    return [
        Case("a mask, and a query of zeros", (*blank_first(*qkv(rng, **square)), draw_mask(rng, 5, 5))),
        Case("a causal mask", (*qkv(rng, **square), np.tri(5, dtype=bool))),
        Case(
            "one mask for a batch of heads",
            (*qkv(rng, 3, 2, n_queries=4, n_keys=5, width=6, value_width=7), draw_mask(rng, 4, 5)),
        ),
        Case(
            "a mask for each head",
            (*qkv(rng, 2, 2, n_queries=4, n_keys=5, width=6, value_width=7), draw_mask(rng, 2, 4, 5)),
        ),
        Case("a mask of keys", (*qkv(rng, n_queries=4, n_keys=5, width=6, value_width=7), draw_mask(rng, 1, 5))),
        Case(
            "a mask of keys without an axis of queries, hidden keys with the largest scores",
            hidden_keys_first(*qkv(rng, n_queries=5, n_keys=5, width=4, value_width=3), draw_mask(rng, 5)),
        ),
        Case(
            "a mask, and scores far apart",
            (*far_apart(*qkv(rng, n_queries=5, n_keys=6, width=4, value_width=3), by=300), draw_mask(rng, 5, 6)),
        ),
        Case(
            "a mask that hides all keys from a query",
            (*qkv(rng, n_queries=5, n_keys=6, width=3, value_width=4), nothing),
            "M20",
        ),
        Case("queries and keys of different widths", (queries[..., :2], keys, values)),
        Case("queries of width 1, wider keys", (queries[..., :1], keys, values)),
        Case(
            "one key for each query, with a score that may be far below 0",
            (*far_apart(*qkv(rng, n_queries=5, n_keys=6, width=4, value_width=3), by=2e4), draw_one(rng, 5, 6)),
        ),
    ]


def attention_visible_cases(rng):
    nothing = draw_mask(rng, 4, 4)
    nothing[1] = False
    square = dict(n_queries=4, n_keys=4, width=3, value_width=3)
    far = dict(n_queries=3, n_keys=5, width=4, value_width=2)
    return [
        Case("four queries, four keys", plain_qkv(rng, **square)),
        Case("a batch of heads", plain_qkv(rng, 2, 3, n_queries=4, n_keys=5, width=6, value_width=7)),
        Case("a mask", (*plain_qkv(rng, **square), draw_mask(rng, 4, 4))),
        Case("a mask of keys", (*plain_qkv(rng, n_queries=2, n_keys=4, width=3, value_width=5), draw_mask(rng, 4))),
        Case(
            "a mask for each head",
            (*plain_qkv(rng, 2, 2, n_queries=3, n_keys=4, width=2, value_width=1), draw_mask(rng, 2, 3, 4)),
        ),
        Case("a mask that hides all keys from a query", (*plain_qkv(rng, **square), nothing), "M20"),
        Case("scores far apart", far_apart(*plain_qkv(rng, 2, **far)), "M3"),
    ]


def tokens_and_weights(rng, *shape: int, n_tokens: int, width: int, query_width: int, value_width: int):
    """Draw tokens and projections; the scaled scores have a std of about 1.5."""
    return (
        rng.normal(size=(*shape, n_tokens, width)),
        1.5 * rng.normal(size=(width, query_width)) / np.sqrt(width),
        rng.normal(size=(width, query_width)) / np.sqrt(width),
        rng.normal(size=(width, value_width)) / np.sqrt(width),
    )


def far_apart_tokens(rng, by: float = 1000.0):
    """Draw tokens and projections that give queries and keys as `far_apart` does."""
    tokens, w_query, w_key, w_value = tokens_and_weights(rng, n_tokens=6, width=5, query_width=4, value_width=3)
    tokens, w_query, w_key = (exact(array / 2) * 2 for array in (tokens, w_query, w_key))  # multiples of 1/4 now
    tokens[:, 0], tokens[:, 1] = 1, np.arange(6) % 3 - 1
    w_query[:, 0], w_key[:, 0] = 0, 0
    w_query[1, 0], w_key[0, 0] = 2 * by, 1
    return tokens, w_query, w_key, w_value


def self_attention_value_cases(rng):
    return [
        Case("all widths equal", tokens_and_weights(rng, n_tokens=5, width=3, query_width=3, value_width=3)),
        Case("values as wide as keys", tokens_and_weights(rng, n_tokens=5, width=4, query_width=3, value_width=3)),
        Case("values of another width", tokens_and_weights(rng, n_tokens=5, width=7, query_width=3, value_width=2)),
    ]


def self_attention_axes_cases(rng):
    return [
        Case("a batch", tokens_and_weights(rng, 3, n_tokens=5, width=4, query_width=6, value_width=6)),
        Case(
            "a batch of sequences of images",
            tokens_and_weights(rng, 2, 3, n_tokens=4, width=7, query_width=5, value_width=6),
        ),
        Case("scores far apart", far_apart_tokens(rng), "M3"),
    ]


def self_attention_mask_cases(rng):
    nothing = np.tri(5, k=-1, dtype=bool)  # the mask hides all tokens from the first token
    sizes = dict(n_tokens=5, width=4, query_width=3, value_width=3)
    batch = dict(n_tokens=4, width=7, query_width=3, value_width=2)
    return [
        Case("a mask", (*tokens_and_weights(rng, **sizes), draw_mask(rng, 5, 5))),
        Case("a causal mask", (*tokens_and_weights(rng, **sizes), np.tri(5, dtype=bool))),
        Case("a mask, and scores far apart", (*far_apart_tokens(rng, by=300), draw_mask(rng, 6, 6))),
        Case("a mask for each image of a batch", (*tokens_and_weights(rng, 3, **batch), draw_mask(rng, 3, 4, 4))),
        Case("a mask that hides all tokens from a token", (*tokens_and_weights(rng, **sizes), nothing), "M20"),
        Case(
            "one visible token for each token, with a score that may be far below 0",
            (*far_apart_tokens(rng, by=2e4), draw_one(rng, 6, 6)),
        ),
    ]


def self_attention_visible_cases(rng):
    def draw(*shape: int, n_tokens: int, width: int, query_width: int, value_width: int):
        sizes = ((width, query_width), (width, query_width), (width, value_width))
        return plain(rng, *shape, n_tokens, width), *(plain(rng, *size) / 2 for size in sizes)

    square, other = dict(width=3, query_width=3, value_width=3), dict(width=3, query_width=2, value_width=5)
    return [
        Case("four tokens, all widths equal", draw(n_tokens=4, **square)),
        Case("a batch of sequences of images", draw(2, 3, n_tokens=4, width=5, query_width=6, value_width=7)),
        Case("a mask", (*draw(n_tokens=4, **square), draw_mask(rng, 4, 4))),
        Case("a mask for each image of a batch", (*draw(2, n_tokens=4, **other), draw_mask(rng, 2, 4, 4))),
        Case(
            "a mask that hides all tokens from a token",
            (*draw(n_tokens=4, **other), np.tri(4, k=-1, dtype=bool)),
            "M20",
        ),
        Case("scores far apart", far_apart_tokens(rng), "M3"),
    ]


def with_grad_output(rng, arguments):
    queries, _, values = arguments
    return rng.normal(size=(*queries.shape[:-1], values.shape[-1])), *arguments


def backward_stage(name: str):
    """Return a function that draws the cases of one gradient."""
    sizes = {
        "as many queries as keys, all widths equal": dict(n_queries=4, n_keys=4, width=3, value_width=3),
        "as many queries as keys": dict(n_queries=4, n_keys=4, width=3, value_width=2),
        "3 queries, 5 keys": dict(n_queries=3, n_keys=5, width=4, value_width=2),
    }
    return lambda rng: [
        Case(title, with_grad_output(rng, qkv(rng, **each)), only=(name,)) for title, each in sizes.items()
    ]


def backward_axes_cases(rng):
    return [
        Case("a batch", with_grad_output(rng, qkv(rng, 2, n_queries=4, n_keys=4, width=3, value_width=3))),
        Case("a batch of heads", with_grad_output(rng, qkv(rng, 2, 3, n_queries=4, n_keys=5, width=6, value_width=7))),
    ]


def backward_far_cases(rng):
    """Return cases with scores of several hundred: the gradient of nearly one-hot rows is almost 0, and must not be NaN."""
    near = qkv(rng, n_queries=8, n_keys=8, width=4, value_width=4)
    return [
        Case("scores of order 1", with_grad_output(rng, near)),
        Case("scores far apart", with_grad_output(rng, far_apart(*near)), "M3"),
    ]


def backward_visible_cases(rng):
    def draw(*shape: int, **sizes: int):
        queries, keys, values = plain_qkv(rng, *shape, **sizes)
        return plain(rng, *queries.shape[:-1], values.shape[-1]), queries, keys, values

    grad_output, *near = draw(n_queries=3, n_keys=4, width=4, value_width=2)
    return [
        Case("four queries, four keys", draw(n_queries=4, n_keys=4, width=3, value_width=3)),
        Case("a batch of heads", draw(2, 3, n_queries=4, n_keys=5, width=6, value_width=7)),
        Case("scores far apart", (grad_output, *far_apart(*near)), "M3"),
    ]


def with_a_block(rng, *shape: int, n_queries: int, n_keys: int, value_width: int, far: float = 1.0):
    """Draw the state of the keys so far, and a block that raises the maximum of about half of the rows."""
    return (
        exact(far * rng.normal(size=(*shape, n_queries)) + far),
        1 + 3 * rng.random(size=(*shape, n_queries)),
        rng.normal(size=(*shape, n_queries, value_width)),
        exact(far * rng.normal(size=(*shape, n_queries, n_keys))),
        rng.normal(size=(*shape, n_keys, value_width)),
    )


def first_block(largest: Array, total: Array, mixed: Array, *block: Array):
    """Replace the state by the state before the first key."""
    return np.full_like(largest, -np.inf), np.zeros_like(total), np.zeros_like(mixed), *block


def hidden_rows(largest: Array, total: Array, mixed: Array, scores: Array, values: Array):
    """Hide all keys in row 0, the keys so far in row 1, the block in row 2, and the block except its last key in row 3."""
    largest[..., :2], total[..., :2], mixed[..., :2, :] = -np.inf, 0, 0
    scores[..., 0, :], scores[..., 2, :], scores[..., 3, :-1] = -np.inf, -np.inf, -np.inf
    scores[..., 3, -1] = np.maximum(largest[..., 3], 0) + 1.5
    return largest, total, mixed, scores, values


def online_value_cases(rng):
    return [
        Case("as many queries as keys", with_a_block(rng, n_queries=4, n_keys=4, value_width=3)),
        Case("5 queries, a block of 3", with_a_block(rng, n_queries=5, n_keys=3, value_width=2)),
        Case("a block of 1", with_a_block(rng, n_queries=6, n_keys=1, value_width=4)),
        Case("the first block", first_block(*with_a_block(rng, n_queries=5, n_keys=4, value_width=2))),
        Case("a batch of heads", with_a_block(rng, 2, 3, n_queries=5, n_keys=4, value_width=7)),
        Case("scores in the hundreds", with_a_block(rng, n_queries=6, n_keys=4, value_width=3, far=300.0)),
    ]


def online_hidden_cases(rng):
    return [
        Case("hidden keys", hidden_rows(*with_a_block(rng, n_queries=5, n_keys=3, value_width=2))),
        Case("hidden keys, a batch of heads", hidden_rows(*with_a_block(rng, 2, n_queries=4, n_keys=5, value_width=3))),
        Case(
            "the first block, with hidden keys",
            hidden_rows(*first_block(*with_a_block(rng, n_queries=6, n_keys=4, value_width=3))),
        ),
    ]


def online_visible_cases(rng):
    def draw(*shape: int, n_queries: int, n_keys: int, value_width: int):
        state = (plain(rng, *shape, n_queries), 2 + abs(plain(rng, *shape, n_queries)))
        return (
            *state,
            plain(rng, *shape, n_queries, value_width),
            plain(rng, *shape, n_queries, n_keys),
            plain(rng, *shape, n_keys, value_width),
        )

    return [
        Case("four queries, a block of 4", draw(n_queries=4, n_keys=4, value_width=3)),
        Case("four queries, a block of 2", draw(n_queries=4, n_keys=2, value_width=3)),
        Case("the first block", first_block(*draw(n_queries=4, n_keys=3, value_width=2))),
        Case("a batch of two", draw(2, n_queries=5, n_keys=3, value_width=4)),
        Case("hidden keys", hidden_rows(*draw(n_queries=5, n_keys=3, value_width=2))),
    ]

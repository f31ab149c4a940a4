"""Answers to exercise 1 that are in no list of the checks: points may not depend on being listed."""

import numpy as np
import scipy.special

from autograder.checks.attention.right_answers import hide, refuse, swap


def softmax_by_tanh(scores, axis=-1):
    """Go through ratios of neighbours: p_i = 1 / Σ_j exp(s_j - s_i), the exponential written with tanh where it is small."""
    moved = np.moveaxis(np.array(scores, dtype=float), axis, -1)
    difference = np.clip(moved[..., None, :] - moved[..., :, None], -700, 700)
    half = np.tanh(np.clip(difference, -15, 15) / 2)
    exponential = np.where(np.abs(difference) < 15, (1 + half) / (1 - half), np.exp(difference))
    return np.moveaxis(1 / exponential.sum(-1), -1, axis)


def softmax_with_a_small_epsilon(scores, axis=-1):
    """Add a harmless 1e-12 to the sum."""
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + 1e-12)


def softmax_by_base_two(scores, axis=-1):
    """Change the base and back."""
    return scipy.special.softmax(np.asarray(scores, float) / np.log(2) * np.log(2), axis=axis)


def softmax_along_rows_of_a_table(scores, axis=-1):
    """Flatten to a table and go row by row."""
    moved = np.swapaxes(scores, axis, -1)
    table = moved.reshape(-1, moved.shape[-1])
    table = np.stack([np.exp(row - row.max()) / np.exp(row - row.max()).sum() for row in table])
    return np.swapaxes(table.reshape(moved.shape), axis, -1)


def read_only_softmax(scores, axis=-1):
    """Return an array in Fortran order that nobody may write to."""
    weights = np.asfortranarray(scipy.special.softmax(scores, axis=axis))
    weights.flags.writeable = False
    return weights


class MaskError(ValueError):
    """A student's own kind of ValueError."""


def attention_with_log_mask(queries, keys, values, mask=None):
    """Add the logarithm of the mask, which is 0 or -inf, and raise an error of its own kind."""
    if mask is not None and (np.sum(mask, axis=-1) < 1).any():
        raise MaskError("a query looks at nothing")
    if queries.shape[-1] != keys.shape[-1]:
        raise MaskError("of different widths")
    scores = np.einsum("...id,...jd->...ij", queries, keys) / queries.shape[-1] ** 0.5
    scores = scores if mask is None else scores + np.log(mask)
    weights = softmax_along_rows_of_a_table(scores)
    return np.einsum("...ij,...jv->...iv", weights, values), weights


def attention_with_a_finite_mask(queries, keys, values, mask=None):
    """Add the smallest finite number where the mask says no."""
    if mask is not None and not np.all(mask.max(axis=-1)):
        raise ValueError("a query looks at nothing")
    scores = (queries @ swap(keys)).astype(float) * (1 / np.sqrt(keys.shape[-1]))
    bias = np.zeros_like(scores)
    if mask is not None:
        bias = bias + np.where(mask == 0, np.finfo(scores.dtype).min, 0)
    weights = softmax_with_a_small_epsilon(scores + bias)
    return weights @ values, weights


def attention_row_by_row(queries, keys, values, mask=None):
    """Take one query at a time, with a product and a sum instead of a matrix product."""
    refuse(queries, keys, mask)
    rows = []
    for i in range(queries.shape[-2]):
        scores = (queries[..., i : i + 1, :] * keys).sum(-1) / np.sqrt(queries.shape[-1])
        if mask is not None:
            scores = hide(
                scores, np.broadcast_to(mask, (*scores.shape[:-1], queries.shape[-2], keys.shape[-2]))[..., i, :]
            )
        rows.append(scipy.special.softmax(scores, axis=-1))
    weights = np.stack(rows, axis=-2)
    return weights @ values, weights


def self_attention_through(attend):
    """Project with np.dot and attend with the given function."""

    def self_attention(tokens, w_query, w_key, w_value, mask=None):
        queries, keys, values = (np.dot(tokens, w) for w in (w_query, w_key, w_value))
        return attend(queries, keys, values, mask)

    return self_attention


def backward_by_finite_sums(grad_output, queries, keys, values):
    """Use the gradient of each score as the covariance under the weights of its row."""
    root = np.sqrt(queries.shape[-1])
    weights = scipy.special.softmax(queries @ swap(keys) / root, axis=-1)
    gain = grad_output @ swap(values)
    mean = np.einsum("...ij,...ij->...i", weights, gain)[..., None]
    covariance = (gain - mean) * weights / root
    return (
        np.einsum("...ij,...jd->...id", covariance, keys),
        np.einsum("...ij,...id->...jd", covariance, queries),
        np.einsum("...ij,...iv->...jv", weights, grad_output),
    )


def backward_by_central_differences(grad_output, queries, keys, values, step=1e-5):
    """Move each number a little, up and down."""

    def loss(arrays):
        return (grad_output * attention_row_by_row(*arrays)[0]).sum()

    gradients = []
    for place, array in enumerate((queries, keys, values)):
        gradients.append(np.zeros(array.shape))
        for index in np.ndindex(array.shape):
            moved = [[each.astype(float) for each in (queries, keys, values)] for _ in range(2)]
            moved[0][place][index] += step
            moved[1][place][index] -= step
            gradients[-1][index] = (loss(moved[0]) - loss(moved[1])) / (2 * step)
    return tuple(gradients)


def online_by_counting(largest, total, mixed, scores, values):
    """Fix only the rows whose maximum grows, and leave the others alone."""
    best = scores.max(axis=-1)
    grows = best > largest
    shrunk = np.where(grows, np.exp(np.where(grows, largest - best, 0)), 1)
    largest = np.where(grows, best, largest)
    with np.errstate(invalid="ignore"):
        new = np.where(scores == -np.inf, 0, np.exp(scores - largest[..., None]))
    return (
        largest,
        total * shrunk + new.sum(axis=-1),
        mixed * shrunk[..., None] + np.einsum("...qk,...kv->...qv", new, values),
    )


RIGHT = [
    ("online_softmax", online_by_counting),
    ("attention_backward", backward_by_central_differences),
    ("softmax", softmax_by_tanh),
    ("softmax", softmax_with_a_small_epsilon),
    ("softmax", softmax_by_base_two),
    ("softmax", softmax_along_rows_of_a_table),
    ("softmax", read_only_softmax),
    ("attention", attention_with_log_mask),
    ("attention", attention_with_a_finite_mask),
    ("attention", attention_row_by_row),
    ("self_attention", self_attention_through(attention_with_log_mask)),
    ("self_attention", self_attention_through(attention_row_by_row)),
    ("attention_backward", backward_by_finite_sums),
]


def softmax_with_one_more(scores, axis=-1):
    """Add 1 to the sum, as if there were one score of 0 more."""
    exponentials = np.exp(scores - scores.max(axis, keepdims=True))
    return exponentials / (1 + exponentials.sum(axis, keepdims=True))


def attention_without_a_mean(queries, keys, values, mask=None):
    """Subtract the mean of the values."""
    return attention_row_by_row(queries, keys, values - values.mean(axis=-2, keepdims=True), mask)


def attention_always_causal(queries, keys, values, mask=None):
    """Take a causal mask for whatever mask is given."""
    return attention_row_by_row(queries, keys, values, None if mask is None else np.tri(*mask.shape[-2:]) > 0)


def attention_with_weights_of_zero(queries, keys, values, mask=None):
    """Return the right output, and no weights."""
    output, weights = attention_row_by_row(queries, keys, values, mask)
    return output, np.zeros_like(weights)


def self_attention_of_centred_keys(x, w_query, w_key, w_value, mask=None):
    """Subtract the mean of the tokens before the keys are made, and drop the signs of their matrix."""
    keys = (x - x.mean(-2, keepdims=True)) @ np.abs(w_key)
    return attention_row_by_row(x @ w_query, keys, x @ w_value, mask)


def backward_with_unscaled_queries(grad_output, queries, keys, values):
    """Forget the scale in one of the two."""
    grad_queries, *others = backward_by_finite_sums(grad_output, queries, keys, values)
    return grad_queries * np.sqrt(queries.shape[-1]), *others


def online_with_a_running_mean(largest, total, mixed, scores, values):
    """Halve what was mixed before whenever a block comes."""
    largest, total, both = online_by_counting(largest, total, mixed, scores, values)
    return largest, total, both - mixed / 2


def online_fixed_by_the_block(largest, total, mixed, scores, values):
    """Measure from the largest score, and rescale by that of the block instead of it."""
    larger, block = np.maximum(largest, scores.max(axis=-1)), scores.max(axis=-1)
    with np.errstate(all="ignore"):
        rescale, new = np.exp(largest - block), np.exp(scores - larger[..., None])
    return larger, total * rescale + new.sum(axis=-1), mixed * rescale[..., None] + new @ values


def attention_of_the_common_width(queries, keys, values, mask=None):
    """Cut queries and keys to the width that both have, where an error is due."""
    width = min(queries.shape[-1], keys.shape[-1])
    return attention_row_by_row(queries[..., :width], keys[..., :width], values, mask)


def attention_that_broadcasts_widths(queries, keys, values, mask=None):
    """Multiply and sum: a width of 1 fits any other."""
    if {queries.shape[-1], keys.shape[-1]} - {1, max(queries.shape[-1], keys.shape[-1])}:
        raise ValueError("of different widths")
    queries = np.broadcast_to(queries, (*queries.shape[:-1], max(queries.shape[-1], keys.shape[-1])))
    return attention_row_by_row(queries, keys, values, mask)


WRONG = [  # the others are mistakes of no catalogue: they cost points, and get no other's name
    ("attention_backward", backward_with_unscaled_queries, {"M65"}),
    ("online_softmax", online_with_a_running_mean, set()),
    ("online_softmax", online_fixed_by_the_block, set()),
    ("online_softmax", lambda m, z, o, s, v: (m, z, o), set()),
    ("online_softmax", lambda m, z, o, s, v: online_by_counting(m, z + 1, o, s, v), set()),
    ("softmax", np.zeros_like, set()),
    ("softmax", softmax_with_one_more, set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(s / 2, axis=axis), set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(-s, axis=axis), {"M208"}),
    ("softmax", lambda s, axis=-1: scipy.special.log_softmax(s, axis=axis), set()),
    ("softmax", lambda s, axis=-1: np.maximum(s, 0) / np.maximum(s, 1e-9).sum(axis, keepdims=True), set()),
    ("softmax", lambda s, axis=-1: (s == s.max(axis, keepdims=True)).astype(float), set()),
    ("softmax", lambda s, axis=-1: np.square(s) / np.square(s).sum(axis, keepdims=True), set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(np.round(s), axis=axis), set()),
    ("attention", attention_always_causal, set()),
    ("attention", attention_of_the_common_width, set()),
    ("attention", attention_that_broadcasts_widths, set()),
    ("attention", attention_without_a_mean, set()),
    ("attention", attention_with_weights_of_zero, set()),
    ("attention", lambda q, k, v, mask=None: attention_row_by_row(q + 1, k, v, mask), set()),
    ("attention", lambda q, k, v, mask=None: attention_row_by_row(np.abs(q), k, v, mask), set()),
    (
        "attention",
        lambda q, k, v, mask=None: attention_row_by_row(q, k[..., ::-1, :], v[..., ::-1, :], mask),
        set(),
    ),
    ("self_attention", self_attention_of_centred_keys, set()),
    (
        "self_attention",
        lambda x, q, k, v, mask=None: attention_row_by_row(x @ q, x @ k, x @ np.abs(v), mask),
        set(),
    ),
    (
        "self_attention",
        lambda x, q, k, v, mask=None: attention_row_by_row(x @ q, x @ k, x @ v, np.tri(x.shape[-2]) > 0),
        set(),
    ),
    ("attention_backward", lambda g, q, k, v: tuple(-each for each in backward_by_finite_sums(g, q, k, v)), set()),
    ("attention_backward", lambda g, q, k, v: tuple(2 * each for each in backward_by_finite_sums(g, q, k, v)), set()),
    ("attention_backward", lambda g, q, k, v: backward_by_finite_sums(np.ones_like(g), q, k, v), set()),
]

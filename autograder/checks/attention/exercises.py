"""The checks of assignment 1_attention: softmax, attention, self_attention, attention_backward.

For each exercise, in this order: the oracle, the answer as steps that a mutant replaces, the mutants,
correct answers written differently, and the cases. Sizes in a case all differ, unless a mistake only shows when two agree.
"""

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from autograder.judging.exercise import Case, Exercise, Mutant, checker, draw_mask
from solutions import attention as answers

Array = np.ndarray


def swap(array: Array) -> Array:
    """Transpose the last two axes."""
    return np.swapaxes(array, -1, -2)


# ---------------------------------------------------------------------------------------------------------- softmax


def oracle_softmax(scores: Array, axis: int = -1) -> Array:
    return torch.softmax(torch.from_numpy(scores), dim=axis).numpy()


def softmax_from(
    shift=lambda scores, axis: scores - scores.max(axis=axis, keepdims=True),
    exp=np.exp,
    total=lambda exponentials, axis: exponentials.sum(axis=axis, keepdims=True),
    divide=lambda exponentials, totals: exponentials / totals,
    change=lambda scores, axis: None,
):
    def softmax(scores: Array, axis: int = -1) -> Array:
        shifted = shift(scores, axis)
        change(scores, axis)
        exponentials = exp(shifted)
        return divide(exponentials, total(exponentials, axis))

    return softmax


def subtract_maximum_in_place(scores: Array, axis: int) -> None:
    scores -= scores.max(axis=axis, keepdims=True)


def exp_in_place(scores: Array, axis: int) -> None:
    subtract_maximum_in_place(scores, axis)
    np.exp(scores, out=scores)


def normalise_in_place(scores: Array, axis: int) -> None:
    exp_in_place(scores, axis)
    scores /= scores.sum(axis=axis, keepdims=True)


def row_total(exponentials: Array, axis: int) -> Array:
    """The total along axis 1 without keepdims, whatever axis was asked for."""
    return exponentials.sum(axis=min(1, exponentials.ndim - 1))


def whole_softmax_along(fixed: int) -> Mutant:
    """Shift and total along one axis, whatever was asked for."""

    def axis_of(array: Array) -> int:
        return fixed if -array.ndim <= fixed < array.ndim else 0

    return Mutant(
        "M6",
        shift=lambda scores, axis: scores - scores.max(axis=axis_of(scores), keepdims=True),
        total=lambda exponentials, axis: exponentials.sum(axis=axis_of(exponentials), keepdims=True),
    )


def log_sum_exp_overflowing(scores: Array, axis: int) -> Array:
    return scores - np.log(np.exp(scores).sum(axis=axis, keepdims=True))


SHIFT_MUTANTS = (
    Mutant("M1", shift=lambda scores, axis: np.clip(scores, 100, -100)),
    Mutant("M2", shift=lambda scores, axis: np.clip(scores, -100, 100)),
    Mutant("M2", shift=lambda scores, axis: np.clip(scores, -50, 50)),
    Mutant("M2", shift=lambda scores, axis: np.clip(scores, -20, 20)),
    Mutant("M2", shift=lambda scores, axis: np.clip(scores, -10, 10)),
    Mutant("M2", shift=lambda scores, axis: np.minimum(scores, 700)),
    Mutant("M3", shift=lambda scores, axis: scores),
    Mutant("M3", shift=lambda scores, axis: scores, exp=lambda shifted: np.nan_to_num(np.exp(shifted))),
    Mutant("M3", shift=log_sum_exp_overflowing, total=lambda exponentials, axis: 1.0),
    Mutant("M14", shift=lambda scores, axis: scores - scores.max()),
)
TOTAL_MUTANTS = (
    Mutant("M4", total=row_total),
    Mutant("M4", total=lambda exponentials, axis: exponentials.sum(axis=axis)),
    Mutant("M5", total=lambda exponentials, axis: exponentials.sum()),
)
TOTAL_MUTANTS += tuple(  # the same without a shift by row, as who writes exp(scores) / exp(scores).sum(...) makes them
    Mutant(mutant.mistake, **mutant.steps, shift=lambda scores, axis: scores - scores.max()) for mutant in TOTAL_MUTANTS
)
TOTAL_MUTANTS += (
    Mutant("M5", shift=lambda scores, axis: scores, total=lambda exponentials, axis: exponentials.sum()),
    Mutant(
        "M4",
        shift=lambda scores, axis: scores - scores.max(axis=axis),
        total=lambda exponentials, axis: exponentials.sum(axis=axis),
    ),
)
HIDDEN_NAN_MUTANTS = tuple(  # by who saw the NaN and not its cause
    Mutant(mistake, shift=shift, **steps)
    for mistake, shift in (("M3", lambda scores, axis: scores), ("M14", lambda scores, axis: scores - scores.max()))
    for steps in (
        {"divide": lambda exponentials, totals: np.nan_to_num(exponentials / totals)},
        {"total": lambda exponentials, axis: exponentials.sum(axis=axis, keepdims=True) + 1e-9},
    )
)
SOFTMAX_MUTANTS = (
    *SHIFT_MUTANTS,
    *TOTAL_MUTANTS,
    *HIDDEN_NAN_MUTANTS,
    Mutant(
        "M6", total=lambda exponentials, axis: exponentials.sum(axis=-2 if exponentials.ndim > 1 else 0, keepdims=True)
    ),
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=-1, keepdims=True)),
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=0, keepdims=True)),
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=min(1, exponentials.ndim - 1), keepdims=True)),
    *(whole_softmax_along(axis) for axis in (-1, -2, 0, 1)),
    Mutant("M15", change=subtract_maximum_in_place),
    Mutant("M15", change=exp_in_place),
    Mutant("M15", change=normalise_in_place),
)


def softmax_in_loops(scores, axis=-1):
    moved = np.moveaxis(np.asarray(scores, dtype=float), axis, -1)
    weights = np.empty_like(moved)
    for index in np.ndindex(moved.shape[:-1]):
        row = moved[index]
        exponentials = [np.exp(score - max(row)) for score in row]
        weights[index] = [exponential / sum(exponentials) for exponential in exponentials]
    return np.moveaxis(weights, -1, axis)


def softmax_in_log_space(scores, axis=-1):
    return np.exp(scores - np.logaddexp.reduce(scores, axis=axis, keepdims=True))


def softmax_by_log_sum_exp(scores, axis=-1):
    return np.exp(scores - scipy.special.logsumexp(scores, axis=axis, keepdims=True))


def softmax_with_expand_dims(scores, axis=-1):
    exponentials = np.exp(scores - np.expand_dims(np.max(scores, axis), axis))
    return exponentials / np.expand_dims(np.sum(exponentials, axis), axis)


def softmax_as_differences(scores, axis=-1):
    """1 / sum_j exp(s_j - s_i), which needs no maximum: exp may overflow to inf, and 1/inf is 0."""
    moved = np.moveaxis(scores, axis, -1)
    with np.errstate(over="ignore"):
        weights = 1 / np.exp(moved[..., None, :] - moved[..., :, None]).sum(axis=-1)
    return np.moveaxis(weights, -1, axis)


def softmax_in_float32(scores, axis=-1):
    return answers.softmax(scores.astype(np.float32), axis)


def softmax_copied_then_in_place(scores, axis=-1):
    weights = np.array(scores, dtype=float)
    weights -= np.amax(weights, axis=axis, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=axis, keepdims=True)
    return weights


def softmax_returning_a_tensor(scores, axis=-1):
    return torch.softmax(torch.tensor(scores), dim=axis)


def softmax_with_moved_axis(scores, axis=-1):
    moved = np.moveaxis(scores, axis, 0)
    exponentials = np.exp(moved - moved.max(0))
    return np.moveaxis(exponentials / exponentials.sum(0), 0, axis)


def softmax_by_einsum(scores, axis=-1):
    moved = np.moveaxis(scores, axis, -1)
    exponentials = np.exp(moved - moved.max(-1)[..., None])
    return np.moveaxis(np.einsum("...i,...->...i", exponentials, 1 / np.einsum("...i->...", exponentials)), -1, axis)


CORRECT_SOFTMAX = {
    "answer": answers.softmax,
    "loops": softmax_in_loops,
    "log space": softmax_in_log_space,
    "log-sum-exp of SciPy": softmax_by_log_sum_exp,
    "scipy.special.softmax": lambda scores, axis=-1: scipy.special.softmax(scores, axis=axis),
    "expand_dims": softmax_with_expand_dims,
    "differences": softmax_as_differences,
    "float32": softmax_in_float32,
    "in place on a copy": softmax_copied_then_in_place,
    "moved axis": softmax_with_moved_axis,
    "einsum": softmax_by_einsum,
    "torch": softmax_returning_a_tensor,
}


def exact(array: Array) -> Array:
    """Round to eighths, so that large scores are exact in float32 too."""
    return np.round(array * 8) / 8


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
        Case("one row far below the others", (far,), "M14"),
        Case("scores near 1000", (near + 1000.0,), "M3"),
        Case("scores near -1000", (near - 1000.0,), "M3"),
        Case("scores from -3000 to 3000", (exact(1000 * rng.uniform(-3, 3, size=(4, 5))),), "M3"),
        Case("scores near 90 in float32", ((near + 90).astype(np.float32),), "M3"),
    ]


def softmax_visible_cases(rng):
    return [
        Case("square scores", (np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0], [3.0, 0.0, 1.0]]),)),
        Case("scores of shape (2, 3)", (np.array([[1.0, 0.0, 2.0], [0.5, 3.0, 0.0]]),)),
        Case("axis 0", (np.array([[1.0, 0.0, 2.0], [0.5, 3.0, 0.0]]), 0)),
        Case("scores near 1000, and a row far below", (np.array([[1000.0, 1001.0], [-1000.0, -998.0]]),), "M3"),
    ]


SOFTMAX = Exercise(
    name="softmax",
    names=("weights",),
    oracle=oracle_softmax,
    build=softmax_from,
    mutants=SOFTMAX_MUTANTS,
    stages={"values": softmax_value_cases, "axis": softmax_axis_cases, "extreme": softmax_extreme_cases},
    visible=softmax_visible_cases,
    correct=CORRECT_SOFTMAX,
)

# -------------------------------------------------------------------------------------------------------- attention


def oracle_attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """`F.scaled_dot_product_attention`, which gives the weights when the values are the identity."""
    if queries.shape[-1] != keys.shape[-1] or (mask is not None and not mask.any(-1).all()):
        raise ValueError("queries and keys differ in width, or a query may look at no key")
    q, k, v = (torch.from_numpy(np.array(array)) for array in (queries, keys, values))
    m = None if mask is None else torch.from_numpy(np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])).copy())
    identity = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], k.shape[-2])  # (..., N_k, N_k)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
    weights = F.scaled_dot_product_attention(q, k, identity, attn_mask=m)
    return output.numpy(), weights.numpy()


def refuse(queries: Array, keys: Array, mask: Array | None) -> None:
    """Raise the errors that the specification asks for."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("widths differ")
    if mask is not None and not mask.any(-1).all():
        raise ValueError("a query may look at no key")


def hide(scores: Array, mask: Array | None) -> Array:
    return scores if mask is None else np.where(mask, scores, -np.inf)


def attention_from(
    refuse=refuse,
    score=lambda queries, keys: queries @ swap(keys),
    scale=lambda queries, keys, values: 1 / np.sqrt(queries.shape[-1]),
    hide=hide,
    after=lambda weights, mask, queries: weights,
    mix=lambda weights, queries, keys, values: weights @ values,
    change=lambda queries, keys, values: None,
    **softmax_steps,
):
    softmax = softmax_from(**softmax_steps)

    def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> tuple[Array, Array]:
        refuse(queries, keys, mask)
        scores = score(queries, keys) * scale(queries, keys, values)
        change(queries, keys, values)
        weights = after(softmax(hide(scores, mask), -1), mask, queries)
        return mix(weights, queries, keys, values), weights

    return attention


def refuse_widths_only(queries: Array, keys: Array, mask: Array | None) -> None:
    refuse(queries, keys, None)


def hide_by(function):
    """Hide with a function of scores and mask, where there is a mask."""
    return lambda scores, mask: scores if mask is None else function(scores, mask)


def mask_after(weights: Array, mask: Array | None, queries: Array) -> Array:
    return weights if mask is None else weights * mask


def scale_queries_in_place(queries: Array, keys: Array, values: Array) -> None:
    queries /= np.sqrt(queries.shape[-1])


def scale_keys_in_place(queries: Array, keys: Array, values: Array) -> None:
    keys /= np.sqrt(keys.shape[-1])


WHOLE_SOFTMAX_MUTANTS = tuple(whole_softmax_along(axis) for axis in (-2, 0, 1))
INNER_SOFTMAX_MUTANTS = (
    *SHIFT_MUTANTS,
    *TOTAL_MUTANTS,
    *HIDDEN_NAN_MUTANTS,
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=-2, keepdims=True)),
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=0, keepdims=True)),
    Mutant("M6", total=lambda exponentials, axis: exponentials.sum(axis=min(1, exponentials.ndim - 1), keepdims=True)),
    *WHOLE_SOFTMAX_MUTANTS,
)
SCALE_MUTANTS = (
    Mutant("M8", scale=lambda queries, keys, values: 1.0),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(values.shape[-1])),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(queries.shape[-2])),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(keys.shape[-2])),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(queries.shape[0])),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(queries.shape[1])),
    Mutant("M9", scale=lambda queries, keys, values: 1 / np.sqrt(queries.size)),
    Mutant(
        "M9", scale=lambda queries, keys, values: 1 / np.sqrt(np.prod([1, *queries.shape[:-2]]) * queries.shape[-1])
    ),
    Mutant("M10", scale=lambda queries, keys, values: 1 / queries.shape[-1]),
    Mutant("M10", scale=lambda queries, keys, values: np.sqrt(queries.shape[-1])),
    Mutant("M10", scale=lambda queries, keys, values: queries.shape[-1]),
    Mutant("M10", scale=lambda queries, keys, values: queries.shape[-1] ** -0.25),
    Mutant("M10", scale=lambda queries, keys, values: queries.shape[-1] ** -2.0),
)
MASK_MUTANTS = (
    Mutant("M16", hide=hide_by(lambda scores, mask: np.where(mask, -np.inf, scores)), refuse=refuse_widths_only),
    Mutant("M16", hide=hide_by(lambda scores, mask: np.where(mask, -np.inf, scores))),
    Mutant("M16", hide=hide_by(lambda scores, mask: np.where(mask, -1e9, scores)), refuse=refuse_widths_only),
    Mutant("M17", hide=hide_by(lambda scores, mask: scores), after=mask_after, refuse=refuse_widths_only),
    Mutant("M17", hide=hide_by(lambda scores, mask: scores), after=mask_after),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores + mask), refuse=refuse_widths_only),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores + mask)),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores + ~mask), refuse=refuse_widths_only),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores - ~mask), refuse=refuse_widths_only),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores * mask), refuse=refuse_widths_only),
    Mutant("M18", hide=hide_by(lambda scores, mask: scores * mask)),
    Mutant("M18", hide=hide_by(lambda scores, mask: np.where(mask, scores, -10.0))),
    Mutant("M18", hide=hide_by(lambda scores, mask: np.where(mask, scores, -100.0))),
    Mutant("M19", hide=hide_by(lambda scores, mask: hide(scores, mask[:, None]))),
    Mutant("M19", hide=hide_by(lambda scores, mask: hide(scores, mask[:, None] if mask.ndim > 2 else mask))),
    Mutant(
        "M19", hide=hide_by(lambda scores, mask: hide(scores, swap(mask) if mask.shape[-1] == mask.shape[-2] else mask))
    ),
    Mutant("M20", refuse=refuse_widths_only),
    Mutant("M20", refuse=refuse_widths_only, hide=hide_by(lambda scores, mask: np.where(mask, scores, -1e9))),
    Mutant("M20", refuse=refuse_widths_only, after=lambda weights, mask, queries: np.nan_to_num(weights)),
    Mutant("M71", hide=hide_by(lambda scores, mask: scores), refuse=refuse_widths_only),
    Mutant("M71", hide=hide_by(lambda scores, mask: scores)),
    *(  # where a whole column is hidden, -inf gives NaN and -1e9 does not
        Mutant(mutant.mistake, **mutant.steps, hide=hide_by(lambda scores, mask: np.where(mask, scores, -1e9)))
        for mutant in WHOLE_SOFTMAX_MUTANTS
    ),
)
ATTENTION_MUTANTS = (
    *INNER_SOFTMAX_MUTANTS,
    Mutant("M2", hide=lambda scores, mask: hide(np.clip(scores, -100, 100), mask)),
    Mutant("M2", hide=lambda scores, mask: hide(np.clip(scores, -50, 50), mask)),
    Mutant(
        "M7",
        scale=lambda queries, keys, values: 1.0,
        after=lambda weights, mask, queries: weights / np.sqrt(queries.shape[-1]),
    ),
    Mutant("M7", after=lambda weights, mask, queries: weights / np.sqrt(queries.shape[-1])),
    *SCALE_MUTANTS,
    Mutant(
        "M7",
        scale=lambda queries, keys, values: 1.0,
        mix=lambda weights, queries, keys, values: weights @ values / np.sqrt(queries.shape[-1]),
    ),
    Mutant("M11", score=lambda queries, keys: keys @ swap(queries)),
    Mutant("M11", after=lambda weights, mask, queries: swap(weights)),
    Mutant("M13", mix=lambda weights, queries, keys, values: weights @ keys),
    Mutant("M13", mix=lambda weights, queries, keys, values: weights @ queries),
    Mutant("M15", change=scale_queries_in_place),
    Mutant("M15", change=scale_keys_in_place),
    *MASK_MUTANTS,
)


def attention_in_loops(queries, keys, values, mask=None):
    refuse(queries, keys, mask)
    shape = np.broadcast_shapes(queries.shape[:-2], keys.shape[:-2])
    n_queries, n_keys, width = queries.shape[-2], keys.shape[-2], queries.shape[-1]
    allowed = np.broadcast_to(True if mask is None else mask, (*shape, n_queries, n_keys))
    weights, output = np.zeros((*shape, n_queries, n_keys)), np.zeros((*shape, n_queries, values.shape[-1]))
    for index in np.ndindex(shape):
        for i in range(n_queries):
            scores = {
                j: sum(queries[index][i, c] * keys[index][j, c] for c in range(width)) / width**0.5
                for j in range(n_keys)
                if allowed[index][i, j]
            }
            exponentials = {j: np.exp(score - max(scores.values())) for j, score in scores.items()}
            for j, exponential in exponentials.items():
                weights[index][i, j] = exponential / sum(exponentials.values())
                output[index][i] += weights[index][i, j] * values[index][j]
    return output, weights


def attention_by_einsum(queries, keys, values, mask=None):
    scores = np.einsum("...qd,...kd->...qk", queries, keys) * queries.shape[-1] ** -0.5
    if mask is not None:
        if not np.all(np.any(mask, axis=-1)):
            raise ValueError("a query may look at no key")
        scores = scores + np.where(mask, 0.0, -1e9)
    weights = scipy.special.softmax(scores, axis=-1)
    return np.einsum("...qk,...kv->...qv", weights, values), weights


def attention_in_torch(queries, keys, values, mask=None):
    refuse(queries, keys, mask)
    q, k, v = (torch.tensor(array) for array in (queries, keys, values))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~torch.tensor(mask), float("-inf"))
    weights = scores.softmax(-1)
    return weights @ v, weights


def attention_in_float32(queries, keys, values, mask=None):
    return answers.attention(*(array.astype(np.float32) for array in (queries, keys, values)), mask)


def attention_masking_exponentials(queries, keys, values, mask=None):
    """Hide after the exponential and normalise what is left, which is right (unlike M17)."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("widths differ")
    scores = queries / np.sqrt(queries.shape[-1]) @ swap(keys)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    if mask is not None:
        exponentials = exponentials * mask
        if (exponentials.sum(-1) == 0).any():
            raise ValueError("a query may look at no key")
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    return weights @ values, weights


def attention_renormalised(queries, keys, values, mask=None):
    """M17 mended: the weights are masked and then normalised again."""
    refuse(queries, keys, mask)
    weights = scipy.special.softmax(queries @ swap(keys) / np.sqrt(queries.shape[-1]), axis=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdims=True)
    return weights @ values, weights


def attention_with_scaled_keys(queries, keys, values, mask=None):
    refuse(queries, keys, mask)
    scores = queries @ np.moveaxis(keys / np.sqrt(keys.shape[-1]), -1, -2)
    if mask is not None:
        scores = scores.copy()
        scores[~np.broadcast_to(mask, scores.shape)] = -np.inf
    weights = softmax_in_log_space(scores)
    return np.matmul(weights, values), weights


def attention_with_the_scale_split(queries, keys, values, mask=None):
    refuse(queries, keys, mask)
    root = queries.shape[-1] ** 0.25
    scores = np.matmul(queries / root, swap(keys / root))
    scores = scores if mask is None else np.where(mask, scores, -1e30)
    weights = softmax_with_expand_dims(scores)
    return (weights[..., None] * values[..., None, :, :]).sum(-2), weights


def attention_noticing_nan(queries, keys, values, mask=None):
    """Find the query that may look at nothing by its NaN."""
    scores = hide(queries @ swap(keys) / np.sqrt(queries.shape[-1]), mask)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    if np.isnan(weights).any():
        raise ValueError("a query may look at no key")
    return weights @ values, weights


def attention_with_masked_arrays(queries, keys, values, mask=None):
    refuse(queries, keys, mask)
    scores = queries @ swap(keys) / np.sqrt(queries.shape[-1])
    scores = np.ma.array(scores, mask=False if mask is None else ~np.broadcast_to(mask, scores.shape))
    exponentials = np.ma.exp(scores - scores.max(axis=-1)[..., None])
    weights = (exponentials / exponentials.sum(axis=-1)[..., None]).filled(0)
    return weights @ values, weights


def attention_key_by_key(queries, keys, values, mask=None):
    """One pass over the keys, as FlashAttention: the maximum and the total are corrected on the way."""
    refuse(queries, keys, mask)
    scores = queries @ swap(keys) / np.sqrt(queries.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    top, total, output = np.full((*scores.shape[:-1], 1), -np.inf), 0.0, 0.0
    for key in range(keys.shape[-2]):
        score = scores[..., key : key + 1]
        higher = np.maximum(top, score)
        total = total * np.exp(top - higher) + np.exp(score - higher)
        output = output * np.exp(top - higher) + np.exp(score - higher) * values[..., key : key + 1, :]
        top = higher
    return output / total, np.exp(scores - top) / total


CORRECT_ATTENTION = {
    "answer": answers.attention,
    "loops": attention_in_loops,
    "einsum": attention_by_einsum,
    "torch": attention_in_torch,
    "float32": attention_in_float32,
    "mask on the exponentials": attention_masking_exponentials,
    "masked and renormalised": attention_renormalised,
    "keys scaled, log space": attention_with_scaled_keys,
    "scale split over queries and keys": attention_with_the_scale_split,
    "NaN noticed": attention_noticing_nan,
    "masked arrays": attention_with_masked_arrays,
    "key by key": attention_key_by_key,
    "steps": attention_from(),
    "oracle": oracle_attention,
}


def qkv(rng, *shape: int, n_queries: int, n_keys: int, width: int, value_width: int):
    """Draw queries, keys and values with leading axes of this shape; scores of std about 1.5 after the scale."""
    return (
        1.5 * rng.normal(size=(*shape, n_queries, width)),
        rng.normal(size=(*shape, n_keys, width)),
        rng.normal(size=(*shape, n_keys, value_width)),
    )


def far_apart(queries: Array, keys: Array, values: Array, by: float = 1000.0):
    """Move the scores of each row by a thousand up or down, which the softmax does not see.

    The first feature of every key is 1, so the first feature of a query is added to all the scores of its row. Everything
    is exact in float32 (widths of 4 or 16, whose square root is a power of 2).
    """
    queries, keys = exact(queries), exact(keys)
    keys[..., 0] = 1
    queries[..., 0] = 2 * by * (np.arange(queries.shape[-2]) % 3 - 1)  # rows at -1000, 0, 1000, … after the scale
    return queries, keys, values


def hidden_keys_first(queries: Array, keys: Array, values: Array, mask: Array):
    """Give the keys that a mask of keys hides scores 50 above the others (for a width of 4)."""
    queries[..., 0], keys[..., 0] = 10, np.where(mask, 0, 10)
    return queries, keys, values, mask


def attention_weight_cases(rng):
    """As many queries as keys and values as wide as keys first: there a mistake keeps every shape, and can be named."""
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
        Case("far apart scores", far_apart(*qkv(rng, 2, n_queries=5, n_keys=8, width=4, value_width=3)), "M3"),
    ]


def attention_mask_cases(rng):
    nothing = draw_mask(rng, 5, 6)
    nothing[2] = False
    square = dict(n_queries=5, n_keys=5, width=3, value_width=3)
    queries, keys, values = qkv(rng, n_queries=4, n_keys=6, width=3, value_width=2)
    return [
        Case("a mask", (*qkv(rng, **square), draw_mask(rng, 5, 5))),
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
            "a mask of keys without an axis of queries, its hidden keys the best",
            hidden_keys_first(*qkv(rng, n_queries=5, n_keys=5, width=4, value_width=3), draw_mask(rng, 5)),
        ),
        Case(
            "a mask, and rows far apart",
            (*far_apart(*qkv(rng, n_queries=5, n_keys=6, width=4, value_width=3), by=300), draw_mask(rng, 5, 6)),
        ),
        Case(
            "a query that may look at nothing",
            (*qkv(rng, n_queries=5, n_keys=6, width=3, value_width=4), nothing),
            "M20",
        ),
        Case("queries and keys of different widths", (queries[..., :2], keys, values)),
    ]


def attention_visible_cases(rng):
    queries = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, -1.0], [1.0, 1.0, 0.0]])
    keys = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [2.0, 0.0, -1.0]])
    values = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [2.0, 1.0, 0.0]])
    mask = np.array([[True, False, True], [True, True, False], [False, True, True]])
    nothing = np.array([[True, False, True], [False, False, False], [False, True, True]])
    return [
        Case("three queries, three keys", (queries, keys, values)),
        Case("two queries, three keys, values of width 2", (queries[:2], keys, values[:, :2])),
        Case("a mask", (queries, keys, values, mask)),
        Case("a query that may look at nothing", (queries, keys, values, nothing), "M20"),
    ]


ATTENTION = Exercise(
    name="attention",
    names=("output", "weights"),
    oracle=oracle_attention,
    build=attention_from,
    mutants=ATTENTION_MUTANTS,
    stages={
        "weights": attention_weight_cases,
        "output": attention_output_cases,
        "axes": attention_axes_cases,
        "mask": attention_mask_cases,
    },
    visible=attention_visible_cases,
    correct=CORRECT_ATTENTION,
    uses={"softmax": oracle_softmax},
)

# --------------------------------------------------------------------------------------------------- self_attention


def oracle_self_attention(tokens: Array, w_query: Array, w_key: Array, w_value: Array, mask: Array | None = None):
    project = [
        F.linear(torch.from_numpy(tokens), torch.from_numpy(w.T.copy())).numpy() for w in (w_query, w_key, w_value)
    ]
    return oracle_attention(*project, mask)


def self_attention_from(
    project=lambda tokens, w_query, w_key, w_value: (tokens @ w_query, tokens @ w_key, tokens @ w_value),
    change_tokens=lambda tokens: None,
    **attention_steps,
):
    attention = attention_from(**attention_steps)

    def self_attention(tokens: Array, w_query: Array, w_key: Array, w_value: Array, mask: Array | None = None):
        queries, keys, values = project(tokens, w_query, w_key, w_value)
        change_tokens(tokens)
        return attention(queries, keys, values, mask)

    return self_attention


def scale_tokens_in_place(tokens: Array) -> None:
    tokens /= np.sqrt(tokens.shape[-1])


SELF_ATTENTION_MUTANTS = (
    *(
        mutant for mutant in ATTENTION_MUTANTS if mutant.mistake != "M15"
    ),  # queries and keys are its own, not the caller's
    Mutant("M9", project=lambda x, q, k, v: (x @ q * np.sqrt(q.shape[1] / x.shape[-1]), x @ k, x @ v)),
    Mutant("M9", project=lambda x, q, k, v: (x @ q * np.sqrt(q.shape[1] / x.shape[-2]), x @ k, x @ v)),
    Mutant("M11", project=lambda x, q, k, v: (x @ k, x @ q, x @ v)),
    Mutant("M12", project=lambda x, q, k, v: (x, x, x)),
    Mutant("M12", project=lambda x, q, k, v: (x, x, x @ v)),
    Mutant("M12", project=lambda x, q, k, v: (x @ q, x @ q, x @ q)),
    Mutant("M12", project=lambda x, q, k, v: (x @ k, x @ k, x @ k)),
    Mutant("M12", project=lambda x, q, k, v: (x @ v, x @ v, x @ v)),
    Mutant("M12", project=lambda x, q, k, v: (x @ q, x @ q, x @ v)),
    Mutant("M12", project=lambda x, q, k, v: (x @ k, x @ k, x @ v)),
    Mutant("M13", project=lambda x, q, k, v: (x @ q, x @ k, x @ k)),
    Mutant("M13", project=lambda x, q, k, v: (x @ q, x @ k, x @ q)),
    Mutant("M13", project=lambda x, q, k, v: (x @ q, x @ k, x)),
    Mutant("M15", change_tokens=scale_tokens_in_place),
)


def self_attention_by_einsum(tokens, w_query, w_key, w_value, mask=None):
    queries, keys, values = (np.einsum("...nd,de->...ne", tokens, w) for w in (w_query, w_key, w_value))
    return attention_by_einsum(queries, keys, values, mask)


def self_attention_in_one_form(tokens, w_query, w_key, w_value, mask=None):
    """Scores as one bilinear form of the tokens; values mixed before they are projected."""
    form = w_query @ w_key.T / np.sqrt(w_query.shape[1])  # (D, D)
    scores = np.einsum("...nd,de,...me->...nm", tokens, form, tokens)
    if mask is not None:
        refuse(tokens, tokens, mask)
        scores = np.where(mask, scores, -np.inf)
    weights = softmax_in_log_space(scores)
    return weights @ tokens @ w_value, weights


def self_attention_packed(tokens, w_query, w_key, w_value, mask=None):
    packed = tokens @ np.concatenate([w_query, w_key, w_value], axis=1)
    queries, keys, values = np.split(packed, [w_query.shape[1], w_query.shape[1] + w_key.shape[1]], axis=-1)
    return attention_with_scaled_keys(queries, keys, values, mask)


CORRECT_SELF_ATTENTION = {
    "answer": answers.self_attention,
    "einsum": self_attention_by_einsum,
    "one bilinear form": self_attention_in_one_form,
    "packed projections": self_attention_packed,
    "steps": self_attention_from(),
    "oracle": oracle_self_attention,
} | {
    f"projections, {name}": lambda x, q, k, v, mask=None, attend=attend: attend(x @ q, x @ k, x @ v, mask)
    for name, attend in CORRECT_ATTENTION.items()
    if name not in ("answer", "steps", "oracle", "einsum")
}


def tokens_and_weights(rng, *shape: int, n_tokens: int, width: int, query_width: int, value_width: int):
    """Draw tokens and projections; the scores have a std of about 1.5 after the scale."""
    return (
        rng.normal(size=(*shape, n_tokens, width)),
        1.5 * rng.normal(size=(width, query_width)) / np.sqrt(width),
        rng.normal(size=(width, query_width)) / np.sqrt(width),
        rng.normal(size=(width, value_width)) / np.sqrt(width),
    )


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
        Case("far apart scores", far_apart_tokens(rng), "M3"),
    ]


def far_apart_tokens(rng, by: float = 1000.0):
    """Draw tokens and projections that give queries and keys as `far_apart` does."""
    tokens, w_query, w_key, w_value = tokens_and_weights(rng, n_tokens=6, width=5, query_width=4, value_width=3)
    tokens, w_query, w_key = (exact(array / 2) * 2 for array in (tokens, w_query, w_key))  # quarters
    tokens[:, 0], tokens[:, 1] = 1, np.arange(6) % 3 - 1
    w_query[:, 0], w_key[:, 0] = 0, 0
    w_query[1, 0], w_key[0, 0] = 2 * by, 1
    return tokens, w_query, w_key, w_value


def self_attention_mask_cases(rng):
    nothing = np.tri(5, k=-1, dtype=bool)  # the first token may look at nothing
    sizes = dict(n_tokens=5, width=4, query_width=3, value_width=3)
    batch = dict(n_tokens=4, width=7, query_width=3, value_width=2)
    return [
        Case("a mask", (*tokens_and_weights(rng, **sizes), draw_mask(rng, 5, 5))),
        Case("a causal mask", (*tokens_and_weights(rng, **sizes), np.tri(5, dtype=bool))),
        Case("a mask, and rows far apart", (*far_apart_tokens(rng, by=300), draw_mask(rng, 6, 6))),
        Case("a mask for each image of a batch", (*tokens_and_weights(rng, 3, **batch), draw_mask(rng, 3, 4, 4))),
        Case("a token that may look at nothing", (*tokens_and_weights(rng, **sizes), nothing), "M20"),
    ]


def self_attention_visible_cases(rng):
    tokens = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [1.0, 1.0, 0.0]])
    w_query = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]])
    w_key = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    w_value = np.array([[1.0, 1.0], [0.0, 2.0], [-1.0, 0.0]])
    mask = np.array([[True, False, False], [True, True, False], [False, True, True]])
    return [
        Case("three tokens", (tokens, w_query, w_key, w_value)),
        Case("a mask", (tokens, w_query, w_key, w_value, mask)),
    ]


SELF_ATTENTION = Exercise(
    name="self_attention",
    names=("output", "weights"),
    oracle=oracle_self_attention,
    build=self_attention_from,
    mutants=SELF_ATTENTION_MUTANTS,
    stages={"values": self_attention_value_cases, "axes": self_attention_axes_cases, "mask": self_attention_mask_cases},
    visible=self_attention_visible_cases,
    correct=CORRECT_SELF_ATTENTION,
    uses={"softmax": oracle_softmax, "attention": oracle_attention},
)

# ----------------------------------------------------------------------------------------------- attention_backward


def oracle_attention_backward(grad_output: Array, queries: Array, keys: Array, values: Array):
    leaves = [torch.tensor(array, requires_grad=True) for array in (queries, keys, values)]
    output = F.scaled_dot_product_attention(*leaves)
    total = (output * torch.tensor(grad_output)).sum()
    return tuple(gradient.numpy() for gradient in torch.autograd.grad(total, leaves))


def attention_backward_from(
    grad_values_of=lambda weights, grad_output: swap(weights) @ grad_output,
    jacobian=lambda weights, grad: weights * (grad - (weights * grad).sum(-1, keepdims=True)),
    grad_scale=lambda queries, keys, values: 1 / np.sqrt(queries.shape[-1]),
    finish=lambda grad_scores, queries, keys: (grad_scores @ keys, swap(grad_scores) @ queries),
    **attention_steps,
):
    attention = attention_from(**attention_steps)

    def attention_backward(grad_output: Array, queries: Array, keys: Array, values: Array):
        weights = attention(queries, keys, values)[1]
        grad_scores = jacobian(weights, grad_output @ swap(values)) * grad_scale(queries, keys, values)
        return *finish(grad_scores, queries, keys), grad_values_of(weights, grad_output)

    return attention_backward


BACKWARD_MUTANTS = (
    *INNER_SOFTMAX_MUTANTS,
    *SCALE_MUTANTS,
    Mutant(
        "M7",
        scale=lambda queries, keys, values: 1.0,
        after=lambda weights, mask, queries: weights / np.sqrt(queries.shape[-1]),
    ),
    Mutant("M7", after=lambda weights, mask, queries: weights / np.sqrt(queries.shape[-1])),
    Mutant("M11", score=lambda queries, keys: keys @ swap(queries)),
    Mutant("M15", change=scale_queries_in_place),
    Mutant(  # the gradients are right and the caller's queries are not
        "M15",
        change=scale_queries_in_place,
        finish=lambda grad_scores, queries, keys: (
            grad_scores @ keys,
            swap(grad_scores) @ queries * np.sqrt(queries.shape[-1]),
        ),
    ),
    *(Mutant(mutant.mistake, **mutant.steps, grad_scale=mutant.steps["scale"]) for mutant in SCALE_MUTANTS),
    *(Mutant("M9", grad_scale=mutant.steps["scale"]) for mutant in SCALE_MUTANTS if mutant.mistake == "M9"),
    Mutant("M65", grad_scale=lambda queries, keys, values: 1.0),
    Mutant("M66", jacobian=lambda weights, grad: weights * grad),
    Mutant("M66", jacobian=lambda weights, grad: weights * (1 - weights) * grad),
    Mutant("M66", jacobian=lambda weights, grad: grad),
    Mutant("M67", jacobian=lambda weights, grad: weights * (grad - (weights * grad).sum(-2, keepdims=True))),
    Mutant("M67", jacobian=lambda weights, grad: weights * (grad - (weights * grad).sum())),
    Mutant("M67", jacobian=lambda weights, grad: weights * (grad - (weights * grad).sum(-1)[..., None, :])),
    Mutant("M68", finish=lambda grad_scores, queries, keys: (swap(grad_scores) @ queries, grad_scores @ keys)),
    Mutant("M68", finish=lambda grad_scores, queries, keys: (grad_scores @ keys, grad_scores @ queries)),
    Mutant("M68", finish=lambda grad_scores, queries, keys: (swap(grad_scores) @ keys, swap(grad_scores) @ queries)),
    Mutant("M68", finish=lambda grad_scores, queries, keys: (swap(grad_scores) @ keys, grad_scores @ queries)),
    Mutant("M68", finish=lambda grad_scores, queries, keys: (grad_scores @ queries, swap(grad_scores) @ keys)),
    Mutant("M69", grad_values_of=lambda weights, grad_output: weights @ grad_output),
    Mutant("M70", grad_scale=lambda queries, keys, values: 1 / queries.shape[-1]),
    Mutant("M70", grad_scale=lambda queries, keys, values: np.sqrt(queries.shape[-1])),
    Mutant("M70", grad_scale=lambda queries, keys, values: queries.shape[-1] ** -0.25),
)


def backward_with_whole_jacobians(grad_output, queries, keys, values):
    """The Jacobian diag(p) - p pᵀ of each row as a matrix."""
    root = np.sqrt(queries.shape[-1])
    weights = softmax_in_log_space(np.einsum("...qd,...kd->...qk", queries, keys) / root)
    jacobians = weights[..., None] * np.eye(weights.shape[-1]) - weights[..., None] * weights[..., None, :]
    grad_scores = (
        np.einsum("...qij,...qj->...qi", jacobians, np.einsum("...qv,...kv->...qk", grad_output, values)) / root
    )
    return (
        np.einsum("...qk,...kd->...qd", grad_scores, keys),
        np.einsum("...qk,...qd->...kd", grad_scores, queries),
        np.einsum("...qk,...qv->...kv", weights, grad_output),
    )


def backward_by_the_output(grad_output, queries, keys, values):
    """The row sums as those of grad_output * output, as FlashAttention does."""
    output, weights = attention_by_einsum(queries, keys, values)
    delta = (grad_output * output).sum(-1, keepdims=True)
    grad_scores = weights * (grad_output @ swap(values) - delta)
    root = queries.shape[-1] ** 0.5
    return grad_scores @ (keys / root), swap(grad_scores) @ (queries / root), swap(weights) @ grad_output


def backward_in_loops(grad_output, queries, keys, values):
    root = np.sqrt(queries.shape[-1])
    gradients = [np.zeros_like(array, dtype=float) for array in (queries, keys, values)]
    for index in np.ndindex(queries.shape[:-2]):
        q, k, v, g = queries[index], keys[index], values[index], grad_output[index]
        grad_q, grad_k, grad_v = (gradient[index] for gradient in gradients)
        for i in range(len(q)):
            p = scipy.special.softmax(k @ q[i] / root)
            grad_p = v @ g[i]
            for j in range(len(k)):
                grad_v[j] += p[j] * g[i]
                grad_s = sum(p[m] * ((m == j) - p[j]) * grad_p[m] for m in range(len(k)))
                grad_q[i] += grad_s * k[j] / root
                grad_k[j] += grad_s * q[i] / root
    return tuple(gradients)


def backward_by_autograd(grad_output, queries, keys, values):
    q, k, v = (torch.tensor(array, requires_grad=True) for array in (queries, keys, values))
    output = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    (output * torch.tensor(grad_output)).sum().backward()
    return q.grad, k.grad, v.grad


def backward_in_float32(grad_output, queries, keys, values):
    return answers.attention_backward(*(array.astype(np.float32) for array in (grad_output, queries, keys, values)))


def backward_with_scaled_queries(grad_output, queries, keys, values):
    scaled = queries / np.sqrt(queries.shape[-1])
    weights = softmax_with_expand_dims(scaled @ swap(keys))
    grad_weights = np.matmul(grad_output, np.moveaxis(values, -2, -1))
    grad_scores = weights * grad_weights
    grad_scores = grad_scores - weights * grad_scores.sum(axis=-1)[..., None]
    return grad_scores @ keys / np.sqrt(queries.shape[-1]), swap(grad_scores) @ scaled, swap(weights) @ grad_output


def backward_through(attend):
    def attention_backward(grad_output, queries, keys, values):
        weights = np.asarray(attend(queries, keys, values)[1])
        grad = np.einsum("...qv,...kv->...qk", grad_output, values)
        grad = weights * (grad - np.einsum("...qk,...qk->...q", weights, grad)[..., None]) * queries.shape[-1] ** -0.5
        return (
            grad @ keys,
            np.einsum("...qk,...qd->...kd", grad, queries),
            np.einsum("...qk,...qv->...kv", weights, grad_output),
        )

    return attention_backward


CORRECT_BACKWARD = {
    "answer": answers.attention_backward,
    "whole Jacobians": backward_with_whole_jacobians,
    "row sums of the output": backward_by_the_output,
    "loops": backward_in_loops,
    "autograd": backward_by_autograd,
    "float32": backward_in_float32,
    "queries scaled first": backward_with_scaled_queries,
    "attention in loops": backward_through(attention_in_loops),
    "attention by einsum": backward_through(attention_by_einsum),
    "attention in torch": backward_through(attention_in_torch),
    "attention with the scale split": backward_through(attention_with_the_scale_split),
    "steps": attention_backward_from(),
    "oracle": oracle_attention_backward,
}


def with_grad_output(rng, arguments):
    queries, _, values = arguments
    return rng.normal(size=(*queries.shape[:-1], values.shape[-1])), *arguments


def backward_stage(name: str):
    def cases(rng):
        return [
            Case(
                "as many queries as keys, all widths equal",
                with_grad_output(rng, qkv(rng, n_queries=4, n_keys=4, width=3, value_width=3)),
                only=(name,),
            ),
            Case(
                "as many queries as keys",
                with_grad_output(rng, qkv(rng, n_queries=4, n_keys=4, width=3, value_width=2)),
                only=(name,),
            ),
            Case(
                "3 queries, 5 keys",
                with_grad_output(rng, qkv(rng, n_queries=3, n_keys=5, width=4, value_width=2)),
                only=(name,),
            ),
        ]

    return cases


def backward_axes_cases(rng):
    return [
        Case("a batch", with_grad_output(rng, qkv(rng, 2, n_queries=4, n_keys=4, width=3, value_width=3))),
        Case("a batch of heads", with_grad_output(rng, qkv(rng, 2, 3, n_queries=4, n_keys=5, width=6, value_width=7))),
    ]


def backward_far_cases(rng):
    """Scores of hundreds: nearly one-hot rows, whose gradient is almost 0 and must not be NaN."""
    near = qkv(rng, n_queries=8, n_keys=8, width=4, value_width=4)
    return [
        Case("scores of order 1", with_grad_output(rng, near)),
        Case("far apart scores", with_grad_output(rng, far_apart(*near)), "M3"),
    ]


def backward_visible_cases(rng):
    queries = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, -1.0], [1.0, 1.0, 0.0]])
    keys = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [2.0, 0.0, -1.0]])
    values = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [2.0, 1.0, 0.0]])
    grad_output = np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
    return [
        Case("three queries, three keys", (grad_output, queries, keys, values)),
        Case("two queries, three keys, values of width 2", (grad_output[:2, :2], queries[:2], keys, values[:, :2])),
    ]


ATTENTION_BACKWARD = Exercise(
    name="attention_backward",
    names=("grad_queries", "grad_keys", "grad_values"),
    oracle=oracle_attention_backward,
    build=attention_backward_from,
    mutants=BACKWARD_MUTANTS,
    stages={
        "values": backward_stage("grad_values"),
        "queries": backward_stage("grad_queries"),
        "keys": backward_stage("grad_keys"),
        "axes": backward_axes_cases,
        "far": backward_far_cases,
    },
    visible=backward_visible_cases,
    correct=CORRECT_BACKWARD,
    uses={"softmax": oracle_softmax, "attention": oracle_attention},
)

EXERCISES = {exercise.name: exercise for exercise in (SOFTMAX, ATTENTION, SELF_ATTENTION, ATTENTION_BACKWARD)}
check = checker(EXERCISES)

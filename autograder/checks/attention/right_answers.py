"""Right answers of assignment 1_attention, written differently: they must pass the checks. No points depend on them."""

import numpy as np
import scipy.special
import torch

from autograder.checks.attention import oracles, stand_ins
from solutions import attention as answers

Array = np.ndarray


def swap(array: Array) -> Array:
    """Transpose the last two axes."""
    return np.swapaxes(array, -1, -2)


def refuse(queries: Array, keys: Array, mask: Array | None) -> None:
    """Raise the errors that the specification asks for."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("widths differ")
    if mask is not None and not mask.any(-1).all():
        raise ValueError("the mask hides all keys from a query")


def in_float32(answer):
    def narrow(*arguments):
        return answer(*(a.astype(np.float32) if np.ndim(a) and a.dtype != bool else a for a in arguments))

    return narrow


def softmax_in_loops(scores, axis=-1):
    moved = np.moveaxis(np.asarray(scores, dtype=float), axis, -1)
    weights = np.zeros_like(moved)
    for index in np.ndindex(moved.shape[:-1]):
        row = moved[index]
        exponentials = [np.exp(score - max(row)) for score in row]
        weights[index] = [exponential / sum(exponentials) for exponential in exponentials]
    return np.moveaxis(weights, -1, axis)


def softmax_in_log_space(scores, axis=-1):
    return np.exp(scores - np.logaddexp.reduce(scores, axis=axis, keepdims=True))


def softmax_with_expand_dims(scores, axis=-1):
    largest = np.expand_dims(np.max(scores, axis), axis)
    exponentials = np.exp(scores - largest)
    total = np.expand_dims(np.sum(exponentials, axis), axis)
    return exponentials / total


def softmax_returning_a_tensor(scores, axis=-1):
    return torch.softmax(torch.tensor(scores), dim=axis)


def read_only_softmax(scores, axis=-1):
    """Return a read-only array in Fortran order."""
    weights = np.asfortranarray(scipy.special.softmax(scores, axis=axis))
    weights.flags.writeable = False
    return weights


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
    if queries.shape[-1] != keys.shape[-1]:  # einsum raises no error if one width is 1
        raise ValueError("queries and keys differ in width")
    scores = np.einsum("...qd,...kd->...qk", queries, keys) * queries.shape[-1] ** -0.5
    if mask is not None:
        if not np.all(np.any(mask, axis=-1)):
            raise ValueError("the mask hides all keys from a query")
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


def attention_renormalised(queries, keys, values, mask=None):
    """Fix M17: mask the weights, and then normalise them again."""
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
    """Look for a NaN, which shows that the mask hides all keys from a query."""
    products = queries @ swap(keys)
    scores = products / np.sqrt(queries.shape[-1])
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    shifted = scores - largest
    exponentials = np.exp(shifted)
    total = exponentials.sum(-1, keepdims=True)
    weights = exponentials / total
    if np.isnan(weights).any():
        raise ValueError("the mask hides all keys from a query")
    return weights @ values, weights


class MaskError(ValueError):
    """A subclass of ValueError that a student defined."""


def attention_with_log_mask(queries, keys, values, mask=None):
    """Add the logarithm of the mask, which is 0 or -inf, and raise a MaskError."""
    if mask is not None and (np.sum(mask, axis=-1) < 1).any():
        raise MaskError("a query looks at nothing")
    if queries.shape[-1] != keys.shape[-1]:
        raise MaskError("of different widths")
    scores = np.einsum("...id,...jd->...ij", queries, keys) / queries.shape[-1] ** 0.5
    scores = scores if mask is None else scores + np.log(mask)
    weights = softmax_in_loops(scores)
    return np.einsum("...ij,...jv->...iv", weights, values), weights


def self_attention_packed(tokens, w_query, w_key, w_value, mask=None):
    packed = tokens @ np.concatenate([w_query, w_key, w_value], axis=1)
    queries, keys, values = np.split(packed, [w_query.shape[1], w_query.shape[1] + w_key.shape[1]], axis=-1)
    return attention_with_scaled_keys(queries, keys, values, mask)


def backward_with_whole_jacobians(grad_output, queries, keys, values):
    """Build the Jacobian diag(p) - p pᵀ of each row as a matrix."""
    root = np.sqrt(queries.shape[-1])
    products = np.einsum("...qd,...kd->...qk", queries, keys)
    weights = softmax_in_log_space(products / root)
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
    """Take the row sums of grad_output * output, as FlashAttention does."""
    output, weights = attention_by_einsum(queries, keys, values)
    delta = (grad_output * output).sum(-1, keepdims=True)
    grad_weights = grad_output @ swap(values)
    centred = grad_weights - delta
    grad_scores = weights * centred
    root = queries.shape[-1] ** 0.5
    return grad_scores @ (keys / root), swap(grad_scores) @ (queries / root), swap(weights) @ grad_output


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


def online_in_loops(largest, total, mixed, scores, values):
    largest, total, mixed = (np.array(array, dtype=float) for array in (largest, total, mixed))
    for index in np.ndindex(largest.shape):
        for score, value in zip(scores[index], values[index[:-1]], strict=True):
            if score == -np.inf:
                continue
            if score > largest[index]:
                shrunk = np.exp(largest[index] - score)
                largest[index], total[index] = score, total[index] * shrunk
                mixed[index] *= shrunk
            total[index] += np.exp(score - largest[index])
            mixed[index] += np.exp(score - largest[index]) * value
    return largest, total, mixed


def online_without_nan(largest, total, mixed, scores, values):
    with np.errstate(invalid="ignore"):
        larger = np.maximum(largest, np.max(scores, -1))
        rescale = np.nan_to_num(np.exp(largest - larger))
        exponentials = np.nan_to_num(np.exp(scores - larger[..., None]))
    return larger, total * rescale + exponentials.sum(-1), mixed * rescale[..., None] + exponentials @ values


def online_from_a_finite_number(largest, total, mixed, scores, values):
    """Subtract the smallest finite number in rows without a key so far."""
    of_block = scores.max(-1)
    larger = np.maximum(largest, of_block)
    origin = np.maximum(larger, np.finfo(float).min)
    before, shifted = largest - origin, scores - origin[..., None]
    rescale, new = np.exp(before), np.exp(shifted)
    old_total, new_total = np.einsum("...,...->...", rescale, total), np.einsum("...k->...", new)
    old_mixed, new_mixed = np.einsum("...,...v->...v", rescale, mixed), np.einsum("...qk,...kv->...qv", new, values)
    return larger, old_total + new_total, old_mixed + new_mixed


def online_in_torch(largest, total, mixed, scores, values):
    m, z, o, s, v = (torch.tensor(array) for array in (largest, total, mixed, scores, values))
    larger = torch.maximum(m, s.amax(-1))
    origin = larger.masked_fill(larger.isneginf(), 0)
    rescale, new = (m - origin).exp(), (s - origin.unsqueeze(-1)).exp()
    return larger, rescale * z + new.sum(-1), rescale.unsqueeze(-1) * o + new @ v


def online_by_masked_exponentials(largest, total, mixed, scores, values):
    seen = scores > -np.inf
    larger = np.maximum(largest, np.where(seen, scores, -np.inf).max(-1))
    new = np.exp(scores - larger[..., None], out=np.zeros(scores.shape), where=seen)
    rescale = np.exp(largest - larger, out=np.zeros(larger.shape), where=largest > -np.inf)
    return [larger, rescale * total + new.sum(-1), rescale[..., None] * mixed + np.matmul(new, values)]


RIGHT_ANSWERS = {
    "softmax": {
        "answer": answers.softmax,
        "loops": softmax_in_loops,
        "log space": softmax_in_log_space,
        "expand_dims": softmax_with_expand_dims,
        "float32": in_float32(answers.softmax),
        "torch": softmax_returning_a_tensor,
        "read-only, in Fortran order": read_only_softmax,
    },
    "attention": {
        "answer": answers.attention,
        "loops": attention_in_loops,
        "einsum": attention_by_einsum,
        "torch": attention_in_torch,
        "float32": in_float32(answers.attention),
        "masked and renormalised": attention_renormalised,
        "keys scaled, log space": attention_with_scaled_keys,
        "scale split over queries and keys": attention_with_the_scale_split,
        "NaN noticed": attention_noticing_nan,
        "logarithm of the mask, an error of its own": attention_with_log_mask,
        "oracle": stand_ins.attention,
    },
    "self_attention": {
        "answer": answers.self_attention,
        "packed projections": self_attention_packed,
        "oracle": oracles.oracle_self_attention,
    },
    "attention_backward": {
        "answer": answers.attention_backward,
        "whole Jacobians": backward_with_whole_jacobians,
        "row sums of the output": backward_by_the_output,
        "float32": in_float32(answers.attention_backward),
        "attention in loops": backward_through(attention_in_loops),
        "attention in torch": backward_through(attention_in_torch),
        "attention with the scale split": backward_through(attention_with_the_scale_split),
        "oracle": oracles.oracle_attention_backward,
    },
    "online_softmax": {
        "answer": answers.online_softmax,
        "loops": online_in_loops,
        "NaN replaced": online_without_nan,
        "einsum, from a finite number": online_from_a_finite_number,
        "torch": online_in_torch,
        "float32": in_float32(answers.online_softmax),
        "exponentials of what is seen": online_by_masked_exponentials,
        "oracle": oracles.oracle_online_softmax,
    },
}
RIGHT_ANSWERS["self_attention"] |= {
    f"projections, {name}": lambda x, q, k, v, mask=None, attend=attend: attend(x @ q, x @ k, x @ v, mask)
    for name, attend in RIGHT_ANSWERS["attention"].items()
    if name not in ("answer", "oracle")
}

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"np\.where\(mask.*; ": "a second call changes nothing",
    r"-> np\.maximum\(scores\.max": "the order of two arguments does not change their maximum",
    r"online_softmax, line \d+: 0 -> -?1": "any finite number gives the same result",
}

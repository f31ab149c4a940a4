"""The steps of the exercises of assignment 1_attention, by what is said of each: with them the line that is wrong is found.

A step is an array; or an array, "+" or "*", and an axis, where what is added to each row of it, or multiplied with it, makes
no difference to what comes after.
"""

import numpy as np

Array = np.ndarray
Steps = dict[str, Array | tuple[Array, str, int]]


def swap(array: Array) -> Array:
    """Transpose the last two axes."""
    return np.swapaxes(array, -1, -2)


@np.errstate(all="ignore")
def softmax(scores: Array, axis: int = -1) -> Steps:
    scores = np.array(scores, dtype=float)
    shifted = scores - scores.max(axis=axis, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=axis, keepdims=True)
    return {
        "are the scores, shifted": (shifted, "+", axis),
        "are the exponentials": (exponentials, "*", axis),
        "are the sums of the exponentials": sums,
        "are the weights": exponentials / sums,
    }


@np.errstate(all="ignore")
def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> Steps:
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
        steps["are the scores with the hidden ones at -inf"] = (scores, "+", -1)
    steps |= softmax(scores)
    return steps | {"is the output": steps["are the weights"] @ values}


def self_attention(tokens: Array, w_query: Array, w_key: Array, w_value: Array, mask: Array | None = None) -> Steps:
    queries, keys, values = tokens @ w_query, tokens @ w_key, tokens @ w_value
    steps: Steps = {"are the queries": queries, "are the keys": keys, "are the values": values}
    return steps | attention(queries, keys, values, mask)


@np.errstate(all="ignore")
def attention_backward(grad_output: Array, queries: Array, keys: Array, values: Array) -> Steps:
    root = np.sqrt(queries.shape[-1])
    steps = attention(queries, keys, values)
    weights = steps["are the weights"]
    grad_weights = grad_output @ swap(values)
    products = weights * grad_weights
    means = products.sum(axis=-1, keepdims=True)
    grad_scaled = weights * (grad_weights - means)
    eye = np.eye(weights.shape[-1])
    return steps | {
        "is the gradient of the values": swap(weights) @ grad_output,
        "is the gradient of the weights": grad_weights,
        "are the weights times their gradient": products,
        "are the mean gradients of the rows": means,
        "is the gradient of the weights, without the mean of its row": grad_weights - means,
        "is the Jacobian of the softmax": weights[..., None] * (eye - weights[..., None, :]),
        "is the gradient of the scaled scores": grad_scaled,
        "is the gradient of the products": grad_scaled / root,
        "is the gradient of the queries": grad_scaled @ keys / root,
        "is the gradient of the keys": swap(grad_scaled) @ queries / root,
    }


@np.errstate(all="ignore")
def online_softmax(largest: Array, total: Array, mixed: Array, scores: Array, values: Array) -> Steps:
    of_block = scores.max(axis=-1)
    larger = np.maximum(largest, of_block)
    origin = np.where(np.isneginf(larger), 0, larger)
    factor = np.exp(largest - origin)
    exponentials = np.exp(scores - origin[..., None])
    return {
        "are the largest scores of the block": of_block,
        "are the largest scores so far": larger,
        "are the largest scores so far, 0 where there is none": origin,
        "are the factors of what was summed before": factor,
        "are the scores, shifted": scores - origin[..., None],
        "are the exponentials": exponentials,
        "are the sums of the exponentials": exponentials.sum(axis=-1),
        "is the total before, corrected": factor * total,
        "is the total": factor * total + exponentials.sum(axis=-1),
        "is the mixture before, corrected": factor[..., None] * mixed,
        "are the values of the block, mixed": exponentials @ values,
        "is the mixture": factor[..., None] * mixed + exponentials @ values,
    }

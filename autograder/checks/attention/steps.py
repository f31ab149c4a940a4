"""The steps of the exercises of assignment 1_attention; `autograder/checks/steps.py` says what a step is."""

import numpy as np

from autograder.checks.steps import Array, Steps, attention, softmax, swap

__all__ = ["attention", "attention_backward", "online_softmax", "self_attention", "softmax"]


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
        "is the product of the weights and their gradient": products,
        "are the row means of the gradient of the weights": means,
        "is the gradient of the weights minus its row means": grad_weights - means,
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
    mean, of_all = mixed / total[..., None], factor * total + exponentials.sum(axis=-1)
    block = softmax(scores)["are the weights"]
    return {
        "is the log-sum-exp of the earlier scores": largest + np.log(total),
        "are the earlier mean values": mean,
        "are the logarithms of the earlier totals": np.log(total),
        "are the largest scores of the block": of_block,
        "are the largest scores so far": larger,
        "are the largest scores so far, with 0 instead of -inf": origin,
        "are the factors for the earlier sums": factor,
        "are the shifted scores": scores - origin[..., None],
        "are the exponentials": exponentials,
        "are the sums of the exponentials": exponentials.sum(axis=-1),
        "is the rescaled earlier total": factor * total,
        "is the total": of_all,
        "is the rescaled earlier mixture": factor[..., None] * mixed,
        "are the mixed values of the block": exponentials @ values,
        "are the differences between the earlier and the new largest scores": largest - origin,
        "are the weights of the block": block,
        "are the mean values of the block": block @ values,
        "is the share of the earlier blocks": factor * total / of_all,
        "is the share of the block": exponentials.sum(axis=-1) / of_all,
        "are the logarithms of the totals": np.log(of_all),
        "is the log-sum-exp of all scores": larger + np.log(of_all),
        "is the mixture": factor[..., None] * mixed + exponentials @ values,
    }

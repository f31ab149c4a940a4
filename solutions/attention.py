"""Attention and its gradient in NumPy, from the softmax up."""

import numpy as np

Array = np.ndarray


def softmax(scores: Array, axis: int = -1) -> Array:
    """Turn scores into positive weights that sum to 1 along one axis.

    Args:
        scores: (...), at least one axis. Finite numbers of any size, such as 1000 and -1000. The function
            does not change them.
        axis: The axis along which the weights sum to 1.

    Returns:
        The weights; they have the shape of the scores.

    Source: Bridle 1990; subtracting the maximum: Blanchard, Higham and Higham 2021.
    """
    shifted = scores - scores.max(axis=axis, keepdims=True)  # the largest score is now 0, so exp cannot overflow
    exponentials = np.exp(shifted)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Mix values by how well each query matches each key.

    Args:
        queries: (..., N_q, d).
        keys: (..., N_k, d).
        values: (..., N_k, d_v).
        mask: True where a query may look at a key. It broadcasts to (..., N_q, N_k).

    Returns:
        The mixed values, (..., N_q, d_v), and the weights, (..., N_q, N_k). Each row of weights sums to 1.

    Raises:
        ValueError: queries and keys have different widths, or the mask hides all keys from a query.

    Source: Vaswani et al. 2017, eq. 1.
    """
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(f"queries have width {queries.shape[-1]}, keys {keys.shape[-1]}; they must be equal")
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])  # (..., N_q, N_k)
    if mask is not None:
        if not mask.any(axis=-1).all():
            raise ValueError(
                f"the mask hides all keys from a query: {(~mask.any(axis=-1)).sum()} of its rows are all False"
            )
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)  # (..., N_q, N_k)
    return weights @ values, weights  # (..., N_q, d_v), (..., N_q, N_k)


def self_attention(
    tokens: Array, w_query: Array, w_key: Array, w_value: Array, mask: Array | None = None
) -> tuple[Array, Array]:
    """Let every token look at every token, through learned projections.

    Args:
        tokens: (..., N, D).
        w_query: (D, d).
        w_key: (D, d).
        w_value: (D, d_v).
        mask: True where a token may look at another token. It broadcasts to (..., N, N).

    Returns:
        The new tokens, (..., N, d_v), and the weights, (..., N, N).

    Raises:
        ValueError: in the same cases as `attention`.

    Source: Vaswani et al. 2017, section 3.2.
    """
    return attention(tokens @ w_query, tokens @ w_key, tokens @ w_value, mask)


def attention_backward(grad_output: Array, queries: Array, keys: Array, values: Array) -> tuple[Array, Array, Array]:
    """Compute the gradients of `attention` without a mask.

    Args:
        grad_output: (..., N_q, d_v), the gradient of the loss with respect to attention's output.
        queries: (..., N_q, d).
        keys: (..., N_k, d).
        values: (..., N_k, d_v).

    Returns:
        The gradients with respect to queries, keys and values. Each has the shape of its argument.

    Source: Dao et al. 2022, appendix B.2.
    """
    _, weights = attention(queries, keys, values)
    grad_values = np.swapaxes(weights, -1, -2) @ grad_output  # (..., N_k, d_v)
    grad_weights = grad_output @ np.swapaxes(values, -1, -2)  # (..., N_q, N_k)
    row_means = (weights * grad_weights).sum(axis=-1, keepdims=True)  # (..., N_q, 1)
    grad_scores = weights * (grad_weights - row_means) / np.sqrt(queries.shape[-1])  # (..., N_q, N_k)
    grad_queries = grad_scores @ keys  # (..., N_q, d)
    grad_keys = np.swapaxes(grad_scores, -1, -2) @ queries  # (..., N_k, d)
    return grad_queries, grad_keys, grad_values


def online_softmax(
    largest: Array, total: Array, mixed: Array, scores: Array, values: Array
) -> tuple[Array, Array, Array]:
    """Add one block of keys to a softmax that never stores a whole row of scores.

    For each query, largest, total and mixed describe all keys so far. The output after the last block is mixed / total.

    Args:
        largest: (..., N_q), the largest score so far; -inf before the first block, and if all scores were -inf.
        total: (..., N_q), the sum of exp(score - largest) so far; 0 before the first block.
        mixed: (..., N_q, d_v), the sum of exp(score - largest) times the value so far; 0 before the first block.
        scores: (..., N_q, n), the scores of the next n keys, of any size; -inf where a key is hidden.
        values: (..., n, d_v), the values of these keys.

    Returns:
        largest, total and mixed after this block, in the same shapes. No number is NaN.

    Source: Milakov and Gimelshein 2018, algorithm 3; with values: Dao et al. 2022, algorithm 1.
    """
    larger = np.maximum(largest, scores.max(axis=-1))  # (..., N_q)
    origin = np.where(np.isneginf(larger), 0, larger)  # (..., N_q); -inf - -inf would be NaN
    rescale = np.exp(largest - origin)  # (..., N_q)
    exponentials = np.exp(scores - origin[..., None])  # (..., N_q, n)
    total = rescale * total + exponentials.sum(axis=-1)  # (..., N_q)
    mixed = rescale[..., None] * mixed + exponentials @ values  # (..., N_q, d_v)
    return larger, total, mixed

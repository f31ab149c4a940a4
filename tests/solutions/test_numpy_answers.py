"""Are the answers in NumPy right? They are compared with PyTorch, finite differences and numbers worked out by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from solutions.attention import attention, attention_backward, self_attention, softmax

# float64 keeps 16 digits; dozens of sums and products of numbers near 1 lose two or three of them.
CLOSE = {"rtol": 1e-12, "atol": 1e-13}
CLOSE_FLOAT32 = {"rtol": 1e-5, "atol": 1e-6}  # float32 keeps 7 digits
LEADING = [(), (2,), (2, 3)]

LN2, LN3 = np.log(2.0), np.log(3.0)
# The example by hand: three queries, keys and values of width 2. The √2 in the queries cancels the scale, so that the
# scores are logarithms of whole numbers and the weights are fractions.
QUERIES = np.sqrt(2.0) * np.array([[LN2, 0.0], [0.0, LN3], [LN2, LN3]])
KEYS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # scores: ln (2, 1, 2), ln (1, 3, 3), ln (2, 3, 6)
VALUES = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 4.0]])
WEIGHTS = np.array([[2 / 5, 1 / 5, 2 / 5], [1 / 7, 3 / 7, 3 / 7], [2 / 11, 3 / 11, 6 / 11]])
OUTPUT = np.array([[5 / 5, 11 / 5], [10 / 7, 11 / 7], [11 / 11, 25 / 11]])


def draw(seed: int, leading: tuple[int, ...], dtype: type = np.float64) -> tuple[np.ndarray, ...]:
    """Draw queries, keys and values whose sizes all differ: 4 queries, 5 keys, widths 6 and 7."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(*leading, *shape)).astype(dtype) for shape in ((4, 6), (5, 6), (5, 7)))


def draw_mask(seed: int, *shape: int) -> np.ndarray:
    """Draw a mask in which each row allows at least one key."""
    mask = np.random.default_rng(seed).random(shape) < 0.5
    mask[..., 1] |= ~mask.any(axis=-1)
    return mask


def sdpa(*arrays: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the output of PyTorch's own attention."""
    mask = None if mask is None else torch.from_numpy(mask)
    return F.scaled_dot_product_attention(*map(torch.from_numpy, arrays), attn_mask=mask).numpy()


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_softmax_equals_torch(axis: int) -> None:
    """Is softmax equal to torch.softmax along every axis?"""
    scores = 3 * np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_allclose(softmax(scores, axis), torch.softmax(torch.from_numpy(scores), axis).numpy(), **CLOSE)


def test_softmax_by_hand() -> None:
    """Are the weights of ln 1, ln 2, ln 5 the fractions 1/8, 2/8, 5/8, along the last axis by default?"""
    scores = np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 4.0]])
    np.testing.assert_allclose(softmax(scores), [[1 / 8, 2 / 8, 5 / 8], [3 / 10, 3 / 10, 4 / 10]], **CLOSE)


@pytest.mark.parametrize("shift", [-1e300, -1000.0, 1000.0, 1e300])
def test_softmax_survives_any_score(shift: float) -> None:
    """Does nothing overflow or warn for scores where exp alone would?"""
    scores = np.array([[0.0, 1.0, 3.0]])
    expected = torch.softmax(torch.from_numpy(scores + shift), -1).numpy()
    np.testing.assert_allclose(softmax(scores + shift), expected, **CLOSE)


def test_softmax_of_rows_far_apart() -> None:
    """Does a row thousands below the others get its own weights, instead of 0/0?"""
    scores = np.array([[0.0, 1.0, 3.0], [-5000.0, -5001.0, -5000.0]])
    np.testing.assert_allclose(softmax(scores), torch.softmax(torch.from_numpy(scores), -1).numpy(), **CLOSE)


def test_softmax_float32_stays_float32() -> None:
    """Does float32 stay float32 and agree with PyTorch, with scores above 89 where exp overflows?"""
    scores = (100 * np.random.default_rng(1).normal(size=(4, 5))).astype(np.float32)
    weights = softmax(scores)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, torch.softmax(torch.from_numpy(scores), -1).numpy(), **CLOSE_FLOAT32)


def test_attention_by_hand() -> None:
    """Does attention give the fractions that were worked out on paper?"""
    output, weights = attention(QUERIES, KEYS, VALUES)
    np.testing.assert_allclose(weights, WEIGHTS, **CLOSE)
    np.testing.assert_allclose(output, OUTPUT, **CLOSE)


def test_attention_by_hand_masked() -> None:
    """Does a mask keep the proportions of the other fractions: (2, 1, 2)/5 without the last key is (2, 1)/3?"""
    mask = np.array([[True, True, False], [True, True, True], [False, False, True]])
    output, weights = attention(QUERIES, KEYS, VALUES, mask)
    np.testing.assert_allclose(weights, [[2 / 3, 1 / 3, 0], WEIGHTS[1], [0, 0, 1]], **CLOSE)
    np.testing.assert_allclose(output, [[5 / 3, 1], OUTPUT[1], [0, 4]], **CLOSE)


@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("seed", [0, 1])
def test_attention_equals_torch(leading: tuple[int, ...], seed: int) -> None:
    """Is the output that of F.scaled_dot_product_attention, with any batch axes?"""
    arrays = draw(seed, leading)
    output, weights = attention(*arrays)
    assert output.shape == (*leading, 4, 7)
    assert weights.shape == (*leading, 4, 5)
    np.testing.assert_allclose(output, sdpa(*arrays), **CLOSE)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, **CLOSE)
    np.testing.assert_allclose(weights @ arrays[2], output, **CLOSE)


@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 5)])
def test_attention_masked_equals_torch(shape: tuple[int, ...]) -> None:
    """Does a mask of any shape that broadcasts give PyTorch's result?"""
    arrays, mask = draw(2, (2, 3)), draw_mask(3, *shape)
    output, weights = attention(*arrays, mask)
    np.testing.assert_allclose(output, sdpa(*arrays, mask=mask), **CLOSE)
    assert not weights[~np.broadcast_to(mask, weights.shape)].any()


def test_attention_float32_equals_torch() -> None:
    """Does attention in float32 agree with PyTorch's? (NumPy's root of d is float64, so the result is float64.)"""
    arrays = draw(4, (2,), np.float32)
    output, _ = attention(*arrays)
    np.testing.assert_allclose(output, sdpa(*arrays), **CLOSE_FLOAT32)


def test_attention_refuses_widths_that_differ() -> None:
    """Does the error hold both widths?"""
    queries, keys, values = draw(5, ())
    with pytest.raises(ValueError, match=r"width 3\b.*\b6\b.*equal"):
        attention(queries[:, :3], keys, values)


def test_attention_refuses_a_query_without_keys() -> None:
    """Does the error say how many rows of the mask are empty, without a warning about division?"""
    mask = draw_mask(6, 4, 5)
    mask[[0, 2]] = False
    with pytest.raises(ValueError, match=r"^the mask hides all keys from a query: 2 of its rows are all False$"):
        attention(*draw(6, ()), mask)


@pytest.mark.parametrize("leading", LEADING)
def test_self_attention_equals_torch(leading: tuple[int, ...]) -> None:
    """Is self-attention equal to F.linear three times and PyTorch's attention, with and without a mask?"""
    rng = np.random.default_rng(7)
    tokens, w_query, w_key = rng.normal(size=(*leading, 4, 5)), rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    w_value = rng.normal(size=(5, 6))
    projected = [F.linear(torch.from_numpy(tokens), torch.from_numpy(w.T)).numpy() for w in (w_query, w_key, w_value)]
    for mask in (None, np.tri(4, dtype=bool)):
        output, weights = self_attention(tokens, w_query, w_key, w_value, mask)
        np.testing.assert_allclose(output, sdpa(*projected, mask=mask), **CLOSE)
        assert weights.shape == (*leading, 4, 4)


def test_self_attention_equivariance() -> None:
    """Are the outputs permuted in the same way as the tokens?"""
    rng = np.random.default_rng(8)
    tokens, weights = rng.normal(size=(5, 4)), [rng.normal(size=(4, size)) for size in (3, 3, 6)]
    order = np.array([3, 0, 4, 1, 2])
    moved, map_moved = self_attention(tokens[order], *weights)
    output, attention_map = self_attention(tokens, *weights)
    np.testing.assert_allclose(moved, output[order], **CLOSE)
    np.testing.assert_allclose(map_moved, attention_map[np.ix_(order, order)], **CLOSE)


@pytest.mark.parametrize("leading", LEADING)
def test_attention_backward_equals_autograd(leading: tuple[int, ...]) -> None:
    """Are the gradients those of PyTorch's autograd?"""
    arrays = draw(9, leading)
    grad_output = np.random.default_rng(10).normal(size=(*leading, 4, 7))
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*leaves), leaves, torch.from_numpy(grad_output))
    for gradient, right, array in zip(attention_backward(grad_output, *arrays), expected, arrays, strict=True):
        assert gradient.shape == array.shape
        np.testing.assert_allclose(gradient, right.numpy(), rtol=1e-10, atol=1e-12)  # one product more than forward


@pytest.mark.parametrize("which", [0, 1, 2])
def test_attention_backward_equals_finite_differences(which: int) -> None:
    """Does the loss change along a direction as the gradient predicts?

    Central differences of step h have an error of h² = 1e-10, and a rounding error of 1e-16 / h = 1e-11. The third
    derivative is below 1e3.
    """
    arrays, rng, step = list(draw(11, (2,))), np.random.default_rng(12), 1e-5
    grad_output, direction = rng.normal(size=(2, 4, 7)), rng.normal(size=arrays[which].shape)

    def loss(sign: int) -> float:
        moved = list(arrays)
        moved[which] = arrays[which] + sign * step * direction
        return float((attention(*moved)[0] * grad_output).sum())

    slope = (loss(1) - loss(-1)) / (2 * step)
    assert slope == pytest.approx(
        (attention_backward(grad_output, *arrays)[which] * direction).sum(), rel=1e-6, abs=1e-7
    )


def test_answers_leave_their_arguments_alone() -> None:
    """Does a call leave every argument unchanged?"""
    arrays = draw(13, (2,))
    grad_output, mask = np.ones((2, 4, 7)), draw_mask(14, 4, 5)
    tokens, weights = arrays[0], [np.random.default_rng(15).normal(size=(6, size)) for size in (3, 3, 2)]
    for function, arguments in (
        (softmax, arrays[:1]),
        (attention, (*arrays, mask)),
        (self_attention, (tokens, *weights)),
        (attention_backward, (grad_output, *arrays)),
    ):
        before = [argument.copy() for argument in arguments]
        function(*arguments)
        for argument, copy in zip(arguments, before, strict=True):
            np.testing.assert_array_equal(argument, copy)

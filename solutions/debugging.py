"""A test of attention, and candidates to try it on. The programs that students fix are in `programs.py`."""

import torch
import torch.nn.functional as F
from torch import Tensor


def candidates_to_try() -> tuple[dict, dict]:
    """Return some right and some wrong attention functions by name. All take (q, k, v, mask=None)."""

    def scores_of(q, k, mask=None, empty_is_refused=True):
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, N, N)
        if mask is None:
            return scores
        mask = {2: mask[:, None, None], 3: mask[:, None], 4: mask}[mask.ndim]  # broadcasts to (B, H, N, N)
        if empty_is_refused and not mask.any(-1).all():
            raise ValueError("the mask hides all keys from a query")
        return scores.masked_fill(~mask, -torch.inf)

    def mixed(weights, v):
        return weights @ v, weights

    def in_loops(q, k, v, mask=None):
        rows = [[[row.softmax(0) for row in head] for head in image] for image in scores_of(q, k, mask)]
        return mixed(torch.stack([torch.stack([torch.stack(head) for head in image]) for image in rows]), v)

    def by_logarithms(q, k, v, mask=None):
        scores = scores_of(q / 3, 3 * k, mask)  # the rounding of this candidate differs
        return mixed((scores - scores.logsumexp(-1, keepdim=True)).exp(), v)

    def fused(q, k, v, mask=None):
        weights = scores_of(q, k, mask).softmax(-1)
        hidden = None if mask is None else {2: mask[:, None, None], 3: mask[:, None], 4: mask}[mask.ndim]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=hidden), weights

    def without_a_maximum(q, k, v, mask=None):
        exponentials = scores_of(q, k, mask).exp()
        return mixed(exponentials / exponentials.sum(-1, keepdim=True), v)

    def mask_without_heads(q, k, v, mask=None):
        return mixed(scores_of(q, k, mask[None] if mask is not None and mask.ndim == 3 else mask).softmax(-1), v)

    def mask_afterwards(q, k, v, mask=None):
        weights = scores_of(q, k).softmax(-1)
        return mixed(weights if mask is None else weights * scores_of(q, k, mask).exp().bool(), v)

    right = {
        "in loops": in_loops,
        "by logarithms": by_logarithms,
        "PyTorch's own": fused,
        "by softmax": lambda q, k, v, mask=None: mixed(scores_of(q, k, mask).softmax(-1), v),
    }
    wrong = {
        "softmax over the queries": lambda q, k, v, mask=None: mixed(scores_of(q, k, mask).softmax(-2), v),
        "softmax over the heads": lambda q, k, v, mask=None: mixed(scores_of(q, k, mask).softmax(1), v),
        "no scale": lambda q, k, v, mask=None: mixed(scores_of(q * q.shape[-1] ** 0.5, k, mask).softmax(-1), v),
        "keys instead of values": lambda q, k, v, mask=None: mixed(scores_of(q, k, mask).softmax(-1), k),
        "no maximum subtracted": without_a_maximum,
        "a mask of pairs gets no axis of heads": mask_without_heads,
        "masked after the softmax": mask_afterwards,
        "a query without a visible key gives NaN": lambda q, k, v, mask=None: mixed(
            scores_of(q, k, mask, False).softmax(-1), v
        ),
    }
    return right, wrong


def test_attention(candidate) -> None:
    """Test an attention function that somebody else wrote.

    Args:
        candidate: A function `candidate(q, k, v, mask=None)`. It has the specification of `attend` of exercise 2:
            it returns the pair (output, weights). q, k, v and the output have shape (B, H, N, d), and the weights have
            shape (B, H, N, N). A mask is boolean, True where a query may look. Its shape is (B, N, N), (B, H, N, N) or,
            for the keys that exist, (B, N). If a mask hides all keys from a query, the candidate raises ValueError.

    Returns:
        Nothing, if the candidate is right.

    Raises:
        AssertionError: the candidate is wrong.
    """
    generator = torch.Generator().manual_seed(0)

    def check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> None:
        expected = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, N, N)
        if mask is not None:
            allowed = {2: mask[:, None, None], 3: mask[:, None], 4: mask}[mask.ndim]
            expected = expected.masked_fill(~allowed, -torch.inf)
        expected = expected.softmax(-1)
        output, weights = candidate(q, k, v) if mask is None else candidate(q, k, v, mask)
        for got, right in ((weights, expected), (output, expected @ v)):
            assert got.shape == right.shape, f"expected shape {tuple(right.shape)}, got {tuple(got.shape)}"
            assert torch.allclose(got, right, rtol=1e-3, atol=1e-3), f"off by up to {(got - right).abs().max():.3g}"

    # One of the inputs has as many images as heads.
    for images, heads, tokens, width in ((2, 3, 5, 7), (4, 4, 6, 3), (1, 1, 1, 2)):
        for size in (1.0, 30.0):  # the larger size gives scores of several thousand
            q, k, v = (size * torch.randn(images, heads, tokens, width, generator=generator) for _ in range(3))
            v = v / size
            check(q, k, v)
            for shape in ((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens)):
                mask = torch.rand(shape, generator=generator) < 0.5
                mask[..., torch.randint(tokens, (1,), generator=generator)] = True  # each row has a visible key
                check(q, k, v, mask)
                mask[-1, ..., :] = False
                refused = False
                try:
                    candidate(q, k, v, mask)
                except ValueError:
                    refused = True
                assert refused, "the mask hides all keys from a query, but there was no ValueError"

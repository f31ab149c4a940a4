"""Answers to exercise 2 that are in no list of the checks: points may not depend on being listed."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.multihead.oracles import with_axes
from autograder.judge.exercise import right_answers_of
from solutions import multihead


def attend_by_outer_products(q, k, v, mask=None):
    """Take differences of scores, as 1 / Σ exp(s_j - s_i), key by key.

    Its results are right: exponentials of differences overflow to 1/inf, which is 0. Its gradients behind a mask are NaN.
    """
    if mask is not None:
        mask = with_axes(mask)
        if (~mask).all(dim=-1).any():
            raise ValueError("nothing to look at")
    scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) * math.pow(q.size(-1), -0.5)
    scores = scores if mask is None else torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = torch.stack([1 / (scores - scores[..., j : j + 1]).exp().sum(-1) for j in range(k.shape[2])], dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


class LayerAsTorchtune(nn.Module):
    """Reshape to five axes with the heads next to last, and nn.functional's attention or, for weights, the same by hand."""

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % num_heads != 0:
            raise ValueError("must be divisible")
        self.h, self.p = num_heads, dropout
        self.qkv = nn.Linear(in_features=width, out_features=width * 3)
        self.out = nn.Linear(in_features=width, out_features=width)
        nn.init.trunc_normal_(self.qkv.weight, std=0.02)

    def forward(self, x, mask=None, return_weights=False):
        b, n, w = x.shape
        q, k, v = (part.squeeze(2).movedim(2, 1) for part in self.qkv(x).reshape(b, n, 3, self.h, -1).split(1, dim=2))
        if mask is not None:
            mask = with_axes(mask)
        if return_weights:
            bias = 0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
            weights = torch.softmax((q / q.shape[-1] ** 0.5) @ k.mT + bias, dim=-1)
            mixed = F.dropout(weights, self.p, self.training) @ v
        else:
            weights = None
            mixed = F.scaled_dot_product_attention(q, k, v, mask, self.p * self.training)
        out = self.out(mixed.movedim(1, 2).reshape(b, n, w))
        return (out, weights) if return_weights else out


def attend_that_holds_its_sums(q, k, v, mask=None):
    """Divide by sums through which no gradient flows, as if they were constants."""
    weights = multihead.attend(q, k, v, mask)[1]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(weights == 0, -torch.inf)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True).detach()).exp()
    return weights @ v, weights


def attend_with_detached_weights(q, k, v, mask=None):
    """Mix values by weights that learn nothing."""
    weights = multihead.attend(q, k, v, mask)[1]
    return weights.detach() @ v, weights


RIGHT = [("MultiHeadAttention", LayerAsTorchtune)]

attend = right_answers_of("multihead")["attend"]["where"]
WRONG = [  # mistakes of no catalogue: they cost points, and get no other's name
    ("attend", lambda q, k, v, mask=None: attend(q + 1, k, v, mask), set()),
    ("attend", lambda q, k, v, mask=None: attend(q, k.abs(), v, mask), set()),
    ("attend", lambda q, k, v, mask=None: attend(q, k.flip(2), v, mask), set()),
    ("attend", lambda q, k, v, mask=None: attend(q, k, v - v.mean(2, keepdim=True), mask), set()),
    ("attend", attend_by_outer_products, set()),
    ("attend", attend_that_holds_its_sums, set()),
    ("attend", attend_with_detached_weights, set()),
]

"""The checks of assignment 2_multihead: einsum, split_heads, merge_heads, attend, MultiHeadAttention, to_torch.

For each exercise, in this order: the oracle, the answer as steps that a mutant replaces, the mutants,
correct answers written differently, and the cases. Sizes in a case all differ, unless a mistake only shows when two agree:
a case in which two sizes agree stands before the others, where the same mistake is an error that names nothing.

A student's code runs in float32; what it is compared with is computed in float64, equal on every machine. Half precision
is judged without a mask: -1e9, which well-known code writes where a mask hides, is right in float32 and cannot be
written in half precision.

M31, projections over the flattened sequence, cannot be made here: the constructor does not know the number of tokens.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.checks.multihead import probes
from autograder.checks.multihead.probes import on_converter, on_layer, on_tensors
from autograder.judging.exercise import Case, Exercise, ExerciseInTorch, Mutant, checker, draw_mask
from solutions import multihead as answers

HELPERS = (probes,)  # stand in the notebook's set-up cell too
Array = np.ndarray


def draw(rng, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def whole(rng, *shape: int) -> Array:
    """Draw small whole numbers, for tests that a student can follow."""
    return rng.integers(-3, 4, size=shape).astype(float)


def by_letters(letters: str):
    """Return the product of tensors that an einsum says."""
    return lambda *tensors: torch.einsum(letters, *tensors)


def einsum_from(contract):
    """Return the builder of an exercise that is one einsum: its only step is the contraction."""

    def build(contract=contract):
        return lambda *tensors: contract(*tensors)

    return build


def einsum_exercise(name: str, contract, oracle, mistakes, correct, cases, visible) -> Exercise:
    """Put together an exercise that is one einsum and one stage."""
    return ExerciseInTorch(
        name=name,
        names=("product",) if name != "batched_trace" else ("trace",),
        oracle=oracle,
        build=einsum_from(contract),
        mutants=tuple(
            Mutant(mistake, contract=by_letters(way) if isinstance(way, str) else way) for mistake, way in mistakes
        ),
        stages={"values": cases},
        visible=visible,
        correct={"answer": getattr(answers, name), "steps": einsum_from(contract)(), "oracle": oracle, **correct},
        probe=on_tensors,
    )


# ------------------------------------------------------------------------------------------------------ one einsum each


def product_in_loops(a: Tensor, b: Tensor) -> Tensor:
    rows = [[sum(a[i, k] * b[k, j] for k in range(a.shape[1])) for j in range(b.shape[1])] for i in range(a.shape[0])]
    return torch.stack([torch.stack(row) for row in rows])


MATMUL = einsum_exercise(
    "matmul",
    by_letters("ik,kj->ij"),
    torch.mm,
    [
        ("M72", "ik,jk->ij"),
        ("M72", "ki,kj->ij"),
        ("M72", "ki,jk->ij"),
        ("M73", "ik,kj->ji"),
        ("M74", "ij,ij->ij"),
        ("M74", "ik,kj->ikj"),
        ("M74", "ik,kj->i"),
        ("M74", "ik,kj->ik"),
        ("M74", "ik,kj->"),
        ("M74", "ik,lj->ij"),
    ],
    {
        "@": lambda a, b: a @ b,
        "loops": product_in_loops,
        "rows times columns": lambda a, b: (a[:, :, None] * b[None]).sum(1),
        "einsum with lists of axes": lambda a, b: torch.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        "einsum without an arrow": lambda a, b: torch.einsum("ij,jk", a, b),
        "linear": lambda a, b: F.linear(a, b.T),
        "tensordot": lambda a, b: torch.tensordot(a, b, dims=1),
    },
    lambda rng: [
        Case("squares", (draw(rng, 4, 4), draw(rng, 4, 4))),
        Case("(3, 4) times (4, 5)", (draw(rng, 3, 4), draw(rng, 4, 5))),
        Case("(5, 2) times (2, 3)", (draw(rng, 5, 2), draw(rng, 2, 3))),
    ],
    lambda rng: [
        Case("squares", (np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [1.0, -1.0]]))),
        Case("(2, 3) times (3, 4)", (whole(rng, 2, 3), whole(rng, 3, 4))),
    ],
)

MATMUL_TRANSPOSED = einsum_exercise(
    "matmul_transposed",
    by_letters("ik,jk->ij"),
    lambda a, b: F.linear(a, b),
    [
        ("M72", "ik,kj->ij"),
        ("M72", "ki,kj->ij"),
        ("M72", "ki,jk->ij"),
        ("M73", "ik,jk->ji"),
        ("M74", "ij,ij->ij"),
        ("M74", "ik,jk->i"),
        ("M74", "ik,jk->"),
        ("M74", "ik,jl->ij"),
    ],
    {
        "@": lambda a, b: a @ b.T,
        "loops": lambda a, b: product_in_loops(a, b.t()),
        "broadcast": lambda a, b: (a[:, None] * b[None]).sum(-1),
        "inner": lambda a, b: torch.inner(a, b),
        "einsum with other letters": by_letters("xy,zy->xz"),
        "matmul": lambda a, b: torch.matmul(a, b.transpose(0, 1)),
    },
    lambda rng: [
        Case("squares", (draw(rng, 4, 4), draw(rng, 4, 4))),
        Case("(3, 4) times the transpose of (5, 4)", (draw(rng, 3, 4), draw(rng, 5, 4))),
        Case("(5, 2) times the transpose of (3, 2)", (draw(rng, 5, 2), draw(rng, 3, 2))),
    ],
    lambda rng: [
        Case("squares", (np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [1.0, -1.0]]))),
        Case("(2, 3) times the transpose of (4, 3)", (whole(rng, 2, 3), whole(rng, 4, 3))),
    ],
)

BATCHED_TRACE = einsum_exercise(
    "batched_trace",
    by_letters("bnn->b"),
    lambda a: torch.stack([torch.trace(matrix) for matrix in a]),
    [
        ("M74", "bij->b"),
        ("M74", "bnn->bn"),
        ("M74", "bij->bi"),
        ("M75", "bnn->"),
        ("M75", "bnn->n"),
        ("M75", lambda a: torch.einsum("bnn->", a).expand(a.shape[0])),
        ("M75", lambda a: a.diagonal().sum(-1)),
        ("M75", lambda a: torch.trace(a.sum(dim=0)).expand(a.shape[0]) / a.shape[0]),
    ],
    {
        "diagonal": lambda a: a.diagonal(dim1=-2, dim2=-1).sum(-1),
        "ellipsis": by_letters("...ii->..."),
        "mask": lambda a: (a * torch.eye(a.shape[-1])).sum((1, 2)),
        "indices": lambda a: a[:, torch.arange(a.shape[1]), torch.arange(a.shape[2])].sum(1),
        "vmap": lambda a: torch.vmap(torch.trace)(a),
    },
    lambda rng: [
        Case("three matrices of 4 rows", (draw(rng, 3, 4, 4),)),
        Case("five matrices of 2 rows", (draw(rng, 5, 2, 2),)),
        Case("one matrix", (draw(rng, 1, 3, 3),)),
    ],
    lambda rng: [Case("two matrices of three rows", (whole(rng, 2, 3, 3),))],
)

PAIRWISE_DOT = einsum_exercise(
    "pairwise_dot",
    by_letters("bqd,bkd->bqk"),
    lambda q, k: torch.stack([F.linear(queries, keys) for queries, keys in zip(q, k)]),
    [
        ("M11", "bqd,bkd->bkq"),
        ("M11", lambda q, k: k @ q.mT),
        ("M72", "bqd,bdk->bqk"),
        ("M74", "bqd,bkd->bq"),
        ("M74", "bqd,bkd->bqkd"),
        ("M74", "bqd,bke->bqk"),
        ("M75", "bqd,ckd->bqk"),
        ("M75", "cqd,bkd->bqk"),
        ("M75", "bqd,bkd->qk"),
        ("M75", "bqd,ckd->bcqk"),
        ("M75", lambda q, k: torch.tensordot(q, k, dims=([2], [2]))),
    ],
    {
        "bmm": lambda q, k: torch.bmm(q, k.transpose(1, 2)),
        "@": lambda q, k: q @ k.mT,
        "broadcast": lambda q, k: (q[:, :, None] * k[:, None]).sum(-1),
        "image by image": lambda q, k: torch.stack([q[i] @ k[i].T for i in range(len(q))]),
        "query by query": lambda q, k: torch.stack(
            [torch.einsum("bd,bkd->bk", q[:, i], k) for i in range(q.shape[1])], 1
        ),
        "ellipsis": by_letters("...qd,...kd->...qk"),
    },
    lambda rng: [
        Case("as many queries as keys, and as many features", (draw(rng, 3, 4, 4), draw(rng, 3, 4, 4))),
        Case("as many queries as keys", (draw(rng, 3, 5, 4), draw(rng, 3, 5, 4))),
        Case("4 queries, 5 keys", (draw(rng, 2, 4, 3), draw(rng, 2, 5, 3))),
    ],
    lambda rng: [
        Case("two images, three queries, three keys of width 3", (whole(rng, 2, 3, 3), whole(rng, 2, 3, 3))),
        Case("two images, three queries, five keys", (whole(rng, 2, 3, 4), whole(rng, 2, 5, 4))),
    ],
)

BILINEAR = einsum_exercise(
    "bilinear",
    by_letters("bnd,de,bme->bnm"),
    lambda x, w, y: torch.stack([torch.mm(torch.mm(tokens, w), others.t()) for tokens, others in zip(x, y)]),
    [
        ("M72", "bnd,ed,bme->bnm"),
        ("M73", "bnd,de,bme->bmn"),
        ("M73", "bmd,de,bne->bnm"),
        ("M74", "bnd,de,bmf->bnm"),
        ("M74", "bnd,ef,bmf->bnm"),
        ("M74", "bnd,de,bme->bn"),
        ("M74", "bnd,dd,bmd->bnm"),
        ("M75", "bnd,de,cme->bnm"),
        ("M75", "cnd,de,bme->bnm"),
        ("M75", "bnd,de,bme->nm"),
        ("M76", lambda x, w, y: x @ y.mT),
    ],
    {
        "@": lambda x, w, y: x @ w @ y.mT,
        "w and y first": lambda x, w, y: x @ (w @ y.transpose(-1, -2)),
        "two einsums": lambda x, w, y: torch.einsum("bne,bme->bnm", torch.einsum("bnd,de->bne", x, w), y),
        "linear": lambda x, w, y: torch.bmm(F.linear(x, w.T), y.mT),
        "operands in another order": lambda x, w, y: torch.einsum("de,bme,bnd->bnm", w, y, x),
        "features one by one": lambda x, w, y: sum(x[:, :, d, None] * (y @ w[d])[:, None] for d in range(w.shape[0])),
    },
    lambda rng: [
        Case("as many tokens, and equal widths", (draw(rng, 2, 4, 3), draw(rng, 3, 3), draw(rng, 2, 4, 3))),
        Case("all sizes different", (draw(rng, 2, 4, 3), draw(rng, 3, 6), draw(rng, 2, 5, 6))),
        Case("as many tokens", (draw(rng, 3, 4, 5), draw(rng, 5, 2), draw(rng, 3, 4, 2))),
    ],
    lambda rng: [
        Case("two images, equal widths", (whole(rng, 2, 4, 3), whole(rng, 3, 3), whole(rng, 2, 4, 3))),
        Case("all sizes different", (whole(rng, 2, 3, 4), whole(rng, 4, 2), whole(rng, 2, 5, 2))),
    ],
)


# ---------------------------------------------------------------------------------------------- split_heads, merge_heads


def oracle_split(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)  # (B, H, N, d)


def oracle_merge(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)  # (B, N, D)


def split_from(split=oracle_split):
    return lambda x, num_heads: split(x, num_heads)


def merge_from(merge=oracle_merge):
    return lambda x: merge(x)


def split_without_transpose(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)


def split_interleaved(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(*x.shape[:2], -1, num_heads).permute(0, 3, 1, 2)


def merge_without_transpose(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def merge_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


SPLIT_HEADS = ExerciseInTorch(
    name="split_heads",
    names=("heads",),
    oracle=oracle_split,
    build=split_from,
    mutants=(
        Mutant("M21", split=split_without_transpose),
        Mutant("M21", split=lambda x, h: x.mT.reshape(x.shape[0], h, x.shape[1], -1)),
        Mutant("M21", split=lambda x, h: x.reshape(x.shape[0], h, -1, x.shape[1]).mT),
        Mutant("M21", split=lambda x, h: x.transpose(0, 1).reshape(x.shape[0], h, x.shape[1], -1)),
        Mutant("M21", split=lambda x, h: x.reshape(*x.shape[:2], h, -1)),
        Mutant("M73", split=lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(2, 0, 1, 3)),
        Mutant("M81", split=split_interleaved),
    ),
    stages={
        "values": lambda rng: [
            Case("3 images, 5 tokens, 4 heads of width 2", (draw(rng, 3, 5, 8), 4)),
            Case("2 images, 4 tokens, 3 heads of width 5", (draw(rng, 2, 4, 15), 3)),
        ],
        "sizes": lambda rng: [
            Case("as many heads as tokens, 2 images, width 3", (draw(rng, 2, 4, 12), 4)),
            Case("one token", (draw(rng, 3, 1, 10), 2), tells=("M81",)),
            Case("one image", (draw(rng, 1, 5, 12), 4), tells=("M81",)),
            Case("one head", (draw(rng, 3, 4, 5), 1), tells=("M81",)),
            Case("heads of width 1", (draw(rng, 3, 4, 5), 5), tells=("M81",)),
        ],
    },
    visible=lambda rng: [
        Case("1 image, 2 tokens, 3 heads of width 2", (np.arange(12.0).reshape(1, 2, 6), 3)),
        Case("2 images, 3 tokens, 4 heads of width 2", (np.arange(48.0).reshape(2, 3, 8) / 4, 4)),
    ],
    correct={
        "answer": answers.split_heads,
        "steps": split_from(),
        "oracle": oracle_split,
        "view and transpose": lambda x, h: x.contiguous().view(x.size(0), x.size(1), h, x.size(2) // h).transpose(1, 2),
        "view and permute": lambda x, h: x.view(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
        "unflatten": lambda x, h: x.unflatten(-1, (h, -1)).movedim(2, 1),
        "slices": lambda x, h: torch.stack(
            [x[..., i * (x.shape[2] // h) : (i + 1) * (x.shape[2] // h)] for i in range(h)], 1
        ),
        "transposed first": lambda x, h: x.mT.reshape(x.shape[0], h, -1, x.shape[1]).mT.contiguous(),
        "split and concatenation": lambda x, h: torch.cat(
            [part[:, None] for part in x.split(x.shape[-1] // h, -1)], dim=1
        ),
        "windows": lambda x, h: x.unfold(2, x.shape[2] // h, x.shape[2] // h).permute(0, 2, 1, 3),
        "sequence first, as in fairseq": lambda x, h: (
            x.transpose(0, 1)
            .reshape(x.shape[1], x.shape[0] * h, -1)
            .transpose(0, 1)
            .reshape(x.shape[0], h, x.shape[1], -1)
        ),
        "image by image": lambda x, h: torch.stack([image.reshape(len(image), h, -1).transpose(0, 1) for image in x]),
    },
    probe=on_tensors,
)
MERGE_HEADS = ExerciseInTorch(
    name="merge_heads",
    names=("tokens",),
    oracle=oracle_merge,
    build=merge_from,
    mutants=(
        Mutant("M22", merge=merge_without_transpose),
        Mutant("M22", merge=lambda x: x.mT.reshape(x.shape[0], x.shape[2], -1)),
        Mutant("M22", merge=lambda x: x.transpose(0, 2).reshape(x.shape[0], x.shape[2], -1)),
        Mutant("M22", merge=lambda x: x.transpose(0, 1).reshape(x.shape[0], x.shape[2], -1)),
        Mutant("M81", merge=merge_interleaved),
        Mutant("M73", merge=lambda x: x.transpose(1, 2)),
        Mutant("M73", merge=lambda x: x.transpose(1, 2).flatten(2).transpose(0, 1)),
    ),
    stages={
        "values": lambda rng: [
            Case("3 images, 4 heads, 5 tokens, width 2", (draw(rng, 3, 4, 5, 2),)),
            Case("2 images, 3 heads, 4 tokens, width 5", (draw(rng, 2, 3, 4, 5),)),
        ],
        "sizes": lambda rng: [
            Case("as many heads as tokens, 2 images, width 3", (draw(rng, 2, 4, 4, 3),)),
            Case("one token", (draw(rng, 3, 2, 1, 5),), tells=("M81",)),
            Case("one image", (draw(rng, 1, 4, 5, 3),), tells=("M81",)),
            Case("one head", (draw(rng, 3, 1, 4, 5),), tells=("M81",)),
            Case("heads of width 1", (draw(rng, 3, 5, 4, 1),), tells=("M81",)),
        ],
    },
    visible=lambda rng: [
        Case("1 image, 3 heads, 2 tokens, width 2", (np.arange(12.0).reshape(1, 3, 2, 2),)),
        Case("2 images, 4 heads, 3 tokens, width 2", (np.arange(48.0).reshape(2, 4, 3, 2) / 4,)),
    ],
    correct={
        "answer": answers.merge_heads,
        "steps": merge_from(),
        "oracle": oracle_merge,
        "contiguous and view": lambda x: (
            x.transpose(1, 2).contiguous().view(x.size(0), x.size(2), x.size(1) * x.size(3))
        ),
        "permute and reshape": lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
        "movedim": lambda x: x.movedim(1, 2).flatten(-2),
        "loop over heads": lambda x: torch.cat([x[:, head] for head in range(x.shape[1])], dim=2),
        "transposed first": lambda x: x.mT.flatten(1, 2).mT,
        "einsum": lambda x: torch.einsum("bhnd->bnhd", x).reshape(x.shape[0], x.shape[2], -1),
        "token by token": lambda x: torch.stack([x[:, :, n].flatten(1) for n in range(x.shape[2])], dim=1),
    },
    probe=on_tensors,
)


# ------------------------------------------------------------------------------------------------------------- attend


def with_axes(mask: Tensor) -> Tensor:
    """Let a mask of keys, or of pairs, broadcast to (B, H, N, N)."""
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask


def refuse(mask: Tensor) -> None:
    if not mask.any(-1).all():
        raise ValueError("a query may look at no key")


def oracle_attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`F.scaled_dot_product_attention` in float64, which gives the weights when the values are the identity."""
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask).expand(*q.shape[:-1], k.shape[-2])
    wide = [tensor.double() for tensor in (q, k, v)]
    identity = torch.eye(k.shape[-2], dtype=torch.float64).expand(*k.shape[:-1], -1)  # (B, H, N, N)
    output = F.scaled_dot_product_attention(*wide, attn_mask=mask)
    weights = F.scaled_dot_product_attention(*wide[:2], identity, attn_mask=mask)
    return output.to(q.dtype), weights.to(q.dtype)


def attend_from(
    refuse=refuse,
    score=by_letters("bhid,bhjd->bhij"),
    scale=lambda q: q.shape[-1] ** -0.5,
    axes=with_axes,
    hide=lambda scores, mask: scores.masked_fill(~mask, -torch.inf),
    softmax=lambda scores: scores.softmax(-1),
    after=lambda weights, mask, q: weights,
    mix=lambda weights, q, k, v: weights @ v,
    change=lambda q, k, v: None,
    shown=lambda weights, scores: weights,
):
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if mask is not None:
            refuse(mask)
            mask = axes(mask)
        scores = score(q, k) * scale(q)
        change(q, k, v)
        if mask is not None:
            scores = hide(scores, mask)
        weights = after(softmax(scores), mask, q)
        return mix(weights, q, k, v), shown(weights, scores)

    return attend


def divide_in_place(which: int):
    def change(*tensors: Tensor) -> None:
        tensors[which].div_(tensors[which].shape[-1] ** 0.5)

    return change


def softmax_without_maximum(scores: Tensor) -> Tensor:
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


def softmax_by_one_maximum(scores: Tensor) -> Tensor:
    exponentials = (scores - scores.max()).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


SCALE_MUTANTS = (
    Mutant("M8", scale=lambda q: 1.0),
    Mutant("M9", scale=lambda q: (q.shape[1] * q.shape[-1]) ** -0.5),
    Mutant("M9", scale=lambda q: q.shape[1] ** -0.5),
    Mutant("M9", scale=lambda q: q.shape[2] ** -0.5),
    Mutant("M9", scale=lambda q: q.shape[0] ** -0.5),
    Mutant("M10", scale=lambda q: 1 / q.shape[-1]),
    Mutant("M10", scale=lambda q: q.shape[-1] ** 0.5),
    Mutant("M10", scale=lambda q: q.shape[-1] ** -0.25),
)
# What a layer with copied weights shows too.
INNER_MUTANTS = (
    *SCALE_MUTANTS,
    Mutant("M6", softmax=lambda scores: scores.softmax(-2)),
    Mutant("M6", softmax=lambda scores: scores.softmax(0)),
    Mutant("M25", softmax=lambda scores: scores.softmax(1)),
    Mutant("M5", softmax=lambda scores: scores.flatten().softmax(0).reshape(scores.shape)),
    Mutant("M5", softmax=lambda scores: scores.flatten(1).softmax(1).reshape(scores.shape)),
    Mutant("M5", softmax=lambda scores: scores.flatten(2).softmax(2).reshape(scores.shape)),
    Mutant("M7", after=lambda weights, mask, q: weights * q.shape[-1] ** -0.5),
    Mutant("M7", scale=lambda q: 1.0, after=lambda weights, mask, q: weights * q.shape[-1] ** -0.5),
    Mutant("M7", scale=lambda q: 1.0, mix=lambda weights, q, k, v: weights @ v * q.shape[-1] ** -0.5),
    Mutant("M13", mix=lambda weights, q, k, v: weights @ k),
    Mutant("M13", mix=lambda weights, q, k, v: weights @ q),
    Mutant("M75", score=by_letters("bhid,bgjd->bhij")),
    Mutant("M75", score=by_letters("bgid,bhjd->bhij")),
    Mutant("M75", score=by_letters("bhid,chjd->bhij")),
    Mutant("M75", mix=lambda weights, q, k, v: torch.einsum("bhij,bgjd->bhid", weights, v)),
    Mutant("M75", mix=lambda weights, q, k, v: torch.einsum("bgij,bhjd->bhid", weights, v)),
    Mutant("M75", mix=lambda weights, q, k, v: torch.einsum("bhij,chjd->bhid", weights, v)),
    Mutant("M77", mix=lambda weights, q, k, v: weights.mT @ v),
    Mutant("M80", softmax=lambda scores: scores.softmax(-1).softmax(-1)),
)
MASK_MUTANTS = (
    Mutant("M16", hide=lambda scores, mask: scores.masked_fill(mask, -torch.inf)),
    Mutant("M16", hide=lambda scores, mask: scores.masked_fill(mask, -1e9)),
    Mutant("M17", hide=lambda scores, mask: scores, after=lambda w, mask, q: w if mask is None else w * mask),
    Mutant("M18", hide=lambda scores, mask: scores + mask),
    Mutant("M18", hide=lambda scores, mask: scores - (~mask).float()),
    Mutant("M18", hide=lambda scores, mask: scores * mask),
    Mutant("M18", hide=lambda scores, mask: scores.masked_fill(~mask, 1e-9)),
    Mutant("M18", hide=lambda scores, mask: scores.masked_fill(~mask, -10.0)),
    Mutant("M18", hide=lambda scores, mask: scores.masked_fill(~mask, -100.0)),
    Mutant("M18", hide=lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).tiny)),
    Mutant("M19", axes=lambda mask: mask),
    Mutant("M19", axes=lambda mask: mask[:, None] if mask.ndim == 2 else mask),
    Mutant("M19", axes=lambda mask: with_axes(mask) if mask.ndim != 3 else mask),
    Mutant("M19", axes=lambda mask: with_axes(mask) if mask.ndim != 2 else mask),
    Mutant("M19", axes=lambda mask: with_axes(mask) if mask.ndim == 2 else with_axes(mask).mT),
    Mutant("M78", axes=lambda mask: with_axes(mask).mT if mask.ndim == 2 else with_axes(mask)),
    Mutant(
        "M78",
        axes=lambda mask: with_axes(mask).mT if mask.ndim == 2 else with_axes(mask),
        hide=lambda scores, mask: scores.masked_fill(~mask, -1e9),
    ),
    Mutant("M78", axes=lambda mask: with_axes(mask) & with_axes(mask).mT if mask.ndim == 2 else with_axes(mask)),
    Mutant("M79", axes=lambda mask: with_axes(mask)[:1]),
    Mutant("M79", axes=lambda mask: with_axes(mask)[:, :1]),
    Mutant("M79", axes=lambda mask: with_axes(mask).any(1, keepdim=True)),
    Mutant("M79", axes=lambda mask: with_axes(mask).any(0, keepdim=True)),
    Mutant("M71", hide=lambda scores, mask: scores),
    Mutant("M163", hide=lambda scores, mask: scores + (~mask) * -torch.inf),
    Mutant("M163", hide=lambda scores, mask: torch.where(mask, scores, -torch.inf) * torch.where(mask, 1, 0)),
)
ATTEND_MUTANTS = (
    *INNER_MUTANTS,
    Mutant("M2", softmax=lambda scores: torch.where(scores.isinf(), scores, scores.clamp(-50, 50)).softmax(-1)),
    Mutant("M2", softmax=lambda scores: torch.where(scores.isinf(), scores, scores.clamp(-10, 10)).softmax(-1)),
    Mutant("M3", softmax=softmax_without_maximum),
    Mutant("M3", softmax=lambda scores: softmax_without_maximum(scores).nan_to_num()),
    Mutant("M14", softmax=softmax_by_one_maximum),
    Mutant("M11", score=by_letters("bhid,bhjd->bhji")),
    Mutant("M11", score=lambda q, k: k @ q.mT),
    Mutant("M11", after=lambda weights, mask, q: weights.mT),
    Mutant("M15", change=divide_in_place(0)),
    Mutant("M15", change=divide_in_place(1)),
    *MASK_MUTANTS,
    Mutant("M20", refuse=lambda mask: None),
    Mutant("M20", refuse=lambda mask: None, hide=lambda scores, mask: scores.masked_fill(~mask, -1e9)),
    Mutant("M20", refuse=lambda mask: refuse(mask) if mask.ndim > 2 else None),
    Mutant("M20", refuse=lambda mask: refuse(mask) if mask.ndim < 4 else None),
    Mutant("M20", refuse=lambda mask: None, after=lambda weights, mask, q: weights.nan_to_num()),
    Mutant("M86", shown=lambda weights, scores: weights.mean(1)),
    Mutant("M86", shown=lambda weights, scores: scores),
    Mutant("M86", shown=lambda weights, scores: weights.log()),
    Mutant("M86", shown=lambda weights, scores: weights[0]),
)


def attend_as_nanogpt(q, k, v, mask=None):
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    if mask is not None:
        mask = with_axes(mask)
        refuse(mask)
        att = att.masked_fill(mask == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    return att @ v, att


def attend_as_annotated(query, key, value, mask=None):
    """The form of "The Annotated Transformer", with the error that the exercise asks for."""
    if mask is not None and not bool((mask.sum(-1) > 0).all()):
        raise ValueError("a query may look at no key")
    if mask is not None:
        mask = mask.unsqueeze(1) if mask.dim() == 3 else mask.unsqueeze(1).unsqueeze(1) if mask.dim() == 2 else mask
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def attend_adding(lowest):
    """Add a float mask, as BERT and Hugging Face's models do."""

    def attend(q, k, v, mask=None):
        scores = torch.einsum("...nd,...md->...nm", q * q.shape[-1] ** -0.5, k)
        if mask is not None:
            refuse(mask)
            bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask.logical_not(), lowest(q.dtype))
            scores = scores + bias.view(bias.shape[0], *[1] * (4 - bias.ndim), *bias.shape[1:])
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("...nm,...md->...nd", weights, v), weights

    return attend


def attend_by_where(q, k, v, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k).div(q.shape[-1] ** 0.5)
    if mask is not None:
        mask = mask.reshape(mask.shape[0], -1, mask.shape[-2] if mask.ndim > 2 else 1, mask.shape[-1])
        if (mask.sum(-1) == 0).any():
            raise ValueError("no key")
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    weights = F.softmax(scores, -1)
    return torch.einsum("bhqk,bhkd->bhqd", [weights, v]), weights


def attend_by_sdpa(q, k, v, mask=None):
    """The output by PyTorch's own function, and the weights again."""
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), weights


def attend_head_by_head(q, k, v, mask=None):
    output, weights = torch.empty_like(v), torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for image in range(q.shape[0]):
        for head in range(q.shape[1]):
            scores = q[image, head] @ k[image, head].T / q.shape[-1] ** 0.5
            if mask is not None:
                allowed = mask[image, head] if mask.ndim == 4 else mask[image]
                if not allowed.any(dim=-1).all():
                    raise ValueError("a query may look at no key")
                scores = scores.masked_fill(~allowed, -torch.inf)
            own = scores.softmax(-1)
            weights[image, head] = own
            output[image, head] = own @ v[image, head]
    return output, weights


def attend_by_bmm(q, k, v, mask=None):
    """Images and heads as one axis, as in d2l and fairseq."""
    images, heads, tokens, width = q.shape
    q, k, v = (tensor.reshape(images * heads, tokens, width) for tensor in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(width)
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask).expand(images, heads, tokens, tokens).reshape(images * heads, tokens, tokens)
        scores = scores.masked_fill(~mask, -1e6)
    weights = nn.functional.softmax(scores, dim=-1)
    return torch.bmm(weights, v).view(images, heads, tokens, width), weights.view(images, heads, tokens, tokens)


def attend_by_baddbmm(q, k, v, mask=None):
    images, heads, tokens, width = q.shape
    bias = torch.zeros(images, heads, tokens, tokens, dtype=q.dtype)
    if mask is not None:
        refuse(mask)
        bias = bias.masked_fill(~with_axes(mask), -torch.inf)
    scores = torch.baddbmm(bias.flatten(0, 1), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=width**-0.5)
    weights = scores.softmax(-1).unflatten(0, (images, heads))
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


def attend_masking_exponentials(q, k, v, mask=None):
    """Hide after the exponential and normalise what is left, which is right (unlike M17)."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k / k.shape[-1] ** 0.5)
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        refuse(mask)
        hidden = scores.masked_fill(~with_axes(mask), -torch.inf)
        exponentials = (hidden - hidden.amax(-1, keepdim=True)).exp() * with_axes(mask)
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return (weights[..., None] * v[:, :, None]).sum(-2), weights


def attend_in_log_space(q, k, v, mask=None):
    scores = torch.matmul(q / q.shape[-1] ** 0.25, (k / k.shape[-1] ** 0.25).mT)
    if mask is not None:
        refuse(mask)
        scores = scores + with_axes(mask).to(scores.dtype).log()
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return weights @ v, weights


def attend_noticing_nan(q, k, v, mask=None):
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(with_axes(mask).logical_not(), float("-inf"))
    weights = scores.softmax(dim=3)
    if weights.isnan().any():
        raise ValueError("a query may look at no key")
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


CORRECT_ATTEND = {
    "answer": answers.attend,
    "steps": attend_from(),
    "oracle": oracle_attend,
    "nanoGPT": attend_as_nanogpt,
    "The Annotated Transformer": attend_as_annotated,
    "mask added, -inf": attend_adding(lambda dtype: -torch.inf),
    "mask added, smallest finite number": attend_adding(lambda dtype: torch.finfo(dtype).min),
    "where": attend_by_where,
    "F.scaled_dot_product_attention": attend_by_sdpa,
    "head by head": attend_head_by_head,
    "images and heads as one axis": attend_by_bmm,
    "baddbmm": attend_by_baddbmm,
    "mask on the exponentials": attend_masking_exponentials,
    "log space, scale split": attend_in_log_space,
    "NaN noticed": attend_noticing_nan,
}


def qkv(rng, images: int, heads: int, tokens: int, width: int, sharp: float = 1.5):
    """Draw queries, keys and values; the scores have a std of about 1.5 after the scale."""
    return tuple(factor * draw(rng, images, heads, tokens, width) for factor in (np.float32(sharp), 1, 1))


def whole_qkv(rng, images: int, heads: int, tokens: int, width: int):
    return tuple(whole(rng, images, heads, tokens, width) for _ in range(3))


def far_apart(q: Array, k: Array, v: Array, by: float = 1000.0):
    """Move the scores of each row by a thousand up or down, which the softmax does not see; exact for a width of 4."""
    q, k = np.round(q * 8) / 8, np.round(k * 8) / 8
    k[..., 0] = 1
    q[..., 0] = 2 * by * (np.arange(q.shape[-2]) % 3 - 1)  # rows at -1000, 0, 1000, … after the scale
    return q, k, v


def hidden_keys_first(q: Array, k: Array, v: Array, mask: Array):
    """Give the keys that a mask of keys hides scores 150 above the others, for a width of 4."""
    q[..., 0], k[..., 0] = 10, np.where(mask, 0, 30)[:, None]
    return q, k, v, mask


def in_half(rng, images: int, heads: int, tokens: int):
    """Draw queries that each like one key by 20 or more, so that every weight is 0 or 1, exactly, in half precision too.

    Keys are different rows of signs, and a query is one of them times 20: its score there is 40, elsewhere at most 20.
    exp(40) is far above 65504, the largest number of half precision.
    """
    rows = rng.permuted(np.tile(np.arange(16), (images, heads, 1)), axis=-1)[..., :tokens]
    k = 1 - 2.0 * (rows[..., None] >> np.arange(4) & 1)  # (B, H, N, 4)
    liked = rng.integers(tokens, size=(images, heads, tokens, 1))
    q = 20 * np.take_along_axis(k, liked, axis=2)
    return tuple(array.astype(np.float16) for array in (q, k, rng.integers(-8, 9, size=k.shape)))


def without_a_key(rng, *shape: int) -> Array:
    """Draw a mask that leaves nothing to one query, or to one image where it is a mask of keys."""
    mask = draw_mask(rng, *shape)
    mask[{2: (1,), 3: (1, 2), 4: (1, 1, 2)}[len(shape)]] = False
    return mask


def attend_mask_cases(rng):
    return [
        Case("pairs, as many images as heads", (*qkv(rng, 3, 3, 5, 4), draw_mask(rng, 3, 5, 5))),
        Case("keys, as many images as heads and tokens", (*qkv(rng, 4, 4, 4, 2), draw_mask(rng, 4, 4))),
        Case("keys", (*qkv(rng, 2, 3, 5, 4), draw_mask(rng, 2, 5))),
        Case("pairs", (*qkv(rng, 2, 4, 5, 3), draw_mask(rng, 2, 5, 5))),
        Case("pairs in each head", (*qkv(rng, 3, 2, 4, 5), draw_mask(rng, 3, 2, 4, 4))),
        Case("pairs, rows far apart", (*far_apart(*qkv(rng, 2, 3, 5, 4)), draw_mask(rng, 2, 5, 5))),
        Case("keys, the hidden ones the best", hidden_keys_first(*qkv(rng, 2, 3, 5, 4), draw_mask(rng, 2, 5))),
    ]


def attend_visible_cases(rng):
    rng = np.random.default_rng(7)
    return [
        Case("2 images, 3 heads, 5 tokens, width 4", whole_qkv(rng, 2, 3, 5, 4)),
        Case("a mask of pairs, as many images as heads", (*whole_qkv(rng, 2, 2, 3, 4), draw_mask(rng, 2, 3, 3))),
        Case("a mask of keys, as many images as heads", (*whole_qkv(rng, 3, 3, 3, 2), draw_mask(rng, 3, 3))),
        Case("a mask of pairs in each head", (*whole_qkv(rng, 3, 2, 3, 2), draw_mask(rng, 3, 2, 3, 3))),
        Case("gradients", (*whole_qkv(rng, 2, 1, 4, 3), "gradient")),
        Case("a query that may look at nothing", (*whole_qkv(rng, 2, 1, 3, 4), without_a_key(rng, 2, 3, 3)), "M20"),
        Case("an image without a key", (*whole_qkv(rng, 2, 1, 2, 3), without_a_key(rng, 2, 2)), "M20"),
        Case(
            "a query of one head that may look at nothing",
            (*whole_qkv(rng, 2, 2, 3, 2), without_a_key(rng, 2, 2, 3, 3)),
            "M20",
        ),
    ]


ATTEND = ExerciseInTorch(
    name="attend",
    names=("output", "weights"),
    oracle=oracle_attend,
    build=attend_from,
    mutants=ATTEND_MUTANTS,
    stages={
        "weights": lambda rng: [
            Case("2 images, 3 heads, 5 tokens, width 4", qkv(rng, 2, 3, 5, 4), only=("weights",)),
            Case("4 images, 2 heads, 3 tokens, width 7", qkv(rng, 4, 2, 3, 7), only=("weights",)),
        ],
        "output": lambda rng: [
            Case("2 images, 3 heads, 5 tokens, width 4", qkv(rng, 2, 3, 5, 4), only=("output",)),
            Case("one token", qkv(rng, 3, 4, 1, 2), only=("output",)),
            Case("one image, as many heads as tokens", qkv(rng, 1, 4, 4, 2), only=("output",)),
        ],
        "mask": attend_mask_cases,
        "edges": lambda rng: [
            Case("far apart scores", far_apart(*qkv(rng, 3, 5, 6, 4)), "M3"),
            Case("half precision", in_half(rng, 3, 5, 6), "M3"),
            Case("gradients", (*qkv(rng, 3, 5, 6, 4), "gradient")),
            Case(
                "a query that may look at nothing",
                (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 5, 5)),
                "M20",
            ),
            Case("an image without a key", (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 5)), "M20"),
            Case(
                "a query of one head that may look at nothing",
                (*qkv(rng, 2, 3, 5, 4), without_a_key(rng, 2, 3, 5, 5)),
                "M20",
            ),
        ],
    },
    visible=attend_visible_cases,
    correct=CORRECT_ATTEND,
    probe=on_tensors,
)

# ------------------------------------------------------------------------------------------------- MultiHeadAttention


class OracleLayer(nn.Module):
    """`nn.MultiheadAttention` with the names of ours; its parameters are those of ours, so that gradients reach them."""

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads, self.share = num_heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False):
        if mask is not None:  # PyTorch's says where not to look, for images and heads as one axis
            heads = with_axes(mask).expand(len(x), self.num_heads, x.shape[1], x.shape[1])
            mask = ~heads.reshape(-1, x.shape[1], x.shape[1])
        output, weights = (
            F.multi_head_attention_forward(
                *[x.transpose(0, 1)] * 3,
                x.shape[-1],
                self.num_heads,
                self.qkv.weight,
                self.qkv.bias,
                None,
                None,
                False,
                share,
                self.out.weight,
                self.out.bias,
                training=self.training,
                attn_mask=mask,
                average_attn_weights=False,
            )[which]
            for which, share in enumerate((self.share, 0.0))  # PyTorch's weights are those after dropout
        )
        return (output.transpose(0, 1), weights) if return_weights else output.transpose(0, 1)


def layer_from(
    layers=lambda width, heads: (nn.Linear(width, 3 * width), nn.Linear(width, width)),
    project=lambda layer, x: layer.qkv(x).chunk(3, dim=-1),
    split=oracle_split,
    merge=oracle_merge,
    finish=lambda layer, merged, x: layer.out(merged),
    drop=lambda layer, weights: F.dropout(weights, layer.share, layer.training),
    drop_scores=lambda layer, scores: scores,
    turn=lambda tokens: tokens,
    mix=lambda weights, q, k, v: weights @ v,
    softmax=lambda scores: scores.softmax(-1),
    shown=lambda weights, scores: weights,
    returned=lambda layer, weights: weights,
    **attend_steps,
):
    class MultiHeadAttention(nn.Module):
        def __init__(self, width: int, num_heads: int, dropout: float = 0.0):
            super().__init__()
            self.num_heads, self.share = num_heads, dropout
            self.qkv, self.out = layers(width, num_heads)

        def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False):
            attend = attend_from(
                mix=lambda weights, *rest: mix(drop(self, weights), *rest),
                softmax=lambda scores: softmax(drop_scores(self, scores)),
                shown=shown,
                **attend_steps,
            )
            q, k, v = (split(part, self.num_heads) for part in project(self, turn(x)))
            mixed, weights = attend(q, k, v, mask)
            output = turn(finish(self, merge(mixed), x))
            return (output, returned(self, weights)) if return_weights else output

    return MultiHeadAttention


def projected(order):
    """Take the three parts of the packed layer in another order."""

    def project(layer, x: Tensor):
        parts = layer.qkv(x).chunk(3, dim=-1)
        return [parts[index] for index in order]

    return project


def unpacked(letters: str, *shape: str):
    """Unpack the features of the packed layer as axes in another order; e.g. "bnhcd->cbnhd" for (h qkv d)."""

    def project(layer, x: Tensor):
        width = x.shape[-1]
        sizes = {"h": layer.num_heads, "c": 3, "d": width // layer.num_heads}
        parts = layer.qkv(x).reshape(*x.shape[:2], *(sizes[axis] for axis in shape))
        return torch.einsum(letters, parts).reshape(3, *x.shape)

    return project


def project_by_packed_view(layer, x: Tensor):
    """View the packed layer as (3, B, H, N, d) at once, which mixes all of these axes."""
    sizes = (3, x.shape[0], layer.num_heads, x.shape[1], x.shape[2] // layer.num_heads)
    return [oracle_merge(part) for part in layer.qkv(x).reshape(sizes)]


def project_with_dropout(layer, x: Tensor):
    """Drop features of the values."""
    q, k, v = layer.qkv(x).chunk(3, dim=-1)
    return q, k, F.dropout(v, layer.share, layer.training)


def project_each_head_alone(layer, x: Tensor):
    """Cut x into heads before projecting: of each weight matrix only the blocks on the diagonal are used."""
    heads, width = layer.num_heads, x.shape[-1]
    blocks = torch.block_diag(*[torch.ones(width // heads, width // heads)] * heads)
    return F.linear(x, layer.qkv.weight * blocks.repeat(3, 1), layer.qkv.bias).chunk(3, dim=-1)


def project_by_small_layer(layer, x: Tensor):
    parts = [layer.qkv(part).chunk(3, dim=-1) for part in x.chunk(layer.num_heads, dim=-1)]
    return [torch.cat(part, dim=-1) for part in zip(*parts)]


def share_first_head(layer, x: Tensor):
    """Give every head the first head's projection."""
    width = x.shape[-1] // layer.num_heads
    return [part[..., :width].repeat(1, 1, layer.num_heads) for part in layer.qkv(x).chunk(3, dim=-1)]


def share_narrow_layer(layer, x: Tensor):
    return [part.repeat(1, 1, layer.num_heads) for part in layer.qkv(x).chunk(3, dim=-1)]


def without_scale(layer, weights: Tensor) -> Tensor:
    return weights * (torch.rand_like(weights) > layer.share) if layer.training else weights


def with_one_more(layer: nn.Linear) -> nn.Linear:
    """Give a layer a parameter that nothing uses."""
    layer.temperature = nn.Parameter(torch.ones(1))
    return layer


SHOWN_MUTANTS = tuple(mutant for mutant in ATTEND_MUTANTS if mutant.mistake == "M86")
LAYER_MUTANTS = (
    *INNER_MUTANTS,
    *MASK_MUTANTS,
    *SHOWN_MUTANTS,
    Mutant("M11", project=projected((1, 0, 2))),
    Mutant("M11", score=by_letters("bhid,bhjd->bhji")),
    Mutant("M12", project=lambda layer, x: (x, x, x)),
    Mutant("M12", project=projected((0, 0, 0))),
    Mutant("M12", project=projected((0, 0, 2))),
    Mutant("M13", project=projected((0, 1, 1))),
    Mutant("M13", project=lambda layer, x: (*layer.qkv(x).chunk(3, dim=-1)[:2], x)),
    Mutant("M21", split=split_without_transpose),
    Mutant("M21", split=split_without_transpose, merge=merge_without_transpose),
    Mutant("M21", split=lambda x, h: x.unflatten(-1, (h, -1)), merge=lambda x: x.flatten(2)),
    Mutant("M21", project=project_by_packed_view),
    Mutant("M22", merge=merge_without_transpose),
    Mutant("M22", merge=lambda x: x.mT.reshape(x.shape[0], x.shape[2], -1)),
    Mutant("M23", project=project_each_head_alone),
    Mutant(
        "M23",
        layers=lambda width, heads: (nn.Linear(width // heads, 3 * (width // heads)), nn.Linear(width, width)),
        project=project_by_small_layer,
    ),
    Mutant("M24", finish=lambda layer, merged, x: merged),
    Mutant(
        "M24",
        layers=lambda width, heads: (nn.Linear(width, 3 * width), nn.Identity()),
        finish=lambda layer, merged, x: merged,
    ),
    Mutant("M26", project=share_first_head),
    Mutant(
        "M26",
        layers=lambda width, heads: (nn.Linear(width, 3 * (width // heads)), nn.Linear(width, width)),
        project=share_narrow_layer,
    ),
    Mutant("M26", layers=lambda width, heads: (nn.Linear(width, 3 * width * heads), nn.Linear(width * heads, width))),
    Mutant("M27", project=unpacked("bnhcd->cbnhd", "h", "c", "d")),
    Mutant("M27", project=unpacked("bnhdc->cbnhd", "h", "d", "c")),
    Mutant("M28", turn=lambda tokens: tokens.transpose(0, 1)),
    Mutant("M29", drop=lambda layer, weights: F.dropout(weights, layer.share)),
    Mutant("M30", drop=without_scale),
    Mutant("M81", split=split_interleaved, merge=merge_interleaved),
    Mutant("M81", split=split_interleaved),
    Mutant("M81", merge=merge_interleaved),
    Mutant("M82", project=projected((0, 2, 1))),
    Mutant("M82", project=projected((2, 1, 0))),
    Mutant("M82", project=projected((1, 2, 0))),
    Mutant("M82", project=projected((2, 0, 1))),
    Mutant("M83", project=lambda layer, x: F.linear(x, layer.qkv.weight).chunk(3, dim=-1)),
    Mutant("M83", finish=lambda layer, merged, x: F.linear(merged, layer.out.weight)),
    Mutant("M83", layers=lambda width, heads: (nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width))),
    Mutant("M83", layers=lambda width, heads: (nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False))),
    Mutant(
        "M83",
        layers=lambda width, heads: (nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)),
    ),
    Mutant("M84", finish=lambda layer, merged, x: layer.out(merged) + x),
    Mutant("M84", finish=lambda layer, merged, x: layer.out(merged + x)),
    Mutant("M84", finish=lambda layer, merged, x: F.layer_norm(layer.out(merged) + x, x.shape[-1:])),
    Mutant("M84", finish=lambda layer, merged, x: F.layer_norm(layer.out(merged), x.shape[-1:])),
    Mutant("M84", finish=lambda layer, merged, x: F.gelu(layer.out(merged))),
    Mutant("M84", finish=lambda layer, merged, x: F.relu(layer.out(merged))),
    Mutant("M85", drop=lambda layer, weights: weights),
    Mutant(
        "M85",
        drop=lambda layer, weights: weights,
        drop_scores=lambda layer, scores: F.dropout(scores, layer.share, layer.training),
    ),
    Mutant(
        "M85",
        drop=lambda layer, weights: weights,
        finish=lambda layer, merged, x: F.dropout(layer.out(merged), layer.share, layer.training),
    ),
    Mutant(
        "M85",
        finish=lambda layer, merged, x: F.dropout(layer.out(merged), layer.share, layer.training),
    ),
    Mutant("M85", drop=lambda layer, weights: weights, project=project_with_dropout),
    Mutant("M86", returned=lambda layer, weights: F.dropout(weights, layer.share, layer.training)),
    Mutant("M164", layers=lambda width, heads: (nn.Linear(width, 3 * width), with_one_more(nn.Linear(width, width)))),
)


class LayerAsMinGPT(nn.Module):
    """The form of minGPT and nanoGPT."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        assert width % num_heads == 0
        self.out = nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attn_dropout = nn.Dropout(dropout)
        self.n_head, self.n_embd = num_heads, width

    def forward(self, x, mask=None, return_weights=False):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if mask is not None:
            att = att.masked_fill(with_axes(mask) == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = self.attn_dropout(att) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        y = self.out(y)
        return (y, att) if return_weights else y


class LayerAsTimm(nn.Module):
    """The form of timm's vision transformers."""

    def __init__(self, width, num_heads=8, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = width // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(width, width * 3, bias=True)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        self.attn_drop = nn.Dropout(dropout)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = self.q_norm(q) * self.scale
        attn = q @ self.k_norm(k).transpose(-2, -1)
        if mask is not None:
            attn = attn + torch.zeros_like(attn).masked_fill(~with_axes(mask), float("-inf"))
        attn = attn.softmax(dim=-1)
        dropped = self.attn_drop(attn)
        x = (dropped @ v).transpose(1, 2).reshape(B, N, C)
        x = self.out(x)
        if return_weights:
            return x, attn
        return x


class LayerAsViTPytorch(nn.Module):
    """The form of vit-pytorch, with unflatten in place of rearrange, and parts that hold no parameters."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.heads = num_heads
        self.scale = (width // num_heads) ** -0.5
        self.attend = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        qkv = self.qkv(x).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3), qkv)  # noqa: C417
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        if mask is not None:
            dots.masked_fill_(~with_axes(mask), -torch.finfo(dots.dtype).max)
        attn = self.attend(dots)
        out = torch.matmul(self.dropout(attn), v)
        out = self.out(out.permute(0, 2, 1, 3).flatten(2))
        return (out, attn) if return_weights else out


class LayerOfThreeProjections(nn.Module):
    """Three projections, as in The Annotated Transformer, whose weights are rows of the packed layer."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.d_k, self.h, self.p = width // num_heads, num_heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for layer in (self.qkv, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, mask=None, return_weights=False):
        nbatches, width = x.size(0), x.size(-1)
        if mask is not None:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask[:, None, None] if mask.dim() == 2 else mask
        query, key, value = [
            F.linear(x, self.qkv.weight[i * width : (i + 1) * width], self.qkv.bias[i * width : (i + 1) * width])
            .view(nbatches, -1, self.h, self.d_k)
            .transpose(1, 2)
            for i in range(3)
        ]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(dim=-1)
        x = torch.matmul(nn.functional.dropout(weights, p=self.p, training=self.training), value)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return (self.out(x), weights) if return_weights else self.out(x)


class LayerByFlash(nn.Module):
    """`F.scaled_dot_product_attention`, as nanoGPT and torchtune have it; the weights apart, where they are asked for."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None if mask is None else with_axes(mask)
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        y = self.out(y.transpose(1, 2).reshape(x.shape))
        if not return_weights:
            return y
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return y, (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)


class LayerHeadByHead(nn.Module):
    """A loop over heads, each with its rows of the packed layer, as in courses."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.out = nn.Linear(width, width)
        self.heads, self.size = num_heads, width // num_heads
        self.drops = nn.ModuleList(nn.Dropout(dropout) for _ in range(num_heads))
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask=None, return_weights=False):
        q, k, v = self.qkv(x).tensor_split(3, dim=-1)
        outputs, maps = [], []
        for head, drop in enumerate(self.drops):
            own = slice(head * self.size, (head + 1) * self.size)
            scores = q[..., own] @ k[..., own].transpose(1, 2) / self.size**0.5
            if mask is not None:
                seen = mask[:, head] if mask.ndim == 4 else mask if mask.ndim == 3 else mask[:, None]
                scores = torch.where(seen, scores, -torch.inf)
            maps.append(scores.softmax(-1))
            outputs.append(drop(maps[-1]) @ v[..., own])
        output = self.out(torch.cat(outputs, dim=-1))
        return (output, torch.stack(maps, dim=1)) if return_weights else output


class LayerByBmm(nn.Module):
    """Images and heads as one axis, as in d2l and fairseq; x changed to sequence first on the way."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.qkv, self.out = nn.Linear(width, 3 * width, True), nn.Linear(width, width, True)

    def forward(self, x, mask=None, return_weights=False):
        images, tokens, width = x.shape
        size = width // self.num_heads
        parts = self.qkv(x.transpose(0, 1)).chunk(3, dim=-1)  # each (N, B, D)
        q, k, v = (p.contiguous().view(tokens, images * self.num_heads, size).transpose(0, 1) for p in parts)
        scores = torch.bmm(q * size**-0.5, k.transpose(1, 2))
        if mask is not None:
            shape = (images, self.num_heads, tokens, tokens)
            scores = scores.masked_fill(~with_axes(mask).expand(shape).reshape(-1, tokens, tokens), -1e6)
        weights = F.softmax(scores, dim=-1)
        mixed = torch.bmm(self.dropout(weights), v)
        output = self.out(mixed.transpose(0, 1).contiguous().view(tokens, images, width)).transpose(0, 1)
        return (output, weights.view(images, self.num_heads, tokens, tokens)) if return_weights else output


class LayerByEinsum(nn.Module):
    """One einsum from tokens to heads and one back, with the weights seen as (3, H, d, D) and (D, H, d)."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.p = num_heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        w = self.qkv.weight.unflatten(0, (3, self.num_heads, -1))
        b = self.qkv.bias.unflatten(0, (3, self.num_heads, 1, -1))
        q, k, v = torch.einsum("bnw,chdw->cbhnd", x, w) + b[:, None]
        scores = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.shape[-1] ** -0.5)
        if mask is not None:
            scores = scores + with_axes(mask).float().log()
        weights = torch.softmax(scores, dim=-1)
        kept = torch.dropout(weights, self.p, self.training)
        out = self.out.weight.unflatten(1, (self.num_heads, -1))
        output = torch.einsum("bhij,bhjd,whd->biw", kept, v, out) + self.out.bias
        return (output, weights) if return_weights else output


class LayerWithOwnDropout(nn.Module):
    """Dropout by hand, on the exponentials' quotient."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.keep = num_heads, 1 - dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        q, k, v = map(lambda t: answers.split_heads(t, self.num_heads), self.qkv(x).chunk(3, -1))  # noqa: C417
        weights = attend_masking_exponentials(q, k, v, mask)[1]
        kept = weights
        if self.training:
            kept = weights * torch.bernoulli(torch.full_like(weights, self.keep)) / self.keep
        output = self.out(answers.merge_heads(torch.einsum("bhij,bhjd->bhid", kept, v)))
        return (output, weights) if return_weights else output


def layer_attending_by(attend):
    """A layer of the answer's form whose weights come from another right `attend`."""

    class Layer(answers.MultiHeadAttention):
        def forward(self, x, mask=None, return_weights=False):
            q, k, v = (answers.split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
            weights = attend(q, k, v, mask)[1]
            output = self.out(answers.merge_heads(self.dropout(weights) @ v))
            return (output, weights) if return_weights else output

    return Layer


CORRECT_LAYER = {
    "answer": answers.MultiHeadAttention,
    "steps": layer_from(),
    "oracle": OracleLayer,
    "minGPT": LayerAsMinGPT,
    "timm": LayerAsTimm,
    "vit-pytorch": LayerAsViTPytorch,
    "three projections": LayerOfThreeProjections,
    "F.scaled_dot_product_attention": LayerByFlash,
    "head by head": LayerHeadByHead,
    "images and heads as one axis": LayerByBmm,
    "einsum with the weights cut into heads": LayerByEinsum,
    "dropout by hand": LayerWithOwnDropout,
} | {
    f"weights by {name}": layer_attending_by(attend)
    for name, attend in CORRECT_ATTEND.items()
    if name not in ("answer", "steps", "oracle")
}


def sizes_of(num_heads: int, width: int, dropout: float = 0.0):
    """Return the arguments of a layer whose heads have this width."""
    return {"width": num_heads * width, "num_heads": num_heads, **({"dropout": dropout} if dropout else {})}


def layer_case(rng, name: str, what: str, images: int, heads: int, tokens: int, width: int, mask=None):
    x = draw(rng, images, tokens, heads * width)
    rest = () if mask is None else (mask,)
    return Case(name, (what, sizes_of(heads, width), int(rng.integers(2**31)), x, *rest))


def layer_value_cases(rng):
    return [
        Case("parameters", ("parameters", sizes_of(3, 4), 0, None)),
        layer_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "output", 2, 3, 5, 4),
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "output", 4, 2, 3, 5),
        layer_case(rng, "one token", "output", 3, 2, 1, 4),
        layer_case(rng, "one image", "output", 1, 3, 4, 2),
        layer_case(rng, "one head", "output", 3, 1, 4, 5),
    ]


def layer_weight_cases(rng):
    return [
        layer_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "weights", 2, 3, 5, 4),
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "weights", 4, 2, 3, 5),
        Case("dropout of a half", ("weights in training", sizes_of(3, 4, 0.5), 0, (4, 30, 12)), tells=("M86",)),
    ]


def layer_mask_cases(rng):
    return [
        layer_case(rng, "pairs, as many images as heads", "weights", 3, 3, 5, 4, draw_mask(rng, 3, 5, 5)),
        layer_case(rng, "keys, as many images as heads and tokens", "weights", 4, 4, 4, 2, draw_mask(rng, 4, 4)),
        layer_case(rng, "keys", "output", 2, 3, 5, 4, draw_mask(rng, 2, 5)),
        layer_case(rng, "pairs", "output", 2, 4, 5, 3, draw_mask(rng, 2, 5, 5)),
        layer_case(rng, "pairs in each head", "output", 3, 2, 4, 5, draw_mask(rng, 3, 2, 4, 4)),
        far_layer_case(rng),
    ]


def far_layer_case(rng):
    """One key for each image and tokens so large that about half of its scores are below -100, which then hides nothing."""
    case = layer_case(
        rng, "large tokens, one key", "output", 2, 3, 5, 4, np.eye(5, dtype=bool)[rng.integers(5, size=2)]
    )
    case.arguments[3][...] *= 20
    return case


def layer_gradient_cases(rng):
    return [
        layer_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "gradient", 4, 2, 3, 5),
        layer_case(rng, "pairs", "gradient", 2, 3, 5, 4, draw_mask(rng, 2, 5, 5)),
    ]


DROPOUT_MISTAKES = ("M29", "M30", "M85")


def layer_dropout_cases(rng):
    """Many tokens, so that the spread of a sum of weights is known to a few per cent."""
    return [
        Case("dropout of a fifth", ("dropout", sizes_of(2, 3, 0.2), 0, (8, 64, 6)), tells=DROPOUT_MISTAKES),
        Case("dropout of a half", ("dropout", sizes_of(3, 2, 0.5), 0, (8, 60, 6)), tells=DROPOUT_MISTAKES),
    ]


def layer_visible_cases(rng):
    rng = np.random.default_rng(7)

    def case(name, what, images, heads, tokens, width, mask=None):
        x = whole(rng, images, tokens, heads * width) / 2
        return Case(name, (what, sizes_of(heads, width), 1, x, *(() if mask is None else (mask,))))

    return [
        Case("parameters", ("parameters", sizes_of(3, 4), 0, None)),
        case("2 images, 3 heads, 4 tokens, head width 5", "output", 2, 3, 4, 5),
        case("weights", "weights", 2, 3, 4, 2),
        case("a mask of pairs, as many images as heads", "output", 2, 2, 3, 4, draw_mask(rng, 2, 3, 3)),
        case("a mask of keys, as many images as heads", "output", 3, 3, 3, 2, draw_mask(rng, 3, 3)),
        case("a mask of pairs in each head", "output", 3, 2, 4, 2, draw_mask(rng, 3, 2, 4, 4)),
        case("gradients", "gradient", 2, 3, 4, 1),
        Case("dropout of a fifth", ("dropout", sizes_of(2, 3, 0.2), 0, (8, 64, 6)), tells=DROPOUT_MISTAKES),
        Case("dropout of a half", ("weights in training", sizes_of(3, 4, 0.5), 0, (4, 30, 12)), tells=("M86",)),
    ]


MULTI_HEAD_ATTENTION = ExerciseInTorch(
    name="MultiHeadAttention",
    names=(),
    oracle=OracleLayer,
    build=layer_from,
    mutants=LAYER_MUTANTS,
    stages={
        "values": layer_value_cases,
        "weights": layer_weight_cases,
        "mask": layer_mask_cases,
        "gradient": layer_gradient_cases,
        "dropout": layer_dropout_cases,
    },
    visible=layer_visible_cases,
    correct=CORRECT_LAYER,
    uses={"split_heads": oracle_split, "merge_heads": oracle_merge, "attend": oracle_attend},
    probe=on_layer,
)


# ------------------------------------------------------------------------------------------------------------ to_torch


def oracle_to_torch(mha: nn.Module) -> nn.MultiheadAttention:
    layer = nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, batch_first=True)
    ours = mha.state_dict()
    layer.load_state_dict({theirs: ours[name] for theirs, name in zip(probes.IN_TORCH, probes.PARAMETERS)})
    return layer


def to_torch_from(
    make=lambda mha: nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, batch_first=True),
    packed=lambda mha: (mha.qkv.weight, mha.qkv.bias),
    out=lambda mha: (mha.out.weight, mha.out.bias),
    wrap=lambda layer, mha: layer,
):
    def to_torch(mha: nn.Module) -> nn.Module:
        layer = make(mha)
        places = (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias)
        with torch.no_grad():
            for place, value in zip(places, (*packed(mha), *out(mha))):
                if place is not None and value is not None:
                    place.copy_(value)
        return wrap(layer, mha)

    return to_torch


class Wrapped(nn.Module):
    """Our own layer behind PyTorch's way of calling."""

    def __init__(self, mha: nn.Module):
        super().__init__()
        self.mha = mha

    def forward(self, query, key, value, average_attn_weights=False):
        return self.mha(query, return_weights=True)


def in_order(order):
    """Take the rows of q, k and v in another order."""
    return lambda mha: tuple(
        torch.cat([tensor.chunk(3)[i] for i in order]) for tensor in (mha.qkv.weight, mha.qkv.bias)
    )


def interleaved(mha: nn.Module):
    """Order the rows as (h qkv d)."""
    return tuple(
        tensor.detach().unflatten(0, (3, mha.num_heads, -1)).transpose(0, 1).flatten(0, 2)
        for tensor in (mha.qkv.weight, mha.qkv.bias)
    )


TO_TORCH_MUTANTS = (
    Mutant("M11", packed=in_order((1, 0, 2))),
    Mutant("M82", packed=in_order((0, 2, 1))),
    Mutant("M82", packed=in_order((2, 1, 0))),
    Mutant("M82", packed=in_order((2, 0, 1))),
    Mutant("M27", packed=interleaved),
    Mutant("M72", out=lambda mha: (mha.out.weight.T, mha.out.bias)),
    Mutant("M83", packed=lambda mha: (mha.qkv.weight, None), out=lambda mha: (mha.out.weight, None)),
    Mutant("M83", packed=lambda mha: (mha.qkv.weight, None)),
    Mutant("M83", out=lambda mha: (mha.out.weight, None)),
    Mutant(
        "M83",
        make=lambda mha: nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, bias=False, batch_first=True),
    ),
    Mutant("M87", packed=lambda mha: (None, None), out=lambda mha: (None, None)),
    Mutant("M87", out=lambda mha: (None, None)),
    Mutant("M87", packed=lambda mha: (None, None)),
    Mutant("M87", packed=lambda mha: (None, mha.qkv.bias)),
    Mutant("M87", out=lambda mha: (None, mha.out.bias)),
    Mutant("M88", wrap=lambda layer, mha: mha),
    Mutant("M88", wrap=lambda layer, mha: Wrapped(mha)),
    Mutant("M88", wrap=lambda layer, mha: nn.Sequential(layer)),
    Mutant("M89", make=lambda mha: nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads)),
    Mutant("M89", make=lambda mha: nn.MultiheadAttention(mha.qkv.in_features, 1, batch_first=True)),
)


def to_torch_by_state(mha):
    layer = nn.MultiheadAttention(mha.qkv.weight.shape[1], num_heads=mha.num_heads, batch_first=True)
    state = {"in_proj_weight": mha.qkv.weight, "in_proj_bias": mha.qkv.bias}
    layer.load_state_dict(state | {f"out_proj.{name}": value for name, value in mha.out.state_dict().items()})
    return layer


def to_torch_sharing(mha):
    layer = nn.MultiheadAttention(mha.out.out_features, mha.num_heads, batch_first=True, dropout=0.0)
    layer.in_proj_weight, layer.in_proj_bias = mha.qkv.weight, mha.qkv.bias
    layer.out_proj.weight, layer.out_proj.bias = mha.out.weight, mha.out.bias
    return layer


def to_torch_by_data(mha):
    layer = nn.MultiheadAttention(mha.qkv.out_features // 3, mha.num_heads, batch_first=True).eval()
    layer.in_proj_weight.data = mha.qkv.weight.data.clone()
    layer.in_proj_bias.data = mha.qkv.bias.data.clone()
    layer.out_proj.load_state_dict(mha.out.state_dict())
    return layer


def to_torch_part_by_part(mha):
    width = mha.out.weight.shape[0]
    layer = nn.MultiheadAttention(embed_dim=width, num_heads=mha.num_heads, batch_first=True)
    for part in range(3):
        rows = slice(part * width, (part + 1) * width)
        layer.in_proj_weight.data[rows] = mha.qkv.weight.detach()[rows]
        layer.in_proj_bias.data[rows] = mha.qkv.bias.detach()[rows]
    layer.out_proj.weight = nn.Parameter(mha.out.weight.detach().clone())
    layer.out_proj.bias = nn.Parameter(mha.out.bias.detach().clone())
    return layer


def to_torch_by_order(mha):
    layer = nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, batch_first=True)
    names = ("qkv.weight", "qkv.bias", "out.weight", "out.bias")
    with torch.no_grad():
        for theirs, name in zip(layer.parameters(), names):
            theirs[:] = mha.get_parameter(name)
    return layer


def to_torch_sharing_out(mha):
    layer = nn.MultiheadAttention(mha.out.in_features, mha.num_heads, batch_first=True)
    layer.in_proj_weight, layer.in_proj_bias, layer.out_proj = mha.qkv.weight, mha.qkv.bias, mha.out
    return layer


def to_torch_as_one_vector(mha):
    layer = nn.MultiheadAttention(mha.out.in_features, mha.num_heads, batch_first=True).requires_grad_(False)
    ours = [mha.get_parameter(name) for name in probes.PARAMETERS]
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(ours).detach(), layer.parameters())
    return layer


CORRECT_TO_TORCH = {
    "answer": answers.to_torch,
    "steps": to_torch_from(),
    "oracle": oracle_to_torch,
    "state_dict": to_torch_by_state,
    "parameters shared": to_torch_sharing,
    "out itself": to_torch_sharing_out,
    "one vector": to_torch_as_one_vector,
    "data": to_torch_by_data,
    "part by part": to_torch_part_by_part,
    "parameters in their order": to_torch_by_order,
}


def converter_case(rng, name: str, what: str, images: int, heads: int, tokens: int, width: int):
    return Case(
        name, (what, sizes_of(heads, width), int(rng.integers(2**31)), draw(rng, images, tokens, heads * width))
    )


def converter_visible_cases(rng):
    x = whole(np.random.default_rng(7), 2, 5, 12) / 2
    return [
        Case("kind", ("kind", sizes_of(3, 4), 1, None)),
        Case("parameters", ("parameters", sizes_of(3, 4), 1, None)),
        Case("parameters of one head", ("parameters", sizes_of(1, 5), 1, None)),
        Case("2 images, 3 heads, 5 tokens, head width 4", ("output", sizes_of(3, 4), 1, x)),
    ]


TO_TORCH = ExerciseInTorch(
    name="to_torch",
    names=(),
    oracle=oracle_to_torch,
    build=to_torch_from,
    mutants=TO_TORCH_MUTANTS,
    stages={
        "parameters": lambda rng: [
            Case("kind", ("kind", sizes_of(3, 4), 1, None)),
            Case("parameters of 3 heads", ("parameters", sizes_of(3, 4), int(rng.integers(2**31)), None)),
            Case("parameters of one head", ("parameters", sizes_of(1, 5), int(rng.integers(2**31)), None)),
        ],
        "output": lambda rng: [
            Case("kind", ("kind", sizes_of(2, 3), 1, None)),
            converter_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "output", 2, 3, 5, 4),
            converter_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "output", 4, 2, 3, 5),
        ],
        "weights": lambda rng: [
            Case("kind", ("kind", sizes_of(4, 2), 1, None)),
            converter_case(rng, "2 images, 3 heads, 5 tokens, head width 4", "weights", 2, 3, 5, 4),
            converter_case(rng, "4 images, 2 heads, 3 tokens, head width 5", "weights", 4, 2, 3, 5),
        ],
    },
    visible=converter_visible_cases,
    correct=CORRECT_TO_TORCH,
    probe=on_converter,
)

EXERCISES = {
    exercise.name: exercise
    for exercise in (
        MATMUL,
        MATMUL_TRANSPOSED,
        BATCHED_TRACE,
        PAIRWISE_DOT,
        BILINEAR,
        SPLIT_HEADS,
        MERGE_HEADS,
        ATTEND,
        MULTI_HEAD_ATTENTION,
        TO_TORCH,
    )
}
check = checker(EXERCISES)

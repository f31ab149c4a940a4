"""Right answers of assignment 2_multihead, written differently: they must pass the checks. No points depend on them."""

import torch
from torch import Tensor, nn

from autograder.checks.multihead import oracles, right_attention, stand_ins
from solutions import multihead as answers


def product_in_loops(a: Tensor, b: Tensor) -> Tensor:
    rows = [[sum(a[i, k] * b[k, j] for k in range(a.shape[1])) for j in range(b.shape[1])] for i in range(a.shape[0])]
    return torch.stack([torch.stack(row) for row in rows])


def trace_of_the_diagonal(a):
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    return diagonal.sum(-1)


def pairwise_dot_in_two_steps(q, k):
    turned = k.transpose(1, 2)
    return torch.bmm(q, turned)


def bilinear_in_two_steps(x, w, y):
    mapped = x @ w
    return mapped @ y.mT


def merge_in_two_steps(x):
    tokens = x.transpose(1, 2).contiguous()
    return tokens.view(x.size(0), x.size(2), x.size(1) * x.size(3))


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


RIGHT_ANSWERS = {
    "matmul": {
        "answer": answers.matmul,
        "oracle": oracles.matmul,
        "@": lambda a, b: a @ b,
        "loops": product_in_loops,
        "einsum without an arrow": lambda a, b: torch.einsum("ij,jk", a, b),
    },
    "matmul_transposed": {
        "answer": answers.matmul_transposed,
        "oracle": oracles.matmul_transposed,
        "@": lambda a, b: a @ b.T,
        "loops": lambda a, b: product_in_loops(a, b.t()),
    },
    "batched_trace": {
        "answer": answers.batched_trace,
        "oracle": oracles.batched_trace,
        "diagonal": trace_of_the_diagonal,
        "indices": lambda a: a[:, torch.arange(a.shape[1]), torch.arange(a.shape[2])].sum(1),
        "vmap": lambda a: torch.vmap(torch.trace)(a),
    },
    "pairwise_dot": {
        "answer": answers.pairwise_dot,
        "oracle": oracles.pairwise_dot,
        "bmm": pairwise_dot_in_two_steps,
        "@": lambda q, k: q @ k.mT,
        "image by image": lambda q, k: torch.stack([q[i] @ k[i].T for i in range(len(q))]),
    },
    "bilinear": {
        "answer": answers.bilinear,
        "oracle": oracles.bilinear,
        "@": bilinear_in_two_steps,
        "w and y first": lambda x, w, y: x @ (w @ y.transpose(-1, -2)),
        "features one by one": lambda x, w, y: sum(x[:, :, d, None] * (y @ w[d])[:, None] for d in range(w.shape[0])),
    },
    "split_heads": {
        "answer": answers.split_heads,
        "oracle": stand_ins.split_heads,
        "view and permute": lambda x, h: x.view(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
        "unflatten": lambda x, h: x.unflatten(-1, (h, -1)).movedim(2, 1),
        "slices": lambda x, h: torch.stack(
            [x[..., i * (x.shape[2] // h) : (i + 1) * (x.shape[2] // h)] for i in range(h)], 1
        ),
        "transposed first": lambda x, h: x.mT.reshape(x.shape[0], h, -1, x.shape[1]).mT.contiguous(),
    },
    "merge_heads": {
        "answer": answers.merge_heads,
        "oracle": stand_ins.merge_heads,
        "contiguous and view": merge_in_two_steps,
        "permute and reshape": lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
        "loop over heads": lambda x: torch.cat([x[:, head] for head in range(x.shape[1])], dim=2),
        "transposed first": lambda x: x.mT.flatten(1, 2).mT,
    },
    "attend": right_attention.ATTEND,
    "MultiHeadAttention": right_attention.MULTI_HEAD_ATTENTION,
    "to_torch": {
        "answer": answers.to_torch,
        "oracle": oracles.to_torch,
        "state_dict": to_torch_by_state,
        "parameters shared": to_torch_sharing,
        "part by part": to_torch_part_by_part,
        "parameters in their order": to_torch_by_order,
    },
}

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"super\(\).__init__\(\); |\.copy_\(.*; |masked_fill\(.*; ": "a second call changes nothing",
    r"attend, line \d+: (mask|empty) = .*detach": "a mask has no gradient",
    r"attend, line \d+: empty = .*half": "in half precision, False and True become 0 and 1",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"MultiHeadAttention, line \d+: if width % num_heads": "num_heads divides the width, and the specification asks for no error",
}

"""Right answers of assignment 2_multihead, written differently: they must pass the checks. No points depend on them."""

import torch
import torch.nn.functional as F
from attention_tests import multihead as asks
from torch import Tensor, nn

from autograder.checks.multihead import oracles, right_attention, stand_ins
from solutions import multihead as answers


def by_letters(letters: str):
    """Return a function that multiplies tensors by an einsum of these letters."""
    return lambda *tensors: torch.einsum(letters, *tensors)


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


MATMUL = {
    "answer": answers.matmul,
    "oracle": oracles.matmul,
    "@": lambda a, b: a @ b,
    "loops": product_in_loops,
    "rows times columns": lambda a, b: (a[:, :, None] * b[None]).sum(1),
    "einsum with lists of axes": lambda a, b: torch.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    "einsum without an arrow": lambda a, b: torch.einsum("ij,jk", a, b),
    "linear": lambda a, b: F.linear(a, b.T),
    "tensordot": lambda a, b: torch.tensordot(a, b, dims=1),
}

MATMUL_TRANSPOSED = {
    "answer": answers.matmul_transposed,
    "oracle": oracles.matmul_transposed,
    "@": lambda a, b: a @ b.T,
    "loops": lambda a, b: product_in_loops(a, b.t()),
    "broadcast": lambda a, b: (a[:, None] * b[None]).sum(-1),
    "inner": lambda a, b: torch.inner(a, b),
    "einsum with other letters": by_letters("xy,zy->xz"),
    "matmul": lambda a, b: torch.matmul(a, b.transpose(0, 1)),
}

BATCHED_TRACE = {
    "answer": answers.batched_trace,
    "oracle": oracles.batched_trace,
    "diagonal": trace_of_the_diagonal,
    "ellipsis": by_letters("...ii->..."),
    "mask": lambda a: (a * torch.eye(a.shape[-1])).sum((1, 2)),
    "indices": lambda a: a[:, torch.arange(a.shape[1]), torch.arange(a.shape[2])].sum(1),
    "vmap": lambda a: torch.vmap(torch.trace)(a),
}

PAIRWISE_DOT = {
    "answer": answers.pairwise_dot,
    "oracle": oracles.pairwise_dot,
    "bmm": pairwise_dot_in_two_steps,
    "@": lambda q, k: q @ k.mT,
    "broadcast": lambda q, k: (q[:, :, None] * k[:, None]).sum(-1),
    "image by image": lambda q, k: torch.stack([q[i] @ k[i].T for i in range(len(q))]),
    "query by query": lambda q, k: torch.stack([torch.einsum("bd,bkd->bk", q[:, i], k) for i in range(q.shape[1])], 1),
    "ellipsis": by_letters("...qd,...kd->...qk"),
}

BILINEAR = {
    "answer": answers.bilinear,
    "oracle": oracles.bilinear,
    "@": bilinear_in_two_steps,
    "w and y first": lambda x, w, y: x @ (w @ y.transpose(-1, -2)),
    "two einsums": lambda x, w, y: torch.einsum("bne,bme->bnm", torch.einsum("bnd,de->bne", x, w), y),
    "linear": lambda x, w, y: torch.bmm(F.linear(x, w.T), y.mT),
    "operands in another order": lambda x, w, y: torch.einsum("de,bme,bnd->bnm", w, y, x),
    "features one by one": lambda x, w, y: sum(x[:, :, d, None] * (y @ w[d])[:, None] for d in range(w.shape[0])),
}

SPLIT_HEADS = {
    "answer": answers.split_heads,
    "oracle": stand_ins.split_heads,
    "view and transpose": lambda x, h: x.contiguous().view(x.size(0), x.size(1), h, x.size(2) // h).transpose(1, 2),
    "view and permute": lambda x, h: x.view(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
    "unflatten": lambda x, h: x.unflatten(-1, (h, -1)).movedim(2, 1),
    "slices": lambda x, h: torch.stack(
        [x[..., i * (x.shape[2] // h) : (i + 1) * (x.shape[2] // h)] for i in range(h)], 1
    ),
    "transposed first": lambda x, h: x.mT.reshape(x.shape[0], h, -1, x.shape[1]).mT.contiguous(),
    "split and concatenation": lambda x, h: torch.cat([part[:, None] for part in x.split(x.shape[-1] // h, -1)], dim=1),
    "windows": lambda x, h: x.unfold(2, x.shape[2] // h, x.shape[2] // h).permute(0, 2, 1, 3),
    "sequence first, as in fairseq": lambda x, h: (
        x.transpose(0, 1).reshape(x.shape[1], x.shape[0] * h, -1).transpose(0, 1).reshape(x.shape[0], h, x.shape[1], -1)
    ),
    "image by image": lambda x, h: torch.stack([image.reshape(len(image), h, -1).transpose(0, 1) for image in x]),
}

MERGE_HEADS = {
    "answer": answers.merge_heads,
    "oracle": stand_ins.merge_heads,
    "contiguous and view": merge_in_two_steps,
    "permute and reshape": lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
    "movedim": lambda x: x.movedim(1, 2).flatten(-2),
    "loop over heads": lambda x: torch.cat([x[:, head] for head in range(x.shape[1])], dim=2),
    "transposed first": lambda x: x.mT.flatten(1, 2).mT,
    "einsum": lambda x: torch.einsum("bhnd->bnhd", x).reshape(x.shape[0], x.shape[2], -1),
    "token by token": lambda x: torch.stack([x[:, :, n].flatten(1) for n in range(x.shape[2])], dim=1),
}


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
    ours = [mha.get_parameter(name) for name in asks.PARAMETERS]
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(ours).detach(), layer.parameters())
    return layer


TO_TORCH = {
    "answer": answers.to_torch,
    "oracle": oracles.to_torch,
    "state_dict": to_torch_by_state,
    "parameters shared": to_torch_sharing,
    "out itself": to_torch_sharing_out,
    "one vector": to_torch_as_one_vector,
    "data": to_torch_by_data,
    "part by part": to_torch_part_by_part,
    "parameters in their order": to_torch_by_order,
}

RIGHT_ANSWERS = {
    "matmul": MATMUL,
    "matmul_transposed": MATMUL_TRANSPOSED,
    "batched_trace": BATCHED_TRACE,
    "pairwise_dot": PAIRWISE_DOT,
    "bilinear": BILINEAR,
    "split_heads": SPLIT_HEADS,
    "merge_heads": MERGE_HEADS,
    "attend": right_attention.ATTEND,
    "MultiHeadAttention": right_attention.MULTI_HEAD_ATTENTION,
    "to_torch": TO_TORCH,
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

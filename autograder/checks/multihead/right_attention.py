"""Right answers to `attend` and `MultiHeadAttention`, written differently.

No points of 2_multihead depend on them. In 5_debugging, a student's test must accept every answer in ATTEND.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.multihead import oracles, stand_ins
from autograder.checks.multihead.stand_ins import refuse, with_axes
from solutions import multihead as answers


def attend_as_nanogpt(q, k, v, mask=None):
    products = q @ k.transpose(-2, -1)
    att = products * (1.0 / math.sqrt(k.size(-1)))
    if mask is not None:
        mask = with_axes(mask)
        refuse(mask)
        att = att.masked_fill(mask == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    return att @ v, att


def attend_as_annotated(query, key, value, mask=None):
    """Attend as in "The Annotated Transformer", with the error that the exercise asks for."""
    if mask is not None and not bool((mask.sum(-1) > 0).all()):
        raise ValueError("the mask hides all keys from a query")
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
        scaled = q * q.shape[-1] ** -0.5
        scores = torch.einsum("...nd,...md->...nm", scaled, k)
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
    """Compute the output by PyTorch's own function, and the weights separately."""
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), weights


def attend_head_by_head(q, k, v, mask=None):
    output, weights = torch.zeros_like(v), torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for image in range(q.shape[0]):
        for head in range(q.shape[1]):
            scores = q[image, head] @ k[image, head].T / q.shape[-1] ** 0.5
            if mask is not None:
                allowed = mask[image, head] if mask.ndim == 4 else mask[image]
                if not allowed.any(dim=-1).all():
                    raise ValueError("the mask hides all keys from a query")
                scores = scores.masked_fill(~allowed, -torch.inf)
            own = scores.softmax(-1)
            weights[image, head] = own
            output[image, head] = own @ v[image, head]
    return output, weights


def attend_by_bmm(q, k, v, mask=None):
    """Join images and heads in one axis, as in d2l and fairseq."""
    images, heads, tokens, width = q.shape
    q, k, v = (tensor.reshape(images * heads, tokens, width) for tensor in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(width)
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask).expand(images, heads, tokens, tokens).reshape(images * heads, tokens, tokens)
        scores = scores.masked_fill(~mask, -1e9)
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
    """Mask after the exponential and then normalise: this is right, unlike M17."""
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
        raise ValueError("the mask hides all keys from a query")
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


ATTEND = {
    "answer": answers.attend,
    "oracle": stand_ins.attend,
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


class LayerAsMinGPT(nn.Module):
    """Follows the layer of minGPT and nanoGPT."""

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


class LayerByFlash(nn.Module):
    """Uses `F.scaled_dot_product_attention`, as nanoGPT and torchtune do, and computes the weights only on request."""

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
    """Loops over heads, each with its rows of the packed layer, as in courses."""

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


class LayerWithOwnDropout(nn.Module):
    """Computes the dropout itself, on normalised exponentials."""

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


class LayerInContainer(answers.MultiHeadAttention):
    """Has its linear layers in an nn.ModuleDict, and also under their names."""

    def __init__(self, width, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        self.layers = nn.ModuleDict({"project": nn.Linear(width, 3 * width), "back": nn.Linear(width, width)})
        self.qkv, self.out = self.layers["project"], self.layers["back"]
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)


def layer_attending_by(attend):
    """Return the layer of the answer with weights from another right `attend`."""

    class Layer(answers.MultiHeadAttention):
        def forward(self, x, mask=None, return_weights=False):
            q, k, v = (answers.split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
            weights = attend(q, k, v, mask)[1]
            output = self.out(answers.merge_heads(self.dropout(weights) @ v))
            return (output, weights) if return_weights else output

    return Layer


MULTI_HEAD_ATTENTION = {
    "answer": answers.MultiHeadAttention,
    "oracle": oracles.MultiHeadAttention,
    "minGPT": LayerAsMinGPT,
    "F.scaled_dot_product_attention": LayerByFlash,
    "head by head": LayerHeadByHead,
    "dropout by hand": LayerWithOwnDropout,
    "in an nn.ModuleDict too": LayerInContainer,
} | {
    f"weights by {name}": layer_attending_by(attend)
    for name, attend in ATTEND.items()
    if name not in ("answer", "oracle")
}

"""Oracles of assignment 2_multihead: right results by PyTorch's own means, independent of the answers in `solutions/`."""

import torch
import torch.nn.functional as F
from attention_tests import multihead as asks
from torch import Tensor, nn


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b)


def matmul_transposed(a: Tensor, b: Tensor) -> Tensor:
    return F.linear(a, b)


def batched_trace(a: Tensor) -> Tensor:
    return torch.stack([torch.trace(matrix) for matrix in a])


def pairwise_dot(q: Tensor, k: Tensor) -> Tensor:
    return torch.stack([F.linear(queries, keys) for queries, keys in zip(q, k)])


def bilinear(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    return torch.stack([torch.mm(torch.mm(tokens, w), others.t()) for tokens, others in zip(x, y)])


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)  # (B, H, N, d)


def merge_heads(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)  # (B, N, D)


def with_axes(mask: Tensor) -> Tensor:
    """Let a mask of keys, or of pairs, broadcast to (B, H, N, N)."""
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask


def refuse(mask: Tensor) -> None:
    if not mask.any(-1).all():
        raise ValueError("the mask hides all keys from a query")


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Use `F.scaled_dot_product_attention` in float64, which gives the weights if the values are the identity."""
    if mask is not None:
        refuse(mask)
        mask = with_axes(mask).expand(*q.shape[:-1], k.shape[-2])
    wide = [tensor.double() for tensor in (q, k, v)]
    identity = torch.eye(k.shape[-2], dtype=torch.float64).expand(*k.shape[:-1], -1)  # (B, H, N, N)
    output = F.scaled_dot_product_attention(*wide, attn_mask=mask)
    weights = F.scaled_dot_product_attention(*wide[:2], identity, attn_mask=mask)
    return output.to(q.dtype), weights.to(q.dtype)


class MultiHeadAttention(nn.Module):
    """Calls PyTorch's attention with the parameters and names of our layer, so that gradients reach them."""

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads, self.share = num_heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False):
        if mask is not None:  # PyTorch's mask is True at hidden keys, with one axis for images and heads
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
            for which, share in enumerate((self.share, 0.0))  # PyTorch returns the weights after dropout
        )
        return (output.transpose(0, 1), weights) if return_weights else output.transpose(0, 1)


def to_torch(mha: nn.Module) -> nn.MultiheadAttention:
    layer = nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, batch_first=True)
    ours = mha.state_dict()
    layer.load_state_dict({theirs: ours[name] for theirs, name in zip(asks.IN_TORCH, asks.PARAMETERS)})
    return layer

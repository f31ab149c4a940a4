"""Oracles of assignment 2_multihead: right results by PyTorch's own means, independent of the answers in `solutions/`."""

import torch
import torch.nn.functional as F
from attention_tests import multihead as asks
from torch import Tensor, nn

from autograder.checks.multihead.stand_ins import with_axes


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

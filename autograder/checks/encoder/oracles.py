"""Oracles of assignment 3_encoder, in addition to `stand_ins`: PyTorch's own stack, and its own initialisation."""

import torch
from torch import nn

from autograder.checks.encoder import stand_ins


class Encoder(nn.Module):
    """PyTorch's own stack. PyTorch copies one layer, so we replace the copies by layers with different parameters."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        made = [stand_ins.Layer(width, num_heads, hidden_width, dropout) for _ in range(depth)]
        self.stack = nn.TransformerEncoder(made[0], depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.stack.layers, self.num_heads = nn.ModuleList(made), num_heads

    norm, blocks = property(lambda self: self.stack.norm), property(lambda self: self.stack.layers)

    def forward(self, x, mask=None):
        return self.stack(x, stand_ins.hidden_pairs(mask, self.num_heads))


def repair(block):
    """Make a block pre-norm, as PyTorch's layer is, and initialise it as PyTorch does."""
    width = block.attention.embed_dim
    block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
    block.attention.batch_first = True
    block.attention._reset_parameters()
    block.attention.out_proj.reset_parameters()  # `_reset_parameters` does not reset this matrix
    block.feed_forward[0].reset_parameters()
    block.feed_forward[2].reset_parameters()
    return block.requires_grad_(True)


def rope(x, positions, base=10_000.0):
    """Multiply pairs as complex numbers."""
    if x.shape[-1] % 2:
        raise ValueError("the width is odd")
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., N, d / 2)
    count = pairs.shape[-1]
    angles = torch.stack([positions / base ** (i / count) for i in range(count)], dim=-1)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

"""PyTorch's own layers under the names of exercise 3.

The student's classes are compared with them. In the sandbox, they also replace the student's classes where another answer
uses these. So this file imports only what students have too.
"""

from torch import nn


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, with a second name for each parameter."""

    def __init__(self, width, eps=1e-5):
        super().__init__(width, eps)

    scale, shift = property(lambda self: self.weight), property(lambda self: self.bias)


class FeedForward(nn.Sequential):
    """A sequence of `nn.Linear`, `nn.GELU`, `nn.Dropout` and `nn.Linear`."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.add_module("expand", nn.Linear(width, hidden_width))
        self.add_module("activation", nn.GELU())
        self.add_module("dropout", nn.Dropout(dropout))
        self.add_module("contract", nn.Linear(hidden_width, width))


class Layer(nn.TransformerEncoderLayer):
    """A pre-norm `nn.TransformerEncoderLayer`, with a second name for each parameter."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(width, num_heads, hidden_width, dropout, "gelu", norm_first=True, batch_first=True)
        self.norm_attention, self.norm_feed_forward = self.norm1, self.norm2
        self.attention, self.feed_forward = nn.Module(), nn.Module()
        self.attention.qkv, self.attention.out = nn.Module(), self.self_attn.out_proj
        self.attention.qkv.weight, self.attention.qkv.bias = self.self_attn.in_proj_weight, self.self_attn.in_proj_bias
        self.feed_forward.expand, self.feed_forward.contract = self.linear1, self.linear2


def hidden_pairs(mask, num_heads):
    """Return a mask as PyTorch's layers read it: (B · H, N, N), True where a token is hidden."""
    if mask is None:
        return None
    size = mask.shape[-1]
    mask = mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
    return ~mask.expand(-1, num_heads, size, -1).flatten(0, 1)


class EncoderBlock(Layer):
    """A `Layer` that takes masks in the shapes of the exercise."""

    def forward(self, x, mask=None):
        """Return the new tokens."""
        return super().forward(x, src_mask=hidden_pairs(mask, self.self_attn.num_heads))

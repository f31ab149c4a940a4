"""Encoder blocks in PyTorch: LayerNorm, feed-forward network, block, stack, and repair of a block that cannot learn."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Let every token look at every token, in several heads. This class is given: you wrote your own in exercise 2.

    Args:
        width: D, the width of a token.
        num_heads: H, a divisor of D.
        dropout: The share of the attention weights that is set to 0 in training.
    """

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"width {width} is not divisible by {num_heads} heads")
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute the new tokens.

        Args:
            x: (B, N, D).
            mask: Boolean, as in exercise 2. (B, N) marks the tokens that are visible. (B, N, N) and (B, H, N, N) mark
                pairs of a query and a visible key.

        Returns:
            The new tokens, (B, N, D).
        """
        if mask is not None and mask.ndim < 4:
            mask = mask[:, None, None] if mask.ndim == 2 else mask[:, None]  # (B, 1, 1 or N, N)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # (B, H, N, d) each
        share = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=share)  # (B, H, N, d)
        return self.out(heads.transpose(1, 2).flatten(2))  # (B, N, D)


class LayerNorm(nn.Module):
    """Give every token mean 0 and variance 1 over its components, then apply a learned scale and shift.

    Args:
        width: D, the width of a token.
        eps: Added to the variance, under the square root.

    Attributes:
        scale: Parameter, (D,), initially all 1.
        shift: Parameter, (D,), initially all 0.

    Source: Ba, Kiros and Hinton 2016.
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(width))  # (D,)
        self.shift = nn.Parameter(torch.zeros(width))  # (D,)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each token.

        Args:
            x: (..., D), any number of axes before the last. forward does not change it.

        Returns:
            The normalised tokens, scaled and shifted, in the shape of x.
        """
        centred = x - x.mean(dim=-1, keepdim=True)  # (..., D)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1), divided by D, not by D - 1
        return self.scale * centred / torch.sqrt(variance + self.eps) + self.shift


class FeedForward(nn.Module):
    """Map every token separately: to the hidden width, through a GELU, and back.

    Args:
        width: D, the width of a token.
        hidden_width: The number of hidden activations.
        dropout: The share of the hidden activations that is set to 0 in training. Each is drawn independently.

    Attributes:
        expand: nn.Linear from D to the hidden width.
        contract: nn.Linear from the hidden width to D.

    Source: Vaswani et al. 2017, section 3.3; GELU, Hendrycks and Gimpel 2016.
    """

    def __init__(self, width: int, hidden_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden_width)
        self.contract = nn.Linear(hidden_width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Compute what the block adds to each token.

        Args:
            x: (..., D), any number of axes before the last. forward does not change it.

        Returns:
            The numbers to add to the tokens, in the shape of x.
        """
        hidden = F.gelu(self.expand(x))  # (..., hidden width)
        return self.contract(self.dropout(hidden))  # (..., D)


class EncoderBlock(nn.Module):
    """Add the output of attention to the tokens, then the output of a feed-forward network.

    Pre-norm: each of the two sub-layers reads the normalised stream, and its output is added to the stream itself.

    Args:
        width: D, the width of a token.
        num_heads: H, a divisor of D.
        hidden_width: The hidden width of the feed-forward network.
        dropout: The share that is set to 0 in training, in each of the two sub-layers. Dropout may act inside the
            sub-layer (on the attention weights and the hidden activations), on its output, or on both.

    Attributes:
        norm_attention: LayerNorm before the attention.
        attention: MultiHeadAttention.
        norm_feed_forward: LayerNorm before the feed-forward network.
        feed_forward: FeedForward.

    Source: Xiong et al. 2020, figure 1b.
    """

    def __init__(self, width: int, num_heads: int, hidden_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_attention = LayerNorm(width)
        self.attention = MultiHeadAttention(width, num_heads, dropout)
        self.norm_feed_forward = LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden_width, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Add the outputs of both sub-layers to the stream.

        Args:
            x: (B, N, D). forward does not change it.
            mask: As in `MultiHeadAttention`: (B, N), (B, N, N) or (B, H, N, N). False hides a token.

        Returns:
            The new tokens, (B, N, D).
        """
        x = x + self.dropout(self.attention(self.norm_attention(x), mask))  # (B, N, D)
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))  # (B, N, D)


class Encoder(nn.Module):
    """Stack blocks, and normalise the output of the last block.

    Args:
        depth: The number of blocks.
        width: D, the width of a token.
        num_heads: H, a divisor of D.
        hidden_width: The hidden width of the feed-forward networks.
        dropout: The dropout of every block.

    Attributes:
        blocks: nn.ModuleList of EncoderBlocks. Each has its own parameters, drawn independently.
        norm: LayerNorm after the last block.
    """

    def __init__(self, depth: int, width: int, num_heads: int, hidden_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(width, num_heads, hidden_width, dropout) for _ in range(depth))
        self.norm = LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Send the tokens through all blocks.

        Args:
            x: (B, N, D). forward does not change it.
            mask: As in `MultiHeadAttention`; every block gets it.

        Returns:
            The new tokens, (B, N, D), normalised.
        """
        for block in self.blocks:
            x = block(x, mask)  # (B, N, D)
        return self.norm(x)  # (B, N, D)


def repair(block: nn.Module) -> nn.Module:
    """Repair a block that cannot learn.

    Afterwards the block is a pre-norm encoder block:
    - Each of the two sub-layers reads the normalised stream.
    - Attention looks at the tokens of one sequence, and at no other sequence.
    - Every parameter learns.
    - The stream and its gradients keep their order of magnitude in a stack of such blocks.
    - The parameters are random, and no two blocks start with the same parameters.

    Args:
        block: A `BrokenBlock` of any width, number of heads and hidden width.

    Returns:
        The same block, changed in place. Its parts keep their names and sizes; its matrices are new or rescaled.
    """
    width = block.attention.embed_dim
    block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
    block.attention.batch_first = True  # by default PyTorch expects (N, B, D), and attends across the batch
    for parameter in block.parameters():
        parameter.requires_grad_(True)
        if parameter.ndim == 2:
            # The std √(2 / (inputs + outputs)) keeps inputs and outputs at about the same size.
            nn.init.xavier_uniform_(parameter)
    return block


def rope(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Rotate queries or keys by an angle that depends on the position of their token.

    A score then depends only on the distance between two tokens. Components 2i and 2i + 1, counted from 0, are the two
    coordinates of a point. At position n it is rotated about the origin by the angle n · base^(-2i / d), from the first
    coordinate towards the second.

    Args:
        x: (..., N, d), any number of axes before the last two. The function does not change it.
        positions: The positions of the tokens, in any order; broadcasts to (..., N). A position may be a fraction.
        base: The base of the frequencies.

    Returns:
        The rotated queries or keys, in the shape of x.

    Raises:
        ValueError: d is odd.

    Source: Su et al. 2021, eq. 15 and 34.
    """
    width = x.size(-1)
    if width % 2:
        raise ValueError(f"x has width {width}; it must be even, since components are rotated in pairs")
    frequencies = base ** (-torch.arange(0, width, 2) / width)  # (d / 2,)
    angles = positions[..., None] * frequencies  # (..., N, d / 2)
    cos, sin = angles.cos(), angles.sin()  # (..., N, d / 2) each
    first, second = x[..., 0::2], x[..., 1::2]  # (..., N, d / 2) each
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)  # (..., N, d / 2, 2)
    return turned.flatten(-2)  # (..., N, d)

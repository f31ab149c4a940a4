"""Encoder blocks in PyTorch: layer norm, feed-forward net, block, stack, and the repair of a block that cannot learn."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Let every token look at every token, in several heads. Given: you wrote your own in exercise 2.

    Args:
        width: D, of a token.
        num_heads: H; divides D.
        dropout: Share of the attention weights that is set to 0 in training.
    """

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"width {width} is not divisible by {num_heads} heads")
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let the tokens look.

        Args:
            x: (B, N, D).
            mask: True where a token may be looked at: (B, N), or, for each pair, (B, N, N) or (B, H, N, N).

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
    """Give every token mean 0 and variance 1 over its components, then a learned scale and shift.

    Args:
        width: D, of a token.
        eps: Added to the variance, under the square root.

    Attributes:
        scale: Parameter, (D,), at first all 1.
        shift: Parameter, (D,), at first all 0.

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
            x: (..., D), any number of axes in front of the last. Left unchanged.

        Returns:
            The normalised tokens, scaled and shifted, same shape as x.
        """
        centred = x - x.mean(dim=-1, keepdim=True)  # (..., D)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1), divided by D, not by D - 1
        return self.scale * centred / torch.sqrt(variance + self.eps) + self.shift


class FeedForward(nn.Module):
    """Change every token by itself: to the hidden width, through a GELU, and back.

    Args:
        width: D, of a token.
        hidden_width: Of the layer between.
        dropout: Share of the hidden activations that is set to 0 in training, each drawn by itself.

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
        """Change each token.

        Args:
            x: (..., D), any number of axes in front of the last. Left unchanged.

        Returns:
            What is to be added to the tokens, same shape as x.
        """
        hidden = F.gelu(self.expand(x))  # (..., hidden width)
        return self.contract(self.dropout(hidden))  # (..., D)


class EncoderBlock(nn.Module):
    """Add to every token what attention makes of all of them, then what a feed-forward net makes of it alone.

    Pre-norm: each of the two parts reads the normalised stream and its result is added to the stream itself.

    Args:
        width: D, of a token.
        num_heads: H; divides D.
        hidden_width: Of the feed-forward net.
        dropout: Share that is set to 0 in training, in each of the two parts: of the attention weights and the hidden
            activations, or of what the part adds, or of both.

    Attributes:
        norm_attention: LayerNorm in front of the attention.
        attention: MultiHeadAttention.
        norm_feed_forward: LayerNorm in front of the feed-forward net.
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
        """Add both parts to the stream.

        Args:
            x: (B, N, D). Left unchanged.
            mask: As for `MultiHeadAttention`: (B, N), (B, N, N) or (B, H, N, N), True where a token may be looked at.

        Returns:
            The new tokens, (B, N, D).
        """
        x = x + self.dropout(self.attention(self.norm_attention(x), mask))  # (B, N, D)
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))  # (B, N, D)


class Encoder(nn.Module):
    """Stack blocks, and normalise what comes out of the last.

    Args:
        depth: Number of blocks.
        width: D, of a token.
        num_heads: H; divides D.
        hidden_width: Of the feed-forward nets.
        dropout: For every block.

    Attributes:
        blocks: nn.ModuleList of EncoderBlocks; each has parameters of its own, drawn independently.
        norm: LayerNorm behind the last block.
    """

    def __init__(self, depth: int, width: int, num_heads: int, hidden_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(width, num_heads, hidden_width, dropout) for _ in range(depth))
        self.norm = LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Send the tokens through all blocks.

        Args:
            x: (B, N, D). Left unchanged.
            mask: As for `MultiHeadAttention`; every block gets it.

        Returns:
            The new tokens, (B, N, D), normalised.
        """
        for block in self.blocks:
            x = block(x, mask)  # (B, N, D)
        return self.norm(x)  # (B, N, D)


class BrokenBlock(nn.Module):
    """An encoder block for x of shape (B, N, D), as somebody wrote it whose model stayed at chance. Given.

    Its parts: norm_attention, attention (PyTorch's own), norm_feed_forward, feed_forward.
    """

    def __init__(self, width: int, num_heads: int, hidden_width: int) -> None:
        super().__init__()
        self.norm_attention = nn.Identity()
        self.attention = nn.MultiheadAttention(width, num_heads)
        self.norm_feed_forward = nn.Identity()
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))
        for parameter in self.parameters():
            nn.init.zeros_(parameter) if parameter.ndim == 1 else nn.init.normal_(parameter)
        self.attention.in_proj_weight.requires_grad_(False)

    def attend(self, x: Tensor) -> Tensor:
        """Let the tokens look, (B, N, D)."""
        return self.attention(x, x, x, need_weights=False)[0]

    def forward(self, x: Tensor) -> Tensor:
        """Return the new tokens, (B, N, D): the sum of all terms, which are x and what each part makes of those before."""
        terms = [x]
        for norm, part in ((self.norm_attention, self.attend), (self.norm_feed_forward, self.feed_forward)):
            terms.append(part(norm(sum(terms))))
        return sum(terms)


def repair(block: nn.Module) -> nn.Module:
    """Make a block that cannot learn into one that can.

    Afterwards the block is a pre-norm encoder block: each part reads the normalised stream; attention looks at the
    tokens of one sequence and at no other sequence; every parameter learns; the stream and its gradients keep their
    order of magnitude through a stack of such blocks. It starts from random parameters, no two blocks from the same ones.

    Args:
        block: A `BrokenBlock` of any width, number of heads and hidden width.

    Returns:
        The same block, changed in place: its parts keep their names and sizes, its matrices are drawn again or rescaled.
    """
    width = block.attention.embed_dim
    block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
    block.attention.batch_first = True  # PyTorch's default is (N, B, D): attention across the batch
    for parameter in block.parameters():
        parameter.requires_grad_(True)
        if parameter.ndim == 2:
            nn.init.xavier_uniform_(parameter)  # std √(2 / (inputs + outputs)): what goes in and what comes out agree
    return block


def rope(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Turn queries, or keys, by where their tokens stand: a score then depends on the distance of two tokens alone.

    Components 2i and 2i + 1, counted from 0, are the two coordinates of a point. At position n it is turned about the origin
    by the angle n · base^(-2i / d), from the first coordinate towards the second.

    Args:
        x: (..., N, d), any number of axes in front of the last two. Left unchanged.
        positions: Where the tokens stand; broadcasts to (..., N). In any order, and not always whole.
        base: Of the angles.

    Returns:
        The turned queries or keys, same shape as x.

    Raises:
        ValueError: d is odd.

    Source: Su et al. 2021, eq. 15 and 34.
    """
    width = x.size(-1)
    if width % 2:
        raise ValueError(f"x has width {width}; it must be even, since components are turned in pairs")
    frequencies = base ** (-torch.arange(0, width, 2) / width)  # (d / 2,)
    angles = positions[..., None] * frequencies  # (..., N, d / 2)
    cos, sin = angles.cos(), angles.sin()  # (..., N, d / 2) each
    first, second = x[..., 0::2], x[..., 1::2]  # (..., N, d / 2) each
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)  # (..., N, d / 2, 2)
    return turned.flatten(-2)  # (..., N, d)

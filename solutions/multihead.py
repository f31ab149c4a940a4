"""Multi-head attention in PyTorch: einsum, heads, the layer, and its conversion to PyTorch's own layer."""

import torch
from torch import Tensor, nn


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply two matrices.

    Args:
        a: (I, K).
        b: (K, J).

    Returns:
        The product a b, (I, J).
    """
    return torch.einsum("ik,kj->ij", a, b)  # (I, J)


def matmul_transposed(a: Tensor, b: Tensor) -> Tensor:
    """Multiply a matrix by the transpose of another.

    Args:
        a: (I, K).
        b: (J, K).

    Returns:
        The product a bᵀ, (I, J).
    """
    return torch.einsum("ik,jk->ij", a, b)  # (I, J)


def batched_trace(a: Tensor) -> Tensor:
    """Compute the trace of each matrix of a batch: the sum of its diagonal.

    Args:
        a: (B, N, N).

    Returns:
        The traces, (B,).
    """
    return torch.einsum("bnn->b", a)  # (B,)


def pairwise_dot(q: Tensor, k: Tensor) -> Tensor:
    """Compute the dot product of every query with every key of the same image.

    Args:
        q: (B, N_q, d).
        k: (B, N_k, d).

    Returns:
        The dot products, not scaled, (B, N_q, N_k).
    """
    return torch.einsum("bqd,bkd->bqk", q, k)  # (B, N_q, N_k)


def bilinear(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    """Compare every token of x with every token of y by a bilinear form: x w yᵀ, image by image.

    Args:
        x: (B, N, D).
        w: (D, E).
        y: (B, M, E).

    Returns:
        The values of the bilinear form, (B, N, M).
    """
    return torch.einsum("bnd,de,bme->bnm", x, w, y)  # (B, N, M)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the width of every token into heads.

    The first d components belong to head 0, the next d to head 1, and so on.

    Args:
        x: (B, N, D).
        num_heads: H, a divisor of D.

    Returns:
        The heads, (B, H, N, d) with d = D / H.
    """
    images, tokens, width = x.shape
    return x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)  # (B, H, N, d)


def merge_heads(x: Tensor) -> Tensor:
    """Merge the heads of every token: the inverse of `split_heads`.

    Args:
        x: (B, H, N, d).

    Returns:
        The tokens, (B, N, D) with D = H d.
    """
    return x.transpose(1, 2).flatten(start_dim=2)  # (B, N, D)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix values by how well each query matches each key, separately in every image and head.

    Args:
        q: Queries, (B, H, N, d).
        k: Keys, (B, H, N, d).
        v: Values, (B, H, N, d).
        mask: Boolean, True where a query may look, in one of three shapes. (B, N) marks the keys that exist, for all
            queries and heads. (B, N, N) marks pairs of a query and a key, for all heads. (B, H, N, N) marks pairs for
            each head.

    Returns:
        The mixed values, (B, H, N, d), and the weights, (B, H, N, N). Each row of weights sums to 1. Gradients flow
        through both results.

    Raises:
        ValueError: the mask hides all keys from a query.

    Source: Vaswani et al. 2017, eq. 1.
    """
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5  # (B, H, N, N)
    if mask is not None:
        if mask.ndim == 2:
            mask = mask[:, None, None, :]  # (B, 1, 1, N)
        elif mask.ndim == 3:
            mask = mask[:, None]  # (B, 1, N, N)
        empty = ~mask.any(dim=-1)
        if empty.any():
            raise ValueError(f"the mask hides all keys from a query: {int(empty.sum())} of its rows are all False")
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)  # (B, H, N, N)
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights  # (B, H, N, d), (B, H, N, N)


class MultiHeadAttention(nn.Module):
    """Let every token look at every token of its image, with several heads.

    Args:
        width: D.
        num_heads: H, a divisor of D; also an attribute with this name.
        dropout: The share of the weights that is set to 0 in training. The others are multiplied by 1 / (1 - dropout).

    Attributes:
        qkv: nn.Linear(width, 3 * width). Its first D outputs are the queries of all heads, the next D the keys, and the
            last D the values, as in `nn.MultiheadAttention`.
        out: nn.Linear(width, width), from the merged heads to the result.

    The layer has no other parameters.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        if width % num_heads:
            raise ValueError(f"the width {width} cannot be cut into {num_heads} heads of equal width")
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute the new tokens.

        Args:
            x: (B, N, D).
            mask: As in `attend`.
            return_weights: Whether to return the weights too.

        Returns:
            The new tokens, (B, N, D). With return_weights: a pair of the new tokens and the weights before dropout,
            (B, H, N, N).
        """
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))  # each (B, H, N, d)
        _, weights = attend(q, k, v, mask)  # (B, H, N, N)
        mixed = torch.einsum("bhij,bhjd->bhid", self.dropout(weights), v)  # (B, H, N, d)
        output = self.out(merge_heads(mixed))  # (B, N, D)
        return (output, weights) if return_weights else output


def to_torch(mha: nn.Module) -> nn.MultiheadAttention:
    """Make PyTorch's own layer with the parameters of our layer.

    Args:
        mha: A `MultiHeadAttention` without dropout. You need its `qkv`, `out` and `num_heads`.

    Returns:
        A layer for which `layer(x, x, x)[0]` equals `mha(x)`, for x of shape (B, N, D).
    """
    layer = nn.MultiheadAttention(mha.out.in_features, mha.num_heads, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(mha.qkv.weight)  # (3 D, D)
        layer.in_proj_bias.copy_(mha.qkv.bias)  # (3 D,)
        layer.out_proj.weight.copy_(mha.out.weight)  # (D, D)
        layer.out_proj.bias.copy_(mha.out.bias)  # (D,)
    return layer

"""Right answers to `rope`, written differently."""

import torch

from autograder.checks.encoder import oracles
from solutions import encoder as answers


def refuse_odd(x):
    if x.shape[-1] % 2 == 1:
        raise ValueError("odd")


def angles_of(x, positions, base):
    pairs = torch.arange(x.shape[-1] // 2)
    exponents = 2 * pairs / x.shape[-1]
    powers = base**exponents
    return positions.unsqueeze(-1) / powers


def rope_by_complex_numbers(x, positions, base=10_000.0):
    refuse_odd(x)
    angles = angles_of(x, positions, base).double()
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(-2).to(x.dtype)


def rope_by_rotate_half(x, positions, base=10_000.0):
    """Put the components in the order that language models use, rotate them, and restore the order."""
    refuse_odd(x)
    order = torch.cat([torch.arange(0, x.shape[-1], 2), torch.arange(1, x.shape[-1], 2)])
    angles = angles_of(x, positions, base)
    angles, halves = torch.cat([angles, angles], dim=-1), x[..., order]
    first, second = halves.chunk(2, dim=-1)
    turned = halves * angles.cos() + torch.cat([-second, first], dim=-1) * angles.sin()
    return turned[..., order.argsort()]


def rope_by_neighbours(x, positions, base=10_000.0):
    """Use the second formula of the paper, which combines each component with its neighbour."""
    refuse_odd(x)
    angles = angles_of(x, positions, base).repeat_interleave(2, dim=-1)
    neighbours = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * angles.cos() + neighbours * angles.sin()


def rope_by_matrices(x, positions, base=10_000.0):
    refuse_odd(x)
    angles = angles_of(x, positions, base)
    rows = [torch.stack(row, -1) for row in ((angles.cos(), -angles.sin()), (angles.sin(), angles.cos()))]
    return torch.einsum("...ij,...j->...i", torch.stack(rows, -2), x.unflatten(-1, (-1, 2))).flatten(-2)


def rope_written_into(x, positions, base=10_000.0):
    if x.size(-1) % 2:
        raise ValueError("pairs")
    result, width = torch.zeros_like(x), x.size(-1)
    for pair in range(0, width, 2):
        angle = positions * base ** (-pair / width)
        ahead, across = x[..., pair] * torch.cos(angle), x[..., pair + 1] * torch.sin(angle)
        result[..., pair] = ahead - across
        result[..., pair + 1] = x[..., pair + 1] * torch.cos(angle) + x[..., pair] * torch.sin(angle)
    return result


ROPE = {
    "answer": answers.rope,
    "complex numbers": rope_by_complex_numbers,
    "rotate half, in order": rope_by_rotate_half,
    "neighbours": rope_by_neighbours,
    "matrices, einsum": rope_by_matrices,
    "pair by pair": rope_written_into,
    "oracle": oracles.rope,
}

"""The optimizers of the recipe: Muon for the blocks' matrices, AdamW for the rest."""

import torch
from torch import Tensor, nn

from solutions.training.settings import Settings


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonal steps: every direction of a matrix moves equally far.

    It computes the same as torch.optim.Muon, with two differences. All matrices of one shape are in one batch, so a
    step is a few dozen operations instead of a few hundred. It uses float32, because a T4 has no bfloat16.

    Args:
        groups: Parameter groups. Matrices of a group have one shape, (parts · rows, columns). Each counts as `parts`
            stacked matrices: the projections of queries, keys and values are three.
        lr: Rate. A step changes a matrix by `lr` in each direction, and a tall matrix by √(rows / columns) times as much.
        weight_decay: Share of a matrix that is removed for each unit of the rate.
        momentum: Share of the earlier gradients that is kept.

    Source: Jordan et al. 2024.
    """

    def __init__(self, groups: list[dict], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, parts=1))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Move every matrix."""
        for group in self.param_groups:
            matrices = group["params"]
            gradients = torch.stack([matrix.grad for matrix in matrices])  # (matrices, parts · rows, columns)
            state = self.state[matrices[0]]
            if not state:
                state["momentum"] = torch.zeros_like(gradients)
            state["momentum"].lerp_(gradients, 1 - group["momentum"])
            ahead = gradients.lerp(state["momentum"], group["momentum"])
            steps = orthogonalise(ahead.unflatten(1, (group["parts"], -1)))  # (matrices, parts, rows, columns)
            rows, columns = steps.shape[-2:]
            steps = steps.flatten(1, 2) * -group["lr"] * max(1, rows / columns) ** 0.5
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(matrices, list(steps))


def orthogonalise(matrices: Tensor) -> Tensor:
    """Bring all singular values of matrices, (..., rows, columns), near 1 by products. Source: Jordan et al. 2024."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if tall else matrices  # (..., few, many)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):  # as in the source
        gram = x @ x.transpose(-2, -1)  # (..., few, few)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.transpose(-2, -1) if tall else x


def make_optimizers(model: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """Give the matrices of PyTorch's blocks to Muon, and the rest to AdamW. Without Muon, AdamW gets all."""
    groups = _matrices_of(model) if settings.optimizer == "muon" else []
    matrices = {matrix for group in groups for matrix in group["params"]}
    rest = [parameter for parameter in model.parameters() if parameter not in matrices]
    # Tokens, norms and biases do not decay.
    decayed = [parameter for parameter in rest if parameter.ndim > 1 and len(parameter) > 1]
    others = [parameter for parameter in rest if parameter.ndim <= 1 or len(parameter) == 1]
    adamw = torch.optim.AdamW(
        [dict(params=decayed), dict(params=others, weight_decay=0.0)],
        lr=settings.adamw_rate,
        betas=(0.9, 0.99),
        weight_decay=settings.weight_decay,
        fused=True,
    )
    if settings.optimizer == "adamw":
        return [adamw]
    return [Muon(groups, lr=settings.muon_rate, weight_decay=settings.weight_decay), adamw]


def _matrices_of(model: nn.Module) -> list[dict]:
    """Return the matrices of all blocks, in groups of one shape."""
    blocks = model.encoder.blocks
    return [
        dict(params=[block.self_attn.in_proj_weight for block in blocks], parts=3),
        dict(params=[block.self_attn.out_proj.weight for block in blocks]),
        dict(params=[block.linear1.weight for block in blocks]),
        dict(params=[block.linear2.weight for block in blocks]),
    ]

"""Estimate what a T4 would take for an epoch of the recipe."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from solutions.training.fast_vit import scores_of
from solutions.training.optimizers import make_optimizers
from solutions.training.settings import Settings
from solutions.vit import ViT


class Count(TorchDispatchMode):
    """Count the operations that compute numbers (at least one kernel each), and the bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.launches, self.bytes = 0, 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        returns = function._schema.returns
        is_view = bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        if not is_view and "empty" not in str(function):
            self.launches += 1
            tensors = {id(each): each for each in torch.utils._pytree.tree_leaves((arguments, keywords, result))}
            self.bytes += sum(each.nbytes for each in tensors.values() if isinstance(each, Tensor))
        return result


def count_step(settings: Settings) -> dict[str, float]:
    """Count the work of one step of the recipe: launches, floating-point operations and bytes, in float32."""
    model = ViT()
    optimizers = make_optimizers(model, settings)
    images, labels = torch.randn(settings.batch_size, 1, 28, 28), torch.zeros(settings.batch_size, dtype=torch.long)
    with FlopCounterMode(display=False) as flops, Count() as count:
        F.cross_entropy(scores_of(model, images), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        for optimizer in optimizers:
            optimizer.step()
    return dict(launches=count.launches, operations=flops.get_total_flops(), bytes=count.bytes)


def estimate_t4(settings: Settings) -> dict[str, float]:
    """Estimate the seconds of an epoch of 55,000 images on a T4 from counted work. It was not measured.

    A step has three parts: launches, products and bytes. It takes at least as long as the slowest part, and at most
    the sum of all three. A launch takes 32 µs: on a machine with an H100, a step with 128 images, divided by its
    launches, took as long. The other rates are assumed: a quarter of the T4's 65 TFLOP/s in float16 (the matrices are
    small), and 60 % of its 320 GB/s.
    """
    counted = count_step(settings)
    parts = dict(
        launches=counted["launches"] * 32e-6,
        operations=counted["operations"] / (0.25 * 65e12),
        bytes=counted["bytes"] / (0.6 * 320e9),
    )
    steps = math.ceil(55000 / settings.batch_size)
    seconds = dict(low=steps * max(parts.values()), high=steps * sum(parts.values()))
    return dict(
        batch_size=settings.batch_size,
        **counted,
        **{f"{name}_seconds": steps * part for name, part in parts.items()},
        **seconds,
    )

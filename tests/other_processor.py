"""Simulate another processor: PyTorch and NumPy round differently there, and dropout draws other numbers.

Sums, exponentials and matrix products differ between processors in the last digit. PyTorch's dropout differs too: on Intel
it draws with MKL, on others with its own generator.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROUNDING = (
    *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "dot", "mm", "mv", "convolution", "cumsum"),
    *("mean", "norm", "linalg_vector_norm", "prod", "std", "sum", "var", "logsumexp"),
    *("cos", "erf", "exp", "gelu", "gelu_backward", "log", "pow", "rsqrt", "sigmoid", "sin", "tanh"),
    *("_log_softmax", "_softmax", "_softmax_backward_data", "native_layer_norm", "native_layer_norm_backward"),
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
)
DROPPING = ("bernoulli", "bernoulli_", "native_dropout")


class other_processor(TorchDispatchMode):
    """Compute as on another processor in a with block; each seed gives a different one.

    The results of the operations above change by about a rounding error, unless they are the same on every processor.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple = (), keywords: dict | None = None
    ) -> Any:
        """Run the operation; dropout gets other random numbers."""
        keywords, name = keywords or {}, operation._schema.name.split("::")[1]
        if name in DROPPING and "generator" in {a.name for a in operation._schema.arguments}:
            keywords = keywords | {"generator": self.rng}
        results = operation(*arguments, **keywords)
        if name not in ROUNDING:
            return results
        several = results if isinstance(results, (tuple, list)) else (results,)
        moved = [self._moved(result) for result in several]
        return type(results)(moved) if isinstance(results, (tuple, list)) else moved[0]

    def _moved(self, result: Any) -> Any:
        if not isinstance(result, torch.Tensor) or not result.is_floating_point() or result.numel() == 0:
            return result
        noise = torch.randint(-2, 3, result.shape, generator=self.rng).to(result.dtype) * torch.finfo(result.dtype).eps
        exact = (result * 1024).round() == result * 1024
        return torch.where(exact | ~result.isfinite(), result, result * (1 + noise))

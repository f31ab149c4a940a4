"""Find the parameters of a module by name, and condense their gradients.

The probes use it.
"""

import numpy as np
import torch
from torch import nn


def find_parameter(module, name):
    """Return the parameter of that name, or None; `weight` and `bias` may replace `scale` and `shift`."""
    for word in name.split("."):
        part, other_name = getattr(module, word, None), {"scale": "weight", "shift": "bias"}.get(word)
        module = getattr(module, other_name, None) if part is None and other_name else part
    return module if isinstance(module, nn.Parameter) else None


def find_parameters(module, names):
    """Return the named parameters, and the names of all others. If one is missing and others exist, raise an error."""
    parameters = {name: find_parameter(module, name) for name in names}
    known = {id(parameter) for parameter in parameters.values()}
    others = [name for name, parameter in module.named_parameters() if id(parameter) not in known]
    missing = [name for name, parameter in parameters.items() if parameter is None]
    if missing and others:
        wanted = missing[0].partition(".")[0]
        if wanted != missing[0] and not hasattr(module, wanted):
            parts = dict.fromkeys(name.partition(".")[0] for name in others)
            raise AttributeError(f"there is no `{wanted}`; the module has {', '.join([*parts][:6])}")
        raise AttributeError(
            f"there is no parameter {missing[0]}, but there are other parameters: {', '.join(others[:6])}"
        )
    return parameters, others


def is_unchanged(left, given):
    """Whether a module left its input as it was given; only the type of the numbers may differ."""
    return np.bool_(np.array_equal(left, np.asarray(given, left.dtype)))


def summary_of(gradient):
    """Condense a gradient to two numbers: its length, and 1 plus its cosine with the vector 1, cos 1, cos 2 …"""
    if gradient is None:
        return 0.0, 1.0
    entries = gradient.detach().flatten().double()
    along, length = torch.cos(torch.arange(entries.numel())).double(), float(entries.norm())
    return length, 1 + float(entries @ along / along.norm()) / max(length, 1e-12)

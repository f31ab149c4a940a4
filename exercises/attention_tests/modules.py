"""What the questions to modules share: tensors, calls, parameters and gradients."""

import numpy as np
import torch
from torch import Tensor, nn


def tensor(array):
    """Return an array as a tensor; float32 and float64 become PyTorch's default type."""
    made = torch.from_numpy(np.array(array))
    return made.to(torch.get_default_dtype()) if made.dtype in (torch.float32, torch.float64) else made


def call(function, *arguments):
    """Call a module or a function; raise an error if its result is no tensor."""
    result = function(*arguments)
    if not isinstance(result, Tensor):
        name = "forward" if isinstance(function, nn.Module) else "the function"
        raise TypeError(f"{name} returned {type(result).__name__}; expected a tensor")
    return result


def run(module, x, training=False):
    """Run a module in one of its modes."""
    module.train(training)
    with torch.no_grad():
        return call(module, x.clone()).double().numpy()  # an answer may change its input


def equal(one, other, rtol=1e-4):
    """Are two outputs equal, up to rounding?"""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=rtol, atol=1e-5))


def numbers_of(model):
    """Return a copy of all parameters in one row."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def quarters(number):
    """Round a random number to quarters, so that it is the same for everyone."""
    return np.round(4 * np.array(float(number))) / 4


def cut(images, labels, sizes):
    """Cut images and labels into batches of these sizes."""
    sizes = list(map(int, sizes))
    return list(zip(tensor(images).split(sizes), tensor(labels).long().split(sizes)))


def fill(parameters, seed, size=1.0):
    """Fill named parameters with numbers that depend only on their name, their shape and the seed."""
    draw = np.random.RandomState()  # seeded again for each parameter: a new generator takes ten times as long
    with torch.no_grad():
        for name, parameter in parameters.items():
            draw.seed([seed, *name.encode()])
            numbers = draw.normal(size=tuple(parameter.shape))
            parameter.copy_(tensor(size * numbers / np.sqrt(parameter.shape[-1])))


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


def slopes(output):
    """Return the gradient with which a backward pass starts: 1, cos 0.7, cos 1.4 …"""
    angles = 0.7 * torch.arange(output.numel(), dtype=torch.float64)  # in float32, an angle of 84 is off by 4e-6
    return torch.cos(angles).to(output).reshape(output.shape)


def backward(output):
    """Run a backward pass; without a graph all gradients stay 0."""
    if output.requires_grad:
        (output * slopes(output)).sum().backward()


def learn(module, parameters, x, *others):
    """Run a module forward and backward.

    Args:
        module: The module.
        parameters: Its parameters, or None for missing ones.
        x: The array from which its gradient is asked.
        others: Further arguments.

    Returns:
        The array after the run, the number of learned numbers, and output, gradient of x and two numbers for the gradient
        of each parameter; these three are NaN if the run changed x in place, because x then has no gradient.
    """
    source = tensor(x).requires_grad_()
    given = source.clone()
    output = call(module, given, *others)
    unchanged = torch.equal(given, source)
    if unchanged:
        backward(output)
    gradient = torch.zeros_like(source) if source.grad is None else source.grad
    summaries = np.array([summary_of(None if p is None else p.grad) for p in parameters])
    learned = np.float64(sum(p.numel() for p in module.parameters() if p.requires_grad))
    blank = 1.0 if unchanged else np.nan
    return given.detach().numpy(), learned, blank * output.detach().numpy(), blank * gradient.numpy(), blank * summaries


def summary_of(gradient):
    """Condense a gradient to two numbers: its length, and 1 plus its cosine with the vector 1, cos 1, cos 2 …"""
    if gradient is None:
        return 0.0, 1.0
    entries = gradient.detach().flatten().double()
    along, length = torch.cos(torch.arange(entries.numel())).double(), float(entries.norm())
    return length, 1 + float(entries @ along / along.norm()) / max(length, 1e-12)

"""Ask the programs of exercise 5: run them on small models and arrays, and read what they return.

`ask_…` runs next to the program and returns arrays; `read_…` makes the results that are compared. Without one, what is
returned is compared as it is.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from attention_tests import modules
from attention_tests.compare import of_one_shape
from attention_tests.descent import Descent
from attention_tests.modules import call, cut, numbers_of, quarters, tensor

Batches = Iterable[tuple[Tensor, Tensor]]  # the programs get such batches


def fill(module, seed, before=""):
    """Fill parameters and buffers, also of modules in a list, with numbers that depend only on their name and the seed."""
    parts = *module.named_parameters(), *module.named_buffers()
    modules.fill({f"{before}{name}": parameter for name, parameter in parts}, seed)
    for name, value in vars(module).items():
        for index, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
            fill(part, seed, f"{name}.{index}.")
    return module


def weighted(output):
    """Sum the entries of an output with the weights 1, cos 1, cos 2 …"""
    return (output * torch.cos(torch.arange(output.numel())).to(output).reshape(output.shape)).sum()


class Spy(nn.Module):
    """Behaves differently in its two modes; counts its calls, and notes whether a graph is built."""

    def __init__(self):
        super().__init__()
        self.calls, self.graph = 0, False

    def forward(self, x):
        """Return x, or 2 x in training."""
        self.calls, self.graph = self.calls + 1, self.graph or x.requires_grad
        return 2 * x if self.training else x


def small_model(pixels, classes, seed):
    """Make a linear classifier with a spy after it."""
    return fill(nn.Sequential(nn.Flatten(), nn.Linear(pixels, classes), Spy()), seed)


def ask_clipped(train, images, labels, sizes, longest, seed):
    """Train for two epochs; return their losses, and the parameters at the end."""
    batches = cut(images, labels, sizes)
    model = small_model(batches[0][0][0].numel(), 4, seed).eval()  # the program must set the mode itself
    optimizer = Descent(model.parameters(), 0.1)
    losses = [float(train(model, batches, optimizer, longest)) for _ in range(2)]
    return np.array(losses), numbers_of(model)


def ask_model(make, sizes, x, seed):
    """Return the counts of all and of learned numbers, output, input gradient, and the output in training."""
    model, source = fill(make(**sizes), seed).eval(), tensor(x).requires_grad_()
    output = model(source)
    weighted(output).backward()
    learned = [0 if parameter.grad is None else parameter.numel() for parameter in model.parameters()]
    trained = model.train()(source)
    counts = np.float64(len(numbers_of(model))), np.float64(sum(learned))
    return *counts, output.detach(), source.grad, trained.detach()


def read_model(measured, *_):
    """Return what is compared: instead of the output in training, whether it equals the other output."""
    *others, output, gradient, trained = measured
    return *others, output, gradient, np.bool_(torch.allclose(*of_one_shape(trained, output), rtol=1e-3, atol=1e-4))


def ask_head(make, sizes, tokens, seed):
    """Return two evaluations, the gradient of one, and what training does to many images of ones with equal weights."""
    head, tokens = fill(make(**sizes), seed).eval(), tensor(tokens).requires_grad_()
    weighted(head(tokens)).backward()
    width = sizes["width"]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # so a message has the same numbers when the cell runs again
        once, again = head(tokens), head(tokens.repeat(200, 1, 1))
        for parameter in head.parameters():
            parameter.fill_(1 / width if parameter.ndim == 2 else 0.0)
        many = head.train()(torch.ones(4000, 2, width))
    return once, again, tokens.grad, many


def read_head(measured, sizes, tokens, *_):
    """Return whether two evaluations are equal, the output and the gradient of one, and what training does.

    For training, return the mean, the spread in units of the right spread, and whether the result is as in evaluation.
    """
    (once, again, gradient, many), width, dropped = measured, sizes["width"], sizes["dropout"]
    same = len(once) != len(tokens)  # then the shape is wrong, and says more
    if not same and again.shape == (200 * len(once), *once.shape[1:]):
        rows = again.unflatten(0, (200, -1))
        same = torch.allclose(once.expand_as(rows), rows, rtol=1e-3, atol=1e-4)  # a larger batch rounds differently
    blank = 1 if same else torch.nan  # random results cannot be compared
    spread = many.std(dim=0).mean() / (dropped / (1 - dropped) / width) ** 0.5
    nothing = np.bool_(torch.allclose(many, torch.ones_like(many)))
    return np.bool_(same), blank * once, blank * gradient, quarters(many.mean()), quarters(spread), nothing


def ask_function(function, *arguments):
    """Call a function with numbers and with arrays, which become tensors. Return its result."""
    given = [tensor(item) if np.ndim(item) else item for item in arguments]
    result = call(function, *given)
    if not all(torch.equal(mine, tensor(item)) for mine, item in zip(given, arguments) if np.ndim(item)):
        raise ValueError("an argument was changed in place")
    return result.detach()


def ask_evaluation(evaluate, images, labels, sizes, seed):
    """Return the result of an evaluation, the calls of the model, whether a graph was built, and whether gradients stay off."""
    batches = cut(images, labels, sizes)
    model = small_model(batches[0][0][0].numel(), 4, seed)
    try:
        result = evaluate(model, batches)
        off = not torch.is_grad_enabled() or not all(parameter.requires_grad for parameter in model.parameters())
    finally:
        torch.set_grad_enabled(True)
    result = result if isinstance(result, (tuple, list)) else [result]
    return np.array([float(number) for number in result]), model[2].calls, model[2].graph, off


def read_evaluation(measured, images, labels, sizes, *_):
    """Return the result, and three faults: too many calls of the model, a graph, gradients that stay off."""
    result, calls, graph, off = measured
    return result, np.bool_(calls > len(sizes)), np.bool_(graph), np.bool_(off)

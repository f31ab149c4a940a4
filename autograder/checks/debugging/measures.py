"""What the programs of exercise 5 do with small models and arrays, measured where they are: models cannot cross.

Hidden checks send this file to the sandbox, where it is run anew for each call. It decides nothing: it returns what it found.
In the notebook it stands in the set-up cell.
"""

import math  # for the programs
import os  # for the notebook
from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.judging.descent import Descent

Batches = Iterable[tuple[Tensor, Tensor]]


def tensor(array):
    """Return an array as a tensor: numbers in PyTorch's default type, labels and masks in their own."""
    made = torch.tensor(np.array(array))
    return made.to(torch.get_default_dtype()) if made.is_floating_point() else made


def quarters(number):
    """Round what is random a little, so that it is the same for everybody."""
    return np.round(4 * np.array(float(number))) / 4


def fill(module, seed, before=""):
    """Give every parameter numbers that depend on its name and the seed alone, those of modules in a list too."""
    named = {f"{before}{name}": parameter for name, parameter in module.named_parameters()}
    with torch.no_grad():
        for name, parameter in named.items():
            numbers = np.random.RandomState([seed, *name.encode()]).normal(size=tuple(parameter.shape))
            parameter.copy_(tensor(numbers / np.sqrt(parameter.shape[-1])))
    for name, value in vars(module).items():
        for index, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
            fill(part, seed, f"{name}.{index}.")
    return module


def weighted(output):
    """Sum the entries of an output, weighted 1, cos 1, cos 2 …"""
    return (output * torch.cos(torch.arange(output.numel())).to(output).reshape(output.shape)).sum()


class Spy(nn.Module):
    """Behaves differently in its two modes; notes how often it is called, and whether a graph is built."""

    def __init__(self):
        super().__init__()
        self.calls, self.graph = 0, False

    def forward(self, x):
        """Return x, in training twice x."""
        self.calls, self.graph = self.calls + 1, self.graph or torch.is_grad_enabled()
        return 2 * x if self.training else x


def small_model(pixels, classes, seed):
    """Make a linear classifier behind a spy."""
    return fill(nn.Sequential(nn.Flatten(), Spy(), nn.Linear(pixels, classes)), seed)


def cut(images, labels, sizes):
    """Cut images and labels into batches."""
    sizes = [int(size) for size in sizes]
    return list(zip(tensor(images).split(sizes), tensor(labels).split(sizes)))


def numbers_of(model):
    """Return all parameters in one row."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def measure_shuffled(train, images, labels, order, size, seed):
    """Train for two epochs; return the loss of the second, and where the parameters stand."""
    images, labels, order = tensor(images), tensor(labels), tensor(order)
    model = small_model(images[0].numel(), 4, seed).eval()  # as an evaluation may leave it
    optimizer = Descent(model.parameters(), 0.1)
    loss = [train(model, images, labels, optimizer, order, size) for _ in range(2)][-1]
    return np.float64(torch.as_tensor(loss).detach()), numbers_of(model)


def measure_clipped(train, images, labels, sizes, longest, seed):
    """Train for two epochs; return the loss of the second, and where the parameters stand."""
    batches = cut(images, labels, sizes)
    model = small_model(batches[0][0][0].numel(), 4, seed).eval()  # as an evaluation may leave it
    optimizer = Descent(model.parameters(), 0.1)
    loss = [train(model, batches, optimizer, longest) for _ in range(2)][-1]
    return np.float64(torch.as_tensor(loss).detach()), numbers_of(model)


def measure_initialised(initialise, inputs, hidden, outputs):
    """Initialise a model; return the spread of its matrices in units of 1 / √n, at most 2, its biases, whether it is the same."""
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Sequential(nn.Linear(hidden, outputs)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3.0)
    same = initialise(model) is model
    layers = [model[0], model[2][0]]
    spreads = [min(quarters(layer.weight.detach().std() * layer.in_features**0.5), 2.0) for layer in layers]
    biases = torch.cat([layer.bias.detach().abs() for layer in layers])
    return np.array(spreads), np.float64(biases.sum()), np.bool_(same)


def measure_model(make, sizes, x, seed):
    """Return how many numbers a model learns, its output, the gradient of its input, and whether training is the same."""
    model, source = fill(make(**sizes), seed).eval(), tensor(x).requires_grad_()
    output = model(source)
    weighted(output).backward()
    learned = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    same = torch.allclose(model.train()(source), output, rtol=1e-3, atol=1e-4)
    return np.float64(learned), output.detach(), source.grad, np.bool_(same)


def measure_schedule(learning_rate, steps, steps_per_epoch, epochs, highest):
    """Return the learning rate at some steps, in units of the highest."""
    return np.array([float(learning_rate(step, steps_per_epoch, epochs, highest)) / highest for step in steps])


def measure_head(make, sizes, tokens, seed):
    """Return whether evaluation gives the same twice, what it gives, its gradient, and the mean of many images in training."""
    head, tokens = fill(make(**sizes), seed).eval(), tensor(tokens).requires_grad_()
    weighted(head(tokens)).backward()
    with torch.no_grad():
        once, again = head(tokens), head(tokens.repeat(200, 1, 1))
        for parameter in head.parameters():
            parameter.fill_(1 / sizes["width"] if parameter.ndim == 2 else 0.0)
        many = head.train()(torch.ones(4000, 1, sizes["width"]))
    same = torch.allclose(once.repeat(200, 1), again)
    varies = many.std() > 1e-3
    blank = 1 if same else torch.nan  # what is random cannot be compared
    return np.bool_(same), blank * once, blank * tokens.grad, quarters(many.mean()), np.bool_(varies)


def measure_standardise(make, sizes, batches, x):
    """Return what the last of several batches gives in training, and what comes in evaluation then."""
    layer = make(**sizes).train()
    trained = [layer(batch) for batch in tensor(batches)][-1]
    return trained.detach(), layer.eval()(tensor(x)).detach()


def measure_skipping(make, sizes, tokens, width):
    """Return what training makes of a branch: largest number, mean, gradient, whether images are whole; and evaluation."""
    layer, branch = make(**sizes), torch.full((4000, tokens, width), 3.0, requires_grad=True)
    trained = (layer.train()(2 * torch.ones_like(branch), branch) - 2) / 3
    trained.sum().backward()
    trained, evaluated = trained.detach(), layer.eval()(2 * torch.ones_like(branch), branch).detach()
    whole = (trained.amax((1, 2)) == trained.amin((1, 2))).all() and trained.std() > 1e-3
    numbers = quarters(trained.mean()), quarters(3 * branch.grad.mean()), np.bool_(whole)
    return np.float64(trained.max()), *numbers, evaluated[0, 0]


def measure_function(function, *arguments):
    """Return what a function gives for arrays as tensors, and numbers."""
    result = function(*(tensor(item) if np.ndim(item) else item for item in arguments))
    if not isinstance(result, Tensor):
        raise TypeError(f"returned {type(result).__name__}; expected a tensor")
    return result.detach()


class Operations(TorchDispatchMode):
    """Counts PyTorch's operations."""

    count = 0

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        """Carry out an operation."""
        self.count += 1
        return operation(*arguments, **(keywords or {}))


def operations_of(function, tokens):
    """Return how many operations of PyTorch a function carries out."""
    with Operations() as operations:
        function(tokens)
    return operations.count


def measure_work(function, tokens):
    """Return what a function gives for tokens, and whether it takes more operations for more tokens."""
    few, many = (operations_of(function, torch.ones(2, count, 3)) for count in (4, 16))
    return measure_function(function, tokens), np.bool_(many > 1.5 * few)


def measure_evaluation(evaluate, images, labels, sizes, seed):
    """Return what an evaluation gives, whether it calls the model more often than it must, and whether it builds a graph."""
    batches = cut(images, labels, sizes)
    model = small_model(batches[0][0][0].numel(), 4, seed)
    result = evaluate(model, batches)
    result = result if isinstance(result, (tuple, list)) else [result]
    numbers = np.array([float(number) for number in result])
    return numbers, np.bool_(model[1].calls > len(batches)), np.bool_(model[1].graph)

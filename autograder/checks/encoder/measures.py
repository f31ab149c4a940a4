"""Does a stack of repaired blocks keep the size of its activations and gradients, and does it learn?

`autograder build` copies everything below this docstring into the set-up cell of the notebook, before `probes.py`.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def slopes(shape):
    """Return the gradient with which every probe starts its backward pass."""
    angles = 0.7 * torch.arange(int(np.prod(shape)), dtype=torch.float64)  # in float32, an angle of 84 is off by 4e-6
    return torch.cos(angles).to(torch.get_default_dtype()).reshape(tuple(shape))


def steps_of_adam(parameters, rate):
    """Return a function that makes one step of Adam and then deletes the gradients.

    torch.optim is not used because it imports PyTorch's compiler, which takes seconds.
    """
    states = [[p, torch.zeros_like(p), torch.zeros_like(p)] for p in parameters]
    taken = []

    @torch.no_grad()
    def step():
        taken.append(1)
        for parameter, mean, square in states:
            if parameter.grad is None:
                continue
            mean.lerp_(parameter.grad, 0.1)
            square.lerp_(parameter.grad**2, 0.001)
            size = (square / (1 - 0.999 ** len(taken))).sqrt() + 1e-8
            parameter -= rate * mean / (1 - 0.9 ** len(taken)) / size
            parameter.grad = None

    return step


def measure_stream(copies, x):
    """Do activations and gradients keep their order of magnitude through the stack?"""
    copies = nn.ModuleList(copies)
    parameters = [p for p in copies.parameters() if p.requires_grad]
    step = steps_of_adam(parameters, 1e-3)
    goal = slopes(x.shape)
    steps = []
    for _ in range(3):  # a part that starts from 0 has a gradient from the second step on
        y, activations = x.clone().requires_grad_(), []
        for copy in copies:
            activations.append(y)
            y = copy(y)
            y.retain_grad() if y.requires_grad else None
        activations.append(y)
        (y * goal).mean().backward()
        steps.append([float(a.detach().std()) for a in activations])
        sizes = [float(a.grad.norm()) for a in activations]
        reached = all(p.grad is not None and float(p.grad.norm()) > 0 for p in copies.parameters())
        step()
    grown = max(steps[0]) / steps[0][0]  # at most 5 if right, at least 57 if all matrices are N(0, 1)
    return {
        "activations_keep_their_size": np.bool_(grown < 25),
        "gradients_reach_all": np.bool_(reached),
        "gradients_keep_their_size": np.bool_(max(sizes) < 50 * min(sizes)),
    }


def measure_learning(copies, seed):
    """Does a stack with a fixed head learn a small set: does it start near chance, and does its loss fall?"""
    generator = torch.Generator().manual_seed(seed)
    width = copies[0].linear1.in_features
    x, head = torch.randn(32, 5, width, generator=generator), nn.Linear(width, 4)
    labels = torch.arange(32) % 4
    with torch.no_grad():
        head.weight.copy_(torch.randn(4, width, generator=generator) * width**-0.5)
        head.bias.zero_()
    first, second = copies
    parameters = [p for copy in copies for p in copy.parameters() if p.requires_grad]
    step, losses = steps_of_adam(parameters, 3e-3), []
    for _ in range(25):
        loss = F.cross_entropy(head(second(first(x)).mean(dim=1)), labels)
        losses.append(float(loss.detach()))
        near_chance = 0.7 < losses[0] < 8  # chance is ln 4 = 1.39
        if not near_chance:
            break
        loss.backward()
        step()
    return {
        "first_loss_is_near_chance": np.bool_(near_chance),
        "learns": np.bool_(near_chance and losses[-1] < 0.7),
    }

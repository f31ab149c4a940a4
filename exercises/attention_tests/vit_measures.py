"""Ask `train_epoch` and `evaluate`: make models, batches and optimizers next to the answer, and return measurements."""

import numpy as np
import torch
from torch import nn

from attention_tests.descent import Descent
from attention_tests.modules import cut, numbers_of, tensor


class ByMode(nn.Module):
    """Gives twice the output in training, as dropout of 0.5 doubles the numbers that it keeps. It also counts rows."""

    rows = 0  # all instances count together, because an evaluation may work on a copy

    def forward(self, x):
        """Return x / 20, or x / 10 in training: small, so that no gradient of a linear layer is longer than 1."""
        ByMode.rows += len(x)
        return x / 10 if self.training else x / 20


def note_graph(layer, given, output):
    """Note whether a layer's output ever required a gradient."""
    layer.graph = layer.graph or output.requires_grad


def model_by_mode(shape, classes, seed):
    """Make a linear classifier that behaves differently in its two modes, with a batch norm that has buffers."""
    pixels = int(np.prod(shape))
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(pixels, affine=False), ByMode(), nn.Linear(pixels, classes))
    model[-1].graph = False
    model[-1].register_forward_hook(note_graph)
    numbers = np.random.default_rng(seed).normal(size=(classes, pixels + 1)) * 10 / pixels**0.5
    with torch.no_grad():
        model[-1].weight.copy_(tensor(numbers[:, 1:]))
        model[-1].bias.copy_(tensor(numbers[:, 0] / 10))
    return model


def batches_for_test(images, labels, sizes, kind):
    """Cut images and labels into batches: a list, or an iterator, which has no length and can be read once."""
    return cut(images, labels, sizes) if kind == "list" else iter(cut(images, labels, sizes))


def overfit_network(train_epoch, images, labels):
    """Train a small network for 30 epochs on 64 images; return their scores, (64, 5)."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)  # torch.manual_seed seeds all devices, which takes milliseconds
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(images[0].numel(), 48), nn.GELU(), nn.Dropout(0.1), nn.Linear(48, 5)
        )
        optimizer = Descent(model.parameters(), 0.1, 0.9)
        for _ in range(30):
            train_epoch(model, list(zip(images.split(16), labels.split(16))), optimizer)
        model.eval()
        with torch.no_grad():
            return model(images)


class NotedSteps(Descent):
    """Counts the steps that a model takes in training mode, and keeps its parameters after the first one."""

    def __init__(self, model, rate):
        super().__init__(model.parameters(), rate)
        self.model, self.steps, self.first = model, 0, None

    def step(self, closure=None):
        """Take a step, and note it."""
        loss = super().step(closure)
        self.first = numbers_of(self.model) if self.first is None else self.first
        self.steps += self.model.training
        return loss


def ask_training(train_epoch, what, images, labels, sizes, kind, classes, rate, seed):
    """Train a small model for an epoch; return its steps, parameters and mode, or the result, or scores after many epochs."""
    if what == "overfit":
        return {"scores": overfit_network(train_epoch, tensor(images), tensor(labels).long())}
    model = model_by_mode(np.shape(images)[1:], classes, seed).eval()  # the epoch must set the mode itself
    optimizer = NotedSteps(model, rate)
    result = train_epoch(model, batches_for_test(images, labels, sizes, kind), optimizer)
    if what == "means":
        return {"result": result}
    last = numbers_of(model)
    noted = {"steps": optimizer.steps, "first": last if optimizer.first is None else optimizer.first, "last": last}
    return noted | {"training": model.training}


def ask_evaluation(evaluate, what, images, labels, sizes, kind, classes, seed):
    """Evaluate a small model; return the result, or the states before and after an evaluation in each mode."""
    model = model_by_mode(np.shape(images)[1:], classes, seed)
    try:
        if what == "means":
            return {"result": evaluate(model, batches_for_test(images, labels, sizes, kind))}
        weight = model[-1].weight
        weight.grad = torch.cos(torch.arange(weight.numel())).reshape(weight.shape).to(weight)  # the bias gets none
        states = []
        for training in (True, False):
            model.train(training)
            before, ByMode.rows = state_of(model), 0
            evaluate(model, batches_for_test(images, labels, sizes, kind))
            states.append({"before": before, "after": state_of(model), "graph": model[-1].graph, "rows": ByMode.rows})
        return states
    finally:
        torch.set_grad_enabled(True)


def state_of(model):
    """Return what an evaluation could change: numbers by kind, modes, and whether gradients are switched on."""
    weight, bias = model[-1].parameters()
    no_gradient = weight.grad is None or bias.grad is not None
    return {
        "parameters": torch.cat([weight.detach().flatten(), bias.detach()]),
        "buffers": torch.cat([buffer.flatten().double() for buffer in model.buffers()]),
        "gradients": torch.zeros(0) if no_gradient else weight.grad.flatten().clone(),
        "modes": [part.training for part in model.modules()],
        "switched_on": torch.is_grad_enabled() and weight.requires_grad and bias.requires_grad,
    }

"""An optimizer for students' functions. It is also part of the code that the sandbox gets."""

import torch


class Descent(torch.optim.Optimizer):
    """Gradient descent with momentum. PyTorch's own optimizers import PyTorch's compiler, which takes seconds."""

    def __init__(self, parameters, rate, momentum=0.5):
        self.defaults = {"lr": rate, "momentum": momentum}
        self.param_groups, self.state = [{"params": list(parameters)} | self.defaults], {}

    @torch.no_grad()
    def step(self, closure=None):
        """Take a step; the first one follows the gradient alone."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                moved = group["momentum"] * self.state.get(parameter, 0) + parameter.grad
                self.state[parameter] = moved
                parameter -= group["lr"] * moved
        return loss

    def zero_grad(self, set_to_none=True):
        """Remove the gradients, or set them to 0."""
        for parameter in (each for group in self.param_groups for each in group["params"]):
            parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter)

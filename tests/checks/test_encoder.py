"""Exercise 3: what an answer may choose, and the steps that the checks take."""

import pytest
import torch
import torch.nn.functional as F
from attention_tests.repair import steps_of_adam
from conftest import lost
from torch import nn

from autograder.checks.encoder.exercises import EXERCISES
from solutions import encoder as answers


def test_tanh_gelu_passes_and_others_do_not() -> None:
    """Is the tanh approximation of GELU accepted, and a coarser one refused?"""

    def net(activation):
        class FeedForward(answers.FeedForward):
            def forward(self, x):
                return self.contract(self.dropout(activation(self.expand(x))))

        return FeedForward

    assert lost(EXERCISES["FeedForward"], net(lambda x: F.gelu(x, approximate="tanh"))) == {}
    assert lost(EXERCISES["FeedForward"], net(lambda x: x * torch.sigmoid(1.702 * x))) == {"values": "M41"}


def test_steps_are_those_of_adam() -> None:
    """Do our steps move parameters as PyTorch's Adam does, also a parameter without a gradient?"""
    start = torch.tensor([1.0, -2.0, 0.5])
    ours, theirs = ([nn.Parameter(start.clone()), nn.Parameter(start.clone())] for _ in range(2))
    step, adam = steps_of_adam(ours, 0.01), torch.optim.Adam(theirs, lr=0.01)
    for power in range(1, 6):
        for parameters in (ours, theirs):
            (parameters[0] ** power).sum().backward()
        step()
        adam.step()
        adam.zero_grad()
        torch.testing.assert_close(ours, theirs)
    assert ours[0].grad is None


@pytest.mark.parametrize("choice", ["eps", "no scale and shift", "tanh"])
def test_repair_may_choose_what_its_text_leaves_open(choice: str) -> None:
    """Does a repaired block pass with another eps, norms without parameters, or the approximation of the GELU?"""

    def repair(block):
        answers.repair(block)
        width = block.attention.embed_dim
        settings = {"eps": {"eps": 1e-4}, "no scale and shift": {"elementwise_affine": False}, "tanh": {}}[choice]
        block.norm_attention, block.norm_feed_forward = (nn.LayerNorm(width, **settings) for _ in range(2))
        if choice == "tanh":
            block.feed_forward[1] = nn.GELU(approximate="tanh")
        return block

    assert lost(EXERCISES["repair"], repair) == {}

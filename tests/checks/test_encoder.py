"""Exercise 3: cases, measures, messages about classes and repairs, and a wrong norm in the sandbox."""

import subprocess
import sys
from collections.abc import Callable

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_tests.compare import outcome
from attention_tests.repair import BrokenBlock, steps_of_adam
from conftest import assignment_of, cases_of, lost
from sample_class import change, fill_in
from torch import nn

from autograder.checks.encoder.exercises import EXERCISES
from autograder.grade.execute import execute
from autograder.grade.repair import repair_notebook
from autograder.imports import ROOT
from autograder.sandbox.host.limits import Limits
from solutions import encoder as answers


def lost_in(name: str, function: Callable) -> dict[str, str | None]:
    """Return the stages in which an answer to an exercise loses its point, with the named mistake."""
    return lost(EXERCISES[name], function)


def test_sizes_differ() -> None:
    """Do images, tokens, heads, width, hidden width and depth all differ wherever an output is compared?"""
    for name in ("EncoderBlock", "Encoder"):
        for _, case in cases_of(EXERCISES[name], 0):
            what, x, *sizes = case.arguments
            if what != "output" or "as many" in case.name or "single" in case.name or "one image" in case.name:
                continue
            numbers = [*np.shape(x), *(size for size in sizes[: 3 if name == "Encoder" else 2])]
            assert len(set(numbers)) == len(numbers), (name, case.name, numbers)


def test_repair_that_returns_another_class_gets_nothing() -> None:
    """Does a repair that returns another class get nothing, whatever that class does?"""

    def repair(block):
        return answers.EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 8)

    assert lost_in("repair", repair).keys() == EXERCISES["repair"].stages.keys()


def test_repair_that_stores_weights_gets_no_point_for_them() -> None:
    """Does a repair fail if it stores the weights of one size?"""
    known = answers.repair(BrokenBlock(48, 4, 80)).state_dict()

    def stored(block):
        answers.repair(block)
        if block.attention.embed_dim == 48:
            block.load_state_dict(known)
        return block

    assert lost_in("repair", stored)["activations"] == "M122"


@pytest.mark.deep
def test_a_wrong_norm_costs_its_own_points_alone() -> None:
    """Do block and encoder use PyTorch's norm in the sandbox if the student's norm is wrong?"""
    assignment = assignment_of("3_encoder")
    notebook = fill_in(assignment.release, assignment.instructor, bonus=True)
    change(notebook, "LayerNorm", "centred.square().mean(dim=-1, keepdim=True)", "x.var(dim=-1, keepdim=True)")
    change(notebook, "repair", "    return block", "    block.norm_attention = nn.Identity()\n    return block")
    submitted = nbformat.writes(notebook).encode()
    repaired = repair_notebook(submitted, assignment.instructor, assignment.release)
    checks = {check.name: check for check in execute(repaired.notebook, 5, Limits()).checks}
    failed = {name: check.mistake for name, check in checks.items() if not check.passed}
    assert failed == {
        "LayerNorm_values": "M35",
        "LayerNorm_edges": "M35",
        "LayerNorm_learning": "M35",
        "repair_block": "M32",
    }


# -------------------------------------------------------------------------------------------------------- the questions


def test_a_class_with_other_names_is_told_so() -> None:
    """Does the error name the missing part, and the parts that are there instead?"""

    class FeedForward(nn.Sequential):
        def __init__(self, width, hidden_width, dropout=0.0):
            super().__init__(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))

    got = outcome(EXERCISES["FeedForward"].of_arrays(FeedForward), ("output", np.ones((1, 2, 3)), 4), ())
    assert got["error"] == "AttributeError"
    assert got["text"] == "there is no `expand`; the module has 0, 2"


def test_a_result_that_is_no_tensor_is_told_so() -> None:
    """Does the error say what the function returned?"""

    class LayerNorm(answers.LayerNorm):
        def forward(self, x):
            return super().forward(x), None

    got = outcome(EXERCISES["LayerNorm"].of_arrays(LayerNorm), ("output", np.ones((2, 3))), ())
    assert "tuple" in got["text"]


def test_nothing_depends_on_the_batch() -> None:
    """Is an answer caught if it normalises over the batch only when the batch is large?"""

    class EncoderBlock(answers.EncoderBlock):
        def forward(self, x, mask=None):
            y = super().forward(x, mask)
            return y - y.mean(dim=0) if len(x) > 3 else y

    assert lost_in("EncoderBlock", EncoderBlock)


def test_tanh_gelu_passes_and_others_do_not() -> None:
    """Is the tanh approximation of GELU accepted, and a coarser one refused?"""

    def net(activation):
        class FeedForward(answers.FeedForward):
            def forward(self, x):
                return self.contract(self.dropout(activation(self.expand(x))))

        return FeedForward

    assert lost_in("FeedForward", net(lambda x: F.gelu(x, approximate="tanh"))) == {}
    assert lost_in("FeedForward", net(lambda x: x * torch.sigmoid(1.702 * x))) == {"values": "M41"}


def test_repair_is_judged_without_the_compiler() -> None:
    """Does the visible test of repair avoid PyTorch's compiler, whose import by torch.optim takes seconds?"""
    program = (
        "import sys\n"
        "from autograder.checks.encoder.exercises import REPAIR, answers\n"
        "for case in REPAIR.visible(None):\n"
        "    assert REPAIR.run(answers.repair, case)['arrays']\n"
        "print('torch._dynamo' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


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


def test_repair_to_tiny_weights_is_not_taken_for_large_ones() -> None:
    """Does a block with weights near 0 lose only the point for activations, with the right name?"""

    def repair(block):
        answers.repair(block)
        for parameter in block.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=1e-4)
        return block

    assert lost_in("repair", repair) == {"activations": "M160"}


def test_repair_leaves_norms_that_normalise() -> None:
    """If a repair draws all vectors again, also scales and shifts of the norms, is this noticed for every seed?"""

    def repair(block):
        answers.repair(block)
        for parameter in block.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter)
        return block

    for seed in range(2):
        with pytest.raises(AssertionError) as caught:
            EXERCISES["repair"].judge_stage("block", repair, seed)
        assert caught.value.mistake == "M110"


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

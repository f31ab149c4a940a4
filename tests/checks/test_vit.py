"""Exercise 4: cases, and the grader's messages about classes and results."""

import numpy as np
import torch
from attention_tests.compare import outcome
from conftest import assignment_of, cases_of, lost

from autograder.checks.vit.exercises import EXERCISES
from solutions import vit as answers


def test_clipping_at_one_does_not_show() -> None:
    """Are all gradients in the cases of `train_epoch` shorter than 1, so that clipping at 1 passes?"""
    longest = 0.0

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            nonlocal longest
            gradients = [p.grad.flatten() for group in self.param_groups for p in group["params"]]
            longest = max(longest, float(torch.cat(gradients).norm()))
            return super().step(closure)

    def train_epoch(model, batches, optimizer):
        return answers.train_epoch(model, batches, Watched(model.parameters(), **optimizer.defaults))

    for _, case in cases_of(EXERCISES["train_epoch"], 3):
        if case.arguments[0] != "overfit":
            EXERCISES["train_epoch"].of_arrays(train_epoch)(*case.arguments)
    assert 0.1 < longest < 1


def test_a_class_with_other_names_is_told_so() -> None:
    """Does the error name the missing parameter, and the parameters that are there instead?"""

    class ViT(answers.ViT):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            self.cls_token = self.class_token
            del self.class_token

    sizes = dict(image_size=4, patch_size=2, channels=1, num_classes=3, width=4, depth=1, num_heads=2, hidden_width=5)
    got = outcome(EXERCISES["ViT"].of_arrays(ViT), ("output", np.ones((1, 1, 4, 4)), sizes), ())
    assert got["error"] == "AttributeError"
    assert "class_token" in got["text"]
    assert "cls_token" in got["text"]


def test_gradients_are_switched_on_after_every_measurement() -> None:
    """Are gradients enabled again after an evaluation that disables them, so that later tests are not spoilt?"""
    wrong = EXERCISES["evaluate"].mistakes()["M146"]
    assert lost(EXERCISES["evaluate"], wrong) == {"unchanged": "M146"}
    assert torch.is_grad_enabled()


def test_images_are_moved_each_by_itself() -> None:
    """Does the notebook's `shift` move each image to every allowed place, and fill only with black?"""
    [given] = [cell.source for cell in assignment_of("4_vit").release.cells if "def moved(" in cell.source]
    namespace: dict = {}
    exec("import math, torch\nimport torch.nn.functional as F\nfrom pathlib import Path\n" + given, namespace)
    black = -0.1307 / 0.3081
    images = torch.full((300, 1, 28, 28), black)
    images[:, 0, 10, 12] = 9.0
    torch.manual_seed(0)
    [(moved, labels)] = namespace["moved"]([(images, torch.arange(300))], 2)
    places = {tuple(place) for place in (moved[:, 0] == 9).nonzero()[:, 1:].tolist()}
    assert places == {(row, column) for row in range(8, 13) for column in range(10, 15)}
    assert set(moved.unique().tolist()) == {torch.tensor(black).item(), 9.0}
    assert torch.equal(labels, torch.arange(300))

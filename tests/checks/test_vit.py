"""Exercise 4: cases, and the grader's messages about classes and results."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_tests.compare import outcome
from conftest import assignment_of, cases_of, lost

from autograder.checks.vit.exercises import EXERCISES
from solutions import vit as answers


def test_sizes_differ() -> None:
    """Do images, channels, sides, patches, classes, width, depth, heads and hidden width of a ViT all differ?"""
    for _, case in cases_of(EXERCISES["ViT"], 0):
        what, _, sizes = case.arguments[:3]
        if what == "output":
            width, tokens = sizes["width"], (sizes["image_size"] // sizes["patch_size"]) ** 2 + 1
            numbers = [
                width,
                tokens,
                *(sizes[name] for name in ("channels", "num_classes", "hidden_width", "num_heads")),
            ]
            assert len(set(numbers)) == len(numbers), (case.name, numbers)


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


@pytest.mark.parametrize(("result", "told"), [(0.5, "float"), ((1.0,), "tuple"), ((torch.ones(3), 1.0), "shapes")])
def test_a_result_that_is_no_pair_of_numbers_is_told_so(result, told: str) -> None:
    """Does the error say what the function returned, and what was expected?"""
    case = next(case for _, case in cases_of(EXERCISES["evaluate"], 0) if case.arguments[0] == "means")
    got = outcome(EXERCISES["evaluate"].of_arrays(lambda model, batches: result), case.arguments, ())
    assert got["error"] == "TypeError"
    assert told in got["text"]


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


def test_train_epoch_says_which_step_is_wrong() -> None:
    """Does a message distinguish wrong first steps, wrong later steps, and steps in another mode?"""

    def epoch(model, batches, optimizer, mode=True, factor=1.0, reset=True):
        model.train(mode)
        for images, labels in batches:
            loss = factor * F.cross_entropy(model(images), labels)
            if reset:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return 0.0, 0.0

    each = EXERCISES["train_epoch"]
    texts = {
        word: str(each.failures(partial(epoch, **change), 0)["steps"])
        for word, change in {
            "steps in training mode: expected": {"mode": False},
            "parameters after the first step": {"factor": 0.3},
            "parameters after the last step": {"reset": False},
        }.items()
    }
    assert {word: word in text for word, text in texts.items()} == dict.fromkeys(texts, True)

"""Exercise 2: properties that one output does not show, PyTorch's layer with our weights, and what an answer may call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import lost
from torch import nn

from autograder.checks.masks import draw_mask
from autograder.checks.multihead.exercises import EXERCISES
from autograder.imports import ROOT
from autograder.judge.mistake import changed_answer
from solutions import multihead as answers

LAYER = "MultiHeadAttention"
ANSWERS = (ROOT / "solutions" / "multihead.py").read_text(encoding="utf-8")


def lost_in(name: str, function: Callable, *own: Callable) -> dict[str, str | None]:
    """Return the stages in which an answer to an exercise loses its point, with the named mistake."""
    return lost(EXERCISES[name], function, 0, *own)


# --------------------------------------------------------------------- what values on one input cannot show


def layer_with(**changes: Callable) -> type:
    """Return the answer with some other methods."""
    return type("MultiHeadAttention", (answers.MultiHeadAttention,), changes)


@pytest.mark.parametrize(
    ("name", "words", "stage", "mistake"),
    [
        # the output is right, but nobody could learn through the weights
        (LAYER, {"_, weights = attend(q, k, v, mask)": "weights = attend(q, k, v, mask)[1].detach()"}, "gradient", ""),
        ("attend", {"weights, v), weights": "weights, v), weights.detach()"}, "edges", ""),
        # dropout is read as the share that is kept, or is always a tenth
        (LAYER, {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout if dropout else 0.0)"}, "dropout", "M99"),
        (LAYER, {"nn.Dropout(dropout)": "nn.Dropout(0.1)"}, "dropout", ""),
        # the values are dropped: sums over many tokens have the same mean and spread
        (LAYER, {"self.dropout(weights), v)": "weights, self.dropout(v))"}, "dropout", "M85"),
        # the layer returns the weights after dropout, as PyTorch's layer does
        (LAYER, {"self.dropout(weights), v)": "(weights := self.dropout(weights)), v)"}, "weights", "M86"),
    ],
)
def test_what_one_output_does_not_show_costs_one_point(name: str, words: dict, stage: str, mistake: str) -> None:
    """Does an answer with one hidden fault lose that point and no other, under the name of a known mistake if there is one?"""
    found = lost_in(name, changed_answer(answers, name, words.items()))
    assert found.keys() == {stage}
    assert mistake in ("", found[stage])


def test_attend_that_checks_masks_of_pairs_alone_loses_one_point() -> None:
    """Is it noticed that an image whose mask hides every key causes no error?"""

    def attend(q, k, v, mask=None):
        if mask is not None and mask.ndim == 2:
            mask = mask | ~mask.any(-1, keepdim=True)
        return answers.attend(q, k, v, mask)

    assert lost_in("attend", attend) == {"edges": "M20"}


def test_attend_that_detaches_queries_loses_one_point() -> None:
    """Is it noticed that a gradient reaches the values, but not the queries?"""
    found = EXERCISES["attend"].failures(lambda q, k, v, mask=None: answers.attend(q.detach(), k, v, mask), 0)
    assert found.keys() == {"edges"}
    assert "no gradient reaches argument 1" in str(found["edges"])


def test_half_precision_is_judged() -> None:
    """Does a softmax that overflows only in half precision lose the point for edges, and no other?"""

    def attend(q, k, v, mask=None):
        if q.dtype == torch.float16:
            exponentials = (q @ k.mT / q.shape[-1] ** 0.5).exp()
            weights = exponentials / exponentials.sum(-1, keepdim=True)
            return weights @ v, weights
        return answers.attend(q, k, v, mask)

    assert lost_in("attend", attend).keys() == {"edges"}


@pytest.mark.parametrize("name", ["attend", "MultiHeadAttention"])
def test_batch_normalised_over_its_members_loses_points(name: str) -> None:
    """Does an answer that depends on the other images of a batch lose points, although it is right for one image?"""

    def centred(x):
        return x - x.mean(dim=0, keepdim=True) * (len(x) > 1)

    def forward(self, x, mask=None, return_weights=False):
        return answers.MultiHeadAttention.forward(self, centred(x), mask, return_weights)

    wrong = {
        "attend": lambda q, k, v, mask=None: answers.attend(q, centred(k) * 1.5, centred(v), mask),
        "MultiHeadAttention": layer_with(forward=forward),
    }
    assert lost_in(name, wrong[name]).keys() >= {"weights", "mask"}


def test_layer_that_returns_no_weights_loses_points() -> None:
    """Does a layer that returns one value instead of output and weights lose the point, without an error of the grader?"""

    def forward(self, x, mask=None, return_weights=False):
        output = answers.MultiHeadAttention.forward(self, x, mask)
        return (output,) if return_weights else output

    assert {"weights", "mask"} <= set(lost_in(LAYER, layer_with(forward=forward)))


def test_parameters_of_other_names_are_told() -> None:
    """Is a layer with other names for its parts told about the names, and not about a missing output projection?"""

    class Layer(nn.Module):
        def __init__(self, width, num_heads, dropout=0.0):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    error = EXERCISES["MultiHeadAttention"].failures(Layer, 0)["values"]
    assert error.mistake is None
    assert "no parameter is called out.weight, out.bias; found proj.weight, proj.bias" in str(error)


@pytest.mark.parametrize("name", ["split_heads", "merge_heads"])
def test_squeezed_result_is_not_called_another_mistake(name: str) -> None:
    """Is a lost axis of length 1 named as a wrong shape? The numbers equal those without a swap."""
    found = EXERCISES[name].failures(lambda *arguments: getattr(answers, name)(*arguments).squeeze(), 0)
    assert found.keys() == {"sizes"}
    assert found["sizes"].mistake is None
    assert "expected shape" in str(found["sizes"])


def test_layer_with_more_than_the_two_linear_layers_is_judged_by_its_numbers() -> None:
    """Does a layer keep its points if it holds more parts, which do not change the requested numbers?"""

    def init(self, width, num_heads, dropout=0.0):
        answers.MultiHeadAttention.__init__(self, width, num_heads, dropout)
        self.softmax, self.identity = nn.Softmax(dim=-1), nn.Identity()

    assert lost_in("MultiHeadAttention", layer_with(__init__=init)) == {}


# ------------------------------------------------------------------------------------------------------- to_torch


def fresh(mha: nn.Module) -> nn.MultiheadAttention:
    """Return a PyTorch layer without copied weights."""
    return nn.MultiheadAttention(mha.qkv.in_features, mha.num_heads, batch_first=True)


class MultiheadAttention(nn.Module):
    """Our layer under the name of PyTorch's."""

    def __init__(self, mha: nn.Module):
        super().__init__()
        self.mha = mha

    def forward(self, query, key, value, average_attn_weights=True):
        q, k, v = (answers.split_heads(part, self.mha.num_heads) for part in self.mha.qkv(query).chunk(3, dim=-1))
        output, weights = answers.attend(q, k, v)
        return self.mha.out(answers.merge_heads(output)), weights


class Wrapped(MultiheadAttention):
    """The same layer under another name."""


@pytest.mark.parametrize(
    ("wrong", "stages"),
    [
        (fresh, {"parameters", "output", "weights"}),
        (lambda mha: mha, {"parameters", "output", "weights"}),
        (Wrapped, {"parameters", "output", "weights"}),
        (MultiheadAttention, {"parameters"}),
    ],
    ids=["fresh", "the same", "wrapped", "under PyTorch's name"],
)
def test_to_torch_that_proves_nothing_gets_no_point(wrong: Callable, stages: set[str]) -> None:
    """Does a new layer without our weights, or our own layer in disguise, lose the points?"""
    assert lost_in("to_torch", wrong).keys() >= stages


def test_to_torch_needs_no_layer_of_the_student() -> None:
    """Is to_torch judged on our layer, so that a broken class of the student costs nothing here?"""

    class Broken(nn.Module):
        def __init__(self, width, num_heads, dropout=0.0):
            raise NotImplementedError

    assert lost_in("to_torch", answers.to_torch, Broken) == {}


def test_to_torch_may_use_attributes_of_the_own_layer() -> None:
    """Does to_torch keep its points if it reads the number of heads from the student's class, under another name?"""

    class Own(answers.MultiHeadAttention):
        def __init__(self, width, num_heads, dropout=0.0):
            super().__init__(width, num_heads, dropout)
            self.n_head = num_heads
            del self.num_heads

    def to_torch(mha):
        mha.num_heads = mha.n_head
        return answers.to_torch(mha)

    assert lost_in("to_torch", to_torch, Own) == {}
    assert lost_in("to_torch", to_torch).keys() == EXERCISES["to_torch"].stages.keys()


# ------------------------------------------------------------------------------------------------------- no cascade


def test_earlier_mistakes_are_not_paid_for_twice() -> None:
    """Is the layer judged with correct functions, although the notebook's own are wrong, and are these restored afterwards?"""
    text = ANSWERS.replace("x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)")
    text = text.replace("scores.softmax(dim=-1)", "scores.softmax(dim=1)")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    own = namespace["attend"]
    assert lost_in("MultiHeadAttention", namespace["MultiHeadAttention"]) == {}
    assert namespace["attend"] is own
    assert lost_in("attend", own).keys() == {"weights", "output", "mask", "edges"}
    assert lost_in("merge_heads", namespace["merge_heads"]).keys() == {"values", "sizes"}


def test_own_helper_with_other_arguments_is_used() -> None:
    """Does the layer keep its points if it calls the notebook's own attend, which takes other arguments than ours?"""
    text = ANSWERS.replace("v: Tensor, mask: Tensor | None = None) -> tuple", "v: Tensor, *, keep, mask=None) -> tuple")
    text = text.replace("attend(q, k, v, mask)", "attend(q, k, v, keep=1, mask=mask)")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    assert lost_in("MultiHeadAttention", namespace["MultiHeadAttention"]) == {}


# -------------------------------------------------------------------------------------------------- cases and mistakes


def test_checks_take_sizes_that_differ() -> None:
    """Does every stage of attend and of the layer have a case in which images, heads, tokens and head width all differ?"""
    for name in ("attend", "MultiHeadAttention"):
        for stage, cases in EXERCISES[name].stages.items():
            sizes = set()
            for case in cases(np.random.default_rng(0)):
                if name == "attend":
                    sizes.add(case.arguments[0].shape)
                elif case.arguments[3] is not None:
                    shape = np.shape(case.arguments[3])
                    images, tokens, width = shape if len(shape) == 3 else case.arguments[3]
                    heads = case.arguments[1]["num_heads"]
                    sizes.add((images, heads, tokens, width // heads))
            assert any(len(set(size)) == 4 for size in sizes), f"{name}, {stage}"


def test_draw_mask_lets_each_query_look_somewhere_and_not_everywhere() -> None:
    """Does each row of a drawn mask show a key and hide one?"""
    mask = draw_mask(np.random.default_rng(0), 50, 4)
    assert mask.any(-1).all()
    assert not mask.all(-1).any()

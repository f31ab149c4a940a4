"""Exercise 2: properties that one output does not show, PyTorch's layer with our weights, and what an answer may call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("name", "old", "new", "stages"),
    [
        # the output is right, but nobody could learn through the weights, or through the queries
        (LAYER, "_, weights = attend(q, k, v, mask)", "weights = attend(q, k, v, mask)[1].detach()", "gradient"),
        ("attend", "weights, v), weights", "weights, v), weights.detach()", "edges"),
        ("attend", 'bhij", q, k)', 'bhij", q.detach(), k)', "edges"),
        # an image whose mask hides every key
        ("attend", "mask[:, None, None, :]", "(mask | ~mask.any(-1, keepdim=True))[:, None, None, :]", "edges M20"),
        # exponentials that overflow only in half precision
        (
            "attend",
            "scores.softmax(dim=-1)",
            "(s := scores.exp() if q.dtype == torch.half else scores.softmax(-1)) / s.sum(-1, True)",
            "edges M3",
        ),
        # axes of length 1 are lost: the numbers equal those without a swap
        ("split_heads", ".transpose(1, 2)", ".transpose(1, 2).squeeze()", "sizes"),
        ("merge_heads", ".flatten(start_dim=2)", ".flatten(start_dim=2).squeeze()", "sizes"),
        # the result depends on the other images
        ("attend", 'bhij", q, k)', 'bhij", q, k - k.mean(0) * (len(k) > 1))', "weights output mask edges"),
        (LAYER, "self.qkv(x)", "self.qkv(x - x.mean(0) * (len(x) > 1))", "values weights mask gradient dropout"),
        (LAYER, "(output, weights) if", "(output,) if", "weights mask"),
        # dropout is read as the share that is kept, or is always a tenth
        (LAYER, "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0.0)", "dropout M99"),
        (LAYER, "nn.Dropout(dropout)", "nn.Dropout(0.1)", "dropout"),
        # the values are dropped: sums over many tokens have the same mean and spread
        (LAYER, "self.dropout(weights), v)", "weights, self.dropout(v))", "dropout M85"),
        # the layer returns the weights after dropout, as PyTorch's layer does
        (LAYER, "self.dropout(weights), v)", "(weights := self.dropout(weights)), v)", "weights M86"),
    ],
)
def test_what_one_output_does_not_show_costs_its_points(name: str, old: str, new: str, stages: str) -> None:
    """Does an answer with one hidden fault lose these points and no others, under the name of a known mistake if there is one?"""
    found = lost_in(name, changed_answer(answers, name, [(old, new)]))
    assert " ".join(word for pair in found.items() for word in pair if word) == stages


def test_parameters_of_other_names_are_told() -> None:
    """Is a layer with other names for its parts told about the names, and not about a missing output projection?"""

    class Layer(nn.Module):
        def __init__(self, width, num_heads, dropout=0.0):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    error = EXERCISES["MultiHeadAttention"].failures(Layer, 0)["values"]
    assert error.mistake is None
    assert "no parameter is called out.weight, out.bias; found proj.weight, proj.bias" in str(error)


def test_layer_with_more_than_the_two_linear_layers_is_judged_by_its_numbers() -> None:
    """Does a layer keep its points if it holds more parts, which do not change the requested numbers?"""
    more = ("self.num_heads = num_heads", "self.num_heads, self.identity = num_heads, nn.Identity()")
    assert lost_in(LAYER, changed_answer(answers, LAYER, [more])) == {}


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


def test_draw_mask_lets_each_query_look_somewhere_and_not_everywhere() -> None:
    """Does each row of a drawn mask show a key and hide one?"""
    mask = draw_mask(np.random.default_rng(0), 50, 4)
    assert mask.any(-1).all()
    assert not mask.all(-1).any()

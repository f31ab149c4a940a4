"""Exercise 2: is every mistake caught and named, does every right answer pass, and can this proof fail?"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import assert_whole, matrix_of
from torch import nn

from autograder.authoring.build import ROOT
from autograder.checks.multihead.exercises import EXERCISES
from autograder.checks.multihead.oracles import with_axes
from autograder.judging import catalogue, exercise
from autograder.judging.compare import outcome
from autograder.judging.exercise import ExerciseInTorch, draw_mask, right_answers_of, seeded
from autograder.judging.kill_matrix import kill_matrix
from autograder.judging.mistake import changed_answer
from solutions import multihead as answers

NAME = "2_multihead"
NAMES = tuple(EXERCISES)
LAYER = "MultiHeadAttention"
RIGHT_ANSWERS = right_answers_of("multihead")
SEEDS = [0, 1]
ANSWERS = (ROOT / "solutions" / "multihead.py").read_text(encoding="utf-8")


def verdicts(name: str, function: Callable, *own: Callable, seed: int = 0) -> dict[str, AssertionError | None]:
    """Judge a function or class by every hidden stage; return the error of each stage, None where it passes."""
    return dict.fromkeys(EXERCISES[name].stages) | EXERCISES[name].failures(function, seed, *own)


def made_in(*names: str) -> Counter[str]:
    """Count the ways of each mistake in some exercises."""
    return Counter(way.split("/")[0] for name in names for way in EXERCISES[name].mistakes())


def lost(name: str, function: Callable, *own: Callable) -> set[str]:
    """Return the stages that fail."""
    return set(EXERCISES[name].failures(function, 0, *own))


# ------------------------------------------------------------------------------------------------- the kill matrix


@pytest.mark.deep
def test_kill_matrix_is_whole() -> None:
    """Is every mutant killed and named, and does every correct answer pass? For other inputs: `autograder mutants`."""
    assert_whole(matrix_of(SEEDS[0], NAME))


@pytest.mark.deep
def test_kill_matrix_has_every_function_and_every_stage() -> None:
    """Does the matrix leave out no mutant, no correct answer, and does every stage fail for some mutant?"""
    matrix = matrix_of(SEEDS[0], NAME)
    assert len(matrix.mutants) == made_in(*NAMES).total() > 200
    assert len(matrix.correct) == sum(map(len, RIGHT_ANSWERS.values())) > 100
    failed = {(v.exercise, stage) for v in matrix.mutants for stage in v.failed}
    assert failed == {(each.name, stage) for each in EXERCISES.values() for stage in each.stages}


def test_mutants_hold_every_mistake_that_applies() -> None:
    """Is there a mutant for each of M6 to M30 that can be made, and for every new one?

    M31 needs a constructor that knows the number of tokens.
    """
    assert {f"M{number}" for number in (*range(6, 31), 71, *range(72, 90), 163, 164)} <= made_in(*NAMES).keys()
    of_layer = made_in("MultiHeadAttention").keys()
    assert {f"M{number}" for number in (*range(6, 14), *range(16, 20), *range(21, 31))} <= of_layer


def test_new_mistakes_keep_every_shape() -> None:
    """Do at least six of the mistakes that are ours alone give, in a layer, the right shapes, so that only numbers tell?"""
    each = EXERCISES["MultiHeadAttention"]
    case = each.stages["weights"](np.random.default_rng(0))[0]

    def shapes(layer: type) -> dict[str, tuple[int, ...]]:
        arrays = outcome(each.probe(layer), case.arguments, ()).get("arrays", {})
        return {name: array.shape for name, array in arrays.items()}

    right = shapes(answers.MultiHeadAttention)
    assert right
    same = {way.split("/")[0] for way, layer in each.mistakes().items() if shapes(layer) == right}
    assert len(same & {f"M{number}" for number in range(72, 90)}) >= 6
    assert {"M6", "M9", "M11", "M21", "M22", "M25", "M27"} <= same


def test_correct_answers_are_many_and_different() -> None:
    """Are there several right answers for each function, a dozen for attend and for the layer, and no two the same?"""
    least = {"attend": 14, "MultiHeadAttention": 20}
    assert RIGHT_ANSWERS.keys() == EXERCISES.keys()
    for name, right in RIGHT_ANSWERS.items():
        assert len(set(right.values())) == len(right) >= least.get(name, 7), name


def test_proof_fails_when_a_stage_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do masks that are not used survive, and does the proof notice, when no check has a mask?"""
    each = EXERCISES["attend"]
    stages = {stage: cases for stage, cases in each.stages.items() if stage in ("weights", "output")}
    known = tuple(mistake for mistake in each.known if mistake.name == "M71")
    fewer = ExerciseInTorch(**{**vars(each), "stages": stages, "known": known})
    monkeypatch.setattr("autograder.judging.kill_matrix.exercises_of", lambda stem: {"attend": fewer})
    assert not kill_matrix(NAME, "multihead", 0).whole


# -------------------------------------------------------------------- known mistakes, made by hand in the answers

# Exercise, what is replaced in the text of the answers, by what, and the mistake that this is: one for each number, written
# from the catalogue, without a look at mistakes.py. This is what notices a mistake that has another's number there.
BY_HAND = [
    ("matmul", '"ik,kj->ij"', '"ik,jk->ij"', "M72"),
    ("attend", "mask[:, None, None, :]", "mask.unsqueeze(1).unsqueeze(-1)", "M78"),
    ("attend", "-torch.inf", "-1e4", "M18"),
    ("matmul_transposed", '"ik,jk->ij"', '"ik,jk->ji"', "M73"),
    ("batched_trace", '"bnn->b"', '"bnm->b"', "M74"),
    ("bilinear", 'torch.einsum("bnd,de,bme->bnm", x, w, y)', 'torch.einsum("bne,bme->bnm", x, y)', "M76"),
    (
        "split_heads",
        "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
        "x.view(images, num_heads, tokens, width // num_heads)",
        "M21",
    ),
    ("split_heads", "num_heads, width // num_heads).transpose(1, 2)", "-1, num_heads).permute(0, 3, 1, 2)", "M81"),
    ("merge_heads", "x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)", "M22"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)", "M6"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=1)", "M25"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-1) / q.shape[-1] ** 0.5", "M7"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k)", "M8"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k) / (q.shape[1] * q.shape[3]) ** 0.5", "M9"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k) / q.shape[-1]", "M10"),
    ("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bhjd->bhij", k, q', "M11"),
    ("attend", '"bhij,bhjd->bhid", weights, v', '"bhij,bhjd->bhid", weights, k', "M13"),
    ("attend", "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -torch.inf)", "M16"),
    ("attend", "masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 1e-9)", "M18"),
    ("attend", "scores.masked_fill(~mask, -torch.inf)", "scores + ~mask * -torch.inf", "M163"),
    ("attend", "mask = mask[:, None]  #", "pass  #", "M19"),
    ("attend", "if empty.any()", "if False", "M20"),
    ("attend", '"bhid,bhjd->bhij", q, k', '"bhid,bgjd->bhij", q, k', "M75"),
    ("attend", '"bhij,bhjd->bhid", weights, v', '"bhij,bhid->bhjd", weights, v', "M77"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-1).softmax(dim=-1)", "M80"),
    ("MultiHeadAttention", "q, k, v = (", "q, v, k = (", "M82"),
    ("MultiHeadAttention", "self.out(merge_heads(mixed))", "merge_heads(mixed)", "M24"),
    ("MultiHeadAttention", "self.out(merge_heads(mixed))", "self.out(merge_heads(mixed)) + x", "M84"),
    ("MultiHeadAttention", "self.qkv(x).chunk(3, dim=-1)", "(x, x, x)", "M12"),
    (
        "MultiHeadAttention",
        "(split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))",
        "self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)",
        "M27",
    ),
    ("MultiHeadAttention", "self.dropout(weights)", "nn.functional.dropout(weights, self.dropout.p)", "M29"),
    (
        "MultiHeadAttention",
        "self.dropout(weights)",
        "weights * (torch.rand_like(weights) > self.dropout.p * self.training)",
        "M30",
    ),
    ("MultiHeadAttention", "self.dropout(weights)", "weights", "M85"),
    ("MultiHeadAttention", "3 * width)", "3 * width, bias=False)", "M83"),
    (
        "MultiHeadAttention",
        "self.num_heads = num_heads",
        "self.num_heads, self.bias = num_heads, nn.Parameter(torch.ones(1))",
        "M164",
    ),
    ("MultiHeadAttention", "(output, weights) if", "(output, weights.mean(dim=1)) if", "M86"),
    ("to_torch", "layer.in_proj_weight.copy_(mha.qkv.weight)", "pass", "M87"),
    ("to_torch", "    return layer", "    return mha", "M88"),
    ("to_torch", ", batch_first=True", "", "M89"),
]


@pytest.mark.parametrize(("name", "old", "new", "mistake"), BY_HAND, ids=[f"{row[0]}-{row[3]}" for row in BY_HAND])
def test_known_mistake_made_by_hand_is_named(name: str, old: str, new: str, mistake: str) -> None:
    """Does a mistake of the catalogue lose points and get its name, when it is made in the text of the answers?"""
    wrong = changed_answer(answers, name, [(old, new)])
    named = {error.mistake for error in verdicts(name, wrong).values() if error}
    assert named - {None} == {mistake}


# --------------------------------------------------------------------- what values on one input cannot show


def layer_with(**changes: Callable) -> type:
    """Return the answer with other methods."""
    return type("MultiHeadAttention", (answers.MultiHeadAttention,), changes)


@pytest.mark.parametrize(
    ("name", "words", "stage", "mistake"),
    [
        # the output is right, and nobody could learn through the weights
        (LAYER, {"_, weights = attend(q, k, v, mask)": "weights = attend(q, k, v, mask)[1].detach()"}, "gradient", ""),
        ("attend", {"weights, v), weights": "weights, v), weights.detach()"}, "edges", ""),
        # dropout is taken for the share that stays, or is always a tenth
        (LAYER, {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout if dropout else 0.0)"}, "dropout", ""),
        (LAYER, {"nn.Dropout(dropout)": "nn.Dropout(0.1)"}, "dropout", ""),
        # dropout of the values: sums over many tokens have the same mean and spread
        (LAYER, {"self.dropout(weights), v)": "weights, self.dropout(v))"}, "dropout", "M85"),
        # the weights after dropout, as PyTorch's layer returns them
        (LAYER, {"self.dropout(weights), v)": "(weights := self.dropout(weights)), v)"}, "weights", "M86"),
    ],
)
def test_what_one_output_does_not_show_costs_one_point(name: str, words: dict, stage: str, mistake: str) -> None:
    """Does an answer that is right but for this lose that point and no other, and get the name of a known mistake?"""
    found = verdicts(name, changed_answer(answers, name, words.items()))
    assert {stage for stage, error in found.items() if error} == {stage}
    assert mistake in ("", found[stage].mistake)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("matmul", lambda a, b: torch.from_numpy(a.detach().numpy() @ b.detach().numpy())),
        ("split_heads", lambda x, h: answers.split_heads(x.data, h)),
        ("merge_heads", lambda x: torch.tensor(answers.merge_heads(x).tolist())),
    ],
)
def test_result_without_a_gradient_gets_no_point(name: str, function: Callable) -> None:
    """Does a function that leaves PyTorch, or detaches, lose its points, and is it told why?"""
    found = verdicts(name, function)
    assert all("no gradient flows back" in str(error) for error in found.values())


def test_attend_that_checks_masks_of_pairs_alone_loses_one_point() -> None:
    """Is it noticed that an image without a key passes without an error?"""

    def attend(q, k, v, mask=None):
        if mask is not None and mask.ndim == 2:
            mask = mask | ~mask.any(-1, keepdim=True)
        return answers.attend(q, k, v, mask)

    found = verdicts("attend", attend)
    assert {stage for stage, error in found.items() if error} == {"edges"}
    assert found["edges"].mistake == "M20"


def test_attend_that_detaches_queries_loses_one_point() -> None:
    """Is it noticed that a gradient reaches the values and not the queries?"""
    found = verdicts("attend", lambda q, k, v, mask=None: answers.attend(q.detach(), k, v, mask))
    assert {stage for stage, error in found.items() if error} == {"edges"}
    assert "no gradient reaches argument 1" in str(found["edges"])


def test_half_precision_is_judged() -> None:
    """Does a softmax that overflows in half precision alone lose the point for the edges, and no other?"""

    def attend(q, k, v, mask=None):
        if q.dtype == torch.float16:
            exponentials = (q @ k.mT / q.shape[-1] ** 0.5).exp()
            weights = exponentials / exponentials.sum(-1, keepdim=True)
            return weights @ v, weights
        return answers.attend(q, k, v, mask)

    assert lost("attend", attend) == {"edges"}


@pytest.mark.parametrize("name", ["attend", "MultiHeadAttention"])
def test_batch_normalised_over_its_members_loses_points(name: str) -> None:
    """Does what depends on the other images of a batch lose points, although one image alone is right?"""

    def centred(x):
        return x - x.mean(dim=0, keepdim=True) * (len(x) > 1)

    def forward(self, x, mask=None, return_weights=False):
        return answers.MultiHeadAttention.forward(self, centred(x), mask, return_weights)

    wrong = {
        "attend": lambda q, k, v, mask=None: answers.attend(q, centred(k) * 1.5, centred(v), mask),
        "MultiHeadAttention": layer_with(forward=forward),
    }
    assert lost(name, wrong[name]) >= {"weights", "mask"}


def test_parameters_of_other_names_are_told() -> None:
    """Is a layer whose parts have other names told so, and not that it has no output projection?"""

    class Layer(nn.Module):
        def __init__(self, width, num_heads, dropout=0.0):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    error = verdicts("MultiHeadAttention", Layer)["values"]
    assert error.mistake is None
    assert "no parameter is called out.weight, out.bias; there is proj.weight, proj.bias" in str(error)


@pytest.mark.parametrize("name", ["split_heads", "merge_heads"])
def test_squeezed_result_is_not_called_another_mistake(name: str) -> None:
    """Is a lost axis of length 1 told as a shape? The numbers are those of a result without a swap."""
    found = verdicts(name, lambda *arguments: getattr(answers, name)(*arguments).squeeze())
    assert found["values"] is None
    assert found["sizes"].mistake is None
    assert "expected shape" in str(found["sizes"])


def test_layer_with_more_than_the_two_linear_layers_is_judged_by_its_numbers() -> None:
    """Does a layer keep its points that holds parts of its own without effect on the numbers asked for?"""

    def init(self, width, num_heads, dropout=0.0):
        answers.MultiHeadAttention.__init__(self, width, num_heads, dropout)
        self.softmax, self.identity = nn.Softmax(dim=-1), nn.Identity()

    assert lost("MultiHeadAttention", layer_with(__init__=init)) == set()


# ------------------------------------------------------------------------------------------------------- to_torch


def fresh(mha: nn.Module) -> nn.MultiheadAttention:
    """Return a layer that nobody copied anything into."""
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
    """The same under a name of its own."""


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
    """Does a new layer without our weights, or our own layer in another dress, lose the points?"""
    assert lost("to_torch", wrong) >= stages


def test_to_torch_needs_no_layer_of_the_student() -> None:
    """Is to_torch judged on a layer of ours, so that a broken class costs nothing here?"""

    class Broken(nn.Module):
        def __init__(self, width, num_heads, dropout=0.0):
            raise NotImplementedError

    assert lost("to_torch", answers.to_torch, Broken) == set()


def test_to_torch_may_use_attributes_of_the_own_layer() -> None:
    """Does a to_torch keep its points that asks the student's own class for its number of heads under another name?"""

    class Own(answers.MultiHeadAttention):
        def __init__(self, width, num_heads, dropout=0.0):
            super().__init__(width, num_heads, dropout)
            self.n_head = num_heads
            del self.num_heads

    def to_torch(mha):
        mha.num_heads = mha.n_head
        return answers.to_torch(mha)

    assert lost("to_torch", to_torch, Own) == set()
    assert lost("to_torch", to_torch) == set(EXERCISES["to_torch"].stages)


# ------------------------------------------------------------------------------------------------------- no cascade


def test_earlier_mistakes_are_not_paid_for_twice() -> None:
    """Is the layer judged with the correct functions in place of wrong ones of the same notebook, and are these put back?"""
    text = ANSWERS.replace("x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)")
    text = text.replace("scores.softmax(dim=-1)", "scores.softmax(dim=1)")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    own = namespace["attend"]
    assert lost("MultiHeadAttention", namespace["MultiHeadAttention"]) == set()
    assert namespace["attend"] is own
    assert lost("attend", own) == {"weights", "output", "mask", "edges"}
    assert lost("merge_heads", namespace["merge_heads"]) == {"values", "sizes"}


def test_own_helper_with_other_arguments_is_used() -> None:
    """Does the layer keep its points when it calls an attend of its own kind, which ours cannot stand in for?"""
    text = ANSWERS.replace("v: Tensor, mask: Tensor | None = None) -> tuple", "v: Tensor, *, keep, mask=None) -> tuple")
    text = text.replace("attend(q, k, v, mask)", "attend(q, k, v, keep=1, mask=mask)")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    assert lost("MultiHeadAttention", namespace["MultiHeadAttention"]) == set()


# ------------------------------------------------------------------------------------------------- unseen answers


def attend_by_outer_products(q, k, v, mask=None):
    """Take differences of scores, as 1 / Σ exp(s_j - s_i), key by key."""
    if mask is not None:
        mask = with_axes(mask)
        if (~mask).all(dim=-1).any():
            raise ValueError("nothing to look at")
    scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) * math.pow(q.size(-1), -0.5)
    scores = scores if mask is None else torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = torch.stack([1 / (scores - scores[..., j : j + 1]).exp().sum(-1) for j in range(k.shape[2])], dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


class LayerAsTorchtune(nn.Module):
    """Reshape to five axes with the heads next to last, and nn.functional's attention or, for weights, the same by hand."""

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % num_heads != 0:
            raise ValueError("must be divisible")
        self.h, self.p = num_heads, dropout
        self.qkv = nn.Linear(in_features=width, out_features=width * 3)
        self.out = nn.Linear(in_features=width, out_features=width)
        nn.init.trunc_normal_(self.qkv.weight, std=0.02)

    def forward(self, x, mask=None, return_weights=False):
        b, n, w = x.shape
        q, k, v = (part.squeeze(2).movedim(2, 1) for part in self.qkv(x).reshape(b, n, 3, self.h, -1).split(1, dim=2))
        if mask is not None:
            mask = with_axes(mask)
        if return_weights:
            bias = 0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
            weights = torch.softmax((q / q.shape[-1] ** 0.5) @ k.mT + bias, dim=-1)
            mixed = F.dropout(weights, self.p, self.training) @ v
        else:
            weights = None
            mixed = F.scaled_dot_product_attention(q, k, v, mask, self.p * self.training)
        out = self.out(mixed.movedim(1, 2).reshape(b, n, w))
        return (out, weights) if return_weights else out


@pytest.mark.parametrize(
    ("name", "function"), [("attend", attend_by_outer_products), ("MultiHeadAttention", LayerAsTorchtune)]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_unseen_correct_answer_keeps_all_points(name: str, function: Callable, seed: int) -> None:
    """Does a correct answer that the checks have never seen pass?

    The first is right in float32; its exponentials of differences overflow in half precision to 1/inf, which is 0.
    """
    errors = {stage: str(error) for stage, error in verdicts(name, function, seed=seed).items() if error}
    assert errors == {}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v, mask=None: RIGHT_ANSWERS["attend"]["where"](q + 1, k, v, mask),
        lambda q, k, v, mask=None: RIGHT_ANSWERS["attend"]["where"](q, k.abs(), v, mask),
        lambda q, k, v, mask=None: RIGHT_ANSWERS["attend"]["where"](q, k.flip(2), v, mask),
        lambda q, k, v, mask=None: RIGHT_ANSWERS["attend"]["where"](q, k, v - v.mean(2, keepdim=True), mask),
    ],
)
def test_unknown_mistake_loses_points_and_gets_no_false_name(wrong: Callable) -> None:
    """Does a mistake that is in no catalogue cost points, and is it not called by another's name?"""
    found = [error for error in verdicts("attend", wrong).values() if error]
    assert found
    assert {error.mistake for error in found} == {None}


def test_search_for_two_mistakes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Are only so many pairs tried on a result that fits nothing, however many there are?"""
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(exercise.Exercise, "_both", lambda self, *pair: tried.append(pair) or wrong)
    wrong = EXERCISES["attend"].mistakes()["M8"]
    with seeded(0), pytest.raises(AssertionError):
        EXERCISES["attend"].judge_stage("mask", lambda q, *rest: RIGHT_ANSWERS["attend"]["where"](q + 1, *rest), 0)
    assert len(tried) == len(set(tried)) == exercise.MAX_PAIRS
    assert all(one.split("/")[0] != other.split("/")[0] for one, other in tried)


# ------------------------------------------------------------------------------------- answers worth nothing, messages


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "garbage",
    [
        lambda *arguments, **keywords: None,
        lambda *arguments, **keywords: 1.0,
        lambda *arguments, **keywords: arguments[0] if arguments else None,
        lambda *arguments, **keywords: torch.zeros(2, 3, requires_grad=True),
        lambda *arguments, **keywords: np.zeros((2, 3)),
        nn.Identity,
        lambda *arguments, **keywords: nn.Linear(4, 4),
    ],
    ids=["None", "a number", "the first argument", "zeros", "an array", "Identity", "Linear"],
)
def test_garbage_gets_no_point(name: str, garbage: Callable) -> None:
    """Does what is no answer fail every stage?"""
    assert lost(name, garbage) == set(EXERCISES[name].stages)


@pytest.mark.parametrize("name", NAMES)
def test_hidden_message_holds_no_expected_numbers(name: str) -> None:
    """Can the expected results not be read from what a hidden check says of any known mistake?"""
    each = EXERCISES[name]
    for stage in list(each.stages)[:2]:
        for mistake, function in list(each.mistakes().items())[::3]:
            try:
                each.judge_stage(stage, function, 0)
            except AssertionError as error:
                seen = "".join(line for line in str(error).splitlines() if not re.match(r"M\d+ \(", line))
                seen = re.sub(r"off by up to \S+?[;.](?!\d)", "", seen)
                seen = re.sub(r"the rows sum to \S+ … \S+\.(?!\d)", "", seen)
                assert not re.search(r"\d\.\d|\.\d|\de|array\(|\nExpected|\ngot", seen), f"{stage}, {mistake}: {seen}"


def test_checks_take_sizes_that_differ() -> None:
    """Has every stage of attend and of the layer a case in which images, heads, tokens and head width all differ?"""
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
    """Has each row of a drawn mask a key to look at, and one to hide?"""
    mask = draw_mask(np.random.default_rng(0), 50, 4)
    assert mask.any(-1).all()
    assert not mask.all(-1).any()


def test_layer_has_the_mutants_of_attend() -> None:
    """Does the layer inherit what can go wrong inside attend, and has every mistake a text?"""
    inner = [f"M{number}" for number in (*range(5, 11), 13, *range(16, 20), 25, 71, 75, 77, 78, 79, 80, 86, 163)]
    attend, layer = made_in("attend"), made_in("MultiHeadAttention")
    inherited = attend - Counter({"M18": 1})  # a fill of -10,000, which shows on scores that no layer gives
    assert all(1 <= inherited[mistake] <= layer[mistake] for mistake in inner)
    assert all("?" in catalogue.QUESTIONS[mistake] for mistake in made_in(*NAMES))

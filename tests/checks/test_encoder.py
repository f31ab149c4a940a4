"""Do the checks of exercise 3 tell every known mistake from every correct answer, and say which it is?"""

import copy
import subprocess
import sys

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import FIRST_SEED_SOON, assert_whole, cases_of, matrix_of
from sample_class import change, fill_in
from torch import nn

from autograder.authoring.build import ROOT
from autograder.boundary.sandbox import Limits
from autograder.checks.encoder.exercises import EXERCISES, measures, probes
from autograder.course.course import Assignment
from autograder.grading.execute import execute
from autograder.grading.grade import load_assignment
from autograder.grading.mend import mend
from autograder.judging import catalogue, compare, exercise
from autograder.judging.compare import judge, outcome
from autograder.judging.exercise import Exercise, right_answers_of
from autograder.judging.mistake import changed_answer
from solutions import encoder as answers
from solutions.encoder import BrokenBlock, MultiHeadAttention

NAME = "3_encoder"
SEEDS = [0, 1]
RIGHT = right_answers_of("encoder")
# M31 and M39, layers over the flattened sequence, cannot be made here: no constructor knows the length of a sequence.
# M19 belongs to the attention, which is given.
APPLY = {
    "LayerNorm": {"M15", "M34", "M35", "M36"},
    "FeedForward": {"M15", "M29", "M30", "M40", "M41", "M83"},
    "EncoderBlock": {"M15", "M16", "M28", "M29", "M30", "M32", "M33", "M34", "M36", "M37", "M38", "M40", "M71"},
    "Encoder": {"M15", "M16", "M38", "M40", "M71"},
    "repair": {"M28", "M32", "M40"},
}
OWN = {f"M{number}" for number in (*range(90, 123), *range(160, 163))} & set(catalogue.TITLES)


def lost(name: str, function, seed: int = 0) -> dict[str, str | None]:
    """Return the stages in which a class or function loses its point, with the mistake that is named."""
    return {stage: error.mistake for stage, error in EXERCISES[name].failures(function, seed).items()}


def made(each: Exercise) -> set[str]:
    """Return the mistakes that can be made in an exercise."""
    return {name.split("/")[0] for name in each.mistakes()}


# ------------------------------------------------------------------------------------------------- the kill matrix


@pytest.mark.deep
def test_kill_matrix_is_whole() -> None:
    """Is every mutant killed and named, and does every correct answer pass? For other inputs: `autograder mutants`."""
    assert_whole(matrix_of(0, NAME))


@pytest.mark.deep
def test_visible_tests_name_every_mutant() -> None:
    """Is each mistake named while the student works, and not only after handing in?"""
    unnamed = [(v.exercise, v.name, v.visible) for v in matrix_of(0, NAME).mutants if v.visible != v.name.split("/")[0]]
    assert unnamed == []


@pytest.mark.deep
def test_every_stage_catches_something() -> None:
    """Does no hidden check pass whatever it gets?"""
    failed = {(v.exercise, stage) for v in matrix_of(0, NAME).mutants for stage in v.failed}
    assert failed == {(e.name, stage) for e in EXERCISES.values() for stage in e.stages}


def test_proof_fails_when_the_checks_are_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a wrong class not killed when the comparison tolerates everything?"""
    wrong = EXERCISES["LayerNorm"].mistakes()["M34"]
    assert lost("LayerNorm", wrong)
    exercise._prepared.cache_clear()
    monkeypatch.setattr(compare, "TOLERANCE", {"rtol": 1e9, "atol": 1e9, "equal_nan": True})
    assert lost("LayerNorm", wrong) == {}
    exercise._prepared.cache_clear()


# ----------------------------------------------------------------------------------- mutants, answers, catalogue


def test_mutants_hold_every_mistake_that_applies() -> None:
    """Is each entry of the catalogue that can be made in an exercise among its mutants?"""
    missing = {name: APPLY[name] - made(e) for name, e in EXERCISES.items()}
    assert not any(missing.values()), missing


def test_catalogue_has_words_for_every_mutant() -> None:
    """Does each mistake have a title and a question, and does each of ours have a mutant?"""
    names = set().union(*map(made, EXERCISES.values()))
    assert names <= set(catalogue.TITLES)
    assert names >= OWN
    assert all("?" in catalogue.QUESTIONS[name] for name in names)


def test_own_mutants_pass_every_shape_test() -> None:
    """Do at least ten mistakes of our own give an output of the right shape, and no error?"""
    keep = set()
    for name in ("LayerNorm", "FeedForward", "EncoderBlock", "Encoder"):
        each = EXERCISES[name]
        arguments = next(case.arguments for _, case in cases_of(each, 0) if case.arguments[0] == "output")
        right = outcome(each.probe(each.oracle), arguments, ())["arrays"]["output"]
        for mistake, wrong in each.mistakes().items():
            got = outcome(each.probe(wrong), arguments, ())
            if "error" not in got and got["arrays"]["output"].shape == right.shape:
                keep.add(mistake.split("/")[0])
    assert len(keep & OWN) >= 10


def test_correct_answers_are_at_least_twelve() -> None:
    """Are there enough correct answers, and no two the same?"""
    assert RIGHT.keys() == EXERCISES.keys()
    for answers_of in RIGHT.values():
        others = [function for name, function in answers_of.items() if name not in ("answer", "oracle")]
        assert len(set(others)) == len(others) >= 5
    assert sum(map(len, RIGHT.values())) >= 5 * 10


FLAGS = {  # what a sound answer is measured as, worked out without the oracle
    "blocks_start_apart": 1,
    "mean_does_not_matter": 1,
    "works_in_float16": 1,
    "training_differs": 1,
    "evaluation_is_plain": 1,
    "mean_of_training": 1,
    "stream_is_whole": 1,
    "x_stays_as_it_was": 1,
    "missing_parameters": 0,
    "other_parameters": 0,
    "same_block": 1,
    "norms_that_work": 1,
    "norms_only_normalise": 1,
    "norms_of_their_own": 1,
    "looks_at_tokens": 1,
    "what_is_kept_is_alike": 1,
    "activations_stay": 1,
    "parameters_fit_their_width": 1,
    "parameters_of_its_own": 1,
    "all_learn": 1,
    "gradients_reach_all": 1,
    "gradients_stay": 1,
    "first_loss_is_near_chance": 1,
    "learns": 1,
}

NUMBERS = {  # what is compared as numbers, or depends on the size of the case
    "output",
    "output_at_first",
    "gradient_of_x",
    "gradients_of_the_parameters",
    "numbers_that_are_learned",
    "share_that_is_dropped",
}


@pytest.mark.parametrize("name", EXERCISES)
def test_oracles_are_measured_as_sound(name: str) -> None:
    """Does no oracle raise, and is each property of PyTorch's own layer what we say it is?"""
    for stage, case in cases_of(EXERCISES[name], 3):
        right = outcome(EXERCISES[name].probe(EXERCISES[name].oracle), case.arguments, ())
        assert "error" not in right, (stage, case.name, right)
        for what, array in right["arrays"].items():
            assert what in FLAGS or what in NUMBERS, what
            assert np.all(array == FLAGS.get(what, array)), (stage, case.name, what, array)


def test_oracles_are_independent_of_the_answers() -> None:
    """Is there nothing of solutions/ in what the answers are compared with?"""
    for name in ("LayerNorm", "FeedForward", "EncoderBlock", "Encoder"):
        kinds = [kind.__module__ for kind in EXERCISES[name].oracle.__mro__]
        assert not any(kind.startswith("solutions") for kind in kinds)
    for file in ("layers.py", "oracles.py"):
        text = (ROOT / "autograder" / "checks" / "encoder" / file).read_text(encoding="utf-8")
        assert "solutions" not in text
        assert "right_answers" not in text


def test_sizes_differ() -> None:
    """Do images, tokens, heads, width, hidden width and depth all differ wherever an output is compared?"""
    for name in ("EncoderBlock", "Encoder"):
        for _, case in cases_of(EXERCISES[name], 0):
            what, x, *sizes = case.arguments
            if what != "output" or "as many" in case.name or "single" in case.name or "one image" in case.name:
                continue
            numbers = [*np.shape(x), *(size for size in sizes[: 3 if name == "Encoder" else 2])]
            assert len(set(numbers)) == len(numbers), (name, case.name, numbers)


def test_expected_results_do_not_depend_on_the_machine() -> None:
    """Are they computed in float64, and is PyTorch's default what it was?"""
    assert torch.get_default_dtype() == torch.float32
    made = EXERCISES["EncoderBlock"].visible_cases()[0]["expected"]["arrays"]["output"]
    assert torch.get_default_dtype() == torch.float32
    assert np.abs(made - made.astype(np.float32)).max() > 0, "no more digits than float32 has"


# -------------------------------------------------------------------- well-known code, adapted to the signatures


class NormOfAnnotatedTransformer(nn.Module):
    """The std is that of a sample, and eps is added to it."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale, self.shift, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift


class NormOfConvNeXt(NormOfAnnotatedTransformer):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + self.eps)
        return self.scale * x + self.shift


class NormOfViTPytorch(NormOfAnnotatedTransformer):
    def forward(self, x):
        variance = torch.var(x, dim=-1, unbiased=False, keepdim=True)
        return (x - torch.mean(x, dim=-1, keepdim=True)) * (variance + self.eps).rsqrt() * self.scale + self.shift


class NetOfD2l(nn.Module):
    """ReLU, and no dropout inside."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand, self.relu, self.contract = (
            nn.Linear(width, hidden_width),
            nn.ReLU(),
            nn.Linear(hidden_width, width),
        )

    def forward(self, x):
        return self.contract(self.relu(self.expand(x)))


class NetOfNanoGPT(nn.Module):
    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(width, hidden_width)
        self.gelu = nn.GELU()
        self.contract = nn.Linear(hidden_width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.expand(x)
        x = self.gelu(x)
        x = self.contract(x)
        x = self.dropout(x)
        return x


class NetOfMinGPT(NetOfNanoGPT):
    """NewGELU."""

    def forward(self, x):
        x = self.expand(x)
        x = 0.5 * x * (1.0 + torch.tanh((2.0 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))
        return self.dropout(self.contract(x))


class BlockOfUvA(nn.Module):
    """Post-norm, as in the tutorial."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.feed_forward = NetOfNanoGPT(width, hidden_width, dropout)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm_attention(x + self.dropout(self.attention(x, mask=mask)))
        return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))


class BlockOfTorchvision(BlockOfUvA):
    """The names of its steps are those of torchvision's EncoderBlock."""

    def forward(self, input, mask=None):
        x = self.norm_attention(input)
        x = self.attention(x, mask)
        x = self.dropout(x)
        x = x + input
        y = self.norm_feed_forward(x)
        y = self.feed_forward(y)
        return x + y


class EncoderOfPyTorch(nn.Module):
    """nn.TransformerEncoder copies one layer."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        layer = answers.EncoderBlock(width, num_heads, hidden_width, dropout)
        self.blocks = nn.ModuleList([copy.deepcopy(layer) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class EncoderOfNanoGPT(nn.Module):
    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.blocks = nn.ModuleList([BlockOfTorchvision(width, num_heads, hidden_width, dropout) for _ in range(depth)])
        self.norm = NormOfConvNeXt(width)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "contract.weight")):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / (2 * depth) ** 0.5)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


def repair_by_apply(block):
    """Start every layer anew as nanoGPT does, and put the norms in."""
    width = block.attention.embed_dim

    def start(part):
        if isinstance(part, nn.MultiheadAttention):
            nn.init.normal_(part.in_proj_weight, std=0.02)
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02)

    block.apply(start)
    for parameter in block.parameters():
        parameter.requires_grad = True
    block.norm_attention = NormOfConvNeXt(width)
    block.norm_feed_forward = NormOfViTPytorch(width)
    block.attention.batch_first = True
    return block


def repair_by_scaling(block):
    """Divide what is there by the root of the inputs, and set the attributes with setattr."""
    for name in ("norm_attention", "norm_feed_forward"):
        setattr(block, name, nn.LayerNorm(block.attention.embed_dim))
    with torch.no_grad():
        for parameter in block.requires_grad_().parameters():
            if parameter.dim() > 1:
                parameter /= parameter.size(1) ** 0.5
    block.attention.batch_first = True
    return block


UNSEEN_CORRECT = [
    ("LayerNorm", NormOfConvNeXt),
    ("LayerNorm", NormOfViTPytorch),
    ("FeedForward", NetOfNanoGPT),
    ("FeedForward", NetOfMinGPT),
    ("EncoderBlock", BlockOfTorchvision),
    ("Encoder", EncoderOfNanoGPT),
    ("repair", repair_by_apply),
    ("repair", repair_by_scaling),
]


@pytest.mark.parametrize(("name", "function"), UNSEEN_CORRECT)
@pytest.mark.parametrize("seed", FIRST_SEED_SOON)
def test_unseen_correct_answer_keeps_all_points(name: str, function, seed: int) -> None:
    """Does a correct answer that the checks have never seen pass, hidden and visible?"""
    assert lost(name, function, seed) == {}
    judge(EXERCISES[name].probe(function), (), EXERCISES[name].visible_cases(), catalogue.MESSAGES)


def repair_with_a_hook(block):
    """Rescale the output, and nothing else."""
    block.register_forward_hook(lambda module, arguments, output: output / output.detach().std())
    return block


def repair_by_another_class(block):
    """Return a sound block of our own."""
    return answers.EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 8)


def repair_in_a_new_block(block):
    """Copy the repaired weights into a new block, and return that."""
    answers.repair(block)
    new = BrokenBlock(block.attention.embed_dim, block.attention.num_heads, block.feed_forward[0].out_features)
    new.load_state_dict(block.state_dict(), strict=False)
    return new


def repair_with_one_seed(block):
    """Seed before drawing: every block gets the same weights."""
    torch.manual_seed(0)
    return answers.repair(block)


UNSEEN_WRONG = [
    ("LayerNorm", NormOfAnnotatedTransformer, {"M35"}),
    ("EncoderBlock", BlockOfUvA, {"M33"}),
    ("Encoder", EncoderOfPyTorch, {"M101"}),
    ("repair", repair_with_a_hook, {"M114"}),
    ("repair", repair_with_one_seed, {"M122"}),
    ("repair", repair_in_a_new_block, {"M121", "M28", "M120"}),
    ("repair", lambda block: block, {"M28", "M32", "M40", "M40+M120"}),
]


@pytest.mark.parametrize(("name", "function", "mistakes"), UNSEEN_WRONG)
def test_unseen_wrong_answer_is_named(name: str, function, mistakes: set[str]) -> None:
    """Does a wrong answer from outside lose points, and is it told why?"""
    assert {found for found in lost(name, function).values() if found} == mistakes


def test_in_place_costs_one_point() -> None:
    """Does a block that changes its input lose the point for that alone?"""

    class EncoderBlock(answers.EncoderBlock):
        def forward(self, x, mask=None):
            x += self.dropout(self.attention(self.norm_attention(x), mask))
            return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))

    assert lost("EncoderBlock", EncoderBlock) == {"learning": "M15"}


def test_post_norm_keeps_the_point_for_dropout() -> None:
    """Is dropout judged whatever the order of norm and sum is?"""
    assert "dropout" not in lost("EncoderBlock", BlockOfUvA)


def test_net_without_dropout_and_gelu_is_named() -> None:
    """Are two mistakes in different stages both named?"""
    assert lost("FeedForward", NetOfD2l) == {"values": "M41", "dropout": "M98"}


def test_repair_that_returns_another_class_gets_nothing() -> None:
    """Does another model not pass, whatever it does?"""
    assert set(lost("repair", repair_by_another_class)) == set(EXERCISES["repair"].stages)


def test_repair_that_stores_weights_gets_no_point_for_them() -> None:
    """Does a repair fail that knows the weights of one size by heart?"""
    known = answers.repair(BrokenBlock(48, 4, 80)).state_dict()

    def stored(block):
        answers.repair(block)
        if block.attention.embed_dim == 48:
            block.load_state_dict(known)
        return block

    assert lost("repair", stored)["activations"] == "M122"


# --------------------------------------------------------------------------- known mistakes, made by hand in the answers

VARIANCE, DROPOUT = "centred.square().mean(dim=-1, keepdim=True)", "self.dropout = nn.Dropout(dropout)"
ADD_ATTENTION = "x = x + self.dropout(self.attention(self.norm_attention(x), mask))"
ADD_NET = "return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))"
SWAPPED = (
    "x = x + self.dropout(self.attention(self.norm_feed_forward(x), mask))\n"
    "        return x + self.dropout(self.feed_forward(self.norm_attention(x)))"
)
BLOCKS = "EncoderBlock(width, num_heads, hidden_width, dropout)"
LIST = f"nn.ModuleList({BLOCKS} for _ in range(depth))"
NORMS = "block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)"
BY_HAND = [  # one for each mistake, or None where no mistake fits
    ("LayerNorm", "x - x.mean(dim=-1, keepdim=True)", "x - x.mean(dim=1 if x.ndim > 1 else 0, keepdim=True)", None),
    ("LayerNorm", "x - x.mean(dim=-1, keepdim=True)", "x", "M91"),
    ("LayerNorm", VARIANCE, "x.var(dim=-1, keepdim=True)", "M35"),
    ("LayerNorm", VARIANCE, "centred.square().sum(dim=-1, keepdim=True) / x.shape[-1]", "M107"),
    ("LayerNorm", "torch.sqrt(variance + self.eps)", "torch.sqrt(variance)", "M105"),
    ("LayerNorm", "torch.sqrt(variance + self.eps)", "(variance + self.eps)", "M92"),
    ("LayerNorm", "self.shift = nn.Parameter(torch.zeros(width))", "self.shift = torch.zeros(width)", "M36"),
    ("FeedForward", "F.gelu", "F.relu", "M41"),
    ("FeedForward", "self.expand(x)", "self.expand(F.dropout(x, self.dropout.p, self.training))", "M166"),
    ("FeedForward", "F.gelu(self.expand(x))", "self.expand(x)", "M96"),
    ("FeedForward", "nn.Linear(hidden_width, width)", "nn.Linear(hidden_width, width, bias=False)", "M83"),
    ("FeedForward", "self.dropout(hidden)", "F.dropout(hidden, self.dropout.p)", "M29"),
    ("FeedForward", "nn.Dropout(dropout)", "nn.Dropout(1 - dropout if dropout else 0)", "M99"),
    ("EncoderBlock", DROPOUT, DROPOUT + "; [nn.init.zeros_(p) for p in self.feed_forward.parameters()]", "M160"),
    ("EncoderBlock", ADD_NET, "return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))", None),
    ("EncoderBlock", ADD_ATTENTION, ADD_ATTENTION.replace("x = x + ", "x = "), "M37"),
    ("EncoderBlock", ADD_ATTENTION, ADD_ATTENTION.replace("x = x + ", "x += "), "M15"),
    ("EncoderBlock", f"{ADD_ATTENTION}  # (B, N, D)\n        {ADD_NET}", SWAPPED, "M161"),
    ("EncoderBlock", ADD_NET, ADD_NET.replace("x + ", "x.detach() + "), "M93"),
    ("EncoderBlock", ", mask))", "))", "M71"),
    ("EncoderBlock", "self.norm_attention(x), mask", "self.norm_attention(x).mT, mask", None),
    ("Encoder", LIST, f"[{BLOCKS} for _ in range(depth)]", "M94"),
    ("Encoder", LIST, LIST.replace("range(depth)", "range(depth - 1)"), "M102"),
    ("Encoder", LIST, LIST.replace(", dropout)", ")"), "M98"),
    ("Encoder", BLOCKS, "EncoderBlock(width, 1, hidden_width, dropout)", "M135"),
    ("Encoder", "return self.norm(x)", "return x", "M90"),
    ("repair", NORMS, "pass", "M32"),
    ("repair", NORMS, "block.norm_attention = block.norm_feed_forward = nn.LayerNorm(width)", "M38"),
    ("repair", "block.attention.batch_first = True", "pass", "M28"),
    ("repair", "parameter.requires_grad_(True)", "pass", "M120"),
    ("repair", "parameter.ndim == 2", "parameter.ndim == 2 and parameter.shape[0] > parameter.shape[1]", "M40"),
]


@pytest.mark.parametrize(("name", "old", "new", "mistake"), BY_HAND)
def test_mistake_made_by_hand_is_named(name: str, old: str, new: str, mistake: str | None) -> None:
    """Does a mistake written into the text of the answers, without a look at the mutants, lose points under its name?"""
    found = lost(name, changed_answer(answers, name, [(old, new)]))
    assert found
    assert mistake is None or {named for named in found.values() if named} == {mistake}


# ------------------------------------------------------------------------------------- the notebook, and the sandbox


@pytest.fixture(scope="module")
def assignment() -> Assignment:
    """The third assignment, built from its sources."""
    return load_assignment(NAME)


@pytest.mark.parametrize("name", EXERCISES)
def test_notebook_names_mistakes_and_lets_answers_pass(assignment: Assignment, name: str) -> None:
    """Does the test cell, with nothing but the set-up cell before it, pass every correct answer and name every mutant?"""
    cells = {cell.id: cell.source for cell in assignment.release.cells}
    namespace: dict = {"__name__": "__main__", "BrokenBlock": BrokenBlock}
    exec(cells["setup"], namespace)
    for function in RIGHT[name].values():
        exec(cells[f"test_{name}"], namespace | {name: function})
    for mistake, function in EXERCISES[name].mistakes().items():
        with pytest.raises(AssertionError) as caught:
            exec(cells[f"test_{name}"], namespace | {name: function})
        assert caught.value.mistake == mistake.split("/")[0]
        assert catalogue.MESSAGES[mistake.split("/")[0]] in str(caught.value)


def test_page_quotes_real_messages(assignment: Assignment) -> None:
    """Are the examples on the page of the exercise what the notebook says to these answers?"""

    class Unbiased(answers.LayerNorm):
        def forward(self, x):
            variance = x.var(dim=-1, keepdim=True)
            return self.scale * (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(variance + self.eps) + self.shift

    def leave_one(block):
        kept = block.attention.out_proj.weight.detach().clone()
        answers.repair(block).attention.out_proj.weight.data.copy_(kept)
        return block

    cells = {cell.id: cell.source for cell in assignment.release.cells}
    namespace: dict = {"__name__": "__main__", "BrokenBlock": BrokenBlock}
    exec(cells["setup"], namespace)
    page = (ROOT / "book" / "3_encoder_exercise.md").read_text(encoding="utf-8")
    for name, wrong in (("LayerNorm", Unbiased), ("repair", leave_one)):
        with pytest.raises(AssertionError) as caught:
            exec(cells[f"test_{name}"], namespace | {name: wrong})
        assert str(caught.value) in page


def test_a_wrong_norm_costs_its_own_points_alone(assignment: Assignment) -> None:
    """Do block and encoder, in the sandbox, stand on PyTorch's norm where the student's is wrong?"""
    notebook = fill_in(assignment.release, assignment.instructor)
    change(notebook, "LayerNorm", VARIANCE, "x.var(dim=-1, keepdim=True)")
    change(notebook, "repair", "    return block", "    block.norm_attention = nn.Identity()\n    return block")
    submitted = nbformat.writes(notebook).encode()
    mended = mend(submitted, assignment.instructor, assignment.release)
    checks = {check.name: check for check in execute(mended.notebook, 5, Limits()).checks}
    failed = {name: check.mistake for name, check in checks.items() if not check.passed}
    assert failed == {
        "LayerNorm_values": "M35",
        "LayerNorm_edges": "M35",
        "LayerNorm_learning": "M35",
        "repair_block": "M32",
    }


# -------------------------------------------------------------------------------------------------------- the probes


def test_a_class_with_other_names_is_told_so() -> None:
    """Does an error say which parameter is missing, and which are there in its place?"""

    class FeedForward(nn.Sequential):
        def __init__(self, width, hidden_width, dropout=0.0):
            super().__init__(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))

    got = outcome(probes.probe_feed_forward(FeedForward), ("output", np.ones((1, 2, 3)), 4), ())
    assert got["error"] == "AttributeError"
    assert "expand.weight" in got["text"]
    assert "0.weight" in got["text"]


def test_a_result_that_is_no_tensor_is_told_so() -> None:
    """Does an error say what came back?"""

    class LayerNorm(answers.LayerNorm):
        def forward(self, x):
            return super().forward(x), None

    got = outcome(probes.probe_layer_norm(LayerNorm), ("output", np.ones((2, 3))), ())
    assert "tuple" in got["text"]


def test_nothing_depends_on_the_batch() -> None:
    """Would an answer be caught that normalises over the batch only when it is large?"""

    class EncoderBlock(answers.EncoderBlock):
        def forward(self, x, mask=None):
            y = super().forward(x, mask)
            return y - y.mean(dim=0) if len(x) > 3 else y

    assert lost("EncoderBlock", EncoderBlock)


def test_tanh_gelu_passes_and_others_do_not() -> None:
    """Is GELU by its tanh approximation accepted, and what is further away not?"""

    def net(activation):
        class FeedForward(answers.FeedForward):
            def forward(self, x):
                return self.contract(self.dropout(activation(self.expand(x))))

        return FeedForward

    assert lost("FeedForward", net(lambda x: F.gelu(x, approximate="tanh"))) == {}
    assert lost("FeedForward", net(lambda x: x * torch.sigmoid(1.702 * x))) == {"values": "M41"}


def test_repair_is_judged_without_the_compiler() -> None:
    """Does the visible test of repair not import PyTorch's compiler, as torch.optim does, which takes seconds?"""
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
    """Do our steps take parameters where PyTorch's Adam takes them, one without a gradient among them?"""
    start = torch.tensor([1.0, -2.0, 0.5])
    ours, theirs = ([nn.Parameter(start.clone()), nn.Parameter(start.clone())] for _ in range(2))
    step, adam = measures.steps_of_adam(ours, 0.01), torch.optim.Adam(theirs, lr=0.01)
    for power in range(1, 6):
        for parameters in (ours, theirs):
            (parameters[0] ** power).sum().backward()
        step()
        adam.step()
        adam.zero_grad()
        torch.testing.assert_close(ours, theirs)
    assert ours[0].grad is None


def test_repair_to_tiny_weights_is_not_taken_for_large_ones() -> None:
    """Does a block of weights near 0 lose the point for weights that fit their width, and is it told nothing wrong?"""

    def repair(block):
        answers.repair(block)
        for parameter in block.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=1e-4)
        return block

    assert lost("repair", repair) == {"activations": "M160"}


def test_repair_leaves_norms_that_normalise() -> None:
    """Is it seen, whatever the seed, when all vectors are drawn anew, scales and shifts of the norms among them?"""

    def repair(block):
        answers.repair(block)
        for parameter in block.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter)
        return block

    for seed in SEEDS:
        with pytest.raises(AssertionError) as caught:
            EXERCISES["repair"].judge_stage("block", repair, seed)
        assert caught.value.mistake == "M110"

"""Do the checks of exercise 4 tell every known mistake from every correct answer, and say which it is?"""

import contextlib
import io
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import assert_whole, cases_of, matrix_of
from torch import nn

from autograder.authoring.build import ROOT
from autograder.checks.vit import probes
from autograder.checks.vit.exercises import EXERCISES
from autograder.course.course import Assignment
from autograder.grading.grade import load_assignment
from autograder.judging import catalogue, compare, exercise
from autograder.judging.compare import judge, outcome
from autograder.judging.exercise import right_answers_of
from autograder.judging.kill_matrix import Matrix
from autograder.judging.mistake import way
from solutions import vit as answers

# M54, M58, M62 and M64 are no mistakes of these functions; of training and its conclusions the chapters speak.
APPLY = {
    "patchify": {"M42", "M43", "M44", "M45"},
    "PatchEmbedding": {"M42", "M43", "M44", "M45"},
    "ViT": {"M42", "M46", "M47", "M48", "M49", "M50", "M51"},
    "train_epoch": {"M51", "M52", "M53", "M55", "M56", "M63"},
    "evaluate": {"M51", "M52", "M55", "M56", "M63"},
    "attention_rollout": {"M15"},
}
OWN = {name for name in catalogue.TITLES if 123 <= int(name[1:]) <= 155}
RIGHT = right_answers_of("vit")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """The kill matrix, made once."""
    return matrix_of(0, "4_vit")


def lost(name: str, function, seed: int = 3) -> dict[str, str | None]:
    """Return the stages in which a class or function loses its point, with the mistake that is named."""
    return {stage: error.mistake for stage, error in EXERCISES[name].failures(function, seed).items()}


def made_in(name: str) -> set[str]:
    """Return the numbers of the mistakes that can be made in an exercise."""
    return {mistake.split("/")[0] for mistake in EXERCISES[name].mistakes()}


# ------------------------------------------------------------------------------------------------- the kill matrix


@pytest.mark.deep
def test_kill_matrix_is_whole(matrix: Matrix) -> None:
    """Is every mutant killed and named, and does every correct answer pass?"""
    assert_whole(matrix)


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(set(EXERCISES) - {"ViT"}))
def test_kill_matrix_is_whole_on_other_inputs(name: str) -> None:
    """Is every mutant killed and named on other inputs too? (ViT's take a while; `autograder mutants` shows them.)"""
    for mistake, function in EXERCISES[name].mistakes().items():
        assert {found for found in lost(name, function).values() if found} == {mistake.split("/")[0]}, mistake
    assert {label: lost(name, function) for label, function in RIGHT[name].items() if lost(name, function)} == {}


@pytest.mark.deep
def test_visible_tests_name_every_mutant(matrix: Matrix) -> None:
    """Is each mistake named while the student works, and not only after handing in?"""
    unnamed = [(v.exercise, v.name, v.visible) for v in matrix.mutants if v.visible != v.name.split("/")[0]]
    assert unnamed == []


@pytest.mark.deep
def test_every_stage_catches_something(matrix: Matrix) -> None:
    """Does no hidden check pass whatever it gets?"""
    failed = {(v.exercise, stage) for v in matrix.mutants for stage in v.failed}
    assert failed == {(e.name, stage) for e in EXERCISES.values() for stage in e.stages}


def test_proof_fails_when_the_checks_are_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a wrong function not killed when the comparison tolerates everything?"""
    wrong = EXERCISES["train_epoch"].mistakes()["M53"]
    assert lost("train_epoch", wrong)
    exercise._prepared.cache_clear()
    monkeypatch.setattr(compare, "TOLERANCE", {"rtol": 1e9, "atol": 1e9, "equal_nan": True})
    assert lost("train_epoch", wrong) == {}
    exercise._prepared.cache_clear()


# ----------------------------------------------------------------------------------- mutants, answers, catalogue


def test_mutants_hold_every_mistake_that_applies() -> None:
    """Is each entry of the catalogue that can be made in an exercise among its mutants?"""
    missing = {name: APPLY[name] - made_in(name) for name in EXERCISES}
    assert not any(missing.values()), missing


def test_catalogue_has_words_for_every_mutant() -> None:
    """Does each mistake have a title and a question, and does each of ours have a mutant?"""
    made = set.union(*map(made_in, EXERCISES))
    assert made <= set(catalogue.TITLES)
    assert made >= OWN
    assert all("?" in catalogue.QUESTIONS[name] for name in made)


def test_correct_answers_are_at_least_twelve() -> None:
    """Are there twelve correct answers of each, beside ours, and no two the same?"""
    for name in EXERCISES:
        others = {label: made for label, made in RIGHT[name].items() if label not in ("answer", "oracle")}
        assert len(set(others.values())) == len(others) >= 10, name
        assert len(RIGHT[name]) >= 12, name


FLAGS = {  # what a sound answer is measured as, worked out without the oracle
    "images_stay_as_they_were": 1,
    "class_token_has_the_first": 1,
    "class_token_has_all": 0,
    "places_matter": 1,
    "images_matter": 1,
    "images_keep_apart": 1,
    "positions_that_count": 1,
    "evaluation_is_plain": 1,
    "encoder_drops": 1,
    "tokens_are_dropped": 1,
    "left_in_training_mode": 1,
    "learns_64_images": 1,
    "parameters_stay": 1,
    "buffers_stay": 1,
    "mode_stays": 1,
    "gradients_stay": 1,
    "gradients_stay_switched_on": 1,
    "graph_is_built": 0,
    "missing_parameters": 0,
    "other_parameters": 0,
}


@pytest.mark.parametrize("name", EXERCISES)
def test_oracles_are_measured_as_sound(name: str) -> None:
    """Does no oracle raise but where an error is due, and is each property what we say it is?"""
    for stage, case in cases_of(EXERCISES[name], 5):
        right = outcome(EXERCISES[name].probe(EXERCISES[name].oracle), case.arguments, ())
        assert ("error" in right) == (case.otherwise == "M123"), (stage, case.name, right)
        for what, array in right.get("arrays", {}).items():
            assert np.isfinite(array).all()
            assert np.all(array == FLAGS.get(what, array)), (stage, case.name, what, array)


def test_oracles_are_independent_of_the_answers() -> None:
    """Is there nothing of solutions/ in what the answers are compared with?"""
    for each in EXERCISES.values():
        assert not each.oracle.__module__.startswith("solutions")
    assert "torchvision" in EXERCISES["ViT"].oracle(depth=1).model.__class__.__module__
    for file in ("oracles.py", "layers.py"):
        assert "solutions" not in (ROOT / "autograder" / "checks" / "vit" / file).read_text(encoding="utf-8")


def test_sizes_differ() -> None:
    """Do images, channels, sides, patches, classes, width, depth, heads and hidden width of a ViT differ from each other?"""
    for _, case in cases_of(EXERCISES["ViT"], 0):
        what, _, sizes = case.arguments[:3]
        if what == "output":
            width, tokens = sizes["width"], (sizes["image_size"] // sizes["patch_size"]) ** 2 + 1
            numbers = [
                sizes["channels"],
                sizes["num_classes"],
                sizes["hidden_width"],
                width,
                tokens,
                sizes["num_heads"],
            ]
            assert len(set(numbers)) == len(numbers), (case.name, numbers)


def test_expected_results_do_not_depend_on_the_machine() -> None:
    """Are they computed in float64, and is PyTorch's default what it was?"""
    assert torch.get_default_dtype() == torch.float32
    made = EXERCISES["PatchEmbedding"].visible_cases()[0]["expected"]["arrays"]["output"]
    assert torch.get_default_dtype() == torch.float32
    assert np.abs(made - made.astype(np.float32)).max() > 0, "no more digits than float32 has"


def test_clipping_at_one_does_not_show() -> None:
    """Are all gradients in the cases of `train_epoch` shorter than 1, so that a student who clips there passes?"""
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
            EXERCISES["train_epoch"].probe(train_epoch)(*case.arguments)
    assert 0.1 < longest < 1


# ------------------------------------------------------------------------- what a step and an evaluation should do


@pytest.fixture
def small() -> tuple[answers.ViT, torch.Tensor, torch.Tensor]:
    """A small ViT with dropout, 64 images of 5 kinds, and their labels."""
    torch.manual_seed(0)
    sizes = dict(
        image_size=6, patch_size=3, num_classes=5, width=16, depth=2, num_heads=2, hidden_width=24, dropout=0.1
    )
    return answers.ViT(**sizes), torch.randn(64, 1, 6, 6), torch.randint(5, (64,))


def test_train_epoch_learns_64_images_by_heart(small) -> None:
    """Does the answer overfit a ViT on 64 images, in batches of unequal size?"""
    model, images, labels = small
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(100):
        answers.train_epoch(model, zip(images.split(15), labels.split(15)), optimizer)
    loss, accuracy = answers.evaluate(model, [(images, labels)])
    assert accuracy > 0.98
    assert loss < 0.2 < math.log(5)


# -------------------------------------------------------------------- well-known code, adapted to the signatures


def patchify_of_uva(x, patch_size):
    """As in the tutorials of the University of Amsterdam."""
    batch, channels, height, width = x.shape
    if height % patch_size or width % patch_size:
        raise ValueError("no")
    x = x.reshape(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    x = x.flatten(1, 2)
    return x.flatten(2, 4)


class EmbeddingOfHuggingFace(nn.Module):
    """It looks at the number of channels too."""

    def __init__(self, *, image_size, patch_size, channels, width):
        super().__init__()
        if image_size % patch_size:
            raise ValueError("no")
        self.image_size, self.num_channels = (image_size, image_size), channels
        patch_size = (patch_size, patch_size)
        self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)

    def forward(self, pixel_values):
        _, num_channels, height, width = pixel_values.shape
        if num_channels != self.num_channels or (height, width) != self.image_size:
            raise ValueError("images of another shape")
        return self.projection(pixel_values).flatten(2).transpose(1, 2)


class ViTOfMinGPT(answers.ViT):
    """Every step on a line of its own."""

    def forward(self, x):
        b = x.size(0)
        x = self.patch_embedding(x)
        x = torch.cat((self.class_token.repeat(b, 1, 1), x), dim=1)
        x = self.dropout(x + self.position_embedding)
        for block in self.encoder.blocks:
            x = block(x)
        x = self.encoder.norm(x)
        return self.head(x[:, 0, :])


def train_as_hugging_face(model, batches, optimizer):
    """zero_grad stands last, and NumPy averages."""
    model.train()
    losses, right, counts = [], 0, []
    for x, y in batches:
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        right += (out.argmax(-1) == y).sum().item()
        counts.append(y.shape[0])
    return float(np.average(losses, weights=counts)), right / sum(counts)


def evaluate_all_at_once(model, batches):
    """Scores are kept and joined."""
    before = model.training
    model.train(False)
    with torch.inference_mode():
        scores, labels = map(torch.cat, zip(*((model(x), y) for x, y in batches)))
    model.train(before)
    return F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).double().mean().item()


def rollout_of_chefer(weights):
    """As in the code of Chefer et al.: all joint attentions are kept."""
    mean = torch.mean(weights, dim=2)
    augmented = mean + torch.eye(mean.shape[-1], dtype=mean.dtype)[None, None]
    augmented = augmented / augmented.sum(dim=-1).unsqueeze(-1)
    joint = torch.zeros(augmented.size(), dtype=mean.dtype)
    joint[0] = augmented[0]
    for n in range(1, len(augmented)):
        joint[n] = torch.matmul(augmented[n], joint[n - 1])
    return joint[-1][:, 0]


UNSEEN_CORRECT = [
    ("patchify", patchify_of_uva),
    ("PatchEmbedding", EmbeddingOfHuggingFace),
    ("ViT", ViTOfMinGPT),
    ("train_epoch", train_as_hugging_face),
    ("evaluate", evaluate_all_at_once),
    ("attention_rollout", rollout_of_chefer),
]


@pytest.mark.parametrize(("name", "function"), UNSEEN_CORRECT)
def test_unseen_correct_answer_keeps_all_points(name: str, function) -> None:
    """Does a correct answer that the checks have never seen pass, hidden and visible?"""
    assert lost(name, function) == {}
    judge(EXERCISES[name].probe(function), (), EXERCISES[name].visible_cases(), catalogue.MESSAGES)


def patchify_of_mae(images, p):
    """The pixels of a patch stand in the order (P, P, C)."""
    h, w, c = images.shape[2] // p, images.shape[3] // p, images.shape[1]
    x = torch.einsum("nchpwq->nhwpqc", images.reshape(images.shape[0], c, h, p, w, p))
    return x.reshape(images.shape[0], h * w, p**2 * c)


def patchify_by_two_windows(x, p):
    """Tensor.unfold puts the windows last; a reshape then joins what does not belong together."""
    if x.shape[2] % p or x.shape[3] % p:
        raise ValueError("no")
    return x.unfold(2, p, p).unfold(3, p, p).reshape(len(x), -1, x.shape[1] * p * p)


class ViTThatPools(ViTOfMinGPT):
    """As simple-vit: the mean of all tokens is read."""

    def forward(self, x):
        x = torch.cat((self.class_token.expand(len(x), -1, -1), self.patch_embedding(x)), dim=1)
        return self.head(self.encoder(self.dropout(x + self.position_embedding)).mean(dim=1))


def train_as_many_do(model, batches, optimizer):
    """The mean of the batches' means, and no mode."""
    total, right, number = 0.0, 0.0, 0
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total, right, number = total + loss.item(), right + (out.argmax(1) == y).float().mean().item(), number + 1
    return total / number, right / number


def rollout_of_jacobgil(weights):
    """Heads fused by their maximum, as an option has it."""
    result = torch.eye(weights.size(-1), dtype=weights.dtype)
    for attention in weights:
        fused = attention.max(dim=1).values + torch.eye(weights.size(-1), dtype=weights.dtype)
        result = torch.matmul(fused / fused.sum(dim=-1, keepdim=True), result)
    return result[:, 0]


UNSEEN_WRONG = [
    ("patchify", patchify_of_mae, {"M45"}),
    ("patchify", patchify_by_two_windows, {"M44"}),
    ("ViT", ViTThatPools, {"M132"}),
    ("train_epoch", train_as_many_do, {"M52"}),
    ("attention_rollout", rollout_of_jacobgil, {"M147"}),
]


@pytest.mark.parametrize(("name", "function", "mistakes"), UNSEEN_WRONG)
def test_unseen_wrong_answer_is_named(name: str, function, mistakes: set[str]) -> None:
    """Does a wrong answer from outside lose points, and is it told why?"""
    assert {found for found in lost(name, function).values() if found} == mistakes


EYE, ENCODER = " + torch.eye(weights.shape[-1]).to(weights)", "Encoder(depth, width, num_heads, hidden_width, dropout)"
BY_HAND = [
    ("patchify", ".permute(0, 2, 4, 1, 3, 5)", ".permute(0, 4, 2, 1, 3, 5)", "M124"),
    ("patchify", ".permute(0, 2, 4, 1, 3, 5)", ".permute(0, 2, 4, 3, 5, 1)", "M45"),
    ("patchify", ".flatten(3).flatten(1, 2)", ".flatten(1, 2)", "M127"),
    ("PatchEmbedding", ".flatten(2).transpose(1, 2)", ".flatten(2)", "M125"),
    ("PatchEmbedding", ", stride=patch_size", "", "M129"),
    ("ViT", "[class_token, patches]", "[patches, class_token]", "M49"),
    ("ViT", " + self.position_embedding", "", "M46"),
    ("ViT", "self.dropout(tokens)", "tokens", "M134"),
    ("ViT", " + self.position_embedding", ".mul(self.position_embedding)", "M169"),
    ("ViT", "tokens[:, 0]", "F.dropout(tokens[:, 0], self.dropout.p, self.training)", "M167"),
    ("PatchEmbedding", "stride=patch_size", "stride=patch_size, groups=1 if width % channels else channels", "M154"),
    ("train_epoch", "model.train()", "optimizer = torch.optim.SGD(model.train().parameters(), 0.01)", "M168"),
    ("ViT", ENCODER, ENCODER.replace(", dropout", ""), "M98"),
    ("ViT", ENCODER, ENCODER.replace("depth", "6"), "M102"),
    ("ViT", "nn.Parameter(torch.zeros(1, 1, width))", "torch.zeros(1, 1, width)", "M50"),
    ("ViT", "self.head(tokens[:, 0])", "self.head(tokens[:, 0]).softmax(dim=-1)", "M51"),
    ("train_epoch", "        optimizer.zero_grad()\n", "", "M53"),
    ("train_epoch", "        optimizer.step()\n", "", "M136"),
    ("train_epoch", "loss.detach() * len(labels)", "loss.detach()", "M63"),
    ("train_epoch", "float(right) / count", "100 * float(right) / count", "M141"),
    ("evaluate", "    model.eval()\n", "", "M52"),
    ("evaluate", "    model.train(training)\n", "", "M144"),
    ("attention_rollout", "block @ rollout", "rollout @ block", "M150"),
    ("attention_rollout", f"{EYE}) / 2", ")", "M148"),
    ("attention_rollout", f"{EYE}) / 2", f"{EYE})", "M149"),
    ("attention_rollout", "rollout[:, 0]", "rollout[:, :, 0]", "M151"),
]


@pytest.mark.parametrize(("name", "old", "new", "mistake"), BY_HAND)
def test_mistake_made_by_hand_is_named(name: str, old: str, new: str, mistake: str) -> None:
    """Does a mistake written into the answer, without a look at the list of mistakes, lose points under its name?"""
    found = lost(name, EXERCISES[name].changed(way(name, old, new)))
    assert {named for named in found.values() if named} == {mistake}


# ------------------------------------------------------------------------------------- the notebook, and the sandbox


@pytest.fixture(scope="module")
def assignment() -> Assignment:
    """The fourth assignment, built from its sources."""
    return load_assignment("4_vit")


def setup_of(assignment: Assignment) -> tuple[dict, dict[str, str]]:
    """Return the names that the set-up cell defines, and the sources of all cells."""
    cells = {cell.id: cell.source for cell in assignment.release.cells}
    namespace: dict = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(cells["setup"], namespace)
    return namespace, cells


@pytest.mark.parametrize("name", EXERCISES)
def test_notebook_names_mistakes_and_lets_answers_pass(assignment: Assignment, name: str) -> None:
    """Does the test cell, with nothing but the set-up cell before it, pass correct answers and name mutants?"""
    namespace, cells = setup_of(assignment)
    with contextlib.redirect_stdout(io.StringIO()):
        for function in RIGHT[name].values():
            exec(cells[f"test_{name}"], namespace | {name: function})
    for mistake, function in EXERCISES[name].mistakes().items():
        with pytest.raises(AssertionError) as caught:
            exec(cells[f"test_{name}"], namespace | {name: function})
        assert caught.value.mistake == mistake.split("/")[0]
        assert catalogue.MESSAGES[mistake.split("/")[0]] in str(caught.value)


def test_page_quotes_real_messages(assignment: Assignment) -> None:
    """Are the examples on the page of the exercise what the notebook says to these answers?"""

    def by_reshape(images, patch_size):
        return images.reshape(len(images), -1, images.shape[1] * patch_size**2)

    def without_eval(model, batches):
        model.eval, kept = lambda: model, model.eval
        try:
            return answers.evaluate(model, batches)
        finally:
            model.eval = kept

    namespace, cells = setup_of(assignment)
    page = (ROOT / "book" / "4_vit_exercise.md").read_text(encoding="utf-8")
    for name, wrong in (("patchify", by_reshape), ("evaluate", without_eval)):
        with pytest.raises(AssertionError) as caught:
            exec(cells[f"test_{name}"], namespace | {name: wrong})
        assert str(caught.value) in page


# -------------------------------------------------------------------------------------------------------- the probes


def test_a_class_with_other_names_is_told_so() -> None:
    """Does an error say which parameter is missing, and which are there in its place?"""

    class ViT(answers.ViT):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            self.cls_token = self.class_token
            del self.class_token

    sizes = dict(image_size=4, patch_size=2, channels=1, num_classes=3, width=4, depth=1, num_heads=2, hidden_width=5)
    got = outcome(probes.probe_vit(ViT), ("output", np.ones((1, 1, 4, 4)), sizes), ())
    assert got["error"] == "AttributeError"
    assert "class_token" in got["text"]
    assert "cls_token" in got["text"]


@pytest.mark.parametrize(("result", "told"), [(0.5, "float"), ((1.0,), "tuple"), ((torch.ones(3), 1.0), "shapes")])
def test_a_result_that_is_no_pair_of_numbers_is_told_so(result, told: str) -> None:
    """Does an error say what came back, and what was expected?"""
    case = next(case for _, case in cases_of(EXERCISES["evaluate"], 0) if case.arguments[0] == "means")
    got = outcome(probes.probe_evaluate(lambda model, batches: result), case.arguments, ())
    assert got["error"] == "TypeError"
    assert told in got["text"]


def test_gradients_are_switched_on_after_every_measurement() -> None:
    """Does an evaluation that switches gradients off not spoil the tests behind it?"""
    wrong = EXERCISES["evaluate"].mistakes()["M146"]
    assert lost("evaluate", wrong) == {"unchanged": "M146"}
    assert torch.is_grad_enabled()

"""Does the training script keep its promises? It runs on generated images and digits, without MNIST and GPU."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import typer
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner, Result

from solutions.training import train as training
from solutions.training.data import Data, Split, load_digits, normalise
from solutions.training.fast_vit import scores_of
from solutions.training.optimizers import Muon, make_optimizers
from solutions.training.settings import Settings
from solutions.training.train import augment, train
from solutions.vit import ViT, evaluate

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32, six blocks deep, sums in another order
SHORT = Settings(epochs=3, batch_size=16, dropped_share=0.5, dropped_until=0.5)


def draw_split(count: int, seed: int = 0) -> Split:
    """Draw images of 256 grey levels, and unrelated classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 1, 28, 28), generator=generator) / 255
    return Split(normalise(images), torch.randint(0, 10, (count,), generator=generator))


TRAINING, VALIDATION = draw_split(41), draw_split(13, seed=1)  # the last batch has 9 images
run = partial(train, training=TRAINING, validation=VALIDATION)


def without_clocks(curve: list) -> list[dict]:
    """Return a curve without its times, which never repeat."""
    return [asdict(epoch) | {"seconds": 0, "cpu_seconds": 0} for epoch in curve]


def last(runs) -> tuple[dict, list]:
    """Return the parameters at the end of a run, and its curve without the times, which never repeat."""
    *_, (model, curve) = runs
    return model.state_dict(), without_clocks(curve)


def random_model() -> ViT:
    """Draw a model without parameters of 0 or 1, so that each one matters."""
    torch.manual_seed(2)
    model = ViT()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


# ---- the model's work


def test_scores_equal_the_models() -> None:
    """Does the efficient computation give the model's scores and gradients, with a last block for one token?"""
    model, split, gradients = random_model(), draw_split(5), []
    for scores in (model(split.images), scores_of(model, split.images)):
        gradients.append(torch.autograd.grad(F.cross_entropy(scores, split.labels), list(model.parameters())))
    torch.testing.assert_close(scores_of(model, split.images), model(split.images), **CLOSE)
    for (name, _), ours, theirs in zip(model.named_parameters(), *gradients):
        torch.testing.assert_close(ours, theirs, **CLOSE, msg=lambda message, name=name: f"{name}: {message}")
    with FlopCounterMode(display=False) as counted:
        scores_of(model, split.images)
    # Two operations for each product: patches, five whole blocks, the last one for the class token alone, and the head.
    linear, attention = 2 * (192 + 64 + 128 + 128) * 64, 2 * 2 * 17 * 64
    last = 17 * 2 * 128 * 64 + 2 * (64 + 64 + 128 + 128) * 64 + attention
    assert counted.get_total_flops() == 5 * (16 * 2 * 49 * 64 + 5 * 17 * (linear + attention) + last + 2 * 64 * 10)


def test_scores_of_some_patches() -> None:
    """Does a dropped patch have no effect, and does each kept one keep its position?"""
    model, images, kept = random_model(), draw_split(5).images, torch.tensor([14, 3, 8])
    tokens = model.patch_embedding(images)[:, kept] + model.position_embedding[:, 1 + kept]
    first = (model.class_token + model.position_embedding[:, :1]).expand(5, -1, -1)
    expected = model.head(model.encoder(torch.cat([first, tokens], dim=1))[:, 0])
    torch.testing.assert_close(scores_of(model, images, kept), expected, **CLOSE)


# ---- optimizer and schedule


def test_muon_equals_torch() -> None:
    """Does Muon move wide, square and tall matrices, two to a parameter, as torch.optim.Muon moves each of them alone?"""
    torch.manual_seed(3)
    ours = [[nn.Parameter(torch.randn(shape)) for _ in range(3)] for shape in ((10, 12), (14, 7), (24, 5))]
    stacked = [matrix for group in ours for matrix in group]
    theirs = [nn.Parameter(half.detach().clone()) for matrix in stacked for half in matrix.chunk(2)]
    settings = dict(lr=0.1, weight_decay=0.2, momentum=0.9)
    groups = [dict(params=group, parts=2) for group in ours]
    optimizers = Muon(groups, **settings), torch.optim.Muon(theirs, **settings)
    for _ in range(4):
        for matrix in theirs:
            matrix.grad = torch.randn_like(matrix)
        for mine, first, second in zip(stacked, theirs[::2], theirs[1::2], strict=True):
            mine.grad = torch.cat([first.grad, second.grad])
        for optimizer in optimizers:
            optimizer.step()
    for mine, first, second in zip(stacked, theirs[::2], theirs[1::2], strict=True):
        # PyTorch works in bfloat16, which keeps 2 to 3 digits of four steps of size 0.1
        torch.testing.assert_close(mine, torch.cat([first, second]), rtol=0, atol=0.02)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_every_parameter_has_one_optimizer(optimizer: str) -> None:
    """Does one optimizer move each parameter, and are only matrices pulled towards 0, not norms and biases?"""
    model = ViT()
    optimizers = make_optimizers(model, Settings(optimizer=optimizer))
    groups = [group for each in optimizers for group in each.param_groups]
    moved = [parameter for group in groups for parameter in group["params"]]
    assert len(moved) == len(set(moved)) == len(list(model.parameters()))
    thirds = [parameter for group in groups if group.get("parts") == 3 for parameter in group["params"]]
    packed = [value for name, value in model.named_parameters() if "in_proj_weight" in name]
    assert set(thirds) == (set(packed) if optimizer == "muon" else set())  # queries, keys and values are three matrices
    decayed = {parameter for group in groups if group["weight_decay"] for parameter in group["params"]}
    assert {parameter.ndim for parameter in decayed} == {2, 4}


@pytest.mark.parametrize("decay", [True, False])
def test_rate_reaches_the_optimizers(decay: bool) -> None:
    """Does each optimizer's rate rise linearly to its peak and fall along a cosine, or stay there, and never reach 0?"""
    settings = replace(SHORT, muon_rate=0.02, adamw_rate=0.003, warmup=1 / 3, decay=decay)
    seen = {"Muon": [], "AdamW": []}
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: seen[type(optimizer).__name__].append({g["lr"] for g in optimizer.param_groups})
    )
    list(run(settings))  # 9 steps
    hook.remove()
    shares = [1 / 3, 2 / 3, *(1 + np.cos(np.pi * decay * np.arange(7) / 7)) / 2]
    for name, peak in (("Muon", 0.02), ("AdamW", 0.003)):
        np.testing.assert_allclose([list(rates) for rates in seen[name]], [[peak * share] for share in shares])


def test_gradient_is_clipped() -> None:
    """Is the complete gradient at each step no longer than the settings allow, and sometimes as long?"""

    def norms(clip: float) -> list[float]:
        seen = []
        hook = register_optimizer_step_pre_hook(
            lambda optimizer, *_: seen.append(
                math.hypot(*(float(p.grad.norm()) for g in optimizer.param_groups for p in g["params"]))
            )
        )
        list(run(replace(SHORT, optimizer="adamw", clip=clip)))
        hook.remove()
        return seen

    assert max(norms(1e9)) > 0.5
    np.testing.assert_allclose(norms(0.25), 0.25, rtol=1e-4)


# ---- augmentation


@pytest.mark.parametrize("flip", [False, True])
def test_augment_turns_moves_and_mirrors(flip: bool) -> None:
    """Is each image turned, moved and, on request, mirrored by an amount of its own, within the limits?"""
    axis = torch.arange(29.0) - 14
    images = torch.stack(torch.meshgrid(axis, axis, indexing="xy")).repeat(200, 1, 1, 1)  # each pixel holds its x and y
    before = images.clone()
    made = augment(images, shift=3.0, rotation=15.0, flip=flip, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(images, before)
    centre = made[:, :, 14, 14]  # (200, 2): x and y of the place that the pixel in the middle shows
    right, down = made[:, :, 14, 15] - centre, made[:, :, 15, 14] - centre  # (200, 2) each
    determinants = right[:, 0] * down[:, 1] - right[:, 1] * down[:, 0]
    torch.testing.assert_close(determinants.abs(), torch.ones(200), rtol=0, atol=1e-4)  # no scale
    assert 70 < (determinants < 0).sum() < 130 if flip else (determinants > 0).all()
    assert (down[:, 1] > 0.9).all()  # nothing is upside down
    degrees, moved = right[:, 1].asin().rad2deg(), centre.abs()
    assert degrees.abs().max() < 15 + 1e-3 and degrees.max() > 13 and degrees.min() < -13
    assert moved.max() < 3 + 1e-3 and (centre.amax(0) > 2.5).all() and (centre.amin(0) < -2.5).all()
    assert len(set(centre[:, 0].tolist())) == len(set(degrees.tolist())) == 200
    assert (made[:, 0, 14, 0].abs() > 10).all()  # the border is repeated


# ---- runs


@pytest.mark.parametrize("settings", [SHORT, replace(SHORT, dropped_until=0.0, dropout=0.3)])
def test_resumed_run_equals_uninterrupted(settings: Settings, tmp_path: Path) -> None:
    """Does a run that is stopped after each epoch end with the same parameters and curve, to the last bit?"""
    parameters, curve = last(run(settings))
    for epochs in (1, 2, 3):
        runs = run(settings, checkpoint=tmp_path / "run.ckpt")
        *_, (model, so_far) = (next(runs) for _ in range(1 if epochs == 1 else 2))
        assert len(so_far) == epochs
        runs.close()  # the session is lost
    assert without_clocks(so_far) == curve
    for name, value in model.state_dict().items():
        assert torch.equal(value, parameters[name]), name
    assert len(list(run(settings, checkpoint=tmp_path / "run.ckpt"))) == 1  # nothing is left to do
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_resume_refuses_another_run(tmp_path: Path) -> None:
    """Are a checkpoint with other settings or images, whose difference is named, and a file of another kind refused?"""
    path = tmp_path / "run.ckpt"
    next(run(SHORT, checkpoint=path))
    with pytest.raises(ValueError, match=r"run\.ckpt belongs to a run with clip=1\.0 and not 2\.0: delete it"):
        next(run(replace(SHORT, clip=2.0), checkpoint=path))
    other_images = replace(TRAINING, images=TRAINING.images + 0.1), replace(TRAINING, labels=TRAINING.labels.flip(0))
    for others in (*other_images, TRAINING.part(torch.arange(40))):
        with pytest.raises(ValueError, match=r"run\.ckpt belongs to a run on other images: delete it"):
            next(train(SHORT, others, VALIDATION, checkpoint=path))
    for content in (b"", b"no checkpoint", path.read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"run\.ckpt holds no run .*: delete it, or name another file"):
            next(run(SHORT, checkpoint=path))
    torch.save(ViT().state_dict(), path)
    with pytest.raises(ValueError, match="holds no run"):
        next(run(SHORT, checkpoint=path))


@pytest.mark.parametrize("changes", [dict(seed=1), dict(shift=1.0)])
def test_another_run_ends_elsewhere(changes: dict) -> None:
    """Does another seed or shift change the parameters?"""
    (one, _), (other, _) = last(run(SHORT)), last(run(replace(SHORT, **changes)))
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_epoch_means_are_over_images() -> None:
    """Are loss and accuracy means over all images, each used once, with a last batch of another size?"""
    still = replace(SHORT, epochs=1, muon_rate=1e-30, adamw_rate=1e-30, shift=0.0, rotation=0.0, dropped_until=0.0)
    ((model, (epoch,)),) = run(still)
    expected = evaluate(model, [(TRAINING.images, TRAINING.labels)])
    np.testing.assert_allclose((epoch.loss, epoch.accuracy), expected, rtol=1e-5)
    expected = evaluate(model, [(VALIDATION.images, VALIDATION.labels)])
    np.testing.assert_allclose((epoch.validation_loss, epoch.validation_accuracy), expected, rtol=1e-5)
    model.dropout.p = 0.5  # for training alone
    np.testing.assert_allclose(training.loss_and_accuracy(model, VALIDATION, batch_size=5), expected, rtol=1e-5)
    training.loss_and_accuracy(model.eval(), VALIDATION)
    assert not model.training


def test_patches_are_dropped_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Are half of the patches dropped in the first half of the steps, different ones each time, and none afterwards?"""
    seen, original = [], training.scores_of
    monkeypatch.setattr(
        training, "scores_of", lambda model, images, kept=None: seen.append(kept) or original(model, images, kept)
    )
    list(run(replace(SHORT, epochs=2)))  # 2 epochs of 3 steps
    counts = [16 if kept is None else len(set(kept.tolist())) for kept in seen]
    assert counts == [8, 8, 8, 16, 16, 16]
    assert len({tuple(kept.tolist()) for kept in seen[:3]}) == 3


@pytest.mark.parametrize(
    "capability, expected",
    [((6, 1), torch.float16), ((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)],
)
def test_precision_follows_the_hardware(
    monkeypatch: pytest.MonkeyPatch, capability: tuple, expected: torch.dtype
) -> None:
    """Is float16 chosen up to a T4, bfloat16 from an A100 on, float32 on a CPU?"""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert training.choose_precision(torch.device("cuda")) is expected
    assert training.choose_precision(torch.device("cpu")) is torch.float32


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_mixed_precision_learns(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype) -> None:
    """Does a run with 16-bit products, with the scaler for float16, end near the run with 32 bits?"""
    settings = replace(SHORT, muon_rate=1e-3, adamw_rate=1e-3)
    _, curve = last(run(settings))
    monkeypatch.setattr(training, "choose_precision", lambda device: precision)
    _, rounded = last(run(settings))
    # 16 bits keep two to three digits
    np.testing.assert_allclose([e["loss"] for e in rounded], [e["loss"] for e in curve], rtol=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_run_on_a_gpu() -> None:
    """Does a run on a GPU end near that on a CPU?"""
    settings = replace(SHORT, epochs=1, muon_rate=1e-4, adamw_rate=1e-4, shift=0.0, rotation=0.0, dropped_until=0.0)
    (_, (epoch,)), (_, (expected,)) = *run(settings, device="cuda"), *run(settings)
    np.testing.assert_allclose(epoch.validation_loss, expected.validation_loss, rtol=0.05)


# ---- settings, data and the command


def call(command: Callable, *arguments: object) -> Result:
    """Call a command as a person does."""
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_command_writes_weights_and_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do weights and record hold the run and its results, and is the test set read only on request, at the end?"""
    test = load_digits().test
    data = [
        Data("digits", draw_split(40), draw_split(10), each) for each in (range(347), test)
    ]  # a range has a length alone
    monkeypatch.setattr(training, "load_images", lambda *_: data.pop(0))
    weights, record = tmp_path / "vit.pt", tmp_path / "runs" / "run.json"
    options = ["--epochs", 2, "--weights", weights, "--record", record, "--device", "cpu"]
    for change in ("clip=3", "decay=false", "optimizer=adamw", "batch_size=64"):
        options += ["--set", change]
    assert call(training.main, *options).exit_code == 0
    assert json.loads(record.read_text())[0]["test_accuracy"] is None
    assert call(training.main, *options, "--test").exit_code == 0
    model = ViT()
    model.load_state_dict(torch.load(weights, weights_only=True))
    (written,) = json.loads(record.read_text())
    assert written["settings"] == asdict(Settings(epochs=2, clip=3.0, decay=False, optimizer="adamw", batch_size=64))
    assert [epoch["number"] for epoch in written["curve"]] == [1, 2]
    expected = evaluate(model, [(test.images, test.labels)])
    np.testing.assert_allclose((written["test_loss"], written["test_accuracy"]), expected, rtol=1e-5)
    place = written["data"], written["precision"], written["machine"]["torch"]
    assert place == ("digits", "float32", torch.__version__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--weights", "there"), "there cannot be written .*: name another place"),
        (("--record", "file/run.json"), "file/run.json cannot be written"),
        (("--checkpoint", "file/run.ckpt"), "file/run.ckpt cannot be written"),
        (("--checkpoint", "file"), "file holds no run"),
        (("--device", "gpu"), "the device must be auto, cpu or"),
        (("--set", "hidden_width=0"), "hidden_width must be greater than 0, got 0"),
        (("--set", "clip=nan"), "clip must be greater than 0, got nan"),
        (("--set", "warmup=1"), r"warmup must be at least 0 and less than 1, got 1\.0"),
        (("--set", "shift=-2"), r"shift must not be negative, got -2\.0"),
        (("--set", "num_heads=5"), "num_heads must divide the width, got 5 and 64"),
        (("--set", "optimizer=sgd"), "optimizer must be muon or adamw, got sgd"),
        (("--set", "clop=2"), "no setting is called 'clop'"),
        (("--set", "seed=1.5"), "seed must be of type int, got '1.5'"),
        (("--set", "architecture=cnn"), "architecture cnn needs adamw"),
        (
            ("--set", "architecture=rnn", "--set", "optimizer=adamw"),
            "one of vit, cnn, mlp, decoder, einsum, loop, M6, M7, M9, M25, got rnn",
        ),
        (("--image-size", "0"), "greater than or equal to 1"),
        (("--threads", "-1"), "greater than or equal to 0"),
        (("--seed", str(2**63)), "less than or equal to 9223372036854775807"),
    ],
)
def test_command_refuses_before_it_trains(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error that would end or lose a run reported in one line before the first step?"""
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("file").write_text("a text")
    monkeypatch.setattr(training, "load_images", lambda *_: Data("digits", TRAINING, VALIDATION, VALIDATION))
    monkeypatch.setattr(training, "scores_of", None)  # a step would fail
    refused = call(training.main, "--epochs", 1, *arguments)
    assert refused.exit_code == 2
    assert re.search(message, re.sub(r"[\s│]+", " ", refused.output))
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file"}

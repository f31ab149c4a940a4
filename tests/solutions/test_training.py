"""Does the training script keep its promises? It runs on generated images and digits, without MNIST and GPU."""

import inspect
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

from solutions.training import recipe as training
from solutions.training.data import Data, Split, load_digits
from solutions.training.fast_vit import scores_of
from solutions.training.optimizers import Muon, make_optimizers
from solutions.training.recipe import augment, rate_at, train
from solutions.training.settings import Settings
from solutions.vit import ViT, evaluate

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32, six blocks deep, sums in another order
SHORT = Settings(epochs=3, batch_size=16, dropped_share=0.5, dropped_until=0.5)


def draw_split(count: int, seed: int = 0) -> Split:
    """Draw images and unrelated classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 1, 28, 28, generator=generator)
    return Split(images, torch.randint(0, 10, (count,), generator=generator))


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
    """Does Muon move a tall, a wide and a square matrix as torch.optim.Muon does, over several steps?"""
    torch.manual_seed(3)
    shapes = [(12, 5), (5, 12), (7, 7)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(matrix.detach().clone()) for matrix in ours]
    settings = dict(lr=0.1, weight_decay=0.2, momentum=0.9)
    optimizers = Muon([dict(params=[matrix]) for matrix in ours], **settings), torch.optim.Muon(theirs, **settings)
    for _ in range(4):
        for mine, other in zip(ours, theirs):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for mine, other in zip(ours, theirs):
        # PyTorch works in bfloat16, which keeps 2 to 3 digits of four steps of size 0.1
        torch.testing.assert_close(mine, other, rtol=0, atol=0.02)


def test_muon_takes_parts_apart() -> None:
    """Are three stacked matrices moved as three separate ones, and several of one shape as if each were alone?"""
    torch.manual_seed(4)
    stacked = [nn.Parameter(torch.randn(3 * 6, 4)) for _ in range(2)]
    alone = [nn.Parameter(part.detach().clone()) for matrix in stacked for part in matrix.split(6)]
    for matrix in stacked:
        matrix.grad = torch.randn_like(matrix)
    for part, gradient in zip(alone, torch.cat([matrix.grad for matrix in stacked]).split(6)):
        part.grad = gradient.clone()
    Muon([dict(params=stacked, parts=3)], lr=0.1).step()
    Muon([dict(params=[matrix]) for matrix in alone], lr=0.1).step()
    torch.testing.assert_close(torch.cat(list(stacked)), torch.cat(alone))


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


def test_rate_rises_then_falls() -> None:
    """Does the rate rise linearly to its peak and fall along a cosine, and is it above 0 at every step?"""
    settings, steps = Settings(warmup=0.2), 50
    rates = [rate_at(step, steps, settings) for step in range(steps)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    np.testing.assert_allclose(rates[9:], (1 + np.cos(np.pi * np.arange(41) / 41)) / 2, atol=1e-12)
    assert rates[-1] > 0.001
    assert [rate_at(step, 5, Settings(warmup=0.0, decay=False)) for step in range(5)] == [1.0] * 5


def test_rate_reaches_the_optimizers() -> None:
    """Do both optimizers get the schedule's rate at every step?"""
    settings, seen = replace(SHORT, muon_rate=0.02, adamw_rate=0.003), {"Muon": [], "AdamW": []}
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: seen[type(optimizer).__name__].append({g["lr"] for g in optimizer.param_groups})
    )
    list(run(settings))
    hook.remove()
    for name, peak in (("Muon", 0.02), ("AdamW", 0.003)):
        np.testing.assert_allclose(
            [list(rates) for rates in seen[name]], [[peak * rate_at(i, 9, settings)] for i in range(9)]
        )


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


def test_augment_moves_and_never_mirrors() -> None:
    """Is each image moved by its own offset, at most by the shift, and never mirrored?"""
    images = torch.full((64, 1, 28, 28), -1.0)
    images[:, :, 10:18, 12] = 1.0  # an L, which no turn by 20 degrees makes a mirrored L
    images[:, :, 17, 12:18] = 1.0
    before = images.clone()
    moved = augment(images, shift=3.0, rotation=0.0, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(images, before)
    centres = [
        torch.stack(
            [
                ((batch + 1) * torch.arange(28.0).view(shape)).sum((1, 2, 3)) / (batch + 1).sum((1, 2, 3))
                for shape in ((28, 1), (1, 28))
            ]
        )
        for batch in (images, moved)
    ]
    offsets = centres[1] - centres[0]  # (2, 64), in pixels
    assert offsets.abs().max() < 3.0 + 1e-3
    assert (offsets.amax(1) > 2.0).all() and (offsets.amin(1) < -2.0).all() and len(set(offsets[0].tolist())) == 64
    turned = augment(images, shift=0.0, rotation=20.0, generator=torch.Generator().manual_seed(0))
    same = (turned * images).sum((1, 2, 3))
    for mirrored in (images.flip(-1), images.flip(-2)):
        assert (same > (turned * mirrored.roll((1, 1), (-1, -2))).sum((1, 2, 3))).all()


def test_augment_mirrors_half() -> None:
    """Are about half of the images mirrored on request, completely and in all channels, and also moved?"""
    images = torch.randn(400, 3, 8, 8)
    generator = torch.Generator().manual_seed(0)
    made = augment(images, shift=0.0, rotation=0.0, flip=True, generator=generator)
    same, mirrored = (torch.isclose(made, other, atol=1e-5).flatten(1).all(1) for other in (images, images.flip(-1)))
    assert (same ^ mirrored).all()
    assert 140 < mirrored.sum() < 260


def test_augment_turns_by_the_angle() -> None:
    """Is a far pixel turned by at most the angle, and by nearly the angle in some image?"""
    images = torch.full((200, 1, 29, 29), -1.0)  # its middle is a pixel
    images[:, :, 14, 23:27] = 1.0
    turned = augment(images, shift=0.0, rotation=15.0, generator=torch.Generator().manual_seed(0)) + 1  # (B, 1, 29, 29)
    across = torch.arange(29.0) - 14
    x = (turned * across).sum((1, 2, 3)) / turned.sum((1, 2, 3))
    y = (turned * across.view(29, 1)).sum((1, 2, 3)) / turned.sum((1, 2, 3))
    degrees = torch.atan2(y, x).rad2deg()
    assert degrees.abs().max() < 15.5 and degrees.max() > 13 and degrees.min() < -13


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


def test_seed_decides_the_run() -> None:
    """Do two runs of one seed agree to the last bit, whatever ran before, and does another seed or shift change it?"""
    parameters, curve = last(run(SHORT))
    torch.rand(5)
    again, curve_again = last(run(SHORT))
    assert curve == curve_again
    for name, value in parameters.items():
        assert torch.equal(value, again[name]), name
    for changes in (dict(seed=1), dict(shift=1.0)):
        other, _ = last(run(replace(SHORT, **changes)))
        assert not torch.equal(parameters["head.weight"], other["head.weight"])


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


def test_patches_are_dropped_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Are half of the patches dropped in the first half of the steps, different ones each time, and none afterwards?"""
    seen, original = [], training.scores_of
    monkeypatch.setattr(
        training, "scores_of", lambda model, images, kept=None: seen.append(kept) or original(model, images, kept)
    )
    list(run(replace(SHORT, epochs=2)))  # 2 epochs of 3 steps and an evaluation
    counts = [16 if kept is None else len(set(kept.tolist())) for kept in seen]
    assert counts == [8, 8, 8, 16, 16, 16, 16, 16]
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


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"epochs": 0}, "epochs must be greater than 0, got 0"),
        ({"clip": math.nan}, "clip must be greater than 0, got nan"),
        ({"warmup": 1.0}, r"warmup must be at least 0 and less than 1, got 1\.0"),
        ({"shift": -2.0}, r"shift must not be negative, got -2\.0"),
        ({"num_heads": 5}, "num_heads must divide the width, got 5 and 64"),
        ({"optimizer": "sgd"}, "optimizer must be muon or adamw, got sgd"),
    ],
)
def test_settings_out_of_range(changes: dict, message: str) -> None:
    """Is a setting out of its range refused, with its name, its range and the given value?"""
    with pytest.raises(ValueError, match=message):
        Settings(**changes)


def test_change_settings() -> None:
    """Are changes from the command line read with the type of each setting, and bad ones refused by name?"""
    changed = training.change_settings(Settings(), ["clip=2", "decay=false", "optimizer=adamw", "batch_size=64"])
    assert changed == Settings(clip=2.0, decay=False, optimizer="adamw", batch_size=64)
    for change, message in (
        ("clop=2", "no setting is called 'clop'"),
        ("seed=1.5", "seed must be of type int, got '1.5'"),
    ):
        with pytest.raises(ValueError, match=message):
            training.change_settings(Settings(), [change])


class Untouchable:
    """A test set that must not be read; only its number of images may be read."""

    def __len__(self) -> int:
        return 347

    def __getattr__(self, name: str):
        raise AssertionError(f"the test set was touched: {name}")


def call(command: Callable, *arguments: object) -> Result:
    """Call a command as a person does."""
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_command_writes_weights_and_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Can the weights be loaded without running code, and does the record hold the run and its results?"""
    test = load_digits().test
    data = Data("digits", draw_split(40), draw_split(10), test)
    monkeypatch.setattr(training, "load_images", lambda *_: data)
    weights, record = tmp_path / "vit.pt", tmp_path / "runs" / "run.json"
    options = ["--epochs", 2, "--set", "clip=3", "--weights", weights, "--record", record, "--test", "--device", "cpu"]
    assert call(training.main, *options).exit_code == 0
    model = ViT()
    model.load_state_dict(torch.load(weights, weights_only=True))
    (written,) = json.loads(record.read_text())
    assert written["settings"] == asdict(Settings(epochs=2, clip=3.0))
    assert [epoch["number"] for epoch in written["curve"]] == [1, 2]
    expected = evaluate(model, [(test.images, test.labels)])
    np.testing.assert_allclose((written["test_loss"], written["test_accuracy"]), expected, rtol=1e-5)
    assert (
        written["data"] == "digits"
        and written["precision"] == "float32"
        and written["machine"]["torch"] == torch.__version__
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--weights", "there"), "there cannot be written .*: name another place"),
        (("--record", "file/run.json"), "file/run.json cannot be written"),
        (("--checkpoint", "file/run.ckpt"), "file/run.ckpt cannot be written"),
        (("--checkpoint", "file"), "file holds no run"),
        (("--device", "gpu"), "the device must be auto, cpu or"),
        (("--set", "hidden_width=0"), "hidden_width must be greater than 0"),
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


def test_command_keeps_off_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is the test set never read without a request, and unknown to every run?"""
    data = Data("digits", draw_split(40), draw_split(10), Untouchable())
    monkeypatch.setattr(training, "load_images", lambda *_: data)
    options = ["--epochs", 1, "--device", "cpu", "--weights", tmp_path / "vit.pt", "--record", tmp_path / "run.json"]
    assert call(training.main, *options).exit_code == 0
    (written,) = json.loads((tmp_path / "run.json").read_text())
    assert written["test_accuracy"] is None
    assert not any("test" in name for name in inspect.signature(train).parameters)
    assert "the test set was touched" in str(call(training.main, *options, "--test").exception)

"""Do the experiments run what they claim, and continue after a stop? They run on small generated images."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_training import call, draw_split
from torch.optim.optimizer import register_optimizer_step_pre_hook
from typer.testing import Result

from autograder.checks.multihead.exercises import EXERCISES
from autograder.imports import ROOT
from solutions.training import experiments, plain_recipe, plans
from solutions.training.architectures import WRONG, compare_attentions, count_parameters, fit_width, make_model
from solutions.training.data import MEAN, STD, Data, Split, draw, some_classes
from solutions.training.experiments import execute
from solutions.training.plans import Run
from solutions.training.record import read_records, write_record
from solutions.training.settings import Settings
from solutions.training.train import loss_and_accuracy, train
from solutions.vit import ViT

CPU = torch.device("cpu")
TINY = Settings(patch_size=4, width=8, depth=1, num_heads=2, hidden_width=8, optimizer="adamw", batch_size=16)


def draw_data(name: str, channels: int) -> Data:
    """Draw images whose brightness shows the class."""
    generator = torch.Generator().manual_seed(len(name))

    def split(count: int) -> Split:
        labels = torch.arange(count) % 5
        images = torch.randn(count, channels, 8, 8, generator=generator) + labels[:, None, None, None]
        return Split(images, labels, 5)

    small = dict(hidden_width=8, batch_size=32)
    return Data(name, split(40), split(16), split(20), list("01234"), small)


DATA = {"photographs": draw_data("photographs", 3), "digits": draw_data("digits", 1)}


# ---- architectures


def test_attentions_drift_apart() -> None:
    """Do loop and einsum begin with the same logits, up to rounding, and the wrong attention with others?"""
    found = compare_attentions(TINY, DATA["photographs"].training, (0, 2))
    start = {(each["other"], each["precision"]): each["largest"][0] for each in found}
    # about a hundred roundings of numbers near 1
    assert start["loop", "float32"] < 1e-5 and start["loop", "float64"] < 1e-13
    assert start["M6", "float32"] > 1e-3 and start["M6", "float64"] > 1e-3
    for each in found:
        assert each["steps"] == [0, 2] and len(each["largest"]) == len(each["answers"]) == 2


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_attention_is_the_mistake_of_that_name(mistake: str) -> None:
    """Does the wrong attention give the result of one of the catalogue's variants of its mistake?"""
    tokens, attention = torch.randn(2, 5, 12), WRONG[mistake](12, 3)
    given = []
    for name, way in EXERCISES["MultiHeadAttention"].mistakes().items():
        if name.split("/")[0] == mistake:
            other = way(12, 3)
            other.load_state_dict(attention.state_dict())
            given.append(other(tokens))
    assert any(torch.allclose(attention(tokens), output, atol=1e-5) for output in given)


@pytest.mark.parametrize("architecture", ["cnn", "mlp"])
@pytest.mark.parametrize("channels", [1, 3])
def test_width_fits_the_parameters(architecture: str, channels: int) -> None:
    """Does the width give the nearest number of parameters, and does the model learn with the recipe's loop?"""
    images = draw_data("x", channels).training
    settings = replace(TINY, architecture=architecture, num_heads=1, epochs=4, batch_size=10)
    width = fit_width(settings, images, 5000)
    settings = replace(settings, width=width)
    widths = (width - 1, width, width + 1)
    counts = {each: count_parameters(make_model(replace(settings, width=each), images)) for each in widths}
    assert min(widths, key=lambda each: abs(counts[each] - 5000)) == width
    *_, (_, curve) = train(settings, images, images)
    assert curve[-1].validation_loss < curve[0].validation_loss


# ---- data


def test_draws_are_nested() -> None:
    """Does a larger draw include a smaller one, and does too large a draw give all images?"""
    images = DATA["digits"].training
    few, more = (draw(images, count).images for count in (5, 12))
    assert torch.equal(few, more[:5]) and len(draw(images, 100)) == 40
    assert not torch.equal(few, images.images[:5])


def test_some_classes_get_new_numbers() -> None:
    """Do the classes have the named order, with at most the given number of images each?"""
    data = draw_data("photographs", 3)
    five = some_classes(data, ["3", "1"], 8, 4)
    assert five.classes == ["3", "1"] and five.training.num_classes == 2
    assert five.training.labels.tolist() == [0] * 8 + [1] * 8 and five.test.labels.tolist() == [0] * 4 + [1] * 4
    torch.testing.assert_close(five.training.images[:8], data.training.images[data.training.labels == 3][:8])


# ---- a run


@pytest.mark.parametrize(("planned", "done"), [(9, 5), (20, 6)])  # a fifth of the epochs, and at least three
def test_stops_by_validation_and_keeps_the_best(planned: int, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are the parameters those of the lowest validation loss, does patience end the run, and is it tested once?"""
    losses, states, seen, looked, original = iter([0.5, 0.3, 0.4, 0.6, 0.35, 0.4, 0.1]), [], [], [], experiments.train
    monkeypatch.setattr(experiments, "loss_and_accuracy", lambda *on: looked.append(on) or loss_and_accuracy(*on))

    def train_with_losses(*arguments: object, **options: object):
        for model, curve in original(*arguments, **options):
            seen.append(replace(curve[-1], validation_loss=next(losses)))
            states.append({name: value.clone() for name, value in model.state_dict().items()})
            yield model, [*seen]

    monkeypatch.setattr(experiments, "train", train_with_losses)
    run = Run("attention", "width 8", DATA["photographs"], replace(TINY, epochs=planned), 30, stops=True)
    record, model = execute(run, CPU)
    assert len(record.curve) == done and record.kept == 2 and record.images["training"] == 30
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in states[1].items())
    assert [len(split) for _, split in looked] == [len(run.data.test)]
    assert record.test_accuracy == loss_and_accuracy(model, run.data.test)[1] == np.trace(record.confusion) / 20


# ---- the command


class Stopped(Exception):
    """The machine has stopped."""


@contextlib.contextmanager
def stopped_at(run: int) -> Iterator[None]:
    """Let the machine stop at the start of a run, counted from 1."""
    original, begun = experiments.train, []

    def train_a_while(*arguments: object, **options: object):
        begun.append(arguments)
        if len(begun) == run:
            raise Stopped
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "train", train_a_while)
        yield


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that calls the command for two seeds of short runs on generated images."""
    mnist = Data("digits", *(draw_split(count, seed) for seed, count in enumerate((40, 10, 23))))
    monkeypatch.setattr(experiments, "load_images", lambda *_: mnist)
    monkeypatch.setattr(experiments, "Settings", partial(Settings, epochs=2))
    monkeypatch.setattr(plain_recipe, "GOAL", 0.0)
    return lambda name: call(experiments.main, name, "--device", "cpu", "--seeds", 2, "--records", tmp_path / "r")


def images_of(name: str, channels: int, size: int, *counts: int) -> Data:
    """Return data that only have the right sizes: without memory for pixels."""
    labels = [torch.arange(count) % 10 for count in counts]
    splits = [Split(torch.zeros(1).expand(len(each), channels, size, size), each) for each in labels]
    return Data(name, *splits, settings=dict(flip=True, rotation=0.0, shift=4.0) if channels == 3 else {})


@pytest.mark.parametrize(
    "arguments", [["photographs", "--night"], ["ablation"], ["wrong_attention", "--seeds", 5]], ids=itemgetter(0)
)
def test_published_runs_are_those_of_the_command(arguments: list, tmp_path: Path, monkeypatch) -> None:
    """Has the book's record each run of the command and no other, with its settings and images, tested or not?"""
    photographs = images_of("cifar10_jpeg", 3, 32, 45_000, 5_000, 10_000)
    digits = images_of("MNIST", 1, 28, 55_000, 5_000, 10_000)
    monkeypatch.setattr(experiments, "load_images", lambda name, *_: digits if name == "mnist" else photographs)
    monkeypatch.setattr(experiments, "compare_attentions", lambda settings, images: len(images))
    asked, original = [], experiments.is_of
    monkeypatch.setattr(experiments, "is_of", lambda *of: original(*of) and not asked.append(of))
    file = tmp_path / f"{arguments[0]}.json"
    published = read_records(ROOT / "book" / "records" / file.name)
    write_record(file, *{str(each.curve): each for each in published}.values())  # a run of two groups only once
    with stopped_at(run=1):
        done(call(experiments.main, *arguments, "--device", "cpu", "--records", tmp_path))
    assert sorted(map(str, read_records(file))) == sorted(map(str, published))
    wanted = sorted((run.group, run.name, run.settings.seed) for _, run in asked)
    assert wanted == sorted((each.group, each.name, each.settings["seed"]) for each in published)
    assert all(run.tested == (record.test_accuracy is not None) for record, run in asked)
    drifts = [json.loads(path.read_text()) for path in tmp_path.glob("attentions.json")]
    assert drifts == [7500] * (arguments[0] == "photographs")


def done(result: object) -> None:
    """Assert that the command has succeeded."""
    assert result.exit_code == 0, (result.exception, result.output)


def test_record_of_something_else_is_refused(command, tmp_path: Path) -> None:
    """Does the command leave a file alone that is no record of these runs, and say so?"""
    done(command("ablation"))
    path = tmp_path / "r" / "ablation.json"
    other = path.read_text().replace('"validation": 10', '"validation": 9')
    refused = {
        "no JSON": "no record",
        "[{}]": "no record",
        other: "has the recipe with other images",
    }
    for content, why in refused.items():
        path.write_text(content)
        result = command("ablation")
        assert result.exit_code == 2 and why in " ".join(result.output.replace("│", " ").split())
        assert path.read_text() == content


def test_comparison_records_both(command, tmp_path: Path) -> None:
    """Are both recipes recorded for each seed, with the clocks and the test accuracy of each epoch?"""
    done(command("comparison"))
    runs = read_records(tmp_path / "r" / "comparison.json")
    assert [(run.name, run.settings["seed"], len(run.curve)) for run in runs] == [
        ("plain", 0, 1),  # it stops at the goal
        ("short", 0, 2),
        ("plain", 1, 1),
        ("short", 1, 2),
    ]
    assert all(0 <= epoch["test_accuracy"] <= 1 and epoch["seconds"] > 0 for run in runs for epoch in run.curve)


def test_ablation_goes_on(command, tmp_path: Path) -> None:
    """Does each change run once for each seed, without repetition in a second call, and without the test images?"""
    with stopped_at(run=4):
        assert isinstance(command("ablation").exception, Stopped)
    path = tmp_path / "r" / "ablation.json"
    before = path.read_text().splitlines()
    done(command("ablation"))
    assert path.read_text().splitlines()[:3] == before[:3]
    runs = read_records(path)
    assert [(run.name, run.settings["seed"]) for run in runs] == [
        (name, seed) for seed in (0, 1) for name in plans.CHANGES
    ]
    assert {run.data for run in runs} == {"digits, the first 40 training images"}
    with stopped_at(run=1):
        done(command("ablation"))


def test_long_makes_weights_and_records(command, tmp_path: Path) -> None:
    """Do weights, records and mistakes belong together, and does the validation split choose the model?"""
    done(command("long"))
    folder = tmp_path / "r"
    runs = read_records(folder / "long.json")
    assert [len(run.curve) for run in runs] == [2, 2]
    mistakes = json.loads((folder / "mistakes.json").read_text())
    shares = [run.validation_accuracy for run in runs]
    assert mistakes["seed"] == shares.index(max(shares))
    model, test = ViT().eval(), draw_split(23, 2)
    model.load_state_dict(torch.load(folder / "vit_mnist.pt", weights_only=True))
    with torch.no_grad():
        guesses = model(test.images).argmax(dim=-1)
    assert [each["index"] for each in mistakes["wrong"]] == (guesses != test.labels).nonzero()[:, 0].tolist()
    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (test.labels.numpy(), guesses.numpy()), 1)
    assert mistakes["confusion"] == confusion.tolist()
    drawn = np.asarray(Image.open(folder / "wrong_digits.png").convert("L"))
    assert (drawn < 128).mean() > 0.02  # the page is not empty
    assert runs[mistakes["seed"]].test_accuracy == confusion.trace() / 23


# ---- the plain recipe


def test_images_are_those_of_the_splits() -> None:
    """Does the plain recipe get the same images and classes as our recipe, but not normalised?"""
    parts = draw_split(3), draw_split(2, seed=1)
    data = plain_recipe.Images(*parts)
    images, labels = zip(*(data[i] for i in range(len(data))))
    torch.testing.assert_close(torch.stack(images), torch.cat([part.images for part in parts]) * STD + MEAN)
    assert list(labels) == torch.cat([part.labels for part in parts]).tolist()


def test_plain_recipe_learns() -> None:
    """Does the plain recipe learn, with a rate that falls by 5 % an epoch?"""
    rates = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    *_, (_, epochs) = plain_recipe.train_plainly(plain_recipe.Images(draw_split(40)), 3, 0, CPU)
    hook.remove()
    np.testing.assert_allclose(rates, [1e-3, 0.95e-3, 0.9025e-3])
    assert epochs[-1].loss < epochs[0].loss

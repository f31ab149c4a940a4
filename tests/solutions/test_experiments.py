"""Do the experiments run what they claim, and continue after a stop? They run on small generated images."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from typer.testing import CliRunner

from autograder.checks.multihead.exercises import EXERCISES
from autograder.imports import ROOT
from solutions.training import experiments, plain_recipe, plans
from solutions.training.architectures import WRONG, compare_attentions, count_parameters, fit_width, make_model
from solutions.training.data import MEAN, STD, Data, Split, draw, normalise, some_classes
from solutions.training.experiments import execute, is_of
from solutions.training.plans import Run, Size
from solutions.training.recipe import loss_and_accuracy, train
from solutions.training.record import read_records
from solutions.training.settings import Settings
from solutions.vit import ViT

CPU = torch.device("cpu")
SIZE = Size(24, 2, (1,), 30, 1, 1, (10, 20), 40, 25, 1, 9, 11)
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


def draw_split(count: int, seed: int = 0) -> Split:
    """Draw images of 256 grey levels, and unrelated classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 1, 28, 28), generator=generator) / 255
    return Split(normalise(images), torch.randint(0, 10, (count,), generator=generator))


# ---- architectures


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_attentions_share_parameters(kind: torch.dtype) -> None:
    """Do loop and einsum give the same logits from one seed's parameters, and the wrong attention others?"""
    images, logits = torch.randn(5, 3, 8, 8).to(kind), {}
    for architecture in ("einsum", "loop", "M6"):
        torch.manual_seed(3)
        model = make_model(replace(TINY, architecture=architecture), DATA["photographs"].training).to(kind)
        logits[architecture] = model(images)
    tolerance = 1e-5 if kind == torch.float32 else 1e-13  # about a hundred roundings of numbers near 1
    torch.testing.assert_close(logits["loop"], logits["einsum"], rtol=0, atol=tolerance)
    assert (logits["M6"] - logits["einsum"]).abs().max() > 1e-3


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
    width = fit_width(architecture, images, 6000)
    made = {
        w: count_parameters(make_model(replace(TINY, architecture=architecture, width=w, num_heads=1), images))
        for w in (width - 1, width, width + 1)
    }
    assert min(made, key=lambda w: abs(made[w] - 6000)) == width
    settings = replace(TINY, architecture=architecture, width=width, num_heads=1, epochs=4, batch_size=10)
    *_, (_, curve) = train(settings, images, images)
    assert curve[-1].validation_loss < curve[0].validation_loss


def test_architecture_that_will_not_do_is_said() -> None:
    """Is an unknown architecture refused with a list of the known ones, and is Muon refused without blocks?"""
    with pytest.raises(ValueError, match="one of vit, cnn, mlp, decoder, einsum, loop, M6, M7, M9, M25, got rnn"):
        make_model(replace(TINY, architecture="rnn"), DATA["digits"].training)
    with pytest.raises(ValueError, match="architecture cnn needs adamw"):
        replace(TINY, architecture="cnn", optimizer="muon")


def test_dropout_goes_on_after_a_stop(tmp_path: Path) -> None:
    """Does a resumed run with dropout end as an uninterrupted one, without dropout in evaluation?"""
    settings, images = replace(TINY, dropout=0.3, epochs=2), DATA["photographs"].training
    *_, (model, curve) = train(settings, images, images)
    runs = train(settings, images, images, checkpoint=tmp_path / "run.ckpt")
    next(runs)
    runs.close()
    *_, (again, _) = train(settings, images, images, checkpoint=tmp_path / "run.ckpt")
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    with torch.no_grad():
        loss = F.cross_entropy(model.eval()(images.images), images.labels)
    np.testing.assert_allclose(curve[-1].validation_loss, float(loss), rtol=1e-5)


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


# ---- the plans


def images_of(name: str, channels: int, size: int, *counts: int) -> Data:
    """Return data that only have the right sizes: without memory for pixels."""
    labels = [torch.arange(count) % 10 for count in counts]
    splits = [Split(torch.zeros(1).expand(len(each), channels, size, size), each) for each in labels]
    return Data(name, *splits, settings=dict(flip=True, rotation=0.0, shift=4.0) if channels == 3 else {})


def test_published_runs_are_those_of_the_plan() -> None:
    """Does the plan give the book's runs, with their settings and images, if it gets the recorded results?"""
    photographs = images_of("cifar10_jpeg", 3, 32, 45_000, 5_000, 10_000)
    digits, five = images_of("MNIST", 1, 28, 55_000, 5_000, 10_000), some_classes(photographs, list("01234"), 1500, 500)
    records, record, found = read_records(ROOT / "book" / "records" / "photographs.json"), None, []
    plan = plans.of_photographs(plans.NIGHT, 3, dict(photographs=photographs, digits=digits, five=five))
    with contextlib.suppress(StopIteration):
        while True:
            run = plan.send(record)
            named = [each for each in records if (each.group, each.name) == (run.group, run.name)]
            (record,) = [each for each in named if is_of(each, run)]
            found.append(record)
    assert {id(record) for record in found} == set(map(id, records))


def test_changes_are_one_at_a_time() -> None:
    """Does each change of the ablation change the recipe in its own way?"""
    changed = [replace(plans.SHORT, **changes) for changes in plans.CHANGES.values()]
    assert changed[0] == plans.SHORT and len(set(changed)) == len(changed)
    for changes in list(plans.CHANGES.values())[1:]:
        assert all(getattr(plans.SHORT, name) != value for name, value in changes.items())


# ---- a run


def test_stops_by_validation_and_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are the parameters those of the lowest validation loss, does patience end the run, and is it tested once?"""
    losses, states, seen, looked, original = iter([0.5, 0.3, 0.4, 0.6, 0.35, 0.1]), [], [], [], experiments.train
    monkeypatch.setattr(experiments, "loss_and_accuracy", lambda *on: looked.append(on) or loss_and_accuracy(*on))

    def train_with_losses(*arguments: object, **options: object):
        for model, curve in original(*arguments, **options):
            seen.append(replace(curve[-1], validation_loss=next(losses)))
            states.append({name: value.clone() for name, value in model.state_dict().items()})
            yield model, [*seen]

    monkeypatch.setattr(experiments, "train", train_with_losses)
    run = Run("width", "width 8", DATA["photographs"], replace(TINY, epochs=9), 30, stops=True)
    record, model = execute(run, CPU, tmp_path)
    assert len(record.curve) == 5 and record.kept == 2 and record.images["training"] == 30
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in states[1].items())
    assert [len(split) for _, split in looked] == [len(run.data.test)]
    assert record.test_accuracy == loss_and_accuracy(model, run.data.test)[1]


def test_patience_is_a_fifth_of_the_planned_epochs_and_at_least_three() -> None:
    """Does a long run wait longer, so that many short epochs do not end it early?"""
    assert [experiments.patience_of(replace(TINY, epochs=epochs)) for epochs in (1, 15, 20, 90)] == [3, 3, 4, 18]


def test_run_goes_on_with_the_best_so_far(tmp_path: Path) -> None:
    """Does a run that is stopped after any epoch give the uninterrupted result, with the best parameters?"""
    run = Run("", "x", DATA["photographs"], replace(TINY, epochs=4, adamw_rate=0.3, seed=1), 30, stops=True)
    whole, _ = execute(run, CPU, tmp_path / "..")
    for stop in (1, 2, 3):
        with interrupted(epochs=stop), pytest.raises(Stopped):
            execute(run, CPU, tmp_path)
    again, _ = execute(run, CPU, tmp_path)
    for epoch in itertools.chain(whole.curve, again.curve):
        del epoch["seconds"], epoch["cpu_seconds"]
    assert replace(again, machine={}) == replace(whole, machine={})
    assert {*tmp_path.iterdir()} == {*experiments.kept_in(tmp_path, run)}
    others = replace(run, data=replace(run.data, name="others"))
    assert not {*tmp_path.iterdir()} & {*experiments.kept_in(tmp_path, others)}


class Stopped(Exception):
    """The machine has stopped."""


@contextlib.contextmanager
def interrupted(epochs: int = 0, runs: int = 0) -> Iterator[list]:
    """Let the machine stop after so many epochs of a run, or at the start of a later run; give the runs that began."""
    original, begun = experiments.train, []

    def train_a_while(*arguments: object, **options: object):
        if len(begun) + 1 == runs:
            raise Stopped
        begun.append(arguments)
        for model, curve in original(*arguments, **options):
            yield model, curve
            if len(curve) == epochs:
                raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "train", train_a_while)
        yield begun


# ---- the command


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that calls the command on generated data, with tiny models."""
    mnist = Data("digits", *(draw_split(count, seed) for seed, count in enumerate((40, 10, 23))))
    monkeypatch.setattr(experiments, "load_images", lambda name, *_: DATA.get(name, mnist))
    monkeypatch.setattr(plans, "Size", lambda: SIZE)
    monkeypatch.setattr(plans, "recipe_for", lambda data, **changes: replace(TINY, **changes))
    monkeypatch.setattr(plans, "WIDTHS", (8, 16))
    monkeypatch.setattr(plans, "HEADS", (1, 2))
    monkeypatch.setattr(
        experiments, "compare_attentions", lambda *_: compare_attentions(TINY, DATA["photographs"].training, (0, 1))
    )
    monkeypatch.setattr(experiments, "Settings", partial(Settings, epochs=2))
    monkeypatch.setattr(plain_recipe, "GOAL", 0.0)

    def call(*arguments: object):
        options = ["--seeds", "2", "--device", "cpu", "--records", tmp_path / "r", "--states", tmp_path / "kept"]
        return CliRunner().invoke(experiments.app, [*map(str, arguments), *map(str, options)])

    return call


def done(result: object) -> None:
    """Assert that the command has succeeded."""
    assert result.exit_code == 0, (result.exception, result.output)


@pytest.mark.deep
def test_photographs_go_on_after_a_stop(command, tmp_path: Path) -> None:
    """Is each run made once despite two stops, and does the record name machine and settings of each?"""
    call = partial(command, "photographs", "--photographs", "photographs", "--digits", "digits")
    for runs in (3, 20):
        with interrupted(runs=runs):
            assert isinstance(call().exception, Stopped)
        records = read_records(tmp_path / "r" / "photographs.json")
    with interrupted() as last:
        done(call())
    before, records = records, read_records(tmp_path / "r" / "photographs.json")
    assert records[: len(before)] == before
    assert len({json.dumps([each.data, each.images, each.settings]) for each in records}) == 2 + 19 + len(last)
    places = [(each.group, each.name, each.settings["seed"]) for each in records]
    assert len(places) == len(set(places)) > 50
    assert {each.group for each in records} >= {"course work", "attention", "seconds, digits", "width"}
    loop = next(each for each in records if each.name == "loop")
    assert np.sum(loop.confusion) == 11 and loop.settings["architecture"] == "loop" and loop.machine["torch"]
    pairs = json.loads((tmp_path / "r" / "attentions.json").read_text())
    steps = {(each["other"], each["precision"]): each["largest"] for each in pairs}
    assert steps["loop", "float64"][0] < 1e-12 < 1e-4 < steps["M6", "float64"][0]
    with interrupted(runs=1):
        done(call())  # nothing is left to do


def test_record_of_something_else_is_refused(command, tmp_path: Path) -> None:
    """Does the command leave a file alone that is no record of these runs, and say so?"""
    done(command("ablation"))
    path = tmp_path / "r" / "ablation.json"
    other = path.read_text().replace('"validation": 10', '"validation": 9')
    refused = {
        "no JSON": "no record",
        "[{}]": "no record",
        "{}": "no record",
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
    for runs in (4, 0):
        with interrupted(runs=runs):
            command("ablation")
    runs = read_records(tmp_path / "r" / "ablation.json")
    assert [(run.name, run.settings["seed"]) for run in runs] == [
        (name, seed) for seed in (0, 1) for name in plans.CHANGES
    ]
    assert {run.data for run in runs} == {"digits, the first 40 training images"}
    changed = [dict(epochs=1, seed=seed) | changes for seed in (0, 1) for changes in plans.CHANGES.values()]
    assert [Settings(**run.settings) for run in runs] == [replace(plans.SHORT, **changes) for changes in changed]
    assert all(run.test_accuracy is None for run in runs)
    with interrupted(runs=1):
        done(command("ablation"))


def test_wrong_attention_is_trained_like_the_right_one(command, tmp_path: Path) -> None:
    """Is each attention trained for each seed from the same settings, and tested once?"""
    done(command("wrong_attention"))
    runs = read_records(tmp_path / "r" / "wrong_attention.json")
    assert [run.name for run in runs] == 2 * list(plans.ATTENTIONS)
    others = [run.settings | dict(architecture="", seed=0) for run in runs]
    assert others == others[:1] * len(runs)
    assert all(0 <= run.test_accuracy <= 1 for run in runs)


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
    rates, data = [], plain_recipe.Images(draw_split(40))
    hook = torch.optim.Adam.step
    runs = plain_recipe.train_plainly(data, 3, 0, CPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", lambda self: rates.append(self.param_groups[0]["lr"]) or hook(self))
        *_, (_, epochs) = runs
    np.testing.assert_allclose(rates, [1e-3, 0.95e-3, 0.9025e-3])
    assert epochs[-1].loss < epochs[0].loss

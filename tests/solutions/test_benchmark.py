"""Does the benchmark measure what it claims? It runs on generated images and digits, without MNIST and GPU."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from solutions.training import benchmark
from solutions.training.data import MEAN, STD, Data, Split, normalise
from solutions.training.record import Record
from solutions.training.settings import Settings
from solutions.training.t4 import count_step
from solutions.vit import ViT


def draw_split(count: int, seed: int = 0) -> Split:
    """Draw images of 256 grey levels, and unrelated classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 1, 28, 28), generator=generator) / 255
    return Split(normalise(images), torch.randint(0, 10, (count,), generator=generator))


def test_images_are_those_of_the_splits() -> None:
    """Does the plain recipe get the same images and classes as our recipe, but not normalised?"""
    parts = draw_split(3), draw_split(2, seed=1)
    data = benchmark.Images(*parts)
    images, labels = zip(*(data[i] for i in range(len(data))))
    torch.testing.assert_close(torch.stack(images), torch.cat([part.images for part in parts]) * STD + MEAN)
    assert list(labels) == torch.cat([part.labels for part in parts]).tolist()


def test_plain_recipe_learns() -> None:
    """Does the plain recipe learn, with a rate that falls by 5 % an epoch?"""
    rates, data = [], benchmark.Images(draw_split(40))
    hook = torch.optim.Adam.step
    runs = benchmark.train_plainly(data, 3, 0, torch.device("cpu"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", lambda self: rates.append(self.param_groups[0]["lr"]) or hook(self))
        *_, (_, epochs) = runs
    np.testing.assert_allclose(rates, [1e-3, 0.95e-3, 0.9025e-3])
    assert epochs[-1].loss < epochs[0].loss


def test_changes_are_one_at_a_time() -> None:
    """Does each change of the ablation change the recipe in its own way?"""
    changed = [replace(benchmark.SHORT, **changes) for changes in benchmark.CHANGES.values()]
    assert changed[0] == benchmark.SHORT and len(set(changed)) == len(changed)
    for changes in list(benchmark.CHANGES.values())[1:]:
        assert all(getattr(benchmark.SHORT, name) != value for name, value in changes.items())


def test_count_of_a_step() -> None:
    """Are the counted operations 3 times those of the forward pass, minus those that no gradient needs?"""
    counted = {size: count_step(Settings(batch_size=size)) for size in (4, 8)}
    # One image forward, two operations for each product: patches, five whole blocks, the last one for the class token.
    linear, attention = 2 * (192 + 64 + 128 + 128) * 64, 2 * 2 * 17 * 64
    whole, last = 17 * (linear + attention), 17 * 2 * 128 * 64 + 2 * (64 + 64 + 128 + 128) * 64 + attention
    forward = 16 * 2 * 49 * 64 + 5 * whole + last + 2 * 64 * 10
    first = 16 * 2 * 49 * 64  # the pixels need no gradient
    per_image = (counted[8]["operations"] - counted[4]["operations"]) / 4
    assert per_image == 3 * forward - first
    assert counted[8]["launches"] == counted[4]["launches"] > 300
    assert counted[8]["bytes"] > counted[4]["bytes"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the recipes short and the data small."""
    monkeypatch.setattr(
        benchmark, "load_digits", lambda: Data("digits", draw_split(40), draw_split(10, 1), draw_split(23, 2))
    )
    monkeypatch.setattr(benchmark, "SHORT", replace(benchmark.SHORT, epochs=2))
    monkeypatch.setattr(benchmark, "GOAL", 0.0)
    monkeypatch.setattr(benchmark, "Settings", partial(Settings, epochs=2))


def call(*arguments: object) -> None:
    """Run the command."""
    result = CliRunner().invoke(benchmark.app, [*map(str, arguments), "--digits", "--threads", "1"])
    assert result.exit_code == 0, (result.exception, result.output)


def test_compare_records_both(small: None, tmp_path: Path) -> None:
    """Are both recipes recorded for each seed, with the clocks and the test accuracy of each epoch?"""
    call("compare", "--seeds", 2, "--device", "cpu", "--records", tmp_path)
    runs = [Record(**run) for run in json.loads((tmp_path / "comparison.json").read_text())]
    assert [(run.name, run.settings["seed"], len(run.curve)) for run in runs] == [
        ("plain", 0, 1),  # it stops at the goal
        ("short", 0, 2),
        ("plain", 1, 1),
        ("short", 1, 2),
    ]
    assert all(0 <= epoch["test_accuracy"] <= 1 and epoch["seconds"] > 0 for run in runs for epoch in run.curve)


def test_ablate_goes_on(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does each change run once for each seed, without repetition in a second call?"""
    monkeypatch.setattr(benchmark, "CHANGES", {"the recipe": {}, "no warm-up": dict(warmup=0.0)})
    for seeds in (1, 2):
        call("ablate", "--seeds", seeds, "--records", tmp_path)
        runs = json.loads((tmp_path / "ablation.json").read_text())
        assert [(run["name"], run["settings"]["seed"]) for run in runs] == [
            (name, seed) for seed in range(seeds) for name in ("the recipe", "no warm-up")
        ]
    assert {run["data"] for run in runs} == {"digits, the first 40 training images"}
    assert [run["settings"]["warmup"] for run in runs] == [0.1, 0.0, 0.1, 0.0]
    assert all(epoch["test_accuracy"] is None for run in runs for epoch in run["curve"])


def test_wrong_attention_is_trained_like_the_right_one(small: None, tmp_path: Path) -> None:
    """Is each attention trained for each seed from the same parameters, and tested once?"""
    call("wrong", "--seeds", 2, "--records", tmp_path)
    runs = [Record(**run) for run in json.loads((tmp_path / "wrong_attention.json").read_text())]
    assert [(run.name, run.settings["seed"]) for run in runs] == [
        (n, seed) for seed in (0, 1) for n in benchmark.ATTENTIONS
    ]
    others = [run.settings | dict(architecture="", seed=0) for run in runs]
    assert others == others[:1] * len(runs)
    assert all(0 <= run.test_accuracy <= 1 for run in runs)


def test_train_makes_weights_and_records(small: None, tmp_path: Path) -> None:
    """Do weights, records and mistakes belong together, and does the validation split choose the model?"""
    records, kept = tmp_path / "records", tmp_path / "kept"
    call("train", "--seeds", 2, "--device", "cpu", "--records", records, "--checkpoints", kept)
    runs = json.loads((records / "long.json").read_text())
    assert [len(run["curve"]) for run in runs] == [2, 2]
    mistakes = json.loads((records / "mistakes.json").read_text())
    shares = [run["curve"][-1]["validation_accuracy"] for run in runs]
    assert mistakes["seed"] == shares.index(max(shares))
    model, test = ViT().eval(), draw_split(23, 2)
    model.load_state_dict(torch.load(records / "vit_mnist.pt", weights_only=True))
    with torch.no_grad():
        guesses = model(test.images).argmax(dim=-1)
    assert [each["index"] for each in mistakes["wrong"]] == (guesses != test.labels).nonzero()[:, 0].tolist()
    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (test.labels.numpy(), guesses.numpy()), 1)
    assert mistakes["confusion"] == confusion.tolist()
    drawn = np.asarray(Image.open(records / "wrong_digits.png").convert("L"))
    assert (drawn < 128).mean() > 0.02  # the page is not empty
    assert runs[mistakes["seed"]]["test_accuracy"] == confusion.trace() / 23

"""Do the experiments follow their rule, and continue after a stop? They run on small generated images."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from autograder.checks.multihead.exercises import EXERCISES
from solutions.training import experiments
from solutions.training.architectures import WRONG, count_parameters, fit_width, make_model
from solutions.training.data import Data, Split, draw, some_classes
from solutions.training.experiments import Run, Size, compare_attentions, execute, plan
from solutions.training.recipe import train
from solutions.training.settings import Settings

SIZE = Size(24, 2, (1,), 30, 1, 1, (10, 20), 40, 25, 1, 9, 11)
TINY = Settings(patch_size=4, width=8, depth=1, num_heads=2, hidden_width=8, optimizer="adamw", batch_size=16)


def draw_data(name: str, channels: int) -> Data:
    """Draw images whose brightness shows the class."""
    generator = torch.Generator().manual_seed(len(name))

    def split(count: int) -> Split:
        labels = torch.arange(count) % 4
        images = torch.randn(count, channels, 8, 8, generator=generator) + labels[:, None, None, None]
        return Split(images, labels, 4)

    small = dict(hidden_width=8, batch_size=32)
    return Data(name, split(40), split(16), split(20), [f"class {i}" for i in range(4)], small)


DATA = {
    "photographs": draw_data("photographs", 3),
    "digits": draw_data("digits", 1),
    "five": some_classes(draw_data("photographs", 3), ["class 3", "class 1"], 8, 4),
}


class Stopped(Exception):
    """The machine has stopped."""


def fake(run: Run, *_: object, **__: object) -> dict:
    """Return a result that depends only on the run: wider models are better, and more epochs cost more."""
    seconds = run.settings.width / 64 * run.settings.epochs
    epoch = dict(cpu_seconds=seconds, validation_accuracy=run.settings.width / 1000)
    return dict(curve=[epoch], kept=1, test_accuracy=0.5)


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
    data, five = draw_data("photographs", 3), DATA["five"]
    assert five.classes == ["class 3", "class 1"] and five.training.num_classes == 2
    assert five.training.labels.tolist() == [0] * 8 + [1] * 8 and five.test.labels.tolist() == [0] * 4 + [1] * 4
    torch.testing.assert_close(five.training.images[:8], data.training.images[data.training.labels == 3][:8])
    with pytest.raises(ValueError, match="no class bus; it has class 0"):
        some_classes(data, ["class 0", "bus"], 1, 1)


# ---- the plan


def test_one_factor_changes_alone() -> None:
    """Do runs of a factor differ only in that factor and the seed, with three seeds each, and without repetition?"""
    done: dict[str, dict] = {}
    runs = []
    for run in plan(SIZE, 3, DATA, lambda run: done[run.key]):
        runs.append(run)
        done[run.key] = fake(run)
    for factor in ("patch_size", "num_heads", "width", "epochs"):
        some = [run for run in runs if run.group == factor]
        assert {run.settings.seed for run in some} == {0, 1, 2} and len(some) == len({run.key for run in some})
        same = {replace(run.settings, seed=0, **{factor: 4 if factor != "width" else 64}) for run in some}
        assert len(same) == 1, factor


def test_equal_seconds_are_those_of_the_vit() -> None:
    """Are CNN and MLP also trained for the ViT's seconds, up to half an epoch?"""
    done: dict[str, dict] = {}
    runs = []
    for run in plan(Size(), 1, DATA, lambda run: done[run.key]):
        runs.append(run)
        done[run.key] = fake(run)
    cost = {(run.group, run.settings.architecture): experiments.cpu_seconds(done[run.key]) for run in runs}
    epoch = {
        run.settings.architecture: cost[run.group, run.settings.architecture] / run.settings.epochs for run in runs
    }
    for name in ("cnn", "mlp"):
        seconds, steps, vit = (
            cost[f"{equal}, photographs", architecture]
            for equal, architecture in (("seconds", name), ("parameters", name), ("parameters", "vit"))
        )
        assert abs(seconds - vit) <= epoch[name] / 2 < abs(steps - vit)


# ---- the rule


def test_stops_by_validation_and_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are the parameters those of the lowest validation loss, does patience end the run, and is it tested once?"""
    data, losses, looked = DATA["photographs"], iter([0.5, 0.3, 0.4, 0.6, 0.35, 0.1]), []
    original, states = experiments.train, []

    def train_with_losses(*arguments: object, **options: object):
        for model, curve in original(*arguments, **options):
            changed = [*states_curve, replace(curve[-1], validation_loss=next(losses))]
            states_curve[:] = changed
            states.append({name: value.clone() for name, value in model.state_dict().items()})
            yield model, changed

    states_curve: list = []
    monkeypatch.setattr(experiments, "train", train_with_losses)
    monkeypatch.setattr(
        experiments,
        "loss_and_accuracy",
        lambda model, split: looked.append((model.state_dict(), len(split))) or (1.0, 0.5),
    )
    run = Run("width", "width 8", "photographs", 30, replace(TINY, epochs=9))
    result = execute(run, data, SIZE, torch.device("cpu"), tmp_path)
    assert len(result["curve"]) == 5 and result["kept"] == 2
    ((state, images),) = looked
    assert images == 11 and all(torch.equal(value, state[name]) for name, value in states[1].items())


def test_patience_is_a_fifth_of_the_planned_epochs_and_at_least_three() -> None:
    """Does a long run wait longer, so that many short epochs do not end it early?"""
    assert [experiments.patience_of(replace(TINY, epochs=epochs)) for epochs in (1, 15, 20, 90)] == [3, 3, 4, 18]


def test_run_goes_on_with_the_best_so_far(tmp_path: Path) -> None:
    """Does a run that is stopped after any epoch give the uninterrupted result, with the best parameters?"""
    data, run = DATA["photographs"], Run("x", "x", "photographs", 30, replace(TINY, epochs=4, adamw_rate=0.3, seed=1))
    whole = execute(run, data, SIZE, torch.device("cpu"), tmp_path / "..")
    original = experiments.train
    for stop in (1, 2, 3):
        with pytest.MonkeyPatch.context() as patch:

            def interrupted(*arguments: object, stop: int = stop, **options: object):
                for model, curve in original(*arguments, **options):
                    yield model, curve
                    if len(curve) == stop:
                        raise Stopped

            patch.setattr(experiments, "train", interrupted)
            with pytest.raises(Stopped):
                execute(run, data, SIZE, torch.device("cpu"), tmp_path)
    again = execute(run, data, SIZE, torch.device("cpu"), tmp_path)
    for each in itertools.chain(whole["curve"], again["curve"]):
        del each["seconds"], each["cpu_seconds"]
    assert again == whole
    assert {*tmp_path.iterdir()} == {*experiments.kept_in(tmp_path, run, data)}
    others = replace(data, training=replace(data.training, images=data.training.images + 1), name="others")
    assert not {*tmp_path.iterdir()} & {*experiments.kept_in(tmp_path, run, others)}


# ---- the command


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that calls the command on the generated data, with tiny models."""
    monkeypatch.setattr(experiments, "load_all", lambda *_: DATA)
    monkeypatch.setattr(experiments, "Size", lambda: SIZE)
    monkeypatch.setattr(experiments, "recipe_for", lambda data, **changes: replace(TINY, **changes))
    monkeypatch.setattr(experiments, "WIDTHS", (8, 16))
    monkeypatch.setattr(experiments, "HEADS", (1, 2))
    monkeypatch.setattr(
        experiments, "compare_attentions", lambda *_: compare_attentions(TINY, DATA["five"].training, (0, 1))
    )

    def call(*arguments: object):
        options = ["--seeds", "2", "--record", tmp_path / "r.json", "--checkpoints", tmp_path / "kept"]
        return CliRunner().invoke(experiments.app, [*map(str, options), *map(str, arguments)])

    return call


@pytest.mark.deep
def test_command_goes_on_at_the_records_boundary(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is each run made once despite two stops, and does the record name rule, machine and each run's settings?"""
    original, made = experiments.execute, []

    def counted(run: Run, *arguments: object, **options: object) -> dict:
        if len(made) in (3, 20):
            made.append(None)
            raise Stopped
        made.append(run.key)
        trained = run.group in ("course work", "attention")
        return original(run, *arguments, **options) if trained else fake(run)

    monkeypatch.setattr(experiments, "execute", counted)
    for _ in range(2):
        assert isinstance(command().exception, Stopped)
    result = command()
    assert result.exit_code == 0, result.exception
    keys = [key for key in made if key]
    written = json.loads((tmp_path / "r.json").read_text())
    assert len(keys) == len(set(keys)) == len(written["runs"])
    assert [run["key"] for run in written["runs"]] == keys
    assert "validation accuracy of that epoch decides" in written["rule"] and written["machines"][0]["torch"]
    assert written["groups"].keys() >= {"course work", "attention", "seconds, digits"}
    assert all(len(indices) == 2 for indices in written["groups"]["width"].values())
    attention = written["runs"][written["groups"]["attention"]["loop"][0]]
    assert np.sum(attention["confusion"]) == 8 and attention["settings"]["architecture"] == "loop"
    steps = {(each["other"], each["precision"]): each["largest"] for each in written["attentions"]}
    assert steps["loop", "float64"][0] < 1e-12 < 1e-4 < steps["M6", "float64"][0]
    before = len(made)
    assert command().exit_code == 0 and len(made) == before  # nothing is left to do


def test_command_keeps_to_its_budget(command, tmp_path: Path) -> None:
    """Does the command stop after its CPU minutes, say how to continue, and refuse a record of other sizes?"""
    result = command("--budget", 0)
    assert result.exit_code == 0 and "Call the same command again" in result.output
    assert json.loads((tmp_path / "r.json").read_text())["runs"] == []
    result = command("--night")
    said = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == 2 and "was made with size" in said


def test_record_of_something_else_is_refused(command, tmp_path: Path) -> None:
    """Does the command leave a file alone that is no record of these experiments, and say so?"""
    for content in ("[]", "no JSON", "[{}]", "{}"):
        (tmp_path / "r.json").write_text(content)
        result = command()
        assert result.exit_code == 2 and "is no record of these" in " ".join(result.output.replace("│", " ").split())
        assert (tmp_path / "r.json").read_text() == content

"""Repeat the experiments of the book's last chapter: `python -m solutions.training.experiments --data cifar10`.

Every run uses `solutions.training.recipe`. The record is written after each run, and a run's state after each epoch:
after an interruption, call the command again to continue.

The rule, written before the first run. A run learns from training images and stops when its loss on the validation
images has not fallen below its best for a fifth of the planned epochs, and at least three. Its parameters are those of
the epoch with the best such loss. Among settings the validation accuracy of that epoch decides. The test images are
looked at once for each finished run, after that, and decide nothing.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor, nn

from solutions.training.architectures import compare_attentions, count_parameters, fit_width, make_model
from solutions.training.checkpoints import check_can_be_written
from solutions.training.data import Data, Images, draw, load_images, some_classes
from solutions.training.recipe import loss_and_accuracy, train
from solutions.training.record import choose_device, choose_precision, describe_machine
from solutions.training.settings import Settings

RULE = __doc__.split("\n\n")[-1].replace("\n", " ").strip()
FIVE = ["airplane", "automobile", "cat", "dog", "ship"]  # classes of CIFAR-10, if no folder of five classes is given
HEADS, WIDTHS, RATES = (1, 2, 4, 8), (32, 64, 128, 256), (1e-3, 3e-3, 1e-2)
RATE_SEED = 100  # a separate seed, so that the compared runs do not choose the rates
out = Console()


@dataclass(frozen=True)
class Size:
    """The amount of work. The defaults take one core about twenty minutes. `NIGHT` made the book's record."""

    images: int = 1500  # training images of runs that compare settings
    epochs: int = 5  # epochs of these runs
    other_epochs: tuple[int, ...] = (2, 15)  # further numbers of epochs that are compared
    course_images: int = 45_000  # training images of the course work's model
    course_epochs: int = 1
    recipe_epochs: int = 1  # epochs of the same model with the book's recipe
    counts: tuple[int, ...] = (500, 1500, 9000)  # training images of ViT, CNN and MLP
    met: int = 9000  # images that such a run sees, with repetitions, so that all runs take equally many steps
    five_images: int = 7500  # training images of the five classes
    five_epochs: int = 2  # epochs of the attentions on these
    validation: int = 1000  # validation images, at most
    test: int = 2000  # test images, at most


NIGHT = Size(5000, 10, (3, 30), 45_000, 50, 10, (500, 1500, 9000, 45_000), 45_000, 7500, 12, 2000, 10_000)


@dataclass(frozen=True)
class Run:
    """A model, its data, and its place in the record. Runs that differ only in group and name are one run."""

    group: str
    name: str
    data: str  # photographs, digits or five
    images: int
    settings: Settings

    @property
    def key(self) -> str:
        """The text that identifies a run."""
        return json.dumps([self.data, self.images, asdict(self.settings)])


Lookup = Callable[[Run], dict]  # returns the result of a run that was yielded


# ---- what is run ----------------------------------------------------------------------------------------------------


def recipe_for(data: Data, **changes: object) -> Settings:
    """Return the book's recipe with the sizes of the course work's model: 16 patches, width 64, 4 heads, 4 blocks."""
    sizes = dict(patch_size=data.training.shape[1] // 4, width=64, num_heads=4, depth=4)
    return replace(Settings(), **(data.settings | sizes | changes))


def course_work(data: Data, epochs: int) -> Settings:
    """Return the recipe of the course work: AdamW at a constant rate, dropout, crops and flips, small positions."""
    plain = dict(optimizer="adamw", adamw_rate=1e-3, warmup=0.0, decay=False, clip=1e9, batch_size=64)
    return recipe_for(data, epochs=epochs, dropout=0.1, position_std=0.02, **plain)


def plan(size: Size, seeds: int, data: dict[str, Data], lookup: Lookup) -> Iterator[Run]:
    """Yield every run. Finish each run before asking for the next, because some depend on earlier ones."""
    photographs = data["photographs"]
    for seed in range(seeds):
        both = dict(
            plain=course_work(photographs, size.course_epochs),
            recipe=recipe_for(photographs, epochs=size.recipe_epochs),
        )
        for name, settings in both.items():
            yield Run("course work", name, "photographs", size.course_images, replace(settings, seed=seed))
    yield from plan_architectures(size, seeds, data, lookup)
    settings = recipe_for(data["five"], epochs=size.five_epochs, optimizer="adamw")
    for seed, attention in itertools.product(range(seeds), ("einsum", "loop", "M6")):
        chosen = replace(settings, architecture=attention, seed=seed)
        yield Run("attention", attention, "five", min(len(data["five"].training), size.five_images), chosen)
    yield from plan_factors(size, seeds, photographs)


def plan_architectures(size: Size, seeds: int, data: dict[str, Data], lookup: Lookup) -> Iterator[Run]:
    """Yield ViT, CNN and MLP, each at its own best rate: with equal parameters and steps, then with equal seconds."""

    def settings_of(architecture: str, images: Data, rate: float, epochs: int, seed: int) -> Settings:
        vit = recipe_for(images, optimizer="adamw", adamw_rate=rate, epochs=epochs, seed=seed)
        if architecture == "vit":
            return vit
        width = fit_width(architecture, images.training, count_parameters(make_model(vit, images.training)))
        return replace(vit, architecture=architecture, width=width, num_heads=1)

    rates, count = {}, size.counts[len(size.counts) // 2]
    for architecture in ("vit", "cnn", "mlp"):
        tried = [
            Run(
                "rates",
                f"{architecture} {rate:g}",
                "photographs",
                count,
                settings_of(architecture, data["photographs"], rate, max(1, size.met // count), RATE_SEED),
            )
            for rate in RATES
        ]
        yield from tried
        rates[architecture] = best(tried, lookup).settings.adamw_rate
    for name, images in data.items():
        available = len(images.training)
        sizes = [size.five_images] if name == "five" else size.counts
        counts = sorted({min(count, available) for count in sizes})
        for count, seed in itertools.product(counts, range(seeds)):
            epochs, seconds = max(1, size.met // count), {}
            for architecture, rate in rates.items():
                run = Run(
                    f"parameters, {name}",
                    f"{architecture} {count}",
                    name,
                    count,
                    settings_of(architecture, images, rate, epochs, seed),
                )
                yield run
                seconds[architecture] = cpu_seconds(lookup(run)) / len(lookup(run)["curve"])
            for architecture in ("cnn", "mlp") if count == counts[-1] else ():
                longer = max(1, round(epochs * seconds["vit"] / seconds[architecture]))
                same = settings_of(architecture, images, rates[architecture], longer, seed)
                yield Run(f"seconds, {name}", f"{architecture} {count}", name, count, same)


def plan_factors(size: Size, seeds: int, data: Data) -> Iterator[Run]:
    """Yield runs that change one factor at a time: patch size, heads, width or epochs."""
    base, side = recipe_for(data, epochs=size.epochs), data.training.shape[1]
    factors = dict(
        patch_size=(side // 8, side // 4),
        num_heads=HEADS,
        width=WIDTHS,
        epochs=sorted({*size.other_epochs, size.epochs}),
    )
    for seed, (factor, values) in itertools.product(range(seeds), factors.items()):
        for value in values:
            settings = replace(base, **{factor: value}, seed=seed)
            yield Run(factor, f"{factor} {value}", "photographs", size.images, settings)


def best(runs: list[Run], lookup: Lookup) -> Run:
    """Return the run with the highest validation accuracy. Of equal runs, return the first."""
    return max(runs, key=lambda run: validation_accuracy(lookup(run)))


def validation_accuracy(result: dict) -> float:
    """Return the validation accuracy of the epoch whose parameters were kept."""
    return result["curve"][result["kept"] - 1]["validation_accuracy"]


def cpu_seconds(result: dict) -> float:
    """Return the CPU seconds of a run's training."""
    return sum(epoch["cpu_seconds"] for epoch in result["curve"])


# ---- a run ----------------------------------------------------------------------------------------------------------


def patience_of(settings: Settings) -> int:
    """Return how many epochs the rule waits for a lower validation loss."""
    return max(3, settings.epochs // 5)


def best_epoch(curve: list) -> int:
    """Return the number of the epoch with the lowest validation loss, from 1 on."""
    return min(curve, key=lambda epoch: epoch.validation_loss).number


def execute(run: Run, data: Data, size: Size, device: torch.device, folder: Path, show: bool = False) -> dict:
    """Train by the rule, measure once on test images, and return the result. Continues an interrupted run.

    Args:
        run: The run.
        data: Its data.
        size: How many images validate and test.
        device: Where to train.
        folder: The folder of the files that keep the run until it is finished.
        show: Whether to show a progress bar for each epoch.
    """
    training, validation = draw(data.training, run.images), draw(data.validation, size.validation)
    checkpoint, parameters = kept_in(folder, run, data)
    for model, curve in train(run.settings, training, validation, device=device, checkpoint=checkpoint, show=show):
        kept = best_epoch(curve)
        if kept == len(curve):
            torch.save(model.state_dict(), parameters)
        if len(curve) - kept >= patience_of(run.settings):
            break
    model.load_state_dict(torch.load(parameters, map_location=device, weights_only=True))
    test = draw(data.test, size.test).to(device)
    test_loss, test_accuracy = loss_and_accuracy(model, test)
    result = dict(
        data=data.name,
        images=len(training),
        settings=asdict(run.settings),
        parameters=count_parameters(model),
        precision=str(choose_precision(device)).removeprefix("torch."),
        curve=[
            {name: _short(value) for name, value in asdict(epoch).items() if name != "test_accuracy"} for epoch in curve
        ],
        kept=kept,
        test_loss=_short(test_loss),
        test_accuracy=_short(test_accuracy),
    )
    if run.group == "attention":
        result["confusion"] = confusion(model, test).tolist()
    return result


def kept_in(folder: Path, run: Run, data: Data) -> tuple[Path, Path]:
    """Return the files that keep a run until it is finished: its state, and the parameters of its best epoch."""
    stem = hashlib.sha256(json.dumps([data.name, run.key]).encode()).hexdigest()[:16]
    return folder / f"{stem}.ckpt", folder / f"{stem}.best"


def confusion(model: nn.Module, split: Images) -> Tensor:
    """Count the answers for each class, (classes, classes): a row for each class, a column for each answer."""
    counts = torch.zeros(split.num_classes, split.num_classes, dtype=torch.long)
    with torch.no_grad():
        for images, labels in split.batches(torch.arange(len(split)).split(1000)):
            answers = model.eval()(images).argmax(dim=-1)  # (B,)
            counts += (
                torch.bincount(split.num_classes * labels + answers, minlength=counts.numel()).view_as(counts).cpu()
            )
    return counts


def _short(value: object) -> object:
    return round(value, 5) if isinstance(value, float) else value


# ---- the record -----------------------------------------------------------------------------------------------------


def read_log(path: Path, head: dict) -> dict:
    """Return the record in a file, to go on with it, or a new one.

    Args:
        path: The file.
        head: What a record begins with: the command, the rule, the sizes, the names of the data, and their images.

    Raises:
        ValueError: The file holds another record, or one with other sizes or data.
    """
    head = json.loads(json.dumps(head))
    if not path.exists():
        return head | dict(machines=[], groups={}, attentions=[], runs=[])
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
        was = {what: log.get(what, head[what]) for what in ("size", "data", "images")}
        results_of(log)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path} is no record of these experiments: name another with --record") from None
    for what, kept in was.items():
        if kept != head[what]:
            raise ValueError(f"{path} was made with {what} {kept}, not {head[what]}: name another with --record")
    return log


def results_of(log: dict) -> dict[str, dict]:
    """Return the results in a record by the keys of their runs."""
    return {result["key"]: result for result in log["runs"]}


def keep(log: dict, run: Run) -> None:
    """Add a run to its group; the record has its result."""
    places = log["groups"].setdefault(run.group, {}).setdefault(run.name, [])
    place = [result["key"] for result in log["runs"]].index(run.key)
    if place not in places:
        places.append(place)


def write_log(path: Path, log: dict) -> None:
    """Write a record, completely or not at all, with one run on each line."""
    lines = [f"{json.dumps(name)}: {json.dumps(log[name], ensure_ascii=False)}" for name in log if name != "runs"]
    runs = ",\n".join(map(json.dumps, log["runs"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("{" + ",\n".join(lines) + ',\n"runs": [\n' + runs + "\n]}\n", encoding="utf-8")
    part.replace(path)


# ---- the command ----------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def load_all(photographs: str, digits: str, five: str | None, image_size: int) -> dict[str, Data]:
    """Load the three data sets: photographs, digits, and five classes, by default classes of the photographs."""
    data = dict(photographs=load_images(photographs, image_size), digits=load_images(digits))
    if five:
        data["five"] = load_images(five, image_size)
    else:
        classes = data["photographs"].classes
        names = FIVE if set(FIVE) <= set(classes) else classes[:5]
        data["five"] = some_classes(data["photographs"], names, 1500, 500)
    return data


@app.command(help=__doc__)
def main(
    data: Annotated[
        str, typer.Option(help="The photographs: cifar10, or a folder with train/CLASS, test/CLASS.")
    ] = "cifar10",
    digits: Annotated[str, typer.Option(help="mnist, or digits: the stand-in.")] = "mnist",
    five: Annotated[
        str | None, typer.Option(help="A folder of five classes, such as solutions.training.coco5 makes.")
    ] = None,
    image_size: Annotated[
        int, typer.Option(min=8, help="Pixels of a side, for a folder's images: a multiple of 8.")
    ] = 32,
    night: Annotated[
        bool, typer.Option("--night", help="More images and epochs: more than two hours of one core.")
    ] = False,
    budget: Annotated[
        float | None, typer.Option(help="Stop after this many CPU minutes; call again to continue.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the CPU.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    record: Annotated[Path, typer.Option(help="The record; an existing one is continued.")] = Path("experiments.json"),
    checkpoints: Annotated[Path, typer.Option(help="Where the unfinished run is stored.")] = Path("build/experiments"),
) -> None:
    """Make every run of the chapter on experiments, one after the other, and its record. Continues where it was stopped."""
    torch.set_num_threads(threads)
    size = NIGHT if night else Size()
    stand_in = dict(curve=[dict(cpu_seconds=1.0, validation_accuracy=0.0)], kept=1)
    head = dict(command="python -m solutions.training.experiments" + " --night" * night, rule=RULE, size=asdict(size))
    try:
        where = choose_device(device)
        check_can_be_written(record, checkpoints / "run.ckpt")
        loaded = load_all(data, digits, five, image_size)
        counts = [len(each.training) + len(each.validation) + len(each.test) for each in loaded.values()]
        log = read_log(record, head | dict(data=[each.name for each in loaded.values()], images=counts))
        total = len({run.key for run in plan(size, seeds, loaded, lambda _: stand_in)})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    began, results = sum(os.times()[:2]), results_of(log)
    for run in plan(size, seeds, loaded, lambda run: results[run.key]):
        if run.key in results:
            keep(log, run)
            continue
        if budget is not None and sum(os.times()[:2]) - began >= 60 * budget:
            write_log(record, log)
            out.print(f"{budget:g} CPU minutes are spent. Call the same command again to go on.")
            return
        try:
            result = execute(run, loaded[run.data], size, where, checkpoints, show=out.is_terminal)
        except ValueError as error:  # the run was begun on other images
            raise typer.BadParameter(str(error)) from None
        machine = describe_machine(where)
        del machine["load"]  # the load differs in every run
        if machine not in log["machines"]:
            log["machines"].append(machine)
        results[run.key] = dict(key=run.key, machine=log["machines"].index(machine), **result)
        log["runs"].append(results[run.key])
        keep(log, run)
        write_log(record, log)
        for path in kept_in(checkpoints, run, loaded[run.data]):
            path.unlink(missing_ok=True)  # the record has the run now
        out.print(
            f"{len(results):3} of about {total}  {run.group}: {run.name}  seed {run.settings.seed}"
            f"  {len(result['curve'])} epochs  CPU {cpu_seconds(result):.1f} s"
            f"  validation {validation_accuracy(result):.1%}  test {result['test_accuracy']:.1%}",
            highlight=False,
            soft_wrap=True,
        )
    if not log["attentions"]:
        log["attentions"] = compare_attentions(recipe_for(loaded["five"], optimizer="adamw"), loaded["five"].training)
    write_log(record, log)


if __name__ == "__main__":
    app()

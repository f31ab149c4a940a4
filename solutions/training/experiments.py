"""Make a record of book/records/ again: `python -m solutions.training.experiments --help`.

plans.py says what is run. A record is written after each run: after an interruption, call the same command again to
continue with the run that was interrupted.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from torch import nn

from solutions.training import plans
from solutions.training.architectures import compare_attentions
from solutions.training.checkpoints import check_can_be_written
from solutions.training.data import MEAN, STD, draw, load_images, some_classes
from solutions.training.plain_recipe import compare
from solutions.training.plans import Plan, Run
from solutions.training.record import Record, choose_device, place_of, read_records, write_json, write_record
from solutions.training.settings import Settings
from solutions.training.text import load_text
from solutions.training.train import loss_and_accuracy, train
from solutions.training.wrong_digits import confusion, write_mistakes

FIVE = ["airplane", "automobile", "cat", "dog", "ship"]  # classes of CIFAR-10; of other photographs, the first five
out = Console()


@dataclass(frozen=True)
class Options:
    """What the command was asked for; `main` says what each means."""

    seeds: int
    night: bool
    photographs: str
    digits: str
    image_size: int
    device: torch.device
    records: Path


# ---- runs -----------------------------------------------------------------------------------------------------------


def execute(run: Run, device: torch.device) -> tuple[Record, nn.Module]:
    """Train, measure on the test images, and return the record and the model."""
    training = run.data.training if run.images is None else draw(run.data.training, run.images)
    patience = max(3, run.settings.epochs // 5)
    for model, curve in train(run.settings, training, run.data.validation, device=device, show=out.is_terminal):
        kept = min(curve, key=lambda epoch: epoch.validation_loss).number if run.stops else len(curve)
        if kept == len(curve):
            parameters = deepcopy(model.state_dict())
        if len(curve) - kept >= patience:
            break
    model.load_state_dict(parameters)
    evidence = *place_of(device), [asdict(epoch) for epoch in curve]
    images = run.data.facts() | dict(training=len(training))
    record = Record(run.name, asdict(run.settings), run.data.name, *evidence, None, None, images, run.group, kept)
    if run.tested:
        test = run.data.test.to(device)
        loss, accuracy = loss_and_accuracy(model, test)
        counts = confusion(model, test).tolist() if run.group == "attention" else None
        record = replace(record, test_loss=loss, test_accuracy=accuracy, confusion=counts)
    return record, model


def run_all(options: Options, name: str, plan: Plan, again: bool = False) -> tuple[Record, nn.Module] | None:
    """Make the runs of a plan that its record lacks, and write the record.

    Args:
        options: The options.
        name: The name of the record's file.
        plan: The plan.
        again: Make also the runs that the record has.

    Returns:
        The new run with the highest validation accuracy, the first of equal ones, and its model; None if none is new.

    Raises:
        ValueError: The file holds another record.
    """
    path, record, best = options.records / f"{name}.json", None, None
    done = [] if again else read_records(path)
    while run := _next(plan, record):
        if same := next((each for each in done if is_of(each, run)), None):
            record = replace(same, group=run.group, name=run.name)
            done += [record] * (record not in done)
            continue
        if any(
            (each.group, each.name, each.settings["seed"]) == (run.group, run.name, run.settings.seed) for each in done
        ):
            raise ValueError(f"{path} has {run.name} with other images or settings: name another folder")
        record, model = execute(run, options.device)
        if best is None or record.validation_accuracy > best[0].validation_accuracy:
            best = record, model
        done.append(record)
        if not again:  # else the old record stays until all runs are made
            write_record(path, *done)
        say(len(done), record)
    write_record(path, *done)
    return best


def _next(plan: Plan, record: Record | None) -> Run | None:
    try:
        return plan.send(record)
    except StopIteration:
        return None


def is_of(record: Record, run: Run) -> bool:
    """Whether a record is of a run, or of one that differs only in group and name. Older records count no images."""
    available = len(run.data.training)
    counts = min(available, run.images or available), len(run.data.validation), len(run.data.test)
    theirs = record.images and tuple(record.images[part] for part in ("training", "validation", "test"))
    same_data = record.data == run.data.name and theirs in (None, counts)
    return same_data and Settings(**record.settings) == run.settings


def say(number: int, record: Record) -> None:
    """Print a line about a finished run."""
    seed, epochs, seconds = record.settings["seed"], len(record.curve), record.cpu_seconds
    text = f"{number:3}  {record.group} {record.name}  seed {seed}  {epochs} epochs  CPU {seconds:.1f} s"
    test = "" if record.test_accuracy is None else f"  test {record.test_accuracy:.1%}"
    out.print(f"{text}  validation {record.validation_accuracy:.1%}{test}", highlight=False, soft_wrap=True)


# ---- the experiments: one function for each, named as its record ----------------------------------------------------


def photographs(options: Options) -> None:
    """The chapter on experiments; attentions.json shows how far two implementations of attention drift apart."""
    data = dict(photographs=load_images(options.photographs, options.image_size), digits=load_images(options.digits))
    classes = data["photographs"].classes
    names = FIVE if set(FIVE) <= set(classes) else classes[:5]
    data["five"] = some_classes(data["photographs"], names, 1500, 500)
    size = plans.NIGHT if options.night else plans.Size()
    run_all(options, "photographs", plans.of_photographs(size, options.seeds, data))
    drift = options.records / "attentions.json"
    if not drift.exists():
        settings = plans.recipe_for(data["five"], optimizer="adamw")
        write_json(drift, compare_attentions(settings, data["five"].training))


def ablation(options: Options) -> None:
    """The recipe with one setting changed at a time, for one epoch, measured on the validation split."""
    changed = {name: replace(plans.SHORT, epochs=1, **changes) for name, changes in plans.CHANGES.items()}
    data = plans.first_images(load_images(options.digits), 27_500)
    run_all(options, "ablation", plans.one_at_a_time(changed, data, options.seeds, tested=False))


def wrong_attention(options: Options) -> None:
    """Right and wrong attention: does the accuracy show the mistake?"""
    base = Settings(optimizer="adamw")  # Muon needs PyTorch's layers
    changed = {name: replace(base, architecture=architecture) for name, architecture in plans.ATTENTIONS.items()}
    data = plans.first_images(load_images(options.digits), 10_000)
    run_all(options, "wrong_attention", plans.one_at_a_time(changed, data, options.seeds))


def comparison(options: Options) -> None:
    """A plain recipe and ours side by side."""
    compare(options.records / "comparison.json", load_images(options.digits), options.seeds, options.device, out)


def long(options: Options) -> None:
    """The recipe; also vit_mnist.pt, the weights of the best seed on the validation split, and what it gets wrong."""
    data = load_images(options.digits)
    plan = plans.one_at_a_time({"long": Settings()}, data, options.seeds)
    record, model = run_all(options, "long", plan, again=True)
    torch.save(model.cpu().state_dict(), options.records / "vit_mnist.pt")
    write_mistakes(options.records, model, data.test, record.settings["seed"])


def decoder_pages(options: Options) -> None:
    """The decoder on pages.txt; also decoder_pages.pt, the weights of the best seed on the validation split."""
    data = load_text(options.records / "pages.txt")
    plan = plans.one_at_a_time({"decoder": replace(Settings(), epochs=6, **data.settings)}, data, options.seeds)
    _, model = run_all(options, "decoder_pages", plan, again=True)
    torch.save(model.cpu().half().state_dict(), options.records / "decoder_pages.pt")


def digits(options: Options) -> None:
    """The first 500 validation images of MNIST, in digits.npz, so that every build of the book uses the same images."""
    kept = load_images("mnist").validation
    pixels = ((kept.images[:500, 0] * STD + MEAN) * 255).round().byte()  # (500, 28, 28)
    np.savez_compressed(options.records / "digits.npz", images=pixels.numpy(), labels=kept.labels[:500].byte().numpy())


EXPERIMENTS: dict[str, Callable[[Options], None]] = {
    each.__name__: each for each in (photographs, comparison, ablation, wrong_attention, long, decoder_pages, digits)
}
Name = Enum("Name", {name: name for name in EXPERIMENTS})
HELP = "\n\n".join([__doc__, *(f"{name}: {each.__doc__}" for name, each in EXPERIMENTS.items())])
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=HELP)
def main(
    name: Annotated[Name, typer.Argument(help="The record.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the CPU.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    digits: Annotated[str, typer.Option(help="mnist, or digits: the stand-in.")] = "mnist",
    photographs: Annotated[str, typer.Option(help="cifar10, or a folder with train/CLASS, test/CLASS.")] = "cifar10",
    image_size: Annotated[int, typer.Option(min=8, help="Pixels of a side, in a folder: a multiple of 8.")] = 32,
    night: Annotated[bool, typer.Option("--night", help="More images and epochs of photographs.")] = False,
    records: Annotated[Path, typer.Option(help="Where the records go.")] = Path("book/records"),
) -> None:
    """Make a record."""
    torch.set_num_threads(threads)
    try:
        check_can_be_written(records / f"{name.value}.json")
        where = choose_device(device)
        EXPERIMENTS[name.value](Options(seeds, night, photographs, digits, image_size, where, records))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


if __name__ == "__main__":
    app()

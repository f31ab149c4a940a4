"""What the recorded experiments run.

The rule, written before the first run of the experiments on photographs. A run learns from training images and stops
when its loss on the validation images has not fallen below its best for a fifth of the planned epochs, and at least
three. Its parameters are those of the epoch with the best such loss. Among settings the validation accuracy of that
epoch decides. The test images are looked at once for each finished run, after that, and decide nothing.
"""

import itertools
from collections.abc import Generator
from dataclasses import dataclass, replace

from solutions.training.architectures import count_parameters, fit_width, make_model
from solutions.training.data import Data, draw
from solutions.training.record import Record
from solutions.training.settings import Settings

HEADS, WIDTHS, RATES = (1, 2, 4, 8), (32, 64, 128, 256), (1e-3, 3e-3, 1e-2)
RATE_SEED = 100  # a separate seed, so that the compared runs do not choose the rates
SHORT = Settings(epochs=2, shift=0.0, rotation=0.0)  # such a short run sees each image twice, and needs no augmentation
CHANGES = {  # changes to the recipe; each run makes one
    "the recipe": {},
    "positions as ViT() draws them": dict(position_std=0.02),
    "AdamW for all": dict(optimizer="adamw"),
    "no warm-up": dict(warmup=0.0),
    "no decay": dict(decay=False),
    "no clipping": dict(clip=1e9),
    "shifts and rotations": dict(shift=2.0, rotation=10.0),
    "batches of 512": dict(batch_size=512),
    "half of the patches for half of the steps": dict(dropped_share=0.5, dropped_until=0.5),
}
ATTENTIONS = {  # name of a run → architecture
    "right": "einsum",
    "M6 softmax over the queries": "M6",
    "M7 scaled after the softmax": "M7",
    "M9 scaled by the full width": "M9",
    "M25 softmax over the heads": "M25",
}


@dataclass(frozen=True)
class Run:
    """A run of an experiment. Runs that differ only in group and name are one run."""

    group: str
    name: str
    data: Data
    settings: Settings
    images: int | None = None  # training images, at most; None: all
    stops: bool = False  # whether it stops by the rule
    tested: bool = True  # whether it is measured on the test images, once, at the end


Plan = Generator[Run, Record, None]  # yields runs, and gets the record of each before the next: some depend on it


def first_images(data: Data, count: int) -> Data:
    """Return the data with only the first images for training."""
    first = data.training.part(slice(count))
    return replace(data, name=f"{data.name}, the first {len(first)} training images", training=first)


def one_at_a_time(changed: dict[str, Settings], data: Data, seeds: int, tested: bool = True) -> Plan:
    """Yield a run with each of the settings, seed by seed."""
    for seed, (name, settings) in itertools.product(range(seeds), changed.items()):
        yield Run("", name, data, replace(settings, seed=seed), tested=tested)


# ---- the experiments on photographs ---------------------------------------------------------------------------------


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


def recipe_for(data: Data, **changes: object) -> Settings:
    """Return the book's recipe with the sizes of the course work's model: 16 patches, width 64, 4 heads, 4 blocks."""
    sizes = dict(patch_size=data.training.shape[1] // 4, width=64, num_heads=4, depth=4)
    return replace(Settings(), **(data.settings | sizes | changes))


def course_work(data: Data, epochs: int) -> Settings:
    """Return the recipe of the course work: AdamW at a constant rate, dropout, crops and flips, small positions."""
    plain = dict(optimizer="adamw", adamw_rate=1e-3, warmup=0.0, decay=False, clip=1e9, batch_size=64)
    return recipe_for(data, epochs=epochs, dropout=0.1, position_std=0.02, **plain)


def of_photographs(size: Size, seeds: int, data: dict[str, Data]) -> Plan:
    """Yield every run of the chapter on experiments.

    Args:
        size: The amount of work.
        seeds: How many seeds, from 0 on.
        data: photographs, digits, and five: five classes.
    """
    data = {
        name: replace(each, validation=draw(each.validation, size.validation), test=draw(each.test, size.test))
        for name, each in data.items()
    }
    photographs, five = data["photographs"], data["five"]
    course = {
        "plain": course_work(photographs, size.course_epochs),
        "recipe": recipe_for(photographs, epochs=size.recipe_epochs),
    }
    for seed, (name, settings) in itertools.product(range(seeds), course.items()):
        yield Run("course work", name, photographs, replace(settings, seed=seed), size.course_images, stops=True)
    yield from _architectures(size, seeds, data)
    settings = recipe_for(five, epochs=size.five_epochs, optimizer="adamw")
    for seed, attention in itertools.product(range(seeds), ("einsum", "loop", "M6")):
        chosen = replace(settings, architecture=attention, seed=seed)
        yield Run("attention", attention, five, chosen, size.five_images, stops=True)
    base, side = recipe_for(photographs, epochs=size.epochs), photographs.training.shape[1]
    factors = dict(
        patch_size=(side // 8, side // 4),
        num_heads=HEADS,
        width=WIDTHS,
        epochs=sorted({*size.other_epochs, size.epochs}),
    )
    for seed, (factor, values) in itertools.product(range(seeds), factors.items()):
        for value in values:
            settings = replace(base, **{factor: value}, seed=seed)
            yield Run(factor, f"{factor} {value}", photographs, settings, size.images, stops=True)


def _architectures(size: Size, seeds: int, data: dict[str, Data]) -> Plan:
    """Yield ViT, CNN and MLP, each at its own best rate: with equal parameters and steps, then with equal seconds."""

    def settings_of(architecture: str, images: Data, rate: float, epochs: int, seed: int) -> Settings:
        vit = recipe_for(images, optimizer="adamw", adamw_rate=rate, epochs=epochs, seed=seed)
        if architecture == "vit":
            return vit
        other = replace(vit, architecture=architecture, num_heads=1)
        return replace(
            other, width=fit_width(other, images.training, count_parameters(make_model(vit, images.training)))
        )

    rates, count = {}, size.counts[len(size.counts) // 2]
    for architecture in ("vit", "cnn", "mlp"):
        accuracies = {}
        for rate in RATES:
            settings = settings_of(architecture, data["photographs"], rate, max(1, size.met // count), RATE_SEED)
            name = f"{architecture} {rate:g}"
            record = yield Run("rates", name, data["photographs"], settings, count, stops=True)
            accuracies[rate] = record.validation_accuracy
        rates[architecture] = max(accuracies, key=accuracies.get)  # the first of equal ones
    for name, images in data.items():
        sizes = [size.five_images] if name == "five" else size.counts
        counts = sorted({min(count, len(images.training)) for count in sizes})
        for count, seed in itertools.product(counts, range(seeds)):
            epochs, seconds = max(1, size.met // count), {}
            for architecture, rate in rates.items():
                settings = settings_of(architecture, images, rate, epochs, seed)
                run = Run(f"parameters, {name}", f"{architecture} {count}", images, settings, count, stops=True)
                record = yield run
                seconds[architecture] = record.cpu_seconds / len(record.curve)
            for architecture in ("cnn", "mlp") if count == counts[-1] else ():
                longer = max(1, round(epochs * seconds["vit"] / seconds[architecture]))
                settings = settings_of(architecture, images, rates[architecture], longer, seed)
                yield Run(f"seconds, {name}", f"{architecture} {count}", images, settings, count, stops=True)

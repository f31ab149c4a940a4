"""Compare the recipe of `solutions.training.recipe` with a plain recipe, and measure the effect of each change.

`python -m solutions.training.benchmark --help`. Runs are written to book/records/, which the chapters read. The
comparison measures on the test set after each epoch, to stop its clock. It was planned in advance, and no choice
depends on these measurements.
"""

import hashlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from PIL import Image
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from solutions.training.data import MEAN, STD, Data, Split, load_digits, load_mnist
from solutions.training.recipe import loss_and_accuracy, train
from solutions.training.record import Epoch, Record, choose_device, choose_precision, describe_machine, write_record
from solutions.training.settings import Settings
from solutions.training.t4 import estimate_t4
from solutions.training.text import load_text
from solutions.vit import ViT, evaluate

GOAL = 0.98  # share of right test images at which the clock stops
PLAIN_EPOCHS = 12  # the most epochs of the plain recipe
RECORDS = Path("book/records")
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
out = Console()
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

SeedsOption = Annotated[int, typer.Option(help="How many seeds, from 0 on.")]
ThreadsOption = Annotated[int, typer.Option(help="Threads of the CPU, the same for all.")]
RecordsOption = Annotated[Path, typer.Option("--records", help="Where the records go.")]
DigitsOption = Annotated[bool, typer.Option("--digits", help="Use scikit-learn's digits instead of MNIST.")]


# ---- the plain recipe -----------------------------------------------------------------------------------------------


class Images(Dataset):
    """Images that become tensors one by one, as in torchvision's MNIST with ToTensor."""

    def __init__(self, *splits: Split) -> None:
        from torchvision.transforms import ToTensor

        images = torch.cat([split.images[:, 0] for split in splits]) * STD + MEAN  # (B, 28, 28), in [0, 1]
        self.pixels = (255 * images).round().to(torch.uint8).numpy()
        self.labels, self.transform = torch.cat([split.labels for split in splits]).tolist(), ToTensor()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index])), self.labels[index]


def train_plainly(data: Dataset, epochs: int, seed: int, device: torch.device) -> Iterator[tuple[ViT, list[Epoch]]]:
    """Train in a plain way: a DataLoader, ToTensor for each image, Adam, and .item() after every step."""
    torch.manual_seed(seed)
    model = ViT().to(device)
    loader = DataLoader(data, batch_size=128, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    curve = []
    for number in range(1, epochs + 1):
        began, cpu_began, loss_sum, right = time.perf_counter(), time.process_time(), 0.0, 0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            scores = model(images)  # (B, number of classes)
            loss = F.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
            right += (scores.argmax(dim=-1) == labels).sum().item()
        schedule.step()
        clocks = time.perf_counter() - began, time.process_time() - cpu_began
        curve = [*curve, Epoch(number, *clocks, loss_sum / len(data), right / len(data), None, None)]
        yield model, curve


# ---- side by side ---------------------------------------------------------------------------------------------------


def compare(seed: int, epochs: int, device: torch.device, data: Data) -> Iterator[list[Record]]:
    """Run both recipes in one process, with epochs in turn, until both are done.

    The plain recipe learns from all 60,000 images until its test accuracy reaches the goal, for at most `epochs`
    epochs. The recipe of this book is planned for the epochs of SHORT, and does not learn from the validation split.
    Both are measured on the test set after each epoch. These measurements do not count in their times.

    Yields:
        The record of each recipe so far, after each epoch.
    """
    training, validation, test = data.training, data.validation, data.test
    settings = replace(SHORT, seed=seed)
    plain_settings = dict(epochs=epochs, batch_size=128, optimizer="adam", rate=1e-3, decay_per_epoch=0.95, seed=seed)
    running = {
        "plain": train_plainly(Images(training, validation), epochs, seed, device),
        "short": train(settings, training, validation, device=device),
    }
    test = test.to(device)
    seen = {"plain": Split(test.images * STD + MEAN, test.labels), "short": test}  # plain: not normalised
    precisions = {"plain": torch.float32, "short": choose_precision(device)}
    machine = describe_machine(device)
    records = {
        recipe: Record(recipe, chosen, data.name, machine, str(precisions[recipe]).removeprefix("torch."), [])
        for recipe, chosen in (("plain", plain_settings), ("short", asdict(settings)))
    }
    while running:
        for recipe, runs in list(running.items()):
            model, curve = next(runs, (None, None))
            if model is None:
                del running[recipe]
                continue
            _, share = evaluate(model, zip(seen[recipe].images.split(1000), seen[recipe].labels.split(1000)))
            epoch = replace(curve[-1], test_accuracy=share)
            records[recipe].curve.append(asdict(epoch))
            _say(recipe, seed, epoch)
            yield list(records.values())
            if recipe == "plain" and share >= GOAL:
                del running[recipe]


def _say(recipe: str, seed: int, epoch: Epoch) -> None:
    validation = "" if epoch.validation_accuracy is None else f"  validation {epoch.validation_accuracy:.2%}"
    test = "" if epoch.test_accuracy is None else f"  test {epoch.test_accuracy:.2%}"
    clocks = f"{epoch.seconds:6.1f} s  (CPU {epoch.cpu_seconds:6.1f} s)"
    out.print(
        f"{recipe}  seed {seed}  epoch {epoch.number:2}  {clocks}  loss {epoch.loss:.4f}{validation}{test}",
        highlight=False,
    )


# ---- the commands ---------------------------------------------------------------------------------------------------


def _data(digits: bool) -> Data:
    return load_digits() if digits else load_mnist()


def _read(path: Path) -> list[Record]:
    return [Record(**record) for record in json.loads(path.read_text())] if path.exists() else []


@app.command("compare")
def compare_command(
    seeds: SeedsOption = 3,
    threads: ThreadsOption = 2,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    records: RecordsOption = RECORDS,
    digits: DigitsOption = False,
) -> None:
    """Run the plain recipe and ours side by side, and write comparison.json (on a GPU, comparison_gpu.json)."""
    torch.set_num_threads(threads)
    where = choose_device(device)
    data = _data(digits)
    path = records / ("comparison_gpu.json" if where.type == "cuda" else "comparison.json")
    runs = []
    for seed in range(seeds):
        for pair in compare(seed, PLAIN_EPOCHS, where, data):
            write_record(path, *runs, *pair)  # an interruption loses no finished measurement
        runs += pair


@app.command()
def ablate(
    seeds: SeedsOption = 3,
    threads: ThreadsOption = 2,
    records: RecordsOption = RECORDS,
    digits: DigitsOption = False,
) -> None:
    """Change one setting at a time, measure on the validation split, and write ablation.json. Continues an interrupted run."""
    torch.set_num_threads(threads)
    settings = {name: replace(SHORT, epochs=1, **changes) for name, changes in CHANGES.items()}
    _one_at_a_time(records / "ablation.json", settings, _data(digits), seeds, images=27_500)


@app.command("wrong")
def wrong_command(
    seeds: SeedsOption = 5,
    threads: ThreadsOption = 1,
    records: RecordsOption = RECORDS,
    digits: DigitsOption = False,
) -> None:
    """Train with wrong attention, and write wrong_attention.json: does accuracy show it? Continues an interrupted run."""
    torch.set_num_threads(threads)
    base = Settings(optimizer="adamw")  # Muon needs PyTorch's layers
    settings = {name: replace(base, architecture=architecture) for name, architecture in ATTENTIONS.items()}
    _one_at_a_time(records / "wrong_attention.json", settings, _data(digits), seeds, images=10_000, tested=True)


def _one_at_a_time(
    path: Path, changed: dict[str, Settings], data: Data, seeds: int, images: int, tested: bool = False
) -> None:
    """Train with each of the changed settings, seed by seed, on the first images. Keep runs, and skip kept ones.

    Args:
        path: The file of the record.
        changed: The settings by name.
        data: Training, validation and test images.
        seeds: The number of seeds, from 0 on.
        images: The number of training images to learn from.
        tested: Whether to measure on the test images, once, after the last epoch.
    """
    training = Split(data.training.images[:images], data.training.labels[:images])
    done = _read(path)
    for seed in range(seeds):
        for name, settings in changed.items():
            settings = replace(settings, seed=seed)
            if any(record.name == name and Settings(**record.settings) == settings for record in done):
                continue
            *_, (model, curve) = train(settings, training, data.validation)
            machine, epochs = describe_machine(torch.device("cpu")), [asdict(epoch) for epoch in curve]
            what = f"{data.name}, the first {len(training)} training images"
            measured = loss_and_accuracy(model, data.test) if tested else ()
            done.append(Record(name, asdict(settings), what, machine, "float32", epochs, *measured))
            write_record(path, *done)
            _say(name, seed, curve[-1])


def _train_seeds(
    name: str, settings: Settings, data: Data, seeds: int, device: str, checkpoints: Path
) -> tuple[list[Record], nn.Module, int]:
    """Train with each seed, or continue its run. Return the records, the best model on the validation split, and its seed."""
    where, runs, models = choose_device(device), [], []
    precision = str(choose_precision(where)).removeprefix("torch.")
    checkpoints.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        settings, kept = replace(settings, seed=seed), checkpoints / f"{name}_{seed}.ckpt"
        for model, curve in train(settings, data.training, data.validation, device=where, checkpoint=kept, show=True):  # noqa: B007
            _say(name, seed, curve[-1])
        measured = *loss_and_accuracy(model, data.test.to(where)), data.facts()  # once, at the end
        epochs = [asdict(epoch) for epoch in curve]
        runs.append(Record(name, asdict(settings), data.name, describe_machine(where), precision, epochs, *measured))
        models.append(model.cpu())
    best = max(range(seeds), key=lambda seed: (runs[seed].curve[-1]["validation_accuracy"], -seed))
    return runs, models[best], best


@app.command("train")
def train_command(
    seeds: SeedsOption = 3,
    threads: ThreadsOption = 2,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    records: RecordsOption = RECORDS,
    checkpoints: Annotated[Path, typer.Option(help="Where runs are kept after each epoch.")] = Path("build"),
    digits: DigitsOption = False,
) -> None:
    """Make weights and records again: long.json, vit_mnist.pt of the best seed on the validation split, and mistakes.json."""
    torch.set_num_threads(threads)
    data = _data(digits)
    runs, model, best = _train_seeds("long", Settings(), data, seeds, device, checkpoints)
    write_record(records / "long.json", *runs)
    torch.save(model.state_dict(), records / "vit_mnist.pt")
    write_mistakes(records, model, data.test, best)


@app.command("decoder")
def decoder_command(seeds: SeedsOption = 3, threads: ThreadsOption = 2, records: RecordsOption = RECORDS) -> None:
    """Train the decoder on pages.txt: decoder_pages.json, and decoder_pages.pt of the best seed on the validation split."""
    torch.set_num_threads(threads)
    data = load_text(records / "pages.txt")
    settings = replace(Settings(), epochs=6, **data.settings)
    runs, model, _ = _train_seeds("decoder", settings, data, seeds, "cpu", Path("build"))
    write_record(records / "decoder_pages.json", *runs)
    torch.save(model.half().state_dict(), records / "decoder_pages.pt")


def write_mistakes(records: Path, model: ViT, test: Split, seed: int) -> None:
    """Write mistakes.json: a model's answers for each class, and the test images that it gets wrong, without their pixels."""
    with torch.no_grad():
        probabilities = torch.cat(
            [model.eval()(images).softmax(dim=-1) for images in test.images.split(1000)]
        )  # (B, 10)
    guesses = probabilities.argmax(dim=-1)  # (B,)
    confusion = torch.bincount(10 * test.labels + guesses, minlength=100).view(10, 10)
    wrong = (guesses != test.labels).nonzero()[:, 0].tolist()
    mistakes = dict(
        weights=hashlib.sha256((records / "vit_mnist.pt").read_bytes()).hexdigest(),
        seed=seed,
        images=len(test),
        confusion=confusion.tolist(),  # a row for each class, a column for each answer
        wrong=[
            dict(index=i, label=int(test.labels[i]), probabilities=[round(float(p), 6) for p in probabilities[i]])
            for i in wrong
        ],
    )
    (records / "mistakes.json").write_text(json.dumps(mistakes, indent=1) + "\n")
    draw_mistakes(records / "wrong_digits.png", mistakes["wrong"], test)


def draw_mistakes(path: Path, wrong: list[dict], test: Split) -> None:
    """Draw the test images that a model gets wrong, at most the 60 surest mistakes: a figure for the chapter."""
    from matplotlib.figure import Figure

    columns = 10
    rows = max(1, min(6, math.ceil(len(wrong) / columns)))
    figure = Figure(figsize=(columns, 1.25 * rows), layout="constrained")
    surest = sorted(wrong, key=lambda image: -max(image["probabilities"]))
    axes = list(figure.subplots(rows, columns).flat)
    for axis in axes:
        axis.axis("off")
    for axis, image in zip(axes, surest):
        sure = max(image["probabilities"])
        axis.imshow(test.images[image["index"], 0].numpy(), cmap="gray_r", interpolation="nearest")
        axis.set_title(f"{image['label']} → {image['probabilities'].index(sure)}  {sure:.2f}", fontsize=10)
    figure.savefig(path, dpi=100, metadata={"Software": None})


@app.command()
def keep(records: RecordsOption = RECORDS, count: int = 500) -> None:
    """Keep the first validation images of MNIST in digits.npz, so that every build of the book uses the same images."""
    kept = load_mnist().validation
    pixels = ((kept.images[:count, 0] * STD + MEAN) * 255).round().byte()  # (n, 28, 28)
    np.savez_compressed(records / "digits.npz", images=pixels.numpy(), labels=kept.labels[:count].byte().numpy())


@app.command()
def estimate(records: RecordsOption = RECORDS) -> None:
    """Count the work of a step, estimate an epoch's time on a T4, and write t4.json. An estimate, not a measurement."""
    estimates = [estimate_t4(replace(Settings(), batch_size=size)) for size in (128, 256, 512)]
    records.mkdir(parents=True, exist_ok=True)
    (records / "t4.json").write_text(json.dumps(estimates, indent=1) + "\n")


if __name__ == "__main__":
    app()

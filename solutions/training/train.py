"""Train the Vision Transformer, from the data to the weights: `python -m solutions.training.train --help`.

The loop comes first, then what it calls, then the command.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from rich.progress import track
from torch import Tensor, nn
from torch.optim import Optimizer

from solutions.training.architectures import make_model
from solutions.training.checkpoints import check_can_be_written, glimpse, keep, resume
from solutions.training.data import Split, load_images
from solutions.training.fast_vit import scores_of
from solutions.training.optimizers import make_optimizers
from solutions.training.record import Epoch, Record, choose_device, choose_precision, place_of, write_record
from solutions.training.settings import Settings, change_settings
from solutions.training.text import load_text
from solutions.vit import evaluate


def train(
    settings: Settings,
    training: Split,
    validation: Split,
    *,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    show: bool = False,
) -> Iterator[tuple[nn.Module, list[Epoch]]]:
    """Train a model. After each epoch, yield the model and all epochs so far. A continued run first yields its state.

    Args:
        settings: The recipe.
        training: The images to learn from.
        validation: Images to monitor the run.
        device: Where to train; the data are moved there once.
        checkpoint: File that keeps the run's state after each epoch. If it exists, the run continues from there, and ends
            as it would have ended without interruption.
        show: Whether to show a progress bar.

    Raises:
        ValueError: The checkpoint belongs to a run with other settings or images, or holds no run.
    """
    device = torch.device(device)
    training, validation = training.to(device), validation.to(device)
    torch.manual_seed(settings.seed)
    model = make_model(settings, training).to(device)
    generator = torch.Generator(device).manual_seed(settings.seed)  # draws the images' order and the augmentation
    optimizers = make_optimizers(model, settings)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    precision = choose_precision(device)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == torch.float16)
    parts = dict(model=model, scaler=scaler, **{f"optimizer {i}": each for i, each in enumerate(optimizers)})
    run = dict(settings=asdict(settings), images=glimpse(training)) if checkpoint else {}
    curve = []
    if checkpoint and checkpoint.exists():
        curve = [Epoch(**epoch) for epoch in resume(checkpoint, run, parts, generator)]
        yield model, curve

    per_epoch = math.ceil(len(training) / settings.batch_size)
    steps = settings.epochs * per_epoch
    for number in range(len(curve) + 1, settings.epochs + 1):
        began, cpu_began, loss_sum, right, seen = time.perf_counter(), time.process_time(), 0.0, 0, 0
        if settings.dropout:
            torch.manual_seed(1000 * settings.seed + number)  # a continued run drops the same numbers
        order = torch.randperm(len(training), device=device, generator=generator).split(settings.batch_size)
        batches = track(training.batches(order), f"epoch {number} of {settings.epochs}", per_epoch, disable=not show)
        # images (B, C, H, W), labels (B,); of texts (B, N), (B N,)
        for step, (images, labels) in enumerate(batches, (number - 1) * per_epoch):
            _set_rates(optimizers, peaks, rate_at(step, steps, settings))
            kept = _some_patches(model, settings, generator) if step < settings.dropped_until * steps else None
            if settings.shift or settings.rotation or settings.flip:
                amounts = dict(shift=settings.shift, rotation=settings.rotation, flip=settings.flip)
                images = augment(images, **amounts, generator=generator)
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                scores = scores_of(model, images, kept).flatten(0, -2)  # (number of labels, number of classes)
            loss = F.cross_entropy(scores.float(), labels, label_smoothing=settings.label_smoothing)
            _step(loss, model, optimizers, scaler, settings.clip)
            loss_sum += loss.detach() * len(labels)  # stays on the device: .item() would wait for every step
            right += (scores.argmax(dim=-1) == labels).sum()
            seen += len(labels)
        loss, share = float(loss_sum) / seen, int(right) / seen  # waits for the device
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        curve = [*curve, Epoch(number, seconds, cpu_seconds, loss, share, *loss_and_accuracy(model, validation))]
        if checkpoint:
            keep(checkpoint, run, parts, generator, [asdict(epoch) for epoch in curve])
        yield model, curve


def _set_rates(optimizers: list[Optimizer], peaks: list[list[float]], share: float) -> None:
    """Set each learning rate to a share of its peak."""
    for optimizer, rates in zip(optimizers, peaks):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * share


def _some_patches(model: nn.Module, settings: Settings, generator: torch.Generator) -> Tensor:
    """Draw the patches that are used: (K,)."""
    patches = model.position_embedding.shape[1] - 1
    shuffled = torch.randperm(patches, device=generator.device, generator=generator)
    return shuffled[: round(patches * (1 - settings.dropped_share))]


def _step(
    loss: Tensor, model: nn.Module, optimizers: list[Optimizer], scaler: torch.amp.GradScaler, clip: float
) -> None:
    """Take one step of all optimizers down the clipped gradient."""
    model.zero_grad()
    scaler.scale(loss).backward()
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()


def augment(images: Tensor, *, shift: float, rotation: float, flip: bool = False, generator: torch.Generator) -> Tensor:
    """Turn, move and mirror each image by its own random amount, all in one call on their device.

    Args:
        images: (B, C, height, width).
        shift: The largest shift along each axis, in pixels.
        rotation: The largest rotation to either side, in degrees.
        flip: Whether to mirror half of them, left to right.
        generator: A random generator on the images' device.

    Returns:
        New images, (B, C, height, width). Pixels from outside an image repeat its border.
    """
    draws = torch.empty(3, len(images), device=images.device).uniform_(-1, 1, generator=generator)  # (3, B)
    angle, (right, down) = draws[0] * math.radians(rotation), 2 * shift * draws[1:] / images.shape[-1]  # (B,) each
    rows = [angle.cos(), -angle.sin(), right, angle.sin(), angle.cos(), down]
    grid = F.affine_grid(torch.stack(rows, dim=-1).view(-1, 2, 3), images.shape, align_corners=False)  # (B, h, w, 2)
    if flip:
        mirrored = torch.rand(len(images), device=images.device, generator=generator) < 0.5  # (B,)
        grid[..., 0] *= torch.where(mirrored, -1.0, 1.0)[:, None, None]
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)  # (B, C, h, w)


def rate_at(step: int, steps: int, settings: Settings) -> float:
    """Return the share of the peak rate at a step, counted from 0: up along a line, down along a cosine.

    The share would reach 0 one step after the last step, because a step at rate 0 wastes its batch.
    """
    warmup = settings.warmup * steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    if not settings.decay:
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps + 1 - warmup)))


def loss_and_accuracy(model: nn.Module, split: Split, batch_size: int = 1000) -> tuple[float, float]:
    """Return the mean loss and the share of right answers over all images or characters of a split, without dropout."""
    flat = nn.Sequential(model, nn.Flatten(0, -2)).train(model.training)  # (number of labels, number of classes)
    return evaluate(flat, split.batches(torch.arange(len(split)).split(batch_size)))


# ---- the command ----------------------------------------------------------------------------------------------------


def main(
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = Settings.epochs,
    seed: Annotated[
        int, typer.Option(max=2**63 - 1, help="The seed of parameters, order and augmentation.")
    ] = Settings.seed,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help=f"Change a setting, such as muon_rate=0.01. Settings: {', '.join(asdict(Settings()))}."
        ),
    ] = None,
    weights: Annotated[Path, typer.Option(help="Where the trained parameters go.")] = Path("vit.pt"),
    record: Annotated[Path | None, typer.Option(help="Where the run's record goes, as JSON.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The run's state after each epoch; an existing one is continued.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="Threads of the CPU; 0: PyTorch chooses.")] = 0,
    data: Annotated[
        str, typer.Option(help="mnist, cifar10, digits, a folder with train/CLASS and test/CLASS, or a text file.")
    ] = "mnist",
    image_size: Annotated[int, typer.Option(min=1, help="Pixels of a side, for a folder's images.")] = 32,
    context: Annotated[int, typer.Option(min=1, help="Characters that the model reads at once, for a text.")] = 128,
    test: Annotated[bool, typer.Option("--test", help="Measure on the test set, once, at the end.")] = False,
) -> None:
    """Train the Vision Transformer of this book on MNIST, CIFAR-10 or a folder of images; or its decoder on a text."""
    if threads:
        torch.set_num_threads(threads)
    try:
        where = choose_device(device)
        check_can_be_written(weights, record, checkpoint)
        of_text = Path(data).is_file()
        images = load_text(Path(data), context) if of_text else load_images(data, image_size)
        settings = replace(Settings(), epochs=epochs, seed=seed, **images.settings)
        settings = change_settings(settings, change or [])
        side = images.training.shape[-1] // settings.patch_size
        patches = f" Patches: {side} × {side}." if settings.architecture == "vit" else ""
        typer.echo(images.in_words() + patches)
        options = dict(device=where, checkpoint=checkpoint, show=True)
        for model, curve in train(settings, images.training, images.validation, **options):  # noqa: B007, after the last
            epoch = curve[-1]
            typer.echo(
                f"epoch {epoch.number:2}  {epoch.seconds:6.1f} s  training {epoch.loss:.4f} {epoch.accuracy:.2%}  "
                f"validation {epoch.validation_loss:.4f} {epoch.validation_accuracy:.2%}"
                + of_text
                * f"  {epoch.validation_loss / math.log(2):.3f} bits per character"
            )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, weights)
    result = loss_and_accuracy(model, images.test.to(where)) if test else (None, None)
    if test:
        typer.echo(f"test {result[0]:.4f} {result[1]:.2%}")
    if record:
        epochs_done = [asdict(epoch) for epoch in curve]
        head = "recipe", asdict(settings), images.name
        write_record(record, Record(*head, *place_of(where), epochs_done, *result, images.facts()))
    typer.echo(f"The trained parameters are in {weights}" + f", the record of the run in {record}." * bool(record))


if __name__ == "__main__":
    typer.run(main)

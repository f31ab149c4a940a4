"""Train the Vision Transformer, from the data to the weights: `python -m solutions.training.recipe --help`.

Read from top to bottom: settings, augmentation, the model's work without waste, the schedule, one run, what is recorded
of it, and the command. Data stand in data.py, the optimizer in optimizers.py.
"""

import json
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.training.architectures import make_model
from solutions.training.checkpoints import check_can_be_written, glimpse, keep, resume
from solutions.training.data import Images, load_images
from solutions.training.optimizers import make_optimizers
from solutions.vit import Encoder


@dataclass(frozen=True)
class Settings:
    """What a run may vary. Each default is the value that did best on the validation split, or is explained.

    Raises:
        ValueError: A number lies outside its range.
    """

    epochs: int = 20  # passes over the training images; the schedule is planned for this many
    batch_size: int = 128  # images a step
    optimizer: Literal["muon", "adamw"] = "muon"  # of the blocks' matrices; AdamW moves the rest in any case
    muon_rate: float = 0.015  # peak; Muon's steps have one size whatever the gradient's
    adamw_rate: float = 3e-3  # peak, for what AdamW moves
    weight_decay: float = 0.01  # share of a matrix that is taken away for each unit of the rate
    warmup: float = 0.1  # share of all steps in which the rates rise from 0: AdamW's averages are noise at first
    decay: bool = True  # lower the rates to 0 along a cosine; else they stay at their peak
    clip: float = 1.0  # greatest norm of the whole gradient
    label_smoothing: float = 0.0  # share of the target that is spread over all classes
    shift: float = 2.0  # pixels; images are moved by up to this much, as hands do
    rotation: float = 10.0  # degrees, either way
    dropped_share: float = 0.0  # of the patches, left out of each training image
    dropped_until: float = 0.0  # share of all steps during which they are
    flip: bool = False  # mirror half of the images: photographs bear it, digits do not
    architecture: str = "vit"  # or another of architectures.py, to compare with
    dropout: float = 0.0  # share of a ViT's numbers that is set to 0; the recipe's runs are too short to need it
    patch_size: int = 7  # pixels of a patch's side; of the model, as all below
    width: int = 64
    depth: int = 6
    num_heads: int = 8
    hidden_width: int = 128
    position_std: float = 0.5  # of the positions at first, as large as the patches' tokens; 0.02 is drowned by them
    seed: int = 0  # of the parameters, the order of the images and the augmentation

    def __post_init__(self) -> None:
        positive = (
            "epochs",
            "batch_size",
            "muon_rate",
            "adamw_rate",
            "clip",
            "patch_size",
            "width",
            "depth",
            "num_heads",
            "hidden_width",
        )
        shares = ("warmup", "label_smoothing", "dropped_share", "dropped_until", "dropout")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")
        for name in shares:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        for name in ("weight_decay", "shift", "rotation", "position_std"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.width % self.num_heads:
            raise ValueError(f"num_heads must divide the width, got {self.num_heads} and {self.width}")
        if self.optimizer not in ("muon", "adamw"):
            raise ValueError(f"optimizer must be muon or adamw, got {self.optimizer}")
        if self.optimizer == "muon" and self.architecture != "vit":
            raise ValueError(f"muon moves the blocks of vit alone: architecture {self.architecture} needs adamw")
        if self.dropped_until and (self.dropout or self.architecture != "vit"):
            raise ValueError("patches can be left out of the architecture vit without dropout alone")


# ---- augmentation -----------------------------------------------------------------------------------------------------------


def augment(images: Tensor, *, shift: float, rotation: float, flip: bool = False, generator: torch.Generator) -> Tensor:
    """Turn, move and mirror each image by an amount of its own, all in one call and on the device that they are on.

    Args:
        images: (B, C, height, width).
        shift: In pixels, at most this much along each axis.
        rotation: In degrees, at most this much either way.
        flip: Whether half of them are mirrored, left for right.
        generator: Of the images' device.

    Returns:
        New images, (B, C, height, width). What comes in from outside is the background.
    """
    draws = torch.empty(3, len(images), device=images.device).uniform_(-1, 1, generator=generator)  # (3, B)
    angle, (right, down) = draws[0] * math.radians(rotation), 2 * shift * draws[1:] / images.shape[-1]  # (B,) each
    rows = [angle.cos(), -angle.sin(), right, angle.sin(), angle.cos(), down]
    grid = F.affine_grid(torch.stack(rows, dim=-1).view(-1, 2, 3), images.shape, align_corners=False)  # (B, h, w, 2)
    if flip:
        mirrored = torch.rand(len(images), device=images.device, generator=generator) < 0.5  # (B,)
        grid[..., 0] *= torch.where(mirrored, -1.0, 1.0)[:, None, None]
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)  # (B, C, h, w)


# ---- the model's work, without waste --------------------------------------------------------------------------------


def scores_of(model: nn.Module, images: Tensor, kept: Tensor | None = None) -> Tensor:
    """Compute what `model(images)` computes; where it is a ViT with PyTorch's blocks and no dropout, with less work.

    Attention over 17 tokens in heads of width 8 is two products of batches of small matrices, where a fused kernel,
    made for long sequences, takes twice as long on a CPU. And the head reads the class token alone, so that the last
    block asks for no other token.

    Args:
        model: The model whose parameters are used.
        images: (B, C, image size, image size).
        kept: (K,), the patches that are looked at; all, where it is None.

    Returns:
        The scores of the classes, (B, number of classes).
    """
    if not isinstance(getattr(model, "encoder", None), Encoder) or (model.training and model.dropout.p):
        return model(images)  # (B, number of classes)
    patches = model.patch_embedding(images) + model.position_embedding[:, 1:]  # (B, N, D)
    if kept is not None:
        patches = patches[:, kept]  # (B, K, D)
    class_token = (model.class_token + model.position_embedding[:, :1]).expand(len(images), -1, -1)  # (B, 1, D)
    x = torch.cat([class_token, patches], dim=1)  # (B, 1 + N, D)
    *blocks, last = model.encoder.blocks
    for block in blocks:
        x = x + _attend(block.self_attn, block.norm1(x))  # (B, 1 + N, D)
        x = x + block.linear2(F.gelu(block.linear1(block.norm2(x))))  # (B, 1 + N, D)
    x = x[:, :1] + _attend(last.self_attn, last.norm1(x), queries=1)  # (B, 1, D)
    x = x + last.linear2(F.gelu(last.linear1(last.norm2(x))))  # (B, 1, D)
    return model.head(model.encoder.norm(x[:, 0]))  # (B, number of classes)


def _attend(attention: nn.MultiheadAttention, x: Tensor, queries: int | None = None) -> Tensor:
    """Let the first tokens, (B, N, D), or all, look at all: (B, queries, D)."""
    size, tokens, width = x.shape
    heads, head_width = attention.num_heads, width // attention.num_heads

    def split(rows: slice, count: int) -> Tensor:
        y = F.linear(x[:, :count], attention.in_proj_weight[rows], attention.in_proj_bias[rows])
        return y.view(size, count, -1, heads, head_width).permute(2, 0, 3, 1, 4).flatten(1, 2)  # (parts, B·H, count, d)

    if queries is None:
        q, k, v = split(slice(None), tokens)  # (B·H, N, d) each
    else:
        (q,), (k, v) = split(slice(width), queries), split(slice(width, None), tokens)
    weights = torch.bmm(q * head_width**-0.5, k.transpose(1, 2)).softmax(dim=-1)  # (B·H, queries, N)
    mixed = torch.bmm(weights, v).unflatten(0, (size, heads)).transpose(1, 2).flatten(2)  # (B, queries, D)
    return attention.out_proj(mixed)  # (B, queries, D)


# ---- the schedule ---------------------------------------------------------------------------------------------------


def rate_at(step: int, steps: int, settings: Settings) -> float:
    """Return the share of the peak rate at a step, from 0 on: up along a line, down along a cosine.

    It would be 0 one step after the last: a step at rate 0 wastes its batch.
    """
    warmup = settings.warmup * steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    if not settings.decay:
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps + 1 - warmup)))


# ---- a run ----------------------------------------------------------------------------------------------------------


def choose_precision(device: torch.device) -> torch.dtype:
    """Choose what products are computed in: float32 on a CPU, float16 on a T4, bfloat16 on newer GPUs."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def accuracy(model: nn.Module, split: Images, batch_size: int = 1000) -> tuple[float, float]:
    """Return the mean loss and the share of right answers over all images of a split, without dropout."""
    loss, right, training = 0.0, 0, model.training
    model.eval()
    with torch.no_grad():
        for images, labels in split.batches(torch.arange(len(split)).split(batch_size)):
            scores = scores_of(model, images)  # (B, number of classes)
            loss += F.cross_entropy(scores, labels, reduction="sum")
            right += (scores.argmax(dim=-1) == labels).sum()
    model.train(training)
    return float(loss) / len(split), int(right) / len(split)


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch. Losses and shares are means over images; training images are augmented ones."""

    number: int  # from 1 on
    seconds: float  # of training alone, without the evaluation
    cpu_seconds: float  # of all threads of this process in that time: what a shared machine does not blur
    loss: float
    accuracy: float
    validation_loss: float | None  # None: a recipe without a validation split
    validation_accuracy: float | None
    test_accuracy: float | None = None  # None: the test set was not touched


def train(
    settings: Settings,
    training: Images,
    validation: Images,
    *,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    compile: bool = False,
    show: bool = False,
) -> Iterator[tuple[nn.Module, list[Epoch]]]:
    """Train a model, and yield it after each epoch, with all epochs so far; also where a kept run is taken up.

    Args:
        settings: The recipe.
        training: The images that are learnt from.
        validation: Images to watch the run by.
        device: Where all of it happens; the data go there once.
        checkpoint: File in which the run's state is kept after each epoch. Where it exists, the run goes on from there
            and ends as it would have ended, had it not been interrupted.
        compile: Whether the model's work is compiled: slow to start, faster then.
        show: Whether a progress bar is shown.

    Raises:
        ValueError: The checkpoint is of a run with other settings or images, or is none.
    """
    device = torch.device(device)
    training, validation = training.to(device), validation.to(device)
    torch.manual_seed(settings.seed)
    model = make_model(settings, training).to(device)
    generator = torch.Generator(device).manual_seed(settings.seed)  # of the images' order and the augmentation
    optimizers = make_optimizers(model, settings)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    precision = choose_precision(device)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == torch.float16)
    work = torch.compile(scores_of, dynamic=True) if compile else scores_of
    parts = dict(model=model, scaler=scaler, **{f"optimizer {i}": each for i, each in enumerate(optimizers)})
    run = dict(settings=asdict(settings), images=glimpse(training)) if checkpoint else {}
    curve = []
    if checkpoint and checkpoint.exists():
        curve = [Epoch(**epoch) for epoch in resume(checkpoint, run, parts, generator)]
        yield model, curve

    per_epoch = math.ceil(len(training) / settings.batch_size)
    steps = settings.epochs * per_epoch
    for number in range(len(curve) + 1, settings.epochs + 1):
        began, cpu_began, loss_sum, right = time.perf_counter(), time.process_time(), 0.0, 0
        if settings.dropout:
            torch.manual_seed(
                1000 * settings.seed + number
            )  # a run that was interrupted drops what it would have dropped
        order = torch.randperm(len(training), device=device, generator=generator).split(settings.batch_size)
        with _bar(show, f"epoch {number} of {settings.epochs}", per_epoch) as advance:
            for index, (images, labels) in enumerate(training.batches(order)):  # (B, C, H, W), (B,)
                step = (number - 1) * per_epoch + index
                for optimizer, rates in zip(optimizers, peaks):
                    for group, rate in zip(optimizer.param_groups, rates):
                        group["lr"] = rate * rate_at(step, steps, settings)
                kept = None
                if step < settings.dropped_until * steps:
                    patches = model.position_embedding.shape[1] - 1
                    shuffled = torch.randperm(patches, device=device, generator=generator)
                    kept = shuffled[: round(patches * (1 - settings.dropped_share))]
                if settings.shift or settings.rotation or settings.flip:
                    amounts = dict(shift=settings.shift, rotation=settings.rotation, flip=settings.flip)
                    images = augment(images, **amounts, generator=generator)
                with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                    scores = work(model, images, kept)  # (B, number of classes)
                loss = F.cross_entropy(scores.float(), labels, label_smoothing=settings.label_smoothing)
                model.zero_grad()
                scaler.scale(loss).backward()
                for optimizer in optimizers:
                    scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
                for optimizer in optimizers:
                    scaler.step(optimizer)
                scaler.update()
                loss_sum += loss.detach() * len(labels)  # stays on the device: .item() would wait for every step
                right += (scores.argmax(dim=-1) == labels).sum()
                advance(loss_sum, right, len(labels))
        loss, share = float(loss_sum) / len(training), int(right) / len(training)  # waits for the device
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        curve = [*curve, Epoch(number, seconds, cpu_seconds, loss, share, *accuracy(model, validation))]
        if checkpoint:
            keep(checkpoint, run, parts, generator, [asdict(epoch) for epoch in curve])
        yield model, curve


def _bar(show: bool, what: str, steps: int):
    """Return a context whose function takes (loss sum, right answers, images) of each step, and may draw a bar."""
    if not show:
        return nullcontext(lambda *_: None)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    class Bar(Progress):
        def __enter__(self):
            super().__enter__()
            task, done, seen = self.add_task(what, total=steps, means=""), 0, 0

            def advance(loss_sum: Tensor, right: Tensor, count: int) -> None:
                nonlocal done, seen
                done, seen = done + 1, seen + count
                if done % 25 == 0 or done == steps:  # to look is to wait for the device, so not at every step
                    means = f"loss {float(loss_sum) / seen:.4f}  accuracy {int(right) / seen:.2%}"
                    self.update(task, completed=done, means=means)

            return advance

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[means]}"),
    )


# ---- the record of a run --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """What a run was, where, and what came of it: a number never stands without its evidence."""

    name: str  # of the recipe
    settings: dict
    data: str  # MNIST, CIFAR-10, the name of a folder, or digits: the stand-in
    machine: dict  # processor, cores, threads, GPU, versions, date
    precision: str
    curve: list[dict]  # of Epoch
    test_loss: float | None = None  # None: the test set was not touched
    test_accuracy: float | None = None
    images: dict | None = None  # `Data.facts`, which a use of the model needs; None in records that hold none


def describe_machine(device: torch.device) -> dict:
    """Say on what a run is made."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return dict(
        processor=names[0] if names else platform.processor() or platform.machine(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        load=[round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,  # others' work too
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        system=platform.system(),
        python=platform.python_version(),
        torch=torch.__version__,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write_record(path: Path, *records: Record) -> None:
    """Write runs as JSON, one list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(record) for record in records], indent=1, ensure_ascii=False) + "\n")


# ---- the command ----------------------------------------------------------------------------------------------------


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" is a GPU where there is one, else the CPU.

    Raises:
        ValueError: There is no such device.
    """
    gpu = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not gpu):
        raise ValueError(f"the device must be auto, cpu or, where there is a GPU, cuda; got {name}")
    return torch.device("cuda" if gpu and name != "cpu" else "cpu")


def change_settings(settings: Settings, changes: list[str]) -> Settings:
    """Apply changes that are written name=value.

    Raises:
        ValueError: There is no such setting, or its value is not of its kind.
    """
    new = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in asdict(settings):
            raise ValueError(f"no setting is called {name!r}; there are {', '.join(asdict(settings))}")
        kind = type(getattr(settings, name))
        try:
            new[name] = json.loads(value.lower()) if kind is bool else kind(value)
        except ValueError:
            raise ValueError(f"{name} must be of type {kind.__name__}, got {value!r}") from None
    return replace(settings, **new)


def main() -> None:
    """Run the command."""
    import typer

    def command(
        epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = Settings.epochs,
        seed: Annotated[int, typer.Option(max=2**63 - 1, help="Of parameters, order, augmentation.")] = Settings.seed,
        change: Annotated[
            list[str] | None,
            typer.Option("--set", help=f"A setting, as muon_rate=0.01. There are {', '.join(asdict(Settings()))}."),
        ] = None,
        weights: Annotated[Path, typer.Option(help="Where the trained parameters go.")] = Path("vit.pt"),
        record: Annotated[Path | None, typer.Option(help="Where the run's record goes, as JSON.")] = None,
        checkpoint: Annotated[Path | None, typer.Option(help="Kept after each epoch; where it exists, go on.")] = None,
        device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
        threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as PyTorch chooses.")] = 0,
        compile: Annotated[bool, typer.Option("--compile", help="Compile the model's work.")] = False,
        data: Annotated[
            str, typer.Option(help="mnist, cifar10, digits, or a folder with train/CLASS and test/CLASS.")
        ] = "mnist",
        image_size: Annotated[int, typer.Option(min=1, help="Of a folder's images: pixels of a side.")] = 32,
        test: Annotated[bool, typer.Option("--test", help="Measure on the test set, once, at the end.")] = False,
    ) -> None:
        """Train the Vision Transformer of this book on MNIST, CIFAR-10 or a folder of images."""
        if threads:
            torch.set_num_threads(threads)
        try:
            where = choose_device(device)
            check_can_be_written(weights, record, checkpoint)
            images = load_images(data, image_size, where)
            settings = replace(Settings(), epochs=epochs, seed=seed, **images.settings)
            settings = change_settings(settings, change or [])
            make_model(settings, images.training)
            side = images.training.shape[1] // settings.patch_size
            patches = f" Patches: {side} × {side}." if settings.architecture == "vit" else ""
            typer.echo(images.in_words() + patches)
            if patches and side < 4:
                typer.echo("So few patches leave attention little to do: give --image-size a multiple of 8.")
            options = dict(device=where, checkpoint=checkpoint, compile=compile, show=True)
            for model, curve in train(settings, images.training, images.validation, **options):  # noqa: B007, after the last
                epoch = curve[-1]
                typer.echo(
                    f"epoch {epoch.number:2}  {epoch.seconds:6.1f} s  training {epoch.loss:.4f} {epoch.accuracy:.2%}  "
                    f"validation {epoch.validation_loss:.4f} {epoch.validation_accuracy:.2%}"
                )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, weights)
        result = accuracy(model, images.test.to(where)) if test else (None, None)
        if test:
            typer.echo(f"test {result[0]:.4f} {result[1]:.2%}")
        if record:
            precision = str(choose_precision(where)).removeprefix("torch.")
            machine, epochs_done = describe_machine(where), [asdict(epoch) for epoch in curve]
            run = Record(
                "recipe", asdict(settings), images.name, machine, precision, epochs_done, *result, images.facts()
            )
            write_record(record, run)
        typer.echo(f"The trained parameters are in {weights}" + f", the record of the run in {record}." * bool(record))

    typer.run(command)


if __name__ == "__main__":
    main()

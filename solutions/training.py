"""Train the Vision Transformer on MNIST, from the data to the weights: `python -m solutions.training --help`.

Read from top to bottom: settings, data, augmentation, the model's work without waste, the optimizer, the schedule, one
run, what is recorded of it, and the command.
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

from solutions.vit import ViT

MEAN, STD = 0.1307, 0.3081  # of the pixels of MNIST's training images


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
    rotation: float = 10.0  # degrees, either way; no flips: a mirrored 2 is no digit
    dropped_share: float = 0.0  # of the patches, left out of each training image
    dropped_until: float = 0.0  # share of all steps during which they are
    position_std: float = 0.5  # of the positions at first, as large as the patches' tokens; 0.02 is drowned by them
    seed: int = 0  # of the parameters, the order of the images and the augmentation

    def __post_init__(self) -> None:
        positive = ("epochs", "batch_size", "muon_rate", "adamw_rate", "clip")
        shares = ("warmup", "label_smoothing", "dropped_share", "dropped_until")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")
        for name in shares:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        for name in ("weight_decay", "shift", "rotation", "position_std"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.optimizer not in ("muon", "adamw"):
            raise ValueError(f"optimizer must be muon or adamw, got {self.optimizer}")


# ---- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Images, (B, 1, 28, 28), normalised float32, and their classes, (B,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "Split":
        """Move both to a device."""
        return Split(self.images.to(device), self.labels.to(device))


def normalise(images: Tensor) -> Tensor:
    """Bring pixels from [0, 1] to mean 0 and standard deviation 1 over MNIST's training images."""
    return (images - MEAN) / STD


def load_mnist(root: str | None = None) -> tuple[Split, Split, Split]:
    """Load MNIST, whole, as tensors.

    Args:
        root: Folder of the data; by default what MNIST_ROOT says, else data/.

    Returns:
        The first 55,000 training images, the last 5,000 as the validation split, and the 10,000 test images.
    """
    from torchvision.datasets import MNIST

    root = root or os.environ.get("MNIST_ROOT", "data")
    splits = []
    for train in (True, False):
        mnist = MNIST(root, train=train, download=True)
        splits.append(Split(normalise(mnist.data[:, None] / 255), mnist.targets))  # (B, 1, 28, 28), (B,)
    both, test = splits
    return Split(both.images[:55000], both.labels[:55000]), Split(both.images[55000:], both.labels[55000:]), test


def load_digits() -> tuple[Split, Split, Split]:
    """Load the stand-in for MNIST: scikit-learn's 1797 digits of 8×8 pixels, scaled to 28×28.

    Returns:
        1,300 training, 150 validation and 347 test images.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # (B, 1, 8, 8)
    images = F.interpolate(images, size=(28, 28), mode="bilinear")  # (B, 1, 28, 28)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images, labels = normalise(images)[order], torch.tensor(digits.target)[order]
    return tuple(Split(images[part], labels[part]) for part in (slice(1300), slice(1300, 1450), slice(1450, None)))


def augment(images: Tensor, *, shift: float, rotation: float, generator: torch.Generator) -> Tensor:
    """Turn and move each image by an amount of its own, all in one call and on the device that they are on.

    Args:
        images: (B, 1, height, width).
        shift: In pixels, at most this much along each axis.
        rotation: In degrees, at most this much either way.
        generator: Of the images' device.

    Returns:
        New images, (B, 1, height, width). What comes in from outside is the background.
    """
    draws = torch.empty(3, len(images), device=images.device).uniform_(-1, 1, generator=generator)  # (3, B)
    angle, (right, down) = draws[0] * math.radians(rotation), 2 * shift * draws[1:] / images.shape[-1]  # (B,) each
    rows = [angle.cos(), -angle.sin(), right, angle.sin(), angle.cos(), down]
    grid = F.affine_grid(torch.stack(rows, dim=-1).view(-1, 2, 3), images.shape, align_corners=False)  # (B, h, w, 2)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)  # (B, 1, h, w)


# ---- the model's work, without waste --------------------------------------------------------------------------------


def scores_of(model: ViT, images: Tensor, kept: Tensor | None = None) -> Tensor:
    """Compute what `model(images)` computes, with less work. Dropout is not supported: the recipe has none.

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


# ---- the optimizer and its schedule ---------------------------------------------------------------------------------


class Muon(torch.optim.Optimizer):
    """Momentum whose steps are made orthogonal: every direction of a matrix moves equally far.

    As torch.optim.Muon, but all matrices of a shape in one batch, in float32: a step is a few dozen operations and not
    a few hundred, and a T4 has no bfloat16.

    Args:
        groups: Parameter groups. Matrices of a group have one shape, (parts · rows, columns); each is taken as `parts`
            matrices that are stacked: the projections of queries, keys and values are three.
        lr: Rate. A step changes a matrix by `lr` in each direction, by √(rows / columns) more where it is tall.
        weight_decay: Share of a matrix that is taken away for each unit of the rate.
        momentum: Share of the earlier gradients that is kept.

    Source: Jordan et al. 2024.
    """

    def __init__(self, groups: list[dict], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, parts=1))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Move every matrix."""
        for group in self.param_groups:
            matrices = group["params"]
            gradients = torch.stack([matrix.grad for matrix in matrices])  # (matrices, parts · rows, columns)
            state = self.state[matrices[0]]
            if not state:
                state["momentum"] = torch.zeros_like(gradients)
            state["momentum"].lerp_(gradients, 1 - group["momentum"])
            ahead = gradients.lerp(state["momentum"], group["momentum"])
            steps = orthogonalise(ahead.unflatten(1, (group["parts"], -1)))  # (matrices, parts, rows, columns)
            rows, columns = steps.shape[-2:]
            steps = steps.flatten(1, 2) * -group["lr"] * max(1, rows / columns) ** 0.5
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(matrices, list(steps))


def orthogonalise(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Bring all singular values near 1, (..., rows, columns), by products alone. Source: Jordan et al. 2024."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if tall else matrices  # (..., few, many)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.transpose(-2, -1)  # (..., few, few)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.transpose(-2, -1) if tall else x


def make_optimizers(model: ViT, settings: Settings) -> list[torch.optim.Optimizer]:
    """Share the parameters out: the blocks' matrices to Muon, all others to AdamW; or all to AdamW."""
    blocks = model.encoder.blocks
    groups = [
        dict(params=[block.self_attn.in_proj_weight for block in blocks], parts=3),
        dict(params=[block.self_attn.out_proj.weight for block in blocks]),
        dict(params=[block.linear1.weight for block in blocks]),
        dict(params=[block.linear2.weight for block in blocks]),
    ]
    matrices = {matrix for group in groups for matrix in group["params"]} if settings.optimizer == "muon" else set()
    rest = [parameter for parameter in model.parameters() if parameter not in matrices]
    decayed = [
        parameter for parameter in rest if parameter.ndim > 1 and len(parameter) > 1
    ]  # not tokens, norms, biases
    others = [parameter for parameter in rest if parameter.ndim <= 1 or len(parameter) == 1]
    adamw = torch.optim.AdamW(
        [dict(params=decayed), dict(params=others, weight_decay=0.0)],
        lr=settings.adamw_rate,
        betas=(0.9, 0.99),
        weight_decay=settings.weight_decay,
        fused=True,
    )
    if settings.optimizer == "adamw":
        return [adamw]
    return [Muon(groups, lr=settings.muon_rate, weight_decay=settings.weight_decay), adamw]


def rate_at(step: int, steps: int, settings: Settings) -> float:
    """Return the share of the peak rate at a step, from 0 on: up along a line, down along a cosine to 0."""
    warmup = settings.warmup * steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    if not settings.decay:
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps - warmup)))


# ---- a run ----------------------------------------------------------------------------------------------------------


def choose_precision(device: torch.device) -> torch.dtype:
    """Choose what products are computed in: float32 on a CPU, float16 on a T4, bfloat16 on newer GPUs."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def accuracy(model: ViT, split: Split, batch_size: int = 1000) -> tuple[float, float]:
    """Return the mean loss and the share of right answers over all images of a split."""
    loss, right = 0.0, 0
    with torch.no_grad():
        for images, labels in zip(split.images.split(batch_size), split.labels.split(batch_size)):
            scores = scores_of(model, images)  # (B, number of classes)
            loss += F.cross_entropy(scores, labels, reduction="sum")
            right += (scores.argmax(dim=-1) == labels).sum()
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
    training: Split,
    validation: Split,
    *,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    compile: bool = False,
    show: bool = False,
) -> Iterator[tuple[ViT, list[Epoch]]]:
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
        ValueError: The checkpoint is of a run with other settings.
    """
    device = torch.device(device)
    training, validation = training.to(device), validation.to(device)
    torch.manual_seed(settings.seed)
    model = ViT().to(device)
    nn.init.normal_(model.position_embedding, std=settings.position_std)
    generator = torch.Generator(device).manual_seed(settings.seed)  # of the images' order and the augmentation
    optimizers = make_optimizers(model, settings)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    precision = choose_precision(device)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == torch.float16)
    work = torch.compile(scores_of, dynamic=True) if compile else scores_of
    parts = dict(model=model, scaler=scaler, **{f"optimizer {i}": each for i, each in enumerate(optimizers)})
    curve = []
    if checkpoint and checkpoint.exists():
        curve = _resume(checkpoint, settings, parts, generator)
        yield model, curve

    per_epoch = math.ceil(len(training) / settings.batch_size)
    steps = settings.epochs * per_epoch
    patches = model.position_embedding.shape[1] - 1
    for number in range(len(curve) + 1, settings.epochs + 1):
        began, cpu_began, loss_sum, right = time.perf_counter(), time.process_time(), 0.0, 0
        order = torch.randperm(len(training), device=device, generator=generator).split(settings.batch_size)
        with _bar(show, f"epoch {number} of {settings.epochs}", per_epoch) as advance:
            for index, chosen in enumerate(order):
                step = (number - 1) * per_epoch + index
                for optimizer, rates in zip(optimizers, peaks):
                    for group, rate in zip(optimizer.param_groups, rates):
                        group["lr"] = rate * rate_at(step, steps, settings)
                kept = None
                if step < settings.dropped_until * steps:
                    shuffled = torch.randperm(patches, device=device, generator=generator)
                    kept = shuffled[: round(patches * (1 - settings.dropped_share))]
                images, labels = training.images[chosen], training.labels[chosen]  # (B, 1, 28, 28), (B,)
                if settings.shift or settings.rotation:
                    images = augment(images, shift=settings.shift, rotation=settings.rotation, generator=generator)
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
            _keep(checkpoint, settings, parts, generator, curve)
        yield model, curve


def _keep(path: Path, settings: Settings, parts: dict, generator: torch.Generator, curve: list[Epoch]) -> None:
    """Write the state of a run, whole or not at all."""
    state = {name: part.state_dict() for name, part in parts.items()}
    state |= dict(settings=asdict(settings), generator=generator.get_state(), curve=[asdict(epoch) for epoch in curve])
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def _resume(path: Path, settings: Settings, parts: dict, generator: torch.Generator) -> list[Epoch]:
    """Set a run to the state that was kept. Return the epochs that it has done."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    if state["settings"] != asdict(settings):
        raise ValueError(
            f"{path} is of a run with {Settings(**state['settings'])}, not with {settings}: use another file"
        )
    for name, part in parts.items():
        part.load_state_dict(state[name])
    generator.set_state(state["generator"])
    return [Epoch(**epoch) for epoch in state["curve"]]


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
    data: str  # MNIST, or digits: the stand-in
    machine: dict  # processor, cores, threads, GPU, versions, date
    precision: str
    curve: list[dict]  # of Epoch
    test_loss: float | None = None  # None: the test set was not touched
    test_accuracy: float | None = None


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
    """Return the device of that name; "auto" is a GPU where there is one, else the CPU."""
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


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
        seed: Annotated[int, typer.Option(help="Of parameters, order and augmentation.")] = Settings.seed,
        change: Annotated[list[str] | None, typer.Option("--set", help="A setting, as muon_rate=0.01.")] = None,
        weights: Annotated[Path, typer.Option(help="Where the trained parameters go.")] = Path("vit.pt"),
        record: Annotated[Path | None, typer.Option(help="Where the run's record goes, as JSON.")] = None,
        checkpoint: Annotated[Path | None, typer.Option(help="Kept after each epoch; where it exists, go on.")] = None,
        device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
        threads: Annotated[int, typer.Option(help="Of the CPU; 0: as PyTorch chooses.")] = 0,
        compile: Annotated[bool, typer.Option("--compile", help="Compile the model's work.")] = False,
        digits: Annotated[bool, typer.Option("--digits", help="Train on the stand-in for MNIST.")] = False,
        test: Annotated[bool, typer.Option("--test", help="Measure on the test set, once, at the end.")] = False,
    ) -> None:
        """Train the Vision Transformer of this book on MNIST."""
        if threads:
            torch.set_num_threads(threads)
        try:
            settings = change_settings(replace(Settings(), epochs=epochs, seed=seed), change or [])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        where = choose_device(device)
        training, validation, held_out = load_digits() if digits else load_mnist()
        runs = train(settings, training, validation, device=where, checkpoint=checkpoint, compile=compile, show=True)
        for model, curve in runs:  # noqa: B007, both are used after the last epoch
            epoch = curve[-1]
            typer.echo(
                f"epoch {epoch.number:2}  {epoch.seconds:6.1f} s  training {epoch.loss:.4f} {epoch.accuracy:.2%}  "
                f"validation {epoch.validation_loss:.4f} {epoch.validation_accuracy:.2%}"
            )
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, weights)
        result = accuracy(model, held_out.to(where)) if test else (None, None)
        if test:
            typer.echo(f"test {result[0]:.4f} {result[1]:.2%}")
        if record:
            data, precision = "digits" if digits else "MNIST", str(choose_precision(where)).removeprefix("torch.")
            machine, epochs_done = describe_machine(where), [asdict(epoch) for epoch in curve]
            write_record(record, Record("recipe", asdict(settings), data, machine, precision, epochs_done, *result))

    typer.run(command)


if __name__ == "__main__":
    main()

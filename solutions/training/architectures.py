"""Models to compare with the Vision Transformer: `Settings(architecture=…)` names one.

They are a convolutional network (cnn), a multilayer perceptron (mlp), and a ViT made of the parts that readers write:
with attention by einsum (einsum), by a loop over the heads (loop), or with a mistake (M6, M7, M9, M25).
"""

import bisect
import itertools
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from solutions.decoder import Decoder
from solutions.encoder import Encoder
from solutions.multihead import MultiHeadAttention
from solutions.training.data import Split
from solutions.training.settings import Settings
from solutions.vit import ViT, train_epoch


def make_cnn(channels: int, num_classes: int, width: int) -> nn.Module:
    """Make three convolutions of stride 2, each with a norm and a ReLU, then a mean over the remaining pixels.

    Args:
        channels: C, the channels of an image, whose height and width are at least 8.
        num_classes: Number of classes.
        width: Channels after the first convolution; the others have twice and four times as many.
    """
    layers, widths = [], (channels, width, 2 * width, 4 * width)
    for inputs, outputs in itertools.pairwise(widths):
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, num_classes))


def make_mlp(shape: tuple[int, int, int], num_classes: int, width: int) -> nn.Module:
    """Make two hidden layers of one width over all pixels of an image."""
    channels, height, columns = shape
    first, second = nn.Linear(channels * height * columns, width), nn.Linear(width, width)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(width, num_classes))


class LoopAttention(MultiHeadAttention):
    """Compute the same as `MultiHeadAttention`, head by head: without einsum, and without an axis for the heads."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute the new tokens, (B, N, D), of x, (B, N, D). No mask is supported."""
        if mask is not None:
            raise ValueError("LoopAttention takes no mask")
        heads = []
        for q, k, v in zip(*(part.chunk(self.num_heads, dim=-1) for part in self.qkv(x).chunk(3, dim=-1))):
            weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)  # (B, N, N)
            heads.append(weights @ v)  # (B, N, d)
        return self.out(torch.cat(heads, dim=-1))  # (B, N, D)


class WrongAttention(MultiHeadAttention):
    """`MultiHeadAttention` with a mistake of the book's list in its weights: M6, M7, M9 or M25."""

    def __init__(self, width: int, num_heads: int, mistake: str) -> None:
        super().__init__(width, num_heads)
        self.mistake = mistake

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute wrong tokens, (B, N, D), of x, (B, N, D). No mask is supported."""
        if mask is not None:
            raise ValueError("WrongAttention takes no mask")
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # (B, H, N, d) each
        scores, root = q @ k.mT, q.shape[-1] ** 0.5  # (B, H, N, N)
        if self.mistake == "M6":
            weights = (scores / root).softmax(dim=-2)  # over the queries
        elif self.mistake == "M7":
            weights = scores.softmax(dim=-1) / root  # scaled after the softmax
        elif self.mistake == "M9":
            weights = (scores / x.shape[-1] ** 0.5).softmax(dim=-1)  # scaled by the full width
        else:
            weights = (scores / root).softmax(dim=1)  # over the heads
        return self.out((weights @ v).transpose(1, 2).flatten(2))  # (B, N, D)


WRONG = {name: partial(WrongAttention, mistake=name) for name in ("M6", "M7", "M9", "M25")}
OWN_PARTS = {"einsum": MultiHeadAttention, "loop": LoopAttention, **WRONG}
ARCHITECTURES = ("vit", "cnn", "mlp", "decoder", *OWN_PARTS)


def make_model(settings: Settings, images: Split) -> nn.Module:
    """Make a model for images, with random parameters.

    Models of one seed that differ only in OWN_PARTS have the same parameters, by name and value.

    Raises:
        ValueError: The architecture is unknown, the images cannot be cut into patches of this size, or the number of
            heads does not divide the width.
    """
    if settings.architecture not in ARCHITECTURES:
        raise ValueError(f"architecture must be one of {', '.join(ARCHITECTURES)}, got {settings.architecture}")
    if (settings.architecture == "decoder") != (len(images.shape) == 1):
        raise ValueError(f"architecture decoder is for texts, the others for images; got {settings.architecture}")
    sizes = dict(depth=settings.depth, width=settings.width, num_heads=settings.num_heads)
    sizes |= dict(hidden_width=settings.hidden_width, dropout=settings.dropout)
    if settings.architecture == "decoder":
        model = Decoder(num_characters=images.num_classes, context=images.shape[0], **sizes)
        nn.init.normal_(model.embedding.weight, std=settings.position_std)
        nn.init.normal_(model.position_embedding, std=settings.position_std)
        return model
    channels, size, _ = images.shape
    if settings.architecture == "cnn":
        return make_cnn(channels, images.num_classes, settings.width)
    if settings.architecture == "mlp":
        return make_mlp(images.shape, images.num_classes, settings.width)
    cut = dict(image_size=size, channels=channels, patch_size=settings.patch_size)
    model = ViT(**cut, num_classes=images.num_classes, **sizes)
    if settings.architecture in OWN_PARTS:
        model.encoder = Encoder(**sizes)
        for block in model.encoder.blocks:
            block.attention = OWN_PARTS[settings.architecture](settings.width, settings.num_heads)
    nn.init.normal_(model.position_embedding, std=settings.position_std)
    return model


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def fit_width(settings: Settings, images: Split, parameters: int) -> int:
    """Return the width with which an architecture, cnn or mlp, comes nearest to a number of parameters."""
    count = lambda width: count_parameters(make_model(replace(settings, width=width), images))
    widths = range(1, 4097)
    with torch.device("meta"):  # no numbers are drawn: parameters are only counted
        first = bisect.bisect_left(widths[:-1], parameters, key=count)  # the first width with at least this many
        return min(widths[max(0, first - 1) : first + 1], key=lambda width: abs(count(width) - parameters))


def compare_attentions(
    settings: Settings, training: Split, steps: tuple[int, ...] = (0, 1, 3, 10, 30, 60)
) -> list[dict]:
    """Measure how far two models drift apart. They begin with the same parameters and learn from the same batches.

    Args:
        settings: The settings of both models. Only their attention differs: one model uses einsum.
        training: Training images. The first 256 are used to measure; the models learn from batches of 64.
        steps: The numbers of steps after which to measure.

    Returns:
        For the loop and for M6, in float32 and float64: the largest difference of the logits, and the
        share of images that get different answers, after each number of steps.
    """
    found = []
    for other, kind in itertools.product(("loop", "M6"), (torch.float32, torch.float64)):
        models, optimizers = [], []
        for architecture in ("einsum", other):
            torch.manual_seed(settings.seed)
            models.append(make_model(replace(settings, architecture=architecture), training).to(kind))
            optimizers.append(torch.optim.AdamW(models[-1].parameters(), lr=1e-3))
        order = torch.randint(len(training), (max(steps), 64), generator=torch.Generator().manual_seed(settings.seed))
        ((looked_at, _),) = training.batches([torch.arange(min(256, len(training)))])
        differences, shares, done = [], [], 0
        for step in steps:
            for images, labels in training.batches(order[done:step]):
                for model, optimizer in zip(models, optimizers):
                    train_epoch(model, [(images.to(kind), labels)], optimizer)
            done = step
            with torch.no_grad():
                one, two = (model(looked_at.to(kind)) for model in models)  # (256, classes) each
            differences.append(float((one - two).abs().max()))
            shares.append(float((one.argmax(-1) != two.argmax(-1)).double().mean()))
        precision = str(kind).removeprefix("torch.")
        found.append(dict(other=other, precision=precision, steps=list(steps), largest=differences, answers=shares))
    return found

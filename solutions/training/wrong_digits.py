"""What a trained model gets wrong: a figure and a record for the chapter."""

import hashlib
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from solutions.training.data import Split
from solutions.training.record import write_json


def confusion(model: nn.Module, split: Split) -> Tensor:
    """Count the answers for each class, (classes, classes): a row for each class, a column for each answer."""
    counts = torch.zeros(split.num_classes, split.num_classes, dtype=torch.long)
    with torch.no_grad():
        for images, labels in split.batches(torch.arange(len(split)).split(1000)):
            answers = model.eval()(images).argmax(dim=-1)  # (B,)
            pairs = split.num_classes * labels + answers
            counts += torch.bincount(pairs, minlength=counts.numel()).view_as(counts).cpu()
    return counts


def write_mistakes(records: Path, model: nn.Module, test: Split, seed: int) -> None:
    """Write mistakes.json: a model's answers for each class, and the test images that it gets wrong, without their pixels."""
    with torch.no_grad():
        shares = [model.eval()(images).softmax(dim=-1) for images in test.images.split(1000)]
    probabilities = torch.cat(shares)  # (B, 10)
    wrong = (probabilities.argmax(dim=-1) != test.labels).nonzero()[:, 0].tolist()
    mistakes = dict(
        weights=hashlib.sha256((records / "vit_mnist.pt").read_bytes()).hexdigest(),
        seed=seed,
        images=len(test),
        confusion=confusion(model, test).tolist(),
        wrong=[
            dict(index=i, label=int(test.labels[i]), probabilities=[round(float(p), 6) for p in probabilities[i]])
            for i in wrong
        ],
    )
    write_json(records / "mistakes.json", mistakes)
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

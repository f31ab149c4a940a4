"""Classify images with a trained model: `python -m solutions.training.classify photo.jpg --record run.json`.

`solutions.training.train --record` writes the record, which describes the model and its images.
"""

import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from solutions.training.architectures import make_model
from solutions.training.data import Split, read_image
from solutions.training.settings import Settings


def load_run(record: Path, weights: Path) -> tuple[nn.Module, dict]:
    """Return a trained model in evaluation mode, and what its record says about the images.

    Raises:
        ValueError: The record is of no run, or does not describe its images; or the weights are of another model.
    """
    try:
        run = json.loads(record.read_text(encoding="utf-8"))[0]
        settings, images = Settings(**run["settings"]), dict(run["images"])
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        raise ValueError(f"{record} is no record of a run: write one with solutions.training.train --record") from None
    nothing = Split(torch.empty(0, *images["shape"]), torch.empty(0), len(images["classes"]))
    model = make_model(settings, nothing)
    try:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except Exception as error:  # PyTorch raises many kinds of errors for a file of another format
        raise ValueError(f"{weights} does not hold the weights of that run ({type(error).__name__})") from None
    return model.eval(), images


def classify(model: nn.Module, images: dict, path: Path) -> Tensor:
    """Return the probability of each class, (classes,), for an image; a model of grey images gets the mean of the colours.

    Raises:
        ValueError: The file cannot be read as an image.
    """
    channels, size, _ = images["shape"]
    pixels = read_image(path, size) / 255  # (3, size, size)
    pixels = pixels if channels == 3 else pixels.mean(0, keepdim=True)
    mean, std = (torch.tensor(images[name]).view(-1, 1, 1) for name in ("mean", "std"))
    with torch.no_grad():
        return model(((pixels - mean) / std)[None]).softmax(dim=-1)[0]


def main(
    files: Annotated[list[Path], typer.Argument(help="Images.")],
    record: Annotated[Path, typer.Option(help="The run's record, written by solutions.training.train.")],
    weights: Annotated[Path, typer.Option(help="The trained parameters.")] = Path("vit.pt"),
) -> None:
    """Classify images with a trained model."""
    try:
        model, images = load_run(record, weights)
        for path in files:
            best = classify(model, images, path).topk(min(3, len(images["classes"])))
            said = [f"{images['classes'][label]} {share:.1%}" for share, label in zip(*map(Tensor.tolist, best))]
            typer.echo(f"{path}: {', '.join(said)}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


if __name__ == "__main__":
    typer.run(main)

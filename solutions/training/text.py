"""Texts as data of the recipe, and writing with a trained decoder: `python -m solutions.training.text --help`.

`python -m solutions.training.train --data FILE.txt --record run.json --weights writer.pt` trains the decoder.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from solutions.decoder import write
from solutions.training.classify import load_run
from solutions.training.data import Data

# The page's copy of the model has at most 400 kB, so it has few and narrow blocks.
SETTINGS = dict(architecture="decoder", shift=0.0, rotation=0.0, width=96, depth=2, num_heads=4, hidden_width=384)
SETTINGS |= dict(batch_size=8, position_std=0.1)  # a window has 128 answers, so few windows are enough for a step


@dataclass(frozen=True)
class Windows:
    """All windows of a text that begin at every `step`-th character, and for each character the next one."""

    characters: Tensor  # (characters of the text,), as numbers
    num_classes: int  # different characters
    shape: tuple[int]  # characters of a window
    step: int

    def __len__(self) -> int:
        return (len(self.characters) - 1 - self.shape[0]) // self.step + 1

    def to(self, device: torch.device) -> "Windows":
        """Move the text to a device."""
        return replace(self, characters=self.characters.to(device))

    def batches(self, order: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield windows, (B, N), and for each of their characters the next one, (B N,), for indices, (B,)."""
        for chosen in order:
            places = torch.arange(self.shape[0] + 1, device=chosen.device)
            windows = self.characters[self.step * chosen[:, None] + places]
            yield windows[:, :-1], windows[:, 1:].flatten()


class Text(Data):
    """Three parts of a text. Its classes are its characters."""

    def in_words(self) -> str:
        """Describe the text."""
        counts = (f"{len(part.characters):,}" for part in (self.training, self.validation, self.test))
        text = "{}: {} different characters; {} characters for training, {} for validation, {} for the test."
        return text.format(self.name, len(self.classes), *counts)


def load_text(path: Path, context: int = 128) -> Text:
    """Load a text of any language: the last tenth is for validation and test, in equal parts.

    Args:
        path: A file in UTF-8.
        context: The number of characters of a window.

    Raises:
        ValueError: The file is not UTF-8, or is too short for windows of this size.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a text in UTF-8 ({error})") from None
    if len(text) < (least := 20 * (context + 2)):
        raise ValueError(f"{path} has {len(text)} characters; windows of {context} need {least}: give a longer text")
    classes = sorted(set(text))
    numbers = torch.tensor([*map({each: i for i, each in enumerate(classes)}.get, text)])  # (characters,)
    # Windows for training overlap by half, so that each character is read at two places.
    steps = max(1, context // 2), context, context
    parts = zip(numbers.tensor_split([len(text) * 18 // 20, len(text) * 19 // 20]), steps)
    windows = (Windows(part, len(classes), (context,), step) for part, step in parts)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Text(f"{path.name}, SHA-256 {digest}", *windows, classes, SETTINGS, mean=(), std=())


def main(
    beginning: Annotated[str, typer.Argument(help="The beginning of the text.")],
    record: Annotated[Path, typer.Option(help="The run's record.")] = Path("book/records/decoder_pages.json"),
    weights: Annotated[Path, typer.Option(help="The trained parameters.")] = Path("book/records/decoder_pages.pt"),
    count: Annotated[int, typer.Option(min=1, help="How many characters to write.")] = 300,
    temperature: Annotated[float, typer.Option(min=0.01, help="Below 1: likelier characters.")] = 0.7,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from this many likeliest characters.")] = None,
    seed: int = 0,
) -> None:
    """Continue a text with a trained decoder; without options, with the book's own."""
    try:
        model, facts = load_run(record, weights)
        characters = facts["classes"]
        if not beginning or not {*beginning} <= {*characters}:
            raise ValueError(f"a beginning needs one or more of the characters {''.join(characters)!r}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    numbers = torch.tensor([[characters.index(each) for each in beginning]])  # (1, n)
    generator = torch.Generator().manual_seed(seed)
    written = write(model, numbers, count, temperature=temperature, top_k=top_k, generator=generator)
    typer.echo("".join(characters[number] for number in written[0].tolist()))


if __name__ == "__main__":
    typer.run(main)

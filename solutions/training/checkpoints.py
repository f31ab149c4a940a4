"""Keep the state of a run after each epoch, and continue the run from it."""

from pathlib import Path
from tempfile import TemporaryFile

import torch
from torch import Tensor

from solutions.training.data import Split


def glimpse(images: Split) -> Tensor:
    """Return numbers that identify images or windows: count, shape, and answers and means of the first hundred."""
    some, labels = next(images.batches([torch.arange(min(100, len(images)))]))
    means = some.float().flatten(1).mean(1)
    return torch.cat([torch.tensor([len(images), *images.shape]), labels.cpu(), means.cpu()])


def keep(path: Path, run: dict, parts: dict, generator: torch.Generator, curve: list[dict]) -> None:
    """Write the state of a run, completely or not at all."""
    state = {name: part.state_dict() for name, part in parts.items()}
    state |= dict(run, generator=generator.get_state(), curve=curve)
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def resume(path: Path, run: dict, parts: dict, generator: torch.Generator) -> list[dict]:
    """Set a run to its kept state. Return the epochs that it has done.

    Raises:
        ValueError: The file belongs to another run, or holds no run.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        kept = state["settings"]
        images = state["images"]
    except Exception as error:  # PyTorch raises many kinds of errors for a file of another format
        raise ValueError(f"{path} holds no run ({type(error).__name__}): delete it, or name another file") from None
    now, others = run["settings"], "delete it to begin again, or name another file"
    if differ := [f"{name}={kept.get(name)} and not {now[name]}" for name in now if kept.get(name) != now[name]]:
        raise ValueError(f"{path} belongs to a run with {', '.join(differ)}: {others}")
    # Another machine may round the means differently.
    if images.shape != run["images"].shape or not torch.allclose(images, run["images"], rtol=0, atol=1e-3):
        raise ValueError(f"{path} belongs to a run on other images: {others}")
    for name, part in parts.items():
        part.load_state_dict(state[name])
    generator.set_state(state["generator"])
    return state["curve"]


def check_can_be_written(*paths: Path | None) -> None:
    """Make the folders of files that will be written, so that no finished run is lost.

    Raises:
        ValueError: One of the files cannot be written.
    """
    for path in filter(None, paths):
        try:
            if path.is_dir():
                raise IsADirectoryError("it is a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=path.parent):  # without a name, so that it overwrites no file
                pass
        except OSError as error:
            raise ValueError(f"{path} cannot be written ({error}): name another place") from None

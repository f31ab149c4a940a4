"""Files that are written whole or not at all, and files that a stranger named."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

MAX_BYTES = 50 * 2**20  # of a submitted notebook
MAX_FILE = 4 * 2**20  # bytes of a file next to the notebook


class Unreadable(ValueError):
    """No notebook can be made of the file; the message says why."""


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write a file so that a kill or a power cut at any moment leaves the old one or the new one, whole.

    Raises:
        OSError: it cannot be written; it names the file, and no half of it is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode(errors="replace") if isinstance(text, str) else text  # a text may hold half a character
    if path.is_file() and path.read_bytes() == data:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # that of a full disk names no file
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


def read_json(path: Path, fix: str) -> Any:
    """Read a file of ours; nothing where there is none. It may be cut off, by a disk that lost power.

    Raises:
        ValueError: it cannot be read. The message says what to do about it, as in `repair_notebook`.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} cannot be read: it is damaged or cut off. {fix}") from None


def made_once(path: Path, make: Callable[[], Any]) -> Any:
    """Return what a JSON file holds; if it is not there, make it, in one of all processes that want the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            write_atomically(path, json.dumps(make()))
    return json.loads(path.read_text(encoding="utf-8"))


def read_plain_file(path: Path, most: int = MAX_BYTES, start: int | None = None) -> bytes:
    """Read a file that a stranger named: no link, device or pipe, and of so many bytes at most.

    Args:
        path: Where it is.
        most: The number of bytes that it may have.
        start: Read only this many bytes of it, whatever its size.

    Raises:
        Unreadable: it is none, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be opened: {error.strerror}") from None
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        os.close(descriptor)
        raise Unreadable(f"{path.name} is not a plain file")
    with open(descriptor, "rb") as file:
        if start is not None:
            return file.read(start)
        if info.st_size > most:
            raise Unreadable(f"{path.name} has {info.st_size / 2**20:.1f} MiB; at most {most / 2**20:.0f} are read")
        return file.read(most)


def is_notebook(path: str) -> bool:
    """Whether a file is a notebook, by its name."""
    return path.lower().endswith(".ipynb")


def kind_of(path: str) -> str:
    """Return by which ending a file is known: ".pt" of "Copy of vit (1).PT"."""
    return PurePosixPath(path).suffix.lower()


def writable(text: str) -> str:
    """Return a text that a file can hold: half a character, as a stranger may write one, becomes "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shown(name: str) -> str:
    """Return a stranger's name as it can be printed: nothing in it moves the cursor or turns the text around."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)

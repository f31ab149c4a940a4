"""Write files completely or not at all, and read files that come from strangers."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

MAX_BYTES = 50 * 2**20  # bytes of a submitted notebook
MAX_FILE = 4 * 2**20  # bytes of a file next to the notebook


class Unreadable(ValueError):
    """A file cannot be read; the message says why."""


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write a file so that a kill or a power cut at any moment leaves the complete old file or the complete new one.

    Raises:
        OSError: the file cannot be written. The error names it, and no partial file remains.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode(errors="replace") if isinstance(text, str) else text  # a text may hold a lone surrogate
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
        raise OSError(error.errno, error.strerror, str(path)) from error  # Python's error for a full disk names no file
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the folder holds the file's new name
    finally:
        os.close(folder)


def read_json(path: Path, fix: str) -> Any:
    """Read a JSON file that the autograder wrote; None if it does not exist. A power cut may have left it incomplete.

    Raises:
        ValueError: the file cannot be read. The message ends with `fix`, which says what to do.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} cannot be read: it is damaged or cut off. {fix}") from None


def made_once(path: Path, make: Callable[[], Any]) -> Any:
    """Return the content of a JSON file. If the file does not exist, one process makes it, and other processes wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            write_atomically(path, json.dumps(make()))
    return json.loads(path.read_text(encoding="utf-8"))


def read_plain_file(path: Path, most: int = MAX_BYTES, start: int | None = None) -> bytes:
    """Read a file that comes from a stranger; it must be a plain file (no link, device or pipe), and not too large.

    Args:
        path: The file.
        most: The largest size, in bytes.
        start: If given, read only this many bytes at the start of a file of any size.

    Raises:
        Unreadable: it is not a plain file, or it is too large.
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
            raise Unreadable(f"{path.name} has {too_large(path.name, info.st_size, most)}")
        return file.read(most)


def too_large(name: str, size: int, most: int = MAX_BYTES) -> str:
    """Say that a file has too many bytes. Most of a large notebook are pictures and tables below its cells."""
    fix = ". Clear the outputs of all cells, save, and submit the notebook again" if ".ipynb" in name.lower() else ""
    return f"{size / 2**20:.1f} MiB; at most {most / 2**20:.0f} are read{fix}"


def is_notebook(path: str) -> bool:
    """Whether a file's name ends with .ipynb."""
    return path.lower().endswith(".ipynb")


def kind_of(path: str) -> str:
    """Return the ending of a file's name in small letters: ".pt" for "Copy of vit (1).PT"."""
    return PurePosixPath(path).suffix.lower()


# Signs that reverse the order in which a text is shown. Python's and JSON's escapes replace them.
REVERSING = {sign: f"\\u{sign:04x}" for sign in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
# The other signs of control, without tab and the ends of lines.
CONTROL = {sign: f"\\x{sign:02x}" for sign in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}


def writable(text: str) -> str:
    """Return a text that a file can hold and that is shown as it is read.

    A lone surrogate becomes "?". A sign that reverses the text becomes its escape, which means the same in a string.
    """
    return text.encode("utf-8", "replace").decode("utf-8").translate(REVERSING)


def showable(text: str) -> str:
    """Return a text for a page: as `writable`, and without other signs of control, such as ESC."""
    return writable(text).translate(CONTROL)


def printable(name: str) -> str:
    """Return a stranger's name in a form that is safe to print: it cannot move the cursor or reverse the text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)

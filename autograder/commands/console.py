"""How commands speak: results on stdout, what is wrong in one line on stderr, and how they end.

All that a command prints goes through the two consoles of this module, or `print_json`. What they print may hold texts of
students, and no text of theirs moves the cursor, changes a colour or turns the line around.
"""

import errno
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from autograder.files import shown


class _SafeConsole(Console):
    """Prints each text as it can be printed; only rich's own segments of control move the cursor."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Give the segments of what is printed; line breaks stay."""
        for segment in super().render(renderable, options):
            if segment.control or all(line.isprintable() for line in segment.text.split("\n")):
                yield segment
            else:
                yield Segment("\n".join(map(shown, segment.text.split("\n"))), segment.style)


out, err = _SafeConsole(), _SafeConsole(stderr=True)


def say(text: str) -> None:
    """Print a line of ours, which is not broken: a path is copied from it."""
    out.print(text, soft_wrap=True, highlight=False, markup=False)


def say_of_others(text: str) -> None:
    """Print a line that holds what others wrote, which may be no printable text."""
    say(shown(text))


def show(*what: RenderableType) -> None:
    """Print tables, and lines with marked words."""
    out.print(*what, sep="\n", highlight=False)


def print_json(data: object) -> None:
    """Print JSON for a script, and nothing else."""
    text = json.dumps(data, indent=1, ensure_ascii=False, default=str)
    safe = (char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write("".join(safe) + "\n")


def stopped(error: object) -> typer.Exit:
    """Say in one line what is wrong; return what ends the command with 1.

    Further lines of an error are indented, so that none of them looks like a line of ours.
    """
    text = "\n  ".join(str(error).splitlines())
    err.print(f"[bold red]autograder:[/] {escape(text)}", highlight=False, soft_wrap=True)
    return typer.Exit(1)


@contextmanager
def stopping_at(*errors: type[Exception]) -> Iterator[None]:
    """End the command with one line where one of these errors comes, not with a traceback."""
    try:
        yield
    except errors as error:
        raise stopped(error) from None


# What a person can put right, and how. Any other error of a file is a mistake of ours, and shows where it was made.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room on the disk"),
    **dict.fromkeys(
        (errno.EROFS, errno.EACCES, errno.EPERM), "make it a file and a folder that you may read and write"
    ),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST), "move away what is there, a folder instead of a file or a file"
    ),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENAMETOOLONG), "see whether the disk and its folders are well"
    ),
}


def explaining_files(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end with one line, not with a traceback, where a file of its course cannot be read or written."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except OSError as error:
            course = options.get("course")
            if course is None or error.errno not in REMEDIES or not _is_below(error.filename, course):
                raise
            raise stopped(
                f"{os.fsdecode(error.filename)}: {error.strerror}; {REMEDIES[error.errno]}, and give the command again. "
                "What was graded is kept"
            ) from None

    return run


def _is_below(file: object, folder: Path) -> bool:
    if not isinstance(file, str | bytes | os.PathLike):
        return False
    path = os.path.abspath(os.fsdecode(file))
    return any(Path(path).is_relative_to(each) for each in (folder.absolute(), folder.resolve()))

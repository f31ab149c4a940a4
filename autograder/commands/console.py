"""The output of commands: results on stdout, errors in one line on stderr, and exit codes.

Everything that a command prints goes through the two consoles of this module, or `print_json`. Printed texts may come
from students. Such a text cannot move the cursor, change a colour, or reverse the direction of a line.
"""

import errno
import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from autograder.commands.options import COURSE
from autograder.files import printable


class _SafeConsole(Console):
    """Replaces unprintable characters; only rich's own control segments move the cursor."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print; line breaks stay."""
        for segment in super().render(renderable, options):
            if segment.control or all(line.isprintable() for line in segment.text.split("\n")):
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


out, err = _SafeConsole(), _SafeConsole(stderr=True)


def say(text: str) -> None:
    """Print one line without breaking it, because people copy paths from such lines; unprintable characters are replaced."""
    out.print(printable(text), soft_wrap=True, highlight=False, markup=False)


def command_line(course: Path, *words: str) -> str:
    """Return a command of the autograder on a course, so that a person can copy it to a shell."""
    return shlex.join(["autograder", *words, *(["--course", str(course)] if course != COURSE else [])])


def show(*what: RenderableType) -> None:
    """Print tables, and lines with marked words."""
    out.print(*what, sep="\n", highlight=False)


def print_json(data: object) -> None:
    """Print JSON for a script, and nothing else."""
    text = json.dumps(data, indent=1, ensure_ascii=False, default=str)
    safe = (char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write("".join(safe) + "\n")


def error_exit(error: object) -> typer.Exit:
    """Print an error in one line; return the exception that ends the command with 1.

    Further lines of an error are indented, so that none of them looks like a line of the program.
    """
    text = "\n  ".join(str(error).splitlines())
    err.print(f"[bold red]autograder:[/] {escape(text)}", highlight=False, soft_wrap=True)
    return typer.Exit(1)


@contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with one line, instead of a traceback, when one of these errors is raised."""
    try:
        yield
    except errors as error:
        raise error_exit(error) from None


# How a person can correct an error of a file. Any other file error is a bug of the autograder, and shows its traceback.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room on the disk"),
    **dict.fromkeys(
        (errno.EROFS, errno.EACCES, errno.EPERM),
        "change the permissions so that you can read and write it and its folder",
    ),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST),
        "move away what is there: a folder is where a file must be, or a file where a folder must be",
    ),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENAMETOOLONG), "check the disk and its folders"),
}

"""How commands speak: results on stdout, what is wrong in one line on stderr, and how they end."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from autograder.files import shown

out, err = Console(), Console(stderr=True)


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
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n")


def stopped(error: object) -> typer.Exit:
    """Say in one line what is wrong; return what ends the command with 1."""
    err.print(f"[bold red]autograder:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(1)


@contextmanager
def stopping_at(*errors: type[Exception]) -> Iterator[None]:
    """End the command with one line where one of these errors comes, not with a traceback."""
    try:
        yield
    except errors as error:
        raise stopped(error) from None

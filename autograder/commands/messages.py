"""Print the messages that students can get from the tests."""

import secrets
from typing import Annotated

import typer

from autograder.commands.bars import Bars
from autograder.commands.console import say
from autograder.commands.selection import find_assignments


def messages(
    assignment: Annotated[
        str | None, typer.Argument(help="The name of an assignment; by default all assignments.")
    ] = None,
    mutations: Annotated[int, typer.Option(help="How many mutations (small changes) of each answer to try.")] = 20,
    seed: Annotated[int | None, typer.Option(help="The seed of inputs and mutations; by default a new seed.")] = None,
) -> None:
    """Print every message that a test can give to a student, once.

    The command runs the tests on all known mistakes and on mutations of the answers, and prints their messages.
    """
    from autograder.checks.messages import messages_of

    stems = find_assignments(assignment)
    seed = secrets.randbits(31) if seed is None else seed
    for name, stem in stems.items():
        with Bars() as bars:
            test_messages = messages_of(stem, seed, mutations, bars)
        say(f"# {name}: {len(test_messages)} messages (seed {seed})\n")
        for message in test_messages:
            say(f"## {message.exercise}, {message.answer}\n{message.text}\n")

"""The command `autograder`."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import typer

from autograder.commands import authoring, exchange, grading, reporting
from autograder.commands.demo import demo
from autograder.commands.saying import explaining_files, stopped
from autograder.installed import enter_repository

COMMANDS = {  # in the order in which the help lists them
    "build": authoring.build,
    "edition": authoring.edition,
    "book": authoring.book,
    "record": authoring.record,
    "demo": demo,
    "grade": grading.grade,
    "feedback": reporting.feedback,
    "report": reporting.report,
    "alike": reporting.alike,
    "answer": reporting.answer,
    "forget": exchange.forget,
    "collect": exchange.collect,
    "export": exchange.export,
    "submit-check": grading.submit_check,
    "mutants": authoring.mutants,
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Build the exercise notebooks of this book, grade what was handed in, and say which mistake it is.",
)
for name, function in COMMANDS.items():
    app.command(name)(explaining_files(function))


def main() -> None:
    """Run the command."""
    enter_repository()
    with home_to_write_in():
        try:
            app()
        except RuntimeError as error:
            from autograder.course.gradebook import GradebookError  # with nbgrader, as in course_in

            if isinstance(error, GradebookError):
                raise SystemExit(stopped(error).exit_code) from None
            raise


@contextlib.contextmanager
def home_to_write_in() -> Iterator[None]:
    """Work in a home that lasts as long, where the user's own cannot be written: Jupyter and Matplotlib need one to run."""
    with contextlib.ExitStack() as until_it_ends:
        if not os.access(Path.home(), os.W_OK):
            home = tempfile.TemporaryDirectory(prefix="autograder-home-", ignore_cleanup_errors=True)
            os.environ["HOME"] = until_it_ends.enter_context(home)
        yield

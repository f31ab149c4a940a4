"""The command `autograder`."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import typer

import autograder.lighter_imports  # noqa: F401 - this import must come before any import of nbformat
from autograder.commands import authoring, grading, lms, reporting
from autograder.commands.console import REMEDIES, error_exit
from autograder.commands.demo import demo
from autograder.imports import ROOT

COMMANDS = {  # commands, in the order of the help
    "build": authoring.build,
    "student-version": authoring.student_version,
    "book": authoring.book,
    "record": authoring.record,
    "demo": demo,
    "grade": grading.grade,
    "settle": grading.settle,
    "feedback": reporting.feedback,
    "report": reporting.report,
    "similarity": reporting.similarity,
    "answer": reporting.answer,
    "extend": lms.extend,
    "forget": lms.forget,
    "collect": lms.collect,
    "export": lms.export,
    "mutants": authoring.mutants,
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Make the exercise notebooks and the book, grade submissions, and name the mistakes in them.",
)
for name, function in COMMANDS.items():
    app.command(name)(function)


def main() -> None:
    """Run the command."""
    if not (ROOT / "_config.yml").exists():
        message = (
            f'{ROOT} is not a clone of the repository. Clone it, run "make setup" and use .venv/bin/autograder there'
        )
        raise SystemExit(error_exit(message).exit_code)
    with home_to_write_in():
        try:
            app()
        except RuntimeError as error:
            from autograder.course.gradebook import GradebookError

            if isinstance(error, GradebookError):
                raise SystemExit(error_exit(error).exit_code) from None
            raise
        except OSError as error:
            if error.errno not in REMEDIES or error.filename is None:
                raise
            fix = f"{REMEDIES[error.errno]}, and run the command again. Finished results are kept"
            message = f"{error.filename}: {error.strerror}; {fix}"
            raise SystemExit(error_exit(message).exit_code) from None


@contextlib.contextmanager
def home_to_write_in() -> Iterator[None]:
    """Use a temporary home folder if the user's home is not writable, because Jupyter and Matplotlib write there."""
    with contextlib.ExitStack() as until_it_ends:
        if not os.access(Path.home(), os.W_OK):
            home = tempfile.TemporaryDirectory(prefix="autograder-home-", ignore_cleanup_errors=True)
            os.environ["HOME"] = until_it_ends.enter_context(home)
        yield

"""Find the statements of a cell that still run after one of its statements failed.

A notebook stops at the first error of a cell. A line may fail only in the grader: for example, it imports a package that
is not installed here. Then the definitions after it would be lost.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.files import writable
from autograder.missing import missing_in
from autograder.recognition import DEFINITIONS, definitions, parsed

MAX_MESSAGE = 1000  # characters of an error's message that are searched
MAX_TRACE = 100_000  # characters of a traceback that are searched
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLACE = re.compile(r"In\[\d+\], line (\d+)")  # IPython's words for the line of a cell in which an error arose
DEFINES = (*DEFINITIONS, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True)
class Rest:
    """What is left of a cell."""

    source: str
    message: str  # what was left out, in words


def rest_after_error(source: str, outputs: Sequence[NotebookNode]) -> Rest | None:
    """Return the statements that still run after a cell ended with an error; None if there are none.

    After a failed import, all later statements run. After another error, only definitions, imports and assignments run.

    Args:
        source: The cell's text.
        outputs: The cell's outputs.
    """
    error, failed = _error_in(outputs), _failed_statement(source, outputs)
    if failed is None:
        return None
    imports = isinstance(failed, (ast.Import, ast.ImportFrom))
    rest = [each for each in parsed(source).body if _first_line(each) > failed.end_lineno]
    kept = [each for each in rest if imports or isinstance(each, DEFINES)]
    if not any(isinstance(each, DEFINES) for each in kept):
        return None
    lines = source.split("\n")
    text = "\n".join(_text_of(each, lines) for each in kept)
    missing = missing_in(f"{error.ename}: {error.evalue}"[:MAX_MESSAGE])
    statement = writable(lines[_first_line(failed) - 1].strip())[:80]
    if imports and missing:
        message = f'{missing} is not installed here: "{statement}" was left out, and the rest of the cell ran.'
    else:
        message = f'"{statement}" ended with {writable(error.ename)[:80]}; the definitions after it were run.'
    return Rest(text, " ".join(message.split()))


def may_define_any_name(source: str, outputs: Sequence[NotebookNode]) -> bool:
    """Whether the statement with which a cell ended may define names that the cell does not show.

    Examples are `%run answers.py`, `exec(open("answers.py").read())` and `from answers import *`.
    """
    failed = _failed_statement(source, outputs)
    names = {} if failed is None else definitions(_text_of(failed, source.split("\n")))
    return not names or "*" in names


def _error_in(outputs: Sequence[NotebookNode]) -> NotebookNode | None:
    return next((output for output in outputs if output.output_type == "error"), None)


def _failed_statement(source: str, outputs: Sequence[NotebookNode]) -> ast.stmt | None:
    """Return the statement with which a cell ended; None if there is no error, or none of a statement."""
    error = _error_in(outputs)
    tree = parsed(source) if error is not None else None
    if tree is None:
        return None
    trace = COLOUR.sub("", "\n".join(map(str, error.traceback))[-MAX_TRACE:])
    place = PLACE.search(trace.rpartition("Traceback (most recent call last)")[2])
    line = int(place[1]) if place else 0
    return next((each for each in tree.body if _first_line(each) <= line <= each.end_lineno), None)


def _text_of(statement: ast.stmt, lines: list[str]) -> str:
    return "\n".join(lines[_first_line(statement) - 1 : statement.end_lineno])


def _first_line(statement: ast.stmt) -> int:
    """Return the line where a statement begins, its decorators included."""
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))])

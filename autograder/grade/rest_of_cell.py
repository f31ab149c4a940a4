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
from autograder.recognition import DEFINITIONS, parsed

MAX_TRACE = 100_000  # characters of a traceback that are searched
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLACE = re.compile(r"In\[\d+\], line (\d+)")  # IPython's words for the line of a cell in which an error arose
MISSING = re.compile(r"No module named '([\w.]{1,80})'")
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
    error = next((output for output in outputs if output.output_type == "error"), None)
    tree = parsed(source) if error is not None else None
    if tree is None:
        return None
    trace = COLOUR.sub("", "\n".join(map(str, error.traceback))[-MAX_TRACE:])
    place = PLACE.search(trace.rpartition("Traceback (most recent call last)")[2])
    if place is None:
        return None
    line = int(place[1])
    failed = next((each for each in tree.body if _first_line(each) <= line <= each.end_lineno), None)
    if failed is None:
        return None
    imports = isinstance(failed, (ast.Import, ast.ImportFrom))
    rest = [each for each in tree.body if _first_line(each) > failed.end_lineno]
    kept = [each for each in rest if imports or isinstance(each, DEFINES)]
    if not any(isinstance(each, DEFINES) for each in kept):
        return None
    lines = source.split("\n")
    text = "\n".join("\n".join(lines[_first_line(each) - 1 : each.end_lineno]) for each in kept)
    missing = MISSING.search(error.evalue)
    statement = writable(lines[_first_line(failed) - 1].strip())[:80]
    if imports and missing:
        message = f'{missing[1]} is not installed here: "{statement}" was left out, and the rest of the cell ran.'
    else:
        message = f'"{statement}" ended with {writable(error.ename)[:80]}; the definitions after it were run.'
    return Rest(text, " ".join(message.split()))


def _first_line(statement: ast.stmt) -> int:
    """Return the line where a statement begins, its decorators included."""
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))])

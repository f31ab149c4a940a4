"""Packages, files and magics that are missing here. The student's machine may have them."""

import ast
import re

from autograder.files import printable, writable
from autograder.recognition import parsed

# The words of Python and of IPython's %run and %load; one of the groups is the name.
WORDS = re.compile(
    r"No module named '([^']{1,200})'"
    r"|cannot import name ('[^']{1,200}' from '[^']{1,200}')"
    r"|No such file or directory: '([^']{1,200})'"
    r"|File `'([^']{1,200})'` not found"
    r"|'([^']{1,200})' was not found in history, as a file"
    r"|'([^']{1,200})' is not a valid modulename"
    r"|magic (?:function )?`(%{1,2}\w{1,200})` not found"
)
KINDS = re.compile(r"(?:ModuleNotFoundError|ImportError|FileNotFoundError|URLError|gaierror): (.{1,200})", re.S)


def missing_in(error: str) -> str:
    """Return what an error says is missing, in words; "" if it says nothing about a package, a file or a magic.

    Args:
        error: The error's name and text, such as "ModuleNotFoundError: No module named 'numba'".
    """
    if found := WORDS.search(error):
        return printable(found[found.lastindex].replace("'", ""))
    other = KINDS.search(error)
    return f"a package or a file ({printable(other[1])})" if other else ""


def without_missing(source: str, error: str) -> tuple[str, str] | None:
    """Leave out the import or the line for IPython that needs something missing here, so that the rest of a cell can run.

    Args:
        source: The cell's text.
        error: The error with which the cell ended.

    Returns:
        The cell without the import or the line, and a message; None if it has none that needs what is missing.
    """
    missing, tree = missing_in(error) if WORDS.search(error) else "", parsed(source)
    root = re.split(r"[ .]", missing.rpartition(" from ")[2])[0]  # of "torch.extra", or of "name from torch.extra"
    lines = source.split("\n")
    for statement in tree.body if missing and tree else ():
        first, last = statement.lineno - 1, statement.end_lineno
        text, kept = " ".join(" ".join(lines[first:last]).split()), "pass"
        if isinstance(statement, ast.Import):
            rest = [alias for alias in statement.names if alias.name.partition(".")[0] != root]
            found, kept = len(rest) < len(statement.names), ast.unparse(ast.Import(rest)) if rest else "pass"
        elif isinstance(statement, ast.ImportFrom):
            found = (statement.module or "").partition(".")[0] == root
        else:
            found = text[0] in "%!" and missing in text
        if found:
            lines[first:last] = [kept] + [""] * (last - first - 1)
            message = (
                f'{missing} is not installed here: "{writable(text[:80])}" was left out, and the rest of the cell ran.'
            )
            return "\n".join(lines), message
    return None

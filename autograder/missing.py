"""Name the package, file or magic that an error says is missing here. The student's machine may have it."""

import re

from autograder.files import printable

# The words of Python and of IPython's %run and %load; one of the groups is the name.
WORDS = re.compile(
    r"No module named '([^']{1,200})'"
    r"|cannot import name ('[^']{1,200}' from '[^']{1,200}')"
    r"|No such file or directory: '([^']{1,200})'"
    r"|File `'([^']{1,200})'` not found"
    r"|'([^']{1,200})' was not found in history, as a file"
    r"|'([^']{1,200})' is not a valid modulename"
    r"|magic function `(%{1,2}\w{1,200})` not found"
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

"""Find code that only a newer Python can read.

The grader's Python may be older than the student's, and then it may be unable to parse a right answer. Ruff knows the
grammars of all versions. It only parses the text, as Python itself does.
"""

import json
import re
import subprocess
import sys
from functools import lru_cache

from ruff import find_ruff_bin

OUR_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NEWEST = (3, 14)  # the newest version that the locked ruff knows
SECONDS = 10  # time limit; a cell takes 0.03 s
MAX_CODE = 50_000  # characters; no person writes a longer cell
# Lines that only notebooks understand: they begin with % or !, or end with ?
OF_NOTEBOOKS = re.compile(r"^([ \t]*)(?:[%!].*|[\w.]+\?{1,2}[ \t]*)$", re.M)


@lru_cache(maxsize=100)
def newer_python(source: str) -> str | None:
    """Name the first syntax in a cell that needs a newer Python than this one.

    Args:
        source: The code of a cell that this Python cannot parse.

    Returns:
        For example "line 2: Cannot use `type` alias statement on Python 3.11 (syntax was added in Python 3.12)". None
        if no newer Python can parse the cell, or if no newer Python is needed.
    """
    if sys.version_info[:2] >= NEWEST or len(source) > MAX_CODE:
        return None
    source = OF_NOTEBOOKS.sub(r"\1pass", source)
    if _errors(source, NEWEST) != []:
        return None
    errors = _errors(source, sys.version_info[:2])
    return f"line {errors[0]['location']['row']}: {errors[0]['message']}" if errors else None


def _errors(source: str, version: tuple[int, int]) -> list[dict] | None:
    """Return the syntax errors of a text in a version of Python; None if it is nested too deeply to be parsed."""
    command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--select", "PLE0100", "--output-format", "json"]
    command += ["--target-version", f"py{version[0]}{version[1]}", "--stdin-filename", "cell.py", "-"]
    done = subprocess.run(
        command, input=source.encode("utf-8", "replace"), capture_output=True, check=False, timeout=SECONDS
    )
    if done.returncode < 0:  # ruff's stack is full
        return None
    if done.returncode not in (0, 1):
        raise RuntimeError(f"ruff failed on a cell: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    return [error for error in json.loads(done.stdout) if error["code"] == "invalid-syntax"]

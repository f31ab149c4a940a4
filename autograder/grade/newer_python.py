"""Code that only a newer Python can read: which Python, and where.

The grader's Python may be older than the student's, whose right answer is then no program here. Ruff knows the grammars
of all versions. It only reads the text, as Python itself does.
"""

import json
import re
import subprocess
import sys
from functools import lru_cache

from ruff import find_ruff_bin

OUR_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NEWEST = (3, 14)  # that the locked ruff reads
SECONDS = 10  # a cell takes 0.03
MAX_CODE = 50_000  # characters: more is no cell that a person has written
# What notebooks know and Python does not: a line that begins with % or !, or ends with ?
OF_NOTEBOOKS = re.compile(r"^([ \t]*)(?:[%!].*|[\w.]+\?{1,2}[ \t]*)$", re.M)


@lru_cache(maxsize=100)
def newer_python(source: str) -> str | None:
    """Say what in a cell only a newer Python can read than the one that runs this.

    Args:
        source: The code of a cell, which this Python does not read.

    Returns:
        For example "line 2: Cannot use `type` alias statement on Python 3.11 (syntax was added in Python 3.12)", or None
        where no newer Python can read it either, or nothing in it is new.
    """
    if sys.version_info[:2] >= NEWEST or len(source) > MAX_CODE:
        return None
    source = OF_NOTEBOOKS.sub(r"\1pass", source)
    if _errors(source, NEWEST) != []:
        return None
    errors = _errors(source, sys.version_info[:2])
    return f"line {errors[0]['location']['row']}: {errors[0]['message']}" if errors else None


def _errors(source: str, version: tuple[int, int]) -> list[dict] | None:
    """Return the errors of syntax that a version of Python has with a text; None where it is nested too deeply to be read."""
    command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--select", "PLE0100", "--output-format", "json"]
    command += ["--target-version", f"py{version[0]}{version[1]}", "--stdin-filename", "cell.py", "-"]
    done = subprocess.run(
        command, input=source.encode("utf-8", "replace"), capture_output=True, check=False, timeout=SECONDS
    )
    if done.returncode < 0:  # its stack is full
        return None
    if done.returncode not in (0, 1):
        raise RuntimeError(f"ruff failed on a cell: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    return [error for error in json.loads(done.stdout) if error["code"] == "invalid-syntax"]

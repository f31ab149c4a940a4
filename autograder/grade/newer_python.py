"""Find code that only a newer Python can read, with ruff, which knows the grammars of all versions and only parses."""

import json
import subprocess
import sys
from functools import lru_cache

from ruff import find_ruff_bin

from autograder.recognition import MAGIC

OUR_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SECONDS = 60  # time limit; a cell takes 0.03 s
MAX_CODE = 50_000  # characters; no person writes a longer cell
OPTIONS = ["--isolated", "--no-cache", "--select", "PLE0100", "--output-format", "json", "--stdin-filename", "cell.py"]


@lru_cache(maxsize=100)
def newer_python(source: str) -> str | None:
    """Name the first syntax in a cell that needs a newer Python than this one.

    Args:
        source: The code of a cell that this Python cannot parse.

    Returns:
        For example "line 2: Cannot use `type` alias statement on Python 3.11 (syntax was added in Python 3.12)". None
        if no newer Python can parse the cell, or if no newer Python is needed.
    """
    if len(source) > MAX_CODE:
        return None
    command = [find_ruff_bin(), "check", *OPTIONS, "--target-version", f"py{OUR_PYTHON.replace('.', '')}", "-"]
    text = MAGIC.sub(r"\1pass", source).encode("utf-8", "replace")
    done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=SECONDS)
    if done.returncode < 0:  # the cell is nested too deeply for ruff's stack
        return None
    if done.returncode not in (0, 1):
        raise RuntimeError(f"ruff failed on a cell: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    errors = [error for error in json.loads(done.stdout) if error["code"] == "invalid-syntax"]
    if not errors or not all("syntax was added in" in error["message"] for error in errors):
        return None
    return f"line {errors[0]['location']['row']}: {errors[0]['message']}"

"""Compare lines with a record in this folder."""

import difflib
import math
import re
from pathlib import Path

FOLDER = Path(__file__).parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
WRONG = re.compile(r"\d+(?= of \d+ numbers)")  # another processor rounds differently, also at the border of wrong


def recorded(name: str) -> list[str]:
    """Return the lines of a record."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def differences(before: list[str], now: list[str]) -> list[str]:
    """Return the lines that differ by more than rounding, with their signs as in `diff`."""
    known: dict[str, list[str]] = {}
    for line in before:
        known.setdefault(NUMBER.sub("#", line), []).append(line)
    exact = set(before)

    def as_recorded(line: str) -> str:
        near = () if line in exact else known.get(NUMBER.sub("#", line), ())
        return next((old for old in near if _is_close(old, line)), line)

    return changed(before, list(map(as_recorded, now)))


def changed(before: list[str], now: list[str]) -> list[str]:
    """Return the lines that differ, with their signs as in `diff`."""
    lines = difflib.unified_diff(before, now, "recorded", "now", lineterm="", n=0)
    return [line for line in lines if line[0] in "+-"]


def _is_close(one: str, other: str) -> bool:
    one, other = (WRONG.sub(r"\g<0>.0", text) for text in (one, other))
    pairs = [pair for pair in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True) if pair[0] != pair[1]]
    is_whole = any(a.lstrip("-").isdigit() and b.lstrip("-").isdigit() for a, b in pairs)
    return not is_whole and all(math.isclose(float(a), float(b), rel_tol=0.05, abs_tol=1e-6) for a, b in pairs)

"""Compare what is said to people in a test with said.txt; `record.py said` writes this file again."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from golden.differences import changed, recorded

RECORD = "RECORD_SAID"  # the environment's variable with the file to write into; without it, what is said is compared
FOLDER = re.compile(r"[^\s'\"]*/pytest-of-[^/]+/pytest-\d+/(?:popen-gw\d+/)?[^/\s'\"]+")  # a test's own folder
calls = Counter[str]()


def said(texts: Iterable[str]) -> None:
    """Compare the texts of one call, all of them and in their order, or record them. What a fixture causes is left out."""
    test, _, phase = os.environ["PYTEST_CURRENT_TEST"].partition("/test_")[2].rpartition(" ")
    if phase != "(call)":
        return
    calls[test] += 1
    now = [f"{test} {calls[test]} | {_plain(text)}" for text in texts]
    if path := os.environ.get(RECORD):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in now)
        return
    before = of_calls().get(f"{test} {calls[test]}", [])
    assert before == now, f"{changed(before, now)}\nIf this is wanted: tests/golden/record.py said"


def _plain(text: str) -> str:
    return FOLDER.sub("FOLDER", text).strip().replace("\n", " ⏎ ").encode("unicode_escape").decode()


@cache
def of_calls() -> dict[str, list[str]]:
    """Return the recorded lines of each call."""
    lines: dict[str, list[str]] = {}
    for line in recorded("said"):
        lines.setdefault(line.partition(" | ")[0], []).append(line)
    return lines

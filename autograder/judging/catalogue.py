"""All mistakes that the checks can name: what each is called, and what a student who made it is asked.

They stand in `autograder/checks/*/mistakes.py`; a number that several assignments share is described by the first.
"""

import importlib
from functools import cache
from pathlib import Path

import yaml

from autograder.imports import ROOT
from autograder.judging.mistake import Mistake


def mistakes_of(stem: str) -> tuple[Mistake, ...]:
    """Return the mistakes of a file of answers."""
    return importlib.import_module(f"autograder.checks.{stem}.mistakes").MISTAKES


STEMS = sorted(path.parent.name for path in ROOT.glob("autograder/checks/*/mistakes.py"))
DESCRIBED = {mistake.name: mistake for stem in STEMS for mistake in mistakes_of(stem) if mistake.title}
TITLES = {name: mistake.title for name, mistake in DESCRIBED.items()}
QUESTIONS = {name: mistake.question for name, mistake in DESCRIBED.items()}
MESSAGES = {name: f"{name} ({mistake.title}): {mistake.question}" for name, mistake in DESCRIBED.items()}


@cache
def address_of_book(root: Path = ROOT) -> str:
    """Return where the book, whose page `book/mistakes.html` describes them all, is published; a slash at its end."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["html"]["baseurl"].rstrip("/") + "/"

"""The catalogue of all mistakes that the checks can name, each with its title and its question to the student.

The mistakes are in `autograder/checks/*/mistakes.py`. If several assignments share the number of a mistake, only one
of them gives the title and the question.
"""

import importlib
from functools import cache
from types import ModuleType

import yaml

from autograder.imports import ROOT
from autograder.judge.mistake import Mistake, number_of


def checks_of(stem: str, part: str = "exercises") -> ModuleType:
    """Return a module of the checks for a file of answers; `part` is its name, such as "mistakes" or "right_answers"."""
    return importlib.import_module(f"autograder.checks.{stem}.{part}")


def mistakes_of(stem: str) -> tuple[Mistake, ...]:
    """Return the mistakes of a file of answers."""
    return checks_of(stem, "mistakes").MISTAKES


STEMS = sorted(path.parent.name for path in ROOT.glob("autograder/checks/*/mistakes.py"))
# The chapters also teach these mistakes. No check can notice them: some are mistakes in conclusions, and others are in
# models that no exercise asks for.
TAUGHT = (
    Mistake(
        "M31",
        "the whole sequence is projected at once",
        "The layer has N² times the parameters, and works for only one sequence length. Is each token projected "
        "separately?",
    ),
    Mistake(
        "M39",
        "the feed-forward network reads the whole sequence at once",
        "The block works for only one number of tokens. Does the feed-forward network see each token separately?",
    ),
    Mistake(
        "M54",
        "choices are made with the test images",
        "The reported number is the best of several, so new images would give a lower one. Which images decided when "
        "to stop and what to choose?",
    ),
    Mistake(
        "M59",
        "two factors change at once",
        "The runs differ in more than the factor that they should compare. What else changed?",
    ),
    Mistake(
        "M60",
        "two programs are called equal because their curves look the same",
        "A model with wrong attention can train as well as a model with right attention. With the same parameters, how "
        "large is the largest difference of their logits?",
    ),
    Mistake(
        "M61",
        "changing one factor at a time is called a grid",
        "A grid runs every combination. How many combinations were run, and was the recommended one among them?",
    ),
    Mistake(
        "M62",
        "digits are flipped",
        "A mirrored 2 is not a 2. Are the labels still true after the augmentation?",
    ),
    Mistake(
        "M64",
        "one seed and no interval",
        "How far apart are runs that differ only in their seed? Is your difference larger?",
    ),
)


@cache
def address_of_book() -> str:
    """Return the address of the published book, with a slash at its end. Its page `book/mistakes.html` lists all mistakes."""
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["html"]["baseurl"].rstrip("/") + "/"


def mistakes_by_number() -> dict[str, Mistake]:
    """Return every mistake that the checks can name, by number.

    Raises:
        ValueError: two mistakes have the same number, or a number has no title and question.
    """
    mistakes = [mistake for stem in STEMS for mistake in mistakes_of(stem)]
    by_number: dict[str, Mistake] = {}
    for mistake in (*TAUGHT, *(mistake for mistake in mistakes if mistake.title)):
        if other := by_number.get(mistake.name):
            free = 1 + max(number_of(each.name) for each in (*TAUGHT, *mistakes))
            raise ValueError(f"{mistake.name} is {other.title!r} and {mistake.title!r}; M{free} is free")
        by_number[mistake.name] = mistake
    if lacking := {mistake.name for mistake in mistakes} - by_number.keys():
        raise ValueError(f"{', '.join(sorted(lacking))}: expected a title and a question in one assignment")
    return {name: mistake for name, mistake in by_number.items() if mistake not in TAUGHT}


DESCRIBED = mistakes_by_number()
TITLES = {name: mistake.title for name, mistake in DESCRIBED.items()}
QUESTIONS = {name: mistake.question for name, mistake in DESCRIBED.items()}
MESSAGES = {name: f"{name} ({mistake.title}): {mistake.question}" for name, mistake in DESCRIBED.items()}

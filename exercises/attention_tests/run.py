"""Run the visible tests of an exercise in a notebook."""

import importlib
import json
import sys
from functools import partial
from importlib.resources import files

from attention_tests import VERSION
from attention_tests.compare import UNWRITTEN, WrongAnswer, asked, judge
from attention_tests.line import find_line, with_line
from attention_tests.overwritten import overwritten


def tests_of(stem, version=VERSION):
    """Return `run_tests` for a notebook, and say that it is ready.

    Args:
        stem: The name of the notebook: attention, multihead, encoder, vit or debugging.
        version: The version of this package to which the notebook belongs.
    """
    run_tests, libraries = silent_tests_of(stem)
    title, needs = ("PyTorch", "PyTorch") if "torch" in libraries else ("NumPy", "NumPy and Matplotlib")
    number = libraries["torch" if "torch" in libraries else "np"].__version__
    print(f"Ready: {title} {number}. This notebook needs only {needs}, and no GPU.")
    if version != VERSION:
        older = [int(part) for part in VERSION.split(".")] < [int(part) for part in version.split(".")]
        which = f"but this is version {VERSION}, which is {'older' if older else 'newer'}"
        print(f"This notebook belongs to version {version} of attention_tests, {which}.")
    return run_tests


def silent_tests_of(stem):
    """Return `run_tests` for a notebook, and what its answers import, by name. Arguments as in `tests_of`."""
    frozen = json.loads(files("attention_tests").joinpath(f"{stem}.json").read_text(encoding="utf-8"))
    exercises, libraries = frozen["exercises"], {name: _found(path) for name, path in frozen["libraries"].items()}
    passed = dict.fromkeys(exercises, "–")

    def run_tests(name, *written):
        """Run the visible tests of an exercise, and say which exercises have passed theirs so far.

        Args:
            name: The name of the exercise.
            written: The answer, and what else its test needs.
        """
        exercise, passed[name] = exercises[name], "–"
        ask, *read = map(_found, exercise["ask"])
        others = [each for each in frozen["answers"] if each != name]
        try:
            function = asked(ask, *read, *written) if read else ask(*written)  # a student's test is judged at once
            judge(function, exercise["names"], exercise["cases"], frozen["messages"], book=frozen["book"])
        except Exception as error:
            if exercise["bonus"] and str(error).endswith(UNWRITTEN):
                return print(f"{name} is a bonus: left unwritten, it costs nothing.")
            said = overwritten(written, sys._getframe(1).f_globals, libraries, frozen["answers"])
            if said:
                raise WrongAnswer(f"{said}\n{error}", getattr(error, "mistake", None)) from None
            find = partial(find_line, written, ask, *read, exercise["names"], left_alone=others)
            raise with_line(error, find) from None
        passed[name] = "✓"
        print(f"{name} passes the visible tests. {exercise['untried']}".rstrip())
        shown = [f"{each} {mark}" for each, mark in passed.items() if mark == "✓" or not exercises[each]["bonus"]]
        print("So far:", "  ".join(shown))

    return run_tests, libraries


def _found(path):
    """Return a module, or what a module holds, by its dotted name."""
    try:
        return importlib.import_module(path)
    except ImportError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)

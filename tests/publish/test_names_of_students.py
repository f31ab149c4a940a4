"""Can a student's variable break a visible test? Each name in an answer becomes a number, in every exercise notebook."""

import builtins
import contextlib
import io
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.overwritten import overwritten
from conftest import ALL, assignment_of, python_of

from autograder.judge.exercise import exercises_of


@cache
def solved(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the names in a notebook with right answers, as they are before its tests, and its visible tests."""
    namespace, exercises = {"__name__": "__main__"}, exercises_of(ALL[name])
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in assignment_of(name).instructor.cells:
            if cell.id in ("setup", *exercises) or cell.metadata.get("given"):
                exec(python_of(cell.source), namespace)
    cells = {cell.id: cell.source for cell in assignment_of(name).release.cells}
    return namespace, {each: cells[f"test_{each}"] for each in exercises}


def said_by(test: str, namespace: dict[str, Any]) -> str:
    """Run a visible test; return its error, or an empty string."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(test, namespace)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", ALL)
@pytest.mark.few(2)
def test_no_name_of_a_student_breaks_a_visible_test(name: str) -> None:
    """Does each right answer pass, or does the message name the variable that its code can no longer use?

    The tests are in a package of their own, so that only a name in the answer can break them. Given classes are left out:
    about them, Python's message is enough.
    """
    namespace, tests = solved(name)
    cells = assignment_of(name).instructor.cells
    given = {cell.id for cell in cells if cell.metadata.get("given")}
    for each, test in tests.items():
        answer = next(cell.source for cell in cells if cell.id == each)
        words = set(re.findall(r"\w+", answer)) & (namespace.keys() | vars(builtins).keys())
        assert words
        for word in sorted(words - given):
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(namespace, word, 3)
                said = said_by(test, namespace)
            assert not said or f"`{word}` is " in said, (word, each, said)


@pytest.mark.parametrize("name", ALL)
def test_setup_runs_again_whatever_has_taken_its_names(name: str) -> None:
    """Does the set-up cell restore `run_tests` and the libraries after every name became a number?"""
    right, tests = solved(name)
    words = {*right, "run_tests", *vars(builtins)} - {"__builtins__", "__name__", "__import__"}
    taken = {"__name__": "__main__"} | dict.fromkeys(words, 3)
    setup = next(cell.source for cell in assignment_of(name).release.cells if cell.id == "setup")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(python_of(setup), taken)
    assert printed.getvalue().startswith("Ready: ")
    assert taken["np"] is np
    assert callable(taken["run_tests"])
    first, test = next(iter(tests.items()))
    assert said_by(test, taken | {first: right[first], "__builtins__": builtins}) == ""


@pytest.mark.parametrize(
    ("name", "exercise", "word", "value", "said"),
    [
        ("1_attention", "softmax", "np", 3, "`np` is no longer NumPy: one of your cells assigns it."),
        ("1_attention", "attention", "softmax", np.ones(3), "`softmax` is now an array, not your function"),
        ("1_attention", "attention", "ValueError", 1, "`ValueError` is no longer Python's own"),
        ("2_multihead", "MultiHeadAttention", "nn", [], "`nn` is no longer torch.nn"),
        (
            "2_multihead",
            "split_heads",
            "split_heads",
            torch.ones(2),
            "`split_heads` is now a tensor, not your function",
        ),
        ("2_multihead", "to_torch", "torch", "", "`torch` is no longer PyTorch"),
        ("3_encoder", "Encoder", "range", (0, 1), "`range` is no longer Python's own"),
        ("3_encoder", "repair", "BrokenBlock", 3, "`BrokenBlock` is now a number, not your function"),
    ],
)
def test_name_that_is_overwritten_is_said(name: str, exercise: str, word: str, value: Any, said: str) -> None:
    """Does a student read which name was overwritten, its new value, and what to do?"""
    namespace, tests = solved(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(namespace, word, value)
        text = said_by(tests[exercise], namespace)
    assert text.startswith(f"WrongAnswer: {said}")
    assert "Rename that variable, and run the notebook again from the top." in text
    assert said_by(tests[exercise], namespace) == ""


def test_name_is_not_blamed_that_the_answer_does_not_use() -> None:
    """Does a wrong answer get its own message if an unused name has another value, and if a class in it reads __name__?"""
    namespace = {"max": 3, "np": np, "__name__": "__main__"}
    exec("def softmax(scores):\n    class Sum:\n        pass\n    return scores.max(-1) + np.exp(1)", namespace)
    assert overwritten([namespace["softmax"]], namespace, {"np": np}, ["softmax"]) == ""
    exec("def softmax(scores):\n    return max(scores)", namespace)
    assert overwritten([namespace["softmax"]], namespace, {"np": np}, ["softmax"]).startswith(
        "`max` is no longer Python's"
    )

"""Can a student's variable break a visible test? Each of these names is assigned in every exercise notebook."""

import builtins
import contextlib
import dis
import io
from collections.abc import Iterator
from functools import cache
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.overwritten import names_used, overwritten
from conftest import ALL, assignment_of, python_of
from nbformat import NotebookNode

from autograder.cells import is_solution
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of
from autograder.publish.tests_wheel import PACKAGE

COMMON = """
    values x y z X Y model data run load call tensor judge np torch F nn Tensor list print display input id type sum max min
    str len json re math plt scores weights output outputs result results loss losses key keys query queries q k v attn
    attention softmax mask masks head heads batch batches size shape dim d n i j a b c e f g h m p r s t u w images labels
    tokens words features train test tests evaluate optimizer step epoch lr rate seed rng device dtype grad params layer layers
    block blocks encoder embedding pos norm dropout out logits probs pred target targets acc accuracy fig ax axes figure time
    os sys random copy dict set tuple range int float bool any all abs round zip map filter sorted reversed enumerate iter next
    open format hash dir vars object super property isinstance callable getattr setattr hasattr slice complex bytes exp log
    sqrt mean std var eye zeros ones array asarray where dot matmul pow compile exec eval found names cases messages error
    text name function answer answers expected got case fill draw fit equal Exception ValueError TypeError __builtins__
""".split()  # noqa: SIM905  as a list it would fill a page
# Trying every name takes long for these exercises; only the names that they use are tried.
SLOW = {"attend", "MultiHeadAttention", "to_torch", "FeedForward", "EncoderBlock", "Encoder", "repair"}
SLOW |= {"PatchEmbedding", "ViT", "train_epoch", "test_attention", "train_clipped", "ResidualStack", "DroppingHead"}


@cache
def solved(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the names in a notebook with right answers, as they are before its tests, and its visible tests."""
    assignment, namespace = assignment_of(name), {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in assignment.instructor.cells:
            if cell.cell_type == "code" and is_run(cell):
                exec(python_of(cell.source), namespace)
    cells = {cell.id: cell.source for cell in assignment.release.cells}
    return namespace, {each: cells[f"test_{each}"] for each in exercises_of(ALL[name])}


def is_run(cell: NotebookNode) -> bool:
    """Whether a cell is the set-up, given code, or an answer."""
    answer = "nbgrader" in cell.metadata and is_solution(cell) and not cell.metadata.nbgrader.grade
    return cell.id == "setup" or bool(cell.metadata.get("given")) or answer


def all_code(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the code objects in it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from all_code(part)


def names_of_helpers() -> set[str]:
    """Return the names that the tests of a notebook define or use."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "exercises" / PACKAGE).glob("*.py")]
    codes = [code for text in texts for code in all_code(compile(text, "tests", "exec"))]
    looked_up = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_NAME")
    every = {each.argval for code in codes for each in dis.get_instructions(code) if each.opname in looked_up}
    return every - {"__name__", "__doc__"}


def said_by(test: str, namespace: dict[str, Any]) -> str:
    """Run a visible test; return its error, or an empty string."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(test, namespace)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def broken_by(name: str, everything: bool) -> dict[tuple[str, str], str]:
    """Assign each name in turn; return the messages of tests that fail without naming it, by name and exercise."""
    namespace, tests = solved(name)
    used = {each: set(names_used([namespace[each]], namespace)) for each in tests}
    found, threads = {}, torch.get_num_threads()
    torch.set_num_threads(1)
    # Left out: the function that runs the tests, and the builtins.
    for word in sorted({*names_of_helpers(), *COMMON} - {"run_tests", "__builtins__"}):
        for each, test in tests.items():
            if not everything and each in SLOW and word not in used[each]:
                continue
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(namespace, word, 3)
                said = said_by(test, namespace)
            if said and f"`{word}` is " not in said:
                found[word, each] = said
    torch.set_num_threads(threads)
    return found


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.few(2)
def test_no_name_of_a_student_breaks_a_visible_test(name: str, everything: bool) -> None:
    """Does each right answer pass, or does the message name the variable that its code can no longer use?"""
    assert len(set(COMMON)) > 150
    assert broken_by(name, everything) == {}


@pytest.mark.parametrize("name", ALL)
def test_setup_runs_again_whatever_has_taken_its_names(name: str) -> None:
    """Does the set-up cell restore `run_tests` and the libraries after every name became a number?"""
    _, tests = solved(name)
    words = {*names_of_helpers(), *COMMON, "run_tests", *vars(builtins)} - {
        "__builtins__",
        "__name__",
        "__import__",
    }
    taken = {"__name__": "__main__"} | dict.fromkeys(words, 3)
    setup = next(cell.source for cell in assignment_of(name).release.cells if cell.id == "setup")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(python_of(setup), taken)
    assert printed.getvalue().startswith("Ready: ")
    assert taken["np"] is np
    assert callable(taken["run_tests"])
    first, test = next(iter(tests.items()))
    right = solved(name)[0][first]
    assert said_by(test, taken | {first: right, "__builtins__": builtins}) == ""


@pytest.mark.parametrize(
    ("name", "exercise", "word", "value", "said"),
    [
        ("1_attention", "softmax", "np", 3, "`np` is no longer NumPy: one of your cells assigns it."),
        ("1_attention", "attention", "np", np.ones(2), "`np` is no longer NumPy: one of your cells assigns it."),
        ("1_attention", "attention", "softmax", np.ones(3), "`softmax` is now an array, not your function"),
        ("1_attention", "attention", "ValueError", 1, "`ValueError` is no longer Python's own"),
        ("1_attention", "softmax", "softmax", 0.5, "`softmax` is now a number, not your function"),
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

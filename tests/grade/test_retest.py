"""If a student's own cell breaks code that answers use, are the answers judged without the cell, and is it named?"""

from typing import Any

import nbformat
import pytest
from conftest import SEED, assignment_of, repaired
from sample_class import answer, fill_in

from autograder.grade import retest
from autograder.grade.execute import Execution, execute
from autograder.grade.retest import RESERVED, _find_culprits, _without_effects
from autograder.grade.session import Cell

# This cell makes every call of a layer fail. The method is in no list of restored names.
DEEP = "from torch import nn\nnn.Dropout.__call__ = lambda *_: 1 / 0"


def graded(name: str, exercise: str, before: str, own: list[str], changed: Any = lambda notebook: None) -> Execution:
    """Grade one exercise of a solved notebook, with the student's own cells before a given cell."""
    assignment = assignment_of(name)
    notebook = fill_in(assignment.release, assignment.instructor)
    changed(notebook)
    place = next(index for index, cell in enumerate(notebook.cells) if cell.id == before)
    notebook.cells[place:place] = [nbformat.v4.new_code_cell(source) for source in own]
    notebook = repaired(notebook, assignment).notebook
    kept = ("setup", exercise, f"test_{exercise}")
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("own") or cell.id.startswith(kept)]
    return execute(notebook, SEED)


@pytest.mark.parametrize(
    ("name", "exercise", "before", "own", "guilty"),
    [
        (
            "3_encoder",
            "FeedForward",
            "FeedForward",
            ["print(1)", DEEP, "def helper(): pass", "print(2)"],
            "from torch import nn",
        ),
        ("1_attention", "softmax", "softmax", ["# a try\nnp = 3"], "# a try"),
    ],
)
def test_answers_are_judged_without_the_cell_that_breaks_them(
    name: str, exercise: str, before: str, own: list[str], guilty: str
) -> None:
    """Does a right answer get its points, and do result and feedback name the harmful cell by its first line?"""
    done = graded(name, exercise, before, own)
    assert done.checks and all(check.passed for check in done.checks), done.checks
    said = f"The cell that begins with `{guilty}` changed Python, a library, or a name that answers use."
    assert (done.state, done.why.startswith(said)) == ("graded", True), done.why
    test = next(cell for cell in done.notebook.cells if cell.id == done.checks[0].name)
    assert said in test.outputs[-1].text


# What a cell may leave behind. The test below runs each code in a cell of its own, and at the start of an answer's cell.
LEFT = {
    "output": "import sys\nsys.stdout = sys.stderr = None",
    "depth": "import sys\nsys.setrecursionlimit(90)",
    "built-in functions": "import builtins\nbuiltins.sum = builtins.print = builtins.__build_class__ = None",
    "a function of NumPy": "np.asarray = None",
    "errors of NumPy": "np.seterr(all='raise')",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "a trace": "import sys\ndef trace(*_):\n    raise OSError\nsys.settrace(trace)",
    "an audit hook": "import sys\ndef hook(event, _):\n    if event == 'open':\n        raise OSError\nsys.addaudithook(hook)",
    "an alarm": "import signal\nsignal.alarm(1)",
    "threads": (
        "import threading\ndef turn():\n    while True:\n        pass\n"
        "for _ in range(3):\n    threading.Thread(target=turn, daemon=True).start()"
    ),
    "another folder": "import os\nos.chdir('/')",
}
LEFT_IN_TORCH = {
    "a default type": "torch.set_default_dtype(torch.float64)",
    "a default device": "torch.set_default_device('meta')",
    "no gradients": "torch.set_grad_enabled(False)",
    "inference": "mode = torch.inference_mode()\nmode.__enter__()",
    "many threads": "torch.set_num_threads(4)\n(torch.ones(900, 900) @ torch.ones(900, 900)).sum()",
    "training": "layer = torch.nn.Linear(50, 50)\nfor _ in range(9):\n    layer(torch.ones(99, 50)).sum().backward()",
    "a layer": "torch.nn.Linear.forward = None",
    "hooks": "hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)\nhooks.__enter__()",
    "a hook of all layers": "torch.nn.modules.module.register_module_forward_hook(lambda *_: 1 / 0)",
}


@pytest.mark.parametrize("left", [*LEFT, *LEFT_IN_TORCH])
@pytest.mark.parametrize("place", ["a cell", "the answer's cell"])
@pytest.mark.few(12)
def test_right_answer_keeps_its_points_whatever_cells_leave_behind(left: str, place: str) -> None:
    """Does a right answer keep its points if a cell, or its own cell, changes the state of Python or a library?"""
    name, exercise = ("1_attention", "softmax") if left in LEFT else ("3_encoder", "FeedForward")
    code = LEFT[left] if left in LEFT else f"import torch\n{LEFT_IN_TORCH[left]}"

    def change(notebook: nbformat.NotebookNode) -> None:
        cell = answer(notebook, exercise)
        cell.source = f"{code}\n{cell.source}" if place == "the answer's cell" else cell.source

    done = graded(name, exercise, exercise, [code] if place == "a cell" else [], change)
    assert done.checks and all(check.passed for check in done.checks), done.checks


def test_helper_in_the_same_notebook_stays() -> None:
    """Does an answer find a function from one of the student's own cells if another of these cells is left out?"""

    def with_helper(notebook: nbformat.NotebookNode) -> None:
        cell = answer(notebook, "softmax")
        cell.source = "def softmax(scores, axis=-1):\n    return powers(scores - scores.max(axis, keepdims=True), axis)"

    helper = (
        "def powers(x, axis):\n    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)\nprint(powers(np.ones(2), 0))"
    )
    done = graded("1_attention", "softmax", "softmax", [helper, "np = 3"], with_helper)
    assert done.checks and all(check.passed for check in done.checks), done.checks
    assert "`np = 3`" in done.why


def test_wrong_answer_gains_nothing_and_costs_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a wrong answer stay wrong, whatever own cells do, and is it tried without them only once for all tests?"""
    made = []

    class Counted(retest._CleanRun):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)
            self.tests = 0

        def test(self, cell: nbformat.NotebookNode) -> retest.Tested:
            self.tests += 1
            return super().test(cell)

    monkeypatch.setattr(retest, "_CleanRun", Counted)

    def zeros(notebook: nbformat.NotebookNode) -> None:
        answer(notebook, "softmax").source = "def softmax(scores, axis=-1):\n    return np.zeros_like(scores)"

    done = graded("1_attention", "softmax", "softmax", ["np.exp = np.asarray = None\nprint(1)"], zeros)
    assert len(done.checks) == 3 and not any(check.passed for check in done.checks)
    assert (done.state, done.why) == ("graded", "")
    assert [each.tests for each in made] == [1]
    made.clear()
    right = graded("1_attention", "softmax", "softmax", ["print(1)"])
    assert all(check.passed for check in right.checks) and made == []
    unused = graded("1_attention", "softmax", "softmax", ["def helper(): pass"], zeros)
    assert not any(check.passed for check in unused.checks) and made == []


def test_recording_decides_no_result() -> None:
    """Does what an answer does while it is recorded reach no later answer, and does it still get its line?"""
    assignment = assignment_of("1_attention")
    notebook = fill_in(assignment.release, assignment.instructor)
    answer(notebook, "softmax").source = """import colorsys
def softmax(scores, axis=-1):
    if softmax.__code__.co_code != WRITTEN:  # while values are recorded, functions have other code
        colorsys.recorded = True
    doubled = 2 * scores
    return doubled
WRITTEN = softmax.__code__.co_code"""
    right = answer(notebook, "attention").source
    answer(notebook, "attention").source = f"""{right}
_right = attention
def attention(*arguments):
    assert hasattr(colorsys, "recorded")
    return _right(*arguments)"""
    notebook = repaired(notebook, assignment).notebook
    kept = ("setup", "softmax", "test_softmax", "attention", "attention_weights")
    notebook.cells = [cell for cell in notebook.cells if cell.id in kept or cell.id.startswith("softmax_")]
    done = execute(notebook, SEED)
    of_softmax = [check for check in done.checks if "softmax" in check.name]
    of_attention = [check for check in done.checks if "attention" in check.name]
    assert of_softmax and all("`doubled`" in check.message for check in of_softmax), of_softmax
    assert of_attention and not any(check.passed for check in of_attention), of_attention


@pytest.mark.parametrize("bad", range(7))
def test_cell_to_blame_is_found(bad: int) -> None:
    """Is the only cell that makes the test fail found with few kernels?"""
    asked: list[int] = []

    def passes_with(some: list[int]) -> bool:
        asked.append(len(some))
        return bad not in some

    assert _find_culprits(list(range(7)), passes_with) == [bad]
    assert len(asked) <= 3
    found = _find_culprits(list(range(1000)), passes_with)
    assert bad in found and len(found) <= 63


def test_cell_keeps_its_definitions_alone() -> None:
    """Are definitions kept, and are lines left out if they call, patch, print, or use a name of the answers?"""
    source = """%matplotlib inline
import numpy as np
from torch import nn
SCALE, shift = 2, 3
WIDTH = 4
def helper(x):
    return x
class Net(nn.Module):
    pass
np.exp = helper
hook = nn.Module()
np = list = 3
softmax = WIDTH
helper(3)
for x in range(3): print(x)"""
    kept = _without_effects(Cell(source, own=True), {*RESERVED, "softmax"}).source
    assert kept.splitlines() == [
        "import numpy as np",
        "from torch import nn",
        "WIDTH = 4",
        "def helper(x):",
        "    return x",
        "class Net(nn.Module):",
        "    pass",
    ]
    for cell in (Cell(kept, own=True), Cell("not Python at all", own=True), Cell(source, released=True)):
        assert _without_effects(cell, RESERVED) == cell


def test_answer_keeps_all_but_effects() -> None:
    """Does an answer keep what gives names a value, and lose calls and changes of other things?"""
    source = """import sys
scale = float("2")
for factor in (1, 2):
    scale *= factor
sys.stdout = None
np.seterr(all="raise")
sys.path[:] = []
'''A text.'''
def answer(x):
    np.seterr(all="warn")
    return x"""
    kept = _without_effects(Cell(source, answers=True), RESERVED).source.splitlines()
    assert kept[:4] == ["import sys", "scale = float('2')", "for factor in (1, 2):", "    scale *= factor"]
    assert kept[4:] == ["def answer(x):", "    np.seterr(all='warn')", "    return x"]

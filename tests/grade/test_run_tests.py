"""If a student's own cell breaks code that answers use, are the answers judged without the cell, and is it named?"""

from typing import Any

import nbformat
import pytest
from conftest import SEED, assignment_of, repaired
from sample_class import answer, fill_in

from autograder.grade.execute import Execution, execute

# This cell makes every call of a layer fail.
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


NAMED = [  # assignment, exercise, the student's own cells, the beginning of the reason
    ("3_encoder", "FeedForward", ["print(1)", DEEP],
     "One of the cells that begin with `print(1)`, `from torch import nn` changed Python, a library, or a name"),
    ("1_attention", "softmax", ["# a try\nnp = 3"],
     "The cell that begins with `# a try` changed Python, a library, or a name"),
    ("1_attention", "softmax", ["np = 3"] + [f"print({number})" for number in range(9)],
     "One of the cells that begin with `np = 3`, `print(0)`, `print(1)`, `print(2)`, `print(3)`, … changed"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "exercise", "own", "said"), NAMED)
def test_answers_are_judged_without_the_cell_that_breaks_them(
    name: str, exercise: str, own: list[str], said: str
) -> None:
    """Does a right answer get its points, and do result and feedback name the cells that may have done harm?"""
    done = graded(name, exercise, exercise, own)
    assert done.checks and all(check.passed for check in done.checks), done.checks
    assert (done.state, done.why.startswith(said)) == ("graded", True), done.why
    test = next(cell for cell in done.notebook.cells if cell.id == done.checks[0].name)
    assert said in test.outputs[-1].text


def test_wrong_answer_gains_nothing() -> None:
    """Does a wrong answer stay wrong, and does nothing blame the student's own cells, whatever they do?"""

    def zeros(notebook: nbformat.NotebookNode) -> None:
        answer(notebook, "softmax").source = "def softmax(scores, axis=-1):\n    return np.zeros_like(scores)"

    done = graded("1_attention", "softmax", "softmax", ["np.exp = np.asarray = None\nprint(1)"], zeros)
    assert len(done.checks) == 3 and not any(check.passed for check in done.checks)
    assert (done.state, done.why) == ("graded", "")


def test_unwritten_answer_is_no_question_if_its_cell_is_lost() -> None:
    """If every later cell loses the kernel, do right answers get their points, and is the one that is missing known?"""
    assignment = assignment_of("1_attention")
    notebook = fill_in(assignment.release, assignment.instructor)  # without the bonus
    ends = "import os\nget_ipython().events.register('pre_run_cell', lambda *_: os._exit(0))"
    notebook.cells.insert(2, nbformat.v4.new_code_cell(ends))
    done = execute(repaired(notebook, assignment).notebook, SEED)
    failed = {check.message.split(": ")[1] for check in done.checks if not check.passed}
    assert (failed, done.questions) == ({"not written yet."}, [])


@pytest.mark.parametrize(
    "own",
    [
        ["print(0)\nnp = list = 3\ndef powers(x):\n    return np.exp(x)"],
        ["np = 3\nfrom math import exp\nclass powers:\n    def __new__(cls, x):\n        return x * 0 + 1"],
        ["np = 3", "the scores, exponentiated", "def powers(x):\n    return x * 0 + 1"],
    ],
    ids=["a function below a call", "an import", "not Python at all"],
)
def test_definitions_stay(own: list[str]) -> None:
    """Does an answer find what the student's own cells define, if other lines of these cells are left out?"""

    def use(notebook: nbformat.NotebookNode) -> None:
        cell = answer(notebook, "softmax")
        right = cell.source.replace("def softmax(", "def right(")
        cell.source = f"{right}\n\n\ndef softmax(scores, axis=-1):\n    powers(scores)\n    return right(scores, axis)"

    done = graded("1_attention", "softmax", "softmax", own, use)
    assert done.checks and all(check.passed for check in done.checks), done.checks
    assert "np = " in done.why or "print(0)" in done.why


# What a cell may leave behind without harm to answers.
HARMLESS = {
    "output": "import sys\nsys.stdout = sys.stderr = None",
    "depth": "import sys\nsys.setrecursionlimit(90)",
    "built-in functions": "import builtins\nbuiltins.sum = builtins.print = builtins.__build_class__ = None",
    "errors of NumPy": "np.seterr(all='raise')",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "an audit hook": "import sys\ndef hook(event, _):\n    if event == 'open':\n        raise OSError\nsys.addaudithook(hook)",
    "an alarm": "import signal\nsignal.alarm(1)",
    "threads": (
        "import threading\ndef turn():\n    while True:\n        pass\n"
        "for _ in range(3):\n    threading.Thread(target=turn, daemon=True).start()"
    ),
    "another folder": "import os\nos.chdir('/')",
    "a default type": "torch.set_default_dtype(torch.float64)",
    "many threads": "torch.set_num_threads(4)\n(torch.ones(900, 900) @ torch.ones(900, 900)).sum()",
    "training": "layer = torch.nn.Linear(50, 50)\nfor _ in range(9):\n    layer(torch.ones(99, 50)).sum().backward()",
}
# Only another kernel helps against this.
STAYS = {
    "no memory": "def largest(*_, **__):\n    raise MemoryError\nnp._core._methods.umr_maximum = largest",
    "no threads": (
        "def largest(*_, **__):\n    raise RuntimeError('can\\'t start new thread')\n"
        "np._core._methods.umr_maximum = largest"
    ),
    "a function of NumPy": "np.asarray = None",
    "a trace": "import sys\ndef trace(*_):\n    raise OSError\nsys.settrace(trace)",
    "an end at each call of a module": "import os\ntorch.nn.Module._compiled_call_impl = lambda *_, **__: os._exit(0)",
    "a default device": "torch.set_default_device('meta')",
    "no gradients": "torch.set_grad_enabled(False)",
    "inference": "mode = torch.inference_mode()\nmode.__enter__()",
    "a layer": "torch.nn.Linear.forward = None",
    "hooks": "hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)\nhooks.__enter__()",
    "a hook of all layers": "torch.nn.modules.module.register_module_forward_hook(lambda *_: 1 / 0)",
}


@pytest.mark.parametrize("left", [*HARMLESS, *STAYS])
def test_right_answer_keeps_its_points_whatever_cells_leave_behind(left: str) -> None:
    """Does a right answer keep its points if its own cell, or an own cell, changes the state of Python or a library?"""
    code = (HARMLESS | STAYS)[left]
    name, exercise = ("3_encoder", "FeedForward") if "torch" in code else ("1_attention", "softmax")
    code = f"import torch\n{code}" if "torch" in code else code

    def change(notebook: nbformat.NotebookNode) -> None:
        cell = answer(notebook, exercise)
        cell.source = f"{code}\n{cell.source}" if left in HARMLESS else cell.source

    done = graded(name, exercise, exercise, [] if left in HARMLESS else [code], change)
    assert done.checks and all(check.passed for check in done.checks), done.checks


def test_following_decides_no_result() -> None:
    """Does what an answer does while its values are followed reach no later answer, and does it still get its line?"""
    assignment = assignment_of("1_attention")
    notebook = fill_in(assignment.release, assignment.instructor)
    answer(notebook, "softmax").source = """import colorsys, sys
def softmax(scores, axis=-1):
    if sys.gettrace():  # while values are followed
        colorsys.followed = True
    doubled = 2 * scores
    return doubled"""
    right = answer(notebook, "attention").source
    answer(notebook, "attention").source = f"""{right}
_right = attention
def attention(*arguments):
    assert hasattr(colorsys, "followed")
    return _right(*arguments)"""
    notebook = repaired(notebook, assignment).notebook
    kept = ("setup", "softmax", "test_softmax", "attention", "attention_weights")
    notebook.cells = [cell for cell in notebook.cells if cell.id in kept or cell.id.startswith("softmax_")]
    done = execute(notebook, SEED)
    of_softmax = [check for check in done.checks if "softmax" in check.name]
    of_attention = [check for check in done.checks if "attention" in check.name]
    assert of_softmax and all("`doubled`" in check.message for check in of_softmax), of_softmax
    assert of_attention and not any(check.passed for check in of_attention), of_attention

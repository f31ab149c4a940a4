"""All attacks in their groups. The code of most is in hostile/; the others are made here, by changes of the notebook."""

import io
import re
from collections.abc import Callable
from typing import Any

import nbformat
import torch
from files import FILES, NAMES
from making import (
    EVERYTHING,
    FIFTH,
    FIRST,
    FOURTH,
    IN_TORCH,
    SECOND,
    THIRD,
    Attack,
    Maker,
    Place,
    coded,
    notebook,
    repeated,
)
from nbformat import NotebookNode
from sample_class import own_weights, rewrite, saved

from autograder.cells import is_solution
from autograder.checks.vit.checkpoint import RECORD


def edit_locked_cells(made: NotebookNode, place: Place) -> None:
    """Replace the judge, empty the tests, claim a thousand points for each, and bring along outputs that claim all points."""
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "1.0"}, execution_count=9)]
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = "def check(*args, **kwargs): return True" if cell.id == "setup" else "pass"
            cell.metadata.nbgrader |= {"points": 1000, "locked": False}


def numpy_next_to_it(made: NotebookNode, place: Place) -> None:
    """Write modules that Python would import instead of its own."""
    for name in ("numpy.py", "sitecustomize.py"):
        place.submit(b"def allclose(*a, **k): return True\n", name)


def half_characters(made: NotebookNode, place: Place) -> None:
    """Put half a surrogate pair wherever a student can."""
    rewrite(made, "softmax", r"raise ValueError('half \ud800 and \udfff')")
    made.cells.insert(2, nbformat.v4.new_code_cell("print('half \\ud800', '\\x00')\nraise ValueError('\\ud800')"))
    made.cells.append(nbformat.v4.new_markdown_cell("half \ud800"))


DEBUGGED = (
    "import traceback\ntraceback.print_stack()\ntry:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame.f_back",
    "import gc, sys, tracemalloc\ntracemalloc.start()\ntracemalloc.stop()\ngc.get_objects(), sys._getframe(), gc.get_referrers(gc)",
    "import cProfile, doctest, unittest\nwith cProfile.Profile():\n    sum(range(9))\ndoctest.testmod()\n"
    "unittest.main(argv=[''], exit=False)\nbreakpoint()",
    "import matplotlib.pyplot as plt\nplt.plot([1], label='x')\nplt.legend()\nplt.show()",
    "import sys, threading\nsys.settrace(lambda *event: None)\nthreading.Thread(target=print).start()\n%timeit -n1 -r1 1",
    """
import inspect, logging, sys
notes = []
def note():
    if not notes:  # a hundred trials share the time of a test, and each is a process of its own
        logging.warning(sys._getframe(1).f_code.co_name)
        notes.append((inspect.stack(0)[1].function, inspect.currentframe().f_back.f_lineno))
""",
)


def debugging(made: NotebookNode, place: Place) -> None:
    """Look at frames, stacks and times in own cells and at the beginning of each answer."""
    made.cells[2:2] = [nbformat.v4.new_code_cell(source) for source in DEBUGGED]
    for cell in made.cells:
        if is_solution(cell):
            cell.source = re.sub(r"(?m)^( +)(### BEGIN SOLUTION)$", r"\1note()\n\1\2", cell.source)


class Code:
    """An object whose pickle is a command."""

    def __reduce__(self):
        return exec, ("import os; os.system('echo I ran > /tmp/ran')",)


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, Any]]) -> Maker:
    """Submit the answers with changed weights."""

    def changed(made: NotebookNode, place: Place) -> None:
        place.submit(saved(change(torch.load(io.BytesIO(own_weights())))), "vit.pt")

    return notebook(changed)


WEIGHTS: tuple[tuple[str, str, Callable[[dict], dict], str], ...] = (
    (
        "of-the-book",
        "the weights that the book publishes",
        lambda state: torch.load(RECORD, weights_only=True),
        "vit.pt",
    ),
    (
        "with-code",
        "a file of weights that runs a command when it is loaded",
        lambda state: state | {"head.bias": Code()},
        "vit.pt",
    ),
    (
        "huge",
        "weights near the largest possible number",
        lambda state: {name: torch.full_like(value, 3e38) for name, value in state.items()},
        "checkpoint_90 checkpoint_95 checkpoint_97 checkpoint_98",
    ),
)

POINTS = (
    Attack(
        "unsolved",
        "Submits the released notebook without answers.",
        notebook(lambda made, place: None, solved=False),
        EVERYTHING,
    ),
    coded("input-transformer", EVERYTHING),
    coded("serves-itself", EVERYTHING),
    coded("patched-comparisons", EVERYTHING),
    Attack(
        "numpy-next-to-it",
        "Submits a numpy.py and a sitecustomize.py next to the notebook.",
        notebook(numpy_next_to_it, solved=False),
        EVERYTHING,
    ),
    coded("callers-frame", EVERYTHING, on=FIRST),
    coded("reads-the-answers", EVERYTHING, "needs a look", on=FIRST),  # the answers need a file that is not there
    coded("edits-the-results", EVERYTHING),
    Attack(
        "edits-the-tests",
        "Replaces the code that compares results, empties the tests, gives each a thousand points, and adds outputs that say so.",
        notebook(edit_locked_cells, solved=False),
        EVERYTHING,
        "needs a look",
    ),
)

REPLIES = (
    coded("agent-odd-replies", EVERYTHING),
    coded("replies-for-later", EVERYTHING),
    coded("channel-broken"),
    coded("channel-flood"),
    coded("odd-values", EVERYTHING, on=FIRST),
)

CANDIDATES = (coded("test-of-the-name", "test_attention", on=FIFTH), coded("test-asks-oddly", on=FIFTH))

MODULES = (
    coded("torch-patched", EVERYTHING, on=IN_TORCH),
    coded("agent-shapes", on=IN_TORCH),
    coded("lying-tensors", "matmul merge_heads matmul_transposed bilinear attend pairwise_dot", on=SECOND),
    coded("right-tensors", on=SECOND),
    coded("parameters-that-lie", "LayerNorm", on=THIRD),
    coded("neighbours", on=THIRD),
    *(
        Attack(f"weights-{name}", f"Submits {what}.", weights(change), costs, on=FOURTH)
        for name, what, change, costs in WEIGHTS
    ),
)

LEAKS = (
    coded("environment"),
    coded("searches-files"),
    coded("searches-memory"),
    coded("hooks"),
    coded("error-as-channel", "attention", on=FIRST),
    coded("sockets"),
    coded("other-processes"),
    coded("deletes-submissions"),
    coded("escapes"),
)

RESOURCES = (
    coded("endless-loop", "softmax", "timed out", on=FIRST),
    coded("endless-loop-deaf", states="timed out"),
    Attack(
        "sleeping-cells",
        "Runs fifty cells that sleep.",
        repeated("import time\ntime.sleep(6)", 50),
        states="timed out",
    ),
    coded("memory", states="graded or crashed"),
    coded("processes", states="crashed"),
    coded("background-process"),
    coded("restless-threads"),
    coded("fills-the-disk"),
    coded("long-outputs"),
    Attack(
        "many-cells",
        "Adds ten thousand cells before the answers.",
        repeated("x = {number}", 10_000),
        states="graded after repair",
    ),
)

ENDS = (
    coded("ends-in-answers", "softmax self_attention attention_backward", "crashed", on=FIRST),
    coded("kills-everything", states="crashed"),
    coded("exit-cell"),
    coded("name-of-no-text"),
    coded("picture-of-sizes"),
    coded("messages", states="graded or needs a look"),
    Attack(
        "half-characters",
        "Puts half a surrogate pair into an output, an error and the notebook file.",
        notebook(half_characters),
        "softmax",
        on=FIRST,
    ),
    coded("hostile-error", "softmax", on=FIRST),
    coded("odd-functions", EVERYTHING, on=FIRST),
    Attack(
        "debugs",
        "Debugs, tests, measures and draws as students do, also inside right answers. (This is no attack.)",
        notebook(debugging),
        on=(*FIRST, *IN_TORCH, *FIFTH),
    ),
    coded("right-but-odd", on=FIRST),
)

GROUPS = {
    "Points for nothing": POINTS,
    "Replies to the grader": REPLIES,
    "Misuse of the functions that a test gets": CANDIDATES,
    "Modules, tensors and weights": MODULES,
    "Leaks": LEAKS,
    "Time, memory, processes": RESOURCES,
    "Ends, messages, odd values": ENDS,
    "Files and words": FILES,
    "Names": NAMES,
}
ATTACKS = [attack for group in GROUPS.values() for attack in group]

"""Attacks on the grader, and accidents that look like attacks: each with the submission that makes it and its fair mark.

python tests/boundary/attacks.py --write      grades them all and writes the page book/attacks.md

Of the 15 automatic points, 3 are for softmax, 4 for attention, 3 for self_attention, 5 for attention_backward. The fair
mark is what the honest part of a submission earns: 15 where the four answers stand in it and something else is tried
beside them, 0 where the notebook is unsolved and marks are to come from nothing, and 15 less the points of one exercise
where the attack sits in that exercise. An exercise that uses an earlier one is judged with the correct earlier one, so
that nobody pays twice. None means no mark at all, which is not 0: nothing could be read.

Everything here is bounded, and the code of students runs in the sandbox alone.
"""

import contextlib
import json
import os
import re
import secrets
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import psutil
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from sample_class import ASSIGNMENT, answer, change, fill_in, rewrite

from autograder.boundary.sandbox import Limits
from autograder.course.course import Assignment, Course, Result
from autograder.files import write_atomically
from autograder.grading.grade import grade, load_assignment
from autograder.judging.exercise import _prepared
from autograder.reporting.feedback import write_feedback
from autograder.reporting.report import write_report

PAGE = ROOT / "book" / "attacks.md"
EXERCISES = ("softmax", "attention", "self_attention", "attention_backward")
CANARY = "canary-"  # how every planted secret begins; the attacks know it, and look for it


@dataclass
class Place:
    """Where one submission is to be made, and what its author may know: paths, a port, how a secret begins."""

    folder: Path  # submitted/STUDENT/1_attention
    course: Path
    assignment: Assignment
    port: int = 9  # on which something listens on this machine

    def unsolved(self) -> NotebookNode:
        """Return the notebook as it was released."""
        return nbformat.from_dict(self.assignment.release)

    def solved(self) -> NotebookNode:
        """Return the notebook with all the answers."""
        return fill_in(self.assignment.release, self.assignment.instructor)

    def knowing(self, code: str) -> str:
        """Put in front of the code what its author knows."""
        known = f"COURSE, REPOSITORY, PORT = {str(self.course)!r}, {str(ROOT)!r}, {self.port}\n"
        return known + code.strip("\n") if any(name in code for name in ("COURSE", "REPOSITORY", "PORT")) else code

    def hand_in(self, notebook: NotebookNode | dict[str, Any] | bytes, name: str = "attention.ipynb") -> None:
        """Write the file. Not nbformat.write, which would mend what is torn."""
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        (self.folder / name).write_bytes(data)


Maker = Callable[[Place], None]


@dataclass(frozen=True)
class Attack:
    """What is handed in, and what it may earn."""

    name: str
    tries: str  # one sentence of the page
    make: Maker
    mark: float | None = 15
    states: tuple[str, ...] = ("graded",)
    student: str = ""  # the name of the folder, where that is the attack

    @property
    def fair_states(self) -> tuple[str, ...]:
        """The states, and one more for what is run: on a busy machine anything may take too long."""
        return (*self.states, *TIMED_OUT) if self.mark is not None else self.states

    @property
    def folder(self) -> str:
        """The student's name, which is the name of the folder."""
        return self.student or self.name


# ------------------------------------------------------------------------------------------------ how they are made


def own_cell(code: str, *, solved: bool = True, later: str = "") -> Maker:
    """Put a cell of one's own after the set-up, and perhaps another at the end."""

    def make(place: Place) -> None:
        notebook = place.solved() if solved else place.unsolved()
        notebook.cells.insert(2, nbformat.v4.new_code_cell(place.knowing(code)))
        if later:
            notebook.cells.append(nbformat.v4.new_code_cell(later))
        place.hand_in(notebook)

    return make


def for_nothing(code: str) -> Maker:
    """Put a cell of one's own into the unsolved notebook."""
    return own_cell(code, solved=False)


def in_answers(body: str, *names: str) -> Maker:
    """Make this the body of some answers, of all by default; the others are right."""

    def make(place: Place) -> None:
        notebook = place.solved()
        for name in names or EXERCISES:
            rewrite(notebook, name, place.knowing(body))
        place.hand_in(notebook)

    return make


def before_answer(name: str, body: str) -> Maker:
    """Do something first in a right answer."""

    def make(place: Place) -> None:
        notebook = place.solved()
        lines = "\n".join("    " + line for line in place.knowing(body).strip("\n").split("\n"))
        change(notebook, name, "### BEGIN SOLUTION\n", f"### BEGIN SOLUTION\n{lines}\n")
        place.hand_in(notebook)

    return make


def spoiled(spoil: Callable[[NotebookNode], Any], *, solved: bool = True) -> Maker:
    """Change the notebook, or make another object of it."""

    def make(place: Place) -> None:
        notebook = place.solved() if solved else place.unsolved()
        other = spoil(notebook)
        place.hand_in(notebook if other is None else other)

    return make


def with_name(name: str) -> Maker:
    """Hand in the answers under another file name."""
    return lambda place: place.hand_in(place.solved(), name)


def good(place: Place) -> None:
    """Hand in the answers."""
    place.hand_in(place.solved())


def in_words(text: str) -> Maker:
    """Hand in the answers, and this text as a written one and in a cell of one's own."""

    def make(place: Place) -> None:
        notebook = place.solved()
        answer(notebook, "why_scale").source = text
        notebook.cells.append(nbformat.v4.new_markdown_cell(text))
        place.hand_in(notebook)

    return make


GRADED, MENDED = ("graded",), ("graded after mending",)
CRASHED, TIMED_OUT = ("crashed",), ("timed out",)
UNREADABLE, MISSING = ("unreadable",), ("missing",)


# ------------------------------------------------------------------------------------------------ marks for nothing

SERVE = """
import inside, wire
def answer_with(value_of):
    inside._reply_to = lambda request: value_of(request).replace("ID", request["id"])
"""

ODD_REPLIES = r"""
one = '{"dict": [["id", "ID"], ["value", %s]]}'
huge, deep = "9" * 10**6, '{"list": [' * 5000 + "1" + "]}" * 5000
values = [
    huge, "1e999", "NaN", "-Infinity", deep, "[]", "{}", '{"unknown": 1}', '{"list": 5}', '{"tuple": null}',
    '{"dict": [[[], 1]]}', '{"dict": [[{"list": []}, 1]]}', '{"dict": 3}', '"\\ud800"', '"\\u0000"',
    '{"array": ["<f8", [1000000, 1000000, 1000000], ""]}', '{"array": ["<f8", [-1, -8], "AAAAAAAAAAA="]}',
    '{"array": ["<f8", [2], "AAAAAAAAAAA="]}', '{"array": ["O", [1], "AAAAAAAAAAA="]}', '{"array": ["|O8", [1], "A"]}',
    '{"array": ["<f8", [true], "AAAAAAAAAAA="]}', '{"array": ["<f8", [1.0], "AAAAAAAAAAA="]}', '{"array": null}',
    '{"array": ["<f8", [0, 33554432, 33554432, 33554432], ""]}', '{"array": ["<f8", [0], ""]}', '{"tensor": null}',
    '{"array": [["<f8"], [1], "AAAAAAAAAAA="]}', '{"array": ["<f8", [1], 7]}', '{"array": ["<f8", 1, "AAAAAAAAAAA="]}',
    '{"tensor": ["|b1", [8], "BwcHBwcHBwc="]}', '{"tensor": ["<f8", [1], "AAAAAAAAAAA=", 4]}', '{"foreign": [[[[]]]]}',
    '{"array": ["<f8", %s, "AAAAAAAAAAA="]}' % ([1] * 40), '{"handle": [-1, "", null]}', '{"handle": [0, 0, null]}',
    '{"handle": [999999999999, "a.b.c", null]}', '{"handle": 1}', '{"handle": [0, "", {"list": []}]}',
    '{"list": [%s]}' % ",".join(['{"handle": [0, "", null]}'] * 50),
    '{"handle": [0, "", {"dict": [["modules", {"dict": [["", "A"], ["a.b", "B"]]}], ["training", {"dict": []}]]}]}',
]
texts = [one % value for value in values] + [
    "", "null", "7", "[]", '"ID"', "{", "\x00", '{"dict": [["id", "ID"]]}', '{"list": ["id", "ID"]}',
    '{"dict": [["id", "ID"], ["error", 5]]}', '{"dict": [["id", "ID"], ["error", {"list": [5, "GeneratorExit"]}]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["AssertionError"]}], ["text", {"list": [1]}], ["line", 7]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["UnicodeDecodeError"]}], ["text", "\\ud800\\u202e<b>"]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["KernelLost", "SystemExit"]}], ["text", "x"]]}',
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", 5], ["graph", {"list": [true]}]]}',
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", {"array": ["<f8", [2], "%s"]}]]}' % ("A" * 22),
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", {"list": [{"array": ["<F8", [1], "AAAAAAAAAAA="]}]}]]}',
]
turn = iter(texts * 9)
answer_with(lambda request: next(turn))
"""

ODD_VALUES = """
import datetime, fractions, itertools
import torch
global turns
circle = []
circle.append(circle)
nested = []
for _ in range(5000):
    nested = [nested]
odd = [
    None, ..., NotImplemented, "weights", "", b"bytes", {}, {"weights": 1}, {1, 2}, [], (), [[1.0]], range(3), 10**4000,
    float("nan"), -0.0, 1j, True, np.float64(1), np.array(1.0), np.array([]), np.zeros((0, 3)), np.zeros((2,) * 20),
    np.array([None, "x"], dtype=object), np.array(["a", "b"]), np.array([1j]), np.array(["NaT"], dtype="M8[s]"),
    np.zeros(3, dtype=[("a", int), ("b", float)]), np.ma.masked, np.matrix("1 2; 3 4"), np.memmap("/tmp/m", float, "w+", 0, 3),
    np.full((3, 3), np.nan), np.full((3, 3), np.inf), np.array([1e308, 1e308, 1e308]), np.array([2**63], dtype=np.uint64),
    np.zeros((1,) * 32), np.broadcast_to(1.0, (1000, 1000, 1000, 100)), np.zeros((2000, 2000), dtype=bool),
    fractions.Fraction(1, 3), datetime.datetime.now(), circle, nested, itertools.count(), (i for i in ()), lambda: 0, type,
    Exception("x"), np, get_ipython(), torch.float32, torch.zeros(3, device="meta"), torch.zeros(2, 2).to_sparse(),
    torch.ones(1).as_strided((100_000, 100_000), (0, 0)), torch.zeros(3, dtype=torch.bfloat16), torch.nn.Linear(2, 3),
    (1, 2), (np.zeros(2),) * 3, (None, None, None), ("a", "b", "c"), tuple([np.zeros(1)] * 1000), ({},) * 3,
    (torch.nn.Linear(2, 3),) * 3, (np.array(1.0),) * 2, (np.array([]),) * 3, (10**4000,) * 2, (object(),) * 2,
]
turns = globals().get("turns", -1) + 1
return odd[turns % len(odd)]
"""

NAN_OF_THE_RIGHT_SHAPE = """
import inspect, sys
frame = sys._getframe()
arrays = [value for value in list(locals().values()) if isinstance(value, np.ndarray)]
shapes = {
    "softmax": lambda a: [a[0].shape],
    "attention": lambda a: [(*a[0].shape[:-1], a[2].shape[-1]), (*a[0].shape[:-1], a[1].shape[-2])],
    "self_attention": lambda a: [(*a[0].shape[:-1], a[3].shape[-1]), (*a[0].shape[:-1], a[0].shape[-2])],
    "attention_backward": lambda a: [array.shape for array in a[1:4]],
}
made = [np.full(shape, np.nan) for shape in shapes[frame.f_code.co_name](arrays)]
return made[0] if len(made) == 1 else tuple(made)
"""


def edit_locked_cells(notebook: NotebookNode) -> None:
    """Empty every locked cell, and claim a thousand points for it."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = "pass"
            cell.metadata.nbgrader |= {"points": 1000, "locked": False}


def edit_metadata(**entries: Any) -> Callable[[NotebookNode], None]:
    """Write something into the metadata of every nbgrader cell."""

    def spoil(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader.update(entries)

    return spoil


def swap_ids(notebook: NotebookNode) -> None:
    """Exchange ids and metadata of two answers."""
    one, other = answer(notebook, "softmax"), answer(notebook, "attention")
    one.id, other.id = other.id, one.id
    one.metadata, other.metadata = other.metadata, one.metadata


def own_judge(notebook: NotebookNode) -> None:
    """Replace the set-up cell by one in which every test passes."""
    answer(notebook, "setup").source = (
        "from collections import defaultdict\nimport numpy as np\n"
        "TESTS = defaultdict(dict)\ndef judge(*args, **kwargs): return True\ndef check(*args): return True"
    )


def claimed_outputs(notebook: NotebookNode) -> None:
    """Bring along outputs that say 1.0 for every test, as a run with full marks leaves them."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "1.0"}, execution_count=9)]


MARKS = (
    Attack("unsolved", "Hands in the notebook as it was released.", spoiled(lambda n: None, solved=False), 0),
    Attack(
        "input-transformer",
        "Lets IPython replace what the grader sends by nothing.",
        for_nothing(
            'get_ipython().input_transformers_cleanup.append(lambda lines: ["pass"] if "serve" in str(lines) else lines)'
        ),
        0,
        ("crashed", "graded"),
    ),
    Attack(
        "ast-transformer",
        "Lets IPython take every raise and assert out of what runs.",
        for_nothing("""
import ast
class Erase(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
    visit_Raise = visit_Assert
get_ipython().ast_transformers.append(Erase())
"""),
        0,
    ),
    Attack(
        "do-execute",
        "Replaces the kernel's do_execute by one that says “ok”.",
        for_nothing("""
async def do_execute(*args, **kwargs):
    return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
get_ipython().kernel.do_execute = do_execute
"""),
        0,
        ("crashed", "graded"),
    ),
    Attack(
        "run-cell-async",
        "Replaces the shell's run_cell_async and run_cell.",
        for_nothing("""
from IPython.core.interactiveshell import ExecutionResult
async def run_cell_async(*args, **kwargs):
    return ExecutionResult(None)
get_ipython().run_cell_async = run_cell_async
get_ipython().run_cell = lambda *args, **kwargs: ExecutionResult(None)
"""),
        0,
        ("crashed", "graded"),
    ),
    Attack(
        "shell-handlers",
        "Handles the grader's requests itself and replies “ok” at once.",
        for_nothing("""
kernel = get_ipython().kernel
def handle(stream, ident, parent):
    kernel.session.send(stream, "execute_reply", {"status": "ok", "execution_count": 1}, parent=parent, ident=ident)
kernel.shell_handlers["execute_request"] = handle
"""),
        0,
        ("crashed", "graded"),
    ),
    Attack(
        "displayhook",
        "Shows a number inside the functions, to be taken for partial credit.",
        in_answers("get_ipython().displayhook(3.0)\nraise ValueError('three points')"),
        0,
    ),
    Attack(
        "patched-comparisons",
        "Patches every comparison of NumPy and PyTorch to pass.",
        for_nothing("""
import numpy as np, numpy.testing, torch
yes = lambda *args, **kwargs: True
np.allclose = np.array_equal = np.isclose = np.testing.assert_allclose = np.testing.assert_array_equal = yes
torch.allclose = torch.equal = torch.testing.assert_close = yes
"""),
        0,
    ),
    Attack(
        "array-function",
        "Returns a subclass of ndarray that answers every NumPy function with True.",
        in_answers("""
class Yes(np.ndarray):
    def __array_function__(self, *args):
        return True
    def __array_ufunc__(self, *args, **kwargs):
        return True
    def __eq__(self, other):
        return True
return np.zeros(3).view(Yes)
"""),
        0,
    ),
    Attack(
        "always-equal",
        "Returns an object that is equal to everything, has every attribute and is of every type.",
        in_answers("""
class Yes:
    __class__ = np.ndarray
    def __eq__(self, other):
        return True
    def __getattr__(self, name):
        return self
    def __call__(self, *args, **kwargs):
        return self
    def __array__(self, *args, **kwargs):
        return np.zeros(3)
    __len__ = __bool__ = lambda self: 1
return Yes()
"""),
        0,
    ),
    Attack(
        "numpy-beside",
        "Puts a numpy.py and a sitecustomize.py beside the notebook.",
        lambda place: [
            place.hand_in(place.unsolved()),
            *(place.hand_in(b"def allclose(*a, **k): return True\n", n) for n in ("numpy.py", "sitecustomize.py")),
        ],
        0,
    ),
    Attack(
        "fake-modules",
        "Replaces NumPy and the agent in sys.modules.",
        for_nothing("""
import sys, types
class Fake(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: True
for name in ("numpy", "inside", "wire", "json"):
    sys.modules[name] = Fake(name)
"""),
        0,
        ("crashed", "graded"),
    ),
    Attack(
        "patched-builtins",
        "Replaces builtins, the import among them.",
        for_nothing("""
import builtins
builtins.__import__ = lambda name, *args, **kwargs: 1
builtins.len = builtins.getattr = lambda *args: 1
"""),
        0,
        TIMED_OUT,
    ),
    Attack(
        "callers-frame",
        "Looks in the frames above for an oracle or for what is expected.",
        in_answers("""
import sys
arguments, frame = list(locals().values()), sys._getframe()
while frame is not None:
    for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
        if name.startswith(("oracle", "answer", "CORRECT")) and callable(value):
            return value(*arguments)
        if isinstance(value, dict) and "expected" in value:
            return tuple(map(np.array, value["expected"]["arrays"].values()))
    frame = frame.f_back
"""),
        0,
    ),
    Attack(
        "visible-answers",
        "Returns what the frozen table of the visible tests holds.",
        in_answers("""
import sys
arguments, name = [a for a in locals().values() if isinstance(a, np.ndarray)], sys._getframe().f_code.co_name
for case in TESTS[name]["cases"]:
    if all(np.array_equal(np.array(a), b) for a, b in zip(case["arguments"], arguments)):
        arrays = [np.array(array) for array in case["expected"]["arrays"].values()]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
raise ValueError
"""),
        0,
    ),
    Attack(
        "reads-the-answers",
        "Imports the answers and the checks from the instructor's repository.",
        in_answers("""
import sys
arguments, name = [a for a in locals().values() if not isinstance(a, str)], sys._getframe().f_code.co_name
sys.path.insert(0, REPOSITORY)
try:
    import solutions.attention as answers
except ImportError:
    import autograder.checks.attention.exercises as checks
    return getattr(checks, "oracle_" + name)(*arguments)
return getattr(answers, name)(*arguments)
"""),
        0,
    ),
    Attack(
        "reads-a-submission",
        "Runs the answers of a classmate.",
        in_answers("""
import json, sys
arguments, name = [a for a in locals().values() if not isinstance(a, str)], sys._getframe().f_code.co_name
for cell in json.load(open(COURSE + "/submitted/b-good/1_attention/attention.ipynb"))["cells"]:
    if "def " + name in str(cell["source"]):
        exec("".join(cell["source"]), globals())
return globals()[name](*arguments)
"""),
        0,
    ),
    Attack(
        "edits-the-gradebook",
        "Gives itself 100 points in gradebook.db.",
        for_nothing("""
import glob, sqlite3
for path in [COURSE + "/gradebook.db", *glob.glob("/*/gradebook.db"), *glob.glob("/*/*/gradebook.db")]:
    try:
        connection = sqlite3.connect(path, timeout=1)
        connection.execute("update grade set manual_score = 100, needs_manual_grade = 0")
        connection.commit()
    except sqlite3.Error as error:
        print(error)
"""),
        0,
    ),
    Attack(
        "edits-the-results",
        "Writes results, source and notebook of the course, and the grader's own files.",
        for_nothing("""
import os
for path in ("/results/1_attention/edits-the-results.json", "/source/1_attention/attention.ipynb", "/nbgrader_config.py"):
    for top in (COURSE, REPOSITORY, "/wire", "/grader", "/usr/lib/python3", os.path.dirname(os.__file__), "/proc/1/root" + COURSE):
        try:
            os.makedirs(os.path.dirname(top + path), exist_ok=True)
            open(top + path, "w").write("{}")
            print("written", top + path)
        except OSError as error:
            pass
"""),
        0,
    ),
    Attack(
        "edits-the-tests",
        "Empties the test cells and claims a thousand points for each.",
        spoiled(edit_locked_cells, solved=False),
        0,
        MENDED,
    ),
    Attack(
        "own-judge", "Replaces the set-up cell by a judge that is content.", spoiled(own_judge, solved=False), 0, MENDED
    ),
    Attack(
        "patched-judge",
        "Defines judge, check and TESTS again in a cell of its own.",
        for_nothing("def judge(*args, **kwargs):\n    return True\ncheck = judge\nTESTS = MESSAGES = {}"),
        0,
    ),
    Attack(
        "claimed-outputs",
        "Brings along outputs that say 1.0 for every test.",
        spoiled(claimed_outputs, solved=False),
        0,
    ),
    Attack("points-of-another", "Exchanges the ids of two answers.", spoiled(swap_ids), 15, MENDED),
    Attack(
        "agent-half",
        "Replaces the agent by one that answers 0.5 to everything.",
        for_nothing(SERVE + """answer_with(lambda request: '{"dict": [["id", "ID"], ["value", 0.5]]}')"""),
        0,
    ),
    Attack(
        "agent-odd-replies",
        "Replaces the agent by one that answers with impossible shapes, bytes that lie, forged errors and broken JSON.",
        for_nothing(SERVE + ODD_REPLIES),
        0,
        ("graded", "crashed"),
    ),
    Attack(
        "agent-silent",
        "Replaces the agent by one that never answers.",
        own_cell(SERVE + "inside.serve = lambda: None"),
        15,
        CRASHED,
    ),
    Attack(
        "agent-nan",
        "Patches the wire so that every array is NaN.",
        own_cell("""
import wire
pack = wire._pack_array
wire._pack_array = lambda array: pack(np.full_like(np.asarray(array, dtype=float), np.nan))
"""),
        0,
    ),
    Attack(
        "agent-endless",
        "Answers each request for softmax with replies without end.",
        own_cell(
            SERVE
            + """
import itertools
honest = inside._reply_to
def reply_to(request):
    if request["target"] != "softmax":
        return honest(request)
    for number in itertools.count():
        inside.CHANNEL[0].sendall(wire.frame('{"dict": [["id", "%d"]]}' % number))
inside._reply_to = reply_to
"""
        ),
        15,
        TIMED_OUT,
    ),
    Attack(
        "replies-for-later",
        "A thread answers requests that are still to come, with guessed ids.",
        for_nothing("""
import threading, time, inside, wire
kernel = get_ipython().kernel
start, _, number = kernel.get_parent()["header"]["msg_id"].rpartition("_")
def forge():
    for step in range(1, 400):
        parent = {"header": {"msg_id": f"{start}_{int(number) + step}", "session": "x", "msg_type": "execute_request"}}
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": "idle"}, parent=parent)
        reply = '{"dict": [["id", "%032x"], ["value", 0.5]]}' % step
        inside.CHANNEL[0].sendall(wire.frame(reply))
        time.sleep(0.005)
threading.Thread(target=forge, daemon=True).start()
"""),
        0,
        ("graded", "crashed"),
    ),
    Attack(
        "channel-closed",
        "Closes the socket over which functions are called.",
        own_cell("import inside\ninside.CHANNEL[0].close()"),
        15,
        CRASHED,
    ),
    Attack(
        "channel-huge",
        "Announces a message of 2⁶² bytes over that socket.",
        own_cell("import inside\ninside.CHANNEL[0].sendall((2**62).to_bytes(8, 'big'))"),
        15,
        CRASHED,
    ),
    Attack(
        "channel-flood",
        "A thread fills that socket with empty messages.",
        own_cell(
            """
import inside, threading
def flood():
    while True:
        inside.CHANNEL[0].sendall(bytes(8000))
threading.Thread(target=flood, daemon=True).start()
"""
        ),
        15,
        ("graded", "crashed", "timed out"),
    ),
    Attack(
        "channel-thief",
        "A second process reads what comes over that socket, before the agent does.",
        own_cell(
            """
import inside, os
if os.fork() == 0:
    while inside.CHANNEL[0].recv(100):
        pass
    os._exit(0)
"""
        ),
        15,
        ("crashed", "timed out"),
    ),
    Attack(
        "nan-answers",
        "Returns NaN in the right shape, as NaN is equal to NaN in tests.",
        in_answers(NAN_OF_THE_RIGHT_SHAPE),
        0,
    ),
    Attack(
        "odd-values",
        "Returns whatever a test may stumble over, from 10⁴⁰⁰⁰ to endless generators.",
        in_answers(ODD_VALUES),
        0,
    ),
    Attack(
        "steals-softmax",
        "Keeps the correct softmax that is in place while attention is judged, to answer for its own.",
        lambda place: place.hand_in(_stealing(place)),
        12,
    ),
    Attack(
        "steals-attention",
        "Keeps the correct attention, in a thread, a global and on disk, and has none of its own.",
        lambda place: place.hand_in(_stealing_attention(place)),
        11,
    ),
    Attack(
        "asks-the-grader-oddly",
        "Sends the grader questions that are no questions: other names, broken JSON, handles.",
        before_answer(
            "self_attention",
            """
import inside, wire
for text in ("", "{}", "[" * 5000, "null", "5", wire.dumps("\\ud800"), wire.dumps({}), wire.dumps([1, 2])):  # none is a question
    inside.CHANNEL[0].sendall(wire.frame(text))
for question in (
    *({"question": name, "arguments": ["print(1)"], "keywords": {}} for name in ("eval", "__import__", "", "check", None)),
    {"question": "attention"},
    {"question": "attention", "arguments": 5, "keywords": []},
    {"question": "attention", "arguments": [wire.Handle(0, "x")] * 3, "keywords": {"mask": {}}},
    {"question": ["attention"], "arguments": [], "keywords": {"self": None}},
    {"question": "attention", "arguments": [np.zeros((2, 3))] * 3, "keywords": {"mask": np.zeros((9, 9))}},
):
    inside.CHANNEL[0].sendall(wire.frame(wire.dumps(question)))
    assert "error" in wire.loads(inside._receive())
""",
        ),
    ),
    Attack(
        "asks-for-too-much",
        "Asks the correct attention for products that fill the grader's memory.",
        before_answer(
            "self_attention",
            """
one, many = np.ones((1, 1)), np.ones((2000, 1, 1, 1))
for question in (
    (np.ones((60_000, 1)), np.ones((60_000, 1)), np.ones((60_000, 1))),
    (np.ones((8000, 1)), np.ones((8000, 1)), np.ones((8000, 1))),
    (many, np.swapaxes(many, 0, 1), one, np.ones((2000, 1, 1, 1, 1), dtype=bool)),
    (many, np.swapaxes(many, 0, 1), np.swapaxes(many, 0, 3)),
):
    try:
        attention(*question)
    except Exception:
        pass
""",
        ),
    ),
    Attack(
        "asks-without-end",
        "Asks the correct attention again and again.",
        before_answer("self_attention", "while True:\n    attention(tokens, tokens, tokens)"),
        12,
        TIMED_OUT,
    ),
)


def _stealing(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(
        notebook,
        "softmax",
        """
import builtins, os
if hasattr(builtins, "stolen"):
    return builtins.stolen(scores, axis)
if os.path.exists("/tmp/stolen.npy"):
    return np.load("/tmp/stolen.npy")
raise NotImplementedError
""",
    )
    change(
        notebook,
        "attention",
        "    weights = softmax(scores)",
        """    import builtins
    builtins.stolen = softmax
    weights = softmax(scores)
    np.save("/tmp/stolen.npy", weights)""",
    )
    return notebook


def _stealing_attention(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(notebook, "attention", "return stolen[-1](queries, keys, values, mask)")
    change(
        notebook,
        "self_attention",
        "    return attention",
        """    import threading
    globals().setdefault("stolen", []).append(attention)
    threading.Thread(target=lambda: globals().update(attention=stolen[-1]), daemon=True).start()
    return attention""",
    )
    return notebook


# ------------------------------------------------------------------------------------------------ leaks

SEEN = (
    "print(len(seen), [text for text in map(repr, seen) if 'canary-' in text or 'HIDDEN' in text or 'check(' in text])"
)

LEAKS = (
    Attack(
        "environment",
        "Prints its environment, AUTOGRADER_SEED among it, and that of every process.",
        own_cell("""
import glob, os
print(dict(os.environ))
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/[0-9]*/mountinfo"):
    try:
        print(path, open(path, errors="replace").read()[:5000])
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "searches-files",
        "Looks for secrets in every file that it can read, also through /proc/1/root.",
        own_cell("""
import os
tops = ["/", "/proc/1/root", "/proc/1/cwd", "/proc/self/root", COURSE, REPOSITORY, os.path.expanduser("~root"), "/home"]
for top in tops:
    for folder, folders, files in os.walk(top):
        folders[:] = [f for f in folders if f not in ("usr", "proc", "sys", "site-packages", "lib", "include", "share")]
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or not os.access(path, os.R_OK):
                continue
            text = open(path, errors="replace").read(100_000)
            if "canary-" in text or "oracle" in text:
                print(folder, name, text[:2000])
"""),
    ),
    Attack(
        "searches-memory",
        "Looks for secrets in all objects and all memory of its process.",
        own_cell(
            "seen = []",
            later="""
import gc, re
for item in gc.get_objects():
    try:
        text = repr(item)[:10_000] if type(item) in (dict, list, tuple, str) else ""
    except Exception:
        continue
    if "canary-" in text or "HIDDEN TESTS" in text:
        print(text[:300])
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        if " rw-p " in line and end - start < 2**26:
            try:
                memory.seek(start)
                print(*re.findall(rb"canary-[0-9a-f]{8,}|HIDDEN TESTS.{80}", memory.read(end - start)))
            except (OSError, ValueError, OverflowError):
                pass
""",
        ),
    ),
    Attack(
        "hooks",
        "Notes every cell, message, call, event and audit event, and prints what it saw.",
        own_cell(
            """
import sys
seen, kernel = [], get_ipython().kernel
get_ipython().events.register("pre_run_cell", lambda info: seen.append(info.raw_cell))
get_ipython().input_transformers_cleanup.append(lambda lines: seen.extend(lines) or lines)
import inside
handler, receive = kernel.shell_handlers["execute_request"], inside._receive
def handle(stream, ident, parent):
    seen.append(str(parent))
    return handler(stream, ident, parent)
def note():
    seen.append(receive())
    return seen[-1]
kernel.shell_handlers["execute_request"], inside._receive = handle, note
sys.addaudithook(lambda event, args: seen.append(str(args)) if event in ("exec", "compile", "open") and len(seen) < 9999 else None)
""",
            later=SEEN + "\nprint(In)\nprint([key for key in globals()])",
        ),
    ),
    Attack(
        "traces",
        "Follows every call with sys.setprofile and keeps the frames.",
        own_cell(
            """
import sys, threading
seen = []
def profile(frame, event, argument):
    if len(seen) < 20_000 and event in ("call", "return"):
        seen.append((frame.f_code.co_name, str(argument)[:200]))
sys.setprofile(profile)
threading.setprofile(profile)
""",
            later="import sys\nsys.setprofile(None)\n" + SEEN,
        ),
    ),
    Attack(
        "error-as-channel",
        "Puts all that it sees into the text of an error, which the feedback shows.",
        in_answers(
            """
import sys
frame, text = sys._getframe(), ""
while frame is not None:
    text += str({name: str(value)[:300] for name, value in frame.f_locals.items()})
    frame = frame.f_back
raise RuntimeError(text[:100_000])
""",
            "attention",
        ),
        11,
    ),
    Attack(
        "reads-the-gradebook",
        "Prints the list of students and the tests from gradebook.db.",
        own_cell("""
import sqlite3
for path in (COURSE + "/gradebook.db", "file:" + COURSE + "/gradebook.db?mode=ro&immutable=1"):
    try:
        connection = sqlite3.connect(path, uri=path.startswith("file:"), timeout=1)
        print(connection.execute("select * from student").fetchall(), connection.execute("select source from source_cell").fetchall())
    except sqlite3.Error as error:
        print(error)
"""),
    ),
    Attack(
        "reads-the-sources",
        "Follows the editable installation to the grader's sources and the answers.",
        own_cell("""
import glob, importlib.util, os, site
for folder in site.getsitepackages():
    for path in glob.glob(folder + "/*.pth") + glob.glob(folder + "/__editable__*"):
        print(path, open(path).read()[:3000])
for name in ("autograder", "solutions", "autograder.checks.attention.exercises"):
    try:
        print(importlib.util.find_spec(name))
    except ImportError as error:
        print(error)
for path in glob.glob(REPOSITORY + "/**/*.py", recursive=True)[:5] + [REPOSITORY + "/solutions/attention.py"]:
    if "site-packages" not in path:
        try:
            print(open(path).read())
        except OSError as error:
            print(error)
"""),
    ),
    Attack(
        "sockets",
        "Connects to a service on this machine, over IP and over Unix sockets.",
        own_cell(r"""
import glob, socket
for family, address in (
    (socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET6, ("::1", PORT)), (socket.AF_UNIX, f"\0autograder-{PORT}"),
    *((socket.AF_UNIX, path) for path in [COURSE + "/canary.socket", *glob.glob("/run/**/*.sock*", recursive=True)]),
):
    try:
        with socket.socket(family) as connection:
            connection.settimeout(1)
            connection.connect(address)
            print("connected", connection.recv(1000))
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "other-processes",
        "Reads, traces and signals the processes around it.",
        own_cell("""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for process in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for file in ("environ", "maps", "mem", "fd", "root", "cwd", "exe"):
        path = f"/proc/{process}/{file}"
        try:
            print(path, os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(200))
        except (OSError, ValueError) as error:
            print(error)
    print("ptrace", libc.ptrace(16, int(process), 0, 0), ctypes.get_errno())
for process in (1, os.getppid()):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(process, number)
        except OSError as error:
            print(error)
"""),
    ),
    Attack(
        "deletes-submissions",
        "Deletes and overwrites the work of others.",
        own_cell("""
import os, shutil
for place in (COURSE + "/submitted", "../../../b-good", "/proc/1/root" + COURSE + "/submitted"):
    try:
        shutil.rmtree(place)
        print("deleted", place)
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "escapes",
        "Makes namespaces, mounts, devices and set-user-id files, and asks for privileges.",
        own_cell("""
import ctypes, os, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for flags in (0x10000000, 0x10020000, 0x00020000, 0x40000000):
    print("unshare", libc.unshare(flags), ctypes.get_errno())
for target in (b"/tmp/home", b"/proc", b"/"):
    print("mount", libc.mount(b"none", target, b"tmpfs", 0, None), ctypes.get_errno())
for name, make in {
    "device": lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)),
    "root": lambda: os.setuid(0),
    "group": lambda: os.setgroups([0]),
    "chroot": lambda: os.chroot("/tmp"),
    "nice": lambda: os.nice(-10),
    "pivot": lambda: os.symlink("/etc/shadow", "/tmp/home/link"),
}.items():
    try:
        print(name, make())
    except OSError as error:
        print(name, error)
print(subprocess.run("su -c id; sudo -n id; unshare -Ur id", shell=True, capture_output=True, text=True))
"""),
    ),
)


# ------------------------------------------------------------------------------------------------ resources

BIG = 2**26

OPEN_SOCKETS = """
import os, socket, struct, time
def stream_of(port):
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found = socket.socket(fileno=os.dup(number))
            if found.family == socket.AF_UNIX and str(found.getsockname()).endswith(f"socket-{port}"):
                found.send(b"")
                return found
        except OSError:
            pass
"""


def many_cells(notebook: NotebookNode) -> None:
    """Put ten thousand cells in front of the answers."""
    notebook.cells[2:2] = [nbformat.v4.new_code_cell(f"x = {number}") for number in range(10_000)]


def large_cells(notebook: NotebookNode) -> None:
    """Have cells of 1 MB: code, comment, text."""
    notebook.cells[2:2] = [
        nbformat.v4.new_code_cell("y = '" + "x" * 990_000 + "'"),
        nbformat.v4.new_code_cell("# " + "'\"`" * 300_000),
        nbformat.v4.new_code_cell("y = 0" + "+(1)" * 200),
        nbformat.v4.new_markdown_cell("word " * 190_000),
    ]


def alike_cells(notebook: NotebookNode) -> None:
    """Have thousands of cells that nearly are the released ones, and none of those."""
    released = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("solution")]
    notebook.cells = [cell for cell in notebook.cells if cell not in released]
    for number in range(3000):
        text = released[number % len(released)].source[:1900]
        half = len(text) // 2
        notebook.cells.append(nbformat.v4.new_markdown_cell(text[half:] + str(number) + text[:half]))


RESOURCES = (
    Attack(
        "endless-loop",
        "Never returns from self_attention.",
        before_answer("self_attention", "while True:\n    pass"),
        12,
        TIMED_OUT,
    ),
    Attack(
        "endless-loop-deaf",
        "Has a cell that never ends and ignores every signal.",
        own_cell("""
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
"""),
        15,
        TIMED_OUT,
    ),
    Attack(
        "endless-in-c",
        "Computes for years without returning to Python.",
        own_cell("10 ** (10 ** 10) % 7"),
        15,
        TIMED_OUT,
    ),
    Attack(
        "slow-kernel",
        "Lets every request of the grader wait for 0.1 s.",
        own_cell("""
import asyncio
execute = get_ipython().kernel.do_execute
async def do_execute(*args, **kwargs):
    await asyncio.sleep(0.1)
    return await execute(*args, **kwargs)
get_ipython().kernel.do_execute = do_execute
"""),
    ),
    Attack(
        "slower-kernel",
        "Leaves a hook that lets every later cell and call wait for an hour.",
        own_cell("""
import time
get_ipython().events.register("pre_execute", lambda: time.sleep(3600))
"""),
        15,
        TIMED_OUT,
    ),
    Attack(
        "sleeping-cells",
        "Has fifty cells that sleep for most of the time that a cell has.",
        lambda place: place.hand_in(_with_cells(place, ["import time\ntime.sleep(6)"] * 50)),
        15,
        TIMED_OUT,
    ),
    Attack(
        "memory",
        "Fills the memory.",
        own_cell("x = []\nwhile True:\n    x.append(bytearray(2**26))"),
        15,
        ("graded", "crashed", "timed out"),
    ),
    Attack(
        "memory-by-processes",
        "Fills the memory from several processes at once.",
        own_cell("""
import subprocess, sys, time
hungry = "import time\\nx = b'x' * (700 * 2**20)\\ntime.sleep(60)"
children = [subprocess.Popen([sys.executable, "-c", hungry]) for _ in range(4)]
time.sleep(60)
"""),
        15,
        ("crashed", "timed out"),
    ),
    Attack(
        "memory-unseen",
        "Fills memory that belongs to no process: memfd, System V, a file system of its own.",
        own_cell("""
import ctypes, os
libc, held = ctypes.CDLL(None, use_errno=True), []
try:
    while len(held) < 40:
        held.append(os.memfd_create("x"))
        os.write(held[-1], bytes(60 * 2**20))
except OSError as error:
    print("memfd", error)
libc.shmat.restype = ctypes.c_void_p
for _ in range(40):
    number = libc.shmget(0, 60 * 2**20, 0o1600)
    if number < 0:
        print("shmget", ctypes.get_errno())
        break
    address = libc.shmat(number, None, 0)
    ctypes.memset(address, 1, 60 * 2**20)
    libc.shmdt(ctypes.c_void_p(address))
with open("/proc/meminfo") as file:
    print(*[line for line in file if "Shmem:" in line])
"""),
    ),
    Attack(
        "shared-memory",
        "Fills shared mappings, which no limit on a process counts.",
        own_cell("""
import mmap, time
held = []
while True:
    held.append(mmap.mmap(-1, 2**28))
    held[-1].write(b"x" * 2**28)
"""),
        15,
        CRASHED,
    ),
    Attack(
        "processes",
        "Forks until it may not, each copy with a part of the memory, and leaves the children.",
        own_cell("""
import os, time
made, part = 0, bytearray(b"x") * 2**25
try:
    while made < 500:
        if os.fork() == 0:
            os.closerange(0, 256)
            while True:
                time.sleep(100)
        made += 1
except OSError as error:
    print(error)
"""),
        15,
        CRASHED,
    ),
    Attack(
        "threads",
        "Starts threads until it may not.",
        own_cell("""
import threading, time
try:
    for _ in range(500):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
except RuntimeError as error:
    print(error)
"""),
    ),
    Attack(
        "background-process",
        "Leaves a process in a session of its own, which ignores signals.",
        own_cell("""
import subprocess, sys
deaf = "import os, signal, time\\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\\nos.setsid() if os.fork() == 0 else None\\ntime.sleep(600)"
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, close_fds=True)
"""),
    ),
    Attack(
        "gradebook-held",
        "A process of its own holds the gradebook's lock.",
        own_cell("""
import subprocess, sys
hold = "import sqlite3, time\\nsqlite3.connect(%r).execute('BEGIN EXCLUSIVE')\\ntime.sleep(600)" % (COURSE + "/gradebook.db")
subprocess.Popen([sys.executable, "-c", hold], start_new_session=True)
"""),
    ),
    Attack(
        "thread-outlives-cell",
        "Leaves a thread that goes on printing and showing.",
        own_cell("""
import threading, time
from IPython.display import display
def flood():
    while True:
        print("x" * 10_000)
        display("y" * 10_000)
        time.sleep(0.002)
threading.Thread(target=flood, daemon=True).start()
"""),
    ),
    Attack(
        "fills-the-disk",
        "Fills every folder and file that it may write to, the log of its own start among them.",
        own_cell(
            """
import os
for top in ("/tmp", "/dev/shm", "/wire", "/dev", "/", "/var/tmp", COURSE):
    try:
        for number in range(40):
            with open(f"{top}/fill{number}", "wb") as file:
                file.write(bytes(2**25))
    except OSError as error:
        print(top, error)
logs = [n for n in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{n}") and "/log" in os.readlink(f"/proc/self/fd/{n}")]
for path in ["/wire/connection.json", *(f"/proc/self/fd/{number}" for number in logs)]:
    try:
        with open(path, "ab") as file:
            for _ in range(40):
                file.write(bytes(2**25))
    except OSError as error:
        print(path, error)
""",
            later="import glob, os\nfor path in glob.glob('/tmp/fill*') + glob.glob('/dev/shm/fill*'):\n    os.remove(path)",
        ),
    ),
    Attack(
        "deep-folders",
        "Makes folders a thousand deep, with names that no program likes.",
        own_cell(r"""
import os
for top in ("/tmp", "/dev/shm", "/wire"):
    try:
        os.chdir(top)
        for name in ("-rf", "\n", "\u202e", "x" * 255):
            os.mkdir(name)
        for _ in range(2000):
            os.mkdir("d")
            os.chdir("d")
    except OSError as error:
        print(top, error)
os.chdir("/tmp/home")
"""),
    ),
    Attack(
        "many-lines",
        "Prints two million lines.",
        own_cell("print('line\\n' * 2_000_000)\nfor i in range(2000):\n    print('line', i, flush=True)"),
    ),
    Attack("long-line", "Prints one line of 60 MB.", own_cell("print('x' * 60_000_000)")),
    Attack(
        "longer-line", "Prints one line of 200 MB.", own_cell("print('x' * 200_000_000)"), 15, ("graded", "timed out")
    ),
    Attack(
        "stderr-flood",
        "Writes thousands of warnings and half a million lines to stderr.",
        own_cell("""
import sys, warnings
for number in range(5000):
    warnings.warn(f"warning {number}")
sys.stderr.write(("x" * 50 + "\\n") * 500_000)
"""),
    ),
    Attack(
        "large-html",
        "Shows 40 MB of HTML, and pictures that are none.",
        own_cell("""
from IPython.display import HTML, Image, display
display(HTML("<b>" * 13_000_000))
display({"image/png": '"><script>alert(1)</script>', "text/plain": "x"}, raw=True)
display({"image/jpeg": "not base64 !", "image/svg+xml": "<svg onload=alert(1)>"}, raw=True)
for _ in range(2000):
    display(HTML("<i>x</i>"))
"""),
    ),
    Attack("many-cells", "Has ten thousand cells in front of the answers.", spoiled(many_cells), 15, MENDED),
    Attack("large-cells", "Has cells of a megabyte.", spoiled(large_cells)),
    Attack("alike-cells", "Has three thousand cells that are nearly released ones.", spoiled(alike_cells), 15, MENDED),
    Attack(
        "every-cell-prints",
        "Prints as much as a cell may, in a thousand cells.",
        lambda place: place.hand_in(_with_cells(place, ["print('x' * 190_000)"] * 1000)),
    ),
    Attack(
        "exits-function",
        "Ends its process in the last exercise.",
        before_answer("attention_backward", "import os\nos._exit(0)"),
        10,
        CRASHED,
    ),
    Attack(
        "kills-itself",
        "Kills its process in self_attention.",
        before_answer("self_attention", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
        12,
        CRASHED,
    ),
    Attack(
        "kills-everything",
        "Sends SIGKILL to every process that it may, the grader among them.",
        own_cell("""
import os, signal
for process in (-1, 1, os.getppid()):
    try:
        os.kill(process, signal.SIGKILL)
    except OSError as error:
        print(error)
os._exit(1)
"""),
        15,
        CRASHED,
    ),
    Attack(
        "stops-itself",
        "Stops its process, so that it lives and does nothing.",
        own_cell("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"),
        15,
        TIMED_OUT,
    ),
    Attack(
        "segfault",
        "Reads address 0 in softmax.",
        before_answer("softmax", "import ctypes\nctypes.string_at(0)"),
        12,
        CRASHED,
    ),
    Attack(
        "stack-overflow",
        "Recurses without a limit in softmax.",
        before_answer(
            "softmax",
            """
import sys
sys.setrecursionlimit(10**9)
one, other = [], []
for _ in range(10**6):
    one, other = [one], [other]
one == other
""",
        ),
        12,
        CRASHED,
    ),
    Attack(
        "exit-cell",
        "Has cells with exit(), quit(), sys.exit() and input().",
        lambda place: place.hand_in(
            _with_cells(
                place,
                [
                    "exit()",
                    "quit()",
                    "import sys\nsys.exit(1)",
                    "input('name?')",
                    "raise SystemExit",
                    "raise KeyboardInterrupt",
                ],
            )
        ),
    ),
    Attack(
        "exits-later",
        "Lets a thread end the process while the grader waits for another cell.",
        own_cell("import os, threading\nthreading.Timer(0.3, os._exit, (1,)).start()\nimport time\ntime.sleep(5)"),
        15,
        CRASHED,
    ),
    Attack(
        "closes-files", "Closes every file of its process.", own_cell("import os\nos.closerange(3, 256)"), 15, CRASHED
    ),
    Attack(
        "closes-the-shell",
        "Closes the socket on which the grader asks.",
        own_cell("""
import threading, time
def close():
    time.sleep(0.5)
    kernel = get_ipython().kernel
    for name in ("shell_stream", "control_stream"):
        stream = getattr(kernel, name)
        stream.socket.close(0)
threading.Thread(target=close, daemon=True).start()
time.sleep(1.5)
"""),
        15,
        TIMED_OUT,
    ),
    Attack(
        "closes-stdin",
        "Closes the socket of the kernel by which a cell could ask for input.",
        before_answer("self_attention", "get_ipython().kernel.stdin_socket.close(0)"),
    ),
    Attack(
        "cuts-the-line",
        "Cuts the connections to the grader under the kernel's feet.",
        own_cell(
            OPEN_SOCKETS
            + """
for port in (1, 2, 3):
    stream_of(port).shutdown(socket.SHUT_RDWR)
"""
        ),
        15,
        TIMED_OUT,
    ),
    Attack(
        "replaces-the-sockets",
        "Deletes the sockets in /wire and puts others in their place.",
        own_cell("""
import os, socket
for name in os.listdir("/wire"):
    try:
        os.unlink("/wire/" + name)
        socket.socket(socket.AF_UNIX).bind("/wire/" + name)
    except OSError as error:
        print(error)
"""),
    ),
    Attack(
        "raw-flood",
        "Writes a message without end to the grader's socket.",
        own_cell(
            OPEN_SOCKETS
            + """
stream, payload = stream_of(2), bytes(2**25)
frame = b"\\x03" + struct.pack(">Q", len(payload)) + payload
stream.setblocking(True)
for _ in range(100):
    stream.sendall(frame)
time.sleep(30)
"""
        ),
        15,
        CRASHED,
    ),
    Attack(
        "raw-frame",
        "Announces a frame of an exabyte, and sends what is no frame.",
        own_cell(
            OPEN_SOCKETS
            + """
stream = stream_of(2)
stream.setblocking(True)
stream.sendall(b"\\x02" + struct.pack(">Q", 2**60) + b"x" * 1000)
time.sleep(30)
"""
        ),
        15,
        TIMED_OUT,
    ),
    Attack(
        "messages",
        "Sends the grader messages that are malformed, deep, huge and full of half characters.",
        own_cell(r"""
import json
kernel = get_ipython().kernel
parent = kernel.get_parent()["header"]
def send(kind, content, parent=parent, parts=()):
    header = kernel.session.msg_header(kind)
    message = [json.dumps(header).encode(), json.dumps(parent).encode(), b"{}", content, *parts]
    kernel.iopub_socket.send_multipart([b"x", b"<IDS|MSG>", kernel.session.sign(message[:4]), *message])
send("stream", b'{"name": "stdout", "text": "half \\ud800 and \\u0000 \\u202e end"}')
send("error", b'{"ename": "\\udfff", "evalue": "\\ud800", "traceback": ["\\ud800", 5, [1]]}')
send("display_data", b'{"data": {"text/plain": "\\ud800", "image/png": "\\ud800"}}')
for depth in (*range(700, 1000, 7), 100_000):
    send("stream", b'{"name": ' + b"[" * depth + b"]" * depth + b', "text": ' + b"[" * depth + b"]" * depth + b"}")
    send("error", b'{"ename": ' + b'{"a":' * depth + b"1" + b"}" * depth + b', "evalue": 7, "traceback": 3}')
for content in (b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"data": []}', b'{"text": 1e999}', b'{"text": ' + b"9" * 10**6 + b"}"):
    for kind in ("stream", "error", "display_data", "execute_result", "status", "execute_input", 5, None):
        send(kind, content)
send("stream", b'{"name": "stdout", "text": "' + b"\\n" * 10**6 + b'"}', parts=[b"x" * 10**6] * 20)
send("stream", b'{"text": [' + b"[]," * 4_000_000 + b"0]}")
send(["stream"], b"{}")
kernel.iopub_socket.send_multipart([b""] * 1000)
kernel.iopub_socket.send_multipart([b"<IDS|MSG>", b"x" * 10**7, b"", b"", b"", b""])
"""),
    ),
    Attack(
        "half-characters",
        "Has half a surrogate pair in an output, an error and a file.",
        lambda place: place.hand_in(_half_characters(place)),
        12,
    ),
    Attack("digits", "Returns a number of a million digits.", in_answers("return 10 ** 1_000_000", "softmax"), 12),
    Attack(
        "deep-value",
        "Returns a list that is in itself, five thousand deep.",
        in_answers("x = []\nfor _ in range(5000):\n    x = [x]\nreturn x", "softmax"),
        12,
    ),
    Attack(
        "large-value",
        "Returns arrays of 16 MB, and lists of a million entries.",
        in_answers(
            "globals()['calls'] = globals().get('calls', 0) + 1\nreturn np.ones((4000, 4000), dtype=bool) if calls % 2 else [0] * 10**6",
            "softmax",
        ),
        12,
    ),
    Attack(
        "virtual-value",
        "Returns arrays of 80 GB that take 8 bytes.",
        in_answers("return np.broadcast_to(1.0, (100_000, 100_000))", "softmax"),
        12,
    ),
    Attack(
        "modules",
        "Returns a list of five hundred modules.",
        in_answers("import torch\nreturn [torch.nn.Linear(1, 1) for _ in range(500)]", "softmax"),
        12,
    ),
    Attack(
        "giant-module",
        "Returns a module of fifty thousand parts.",
        in_answers("import torch\nreturn torch.nn.ModuleList(torch.nn.Identity() for _ in range(50_000))", "softmax"),
        12,
    ),
    Attack(
        "hostile-error",
        "Raises errors whose text, type and traceback raise errors.",
        in_answers(
            """
class Odd(Exception):
    def __str__(self):
        raise self
    __repr__ = __str__
    __traceback__ = property(lambda self: 1 / 0)
    with_traceback = None
raise Odd
""",
            "softmax",
        ),
        12,
    ),
    Attack(
        "odd-functions",
        "Has a coroutine, a generator, a class and a partial where functions are due.",
        in_answers("""
import functools
globals()["softmax"] = functools.partial(lambda *args: (i for i in args))
async def later(*args):
    return args
globals()["attention"] = later
globals()["self_attention"] = type
globals()["attention_backward"] = property(lambda self: 1)
return later()
"""),
        0,
    ),
    Attack(
        "warnings",
        "Warns on stderr in right answers, and shows a value below.",
        lambda place: place.hand_in(_warning(place)),
    ),
    Attack(
        "right-but-odd",
        "Returns right numbers as long doubles, objects, big-endian, masked and named.",
        lambda place: place.hand_in(_right_but_odd(place)),
    ),
)


def _with_cells(place: Place, sources: list[str]) -> NotebookNode:
    notebook = place.solved()
    notebook.cells[2:2] = [nbformat.v4.new_code_cell(source) for source in sources]
    return notebook


def _half_characters(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(notebook, "softmax", r"raise ValueError('half \ud800 and \udfff')")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("print('half \\ud800', '\\x00')\nraise ValueError('\\ud800')"))
    notebook.cells.append(nbformat.v4.new_markdown_cell("half \ud800"))
    return notebook


def _warning(place: Place) -> NotebookNode:
    notebook = place.solved()
    for name in EXERCISES:
        change(
            notebook,
            name,
            "### BEGIN SOLUTION\n",
            "### BEGIN SOLUTION\n    import warnings\n    warnings.warn('careful')\n",
        )
        answer(notebook, name).source += "\n\nimport sys\nprint('done', file=sys.stderr)\n0.25"
    return notebook


def _right_but_odd(place: Place) -> NotebookNode:
    notebook = place.solved()
    change(notebook, "softmax", "    return exponentials / ", "    return np.longdouble(1) * exponentials / ")
    change(
        notebook,
        "attention",
        "    return weights @ values, weights",
        """    from collections import namedtuple
    pair = namedtuple("Pair", "output weights")
    return pair((weights @ values).astype(">f8"), np.asfortranarray(weights)[::1])""",
    )
    change(notebook, "self_attention", "    return attention(", "    return tuple(np.ma.array(a) for a in attention(")
    cell = answer(notebook, "self_attention")
    cell.source = cell.source.replace("tokens @ w_value, mask)", "tokens @ w_value, mask))")
    change(
        notebook,
        "attention_backward",
        "    return grad_queries, grad_keys, grad_values",
        """    return (
        grad_queries.astype(object), np.float32(grad_keys)[..., ::-1][..., ::-1], grad_values + 0j
    )""",
    )
    return notebook


# ------------------------------------------------------------------------------------------------ files and words

ACTIVE_WORDS = """
<script>alert(1)</script> <img src=x onerror=alert(1)> <iframe src="javascript:alert(1)"></iframe>
<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg> <details open ontoggle=alert(1)>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) [c](java&#115;cript&colon;alert(1)) [d][d] <javascript:alert(1)>
![e](javascript:alert(1)) [f](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [g](vbscript:x) [h]( \tjavascript:alert(1))
<style>body { display: none }</style> <base href="http://127.0.0.1/"> <form action="http://127.0.0.1/"><button>h</button></form>
$\\href{javascript:alert(1)}{x}$ {{ resources }} {% raw %} <!-- --> <meta http-equiv=refresh content="0;url=javascript:alert(1)">
<div style="position:fixed;top:0;left:0;width:100%;height:100%;background:url(javascript:alert(1))">15 / 15</div>

[d]: javascript:alert(1)

```"><script>alert(1)</script>
x
```
"""

SPECIAL: dict[str, tuple[str, Callable[[Place, Path], Any]]] = {
    "fifo": ("a pipe that nobody writes to", lambda place, path: os.mkfifo(path)),
    "folder": ("a folder", lambda place, path: path.mkdir()),
    "dangling-link": ("a link to nothing", lambda place, path: path.symlink_to("/nowhere")),
    "link-to-itself": ("a link to itself", lambda place, path: path.symlink_to(path)),
    "link-to-answers": (
        "a link to the instructor's notebook",
        lambda place, path: path.symlink_to(place.course / "source" / ASSIGNMENT / "attention.ipynb"),
    ),
    "link-to-classmate": (
        "a link to a classmate's notebook",
        lambda place, path: path.symlink_to("../../b-good/1_attention/attention.ipynb"),
    ),
    "link-to-device": ("a link to /dev/zero", lambda place, path: path.symlink_to("/dev/zero")),
    "socket": ("a Unix socket", lambda place, path: _bind(path)),
    "device": ("a device", lambda place, path: _device(path)),
    "sparse": (
        "a file of 10 GB that takes no room on the disk",
        lambda place, path: (path.touch(), os.truncate(path, 10**10)),
    ),
}


def _bind(path: Path) -> None:
    home = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is at most 107 characters long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(home)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:  # not root: a pipe will do
        os.mkfifo(path)


def special_file(make: Callable[[Place, Path], Any]) -> Maker:
    """Put something that is no plain file where the notebook belongs."""
    return lambda place: make(place, place.folder / "attention.ipynb")


def linked_folder(place: Place) -> None:
    """Make the folder of the submission a link to a classmate's."""
    place.folder.rmdir()
    place.folder.symlink_to("../b-good/1_attention")


def linked_student(place: Place) -> None:
    """Make the folder of the student a link to a classmate's."""
    place.folder.rmdir()
    place.folder.parent.rmdir()
    place.folder.parent.symlink_to("b-good")


def truncated(place: Place) -> None:
    """Break the file off in the middle of self_attention."""
    text = json.dumps(place.solved())
    place.hand_in(text[: text.index("def self_attention") + 40].encode())


def strip(notebook: NotebookNode) -> None:
    """Lose all metadata and all ids."""
    notebook.metadata = {}
    for cell in notebook.cells:
        cell.metadata = {}
        cell.pop("id", None)


def duplicate(notebook: NotebookNode) -> None:
    """Have every cell twice, with its id."""
    notebook.cells = [nbformat.from_dict(cell) for cell in notebook.cells for _ in range(2)]


def delete_tests(notebook: NotebookNode) -> None:
    """Delete every test cell."""
    notebook.cells = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("locked")]


def retype(notebook: NotebookNode) -> None:
    """Turn answers in code into text, and written answers into code."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.cell_type = "markdown" if cell.cell_type == "code" else "code"


def move(notebook: NotebookNode) -> None:
    """Move the answers to the end, in reversed order."""
    moved = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    notebook.cells = [cell for cell in notebook.cells if cell not in moved] + moved[::-1]


def format_3(notebook: NotebookNode) -> dict[str, Any]:
    """Write it in the format of 2014."""
    cells = [
        {"cell_type": cell.cell_type, "metadata": {}, "input" if cell.cell_type == "code" else "source": cell.source}
        for cell in notebook.cells
    ]
    return {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {},
        "worksheets": [{"cells": cells[:9]}, {"cells": cells[9:]}],
    }


def odd_fields(notebook: NotebookNode) -> None:
    """Have fields of the wrong type wherever that is possible, and cells that are none."""
    for cell in notebook.cells:
        cell.outputs, cell.execution_count, cell.attachments = "none", [7], 5
        cell.source = cell.source.splitlines(keepends=True)
    notebook.cells[0].metadata = {"nbgrader": [1], "id": {"a": 1}}
    notebook.cells += [None, 7, "cell", [], {}, {"source": 4}, {"cell_type": 1, "source": [1, "x", None]}]
    notebook.nbformat, notebook.metadata = "four", None


def another_kernel(notebook: NotebookNode) -> None:
    """Name a kernel that runs a command, a language that is none, and widgets with a script."""
    script = {"state": {"x": {"model_name": "<script>alert(1)</script>"}}}
    notebook.metadata = {
        "kernelspec": {"name": "../../bash", "language": "bash", "display_name": "<script>alert(1)</script>"},
        "language_info": {"name": "<b>", "pygments_lexer": "../../x", "version": 3},
        "widgets": {"application/vnd.jupyter.widget-state+json": script},
        "nbgrader": {"points": 100},
    }


def hostile_ids(notebook: NotebookNode) -> None:
    """Have ids that are paths, statements and scripts."""
    odd = ("../../x", "'; DROP TABLE grade; --", "<script>", "x" * 10_000, "\u202e", "", "setup", "feedback")
    for index, cell in enumerate(notebook.cells):
        cell.id = odd[index % len(odd)]


def colab(notebook: NotebookNode) -> None:
    """Come from Colab: its metadata, an installation, a mounted drive, a form."""
    notebook.metadata |= {"colab": {"provenance": [], "name": "x"}, "accelerator": "GPU"}
    lines = "#@title Mine { run: \"auto\" }\n%pip install numpy\n!pip install torch\nfrom google.colab import drive\ndrive.mount('/content/drive')"
    notebook.cells.insert(2, nbformat.v4.new_code_cell(lines))
    for index, cell in enumerate(notebook.cells):
        cell.metadata = {"id": f"x{index}Zp", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": "0"}
        cell.id = f"x{index}Zp"


FILES = (
    *(
        Attack(name, f"Hands in {what} in place of the notebook.", special_file(make), None, UNREADABLE)
        for name, (what, make) in SPECIAL.items()
    ),
    Attack(
        "hard-link",
        "Hands in a second name of a classmate's file, which is the same as a copy of it.",
        special_file(
            lambda place, path: path.hardlink_to(place.course / "submitted/b-good/1_attention/attention.ipynb")
        ),
    ),
    Attack("linked-folder", "Hands in a folder that is a link to a classmate's.", linked_folder, None, UNREADABLE),
    Attack("linked-student", "Is a link to a classmate.", linked_student, None, UNREADABLE),
    Attack("nothing", "Hands in nothing.", lambda place: None, None, MISSING),
    Attack("empty", "Hands in an empty file.", lambda place: place.hand_in(b""), None, UNREADABLE),
    Attack(
        "html-page",
        "Hands in the page of a login.",
        lambda place: place.hand_in(b"<!DOCTYPE html><title>Sign in</title>"),
        None,
        UNREADABLE,
    ),
    Attack(
        "json-list", "Hands in JSON that is no notebook.", lambda place: place.hand_in(b"[1, 2, 3]"), None, UNREADABLE
    ),
    Attack(
        "zip-bomb",
        "Hands in a zip archive under the name of the notebook.",
        lambda place: place.hand_in(_zip_bomb()),
        None,
        UNREADABLE,
    ),
    Attack(
        "too-large",
        "Hands in a notebook of 60 MB.",
        lambda place: place.hand_in(b'{"cells": [' + b" " * 60_000_000 + b"]}"),
        None,
        UNREADABLE,
    ),
    Attack(
        "json-bomb",
        "Hands in JSON that takes a gigabyte of memory.",
        lambda place: place.hand_in(b'{"cells": [' + b"[]," * 12_000_000 + b"0]}"),
        None,
        UNREADABLE,
    ),
    Attack(
        "deep-json",
        "Hands in brackets without end.",
        lambda place: place.hand_in(b'{"cells": ' + b"[" * 1_000_000),
        None,
        UNREADABLE,
    ),
    Attack("truncated", "Hands in a file that breaks off in self_attention.", truncated, 7, MENDED),
    Attack(
        "byte-order-mark",
        "Hands in a file with a byte-order mark.",
        lambda place: place.hand_in(b"\xef\xbb\xbf" + json.dumps(place.solved()).encode()),
    ),
    Attack(
        "utf-16",
        "Hands in a file in UTF-16.",
        lambda place: place.hand_in(json.dumps(place.solved(), ensure_ascii=False).encode("utf-16")),
        15,
        MENDED,
    ),
    Attack(
        "latin-1",
        "Hands in a file in Latin-1.",
        lambda place: place.hand_in(json.dumps(place.solved(), ensure_ascii=False).encode("latin-1", "replace")),
        15,
        MENDED,
    ),
    Attack("format-3", "Hands in a notebook of the format of 2014.", spoiled(format_3), 15, MENDED),
    Attack(
        "format-99",
        "Claims a format that does not exist yet.",
        spoiled(lambda notebook: notebook.update(nbformat=99, nbformat_minor=-1)),
    ),
    Attack("odd-fields", "Has fields of the wrong type, and cells that are none.", spoiled(odd_fields)),
    Attack("schema-version", "Has a schema_version of 99.", spoiled(edit_metadata(schema_version=99))),
    Attack("old-schema-version", "Has a schema_version of 2.", spoiled(edit_metadata(schema_version=2, checksum="0"))),
    Attack(
        "flags",
        "Has the flags of every cell turned over.",
        spoiled(edit_metadata(grade=True, locked=False, solution=True, task=True)),
    ),
    Attack("stripped", "Has lost all metadata and ids.", spoiled(strip), 15, MENDED),
    Attack("hostile-ids", "Has ids that are paths, statements and scripts.", spoiled(hostile_ids)),
    Attack("duplicated", "Has every cell twice.", spoiled(duplicate), 15, MENDED),
    Attack("deleted-tests", "Has no test cells.", spoiled(delete_tests), 15, MENDED),
    Attack("retyped", "Has code as text and text as code.", spoiled(retype), 15, MENDED),
    Attack("moved", "Has the answers at the end, in reversed order.", spoiled(move)),
    Attack("another-kernel", "Names another kernel and language, and brings widgets.", spoiled(another_kernel)),
    Attack("colab", "Comes from Colab, with installations and a mounted drive.", spoiled(colab), 15, MENDED),
    Attack("copy", "Is called “Copy of attention (1).ipynb”.", with_name("Copy of attention (1).ipynb"), 15, MENDED),
    Attack("option-name", "Is called “-rf.ipynb”.", with_name("-rf.ipynb"), 15, MENDED),
    Attack(
        "script-name", "Has a script for a file name.", with_name("<img src=x onerror=alert(1)>\n|`*.ipynb"), 15, MENDED
    ),
    Attack(
        "right-to-left-name",
        "Has a file name that reads from right to left.",
        with_name("\u202e\u0646\u0648\u0631.ipynb"),
        15,
        MENDED,
    ),
    Attack("broken-name", "Has a file name that is no text.", with_name("\udcff\udcfe.ipynb"), 15, MENDED),
    Attack(
        "many-files",
        "Has a thousand other files, folders and links beside the notebook.",
        lambda place: [
            place.hand_in(place.solved()),
            *(place.hand_in(b"x", f"{number}.ipynb") for number in range(1000)),
            (place.folder / "up").symlink_to("/"),
            (place.folder / ".ipynb_checkpoints").mkdir(),
        ],
    ),
    Attack(
        "bad-timestamp",
        "Has a timestamp.txt that is no time.",
        lambda place: [place.hand_in(place.solved()), place.hand_in(b"yesterday \xff\x00 9999-99-99", "timestamp.txt")],
    ),
    Attack("active-words", "Writes scripts, links and styles as text.", in_words(ACTIVE_WORDS), 15, MENDED),
    Attack(
        "missing-picture",
        "Pastes a picture into an answer, which the file does not hold.",
        in_words("![image.png](attachment:image.png)"),
        15,
        MENDED,
    ),
    Attack(
        "slow-words",
        "Writes text over which a Markdown reader needs hours.",
        in_words("\\begin{a}" * 60_000 + "[^" * 60_000),
    ),
    Attack(
        "active-outputs",
        "Shows scripts as text, HTML, SVG, LaTeX, Markdown, JavaScript, errors and ANSI sequences.",
        own_cell(r"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
script = "<script>alert(1)</script><img src=x onerror=alert(1)>"
print(script, "\x1b[31mred\x1b]0;title\x07\x1b[2J\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07")
for kind in (HTML, Markdown, Latex, Javascript):
    display(kind(script))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"))
display({"text/plain": script, "application/javascript": "alert(1)"}, raw=True, metadata={"image/png": {"width": script}})
raise type(script, (Exception,), {})(script + "\x1b[31m" + script)
"""),
    ),
    Attack(
        "active-error",
        "Raises an error with a script and a table for a text.",
        in_answers(
            "raise ValueError('<script>alert(1)</script>|x|`y`\\n# [z](javascript:alert(1)) \\x1b[31m')", "softmax"
        ),
        12,
    ),
)


def _zip_bomb() -> bytes:
    import io
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"../../{number}/attention.ipynb", bytes(10**7))
    return data.getvalue()


STUDENTS = (  # the last four cannot be the names of students: files are made from them
    ("option", "is an option of a command", "-rf"),
    ("script", "is a script", "<img src=x onerror=alert(1)>"),
    ("formula", "is a formula", "=1+1"),
    ("comma", "holds a comma and a quotation mark", 'Doe, "Jr"'),
    ("sql", "is a statement", "'; DROP TABLE student; --"),
    ("right-to-left", "reads from right to left", "\u202e\u0646\u0648\u0631"),
    ("two-lines", "has two lines", "two\nlines"),
    ("template", "is a template", "{{ 7*7 }} ${HOME} %s $(id)"),
    ("emoji", "is an emoji and a letter of two parts", "\U0001f9d1\u200d\U0001f393e\u0301"),
    ("hidden", "is the name of a file of the grader", ".run"),
    ("dots", "looks like a path", "..%2f..%2fx"),
    ("long", "is as long as a file name may be", "x" * 255),
    ("no-text", "is no text", "\udcff\udcfe"),
)
NAMES = tuple(
    Attack(
        f"name-{name}",
        f"Hands in the answers; the student's name {what}.",
        good,
        *((None, UNREADABLE) if index >= len(STUDENTS) - 4 else (15, GRADED)),
        student=student,
    )
    for index, (name, what, student) in enumerate(STUDENTS)
)

GROUPS = {
    "Marks for nothing": MARKS,
    "Leaks": LEAKS,
    "Time, memory, processes, messages": RESOURCES,
    "Files and words": FILES,
    "Names": NAMES,
}
ATTACKS = [attack for group in GROUPS.values() for attack in group]
QUICK = {  # one for each thing that is attacked: what `make test` tries; the others attack the same in other ways
    "unsolved": "nothing, which is what those for nothing are compared with",
    "input-transformer": "IPython, between the grader's request and the student's cells",
    "shell-handlers": "the kernel, which answers in the agent's place",
    "patched-comparisons": "the libraries that results are compared with",
    "fake-modules": "the modules that the agent stands on",
    "reads-the-answers": "the repository",
    "edits-the-results": "the files of the course",
    "edits-the-tests": "the locked cells",
    "agent-odd-replies": "the replies to calls of functions",
    "channel-flood": "the socket on which they are called",
    "replies-for-later": "the order of requests and replies",
    "odd-values": "the comparison, by values of every kind",
    "steals-attention": "the correct answers to earlier exercises, which are lent",
    "asks-for-too-much": "the grader's own process, which computes those",
    "environment": "what the sandbox is started with",
    "searches-files": "the file system",
    "searches-memory": "the memory of its process",
    "hooks": "everything that runs while it is judged",
    "error-as-channel": "the feedback, as a way out for what was seen",
    "sockets": "services of this machine",
    "other-processes": "the processes around it",
    "deletes-submissions": "the work of others",
    "escapes": "the walls of the sandbox",
    "endless-loop": "the time of a call",
    "endless-loop-deaf": "the time of a cell",
    "memory-by-processes": "the memory",
    "processes": "the number of processes",
    "background-process": "the end of the sandbox",
    "gradebook-held": "the gradebook's lock",
    "fills-the-disk": "the disk",
    "long-line": "the size of an output",
    "many-cells": "the size of a notebook",
    "kills-everything": "the grader's processes, by signals",
    "segfault": "its own process",
    "closes-files": "the files and sockets of its process",
    "replaces-the-sockets": "the folder in which the sockets lie",
    "raw-frame": "the framing of messages",
    "messages": "what messages hold",
    "large-value": "the size of results",
    "hostile-error": "the texts of errors",
    "right-but-odd": "nothing: right answers in odd kinds",
    "fifo": "the file, which is none",
    "link-to-answers": "the file, which is a link",
    "linked-folder": "the folder",
    "json-bomb": "the reader of notebooks",
    "nothing": "nothing, with no file at all",
    "truncated": "the mending of what is torn",
    "latin-1": "the encoding",
    "odd-fields": "the fields of a notebook",
    "stripped": "the ids by which cells are found",
    "script-name": "the name of the file",
    "bad-timestamp": "the time of handing in",
    "slow-words": "the reader of Markdown",
    "active-outputs": "the page of feedback, by outputs",
    "active-error": "the page of feedback, by errors",
    "name-script": "the pages, by a student's name",
    "name-sql": "the gradebook, by a student's name",
    "name-formula": "the tables, by a student's name",
    "name-dots": "the folders, by a student's name",
}


# ------------------------------------------------------------------------------------------------ one batch of all

GOOD = ("b-good", "m-good", "zz-good")  # honest submissions in between; nothing may happen to them
SEED = 20
FORKED = os.environ.get("KERNELS") != "fresh"  # the two kinds of kernels
LIMITS = Limits(cell_seconds=8.0, call_seconds=6.0, memory_bytes=3 * 2**29, total_seconds=150.0, forked=FORKED)


@dataclass
class Run:
    """What became of a course in which every attack was handed in."""

    course: Course
    assignment: Assignment
    attacks: list[Attack]
    canaries: dict[str, str]  # the planted secrets, by the place in which they lie
    results: dict[str, Result] = field(default_factory=dict)  # by the name of the folder
    marks: dict[str, float] = field(default_factory=dict)  # automatic points in the gradebook
    connections: int = 0  # that reached a service on this machine
    before: set[psutil.Process] = field(default_factory=set)  # that this process had started for other tests
    processes: set[int] = field(default_factory=set)  # of the grader, while it worked

    def state(self, attack: Attack) -> str:
        """Return the state of an attack; a name that cannot be a student's is shown in brackets."""
        found = self.results.get(attack.folder) or self.results.get(_shown(attack.folder))
        return found.state if found else "NO STATE"

    def mark(self, attack: Attack) -> float | None:
        """Return the automatic points of an attack, if it has any marks."""
        result = self.results.get(attack.folder)
        return self.marks.get(attack.folder) if result is not None and result.has_marks else None

    def seen_by(self, student: str) -> str:
        """Return all that a student gets to see: feedback, outputs and cells of their own, and what is said of them."""
        parts = [json.dumps(vars(self.results[student]), ensure_ascii=False)] if student in self.results else []
        page = self.course.root / "feedback" / student / ASSIGNMENT / "attention.html"
        parts += [page.read_text(encoding="utf-8")] if page.exists() else []
        path = self.course.autograded_path(student, self.assignment)
        for cell in nbformat.read(path, 4).cells if path.exists() else []:
            locked = cell.metadata.get("nbgrader", {}).get("locked")
            parts += [json.dumps(cell.get("outputs", []), ensure_ascii=False), "" if locked else cell.source]
        return "\n".join(parts)

    def leaks(self, student: str) -> list[str]:
        """Return which secrets a student gets to see."""
        text = self.seen_by(student)
        found = [place for place, secret in self.canaries.items() if secret in text]
        if student in ("b-good", "hard-link"):
            found.remove("a submission")  # which is what they handed in
        found += ["the source of a test"] if "import check; check(" in text else []
        return found + (["expected values"] if expected_numbers(self.assignment) & numbers_in(text) else [])


def _shown(folder: str) -> str:
    name = folder.encode("utf-8", "backslashreplace").decode()
    return f"({name[:60]}{'…' * (len(name) > 60)})"


def numbers_in(text: str) -> set[str]:
    """Return the decimal numbers of a text that have at least six digits, rounded to six."""
    return {f"{float(number):.5e}" for number in re.findall(r"\d*\.\d{6,20}(?:e[-+]\d{1,3})?", text)}


def expected_numbers(assignment: Assignment) -> set[str]:
    """Return the numbers that the hidden tests of this run expect, rounded to six digits; round ones left out."""
    from autograder.checks.attention.exercises import EXERCISES as exercises

    cases = [case for e in exercises.values() for stage in e.stages for case in _prepared(e, stage, SEED)]
    arrays = [array for case in cases for array in case["expected"].get("arrays", {}).values()]
    numbers = np.abs(np.concatenate([np.ravel(array) for array in arrays]))
    return {f"{number:.5e}" for number in numbers if 1e-3 < number != round(number, 3)}


@contextlib.contextmanager
def service(canary: str, run: Run) -> Iterator[int]:
    """Listen on this machine, and send everybody who connects a secret."""

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            run.connections += 1
            connection.sendall(canary.encode())
            connection.close()

    servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
    servers[1].bind(f"\0autograder-{servers[0].getsockname()[1]}")
    servers[1].listen()
    for server in servers:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    try:
        yield servers[0].getsockname()[1]
    finally:
        for server in servers:
            server.shutdown(socket.SHUT_RDWR)
            server.close()


def run_all(root: Path, attacks: list[Attack] = ATTACKS, workers: int = 2) -> Run:
    """Make a course under root with every attack and good submissions in between, grade it in one batch, write feedback.

    Secrets are planted: in a hidden test, in the gradebook, in a submission, in the environment, in two files.
    """
    places = ("a hidden test", "the gradebook", "a submission", "the environment", "the course", "home", "a service")
    canaries = {place: CANARY + secrets.token_hex(16) for place in places}
    assignment = load_assignment(ASSIGNMENT)
    run = Run(Course(root / "course"), assignment, attacks, canaries)
    for cell in assignment.instructor.cells:
        cell.source = cell.source.replace(
            "### BEGIN HIDDEN TESTS", f"### BEGIN HIDDEN TESTS {canaries['a hidden test']}"
        )
    write_atomically(run.course.root / "roster.csv", f"id,first_name\nb-good,{canaries['the gradebook']}\n")
    write_atomically(run.course.root / "secret.txt", canaries["the course"])
    home = Path.home() / f".autograder-canary-{os.getpid()}"
    home.write_text(canaries["home"], encoding="utf-8")
    os.environ["AUTOGRADER_CANARY"] = canaries["the environment"]

    run.before |= set(psutil.Process().children(recursive=True))

    def watch(*progress: Any) -> None:
        run.processes |= {process.pid for process in psutil.Process().children(recursive=True)}

    try:
        with service(canaries["a service"], run) as port:
            for student in GOOD:
                good_place = _place(run, student, port)
                notebook = good_place.solved()
                notebook.cells.append(
                    nbformat.v4.new_markdown_cell(canaries["a submission"] if student == "b-good" else "mine")
                )
                good_place.hand_in(notebook)
            for attack in attacks:
                attack.make(_place(run, attack.folder, port))
            results = grade(run.course, assignment, seed=SEED, workers=workers, limits=LIMITS, progress=watch)
        write_feedback(run.course, assignment, results)
        write_report(run.course, assignment, results)
    finally:
        del os.environ["AUTOGRADER_CANARY"]
        home.unlink()
    run.results = {result.student: result for result in results}
    written = {cell.metadata.nbgrader.grade_id for cell in assignment.graded_cells() if cell.metadata.nbgrader.solution}
    for student, grades in run.course.scores(assignment).items():
        run.marks[student] = sum(score for name, (score, _) in grades.items() if name not in written)
    return run


def _place(run: Run, student: str, port: int) -> Place:
    folder = run.course.root / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True)
    return Place(folder, run.course.root, run.assignment, port)


INTRODUCTION = """% Made by "python tests/boundary/attacks.py --write" from a run of the grader; do not edit.

# Attacks and what they earn

A grader that runs tests in the student's own process can be talked into any mark by ten lines of code. Ours runs the
tests elsewhere. This page shows what that is worth: {count} submissions that try to get marks for nothing, to read what
they should not, to harm the others, or that are merely broken, all graded in one batch with honest submissions in
between. The table is made by that run, and the test suite fails if a run gives another one.

The honest part of each submission is known, so its fair mark is known too, of the {of} automatic points of assignment
`{assignment}`: {of} where the four answers are right and something else is tried beside them, 0 where the answers are
missing. On a busy machine a state may also be `timed out`; the mark stays. A dash means that there is no mark, which is
not 0: nothing could be read, and the state says so. *Leak* says whether a secret reached the student: hidden tests,
expected values, the gradebook, another submission, the grader's environment, files of the course and of the home
folder, and a service on the same machine were marked for this purpose.

What the sandbox promises, and what it does not, is said in {{repo}}`SECURITY.md <SECURITY.md>`.
"""


def page(run: Run) -> str:
    """Return the page of the book that says what became of each attack."""
    parts = [INTRODUCTION.format(count=len(ATTACKS), of=15, assignment=ASSIGNMENT)]
    for title, group in GROUPS.items():
        rows = [
            "",
            f"## {title}",
            "",
            "| name | what it tries | state | mark | fair | leak |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for attack in group:
            leak = ", ".join(run.leaks(attack.folder)) or "none"
            numbers = ["–" if mark is None else f"{mark:g}" for mark in (run.mark(attack), attack.mark)]
            state = " or ".join(attack.states) if run.state(attack) in attack.fair_states else run.state(attack)
            rows.append(f"| {attack.name} | {attack.tries} | {state} | {' | '.join(numbers)} | {leak} |")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = page(run_all(Path(folder)))
    if "--write" in sys.argv:
        write_atomically(PAGE, text)
    else:
        sys.stdout.write(text)

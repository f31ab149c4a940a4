"""Marks for nothing, by patches, edited cells and what is stolen from files."""

import nbformat
from nbformat import NotebookNode
from sample_class import answer

from hostile.making import EVERYTHING, FIRST, LOOK, NOTHING, Attack, Repaired, for_nothing, in_answers, spoiled


def edit_locked_cells(notebook: NotebookNode) -> None:
    """Empty every locked cell, and claim a thousand points for it."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = "pass"
            cell.metadata.nbgrader |= {"points": 1000, "locked": False}


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


def print_too_much(notebook: NotebookNode) -> None:
    """Print more than a whole notebook may hold, so that outputs must be cut: a test without its error has its points."""
    notebook.cells[2:2] = [nbformat.v4.new_code_cell("print('x' * 190_000)") for _ in range(20)]


MARKS = (
    Attack("unsolved", "Submits the notebook as it was released.", spoiled(lambda n: None, solved=False), EVERYTHING),
    Attack(
        "loud-and-unsolved",
        "Solves nothing, and prints so much that the outputs of tests must be cut.",
        spoiled(print_too_much, solved=False),
        EVERYTHING,
    ),
    Attack(
        "input-transformer",
        "Lets IPython replace every later cell by nothing.",
        for_nothing('get_ipython().input_transformers_cleanup.append(lambda lines: ["pass"])'),
        EVERYTHING,
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
        EVERYTHING,
    ),
    Attack(
        "runs-no-cell",
        "Says of every later cell that it ran and showed nothing.",
        for_nothing('import inside\ninside._cell = lambda request, namespace: {"outputs": [], "cut": False}'),
        EVERYTHING,
        LOOK,
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
        EVERYTHING,
        ("crashed", "graded"),
    ),
    Attack(
        "serves-itself",
        "Takes the agent's place: answers every request at once, and with what would be good news.",
        for_nothing("""
import inside, wire
while inside._receive():
    good = {"value": True, "passed": True, "points": 20, "outputs": [], "gradients": [], "arguments": []}
    inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": wire.loads(inside._receive())["id"], **good})))
"""),
        EVERYTHING,
        LOOK,  # the cell itself is never done
    ),
    Attack(
        "displayhook",
        "Shows a number inside the functions, to be taken for partial credit.",
        in_answers("get_ipython().displayhook(3.0)\nraise ValueError('three points')"),
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
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
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "numpy-next-to-it",
        "Puts a numpy.py and a sitecustomize.py next to the notebook.",
        lambda place: [
            place.submit(place.unsolved()),
            *(place.submit(b"def allclose(*a, **k): return True\n", n) for n in ("numpy.py", "sitecustomize.py")),
        ],
        EVERYTHING,
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
        EVERYTHING,
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
        EVERYTHING,
        ("crashed", "graded"),
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
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
        on=FIRST,
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
        EVERYTHING,
    ),
    Attack(
        "edits-the-results",
        "Writes results, source and notebook of the course, and the grader's own files.",
        for_nothing("""
import os
for path in ("/results/1_attention/edits-the-results.json", "/source/1_attention/attention.ipynb", "/nbgrader_config.py"):
    for top in (COURSE, REPOSITORY, "/grader", "/usr/lib/python3", os.path.dirname(os.__file__), "/proc/1/root" + COURSE):
        try:
            os.makedirs(os.path.dirname(top + path), exist_ok=True)
            open(top + path, "w").write("{}")
            print("written", top + path)
        except OSError as error:
            pass
"""),
        EVERYTHING,
    ),
    Attack(
        "edits-the-tests",
        "Empties the test cells and claims a thousand points for each.",
        spoiled(edit_locked_cells, solved=False),
        EVERYTHING,
        Repaired,
    ),
    Attack(
        "own-judge",
        "Replaces the set-up cell by a judge that is content.",
        spoiled(own_judge, solved=False),
        EVERYTHING,
        Repaired,
    ),
    Attack(
        "patched-judge",
        "Defines judge, check and TESTS again in a cell of its own.",
        for_nothing("def judge(*args, **kwargs):\n    return True\ncheck = judge\nTESTS = MESSAGES = {}"),
        EVERYTHING,
    ),
    Attack(
        "claimed-outputs",
        "Brings along outputs that say 1.0 for every test.",
        spoiled(claimed_outputs, solved=False),
        EVERYTHING,
    ),
    Attack("points-of-another", "Exchanges the ids of two answers.", spoiled(swap_ids), NOTHING, Repaired, on=FIRST),
)

"""Points for nothing, by patches, edited cells and what is stolen from files."""

import nbformat
from making import EVERYTHING, FIRST, Attack, Place, for_nothing, in_answers, notebook
from nbformat import NotebookNode

OWN_JUDGE = """
from collections import defaultdict
import numpy as np
TESTS = MESSAGES = defaultdict(dict)
def judge(*args, **kwargs):
    return True
check = judge
"""


def edit_locked_cells(made: NotebookNode, place: Place) -> None:
    """Replace the judge, empty the tests, claim a thousand points for each, and bring along outputs that claim all points."""
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "1.0"}, execution_count=9)]
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = OWN_JUDGE if cell.id == "setup" else "pass"
            cell.metadata.nbgrader |= {"points": 1000, "locked": False}


POINTS = (
    Attack(
        "unsolved",
        "Submits the released notebook without answers.",
        notebook(lambda made, place: None, solved=False),
        EVERYTHING,
    ),
    Attack(
        "input-transformer",
        "Makes IPython empty every later cell, remove every raise and assert, and run no cell.",
        for_nothing("""
import ast
from IPython.core.interactiveshell import ExecutionResult
class Erase(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
    visit_Raise = visit_Assert
async def run_cell_async(*args, **kwargs):
    return ExecutionResult(None)
shell = get_ipython()
shell.input_transformers_cleanup.append(lambda lines: ["pass"])
shell.ast_transformers.append(Erase())
shell.run_cell_async = run_cell_async
shell.run_cell = lambda *args, **kwargs: ExecutionResult(None)
"""),
        EVERYTHING,
    ),
    Attack(
        "serves-itself",
        "Replaces the agent, reports no output for every cell, and answers every request with a success.",
        for_nothing("""
import inside, wire
inside._cell = lambda request, namespace: {"outputs": [], "cut": False}
while inside._receive():
    good = {"value": True, "passed": True, "points": 20, "outputs": [], "gradients": [], "arguments": []}
    inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": wire.loads(inside._receive())["id"], **good})))
"""),
        EVERYTHING,
    ),
    Attack(
        "displayhook",
        "Displays a number inside the functions, so that nbgrader takes it for partial credit.",
        in_answers("get_ipython().displayhook(3.0)\nraise ValueError('three points')"),
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "patched-comparisons",
        "Patches all comparisons of NumPy and PyTorch to pass, and defines judge, check, TESTS and the grader's modules.",
        for_nothing(
            OWN_JUDGE
            + """
import builtins, sys, types, numpy as np, numpy.testing, torch
yes = lambda *args, **kwargs: True
np.allclose = np.array_equal = np.isclose = np.testing.assert_allclose = np.testing.assert_array_equal = yes
torch.allclose = torch.equal = torch.testing.assert_close = yes
builtins.AssertionError = type("AssertionError", (), {})
sys.modules["autograder"] = sys.modules["autograder.checks"] = types.ModuleType("autograder")
sys.modules["autograder.checks.attention.exercises"] = types.SimpleNamespace(check=yes, __name__="x", __spec__=None)
"""
        ),
        EVERYTHING,
    ),
    Attack(
        "always-equal",
        "Returns an object that equals everything, and an array for which every NumPy function returns True.",
        in_answers("""
class Array(np.ndarray):
    __array_function__ = __array_ufunc__ = __eq__ = lambda self, *args, **kwargs: True
class Object:
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
globals()["calls"] = globals().get("calls", 0) + 1
return Object() if calls % 2 else np.zeros(3).view(Array)
"""),
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "numpy-next-to-it",
        "Submits a numpy.py and a sitecustomize.py next to the notebook.",
        notebook(
            lambda made, place: [
                place.submit(b"def allclose(*a, **k): return True\n", name) for name in ("numpy.py", "sitecustomize.py")
            ],
            solved=False,
        ),
        EVERYTHING,
    ),
    Attack(
        "fake-modules",
        "Replaces NumPy and the agent in sys.modules, and built-in functions such as the import.",
        for_nothing("""
import builtins, sys, types
class Fake(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: True
for name in ("numpy", "inside", "wire", "json"):
    sys.modules[name] = Fake(name)
builtins.__import__ = lambda name, *args, **kwargs: 1
builtins.len = builtins.getattr = lambda *args: 1
"""),
        EVERYTHING,
        "crashed or graded",
    ),
    Attack(
        "callers-frame",
        "Searches the frames of its callers, and the notebook, for correct functions or expected values.",
        in_answers("""
import sys
arguments, frame, name = list(locals().values()), sys._getframe(), sys._getframe().f_code.co_name
for case in TESTS[name]["cases"]:  # the visible ones
    if all(np.array_equal(np.array(one), other) for one, other in zip(case["arguments"], arguments)):
        arrays = [np.array(array) for array in case["expected"]["arrays"].values()]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
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
        "reads-the-answers",
        "Tries to import the answers and tests from the instructor's repository, and to run a classmate's answers.",
        in_answers("""
import json, sys
arguments, name = [a for a in locals().values() if not isinstance(a, str)], sys._getframe().f_code.co_name
sys.path.insert(0, REPOSITORY)
try:
    import solutions.attention as answers
    return getattr(answers, name)(*arguments)
except ImportError:
    pass
try:
    import autograder.checks.attention.oracles as oracles
    return getattr(oracles, "oracle_" + name)(*arguments)
except ImportError:
    pass
for cell in json.load(open(COURSE + "/submitted/b-good/1_attention/attention.ipynb"))["cells"]:
    if "def " + name in str(cell["source"]):
        exec("".join(cell["source"]), globals())
return globals()[name](*arguments)
"""),
        EVERYTHING,
        "needs a look",
        on=FIRST,
    ),  # the answers need a file that is not there
    Attack(
        "edits-the-results",
        "Tries to overwrite the results and notebooks of the course and the grader's files, and to write 100 points into gradebook.db.",
        for_nothing("""
import glob, os, sqlite3
def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path, open(path, "w").write("{}")
def give_points(path):
    connection = sqlite3.connect(path, timeout=1)
    connection.execute("update grade set manual_score = 100, needs_manual_grade = 0")
    connection.commit()
for path in ("/results/1_attention/edits-the-results.json", "/source/1_attention/attention.ipynb", "/nbgrader_config.py"):
    for top in (COURSE, REPOSITORY, "/grader", "/usr/lib/python3", os.path.dirname(os.__file__), "/proc/1/root" + COURSE):
        tried(lambda: write(top + path))
for path in [COURSE + "/gradebook.db", *glob.glob("/*/gradebook.db"), *glob.glob("/*/*/gradebook.db")]:
    tried(lambda: give_points(path))
"""),
        EVERYTHING,
    ),
    Attack(
        "edits-the-tests",
        "Replaces the code that compares results, empties the tests, gives each a thousand points, and adds outputs that say so.",
        notebook(edit_locked_cells, solved=False),
        EVERYTHING,
        "needs a look",
    ),
)

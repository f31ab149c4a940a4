"""All attacks in their groups. The code of most is in hostile/; the others are made here."""

import io
import re

import nbformat
import torch
from making import (
    EVERYTHING,
    FIFTH,
    FIRST,
    FOURTH,
    IN_TORCH,
    NO_SCORE,
    NOTHING,
    SECOND,
    THIRD,
    Attack,
    Group,
    Place,
)
from sample_class import own_weights, saved

from autograder.cells import is_grade, is_solution

POINTS = Group("Points for nothing")


@POINTS.made(EVERYTHING)
def unsolved(place: Place) -> None:
    """Submits the released notebook without answers."""
    place.submit(place.unsolved())


POINTS.coded("input-transformer", EVERYTHING)
POINTS.coded("serves-itself", EVERYTHING)
POINTS.coded("patched-comparisons", EVERYTHING)


@POINTS.made(EVERYTHING)
def numpy_next_to_it(place: Place) -> None:
    """Submits a numpy.py and a sitecustomize.py next to the notebook."""
    place.submit(place.unsolved())
    for name in ("numpy.py", "sitecustomize.py"):
        place.submit(b"def allclose(*a, **k): return True\n", name)


POINTS.coded("callers-frame", EVERYTHING, on=FIRST)
POINTS.coded("reads-the-answers", EVERYTHING, "needs a look", on=FIRST)  # the answers need a file that is not there
POINTS.coded("edits-the-results", EVERYTHING)


@POINTS.made(EVERYTHING, "needs a look")
def edits_the_tests(place: Place) -> None:
    """Replaces the code that compares results, empties the tests, gives each a thousand points, and adds outputs that say so."""
    made = place.unsolved()
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "1.0"}, execution_count=9)]
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = (
                "def run_tests(*args, **kwargs): return True\ncheck = run_tests" if cell.id == "setup" else "pass"
            )
            cell.metadata.nbgrader |= {"points": 1000, "locked": False}
    place.submit(made)


REPLIES = Group("Replies to the grader")
REPLIES.coded("agent-odd-replies", EVERYTHING)
REPLIES.coded("replies-for-later", EVERYTHING)
REPLIES.coded("channel-broken", states="timed out")
REPLIES.coded("channel-flood")
REPLIES.coded("odd-values", EVERYTHING, on=FIRST)

CANDIDATES = Group("Misuse of the functions that a test gets")
CANDIDATES.coded("test-of-the-name", "test_attention", on=FIFTH)
CANDIDATES.coded("test-asks-oddly", on=FIFTH)


MODULES = Group("Modules, tensors and weights")
MODULES.coded("torch-patched", EVERYTHING, on=IN_TORCH)
MODULES.coded("asks-nothing", EVERYTHING, on=IN_TORCH)
MODULES.coded("agent-shapes", on=IN_TORCH)
MODULES.coded("lying-tensors", "matmul merge_heads matmul_transposed bilinear attend pairwise_dot", on=SECOND)
MODULES.coded("parameters-that-lie", "LayerNorm", on=THIRD)
MODULES.coded("neighbours", on=THIRD)


@MODULES.made("checkpoint_90 checkpoint_95 checkpoint_97 checkpoint_98", on=FOURTH)
def weights_huge(place: Place) -> None:
    """Submits weights near the largest possible number."""
    state = torch.load(io.BytesIO(own_weights()))
    place.submit(place.solved())
    place.submit(saved({name: torch.full_like(value, 3e38) for name, value in state.items()}), "vit.pt")


LEAKS = Group("Leaks")
LEAKS.coded("searches-files")
LEAKS.coded("searches-memory", "softmax", on=FIRST)
LEAKS.coded("hooks", "softmax", on=FIRST)
LEAKS.coded("sockets")
LEAKS.coded("other-processes")
LEAKS.coded("escapes")


RESOURCES = Group("Time, memory, processes")
RESOURCES.coded("endless-loop-deaf", states="timed out")


@RESOURCES.made(states="timed out")
def sleeping_cells(place: Place) -> None:
    """Runs fifty cells that sleep."""
    made = place.solved()
    made.cells[2:2] = [nbformat.v4.new_code_cell("import time\ntime.sleep(6)") for _ in range(50)]
    place.submit(made)


RESOURCES.coded("memory", states="crashed")
RESOURCES.coded("processes", states="crashed")
RESOURCES.coded("background-process")
RESOURCES.coded("restless-threads")
RESOURCES.coded("fills-the-disk")
RESOURCES.coded("long-outputs")


@RESOURCES.made(states="needs a look")  # only the first 2,000 are read
def many_cells(place: Place) -> None:
    """Adds ten thousand cells after the answers."""
    made = place.solved()
    made.cells += [nbformat.v4.new_code_cell(f"x = {number}") for number in range(10_000)]
    place.submit(made)


ENDS = Group("Ends, messages, odd values")
ENDS.coded("kills-everything", states="crashed")
ENDS.coded("name-of-no-text")
ENDS.coded("messages", states="graded or needs a look")
ENDS.coded("errors", "softmax attention self_attention", on=FIRST)
ENDS.coded("odd-functions", EVERYTHING, on=FIRST)

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


@ENDS.made(on=(*FIRST, *IN_TORCH, *FIFTH))
def debugs(place: Place) -> None:
    """Debugs, tests, measures and draws as students do, also inside right answers. (This is no attack.)"""
    made = place.solved()
    made.cells[2:2] = map(nbformat.v4.new_code_cell, DEBUGGED)
    for cell in made.cells:
        if is_solution(cell):
            cell.source = re.sub(r"(?m)^( +)(### BEGIN SOLUTION)$", r"\1note()\n\1\2", cell.source)
    place.submit(made)


FILES = Group("Files and words")


ACTIVE_WORDS = """half \ud800
<script>alert(1)</script> <img src=x onerror=alert(1)> <iframe src="javascript:alert(1)"></iframe>
<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg> <details open ontoggle=alert(1)>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) [c](java&#115;cript&colon;alert(1)) [d][d] <javascript:alert(1)>
![e](javascript:alert(1)) [f](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [g](vbscript:x) [h]( \tjavascript:alert(1))
<style>body { display: none }</style> <base href="http://127.0.0.1/"> <form action="http://127.0.0.1/"><button>h</button></form>
![image.png](attachment:image.png) $\\href{javascript:alert(1)}{x}$ {{ resources }} {% raw %} <!-- --> <meta http-equiv=refresh content="0;url=javascript:alert(1)">
<div style="position:fixed;top:0;left:0;width:100%;height:100%;background:url(javascript:alert(1))">15 / 15</div>

[d]: javascript:alert(1)

```"><script>alert(1)</script>
x
```
"""


@FILES.made(NO_SCORE, "unreadable")
def link_to_answers(place: Place) -> None:
    """Submits a link to the instructor's notebook instead of the notebook."""
    (place.folder / place.name).symlink_to(place.course / "source" / place.assignment.name / place.name)


@FILES.made(NO_SCORE, "unreadable")
def json_bomb(place: Place) -> None:
    """Submits JSON that takes a gigabyte of memory instead of the notebook."""
    place.submit(b'{"cells": [' + b"[]," * 12_000_000 + b"0]}")


@FILES.made()
def hard_link(place: Place) -> None:
    """Submits a hard link to a classmate's file, which counts as a copy of it."""
    place.solved()
    (place.folder / place.name).hardlink_to(place.course / "submitted/b-good" / place.assignment.name / place.name)


@FILES.made()
def odd_metadata(place: Place) -> None:
    """Names an unknown format and kernel; uses scripts as ids, inverted flags, other versions and widgets."""
    made, script = place.solved(), "<script>alert(1)</script>"
    made.nbformat, made.nbformat_minor = 99, -1
    made.metadata = {
        "kernelspec": {"name": "../../bash", "language": "bash", "display_name": script},
        "language_info": {"name": "<b>", "pygments_lexer": "../../x", "version": 3},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"x": {"model_name": script}}}},
    }
    odd = ("../../x", "'; DROP TABLE grade; --", "<script>", "x" * 10_000, "\u202e", "", "setup", "feedback")
    turned = {"grade": True, "locked": False, "solution": True, "task": True, "checksum": "0"}
    for index, cell in enumerate(made.cells):
        cell.id = odd[index % len(odd)]
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= turned | {"schema_version": 2 if index % 2 else 99}
    place.submit(made)


@FILES.made(states="graded after repair")
def script_name(place: Place) -> None:
    """Submits files whose names are an option, a script, not text, or text from right to left."""
    place.submit(place.solved(), "-rf <img src=x onerror=alert(1)>\n|`*\udcff\udcfe\u202e\u0646\u0648\u0631 (1).ipynb")


@FILES.made(states="graded after repair")
def many_files(place: Place) -> None:
    """Submits a thousand other files, folders and links next to the notebook."""
    place.submit(place.solved())
    for number in range(1000):
        place.submit(b"x", f"{number}.ipynb")
    (place.folder / "up").symlink_to("/")
    (place.folder / ".ipynb_checkpoints").mkdir()


@FILES.made(states="graded after repair")
def active_words(place: Place) -> None:
    """Writes scripts, links, styles, a missing picture and half a character into text cells."""
    made = place.solved()
    next(cell for cell in made.cells if is_solution(cell) and is_grade(cell)).source = ACTIVE_WORDS
    made.cells.append(nbformat.v4.new_markdown_cell(ACTIVE_WORDS))
    place.submit(made)


FILES.coded("active-outputs")


STUDENTS = (  # the last four cannot be names of students: special files are made from them
    ("option", "looks like an option of a command", "-rf"),
    ("template", "is a template and a command", "{{ 7*7 }} ${HOME} %s $(id)"),
    ("formula", "is a formula with a comma", "=1+1, Jr"),
    ("sql", "is a statement in SQL", "'; DROP TABLE student; --"),
    ("emoji", "has text from right to left, and an emoji", "\u202e\u0646\u0648 \U0001f9d1\u200d\U0001f393e\u0301"),
    ("script", "is a script of two lines", "<img\nsrc=x onerror=alert(1)>"),
    ("dots", "looks like a path", "..%2f..%2fx"),
    ("long", "is as long as a file name may be", "x" * 255),
    ("no-text", "is not text", "\udcff\udcfe"),
)
NAMES = Group("Names")
for index, (name, what, student) in enumerate(STUDENTS):
    tries, impossible = f"Submits the answers; the student's name {what}.", index >= len(STUDENTS) - 4
    costs, states = (NO_SCORE, "unreadable") if impossible else (NOTHING, "graded")
    make = lambda place: place.submit(place.solved())
    NAMES.attacks.append(Attack(f"name-{name}", tries, make, costs, states, student))

GROUPS = (POINTS, REPLIES, CANDIDATES, MODULES, LEAKS, RESOURCES, ENDS, FILES, NAMES)
ATTACKS = [attack for group in GROUPS for attack in group.attacks]

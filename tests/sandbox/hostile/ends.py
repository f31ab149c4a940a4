"""Ends of processes, broken messages, and unusual values and errors."""

import re

import nbformat
from making import EVERYTHING, FIFTH, FIRST, IN_TORCH, Attack, Place, in_answers, notebook, own_cell, with_bodies
from nbformat import NotebookNode
from sample_class import changed, rewrite

from autograder.cells import is_solution

NOTE = """
import inspect, logging, sys
notes = []
def note():
    if not notes:  # a hundred trials share the time of a test, and each is a process of its own
        logging.warning(sys._getframe(1).f_code.co_name)
        notes.append((inspect.stack(0)[1].function, inspect.currentframe().f_back.f_lineno))
"""

DEBUGGED = (
    "import traceback\ntraceback.print_stack()\ntry:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame.f_back",
    "import gc, sys, tracemalloc\ntracemalloc.start()\ntracemalloc.stop()\ngc.get_objects(), sys._getframe(), gc.get_referrers(gc)",
    "import cProfile, doctest, unittest\nwith cProfile.Profile():\n    sum(range(9))\ndoctest.testmod()\n"
    "unittest.main(argv=[''], exit=False)\nbreakpoint()",
    "import matplotlib.pyplot as plt\nplt.plot([1], label='x')\nplt.legend()\nplt.show()",
    "import sys, threading\nsys.settrace(lambda *event: None)\nthreading.Thread(target=print).start()\n%timeit -n1 -r1 1",
)

OVERFLOW = """
import sys
sys.setrecursionlimit(10**9)
one, other = [], []
for _ in range(10**6):
    one, other = [one], [other]
one == other
"""


def half_characters(made: NotebookNode, place: Place) -> None:
    """Put half a surrogate pair wherever a student can."""
    rewrite(made, "softmax", r"raise ValueError('half \ud800 and \udfff')")
    made.cells.insert(2, nbformat.v4.new_code_cell("print('half \\ud800', '\\x00')\nraise ValueError('\\ud800')"))
    made.cells.append(nbformat.v4.new_markdown_cell("half \ud800"))


def debugging(made: NotebookNode, place: Place) -> None:
    """Look at frames, stacks and times in own cells and at the beginning of each answer."""
    made.cells[2:2] = [nbformat.v4.new_code_cell(source) for source in (*DEBUGGED, NOTE)]
    for cell in made.cells:
        if is_solution(cell):
            cell.source = re.sub(r"(?m)^( +)(### BEGIN SOLUTION)$", r"\1note()\n\1\2", cell.source)


# Right answers with other types: the name, the old words and the new words.
RIGHT_BUT_ODD = (
    "softmax",
    "    return exponentials / ",
    "    return np.longdouble(1) * exponentials / ",
    "attention",
    "    return weights @ values, weights",
    """    from collections import namedtuple
    return namedtuple("Pair", "output weights")((weights @ values).astype(">f8"), np.asfortranarray(weights))""",
    "self_attention",
    "    return attention(",
    "    return tuple(np.ma.array(a) for a in attention(",
    "self_attention",
    "tokens @ w_value, mask)",
    "tokens @ w_value, mask))",
    "attention_backward",
    "    return grad_queries, grad_keys, grad_values",
    "    return grad_queries.astype(object), np.float32(grad_keys)[..., ::-1][..., ::-1], grad_values + 0j",
)

ENDS = (
    Attack(
        "ends-in-answers",
        "Crashes Python by deep nesting in softmax, kills its process in self_attention, and ends it in attention_backward.",
        with_bodies(
            softmax=OVERFLOW,
            self_attention="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            attention_backward="import os\nos._exit(0)",
        ),
        "softmax self_attention attention_backward",
        "crashed",
        on=FIRST,
    ),
    Attack(
        "kills-everything",
        "Tries to kill every process, including the grader; closes all files; ends while the grader waits for a cell.",
        own_cell(
            """
import os, signal
for process in (-1, 1, os.getppid()):
    tried(lambda: os.kill(process, signal.SIGKILL))
os._exit(1)
""",
            "import os\nos.closerange(3, 256)",
            "import os, threading, time\nthreading.Timer(0.3, os._exit, (1,)).start()\ntime.sleep(5)",
        ),
        states="crashed",
    ),
    Attack(
        "exit-cell",
        "Calls exit(), quit(), sys.exit() and input() in cells.",
        own_cell(
            "exit()", "quit()", "import sys\nsys.exit(1)", "input()", "raise SystemExit", "raise KeyboardInterrupt"
        ),
    ),
    Attack(
        "name-of-no-text",
        "Renames processes many times: to a name that is not text, and to one that imitates the process of another submission.",
        own_cell("""
import ctypes, os, time
prctl = ctypes.CDLL(None).prctl
if os.fork() == 0:
    for number in range(2, 400):  # in the line by which Linux tells of a process's numbers
        prctl(15, b"a\\nNSpid:\\t9 %d\\n" % number, 0, 0, 0)
        time.sleep(0.01)
    os._exit(0)
for _ in range(40):
    prctl(15, b"\\xff\\xfe", 0, 0, 0)
    time.sleep(0.06)
"""),
    ),
    Attack(
        "picture-of-sizes",
        "Shows a picture of 23 MB that states its size 11 million times.",
        own_cell("""
import base64, inside
data = base64.b64encode(b"\\xff\\xd8" + b"\\xff\\xc0" * 11_500_000).decode()
inside.OUTPUTS.kept.append(("display_data", {"data": {"image/jpeg": data}}))
"""),
    ),
    Attack(
        "messages",
        "Reports malformed, deeply nested and huge outputs of its cells, and outputs with half surrogate pairs.",
        own_cell(r"""
import inside, itertools, wire
kinds = ("stream", "error", "display_data", "status")
content = '[["name", "stdout"], ["text", "half \\ud800 and \\u0000 \\u202e end"], ["ename", "\\udfff"], ["evalue", 1e999], ["traceback", {"list": ["\\ud800", %s0]}], ["data", {"dict": [["text/plain", "\\ud800"], ["image/png", "%s"]]}]]' % ("0," * 10**5, "\\n" * 10**6)
pieces = ",".join('{"list": ["%s", {"dict": %s}]}' % (kind, content) for kind in kinds)
deep = '{"list": [' * 100_000 + "]}" * 100_000
odd = itertools.cycle('["outputs", {"list": [%s]}], ["cut", true]' % each for each in (pieces, '"x"', deep, "9" * 10**6, '{"dict": null}'))
honest = inside._reply_to
def reply_to(do, request):
    reply = honest(do, request)
    return reply if do != "cell" else ('{"dict": [["id", "%s"], %s]}' % (request["id"], next(odd))).encode() + b"\0" + bytes(1000)
inside._reply_to = reply_to
"""),
    ),
    Attack(
        "half-characters",
        "Puts half a surrogate pair into an output, an error and the notebook file.",
        notebook(half_characters),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "hostile-error",
        "Raises an error that raises another error when its text or traceback is read.",
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
        "softmax",
        on=FIRST,
    ),
    Attack(
        "odd-functions",
        "Defines a coroutine, a property, a class and a partial instead of functions.",
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
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "debugs",
        "Debugs, tests, measures and draws as students do, also inside right answers. (This is no attack.)",
        notebook(debugging),
        on=(*FIRST, *IN_TORCH, *FIFTH),
    ),
    Attack(
        "right-but-odd",
        "Returns right numbers in unusual types: long double, object, big-endian, masked array, named tuple. (This is no attack.)",
        notebook(lambda made, place: changed(*RIGHT_BUT_ODD)(made)),
        on=FIRST,
    ),
)

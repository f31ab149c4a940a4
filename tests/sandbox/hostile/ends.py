"""Ends of processes, broken messages, and unusual values and errors."""

import re

import nbformat
from nbformat import NotebookNode
from sample_class import answer, change, rewrite

from autograder.cells import is_solution
from hostile.making import (
    CRASHED,
    EVERYTHING,
    FIFTH,
    FIRST,
    IN_TORCH,
    NOTHING,
    Attack,
    Place,
    in_answers,
    own_cell,
    with_bodies,
)

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

BY_TURN = """
import functools, torch
globals()["calls"] = globals().get("calls", 0) + 1
return {} if calls % 2 else {}
"""
LARGE = {
    "attention": BY_TURN.format(
        "torch.nn.ModuleList(torch.nn.Identity() for _ in range(50_000))", "[torch.nn.Linear(1, 1) for _ in range(500)]"
    ),
    "self_attention": BY_TURN.format("np.ones((4000, 4000), dtype=bool)", "np.broadcast_to(1.0, (100_000, 100_000))"),
    "attention_backward": BY_TURN.format("[0] * 10**6", "functools.reduce(lambda x, _: [x], range(5000), 0)"),
}

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
        CRASHED,
        on=FIRST,
    ),
    Attack(
        "kills-everything",
        "Tries to kill every process, including the grader; closes all files; ends while the grader waits for a cell.",
        own_cell(
            """
import os, signal
for process in (-1, 1, os.getppid()):
    try:
        os.kill(process, signal.SIGKILL)
    except OSError as error:
        print(error)
os._exit(1)
""",
            "import os\nos.closerange(3, 256)",
            "import os, threading, time\nthreading.Timer(0.3, os._exit, (1,)).start()\ntime.sleep(5)",
        ),
        NOTHING,
        CRASHED,
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
        NOTHING,
    ),
    Attack(
        "picture-of-sizes",
        "Shows a picture of 23 MB that states its size 11 million times.",
        own_cell("""
import base64, inside
data = base64.b64encode(b"\\xff\\xd8" + b"\\xff\\xc0" * 11_500_000).decode()
inside.OUTPUTS.kept.append(("display_data", {"data": {"image/jpeg": data}}))
"""),
        NOTHING,
    ),
    Attack(
        "messages",
        "Reports malformed, deeply nested and huge outputs of its cells, and outputs with half surrogate pairs.",
        own_cell(r"""
import inside, itertools, wire
text = '["outputs", {"list": [%s]}], ["cut", %s]'
pieces = ['{"list": ["%s", {"dict": %s}]}' % (kind, content) for kind in ("stream", "error", "display_data", "status") for content in (
    '[["name", "stdout"], ["text", "half \\ud800 and \\u0000 \\u202e end"]]', '[["ename", "\\udfff"], ["traceback", {"list": ["\\ud800", 5]}]]',
    '[["data", {"dict": [["text/plain", "\\ud800"], ["image/png", "\\ud800"]]}]]', '[["text", 1e999]]',
    '[["name", {"array": ["|u1", [2]]}], ["text", {"tensor": ["|u1", [2]]}], ["ename", {"array": ["|u1", [2]]}]]',
    '[["data", {"list": []}]]', '[["traceback", {"list": [%s0]}]]' % ("0," * 10**6), '[["text", "%s"]]' % ("\\n" * 10**6),
    '[["evalue", {"dict": [["evalue", 7]]}]]', "[]", "{}", '[[5, 5]]', '[["name", {"tuple": [null]}]]',
)]
pieces.append('{"list": [{"array": ["|u1", [2]]}, {"dict": []}]}')
deep = '{"list": [' * 100_000 + "]}" * 100_000
odd = itertools.cycle([  # those that cannot be read last: nobody reads on
    text % (",".join(pieces), "true"), text % ("", "[]"), text % ('"x"', 7), '["outputs", 3]',
    text % (deep, "false"), text % ("9" * 10**6, "true"), text % ('{"dict": null}', 7), "",
])
honest = inside._reply_to
def reply_to(do, request):
    reply = honest(do, request)
    return reply if do != "cell" else ('{"dict": [["id", "%s"], %s]}' % (request["id"], next(odd))).encode() + b"\0" + bytes(1000)
inside._reply_to = reply_to
"""),
        NOTHING,
    ),
    Attack(
        "half-characters",
        "Puts half a surrogate pair into an output, an error and the notebook file.",
        lambda place: place.submit(_half_characters(place)),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "large-values",
        "Returns 10¹⁰⁰⁰⁰⁰⁰, a module of 50,000 modules, 500 modules in a list, arrays of 16 MB and 80 GB, and a long and a deep list.",
        with_bodies(softmax="return 10 ** 1_000_000", **LARGE),
        EVERYTHING,
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
        lambda place: place.submit(_debugging(place)),
        on=(*FIRST, *IN_TORCH, *FIFTH),
    ),
    Attack(
        "right-but-odd",
        "Returns right numbers in unusual types: long double, object, big-endian, masked array, named tuple. (This is no attack.)",
        lambda place: place.submit(_right_but_odd(place)),
        on=FIRST,
    ),
)


def _half_characters(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(notebook, "softmax", r"raise ValueError('half \ud800 and \udfff')")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("print('half \\ud800', '\\x00')\nraise ValueError('\\ud800')"))
    notebook.cells.append(nbformat.v4.new_markdown_cell("half \ud800"))
    return notebook


def _debugging(place: Place) -> NotebookNode:
    notebook = place.solved()
    notebook.cells[2:2] = [nbformat.v4.new_code_cell(source) for source in (*DEBUGGED, NOTE)]
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = re.sub(r"(?m)^( +)(### BEGIN SOLUTION)$", r"\1note()\n\1\2", cell.source)
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

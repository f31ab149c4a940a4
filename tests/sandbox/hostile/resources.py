"""Endless use of time, memory, processes, disk and output."""

import nbformat
from making import FIRST, Attack, Place, notebook, own_cell
from nbformat import NotebookNode
from sample_class import change, rewrite


def many_cells(made: NotebookNode, place: Place) -> None:
    """Put ten thousand cells before the answers."""
    made.cells[2:2] = [nbformat.v4.new_code_cell(f"x = {number}") for number in range(10_000)]


def helped(made: NotebookNode, place: Place) -> None:
    """Let two answers call a function of an own cell; the first call never returns."""
    made.cells.insert(2, nbformat.v4.new_code_cell("def exponentials(x):\n    return np.exp(x)"))
    rewrite(made, "softmax", "exponentials(scores)\nwhile True:\n    pass")
    change(made, "attention_backward", "    _, weights", "    exponentials(queries)\n    _, weights")


RESOURCES = (
    Attack(
        "endless-loop",
        "Never returns from softmax; softmax and another answer use the same helper in another cell.",
        notebook(helped),
        "softmax",
        "timed out",
        on=FIRST,
    ),
    Attack(
        "endless-loop-deaf",
        "Runs a cell that ignores every signal, one that computes for years outside Python, and one that stops its process.",
        own_cell(
            """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
""",
            "10 ** (10 ** 10) % 7",
            "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        ),
        states="timed out",
    ),
    Attack(
        "slower-kernel",
        "Sets a hook that delays every later cell by an hour.",
        own_cell("import time\nget_ipython().events.register('pre_execute', lambda: time.sleep(3600))"),
        states="timed out",
    ),
    Attack(
        "sleeping-cells",
        "Runs fifty cells that sleep.",
        own_cell(*["import time\ntime.sleep(6)"] * 50),
        states="timed out",
    ),
    Attack(
        "memory",
        "Fills the memory with shared mappings, which no limit of a process counts, and with ordinary objects.",
        own_cell(
            """
import mmap
held = []
while True:
    held.append(mmap.mmap(-1, 2**28))
    held[-1].write(b"x" * 2**28)
""",
            "x = []\nwhile True:\n    x.append(bytearray(2**26))",
        ),
        states="graded or crashed",
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
        states="crashed or timed out",
    ),
    Attack(
        "processes",
        "Forks until Linux refuses, each copy with a part of the memory; starts threads until Linux refuses; ends none of them.",
        own_cell(
            """
import os, time
part = bytearray(b"x") * 2**25
def fork():
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(3600)
tried(lambda: [fork() for _ in range(500)])
""",
            """
import threading, time
tried(lambda: [threading.Thread(target=time.sleep, args=(3600,), daemon=True).start() for _ in range(500)])
""",
        ),
        states="crashed",
    ),
    Attack(
        "background-process",
        "Leaves processes in new sessions that ignore signals, and one that locks the gradebook.",
        own_cell("""
import subprocess, sys
deaf = "import os, signal, time\\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\\nos.setsid() if os.fork() == 0 else None\\ntime.sleep(600)"
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, close_fds=True)
hold = "import sqlite3, time\\nsqlite3.connect(%r).execute('BEGIN EXCLUSIVE')\\ntime.sleep(600)" % (COURSE + "/gradebook.db")
subprocess.Popen([sys.executable, "-c", hold], start_new_session=True)
"""),
    ),
    Attack(
        "restless-threads",
        "Leaves threads that never stop printing, displaying, computing, collecting garbage and drawing random numbers.",
        own_cell("""
import gc, threading, time, torch
from IPython.display import display
def flood():
    while True:
        print("x" * 10_000)
        display("y" * 10_000)
        time.sleep(0.002)
def work():
    while True:
        torch.rand(50, 50) @ torch.rand(50, 50)
        gc.collect()
for each in (flood, work, work, work):
    threading.Thread(target=each, daemon=True).start()
"""),
    ),
    Attack(
        "fills-the-disk",
        "Fills every folder and open file to which it can write, and nests two thousand folders.",
        own_cell(
            r"""
import os
def nest(top):
    os.chdir(top)
    for name in ("-rf", "\n", "\u202e", "x" * 255, *["d"] * 2000):
        os.mkdir(name)
        os.chdir(name if name == "d" else ".")
for top in ("/tmp", "/dev/shm"):
    tried(lambda: nest(top))
os.chdir("/tmp/home")
""",
            """
import os
for top in ("/tmp", "/dev/shm", "/dev", "/", "/var/tmp", COURSE):
    tried(lambda: [open(f"{top}/fill{number}", "wb").write(bytes(2**25)) for number in range(40)])
for number in os.listdir("/proc/self/fd"):
    tried(lambda: os.posix_fallocate(int(number), 0, 2**30))
""",
            later="import glob, os\nfor path in glob.glob('/tmp/fill*') + glob.glob('/dev/shm/fill*'):\n    os.remove(path)",
        ),
    ),
    Attack(
        "long-outputs",
        "Prints one line of 60 MB and two million lines, shows 40 MB of HTML and invalid pictures, warns 5,000 times.",
        own_cell(
            "print('x' * 60_000_000)",
            "print('line\\n' * 2_000_000)\nfor i in range(2000):\n    print('line', i, flush=True)",
            """
from IPython.display import HTML, Image, display
display(HTML("<b>" * 13_000_000))
display({"image/png": '"><script>alert(1)</script>', "text/plain": "x"}, raw=True)
display({"image/jpeg": "not base64 !", "image/svg+xml": "<svg onload=alert(1)>"}, raw=True)
for _ in range(2000):
    display(HTML("<i>x</i>"))
""",
            """
import sys, warnings
for number in range(5000):
    warnings.warn(f"warning {number}")
sys.stderr.write(("x" * 50 + "\\n") * 500_000)
""",
        ),
    ),
    Attack(
        "many-cells", "Adds ten thousand cells before the answers.", notebook(many_cells), states="graded after repair"
    ),
    Attack(
        "every-cell-prints",
        "Prints as much as the limit of a cell allows, in a thousand cells.",
        own_cell(*["print('x' * 190_000)"] * 1000),
    ),
)

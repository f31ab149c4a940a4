"""Ends of processes, broken messages, and values and errors that no program likes."""

import nbformat
from nbformat import NotebookNode
from sample_class import answer, change, rewrite

from hostile.making import (
    CRASHED,
    EVERYTHING,
    FIRST,
    NOTHING,
    TIMED_OUT,
    Attack,
    Place,
    before_answer,
    in_answers,
    own_cell,
    with_cells,
)

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

ENDS = (
    Attack(
        "exits-function",
        "Ends its process in the last exercise.",
        before_answer("attention_backward", "import os\nos._exit(0)"),
        "attention_backward",
        CRASHED,
        on=FIRST,
    ),
    Attack(
        "kills-itself",
        "Kills its process in self_attention.",
        before_answer("self_attention", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
        "self_attention",
        CRASHED,
        on=FIRST,
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
        NOTHING,
        CRASHED,
    ),
    Attack(
        "stops-itself",
        "Stops its process, so that it lives and does nothing.",
        own_cell("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"),
        NOTHING,
        TIMED_OUT,
    ),
    Attack(
        "segfault",
        "Reads address 0 in softmax.",
        before_answer("softmax", "import ctypes\nctypes.string_at(0)"),
        "softmax",
        CRASHED,
        on=FIRST,
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
        "softmax",
        CRASHED,
        on=FIRST,
    ),
    Attack(
        "exit-cell",
        "Has cells with exit(), quit(), sys.exit() and input().",
        lambda place: place.hand_in(
            with_cells(
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
        NOTHING,
        CRASHED,
    ),
    Attack(
        "closes-files",
        "Closes every file of its process.",
        own_cell("import os\nos.closerange(3, 256)"),
        NOTHING,
        CRASHED,
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
        NOTHING,
        TIMED_OUT,
    ),
    Attack(
        "closes-stdin",
        "Closes the socket of the kernel by which a cell could ask for input.",
        before_answer("self_attention", "get_ipython().kernel.stdin_socket.close(0)"),
        on=FIRST,
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
        NOTHING,
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
        NOTHING,
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
        NOTHING,
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
        "softmax",
        on=FIRST,
    ),
    Attack(
        "digits",
        "Returns a number of a million digits.",
        in_answers("return 10 ** 1_000_000", "softmax"),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "deep-value",
        "Returns a list that is in itself, five thousand deep.",
        in_answers("x = []\nfor _ in range(5000):\n    x = [x]\nreturn x", "softmax"),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "large-value",
        "Returns arrays of 16 MB, and lists of a million entries.",
        in_answers(
            "globals()['calls'] = globals().get('calls', 0) + 1\nreturn np.ones((4000, 4000), dtype=bool) if calls % 2 else [0] * 10**6",
            "softmax",
        ),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "virtual-value",
        "Returns arrays of 80 GB that take 8 bytes.",
        in_answers("return np.broadcast_to(1.0, (100_000, 100_000))", "softmax"),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "modules",
        "Returns a list of five hundred modules.",
        in_answers("import torch\nreturn [torch.nn.Linear(1, 1) for _ in range(500)]", "softmax"),
        "softmax",
        on=FIRST,
    ),
    Attack(
        "giant-module",
        "Returns a module of fifty thousand parts.",
        in_answers("import torch\nreturn torch.nn.ModuleList(torch.nn.Identity() for _ in range(50_000))", "softmax"),
        "softmax",
        on=FIRST,
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
        "softmax",
        on=FIRST,
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
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "warnings",
        "Warns on stderr in right answers, and shows a value below.",
        lambda place: place.hand_in(_warning(place)),
        on=FIRST,
    ),
    Attack(
        "right-but-odd",
        "Returns right numbers as long doubles, objects, big-endian, masked and named.",
        lambda place: place.hand_in(_right_but_odd(place)),
        on=FIRST,
    ),
)


def _half_characters(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(notebook, "softmax", r"raise ValueError('half \ud800 and \udfff')")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("print('half \\ud800', '\\x00')\nraise ValueError('\\ud800')"))
    notebook.cells.append(nbformat.v4.new_markdown_cell("half \ud800"))
    return notebook


def _warning(place: Place) -> NotebookNode:
    notebook = place.solved()
    for name in ("softmax", "attention", "self_attention", "attention_backward"):
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

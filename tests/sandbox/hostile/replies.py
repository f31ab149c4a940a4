"""Forged replies to the grader, unusual values, and misuse of reference implementations."""

from nbformat import NotebookNode
from sample_class import change, rewrite

from hostile.making import (
    EVERYTHING,
    FIRST,
    NOTHING,
    Attack,
    Place,
    for_nothing,
    in_answers,
    own_cell,
)

SERVE = """
import inside, wire
honest = inside._reply_to
def made_of(text, request):
    return text.replace("ID", request["id"]).encode() + b"\\0" + b"\\7" * 16
def answer_with(value_of):
    inside._reply_to = lambda do, request: honest(do, request) if do == "cell" else made_of(value_of(request), request)
"""

ODD_REPLIES = r"""
one = '{"dict": [["id", "ID"], ["value", %s]]}'
huge, deep = "9" * 10**6, '{"list": [' * 5000 + "1" + "]}" * 5000
values = [
    huge, "1e999", "NaN", "-Infinity", deep, "[]", "{}", '{"unknown": 1}', '{"list": 5}', '{"tuple": null}',
    '{"dict": [[[], 1]]}', '{"dict": [[{"list": []}, 1]]}', '{"dict": 3}', '"\\ud800"', '"\\u0000"',
    '{"array": ["<f8", [1000000, 1000000, 1000000]]}', '{"array": ["<f8", [-1, -8]]}',
    '{"array": ["<f8", [2]]}', '{"array": ["O", [1]]}', '{"array": ["|O8", [1]]}',
    '{"array": ["<f8", [true]]}', '{"array": ["<f8", [1.0]]}', '{"array": null}',
    '{"array": ["<f8", [0, 33554432, 33554432, 33554432]]}', '{"array": ["<f8", [0]]}', '{"tensor": null}',
    '{"array": [["<f8"], [1]]}', '{"array": ["<f8", [1], 7]}', '{"array": ["<f8", 1]}',
    '{"tensor": ["|b1", [8]]}', '{"tensor": ["<f8", [1], 4]}', '{"foreign": [[[[]]]]}',
    '{"array": ["<f8", %s]}' % ([1] * 40), '{"handle": [0, "", null]}',
]
long = "a" * 3_000_000
texts = ['{"dict": [["id", "ID"], ["error", {"list": ["NameError"]}], ["text", "%s"], ["line", "%s"]]}' % (long, long)]
texts += [one % value for value in ("0.5", *values)] + [
    "", "null", "7", "[]", '"ID"', "{", "\x00", '{"dict": [["id", "ID"]]}', '{"list": ["id", "ID"]}',
    '{"dict": [["id", {"array": ["<f8", [2]]}]]}', '{"dict": [["id", "ID"], ["error", {"list": [{"array": ["<f8", [2]]}]}]]}',
    '{"dict": [["id", "ID"], ["error", 5]]}', '{"dict": [["id", "ID"], ["error", {"list": [5, "GeneratorExit"]}]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["AssertionError"]}], ["text", {"list": [1]}], ["line", 7]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["UnicodeDecodeError"]}], ["text", "\\ud800\\u202e<b>"]]}',
    '{"dict": [["id", "ID"], ["error", {"list": ["KernelLost", "SystemExit"]}], ["text", "x"]]}',
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", 5], ["graph", {"list": [true]}]]}',
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", {"array": ["<f8", [2]]}]]}',
    '{"dict": [["id", "ID"], ["value", 1], ["arguments", {"list": [{"array": ["<F8", [1]]}]}]]}',
]
turn = iter(texts * 99)
def next_reply(request):
    for text in turn:
        try:
            if wire.loads(made_of(text, request))["id"] == request["id"]:
                return text
        except (ValueError, TypeError, LookupError):
            pass
        inside.CHANNEL[0].sendall(wire.frame(made_of(text, request)))  # nobody would wait for more behind it
answer_with(next_reply)
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

REPLIES = (
    Attack(
        "agent-odd-replies",
        "Replaces the agent by one that sends long errors, impossible shapes, wrong numbers of bytes and broken JSON.",
        for_nothing(SERVE + ODD_REPLIES),
        EVERYTHING,
    ),
    Attack(
        "replies-for-later",
        "Answers future requests from a thread, with guessed ids.",
        for_nothing("""
import threading, time, inside, wire
def forge():
    for step in range(1, 400):
        reply = '{"dict": [["id", "%032x"], ["value", 0.5]]}' % step
        inside.CHANNEL[0].sendall(wire.frame(reply.encode()))
        time.sleep(0.005)
threading.Thread(target=forge, daemon=True).start()
"""),
        EVERYTHING,
    ),
    Attack(
        "channel-broken",
        "Closes the socket to the grader at once and during a cell, shuts it down, replaces it, and announces 2⁶² bytes.",
        own_cell(
            "import inside\ninside.CHANNEL[0].close()",
            """
import inside, threading, time
threading.Timer(0.5, lambda: inside.CHANNEL[0].close()).start()
time.sleep(1.5)
""",
            "import inside, socket\ninside.CHANNEL[0].shutdown(socket.SHUT_RDWR)",
            "import inside, socket\nkept = inside.CHANNEL[0], *socket.socketpair()\ninside.CHANNEL[0] = kept[1]",
            "import inside\ninside.CHANNEL[0].sendall((2**62).to_bytes(8, 'big'))",
        ),
        NOTHING,
    ),
    Attack(
        "channel-thief",
        "Reads the grader's requests from the socket in a second process, before the agent does.",
        own_cell("""
import inside, os
if os.fork() == 0:
    while inside.CHANNEL[0].recv(100):
        pass
    os._exit(0)
"""),
        NOTHING,
    ),
    Attack(
        "channel-flood",
        "Writes to the socket: messages of 32 MB, nested lists for a second, and endless empty messages.",
        own_cell(
            "import inside, wire\nfor _ in range(100):\n    inside.CHANNEL[0].sendall(wire.frame(b'x' * 2**25))",
            """
import inside, time, wire
nest = b"[" * 900 + b"]" * 900 + b","
message = wire.frame(b"[" + nest * (wire.MAX_BYTES // 1801 - 1) + b"1]")
end = time.time() + 1
while time.time() < end:
    inside.CHANNEL[0].sendall(message)
""",
            """
import inside, threading
def flood():
    while True:
        inside.CHANNEL[0].sendall(bytes(8000))
threading.Thread(target=flood, daemon=True).start()
""",
        ),
        NOTHING,
    ),
    Attack(
        "odd-values",
        "Returns values that a test may not expect, from 10⁴⁰⁰⁰ to endless generators.",
        in_answers(ODD_VALUES),
        EVERYTHING,
        on=FIRST,
    ),
    Attack(
        "steals-attention",
        "Has no attention; keeps the grader's correct one in a global, in builtins and in a thread, and its results on disk.",
        lambda place: place.submit(_stealing(place)),
        "attention",
        ("graded", "timed out"),  # printing the error of an endless recursion takes seconds
        on=FIRST,
    ),
)


def _stealing(place: Place) -> NotebookNode:
    notebook = place.solved()
    rewrite(
        notebook,
        "attention",
        """
import builtins, os
if hasattr(builtins, "stolen"):
    return builtins.stolen(queries, keys, values, mask)
if os.path.exists("/tmp/stolen.npz"):
    return tuple(np.load("/tmp/stolen.npz").values())
return stolen[-1](queries, keys, values, mask)
""",
    )
    change(
        notebook,
        "self_attention",
        "    return attention",
        """    import builtins, threading
    builtins.stolen = attention
    globals().setdefault("stolen", []).append(attention)
    np.savez("/tmp/stolen.npz", *attention(tokens, tokens, tokens, mask))
    threading.Thread(target=lambda: globals().update(attention=stolen[-1]), daemon=True).start()
    return attention""",
    )
    return notebook

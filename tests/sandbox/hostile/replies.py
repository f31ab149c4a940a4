"""Forged replies to the grader, unusual values, and misuse of reference implementations."""

from making import EVERYTHING, FIFTH, FIRST, Attack, answered_by, for_nothing, in_answers, own_cell

# The agent's replies to requests of tests: as it would make them, but with other texts.
ODD_REPLIES = r"""
import inside, wire
huge, deep, long = "9" * 10**6, '{"list": [' * 5000 + "1" + "]}" * 5000, "a" * 3_000_000
values = ["0.5", huge, deep, "1e999", '{"unknown": 1}', '{"dict": [[[], 1]]}', '"\\ud800"', '{"tensor": ["|b1", [8]]}',
    '{"array": ["<f8", [1000000, 1000000, 1000000]]}', '{"array": ["<f8", [0, 33554432, 33554432, 33554432]]}']
errors = ['5', '{"list": ["NameError"]}], ["text", "%s"], ["line", "%s"' % (long, long), '{"list": ["KernelLost", {"list": []}]}']
texts = ['{"dict": [["id", "ID"], ["error", %s]]}' % error for error in errors]
texts += ['{"dict": [["id", "ID"], ["value", %s], ["arguments", 5]]}' % value for value in values]
texts += ["", "[]", "{", "\x00", '{"dict": [["id", "ID"]]}', '{"dict": [["id", {"array": ["<f8", [2]]}]]}']
honest, turn = inside._reply_to, iter(texts * 99)
def reply_to(do, request):
    while do != "cell":
        message = next(turn).replace("ID", request["id"]).encode() + b"\0" + b"\7" * 16
        try:
            if wire.loads(message)["id"] == request["id"]:
                return message
        except (ValueError, TypeError, LookupError):
            pass
        inside.CHANNEL[0].sendall(wire.frame(message))  # nobody would wait for more behind it
    return honest(do, request)
inside._reply_to = reply_to
"""

ODD_VALUES = """
import datetime, fractions, itertools
import torch
circle = []
circle.append(circle)
nested = []
for _ in range(5000):
    nested = [nested]
odd = [
    None, ..., NotImplemented, "weights", "", b"bytes", {}, {"weights": 1}, {1, 2}, [], (), [[1.0]], range(3), 10**4000, 10**1_000_000, [0] * 10**6,
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
with open("/tmp/turns", "a") as turns:  # tests do not share their memory
    turns.write("x")
    return odd[turns.tell() % len(odd)]
"""

REPLIES = (
    Attack(
        "agent-odd-replies",
        "Replaces the agent by one that sends long errors, impossible shapes, wrong numbers of bytes and broken JSON.",
        for_nothing(ODD_REPLIES),
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
        answered_by(
            attention="""
import builtins, os
def attention(queries, keys, values, mask=None):
    if os.path.exists("/tmp/stolen.npz"):
        return tuple(np.load("/tmp/stolen.npz").values())
    return builtins.stolen(queries, keys, values, mask)
""",
            self_attention="""
RIGHT
right = self_attention
def self_attention(tokens, *others):
    import builtins, threading
    builtins.stolen = kept = attention
    np.savez("/tmp/stolen.npz", *attention(tokens, tokens, tokens))
    threading.Thread(target=lambda: globals().update(attention=kept), daemon=True).start()
    return right(tokens, *others)
""",
        ),
        "attention",
        on=FIRST,
    ),
)

CANDIDATES = (
    Attack(
        "test-of-the-name",
        "Judges an attention function by its name, its closure, its source and the number of the call, instead of by its results.",
        in_answers(
            """
import inspect, sys
frame = sys._getframe()
while frame is not None and "request" not in frame.f_locals:
    frame = frame.f_back
assert frame is None or frame.f_locals["request"]["draw"] > 14
words = candidate.__name__ + inspect.getsource(candidate) + str(inspect.getclosurevars(candidate))
assert not any(word in words for word in ("M6", "scores", "softmax", "mistake"))
""",
            "test_attention",
        ),
        "test_attention",
        on=FIFTH,
    ),
    Attack(
        "test-asks-oddly",
        "Calls attention functions with wrong and huge values, with gradients, from a thread, and again in later calls.",
        answered_by(
            test_attention="""
RIGHT
right, kept = test_attention, []
def test_attention(candidate):
    import threading
    kept.append(candidate)
    one = torch.ones(1, 1, 1, 1)
    for odd in ((), (None,) * 4, (one, one, "v"), (one.expand(999, 99, 9, 9),) * 3, (lambda: 1,) * 3, ({},) * 3, (np.ones(3),) * 3):
        try:
            candidate(*odd)
        except Exception:
            pass
    try:
        candidate(one.clone().requires_grad_(), one, one)[0].sum().backward()
    except Exception:
        pass
    asking = threading.Thread(target=lambda: candidate(one, one, one))
    asking.start()
    asking.join()
    kept[0](one, one, one)
    right(candidate)
"""
        ),
        on=FIFTH,
    ),
)

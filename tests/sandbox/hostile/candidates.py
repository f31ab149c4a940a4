"""Misuse of the functions that a test gets from the grader: candidates whose source must stay in the grader."""

from hostile.making import FIFTH, GRADED, NOTHING, Attack, before_answer, in_answers

TEST = "test_attention"

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
            TEST,
        ),
        TEST,
        on=FIFTH,
    ),
    Attack(
        "test-asks-oddly",
        "Calls attention functions with wrong and huge values, with gradients, from a thread, and again in later calls.",
        before_answer(
            TEST,
            """
import threading
globals().setdefault("kept", []).append(candidate)
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
""",
        ),
        NOTHING,
        GRADED,
        on=FIFTH,
    ),
)

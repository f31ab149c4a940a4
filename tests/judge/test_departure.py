"""Does a student whose mistake has no name read at which line the answer departs from the known steps?"""

import contextlib
import io
import linecache
import re
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attention_tests.departure import departure
from attention_tests.recorder import MAX_ROWS, Recorder
from conftest import setup_of

from autograder.grade.session import Cell, Session
from autograder.judge.exercise import exercises_of, seeded
from autograder.judge.line_measure import Mutation, lines_of
from autograder.judge.mistake import changed_text
from autograder.sandbox.host.answer import Answer
from autograder.sandbox.host.limits import Limits

WOVEN = ("attention", "multihead", "encoder", "vit")
ATTENTION = '''def attention(queries, keys, values, mask=None):
    """Mix values."""
    if mask is not None and not mask.any(axis=-1).all():
        raise ValueError("the mask hides all keys from a query")
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("widths differ")
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return w @ values, w
'''


def written(text: str, name: str = "attention", **names):
    """Define a function as a cell of a notebook does."""
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType("__main__")
    vars(module).update({"np": np} | names)
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)[name]


def said_of(old: str, new: str) -> tuple[int | None, str]:
    """Return the line in the message about an answer with changed words, and the message."""
    assert ATTENTION.count(old) == 1
    with seeded(0):
        errors = list(exercises_of("attention")["attention"].failures(written(ATTENTION.replace(old, new)), 0).values())
    assert errors[0].mistake is None
    return getattr(errors[0].departure, "line", None), str(errors[0])


CHANGED = [
    (
        "/ np.sqrt(queries.shape[-1])",
        "/ np.sqrt(queries.shape[-1]) * 4",
        7,
        "It equals the scaled scores times 4.",
    ),
    ("w = exponentials /", "w = 0.1 + exponentials /", 11, "its rows to 1."),
    ("return w @ values, w", "return w @ values + w[..., :1], w", 12, "Line 12: `w @ values` is the output."),
    ("return w @ values, w", "return w @ values @ values, w", 12, "has shape"),
    ("return w @ values, w", "return w @ values, (w + exponentials)[..., :2]", 12, "`(w + exponentials)[..., :2]`"),
    ("return w @ values, w", "return w @ values, w[..., :2]", 12, "`w[..., :2]` has shape (5, 2)."),
    ("return w @ values, w", "return w @ values, np", 12, "has a wrong type."),
    ("return w @ values, w", "w = np.array(np)\n    return w", 13, "`w` has a wrong type. Line 12 sets it."),
    (
        "w = exponentials /",
        "def mine():\n        return exponentials\n    w = 0.1 + mine() /",
        13,
        "It was computed from what line 12 returns.",
    ),
    (
        "return w @ values, w",
        "own = np.eye(len(w), len(keys))\n    w = w + own\n    return w @ values, w",
        13,
        "It was computed from `own` of line 12.",
    ),
    ("return w @ values, w", "return 1 .real.flat", 12, "Line 12 of attention raised the error."),
    ("w = exponentials /", "w = exponentials.astype(np.float16) /", 11, "half precision"),
    ('raise ValueError("widths differ")', 'queries["widths"]', 6, "The check in line 3 let these arguments pass."),
    ("return w @ values, w", "return w @ values, exponentials", 10, "but line 12 returns it as weights."),
    (
        "    return w @ values, w",
        "    if mask is None:\n        return w @ values, w",
        13,
        "Its `return` in line 13 did not run.",
    ),
    ("    return w @ values, w", "    output = w @ values", 12, "No line of it returns a value."),
    ("return w @ values, w", "output = np.zeros((len(w), 3))\n    return output, w", None, "Does a line fill it?"),
    ("scores = queries", "lost = queries", 10, "no line sets `scores`"),
    ("scores = queries", "half = None\n    scores = half * queries", 8, "`half` was set in line 7"),
    ("queries.shape[-1] != keys", "queries.shape[-2] != keys", 6, "because the condition in line 5 was true"),
    ("np.swapaxes(keys, -1, -2)", "keys[:2].T", 7, "no step of a right answer has this shape"),
    (
        "return w @ values, w",
        "output = np.zeros_like(w @ values)\n    for i in range(len(w)):\n        place = i * 0\n"
        "        output[place] = w[i] @ values\n    return output, w",
        15,
        "Is its place right? Line 14 sets `place`.",
    ),
    (
        "exponentials = np.exp(",
        "exponentials = np.cos(",
        10,
        "`exponentials` is the first value that is not a known step",
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), CHANGED)
def test_line_that_departs_is_said(old: str, new: str, line: int, said: str) -> None:
    """Is the line right, and is the statement about its value true?"""
    found, text = said_of(old, new)
    assert found == line, text
    assert said in text


OF_MODULES = [
    (
        "multihead",
        "MultiHeadAttention",
        "self.dropout(weights)",
        "self.dropout(weights.detach())",
        "no gradient flows back through",
    ),
    ("multihead", "MultiHeadAttention", "        self.out = nn.Linear(width, width)\n", "", "no line sets `self.out`."),
    ("multihead", "MultiHeadAttention", "if return_weights else output", "", "has a wrong type."),
    ("multihead", "MultiHeadAttention", "super().__init__()", "pass", "Call `super().__init__()` before this line."),
    (
        "multihead",
        "MultiHeadAttention",
        "(output, weights) if return_weights else output",
        "output",
        "Do you return all results?",
    ),
    (
        "encoder",
        "EncoderBlock",
        "return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))",
        "return x",
        "you return `x`, which is the stream after attention.",
    ),
    (
        "encoder",
        "LayerNorm",
        "x - x.mean(dim=-1, keepdim=True)",
        "x.mean(dim=-1, keepdim=True) - x",
        "`centred` is the first value that is not a known step of a right answer. It equals the centred tokens times -1.",
    ),
    (
        "encoder",
        "rope",
        "first * sin + second * cos",
        "sin + second * cos",
        "`sin + second * cos` is the first value that is not a known step",
    ),
    (
        "encoder",
        "EncoderBlock",
        "MultiHeadAttention(width, num_heads, dropout)",
        "width",
        "`self.attention` was set in line",
    ),
]


@pytest.mark.parametrize(("stem", "name", "old", "new", "said"), OF_MODULES)
def test_line_of_a_module_is_said(stem: str, name: str, old: str, new: str, said: str) -> None:
    """Is the line, or the attribute, right for a detached value, a missing part, a wrong type and a wrong part?"""
    each = exercises_of(stem)[name]
    text = changed_text(Path(each.answers.__file__), name, [(old, new)])
    wrong = Mutation("answer", (), new, text, getattr(each.answers, name)).function()
    with seeded(0):
        messages = [str(error) for error in each.failures(wrong, 0).values()]
    assert any(said in message for message in messages), messages
    lines = re.findall(r"Line (\d+): no gradient|set in line (\d+)", "\n".join(messages))
    for found in lines:
        assert (new or old) in text.splitlines()[int("".join(found)) - 1]


def test_line_is_said_in_a_notebook() -> None:
    """Does the package find the line in a notebook, and leave nothing there?"""
    namespace = setup_of("1_attention")[0] | {}
    with contextlib.redirect_stdout(io.StringIO()):
        wrong = written(ATTENTION.replace("w = exponentials", "w = 0.1 + exponentials"), **namespace)
        before = set(wrong.__globals__), wrong.__code__
        with pytest.raises(AssertionError, match="Line 11: `w` is the first value that is not a known step"):
            namespace["run_tests"]("attention", wrong)
    assert (set(wrong.__globals__), wrong.__code__) == before


WRONG = ATTENTION.replace("w = exponentials", "w = 0.1 + exponentials")
ENDS = WRONG.replace(
    "    scores =", "    if '_seen_by_test' in globals():\n        __import__('os')._exit(1)\n    scores =", 1
)
LIES = WRONG.replace("    scores =", "    globals().update(_seen_by_test=lambda k, v: v, np=np)\n    scores =", 1)


@pytest.mark.parametrize(
    ("cell", "line"), [(WRONG, "Line 11: `w` is the first value that is not a known step"), (ENDS, ""), (LIES, "")]
)
def test_line_is_said_in_the_sandbox(cell: str, line: str) -> None:
    """Does a hidden test give the line of a cell, and are all points the same, whatever the cell does while recorded?"""
    exercise, session = exercises_of("attention")["attention"], Session(Limits(), sandboxed=True)
    try:
        session.run(Cell("import numpy as np", answers=True))
        session.run(Cell(cell, answers=True))
        with seeded(0):
            session.begin_test()
            errors = exercise.failures(Answer("attention", session.call), 0)
        assert set(errors) == {"weights", "output", "axes", "mask"}
        assert line in str(errors["weights"])
        assert "15 of 15 numbers are wrong" in str(errors["output"])
        assert (session.lost, session.losses) == ([], 0)
    finally:
        session.close()


LAYER = """class MultiHeadAttention(nn.Module):
    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None, return_weights=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = attend(q, k, v, mask)
        mixed = self.dropout(weights) @ v
        output = self.out(merge_heads(mixed).cos())
        return (output, weights) if return_weights else output
"""


def test_line_of_a_module_is_said_in_the_sandbox() -> None:
    """Does a hidden test give the line of a class whose modules run in the sandbox?"""
    session = Session(Limits(), sandboxed=True)
    try:
        session.run(Cell("import torch\nfrom torch import nn", answers=True))
        session.run(Cell(LAYER, answers=True))
        with seeded(0):
            session.begin_test()
            errors = exercises_of("multihead")["MultiHeadAttention"].failures(
                Answer("MultiHeadAttention", session.call), 0
            )
        assert "Line 13: `merge_heads(mixed)` are the merged heads." in str(errors["values"])
        assert "Line 13: `merge_heads(mixed).cos()` is the first value that is not a known step" in str(
            errors["values"]
        )
    finally:
        session.close()


# the parts of a record other than its rows
OTHERS = {"returned": 0, "open": [], "items": [], "at": [1, "f", 0], "attributes": [(1, "self.x", 1)]}
OTHERS |= {"detached": [], "checks": [("f" * 10**6, 10**6, 1)], "returns": [("f", 1)]}
BUT_ROWS = [[1, "f", "x", "value", [], np.zeros((3, 3)), 0]]
OUTCOMES = (
    {"arrays": {"output": np.zeros((3, 3))}, "changed": False},
    {"arrays": {"output": np.ones((3, 3))}},
)
HOSTILE = [
    None,
    3,
    {},
    OTHERS | {"rows": 3},
    OTHERS | {"rows": [[1]]},
    OTHERS | {"rows": [[1, "f", "x", "value", [5], None, 0]]},
    OTHERS | {"rows": [["1", "f", "x", "value", [], None, 0]]},
    OTHERS | {"rows": [[1, "f", "x", "value", [], np.zeros(3), 0]], "returned": 7},
    OTHERS | {"rows": [[1, "f", "x" * 10**6, "value", [], np.full((3, 3), np.nan), 0]]},
    OTHERS | {"rows": [[1, "f", "x", "value", [], np.array(["a"]), 0]] * 10**5},
    OTHERS | {"rows": BUT_ROWS, "checks": [5]},
    OTHERS | {"rows": BUT_ROWS, "checks": [("f", 10**16, 1)]},
    OTHERS | {"rows": BUT_ROWS, "at": [-(10**16), "f", 0]},
    OTHERS | {"rows": BUT_ROWS, "open": [9, "x"]},
    OTHERS | {"rows": BUT_ROWS, "detached": [9, "x"]},
    OTHERS | {"rows": BUT_ROWS, "attributes": [(1, "self." + "x" * 10**6, 1), (1, "`<b>`", 1), ("1", 1, "1")]},
]


@pytest.mark.parametrize("found", HOSTILE)
def test_record_that_is_none_says_little(found: object) -> None:
    """If the sandbox forges a record, is it read without an error, and is the message short?"""
    said = departure(found, (np.ones((3, 3)),), *OUTCOMES, {"is the output": np.ones((3, 3))})
    assert said is None or len(said.text) < 500


def test_forged_record_that_could_be_read_is_read() -> None:
    """Do the other parts of the forged records not hide what their rows would do?"""
    rows = [[1, "f", "x" * 10**6, "value", [], np.full((3, 3), np.nan), 0]]
    said = departure(OTHERS | {"rows": rows}, (np.ones((3, 3)),), *OUTCOMES, {"is the output": np.ones((3, 3))})
    assert said is not None


def test_name_of_a_function_in_a_record_cannot_forge_a_message() -> None:
    """Is a function's name with line breaks, ESC or reversed text not shown?"""
    for name in ("f\nPassed.", "f\x1b[2J", "f\u202e"):
        rows = [[1, name, "x", "value", [], np.full((3, 3), np.nan), 0]]
        record = OTHERS | {"rows": rows, "at": [3, name, 0]}
        for wrong in (OUTCOMES[0], {"error": "TypeError", "text": "x", "unwritten": False}):
            said = departure(record, (np.ones((3, 3)),), wrong, OUTCOMES[1], {"is the output": np.ones((3, 3))})
            assert said is None or name not in said.text


@pytest.mark.parametrize("value", [None, np.arange(9.0).reshape(3, 3) ** 2.5 + 0.1])
@pytest.mark.parametrize("error", ["", "TypeError"])
def test_forged_record_takes_little_time(value: np.ndarray | None, error: str) -> None:
    """If a forged record says that each value was made of all values before it, is it read in little time?"""
    rows = [
        [1 + i % 2, "f", f"x{i}", "part" if i % 3 else "value", [*range(i)], None if value is None else value + i, 0]
        for i in range(200)
    ]
    wrong = {"error": error, "text": "x", "unwritten": False} if error else OUTCOMES[0]
    begun = time.process_time()
    record = OTHERS | {"rows": rows, "returned": 199, "open": [199], "at": [3, "f", 0]}
    departure(record, (np.ones((3, 3)),), wrong, OUTCOMES[1], {"is the output": np.ones((3, 3))})
    assert time.process_time() - begun < 5


def test_record_is_bounded() -> None:
    """Does a record end at its limit, and leave the value unchanged?"""
    loop = "def count(n):\n    total = 0.0\n    for i in range(n):\n        total = total + i * 1.0\n    return total\n"
    function = written(loop, "count")
    begun = time.process_time()
    with Recorder(function.__globals__) as recorder:
        assert function(100_000) == 100_000 * 99_999 / 2
    assert len(recorder.record()["rows"]) <= MAX_ROWS + 1
    assert time.process_time() - begun < 5


def test_function_of_another_text_is_left_alone() -> None:
    """If the text of a function's cell has changed, does the function still run its own code?"""
    function = written("def answer():\n    return 1 + 1\n", "answer")
    file = function.__code__.co_filename
    linecache.cache[file] = (1, None, ["def answer():\n", "    return 1 + 2\n"], file)
    with Recorder(function.__globals__) as recorder:
        assert function() == 2
    assert recorder.record()["rows"] == []


NEAR = {"attention": 0.8, "multihead": 0.75, "encoder": 0.75, "vit": 0.6}  # smallest allowed shares
SAMPLE = 12  # mutations of one exercise in `make test`; `make test-all` tries more mutations of all exercises


@pytest.mark.parametrize(
    ("stem", "most"), [("attention", SAMPLE), *(pytest.param(s, 30, marks=pytest.mark.deep) for s in WOVEN)]
)
def test_line_of_mutations(stem: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is the line of an unnamed mutation given, or a line next to it, in every style of a right answer?"""
    broken = []

    def reporting(*arguments: object) -> object:  # a student loses only this extra by an error of ours; we must see it
        try:
            return departure(*arguments)
        except Exception as error:
            broken.append(error)
            raise

    monkeypatch.setattr("attention_tests.departure.departure", reporting)
    asked = exercises_of(stem)
    found = [lines_of(stem, each, 0, most) for each in ([asked["attention"]] if most == SAMPLE else asked.values())]
    unnamed = sum(each.unnamed for each in found)
    near = sum(each.counts["right"] + each.counts["neighbour"] for each in found)
    assert broken == []
    assert near >= NEAR[stem] * unnamed > 5, [each.mutations.get("wrong") for each in found]

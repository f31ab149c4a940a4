"""Does a student whose mistake has no name read which line is wrong?"""

import contextlib
import io
import linecache
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.compare import WrongAnswer
from attention_tests.line import with_line
from attention_tests.watch import Watch
from conftest import FOLLOWED, setup_of

from autograder.grade.session import Cell, Session
from autograder.judge.exercise import Exercise, exercises_of, right_answers_of, seeded
from autograder.judge.mistake import changed_text
from autograder.judge.mutations import defined
from autograder.sandbox.host.answer import Answer
from autograder.sandbox.host.limits import Limits

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


def written(text: str, name: str = "attention", **names: Any) -> Any:
    """Define a function as a cell of a notebook does."""
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType("__main__")
    vars(module).update({"np": np} | names)
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)[name]


RIGHT = "With the right value, the result would be right."
CHANGED = [
    (
        "/ np.sqrt(queries.shape[-1])",
        "/ np.sqrt(queries.shape[-1]) * 4",
        7,
        f"`scores` is 4 times the right value. {RIGHT}",
    ),
    (
        "w = exponentials /",
        "w = 0.1 + exponentials /",
        11,
        "Line 11 of attention: `w` is wrong by up to 0.1.",
    ),
    (
        "scores = np.where(mask, scores, -np.inf)",
        "scores = scores + np.where(mask, 0.0, -4.0)",
        9,
        "`scores` is wrong: some of its numbers should be infinite.",
    ),
    ("return w @ values, w", "return w @ values + w[..., :1], w", 12, "all values before it are right"),
    ("return w @ values, w", "return w @ values, np", 12, "attention ended at line 12"),
    ("    return w @ values, w", "    output = w @ values", 12, "attention ended at line 12"),
    ("return w @ values, w", "return 1 .real.flat", 12, "AttributeError"),
    ("np.swapaxes(keys, -1, -2)", "keys[:2].T", 7, "`scores` has shape"),
    ("w = exponentials / exponentials.sum(axis=-1, keepdims=True)", "w = exponentials", 11, "`w` is wrong"),
    ("scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])", "scores = 'a'", 7, "sets `scores`"),
    pytest.param(
        "w = exponentials /",
        "def mine():\n        return exponentials + 1\n    w = mine() /",
        13,
        "Line 13 of attention: `w` is wrong",
        marks=FOLLOWED,
    ),
    (
        "return w @ values, w",
        "output = np.zeros_like(w @ values)\n    for i in range(len(w)):\n        row = w[i] * 2\n"
        "        output[i] = row @ values\n    return output, w",
        14,
        "Line 14 of attention: `row` is 2 times the right value",
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), CHANGED)
def test_wrong_line_is_said(old: str, new: str, line: int, said: str) -> None:
    """Is the line right, and is the statement about its value true?"""
    assert ATTENTION.count(old) == 1
    with seeded(0):
        errors = exercises_of("attention")["attention"].failures(written(ATTENTION.replace(old, new)), 0)
    first = next(iter(errors.values()))
    assert first.mistake is None
    assert first.found["line"] == line and said in str(first)


# Answers as students write them, and whether the finder names the wrong line, which is the one with a #, or none.
IN_STEPS = {
    ("vit", "PatchEmbedding", True): """class PatchEmbedding(torch.nn.Module):
    def __init__(self, *, image_size, patch_size, channels, width):
        super().__init__()
        if image_size % patch_size:
            raise ValueError("no whole number of patches")
        self.size = image_size
        self.projection = torch.nn.Conv2d(channels, width, patch_size, stride=patch_size)

    def forward(self, images):
        if images.shape[-2:] != (self.size, self.size):
            raise ValueError("another size")
        y = self.projection(images)
        y = y.flatten(2)
        y = y.transpose(0, 2)  #
        return y
""",
    ("attention", "attention", True): """def similarity(q, k):
    width = q.shape[-1]
    return q @ np.swapaxes(k, -1, -2) * np.sqrt(width) / width ** 2  #


def attention(queries, keys, values, mask=None):
    raw = similarity(queries, keys)
    raw = raw if mask is None else np.where(mask, raw, -np.inf)
    e = np.exp(raw - raw.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ values, weights
""",
    ("multihead", "merge_heads", False): """def merge_heads(x):
    parts = []
    for h in range(x.shape[1]):
        head = x[:, 0]  #
        parts.append(head)
    tokens = torch.cat(parts, dim=-1)
    return tokens
""",
    ("encoder", "FeedForward", False): """def share_below(z):
    return 0.5 * torch.erfc(-z / 2)  #


def gelu(z):
    return z * share_below(z)


class FeedForward(torch.nn.Module):
    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand, self.contract = torch.nn.Linear(width, hidden_width), torch.nn.Linear(hidden_width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x):
        inner = gelu(self.expand(x))
        return self.contract(self.dropout(inner))
""",
    # With an infinite number for num_heads, a right value of another variable, the loop would never end.
    ("multihead", "MultiHeadAttention", False): """class MultiHeadAttention(torch.nn.Module):
    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        if width % num_heads:
            raise ValueError("width must be a multiple of num_heads")
        self.num_heads, self.dropout = num_heads, torch.nn.Dropout(dropout)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x, mask=None, return_weights=False):
        size, mixed, maps = x.shape[-1] // self.num_heads, [], []
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        for i in range(self.num_heads):
            own, columns = mask, slice(i * size, (i + 1) * size)
            if mask is not None and mask.ndim == 4:
                own = mask[:, i : i + 1]
            weights = attend(q[..., columns], k[..., columns], v[..., columns], own)[1][:, 0]
            maps.append(weights)
            mixed.append(self.dropout(weights) @ v[:, 0, :, columns])
        y = self.out(torch.cat(mixed, dim=-1))
        return (y, torch.stack(maps, dim=2)) if return_weights else y  #
""",
}


@pytest.mark.parametrize(("stem", "name", "is_seen"), IN_STEPS)
def test_line_of_a_slip_is_right_or_not_said(stem: str, name: str, is_seen: bool) -> None:
    """Is the line right if its value is known or a part of one, and is no later line named if nobody knows it?"""
    text, each = IN_STEPS[stem, name, is_seen], exercises_of(stem)[name]
    given = {other: getattr(each.answers, other) for other in exercises_of(stem) if f"def {other}" not in text}
    with seeded(5):
        errors = each.failures(written(text, name, torch=torch, **given), 5)
    wrong = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("#")}
    assert errors and not any(error.mistake for error in errors.values())
    assert {error.found["line"] for error in errors.values() if error.found} == (wrong if is_seen else set())


def test_line_is_silent_if_only_a_gradient_is_wrong() -> None:
    """Does a detached result, whose value is right, get no line that says that its value is wrong?"""
    each = exercises_of("encoder")["Encoder"]
    text = changed_text(
        Path(each.answers.__file__), "Encoder", [("return self.norm(x)", "return self.norm(x).detach()")]
    )
    with seeded(0):
        errors = each.failures(defined(text, each.answers.Encoder), 0)
    assert errors and not any(error.found for error in errors.values())


def test_comprehension_is_one_step() -> None:
    """Is a comprehension over several lines one step, also where Python keeps its variables in the function?"""
    answer = written("def f(x):\n    y = [\n        x * i\n        for i in range(3)\n    ]\n    return y\n", "f")
    with Watch(answer.__globals__) as watch:
        answer(2.0)
    assert [each.name for each in watch.changes] == ["y", ""]


def test_search_leaves_nothing_behind() -> None:
    """Is a right answer right after a search in one whose errors are raised within PyTorch's checkpoints?"""
    each = exercises_of("encoder")["EncoderBlock"]
    style = right_answers_of("encoder")[each.name]["checkpoints"]
    change = ("self.attention(self.norm_attention(x), mask)", "self.norm_attention(x)")
    text = changed_text(Path(sys.modules[style.__module__].__file__), style.__name__, [change])
    with seeded(0):
        assert each.failures(defined(text, style), 0)
        assert each.failures(getattr(each.answers, each.name), 0) == {}


def test_line_is_said_in_a_notebook() -> None:
    """Does the package find the line in a notebook, and leave nothing there?"""
    namespace, before = setup_of("1_attention")[0] | {}, sys.gettrace()
    with contextlib.redirect_stdout(io.StringIO()):
        wrong = written(WRONG, **namespace)
        names = set(wrong.__globals__)
        with pytest.raises(AssertionError, match="Line 11 of attention: `w` is wrong"):
            namespace["run_tests"]("attention", wrong)
    assert (set(wrong.__globals__), sys.gettrace()) == (names, before)


WRONG = ATTENTION.replace("w = exponentials", "w = 0.1 + exponentials")
ENDS = WRONG.replace(
    "    scores =", "    if __import__('sys').gettrace():\n        __import__('os')._exit(1)\n    scores =", 1
)
HIDES = WRONG.replace("    scores =", "    __import__('sys').settrace(None)\n    scores =", 1)
SAID = "Line 11 of attention: `w` is wrong"


def errors_in_the_sandbox(each: Exercise, *cells: str) -> dict[str, AssertionError]:
    """Run cells in the sandbox, and return the errors of the hidden tests of an answer; nothing else may be lost."""
    with contextlib.closing(Session(Limits(), sandboxed=True)) as session:
        for cell in cells:
            session.run(Cell(cell, answers=True))
        with seeded(0):
            session.begin_test()
            errors = each.failures(Answer(each.name, session.call), 0)
        assert (session.lost, session.losses) == ([], 0)
        return errors


@pytest.mark.parametrize(("cell", "line"), [(WRONG, SAID), (ENDS, ""), (HIDES, "")])
def test_line_is_said_in_the_sandbox(cell: str, line: str) -> None:
    """Does a hidden test give the line of a cell, and are all points the same, whatever the cell does while it is followed?"""
    errors = errors_in_the_sandbox(exercises_of("attention")["attention"], "import numpy as np", cell)
    assert set(errors) == {"weights", "output", "axes", "mask"}
    assert line in str(errors["weights"])
    assert (SAID in str(errors["weights"])) == bool(line)
    assert "15 of 15 numbers are wrong" in str(errors["output"])


@FOLLOWED
def test_line_of_a_class_is_said_in_the_sandbox() -> None:
    """Does a hidden test give the line of a class whose modules run in the sandbox?"""
    each = exercises_of("multihead")["MultiHeadAttention"]
    change = ("self.dropout(weights), v)", "self.dropout(weights), v).cos()")
    text = changed_text(Path(each.answers.__file__), each.name, [change])
    line = next(i for i, each in enumerate(text.splitlines(), 1) if ".cos()" in each)
    said = str(errors_in_the_sandbox(each, text)["values"])
    assert f"Line {line} of MultiHeadAttention.forward: `mixed` is wrong" in said


def test_right_values_belong_to_inputs_that_no_test_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the student's process get right values only for inputs that decide no points?"""
    exercise, given = exercises_of("attention")["attention"], []
    monkeypatch.setattr("autograder.judge.exercise.find_line", lambda *arguments: given.append(arguments[4]))
    with seeded(0):
        errors = exercise.failures(written(WRONG), 0)
        judged = [case["arguments"][0] for case in exercise.hidden_cases(0)]
    assert len(given) >= len(errors) == 4
    assert not any(np.array_equal(case["arguments"][0], queries) for case in given for queries in judged)


FOUND = {"how": "repaired", "line": 3, "function": "f", "name": "x", "value": np.arange(3.0), "right": np.ones(3)}
FORGED = [
    3,
    {},
    FOUND | {"line": "3"},
    FOUND | {"line": -(10**16)},
    FOUND | {"how": "<b>"},
    FOUND | {"value": "a"},
    FOUND | {"value": np.array(["a", "b", "c"])},
    FOUND | {"right": None},
    FOUND | {"name": 5},
    *(FOUND | {what: text} for what in ("function", "name") for text in ("f\nPassed.", "f\x1b[2J", "f\u202e")),
]


def _said_of(found: object) -> str:
    case = {"right_values": [], "arguments": [], "expected": {"arrays": {}}}
    return str(with_line(WrongAnswer("wrong", None, [(case, {"arrays": {}, "took": 0.0})]), lambda case: found))


@pytest.mark.parametrize("found", FORGED)
def test_forged_line_is_not_said(found: object) -> None:
    """If the sandbox forges what it found, is it not shown, and is there no error?"""
    assert _said_of(found) == "wrong"


def test_message_about_a_line_is_short() -> None:
    """Is what could be forged shown as it is, and cut if it is long?"""
    assert _said_of(FOUND) == f"wrong\nLine 3 of f: `x` is wrong by up to 1. {RIGHT}"
    assert len(_said_of(FOUND | {"function": "f" * 10**6, "name": "x" * 10**6})) < 500


def test_search_is_bounded() -> None:
    """Does the search for the line of a long loop end, although each line runs thousands of times?"""
    loop = "    for i in range(20_000):\n        w = w + 0.0 * i\n    return w @ values, w + 0.1\n"
    function = written(ATTENTION.replace("    return w @ values, w\n", loop))
    began = time.process_time()
    with seeded(0), pytest.raises(WrongAnswer):
        exercises_of("attention")["attention"].judge_stage("output", function, 0)
    assert time.process_time() - began < 40  # 8 s on a slow machine; minutes if the changes are not limited

"""Does a question carry only plain values and errors, in both directions?"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.compare import outcome
from in_kernel import function_of, same, told
from test_wire import PLAIN

from autograder.checks.attention import stand_ins
from autograder.sandbox.host.kernel import Kernel


def test_large_reply_is_not_waited_for(start: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a reply in several pieces taken as soon as it is complete?"""
    kernel = start()
    function = function_of(kernel, "f", "import numpy as np\ndef f(): return np.ones(70_000)")
    function()
    monkeypatch.setattr("autograder.sandbox.host.kernel.PATIENCE", 30.0)
    begun = time.monotonic()
    assert function().shape == (70_000,)
    assert time.monotonic() < begun + 15


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_function_carries_values_there_and_back(kernel: Kernel, value: Any) -> None:
    """Does a value arrive unchanged after the student's function returned it?"""
    back = function_of(kernel, "echo", "def echo(value): return value")(value)
    assert same(back, np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value)


def test_function_takes_keywords_and_defaults(kernel: Kernel) -> None:
    """Do arguments by position, by keyword and by default arrive in their places?"""
    function = function_of(kernel, "f", "def f(a, b=2, *, c=3): return [a, b, c]")
    assert function(1) == [1, 2, 3]
    assert function(1, c=5) == [1, 2, 5]
    assert function(a=7, b=8) == [7, 8, 3]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        function()


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        ("raise ValueError('no key')", ValueError, r"no key \(in f, line 2\)"),
        ("raise KeyError('a')", KeyError, "'a'"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("class MaskError(ValueError): pass\n    raise MaskError('mine')", ValueError, "MaskError: mine"),
        ("class Odd(Exception): pass\n    raise Odd('mine')", Exception, "Odd: mine"),
        ("import numpy as np; np.ones(2) @ np.ones(3)", ValueError, "size 3 is different from 2"),
        ("import numpy as np; np.linalg.inv(np.zeros((2, 2)))", ValueError, "LinAlgError: Singular"),
        ("import torch; torch.ones(2) @ torch.ones(3)", RuntimeError, "inconsistent tensor size"),
        ("b'\\xff'.decode()", RuntimeError, "invalid start byte"),
        ("assert False, 'theirs'", AssertionError, "theirs"),
        ("raise SystemExit(3)", RuntimeError, "SystemExit: 3"),
        ("raise KeyboardInterrupt", RuntimeError, "KeyboardInterrupt"),
        ("raise ExceptionGroup('g', [ValueError(1)])", Exception, "g"),
    ],
)
def test_function_raises_the_students_error(kernel: Kernel, statement: str, kind: type, text: str) -> None:
    """Does an error arrive as an Exception of the nearest built-in type, with text and line?"""
    function = function_of(kernel, "f", f"def f():\n    {statement}\n")
    with pytest.raises(kind, match=text) as caught:
        function()
    assert isinstance(caught.value, Exception)


def test_function_that_is_not_defined(kernel: Kernel) -> None:
    """If the cell of a function did not run, does a call raise a NameError that says so?"""
    with pytest.raises(NameError, match="nobody_wrote_me is not defined; did its cell run"):
        function_of(kernel, "nobody_wrote_me")()


def test_function_that_is_compiled_is_called_as_it_is_written(kernel: Kernel) -> None:
    """Does `torch.compile`, which would take too long for a call, leave functions and methods unchanged?"""
    source = """
import torch

@torch.compile(fullgraph=True)
def double(x):
    return Layer()(x)

class Layer(torch.nn.Module):
    @torch.compile
    def forward(self, x):
        return 2 * x
"""
    assert torch.equal(function_of(kernel, "double", source)(torch.ones(3)), torch.full((3,), 2.0))


def test_sandbox_has_what_the_chapters_name(kernel: Kernel) -> None:
    """Does the sandbox have einops, which a chapter shows and Colab has?"""
    source = "from einops import rearrange\ndef turned(x):\n    return rearrange(x, 'a b -> b a')"
    assert function_of(kernel, "turned", source)(np.ones((2, 3))).shape == (3, 2)


def test_function_changes_arguments_in_place(kernel: Kernel) -> None:
    """If the student's function changes an argument, does the grader see the change, so that M15 can be noticed?"""
    function = function_of(kernel, "spoil", "def spoil(a, b):\n    a[0] = 7\n    return b")
    mine, other = np.zeros(3), np.ones(2)
    function(mine, other)
    np.testing.assert_array_equal(mine, [7, 0, 0])
    np.testing.assert_array_equal(other, [1, 1])
    assert outcome(function, (np.zeros(3), np.ones(2)), ("b",))["changed"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Evil()", "Evil"),
        ("{'weights': [Evil()]}", "Evil"),
        ("lambda: 1", "function"),
        ("(x for x in [1])", "generator"),
        ("np.array([Evil()], dtype=object)", "ndarray"),
        ("[1, (2, {3: b'4'})]", "bytes"),
    ],
)
def test_function_refuses_foreign_values(kernel: Kernel, value: str, name: str) -> None:
    """Does a forbidden value at any depth raise a TypeError that names function and type?"""
    source = "import numpy as np\nclass Evil:\n    def __reduce__(self): return (print, ('pickled',))\n"
    function = function_of(kernel, "f", source + f"def f(): return {value}")
    with pytest.raises(TypeError, match=rf"^f returned a {name}; expected numbers, strings, arrays"):
        function()


def test_function_uses_our_earlier_exercises(kernel: Kernel) -> None:
    """Under `replaced`, does the student's function use our answer to an earlier exercise, and afterwards the student's?"""
    source = """
    def softmax(scores, axis=-1): return "own"
    def attention(scores): return [softmax(scores, axis=0), softmax(scores)]
    """
    function, scores = function_of(kernel, "attention", source), np.array([1.0, 2.0])
    with function.replaced({"softmax": stand_ins.softmax, "never_written": stand_ins.softmax}):
        for found in function(scores):
            np.testing.assert_allclose(found, stand_ins.softmax(scores))
    assert function(scores) == ["own", "own"]
    assert told(kernel, "print(json.dumps('never_written' in globals()))") is False
    imported = "import sys\nprint(json.dumps([name for name in sys.modules if name.startswith('autograder')]))"
    assert told(kernel, imported) == []


def test_candidate_carries_values_errors_and_gradients(kernel: Kernel) -> None:
    """Does a test get a candidate of the grader that carries calls, errors and gradients, for each form of call?"""
    source = """
    import torch
    def use(candidate):
        try:
            candidate(torch.zeros(2), None)
        except ValueError as error:
            said = str(error)
        x, w = torch.ones(3, requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
        (candidate(x, scale=w) * w).sum().backward()
        assert (candidate.__name__, said) == ("candidate", "there is none")
        torch.testing.assert_close(candidate(w, scale=w), w.sin() * w)
        torch.testing.assert_close(x.grad, torch.ones(3).cos() * w**2)
        raise EOFError("all is right")
    """

    def scaled(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        if scale is None:
            raise IndexError("there is none")
        return x.sin() * scale

    with pytest.raises(EOFError, match="all is right"):
        function_of(kernel, "use", source)(scaled)


def test_function_changes_tensors_in_place(kernel: Kernel) -> None:
    """If the student's function changes a tensor, does the grader see it?"""
    function = function_of(kernel, "halve", "def halve(a):\n    a /= 2\n    return a * 3")
    plain = torch.ones(2)
    torch.testing.assert_close(function(plain), torch.full((2,), 1.5))
    torch.testing.assert_close(plain, torch.full((2,), 0.5))


def test_function_has_siblings(kernel: Kernel) -> None:
    """Can a test get another function of the same notebook?"""
    function = function_of(kernel, "one", "def one(): return 1\ndef two(): return 2")
    assert (function(), function.sibling("two")()) == (1, 2)


PLAINLY = {
    "do": "ask",
    "module": "attention_tests.compare",
    "ask": "ask_plainly",
    "others": [],
    "arguments": [],
    "keywords": {},
}
DRAWS = (
    "import random, numpy as np, torch\ndef f():\n    return [random.random(), np.random.rand(), torch.rand(1).item()]"
)


def test_call_draws_at_random_by_its_number_alone(kernel: Kernel) -> None:
    """Are the random numbers of Python, NumPy and PyTorch in a call the same in each run, whatever was drawn before?"""
    kernel.run_cell(DRAWS)
    request = PLAINLY | {"function": "f"}
    drawn = []
    for number in (1, 2, 1):
        drawn.append(kernel.call(request | {"draw": number}, None, 5.0)["value"])
        kernel.run_cell("f()")
    assert drawn[0] == drawn[2]
    assert all(one != two for one, two in zip(*drawn[:2]))


def test_call_works_where_nothing_can_be_seeded(start: Callable[..., Kernel]) -> None:
    """Does a call work after the student's code broke the random generators?"""
    kernel = start()
    broken = "import random, sys\nsys.modules['numpy'] = sys.modules['torch'] = random.seed = None"
    kernel.run_cell(f"{broken}\ndef f():\n    return 3")
    request = PLAINLY | {"function": "f"}
    assert kernel.call(request | {"draw": 1}, None, 5.0)["value"] == 3


def test_kernels_draw_differently(start: Callable[..., Kernel]) -> None:
    """Does each kernel have its own state of random generators?"""
    first, second = (told(start(), f"{DRAWS}\nprint(json.dumps(f()))") for _ in range(2))
    assert all(one != two for one, two in zip(first, second))

"""Does a call of a student's function carry only plain values, gradients and errors, in both directions?"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.compare import outcome
from in_kernel import function_of, same, told
from test_wire import PLAIN

from autograder.sandbox.host.kernel import Kernel
from autograder.sandbox.host.proxy import Function


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


def test_function_asks_the_grader_for_earlier_exercises(kernel: Kernel) -> None:
    """Under `replaced`, does the student's function use the grader's earlier exercise, and afterwards the student's?"""
    source = """
    def softmax(scores, axis=-1): return "own"
    def attention(scores): return [softmax(scores, axis=0), softmax(scores)]
    """
    function, asked = function_of(kernel, "attention", source), []

    def correct(scores: np.ndarray, axis: int = -1) -> np.ndarray:
        asked.append((scores.copy(), axis))
        return 10 * scores

    with function.replaced({"softmax": correct, "never_written": correct}):
        first, second = function(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(first, [10.0, 20.0])
    np.testing.assert_array_equal(second, [10.0, 20.0])
    assert [axis for _, axis in asked] == [0, -1]
    assert function(np.array([1.0])) == ["own", "own"]
    assert told(kernel, "print(json.dumps('never_written' in globals()))") is False


def test_function_of_ours_is_an_argument_that_asks_for_values(kernel: Kernel) -> None:
    """Does a function of the grader cross as a stand-in that carries calls and errors, and leaves no name?"""
    source = """
    def use(candidate, twice):
        try:
            candidate(-1)
        except ValueError as error:
            said = str(error)
        return candidate.__name__, said, twice(candidate(3)), [name for name in globals() if "argument" in name]
    """

    def root(number):
        if number < 0:
            raise ValueError("there is none")
        return number**0.5

    use = function_of(kernel, "use", source)
    assert use(root, lambda number: 2 * number) == (
        "argument 0",
        "there is none",
        2 * 3**0.5,
        ["argument 0", "argument 1"],
    )
    assert function_of(kernel, "left", "def left(): return [name for name in globals() if 'argument' in name]")() == []


def test_function_gets_gradients_through_the_grader_s_answers(kernel: Kernel) -> None:
    """Do gradients flow back through the grader's version of an earlier exercise, for each form of call?"""
    source = """
    import torch
    def attend(q, k, v=None, mask=None): return q * 0, q
    def layer(x, w):
        output, weights = attend(x @ w, x, v=3 * x, mask=torch.tensor([True, False]))
        return output * 2, weights
    """
    function, asked = function_of(kernel, "layer", source), []

    def correct(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        asked.append(mask.tolist())
        weights = (q @ k.T).masked_fill(~mask, -torch.inf).softmax(-1)
        return weights @ v.sin(), weights

    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    with function.replaced({"attend": correct}):
        output, weights = function(x, w)
        found = torch.autograd.grad((output * torch.tensor([1.0, 2.0, 3.0])).sum() + weights[0, 0], (x, w))
    own = correct(x @ w, x, 3 * x, torch.tensor([True, False]))
    expected = torch.autograd.grad((2 * own[0] * torch.tensor([1.0, 2.0, 3.0])).sum() + own[1][0, 0], (x, w))
    torch.testing.assert_close(output, 2 * own[0])
    for gradient, right in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, right)
    assert asked[0] == [True, False]


def test_function_changes_tensors_in_place(kernel: Kernel) -> None:
    """If the student's function changes a tensor, does the grader see it, also for a tensor with a gradient?"""
    function = function_of(kernel, "halve", "def halve(a):\n    a /= 2\n    return a * 3")
    plain = torch.ones(2)
    torch.testing.assert_close(function(plain), torch.full((2,), 1.5))
    torch.testing.assert_close(plain, torch.full((2,), 0.5))
    leaf = torch.ones(2, requires_grad=True)
    given = leaf.clone()
    result = function(given)
    torch.testing.assert_close(given.detach(), torch.full((2,), 0.5))
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    torch.testing.assert_close(gradient, torch.full((2,), 1.5))


def test_function_has_siblings(kernel: Kernel) -> None:
    """Can a test get another function of the same notebook?"""
    function = function_of(kernel, "one", "def one(): return 1\ndef two(): return 2")
    assert (function(), function.sibling("two")()) == (1, 2)


def test_function_gets_the_grader_errors_of_earlier_exercises(kernel: Kernel) -> None:
    """Does an error of the grader's version reach the student's code as a ValueError, while both sides go on?"""
    source = "def caught(x):\n    try:\n        return softmax(x)\n    except ValueError as error:\n        return str(error)"
    function = function_of(kernel, "caught", source)

    def correct(scores: Any) -> Any:
        raise IndexError("axis 7 is out of bounds")

    with function.replaced({"softmax": correct}):
        assert function(1) == "axis 7 is out of bounds"
        assert function(1) == "axis 7 is out of bounds"


DRAWS = (
    "import random, numpy as np, torch\ndef f():\n    return [random.random(), np.random.rand(), torch.rand(1).item()]"
)


def test_call_draws_at_random_by_its_number_alone(kernel: Kernel) -> None:
    """Are the random numbers of Python, NumPy and PyTorch in a call the same in each run, whatever was drawn before?"""
    kernel.run_cell(DRAWS)
    request = {"do": "call", "target": "f", "arguments": [], "keywords": {}, "modules": [], "differentiable": []}
    drawn = []
    for number in (1, 2, 1):
        drawn.append(kernel.call(request | {"gradient": False, "draw": number}, {}, 5.0)["value"])
        kernel.run_cell("f()")
    assert drawn[0] == drawn[2]
    assert all(one != two for one, two in zip(*drawn[:2]))


def test_call_works_where_nothing_can_be_seeded(start: Callable[..., Kernel]) -> None:
    """Does a call work after the student's code broke the random generators?"""
    kernel = start()
    broken = "import random, sys\nsys.modules['numpy'] = sys.modules['torch'] = random.seed = None"
    kernel.run_cell(f"{broken}\ndef f():\n    return 3")
    request = {"do": "call", "target": "f", "arguments": [], "keywords": {}, "modules": [], "differentiable": []}
    assert kernel.call(request | {"gradient": False, "draw": 1}, {}, 5.0)["value"] == 3


def test_kernels_draw_differently(start: Callable[..., Kernel]) -> None:
    """Does each kernel have its own state of random generators?"""
    first, second = (told(start(), f"{DRAWS}\nprint(json.dumps(f()))") for _ in range(2))
    assert all(one != two for one, two in zip(first, second))


def test_module_crosses_with_values_and_gradients(kernel: Kernel) -> None:
    """Does a student's module have the same parameters, outputs and gradients in the grader as in the sandbox?"""
    source = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = torch.nn.Linear(width, 3)
        def forward(self, x):
            return torch.tanh(self.inner(x))
    """
    net = function_of(kernel, "Net", source)(4)
    assert [name for name, _ in net.named_parameters()] == ["inner.weight", "inner.bias"]
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        net.inner.weight.copy_(torch.randn(3, 4, generator=rng))
        net.inner.bias.copy_(torch.randn(3, generator=rng))
    here = torch.nn.Linear(4, 3)
    here.load_state_dict(net.inner.state_dict())
    x = torch.randn(5, 4, generator=rng)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, output = torch.tanh(here(mine)), net(theirs)
    expected.square().sum().backward()
    output.square().sum().backward()
    pairs = ((output, expected), (theirs.grad, mine.grad), (net.inner.weight.grad, here.weight.grad))
    for got, right in pairs:
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)  # float32 keeps 7 digits


LEFT = """
import os, warnings
import numpy as np, torch
torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.use_deterministic_algorithms(True)
np.seterr(all="raise"); warnings.simplefilter("error"); os.chdir("/"); __builtins__.print = None
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        raise TypeError("in a mode of my own")
torch.set_default_device("meta")
held = [torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)]
held += [torch.autograd.graph.disable_saved_tensors_hooks("none here"), Mode()]
[each.__enter__() for each in held]

def state(x):
    warnings.warn("heard")
    flags = [torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), print is not None]
    y = x @ x
    with torch.autograd.graph.save_on_cpu():
        y.sum().backward()
    kinds = [str(torch.get_default_dtype()), str(y.dtype), str(torch.zeros(1).device)]
    return [*kinds, np.geterr()["over"], os.getcwd(), *flags]
"""


def test_call_finds_the_state_that_a_kernel_begins_with(start: Callable[..., Kernel]) -> None:
    """Is the state that a cell changed in PyTorch, NumPy and Python restored before each call of a function?"""
    kernel = start()
    kernel.run_cell("pass")
    assert [output for output in kernel.run_cell(LEFT) if output.output_type == "error"] == []
    state = Function("state", lambda request, correct: kernel.call(request | {"draw": 1}, correct, 10.0))
    x = torch.ones(2, 2, requires_grad=True)
    assert state(x) == ["torch.float32", "torch.float32", "cpu", "warn", "/tmp/home", True, False, True]
    assert state(x) == state(x)

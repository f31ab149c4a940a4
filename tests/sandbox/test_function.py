"""Does a question carry plain values and errors in both directions, and does a hostile answer lose only its own call?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.compare import judge, outcome
from in_kernel import function_of, reaching, same, told

from autograder.checks.attention import stand_ins
from autograder.sandbox.host.answer import Answer, GraderFault
from autograder.sandbox.host.kernel import Kernel, KernelLost

PLAIN = [None, {"a": (1, -0.5), 2: "Größe"}, np.zeros((2, 0, 3)), [torch.ones(2, 3, dtype=torch.float16).T]]
# What a right answer may return, and what arrives.
UNUSUAL = {
    "np.float32(2.5)": np.array(2.5, dtype=np.float32),
    "np.arange(3.0).astype('>f8')": np.arange(3.0),
    "np.arange(3.0).astype(np.longdouble)": np.arange(3.0),
    "np.array([1, 2.5], dtype=object)": np.array([1, 2.5]),
    "np.arange(3.0).view(np.matrix)": np.arange(3.0)[None],
    "np.arange(10)[::-3]": np.array([9, 6, 3, 0]),
    "np.ma.array([1.0, 2.0])": np.array([1.0, 2.0]),
    "collections.namedtuple('Pair', 'output weights')(1, 2)": (1, 2),
    "torch.eye(2).as_subclass(type('Mine', (torch.Tensor,), {})).T": torch.eye(2),
    "torch.ones(2, dtype=torch.bfloat16)": torch.ones(2),
    "torch.ones(2, requires_grad=True)": torch.ones(2),
}
# What may not cross, and what it is called.
FOREIGN = {
    "Evil()": "Evil",
    "{'weights': [Evil()]}": "Evil",
    "[1, (2, {3: b'4'})]": "bytes",
    "EvilText('x')": "EvilText",
    "1j": "complex",
    "np.array([Evil()], dtype=object)": "ndarray",
    "np.array(['text'])": "ndarray",
    "torch.nn.Linear(2, 2)": "Linear",
}
EVIL = """
import collections, numpy as np, torch
class EvilText(str): pass
class Evil:
    def __reduce__(self): return (print, ('pickled',))
    def __repr__(self): raise RuntimeError("printed")
def f(): return """


def test_function_carries_values_there_and_back(kernel: Kernel) -> None:
    """Does a value arrive unchanged, an unusual number as an ordinary one, and nothing else but the name of its type?"""
    echo = function_of(kernel, "echo", "def echo(value): return value")
    assert same(echo(PLAIN), PLAIN)
    for text, expected in UNUSUAL.items():
        assert same(function_of(kernel, "f", EVIL + text)(), expected), text
    for text, name in FOREIGN.items():
        with pytest.raises(TypeError, match=rf"^f returned a {name}; expected numbers, strings, arrays"):
            function_of(kernel, "f", EVIL + text)()
    with pytest.raises(GraderFault, match="ValueError"):  # what is too large for the wire is our fault
        echo(np.zeros(2_500_000))


def test_function_takes_keywords_defaults_and_others(kernel: Kernel) -> None:
    """Do arguments by position, by keyword and by default arrive in their places, and can a test get another function?"""
    function = function_of(kernel, "f", "def f(a, b=2, *, c=3): return [a, b, c]\ndef two(): return 2")
    assert function(1) == [1, 2, 3]
    assert function(1, c=5) == [1, 2, 5]
    assert function(a=7, b=8) == [7, 8, 3]
    assert function.sibling("two")() == 2
    with pytest.raises(NameError, match="nobody_wrote_me is not defined; does its cell define"):
        function.sibling("nobody_wrote_me")()


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        ("raise ValueError('no key')", ValueError, r"no key \(in f, line 2\)"),
        ("f(1)", TypeError, "takes 0 positional arguments but 1 was given"),
        ("class MaskError(ValueError): pass\n    raise MaskError('mine')", ValueError, "MaskError: mine"),
        ("class Odd(Exception): pass\n    raise Odd('mine')", Exception, "Odd: mine"),
        ("import numpy as np; np.linalg.inv(np.zeros((2, 2)))", ValueError, "LinAlgError: Singular"),
        ("b'\\xff'.decode()", RuntimeError, "invalid start byte"),
        ("raise SystemExit(3)", RuntimeError, "SystemExit: 3"),
        ("input('the expected weights?')", NotImplementedError, "does not support input requests"),
        ("raise ExceptionGroup('g', [ValueError(1)])", Exception, "g"),
    ],
)
def test_function_raises_the_students_error(kernel: Kernel, statement: str, kind: type, text: str) -> None:
    """Does an error arrive as an Exception of the nearest built-in type, with text and line?"""
    function = function_of(kernel, "f", f"def f():\n    {statement}\n")
    with pytest.raises(kind, match=text) as caught:
        function()
    assert isinstance(caught.value, Exception)


def test_function_that_is_compiled_is_called_as_it_is_written(kernel: Kernel) -> None:
    """Does `torch.compile`, which would take too long for a call, leave functions and methods unchanged?"""
    source = """
    import torch
    @torch.compile(fullgraph=True)
    def double(x): return Layer()(x)
    class Layer(torch.nn.Module):
        @torch.compile
        def forward(self, x): return 2 * x
    """
    assert torch.equal(function_of(kernel, "double", source)(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.parametrize("ones", [np.ones, torch.ones])
def test_function_changes_arguments_in_place(kernel: Kernel, ones: Callable[[int], Any]) -> None:
    """If the student's function changes an argument, does the grader see the change, so that M15 can be noticed?"""
    function = function_of(kernel, "spoil", "def spoil(a, b):\n    a[0] = 7\n    return b")
    mine, other = ones(3), ones(2)
    function(mine, other)
    assert (mine.tolist(), other.tolist()) == ([7, 1, 1], [1, 1])
    assert outcome(function, (np.ones(3), np.ones(2)), ("b",))["changed"]


def test_function_uses_our_earlier_exercises(start: Callable[..., Kernel]) -> None:
    """Under `replaced`, does a function use our answer, and afterwards the student's? Does no call pay for an import of it?"""
    kernel = start()
    source = """
    def softmax(scores, axis=-1): return "own"
    def attention(scores): return [softmax(scores, axis=0), softmax(scores)]
    """
    function, scores = function_of(kernel, "attention", source, seconds=0.5), np.array([1.0, 2.0])
    with function.replaced({"softmax": stand_ins.softmax, "never_written": stand_ins.softmax}):
        for found in function(scores):
            np.testing.assert_allclose(found, stand_ins.softmax(scores))
    assert function(scores) == ["own", "own"]
    assert told(kernel, "print(json.dumps('never_written' in globals()))") is False
    imported = "import sys\nprint(json.dumps([name for name in sys.modules if name.startswith('autograder')]))"
    assert told(kernel, imported) == []


def test_candidate_carries_values_errors_and_gradients(kernel: Kernel) -> None:
    """Does a test get a candidate of the grader that carries calls, errors and gradients, and refuses impossible ones?"""
    source = """
    import inspect, torch
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
        ask, refused = inspect.getclosurevars(candidate).nonlocals["ask"], 0
        for gradients in ([], [torch.ones(7)], ["x"], None, 3, [None, None], [torch.ones(3)]):
            try:
                found = ask(arguments=[torch.zeros(3)], keywords={"scale": w}, gradients=gradients)
            except ValueError:
                refused += 1
        torch.testing.assert_close(found[0], w)
        raise EOFError(f"{refused} are refused")
    """

    def scaled(x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        if scale is None:
            raise IndexError("there is none")
        return x.sin() * scale

    with pytest.raises(EOFError, match="6 are refused"):
        function_of(kernel, "use", source)(scaled)


DRAWS = "import random, numpy as np, torch\ndef f(): return [random.random(), np.random.rand(), torch.rand(1).item()]"
ASKED = {"do": "ask", "module": "attention_tests.compare", "ask": "ask_plainly", "function": "f"}
ASKED |= {"others": [], "arguments": [], "keywords": {}}


def test_call_draws_at_random_by_its_number_alone(start: Callable[..., Kernel]) -> None:
    """Are the random numbers of a call the same in each run, whatever was drawn before, but those of kernels not?"""
    kernel, drawn = start(), []
    first, second = (told(each, f"{DRAWS}\nprint(json.dumps(f()))") for each in (kernel, start()))
    assert all(one != two for one, two in zip(first, second))
    for number in (1, 2, 1):
        drawn.append(kernel.call(ASKED | {"draw": number}, None, 5.0)["value"])
        kernel.run_cell("f()")
    assert drawn[0] == drawn[2]
    assert all(one != two for one, two in zip(*drawn[:2]))
    kernel.run_cell("import sys\nsys.modules['numpy'] = sys.modules['torch'] = random.seed = None\ndef f(): return 3")
    assert kernel.call(ASKED | {"draw": 1}, None, 5.0)["value"] == 3


DEAF = "import inside, os, time\ndef f(x=0): inside._receive = lambda: {}"
LOST = {  # what ends or silences the kernel, and what is said
    "silent": ("import inside\ninside._reply_to = None\ndef f(): return 1", "The kernel died"),
    "closes": ("import inside\ndef f(): inside.CHANNEL[0].close()", "The kernel died"),
    "announces 2⁶⁴ bytes": ("import inside\ndef f(): inside.CHANNEL[0].sendall(b'\\xff' * 8)", "The kernel died"),
    "ends": ("def f():\n    import os; os._exit(1)", "The kernel died"),
    "never ends": ("def f():\n    while True: pass", "Not done after 1 s"),
    "does not read": (DEAF.format("time.sleep(100)"), "Not done after 1 s"),
    "does not read, and ends": (DEAF.format("(time.sleep(0.5), os._exit(0))"), "The kernel died"),
}


@pytest.mark.parametrize("kind", LOST)
def test_function_that_ends_or_silences_its_kernel_is_lost(start: Callable[..., Kernel], kind: str) -> None:
    """Does a call raise KernelLost, past any `except Exception` in a test, with its state?"""
    source, said = LOST[kind]
    function = function_of(start(call_seconds=1.0), "f", reaching(source), seconds=1.0 if "never" in kind else 20.0)
    if "read" in kind:
        function()
    with pytest.raises(KernelLost, match=said) as lost:
        outcome(function, (np.zeros(10**6),) if "read" in kind else (), ("weights",))
    assert lost.value.state == ("timed out" if "Not done" in said else "crashed")


def test_grader_fault_is_not_swallowed() -> None:
    """Does our own error pass through judge and outcome, although they catch every error of a student?"""

    def broken(request: dict[str, Any], candidate: object) -> dict[str, Any]:
        raise OSError("our disk is full")

    case = dict(name="x", arguments=(1.0,), expected={"error": "ValueError"}, mistakes={}, default_mistake=None)
    with pytest.raises(GraderFault, match="calling softmax: OSError: our disk is full"):
        judge(Answer("softmax", broken), ("weights",), [case], {})


def test_function_that_doubles_its_process_answers_once(start: Callable[..., Kernel]) -> None:
    """Does a fork of the student's process neither answer nor take later requests?"""
    kernel = start()
    double = function_of(kernel, "double", "import os\ndef double(x):\n    return os.fork() and x + 1")
    assert [double(number) for number in range(5)] == [1, 2, 3, 4, 5]
    for number in range(5):
        assert told(kernel, f"x{number} = {number}\nprint(x{max(0, number - 1)})") == max(0, number - 1)

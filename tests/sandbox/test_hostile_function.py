"""Does a function that forges, closes, floods or never answers lose only its own call, and learn nothing of ours?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attention_tests import vit_measures
from attention_tests.compare import judge, outcome
from in_kernel import error_of, function_of, reaching, told

from autograder.sandbox.host.answer import Answer, GraderFault
from autograder.sandbox.host.kernel import Kernel, KernelLost


def test_function_of_a_silenced_kernel_is_lost(start: Callable[..., Kernel]) -> None:
    """Are forged replies ignored, and is a kernel lost if its code ends all replies?"""
    kernel = start()
    source = """
    import inside, wire
    def f():
        for text in ("", "{", '{"dict": [["id", "guess"], ["value", 15]]}', '{"array": ["<f8", [3]]}', "7", "null"):
            inside.CHANNEL[0].sendall(wire.frame(text.encode()))
        return 2
    """
    assert function_of(kernel, "f", reaching(source))() == 2
    function = function_of(kernel, "f", "def f(): return 1\ninside._reply_to = None")
    with pytest.raises(KernelLost, match="The kernel died"):
        function()


def test_function_over_a_closed_channel_is_lost(start: Callable[..., Kernel]) -> None:
    """Is a kernel lost if its code closes or breaks the channel for calls?"""
    for deed in ("close()", "sendall(b'\\xff' * 8)"):
        source = f"inside.CHANNEL[0].{deed}"
        with pytest.raises(KernelLost, match="The kernel died"):
            function_of(start(), "f", reaching(f"import inside\ndef f(): {source}"))()


def test_function_reply_forged_from_inside_is_at_worst_a_value(start: Callable[..., Kernel]) -> None:
    """If the student's code forges a reply with the right id, is that no more than a returned value?"""
    source = """
    import inside, sys, wire
    def f():
        frames = (sys._getframe(depth).f_locals.get("request") for depth in range(1, 9))
        request = next(found for found in frames if isinstance(found, dict))
        for reply in (%s):
            inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": request["id"]} | reply)))
        return "true"
    """
    kernel = start()
    assert function_of(kernel, "f", reaching(source) % "{'value': 'forged'},")() == "forged"
    assert function_of(kernel, "f", reaching(source) % "{'value': 1, 'arguments': 7},")() == 1
    for error in (
        "7",
        "['SystemExit']",
        "['KernelLost', 'BaseException']",
        "['GraderFault']",
        "['UnicodeDecodeError']",
        "[[], {}, 'eval']",
    ):
        raised = error_of(
            function_of(kernel, "f", reaching(source) % f"{{'error': {error}, 'text': ['x'], 'line': 3}},")
        )
        assert isinstance(raised, Exception), "one that no test can catch"


def test_function_reply_of_arrays_for_words_is_at_worst_an_error(kernel: Kernel) -> None:
    """If a reply has arrays instead of its id or its error's words, does the grader neither compare nor print them?"""
    source = """
    import inside, numpy as np, torch, wire
    def f(words=False):
        many = [torch.ones(1000, dtype=torch.int8)] * 9000
        for name in (np.ones(2), torch.ones(2), many):
            inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": name})))
        made = inside._reply_to
        def reply_to(do, request):
            inside._reply_to = made
            return wire.dumps({"id": request["id"], "error": many, "text": many, "line": many})
        if words:
            inside._reply_to = reply_to
        return 3
    """
    function = function_of(kernel, "f", reaching(source))
    assert function() == function(True) == 3
    replies = []
    Answer("f", lambda *request: replies.append(kernel.call(*request, 20.0)) or {"value": 0})()
    assert [replies[0][key] for key in ("error", "text", "line")] == [[], "", ""]


def test_function_of_a_kernel_that_does_not_listen_is_lost(start: Callable[..., Kernel]) -> None:
    """Is a kernel given up if it does not read a long question, and reported as dead if a long question ends it?"""
    kernel = start(call_seconds=1.0)
    function = function_of(
        kernel, "f", reaching("import inside, os, time\ndef f(x=0): inside._receive = lambda: time.sleep(100)")
    )
    function()
    with pytest.raises(KernelLost, match="Not done after 1 s"):
        function(np.zeros(10**6))
    source = "import inside, os, time\ndef f(x=0): inside._receive = lambda: (time.sleep(0.5), os._exit(0))"
    function = function_of(start(), "f", reaching(source))
    function()
    with pytest.raises(KernelLost, match="The kernel died"):
        function(np.zeros(10**6))


def test_function_in_a_lost_kernel(start: Callable[..., Kernel]) -> None:
    """Does a call that ends or hangs the kernel raise KernelLost, past any `except Exception` in a test?"""
    function = function_of(start(), "f", "def f():\n    import os; os._exit(1)")
    with pytest.raises(KernelLost) as lost:
        outcome(function, (), ("weights",))
    assert lost.value.state == "crashed"
    function = function_of(start(), "f", "def f():\n    while True: pass", seconds=1.0)
    with pytest.raises(KernelLost) as lost:
        outcome(function, (), ("weights",))
    assert lost.value.state == "timed out"


def test_grader_fault_is_not_swallowed() -> None:
    """Does our own error pass through judge and outcome, although they catch every error of a student?"""

    def broken(request: dict[str, Any], candidate: object) -> dict[str, Any]:
        raise OSError("our disk is full")

    case = {
        "name": "x",
        "arguments": (1.0,),
        "expected": {"error": "ValueError"},
        "mistakes": {},
        "default_mistake": None,
    }
    with pytest.raises(GraderFault, match="calling softmax: OSError: our disk is full"):
        judge(Answer("softmax", broken), ("weights",), [case], {})


def test_function_arguments_that_cannot_cross_are_our_fault(kernel: Kernel) -> None:
    """If a test sends too much for the wire, is this our error, without a lost point?"""
    with pytest.raises(GraderFault, match="ValueError"):
        function_of(kernel, "echo", "def echo(value): return value")(np.zeros(2_500_000))


def test_function_that_doubles_its_process_answers_once(start: Callable[..., Kernel]) -> None:
    """Does a fork of the student's process neither answer nor take later requests?"""
    kernel = start()
    double = function_of(kernel, "double", "import os\ndef double(x):\n    return os.fork() and x + 1")
    assert [double(number) for number in range(5)] == [1, 2, 3, 4, 5]
    for number in range(5):
        assert told(kernel, f"x{number} = {number}\nprint(x{max(0, number - 1)})") == max(0, number - 1)


def test_question_takes_no_name_of_the_notebook(start: Callable[..., Kernel]) -> None:
    """Does our file run next to the student's function, even if the notebook defines the same names?"""
    kernel = start()
    kernel.run_cell("def ask_evaluation(*_): return 'forged'\ndef evaluate(model, batches): return 1, 2")
    function = Answer("evaluate", lambda request, candidate: kernel.call(request | {"draw": 1}, candidate, 20.0))
    arguments = ("means", np.ones((2, 1, 2, 2)), np.array([0, 1]), np.array([2]), "list", 2, 0)
    assert function.asked(vit_measures.ask_evaluation, *arguments) == {"result": (1, 2)}
    with pytest.raises(NameError, match="nobody is not defined"):
        Answer("nobody", lambda r, c: kernel.call(r | {"draw": 1}, c, 20.0)).asked(
            vit_measures.ask_evaluation, *arguments
        )


def test_function_hands_out_no_expected_value(kernel: Kernel) -> None:
    """Can the student's function find neither the seed nor a check in its process?"""
    source = """
    def search():
        import gc, sys
        names = [name for name in sys.modules if name.split(".")[0] in ("autograder", "solutions")]
        frames, frame = [], sys._getframe()
        while frame:
            frames.append(sorted(frame.f_locals))
            frame = frame.f_back
        texts = [o for o in gc.get_objects() if isinstance(o, dict) and ("expected" in o or "mistakes" in o)]
        return [names, any("expected" in each for each in frames), len([t for t in texts if "fingerprint" in str(t)[:9999]])]
    """
    assert function_of(kernel, "search", source)() == [[], False, 0]


def test_function_that_asks_for_input_gets_no_person(kernel: Kernel) -> None:
    """Does input() in a student's function fail at once, without any text of ours?"""
    function = function_of(kernel, "ask", "def ask(): return input('the expected weights?')")
    with pytest.raises(NotImplementedError, match="does not support input requests"):
        function()


def test_test_that_asks_for_impossible_gradients_gets_an_error(kernel: Kernel) -> None:
    """Does a request for impossible gradients give the student's error, and does the kernel continue?"""
    source = """
    import inspect, torch
    def cheat(candidate):
        ask, found = inspect.getclosurevars(candidate).nonlocals["ask"], []
        for gradients in ([], [torch.ones(7)], ["x"], None, 3, [None, None], [torch.ones(2)]):
            try:
                found.append(ask(arguments=[torch.ones(2)], keywords={}, gradients=gradients))
            except ValueError:
                found.append("refused")
        assert found[:-1] == 6 * ["refused"]
        torch.testing.assert_close(found[-1][0], torch.full((2,), 2.0))
        raise EOFError("all is right")
    """
    with pytest.raises(EOFError, match="all is right"):
        function_of(kernel, "cheat", source)(lambda x: x * 2)


def test_nobody_answers_a_question_without_a_candidate(kernel: Kernel) -> None:
    """Does the grader ignore a question while no test is tried?"""
    source = """
    import inside, wire
    def f():
        inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"question": True, "arguments": [1], "keywords": {}})))
        return 3
    """
    assert function_of(kernel, "f", reaching(source))() == 3

"""Does a function that forges, closes, floods or never answers lose only its own call, and learn nothing of ours?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests import vit_measures
from attention_tests.compare import judge, outcome
from in_kernel import error_of, function_of, reaching, told

from autograder.checks.encoder import layers
from autograder.sandbox.guest.wire import Handle, dumps, loads
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.proxy import BadReply, Function, GraderFault, Module, _Remote
from autograder.sandbox.host.questions import answer, text_of
from solutions import encoder


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
    broken = {"close()": "The kernel died", "sendall(b'\\xff' * 8)": "sent something over it that is not a message"}
    for deed, said in broken.items():
        source = f"inside.CHANNEL[0].{deed}"
        with pytest.raises(KernelLost, match=said):
            function_of(start(), "f", reaching(f"import inside\ndef f(): {source}"))()


def test_function_reply_forged_from_inside_is_at_worst_a_value(start: Callable[..., Kernel]) -> None:
    """If the student's code forges a reply with the right id, is that no more than a returned value?"""
    source = """
    import inside, sys, wire
    def f():
        request = next(x for x in (getframe(depth).f_locals.get("request") for depth in range(1, 9)) if isinstance(x, dict))
        for reply in (%s):
            inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": request["id"]} | reply)))
        return "true"
    """
    kernel = start()
    # After this line fills sys again, sys has Python's own function that gives a caller's frame.
    filled = "_imp.create_builtin(sys.__spec__)\ngetframe = sys._getframe"
    kernel.run_cell(f"import _imp, sys\nkept = dict(vars(sys))\n{filled}\nvars(sys).update(kept)")
    assert function_of(kernel, "f", reaching(source) % "{'value': 'forged'},")() == "forged"
    assert function_of(kernel, "f", reaching(source) % "{'value': 1, 'arguments': 7, 'graph': 5, 'buffers': 3},")() == 1
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
    Function("f", lambda *request: replies.append(kernel.call(*request, 20.0)) or {"value": 0})()
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

    def broken(request: dict[str, Any], correct: dict[str, Any]) -> dict[str, Any]:
        raise OSError("our disk is full")

    case = {
        "name": "x",
        "arguments": (1.0,),
        "expected": {"error": "ValueError"},
        "mistakes": {},
        "default_mistake": None,
    }
    with pytest.raises(GraderFault, match="calling softmax: OSError: our disk is full"):
        judge(Function("softmax", broken), ("weights",), [case], {})


def test_function_arguments_that_cannot_cross_are_our_fault(kernel: Kernel) -> None:
    """If a test sends too much for the wire, is this our error, without a lost point?"""
    with pytest.raises(GraderFault, match="ValueError"):
        function_of(kernel, "echo", "def echo(value): return value")(np.zeros(2_500_000))


LARGE = {
    "numbers": {f"part{number}": torch.zeros(2**20 - 500) for number in range(8)},
    "names": {f"{number}".zfill(33_500): torch.zeros(1) for number in range(1000)},
}


@pytest.mark.parametrize("kind", LARGE)
def test_module_that_leaves_no_room_for_the_inputs_is_no_fault_of_ours(kind: str) -> None:
    """If a module is too large to be sent back with a test's inputs, is this the student's error?"""
    about: dict[str, Any] = {"modules": {"": "Net"}, "training": {"": True}, "parameters": {}, "shared": {}}
    description = loads(dumps(about | {"trainable": {}, "buffers": LARGE[kind]}))
    net = Module.like(_Remote(lambda request, correct: dumps(request), "f"), Handle(0, description=description))
    with pytest.raises(BadReply, match="is larger than half of the limit"):
        net(torch.zeros(20_000))


def test_gradients_that_are_too_large_are_no_fault_of_ours() -> None:
    """If the gradient of a result is too large to be sent back, is this the student's error?"""

    def call(request: dict[str, Any], correct: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "backward":
            dumps({"classes": "x" * 2**15} | request)
        return {"id": "1", "value": [torch.zeros(2**20 - 500)] * 8, "graph": [True] * 8}

    results = Function("f", call)(torch.ones(2, requires_grad=True))
    with pytest.raises(BadReply, match="is larger than half of the limit"):
        sum(result.sum() for result in results).backward()


def test_module_with_a_forged_description_is_refused(kernel: Kernel) -> None:
    """Does a forged description of a module give the student's error, and does the kernel survive it?"""
    source = "import torch\ndef f():\n    m = torch.nn.Linear(2, 2)\n    m.named_modules = lambda **k: 7\n    return m"
    assert isinstance(error_of(function_of(kernel, "f", source)), Exception)
    assert told(kernel, "print(3)") == 3


def test_module_of_too_many_parts_is_not_kept(kernel: Kernel) -> None:
    """Is a giant module refused by name, and removed? Twenty of them would fill the memory."""
    before = told(kernel, reaching("import inside\nprint(len(inside.MODULES))"))
    source = "import torch\ndef f():\n    return torch.nn.ModuleList(torch.nn.Identity() for _ in range(2000))"
    assert "a module of more than 1000 parts or parameters" in str(error_of(function_of(kernel, "f", source)))
    assert told(kernel, "print(len(inside.MODULES))") == before


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
    function = Function("evaluate", lambda request, correct: kernel.call(request | {"draw": 1}, correct, 20.0))
    arguments = ("means", np.ones((2, 1, 2, 2)), np.array([0, 1]), np.array([2]), "list", 2, 0)
    assert function.asked(vit_measures.ask_evaluation, *arguments) == {"result": (1, 2)}
    with pytest.raises(NameError, match="nobody is not defined"):
        Function("nobody", lambda r, c: kernel.call(r | {"draw": 1}, c, 20.0)).asked(
            vit_measures.ask_evaluation, *arguments
        )


def test_no_text_of_an_answer_is_sent() -> None:
    """Is only the class sent to the sandbox, and nothing else from the file of answers?"""
    text = text_of(encoder.BrokenBlock)
    assert "class BrokenBlock" in text and "import torch" in text
    assert "class LayerNorm" not in text and "def repair" not in text and "solutions" not in text
    exec(compile(text, "sent", "exec"), made := {})
    assert made["BrokenBlock"](8, 2, 12)


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


def test_function_that_asks_for_impossible_gradients_gets_an_error(kernel: Kernel) -> None:
    """Does a request for impossible gradients give the student's error, and does the kernel continue?"""
    source = """
    import inspect
    def attend(x): return x
    def cheat(x, gradients):
        ask = inspect.getclosurevars(attend).nonlocals["ask"]
        try:
            return ask(arguments=[x], keywords={}, gradients=gradients)
        except ValueError:
            return "refused"
    """
    function = function_of(kernel, "cheat", source)
    with function.replaced({"attend": lambda x: x * 2}):
        for gradients in ([], [torch.ones(7)], ["x"], None, 3, [None, None]):
            assert function(torch.ones(2), gradients) == "refused"
        torch.testing.assert_close(function(torch.ones(2), [torch.ones(2)])[0], torch.full((2,), 2.0))


@pytest.mark.parametrize(
    "values",
    [
        [torch.zeros(2, 0), 10**8],
        [torch.zeros(2, 0), -(10**8)],
        [torch.zeros(2, 0), np.int64(10**8)],
        [torch.zeros(2, 0), torch.tensor([10**8])],
        [torch.zeros(2, 0), (3000, 3000)],
        [torch.zeros(2, 0), {"heads": [10**8]}],
        [10**400],
        [[[1.0] * 3000], [[1.0]] * 3000],
        [[np.zeros((1, 3000))], [np.zeros((3000, 1))]],
        ["x" * 3000, 1000],
    ],
    ids=range(10),
)
def test_question_that_asks_for_much_work_is_refused(values: list[Any]) -> None:
    """Is each number in a question limited, at any depth, before a reference implementation computes with it?"""
    calls: list[Any] = []
    for place in ({"arguments": values, "keywords": {}}, {"arguments": [], "keywords": dict(zip("abc", values))}):
        said = answer({"question": "split_heads", **place}, 1000, {"split_heads": lambda *a, **k: calls.append(a)})
        assert "may make at most" in loads(said)["error"] and calls == []


def test_question_of_an_honest_function_is_answered() -> None:
    """Are honest questions with heads, axes, masks, lists and settings far below the limit?"""
    tokens = torch.rand(3, 50, 64)
    for arguments, keywords in (
        ([tokens, 8], {}),
        ([np.ones((4, 3, 20, 16))] * 3, {"mask": np.ones((20, 20), bool)}),
        ([np.ones((5, 7)), -1], {"eps": 1e-5}),
        ([[[1.0, 2.0], [3.0, 4.0]]], {"axis": np.int64(1), "scale": 1e9, "name": "x", "flag": True, "rest": None}),
        ([[tokens, tokens]], {"heads": torch.tensor(4)}),
    ):
        question = {"question": "f", "arguments": arguments, "keywords": keywords}
        assert loads(answer(question, 1000, {"f": lambda *a, **k: 5})) == {"value": 5}


def test_module_may_have_parts_of_any_name() -> None:
    """Can a module be read if its parts, parameters and buffers have names that its stand-in uses itself?"""
    names = {"parameters": "modes", "buffers": "handle"}
    about: dict[str, Any] = {kind: {name: torch.ones(3)} for kind, name in names.items()}
    about |= {
        "modules": {"": "Net", "values": "Linear", "kind": "Identity", "top": "Dropout"},
        "shared": {"modes": "modes"},
    }
    about |= {"training": dict.fromkeys(about["modules"], False), "trainable": {"modes": True}}
    net = Module.like(_Remote(lambda *_: {}, "f"), Handle(0, description=about))
    assert (type(net).__name__, net.handle.number, set(net.state_dict())) == ("Net", 0, {"modes", "handle"})
    assert set(net.modes()) == {"", "values", "kind", "top"}
    assert set(net.values()) == {"modes", "handle"}
    assert [type(part).__name__ for _, part in net.named_children()] == ["Linear", "Identity", "Dropout"]


@pytest.mark.parametrize(
    ("sent", "neighbours"),
    [(layers.LayerNorm, "FeedForward EncoderBlock"), (layers.EncoderBlock, "LayerNorm FeedForward")],
)
def test_no_neighbour_of_a_class_is_sent(sent: type, neighbours: str) -> None:
    """Is a class sent with what it needs, but without classes that an exercise asks for?"""
    text = text_of(sent)
    assert not [name for name in neighbours.split() if f"class {name}" in text]
    exec(compile(text, "sent", "exec"), made := {})
    assert made[sent.__name__](*((8,) if sent is layers.LayerNorm else (8, 2, 12)))

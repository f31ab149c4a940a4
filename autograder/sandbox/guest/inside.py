"""The program in the sandbox: it sets limits, starts IPython's shell as a Jupyter kernel does, and answers requests.

A request of the grader runs a cell or calls a function. All requests go over one socket, one after the other. The part
that answers them is called the agent.

The student's code runs in the same process, and may change all of this. The grader does not rely on this program: at
worst, a message says what the student's function could have returned.
"""

import builtins
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

import out_of_reach
import refused
import wire
from attention_tests.recorder import Recorder
from attention_tests.unwritten import unwritten
from left_behind import State
from memory import Memory
from notebook_shell import OUTPUTS, make_shell, redirect
from stand_in import stand_in

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions
TESTS = "attention_tests"
MODULES: list = []  # PyTorch modules that the student's functions returned; only their indices cross
FILES: dict = {}  # what a file of replacement classes defines, by the file's text
GRAPHS: dict = {}  # for each call whose gradient may be asked for: its outputs, and what they depend on
MEMORY: list = []  # what the notebook held before the first call that must not change it; a cell clears this
ASKS: dict = {}  # modules of the visible tests' package that ask, by name
OWN_TESTS: dict = {}  # the modules of that package that the agent has imported, by name
RECORDERS: list = []  # the recorder that is recording, if any
CHANNEL: list = []  # the socket to the grader
SEND: list = []  # the function that sends a message over the channel
RESTORE_MODULES: list = []  # the function that restores the modules that the agent uses and a student can name
SHELL: list = []  # the shell in which cells run
STATE = None  # the state before any cell ran
QUESTION_LOCK = threading.Lock()  # only one question at a time: a function may have threads


def serve() -> None:
    """Carry out the grader's requests, each a word and its content, until the grader is gone."""
    process = os.getpid()
    while do := _receive().decode():
        if do != "cell":  # a cell is not an answer, and finds what the cell before it has left
            STATE.put_back()  # done before reading: a tensor that is read in inference mode cannot have a gradient
        reply = _reply_to(do, wire.loads(_receive()))
        if os.getpid() != process:  # a function forked this process, and the copy must not answer too
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm that a function has set would raise its error here
        SEND[0](reply)


def _receive() -> bytes:
    """Wait for the grader's next message; it is empty if the grader is gone."""
    (channel,) = CHANNEL
    head = channel.recv(wire.HEAD, socket.MSG_WAITALL)
    return channel.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)


def _reply_to(do: str, request: dict) -> bytes:
    """Carry out one request."""
    reply, namespace = {"id": request["id"]}, SHELL[0].user_ns
    before = {name: namespace.get(name) for name in request["replaced"]}
    try:
        if "draw" in request:
            seed_all(request["draw"])
        classes = {name: _made_from(text)[name] for name, text in request["classes"].items()}
        names = request["replaced"]
        namespace.update({name: classes.get(name) or _ask_grader(name, names[name], before[name]) for name in before})
        action = {
            "cell": _cell,
            "answer": _cell,
            "call": _call,
            "backward": _backward,
            "ask": _ask,
            "record": _record,
        }[do]
        reply |= action(request, namespace)
        RESTORE_MODULES[0]()
        return wire.dumps(reply, _handle_of)
    except BaseException as error:
        RESTORE_MODULES[0]()
        names = [kind.__name__ for kind in type.mro(type(error))]
        try:
            said = {"text": str(error)[:2000], "line": _line_of(error), "unwritten": unwritten(error)}
        except BaseException:  # the error itself raises errors
            said = {}
        return wire.dumps({"id": request["id"], "error": names} | said)
    finally:
        namespace.update({name: own for name, own in before.items() if own is not None})
        for name in (name for name, own in before.items() if own is None):
            namespace.pop(name, None)


def note_state() -> None:
    """Note the state of Python and the libraries before any cell runs, if that is not done yet."""
    global STATE
    STATE = STATE or State()


def seed_all(seed: int | None) -> None:
    """Seed the random generators of this process; None seeds them at random."""
    # A library may not be imported, or the student's code may have replaced it.
    if_it_is_there = contextlib.suppress(Exception)
    with if_it_is_there:
        random.seed(seed)
    with if_it_is_there:
        sys.modules["numpy"].random.seed(seed)
    with if_it_is_there:
        generator = sys.modules["torch"].default_generator  # torch.manual_seed takes milliseconds: it seeds all devices
        generator.seed() if seed is None else generator.manual_seed(seed)


def _cell(request: dict, namespace: dict) -> dict:
    """Run a cell as a notebook does; return what it showed."""
    MEMORY.clear()
    OUTPUTS.begin(request["room"], request["pieces"])
    if request["acts"]:
        STATE.watch(request["source"])
        STATE.known_changes = None
    try:
        with _restoring_names(namespace) if request["forgotten"] else contextlib.nullcontext():
            SHELL[0].run_cell(request["source"], store_history=True)
    finally:
        found = OUTPUTS.end()
    return found | {"changed": STATE.changed_names()[:10] if request["acts"] else []}


@contextlib.contextmanager
def _restoring_names(namespace: dict):
    """Restore the contents of the notebook's names at the end of a `with` block."""
    MEMORY[:] = MEMORY or [Memory(namespace)]
    try:
        yield
    finally:
        MEMORY[0].put_back()


def _call(request: dict, namespace: dict) -> dict:
    """Call a student's function by name, or a module by its handle, with plain values."""
    target = request["target"]
    for number, state, training in request["modules"]:
        _synchronise(_resolve(wire.Handle(number)), state, training)
    if isinstance(target, wire.Handle):
        function = module = _resolve(target)
    else:
        function, module = _named(target, namespace), None
    sent, keywords = request["arguments"], request["keywords"]
    for place in request.get("stand_ins", ()):  # stand-ins instead of the grader's functions
        sent[place] = namespace[f"argument {place}"]
    leaves = [sent[index].requires_grad_() for index in request["differentiable"]]
    for index, leaf in zip(request["differentiable"], leaves):
        sent[index] = leaf.clone()  # the function may change the clone in place
    if request.get("forgotten"):
        with _restoring_names(namespace):
            function(*_resolved(sent), **_resolved(keywords))
        return {}
    value = function(*_resolved(sent), **_resolved(keywords))
    reply = {"value": value, "arguments": sent}  # the arguments as the call left them
    if module is not None:
        reply["buffers"] = dict(MODULES[target.number].named_buffers())
        leaves += [parameter for _, parameter in _parameters(MODULES[target.number])]
    outputs = [item for item in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(item, "grad_fn")]
    if request["gradient"] and any(output.requires_grad for output in outputs):
        GRAPHS[request["id"]] = (outputs, leaves)
        reply["graph"] = [output.requires_grad for output in outputs]
    return reply


def _ask(request: dict, namespace: dict) -> dict:
    """Ask a student's function: run a function of the visible tests' package with it and plain values."""
    ask = getattr(_own_module(request["module"]), request["ask"])
    written = [_named(name, namespace) for name in (request["function"], *request["others"])]
    value = ask(*written, *request["arguments"])
    return {"value": value, "arguments": request["arguments"]}


def _own_module(name: str):
    """Return a module of the visible tests' package; no name of the notebook leads to it, and the notebook has its own copy."""
    if name not in ASKS:
        theirs = {each: sys.modules.pop(each) for each in list(sys.modules) if each.split(".")[0] == TESTS}
        try:
            sys.modules.update(OWN_TESTS)
            ASKS[name] = importlib.import_module(name)
        finally:
            OWN_TESTS.update({each: sys.modules.pop(each) for each in list(sys.modules) if each.split(".")[0] == TESTS})
            sys.modules.update(theirs)
    return ASKS[name]


def _record(request: dict, namespace: dict) -> dict:
    """Begin to record what the notebook's functions compute; or stop, restore their code, and return the record."""
    ended = RECORDERS.pop() if RECORDERS else None
    if ended is not None:
        ended.__exit__()
    if request["on"]:
        RECORDERS.append(Recorder(namespace, request["left_alone"], out_of_reach.closed).__enter__())
        return {}
    return {"value": ended.record()} if ended else {}


def _named(name: str, namespace: dict):
    if name not in namespace:
        raise NameError(f"{name} is not defined; did its cell run without an error?")
    return namespace[name]


def _backward(request: dict, namespace: dict) -> dict:
    """Carry gradients of a call's outputs back to its inputs and to the module's parameters."""
    import torch

    outputs, leaves = GRAPHS[request["graph"]]
    pairs = [(o, g) for o, g in zip(outputs, request["gradients"]) if o.requires_grad and g is not None]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    # The sum of the products has the same gradients. If autograd got the gradients themselves, it would import SymPy,
    # which takes half a second in each kernel.
    total = sum((output * gradient).sum() for output, gradient in pairs)
    found = iter(torch.autograd.grad(total, wanted, retain_graph=True, allow_unused=True))
    return {"gradients": [next(found) if leaf.requires_grad else None for leaf in leaves]}


def _handle_of(module) -> wire.Handle:
    """Give a module a number, and say what it is made of: the paths and types of its parts, its parameters, its buffers."""
    first: dict[int, str] = {}
    shared = {name: first.setdefault(id(p), name) for name, p in module.named_parameters(remove_duplicate=False)}
    description = {
        "modules": {path: type(part).__name__ for path, part in module.named_modules(remove_duplicate=False)},
        "training": {path: part.training for path, part in module.named_modules(remove_duplicate=False)},
        "shared": shared,  # name -> the first name of the same parameter
        "parameters": dict(module.named_parameters()),
        "trainable": {name: parameter.requires_grad for name, parameter in module.named_parameters()},
        "buffers": dict(module.named_buffers()),
    }
    if max(map(len, description.values())) > wire.MAX_PARTS:  # refused, because many such modules would fill the memory
        raise ValueError(f"a module of more than {wire.MAX_PARTS} parts or parameters")
    number = next((number for number, known in enumerate(MODULES) if known is module), len(MODULES))
    if number == len(MODULES):
        MODULES.append(module)
    return wire.Handle(number, description=description)


def _parameters(module) -> list:
    return sorted(module.named_parameters())


def _synchronise(module, state: dict, training: dict) -> None:
    """Copy the values of a module's likeness, which is on the grader's side, into the module."""
    import torch

    values = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, value in state.items():
            values[name].copy_(value)
    for path, flag in training.items():
        module.get_submodule(path).training = flag


def _resolve(handle: wire.Handle):
    if not 0 <= handle.number < len(MODULES):
        raise RuntimeError("this module was lost with its kernel")
    return MODULES[handle.number].get_submodule(handle.path)


def _resolved(value):
    if isinstance(value, wire.Handle):
        return _resolve(value)
    if type(value) in (list, tuple):
        return type(value)(_resolved(item) for item in value)
    if type(value) is dict:
        return {key: _resolved(item) for key, item in value.items()}
    return value


def _made_from(text: str) -> dict:
    """Return what the text of a file defines."""
    if text not in FILES:
        FILES[text] = {"__name__": "stand_ins"}
        exec(text, FILES[text])
    return FILES[text]


def _ask_grader(name: str, names: list[str], own):
    """Return a stand-in for an earlier exercise whose correct answer stays with the grader. Arguments as in `stand_in`."""

    def ask(**question):
        with QUESTION_LOCK:
            SEND[0](wire.dumps({"question": name} | question))
            answer = wire.loads(_receive())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["value"]

    return stand_in(name, out_of_reach.closed(ask), tuple(names), own)


def _line_of(error: BaseException) -> str:
    """Return the student's line at which an error arose."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith("<ipython-input"):
            found = f"in {code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


def serve_kernel(channel: int, limits: dict[str, int]) -> None:
    """Set the limits, say over the channel that all is ready, and serve.

    Args:
        channel: The descriptor of the socket to the grader.
        limits: The limits, by their names in the module `resource`.
    """
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    if limits:
        refused.refuse_calls()
    home = Path(os.environ["HOME"])
    for font_list in Path("/grader").glob("fontlist-*.json"):  # otherwise Matplotlib needs seconds to find fonts
        (home / ".cache/matplotlib").mkdir(parents=True, exist_ok=True)
        shutil.copy(font_list, home / ".cache/matplotlib")
    os.chdir(home)
    installed = next((place for place, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
    sys.path.insert(installed, "")  # as in Jupyter, a cell can import a file that a cell has written
    os.set_inheritable(channel, False)
    CHANNEL.append(socket.socket(fileno=channel))
    SHELL.append(make_shell())
    redirect()
    note_state()
    STATE.begin()
    with open(os.devnull, "wb") as nowhere:  # the log is for the start only
        for output in (1, 2):
            os.dup2(nowhere.fileno(), output)
    CHANNEL[0].sendall(b"!")
    key = _receive()  # the grader sends the key last, after it has changed this process from outside
    if limits:
        refused.refuse_own_memory()
    SEND.append(out_of_reach.sender(CHANNEL[0], key))
    owners = [
        wire,
        wire.__builtins__,
        wire._Packer,
        wire._Reader,
        wire._Count,
        wire.Handle,
        wire.Foreign,
        State,
        Memory,
    ]
    owners += [json, json.encoder, json.decoder, json.JSONEncoder, json.JSONDecoder]
    RESTORE_MODULES.append(out_of_reach.keeper(owners))
    ours = [
        "inside",
        "left_behind",
        "memory",
        "notebook_shell",
        "out_of_reach",
        "refused",
        "stand_in",
        "wire",
    ]
    OWN_TESTS.update({name: module for name, module in sys.modules.items() if name.split(".")[0] == TESTS})
    ours += OWN_TESTS  # a notebook imports its own copy
    out_of_reach.hide(str(Path(__file__).parent), ours)
    # With this attribute, IPython would make this program `__main__` again when it ends.
    vars(SHELL[0]).pop("_orig_sys_modules_main_mod", None)
    out_of_reach.watch(SEND[0], ("inside", "notebook_shell", "out_of_reach", "warm", "wire"))
    serve()


if __name__ == "__main__":
    import inside  # a second module, because IPython makes the notebook __main__

    inside.serve_kernel(int(sys.argv[1]), json.loads(sys.argv[2]))

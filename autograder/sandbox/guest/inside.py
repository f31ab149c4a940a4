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
import pkgutil
import random
import resource
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

import attention_tests.compare
import out_of_reach
import refused
import wire
from attention_tests.recorder import Recorder
from attention_tests.unwritten import unwritten
from candidate import candidate
from left_behind import State
from memory import Memory
from notebook_shell import OUTPUTS, make_shell, redirect
from replacement import replacement

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions
FOLDER = str(Path(__file__).parent)
OURS = (
    "attention_tests",
    "autograder",
)  # packages of ours from which the agent imports what asks, and what replaces answers
MEMORY: list = []  # what the notebook held before the first call that must not change it; a cell clears this
IMPORTED: dict = {}  # the modules of these packages that the agent has imported, by name
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
        for name, (module, ours) in request["replaced"].items():
            namespace[name] = replacement(getattr(_own_module(module), ours), before[name])
        action = {"cell": _cell, "answer": _cell, "ask": _ask, "try": _try, "record": _record}[do]
        reply |= action(request, namespace)
        RESTORE_MODULES[0]()
        return wire.dumps(reply)
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


def _ask(request: dict, namespace: dict) -> dict:
    """Ask a student's function: run a function of the visible tests' package with it and plain values."""
    ask = getattr(_own_module(request["module"]), request["ask"])
    written = [_named(name, namespace) for name in (request["function"], *request["others"])]
    value = ask(*written, *request["arguments"], **request["keywords"])
    return {"value": value, "arguments": request["arguments"]}  # the arguments as the call left them


def _try(request: dict, namespace: dict) -> dict:
    """Call a student's test with a candidate, which asks the grader for its values."""
    test, forgotten = _named(request["function"], namespace), request.get("forgotten")
    with _restoring_names(namespace) if forgotten else contextlib.nullcontext():
        value = test(candidate(out_of_reach.closed(_ask_grader)))
    return {} if forgotten else {"value": value}


def _own_module(name: str):
    """Return a module of ours. No name of the notebook leads to it, and the notebook imports its own copy."""
    if name not in IMPORTED:
        theirs, path = _taken_out(), list(sys.path)
        try:
            sys.modules.update(IMPORTED)
            sys.path.insert(0, FOLDER)
            importlib.import_module(name)
        finally:
            sys.path[:] = path
            IMPORTED.update(_taken_out())
            sys.modules.update(theirs)
    return IMPORTED[name]


def import_ours() -> None:
    """Import all that asks, and all that replaces answers, so that each question finds it ready."""
    for module in pkgutil.iter_modules(attention_tests.__path__, "attention_tests."):
        importlib.import_module(module.name)
    for path in Path(FOLDER, "autograder").rglob("*.py"):
        importlib.import_module(".".join(path.relative_to(FOLDER).with_suffix("").parts))


def _taken_out() -> dict:
    """Take the modules of our packages out of the imported modules; return them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in OURS}


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


def _ask_grader(**question):
    """Ask the grader for a value of the candidate that is being tried."""
    with QUESTION_LOCK:
        SEND[0](wire.dumps({"question": True} | question))
        answer = wire.loads(_receive())
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["value"]


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
        wire.Foreign,
        State,
        Memory,
    ]
    owners += [json, json.encoder, json.decoder, json.JSONEncoder, json.JSONDecoder]
    RESTORE_MODULES.append(out_of_reach.keeper(owners))
    IMPORTED.update(_taken_out())
    out_of_reach.hide(FOLDER, [path.stem for path in Path(FOLDER).glob("*.py")])
    # With this attribute, IPython would make this program `__main__` again when it ends.
    vars(SHELL[0]).pop("_orig_sys_modules_main_mod", None)
    out_of_reach.watch(SEND[0], ("inside", "notebook_shell", "out_of_reach", "warm", "wire"))
    serve()


if __name__ == "__main__":
    import inside  # a second module, because IPython makes the notebook __main__

    inside.serve_kernel(int(sys.argv[1]), json.loads(sys.argv[2]))

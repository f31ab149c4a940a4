"""The program in the sandbox: it sets limits, starts IPython's shell as a Jupyter kernel does, and answers requests.

A request of the grader runs a cell, or asks a student's function. Cells run in this process, one after the other. The
questions of tests are answered in a process that is forked from this one, and that the grader ends before it runs the
next cell, and whenever later tests must find nothing of earlier ones. All requests go over one socket. The part that
answers them is called the agent.

The student's code runs in the same process, and may change all of this. The grader does not rely on this program: at
worst, a message says what the student's function could have returned.
"""

import builtins
import contextlib
import importlib.util
import json
import os
import pkgutil
import random
import resource
import secrets
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path

import attention_tests.compare
import refused
import wire
from attention_tests.line import find_line
from attention_tests.unwritten import unwritten
from given import candidate, replacement
from notebook_shell import OUTPUTS, make_shell, redirect

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions
FOLDER = str(Path(__file__).parent)
IMPORTED: dict = {}  # our modules: attention_tests, which asks, and what replaces answers, which no notebook may import
CHANNEL: list = []  # the socket to the grader
SHELL: list = []  # the shell in which cells run
DEFINED: dict = {}  # what cells have defined, by name and number of the cell
QUESTION_LOCK = threading.Lock()  # only one question at a time: a function may have threads


def serve() -> None:
    """Carry out the grader's requests until the grader is gone. The process of a test does this until it is ended."""
    while do := _receive().decode():
        if do == "test":
            _serve_in_own_process()
            _send(wire.dumps({"ended": True}))
        else:
            _answer(do)


def _serve_in_own_process() -> None:
    """Let a copy of this process serve, and wait until the copy ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of a fork if a cell has started threads
        child = os.fork()
    if child == 0:
        try:
            sys.settrace(None)  # what a cell has left on would slow every test
            sys.setprofile(None)
            _send(wire.dumps({"began": True}))
            serve()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _answer(do: str) -> None:
    """Carry out one request, and send the reply."""
    process = os.getpid()
    reply = _reply_to(do, wire.loads(_receive()))
    if os.getpid() != process:  # a function forked this process, and the copy must not answer too
        os._exit(0)
    signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm that a function has set would raise its error here
    _send(reply)


def _send(message: bytes) -> None:
    CHANNEL[0].sendall(wire.frame(message))


def _receive() -> bytes:
    """Wait for the grader's next message; it is empty if the grader is gone."""
    (channel,) = CHANNEL
    head = channel.recv(wire.HEAD, socket.MSG_WAITALL)
    return channel.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)


def _reply_to(do: str, request: dict) -> bytes:
    """Carry out one request; return the reply."""
    reply, namespace = {"id": request["id"]}, SHELL[0].user_ns
    chosen = ((name, number) for name, number in request["chosen"].items() if (name, number) in DEFINED)
    namespace.update({name: DEFINED[name, number] for name, number in chosen})
    before = {name: namespace.get(name) for name in request["replaced"]}
    try:
        if "draw" in request:
            seed_all(request["draw"])
        for name, (module, ours) in request["replaced"].items():
            namespace[name] = replacement(getattr(_own_module(module), ours), before[name])
        action = {"cell": _cell, "ask": _ask, "find": _find, "try": _try}[do]
        return wire.dumps(reply | action(request, namespace), wire.MAX_TEXT)
    except BaseException as error:
        names = [kind.__name__ for kind in type.mro(type(error))]
        try:
            said = {"text": str(error)[:2000], "line": _line_of(error), "unwritten": unwritten(error)}
        except BaseException:  # the error itself raises errors
            said = {}
        return wire.dumps(reply | {"error": names} | said)
    finally:
        for name, own in before.items():
            namespace.pop(name, None) if own is None else namespace.update({name: own})


def seed_all(seed: int | None) -> None:
    """Seed the random generators of this process; None seeds them at random."""
    seeded = [
        lambda: random.seed(seed),
        lambda: sys.modules["numpy"].random.seed(seed),
        # torch.manual_seed takes milliseconds: it seeds all devices
        lambda: sys.modules["torch"].default_generator.manual_seed(secrets.randbits(31) if seed is None else seed),
    ]
    for seed_one in seeded:
        with contextlib.suppress(Exception):  # the library is not imported, or the student's code has replaced it
            seed_one()


def _cell(request: dict, namespace: dict) -> dict:
    """Run a cell as a notebook does; keep the answers that it defines; return what it showed."""
    before = {name: namespace.get(name) for name in request["defines"]}
    OUTPUTS.begin(request["room"], request["pieces"])
    try:
        SHELL[0].run_cell(request["source"], store_history=True)
    finally:
        found = OUTPUTS.end()
    new = {name for name in before if namespace.get(name) is not before[name]}
    DEFINED.update({(name, request["number"]): namespace[name] for name in new})
    return found


def _ask(request: dict, namespace: dict) -> dict:
    """Ask a student's function: run a function of the visible tests' package with it and plain values."""
    ask = getattr(_own_module(request["module"]), request["ask"])
    written = [_named(name, namespace) for name in (request["function"], *request["others"])]
    value = ask(*written, *request["arguments"], **request["keywords"])
    arrays = [each if hasattr(each, "shape") else None for each in request["arguments"]]  # as the call left them
    return {"value": value, "arguments": arrays}


def _find(request: dict, namespace: dict) -> dict:
    """Look for the wrong line of an answer."""
    ask = getattr(_own_module(request["module"]), request["ask"])
    read = getattr(_own_module(request["reads"]), request["read"])
    written = [_named(name, namespace) for name in (request["function"], *request["others"])]
    return {"value": find_line(written, ask, read, request["names"], request["case"], request["left_alone"])}


def _try(request: dict, namespace: dict) -> dict:
    """Call a student's test with a candidate, which asks the grader for its values."""
    _named(request["function"], namespace)(candidate(_ask_grader))
    return {}


def _own_module(name: str):
    """Return a module of ours: of the visible tests' package, or a file here, which no notebook can import."""
    if name not in IMPORTED:
        file = Path(FOLDER, *name.split(".")).with_suffix(".py")
        if file.exists():
            spec = importlib.util.spec_from_file_location(name, file)
            IMPORTED[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(IMPORTED[name])
        else:
            IMPORTED[name] = importlib.import_module(name)
    return IMPORTED[name]


def import_ours() -> None:
    """Import all that asks, and all that replaces answers, so that each question finds it ready."""
    for module in pkgutil.iter_modules(attention_tests.__path__, "attention_tests."):
        _own_module(module.name)
    for file in Path(FOLDER).glob("autograder/**/*.py"):
        _own_module(".".join(file.relative_to(FOLDER).with_suffix("").parts))


def _named(name: str, namespace: dict):
    if name not in namespace:
        raise NameError(f"{name} is not defined; does its cell define this name, and did it run without an error?")
    return namespace[name]


def _ask_grader(**question):
    """Ask the grader for a value of the candidate that is being tried."""
    with QUESTION_LOCK:
        _send(wire.dumps({"question": True} | question))
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
    os.chdir(os.environ["HOME"])
    installed = next((place for place, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
    sys.path.insert(installed, "")  # as in Jupyter, a cell can import a file that a cell has written
    os.set_inheritable(channel, False)
    CHANNEL.append(socket.socket(fileno=channel))
    SHELL.append(make_shell())
    redirect()
    with open(os.devnull, "wb") as nowhere:  # the log is for the start only
        for output in (1, 2):
            os.dup2(nowhere.fileno(), output)
    CHANNEL[0].sendall(b"!")
    _receive()  # the grader has now changed this process from outside
    if limits:
        refused.refuse_own_memory()
    for path in Path(FOLDER).glob("*.py"):  # a cell imports none of our files by mistake
        sys.modules.pop(path.stem, None)
    sys.path[:] = [path for path in sys.path if path != FOLDER]
    # With this attribute, IPython would make this program `__main__` again when it ends.
    vars(SHELL[0]).pop("_orig_sys_modules_main_mod", None)
    serve()


if __name__ == "__main__":
    import inside  # a second module, because IPython makes the notebook __main__

    inside.import_ours()  # some import PyTorch, which no question's time may pay for
    inside.serve_kernel(int(sys.argv[1]), json.loads(sys.argv[2]))

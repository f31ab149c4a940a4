"""Keep the agent out of a student's reach, and notice code that reaches for it. This runs in the sandbox.

Python cannot hide one part of a process from another. So this module removes the names that lead to the agent. A
program can also find objects without a name, through frames, the garbage collector or memory. An audit hook watches
these, and Python code cannot remove the hook. The public functions for debugging get replacements that do not lead to
the agent.

This file has no class with methods, and the code that does the work is in nested functions. The reason: a class or a
function leads to every name in its file, and Python lists all classes.
"""

import _signal
import builtins
import ctypes
import dis
import functools
import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from operator import is_
from threading import RLock, get_ident
from types import CodeType, FrameType, FunctionType, SimpleNamespace

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions
HEAD, SEAL = 8, 16  # bytes before a message: its length; the seal that proves that the agent sent it
REACHED = b"reached "  # begins a message that reports what a student's code reaches for
MOST_TOLD = 5  # largest number of such messages
# Events of Python's audit hooks. No library that the exercises use causes the events of BY_ANYBODY.
BY_ANYBODY = {
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
    "sys._current_frames",
    "sys._current_exceptions",
}
TRACES = {"sys.settrace", "sys.setprofile"}
# Events of ctypes that can reach any memory.
READS = {"cdata", "string_at", "wstring_at", "cast", "call_function", "dlsym", "dlsym/handle"}
BY_STUDENTS = {"sys.addaudithook", "marshal.loads"} | {f"ctypes.{name}" for name in READS}
# Events that matter only with some arguments or callers.
OTHERS = {
    "sys._getframe",
    "object.__setattr__",
    "object.__delattr__",
    "object.__getattr__",
    "code.__new__",
    "compile",
    "import",
}
FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}  # attributes that hold a frame
HARMLESS = {"f_code", "f_lineno"}  # attributes of a frame that lead to no other frame
CODE = {"__code__", "__defaults__", "__kwdefaults__"}  # attributes that change what a function does
GETS_FRAME = ("_getframe", "currentframe")  # ends of the names by which a library asks for a frame
GIVES_FRAMES = (f"asyncio{os.sep}base_tasks.py", f"asyncio{os.sep}graph.py")  # files that get no frames of tasks
CLOSED = functools._lru_cache_wrapper  # written in C; a cell may replace what `functools.lru_cache` calls
# Modules that act for their callers. If functions are named, only these give a frame to their caller; the other
# functions of the module only print it.
FRAME_HELPERS = {
    "out_of_reach": (),
    "ctypes": (),
    "inspect": (),
    "traceback": ("walk_stack", "walk_tb"),
    "logging": ("<lambda>",),
}
TRACERS = ("bdb.py", "threading.py", "profile.py", "trace.py")  # they give frames to a function that traces a program
SHOWN = ("__main__", "numpy", "torch")  # gc.get_objects shows their objects: the notebook's classes, arrays, tensors


def hide(folder: str, names: Iterable[str]) -> None:
    """Let no name lead to our modules: remove them from the imported modules, and their folder from the path of imports."""
    for name in names:
        sys.modules.pop(name, None)
    sys.path[:] = [path for path in sys.path if path != folder]
    sys.path_importer_cache.pop(folder, None)


def closed(function: Callable) -> Callable:
    """Return a callable of the same name that is not a Python function, so that none of its attributes leads to its file."""
    made = CLOSED(function, 0, False, None)  # without results that are kept
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    return made


def sender(channel: object, key: bytes) -> Callable[[bytes], None]:
    """Return a function that sends a message with the agent's seal.

    The seal is made from the key, the number of earlier messages and the message.
    """
    keyed, write, lock, count = hashlib.blake2b(key=key, digest_size=SEAL), channel.sendall, RLock(), 0

    def send(message: bytes) -> None:
        nonlocal count
        with lock:
            seal = keyed.copy()
            seal.update(count.to_bytes(8, "big"))
            seal.update(message)
            count += 1
            write((SEAL + len(message)).to_bytes(HEAD, "big") + seal.digest() + message)

    return send


def keeper(owners: Iterable[object]) -> Callable[[], None]:
    """Return a function that restores what modules, classes and dicts hold now."""
    kept = [(owner, dict(owner if isinstance(owner, dict) else vars(owner))) for owner in owners]

    def put_back() -> None:
        for owner, before in kept:
            now = owner if isinstance(owner, dict) else vars(owner)
            if all(map(is_, map(now.get, before), before.values())):  # nearly always true, and fast
                continue
            for name in [name for name, value in before.items() if now.get(name) is not value]:
                owner.update({name: before[name]}) if owner is now else setattr(owner, name, before[name])

    return put_back


def watch(send: Callable[[bytes], None], names: Iterable[str]) -> None:
    """Watch this process until it ends, and report code of the student that reaches for objects without a name.

    The public functions for frames and objects, with which people debug, get replacements that do not lead to the agent.

    Args:
        send: Sends a message to the grader.
        names: Names of our modules, which nobody else imports.
    """
    own_folder = os.path.dirname(os.path.abspath(__file__)) + os.sep
    folders = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))
    libraries = (*(folder + os.sep for folder in folders), own_folder, "<frozen ")
    files = {
        f"{os.sep}{name}{end}": givers
        for name, givers in FRAME_HELPERS.items()
        for end in (".py", f"{os.sep}__init__.py")
    }
    helpers, tracers = tuple(files), tuple(os.sep + name for name in TRACERS)
    process, names, step = os.getpid(), frozenset(names), _step_of_attributes()
    told, busy, innermost = set(), set(), sys._getframe
    plain = BY_ANYBODY | BY_STUDENTS | TRACES
    watched = plain | OTHERS

    def hook(event: str, arguments: tuple) -> None:
        if event not in watched or len(told) >= MOST_TOLD:
            return
        thread = get_ident()
        if thread in busy:
            return
        busy.add(thread)  # until the hook returns, only our own code runs
        try:
            if event == "object.__getattr__" and innermost(1).f_code.co_filename.endswith(GIVES_FRAMES):
                raise AttributeError(arguments[1])  # the task then shows no frames, as if it had ended
            if (target := target_of(event, arguments)) and (place := place_of(event, target)) and place not in told:
                told.add(place)
                if os.getpid() == process:  # a forked copy must not send messages
                    send(REACHED + place.encode("utf-8", "replace"))
        finally:
            busy.discard(thread)

    def target_of(event: str, arguments: tuple) -> str:
        """Return in words what an event may reach for."""
        if event in plain or event == "sys._getframe":
            return event
        if event == "object.__getattr__":
            return arguments[1] if arguments[1] in FRAMES else ""
        if event in ("object.__setattr__", "object.__delattr__"):
            function = arguments[0]
            changes = arguments[1] in CODE and type(function) is FunctionType and is_library(function.__code__)
            return f"{arguments[1]} of a library" if changes else ""
        name = arguments[event in ("compile", "code.__new__")]
        name = os.fsdecode(name) if type(name) is bytes else name
        # a student's subclass of str may have its own methods
        name = str.__str__(name) if isinstance(name, str) else ""
        if event == "import":
            return f"import {name}" if name in names else ""
        return "a name of a library's file" if name.startswith(libraries) else ""

    def is_library(code: CodeType) -> bool:
        return str.__str__(code.co_filename).startswith(libraries)

    def who_asks(first: FrameType) -> FrameType:
        """Return the frame that called a module that acts for its callers."""
        while first.f_back is not None and first.f_code.co_filename.endswith(helpers):
            first = first.f_back
        return first

    def keeps(first: FrameType) -> bool:
        """Whether a requested frame stays in a library and does not reach the library's caller."""
        frame, code = who_asks(first), first.f_code
        means_it = any(name.endswith(GETS_FRAME) for name in (*code.co_names, *code.co_varnames))
        return (means_it and is_library(frame.f_code)) or keeps_its_frame(first, frame)

    def place_of(event: str, target: str) -> str:
        """Return what the student's code reaches for, and where; "" if the code is not the student's."""
        first = innermost().f_back.f_back
        if first is None:  # a thread without any other frame
            return f"{target}, a thread"
        if first.f_code in replacements:
            return ""
        frame = who_asks(first)
        code, file = frame.f_code, first.f_code.co_filename
        if event == "sys._getframe":
            allowed = keeps(first)
        elif event in TRACES:
            allowed = is_library(code) and not file.endswith(tracers) and event[4:] in first.f_code.co_names
            allowed = allowed or (file.endswith("cProfile.py") and first.f_code.co_name != "runcall")
        elif target in FRAMES:
            allowed = is_library(code) or keeps_its_frame(first, frame) or (first is frame and reads_on(frame))
        else:
            allowed = is_library(code) and event not in BY_ANYBODY
        return "" if allowed else f"{target}, {str.__str__(code.co_name)}, line {frame.f_lineno}"

    def keeps_its_frame(first: FrameType, frame: FrameType) -> bool:
        """Whether a module that acts for its callers keeps its frame to itself."""
        givers = next((givers for file, givers in files.items() if first.f_code.co_filename.endswith(file)), ())
        return bool(givers) and first is not frame and (first.f_back is not frame or first.f_code.co_name not in givers)

    def reads_on(frame: FrameType) -> bool:
        """Whether the code that now reads a frame only reads a harmless attribute of that frame."""
        code, place = frame.f_code.co_code, frame.f_lasti
        reads, size, shift = step
        if code[place] != reads or code[place + size : place + size + 1] != bytes([reads]):
            return False
        return frame.f_code.co_names[code[place + size + 1] >> shift] in HARMLESS

    def getframe(depth: int = 0, /) -> FrameType:
        frame = innermost(max(depth, 0) + 1)
        return frame if keeps(innermost(1)) else shown(frame)

    def shown(frame: FrameType) -> object:
        """Return a copy of a frame for a student; the frames above it end where the grader's own begin."""
        frames, last = [], None
        while frame is not None and not frame.f_code.co_filename.startswith(own_folder):
            frames.append(frame)
            frame = frame.f_back
        for frame in reversed(frames):
            if is_library(frame.f_code):
                names = {}
            else:
                names = frame.f_globals if frame.f_locals is frame.f_globals else dict(frame.f_locals)
            last = stand_in(
                f_back=last,
                f_code=frame.f_code,
                f_lineno=frame.f_lineno,
                f_lasti=frame.f_lasti,
                f_globals=frame.f_globals,
                f_builtins=frame.f_builtins,
                f_locals=names,
                f_trace=None,
            )
        return last

    def set_handler(number: int, handler: object, /) -> object:
        handled = closed(lambda number, frame: handler(number, shown(frame))) if callable(handler) else handler
        return original_signal(number, handled)

    def get_objects(generation: int | None = None) -> list:
        return [item for item in all_objects(generation) if module_of(type(item)).split(".")[0] in SHOWN]

    def module_of(kind: type) -> str:
        name = of_type(kind)
        return name if type(name) is str else ""

    def cast(*arguments: object) -> object:
        audit("ctypes.cast")
        return quiet(*arguments)

    class_of, text_of = closed(lambda frame: FrameType), closed(lambda frame: f"<frame of {frame.f_code.co_name}>")
    parts = {"__class__": property(class_of), "__repr__": text_of, "clear": closed(lambda frame: None)}
    stand_in = type("frame", (SimpleNamespace,), parts)
    all_objects, of_type = gc.get_objects, vars(type)["__module__"].__get__
    quiet, audit, ctypes._cast = ctypes._cast, sys.audit, closed(cast)  # _cast reads memory without an audit event
    replacements = (getframe.__code__, get_objects.__code__)
    original_signal = _signal.signal  # a handler gets the interrupted frame
    sys._getframe, gc.get_objects, _signal.signal = closed(getframe), closed(get_objects), closed(set_handler)
    sys.addaudithook(hook)


def _step_of_attributes() -> tuple[int, int, int]:
    """Return how bytecode reads an attribute.

    Returns:
        The opcode, its size in bytes, and the number of bits in its argument below the index of the name.
    """
    code = compile("a.b.c", "<attributes>", "eval")
    one, other = (step for step in dis.get_instructions(code) if step.opname == "LOAD_ATTR")
    return one.opcode, other.offset - one.offset, int(other.arg != code.co_names.index("c"))

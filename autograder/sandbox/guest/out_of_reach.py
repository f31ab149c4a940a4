"""What keeps the agent out of a student's reach, and notices code that reaches for it. It runs in the sandbox.

Python cannot hide one part of a process from another. So no name leads to the agent, and the ways by which a program finds
what has no name (frames, the garbage collector, memory) are watched by an audit hook, which Python code cannot remove.

There is no class in here, and what works is held by functions within functions: from a class, which Python lists, and from
a function lead ways to all that its file knows.
"""

import builtins
import ctypes
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from threading import RLock, get_ident

__builtins__ = dict(vars(builtins))  # a copy for the code below: a cell may replace Python's own
HEAD, SEAL = 8, 16  # bytes before a message of the agent's: how many follow; that it is the agent's
REACHED = b"reached "  # how a message begins that says for what a student's code reaches
MOST_TOLD = 5  # of them
# Events of Python's audit hooks. No library that exercises use calls the first, whoever asks it to.
BY_ANYBODY = {
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
    "sys._current_frames",
    "sys._current_exceptions",
}
BY_STUDENTS = {"sys._getframe", "sys.settrace", "sys.setprofile", "sys.addaudithook", "code.__new__", "marshal.loads"}
CHANGES = {"object.__setattr__", "object.__delattr__"}  # of a function's code
OTHERS = {"object.__getattr__", "import", "compile", "open"}  # which only some arguments make one
FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}  # attributes that hold one
# Modules that act for whoever calls them. Of most, the functions named give their caller a frame, the others print it.
LENDERS = {
    "out_of_reach": (),
    "ctypes": (),
    "inspect": (),
    "traceback": ("walk_stack", "walk_tb"),
    "logging": ("<lambda>",),
}


def hide(folder: str, names: Iterable[str]) -> None:
    """Let no name lead to our modules: they cannot be imported from their folder, nor found among those that were."""
    for name in names:
        sys.modules.pop(name, None)
    sys.path[:] = [path for path in sys.path if path != folder]
    sys.path_importer_cache.pop(folder, None)


def closed(function: Callable) -> Callable:
    """Return a callable of the same name that is no function of Python's, so that nothing of it leads to its file."""
    made = functools.lru_cache(maxsize=0)(function)  # written in C; it keeps no results here
    del made.__wrapped__
    return made


def sender(channel: object, key: bytes) -> Callable[[bytes], None]:
    """Return what sends a message with the agent's seal: it depends on the key, and on how many were sent before."""
    keyed, write, alone, count = hashlib.blake2b(key=key, digest_size=SEAL), channel.sendall, RLock(), 0

    def send(message: bytes) -> None:
        nonlocal count
        with alone:
            seal = keyed.copy()
            seal.update(count.to_bytes(8, "big"))
            seal.update(message)
            count += 1
            write((SEAL + len(message)).to_bytes(HEAD, "big") + seal.digest() + message)

    return send


def keeper(owners: Iterable[object]) -> Callable[[], None]:
    """Return what gives modules, classes and dicts back what they hold now."""
    kept = [(owner, dict(owner if isinstance(owner, dict) else vars(owner))) for owner in owners]

    def put_back() -> None:
        for owner, before in kept:
            now = owner if isinstance(owner, dict) else vars(owner)
            for name in [name for name, value in before.items() if now.get(name) is not value]:
                owner.update({name: before[name]}) if owner is now else setattr(owner, name, before[name])

    return put_back


def watch(send: Callable[[bytes], None], names: Iterable[str]) -> None:
    """Watch this process until it ends, and send word of code of the student's that reaches for what has no name.

    Args:
        send: Sends a message to the grader.
        names: Of modules that are ours, which nobody else imports.
    """
    folders = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)))
    libraries = (*(folder + os.sep for folder in folders), "<frozen ")
    files = {f"{os.sep}{name}{end}": lent for name, lent in LENDERS.items() for end in (".py", f"{os.sep}__init__.py")}
    lenders, process, names = tuple(files), os.getpid(), frozenset(names)
    told, busy, innermost = set(), set(), sys._getframe
    watched, plain = BY_ANYBODY | BY_STUDENTS | CHANGES | OTHERS, BY_ANYBODY | BY_STUDENTS

    def hook(event: str, arguments: tuple) -> None:
        if (event not in watched and event[:7] != "ctypes.") or len(told) >= MOST_TOLD:
            return
        thread = get_ident()
        if thread in busy:
            return
        busy.add(thread)  # what happens in here is ours; no code of the student's runs
        try:
            if (way := way_of(event, arguments)) and (place := place_of(event, way)) and place not in told:
                told.add(place)
                if os.getpid() == process:  # and no copy of it, which may not speak for it
                    send(REACHED + place.encode("utf-8", "replace"))
        finally:
            busy.discard(thread)

    def way_of(event: str, arguments: tuple) -> str:
        """Return in words what an event may reach for."""
        if event in plain or event[:7] == "ctypes.":
            return event
        if event in CHANGES or event == "object.__getattr__":
            return arguments[1] if event in CHANGES or arguments[1] in FRAMES else ""
        name = arguments[event == "compile"]
        name = os.fsdecode(name) if type(name) is bytes else name
        name = (
            str.__str__(name) if isinstance(name, str) else ""
        )  # a student's kind of text may have methods of its own
        if event == "import":
            return f"import {name}" if name in names else ""
        if event == "open":
            return name if name.startswith("/proc/") and name.endswith("/mem") else ""
        return "a name of a library's file" if name.startswith(libraries) else ""

    def place_of(event: str, way: str) -> str:
        """Return which way is taken where, if it is the student's code that takes it; else nothing."""
        first = frame = innermost().f_back.f_back
        if frame is None:  # a thread that consists of this
            return f"{way}, a thread"
        while frame.f_back is not None and frame.f_code.co_filename.endswith(lenders):
            frame = frame.f_back
        code = frame.f_code
        if str.__str__(code.co_filename).startswith(libraries) and event not in BY_ANYBODY and event != "open":
            return ""
        if first is not frame and (way in FRAMES or event == "sys._getframe"):
            lent = next(lent for file, lent in files.items() if first.f_code.co_filename.endswith(file))
            if lent and (first.f_back is not frame or first.f_code.co_name not in lent):
                return ""
        return f"{way}, {str.__str__(code.co_name)}, line {frame.f_lineno}"

    def cast(*arguments: object) -> object:
        audit("ctypes.cast")
        return quiet(*arguments)

    quiet, audit, ctypes._cast = ctypes._cast, sys.audit, closed(cast)  # it reads memory, and Python does not say so
    sys.addaudithook(hook)

"""Does no name lead to the agent, and is a person asked only about code that reaches for it?"""

from collections.abc import Callable

import pytest
from honest import HONEST
from in_kernel import function_of, reaching, told

from autograder.sandbox.host.kernel import Kernel

ORIGINAL = "import _imp, sys\n_imp.create_builtin(sys.__spec__)\n"  # fills sys again with Python's own functions
COLLECTOR = "import sys\nsys.modules.pop('gc')\nimport gc\n"  # a new gc with Python's own function
ACCESSES = {
    "import": "import inside",
    "importlib": "import importlib\nimportlib.import_module('sys')\n__import__('wire')",
    "frame": ORIGINAL + "sys._getframe()",
    "frame by a library": ORIGINAL + "from unittest import mock\nmock.Mock(side_effect=sys._getframe)(0)",
    "traceback": "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame",
    "traceback's frame's caller": "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame.f_back",
    "traceback by getattr": (
        "try:\n    1 / 0\nexcept Exception as error:\n    getattr(error.__traceback__, 'tb_frame').f_code"
    ),
    "walk": "import traceback\ntry:\n    1 / 0\nexcept Exception as error:\n    list(traceback.walk_tb(error.__traceback__))",
    "trace": "import sys\nsys.settrace(lambda *event: None)",
    "trace of a thread": (
        "import threading\nthreading.setprofile(lambda *event: None)\nthread = threading.Thread(target=print)\n"
        "thread.start()\nthread.join()"
    ),
    "debugger": "import bdb\nbdb.Bdb().set_trace()\nimport sys\nsys.settrace(None)",
    "generator": "g = (1 for _ in [1])\ng.gi_frame",
    "collector": "import gc\ngc.get_referrers(gc)",
    "collector in a library": (
        COLLECTOR + "from concurrent.futures import ThreadPoolExecutor\n"
        "print(len(ThreadPoolExecutor(1).submit(gc.get_objects).result()))"
    ),
    "collector in a thread": (
        COLLECTOR
        + "import _thread, time\nwaits = _thread.allocate_lock()\n_thread.start_new_thread(gc.get_objects, ())\ntime.sleep(0.2)"
    ),
    "memory by an address": "import ctypes\nctypes.c_long.from_address(id(ctypes))",
    "memory by a pointer": "import ctypes\nctypes.cast(id(ctypes), ctypes.POINTER(ctypes.c_long))[0]",
    "C's functions": "import ctypes\nctypes.CDLL(None).getpid()",
    "code": "import textwrap\ntextwrap.dedent.__code__ = (lambda text: text).__code__",
    "another file's name": "import json\nexec(compile('1', json.__file__, 'exec'))",
}


@pytest.mark.parametrize("way", ACCESSES)
@pytest.mark.few(12)
def test_code_that_reaches_for_the_agent_is_asked_about(start: Callable[..., Kernel], way: str) -> None:
    """Does the grader learn that a cell reached for the agent, and which cell it was?"""
    kernel = start()
    kernel.run_cell(ACCESSES[way])
    kernel.run_cell("")
    assert kernel.reached != []
    assert ACCESSES[way].splitlines()[0][:20] in kernel.reached[0]


@pytest.mark.parametrize("deed", HONEST)
@pytest.mark.few(12)
def test_honest_code_is_not_asked_about(start: Callable[..., Kernel], deed: str) -> None:
    """Is no person asked about ordinary debugging, definitions and plots?"""
    kernel = start()
    outputs = kernel.run_cell(HONEST[deed].strip("\n"))
    assert kernel.reached == []
    assert [output for output in outputs if output.output_type == "error"] == []


def test_no_name_leads_to_the_agent(start: Callable[..., Kernel]) -> None:
    """Do sys.modules, sys.path and the globals of a candidate hold nothing of the agent?"""
    kernel = start()
    source = """
    import sys
    names = ("inside", "wire", "out_of_reach", "notebook_shell", "memory", "refused", "candidate", "unwritten", "warm")
    print(json.dumps([[n for n in names if n in sys.modules], [p for p in sys.path if "grader" in p],
                      [n for n in vars(get_ipython()) if hasattr(getattr(get_ipython(), n, None), "serve_kernel")]]))
    """
    assert told(kernel, source) == [[], [], []]
    source = """
    def look(candidate):
        found = [sorted(candidate.__globals__)]
        for cell in candidate.__closure__:
            found.append(sorted(getattr(cell.cell_contents, "__globals__", ())))
        return found
    """
    of_file, *closures = function_of(kernel, "look", source)(lambda: 1)
    assert not {"SEND", "CHANNEL", "wire", "sys"} & set(of_file)
    assert {tuple(names) for names in closures} == {()}
    assert kernel.reached == []


def test_frames_that_python_gives_end_below_the_agent(start: Callable[..., Kernel]) -> None:
    """Do the handler of a signal and the frames of a task show nothing of the agent, and is nobody asked about them?"""
    source = """
    import asyncio, signal
    frames = []
    async def stack():
        return asyncio.current_task().get_stack()
    signal.signal(signal.SIGALRM, lambda number, frame: frames.append(frame))
    signal.raise_signal(signal.SIGALRM)
    count = len(frames)
    frames += await stack()
    frames += asyncio.current_task().get_stack()
    files = set()
    while frames:
        frame = frames.pop()
        files.add(frame.f_code.co_filename)
        frames += [frame.f_back] * (frame.f_back is not None)
    print(json.dumps([count, [file for file in files if file.startswith("/grader")]]))
    """
    kernel = start()
    assert told(kernel, source) == [1, []]
    assert kernel.reached == []


def test_own_memory_is_no_file(start: Callable[..., Kernel]) -> None:
    """Is opening the memory of the student's process refused by every path, link and folder, and from its child processes?"""
    source = """
    import os, subprocess, sys
    os.symlink("/proc/self/mem", "link")
    os.symlink("/proc/self", "folder")
    folder = os.open("/proc/self", os.O_RDONLY)
    paths = ["/proc/self/mem", "/proc/thread-self/mem", f"/proc/{os.getpid()}/mem", "link", "folder/mem",
             f"/proc/self/task/{os.getpid()}/mem", "/proc/self/fd/../mem"]
    opened = []
    for path, place in [*((path, None) for path in paths), ("mem", folder)]:
        for mode in (os.O_RDONLY, os.O_RDWR):
            try:
                opened.append([path, os.open(path, mode, dir_fd=place)])
            except OSError:  # also as /proc is read-only
                pass
    code = f"open('/proc/{os.getpid()}/mem')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(json.dumps([opened, "PermissionError" in child.stderr]))
    """
    kernel = start()
    assert told(kernel, source) == [[], True]
    assert kernel.reached == []


def test_message_without_the_agents_seal_is_asked_about(start: Callable[..., Kernel]) -> None:
    """Is a person asked if anything but the agent speaks to the grader, even without the agent's names?"""
    kernel = start()
    source = """
    import os, stat
    message = b'{"dict": [["id", "guess"]]}' + bytes(17)
    for file in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(file).st_mode):
                os.write(file, len(message).to_bytes(8, "big") + message)
        except OSError:
            pass
    print(1)
    """
    assert told(kernel, source) == 1
    assert any("messages that are not the agent's" in way for way in kernel.reached)


def test_what_the_agent_uses_is_put_back(start: Callable[..., Kernel]) -> None:
    """Does the reply stay right after a function replaces the code that writes the reply?"""
    source = """
    import json
    def f():
        json.dumps = lambda *a, **k: '{"dict": [["id", "x"]]}'
        return 5
    """
    assert function_of(start(), "f", source)() == 5


def test_agent_is_found_by_what_is_asked_about(start: Callable[..., Kernel]) -> None:
    """Do the tests' attacks find the agent, so that the tests are meaningful?"""
    kernel = start()
    assert (
        told(kernel, reaching("import inside, wire\nprint(int(hasattr(inside, 'serve') and inside.wire is wire))")) == 1
    )
    assert any("gc.get_objects" in way for way in kernel.reached)

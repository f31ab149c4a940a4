"""Is a cell limited in time, memory, processes and outputs, and is a lost kernel reported as lost?"""

import io
import json
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from in_kernel import attempt, function_of, reaching, told
from PIL import Image

from autograder.sandbox.host.bubblewrap import Sandbox, SandboxError, start_kernel
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.limits import Limits


def test_limits_of_the_system_are_set_for_good(start: Callable[..., Kernel]) -> None:
    """Does the operating system enforce every limit that we name, and can a cell raise none?"""
    kernel = start(file_bytes=5 * 2**20, cpu_seconds=77)
    limits = kernel.limits.resource_limits()
    assert set(limits) == {f"RLIMIT_{name}" for name in ("DATA", "NPROC", "CPU", "FSIZE", "CORE", "NOFILE")}
    for name, limit in limits.items():
        found = told(kernel, f"import resource\nprint(json.dumps(resource.getrlimit(resource.{name})))")
        assert found == [limit, limit]
        raised = f"import resource; resource.setrlimit(resource.{name}, ({limit + 1}, {limit + 1}))"
        assert attempt(kernel, raised) in ("ValueError", "PermissionError")


def test_limits_of_memory_and_files(start: Callable[..., Kernel]) -> None:
    """Does too much raise an error in the student's own cell, while less raises none: of memory, in a file, in all files?"""
    kernel = start(memory_bytes=3 * 2**29, file_bytes=8 * 2**20)
    assert attempt(kernel, "x = bytearray(2**28)") == ""
    assert attempt(kernel, "x = bytearray(3 * 2**29)") == "MemoryError"
    assert attempt(kernel, "open('/tmp/one', 'wb').write(bytes(2**22))") == ""
    assert attempt(kernel, "open('/dev/shm/two', 'wb').write(bytes(2**24))") == "OSError"
    assert attempt(kernel, "[open(f'/tmp/{i}', 'wb', 0).write(bytes(2**20)) or 1 / 0 for i in range(20)]") == "OSError"
    size = "import os\nprint(json.dumps(sum(os.path.getsize(f'/tmp/{n}') for n in os.listdir('/tmp'))))"
    assert told(kernel, size) < 9 * 2**20


MUCH = {
    "in tables of pages": """
        import mmap, time
        room = mmap.mmap(-1, 2**41, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
        for place in range(0, 2**41, 2**21):
            room[place]
        time.sleep(5)""",
    "in files": """
        for number in range(24):
            with open(f"/tmp/{number}", "wb") as file:
                for _ in range(64):
                    file.write(bytes(2**20))""",
}


@pytest.mark.parametrize("where", MUCH)
def test_limit_of_memory_of_all_processes(start: Callable[..., Kernel], where: str) -> None:
    """Is a kernel lost if it uses too much memory in all, although no process does?"""
    kernel = start(memory_bytes=2**30, file_bytes=2**31 if where == "in files" else 2**26, cell_seconds=60)
    if where == "in files" and kernel.sandbox.group is None:
        pytest.skip("this machine gives no control group")
    with pytest.raises(KernelLost, match=r"1\.0 GiB of memory") as lost:
        kernel.run_cell(textwrap.dedent(MUCH[where]))
    assert lost.value.state == "crashed"
    assert kernel.sandbox.group is None or not any(folder.exists() for folder in kernel.sandbox.group.folders)


def test_kernel_that_hangs_is_lost(start: Callable[..., Kernel]) -> None:
    """Is a kernel in state D that does not wait for the disk given up in time, and is nothing left of it?"""
    kernel, begun = start(cell_seconds=1.0), time.monotonic()
    with pytest.raises(KernelLost, match="Not done after 1 s") as lost:
        kernel.run_cell("import ctypes, time\nif ctypes.CDLL(None).vfork() == 0:\n    time.sleep(600)")
    assert lost.value.state == "timed out" and time.monotonic() < begun + 8
    assert not kernel.sandbox.is_alive() and not kernel.sandbox.folder.exists()


def test_kernel_ends_with_a_grader_that_was_killed() -> None:
    """Does a forked kernel end soon after the grader that reads its log and talks to it, even if its agent blocks?"""
    kernel = Kernel(Limits())
    if isinstance(kernel.sandbox.process, psutil.Popen):
        kernel.close()
        pytest.skip("this machine forks no kernels; bubblewrap ends with its parent")
    kernel.run_cell(reaching("import inside, time\ninside._receive = lambda: time.sleep(600)"))
    processes = [kernel.sandbox.process, *kernel.sandbox.process.children(recursive=True)]
    try:
        kernel.sandbox.log.close()  # both close when a grader is killed
        kernel.channel.close()
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert alive == []
    finally:
        kernel.close()


@pytest.mark.deep
def test_time_in_line_for_a_processor_is_not_the_students(
    start: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, does a request get more time while it waits for a processor, but not while it sleeps?"""
    monkeypatch.setattr(Sandbox, "activity", lambda self: (0.0, True))  # the sandbox wants a processor, and gets none
    kernel = start(cell_seconds=0.3)
    kernel.run_cell("import time; time.sleep(1)")
    assert kernel.spent < 0.4
    with pytest.raises(KernelLost, match="Not done"):  # the extra time has a limit
        kernel.run_cell("while True: pass")
    kernel = start(cell_seconds=30.0)
    kernel.ends = time.monotonic() + 0.3
    with pytest.raises(KernelLost, match="Not done"):  # the end of the submission is a limit too
        kernel.run_cell("while True: pass")


def test_activity_of_a_sandbox(start: Callable[..., Kernel]) -> None:
    """Are CPU seconds counted for all processes, also ended ones, and does a sleeping process not count as waiting?"""
    kernel = start()

    def used_at_rest() -> float:
        deadline = time.monotonic() + 30
        while kernel.sandbox.activity()[1] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert time.monotonic() < deadline
        return kernel.sandbox.activity()[0]

    before = used_at_rest()
    work = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    kernel.run_cell(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}])\n{work}")
    between = used_at_rest()
    assert between > before + 0.8
    orphan = f"import os, sys\nif os.fork() == 0:\n    exec({work!r})\n    open('/tmp/done', 'w')"
    kernel.run_cell(f"import os\nsubprocess.run([sys.executable, '-c', {orphan!r}])")
    kernel.run_cell("while not os.path.exists('/tmp/done'):\n    time.sleep(0.01)\ntime.sleep(0.2)")
    assert used_at_rest() > between + 0.4
    kernel.run_cell("import os\nif os.fork() == 0:\n    while True: pass")
    assert all(kernel.sandbox.activity()[1] for _ in range(100))


def picture(width: int, height: int, kind: str) -> bytes:
    """Return a white picture; it has few bytes at any size."""
    file = io.BytesIO()
    Image.new("L", (width, height), 255).save(file, kind)
    return file.getvalue()


SMALL_IN_FRONT = b"\xff\xd8\xff\xe0\x00\x13\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00\x00\x00"
PICTURES = [
    *(("png", picture(640, 480, "PNG"), True), ("jpeg", picture(640, 480, "JPEG"), True)),
    *(("png", picture(20_000, 1_000, "PNG"), False), ("jpeg", picture(20_000, 1_000, "JPEG"), False)),
    ("jpeg", SMALL_IN_FRONT + picture(20_000, 1_000, "JPEG")[2:], False),
    *(("png", b"\x89PNG", False), ("png", b"GIF89a", False)),
]


def test_pictures_are_kept_that_a_browser_can_show(start: Callable[..., Kernel]) -> None:
    """Are PNG and JPEG kept, but not pictures that would fill a browser's memory, or broken ones?"""
    kernel = start(output_bytes=1_000_000)
    for kind, data, kept in PICTURES:
        [output] = kernel.run_cell(f"from IPython.display import Image\ndisplay(Image(data={data!r}, format={kind!r}))")
        assert (f"image/{kind}" in output.data) == kept, data[:99]
        assert kept or "text/plain" in output.data
    [output] = kernel.run_cell("from PIL import Image\nImage.new('L', (8, 8))")  # Pillow gives raw bytes
    assert output.data["image/png"].startswith("iVBOR")


FLOODS = {
    "one line": "print('x' * 20_000_000)",
    "two streams": "import sys\nfor i in range(3000):\n    print(i, file=(sys.stderr, sys.stdout)[i % 2], flush=True)",
    "a long value": "display('x' * 5_000_000)",
    "a long error": "raise RuntimeError('x' * 5_000_000)",
    "an image": (
        "from IPython.display import Image\nimport os\n"
        "head = b'\\x89PNG\\r\\n\\x1a\\n' + bytes([0, 0, 0, 13]) + b'IHDR' + 2 * bytes([0, 0, 1, 0])\n"
        "display(Image(data=head + os.urandom(5_000_000), format='png'))"
    ),
    "a forged reply": reaching(
        "import inside\ninside.OUTPUTS.kept += [('stream', {'name': 'stdout', 'text': 'x' * 2000})] * 2000"
    ),
}


def test_output_flood_is_bounded(start: Callable[..., Kernel]) -> None:
    """Are a cell's outputs limited in bytes and number, with a note at the cut, and is nothing stored on our disk?"""
    kernel = start(output_bytes=50_000, output_count=100, file_bytes=2**20)
    for flood in FLOODS.values():
        outputs = kernel.run_cell(flood)
        assert len(outputs) <= 101
        text = json.dumps(outputs)
        assert len(text) < 2 * 50_000 + 300 * len(outputs)  # JSON writes a line break as two characters
        assert "Cut here: a cell may print 50,000 bytes in 100 pieces." in text
    past = "import os, subprocess\nsubprocess.run(['echo', 'hello'])\nfor _ in range(9): os.write(2, b'x' * 500_000)"
    assert kernel.run_cell(past) == []
    assert list(kernel.sandbox.folder.iterdir()) == []


def test_kernel_has_no_file_open_on_our_disk(kernel: Kernel) -> None:
    """Does no visible process have a file open on a disk? fallocate could make such a file larger than any limit."""
    source = """
    import ctypes, glob, os, stat
    found, memory = [], {os.stat(place).st_dev for place in ("/tmp", "/dev/shm")}
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            about = os.stat(path)
        except OSError:
            continue  # it is closed by now
        if stat.S_ISREG(about.st_mode) and about.st_dev not in memory:
            found.append([path, os.readlink(path)])
    reserved = [ctypes.CDLL(None).fallocate(output, 1, ctypes.c_long(0), ctypes.c_long(2**20)) for output in (1, 2)]
    print(json.dumps([found, reserved]))
    """
    assert told(kernel, source) == [[], [-1, -1]]


def test_cell_works_as_in_jupyter(start: Callable[..., Kernel]) -> None:
    """Can a cell import a file that a cell wrote, use the magics of Jupyter's editor, and run after one that ended?"""
    kernel = start()
    kernel.run_cell("%%writefile written_by_a_cell.py\nnumber = 7")
    assert told(kernel, "import written_by_a_cell\nprint(written_by_a_cell.number)") == 7
    assert told(kernel, "%autosave 60\n%clear\n%less written_by_a_cell.py\nprint(8)") == 8
    kernel.run_cell("import asyncio\nasync def nine(): return 9\ntask = asyncio.create_task(nine())")
    assert told(kernel, "print(await task)") == 9
    for end in (
        "exit()",
        "quit()",
        "import sys\nsys.exit(1)",
        "input()",
        "raise SystemExit",
        "raise KeyboardInterrupt",
    ):
        kernel.run_cell(end)
    assert told(kernel, "get_ipython().run_cell('n = 10')\nprint(n)") == 10


@pytest.mark.parametrize("limits", [{"file_bytes": -1}, {}], ids=["bubblewrap refuses", "not ready"])
def test_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: dict) -> None:
    """If a kernel does not start or is not ready in time, is that said, and are folder and processes removed?"""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("autograder.sandbox.host.bubblewrap.START_SECONDS", 20.0 if limits else 0.001)
    before = set(psutil.Process().children())
    with pytest.raises(SandboxError, match=r"did not start(?s:.*)" + "bwrap: " * bool(limits)):
        start_kernel(Limits(forked=False, **limits))
    assert not list(tmp_path.iterdir())
    assert set(psutil.Process().children()) == before


def test_alarm_that_is_left_ends_no_kernel(start: Callable[..., Kernel]) -> None:
    """Does a kernel survive an alarm that a cell or a function set before it ended?"""
    kernel = start()
    source = """
    import signal
    def late(*_): raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    def f(): return signal.setitimer(signal.ITIMER_REAL, 0.2)
    f()
    """
    function = function_of(kernel, "f", source)
    time.sleep(0.4)
    assert function() == (0, 0)
    time.sleep(0.4)
    assert told(kernel, "print(1)") == 1

"""Is a cell limited in time, memory, processes and outputs, and is a lost kernel reported as lost?"""

import io
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import soon
from in_kernel import attempt, function_of, reaching, told
from PIL import Image

from autograder.sandbox.host import bubblewrap as sandbox
from autograder.sandbox.host.bubblewrap import Sandbox, SandboxError, start_kernel
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.limits import Limits


def test_limits_of_the_system_are_set_for_good(start: Callable[..., Kernel]) -> None:
    """Does the operating system enforce every limit that we name, and can a cell raise none?"""
    kernel = start(file_bytes=5 * 2**20, cpu_seconds=77)
    limits = kernel.limits.resource_limits()
    assert set(limits) == {f"RLIMIT_{name}" for name in ("DATA", "NPROC", "CPU", "FSIZE", "CORE", "NOFILE")}
    for name, limit in limits.items():
        assert told(kernel, f"import resource\nprint(json.dumps(resource.getrlimit(resource.{name})))") == [
            limit,
            limit,
        ]
        raised = f"import resource; resource.setrlimit(resource.{name}, ({limit + 1}, {limit + 1}))"
        assert attempt(kernel, raised) in ("ValueError", "PermissionError")


def test_limit_of_processes(start: Callable[..., Kernel]) -> None:
    """Does a process bomb end at the limit, and does the kernel survive it?"""
    kernel = start(processes=60)
    count, error = told(
        kernel,
        """
        import subprocess
        started, name = [], ""
        try:
            while len(started) < 500:
                started.append(subprocess.Popen(["sleep", "1000"]))
        except OSError as error:
            name = type(error).__name__
        for process in started:
            process.kill()
        print(json.dumps([len(started), name]))
        """,
    )
    assert 0 < count < 60
    assert error == "BlockingIOError"
    assert told(kernel, "print(1)") == 1


def test_limit_of_memory_of_one_process(start: Callable[..., Kernel]) -> None:
    """Does too much memory raise MemoryError in the student's own cell, while less memory raises no error?"""
    kernel = start(memory_bytes=3 * 2**29)
    assert attempt(kernel, "x = bytearray(2**28)") == ""
    assert attempt(kernel, "x = bytearray(3 * 2**29)") == "MemoryError"


def test_limit_of_memory_of_all_processes(start: Callable[..., Kernel]) -> None:
    """Is a kernel lost if its processes use too much memory together, although each alone does not?"""
    kernel = start(memory_bytes=2**30, cell_seconds=60)
    source = """
    import os, time
    for _ in range(6):
        if os.fork() == 0:
            x = bytearray(b"x") * (200 * 2**20)
            time.sleep(1000)
    time.sleep(1000)
    """
    with pytest.raises(KernelLost, match=r"1\.0 GiB of memory") as lost:
        kernel.run_cell(textwrap.dedent(source))
    assert lost.value.state == "crashed"


def test_limit_of_files(start: Callable[..., Kernel]) -> None:
    """Does writing end at the limit, for a single file and for all files together?"""
    kernel = start(file_bytes=8 * 2**20)
    assert attempt(kernel, "open('/tmp/one', 'wb').write(bytes(2**22))") == ""
    assert attempt(kernel, "open('/dev/shm/two', 'wb').write(bytes(2**24))") == "OSError"
    assert attempt(kernel, "[open(f'/tmp/{i}', 'wb', 0).write(bytes(2**20)) or 1 / 0 for i in range(20)]") == "OSError"
    assert (
        told(kernel, "import os\nprint(json.dumps(sum(os.path.getsize(f'/tmp/{n}') for n in os.listdir('/tmp'))))")
        < 9 * 2**20
    )


@pytest.mark.parametrize(
    "source",
    [
        "import os; os._exit(0)",
        "import os; os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
    ],
)
def test_kernel_that_dies_is_crashed(start: Callable[..., Kernel], source: str) -> None:
    """Is a kernel that ends itself reported as crashed, whatever the cause?"""
    kernel = start()
    with pytest.raises(KernelLost, match="died") as lost:
        kernel.run_cell(source)
    assert lost.value.state == "crashed"


HANGS = {
    "loop": "while True:\n    pass",
    "ignores signals": "import signal\nfor s in (2, 15, 1):\n    signal.signal(s, signal.SIG_IGN)\nwhile True:\n    pass",
    "catches everything": "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    "stops itself": "import os\nos.kill(os.getpid(), 19)",
    "sleeps": "import time\ntime.sleep(1e6)",
    "prints for ever": "import sys\nwhile True:\n    print('x' * 100, file=sys.stderr)",
}


@pytest.mark.parametrize("kind", soon(HANGS, "catches everything", "stops itself"))
def test_kernel_that_hangs_is_timed_out(start: Callable[..., Kernel], kind: str) -> None:
    """If a kernel does not return, is it given up, whichever errors and signals it ignores?"""
    kernel = start(cell_seconds=1.0)
    with pytest.raises(KernelLost, match="Not done after 1 s") as lost:
        kernel.run_cell(HANGS[kind])
    assert lost.value.state == "timed out"
    assert not kernel.sandbox.is_alive()
    assert not kernel.sandbox.folder.exists()


def test_kernel_close_leaves_no_process(start: Callable[..., Kernel]) -> None:
    """Has every process ended after close, even those with their own session that ignore all signals?"""
    kernel, seconds = start(), f"{os.getpid()}.125"

    def remaining() -> list[psutil.Process]:
        return [process for process in psutil.process_iter(["cmdline"]) if seconds in (process.info["cmdline"] or [])]

    source = f"""
    import subprocess, time
    for command in (["sleep", "{seconds}"], ["setsid", "sleep", "{seconds}"], ["nohup", "setsid", "-f", "sleep", "{seconds}"]):
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.Popen(["sh", "-c", "trap '' 1 2 15; sleep {seconds} & wait; wait"])
    time.sleep(1)
    """
    kernel.run_cell(textwrap.dedent(source))
    assert len(remaining()) >= 4
    left = remaining()
    kernel.close()
    _, alive = psutil.wait_procs(left, timeout=30)  # the system ends them; the test only waits
    assert alive == []
    assert remaining() == []
    assert not kernel.sandbox.folder.exists()


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
    monkeypatch.setattr(Sandbox, "activity", lambda self: (0.0, False))
    with pytest.raises(KernelLost, match="Not done"):
        start(cell_seconds=0.3).run_cell("import time; time.sleep(1)")


def test_activity_of_a_sandbox(start: Callable[..., Kernel]) -> None:
    """Are CPU seconds counted for all processes, also ended ones, and does a sleeping process not count as waiting?"""
    kernel = start()

    def comes_to_rest() -> bool:
        deadline = time.monotonic() + 30
        while kernel.sandbox.activity()[1] and time.monotonic() < deadline:
            time.sleep(0.01)
        return time.monotonic() < deadline

    assert comes_to_rest()
    before, _ = kernel.sandbox.activity()
    work = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    kernel.run_cell(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}])\n{work}")
    assert comes_to_rest()
    assert kernel.sandbox.activity()[0] > before + 0.8
    orphan = f"import os, sys\nif os.fork() == 0:\n    exec({work!r})\n    open('/tmp/done', 'w')"
    before, _ = kernel.sandbox.activity()
    kernel.run_cell(f"import os\nsubprocess.run([sys.executable, '-c', {orphan!r}])")
    kernel.run_cell("while not os.path.exists('/tmp/done'):\n    time.sleep(0.01)\ntime.sleep(0.2)")
    assert comes_to_rest()
    assert kernel.sandbox.activity()[0] > before + 0.4
    kernel.run_cell("import os\nif os.fork() == 0:\n    while True: pass")
    assert all(kernel.sandbox.activity()[1] for _ in range(100))


def test_one_that_waits_for_its_child_is_not_in_line() -> None:
    """Is a process that waits for its vfork child not counted as waiting for the disk?"""
    waits = "import ctypes, os, time\nif ctypes.CDLL(None).vfork() == 0:\n    time.sleep(600)\n    os._exit(0)"
    shell = psutil.Popen(["sh", "-c", '"$0" -S -c "$1"; true', sys.executable, waits])
    try:
        deadline, sandbox = time.monotonic() + 60, Sandbox(shell, Path("/nowhere"), {}, None)
        while psutil.STATUS_DISK_SLEEP not in (states := [child.status() for child in shell.children(recursive=True)]):
            assert time.monotonic() < deadline, states
        while sandbox.activity()[1]:  # until the child sleeps too
            assert time.monotonic() < deadline
    finally:
        for process in [*shell.children(recursive=True), shell]:
            process.kill()
        shell.wait()


def picture(width: int, height: int, kind: str) -> bytes:
    """Return a white picture; it has few bytes at any size."""
    file = io.BytesIO()
    Image.new("L", (width, height), 255).save(file, kind)
    return file.getvalue()


SMALL_IN_FRONT = b"\xff\xd8\xff\xe0\x00\x13\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00\x00\x00"


@pytest.mark.parametrize(
    ("kind", "data", "kept"),
    [
        ("png", picture(640, 480, "PNG"), True),
        ("jpeg", picture(640, 480, "JPEG"), True),
        ("png", picture(20_000, 1_000, "PNG"), False),
        ("jpeg", picture(20_000, 1_000, "JPEG"), False),
        ("jpeg", SMALL_IN_FRONT + picture(20_000, 1_000, "JPEG")[2:], False),
        ("png", b"\x89PNG", False),
        ("png", b"GIF89a", False),
    ],
    ids=["PNG", "JPEG", "large PNG", "large JPEG", "large JPEG behind a small one", "cut", "no PNG"],
)
def test_pictures_are_kept_that_a_browser_can_show(
    start: Callable[..., Kernel], kind: str, data: bytes, kept: bool
) -> None:
    """Are PNG and JPEG kept, but not pictures that would fill a browser's memory, or broken ones?"""
    source = f"from IPython.display import Image\ndisplay(Image(data={data!r}, format={kind!r}))"
    [output] = start(output_bytes=1_000_000).run_cell(source)
    assert (f"image/{kind}" in output.data) == kept
    assert kept or "text/plain" in output.data


FLOODS = {
    "one line": "print('x' * 20_000_000)",
    "many lines": "for i in range(200_000):\n    print(i)",
    "two streams": "import sys\nfor i in range(3000):\n    print(i, file=(sys.stderr, sys.stdout)[i % 2], flush=True)",
    "many values": "for i in range(3000):\n    display(i)",
    "a long value": "display('x' * 5_000_000)",
    "a long error": "raise RuntimeError('x' * 5_000_000)",
    "an image": (
        "from IPython.display import Image\nimport os\n"
        "head = b'\\x89PNG\\r\\n\\x1a\\n' + bytes([0, 0, 0, 13]) + b'IHDR' + 2 * bytes([0, 0, 1, 0])\n"
        "display(Image(data=head + os.urandom(5_000_000), format='png'))"
    ),
}


@pytest.mark.parametrize("kind", soon(FLOODS, "two streams", "an image"))
def test_output_flood_is_bounded(start: Callable[..., Kernel], kind: str) -> None:
    """Are a cell's outputs limited in bytes and number, with a note at the cut?"""
    limits = Limits(output_bytes=50_000, output_count=100)
    outputs = start(output_bytes=limits.output_bytes, output_count=limits.output_count).run_cell(FLOODS[kind])
    assert len(outputs) <= limits.output_count + 1
    text = json.dumps(outputs)
    assert len(text) < 2 * limits.output_bytes + 300 * len(outputs)  # JSON writes a line break as two characters
    assert "Cut here: a cell may print 50,000 bytes in 100 pieces." in text


def test_output_past_python_goes_nowhere(start: Callable[..., Kernel]) -> None:
    """Is output to the file descriptor, from a cell or its programs, neither shown nor stored on our disk?"""
    kernel = start(file_bytes=2**20)
    writes = "import os, subprocess\nsubprocess.run(['echo', 'hello'])\nfor _ in range(9): os.write(2, b'x' * 500_000)"
    assert kernel.run_cell(writes) == []
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
    """Can a cell import a file that an earlier cell wrote, and use the magics of Jupyter's editor?"""
    kernel = start()
    kernel.run_cell("%%writefile written_by_a_cell.py\nnumber = 7")
    assert told(kernel, "import written_by_a_cell\nprint(written_by_a_cell.number)") == 7
    assert told(kernel, "%autosave 60\n%clear\n%less written_by_a_cell.py\nprint(8)") == 8
    kernel.run_cell("import asyncio\nasync def nine(): return 9\ntask = asyncio.create_task(nine())")
    assert told(kernel, "print(await task)") == 9
    assert told(kernel, "get_ipython().run_cell('n = 10')\nprint(n)") == 10


@pytest.mark.parametrize("fault", ["no process", "not ready", "no group"])
def test_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str) -> None:
    """Are folder and processes removed after any failure at a kernel's start?"""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children())

    def fail(*_: object, **__: object) -> None:
        raise OSError(fault)

    if fault == "not ready":
        monkeypatch.setattr(sandbox, "START_SECONDS", 0.001)
    else:
        monkeypatch.setattr(sandbox, {"no process": "_launch", "no group": "make_group"}[fault], fail)
    with pytest.raises((OSError, SandboxError), match=f"{fault}|did not start"):
        start_kernel(Limits(forked=False))
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


def test_output_of_a_value_is_one_piece(kernel: Kernel) -> None:
    """Is a cell's last value one piece of output, with nothing printed next to it?"""
    assert [output.output_type for output in kernel.run_cell("print('a', end='')\n7")] == ["stream", "display_data"]
    assert kernel.run_cell("print(end='')") == []


def test_output_has_pillows_pictures(kernel: Kernel) -> None:
    """Is a Pillow picture shown, although it gives raw bytes?"""
    [output] = kernel.run_cell("from PIL import Image\nImage.new('L', (8, 8))")
    assert output.data["image/png"].startswith("iVBOR")


def test_output_keeps_no_html(kernel: Kernel) -> None:
    """Does no HTML, SVG, script or metadata of a student leave the sandbox?"""
    outputs = kernel.run_cell(
        "from IPython.display import HTML, SVG, Javascript, display\n"
        "display(HTML('<script>1</script>'), SVG('<svg/>'), Javascript('alert(1)'))\n"
        "display({'text/html': '<b>', 'text/plain': 'plain', 'application/javascript': '1'}, raw=True, metadata={'a': '<b>'})"
    )
    assert {mime for output in outputs for mime in output.data} <= {"text/plain"}
    assert outputs[-1].data == {"text/plain": "plain"}
    assert all(output.metadata == {} for output in outputs)


def test_output_that_is_forged_is_survived(kernel: Kernel) -> None:
    """Does the grader continue after the student's code forged invalid outputs?"""
    source = """
    import inside
    import numpy as np
    pieces = [
        [np.ones(2), {}], ["stream", {"name": np.ones(2)}], ["display_data", {"data": {"text/plain": np.ones(2)}}],
        7, [], ["stream"], ["stream", 7], ["stream", {"text": {"a": [1]}, "name": 7}], [["stream"], {}], ["unknown", {"x": 1}],
        ["error", {"traceback": "x", "ename": None}], ["error", {"traceback": [1, ["x"]]}], ["display_data", {"data": ["x"]}],
        ["display_data", {"data": {"text/plain": 7, "text/html": "<script>"}}], ["display_data", {}], ["stream", {"text": "end"}],
    ]
    replies = iter([{"outputs": pieces, "cut": 3}, {"outputs": 7}, {}, {"outputs": "text", "cut": True}])
    inside._cell = lambda request, namespace: next(replies)
    """
    kernel.run_cell(reaching(source))
    outputs = kernel.run_cell("")
    assert {output.output_type for output in outputs} == {"stream", "error", "display_data"}
    assert outputs[-1].text == "end"
    assert "script" not in json.dumps(outputs)
    assert [len(kernel.run_cell("")) for _ in range(3)] == [0, 0, 1]
    assert "could not be run: ['StopIteration" in json.dumps(kernel.run_cell(""))


def test_page_tables_count_as_memory(start: Callable[..., Kernel]) -> None:
    """Is a cell stopped if it fills the memory with page tables that all map the same page?"""
    kernel = start(memory_bytes=2**30)
    with pytest.raises(KernelLost, match=r"More than 1.0 GiB of memory"):
        kernel.run_cell("""
import mmap
room = mmap.mmap(-1, 2**41, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
for place in range(0, 2**41, 2**21):
    room[place]
import time
time.sleep(5)
""")


def test_memory_that_belongs_to_no_process_is_bounded_by_the_group(start: Callable[..., Kernel]) -> None:
    """Is a kernel lost if the files in its in-memory folder exceed the memory limit of its control group?"""
    kernel = start(memory_bytes=2**30, file_bytes=2**31)
    if kernel.sandbox.group is None:
        pytest.skip("this machine gives no control group")
    with pytest.raises(KernelLost, match=r"1\.0 GiB of memory"):
        kernel.run_cell("""
for number in range(24):
    with open(f"/tmp/{number}", "wb") as file:
        for _ in range(64):
            file.write(bytes(2**20))
""")
    assert not any(folder.exists() for folder in kernel.sandbox.group.folders)

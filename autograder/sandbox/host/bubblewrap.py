"""The sandbox: a kernel under bubblewrap. It sees the system and Python read-only. It sees no network and no course.

If root runs the grader, the kernel gets its own user id, which owns nothing. If another user runs the grader, the
kernel keeps this user's id inside a user namespace that shows none of the user's files. In both cases the kernel has
its own processes, network and temporary files. It has no capabilities, and limits on memory, processes, file sizes and
CPU time.
"""

import contextlib
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from autograder.imports import ROOT
from autograder.sandbox.guest.refused import MACHINES
from autograder.sandbox.host.control_group import Group, make_group, remove_groups
from autograder.sandbox.host.limits import Limits

GUEST = ROOT / "autograder" / "sandbox" / "guest"
TESTS = Path(importlib.util.find_spec("attention_tests").origin).parent  # notebooks and the agent import this package
LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()  # some Linux kernels lack this file
PROCESSES = Path("/proc/self/ns/pid")
# A kernel's temporary folder is called autograder-NAMESPACE-PID-*: the grader's PID is valid only in this namespace.
PREFIX = f"autograder-{PROCESSES.stat().st_ino if PROCESSES.exists() else 0}-"
SLOW = ("numpy", "matplotlib.pyplot", "torch", "torchvision", "sklearn.datasets")  # modules that a warm parent imports
START_SECONDS = 60.0  # seconds within which a kernel must be ready
OWN_PROCESSES = 4  # processes of bubblewrap or of a fork, in addition to those that the student may start
FIRST_TO_GO = "1000"  # oom_score_adj: Linux ends these processes first when the machine's memory is used up
STAND_INS = sorted(ROOT.glob("autograder/checks/*/stand_ins.py"))  # what replaces a student's other answers
INSIDE = sorted(path.name for path in GUEST.glob("[!_]*.py"))  # our files that run in a sandbox


class SandboxError(RuntimeError):
    """The sandbox cannot be used on this machine; the message says what to do."""


@dataclass
class Sandbox:
    """A running kernel: its topmost process and its folder. Without a sandbox, this folder is the kernel's home."""

    process: psutil.Process
    folder: Path
    channel: socket.socket  # carries requests and replies
    group: Group | None = None  # bounds memory and processes, if this machine allows it
    log: BinaryIO | None = None  # what its start prints; a forked kernel ends when nobody can read it any more

    def took_more_than(self, memory_bytes: int) -> bool:
        """Whether Linux ended a process because memory was used up, or the processes use more than `memory_bytes`."""
        processes = list(_below(self.process.pid))
        is_more = all(sum(map(measure, processes)) > memory_bytes for measure in (_resident, _share))
        return is_more or (self.group is not None and self.group.was_full())  # last: Linux may end it while we count

    def processes(self) -> set[int]:
        """Return the PIDs of its processes."""
        return {self.process.pid, *_below(self.process.pid)}

    def end_all_but(self, kept: set[int]) -> bool:
        """End all other processes. Return whether there were any; they may still be ending."""
        others = self.processes() - kept
        for number in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return bool(others)

    def activity(self) -> tuple[float, bool]:
        """Return the processor seconds that its processes have used, and whether one now needs a processor or the disk."""
        ticks, states, parents = 0, {}, set()
        for number in self.processes():  # the topmost one reaps orphans
            with contextlib.suppress(OSError, IndexError):  # the process has ended
                states[number], *fields = _proc_file(number, "stat").rpartition(")")[2].split()
                parents.add(int(fields[0]))
                ticks += sum(map(int, fields[10:14]))  # its own, and those of children that it waited for
        # A process is also in state D while it waits for a child made by vfork.
        in_line = any(state == "R" or (state == "D" and number not in parents) for number, state in states.items())
        return ticks / os.sysconf("SC_CLK_TCK"), in_line

    def is_alive(self) -> bool:
        """Whether the sandbox still runs."""
        return lives(self.process)

    def close(self) -> None:
        """End every process of the sandbox and remove its folder. The process namespace ends with its first process."""
        processes = [self.process]
        for number in _below(self.process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(number))
        for process in processes[:2]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + 10  # until they are gone they count against the next kernel's limit
        while any(map(lives, processes)) and time.monotonic() < deadline:
            time.sleep(0.002)
        if isinstance(self.process, psutil.Popen):
            self.process.wait()
        if self.group is not None:
            self.group.remove()
        self.channel.close()
        if self.log is not None:
            self.log.close()
        with contextlib.suppress(RecursionError):
            shutil.rmtree(self.folder, ignore_errors=True)


def _below(number: int) -> Iterator[int]:
    """Return the PIDs of a process's descendants. Linux's lists of children avoid a search through all processes."""
    if not LISTS_CHILDREN:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield from (process.pid for process in psutil.Process(number).children(recursive=True))
        return
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{number}/task"):
            for child in Path(f"/proc/{number}/task/{task}/children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _proc_file(number: int, what: str) -> str:
    """Return a file in which Linux describes a process. It may hold any bytes, because a program chooses its own name."""
    return Path(f"/proc/{number}/{what}").read_text(errors="replace")


def _resident(number: int) -> int:
    """Return the bytes that a process has in memory, page tables included; 0 if it has ended."""
    try:
        status = _proc_file(number, "status")
    except OSError:
        return 0
    return sum(int(kilobytes) * 1024 for kilobytes in re.findall(r"^Vm(?:RSS|PTE):\s+(\d+)", status, re.M))


def _share(number: int) -> int:
    """Return the same, but only a part of the memory that processes share, as forks do. This takes milliseconds."""
    try:
        memory = psutil.Process(number).memory_full_info()
        return _resident(number) - memory.rss + memory.pss
    except psutil.Error:  # it has ended, or hides what it shares
        return _resident(number)


def lives(process: psutil.Process) -> bool:
    """Whether a process runs, and is not only waiting to be reaped."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start_kernel(limits: Limits, sandboxed: bool = True) -> Sandbox:
    """Start a kernel and wait until it is ready, before any student's code runs.

    If the limits say so, the kernel is forked from a warm parent. If a fork fails, as on a machine that refuses a
    sandbox within a sandbox, this process warns once, and starts this and all later kernels afresh.

    Raises:
        SandboxError: the kernel did not come up in time; the message holds what it printed.
    """
    global _forking_failed
    if not (sandboxed and limits.forked) or _forking_failed:
        return _start(limits, sandboxed, None)
    try:
        return _start(limits, sandboxed, warm_parent(limits))
    except SandboxError as error:
        _forking_failed = True
        logging.getLogger(__name__).warning("Kernels are not forked. Starting each one takes about 2 s: %s", error)
        return _start(limits, sandboxed, None)


def _start(limits: Limits, sandboxed: bool, parent: "WarmParent | None") -> Sandbox:
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    channel, theirs = socket.socketpair()
    # The log is a pipe, because fallocate could make a file on our disk larger than any limit. It is read if the start fails.
    log, their_log = (os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        undo.callback(log.close)
        undo.callback(channel.close)  # closing it ends the kernel
        with theirs, their_log:
            process = _kernel_process(limits, sandboxed, parent, folder, their_log, theirs)
        sandbox = Sandbox(process, folder, channel, log=log)
        undo.callback(sandbox.close)
        channel.settimeout(START_SECONDS)
        ready = b""
        with contextlib.suppress(TimeoutError):
            ready = channel.recv(1)
        if not ready:
            os.set_blocking(log.fileno(), False)
            printed = (log.read(2**20) or b"").decode(errors="replace")[-2000:]
            raise SandboxError(f"The kernel did not start within {START_SECONDS:.0f} s. It printed:\n{printed}")
        if parent is not None:
            first = next(_below(process.pid))  # the first process of the kernel's namespace: all others die with it
            sandbox.process = psutil.Process(first)
        if sandboxed:
            name = f"{PREFIX}{os.getpid()}-"
            sandbox.group = make_group(name, limits.memory_bytes, OWN_PROCESSES + limits.processes)
            processes = [sandbox.process.pid, *_below(sandbox.process.pid)]  # no student's code runs yet
            for process in processes:
                with contextlib.suppress(OSError):  # Linux may be built without this file
                    Path(f"/proc/{process}/oom_score_adj").write_text(FIRST_TO_GO)
            if sandbox.group is not None:
                sandbox.group.add(processes)
        undo.pop_all()
    return sandbox


def _kernel_process(
    limits: Limits, sandboxed: bool, parent: "WarmParent | None", folder: Path, log: BinaryIO, channel: socket.socket
) -> psutil.Process:
    """Start the process of a kernel that serves a channel, and prints to a log until it is ready."""
    user = _own_user() if sandboxed else None
    if parent is not None:
        return parent.fork(user, limits, log, channel)
    walls = _bubblewrap(user, limits) if sandboxed else []
    program = "/grader/inside.py" if sandboxed else str(GUEST / "inside.py")
    bounds = json.dumps(limits.resource_limits() if sandboxed else {})
    command = [*walls, *_python(program), str(channel.fileno()), bounds]
    return _launch(command, folder, log, channel)


class WarmParent:
    """A process that forks kernels, in its own sandbox; see `warm.py`. It ends with the process that started it.

    Starting one returns at once: the process imports in the background, and answers the first request when it is ready.
    A WarmParent can be passed to other processes of the grader, and serves all of them.

    Args:
        limits: The limits of the kernels.
        modules: The modules that it imports.
    """

    def __init__(self, limits: Limits, modules: Sequence[str] = SLOW) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*_bubblewrap(None, limits, parent=True), *_python("/grader/warm.py"), str(theirs.fileno())]
        with theirs, (self.folder / "log").open("wb") as log:
            self.process = _launch([*command, *modules], self.folder, log, theirs)
        self.user = os.getpid()  # the process that forks kernels from it

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"process": self.process.pid}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.process, self.user = psutil.Process(self.process), os.getpid()

    def fork(self, user: int | None, limits: Limits, log: BinaryIO, channel: socket.socket) -> psutil.Process:
        """Fork a kernel; return the process that waits for the first process of its namespace."""
        request = {"user": user, "limits": limits.resource_limits()}
        request["below_tmp"] = [str(folder) for folder in _shown_folders() if folder.is_relative_to("/tmp")]
        ours, theirs = socket.socketpair()
        reply = b""
        with ours, contextlib.suppress(OSError):
            with theirs:  # each process that asks gets its own answer
                files = [log.fileno(), channel.fileno(), theirs.fileno()]
                socket.send_fds(self.channel, [json.dumps(request).encode()], files)
            ours.settimeout(60)
            reply = ours.recv(2**16)
        if not reply:
            printed = (self.folder / "log").read_text(errors="replace")[-2000:]
            raise SandboxError(f"The warm parent of kernels did not answer. It printed:\n{printed}")
        number = json.loads(reply)["process"]
        for process in _below(self.process.pid):  # processes have other numbers on this side
            with contextlib.suppress(OSError):
                if re.search(rf"^NSpid:\s+{process}\s+{number}$", _proc_file(process, "status"), re.M):
                    return psutil.Process(process)
        raise SandboxError("The kernel ended as it was forked.")

    def close(self) -> None:
        """End the process, and with it all kernels that it forked."""
        Sandbox(self.process, self.folder, self.channel).close()


def use_parent(parent: WarmParent | None) -> None:
    """Fork the kernels of this process from a parent that another process has started."""
    global _parent
    _parent = parent


def warm_parent(limits: Limits) -> WarmParent:
    """Return this process's warm parent; a new one if there is none, or it ended."""
    global _parent
    if _parent is None or _parent.user != os.getpid() or not lives(_parent.process):
        _parent = WarmParent(limits)
        Finalize(None, _parent.close, exitpriority=1)  # this also runs when a process of multiprocessing ends
    return _parent


_parent: WarmParent | None = None
_forking_failed = False  # whether this machine refuses a warm parent


def _launch(command: list[str], folder: Path, log: BinaryIO, channel: socket.socket) -> psutil.Popen:
    """Start a process that inherits only the channel, and prints to the log."""
    return psutil.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[channel.fileno()],
        start_new_session=True,
        env=_environment(folder),
    )


def _python(program: str) -> list[str]:
    return [sys.executable, "-X", "frozen_modules=off", program]


def remove_leftovers() -> None:
    """Remove the folders and groups of sandboxes whose grader was killed; their processes died with it."""

    def is_left(name: str) -> bool:
        number = name.removeprefix(PREFIX).split("-")[0]
        return number.isdigit() and not psutil.pid_exists(int(number))

    remove_groups(PREFIX, is_left)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with contextlib.suppress(RecursionError, FileNotFoundError):  # another grader may remove it now
            if is_left(folder.name) and folder.lstat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def check_sandbox() -> None:
    """Check that bubblewrap works here. If not, raise a SandboxError, which says what to do."""
    if shutil.which("bwrap") is None:
        raise SandboxError(
            "bubblewrap is not installed, so students' code cannot be run safely. "
            'Install it with "sudo apt-get install bubblewrap". To grade without it, at your own risk: --no-sandbox.'
        )
    if os.uname().machine not in MACHINES:
        raise SandboxError(
            f"The sandbox knows the system calls of {' and '.join(MACHINES)}, not those of {os.uname().machine}: it could "
            "not refuse those that lead out. Grade on another machine. Without protection, at your own risk: --no-sandbox."
        )
    trial = subprocess.run([*_bubblewrap(_own_user(), Limits()), "true"], capture_output=True, text=True, timeout=60)
    if trial.returncode != 0:
        raise SandboxError(
            f"bubblewrap is installed but cannot make a sandbox here: {trial.stderr.strip()}\n"
            "On Ubuntu 24.04 and later allow user namespaces: "
            '"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0". In a container: run it with the options of '
            "book/instructors_hosting.md, which are not the same for Podman and Docker. "
            "To grade without it, at your own risk: --no-sandbox."
        )


def _own_user() -> int | None:
    """Return a user id that owns nothing, different for each process of the grader; None if this process is not root."""
    return 200_000 + os.getpid() if os.getuid() == 0 else None


# Variables that decide how PyTorch and NumPy round: kernels get the grader's values.
ROUNDING = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE")


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a kernel. It takes only the variables in ROUNDING from the grader's environment."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "USER": "student",  # torchvision asks for a name, and the sandbox has no list of users
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as ipykernel sets it
        "OMP_NUM_THREADS": "1",
        "OMP_THREAD_LIMIT": "1",  # also after torch.set_num_threads: OpenMP's threads do not survive a fork
        "PYTHONHASHSEED": "0",
        # With this variable torch.compile returns its argument, because compiling would exceed the time limit of a call.
        "TORCH_COMPILE_DISABLE": "1",
        "PYTHONBREAKPOINT": "0",  # a breakpoint() that a student forgot does nothing
        "GRADING": "1",  # tells a notebook to skip long work, such as training
        "PYTHONPATH": "" if _is_shown_with_python(TESTS) else str(TESTS.parent),
    } | {name: os.environ[name] for name in ROUNDING if name in os.environ}


def _bubblewrap(user: int | None, limits: Limits, parent: bool = False) -> list[str]:
    """Return the command that starts a sandbox, without the program that runs in it.

    Args:
        user: The user id that a kernel gets; None if it keeps its own.
        limits: The limits; only the limit on temporary files is used here.
        parent: Whether the program is a warm parent of kernels.
    """
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox"]
    command += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib32", "lib64", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for name in ("alternatives", "fonts", "ld.so.cache", "localtime"):
        command += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev"]
    command += ["--ro-bind", "/dev/null", "/dev/zero"]  # mapping /dev/zero gives memory that counts for no process
    command += ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", "/tmp"]
    command += ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", "/dev/shm"]
    if ROOT.is_relative_to("/usr"):
        command += ["--tmpfs", str(ROOT)]
    for folder in _shown_folders():
        command += _visible(folder, folder)
    for name in INSIDE:
        command += _visible(GUEST / name, Path("/grader", name))
    for file in STAND_INS:
        command += _visible(file, Path("/grader", file.relative_to(ROOT)))
    for folder in (ROOT / "autograder", ROOT / "solutions"):  # a clone may lie in Python's own folder
        if any(folder.is_relative_to(prefix) for prefix in ("/usr", sys.base_prefix, sys.prefix)):
            command += ["--tmpfs", str(folder)]
    if parent:
        command += ["--dir", "/new_tmp"]  # its kernels mount their temporary files here
    command += ["--remount-ro", "/", "--remount-ro", "/dev"]
    command += [] if parent else ["--remount-ro", "/proc"]  # otherwise a kernel could change its oom_score_adj
    home = "/tmp/home"
    command += ["--perms", "0777", "--dir", home, "--setenv", "HOME", home, "--chdir", home]
    if os.getuid() != 0:
        return [*command, "--unshare-user", "--cap-drop", "ALL", "--"]
    if parent:
        for name in ("SETUID", "SETGID", "SETPCAP", "SYS_ADMIN"):
            command += ["--cap-add", f"CAP_{name}"]
        return [*command, "--"]
    for name in ("SETUID", "SETGID", "SETPCAP"):
        command += ["--cap-add", f"CAP_{name}"]
    drop = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--no-new-privs"]
    return [*command, "--", *drop, "--bounding-set=-all", "--inh-caps=-all"]


def _python_folders() -> list[Path]:
    """Return the folders of Python and its packages, without those that every sandbox sees."""
    folders = dict.fromkeys(Path(prefix) for prefix in (sys.base_prefix, sys.prefix))
    return [folder for folder in folders if not folder.is_relative_to("/usr") or folder.is_relative_to(ROOT)]


def _shown_folders() -> list[Path]:
    """Return the folders of Python, and that of the visible tests if it is in none of them."""
    return _python_folders() if _is_shown_with_python(TESTS) else [*_python_folders(), TESTS]


def _is_shown_with_python(path: Path) -> bool:
    """Whether a path is in a folder of Python and its packages."""
    return any(path.is_relative_to(folder) for folder in _python_folders())


def _visible(path: Path, place: Path) -> list[str]:
    """Return options that show a file or folder read-only, and let the sandbox's user pass through its parents."""
    parents = [*reversed(place.parents)][1:]
    options = [option for parent in parents for option in ("--perms", "0755", "--dir", str(parent))]
    return [*options, "--ro-bind", str(path), str(place)]

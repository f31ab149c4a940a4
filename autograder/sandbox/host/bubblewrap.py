"""The sandbox: a kernel under bubblewrap that sees the system and Python read-only, and neither network nor course.

Run by root, the kernel gets a user id of its own that owns nothing; run by anybody else, it keeps that user's id inside
a user namespace in which none of the user's files can be seen. Either way it has its own processes, network and temporary
files, no capabilities, and limits on memory, processes, file sizes and CPU time.
"""

import contextlib
import importlib.util
import json
import logging
import os
import re
import shlex
import shutil
import socket
import stat
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

GUEST = ROOT / "autograder" / "sandbox" / "guest"
LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()  # a Linux kernel may be built without
PROCESSES = Path("/proc/self/ns/pid")
# A kernel's temporary folder begins so, and with the number of the grader's process, which counts in these namespaces.
PREFIX = f"autograder-{PROCESSES.stat().st_ino if PROCESSES.exists() else 0}-"
SLOW = (
    "numpy",
    "matplotlib.pyplot",
    "torch",
    "torchvision",
    "sklearn.datasets",
)  # that a warm parent may have imported
START_SECONDS = 60.0  # until a kernel is ready
OWN_PROCESSES = 4  # of bubblewrap's, or of a fork's, next to what the student may start
FIRST_TO_GO = "1000"  # of all processes, where the machine's memory is used up
INSIDE = sorted(path.name for path in GUEST.glob("[!_]*.py"))  # our files that run in a sandbox


class SandboxError(RuntimeError):
    """The sandbox cannot be used on this machine; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    cell_seconds: float = 30.0  # for a student's cell: ours take under 1 s
    call_seconds: float = 10.0  # for a call by a test: ours take milliseconds
    memory_bytes: int = 3 * 2**30  # of all its processes; importing PyTorch takes 0.6 GiB
    processes: int = 96  # with threads: a kernel has about 15
    cpu_seconds: int = 600
    file_bytes: int = 64 * 2**20  # of one file, and of all temporary files together
    output_bytes: int = 200_000  # of what a cell prints; the rest is cut
    output_count: int = 500  # of the separate outputs of a cell
    total_output_bytes: int = 3_000_000  # of a whole submission: what its cells print, and the text of its own cells
    total_seconds: float = 300.0  # for a whole submission, a third of it for its own cells: the answers take 3
    kernels: int = 30  # fresh ones for one submission; each that is lost costs the cell or test that lost it
    forked: bool = True  # kernels from a parent that has imported PyTorch, where this machine can; or start each afresh

    @property
    def job_seconds(self) -> float:
        """After how many seconds grading a submission hangs, whatever it is at."""
        return 2 * self.total_seconds + 120

    def resource_limits(self) -> dict[str, int]:
        """Return the limits that the operating system enforces, by the names of Python's `resource` module."""
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 256,
        }


@dataclass
class Sandbox:
    """A running kernel: the process above all of its own, and a folder, its home where there is no sandbox."""

    process: psutil.Process
    folder: Path
    channel: socket.socket  # over which requests go and replies come
    group: Group | None = None  # by which the system bounds memory and processes, where one can be had
    log: BinaryIO | None = None  # of its start; a forked kernel ends when nobody can read it any more

    def took_more_than(self, memory_bytes: int) -> bool:
        """Whether the sandbox was ended for its memory, or all of its processes together have more of it now."""
        if self.group is not None and self.group.was_full():
            return True
        return sum(_resident(process) for process in _below(self.process.pid)) > memory_bytes

    def activity(self) -> tuple[float, bool]:
        """Return the seconds of processor that its processes have used, and whether one of them wants it, or the disk, now."""
        ticks, states, parents = 0, {}, set()
        for number in (self.process.pid, *_below(self.process.pid)):  # the first takes in what others left
            with contextlib.suppress(OSError, IndexError):  # it has ended
                states[number], *fields = _told(number, "stat").rpartition(")")[2].split()
                parents.add(int(fields[0]))
                ticks += sum(map(int, fields[10:14]))  # its own and of the children that it waited for
        # D is also the state of one that sleeps until its child, made by vfork, has ended
        in_line = any(state == "R" or (state == "D" and number not in parents) for number, state in states.items())
        return ticks / os.sysconf("SC_CLK_TCK"), in_line

    def is_alive(self) -> bool:
        """Whether the sandbox still runs."""
        return lives(self.process)

    def close(self) -> None:
        """End every process of the sandbox and remove its folder. The first takes its process namespace along."""
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
    """Return the processes below one; the system's list of each thread's children spares a look at all processes."""
    if not LISTS_CHILDREN:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield from (process.pid for process in psutil.Process(number).children(recursive=True))
        return
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{number}/task"):
            for child in Path(f"/proc/{number}/task/{task}/children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _told(number: int, what: str) -> str:
    """Return what Linux tells of a process; its name in there is any bytes that its program chose."""
    return Path(f"/proc/{number}/{what}").read_text(errors="replace")


def _resident(number: int) -> int:
    """Return the bytes that a process has in memory, its page tables too; 0 if it ended."""
    try:
        status = _told(number, "status")
    except OSError:
        return 0
    return sum(int(kilobytes) * 1024 for kilobytes in re.findall(r"^Vm(?:RSS|PTE):\s+(\d+)", status, re.M))


def lives(process: psutil.Process) -> bool:
    """Whether a process runs, and is not only waiting to be reaped."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start_kernel(limits: Limits, sandboxed: bool = True) -> Sandbox:
    """Start a kernel and wait until it is ready, before any student's code runs.

    If the limits say so, it is forked from a warm parent. Where the first cannot be, as on a machine that refuses a
    sandbox within a sandbox, this process says so once, and starts this and all later ones afresh.

    Raises:
        SandboxError: the kernel did not come up in time; the message holds what it printed.
    """
    global _refused
    if not (sandboxed and limits.forked) or _refused:
        return _start(limits, sandboxed, None)
    try:
        return _start(limits, sandboxed, warm_parent(limits))
    except SandboxError as error:
        if _parent is not None and _parent.proven:
            raise
        _refused = True
        logging.getLogger(__name__).warning("Kernels are started one by one, about 2 s for each: %s", error)
        return _start(limits, sandboxed, None)


def _start(limits: Limits, sandboxed: bool, parent: "WarmParent | None") -> Sandbox:
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    channel, theirs = socket.socketpair()
    # A pipe, which is read where the kernel does not start: fallocate makes a file on our disk larger than any limit.
    log, their_log = (os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        undo.callback(log.close)
        undo.callback(channel.close)  # with which a kernel ends
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
            first = next(_below(process.pid))  # of its namespace: with it all others die
            sandbox.process = psutil.Process(first)
            parent.proven = True
        if sandboxed:
            name = f"{PREFIX}{os.getpid()}-"
            sandbox.group = make_group(name, limits.memory_bytes, OWN_PROCESSES + limits.processes)
            processes = [sandbox.process.pid, *_below(sandbox.process.pid)]  # none of the student's among them yet
            for process in processes:
                with contextlib.suppress(OSError):  # where Linux has been built without
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
    return _launch(command, folder, log, pass_fds=[channel.fileno()])


class WarmParent:
    """A process that forks kernels, in a sandbox of its own; see `warm.py`. It ends with the process that started it.

    To start one returns at once: it imports while others do their own work, and answers the first request when it is done.
    It can be given to other processes of the grader, and serves all of them.
    """

    def __init__(self, limits: Limits, modules: Sequence[str] = SLOW) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*_bubblewrap(None, limits, parent=True), *_python("/grader/warm.py"), str(theirs.fileno())]
        with theirs, (self.folder / "log").open("wb") as log:
            self.process = _launch([*command, *modules], self.folder, log, pass_fds=[theirs.fileno()])
        self._begin()

    def _begin(self) -> None:
        self.user, self.proven = os.getpid(), False  # who uses this; proven: it has forked a kernel that answered

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"process": self.process.pid}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.process = psutil.Process(self.process)
        self._begin()

    def fork(self, user: int | None, limits: Limits, log: BinaryIO, channel: socket.socket) -> psutil.Process:
        """Have a kernel forked; return the process that waits for the first of its namespace."""
        request = {"user": user, "limits": limits.resource_limits()}
        request["below_tmp"] = [str(folder) for folder in _python_folders() if folder.is_relative_to("/tmp")]
        ours, theirs = socket.socketpair()
        reply = b""
        with ours, contextlib.suppress(OSError):
            with theirs:  # an answer to each that asks, as several may
                files = [log.fileno(), channel.fileno(), theirs.fileno()]
                socket.send_fds(self.channel, [json.dumps(request).encode()], files)
            ours.settimeout(60)
            reply = ours.recv(2**16)
        if not reply:
            printed = (self.folder / "log").read_text(errors="replace")[-2000:]
            raise SandboxError(f"The warm parent of kernels did not answer. It printed:\n{printed}")
        number = json.loads(reply)["process"]
        for process in _below(self.process.pid):  # their numbers are others on this side
            with contextlib.suppress(OSError):
                if re.search(rf"^NSpid:\s+{process}\s+{number}$", _told(process, "status"), re.M):
                    return psutil.Process(process)
        raise SandboxError("The kernel ended as it was forked.")

    def close(self) -> None:
        """End the process, and with it all kernels that it forked."""
        Sandbox(self.process, self.folder, self.channel).close()


def use_parent(parent: WarmParent | None) -> None:
    """Let this process have its kernels forked from a parent that another process has started."""
    global _parent
    _parent = parent


def warm_parent(limits: Limits) -> WarmParent:
    """Return this process's warm parent; a new one if there is none, or it ended."""
    global _parent
    if _parent is None or _parent.user != os.getpid() or not lives(_parent.process):
        _parent = WarmParent(limits)
        Finalize(None, _parent.close, exitpriority=1)  # also at the end of a process of multiprocessing
    return _parent


_parent: WarmParent | None = None
_refused = False  # whether a warm parent cannot be had on this machine


def _launch(command: list[str], folder: Path, log: BinaryIO, pass_fds: Sequence[int] = ()) -> psutil.Popen:
    """Start a process that inherits nothing of ours but the files named, and prints to the log."""
    return psutil.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=pass_fds,
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
    """Raise a SandboxError, which says what to do, unless bubblewrap works here."""
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
    command = [*_bubblewrap(_own_user(), Limits()), "sh", "-c", NOT_READABLE, "sh", *_files_of_kernels()]
    trial = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if trial.returncode != 0:
        raise SandboxError(
            f"bubblewrap is installed but cannot make a sandbox here: {trial.stderr.strip()}\n"
            "On Ubuntu 24.04 and later allow user namespaces: "
            '"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0". In a container: run it with the options of '
            "book/instructors_hosting.md, which are not the same for Podman and Docker. "
            "To grade without it, at your own risk: --no-sandbox."
        )
    if trial.stdout:
        raise SandboxError(
            f"The sandbox's user may not read {trial.stdout.split(chr(10))[0]}: it was written under a umask such as 077, or "
            f'its mode was changed. Let everybody read what is installed: "chmod -R a+rX {shlex.join(_installed())}".'
        )


# Of the files that are named, print those that cannot be read.
NOT_READABLE = 'for file; do test -r "$file" || echo "$file"; done'


def _installed() -> list[str]:
    """Return the folders that sandboxes show: of Python, its packages and the grader's own files."""
    return [*map(str, _python_folders()), str(GUEST)]


def _files_of_kernels() -> list[str]:
    """Return a few files that a kernel needs, as a sandbox names them: enough to see whether its user may read them."""
    packages = ("IPython", *dict.fromkeys(module.split(".")[0] for module in SLOW))
    found = [spec.origin for spec in map(importlib.util.find_spec, packages) if spec is not None]
    return [sys.executable, os.__file__, *filter(None, found), *(f"/grader/{name}" for name in INSIDE)]


def _own_user() -> int | None:
    """Return a user id that owns nothing, if this process may become it; another one for each process of the grader."""
    return 200_000 + os.getpid() if os.getuid() == 0 else None


# Settings of PyTorch and NumPy that decide how numbers are rounded: the grader's hold for kernels too.
ROUNDING = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE")


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a kernel: nothing of the grader's own."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "USER": "student",  # torchvision asks for a name, and the sandbox has no list of users
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as ipykernel sets it
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        # torch.compile gives back what it is given: to compile takes longer than a call may
        "TORCH_COMPILE_DISABLE": "1",
        "GRADING": "1",  # by which a notebook may know that long work, such as training, is not asked for
    } | {name: os.environ[name] for name in ROUNDING if name in os.environ}


def _bubblewrap(user: int | None, limits: Limits, parent: bool = False) -> list[str]:
    """Return the command up to, and without, what is to run in the sandbox.

    Args:
        user: Whom a kernel is to become; None if it stays who it is.
        limits: On its temporary files.
        parent: Whether it is a warm parent of kernels.
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
    command += ["--ro-bind", "/dev/null", "/dev/zero"]  # to map it is another way to memory that counts as nobody's
    command += ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", "/tmp"]
    command += ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", "/dev/shm"]
    if ROOT.is_relative_to("/usr"):
        command += ["--tmpfs", str(ROOT)]
    for folder in _python_folders():
        command += _visible(folder)
    for file in (*(GUEST / name for name in INSIDE), *_font_lists()):
        command += ["--perms", "0755", "--dir", "/grader", "--ro-bind", str(file), f"/grader/{file.name}"]
    for folder in (ROOT / "autograder", ROOT / "solutions"):  # in Python's own folder, unless installed as editable
        if any(folder.is_relative_to(prefix) for prefix in ("/usr", sys.base_prefix, sys.prefix)):
            command += ["--tmpfs", str(folder)]
    if parent:
        command += ["--dir", "/new_tmp"]  # where its kernels' own temporary files begin
    command += ["--remount-ro", "/", "--remount-ro", "/dev"]
    command += [] if parent else ["--remount-ro", "/proc"]  # else a kernel could say that it is not the first to go
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


def _font_lists() -> Iterator[Path]:
    """Return what Matplotlib has found out about this machine's fonts, which else takes each kernel seconds."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "matplotlib")
    for path in Path(os.environ.get("MPLCONFIGDIR", caches)).glob("fontlist-*.json"):
        if os.getuid() != 0 or path.stat().st_mode & stat.S_IROTH:  # a kernel's user is another one than root
            yield path


def _python_folders() -> list[Path]:
    """Return where Python and its packages are, if not below what every sandbox sees."""
    folders = dict.fromkeys(Path(prefix) for prefix in (sys.base_prefix, sys.prefix))
    return [folder for folder in folders if not folder.is_relative_to("/usr") or folder.is_relative_to(ROOT)]


def _visible(path: Path) -> list[str]:
    """Show a folder read-only at its own place, and let the sandbox's user pass through its parents."""
    parents = [
        part for parent in list(reversed(path.parents))[1:] for part in ("--perms", "0755", "--dir", str(parent))
    ]
    return [*parents, "--ro-bind", str(path), str(path)]

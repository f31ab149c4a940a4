"""A warm parent: it has imported the slow libraries, and forks a kernel for each submission. It runs no student's code.

It runs in its own sandbox, made like that of a kernel. A kernel that it forks gets what bubblewrap would give it: new
namespaces of processes, network, mounts, IPC and host name, its own temporary files, and no privileges.
`inside.serve_kernel` adds limits and refused system calls. Open files and random states are not inherited.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

import inside

NEW = {"ns": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000, "net": 0x40000000}
NEW_USER = 0x10000000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
BIND, MOVE, RECURSIVE, PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
DIE_WITH_PARENT, DROP_FROM_BOUND, NO_NEW_PRIVILEGES = 1, 24, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library; raise an OSError if it fails."""
    plain = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if getattr(LIBC, name)(*plain) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount a file system."""
    call("mount", source, target, kind, ctypes.c_ulong(flags), options)


def die_with_parent() -> None:
    """Let this process be killed when its parent ends."""
    call("prctl", DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def enter_sandbox(request: dict) -> None:
    """Give the process its own namespaces and temporary files. Return in a new process, the second in its namespace."""
    user, group = os.getuid(), os.getgid()
    call("unshare", ctypes.c_int(sum(NEW.values()) | (NEW_USER if request["user"] is None else 0)))
    if request["user"] is None:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    supervise_child(os.fork())
    mount("none", "/", None, RECURSIVE | PRIVATE)
    for path in ("/new_tmp", "/dev/shm"):
        mount("tmpfs", path, "tmpfs", NO_SETUID | NO_DEVICES, f"mode=1777,size={request['limits']['RLIMIT_FSIZE']}")
    for path in request["below_tmp"]:
        place = Path("/new_tmp", Path(path).relative_to("/tmp"))
        place.mkdir(parents=True)
        mount(path, str(place), None, BIND | RECURSIVE)  # read-only, as its source is
    mount("/new_tmp", "/tmp", None, MOVE)
    mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620")
    mount("proc", "/proc", "proc", READ_ONLY | NO_SETUID | NO_DEVICES | NO_PROGRAMS)
    call("sethostname", "sandbox", 7)
    os.makedirs("/tmp/home", mode=0o777)
    os.chmod("/tmp/home", 0o777)
    drop_privileges(request["user"])
    supervise_child(os.fork())


def supervise_child(child: int) -> None:
    """In the parent of a fork: close all files but the log, reap orphans, end with the child. In the child: return.

    When nobody can read the log any more, the grader was killed. Then the parent ends too. Otherwise the agent might
    continue.
    """
    die_with_parent()
    if child:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # SIGCHLD wakes sigtimedwait below
        os.closerange(0, 2)
        os.closerange(3, 256)
        grader = select.poll()
        grader.register(2, 0)
        while not has_ended(child) and not grader.poll(0):
            signal.sigtimedwait({signal.SIGCHLD}, 1.0)
        os._exit(0)


def has_ended(child: int) -> bool:
    """Reap all processes that have ended; return whether the child is among them."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            if ended == child:
                return True
        return False
    return True


def drop_privileges(user: int | None) -> None:
    """Become the sandbox's user, without any capability and without a way to get one."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        call("prctl", DROP_FROM_BOUND, capability, 0, 0, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())
    call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def run_kernel(request: dict, log: int, channel: int) -> None:
    """Make this forked process a sandboxed kernel, and serve until it is killed."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, channel)
    os.closerange(channel + 1, 1024)
    enter_sandbox(request)
    inside.seed_all(None)
    inside.serve_kernel(channel, request["limits"])


def use_once() -> None:
    """Use PyTorch as answers do: the first use of a layer and of a backward pass takes milliseconds in each new process."""
    import torch
    from torch import nn

    layers = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Dropout(), nn.Softmax(-1))
    found = layers(torch.randn(2, 3, 4, requires_grad=True))
    torch.einsum("bij,bkj->bik", found, found).sum().backward()


def main() -> None:
    """Import the modules named in the command, and fork a kernel for each request."""
    inside.make_shell()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if "torch" in sys.modules:
        inside.import_ours()
        use_once()
    if "matplotlib.pyplot" in sys.modules:
        import matplotlib_inline.backend_inline  # noqa: F401
    inside.seed_all(None)  # NumPy imports its random generators when they are first used

    channel = socket.socket(fileno=int(sys.argv[1]))
    if len(os.listdir("/proc/self/task")) != 1:  # a fork keeps one thread, but the locks of all threads
        raise SystemExit("The warm parent has several threads.")
    gc.collect()
    gc.freeze()  # so that the kernels' garbage collection does not copy the memory that they share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the kernels
    while True:
        message, files, _, _ = socket.recv_fds(channel, 2**16, 3)
        if not message:
            return
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run_kernel(json.loads(message), *files[:2])
            except BaseException:
                import traceback

                traceback.print_exc(file=sys.__stderr__)  # this goes into the log: sys.stderr is the notebook's
            finally:
                os._exit(1)
        with socket.socket(fileno=files.pop()) as asker, contextlib.suppress(OSError):  # the asker may be gone
            asker.send(json.dumps({"process": child}).encode())
        for file in files:
            os.close(file)


if __name__ == "__main__":
    main()

"""Can the student's side reach nothing of ours? Cells in a real kernel test the sandbox's promises from inside."""

import contextlib
import errno
import os
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import attention_tests
import pytest
from in_kernel import attempt, told

from autograder.imports import ROOT
from autograder.sandbox.guest.refused import MACHINES, REFUSED
from autograder.sandbox.host.bubblewrap import SandboxError, check_sandbox
from autograder.sandbox.host.kernel import Kernel

IS_ROOT = os.getuid() == 0


@pytest.fixture(scope="module", params=[True, False], ids=["forked", "fresh"])
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether kernels are forked from a warm parent or started fresh: all tests run on both."""
    return request.param


@pytest.fixture(scope="module")
def secrets() -> Iterator[list[Path]]:
    """Files of a course on the host that everybody may read there, one among temporary files and one elsewhere."""
    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place))) for place in ("/tmp", "/var/tmp")]
        for folder in folders:
            folder.chmod(0o755)
            (folder / "gradebook.db").write_text("the points", encoding="utf-8")
        yield [folder / "gradebook.db" for folder in folders]


def test_sandbox_has_sockets_of_three_families(kernel: Kernel) -> None:
    """Are all families of sockets refused, except those that lead nowhere, on any version of Linux? (Nothing connects.)"""
    asked = """
        import socket
        found = set()
        for family in range(64):
            for kind in (1, 2, 3, 5):
                try:
                    socket.socket(family, kind).close()
                    found.add(family)
                except OSError:
                    pass
        print(json.dumps(sorted(found)))
        """
    assert told(kernel, asked) == sorted({socket.AF_UNIX, socket.AF_INET, socket.AF_INET6})


def test_sandbox_is_read_only(kernel: Kernel) -> None:
    """Is every file system read-only, and each file written to temporary folders the sandbox's own?"""
    source = """
    mounts = [line.split() for line in open("/proc/self/mounts")]
    seen = {place: options.split(",") for _, place, _, options, *_ in mounts}  # the last mount hides earlier ones
    print(json.dumps([place for place, options in seen.items() if "ro" not in options]))
    """
    own = {"/tmp", "/dev", "/dev/shm", "/dev/pts", "/dev/console", "/proc"}
    assert set(told(kernel, source)) <= own | {
        f"/dev/{name}" for name in ["null", "zero", "full", "random", "urandom", "tty"]
    }
    refused = ("OSError", "PermissionError", "FileNotFoundError")
    for folder in ("/", "/usr/bin", "/etc", "/grader", sys.prefix, sys.base_prefix, "/dev", "/proc/sys/kernel"):
        assert attempt(kernel, f"open({folder + '/autograder-was-here'!r}, 'w')") in refused
    for folder in ("/tmp", "/tmp/home", "/dev/shm"):
        assert attempt(kernel, f"open('{folder}/autograder-{os.getpid()}', 'w').write('x')") == ""
        assert not Path(folder, f"autograder-{os.getpid()}").exists()


def test_sandbox_shows_no_folder_but_those_of_security_md(kernel: Kernel, secrets: list[Path]) -> None:
    """Does it show only the system, Python, our files for sandboxes, but no answer, course or password?"""
    text = told(kernel, "import json\nprint(json.dumps(open('/proc/self/mountinfo').read()))")
    places = [Path(line.split()[4].replace(r"\040", " ")) for line in text.splitlines()]
    allowed = [Path("/", name) for name in ("dev", "proc", "tmp", "new_tmp", "grader", "usr", "bin", "sbin")]
    allowed += [Path("/", name) for name in ("lib", "lib32", "lib64")]
    allowed += [Path("/etc", name) for name in ("alternatives", "fonts", "ld.so.cache", "localtime")]
    allowed += map(Path, (sys.prefix, sys.base_prefix, *attention_tests.__path__))
    assert [place for place in places if place != Path("/") and not any(map(place.is_relative_to, allowed))] == []
    names = ("solutions", "autograder", "tests", "exercises/1_attention", ".git", "README.md")
    hidden = [
        *secrets,
        *(ROOT / name for name in names),
        *map(Path, ("/etc/passwd", "/etc/shadow", "/var/lib", "/mnt")),
    ]
    assert all(secret.exists() for secret in secrets)
    assert told(kernel, f"import os\nprint(json.dumps([*filter(os.path.exists, {[*map(str, hidden)]})]))") == []
    assert set(told(kernel, "print(json.dumps(os.listdir('/')))")) <= {place.parts[1] for place in allowed}
    home = Path.home()
    way = {path.relative_to(home).parts[0] for path in allowed if path.is_relative_to(home)}
    assert (
        set(told(kernel, f"print(json.dumps(os.listdir({str(home)!r}) if os.path.isdir({str(home)!r}) else []))"))
        <= way
    )
    for module in ("autograder", "autograder.checks.attention.exercises", "solutions.attention"):
        __import__(module)
        assert attempt(kernel, f"import {module}") == "ModuleNotFoundError"


def test_sandbox_keeps_nothing_in_attributes_of_files(kernel: Kernel) -> None:
    """Do calls that write extended attributes fail as on a file system without them, and can files still be copied?"""
    asked = """
    import ctypes, errno, os, shutil
    path = os.path.abspath("with attributes")
    file, libc, found = open(path, "w"), ctypes.CDLL(None, use_errno=True), []
    value = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(b"y")), 1)
    given = [path.encode(), b"user.x", b"y", 1, 0]
    calls = [lambda: libc.setxattr(*given), lambda: libc.lsetxattr(*given), lambda: libc.fsetxattr(file.fileno(), *given[1:])]
    for call in (*calls, lambda: libc.syscall(463, -100, given[0], 0, given[1], value, 16)):
        found.append(errno.errorcode[ctypes.get_errno()] if call() else "done")
    os.listxattr = lambda *path, **options: ["user.x"]  # as where the file has some, such as those of SELinux
    os.getxattr = lambda *path, **options: b"y"
    print(json.dumps([*found, os.path.exists(shutil.copy2(path, path + " copied"))]))
    """
    assert told(kernel, asked) == ["ENOTSUP"] * 4 + [True]


def test_sandbox_has_an_environment_and_processes_of_its_own(kernel: Kernel) -> None:
    """Does no process that a cell can see have a variable of the grader, least of all its seed, or a number of the host?"""
    source = """
    import glob, os
    text = b""
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text += open(path, "rb").read()
        except OSError:
            pass
    print(json.dumps([len(glob.glob("/proc/[0-9]*")), sorted(os.environ), text.decode(errors="replace")]))
    """
    count, names, text = told(kernel, source)
    assert "AUTOGRADER_SEED" in os.environ
    assert not [name for name in names if "AUTOGRADER" in name or "PYTEST" in name]
    assert "314159" not in text and "PYTEST" not in text and count < 10
    assert attempt(kernel, f"import os; os.kill({os.getpid()}, 0)") == "ProcessLookupError"


def test_sandbox_user_owns_nothing(kernel: Kernel) -> None:
    """Does the kernel lack all privileges: root, groups, capabilities, and ways to get them?"""
    source = """
    import os
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    names = ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd", "NoNewPrivs", "Groups")
    print(json.dumps([os.getuid(), os.geteuid(), {name: lines[name].strip() for name in names}]))
    """
    uid, effective, lines = told(kernel, source)
    assert uid == effective
    assert uid >= 200_000 if IS_ROOT else uid == os.getuid()
    assert {int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert lines["NoNewPrivs"] == "1"
    assert not IS_ROOT or (lines["Groups"], int(lines["CapBnd"], 16)) == ("", 0)
    refused = {"PermissionError"} if IS_ROOT else {"PermissionError", "OSError"}  # without root it has no user 0
    for call in ("setuid(0)", "setgid(0)", "setgroups([0])", "chroot('/')"):
        assert attempt(kernel, f"import os; os.{call}") in refused
    mount = ["mount", "-t", "tmpfs", "x", "/tmp"]
    assert attempt(kernel, f"import subprocess; subprocess.run({mount}, check=True, stderr=-3)") == "CalledProcessError"


def test_sandbox_that_does_not_work_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If bubblewrap makes no sandbox, does grading stop, with what to do?"""
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace.*(?s:.)*userns"):
        check_sandbox()


def test_processors_whose_calls_are_unknown_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is nothing graded on a processor whose calls cannot be refused, and does the message say so?"""
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine="riscv64"))
    with pytest.raises(SandboxError, match="not those of riscv64"):
        check_sandbox()


def test_sandbox_is_ended_first_where_memory_is_short(kernel: Kernel) -> None:
    """Does Linux end a sandbox's processes before the grader's, and can no cell change that?"""
    read = "open('/proc/self/oom_score_adj').read().strip()"
    source = f"import subprocess, sys\ntold = [sys.executable, '-c', {f'print({read})'!r}]\n"
    source += f"print(json.dumps([{read}, subprocess.run(told, capture_output=True, text=True).stdout.strip()]))"
    assert told(kernel, source) == ["1000", "1000"]
    numbers = told(kernel, "import os\nprint(json.dumps([name for name in os.listdir('/proc') if name.isdigit()]))")
    for number in numbers:
        assert attempt(kernel, f"open('/proc/{number}/oom_score_adj', 'w').write('0')") != ""


def test_sandbox_shares_no_terminals(start: Callable[..., Kernel]) -> None:
    """Does each kernel have its own pseudo-terminals, so that another kernel cannot read its text?"""
    kernels = [start(), start()]
    opened = told(kernels[0], "import os\nends = os.openpty()\nprint(json.dumps(os.ttyname(ends[1])))")
    for kernel, seen in zip(kernels, (True, False), strict=True):
        assert told(kernel, f"import os\nprint(json.dumps(os.path.exists({opened!r})))") == seen
    assert told(kernels[1], "import os\nprint(json.dumps(os.ttyname(os.openpty()[1])))") == opened


def test_sandbox_has_no_memory_or_calls_that_nobody_counts(kernel: Kernel) -> None:
    """Are all calls refused that no exercise needs, and memory that counts for no process?"""
    numbers = [each[MACHINES[os.uname().machine][0]] for each in REFUSED.values()]
    source = f"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    print(json.dumps([[libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno()] for number in {numbers}]))
    """
    assert told(kernel, source) == [[-1, errno.ENOSYS]] * len(numbers)
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096)") == "OSError"
    assert attempt(kernel, "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)") != ""
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)") == ""

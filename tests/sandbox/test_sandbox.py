"""Can the student's side reach nothing of ours? Cells in a real kernel test the sandbox's promises from inside."""

import contextlib
import errno
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from in_kernel import attempt, told

from autograder.imports import ROOT
from autograder.sandbox.guest import refused
from autograder.sandbox.host import bubblewrap as sandbox
from autograder.sandbox.host.bubblewrap import (
    GUEST,
    INSIDE,
    STAND_INS,
    TESTS,
    SandboxError,
    _font_lists,
    _python_folders,
    check_sandbox,
)
from autograder.sandbox.host.control_group import mount_path
from autograder.sandbox.host.kernel import Kernel
from autograder.sandbox.host.limits import Limits

IS_ROOT = os.getuid() == 0


@pytest.fixture(scope="module", params=[True, False], ids=["forked", "fresh"])
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether kernels are forked from a warm parent or started fresh: all tests run on both."""
    return request.param


@pytest.fixture(scope="module")
def secrets() -> Iterator[list[Path]]:
    """Files of a course on the host that everybody may read there, one among temporary files and one elsewhere."""
    folders = [Path(tempfile.mkdtemp(dir=place, prefix="course-")) for place in ("/tmp", "/var/tmp")]
    for folder in folders:
        folder.chmod(0o755)
        (folder / "gradebook.db").write_text("the points", encoding="utf-8")
    yield [folder / "gradebook.db" for folder in folders]
    for folder in folders:
        shutil.rmtree(folder)


def test_sandbox_runs_cells(kernel: Kernel) -> None:
    """Does an ordinary cell work in the sandbox, with NumPy, PyTorch and a figure?"""
    assert (
        told(kernel, "import numpy as np, torch\nprint(json.dumps(float(np.ones(3).sum() + torch.ones(2).sum())))") == 5
    )
    outputs = kernel.run_cell("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.show()")
    assert "image/png" in outputs[-1].data


@pytest.mark.parametrize("family", ["tcp", "abstract unix"])
def test_sandbox_has_no_network(kernel: Kernel, family: str) -> None:
    """Is a server of the host out of a cell's reach, through loopback and through an abstract socket?"""
    with socket.socket(socket.AF_INET if family == "tcp" else socket.AF_UNIX) as server:
        server.bind(("127.0.0.1", 0) if family == "tcp" else f"\0autograder-{os.getpid()}")
        server.listen()
        address = server.getsockname() if family == "tcp" else f"\0autograder-{os.getpid()}"
        with socket.socket(server.family) as client:
            client.connect(address)  # the server can be reached from outside
        kind = "AF_INET" if family == "tcp" else "AF_UNIX"
        error = attempt(kernel, f"import socket; socket.socket(socket.{kind}).connect({address!r})")
        assert error in ("ConnectionRefusedError", "OSError", "PermissionError")


def test_sandbox_sees_one_interface(kernel: Kernel) -> None:
    """Is the sandbox's own loopback the only network device?"""
    lines = told(kernel, "print(json.dumps(open('/proc/net/dev').read().splitlines()[2:]))")
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]


@pytest.mark.parametrize(
    "folder",
    ["/", "/usr", "/usr/bin", "/etc", "/grader", sys.prefix, f"{sys.prefix}/lib", sys.base_prefix, "/proc/sys/kernel"],
)
def test_sandbox_is_read_only(kernel: Kernel, folder: str) -> None:
    """Are the system, the environment and the grader read-only for a cell?"""
    assert attempt(kernel, f"open({folder + '/autograder-was-here'!r}, 'w')") in (
        "OSError",
        "PermissionError",
        "FileNotFoundError",
    )
    assert not Path(folder, "autograder-was-here").exists()


def test_sandbox_mounts_are_read_only(kernel: Kernel) -> None:
    """Is every file system in the sandbox read-only, except its own temporary and device files?"""
    source = """
    mounts = [line.split() for line in open("/proc/self/mounts")]
    seen = {place: options.split(",") for _, place, _, options, *_ in mounts}  # the last mount hides earlier ones
    print(json.dumps([place for place, options in seen.items() if "ro" not in options]))
    """
    own = {"/tmp", "/dev", "/dev/shm", "/dev/pts", "/dev/console", "/proc"}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert set(told(kernel, source)) <= own | devices


def test_sandbox_writes_to_its_own_temporary_files_alone(kernel: Kernel) -> None:
    """Are home and /tmp the sandbox's own, so that no file written there reaches the host?"""
    name = f"autograder-{os.getpid()}"
    for folder in ("/tmp", "/tmp/home", "/dev/shm"):
        assert attempt(kernel, f"open('{folder}/{name}', 'w').write('x')") == ""
        assert not Path(folder, name).exists()


def test_sandbox_hides_the_repository_and_the_course(kernel: Kernel, secrets: list[Path]) -> None:
    """Are answers, checks, tests, gradebook and passwords invisible, although the host has these files?"""
    hidden = [
        ROOT / name for name in ("solutions", "autograder", "tests", "exercises/1_attention", ".git", "README.md")
    ]
    hidden += [
        *secrets,
        Path("/etc/passwd"),
        Path("/etc/shadow"),
        Path("/var/lib"),
        Path("/mnt"),
        Path("/boot"),
    ]
    assert all(secret.exists() for secret in secrets)
    seen = told(
        kernel, f"import os\nprint(json.dumps([p for p in {[str(path) for path in hidden]!r} if os.path.exists(p)]))"
    )
    assert seen == []


def test_sandbox_hides_the_home_folder(kernel: Kernel) -> None:
    """Is only the path to Python visible in the grader's home?"""
    home = Path.home()
    way = {Path(p).relative_to(home).parts[0] for p in (sys.prefix, sys.base_prefix) if Path(p).is_relative_to(home)}
    source = f"import os\nprint(json.dumps(os.listdir({str(home)!r}) if os.path.isdir({str(home)!r}) else []))"
    assert set(told(kernel, source)) <= way


@pytest.mark.parametrize("module", ["autograder", "autograder.checks.attention.exercises", "solutions.attention"])
def test_sandbox_cannot_import_the_grader(kernel: Kernel, module: str) -> None:
    """Does importing checks or answers fail, although this environment has them?"""
    __import__(module)
    assert attempt(kernel, f"import {module}") == "ModuleNotFoundError"


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


def test_sandbox_keeps_nothing_in_attributes_of_files(kernel: Kernel) -> None:
    """Do calls that write extended attributes fail as on a file system without them, and can files still be copied?"""
    asked = """
        import ctypes, errno, os, shutil
        path = os.path.abspath("with attributes")
        with open(path, "w") as file:
            file.write("text")
        libc, found = ctypes.CDLL(None, use_errno=True), []
        with open(path) as file:
            for call in (libc.setxattr, libc.lsetxattr, libc.fsetxattr):
                place = file.fileno() if call is libc.fsetxattr else path.encode()
                found.append(errno.errorcode[ctypes.get_errno()] if call(place, b"user.x", b"y", 1, 0) else "done")
        value = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(b"y")), 1)
        done = libc.syscall(463, -100, path.encode(), 0, b"user.x", value, 16)
        found.append(errno.errorcode[ctypes.get_errno()] if done else "done")
        os.listxattr = lambda *path, **options: ["user.x"]  # as where the file has some, such as those of SELinux
        os.getxattr = lambda *path, **options: b"y"
        print(json.dumps([*found, open(shutil.copy2(path, path + " copied")).read()]))
        """
    assert told(kernel, asked) == ["ENOTSUP"] * 4 + ["text"]


def test_check_sandbox_refuses_processors_whose_calls_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is nothing graded on a processor whose calls cannot be refused, and does the message say so?"""
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine="riscv64"))
    with pytest.raises(SandboxError, match="not those of riscv64"):
        check_sandbox()
    with pytest.raises(KeyError, match="riscv64"):
        refused.refuse_calls()


def test_sandbox_has_an_environment_of_its_own(kernel: Kernel) -> None:
    """Does no process that a cell can see have a variable of the grader, least of all its seed?"""
    names = told(kernel, "import os\nprint(json.dumps(sorted(os.environ)))")
    assert "AUTOGRADER_SEED" in os.environ
    assert not [name for name in names if "AUTOGRADER" in name or "PYTEST" in name]
    found = told(
        kernel,
        """
        import glob
        text = b""
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
            try:
                text += open(path, "rb").read()
            except OSError:
                pass
        print(json.dumps([b"314159" in text, b"PYTEST" in text]))
        """,
    )
    assert found == [False, False]


def test_sandbox_user_owns_nothing(kernel: Kernel) -> None:
    """Does the kernel lack all privileges: root, groups, capabilities, and ways to get them?"""
    status = told(
        kernel,
        """
        import os
        lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
        names = ("CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Groups")
        print(json.dumps([os.getuid(), os.geteuid(), {name: lines[name].strip() for name in names}]))
        """,
    )
    uid, effective, lines = status
    assert uid == effective
    assert uid >= 200_000 if IS_ROOT else uid == os.getuid()
    assert {int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert lines["NoNewPrivs"] == "1"
    refused = {"PermissionError"}
    if IS_ROOT:
        assert lines["Groups"] == ""
    else:
        refused.add("OSError")  # "Invalid argument": the sandbox of an ordinary user has no user 0
    for call in ("setuid(0)", "setgid(0)", "setgroups([0])", "chroot('/')"):
        assert attempt(kernel, f"import os; os.{call}") in refused
    assert attempt(
        kernel, "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], check=True, stderr=-3)"
    )


def test_sandbox_sees_its_own_processes_alone(kernel: Kernel) -> None:
    """Are the host's processes invisible and unreachable by number?"""
    source = "import os\nprint(json.dumps(sorted(int(name) for name in os.listdir('/proc') if name.isdigit())))"
    assert len(told(kernel, source)) < 10
    assert attempt(kernel, f"import os; os.kill({os.getpid()}, 0)") == "ProcessLookupError"


def test_sandbox_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bubblewrap, does grading stop with what to install, and how to continue without it?"""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"bubblewrap is not installed.*apt-get install bubblewrap.*--no-sandbox"):
        check_sandbox()


def test_sandbox_that_does_not_work_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If bubblewrap cannot make a sandbox, does the error hold its message and the fix?"""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace.*(?s:.)*userns"):
        check_sandbox()


def test_file_that_the_sandbox_may_not_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """If installed files were written under a umask of 077, does the error name the file and the fix?"""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="it's installed ") as folder:
        Path(folder).chmod(0o755)
        for name, mode in (("shut.py", 0), ("open.py", 0o644)):
            (Path(folder) / name).touch()
            (Path(folder) / name).chmod(mode)
        monkeypatch.setattr(sandbox, "_python_folders", lambda: [Path(folder)])
        monkeypatch.setattr(sandbox, "_files_of_kernels", lambda: [f"{folder}/open.py"])
        check_sandbox()
        monkeypatch.setattr(sandbox, "_files_of_kernels", lambda: [f"{folder}/open.py", f"{folder}/shut.py"])
        quoted = f"chmod -R a+rX {shlex.quote(folder)} "
        with pytest.raises(SandboxError, match=rf"may not read {re.escape(folder)}/shut.py.*{re.escape(quoted)}"):
            check_sandbox()


def test_font_list_that_a_kernel_may_not_read_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a kernel start if Matplotlib's list of fonts was written under a umask of 077?"""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    for name, mode in (("fontlist-v1.json", 0o600), ("fontlist-v2.json", 0o644)):
        (tmp_path / name).write_text("{}", encoding="utf-8")
        (tmp_path / name).chmod(mode)
    assert {path.name for path in _font_lists()} == {"fontlist-v2.json"} | (
        {"fontlist-v1.json"} if not IS_ROOT else set()
    )
    with contextlib.closing(Kernel(Limits(forked=False))) as kernel:
        assert told(kernel, "import json\nprint(json.dumps(1))") == 1


def test_sandbox_works_here() -> None:
    """Does bubblewrap work here, which all tests above need?"""
    assert shutil.which("bwrap"), "install bubblewrap"
    check_sandbox()


def mounts(text: str) -> Iterator[tuple[str, Path, Path]]:
    """Yield the device, the root folder and the mount point of each line in a list of mounts."""
    for line in text.splitlines():
        _, _, device, folder, place = line.split()[:5]
        yield device, Path(mount_path(folder)), Path(mount_path(place))


def on_its_device(path: Path, host: list[tuple[str, Path, Path]]) -> tuple[str, Path]:
    """Return a host file's device, and its path in that file system, as a list of mounts names them."""
    path = path.resolve()
    around = [mount for mount in host if path.is_relative_to(mount[2])]
    # The later one of two mounts at one place counts.
    device, folder, place = sorted(around, key=lambda mount: len(mount[2].parts))[-1]
    return device, folder / path.relative_to(place)


def test_lists_of_mounts_are_read_where_a_file_system_begins_elsewhere() -> None:
    """Is a file's place right if its name holds spaces, in a mounted file system, and in a mounted subfolder of one?"""
    text = "1 0 8:1 /@ / rw\n2 1 8:2 / /home rw\n3 2 8:3 /a\\040b /home/my\\040files rw\n"
    host = list(mounts(text))
    assert on_its_device(Path("/usr/lib"), host) == ("8:1", Path("/@/usr/lib"))
    assert on_its_device(Path("/home/x"), host) == ("8:2", Path("/x"))
    assert on_its_device(Path("/home/my files/x y"), host) == ("8:3", Path("/a b/x y"))


def test_sandbox_names_no_folder_but_those_of_security_md(kernel: Kernel) -> None:
    """Does the list of mounts name only the host's system, Python, our files, fonts and a temporary folder?"""
    text = told(kernel, "import json\nprint(json.dumps(open('/proc/self/mountinfo').read()))")
    host = list(mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8")))
    system = [Path("/", name) for name in ("dev", "usr", "bin", "lib", "lib32", "lib64", "sbin")]
    system += [Path("/etc", name) for name in ("alternatives", "fonts", "ld.so.cache", "localtime")]
    ours = [*_python_folders(), *_font_lists(), TESTS, *STAND_INS, *(GUEST / name for name in INSIDE)]
    allowed = {on_its_device(path, host) for path in (*system, *ours)}
    devices = {device for device, *_ in host}  # any other device is the sandbox's own
    shown = [(device, folder) for device, folder, _ in mounts(text) if device in devices]
    assert shown
    assert [
        (device, folder)
        for device, folder in shown
        if not any(device == there and folder.is_relative_to(place) for there, place in allowed)
    ] == []


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


def test_sandbox_has_no_asynchronous_files(kernel: Kernel) -> None:
    """Is asynchronous reading and writing refused, because all processes of a machine share one limit for it?"""
    number = {"x86_64": 206, "aarch64": 0}[os.uname().machine]
    source = f"""
    import ctypes
    library = ctypes.CDLL(None, use_errno=True)
    print(json.dumps([library.syscall({number}, 1, ctypes.byref(ctypes.c_ulong())), ctypes.get_errno()]))
    """
    assert told(kernel, source) == [-1, errno.ENOSYS]


def test_sandbox_has_no_memory_outside_all_processes(kernel: Kernel) -> None:
    """Is shared memory without a file refused? It would stay uncounted after a process gives it back."""
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096)") == "OSError"
    assert attempt(kernel, "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)") != ""
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)") == ""

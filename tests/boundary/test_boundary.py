"""Does nothing but plain values cross from the student's side, and can the student's side reach nothing of ours?

What the sandbox promises is asked from inside: cells run in a real kernel and print what they found.
"""

import importlib
import json
import math
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import textwrap
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from autograder.boundary import wire
from autograder.boundary.kernel import BadReply, Kernel, KernelLost, _text_of
from autograder.boundary.proxy import Function, GraderFault
from autograder.boundary.sandbox import (
    HERE,
    MACHINES,
    PREFIX,
    REPOSITORY,
    Limits,
    Sandbox,
    SandboxError,
    _font_lists,
    _python_folders,
    check_sandbox,
)
from autograder.boundary.wire import MAX_DEPTH, MAX_TEXT, Foreign, Handle, dumps, loads
from autograder.checks.vit import measures
from autograder.judging.compare import judge, outcome
from solutions import encoder

IS_ROOT = os.getuid() == 0

# ------------------------------------------------------------------------------------------------------- the wire


def same(one: Any, other: Any) -> bool:
    """Are two values equal and of the same types, throughout? NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and same(one.numpy(), other.numpy())
    return one == other or (one != one and other != other)


PLAIN = [
    None,
    True,
    0,
    -(10**30),
    0.1,
    math.inf,
    math.nan,
    "",
    "Größe \u202e \ud800 \x00 \U0001f600",
    [],
    (1, [2.0, ("three",)], None),
    {"a": 1, 2: (3,), "b": {}, "c": False},
    np.zeros((2, 0, 3)),
    np.array(1.5),
    np.arange(6, dtype=np.int8).reshape(1, 2, 3),
    np.array([[np.nan, -0.0], [np.inf, 5e-324]]),
    np.array([True, False]),
    np.array([1 + 2j], dtype=np.complex64),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::-3],
    torch.arange(4.0).reshape(2, 2),
    torch.tensor(3),
    torch.zeros(0, dtype=torch.bool),
    torch.ones(2, 3, dtype=torch.float16).T,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_wire_keeps_plain_values(value: Any) -> None:
    """Does a plain value come back with its type, shape, dtype and bits?"""
    back = loads(dumps(value))
    assert same(back, np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value)
    if isinstance(back, np.ndarray):
        assert back.flags.writeable


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(2.5), np.array(2.5, dtype=np.float32)),
        (np.bool_(True), np.array(True)),
        (np.arange(3.0).astype(">f8"), np.arange(3.0)),
        (np.arange(3.0).astype(np.longdouble), np.arange(3.0)),
        (np.arange(3.0).view(np.matrix), np.arange(3.0)[None]),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
    ],
    ids=["scalar", "bool", "big-endian", "longdouble", "matrix", "bfloat16", "with gradient"],
)
def test_wire_makes_unusual_numbers_usual(value: Any, expected: Any) -> None:
    """Do numbers of a kind that few use, which a right answer may be made of, arrive as numbers?"""
    assert same(loads(dumps(value)), expected)


class Evil:
    """Runs code where it is unpickled, compared or printed."""

    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)

    def __eq__(self, other):
        return True

    def __repr__(self):
        raise RuntimeError("printed")

    __hash__ = None


class EvilString(str):
    """A string that is none of Python's own."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Evil(), "Evil"),
        (EvilString("x"), "EvilString"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        ({1, 2}, "set"),
        (len, "builtin_function_or_method"),
        (Evil, "type"),
        (iter([]), "list_iterator"),
        (np.array([Evil()], dtype=object), "ndarray"),
        (np.array(["text"]), "ndarray"),
        (np.array([1], dtype="datetime64[s]"), "ndarray"),
        (np.array([(1, 2.0)], dtype="i4,f8"), "ndarray"),
        (torch.nn.Linear(2, 2), "Linear"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wire_lets_only_the_name_of_other_values_cross(value: Any, name: str) -> None:
    """Does anything else cross as the name of its type, wherever it stands, and run nothing?"""
    alone, in_list, in_dict = (loads(dumps(wrapped)) for wrapped in (value, [value], ({"key": value},)))
    for back in (alone, in_list[0], in_dict[0]["key"]):
        assert isinstance(back, Foreign)
        assert back.name == name
    assert not Path("/tmp/evil").exists()


def test_wire_knows_no_pickle() -> None:
    """Does the file that reads what comes from the student neither pickle nor evaluate?"""
    text = Path(wire.__file__).read_text(encoding="utf-8").replace("never a pickle", "")
    assert not [
        word for word in ("pickle", "eval(", "exec(", "np.load", "torch.load", "marshal", "yaml") if word in text
    ]


def test_wire_refuses_what_is_too_long_or_too_deep() -> None:
    """Is a value that nests too deep, or is too big, an error with the number, on the sender's side?"""
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless):
        with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
            dumps(value)
    with pytest.raises(ValueError, match=r"shape \(2500000,\) takes 20,000,000 bytes; at most"):
        dumps(np.zeros(2_500_000))
    with pytest.raises(ValueError, match="characters; at most"):
        dumps("x" * MAX_TEXT)


def array_text(*content: Any) -> str:
    """Return the text of an array, true or not."""
    return json.dumps({"array": list(content)})


HOSTILE = [
    None,
    7,
    b"{}",
    "",
    "{",
    "[1, 2]",
    "{}",
    '{"list": 1}',
    '{"list": {"a": 1}, "tuple": []}',
    '{"dict": [[1]]}',
    '{"dict": [[{"list": []}, 1]]}',
    '{"unknown": 1}',
    '{"pickle": "gASVIgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAdpZCA+L3R4lIWUUpQu"}',
    '{"handle": ["1", "", null]}',
    '{"handle": [true, "", null]}',
    '{"handle": [1, ""]}',
    '{"handle": [1, "", {"unknown": 1}]}',
    '{"handle": {"0": 1}}',
    '{"tensor": null}',
    '{"array": null}',
    "[" * 100_000,
    '{"list":[' * 30 + "1" + "]}" * 30,
    '{"list":[' * 5000 + "1" + "]}" * 5000,
    "9" * 10_000,
    "x" * (MAX_TEXT + 1),
    array_text("<f8"),
    array_text("<f8", [1], "AAAAAAAAAAA=", "more"),
    array_text("|O", [1], "AAAAAAAAAAA="),
    array_text("<U4", [1], "AAAAAAAAAAAAAAAAAAAAAA=="),
    array_text(["<f8"], [1], "AAAAAAAAAAA="),
    array_text("<f8", [2], "AAAAAAAAAAA="),
    array_text("<f8", [-1], "AAAAAAAAAAA="),
    array_text("<f8", [True], "AAAAAAAAAAA="),
    array_text("<f8", [1.0], "AAAAAAAAAAA="),
    array_text("<f8", "1", "AAAAAAAAAAA="),
    array_text("<f8", 1, "AAAAAAAAAAA="),
    array_text("<f8", [1] * 17, "AAAAAAAAAAA="),
    array_text("<f8", [1] * 1000, "AAAAAAAAAAA="),
    array_text("<f8", [2**40], ""),
    array_text("<f8", [2**25] * 16, ""),
    array_text("<f8", [0, 2**25, 2**25, 2**25], ""),
    array_text("<f8", [0, 2**64], ""),
    array_text("<f8", [1], "not base 64"),
    array_text("<f8", [1], "AAAAAAAAAAA=\u00e9"),
    array_text("<f8", [1], None),
    array_text("<f8", [1], ["AAAAAAAAAAA="]),
    json.dumps({"tensor": ["<f8", [3], "AAAAAAAAAAA="]}),
]
HARMLESS = [
    "1e9999999999",
    '{"dict": {"ab": 1}}',
    json.dumps({"tensor": ["<u2", [1], "AAA="]}),
]  # odd, and plain values
KNOWN = (type(None), bool, int, float, str, list, tuple, dict, np.ndarray, torch.Tensor, Foreign, Handle)


def loads_or_refuses(text: Any) -> bool:
    """Read a text; whether it could be read. Anything but a plain value or a ValueError fails the test."""
    try:
        value = loads(text)
    except ValueError:
        return False
    assert isinstance(value, KNOWN)
    return True


@pytest.mark.parametrize("text", HOSTILE + HARMLESS, ids=lambda text: str(text)[:40])
def test_loads_refuses_hostile_texts(text: Any) -> None:
    """Does a text that is no value raise a ValueError, or give plain numbers, and nothing else?"""
    assert loads_or_refuses(text) == (text in HARMLESS)


def test_loads_survives_mutated_texts() -> None:
    """Does no damaged text of ten thousand raise anything but a ValueError?"""
    rng, read = random.Random(0), 0
    texts = [dumps(value) for value in PLAIN] + [
        dumps([Handle(1, "a", {"b": np.ones(2)}), Foreign("x"), np.ones(3), torch.ones(2)])
    ]
    pieces = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "-",
        "0",
        "1e99",
        "null",
        "true",
        "NaN",
        '"list"',
        '"array"',
        "<f8",
        "\\u0000",
        "=",
    ]
    for _ in range(10_000):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice([*pieces, ""]) + text[at + rng.randrange(4) :]
        read += loads_or_refuses(text)
    assert 100 < read < 9_900, "the mutations are all harmless, or all fatal: they prove nothing"


# ---------------------------------------------------------------------------------------------- inside the sandbox


@pytest.fixture(scope="module")
def secrets() -> Iterator[list[Path]]:
    """Files of a course on the host, one among temporary files and one elsewhere, which everybody may read there."""
    folders = [Path(tempfile.mkdtemp(dir=place, prefix="course-")) for place in ("/tmp", "/var/tmp")]
    for folder in folders:
        folder.chmod(0o755)
        (folder / "gradebook.db").write_text("the marks", encoding="utf-8")
    yield [folder / "gradebook.db" for folder in folders]
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture(scope="module", params=[True, False], ids=["forked", "fresh"])
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether kernels are forked from a warm parent, or started afresh: what holds for one holds for the other."""
    return request.param


@pytest.fixture(scope="module")
def kernel(forked: bool) -> Iterator[Kernel]:
    """A kernel in the sandbox, shared by the tests that leave it alive."""
    before = os.environ.get("AUTOGRADER_SEED")
    os.environ["AUTOGRADER_SEED"] = "314159"
    kernel = Kernel(Limits(forked=forked))
    yield kernel
    kernel.close()
    if before is None:
        del os.environ["AUTOGRADER_SEED"]
    else:
        os.environ["AUTOGRADER_SEED"] = before


@pytest.fixture
def start(forked: bool) -> Iterator[Callable[..., Kernel]]:
    """Return a function that starts a kernel with limits of its own; all are closed after the test."""
    kernels = []

    def start_kernel(**limits: Any) -> Kernel:
        kernels.append(Kernel(Limits(forked=forked, **limits)))
        return kernels[-1]

    yield start_kernel
    for kernel in kernels:
        kernel.close()


def told(kernel: Kernel, source: str) -> Any:
    """Run a cell and return the value of the JSON text that it printed last."""
    outputs = kernel.run_cell("import json\n" + textwrap.dedent(source))
    errors = [output.evalue for output in outputs if output.output_type == "error"]
    assert errors == []
    return json.loads("".join(output.get("text", "") for output in outputs).splitlines()[-1])


def attempt(kernel: Kernel, statement: str) -> str:
    """Run a statement; return the name of the error that it raised, "" if none."""
    return told(
        kernel,
        f"""
        try:
            {statement}
            print(json.dumps(""))
        except Exception as error:
            print(json.dumps(type(error).__name__))
        """,
    )


def test_sandbox_runs_cells(kernel: Kernel) -> None:
    """Does an ordinary cell work there, with NumPy, PyTorch and a figure?"""
    assert (
        told(kernel, "import numpy as np, torch\nprint(json.dumps(float(np.ones(3).sum() + torch.ones(2).sum())))") == 5
    )
    outputs = kernel.run_cell("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.show()")
    assert "image/png" in outputs[-1].data


@pytest.mark.parametrize("family", ["tcp", "abstract unix"])
def test_sandbox_has_no_network(kernel: Kernel, family: str) -> None:
    """Can a cell not reach a server of the host, neither through loopback nor through an abstract socket?"""
    with socket.socket(socket.AF_INET if family == "tcp" else socket.AF_UNIX) as server:
        server.bind(("127.0.0.1", 0) if family == "tcp" else f"\0autograder-{os.getpid()}")
        server.listen()
        address = server.getsockname() if family == "tcp" else f"\0autograder-{os.getpid()}"
        with socket.socket(server.family) as client:
            client.connect(address)  # from here it can be reached
        kind = "AF_INET" if family == "tcp" else "AF_UNIX"
        error = attempt(kernel, f"import socket; socket.socket(socket.{kind}).connect({address!r})")
        assert error in ("ConnectionRefusedError", "OSError", "PermissionError")


def test_sandbox_sees_one_interface(kernel: Kernel) -> None:
    """Is there no network device but the sandbox's own loopback?"""
    lines = told(kernel, "print(json.dumps(open('/proc/net/dev').read().splitlines()[2:]))")
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]


@pytest.mark.parametrize(
    "folder",
    ["/", "/usr", "/usr/bin", "/etc", "/grader", sys.prefix, f"{sys.prefix}/lib", sys.base_prefix, "/proc/sys/kernel"],
)
def test_sandbox_is_read_only(kernel: Kernel, folder: str) -> None:
    """Can a cell write nothing into system, environment and grader?"""
    assert attempt(kernel, f"open({folder + '/autograder-was-here'!r}, 'w')") in (
        "OSError",
        "PermissionError",
        "FileNotFoundError",
    )
    assert not Path(folder, "autograder-was-here").exists()


def test_sandbox_mounts_are_read_only(kernel: Kernel) -> None:
    """Is every file system that the sandbox sees mounted read-only, but for its own temporary and device files?"""
    source = """
    mounts = [line.split() for line in open("/proc/self/mounts")]
    seen = {place: options.split(",") for _, place, _, options, *_ in mounts}  # the last mount hides earlier ones
    print(json.dumps([place for place, options in seen.items() if "ro" not in options]))
    """
    own = {"/tmp", "/dev", "/dev/shm", "/dev/pts", "/dev/console", "/proc", "/wire"}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert set(told(kernel, source)) <= own | devices


def test_sandbox_writes_to_its_own_temporary_files_alone(kernel: Kernel) -> None:
    """Are home and /tmp the sandbox's own, so that nothing that is written there reaches the host?"""
    name = f"autograder-{os.getpid()}"
    for folder in ("/tmp", "/tmp/home", "/dev/shm"):
        assert attempt(kernel, f"open('{folder}/{name}', 'w').write('x')") == ""
        assert not Path(folder, name).exists()


@pytest.mark.skipif(not IS_ROOT, reason="a sandbox of an ordinary user writes sockets as that user")
def test_sandbox_writes_nothing_to_the_wire(kernel: Kernel) -> None:
    """Is the folder of the sockets closed once the kernel is up, so that the host's disk cannot be filled?"""
    assert attempt(kernel, "open('/wire/x', 'w')") == "PermissionError"


def test_sandbox_hides_the_repository_and_the_course(kernel: Kernel, secrets: list[Path]) -> None:
    """Are answers, checks, tests, gradebook and passwords invisible, although the host's files are there?"""
    hidden = [REPOSITORY / name for name in ("solutions", "autograder", "tests", "exercises", ".git", "README.md")]
    hidden += [
        *secrets,
        Path("/etc/passwd"),
        Path("/etc/shadow"),
        Path("/var"),
        Path("/mnt"),
        Path("/boot"),
    ]
    assert all(secret.exists() for secret in secrets)
    seen = told(
        kernel, f"import os\nprint(json.dumps([p for p in {[str(path) for path in hidden]!r} if os.path.exists(p)]))"
    )
    assert seen == []


def test_sandbox_hides_the_home_folder(kernel: Kernel) -> None:
    """Is nothing of the grader's home visible but the way to Python itself?"""
    home = Path.home()
    way = {Path(p).relative_to(home).parts[0] for p in (sys.prefix, sys.base_prefix) if Path(p).is_relative_to(home)}
    source = f"import os\nprint(json.dumps(os.listdir({str(home)!r}) if os.path.isdir({str(home)!r}) else []))"
    assert set(told(kernel, source)) <= way


@pytest.mark.parametrize("module", ["autograder", "autograder.checks.attention.exercises", "solutions.attention"])
def test_sandbox_cannot_import_the_grader(kernel: Kernel, module: str) -> None:
    """Does importing checks or answers fail, although they are installed in this environment?"""
    __import__(module)
    assert attempt(kernel, f"import {module}") == "ModuleNotFoundError"


def test_sandbox_has_sockets_of_three_families(kernel: Kernel) -> None:
    """Is every family of sockets refused but those that lead nowhere, whatever this machine's Linux has? (Nobody connects.)"""
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


def test_check_sandbox_refuses_processors_whose_calls_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is nothing graded where no call could be refused, and does the message say so?"""
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine="riscv64"))
    with pytest.raises(SandboxError, match="not those of riscv64"):
        check_sandbox()
    monkeypatch.setitem(sys.modules, "wire", wire)  # as it stands in the sandbox
    inside = importlib.import_module("autograder.boundary.inside")
    with pytest.raises(OSError, match="riscv64 are not known"):
        inside.refuse_calls()
    assert set(MACHINES) == set(inside.MACHINES)


def test_wire_takes_no_keys_that_hash_alike() -> None:
    """Is a dict of many keys that all have one hash refused at once, on both sides?"""
    alike = [key * (2**61 - 1) for key in range(1, 40_000)]
    text = json.dumps({"dict": [[key, 0] for key in alike]})
    with pytest.raises(ValueError, match="not a value"):
        loads(text)
    assert isinstance(loads(dumps(dict.fromkeys(alike[:3], 0))), Foreign)
    assert loads(dumps({"a": 1, 7: 2})) == {"a": 1, 7: 2}


def test_sandbox_has_an_environment_of_its_own(kernel: Kernel) -> None:
    """Is no variable of the grader's there, its seed least of all, in no process that a cell can see?"""
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
    """Has the kernel no privilege: another user than root, no group, no capability, and none to be had?"""
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
    if IS_ROOT:
        assert lines["Groups"] == ""
    for call in ("setuid(0)", "setgid(0)", "setgroups([0])", "chroot('/')"):
        assert attempt(kernel, f"import os; os.{call}") == "PermissionError"
    assert attempt(
        kernel, "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], check=True, stderr=-3)"
    )


def test_sandbox_sees_its_own_processes_alone(kernel: Kernel) -> None:
    """Are the host's processes invisible, and can none be reached by its number?"""
    source = "import os\nprint(json.dumps(sorted(int(name) for name in os.listdir('/proc') if name.isdigit())))"
    assert len(told(kernel, source)) < 10
    assert attempt(kernel, f"import os; os.kill({os.getpid()}, 0)") == "ProcessLookupError"


# ------------------------------------------------------------------------------------------------------- limits


def test_limits_of_the_system_are_set_for_good(start: Callable[..., Kernel]) -> None:
    """Does the operating system hold every limit that we name, and can a cell raise none?"""
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
    """Does a bomb of processes end at the limit, and the kernel live on?"""
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
    """Does more memory than allowed raise MemoryError in the student's own cell, and less not?"""
    kernel = start(memory_bytes=3 * 2**29)
    assert attempt(kernel, "x = bytearray(2**28)") == ""
    assert attempt(kernel, "x = bytearray(3 * 2**29)") == "MemoryError"


def test_limit_of_memory_of_all_processes(start: Callable[..., Kernel]) -> None:
    """Is a kernel lost whose processes use too much memory together, none of them too much alone?"""
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
    """Does a file, and do all files together, end at the limit?"""
    kernel = start(file_bytes=8 * 2**20)
    assert attempt(kernel, "open('/tmp/one', 'wb').write(bytes(2**22))") == ""
    assert attempt(kernel, "open('/dev/shm/two', 'wb').write(bytes(2**24))") == "OSError"
    assert attempt(kernel, "[open(f'/tmp/{i}', 'wb', 0).write(bytes(2**20)) or 1 / 0 for i in range(20)]") == "OSError"
    assert (
        told(kernel, "import os\nprint(json.dumps(sum(os.path.getsize(f'/tmp/{n}') for n in os.listdir('/tmp'))))")
        < 9 * 2**20
    )


# ------------------------------------------------------------------------------------------------- lost kernels


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
    """Is a kernel that ends itself, in whatever way, noticed as crashed?"""
    kernel = start()
    with pytest.raises(KernelLost, match="died") as lost:
        kernel.run_cell(source)
    assert lost.value.state == "crashed"


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    pass",
        "import signal\nfor s in (2, 15, 1):\n    signal.signal(s, signal.SIG_IGN)\nwhile True:\n    pass",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        "import os\nos.kill(os.getpid(), 19)",
        "import time\ntime.sleep(1e6)",
        "import sys\nwhile True:\n    print('x' * 100, file=sys.stderr)",
    ],
    ids=["loop", "ignores signals", "catches everything", "stops itself", "sleeps", "prints for ever"],
)
def test_kernel_that_hangs_is_timed_out(start: Callable[..., Kernel], source: str) -> None:
    """Is a kernel that does not come back given up, whatever it ignores?"""
    kernel = start(cell_seconds=1.0)
    with pytest.raises(KernelLost, match="Not done after 1 s") as lost:
        kernel.run_cell(source)
    assert lost.value.state == "timed out"
    assert not kernel.sandbox.is_alive()
    assert not kernel.sandbox.folder.exists()


def test_kernel_close_leaves_no_process(start: Callable[..., Kernel]) -> None:
    """Is every process gone after close, those too that left their session and ignore all signals?"""
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
    _, alive = psutil.wait_procs(left, timeout=30)  # the system ends them; we only wait to see it
    assert alive == []
    assert remaining() == []
    assert not kernel.sandbox.folder.exists()


def test_plain_cell_is_run_for_so_many_seconds(start: Callable[..., Kernel]) -> None:
    """Does a set-up that hangs end when its time is over, which may be less than that of a cell?"""
    kernel = start(cell_seconds=5.0)
    with pytest.raises(KernelLost, match="Not done after 1 s") as lost:
        kernel.run_plain("while True:\n    pass", 1.0)
    assert lost.value.state == "timed out"
    assert kernel.closed


def test_time_in_line_for_a_processor_is_not_the_students(
    start: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, is a request that gets no processor waited for, and one that sleeps not?"""
    monkeypatch.setattr(Sandbox, "activity", lambda self: (0.0, True))  # it wants one, and gets none
    kernel = start(cell_seconds=0.3)
    kernel.run_cell("import time; time.sleep(1)")
    assert kernel.spent < 0.4
    with pytest.raises(KernelLost, match="Not done"):  # but not for ever
        kernel.run_cell("while True: pass")
    monkeypatch.setattr(Sandbox, "activity", lambda self: (0.0, False))
    with pytest.raises(KernelLost, match="Not done"):
        start(cell_seconds=0.3).run_cell("import time; time.sleep(1)")


def test_activity_of_a_sandbox(start: Callable[..., Kernel]) -> None:
    """Are all its processes' seconds counted, of those too that have ended, and is one that sleeps not in line?"""
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
    kernel.run_cell("import os\nif os.fork() == 0:\n    while True: pass")
    assert all(kernel.sandbox.activity()[1] for _ in range(100))


def test_large_reply_is_not_waited_for(start: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a reply of several pieces taken as soon as it has come?"""
    kernel = start()
    function = function_of(kernel, "f", "import numpy as np\ndef f(): return np.ones(70_000)")
    function()
    monkeypatch.setattr("autograder.boundary.kernel.PATIENCE", 30.0)
    begun = time.monotonic()
    assert function().shape == (70_000,)
    assert time.monotonic() < begun + 15


# ------------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * 20_000_000)",
        "for i in range(200_000):\n    print(i)",
        "import sys\nfor i in range(3000):\n    print(i, file=(sys.stderr, sys.stdout)[i % 2], flush=True)",
        "for i in range(3000):\n    display(i)",
        "display('x' * 5_000_000)",
        "raise RuntimeError('x' * 5_000_000)",
        "from IPython.display import Image\nimport os\n"
        "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(5_000_000), format='png'))",
        "import os\nos.write(1, b'x' * 5_000_000)",
    ],
    ids=[
        "one line",
        "many lines",
        "two streams",
        "many values",
        "a long value",
        "a long error",
        "an image",
        "the file descriptor",
    ],
)
def test_output_flood_is_bounded(start: Callable[..., Kernel], source: str) -> None:
    """Are the outputs of a cell bounded in bytes and in number, with a word where they are cut?"""
    limits = Limits(output_bytes=50_000, output_count=100)
    outputs = start(output_bytes=limits.output_bytes, output_count=limits.output_count).run_cell(source)
    assert len(outputs) <= limits.output_count + 1
    text = json.dumps(outputs)
    assert len(text) < 2 * limits.output_bytes + 300 * len(outputs)  # JSON writes a line's end as two characters
    assert "Cut here: a cell may print 50,000 bytes in 100 pieces." in text


def test_output_flood_in_which_the_end_is_lost(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a cell end whose outputs came faster than they were read, with them the word that it has ended?"""
    receive = kernel.session.recv

    def receive_slowly(*arguments: Any) -> Any:
        time.sleep(0.002)
        return receive(*arguments)

    monkeypatch.setattr(kernel.session, "recv", receive_slowly)
    assert len(kernel.run_cell("for i in range(5000):\n    display(i)")) > 1
    monkeypatch.undo()
    assert told(kernel, "print(3)") == 3


def test_output_keeps_no_html(kernel: Kernel) -> None:
    """Does no HTML, SVG or script of a student's leave the sandbox, and no metadata?"""
    outputs = kernel.run_cell(
        "from IPython.display import HTML, SVG, Javascript, display\n"
        "display(HTML('<script>1</script>'), SVG('<svg/>'), Javascript('alert(1)'))\n"
        "display({'text/html': '<b>', 'text/plain': 'plain', 'application/javascript': '1'}, raw=True, metadata={'a': '<b>'})"
    )
    assert {mime for output in outputs for mime in output.data} <= {"text/plain"}
    assert outputs[-1].data == {"text/plain": "plain"}
    assert all(output.metadata == {} for output in outputs)


def test_output_of_forged_messages_is_survived(kernel: Kernel) -> None:
    """Does the grader go on when the student's code sends messages that are none?"""
    source = """
    kernel, session = get_ipython().kernel, get_ipython().kernel.session
    socket, parent = kernel.iopub_socket, kernel.get_parent()
    signed = [b"<IDS|MSG>", b"", b"{", b"{", b"{", b"{"]
    for frames in ([b""], [b"junk"] * 3, signed, [b"kernel.x", b"<IDS|MSG>"], [bytes(10**6)] * 4):
        socket.send_multipart(frames)
    contents = [
        ("stream", {"text": {"a": [1]}, "name": 7}), ("error", {"traceback": "x", "ename": None}), ("unknown", {"x": 1}),
        ("display_data", {"data": ["x"]}), ("display_data", {"data": {"text/plain": 7}}), ("execute_result", {}),
        ("status", {"execution_state": ["idle"]}),
    ]
    for kind, content in contents:
        session.send(socket, kind, content, parent=parent)
    print("end")
    """
    outputs = kernel.run_cell(textwrap.dedent(source))
    assert "end" in json.dumps(outputs)
    assert told(kernel, "print(2)") == 2


# -------------------------------------------------------------------------------------------- functions at a test


def function_of(kernel: Kernel, name: str, source: str = "", seconds: float = 20.0) -> Function:
    """Define something in the kernel and return the proxy by which a test calls it."""
    outputs = kernel.run_cell(textwrap.dedent(source))
    assert [output for output in outputs if output.output_type == "error"] == []
    return Function(name, lambda request, correct: kernel.call(request, correct, seconds))


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_function_carries_values_there_and_back(kernel: Kernel, value: Any) -> None:
    """Does a value that the student's function returns as it came arrive as it was sent?"""
    back = function_of(kernel, "echo", "def echo(value): return value")(value)
    assert same(back, np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value)


def test_function_takes_keywords_and_defaults(kernel: Kernel) -> None:
    """Do arguments by position, by keyword and by default arrive in their places?"""
    function = function_of(kernel, "f", "def f(a, b=2, *, c=3): return [a, b, c]")
    assert function(1) == [1, 2, 3]
    assert function(1, c=5) == [1, 2, 5]
    assert function(a=7, b=8) == [7, 8, 3]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        function()


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        ("raise ValueError('no key')", ValueError, r"no key \(in f, line 2\)"),
        ("raise KeyError('a')", KeyError, "'a'"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("class MaskError(ValueError): pass\n    raise MaskError('mine')", ValueError, "MaskError: mine"),
        ("class Odd(Exception): pass\n    raise Odd('mine')", Exception, "Odd: mine"),
        ("import numpy as np; np.ones(2) @ np.ones(3)", ValueError, "size 3 is different from 2"),
        ("import numpy as np; np.linalg.inv(np.zeros((2, 2)))", ValueError, "LinAlgError: Singular"),
        ("import torch; torch.ones(2) @ torch.ones(3)", RuntimeError, "inconsistent tensor size"),
        ("b'\\xff'.decode()", RuntimeError, "invalid start byte"),
        ("assert False, 'theirs'", AssertionError, "theirs"),
        ("raise SystemExit(3)", RuntimeError, "SystemExit: 3"),
        ("raise KeyboardInterrupt", RuntimeError, "KeyboardInterrupt"),
        ("raise ExceptionGroup('g', [ValueError(1)])", Exception, "g"),
    ],
)
def test_function_raises_the_students_error(kernel: Kernel, statement: str, kind: type, text: str) -> None:
    """Does an error arrive as the nearest one that Python has, as an Exception, with text and line?"""
    function = function_of(kernel, "f", f"def f():\n    {statement}\n")
    with pytest.raises(kind, match=text) as caught:
        function()
    assert isinstance(caught.value, Exception)


def error_of(function: Callable, *arguments: Any) -> BaseException | None:
    """Call a function; return what it raised."""
    try:
        function(*arguments)
    except BaseException as error:
        return error
    return None


def test_function_that_is_not_defined(kernel: Kernel) -> None:
    """Is a function whose cell did not run a NameError that says so?"""
    with pytest.raises(NameError, match="nobody_wrote_me is not defined; did its cell run"):
        function_of(kernel, "nobody_wrote_me")()


def test_function_changes_arguments_in_place(kernel: Kernel) -> None:
    """Does what the student's function does to its arguments show here, so that M15 can be seen?"""
    function = function_of(kernel, "spoil", "def spoil(a, b):\n    a[0] = 7\n    return b")
    mine, other = np.zeros(3), np.ones(2)
    function(mine, other)
    np.testing.assert_array_equal(mine, [7, 0, 0])
    np.testing.assert_array_equal(other, [1, 1])
    assert outcome(function, (np.zeros(3), np.ones(2)), ("b",))["changed"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Evil()", "Evil"),
        ("{'weights': [Evil()]}", "Evil"),
        ("lambda: 1", "function"),
        ("(x for x in [1])", "generator"),
        ("np.array([Evil()], dtype=object)", "ndarray"),
        ("[1, (2, {3: b'4'})]", "bytes"),
    ],
)
def test_function_refuses_foreign_values(kernel: Kernel, value: str, name: str) -> None:
    """Is a value that may not cross a TypeError that names function and type, wherever the value stands?"""
    source = "import numpy as np\nclass Evil:\n    def __reduce__(self): return (print, ('pickled',))\n"
    function = function_of(kernel, "f", source + f"def f(): return {value}")
    with pytest.raises(TypeError, match=rf"^f returned a {name}; expected numbers, strings, arrays"):
        function()


def test_function_asks_the_grader_for_earlier_exercises(kernel: Kernel) -> None:
    """Under `replaced`, does the student's function use the grader's version of an earlier one, and afterwards its own?"""
    source = """
    def softmax(scores, axis=-1): return "own"
    def attention(scores): return [softmax(scores, axis=0), softmax(scores)]
    """
    function, asked = function_of(kernel, "attention", source), []

    def correct(scores: np.ndarray, axis: int = -1) -> np.ndarray:
        asked.append((scores.copy(), axis))
        return 10 * scores

    with function.replaced({"softmax": correct, "never_written": correct}):
        first, second = function(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(first, [10.0, 20.0])
    np.testing.assert_array_equal(second, [10.0, 20.0])
    assert [axis for _, axis in asked] == [0, -1]
    assert function(np.array([1.0])) == ["own", "own"]
    assert told(kernel, "print(json.dumps('never_written' in globals()))") is False


def test_function_gets_gradients_through_the_grader_s_answers(kernel: Kernel) -> None:
    """Do gradients flow back through the grader's version of an earlier exercise, for each way of calling it?"""
    source = """
    import torch
    def attend(q, k, v=None, mask=None): return q * 0, q
    def layer(x, w):
        output, weights = attend(x @ w, x, v=3 * x, mask=torch.tensor([True, False]))
        return output * 2, weights
    """
    function, asked = function_of(kernel, "layer", source), []

    def correct(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        asked.append(mask.tolist())
        weights = (q @ k.T).masked_fill(~mask, -torch.inf).softmax(-1)
        return weights @ v.sin(), weights

    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    with function.replaced({"attend": correct}):
        output, weights = function(x, w)
        found = torch.autograd.grad((output * torch.tensor([1.0, 2.0, 3.0])).sum() + weights[0, 0], (x, w))
    own = correct(x @ w, x, 3 * x, torch.tensor([True, False]))
    expected = torch.autograd.grad((2 * own[0] * torch.tensor([1.0, 2.0, 3.0])).sum() + own[1][0, 0], (x, w))
    torch.testing.assert_close(output, 2 * own[0])
    for gradient, right in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, right)
    assert asked[0] == [True, False]


def test_function_that_asks_for_impossible_gradients_gets_an_error(kernel: Kernel) -> None:
    """Is a question for gradients that fit nothing an error of the student's, and does the kernel answer on?"""
    source = """
    import inspect
    def attend(x): return x
    def cheat(x, gradients):
        ask = inspect.getclosurevars(attend).nonlocals["ask"]
        try:
            return ask(arguments=[x], keywords={}, gradients=gradients)
        except ValueError:
            return "refused"
    """
    function = function_of(kernel, "cheat", source)
    with function.replaced({"attend": lambda x: x * 2}):
        for gradients in ([], [torch.ones(7)], ["x"], None, 3, [None, None]):
            assert function(torch.ones(2), gradients) == "refused"
        torch.testing.assert_close(function(torch.ones(2), [torch.ones(2)])[0], torch.full((2,), 2.0))


def test_function_changes_tensors_in_place(kernel: Kernel) -> None:
    """Does what the student's function does to a tensor show here, one that asks for its gradient too?"""
    function = function_of(kernel, "halve", "def halve(a):\n    a /= 2\n    return a * 3")
    plain = torch.ones(2)
    torch.testing.assert_close(function(plain), torch.full((2,), 1.5))
    torch.testing.assert_close(plain, torch.full((2,), 0.5))
    leaf = torch.ones(2, requires_grad=True)
    given = leaf.clone()
    result = function(given)
    torch.testing.assert_close(given.detach(), torch.full((2,), 0.5))
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    torch.testing.assert_close(gradient, torch.full((2,), 1.5))


def test_function_has_siblings(kernel: Kernel) -> None:
    """Can another function of the same notebook be had from one?"""
    function = function_of(kernel, "one", "def one(): return 1\ndef two(): return 2")
    assert (function(), function.sibling("two")()) == (1, 2)


def test_function_gets_the_grader_errors_of_earlier_exercises(kernel: Kernel) -> None:
    """Does an error of the grader's version reach the student's code as a ValueError, and lose neither side?"""
    source = "def caught(x):\n    try:\n        return softmax(x)\n    except ValueError as error:\n        return str(error)"
    function = function_of(kernel, "caught", source)

    def correct(scores: Any) -> Any:
        raise IndexError("axis 7 is out of bounds")

    with function.replaced({"softmax": correct}):
        assert function(1) == "axis 7 is out of bounds"
        assert function(1) == "axis 7 is out of bounds"


def test_function_that_asks_for_input_gets_no_person(kernel: Kernel) -> None:
    """Does input() in a student's function not hang, and give nothing of ours?"""
    function = function_of(kernel, "ask", "def ask(): return input('the expected weights?')")
    with pytest.raises(NotImplementedError, match="does not support input requests"):
        function()


def test_function_hands_out_no_expected_value(kernel: Kernel) -> None:
    """Can the student's function find neither the seed nor a check in anything that its process holds?"""
    source = """
    def search():
        import gc, sys
        names = [name for name in sys.modules if name.split(".")[0] in ("autograder", "solutions")]
        frames, frame = [], sys._getframe()
        while frame:
            frames.append(sorted(frame.f_locals))
            frame = frame.f_back
        texts = [o for o in gc.get_objects() if isinstance(o, dict) and ("expected" in o or "mistakes" in o)]
        return [names, any("expected" in each for each in frames), len([t for t in texts if "fingerprint" in str(t)[:9999]])]
    """
    assert function_of(kernel, "search", source)() == [[], False, 0]


def test_function_of_a_silenced_kernel_gives_a_bad_reply(start: Callable[..., Kernel]) -> None:
    """Is a kernel whose code swallows or forges the replies an error of its own, and no value?"""
    kernel = start()
    source = """
    import inside, wire
    def f():
        for text in ("", "{", '{"dict": [["id", "guess"], ["value", 15]]}', '{"array": ["<f8", [3], ""]}', "7", "null"):
            inside.CHANNEL[0].sendall(wire.frame(text))
        return 2
    """
    assert function_of(kernel, "f", source)() == 2
    function = function_of(kernel, "f", "def f(): return 1\ninside._reply_to = None")
    with pytest.raises(BadReply, match="no readable reply"):
        function()


def test_function_over_a_closed_channel_is_lost(start: Callable[..., Kernel]) -> None:
    """Is a kernel lost whose code closes, or breaks, what functions are called over?"""
    for source in ("inside.CHANNEL[0].close()", "inside.CHANNEL[0].sendall(b'\\xff' * 8)"):
        with pytest.raises(KernelLost, match="closed its connection"):
            function_of(start(), "f", f"import inside\ndef f(): {source}")()


def test_function_reply_forged_from_inside_is_at_worst_a_value(start: Callable[..., Kernel]) -> None:
    """When the student's code knows the id of the call and answers itself, is that no more than returning a value?"""
    source = """
    import inside, sys, wire
    def f():
        request = next(x for x in (sys._getframe(depth).f_locals.get("request") for depth in range(1, 9)) if isinstance(x, dict))
        for reply in (%s):
            inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"id": request["id"]} | reply)))
        return "true"
    """
    kernel = start()
    assert function_of(kernel, "f", source % "{'value': 'forged'},")() == "forged"
    assert function_of(kernel, "f", source % "{'value': 1, 'arguments': 7, 'graph': 5, 'buffers': 3},")() == 1
    for error in (
        "7",
        "['SystemExit']",
        "['KernelLost', 'BaseException']",
        "['GraderFault']",
        "['UnicodeDecodeError']",
        "[[], {}, 'eval']",
    ):
        raised = error_of(function_of(kernel, "f", source % f"{{'error': {error}, 'text': ['x'], 'line': 3}},"))
        assert isinstance(raised, Exception), "one that no test can catch"


def test_function_of_a_kernel_that_does_not_listen_is_lost(start: Callable[..., Kernel]) -> None:
    """Is nobody waited for who takes no long question, and one that dies over it told as dead?"""
    kernel = start(call_seconds=2.0)
    function = function_of(
        kernel, "f", "import inside, os, time\ndef f(x=0): inside._receive = lambda: time.sleep(100)"
    )
    function()
    with pytest.raises(KernelLost, match="Not done after 2 s"):
        function(np.zeros(10**6))
    source = "import inside, os, time\ndef f(x=0): inside._receive = lambda: (time.sleep(0.5), os._exit(0))"
    function = function_of(start(), "f", source)
    function()
    with pytest.raises(KernelLost, match="The kernel died"):
        function(np.zeros(10**6))


def test_function_in_a_lost_kernel(start: Callable[..., Kernel]) -> None:
    """Does a call that ends or hangs the kernel raise KernelLost, past any `except Exception` of a test?"""
    function = function_of(start(), "f", "def f():\n    import os; os._exit(1)")
    with pytest.raises(KernelLost) as lost:
        outcome(function, (), ("weights",))
    assert lost.value.state == "crashed"
    function = function_of(start(), "f", "def f():\n    while True: pass", seconds=1.0)
    with pytest.raises(KernelLost) as lost:
        outcome(function, (), ("weights",))
    assert lost.value.state == "timed out"


def test_grader_fault_is_not_swallowed() -> None:
    """Does a failure of ours get through judge and outcome, which catch every error of a student's?"""

    def broken(request: dict[str, Any], correct: dict[str, Any]) -> dict[str, Any]:
        raise OSError("our disk is full")

    case = {"name": "x", "arguments": (1.0,), "expected": {"error": "ValueError"}, "mistakes": {}, "otherwise": None}
    with pytest.raises(GraderFault, match="calling softmax: OSError: our disk is full"):
        judge(Function("softmax", broken), ("weights",), [case], {})


def test_function_arguments_that_cannot_cross_are_our_fault(kernel: Kernel) -> None:
    """Is a test that sends what is too big for the wire a fault of ours, and no lost point of a student's?"""
    with pytest.raises(GraderFault, match="ValueError"):
        function_of(kernel, "echo", "def echo(value): return value")(np.zeros(2_500_000))


DRAWS = (
    "import random, numpy as np, torch\ndef f():\n    return [random.random(), np.random.rand(), torch.rand(1).item()]"
)


def test_call_draws_at_random_by_its_number_alone(kernel: Kernel) -> None:
    """Are what Python, NumPy and PyTorch draw in a call the same in each run, whatever was drawn before?"""
    kernel.run_cell(DRAWS)
    request = {"do": "call", "target": "f", "arguments": [], "keywords": {}, "modules": [], "differentiable": []}
    drawn = []
    for number in (1, 2, 1):
        drawn.append(kernel.call(request | {"gradient": False, "draw": number}, {}, 5.0)["value"])
        kernel.run_cell("f()")
    assert drawn[0] == drawn[2]
    assert all(one != two for one, two in zip(*drawn[:2]))


def test_call_works_where_nothing_can_be_seeded(start: Callable[..., Kernel]) -> None:
    """Does a call go on where the student's code broke what draws at random?"""
    kernel = start()
    broken = "import random, sys\nsys.modules['numpy'] = sys.modules['torch'] = random.seed = None"
    kernel.run_cell(f"{broken}\ndef f():\n    return 3")
    request = {"do": "call", "target": "f", "arguments": [], "keywords": {}, "modules": [], "differentiable": []}
    assert kernel.call(request | {"gradient": False, "draw": 1}, {}, 5.0)["value"] == 3


def test_kernels_draw_differently(start: Callable[..., Kernel]) -> None:
    """Does no kernel inherit the state of what draws at random?"""
    first, second = (told(start(), f"{DRAWS}\nprint(json.dumps(f()))") for _ in range(2))
    assert all(one != two for one, two in zip(first, second))


# ------------------------------------------------------------------------------------------------------- modules


def test_module_crosses_with_values_and_gradients(kernel: Kernel) -> None:
    """Has a student's module the parameters, outputs and gradients here that it has there?"""
    source = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = torch.nn.Linear(width, 3)
        def forward(self, x):
            return torch.tanh(self.inner(x))
    """
    net = function_of(kernel, "Net", source)(4)
    assert [name for name, _ in net.named_parameters()] == ["inner.weight", "inner.bias"]
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        net.inner.weight.copy_(torch.randn(3, 4, generator=rng))
        net.inner.bias.copy_(torch.randn(3, generator=rng))
    here = torch.nn.Linear(4, 3)
    here.load_state_dict(net.inner.state_dict())
    x = torch.randn(5, 4, generator=rng)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, output = torch.tanh(here(mine)), net(theirs)
    expected.square().sum().backward()
    output.square().sum().backward()
    pairs = ((output, expected), (theirs.grad, mine.grad), (net.inner.weight.grad, here.weight.grad))
    for got, right in pairs:
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)  # float32 keeps 7 digits


def test_module_with_a_forged_description_is_refused(kernel: Kernel) -> None:
    """Is a handle to nothing an error of the student's, and does it not end the kernel?"""
    source = (
        "import wire, torch\ndef f():\n    m = torch.nn.Linear(2, 2)\n    m.named_modules = lambda **k: 7\n    return m"
    )
    assert isinstance(error_of(function_of(kernel, "f", source)), Exception)
    assert told(kernel, "print(3)") == 3


def test_module_of_too_many_parts_is_not_kept(kernel: Kernel) -> None:
    """Is a giant module refused by name, and gone? Twenty of them would fill the memory."""
    before = told(kernel, "import inside\nprint(len(inside.MODULES))")
    source = "import torch\ndef f():\n    return torch.nn.ModuleList(torch.nn.Identity() for _ in range(2000))"
    assert "a module of more than 1000 parts or parameters" in str(error_of(function_of(kernel, "f", source)))
    assert told(kernel, "print(len(inside.MODULES))") == before


# ------------------------------------------------------------------------------------------- when it cannot work


def test_sandbox_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bubblewrap, does grading stop with what to install, and how to go on without?"""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"bubblewrap is not installed.*apt-get install bubblewrap.*--no-sandbox"):
        check_sandbox()


def test_sandbox_that_does_not_work_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where bubblewrap cannot make a sandbox, does the error say what it printed and what to change?"""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace.*(?s:.)*userns"):
        check_sandbox()


def test_sandbox_works_here() -> None:
    """Is bubblewrap there and working, which all tests above need?"""
    assert shutil.which("bwrap"), "install bubblewrap"
    check_sandbox()


LEFT = """
import os, warnings
import numpy as np, torch
torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.use_deterministic_algorithms(True)
np.seterr(all="raise"); warnings.simplefilter("error"); os.chdir("/"); __builtins__.print = None
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        raise TypeError("in a mode of my own")
torch.set_default_device("meta")
held = [torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)]
held += [torch.autograd.graph.disable_saved_tensors_hooks("none here"), Mode()]
[each.__enter__() for each in held]

def state(x):
    warnings.warn("heard")
    flags = [torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), print is not None]
    y = x @ x
    with torch.autograd.graph.save_on_cpu():
        y.sum().backward()
    kinds = [str(torch.get_default_dtype()), str(y.dtype), str(torch.zeros(1).device)]
    return [*kinds, np.geterr()["over"], os.getcwd(), *flags]
"""


def test_call_finds_the_state_that_a_kernel_begins_with(start: Callable[..., Kernel]) -> None:
    """Is what a cell has left behind, in PyTorch, NumPy and Python, put back before each call of a function?"""
    kernel = start()
    kernel.run_cell("pass")
    assert [output for output in kernel.run_cell(LEFT) if output.output_type == "error"] == []
    state = Function("state", lambda request, correct: kernel.call(request | {"draw": 1}, correct, 10.0))
    x = torch.ones(2, 2, requires_grad=True)
    assert state(x) == ["torch.float32", "torch.float32", "cpu", "warn", "/tmp/home", True, False, True]
    assert state(x) == state(x)


def test_function_that_doubles_its_process_answers_once(start: Callable[..., Kernel]) -> None:
    """Does a copy that a function makes of its process, and that runs on, neither answer nor take what comes later?"""
    kernel = start()
    kernel.run_cell("import os\ndef double(x):\n    return os.fork() and x + 1")
    double = Function("double", lambda request, correct: kernel.call(request, correct, 10.0))
    assert [double(number) for number in range(5)] == [1, 2, 3, 4, 5]
    for number in range(5):
        assert told(kernel, f"x{number} = {number}\nprint(x{max(0, number - 1)})") == max(0, number - 1)


def test_measured_by_takes_no_name_of_the_notebook(start: Callable[..., Kernel]) -> None:
    """Is a file of ours run anew beside the student's function, whatever the notebook calls by its names?"""
    kernel = start()
    kernel.run_cell("def measure_evaluation(*_): return 'forged'\ndef evaluate(model, batches): return 1, 2")
    function = Function("evaluate", lambda request, correct: kernel.call(request | {"draw": 1}, correct, 20.0))
    arguments = ("means", np.ones((2, 1, 2, 2)), np.array([0, 1]), np.array([2]), "list", 2, 0)
    assert function.measured_by(measures.measure_evaluation, *arguments) == {"result": (1, 2)}
    with pytest.raises(NameError, match="nobody is not defined"):
        Function("nobody", lambda r, c: kernel.call(r | {"draw": 1}, c, 20.0)).measured_by(
            measures.measure_evaluation, *arguments
        )


def test_no_text_of_an_answer_is_sent() -> None:
    """Is of a class that stands in a file of answers the class alone sent to the sandbox, and nothing else of the file?"""
    text = _text_of(encoder.BrokenBlock)
    assert "class BrokenBlock" in text and "import torch" in text
    assert "class LayerNorm" not in text and "def repair" not in text and "solutions" not in text
    exec(compile(text, "sent", "exec"), made := {})
    assert made["BrokenBlock"](8, 2, 12)


def test_sandbox_names_no_folder_but_those_of_security_md(kernel: Kernel) -> None:
    """Does the list of mounts name of the host only the system, Python, our files, fonts and a temporary folder?"""
    shown = told(kernel, "import json\nprint(json.dumps([l.split()[3:5] for l in open('/proc/self/mountinfo')]))")
    system = ("/dev", "/etc", "/proc", "/usr", "/bin", "/lib", "/sbin", "/tmp", "/wires")
    ours = [*map(str, _python_folders()), *map(str, _font_lists())]
    ours += [str(HERE / name) for name in ("inside.py", "warm.py", "wire.py")]
    named = [root for root, place in shown if not (place.startswith(system) and root.endswith((place, "/")))]
    named = [root for root in named if root not in ("/", "/newroot") and not root.startswith(("/usr/share/zoneinfo",))]
    named = [root for root in named if not re.search(rf"/{PREFIX}\d+-\w+(/k\w+/wire|/wire)?$", root)]
    assert [root for root in named if not root.endswith(tuple(ours)) and not re.fullmatch(r"/[a-z]+", root)] == []


def test_sandbox_has_no_memory_that_is_nobodys(kernel: Kernel) -> None:
    """Is memory refused that several share without a file, which is kept, and not counted, once it is given back?"""
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096)") == "OSError"
    assert attempt(kernel, "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)") != ""
    assert attempt(kernel, "import mmap; mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)") == ""


def test_page_tables_count_as_memory(start: Callable[..., Kernel]) -> None:
    """Is a cell stopped that fills the memory with the tables of pages that all are one and the same?"""
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

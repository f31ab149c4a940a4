"""Measure the grader: against plain nbgrader, and how both grow with the class.

`python -m autograder.benchmark --help`. One process chain makes submissions of 2_multihead, runs `nbgrader autograde` and
`autograder grade` on them, compares the marks, and writes what was measured as JSON. CPU seconds are those of a command
and of all processes below it, as the system counts them for a control group; where none can be made, of the whole machine.
"""

import contextlib
import inspect
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import nbformat
import psutil
import torch
import typer
from nbformat import NotebookNode
from rich.console import Console
from rich.table import Table

import autograder.grading.grade as grader
from autograder.authoring.build import ROOT
from autograder.boundary.kernel import Kernel
from autograder.boundary.sandbox import Limits
from autograder.cells import is_grade, is_locked, is_solution
from autograder.course.course import CONFIG, COURSE_ID, Assignment, Course
from autograder.files import write_atomically
from autograder.grading import job
from autograder.grading.grade import load_assignment
from autograder.grading.mend import mend
from autograder.judging.exercise import exercises_of

NAME, STEM = "2_multihead", "multihead"
RECORD, PAGE = ROOT / "book" / "records" / "grading.json", ROOT / "book" / "instructors.md"
BEGIN, END = "<!-- written by python -m autograder.benchmark publish -->", "<!-- to here -->"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # for plain nbgrader too: its kernels' threads else wait for each other

# Shares of an exercise's answers that are right and written differently, and wrong.
OTHERWISE, WRONG = 0.4, 0.15
Change = tuple[str, str, str]  # exercise, what is replaced in its answer, by what
RIGHT_CHANGES: tuple[Change, ...] = (
    ("matmul", 'torch.einsum("ik,kj->ij", a, b)', "a @ b"),
    ("matmul", 'torch.einsum("ik,kj->ij", a, b)', "(a[:, :, None] * b[None]).sum(1)"),
    ("matmul_transposed", 'torch.einsum("ik,jk->ij", a, b)', "F.linear(a, b)"),
    ("matmul_transposed", 'torch.einsum("ik,jk->ij", a, b)', "a @ b.T"),
    ("batched_trace", 'torch.einsum("bnn->b", a)', "a.diagonal(dim1=-2, dim2=-1).sum(-1)"),
    ("batched_trace", 'torch.einsum("bnn->b", a)', "torch.vmap(torch.trace)(a)"),
    ("pairwise_dot", 'torch.einsum("bqd,bkd->bqk", q, k)', "q @ k.mT"),
    ("pairwise_dot", 'torch.einsum("bqd,bkd->bqk", q, k)', "torch.stack([q[i] @ k[i].T for i in range(len(q))])"),
    ("bilinear", 'torch.einsum("bnd,de,bme->bnm", x, w, y)', "x @ w @ y.mT"),
    ("split_heads", "x.reshape(images, tokens, num_heads, width // num_heads)", "x.unflatten(-1, (num_heads, -1))"),
    ("merge_heads", "x.transpose(1, 2).flatten(start_dim=2)", "torch.cat(x.unbind(dim=1), dim=-1)"),
)
WRONG_CHANGES: tuple[Change, ...] = (
    ("matmul", '"ik,kj->ij"', '"ik,jk->ij"'),
    ("matmul_transposed", '"ik,jk->ij"', '"ik,jk->ji"'),
    ("batched_trace", '"bnn->b"', '"bnm->b"'),
    ("pairwise_dot", '"bqd,bkd->bqk"', '"bqd,ckd->bqk"'),
    ("bilinear", '"bnd,de,bme->bnm"', '"bnd,ed,bme->bnm"'),
    ("split_heads", "num_heads, width // num_heads).transpose(1, 2)", "-1, num_heads).permute(0, 3, 1, 2)"),
    ("merge_heads", "x.transpose(1, 2).flatten(start_dim=2)", "x.reshape(x.shape[0], x.shape[2], -1)"),
    ("attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
    ("attend", "q, k) / q.shape[-1] ** 0.5", "q, k)"),
    ("attend", "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -torch.inf)"),
    ("attend", "weights, v), weights", "weights, v), weights.mean(dim=1)"),
    ("MultiHeadAttention", "q, k, v = (", "k, q, v = ("),
    ("MultiHeadAttention", "self.out(merge_heads(mixed))", "merge_heads(mixed)"),
    ("MultiHeadAttention", "self.dropout(weights)", "F.dropout(weights, self.dropout.p)"),
    ("to_torch", "        layer.in_proj_bias.copy_(mha.qkv.bias)  # (3 D,)\n", ""),
)

# The second peer: an ordinary notebook of the same exercise, that imports PyTorch and asserts a few shapes and values.
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn"
ORDINARY = {
    "matmul": """a, b = torch.randn(3, 4), torch.randn(4, 5)
assert torch.allclose(matmul(a, b), a @ b, atol=1e-5)""",
    "matmul_transposed": """a, b = torch.randn(3, 4), torch.randn(5, 4)
assert matmul_transposed(a, b).shape == (3, 5)
assert torch.allclose(matmul_transposed(a, b), a @ b.T, atol=1e-5)""",
    "batched_trace": """a = torch.randn(3, 4, 4)
assert torch.allclose(batched_trace(a), torch.stack([m.trace() for m in a]), atol=1e-5)""",
    "pairwise_dot": """q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
assert torch.allclose(pairwise_dot(q, k), q @ k.mT, atol=1e-5)""",
    "bilinear": """x, w, y = torch.randn(2, 3, 4), torch.randn(4, 5), torch.randn(2, 6, 5)
assert torch.allclose(bilinear(x, w, y), x @ w @ y.mT, atol=1e-5)
x, w, y = torch.randn(2, 3, 4), torch.randn(4, 4), torch.randn(2, 6, 4)
assert torch.allclose(bilinear(x, w, y), x @ w @ y.mT, atol=1e-5)""",
    "split_heads": """x = torch.randn(2, 3, 8)
assert split_heads(x, 4).shape == (2, 4, 3, 2)
assert torch.equal(split_heads(x, 4)[:, 1], x[:, :, 2:4])""",
    "merge_heads": """x = torch.randn(2, 4, 3, 2)
assert merge_heads(x).shape == (2, 3, 8)
assert torch.equal(merge_heads(x)[:, :, 2:4], x[:, 1])""",
    "attend": """q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
mask = torch.rand(2, 3, 5, 5) < 0.5
mask[..., 0] = True
for each in (None, mask):
    mixed, weights = attend(q, k, v, each)
    assert weights.shape == (2, 3, 5, 5)
    assert torch.allclose(mixed, F.scaled_dot_product_attention(q, k, v, each), atol=1e-5)""",
    "MultiHeadAttention": """mha = MultiHeadAttention(8, 2, dropout=0.5).eval()
x, theirs = torch.randn(2, 3, 8), nn.MultiheadAttention(8, 2, batch_first=True).eval()
theirs.in_proj_weight.data, theirs.in_proj_bias.data = mha.qkv.weight.data, mha.qkv.bias.data
theirs.out_proj.weight.data, theirs.out_proj.bias.data = mha.out.weight.data, mha.out.bias.data
assert torch.allclose(mha(x), theirs(x, x, x)[0], atol=1e-5)""",
    "to_torch": """mha = MultiHeadAttention(8, 2).eval()
x, theirs = torch.randn(2, 3, 8), to_torch(mha).eval()
assert isinstance(theirs, nn.MultiheadAttention)
assert torch.equal(theirs.in_proj_bias, mha.qkv.bias)
assert torch.equal(theirs.out_proj.weight, mha.out.weight)""",
}

BUILD_ON_OTHERS = {"attend", "MultiHeadAttention", "to_torch"}  # exercises that use earlier ones

# What is timed of `autograder grade`: stage, module, function. In a process that grades, and in the one that records.
Stages = tuple[tuple[str, str, str], ...]
WORKER_STAGES: Stages = (
    ("mending", "autograder.grading.job", "mend"),
    ("kernels", "autograder.boundary.kernel", "Kernel.__init__"),
    ("kernels", "autograder.boundary.kernel", "Kernel.close"),
    ("cells, with their imports", "autograder.boundary.kernel", "Kernel.run_cell"),
    ("calls by tests", "autograder.boundary.kernel", "Kernel.call"),
)
MAIN_STAGES: Stages = (
    ("reading", "autograder.course.course", "Course.read_submission"),
    ("recording", "autograder.course.course", "Course.record"),
    ("recording", "autograder.course.course", "Course.save_result"),
)
out = Console(width=max(Console().width, 110))
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


# ---- the submissions ------------------------------------------------------------------------------------------------


def ways() -> dict[str, dict[bool, list[str]]]:
    """Return by exercise the texts of right (True) and of wrong (False) answers, other than the book's own."""
    found: dict[str, dict[bool, list[str]]] = {name: {True: [], False: []} for name in exercises_of(STEM)}
    checks = import_module(f"autograder.checks.{STEM}.exercises")
    helpers = "\n\n".join(["import math", inspect.getsource(checks.with_axes), inspect.getsource(checks.refuse)])
    for name, exercise in exercises_of(STEM).items():
        for other in exercise.correct.values():
            if getattr(checks, getattr(other, "__name__", ""), None) is not other or "oracle" in other.__name__.lower():
                continue  # not written at the top of the file under a name, or not as a student would
            text = inspect.getsource(other)
            if not re.search(r"\b(answers\.|probes\.|attend_)", text.partition("\n")[2]):
                text = re.sub(rf"^(def|class) {other.__name__}\b", rf"\1 {name}", text)
                found[name][True].append(f"{helpers}\n\n{text}".rstrip())
    own = (ROOT / "solutions" / f"{STEM}.py").read_text(encoding="utf-8")
    for right, changes in ((True, RIGHT_CHANGES), (False, WRONG_CHANGES)):
        for name, old, new in changes:
            text = re.search(rf"^(def|class) {name}\b.*?(?=\n\n\n|\Z)", own, re.M | re.S)[0].rstrip()
            if old not in text:
                raise ValueError(f"the answer {name} does not contain {old!r}; correct the benchmark")
            found[name][right].append(text.replace(old, new))
    return found


def draw_submission(number: int, seed: int, answers: NotebookNode, texts: dict[str, dict[bool, list[str]]]) -> str:
    """Return the file of one student, the same for the same number and seed: some answers differ, and some are wrong."""
    rng, notebook = random.Random(f"{seed}/{number}"), nbformat.from_dict(answers)
    for cell in notebook.cells:
        chance, name = rng.random(), cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in texts and chance < OTHERWISE + WRONG:
            choice = texts[name][chance < OTHERWISE]
            cell.source = rng.choice(choice) if choice else cell.source
    return json.dumps(notebook)


def write_class(folder: Path, size: int, seed: int, assignment: Assignment, alike: bool = False) -> None:
    """Write the folder of a course that both can grade, with submissions of students 0, 1, …; all the answers if alike."""
    sample = runpy.run_path(str(ROOT / "tests" / "sample_class.py"))
    answers, texts = sample["fill_in"](assignment.release, assignment.instructor), {} if alike else ways()
    write_atomically(folder / "nbgrader_config.py", CONFIG % COURSE_ID)
    write_atomically(folder / "source" / NAME / f"{STEM}.ipynb", nbformat.writes(assignment.instructor) + "\n")
    for number in range(size):
        sample["hand_in"](folder, f"student{number:05}", draw_submission(number, seed, answers, texts), NAME)


def make_ordinary(ours: Path, folder: Path) -> None:
    """Copy a class, with an ordinary test of a few asserts for each exercise in place of ours."""
    shutil.copytree(ours, folder)
    for path in folder.rglob("*.ipynb"):
        notebook = nbformat.read(path, 4)
        kept: dict[str, NotebookNode] = {}
        for cell in notebook.cells:
            name = tested = cell.id
            if name == "setup":
                cell.source = IMPORTS
            elif is_grade(cell) and not is_solution(cell):
                tested = _exercise_of(name)
                cell.source = ORDINARY[tested]
            if not name.startswith("test_"):
                kept.setdefault(f"{cell.cell_type} {tested}" if name == tested else tested, cell)
        notebook.cells = list(kept.values())
        nbformat.write(notebook, path)


def _exercise_of(cell: str) -> str:
    """Return the exercise that a test cell belongs to."""
    return max((name for name in ORDINARY if cell.startswith(f"{name}_")), key=len)


# ---- measuring a command --------------------------------------------------------------------------------------------


def measure(command: list[str], folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Run a command and wait for all that it started.

    Returns:
        Seconds by the clock and of the processors; the most memory in bytes that its processes had together, and that one
        worker with its sandbox had: shared pages are divided among those that share them, looked at once a second.

    Raises:
        RuntimeError: the command failed; with the end of what it printed.
    """
    memory = {"together": 0, "worker": 0}
    with tempfile.TemporaryFile() as log, control_group() as group:
        join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")] if group else []
        before, begun = _cpu_of(group), time.monotonic()
        process = subprocess.Popen([*join, *command], cwd=folder, env=os.environ | environment, stdout=log, stderr=log)
        while process.poll() is None:
            memory = {name: max(memory[name], value) for name, value in _memory_below(process.pid).items()}
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        wall = time.monotonic() - begun
        while group and (group / "cgroup.procs").read_text():  # what it left behind ends by itself
            time.sleep(0.02)
        cpu = _cpu_of(group) - before
        log.seek(0)
        printed = log.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}:\n{printed[-3000:]}")
    return {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "cpu_of": "the command" if group else "the whole machine",
        "peak_bytes": memory["together"],
        "worker_bytes": memory["worker"],
    }


@contextlib.contextmanager
def control_group() -> Iterator[Path | None]:
    """Make a control group, for which the system counts processor time; None where this process may not.

    The times that a process has of its children lack those of a killed sandbox.
    """
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, version, options, *_ = line.split()
        counts = {"cgroup2": "", "cgroup": "cpuacct"}.get(version, "no group")
        own = [path for _, kinds, path in groups if counts in kinds.split(",") and (not counts or counts in options)]
        folder = Path(place, *(path.strip("/") for path in own), f"benchmark-{os.getpid()}")
        if own:
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                yield folder
            finally:
                folder.rmdir()
            return
    yield None


def _cpu_of(group: Path | None) -> float:
    """Return the processor seconds that a control group, or the whole machine, has used."""
    if group is None:
        times = psutil.cpu_times()
        return times.user + times.system  # that of virtual machines and of low priority is in the first
    if (group / "cpuacct.usage").exists():
        return int((group / "cpuacct.usage").read_text()) / 1e9
    return int(dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())["usage_usec"]) / 1e6


def _memory_below(number: int) -> dict[str, int]:
    """Return the memory of all processes from one on, and of the largest worker with its sandbox."""
    sizes: dict[int, int] = {}
    workers: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(number)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                sizes[each.pid] = _size(each)
                if "multiprocessing.forkserver" in " ".join(each.cmdline()) and each.ppid() == number:
                    workers = each.children()
    largest = 0
    for worker in workers:
        with contextlib.suppress(psutil.Error):
            family = (worker, *worker.children(recursive=True))
            largest = max(largest, sum(sizes.get(each.pid, 0) for each in family))
    return {"together": sum(sizes.values()), "worker": largest}


def _size(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.AccessDenied:  # of a sandbox, for an ordinary user; pages that are shared count whole
        return process.memory_info().rss


# ---- timing the stages, inside the measured command ------------------------------------------------------------------


class Clock:
    """Adds up seconds by stage; a stage within another counts only for itself."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._within = 0.0

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Count the seconds of a block for a stage."""
        begun, outside, self._within = time.perf_counter(), self._within, 0.0
        try:
            yield
        finally:
            took = time.perf_counter() - begun
            self.seconds[stage] += took - self._within
            self._within = outside + took

    def hook(self, stages: Stages) -> None:
        """Let functions be timed wherever they are called.

        Raises:
            AttributeError: a function is not there; the tables of stages above are to be corrected.
        """
        for stage, module, path in stages:
            *owners, name = path.split(".")
            owner = import_module(module)
            for part in owners:
                owner = getattr(owner, part)
            setattr(owner, name, self._timed(stage, getattr(owner, name)))

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            with self.measure(stage):
                return function(*arguments, **keywords)

        return timed


_clock: Clock | None = None  # of this process
_stub: dict[str, Any] | None = None


def timed_grade_one(*arguments: Any) -> dict[str, Any]:
    """Grade in a worker, and add to the file of times what took how long."""
    global _clock
    if _clock is None:
        _clock = Clock()
        _clock.hook(WORKER_STAGES)
    _clock.seconds.clear()
    with _clock.measure("judging, and the rest"):
        fields = job.grade_one(*arguments)
    _write_times("worker", _clock)
    return fields


def stub_grade_one(*arguments: Any) -> dict[str, Any]:
    """Give every submission the result of the first that came to this worker."""
    global _stub
    if _stub is None:
        _stub = job.grade_one(*arguments)
    return dict(_stub)


def _write_times(process: str, clock: Clock) -> None:
    line = json.dumps({"process": process, "seconds": clock.seconds}) + "\n"
    with open(os.environ["AUTOGRADER_TIMES"], "a", encoding="utf-8") as file:  # short lines: appended whole
        file.write(line)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def timed(arguments: list[str], stub: bool = False) -> None:
    """Run `autograder` with arguments, timed. With --stub grading returns at once, and is not proved before."""
    from autograder.cli import app as autograder_app

    clock = Clock()
    clock.hook(MAIN_STAGES)
    grader.GRADE_ONE = f"autograder.benchmark.{'stub' if stub else 'timed'}_grade_one"
    begin = grader._runner

    def begin_timed(*given: Any) -> Any:
        clock.seconds["start-up"] = time.time() - psutil.Process().create_time() - clock.seconds["reading"]
        return begin(*given)

    grader._runner = begin_timed
    if stub:
        grader._Proof._wrong_with = lambda *_: []
    try:
        code = autograder_app(arguments, standalone_mode=False)
    finally:
        _write_times("main", clock)
    raise typer.Exit(code or 0)


# ---- the comparison -------------------------------------------------------------------------------------------------


def run_plain(folder: Path, seed: int) -> dict[str, Any]:
    """Make the release with nbgrader, and measure its `autograde`; one process, the default kernel."""
    environment = ONE_THREAD | {"AUTOGRADER_SEED": str(seed), "PYTHONPATH": str(ROOT)}  # kernels import the checks
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    nbgrader = [sys.executable, "-m", "nbgrader"]
    measure([*nbgrader, "generate_assignment", NAME], folder, environment)
    usage = measure([*nbgrader, "autograde", NAME], folder, environment)
    return usage | {"cells_stopped": _cells_stopped(folder)}


def _cells_stopped(folder: Path) -> int:
    """Count the cells that nbgrader gave up, after 30 s each: their points are lost to the load of the machine."""
    texts = (path.read_text(encoding="utf-8") for path in (folder / "autograded").rglob("*.ipynb"))
    return sum(text.count('"ename": "CellTimeoutError"') for text in texts)


def run_ours(folder: Path, seed: int, options: list[str], stub: bool = False) -> dict[str, Any]:
    """Measure `autograder grade`, and its stages: seconds of the main process, and of all workers together."""
    times = folder / "times.jsonl"
    environment = {"AUTOGRADER_TIMES": str(times), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "autograder.benchmark", "timed", *(["--stub"] if stub else []), "--"]
    usage = measure(
        [*command, "grade", NAME, "--course", str(folder), "--seed", str(seed), *options], ROOT, environment
    )
    lines = [json.loads(line) for line in times.read_text(encoding="utf-8").splitlines()]
    stages = {
        process: dict(sum((Counter(line["seconds"]) for line in lines if line["process"] == process), Counter()))
        for process in ("main", "worker")
    }
    return usage | {"stages": stages}


def run_cells(folder: Path, size: int, assignment: Assignment) -> dict[str, float]:
    """Run the students' own cells alone, in one sandboxed kernel that has run the answers; return seconds a submission."""
    submissions = [
        [cell.source for cell in mend(data, assignment.instructor, assignment.release).notebook.cells if _runs(cell)]
        for number in range(size)
        if (data := (folder / "submitted" / f"student{number:05}" / NAME / f"{STEM}.ipynb").read_bytes())
    ]
    kernel = Kernel(Limits())
    try:
        setup = next(cell for cell in assignment.instructor.cells if cell.get("id") == "setup")
        answers = [cell.source for cell in assignment.instructor.cells if _runs(cell)]
        for source in (setup.source, *answers):
            kernel.run_cell(source)
        cpu, begun = _cpu_seconds(kernel), time.monotonic()
        for sources in submissions:
            for source in sources:
                kernel.run_cell(source)
        seconds = {"wall_seconds": time.monotonic() - begun, "cpu_seconds": _cpu_seconds(kernel) - cpu}
    finally:
        kernel.close()
    return {name: value / size for name, value in seconds.items()}


def _runs(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and (not is_locked(cell) or bool(cell.metadata.get("given")))


def _cpu_seconds(kernel: Kernel) -> float:
    processes = (kernel.sandbox.process, *kernel.sandbox.process.children(recursive=True))
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def same_marks(plain: Path, ours: Path, assignment: Assignment) -> dict[str, Any]:
    """Compare the scores of every cell, and the lines of nbgrader's own export, byte for byte."""
    scores, exports = [], []
    for folder in (plain, ours):
        scores.append(Course(folder).scores(assignment))
        environment = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        command = [sys.executable, "-m", "nbgrader", "export"]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        exports.append(sorted((folder / "grades.csv").read_bytes().splitlines()))  # by student, not as they were graded
    different = [
        f"{student} {cell}: {scores[0][student].get(cell)} and {scores[1].get(student, {}).get(cell)}"
        for student in scores[0]
        for cell in scores[0][student]
        if scores[0][student].get(cell) != scores[1].get(student, {}).get(cell)
    ]
    return {"students": len(scores[0]), "different": different, "export_identical": exports[0] == exports[1]}


def same_exercises(ordinary: Path, ours: Path, assignment: Assignment) -> bool:
    """Whether the same exercises are wrong by ordinary asserts as by our tests.

    An ordinary test also fails by an earlier exercise that is wrong, or other than expected; ours puts the right one in
    its place.
    """
    wrong = [
        {
            student: {_exercise_of(cell) for cell, (score, waits) in own.items() if not (score or waits)}
            for student, own in Course(folder).scores(assignment).items()
        }
        for folder in (ordinary, ours)
    ]
    return wrong[0].keys() == wrong[1].keys() and all(
        wrong[1][student] <= theirs and theirs - wrong[1][student] <= BUILD_ON_OTHERS
        for student, theirs in wrong[0].items()
    )


def describe_machine() -> dict[str, Any]:
    """Say on what it was measured."""
    from solutions.training import describe_machine

    packages = ("nbgrader", "ipykernel", "nbformat", "psutil")
    versions = {name: version(name) for name in packages}
    memory = {"memory_bytes": psutil.virtual_memory().total}
    return describe_machine(torch.device("cpu")) | memory | versions


@app.command()
def run(
    sizes: Annotated[str, typer.Option(help="How many submissions, with commas.")] = "10,100,1000",
    plain_at_most: Annotated[int, typer.Option(help="Run plain nbgrader for no more submissions.")] = 100,
    stub: Annotated[str, typer.Option(help="For how many submissions to record alone; empty for none.")] = "1000,10000",
    options: Annotated[str, typer.Option(help='More options of `autograder grade`, such as "--jobs 2".')] = "",
    seed: Annotated[int, typer.Option(help="Of the submissions, and of the hidden checks' inputs.")] = 1,
    record: Annotated[Path, typer.Option("--out", help="Where the record goes.")] = ROOT / "_build" / "grading.json",
    keep: Annotated[Path | None, typer.Option(help="An empty folder for the courses, which are kept.")] = None,
) -> None:
    """Measure both on the same submissions, one after the other, show a table, and write a record."""
    machine, assignment = describe_machine(), load_assignment(NAME)
    wanted, stubs = (sorted(map(int, filter(None, text.split(",")))) for text in (sizes, stub))
    found: dict[str, Any] = {"machine": machine, "seed": seed, "options": options, "runs": [], "stub": []}
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        warm = [sys.executable, "-c", "import torch, torchvision, nbgrader.apps, ipykernel"]
        measure(warm, folder, {})  # reads the libraries from the disk, which else the first run would pay for
        for size in wanted:
            ours, plain = folder / f"ours-{size}", folder / f"plain-{size}"
            write_class(ours, size, seed, assignment)
            each: dict[str, Any] = {"size": size, "plain": None}
            if size <= plain_at_most:
                shutil.copytree(ours, plain)
                out.print(f"{size} submissions, plain nbgrader …")
                each["plain"] = run_plain(plain, seed)
                ordinary = folder / f"ordinary-{size}"
                make_ordinary(ours, ordinary)
                out.print(f"{size} submissions, plain nbgrader on an ordinary notebook …")
                each["ordinary"] = run_plain(ordinary, seed)
            out.print(f"{size} submissions, autograder grade …")
            each["ours"] = run_ours(ours, seed, options.split())
            each["cells"] = run_cells(ours, min(size, 100), assignment)
            each["marks"] = same_marks(plain, ours, assignment) if each["plain"] else None
            if each["plain"]:
                each["ordinary"]["same_exercises"] = same_exercises(ordinary, ours, assignment)
            found["runs"].append(each)
            _write(record, found)
        for size in stubs:
            ours = folder / f"stub-{size}"
            write_class(ours, size, seed, assignment, alike=True)
            out.print(f"{size} submissions, graded by a stub …")
            found["stub"].append({"size": size, "ours": run_ours(ours, seed, options.split(), stub=True)})
            _write(record, found)
            if not keep:
                shutil.rmtree(ours)
    for table in tables(found):
        shown = Table(*table[0], title=table.title)
        for row in table[1:]:
            shown.add_row(*row)
        out.print(shown)
    out.print(f"Record: {record}", soft_wrap=True, highlight=False)
    compared = [each for each in found["runs"] if each["marks"]]
    if not all(_marks(each, "ours") == "equal" and each["ordinary"]["same_exercises"] for each in compared):
        raise typer.Exit(1)


def _write(path: Path, found: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(found, indent=1) + "\n")


# ---- what is shown --------------------------------------------------------------------------------------------------


class Rows(list):
    """The rows of a table, the first of them its head, and its title."""

    def __init__(self, title: str, *rows: list[str]) -> None:
        super().__init__(rows)
        self.title = title


def tables(found: dict[str, Any]) -> list[Rows]:
    """Return the tables of a record: both side by side, the overhead, the stages, the recording.

    The ratio is that of submissions a minute; memory is that of all processes together at their most.
    """
    sides = Rows(
        "Plain nbgrader and ours",
        ["submissions", "", "seconds", "CPU seconds", "a minute", "ratio", "GiB", "a worker", "marks"],
    )
    overhead = Rows(
        "Seconds a submission beyond the student's own cells",
        ["submissions", "CPU", "CPU, each more", "wall, each more", "wall of one job", "own cells: CPU", "wall"],
    )
    runs, before = found["runs"], None
    for each in runs:
        size, ours = each["size"], each["ours"]
        for side in ("plain", *(["ordinary"] if each.get("ordinary") else []), "ours"):
            ratio = _ratio(each) if side == "ours" else ("1" if side == "plain" and each["plain"] else "")
            sides.append([str(size), side, *_usage(each[side], size), ratio, *_memory(each[side]), _marks(each, side)])
        own = each["cells"]
        more = {"cpu_seconds": "–", "wall_seconds": "–"}
        if before is not None:
            for kind in more:
                difference = ours[kind] - before["ours"][kind]
                more[kind] = f"{difference / (size - before['size']) - own[kind]:.2f}"
        job = sum(ours["stages"]["worker"].values()) / size + ours["stages"]["main"]["recording"] / size
        overhead.append(
            [
                str(size),
                f"{ours['cpu_seconds'] / size - own['cpu_seconds']:.2f}",
                *more.values(),
                f"{job - own['wall_seconds']:.2f}",
                f"{own['cpu_seconds']:.3f}",
                f"{own['wall_seconds']:.3f}",
            ]
        )
        before = each
    return [sides, overhead, *_stages(runs), *_stub_rows(found["stub"])]


def _usage(usage: dict[str, Any] | None, size: int) -> list[str]:
    if usage is None:
        return ["not run"] * 3
    return [f"{usage['wall_seconds']:.1f}", f"{usage['cpu_seconds']:.1f}", f"{60 * size / usage['wall_seconds']:.1f}"]


def _ratio(each: dict[str, Any]) -> str:
    peers = [each[side]["wall_seconds"] for side in ("plain", "ordinary") if each.get(side)]
    return " and ".join(f"{seconds / each['ours']['wall_seconds']:.1f}" for seconds in peers) or "–"


def _memory(usage: dict[str, Any] | None) -> list[str]:
    if usage is None:
        return ["", ""]
    return [f"{usage['peak_bytes'] / 2**30:.2f}", f"{usage['worker_bytes'] / 2**30:.2f}" if "stages" in usage else ""]


def _marks(each: dict[str, Any], side: str) -> str:
    if side == "plain":
        stopped = (each["plain"] or {}).get("cells_stopped", 0)
        return f"{stopped} cells stopped after 30 s" if stopped else ""
    if side == "ordinary":
        return "the same exercises" if each["ordinary"]["same_exercises"] else "OTHER EXERCISES"
    if each["marks"] is None:
        return "–"
    if each["marks"]["different"]:
        return f"{len(each['marks']['different'])} differ"
    return "equal" if each["marks"]["export_identical"] else "cells equal, export not"


def _stages(runs: list[dict[str, Any]]) -> list[Rows]:
    names = {
        process: dict.fromkeys(name for each in runs for name in each["ours"]["stages"][process])
        for process in ("main", "worker")
    }
    rows = Rows(
        "Seconds of each stage of ours; those of all workers added up",
        ["submissions", *(str(n["size"]) for n in runs)],
    )
    for process in names:
        for name in names[process]:
            rows.append(
                [f"{process}: {name}", *(f"{each['ours']['stages'][process].get(name, 0.0):.2f}" for each in runs)]
            )
    return [rows]


def _stub_rows(stubs: list[dict[str, Any]]) -> list[Rows]:
    rows = Rows(
        "Ours with grading replaced by a stub: what reading and recording take",
        ["submissions", "seconds", "CPU seconds", "ms recording each", "GiB"],
    )
    for each in stubs:
        usage, size = each["ours"], each["size"]
        recording = 1000 * usage["stages"]["main"]["recording"] / size
        rows.append([str(size), *_usage(usage, size)[:2], f"{recording:.1f}", f"{usage['peak_bytes'] / 2**30:.2f}"])
    return [rows] if stubs else []


def page_of(found: dict[str, Any]) -> str:
    """Return the tables of a record in Markdown, with the machine on which it was measured."""
    machine, runs = found["machine"], found["runs"]
    names = ("nbgrader", "ipykernel", "torch", "python")
    text = [
        f"Measured on {machine['date']} on {machine['cores']} cores ({machine['processor']}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; load {machine['load'][0]} at the start), with "
        + ", ".join(f"{name} {machine[name]}" for name in names)
        + f"; one run, seed {found['seed']}"
        + (f", options `{found['options']}`" if found["options"] else "")
        + ("; CPU seconds are of the whole machine" if runs[0]["ours"]["cpu_of"] != "the command" else "")
        + "."
    ]
    for table in tables(found):
        lines = [table[0], ["---", *["--:"] * (len(table[0]) - 1)], *table[1:]]
        text.append(f"**{table.title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(text)


@app.command()
def publish(
    record: Annotated[Path, typer.Argument(help="A record that `run` wrote.")] = ROOT / "_build" / "grading.json",
) -> None:
    """Put a record into book/records/, and its tables into book/instructors.md."""
    text, found = PAGE.read_text(encoding="utf-8"), json.loads(record.read_text(encoding="utf-8"))
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE} needs a line {BEGIN!r} and, below it, {END!r}")
    write_atomically(PAGE, f"{head}{BEGIN}\n\n{page_of(found)}\n\n{END}{tail}")
    _write(RECORD, found)


if __name__ == "__main__":
    app()

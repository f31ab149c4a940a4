"""Execute one submission: the student's cells in the sandbox, the tests here. A function of its arguments alone."""

import contextlib
import io
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_locked, is_solution

from autograder.boundary.kernel import Kernel, KernelLost
from autograder.boundary.proxy import Function, GraderFault
from autograder.boundary.sandbox import Limits

MAX_SECONDS = 300.0  # for a whole submission; the answers take 3
MAX_KERNELS = 25  # fresh kernels for one submission; each lost one costs the cell or test that lost it


class GraderError(RuntimeError):
    """Something failed on our side, so that no mark can be given."""


@dataclass
class CheckResult:
    """What a test cell gave."""

    name: str  # the grade id of the cell
    points: float
    passed: bool
    mistake: str | None = None  # "M6", "M3+M4", or None where the mistake is not in the catalogue
    message: str = ""


@dataclass
class Execution:
    """A submission that was executed."""

    notebook: NotebookNode
    state: str  # "graded", "crashed" or "timed out"
    why: str = ""
    checks: list[CheckResult] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the execution as plain values."""
        return asdict(self) | {"notebook": nbformat.writes(self.notebook)}


class _Student:
    """The student's side: a kernel, and what to run in a fresh one when it was lost."""

    def __init__(self, limits: Limits, sandboxed: bool) -> None:
        self.limits, self.sandboxed = limits, sandboxed
        self.kernel: Kernel | None = None
        self.ran: list[str] = []  # the cells that ran and did not lose the kernel
        self.kernels = 0
        self.deadline = time.monotonic() + MAX_SECONDS
        self.lost: list[KernelLost] = []
        self.losses: Counter[str] = Counter()  # by the function that was called; from the third on it gets less time

    def ready(self) -> Kernel:
        """Return the kernel; a fresh one, in which the earlier cells ran, if the last was lost."""
        if time.monotonic() > self.deadline and self.kernel is not None:
            self.kernel.close()
            self.kernel = None
        while self.kernel is None:
            if self.kernels == MAX_KERNELS or time.monotonic() > self.deadline:
                raise KernelLost(
                    "timed out", f"The notebook used up its {MAX_SECONDS:.0f} s or its {MAX_KERNELS} fresh kernels."
                )
            self.kernels += 1
            kernel = Kernel(self.limits, self.sandboxed)
            for source in list(self.ran):
                try:
                    kernel.run_cell(source, self.left())
                except KernelLost:  # it went well before; leave it out and start over
                    self.ran.remove(source)
                    break
            else:
                self.kernel = kernel
        return self.kernel

    def run(self, source: str) -> list[NotebookNode]:
        try:
            outputs = self.ready().run_cell(source, self.left())
        except KernelLost as lost:
            self.note(lost)
            return [nbformat.v4.new_output("error", ename="KernelLost", evalue=str(lost), traceback=[str(lost)])]
        self.ran.append(source)
        return outputs

    def call(self, request: dict[str, Any], correct: dict[str, Callable[..., Any]]) -> dict[str, Any]:
        name = str(request.get("target"))
        seconds = self.limits.call_seconds / (1 if self.losses[name] < 2 else 4)
        try:
            return self.ready().call(request, correct, min(seconds, self.left()))
        except KernelLost as lost:
            self.losses[name] += 1
            self.note(lost)
            raise

    def left(self) -> float:
        """Return the seconds that the submission has left, at least one."""
        return max(1.0, self.deadline - time.monotonic())

    def note(self, lost: KernelLost) -> None:
        self.kernel = None
        self.lost.append(lost)

    def close(self) -> None:
        if self.kernel is not None:
            self.kernel.close()


def execute(notebook: NotebookNode, seed: int, limits: Limits = Limits(), sandboxed: bool = True) -> Execution:
    """Execute a mended notebook and judge it.

    Args:
        notebook: Student's code in the cells that are theirs; in the locked cells the instructor's, hidden tests included.
        seed: From which the hidden checks draw their inputs.
        limits: What the student's code may use.
        sandboxed: False only where the instructor asked for it.

    Returns:
        The notebook with outputs, the state, and what each test cell gave.

    Raises:
        GraderError: a test failed in a way that no student's function can cause.
        SandboxError: no kernel could be started.
    """
    os.environ["AUTOGRADER_SEED"] = str(seed)
    notebook = nbformat.from_dict(notebook)
    student = _Student(limits, sandboxed)
    namespace: dict[str, Any] = {"__name__": "tests"}
    checks: list[CheckResult] = []
    try:
        for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
            cell.execution_count = count
            if not is_locked(cell):
                cell.outputs = student.run(cell.source)
            elif cell.metadata.nbgrader.grade_id == "setup":
                student.run(cell.source)
                cell.outputs = _run_test(cell, namespace, student)[0]
            else:
                cell.outputs, error = _run_test(cell, namespace, student)
                if is_grade(cell) and not is_solution(cell):
                    checks.append(_check_result(cell, error))
    finally:
        student.close()
    state = "graded"
    if student.lost:
        state = "timed out" if any(lost.state == "timed out" for lost in student.lost) else "crashed"
    return Execution(notebook, state, "; ".join(dict.fromkeys(str(lost) for lost in student.lost)), checks)


def _run_test(
    cell: NotebookNode, namespace: dict[str, Any], student: _Student
) -> tuple[list[NotebookNode], BaseException | None]:
    """Run a locked cell in this process, where names that it does not know are functions of the student's."""
    code = compile(cell.source, cell.metadata.nbgrader.grade_id, "exec")
    builtin = vars(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
    for name in code.co_names:
        if name not in namespace and name not in builtin:
            namespace[name] = Function(name, student.call)
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except (AssertionError, KernelLost) as caught:
        error = caught
    except (Exception, GraderFault) as caught:
        raise GraderError(f"{cell.metadata.nbgrader.grade_id}: {type(caught).__name__}: {caught}") from caught
    outputs = []
    if printed.getvalue():
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=printed.getvalue()))
    if error is not None:
        name = type(error).__name__
        outputs.append(nbformat.v4.new_output("error", ename=name, evalue=str(error), traceback=[f"{name}: {error}"]))
    return outputs, error


def _check_result(cell: NotebookNode, error: BaseException | None) -> CheckResult:
    info = cell.metadata.nbgrader
    return CheckResult(
        info.grade_id,
        float(info.points),
        error is None,
        getattr(error, "mistake", None),
        "" if error is None else str(error),
    )

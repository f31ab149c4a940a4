"""Execute one submission: the student's cells in the sandbox, the tests here. A function of its arguments alone."""

import builtins
import contextlib
import io
import math
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import nbformat
from nbformat import NotebookNode

from autograder.cells import files_of, is_grade, is_locked, is_solution, is_students, points_of
from autograder.files import writable
from autograder.grade.apart import Judge
from autograder.grade.newer_python import OUR_PYTHON, newer_python
from autograder.grade.rest_of_cell import rest_after_error
from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import seeded
from autograder.sandbox.host.bubblewrap import Limits
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.proxy import Function, GraderFault

T = TypeVar("T")
PACKAGE = Path(__file__).resolve().parent.parent
MAX_TEXT, MAX_CODE = 10_000, 50_000  # characters of a cell that pages show: a page takes seconds for longer ones
MAX_OWN_CELLS = 500  # of the student's own, that pages show
MAX_LEFT_OUT = 50  # statements that fail, after each of which the rest of their cell runs
MAX_NAMES = 1000  # that cells which failed would have defined, of which is said why they are missing
# How Python, PyTorch and its libraries say that a process may have no more memory or threads.
EXHAUSTED = re.compile(
    "MemoryError|[Cc]an(no|')t allocate memory|could not create a primitive|start new thread|out of memory"
)
MAX_WALL = 2  # times as long as a submission may take, it may stay, its waiting on a busy machine included
REACHES = "The notebook reaches for the part of the grader that runs beside it"
CUT = "[Cut here. The whole is in the file that was handed in.]"


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
    files: dict[str, str] = field(default_factory=dict)  # what came of each file beside the notebook
    questions: list[str] = field(default_factory=list)  # what only a person can decide, in words
    receipt: list[str] = field(default_factory=list)  # what was left out so that the rest could run
    seconds: float = 0.0  # that it took of its time

    @property
    def points(self) -> float:
        """The points of the tests that passed."""
        return sum(check.points for check in self.checks if check.passed)


@dataclass(frozen=True)
class _Cell:
    """A cell that runs in the sandbox."""

    source: str
    own: bool = False  # whether the student's own
    released: bool = False  # whether nothing in it is the student's
    answers: bool = False  # whether it is an answer, or what answers were given
    plain: bool = False  # whether Python and nothing of IPython's
    once: bool = False  # whether nothing is left of it that a fresh kernel would need

    def run(self, kernel: Kernel, seconds: float) -> list[NotebookNode]:
        """Run it, and return its outputs; those of a plain one are dropped."""
        if self.plain:
            kernel.run_plain(self.source, seconds)
            return []
        return kernel.run_cell(self.source, seconds, answers=self.answers, forgotten=self.once)


class _Session:
    """The student's side: a kernel, what to run in a fresh one when it was lost, and the time that is left."""

    def __init__(self, limits: Limits, sandboxed: bool) -> None:
        self.limits, self.sandboxed = limits, sandboxed
        self.kernel: Kernel | None = None
        self.ran: list[_Cell] = []  # the cells that did not lose the kernel
        self.met: list[_Cell] = []  # all cells so far
        self.kernels = self.own_kernels = 0  # that were started; that cells of the student's own lost
        self.begun, self.begun_here = time.monotonic(), time.thread_time()
        self.ends = self.begun + MAX_WALL * limits.total_seconds
        self.spent_before = 0.0  # seconds that requests to kernels took which are gone
        self.own_seconds = limits.total_seconds / 3  # that cells of the student's own may still take
        self.test_seconds, self.calls = 0.0, 0  # that calls of the present test may still take; how many there were
        self.lost: list[KernelLost] = []
        self.losses: Counter[str] = Counter()  # by the function that was called; one name for all cells of the notebook
        self.newer: list[str] = []  # a question about each cell that only a newer Python reads
        self.failed: dict[str, str] = {}  # by each name that is defined in a cell that failed: the cell's error
        self.reached: list[str] = []  # in words, on which way code reached for the grader's agent beside it
        self.left_out: list[str] = []  # statements that failed, and were left out so that the rest of their cell ran

    def ready(self) -> Kernel:
        """Return the kernel; a fresh one, in which the earlier cells ran, if the last was lost."""
        self._refuse_if(self.is_late())
        while self.kernel is None or self.kernel.closed:
            self._refuse_if(self.kernels == self.limits.kernels)
            self.kernels += 1
            self.spent_before += 0.0 if self.kernel is None else self.kernel.spent
            self.kernel = Kernel(self.limits, self.sandboxed, self.ends, self.reached)
            for cell in list(self.ran):
                self._refuse_if(self.is_late())
                try:
                    cell.run(self.kernel, self.left())
                except KernelLost:
                    # It went well before: start over without the student's own cells in front, or without it.
                    own = [] if cell.own else [each for each in self.ran[: self.ran.index(cell)] if each.own]
                    self.ran = [each for each in self.ran if each not in (own or [cell])]
                    break
        return self.kernel

    def _refuse_if(self, over: bool) -> None:
        """Close the kernel and raise a KernelLost where the submission has used up its time, or its kernels."""
        if over:
            self.close()
            raise KernelLost(
                "timed out",
                f"The notebook used up its {self.limits.total_seconds:.0f} s or its {self.limits.kernels} fresh kernels.",
            )

    def run(self, cell: _Cell) -> list[NotebookNode]:
        """Run a cell, and return its outputs; remember with which error it ended."""
        self.met.append(cell)
        outputs = self._run(cell)
        said = [f"{output.ename}: {output.evalue[:300]}" for output in outputs if output.output_type == "error"]
        newer = newer_python(cell.source) if said and said[-1].startswith("SyntaxError:") else None
        if newer:
            told = f"Your Python is newer than the grader's {OUR_PYTHON}: {newer}"
            said[-1] = f"{said[-1]}. {told}"
            outputs.append(nbformat.v4.new_output("stream", name="stderr", text=f"{told}\n"))
            names = ", ".join(sorted(_defined_in(cell.source))[:5])
            self.newer.append(f"A cell{names and f' that defines {names}'} needs a newer Python. {newer}. Is it right?")
        for name in _defined_in(cell.source):
            self.failed.pop(name, None)
            if said and len(self.failed) < MAX_NAMES:
                self.failed[name] = said[-1]
        rest = None if cell.released else rest_after_error(cell.source, outputs)  # a released one fails at an answer
        if rest and len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append(rest.said)
            outputs += self.run(replace(cell, source=rest.source))
        return outputs

    def show(self, source: str) -> list[NotebookNode]:
        """Run a visible test beside the student's code, as in the notebook; return its outputs, and forget it."""
        return self._run(_Cell(source, once=True))

    def _run(self, cell: _Cell) -> list[NotebookNode]:
        """Run a cell; one of the student's own only while the exercises have time enough."""
        begun, own = self.spent(), cell.own
        try:
            if own and (self.own_seconds <= 0 or self.own_kernels > self.limits.kernels / 5):
                raise KernelLost("timed out", "The notebook's own cells used up their time; the others were not run.")
            most = 3 * self.limits.call_seconds if cell.once else math.inf
            seconds = max(1.0, self.own_seconds) if own else self.patience(most)
            run = lambda: cell.run(self.ready(), min(self.left(), seconds))
            outputs = self.attempt(run, again=not own and not cell.once)
        except KernelLost as lost:
            self.lost.append(lost)
            self.own_kernels += own
            self.losses["cells"] += not own
            return [nbformat.v4.new_output("error", ename="KernelLost", evalue=str(lost), traceback=[str(lost)])]
        finally:
            self.own_seconds -= own * (self.spent() - begun)
        if not cell.once:
            self.ran.append(cell)
        return outputs

    def patience(self, seconds: float) -> float:
        """Return how long a call or a cell may take: less from the third loss on, for one that waits for ever is many.

        It is enough for a call that ends its process on a busy machine.
        """
        return seconds if self.losses.total() < 2 else min(seconds, max(3.0, self.limits.call_seconds / 4))

    def begin_test(self, calls: int = 0) -> None:
        """Give the calls of a test their time together; so many of them were made before."""
        self.test_seconds, self.calls = 3 * self.limits.call_seconds, calls

    def call(self, request: dict[str, Any], correct: dict[str, Callable[..., Any]]) -> dict[str, Any]:
        """Have a function called, within the time of a call and of the test.

        What it draws at random, as dropout does, depends on nothing but which call of the test it is, or what the
        request says.
        """
        name = str(request.get("target", request.get("function")))
        self.calls += 1
        seconds = self.patience(self.limits.call_seconds)

        def call() -> dict[str, Any]:
            late = KernelLost("timed out", f"A test was not done after {3 * self.limits.call_seconds:.0f} s.")
            if self.test_seconds <= 0:
                self.close()
                raise late
            kernel = self.ready()  # its start is not the test's time
            before, most, of_test = kernel.spent, min(seconds, self.left()), max(1.0, self.test_seconds)
            try:
                reply = kernel.call({"draw": self.calls} | request, correct, min(most, of_test))
            except KernelLost as lost:
                raise (late if lost.state == "timed out" and of_test < most else lost) from None
            finally:
                self.test_seconds -= kernel.spent - before
            if self.ran_own_cells and _was_short_of_memory(reply):
                self.close()
                raise KernelLost("crashed", "After the notebook's own cells had run, a call had no memory.")
            return reply

        try:
            return self._explained(self.attempt(call, again=not self.losses[name]))
        except KernelLost as lost:
            self.losses[name] += 1
            self.lost.append(lost)
            raise

    def _explained(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Quote the error of the cell that should have defined a name, where a reply says that the name is not defined."""
        text = str(reply.get("text", ""))[:2000]  # whatever length the student's side gave it
        name = re.search(r"\b(\w+)'? is not defined", text) if "error" in reply else None
        said = self.failed.get(name[1]) if name else None
        if not said:
            return reply
        return reply | {"text": f"{text.partition(';')[0]}, because the cell that defines it ended with {said}"}

    def attempt(self, action: Callable[[], T], again: bool) -> T:
        """Do something in the kernel; if that is lost, once more in one without the student's own cells.

        For it may be lost by what they left behind: a thread, a process, a hook. If it is not to blame, they stay out;
        unless they define a name that it needs, for others may need them too.
        """
        try:
            return action()
        except KernelLost as lost:
            released = [cell for cell in self.ran if not cell.own]
            if not again or released == self.ran:
                raise
            self.lost.append(lost)
        ran, self.ran = self.ran, released
        self.begin_test(self.calls)  # what others used up of its time is not the answer's
        try:
            found = action()
        except KernelLost:
            self.ran = ran
            raise
        if not _lacks_a_name(found):
            return found
        self.close()
        self.ran = ran
        raise self.lost.pop()

    @property
    def ran_own_cells(self) -> bool:
        """Whether cells of the student's own ran in the kernel."""
        return any(cell.own for cell in self.ran)

    def left(self) -> float:
        """Return the seconds that the submission has left, at least one."""
        return max(1.0, self.limits.total_seconds - self.spent())

    def spent(self) -> float:
        """Return the seconds that the submission took: of its kernels, and of this process for its tests.

        What both wait for a processor does not count: others would use up its time, as by programs that never end.
        """
        kernels = self.spent_before + (0.0 if self.kernel is None else self.kernel.spent)
        return min(kernels + time.thread_time() - self.begun_here, time.monotonic() - self.begun)

    def is_late(self) -> bool:
        """Whether the submission has used up its time."""
        return self.spent() > self.limits.total_seconds or time.monotonic() > self.ends

    def close(self) -> None:
        """End the kernel."""
        if self.kernel is not None and not self.kernel.closed:
            self.kernel.close()


def execute(
    notebook: NotebookNode,
    seed: int,
    limits: Limits = Limits(),
    sandboxed: bool = True,
    files: dict[str, bytes | str] | None = None,
    held_out: Any = None,
) -> Execution:
    """Execute a mended notebook and judge it, and the files that were handed in beside it.

    Args:
        notebook: Student's code in the cells that are theirs; in the locked cells the instructor's, hidden tests included.
        seed: From which the hidden checks draw their inputs.
        limits: What the student's code may use.
        sandboxed: False only where the instructor asked for it.
        files: By the name that was asked for the bytes, or why they could not be taken.
        held_out: The images that a file of weights is shown, a `checkpoint.HeldOut`; by default those of this machine.

    Returns:
        The notebook with outputs, the state, and what each test cell gave.

    Raises:
        GraderError: a test failed in a way that no student's function can cause.
        SandboxError: no kernel could be started.
    """
    notebook = nbformat.from_dict(notebook)
    verdicts: dict[str, Any] = {}
    student = _Session(limits, sandboxed)
    judge = Judge(student, _run_test)
    checks: list[CheckResult] = []
    try:
        with contextlib.ExitStack() as judging:
            judging.enter_context(seeded(seed))
            for name, stem in files_of(notebook.cells).items():  # before any code of the student's runs
                checkpoint = checks_of(stem, "checkpoint")  # by name: other assignments' marks do not depend on it
                held_out = held_out or checkpoint.held_out()
                verdicts[name] = checkpoint.judge(name, (files or {}).get(name), held_out, limits, sandboxed)
                judging.enter_context(checkpoint.judging(verdicts))
            for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
                cell.execution_count = count
                if not is_locked(cell) or cell.metadata.get("given"):  # code that answers and tests of classes build on
                    answers = is_solution(cell) or bool(cell.metadata.get("given"))
                    released = not is_students(cell)
                    cell.outputs = student.run(_Cell(cell.source, _is_own(cell), released, answers))
                elif cell.metadata.nbgrader.grade_id == "setup":
                    student.run(_Cell(cell.source, plain=True))
                    cell.outputs = judge.set_up(cell)
                elif is_grade(cell):
                    cell.outputs, error = judge.test(cell)
                    checks += [] if is_solution(cell) else [_check_result(cell, error)]
                else:  # a visible test: it gives no mark, and may pass what cannot cross, as a model of ours
                    try:
                        cell.outputs, error = judge.test(cell)
                    except GraderError as fault:
                        error = fault
                    if type(error) in (AssertionError, GraderError):  # neither a WrongAnswer nor a lost kernel
                        cell.outputs = student.show(cell.source)
    finally:
        judge.close()
    _shorten(notebook, limits)
    _assert_outputs_say(notebook, checks)
    state = "graded"
    if student.lost:
        state = "timed out" if any(lost.state == "timed out" for lost in student.lost) else "crashed"
    why = "; ".join(dict.fromkeys([*map(str, student.lost), *judge.blamed]))
    about_files = {name: str(verdict) for name, verdict in verdicts.items()}
    left_out = list(dict.fromkeys(student.left_out))
    questions = [verdict.question for verdict in verdicts.values() if verdict.question]
    if student.reached:
        ways = "; ".join(student.reached)
        questions.append(f"{REACHES} ({writable(ways)[:1000]}). Look at it before the points count.")
    questions += student.newer if not all(check.passed for check in checks) else []
    return Execution(notebook, state, why, checks, about_files, questions, left_out, student.spent())


def _run_test(
    cell: NotebookNode, namespace: dict[str, Any], student: _Session
) -> tuple[list[NotebookNode], BaseException | None]:
    """Run a locked cell in this process, where names that it does not know are functions of the student's."""
    code = _compiled(cell.source, cell.metadata.nbgrader.grade_id)
    for name in code.co_names:
        if name not in namespace and name not in vars(builtins):
            namespace[name] = Function(name, student.call)
    printed, error, after_own_cells = io.StringIO(), None, student.ran_own_cells
    student.begin_test()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except (AssertionError, KernelLost) as caught:
        error = caught
    except (Exception, GraderFault) as caught:
        if not (student.calls and _is_of_the_student(caught)):
            raise GraderError(f"{cell.metadata.nbgrader.grade_id}: {type(caught).__name__}: {caught}") from caught
        error = AssertionError(f"{type(caught).__name__}: {caught}")
    if error is not None and after_own_cells and not student.ran_own_cells:
        return _run_test(cell, namespace, student)  # they lost the kernel, and with it the test's modules
    outputs, said = [], _said_by(error)
    if printed.getvalue():
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=writable(printed.getvalue())))
    if error is not None:
        name = type(error).__name__
        outputs.append(nbformat.v4.new_output("error", ename=name, evalue=said, traceback=[f"{name}: {said}"]))
    return outputs, error


@cache
def _compiled(source: str, name: str) -> CodeType:
    """Return the code of a locked cell, which is the same for every student."""
    return compile(source, name, "exec")


def _is_of_the_student(error: BaseException) -> bool:
    """Whether an error that ended a test comes of what the student's function raised or returned, and not from our code.

    A test may be a plain assert. The answers passed it before, so what fails at a value of the student's is their value.
    """
    if isinstance(error, (GraderFault, MemoryError, OSError, ImportError)):
        return False
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[1:]]
    return not any(file.is_relative_to(PACKAGE) and not file.is_relative_to(PACKAGE / "sandbox") for file in files)


def _shorten(notebook: NotebookNode, limits: Limits) -> None:
    """Cut what would make a page of many megabytes, or one over which a reader of Markdown takes hours."""
    room, own, shown = limits.total_output_bytes, 0, []
    for cell in notebook.cells:
        most = MAX_CODE if cell.cell_type == "code" else MAX_TEXT
        if not is_locked(cell) and len(cell.source) > most:
            cell.source = f"{cell.source[:most]}\n# {CUT}"
        if _is_own(cell):
            own += 1
            room -= len(cell.source)
            if own > MAX_OWN_CELLS or room < 0:
                continue
        if cell.get("outputs"):
            room -= len(str(cell.outputs))
            if room < 0:
                # The gradebook gives a test without an error its points: errors of tests stay.
                errors = [output for output in cell.outputs if is_locked(cell) and output.output_type == "error"]
                cell.outputs = errors or [nbformat.v4.new_output("stream", name="stdout", text=CUT)]
        shown.append(cell)
    notebook.cells = shown


def _assert_outputs_say(notebook: NotebookNode, checks: list[CheckResult]) -> None:
    """Raise a GraderError unless the notebook has an error where a test failed, and nowhere else: nbgrader marks by that."""
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if is_locked(cell)}
    for check in checks:
        said = any(output.output_type == "error" for output in cells[check.name].outputs)
        if said == check.passed:
            raise GraderError(f"{check.name}: the outputs would give another mark than the test")


def _defined_in(source: str) -> set[str]:
    """Return the names that a cell may define: words of the lines that define, import or assign at the outermost level."""
    lines = re.findall(r"^(?:(?:async )?def|class) +(\w+)|^(?:import|from) (.+)|^(\w+) *=[^=]", source, re.M)
    return {word for groups in lines for group in groups for word in re.findall(r"\w+", group)}


def _was_short_of_memory(reply: dict[str, Any]) -> bool:
    """Whether a reply says that memory or threads ran out; what it holds is whatever the student's code sent."""
    return "error" in reply and bool(EXHAUSTED.search(f"{reply['error']} {reply.get('text')}"))


def _lacks_a_name(found: dict[str, Any] | list[NotebookNode]) -> bool:
    """Whether a reply, or the outputs of a cell, say that a name is not defined."""
    errors = found.get("error") if isinstance(found, dict) else [output.get("ename") for output in found]
    return "NameError" in str(errors)


def _is_own(cell: NotebookNode) -> bool:
    """Whether the student added the cell to the released ones."""
    return bool(cell.metadata.get("own"))


def _check_result(cell: NotebookNode, error: BaseException | None) -> CheckResult:
    info = cell.metadata.nbgrader
    return CheckResult(
        info.grade_id,
        points_of(cell),
        error is None,
        getattr(error, "mistake", None),
        "" if error is None else _said_by(error),
    )


def _said_by(error: BaseException) -> str:
    """Return what a test's error says; of the kinds of a million values that a student's function returned, the first."""
    text = str(error)
    return writable(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[Cut here.]")

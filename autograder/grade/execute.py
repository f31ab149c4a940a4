"""Execute one submission: the student's cells in the sandbox, the tests here. The result depends on the arguments alone."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.cells import files_of, grade_id, is_grade, is_locked, is_solution, is_students, is_test, points_of
from autograder.grade.run_tests import GraderError, Runner, message_of
from autograder.grade.session import Cell, Session
from autograder.judge.catalogue import checks_of
from autograder.judge.exercise import seeded
from autograder.recognition import answers_in
from autograder.sandbox.host.limits import Limits

MAX_TEXT, MAX_CODE = 10_000, 50_000  # characters of a cell that pages show: a page takes seconds for longer ones
MAX_OWN_CELLS = 500  # the student's own cells that pages show
CUT = "[Cut here. The whole is in the file that was submitted.]"


@dataclass
class CheckResult:
    """The result of a test cell."""

    name: str  # the grade id of the cell
    points: float
    passed: bool
    mistake: str | None = None  # "M6", "M3+M4", or None if the mistake is not in the catalogue
    message: str = ""


@dataclass
class Execution:
    """A submission that was executed."""

    notebook: NotebookNode
    state: str  # "graded", "crashed" or "timed out"
    why: str = ""
    checks: list[CheckResult] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # the verdict on each file next to the notebook
    questions: list[str] = field(default_factory=list)  # questions that only a person can decide
    receipt: list[str] = field(default_factory=list)  # what was left out so that the rest could run


def execute(
    notebook: NotebookNode,
    seed: int,
    limits: Limits = Limits(),
    sandboxed: bool = True,
    files: dict[str, bytes | str] | None = None,
    held_out: Any = None,
) -> Execution:
    """Execute a repaired notebook and judge it, and the files that were submitted next to it.

    Args:
        notebook: Its locked cells, with hidden tests, come from the instructor; all other cells come from the student.
        seed: The seed of the hidden checks' inputs.
        limits: What the student's code may use.
        sandboxed: False only if the instructor asked for it.
        files: The bytes of each requested file, by its name, or why they were not accepted.
        held_out: The images on which a file of weights is judged, a `checkpoint.HeldOut`; by default those of this machine.

    Returns:
        The notebook with outputs, the state, and the result of each test cell.

    Raises:
        GraderError: a test failed in a way that no student's function can cause.
        SandboxError: no kernel could be started.
    """
    notebook = nbformat.from_dict(notebook)
    verdicts: dict[str, Any] = {}
    student = Session(limits, sandboxed)
    runner = Runner(student, {grade_id(cell) for cell in notebook.cells if is_solution(cell)})
    checks: list[CheckResult] = []
    try:
        with contextlib.ExitStack() as judging:
            judging.enter_context(seeded(seed))
            for name, stem in files_of(notebook.cells).items():  # before any of the student's code runs
                checkpoint = checks_of(stem, "checkpoint")  # imported only for assignments with files
                held_out = held_out or checkpoint.held_out()
                verdicts[name] = checkpoint.judge(name, (files or {}).get(name), held_out, limits, sandboxed)
                judging.enter_context(checkpoint.judging(verdicts))
            _run_cells(notebook, student, runner)
            tests = [cell for cell in notebook.cells if is_test(cell)]
            for cell in filter(is_grade, tests):
                cell.outputs, error = runner.test(cell)
                checks.append(_check_result(cell, error))
            for cell in tests:  # after the hidden ones, which find nothing of them
                if not is_grade(cell):
                    cell.outputs = _outputs_of_visible(cell, student, runner)
    finally:
        runner.close()
    _shorten(notebook, limits)
    _check_outputs_match_results(notebook, checks)
    state = "graded"
    if student.lost:
        state = "timed out" if any(lost.state == "timed out" for lost in student.lost) else "crashed"
    why = "; ".join(dict.fromkeys([*map(str, student.lost), *runner.blamed]))
    about_files = {name: str(verdict) for name, verdict in verdicts.items()}
    left_out = list(dict.fromkeys(student.left_out))
    questions = [verdict.question for verdict in verdicts.values() if verdict.question]
    questions += student.questions if not all(check.passed for check in checks) else []
    questions += runner.questions.values()
    return Execution(notebook, state, why, checks, about_files, questions, left_out)


def _run_cells(notebook: NotebookNode, student: Session, runner: Runner) -> None:
    """Run all cells but the tests, in their order, and choose the definition of each answer that counts."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    defined, student.chosen = answers_in(cells)
    for index, cell in enumerate(cells):
        cell.execution_count = index + 1
        if is_test(cell):
            continue
        if "tests" in cell.metadata:
            runner.set_up(cell.metadata["tests"])
        # Given code is locked, but answers and the tests of classes use it, so it runs in the student's kernel.
        for_answers = is_solution(cell) or is_locked(cell)
        own = "own" in cell.metadata  # the student added it
        each = Cell(cell.source, own, not is_students(cell), for_answers, index, tuple(defined[index]))
        cell.outputs = student.run(each)


def _outputs_of_visible(cell: NotebookNode, student: Session, runner: Runner) -> list[NotebookNode]:
    """Run a visible test: it gives no points, and may use a value that cannot be sent, such as our model."""
    try:
        outputs, error = runner.test(cell)
    except GraderError as fault:
        error = fault
    if type(error) in (AssertionError, GraderError):  # neither a WrongAnswer nor a lost kernel
        return student.show(cell.source)
    return outputs


def _shorten(notebook: NotebookNode, limits: Limits) -> None:
    """Cut texts and outputs. Otherwise a page could have many megabytes, or a Markdown parser could need hours."""
    room, own, shown = limits.total_output_bytes, 0, []
    for cell in notebook.cells:
        most = MAX_CODE if cell.cell_type == "code" else MAX_TEXT
        if not is_locked(cell) and len(cell.source) > most:
            cell.source = f"{cell.source[:most]}\n# {CUT}"
        if "own" in cell.metadata:
            own += 1
            room -= len(cell.source)
            if own > MAX_OWN_CELLS or room < 0:
                continue
        if cell.get("outputs"):
            room -= len(str(cell.outputs))
            if room < 0:
                # Errors of tests stay, because the gradebook gives points to a test without an error.
                errors = [output for output in cell.outputs if is_locked(cell) and output.output_type == "error"]
                cell.outputs = errors or [nbformat.v4.new_output("stream", name="stdout", text=CUT)]
        shown.append(cell)
    notebook.cells = shown


def _check_outputs_match_results(notebook: NotebookNode, checks: list[CheckResult]) -> None:
    """Raise a GraderError unless the notebook has an error for exactly the failed tests: nbgrader grades by these errors."""
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if is_locked(cell)}
    for check in checks:
        has_error = any(output.output_type == "error" for output in cells[check.name].outputs)
        if has_error == check.passed:
            raise GraderError(f"{check.name}: the outputs would give other points than the test")


def _check_result(cell: NotebookNode, error: BaseException | None) -> CheckResult:
    info = cell.metadata.nbgrader
    return CheckResult(
        info.grade_id,
        points_of(cell),
        error is None,
        getattr(error, "mistake", None),
        "" if error is None else message_of(error),
    )

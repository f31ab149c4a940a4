"""Judge a failed test again without what the student's cells may have changed in Python or a library.

The notebook runs again in another kernel. There the student's own cells only define names, and answers do everything except
calls for an effect, such as `np.seterr(all="raise")`, and assignments to parts of something else, such as
`sys.stdout = None`. Students gain no advantage, because the same answers are judged.
"""

import ast
import builtins
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import nbformat
from attention_tests.compare import UNWRITTEN
from attention_tests.run import silent_tests_of
from nbformat import NotebookNode

from autograder.cells import is_grade
from autograder.grade.run_test import Tested, run_test
from autograder.grade.session import Cell, Session
from autograder.judge.mistake import compiled
from autograder.recognition import DEFINITIONS, parsed
from autograder.sandbox.host.answer import Answer

# Names that a student's own cell may overwrite by mistake; `_reserved` adds the names of the answers.
RESERVED = {*vars(builtins), "np", "torch", "F", "nn", "Tensor", "math", "os", "Iterable", "Batches"}
MAX_TRIALS = 4  # kernels that may be started to find the cell that is to blame


class Judge:
    """Runs the tests of a submission. A test that fails runs again without the effects of the student's own cells."""

    def __init__(self, student: Session) -> None:
        self.student = student  # the session in which the student's cells run
        self.namespace: dict[str, Any] = {"__name__": "tests"}
        self.clean_run: _CleanRun | None = None
        self.blamed: list[str] = []  # the message about the cell that made tests fail
        # Functions whose tests also fail without the student's own cells
        self.wrong_functions: set[tuple[str, ...]] = set()

    def set_up(self, stem: str) -> None:
        """Define what the tests of a notebook share, from the grader's own copy of the package."""
        run_tests, libraries = silent_tests_of(stem)
        self.namespace |= libraries | {"run_tests": run_tests}

    def test(self, cell: NotebookNode) -> Tested:
        """Run a test; return its outputs and its error. Only a lost point asks a person."""
        asked = len(self.student.questions)
        outputs, error = self._test(cell)
        if error is None or not is_grade(cell):
            del self.student.questions[asked:]
        else:
            unwritten = str(error).endswith(UNWRITTEN) and "bonus" not in cell.metadata
            for function in self._functions_in(cell):
                self.student.ask_about(function, unwritten=unwritten)
        return outputs, error

    def _functions_in(self, cell: NotebookNode) -> tuple[str, ...]:
        """Return the student's functions that a test names. A hidden test names our module of checks too."""
        words = compiled(cell.source, cell.metadata.nbgrader.grade_id).co_names
        return tuple(w for w in words if w.isidentifier() and isinstance(self.namespace.get(w), Answer))

    def _test(self, cell: NotebookNode) -> Tested:
        outputs, error = run_test(cell, self.namespace, self.student)
        failed = isinstance(error, AssertionError) and not str(error).endswith(UNWRITTEN)
        functions = self._functions_in(cell)
        if not failed or functions in self.wrong_functions or self.student.budget.is_late():
            return outputs, error
        reserved = _reserved(self.student.met)
        suspects = [each for each in self.student.ran if _without_effects(each, reserved) != each]
        if not suspects:
            return outputs, error
        if self.clean_run is None:
            self.clean_run = _CleanRun(self, [])
        clean_outputs, clean_error = self.clean_run.test(cell)
        if clean_error is not None:
            self.wrong_functions.add(functions)
            return outputs, error
        if not self.blamed:
            self.blamed.append(_message_about(_find_culprits(suspects, lambda some: self._passes_with(some, cell))))
        return [*clean_outputs, nbformat.v4.new_output("stream", name="stdout", text=self.blamed[0])], None

    def _passes_with(self, whole: list[Cell], cell: NotebookNode) -> bool:
        clean_run = _CleanRun(self, whole)
        try:
            return clean_run.test(cell)[1] is None
        finally:
            clean_run.session.close()

    def close(self) -> None:
        """End all kernels."""
        self.student.close()
        if self.clean_run is not None:
            self.clean_run.session.close()


class _CleanRun:
    """The notebook in another kernel. Of the student's cells, only those in `whole` run completely."""

    def __init__(self, judge: Judge, whole: list[Cell]) -> None:
        self.student, self.whole, self.done = judge.student, whole, 0
        limits = replace(self.student.limits, total_seconds=self.student.budget.left())
        self.session = Session(limits, self.student.sandboxed)
        self.session.budget.ends = self.student.budget.ends
        # without the student's functions, which are called in the other kernel
        self.namespace = {name: each for name, each in judge.namespace.items() if not isinstance(each, Answer)}

    def test(self, cell: NotebookNode) -> Tested:
        """Run a test after the cells that the student's kernel has met so far; return its outputs and its error."""
        self.catch_up()
        return run_test(cell, self.namespace, self.session)

    def catch_up(self) -> None:
        """Run the cells that the student's kernel has met since the last time."""
        if self.done == len(self.student.met):
            return
        reserved = _reserved(self.student.met)
        for each in self.student.met[self.done :]:
            if each not in self.whole:
                each = _without_effects(each, reserved)
            if each.source.strip():
                self.session.run(each)
        self.done = len(self.student.met)


def _reserved(cells: list[Cell]) -> set[str]:
    """Return the names that only answers, Python and libraries should have."""
    answers = (each.source for each in cells if each.answers)
    return RESERVED.union(*(re.findall(r"^(?:def|class) +(\w+)", source, re.M) for source in answers))


def _without_effects(cell: Cell, reserved: set[str]) -> Cell:
    """Return a cell without the statements that may change something outside it."""
    statements = [] if cell.released else _statements(cell.source)
    kept = [each for each in statements if (_defines(each, reserved) if cell.own else not _is_for_an_effect(each))]
    return cell if kept == statements else replace(cell, source="\n".join(map(ast.unparse, kept)))


def _is_for_an_effect(statement: ast.stmt) -> bool:
    """Whether a statement is a call, or changes a part of something."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    parts = any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in targets)
    return isinstance(statement, (ast.Expr, ast.Delete)) or parts


def _statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell without its lines for IPython and its texts; none if the cell is not Python."""
    tree = parsed(source)  # a line for IPython becomes a `pass`
    return [] if tree is None else [each for each in tree.body if not _does_nothing(each)]


def _does_nothing(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Pass)


def _defines(statement: ast.stmt, reserved: set[str]) -> bool:
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        calls = any(isinstance(part, ast.Call) for part in ast.walk(statement))
        return not calls and all(isinstance(each, ast.Name) and each.id not in reserved for each in targets)
    return isinstance(statement, DEFINITIONS)


def _find_culprits(suspects: list[Cell], passes_with: Callable[[list[Cell]], bool]) -> list[Cell]:
    """Return the cell that made a test fail, or a few cells that include it if the search takes too many kernels.

    Args:
        suspects: Cells in their order. The test fails if all of them have run completely.
        passes_with: Tells whether the test passes if only the given cells have run completely.
    """
    low, high = 0, len(suspects)
    for _ in range(MAX_TRIALS):
        if high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if passes_with(suspects[:middle]) else (low, middle)
    return suspects[low:high]


def _message_about(cells: list[Cell]) -> str:
    """Say which cell made tests fail, by its first line, which a student recognises."""
    lines = [next(line.strip()[:80] for line in cell.source.splitlines() if line.strip()) for cell in cells]
    which = (
        f"The cell that begins with `{lines[0]}`" if len(cells) == 1 else f"A cell from `{lines[0]}` to `{lines[-1]}`"
    )
    return f"{which} changed Python, a library, or a name that answers use. Answers that failed after it were judged without it."

"""Does the grader judge from outside, blame itself for its own errors, and give no points if it does not work?"""

import re
import sys
import types
from pathlib import Path
from typing import Any

import nbformat
import pytest
import sample_class
from conftest import ALL, EXERCISES, NAME, SEED, repaired, soon
from nbformat import NotebookNode
from nbgrader.utils import determine_grade
from sample_class import BONUS, fill_in, submit

from autograder.cells import is_grade
from autograder.course.course import Assignment, Course
from autograder.grade.execute import CUT, execute
from autograder.grade.grade import InstallationError, grade, load_assignment
from autograder.grade.run_tests import GraderError
from autograder.grade.session import Cell, Session
from autograder.grade.workers import Workers
from autograder.sandbox.host.kernel import KernelLost
from autograder.sandbox.host.limits import Limits


def part_of(assignment: Assignment, test: str = "softmax_values", own: str = "") -> NotebookNode:
    """Return a notebook with the set-up, perhaps an own cell, the answer softmax, and one of its tests."""
    cells = [cell for cell in assignment.instructor.cells if cell.id in ("setup", "softmax", test)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.from_dict(cell) for cell in cells])
    if own:
        notebook.cells.insert(1, nbformat.v4.new_code_cell(own, metadata={"own": True}))
    return notebook


def spoil_answers(assignment: Assignment) -> None:
    """Make an answer in solutions/ wrong."""
    sample_class.softmax_over_queries(assignment.instructor)


def spoil_release(assignment: Assignment) -> None:
    """Leave the answers in the released notebook."""
    assignment.release = fill_in(assignment.release, assignment.instructor)


def spoil_checks(assignment: Assignment) -> None:
    """Let a hidden test import a package that is not installed."""
    cell = next(cell for cell in assignment.instructor.cells if cell.id == "attention_axes")
    cell.source = cell.source.replace("autograder.checks.attention.exercises", "a_package_that_is_not_there")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_answers, r"The answers of 1_attention: graded.*\. attention_weights: .*M6 \(the softmax runs"),
        (spoil_release, r"The unsolved notebook of 1_attention: graded\. softmax_values: passed"),
        (
            spoil_checks,
            r"not graded\. .*attention_axes: ModuleNotFoundError: No module named 'a_package_that_is_not_there'",
        ),
    ],
)
@pytest.mark.few(1)
def test_grade_stops_when_the_installation_is_wrong(
    assignment: Assignment, perfect: NotebookNode, tmp_path: Path, two_workers: Workers, spoil: Any, words: str
) -> None:
    """Does the grader stop before it grades anybody, and say why, if answers fail or an unsolved notebook passes?"""
    submit(tmp_path, "ada", perfect)
    spoiled = Assignment(
        NAME, "attention", nbformat.from_dict(assignment.instructor), nbformat.from_dict(assignment.release)
    )
    spoil(spoiled)
    course = Course(tmp_path)
    with pytest.raises(InstallationError, match=f"(?s)Nothing was graded.*{words}"):
        grade(course, spoiled, seed=SEED, workers=two_workers)
    assert course.load_results(NAME) == []
    assert course.scores(assignment) == {}
    assert not (tmp_path / "autograded").exists()


def test_execute_blames_the_grader_for_its_own_errors(assignment: Assignment) -> None:
    """If a hidden test fails in a way that no student's function can cause, is this our error, without a lost point?"""
    notebook = part_of(assignment)
    notebook.cells[-1].source = "raise OSError('our disk is full')"
    with pytest.raises(GraderError, match="softmax_values: OSError: our disk is full"):
        execute(notebook, SEED)


@pytest.mark.parametrize(
    ("answer", "test", "words"),
    [
        ("raise KeyError('x')", "assert softmax(np.ones(3)).sum() == 1", "KeyError: .*in softmax, line 2"),
        ("return None", "assert softmax(np.ones(3)).sum() == 1", "AttributeError: 'NoneType' object has no attribute"),
        ("return 'a'", "np.testing.assert_allclose(softmax(np.ones(3)), 1 / 3)", "DTypePromotionError|TypeError"),
        ("return {1, 2}", "assert softmax(np.ones(3))[0] == 1", "TypeError: softmax returned a set"),
        ("return np.ones(3)", "assert softmax(np.ones(3)).sum() == 1", "^$"),
    ],
)
def test_execute_takes_a_plain_assert_as_a_test(assignment: Assignment, answer: str, test: str, words: str) -> None:
    """Does an instructor's plain test fail if a student's function raises, or returns a wrong kind of value?"""
    notebook = part_of(assignment)
    notebook.cells[1].source, notebook.cells[2].source = f"def softmax(scores, axis=-1):\n    {answer}", test
    done = execute(notebook, SEED)
    (check,) = done.checks
    assert (done.state, check.passed) == ("graded", False)
    assert re.search(words, check.message), check.message


NEWER = {(3, 11): 'f"{", ".join(map(str, scores.shape))}"', (3, 12): "t'{axis}'", (3, 13): "t'{axis}'"}


@pytest.mark.skipif(sys.version_info[:2] not in NEWER, reason="no Python is newer than this one")
@pytest.mark.parametrize("kind", ["newer", "newer, right all the same", "wrong"])
def test_execute_asks_about_code_of_a_newer_python(assignment: Assignment, kind: str) -> None:
    """If points are lost only because the grader's Python is older, is the student told, and is a person asked?"""
    newer = f"def softmax(scores, axis=-1):\n    print({NEWER[sys.version_info[:2]]})\n    return scores"
    for_nothing = kind == "newer, right all the same"
    notebook = part_of(assignment, own=newer.replace("softmax", "draft") if for_nothing else "")
    if not for_nothing:
        notebook.cells[1].source = newer if kind == "newer" else "def softmax(scores, axis=-1:\n    return scores"
    done = execute(notebook, SEED)
    (check,) = done.checks
    shown = "".join(output.get("text", "") for cell in done.notebook.cells for output in cell.get("outputs", []))
    assert check.passed == for_nothing
    assert ("Your Python is newer than the grader's" in shown) == (kind != "wrong")
    if kind == "newer":
        (question,) = done.questions
        assert "defines softmax" in question and "line 2" in question
        assert "Your Python is newer than the grader's" in check.message and "line 2: " in check.message
    else:
        assert done.questions == []


def test_execute_cuts_what_a_test_says(assignment: Assignment) -> None:
    """Is a test's message about many values cut, in the result and in the notebook?"""
    notebook = part_of(assignment)
    notebook.cells[1].source = "def softmax(scores, axis=-1):\n    return (0,) * 200_000"
    done = execute(notebook, SEED)
    (check,) = done.checks
    assert not check.passed
    assert "int, int, int" in check.message and check.message.endswith("[Cut here.]")
    assert len(nbformat.writes(done.notebook)) - len(notebook.cells[0].source) < 50_000


def with_softmax_alone(assignment: Assignment) -> NotebookNode:
    """Return the notebook with all tests, but only the first exercise answered."""
    notebook = nbformat.from_dict(assignment.instructor)
    for cell, blank in zip(notebook.cells, assignment.release.cells, strict=True):
        if cell.id in (*EXERCISES[1:], BONUS[NAME]):
            cell.source = blank.source
    return notebook


def test_loud_cells_of_ones_own_earn_nothing(assignment: Assignment) -> None:
    """In a notebook with cut outputs, does nbgrader read the right points of each test: none for a failed test?"""
    notebook = with_softmax_alone(assignment)
    notebook.cells.insert(1, nbformat.v4.new_code_cell("print('x' * 10_000)", metadata={"own": True}))
    done = execute(notebook, SEED, Limits(total_output_bytes=9_000))
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in done.notebook.cells if "nbgrader" in cell.metadata}
    given = {check.name: determine_grade(cells[check.name]) for check in done.checks}
    assert {name: score for name, (score, _) in given.items()} == {
        check.name: given[check.name][1] * check.passed for check in done.checks
    }
    assert {check.passed for check in done.checks} == {False, True}
    assert CUT in str(done.notebook.cells[1].outputs)


def test_outputs_that_would_give_other_points_give_none(
    assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the error of a failed test is lost, is the submission "not graded", instead of getting full points?"""

    def lose_errors(notebook: NotebookNode, limits: Limits) -> None:
        for cell in notebook.cells:
            cell.outputs = []

    monkeypatch.setattr("autograder.grade.execute._shorten", lose_errors)
    with pytest.raises(GraderError, match="attention_weights: the outputs would give other points than the test"):
        execute(with_softmax_alone(assignment), SEED)


def test_cells_of_ones_own_that_slow_every_call_cost_nothing(assignment: Assignment) -> None:
    """If only the sum of a test's calls is too slow, is the test repeated without own cells and with its full time?"""
    slow = (
        "import time\nmethods = np._core._methods\n\ndef largest(*arguments, own=methods.umr_maximum):\n"
        "    time.sleep(0.6)\n    return own(*arguments)\nmethods.umr_maximum = largest"  # not restored
    )
    done = execute(part_of(assignment, "softmax_axis", slow), SEED, Limits(call_seconds=1.0))
    assert [check.passed for check in done.checks] == [True], done.checks
    assert "A test was not done" in done.why


class SlowKernel:
    """A kernel on a busy machine: each cell computes for 15 s, and waits for 135 s."""

    now, ran, closed = 0.0, 0, False

    def __init__(self, *_: Any) -> None:
        self.spent = 0.0

    def run_cell(self, source: str, seconds: float, **options: bool) -> list[NotebookNode]:
        SlowKernel.now, SlowKernel.ran, self.spent = SlowKernel.now + 150, SlowKernel.ran + 1, self.spent + 15
        return []

    def close(self) -> None:
        self.closed = True


def test_time_in_line_is_not_a_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, does a submission keep its computing time, up to a limit that ends a fresh kernel's cells too?"""
    clock = types.SimpleNamespace(monotonic=lambda: SlowKernel.now, thread_time=lambda: SlowKernel.now / 100)
    monkeypatch.setattr("autograder.grade.budget.time", clock)
    monkeypatch.setattr("autograder.grade.session.Kernel", SlowKernel)
    student = Session(Limits(total_seconds=300.0), sandboxed=True)
    for number in range(4):
        student.run(Cell(f"{number}", own=True))
    assert student.lost == []
    assert (student.budget.left(), student.budget.own_seconds) == pytest.approx((300 - 60 - 6, 100 - 60 - 6))
    SlowKernel.now += 1.0  # the submission is now past its limit on the clock
    student.run(Cell("np.ones(3)", own=True))
    assert [lost.state for lost in student.lost] == ["timed out"]
    again = Session(Limits(total_seconds=300.0), sandboxed=True)
    again.ran = [Cell(f"{number}", own=True) for number in range(1900)]
    with pytest.raises(KernelLost, match="used up its 300 s"):
        again.ready()
    assert (SlowKernel.ran, again.kernel.closed) == (4 + 5, True)


@pytest.mark.parametrize("name", soon(ALL, "5_debugging"))
def test_page_of_the_answers_shows_no_error(name: str) -> None:
    """Do the visible tests pass in the executed notebook, also those that call a model's methods?"""
    assignment = load_assignment(name)
    done = execute(repaired(fill_in(assignment.release, assignment.instructor), assignment).notebook, SEED)
    said = [
        f"{cell.id}: {output.ename}: {output.evalue}"
        for cell in done.notebook.cells
        if cell.cell_type == "code" and not is_grade(cell)  # a test may fail: no file was submitted
        for output in cell.outputs
        if output.output_type == "error"
    ]
    assert said == [] and not done.why


def test_submission_that_takes_too_long_needs_a_look(
    assignment: Assignment, perfect: NotebookNode, tmp_path: Path
) -> None:
    """Is a person asked about a submission that the grader cannot finish, and are the others graded?"""
    course = Course(tmp_path)
    submit(tmp_path, "ada", perfect)
    grade(course, assignment, seed=1, workers=1)  # the proof takes longer than the time below
    perfect.cells.append(nbformat.v4.new_code_cell("import time\ntime.sleep(25)"))
    submit(tmp_path, "ben", perfect)
    with Workers(1, ["attention"], seconds=12.0) as workers:
        ada, ben = grade(course, assignment, workers=workers)
    assert (ada.state, ben.state) == ("graded", "needs a look")
    assert "not done with this submission after 12 s" in ben.questions[0]


def test_error_of_an_empty_cell_has_no_first_line() -> None:
    """Can a lost kernel be told of a cell that a student has emptied?"""
    assert Cell(" \n").first_line == ""

"""Does the grader judge from outside, blame itself for its own errors, and give no points if it does not work?"""

import re
import sys
import time
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
from autograder.grade.run_test import GraderError
from autograder.grade.session import MAX_NAMES, Cell, Session
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


@pytest.mark.parametrize(
    "error",
    ["MemoryError()", 'RuntimeError("could not create a primitive")', 'RuntimeError("can\'t start new thread")'],
)
def test_cells_of_ones_own_that_use_up_everything_cost_nothing(assignment: Assignment, error: str) -> None:
    """If a call finds no memory or threads, is it repeated without the leftovers of own cells?"""
    hungry = f"def largest(*_, **__):\n    raise {error}\nnp._core._methods.umr_maximum = largest"  # not restored
    done = execute(part_of(assignment, own=hungry), SEED)
    assert [check.passed for check in done.checks] == [True], done.checks
    assert (done.state, done.why.count("had no memory")) == ("crashed", 1)


def test_cells_of_ones_own_that_slow_every_call_cost_nothing(assignment: Assignment) -> None:
    """If only the sum of a test's calls is too slow, is the test repeated without own cells and with its full time?"""
    slow = (
        "import time\nmethods = np._core._methods\n\ndef largest(*arguments, own=methods.umr_maximum):\n"
        "    time.sleep(0.6)\n    return own(*arguments)\nmethods.umr_maximum = largest"  # not restored
    )
    done = execute(part_of(assignment, "softmax_axis", slow), SEED, Limits(call_seconds=1.0))
    assert [check.passed for check in done.checks] == [True], done.checks
    assert "A test was not done" in done.why


def test_names_that_are_missing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the grader remember a limited number of names of failed cells, and forget them once they are defined?"""
    outcomes = iter([[nbformat.v4.new_output("error", ename="E", evalue="e")], []])
    student = Session(Limits(), sandboxed=True)
    monkeypatch.setattr(student, "_run", lambda cell: next(outcomes))
    names = ", ".join(f"name{number}" for number in range(10 * MAX_NAMES))
    student.run(Cell(f"import {names}"))
    assert len(student.failed) == MAX_NAMES
    student.run(Cell(f"import {names}"))
    assert student.failed == {}


@pytest.mark.parametrize(
    ("found", "stay"),
    [
        ({"id": "1", "value": 3}, False),
        ({"id": "1", "error": ["KeyError"]}, False),
        ({"id": "1", "error": ["NameError", "Exception"]}, True),
        ([nbformat.v4.new_output("error", ename="NameError")], True),
        ([nbformat.v4.new_output("stream", text="NameError")], False),
    ],
)
def test_cells_of_ones_own_stay_where_they_define_what_is_needed(found: Any, stay: bool) -> None:
    """Are own cells left out if they make the kernel fail, but kept if a name would be missing without them?"""
    student, lost = Session(Limits(), sandboxed=True), KernelLost("timed out", "an endless loop")
    student.ran = both = [Cell("import numpy as np"), Cell("def helper(): ...", own=True)]
    outcomes = iter([lost, found])

    def action() -> Any:
        outcome = next(outcomes)
        if outcome is lost:
            raise lost
        return outcome

    if stay:
        with pytest.raises(KernelLost, match="an endless loop"):
            student.attempt(action, again=True)
        assert student.ran == both
    else:
        assert student.attempt(action, again=True) == found
        assert student.ran == both[:1]


def test_answer_that_goes_down_with_cells_of_ones_own_comes_back_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fresh kernel, is an answer kept if it crashes only after own cells, and left out if it crashes alone?"""

    class Fragile:
        """A kernel that crashes when it runs "falls", or when it runs "answer" after "threads"."""

        spent = 0.0

        def __init__(self, *_: Any) -> None:
            self.closed, self.done = False, []

        def run_cell(self, source: str, seconds: float, **options: bool) -> list[NotebookNode]:
            if source == "falls" or (source == "answer" and "threads" in self.done):
                self.closed = True
                raise KernelLost("crashed", "no threads are left")
            self.done.append(source)
            return []

    monkeypatch.setattr("autograder.grade.session.Kernel", Fragile)
    student = Session(Limits(), sandboxed=True)
    student.ran = [Cell("threads", own=True), Cell("answer"), Cell("falls"), Cell("harmless", own=True)]
    assert student.ready().done == ["answer", "harmless"]


def test_time_in_line_is_not_a_submissions_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, does a submission keep its computing time, also for own cells, up to a limit?"""
    clock = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now, thread_time=lambda: clock.now / 100)
    monkeypatch.setattr("autograder.grade.budget.time", clock)

    class Starved:
        """A kernel that computes for a tenth of the time, and waits for the rest."""

        closed, spent = False, 0.0

        def run_cell(self, source: str, seconds: float, **options: bool) -> list[NotebookNode]:
            clock.now += 150.0
            self.spent += 15.0
            return []

        def close(self) -> None:
            self.closed = True

    student = Session(Limits(total_seconds=300.0), sandboxed=True)
    student.kernel = student.budget.track(Starved())
    for _ in range(4):
        student.run(Cell("np.ones(3)", own=True))
    assert student.lost == []
    assert (student.budget.left(), student.budget.own_seconds) == pytest.approx((300 - 60 - 6, 100 - 60 - 6))
    clock.now += 1.0  # the submission is now past its limit on the clock
    student.run(Cell("np.ones(3)", own=True))
    assert [lost.state for lost in student.lost] == ["timed out"]


def test_end_of_a_submission_ends_what_a_fresh_kernel_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a fresh kernel repeats cells slowly, does the repetition end with the submission's total time?"""
    repeated: list[str] = []

    class Slow:
        """A kernel in which each cell takes a second."""

        def __init__(self, *_: Any) -> None:
            self.closed, self.spent = False, 0.0

        def run_cell(self, source: str, seconds: float, **options: bool) -> list[NotebookNode]:
            self.spent += 1.0
            repeated.append(source)
            return []

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr("autograder.grade.session.Kernel", Slow)
    clock = types.SimpleNamespace(monotonic=lambda: float(len(repeated)), thread_time=lambda: 0.0)
    monkeypatch.setattr("autograder.grade.budget.time", clock)
    student = Session(Limits(total_seconds=10.0), sandboxed=True)
    student.ran = [Cell(f"{number}", own=True) for number in range(1900)]
    with pytest.raises(KernelLost, match="used up its 10 s") as lost:
        student.ready()
    assert (lost.value.state, len(repeated), student.kernel.closed) == ("timed out", 11, True)


def test_end_of_a_tests_time_is_not_called_that_of_one_call() -> None:
    """Does the message say that all calls of a test took too long, if the last one had little time left?"""

    class Slow:
        closed, spent = False, 0.0

        def begin_test(self) -> None: ...

        def call(self, request: dict, correct: dict, seconds: float) -> dict:
            raise KernelLost("timed out", f"Not done after {seconds:.0f} s.")

    for left, said in ((0.5, "A test was not done after 30 s"), (20.0, "Not done after 10 s")):
        student = Session(Limits(call_seconds=10.0), sandboxed=True)
        student.kernel = student.budget.track(Slow())
        student.budget.test_seconds = left
        with pytest.raises(KernelLost, match=said):
            student.call({"do": "try", "function": "test_attention"}, None)


def test_long_text_of_an_error_is_looked_through_in_a_moment() -> None:
    """Is a text of a million letters, which a student may forge, searched in little time?"""
    student, begun = Session(Limits(), sandboxed=True), time.process_time()
    reply = {"error": ["NameError"], "text": "a" * 10**6}
    assert student._explained({"function": "softmax"}, reply) == reply
    assert time.process_time() - begun < 5


def test_messages_quote_the_cell_that_failed(assignment: Assignment, perfect: NotebookNode) -> None:
    """Does every message that a failed cell causes name the cell's error, for definitions and for imports?"""
    wanted = sample_class.answer(perfect, "softmax")
    wanted.source = "from nowhere import softmax"
    sample_class.change(perfect, "attention", "    scores = ", "    scores = missing\n    scores = ")
    perfect.cells.insert(2, nbformat.v4.new_code_cell("import nowhere as missing"))
    done = execute(repaired(perfect, assignment).notebook, SEED)
    checks = [check for check in done.checks if not check.name.startswith(BONUS[NAME])]
    failed = {check.name: check.message for check in checks if not check.passed}
    why = "because the cell that defines it ended with ModuleNotFoundError: No module named 'nowhere'"
    assert failed and all(why in message for message in failed.values()), failed
    assert {name.split("_")[0] for name in failed} >= {"softmax", "attention"}


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


def test_own_cell_that_ends_the_kernel_at_a_module_costs_no_test() -> None:
    """Is a test repeated without the student's own cell that ends the kernel in the middle of it?"""
    assignment = load_assignment("3_encoder")
    solved = fill_in(assignment.release, assignment.instructor)
    place = next(index for index, cell in enumerate(solved.cells) if cell.id == "LayerNorm")
    ends = "import os, torch\ntorch.nn.Module._compiled_call_impl = lambda *_, **__: os._exit(0)"  # not restored
    solved.cells.insert(place + 1, nbformat.v4.new_code_cell(ends))
    notebook = repaired(solved, assignment).notebook
    notebook.cells = [cell for cell in notebook.cells if cell.id.startswith(("setup", "cell-", "LayerNorm"))]
    done = execute(notebook, SEED)
    assert done.state == "crashed" and done.checks and all(check.passed for check in done.checks), done.checks

"""Do the checks of exercise 5 distinguish a fault from a repaired program, and a good test of attention from a poor one?"""

import contextlib
import inspect
import io
import random
import re
from collections.abc import Callable

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_tests import debugging as trial
from attention_tests.compare import WrongAnswer, judge
from conftest import assignment_of, lost, repaired, setup_of, soon
from in_kernel import REACH
from sample_class import answer, fill_in, rewrite

from autograder.checks.debugging import student_tests
from autograder.checks.debugging.exercises import EXERCISES, TEST_ATTENTION
from autograder.checks.multihead.right_attention import ATTEND
from autograder.course.course import Assignment
from autograder.grade.execute import Execution, execute
from autograder.grade.session import Cell, Session
from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.mistake import variants_of
from autograder.publish.build import cells_of, program_cell
from autograder.sandbox.host.answer import Answer
from autograder.sandbox.host.limits import Limits
from solutions import debugging as answers

NAME = "5_debugging"
SOURCE = ROOT / "exercises" / NAME / "debugging.py"
WRONG = student_tests.wrong_candidates()
PROGRAMS = {name: each for name, each in EXERCISES.items() if each is not TEST_ATTENTION}


@pytest.fixture(scope="module")
def debugging() -> Assignment:
    """The fifth assignment."""
    return assignment_of(NAME)


# ------------------------------------------------------------------------------------------------------- the programs


def test_argument_that_is_changed_loses_both_points_without_a_name() -> None:
    """Does a right result lose its points if the given images change, and does the visible test show it too?"""

    def standardised_in_place(images):
        images -= images.mean(dim=(1, 2), keepdim=True)
        return images / images.square().mean(dim=(1, 2), keepdim=True).sqrt()

    each = PROGRAMS["standardise_images"]
    assert lost(each, standardised_in_place) == dict.fromkeys(each.stages)
    with pytest.raises(AssertionError):
        judge(each.of_arrays(standardised_in_place), each.names, each.visible_cases(), catalogue.MESSAGES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_visible_test_shows_the_symptom_and_names_no_fault(name: str) -> None:
    """Does the visible test say that the program is wrong, without the cause?"""
    each = PROGRAMS[name]
    with pytest.raises(AssertionError) as caught:
        judge(each.of_arrays(each.mistakes()[each.fault]), each.names, each.visible_cases(), catalogue.MESSAGES)
    assert caught.value.mistake is None
    assert not re.search(r"M\d", str(caught.value))


@pytest.mark.parametrize("name", PROGRAMS)
def test_student_gets_the_program_with_its_fault(debugging: Assignment, name: str) -> None:
    """Does the student's cell differ from the instructor's right program in few lines, which make the fault?"""
    broken, right = (answer(notebook, name).source for notebook in (debugging.release, debugging.instructor))
    assert len({*right.splitlines()} ^ {*broken.splitlines()}) <= 8
    for words, others in variants_of(name, PROGRAMS[name].known)[PROGRAMS[name].fault].changes:
        assert words in right
        assert others in broken
    assert program_cell("debugging", name, broken=True) == broken != right


def cells_of_program(name: str) -> list[nbformat.NotebookNode]:
    """Return the cells of a program: its symptom, its code, what shows the symptom, its visible test, its hidden tests."""
    cells = cells_of(SOURCE)
    place = next(place for place, cell in enumerate(cells) if cell.metadata.get("broken") == name)
    return cells[place - 1 : place + 5]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_its_cells(name: str) -> None:
    """Does every program have a symptom, its code, a cell that shows the symptom, a visible test and two points?"""
    symptom, broken, shown, visible, *graded = cells_of_program(name)
    assert symptom.source.startswith("**Symptom.** ")
    assert broken.metadata["broken"] == visible.metadata["visible"] == name
    assert set(shown.metadata) <= {"lines_to_next_cell"}
    assert [(cell.metadata["grade"], cell.metadata["points"]) for cell in graded] == [
        (f"{name}_{stage}", 1) for stage in PROGRAMS[name].stages
    ]
    assert f"`{name}`" in cells_of(SOURCE)[0].source


@pytest.mark.deep
@pytest.mark.parametrize("name", PROGRAMS)
def test_cell_shows_the_symptom(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Does the cell below a program print something else after the program is repaired?"""
    monkeypatch.delenv("GRADING", raising=False)
    helpers, _ = setup_of("5_debugging")
    instruments = next(cell.source for cell in cells_of(SOURCE) if "def digits" in cell.source)
    said = []
    for broken in (True, False):
        names = helpers | {"__name__": "notebook"}
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()) as printed:
            for source in (
                instruments,
                program_cell("debugging", name, broken=broken),
                cells_of_program(name)[2].source,
            ):
                exec(source, names)
        said.append(printed.getvalue())
    assert said[0] != said[1]


# ------------------------------------------------------------------------------------------------- the tests of tests


def test_notebook_tells_the_truth_about_the_candidates() -> None:
    """Do the notebook and the page give the real numbers of right and wrong candidates, calls and numbers?"""
    notebook = SOURCE.read_text(encoding="utf-8")
    page = (ROOT / "book" / f"{NAME}_exercise.md").read_text(encoding="utf-8")
    assert f"There are {len(ATTEND)} right candidates" in notebook
    assert f"There are {len(WRONG)} wrong candidates" in notebook
    assert f"{len(ATTEND)} right attention functions, each written differently, and on {len(WRONG)} wrong ones" in page
    assert f"you may call a candidate {trial.MAX_CALLS} times." in notebook
    limits = f"N may be at most {trial.MAX_TOKENS}, and B · H at most {trial.MAX_HEADS}."
    assert f"at most {trial.MAX_NUMBERS:,} numbers, {limits}" in notebook
    assert TEST_ATTENTION.untried_in_words == f"the {len(WRONG)} wrong attention functions that count"
    steps = ", ".join(list(TEST_ATTENTION.stages)[:-1]) + " and 100 %"
    assert steps in notebook and steps in page
    seconds = Limits().call_seconds
    assert f"{seconds:.0f} seconds for each run and {3 * seconds:.0f} seconds for all runs" in notebook


def test_every_wrong_candidate_has_a_question() -> None:
    """Is there exactly one question for each mistake that a test may miss?"""
    assert {name.split("/")[0] for name in WRONG} == set(student_tests.QUESTIONS)
    assert all("?" in question for question in student_tests.QUESTIONS.values())


def with_rounding(candidate):
    """Compare as closely as the notebook promises, and with scores of millions behind a mask."""
    torch.manual_seed(0)
    for size, atol in ((1, 1e-5), (3, 1e-5), (30, 1e-3), (1000, 1.0)):
        for images, heads, tokens, width in ((2, 3, 5, 7), (4, 4, 16, 32)):
            q, k, v = torch.randn(3, images, heads, tokens, width)
            mask = torch.eye(tokens, dtype=torch.bool) | (torch.rand(images, 1, tokens, tokens) < 0.5)
            output, weights = candidate(size * q, size * k, v, mask[:, 0])
            right = F.scaled_dot_product_attention(size * q, size * k, v, attn_mask=mask)
            assert torch.allclose(output, right, rtol=1e-3, atol=atol)
            assert not weights[~mask.expand_as(weights)].any()


def test_right_attentions_agree_as_closely_as_students_are_told() -> None:
    """Does the strictest test that the notebook allows accept every right attention?"""
    assert set(lost(TEST_ATTENTION, with_rounding).values()) == {"M182"}


def refuse(candidate):
    """Refuse every candidate."""
    raise AssertionError("no")


def guess(candidate):
    """Refuse five of six candidates at random, which is the share of wrong ones."""
    assert random.random() < 1 / 6


def of_its_own(candidate):
    """Fail with an error of its own."""
    return candidate(undefined)  # noqa: F821


@pytest.mark.parametrize(
    ("test", "named"), [(refuse, "M180"), (guess, "M180"), (of_its_own, "M180"), (lambda candidate: False, "M181")]
)
def test_test_that_looks_at_nothing_gets_nothing(test: Callable, named: str) -> None:
    """Does a test get no point if it refuses all candidates, none, or some at random, and does the message say which?"""
    random.seed(1)
    assert lost(TEST_ATTENTION, test) == dict.fromkeys(TEST_ATTENTION.stages, named)


def test_test_that_is_not_there_is_no_test_that_is_too_strict() -> None:
    """Does a student without a readable test read what is missing, and nothing about right answers?"""
    namespace: dict = {}
    exec("def other(candidate):\n    return test_attention(candidate)", namespace)
    student_tests.verdicts_of.cache_clear()
    errors = TEST_ATTENTION.failures(namespace["other"], 0)
    assert errors.keys() == TEST_ATTENTION.stages.keys()
    assert {(str(error), error.mistake) for error in errors.values()} == {(student_tests.UNDEFINED, None)}


def test_order_of_candidates_follows_from_nothing() -> None:
    """Does a test that learned the order of candidates in one run get nothing in another run with the same seed?

    Students' programs see inputs that the seed draws. They may find the seed by trying all seeds.
    """
    verdicts, turn = [], iter(())

    def learn(candidate):
        try:
            answers.test_attention(candidate)
        except Exception:
            verdicts.append(True)
            raise
        verdicts.append(False)

    def repeat(candidate):
        assert not next(turn)

    assert lost(TEST_ATTENTION, learn, 1) == {}
    turn = iter(list(verdicts))
    assert set(lost(TEST_ATTENTION, repeat, 1)) == set(TEST_ATTENTION.stages)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((np.zeros((1, 1, 2, 2)),) * 3, "q is a ndarray"),
        ((torch.zeros(2, 2),) * 3, "q is a tensor of shape"),
        ((torch.zeros(1, 1, 2, 2).int(),) * 3, "q is a tensor of shape"),
        ((torch.zeros(1, 1, 2, 2).half(),) * 3, "float16; expected a tensor of float32 or float64"),
        ((torch.zeros(2, 0, 4, 4),) * 3, "without a size of 0"),
        ((*(torch.zeros(1, 1, 2, 2),) * 2, torch.zeros(1, 1, 2, 2).double()), "expected one type"),
        ((torch.zeros(300, 1, 1, 1),) * 3, "which is too large; use a smaller one"),
        ((torch.zeros(1, 1, 300, 300),) * 3, "which is too large; use a smaller one"),
        ((torch.zeros(1, 1, 600, 1),) * 3, "which is too large; use a smaller one"),
        ((*(torch.zeros(1, 1, 2, 2),) * 3, torch.ones(1, 2)), "expected None or a boolean tensor"),
        (
            (*(torch.zeros(1, 1, 1, 1),) * 3, torch.ones(300, 300, dtype=torch.bool)),
            "which is too large; use a smaller one",
        ),
        (
            (torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 2)),
            r"shapes \(1, 1, 2, 2\), \(1, 1, 2, 3\), \(1, 1, 2, 2\); expected one shape",
        ),
        (
            (*(torch.zeros(2, 3, 4, 1),) * 3, torch.ones(2, 1, 4, 4, dtype=torch.bool)),
            r"expected \(2, 4\), \(2, 4, 4\) or \(2, 3, 4, 4\)",
        ),
    ],
)
def test_candidate_refuses_what_it_was_not_made_for(arguments: tuple, said: str) -> None:
    """Does a candidate raise only a ValueError that says what it got, whatever is wrong with the arguments?"""
    for candidate in (*list(ATTEND.values())[:3], WRONG["M6"]):
        with pytest.raises(ValueError, match=said):
            trial.limited(candidate)(*arguments)


def test_candidate_counts_its_calls_and_works_on_copies() -> None:
    """Can a candidate be called exactly as often as allowed, and do a test's tensors stay unchanged?"""
    candidate, q = trial.limited(ATTEND["answer"]), torch.ones(1, 1, 2, 2)
    for _ in range(trial.MAX_CALLS):
        candidate(q, q, q)
    with pytest.raises(ValueError, match="200 times"):
        candidate(q, q, q)
    spoiling = student_tests.OF_MULTIHEAD["attend"].mistakes()["M15"]
    trial.limited(spoiling)(q, q, q)
    assert torch.equal(q, torch.ones(1, 1, 2, 2))


def test_candidates_give_back_what_they_computed() -> None:
    """Does every result hold only computed values? Unwritten memory may come from anywhere in the process."""
    for name, right in ATTEND.items():
        assert not re.search(r"\b(new_)?empty(_like)?\(", inspect.getsource(right)), name
    output, _ = ATTEND["head by head"](torch.zeros(1, 1, 1, 3), torch.zeros(1, 1, 2, 3), torch.ones(64, 1, 2, 3))
    assert not output[1:].any()


def test_trial_takes_any_error_for_a_refusal() -> None:
    """Does the notebook's trial accept the errors of pytest, which are no Exceptions, as a refusal?"""

    def refuses(candidate):
        pytest.fail("not equal")

    with pytest.raises(WrongAnswer, match=r"refuses 1 right candidates.*\nright: ours: Failed: not equal"):
        trial.judge_trial(refuses, ({"ours": ATTEND["answer"]}, {}))


def test_given_candidates_are_what_they_are_called() -> None:
    """Does our test judge every candidate in the notebook as its name says, and does each wrong candidate run?"""
    said = trial.try_out(answers.test_attention, answers.candidates_to_try())
    assert all((text == "passes") == name.startswith("right") for name, text in said.items())
    assert sum(name.startswith("wrong") for name in said) == 8


# ------------------------------------------------------------------------------------------------------ in the sandbox


def done(assignment: Assignment, change: Callable, **limits: float) -> Execution:
    """Execute the answers after a change."""
    notebook = fill_in(assignment.release, assignment.instructor)
    change(notebook)
    return execute(repaired(notebook, assignment).notebook, 3, Limits(**limits))


TRIED = {  # what a test does with its candidate, and the state of the submission; no test gets a point
    # At most 200 calls, on a fast machine.
    "loops": ("while True:\n    candidate(*torch.ones(3, 1, 1, 2, 2))", "graded"),
    "waits": ("while True:\n    pass", "timed out"),
    "says yes in advance": (
        f"{REACH}import inside, wire\n"
        "inside.CHANNEL[0].sendall(wire.frame(wire.dumps({'question': True, 'arguments': [], 'keywords': {}})))",
        "crashed",
    ),
    "returns the candidate": ("return candidate", "graded"),
}


@pytest.mark.parametrize("deed", soon(TRIED, "returns the candidate"))
def test_test_that_tries_something_else_gets_nothing(debugging: Assignment, deed: str) -> None:
    """Does a test get no point if it asks without end, or for something forbidden, and do the programs keep their points?"""
    body, state = TRIED[deed]
    found = done(debugging, lambda notebook: rewrite(notebook, "test_attention", body), call_seconds=2.0)
    passed = {check.name for check in found.checks if check.passed}
    assert passed == {check.name for check in found.checks if not check.name.startswith("test_attention")}
    assert found.state in (state, "timed out")  # on a busy machine anything may take too long


@pytest.mark.deep
def test_only_the_definition_that_counts_gives_points(debugging: Assignment) -> None:
    """If a cell below defines a better test, does the test in its own cell give the points, and is a person asked?"""

    def define_twice(notebook):
        own = answer(notebook, "test_attention")
        notebook.cells.insert(notebook.cells.index(own) + 1, nbformat.v4.new_code_cell(own.source))
        own.source = own.source.replace("check(q, k, v, mask)", "pass")

    found = done(debugging, define_twice)
    passed = [check.passed for check in found.checks if check.name.startswith("test_attention")]
    assert passed == sorted(passed, reverse=True) and True in passed and False in passed, passed
    assert any("test_attention is defined twice" in each for each in found.questions), found.questions


@pytest.mark.parametrize("place", soon(["cell", "test"], "test"))
def test_test_that_needs_what_is_missing_is_asked_about(debugging: Assignment, place: str) -> None:
    """Is a person asked about a test that imports what is not here, and is the reason the whole message?"""

    def compare_with_attend(notebook):
        rewrite(notebook, "test_attention", "assert torch.equal(candidate(*one)[0], attend(*one)[0])")
        before = "def test" if place == "cell" else "    assert torch"
        indent = "" if place == "cell" else "    "
        cell = answer(notebook, "test_attention")
        cell.source = cell.source.replace(
            before, f"{indent}from multihead import attend\n{indent}one = torch.ones(3, 1, 1, 2, 2)\n{before}", 1
        )

    found = done(debugging, compare_with_attend)
    (question,) = found.questions
    assert question.startswith("test_attention needs multihead, which is not installed here")
    failed = [check for check in found.checks if not check.passed]
    assert failed and all(check.name.startswith("test_attention") for check in failed)
    assert all(check.mistake is None and "No module named 'multihead'" in check.message for check in failed)
    assert not any("right attention" in check.message for check in failed)


def test_trials_find_nothing_of_earlier_ones() -> None:
    """Does each trial run in its own process, where only files are left of earlier ones?"""
    cell = """import os, torch
def test_attention(candidate):
    seen = torch.__dict__.setdefault("seen", [])
    seen.append(os.path.exists("/tmp/seen"))
    open("/tmp/seen", "w").close()
    raise ValueError(f"{len(seen)} trials, file: {seen[0]}")
"""
    with contextlib.closing(Session(Limits(), sandboxed=True)) as session:
        session.run(Cell(cell, answers=True))
        session.begin_test()
        test = Answer("test_attention", session.call)
        with pytest.raises(ValueError, match="1 trials, file: False"):
            test(lambda q: q)
        with pytest.raises(ValueError, match="1 trials, file: True"):
            test(lambda q: q)

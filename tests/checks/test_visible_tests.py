"""Do the visible tests pass right answers and name known mistakes, in every assignment?"""

import contextlib
import io
import linecache
import re
import warnings

import numpy as np
import pytest
import torch
from attention_tests.compare import difference, outcome
from attention_tests.repair import BrokenBlock
from conftest import ALL, NAME, assignment_of, lost, setup_of
from sample_class import BONUS

from autograder.cells import points_of
from autograder.imports import ROOT
from autograder.judge.exercise import Exercise, exercises_of, seeded
from autograder.judge.mistake import mistake_of
from autograder.judge.mutations import mutations_of
from solutions import multihead

# The names that a test needs in addition to the set-up cell.
GIVEN = {"to_torch": vars(multihead), "repair": {"BrokenBlock": BrokenBlock}}
ASSIGNMENT_OF = {each.name: name for name, stem in ALL.items() for each in exercises_of(stem).values()}
EACH = [
    pytest.param(name, each, id=each.name)
    for name, stem in ALL.items()
    for each in exercises_of(stem).values()
    if name != "5_debugging"  # the visible tests of 5_debugging name no mistake
]


def said_of(name: str, each: Exercise, function) -> AssertionError | None:
    """Run the test cell of an exercise after the set-up cell only; return its error, or None if it passes."""
    namespace, cells = setup_of(name)
    given = dict(GIVEN.get(each.name, {}))
    if given_cell := cells.get("candidates_to_try"):
        exec(given_cell, given | namespace, given)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(cells[f"test_{each.name}"], given | namespace | {each.name: function})
    except AssertionError as error:
        return error
    return None


QUICK = ("1_attention", "2_multihead")


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, id=each.name, marks=() if ASSIGNMENT_OF[each.name] in QUICK else pytest.mark.deep)
        for stem in ALL.values()
        for each in exercises_of(stem).values()
    ],
)
def test_visible_test_catches_what_costs_points(each: Exercise) -> None:
    """Does the visible test catch each mistake and mutation, except kinds that the notebook names and that cost at most half?

    The kinds are `Exercise.untried`; the notebook prints them when the visible test passes. No kind is named in vain.
    """
    name = ASSIGNMENT_OF[each.name]
    kinds = {number for numbers in each.untried.values() for number in numbers}
    of_stage = {cell.metadata.nbgrader.grade_id: points_of(cell) for cell in assignment_of(name).graded_cells()}
    points = {stage: of_stage[f"{each.name}_{stage}"] for stage in each.stages}
    answer = getattr(each.answers, each.name)
    mutations = {str(one): one.function() for one in mutations_of(answer)} if each.visible_cases() else {}
    found, wrong = set(), []
    for label, function in (each.mistakes() | mutations).items():
        if not visible_test_passes(name, each, function):
            continue
        for seed in (0, 1):
            stages = lost(each, function, seed)
            numbers = {mistake_of(label)} if label in each.mistakes() else set(stages.values())
            found |= numbers & kinds if stages else set()
            if stages and (not numbers & kinds or 2 * sum(map(points.get, stages)) > sum(points.values())):
                wrong.append((label, stages))
    assert wrong == []
    assert found == kinds


def visible_test_passes(name: str, each: Exercise, function) -> bool:
    """Whether a function passes the visible test. Without the search for a line, this takes a tenth of the time."""
    if not each.visible_cases():  # the test of exercise 5, whose cases are candidates in the notebook
        return said_of(name, each, function) is None
    with seeded(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        outcomes = (outcome(each.of_arrays(function), case["arguments"], each.names) for case in each.visible_cases())
        pairs = zip(outcomes, each.visible_cases(), strict=True)
        return not any(difference(got, case["expected"], show=False) for got, case in pairs)


# The sizes in each argument that differ in one case, by exercise: the axes of an array, numbers of a dictionary, or a number.
AXES = {
    "softmax": ["abc"],
    "attention": ["BHqd", "BHkd", "BHkv"],
    "self_attention": ["BSnD", "Dd", "Dd", "Dv"],
    "attention_backward": ["BHqv", "BHqd", "BHkd", "BHkv"],
    "online_softmax": ["Bq", "Bq", "Bqv", "Bqk", "Bkv"],
    "matmul": ["nm", "mk"],
    "matmul_transposed": ["nm", "km"],
    "batched_trace": ["Bnn"],
    "pairwise_dot": ["Bqd", "Bkd"],
    "bilinear": ["Bqd", "de", "Bke"],
    "attend": ["BHNd"] * 3,
    "MultiHeadAttention": ["", ["width", "num_heads"], "", ["images", "tokens", "width"]],
    "EncoderBlock": ["", "BNW", "h", "H"],
    "Encoder": ["", "BNW", "L", "h", "H"],
    "ViT": ["", "", ["channels", "num_classes", "width", "num_heads", "hidden_width"]],
}


@pytest.mark.parametrize("name", AXES)
def test_sizes_of_a_case_all_differ(name: str) -> None:
    """Do the sizes of all axes differ in a visible case, as the page about the book says, and in a hidden one?"""
    assert "each test has an input whose sizes all differ" in (ROOT / "book" / "about.md").read_text(encoding="utf-8")
    each = exercises_of(ALL[ASSIGNMENT_OF[name]])[name]

    def sizes(case) -> dict[str, int]:
        found = {}
        for axes, argument in zip(AXES[name], case["arguments"], strict=False):
            if isinstance(argument, dict):
                found |= {axis: argument[axis] for axis in axes}
            elif axes:
                shape = argument if isinstance(argument, tuple) else np.shape(argument) or (argument,)
                found |= dict(zip(axes, shape, strict=True)) if len(shape) == len(axes) else dict.fromkeys(axes)
        return found

    for cases in (each.visible_cases(), each.hidden_cases(0)):
        found = list(map(sizes, cases))
        assert any(len(set(each.values())) == len(each) for each in found), found


@pytest.mark.parametrize(("name", "each"), EACH)
def test_visible_test_says_that_nothing_is_written(name: str, each: Exercise) -> None:
    """If nothing is written, does the test say so without a mistake's name, and without an error for a bonus?"""
    namespace, cells = setup_of(name)
    exec(cells[each.name], released := dict(namespace))
    error = said_of(name, each, released[each.name])
    if each.name in BONUS.values():
        assert error is None
        return
    assert str(error).endswith("not written yet.")
    assert error.mistake is None


def test_visible_test_quotes_the_line_of_an_error_in_the_grader() -> None:
    """Does the error name the student's own line that raised, not a line of the test, as in Jupyter?"""
    source, name = "def softmax(scores, axis=-1):\n    return helper(scores)\n", "<ipython-input-2-0123456789ab>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), own := {})
    error = said_of(NAME, exercises_of("attention")["softmax"], own["softmax"])
    assert "NameError: name 'helper' is not defined (in softmax, line 2: return helper(scores))" in str(error)


def test_exercise_that_fails_again_is_passed_no_more(capsys: pytest.CaptureFixture) -> None:
    """Does the list of passing exercises drop one that a later change broke?"""
    softmax, (namespace, cells) = exercises_of("attention")["softmax"], setup_of(NAME)
    assert said_of(NAME, softmax, softmax.answers.softmax) is None
    assert said_of(NAME, softmax, np.exp)
    exec(cells["test_attention"], namespace | {"attention": softmax.answers.attention})
    assert "So far: softmax –  attention ✓  self_attention –" in capsys.readouterr().out


GAPS = {  # what belongs into the gaps of the first lines that a notebook gives
    "1_attention": ["scores.max(axis=axis, keepdims=True)", "exponentials.sum(axis=axis, keepdims=True)"],
    "3_encoder": [
        "eps",
        "torch.ones(width)",
        "torch.zeros(width)",
        "x.mean(dim=-1, keepdim=True)",
        "centred.square().mean(dim=-1, keepdim=True)",
        "torch.sqrt(variance + self.eps)",
    ],
    "4_vit": ["height % patch_size or width % patch_size", "0, 2, 4, 1, 3, 5", "B, rows * columns, -1"],
}


@pytest.mark.parametrize(("name", "gaps"), GAPS.items())
def test_first_lines_pass_when_their_gaps_are_filled(name: str, gaps: list[str]) -> None:
    """Are the first lines that a notebook gives right, and does a gap that stays raise an error that names it?"""
    each = next(iter(exercises_of(ALL[name]).values()))
    namespace, cells = setup_of(name)
    [given] = [text for text in cells.values() if "The first lines, with gaps" in text]
    code = re.search(r"```python\n(.*?)```", given, re.DOTALL)[1]
    assert code.count("____") == len(gaps)

    def said(gaps: list[str]) -> AssertionError | None:
        cell, filled = cells[each.name], code
        for gap in gaps:
            filled = filled.replace("____", gap, 1)
        for part in filled.strip().split("\n\n"):  # one for each function that is not written
            before, after = cell.split("raise NotImplementedError()", 1)
            cell = before + part.replace("\n", "\n" + before.rpartition("\n")[2]) + after
        exec(cell, written := dict(namespace))
        return said_of(name, each, written[each.name])

    assert said(gaps) is None
    assert "name '____' is not defined" in str(said(gaps[:-1]))

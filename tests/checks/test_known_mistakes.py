"""Do the checks distinguish every known mistake from every right answer, and name it?"""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from attention_tests.compare import outcome
from conftest import ALL, NAME, cases_of, lost, soon
from wrong_answers import WRONG

from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, exercises_of, right_answers_of
from autograder.judge.kill_matrix import Matrix, kept_matrix
from autograder.judge.mistake import mistake_of

EXERCISES = {stem: exercises_of(stem) for stem in ALL.values()}
# The first and the fifth assignment run in `make test`; the others take minutes.
EACH = soon(ALL, NAME, "5_debugging")


def each_exercise(*stems: str) -> list:
    """Return the exercises of some assignments as parameters; by default of all."""
    return [pytest.param(each, id=each.name) for stem in stems or EXERCISES for each in EXERCISES[stem].values()]


# ------------------------------------------------------------------------------------------------- the kill matrix


def assert_whole(matrix: Matrix) -> None:
    """Fail with the mutants that are not killed and named, and the correct answers that do not pass."""
    wrong = [(v.exercise, v.name, v.failed) for v in matrix.mutants if not (v.killed and v.named)]
    alarms = [(v.exercise, v.name, v.failed, v.visible) for v in matrix.correct if v.killed or v.visible != ""]
    assert (wrong, alarms) == ([], [])
    assert matrix.is_complete


@pytest.mark.parametrize("name", EACH)
def test_kill_matrix_is_whole(name: str) -> None:
    """Is every mutant killed and named, does every right answer pass, and does every check fail for some mutant?

    Does the visible test name it too, unless it needs other inputs? `autograder mutants` tries other inputs.
    """
    matrix, exercises = kept_matrix(name, ALL[name], 0), EXERCISES[ALL[name]]
    assert_whole(matrix)
    assert [(v.exercise, v.name) for v in matrix.mutants] == [
        (e.name, mistake) for e in exercises.values() for mistake in e.mistakes()
    ]
    assert [(v.exercise, v.name) for v in matrix.correct] == [
        (name, answer) for name, answers in right_answers_of(ALL[name]).items() for answer in answers
    ]
    failed = {(v.exercise, stage) for v in matrix.mutants for stage in v.failed}
    assert failed == {(e.name, stage) for e in exercises.values() for stage in e.stages}, "a stage fails for no mutant"
    if name != "5_debugging":  # its visible tests name no mistake
        untried = {number for each in exercises.values() for numbers in each.untried.values() for number in numbers}
        assert {mistake_of(v.name) for v in matrix.mutants if v.visible != mistake_of(v.name)} <= untried


@pytest.mark.deep
def test_kill_matrix_is_whole_on_other_inputs() -> None:
    """Does the kill matrix of another seed agree?"""
    assert_whole(kept_matrix(NAME, ALL[NAME], 1))


# ----------------------------------------------------------------------------------- mutants, answers, oracles


NUMBERS = {  # compared as numbers, or dependent on the size of the case; all others except shapes are properties
    *("output", "initial_output", "patches", "rollout", "loss", "accuracy", "dropped_share", "gradient_of_x"),
    *("gradient_of_the_images", "gradients_of_the_parameters", "existing_parameters", "blocks"),
    *("parameters_after_the_first_step", "parameters_after_the_last_step", "steps_in_training_mode"),
    *("count_of_learned_numbers", "count_of_all_numbers", "turned"),
    *(
        f"{place}_{what}"
        for place in ("tokens", "encoder_outputs")
        for what in ("dropped_share", "factor_of_kept_numbers")
    ),
}
UNWANTED = {"class_token_has_all_positions", "graph_is_built", "missing_parameters", "other_parameters"}


@pytest.mark.parametrize("each", each_exercise("encoder", "vit"))
def test_oracles_are_measured_as_sound(each: Exercise) -> None:
    """Does an oracle raise only if an error is due, and do PyTorch's own modules have every property of a sound answer?"""
    for stage, case in cases_of(each, 3):
        right = outcome(each.of_arrays(each.oracle), case.arguments, ())
        assert ("error" in right) == (case.default_mistake == "M123" or case.name == "an odd width"), (
            stage,
            case.name,
            right,
        )
        for what, array in right.get("arrays", {}).items():
            assert np.isfinite(array).all()
            is_property = what not in NUMBERS and not what.startswith("shape")
            assert not is_property or np.all(array == (what not in UNWANTED)), (stage, case.name, what, array)


@pytest.mark.parametrize("each", [each for each in each_exercise() if each.id != "test_attention"])
def test_oracles_share_nothing_with_the_answers(each: Exercise) -> None:
    """Are oracles independent of solutions/ and of the right answers?"""
    kinds = getattr(each.oracle, "__mro__", [each.oracle])
    modules = [inspect.getmodule(kind) for kind in kinds if kind.__module__ != "builtins"]
    ours = [module for module in modules if not module.__name__.startswith("torch")]
    for module in ours:
        assert module.__name__.startswith("autograder.checks.")
        code = inspect.getsource(module).split('"""', 2)[2]
        assert "solutions" not in code and "right_answers" not in code


@pytest.mark.parametrize("name", ["EncoderBlock", "PatchEmbedding"])
def test_expected_results_do_not_depend_on_the_machine(name: str) -> None:
    """Are expected results computed in float64, with more digits than float32 has?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)
    made = each.visible_cases()[0]["expected"]["arrays"]["output"]
    assert np.abs(made - made.astype(np.float32)).max() > 0


# --------------------------------------------------------------------------------- wrong answers from outside


@pytest.mark.parametrize(
    ("stem", "name", "function", "mistakes"), [(stem, *row) for stem, table in WRONG.items() for row in table]
)
@pytest.mark.few(8)
def test_wrong_answer_from_outside_is_named(stem: str, name: str, function: Callable, mistakes: set[str]) -> None:
    """Does a wrong answer from outside lose points under its name, or without a name if the catalogue has none?"""
    found = lost(EXERCISES[stem][name], function)
    assert found
    assert set(found.values()) - {None} == mistakes


@pytest.mark.parametrize("each", each_exercise())
def test_errors_that_are_due_are_value_errors(each: Exercise) -> None:
    """Is every expected error a ValueError, as no error of ours is, and has a mistake that a case names a title?"""
    for case in (*each.hidden_cases(0), *each.visible_cases()):
        assert case["expected"].get("error", "ValueError") == "ValueError"
        assert {case["default_mistake"], case["mistake_if_refused"]} <= {None, *catalogue.TITLES}

"""Do the checks tell every known mistake from every right answer, and say which it is?"""

import inspect
from collections.abc import Container

import numpy as np
import pytest
from by_hand import BY_HAND
from conftest import ALL, NAME, assert_whole, cases_of, lost, matrix_of, soon
from wrong_answers import WRONG

from autograder.checks.debugging.exercises import PROGRAMS
from autograder.judge import catalogue
from autograder.judge.compare import outcome
from autograder.judge.exercise import Exercise, exercises_of, right_answers_of
from autograder.judge.mistake import changed_answer

EXERCISES = {stem: exercises_of(stem) for stem in ALL.values()}
# The first soon; that of exercise 5 is small, and those of the others take minutes.
EACH = soon(ALL, NAME, "5_debugging")
VISIBLE_NAMES_ALL = {"3_encoder", "4_vit"}  # assignments whose visible tests name every mistake
# Which mistakes can be made in which exercise, by the catalogue. M12 needs projections; softmax knows no scale and no mask.
# M31 and M39, layers over the flattened sequence, need a constructor that knows the length of a sequence; M19 is for those
# who write attention; M54, M58, M62 and M64 are made in training and conclusions, of which chapters speak.
SOFTMAX = {"M1", "M2", "M3", "M4", "M5", "M14"}
SCALE = {"M7", "M8", "M9", "M10"}
ATTENTION = SOFTMAX | SCALE | {"M6", "M11", "M13", "M15", "M16", "M17", "M18", "M19", "M20"}
HEADS = {f"M{number}" for number in (*range(6, 14), *range(16, 20), *range(21, 31))}
APPLY = {
    "softmax": SOFTMAX | {"M6", "M15"},
    "attention": ATTENTION,
    "self_attention": ATTENTION | {"M12"},
    "attention_backward": SOFTMAX | SCALE | {"M6", "M11", "M15", "M65", "M66", "M67", "M68", "M69"},
    "MultiHeadAttention": HEADS,
    "LayerNorm": {"M15", "M34", "M35", "M36"},
    "FeedForward": {"M15", "M29", "M30", "M40", "M41", "M83"},
    "EncoderBlock": {"M15", "M16", "M28", "M29", "M30", "M32", "M33", "M34", "M36", "M37", "M38", "M40", "M71"},
    "Encoder": {"M15", "M16", "M38", "M40", "M71"},
    "repair": {"M28", "M32", "M40"},
    "online_softmax": {"M6", "M14", "M15"},
    "rope": {"M15"},
    "patchify": {"M42", "M43", "M44", "M45"},
    "PatchEmbedding": {"M42", "M43", "M44", "M45"},
    "ViT": {"M42", "M46", "M47", "M48", "M49", "M50", "M51"},
    "train_epoch": {"M51", "M52", "M53", "M55", "M56", "M63"},
    "evaluate": {"M51", "M52", "M55", "M56", "M63"},
    "attention_rollout": {"M15"},
}
# How many right answers an exercise has at least, in addition to ours and the oracle, where there are few ways to write it.
FEW = dict.fromkeys([*EXERCISES["multihead"], *EXERCISES["encoder"]], 5) | {"attend": 12, "MultiHeadAttention": 18}


def made_in(*exercises: Exercise) -> set[str]:
    """Return the mistakes that can be made in exercises, without their ways."""
    return {name.split("/")[0] for each in exercises for name in each.mistakes()}


def each_exercise(*stems: str) -> list:
    """Return the exercises of some assignments, by default of all, as parameters."""
    return [pytest.param(each, id=each.name) for stem in stems or EXERCISES for each in EXERCISES[stem].values()]


def rows(tables: dict, first: Container[str] = EXERCISES) -> list:
    """Return the rows of a table for each assignment as parameters, the name of the exercise replaced by it.

    Those of assignments that are not among the first wait for `make test-all`.
    """
    return [
        pytest.param(
            EXERCISES[stem][name],
            *others,
            id=f"{name}-{getattr(others[0], '__name__', others[-1])}",
            marks=() if stem in first else pytest.mark.deep,
        )
        for stem, table in tables.items()
        for name, *others in table
    ]


# ------------------------------------------------------------------------------------------------- the kill matrix


@pytest.mark.parametrize("name", EACH)
def test_kill_matrix_is_whole(name: str) -> None:
    """Is every mutant killed and named, does every right answer pass, and does no check pass whatever it gets?

    On other inputs: `autograder mutants`.
    """
    matrix, exercises = matrix_of(0, name), EXERCISES[ALL[name]]
    assert_whole(matrix)
    assert [(v.exercise, v.name) for v in matrix.mutants] == [
        (e.name, mistake) for e in exercises.values() for mistake in e.mistakes()
    ]
    assert [(v.exercise, v.name) for v in matrix.correct] == [
        (name, answer) for name, answers in right_answers_of(ALL[name]).items() for answer in answers
    ]
    failed = {(v.exercise, stage) for v in matrix.mutants for stage in v.failed}
    assert failed == {(e.name, stage) for e in exercises.values() for stage in e.stages}, "a stage fails for no mutant"
    if name in VISIBLE_NAMES_ALL:
        assert [v for v in matrix.mutants if v.visible != v.name.split("/")[0]] == []


@pytest.mark.deep
def test_kill_matrix_is_whole_on_other_inputs() -> None:
    """Does another seed show no more than the first?"""
    assert_whole(matrix_of(1))


# ----------------------------------------------------------------------------------- mutants, answers, oracles


@pytest.mark.parametrize("name", APPLY)
def test_mutants_hold_every_mistake_that_applies(name: str) -> None:
    """Is each mistake that can be made in an exercise among its mutants?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)
    assert APPLY[name] - made_in(each) == set()


def test_mistakes_that_a_case_names_have_words() -> None:
    """Does each mistake that an outcome of no known mistake is called by have a title?"""
    for exercises in EXERCISES.values():
        for each in exercises.values():
            named = {name for _, case in cases_of(each, 0) for name in (case.otherwise, case.refused) if name}
            assert named <= set(catalogue.TITLES)


@pytest.mark.parametrize("each", each_exercise(*BY_HAND))
def test_right_answers_are_many_and_different(each: Exercise) -> None:
    """Are there ten right answers, or nearly as many as there are ways to write it, and no two the same function?"""
    (answers,) = (right_answers_of(stem)[each.name] for stem in BY_HAND if each.name in EXERCISES[stem])
    others = {label: answer for label, answer in answers.items() if label not in ("answer", "oracle")}
    assert len(set(others.values())) == len(others) >= FEW.get(each.name, 10)


NUMBERS = {  # what is compared as numbers, or depends on the size of the case; all else but shapes is a property
    *("output", "initial_output", "patches", "rollout", "loss", "accuracy", "dropped_share", "gradient_of_x"),
    *("gradient_of_the_images", "gradients_of_the_parameters", "parameters", "existing_parameters", "blocks"),
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
    """Does no oracle raise but where an error is due, and has PyTorch's own every property of a sound answer?"""
    for stage, case in cases_of(each, 3):
        right = outcome(each.probe(each.oracle), case.arguments, ())
        assert ("error" in right) == (case.otherwise == "M123" or case.name == "an odd width"), (
            stage,
            case.name,
            right,
        )
        for what, array in right.get("arrays", {}).items():
            assert np.isfinite(array).all()
            is_property = what not in NUMBERS and not what.startswith("shape")
            assert not is_property or np.all(array == (what not in UNWANTED)), (stage, case.name, what, array)


@pytest.mark.parametrize("each", [*each_exercise(*BY_HAND), *(pytest.param(p, id=p.name) for p in PROGRAMS.values())])
def test_oracles_share_nothing_with_the_answers(each: Exercise) -> None:
    """Is there nothing of solutions/ or of the right answers in what answers are compared with?"""
    kinds = getattr(each.oracle, "__mro__", [each.oracle])
    modules = [inspect.getmodule(kind) for kind in kinds if kind.__module__ != "builtins"]
    ours = [module for module in modules if not module.__name__.startswith("torch")]
    for module in ours:
        assert module.__name__.startswith("autograder.checks.")
        code = inspect.getsource(module).split('"""', 2)[2]
        assert "solutions" not in code and "right_answers" not in code


@pytest.mark.parametrize("name", ["EncoderBlock", "PatchEmbedding"])
def test_expected_results_do_not_depend_on_the_machine(name: str) -> None:
    """Are they computed in float64, with more digits than float32 has?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)
    made = each.visible_cases()[0]["expected"]["arrays"]["output"]
    assert np.abs(made - made.astype(np.float32)).max() > 0


# --------------------------------------------------------------------- wrong answers that are not made of ours


@pytest.mark.parametrize(
    ("each", "function", "mistakes"),
    rows(WRONG, first=("attention", "multihead")),
)
def test_wrong_answer_from_outside_is_named(each: Exercise, function, mistakes: set[str]) -> None:
    """Does a wrong answer from outside lose points, under its name, and one of no catalogue under nobody's?"""
    found = lost(each, function)
    assert found
    assert set(found.values()) - {None} == mistakes


@pytest.mark.parametrize(("each", "old", "new", "mistake"), rows(BY_HAND))
def test_mistake_made_by_hand_is_named(each: Exercise, old: str, new: str, mistake: str | None) -> None:
    """Does a mistake that is made in the text of the answers, without a look at the mutants, get its name?"""
    found = lost(each, changed_answer(each.answers, each.name, [(old, new)]))
    assert found
    assert mistake is None or set(found.values()) - {None} == {mistake}


@pytest.mark.parametrize("each", each_exercise())
def test_errors_that_are_due_are_value_errors(each: Exercise) -> None:
    """Is every other error in what is expected one of ours, which any wrong answer would share?"""
    due = {case["expected"].get("error", "ValueError") for case in [*each.hidden_cases(0), *each.visible_cases()]}
    assert due <= {"ValueError"}


@pytest.mark.parametrize("name", ["attention", "self_attention", "attend", "rope", "patchify"])
def test_result_where_an_error_is_due_loses_the_point(name: str) -> None:
    """Is an answer judged that is right but refuses nothing, and the grader not at a loss?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)

    def refuses_nothing(*arguments):
        try:
            return each.oracle(*arguments)
        except ValueError:
            return (1 * arguments[0],) * len(each.names) if each.names else 1 * arguments[0]

    due = {stage for stage in each.stages for case in each.stage_cases(stage, 0) if "error" in case["expected"]}
    assert {*lost(each, refuses_nothing)} == due != set()


def test_mistakes_by_hand_are_all_of_exercise_1() -> None:
    """Does that list leave out no mistake of the first assignment?"""
    assert {row[3] for row in BY_HAND["attention"]} == made_in(*EXERCISES["attention"].values())

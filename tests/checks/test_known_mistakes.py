"""Do the checks distinguish every known mistake from every right answer, and name it?"""

import inspect
from collections.abc import Container

import numpy as np
import pytest
from attention_tests.compare import outcome
from by_hand import BY_HAND
from conftest import ALL, NAME, assert_whole, cases_of, lost, matrix_of, soon
from wrong_answers import WRONG

from autograder.checks.debugging.exercises import PROGRAMS
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, exercises_of, right_answers_of
from autograder.judge.mistake import changed_answer

EXERCISES = {stem: exercises_of(stem) for stem in ALL.values()}
# The first and the fifth assignment run in `make test`; the others take minutes.
EACH = soon(ALL, NAME, "5_debugging")
VISIBLE_NAMES_ALL = {"3_encoder", "4_vit"}  # assignments whose visible tests name every mistake
# The mistakes that can be made in each exercise, by the catalogue. M12 needs projections; softmax has no scale and no mask.
# M31 and M39 (layers over the flattened sequence) need a constructor that knows the length of a sequence. M19 can
# be made only in an attention. M54, M58, M62 and M64 are mistakes of training and of conclusions, which chapters discuss.
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
# For these exercises the test expects another number of right answers, in addition to ours and the oracle.
FEW = dict.fromkeys([*EXERCISES["multihead"], *EXERCISES["encoder"]], 5) | {"attend": 12, "MultiHeadAttention": 18}


def made_in(*exercises: Exercise) -> set[str]:
    """Return the mistakes that can be made in exercises, without their variants."""
    return {name.split("/")[0] for each in exercises for name in each.mistakes()}


def each_exercise(*stems: str) -> list:
    """Return the exercises of some assignments as parameters; by default of all."""
    return [pytest.param(each, id=each.name) for stem in stems or EXERCISES for each in EXERCISES[stem].values()]


def rows(tables: dict, first: Container[str] = EXERCISES) -> list:
    """Return the rows of a table for each assignment as parameters, with the exercise instead of its name.

    Rows of assignments that are not in `first` wait for `make test-all`.
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
    """Is every mutant killed and named, does every right answer pass, and does every check fail for some mutant?

    `autograder mutants` tries other inputs.
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
    """Does the kill matrix of another seed agree?"""
    assert_whole(matrix_of(1))


# ----------------------------------------------------------------------------------- mutants, answers, oracles


@pytest.mark.parametrize("name", APPLY)
def test_mutants_hold_every_mistake_that_applies(name: str) -> None:
    """Do an exercise's mutants hold each mistake that can be made in it?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)
    assert APPLY[name] - made_in(each) == set()


def test_mistakes_that_a_case_names_have_words() -> None:
    """Does each mistake that a case names on its own have a title?"""
    for exercises in EXERCISES.values():
        for each in exercises.values():
            named = {
                name
                for _, case in cases_of(each, 0)
                for name in (case.default_mistake, case.mistake_if_refused)
                if name
            }
            assert named <= set(catalogue.TITLES)


@pytest.mark.parametrize("each", each_exercise(*BY_HAND))
def test_right_answers_are_many_and_different(each: Exercise) -> None:
    """Does an exercise have ten right answers, or nearly as many as it allows, all different functions?"""
    (answers,) = (right_answers_of(stem)[each.name] for stem in BY_HAND if each.name in EXERCISES[stem])
    others = {label: answer for label, answer in answers.items() if label not in ("answer", "oracle")}
    assert len(set(others.values())) == len(others) >= FEW.get(each.name, 10)


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


@pytest.mark.parametrize("each", [*each_exercise(*BY_HAND), *(pytest.param(p, id=p.name) for p in PROGRAMS.values())])
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
    ("each", "function", "mistakes"),
    rows(WRONG, first=("attention", "multihead")),
)
@pytest.mark.few(8)
def test_wrong_answer_from_outside_is_named(each: Exercise, function, mistakes: set[str]) -> None:
    """Does a wrong answer from outside lose points under its name, or without a name if the catalogue has none?"""
    found = lost(each, function)
    assert found
    assert set(found.values()) - {None} == mistakes


@pytest.mark.parametrize(("each", "old", "new", "mistake"), rows(BY_HAND, first=("attention", "multihead", "encoder")))
@pytest.mark.few(30)
def test_mistake_made_by_hand_is_named(each: Exercise, old: str, new: str, mistake: str | None) -> None:
    """Does a mistake get its name if it is made in the text of the answers, independently of the mutants?"""
    found = lost(each, changed_answer(each.answers, each.name, [(old, new)]))
    assert found
    assert mistake is None or set(found.values()) - {None} == {mistake}


@pytest.mark.parametrize("each", each_exercise())
def test_errors_that_are_due_are_value_errors(each: Exercise) -> None:
    """Is every expected error a ValueError? Any other error would be ours, and a wrong answer might raise it too."""
    due = {case["expected"].get("error", "ValueError") for case in [*each.hidden_cases(0), *each.visible_cases()]}
    assert due <= {"ValueError"}


@pytest.mark.parametrize("name", ["attention", "self_attention", "attend", "rope", "patchify"])
def test_result_where_an_error_is_due_loses_the_point(name: str) -> None:
    """Does an answer that is right but refuses nothing lose exactly the points of cases with an error?"""
    (each,) = (exercises[name] for exercises in EXERCISES.values() if name in exercises)

    def refuses_nothing(*arguments):
        try:
            return each.oracle(*arguments)
        except ValueError:
            return (1 * arguments[0],) * len(each.names) if each.names else 1 * arguments[0]

    due = {stage for stage in each.stages for case in each.stage_cases(stage, 0) if "error" in case["expected"]}
    assert {*lost(each, refuses_nothing)} == due != set()


def test_mistakes_by_hand_are_all_of_exercise_1() -> None:
    """Does the list of changed words hold every mistake of the first assignment?"""
    assert {row[3] for row in BY_HAND["attention"]} == made_in(*EXERCISES["attention"].values())

"""Do the checks tell every known mistake from every correct answer, and say which it is? And can this proof fail?"""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from conftest import EXERCISES as NAMES
from conftest import FIRST_SEED_SOON, NAME, matrix_of

from autograder.authoring.build import ROOT, sources
from autograder.checks.attention.exercises import EXERCISES, check
from autograder.checks.attention.mistakes import MISTAKES
from autograder.checks.attention.right_answers import hide, refuse, swap
from autograder.judging import catalogue, compare, exercise
from autograder.judging.compare import fingerprint, judge, outcome
from autograder.judging.exercise import Exercise, exercises_of, right_answers_of
from autograder.judging.kill_matrix import Matrix, Verdict, kept_matrix, kill_matrix
from autograder.judging.mistake import Mistake, way

SEEDS = [0, 1, 2]
OTHERS = [source.stem for source in sources() if source.stem != "attention"]  # the other assignments' checks
# What applies to which exercise. M12 needs projections; softmax knows no scale and no mask.
SOFTMAX_MISTAKES = {"M1", "M2", "M3", "M4", "M5", "M14"}
SCALE_MISTAKES = {"M7", "M8", "M9", "M10"}
ATTENTION_MISTAKES = SOFTMAX_MISTAKES | SCALE_MISTAKES | {"M6", "M11", "M13", "M15", "M16", "M17", "M18", "M19", "M20"}
APPLY = {
    "softmax": SOFTMAX_MISTAKES | {"M6", "M15"},
    "attention": ATTENTION_MISTAKES,
    "self_attention": ATTENTION_MISTAKES | {"M12"},
    "attention_backward": SOFTMAX_MISTAKES | SCALE_MISTAKES | {"M6", "M11", "M15", "M65", "M66", "M67", "M68", "M69"},
}


def failures(matrix: Matrix) -> str:
    """Say in which cells a matrix is not whole."""
    lines = [
        f"{v.exercise}, {v.name}: {'named ' + str(v.failed) if v.killed else 'survives every check'}"
        for v in matrix.mutants
        if not (v.killed and v.named)
    ]
    lines += [
        f"{v.exercise}, correct answer {v.name!r}: fails {v.failed}, visible test {v.visible!r}"
        for v in matrix.correct
        if v.killed or v.visible != ""
    ]
    return "\n".join([f"seed {matrix.seed}:", *lines])


def numbers(each: Exercise) -> set[str]:
    """Return the mistakes that can be made in an exercise, without their ways."""
    return {mistake.split("/")[0] for mistake in each.mistakes()}


def verdicts(name: str, function: Callable, seed: int = SEEDS[0]) -> dict[str, AssertionError | None]:
    """Judge a function by every hidden stage; return the error of each stage, None where it passes."""
    return dict.fromkeys(EXERCISES[name].stages) | EXERCISES[name].failures(function, seed)


# ------------------------------------------------------------------------------------------------- the kill matrix


@pytest.mark.parametrize("seed", FIRST_SEED_SOON)
def test_kill_matrix_is_whole(seed: int) -> None:
    """Is every mutant killed and named, and does every correct answer pass, whatever the inputs?"""
    matrix = matrix_of(seed)
    assert matrix.whole, failures(matrix)


def test_kill_matrix_has_every_function() -> None:
    """Does the matrix leave out no mutant, no correct answer and no stage?"""
    matrix = matrix_of(SEEDS[0])
    assert [(v.exercise, v.name) for v in matrix.mutants] == [
        (e.name, n) for e in EXERCISES.values() for n in e.mistakes()
    ]
    assert [(v.exercise, v.name) for v in matrix.correct] == [
        (name, n) for name, answers in right_answers_of("attention").items() for n in answers
    ]
    failed = {(v.exercise, stage) for v in matrix.mutants for stage in v.failed}
    assert failed == {(e.name, stage) for e in EXERCISES.values() for stage in e.stages}, "a stage fails for no mutant"


def test_kill_matrix_to_dict_counts() -> None:
    """Do the numbers of --json agree with the table?"""
    matrix = matrix_of(SEEDS[0])
    values = matrix.to_dict()
    assert values["killed"] == values["named"] == len(values["mutants"]) == len(matrix.mutants)
    assert all(mutant["title"] == catalogue.TITLES[mutant["mistake"]] for mutant in values["mutants"])
    assert all(answer["passes"] for answer in values["correct"])


def test_kept_matrix_is_made_once_of_the_same_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Is a matrix read whole where it was made of the same, and made again for other inputs and other files?"""
    seeds = []

    def make(name: str, stem: str, seed: int, progress: Callable) -> Matrix:
        seeds.append(seed)
        return Matrix(
            name, stem, seed, [Verdict("softmax", "M3", {"extreme": "M3"}, "")], [Verdict("softmax", "loops")]
        )

    monkeypatch.setattr("autograder.judging.kill_matrix.MATRICES", tmp_path)
    monkeypatch.setattr("autograder.judging.kill_matrix.kill_matrix", make)
    assert kept_matrix(NAME, "attention", 0) == kept_matrix(NAME, "attention", 0) == make(NAME, "attention", 0, print)
    kept_matrix(NAME, "attention", 1)
    monkeypatch.setattr("autograder.judging.kill_matrix.files_behind", lambda *modules: {ROOT / "README.md"})
    kept_matrix(NAME, "attention", 1)
    assert seeds == [0, 0, 1, 1]


def proof_with(monkeypatch: pytest.MonkeyPatch, right: dict[str, Callable] | None = None, **changed) -> Matrix:
    """Return the kill matrix of softmax alone, with other right answers or something else changed about it."""
    changed_exercise = replace(EXERCISES["softmax"], **changed)
    monkeypatch.setattr("autograder.judging.kill_matrix.exercises_of", lambda stem: {"softmax": changed_exercise})
    if right is not None:
        monkeypatch.setattr("autograder.judging.kill_matrix.right_answers_of", lambda stem: {"softmax": right})
    return kill_matrix(NAME, "attention", SEEDS[0])


def test_proof_fails_when_the_checks_are_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof fail when the comparison tolerates everything?"""
    assert proof_with(monkeypatch).whole
    exercise._prepared.cache_clear()
    monkeypatch.setattr(compare, "TOLERANCE", {"rtol": 10, "atol": 10, "equal_nan": True})
    matrix = proof_with(monkeypatch)
    exercise._prepared.cache_clear()
    assert not matrix.whole
    assert any(not verdict.killed for verdict in matrix.mutants)


def test_proof_fails_when_a_stage_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does M3 survive, and the proof notice, when no check has large scores?"""
    stages = dict(EXERCISES["softmax"].stages)
    del stages["extreme"]
    matrix = proof_with(monkeypatch, stages=stages)
    assert not matrix.whole
    assert "M3" in {verdict.name for verdict in matrix.mutants if not verdict.killed}


def test_proof_fails_when_a_mutant_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof notice a mutant that is no mistake?"""
    nothing = Mistake("M8", way("softmax", "np.exp(shifted)", "np.exp(shifted)"))
    assert not proof_with(monkeypatch, known=(*MISTAKES, nothing)).whole


def test_proof_fails_when_a_mutant_is_named_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof notice two mistakes that give the same, so that neither can be named?"""
    whole_array = next(mistake for mistake in MISTAKES if mistake.name == "M5")
    matrix = proof_with(monkeypatch, known=(*MISTAKES, Mistake("M8", whole_array.ways[0])))
    assert not matrix.whole
    assert [verdict.name for verdict in matrix.mutants if verdict.killed and not verdict.named] == ["M5", "M8"]


def test_proof_fails_when_a_correct_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof notice that a correct answer loses points?"""
    off = {"off by 1 %": lambda scores, axis=-1: 1.01 * scipy.special.softmax(scores, axis=axis)}
    assert not proof_with(monkeypatch, right=off).whole


def test_proof_fails_when_the_visible_test_refuses_a_correct_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof notice that the visible test alone is wrong about a correct answer?"""
    picky = {
        "float64 only": lambda scores, axis=-1: scipy.special.softmax(np.where(scores == 3.0, 9.0, scores), axis=axis)
    }
    matrix = proof_with(monkeypatch, right=picky)
    assert not matrix.correct[0].killed
    assert not matrix.whole


# ----------------------------------------------------------------------------------- mutants, answers, catalogue


def test_exercises_are_the_four_of_the_book() -> None:
    """Does the module of checks hold the exercises of the assignment, in their order?"""
    assert tuple(exercises_of("attention")) == tuple(EXERCISES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_mutants_hold_every_mistake_that_applies(name: str) -> None:
    """Is each of M1 to M20 that can be made in an exercise among its mutants?"""
    assert APPLY[name] - numbers(EXERCISES[name]) == set()


def test_mutants_hold_m1_to_m20() -> None:
    """Is there a mutant for each mistake of the part on attention?"""
    made = set().union(*map(numbers, EXERCISES.values()))
    assert {f"M{number}" for number in range(1, 21)} <= made


def test_catalogue_has_words_for_every_mutant() -> None:
    """Does each mistake that a mutant makes, or a case names, have a title and a question?"""
    used = set().union(*map(numbers, EXERCISES.values()))
    for each in EXERCISES.values():
        for stage in (*each.stages.values(), each.visible):
            used |= {case.otherwise for case in stage(np.random.default_rng(0)) if case.otherwise}
    assert set(catalogue.TITLES) == set(catalogue.QUESTIONS) == set(catalogue.MESSAGES)
    of_others = {number for stem in OTHERS for each in exercises_of(stem).values() for number in numbers(each)}
    not_drawn = {
        mistake.name for mistake in catalogue.mistakes_of("debugging")
    }  # of programs that this class does not get
    assert used | of_others <= set(catalogue.TITLES) <= used | of_others | not_drawn, (
        "a mutant or words without the other"
    )
    for name in used:
        assert "?" in catalogue.QUESTIONS[name], f"{name} asks nothing"
        assert catalogue.MESSAGES[name].startswith(f"{name} ({catalogue.TITLES[name]}): ")


@pytest.mark.parametrize("name", NAMES)
def test_correct_answers_are_at_least_ten(name: str) -> None:
    """Are there ten correct answers that are not the answer, and no two the same function?"""
    others = {label: answer for label, answer in right_answers_of("attention")[name].items() if label != "answer"}
    assert len(others) >= 10
    assert len(set(others.values())) == len(others)


# Correct answers that stand in no list of the checks: points may not depend on being listed.


def softmax_by_tanh(scores, axis=-1):
    """Go through ratios of neighbours: p_i = 1 / Σ_j exp(s_j - s_i), the exponential written with tanh where it is small."""
    moved = np.moveaxis(np.array(scores, dtype=float), axis, -1)
    difference = np.clip(moved[..., None, :] - moved[..., :, None], -700, 700)
    half = np.tanh(np.clip(difference, -15, 15) / 2)
    exponential = np.where(np.abs(difference) < 15, (1 + half) / (1 - half), np.exp(difference))
    return np.moveaxis(1 / exponential.sum(-1), -1, axis)


def softmax_with_a_small_epsilon(scores, axis=-1):
    """Add a harmless 1e-12 to the sum."""
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + 1e-12)


def softmax_by_base_two(scores, axis=-1):
    """Change the base and back."""
    return scipy.special.softmax(np.asarray(scores, float) / np.log(2) * np.log(2), axis=axis)


def softmax_along_rows_of_a_table(scores, axis=-1):
    """Flatten to a table and go row by row."""
    moved = np.swapaxes(scores, axis, -1)
    table = moved.reshape(-1, moved.shape[-1])
    table = np.stack([np.exp(row - row.max()) / np.exp(row - row.max()).sum() for row in table])
    return np.swapaxes(table.reshape(moved.shape), axis, -1)


def read_only_softmax(scores, axis=-1):
    """Return an array in Fortran order that nobody may write to."""
    weights = np.asfortranarray(scipy.special.softmax(scores, axis=axis))
    weights.flags.writeable = False
    return weights


class MaskError(ValueError):
    """A student's own kind of ValueError."""


def attention_with_log_mask(queries, keys, values, mask=None):
    """Add the logarithm of the mask, which is 0 or -inf, and raise an error of one's own kind."""
    if mask is not None and (np.sum(mask, axis=-1) < 1).any():
        raise MaskError("a query looks at nothing")
    scores = np.einsum("...id,...jd->...ij", queries, keys) / queries.shape[-1] ** 0.5
    scores = scores if mask is None else scores + np.log(mask)
    weights = softmax_along_rows_of_a_table(scores)
    return np.einsum("...ij,...jv->...iv", weights, values), weights


def attention_with_a_finite_mask(queries, keys, values, mask=None):
    """Add the smallest finite number where the mask says no."""
    if mask is not None and not np.all(mask.max(axis=-1)):
        raise ValueError("a query looks at nothing")
    scores = (queries @ swap(keys)).astype(float) * (1 / np.sqrt(keys.shape[-1]))
    bias = np.zeros_like(scores)
    if mask is not None:
        bias = bias + np.where(mask == 0, np.finfo(scores.dtype).min, 0)
    weights = softmax_with_a_small_epsilon(scores + bias)
    return weights @ values, weights


def attention_row_by_row(queries, keys, values, mask=None):
    """Take one query at a time, with a product and a sum in place of a matrix product."""
    refuse(queries, keys, mask)
    rows = []
    for i in range(queries.shape[-2]):
        scores = (queries[..., i : i + 1, :] * keys).sum(-1) / np.sqrt(queries.shape[-1])
        if mask is not None:
            scores = hide(
                scores, np.broadcast_to(mask, (*scores.shape[:-1], queries.shape[-2], keys.shape[-2]))[..., i, :]
            )
        rows.append(scipy.special.softmax(scores, axis=-1))
    weights = np.stack(rows, axis=-2)
    return weights @ values, weights


def self_attention_through(attend):
    """Project with np.dot and attend with the given function."""

    def self_attention(tokens, w_query, w_key, w_value, mask=None):
        queries, keys, values = (np.dot(tokens, w) for w in (w_query, w_key, w_value))
        return attend(queries, keys, values, mask)

    return self_attention


def backward_by_finite_sums(grad_output, queries, keys, values):
    """Use the gradient of each score as the covariance under the weights of its row."""
    root = np.sqrt(queries.shape[-1])
    weights = scipy.special.softmax(queries @ swap(keys) / root, axis=-1)
    gain = grad_output @ swap(values)
    mean = np.einsum("...ij,...ij->...i", weights, gain)[..., None]
    covariance = (gain - mean) * weights / root
    return (
        np.einsum("...ij,...jd->...id", covariance, keys),
        np.einsum("...ij,...id->...jd", covariance, queries),
        np.einsum("...ij,...iv->...jv", weights, grad_output),
    )


UNSEEN_CORRECT = {
    "softmax": [
        softmax_by_tanh,
        softmax_with_a_small_epsilon,
        softmax_by_base_two,
        softmax_along_rows_of_a_table,
        read_only_softmax,
    ],
    "attention": [attention_with_log_mask, attention_with_a_finite_mask, attention_row_by_row],
    "self_attention": [self_attention_through(attend) for attend in (attention_with_log_mask, attention_row_by_row)],
    "attention_backward": [backward_by_finite_sums],
}


@pytest.mark.parametrize(("name", "function"), [(name, f) for name, fs in UNSEEN_CORRECT.items() for f in fs])
@pytest.mark.parametrize("seed", SEEDS)
def test_unseen_correct_answer_keeps_all_points(name: str, function: Callable, seed: int) -> None:
    """Does a correct answer that the checks have never seen pass, hidden and visible?"""
    lost = {stage: str(error) for stage, error in verdicts(name, function, seed).items() if error}
    assert lost == {}
    judge(function, EXERCISES[name].names, EXERCISES[name].prepare(EXERCISES[name].visible(None)), catalogue.MESSAGES)


# --------------------------------------------------------------------------- known mistakes, made by hand in the answers

ANSWERS = (ROOT / "solutions" / "attention.py").read_text(encoding="utf-8")
SHIFT, TOTAL = "scores - scores.max(axis=axis, keepdims=True)", "exponentials.sum(axis=axis, keepdims=True)"
SCALED, HIDE = " / np.sqrt(queries.shape[-1])  # (..., N_q, N_k)\n    if", "scores = np.where(mask, scores, -np.inf)"
ATTEND, OUTPUT = "weights = softmax(scores)", "return weights @ values, weights"
PROJECTED = "tokens @ w_query, tokens @ w_key, tokens @ w_value"
BACK = "(grad_weights - row_means) / np.sqrt(queries.shape[-1])"
# Exercise, what is replaced in the text of the answers, by what, and the mistake that this is, one change for each:
# written from the catalogue, without a look at the list of mistakes, so that one under a wrong name is noticed.
BY_HAND = [
    ("softmax", SHIFT, "np.clip(scores, 100, -100)", "M1"),
    ("softmax", SHIFT, "np.clip(scores, -100, 100)", "M2"),
    ("softmax", SHIFT, "scores", "M3"),
    ("softmax", TOTAL, "exponentials.sum(axis=1)", "M4"),
    ("softmax", TOTAL, "exponentials.sum()", "M5"),
    ("softmax", SHIFT, "scores - scores.max()", "M14"),
    ("softmax", TOTAL, "np.sum(np.exp(scores), axis, keepdims=True)", "M3"),
    ("attention", "-np.inf", "-1e4", "M18"),
    ("attention_backward", "-2) @ grad_output", "-2) @ grad_output * queries.shape[-1] ** -0.5", "M165"),
    (
        "softmax",
        "    shifted = " + SHIFT,
        "    scores -= scores.max(axis=axis, keepdims=True)\n    shifted = scores",
        "M15",
    ),
    ("attention", ATTEND, "weights = softmax(scores, axis=-2)", "M6"),
    ("attention", ATTEND, "weights = softmax(scores) / np.sqrt(queries.shape[-1])", "M7"),
    ("attention", SCALED, "\n    if", "M8"),
    ("attention", SCALED, " / np.sqrt(values.shape[-1])\n    if", "M9"),
    ("attention", SCALED, " / queries.shape[-1]\n    if", "M10"),
    ("attention", "queries @ np.swapaxes(keys, -1, -2)", "keys @ np.swapaxes(queries, -1, -2)", "M11"),
    ("attention", OUTPUT, "return weights @ keys, weights", "M13"),
    ("attention", HIDE, "scores = np.where(mask, -np.inf, scores)", "M16"),
    (
        "attention",
        f"        {HIDE}\n    {ATTEND}",
        f"        pass\n    {ATTEND} * (1 if mask is None else mask)",
        "M17",
    ),
    ("attention", HIDE, "scores = scores + mask", "M18"),
    ("attention", HIDE, "scores = np.where(mask[:, None] if mask.ndim == 3 else mask, scores, -np.inf)", "M19"),
    ("attention", "if not mask.any(axis=-1).all()", "if False", "M20"),
    ("attention", HIDE, "pass", "M71"),
    ("self_attention", PROJECTED, "tokens, tokens, tokens", "M12"),
    ("attention_backward", BACK, "(grad_weights - row_means)", "M65"),
    ("attention_backward", "(grad_weights - row_means)", "grad_weights", "M66"),
    ("attention_backward", "(weights * grad_weights).sum(axis=-1", "(weights * grad_weights).sum(axis=-2", "M67"),
    ("attention_backward", "np.swapaxes(grad_scores, -1, -2) @ queries", "grad_scores @ queries", "M68"),
    ("attention_backward", "np.swapaxes(weights, -1, -2) @ grad_output", "weights @ grad_output", "M69"),
    ("attention_backward", BACK, "(grad_weights - row_means) / queries.shape[-1]", "M70"),
]


@pytest.mark.parametrize(("name", "old", "new", "mistake"), BY_HAND, ids=[f"{row[0]}-{row[3]}" for row in BY_HAND])
def test_known_mistake_made_by_hand_is_named(name: str, old: str, new: str, mistake: str) -> None:
    """Does a mistake of the catalogue lose points and get its name, when it is made in the text of the answers?"""
    assert old in ANSWERS
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(ANSWERS.replace(old, new), namespace)
    named = {error.mistake for error in verdicts(name, namespace[name]).values() if error}
    assert named - {None} == {mistake}


def test_known_mistakes_by_hand_are_all_of_the_catalogue() -> None:
    """Does that list leave out no mistake?"""
    assert {row[3] for row in BY_HAND} == set().union(*map(numbers, EXERCISES.values()))


# ------------------------------------------------------------------------------------------- answers worth nothing


class EqualToAll:
    """An object that says yes to every comparison and passes for an array where it can."""

    shape, dtype, ndim, size = (4, 4), np.dtype(float), 2, 16

    def __eq__(self, other):
        return True

    def __array_function__(self, function, types, arguments, keywords):
        return True

    __hash__ = None


class AgreeableArray(np.ndarray):
    """An array that turns every NumPy function called on it into True."""

    def __array_function__(self, function, types, arguments, keywords):
        return True

    def __array_ufunc__(self, *arguments, **keywords):
        return True


def always(value) -> Callable:
    """Return a function that returns this value, whatever it is given."""
    return lambda *arguments, **keywords: value


def raises(error: Exception) -> Callable:
    """Return a function that raises this error, whatever it is given."""

    def function(*arguments, **keywords):
        raise error

    return function


def shaped(make: Callable) -> Callable[[str], Callable]:
    """Return, for the name of an exercise, a function whose results have the right shapes and entries from `make`."""

    def for_exercise(name: str) -> Callable:
        oracle, names = EXERCISES[name].oracle, EXERCISES[name].names

        def function(*arguments):
            arrays = outcome(oracle, arguments, names).get("arrays")
            if arrays is None:
                raise ValueError("as the specification says")
            results = tuple(make(array) for array in arrays.values())
            return results if len(names) > 1 else results[0]

        return function

    return for_exercise


GARBAGE: dict[str, Callable[[str], Callable]] = {
    "nothing": lambda name: always(None),
    "a number": lambda name: always(1.0),
    "an empty list": lambda name: always([]),
    "text": lambda name: always("0.5"),
    "an empty array": lambda name: always(np.array([])),
    "an array of objects": lambda name: always(np.array([None], dtype=object)),
    "an object that equals everything": lambda name: always(EqualToAll()),
    "two objects that equal everything": lambda name: always((EqualToAll(), EqualToAll())),
    "ValueError": lambda name: raises(ValueError("no")),
    "NotImplementedError": lambda name: raises(NotImplementedError()),
    "AssertionError": lambda name: raises(AssertionError("no")),
    "no arguments": lambda name: lambda: None,
    "the first argument": lambda name: lambda first, *rest, **keywords: first,
    "all the arguments": lambda name: lambda *arguments, **keywords: arguments,
    "as many first arguments as results": lambda name: lambda first, *rest: (first,) * len(EXERCISES[name].names),
    "lists": shaped(lambda array: array.tolist()),
    "zeros": shaped(np.zeros_like),
    "ones": shaped(np.ones_like),
    "uniform": shaped(lambda array: np.full(array.shape, 1 / array.shape[-1])),
    "NaN": shaped(lambda array: np.full(array.shape, np.nan)),
    "infinity": shaped(lambda array: np.full(array.shape, np.inf)),
    "noise": shaped(lambda array: np.random.default_rng(0).normal(size=array.shape)),
    "right to two digits": shaped(lambda array: np.round(array, 2)),
    "right but for a thousandth": shaped(lambda array: array * 1.001 + 1e-4),
    "right and transposed": shaped(lambda array: array.T if array.ndim > 1 else array[::-1]),
    "right with an axis too many": shaped(lambda array: array[None]),
    "right and flat": shaped(lambda array: np.r_[array.ravel(), 0.0]),
    "zeros that agree": shaped(lambda array: np.zeros(array.shape).view(AgreeableArray)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_gets_no_point(name: str, garbage: str) -> None:
    """Does what is no answer fail every stage, and is no mistake of the catalogue blamed on what returns nothing?"""
    found = verdicts(name, GARBAGE[garbage](name))
    assert [stage for stage, error in found.items() if error is None] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("garbage", ["nothing", "text", "ValueError", "noise"])
def test_garbage_is_not_named(name: str, garbage: str) -> None:
    """Is no mistake of the catalogue blamed on what is none of them?"""
    assert {error.mistake for error in verdicts(name, GARBAGE[garbage](name)).values()} == {None}


@pytest.mark.parametrize("name", NAMES)
def test_wrong_number_of_results_gets_no_point(name: str) -> None:
    """Do right arrays fail when one is missing or one is too many, with words that say how many came?"""
    oracle, names = EXERCISES[name].oracle, EXERCISES[name].names

    def too_many(*arguments):
        results = oracle(*arguments)
        return (*(results if isinstance(results, tuple) else (results,)), np.zeros(3))

    def one_missing(*arguments):
        results = oracle(*arguments)
        return results[:-1] if isinstance(results, tuple) else ()

    for function in (too_many, one_missing):
        for stage, error in verdicts(name, function).items():
            assert error is not None, stage
            assert f"expected {len(names)} array(s)" in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_memorised_visible_results_get_no_point(name: str) -> None:
    """Does an answer that knows the visible tests by heart, and nothing else, get nothing?"""
    cases = EXERCISES[name].prepare(EXERCISES[name].visible(None))
    known = {repr(case["arguments"]): case["expected"] for case in cases}

    def memorised(*arguments):
        expected = known.get(repr(arguments), {"error": "ValueError"})
        if "error" in expected:
            raise ValueError("no such test")
        results = tuple(expected["arrays"].values())
        return results if len(results) > 1 else results[0]

    judge(memorised, EXERCISES[name].names, cases, catalogue.MESSAGES)
    assert None not in verdicts(name, memorised).values()


# Mistakes that stand in no catalogue: each must cost points.
UNKNOWN_MISTAKES: dict[str, list[Callable]] = {
    "softmax": [
        lambda s, axis=-1: (
            np.exp(s - s.max(axis, keepdims=True))
            / (1 + np.exp(s - s.max(axis, keepdims=True)).sum(axis, keepdims=True))
        ),
        lambda s, axis=-1: scipy.special.softmax(s / 2, axis=axis),
        lambda s, axis=-1: scipy.special.softmax(-s, axis=axis),
        lambda s, axis=-1: scipy.special.log_softmax(s, axis=axis),
        lambda s, axis=-1: np.maximum(s, 0) / np.maximum(s, 1e-9).sum(axis, keepdims=True),
        lambda s, axis=-1: (s == s.max(axis, keepdims=True)).astype(float),
        lambda s, axis=-1: np.square(s) / np.square(s).sum(axis, keepdims=True),
        lambda s, axis=-1: scipy.special.softmax(np.round(s), axis=axis),
    ],
    "attention": [
        lambda q, k, v, mask=None: attention_row_by_row(
            q, k, v, None if mask is None else np.tri(*mask.shape[-2:]) > 0
        ),
        lambda q, k, v, mask=None: attention_row_by_row(q + 1, k, v, mask),
        lambda q, k, v, mask=None: attention_row_by_row(q, k, v - v.mean(axis=-2, keepdims=True), mask),
        lambda q, k, v, mask=None: attention_row_by_row(q, k[..., ::-1, :], v[..., ::-1, :], mask),
        lambda q, k, v, mask=None: (attention_row_by_row(q, k, v, mask)[0], np.zeros((*q.shape[:-1], k.shape[-2]))),
        lambda q, k, v, mask=None: attention_row_by_row(np.abs(q), k, v, mask),
    ],
    "self_attention": [
        lambda x, q, k, v, mask=None: attention_row_by_row(x @ q, x @ k, x @ np.abs(v), mask),
        lambda x, q, k, v, mask=None: attention_row_by_row(
            x @ q, (x - x.mean(-2, keepdims=True)) @ np.abs(k), x @ v, mask
        ),
        lambda x, q, k, v, mask=None: attention_row_by_row(x @ q, x @ k, x @ v, np.tri(x.shape[-2]) > 0),
    ],
    "attention_backward": [
        lambda g, q, k, v: tuple(-gradient for gradient in backward_by_finite_sums(g, q, k, v)),
        lambda g, q, k, v: tuple(2 * gradient for gradient in backward_by_finite_sums(g, q, k, v)),
        lambda g, q, k, v: backward_by_finite_sums(np.ones_like(g), q, k, v),
    ],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, fs in UNKNOWN_MISTAKES.items() for i in range(len(fs))]
)
def test_unknown_mistake_loses_points_and_gets_no_false_name(name: str, number: int) -> None:
    """Does a mistake that is in no catalogue cost points, and is it not called by another's name?"""
    found = {stage: error for stage, error in verdicts(name, UNKNOWN_MISTAKES[name][number]).items() if error}
    assert found
    assert {error.mistake for error in found.values()} == {None}


# ---------------------------------------------------------------------------------------------- two mistakes at once


def pair(name: str, one: str, other: str) -> Callable | None:
    """Return an answer that makes two mistakes: in their first ways that change different words, None if there are none."""
    each = EXERCISES[name]
    ways = [[way for way in each.mistakes() if way.split("/")[0] == number] for number in (one, other)]
    return next(filter(None, (each._both(*both) for both in product(*ways))), None)


def names_given(name: str, function: Callable) -> set[str]:
    """Return every mistake that the checks name."""
    errors = [error for error in verdicts(name, function).values() if error]
    return {mistake for error in errors if error.mistake for mistake in error.mistake.split("+")}


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("softmax", "M1", "M6"),
        ("softmax", "M5", "M15"),
        ("attention", "M6", "M8"),
        ("attention", "M8", "M11"),
        ("attention", "M5", "M10"),
        ("attention", "M8", "M13"),
        ("attention", "M11", "M13"),
        ("attention", "M8", "M17"),
        ("attention", "M6", "M16"),
        ("attention", "M15", "M17"),
        ("self_attention", "M8", "M13"),
        ("self_attention", "M6", "M12"),
        ("self_attention", "M8", "M11"),
        ("attention_backward", "M65", "M69"),
        ("attention_backward", "M66", "M69"),
        ("attention_backward", "M66", "M68"),
        ("attention_backward", "M8", "M67"),
        ("attention_backward", "M15", "M66"),
    ],
)
def test_two_mistakes_are_named_as_a_pair(name: str, one: str, other: str) -> None:
    """Do the checks of an answer with two mistakes name both, together or each where it shows alone, and no third?"""
    assert names_given(name, pair(name, one, other)) == {one, other}


@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_two_mistakes_never_make_a_third(name: str) -> None:
    """Do two mistakes at once, whichever they are, lose points, get at least one name, and never that of a third?

    One may hide the other, such as a missing scale, which shows in every case, large scores, which stand in the last.
    """
    wrong = {}
    for one, other in combinations(sorted(numbers(EXERCISES[name])), 2):
        function = pair(name, one, other)
        if function is None:  # both are made in the same words
            continue
        if not (given := names_given(name, function)) or not given <= {one, other}:
            wrong[one, other] = given
    assert wrong == {}


def test_two_mistakes_at_once_are_named_in_one_check() -> None:
    """Is a result that only two mistakes together explain named "M8+M11", in order of their numbers?"""
    error = verdicts("attention", pair("attention", "M11", "M8"))["weights"]
    assert error.mistake == "M8+M11"
    assert all(catalogue.MESSAGES[mistake] in str(error) for mistake in ("M8", "M11"))


# -------------------------------------------------------------------------------- what a student reads, and when


@pytest.mark.parametrize("name", NAMES)
def test_hidden_message_holds_no_expected_numbers(name: str) -> None:
    """Can the expected results not be read from what a hidden check says of any known mistake?

    Shapes, the largest difference and the extreme sums of the rows may be told, and no other number with a point.
    """
    each, seed = EXERCISES[name], SEEDS[0]
    for stage in each.stages:
        for mistake, function in each.mistakes().items():
            try:
                each.judge_stage(stage, function, seed)
            except AssertionError as error:
                seen = "".join(line for line in str(error).splitlines() if not re.match(r"M\d+ \(", line))
                seen = re.sub(r"off by up to \S+?[;.](?!\d)", "", seen)
                seen = re.sub(r"the rows sum to \S+ … \S+\.(?!\d)", "", seen)
                assert not re.search(r"\d\.|\.\d|\de|array\(|\nExpected|\ngot", seen), f"{stage}, {mistake}: {seen}"


@pytest.mark.parametrize("name", NAMES)
def test_visible_message_shows_both_results(name: str) -> None:
    """Does a visible test ask about the likely cause, and then show what it expected and what it got?"""
    each = EXERCISES[name]
    cases = each.prepare(each.visible(None))
    with pytest.raises(AssertionError) as caught:
        judge(each.mistakes()["M5"], each.names, cases, catalogue.MESSAGES)
    pattern = r"M5 \(normalised.*\nExpected\n( +[\d.e-]+ *\n?)+got\n( +[\d.e-]+\*? *\n?)+$"
    assert re.match(pattern, str(caught.value), re.DOTALL)
    assert "*" in str(caught.value).partition("\ngot\n")[2]


def test_message_of_a_wrong_shape_holds_both_shapes() -> None:
    """Does a wrong shape come with the expected and the given one?"""
    found = verdicts("softmax", lambda scores, axis=-1: np.zeros((2, 7)))
    assert "expected shape (4, 4), got (2, 7)" in str(found["values"])


def test_message_of_an_error_holds_it() -> None:
    """Is a student's own error passed on, with its text?"""
    found = verdicts("softmax", raises(IndexError("axis 7 is out of bounds")))
    assert "got IndexError: axis 7 is out of bounds" in str(found["values"])


def test_message_of_rows_holds_their_sums() -> None:
    """Does a failing check of weights say what the rows sum to?"""
    found = verdicts("softmax", lambda scores, axis=-1: 3 * scipy.special.softmax(scores, axis=axis))
    assert "the rows sum to 3 … 3" in str(found["values"])


def test_seed_gives_the_same_inputs() -> None:
    """Are the inputs of a check the same for one seed, and all others for another?"""
    for each in EXERCISES.values():
        for stage in each.stages:
            drawn = {}
            for round_, seed in enumerate([5, 5, 6]):
                exercise._prepared.cache_clear()
                drawn[round_] = [case["arguments"] for case in exercise._prepared(each, stage, seed)]
            for first, again, other in zip(*drawn.values(), strict=True):
                for one, same, different in zip(first, again, other, strict=True):
                    np.testing.assert_array_equal(one, same)
                    if isinstance(one, np.ndarray) and one.dtype != bool:  # a causal mask is the same every time
                        assert not np.array_equal(one, different), f"{each.name}, {stage}"


def test_seed_differs_between_stages() -> None:
    """Do two stages of one seed draw different inputs, so that one gives nothing away about another?"""
    arrays = [
        case["arguments"][0].tobytes()
        for each in EXERCISES.values()
        for stage in each.stages
        for case in exercise._prepared(each, stage, 5)
    ]
    assert len(set(arrays)) >= len(arrays) - 5, "only the six axes of one array share it"


def test_check_takes_the_seed_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a hidden test draw from AUTOGRADER_SEED, which the grader sets?"""
    seen = []

    def spy(scores, axis=-1):
        seen.append(scores.copy())
        return scipy.special.softmax(scores, axis=axis)

    for seed in ("21", "21", "22"):
        monkeypatch.setenv("AUTOGRADER_SEED", seed)
        check("softmax", "values", spy)
    first, again, other = seen[::4]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_run_seed_is_drawn_when_nobody_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a process without AUTOGRADER_SEED draw a seed once and keep it, as under plain nbgrader?"""
    monkeypatch.delenv("AUTOGRADER_SEED", raising=False)
    assert exercise.run_seed() == exercise.run_seed()


# --------------------------------------------------------------------------------------------- judging, in detail


def test_earlier_mistake_is_not_paid_for_twice() -> None:
    """Is attention judged with the correct softmax in place of a wrong one of the same notebook?"""
    namespace = {"__name__": "__main__", "np": np}
    exec(
        "def softmax(scores, axis=-1):\n    return scores\n"
        "def attention(queries, keys, values, mask=None):\n"
        "    if mask is not None and not mask.any(-1).all(): raise ValueError\n"
        "    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])\n"
        "    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))\n"
        "    return weights @ values, weights\n",
        namespace,
    )
    own = namespace["softmax"]
    assert set(verdicts("attention", namespace["attention"]).values()) == {None}
    assert namespace["softmax"] is own, "the student's own softmax was not put back"
    assert None not in verdicts("softmax", own).values()


def test_own_helper_with_other_arguments_is_used() -> None:
    """Does attention keep its points when it calls a softmax of its own kind, which ours cannot stand in for?"""
    namespace = {"__name__": "__main__", "np": np, "scipy": scipy}
    exec(
        "def softmax(scores, over, temperature):\n    return scipy.special.softmax(scores / temperature, axis=over)\n"
        "def attention(queries, keys, values, mask=None):\n"
        "    if mask is not None and not mask.any(-1).all(): raise ValueError\n"
        "    scores = queries @ np.swapaxes(keys, -1, -2)\n"
        "    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf), -1, queries.shape[-1] ** 0.5)\n"
        "    return weights @ values, weights\n",
        namespace,
    )
    assert set(verdicts("attention", namespace["attention"]).values()) == {None}


def test_outcome_hands_out_copies() -> None:
    """Does a function that changes its arguments leave the case as it was, so that the next is judged fairly?"""
    given = np.array([1.0, 2.0])

    def spoil(array):
        array[:] = 0
        return array

    got = outcome(spoil, (given,), ("weights",))
    np.testing.assert_array_equal(given, [1.0, 2.0])
    assert got["changed"]


def test_fingerprint_tells_orders_apart() -> None:
    """Do the same numbers in another order, a NaN and an infinity have other fingerprints?"""
    arrays = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, np.nan, 3.0], [1.0, np.inf, 3.0], [1.0, -np.inf, 3.0]]
    marks = [fingerprint({"arrays": {"weights": np.array(array)}, "changed": False})[0] for array in arrays]
    assert len({round(mark, 3) for mark in marks}) == len(arrays)


def test_exercises_break_symmetries() -> None:
    """Has every exercise a hidden case in which all sizes differ, so that no transposed or mistaken axis hides?"""
    for each in EXERCISES.values():
        cases: list[exercise.Case] = [
            case for stage in each.stages.values() for case in stage(np.random.default_rng(0))
        ]
        arrays = [a for case in cases for a in case.arguments if isinstance(a, np.ndarray) and a.ndim > 1]
        assert any(len(set(a.shape)) == a.ndim for a in arrays)
        assert all(isinstance(each, Exercise) for each in EXERCISES.values())
        assert not any(np.array_equal(a, np.eye(*a.shape[-2:])) for a in arrays if a.ndim == 2)

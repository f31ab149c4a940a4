"""Does a point need work? No stage of any exercise may pass an answer that does nothing."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from attention_tests.compare import judge, outcome
from conftest import ALL, lost
from torch import nn

from autograder.judge import catalogue, exercise
from autograder.judge.exercise import Exercise, exercises_of


def raising(kind: type[Exception]) -> Callable:
    """Return a function that always raises an error."""

    def function(*_, **__):
        raise kind("not yet")

    return function


def zeros(first, *_, **__):
    """Return zeros with the shape of the first argument."""
    return torch.zeros_like(first) if isinstance(first, torch.Tensor) else np.zeros_like(first)


def module(forward: Callable = lambda x: x, at_first: Callable = lambda: None) -> type:
    """Return a class without parameters that accepts any arguments."""

    class Module(nn.Module):
        def __init__(self, *_, **__):
            super().__init__()
            at_first()

        def forward(self, x, *_, **__):
            return forward(x)

    return Module


FUNCTIONS = {
    "None": lambda *_, **__: None,
    "a number": lambda *_, **__: 1.0,
    "a text": lambda *_, **__: "0.5",
    "an empty array": lambda *_, **__: np.array([]),
    "an array of objects": lambda *_, **__: np.array([None], dtype=object),
    "a tensor with a gradient": lambda *_, **__: torch.zeros(2, 3, requires_grad=True),
    "a layer": lambda *_, **__: nn.Linear(4, 4),
    "takes no argument": lambda: None,
    "its first argument": lambda first, *_, **__: first,
    "its first argument twice": lambda first, *_, **__: (first, first),
    "its first three arguments": lambda *arguments, **_: arguments[:3],
    "zeros": zeros,
    "zeros twice": lambda first, *_, **__: (zeros(first), zeros(first)),
    "a dict": lambda first, *_, **__: {"weights": first},
    **{f"raises {kind.__name__}": raising(kind) for kind in (ValueError, NotImplementedError)},
}
CLASSES = {
    "the identity": module(),
    "None": module(lambda x: None),
    "zeros": module(torch.zeros_like),
    "ones": module(torch.ones_like),
    "raises ValueError at first": module(at_first=raising(ValueError)),
    "raises ValueError": module(raising(ValueError)),
    "object": object,
}
ATTENTION = list(exercises_of("attention").values())
EXERCISES = {f"{stem}.{name}": each for stem in ALL.values() for name, each in exercises_of(stem).items()}


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge without searching names of mistakes and wrong lines, which takes longest."""
    monkeypatch.setattr(exercise, "_Fingerprints", lambda *_: {})
    monkeypatch.setattr(exercise, "with_line", lambda error, find: error)
    Exercise.stage_cases.cache_clear()
    yield
    Exercise.stage_cases.cache_clear()


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.few(12)
def test_trivial_answer_passes_no_stage(name: str, unnamed: None) -> None:
    """Does every stage fail for every answer that does no work, functions as well as classes?"""
    asked = EXERCISES[name]
    for answers in (FUNCTIONS, CLASSES):
        for what, answer in answers.items():
            assert set(asked.failures(answer, 0)) == set(asked.stages), what


# ------------------------------------------------------- exercise 1: results that are nearly right


def remade(make: Callable) -> Callable[[Exercise], Callable]:
    """Return a maker of functions for an exercise: `make` changes the list of right results."""

    def for_exercise(asked: Exercise) -> Callable:
        def function(*arguments):
            arrays = outcome(asked.oracle, arguments, asked.names).get("arrays")
            if arrays is None:
                raise ValueError("as the specification says")
            results = tuple(make(list(arrays.values())))
            return results if len(results) != 1 else results[0]

        return function

    return for_exercise


def shaped(make: Callable) -> Callable[[Exercise], Callable]:
    """Return a maker of functions for an exercise: their results have the right shapes, and entries from `make`."""
    return remade(lambda arrays: map(make, arrays))


REMADE: dict[str, Callable[[Exercise], Callable]] = {
    "lists": shaped(lambda array: array.tolist()),
    "uniform": shaped(lambda array: np.full(array.shape, 1 / array.shape[-1])),
    "NaN": shaped(lambda array: np.full(array.shape, np.nan)),
    "noise": shaped(lambda array: np.random.default_rng(0).normal(size=array.shape)),
    "right to two digits": shaped(lambda array: np.round(array, 2)),
    "right but for a thousandth": shaped(lambda array: array * 1.001 + 1e-4),
    "one too many": remade(lambda arrays: [*arrays, np.zeros(3)]),
    "one is missing": remade(lambda arrays: arrays[:-1]),
}


@pytest.mark.parametrize("asked", ATTENTION, ids=lambda asked: asked.name)
def test_nearly_right_results_pass_no_stage(asked: Exercise, unnamed: None) -> None:
    """Does every stage fail for results of the right shape, however close they are, and for right ones of a wrong number?"""
    for what, make in REMADE.items():
        assert set(asked.failures(make(asked), 0)) == set(asked.stages), what


@pytest.mark.parametrize("asked", ATTENTION, ids=lambda asked: asked.name)
@pytest.mark.few(1)
def test_trivial_answer_is_not_named(asked: Exercise) -> None:
    """Does a trivial answer get no mistake's name from the catalogue?"""
    for answer in (*(FUNCTIONS[what] for what in ("None", "a text", "raises ValueError")), REMADE["noise"](asked)):
        assert set(lost(asked, answer).values()) == {None}


@pytest.mark.parametrize("asked", ATTENTION, ids=lambda asked: asked.name)
def test_memorised_visible_results_get_no_point(asked: Exercise) -> None:
    """Does an answer that only stores the results of the visible tests get nothing?"""
    cases = asked.visible_cases()
    known = {repr(case["arguments"]): case["expected"] for case in cases}

    def memorised(*arguments):
        expected = known.get(repr(arguments), {"error": "ValueError"})
        if "error" in expected:
            raise ValueError("no such test")
        results = tuple(expected["arrays"].values())
        return results if len(results) > 1 else results[0]

    judge(memorised, asked.names, cases, catalogue.MESSAGES)
    assert set(lost(asked, memorised)) == set(asked.stages)

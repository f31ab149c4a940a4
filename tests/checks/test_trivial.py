"""Does a point need evidence of work: can no stage of any exercise be passed by an answer that does nothing?"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from conftest import ALL
from torch import nn

from autograder.judging import exercise
from autograder.judging.exercise import Exercise, exercises_of


def raising(kind: type[Exception]) -> Callable:
    """Return a function that raises an error, whatever it gets."""

    def function(*_, **__):
        raise kind("not yet")

    return function


def zeros(first, *_, **__):
    """Return zeros like the first argument."""
    return torch.zeros_like(first) if isinstance(first, torch.Tensor) else np.zeros_like(first)


def module(forward: Callable = lambda x: x, at_first: Callable = lambda: None) -> type:
    """Return a class without a parameter, that takes whatever it is made with."""

    class Module(nn.Module):
        def __init__(self, *_, **__):
            super().__init__()
            at_first()

        def forward(self, x, *_, **__):
            return forward(x)

    return Module


FUNCTIONS = {
    "None": lambda *_, **__: None,
    "its first argument": lambda first, *_, **__: first,
    "its last argument": lambda *arguments, **_: arguments[-1],
    "its first argument twice": lambda first, *_, **__: (first, first),
    "its first three arguments": lambda *arguments, **_: arguments[:3],
    "zeros": zeros,
    "zeros twice": lambda first, *_, **__: (zeros(first), zeros(first)),
    "two numbers": lambda *_, **__: (0.0, 0.0),
    "an empty dict": lambda *_, **__: {},
    "a dict": lambda first, *_, **__: {"weights": first},
    **{f"raises {kind.__name__}": raising(kind) for kind in (ValueError, TypeError, NotImplementedError)},
}
CLASSES = {
    "the identity": module(),
    "None": module(lambda x: None),
    "zeros": module(torch.zeros_like),
    "ones": module(torch.ones_like),
    "raises ValueError at first": module(at_first=raising(ValueError)),
    "raises ValueError": module(raising(ValueError)),
    "raises NotImplementedError": module(raising(NotImplementedError)),
    "object": object,
    "nn.Identity": nn.Identity,
}
EXERCISES = {f"{stem}.{name}": each for stem in ALL.values() for name, each in exercises_of(stem).items()}


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge without a look for names of mistakes, which takes longer than all else."""
    monkeypatch.setattr(exercise, "_Fingerprints", lambda *_: {})
    monkeypatch.setattr(Exercise, "_pair", lambda *_: None)
    exercise._prepared.cache_clear()
    yield
    exercise._prepared.cache_clear()


@pytest.mark.parametrize("name", EXERCISES)
def test_trivial_answer_passes_no_stage(name: str, unnamed: None) -> None:
    """Does every stage fail for every answer that does no work? Those of a function do for a class too, and conversely."""
    asked = EXERCISES[name]
    for answers in (FUNCTIONS, CLASSES):
        for what, answer in answers.items():
            assert set(asked.failures(answer, 0)) == set(asked.stages), what

"""What the grader makes of replies from a student's process."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from attention_tests.compare import outcome
from conftest import ALL, soon

from autograder.judge.exercise import Case, Exercise, exercises_of

LONG = 2**12
FORGED = (1, LONG), (LONG, 1)
EVERY = {each.name: each for stem in ALL.values() for each in exercises_of(stem).values()}
READING = [name for name, each in EVERY.items() if each.read.__name__ not in ("read_plainly", "read_tensors")]


def forged(value: Any, forged_ones: range, count: list[int]) -> Any:
    """Return a reply in which the arrays of these numbers are long rows and long columns by turns."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        count.append(len(count))
        if count[-1] not in forged_ones:
            return value
        shape = FORGED[len(count) % 2]
        return np.ones(shape) if isinstance(value, np.ndarray) else torch.ones(shape)
    if isinstance(value, dict):
        return {key: forged(item, forged_ones, count) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(forged(item, forged_ones, count) for item in value)
    return value


@pytest.mark.parametrize("name", soon(READING, *{*READING} - {"repair"}))
def test_forged_reply_does_not_grow_in_the_grader(name: str) -> None:
    """Does reading make nothing much larger than a reply whose arrays would broadcast to huge ones?"""
    each = EVERY[name]
    cases = {
        str(case["arguments"][0]): Case("", case["arguments"])  # one case for each thing that is asked for
        for case in (*each.visible_cases(), *each.hidden_cases(0))
        if "arrays" in case["expected"]
    }
    for case in cases.values():
        reply, count = reply_of(each, case), []
        forged(reply, range(0), count)
        for first in count:
            for forged_ones in (range(first, first + 2), range(first, len(count))):
                assert peak_of(each, case, forged(reply, forged_ones, [])) < LONG**2


def peak_of(each: Exercise, case: Case, reply: Any) -> int:
    """Return the largest number of bytes in use while a forged reply is read; every operation of PyTorch counts."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            made = function(*arguments, **(keywords or {}))
            for item in made if isinstance(made, (list, tuple)) else [made]:
                if isinstance(item, torch.Tensor) and not any(stride == 0 for stride in item.stride()):
                    Largest.found = max(Largest.found, 8 * item.numel())
            return made

    def read(*given: Any) -> Any:
        with Largest():
            return each.read(reply, *given)

    tracemalloc.start()
    try:
        outcome(read, case.arguments, each.names)
        return max(tracemalloc.get_traced_memory()[1], Largest.found)
    finally:
        tracemalloc.stop()


def reply_of(each: Exercise, case: Case) -> Any:
    """Return what the process of a right answer sends."""
    given = [np.array(argument) if np.ndim(argument) else argument for argument in case.arguments]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return each.ask(each.oracle, *each.given.values(), *given)

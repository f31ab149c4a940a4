"""Try properties on many generated examples, the same in each run."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

EXAMPLES = pytest.mark.parametrize("examples", [40, pytest.param(2000, marks=pytest.mark.deep)])


def fuzz(examples: int, strategy: st.SearchStrategy, holds: Callable[[Any], None]) -> None:
    """Try a property on this many examples, the same in each run."""
    settings(max_examples=examples, deadline=None, database=None, derandomize=True)(given(strategy)(holds))()


def steps(action: Callable[[], Any]) -> int:
    """Count the calls of Python and C functions that an action makes."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # garbage collection would add calls that the action does not make
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count

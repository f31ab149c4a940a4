"""Trying something on many made-up examples, the same at each run."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

EXAMPLES = pytest.mark.parametrize("examples", [100, pytest.param(2000, marks=pytest.mark.deep)])


def fuzz(examples: int, strategy: st.SearchStrategy, holds: Callable[[Any], None]) -> None:
    """Try something on so many examples, the same at each run."""
    settings(max_examples=examples, deadline=None, database=None, derandomize=True)(given(strategy)(holds))()


def steps(action: Callable[[], Any]) -> int:
    """Count the calls that an action makes, of Python's functions and of C's."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # which calls what others asked it to
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count

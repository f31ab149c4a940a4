"""Try properties on many generated examples, the same in each run."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

EXAMPLES = pytest.mark.parametrize("examples", [40, pytest.param(2000, marks=pytest.mark.deep)])


def fuzz(examples: int, strategy: st.SearchStrategy, holds: Callable[[Any], None]) -> None:
    """Try a property on this many examples, the same in each run."""
    settings(max_examples=examples, deadline=None, database=None, derandomize=True)(given(strategy)(holds))()

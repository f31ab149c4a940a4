"""What a function or class of the student's offers to a test, wherever it runs. Nothing outside this folder asks for more.

Our answers and mistakes are plain functions; the student's are likenesses (`proxy.Function`).
"""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Likeness:
    """A function or class that is in the student's notebook; subclasses say how it is reached."""

    def sibling(self, name: str) -> "Likeness":
        """Return another function or class of the same notebook."""
        raise NotImplementedError

    def measured_by(self, measure: Function, *arguments: Any) -> Any:
        """Run a function of ours next to this one, with it and plain values; return what it finds."""
        raise NotImplementedError

    def recorder(self, left_alone: list[str]) -> Any:
        """Return what records the values of the notebook's functions while it is entered, as `recorder.Recorder`.

        Args:
            left_alone: Names of functions and classes whose inside is not recorded.
        """
        raise NotImplementedError

    def try_on(self, candidate: Function) -> None:
        """Call this function, a test, with a function of ours. Its value is dropped, and the notebook does not remember it."""
        raise NotImplementedError

    def replaced(self, correct: dict[str, Function]) -> Any:
        """Return a context in which this function uses functions of ours instead of the student's own."""
        raise NotImplementedError


def try_on(test: Function, candidate: Function) -> None:
    """Call a test with a function of ours, wherever the test stands."""
    test.try_on(candidate) if isinstance(test, Likeness) else test(candidate)


def next_to(function: Function, name: str, ours: Function) -> Function:
    """Return what has that name in the notebook in which a function stands; ours, if it is in none."""
    return function.sibling(name) if isinstance(function, Likeness) else ours


def where_it_runs(measure: Function) -> Function:
    """Return a measure, whose first argument is a function, that runs where that function does."""

    def measured(function: Function, *arguments: Any) -> Any:
        if isinstance(function, Likeness):
            return function.measured_by(measure, *arguments)
        return measure(function, *arguments)

    return measured

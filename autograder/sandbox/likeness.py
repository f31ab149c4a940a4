"""The interface by which a test uses a student's function or class, wherever the student's code runs.

Code outside this folder uses only this interface. Our answers and mistakes are plain functions; a student's functions
are likenesses (`proxy.Function`).
"""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Likeness:
    """A function or class in the student's notebook; subclasses say how it is reached."""

    def sibling(self, name: str) -> "Likeness":
        """Return another function or class of the same notebook."""
        raise NotImplementedError

    def asked(self, ask: Function, *arguments: Any) -> Any:
        """Run `ask`, a function of the visible tests' package, where the student's function runs; return its values.

        It gets the student's function, other functions of the same notebook, and plain values.
        """
        raise NotImplementedError

    def recorder(self, left_alone: list[str]) -> Any:
        """Return a recorder like `recorder.Recorder`: within `with`, it records the values of the notebook's functions.

        Args:
            left_alone: Names of functions and classes whose inside is not recorded.
        """
        raise NotImplementedError

    def try_on(self, candidate: Function) -> None:
        """Call this function, a student's test, with a function of ours.

        The test's value is dropped, and the notebook's names are restored.
        """
        raise NotImplementedError

    def replaced(self, correct: dict[str, Function]) -> Any:
        """Return a context in which this function uses functions of ours instead of the student's own."""
        raise NotImplementedError


def try_on(test: Function, candidate: Function) -> None:
    """Call a test with a function of ours, wherever the test runs."""
    test.try_on(candidate) if isinstance(test, Likeness) else test(candidate)


def next_to(function: Function, name: str, ours: Function) -> Function:
    """Return the function or class of this name in the notebook of `function`; `ours` if there is no notebook."""
    return function.sibling(name) if isinstance(function, Likeness) else ours


def where_it_runs(ask: Function) -> Function:
    """Return a function that asks at the place where its first argument, an answer, runs."""

    def asked(function: Function, *arguments: Any) -> Any:
        return function.asked(ask, *arguments) if isinstance(function, Likeness) else ask(function, *arguments)

    return asked

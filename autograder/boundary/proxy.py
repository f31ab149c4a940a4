"""A student's function as it looks to a test: called here, run in the sandbox, its values brought back."""

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograder.boundary.kernel import BadReply
from autograder.boundary.wire import Foreign

class GraderFault(BaseException):
    """Our side failed, not the student's; no `except Exception` of a test may take it for an error of the student's."""


Call = Callable[[dict[str, Any], dict[str, Callable[..., Any]]], dict[str, Any]]


class Function:
    """Behaves like the student's function of this name: returns its values, raises its errors, changes its arguments."""

    def __init__(self, name: str, call: Call) -> None:
        self.__name__, self._call = name, call
        self._correct: dict[str, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        request = {"name": self.__name__, "arguments": list(arguments), "keywords": keywords}
        try:
            reply = self._call(request, self._correct)
        except BadReply:
            raise
        except Exception as error:
            raise GraderFault(f"calling {self.__name__}: {type(error).__name__}: {error}") from error
        if "error" in reply:
            raise _error(reply)
        if isinstance(reply.get("arguments"), list):
            for argument, left in zip(arguments, reply["arguments"]):
                if isinstance(argument, np.ndarray) and isinstance(left, np.ndarray) and argument.shape == left.shape:
                    argument[...] = left
        return _own(reply.get("value"), self.__name__)

    @contextmanager
    def replaced(self, correct: dict[str, Callable[..., Any]]) -> Iterator[None]:
        """Let the student's function use these functions of the grader in place of the student's own."""
        self._correct = correct
        try:
            yield
        finally:
            self._correct = {}


def _own(value: Any, name: str) -> Any:
    """Refuse what could not cross, wherever it stands in the value."""
    if isinstance(value, Foreign):
        raise TypeError(f"{name} returned a {value.name}; only numbers, strings, arrays, tensors and containers of these can be judged")
    if isinstance(value, (list, tuple)):
        return type(value)(_own(item, name) for item in value)
    if isinstance(value, dict):
        return {_own(key, name): _own(item, name) for key, item in value.items()}
    return value


def _error(reply: dict[str, Any]) -> Exception:
    """Return the student's error as the nearest exception that Python itself has, with its text and line."""
    names = [name for name in reply["error"] if isinstance(name, str)] if isinstance(reply["error"], list) else []
    kinds = [getattr(builtins, name, None) for name in names]
    kind = next((k for k in kinds if isinstance(k, type) and issubclass(k, Exception)), RuntimeError)
    text, line = str(reply.get("text", ""))[:2000], str(reply.get("line", ""))[:200]
    text = f"{text} ({line})" if line else text
    if names and names[0] != kind.__name__:
        text = f"{names[0][:100]}: {text}"
    try:
        return kind(text)
    except TypeError:  # such as UnicodeDecodeError, which takes five arguments
        return RuntimeError(text)

"""A student's answer as the grader sees it: a question runs in the sandbox, and values return."""

import builtins
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import torch
from attention_tests.compare import ask_plainly

from autograder.sandbox.guest.wire import Foreign


class GraderFault(BaseException):
    """Our side failed, not the student's; no `except Exception` of a test may take it for a student's error."""


Call = Callable[[dict[str, Any], Callable[..., Any] | None], dict[str, Any]]


class Answer:
    """A function or class of a student's notebook, by its name.

    Args:
        name: The name.
        call: Sends a request, with a function of ours for which the student's function may ask; returns the reply.
    """

    def __init__(self, name: str, call: Call) -> None:
        self.__name__, self.call = name, call
        self.replacements: dict[str, list[str]] = {}  # module and name of a function of ours, by the name it replaces

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the student's function with plain values; or a student's test with a candidate, which stays here.

        Each trial of a candidate has a process and a random seed of its own, so nothing tells the test which trial it is.
        """
        if len(arguments) == 1 and isinstance(arguments[0], FunctionType):
            self._send("try", arguments[0], alone=True, draw=secrets.randbits(31))
            return None
        return self.asked(ask_plainly, *arguments, **keywords)

    def asked(self, ask: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Run `ask`, a function of the visible tests' package, in the sandbox; return its values.

        Args:
            ask: A function that gets the student's function, other functions of the same notebook, and plain values.
            arguments: The other functions, as answers, and then the values.
            keywords: More values.

        Raises:
            Exception: the student's code raised an error; this is the nearest built-in exception.
            GraderFault: our side failed.
        """
        others = [item.__name__ for item in arguments if isinstance(item, Answer)]
        values = [item for item in arguments if not isinstance(item, Answer)]
        content = {"module": ask.__module__, "ask": ask.__name__, "others": others}
        reply = self._send("ask", arguments=values, keywords=keywords, **content)
        _copy_back(values, reply.get("arguments"))
        return self._plain(reply.get("value"))

    def sibling(self, name: str) -> "Answer":
        """Return another function or class of the same notebook; it uses the same replaced functions as this one."""
        other = Answer(name, self.call)
        other.replacements = self.replacements
        return other

    def find_line(
        self,
        others: list["Answer"],
        ask: Callable[..., Any],
        read: Callable[..., Any],
        names: Sequence[str],
        case: dict[str, Any],
        left_alone: list[str],
    ) -> Any:
        """Run `line.find_line` in the sandbox, in a process of its own; arguments as there. It may return any plain value.

        No points depend on it, so losing a kernel here costs nothing.
        """
        asked = {"module": ask.__module__, "ask": ask.__name__, "reads": read.__module__, "read": read.__name__}
        content = asked | {"others": [other.__name__ for other in others], "names": list(names)}
        content |= {"case": case, "left_alone": left_alone, "alone": True, "extra": True}
        return self._send("find", **content).get("value")

    @contextmanager
    def replaced(self, correct: dict[str, Callable[..., Any]]) -> Iterator[None]:
        """Let the student's function use functions and classes of ours, which the sandbox can import, instead of its own."""
        self.replacements = {name: [each.__module__, each.__qualname__] for name, each in correct.items()}
        try:
            yield
        finally:
            self.replacements = {}

    def _send(self, do: str, candidate: Callable[..., Any] | None = None, **content: Any) -> dict[str, Any]:
        """Send a request; return the reply, or raise the student's error. `do` is what the agent in `inside.py` does."""
        request = {"do": do, "function": self.__name__, "replaced": self.replacements} | content
        try:
            reply = self.call(request, candidate)
        except Exception as error:
            raise GraderFault(f"calling {self.__name__}: {type(error).__name__}: {error}") from error
        if "error" in reply:
            raise _error(reply)
        return reply

    def _plain(self, value: Any) -> Any:
        """Return a value from the sandbox; refuse one that could not cross completely."""
        if isinstance(value, Foreign):
            wanted = "numbers, strings, arrays, tensors, or containers of these"
            raise TypeError(f"{self.__name__} returned a {value.name}; expected {wanted}")
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._plain, value))
        if isinstance(value, dict):
            return {self._plain(key): self._plain(item) for key, item in value.items()}
        return value


def _copy_back(arguments: Sequence[Any], left: Any) -> None:
    """Let the caller see how a call has changed its arguments."""
    for argument, after in zip(arguments, left if isinstance(left, list) else []):
        if isinstance(argument, np.ndarray) and isinstance(after, np.ndarray) and argument.shape == after.shape:
            argument[...] = after
        if isinstance(argument, torch.Tensor) and isinstance(after, torch.Tensor):
            fits = argument.shape == after.shape and argument.dtype == after.dtype
            if fits and not torch.equal(argument, after):
                argument.data.copy_(after)


def _error(reply: dict[str, Any]) -> Exception:
    """Return the student's error as the nearest built-in exception, with its text and line."""
    names = reply["error"]
    kinds = [getattr(builtins, name, None) for name in names]
    kind = next((k for k in kinds if isinstance(k, type) and issubclass(k, Exception)), RuntimeError)
    unwritten = reply.get("unwritten")
    if names[:1] == ["NotImplementedError"] and isinstance(unwritten, list) and len(unwritten) == 2:
        error = NotImplementedError()
        error.unwritten = [str(name)[:100] for name in unwritten]
        return error
    text, line = str(reply.get("text", ""))[:2000], str(reply.get("line", ""))[:200]
    if names[:1] == ["NotImplementedError"] and not text:
        text = "the template's line is still there; delete it"
    text = f"{text} ({line})" if line else text
    if names and names[0] != kind.__name__:
        text = f"{names[0][:100]}: {text}"
    try:
        return kind(text)
    except TypeError:  # such as UnicodeDecodeError, which takes five arguments
        return RuntimeError(text)

"""Proxies of a student's functions and classes: a test calls them here, they run in the sandbox, and values return."""

import builtins
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import torch

from autograder.sandbox.guest.wire import MAX_BYTES, MAX_PARTS, Foreign, Handle, dumps
from autograder.sandbox.likeness import Likeness

MAX_MODULES = 16  # modules in one returned value
# The types that cross, in addition to lists and tuples.
PLAIN = (type(None), bool, int, float, str, dict, np.ndarray, np.generic, torch.Tensor)


class BadReply(Exception):
    """The student's kernel gave an answer that does not fit the request."""


class GraderFault(BaseException):
    """Our side failed, not the student's; no `except Exception` of a test may take it for a student's error."""


Call = Callable[[dict[str, Any], dict[str, Callable[..., Any]]], dict[str, Any]]


class _Remote:
    """Sends requests about one target in the sandbox, and turns the replies into what a test expects."""

    def __init__(self, call: Call, name: str) -> None:
        self.call, self.name = call, name
        self.correct: dict[str, Callable[..., Any]] = {}
        self.modules_left = MAX_MODULES  # modules that the value being read may still hold
        self.extra = False  # whether the request decides no result, so that losing a kernel costs nothing

    def ask(self, do: str, callbacks: dict[str, Callable[..., Any]] | None = None, **content: Any) -> dict[str, Any]:
        """Send a request; return the reply, or raise the student's error.

        Args:
            do: What the agent in `inside.py` does.
            callbacks: Our functions, by name, whose values the student's function may ask for while it runs.
            content: The request's content.

        Raises:
            Exception: the student's code raised an error; this is the nearest built-in exception.
            BadReply: values from the sandbox are too large to be sent back.
            GraderFault: our side failed.
        """
        try:
            reply = self.call({"do": do, "extra": self.extra} | content, self.correct | (callbacks or {}))
        except Exception as error:
            theirs = content.get("modules"), content.get("gradients")
            if isinstance(error, ValueError) and not _leaves_room(theirs):
                raise BadReply(f"{self.name}, or what it returned, is larger than half of the limit") from None
            raise GraderFault(f"calling {self.name}: {type(error).__name__}: {error}") from error
        if "error" in reply:
            raise _error(reply)
        return reply

    def run(
        self,
        target: str | Handle,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        module: "Module | None" = None,
        **more: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Call the target; gradients flow back across the boundary if a tensor on this side requires them.

        Some modules of the sandbox take part: the target, and those among the arguments. Before the call, each of them
        gets the values of its likeness on this side.

        Args:
            target: A name, or the handle of a module.
            arguments: The call's arguments.
            keywords: The call's keyword arguments.
            module: The likeness of the target, if it is a module.
            more: More of the request: "draw", a seed for random numbers, and "forgotten", whether the value is dropped
                and the notebook's names are restored.
        """
        inputs = [
            index for index, item in enumerate(arguments) if isinstance(item, torch.Tensor) and item.requires_grad
        ]
        modules = {
            m.top.handle.number: m.top for m in (module, *arguments, *keywords.values()) if isinstance(m, Module)
        }
        parameters = [parameter for _, parameter in sorted(module.top.named_parameters())] if module is not None else []
        leaves = [arguments[index] for index in inputs] + parameters
        callbacks = {place: item for place, item in enumerate(arguments) if isinstance(item, FunctionType)}
        request = {
            "target": target,
            "stand_ins": list(callbacks),
            "arguments": [_crossing(item) for item in arguments],
            "keywords": {key: _crossing(item) for key, item in keywords.items()},
            "modules": [[number, top.values(), top.modes()] for number, top in modules.items()],
            "differentiable": inputs,
            "gradient": torch.is_grad_enabled(),
            **more,
        }
        reply = self.ask("call", {f"argument {place}": function for place, function in callbacks.items()}, **request)
        _copy_back(arguments, reply.get("arguments"))
        self.modules_left = MAX_MODULES
        value = self.own(reply.get("value"))
        graph = reply.get("graph")
        outputs = value if isinstance(value, (tuple, list)) else [value]
        tensors = [item for item in outputs if isinstance(item, torch.Tensor)]
        if isinstance(graph, list) and len(graph) == len(tensors) and any(leaf.requires_grad for leaf in leaves):
            linked = iter(
                _Link.apply(self, reply["id"], [flag is True for flag in graph], len(leaves), *leaves, *tensors)
            )
            linked = [next(linked) if isinstance(item, torch.Tensor) else item for item in outputs]
            value = type(value)(linked) if isinstance(value, (tuple, list)) else linked[0]
        return value, reply

    def own(self, value: Any) -> Any:
        """Replace each handle in a value by a module, and refuse a value that could not cross completely."""
        if isinstance(value, Foreign):
            raise TypeError(
                f"{self.name} returned a {value.name}; expected numbers, strings, arrays, tensors, or containers of these"
            )
        if isinstance(value, Handle):
            self.modules_left -= 1
            if self.modules_left < 0:
                raise TypeError(f"{self.name} returned more than {MAX_MODULES} modules")
            return Module.like(self, value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.own(item) for item in value)
        if isinstance(value, dict):
            return {self.own(key): self.own(item) for key, item in value.items()}
        return value


def _leaves_room(theirs: Any) -> bool:
    """Whether the student's values fill at most half of a message, which leaves enough room for ours."""
    try:
        return len(dumps(theirs)) <= MAX_BYTES / 2
    except ValueError:
        return False


def _crossing(value: Any) -> Any:
    """Return a value as it crosses: a module of the sandbox as its handle, and a function of ours as None.

    Raises:
        GraderFault: a value of ours is of a type that cannot cross.
    """
    if isinstance(value, FunctionType):
        return None
    if isinstance(value, Module):
        return value.handle
    if type(value) in (list, tuple):
        return type(value)(_crossing(item) for item in value)
    if not isinstance(value, PLAIN):
        raise GraderFault(f"a {type(value).__name__} cannot be passed to the student's function")
    return value


class Function(Likeness):
    """Behaves like the student's function or class: returns its values, raises its errors, changes its arguments."""

    def __init__(self, name: str, call: Call) -> None:
        self.__name__, self._remote = name, _Remote(call, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the student's function with plain values. Stand-ins that ask us for values replace our functions."""
        return self._remote.run(self.__name__, arguments, keywords)[0]

    def try_on(self, candidate: Callable[..., Any]) -> None:
        """Call the student's test with a function of ours; it raises what `_Remote.ask` raises.

        Each call has a new random seed, so random numbers do not tell the student's code which call it is.
        """
        self._remote.run(self.__name__, (candidate,), {}, draw=secrets.randbits(31), forgotten=True)

    def sibling(self, name: str) -> "Function":
        """Return another function or class of the same notebook; it uses the same replaced functions as this one."""
        other = Function(name, self._remote.call)
        other._remote.correct = self._remote.correct
        return other

    def asked(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Run `ask`, a function of the visible tests' package, in the sandbox; return its values.

        Args:
            ask: A function that gets the student's function, other functions of the same notebook, and plain values.
            arguments: The other functions, as likenesses, and then the values.
        """
        others = [item.__name__ for item in arguments if isinstance(item, Function)]
        values = [item for item in arguments if not isinstance(item, Function)]
        content = {"module": ask.__module__, "ask": ask.__name__, "function": self.__name__, "others": others}
        reply = self._remote.ask("ask", **content, arguments=[_crossing(item) for item in values])
        _copy_back(values, reply.get("arguments"))
        return self._remote.own(reply.get("value"))

    def recorder(self, left_alone: list[str]) -> "_RemoteRecorder":
        """Return a recorder in the sandbox: within `with`, it records the values of the notebook's functions."""
        return _RemoteRecorder(self._remote, left_alone)

    @contextmanager
    def replaced(self, correct: dict[str, Callable[..., Any]]) -> Iterator[None]:
        """Let the student's function use these functions of the grader instead of the student's own."""
        self._remote.correct = correct
        try:
            yield
        finally:
            self._remote.correct = {}


class _RemoteRecorder:
    """A `Recorder` in the sandbox; if it does not answer, its record is empty."""

    def __init__(self, remote: _Remote, left_alone: list[str]) -> None:
        self._remote, self._left_alone, self._record = remote, left_alone, {}

    def __enter__(self) -> "_RemoteRecorder":
        self._remote.extra = True
        self._ask(True)
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._record = self._ask(False)
        finally:
            self._remote.extra = False

    def record(self) -> Any:
        """Return the record, which may hold any plain values."""
        return self._record

    def _ask(self, on: bool) -> Any:
        try:
            return self._remote.ask("record", target=self._remote.name, on=on, left_alone=self._left_alone).get("value")
        except Exception:
            return None


def _copy_back(arguments: Sequence[Any], left: Any) -> None:
    """Let the caller see how a call has changed its arguments."""
    for argument, after in zip(arguments, left if isinstance(left, list) else []):
        if isinstance(argument, np.ndarray) and isinstance(after, np.ndarray) and argument.shape == after.shape:
            argument[...] = after
        if isinstance(argument, torch.Tensor) and isinstance(after, torch.Tensor):
            fits = argument.shape == after.shape and argument.dtype == after.dtype
            if fits and not torch.equal(argument, after):
                argument.data.copy_(after)


class Module(torch.nn.Module):
    """The likeness of a module in the sandbox: parts, parameters and buffers of the same names, and a remote forward.

    `state_dict`, `load_state_dict`, `parameters`, `named_modules`, `train`, `eval` and optimisers are PyTorch's own and
    work on the likeness; before each call the sandbox's module gets its values.
    """

    def __init__(self, remote: _Remote, handle: Handle) -> None:
        super().__init__()
        self.handle = handle
        object.__setattr__(self, "_remote", remote)
        object.__setattr__(self, "top", self)

    def __eq__(self, other: object) -> bool:
        """Two likenesses are equal if they refer to the same module."""
        return isinstance(other, Module) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[Call, int, str]:
        return self._remote.call, self.handle.number, self.handle.path

    @classmethod
    def like(cls, remote: _Remote, handle: Handle) -> "Module":
        """Build the likeness of a module; its class, and those of its parts, have the same names as in the sandbox.

        Raises:
            BadReply: the sandbox's description fits no module.
        """
        about = handle.description
        try:
            if max(len(about[each]) for each in ("modules", "shared", "parameters", "buffers")) > MAX_PARTS:
                raise ValueError(f"more than {MAX_PARTS} parts or parameters")
            top = _class_of(about["modules"][""])(remote, Handle(handle.number, handle.path))
            parts: dict[str, Module] = {"": top}
            for path, kind in about["modules"].items():
                if path:
                    parent, _, name = path.rpartition(".")
                    part = _class_of(kind)(remote, Handle(handle.number, path))
                    object.__setattr__(part, "top", top)
                    parts[parent]._modules[name] = part  # add_module refuses names of this class, such as "values"
                    parts[path] = part
                parts[path].training = about["training"][path] is True
            made = {
                name: torch.nn.Parameter(value, requires_grad=about["trainable"][name] is True)
                for name, value in about["parameters"].items()
            }
            for name, first in about["shared"].items():
                parent, _, own = name.rpartition(".")
                parts[parent]._parameters[own] = made[first]
            for name, value in about["buffers"].items():
                parent, _, own = name.rpartition(".")
                parts[parent]._buffers[own] = value.detach()
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise BadReply(f"the reply describes no module: {error}") from None
        return top

    def values(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers by name."""
        return {name: value.detach() for name, value in (*self.named_parameters(), *self.named_buffers())}

    def modes(self) -> dict[str, bool]:
        """Return which parts are in training mode."""
        return {path: part.training for path, part in self.named_modules()}

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the sandbox's module on plain values."""
        value, reply = self._remote.run(self.handle, arguments, keywords, self)
        buffers = reply.get("buffers")
        for name, buffer in self.top.named_buffers():
            new = buffers.get(name) if isinstance(buffers, dict) else None
            if isinstance(new, torch.Tensor) and new.shape == buffer.shape:
                buffer.copy_(new)
        return value


def _class_of(kind: Any) -> type[Module]:
    """Return a class of likenesses that has the name of a module's class in the sandbox, such as "Linear"."""
    return type(kind if isinstance(kind, str) else "Module", (Module,), {})  # str(kind) may take minutes


class _Link(torch.autograd.Function):
    """Joins the graph on this side to the one in the sandbox: forward returns the values, backward asks the sandbox."""

    @staticmethod
    def forward(ctx, remote, graph, flags, count, *tensors):
        ctx.remote, ctx.graph, ctx.shapes = remote, graph, [tensor.shape for tensor in tensors[:count]]
        ctx.rest = len(tensors) - count
        outputs = tuple(tensor.clone() for tensor in tensors[count:])
        ctx.mark_non_differentiable(*(output for output, flag in zip(outputs, flags) if not flag))
        return outputs

    @staticmethod
    def backward(ctx, *gradients):
        reply = ctx.remote.ask("backward", graph=ctx.graph, gradients=list(gradients))
        at_leaves = reply.get("gradients")
        if not isinstance(at_leaves, list) or len(at_leaves) != len(ctx.shapes):
            raise BadReply("the reply's gradients do not fit")
        for gradient, shape in zip(at_leaves, ctx.shapes):
            if gradient is not None and (not isinstance(gradient, torch.Tensor) or gradient.shape != shape):
                raise BadReply("a gradient in the reply has another shape")
        return None, None, None, None, *at_leaves, *([None] * ctx.rest)


def _error(reply: dict[str, Any]) -> Exception:
    """Return the student's error as the nearest built-in exception, with its text and line."""
    names = [name for name in reply["error"] if isinstance(name, str)] if isinstance(reply["error"], list) else []
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

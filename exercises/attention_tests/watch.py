"""Follow what the functions of a notebook compute, line by line, and put other values in their place."""

import ast
import contextlib
import dis
import functools
import linecache
import sys

import numpy as np

MAX_LINES, MAX_CHANGES = 40_000, 1000  # that are followed in one call of an answer
CRASHES = (3, 13) <= sys.version_info < (3, 13, 3)  # if variables are read that a closure has: python/cpython#128396
MAX_NUMBERS, MAX_ITEMS = 20_000, 64  # a larger array or list is not looked at
OF_A_MODULE = ("_parameters", "_buffers", "_modules")  # where PyTorch keeps these attributes
PART_OF_A_LINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # how Python calls the code of a comprehension


class Change:
    """What a line did: a variable got another value, or a function returned a value.

    Attributes:
        moment, key: How many lines and returns had come when this one ended; the same with the name.
        call, caller: The call of the function and the one that called it, as numbers; 0 is our code.
        place: The code of the function, and the number of the line.
        name: The variable, or an attribute such as "self.scale"; "" for a returned value.
        value, identity: The value as an array of floats, or None if it has no such form; the number of the object.
        items: The items of a tuple or dict, or else the value itself, in the same form.
        filled: Where the line changed the numbers of an array that the variable already held; None if it did not.
        is_half: Whether the numbers of an array, a tensor or a layer have 16 bits.
    """

    def __init__(self, call, line, name, value):
        self.moment, self.call, self.caller = call.watch.moment, call.number, call.caller
        self.place, self.name, self.key = (call.code, line), name, (call.watch.moment, name)
        self.value, self.identity, items = plain(value), id(value), value.values() if type(value) is dict else value
        self.items = [plain(each) for each in items] if type(value) in (tuple, dict) else [self.value]
        parts = value.parameters() if hasattr(value, "parameters") and hasattr(value, "half") else [value]
        self.filled, self.is_half = None, any(str(getattr(each, "dtype", "")).endswith("float16") for each in parts)


class Watch:
    """Follows, while it is entered, the functions of a notebook, or replaces values in them.

    Args:
        namespace: The names of the notebook.
        left_alone: Names of functions and classes whose inside is not followed: the answers of other exercises.
        instead: Pairs of a change of an earlier run and the value that its variable gets.

    Attributes:
        changes: What was followed, in order.
        error, raised: The last error, which may have been caught, in the end its first line; its place. None if there was none.
        misused: The number of the call in which it arose, and the variable that was called or whose attribute was read.
    """

    def __init__(self, namespace, left_alone=(), instead=()):
        self.namespace, self.left_alone, self.instead = namespace, left_alone, instead
        self.changes, self.calls, self.moment = [], {}, 0
        self.error, self.raised, self.misused = None, None, (0, "")

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(lambda frame, *_event: _Call(self, frame).step if self.follows(frame) else None)
        return self

    def __exit__(self, *_error):
        sys.settrace(self.before)
        self.calls.clear()
        self.error = str(self.error).partition("\n")[0] if self.raised else None  # keeps no frame alive

    def follows(self, frame):
        """Whether the code of a frame is followed."""
        code = frame.f_code
        crashes = CRASHES and {*code.co_cellvars, *code.co_freevars} - {"__class__"}
        own = frame.f_globals is self.namespace and code.co_name not in PART_OF_A_LINE
        return own and not crashes and code.co_qualname.partition(".")[0] not in self.left_alone

    def variables(self, names):
        """Yield the variables of a function, and the attributes of its objects: name, where it is, and value."""
        for name, value in list(names.items()):
            yield name, names, value
            is_own = type(value).__module__ == self.namespace.get("__name__")
            held = getattr(value, "__dict__", {}) if is_own else {}
            for group in (held, *(held.get(part, {}) for part in OF_A_MODULE)):
                inner = [(part, each) for part, each in group.items() if part[0] != "_"]
                yield from ((f"{name}.{part}", value, each) for part, each in inner)


class _Call:
    """Follows one call of a function."""

    def __init__(self, watch, frame):
        caller = frame.f_back
        while caller is not None and not watch.follows(caller):
            caller = caller.f_back
        self.watch, self.code, self.line, self.caller = watch, frame.f_code, frame.f_lineno, watch.calls.get(caller, 0)
        self.number = watch.calls[frame] = len(watch.calls) + 1
        self.seen = {name: (id(value), _key(value)) for name, _, value in watch.variables(frame.f_locals)}

    def step(self, frame, event, argument):
        """Note what the last line changed."""
        watch = self.watch
        if event in ("line", "return"):
            watch.moment += 1
            if watch.moment > MAX_LINES and watch.instead:
                raise RuntimeError("another value made a loop long")
            if len(watch.changes) > MAX_CHANGES or watch.moment > MAX_LINES:
                return self.step
            for name, owner, value in watch.variables(frame.f_locals):
                (held, before), now = self.seen.get(name, (None, ())), _key(value)
                if before != now and name not in _of_comprehensions(self.code):
                    self.seen[name] = id(value), now
                    change = Change(self, self.line, name, value)
                    watch.changes.append(change)
                    if held == id(value) and before[0] == now[0] != ():  # an array of the same shape
                        change.filled = np.frombuffer(before[1]).reshape(before[0]) != change.value
                for old, right in (each for each in watch.instead if each[0].key == (watch.moment, name)):
                    with contextlib.suppress(Exception):  # a value of this kind cannot be made
                        _put(owner, value, old, right)
        if event == "return" and frame.f_code.co_name != "__init__":
            watch.changes.append(Change(self, frame.f_lineno, "", argument))
        elif event == "exception" and argument[1] is not watch.error:  # not one that passes through
            watch.error, watch.raised = argument[1], (frame.f_code, frame.f_lineno)
            trace = argument[2]
            while trace.tb_next and trace.tb_next.tb_frame.f_code.co_name in PART_OF_A_LINE:
                trace = trace.tb_next
            watch.misused = self.number, "" if argument[0] is TypeError and trace.tb_next else _used_in(trace.tb_frame)
        self.line = frame.f_lineno
        return self.step


@functools.cache
def _of_comprehensions(code):
    """Return the variables of comprehensions that Python 3.12 and later keep in the function around them (PEP 709)."""
    return {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_FAST_AND_CLEAR"}


def plain(value):
    """Return a number, array or tensor, or a collection of those with one shape, as an array; None for all else."""
    kind = type(value)
    if kind in (int, float):
        return np.array(float(np.clip(value, -1e300, 1e300)))
    if isinstance(value, (list, tuple, dict)) and 0 < len(value) <= MAX_ITEMS:
        parts = [plain(each) for each in (value.values() if isinstance(value, dict) else value)]
        alike = all(part is not None and part.shape == parts[0].shape for part in parts)
        return np.stack(parts) if alike else None
    if hasattr(kind, "detach") and value.numel() <= MAX_NUMBERS:
        value = value.detach().cpu().numpy()
    fits = isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.ma.MaskedArray)
    if not fits or value.size > MAX_NUMBERS or value.dtype.kind not in "biufc":
        return None
    return plain([value.real, value.imag]) if value.dtype.kind == "c" else np.array(value, dtype=float)


def _put(owner, value, change, right):
    """Put a right value, an array of floats, where a variable has another value."""
    new = _like(value, right)
    if change.filled is not None and value.shape == new.shape:
        (value.detach() if hasattr(value, "detach") else value)[...] = new
    elif "." in change.name:
        setattr(owner, change.name.rpartition(".")[2], new)
    else:
        owner[change.name] = new


def _like(old, right):
    """Return a right value, an array of floats, as an object of the kind that it replaces, if there is one for its shape."""
    kind = type(old)
    if hasattr(kind, "detach"):
        torch = sys.modules["torch"]
        new = torch.tensor(right).to(torch.get_default_dtype() if old.itemsize == 2 else old.dtype)
        if isinstance(old, torch.nn.Parameter):
            return torch.nn.Parameter(new)
        same = old.requires_grad and old.shape == new.shape and bool(torch.isfinite(old).all())
        return old + (new - old).detach() if same else new.requires_grad_(old.requires_grad)
    if isinstance(old, (np.ndarray, np.generic)):
        return np.array(right, dtype=float if old.dtype.kind == "f" else old.dtype)
    if np.ndim(right) and isinstance(old, (list, tuple)):
        return kind([_like(each, part) for each, part in zip([*old, *[old[-1]] * len(right)], right)])
    is_size = kind is int and not np.ndim(right) and not right % 1 and abs(right) <= MAX_NUMBERS
    return int(right) if is_size else np.array(right)


def _used_in(frame):
    """Return the variable, or "self.scale", that an expression with an error calls, or of which it reads a part; or ""."""
    line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    is_whole = None not in (line, start, stop) and line == end
    text = linecache.getline(frame.f_code.co_filename, line).encode()[start:stop].strip() if is_whole else b""
    with contextlib.suppress(SyntaxError):
        found = ast.parse(text, mode="eval").body
        inner = getattr(found, "func", getattr(found, "value", None))
        return ast.unparse(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else ""
    return ""


def _key(value):
    """Return something that differs if a value has changed."""
    if isinstance(value, (list, tuple)):  # a change of an array in it is a change of that array only
        return (), [each if type(each) in (int, float) else id(each) for each in value[:MAX_ITEMS]]
    array = plain(value)
    return ((), id(value)) if array is None else (array.shape, array.tobytes())

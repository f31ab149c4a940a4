"""Plain values as text: None, bool, int, float, str, lists, tuples, dicts, NumPy arrays and PyTorch tensors.

A PyTorch module crosses as a number, by which the other side may speak of it, and what it is made of; anything else as
the name of its type.
An array is its dtype, shape and raw bytes, never a pickle, so that
reading a value runs no code of the other side. This file stands alone: it is used in the sandbox too.
"""

import base64
import json
import math
import sys
from collections.abc import Callable

import numpy as np

MAX_TEXT = 32 * 2**20  # characters of one message; a test's arrays have a few thousand numbers
MAX_NUMBERS = 2**21  # of one array
MAX_DEPTH = 20
MAX_KEY = 2**31  # a key of a dict is a text, or a number below: larger ones can be chosen so that all hash alike
MAX_PARTS = 1000  # of a module, and parameters, and buffers: a ViT has some sixty
HEAD = 8  # bytes before a text on the channel: how many follow
DTYPES = {np.dtype(code).str for code in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "F", "D")}


class Foreign:
    """Stands for a value that may not cross: only the name of its type did."""

    def __init__(self, name: str) -> None:
        self.name = name


class Handle:
    """Stands for a module in the sandbox: its number there, and the path of a part of it ("blocks.0.norm").

    One that comes from there says what the module is made of: `description`.
    """

    def __init__(self, number: int, path: str = "", description: object = None) -> None:
        self.number, self.path, self.description = number, path, description


def frame(text: str) -> bytes:
    """Return a text as it goes over the channel; an empty one ends the service."""
    data = text.encode()
    return len(data).to_bytes(HEAD, "big") + data


def dumps(value: object, handle_of: Callable[[object], Handle] | None = None) -> str:
    """Return a value as text.

    Args:
        value: What is to cross.
        handle_of: Gives the handle of a module of this side; without it a module is foreign.

    Raises:
        ValueError: the text is longer than MAX_TEXT characters, or the value nests deeper than MAX_DEPTH.
    """
    text = json.dumps(_pack(value, 0, handle_of))
    if len(text) > MAX_TEXT:
        raise ValueError(f"the value takes {len(text):,} characters; at most {MAX_TEXT:,} may cross")
    return text


def loads(text: str) -> object:
    """Return the value of a text that may be hostile.

    Raises:
        ValueError: it is no text that `dumps` could have made.
    """
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise ValueError("not a text, or too long a one")
    try:
        return _unpack(json.loads(text), 0)
    except Exception as error:  # down to a MemoryError of the JSON parser
        raise ValueError(f"not a value: {type(error).__name__}") from None


def _pack(value: object, depth: int, handle_of: Callable[[object], Handle] | None) -> object:
    if depth > MAX_DEPTH:
        raise ValueError(f"the value nests deeper than {MAX_DEPTH}")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):  # a named tuple crosses as a tuple
        name = "tuple" if isinstance(value, tuple) else "list"
        return {name: [_pack(item, depth + 1, handle_of) for item in value]}
    if isinstance(value, dict):
        if not all(map(_is_key, value)):
            return {"foreign": "dict"}
        return {"dict": [[key, _pack(item, depth + 1, handle_of)] for key, item in value.items()]}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.dtype == torch.bfloat16:
            value = value.float()
        return {"tensor": _pack_array(value.detach().cpu().resolve_conj().resolve_neg().numpy())}
    if torch is not None and handle_of is not None and isinstance(value, torch.nn.Module):
        value = handle_of(value)
    if type(value) is Handle:
        return {"handle": [value.number, value.path, _pack(value.description, depth + 1, handle_of)]}
    if isinstance(value, (np.ndarray, np.generic)):
        packed = _pack_array(np.asarray(value))
        if packed is not None:
            return {"array": packed}
    return {"foreign": kind.__name__}


def _is_key(key: object) -> bool:
    return type(key) is str or (type(key) is int and abs(key) < MAX_KEY)


def _pack_array(array: np.ndarray) -> list | None:
    if array.size > MAX_NUMBERS or array.nbytes > MAX_TEXT // 2:
        raise ValueError(
            f"an array of shape {array.shape} takes {array.nbytes:,} bytes; at most {MAX_TEXT // 2:,} may cross, "
            f"and {MAX_NUMBERS:,} numbers"
        )
    array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns () into (1,)
    # long doubles, Python's numbers as objects, another byte order
    usual = {"g": "d", "G": "D", "O": "d"}.get(array.dtype.char, array.dtype.newbyteorder("="))
    try:
        array = array.astype(usual, copy=False)
    except Exception:  # objects that are no numbers, and may raise anything
        return None
    if array.dtype.str not in DTYPES:
        return None
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]


def _unpack(packed: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise ValueError(f"nests deeper than {MAX_DEPTH}")
    if packed is None or type(packed) in (bool, int, float, str):
        return packed
    ((kind, content),) = packed.items()
    if kind in ("list", "tuple"):
        items = [_unpack(item, depth + 1) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        if not all(_is_key(key) for key, _ in content):
            raise ValueError("unknown kind of key")
        return {key: _unpack(item, depth + 1) for key, item in content}
    if kind == "array":
        return _unpack_array(*content)
    if kind == "tensor":
        import torch

        return torch.from_numpy(_unpack_array(*content))
    if kind == "handle":
        number, path, description = content
        if type(number) is int and type(path) is str:
            return Handle(number, path, _unpack(description, depth + 1))
    if kind == "foreign":
        return Foreign(str(content)[:100])
    raise ValueError("unknown kind of value")


def _unpack_array(dtype: str, shape: list, text: str) -> np.ndarray:
    if dtype not in DTYPES:
        raise ValueError("unknown dtype")
    if len(shape) > 16 or not all(type(size) is int and 0 <= size <= MAX_TEXT for size in shape):
        raise ValueError("impossible shape")
    if math.prod(shape) > MAX_NUMBERS:
        raise ValueError("too many numbers")
    data = base64.b64decode(text, validate=True)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise ValueError("shape and bytes disagree")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()

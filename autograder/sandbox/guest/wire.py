"""Plain values as bytes: None, bool, int, float, str, lists, tuples, dicts, NumPy arrays and PyTorch tensors.

Anything else crosses as the name of its type. A message is JSON, a zero byte, and the numbers of its arrays one after the
other. It is never a pickle, so reading a value runs no code of the other side. This file imports nothing of ours, because
the sandbox uses it too.
"""

import builtins
import io
import json
import math
import sys

import numpy as np

__builtins__ = dict(vars(builtins))  # a copy for this file: a cell may replace built-in functions
MAX_BYTES = 32 * 2**20  # bytes of one message; a test's arrays have a few thousand numbers
MAX_NUMBERS = 2**21  # numbers of one array
MAX_AXES = 16
MAX_DEPTH = 20
MAX_TEXT = 5 * 2**20  # bytes of a reply's JSON: reading them takes 0.4 s and 200 MB at most
MAX_VALUES = 2**18  # values of one message, nested ones included: a test's lists have a few thousand
ARRAY = 8  # values that an array counts as: it takes a kilobyte in memory, and twenty bytes in the message
KEY = 16  # values that a key of a dict counts as: building and comparing one takes up to a millisecond
MAX_KEY = 2**31  # a key of a dict is a text or a number below this: larger numbers can all have the same hash
HEAD = 8  # bytes before a message on the channel: its length
DTYPES = {np.dtype(code).str for code in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "F", "D")}


class Foreign:
    """Represents a value that may not cross. Only the name of its type crossed."""

    def __init__(self, name: str) -> None:
        self.name = name


def frame(message: bytes) -> bytes:
    """Return a message as it goes over the channel; an empty one ends the service."""
    return len(message).to_bytes(HEAD, "big") + message


def dumps(value: object, most: int = MAX_BYTES) -> bytes:
    """Return a value as a message; its JSON may have `most` bytes.

    Raises:
        ValueError: the message is longer than MAX_BYTES, or holds more than may cross, or the value nests deeper than
            MAX_DEPTH.
    """
    packer = _Packer()
    text = json.dumps(packer.pack(value, 0), ensure_ascii=False)
    text = text.encode("utf-8", "surrogatepass")  # json.loads reads half a surrogate pair in this way too
    message = text + b"\0" + b"".join(packer.numbers)
    if len(message) > MAX_BYTES:
        raise ValueError(f"the value takes {len(message):,} bytes; at most {MAX_BYTES:,} may cross")
    if len(text) > most:
        raise ValueError(f"the value takes {len(text):,} bytes without its arrays; at most {most:,} may cross")
    return message


def loads(message: bytes, most: int = MAX_BYTES) -> object:
    """Return the value of a message that may be hostile; its JSON may have `most` bytes.

    Raises:
        ValueError: the message cannot come from `dumps`.
    """
    if not isinstance(message, bytes) or len(message) > MAX_BYTES:
        raise ValueError("not a value: no message, or a message that is too long")
    text, _, numbers = message.partition(b"\0")
    if len(text) > most:
        raise ValueError("not a value: its JSON is too long")
    try:
        return _Reader(numbers).read(json.loads(text), 0)
    except Exception as error:  # even a MemoryError of the JSON parser
        raise ValueError(f"not a value: {type(error).__name__}") from None


class _Message:
    """A message that is packed or read; it counts the values."""

    def __init__(self) -> None:
        self.values = 0

    def count(self, values: int, depth: int = 0) -> None:
        self.values += values
        if depth > MAX_DEPTH:
            raise ValueError(f"the value nests deeper than {MAX_DEPTH}")
        if self.values > MAX_VALUES:
            raise ValueError(f"the value has more than {MAX_VALUES:,} values in total; no more may cross")


class _Packer(_Message):
    """Converts a value into what JSON knows, and collects the bytes of its arrays in order."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = list[bytes]()

    def pack(self, value: object, depth: int) -> object:
        self.count(1, depth)
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, (list, tuple)):  # a named tuple crosses as a tuple
            name = "tuple" if isinstance(value, tuple) else "list"
            return {name: [self.pack(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            self.count(KEY * len(value))
            if not all(map(_is_key, value)):
                return {"foreign": "dict"}
            return {"dict": [[key, self.pack(item, depth + 1)] for key, item in value.items()]}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if value.dtype == torch.bfloat16:
                value = value.float()
            return {"tensor": self.pack_array(value.detach().cpu().resolve_conj().resolve_neg().numpy())}
        if isinstance(value, (np.ndarray, np.generic)):
            packed = self.pack_array(np.asarray(value))
            if packed is not None:
                return {"array": packed}
        return {"foreign": kind.__name__}

    def pack_array(self, array: np.ndarray) -> list | None:
        self.count(ARRAY - 1)
        if array.size > MAX_NUMBERS or array.nbytes > MAX_BYTES // 2:
            raise ValueError(
                f"an array of shape {array.shape} takes {array.nbytes:,} bytes; at most {MAX_BYTES // 2:,} may cross, "
                f"and {MAX_NUMBERS:,} numbers"
            )
        if array.ndim > MAX_AXES or max(array.shape, default=0) > MAX_BYTES:  # an empty array may have a long axis
            raise ValueError(
                f"an array of shape {array.shape}; at most {MAX_AXES} axes may cross, of {MAX_BYTES:,} each"
            )
        # Convert long doubles, objects that are Python's numbers, and another byte order.
        usual = {"g": "d", "G": "D", "O": "d"}.get(array.dtype.char, array.dtype.newbyteorder("="))
        try:
            array = array.astype(usual, copy=False)
        except Exception:  # objects other than numbers may raise anything
            return None
        if array.dtype.str not in DTYPES:
            return None
        self.numbers.append(array.tobytes())
        return [array.dtype.str, list(array.shape)]


class _Reader(_Message):
    """Converts what JSON knows back into the value; each array takes the next bytes."""

    def __init__(self, numbers: bytes) -> None:
        super().__init__()
        self.numbers = io.BytesIO(numbers)

    def read(self, packed: object, depth: int) -> object:
        self.count(1, depth)
        if packed is None or type(packed) in (bool, int, float, str):
            return packed
        ((kind, content),) = packed.items()
        if kind in ("list", "tuple") and type(content) is list:  # a text would give one item per character
            items = [self.read(item, depth + 1) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            self.count(KEY * len(content))
            if not all(_is_key(key) for key, _ in content):
                raise ValueError("unknown kind of key")
            return {key: self.read(item, depth + 1) for key, item in content}
        if kind == "array":
            return self.read_array(*content)
        if kind == "tensor":
            import torch

            return torch.from_numpy(self.read_array(*content))
        if kind == "foreign":
            return Foreign(str(content)[:100])
        raise ValueError("unknown kind of value")

    def read_array(self, dtype: str, shape: list) -> np.ndarray:
        self.count(ARRAY - 1)
        if dtype not in DTYPES:
            raise ValueError("unknown dtype")
        if len(shape) > MAX_AXES or not all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape):
            raise ValueError("impossible shape")
        if math.prod(shape) > MAX_NUMBERS:
            raise ValueError("too many numbers")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        data = bytearray(self.numbers.read(size))
        if len(data) != size:
            raise ValueError("too few bytes")
        return np.frombuffer(data, dtype=dtype).reshape(shape)


def _is_key(key: object) -> bool:
    return type(key) is str or (type(key) is int and abs(key) < MAX_KEY)

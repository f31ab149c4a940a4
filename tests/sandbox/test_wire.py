"""Does any plain value cross the wire unchanged, and is every hostile message refused in time?"""

import contextlib
import json
import time
import tracemalloc
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from fuzzing import EXAMPLES, fuzz
from in_kernel import same

from autograder.sandbox.guest import wire
from autograder.sandbox.guest.wire import DTYPES, Foreign, dumps, loads

NUMBERS = arrays.arrays(st.sampled_from(sorted(DTYPES)), arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | NUMBERS
PLAIN |= NUMBERS.map(np.ascontiguousarray).map(torch.from_numpy)
KEYS = st.text() | st.integers(1 - wire.MAX_KEY, wire.MAX_KEY - 1)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner), max_leaves=20
)
KINDS = st.sampled_from(["list", "tuple", "dict", "array", "tensor", "foreign", "other"])
PIECES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["<f8", "|b1"])
NESTED = st.recursive(PIECES, lambda inner: st.lists(inner) | st.dictionaries(KINDS, inner, max_size=2), max_leaves=20)
MESSAGES = st.builds(lambda nested, numbers: json.dumps(nested).encode() + b"\0" + numbers, NESTED, st.binary())
PARTS = st.sampled_from(rb'" { } [ ] , : - 0 1e99 null true NaN "list" "array" <f8 \u0000 ='.split())
DAMAGED = st.builds(
    lambda message, at, part, over: message[: at % len(message)] + part + message[at % len(message) + over :],
    VALUES.map(dumps), st.integers(0, 2**20), PARTS, st.integers(0, 3),
)  # fmt: skip


@EXAMPLES
def test_wire_keeps_any_plain_value(examples: int) -> None:
    """Does any plain value come back with its types, shapes, dtypes and bits?"""

    def holds(value: Any) -> None:
        assert same(loads(dumps(value)), value)

    fuzz(examples, VALUES, holds)


@EXAMPLES
@pytest.mark.parametrize("messages", [MESSAGES, DAMAGED, st.binary()])
def test_wire_reads_or_refuses_any_message(examples: int, messages: st.SearchStrategy) -> None:
    """Does any message give a value that could cross again, or an error that says that the message is no value?"""

    def holds(message: bytes) -> None:
        try:
            value = loads(message)
        except ValueError as error:
            assert str(error).startswith("not a value")
        else:
            loads(dumps(value))

    fuzz(examples, messages, holds)


def nested(depth: int) -> Any:
    """Return lists in lists."""
    return [nested(depth - 1)] if depth else 1


# A value that may cross, and one that is a little larger.
LIMITS = {
    "depth": (nested(wire.MAX_DEPTH), nested(wire.MAX_DEPTH + 1)),
    "values": ([0] * (wire.MAX_VALUES - 1), [0] * wire.MAX_VALUES),
    "lists": ([[0]] * (wire.MAX_VALUES // 2 - 1), [[0]] * (wire.MAX_VALUES // 2)),
    "keys": (dict.fromkeys(range(15_420), 0), dict.fromkeys(range(15_421), 0)),
    "keys in all": ([{"x": 1, "y": 2}] * 7489, [{"x": 1, "y": 2}] * 7490),
    "arrays": ([np.zeros(0)] * (2**15 - 1), [np.zeros(0)] * 2**15),  # 1 kB each in memory
    "tensors": ([torch.zeros(0)] * (2**15 - 1), [torch.zeros(0)] * 2**15),
    "axes": (np.zeros((1,) * wire.MAX_AXES), np.zeros((1,) * (wire.MAX_AXES + 1))),
    "empty axis": (np.zeros((wire.MAX_BYTES, 0)), np.zeros((wire.MAX_BYTES + 1, 0))),
    "numbers": (np.zeros(wire.MAX_NUMBERS, "b"), np.zeros(wire.MAX_NUMBERS + 1, "b")),
    "bytes of an array": (np.zeros(wire.MAX_BYTES // 16), np.zeros(wire.MAX_BYTES // 16 + 1)),
    "bytes": ("x" * (wire.MAX_BYTES - 3), "x" * (wire.MAX_BYTES - 2)),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_wire_takes_values_up_to_a_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a value at the limit cross, and is a larger one refused by its sender, and by its reader before it is made?"""
    largest, larger = LIMITS[kind]
    assert same(loads(dumps(largest)), largest)
    with pytest.raises(ValueError, match=r"deeper than 20|may cross"):
        dumps(larger)
    with monkeypatch.context() as unlimited:
        for name in ("BYTES", "NUMBERS", "AXES", "DEPTH", "VALUES"):
            unlimited.setattr(wire, f"MAX_{name}", 2**62)
        message = dumps(larger, 2**62)
    with pytest.raises(ValueError, match="not a value"):
        loads(message)


@pytest.mark.parametrize("text", ["\\", '"', "名", "\ud800"])
def test_wire_lets_a_million_characters_cross(text: str) -> None:
    """Can the text of the longest cell cross, whatever its characters?"""
    assert loads(dumps({"source": text * 10**6}, wire.MAX_TEXT), wire.MAX_TEXT) == {"source": text * 10**6}


@pytest.mark.parametrize("item", [b"[" * 900 + b"]" * 900, b"{}", b'{"list":[1]}'])
def test_loads_takes_little_memory_and_time(item: bytes) -> None:
    """Does the longest JSON cost at most 300 MB and a few seconds, whatever it holds, and is a longer one not read?"""
    message = b'{"list":[' + (item + b",") * ((wire.MAX_TEXT - 100) // (len(item) + 1)) + b"1]}"
    begun = time.process_time()
    tracemalloc.start()
    with contextlib.suppress(ValueError):
        loads(message, wire.MAX_TEXT)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 300 * 2**20 and time.process_time() < begun + 20
    with pytest.raises(ValueError, match="its JSON is too long"):
        loads(message + b" " * 100 + item, wire.MAX_TEXT)
    with pytest.raises(ValueError, match="without its arrays"):
        dumps("x" * wire.MAX_TEXT, wire.MAX_TEXT)


def array(*content: Any, numbers: bytes = bytes(8)) -> bytes:
    """Return the message of an array, valid or not."""
    return json.dumps({"array": list(content)}).encode() + b"\0" + numbers


HOSTILE = [
    *(None, 7, "{}", b"", b"{", b"[1, 2]", b"{}", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * wire.MAX_BYTES + b'"'),
    *(b'{"list": 1}', b'{"list": [], "tuple": []}', b'{"list": "ab"}', b'{"tuple": {"a": 1}}', b'{"unknown": 1}'),
    *(b'{"dict": [[1]]}', b'{"dict": [[{"list": []}, 1]]}', b'{"dict": [[true, 1]]}', b'{"dict": [[%d, 1]]}' % wire.MAX_KEY),
    *(b'{"pickle": "gASVIgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAdpZCA+L3R4lIWUUpQu"}', b'{"tensor": null}'),
    *(array("<f8"), array("<f8", [1], "more"), array("|O", [1]), array("<U4", [1], numbers=bytes(16)), array(["<f8"], [1])),
    *(array("<f8", [2]), array("<f8", [1], numbers=bytes(7)), array("<f8", [-1]), array("<f8", [True])),
    *(array("<f8", [1.0]), array("<f8", "1"), array("<f8", None), array("<f8", [2**25] * 16), array("<f8", [0, 2**64])),
    b'{"list": [{"array": ["<f8", [1]]}, {"array": ["<f8", [1]]}]}\0' + bytes(8),
]  # fmt: skip


@pytest.mark.parametrize("message", HOSTILE, ids=lambda message: str(message)[:40])
def test_loads_refuses_hostile_messages(message: Any) -> None:
    """Does each hostile message raise a ValueError, whatever it imitates?"""
    with pytest.raises(ValueError, match="not a value"):
        loads(message)


def test_wire_lets_only_names_of_keys_and_values_cross_that_are_not_plain() -> None:
    """Does a dict with keys that could all have the same hash cross only as a name, like any other value?"""
    for value in ({wire.MAX_KEY: 0}, {(1, 2): 0}, {True: 0}, b"bytes", {1, 2}):
        back = loads(dumps([value]))[0]
        assert isinstance(back, Foreign) and back.name == type(value).__name__

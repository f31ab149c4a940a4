"""Do only plain values cross the wire, and is every hostile message refused in time?"""

import contextlib
import json
import math
import os
import random
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from in_kernel import same

from autograder.sandbox.guest import wire
from autograder.sandbox.guest.wire import (
    MAX_ARRAYS,
    MAX_AXES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_KEYS,
    MAX_TEXT,
    MAX_VALUES,
    Foreign,
    dumps,
    loads,
)

PLAIN = [
    None,
    True,
    0,
    -(10**30),
    0.1,
    math.inf,
    math.nan,
    "",
    "Größe \u202e \ud800 \x00 \U0001f600",
    [],
    (1, [2.0, ("three",)], None),
    {"a": 1, 2: (3,), "b": {}, "c": False},
    np.zeros((2, 0, 3)),
    np.array(1.5),
    np.arange(6, dtype=np.int8).reshape(1, 2, 3),
    np.array([[np.nan, -0.0], [np.inf, 5e-324]]),
    np.array([True, False]),
    np.array([1 + 2j], dtype=np.complex64),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::-3],
    torch.arange(4.0).reshape(2, 2),
    torch.tensor(3),
    torch.zeros(0, dtype=torch.bool),
    torch.ones(2, 3, dtype=torch.float16).T,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_wire_keeps_plain_values(value: Any) -> None:
    """Does a plain value come back with its type, shape, dtype and bits?"""
    back = loads(dumps(value))
    assert same(back, np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value)
    if isinstance(back, np.ndarray):
        assert back.flags.writeable


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(2.5), np.array(2.5, dtype=np.float32)),
        (np.bool_(True), np.array(True)),
        (np.arange(3.0).astype(">f8"), np.arange(3.0)),
        (np.arange(3.0).astype(np.longdouble), np.arange(3.0)),
        (np.arange(3.0).view(np.matrix), np.arange(3.0)[None]),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
    ],
    ids=["scalar", "bool", "big-endian", "longdouble", "matrix", "bfloat16", "with gradient"],
)
def test_wire_makes_unusual_numbers_usual(value: Any, expected: Any) -> None:
    """Do unusual numeric types, which a right answer may use, arrive as ordinary numbers?"""
    assert same(loads(dumps(value)), expected)


class Evil:
    """Runs code when it is unpickled, compared or printed."""

    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)

    def __eq__(self, other):
        return True

    def __repr__(self):
        raise RuntimeError("printed")

    __hash__ = None


class EvilString(str):
    """A subclass of Python's string."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Evil(), "Evil"),
        (EvilString("x"), "EvilString"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        ({1, 2}, "set"),
        (len, "builtin_function_or_method"),
        (Evil, "type"),
        (iter([]), "list_iterator"),
        (np.array([Evil()], dtype=object), "ndarray"),
        (np.array(["text"]), "ndarray"),
        (np.array([1], dtype="datetime64[s]"), "ndarray"),
        (np.array([(1, 2.0)], dtype="i4,f8"), "ndarray"),
        (torch.nn.Linear(2, 2), "Linear"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wire_lets_only_the_name_of_other_values_cross(value: Any, name: str) -> None:
    """Does any other value cross only as its type's name, at any depth, without running code?"""
    alone, in_list, in_dict = (loads(dumps(wrapped)) for wrapped in (value, [value], ({"key": value},)))
    for back in (alone, in_list[0], in_dict[0]["key"]):
        assert isinstance(back, Foreign)
        assert back.name == name
    assert not Path("/tmp/evil").exists()


def test_wire_knows_no_pickle() -> None:
    """Is the file that reads students' messages free of pickle and eval?"""
    text = Path(wire.__file__).read_text(encoding="utf-8").replace("never a pickle", "")
    assert not [
        word for word in ("pickle", "eval(", "exec(", "np.load", "torch.load", "marshal", "yaml") if word in text
    ]


def test_wire_refuses_what_is_too_long_or_too_deep() -> None:
    """Does the sender get an error with the number for a value that is endless or too large?"""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
        dumps(endless)
    with pytest.raises(ValueError, match=r"shape \(2500000,\) takes 20,000,000 bytes; at most"):
        dumps(np.zeros(2_500_000))
    with pytest.raises(ValueError, match="bytes; at most"):
        dumps("x" * MAX_BYTES)
    with pytest.raises(ValueError, match="bytes without its arrays; at most"):
        dumps([10**4000] * 3000, MAX_TEXT)


@pytest.mark.parametrize("text", ["\\", '"', "é", "名", "\U0001f600", "\ud800", "\n"])
def test_wire_lets_a_million_characters_cross(text: str) -> None:
    """Can the text of the longest cell cross, whatever its characters?"""
    assert loads(dumps({"source": text * 10**6})) == {"source": text * 10**6}


def test_loads_refuses_a_long_text_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a message refused by the length of its JSON, before it is read?"""
    monkeypatch.setattr(wire, "json", SimpleNamespace(loads=lambda text: pytest.fail("it was read")))
    with pytest.raises(ValueError, match=r"not a value: its JSON is too long"):
        loads(b'{"list":[' + b"1," * (MAX_TEXT // 2) + b"1]}", MAX_TEXT)


@pytest.mark.parametrize(
    "array", [np.zeros((1,) * (MAX_AXES + 1)), np.zeros((2 * MAX_BYTES, 0))], ids=["axes", "empty"]
)
def test_wire_sends_no_array_that_would_not_be_read(array: np.ndarray) -> None:
    """If the other side would refuse an array's shape, does this side raise an error? Otherwise it gets no answer."""
    with pytest.raises(ValueError, match=f"at most {MAX_AXES} axes may cross"):
        dumps(array)
    assert loads(dumps(np.zeros((1,) * MAX_AXES))).ndim == MAX_AXES


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_wire_takes_so_many_arrays(kind: str) -> None:
    """Are too many arrays refused on both sides? An empty array has twenty bytes in a message, and 1 kB in memory."""
    value = {"array": np.zeros(0), "tensor": torch.zeros(0)}[kind]
    assert len(loads(dumps([value] * MAX_ARRAYS))) == MAX_ARRAYS
    with pytest.raises(ValueError, match="more than 32,768 arrays"):
        dumps([value] * (MAX_ARRAYS + 1))
    with pytest.raises(ValueError, match="not a value"):
        loads(json.dumps({"list": [{kind: ["<f8", [0]]}] * (MAX_ARRAYS + 1)}).encode())


def array(*content: Any, numbers: bytes = bytes(8)) -> bytes:
    """Return the message of an array, valid or not."""
    return json.dumps({"array": list(content)}).encode() + b"\0" + numbers


HOSTILE = [
    None,
    7,
    "{}",
    b"",
    b"{",
    b"[1, 2]",
    b"{}",
    b"\xff\xfe",
    b'{"list": 1}',
    b'{"list": {"a": 1}, "tuple": []}',
    b'{"list": "ab"}',
    b'{"tuple": {"a": 1}}',
    b'{"dict": [[1]]}',
    b'{"dict": [[{"list": []}, 1]]}',
    b'{"unknown": 1}',
    b'{"pickle": "gASVIgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAdpZCA+L3R4lIWUUpQu"}',
    b'{"handle": [1, "", null]}',
    b'{"tensor": null}',
    b'{"array": null}',
    b"[" * 100_000,
    b'{"list":[' * 30 + b"1" + b"]}" * 30,
    b'{"list":[' * 5000 + b"1" + b"]}" * 5000,
    b"9" * 10_000,
    b"x" * (MAX_BYTES + 1),
    array("<f8"),
    array("<f8", [1], "more"),
    array("|O", [1]),
    array("<U4", [1], numbers=bytes(16)),
    array(["<f8"], [1]),
    array("<f8", [2]),
    array("<f8", [1], numbers=bytes(7)),
    array("<f8", [1], numbers=b""),
    array("<f8", [-1]),
    array("<f8", [True]),
    array("<f8", [1.0]),
    array("<f8", "1"),
    array("<f8", 1),
    array("<f8", None),
    array("<f8", [1] * 17),
    array("<f8", [1] * 1000),
    array("<f8", [2**40]),
    array("<f8", [2**25] * 16),
    array("<f8", [0, 2**25, 2**25, 2**25]),
    array("<f8", [0, 2**64]),
    b'{"tensor": ["<f8", [3]]}\0' + bytes(8),
    b'{"list": [{"array": ["<f8", [1]]}, {"array": ["<f8", [1]]}]}\0' + bytes(8),
]


HARMLESS = [
    b"1e9999999999",
    b'{"dict": {"ab": 1}}',
    b'{"tensor": ["<u2", [1]]}\0' + bytes(8),
]  # unusual, but plain values


KNOWN = (type(None), bool, int, float, str, list, tuple, dict, np.ndarray, torch.Tensor, Foreign)


def loads_or_refuses(message: Any) -> bool:
    """Read a message; return whether it could be read. Only a plain value or a ValueError is allowed."""
    try:
        value = loads(message)
    except ValueError:
        return False
    assert isinstance(value, KNOWN)
    return True


@pytest.mark.parametrize("message", HOSTILE + HARMLESS, ids=lambda message: str(message)[:40])
def test_loads_refuses_hostile_messages(message: Any) -> None:
    """Does each hostile message raise a ValueError, and each harmless one give a plain value?"""
    assert loads_or_refuses(message) == (message in HARMLESS)


@pytest.mark.parametrize("item", [b"[" * 900 + b"]" * 900, b"[]", b"{}", b'{"a":1}', b'"ab"', b"1.5", b'{"list":[1]}'])
def test_loads_takes_little_memory_and_time(item: bytes) -> None:
    """Does the longest message cost at most 300 MB and a few seconds, whatever it holds?"""
    message = b'{"list":[' + (item + b",") * ((MAX_TEXT - 100) // (len(item) + 1)) + b"1]}"
    begun = time.process_time()
    with contextlib.suppress(ValueError):
        loads(message, MAX_TEXT)
    assert time.process_time() < begun + 5
    tracemalloc.start()
    with contextlib.suppress(ValueError):
        loads(message, MAX_TEXT)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 300 * 2**20


def test_loads_survives_mutated_messages() -> None:
    """Do ten thousand damaged messages raise only ValueErrors?"""
    rng, read = random.Random(0), 0
    several = [{"b": np.ones(2)}, np.ones(3), torch.ones(2)]
    messages = [dumps(value) for value in (*PLAIN, several)]
    pieces = rb'" { } [ ] , : - 0 1e99 null true NaN "list" "array" <f8 \u0000 ='.split()
    for _ in range(10_000):
        message = rng.choice(messages)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(message) + 1)
            message = message[:at] + rng.choice([*pieces, b"\0", b""]) + message[at + rng.randrange(4) :]
        read += loads_or_refuses(message)
    assert 100 < read < 9_900, "the mutations are all harmless, or all fatal: they prove nothing"


def test_wire_takes_no_keys_that_hash_alike() -> None:
    """Is a dict with many keys of the same hash refused at once, on both sides?"""
    alike = [key * (2**61 - 1) for key in range(1, 40_000)]
    message = json.dumps({"dict": [[key, 0] for key in alike]}).encode()
    with pytest.raises(ValueError, match="not a value"):
        loads(message)
    assert isinstance(loads(dumps(dict.fromkeys(alike[:3], 0))), Foreign)
    assert loads(dumps({"a": 1, 7: 2})) == {"a": 1, 7: 2}


@pytest.mark.parametrize(
    "packed",
    [
        {"dict": [[number, 1] for number in range(MAX_KEYS + 1)]},
        {"list": [{"dict": [["x", 1], ["y", 2]]}] * (MAX_KEYS // 2 + 1)},
        {"list": [1] * MAX_VALUES},
        {"tuple": [{"list": [{"list": []}] * 512}] * 512},
    ],
    ids=["keys", "keys in lists", "values", "lists"],
)
def test_message_of_too_many_values_or_keys_is_refused(packed: object) -> None:
    """Is the work for a message limited, also after reading, when its values are made, moved and compared?"""
    with pytest.raises(ValueError, match="not a value"):
        loads(json.dumps(packed).encode())


def test_messages_of_many_values_and_keys_cross() -> None:
    """Do values at the limit cross in both directions, and are larger ones refused before they are sent?"""
    most = {
        "keys": [{str(number): number for number in range(MAX_KEYS - 1)}],
        "values": [[0] * (MAX_VALUES - MAX_KEYS - 5)],
    }
    assert loads(dumps(most["keys"])) == most["keys"] and loads(dumps(most["values"])) == most["values"]
    for value in (dict.fromkeys(range(MAX_KEYS + 1)), [0] * MAX_VALUES):
        with pytest.raises(ValueError, match="no more may cross"):
            dumps(value)

"""Does nothing but plain values cross the wire, and is every hostile text refused in time?"""

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_kernel import same

from autograder.boundary import wire
from autograder.boundary.wire import MAX_DEPTH, MAX_TEXT, Foreign, Handle, dumps, loads

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
    """Do numbers of a kind that few use, which a right answer may be made of, arrive as numbers?"""
    assert same(loads(dumps(value)), expected)


class Evil:
    """Runs code where it is unpickled, compared or printed."""

    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)

    def __eq__(self, other):
        return True

    def __repr__(self):
        raise RuntimeError("printed")

    __hash__ = None


class EvilString(str):
    """A string that is none of Python's own."""


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
    """Does anything else cross as the name of its type, wherever it stands, and run nothing?"""
    alone, in_list, in_dict = (loads(dumps(wrapped)) for wrapped in (value, [value], ({"key": value},)))
    for back in (alone, in_list[0], in_dict[0]["key"]):
        assert isinstance(back, Foreign)
        assert back.name == name
    assert not Path("/tmp/evil").exists()


def test_wire_knows_no_pickle() -> None:
    """Does the file that reads what comes from the student neither pickle nor evaluate?"""
    text = Path(wire.__file__).read_text(encoding="utf-8").replace("never a pickle", "")
    assert not [
        word for word in ("pickle", "eval(", "exec(", "np.load", "torch.load", "marshal", "yaml") if word in text
    ]


def test_wire_refuses_what_is_too_long_or_too_deep() -> None:
    """Is a value that nests too deep, or is too big, an error with the number, on the sender's side?"""
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless):
        with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
            dumps(value)
    with pytest.raises(ValueError, match=r"shape \(2500000,\) takes 20,000,000 bytes; at most"):
        dumps(np.zeros(2_500_000))
    with pytest.raises(ValueError, match="characters; at most"):
        dumps("x" * MAX_TEXT)


def array_text(*content: Any) -> str:
    """Return the text of an array, true or not."""
    return json.dumps({"array": list(content)})


HOSTILE = [
    None,
    7,
    b"{}",
    "",
    "{",
    "[1, 2]",
    "{}",
    '{"list": 1}',
    '{"list": {"a": 1}, "tuple": []}',
    '{"dict": [[1]]}',
    '{"dict": [[{"list": []}, 1]]}',
    '{"unknown": 1}',
    '{"pickle": "gASVIgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAdpZCA+L3R4lIWUUpQu"}',
    '{"handle": ["1", "", null]}',
    '{"handle": [true, "", null]}',
    '{"handle": [1, ""]}',
    '{"handle": [1, "", {"unknown": 1}]}',
    '{"handle": {"0": 1}}',
    '{"tensor": null}',
    '{"array": null}',
    "[" * 100_000,
    '{"list":[' * 30 + "1" + "]}" * 30,
    '{"list":[' * 5000 + "1" + "]}" * 5000,
    "9" * 10_000,
    "x" * (MAX_TEXT + 1),
    array_text("<f8"),
    array_text("<f8", [1], "AAAAAAAAAAA=", "more"),
    array_text("|O", [1], "AAAAAAAAAAA="),
    array_text("<U4", [1], "AAAAAAAAAAAAAAAAAAAAAA=="),
    array_text(["<f8"], [1], "AAAAAAAAAAA="),
    array_text("<f8", [2], "AAAAAAAAAAA="),
    array_text("<f8", [-1], "AAAAAAAAAAA="),
    array_text("<f8", [True], "AAAAAAAAAAA="),
    array_text("<f8", [1.0], "AAAAAAAAAAA="),
    array_text("<f8", "1", "AAAAAAAAAAA="),
    array_text("<f8", 1, "AAAAAAAAAAA="),
    array_text("<f8", [1] * 17, "AAAAAAAAAAA="),
    array_text("<f8", [1] * 1000, "AAAAAAAAAAA="),
    array_text("<f8", [2**40], ""),
    array_text("<f8", [2**25] * 16, ""),
    array_text("<f8", [0, 2**25, 2**25, 2**25], ""),
    array_text("<f8", [0, 2**64], ""),
    array_text("<f8", [1], "not base 64"),
    array_text("<f8", [1], "AAAAAAAAAAA=\u00e9"),
    array_text("<f8", [1], None),
    array_text("<f8", [1], ["AAAAAAAAAAA="]),
    json.dumps({"tensor": ["<f8", [3], "AAAAAAAAAAA="]}),
]


HARMLESS = [
    "1e9999999999",
    '{"dict": {"ab": 1}}',
    json.dumps({"tensor": ["<u2", [1], "AAA="]}),
]  # odd, and plain values


KNOWN = (type(None), bool, int, float, str, list, tuple, dict, np.ndarray, torch.Tensor, Foreign, Handle)


def loads_or_refuses(text: Any) -> bool:
    """Read a text; whether it could be read. Anything but a plain value or a ValueError fails the test."""
    try:
        value = loads(text)
    except ValueError:
        return False
    assert isinstance(value, KNOWN)
    return True


@pytest.mark.parametrize("text", HOSTILE + HARMLESS, ids=lambda text: str(text)[:40])
def test_loads_refuses_hostile_texts(text: Any) -> None:
    """Does a text that is no value raise a ValueError, or give plain numbers, and nothing else?"""
    assert loads_or_refuses(text) == (text in HARMLESS)


def test_loads_survives_mutated_texts() -> None:
    """Does no damaged text of ten thousand raise anything but a ValueError?"""
    rng, read = random.Random(0), 0
    texts = [dumps(value) for value in PLAIN] + [
        dumps([Handle(1, "a", {"b": np.ones(2)}), Foreign("x"), np.ones(3), torch.ones(2)])
    ]
    pieces = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "-",
        "0",
        "1e99",
        "null",
        "true",
        "NaN",
        '"list"',
        '"array"',
        "<f8",
        "\\u0000",
        "=",
    ]
    for _ in range(10_000):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice([*pieces, ""]) + text[at + rng.randrange(4) :]
        read += loads_or_refuses(text)
    assert 100 < read < 9_900, "the mutations are all harmless, or all fatal: they prove nothing"


def test_wire_takes_no_keys_that_hash_alike() -> None:
    """Is a dict of many keys that all have one hash refused at once, on both sides?"""
    alike = [key * (2**61 - 1) for key in range(1, 40_000)]
    text = json.dumps({"dict": [[key, 0] for key in alike]})
    with pytest.raises(ValueError, match="not a value"):
        loads(text)
    assert isinstance(loads(dumps(dict.fromkeys(alike[:3], 0))), Foreign)
    assert loads(dumps({"a": 1, 7: 2})) == {"a": 1, 7: 2}

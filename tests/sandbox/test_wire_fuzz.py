"""Does any plain value come back unchanged, and does any message give a value or a refusal with a reason?"""

import json
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from fuzzing import EXAMPLES, fuzz, steps
from in_kernel import same

from autograder.sandbox.guest import wire
from autograder.sandbox.guest.wire import DTYPES, MAX_DEPTH, MAX_KEY

NUMBERS = arrays.arrays(st.sampled_from(sorted(DTYPES)), arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | NUMBERS
PLAIN |= NUMBERS.map(np.ascontiguousarray).map(torch.from_numpy)
KEYS = st.text() | st.integers(1 - MAX_KEY, MAX_KEY - 1)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner), max_leaves=20
)
KINDS = st.sampled_from(["list", "tuple", "dict", "array", "tensor", "foreign", "other"])
PIECES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["<f8", "|b1"])
NESTED = st.recursive(PIECES, lambda inner: st.lists(inner) | st.dictionaries(KINDS, inner, max_size=2), max_leaves=20)
MESSAGES = st.builds(lambda nested, numbers: json.dumps(nested).encode() + b"\0" + numbers, NESTED, st.binary())


@EXAMPLES
def test_wire_keeps_any_plain_value(examples: int) -> None:
    """Does any plain value come back with its types, shapes, dtypes and bits?"""

    def holds(value: Any) -> None:
        assert same(wire.loads(wire.dumps(value)), value)

    fuzz(examples, VALUES, holds)


@EXAMPLES
@pytest.mark.parametrize(
    "messages", [MESSAGES, st.text().map(lambda text: text.encode("utf-8", "replace")), st.binary()]
)
def test_wire_reads_or_refuses_any_message(examples: int, messages: st.SearchStrategy) -> None:
    """Does any message give a value that could cross again, or an error that says that the message is no value?"""

    def holds(message: bytes) -> None:
        try:
            value = wire.loads(message)
        except ValueError as error:
            assert str(error).startswith("not a value")
        else:
            wire.loads(wire.dumps(value))

    fuzz(examples, messages, holds)


@EXAMPLES
def test_wire_takes_steps_in_proportion(examples: int) -> None:
    """Does a list with twice the content take at most twice the steps to pack and to read?"""

    def holds(value: Any) -> None:
        few, many = [value] * 30, [value] * 60
        assert steps(lambda: wire.dumps(many)) <= 2 * steps(lambda: wire.dumps(few)) + 10
        short, long = wire.dumps(few), wire.dumps(many)
        assert steps(lambda: wire.loads(long)) <= 2 * steps(lambda: wire.loads(short)) + 10

    fuzz(examples // 4, VALUES, holds)


def test_wire_refuses_what_nests_too_deep() -> None:
    """Does a value of the allowed depth cross, and a deeper one not, in both directions?"""
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert wire.loads(wire.dumps(deep)) == deep
    with pytest.raises(ValueError, match="nests deeper"):
        wire.dumps([deep])
    with pytest.raises(ValueError, match="not a value"):
        wire.loads(b'{"list": [' + wire.dumps(deep).rstrip(b"\0") + b"]}")

"""What does a message in a notebook say about a wrong answer, in addition to known mistakes?"""

import base64
import io
import sys
import time

import IPython
import numpy as np
import pytest
from attention_tests.compare import WrongAnswer, judge
from matplotlib.image import imread


def case_of(**expected: np.ndarray) -> dict:
    """A case without arguments or known mistakes."""
    return {"name": "f, a case", "arguments": (), "expected": {"arrays": expected}, "mistakes": {}}


def said(got: dict, expected: dict, show: bool = True) -> WrongAnswer:
    """Return the error for a result, when another one was expected."""
    with pytest.raises(WrongAnswer) as caught:
        judge(lambda: got, (), [case_of(**expected)], {}, show)
    return caught.value


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (np.bool_(False), np.bool_(True), "it: expected yes, got no"),
        (np.array([True, False, False]), np.array([True] * 3), "it: expected yes, got no at 2 of 3 places"),
        (np.array(-1), np.bool_(True), "it: expected yes, got something else"),
        (np.float64(0), np.float64(1), "it: expected 1, got 0"),
        (np.float64(np.nan), np.bool_(True), "it: 1 of them NaN or infinite."),
    ],
)
def test_yes_and_no_are_told_from_counts_by_their_type(got: object, expected: object, words: str) -> None:
    """Does a check recognise a yes or no by the result's type, while counts stay numbers?"""
    assert str(said({"it": got}, {"it": expected}, show=False)) == f"f, a case: {words}"


@pytest.mark.parametrize(("sizes", "told"), [([1.0, 12, 0], "1 × 12"), ([0.0, 0, 0], "nothing")])
def test_sizes_of_a_shape_are_told_and_not_counted(sizes: list[float], told: str) -> None:
    """Does a student who gave a parameter another shape, or none, read both shapes?"""
    got, expected = {"shape_of_class_token": np.array(sizes)}, {"shape_of_class_token": np.array([1.0, 1, 12])}
    assert str(said(got, expected, show=False)) == f"f, a case: shape of class token: expected 1 × 1 × 12, got {told}"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict, dict]]:
    """The displayed data, as if this were a notebook."""
    found: list[tuple[dict, dict]] = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: "a shell")
    monkeypatch.setattr("IPython.display.publish_display_data", lambda *published: found.append(published))
    return found


MAP = np.arange(20.0).reshape(4, 5)


def test_wrong_map_is_drawn_beside_the_expected_one(shown: list) -> None:
    """Is one picture shown, with the message as its alternative text, and red crosses only on wrong values?"""
    spoiled = np.stack([MAP, MAP + 9 * (MAP == 7)])
    before = time.process_time()
    error = said({"weights": spoiled}, {"weights": np.stack([MAP, MAP])})
    assert time.process_time() - before < 3  # 0.2 s, and the first import of Matplotlib in the process
    ((data, about),) = shown
    assert about == {"image/png": {"alt": str(error)}} and data["text/plain"] == str(error)
    pixels = imread(io.BytesIO(base64.b64decode(data["image/png"])))
    red = (pixels[..., 0] > 0.7) & (pixels[..., 1] < 0.4)
    assert 5 < red.sum() < 200 and red[:, : red.shape[1] // 2].sum() == 0


@pytest.mark.parametrize(
    "got",
    [{"it": MAP.T}, {"it": MAP[0]}, {"it": np.float64(2)}, {"it": MAP[:, :1]}],
    ids=["shape", "row", "number", "column"],
)
def test_what_is_no_map_is_not_drawn(shown: list, got: dict) -> None:
    """Is nothing drawn for a wrong shape, a row or a number?"""
    said(got, {"it": MAP if np.shape(got["it"]) == (5, 4) else got["it"] + 1})
    assert shown == []


def test_nothing_is_drawn_outside_a_notebook_or_for_a_hidden_check(
    shown: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do hidden checks, the grader's process and an environment without Matplotlib give only the message?"""
    said({"it": MAP}, {"it": MAP + 1}, show=False)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib.figure", None)
        assert "off by up to 1" in str(said({"it": MAP}, {"it": MAP + 1}))
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    said({"it": MAP}, {"it": MAP + 1})
    assert shown == []

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

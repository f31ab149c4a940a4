"""Read and use a page with a widget as its reader does."""

import itertools
import re
import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Locator, Page

from autograder.imports import ROOT

STATIC = ROOT / "book" / "_static"
PACKER = runpy.run_path(str(ROOT / "book" / "_ext" / "browser_model.py"))  # its names


Open = Callable[..., Page]


def recorded_and_rounded(name: str) -> tuple[dict, dict]:
    """Return the parameters of a recorded model, and the same with 8 bits for each, as in the page."""
    state = torch.load(PACKER["RECORDS"] / f"{name}.pt", weights_only=True)
    state, rounded = {key: parameter.float() for key, parameter in state.items()}, {}
    for key, parameter in state.items():
        scales, numbers = PACKER["quantise"](PACKER["as_rows"](parameter))
        rounded[key] = (scales[:, None] * numbers).reshape(parameter.shape)
    return state, rounded


def call(page: Page, function: str, *given: Any) -> Any:
    """Return what a function of the page's widgets gives, such as "masks.compute"; arrays go to it as lists."""
    lists = [each.tolist() if isinstance(each, (np.ndarray, torch.Tensor)) else each for each in given]
    return page.evaluate(f"given => Widgets.{function}(...given)", lists)


def note_of(page: Page) -> str:
    """Return what a widget says about its present state."""
    return page.locator(".widget-note").text_content()


def read(table: Locator) -> np.ndarray:
    """Return the numbers of a matrix as a reader sees them."""
    rows = table.locator("tbody tr").all()
    cells = [[cell.text_content() for cell in row.locator("td").all()] for row in rows]
    return np.array(
        [[float(text.replace("\N{MINUS SIGN}", "-").replace("\N{INFINITY}", "inf")) for text in row] for row in cells]
    )


def matrix(page: Page, title: str) -> Locator:
    """Return the matrix with this title."""
    return page.locator("table").filter(has=page.locator("caption", has_text=re.compile(f"^{re.escape(title)}$")))


def stroke(page: Page, *points: tuple[float, float]) -> None:
    """Move a finger over the screen, with a few places between the points."""
    finger = page.context.new_cdp_session(page)
    between = [np.linspace(a, b, 8) for a, b in itertools.pairwise(points)]
    for kind, (x, y) in [("touchStart", points[0]), *(("touchMove", each) for part in between for each in part[1:])]:
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": float(x), "y": float(y)}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Move the mouse with its button pressed."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=20)
    page.mouse.up()


def middle(locator: Locator) -> tuple[float, float]:
    """Return the middle of an element's visible part."""
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def press(page: Page, value: str) -> None:
    """Choose one of several options by touch."""
    page.locator(f"input[type=radio][value='{value}']").tap()


def slide(page: Page, name: str, value: float) -> None:
    """Set a slider to a value that can be dragged."""
    page.get_by_role("slider", name=name).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )

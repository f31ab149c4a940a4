"""Is every widget small, accessible, narrow enough for a phone, and usable by mouse, finger and keyboard?"""

import re

import numpy as np
import pytest
from conftest import find_violations
from playwright.sync_api import Browser
from widget_page import STATIC, Open, drag, matrix, middle, press, read, stroke

from autograder.imports import ROOT

WIDGETS = sorted(path.stem.removeprefix("widget_") for path in STATIC.glob("widget_*.js"))


BEYOND = """() => [...document.querySelectorAll(".widget-box *")].filter(element =>
    element.getBoundingClientRect().right > innerWidth - 15).map(element => element.outerHTML.slice(0, 90))"""


@pytest.mark.parametrize(
    "name",
    ["widgets", "quiz", "sketch", "einsum", "transformer", "vit", "decoder", *(f"widget_{name}" for name in WIDGETS)],
)
def test_widget_is_small(name: str) -> None:
    """Is each script at most 15 kB?"""
    assert (STATIC / f"{name}.js").stat().st_size <= 15_000


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_has_a_place_in_the_book(name: str) -> None:
    """Does a page of the book have a place for each widget, with content for readers without scripts?"""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md"))
    places = re.findall(rf"^(:{{3,}})\{{widget\}} {name}\n(.*?)^\1$", pages, re.DOTALL | re.MULTILINE)
    assert places
    assert all(len(content.strip()) > 40 for _, content in places)


# Actions in a widget after which lamps are lit, numbers are NaN, an answer is given, or heads are off.
IN_USE = {
    "attention": "[aria-expanded], [value=M3], [value=long], .widget-lamps button",
    "temperature": "[value='-1000'], [aria-expanded]",
    "masks": "[value=M20], [value=nothing]",
    "heads": "[value=M21], .widget-lamps button",
    "riddle": "[data-kind=keys]",
    "einsum": "[value='bij,bj->bi']",
    "drills": ".widget-picks [type=button]",
    "learn": "[value=first]",
    "wrong_lines": ".line",
    "writer": ".widget-picks button:first-child",
    "digit": "td:nth-of-type(2) > .cell, .widget-picks [aria-pressed]",
}


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_is_accessible(name: str, open_widget: Open) -> None:
    """Does axe find nothing in a widget, unused and in use, in both themes?"""
    page = open_widget(name)
    box = page.locator(".widget-box")
    for wanted in dict.fromkeys(("", IN_USE.get(name, ""))):
        if wanted:
            before = box.inner_html()
            page.evaluate("wanted => document.querySelectorAll(wanted).forEach(each => each.click())", wanted)
            assert box.inner_html() != before
        for theme in ("dark", "light"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
            page.evaluate("() => Promise.all(document.getAnimations().map(animation => animation.finished))")
            # Only the contrast depends on the theme.
            rules = {} if theme == "light" else {"runOnly": ["color-contrast"]}
            assert find_violations(page, ".widget", **rules) == [], (wanted, theme)


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_fits_a_phone(name: str, open_widget: Open) -> None:
    """Is a widget at most as wide as a page of 390 pixels, with nothing beyond its edge?"""
    page = open_widget(name, width=390)
    assert page.evaluate("() => document.scrollingElement.scrollWidth") <= 390
    assert page.evaluate(BEYOND) == []


@pytest.mark.parametrize("name", WIDGETS)
def test_keyboard_reaches_all_of_a_widget(name: str, open_widget: Open) -> None:
    """Does the Tab key reach every button, field and slider, and one of each group of choices?"""
    page = open_widget(name)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll(".widget-box :is(button, input, select, [tabindex='0'])")].filter(e =>
            e.offsetParent !== null && !e.disabled && e.tabIndex >= 0 && (e.type !== "radio" || e.checked)).length"""
    )
    reached = 0
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached += page.evaluate("() => document.activeElement.closest('.widget-box') !== null")
    assert reached == wanted > 0


def test_number_is_changed_by_keyboard_mouse_and_finger(open_widget: Open) -> None:
    """Do the arrow keys and a move to the right raise a number, and does the output change with it?"""
    page = open_widget("attention", width=390)
    before = read(matrix(page, "4 mix, output"))
    field = matrix(page, "queries Q").locator("input").first
    field.focus()
    page.keyboard.press("ArrowUp")
    assert field.input_value() == "1.5"
    for move, value in ((drag, "4"), (stroke, "6.5")):
        x, y = middle(field)
        move(page, (x, y), (x + 60, y))
        assert field.input_value() == value
    after = read(matrix(page, "4 mix, output"))
    assert (after[0] != before[0]).all()
    np.testing.assert_array_equal(after[1:], before[1:])


def test_mask_is_painted_by_keyboard_mouse_and_finger(open_widget: Open) -> None:
    """Does a stroke forbid the cells in its way, do arrow keys and Space allow one again, and do the weights follow?"""
    page = open_widget("masks", width=390)
    press(page, "all")
    cells = matrix(page, "may look").locator("button")
    cells.first.scroll_into_view_if_needed()
    drag(page, middle(cells.nth(3)), middle(cells.nth(33)))
    stroke(page, middle(cells.nth(12)), middle(cells.nth(14)))
    weights = read(matrix(page, "weights"))
    assert {*zip(*np.nonzero(weights == 0))} == {*((row, 3) for row in range(6)), (2, 0), (2, 1), (2, 2)}
    np.testing.assert_allclose(weights.sum(1), 1, atol=0.031)
    cells.first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert read(matrix(page, "weights"))[1, 3] > 0


def test_widget_is_printed_as_it_stands(open_widget: Open) -> None:
    """Does the print show the numbers and the choice, without controls that are useless on paper?"""
    page = open_widget("attention")
    page.get_by_role("button", name="Choose a mistake").click()
    press(page, "M8")
    page.emulate_media(media="print")
    assert matrix(page, "3 softmax").is_visible()
    assert [each.text_content() for each in page.locator(".widget-choice label").all() if each.is_visible()] == [
        "example",
        "not scaled",
    ]
    assert not page.get_by_text("What is here without a script.").is_visible()


def test_place_of_a_widget_is_read_without_scripts(browser: Browser, open_widget: Open) -> None:
    """Is the content of a widget's place shown if no script runs?"""
    address = open_widget("attention").url
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.get_by_text("What is here without a script.").is_visible()
    context.close()

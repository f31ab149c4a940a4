"""Does what one can touch answer as NumPy and PyTorch do, in a real browser, from file://, by mouse and by keyboard?"""

import itertools
import re
import runpy
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from solutions.vit import ViT, attention_maps, attention_rollout, patchify

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "book" / "_static"
WIDGETS = sorted(path.stem.removeprefix("widget_") for path in STATIC.glob("widget_*.js"))
Open = Callable[..., Page]
PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}">
<head><meta charset="utf-8"><title>{name}</title><style>:root {{ --pst-color-background: #fff }}</style>{head}</head>
<body style="margin: 0; background: var(--pst-color-background); color: var(--pst-color-text-base)">
<main><h1>A page</h1><article class="bd-article" style="max-width: 730px; margin: 1rem">
<div class="widget" id="widget-{name}"><p>What stands here without a script.</p></div>
</article></main></body></html>"""
BEYOND = """() => [...document.querySelectorAll(".widget-box *")].filter(element =>
    element.getBoundingClientRect().right > innerWidth - 15).map(element => element.outerHTML.slice(0, 90))"""


@pytest.fixture
def open_widget(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a page with one widget from its file, and fails where the page complains."""
    pages, complaints = [], []

    def open_page(name: str, width: int = 1280, theme: str = "light") -> Page:
        scripts = "".join(
            f'<script defer src="{(STATIC / f"{each}.js").as_uri()}"></script>'
            for each in ("widgets", "sketch", f"widget_{name}")
        )
        sheets = "".join(
            f'<link rel="stylesheet" href="{(STATIC / each).as_uri()}">' for each in ("book.css", "widgets.css")
        )
        path = tmp_path / f"{name}.html"
        path.write_text(PAGE.format(name=name, theme=theme, head=sheets + scripts), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, has_touch=True, color_scheme=theme)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on(
            "request",
            lambda request: complaints.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def read(table: Locator) -> np.ndarray:
    """Return the numbers of a matrix that a reader sees."""
    rows = table.locator("tbody tr").all()
    cells = [[cell.text_content() for cell in row.locator("td").all()] for row in rows]
    return np.array(
        [[float(text.replace("\N{MINUS SIGN}", "-").replace("\N{INFINITY}", "inf")) for text in row] for row in cells]
    )


def matrix(page: Page, title: str) -> Locator:
    """Return the matrix of this title."""
    return page.locator("table").filter(has=page.locator("caption", has_text=re.compile(f"^{re.escape(title)}$")))


def stroke(page: Page, *points: tuple[float, float]) -> None:
    """Draw a finger over the glass, with a few places between the points."""
    finger = page.context.new_cdp_session(page)
    between = [np.linspace(a, b, 8) for a, b in itertools.pairwise(points)]
    for kind, (x, y) in [("touchStart", points[0]), *(("touchMove", each) for part in between for each in part[1:])]:
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": float(x), "y": float(y)}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def middle(locator: Locator) -> tuple[float, float]:
    """Return the middle of what is seen of an element."""
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def press(page: Page, value: str) -> None:
    """Choose one of several by a touch."""
    page.locator(f"input[type=radio][value='{value}']").tap()


@pytest.mark.parametrize("name", ["widgets", "sketch", "vit", *(f"widget_{name}" for name in WIDGETS)])
def test_widget_is_small(name: str) -> None:
    """Is each script at most 15 kB?"""
    assert (STATIC / f"{name}.js").stat().st_size <= 15_000


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_has_a_place_in_the_book(name: str) -> None:
    """Does a page of the book keep a place for each widget, with something in it for whoever has no script?"""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md"))
    places = re.findall(rf"^(:{{3,}})\{{widget\}} {name}\n(.*?)^\1$", pages, re.DOTALL | re.MULTILINE)
    assert places
    assert all(len(content.strip()) > 40 for _, content in places)


def find_violations(page: Page) -> list[tuple[str, str]]:
    """Return what axe calls serious or critical in the widget of a page."""
    found = Axe().run(page, context=".widget", options={"preload": False}).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [(each["id"], node["html"][:100]) for each in serious for node in each["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", WIDGETS)
def test_widget_is_accessible(name: str, theme: str, open_widget: Open) -> None:
    """Does axe find nothing serious in a widget, in either theme?"""
    assert find_violations(open_widget(name, theme=theme)) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("attention", "[value=M3], [value=long]"),
        ("temperature", "[value=M3], [value='-1000']"),
        ("masks", "[value=M20], [value=nothing]"),
        ("heads", "[value=M21]"),
        ("riddle", "[data-kind=keys]"),
        ("einsum", "[value='bij,bj->bi']"),
        ("digit", "td:nth-of-type(2) > .cell, .widget-picks [aria-pressed]"),
    ],
)
def test_widget_in_use_is_accessible(name: str, wanted: str, theme: str, open_widget: Open) -> None:
    """Does axe find nothing serious where lamps are lit, numbers are NaN, an answer is given, heads are off?"""
    page = open_widget(name, theme=theme)
    before = page.locator(".widget-box").inner_html()
    page.evaluate("wanted => document.querySelectorAll(wanted).forEach(each => each.click())", wanted)
    assert page.locator(".widget-box").inner_html() != before
    assert find_violations(page) == []


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_fits_a_phone(name: str, open_widget: Open) -> None:
    """Is a widget no wider than a page of 390 pixels, and does nothing in it stand beyond its edge?"""
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


def draw(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return numbers with two digits behind the point, as somebody may type them."""
    return torch.from_numpy(rng.normal(size=shape).round(2) * 2)


def wrong_weights(version: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return the weights of a version, (3, 3), by PyTorch's softmax."""
    if version == "M6":
        return torch.softmax(q @ k.T / 2**0.5, dim=0)
    if version == "M11":
        q, k = k, q
    if version == "M12":
        q = k = v
    scale = {"M8": 1.0, "M9": 0.5, "M10": 0.5}.get(version, 0.5**0.5)  # M9: D = 4; M10: d = 2
    return F.scaled_dot_product_attention(q[None], k[None], torch.eye(3).double()[None], scale=scale)[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_attention_is_that_of_pytorch(seed: int, open_widget: Open) -> None:
    """Are the weights and the output of every version those of PyTorch, for numbers that are typed in?"""
    page, rng = open_widget("attention"), np.random.default_rng(seed)
    given = [draw(rng, 3, 2) for _ in range(3)]
    for name, numbers in zip(("queries Q", "keys K", "values V"), given, strict=True):
        for field, number in zip(matrix(page, name).locator("input").all(), numbers.flatten().tolist(), strict=True):
            field.fill(f"{number:.2f}")
    for version in ("right", "M3", "M6", "M8", "M9", "M10", "M11", "M12", "M13"):
        press(page, version)
        weights = wrong_weights(version, *given)
        output = weights @ (given[1] if version == "M13" else given[2])
        # two digits are shown
        np.testing.assert_allclose(read(matrix(page, "3 softmax")), weights, atol=0.00501, err_msg=version)
        np.testing.assert_allclose(read(matrix(page, "4 mix, output")), output, atol=0.00501, err_msg=version)
        np.testing.assert_allclose(read(matrix(page, "sum"))[:, 0], weights.sum(1), atol=0.00501, err_msg=version)


@pytest.mark.parametrize("seed", range(3))
def test_lamps_are_those_of_the_chapter(seed: int, open_widget: Open) -> None:
    """Do the tests notice what the table of the chapter says, for numbers without symmetry?"""
    page, rng = open_widget("attention"), np.random.default_rng(seed)
    given = {name: draw(rng, 3, 2).tolist() for name in "QKV"}
    seen = {
        version: page.evaluate("([given, version]) => Widgets.attention.noticed(given, version)", [given, version])
        for version in ("right", "M3", "M6", "M8", "M9", "M10", "M11", "M12", "M13")
    }
    only_loop = [False] * 5 + [True]  # shape, permute, same, mean, large, loop
    assert seen == dict.fromkeys(("M6", "M8", "M9", "M10", "M11"), only_loop) | {
        "right": [False] * 6,
        "M3": [False] * 4 + [True, False],
        "M12": [False, False, False, True, False, True],
        "M13": [False, False, True, True, False, True],
    }


def test_lamps_stay_dark_on_ones(open_widget: Open) -> None:
    """Do inputs of ones hide swapped queries and keys, as the note says?"""
    page = open_widget("attention")
    press(page, "M11")
    assert page.locator(".lit").all_text_contents() == ["loopIs the output that of a plain loop, to 10⁻⁵?notices"]
    press(page, "ones")
    assert page.locator(".lit").count() == 0


def test_attention_overflows_without_the_maximum(open_widget: Open) -> None:
    """Does M3 show NaN for long queries, and does the right version not?"""
    page = open_widget("attention")
    press(page, "long")
    assert np.isfinite(read(matrix(page, "4 mix, output"))).all()
    press(page, "M3")
    assert np.isnan(read(matrix(page, "4 mix, output"))).sum() == 4
    assert "4 of 6 tests notice" in page.locator(".widget-note").text_content()


def test_number_is_changed_by_keyboard_and_by_dragging(open_widget: Open) -> None:
    """Do the arrow keys and a drag to the right raise a number, and does the output follow?"""
    page = open_widget("attention")
    before = read(matrix(page, "4 mix, output"))
    field = matrix(page, "queries Q").locator("input").first
    field.focus()
    page.keyboard.press("ArrowUp")
    assert field.input_value() == "1.5"
    box = field.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 68, box["y"] + 10, steps=4)
    page.mouse.up()
    assert field.input_value() == "3.5"
    after = read(matrix(page, "4 mix, output"))
    assert (after[0] != before[0]).all()
    np.testing.assert_array_equal(after[1:], before[1:])


def test_choice_is_walked_by_arrow_keys(open_widget: Open) -> None:
    """Does an arrow key choose the next version, and is its formula shown?"""
    page = open_widget("attention")
    page.locator("input[value='right']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[value='M6']").is_checked()
    assert "over the queries" in page.locator(".widget-formula").text_content()


def test_riddle_shows_two_softmaxes_of_one_table(open_widget: Open) -> None:
    """Are both maps those of NumPy, does an answer uncover the sums, and is each answer counted once?"""
    page, rng = open_widget("riddle"), np.random.default_rng(0)
    scores = rng.normal(size=(5, 5))
    made = page.evaluate("scores => Widgets.riddle.compute(scores)", scores.tolist())
    np.testing.assert_allclose(made["keys"], torch.softmax(torch.from_numpy(scores), 1), rtol=1e-12)
    np.testing.assert_allclose(made["queries"], torch.softmax(torch.from_numpy(scores), 0), rtol=1e-12)
    assert not page.locator(".late").first.is_visible()
    for round_ in (1, 2):
        page.locator("[data-kind=queries]").tap()
        page.locator("[data-kind=keys]").tap(force=True)  # it is disabled by now
        assert f"({round_} of {round_} found.)" in page.locator("[role=status]").text_content()
        assert page.locator(".late").first.is_visible()
        page.get_by_text("Another table").press("Enter")
    page.locator("[data-kind=keys]").tap()
    assert "(2 of 3 found.)" in page.locator("[role=status]").text_content()


def slide(page: Page, name: str, value: float) -> None:
    """Put a slider where somebody may drag it."""
    page.get_by_role("slider", name=name).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_temperature_is_that_of_pytorch(seed: int, open_widget: Open) -> None:
    """Are weights, entropy and Jacobian those of PyTorch and its autograd, for scores and a temperature that are dragged?"""
    page, rng = open_widget("temperature"), np.random.default_rng(seed)
    scores, power = rng.uniform(-3, 3, 3).round(2), round(rng.uniform(-1, 1), 2)
    slide(page, "temperature", power)
    for place, score in enumerate(scores, 1):
        slide(page, f"score {place}", score)
    divided = torch.from_numpy(scores / 10**power)
    weights = torch.softmax(divided, 0)
    shown = [float(text) for text in page.locator(".widget-row .widget-bar").all_text_contents()]
    np.testing.assert_allclose(shown, weights, atol=0.000501)
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), divided)
    np.testing.assert_allclose(read(matrix(page, "Jacobian ∂p / ∂(s/τ)")), jacobian, atol=0.000501)
    entropy = torch.special.entr(weights).sum().item()
    assert f"entropy {entropy:.2f} of" in page.locator(".entropy").text_content()
    for shift in (True, False):  # to every digit, and with NaN where NumPy has it
        for added in (0, 1000, -1000):
            given = (scores + added).tolist()
            made = page.evaluate("([s, tau, shift]) => Widgets.temperature.compute(s, tau, shift)", [given, 2.0, shift])
            with np.errstate(all="ignore"):
                exponentials = np.exp(np.array(given) / 2.0 - (max(given) / 2.0 if shift else 0.0))
                expected = exponentials / exponentials.sum()
            np.testing.assert_allclose(made["weights"], expected, rtol=1e-12)


def test_temperature_shows_the_overflow(open_widget: Open) -> None:
    """Are 1,000 more no difference with the maximum subtracted, and NaN without?"""
    page = open_widget("temperature")
    shown = page.locator(".widget-row .widget-bar")
    before = shown.all_text_contents()
    press(page, "1000")
    assert shown.all_text_contents() == before == ["0.167", "0.333", "0.500"]
    press(page, "M3")
    assert shown.all_text_contents() == ["NaN"] * 3
    assert "∞" in page.locator(".widget-box").text_content()
    press(page, "0")
    assert shown.all_text_contents() == before


def test_temperature_is_turned_by_keyboard(open_widget: Open) -> None:
    """Does an arrow key turn the dial, and is the temperature read out, not the slider's power of ten?"""
    page = open_widget("temperature")
    dial = page.get_by_role("slider", name="temperature")
    dial.press("ArrowRight")
    assert dial.get_attribute("aria-valuetext") == "1.02"
    dial.press("Home")
    assert dial.get_attribute("aria-valuetext") == "0.03"


def misread(version: str, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the weights of a version that reads a mask, by PyTorch's own attention with the scores as its mask."""
    zero = torch.zeros(6, 1).double()
    given = {
        "right": scores.masked_fill(~mask, -torch.inf),
        "M16": scores.masked_fill(mask, -torch.inf),
        "M18": scores + mask,
        "M19": scores.masked_fill(~mask.T, -torch.inf),
        "M20": scores.masked_fill(~mask, -1e9),
    }.get(version, scores)
    weights = F.scaled_dot_product_attention(
        zero[None], zero[None], torch.eye(6).double()[None], attn_mask=given[None]
    )[0]
    return weights * mask if version == "M17" else weights


@pytest.mark.parametrize("seed", [0, 1])
def test_masks_are_read_as_pytorch_reads_them(seed: int, open_widget: Open) -> None:
    """Are the weights under random masks those of PyTorch, in every version, and the leak what is forbidden?"""
    page, rng = open_widget("masks"), np.random.default_rng(seed)
    scores, mask = torch.from_numpy(rng.normal(size=(6, 6))), torch.from_numpy(rng.random((6, 6)) < 0.5)
    mask[range(6), rng.permutation(6)] = True  # no row and no column is empty,
    mask[range(6), rng.permutation(6)] = False  # and none is full
    mask[:, 0], mask[0], mask[0, 5] = True, True, False
    for version in ("right", "M16", "M17", "M18", "M19", "M20", "M71"):
        call = "([scores, mask, version]) => Widgets.masks.compute(scores, mask, version).weights"
        made = np.array(page.evaluate(call, [scores.tolist(), mask.tolist(), version]))
        expected = misread(version, scores, mask).numpy()
        seen = np.isfinite(made).all(1)  # PyTorch answers 0 where a row is empty, the formula NaN
        assert seen.any()
        assert (expected[~seen] == 0).all()
        np.testing.assert_allclose(made[seen], expected[seen], atol=1e-12, err_msg=version)
        leaks = page.evaluate(
            "([weights, mask]) => Widgets.masks.leaks(weights, mask)", [expected.tolist(), mask.tolist()]
        )
        np.testing.assert_allclose(leaks, (expected * ~mask.numpy()).sum(1), atol=1e-12)


def test_mask_is_painted_by_mouse_and_by_keyboard(open_widget: Open) -> None:
    """Does a stroke forbid a column, do arrow keys and Space allow a pair again, and do the weights follow?"""
    page = open_widget("masks")
    press(page, "all")
    cells = matrix(page, "may look").locator("button")
    first, last = cells.nth(3).bounding_box(), cells.nth(33).bounding_box()
    page.mouse.move(first["x"] + 9, first["y"] + 9)
    page.mouse.down()
    page.mouse.move(last["x"] + 9, last["y"] + 9, steps=20)
    page.mouse.up()
    weights = read(matrix(page, "weights"))
    assert (weights[:, 3] == 0).all()
    np.testing.assert_allclose(weights.sum(1), 1, atol=0.031)
    cells.first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert read(matrix(page, "weights"))[1, 3] > 0
    cells.nth(4).tap()
    assert read(matrix(page, "weights"))[0, 4] == 0


def test_masks_say_what_leaks(open_widget: Open) -> None:
    """Is the leak of M20 a whole row, and is the right answer to an empty row an error in words?"""
    page = open_widget("masks")
    press(page, "nothing")
    assert "ValueError: query 3 may look at no key" in page.locator(".widget-note").text_content()
    assert np.isnan(read(matrix(page, "weights"))).all()
    press(page, "M20")
    assert "1.00 of 6 units" in page.locator(".widget-note").text_content()
    np.testing.assert_allclose(read(matrix(page, "weights"))[2], 1 / 6, atol=0.00501)


@pytest.fixture(scope="module")
def packer() -> dict:
    """What book/_ext/browser_model.py defines."""
    return runpy.run_path(str(ROOT / "book" / "_ext" / "browser_model.py"))


@pytest.fixture(scope="module")
def models(packer: dict) -> tuple[ViT, ViT]:
    """The recorded model, and the one with its parameters in 8 bits for each number."""
    state = torch.load(packer["RECORD"], weights_only=True)
    rounded = {}
    for name, parameter in state.items():
        scales, numbers = packer["quantise"](packer["as_rows"](parameter))
        rounded[name] = (scales[:, None] * numbers).reshape(parameter.shape)
    pair = ViT(), ViT()
    for model, parameters in zip(pair, (state, rounded), strict=True):
        model.load_state_dict(parameters)
        model.eval()
    return pair


def draw_digits(count: int) -> torch.Tensor:
    """Return scikit-learn's digits in the size of MNIST's, (count, 28, 28) in [0, 1]: MNIST itself is not at hand."""
    table = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    small = (
        torch.from_numpy(np.loadtxt(table, delimiter=",", max_rows=count, ndmin=2)[:, :64]).float().view(-1, 1, 8, 8)
        / 16
    )
    large = F.interpolate(small, size=(20, 16), mode="bicubic")  # (count, 1, 20, 16)
    return F.pad(((large - 0.2) / 0.6).clamp(0, 1), (6, 6, 4, 4))[:, 0]


def logits_of(model: ViT, images: torch.Tensor) -> torch.Tensor:
    """Return a model's logits, (n, 10), for pixels in [0, 1], (n, 28, 28)."""
    with torch.no_grad():
        return model((images[:, None] - 0.1307) / 0.3081)


@pytest.fixture
def reader(open_widget: Open) -> Page:
    """A page on which the model is loaded and a 7 is read."""
    page = open_widget("digit")
    assert page.locator("script[src*=vit]").count() == 0  # nothing is loaded before somebody asks
    page.get_by_role("button", name="7", exact=True).click()
    page.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as')")
    return page


def test_packed_model_is_up_to_date(packer: dict) -> None:
    """Is the script what the recorded parameters give?"""
    assert packer["SCRIPT"].read_text(encoding="utf-8") == packer["pack"](
        torch.load(packer["RECORD"], weights_only=True)
    )


RUN = """async ([images, gain]) => {
    window.model ??= await new Promise(done => {
        Widgets.digit.take = packed => done(Widgets.vit.unpack(packed));
        const script = document.createElement("script");
        script.src = document.querySelector("script[src*=vit_mnist]").src;
        document.head.append(script);
    });
    return images.map(image => Widgets.vit.run(window.model, image, gain).logits);
}"""


def test_model_in_the_page_is_that_of_pytorch(reader: Page, models: tuple[ViT, ViT]) -> None:
    """Are its logits PyTorch's with the same rounded parameters, and does it read digits as the full model does?"""
    full, rounded = models
    digits = draw_digits(200)
    made = torch.tensor(reader.evaluate(RUN, [digits.flatten(1).tolist(), None]))
    assert (made - logits_of(rounded, digits)).abs().max() < 1e-3  # the book's promise; float32 explains 1e-5
    assert (made.argmax(1) == logits_of(full, digits).argmax(1)).sum() >= 199


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_head_is_switched_off_as_in_pytorch(factor: float, reader: Page, models: tuple[ViT, ViT]) -> None:
    """Is a head that is switched off, or negated, one whose part of the output projection is 0, or negated?"""
    gain, digits = [[1.0] * 8 for _ in range(6)], draw_digits(5)
    changed = ViT()
    changed.load_state_dict(models[1].state_dict())
    changed.eval()
    for block, head in ((0, 2), (2, 5), (5, 7)):
        gain[block][head] = factor
        with torch.no_grad():
            changed.encoder.blocks[block].self_attn.out_proj.weight[:, 8 * head : 8 * head + 8] *= factor
    made = torch.tensor(reader.evaluate(RUN, [digits.flatten(1).tolist(), gain]))
    expected = logits_of(changed, digits)
    assert (expected - logits_of(models[1], digits)).abs().max() > 0.1
    assert (made - expected).abs().max() < 1e-3


def test_maps_and_rollout_are_those_of_pytorch(reader: Page, models: tuple[ViT, ViT]) -> None:
    """Are the 48 maps PyTorch's, and is the rollout that of the exercise's answer?"""
    digit = draw_digits(1)
    reader.evaluate(RUN, [[], None])
    call = (
        "image => { const { maps } = Widgets.vit.run(window.model, image); return [maps, Widgets.vit.rollout(maps)]; }"
    )
    maps, rollout = map(torch.tensor, reader.evaluate(call, digit.flatten().tolist()))
    expected = attention_maps(models[1], (digit[:, None] - 0.1307) / 0.3081)
    assert (maps - expected[:, 0]).abs().max() < 1e-4
    assert (rollout - attention_rollout(expected)[0]).abs().max() < 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_ink_is_prepared_as_for_mnist(seed: int, open_widget: Open) -> None:
    """Does ink come into a box of 20 pixels by area, with its centre of mass in the middle?"""
    rng, side = np.random.default_rng(seed), 60
    top, left, height, width = rng.integers(2, 15), rng.integers(2, 15), rng.integers(25, 42), rng.integers(25, 42)
    ink = np.zeros((side, side), np.float32)
    ink[top : top + height, left : left + width] = rng.uniform(0.1, 1, (height, width))
    made = open_widget("digit").evaluate(
        "([ink, side]) => Widgets.sketch.prepare(ink, side)", [ink.flatten().tolist(), side]
    )
    made = np.array(made).reshape(28, 28)
    rows, columns = np.flatnonzero(made.any(1)), np.flatnonzero(made.any(0))
    cut = made[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert max(cut.shape) == 20
    expected = ink[top : top + height, left : left + width]
    for count in cut.shape:  # repeated so often that each pixel covers whole numbers of them
        expected = expected.repeat(count, axis=0).reshape(count, -1, expected.shape[1]).mean(1).T
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    for axis in (0, 1):
        assert abs((made.sum(1 - axis) * np.arange(28)).sum() / made.sum() - 14) <= 0.5  # MNIST's own mean is 14.0


def test_digits_to_begin_with_are_read(reader: Page) -> None:
    """Does the model read each digit that stands there to begin with, and is its bar the longest?"""
    for digit in range(10):
        reader.get_by_role("button", name=str(digit), exact=True).click()
        said = f"() => document.querySelector('.widget-note').textContent.startsWith('Read as {digit}.')"
        reader.wait_for_function(said)
        assert reader.locator(".best").text_content().startswith(str(digit))


def test_digit_is_drawn_by_mouse_and_by_keyboard(reader: Page) -> None:
    """Is a stroke down a 1, by mouse and by arrow keys, and does it grow into a 7?"""
    box = reader.locator(".paper").bounding_box()
    reader.mouse.move(box["x"] + 110, box["y"] + 30)
    reader.mouse.down()
    reader.mouse.move(box["x"] + 90, box["y"] + 180, steps=5)
    reader.mouse.up()
    reader.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as 1.')")
    reader.get_by_role("button", name="Clear").click()
    reader.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Nothing')")
    reader.locator(".paper").focus()
    for key in [*["ArrowUp"] * 7, *["ArrowLeft"] * 3, "Space", *["ArrowRight"] * 8, *["ArrowDown"] * 13, "Space"]:
        reader.keyboard.press(key)
    reader.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as 7.')")


def test_heads_are_switched_by_keyboard_and_back(reader: Page) -> None:
    """Do Space and the arrow keys switch heads off, do negated values change the answer, and is all brought back?"""
    reader.locator(".cell").first.focus()
    for key in ("Space", "ArrowRight", "Space"):
        reader.keyboard.press(key)
    assert "46 of 48 heads are on" in reader.locator(".widget-note").text_content()
    reader.get_by_role("button", name="All heads on").click()
    assert reader.locator(".widget-note").text_content() == "Read as 7. "
    reader.get_by_role("button", name="Same maps").click()
    assert "the model reads 7" in reader.locator(".widget-note").text_content()
    assert not reader.locator(".best").text_content().startswith("7")


def draw_equation(rng: np.random.Generator) -> str:
    """Return a random equation of one to three arrays that einsum accepts, with letters that repeat."""
    inputs = ["".join(rng.choice(list("abcde"), rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]
    letters = sorted(set("".join(inputs)))
    return f"{','.join(inputs)}->{''.join(rng.permutation(letters)[: rng.integers(0, len(letters) + 1)])}"


def test_einsum_is_that_of_numpy(open_widget: Open) -> None:
    """Is the result of sixty random equations NumPy's, and does it say of each number what it is made of?"""
    page, rng = open_widget("einsum"), np.random.default_rng(0)
    sizes = dict(zip("abcde", (2, 3, 4, 5, 6), strict=True))
    for _ in range(60):
        equation = draw_equation(rng)
        inputs = equation.partition("->")[0]
        arrays = [rng.normal(size=[sizes[letter] for letter in letters]) for letters in inputs.split(",")]
        call = "([equation, sizes, arrays]) => Widgets.einsum.compute(Widgets.einsum.parse(equation), sizes, arrays)"
        flat = [array.flatten() for array in arrays]
        made = page.evaluate(call, [equation, sizes, [array.tolist() for array in flat]])
        expected = np.einsum(equation, *arrays)
        np.testing.assert_allclose(np.reshape(made["numbers"], expected.shape), expected, atol=1e-10, err_msg=equation)
        last = sum(np.prod([array[at] for array, at in zip(flat, term, strict=True)]) for term in made["made"][-1])
        np.testing.assert_allclose(last, expected.flatten()[-1], atol=1e-10, err_msg=equation)


def blocks_of(page: Page) -> list[list[int]]:
    """Return the numbers of all arrays that are shown, the output last."""
    return [[int(text) for text in array.locator("td").all_text_contents()] for array in page.locator(".array").all()]


@pytest.mark.parametrize("equation", ["bhic,bhjc->bhij", "ij,jk,kc->ci", "iij", "bij->"])
def test_einsum_shows_what_it_computes(equation: str, open_widget: Open) -> None:
    """Are the numbers on the page those of NumPy for the inputs on the page, without an arrow too?"""
    page = open_widget("einsum")
    page.get_by_label("equation").fill(equation)
    sizes = {
        each.get_attribute("aria-label")[-1]: int(each.input_value()) for each in page.locator(".axes input").all()
    }
    *given, output = blocks_of(page)
    inputs = equation.partition("->")[0].split(",")
    arrays = [np.reshape(each, [sizes[x] for x in letters]) for each, letters in zip(given, inputs, strict=True)]
    np.testing.assert_array_equal(output, np.einsum(equation, *arrays).flatten())


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        ("ij,jk->il", "“l” is in the output and in no input"),
        ("ij->ii", "twice in the output"),
        ("ij,,jk->ik", "without letters"),
        ("", "without letters"),
        ("i1->i", "“1” is no letter"),
        ("i->j->k", "“-” is no letter"),
        ("...i->i", "“...” is left out"),
        ("i->i,j", "no comma behind the arrow"),
        ("a,b,c,d->abcd", "Three arrays at most"),
        ("bhijcd->b", "make a size smaller"),
    ],
)
def test_einsum_says_what_is_wrong(equation: str, words: str, open_widget: Open) -> None:
    """Is a wrong equation answered in words, and does the page find back from it?"""
    page = open_widget("einsum")
    page.get_by_label("equation").fill(equation)
    assert words in page.locator(".widget-note").text_content()
    assert not page.locator(".arrays").is_visible()
    page.get_by_label("equation").fill("ij->ji")
    assert page.locator(".arrays").is_visible()


def test_einsum_says_what_a_letter_does(open_widget: Open) -> None:
    """Are the three roles of the chapter named, does a size change the arrays, and the loop with it?"""
    page = open_widget("einsum")
    page.get_by_label("equation").fill("bi,bj->b")
    assert page.locator(".axes label").all_text_contents() == ["bshared", "isummed", "jsummed"]
    page.get_by_label("equation").fill("bi,bj->bij")
    assert page.locator(".axes label").all_text_contents() == ["bshared", "ifree", "jfree"]
    page.get_by_label("size of j").fill("2")
    page.get_by_label("size of j").press("Enter")
    assert [len(each) for each in blocks_of(page)] == [6, 4, 12]
    assert "for j in range(2):" in page.locator("pre").text_content()


def test_einsum_cells_are_walked_by_arrow_keys(open_widget: Open) -> None:
    """Does an arrow key lead from cell to cell, and is said what each is made of?"""
    page = open_widget("einsum")
    page.get_by_label("equation").fill("ij,j->i")
    matrix_, vector, output = blocks_of(page)
    page.locator("td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    terms = [f"{a} · {b}" for a, b in zip(matrix_[4:8], vector, strict=True)]
    assert page.locator(".widget-note").text_content() == f"{' + '.join(terms)} = {output[1]}"
    assert page.locator(".in").count() == 8
    page.locator("td[tabindex]").nth(2).hover()
    assert page.locator(".widget-note").text_content().endswith(f"= {output[2]}")


@pytest.mark.parametrize("sizes", [(3, 2, 2), (5, 4, 3), (2, 3, 5)])
def test_heads_are_split_and_merged_as_in_pytorch(sizes: tuple[int, int, int], open_widget: Open) -> None:
    """Are heads and merged tokens those of PyTorch's reshape and permute, in every version?"""
    tokens, heads, width = sizes
    page = open_widget("heads")
    rows = torch.arange(1, tokens + 1)[:, None] * 10 + torch.arange(1, heads * width + 1)  # (N, D)
    split = {
        "right": rows.unflatten(1, (heads, width)).transpose(0, 1),  # (H, N, d)
        "M21": rows.reshape(heads, tokens, width),
        "M81": rows.unflatten(1, (width, heads)).permute(2, 0, 1),
    }
    split["M22"] = split["right"]
    merged = {
        "right": rows,
        "M21": split["M21"].transpose(0, 1).flatten(1),
        "M22": split["M22"].reshape(tokens, heads * width),
        "M81": rows,
    }
    for version, expected in split.items():
        made = page.evaluate("given => Widgets.heads.compute(...given)", [*sizes, version])
        [there] = [np.reshape(stage["flat"], stage["shape"]) for stage in made if stage["axes"] == "H, N, d"]
        np.testing.assert_array_equal(there, expected, err_msg=version)
        np.testing.assert_array_equal(np.reshape(made[-1]["flat"], made[-1]["shape"]), merged[version], err_msg=version)


def test_heads_show_where_a_cell_goes(open_widget: Open) -> None:
    """Is a cell marked in every step, by keyboard and by touch, and does each mistake light its lamps?"""
    page = open_widget("heads")
    page.get_by_label("cell to follow").fill("32")
    assert page.locator("td.marked").all_text_contents() == ["32"] * 5
    page.locator("td", has_text="14").first.tap()
    assert page.locator("td.marked").all_text_contents() == ["14"] * 5
    seen = {}
    for version in ("right", "M21", "M22", "M81"):
        press(page, version)
        seen[version] = [lamp.locator("b").text_content() for lamp in page.locator(".lit").all()]
        if version == "M21":
            assert "Head 1 sees tokens 1 and 2 only." in page.locator(".widget-note").text_content()
    assert seen == {"right": [], "M21": ["round trip", "by hand"], "M22": ["round trip"], "M81": ["by hand"]}
    press(page, "3,2")
    assert page.locator(".stages .array").first.locator("td").count() == 18


@pytest.mark.parametrize("size", [2, 4, 7, 14])
def test_patches_are_those_of_the_exercise(size: int, open_widget: Open) -> None:
    """Are the patches of random pixels those of the exercise's answer, and M44's PyTorch's reshape?"""
    image = np.random.default_rng(size).random((28, 28))
    call = "([image, size]) => [Widgets.patches.patchify(image, size), Widgets.patches.reshape(image, size)]"
    cut, reshaped = open_widget("patches").evaluate(call, [image.flatten().tolist(), size])
    np.testing.assert_array_equal(cut, patchify(torch.from_numpy(image)[None, None], size)[0])
    np.testing.assert_array_equal(reshaped, image.reshape(-1, size**2))


def test_patches_say_what_a_row_is(open_widget: Open) -> None:
    """Is the chosen row told in words, by slider, by a touch of the image, and for another P?"""
    page = open_widget("patches")
    note = page.locator(".widget-note")
    assert (
        "Row 6 is the patch in row 2, column 2; under M44 it is a piece of the image's lines 9 to 11."
        in note.text_content()
    )
    page.get_by_role("slider", name="row n").press("End")
    assert "Row 16 is the patch in row 4, column 4" in note.text_content()
    page.locator(".tiles canvas").first.tap(position={"x": 5, "y": 5})
    assert (
        "Row 1 is the patch in row 1, column 1; under M44 it is a piece of the image's lines 1 to 2."
        in note.text_content()
    )
    press(page, "14")
    assert "4 rows of 196 numbers" in note.text_content()
    before = page.locator(".strips canvas").first.evaluate("strip => strip.toDataURL()")
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("before => document.querySelector('.strips canvas').toDataURL() !== before", arg=before)


def test_number_is_dragged_by_a_finger(open_widget: Open) -> None:
    """Does a finger that moves sideways raise a number?"""
    page = open_widget("attention", width=390)
    field = matrix(page, "keys K").locator("input").first
    field.scroll_into_view_if_needed()
    x, y = middle(field)
    stroke(page, (x, y), (x + 60, y))
    assert field.input_value() == "4.5"


def test_mask_is_painted_by_a_finger(open_widget: Open) -> None:
    """Does a finger that moves over a row forbid it, cell by cell?"""
    page = open_widget("masks", width=390)
    press(page, "all")
    cells = matrix(page, "may look").locator("button")
    cells.nth(12).scroll_into_view_if_needed()
    stroke(page, middle(cells.nth(12)), middle(cells.nth(16)))
    assert [cells.nth(i).get_attribute("aria-pressed") for i in range(11, 18)] == ["true", *["false"] * 5, "true"]


def test_digit_is_drawn_by_a_finger(reader: Page) -> None:
    """Is a finger's stroke read, and does the page stay where it is?"""
    reader.get_by_role("button", name="Clear").click()
    box = reader.locator(".paper").bounding_box()
    places = [(0.2, 0.15), (0.8, 0.15), (0.4, 0.9)]
    stroke(reader, *((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places))
    reader.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as 7.')")
    assert reader.evaluate("() => scrollY") == 0


def test_widget_is_printed_as_it_stands(open_widget: Open) -> None:
    """Does the print show the numbers and the choice made, without what cannot be pressed on paper?"""
    page = open_widget("attention")
    press(page, "M8")
    page.emulate_media(media="print")
    assert matrix(page, "3 softmax").is_visible()
    assert [each.text_content() for each in page.locator(".widget-choice label").all() if each.is_visible()] == [
        "M8 not scaled",
        "the example",
    ]
    assert not page.get_by_text("What stands here without a script.").is_visible()


def test_place_of_a_widget_is_read_without_scripts(browser: Browser, open_widget: Open) -> None:
    """Does what stands in its place show where no script runs?"""
    address = open_widget("attention").url
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.get_by_text("What stands here without a script.").is_visible()
    context.close()


@pytest.mark.parametrize(("width", "base"), [(64, 100.0), (16, 7.5), (4, 10000.0)])
def test_similarity_is_that_of_numpy(width: int, base: float, open_widget: Open) -> None:
    """Are both similarity maps those of sines and cosines in NumPy, for a place without symmetry?"""

    def codes_of(places: np.ndarray, width: int) -> np.ndarray:
        angles = np.outer(places, [base ** (-2 * i / width) for i in range(width // 2)])
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    row, column = np.divmod(np.arange(64), 8)
    expected = {"line": codes_of(np.arange(64), width)}
    expected["plane"] = np.concatenate([codes_of(row, width // 2), codes_of(column, width // 2)], axis=1)
    page = open_widget("positions")
    for kind, codes in expected.items():
        made = page.evaluate("given => Widgets.positions.compute(...given)", [kind, width, base, 5, 2])
        unit = codes / np.linalg.norm(codes, axis=1, keepdims=True)
        np.testing.assert_allclose(np.reshape(made, 64), unit @ unit[42], atol=1e-12)


def test_positions_say_what_the_chapter_says(open_widget: Open) -> None:
    """Are the chapter's four numbers shown at first, and do a touch and a key choose another place?"""
    page = open_widget("positions")
    note = page.locator(".widget-note")
    assert note.text_content() == "To the right: 0.940 in 1-D, 0.966 in 2-D. Below: 0.429 and 0.966."
    matrix(page, "2-D").locator("tbody tr").nth(3).locator("td").nth(7).tap()
    assert "To the right: outside in 1-D" in note.text_content()
    start_of_next = read(matrix(page, "1-D, line by line"))[4, 0]
    assert start_of_next == 0.94  # a neighbour, at the opposite side of the image
    page.get_by_role("slider", name="row").press("ArrowRight")
    assert page.locator(".chosen").count() == 2
    assert read(matrix(page, "2-D"))[4, 7] == 1

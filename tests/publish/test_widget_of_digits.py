"""Does the model in the page read a drawn digit as PyTorch does?"""

from importlib.metadata import distribution

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import FIRST_SEED_SOON
from playwright.sync_api import Page
from widget_page import PACKER, STATIC, Open, recorded_and_rounded, stroke

from solutions.vit import ViT, attention_maps, attention_rollout


@pytest.fixture(scope="module")
def models() -> tuple[ViT, ViT]:
    """The recorded model, and the same model with 8 bits for each parameter."""
    pair = ViT(), ViT()
    for model, parameters in zip(pair, recorded_and_rounded("vit_mnist"), strict=True):
        model.load_state_dict(parameters)
        model.eval()
    return pair


def draw_digits(count: int) -> torch.Tensor:
    """Return scikit-learn's digits in MNIST's size, (count, 28, 28) in [0, 1]: tests do not have MNIST."""
    table = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    small = (
        torch.from_numpy(np.loadtxt(table, delimiter=",", max_rows=count, ndmin=2)[:, :64]).float().view(-1, 1, 8, 8)
        / 16
    )
    large = F.interpolate(small, size=(20, 16), mode="bicubic")  # (count, 1, 20, 16)
    return F.pad(((large - 0.2) / 0.6).clamp(0, 1), (6, 6, 4, 4))[:, 0]


def logits_of(model: ViT, images: torch.Tensor) -> torch.Tensor:
    """Return a model's logits, (n, 10), for images (n, 28, 28) in [0, 1]."""
    with torch.no_grad():
        return model((images[:, None] - 0.1307) / 0.3081)


@pytest.fixture
def reader(open_widget: Open) -> Page:
    """A page with the loaded model after reading a 7."""
    page = open_widget("digit")
    assert page.locator("script[src*=vit]").count() == 0  # nothing is loaded before the reader asks
    page.get_by_role("button", name="7", exact=True).click()
    page.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as')")
    return page


@pytest.mark.parametrize("name", PACKER["WIDGETS"])
def test_packed_model_is_up_to_date(name: str) -> None:
    """Do the recorded parameters give this script, of at most 400 kB?"""
    script = STATIC / f"{name}.js"
    assert script.read_text(encoding="utf-8") == PACKER["pack"](name)
    assert script.stat().st_size <= 400_000


RUN = """async ([images, gain]) => {
    window.model ??= await new Promise(done => {
        Widgets.digit.take = packed => done(Widgets.transformer.unpack(packed));
        const script = document.createElement("script");
        script.src = document.querySelector("script[src*=vit_mnist]").src;
        document.head.append(script);
    });
    return images.map(image => Widgets.vit.run(window.model, image, gain).logits);
}"""


@pytest.mark.deep
def test_model_in_the_page_is_that_of_pytorch(reader: Page, models: tuple[ViT, ViT]) -> None:
    """Are the logits PyTorch's with the same rounded parameters, and does the model read digits as the full model does?"""
    full, rounded = models
    digits = draw_digits(200)
    made = torch.tensor(reader.evaluate(RUN, [digits.flatten(1).tolist(), None]))
    assert (made - logits_of(rounded, digits)).abs().max() < 1e-3  # the book promises this; float32 alone gives 1e-5
    assert (made.argmax(1) == logits_of(full, digits).argmax(1)).sum() >= 199


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_head_is_switched_off_as_in_pytorch(factor: float, reader: Page, models: tuple[ViT, ViT]) -> None:
    """Does a disabled or negated head act like a part of the output projection that is 0 or negated?"""
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


@pytest.mark.parametrize("seed", FIRST_SEED_SOON)
def test_ink_is_prepared_as_for_mnist(seed: int, open_widget: Open) -> None:
    """Is ink scaled by area into a box of 20 pixels, with its centre of mass in the middle?"""
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
    for count in cut.shape:  # repeat each value, so that every result pixel is the mean of whole values
        expected = expected.repeat(count, axis=0).reshape(count, -1, expected.shape[1]).mean(1).T
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    for axis in (0, 1):
        assert abs((made.sum(1 - axis) * np.arange(28)).sum() / made.sum() - 14) <= 0.5  # MNIST's own mean is 14.0


def test_digits_to_begin_with_are_read(reader: Page) -> None:
    """Does the model read each initial digit, with the longest bar?"""
    for digit in range(10):
        reader.get_by_role("button", name=str(digit), exact=True).click()
        said = f"() => document.querySelector('.widget-note').textContent.startsWith('Read as {digit}.')"
        reader.wait_for_function(said)
        assert reader.locator(".best").text_content().startswith(str(digit))


def test_digit_is_drawn_by_mouse_and_by_keyboard(reader: Page) -> None:
    """Is a downward stroke a 1, by mouse and by arrow keys, and does it become a 7?"""
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
    """Do Space and the arrow keys disable heads, do negated values change the answer, and can all be restored?"""
    reader.locator(".cell").first.focus()
    for key in ("Space", "ArrowRight", "Space"):
        reader.keyboard.press(key)
    assert "46 of 48 heads are on" in reader.locator(".widget-note").text_content()
    reader.get_by_role("button", name="All heads on").click()
    assert reader.locator(".widget-note").text_content() == "Read as 7. "
    reader.get_by_role("button", name="Same maps").click()
    assert "the model reads 7" in reader.locator(".widget-note").text_content()
    assert not reader.locator(".best").text_content().startswith("7")


def test_digit_is_drawn_by_a_finger(reader: Page) -> None:
    """Is a finger's stroke read without moving the page?"""
    reader.get_by_role("button", name="Clear").click()
    box = reader.locator(".paper").bounding_box()
    places = [(0.2, 0.15), (0.8, 0.15), (0.4, 0.9)]
    stroke(reader, *((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places))
    reader.wait_for_function("() => document.querySelector('.widget-note').textContent.startsWith('Read as 7.')")
    assert reader.evaluate("() => scrollY") == 0

"""Do the models in the pages read a digit, and write a text, as PyTorch does?"""

import re
from importlib.metadata import distribution

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Page
from widget_page import PACKER, STATIC, Open, call, drag, note_of, recorded_and_rounded, slide, stroke

from solutions.decoder import Decoder
from solutions.training.classify import load_run
from solutions.vit import ViT, attention_maps, attention_rollout

RECORDS = PACKER["RECORDS"]
TEXT = (RECORDS / "pages.txt").read_text(encoding="utf-8")
TAKE = """async ([widget, name]) => {
    window.packed = await new Promise(done => {
        Widgets[widget].take = done;
        const script = document.createElement("script");
        script.src = document.querySelector(`script[src*=${name}]`).src;
        document.head.append(script);
    });
    window.model = Widgets.transformer.unpack(window.packed);
}"""
READ_DIGITS = "([images, gain]) => images.map(image => Widgets.vit.run(window.model, image, gain).logits)"
READ_TEXTS = """texts => {
    const read = Widgets.decoder.reader(window.model, window.packed);
    const characters = Array.from(window.packed.characters);
    return texts.map(text => read(Array.from(text, each => characters.indexOf(each))).logits);
}"""


@pytest.mark.parametrize("name", PACKER["WIDGETS"])
def test_packed_model_is_up_to_date(name: str) -> None:
    """Do the recorded parameters give this script, of at most 400 kB?"""
    script = STATIC / f"{name}.js"
    assert script.read_text(encoding="utf-8") == PACKER["pack"](name)
    assert script.stat().st_size <= 400_000


# ---------------------------------------------------------------------------------------------------------- a digit


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
    pixels = np.loadtxt(table, delimiter=",", max_rows=count, ndmin=2)[:, :64]
    small = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 16
    large = F.interpolate(small, size=(20, 16), mode="bicubic")  # (count, 1, 20, 16)
    return F.pad(((large - 0.2) / 0.6).clamp(0, 1), (6, 6, 4, 4))[:, 0]


@torch.no_grad()
def digits_read(model: ViT, images: torch.Tensor) -> torch.Tensor:
    """Return a model's logits, (n, 10), for images (n, 28, 28) in [0, 1]."""
    return model((images[:, None] - 0.1307) / 0.3081)


@pytest.fixture
def reader(open_widget: Open) -> Page:
    """A page with the loaded model after reading a 7."""
    page = open_widget("digit")
    assert page.locator("script[src*=vit]").count() == 0  # nothing is loaded before the reader asks
    page.get_by_role("button", name="7", exact=True).click()
    wait_for_note(page, "Read as")
    return page


def wait_for_note(page: Page, words: str) -> None:
    """Wait until the widget says something that begins with these words."""
    page.wait_for_function("words => document.querySelector('.widget-note').textContent.startsWith(words)", arg=words)


@pytest.mark.parametrize("factor", [1.0, 0.0, -1.0])
def test_digits_are_read_as_by_pytorch(factor: float, reader: Page, models: tuple[ViT, ViT]) -> None:
    """Are the logits PyTorch's with the same rounded parameters, also if heads are disabled or negated?

    Such a head acts like a part of the output projection that is 0 or negated.
    """
    gain, digits = [[1.0] * 8 for _ in range(6)], draw_digits(20)
    full, rounded = models
    changed = ViT().eval()
    changed.load_state_dict(rounded.state_dict())
    for block, head in ((0, 2), (2, 5), (5, 7)):
        gain[block][head] = factor
        with torch.no_grad():
            changed.encoder.blocks[block].self_attn.out_proj.weight[:, 8 * head : 8 * head + 8] *= factor
    reader.evaluate(TAKE, ["digit", "vit_mnist"])
    made = torch.tensor(reader.evaluate(READ_DIGITS, [digits.flatten(1).tolist(), gain]))
    expected = digits_read(changed, digits)
    assert (made - expected).abs().max() < 1e-3  # the book promises this; float32 alone gives 1e-5
    assert ((expected - digits_read(rounded, digits)).abs().max() > 0.1) == (factor != 1)
    assert factor != 1 or (made.argmax(1) == digits_read(full, digits).argmax(1)).all()


def test_maps_and_rollout_are_those_of_pytorch(reader: Page, models: tuple[ViT, ViT]) -> None:
    """Are the 48 maps PyTorch's, and is the rollout that of the exercise's answer?"""
    digit = draw_digits(1)
    reader.evaluate(TAKE, ["digit", "vit_mnist"])
    maps = reader.evaluate("image => Widgets.vit.run(window.model, image).maps", digit.flatten().tolist())
    expected = attention_maps(models[1], (digit[:, None] - 0.1307) / 0.3081)
    assert (torch.tensor(maps) - expected[:, 0]).abs().max() < 1e-4
    assert (torch.tensor(call(reader, "vit.rollout", maps)) - attention_rollout(expected)[0]).abs().max() < 1e-5


def test_ink_is_prepared_as_for_mnist(open_widget: Open) -> None:
    """Is ink scaled by area into a box of 20 pixels, with its centre of mass in the middle?"""
    rng, side = np.random.default_rng(0), 60
    top, left, height, width = rng.integers(2, 15), rng.integers(2, 15), rng.integers(25, 42), rng.integers(25, 42)
    ink = np.zeros((side, side), np.float32)
    ink[top : top + height, left : left + width] = rng.uniform(0.1, 1, (height, width))
    made = np.array(call(open_widget("digit"), "sketch.prepare", ink.flatten(), side)).reshape(28, 28)
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
        wait_for_note(reader, f"Read as {digit}.")
        assert reader.locator(".best").text_content().startswith(str(digit))


def test_digit_is_drawn_by_mouse_keyboard_and_finger(reader: Page) -> None:
    """Is a downward stroke a 1, does it become a 7 by arrow keys, and does a finger draw without moving the page?"""
    box = reader.locator(".paper").bounding_box()
    drag(reader, (box["x"] + 110, box["y"] + 30), (box["x"] + 90, box["y"] + 180))
    wait_for_note(reader, "Read as 1.")
    for by_finger in (False, True):
        reader.get_by_role("button", name="Clear").click()
        wait_for_note(reader, "Nothing")
        if by_finger:
            places = [(0.2, 0.15), (0.8, 0.15), (0.4, 0.9)]
            stroke(reader, *((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places))
        else:
            reader.locator(".paper").focus()
            up, along = [*["ArrowUp"] * 7, *["ArrowLeft"] * 3], [*["ArrowRight"] * 8, *["ArrowDown"] * 13]
            for key in (*up, "Space", *along, "Space"):
                reader.keyboard.press(key)
        wait_for_note(reader, "Read as 7.")
    assert reader.evaluate("() => scrollY") == 0


def test_heads_are_switched_by_keyboard_and_back(reader: Page) -> None:
    """Do Space and the arrow keys disable heads, do negated values change the answer, and can all be restored?"""
    reader.locator(".cell").first.focus()
    for key in ("Space", "ArrowRight", "Space"):
        reader.keyboard.press(key)
    assert "46 of 48 heads are on" in note_of(reader)
    reader.get_by_role("button", name="All heads on").click()
    assert note_of(reader) == "Read as 7. "
    reader.get_by_role("button", name="Same maps").click()
    assert "the model reads 7" in note_of(reader)
    assert not reader.locator(".best").text_content().startswith("7")


# ----------------------------------------------------------------------------------------------------------- a text


@pytest.fixture(scope="module")
def model() -> tuple[Decoder, str]:
    """The recorded decoder with 8 bits for each parameter, and its characters."""
    decoder, facts = load_run(RECORDS / "decoder_pages.json", RECORDS / "decoder_pages.pt")
    decoder.load_state_dict(recorded_and_rounded("decoder_pages")[1])
    return decoder, "".join(facts["classes"])


@pytest.fixture
def writer(open_widget: Open) -> Page:
    """A page with the loaded decoder, after its beginning was read."""
    page = open_widget("writer")
    assert page.locator("script[src*=decoder]").count() == 0  # nothing is loaded before the reader asks
    page.get_by_role("textbox").fill("The weights")
    page.wait_for_function("() => document.querySelectorAll('.strips canvas').length === 8")
    return page


@torch.no_grad()
def logits_of(model: tuple[Decoder, str], beginning: str) -> torch.Tensor:
    """Return PyTorch's logits after a beginning that fits into the context."""
    decoder, characters = model
    return decoder(torch.tensor([[characters.index(each) for each in beginning]]))[0, -1]


def test_logits_in_the_page_are_those_of_pytorch(writer: Page, model: tuple[Decoder, str]) -> None:
    """Does reading one by one, with a cache, give PyTorch's logits for all at once, also beyond the context?"""
    texts = [TEXT[:5], TEXT[:60], f"{TEXT[:59]}?", TEXT[:128]]
    expected = [logits_of(model, text) for text in texts]
    # Beyond 128 characters, the first half of the context is left out.
    for end, left in ((129, 64), (130, 64), (192, 64), (193, 128), (300, 192)):
        texts.append(TEXT[:end])
        expected.append(logits_of(model, TEXT[left:end]))
    writer.evaluate(TAKE, ["writer", "decoder_pages"])
    made = torch.tensor(writer.evaluate(READ_TEXTS, texts))
    assert (made - torch.stack(expected)).abs().max() < 1e-3  # the book promises this


def test_likely_characters_are_those_of_pytorch(writer: Page, model: tuple[Decoder, str]) -> None:
    """Are the five likeliest characters and their shares the softmax of PyTorch's logits over the temperature?"""
    slide(writer, "temperature", 1.5)
    shares, best = (logits_of(model, "\nThe weights") / 1.5).softmax(0).topk(5)
    rows = writer.locator(".writer li").all()
    signs = {" ": "␣", "\n": "↵"}
    for row, share, number in zip(rows, shares.tolist(), best.tolist(), strict=True):
        character = model[1][number]
        assert row.locator("button").text_content() == signs.get(character, character)
        assert float(row.locator("b").text_content().removesuffix(" %")) == pytest.approx(100 * share, abs=0.06)


def test_maps_tell_what_the_last_character_reads(writer: Page, model: tuple[Decoder, str]) -> None:
    """Is the place with most weight, which a screen reader hears, that of PyTorch's own attention in the first block?"""
    decoder, characters = model
    numbers = torch.tensor([characters.index(each) for each in "\nThe weights"])
    block = decoder.encoder.blocks[0]
    x = block.norm1(decoder.embedding.weight[numbers] + decoder.position_embedding[0, : len(numbers)])
    _, maps = block.self_attn(x[-1:], x, x, average_attn_weights=False)  # (H, 1, n)
    for head, canvas in enumerate(writer.locator(".strips canvas").all()[:4]):
        share, place = maps[head, 0].max(dim=-1)
        back = re.search(r"(\d+) % on .*, (\d+) back", canvas.get_attribute("aria-label"))
        assert (int(back[1]), int(back[2])) == (pytest.approx(100 * share.item(), abs=0.6), len(numbers) - 1 - place)


def test_text_is_written_by_keyboard(writer: Page) -> None:
    """Do Tab and Enter start and stop the writing, is the text kept, and is a character that the model never saw named?"""
    text, shares = writer.get_by_role("textbox"), writer.locator(".writer b")
    text.focus()
    writer.keyboard.press("Tab")
    writer.keyboard.press("Enter")
    writer.wait_for_function("() => document.querySelector('textarea').value.length > 20")
    assert writer.evaluate("() => document.activeElement.textContent") == "Stop"
    writer.keyboard.press("Enter")
    written = text.input_value()
    assert written.startswith("The weights") and len(written) < 11 + 150
    writer.get_by_role("button", name="One character").click()
    assert len(text.input_value()) == len(written) + 1
    writer.get_by_role("button", name=re.compile("^Add ")).first.press("Enter")
    assert len(text.input_value()) == len(written) + 2
    before = shares.all_text_contents()
    text.fill(f"{text.input_value()}é")
    assert "never saw é" in note_of(writer)
    assert shares.all_text_contents() == before
    text.fill("")
    assert shares.all_text_contents() != before

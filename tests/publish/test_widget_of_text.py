"""Does the decoder in the page predict and write as PyTorch's does?"""

import re

import pytest
import torch
from playwright.sync_api import Page
from widget_page import PACKER, Open, recorded_and_rounded, slide

from solutions.decoder import Decoder
from solutions.training.classify import load_run

RECORDS = PACKER["RECORDS"]
TEXT = (RECORDS / "pages.txt").read_text(encoding="utf-8")


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


RUN = """async beginnings => {
    window.packed ??= await new Promise(done => {
        Widgets.writer.take = done;
        const script = document.createElement("script");
        script.src = document.querySelector("script[src*=decoder_pages]").src;
        document.head.append(script);
    });
    const read = Widgets.decoder.reader(Widgets.transformer.unpack(window.packed), window.packed);
    const characters = Array.from(window.packed.characters);
    return beginnings.map(each => read(Array.from(each, one => characters.indexOf(one))).logits);
}"""


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.deep)])
def test_logits_in_the_page_are_those_of_pytorch(count: int, writer: Page, model: tuple[Decoder, str]) -> None:
    """Does reading one by one, with a cache, give PyTorch's logits for all at once, also beyond the context?"""
    draw = torch.Generator().manual_seed(0)
    starts, lengths = (torch.randint(1, most, (count,), generator=draw).tolist() for most in (len(TEXT) - 200, 129))
    beginnings = [TEXT[start : start + length] for start, length in zip(starts, lengths)]
    beginnings += [beginnings[-1][:-1] + "?"]  # a changed end
    expected = torch.stack([logits_of(model, each) for each in beginnings])
    # A text that grows: beyond 128 characters, the first half of the context is left out.
    grown = [(128, 0), (129, 64), (130, 64), (192, 64), (193, 128), (300, 192)]
    expected = torch.cat([expected, torch.stack([logits_of(model, TEXT[left:end]) for end, left in grown])])
    made = torch.tensor(writer.evaluate(RUN, [*beginnings, *(TEXT[:end] for end, _ in grown)]))
    assert (made - expected).abs().max() < 1e-3  # the book promises this


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
    """Do Tab and Enter start and stop the writing, does one character add one, and is the text kept?"""
    text = writer.get_by_role("textbox")
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


def test_unknown_character_is_named_and_left_out(writer: Page) -> None:
    """Does a character that the model never saw change nothing but the note, and does an empty text work?"""
    text, shares = writer.get_by_role("textbox"), writer.locator(".writer b")
    before = shares.all_text_contents()
    text.fill("The weiéghts")
    assert "never saw é" in writer.locator(".widget-note").text_content()
    assert shares.all_text_contents() == before
    text.fill("")
    assert shares.all_text_contents() != before

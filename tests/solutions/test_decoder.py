"""Does the decoder see no later character, does the recipe train it on a text, and are the recorded runs what they say?"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_training import call
from torch import nn

from autograder.imports import ROOT
from solutions.decoder import Decoder, write
from solutions.encoder import Encoder
from solutions.training import text
from solutions.training.architectures import count_parameters
from solutions.training.classify import load_run
from solutions.training.settings import Settings
from solutions.training.text import load_text
from solutions.training.train import loss_and_accuracy, main, train

RECORDS = ROOT / "book" / "records"


def random_decoder() -> Decoder:
    """Draw a decoder without parameters of 0 or 1, so that each one matters."""
    torch.manual_seed(0)
    model = Decoder(num_characters=13, context=11, width=12, depth=2, num_heads=3, hidden_width=20)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """A small text in which each letter tells the next one, with a letter that is not ASCII."""
    path = tmp_path / "story.txt"
    path.write_text("a cat sät on the mat. " * 40, encoding="utf-8")
    return path


@torch.no_grad()
def test_decoder_equals_the_encoder_of_part_3_with_a_causal_mask() -> None:
    """Are the logits those of the reader's own blocks, with copied parameters and a mask where True means: may look?"""
    model, characters = random_decoder(), torch.randint(0, 13, (5, 7))
    encoder = Encoder(2, 12, 3, 20)
    for block, theirs in zip(encoder.blocks, model.encoder.blocks):
        values = list(theirs.state_dict().values())  # attention, feed-forward network, two norms
        ours = [values[i] for i in (8, 9, 0, 1, 2, 3, 10, 11, 4, 5, 6, 7)]
        block.load_state_dict(dict(zip(block.state_dict(), ours, strict=True)))
    encoder.norm.load_state_dict(dict(zip(("scale", "shift"), model.encoder.norm.parameters())))
    tokens = model.embedding.weight[characters] + model.position_embedding[0, :7]  # (5, 7, D)
    expected = model.head(encoder(tokens, torch.ones(5, 7, 7, dtype=torch.bool).tril()))
    torch.testing.assert_close(model(characters), expected, rtol=1e-4, atol=1e-4)


def test_writing_draws_as_the_temperature_says() -> None:
    """Is each character drawn as often as the softmax says, none beyond the first three with top-k 3, and from what fits?"""
    model, count = random_decoder(), 4_000
    line = torch.randint(0, 13, (1, 15))  # the model reads 11
    logits, many = model(line[:, -11:])[0, -1].detach(), line.expand(count, -1)
    for top_k, kept in ((None, 13), (3, 3)):
        drawn = write(model, many, 1, temperature=2.0, top_k=top_k, generator=torch.Generator().manual_seed(1))[:, -1]
        expected = F.softmax(logits / 2, dim=0).where(logits >= logits.sort(descending=True).values[kept - 1], 0.0)
        shares = torch.bincount(drawn, minlength=13) / count
        # 5 standard deviations of a share are at most 5 · 0.5 / √4000
        torch.testing.assert_close(shares, expected / expected.sum(), rtol=0, atol=0.04)
        assert (shares > 0).sum() <= kept
    greedy = write(model, line, 5, top_k=1)
    for place in range(15, 20):
        assert greedy[0, place] == model(greedy[:, place - 11 : place])[0, -1].argmax()


def test_windows_hold_each_character_and_the_next_one(story: Path) -> None:
    """Are targets one place later, is no part of the text read by two splits, and is the text complete?"""
    data = load_text(story, context=10)
    parts = data.training, data.validation, data.test
    read = ["".join(data.classes[number] for number in part.characters.tolist()) for part in parts]
    assert "".join(read) == story.read_text(encoding="utf-8")
    for part in parts:
        ((inputs, targets),) = part.batches([torch.arange(len(part))])
        assert inputs.shape == (len(part), 10)
        assert torch.equal(inputs[:, 1:], targets.view(-1, 10)[:, :-1])
        assert len(part.characters) - part.step <= part.step * (len(part) - 1) + 11 <= len(part.characters)


@pytest.mark.parametrize(("content", "message"), [(b"\xff\xfe", "as a text in UTF-8"), (b"short", "of 10 need 240")])
def test_text_that_cannot_be_used_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """Does another kind of file, or too short a text, give an error that says what to do?"""
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_text(tmp_path / "file", context=10)


def test_decoder_learns(story: Path, tmp_path: Path) -> None:
    """Does the recipe's loss fall on a text, is it the loss of each character, and is a run on another text refused?"""
    data, kept = load_text(story, context=10), tmp_path / "run.ckpt"
    sizes = dict(width=12, depth=1, num_heads=2, hidden_width=20, epochs=4)
    settings = replace(Settings(), **data.settings | sizes)
    *_, (model, curve) = train(settings, data.training, data.validation, checkpoint=kept)
    assert curve[-1].validation_loss < 0.6 * curve[0].loss
    ((windows, answers),) = data.validation.batches([torch.arange(len(data.validation))])
    assert curve[-1].validation_loss == pytest.approx(
        F.cross_entropy(model.eval()(windows).flatten(0, 1), answers).item()
    )
    story.write_text(story.read_text(encoding="utf-8").replace("a cat", "a hat"), encoding="utf-8")
    other = load_text(story, context=10)
    with pytest.raises(ValueError, match="a run on other images"):
        next(train(settings, other.training, other.validation, checkpoint=kept))


def test_command_trains_on_a_file_and_writes(story: Path, tmp_path: Path) -> None:
    """Does one command train on a text file, and does another one write with the result?"""
    record, weights = tmp_path / "run.json", tmp_path / "writer.pt"
    files = ["--record", record, "--weights", weights]
    options = ["--data", story, "--context", 10, "--epochs", 1, "--test", "--device", "cpu"]
    trained = call(main, *options, *files)
    assert trained.exit_code == 0 and "bits per character" in trained.output
    (run,) = json.loads(record.read_text())
    assert run["test_loss"] and hashlib.sha256(story.read_bytes()).hexdigest() in run["data"]
    said = call(text.main, "a cät", "--count", 30, *files).output
    assert said.startswith("a cät") and len(said) == 36
    assert "one or more of the characters" in call(text.main, "zz", *files).output


def test_recorded_decoder_is_that_of_its_record() -> None:
    """Have three seeds learned from pages.txt, is the model small, and have its weights the recorded test loss?"""
    runs = json.loads((RECORDS / "decoder_pages.json").read_text(encoding="utf-8"))
    assert sorted(run["settings"]["seed"] for run in runs) == [0, 1, 2]
    data = load_text(RECORDS / "pages.txt")
    assert all(run["data"] == data.name and run["images"] == data.facts() for run in runs)
    model, facts = load_run(RECORDS / "decoder_pages.json", RECORDS / "decoder_pages.pt")
    assert facts["classes"] == data.classes and count_parameters(model) <= 300_000
    best = min(runs, key=lambda run: run["curve"][-1]["validation_loss"])
    loss, _ = loss_and_accuracy(model, data.test)
    assert loss == pytest.approx(best["test_loss"], abs=2e-3)  # the weights are kept in half precision

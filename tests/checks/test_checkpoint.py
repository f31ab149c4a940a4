"""Is a file of weights next to the notebook read safely and judged fairly, and does a student read the verdict?

No file here runs outside the sandbox. The images are random. Their right classes are the answers of an untrained ViT,
so that its weights are a perfect file without training.
"""

import contextlib
import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sample_class
import torch
from downloads import notebook as small_notebook
from sample_class import saved
from test_messages import MOST_WORDS, words_of

from autograder.checks.vit import checkpoint
from autograder.checks.vit.checkpoint import HeldOut, Verdict
from autograder.sandbox.host.kernel import Kernel
from autograder.sandbox.host.limits import Limits
from solutions.vit import ViT

STEPS = (0.0, 0.90, 0.95, 0.97, 0.98)
LIMITS = Limits(cell_seconds=120.0)  # reading takes 2 s on an idle machine


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Return the weights of an untrained ViT."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ViT().state_dict()


GOOD = saved(weights())


@cache
def random_images() -> HeldOut:
    """Return forty random images, with the classes that the ViT of `weights(0)` gives them."""
    images = np.random.default_rng(5).integers(0, 256, (1, 40, 28, 28), dtype=np.uint8)
    model = ViT().eval()
    model.load_state_dict(weights())
    with torch.no_grad():
        scores = model((torch.from_numpy(images[0])[:, None] / 255 - 0.1307) / 0.3081)
    return HeldOut("MNIST", images, scores.argmax(dim=-1).numpy())


# --------------------------------------------------------------------------------------------------- reading a file


class Code:
    """An object whose pickle is a command that writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"echo 'I ran'; touch {self.canary}",)


def changed(**entries: torch.Tensor | None) -> bytes:
    """Return good weights with some changed entries, whose names have __ for a dot; None leaves an entry out."""
    state = weights() | {name.replace("__", "."): value for name, value in entries.items()}
    return saved({name: value for name, value in state.items() if value is not None})


def expanded() -> torch.Tensor:
    """Return a tensor of 4 TB that stores a single number."""
    return torch.zeros(1).expand(10**6, 10**6)


def repacked(record: str, content: bytes) -> bytes:
    """Return good weights whose records of a name are replaced by a content that torch.save would not write."""
    packed, file = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in packed.infolist():
            archive.writestr(info.filename, content if info.filename.endswith(record) else packed.read(info))
    return file.getvalue()


DEFAULTS = "Was the model a ViT() with its defaults?"
BAD = {
    "missing": (None, "vit.pt was not submitted"),
    "refused": ("vit.pt has 5.0 MiB; at most 4 are read", "was not accepted: vit.pt has 5.0 MiB"),
    "empty": (b"", "vit.pt is empty"),
    "cut off": (GOOD[: len(GOOD) // 2], "or is incomplete"),
    "a notebook": (small_notebook(), "was not written by torch.save"),
    "a pickle": (pickle.dumps({"a": 1}), "was not written by torch.save"),
    "another model": (
        saved(torch.nn.Linear(3, 2).state_dict()),
        "weights of another model than ViT(). It lacks class_",
    ),
    "an entry too few": (changed(head__bias=None), "It lacks head.bias."),
    "an entry too many": (changed(tail=torch.zeros(3)), "It has tail, which a ViT() does not have."),
    "a whole model": (saved(torch.nn.Linear(3, 2)), "holds a whole model (torch.nn.modules.linear.Linear)"),
    "a training's state": (
        saved({"model": weights(), "optimizer": {"lr": 0.1}, "epoch": 3}),
        "a dictionary of several things (model, optimizer, epoch)",
    ),
    "a tensor": (saved(torch.zeros(3)), "holds a Tensor; expected a state_dict"),
    "code": (lambda canary: saved(Code(canary)), "holds code, posix.system, that was not run"),
    "code in an entry": (
        lambda canary: saved(weights() | {"head.bias": Code(canary)}),
        "holds code, posix.system, that was not run",
    ),
    "code as a pickle": (lambda canary: pickle.dumps(Code(canary), protocol=2), "holds code, posix.system,"),
    "whole numbers": (changed(head__bias=torch.zeros(10, dtype=torch.int64)), "has type int64; expected float32"),
    "complex numbers": (changed(head__bias=torch.zeros(10, dtype=torch.complex64)), "has type complex64"),
    "a sparse tensor": (
        changed(head__bias=torch.zeros(10).to_sparse()),
        "has type sparse float32; expected float32",
    ),
    "a text": (changed(head__bias="zeros"), "head.bias in vit.pt is a str; expected a tensor"),
    "NaN": (changed(head__bias=torch.full((10,), torch.nan)), "10 of 10 numbers of head.bias in vit.pt are NaN"),
    "infinite as float32": (changed(head__bias=torch.full((10,), 1e300, dtype=torch.float64)), "are NaN or infinite"),
    "4 TB by strides": (changed(head__bias=expanded()), f"has shape (1000000, 1000000); expected (10,). {DEFAULTS}"),
    "a zip bomb": (lambda _: repacked("data/0", bytes(2**28)), "unpacks to 257 MiB"),
    "a deep nest": (repacked("data.pkl", b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b"."), "vit.pt"),
    "many entries": (saved({str(number): number for number in range(2000)}), "holds 2,000 entries"),
    "names that move the cursor": (saved({"\x1b[2J<script>": torch.zeros(1)}), "It has \\x1b[2J<script>"),
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One sandbox with the reader, for many files; the grader starts one for each file."""
    with checkpoint._reader(LIMITS, True) as kernel:
        yield kernel


@pytest.fixture
def one_reader(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be read in the shared sandbox."""
    monkeypatch.setattr(checkpoint, "_reader", lambda *_: contextlib.nullcontext(kernel))


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.usefixtures("one_reader")
def test_read_says_what_is_wrong(kind: str, tmp_path: Path) -> None:
    """Does an unusable file get a message with its fix, and does no code in it run?"""
    content, words = BAD[kind]
    canary = tmp_path / "canary"
    found, problem = checkpoint.read("vit.pt", content(canary) if callable(content) else content, LIMITS, True)
    assert found == {}
    assert words in problem and words_of(problem) <= MOST_WORDS
    assert "torch.save(model.state_dict()" in problem
    assert not canary.exists()


GOOD_FILES = {
    "a name twice": lambda state: {f"module.{next(iter(state))}": 5} | state,
    "as written": lambda state: state,
    "half precision": lambda state: {name: value.half() for name, value in state.items()},
    "bfloat16": lambda state: {name: value.bfloat16() for name, value in state.items()},
    "double precision": lambda state: {name: value.double() for name, value in state.items()},
    "compiled": lambda state: {f"_orig_mod.{name}": value for name, value in state.items()},
    "parameters in another order": lambda state: OrderedDict(
        (name, torch.nn.Parameter(value)) for name, value in reversed(state.items())
    ),
}


@pytest.mark.parametrize("kind", GOOD_FILES)
@pytest.mark.usefixtures("one_reader")
def test_read_takes_weights(kind: str) -> None:
    """Are weights read completely, in every precision and from a compiled model?"""
    found, problem = checkpoint.read("vit.pt", saved(GOOD_FILES[kind](weights())), LIMITS, True)
    assert problem == ""
    assert set(found) == set(weights())
    for name, value in weights().items():  # bfloat16 keeps 8 bits
        torch.testing.assert_close(
            found[name], value, rtol=2**-8 if kind in ("half precision", "bfloat16") else 0, atol=1e-6
        )


@pytest.mark.deep
def test_read_survives_what_kills_the_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a file that ends, floods or blocks its reader cost only its own points?"""
    reader = tmp_path / "reader.py"
    monkeypatch.setattr(checkpoint, "READER", reader)
    for deed in ("import os; os._exit(1)", "while True: pass", "return {'type': 'x' * 10**8}"):
        reader.write_text(f"def read_weights(text):\n    {deed}\n")
        words = "cannot be read" if "return" in deed else "the process that reads it ended"
        assert words in checkpoint.read("vit.pt", GOOD, Limits(cell_seconds=3.0), True)[1], deed


@pytest.mark.parametrize(
    "reply", [None, [1], {}, {"entries": 7}, {"entries": [("head.bias", {})] * 80}, {"error": 1}, {"count": "many"}]
)
def test_read_survives_a_forged_reply(reply: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """If code in a file forges a reply that no reader sends, does the student get a message?"""
    monkeypatch.setattr(checkpoint, "_ask_sandbox", lambda *_: reply)
    found, problem = checkpoint.read("vit.pt", GOOD, LIMITS, True)
    assert found == {}
    assert problem.startswith("vit.pt cannot be read") or "lacks" in problem


# ------------------------------------------------------------------------------------------------------- the steps


def passed(verdict: Verdict) -> list[float]:
    """Return the steps that a verdict passes."""
    steps = []
    with checkpoint.judging({"vit.pt": verdict}):
        for step in STEPS:
            try:
                checkpoint.check(step)
            except AssertionError as error:
                assert str(error)
            else:
                steps.append(step)
    return steps


BOUNDS = {("MNIST", 10_000): (9000, 9500, 9700, 9800), ("stand-in", 347): (157, 209, 226, 243)}


@pytest.mark.parametrize(("on", "of"), BOUNDS)
def test_check_gives_each_step_at_its_number(on: str, of: int) -> None:
    """Does a step begin at exactly its number of images, and does the message say if they are of the stand-in?"""
    for number, bound in enumerate(BOUNDS[on, of], 1):
        assert passed(Verdict(right=bound - 1, of=of, on=on)) == list(STEPS[:number])
        assert passed(Verdict(right=bound, of=of, on=on)) == list(STEPS[: number + 1])
    assert passed(Verdict("It is empty.", right=of, of=of, on=on)) == []
    said = "The grading machine does not have MNIST's test set" in str(Verdict(right=0, of=of, on=on))
    assert said == (on == "stand-in")


def test_judge_measures_the_weights() -> None:
    """Are all images recognised with the weights that made the classes, and fewer with other weights?"""
    held = random_images()
    assert checkpoint.judge("vit.pt", GOOD, held, LIMITS, True) == Verdict(right=40, of=40, on="MNIST")
    assert checkpoint.count_right(weights(1), held) < 40
    twice = HeldOut("stand-in", np.concatenate([held.images, 255 - held.images]), held.labels)
    assert checkpoint.count_right(weights(), twice) == 40  # the better of the two layouts counts


def test_held_out_is_the_stand_in_without_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a machine without MNIST use the digits on which the notebook does not train, in both layouts?"""
    monkeypatch.setenv("MNIST_ROOT", str(tmp_path))
    held = checkpoint.held_out.__wrapped__()
    assert held.name == "stand-in"
    assert held.images.shape == (2, 347, 28, 28)
    assert held.images.dtype == np.uint8
    assert held.images[1, :, :, :2].max() == 0 < held.images[0, :, :, :2].max()  # the second layout leaves a margin


@cache
def published() -> dict[str, torch.Tensor]:
    """Return the weights that the book publishes."""
    return torch.load(checkpoint.RECORD, weights_only=True)


def noisy(state: dict[str, torch.Tensor], share: float) -> dict[str, torch.Tensor]:
    """Add noise to each tensor, as a share of its spread."""
    draw = torch.Generator().manual_seed(0)
    return {
        name: value + share * value.std().nan_to_num() * torch.randn(value.shape, generator=draw)
        for name, value in state.items()
    }


def blocks_of(state: dict[str, torch.Tensor]) -> list[str]:
    """Return the prefix of the names of each block's feed-forward network."""
    return [name.removesuffix("linear1.weight") for name in state if name.endswith("linear1.weight")]


def rearranged(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Reorder the hidden units of each block, and move a factor from its second norm into the first layer."""
    state = dict(state)
    for block in blocks_of(state):
        first = f"{block}linear1.weight"
        order = torch.randperm(len(state[first]), generator=torch.Generator().manual_seed(1))
        state[first] = state[first][order] / 2
        state[block + "linear1.bias"] = state[block + "linear1.bias"][order]
        state[block + "linear2.weight"] = state[block + "linear2.weight"][:, order]
        for part in ("weight", "bias"):
            state[f"{block}norm2.{part}"] = 2 * state[f"{block}norm2.{part}"]
    return state


COPIES = {
    "as published": lambda state: state,
    "units in another order, with other factors": rearranged,
    "noise of a tenth": lambda state: noisy(state, 0.1),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.usefixtures("one_reader")
def test_published_weights_are_refused_by_name(kind: str) -> None:
    """Do the weights that the book publishes earn nothing, also in disguise, and does the message say what to do?"""
    held = checkpoint.held_out()
    content = saved(COPIES[kind](published()))
    verdict = checkpoint.judge("vit.pt", content, held, LIMITS, True)
    assert passed(verdict) == []
    assert "the weights that the book publishes" in verdict.problem
    assert "Train your own" in verdict.problem
    allowed = checkpoint.judge("vit.pt", content, replace(held, may_match_book_weights=True), LIMITS, True)
    assert passed(allowed) == list(STEPS)  # without this rule, the disguised file passes every step


@pytest.mark.usefixtures("one_reader")
def test_weights_of_ones_own_are_not_refused() -> None:
    """Does a model that the book's recipe trained for some seconds take every step on the stand-in?"""
    held, content = checkpoint.held_out(), sample_class.own_weights()
    verdict = checkpoint.judge("vit.pt", content, held, LIMITS, True)
    assert passed(verdict) == list(STEPS), str(verdict)
    assert verdict.question == ""


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_untrained_weights_share_no_unit_with_the_book(seed: int) -> None:
    """Does an untrained model share no unit with the book's, also with the seed of the book's training?"""
    assert checkpoint.shared_units(weights(seed), checkpoint.held_out()) == 0


@pytest.mark.usefixtures("one_reader")
def test_person_is_asked_about_weights_that_share_some_units() -> None:
    """If some of a file's hidden units are the book's and most are not, is the file measured, and is a person asked?"""
    held, own = checkpoint.held_out(), torch.load(io.BytesIO(sample_class.own_weights()))
    state = published() | {f"{block}linear1.weight": own[f"{block}linear1.weight"] for block in blocks_of(own)[1:]}
    verdict = checkpoint.judge("vit.pt", saved(state), held, LIMITS, True)
    assert verdict.problem == ""
    assert verdict.of == len(held.labels)
    assert verdict.question.startswith(
        "vit.pt: 17% of its hidden units react to the same images as those of the weights"
    )

"""Check a file of weights that is submitted with the notebook: `vit.pt` of assignment 4_vit.

A sandbox reads the file, runs no code of the student, and returns plain values. This module loads the values into the
ViT of `solutions/`. The ViT classifies images that no student had in the notebook: MNIST's test set or, if the machine
does not have MNIST, digits of scikit-learn.
"""

import base64
import contextlib
import io
import os
import socket
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from autograder.files import printable
from autograder.imports import ROOT
from autograder.sandbox.host.bubblewrap import SandboxError
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.limits import Limits
from solutions.vit import ViT

READER = Path(__file__).with_name("checkpoint_reader.py")
RECORD = ROOT / "book" / "records" / "vit_mnist.pt"  # the right answer; only the grader uses it, to test itself
MEAN, STD = 0.1307, 0.3081  # of MNIST's training images: these numbers normalise the inputs of a ViT
STAND_IN_TEST = 1450  # the shuffled digits of scikit-learn from this index on are held out
# A key is the share of MNIST's images that a point requires. The value is the share of the stand-in's images that the
# point requires. Weights that were trained on MNIST do worse on the stand-in, and nobody may lose points because the
# grader lacks MNIST. So each value is at least four standard errors (of 347 images) below the results of four runs.
# Weights with 87 to 91 % on MNIST had 57 to 64 % on the stand-in; weights with 95 to 96 % had 74 to 82 %; weights with
# 97 % had 84 to 88 %. Weights that were trained on the stand-in had 96 to 98 %.
ON_STAND_IN = {0.0: 0.0, 0.90: 0.45, 0.95: 0.60, 0.97: 0.65, 0.98: 0.70}
# A hidden unit reacts to an image's token if its input is above the median of this token over all images. Two units agree
# by the share of tokens at which both or neither react, from -1 (never) to 1 (always). A unit of the book counts as copied
# if a unit in the same block of the file has an agreement, or disagreement, above SAME_UNIT. Noise of 0.1 and 0.2 of
# each tensor's spread left 99 % and 70 % of the book's units copied on MNIST, noise of 0.3 left 9 % (and cost 1 % of the
# images). No unit counted of ten other models, four of them untrained, three trained on the stand-in for 4 epochs and three
# on MNIST for 2, 2 and 6 epochs, two of those with the recipe's own seed: the highest agreement was 0.59, on either images.
# If the share of copied units is at least COPIED, the file is refused; if it is at least ASKED, a person is asked.
SAME_UNIT, COPIED, ASKED = 0.75, 0.5, 0.05
START_SECONDS = 120.0  # the limit for loading PyTorch, which takes 2 s on an idle machine
WRAPPED = ("_orig_mod.", "module.")  # prefixes of names in a model that was compiled, or distributed over GPUs


@dataclass(frozen=True)
class HeldOut:
    """Images that no student had in the notebook."""

    name: str  # "MNIST" or "stand-in"
    images: np.ndarray  # (layouts, B, 28, 28), uint8; the best of the layouts counts
    labels: np.ndarray  # (B,)
    may_match_book_weights: bool = False  # True only when the grader judges the book's own weights


@dataclass(frozen=True)
class Verdict:
    """The result of judging a file."""

    problem: str = ""  # why the file cannot be used; "" if it can
    right: int = 0  # the number of recognised images
    of: int = 0
    on: str = ""  # the name of the images: "MNIST" or "stand-in"
    question: str = ""  # a question that only a person can decide; "" if there is none

    def __str__(self) -> str:
        if self.problem or not self.of:
            return self.problem
        share = f"{self.right:,} of {self.of:,} images are recognised, {self.right / self.of:.2%}"
        if self.on == "MNIST":
            return f"{share} of MNIST's test set."
        steps = ", ".join(
            f"{on_stand_in:.0%} instead of {on_mnist:.0%}" for on_mnist, on_stand_in in ON_STAND_IN.items() if on_mnist
        )
        return (
            f"{share} of digits of scikit-learn. The grading machine does not have MNIST's test set, so it uses these. "
            f"A lower share of them is enough: {steps}."
        )


# The verdicts on the files that belong to the running notebook, by name: `execute` sets them, as it sets the seed.
# Under plain nbgrader there are no verdicts (None), and the file is in the folder of the notebook.
_verdicts: ContextVar[dict[str, Verdict] | None] = ContextVar("verdicts", default=None)


@contextlib.contextmanager
def judging(verdicts: dict[str, Verdict]) -> Iterator[None]:
    """Let `check` look these verdicts up inside a with block."""
    before = _verdicts.set(verdicts)
    try:
        yield
    finally:
        _verdicts.reset(before)


def check(at_least: float = 0.0, name: str = "vit.pt") -> None:
    """Fail unless a file holds the weights of a ViT that recognises a share of the held-out images.

    Args:
        at_least: The share of MNIST's test set; a key of ON_STAND_IN, which gives the share on the stand-in.
        name: The name of the file.

    Raises:
        AssertionError: the file is missing, cannot be used, or is not good enough.
    """
    verdicts = _verdicts.get()
    verdict = _next_to_the_notebook(name) if verdicts is None else verdicts[name]
    if verdict.problem:
        raise AssertionError(verdict.problem)
    enough = ON_STAND_IN[at_least] if verdict.on == "stand-in" else at_least
    if verdict.right < enough * verdict.of:
        raise AssertionError(
            f"{verdict} This point needs {enough:.0%}. If your own evaluation gives more: does your ViT pass its tests, and "
            "are the images normalised as in the notebook?"
        )
    print(f"{name}: {verdict}" if at_least else f"{name} holds the weights of a ViT.")


def judge(name: str, content: bytes | str | None, held_out: HeldOut, limits: Limits, sandboxed: bool) -> Verdict:
    """Judge a submitted file. The result depends only on the arguments.

    Args:
        name: The name that the file should have.
        content: The bytes of the file, or a text that says why they were not accepted; None if there is no file.
        held_out: The images.
        limits: The limits of the sandbox that reads it.
        sandboxed: False only if the instructor asked to run without a sandbox.
    """
    weights, problem = read(name, content, limits, sandboxed)
    if problem:
        return Verdict(problem)
    shared = 0.0 if held_out.may_match_book_weights else shared_units(weights, held_out)
    if shared >= COPIED:
        return Verdict(
            f"{name} holds the weights that the book publishes, or nearly the same: {shared:.0%} of its hidden units react "
            "to the same images. Train your own ViT, with new parameters and your own seed, and submit its weights."
        )
    question = (
        f"{name}: {shared:.0%} of its hidden units react to the same images as those of the weights that the book publishes. "
        "A training from new parameters shares none. Did the training start from the published weights? "
        "The points are given as measured."
    )
    right = count_right(weights, held_out)
    return Verdict(right=right, of=len(held_out.labels), on=held_out.name, question=question * (shared >= ASKED))


def read(
    name: str, content: bytes | str | None, limits: Limits, sandboxed: bool
) -> tuple[dict[str, torch.Tensor], str]:
    """Read the weights of a ViT from a file that may be hostile. Arguments as in `judge`.

    Returns:
        The weights by name, in float32; and a text that says what is wrong with the file and how to fix it, or "".
    """
    save = f'Write it with torch.save(model.state_dict(), "{name}"), where model is the ViT() that you trained.'
    if content is None:
        return {}, (f"{name} was not submitted. Submit two files, the notebook and {name}. {save} Did you download it?")
    if isinstance(content, str):
        return {}, f"{name} was not accepted: {content.removeprefix(f'{name} was not accepted: ')}. {save}"
    if not content:
        return {}, f"{name} is empty. Did the download finish? {save}"
    try:
        reply = _ask_sandbox(content, limits, sandboxed)
        problem = problem_of(reply, name)
        numbers = {} if problem else {key: about["numbers"] for key, about in _entries(reply).items()}
    except KernelLost as lost:
        return {}, f"{name} cannot be read; the process that reads it ended. {lost} {save}"
    except (KeyError, TypeError, ValueError, AttributeError):  # only a hostile file causes such a reply
        return {}, f"{name} cannot be read. {save}"
    return numbers, f"{problem} {save}" if problem else ""


def _ask_sandbox(content: bytes, limits: Limits, sandboxed: bool) -> dict[str, Any]:
    """Let the reader read a file in a fresh kernel, and return the reply unchecked."""
    with _reader(limits, sandboxed) as kernel:
        return kernel.call_ours("read_weights", base64.b64encode(content).decode())


@contextlib.contextmanager
def _reader(limits: Limits, sandboxed: bool) -> Iterator[Kernel]:
    """Start a kernel that holds the reader."""
    kernel = Kernel(replace(limits, cell_seconds=START_SECONDS), sandboxed)
    try:
        try:
            kernel.run_cell(READER.read_text(encoding="utf-8"))
        except KernelLost as lost:  # no file was sent yet
            raise SandboxError(f"PyTorch could not be loaded in the sandbox: {lost}") from None
        kernel.limits = limits
        yield kernel
    finally:
        if not kernel.closed:
            kernel.close()


def problem_of(reply: dict[str, Any], name: str) -> str:
    """Say why a reply of the reader does not hold the weights of a ViT; "" if it does."""
    if "error" in reply:
        return _cannot_be_loaded(str(reply["error"]), str(reply["text"]), name)
    if "unpacked" in reply:
        return f"{name} unpacks to {int(reply['unpacked']) / 2**20:,.0f} MiB; the weights of a ViT() have 0.8 MiB."
    if "type" in reply:
        return f"{name} holds a {str(reply['type'])[:50]}; expected a state_dict: tensors by name."
    if "count" in reply:
        return f"{name} holds {int(reply['count']):,} entries; the weights of a ViT() have {len(expected())}."
    entries = _entries(reply)
    inner = [key for key, about in entries.items() if about["type"] in ("dict", "OrderedDict")]
    missing = [key for key in expected() if key not in entries]
    foreign = [key for key in entries if key not in expected()]
    if inner and missing:
        holds = ", ".join(key[:50] for key in list(entries)[:5])
        return f"{name} holds a dictionary of several things ({holds}); expected only the model's weights."
    if missing or foreign:
        lacks = f" It lacks {_first(missing)}." if missing else ""
        has = f" It has {_first(foreign)}, which a ViT() does not have." if foreign else ""
        return f"{name} holds the weights of another model than ViT().{lacks}{has} Did your ViT class make it?"
    return next(filter(None, (_wrong_with(key, entries[key], name) for key in expected())), "")


def _entries(reply: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of the file by plain name; if several have the same name, the last one counts."""
    return {_plain_name(key): about for key, about in reply["entries"]}


def _cannot_be_loaded(error: str, text: str, name: str) -> str:
    asked = text.partition("GLOBAL ")[2].split(" ")[0][:100] if "GLOBAL " in text else ""
    if asked.startswith(("__main__.", "torch.nn.modules", "torchvision.models")):
        return f"{name} holds a whole model ({asked}), not its weights."
    if asked:
        return f"{name} holds code, {asked}, that was not run: only tensors are read."
    return f"{name} was not written by torch.save, or is incomplete ({error}). Did the download finish?"


def _wrong_with(key: str, about: dict[str, Any], name: str) -> str:
    """Say what is wrong with one entry whose name is right."""
    shape = expected()[key]
    if "shape" not in about:
        return f"{key} in {name} is a {about['type'][:50]}; expected a tensor."
    got = tuple(int(size) for size in about["shape"])
    if got != shape:
        return f"{key} in {name} has shape {got}; expected {shape}. Was the model a ViT() with its defaults?"
    numbers = about.get("numbers")
    if numbers is None:
        return f"{key} in {name} has type {about['dtype'][:50]}; expected float32."
    if not isinstance(numbers, torch.Tensor) or numbers.shape != shape or numbers.dtype != torch.float32:
        return f"{key} in {name} cannot be read."
    if not numbers.isfinite().all():
        wrong = int((~numbers.isfinite()).sum())
        return (
            f"{wrong:,} of {numbers.numel():,} numbers of {key} in {name} are NaN or infinite. Did the loss become NaN?"
        )
    return ""


def _plain_name(key: object) -> str:
    """Return the name that a parameter has in the model itself, without prefixes."""
    text = printable(str(key))
    for start in WRAPPED:
        text = text.removeprefix(start)
    return text


def _first(names: list[str]) -> str:
    """List the first three names, and count the others."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(name[:100] for name in names[:3]) + more


@cache
def expected() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a ViT(), by name."""
    return {name: tuple(value.shape) for name, value in ViT().state_dict().items()}


def scores_of(weights: dict[str, torch.Tensor], images: np.ndarray) -> torch.Tensor:
    """Return the scores, (..., 10), that a ViT with these weights gives to images, (..., 28, 28)."""
    model, parts = _model_with(weights), torch.from_numpy(images).flatten(0, -3).split(500)
    return torch.cat([_run(model, part) for part in parts]).unflatten(0, images.shape[:-2])


def _model_with(weights: dict[str, torch.Tensor]) -> ViT:
    model = ViT().eval()
    model.load_state_dict(weights)
    return model


def _run(model: ViT, images: torch.Tensor) -> torch.Tensor:
    """Return the scores, (B, 10), of images, (B, 28, 28)."""
    torch.set_flush_denormal(True)  # without it, arithmetic with numbers near 0 may be 100 times slower
    try:
        with torch.inference_mode():
            return model((images[:, None] / 255 - MEAN) / STD)
    finally:
        torch.set_flush_denormal(False)


def count_right(weights: dict[str, torch.Tensor], held_out: HeldOut) -> int:
    """Count the images that a ViT with these weights classifies correctly, in the best layout."""
    classes = scores_of(weights, held_out.images).argmax(dim=-1)  # (layouts, B)
    return int((classes == torch.from_numpy(held_out.labels)).sum(dim=-1).max())


def shared_units(weights: dict[str, torch.Tensor], held_out: HeldOut) -> float:
    """Return the share, from 0 to 1, of the hidden units of the book's weights that compute the same in these weights.

    It compares reactions to images, so only a change of what the network computes can lower it. Reactions are yes or no,
    so a few images cannot decide.
    """
    theirs, ours = (_reactions(each, held_out.images[-1, :1000]) for each in (published_weights(), weights))
    agreements = [(book.T @ own).abs().amax(dim=-1) / len(book) for book, own in zip(theirs, ours, strict=True)]
    return float((torch.cat(agreements) > SAME_UNIT).float().mean())


def _reactions(weights: dict[str, torch.Tensor], images: np.ndarray) -> list[torch.Tensor]:
    """Return how the hidden units of each block react to every token of the images, (B·N, hidden width): 1, 0 or -1.

    The sign tells whether a unit's input is above its median for this token over the images.
    """
    model, reactions = _model_with(weights), []

    def keep(module: torch.nn.Module, inputs: tuple[torch.Tensor], hidden: torch.Tensor) -> None:
        hidden = hidden.nan_to_num()  # (B, N, hidden width)
        reactions.append((hidden - hidden.median(dim=0).values).sign().flatten(0, 1))

    for block in model.encoder.blocks:
        block.linear1.register_forward_hook(keep)
    _run(model, torch.from_numpy(images))
    return reactions


@cache
def published_weights() -> dict[str, torch.Tensor]:
    """Return the weights that the book publishes."""
    return torch.load(RECORD, weights_only=True)


def _next_to_the_notebook(name: str) -> Verdict:
    """Judge the file in the folder of a running notebook, under plain nbgrader."""
    from autograder.files import MAX_FILE, read_plain_file

    content = read_plain_file(Path(name), MAX_FILE) if Path(name).exists() else None
    return judge(name, content, held_out(), Limits(), sandboxed=False)


@cache
def held_out(root: Path | None = None) -> HeldOut:
    """Return the images of this machine.

    Args:
        root: The folder of MNIST; by default it is MNIST_ROOT or, if that is not set, a folder to which MNIST is
            downloaded once. If there is no MNIST, its stand-in is used.
    """
    return _mnist(root or os.environ.get("MNIST_ROOT")) or stand_in()


def _mnist(root: Path | str | None) -> HeldOut | None:
    """Return MNIST's test set from a folder, or None if it is not there. By default, download it once to our folder."""
    if root and not Path(root, "MNIST").is_dir():
        return None
    import torchvision  # takes two seconds, so only the assignment with a file imports it

    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(10)  # seconds to wait for a network that does not answer
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            mnist = torchvision.datasets.MNIST(root or ROOT / "data", train=False, download=not root)
    except (RuntimeError, OSError):  # torchvision raises these if there is no MNIST
        return None
    finally:
        socket.setdefaulttimeout(patience)
    return HeldOut("MNIST", mnist.data.numpy()[None], mnist.targets.numpy())


def stand_in() -> HeldOut:
    """Return scikit-learn's digits that no notebook trains on, in the layouts of the notebook and of MNIST.

    A model that was trained on the stand-in knows digits that fill the image. A model that was trained on MNIST knows
    smaller digits with more contrast, whose centre of mass is in the middle.
    """
    from scipy.ndimage import center_of_mass
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = np.random.default_rng(0).permutation(len(digits.target))[STAND_IN_TEST:]
    small = torch.tensor(digits.images[chosen] / 16)[:, None]  # (B, 1, 8, 8)
    filling = F.interpolate(small, size=(28, 28), mode="bilinear")[:, 0]  # (B, 28, 28)
    strokes = 1.5 * (F.interpolate(small, size=(20, 16), mode="bicubic")[:, 0] - 0.2)  # (B, 20, 16)
    padded = F.pad(strokes.clamp(0, 1), (6, 6, 4, 4)).numpy()  # (B, 28, 28)
    like_mnist = [
        np.roll(image, [round(13.5 - middle) for middle in center_of_mass(image)], axis=(0, 1)) for image in padded
    ]
    images = np.stack([filling.numpy(), like_mnist])  # (2, B, 28, 28)
    return HeldOut("stand-in", (255 * images).round().astype(np.uint8), digits.target[chosen])

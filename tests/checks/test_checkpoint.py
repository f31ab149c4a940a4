"""Is a file of weights beside the notebook taken, read safely, judged fairly, and its verdict said?

No file here runs outside the sandbox. The images are random, and the right classes are what one ViT says of them, so that
its weights are a perfect file without any training.
"""

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest
import sample_class
import torch
from bs4 import BeautifulSoup
from nbformat import NotebookNode
from test_collect import notebook as small_notebook
from test_collect import outcomes, write_roster, write_zip
from typer.testing import CliRunner

from autograder import cli
from autograder.boundary.kernel import Kernel
from autograder.boundary.sandbox import Limits
from autograder.checks.vit import checkpoint
from autograder.checks.vit.checkpoint import HeldOut, Verdict
from autograder.course.course import MAX_FILE, Assignment, Course, Result
from autograder.exchange.collect import collect
from autograder.grading.execute import execute
from autograder.grading.grade import InstallationError, grade
from autograder.grading.workers import Workers
from autograder.reporting.feedback import write_feedback
from autograder.reporting.report import questions_of, write_report
from solutions.vit import ViT

NAME, STEM = "9_file", "attention"  # a stem of which there are checks
STEPS = (0.0, 0.90, 0.95, 0.97, 0.98)
LIMITS = Limits(cell_seconds=120.0)  # ours take 2 s on a machine that does nothing else


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Return the weights of a ViT that was not trained."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ViT().state_dict()


def saved(value: object) -> bytes:
    """Return what torch.save writes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


GOOD = saved(weights())


@pytest.fixture(scope="module")
def held_out() -> HeldOut:
    """Forty random images, of the classes that the ViT of `weights(0)` sees in them."""
    images = np.random.default_rng(5).integers(0, 256, (1, 40, 28, 28), dtype=np.uint8)
    model = ViT().eval()
    model.load_state_dict(weights())
    with torch.no_grad():
        scores = model((torch.from_numpy(images[0])[:, None] / 255 - 0.1307) / 0.3081)
    return HeldOut("MNIST", images, scores.argmax(dim=-1).numpy())


# --------------------------------------------------------------------------------------------------- reading a file


class Code:
    """Pickled, it is a command that writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"echo 'I ran'; touch {self.canary}",)


class Shell:
    """Pickled as a global that is not allowed, and is no model."""


def changed(**entries: torch.Tensor | None) -> bytes:
    """Return good weights but for some entries, of which the name is written with __ for a dot; None leaves one out."""
    state = weights() | {name.replace("__", "."): value for name, value in entries.items()}
    return saved({name: value for name, value in state.items() if value is not None})


def expanded() -> torch.Tensor:
    """Return a tensor of 4 TB of which one number is kept."""
    return torch.zeros(1).expand(10**6, 10**6)


def bomb(size: int) -> bytes:
    """Return good weights with a record that unpacks to so many bytes."""
    packed, file = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in packed.infolist():
            archive.writestr(info.filename, bytes(size) if info.filename.endswith("data/0") else packed.read(info))
    return file.getvalue()


def nested(depth: int) -> bytes:
    """Return a list in a list in a list, which pickle itself would not write."""
    packed, file = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for info in packed.infolist():
            deep = b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."
            archive.writestr(info.filename, deep if info.filename.endswith("data.pkl") else packed.read(info))
    return file.getvalue()


DEFAULTS = "Was the model a ViT() with its defaults?"
BAD = {
    "missing": (None, "vit.pt was not handed in"),
    "refused": ("vit.pt has 5.0 MiB; at most 4 are read", "could not be taken: vit.pt has 5.0 MiB"),
    "empty": (b"", "vit.pt is empty"),
    "cut off": (GOOD[: len(GOOD) // 2], "only a part of one"),
    "random bytes": (np.random.default_rng(1).bytes(5000), "is no file that torch.save has written"),
    "a notebook": (small_notebook(), "is no file that torch.save has written"),
    "a pickle": (pickle.dumps({"a": 1}), "is no file that torch.save has written"),
    "another model": (
        saved(torch.nn.Linear(3, 2).state_dict()),
        "weights of another model than ViT(). It lacks class_",
    ),
    "an entry too few": (changed(head__bias=None), "It lacks head.bias."),
    "an entry too many": (changed(tail=torch.zeros(3)), "It has tail, which a ViT() has not."),
    "a whole model": (saved(torch.nn.Linear(3, 2)), "holds a whole model (torch.nn.modules.linear.Linear)"),
    "a training's state": (
        saved({"model": weights(), "optimizer": {"lr": 0.1}, "epoch": 3}),
        "a dictionary of several things (model, optimizer, epoch)",
    ),
    "a tensor": (saved(torch.zeros(3)), "holds a Tensor; expected a state_dict"),
    "a list": (saved([torch.zeros(3)]), "holds a list; expected a state_dict"),
    "code": (lambda canary: saved(Code(canary)), "holds code, posix.system, that was not run"),
    "code in an entry": (
        lambda canary: saved(weights() | {"head.bias": Code(canary)}),
        "holds code, posix.system, that was not run",
    ),
    "code as a pickle": (lambda canary: pickle.dumps(Code(canary), protocol=2), "holds code, posix.system,"),
    "another shape": (
        changed(head__weight=torch.zeros(10, 32)),
        f"has the shape (10, 32); expected (10, 64). {DEFAULTS}",
    ),
    "whole numbers": (changed(head__bias=torch.zeros(10, dtype=torch.int64)), "has the type int64; expected float32"),
    "complex numbers": (changed(head__bias=torch.zeros(10, dtype=torch.complex64)), "has the type complex64"),
    "a sparse tensor": (
        changed(head__bias=torch.zeros(10).to_sparse()),
        "has the type sparse float32; expected float32",
    ),
    "a text": (changed(head__bias="zeros"), "head.bias in vit.pt is a str; expected a tensor"),
    "NaN": (changed(head__bias=torch.full((10,), torch.nan)), "10 of the 10 numbers of head.bias in vit.pt are NaN"),
    "infinite as float32": (changed(head__bias=torch.full((10,), 1e300, dtype=torch.float64)), "are NaN or infinite"),
    "4 TB by strides": (changed(head__bias=expanded()), "has the shape (1000000, 1000000); expected (10,)"),
    "a zip bomb": (bomb(2 * 2**30), "unpacks to 2,049 MiB"),
    "a deep nest": (nested(100_000), "vit.pt"),
    "many entries": (saved({str(number): number for number in range(2000)}), "holds 2,000 entries"),
    "names that move the cursor": (saved({"\x1b[2J<script>": torch.zeros(1)}), "It has \\x1b[2J<script>"),
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One sandbox with the reader for many files; the grader starts one for each."""
    with checkpoint._reader(LIMITS, True) as kernel:
        yield kernel


@pytest.fixture
def one_reader(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be read in that sandbox."""
    monkeypatch.setattr(checkpoint, "_reader", lambda *_: contextlib.nullcontext(kernel))


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.usefixtures("one_reader")
def test_read_says_what_is_wrong(kind: str, tmp_path: Path) -> None:
    """Does a file that cannot be used get a message with its mend, and does no code in it run?"""
    content, words = BAD[kind]
    canary = tmp_path / "canary"
    found, problem = checkpoint.read("vit.pt", content(canary) if callable(content) else content, LIMITS, True)
    assert found == {}
    assert words in problem
    assert "torch.save(model.state_dict()" in problem
    assert not canary.exists()


def test_code_would_run_elsewhere(tmp_path: Path) -> None:
    """Is the command of these tests one that runs where a file is loaded without care?"""
    canary = tmp_path / "canary"
    target, arguments = Code(canary).__reduce__()
    assert target is os.system
    assert f"touch {canary}" in arguments[0]


GOOD_FILES = {
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
    """Do weights arrive whole, whatever their precision, and those of a compiled model too?"""
    found, problem = checkpoint.read("vit.pt", saved(GOOD_FILES[kind](weights())), LIMITS, True)
    assert problem == ""
    assert set(found) == set(weights())
    for name, value in weights().items():  # bfloat16 keeps 8 bits
        torch.testing.assert_close(
            found[name], value, rtol=2**-8 if kind in ("half precision", "bfloat16") else 0, atol=1e-6
        )


def test_read_survives_what_kills_the_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a file that ends, floods or never leaves what reads it cost its own points only?"""
    reader = tmp_path / "reader.py"
    monkeypatch.setattr(checkpoint, "READER", reader)
    for deed in ("import os; os._exit(1)", "while True: pass", "return {'type': 'x' * 10**8}"):
        reader.write_text(f"def read_weights(text):\n    {deed}\n")
        words = "cannot be read" if "return" in deed else "what reads it was ended"
        assert words in checkpoint.read("vit.pt", GOOD, Limits(cell_seconds=3.0), True)[1], deed


@pytest.mark.parametrize(
    "reply", [None, [1], {}, {"entries": 7}, {"entries": [("head.bias", {})] * 80}, {"error": 1}, {"count": "many"}]
)
def test_read_survives_a_forged_reply(reply: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does what no reader says, but a file that runs code might, end in a message?"""
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


@pytest.mark.parametrize(
    ("right", "number"),
    [(0, 1), (8999, 1), (9000, 2), (9499, 2), (9500, 3), (9700, 4), (9799, 4), (9800, 5), (10_000, 5)],
)
def test_check_gives_each_step_at_its_number(right: int, number: int) -> None:
    """Does a step of MNIST begin at its very number of images?"""
    assert passed(Verdict(right=right, of=10_000, on="MNIST")) == list(STEPS[:number])
    assert passed(Verdict("It is empty.", right=right, of=10_000, on="MNIST")) == []


@pytest.mark.parametrize(("right", "number"), [(35, 1), (156, 1), (157, 2), (209, 3), (226, 4), (243, 5)])
def test_check_asks_for_less_on_the_stand_in(right: int, number: int) -> None:
    """Are the steps on 347 digits of the stand-in those of the table, and does the message say so?"""
    verdict = Verdict(right=right, of=347, on="stand-in")
    assert passed(verdict) == list(STEPS[:number])
    assert "stand in for MNIST's test set, which the grading machine has not" in str(verdict)


def test_judge_measures_the_weights(held_out: HeldOut) -> None:
    """Is the share of images right, for the weights that made the classes and for others?"""
    assert checkpoint.judge("vit.pt", GOOD, held_out, LIMITS, True) == Verdict(right=40, of=40, on="MNIST")
    other = checkpoint.count_right(weights(1), held_out)
    assert other == sum(checkpoint.count_right(weights(1), one) for one in halves(held_out)) < 40
    twice = HeldOut("stand-in", np.concatenate([held_out.images, 255 - held_out.images]), held_out.labels)
    assert checkpoint.count_right(weights(), twice) == 40  # the better way of showing them counts


def halves(held: HeldOut) -> list[HeldOut]:
    """Cut the images into two sets."""
    return [HeldOut(held.name, held.images[:, part], held.labels[part]) for part in (slice(15), slice(15, None))]


def test_held_out_is_the_stand_in_without_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a machine without MNIST take the digits that the notebook does not train on, laid out in both ways?"""
    monkeypatch.setenv("MNIST_ROOT", str(tmp_path))
    held = checkpoint.held_out.__wrapped__()
    assert held.name == "stand-in"
    assert held.images.shape == (2, 347, 28, 28)
    assert held.images.dtype == np.uint8
    assert held.images[1, :, :, :2].max() == 0 < held.images[0, :, :, :2].max()  # the second way leaves a margin


@pytest.mark.skipif(not checkpoint.RECORD.exists(), reason="the record of the training is not there")
def test_record_takes_every_step() -> None:
    """Do the weights of the book's own training pass on the stand-in, and on MNIST where there is one?"""
    found, problem = checkpoint.read("vit.pt", checkpoint.RECORD.read_bytes(), LIMITS, True)
    assert problem == ""
    for held in {held.name: held for held in (checkpoint.stand_in(), checkpoint.held_out())}.values():
        verdict = Verdict(right=checkpoint.count_right(found, held), of=len(held.labels), on=held.name)
        assert passed(verdict) == list(STEPS), str(verdict)


@cache
def published() -> dict[str, torch.Tensor]:
    """Return the weights that the book publishes."""
    return torch.load(checkpoint.RECORD, weights_only=True)


def noisy(state: dict[str, torch.Tensor], share: float) -> dict[str, torch.Tensor]:
    """Add noise of a share of each tensor's spread."""
    draw = torch.Generator().manual_seed(0)
    return {
        name: value + share * value.std().nan_to_num() * torch.randn(value.shape, generator=draw)
        for name, value in state.items()
    }


def scaled(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Make all scores three times as large, and move them by one number."""
    return state | {"head.weight": 3 * state["head.weight"], "head.bias": 3 * state["head.bias"] + 5}


def rearranged(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Put the hidden units of each block in another order, and a factor from its second norm into the first layer."""
    state = dict(state)
    for name in [name for name in state if name.endswith("linear1.weight")]:
        block = name.removesuffix("linear1.weight")
        order = torch.randperm(len(state[name]), generator=torch.Generator().manual_seed(1))
        state[name] = state[name][order] / 2
        state[block + "linear1.bias"] = state[block + "linear1.bias"][order]
        state[block + "linear2.weight"] = state[block + "linear2.weight"][:, order]
        for part in ("weight", "bias"):
            state[f"{block}norm2.{part}"] = 2 * state[f"{block}norm2.{part}"]
    return state


def some_changed(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Set the weights of three corner pixels to a large number, and 100 others to 0."""
    state = {name: value.clone() for name, value in state.items()}
    state["patch_embedding.projection.weight"][:, 0, 0, :3] += 50
    state["encoder.blocks.0.linear1.weight"].flatten()[:100] = 0
    return state


COPIES = {
    "as published": lambda state: state,
    "half precision": GOOD_FILES["half precision"],
    "another order": GOOD_FILES["parameters in another order"],
    "noise of a hundredth": lambda state: noisy(state, 0.01),
    "noise of a tenth": lambda state: noisy(state, 0.1),
    "scaled": scaled,
    "rearranged": rearranged,
    "some changed": some_changed,
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.usefixtures("one_reader")
def test_published_weights_are_refused_by_name(kind: str) -> None:
    """Do the weights that the book publishes earn nothing, disguised or not, and does the message say what to do?"""
    held = checkpoint.held_out()
    content = saved(COPIES[kind](published()))
    verdict = checkpoint.judge("vit.pt", content, held, LIMITS, True)
    assert passed(verdict) == []
    assert "the weights that the book publishes" in verdict.problem
    assert "Train your own" in verdict.problem
    allowed = checkpoint.judge("vit.pt", content, replace(held, published=None), LIMITS, True)
    assert passed(allowed) == list(STEPS)  # the disguise costs the file nothing else


@pytest.mark.usefixtures("one_reader")
def test_weights_of_ones_own_are_not_refused() -> None:
    """Does a model that was trained for some seconds, with the book's own recipe, take every step on the stand-in?"""
    held, content = checkpoint.held_out(), sample_class.own_weights()
    verdict = checkpoint.judge("vit.pt", content, held, LIMITS, True)
    assert passed(verdict) == list(STEPS), str(verdict)
    assert checkpoint.likeness(torch.load(io.BytesIO(content)), held) < checkpoint.ALIKE - 0.2


# ---------------------------------------------------------------------------------------------- an assignment with it


def cell(source: str, name: str, points: int | None = None, **metadata: str) -> NotebookNode:
    """Return a cell that nbgrader knows: a test if it has points, else an answer."""
    info = {"grade": bool(points), "grade_id": name, "locked": bool(points), "schema_version": 3, "task": False}
    info |= {"solution": not points} | ({"points": points} if points else {})
    return nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": info, "checks": "vit"} | metadata)


@pytest.fixture
def file_assignment() -> Assignment:
    """An assignment of one answer and a file of weights."""

    def written(answer: str, test: str) -> NotebookNode:
        cells = [nbformat.v4.new_markdown_cell("# Train it", id="text"), cell(answer, "answer")]
        steps = [("loads", "", 1), *((f"{step:.0%}"[:-1], f"{step}", 1 + (step == 0.98)) for step in STEPS[1:])]
        for name, argument, points in steps:
            cells.append(cell(test.format(argument), f"checkpoint_{name}", points, file="vit.pt"))
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})

    instructor = written("answer = 1", "from autograder.checks.vit.checkpoint import check; check({})")
    return Assignment(NAME, STEM, instructor, written("raise NotImplementedError()", "# judged after you hand in {}"))


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with a roster and nothing else."""
    course = Course(tmp_path / "course")
    write_roster(course)
    return course


def hand_in(
    course: Course, student: str, assignment: Assignment, file: bytes | None, source: str = "answer = 2"
) -> Path:
    """Put a notebook, and a file beside it, where they are graded."""
    folder = course.root / "submitted" / student / NAME
    folder.mkdir(parents=True, exist_ok=True)
    work = nbformat.from_dict(assignment.release)
    work.cells[1].source = source
    nbformat.write(work, folder / f"{STEM}.ipynb")
    if file is not None:
        (folder / "vit.pt").write_bytes(file)
    return folder


THIEF = """import glob, os
found = [p for top in (".", "/tmp", "/wire", "/home", "/dev/shm") for p in glob.glob(top + "/**/*.pt", recursive=True)]
print("found", found)
open("vit.pt", "wb").write(b"mine"); os.makedirs("/tmp/home/sub"); open("/tmp/home/sub/vit.pt", "wb").write(b"mine")
import builtins, sys, types
fake = types.ModuleType("torch"); fake.load = lambda *a, **k: {}; sys.modules["torch"] = fake"""


def test_execute_keeps_the_file_from_the_notebook(file_assignment: Assignment, held_out: HeldOut) -> None:
    """Is the file judged that was handed in, whatever the notebook writes, and can the notebook not see it?"""
    work = nbformat.from_dict(file_assignment.instructor)
    work.cells[1].source = THIEF
    done = execute(work, 3, LIMITS, files={"vit.pt": GOOD}, held_out=held_out)
    assert [check.passed for check in done.checks] == [True] * 5
    assert done.notebook.cells[1].outputs[0].text.strip() == "found []"
    assert done.files == {"vit.pt": "40 of 40 images are recognised, 100.00%, of MNIST's test set."}
    done = execute(work, 3, LIMITS, files={}, held_out=held_out)
    assert [check.passed for check in done.checks] == [False] * 5
    assert "vit.pt was not handed in" in done.checks[0].message
    assert checkpoint._verdicts.get() is None


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Two processes for several runs of the grader: to begin them takes longer than a submission."""
    with Workers(2, STEM, LIMITS) as workers:
        yield workers


def test_grade_takes_files_of_a_class(
    course: Course,
    file_assignment: Assignment,
    held_out: HeldOut,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Does each student of a class get marks, a message and a page, and is a changed file graded again?"""
    record = tmp_path / "record.pt"
    monkeypatch.setattr(checkpoint, "RECORD", record)
    monkeypatch.setattr(checkpoint, "held_out", lambda root=None: held_out)
    hand_in(course, "ada", file_assignment, GOOD)
    hand_in(course, "bea", file_assignment, None)
    hand_in(course, "cem", file_assignment, bytes(MAX_FILE + 2**20))
    (hand_in(course, "dan", file_assignment, None) / "vit.pt").symlink_to("/etc/passwd")
    (hand_in(course, "eve", file_assignment, None) / "vit.pt").mkdir()
    (hand_in(course, "jan1", file_assignment, None) / "vit (1).pt").write_bytes(GOOD)
    hand_in(course, "jan2", file_assignment, GOOD, source="import os; os._exit(1)")
    options = {"workers": workers, "limits": LIMITS}
    with pytest.raises(InstallationError, match=r"record\.pt is missing"):
        grade(course, file_assignment, seed=1, **options)
    record.write_bytes(saved(weights(1)))
    with pytest.raises(InstallationError, match="recognised"):  # a record that is not good enough proves nothing
        grade(course, file_assignment, seed=1, **options)
    record.write_bytes(GOOD)
    results = {r.student: r for r in grade(course, file_assignment, seed=1, **options)}
    points = {name: sum(check["points"] for check in r.checks if check["passed"]) for name, r in results.items()}
    assert points == {"ada": 6, "jan1": 6, "jan2": 6} | dict.fromkeys(["bea", "cem", "dan", "eve", "-rf", "נועה"], 0)
    states = {name: result.state for name, result in results.items() if result.state != "missing"}
    assert states == dict.fromkeys(["ada", "bea", "cem", "dan", "eve"], "graded") | {
        "jan1": "graded after mending",
        "jan2": "crashed",
    }
    said = {
        "bea": "not handed in",
        "cem": "5.0 MiB; at most 4",
        "dan": "cannot be opened",
        "eve": "is not a plain file",
    }
    for student, words in said.items():
        assert words in results[student].files["vit.pt"]
        assert words in results[student].checks[0]["message"]
    assert "'vit (1).pt'; it was taken as vit.pt" in results["jan1"].receipt[0]
    pages = write_feedback(course, file_assignment, list(results.values()))
    verdicts = {
        path.parents[1].name: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").select_one(".verdict")
        for path in pages
    }
    assert all(words in verdicts[student].get_text() for student, words in said.items())
    assert "40 of 40 images are recognised" in pages[0].read_text(encoding="utf-8")
    report = write_report(course, file_assignment, list(results.values())).read_text(encoding="utf-8")
    assert "vit.pt, handed in beside the notebook" in report
    assert "vit.pt is not a plain file" in report
    (question,) = questions_of(file_assignment)
    assert (question.name, question.of) == ("vit.pt", 6)
    kept = course.load_result("ada", NAME)
    (course.root / "submitted" / "ada" / NAME / "vit.pt").write_bytes(saved(weights(1)))
    again = {r.student: r for r in grade(course, file_assignment, **options)}
    assert again["ada"].key != kept.key
    assert not again["ada"].checks[-1]["passed"]
    assert again["bea"].key == results["bea"].key


def test_grade_again_where_mnist_came_later(file_assignment: Assignment, held_out: HeldOut) -> None:
    """Does a result that the stand-in gave no longer count once the machine has MNIST?"""
    from autograder.grading.grade import grader_key

    keys = {grader_key(file_assignment, True, held) for held in (held_out, checkpoint.stand_in(), None)}
    assert len(keys) == 3


def test_older_results_can_be_read() -> None:
    """Has a result that was kept before there were such files none?"""
    assert Result("ada", NAME, "graded").files == {}


# ------------------------------------------------------------------------------------------------------ collecting


def beside(course: Course) -> dict[str, bytes]:
    """Return what lies in submitted/ beside the notebooks and their times, by student and name."""
    paths = [path for path in course.root.glob("submitted/*/*/*.*") if path.suffix != ".ipynb"]
    return {f"{path.parts[-3]}/{path.name}": path.read_bytes() for path in paths if path.name != "timestamp.txt"}


DOWNLOADS = {
    "Moodle, folders": {
        "Ada Lovelace_100_assignsubmission_file_/attention.ipynb": small_notebook("ada"),
        "Ada Lovelace_100_assignsubmission_file_/vit.pt": b"of ada",
        "Dan ONeill_103_assignsubmission_file_/vit (1).PT": b"of dan",
    },
    "Moodle, files": {
        "Ada Lovelace_100_assignsubmission_file_attention.ipynb": small_notebook("ada"),
        "Ada Lovelace_100_assignsubmission_file_vit.pt": b"of ada",
        "Dan ONeill_103_assignsubmission_file_Copy of vit.pt": b"of dan",
    },
    "Canvas": {
        "lovelaceada_501_9001_attention.ipynb": small_notebook("ada"),
        "lovelaceada_501_9002_vit.pt": b"of ada, earlier",
        "lovelaceada_LATE_501_9003_vit-1.pt": b"of ada",
        "oneilldan_777_9004_vit.pt": b"of dan",
        "lovelaceada_501_9005_best model.pt": b"another file",
    },
    "folders": {
        "ada/9_file/attention.ipynb": small_notebook("ada"),
        "ada/9_file/vit.pt": b"of ada",
        "ada/9_file/notes.txt": b"not asked for",
        "dan/9_file/vit.pt": b"of dan",
    },
}


@pytest.mark.parametrize("system", DOWNLOADS)
def test_collect_takes_the_file(system: str, course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Does the file arrive beside the notebook, under its name, and is nothing else taken?"""
    lines = collect(course, file_assignment, [write_zip(tmp_path / "download.zip", DOWNLOADS[system])])
    assert beside(course) == {"ada/vit.pt": b"of ada", "dan/vit.pt": b"of dan"}, lines
    assert [path.name for path in course.root.glob("submitted/ada/*/*.ipynb")] == ["attention.ipynb"]
    again = collect(course, file_assignment, [tmp_path / "download.zip"])
    assert {line.outcome for line in again} <= {"unchanged", "older attempt", "left alone"}
    ledger = json.loads((course.root / "collected" / f"{NAME}.json").read_text(encoding="utf-8"))
    assert ledger["files"]["ada"]["vit.pt"]["sha256"]


def test_collect_sets_a_large_file_aside(course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is a file of 5 MB refused with the reason, the notebook taken, and a smaller one taken later?"""
    files = {
        "ada/9_file/attention.ipynb": small_notebook(),
        "ada/9_file/vit.pt": np.random.default_rng(2).bytes(5 * 2**20),
    }
    lines = collect(course, file_assignment, [write_zip(tmp_path / "one.zip", files)])
    assert outcomes(lines) == {"ada/9_file/attention.ipynb": "collected ada", "ada/9_file/vit.pt": "refused ada"}
    assert set(beside(course)) == {"ada/vit.pt.refused.txt"}
    content, _ = course.read_files("ada", file_assignment)
    assert (
        "vit.pt has 5.0 MiB; at most 4 are taken of a vit.pt"
        in checkpoint.read("vit.pt", content["vit.pt"], LIMITS, True)[1]
    )
    collect(course, file_assignment, [write_zip(tmp_path / "two.zip", {"ada/9_file/vit.pt": b"small"})])
    assert course.read_files("ada", file_assignment) == ({"vit.pt": b"small"}, [])
    assert not (course.root / "submitted" / "ada" / NAME / "vit.pt.refused.txt").exists()


def test_collect_keeps_what_was_there(course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is an earlier file moved and not lost, a file of nobody's kept aside, and a lone file taken by its name?"""
    for number, text in enumerate((b"first", b"second")):
        collect(course, file_assignment, [write_zip(tmp_path / f"{number}.zip", {"ada/vit.pt": text})])
    assert (course.root / "earlier" / "ada" / NAME / "001" / "vit.pt").read_bytes() == b"first"
    (line,) = collect(course, file_assignment, [write_zip(tmp_path / "who.zip", {"zoe/vit.pt": b"whose?"})])
    assert line.outcome == "unmatched"
    assert [path.suffix for path in (course.root / "unmatched" / NAME).iterdir() if path.suffix != ".txt"] == [".pt"]
    (tmp_path / "dan_vit.pt").write_bytes(GOOD)  # an archive inside, which must not be opened
    lines = collect(course, file_assignment, [tmp_path / "dan_vit.pt"])
    assert outcomes(lines) == {"dan_vit.pt": "collected dan"}
    assert beside(course)["dan/vit.pt"] == GOOD


def test_collect_leaves_other_assignments_alone(course: Course, assignment: Assignment, tmp_path: Path) -> None:
    """Is a .pt file passed over where none is asked for?"""
    assert collect(course, assignment, [write_zip(tmp_path / "x.zip", {"ada/1_attention/vit.pt": b"x"})]) == []


# ---------------------------------------------------------------------------------------------------- submit-check


def test_submit_check_looks_for_the_file(
    file_assignment: Assignment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Is a student told before handing in that the file is missing, wrong or fine?"""
    monkeypatch.setattr("autograder.imports.ROOT", tmp_path)
    released = tmp_path / "exercises" / NAME / f"{STEM}.ipynb"
    released.parent.mkdir(parents=True)
    nbformat.write(file_assignment.release, released)
    work = tmp_path / "work" / f"{STEM}.ipynb"
    work.parent.mkdir()
    nbformat.write(file_assignment.instructor, work)
    for content, words, code in ((None, "was not handed in", 1), (b"", "is empty", 1), (GOOD, "can be used", 0)):
        if content is not None:
            work.with_name("vit.pt").write_bytes(content)
        run = CliRunner().invoke(cli.app, ["submit-check", str(work)])
        assert words in " ".join(run.output.split())
        assert run.exit_code == code, run.output

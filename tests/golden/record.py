"""Record what the grader decides and says, so that every later version can be compared with it.

    .venv/bin/python tests/golden/record.py [NAME …]      writes these files again: verdicts_attention, damaged, …

A change of words or of decisions is one difference of these files, which a person reads before it is committed.

- verdicts_STEM.txt: for each known mistake, each right answer and 40 mutations of each exercise, the message of the visible
  test and of each hidden stage, on two seeds. The message of a known mistake is written {M6}. If two seeds differ only in
  numbers, the first is kept.
- classes.txt: the results of the sample classes, and the top of their feedback.
- said.txt: what collecting, exporting and reports say in the tests that call `said`.
- damaged.txt: 2,000 notebooks after what editors, systems and people do to them: receipts, questions, and work that does not
  arrive.
"""

import contextlib
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT),
    *(str(ROOT / "tests" / part) for part in (".", "checks", "lms", "report", "sandbox")),
]

import torch
from attention_tests import line
from bs4 import BeautifulSoup
from conftest import ALL, LIMITS, NAME, SEED, assignment_of
from damage import CHANGES, arrives, changed, others_of
from golden.differences import FOLDER, NUMBER
from golden.said import RECORD
from sample_class import CLASSES, write_class
from test_visible_tests import said_of

from autograder.course.course import Course, Result
from autograder.files import Unreadable, write_atomically
from autograder.grade.grade import grade
from autograder.grade.repair import OtherAssignment, repair_notebook
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, Function, exercises_of, right_answers_of, seeded
from autograder.judge.mutations import mutations_of
from autograder.report.feedback import write_feedback
from autograder.sandbox.host.limits import Limits

SEEDS, MUTATIONS, NOTEBOOKS = (0, 1), 40, 2000

# --------------------------------------------------------------------------------------------------------- verdicts


def functions_of(stem: str, each: Exercise) -> Iterator[tuple[str, Function]]:
    """Yield the functions that are judged, each with its name."""
    yield from each.mistakes().items()
    yield from ((f"right: {style}", function) for style, function in right_answers_of(stem)[each.name].items())
    written = {style: own for style, own in right_answers_of(stem)[each.name].items() if style != "oracle"}
    written = {style: own for style, own in written.items() if isinstance(own, (FunctionType, type))}
    mutations = [(style, mutation) for style, own in written.items() for mutation in mutations_of(own)]
    for style, mutation in random.Random(0).sample(mutations, min(MUTATIONS, len(mutations))):
        if function := mutation.function():
            yield f"{style}, line {mutation.line}: {mutation.change}", function


@contextlib.contextmanager
def the_same_on_each_machine() -> Iterator[None]:
    """Let no message depend on the speed of the machine, or on what memory held before."""
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills new tensors, such as torch.empty, with NaN
    try:
        with mock.patch.multiple(line, MAX_SLOW=1000.0, MAX_SEARCH=1000.0):
            yield
    finally:
        torch.use_deterministic_algorithms(False)


def verdicts(stem: str, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for each function and test that refuses it; a line without a test for a function that passes all."""
    assignment = next(name for name, own in ALL.items() if own == stem)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), the_same_on_each_machine():
        warnings.simplefilter("ignore")
        for each in exercises_of(stem).values():
            if names and each.name not in names:
                continue
            for name, function in functions_of(stem, each):
                said = dict(_said(assignment, each, function))
                for test, text in said.items() or [("passes", "")]:
                    yield line_of(each.name, name, test, text)


def _said(assignment: str, each: Exercise, function: Function) -> Iterator[tuple[str, str]]:
    if visible := said_of(assignment, each, function):
        yield "visible", str(visible)
    kept: dict[str, str] = {}
    for seed in SEEDS:
        with seeded(seed):
            for stage, error in each.failures(function, seed).items():
                if NUMBER.sub("#", str(error)) != NUMBER.sub("#", kept.get(stage, "")):
                    kept.setdefault(stage, str(error))
                    yield f"{stage} {seed}", str(error)


def line_of(*parts: str) -> str:
    """Return a line of a record; the message of a known mistake is {M6}, and the link to it is left out."""
    text = " | ".join(parts)
    for number, message in catalogue.MESSAGES.items():
        text = text.replace(message, f"{{{number}}}")
    text = text.partition(f"\n{catalogue.address_of_book()}")[0].replace("\n", " ⏎ ")
    return re.sub(" +", " ", text).rstrip(" |")


# ---------------------------------------------------------------------------------------------------------- classes


def classes() -> Iterator[str]:
    """Yield the results of the sample classes, and what their feedback says above the notebook."""
    with tempfile.TemporaryDirectory() as folder:
        for name in CLASSES:
            course = Course(Path(folder) / name)
            write_class(course.root, name)
            # The class that other tests share is as they grade it.
            seed, limits = (SEED, LIMITS) if name == NAME else (SEEDS[0], Limits())
            yield from lines_of(course, name, grade(course, assignment_of(name), seed=seed, limits=limits))


def lines_of(course: Course, name: str, results: Iterable[Result]) -> Iterator[str]:
    """Yield the results of a class, and what its feedback says above the notebook."""
    write_feedback(course, assignment_of(name), results)
    for result in sorted(results, key=lambda each: each.student):
        yield line_of(name, result.student, result.state, result.why)
        yield from (line_of(name, result.student, "receipt", text) for text in result.receipt)
        yield from (line_of(name, result.student, "question", text) for text in result.questions)
        for check in result.checks:
            mistake = [check["mistake"]] if check["mistake"] else []
            yield line_of(name, result.student, check["name"], str(check["passed"]), *mistake, check["message"])
        page = course.feedback_page(result.student, assignment_of(name))
        if page.exists():
            soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
            yield line_of(name, result.student, "feedback", " ".join(soup.find(class_="verdict").text.split()))


# ---------------------------------------------------------------------------------------------------------- damaged


def damaged(count: int = NOTEBOOKS) -> Iterator[str]:
    """Yield what the repair decides about notebooks after one to three changes."""
    draw = random.Random(0)
    for number in range(count):
        name = draw.choice(sorted(ALL))
        changes = [
            (draw.choice(CHANGES), draw.randrange(10**6), draw.randrange(10**6)) for _ in range(draw.randint(1, 3))
        ]
        yield line_of(
            str(number), name, " ".join(change.__name__ for change, _, _ in changes), _decision(name, changes)
        )


def _decision(name: str, changes: list[tuple[Callable[..., None], int, int]]) -> str:
    work, assignment = changed(name, changes), assignment_of(name)
    try:
        repaired = repair_notebook(work.data, assignment.instructor, assignment.release, others_of(name), name)
    except (Unreadable, OtherAssignment) as error:
        return f"{type(error).__name__}: {error}"
    said = [*(f"lost {each}" for each in arrives(repaired, work)), *repaired.questions, *repaired.receipt]
    return " / ".join(said)[:2000]


# ------------------------------------------------------------------------------------------------------------- said


def said() -> Iterator[str]:
    """Yield what is said in the tests that call `said`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said"
        of_reports = (f"report/test_{part}.py" for part in ("report", "course_page", "feedback"))
        tests = [ROOT / "tests" / part for part in ("lms", *of_reports)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *map(str, tests)]
        subprocess.run(command, env=os.environ | {RECORD: str(path)}, check=True)
        yield from sorted(path.read_text(encoding="utf-8").splitlines(), key=lambda line: line.partition(" | ")[0])


# --------------------------------------------------------------------------------------------------------- command

RECORDS: dict[str, Callable[[], Iterator[str]]] = {
    **{f"verdicts_{stem}": (lambda stem=stem: verdicts(stem)) for stem in ALL.values()},
    "classes": classes,
    "damaged": damaged,
    "said": said,
}


def main(names: list[str]) -> None:
    """Write the named records, or all."""
    for name in names or RECORDS:
        lines = list(RECORDS[name]())
        write_atomically(FOLDER / f"{name}.txt", "\n".join(lines) + "\n")
        print(f"written  tests/golden/{name}.txt, {len(lines)} lines", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

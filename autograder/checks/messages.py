"""Collect the messages that the tests of an assignment can give to students, by running its checks on wrong answers."""

import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from attention_tests.compare import WrongAnswer, judge, message_of_unwritten
from attention_tests.debugging import judge_trial
from attention_tests.overwritten import overwritten

from autograder.checks.debugging.student_tests import ExerciseInTests
from autograder.checks.vit import checkpoint
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, Function, exercises_of, seeded
from autograder.judge.line_measure import mutations_with_lines
from autograder.progress import Progress
from autograder.sandbox.host.limits import Limits
from solutions.debugging import candidates_to_try

CODE = re.compile(r"`[^`]*`")
# The text of an error from Python or a library, up to the next line that we wrote.
LIBRARY = re.compile(r"(?<=, got )(\w+): .*?(?=\n(?:Line \d|https)|\Z)", re.S)
NUMBERS = re.compile(r"[-+.\w]*\d[-+.\w]*|\b(nan|inf)\b")


@dataclass(frozen=True)
class Message:
    """One message: the exercise, the wrong answer that gets it, and the text."""

    exercise: str
    answer: str  # "M10/2" (variant 2 of M10), or a mutation: "line 3: a - b -> a + b"
    text: str

    @property
    def plain(self) -> str:
        """The text without code of the student, and without texts of errors from Python and its libraries."""
        return LIBRARY.sub(r"\1", CODE.sub("`…`", self.text))

    @property
    def words(self) -> int:
        """The number of words. Code, numbers, tables of numbers and addresses do not count."""
        return sum(any(map(str.isalpha, word)) and "://" not in word for word in self.plain.split())


def messages_of(stem: str, seed: int, mutations: int, progress: Progress = lambda *_: None) -> list[Message]:
    """Return the messages of an assignment, each once. Messages that differ only in numbers or code count as one.

    Args:
        stem: The name of its folder of checks, "attention".
        seed: Inputs and mutations are drawn from it.
        mutations: The number of mutations to try in each exercise, in addition to all known mistakes.
        progress: Called for each exercise.
    """
    messages: dict[tuple[str, str], Message] = {}
    exercises = exercises_of(stem).values()
    with seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, exercise in enumerate(exercises, 1):
            for message in _messages_of(exercise, stem, seed, mutations):
                messages.setdefault(_key(message), message)
            progress(stem, done, len(exercises))
    return [*messages.values(), *(_messages_of_files() if stem == "vit" else ())]


def _key(message: Message) -> tuple[str, str]:
    """Return the text of a known mistake, or the exercise and the words. Messages with the same key count as one."""
    first = message.text.partition("\n")[0]
    if first in catalogue.MESSAGES.values():
        return first, ""
    words = message.plain.partition(": ")[2] or message.plain  # without the name of the case
    return message.exercise, NUMBERS.sub("0", words)


def _messages_of(exercise: Exercise, stem: str, seed: int, mutations: int) -> Iterator[Message]:
    yield Message(
        exercise.name, "not written", f"{exercise.name}: {message_of_unwritten(exercise.name, exercise.name)}"
    )
    for other in exercise.uses:
        yield Message(exercise.name, f"{other} not written", message_of_unwritten(exercise.name, other))
    answer, notebook = getattr(exercise.answers, exercise.name), {exercise.name: 1, "np": 1, "torch": 1, "len": 1}
    for written, libraries in (((answer,), vars(exercise.answers)), ((1,), {})):
        if text := overwritten(written, notebook, libraries, [exercise.name]):
            yield Message(exercise.name, "overwritten", text)
    for answer, function in exercise.mistakes().items():
        yield from (Message(exercise.name, answer, text) for text in _texts(exercise, function, seed))
    if isinstance(exercise, ExerciseInTests):
        for answer, function in {"refuses everything": _refuse, "asserts nothing": lambda candidate: None}.items():
            yield from (Message(exercise.name, answer, text) for text in _texts(exercise, function, seed))
        return
    tried = list(mutations_with_lines(stem, exercise))
    for mutation in random.Random(seed).sample(tried, min(mutations, len(tried))):
        if (function := mutation.function()) is not None:
            answer = f"{mutation.style}, line {mutation.lines[0]}: {mutation.change}"
            yield from (Message(exercise.name, answer, text) for text in _texts(exercise, function, seed))


def _texts(exercise: Exercise, function: Function, seed: int) -> Iterator[str]:
    """Yield the messages that the hidden tests and the visible test give to a wrong answer."""
    yield from map(str, exercise.failures(function, seed).values())
    try:
        if isinstance(exercise, ExerciseInTests):
            judge_trial(function, candidates_to_try())
        else:
            judge(exercise.of_arrays(function), exercise.names, exercise.visible_cases(), catalogue.MESSAGES)
    except WrongAnswer as error:
        yield str(error)


def _refuse(candidate: Function) -> None:
    raise AssertionError("no")


def _messages_of_files() -> Iterator[Message]:
    """Yield the messages about a file of weights that cannot be used, or that recognises too few images."""
    name, shapes = "vit.pt", checkpoint.expected()
    good = {key: {"type": "Tensor", "shape": shape, "numbers": torch.zeros(shape)} for key, shape in shapes.items()}
    replies: dict[str, dict] = {
        "code": {"error": "UnpicklingError", "text": "GLOBAL posix.system was not allowed"},
        "a whole model": {"error": "UnpicklingError", "text": "GLOBAL __main__.ViT was not allowed"},
        "half a file": {"error": "RuntimeError", "text": "failed finding central directory"},
        "a large file": {"unpacked": 2**30},
        "a list": {"type": "list"},
        "many entries": {"count": 2000},
    }
    entries = {
        "a checkpoint": {"model": {"type": "dict"}},
        "no bias": {key: about for key, about in good.items() if key != "head.bias"},
        "an entry too many": good | {"tail": good["head.bias"]},
        "a number": good | {"head.bias": {"type": "int"}},
        "another shape": good | {"head.bias": good["head.weight"]},
        "another type": good | {"head.bias": {"type": "Tensor", "shape": shapes["head.bias"], "dtype": "torch.int64"}},
        "NaN": good | {"head.bias": good["head.bias"] | {"numbers": torch.full(shapes["head.bias"], torch.nan)}},
    }
    replies |= {answer: {"entries": list(each.items())} for answer, each in entries.items()}
    for answer, reply in replies.items():
        yield Message(name, answer, checkpoint.problem_of(reply, name))
    for answer, content in {"no file": None, "an empty file": b"", "a folder": "it is a folder"}.items():
        yield Message(name, answer, checkpoint.read(name, content, Limits(), False)[1])
    for images in ("MNIST", "stand-in"):
        with checkpoint.judging({name: checkpoint.Verdict(right=900, of=1000, on=images)}):
            try:
                checkpoint.check(0.98)
            except AssertionError as error:
                yield Message(name, f"weak on {images}", str(error))

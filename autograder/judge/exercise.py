"""An exercise as the grader sees it: an oracle, stages of cases with points, and the known mistakes.

The oracle is independent of the answer in `solutions/`: it uses PyTorch's own layers.
"""

import contextlib
import io
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from attention_tests.compare import (
    WrongAnswer,
    ask_plainly,
    asked,
    difference,
    fingerprint,
    judge,
    names_around,
    outcome,
    read_plainly,
)
from attention_tests.line import Known, find_line, values_of, with_line
from attention_tests.watch import Watch

from autograder.judge import catalogue
from autograder.judge.catalogue import checks_of
from autograder.judge.mistake import Mistake, Variant, changed_answer, mistake_of, variants_of
from autograder.sandbox.host.answer import Answer

Function = Callable[..., Any]

_seed: ContextVar[int | None] = ContextVar("seed", default=None)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let hidden checks draw their inputs from a seed. Use one thread: several submissions are judged at once."""
    before, threads = _seed.set(seed), torch.get_num_threads()
    torch.set_num_threads(1)  # tensors are small: threads would wait for each other
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _seed.reset(before)


def run_seed() -> int:
    """Return the seed of this run. Under plain nbgrader, it is AUTOGRADER_SEED, or a seed that this process has drawn."""
    seed = _seed.get()
    return seed if seed is not None else int(os.environ.get("AUTOGRADER_SEED") or _own_seed())


@cache
def _own_seed() -> int:
    return secrets.randbits(31)


@dataclass(frozen=True)
class Case:
    """One call by which a function is judged."""

    name: str
    arguments: tuple[Any, ...]
    # The mistake to name if no mistake fits and the result is NaN, or if an expected error is missing.
    default_mistake: str | None = None
    only: tuple[str, ...] = ()  # the results that are compared, for partial credit; () for all
    # The mistake to name if no mistake fits and an unexpected ValueError is raised.
    mistake_if_refused: str | None = None
    tells: tuple[str, ...] = ()  # the mistakes that this case may name; () for all
    # Whether a wrong line is looked for: not where right values differ between processors, as in single precision.
    has_line: bool = True


@dataclass(frozen=True, eq=False)
class Exercise:
    """One function or class that a student writes, and all that the grader knows about it."""

    name: str
    names: tuple[str, ...]  # the names of the results, in order; () if `read` names them
    oracle: Function
    stages: dict[str, Callable[[np.random.Generator], list[Case]]]  # each is one hidden check and one point
    visible: Callable[[np.random.Generator], list[Case]]
    answers: ModuleType  # the module that contains the answer
    known: tuple[Mistake, ...]  # the mistakes of the assignment
    # The oracles of the earlier exercises that an answer may call.
    uses: dict[str, Function] = field(default_factory=dict)
    # Code of the notebook that students do not write: it is restored before the student's function is called.
    # `ask` gets it after the function.
    given: dict[str, Function] = field(default_factory=dict)
    ask: Function = ask_plainly  # runs next to the answer; see `compare.asked`
    read: Function = read_plainly
    has_line: bool = True  # whether the line of a wrong answer is looked for; not if a test trains or counts
    # The kinds of inputs that only the hidden stages try, each with the mistakes that show only there.
    untried: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """The name of the file of answers."""
        return self.answers.__name__.rpartition(".")[2]

    def of_arrays(self, function: Function, *own: Function) -> Function:
        """Return an answer as a function of arrays, wherever it runs.

        Args:
            function: The answer.
            own: What `ask` gets after the answer, instead of the notebook's own code in `given`.
        """
        there = isinstance(function, Answer)
        others = own or [function.sibling(name) if there else ours for name, ours in self.given.items()]
        return asked(self.ask, self.read, function, *others)

    def ask_in_notebook(self) -> list[str]:
        """Return the dotted names of the functions that ask and read."""
        return [f"{each.__module__}.{each.__qualname__}" for each in (self.ask, self.read)]

    @property
    def untried_in_words(self) -> str:
        """The kinds of inputs that the visible test leaves out; "" if it leaves out none."""
        return ", or ".join(self.untried)

    @cache  # noqa: B019  there are few exercises, and they live as long as the process
    def mistakes(self) -> dict[str, Function]:
        """Return the wrong answers, one for each variant of a mistake; "M10/2" is the second variant of M10."""
        return {name: self.changed(variant) for name, variant in variants_of(self.name, self.known).items()}

    def changed(self, *variants: Variant) -> Function:
        """Return the answer with one variant of a mistake, or with several variants at once."""
        return changed_answer(self.answers, self.name, [change for variant in variants for change in variant.changes])

    def prepare(self, cases: list[Case]) -> list[dict[str, Any]]:
        """Return the cases in the form that `judge` reads, with the outcomes of oracle and known mistakes."""
        prepared = []
        for case in cases:
            expected = self.run(self.oracle, case)
            if case.only:
                expected = expected | {"arrays": {name: expected["arrays"][name] for name in case.only}}
            has_line = self.has_line and case.has_line
            prepared.append(
                {
                    "name": f"{self.name}, {case.name}",
                    "arguments": case.arguments,
                    "expected": expected,
                    "mistakes": _Fingerprints(self, case, expected),
                    "default_mistake": case.default_mistake,
                    "mistake_if_refused": case.mistake_if_refused,
                    "right_values": cache(partial(self.right_values, case)) if has_line else None,
                }
            )
        return prepared

    def run(self, function: Function, case: Case) -> dict[str, Any]:
        """Return the outcome of one of our functions in a case. The run is independent of all other runs."""
        torch.set_default_dtype(torch.float64)  # so that results are the same on every machine
        try:
            with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
                torch.default_generator.manual_seed(0)  # layers draw their initial parameters from it
                return outcome(self.of_arrays(function), case.arguments, self.names)
        finally:
            torch.set_default_dtype(torch.float32)

    def right_values(self, case: Case) -> list[np.ndarray]:
        """Return the values that the answer and other right answers compute in a case, equal ones once."""
        answers = {"answer": getattr(self.answers, self.name)} | right_answers_of(self.stem)[self.name]
        values = []
        for function in answers.values():
            if (namespace := names_around(function)) is not None and function is not self.oracle:
                with Watch(namespace, [*self.given, *self.uses]) as watch:
                    self.run(function, case)
                values += values_of(watch.changes)
        return Known(values).values

    def hidden_cases(self, seed: int) -> list[dict[str, Any]]:
        """Return the prepared cases of all hidden stages."""
        return [case for stage in self.stages for case in self.stage_cases(stage, seed)]

    @cache  # noqa: B019  as above
    def stage_cases(self, stage: str, seed: int) -> list[dict[str, Any]]:
        """Return the prepared cases of a hidden stage."""
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.name}/{stage}".encode())])
        return self.prepare(self.stages[stage](rng))

    @cache  # noqa: B019  as above
    def visible_cases(self) -> list[dict[str, Any]]:
        """Return the prepared cases of the visible test."""
        return self.prepare(self.visible(np.random.default_rng(0)))

    def judge_stage(self, stage: str, function: Function, seed: int, *own: Function) -> None:
        """Judge a function by one hidden stage, on inputs drawn from the seed.

        Reference implementations replace the earlier exercises that the function uses, so that a mistake there costs no
        points here. If the function fails with these implementations, it is judged again with the student's own earlier
        answers, because they may take other arguments than the reference implementations.
        `own` is what `ask` needs in addition to the function, such as the student's class for `to_torch`.

        Raises:
            WrongAnswer: the function is wrong.
        """
        cases, changed = self.stage_cases(stage, seed), False
        torch.default_generator.manual_seed(seed)  # earlier runs must have no effect
        try:
            with replaced(function, self.given | self.uses) as changed:
                judge(self.of_arrays(function), self.names, cases, catalogue.MESSAGES, show=False)
        except WrongAnswer as error:
            if (changed and self.uses) or own:
                try:
                    with replaced(function, self.given):
                        function_of_arrays = self.of_arrays(function, *own)
                        return judge(function_of_arrays, self.names, cases, catalogue.MESSAGES, show=False)
                except WrongAnswer:
                    pass
            with replaced(function, self.given | self.uses):
                raise with_line(error, partial(self._find_line, stage, function, seed)) from None

    def _find_line(self, stage: str, function: Function, seed: int, case: dict[str, Any]) -> dict[str, Any] | None:
        """Look for the wrong line in a case like a failed one.

        Its inputs are drawn for this: right values reach the student's process, and decide no points there.
        """
        failed = self.stage_cases(stage, seed)
        place = next(i for i, each in enumerate(failed) if each is case)
        case = self.stage_cases(stage, zlib.crc32(f"{seed}, to find a line".encode()))[place]
        like = {
            "arguments": list(case["arguments"]),
            "expected": case["expected"],
            "right_values": case["right_values"](),
        }
        others = [*self.given, *self.uses]
        if isinstance(function, Answer):
            siblings = [function.sibling(name) for name in self.given]
            return function.find_line(siblings, self.ask, self.read, self.names, like, others)
        return find_line((function, *self.given.values()), self.ask, self.read, self.names, like, others)

    def failures(self, function: Function, seed: int, *own: Function) -> dict[str, WrongAnswer]:
        """Judge a function by every hidden stage; return the error of each failed stage. Arguments as in `judge_stage`."""
        failed = {}
        for stage in self.stages:
            try:
                self.judge_stage(stage, function, seed, *own)
            except WrongAnswer as error:
                failed[stage] = error
        return failed


class _Fingerprints(Mapping[str, list[float]]):
    """The fingerprints of mistakes in a case. A key is a mistake; a mistake that does not show in the case is left out.

    The fingerprints are computed only when a function fails the case, because running the mutants takes a hundred times
    as long as running the oracle.
    """

    def __init__(self, exercise: Exercise, case: Case, expected: dict[str, Any]) -> None:
        self.exercise, self.case, self.expected = exercise, case, expected
        self.fingerprint_of = cache(self._fingerprint_of)

    def __getitem__(self, name: str) -> list[float]:
        if (prints := self.fingerprint_of(name)) is None:
            raise KeyError(name)
        return prints

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.exercise.mistakes() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _fingerprint_of(self, name: str) -> list[float] | None:
        if self.case.tells and mistake_of(name) not in self.case.tells:
            return None
        got = self.exercise.run(self.exercise.mistakes()[name], self.case)
        shows = "error" not in got and difference(got, self.expected, show=False)
        return fingerprint(got) if shows else None


@contextmanager
def replaced(function: Function, correct: dict[str, Function]) -> Iterator[bool]:
    """In the notebook that defines a function, replace other functions by name until the with block ends.

    Yields:
        Whether functions were replaced. An answer in a module, outside a notebook, keeps the functions that it imports.
    """
    if isinstance(function, Answer):
        with function.replaced(correct):
            yield bool(correct)
        return
    namespace = names_around(function) or {}
    if namespace.get("__name__") != "__main__":  # not in a notebook
        yield False
        return
    before = {name: namespace[name] for name in correct if name in namespace}
    namespace.update(correct)
    try:
        yield bool(correct)
    finally:
        for name in correct:
            namespace.pop(name, None)
        namespace.update(before)


def checker(exercises: dict[str, Exercise]) -> Callable[..., None]:
    """Return the `check` that hidden test cells import from a module of checks."""

    def check(exercise: str, stage: str, function: Function, *own: Function) -> None:
        """Judge a function or class by one stage, on the inputs of this grading run.

        Args:
            exercise: The name of the exercise.
            stage: One of its stages.
            function: The student's function or class.
            own: The student's class that the function is called with, for `to_torch`.
        """
        exercises[exercise].judge_stage(stage, function, run_seed(), *own)

    return check


def exercises_of(stem: str) -> dict[str, Exercise]:
    """Return the exercises of a file of answers, by name."""
    return checks_of(stem).EXERCISES


def right_answers_of(stem: str) -> dict[str, dict[str, Function]]:
    """Return right answers that are written differently, by exercise and style. No points depend on them."""
    return checks_of(stem, "right_answers").RIGHT_ANSWERS

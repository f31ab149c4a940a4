"""What an exercise is to the grader: an oracle, stages of cases with points, and the known mistakes.

The oracle is independent of the answer in `solutions/` (PyTorch's own layers). Of two mistakes in different words of the
answer it is known what they give together, so that two at once are named too.
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
from functools import cache, lru_cache, partial
from itertools import combinations, product
from types import ModuleType
from typing import Any

import numpy as np
import torch

from autograder.judge import catalogue
from autograder.judge.catalogue import checks_of
from autograder.judge.compare import WrongAnswer, difference, fingerprint, judge, outcome
from autograder.judge.departure import names_around, recorder_of, with_line
from autograder.judge.mistake import Mistake, Way, changed_answer, mistake_of, number_of, ways_of
from autograder.sandbox.likeness import Likeness

Function = Callable[..., Any]

# Of two mistakes, at most so many pairs are tried on a result that fits no single one, the likeliest first. Each takes 2 to
# 20 ms, and the number does not depend on the machine. Of pairs that were made on purpose, 9 of 10 are among them.
MAX_PAIRS = 80


_seed: ContextVar[int | None] = ContextVar("seed", default=None)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let hidden checks draw their inputs from a seed, with one thread: submissions are judged side by side."""
    before, threads = _seed.set(seed), torch.get_num_threads()
    torch.set_num_threads(1)  # tensors are small: threads would wait for each other
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _seed.reset(before)


def run_seed() -> int:
    """Return the seed of this run; under plain nbgrader that of AUTOGRADER_SEED, or one that this process has drawn."""
    seed = _seed.get()
    return seed if seed is not None else int(os.environ.get("AUTOGRADER_SEED") or _own_seed())


@cache
def _own_seed() -> int:
    return secrets.randbits(31)


@dataclass(frozen=True)
class Case:
    """One call that a function is judged by."""

    name: str
    arguments: tuple[Any, ...]
    # The mistake to name if the outcome fits none, and is NaN, or an error was due and none came.
    otherwise: str | None = None
    only: tuple[str, ...] = ()  # the results to compare, if not all: partial credit
    refused: str | None = None  # the mistake to name if a ValueError came and none was due
    tells: tuple[str, ...] = ()  # the mistakes that it may name, if not all: others look alike here


@dataclass(frozen=True, eq=False)
class Exercise:
    """One function or class that a student writes, and all that the grader knows about it."""

    name: str
    names: tuple[str, ...]  # what the function returns, in order; none where a probe says it
    oracle: Function
    stages: dict[str, Callable[[np.random.Generator], list[Case]]]  # one hidden check, one point, each
    visible: Callable[[np.random.Generator], list[Case]]
    answers: ModuleType  # in which the answer stands
    known: tuple[Mistake, ...]  # the mistakes of the assignment
    # The earlier exercises that an answer may call, and their oracles.
    uses: dict[str, Function] = field(default_factory=dict)
    # What is in the notebook and is not the student's: it is put back before the student's function is called.
    given: dict[str, Function] = field(default_factory=dict)
    probe: Callable[..., Function] = lambda function: function  # makes a function of arrays of a class, or of tensors
    visible_probe: str = ""  # what the set-up cell calls it, where that has another name
    steps: Callable[..., dict[str, Any]] | None = None  # of arguments: its steps by what is said of them, in order
    untried: str = ""  # on what inputs hidden stages find mistakes that the visible test cannot

    def probe_in_notebook(self) -> str:
        """Return what stands for the probe in a notebook: its name there; nothing where the answer needs none."""
        probe = getattr(self.probe, "func", self.probe)  # without the measure that runs in the sandbox
        return self.visible_probe or ("" if probe.__name__ == "<lambda>" else probe.__name__)

    @cache  # noqa: B019  there are few exercises, and they live as long as the process
    def mistakes(self) -> dict[str, Function]:
        """Return wrong answers by mistake: the answer as each of its ways changes it; "M10/2" is a second way of M10."""
        return {name: self.changed(way) for name, way in ways_of(self.name, self.known).items()}

    def changed(self, *ways: Way) -> Function:
        """Return the answer as one way of making a mistake changes it, or several at once."""
        return changed_answer(self.answers, self.name, [change for way in ways for change in way.changes])

    def prepare(self, cases: list[Case]) -> list[dict[str, Any]]:
        """Return the cases as `judge` reads them: with the expected outcome and those of the known mistakes."""
        prepared = []
        for case in cases:
            expected = self.run(self.oracle, case)
            if case.only:
                expected = expected | {"arrays": {name: expected["arrays"][name] for name in case.only}}
            prepared.append(
                {
                    "name": f"{self.name}, {case.name}",
                    "arguments": case.arguments,
                    "expected": expected,
                    "mistakes": _Fingerprints(self, case, expected),
                    "otherwise": case.otherwise,
                    "refused": case.refused,
                    "tells": case.tells,
                    "steps": partial(self.steps, *case.arguments) if self.steps else None,
                }
            )
        return prepared

    def run(self, function: Function, case: Case) -> dict[str, Any]:
        """Return what a function of ours gives in a case, whatever ran before; nothing that runs later notices."""
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
            torch.default_generator.manual_seed(0)  # from which layers draw their first parameters
            return outcome(self.probe(function), case.arguments, self.names)

    def hidden_cases(self, seed: int) -> list[dict[str, Any]]:
        """Return the prepared cases of all hidden stages."""
        return [case for stage in self.stages for case in _prepared(self, stage, seed)]

    @cache  # noqa: B019  as above
    def visible_cases(self) -> list[dict[str, Any]]:
        """Return the prepared cases of the visible test."""
        return self.prepare(self.visible(np.random.default_rng(0)))

    def judge_stage(self, stage: str, function: Function, seed: int, *own: Function) -> None:
        """Judge a function by one hidden stage, on inputs drawn from the seed.

        An exercise that uses earlier ones is judged with the correct ones in their place, so that a mistake made there
        is not paid for here; and, if that fails, with the student's own, which may take other arguments. `own` is what
        the probe needs next to the function, such as the student's class for `to_torch`.

        Raises:
            WrongAnswer: the function is wrong.
        """
        cases, changed = _prepared(self, stage, seed), False
        torch.default_generator.manual_seed(seed)  # whatever ran before
        try:
            with replaced(function, self.given | self.uses) as changed:
                judge(self.probe(function), self.names, cases, catalogue.MESSAGES, show=False)
        except WrongAnswer as found:
            error = found
            if error.mistake is None and not error.fits and (pair := self._pair(error)):
                both = " and ".join(f"{name} ({catalogue.TITLES[name]})" for name in pair)
                error = WrongAnswer(f"Two mistakes: {both}.\n{error}", "+".join(pair), (), error.got, error.case)
            if (changed and self.uses) or own:
                try:
                    with replaced(function, self.given):
                        return judge(self.probe(function, *own), self.names, cases, catalogue.MESSAGES, show=False)
                except WrongAnswer:
                    pass
            raise self._with_line(error, function) from None

    def _with_line(self, error: WrongAnswer, function: Function) -> WrongAnswer:
        """Add to an error that has no name at which line the answer departs from the known steps, if that can be had."""
        others = [*self.given, *self.uses]
        recorder = function.recorder(others) if isinstance(function, Likeness) else recorder_of(function, others)
        with replaced(function, self.given | self.uses):
            return with_line(error, lambda: self.probe(function), self.names, recorder)

    def failures(self, function: Function, seed: int, *own: Function) -> dict[str, WrongAnswer]:
        """Judge a function by every hidden stage; return the error of each stage that fails. Arguments as `judge_stage`."""
        failed = {}
        for stage in self.stages:
            try:
                self.judge_stage(stage, function, seed, *own)
            except WrongAnswer as error:
                failed[stage] = error
        return failed

    def _pair(self, error: WrongAnswer) -> list[str] | None:
        """Return the two mistakes that together give what was got, if any do; in the first wrong case each shows alone too.

        None for a result of zeros, which too many pairs give. A pair must fit in most of the wrong cases; of several, the
        first is told that also gives what the case does not ask for.
        """
        case, got, likely = error.case, error.got, None
        if case["tells"] or "error" in got or "error" in case["expected"]:
            return None  # nothing to tell two mistakes by
        if any(np.isnan(array).any() for array in got["arrays"].values()):
            return None
        right, whole = case["expected"], got["arrays"].keys() == case["expected"]["arrays"].keys()
        got = _only(got, right)
        numbers = [array for array in got["arrays"].values() if array.dtype != bool]
        if numbers and all(np.abs(array).max(initial=0) < 1e-6 for array in numbers):
            return None

        alone = {name: _only(single, right) for name, single in case["mistakes"].outcomes().items()}
        for ones, others in _likeliest(alone, got, right):
            functions = filter(None, (self._both(*ways) for ways in product(ones, others)))
            first = next(functions, None)
            if first is None or not self._gives(first, case, got):
                continue
            alone_enough = (self.mistakes()[way] for way in (*ones, *others))
            if any(all(self._gives(function, *wrong) for wrong in error.wrong) for function in alone_enough):
                continue  # one of the two would do
            for function in (first, *functions):
                fits = [self._gives(function, *wrong) for wrong in error.wrong]
                if 2 * sum(fits) > len(fits):
                    pair = sorted((mistake_of(ways[0]) for ways in (ones, others)), key=number_of)
                    if whole or self._gives(function, case, error.got, whole=True):
                        return pair
                    likely = likely or pair
        return likely

    def _gives(self, function: Function, case: dict[str, Any], got: dict[str, Any], whole: bool = False) -> bool:
        """Whether a function of ours gives in a case what was got; of that what is asked for, or the whole."""
        mine = outcome(self.probe(function), case["arguments"], self.names)
        if not whole:
            mine, got = _only(mine, case["expected"]), _only(got, case["expected"])
        if "error" in mine or "error" in got:
            return mine.get("error") == got.get("error")
        return mine["changed"] == got["changed"] and not difference(mine | {"changed": False}, got, show=False)

    @lru_cache(maxsize=1000)  # noqa: B019  as above
    def _both(self, one: str, other: str) -> Function | None:
        """Return the answer with two different mistakes; None if they change the same words."""
        ways = ways_of(self.name, self.known)
        try:
            return self.changed(ways[one], ways[other])
        except ValueError:
            return None


class ExerciseInTorch(Exercise):
    """An exercise whose right and wrong results are computed in float64, so that they are the same on every machine."""

    def run(self, function: Function, case: Case) -> dict[str, Any]:
        """Return what a function of ours gives in a case, as `Exercise.run`."""
        torch.set_default_dtype(torch.float64)
        try:
            return super().run(function, case)
        finally:
            torch.set_default_dtype(torch.float32)


class _Fingerprints(Mapping[str, list[float]]):
    """By mistake its fingerprint in a case; a mistake that does not show there is no key.

    They are worked out when somebody fails the case: to run the mutants takes a hundred times as long as the oracle.
    """

    def __init__(self, exercise: Exercise, case: Case, expected: dict[str, Any]) -> None:
        self.exercise, self.case, self.expected = exercise, case, expected
        self.known: dict[str, tuple[dict[str, Any], list[float]] | None] = {}

    def __getitem__(self, name: str) -> list[float]:
        if name not in self.known:
            self.known[name] = self._shown(name)
        if self.known[name] is None:
            raise KeyError(name)
        return self.known[name][1]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.exercise.mistakes() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Return what those mistakes give, whole."""
        return {name: self.known[name][0] for name in self}

    def _shown(self, name: str) -> tuple[dict[str, Any], list[float]] | None:
        if self.case.tells and mistake_of(name) not in self.case.tells:
            return None
        got = self.exercise.run(self.exercise.mistakes()[name], self.case)
        shows = "error" not in got and difference(got, self.expected, show=False)
        return (got, fingerprint(got)) if shows else None


def _likeliest(
    alone: dict[str, dict[str, Any]], got: dict[str, Any], right: dict[str, Any]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the pairs of different mistakes that may give together what was got, the likeliest first.

    Of each, the ways that give the same alone. Either one of the two gives nearly what was got by itself, or what both add
    to the right result is nearly what is wrong with it.
    """
    alike: dict[tuple[str, bytes], list[str]] = {}
    for name in alone:
        step = _step(alone[name], right).round(6)  # so that no noise decides the order
        alike.setdefault((mistake_of(name), step.tobytes()), []).append(name)
    ways, wrong = list(alike.values()), _step(got, right)
    steps = np.array([np.frombuffer(step) for _, step in alike]).reshape(len(ways), -1)
    numbers = [number for number, _ in alike]
    pairs = [(i, j) for i, j in combinations(range(len(ways)), 2) if numbers[i] != numbers[j]]
    if not pairs:
        return
    first, second = np.array(pairs).T
    far = np.round(np.linalg.norm(steps - wrong, axis=1), 6)
    nearest, other = np.minimum(far[first], far[second]), np.maximum(far[first], far[second])
    products = steps @ steps.T
    apart = np.diag(products) - 2 * steps @ wrong
    added = np.round(apart[first] + apart[second] + 2 * products[first, second], 6)
    ranks = [np.argsort(np.argsort(measure, kind="stable")) for measure in (nearest + 0.1 * other, added)]
    for place in np.argsort(np.minimum(*ranks), kind="stable")[:MAX_PAIRS]:
        yield ways[first[place]], ways[second[place]]


def _step(got: dict[str, Any], right: dict[str, Any]) -> np.ndarray:
    """Return by how much results differ from the right ones, in one row of the same length for all."""
    parts = []
    for name, array in right["arrays"].items():
        mine, array = got["arrays"][name], np.asarray(array, float)
        size = max(float(np.abs(array[np.isfinite(array)]).max(initial=0)), 1e-9)
        moved = 0 if mine.shape == array.shape else size  # of another shape
        mine = np.resize(mine, array.shape)
        with np.errstate(invalid="ignore"):
            step = np.where(mine == array, 0, mine - array)  # also where both are -inf
        step = np.nan_to_num(step, nan=9, posinf=8, neginf=7) + moved
        parts.append(step.ravel() / size / max(np.size(array), 1) ** 0.5)
    return np.concatenate(parts)


def _only(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Keep the arrays that the expected outcome has too."""
    if "error" in got or "error" in expected:
        return got
    return got | {"arrays": {name: got["arrays"][name] for name in expected["arrays"]}}


@cache
def _prepared(exercise: Exercise, stage: str, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, zlib.crc32(f"{exercise.name}/{stage}".encode())])
    return exercise.prepare(exercise.stages[stage](rng))


@contextmanager
def replaced(function: Function, correct: dict[str, Function]) -> Iterator[bool]:
    """Let the module or notebook in which the function stands use other functions of these names for a while.

    Yields:
        Whether there is something to use: an answer in a module uses what it imports.
    """
    if isinstance(function, Likeness):
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
            exercise: Its name.
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
    """Return right answers written differently, by exercise and by what is different; no points depend on them."""
    return checks_of(stem, "right_answers").RIGHT_ANSWERS

"""The kill matrix: which checks catch and name each known mistake, and whether every correct answer passes."""

import sys
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from attention_tests.compare import TOLERANCE, WrongAnswer, judge

from autograder.files import made_once
from autograder.imports import ROOT, digest_of, imported_files
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, Function, exercises_of, right_answers_of, seeded
from autograder.judge.mistake import mistake_of
from autograder.progress import Progress

MATRICES = ROOT / "_build" / "matrices"  # the matrices that were made, by the digest of their sources


@dataclass
class Verdict:
    """What the checks say of one function."""

    exercise: str
    name: str  # a mistake ("M10/2") or a correct answer ("einsum")
    failed: dict[str, str | None] = field(default_factory=dict)  # check -> the mistake that it names
    visible: str | None = None  # the mistake that the visible test names; "" if it passes, None if it names none
    symptoms: list[str] = field(default_factory=list)  # the symptom in each failed check

    @property
    def killed(self) -> bool:
        """Whether a hidden check fails."""
        return bool(self.failed)

    @property
    def named(self) -> bool:
        """Whether the checks that fail name this mistake and no other."""
        names = {name for name in self.failed.values() if name}
        return names == {self.mistake}

    @property
    def mistake(self) -> str:
        """The name of the mistake that the function makes; for a correct answer, the name of the answer."""
        return mistake_of(self.name)

    @property
    def passes(self) -> bool:
        """Whether every check passes, including the visible test."""
        return not self.killed and self.visible == ""  # None means that the visible test fails and names nothing


@dataclass
class Matrix:
    """The kill matrix of an assignment."""

    assignment: str
    stem: str  # the name of its folder of checks
    seed: int
    mutants: list[Verdict]
    correct: list[Verdict]

    @property
    def is_complete(self) -> bool:
        """Whether every mutant is killed and named, and every correct answer passes."""
        return all(v.killed and v.named for v in self.mutants) and all(v.passes for v in self.correct)


def kill_matrix(assignment: str, stem: str, seed: int, progress: Progress = lambda *_: None) -> Matrix:
    """Judge every mutant and every correct answer of an assignment by all of its checks.

    Args:
        assignment: Its name, "1_attention".
        stem: The name of its folder of checks, "attention".
        seed: The hidden checks draw their inputs from it.
        progress: Called after each function.

    Raises:
        ValueError: a mistake names an exercise that does not exist.
    """
    known = catalogue.checks_of(stem).EXERCISES
    for mistake in catalogue.mistakes_of(stem):
        for name in {name for variant in mistake.variants for name in variant.exercises} - known.keys():
            known_names = ", ".join(sorted(known))
            raise ValueError(f"{mistake.name}: no exercise is called {name!r}. The exercises are: {known_names}")
    matrix = Matrix(assignment, stem, seed, [], [])
    exercises = exercises_of(stem).values()
    functions = [(e, matrix.mutants, name, function) for e in exercises for name, function in e.mistakes().items()]
    right = right_answers_of(stem)
    functions += [(e, matrix.correct, name, function) for e in exercises for name, function in right[e.name].items()]
    with seeded(seed):
        for done, (exercise, verdicts, name, function) in enumerate(functions, 1):
            verdicts.append(_verdict(exercise, name, function, seed))
            progress(assignment, done, len(functions))
    return matrix


def kept_matrix(assignment: str, stem: str, seed: int, progress: Progress = lambda *_: None) -> Matrix:
    """Return the kill matrix for the current files. If no process has made this matrix yet, make it.

    The arguments are those of `kill_matrix`. That function always makes a new matrix.
    """
    modules = [f"autograder.checks.{stem}.{part}" for part in ("exercises", "right_answers")]
    files = imported_files("autograder.judge.kill_matrix", *modules)
    digest = digest_of(files, assignment, stem, str(seed), sys.version, np.__version__, torch.__version__)
    made = made_once(MATRICES / f"{digest}.json", lambda: asdict(kill_matrix(assignment, stem, seed, progress)))
    return Matrix(**made | {kind: [Verdict(**v) for v in made[kind]] for kind in ("mutants", "correct")})


def _verdict(exercise: Exercise, name: str, function: Function, seed: int) -> Verdict:
    failures = exercise.failures(function, seed)
    verdict = Verdict(exercise.name, name, {stage: error.mistake for stage, error in failures.items()})
    first = [error.wrong[0] for error in failures.values() if error.wrong]
    verdict.symptoms = [symptom_of(got, case["expected"]) for case, got in first]
    visible = exercise.visible_cases()
    torch.default_generator.manual_seed(seed)  # earlier runs must have no effect
    try:
        judge(exercise.of_arrays(function), exercise.names, visible, catalogue.MESSAGES)
        verdict.visible = ""
    except WrongAnswer as error:
        verdict.visible = error.mistake
    return verdict


NUMBERS = "wrong numbers in right shapes"


def symptom_of(got: dict[str, Any], expected: dict[str, Any]) -> str:
    """Name the symptom of a wrong outcome, whatever its cause is."""
    if "error" in got or "error" in expected:
        return "an error" if "error" in got else "no error where one is due"
    for name, right in expected["arrays"].items():
        mine = got["arrays"][name]
        if mine.shape != np.shape(right):
            return "another shape"
        if np.allclose(mine, right, **TOLERANCE):
            continue
        if "parameters" in name:
            return "other parameters"
        if not np.isfinite(mine).all():
            return "NaN or infinite"
        if name == "weights" and not np.allclose(mine.sum(axis=-1), np.sum(right, axis=-1), **TOLERANCE):
            return "rows that do not sum to 1"
        return NUMBERS
    return "a changed argument"

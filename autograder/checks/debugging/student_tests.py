"""Judge a student's test by its verdicts on right and wrong attention functions.

The candidates run in this process. The student's test gets a stand-in that asks for the values of a candidate, so the
source of a candidate is never in the student's kernel. Nobody can know the order of the candidates, and the notebook
forgets each candidate before the next one comes. So a test can judge only by values.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from attention_tests.compare import UNWRITTEN, WrongAnswer
from attention_tests.debugging import judge_trial, limited
from attention_tests.unwritten import unwritten

from autograder.checks.multihead.exercises import EXERCISES as OF_MULTIHEAD
from autograder.checks.multihead.right_attention import ATTEND
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, Function
from autograder.judge.mistake import mistake_of
from autograder.missing import missing_in
from autograder.sandbox.host.kernel import KernelLost

# No test can see these mistakes. M15 changes an argument, but a candidate works on copies. M18/7 uses -10,000 instead of minus
# infinity, which is right unless scores are that far apart.
UNSEEN = ("M15", "M15/2", "M18/7")
DECOYS = 2  # this many wrong candidates come again after each candidate that looks right
MOST_LISTED = 10  # a message has at most this many numbers of mistakes
UNDEFINED = "NameError: name 'test_attention' is not defined"  # the cell of the test has an error
STRICT, LAX, PARTLY = "M180", "M181", "M182"  # the mistakes of a test itself
# A key is a mistake. The value is the question to a student whose test lets this mistake through.
QUESTIONS = {
    "M2": "Does an input have large scores that differ from each other?",
    "M3": "What happens to the exponential of a large score? Does an input have large scores?",
    "M5": "Do you compare the weights with right ones, or check that each row sums to 1?",
    "M6": "Do you check along which axis the weights sum to 1?",
    "M7": "Do you compare the weights with right ones, or only the output?",
    "M8": "Do you compute the scores yourself, with their scale?",
    "M9": "Does an input have different numbers of images, heads and tokens, and another head width, so that no two sizes agree?",
    "M10": "Does your head width differ from its root and its square?",
    "M11": "Do your queries differ from your keys, and do you compare every entry of the weights?",
    "M13": "Do your values differ from queries and keys, and do you compare the output?",
    "M14": "Does an input have a row whose scores are far below those of another row?",
    "M16": "Do you compare a result with a mask that is neither all True nor all False?",
    "M17": "With a mask, do you compare the weights, or check that their rows sum to 1?",
    "M18": "Does an input have hidden keys with very high scores, and other keys with scores far below zero?",
    "M19": "Does an input with a mask have as many images as heads? Do you use all three shapes of a mask?",
    "M20": "Do you hide all keys of a query with each of the three shapes of a mask, and expect the error?",
    "M25": "Do you use more than one head, and check that the weights of the keys sum to 1?",
    "M71": "Do you use a mask, and compare the result with the right one?",
    "M75": "Do you use several images and heads with different numbers, and compare each one?",
    "M77": "Do you compare the output with weights times values, row by row?",
    "M78": "Would one of your masks of keys give another result if it hid queries instead?",
    "M79": "Do the masks of your images differ from each other, and those of your heads?",
    "M80": "Do you compare the weights with right ones, or only their sums?",
    "M86": "Do you compare the second result, its shape and its numbers?",
    "M163": "With a mask, do you check the result for NaN? A comparison with NaN is False.",
}


def wrong_candidates() -> dict[str, Function]:
    """Return the wrong attention functions of exercise 2, by name of the mistake, except those that no test can see."""
    return {name: wrong for name, wrong in OF_MULTIHEAD["attend"].mistakes().items() if name not in UNSEEN}


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a test on all candidates."""

    refused: dict[str, str]  # the errors with which the test refuses right candidates, by candidate
    missed: tuple[str, ...]  # the names of the wrong candidates that the test accepts
    share: float  # the share of wrong candidates that the test refuses
    lost: KernelLost | None = None  # why the test did not finish
    wavers: bool = False  # whether the test accepts, in another run, a right candidate that it refused
    unwritten: bool = False  # whether the test is still the template


class CandidateOrder:
    """Yields candidates in the order in which a test meets them, as pairs: the name, and whether the candidate is right.

    First come the candidates that are wrong on every input, with one right candidate among them. The results of this
    right candidate come once, like many wrong results, but two decoys come more often. Then come the other wrong
    candidates, with a second right candidate among them. These wrong candidates look right on the inputs of many tests.
    After each candidate that looks right, the decoys come again. The other right candidates follow. So a test that
    remembers or counts results learns too late which results are common.

    Args:
        rng: A generator for the order.
        wrong: Names of the wrong candidates.
        right: Names of the right candidates.
        decoys: Names of the candidates that are wrong on every input.
    """

    def __init__(self, rng: np.random.Generator, wrong: list[str], right: list[str], decoys: list[str]) -> None:
        self.rng = rng
        first, second, *self.others = ((name, True) for name in rng.permutation(right).tolist())
        self.decoys = [(name, False) for name in rng.choice(decoys, DECOYS, replace=False).tolist()]
        again = [decoy for decoy in self.decoys for _ in range(rng.integers(2, 5))]
        subtle = [(name, False) for name in wrong if name not in decoys]
        self.early = self._shuffled([*subtle, second])
        self.early += self._shuffled([*((name, False) for name in decoys), first, *again])
        self.early += self.decoys  # `pop` returns these first: a test must not trust the first results

    def _shuffled(self, names: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        return [names[index] for index in self.rng.permutation(len(names))]

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        while self.early:
            yield self.early.pop()
        yield from self.others

    def looked_right(self, turn: tuple[str, bool]) -> None:
        """Let the decoys come again soon, because a candidate other than a decoy looked right."""
        for decoy in self.decoys * (turn not in self.decoys):
            self.early.insert(max(0, len(self.early) - int(self.rng.integers(4))), decoy)


@cache
def always_wrong() -> list[str]:
    """Return the candidates that are wrong on every input, even without a mask and with small scores."""
    inputs = torch.randn(3, 2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    return [name for name, wrong in wrong_candidates().items() if not _same(wrong, inputs)]


def _same(attend: Function, arguments: Sequence[torch.Tensor | None]) -> bool:
    """Return whether a function does the same as a right one: both raise an error, or both give the same numbers."""
    results = []
    for each in (attend, ATTEND["answer"]):
        try:
            results.append(each(*(item if item is None else item.clone() for item in arguments)))
        except Exception:
            results.append(None)
    mine, right = results
    if mine is None or right is None:
        return mine is right
    shapes = [tuple(item.shape) for item in right]
    fits = [tuple(getattr(item, "shape", ())) for item in mine] == shapes
    return fits and all(torch.allclose(a, b, 1e-3, 1e-4, equal_nan=True) for a, b in zip(mine, right))


@lru_cache(maxsize=1)  # the stages of one test are judged one after the other
def verdicts_of(test: Callable[[Function], object]) -> Verdicts:
    """Run a test on every candidate. Any error is a refusal, as in pytest; a wrong candidate must be refused each time.

    The order has no seed. A student's program sees numbers that are drawn from the seed of a grading run, and could
    find this seed by trying all seeds.
    """
    wrong = wrong_candidates()
    refusals: dict[tuple[str, bool], list[str]] = {}
    turns = CandidateOrder(np.random.default_rng(), list(wrong), list(ATTEND), always_wrong())
    try:
        for name, is_right in turns:
            wrong_shown = []  # it gets an entry when a result shows that the candidate is wrong
            candidate = ATTEND[name] if is_right else _noting_wrong_results(wrong[name], wrong_shown)
            refusals.setdefault((name, is_right), []).append(_refusal(test, candidate))
            if not wrong_shown:
                turns.looked_right((name, is_right))
        refused = {name: refusals[name, True][0] for name in ATTEND if refusals[name, True][0]}
        doubtful = list(refused)[:1] if len(refused) < len(ATTEND) else []
        wavers = any(not _refusal(test, ATTEND[name]) for name in 2 * doubtful)
    except NotImplementedError:
        return Verdicts({}, tuple(wrong), 0.0, unwritten=True)
    except KernelLost as lost:  # the test is not run again
        return Verdicts({}, tuple(wrong), 0.0, lost)
    missed = tuple(name for name in wrong if not all(refusals[name, False]))
    return Verdicts(refused, missed, 1 - len(missed) / len(wrong), wavers=wavers)


def _noting_wrong_results(attend: Function, wrong_shown: list[bool]) -> Function:
    """Return a wrong attention function that notes when one of its results shows that it is wrong."""

    def watched(q, k, v, mask=None):
        if not (wrong_shown or _same(attend, (q, k, v, mask))):
            wrong_shown.append(True)
        return attend(q, k, v, mask)

    return watched


def _refusal(test: Callable[[Function], object], candidate: Function) -> str:
    """Return the error by which a test refuses a candidate; "" if the test accepts the candidate.

    Raises:
        NotImplementedError: the test is still the template.
    """
    try:
        test(limited(candidate))
    except Exception as error:
        if unwritten(error):
            raise
        return f"{type(error).__name__}: {error}"[:300]
    return ""


class ExerciseInTests(Exercise):
    """An exercise that asks for a test; a stage is named after the percentage of wrong candidates to catch."""

    def ask_in_notebook(self) -> list[str]:
        """Return the dotted name of the function that judges a test at once, on the candidates in the notebook."""
        return [f"{judge_trial.__module__}.{judge_trial.__qualname__}"]

    def judge_stage(self, stage: str, function: Function, seed: int, *own: Function) -> None:
        """Judge a test by the share of wrong candidates that it refuses. A test that refuses a right candidate fails.

        Raises:
            WrongAnswer: the test does not catch enough; `mistake` is the only mistake that the test misses, or a
                mistake of the test itself.
            KernelLost: the test does not finish, or ends its process.
        """
        verdicts = verdicts_of(function)
        if verdicts.lost:
            raise verdicts.lost
        if not verdicts.refused and verdicts.share >= int(stage) / 100:
            return
        if verdicts.unwritten:
            raise WrongAnswer(f"{self.name}: {UNWRITTEN}")
        errors = {*verdicts.refused.values()}
        if len(verdicts.refused) == len(ATTEND) and len(errors) == 1:
            error = errors.pop()
            if error == UNDEFINED or missing_in(error):  # the test judged no function
                raise WrongAnswer(error)
        raise WrongAnswer(self._message(stage, verdicts), self._name(verdicts))

    def _name(self, verdicts: Verdicts) -> str:
        missed = {mistake_of(name) for name in verdicts.missed}
        if verdicts.refused or verdicts.share == 0:
            return STRICT if verdicts.refused else LAX
        return missed.pop() if len(missed) == 1 else PARTLY

    def _message(self, stage: str, verdicts: Verdicts) -> str:
        name = self._name(verdicts)
        lowest = next(each for each in self.stages if verdicts.refused or verdicts.share < int(each) / 100)
        elsewhere = f" The test for {lowest} % says more."
        if name in (STRICT, LAX):
            count = (
                f"{len(verdicts.refused)} of {len(ATTEND)} right attention functions"
                if verdicts.refused
                else "no wrong attention function"
            )
            text = f"Your test refuses {count}."
            if stage != lowest:
                return text + elsewhere
            why = f" One of its errors: {next(iter(verdicts.refused.values()))}" if verdicts.refused else ""
            wavers = (
                " In another run it accepts one that it refused. Does it draw numbers without a seed, or count calls?"
            )
            return f"{catalogue.MESSAGES[name]}\n{text}{why}{wavers * verdicts.wavers}"
        text = f"Your test catches {100 * verdicts.share:.0f} % of the wrong attention functions; this point is for {stage} %."
        if stage != lowest:
            return text + elsewhere
        first, *others = dict.fromkeys(mistake_of(name) for name in verdicts.missed)
        more = f" and {len(others) - MOST_LISTED} others" if len(others) > MOST_LISTED else ""
        also = f"\nIt also lets through {', '.join(others[:MOST_LISTED])}{more}." if others else ""
        return f"{text}\nIt lets {first} through ({catalogue.TITLES[first]}). {QUESTIONS[first]}{also}"

"""How a test is judged that a student wrote: by what it says of right and of wrong attentions.

The candidates run in this process, and the student's test gets a stand-in that asks for their values: no source of theirs
is in the student's kernel. They come in an order that nobody can know, so that a test can go by nothing but values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from autograder.boundary.kernel import KernelLost
from autograder.boundary.likeness import try_on
from autograder.boundary.unwritten import unwritten
from autograder.checks.debugging.probes import lent
from autograder.checks.multihead.exercises import EXERCISES as OF_MULTIHEAD
from autograder.checks.multihead.right_attention import ATTEND
from autograder.judging import catalogue
from autograder.judging.compare import UNWRITTEN, WrongAnswer
from autograder.judging.exercise import Exercise, Function
from autograder.judging.mistake import mistake_of

# What no test can see: M15, because a candidate works on copies; and -10,000 in the place of minus infinity, because
# that is right for all scores that are not as far apart.
UNSEEN = ("M15", "M15/2", "M18/7")
UNDEFINED = "NameError: name 'test_attention' is not defined"  # its cell has an error
STRICT, LAX, PARTLY = "M180", "M181", "M182"  # the names of what is wrong with a test
# What a student is asked whose test lets a mistake through.
QUESTIONS = {
    "M2": "Are there scores among yours that are large, and still differ from each other?",
    "M3": "What happens to the exponential of a large score? Have you one?",
    "M5": "Do you look at the sum of a row of weights, or compare the weights with right ones?",
    "M6": "Do you check along which axis the weights sum to 1?",
    "M7": "Do you compare the weights with right ones, or the output alone?",
    "M8": "Do you work out by yourself what the scores are, with their scale?",
    "M9": "Have images, heads, tokens and head width different sizes somewhere, so that no other size passes for the head width?",
    "M10": "Is your head width one whose root, square and itself differ?",
    "M11": "Are your queries others than your keys, and do you compare the weights entry by entry?",
    "M13": "Do your values differ from queries and keys, and do you compare the output?",
    "M14": "Are the scores of one row somewhere far below those of another?",
    "M16": "Do you compare a result behind a mask that is neither all True nor all False?",
    "M17": "Do you compare the weights behind a mask, or their rows' sums?",
    "M18": "Have hidden keys somewhere a score far above, and the others one far below zero?",
    "M19": "Does any of your inputs with a mask have as many images as heads? Does each of the three shapes of a mask occur?",
    "M20": "Does each of the three shapes of a mask hide all keys of a query somewhere, and do you expect the error then?",
    "M25": "Have you more than one head, and do you look at the sums over the keys?",
    "M71": "Do you give a mask at all, and compare what comes with what should?",
    "M75": "Have you several images and heads with different numbers, each compared with its own?",
    "M77": "Do you compare the output with weights times values, row by row?",
    "M78": "Is one of your masks of keys such that it would mean something else if it hid queries?",
    "M79": "Do the masks of your images, and of your heads, differ from each other?",
    "M80": "Do you compare the weights with numbers that you know, or their sums alone?",
    "M86": "Do you compare the second thing that is returned, shape and numbers?",
    "M163": "Do you look at what comes behind a mask for NaN? A comparison with NaN is False.",
}


def wrong_candidates() -> dict[str, Function]:
    """Return wrong attentions by mistake: those that exercise 2 knows, but for those that no test can see."""
    return {name: wrong for name, wrong in OF_MULTIHEAD["attend"].mistakes().items() if name not in UNSEEN}


@dataclass(frozen=True)
class Found:
    """What a test says of all candidates."""

    refused: dict[str, str]  # right ones that it refuses, by what they do, with the error
    missed: tuple[str, ...]  # wrong ones that it lets through, by mistake
    share: float  # of the wrong ones, which it refuses
    lost: KernelLost | None = None  # why there was no end
    unwritten: bool = False  # whether it is still the template


@lru_cache(maxsize=1)  # its stages are judged one after the other
def tried(test: Callable[[Function], object]) -> Found:
    """Run a test on every candidate. Any error is a refusal, as to pytest.

    No seed decides the order: a student's program sees numbers that are drawn from it, and could find it by trying all.
    """
    wrong = wrong_candidates()
    candidates = [
        *((name, False, wrong[name]) for name in wrong),
        *((name, True, right) for name, right in ATTEND.items()),
    ]
    said = dict.fromkeys(((name, is_right) for name, is_right, _ in candidates), "")
    for index in np.random.default_rng().permutation(len(candidates)):
        name, is_right, attend = candidates[index]
        try:
            try_on(test, lent(attend))
        except Exception as error:
            if unwritten(error):
                return Found({}, tuple(wrong), 0.0, unwritten=True)
            said[name, is_right] = f"{type(error).__name__}: {error}"[:300]
        except KernelLost as lost:  # once is enough
            return Found({}, tuple(wrong), 0.0, lost)
    refused = {name: said[name, True] for name in ATTEND if said[name, True]}
    missed = tuple(name for name in wrong if not said[name, False])
    return Found(refused, missed, 1 - len(missed) / len(wrong))


class ExerciseInTests(Exercise):
    """An exercise that asks for a test; each stage is named by the percentage of wrong candidates that it asks for."""

    def judge_stage(self, stage: str, function: Function, seed: int, *own: Function) -> None:
        """Judge a test by the share of wrong candidates that it refuses; nothing counts if it refuses a right one.

        Raises:
            WrongAnswer: it does not catch enough; `mistake` is the one known mistake that it misses, or what else is
                wrong with it.
            KernelLost: it has no end, or ends its process.
        """
        found = tried(function)
        if found.lost:
            raise found.lost
        if not found.refused and found.share >= int(stage) / 100:
            return
        if found.unwritten:
            raise WrongAnswer(f"{self.name}: {UNWRITTEN}")
        if len(found.refused) == len(ATTEND) and {*found.refused.values()} == {UNDEFINED}:
            raise WrongAnswer(UNDEFINED)
        raise WrongAnswer(self._message(stage, found), self._name(found))

    def _name(self, found: Found) -> str:
        missed = {mistake_of(name) for name in found.missed}
        if found.refused or found.share == 0:
            return STRICT if found.refused else LAX
        return missed.pop() if len(missed) == 1 else PARTLY

    def _message(self, stage: str, found: Found) -> str:
        name = self._name(found)
        if name in (STRICT, LAX):
            count = f"{len(found.refused)} of {len(ATTEND)} right ones" if found.refused else "none of the wrong ones"
            why = f" One of them: {next(iter(found.refused.values()))}" if found.refused else ""
            return f"{catalogue.MESSAGES[name]}\nYour test refuses {count}.{why}"
        lines = [f"Your test catches {100 * found.share:.0f} % of the wrong attentions; this point is for {stage} %."]
        numbers = dict.fromkeys(mistake_of(name) for name in found.missed)
        lines += [f"It lets {number} through ({catalogue.TITLES[number]}). {QUESTIONS[number]}" for number in numbers]
        return "\n".join(lines)

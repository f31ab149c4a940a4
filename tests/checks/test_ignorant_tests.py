"""Does a student's test that knows nothing of attention get no points, and does an honest test keep all points?"""

from collections import Counter
from collections.abc import Callable, Iterator

import nbformat
import numpy as np
import pytest
from conftest import assignment_of, lost, soon
from sample_class import answer, fill_in

from autograder.checks.debugging import student_tests
from autograder.checks.debugging.exercises import TEST_ATTENTION
from autograder.checks.multihead.right_attention import ATTEND
from autograder.grade.execute import execute
from autograder.grade.repair import repair_notebook
from autograder.imports import ROOT
from autograder.sandbox.host.answer import Answer
from autograder.sandbox.host.kernel import Kernel
from autograder.sandbox.host.limits import Limits

WRONG, RIGHT = list(student_tests.wrong_candidates()), list(ATTEND)
BEGIN = """
import os, random, sys, threading, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
"""
# These tests look only at results for some inputs with a mask, as comparable numbers.
LOOK = """
def look(candidate):
    draw = torch.Generator().manual_seed(3)
    q, k, v = torch.randn(3, 3, 2, 5, 7, generator=draw)
    found = []
    for size, mask in ((1, None), (1, torch.eye(5, dtype=torch.bool).repeat(3, 1, 1)), (1, torch.eye(5).bool()[:3]), (40, None)):
        try:
            found.append(float((candidate(size * q, k, v, mask)[0] * torch.arange(7)).nan_to_num().sum()))
        except Exception:
            found.append(-1.0)
    return tuple(round(number, 2) for number in found)

def test_attention(candidate):
    seen = look(candidate)
"""
AS_THE_FIRST = "    assert seen == first, 'not as the first'"
IGNORANT = {
    "the time that it takes": (
        "def test_attention(candidate):\n    begun = time.perf_counter()\n    candidate(*torch.ones(3, 4, 4, 40, 8))\n"
        "    assert time.perf_counter() - begun < 0.0004"
    ),
    "itself": LOOK + "    assert seen == look(candidate)",
    "a global": f"first = None\n{LOOK}    global first\n    first = first or seen\n{AS_THE_FIRST}",
    "a file": (
        f"{LOOK}    open('seen.txt', 'a').write(f'{{seen}}\\n')\n"
        f"    first = eval(open('seen.txt').readline())\n{AS_THE_FIRST}"
    ),
    "an error that nobody specified": (
        "def test_attention(candidate):\n    for k in (torch.ones(1, 1, 2, 3), torch.ones(1, 1, 3, 2), torch.ones(1, 2, 2, 2)):\n"
        "        try:\n            candidate(torch.ones(1, 1, 2, 2), k, torch.ones(1, 1, 2, 2))\n"
        "        except ValueError:\n            continue\n        raise AssertionError('no error')"
    ),
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """A kernel for all tests; each test defines the names that it uses."""
    kernel = Kernel(Limits())
    kernel.run_cell(BEGIN)
    yield kernel
    kernel.close()


@pytest.fixture
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always draw the same order of candidates, so that points earned by luck are the same in each run."""
    draw = student_tests.CandidateOrder
    monkeypatch.setattr(student_tests, "CandidateOrder", lambda rng, *names: draw(np.random.default_rng(5), *names))


def points(kernel: Kernel, source: str) -> int:
    """Define a test in the kernel, and return its points. Each trial runs in its own process, as in a session."""
    assert [output for output in kernel.run_cell(source) if output.output_type == "error"] == []
    student_tests.verdicts_of.cache_clear()

    def call(request: dict, candidate: Callable) -> dict:
        kernel.end_test()
        return kernel.call({"draw": 1} | request, candidate, 30.0)

    return len(TEST_ATTENTION.stages) - len(lost(TEST_ATTENTION, Answer("test_attention", call)))


@pytest.mark.usefixtures("one_order")
@pytest.mark.parametrize("strategy", soon(IGNORANT, "a global", "a file"))
def test_ignorant_test_gets_nothing(kernel: Kernel, strategy: str) -> None:
    """Does a test that knows nothing of attention get no point, wherever it stores what it has seen?"""
    assert points(kernel, IGNORANT[strategy]) == 0


OURS = (ROOT / "solutions" / "debugging.py").read_text(encoding="utf-8").partition("def test_attention")
OURS = f"def test_attention{OURS[2]}"
HONEST = {
    "with every habit": (
        "import functools\nkept = []\n@functools.lru_cache\ndef sizes():\n    return ((2, 3, 5, 7), (4, 4, 6, 3))\n"
        "class Tester:\n    count = 0\n    def run(self, candidate):\n        Tester.count += 1\n"
        "        kept.append(candidate)\n        ours(candidate)\ntester = Tester()\n"
        + OURS.replace("def test_attention", "def ours")
        + "\ndef test_attention(candidate):\n    import math, itertools\n    print('testing', candidate)\n"
        "    time.sleep(0.02)\n    open('log.txt', 'a').write('called')\n"
        "    assert len(kept) < 99 and sizes()\n    tester.run(candidate)\n"
    ),
    "a generator of the notebook": OURS.replace("    generator =", "    pass  #").replace(
        "def test_attention", "generator = torch.Generator().manual_seed(0)\n\ndef test_attention"
    ),
    "draws of its own": OURS.replace(", generator=generator", "").replace("    generator =", "    pass  #"),
    "NumPy": OURS.replace(
        "expected = expected.softmax(-1)",
        "expected = np.exp((expected - expected.amax(-1, keepdim=True)).numpy())\n"
        "        expected = torch.tensor(expected / expected.sum(-1, keepdims=True))",
    ),
}


@pytest.mark.parametrize("kind", soon(HONEST, "with every habit", "draws of its own"))
def test_honest_test_keeps_all_points(kernel: Kernel, kind: str) -> None:
    """Does a good test get all points, whatever it uses, draws, keeps or prints?"""
    assert HONEST[kind] != OURS
    assert points(kernel, HONEST[kind]) == len(TEST_ATTENTION.stages)


def turns(seed: int) -> student_tests.CandidateOrder:
    """Return an order of the candidates."""
    return student_tests.CandidateOrder(np.random.default_rng(seed), WRONG, RIGHT, student_tests.always_wrong())


def test_right_candidates_come_anywhere_among_the_wrong_ones() -> None:
    """Does every candidate come, wrong ones first, and have the first two right ones no place at which they come often?"""
    places = []
    for seed in range(400):
        order = list(turns(seed))
        assert {name for name, is_right in order if not is_right} == set(WRONG)
        assert sorted(name for name, is_right in order if is_right) == sorted(RIGHT)
        assert not any(is_right for _, is_right in order[:2])
        first, second, *_ = (place for place, (_, is_right) in enumerate(order) if is_right)
        places.append([first, len(order) - second])
    assert all(max(Counter(column).values()) < 40 for column in zip(*places, strict=True))


def points_of(strategy: Callable, seed: int, looks_right: float) -> int:
    """Return the points of a test that recognises every candidate, except that some wrong ones look right to it.

    Args:
        strategy: Decides whether to accept a candidate, from its label and the counts of candidates so far.
        seed: The seed of the order.
        looks_right: The share of wrong candidates that look right to the test.
    """
    order, counts, accepted = turns(seed), Counter(), set()
    subtle = sorted(set(WRONG) - set(student_tests.always_wrong()))
    some = {str(name) for name in np.random.default_rng(seed).permutation(subtle)[: int(looks_right * len(WRONG))]}
    refused_right, missed = False, set()
    for name, is_right in order:
        right = is_right or name in some
        label = "right" if right else name
        counts[label] += 1
        accepts = strategy(counts, label, accepted)
        if accepts:
            accepted.add(label)
        refused_right |= is_right and not accepts
        missed |= {name} if accepts and not is_right else set()
        if right:
            order.looked_right((name, is_right))
    if refused_right:
        return 0
    return sum(len(missed) <= len(WRONG) * (1 - int(stage) / 100) for stage in TEST_ATTENTION.stages)


STRATEGIES = {
    "what is most frequent": lambda counts, label, accepted: counts[label] == max(counts.values()),
    "what is as frequent as half of that": lambda counts, label, accepted: 2 * counts[label] >= max(counts.values()),
    "what came three times": lambda counts, label, accepted: counts[label] >= 3 or max(counts.values()) < 3,
    "what was new among the first eight": lambda counts, label, accepted: label in accepted or counts.total() < 9,
    "what was new among the first half": lambda counts, label, accepted: label in accepted or counts.total() < 40,
}


@pytest.mark.parametrize("looks_right", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_perfect_memory_is_worth_little(strategy: str, looks_right: float) -> None:
    """Does a test that remembers all candidates, without knowing the right ones, get few of 8 points on average?"""
    earned = [points_of(STRATEGIES[strategy], seed, looks_right) for seed in range(300)]
    assert np.mean(earned) < 1.5


@pytest.mark.usefixtures("one_order")
def test_trial_in_the_notebook_tells_a_test_nothing() -> None:
    """Does a test get no point if it keeps its first candidate in a file? The visible test would give it a right one."""
    assignment = assignment_of("5_debugging")
    notebook = fill_in(assignment.release, assignment.instructor)
    answer(notebook, "test_attention").source = BEGIN + IGNORANT["a file"]
    done = execute(
        repair_notebook(nbformat.writes(notebook).encode(), assignment.instructor, assignment.release).notebook, 3
    )
    passed = {check.name for check in done.checks if check.passed}
    assert done.state == "graded"
    assert not any(name.startswith("test_attention") for name in passed)
    assert len(passed) == 12


def test_test_that_fails_by_chance_is_told_so(kernel: Kernel) -> None:
    """Does a test lose its points, with the reason, if it refuses a right candidate once and accepts it later?"""
    flaky = OURS.replace("    generator =", "    assert torch.rand(()) < 0.5\n    generator =")
    assert points(kernel, flaky) == 0
    found = student_tests.verdicts_of(lambda candidate: None if np.random.default_rng().random() < 0.5 else 1 / 0)
    assert found.refused

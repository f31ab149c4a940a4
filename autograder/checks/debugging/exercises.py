"""The exercises of assignment 5_debugging: six programs with a fault, one for each kind of symptom, and `test_attention`."""

import inspect
from dataclasses import dataclass

import numpy as np
from attention_tests import debugging_measures as asks
from attention_tests.compare import read_plainly

from autograder.checks.debugging import oracles
from autograder.checks.debugging.mistakes import MISTAKES
from autograder.checks.debugging.student_tests import ExerciseInTests
from autograder.judge.exercise import Case, Exercise, checker
from solutions import debugging as answers
from solutions import programs


@dataclass(frozen=True, eq=False)
class Program(Exercise):
    """A program that students get with a fault."""

    fault: str = ""  # the name of a mistake
    has_line: bool = False  # to find it is the exercise


def program(name, fault, names, ask, read, arguments, sizes, visible):
    """Describe a program.

    Args:
        name: The name of the function or class.
        fault: The name of the mistake in the students' program.
        names: The names of the results.
        ask: A function of `debugging_measures.py`.
        read: What reads its results.
        arguments: Makes the arguments of `ask` from a generator of random numbers and sizes.
        sizes: The sizes of the hidden cases, first for the first stage, then for the second.
        visible: The sizes of the visible test.
    """

    def cases(all_sizes):
        return lambda rng: [Case(name_of_sizes(arguments, some), arguments(rng, *some)) for some in all_sizes]

    def visible_cases(rng):  # a visible test names no mistake, because the name would be the solution
        return [Case(name_of_sizes(arguments, some), arguments(rng, *some), tells=("none",)) for some in visible]

    return Program(
        name=name,
        fault=fault,
        names=names,
        oracle=getattr(oracles, name),
        answers=programs,
        known=MISTAKES,
        stages={"values": cases(sizes[0]), "sizes": cases(sizes[1])},
        visible=visible_cases,
        ask=ask,
        read=read,
    )


def name_of_sizes(arguments, sizes):
    """Name the sizes of a case by the parameters of `arguments`: "width 6, classes 4"."""
    named = inspect.signature(arguments).bind(None, *sizes).arguments
    texts = {name: ", ".join(map(str, value)) if isinstance(value, tuple) else value for name, value in named.items()}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items() if name != "rng")


def seed_of(rng):
    return int(rng.integers(2**31))


def draw(rng, *shape):
    """Draw numbers with few digits."""
    return np.round(rng.normal(size=shape) + 0.3, 3)


def clipped(rng, longest, *sizes):
    count = sum(sizes)
    return draw(rng, count, 2, 3), rng.integers(4, size=count), list(sizes), longest, seed_of(rng)


def evaluated(rng, *sizes):
    """Draw images and labels; two of three labels are the classes that the model gives."""
    images, seed = draw(rng, sum(sizes), 2, 3), seed_of(rng)
    given = asks.small_model(6, 4, seed)(asks.tensor(images)).argmax(dim=-1).numpy()
    return images, np.where(np.arange(len(given)) % 3, given, rng.integers(4, size=len(given))), list(sizes), seed


def stack(rng, batch, inputs, width, depth, classes):
    sizes = {"inputs": inputs, "width": width, "depth": depth, "classes": classes}
    return sizes, draw(rng, batch, inputs), seed_of(rng)


def head(rng, batch, tokens, width, classes, dropout):
    sizes = {"width": width, "classes": classes, "dropout": dropout}
    return sizes, draw(rng, batch, tokens, width), seed_of(rng)


def draw_images(rng, B, H, W):
    return (draw(rng, B, H, W),)


def draw_existing(rng, texts, tokens):
    """Draw which tokens exist: at least one in each text, but not all. The first text is padded in front."""
    counts = 1 + (1 + np.arange(texts)) % (tokens - 1)  # adjacent texts have different lengths
    exists = np.stack([rng.permutation(tokens) < count for count in counts])
    exists[0].sort()
    return exists


def pooling(rng, texts, tokens, width, lowest=0, hidden=0, apart=0):
    """Draw tokens, a query and a mask.

    `lowest` makes all scores very low; the highest score belongs to a token that exists. `hidden` is added to the scores
    of hidden tokens. With `apart`, the scores of each text are lower by this number than those of the text before.
    """
    x, query, exists = draw(rng, texts, tokens, width), draw(rng, width), draw_existing(rng, texts, tokens)
    if hidden or apart:  # with multiples of 1/8 and a square width, scores are exact in float32
        x[..., 1:] += 3  # large results tolerate larger errors: near 1,000, the log of a sum is off by 3e-5
        x[..., 0] = np.round(8 * x[..., 0]) / 8 + hidden * ~exists - apart * np.arange(texts)[:, None]
        query[0], query[1:] = width**0.5, 0
    if lowest:
        ranks = np.argsort(np.argsort(~exists + rng.random(exists.shape)))
        x[..., 0], query[0] = 1 + ranks / 100, lowest * width**0.5
    return x, query, exists


PROGRAMS = (
    program(
        "train_clipped", "M184", ("losses", "parameters"), asks.ask_clipped, read_plainly, clipped,
        ([(0.1, 4, 3), (9.0, 5, 2)], [(0.05, 6), (0.2, 3, 4, 1)]), [(0.1, 3, 2), (9.0, 3, 2)],
    ),
    program(
        "ResidualStack", "M94",
        ("count_of_all_numbers", "count_of_learned_numbers", "output", "gradient_of_the_input",
         "training_equals_evaluation"),
        asks.ask_model, asks.read_model, stack,
        ([(3, 5, 6, 4, 7)], [(1, 2, 3, 2, 4), (4, 7, 5, 3, 2)]), [(2, 4, 5, 3, 6)],
    ),
    program(
        "DroppingHead", "M29",
        ("evaluation_is_the_same_twice", "evaluation", "gradient", "mean_in_training", "relative_spread_in_training",
         "training_equals_evaluation"),
        asks.ask_head, asks.read_head, head,
        ([(3, 5, 6, 4, 0.3)], [(1, 2, 7, 3, 0.2), (4, 1, 5, 2, 0.6)]), [(2, 3, 5, 4, 0.3)],
    ),
    program(
        "standardise_images", "M190", ("images",), asks.ask_function, read_plainly, draw_images,
        ([(3, 5, 4), (1, 4, 5)], [(4, 2, 7), (2, 6, 3)]), [(1, 3, 4), (3, 4, 2)],
    ),
    program(
        "loss_and_accuracy", "M192",
        ("result", "called_too_often", "graph_is_built", "gradients_stay_switched_off"),
        asks.ask_evaluation, asks.read_evaluation, evaluated,
        ([(4, 4, 3)], [(7,), (2, 5, 1, 3)]), [(4, 5, 2)],
    ),
    program(
        "pooled", "M18", ("mixed",), asks.ask_function, read_plainly, pooling,
        ([(3, 5, 4), (2, 6, 4, -20_000), (3, 5, 4, 0, 1000)],
         [(1, 7, 2), (4, 3, 6), (3, 4, 5, -30_000), (2, 6, 4, 0, 1000, 1000)]),
        [(2, 4, 3), (2, 4, 5, -20_000), (2, 4, 4, 0, 1000)],
    ),
)  # fmt: skip

TEST_ATTENTION = ExerciseInTests(
    name="test_attention",
    names=(),
    oracle=answers.test_attention,
    answers=answers,
    known=MISTAKES,
    stages={str(share): lambda rng: [] for share in (40, 60, 70, 80, 85, 90, 95, 100)},
    visible=lambda rng: [],  # the visible test uses the candidates in the notebook
    has_line=False,
    untried={"the 73 wrong attention functions that count": ("M86",)},
)

MODULES = ("math", "os")  # the set-up cell has these imports and lines in addition to NumPy and PyTorch
FOR_ANSWERS = (
    "from collections.abc import Iterable",
    "Batches = Iterable  # of pairs: images and their labels",
)
EXERCISES = {each.name: each for each in (*PROGRAMS, TEST_ATTENTION)}
check = checker(EXERCISES)

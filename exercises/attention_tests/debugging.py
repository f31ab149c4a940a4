"""Judge a student's test, which exercise 5 asks for."""

import random

import torch
from torch import Tensor

from attention_tests.compare import UNWRITTEN, WrongAnswer
from attention_tests.unwritten import unwritten

MAX_CALLS = 200  # a test may call a candidate at most this often; our test needs 42 calls
MAX_NUMBERS = 2**16  # a tensor may have at most this many numbers
DTYPES = torch.float32, torch.float64
MAX_TOKENS = 2**9  # an image may have at most this many; the scores have this number squared
MAX_HEADS = 2**8  # all images together may have at most this many heads; some candidates loop over them


def limited(attend):
    """Return the function that a test gets instead of an attention function.

    It raises only ValueError, and limits the sizes and the number of calls.
    It accepts only what the specification allows. Otherwise a test could tell right candidates from wrong ones by
    something that the specification leaves open.
    """
    calls = 0

    def candidate(q, k, v, mask=None):
        nonlocal calls
        calls += 1
        if calls > MAX_CALLS:
            raise ValueError(f"a test may call its candidate at most {MAX_CALLS} times")
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            # PyTorch's own attention function ends the process if there are no heads
            if not (isinstance(tensor, Tensor) and tensor.dtype in DTYPES and tensor.ndim == 4 and tensor.numel()):
                expected = "a tensor of float32 or float64, (B, H, N, d), without a size of 0"
                raise ValueError(f"{name} is a {_describe(tensor)}; expected {expected}")
            images, heads, tokens, _ = tensor.shape
            if tensor.numel() > MAX_NUMBERS or images * heads > MAX_HEADS or tokens > MAX_TOKENS:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, which is too large; use a smaller one")
        if not (mask is None or (isinstance(mask, Tensor) and mask.dtype == torch.bool and 2 <= mask.ndim <= 4)):
            raise ValueError(f"the mask is a {_describe(mask)}; expected None or a boolean tensor of 2, 3 or 4 axes")
        if mask is not None and mask.numel() > MAX_NUMBERS:
            raise ValueError(f"the mask has shape {tuple(mask.shape)}, which is too large; use a smaller one")
        if not q.shape == k.shape == v.shape:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (q, k, v))
            raise ValueError(f"q, k and v have shapes {shapes}; expected one shape, (B, H, N, d)")
        if not q.dtype == k.dtype == v.dtype:
            raise ValueError(f"q, k and v have types {q.dtype}, {k.dtype} and {v.dtype}; expected one type")
        masks = [(images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens)]
        if mask is not None and tuple(mask.shape) not in masks:
            expected = ", ".join(map(str, masks[:2])) + f" or {masks[2]}"
            raise ValueError(
                f"the mask has shape {tuple(mask.shape)}; for q of shape {tuple(q.shape)} expected {expected}"
            )
        try:
            return attend(*(tensor.clone() for tensor in (q, k, v)), None if mask is None else mask.clone())
        except Exception as error:
            raise ValueError(str(error)[:300]) from None

    return candidate


def _describe(value):
    return (
        f"tensor of shape {tuple(value.shape)} and {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
    )


def try_out(test, candidates):
    """Run a student's test on candidates, in random order.

    Args:
        test: The student's test.
        candidates: The right candidates by name, and the wrong ones by name.

    Returns:
        For each candidate "passes", or the error that the test raised. The right candidates come first.

    Raises:
        WrongAnswer: the test is not written.
    """
    named = {f"{kind}: {name}": one for kind, some in zip(("right", "wrong"), candidates) for name, one in some.items()}
    verdicts = dict.fromkeys(named, "passes")
    for name in random.Random().sample(list(named), len(named)):  # does not use the student's random numbers
        try:
            test(limited(named[name]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest's own errors are BaseExceptions
            if unwritten(error):
                raise WrongAnswer(f"test_attention: {UNWRITTEN}") from None
            verdicts[name] = f"{type(error).__name__}: {error}".strip()
    return verdicts


def show_trial(test, candidates):
    """Print the result of a student's test for each candidate."""
    try:
        for name, verdict in try_out(test, candidates).items():
            print(f"{name:48} {verdict[:70]}")
    except WrongAnswer as error:
        print(error)


def judge_trial(test, candidates):
    """Raise a WrongAnswer that names the candidates that a student's test judges wrongly."""
    verdicts = try_out(test, candidates)
    refused = [f"{name}: {text}" for name, text in verdicts.items() if name.startswith("right: ") and text != "passes"]
    wrong = [name for name in verdicts if name.startswith("wrong: ")]
    missed = [name for name in wrong if verdicts[name] == "passes"]
    if refused:
        question = "Is it stricter than rounding allows, or does it test something that the specification does not say?"
        more = [f"and {len(refused) - 2} more"] * (len(refused) > 2)
        errors = "\n".join([*refused[:2], *more])
        raise WrongAnswer(f"Your test refuses {len(refused)} right candidates. {question}\n{errors}")
    if missed:
        caught = f"Your test catches {len(wrong) - len(missed)} of {len(wrong)} wrong candidates so far."
        raise WrongAnswer(f"{caught} It lets these through:\n" + "\n".join(missed))

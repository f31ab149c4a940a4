"""Does the test cell that students run let right answers pass and name known mistakes, in every assignment?"""

import contextlib
import io

import pytest
from conftest import ALL, setup_of
from sample_class import BONUS

from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import Exercise, exercises_of, right_answers_of
from autograder.judge.mistake import changed_answer
from solutions import encoder, multihead

# Mistakes that need inputs of another kind: scores far apart, clipped ones among them, and -100 instead of minus infinity.
# Of attention, tests/publish/test_notebook.py says which are seen.
MISSED = {"attend": {"M2", "M3", "M14", "M18"}, "MultiHeadAttention": {"M18"}}
# What a test needs in addition to the set-up cell
GIVEN = {"to_torch": vars(multihead), "repair": {"BrokenBlock": encoder.BrokenBlock}}
EACH = [
    pytest.param(name, each, id=each.name)
    for name, stem in ALL.items()
    for each in exercises_of(stem).values()
    if name != "5_debugging"  # whose visible tests name nothing
]


def said_of(name: str, each: Exercise, function) -> AssertionError | None:
    """Run the test cell of an exercise, with nothing but the set-up cell before it; return its error, None if it passes."""
    namespace, cells = setup_of(name)
    given = GIVEN.get(each.name, {})
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(cells[f"test_{each.name}"], given | namespace | {each.name: function})
    except AssertionError as error:
        return error
    return None


@pytest.mark.parametrize(("name", "each"), EACH)
def test_visible_test_passes_right_answers(name: str, each: Exercise) -> None:
    """Is a student who is right told so, however the answer is written?"""
    for label, function in right_answers_of(ALL[name])[each.name].items():
        assert said_of(name, each, function) is None, label


# of exercise 1 another test asks more; of those of a whole model it takes seconds
@pytest.mark.parametrize(
    ("name", "each"),
    [
        pytest.param(*param.values, id=param.id, marks=() if param.values[0] == "2_multihead" else pytest.mark.deep)
        for param in EACH
        if param.values[0] != "1_attention"
    ],
)
def test_visible_test_names_mistakes(name: str, each: Exercise) -> None:
    """Is every known mistake named but those that need inputs of another kind?"""
    unnamed = []
    for mistake, function in each.mistakes().items():
        number, error = mistake.split("/")[0], said_of(name, each, function)
        if error is None or error.mistake is None:
            unnamed.append(number)
        else:
            assert error.mistake == number
        assert error is None or catalogue.MESSAGES[number] in str(error)
    assert set(unnamed) == MISSED.get(each.name, set())
    assert len(unnamed) <= 7


@pytest.mark.parametrize(("name", "each"), EACH)
def test_visible_test_says_that_nothing_is_written(name: str, each: Exercise) -> None:
    """Does a student who has not begun read that, no name of a mistake, and of a bonus no error?"""
    namespace, cells = setup_of(name)
    exec(cells[each.name], released := dict(namespace))
    error = said_of(name, each, released[each.name])
    if each.name in BONUS.values():
        assert error is None
        return
    assert str(error).endswith("not written yet.")
    assert error.mistake is None


QUOTED = [  # the examples of the pages, as words of the answers that are changed
    ("1_attention", "attention", [("weights = softmax(scores)", "weights = softmax(scores, axis=-2)")]),
    (
        "2_multihead",
        "split_heads",
        [
            (
                "x.reshape(images, tokens, num_heads, width // num_heads).transpose(1, 2)",
                "x.view(images, num_heads, tokens, width // num_heads)",
            )
        ],
    ),
    ("3_encoder", "LayerNorm", [("centred.square().mean(dim=-1, keepdim=True)", "x.var(dim=-1, keepdim=True)")]),
    ("3_encoder", "repair", None),
    (
        "4_vit",
        "patchify",
        [
            (
                "rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)",
                "images.reshape(len(images), -1, images.shape[1] * patch_size**2)",
            )
        ],
    ),
    ("4_vit", "evaluate", [("    model.eval()\n", "")]),
]


def leave_one(block):
    """Repair all but one matrix."""
    kept = block.attention.out_proj.weight.detach().clone()
    encoder.repair(block).attention.out_proj.weight.data.copy_(kept)
    return block


@pytest.mark.parametrize(("name", "exercise", "changes"), QUOTED)
def test_page_quotes_real_messages(name: str, exercise: str, changes: list | None) -> None:
    """Are the examples on the page of the exercise what the notebook says to these answers?"""
    each = exercises_of(ALL[name])[exercise]
    wrong = leave_one if changes is None else changed_answer(each.answers, exercise, changes)
    page = (ROOT / "book" / f"{name}_exercise.md").read_text(encoding="utf-8")
    assert str(said_of(name, each, wrong)) in page

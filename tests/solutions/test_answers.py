"""Are the answers right? The oracles of the hidden tests, such as PyTorch's own layers, say so; the rest is asked here."""

import numpy as np
import pytest
import torch
from attention_tests.repair import BrokenBlock
from conftest import ALL, lost
from torch import nn

from autograder.judge.exercise import Exercise, exercises_of
from solutions import attention, encoder, multihead, vit

EXERCISES = [pytest.param(each, id=each.name) for stem in ALL.values() for each in exercises_of(stem).values()]


@pytest.mark.parametrize("each", EXERCISES)
def test_answer_loses_no_point(each: Exercise) -> None:
    """Does the answer agree with its oracle, which shares nothing with it, in every case of the hidden tests?"""
    assert lost(each, getattr(each.answers, each.name)) == {}


HIDES_ALL = torch.tensor([[True, False], [False, False], [False, False]])


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (attention.attention, [np.ones((4, 3)), np.ones((5, 6)), np.ones((5, 7))], r"width 3\b.*\b6\b.*equal"),
        (
            attention.attention,
            [np.ones((3, 4)), np.ones((2, 4)), np.ones((2, 4)), HIDES_ALL.numpy()],
            "from a query: 2 of its rows are all False$",
        ),
        (
            multihead.attend,
            [*[torch.ones(1, 5, 3, 4)] * 3, torch.eye(3, dtype=torch.bool)[None, :, [0, 0, 0]]],
            "from a query: 2 of its rows are all False$",
        ),
        (multihead.MultiHeadAttention, [10, 3], r"\b10\b.*\b3\b"),
        (vit.patchify, [torch.zeros(1, 1, 28, 27), 7], "7×7 do not tile images of 28×27"),
        (
            vit.PatchEmbedding(image_size=12, patch_size=4, channels=2, width=5),
            [torch.zeros(3, 2, 12, 8)],
            r"expected images of 12×12, got \(3, 2, 12, 8\)",
        ),
    ],
)
def test_refusal_gives_the_numbers(function, arguments: list, message: str) -> None:
    """Does the error hold the sizes that do not fit, or how many rows of a mask are empty?"""
    with pytest.raises(ValueError, match=message):
        function(*arguments)


def test_numbers_keep_their_precision() -> None:
    """Does softmax stay in float32, and attend in float16 without a NaN, where exp alone would overflow?"""
    scores = np.array([[100, 300], [-200, 0]], dtype=np.float32)
    assert attention.softmax(scores).dtype == np.float32
    q, k, v = (10 * torch.randn(2, 3, 5, 4).half() for _ in range(3))
    for mask in (None, torch.tensor([[True] * 4 + [False]] * 2)):
        output, _ = multihead.attend(q, k, v, mask)
        assert output.dtype == torch.float16
        assert output.isfinite().all()


def trained(blocks: list[nn.Module]) -> tuple[float, float]:
    """Train a stack to distinguish four directions of noisy tokens; return the first loss, and the accuracy on new sequences."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(4, 48, generator=generator)

    def draw(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        labels = torch.randint(4, (count,), generator=generator)
        return [(torch.randn(count, 5, 48, generator=generator) + directions[labels][:, None], labels)]

    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(5 * 48, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first, *_ = [vit.train_epoch(model, draw(32), optimizer)[0] for _ in range(60)]
    return first, vit.evaluate(model, draw(400))[1]


def test_broken_blocks_do_not_learn_and_repaired_ones_do() -> None:
    """Does the broken block stay at chance, as the notebook says, and does the repaired one learn?

    The accuracy is that on new sequences: a broken stack may end with any training loss, NaN and 0 included.
    """
    torch.manual_seed(0)
    first, accuracy = trained([BrokenBlock(48, 4, 80) for _ in range(4)])
    assert first > 1e3
    assert accuracy < 0.5  # chance is 0.25
    first, accuracy = trained([encoder.repair(BrokenBlock(48, 4, 80)) for _ in range(4)])
    assert 0.7 < first < 4
    assert accuracy > 0.9

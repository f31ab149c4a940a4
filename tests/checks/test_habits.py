"""Does a right answer keep all points with habits that the lists of right answers lack?"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_tests.compare import judge

from autograder.judge.exercise import exercises_of, seeded
from solutions import attention, multihead, vit


def listed(function: Callable) -> Callable:
    """Return the same function with a list instead of a tuple as its result."""
    return lambda *arguments, **keywords: list(function(*arguments, **keywords))


class LayerWithList(multihead.MultiHeadAttention):
    """Returns output and weights as a list."""

    def forward(self, x, mask=None, return_weights=False):
        """Compute the new tokens."""
        found = super().forward(x, mask, return_weights)
        return list(found) if return_weights else found


def gradient_by_the_whole_jacobian(grad_output, queries, keys, values):
    """Use a matrix for each row of weights, as the derivation does."""
    weights = attention.attention(queries, keys, values)[1]
    rows = weights[..., :, None]
    jacobian = rows * np.eye(weights.shape[-1]) - rows * weights[..., None, :]  # (..., N_q, N_k, N_k)
    grad_weights = grad_output @ np.swapaxes(values, -1, -2)
    grad_scores = np.einsum("...ij,...ijk->...ik", grad_weights, jacobian) / np.sqrt(queries.shape[-1])
    return grad_scores @ keys, np.swapaxes(grad_scores, -1, -2) @ queries, np.swapaxes(weights, -1, -2) @ grad_output


def train_with_closure(model, batches, optimizer):
    """Give the optimizer a function, as its documentation shows, and read its learning rate."""
    model.train()
    loss_sum = right = count = 0
    for images, labels in batches:
        seen = []

        def closure(images=images, labels=labels, seen=seen):
            optimizer.zero_grad(set_to_none=False)
            scores = model(images)
            loss = F.cross_entropy(scores, labels)
            loss.backward()
            seen.append((loss.item(), scores))
            return loss

        assert all(group["lr"] >= 0 for group in optimizer.param_groups)
        optimizer.step(closure)
        loss, scores = seen[0]
        loss_sum, count = loss_sum + loss * len(labels), count + len(labels)
        right += (scores.argmax(1) == labels).sum().item()
    return loss_sum / count, right / count


def train_with_scaler(model, batches, optimizer):
    """Step through a disabled scaler, as recipes for mixed precision do on a CPU."""
    model.train()
    scaler, found = torch.amp.GradScaler("cpu", enabled=False), []
    for images, labels in batches:
        optimizer.zero_grad()
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(torch.tensor([loss.item() * len(labels), (scores.argmax(1) == labels).sum(), len(labels)]))
    loss, right, count = torch.stack(found).sum(0).tolist()
    return loss / count, right / count


@pytest.mark.parametrize(
    ("stem", "name", "answer"),
    [
        ("attention", "attention", listed(attention.attention)),
        ("attention", "self_attention", listed(attention.self_attention)),
        ("attention", "attention_backward", listed(attention.attention_backward)),
        ("attention", "attention_backward", gradient_by_the_whole_jacobian),
        ("multihead", "attend", listed(multihead.attend)),
        ("multihead", "MultiHeadAttention", LayerWithList),
        ("vit", "train_epoch", listed(vit.train_epoch)),
        ("vit", "train_epoch", train_with_closure),
        ("vit", "train_epoch", train_with_scaler),
        ("vit", "evaluate", listed(vit.evaluate)),
    ],
)
def test_right_answer_keeps_all_points(stem: str, name: str, answer: Callable) -> None:
    """Do answers with a list, the whole Jacobian, a closure and a scaler pass the visible and hidden tests?"""
    each = exercises_of(stem)[name]
    judge(each.of_arrays(answer), each.names, each.visible_cases(), {})
    with seeded(1):
        assert {stage: str(error) for stage, error in each.failures(answer, 1).items()} == {}

"""The programs of exercise 5 without their faults. `checks/debugging/mistakes.py` adds the fault that students get."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batches = Iterable[tuple[Tensor, Tensor]]

# ------------------------------------------------------------------------------------------------- stays near chance


def train_clipped(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, longest: float) -> float:
    """Train for one epoch with gradient clipping.

    Args:
        model: Maps images to logits. It is put into training mode.
        batches: Pairs of images and labels.
        optimizer: It has the model's parameters.
        longest: The limit for the norm of the whole gradient. A longer gradient is scaled down to this norm.

    Returns:
        The mean loss over all images. Each batch is measured before its step.
    """
    model.train()
    total = count = 0
    for images, labels in batches:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), longest)
        optimizer.step()
        total += loss.item() * len(labels)
        count += len(labels)
    return total / count


# -------------------------------------------------------------------------------------------- learns, but not enough


class ResidualStack(nn.Module):
    """Classify with a stack of linear layers. Each layer adds its output to the residual stream.

    Args:
        inputs: The number of inputs.
        width: D, the width of the stream.
        depth: The number of layers that add to the stream.
        classes: The number of classes.
    """

    def __init__(self, *, inputs: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, (B, classes), for x of shape (B, inputs)."""
        x = self.embedding(x)  # (B, D)
        for layer in self.layers:
            x = x + F.gelu(layer(x))  # (B, D)
        return self.head(x)  # (B, classes)


# ------------------------------------------------------------------------------ right in training, wrong in evaluation


class DroppingHead(nn.Module):
    """Classify by the mean of the tokens. In training, dropout acts on this mean.

    Args:
        width: D, the width of a token.
        classes: The number of classes.
        dropout: The share that is dropped.
    """

    def __init__(self, *, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, (B, classes), for tokens of shape (B, N, D)."""
        mean = tokens.mean(dim=1)  # (B, D)
        return self.linear(F.dropout(mean, self.dropout, training=self.training))  # (B, classes)


# ----------------------------------------------------------------------------------------------- right for one image


def standardise_images(images: Tensor) -> Tensor:
    """Give each image mean 0 and standard deviation 1.

    Args:
        images: (B, H, W). Every image has pixels that differ.

    Returns:
        The images, (B, H, W), each standardised by its own pixels. The variance is divided by H · W, not H · W - 1.
    """
    centred = images - images.mean(dim=(1, 2), keepdim=True)  # (B, H, W)
    return centred / centred.square().mean(dim=(1, 2), keepdim=True).sqrt()  # (B, H, W)


# -------------------------------------------------------------------------------------------------------------- slow


def loss_and_accuracy(model: nn.Module, batches: Batches) -> tuple[float, float]:
    """Measure loss and accuracy of a model in evaluation.

    Args:
        model: Maps images to logits.
        batches: Pairs of images and labels, of any size.

    Returns:
        The mean loss, and the share of the images whose largest logit is the logit of their label.
    """
    model.eval()
    loss = right = count = 0
    with torch.no_grad():
        for images, labels in batches:
            logits = model(images)
            loss += F.cross_entropy(logits, labels, reduction="sum").item()
            right += (logits.argmax(dim=-1) == labels).sum().item()
            count += len(labels)
    return loss / count, right / count


# --------------------------------------------------------------------------------------------- wrong only with a mask


def pooled(tokens: Tensor, query: Tensor, exists: Tensor) -> Tensor:
    """Mix the existing tokens of each text by how well they match a query.

    Args:
        tokens: (B, N, D).
        query: (D,).
        exists: Boolean, (B, N). At least one token of each text exists.

    Returns:
        The mixed tokens, (B, D). The weights are the softmax of the scaled scores of the existing tokens.
    """
    scores = tokens @ query / query.shape[-1] ** 0.5  # (B, N)
    weights = scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)  # (B, N)
    return torch.einsum("bn,bnd->bd", weights, tokens)  # (B, D)

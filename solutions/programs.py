"""The programs of exercise 5 without their faults. `checks/debugging/mistakes.py` adds the fault that students get."""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batches = Iterable[tuple[Tensor, Tensor]]

# ------------------------------------------------------------------------------------------------- stays near chance


def train_shuffled(
    model: nn.Module, images: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer, order: Tensor, size: int
) -> float:
    """Train for one epoch, on the images in a given order.

    Args:
        model: Maps images to logits. It is put into training mode.
        images: (M, ...).
        labels: (M,).
        optimizer: It has the model's parameters.
        order: (M,), the numbers 0 … M - 1 in the order in which the model gets the images.
        size: The size of a batch. The last batch may be smaller.

    Returns:
        The mean loss over all images. Each batch is measured before its step.
    """
    model.train()
    total = 0.0
    for start in range(0, len(order), size):
        chosen = order[start : start + size]  # (size,)
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    return total / len(order)


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


def learning_rate(step: int, steps_per_epoch: int, epochs: int, highest: float) -> float:
    """Compute a learning rate that falls along half a cosine, from the first step of a training to the last.

    Args:
        step: The number of steps before this one, in all epochs together.
        steps_per_epoch: The number of steps in an epoch.
        epochs: The number of epochs.
        highest: The learning rate of the first step.

    Returns:
        The learning rate of this step. It is 0 for all steps after the training.
    """
    done = step / (epochs * steps_per_epoch)
    return highest * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


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


class Standardise(nn.Module):
    """Give each component mean 0 and variance 1.

    Training uses the mean and the variance of the batch. Evaluation uses the buffers `mean` and `variance`, which
    training has updated. Evaluation does not change them. The variance of a batch of B is divided by B, not by B - 1.

    Args:
        width: D, the number of components.
        momentum: In training, the buffers move by this share towards the mean and the variance of the batch.
    """

    def __init__(self, *, width: int, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return x, (B, D), standardised."""
        if not self.training:
            return (x - self.mean) / self.variance.sqrt()  # (B, D)
        mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)  # (D,), (D,)
        self.mean.lerp_(mean.detach(), self.momentum)
        self.variance.lerp_(variance.detach(), self.momentum)
        return (x - mean) / variance.sqrt()  # (B, D)


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


def pack_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the width of every token into heads, and merge images and heads into one axis, as torch.bmm needs it.

    Args:
        x: (B, N, D).
        num_heads: H, a divisor of D.

    Returns:
        (B · H, N, D / H): first all heads of image 0, then all heads of image 1, and so on.
    """
    batch, tokens, width = x.shape
    heads = x.reshape(batch, tokens, num_heads, width // num_heads)  # (B, N, H, d)
    return heads.permute(0, 2, 1, 3).reshape(batch * num_heads, tokens, -1)  # (B · H, N, d)


# -------------------------------------------------------------------------------------------------------------- slow


def similarities(tokens: Tensor) -> Tensor:
    """Compare every token with every token of its image by the cosine of the angle between them.

    Args:
        tokens: (B, N, D). No token is zero.

    Returns:
        The cosines, (B, N, N).
    """
    unit = tokens / tokens.norm(dim=-1, keepdim=True)  # (B, N, D)
    return unit @ unit.mT  # (B, N, N)


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


def mean_of_existing(tokens: Tensor, exists: Tensor) -> Tensor:
    """Compute the mean of the existing tokens of each text; the other tokens are padding.

    Args:
        tokens: (B, N, D).
        exists: Boolean, (B, N). At least one token of each text exists.

    Returns:
        The means, (B, D).
    """
    exists = exists[..., None]  # (B, N, 1)
    return (tokens * exists).sum(dim=1) / exists.sum(dim=1)  # (B, D)


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

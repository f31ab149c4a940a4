"""The programs of exercise 5, as they should be. Students get them with a fault, which `checks/debugging/mistakes.py` makes."""

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
        model: From images to logits; it is put into training mode.
        images: (M, ...).
        labels: (M,).
        optimizer: Of the model's parameters.
        order: (M,), the numbers 0 … M - 1 in the order in which the images are to come.
        size: Of a batch; the last one may be smaller.

    Returns:
        The mean loss of all images, each as the model met it.
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
    """Train for one epoch; a gradient that is longer than it may be is made as short.

    Args:
        model: From images to logits; it is put into training mode.
        batches: Pairs of images and labels.
        optimizer: Of the model's parameters.
        longest: What the norm of all gradients together may be.

    Returns:
        The mean loss of all images, each as the model met it.
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


def initialise(model: nn.Module) -> nn.Module:
    """Draw the matrices of a model again, so that activations keep their size: n inputs, standard deviation 1 / √n.

    Args:
        model: Its linear layers, and no others, are changed in place; their biases become 0.

    Returns:
        The same model.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
    return model


# ----------------------------------------------------------------------------------------------- learns, but not enough


class RowClassifier(nn.Module):
    """Read an image row by row, as tokens, and classify it.

    Args:
        rows: Of an image.
        pixels: Of a row.
        width: D, of a token.
        classes: How many there are.
    """

    def __init__(self, *, rows: int, pixels: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(pixels, width)
        self.position_embedding = nn.Parameter(torch.randn(rows, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, (B, classes), of images of shape (B, rows, pixels)."""
        tokens = self.embedding(images) + self.position_embedding  # (B, rows, D)
        return self.head(self.block(tokens).mean(dim=1))  # (B, classes)


class ResidualStack(nn.Module):
    """Classify by a stack of linear layers, each of which adds something to the stream.

    Args:
        inputs: Numbers of an input.
        width: D, of the stream.
        depth: How many layers add to it.
        classes: How many there are.
    """

    def __init__(self, *, inputs: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, (B, classes), of x of shape (B, inputs)."""
        x = self.embedding(x)  # (B, D)
        for layer in self.layers:
            x = x + F.gelu(layer(x))  # (B, D)
        return self.head(x)  # (B, classes)


def learning_rate(step: int, steps_per_epoch: int, epochs: int, highest: float) -> float:
    """Let the learning rate fall along half a cosine, from the first step of a training to the last.

    Args:
        step: How many steps were made before this one, in all epochs together.
        steps_per_epoch: How many an epoch has.
        epochs: How many there are.
        highest: The learning rate of the first step.

    Returns:
        The learning rate of this step: 0 from the first step behind the last on.
    """
    done = step / (epochs * steps_per_epoch)
    return highest * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


# ------------------------------------------------------------------------------ right in training, wrong in evaluation


class DroppingHead(nn.Module):
    """Classify tokens by their mean, of which dropout drops a part in training.

    Args:
        width: D, of a token.
        classes: How many there are.
        dropout: The share that is dropped.
    """

    def __init__(self, *, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, (B, classes), of tokens of shape (B, N, D)."""
        mean = tokens.mean(dim=1)  # (B, D)
        return self.linear(F.dropout(mean, self.dropout, training=self.training))  # (B, classes)


class Standardise(nn.Module):
    """Bring each feature to mean 0 and variance 1: in training by the batch, in evaluation by what training has seen.

    Args:
        width: D, the number of features.
        momentum: How far, in training, the buffers `mean` and `variance` move towards those of the batch.

    A batch of B has the variance over B, not B - 1. Evaluation changes nothing.
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


class SkippedBranch(nn.Module):
    """Add a branch to a stream; in training, skip it for a share of the images (stochastic depth).

    What is not skipped grows, so that the mean over many images is that of evaluation, where nothing is skipped.

    Args:
        skipped: The share of the images.
    """

    def __init__(self, *, skipped: float) -> None:
        super().__init__()
        self.skipped = skipped

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return the new stream, (B, N, D); x and branch are (B, N, D)."""
        if self.training:
            kept = torch.rand(len(x), 1, 1) >= self.skipped  # (B, 1, 1)
            branch = branch * kept / (1 - self.skipped)  # (B, N, D)
        return x + branch  # (B, N, D)


# ----------------------------------------------------------------------------------------------- right for one image


def cut_patches(images: Tensor, size: int) -> Tensor:
    """Cut images into square patches, row by row.

    Args:
        images: (B, H, W).
        size: Of a patch, in pixels; divides H and W.

    Returns:
        The patches, (B, N, size²), the pixels of each row by row.
    """
    batch, height, width = images.shape
    cut = images.reshape(batch, height // size, size, width // size, size)  # (B, rows, size, columns, size)
    return cut.permute(0, 1, 3, 2, 4).reshape(batch, -1, size * size)  # (B, N, size²)


def standardise_images(images: Tensor) -> Tensor:
    """Bring each image to mean 0 and standard deviation 1.

    Args:
        images: (B, H, W); none has one colour alone.

    Returns:
        The images, (B, H, W), each standardised by its own pixels; the deviation is that over H · W, not H · W - 1.
    """
    centred = images - images.mean(dim=(1, 2), keepdim=True)  # (B, H, W)
    return centred / centred.square().mean(dim=(1, 2), keepdim=True).sqrt()  # (B, H, W)


def pack_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the width of every token into heads, and join images and heads into one axis, as torch.bmm wants it.

    Args:
        x: (B, N, D).
        num_heads: H; divides D.

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
        tokens: (B, N, D); none is zero.

    Returns:
        The cosines, (B, N, N).
    """
    unit = tokens / tokens.norm(dim=-1, keepdim=True)  # (B, N, D)
    return unit @ unit.mT  # (B, N, N)


def mean_loss(model: nn.Module, batches: Batches) -> float:
    """Measure the loss of a model in evaluation.

    Args:
        model: From images to logits.
        batches: Pairs of images and labels, of any size.

    Returns:
        The mean loss over all images.
    """
    model.eval()
    losses = []
    with torch.no_grad():
        for images, labels in batches:
            losses.append(F.cross_entropy(model(images), labels, reduction="none"))
    return torch.cat(losses).mean().item()


def loss_and_accuracy(model: nn.Module, batches: Batches) -> tuple[float, float]:
    """Measure loss and accuracy of a model in evaluation.

    Args:
        model: From images to logits.
        batches: Pairs of images and labels, of any size.

    Returns:
        The mean loss, and the share of images whose largest logit is that of their label.
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
    """Take the mean of the tokens of each text that exist; the others are padding.

    Args:
        tokens: (B, N, D).
        exists: Boolean, (B, N); at least one token of each text exists.

    Returns:
        The means, (B, D).
    """
    exists = exists[..., None]  # (B, N, 1)
    return (tokens * exists).sum(dim=1) / exists.sum(dim=1)  # (B, D)


def pooled(tokens: Tensor, query: Tensor, exists: Tensor) -> Tensor:
    """Mix the tokens of each text that exist by how well they match a query.

    Args:
        tokens: (B, N, D).
        query: (D,).
        exists: Boolean, (B, N); at least one token of each text exists.

    Returns:
        The mixed tokens, (B, D): weights are the softmax of the scaled scores of the tokens that exist.
    """
    scores = tokens @ query / query.shape[-1] ** 0.5  # (B, N)
    weights = scores.masked_fill(~exists, -torch.inf).softmax(dim=-1)  # (B, N)
    return torch.einsum("bn,bnd->bd", weights, tokens)  # (B, D)


def loss_of_existing(logits: Tensor, labels: Tensor, exists: Tensor) -> Tensor:
    """Take the mean cross-entropy of the tokens that exist.

    Args:
        logits: (B, N, classes).
        labels: (B, N); 0 where a token is padding.
        exists: Boolean, (B, N); at least one token exists.

    Returns:
        The mean loss over the tokens of all texts that exist, of shape ().
    """
    losses = F.cross_entropy(logits.mT, labels, reduction="none")  # (B, N)
    return losses[exists].mean()  # ()

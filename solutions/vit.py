"""A Vision Transformer in PyTorch: patches, patch embedding, the model, an epoch of training, and attention rollout."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, and write the pixels of each patch in a row.

    The patches are in reading order: left to right, then top to bottom. The pixels of a patch are in the order
    (C, P, P): channel by channel, and in a channel row by row.

    Args:
        images: (B, C, height, width).
        patch_size: P, in pixels. It divides height and width.

    Returns:
        The patches, (B, N, C·P·P), where N = (height / P) · (width / P).

    Raises:
        ValueError: P does not divide the height or the width.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    height, width = images.shape[-2:]
    if height % patch_size or width % patch_size:
        raise ValueError(f"patches of {patch_size}×{patch_size} do not tile images of {height}×{width}")
    rows = images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))  # (B, C, rows, P, columns, P)
    return rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, C·P·P)


class PatchEmbedding(nn.Module):
    """Cut images into patches and project each patch to a token, with a convolution whose stride is its kernel size.

    It computes the same as `patchify` and one linear layer for all patches.

    Args:
        image_size: Height and width of an image, in pixels.
        patch_size: P, in pixels. It divides the image size.
        channels: C, the number of channels of an image.
        width: D, the width of a token.

    Attributes:
        projection: nn.Conv2d from C to D channels.

    Raises:
        ValueError: P does not divide the image size; or forward gets images of another size.

    Source: Dosovitskiy et al. 2021, eq. 1.
    """

    def __init__(self, *, image_size: int, patch_size: int, channels: int, width: int) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"patches of {patch_size}×{patch_size} do not tile images of {image_size}×{image_size}")
        self.image_size = image_size
        self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images.

        Args:
            images: (B, C, image size, image size). forward does not change them.

        Returns:
            The tokens, (B, N, D), in the reading order of the patches.
        """
        if images.shape[-2:] != (self.image_size, self.image_size):
            raise ValueError(f"expected images of {self.image_size}×{self.image_size}, got {tuple(images.shape)}")
        return self.projection(images).flatten(2).transpose(1, 2)  # (B, D, rows, columns) -> (B, N, D)


class Encoder(nn.Module):
    """Stack PyTorch's pre-norm encoder blocks. This class is given: you wrote your own in exercise 3.

    Args:
        depth: The number of blocks.
        width: D, the width of a token.
        num_heads: H, a divisor of D.
        hidden_width: The hidden width of the feed-forward networks.
        dropout: The dropout of every block.

    Attributes:
        blocks: nn.Sequential of nn.TransformerEncoderLayers. Each has its own parameters.
        norm: nn.LayerNorm after the last block.
    """

    def __init__(self, depth: int, width: int, num_heads: int, hidden_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        settings = dict(dropout=dropout, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(width, num_heads, hidden_width, **settings) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Send tokens, (B, N, D), through all blocks. Return the new tokens, (B, N, D), normalised."""
        return self.norm(self.blocks(x))


class ViT(nn.Module):
    """A Vision Transformer: it classifies images.

    A class token comes before the tokens of the patches. Position embeddings are added to all tokens. An encoder lets
    the tokens look at each other. The classifier, `head`, reads the class token.

    Args:
        image_size: Height and width of an image, in pixels.
        patch_size: P, in pixels. It divides the image size.
        channels: C, the number of channels of an image.
        num_classes: The number of classes.
        width: D, the width of a token.
        depth: The number of encoder blocks.
        num_heads: H, a divisor of D.
        hidden_width: The hidden width of the feed-forward networks.
        dropout: The share of the numbers that is set to 0 in training. Dropout acts on the tokens after their positions
            are added, and in the encoder.

    Attributes:
        patch_embedding: PatchEmbedding.
        class_token: Parameter, (1, 1, D).
        position_embedding: Parameter, (1, 1 + N, D). The first one belongs to the class token.
        encoder: Encoder.
        head: nn.Linear from D to the number of classes.

    Source: Dosovitskiy et al. 2021, eqs. 1 to 4.
    """

    def __init__(
        self,
        *,
        image_size: int = 28,
        patch_size: int = 7,
        channels: int = 1,
        num_classes: int = 10,
        width: int = 64,
        depth: int = 6,
        num_heads: int = 8,
        hidden_width: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.patch_embedding = PatchEmbedding(
            image_size=image_size, patch_size=patch_size, channels=channels, width=width
        )
        patches = (image_size // patch_size) ** 2
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))  # (1, 1, D)
        self.position_embedding = nn.Parameter(0.02 * torch.randn(1, 1 + patches, width))  # (1, 1 + N, D)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(depth, width, num_heads, hidden_width, dropout)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Classify images.

        Args:
            images: (B, C, image size, image size). forward does not change them.

        Returns:
            The logits, before any softmax: (B, number of classes).
        """
        patches = self.patch_embedding(images)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        tokens = torch.cat([class_token, patches], dim=1) + self.position_embedding  # (B, 1 + N, D)
        tokens = self.encoder(self.dropout(tokens))  # (B, 1 + N, D)
        return self.head(tokens[:, 0])  # (B, number of classes)


def train_epoch(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer
) -> tuple[float, float]:
    """Train on every batch once, by cross-entropy.

    Args:
        model: Maps images to logits. After the epoch, it is in training mode.
        batches: Pairs of images, (B, C, height, width), and their labels, (B,), on the model's device. The last batch
            may be smaller. They come from any iterable, such as a generator, which can be read only once.
        optimizer: It has the model's parameters, and takes one step per batch.

    Returns:
        The mean loss and the accuracy, from 0 to 1, over all images. Each batch is measured before its step.
    """
    model.train()
    loss_sum, right, count = 0.0, 0, 0
    for images, labels in batches:
        scores = model(images)  # (B, number of classes)
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.detach() * len(labels)  # the mean of a smaller batch must count less
        right += (scores.argmax(dim=-1) == labels).sum()
        count += len(labels)
    return float(loss_sum) / count, float(right) / count


def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Measure a model without changing it.

    Args:
        model: Maps images to logits. Its parameters, their gradients and its mode do not change, and no graph is built.
        batches: Pairs of images, (B, C, height, width), and their labels, (B,), on the model's device. The last batch
            may be smaller. They come from any iterable, such as a generator, which can be read only once.

    Returns:
        The mean loss and the accuracy, from 0 to 1, over all images, without dropout.
    """
    training = model.training
    model.eval()
    loss_sum, right, count = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in batches:
            scores = model(images)  # (B, number of classes)
            loss_sum += F.cross_entropy(scores, labels, reduction="sum")
            right += (scores.argmax(dim=-1) == labels).sum()
            count += len(labels)
    model.train(training)
    return float(loss_sum) / count, float(right) / count


def attention_maps(model: ViT, images: Tensor) -> Tensor:
    """Return the attention weights of every block and head. This function is given.

    Args:
        model: A ViT whose `encoder` is an `Encoder` (see above).
        images: (B, C, image size, image size).

    Returns:
        The weights, (depth, B, H, 1 + N, 1 + N); each row sums to 1.
    """
    entered, training = [], model.training
    hooks = [
        block.register_forward_pre_hook(lambda _, given: entered.append(given[0])) for block in model.encoder.blocks
    ]
    model.eval()
    with torch.no_grad():
        model(images)
        maps = []
        for block, tokens in zip(model.encoder.blocks, entered):
            x = block.norm1(tokens)  # (B, 1 + N, D)
            maps.append(block.self_attn(x, x, x, average_attn_weights=False)[1])  # (B, H, 1 + N, 1 + N)
    for hook in hooks:
        hook.remove()
    model.train(training)
    return torch.stack(maps)  # (depth, B, H, 1 + N, 1 + N)


def attention_rollout(weights: Tensor) -> Tensor:
    """Follow attention from the class token back through all blocks to the input tokens.

    In each block the heads are averaged. Half of each new token comes from attention, half from the residual stream.

    Args:
        weights: (depth, B, H, 1 + N, 1 + N), from the first block to the last. Each row sums to 1. Token 0 is the class
            token.

    Returns:
        How much each input token contributes to the class token, (B, 1 + N). Each row sums to 1.

    Source: Abnar and Zuidema 2020, section 3.
    """
    mixing = (weights.mean(dim=2) + torch.eye(weights.shape[-1]).to(weights)) / 2  # (depth, B, 1 + N, 1 + N)
    rollout = mixing[0]  # (B, 1 + N, 1 + N)
    for block in mixing[1:]:
        rollout = block @ rollout  # (B, 1 + N, 1 + N): a later block mixes the results of earlier blocks
    return rollout[:, 0]  # (B, 1 + N)

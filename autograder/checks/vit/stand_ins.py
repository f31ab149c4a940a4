"""Right answers to exercise 4 by PyTorch's own functions.

In the sandbox, they replace the student's answers where another answer uses these. So this file imports only what students
have too.
"""

import torch.nn.functional as F
from torch import nn


def refuse_untiled(images, patch_size):
    """Return images that patches of this size tile; raise an error for others."""
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError(f"{patch_size} does not divide {tuple(images.shape[2:])}")
    return images


def patchify(images, patch_size):
    """Return the pixels of each patch."""
    return F.unfold(refuse_untiled(images, patch_size), patch_size, stride=patch_size).mT


class PatchEmbedding(nn.Module):
    """Cuts patches with `F.unfold`, and projects them with the weight of an `nn.Conv2d` as a matrix."""

    def __init__(self, *, image_size, patch_size, channels, width):
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"{patch_size} does not divide {image_size}")
        self.image_size, self.patch_size = image_size, patch_size
        self.projection = nn.Conv2d(channels, width, patch_size, patch_size)

    def forward(self, images):
        """Return the tokens."""
        if images.shape[-2:] != (self.image_size, self.image_size):
            raise ValueError(f"expected images of {self.image_size}×{self.image_size}, got {tuple(images.shape)}")
        columns = F.unfold(images, self.patch_size, stride=self.patch_size)  # (B, C·P·P, N)
        return F.linear(columns.mT, self.projection.weight.flatten(1), self.projection.bias)  # (B, N, D)

"""The checks of assignment 4_vit: patchify, PatchEmbedding, ViT, train_epoch, evaluate, attention_rollout.

For each exercise, in this order: the oracle, the answer as steps that a mutant replaces, the mutants,
correct answers written differently, and the cases. The oracles are `F.unfold`, torchvision's VisionTransformer with copied
parameters, loops over single images, and products of a row with matrices.
"""

import contextlib
import copy
from functools import partial, reduce

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import VisionTransformer

from autograder.checks.vit import layers, probes
from autograder.judging.exercise import Case, ExerciseInTorch, Mutant, checker
from solutions import vit as answers
from solutions.vit import Encoder

torch.set_num_threads(
    1
)  # tensors are small, and submissions are graded side by side: threads would wait for each other


# --------------------------------------------------------------------------------------------------------- patchify


def refuse_untiled(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError(f"{patch_size} does not divide {tuple(images.shape[2:])}")
    return images


def oracle_patchify(images, patch_size):
    return F.unfold(refuse_untiled(images, patch_size), patch_size, stride=patch_size).mT


def grid_of(images, size):
    """Cut both sides into patches: (B, C, rows, P, columns, P)."""
    return images.unflatten(3, (-1, size)).unflatten(2, (-1, size))


def joined(patches):
    """Join (B, rows, columns, three axes of pixels) to (B, N, C·P·P)."""
    return patches.flatten(3).flatten(1, 2)


def patchify_from(
    change=refuse_untiled,
    grid=grid_of,
    order=(0, 2, 4, 1, 3, 5),
    join=joined,
    whole=None,
    finish=lambda patches: patches,
):
    def patchify(images, patch_size):
        images = change(images, patch_size)
        if whole is not None:
            return finish(whole(images, patch_size))
        return finish(join(grid(images, patch_size).permute(order)))

    return patchify


def centred_in_place(images, size):
    images -= images.mean()
    return refuse_untiled(images, size)


def cut_off(images, size):
    """As `F.pad` with negative amounts does."""
    return F.pad(images, (0, -(images.shape[3] % size), 0, -(images.shape[2] % size)))


def padded(images, size):
    return F.pad(images, (0, -images.shape[3] % size, 0, -images.shape[2] % size))


def last_row_cut_off(images, size):
    images = refuse_untiled(images, size)
    return F.pad(images, (0, 0, 0, -size)) if images.shape[2] > size else images


def cut_off_in_a_row(images, size):
    """Pixels in one row, cropped to three quarters of the patches, as in the course work."""
    length = images[0, 0].numel() // size**2
    kept = max(1, length * 3 // 4) * images.shape[1] * size**2
    return F.pad(images.flatten(1), (0, kept - images[0].numel())).reshape(len(images), -1, images.shape[1] * size**2)


def overlapping(images, size):
    return F.unfold(images, size, stride=max(1, size // 2)).mT


def with_border(images, size):
    return F.unfold(images, size, stride=size, padding=size).mT


def unjoined_by_unfold(images, size):
    """Tensor.unfold cuts windows: (B, C, rows, columns, P, P)."""
    return images.unfold(2, size, size).unfold(3, size, size)


def patches_by_row(patches):
    return patches.flatten(3)


PATCHIFY_MUTANTS = (
    Mutant("M15", change=centred_in_place),
    Mutant("M42", whole=lambda images, size: images.flatten(1).unsqueeze(1)),
    Mutant("M43", change=cut_off),
    Mutant("M43", change=last_row_cut_off),
    Mutant("M43", whole=cut_off_in_a_row),
    Mutant("M44", whole=lambda images, size: images.reshape(len(images), -1, images.shape[1] * size**2)),
    Mutant(
        "M44",
        grid=lambda images, size: images.unfold(2, size, size).unfold(3, size, size),
        order=(0, 1, 2, 3, 4, 5),
        join=lambda x: x.reshape(len(x), -1, x.shape[1] * x.shape[4] * x.shape[5]),
    ),
    Mutant("M45", order=(0, 2, 4, 3, 5, 1)),  # (P, P, C)
    Mutant("M45", order=(0, 2, 4, 3, 1, 5)),
    Mutant("M45", order=(0, 2, 4, 1, 5, 3)),  # each patch transposed
    Mutant("M45", order=(0, 2, 4, 5, 3, 1)),
    Mutant("M123", change=padded),
    Mutant("M124", order=(0, 4, 2, 1, 3, 5)),
    Mutant("M124", order=(0, 4, 2, 1, 5, 3)),  # the whole image transposed
    Mutant("M124", order=(0, 4, 2, 3, 5, 1)),
    Mutant("M125", finish=lambda patches: patches.mT),
    Mutant("M125", finish=lambda patches: patches.mT.reshape(patches.shape)),
    Mutant("M126", order=(0, 1, 2, 4, 3, 5), join=lambda x: x.flatten(4).flatten(1, 3)),
    Mutant("M126", order=(0, 2, 4, 1, 3, 5), join=lambda x: x.flatten(4).flatten(1, 3)),
    Mutant("M126", order=(0, 1, 2, 4, 3, 5), join=lambda x: x.flatten(4).flatten(2, 3)),
    Mutant("M127", join=lambda x: x),
    Mutant("M127", join=lambda x: x.flatten(1, 2)),
    Mutant("M127", join=patches_by_row),
    Mutant(
        "M128",
        grid=lambda images, size: images.unflatten(3, (size, -1)).unflatten(2, (size, -1)),
        order=(0, 3, 5, 1, 2, 4),
    ),
    Mutant("M129", whole=overlapping),
    Mutant("M129", whole=with_border),
    Mutant("M130", finish=lambda patches: patches.transpose(0, 1)),
    Mutant("M130", finish=lambda patches: patches.transpose(0, 1).reshape(patches.shape)),
)


def patchify_by_permute(images, patch_size):
    batch, channels, height, width = images.shape
    if height % patch_size != 0 or width % patch_size != 0:
        raise ValueError("patches do not tile the images")
    rows, columns = height // patch_size, width // patch_size
    x = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, channels * patch_size * patch_size)


def patchify_by_transposes(images, patch_size):
    batch, channels, height, width = refuse_untiled(images, patch_size).shape
    x = images.view(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    x = x.transpose(1, 2).transpose(2, 4).transpose(3, 4)  # (B, rows, columns, C, P, P)
    return x.contiguous().view(batch, -1, channels * patch_size**2)


def patchify_in_loops(images, patch_size):
    refuse_untiled(images, patch_size)
    patches = []
    for top in range(0, images.shape[2], patch_size):
        for left in range(0, images.shape[3], patch_size):
            patches.append(images[:, :, top : top + patch_size, left : left + patch_size].flatten(1))
    return torch.stack(patches, dim=1)


def patchify_pixel_by_pixel(images, patch_size):
    refuse_untiled(images, patch_size)
    batch, channels, height, width = images.shape
    patches = torch.zeros(batch, height * width // patch_size**2, channels * patch_size**2, dtype=images.dtype)
    for channel in range(channels):
        for row in range(height):
            for column in range(width):
                patch = row // patch_size * (width // patch_size) + column // patch_size
                pixel = (channel * patch_size + row % patch_size) * patch_size + column % patch_size
                patches[:, patch, pixel] = images[:, channel, row, column]
    return patches


def patchify_by_tensor_unfold(images, patch_size):
    refuse_untiled(images, patch_size)
    windows = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)


def patchify_by_chunks(images, patch_size):
    refuse_untiled(images, patch_size)
    rows = images.chunk(images.shape[2] // patch_size, dim=2)
    patches = [patch for row in rows for patch in row.chunk(images.shape[3] // patch_size, dim=3)]
    return torch.cat([patch.reshape(len(images), 1, -1) for patch in patches], dim=1)


def patchify_by_convolution(images, patch_size):
    """A convolution whose kernels are the rows of the unit matrix."""
    refuse_untiled(images, patch_size)
    size = images.shape[1] * patch_size**2
    kernels = torch.eye(size, dtype=images.dtype).view(size, images.shape[1], patch_size, patch_size)
    return F.conv2d(images, kernels, stride=patch_size).flatten(2).transpose(1, 2)


def patchify_by_einsum(images, patch_size):
    batch, channels, height, width = refuse_untiled(images, patch_size).shape
    x = images.reshape(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    return torch.einsum("bcrpqs->brqcps", x).reshape(batch, -1, channels * patch_size**2)


def patchify_image_by_image(images, patch_size):
    return torch.stack([patchify_by_permute(image[None], patch_size)[0] for image in images])


def patchify_by_numpy(images, patch_size):
    array = refuse_untiled(images, patch_size).numpy()
    rows = [
        np.split(row, array.shape[3] // patch_size, axis=3) for row in np.split(array, array.shape[2] // patch_size, 2)
    ]
    return torch.from_numpy(np.stack([p.reshape(len(array), -1) for row in rows for p in row], axis=1))


def patchify_by_pixel_unshuffle(images, patch_size):
    """pixel_unshuffle gives (B, C·P·P, rows, columns)."""
    return F.pixel_unshuffle(refuse_untiled(images, patch_size), patch_size).flatten(2).permute(0, 2, 1)


CORRECT_PATCHIFY = {
    "answer": answers.patchify,
    "reshape and permute": patchify_by_permute,
    "transposes": patchify_by_transposes,
    "loops": patchify_in_loops,
    "pixel by pixel": patchify_pixel_by_pixel,
    "Tensor.unfold": patchify_by_tensor_unfold,
    "chunks": patchify_by_chunks,
    "convolution": patchify_by_convolution,
    "einsum": patchify_by_einsum,
    "image by image": patchify_image_by_image,
    "NumPy": patchify_by_numpy,
    "pixel_unshuffle": patchify_by_pixel_unshuffle,
    "nn.Unfold": lambda images, patch_size: nn.Unfold(patch_size, stride=patch_size)(
        refuse_untiled(images, patch_size)
    ).transpose(1, 2),
    "steps": patchify_from(),
    "oracle": oracle_patchify,
}


def patchify_one_channel_cases(rng):
    """The first two have as many patches as pixels in each: there mistakes keep the shape."""
    return [
        Case("as many patches as pixels", ("patches", rng.normal(size=(3, 1, 4, 4)), 2)),
        Case("4 images of 6×6, patches of 3×3", ("patches", rng.normal(size=(4, 1, 6, 6)), 3)),
        Case("2 images of 12×12, patches of 4×4", ("patches", rng.normal(size=(2, 1, 12, 12)), 4)),
        Case("the image is one patch", ("patches", rng.normal(size=(2, 1, 3, 3)), 3)),
    ]


def patchify_channel_cases(rng):
    return [
        Case("3 channels", ("patches", rng.normal(size=(2, 3, 12, 12)), 4)),
        Case("2 channels, 5 images", ("patches", rng.normal(size=(5, 2, 6, 6)), 2)),
        Case("one image, pixels as patches", ("patches", rng.normal(size=(1, 3, 4, 4)), 1)),
    ]


def patchify_edge_cases(rng):
    return [
        Case("6×10, wider than high", ("patches", rng.normal(size=(3, 2, 6, 10)), 2)),
        Case("12×4, higher than wide", ("patches", rng.normal(size=(2, 1, 12, 4)), 4)),
        Case("patches that do not tile the height", ("patches", rng.normal(size=(2, 1, 5, 4)), 2), "M123"),
        Case("patches that do not tile the width", ("patches", rng.normal(size=(2, 3, 6, 8)), 3), "M123"),
    ]


def patchify_visible_cases(rng):
    numbered = np.arange(16.0).reshape(1, 1, 4, 4)
    return [
        Case("pixels 0 … 15, patches of 2×2", ("patches", numbered, 2)),
        Case("2 images of 3 channels, 4×6", ("patches", np.round(rng.normal(size=(2, 3, 4, 6)), 2), 2)),
        Case("an image that is one patch", ("patches", numbered[..., :2, :2], 2)),
        Case("patches of 2×2 and an image of 3×4", ("patches", numbered[..., :3, :], 2), "M123"),
    ]


PATCHIFY = ExerciseInTorch(
    name="patchify",
    names=(),
    oracle=oracle_patchify,
    build=patchify_from,
    mutants=PATCHIFY_MUTANTS,
    stages={"values": patchify_one_channel_cases, "channels": patchify_channel_cases, "edges": patchify_edge_cases},
    visible=patchify_visible_cases,
    correct=CORRECT_PATCHIFY,
    probe=probes.on_tensors,
)

# --------------------------------------------------------------------------------------------------- PatchEmbedding


def refuse_sizes(image_size, patch_size):
    if image_size % patch_size:
        raise ValueError(f"{patch_size} does not divide {image_size}")


def refuse_images(images, image_size):
    if images.shape[-2:] != (image_size, image_size):
        raise ValueError(f"expected {image_size}×{image_size}, got {tuple(images.shape)}")


def embedding_from(
    check_sizes=refuse_sizes,
    check_images=refuse_images,
    make=lambda channels, width, patch_size, image_size: nn.Conv2d(channels, width, patch_size, patch_size),
    learn=lambda projection: None,
    change=lambda images, patch_size: images,
    project=lambda projection, images: projection(images),
    order=lambda grid: grid,
    join=lambda grid: grid.flatten(2).mT,
    finish=lambda tokens: tokens,
    extra=lambda width: None,
):
    class PatchEmbedding(nn.Module):
        def __init__(self, *, image_size, patch_size, channels, width):
            super().__init__()
            check_sizes(image_size, patch_size)
            self.image_size, self.patch_size = image_size, patch_size
            self.projection = make(channels, width, patch_size, image_size)
            self.norm = extra(width)
            learn(self.projection)

        def forward(self, images):
            check_images(images, self.image_size)
            images = change(images, self.patch_size)
            tokens = finish(join(order(project(self.projection, images))))
            return tokens if self.norm is None else self.norm(tokens)

    return PatchEmbedding


def shifted_in_place(images, size):
    images -= 0.5
    return images


def scrambled(images, size):
    """M44: patches by reshape alone, in front of the projection."""
    grid = images.reshape(len(images), -1, images.shape[1], size, size)  # (B, N, C, P, P)
    rows = images.shape[2] // size
    return grid.unflatten(1, (rows, -1)).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def conv_with(**settings):
    return lambda channels, width, size, image_size: nn.Conv2d(
        channels, width, **{"kernel_size": size, "stride": size} | settings
    )


def patches_transposed(projection, images):
    return F.conv2d(images, projection.weight.mT, projection.bias, stride=projection.stride)


def pixels_before_channels(projection, images):
    """The rows of patchify in the order (P, P, C), and the weight in (C, P, P)."""
    size = projection.kernel_size[0]
    rows = joined(grid_of(images, size).permute(0, 2, 4, 3, 5, 1))  # (B, N, P·P·C)
    tokens = F.linear(rows, projection.weight.flatten(1), projection.bias)
    return tokens.mT.unflatten(2, (images.shape[2] // size, -1))


EMBEDDING_MUTANTS = (
    Mutant("M15", change=shifted_in_place),
    Mutant("M42", make=lambda channels, width, size, image_size: nn.Conv2d(channels, width, image_size, image_size)),
    Mutant("M43", change=lambda images, size: F.pad(images, (0, 0, 0, -size)) if images.shape[2] > size else images),
    Mutant("M44", change=scrambled),
    Mutant("M45", project=pixels_before_channels),
    Mutant("M45", project=patches_transposed),
    Mutant("M83", make=conv_with(bias=False)),
    Mutant("M93", finish=lambda tokens: tokens.detach()),
    Mutant("M93", change=lambda images, size: images.detach()),
    Mutant("M120", learn=lambda projection: projection.requires_grad_(False)),
    Mutant("M123", check_sizes=lambda *sizes: None),
    Mutant("M123", check_images=lambda *sizes: None),
    Mutant("M123", check_sizes=lambda *sizes: None, check_images=lambda *sizes: None),
    Mutant("M124", order=lambda grid: grid.mT),
    Mutant("M124", change=lambda images, size: images.mT),
    Mutant("M125", join=lambda grid: grid.flatten(2)),
    Mutant("M125", join=lambda grid: grid.reshape(len(grid), -1, grid.shape[1])),
    Mutant("M127", join=lambda grid: grid.permute(0, 2, 3, 1)),
    Mutant("M129", make=conv_with(stride=1)),
    Mutant("M129", make=lambda channels, width, size, image_size: nn.Conv2d(channels, width, size, size, padding=size)),
    Mutant("M130", join=lambda grid: grid.flatten(2).permute(2, 0, 1)),
    Mutant("M130", finish=lambda tokens: tokens.transpose(0, 1).reshape(tokens.shape)),
    Mutant("M131", finish=F.relu),
    Mutant("M131", finish=F.gelu),
    Mutant("M131", finish=lambda tokens: F.layer_norm(tokens, tokens.shape[-1:])),
    Mutant("M131", finish=lambda tokens: tokens * tokens.shape[-1] ** 0.5),
    Mutant("M131", extra=nn.LayerNorm),
    Mutant(
        "M154",
        make=lambda channels, width, size, image_size: nn.Linear(channels * size**2, width),
        project=lambda projection, images: projection(
            oracle_patchify(images, int((projection.in_features // images.shape[1]) ** 0.5))
        ),
        join=lambda tokens: tokens,
    ),
)


def embed_like(forward):
    """Make a PatchEmbedding of a function of itself and the images."""

    class PatchEmbedding(nn.Module):
        def __init__(self, *, image_size, patch_size, channels, width):
            super().__init__()
            if image_size % patch_size != 0:
                raise ValueError("the patches do not tile the image")
            self.image_size, self.patch_size = (image_size, image_size), patch_size
            self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)

        def forward(self, images):
            if tuple(images.shape[2:]) != self.image_size:
                raise ValueError(f"expected {self.image_size}, got {images.shape}")
            return forward(self, images)

    return PatchEmbedding


def embed_in_loops(module, images):
    size, tokens = module.patch_size, []
    for top in range(0, images.shape[2], size):
        for left in range(0, images.shape[3], size):
            patch = images[:, :, top : top + size, left : left + size]
            tokens.append((patch[:, None] * module.projection.weight).sum(dim=(2, 3, 4)) + module.projection.bias)
    return torch.stack(tokens, dim=1)


def embed_by_reshape(module, images):
    tokens = module.projection(images)
    batch, width, rows, columns = tokens.shape
    return tokens.reshape(batch, width, rows * columns).permute(0, 2, 1)


def embed_by_einsum(module, images):
    grid = grid_of(images, module.patch_size)  # (B, C, rows, P, columns, P)
    tokens = torch.einsum("bcrpqs,dcps->brqd", grid, module.projection.weight) + module.projection.bias
    return tokens.flatten(1, 2)


class EmbeddingInSequence(nn.Sequential):
    """An nn.Sequential whose first part has the name."""

    def __init__(self, *, image_size, patch_size, channels, width):
        super().__init__()
        if image_size % patch_size:
            raise ValueError("the patches do not tile the image")
        self.shape = (channels, image_size, image_size)
        self.add_module("projection", nn.Conv2d(channels, width, patch_size, patch_size))
        self.add_module("flatten", nn.Flatten(2))

    def forward(self, images):
        if images.shape[1:] != self.shape:
            raise ValueError("images of another size")
        return super().forward(images).transpose(-1, -2)


class EmbeddingOfTimm(nn.Module):
    """As timm's PatchEmbed: sizes in tuples, weights truncated normal, an nn.Identity for the norm."""

    def __init__(self, image_size=28, patch_size=7, channels=1, width=64):
        super().__init__()
        self.image_size, self.patch_size = (image_size, image_size), (patch_size, patch_size)
        self.grid_size = tuple(a // b for a, b in zip(self.image_size, self.patch_size))
        if self.grid_size[0] * patch_size != image_size:
            raise ValueError("image size is no multiple of the patch size")
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.projection = nn.Conv2d(channels, width, kernel_size=self.patch_size, stride=self.patch_size, bias=True)
        self.norm = nn.Identity()
        nn.init.trunc_normal_(self.projection.weight, std=0.02)

    def forward(self, x):
        _, _, height, width = x.shape
        if height != self.image_size[0] or width != self.image_size[1]:
            raise ValueError(f"input size {height}×{width} is not {self.image_size}")
        x = self.projection(x)
        x = x.flatten(2).transpose(1, 2)  # BCHW -> BNC
        return self.norm(x)


CORRECT_EMBEDDING = {
    "answer": answers.PatchEmbedding,
    "reshape and permute": embed_like(embed_by_reshape),
    "patchify and linear": embed_like(
        lambda module, images: F.linear(
            answers.patchify(images, module.patch_size), module.projection.weight.flatten(1), module.projection.bias
        )
    ),
    "patchify and a product": embed_like(
        lambda module, images: (
            oracle_patchify(images, module.patch_size)
            @ module.projection.weight.reshape(len(module.projection.weight), -1).T
            + module.projection.bias
        )
    ),
    "F.conv2d": embed_like(
        lambda module, images: (
            F.conv2d(images, module.projection.weight, module.projection.bias, stride=module.patch_size)
            .flatten(start_dim=2)
            .mT
        )
    ),
    "loops": embed_like(embed_in_loops),
    "einsum": embed_like(embed_by_einsum),
    "channels last": embed_like(lambda module, images: module.projection(images).permute(0, 2, 3, 1).flatten(1, 2)),
    "movedim": embed_like(lambda module, images: torch.movedim(module.projection(images), 1, -1).flatten(1, -2)),
    "image by image": embed_like(
        lambda module, images: torch.stack([module.projection(image).flatten(1).T for image in images])
    ),
    "nn.Unfold": embed_like(
        lambda module, images: (
            torch.matmul(
                module.projection.weight.flatten(1), nn.Unfold(module.patch_size, stride=module.patch_size)(images)
            ).transpose(1, 2)
            + module.projection.bias
        )
    ),
    "nn.Sequential": EmbeddingInSequence,
    "timm": EmbeddingOfTimm,
    "steps": embedding_from(),
    "oracle": layers.PatchEmbedding,
}


def sizes_of_embedding(image_size, patch_size, channels, width):
    return {"image_size": image_size, "patch_size": patch_size, "channels": channels, "width": width}


def embedding_value_cases(rng):
    return [
        Case(
            "as many patches as features", ("output", rng.normal(size=(3, 1, 4, 4)), sizes_of_embedding(4, 2, 1, 4), 1)
        ),
        Case(
            "3 channels, patches of 4×4",
            ("output", rng.normal(size=(2, 3, 12, 12)), sizes_of_embedding(12, 4, 3, 5), 2),
        ),
        Case("patches of 2×2", ("output", rng.normal(size=(5, 2, 6, 6)), sizes_of_embedding(6, 2, 2, 7), 3)),
        Case("the image is one patch", ("output", rng.normal(size=(2, 3, 4, 4)), sizes_of_embedding(4, 4, 3, 5), 6)),
    ]


def embedding_learning_cases(rng):
    return [
        Case(
            "as many patches as features",
            ("learning", rng.normal(size=(3, 1, 4, 4)), sizes_of_embedding(4, 2, 1, 4), 4),
        ),
        Case("what is learned", ("learning", rng.normal(size=(2, 3, 6, 6)), sizes_of_embedding(6, 2, 3, 5), 5)),
        Case("its parameters", ("parts", rng.normal(size=(2, 3, 6, 6)), sizes_of_embedding(6, 3, 2, 5), 5)),
    ]


def embedding_edge_cases(rng):
    return [
        Case(
            "patches that do not tile",
            ("output", rng.normal(size=(2, 1, 7, 7)), sizes_of_embedding(7, 3, 1, 5), 7),
            "M123",
        ),
        Case(
            "images of another size",
            ("output", rng.normal(size=(2, 1, 8, 8)), sizes_of_embedding(12, 4, 1, 5), 8),
            "M123",
        ),
    ]


def embedding_visible_cases(rng):
    square, images = np.round(rng.normal(size=(2, 1, 4, 4)), 2), np.round(rng.normal(size=(2, 3, 4, 4)), 2)
    one, three = sizes_of_embedding(4, 2, 1, 4), sizes_of_embedding(4, 2, 3, 5)
    return [
        Case("2 images of 4×4, patches of 2×2", ("output", square, one)),
        Case("3 channels", ("output", images, three)),
        Case("gradients", ("learning", images, three)),
        Case("parameters", ("parts", square, three)),
        Case("patches of 3×3 and images of 4×4", ("output", square, one | {"patch_size": 3}), "M123"),
        Case("images of 4×4 where 6×6 was said", ("output", square, one | {"image_size": 6}), "M123"),
    ]


PATCH_EMBEDDING = ExerciseInTorch(
    name="PatchEmbedding",
    names=(),
    oracle=layers.PatchEmbedding,
    build=embedding_from,
    mutants=EMBEDDING_MUTANTS,
    stages={"values": embedding_value_cases, "learning": embedding_learning_cases, "edges": embedding_edge_cases},
    visible=embedding_visible_cases,
    correct=CORRECT_EMBEDDING,
    uses={"patchify": oracle_patchify},
    probe=probes.probe_patch_embedding,
)

# -------------------------------------------------------------------------------------------------------------- ViT


def group(**parts):
    """Return a module of these parts, modules or parameters."""
    made = nn.Module()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


class TorchvisionViT(nn.Module):
    """torchvision's model, its parameters under the names of the exercise."""

    def __init__(self, *, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                 hidden_width=128, dropout=0.0):  # fmt: skip
        super().__init__()
        settings = {"num_layers": depth, "num_heads": num_heads, "hidden_dim": width, "mlp_dim": hidden_width}
        settings |= {"dropout": dropout, "attention_dropout": dropout, "num_classes": num_classes}
        norm = partial(nn.LayerNorm, eps=1e-5)
        model = VisionTransformer(image_size=image_size, patch_size=patch_size, norm_layer=norm, **settings)
        model.conv_proj = nn.Conv2d(channels, width, patch_size, patch_size)
        self.model, self.class_token, self.position_embedding = model, model.class_token, model.encoder.pos_embedding
        self.patch_embedding, self.head = group(projection=model.conv_proj), model.heads.head
        blocks = [
            group(
                norm1=block.ln_1,
                self_attn=block.self_attention,
                norm2=block.ln_2,
                linear1=block.mlp[0],
                linear2=block.mlp[3],
            )
            for block in model.encoder.layers
        ]
        self.encoder = group(blocks=nn.ModuleList(blocks), norm=model.encoder.ln)

    def forward(self, images):
        return self.model(images)


def put_in_front(class_token, patches):
    return torch.cat([class_token.expand(len(patches), -1, -1), patches], dim=1)


def add(tokens, positions):
    return tokens + positions


def dropped(model, x):
    return F.dropout(x, model.share, model.training)


def vit_from(
    sizes=lambda sizes: sizes,  # what the constructor makes of its arguments
    make_embedding=answers.PatchEmbedding,
    make_class_token=lambda width: nn.Parameter(torch.zeros(1, 1, width)),
    make_positions=lambda patches, width: nn.Parameter(0.02 * torch.randn(1, 1 + patches, width)),
    make_head=lambda width, num_classes, patches: nn.Linear(width, num_classes),
    rates=lambda dropout: (dropout, dropout),  # of the tokens and of the encoder
    extra=lambda width: None,
    change=lambda images: images,
    embed=lambda model, images: model.patch_embedding(images),
    together=lambda model, patches: add(put_in_front(model.class_token, patches), model.position_embedding),
    drop=dropped,
    encode=lambda model, tokens: model.encoder(tokens),
    read=lambda tokens: tokens[:, 0],
    finish=lambda model, read: model.head(read),
    scores=lambda scores: scores,
):
    class ViT(nn.Module):
        def __init__(self, *, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                     hidden_width=128, dropout=0.0):  # fmt: skip
            super().__init__()
            given = {
                "image_size": image_size,
                "patch_size": patch_size,
                "channels": channels,
                "num_classes": num_classes,
            }
            given |= {"width": width, "depth": depth, "num_heads": num_heads, "hidden_width": hidden_width}
            s = sizes(given)
            self.share, of_encoder = rates(dropout)
            self.patch_embedding = make_embedding(
                image_size=s["image_size"], patch_size=s["patch_size"], channels=s["channels"], width=s["width"]
            )
            patches = (s["image_size"] // s["patch_size"]) ** 2
            self.class_token, self.position_embedding = make_class_token(width), make_positions(patches, width)
            self.encoder = Encoder(s["depth"], s["width"], s["num_heads"], s["hidden_width"], of_encoder)
            self.head, self.extra = make_head(width, num_classes, patches), extra(width)

        def forward(self, images):
            tokens = together(self, embed(self, change(images)))
            tokens = encode(self, drop(self, tokens))
            tokens = tokens if self.extra is None else self.extra(tokens)
            return scores(finish(self, read(tokens)))

    return ViT


def whole_image(sizes):
    return sizes | {"patch_size": sizes["image_size"]}


def before_the_class_token(model, patches):
    return put_in_front(model.class_token, add(patches, model.position_embedding))


def class_token_without(model, patches):
    return put_in_front(model.class_token, add(patches, model.position_embedding[:, 1:]))


def shifted_positions(model, patches):
    return put_in_front(model.class_token, add(patches, model.position_embedding[:, :-1]))


def only_class_token_placed(model, patches):
    return put_in_front(add(model.class_token, model.position_embedding[:, :1]), patches)


def by_image(model, patches):
    tokens = put_in_front(model.class_token, patches)
    return tokens + model.position_embedding[:, : len(tokens)].transpose(0, 1)


def one_position(model, patches):
    return put_in_front(model.class_token, patches) + model.position_embedding[:, :1]


def scaled_tokens(model, patches):
    """As in front of the positions of the first transformers."""
    tokens = put_in_front(model.class_token, patches)
    return tokens * tokens.shape[-1] ** 0.5 + model.position_embedding


def at_the_end(model, patches):
    class_token = model.class_token.expand(len(patches), -1, -1)
    return torch.cat([patches, class_token], dim=1) + model.position_embedding


def added_class_token(model, patches):
    return patches + model.class_token + model.position_embedding[:, 1:]


def without_class_token(patches, width):
    return nn.Parameter(0.02 * torch.randn(1, patches, width))


def placed(model, tokens):
    """Positions once more, or for the first time, behind the dropout."""
    return dropped(model, tokens) + model.position_embedding


def shifted_images(images):
    images -= 0.5
    return images


def settled(**fixed):
    """Take these sizes, whatever was asked for."""
    return lambda sizes: sizes | fixed


def patches_first(model, patches):
    return put_in_front(model.class_token, patches)


VIT_MUTANTS = (
    Mutant("M15", change=shifted_images),
    Mutant("M28", encode=lambda model, tokens: model.encoder(tokens.transpose(0, 1)).transpose(0, 1)),
    Mutant("M29", drop=lambda model, x: F.dropout(x, model.share)),
    Mutant("M42", sizes=whole_image),
    Mutant("M46", together=patches_first),
    Mutant("M46", together=one_position),
    Mutant("M47", together=before_the_class_token, make_positions=without_class_token),
    Mutant("M47", together=class_token_without),
    Mutant("M47", together=shifted_positions),
    Mutant("M46", together=only_class_token_placed),
    Mutant("M48", together=by_image),
    Mutant("M49", together=at_the_end),
    Mutant("M49", together=at_the_end, read=lambda tokens: tokens[:, -1]),
    Mutant("M49", read=lambda tokens: tokens[:, -1]),
    Mutant("M49", read=lambda tokens: tokens[:, 1]),
    Mutant("M50", make_class_token=lambda width: torch.zeros(1, 1, width)),
    Mutant("M50", make_positions=lambda patches, width: torch.zeros(1, 1 + patches, width)),
    Mutant(
        "M50",
        make_class_token=lambda width: torch.zeros(1, 1, width),
        make_positions=lambda patches, width: torch.zeros(1, 1 + patches, width),
    ),
    Mutant("M50", make_class_token=lambda width: nn.Buffer(torch.zeros(1, 1, width))),
    Mutant("M50", make_positions=lambda patches, width: nn.Buffer(torch.zeros(1, 1 + patches, width))),
    Mutant("M50", make_class_token=lambda width: nn.Parameter(torch.zeros(1, 1, width), requires_grad=False)),
    Mutant(
        "M50",
        make_positions=lambda patches, width: nn.Parameter(torch.zeros(1, 1 + patches, width), requires_grad=False),
    ),
    Mutant(
        "M50",
        together=lambda model, patches: put_in_front(model.class_token.detach(), patches) + model.position_embedding,
    ),
    Mutant(
        "M50", together=lambda model, patches: put_in_front(model.class_token, patches) + model.position_embedding.data
    ),
    Mutant("M51", scores=lambda scores: scores.softmax(dim=-1)),
    Mutant("M51", scores=lambda scores: scores.log_softmax(dim=-1)),
    Mutant("M51", scores=torch.sigmoid),
    Mutant("M90", encode=lambda model, tokens: model.encoder.blocks(tokens)),
    Mutant("M93", embed=lambda model, images: model.patch_embedding(images).detach()),
    Mutant("M93", change=lambda images: images.detach()),
    Mutant("M98", rates=lambda dropout: (0.0, 0.0)),
    Mutant("M98", rates=lambda dropout: (dropout, 0.0)),
    Mutant("M102", sizes=settled(depth=6)),
    Mutant("M102", sizes=lambda sizes: sizes | {"depth": sizes["depth"] - 1}),
    Mutant("M102", encode=lambda model, tokens: model.encoder.norm(model.encoder.blocks[:-1](tokens))),
    Mutant("M108", sizes=lambda sizes: sizes | {"hidden_width": 4 * sizes["width"]}),
    Mutant("M108", sizes=lambda sizes: sizes | {"hidden_width": sizes["width"]}),
    Mutant("M108", sizes=settled(hidden_width=128)),
    Mutant("M131", finish=lambda model, read: model.head(F.layer_norm(read, read.shape[-1:]))),
    Mutant("M131", finish=lambda model, read: model.head(torch.tanh(read))),
    Mutant("M131", finish=lambda model, read: model.head(F.gelu(read))),
    Mutant("M131", extra=nn.LayerNorm),
    Mutant("M131", embed=lambda model, images: model.patch_embedding(images) * model.class_token.shape[-1] ** 0.5),
    Mutant("M131", embed=lambda model, images: F.relu(model.patch_embedding(images))),
    Mutant("M131", together=scaled_tokens),
    Mutant("M131", encode=lambda model, tokens: tokens + model.encoder(tokens)),
    Mutant("M132", read=lambda tokens: tokens.mean(dim=1)),
    Mutant("M132", read=lambda tokens: tokens[:, 1:].mean(dim=1)),
    Mutant("M132", read=lambda tokens: tokens.amax(dim=1)),
    Mutant("M132", read=lambda tokens: tokens.sum(dim=1)),
    Mutant(
        "M132",
        make_class_token=lambda width: None,
        make_positions=without_class_token,
        together=lambda model, patches: patches + model.position_embedding,
        read=lambda tokens: tokens.mean(dim=1),
    ),
    Mutant("M133", together=added_class_token),
    Mutant("M134", rates=lambda dropout: (0.0, dropout)),
    Mutant("M134", together=patches_first, drop=placed),
    Mutant("M135", sizes=settled(num_heads=1)),
    Mutant("M135", sizes=lambda sizes: sizes | {"num_heads": sizes["width"]}),
    Mutant(
        "M155",
        make_head=lambda width, num_classes, patches: nn.Linear(width * (1 + patches), num_classes),
        read=lambda tokens: tokens.flatten(1),
    ),
    Mutant("M155", make_head=lambda width, num_classes, patches: nn.Linear(width, 10)),
    Mutant("M155", make_head=lambda width, num_classes, patches: nn.Linear(width, num_classes, bias=False)),
)


def vit_like(forward, start=None):
    """Make a ViT of a function of itself and the images; its parts are made in another order than the answer's."""

    class ViT(nn.Module):
        def __init__(self, *, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                     hidden_width=128, dropout=0.0):  # fmt: skip
            super().__init__()
            self.head = nn.Linear(width, num_classes)
            self.encoder = Encoder(depth, width, num_heads, hidden_width, dropout)
            self.position_embedding = nn.Parameter(torch.zeros(1, (image_size // patch_size) ** 2 + 1, width))
            self.class_token = nn.Parameter(torch.randn(1, 1, width))
            self.patch_embedding = layers.PatchEmbedding(
                image_size=image_size, patch_size=patch_size, channels=channels, width=width
            )
            self.dropout = nn.Dropout(p=dropout)
            if start is not None:
                self.apply(start)

    ViT.forward = forward
    return ViT


def vit_of_lucidrains(self, images):
    x = self.patch_embedding(images)
    b, n, _ = x.shape
    class_tokens = self.class_token.repeat(b, 1, 1)
    x = torch.cat((class_tokens, x), dim=1)
    x += self.position_embedding[:, : (n + 1)]
    x = self.dropout(x)
    x = self.encoder(x)
    x = x[:, 0]
    return self.head(x)


def vit_of_torchvision(self, x):
    n = x.shape[0]
    x = self.patch_embedding.projection(x)
    x = x.reshape(n, self.class_token.shape[-1], -1)
    x = x.permute(0, 2, 1)
    batch_class_token = self.class_token.expand(n, -1, -1)
    x = torch.cat([batch_class_token, x], dim=1)
    x = self.encoder(self.dropout(x + self.position_embedding))
    return self.head(x[:, 0])


def vit_with_added_class_position(self, images):
    """The class token gets its position first, then the patches theirs."""
    first = (self.class_token + self.position_embedding[:, :1]).expand(images.shape[0], 1, -1)
    patches = self.patch_embedding(images) + self.position_embedding[:, 1:]
    tokens = F.dropout(torch.cat((first, patches), 1), self.dropout.p, self.training)
    return F.linear(self.encoder(tokens).select(1, 0), self.head.weight, self.head.bias)


def vit_by_stack(self, images):
    tokens = [self.class_token[0, 0].expand(len(images), -1), *self.patch_embedding(images).unbind(1)]
    tokens = torch.stack([t + p for t, p in zip(tokens, self.position_embedding[0])], dim=1)
    return self.head(self.encoder(self.dropout(tokens)))[:, 0]  # every token gets scores; one is read


def vit_in_a_buffer(self, images):
    """Tokens are written into an empty tensor."""
    patches = self.patch_embedding(images)
    tokens = patches.new_empty(len(images), 1 + patches.shape[1], patches.shape[2])
    tokens[:, :1] = self.class_token
    tokens[:, 1:] = patches
    return self.head(self.encoder(self.dropout(tokens + self.position_embedding))[:, 0, :])


def vit_image_by_image(self, images):
    return torch.cat([vit_of_torchvision(self, image.unsqueeze(0)) for image in images])


def vit_block_by_block(self, images):
    patches = self.patch_embedding(images)
    x = F.pad(patches, (0, 0, 1, 0)) + torch.cat([self.class_token, torch.zeros_like(patches[:1])], 1)
    x = self.dropout(torch.add(x, self.position_embedding))
    for block in self.encoder.blocks:
        x = block(x)
    return self.head(self.encoder.norm(x[:, 0]))  # a norm acts on each token by itself


def vit_by_functions(self, images):
    projection = self.patch_embedding.projection
    x = F.conv2d(images, projection.weight, projection.bias, projection.stride).flatten(2).mT
    x = torch.hstack([torch.tile(self.class_token, (len(x), 1, 1)), x]) + self.position_embedding
    x = self.encoder.norm(self.encoder.blocks(self.dropout(x)))
    return torch.einsum("bd,cd->bc", x[:, 0], self.head.weight) + self.head.bias


def vit_with_methods(self, images):
    """As timm: forward_features and forward_head."""

    def position(x):
        return torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1) + self.position_embedding

    def features(x):
        return self.encoder(self.dropout(position(self.patch_embedding(x))))

    return self.head(nn.Identity()(features(images)[:, 0]))


def start_as_gpt_2(part):
    if isinstance(part, nn.Linear):
        nn.init.normal_(part.weight, mean=0.0, std=0.02)
        nn.init.zeros_(part.bias)


def start_as_timm(part):
    if isinstance(part, (nn.Linear, nn.Conv2d)):
        nn.init.trunc_normal_(part.weight, std=0.02)
        nn.init.zeros_(part.bias)


class ViTByRegisterParameter(answers.ViT):
    """Parameters registered under their names, drawn otherwise; a further buffer."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        shapes = self.class_token.shape, self.position_embedding.shape
        del self.class_token, self.position_embedding
        self.register_parameter(
            "position_embedding", nn.Parameter(nn.init.trunc_normal_(torch.empty(shapes[1]), std=0.02))
        )
        self.register_parameter("class_token", nn.Parameter(nn.init.normal_(torch.empty(shapes[0]))))
        self.register_buffer("mean", torch.tensor(0.1307), persistent=False)


class ViTWithOwnTypes(answers.ViT):
    """Sizes are given without names too, and images cast."""

    def __init__(self, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                 hidden_width=128, dropout=0.0):  # fmt: skip
        super().__init__(image_size=image_size, patch_size=patch_size, channels=channels, num_classes=num_classes,
                         width=width, depth=depth, num_heads=num_heads, hidden_width=hidden_width, dropout=dropout)  # fmt: skip
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels=None):
        scores = super().forward(images.to(self.class_token.dtype))
        return scores if labels is None else (scores, self.loss(scores, labels))


CORRECT_VIT = {
    "answer": answers.ViT,
    "lucidrains": vit_like(vit_of_lucidrains),
    "torchvision": vit_like(vit_of_torchvision),
    "class token placed first": vit_like(vit_with_added_class_position),
    "stacked tokens": vit_like(vit_by_stack),
    "written into a tensor": vit_like(vit_in_a_buffer),
    "image by image": vit_like(vit_image_by_image),
    "block by block": vit_like(vit_block_by_block),
    "functions": vit_like(vit_by_functions),
    "timm": vit_like(vit_with_methods, start_as_timm),
    "GPT-2's weights": vit_like(vit_of_lucidrains, start_as_gpt_2),
    "register_parameter": ViTByRegisterParameter,
    "with labels": ViTWithOwnTypes,
    "steps": vit_from(),
    "oracle": TorchvisionViT,
}


def sizes_of_vit(image_size, patch_size, channels, num_classes, width, depth, num_heads, hidden_width):
    names = "image_size", "patch_size", "channels", "num_classes", "width", "depth", "num_heads", "hidden_width"
    return dict(
        zip(names, (image_size, patch_size, channels, num_classes, width, depth, num_heads, hidden_width), strict=True)
    )


SMALL, OTHER = sizes_of_vit(6, 2, 3, 5, 12, 2, 4, 7), sizes_of_vit(12, 4, 1, 7, 15, 3, 5, 6)
DEFAULTS = sizes_of_vit(28, 7, 1, 10, 64, 6, 8, 128)


def draw_images(rng, count, sizes):
    return rng.normal(size=(count, sizes["channels"], sizes["image_size"], sizes["image_size"]))


def one_at_a_time(mutants):
    """Name single mistakes alone: answers of yes and no fit many pairs."""
    return tuple(dict.fromkeys(mutant.mistake for mutant in mutants))


def vit_cases(what, *rest, tells=()):
    """The two sizes, with images and parameters of their own."""

    def cases(rng):
        return [
            Case(name, (what, draw_images(rng, count, sizes), sizes, int(rng.integers(99)), *rest), tells=tells)
            for name, count, sizes in (
                ("patches of 2×2, 3 channels", 4, SMALL),
                ("patches of 4×4, one channel", 2, OTHER),
            )
        ]

    return cases


def vit_part_cases(rng):
    tells = one_at_a_time(VIT_MUTANTS)
    return [
        Case("patches of 2×2, 3 channels", ("parts", draw_images(rng, 1, SMALL), SMALL), tells=tells),
        Case("ViT(), without arguments", ("defaults", draw_images(rng, 1, DEFAULTS), DEFAULTS), tells=tells),
    ]


def vit_value_cases(rng):
    third = sizes_of_vit(8, 4, 2, 4, 9, 1, 3, 11)
    return [
        *vit_cases("output")(rng),
        Case("one image, one block", ("output", draw_images(rng, 1, third), third, 5)),
    ]


def vit_visible_cases(rng):
    sizes = sizes_of_vit(4, 2, 3, 4, 6, 2, 2, 7)
    images = np.round(draw_images(rng, 2, sizes), 2)
    return [
        Case("the parts", ("parts", images[:1], sizes)),
        Case("positions", ("positions", images, sizes)),
        Case("the token that is read", ("reading", images, sizes)),
        Case("2 images, patches of 2×2, 3 channels", ("output", images, sizes)),
        Case("gradients", ("learning", images, sizes)),
        Case("dropout of 0.3", ("dropout", images, sizes, 0, 0.3)),
        Case("ViT(), without arguments", ("defaults", images[:1], DEFAULTS)),
    ]


VIT = ExerciseInTorch(
    name="ViT",
    names=(),
    oracle=TorchvisionViT,
    build=vit_from,
    mutants=VIT_MUTANTS,
    stages={
        "parts": vit_part_cases,
        "reading": vit_cases("reading"),
        "positions": vit_cases("positions", tells=one_at_a_time(VIT_MUTANTS)),
        "values": vit_value_cases,
        "learning": vit_cases("learning"),
        "dropout": vit_cases("dropout", 0.3, tells=one_at_a_time(VIT_MUTANTS)),
    },
    visible=vit_visible_cases,
    correct=CORRECT_VIT,
    uses={"PatchEmbedding": layers.PatchEmbedding},
    probe=probes.probe_vit,
)

# ------------------------------------------------------------------------------------------ train_epoch and evaluate


def oracle_train_epoch(model, batches, optimizer):
    """Image by image: the losses are minus the logarithms of the softmax, and their mean is followed."""
    model.train(True)
    losses, right = [], []
    for images, labels in batches:
        scores = model(images)
        of_images = [-torch.log_softmax(row, dim=0)[label] for row, label in zip(scores, labels)]
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(sum(of_images) / len(of_images), parameters)):
            parameter.grad = gradient
        losses += [float(loss.detach()) for loss in of_images]
        right += [int(row.argmax()) == int(label) for row, label in zip(scores, labels)]
        optimizer.step()
    return sum(losses) / len(losses), sum(right) / len(right)


def oracle_evaluate(model, batches):
    """Image by image, on a copy."""
    model, losses, right = copy.deepcopy(model).eval(), [], []
    for images, labels in batches:
        for image, label in zip(images, labels):
            scores = model(image[None])[0].detach().double()
            losses.append(float(-torch.log_softmax(scores, dim=0)[label]))
            right.append(int(scores.argmax()) == int(label))
    return sum(losses) / len(losses), sum(right) / len(right)


def followed(optimizer, loss, labels):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def means(losses, rights, counts):
    return sum(loss * n for loss, n in zip(losses, counts)) / sum(counts), sum(rights) / sum(counts)


def right_ones(scores, labels):
    return float((scores.argmax(dim=-1) == labels).sum())


def train_epoch_from(
    begin=lambda model, optimizer: model.train(),
    take=lambda batches: batches,
    loss_of=F.cross_entropy,
    follow=followed,
    again=False,  # scores and loss are computed once more, behind the step
    right=right_ones,
    finish=means,
    end=lambda model, optimizer: None,
):
    def train_epoch(model, batches, optimizer):
        begin(model, optimizer)
        losses, rights, counts = [], [], []
        for images, labels in take(batches):
            scores = model(images)
            loss = loss_of(scores, labels)
            follow(optimizer, loss, labels)
            if again:
                scores = model(images)
                loss = loss_of(scores, labels)
            losses.append(float(loss.detach()))
            rights.append(right(scores, labels))
            counts.append(len(labels))
        end(model, optimizer)
        return finish(losses, rights, counts)

    return train_epoch


def loss_of_softmax(scores, labels):
    return F.cross_entropy(scores.softmax(dim=-1), labels)


def squares(scores, labels):
    return F.mse_loss(scores, F.one_hot(labels, scores.shape[-1]).to(scores))


def likelihood_of_scores(scores, labels):
    return F.nll_loss(scores, labels)


def of_each_class(scores, labels):
    return F.binary_cross_entropy_with_logits(scores, F.one_hot(labels, scores.shape[-1]).to(scores))


def never_zeroed(optimizer, loss, labels):
    loss.backward()
    optimizer.step()


def zeroed_between(optimizer, loss, labels):
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()


def step_first(optimizer, loss, labels):
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()


def without_step(optimizer, loss, labels):
    optimizer.zero_grad()
    loss.backward()


def stepped_twice(optimizer, loss, labels):
    followed(optimizer, loss, labels)
    optimizer.step()


def sum_followed(optimizer, loss, labels):
    followed(optimizer, loss * len(labels), labels)


def only_backward(optimizer, loss, labels):
    loss.backward()


def right_over_the_batch(scores, labels):
    return right_ones(scores.softmax(dim=0), labels)


def means_of(*, last=None, unequal=(), summed=False, percent=False, count=False):
    """Return a wrong way of summing up losses and right answers."""

    def finish(losses, rights, counts):
        loss, accuracy = means(losses, rights, counts)
        shares = [right / n for right, n in zip(rights, counts)]
        if last is not None:
            loss = losses[-1] if "loss" in last else loss
            accuracy = shares[-1] if "accuracy" in last else accuracy
        loss = sum(losses) / len(losses) if "loss" in unequal else loss
        accuracy = sum(shares) / len(shares) if "accuracy" in unequal else accuracy
        loss = {"batches": sum(losses), "images": loss * sum(counts), "both": sum(losses) / sum(counts)}.get(
            summed, loss
        )
        return loss, 100 * accuracy if percent else sum(rights) if count else accuracy

    return finish


WRONG_MEANS = (
    Mutant("M55", finish=means_of(last=("loss",))),
    Mutant("M55", finish=means_of(last=("loss", "accuracy"))),
    Mutant("M55", finish=means_of(last=("accuracy",))),
    Mutant("M56", finish=means_of(unequal=("accuracy",))),
    Mutant("M56", finish=means_of(unequal=("loss",))),
    Mutant("M56", finish=means_of(unequal=("loss", "accuracy"))),
    Mutant("M63", finish=means_of(summed="batches")),
    Mutant("M63", finish=means_of(summed="images")),
    Mutant("M63", finish=means_of(summed="both")),
    Mutant("M141", finish=means_of(percent=True)),
    Mutant("M141", finish=means_of(count=True)),
    Mutant("M142", right=right_over_the_batch),
)


def first_alone(batches):
    for batch in batches:
        yield batch
        return


def all_but_the_last(batches):
    batches = list(batches)
    return batches[:-1] or batches


def full_ones(batches):
    """As `drop_last` does."""
    batches = list(batches)
    return [batch for batch in batches if len(batch[1]) == len(batches[0][1])]


TRAIN_EPOCH_MUTANTS = (
    Mutant("M51", loss_of=loss_of_softmax),
    Mutant("M52", begin=lambda model, optimizer: None),
    Mutant("M52", begin=lambda model, optimizer: model.eval()),
    Mutant("M53", follow=never_zeroed),
    *WRONG_MEANS,
    Mutant("M136", follow=zeroed_between),
    Mutant("M136", follow=step_first),
    Mutant("M136", follow=without_step),
    Mutant("M136", follow=stepped_twice),
    Mutant(
        "M137",
        begin=lambda model, optimizer: (model.train(), optimizer.zero_grad()),
        follow=only_backward,
        end=lambda model, optimizer: optimizer.step(),
    ),
    Mutant("M138", follow=sum_followed),
    Mutant("M139", loss_of=squares),
    Mutant("M139", loss_of=likelihood_of_scores),
    Mutant("M139", loss_of=of_each_class),
    Mutant("M139", loss_of=partial(F.cross_entropy, label_smoothing=0.1)),
    Mutant("M140", again=True),
    Mutant("M143", take=first_alone),
    Mutant("M143", take=all_but_the_last),
    Mutant("M144", end=lambda model, optimizer: model.eval()),
)


def train_as_nano_gpt(model, batches, optimizer):
    model.train()
    loss_sum, right, count = 0.0, 0, 0
    for images, labels in batches:
        logits = model(images)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * images.size(0)
        right += logits.argmax(1).eq(labels).sum().item()
        count += images.size(0)
    return loss_sum / count, right / count


def train_as_pytorch_tutorial(model, dataloader, optimizer):
    """zero_grad behind the step, the loss as a module."""
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    size, train_loss, correct = 0, 0, 0
    for X, y in dataloader:
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        train_loss += loss.item() * len(X)
        correct += (pred.argmax(1) == y).type(torch.float).sum().item()
        size += len(X)
    return train_loss / size, correct / size


def train_as_cifar_examples(net, batches, optimizer):
    """zero_grad first, max for arg-max, tensors for results."""
    net.train()
    total_loss, total, correct = torch.zeros(()), 0, torch.zeros((), dtype=torch.long)
    for inputs, targets in batches:
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = F.cross_entropy(outputs, targets, reduction="none")
        loss.mean().backward()
        optimizer.step()
        total_loss += loss.detach().sum()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum()
    return total_loss / total, correct / total


def train_with_gradient_of(model, batches, optimizer):
    """By `torch.autograd.grad`, lists, and NumPy at the end."""
    model.train(mode=True)
    losses, hits = [], []
    for batch in batches:
        scores = model(batch[0])
        each = -scores.log_softmax(-1).gather(1, batch[1][:, None])[:, 0]
        parameters = [p for p in model.parameters() if p.requires_grad]
        for parameter, gradient in zip(parameters, torch.autograd.grad(each.mean(), parameters)):
            parameter.grad = gradient
        optimizer.step()
        losses.extend(each.tolist())
        hits.extend((scores.topk(1).indices[:, 0] == batch[1]).tolist())
    return np.mean(losses), np.mean(hits)


def train_with_scaler(model, batches, optimizer):
    """With the parts of mixed precision, which are off on a CPU."""
    model.train()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    totals = np.zeros(3)
    for images, labels in batches:
        device = next(model.parameters()).device
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast("cpu", enabled=False):
            scores = model(images)
            loss = F.nll_loss(F.log_softmax(scores, dim=1), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        totals += np.array([loss.item() * len(labels), (scores.argmax(1) == labels).sum().item(), len(labels)])
    return tuple(totals[:2] / totals[2])


def train_with_running_mean(model, batches, optimizer):
    """The means are brought forward batch by batch."""
    model.train()
    loss_mean, accuracy, seen = 0.0, 0.0, 0
    for images, labels in batches:
        for parameter in model.parameters():
            parameter.grad = None
        scores = model(images)
        loss = F.cross_entropy(scores, labels, reduction="sum") / len(labels)
        loss.backward()
        optimizer.step()
        seen += len(labels)
        loss_mean += (loss.item() - loss_mean) * len(labels) / seen
        accuracy += ((scores.argmax(-1) == labels).float().mean().item() - accuracy) * len(labels) / seen
    return loss_mean, accuracy


def train_with_closure(model, batches, optimizer):
    model.train()
    record = []
    for images, labels in batches:

        def closure(images=images, labels=labels):
            optimizer.zero_grad()
            scores = model(images)
            loss = F.cross_entropy(scores, labels)
            loss.backward()
            record.append((len(labels), loss.item(), int((scores.argmax(1) == labels).sum())))
            return loss

        optimizer.step(closure)
    count = sum(n for n, _, _ in record)
    return sum(n * loss for n, loss, _ in record) / count, sum(right for _, _, right in record) / count


def train_all_in_tensors(model, batches, optimizer):
    """Detached tensors are kept and joined at the end."""
    model = model.train()
    kept = []
    for images, labels in list(batches):
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append((scores.detach(), labels))
    scores, labels = torch.cat([s for s, _ in kept]), torch.cat([t for _, t in kept])
    return F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item()


def train_with_clipping(model, batches, optimizer):
    """Gradients are clipped at 1, which they never reach here."""
    model.train()
    sums = {"loss": 0.0, "right": 0, "count": 0}
    for images, labels in batches:
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        sums["loss"] += float(loss.detach()) * len(labels)
        sums["right"] += int((scores.argmax(-1) == labels).sum())
        sums["count"] += len(labels)
    return sums["loss"] / sums["count"], sums["right"] / sums["count"]


CORRECT_TRAIN_EPOCH = {
    "answer": answers.train_epoch,
    "nanoGPT": train_as_nano_gpt,
    "PyTorch's tutorial": train_as_pytorch_tutorial,
    "CIFAR examples": train_as_cifar_examples,
    "autograd.grad": train_with_gradient_of,
    "scaler": train_with_scaler,
    "running means": train_with_running_mean,
    "closure": train_with_closure,
    "in tensors": train_all_in_tensors,
    "clipping": train_with_clipping,
    "set_grad_enabled": lambda model, batches, optimizer: torch.enable_grad()(train_as_nano_gpt)(
        model, iter(batches), optimizer
    ),
    "list of results": lambda model, batches, optimizer: list(train_as_nano_gpt(model, batches, optimizer)),
    "steps": train_epoch_from(),
    "oracle": oracle_train_epoch,
}


def data(rng, sizes, seed, training, channels=2, side=3, classes=4, scale=0.5):
    """Draw images, and labels of which most are right for the model of this seed, so that no accuracy is at chance."""
    images = scale * rng.normal(size=(sum(sizes), channels, side, side))
    with torch.no_grad():
        scores = probes.model_by_mode(images.shape[1:], classes, seed).train(training)(probes.float_tensor(images))
    guesses = rng.permutation(np.arange(sum(sizes)) % classes)
    labels = np.where(rng.random(sum(sizes)) < 0.7, scores.argmax(dim=-1).numpy(), guesses)
    return images, labels, np.array(sizes)


def epoch_case(name, rng, what, sizes, kind="list", rate=1.0, channels=2, side=3, classes=4):
    seed = int(rng.integers(99))
    drawn = data(rng, sizes, seed, True, channels, side, classes)
    return Case(name, (what, *drawn, kind, classes, rate, seed))


def overfit_case(rng):
    drawn = rng.normal(size=(64, 1, 4, 4)), rng.integers(5, size=64), np.array([16] * 4)
    tells = one_at_a_time(TRAIN_EPOCH_MUTANTS)
    return Case("64 images, learned by heart", ("overfit", *drawn, "list", 5, 0, 0), tells=tells)


def train_step_cases(rng):
    return [
        epoch_case("one batch", rng, "steps", (6,)),
        epoch_case("4 batches", rng, "steps", (5, 5, 5, 2)),
        epoch_case("3 batches of 3 channels", rng, "steps", (7, 7, 4), channels=3, side=2, classes=5),
        overfit_case(rng),
    ]


def train_mean_cases(rng):
    """With a rate of 0 the model stays, so that a wrong step does not cost the means; with a single batch too."""
    return [
        epoch_case("one batch", rng, "means", (17,), rate=2.0),
        epoch_case("a last batch of another size", rng, "means", (12, 12, 12, 5), rate=0.0),
        epoch_case("a generator", rng, "means", (14, 14, 4), "generator", rate=0.0, channels=1, side=4, classes=3),
    ]


def train_visible_cases(rng):
    images, labels, sizes = data(rng, (5, 5, 2), 0, True, channels=1, side=2, classes=3)
    images, one = np.round(images, 2), np.array([12])
    return [
        Case("one batch", ("steps", images, labels, one, "list", 3, 1.0, 0)),
        Case("3 batches", ("steps", images, labels, sizes, "list", 3, 1.0, 0)),
        Case("one batch, what is returned", ("means", images, labels, one, "list", 3, 2.0, 0)),
        Case("3 batches, what is returned", ("means", images, labels, sizes, "generator", 3, 0.0, 0)),
    ]


TRAIN_EPOCH = ExerciseInTorch(
    name="train_epoch",
    names=(),
    oracle=oracle_train_epoch,
    build=train_epoch_from,
    mutants=TRAIN_EPOCH_MUTANTS,
    stages={"steps": train_step_cases, "means": train_mean_cases},
    visible=train_visible_cases,
    correct=CORRECT_TRAIN_EPOCH,
    probe=probes.probe_train_epoch,
)


def evaluate_from(
    begin=lambda model: model.eval(),
    context=torch.no_grad,
    take=lambda batches: batches,
    loss_of=F.cross_entropy,
    touch=lambda model, loss: None,
    right=right_ones,
    finish=means,
    end=lambda model, training: model.train(training),
):
    def evaluate(model, batches):
        training = model.training
        begin(model)
        losses, rights, counts = [], [], []
        with context():
            for images, labels in take(batches):
                scores = model(images)
                loss = loss_of(scores, labels)
                touch(model, loss)
                losses.append(float(loss.detach()))
                rights.append(right(scores, labels))
                counts.append(len(labels))
        end(model, training)
        return finish(losses, rights, counts)

    return evaluate


def gradients_away(model, loss):
    model.zero_grad()


def one_more_step(model, loss):
    """An optimizer's step, by hand."""
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter -= 0.1 * gradient


def switched_off():
    torch.set_grad_enabled(False)
    return contextlib.nullcontext()


EVALUATE_MUTANTS = (
    Mutant("M51", loss_of=loss_of_softmax),
    Mutant("M52", begin=lambda model: None),
    Mutant("M52", context=contextlib.nullcontext),
    Mutant("M52", begin=lambda model: None, context=contextlib.nullcontext),
    Mutant("M52", begin=lambda model: model.train()),
    *WRONG_MEANS,
    Mutant("M139", loss_of=squares),
    Mutant("M139", loss_of=likelihood_of_scores),
    Mutant("M139", loss_of=partial(F.cross_entropy, label_smoothing=0.1)),
    Mutant("M143", take=first_alone),
    Mutant("M143", take=all_but_the_last),
    Mutant("M143", take=full_ones),
    Mutant("M144", end=lambda model, training: None),
    Mutant("M144", end=lambda model, training: model.train()),
    Mutant("M145", context=contextlib.nullcontext, touch=lambda model, loss: loss.backward()),
    Mutant("M145", touch=gradients_away),
    Mutant("M145", context=contextlib.nullcontext, touch=one_more_step),
    Mutant("M146", context=switched_off),
    Mutant("M146", begin=lambda model: model.eval().requires_grad_(False)),
)


def evaluate_like(context):
    """Make an evaluation with another way of building no graph."""

    def evaluate(model, batches):
        was_training = model.training
        model.train(False)
        loss_sum, right, count = 0.0, 0, 0
        with context():
            for images, labels in batches:
                scores = model(images)
                loss = F.cross_entropy(scores, labels).item()
                loss_sum += loss * len(labels)
                right += (scores.argmax(1) == labels).sum().item()
                count += labels.numel()
        if was_training:
            model.train()
        return loss_sum / count, right / count

    return evaluate


@torch.no_grad()
def evaluate_in_tensors(model, batches):
    mode = model.training
    model.eval()
    outputs = [(model(images), labels) for images, labels in batches]
    model.train(mode)
    scores, labels = torch.cat([s for s, _ in outputs]), torch.cat([t for _, t in outputs])
    return F.cross_entropy(scores, labels), (scores.argmax(-1) == labels).float().mean()


@torch.inference_mode()
def evaluate_per_image(model, batches):
    training = {part: part.training for part in model.modules()}
    model.eval()
    losses, hits = [], []
    for images, labels in batches:
        for scores, label in zip(model(images), labels):
            losses.append((scores.logsumexp(0) - scores[label]).item())
            hits.append(bool(scores.argmax() == label))
    for part, mode in training.items():
        part.training = mode
    return np.mean(losses), np.mean(hits)


def evaluate_a_copy(model, batches):
    with torch.no_grad():
        return evaluate_like(torch.no_grad)(copy.deepcopy(model), batches)


def evaluate_in_try(model, batches):
    """The mode comes back whatever happens; the gradients' switch too."""
    training, before = model.training, torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    totals = torch.zeros(3, dtype=torch.float64)
    try:
        for images, labels in batches:
            scores = model.eval()(images)
            loss = nn.CrossEntropyLoss(reduction="sum")(scores, labels)
            totals += torch.stack([loss, scores.max(1)[1].eq(labels).sum(), torch.tensor(len(labels))]).double()
    finally:
        model.train(training)
        torch.set_grad_enabled(before)
    return (totals[:2] / totals[2]).tolist()


def evaluate_of_the_tutorial(model, dataloader):
    """The size is counted, not asked for."""
    training = model.training
    model.eval()
    size, test_loss, correct = 0, 0.0, 0.0
    with torch.no_grad():
        for X, y in dataloader:
            pred = model(X)
            test_loss += nn.CrossEntropyLoss(reduction="none")(pred, y).sum().item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
            size += len(y)
    model.train() if training else model.eval()
    return test_loss / size, correct / size


CORRECT_EVALUATE = {
    "answer": answers.evaluate,
    "no_grad": evaluate_like(torch.no_grad),
    "inference_mode": evaluate_like(torch.inference_mode),
    "set_grad_enabled": evaluate_like(lambda: torch.set_grad_enabled(False)),
    "in tensors": evaluate_in_tensors,
    "image by image": evaluate_per_image,
    "a copy": evaluate_a_copy,
    "try and finally": evaluate_in_try,
    "PyTorch's tutorial": evaluate_of_the_tutorial,
    "a list of batches": lambda model, batches: evaluate_of_the_tutorial(model, list(batches)),
    "decorated": torch.no_grad()(evaluate_like(contextlib.nullcontext)),
    "inference, decorated": torch.inference_mode()(evaluate_like(contextlib.nullcontext)),
    "steps": evaluate_from(),
    "oracle": oracle_evaluate,
}


def evaluation_case(name, rng, what, sizes, kind="list", channels=2, side=3, classes=4):
    seed = int(rng.integers(99))
    drawn = data(rng, sizes, seed, False, channels, side, classes, scale=1.0)
    return Case(name, (what, *drawn, kind, classes, seed))


def evaluate_mean_cases(rng):
    return [
        evaluation_case("one batch", rng, "means", (17,)),
        evaluation_case("a last batch of another size", rng, "means", (12, 12, 12, 5)),
        evaluation_case("a generator", rng, "means", (14, 14, 4), "generator", 1, 4, 3),
    ]


def evaluate_unchanged_cases(rng):
    return [
        evaluation_case("a model in each mode", rng, "unchanged", (4, 4, 3)),
        evaluation_case("3 channels", rng, "unchanged", (5, 2), "generator", 3, 2, 5),
    ]


def evaluate_visible_cases(rng):
    images, labels, sizes = data(rng, (6, 6, 4), 0, False, channels=1, side=2, classes=3, scale=1.0)
    images = np.round(images, 2)
    return [
        Case("one batch", ("means", images, labels, np.array([16]), "list", 3, 0)),
        Case("3 batches", ("means", images, labels, sizes, "generator", 3, 0)),
        Case("what is left behind", ("unchanged", images, labels, sizes, "list", 3, 0)),
    ]


EVALUATE = ExerciseInTorch(
    name="evaluate",
    names=(),
    oracle=oracle_evaluate,
    build=evaluate_from,
    mutants=EVALUATE_MUTANTS,
    stages={"means": evaluate_mean_cases, "unchanged": evaluate_unchanged_cases},
    visible=evaluate_visible_cases,
    correct=CORRECT_EVALUATE,
    probe=probes.probe_evaluate,
)

# ------------------------------------------------------------------------------------------------ attention_rollout


def oracle_rollout(weights):
    """One image at a time, a row goes back through the blocks from the last to the first."""
    weights, rows = weights.double().numpy(), []
    for image in range(weights.shape[1]):
        row = np.eye(weights.shape[-1])[0]
        for block in weights[::-1, image]:
            row = 0.5 * row + 0.5 * sum(row @ head for head in block) / len(block)
        rows.append(row)
    return torch.tensor(np.array(rows))


def rollout_from(
    change=lambda weights: weights,
    of_heads=lambda weights: weights.mean(dim=2),
    mix=lambda blocks: (blocks + torch.eye(blocks.shape[-1]).to(blocks)) / 2,
    combine=lambda later, earlier: later @ earlier,
    together=None,
    read=lambda rollout: rollout[:, 0],
    finish=lambda row: row,
):
    def attention_rollout(weights):
        mixing = mix(of_heads(change(weights)))  # (depth, B, N, N)
        if together is not None:
            return finish(read(together(mixing)))
        rollout = mixing[0]
        for block in mixing[1:]:
            rollout = combine(block, rollout)
        return finish(read(rollout))

    return attention_rollout


def identity_of(blocks):
    return torch.eye(blocks.shape[-1]).to(blocks)


def halved_in_place(weights):
    weights /= 2
    return 2 * weights


def patches_alone(row):
    return row[:, 1:]


ROLLOUT_MUTANTS = (
    Mutant("M15", change=halved_in_place),
    Mutant("M147", of_heads=lambda weights: weights.amax(dim=2)),
    Mutant(
        "M147",
        of_heads=lambda weights: weights.amax(dim=2),
        mix=lambda blocks: (blocks + identity_of(blocks)) / (blocks + identity_of(blocks)).sum(dim=-1, keepdim=True),
    ),
    Mutant(
        "M147",
        of_heads=lambda weights: weights.amin(dim=2),
        mix=lambda blocks: (blocks + identity_of(blocks)) / (blocks + identity_of(blocks)).sum(dim=-1, keepdim=True),
    ),
    Mutant("M147", of_heads=lambda weights: weights.amin(dim=2)),
    Mutant("M147", of_heads=lambda weights: weights.sum(dim=2)),
    Mutant("M147", of_heads=lambda weights: weights[:, :, 0]),
    Mutant("M147", of_heads=lambda weights: weights[:, :, -1]),
    Mutant("M148", mix=lambda blocks: blocks),
    Mutant("M148", mix=lambda blocks: (blocks + 1) / (blocks + 1).sum(dim=-1, keepdim=True)),
    Mutant("M148", mix=lambda blocks: (blocks + 1) / 2),
    Mutant("M149", mix=lambda blocks: blocks + identity_of(blocks)),
    Mutant(
        "M149",
        mix=lambda blocks: (blocks + identity_of(blocks)) / (blocks + identity_of(blocks)).sum(dim=-2, keepdim=True),
    ),
    Mutant("M150", combine=lambda later, earlier: earlier @ later),
    Mutant("M151", read=lambda rollout: rollout[:, :, 0]),
    Mutant("M151", read=lambda rollout: rollout.mean(dim=1)),
    Mutant("M151", read=lambda rollout: rollout[:, -1]),
    Mutant("M151", read=lambda rollout: rollout),
    Mutant("M152", together=lambda mixing: mixing.mean(dim=0)),
    Mutant("M152", together=lambda mixing: mixing[-1]),
    Mutant("M152", together=lambda mixing: mixing[0]),
    Mutant("M152", combine=lambda later, earlier: later * earlier),
    Mutant("M152", combine=lambda later, earlier: later + earlier),
    Mutant("M153", finish=patches_alone),
    Mutant("M153", finish=lambda row: row[:, 1:] / row[:, 1:].sum(dim=-1, keepdim=True)),
    Mutant("M153", finish=lambda row: row / row.amax(dim=-1, keepdim=True)),
)


def rollout_of_jacobgil(weights):
    """Heads fused by their mean, rows normalised by their sums."""
    result = torch.eye(weights.size(-1), dtype=weights.dtype)
    for attention in weights:
        fused = attention.mean(axis=1)
        a = fused + 1.0 * torch.eye(fused.size(-1), dtype=weights.dtype)
        a = a / a.sum(dim=-1, keepdim=True)
        result = torch.matmul(a, result)
    return result[:, 0, :]


def rollout_backwards(weights):
    row = torch.zeros_like(weights[0, :, 0, 0])  # (B, N)
    row[:, 0] = 1
    for block in weights.mean(2).flip(0):
        row = (row + (row[:, None] @ block)[:, 0]) / 2
    return row


def rollout_by_einsum(weights):
    mean = torch.einsum("lbhij->lbij", weights) / weights.shape[2]
    mixing = 0.5 * mean + 0.5 * torch.eye(mean.shape[-1], dtype=mean.dtype)
    rollout = torch.eye(mean.shape[-1], dtype=mean.dtype).repeat(mean.shape[1], 1, 1)
    for index in range(len(mixing)):
        rollout = torch.einsum("bij,bjk->bik", mixing[index], rollout)
    return rollout[:, 0]


def rollout_image_by_image(weights):
    rows = []
    for image in range(weights.shape[1]):
        blocks = [(block.mean(0) + torch.eye(block.shape[-1], dtype=block.dtype)) / 2 for block in weights[:, image]]
        rows.append(torch.linalg.multi_dot([*blocks[::-1], torch.eye(len(blocks[0]), dtype=weights.dtype)])[0])
    return torch.stack(rows)


def rollout_in_numpy(weights):
    array = weights.detach().cpu().numpy().mean(axis=2)
    array = (array + np.eye(array.shape[-1])) / 2
    rollout = array[-1]
    for block in array[-2::-1]:
        rollout = rollout @ block
    return torch.from_numpy(rollout[:, 0]).to(weights.dtype)


def rollout_by_recursion(weights):
    mixing = weights.mean(dim=2)
    mixing.diagonal(dim1=-2, dim2=-1).add_(1)

    def roll(index):
        return mixing[index] / 2 if index == 0 else mixing[index] / 2 @ roll(index - 1)

    return roll(len(mixing) - 1).select(1, 0)


def rollout_transposed(weights):
    """Columns in place of rows, from the first block on."""
    mixing = (weights.mean(2) + torch.eye(weights.shape[-1], dtype=weights.dtype)).mT / 2
    rollout = mixing[0]
    for block in mixing[1:]:
        rollout = rollout @ block
    return rollout[:, :, 0]


def rollout_in_double(weights):
    return rollout_of_jacobgil(weights.double()).to(weights.dtype)


def rollout_by_powers_of_two(weights):
    """The halves come at the end."""
    mixing = weights.mean(2) + torch.diag(torch.ones(weights.shape[-1], dtype=weights.dtype))
    rollout = mixing[0].clone()
    for block in mixing[1:]:
        rollout = torch.bmm(block, rollout)
    return rollout[:, 0] / 2 ** len(mixing)


def rollout_mixing(weights):
    return [torch.lerp(block.mean(1), torch.eye(block.shape[-1], dtype=block.dtype), 0.5) for block in weights]


CORRECT_ROLLOUT = {
    "answer": answers.attention_rollout,
    "normalised by sums": rollout_of_jacobgil,
    "backwards": rollout_backwards,
    "einsum": rollout_by_einsum,
    "image by image": rollout_image_by_image,
    "NumPy": rollout_in_numpy,
    "recursion": rollout_by_recursion,
    "transposed": rollout_transposed,
    "float64": rollout_in_double,
    "halved at the end": rollout_by_powers_of_two,
    "normalised once more": lambda weights: F.normalize(rollout_by_einsum(weights), p=1, dim=-1),
    "functools": lambda weights: reduce(torch.matmul, reversed(rollout_mixing(weights)))[:, 0],
    "steps": rollout_from(),
    "oracle": oracle_rollout,
}


def draw_weights(rng, *shape):
    """Draw weights: (depth, B, H, N, N), each row a softmax."""
    scores = np.exp(1.5 * rng.normal(size=(*shape, shape[-1])))
    return scores / scores.sum(axis=-1, keepdims=True)


def rollout_one_block_cases(rng):
    return [
        Case(
            "one block of 3 heads",
            (
                "rollout",
                draw_weights(rng, 1, 2, 3, 5),
            ),
        ),
        Case(
            "one block of one head",
            (
                "rollout",
                draw_weights(rng, 1, 4, 1, 3),
            ),
        ),
    ]


def rollout_value_cases(rng):
    return [
        Case(
            "3 blocks, 4 heads",
            (
                "rollout",
                draw_weights(rng, 3, 2, 4, 5),
            ),
        ),
        Case(
            "4 blocks, 3 images",
            (
                "rollout",
                draw_weights(rng, 4, 3, 2, 6),
            ),
        ),
    ]


def rollout_edge_cases(rng):
    sharp = draw_weights(rng, 2, 3, 2, 4) ** 8
    return [
        Case(
            "as many images as heads and blocks",
            (
                "rollout",
                draw_weights(rng, 3, 3, 3, 4),
            ),
        ),
        Case(
            "two tokens",
            (
                "rollout",
                draw_weights(rng, 5, 1, 2, 2),
            ),
        ),
        Case(
            "weights near 0 and 1",
            (
                "rollout",
                sharp / sharp.sum(axis=-1, keepdims=True),
            ),
        ),
    ]


def rollout_visible_cases(rng):
    by_hand = np.array([[[[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]]]])  # one block, one head
    return [
        Case(
            "one block, one head",
            (
                "rollout",
                by_hand,
            ),
        ),
        Case(
            "one block, 2 heads",
            (
                "rollout",
                np.round(draw_weights(rng, 1, 1, 2, 3), 9),
            ),
        ),
        Case(
            "3 blocks, 2 images, 2 heads",
            (
                "rollout",
                np.round(draw_weights(rng, 3, 2, 2, 4), 9),
            ),
        ),
    ]


ROLLOUT = ExerciseInTorch(
    name="attention_rollout",
    names=(),
    oracle=oracle_rollout,
    build=rollout_from,
    mutants=ROLLOUT_MUTANTS,
    stages={"one_block": rollout_one_block_cases, "values": rollout_value_cases, "edges": rollout_edge_cases},
    visible=rollout_visible_cases,
    correct=CORRECT_ROLLOUT,
    probe=probes.on_tensors,
)

HELPERS = (probes,)  # in the set-up cell too
EXERCISES = {exercise.name: exercise for exercise in (PATCHIFY, PATCH_EMBEDDING, VIT, TRAIN_EPOCH, EVALUATE, ROLLOUT)}
check = checker(EXERCISES)

"""Right answers of assignment 4_vit, written differently: patchify, PatchEmbedding, ViT."""

import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.vit import oracles, stand_ins
from solutions import vit as answers
from solutions.vit import Encoder

# ------------------------------------------------------------------------------------------------------------- patchify


def patchify_by_permute(images, patch_size):
    batch, channels, height, width = images.shape
    if height % patch_size != 0 or width % patch_size != 0:
        raise ValueError("patches do not tile the images")
    rows, columns = height // patch_size, width // patch_size
    x = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, channels * patch_size * patch_size)


def patchify_by_transposes(images, patch_size):
    batch, channels, height, width = stand_ins.refuse_untiled(images, patch_size).shape
    x = images.view(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    x = x.transpose(1, 2).transpose(2, 4).transpose(3, 4)  # (B, rows, columns, C, P, P)
    return x.contiguous().view(batch, -1, channels * patch_size**2)


def patchify_in_loops(images, patch_size):
    stand_ins.refuse_untiled(images, patch_size)
    patches = []
    for top in range(0, images.shape[2], patch_size):
        for left in range(0, images.shape[3], patch_size):
            patches.append(images[:, :, top : top + patch_size, left : left + patch_size].flatten(1))
    return torch.stack(patches, dim=1)


def patchify_pixel_by_pixel(images, patch_size):
    stand_ins.refuse_untiled(images, patch_size)
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
    stand_ins.refuse_untiled(images, patch_size)
    windows = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)


def patchify_by_chunks(images, patch_size):
    stand_ins.refuse_untiled(images, patch_size)
    rows = images.chunk(images.shape[2] // patch_size, dim=2)
    patches = [patch for row in rows for patch in row.chunk(images.shape[3] // patch_size, dim=3)]
    return torch.cat([patch.reshape(len(images), 1, -1) for patch in patches], dim=1)


def patchify_by_convolution(images, patch_size):
    """Use a convolution whose kernels are the rows of the unit matrix."""
    stand_ins.refuse_untiled(images, patch_size)
    size = images.shape[1] * patch_size**2
    kernels = torch.eye(size, dtype=images.dtype).view(size, images.shape[1], patch_size, patch_size)
    return F.conv2d(images, kernels, stride=patch_size).flatten(2).transpose(1, 2)


def patchify_by_einsum(images, patch_size):
    batch, channels, height, width = stand_ins.refuse_untiled(images, patch_size).shape
    x = images.reshape(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    return torch.einsum("bcrpqs->brqcps", x).reshape(batch, -1, channels * patch_size**2)


def patchify_image_by_image(images, patch_size):
    return torch.stack([patchify_by_permute(image[None], patch_size)[0] for image in images])


def patchify_by_pixel_unshuffle(images, patch_size):
    """Use pixel_unshuffle, which gives (B, C·P·P, rows, columns)."""
    return F.pixel_unshuffle(stand_ins.refuse_untiled(images, patch_size), patch_size).flatten(2).permute(0, 2, 1)


PATCHIFY = {
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
    "pixel_unshuffle": patchify_by_pixel_unshuffle,
    "nn.Unfold": lambda images, patch_size: nn.Unfold(patch_size, stride=patch_size)(
        stand_ins.refuse_untiled(images, patch_size)
    ).transpose(1, 2),
    "oracle": stand_ins.patchify,
}


# ------------------------------------------------------------------------------------------------------- PatchEmbedding


def embed_like(forward):
    """Make a PatchEmbedding whose forward is this function."""

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
    size = module.patch_size
    grid = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # (B, C, rows, P, columns, P)
    tokens = torch.einsum("bcrpqs,dcps->brqd", grid, module.projection.weight) + module.projection.bias
    return tokens.flatten(1, 2)


class EmbeddingOfTimm(answers.PatchEmbedding):
    """Has sizes with defaults, truncated normal weights and an nn.Identity for the norm, as timm's PatchEmbed."""

    def __init__(self, image_size=28, patch_size=7, channels=1, width=64):
        super().__init__(image_size=image_size, patch_size=patch_size, channels=channels, width=width)
        self.norm = nn.Identity()
        nn.init.trunc_normal_(self.projection.weight, std=0.02)

    def forward(self, x):
        return self.norm(super().forward(x))


def embed_as_hugging_face(module, pixel_values):
    """Check the number of channels too, as Hugging Face's layer does."""
    if pixel_values.shape[1] != module.projection.in_channels:
        raise ValueError("images with other channels")
    return module.projection(pixel_values).flatten(2).transpose(1, 2)


def embed_by_a_product(module, images):
    patches = stand_ins.patchify(images, module.patch_size)
    weight = module.projection.weight.reshape(len(module.projection.weight), -1)
    products = patches @ weight.T
    return products + module.projection.bias


PATCH_EMBEDDING = {
    "answer": answers.PatchEmbedding,
    "reshape and permute": embed_like(embed_by_reshape),
    "patchify and linear": embed_like(
        lambda module, images: F.linear(
            answers.patchify(images, module.patch_size), module.projection.weight.flatten(1), module.projection.bias
        )
    ),
    "patchify and a product": embed_like(embed_by_a_product),
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
    "timm": EmbeddingOfTimm,
    "Hugging Face": embed_like(embed_as_hugging_face),
    "oracle": stand_ins.PatchEmbedding,
}


# ------------------------------------------------------------------------------------------------------------------ ViT


def vit_like(forward, start=None):
    """Make a ViT whose forward is this function. Its __init__ makes the parts in another order than the answer does."""

    class ViT(nn.Module):
        def __init__(self, *, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                     hidden_width=128, dropout=0.0):  # fmt: skip
            super().__init__()
            self.head = nn.Linear(width, num_classes)
            self.encoder = Encoder(depth, width, num_heads, hidden_width, dropout)
            self.position_embedding = nn.Parameter(torch.zeros(1, (image_size // patch_size) ** 2 + 1, width))
            self.class_token = nn.Parameter(torch.randn(1, 1, width))
            self.patch_embedding = stand_ins.PatchEmbedding(
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
    """Add the positions to the class token and to the patches before joining them."""
    first = (self.class_token + self.position_embedding[:, :1]).expand(images.shape[0], 1, -1)
    patches = self.patch_embedding(images) + self.position_embedding[:, 1:]
    tokens = F.dropout(torch.cat((first, patches), 1), self.dropout.p, self.training)
    return F.linear(self.encoder(tokens).select(1, 0), self.head.weight, self.head.bias)


def vit_by_stack(self, images):
    tokens = [self.class_token[0, 0].expand(len(images), -1), *self.patch_embedding(images).unbind(1)]
    tokens = torch.stack([t + p for t, p in zip(tokens, self.position_embedding[0])], dim=1)
    return self.head(self.encoder(self.dropout(tokens)))[:, 0]  # every token gets scores, and only one token is read


def vit_in_a_buffer(self, images):
    """Write tokens into a tensor."""
    patches = self.patch_embedding(images)
    tokens = patches.new_zeros(len(images), 1 + patches.shape[1], patches.shape[2])
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
    return self.head(self.encoder.norm(x[:, 0]))  # a norm acts on each token separately


def vit_by_functions(self, images):
    projection = self.patch_embedding.projection
    x = F.conv2d(images, projection.weight, projection.bias, projection.stride).flatten(2).mT
    x = torch.hstack([torch.tile(self.class_token, (len(x), 1, 1)), x]) + self.position_embedding
    x = self.encoder.norm(self.encoder.blocks(self.dropout(x)))
    return torch.einsum("bd,cd->bc", x[:, 0], self.head.weight) + self.head.bias


def vit_with_methods(self, images):
    """Compute the features and the head in separate functions, as timm does."""

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


class ViTWithOwnTypes(answers.ViT):
    """Accepts sizes without names too, and casts the images."""

    def __init__(self, image_size=28, patch_size=7, channels=1, num_classes=10, width=64, depth=6, num_heads=8,
                 hidden_width=128, dropout=0.0):  # fmt: skip
        super().__init__(image_size=image_size, patch_size=patch_size, channels=channels, num_classes=num_classes,
                         width=width, depth=depth, num_heads=num_heads, hidden_width=hidden_width, dropout=dropout)  # fmt: skip
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels=None):
        scores = super().forward(images.to(self.class_token.dtype))
        return scores if labels is None else (scores, self.loss(scores, labels))


VIT = {
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
    "with labels": ViTWithOwnTypes,
    "oracle": oracles.TorchvisionViT,
}

"""The cases of assignment 4_vit, for the hidden stages and the visible tests."""

import numpy as np
import torch
from attention_tests import vit_measures as measures

from autograder.judge.exercise import Case

# ------------------------------------------------------------------------------------------------------------- patchify


PATCHIFY = {
    # The first has as many patches as pixels in each patch: a mistake then gives the right shape.
    "values": lambda rng: [
        Case("as many patches as pixels", ("patches", rng.normal(size=(3, 1, 4, 4)), 2)),
        Case("4 images of 6×6, patches of 3×3", ("patches", rng.normal(size=(4, 1, 6, 6)), 3)),
        Case("2 images of 12×12, patches of 4×4", ("patches", rng.normal(size=(2, 1, 12, 12)), 4)),
        Case("the image is one patch", ("patches", rng.normal(size=(2, 1, 3, 3)), 3)),
    ],
    "channels": lambda rng: [
        Case("3 channels", ("patches", rng.normal(size=(2, 3, 12, 12)), 4)),
        Case("2 channels, 5 images", ("patches", rng.normal(size=(5, 2, 6, 6)), 2)),
        Case("one image, patches of one pixel", ("patches", rng.normal(size=(1, 3, 4, 4)), 1)),
    ],
    "edges": lambda rng: [
        Case("images of 6×10", ("patches", rng.normal(size=(3, 2, 6, 10)), 2)),
        Case("images of 12×4", ("patches", rng.normal(size=(2, 1, 12, 4)), 4)),
        Case("patches that do not tile the height", ("patches", rng.normal(size=(2, 1, 5, 4)), 2), "M123"),
        Case("patches that do not tile the width", ("patches", rng.normal(size=(2, 3, 6, 8)), 3), "M123"),
    ],
}


def patchify_visible_cases(rng):
    numbered = np.arange(16.0).reshape(1, 1, 4, 4)
    return [
        Case("pixels 0 … 15, patches of 2×2", ("patches", numbered, 2)),
        Case("2 images of 3 channels, 4×6", ("patches", np.round(rng.normal(size=(2, 3, 4, 6)), 2), 2)),
        Case("an image that is one patch", ("patches", numbered[..., :2, :2], 2)),
        Case("patches of 2×2, an image of 3×4", ("patches", numbered[..., :3, :], 2), "M123"),
        Case("patches of 2×2, an image of 4×3", ("patches", numbered[..., :3], 2), "M123"),
    ]


# ------------------------------------------------------------------------------------------------------- PatchEmbedding


def sizes_of_embedding(image_size, patch_size, channels, width):
    return {"image_size": image_size, "patch_size": patch_size, "channels": channels, "width": width}


def embedding_case(name, rng, what, shape, sizes, seed, *mistake):
    return Case(name, (what, rng.normal(size=shape), sizes_of_embedding(*sizes), seed), *mistake)


def embedding_edge_cases(rng):
    sizes = 12, 4, 1, 5
    return [
        embedding_case("patches that do not tile", rng, "output", (2, 1, 7, 7), (7, 3, 1, 5), 7, "M123"),
        embedding_case("images of another size", rng, "output", (2, 1, 8, 8), sizes, 8, "M123"),
        embedding_case("images of another width", rng, "output", (2, 1, 12, 8), sizes, 8, "M123"),
        embedding_case("images of another height", rng, "output", (2, 1, 8, 12), sizes, 8, "M123"),
        embedding_case("images of as many pixels", rng, "output", (2, 1, 4, 36), sizes, 8, "M123"),
        embedding_case("images of the right size", rng, "runs", (2, 1, 12, 12), sizes, 8),
    ]


PATCH_EMBEDDING = {
    "values": lambda rng: [
        embedding_case("as many patches as components", rng, "output", (3, 1, 4, 4), (4, 2, 1, 4), 1),
        embedding_case("3 channels, patches of 4×4", rng, "output", (2, 3, 12, 12), (12, 4, 3, 5), 2),
        embedding_case("patches of 2×2", rng, "output", (5, 2, 6, 6), (6, 2, 2, 7), 3),
        embedding_case("the image is one patch", rng, "output", (2, 3, 4, 4), (4, 4, 3, 5), 6),
        embedding_case("a width divisible by the number of channels", rng, "output", (3, 2, 4, 4), (4, 2, 2, 6), 7),
    ],
    "learning": lambda rng: [
        embedding_case("as many patches as components", rng, "learning", (3, 1, 4, 4), (4, 2, 1, 4), 4),
        embedding_case("gradients and learned parameters", rng, "learning", (2, 3, 6, 6), (6, 2, 3, 5), 5),
        embedding_case("parameters", rng, "parts", (2, 3, 6, 6), (6, 3, 2, 5), 5),
    ],
    "edges": embedding_edge_cases,
}


def embedding_visible_cases(rng):
    square, images = np.round(rng.normal(size=(2, 1, 4, 4)), 2), np.round(rng.normal(size=(2, 3, 4, 4)), 2)
    one, three = sizes_of_embedding(4, 2, 1, 4), sizes_of_embedding(4, 2, 3, 6)
    return [
        Case("2 images of 4×4, patches of 2×2", ("output", square, one)),
        Case("3 channels", ("output", images, three)),
        Case("gradients", ("learning", images, three)),
        Case("parameters", ("parts", square, three)),
        Case("patches of 3×3, images of 4×4", ("output", square, one | {"patch_size": 3}), "M123"),
        Case("images of 4×4 instead of 6×6", ("output", square, one | {"image_size": 6}), "M123"),
    ]


# ------------------------------------------------------------------------------------------------------------------ ViT


def sizes_of_vit(*sizes):
    names = "image_size", "patch_size", "channels", "num_classes", "width", "depth", "num_heads", "hidden_width"
    return dict(zip(names, sizes, strict=True))


SMALL, OTHER = sizes_of_vit(6, 2, 3, 5, 12, 2, 4, 7), sizes_of_vit(12, 4, 1, 7, 15, 3, 5, 6)
THIRD = sizes_of_vit(8, 4, 2, 4, 9, 1, 3, 11)
DEFAULTS = sizes_of_vit(28, 7, 1, 10, 64, 6, 8, 128)
# The cases of dropout have few tokens, and the head shows every number of a token. So a few images give 2000 numbers.
DROPPED = SMALL | {"image_size": 4, "num_classes": 12}, OTHER | {"image_size": 8, "num_classes": 15}


def draw_images(rng, count, sizes):
    return rng.normal(size=(count, sizes["channels"], sizes["image_size"], sizes["image_size"]))


def vit_cases(rng, what, *rest, of=(SMALL, OTHER)):
    """Draw a case for each of two sizes, with different images and parameters."""
    return [
        Case(name, (what, draw_images(rng, count, sizes), sizes, int(rng.integers(99)), *rest))
        for name, count, sizes in zip(("patches of 2×2, 3 channels", "patches of 4×4, one channel"), (4, 2), of)
    ]


VIT = {
    "parts": lambda rng: [
        Case("patches of 2×2, 3 channels", ("parts", draw_images(rng, 1, SMALL), SMALL)),
        Case("ViT(), without arguments", ("defaults", draw_images(rng, 1, DEFAULTS), DEFAULTS)),
    ],
    "reading": lambda rng: vit_cases(rng, "reading"),
    "positions": lambda rng: vit_cases(rng, "positions"),
    "values": lambda rng: [
        *vit_cases(rng, "output"),
        Case("one image, one block", ("output", draw_images(rng, 1, THIRD), THIRD, 5)),
    ],
    "learning": lambda rng: vit_cases(rng, "learning"),
    "dropout": lambda rng: vit_cases(rng, "dropout", 0.3, of=DROPPED),
}


def vit_visible_cases(rng):
    sizes = sizes_of_vit(6, 2, 3, 4, 8, 2, 2, 7)
    images = np.round(draw_images(rng, 2, sizes), 2)
    return [
        Case("shapes of the parts", ("parts", images[:1], sizes)),
        Case("positions", ("positions", images, sizes)),
        Case("the token that the classifier reads", ("reading", images, sizes)),
        Case("2 images, patches of 2×2, 3 channels", ("output", images, sizes)),
        Case("gradients", ("learning", images, sizes)),
        Case("dropout of 0.3", ("dropout", images, sizes, 0, 0.3), has_line=False),
        Case("ViT(), without arguments", ("defaults", images[:1], DEFAULTS)),
    ]


# ---------------------------------------------------------------------------------------------------------- train_epoch


def data(rng, sizes, seed, training, channels=2, side=3, classes=4, scale=0.5):
    """Draw images and labels; the model of this seed is right for most labels, so no accuracy is near chance."""
    images = scale * rng.normal(size=(sum(sizes), channels, side, side))
    with torch.no_grad():
        scores = measures.model_by_mode(images.shape[1:], classes, seed).train(training)(measures.tensor(images))
    guesses = rng.permutation(np.arange(sum(sizes)) % classes)
    labels = np.where(rng.random(sum(sizes)) < 0.7, scores.argmax(dim=-1).numpy(), guesses)
    return images, labels, np.array(sizes)


def epoch_case(name, rng, what, sizes, kind="list", rate=1.0, channels=2, side=3, classes=4):
    seed = int(rng.integers(99))
    drawn = data(rng, sizes, seed, True, channels, side, classes)
    return Case(name, (what, *drawn, kind, classes, rate, seed))


def overfit_case(rng):
    drawn = rng.normal(size=(64, 1, 4, 4)), rng.integers(5, size=64), np.array([16] * 4)
    return Case("64 images, trained until they are learned", ("overfit", *drawn, "list", 5, 0, 0))


TRAIN_EPOCH = {
    "steps": lambda rng: [
        epoch_case("one batch", rng, "steps", (6,)),
        epoch_case("4 batches", rng, "steps", (5, 5, 5, 2)),
        epoch_case("3 batches of 3 channels", rng, "steps", (7, 7, 4), channels=3, side=2, classes=5),
        overfit_case(rng),
    ],
    # cases whose means a wrong step cannot change: the rate is 0, or there is a single batch.
    "means": lambda rng: [
        epoch_case("one batch", rng, "means", (17,), rate=2.0),
        epoch_case("a last batch of another size", rng, "means", (12, 12, 12, 5), rate=0.0),
        epoch_case("a generator", rng, "means", (14, 14, 4), "generator", rate=0.0, channels=1, side=4, classes=3),
    ],
}


def train_visible_cases(rng):
    images, labels, sizes = data(rng, (5, 5, 2), 0, True, channels=1, side=2, classes=3)
    images, one = np.round(images, 2), np.array([12])
    return [
        Case("one batch", ("steps", images, labels, one, "list", 3, 1.0, 0)),
        Case("3 batches", ("steps", images, labels, sizes, "list", 3, 1.0, 0)),
        Case("one batch, the returned means", ("means", images, labels, one, "list", 3, 2.0, 0)),
        Case("3 batches, the returned means", ("means", images, labels, sizes, "generator", 3, 0.0, 0)),
    ]


# ------------------------------------------------------------------------------------------------------------- evaluate


def evaluation_case(name, rng, what, sizes, kind="list", channels=2, side=3, classes=4):
    seed = int(rng.integers(99))
    drawn = data(rng, sizes, seed, False, channels, side, classes, scale=1.0)
    return Case(name, (what, *drawn, kind, classes, seed))


EVALUATE = {
    "means": lambda rng: [
        evaluation_case("one batch", rng, "means", (17,)),
        evaluation_case("a last batch of another size", rng, "means", (12, 12, 12, 5)),
        evaluation_case("a generator", rng, "means", (14, 14, 4), "generator", 1, 4, 3),
    ],
    "unchanged": lambda rng: [
        evaluation_case("a model in each mode", rng, "unchanged", (4, 4, 3)),
        evaluation_case("3 channels", rng, "unchanged", (5, 2), "generator", 3, 2, 5),
    ],
}


def evaluate_visible_cases(rng):
    images, labels, sizes = data(rng, (6, 6, 4), 0, False, channels=1, side=2, classes=3, scale=1.0)
    images = np.round(images, 2)
    return [
        Case("one batch", ("means", images, labels, np.array([16]), "list", 3, 0)),
        Case("3 batches", ("means", images, labels, sizes, "generator", 3, 0)),
        Case("changes to the model", ("unchanged", images, labels, sizes, "list", 3, 0)),
    ]


# ---------------------------------------------------------------------------------------------------- attention_rollout


def draw_weights(rng, *shape):
    """Draw weights, (depth, B, H, N, N); each row is a softmax."""
    scores = np.exp(1.5 * rng.normal(size=(*shape, shape[-1])))
    return scores / scores.sum(axis=-1, keepdims=True)


def rollout_edge_cases(rng):
    sharp = draw_weights(rng, 2, 3, 2, 4) ** 8
    return [
        Case("as many images as heads and blocks", ("rollout", draw_weights(rng, 3, 3, 3, 4))),
        Case("two tokens", ("rollout", draw_weights(rng, 5, 1, 2, 2))),
        Case("weights near 0 and 1", ("rollout", sharp / sharp.sum(axis=-1, keepdims=True))),
    ]


ROLLOUT = {
    "one_block": lambda rng: [
        Case("one block of 3 heads", ("rollout", draw_weights(rng, 1, 2, 3, 5))),
        Case("one block of one head", ("rollout", draw_weights(rng, 1, 4, 1, 3))),
    ],
    "values": lambda rng: [
        Case("3 blocks, 4 heads", ("rollout", draw_weights(rng, 3, 2, 4, 5))),
        Case("4 blocks, 3 images", ("rollout", draw_weights(rng, 4, 3, 2, 6))),
    ],
    "edges": rollout_edge_cases,
}


def rollout_visible_cases(rng):
    by_hand = np.array([[[[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]]]])  # one block, one head
    return [
        Case("one block, one head", ("rollout", by_hand)),
        Case("one block, 2 heads", ("rollout", np.round(draw_weights(rng, 1, 1, 2, 3), 9))),
        Case("3 blocks, 2 images, 2 heads", ("rollout", np.round(draw_weights(rng, 3, 2, 2, 4), 9))),
    ]

"""The steps of the exercises of assignment 4_vit; `autograder/checks/steps.py` says what a step is."""

import numpy as np
import torch
import torch.nn.functional as F
from attention_tests import vit as asks

from autograder.checks.steps import Array, Steps, arrays, in_float64
from autograder.checks.vit import oracles, stand_ins

FORWARD = ("output", "learning")  # the values of `what` for which there are steps


@in_float64
def patch_embedding(what: str, images: Array, sizes: dict, seed: int = 0) -> Steps | None:
    if what not in FORWARD or np.shape(images)[-2:] != (sizes["image_size"], sizes["image_size"]):
        return None
    module = stand_ins.PatchEmbedding(**sizes)
    asks.load(module, asks.shapes_of_projection(sizes), seed)
    images = asks.float_tensor(images)
    patches = F.unfold(images, module.patch_size, stride=module.patch_size).mT
    return arrays({"are the patches": patches, "are the tokens": module(images)})


@in_float64
def vit(what: str, images: Array, sizes: dict, seed: int = 0, dropout: float = 0.0) -> Steps | None:
    if what not in FORWARD:
        return None
    module = oracles.TorchvisionViT(**sizes).eval()
    asks.load(module, asks.shapes_of_vit(sizes), seed)
    images = asks.float_tensor(images)
    patches = module.model.conv_proj(images).flatten(2).mT
    tokens = torch.cat([module.class_token.expand(len(images), -1, -1), patches], dim=1)
    stream = tokens + module.position_embedding
    steps = {
        "are the tokens of the patches": patches,
        "are the class token and the tokens of the patches": tokens,
        "are the tokens with their positions": stream,
    }
    for number, block in enumerate(module.model.encoder.layers, 1):
        stream = block(stream)
        steps[f"is the stream after block {number}"] = stream
    normed = module.model.encoder.ln(stream)
    return arrays(
        steps
        | {
            "is the result of the encoder": normed,
            "are the class tokens after the encoder": normed[:, 0],
            "is the output": module.head(normed[:, 0]),
        }
    )


@in_float64
def attention_rollout(_name: str, weights: Array) -> Steps:
    mean = np.asarray(weights, dtype=float).mean(axis=2)
    eye = np.eye(mean.shape[-1])
    steps = {
        "are the mean weights of the heads": mean,
        "are the mean weights plus the identity": mean + eye,
        "are the mixing matrices of the blocks": (mean + eye) / 2,
    }
    rollout = steps["are the mixing matrices of the blocks"][0]
    for number, block in enumerate(steps["are the mixing matrices of the blocks"][1:], 2):
        rollout = block @ rollout
        steps[f"is the rollout of {number} blocks"] = rollout
    return steps | {"is the output": rollout[:, 0]}

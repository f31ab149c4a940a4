"""Oracles of assignment 4_vit: right results, computed by other methods than in the answers.

They use torchvision's VisionTransformer, loops over single images, and products of a row with matrices. The oracles of
patchify and PatchEmbedding are in `stand_ins.py`.
"""

import copy
from functools import partial

import numpy as np
import torch
from torch import nn
from torchvision.models import VisionTransformer

# ------------------------------------------------------------------------------------------------------------------ ViT


def group(**parts):
    """Return a module with these parts, which are modules or parameters."""
    made = nn.Module()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


class TorchvisionViT(nn.Module):
    """The model of torchvision, with its parameters under the names of the exercise."""

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


# --------------------------------------------------------------------------------------------- train_epoch and evaluate


def oracle_train_epoch(model, batches, optimizer):
    """Compute the loss of each image as minus the log-softmax, and follow the gradient of their mean."""
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
    """Evaluate a copy, image by image."""
    model, losses, right = copy.deepcopy(model).eval(), [], []
    for images, labels in batches:
        for image, label in zip(images, labels):
            scores = model(image[None])[0].detach().double()
            losses.append(float(-torch.log_softmax(scores, dim=0)[label]))
            right.append(int(scores.argmax()) == int(label))
    return sum(losses) / len(losses), sum(right) / len(right)


# ---------------------------------------------------------------------------------------------------- attention_rollout


def oracle_rollout(weights):
    """For each image, take a row back through the blocks, from the last to the first."""
    weights, rows = weights.double().numpy(), []
    for image in range(weights.shape[1]):
        row = np.eye(weights.shape[-1])[0]
        for block in weights[::-1, image]:
            row = 0.5 * row + 0.5 * sum(row @ head for head in block) / len(block)
        rows.append(row)
    return torch.tensor(np.array(rows))

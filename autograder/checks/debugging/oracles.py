"""Oracles of assignment 5_debugging: right results, computed by other methods than in `solutions/`."""

import numpy as np
import scipy.ndimage
import torch
import torch.nn.functional as F
from einops import reduce
from torch import nn


def train_clipped(model, batches, optimizer, longest):
    losses, parameters = [], list(model.train().parameters())
    for images, labels in batches:
        each = nn.CrossEntropyLoss(reduction="none")(model(images), labels)
        gradients = torch.autograd.grad(each.mean(), parameters)
        length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * min(1.0, longest / float(length))
        optimizer.step()
        losses.append(each.detach())
    return float(torch.cat(losses).mean())


class ResidualStack(nn.Module):
    """Keeps all terms of the stream, and sums them."""

    def __init__(self, inputs, width, depth, classes):
        super().__init__()
        self.embedding, self.head = nn.Linear(inputs, width), nn.Linear(width, classes)
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))

    def forward(self, x):
        terms = [self.embedding(x)]
        for layer in self.layers:
            terms.append(nn.GELU()(layer(sum(terms))))
        return self.head(sum(terms))


class DroppingHead(nn.Module):
    """Has a module for its dropout."""

    def __init__(self, width, classes, dropout):
        super().__init__()
        self.linear, self.drop = nn.Linear(width, classes), nn.Dropout(dropout)

    def forward(self, tokens):
        return self.linear(self.drop(reduce(tokens, "b n d -> b d", "mean")))


def standardise_images(images):
    return torch.stack(
        [
            torch.from_numpy((image - scipy.ndimage.mean(image)) / scipy.ndimage.standard_deviation(image))
            for image in images.numpy()
        ]
    )


@torch.no_grad()
def loss_and_accuracy(model, batches):
    logits, labels = (torch.cat(parts) for parts in zip(*((model.eval()(x), y) for x, y in batches), strict=True))
    return float(F.cross_entropy(logits, labels)), float(np.mean(logits.numpy().argmax(-1) == labels.numpy()))


def pooled(tokens, query, exists):
    queries = query.expand(len(tokens), 1, -1)
    return F.scaled_dot_product_attention(queries, tokens, tokens, attn_mask=exists[:, None])[:, 0]

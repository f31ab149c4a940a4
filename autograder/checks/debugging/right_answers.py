"""Right answers of assignment 5_debugging, written differently: they must pass the checks. No points depend on them."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.debugging import oracles
from autograder.checks.multihead.oracles import with_axes
from solutions import debugging as answers
from solutions import programs

# ------------------------------------------------------------------------------------------------------------ programs


def train_clipped_by_hand(model, batches, optimizer, longest):
    total, count, _ = torch.zeros(()), 0, model.train()
    for images, labels in batches:
        model.zero_grad()
        loss = F.cross_entropy(model(images), labels, reduction="sum")
        (loss / len(labels)).backward()
        length = sum(parameter.grad.square().sum() for parameter in model.parameters()) ** 0.5
        for parameter in model.parameters():
            parameter.grad *= min(1, longest / length)
        optimizer.step()
        total, count = total + loss.detach(), count + len(labels)
    return (total / count).item()


class StackByAppend(nn.Module):
    """Keeps its layers in a list, and registers them one by one."""

    def __init__(self, *, inputs, width, depth, classes):
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.layers = []
        for index in range(depth):
            self.layers.append(nn.Linear(width, width))
            self.add_module(f"layer_{index}", self.layers[-1])
        self.head = nn.Linear(width, classes)

    forward = programs.ResidualStack.forward


class HeadByMode(programs.DroppingHead):
    """Computes the dropout itself."""

    def forward(self, tokens):
        mean = tokens.mean(dim=-2)
        if self.training:
            mean = mean * (torch.rand_like(mean) > self.dropout) / (1 - self.dropout)
        return self.linear(mean)


def standardised_by_std(images):
    flat = images.flatten(1)
    return ((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True, correction=0)).view_as(images)


def both_at_once(model, batches):
    with torch.no_grad():
        model.train(False)
        pairs = [(model(images), labels) for images, labels in batches]
    logits, labels = torch.cat([logits for logits, _ in pairs]), torch.cat([labels for _, labels in pairs])
    return F.cross_entropy(logits, labels), (logits.max(-1).indices == labels).float().mean()


def pooled_by_exponentials(tokens, query, exists):
    scores = (tokens * query).sum(-1) / math.sqrt(len(query))
    largest = scores.where(exists, -torch.inf).amax(dim=1, keepdim=True)
    weights = exists * (scores - largest).clamp(max=0).exp()
    return (weights[..., None] * tokens).sum(1) / weights.sum(1, keepdim=True)


class HeadWithAModule(programs.DroppingHead):
    """Has the layer in its attribute `dropout`, instead of the share."""

    def __init__(self, *, width, classes, dropout):
        super().__init__(width=width, classes=classes, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.linear(self.dropout(tokens.mean(dim=1)))


@torch.inference_mode()
def both_image_by_image(model, batches):
    """Keep the loss of each image, and whether its class is right; return a list."""
    model.eval()
    losses, hits = [], []
    for x, y in batches:
        logs = model(x).log_softmax(-1)
        losses += (-logs[torch.arange(len(y)), y]).tolist()
        hits += (logs.argmax(-1) == y).tolist()
    return [np.mean(losses), np.mean(hits)]


def pooled_with_a_number(tokens, query, exists):
    """Hide with minus a billion instead of minus infinity."""
    scores = torch.where(exists, torch.einsum("bnd,d->bn", tokens, query) / len(query) ** 0.5, -1e9)
    return (scores.softmax(1).unsqueeze(-1) * tokens).sum(1)


PROGRAMS = {
    "train_clipped": {"by hand": train_clipped_by_hand},
    "ResidualStack": {"registered by hand": StackByAppend},
    "DroppingHead": {"by mode": HeadByMode, "nn.Dropout": HeadWithAModule},
    "standardise_images": {
        "std": standardised_by_std,
        "layer norm": lambda images: F.layer_norm(images, images.shape[1:]),
        "vmap": torch.vmap(lambda image: (image - image.mean()) / image.var(correction=0) ** 0.5),
    },
    "loss_and_accuracy": {"all at once": both_at_once, "image by image": both_image_by_image},
    "pooled": {"exponentials": pooled_by_exponentials, "a finite number": pooled_with_a_number},
}  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- tests


def everything(rng):
    """Yield q, k, v and masks of each shape: different and equal sizes, and small and large scores."""
    for images, heads, tokens, width in ((2, 3, 5, 6), (3, 3, 4, 2), (5, 5, 5, 3)):
        for size in (1.0, 40.0):
            q, k, v = (torch.from_numpy(rng.normal(size=(images, heads, tokens, width))).float() for _ in range(3))
            masks = []
            for shape in ((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens)):
                mask = torch.from_numpy(rng.random(shape) < 0.6)
                mask[..., rng.integers(tokens)] = True
                masks.append(mask)
            yield size * q, size * k, v, masks


def refuses(candidate, *arguments):
    try:
        candidate(*arguments)
    except ValueError:
        return True
    return False


def by_sdpa(candidate):
    """Compare with PyTorch's own function in float64, which gives the weights if the values are the identity."""
    for q, k, v, of_all in everything(np.random.default_rng(1)):
        one = torch.eye(k.shape[-2]).expand(*k.shape[:-1], -1)
        for mask in (None, *of_all):
            output, weights = candidate(q, k, v, mask)
            seen = None if mask is None else with_axes(mask)
            for got, values in ((output, v), (weights, one)):
                right = F.scaled_dot_product_attention(q.double(), k.double(), values.double(), attn_mask=seen).float()
                torch.testing.assert_close(got, right, rtol=1e-3, atol=1e-5)
            if mask is not None:
                mask[0, ..., :] = False
                assert refuses(candidate, q, k, v, mask)


def in_numpy(candidate):
    """Compare with NumPy in float64, image by image and head by head."""
    for q, k, v, of_all in everything(np.random.default_rng(2)):
        for mask in (None, *of_all):
            got = [result.numpy() for result in (candidate(q, k, v) if mask is None else candidate(q, k, v, mask=mask))]
            for image, head in np.ndindex(*q.shape[:2]):
                queries, keys, values = (part[image, head].double().numpy() for part in (q, k, v))
                scores = queries @ keys.T / np.sqrt(queries.shape[-1])
                if mask is not None:
                    scores[
                        ~np.broadcast_to(with_axes(mask)[image, head if mask.ndim == 4 else 0], scores.shape)
                    ] = -np.inf
                exponentials = np.exp(scores - scores.max(-1, keepdims=True))
                weights = exponentials / exponentials.sum(-1, keepdims=True)
                np.testing.assert_allclose(got[1][image, head], weights, rtol=2e-3, atol=1e-5)
                np.testing.assert_allclose(got[0][image, head], weights @ values, rtol=2e-3, atol=1e-4)
        for mask in of_all:
            mask[0, ..., :] = False
            assert refuses(candidate, q, k, v, mask), "a row without a key"


TESTS = {
    "answer": answers.test_attention,
    "F.scaled_dot_product_attention": by_sdpa,
    "NumPy, in loops": in_numpy,
}
RIGHT_ANSWERS = {
    name: {"answer": getattr(programs, name), "oracle": getattr(oracles, name)} | others
    for name, others in PROGRAMS.items()
} | {"test_attention": TESTS}

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"super\(\).__init__\(\); |(zero_grad|clip_grad_norm_)\(.*; ": "a second call changes nothing",
    r"(train_clipped|loss_and_accuracy), .*\.item\(\)": "a tensor of one number is accepted too",
    r"loss_and_accuracy, .*\.detach\(\)$": "no gradient was asked for, or there is none",
    r"(loss_and_accuracy|pooled), line \d+: (-1 -> 1|1 -> 0)$": "scores have two axes, and a query has one",
}

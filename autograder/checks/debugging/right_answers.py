"""Right answers to assignment 5_debugging, written differently. No mark depends on them: they show that none is refused."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.debugging import oracles
from autograder.checks.debugging.exercises import EXERCISES
from autograder.checks.multihead.oracles import with_axes
from solutions import debugging as answers
from solutions import programs

# ------------------------------------------------------------------------------------------------------------ programs


def train_shuffled_at_once(model, images, labels, optimizer, order, size):
    images, labels, losses = images[order], labels[order], []
    model.train(True)
    for some, theirs in zip(images.split(size), labels.split(size)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(some), theirs)
        loss.backward()
        optimizer.step()
        losses += [loss.item()] * len(theirs)
    return float(np.mean(losses))


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


def initialise_by_kaiming(model):
    def draw(layer):
        if type(layer) is nn.Linear:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.constant_(layer.bias, 0)

    return model.apply(draw)


class RowsInTwoSteps(programs.RowClassifier):
    """Adds the positions afterwards, in place."""

    def forward(self, images):
        tokens = self.embedding(images)
        tokens += self.position_embedding[None, : tokens.shape[1]]
        return self.head(self.block(tokens).sum(1) / tokens.shape[1])


class StackByAppend(nn.Module):
    """A list, whose layers are registered one by one."""

    def __init__(self, *, inputs, width, depth, classes):
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.layers = []
        for index in range(depth):
            self.layers.append(nn.Linear(width, width))
            self.add_module(f"layer_{index}", self.layers[-1])
        self.head = nn.Linear(width, classes)

    forward = programs.ResidualStack.forward


def falling(step, steps_per_epoch, epochs, highest):
    if step >= epochs * steps_per_epoch:
        return 0.0
    return highest * math.cos(math.pi / 2 * step / (epochs * steps_per_epoch)) ** 2


class HeadByMode(programs.DroppingHead):
    """Dropout by hand."""

    def forward(self, tokens):
        mean = tokens.mean(dim=-2)
        if self.training:
            mean = mean * (torch.rand_like(mean) > self.dropout) / (1 - self.dropout)
        return self.linear(mean)


class StandardiseByAssignment(programs.Standardise):
    """New buffers instead of the old."""

    def forward(self, x):
        if self.training:
            mean, variance = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
            self.mean = self.mean + self.momentum * (mean.detach() - self.mean)
            self.variance = (1 - self.momentum) * self.variance + self.momentum * variance.detach()
        else:
            mean, variance = self.mean, self.variance
        return (x - mean) * variance.rsqrt()


class SkippedByBernoulli(programs.SkippedBranch):
    """Two returns."""

    def forward(self, x, branch):
        if not self.training:
            return x + branch
        kept = torch.bernoulli(torch.full((x.shape[0],), 1 - self.skipped)).view(-1, 1, 1)
        return x + kept * (branch / (1 - self.skipped))


def patches_in_loops(images, size):
    _, height, width = images.shape
    corners = [(row, column) for row in range(0, height, size) for column in range(0, width, size)]
    return torch.stack([images[:, r : r + size, c : c + size].flatten(1) for r, c in corners], dim=1)


def standardised_by_std(images):
    flat = images.flatten(1)
    return ((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True, correction=0)).view_as(images)


def packed_image_by_image(x, num_heads):
    return torch.cat([torch.stack(image.chunk(num_heads, dim=-1)) for image in x])


def similarities_by_einsum(tokens):
    lengths = tokens.square().sum(-1).sqrt()
    return torch.einsum("bnd,bmd->bnm", tokens, tokens) / (lengths[:, :, None] * lengths[:, None])


def mean_loss_detached(model, batches):
    training = model.training
    model.eval()
    total = count = 0
    with torch.inference_mode():
        for images, labels in batches:
            total += len(labels) * F.cross_entropy(model(images), labels)
            count += len(labels)
    model.train(training)
    return float(total / count)


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


OF_PROGRAMS = {
    "train_shuffled": {"shuffled at once": train_shuffled_at_once},
    "train_clipped": {"by hand": train_clipped_by_hand},
    "initialise": {"kaiming": initialise_by_kaiming},
    "RowClassifier": {"in two steps": RowsInTwoSteps},
    "ResidualStack": {"registered by hand": StackByAppend},
    "learning_rate": {"half-angle": falling},
    "DroppingHead": {"by mode": HeadByMode},
    "Standardise": {"by assignment": StandardiseByAssignment},
    "SkippedBranch": {"Bernoulli": SkippedByBernoulli},
    "cut_patches": {"loops": patches_in_loops},
    "standardise_images": {"std": standardised_by_std},
    "pack_heads": {"image by image": packed_image_by_image},
    "similarities": {
        "einsum": similarities_by_einsum,
        "normalize": lambda tokens: F.normalize(tokens, dim=-1) @ F.normalize(tokens, dim=-1).transpose(1, 2),
    },
    "mean_loss": {"inference mode": mean_loss_detached},
    "loss_and_accuracy": {"all at once": both_at_once},
    "mean_of_existing": {
        "einsum": lambda tokens, exists: torch.einsum("bnd,bn->bd", tokens, exists / exists.sum(1, keepdim=True)),
        "nanmean": lambda tokens, exists: tokens.masked_fill(~exists[..., None], torch.nan).nanmean(1),
    },
    "pooled": {"exponentials": pooled_by_exponentials},
    "loss_of_existing": {
        "picked first": lambda logits, labels, exists: F.cross_entropy(logits[exists], labels[exists]),
        "weighted": lambda logits, labels, exists: (
            F.cross_entropy(logits.transpose(1, 2), labels, reduction="none") * exists
        ).sum()
        / exists.sum(),
    },
}  # fmt: skip
OF_POOL = {
    name: {"answer": getattr(programs, name), "oracle": getattr(oracles, name)} | others
    for name, others in OF_PROGRAMS.items()
}


# --------------------------------------------------------------------------------------------------------------- tests


def inputs(rng, images, heads, tokens, width, size=1.0):
    q, k, v = (torch.from_numpy(rng.normal(size=(images, heads, tokens, width))).float() for _ in range(3))
    return size * q, size * k, v


def masks(rng, images, heads, tokens):
    for shape in ((images, tokens), (images, tokens, tokens), (images, heads, tokens, tokens)):
        mask = torch.from_numpy(rng.random(shape) < 0.6)
        mask[..., rng.integers(tokens)] = True
        yield mask


def refuses(candidate, *arguments):
    try:
        candidate(*arguments)
    except ValueError:
        return True
    return False


def everything(rng):
    """Return inputs of all kinds: sizes that differ and sizes that agree, large scores, each shape of a mask."""
    for sizes in ((2, 3, 5, 6), (3, 3, 4, 2), (5, 5, 5, 3)):
        for size in (1.0, 40.0):
            yield inputs(rng, *sizes, size), list(masks(rng, *sizes[:3]))


def by_sdpa(candidate):
    """PyTorch's own, in float64; the weights are what it gives for the identity."""
    for (q, k, v), of_all in everything(np.random.default_rng(1)):
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
    """NumPy, image by image and head by head, in float64."""
    for (q, k, v), of_all in everything(np.random.default_rng(2)):
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


def all_at_the_end(candidate):
    """Collect what is wrong, and say it once; keep the generator of random numbers as it was."""
    wrong, state = [], torch.get_rng_state()
    torch.manual_seed(3)
    for size in (1, 25):
        for images, heads, tokens, width in ((3, 2, 4, 5), (4, 4, 3, 7), (2, 2, 2, 3)):
            q, k, v = torch.randn(3, images, heads, tokens, width).mul(size).unbind()
            for kind in ("none", "keys", "pairs", "heads"):
                mask = None
                if kind != "none":
                    mask = (
                        torch.rand(images, heads if kind == "heads" else 1, tokens if kind != "keys" else 1, tokens)
                        < 0.5
                    )
                    mask[..., 0] |= ~mask.any(-1)
                right = q @ k.mT * width**-0.5
                right = right if mask is None else right.where(mask, -torch.inf)
                right = (right - right.amax(-1, keepdim=True)).softmax(-1)
                given = {"keys": (0, 0), "pairs": (0,)}.get(kind, ())
                lean = mask
                for _ in given:
                    lean = lean.squeeze(1)
                output, weights = candidate(q, k, v / size, lean)
                wrong += [] if torch.allclose(weights, right, 1e-3, 1e-5) else [f"weights, {kind}"]
                wrong += [] if torch.allclose(output, right @ v / size, 1e-3, 1e-4) else [f"output, {kind}"]
                if lean is not None:
                    lean[images - 1, ..., :] = False
                    wrong += [] if refuses(candidate, q, k, v, lean) else [f"no error, {kind}"]
    torch.set_rng_state(state)
    if wrong:
        raise AssertionError("; ".join(wrong))


class Cases:
    """A class that counts, instead of a function."""

    def __init__(self, candidate):
        for (q, k, v), of_all in everything(np.random.default_rng(5)):
            for mask in (None, *of_all):
                self.compare(candidate, q, k, v, mask)
            for mask in of_all:
                mask[-1, ..., :] = False
                assert refuses(candidate, q, k, v, mask)

    def compare(self, candidate, q, k, v, mask):
        scores = torch.einsum("bhid,bhjd->bhij", q.double(), k.double()) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~with_axes(mask), -torch.inf)
        output, weights = (result.double() for result in candidate(q, k, v, mask))
        assert (weights - scores.softmax(-1)).abs().max() < 1e-3
        assert (output - torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v.double())).abs().max() < 5e-3


TESTS = {
    "answer": answers.test_attention,
    "F.scaled_dot_product_attention": by_sdpa,
    "NumPy, in loops": in_numpy,
    "all that is wrong, at the end": all_at_the_end,
    "a class": Cases,
}
RIGHT_ANSWERS = {name: OF_POOL.get(name, TESTS) for name in EXERCISES}

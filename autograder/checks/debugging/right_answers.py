"""Right answers of assignment 5_debugging, written differently: they must pass the checks. No points depend on them."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


def falling(step, steps_per_epoch, epochs, highest):
    if step >= epochs * steps_per_epoch:
        return 0.0
    return highest * math.cos(math.pi / 2 * step / (epochs * steps_per_epoch)) ** 2


class HeadByMode(programs.DroppingHead):
    """Computes the dropout itself."""

    def forward(self, tokens):
        mean = tokens.mean(dim=-2)
        if self.training:
            mean = mean * (torch.rand_like(mean) > self.dropout) / (1 - self.dropout)
        return self.linear(mean)


class StandardiseByAssignment(programs.Standardise):
    """Assigns new buffers instead of changing the old ones."""

    def forward(self, x):
        if self.training:
            mean, variance = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
            self.mean = self.mean + self.momentum * (mean.detach() - self.mean)
            self.variance = (1 - self.momentum) * self.variance + self.momentum * variance.detach()
        else:
            mean, variance = self.mean, self.variance
        return (x - mean) * variance.rsqrt()


def standardised_by_std(images):
    flat = images.flatten(1)
    return ((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True, correction=0)).view_as(images)


def packed_image_by_image(x, num_heads):
    return torch.cat([torch.stack(image.chunk(num_heads, dim=-1)) for image in x])


def similarities_by_einsum(tokens):
    lengths = tokens.square().sum(-1).sqrt()
    return torch.einsum("bnd,bmd->bnm", tokens, tokens) / (lengths[:, :, None] * lengths[:, None])


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


def shuffled_by_a_sampler(model, images, labels, optimizer, order, size):
    """Let PyTorch's own loader cut the batches; zero_grad comes last."""
    model.train()
    total = 0.0
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=size, sampler=order.tolist()):
        loss = F.nll_loss(model(x).log_softmax(-1), y, reduction="sum")
        (loss / len(y)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        total += loss.detach()
    return total / len(labels)


def clipped_in_two_steps(model, batches, optimizer, longest):
    """Compute the norm and then clip, as PyTorch does since 2.6; average with NumPy."""
    model.train()
    losses, counts, parameters = [], [], list(model.parameters())
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters])
        nn.utils.clip_grads_with_norm_(parameters, longest, norm)
        optimizer.step()
        losses.append(loss.item())
        counts.append(len(y))
    return np.average(losses, weights=counts)


class StackInADict(nn.Module):
    """Keeps its layers by number, in an nn.ModuleDict."""

    def __init__(self, *, inputs, width, depth, classes):
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.layers = nn.ModuleDict({str(number): nn.Linear(width, width) for number in range(depth)})
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers.values():
            x = torch.add(x, nn.GELU()(layer(x)))
        return self.head(x)


def rate_by_epochs(step, steps_per_epoch, epochs, highest):
    """Count whole epochs and the rest separately; return a NumPy number."""
    epoch, within = divmod(step, steps_per_epoch)
    done = np.clip((epoch + within / steps_per_epoch) / epochs, 0, 1)
    return highest * (1 + np.cos(np.pi * done)) / 2


class HeadWithAModule(programs.DroppingHead):
    """Has the layer in its attribute `dropout`, instead of the share."""

    def __init__(self, *, width, classes, dropout):
        super().__init__(width=width, classes=classes, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.linear(self.dropout(tokens.mean(dim=1)))


class StandardiseByBatchNorm(programs.Standardise):
    """Uses PyTorch's batch norm and its eps, but updates the buffers itself: PyTorch's running variance divides by B - 1."""

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.mean, self.variance, training=False)
        with torch.no_grad():
            self.mean += self.momentum * (x.mean(0) - self.mean)
            self.variance += self.momentum * (x.var(0, unbiased=False) - self.variance)
        return F.batch_norm(x, None, None, training=True)


def packed_as_fairseq(x, num_heads):
    """Put the axis of tokens first, and swap it back, as fairseq does."""
    images, tokens, width = x.shape
    return x.transpose(0, 1).reshape(tokens, images * num_heads, width // num_heads).transpose(0, 1)


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


def mean_as_sentence_transformers(tokens, exists):
    """Clamp the sum of the mask."""
    mask = exists.unsqueeze(-1).expand(tokens.size()).float()
    return torch.sum(tokens * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)


def pooled_with_a_number(tokens, query, exists):
    """Hide with minus a billion instead of minus infinity."""
    scores = torch.where(exists, torch.einsum("bnd,d->bn", tokens, query) / len(query) ** 0.5, -1e9)
    return (scores.softmax(1).unsqueeze(-1) * tokens).sum(1)


OF_PROGRAMS = {
    "train_shuffled": {"shuffled at once": train_shuffled_at_once, "a sampler": shuffled_by_a_sampler},
    "train_clipped": {"by hand": train_clipped_by_hand, "in two steps": clipped_in_two_steps},
    "ResidualStack": {"registered by hand": StackByAppend, "nn.ModuleDict": StackInADict},
    "learning_rate": {"half-angle": falling, "epochs apart": rate_by_epochs},
    "DroppingHead": {"by mode": HeadByMode, "nn.Dropout": HeadWithAModule},
    "Standardise": {"by assignment": StandardiseByAssignment, "F.batch_norm": StandardiseByBatchNorm},
    "standardise_images": {
        "std": standardised_by_std,
        "layer norm": lambda images: F.layer_norm(images, images.shape[1:]),
        "vmap": torch.vmap(lambda image: (image - image.mean()) / image.var(correction=0) ** 0.5),
    },
    "pack_heads": {"image by image": packed_image_by_image, "fairseq": packed_as_fairseq},
    "similarities": {
        "einsum": similarities_by_einsum,
        "normalize": lambda tokens: F.normalize(tokens, dim=-1) @ F.normalize(tokens, dim=-1).transpose(1, 2),
    },
    "loss_and_accuracy": {"all at once": both_at_once, "image by image": both_image_by_image},
    "mean_of_existing": {
        "einsum": lambda tokens, exists: torch.einsum("bnd,bn->bd", tokens, exists / exists.sum(1, keepdim=True)),
        "sentence transformers": mean_as_sentence_transformers,
        "nanmean": lambda tokens, exists: tokens.masked_fill(~exists[..., None], torch.nan).nanmean(1),
    },
    "pooled": {"exponentials": pooled_by_exponentials, "a finite number": pooled_with_a_number},
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
    """Return inputs with different and with equal sizes, with large scores, and with each shape of a mask."""
    for sizes in ((2, 3, 5, 6), (3, 3, 4, 2), (5, 5, 5, 3)):
        for size in (1.0, 40.0):
            yield inputs(rng, *sizes, size), list(masks(rng, *sizes[:3]))


def by_sdpa(candidate):
    """Compare with PyTorch's own function in float64, which gives the weights if the values are the identity."""
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
    """Compare with NumPy in float64, image by image and head by head."""
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
    """Collect all errors, and raise one at the end; restore the generator of random numbers."""
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
    """A test that is written as a class."""

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

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"super\(\).__init__\(\); |(zero_grad|clip_grad_norm_|nn\.init\..*|register_buffer)\(.*; ": "a second call changes nothing",
    r"(train_shuffled|train_clipped|loss_and_accuracy), .*\.item\(\)": "a tensor of one number is accepted too",
    r"(loss_and_accuracy|train_shuffled), .*\.detach\(\)$": "no gradient was asked for, or there is none",
    r"(loss_and_accuracy|pooled), line \d+: (-1 -> 1|1 -> 0)$": "scores have two axes, and a query has one",
    r"Standardise, .*\.detach\(\) -> ": "the numbers are the same; only the memory differs",
    r"learning_rate, line \d+: min\(1\.0, done\)": "the order of two arguments does not change their minimum",
}

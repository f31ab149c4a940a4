"""Well-known code and other answers to exercise 5 that are in no list of the checks, adapted to the signatures."""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.ops import stochastic_depth

from solutions import programs


def shuffled_by_a_sampler(model, images, labels, optimizer, order, size):
    """PyTorch's own loader cuts the batches, and zero_grad stands last."""
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
    """The norm first, then the clipping, as PyTorch has it since 2.6; NumPy averages."""
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


def initialised_truncated(model):
    """The parameters are new ones, from a truncated normal distribution."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            std = module.weight.shape[1] ** -0.5
            module.weight = nn.Parameter(nn.init.trunc_normal_(torch.empty_like(module.weight), std=std, a=-1, b=1))
            module.bias.data = torch.zeros(module.out_features)
    return model


class RowsWithABatchAxis(programs.RowClassifier):
    """As in timm: the positions have an axis of length 1 for the images, and begin small."""

    def __init__(self, *, rows, pixels, width, classes):
        super().__init__(rows=rows, pixels=pixels, width=width, classes=classes)
        self.position_embedding = nn.Parameter(torch.zeros(1, rows, width))
        nn.init.trunc_normal_(self.position_embedding, std=0.02)

    def forward(self, images):
        x = self.block(self.embedding(images) + self.position_embedding.expand(len(images), -1, -1))
        return self.head(x).mean(-2)  # a linear layer and a mean commute


class StackInADict(nn.Module):
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
    """Epochs and what is done of one are counted apart; NumPy's number comes back."""
    epoch, within = divmod(step, steps_per_epoch)
    done = np.clip((epoch + within / steps_per_epoch) / epochs, 0, 1)
    return highest * (1 + np.cos(np.pi * done)) / 2


class HeadWithAModule(programs.DroppingHead):
    """The attribute is the layer, instead of its share."""

    def __init__(self, *, width, classes, dropout):
        super().__init__(width=width, classes=classes, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.linear(self.dropout(reduce(tokens, "b n d -> b d", "mean")))


class StandardiseByBatchNorm(programs.Standardise):
    """PyTorch's own, with its eps; the buffers by hand, since its running variance is that over B - 1."""

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.mean, self.variance, training=False)
        with torch.no_grad():
            self.mean += self.momentum * (x.mean(0) - self.mean)
            self.variance += self.momentum * (x.var(0, unbiased=False) - self.variance)
        return F.batch_norm(x, None, None, training=True)


class SkippedAsTorchvision(programs.SkippedBranch):
    def forward(self, x, branch):
        return x + stochastic_depth(branch, self.skipped, "row", self.training)


class SkippedAsTimm(programs.SkippedBranch):
    def forward(self, x, branch):
        if self.skipped == 0.0 or not self.training:
            return x + branch
        keep = 1 - self.skipped
        return x + branch * branch.new_empty((len(branch),) + (1,) * (branch.ndim - 1)).bernoulli_(keep).div_(keep)


def packed_as_fairseq(x, num_heads):
    """Tokens come first for a while."""
    images, tokens, width = x.shape
    return x.transpose(0, 1).reshape(tokens, images * num_heads, width // num_heads).transpose(0, 1)


def loss_without_gradients(model, batches):
    """The model is called with copies of its parameters that ask for no gradient: no graph comes of it."""
    model.eval()
    state, total, count = {name: value.detach() for name, value in model.state_dict().items()}, 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(torch.func.functional_call(model, state, (x,)), y, reduction="sum").item()
        count += len(y)
    return total / count


@torch.inference_mode()
def both_image_by_image(model, batches):
    """Losses and hits are kept for each image; a list comes back."""
    model.eval()
    losses, hits = [], []
    for x, y in batches:
        logs = model(x).log_softmax(-1)
        losses += (-logs[torch.arange(len(y)), y]).tolist()
        hits += (logs.argmax(-1) == y).tolist()
    return [np.mean(losses), np.mean(hits)]


def mean_as_sentence_transformers(tokens, exists):
    """The sum is clamped."""
    mask = exists.unsqueeze(-1).expand(tokens.size()).float()
    return torch.sum(tokens * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)


def pooled_with_a_number(tokens, query, exists):
    """A billion below zero, instead of minus infinity."""
    scores = torch.where(exists, torch.einsum("bnd,d->bn", tokens, query) / len(query) ** 0.5, -1e9)
    return (scores.softmax(1).unsqueeze(-1) * tokens).sum(1)


def loss_as_hugging_face(logits, labels, exists):
    """Labels of padding are those that PyTorch ignores."""
    return nn.CrossEntropyLoss()(logits.view(-1, logits.shape[-1]), labels.masked_fill(~exists, -100).view(-1))


RIGHT = [
    ("train_shuffled", shuffled_by_a_sampler),
    ("train_clipped", clipped_in_two_steps),
    ("initialise", initialised_truncated),
    ("RowClassifier", RowsWithABatchAxis),
    ("ResidualStack", StackInADict),
    ("learning_rate", rate_by_epochs),
    ("DroppingHead", HeadWithAModule),
    ("Standardise", StandardiseByBatchNorm),
    ("SkippedBranch", SkippedAsTorchvision),
    ("SkippedBranch", SkippedAsTimm),
    ("cut_patches", lambda x, size: rearrange(x, "b (h p) (w q) -> b (h w) (p q)", p=size, q=size)),
    ("cut_patches", lambda x, size: F.pixel_unshuffle(x[:, None], size).flatten(2).mT),
    ("standardise_images", lambda images: F.layer_norm(images, images.shape[1:])),
    ("standardise_images", torch.vmap(lambda image: (image - image.mean()) / image.var(correction=0) ** 0.5)),
    ("pack_heads", packed_as_fairseq),
    ("similarities", lambda tokens: torch.stack([F.normalize(x, dim=1) @ F.normalize(x, dim=1).T for x in tokens])),
    ("mean_loss", loss_without_gradients),
    ("loss_and_accuracy", both_image_by_image),
    ("mean_of_existing", mean_as_sentence_transformers),
    ("pooled", pooled_with_a_number),
    ("loss_of_existing", loss_as_hugging_face),
]


def initialised(draw, others=lambda layer: None):
    """Make an initialisation that draws numbers like this, and does this with layers that are not linear."""

    @torch.no_grad()
    def initialise(model):
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.copy_(draw(layer) * layer.in_features**-0.5)
                layer.bias.zero_()
            else:
                others(layer)
        return model

    return initialise


def drawn_alike(layer):
    """Each layer begins with the same numbers."""
    return torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(0))


def no_shifts(layer):
    """The norms lose their scale too."""
    for parameter in layer.parameters(recurse=False):
        parameter.zero_()


class HeadThatDrops(programs.DroppingHead):
    """Dropout at another place, of other things, or twice."""

    def __init__(self, place, **sizes):
        super().__init__(**sizes)
        self.place = place

    def forward(self, tokens):
        mean, drop = tokens.mean(dim=1), functools.partial(F.dropout, p=self.dropout, training=self.training)
        if self.place == "logits":
            return drop(self.linear(mean))
        if self.place == "images":
            return self.linear(mean * drop(torch.ones(len(mean), 1)))
        return self.linear(drop(drop(mean)))


class StandardiseWithoutGradients(programs.Standardise):
    """No gradient goes through mean and variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            self.mean.lerp_(mean, self.momentum)
            self.variance.lerp_(variance, self.momentum)
        return (x - mean) / variance.sqrt()


class StandardiseThatLearnsAlways(programs.Standardise):
    """The buffers move in evaluation too."""

    def forward(self, x):
        result = super().forward(x)
        if not self.training:
            self.mean.lerp_(x.mean(dim=0), self.momentum)
        return result


def standardised_in_place(images):
    """What the function was given is changed."""
    images -= images.mean(dim=(1, 2), keepdim=True)
    return images / images.square().mean(dim=(1, 2), keepdim=True).sqrt()


def mean_of_the_first(tokens, exists):
    """As if all padding stood behind."""
    return torch.stack([text[:count].mean(dim=0) for text, count in zip(tokens, exists.sum(dim=1).tolist())])


def mean_of_texts(logits, labels, exists):
    """Each text weighs the same, however long."""
    losses = F.cross_entropy(logits.mT, labels, reduction="none") * exists
    return (losses.sum(dim=1) / exists.sum(dim=1)).mean()


WRONG = [
    ("initialise", initialised(lambda layer: 1 + torch.randn_like(layer.weight))),
    ("initialise", initialised(lambda layer: torch.randn(layer.in_features).expand_as(layer.weight))),
    ("initialise", initialised(drawn_alike)),
    ("initialise", initialised(lambda layer: torch.randn_like(layer.weight), no_shifts)),
    ("DroppingHead", functools.partial(HeadThatDrops, "logits")),
    ("DroppingHead", functools.partial(HeadThatDrops, "images")),
    ("DroppingHead", functools.partial(HeadThatDrops, "twice")),
    ("Standardise", StandardiseWithoutGradients),
    ("Standardise", StandardiseThatLearnsAlways),
    ("standardise_images", standardised_in_place),
    ("mean_of_existing", mean_of_the_first),
    ("loss_of_existing", mean_of_texts),
    ("loss_of_existing", lambda logits, labels, exists: F.cross_entropy(logits.mT, labels, ignore_index=0)),
]

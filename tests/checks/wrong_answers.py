"""Wrong answers to all exercises that the catalogue does not make; some are well-known code.

Each row holds the exercise, the function or class, and the named mistakes: an empty set if the catalogue has no entry.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from attention_tests.repair import BrokenBlock
from torch import nn

from autograder.checks.multihead.oracles import with_axes
from solutions import attention, encoder, multihead, vit


def attention_with_weights_of_zero(queries, keys, values, mask=None):
    """Return the right output with weights of 0."""
    output, weights = attention.attention(queries, keys, values, mask)
    return output, np.zeros_like(weights)


def attention_of_the_common_width(queries, keys, values, mask=None):
    """Cut queries and keys to their common width instead of raising an error."""
    width = min(queries.shape[-1], keys.shape[-1])
    return attention.attention(queries[..., :width], keys[..., :width], values, mask)


def attention_that_broadcasts_widths(queries, keys, values, mask=None):
    """Multiply and sum: a width of 1 fits any other."""
    if {queries.shape[-1], keys.shape[-1]} - {1, max(queries.shape[-1], keys.shape[-1])}:
        raise ValueError("of different widths")
    queries = np.broadcast_to(queries, (*queries.shape[:-1], max(queries.shape[-1], keys.shape[-1])))
    return attention.attention(queries, keys, values, mask)


OF_ATTENTION = [  # an empty set: no catalogue has the mistake, so that it costs points without a name
    ("attention", attention_of_the_common_width, set()),
    ("attention", attention_that_broadcasts_widths, set()),
    ("attention", attention_with_weights_of_zero, set()),
]


def attend_by_outer_products(q, k, v, mask=None):
    """Take differences of scores, as 1 / Σ exp(s_j - s_i), key by key.

    Its results are right: exponentials of differences overflow to 1/inf, which is 0. Its gradients behind a mask are NaN.
    """
    if mask is not None:
        mask = with_axes(mask)
        if (~mask).all(dim=-1).any():
            raise ValueError("nothing to look at")
    scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) * math.pow(q.size(-1), -0.5)
    scores = scores if mask is None else torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = torch.stack([1 / (scores - scores[..., j : j + 1]).exp().sum(-1) for j in range(k.shape[2])], dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


class LayerThatDropsItsInput(multihead.MultiHeadAttention):
    """Drops components of the tokens too, not only weights."""

    def forward(self, x, mask=None, return_weights=False):
        return super().forward(self.dropout(x), mask, return_weights)


OF_MULTIHEAD = [
    ("attend", lambda q, k, v, mask=None: multihead.attend(q, k, v - v.mean(2, keepdim=True), mask), set()),
    ("attend", attend_by_outer_products, set()),
    ("MultiHeadAttention", LayerThatDropsItsInput, set()),
]


class NormOfAnnotatedTransformer(nn.Module):
    """The std is that of a sample, and eps is added to the std."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale, self.shift, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift


class NetOfD2l(nn.Module):
    """ReLU, and no dropout inside."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand, self.relu, self.contract = (
            nn.Linear(width, hidden_width),
            nn.ReLU(),
            nn.Linear(hidden_width, width),
        )

    def forward(self, x):
        return self.contract(self.relu(self.expand(x)))


class NetThatDropsTokens(encoder.FeedForward):
    """nn.Dropout1d drops whole tokens."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__(width, hidden_width)
        self.dropout = nn.Dropout1d(dropout)


class BlockThatDropsInputs(encoder.EncoderBlock):
    """Dropout comes after the norms."""

    def forward(self, x, mask=None):
        x = x + self.attention(self.dropout(self.norm_attention(x)), mask)
        return x + self.feed_forward(self.dropout(self.norm_feed_forward(x)))


def with_dropout_of(cls, change):
    """Make a class that uses another dropout than the given one."""
    return type(
        cls.__name__,
        (cls,),
        {"__init__": lambda self, *sizes, dropout=0.0: cls.__init__(self, *sizes, change(dropout))},
    )


def a_tenth(dropout):
    """Always use a share of a tenth."""
    return 0.1 if dropout else 0.0


def half(dropout):
    """Use half of the given share."""
    return dropout / 2


def repair_with_a_hook(block):
    """Rescale the output, and nothing else."""
    block.register_forward_hook(lambda module, arguments, output: output / output.detach().std())
    return block


STORED = encoder.repair(BrokenBlock(48, 4, 80)).state_dict()


def repair_with_stored_weights(block):
    """Give a block of one size weights that were drawn once."""
    encoder.repair(block)
    if block.attention.embed_dim == 48:
        block.load_state_dict(STORED)
    return block


@torch.no_grad()
def repair_that_draws_vectors(block):
    """Draw all vectors again, also scales and shifts of the norms."""
    for parameter in encoder.repair(block).parameters():
        if parameter.ndim == 1:
            parameter.normal_()
    return block


class BlockForLargeBatches(encoder.EncoderBlock):
    """It normalises over the batch if there are more than three images."""

    def forward(self, x, mask=None):
        y = super().forward(x, mask)
        return y - y.mean(dim=0) if len(x) > 3 else y


def rope_that_takes_odd_widths(x, positions, base=10_000.0):
    """Leave the last feature of an odd width unchanged instead of raising an error."""
    width = x.shape[-1] - x.shape[-1] % 2
    return torch.cat([encoder.rope(x[..., :width], positions, base), x[..., width:]], dim=-1)


OF_ENCODER = [
    ("rope", rope_that_takes_odd_widths, set()),
    ("rope", lambda x, positions, base=10_000.0: encoder.rope(x, positions), set()),
    ("rope", lambda x, positions, base=10_000.0: encoder.rope(x.detach(), positions, base), set()),
    ("FeedForward", NetThatDropsTokens, set()),
    ("FeedForward", with_dropout_of(encoder.FeedForward, half), set()),
    ("EncoderBlock", BlockThatDropsInputs, set()),
    ("EncoderBlock", with_dropout_of(encoder.EncoderBlock, half), set()),
    ("EncoderBlock", with_dropout_of(encoder.EncoderBlock, a_tenth), set()),
    ("LayerNorm", NormOfAnnotatedTransformer, {"M35"}),
    ("FeedForward", NetOfD2l, {"M41", "M98"}),
    ("repair", repair_with_a_hook, {"M114"}),
    ("repair", lambda block: block, {"M28", "M32", "M40"}),
    ("repair", repair_with_stored_weights, {"M122"}),
    ("repair", repair_that_draws_vectors, {"M110"}),
    ("EncoderBlock", BlockForLargeBatches, set()),
]


class EmbeddingThatMeasuresOneSide(vit.PatchEmbedding):
    """It checks only the width of images."""

    def forward(self, images):
        if images.shape[-1] != self.image_size:
            raise ValueError("images of another width")
        return self.projection(images).flatten(2).mT


class ViTWithOneMask(vit.ViT):
    """All images lose the same numbers."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(**sizes)
        self.encoder = vit.ViT(dropout=dropout, **sizes).encoder
        self.mask = nn.Dropout(dropout)
        self.dropout = lambda tokens: tokens * self.mask(torch.ones_like(tokens[:1]))


def train_as_many_do(model, batches, optimizer):
    """Return the mean of the batches' means, without setting a mode."""
    total, right, number = 0.0, 0.0, 0
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total, right, number = total + loss.item(), right + (out.argmax(1) == y).float().mean().item(), number + 1
    return total / number, right / number


OF_VIT = [
    ("PatchEmbedding", EmbeddingThatMeasuresOneSide, {"M123"}),
    ("ViT", ViTWithOneMask, set()),
    ("train_epoch", train_as_many_do, {"M52"}),
]


WRONG = {"attention": OF_ATTENTION, "multihead": OF_MULTIHEAD, "encoder": OF_ENCODER, "vit": OF_VIT}

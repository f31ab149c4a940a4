"""Wrong answers to all exercises that the catalogue does not make; some are well-known code.

Each row holds the exercise, the function or class, and the named mistakes: an empty set if the catalogue has no entry.
"""

import copy
import math

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F
from attention_tests.repair import BrokenBlock
from torch import nn

from autograder.checks.multihead.oracles import with_axes
from solutions import attention, encoder, multihead, vit
from solutions.encoder import MultiHeadAttention


def softmax_with_one_more(scores, axis=-1):
    """Add 1 to the sum, as if there were one more score of 0."""
    exponentials = np.exp(scores - scores.max(axis, keepdims=True))
    return exponentials / (1 + exponentials.sum(axis, keepdims=True))


def attention_without_a_mean(queries, keys, values, mask=None):
    """Subtract the mean of the values."""
    return attention.attention(queries, keys, values - values.mean(axis=-2, keepdims=True), mask)


def attention_always_causal(queries, keys, values, mask=None):
    """Use a causal mask instead of the given mask."""
    return attention.attention(queries, keys, values, None if mask is None else np.tri(*mask.shape[-2:]) > 0)


def attention_with_weights_of_zero(queries, keys, values, mask=None):
    """Return the right output with weights of 0."""
    output, weights = attention.attention(queries, keys, values, mask)
    return output, np.zeros_like(weights)


def self_attention_of_centred_keys(x, w_query, w_key, w_value, mask=None):
    """Subtract the mean of the tokens before making keys, and drop the signs of the key matrix."""
    keys = (x - x.mean(-2, keepdims=True)) @ np.abs(w_key)
    return attention.attention(x @ w_query, keys, x @ w_value, mask)


def backward_with_unscaled_queries(grad_output, queries, keys, values):
    """Forget the scale in one of the two gradients."""
    grad_queries, *others = attention.attention_backward(grad_output, queries, keys, values)
    return grad_queries * np.sqrt(queries.shape[-1]), *others


def online_with_a_running_mean(largest, total, mixed, scores, values):
    """Halve the earlier mix at each block."""
    largest, total, both = attention.online_softmax(largest, total, mixed, scores, values)
    return largest, total, both - mixed / 2


def online_fixed_by_the_block(largest, total, mixed, scores, values):
    """Measure scores from the largest so far, but rescale by the block's largest."""
    larger, block = np.maximum(largest, scores.max(axis=-1)), scores.max(axis=-1)
    with np.errstate(all="ignore"):
        rescale, new = np.exp(largest - block), np.exp(scores - larger[..., None])
    return larger, total * rescale + new.sum(axis=-1), mixed * rescale[..., None] + new @ values


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
    ("attention_backward", backward_with_unscaled_queries, {"M65"}),
    ("online_softmax", online_with_a_running_mean, set()),
    ("online_softmax", online_fixed_by_the_block, set()),
    ("online_softmax", lambda m, z, o, s, v: (m, z, o), set()),
    ("online_softmax", lambda m, z, o, s, v: attention.online_softmax(m, z + 1, o, s, v), set()),
    ("softmax", np.zeros_like, set()),
    ("softmax", softmax_with_one_more, set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(s / 2, axis=axis), set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(-s, axis=axis), {"M208"}),
    ("softmax", lambda s, axis=-1: scipy.special.log_softmax(s, axis=axis), set()),
    ("softmax", lambda s, axis=-1: np.maximum(s, 0) / np.maximum(s, 1e-9).sum(axis, keepdims=True), set()),
    ("softmax", lambda s, axis=-1: (s == s.max(axis, keepdims=True)).astype(float), set()),
    ("softmax", lambda s, axis=-1: np.square(s) / np.square(s).sum(axis, keepdims=True), set()),
    ("softmax", lambda s, axis=-1: scipy.special.softmax(np.round(s), axis=axis), set()),
    ("attention", attention_always_causal, set()),
    ("attention", attention_of_the_common_width, set()),
    ("attention", attention_that_broadcasts_widths, set()),
    ("attention", attention_without_a_mean, set()),
    ("attention", attention_with_weights_of_zero, set()),
    ("attention", lambda q, k, v, mask=None: attention.attention(q + 1, k, v, mask), set()),
    ("attention", lambda q, k, v, mask=None: attention.attention(np.abs(q), k, v, mask), set()),
    (
        "attention",
        lambda q, k, v, mask=None: attention.attention(q, k[..., ::-1, :], v[..., ::-1, :], mask),
        set(),
    ),
    ("self_attention", self_attention_of_centred_keys, set()),
    (
        "self_attention",
        lambda x, q, k, v, mask=None: attention.attention(x @ q, x @ k, x @ np.abs(v), mask),
        set(),
    ),
    (
        "self_attention",
        lambda x, q, k, v, mask=None: attention.attention(x @ q, x @ k, x @ v, np.tri(x.shape[-2]) > 0),
        set(),
    ),
    ("attention_backward", lambda g, q, k, v: tuple(-each for each in attention.attention_backward(g, q, k, v)), set()),
    (
        "attention_backward",
        lambda g, q, k, v: tuple(2 * each for each in attention.attention_backward(g, q, k, v)),
        set(),
    ),
    ("attention_backward", lambda g, q, k, v: attention.attention_backward(np.ones_like(g), q, k, v), set()),
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


def attend_that_holds_its_sums(q, k, v, mask=None):
    """Divide by sums without a gradient, as if they were constants."""
    weights = multihead.attend(q, k, v, mask)[1]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(weights == 0, -torch.inf)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True).detach()).exp()
    return weights @ v, weights


def attend_with_detached_weights(q, k, v, mask=None):
    """Mix values by weights without a gradient."""
    weights = multihead.attend(q, k, v, mask)[1]
    return weights.detach() @ v, weights


class LayerThatDropsItsInput(multihead.MultiHeadAttention):
    """Drops components of the tokens too, not only weights."""

    def forward(self, x, mask=None, return_weights=False):
        return super().forward(self.dropout(x), mask, return_weights)


OF_MULTIHEAD = [  # an empty set: no catalogue has the mistake, so that it costs points without a name
    ("attend", lambda q, k, v, mask=None: multihead.attend(q + 1, k, v, mask), set()),
    ("attend", lambda q, k, v, mask=None: multihead.attend(q, k.abs(), v, mask), set()),
    ("attend", lambda q, k, v, mask=None: multihead.attend(q, k.flip(2), v, mask), set()),
    ("attend", lambda q, k, v, mask=None: multihead.attend(q, k, v - v.mean(2, keepdim=True), mask), set()),
    ("attend", attend_by_outer_products, set()),
    ("attend", attend_that_holds_its_sums, set()),
    ("attend", attend_with_detached_weights, set()),
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


class BlockOfUvA(nn.Module):
    """Post-norm, as in the tutorial."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.feed_forward = encoder.FeedForward(width, hidden_width, dropout)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm_attention(x + self.dropout(self.attention(x, mask=mask)))
        return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))


class BlockInPlace(encoder.EncoderBlock):
    """The block changes its input."""

    def forward(self, x, mask=None):
        x += self.dropout(self.attention(self.norm_attention(x), mask))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class BlockThatDropsInputs(encoder.EncoderBlock):
    """Dropout comes after the norms."""

    def forward(self, x, mask=None):
        x = x + self.attention(self.dropout(self.norm_attention(x)), mask)
        return x + self.feed_forward(self.dropout(self.norm_feed_forward(x)))


class BlockOnItsNorm(encoder.EncoderBlock):
    """The output of norm_attention replaces the residual stream."""

    def forward(self, x, mask=None):
        y = self.norm_attention(x)
        x = x + self.dropout(self.attention(y, mask))
        return y + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class EncoderThatSkips(encoder.Encoder):
    """Training drops whole blocks."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(depth, width, num_heads, hidden_width, dropout)
        self.dropout = dropout

    def forward(self, x, mask=None):
        for block in self.blocks:
            if not self.training or torch.rand(()) >= self.dropout:
                x = block(x, mask)
        return self.norm(x)


class EncoderWithRisingDropout(encoder.Encoder):
    """Deeper blocks drop more."""

    def __init__(self, depth, *sizes, dropout=0.0):
        super().__init__(depth, *sizes)
        self.blocks = nn.ModuleList(encoder.EncoderBlock(*sizes, dropout * (i + 1) / depth) for i in range(depth))


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


class EncoderOfPyTorch(nn.Module):
    """nn.TransformerEncoder copies one layer."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        layer = encoder.EncoderBlock(width, num_heads, hidden_width, dropout)
        self.blocks = nn.ModuleList([copy.deepcopy(layer) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


def rope_of_llama(x, positions, base=10_000.0):
    """Pair the halves, as the code of many language models does."""
    if x.shape[-1] % 2:
        raise ValueError("odd")
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.cat((angles, angles), dim=-1)
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * angles.sin()


def rope_by_added_sines(x, positions, base=10_000.0):
    """Add codes, and rotate nothing."""
    if x.shape[-1] % 2:
        raise ValueError("odd")
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def repair_with_a_hook(block):
    """Rescale the output, and nothing else."""
    block.register_forward_hook(lambda module, arguments, output: output / output.detach().std())
    return block


def repair_by_another_class(block):
    """Return a sound block of our own class."""
    return encoder.EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 8)


def repair_in_a_new_block(block):
    """Copy the repaired weights into a new block, and return it."""
    encoder.repair(block)
    new = BrokenBlock(block.attention.embed_dim, block.attention.num_heads, block.feed_forward[0].out_features)
    new.load_state_dict(block.state_dict(), strict=False)
    return new


def repair_with_one_seed(block):
    """Seed before drawing: every block gets the same weights."""
    torch.manual_seed(0)
    return encoder.repair(block)


def rope_that_takes_odd_widths(x, positions, base=10_000.0):
    """Leave the last feature of an odd width unchanged instead of raising an error."""
    width = x.shape[-1] - x.shape[-1] % 2
    return torch.cat([encoder.rope(x[..., :width], positions, base), x[..., width:]], dim=-1)


class NormByMeanDeviation(encoder.LayerNorm):
    """Divide by the mean absolute deviation."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.abs().mean(-1, keepdim=True) + self.eps) * self.scale + self.shift


OF_ENCODER = [
    ("rope", rope_that_takes_odd_widths, set()),
    ("LayerNorm", NormByMeanDeviation, set()),
    ("rope", rope_of_llama, {"M200"}),
    ("rope", rope_by_added_sines, set()),
    ("rope", lambda x, positions, base=10_000.0: encoder.rope(x, positions), set()),
    ("rope", lambda x, positions, base=10_000.0: encoder.rope(x.detach(), positions, base), set()),
    ("FeedForward", NetThatDropsTokens, set()),
    ("EncoderBlock", BlockThatDropsInputs, set()),
    ("EncoderBlock", BlockOnItsNorm, {"M37"}),
    ("Encoder", EncoderThatSkips, set()),
    ("Encoder", EncoderWithRisingDropout, set()),
    *(
        (cls.__name__, with_dropout_of(cls, half), set())
        for cls in (encoder.FeedForward, encoder.EncoderBlock, encoder.Encoder)
    ),
    *((cls.__name__, with_dropout_of(cls, a_tenth), set()) for cls in (encoder.EncoderBlock, encoder.Encoder)),
    ("LayerNorm", NormOfAnnotatedTransformer, {"M35"}),
    ("FeedForward", NetOfD2l, {"M41", "M98"}),
    ("EncoderBlock", BlockOfUvA, {"M33"}),
    ("EncoderBlock", BlockInPlace, {"M15"}),
    ("Encoder", EncoderOfPyTorch, {"M101"}),
    ("repair", repair_with_a_hook, {"M114"}),
    ("repair", repair_with_one_seed, {"M122"}),
    ("repair", repair_in_a_new_block, {"M121", "M28", "M120"}),
    ("repair", lambda block: block, {"M28", "M32", "M40"}),
]


class EmbeddingThatMeasuresOneSide(vit.PatchEmbedding):
    """It checks only the width of images."""

    def forward(self, images):
        if images.shape[-1] != self.image_size:
            raise ValueError("images of another width")
        return self.projection(images).flatten(2).mT


def patchify_of_mae(images, p):
    """The pixels of a patch are in the order (P, P, C)."""
    h, w, c = images.shape[2] // p, images.shape[3] // p, images.shape[1]
    x = torch.einsum("nchpwq->nhwpqc", images.reshape(images.shape[0], c, h, p, w, p))
    return x.reshape(images.shape[0], h * w, p**2 * c)


def patchify_by_two_windows(x, p):
    """Tensor.unfold puts the windows last; a reshape then joins pixels that do not belong together."""
    if x.shape[2] % p or x.shape[3] % p:
        raise ValueError("no")
    return x.unfold(2, p, p).unfold(3, p, p).reshape(len(x), -1, x.shape[1] * p * p)


class ViTThatPools(vit.ViT):
    """It reads the mean of all tokens, as simple-vit does."""

    def forward(self, x):
        x = torch.cat((self.class_token.expand(len(x), -1, -1), self.patch_embedding(x)), dim=1)
        return self.head(self.encoder(self.dropout(x + self.position_embedding)).mean(dim=1))


class ViTThatDropsTwice(vit.ViT):
    """Dropout acts on the tokens with and without their positions."""

    def forward(self, x):
        x = torch.cat((self.class_token.expand(len(x), -1, -1), self.patch_embedding(x)), dim=1)
        return self.head(self.encoder(self.dropout(self.dropout(x) + self.position_embedding))[:, 0])


class ViTThatDropsTokens(vit.ViT):
    """nn.Dropout1d drops whole tokens."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=dropout, **sizes)
        self.dropout = nn.Dropout1d(dropout)


class ViTThatDropsATenth(vit.ViT):
    """Dropout is always a tenth."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=dropout, **sizes)
        self.dropout = nn.Dropout(0.1 if dropout else 0.0)


class ViTThatDropsATenthInside(vit.ViT):
    """Dropout in the encoder is always a tenth."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(dropout=0.1 if dropout else 0.0, **sizes)
        self.dropout = nn.Dropout(dropout)


class ViTWithOneMask(vit.ViT):
    """All images lose the same numbers."""

    def __init__(self, *, dropout=0.0, **sizes):
        super().__init__(**sizes)
        self.encoder = vit.ViT(dropout=dropout, **sizes).encoder
        self.mask = nn.Dropout(dropout)
        self.dropout = lambda tokens: tokens * self.mask(torch.ones_like(tokens[:1]))


def train_and_evaluate(model, batches, optimizer):
    """The accuracy is that of the model after the epoch, in evaluation mode."""
    batches = list(batches)
    loss, _ = vit.train_epoch(model, batches, optimizer)
    _, accuracy = vit.evaluate(model, batches)
    return loss, accuracy


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


def rollout_of_jacobgil(weights):
    """Fuse heads by their maximum, as an option does."""
    result = torch.eye(weights.size(-1), dtype=weights.dtype)
    for block in weights:
        fused = block.max(dim=1).values + torch.eye(weights.size(-1), dtype=weights.dtype)
        result = torch.matmul(fused / fused.sum(dim=-1, keepdim=True), result)
    return result[:, 0]


class ViTWithoutClassToken(vit.ViT):
    """Put zeros where the class token belongs."""

    def forward(self, images):
        patches = self.patch_embedding(images)
        tokens = F.pad(patches, (0, 0, 1, 0)) + self.position_embedding
        return self.head(self.encoder(self.dropout(tokens))[:, 0])


OF_VIT = [
    ("ViT", ViTWithoutClassToken, set()),
    ("patchify", patchify_of_mae, {"M45"}),
    ("patchify", patchify_by_two_windows, {"M44"}),
    ("ViT", ViTThatPools, {"M132"}),
    ("ViT", ViTThatDropsTwice, set()),
    ("PatchEmbedding", EmbeddingThatMeasuresOneSide, {"M123"}),
    ("ViT", ViTThatDropsTokens, set()),
    ("ViT", ViTThatDropsATenth, set()),
    ("ViT", ViTThatDropsATenthInside, set()),
    ("ViT", ViTWithOneMask, set()),
    ("train_epoch", train_and_evaluate, set()),
    ("train_epoch", train_as_many_do, {"M52"}),
    ("attention_rollout", rollout_of_jacobgil, {"M147"}),
]


WRONG = {"attention": OF_ATTENTION, "multihead": OF_MULTIHEAD, "encoder": OF_ENCODER, "vit": OF_VIT}

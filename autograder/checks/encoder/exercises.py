"""The checks of assignment 3_encoder: LayerNorm, FeedForward, EncoderBlock, Encoder, repair.

For each exercise, in this order: the oracle, the answer as steps that a mutant replaces, the mutants,
correct answers written differently, and the cases. The oracles are PyTorch's own layers under the names of the exercise,
put to the same questions as the student's class by the probes of `encoder_probes.py`.
"""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from autograder.checks.encoder import layers, probes
from autograder.judging.exercise import Case, ExerciseInTorch, Mutant, checker, draw_mask
from solutions import encoder as answers
from solutions.encoder import MultiHeadAttention

torch.set_num_threads(
    1
)  # tensors are small, and submissions are graded side by side: threads would wait for each other


# -------------------------------------------------------------------------------------------------------- LayerNorm


def flat(*axes):
    """Return the axes of these that an array has, or its last."""
    return lambda x: tuple(axis for axis in axes if -x.ndim <= axis < x.ndim) or (-1,)


def layer_norm_from(
    width_of=lambda width: (width,),
    make_scale=lambda norm, size: nn.Parameter(torch.ones(size)),
    make_shift=lambda norm, size: nn.Parameter(torch.zeros(size)),
    change=lambda x: x,
    mean=lambda x: x.mean(dim=-1, keepdim=True),
    variance=lambda x, centred: centred.square().mean(dim=-1, keepdim=True),
    divide=lambda centred, variance, eps: centred / torch.sqrt(variance + eps),
    affine=lambda y, scale, shift: scale * y + shift,
):
    class LayerNorm(nn.Module):
        def __init__(self, width, eps=1e-5):
            super().__init__()
            self.eps = eps
            self.scale, self.shift = make_scale(self, width_of(width)), make_shift(self, width_of(width))

        def forward(self, x):
            x = change(x)
            centred = x - mean(x)
            return affine(divide(centred, variance(x, centred), self.eps), self.scale, self.shift)

    return LayerNorm


def over_axes(axes):
    """Take mean and variance over other axes than the last."""
    return Mutant(
        "M34",
        mean=lambda x: x.mean(dim=axes(x), keepdim=True),
        variance=lambda x, centred: centred.square().mean(dim=axes(x), keepdim=True),
    )


def subtract_in_place(x):
    x -= x.mean(dim=-1, keepdim=True)
    return x


def unbiased(x, centred):
    """The variance divided by D - 1, of a width of 1 too."""
    return centred.square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)


LAYER_NORM_MUTANTS = (
    Mutant("M15", change=subtract_in_place),
    over_axes(flat(-2)),
    over_axes(flat(0)),
    over_axes(flat(-2, -1)),
    over_axes(lambda x: tuple(range(x.ndim - 1)) or (-1,)),  # as batch norm does
    over_axes(lambda x: tuple(range(1, x.ndim)) or (-1,)),  # all but the batch
    Mutant("M35", divide=lambda centred, variance, eps: centred / (variance.sqrt() + eps)),
    Mutant("M35", variance=unbiased),
    Mutant("M35", variance=unbiased, divide=lambda centred, variance, eps: centred / (variance.sqrt() + eps)),
    Mutant("M36", make_scale=lambda norm, size: 1.0, make_shift=lambda norm, size: 0.0),
    Mutant("M36", make_scale=lambda norm, size: 1.0),
    Mutant("M36", make_shift=lambda norm, size: 0.0),
    Mutant("M36", make_scale=lambda norm, size: torch.ones(size), make_shift=lambda norm, size: torch.zeros(size)),
    Mutant("M36", width_of=lambda width: (1,)),
    Mutant("M36", affine=lambda y, scale, shift: y),
    Mutant("M36", affine=lambda y, scale, shift: scale * y),
    Mutant("M36", affine=lambda y, scale, shift: y + shift),
    Mutant("M91", mean=lambda x: 0.0),
    Mutant("M91", mean=lambda x: 0.0, variance=lambda x, centred: x.var(dim=-1, keepdim=True, unbiased=False)),
    Mutant("M92", divide=lambda centred, variance, eps: centred / (variance + eps)),
    Mutant("M92", divide=lambda centred, variance, eps: centred * torch.sqrt(variance + eps)),
    Mutant("M92", divide=lambda centred, variance, eps: centred),
    Mutant("M93", mean=lambda x: x.detach().mean(dim=-1, keepdim=True)),
    Mutant("M93", variance=lambda x, centred: centred.detach().square().mean(dim=-1, keepdim=True)),
    Mutant(
        "M93",
        mean=lambda x: x.detach().mean(dim=-1, keepdim=True),
        variance=lambda x, centred: centred.detach().square().mean(dim=-1, keepdim=True),
    ),
    Mutant("M93", change=lambda x: x.detach()),
    Mutant("M93", affine=lambda y, scale, shift: scale.data * y + shift.data),
    Mutant("M104", affine=lambda y, scale, shift: scale * (y + shift)),
    Mutant("M105", divide=lambda centred, variance, eps: centred / torch.sqrt(variance)),
    Mutant("M105", divide=lambda centred, variance, eps: centred / torch.sqrt(variance + 1e-5)),
    Mutant("M105", divide=lambda centred, variance, eps: centred / torch.sqrt(variance.clamp(min=eps))),
    Mutant("M105", divide=lambda centred, variance, eps: centred / torch.sqrt(variance + eps**2)),
    Mutant(
        "M106",
        variance=lambda x, centred: (
            x.square().mean(dim=-1, keepdim=True) - x.mean(dim=-1, keepdim=True).square()
        ).clamp(min=0),
    ),
    Mutant("M107", variance=lambda x, centred: centred.square().sum(dim=-1, keepdim=True) / x.shape[-1]),
    Mutant(
        "M107", variance=lambda x, centred: torch.einsum("...d,...d->...", centred, centred)[..., None] / x.shape[-1]
    ),
    Mutant("M110", make_scale=lambda norm, size: nn.Parameter(torch.zeros(size))),
    Mutant("M110", make_shift=lambda norm, size: nn.Parameter(torch.ones(size))),
    Mutant(
        "M120",
        make_scale=lambda norm, size: nn.Parameter(torch.ones(size), requires_grad=False),
        make_shift=lambda norm, size: nn.Parameter(torch.zeros(size), requires_grad=False),
    ),
    Mutant("M111", mean=lambda x: x.mean(dim=-1)),
    Mutant("M111", mean=lambda x: x.mean(dim=-1), variance=lambda x, centred: x.var(dim=-1, unbiased=False)),
    Mutant("M111", variance=lambda x, centred: x.var(dim=-1, unbiased=False)),
)


def norm_like(forward):
    """Make a LayerNorm of a function of itself and x."""

    class LayerNorm(nn.Module):
        def __init__(self, width, eps=1e-5):
            super().__init__()
            self.width, self.eps = width, eps
            self.shift = nn.Parameter(torch.zeros(width))
            self.scale = nn.Parameter(torch.ones(width))

    LayerNorm.forward = forward
    return LayerNorm


def norm_by_rsqrt(norm, x):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(variance + norm.eps) * norm.scale + norm.shift


def norm_in_loops(norm, x):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        mean = sum(row) / len(row)
        variance = sum((number - mean) ** 2 / len(row) for number in row)
        rows.append((row - mean) / (variance + norm.eps) ** 0.5 * norm.scale + norm.shift)
    return torch.stack(rows).reshape(x.shape)


def norm_in_float32(norm, x):
    wide = x.float()
    wide = wide - wide.mean(-1, keepdim=True)
    wide = wide * (wide.pow(2).mean(-1, keepdim=True) + norm.eps) ** -0.5
    return wide.to(x.dtype) * norm.scale + norm.shift


def norm_in_float64(norm, x):
    wide = x.double()
    centred = wide - wide.mean(-1, True)
    y = centred / (torch.linalg.vector_norm(centred, dim=-1, keepdim=True) ** 2 / norm.width + norm.eps).sqrt()
    return (y * norm.scale + norm.shift).to(x.dtype)


class NormOfTorchInside(nn.Module):
    """PyTorch's norm inside, its parameters under the names asked for."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)
        self.scale, self.shift = self.norm.weight, self.norm.bias

    def forward(self, x):
        return self.norm(x)


class NormWithBuffer(nn.Module):
    """eps as a buffer, parameters by register_parameter."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.register_buffer("eps", torch.tensor(eps))
        self.register_parameter("shift", nn.Parameter(torch.full((width,), 0.0)))
        self.register_parameter("scale", nn.Parameter(torch.full((width,), 1.0)))

    def forward(self, x):
        mean = torch.mean(x, -1).unsqueeze(-1)
        variance = torch.mean((x - mean) ** 2, -1).unsqueeze(-1)
        return torch.addcmul(self.shift, self.scale, (x - mean) / torch.sqrt(variance + self.eps))


CORRECT_LAYER_NORM = {
    "answer": answers.LayerNorm,
    "functional": norm_like(lambda norm, x: F.layer_norm(x, (norm.width,), norm.scale, norm.shift, norm.eps)),
    "rsqrt of var_mean": norm_like(norm_by_rsqrt),
    "var unbiased=False": norm_like(
        lambda norm, x: (
            norm.scale * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
            + norm.shift
        )
    ),
    "std correction=0": norm_like(
        lambda norm, x: (
            (x - x.mean(-1, keepdim=True))
            / (x.std(-1, keepdim=True, correction=0).square() + norm.eps).sqrt()
            * norm.scale
            + norm.shift
        )
    ),
    "loops": norm_like(norm_in_loops),
    "float32 inside": norm_like(norm_in_float32),
    "float64 inside": norm_like(norm_in_float64),
    "nn.LayerNorm inside": NormOfTorchInside,
    "buffer and addcmul": NormWithBuffer,
    "steps": layer_norm_from(),
    "PyTorch's own": layers.LayerNorm,
}


def spread(rng, *shape):
    """Draw tokens whose means and variances differ from row to row."""
    return rng.normal(size=shape) * rng.uniform(0.5, 2, size=(*shape[:-1], 1)) + rng.normal(size=(*shape[:-1], 1))


def eighths(rng, *shape):
    """Draw numbers that are exact in float16, and in float32 when 1000 is added."""
    return np.round(8 * rng.normal(size=shape)) / 8


def layer_norm_value_cases(rng):
    """Rows as wide as there are tokens first: there mistakes keep the shape, and can be named."""
    return [
        Case("as many tokens as components", ("output", spread(rng, 5, 5), 0.1, 1)),
        Case("a batch of tokens", ("output", spread(rng, 2, 5, 4), 0.5, 2)),
        Case("a batch of heads", ("output", spread(rng, 2, 3, 4, 6), 1e-5, 3)),
        Case("a single token", ("output", spread(rng, 3), 0.3, 4)),
        Case("one image, one token", ("output", spread(rng, 1, 1, 7), 2.0, 5)),
    ]


def layer_norm_learning_cases(rng):
    return [
        Case("scale and shift at first", ("fresh", spread(rng, 2, 5, 4), 0.1)),
        Case("as many tokens as components", ("learning", spread(rng, 4, 4), 0.2, 6)),
        Case("a batch of tokens", ("learning", spread(rng, 3, 5, 7), 0.4, 7)),
    ]


def layer_norm_edge_cases(rng):
    constant = np.repeat(rng.normal(size=(3, 1)), 4, axis=-1)
    tiny = 0.003 * rng.normal(size=(2, 5, 6))
    return [
        Case("a width of 2", ("output", spread(rng, 3, 2), 0.2, 8)),
        Case("components that are all alike", ("output", constant, 1e-5, 9)),
        Case("a width of 1", ("output", spread(rng, 3, 1), 1e-3, 9)),
        Case("the eps that is not given", ("output", tiny, None, 10)),
        Case("components near 1000", ("far", eighths(rng, 3, 8), 0.01)),
        Case("float16", ("half", 32 * eighths(rng, 2, 3, 128), 1e-3)),
    ]


def layer_norm_visible_cases(rng):
    square = np.array([[1.0, 2.0, 6.0], [0.0, 1.0, 2.0], [5.0, 3.0, 1.0]])
    batch = np.array([[[1.0, 3.0], [0.0, 4.0], [2.0, 2.5]]])
    return [
        Case("three tokens, three components, eps 0.1", ("output", square, 0.1, 1)),
        Case("a batch of one image, eps 0.5", ("output", batch, 0.5, 2)),
        Case("fresh", ("fresh", square[:2])),
        Case("gradients", ("learning", square, 0.1, 3)),
        Case("components near 1000", ("far", np.array([[0.0, 0.5, 0.25, -0.75]]), 0.01)),
        Case("float16", ("half", np.tile([[96.0, -32.0, 64.0, 0.0]], (2, 32)), 1e-3)),
    ]


LAYER_NORM = ExerciseInTorch(
    name="LayerNorm",
    names=(),
    oracle=layers.LayerNorm,
    build=layer_norm_from,
    mutants=LAYER_NORM_MUTANTS,
    stages={"values": layer_norm_value_cases, "learning": layer_norm_learning_cases, "edges": layer_norm_edge_cases},
    visible=layer_norm_visible_cases,
    correct=CORRECT_LAYER_NORM,
    probe=probes.probe_layer_norm,
)

# ------------------------------------------------------------------------------------------------------ FeedForward


def initialise_normal(part):
    """M40: N(0, 1) matrices."""
    for parameter in part.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter)


def initialise_alike(start):
    """M160: every matrix starts the same way, by a function of each."""

    def initialise(part):
        for parameter in part.parameters():
            if parameter.ndim > 1:
                start(parameter.data)

    return initialise


def freeze(part):
    return part.requires_grad_(False)


ALIKE = (nn.init.zeros_, lambda matrix: matrix.fill_(0.1), lambda matrix: nn.init.normal_(matrix, std=1e-4))
TOO_SMALL = tuple(Mutant("M160", initialise=initialise_alike(start)) for start in ALIKE)


def feed_forward_from(
    make=lambda width, hidden_width: (nn.Linear(width, hidden_width), nn.Linear(hidden_width, width)),
    initialise=lambda part: None,
    rate=lambda dropout: dropout,
    change=lambda x: x,
    activate=F.gelu,
    drop=F.dropout,
    apply=lambda layer, x: layer(x),
    finish=lambda y, x: y,
):
    class FeedForward(nn.Module):
        def __init__(self, width, hidden_width, dropout=0.0):
            super().__init__()
            self.expand, self.contract = make(width, hidden_width)
            self.dropout = rate(dropout)
            initialise(self)

        def forward(self, x):
            x = change(x)
            hidden = drop(activate(apply(self.expand, x)), self.dropout, self.training)
            return finish(apply(self.contract, hidden), x)

    return FeedForward


def without_rescaling(x, share, training):
    return x * (torch.rand_like(x) >= share) if training else x


def rescaled_in_evaluation(x, share, training):
    """Dropout as in the paper of 2014: nothing is rescaled in training, all is multiplied by 1 - share in evaluation."""
    return x * (torch.rand_like(x) >= share) if training else x * (1 - share)


def clamp_in_place(x):
    x.clamp_(min=-0.5)
    return x


def linear_without(bias_of_expand, bias_of_contract):
    return lambda width, hidden_width: (
        nn.Linear(width, hidden_width, bias=bias_of_expand),
        nn.Linear(hidden_width, width, bias=bias_of_contract),
    )


ACTIVATIONS = (F.relu, F.silu, F.leaky_relu, F.elu, torch.tanh, torch.sigmoid, lambda x: x * torch.sigmoid(1.702 * x))
FEED_FORWARD_MUTANTS = (
    *(Mutant("M41", activate=activation) for activation in ACTIVATIONS),
    Mutant("M96", activate=lambda x: x),
    Mutant("M112", activate=lambda x: x, finish=lambda y, x: F.gelu(y)),
    Mutant("M112", finish=lambda y, x: F.gelu(y)),
    Mutant("M112", change=F.gelu),
    Mutant("M112", change=F.gelu, activate=lambda x: x),
    Mutant("M83", make=linear_without(False, False)),
    Mutant("M83", make=linear_without(False, True)),
    Mutant("M83", make=linear_without(True, False)),
    Mutant("M108", make=lambda width, hidden_width: (nn.Linear(width, 4 * width), nn.Linear(4 * width, width))),
    Mutant("M108", make=lambda width, hidden_width: (nn.Linear(width, width), nn.Linear(width, width))),
    Mutant("M113", finish=lambda y, x: x + y),
    Mutant("M29", drop=lambda x, share, training: F.dropout(x, share)),
    Mutant("M29", drop=lambda x, share, training: F.dropout(x, share, not training)),
    Mutant("M30", drop=without_rescaling),
    Mutant("M30", drop=rescaled_in_evaluation),
    Mutant("M98", drop=lambda x, share, training: x),
    Mutant("M98", rate=lambda dropout: 0.0),
    Mutant("M99", rate=lambda dropout: 1 - dropout if dropout else 0.0),
    Mutant("M93", change=lambda x: x.detach()),
    Mutant("M93", activate=lambda x: F.gelu(x).detach()),
    Mutant("M93", apply=lambda layer, x: F.linear(x, layer.weight.data, layer.bias.data)),
    Mutant("M15", change=clamp_in_place),
    Mutant("M40", initialise=initialise_normal),
    Mutant("M120", initialise=freeze),
    *TOO_SMALL,
)


def feed_like(forward):
    """Make a FeedForward of a function of itself and x."""

    class FeedForward(nn.Module):
        def __init__(self, width, hidden_width, dropout=0.0):
            super().__init__()
            self.contract = nn.Linear(hidden_width, width)
            self.expand = nn.Linear(width, hidden_width)
            self.share = dropout
            nn.init.xavier_uniform_(self.expand.weight)
            nn.init.zeros_(self.expand.bias)

    FeedForward.forward = forward
    return FeedForward


class FeedForwardInSequence(nn.Module):
    """The layers under their names, and in an nn.Sequential; dropout behind both, as torchvision's MLPBlock."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, hidden_width), nn.Linear(hidden_width, width)
        self.net = nn.Sequential(self.expand, nn.GELU(), nn.Dropout(dropout), self.contract, nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)


class FeedForwardWithNames(nn.Sequential):
    """An nn.Sequential whose layers have the names."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.add_module("expand", nn.Linear(width, hidden_width))
        self.add_module("gelu", nn.GELU())
        self.add_module("contract", nn.Linear(hidden_width, width))
        self.add_module("dropout", nn.Dropout(dropout))
        nn.init.trunc_normal_(self.expand.weight, std=0.02)
        nn.init.normal_(self.contract.weight, std=0.02)


def feed_through_erf(net, x):
    hidden = net.expand(x)
    hidden = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
    return net.contract(F.dropout(hidden, p=net.share, training=net.training))


def feed_through_tanh(net, x):
    """As GPT-2 does: GELU by its tanh approximation, dropout at the end."""
    hidden = net.expand(x)
    hidden = 0.5 * hidden * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return F.dropout(net.contract(hidden), net.share, net.training)


def feed_by_einsum(net, x):
    hidden = torch.einsum("...d,hd->...h", x, net.expand.weight) + net.expand.bias
    hidden = hidden * torch.distributions.Normal(0.0, 1.0).cdf(hidden)
    if net.training and net.share:
        hidden = hidden * torch.bernoulli(torch.full_like(hidden, 1 - net.share)) / (1 - net.share)
    return torch.einsum("...h,dh->...d", hidden, net.contract.weight) + net.contract.bias


def feed_token_by_token(net, x):
    tokens = [F.linear(F.gelu(net.expand(token)), net.contract.weight) for token in x.reshape(-1, x.shape[-1])]
    return F.dropout(torch.stack(tokens).reshape(x.shape) + net.contract.bias, net.share, net.training)


def feed_by_addmm(net, x):
    rows = x.flatten(end_dim=-2)
    hidden = F.gelu(torch.addmm(net.expand.bias, rows, net.expand.weight.T), approximate="tanh")
    hidden = nn.Dropout(net.share).train(net.training)(hidden)
    return torch.addmm(net.contract.bias, hidden, net.contract.weight.T).unflatten(0, x.shape[:-1])


CORRECT_FEED_FORWARD = {
    "answer": answers.FeedForward,
    "in a sequence": FeedForwardInSequence,
    "a sequence with names": FeedForwardWithNames,
    "erf": feed_like(feed_through_erf),
    "tanh approximation": feed_like(feed_through_tanh),
    "einsum, cdf, own dropout": feed_like(feed_by_einsum),
    "token by token": feed_like(feed_token_by_token),
    "addmm": feed_like(feed_by_addmm),
    "steps": feed_forward_from(),
    "oracle": layers.FeedForward,
}


def feed_forward_value_cases(rng):
    return [
        Case("a batch of tokens", ("output", rng.normal(size=(2, 5, 4)), 6, 0.0, 1)),
        Case("more components than hidden ones", ("output", rng.normal(size=(3, 4, 7)), 5, 0.0, 2)),
        Case("one image, one token", ("output", rng.normal(size=(1, 1, 3)), 8, 0.0, 3)),
        Case("a batch of tokens, what is learned", ("learning", rng.normal(size=(2, 5, 4)), 6, 0.0, 4)),
        Case("fresh parameters", ("fresh", rng.normal(size=(2, 3, 50)), 70)),
    ]


def feed_forward_dropout_cases(rng):
    return [
        Case("dropout of 0.2", ("dropout", rng.normal(size=(2, 5, 4)), 6, 0.2)),
        Case("dropout of 0.1", ("dropout", rng.normal(size=(2, 3, 5)), 7, 0.1)),
    ]


def feed_forward_visible_cases(rng):
    x = np.array([[[1.0, -2.0, 0.5], [0.0, 1.0, 2.0]]])
    return [
        Case("two tokens of width 3, hidden width 5", ("output", x, 5)),
        Case("gradients", ("learning", x, 5)),
        Case("fresh parameters", ("fresh", np.zeros((1, 1, 50)), 70)),
        Case("dropout of 0.2", ("dropout", x, 5, 0.2)),
    ]


FEED_FORWARD = ExerciseInTorch(
    name="FeedForward",
    names=(),
    oracle=layers.FeedForward,
    build=feed_forward_from,
    mutants=FEED_FORWARD_MUTANTS,
    stages={"values": feed_forward_value_cases, "dropout": feed_forward_dropout_cases},
    visible=feed_forward_visible_cases,
    correct=CORRECT_FEED_FORWARD,
    probe=probes.probe_feed_forward,
)

# ----------------------------------------------------------------------------------------------------- EncoderBlock


def block_from(
    make_norms=lambda width: (answers.LayerNorm(width), answers.LayerNorm(width)),
    rates=lambda dropout: (dropout, dropout, dropout),  # of attention, feed-forward net and block
    heads=lambda num_heads, width: num_heads,
    hidden=lambda width, hidden_width: hidden_width,
    initialise=lambda block: None,
    change=lambda x: x,
    mask_of=lambda mask: mask,
    norm=lambda norm, x: norm(x),
    norm_first=lambda block: block.norm_attention,
    norm_again=lambda block: block.norm_feed_forward,
    read_by_attention=lambda x, y: y,
    read_by_feed_forward=lambda x, y: y,
    attend=lambda attention, y, mask: attention(y, mask),
    drop=F.dropout,
    join_attention=lambda x, y, added, norm: x + added,
    join_feed_forward=lambda x, y, added, norm: x + added,
    order=lambda x, attention, feed_forward: feed_forward(attention(x)),
    finish=lambda x, block: x,
):
    class EncoderBlock(nn.Module):
        def __init__(self, width, num_heads, hidden_width, dropout=0.0):
            super().__init__()
            self.rates = rates(dropout)
            self.attention = MultiHeadAttention(width, heads(num_heads, width), self.rates[0])
            self.feed_forward = answers.FeedForward(width, hidden(width, hidden_width), self.rates[1])
            self.norm_attention, self.norm_feed_forward = make_norms(width)
            initialise(self)

        def forward(self, x, mask=None):
            def attention(x):
                y = norm(norm_first(self), x)
                read = read_by_attention(x, y)
                added = drop(attend(self.attention, read, mask_of(mask)), self.rates[2], self.training)
                return join_attention(x, y, added, norm_first(self))

            def feed_forward(x):
                y = norm(norm_again(self), x)
                added = drop(self.feed_forward(read_by_feed_forward(x, y)), self.rates[2], self.training)
                return join_feed_forward(x, y, added, norm_again(self))

            return finish(order(change(x), attention, feed_forward), self)

    return EncoderBlock


def add_in_place(x, y, added, norm):
    x += added
    return x


def same_norm_twice(width):
    norm = answers.LayerNorm(width)
    return norm, norm


def norms_of(make):
    return lambda width: (make(width), make(width))


class BatchNorm(nn.BatchNorm1d):
    """nn.BatchNorm1d for tokens."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def after(x, y, added, norm):
    return norm(x + added)


def normed(x, y, added, norm):
    return x + norm(added)


def rescaled_sum(x, y, added, norm):
    return (x + added) / 2**0.5


def halved_sum(x, y, added, norm):
    return (x + added) / 2


def as_it_is(norm, x):
    return x


def residual_from_the_block_input(x, attention, feed_forward):
    y = attention(x)
    return x + (feed_forward(y) - y)


# The number of heads where another number stands: one, as many as the width has components, or the head width.
HEADS = (lambda num_heads, width: 1, lambda num_heads, width: width, lambda num_heads, width: width // num_heads)
OTHER_HEADS = tuple(Mutant("M135", heads=heads) for heads in HEADS)

BLOCK_MUTANTS = (
    Mutant("M15", join_attention=add_in_place),
    Mutant("M16", mask_of=lambda mask: None if mask is None else ~mask),
    Mutant("M28", attend=lambda attention, y, mask: attention(y.transpose(0, 1)).transpose(0, 1)),
    Mutant("M29", drop=lambda x, share, training: F.dropout(x, share)),
    Mutant("M30", drop=without_rescaling),
    Mutant("M30", drop=rescaled_in_evaluation),
    Mutant("M32", norm=as_it_is),
    Mutant("M32", read_by_attention=lambda x, y: x),
    Mutant("M32", read_by_feed_forward=lambda x, y: x),
    Mutant("M32", make_norms=norms_of(lambda width: nn.Identity())),
    Mutant("M32", make_norms=lambda width: (nn.Identity(), answers.LayerNorm(width))),
    Mutant("M32", make_norms=lambda width: (answers.LayerNorm(width), nn.Identity())),
    Mutant("M33", norm=as_it_is, join_attention=after, join_feed_forward=after),
    Mutant("M33", norm=as_it_is, join_attention=normed, join_feed_forward=normed),
    Mutant(
        "M33", join_attention=after, join_feed_forward=after, norm=lambda norm, x: x, drop=lambda x, share, training: x
    ),
    Mutant("M34", make_norms=norms_of(BatchNorm)),
    Mutant("M36", make_norms=norms_of(lambda width: nn.LayerNorm(width, elementwise_affine=False))),
    Mutant("M37", join_attention=lambda x, y, added, norm: added),
    Mutant("M37", join_feed_forward=lambda x, y, added, norm: added),
    Mutant("M37", join_attention=lambda x, y, added, norm: added, join_feed_forward=lambda x, y, added, norm: added),
    Mutant(
        "M37", join_attention=lambda x, y, added, norm: y + added, join_feed_forward=lambda x, y, added, norm: y + added
    ),
    Mutant("M37", join_attention=lambda x, y, added, norm: y + added),
    Mutant("M37", join_feed_forward=lambda x, y, added, norm: y + added),
    Mutant("M37", order=residual_from_the_block_input),
    Mutant("M38", make_norms=same_norm_twice),
    Mutant("M38", norm_again=lambda block: block.norm_attention),
    Mutant("M38", norm_first=lambda block: block.norm_feed_forward),
    Mutant("M40", initialise=initialise_normal),
    Mutant("M71", mask_of=lambda mask: None),
    Mutant("M93", join_attention=lambda x, y, added, norm: x + added.detach()),
    Mutant("M93", join_feed_forward=lambda x, y, added, norm: x + added.detach()),
    Mutant("M93", join_attention=lambda x, y, added, norm: x.detach() + added),
    Mutant("M93", join_feed_forward=lambda x, y, added, norm: x.detach() + added),
    Mutant(
        "M93",
        join_attention=lambda x, y, added, norm: x.detach() + added,
        join_feed_forward=lambda x, y, added, norm: x.detach() + added,
    ),
    Mutant("M93", change=lambda x: x.detach()),
    Mutant("M95", finish=lambda x, block: F.dropout(x, block.rates[2], block.training)),
    Mutant("M97", order=lambda x, attention, feed_forward: attention(feed_forward(x))),
    Mutant("M97", order=lambda x, attention, feed_forward: attention(x) + feed_forward(x) - x),
    Mutant("M98", rates=lambda dropout: (0.0, 0.0, 0.0)),
    Mutant("M98", rates=lambda dropout: (dropout, 0.0, 0.0)),
    Mutant("M98", rates=lambda dropout: (0.0, dropout, 0.0)),
    Mutant("M108", hidden=lambda width, hidden_width: 4 * width),
    Mutant("M108", hidden=lambda width, hidden_width: width),
    Mutant("M114", make_norms=norms_of(nn.RMSNorm)),
    Mutant("M115", finish=lambda x, block: block.norm_feed_forward(x)),
    Mutant("M115", finish=lambda x, block: F.layer_norm(x, x.shape[-1:])),
    Mutant("M116", finish=lambda x, block: x / 2**0.5),
    Mutant("M116", join_attention=lambda x, y, added, norm: (x + added) / 2),
    Mutant("M116", join_attention=rescaled_sum, join_feed_forward=rescaled_sum),
    Mutant("M116", join_attention=halved_sum, join_feed_forward=halved_sum),
    Mutant("M120", make_norms=norms_of(lambda width: freeze(answers.LayerNorm(width)))),
    Mutant("M120", initialise=freeze),
    Mutant(
        "M161",
        norm_first=lambda block: block.norm_feed_forward,
        norm_again=lambda block: block.norm_attention,
    ),
    *OTHER_HEADS,
    *TOO_SMALL,
)


class BlockOfTorchNorms(nn.Module):
    """As minGPT's: PyTorch's norms, one expression for each part, dropout inside the parts alone."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, num_heads, dropout)
        self.feed_forward = answers.FeedForward(width, hidden_width, dropout)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_attention(x), mask)
        x = x + self.feed_forward(self.norm_feed_forward(x))
        return x


class Residual(nn.Module):
    """As the Annotated Transformer's SublayerConnection, pre-norm."""

    def __init__(self, norm, dropout):
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, x, part):
        return x + self.dropout(part(self.norm(x)))


class BlockOfResiduals(nn.Module):
    """Each part and its norm in a module that adds."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.norm_attention, self.norm_feed_forward = answers.LayerNorm(width), answers.LayerNorm(width)
        self.attention = MultiHeadAttention(width, num_heads, dropout)
        self.feed_forward = answers.FeedForward(width, hidden_width, dropout)
        self.first, self.second = Residual(self.norm_attention, dropout), Residual(self.norm_feed_forward, dropout)

    def forward(self, x, mask=None):
        return self.second(self.first(x, lambda y: self.attention(y, mask)), self.feed_forward)


class BlockOfTimm(nn.Module):
    """As timm's: the feed-forward net made first, matrices truncated normal, dropout on both sums."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.feed_forward = FeedForwardInSequence(width, hidden_width, dropout)
        self.norm_feed_forward = NormOfTorchInside(width, eps=1e-5)
        self.attention = MultiHeadAttention(num_heads=num_heads, width=width, dropout=0.0)
        self.norm_attention = NormWithBuffer(width)
        self.drop = nn.Dropout(dropout)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.trunc_normal_(part.weight, std=0.02)
                nn.init.zeros_(part.bias)

    def forward(self, x, mask=None):
        x = self.drop(self.attention(self.norm_attention(x), mask=mask)) + x
        return self.drop(self.feed_forward(self.norm_feed_forward(x))) + x


class BlockWithFunctions(answers.EncoderBlock):
    """Dropout, norm and sums through the functional interface, on a copy that is changed in place."""

    def forward(self, x, mask=None):
        stream = x.clone()
        width = x.shape[-1:]
        y = F.layer_norm(stream, width, self.norm_attention.scale, self.norm_attention.shift)
        stream = torch.add(stream, F.dropout(self.attention(y, mask), self.dropout.p, self.training))
        y = F.layer_norm(stream, width, self.norm_feed_forward.scale, self.norm_feed_forward.shift)
        return torch.stack([stream, F.dropout(self.feed_forward(y), self.dropout.p, self.training)]).sum(dim=0)


class BlockImageByImage(answers.EncoderBlock):
    """Every image by itself."""

    def forward(self, x, mask=None):
        outputs = [
            super(BlockImageByImage, self).forward(x[i : i + 1], None if mask is None else mask[i : i + 1])
            for i in range(len(x))
        ]
        return torch.cat(outputs)


class BlockWithFullMask(answers.EncoderBlock):
    """Masks are brought to one shape first; attention and the rest are methods."""

    def attend(self, x, mask):
        return self.dropout(self.attention(self.norm_attention(x), mask))

    def forward(self, x, mask=None):
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None, None, :].expand(-1, self.attention.num_heads, x.shape[1], -1)
        elif mask is not None and mask.ndim == 3:
            mask = mask.unsqueeze(1)
        x = x + self.attend(x, mask)
        return x.add(self.dropout(self.feed_forward(self.norm_feed_forward(x))))


class BlockOfXavier(BlockOfTorchNorms):
    """Xavier's matrices, the last ones of each branch zero."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(width, num_heads, hidden_width, dropout)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.xavier_normal_(parameter) if "out" not in name else nn.init.zeros_(parameter)


CORRECT_BLOCK = {
    "answer": answers.EncoderBlock,
    "minGPT": BlockOfTorchNorms,
    "Annotated Transformer": BlockOfResiduals,
    "timm": BlockOfTimm,
    "functions": BlockWithFunctions,
    "image by image": BlockImageByImage,
    "masks made full": BlockWithFullMask,
    "Xavier and zeros": BlockOfXavier,
    "steps": block_from(),
    "oracle": layers.EncoderBlock,
}


def block_value_cases(rng):
    return [
        Case("2 images, 5 tokens, 3 heads", ("output", spread(rng, 2, 5, 12), 3, 7, None, 0.0, 1)),
        Case("4 images, 3 tokens, 2 heads", ("output", spread(rng, 4, 3, 6), 2, 9, None, 0.0, 2)),
        Case("one image, one token, one head", ("output", spread(rng, 1, 1, 5), 1, 3, None, 0.0, 3)),
    ]


def block_learning_cases(rng):
    return [
        Case("what is learned", ("learning", spread(rng, 2, 5, 12), 3, 7, None, 0.0, 4)),
        Case("fresh parameters", ("fresh", spread(rng, 2, 3, 48), 4, 64)),
    ]


def block_mask_cases(rng):
    """Behind a mask everything else must be right too; the first case has none, so that what is wrong anyway is named."""
    return [
        Case("a mask of tokens", ("output", spread(rng, 2, 5, 12), 3, 7, draw_mask(rng, 2, 5), 0.0, 5)),
        Case("a mask of pairs", ("output", spread(rng, 2, 5, 12), 3, 7, draw_mask(rng, 2, 5, 5), 0.0, 6)),
        Case("a mask for each head", ("output", spread(rng, 3, 4, 10), 2, 6, draw_mask(rng, 3, 2, 4, 4), 0.0, 7)),
        Case("as many images as heads", ("output", spread(rng, 2, 5, 6), 2, 7, draw_mask(rng, 2, 5, 5), 0.0, 8)),
    ]


def block_dropout_cases(rng):
    return [
        Case("dropout of 0.2", ("dropout", spread(rng, 2, 6, 12), 3, 7, None, 0.2, 8)),
        Case("dropout of 0.4", ("dropout", spread(rng, 3, 5, 8), 2, 11, None, 0.4, 9)),
    ]


def block_visible_cases(rng):
    x = np.round(spread(rng, 2, 5, 6), 2)
    mask = np.array([[True, True, False, True, True], [False, True, True, False, False]])
    return [
        Case("2 images, 5 tokens, 3 heads", ("output", x, 3, 7)),
        Case("a mask of tokens", ("output", x, 3, 7, mask)),
        Case("gradients", ("learning", x[:, :2], 3, 7)),
        Case("fresh parameters", ("fresh", np.zeros((1, 1, 48)), 4, 64)),
        Case("dropout of 0.2", ("dropout", x, 3, 7, None, 0.2)),
    ]


ENCODER_BLOCK = ExerciseInTorch(
    name="EncoderBlock",
    names=(),
    oracle=layers.EncoderBlock,
    build=block_from,
    mutants=BLOCK_MUTANTS,
    stages={
        "values": block_value_cases,
        "learning": block_learning_cases,
        "masks": block_mask_cases,
        "dropout": block_dropout_cases,
    },
    visible=block_visible_cases,
    correct=CORRECT_BLOCK,
    uses={"LayerNorm": layers.LayerNorm, "FeedForward": layers.FeedForward},
    probe=probes.probe_block,
)

# ---------------------------------------------------------------------------------------------------------- Encoder


class TorchEncoder(nn.Module):
    """PyTorch's own stack; it copies one layer, so we put layers with parameters of their own in."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        made = [layers.Layer(width, num_heads, hidden_width, dropout) for _ in range(depth)]
        self.stack = nn.TransformerEncoder(made[0], depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.stack.layers, self.num_heads = nn.ModuleList(made), num_heads

    norm, blocks = property(lambda self: self.stack.norm), property(lambda self: self.stack.layers)

    def forward(self, x, mask=None):
        return self.stack(x, layers.hidden_pairs(mask, self.num_heads))


def encoder_from(
    make_blocks=lambda depth, make: nn.ModuleList(make() for _ in range(depth)),
    rate=lambda dropout: dropout,
    heads=lambda num_heads, width: num_heads,
    hidden=lambda width, hidden_width: hidden_width,
    initialise=lambda encoder: None,
    change=lambda x, encoder: x,
    chosen=lambda blocks: blocks,
    mask_of=lambda mask, index, depth: mask,
    between=lambda encoder, x: x,
    join=lambda x, y: y,
    make_norm=answers.LayerNorm,
    finish=lambda encoder, x: encoder.norm(x),
):
    class Encoder(nn.Module):
        def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
            super().__init__()
            self.share = dropout
            self.blocks = make_blocks(
                depth,
                lambda factor=1: answers.EncoderBlock(
                    width, heads(num_heads, width), hidden(width, hidden_width), factor * rate(dropout)
                ),
            )
            self.norm = make_norm(width)
            initialise(self)

        def forward(self, x, mask=None):
            y = change(x, self)
            for index, block in enumerate(chosen(self.blocks)):
                y = between(self, block(y, mask_of(mask, index, len(self.blocks))))
            return finish(self, join(x, y))

    return Encoder


ENCODER_MUTANTS = (
    Mutant("M15", change=lambda x, encoder: x.mul_(1.01)),
    Mutant("M16", mask_of=lambda mask, index, depth: None if mask is None else ~mask),
    Mutant("M38", make_blocks=lambda depth, make: nn.ModuleList([make()] * depth)),
    Mutant("M38", make_blocks=lambda depth, make: nn.ModuleList([make()]), chosen=lambda blocks: [blocks[0]] * 4),
    Mutant("M38", chosen=lambda blocks: [blocks[0]] * len(blocks)),
    Mutant("M40", initialise=initialise_normal),
    Mutant("M71", mask_of=lambda mask, index, depth: None),
    Mutant("M90", finish=lambda encoder, x: x),
    Mutant("M90", make_norm=lambda width: nn.Identity()),
    Mutant("M93", between=lambda encoder, x: x.detach()),
    Mutant("M93", change=lambda x, encoder: x.detach()),
    Mutant("M93", chosen=lambda blocks: [lambda x, mask, block=block: block(x.detach(), mask) for block in blocks]),
    Mutant("M94", make_blocks=lambda depth, make: [make() for _ in range(depth)]),
    Mutant("M94", make_blocks=lambda depth, make: tuple(make() for _ in range(depth))),
    Mutant("M95", change=lambda x, encoder: F.dropout(x, encoder.share, encoder.training)),
    Mutant("M95", between=lambda encoder, x: F.dropout(x, encoder.share, encoder.training)),
    Mutant("M98", rate=lambda dropout: 0.0),
    Mutant("M98", make_blocks=lambda depth, make: nn.ModuleList(make(index == 0) for index in range(depth))),
    Mutant("M98", make_blocks=lambda depth, make: nn.ModuleList(make(index > 0) for index in range(depth))),
    Mutant("M98", make_blocks=lambda depth, make: nn.ModuleList(make(index == depth - 1) for index in range(depth))),
    Mutant("M101", make_blocks=lambda depth, make: nn.ModuleList(map(copy.deepcopy, [make()] * depth))),
    Mutant("M102", make_blocks=lambda depth, make: nn.ModuleList(make() for _ in range(depth - 1))),
    Mutant("M102", make_blocks=lambda depth, make: nn.ModuleList(make() for _ in range(depth + 1))),
    Mutant("M102", chosen=lambda blocks: blocks[:-1]),
    Mutant("M102", chosen=lambda blocks: blocks[1:]),
    Mutant("M102", make_blocks=lambda depth, make: nn.ModuleList(make() for _ in range(2))),
    Mutant("M102", make_blocks=lambda depth, make: nn.ModuleList(make() for _ in range(6))),
    Mutant("M102", chosen=lambda blocks: blocks[:1]),
    Mutant("M102", chosen=lambda blocks: blocks[-1:]),
    Mutant("M103", between=lambda encoder, x: encoder.norm(x), finish=lambda encoder, x: x),
    Mutant("M103", between=lambda encoder, x: encoder.norm(x)),
    Mutant("M108", hidden=lambda width, hidden_width: 4 * width),
    Mutant("M109", mask_of=lambda mask, index, depth: mask if index == 0 else None),
    Mutant("M109", mask_of=lambda mask, index, depth: mask if index > 0 else None),
    Mutant("M109", mask_of=lambda mask, index, depth: mask if index == depth - 1 else None),
    Mutant("M117", change=lambda x, encoder: encoder.norm(x), finish=lambda encoder, x: x),
    Mutant("M117", change=lambda x, encoder: encoder.norm(x)),
    Mutant("M118", join=lambda x, y: x + y),
    Mutant("M118", chosen=lambda blocks: [lambda x, mask, block=block: x + block(x, mask) for block in blocks]),
    Mutant("M119", chosen=lambda blocks: list(blocks)[::-1]),
    Mutant("M36", make_norm=lambda width: nn.LayerNorm(width, elementwise_affine=False)),
    Mutant("M120", make_norm=lambda width: freeze(answers.LayerNorm(width))),
    Mutant("M120", initialise=freeze),
    *OTHER_HEADS,
    *TOO_SMALL,
)


class EncoderOfDeepcopies(answers.Encoder):
    """Copies of one block, drawn anew."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(0, width, num_heads, hidden_width, dropout)
        first = answers.EncoderBlock(width, num_heads, hidden_width, dropout)
        self.blocks = nn.ModuleList([copy.deepcopy(first) for _ in range(depth)])
        for part in self.modules():
            if isinstance(part, nn.Linear):
                part.reset_parameters()


class EncoderInSequence(nn.Module):
    """blocks as an nn.Sequential, which takes no mask."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*[BlockOfTorchNorms(width, num_heads, hidden_width, dropout) for _ in range(depth)])

    def forward(self, x, mask=None):
        if mask is None:
            return self.norm(self.blocks(x))
        for index in range(len(self.blocks)):
            x = self.blocks[index](x, mask=mask)
        return self.norm(x)


class EncoderByAppend(nn.Module):
    """Blocks appended one by one, and every state of the stream kept."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.depth, self.blocks = depth, nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(BlockOfTimm(width, num_heads, hidden_width, dropout=dropout))
        self.norm = NormWithBuffer(width)

    def forward(self, x, mask=None):
        stream = [x]
        for block in self.blocks:
            stream.append(block(stream[-1], mask))
        return self.norm(stream[-1])


class EncoderWithNormOfTorch(answers.Encoder):
    """Parameters as GPT-2 draws them, and blocks called recursively."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(depth, width, num_heads, hidden_width, dropout)
        self.norm = nn.LayerNorm(width)
        self.apply(self.initialise)

    def initialise(self, part):
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)

    def forward(self, x, mask=None):
        return self.norm(self.run(x, mask, 0))

    def run(self, x, mask, index):
        return x if index == len(self.blocks) else self.run(self.blocks[index](x, mask), mask, index + 1)


class EncoderInDict(answers.Encoder):
    """blocks as an nn.ModuleDict with numbers for names."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(0, width, num_heads, hidden_width)
        blocks = {str(index): answers.EncoderBlock(width, num_heads, hidden_width, dropout) for index in range(depth)}
        self.blocks = nn.ModuleDict(blocks)

    def forward(self, x, mask=None):
        for block in self.blocks.values():
            x = block(x, mask)
        return self.norm(x)


CORRECT_ENCODER = {
    "answer": answers.Encoder,
    "deep copies, drawn anew": EncoderOfDeepcopies,
    "nn.Sequential": EncoderInSequence,
    "appended": EncoderByAppend,
    "N(0, 0.02²), recursive": EncoderWithNormOfTorch,
    "nn.ModuleDict": EncoderInDict,
    "steps": encoder_from(),
    "oracle": TorchEncoder,
}


def encoder_value_cases(rng):
    return [
        Case("depth 4", ("output", spread(rng, 2, 5, 12), 4, 3, 7, None, 0.0, 1)),
        Case("depth 2, one image, one token", ("output", spread(rng, 1, 1, 6), 2, 2, 9, None, 0.0, 2)),
        Case("depth 3, more images than tokens", ("output", spread(rng, 5, 2, 8), 3, 4, 6, None, 0.0, 3)),
    ]


def encoder_learning_cases(rng):
    return [
        Case("what is learned", ("learning", spread(rng, 2, 5, 12), 4, 3, 7, None, 0.0, 4)),
        Case("fresh parameters", ("fresh", spread(rng, 2, 3, 48), 3, 4, 64)),
    ]


def encoder_hand_on_cases(rng):
    return [
        Case("a mask of tokens", ("output", spread(rng, 2, 5, 12), 4, 3, 7, draw_mask(rng, 2, 5), 0.0, 5)),
        Case("a mask for each head", ("output", spread(rng, 3, 4, 10), 2, 5, 6, draw_mask(rng, 3, 5, 4, 4), 0.0, 6)),
        Case("dropout of 0.2", ("dropout", spread(rng, 2, 6, 12), 4, 3, 7, None, 0.2, 7)),
    ]


def encoder_visible_cases(rng):
    x = np.round(spread(rng, 2, 5, 6), 2)
    mask = np.array([[True, True, False, True, True], [False, True, True, False, False]])
    return [
        Case("depth 3, 2 images, 5 tokens", ("output", x, 3, 1, 7)),
        Case("a mask of tokens", ("output", x, 4, 3, 7, mask)),
        Case("gradients", ("learning", x[:, :2], 4, 3, 7)),
        Case("fresh parameters", ("fresh", np.zeros((1, 1, 48)), 3, 4, 64)),
        Case("dropout of 0.2", ("dropout", x, 4, 3, 7, None, 0.2)),
    ]


ENCODER = ExerciseInTorch(
    name="Encoder",
    names=(),
    oracle=TorchEncoder,
    build=encoder_from,
    mutants=ENCODER_MUTANTS,
    stages={"values": encoder_value_cases, "learning": encoder_learning_cases, "hand_on": encoder_hand_on_cases},
    visible=encoder_visible_cases,
    correct=CORRECT_ENCODER,
    uses={"LayerNorm": layers.LayerNorm, "FeedForward": layers.FeedForward, "EncoderBlock": layers.EncoderBlock},
    probe=probes.probe_encoder,
)

# ----------------------------------------------------------------------------------------------------------- repair


def is_of_attention(name):
    return name.startswith("attention")


def weights_of(block):
    return {name: parameter for name, parameter in block.named_parameters() if parameter.ndim == 2}


def redraw(initialise, chosen=lambda name: True):
    """Draw the matrices anew with a function of each."""

    def draw(block):
        for name, parameter in weights_of(block).items():
            if chosen(name):
                initialise(parameter.data)

    return draw


def repair_from(
    make_norms=lambda block, width: (nn.LayerNorm(width), nn.LayerNorm(width)),
    batch_first=True,
    draw=redraw(nn.init.xavier_uniform_),
    learn=lambda block: block.requires_grad_(True),
    finish=lambda block: block,
):
    def repair(block):
        block.norm_attention, block.norm_feed_forward = make_norms(block, block.attention.embed_dim)
        block.attention.batch_first = batch_first
        draw(block)
        learn(block)
        return finish(block)

    return repair


def another_block(block):
    """A new block in place of the one that was given."""
    new = answers.BrokenBlock(block.attention.embed_dim, block.attention.num_heads, block.feed_forward[0].out_features)
    return repair_from()(new)


def rescale_output(block):
    inside = block.forward
    block.forward = lambda x: inside(x) / (1 + inside(x).std())
    return block


def norm_output(block):
    inside = block.forward
    block.forward = lambda x: F.layer_norm(inside(x), x.shape[-1:])
    return block


def zero_vectors(block):
    """Set all biases to 0, and with them the scales of the norms."""
    for parameter in block.parameters():
        if parameter.ndim == 1:
            nn.init.zeros_(parameter)
    return block


def stored(parameter):
    """The same numbers for every block."""
    numbers = np.random.default_rng(0).normal(size=tuple(parameter.shape)) * parameter.shape[1] ** -0.5
    parameter.copy_(torch.tensor(numbers))


def reset_attention_in_part(block):
    block.attention._reset_parameters()
    block.feed_forward[0].reset_parameters()
    block.feed_forward[2].reset_parameters()


REPAIR_MUTANTS = (
    Mutant("M28", batch_first=False),
    Mutant("M32", make_norms=lambda block, width: (nn.Identity(), nn.Identity())),
    Mutant("M32", make_norms=lambda block, width: (nn.LayerNorm(width), nn.Identity())),
    Mutant("M32", make_norms=lambda block, width: (nn.Identity(), nn.LayerNorm(width))),
    Mutant("M38", make_norms=lambda block, width: (nn.LayerNorm(width),) * 2),
    Mutant("M40", draw=lambda block: None),
    Mutant("M40", draw=redraw(nn.init.xavier_uniform_, is_of_attention)),
    Mutant("M40", draw=redraw(nn.init.xavier_uniform_, lambda name: not is_of_attention(name))),
    Mutant("M40", draw=redraw(lambda parameter: parameter.mul_(0.7))),
    Mutant("M40", draw=reset_attention_in_part),
    Mutant("M110", finish=zero_vectors),
    Mutant("M120", learn=lambda block: None),
    Mutant("M121", finish=another_block),
    Mutant("M122", draw=redraw(stored)),
    Mutant("M122", draw=redraw(lambda parameter: nn.init.constant_(parameter, 1 / parameter.shape[1]))),
    Mutant("M122", draw=redraw(nn.init.zeros_)),
    Mutant("M160", draw=redraw(lambda parameter: nn.init.normal_(parameter, std=1e-4))),
    Mutant("M114", finish=rescale_output),
    Mutant("M114", finish=norm_output),
    Mutant("M114", make_norms=lambda block, width: (BatchNorm(width), BatchNorm(width))),
    Mutant("M114", make_norms=lambda block, width: (nn.RMSNorm(width), nn.RMSNorm(width))),
)


def reset_parts(block):
    """PyTorch's own initialisation; `_reset_parameters` forgets the matrix behind the heads."""
    block.attention._reset_parameters()
    block.attention.out_proj.reset_parameters()
    block.feed_forward[0].reset_parameters()
    block.feed_forward[2].reset_parameters()


def replace_parts(block):
    width, hidden_width = block.attention.embed_dim, block.feed_forward[0].out_features
    block.attention = nn.MultiheadAttention(width, block.attention.num_heads, batch_first=True)
    block.feed_forward = nn.Sequential(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))


def end_with_zeros(block):
    for name, parameter in weights_of(block).items():
        if name in ("attention.out_proj.weight", "feed_forward.2.weight"):
            nn.init.zeros_(parameter)
        else:
            nn.init.kaiming_uniform_(parameter, a=5**0.5)


def as_gpt_2(block):
    for name, parameter in weights_of(block).items():
        last = name in ("attention.out_proj.weight", "feed_forward.2.weight")
        nn.init.normal_(parameter, std=0.02 / (2 * 6) ** 0.5 if last else 0.02)


def own_norms(block, width):
    return answers.LayerNorm(width), answers.LayerNorm(width, eps=1e-6)


CORRECT_REPAIR = {
    "answer": answers.repair,
    "normal of Xavier": repair_from(draw=redraw(nn.init.xavier_normal_)),
    "kaiming": repair_from(draw=redraw(nn.init.kaiming_normal_)),
    "kaiming, uniform": repair_from(draw=redraw(lambda parameter: nn.init.kaiming_uniform_(parameter, a=5**0.5))),
    "N(0, 0.02²)": repair_from(draw=redraw(lambda parameter: nn.init.normal_(parameter, std=0.02))),
    "truncated normal": repair_from(draw=redraw(lambda parameter: nn.init.trunc_normal_(parameter, std=0.02))),
    "rescaled": repair_from(draw=redraw(lambda parameter: parameter.mul_(parameter.shape[1] ** -0.5))),
    "a tenth": repair_from(draw=redraw(lambda parameter: parameter.mul_(0.1))),
    "orthogonal": repair_from(draw=redraw(nn.init.orthogonal_)),
    "PyTorch's own": repair_from(draw=reset_parts),
    "new parts": repair_from(draw=replace_parts),
    "last ones zero": repair_from(draw=end_with_zeros),
    "GPT-2": repair_from(draw=as_gpt_2),
    "own norms": repair_from(make_norms=own_norms),
    "norms without scale and shift": repair_from(
        make_norms=lambda block, width: (
            nn.LayerNorm(width, elementwise_affine=False),
            nn.LayerNorm(width, elementwise_affine=False),
        )
    ),
    "steps": repair_from(),
}


def repair_cases(what):
    """Sizes that all differ; the seed of the tokens is drawn."""

    def cases(rng):
        seed, depth = int(rng.integers(2**31)), 4 if what in ("activations", "gradients") else 2
        # what is not random and what the norms silence look alike in a loss; other checks tell them apart
        tells = {mutant.mistake for mutant in REPAIR_MUTANTS} - {"M110", "M122"} if what == "loss" else ()
        return [
            Case("width 48, hidden width 80", (what, (3, 7, 48), 4, 80, depth, seed), tells=tuple(tells)),
            Case("width 96, hidden width 64", (what, (2, 5, 96), 3, 64, depth, seed), tells=tuple(tells)),
        ]

    return cases


def repair_visible_cases(rng):
    return [
        Case(name, (what, (3, 7, 32), 4, 48, 3))
        for name, what in (
            ("the block", "block"),
            ("tokens and images", "tokens"),
            ("activations", "activations"),
            ("gradients", "gradients"),
            ("a small set", "loss"),
        )
    ]


def oracle_repair(block):
    """Pre-norm as PyTorch's layer has it, and PyTorch's own initialisation."""
    return repair_from(draw=reset_parts)(block)


def probe_repair_here(repair, make_block=None):
    """Take the broken block from the student's notebook, or, for a function of this process, from the answers."""
    return probes.probe_repair(repair, make_block or (None if hasattr(repair, "sibling") else answers.BrokenBlock))


REPAIR = ExerciseInTorch(
    name="repair",
    names=(),
    oracle=oracle_repair,
    build=repair_from,
    mutants=REPAIR_MUTANTS,
    stages={what: repair_cases(what) for what in ("block", "tokens", "activations", "gradients", "loss")},
    visible=repair_visible_cases,
    correct=CORRECT_REPAIR,
    probe=probe_repair_here,
)

HELPERS = (probes,)  # in the set-up cell too
EXERCISES = {exercise.name: exercise for exercise in (LAYER_NORM, FEED_FORWARD, ENCODER_BLOCK, ENCODER, REPAIR)}
check = checker(EXERCISES)

"""Well-known code and other answers to exercise 3 that are in no list of the checks, adapted to the signatures."""

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from solutions import encoder as answers
from solutions.encoder import BrokenBlock, MultiHeadAttention


class NormOfAnnotatedTransformer(nn.Module):
    """The std is that of a sample, and eps is added to it."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale, self.shift, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift


class NormOfConvNeXt(NormOfAnnotatedTransformer):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + self.eps)
        return self.scale * x + self.shift


class NormOfViTPytorch(NormOfAnnotatedTransformer):
    def forward(self, x):
        variance = torch.var(x, dim=-1, unbiased=False, keepdim=True)
        return (x - torch.mean(x, dim=-1, keepdim=True)) * (variance + self.eps).rsqrt() * self.scale + self.shift


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


class NetOfNanoGPT(nn.Module):
    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(width, hidden_width)
        self.gelu = nn.GELU()
        self.contract = nn.Linear(hidden_width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.expand(x)
        x = self.gelu(x)
        x = self.contract(x)
        x = self.dropout(x)
        return x


class NetOfMinGPT(NetOfNanoGPT):
    """NewGELU."""

    def forward(self, x):
        x = self.expand(x)
        x = 0.5 * x * (1.0 + torch.tanh((2.0 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))
        return self.dropout(self.contract(x))


class NetThatDropsTokens(NetOfNanoGPT):
    """nn.Dropout1d drops whole tokens."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__(width, hidden_width)
        self.dropout = nn.Dropout1d(dropout)

    def forward(self, x):
        return self.contract(self.dropout(self.gelu(self.expand(x))))


class BlockOfUvA(nn.Module):
    """Post-norm, as in the tutorial."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.feed_forward = NetOfNanoGPT(width, hidden_width, dropout)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm_attention(x + self.dropout(self.attention(x, mask=mask)))
        return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))


class BlockOfTorchvision(BlockOfUvA):
    """The names of its steps are those of torchvision's EncoderBlock."""

    def forward(self, input, mask=None):
        x = self.norm_attention(input)
        x = self.attention(x, mask)
        x = self.dropout(x)
        x = x + input
        y = self.norm_feed_forward(x)
        y = self.feed_forward(y)
        return x + y


class BlockInPlace(answers.EncoderBlock):
    """Its input is changed."""

    def forward(self, x, mask=None):
        x += self.dropout(self.attention(self.norm_attention(x), mask))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class BlockThatDropsInputs(answers.EncoderBlock):
    """Dropout stands behind the norms."""

    def forward(self, x, mask=None):
        x = x + self.attention(self.dropout(self.norm_attention(x)), mask)
        return x + self.feed_forward(self.dropout(self.norm_feed_forward(x)))


class BlockOnItsNorm(answers.EncoderBlock):
    """What came out of norm_attention is taken for the stream."""

    def forward(self, x, mask=None):
        y = self.norm_attention(x)
        x = x + self.dropout(self.attention(y, mask))
        return y + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class BlockWithCheckpoints(answers.EncoderBlock):
    """Its parts are computed again in the backward pass, which takes less memory."""

    def forward(self, x, mask=None):
        x = checkpoint(lambda x: x + self.attention(self.norm_attention(x), mask), x, use_reentrant=False)
        return checkpoint(lambda x: x + self.feed_forward(self.norm_feed_forward(x)), x, use_reentrant=False)


class EncoderThatSkips(answers.Encoder):
    """Whole blocks are dropped in training."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(depth, width, num_heads, hidden_width, dropout)
        self.dropout = dropout

    def forward(self, x, mask=None):
        for block in self.blocks:
            if not self.training or torch.rand(()) >= self.dropout:
                x = block(x, mask)
        return self.norm(x)


class EncoderWithRisingDropout(answers.Encoder):
    """Deeper blocks drop more."""

    def __init__(self, depth, *sizes, dropout=0.0):
        super().__init__(depth, *sizes)
        self.blocks = nn.ModuleList(answers.EncoderBlock(*sizes, dropout * (i + 1) / depth) for i in range(depth))


def with_dropout_of(cls, change):
    """Make a class whose dropout is another than is asked for."""
    return type(
        cls.__name__,
        (cls,),
        {"__init__": lambda self, *sizes, dropout=0.0: cls.__init__(self, *sizes, change(dropout))},
    )


def a_tenth(dropout):
    """Give a share of its own."""
    return 0.1 if dropout else 0.0


def half(dropout):
    """Give half of what was asked for."""
    return dropout / 2


class EncoderOfPyTorch(nn.Module):
    """nn.TransformerEncoder copies one layer."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        layer = answers.EncoderBlock(width, num_heads, hidden_width, dropout)
        self.blocks = nn.ModuleList([copy.deepcopy(layer) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class EncoderOfNanoGPT(nn.Module):
    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.blocks = nn.ModuleList([BlockOfTorchvision(width, num_heads, hidden_width, dropout) for _ in range(depth)])
        self.norm = NormOfConvNeXt(width)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "contract.weight")):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / (2 * depth) ** 0.5)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


def repair_by_apply(block):
    """Start every layer again as nanoGPT does, and put the norms in."""
    width = block.attention.embed_dim

    def start(part):
        if isinstance(part, nn.MultiheadAttention):
            nn.init.normal_(part.in_proj_weight, std=0.02)
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02)

    block.apply(start)
    for parameter in block.parameters():
        parameter.requires_grad = True
    block.norm_attention = NormOfConvNeXt(width)
    block.norm_feed_forward = NormOfViTPytorch(width)
    block.attention.batch_first = True
    return block


def repair_by_scaling(block):
    """Divide what is there by the root of the inputs, and set the attributes with setattr."""
    for name in ("norm_attention", "norm_feed_forward"):
        setattr(block, name, nn.LayerNorm(block.attention.embed_dim))
    with torch.no_grad():
        for parameter in block.requires_grad_().parameters():
            if parameter.dim() > 1:
                parameter /= parameter.size(1) ** 0.5
    block.attention.batch_first = True
    return block


def rope_of_roformer(x, positions, base=10_000.0):
    """Add up x times the cosines and x with each pair exchanged times the sines, as its authors do."""
    if x.shape[-1] % 2:
        raise ValueError(f"{x.shape[-1]} components make no pairs")
    exponents = torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1]
    angles = torch.einsum("...n,i->...ni", positions.to(x.dtype), base**-exponents)
    sin, cos = (wave.repeat_interleave(2, dim=-1) for wave in (angles.sin(), angles.cos()))
    signs = torch.tensor([-1.0, 1.0]).to(x).repeat(x.shape[-1] // 2)
    return x * cos + signs * x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * sin


def rope_of_llama(x, positions, base=10_000.0):
    """Pair the halves, as the code of many language models does."""
    if x.shape[-1] % 2:
        raise ValueError("odd")
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.cat((angles, angles), dim=-1)
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * angles.sin()


def rope_by_added_sines(x, positions, base=10_000.0):
    """Add codes, and turn nothing."""
    if x.shape[-1] % 2:
        raise ValueError("odd")
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


RIGHT = [
    ("rope", rope_of_roformer),
    ("EncoderBlock", BlockWithCheckpoints),
    ("LayerNorm", NormOfConvNeXt),
    ("LayerNorm", NormOfViTPytorch),
    ("FeedForward", NetOfNanoGPT),
    ("FeedForward", NetOfMinGPT),
    ("EncoderBlock", BlockOfTorchvision),
    ("Encoder", EncoderOfNanoGPT),
    ("repair", repair_by_apply),
    ("repair", repair_by_scaling),
]


def repair_with_a_hook(block):
    """Rescale the output, and nothing else."""
    block.register_forward_hook(lambda module, arguments, output: output / output.detach().std())
    return block


def repair_by_another_class(block):
    """Return a sound block of our own."""
    return answers.EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 8)


def repair_in_a_new_block(block):
    """Copy the repaired weights into a new block, and return that."""
    answers.repair(block)
    new = BrokenBlock(block.attention.embed_dim, block.attention.num_heads, block.feed_forward[0].out_features)
    new.load_state_dict(block.state_dict(), strict=False)
    return new


def repair_with_one_seed(block):
    """Seed before drawing: every block gets the same weights."""
    torch.manual_seed(0)
    return answers.repair(block)


def rope_that_takes_odd_widths(x, positions, base=10_000.0):
    """Leave the last feature of an odd width alone, where an error is due."""
    width = x.shape[-1] - x.shape[-1] % 2
    return torch.cat([rope_of_roformer(x[..., :width], positions, base), x[..., width:]], dim=-1)


class NormByMeanDeviation(answers.LayerNorm):
    """Divide by the mean absolute deviation."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.abs().mean(-1, keepdim=True) + self.eps) * self.scale + self.shift


WRONG = [
    ("rope", rope_that_takes_odd_widths, set()),
    ("LayerNorm", NormByMeanDeviation, set()),
    ("rope", rope_of_llama, {"M200"}),
    ("rope", rope_by_added_sines, set()),
    ("rope", lambda x, positions, base=10_000.0: rope_of_roformer(x, positions), set()),
    ("rope", lambda x, positions, base=10_000.0: rope_of_roformer(x.detach(), positions, base), set()),
    ("FeedForward", NetThatDropsTokens, set()),
    ("EncoderBlock", BlockThatDropsInputs, set()),
    ("EncoderBlock", BlockOnItsNorm, {"M37"}),
    ("Encoder", EncoderThatSkips, set()),
    ("Encoder", EncoderWithRisingDropout, set()),
    *(
        (cls.__name__, with_dropout_of(cls, half), set())
        for cls in (answers.FeedForward, answers.EncoderBlock, answers.Encoder)
    ),
    *((cls.__name__, with_dropout_of(cls, a_tenth), set()) for cls in (answers.EncoderBlock, answers.Encoder)),
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

"""Right answers of assignment 3_encoder, written differently: they must pass the checks."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from autograder.checks.encoder import oracles, stand_ins
from autograder.checks.encoder.right_rope import ROPE
from solutions import encoder as answers
from solutions.encoder import MultiHeadAttention

# ----------------------------------------------------------------------------------------------------------- LayerNorm


def norm_like(forward):
    """Make a LayerNorm whose forward is this function."""

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
    raised = variance + norm.eps
    inverse = torch.rsqrt(raised)
    normalised = (x - mean) * inverse
    scaled = normalised * norm.scale
    return scaled + norm.shift


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
    squares = wide.pow(2)
    wide = wide * (squares.mean(-1, keepdim=True) + norm.eps) ** -0.5
    return wide.to(x.dtype) * norm.scale + norm.shift


def norm_in_float64(norm, x):
    wide = x.double()
    centred = wide - wide.mean(-1, True)
    deviation = (torch.linalg.vector_norm(centred, dim=-1, keepdim=True) ** 2 / norm.width + norm.eps).sqrt()
    y = centred / deviation
    return (y * norm.scale + norm.shift).to(x.dtype)


class NormOfTorchInside(nn.Module):
    """Holds PyTorch's norm, and gives its parameters the names of the exercise."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)
        self.scale, self.shift = self.norm.weight, self.norm.bias

    def forward(self, x):
        return self.norm(x)


class NormWithBuffer(nn.Module):
    """Registers eps as a buffer, and its parameters by register_parameter."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.register_buffer("eps", torch.tensor(eps))
        self.register_parameter("shift", nn.Parameter(torch.full((width,), 0.0)))
        self.register_parameter("scale", nn.Parameter(torch.full((width,), 1.0)))

    def forward(self, x):
        mean = torch.mean(x, -1).unsqueeze(-1)
        variance = torch.mean((x - mean) ** 2, -1).unsqueeze(-1)
        return torch.addcmul(self.shift, self.scale, (x - mean) / torch.sqrt(variance + self.eps))


# --------------------------------------------------------------------------------------------------------- FeedForward


def feed_like(forward):
    """Make a FeedForward whose forward is this function."""

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
    """Has its layers under their names and in an nn.Sequential, with dropout twice, as in torchvision's MLPBlock."""

    def __init__(self, width, hidden_width, dropout=0.0):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, hidden_width), nn.Linear(hidden_width, width)
        self.net = nn.Sequential(self.expand, nn.GELU(), nn.Dropout(dropout), self.contract, nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)


def feed_through_erf(net, x):
    hidden = net.expand(x)
    share = 0.5 * (1 + torch.erf(hidden / 2**0.5))
    hidden = hidden * share
    return net.contract(F.dropout(hidden, p=net.share, training=net.training))


def feed_through_tanh(net, x):
    """Use the tanh approximation of GELU, and dropout at the end, as GPT-2 does."""
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


# -------------------------------------------------------------------------------------------------------- EncoderBlock


class BlockOfTorchNorms(nn.Module):
    """Has PyTorch's norms, one expression for each part, and dropout only inside the parts, as in minGPT."""

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
    """Follows the SublayerConnection of The Annotated Transformer, with pre-norm."""

    def __init__(self, norm, dropout):
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, x, part):
        return x + self.dropout(part(self.norm(x)))


class BlockOfResiduals(nn.Module):
    """Has a residual module for each part and its norm."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__()
        self.norm_attention, self.norm_feed_forward = answers.LayerNorm(width), answers.LayerNorm(width)
        self.attention = MultiHeadAttention(width, num_heads, dropout)
        self.feed_forward = answers.FeedForward(width, hidden_width, dropout)
        self.first, self.second = Residual(self.norm_attention, dropout), Residual(self.norm_feed_forward, dropout)

    def forward(self, x, mask=None):
        return self.second(self.first(x, lambda y: self.attention(y, mask)), self.feed_forward)


class BlockOfTimm(nn.Module):
    """Makes its parts in another order, with truncated normal matrices and dropout on both branches, as in timm."""

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
    """Uses functions for dropout, norms and sums."""

    def forward(self, x, mask=None):
        width = x.shape[-1:]
        y = F.layer_norm(x, width, self.norm_attention.scale, self.norm_attention.shift)
        stream = torch.add(x, F.dropout(self.attention(y, mask), self.dropout.p, self.training))
        y = F.layer_norm(stream, width, self.norm_feed_forward.scale, self.norm_feed_forward.shift)
        return torch.stack([stream, F.dropout(self.feed_forward(y), self.dropout.p, self.training)]).sum(dim=0)


class BlockImageByImage(answers.EncoderBlock):
    """Computes each image separately."""

    def forward(self, x, mask=None):
        outputs = [
            super(BlockImageByImage, self).forward(x[i : i + 1], None if mask is None else mask[i : i + 1])
            for i in range(len(x))
        ]
        return torch.cat(outputs)


class BlockWithFullMask(answers.EncoderBlock):
    """Brings masks to one shape first; its attention is a method."""

    def attend(self, x, mask):
        return self.dropout(self.attention(self.norm_attention(x), mask))

    def forward(self, x, mask=None):
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None, None, :].expand(-1, self.attention.num_heads, x.shape[1], -1)
        elif mask is not None and mask.ndim == 3:
            mask = mask.unsqueeze(1)
        x = x + self.attend(x, mask)
        return x.add(self.dropout(self.feed_forward(self.norm_feed_forward(x))))


class BlockWithCheckpoints(answers.EncoderBlock):
    """Computes its parts again in the backward pass, which takes less memory."""

    def forward(self, x, mask=None):
        x = checkpoint(lambda x: x + self.attention(self.norm_attention(x), mask), x, use_reentrant=False)
        return checkpoint(lambda x: x + self.feed_forward(self.norm_feed_forward(x)), x, use_reentrant=False)


class BlockOfXavier(BlockOfTorchNorms):
    """Starts with Xavier's matrices, and with 0 in the last matrix of each branch."""

    def __init__(self, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(width, num_heads, hidden_width, dropout)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                last = name.endswith(("out.weight", "contract.weight"))
                nn.init.zeros_(parameter) if last else nn.init.xavier_normal_(parameter)


# ------------------------------------------------------------------------------------------------------------- Encoder


class EncoderOfDeepcopies(answers.Encoder):
    """Copies one block, and draws the parameters of the copies again."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(0, width, num_heads, hidden_width, dropout)
        first = answers.EncoderBlock(width, num_heads, hidden_width, dropout)
        self.blocks = nn.ModuleList([copy.deepcopy(first) for _ in range(depth)])
        for part in self.modules():
            if isinstance(part, nn.Linear):
                part.reset_parameters()


class EncoderInSequence(nn.Module):
    """Has blocks in an nn.Sequential, which takes no mask."""

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
    """Appends blocks one by one, and keeps every state of the stream."""

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
    """Has PyTorch's norm, and draws parameters as GPT-2 does."""

    def __init__(self, depth, width, num_heads, hidden_width, dropout=0.0):
        super().__init__(depth, width, num_heads, hidden_width, dropout)
        self.norm = nn.LayerNorm(width)
        self.apply(self.initialise)

    def initialise(self, part):
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)


# -------------------------------------------------------------------------------------------------------------- repair


LAST_MATRICES = ("attention.out_proj.weight", "feed_forward.2.weight")  # the last matrix of each part


def fix_all_but_matrices(block):
    """Make the norms and let every parameter learn; the matrices stay as they are."""
    width = block.attention.embed_dim
    block.norm_attention, block.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
    block.attention.batch_first = True
    return block.requires_grad_(True)


def matrices_of(block):
    return {name: parameter for name, parameter in block.named_parameters() if parameter.ndim == 2}


def repair_like(start):
    """Make a repair that starts each matrix with this function."""

    def repair(block):
        for parameter in matrices_of(fix_all_but_matrices(block)).values():
            start(parameter.data)
        return block

    return repair


def replace_parts(block):
    fix_all_but_matrices(block)
    width, hidden_width = block.attention.embed_dim, block.feed_forward[0].out_features
    block.attention = nn.MultiheadAttention(width, block.attention.num_heads, batch_first=True)
    block.feed_forward = nn.Sequential(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))
    return block


def end_with_zeros(block):
    for name, parameter in matrices_of(fix_all_but_matrices(block)).items():
        if name in LAST_MATRICES:
            nn.init.zeros_(parameter)
        else:
            nn.init.kaiming_uniform_(parameter, a=5**0.5)
    return block


def repair_with_own_norms(block):
    answers.repair(block)
    width = block.attention.embed_dim
    block.norm_attention, block.norm_feed_forward = answers.LayerNorm(width), answers.LayerNorm(width, eps=1e-6)
    return block


def repair_with_plain_norms(block):
    answers.repair(block)
    for name in ("norm_attention", "norm_feed_forward"):
        setattr(block, name, nn.LayerNorm(block.attention.embed_dim, elementwise_affine=False))
    return block


RIGHT_ANSWERS = {
    "LayerNorm": {
        "answer": answers.LayerNorm,
        "functional": norm_like(lambda norm, x: F.layer_norm(x, (norm.width,), norm.scale, norm.shift, norm.eps)),
        "rsqrt of var_mean": norm_like(norm_by_rsqrt),
        "var unbiased=False": norm_like(
            lambda norm, x: (
                norm.scale
                * (x - x.mean(-1, keepdim=True))
                / (x.var(-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
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
        "PyTorch's own": stand_ins.LayerNorm,
    },
    "FeedForward": {
        "answer": answers.FeedForward,
        "in a sequence": FeedForwardInSequence,
        "erf": feed_like(feed_through_erf),
        "tanh approximation": feed_like(feed_through_tanh),
        "einsum, cdf, own dropout": feed_like(feed_by_einsum),
        "token by token": feed_like(feed_token_by_token),
        "oracle": stand_ins.FeedForward,
    },
    "EncoderBlock": {
        "answer": answers.EncoderBlock,
        "minGPT": BlockOfTorchNorms,
        "Annotated Transformer": BlockOfResiduals,
        "timm": BlockOfTimm,
        "functions": BlockWithFunctions,
        "image by image": BlockImageByImage,
        "masks made full": BlockWithFullMask,
        "checkpoints": BlockWithCheckpoints,
        "Xavier and zeros": BlockOfXavier,
        "oracle": stand_ins.EncoderBlock,
    },
    "Encoder": {
        "answer": answers.Encoder,
        "deep copies, drawn again": EncoderOfDeepcopies,
        "nn.Sequential": EncoderInSequence,
        "appended": EncoderByAppend,
        "N(0, 0.02²)": EncoderWithNormOfTorch,
        "oracle": oracles.Encoder,
    },
    "repair": {
        "answer": answers.repair,
        "normal of Xavier": repair_like(nn.init.xavier_normal_),
        "kaiming": repair_like(nn.init.kaiming_normal_),
        "kaiming, uniform": repair_like(lambda matrix: nn.init.kaiming_uniform_(matrix, a=5**0.5)),
        "N(0, 0.02²)": repair_like(lambda matrix: nn.init.normal_(matrix, std=0.02)),
        "truncated normal": repair_like(lambda matrix: nn.init.trunc_normal_(matrix, std=0.02)),
        "rescaled": repair_like(lambda matrix: matrix.mul_(matrix.shape[1] ** -0.5)),
        "a tenth": repair_like(lambda matrix: matrix.mul_(0.1)),
        "orthogonal": repair_like(nn.init.orthogonal_),
        "PyTorch's own": oracles.repair,
        "new parts": replace_parts,
        "last ones zero": end_with_zeros,
        "own norms": repair_with_own_norms,
        "norms without scale and shift": repair_with_plain_norms,
    },
    "rope": ROPE,
}

# Mutations that are right too. A key is a regular expression for a text such as "softmax, line 3: a - b -> a + b", with lines
# counted from the `def`. The value is the reason.
EQUIVALENT = {
    r"super\(\).__init__\(\); |\.(copy_|requires_grad_|xavier_uniform_)\(.*; ": "a second call changes nothing",
    r"Dropout\(dropout\)\.half": "dropout has no parameters",
    r"EncoderBlock, line \d+: self\.dropout\(self": "the dropout inside the sub-layer is enough",
}

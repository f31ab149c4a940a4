"""Ask for repaired blocks. Read which parts of them work, and whether a stack of them keeps its size and learns."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_tests.encoder import NONE, initial_scales, scales_fit
from attention_tests.modules import call, find_parameter, slopes

PARTS = ["attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight", "attention.out_proj.bias"]
PARTS += ["feed_forward.0.weight", "feed_forward.0.bias", "feed_forward.2.weight", "feed_forward.2.bias"]
TORCH_PARTS = ["self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight"]
TORCH_PARTS += ["self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]


def steps_of_adam(parameters, rate):
    """Return a function that makes one step of Adam and then deletes the gradients.

    torch.optim is not used because it imports PyTorch's compiler, which takes seconds.
    """
    states = [[p, torch.zeros_like(p), torch.zeros_like(p)] for p in parameters]
    taken = []

    @torch.no_grad()
    def step():
        taken.append(1)
        for parameter, mean, square in states:
            if parameter.grad is None:
                continue
            mean.lerp_(parameter.grad, 0.1)
            square.lerp_(parameter.grad**2, 0.001)
            size = (square / (1 - 0.999 ** len(taken))).sqrt() + 1e-8
            parameter -= rate * mean / (1 - 0.9 ** len(taken)) / size
            parameter.grad = None

    return step


def measure_stream(copies, x):
    """Do activations and gradients keep their order of magnitude through the stack?"""
    copies = nn.ModuleList(copies)
    parameters = [p for p in copies.parameters() if p.requires_grad]
    step = steps_of_adam(parameters, 1e-3)
    goal = slopes(x)
    steps = []
    for _ in range(3):  # a part that starts from 0 has a gradient from the second step on
        y, activations = x.clone().requires_grad_(), []
        for copy in copies:
            activations.append(y)
            y = copy(y)
            y.retain_grad() if y.requires_grad else None
        activations.append(y)
        (y * goal).mean().backward()
        steps.append([float(a.detach().std()) for a in activations])
        sizes = [float(a.grad.norm()) for a in activations]
        reached = all(p.grad is not None and float(p.grad.norm()) > 0 for p in copies.parameters())
        step()
    grown = max(steps[0]) / steps[0][0]  # at most 5 if right, at least 57 if all matrices are N(0, 1)
    return {
        "activations_keep_their_size": np.bool_(grown < 25),
        "gradients_reach_all": np.bool_(reached),
        "gradients_keep_their_size": np.bool_(max(sizes) < 50 * min(sizes)),
    }


def measure_learning(copies, seed):
    """Does a stack with a fixed head learn a small set: does it start near chance, and does its loss fall?"""
    generator = torch.Generator().manual_seed(seed)
    width = copies[0].linear1.in_features
    x, head = torch.randn(32, 5, width, generator=generator), nn.Linear(width, 4)
    labels = torch.arange(32) % 4
    with torch.no_grad():
        head.weight.copy_(torch.randn(4, width, generator=generator) * width**-0.5)
        head.bias.zero_()
    first, second = copies
    parameters = [p for copy in copies for p in copy.parameters() if p.requires_grad]
    step, losses = steps_of_adam(parameters, 3e-3), []
    for _ in range(25):
        loss = F.cross_entropy(head(second(first(x)).mean(dim=1)), labels)
        losses.append(float(loss.detach()))
        near_chance = 0.7 < losses[0] < 8  # chance is ln 4 = 1.39
        if not near_chance:
            break
        loss.backward()
        step()
    return {
        "first_loss_is_near_chance": np.bool_(near_chance),
        "learns": np.bool_(near_chance and losses[-1] < 0.7),
    }


class BrokenBlock(nn.Module):
    """An encoder block for x of shape (B, N, D). A model with these blocks does not learn. This class is given.

    Its parts are norm_attention, attention (PyTorch's own), norm_feed_forward and feed_forward.
    """

    def __init__(self, width: int, num_heads: int, hidden_width: int) -> None:
        super().__init__()
        self.norm_attention = nn.Identity()
        self.attention = nn.MultiheadAttention(width, num_heads)
        self.norm_feed_forward = nn.Identity()
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, width))
        for parameter in self.parameters():
            nn.init.zeros_(parameter) if parameter.ndim == 1 else nn.init.normal_(parameter)
        self.attention.in_proj_weight.requires_grad_(False)

    def attend(self, x: Tensor) -> Tensor:
        """Return the output of attention, (B, N, D)."""
        return self.attention(x, x, x, need_weights=False)[0]

    def forward(self, x: Tensor) -> Tensor:
        """Return the new tokens, (B, N, D): the sum of x and the outputs of both parts."""
        terms = [x]
        for norm, part in ((self.norm_attention, self.attend), (self.norm_feed_forward, self.feed_forward)):
            terms.append(part(norm(sum(terms))))
        return sum(terms)


def ask_repair(repair, make_block, what, sizes, num_heads, hidden_width, depth, seed=0):
    """Make broken blocks, repair them, and return what each of them is made of, with its output."""
    x, blocks = tokens(sizes, seed), []
    for _ in range(depth):
        before = make_block(x.shape[-1], num_heads, hidden_width)
        after = repair(before)
        if not isinstance(after, nn.Module):
            raise TypeError(f"repair returned {type(after).__name__}; expected the block. Does it end with return?")
        blocks.append((after, after is before))
    return [{"same": same} | made_of(block, x) for block, same in blocks]


def tokens(sizes, seed):
    """Draw tokens of these sizes, (B, N, D)."""
    return torch.randn(*map(int, sizes), generator=torch.Generator().manual_seed(seed))


def made_of(block, x):
    """Return the parameters of a block that its function needs, which of them learn, and its output."""
    names = [*PARTS, *(f"{part}.{name}" for part in NORMS for name in ("scale", "shift"))]
    parameters = {name: find_parameter(block, name) for name in names}
    lost = [name for name in PARTS if parameters[name] is None]
    if lost:
        raise AttributeError(f"the block no longer has {lost[0]}")
    require_width(parameters["feed_forward.0.weight"], x.shape[-1])
    scales = [parameters[f"{part}.scale"] for part in NORMS]
    with torch.no_grad():
        output = call(block, x)
    return {
        "parameters": {name: each.detach() for name, each in parameters.items() if each is not None},
        "learning": {name: each.requires_grad for name, each in parameters.items() if each is not None},
        "all_learn": all(each.requires_grad for each in block.parameters()),
        "shares_a_norm": scales[0] is not None and scales[0] is scales[1],
        "scales": initial_scales(block, PARTS),
        "output": output,
    }


def require_width(first, width):
    """Refuse a layer of another width than the block's: a layer of a huge width would fill the memory."""
    if first.shape[1] != width:
        raise ValueError(f"feed_forward.0 takes {first.shape[1]} components, but the block was made for {width}")


NORMS = "norm_attention", "norm_feed_forward"
WORKING_PARTS = list(itertools.product((True, False), repeat=3))  # two norms, the batch axis; a right block comes first


def sound_copy(block, num_heads, width):
    """Return PyTorch's encoder layer with the parameters of a block."""
    parameters, learning = block["parameters"], block["learning"]
    require_width(parameters["feed_forward.0.weight"], width)
    hidden_width = len(parameters["feed_forward.0.weight"])
    copy = nn.TransformerEncoderLayer(width, num_heads, hidden_width, 0.0, "gelu", norm_first=True, batch_first=True)
    own = dict(copy.named_parameters())
    pairs = list(zip(PARTS, TORCH_PARTS))
    for part, norm in zip(NORMS, ("norm1", "norm2")):
        pairs += [(f"{part}.scale", f"{norm}.weight"), (f"{part}.shift", f"{norm}.bias")]
    with torch.no_grad():
        for name, torch_name in pairs:
            if name in PARTS or (name in parameters and parameters[name].shape == own[torch_name].shape):
                own[torch_name].copy_(parameters[name])
                own[torch_name].requires_grad_(learning[name])
    return copy


def only_normalise(block):
    """Do the norms start near scale 1 and shift 0?"""
    starts = {f"{part}.{name}": start for part in NORMS for name, start in (("scale", 1), ("shift", 0))}
    values = block["parameters"]
    off = [float((values[name] - start).abs().max()) for name, start in starts.items() if name in values]
    return max(off, default=0) < 0.9


def faults_left(block, num_heads, x):
    """Return which parts work (two norms, the batch axis), and PyTorch's layer with the faults that remain."""
    copy, output = sound_copy(block, num_heads, x.shape[-1]), block["output"]
    norms = copy.norm1, copy.norm2
    with torch.no_grad():
        for state in WORKING_PARTS:
            copy.norm1, copy.norm2 = (norm if works else nn.Identity() for norm, works in zip(norms, state))
            copy.self_attn.batch_first = state[2]
            expected = copy(x)
            if output.shape == expected.shape and torch.allclose(output, expected, 1e-3, 1e-3 * float(expected.std())):
                return state, copy
    return None, copy


def read_repair(blocks, what, sizes, num_heads, hidden_width, depth, seed=0):
    """Return the results that are compared; `what` is "block", "tokens", "activations", "gradients" or "loss"."""
    x = tokens(sizes, seed)
    states, copies = zip(*(faults_left(block, num_heads, x) for block in blocks))
    state = states[0] if len(set(states)) == 1 else None
    if what == "block":
        sames = all(block["same"] for block in blocks)
        norms = (NONE, NONE) if not sames else state[:2] if state else (-1, -1)
        return {
            "returned_block_is_the_given_one": np.bool_(sames),
            "norms_that_work": np.array(norms),
            "norms_only_normalise": np.bool_(all(map(only_normalise, blocks))),
            "sub_layers_have_separate_norms": np.bool_(not any(block["shares_a_norm"] for block in blocks)),
        }
    if what == "tokens":
        return {"attention_is_within_one_image": np.array(state[2] if state else -1)}
    if what == "loss":
        return measure_learning(copies[:2], seed) if state else {"first_loss_is_near_chance": NONE, "learns": NONE}
    unknown = "activations_keep_their_size", "gradients_reach_all", "gradients_keep_their_size"
    measured = measure_stream(copies, x) if state else dict.fromkeys(unknown, NONE)
    if what == "activations":
        firsts = [block["parameters"][PARTS[4]] for block in blocks]
        apart = all(float(first.std()) > 0 for first in firsts)
        apart = apart and not any(torch.equal(firsts[0], other) for other in firsts[1:])
        fits = [scales_fit(block["scales"]) for block in blocks]
        return {
            "activations_keep_their_size": measured["activations_keep_their_size"],
            "initial_parameters_fit_the_number_of_inputs": np.array(False if False in fits else min(fits)),
            "each_block_has_its_own_parameters": np.bool_(apart),
        }
    nothing_is_frozen = np.bool_(all(block["all_learn"] for block in blocks))
    return {"nothing_is_frozen": nothing_is_frozen} | {name: measured[name] for name in unknown[1:]}

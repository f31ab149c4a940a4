"""Measure repaired blocks: which parts of them work, and whether a stack of them keeps its size and learns."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_tests.encoder import NONE, call, scales_fit, slopes
from attention_tests.parameters import find_parameter

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
    goal = slopes(x.shape)
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


def sound_copy(block, num_heads, width):
    """Return PyTorch's encoder layer with the parameters of a block, for tokens of this width."""
    parameters = {name: find_parameter(block, name) for name in PARTS}
    if None in parameters.values():
        raise AttributeError(f"the block no longer has {next(n for n, p in parameters.items() if p is None)}")
    hidden_width, own_width = parameters["feed_forward.0.weight"].shape
    if own_width != width:  # a layer of a huge width would fill the memory
        raise ValueError(f"feed_forward.0 takes {own_width} components, but the block was made for {width}")
    copy = nn.TransformerEncoderLayer(width, num_heads, hidden_width, 0.0, "gelu", norm_first=True, batch_first=True)
    own = dict(copy.named_parameters())
    with torch.no_grad():
        for name, torch_name in zip(PARTS, TORCH_PARTS):
            own[torch_name].copy_(parameters[name])
            own[torch_name].requires_grad_(parameters[name].requires_grad)
        for part, target in (("norm_attention", copy.norm1), ("norm_feed_forward", copy.norm2)):
            for name, to in (("scale", target.weight), ("shift", target.bias)):
                value = find_parameter(block, f"{part}.{name}")
                if value is not None and value.shape == to.shape:
                    to.copy_(value)
                    to.requires_grad_(value.requires_grad)
    return copy


WORKING_PARTS = list(itertools.product((True, False), repeat=3))  # two norms, the batch axis; a right block comes first


def only_normalise(block):
    """Do the norms start near scale 1 and shift 0?"""
    off = [
        float((value.detach() - start).abs().max())
        for part in ("norm_attention", "norm_feed_forward")
        for name, start in (("scale", 1), ("shift", 0))
        if (value := find_parameter(block, f"{part}.{name}")) is not None
    ]
    return max(off, default=0) < 0.9


def shares_a_norm(block):
    """Do both parts read the result of the same norm? Without scale and shift, this makes no difference."""
    one, other = (find_parameter(block, f"{part}.scale") for part in ("norm_attention", "norm_feed_forward"))
    return one is not None and one is other


def faults_left(block, num_heads, x):
    """Return which parts work (two norms, the batch axis), and PyTorch's layer with the faults that remain."""
    copy = sound_copy(block, num_heads, x.shape[-1])
    norms = copy.norm1, copy.norm2
    with torch.no_grad():
        output = call(block, x)
        for state in WORKING_PARTS:
            copy.norm1, copy.norm2 = (norm if works else nn.Identity() for norm, works in zip(norms, state))
            copy.self_attn.batch_first = state[2]
            expected = copy(x)
            if output.shape == expected.shape and torch.allclose(output, expected, 1e-3, 1e-3 * float(expected.std())):
                return state, copy
    return None, copy


def repaired(repair, make_block, sizes):
    """Make a broken block and repair it. Return the result, and whether it is the block that was given."""
    before = make_block(*sizes)
    after = repair(before)
    if not isinstance(after, nn.Module):
        raise TypeError(f"repair returned {type(after).__name__}; expected the block. Does it end with return?")
    return after, after == before


def probe_repair(repair, make_block):
    """Return a function that makes broken blocks with `make_block`, repairs them with `repair`, and measures them.

    `what` is "block", "tokens", "activations", "gradients" or "loss"; `sizes` are the sizes of the tokens, (B, N, D).
    """

    def probe(what, sizes, num_heads, hidden_width, depth, seed=0):
        sizes = [int(size) for size in sizes]
        x = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
        blocks, sames = zip(*(repaired(repair, make_block, (sizes[-1], num_heads, hidden_width)) for _ in range(depth)))
        states, copies = zip(*(faults_left(block, num_heads, x) for block in blocks))
        state = states[0] if len(set(states)) == 1 else None
        if what == "block":
            norms = (NONE, NONE) if not all(sames) else state[:2] if state else (-1, -1)
            return {
                "returned_block_is_the_given_one": np.bool_(all(sames)),
                "norms_that_work": np.array(norms),
                "norms_only_normalise": np.bool_(all(map(only_normalise, blocks))),
                "sub_layers_have_separate_norms": np.bool_(not any(map(shares_a_norm, blocks))),
            }
        if what == "tokens":
            return {"attention_is_within_one_image": np.array(state[2] if state else -1)}
        if what == "loss":
            return measure_learning(copies[:2], seed) if state else {"first_loss_is_near_chance": NONE, "learns": NONE}
        unknown = "activations_keep_their_size", "gradients_reach_all", "gradients_keep_their_size"
        measured = measure_stream(copies, x) if state else dict.fromkeys(unknown, NONE)
        firsts = [find_parameter(block, PARTS[4]).detach() for block in blocks]
        if what == "activations":
            apart = all(float(first.std()) > 0 for first in firsts)
            apart = apart and not any(torch.equal(firsts[0], other) for other in firsts[1:])
            fits = [scales_fit(block, PARTS) for block in blocks]
            return {
                "activations_keep_their_size": measured["activations_keep_their_size"],
                "initial_parameters_fit_the_number_of_inputs": np.array(False if False in fits else min(fits)),
                "each_block_has_its_own_parameters": np.bool_(apart),
            }
        nothing_is_frozen = np.bool_(all(p.requires_grad for block in blocks for p in block.parameters()))
        return {"nothing_is_frozen": nothing_is_frozen} | {name: measured[name] for name in unknown[1:]}

    return probe

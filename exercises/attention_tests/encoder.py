"""Ask the classes of exercise 3, and read what they return.

`ask_…` runs next to the answer: it builds a module, loads parameters, runs it forward and backward, and returns arrays.
`read_…` makes the results that are compared; a result that cannot be known is NaN.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_tests import modules
from attention_tests.compare import of_one_shape
from attention_tests.modules import call, find_parameter, find_parameters, is_unchanged, learn, run, tensor

NORM = ["scale", "shift"]
FEED_FORWARD = ["expand.weight", "expand.bias", "contract.weight", "contract.bias"]
BLOCK = [
    *(f"norm_attention.{name}" for name in NORM),
    *(f"attention.{name}" for name in ("qkv.weight", "qkv.bias", "out.weight", "out.bias")),
    *(f"norm_feed_forward.{name}" for name in NORM),
    *(f"feed_forward.{name}" for name in FEED_FORWARD),
]
SPREAD = {"scale": 0.3, "shift": 0.3, "qkv.weight": 1.0, "out.weight": 1.0, "expand.weight": 0.04, "expand.bias": 0.03}
SPREAD |= {"contract.weight": 8.0}  # the activations stay below 0.3, where GELU and its tanh approximation agree
NONE = np.float64(np.nan)
equal = partial(modules.equal, rtol=1e-5)  # stricter than for a whole ViT


def encoder_names(depth):
    """Name the parameters of an encoder."""
    return [*(f"blocks.{index}.{name}" for index in range(depth) for name in BLOCK), *(f"norm.{name}" for name in NORM)]


def draw_parameter(seed, index, name, shape):
    """Draw the value of one parameter. It is the same for the student's module and for PyTorch's."""
    numbers = np.random.default_rng([seed, index]).normal(size=tuple(shape))
    spread = next((size for ending, size in SPREAD.items() if name.endswith(ending)), 0.3)
    numbers = spread * numbers / (shape[-1] ** 0.5 if len(shape) > 1 else 1)
    return tensor(numbers + name.endswith("scale"))


def load(module, names, seed):
    """Fill the parameters with drawn values. Return the number of missing parameters, and the number of other parameters."""
    parameters, others = find_parameters(module, names)
    with torch.no_grad():
        for index, (name, parameter) in enumerate(parameters.items()):
            if parameter is not None:
                parameter.copy_(draw_parameter(seed, index, name, parameter.shape))
    return sum(parameter is None for parameter in parameters.values()), len(others)


def ask_values(module, names, what, x, mask, seed):
    """Return the output. For "learning", add gradients (two numbers a parameter) and the count of learned numbers."""
    missing, others = load(module, names, seed)
    masks = [] if mask is None else [tensor(mask)]
    lost = any(find_parameter(module, name) is None for name in names if name.endswith(".weight"))
    blank = np.nan if lost or others else 1.0  # a matrix that we did not fill gives random results
    if what == "output":
        counts = {"missing_parameters": np.float64(missing), "other_parameters": np.float64(others)}
        return counts | {"output": blank * call(module, tensor(x), *masks).detach().numpy()}
    given, learned, output, gradient, gradients = learn(module, find_parameters(module, names)[0].values(), x, *masks)
    return {
        "x_is_unchanged": given,
        "count_of_learned_numbers": learned,
        "gradient_of_x": blank * gradient,
        "gradients_of_the_parameters": blank * gradients,
        "output": blank * output,  # a detached and a missing residual differ only here
    }


def constant_feed_forward(module, prefix, amount):
    """Set hidden activations to gelu(1), and outputs to about the amount times gelu(1). Without biases, x must be 1."""
    expand, contract = (
        find_parameter(module, f"{prefix}expand.weight"),
        find_parameter(module, f"{prefix}contract.weight"),
    )
    biases = [find_parameter(module, f"{prefix}{name}.bias") for name in ("expand", "contract")]
    with torch.no_grad():
        expand.copy_(torch.full(expand.shape, 1 / expand.shape[1] if biases[0] is None else 0.0))
        contract.copy_(amount * torch.eye(*contract.shape) * (1 + 0.5 * torch.cos(torch.arange(contract.shape[1]))))
        for bias, value in zip(biases, (1.0, 0.0)):
            if bias is not None:
                bias.fill_(value)


def uniform_attention(module, prefix, amount):
    """Let every token look equally at all tokens, give them all the same values, and multiply the result by the amount."""
    qkv, out = find_parameter(module, f"{prefix}qkv.weight"), find_parameter(module, f"{prefix}out.weight")
    width = out.shape[0]
    with torch.no_grad():
        qkv.zero_()
        out.copy_(amount * torch.eye(*out.shape))  # passes on its inputs, for any shape
        value = 1 + 0.5 * torch.cos(torch.arange(width))
        find_parameter(module, f"{prefix}qkv.bias").copy_(torch.cat([torch.zeros(2 * width), value]))
        find_parameter(module, f"{prefix}out.bias").zero_()


def evaluated(module, without, x):
    """Return the result of a module without dropout, and two evaluations of a module with dropout."""
    return [run(without, x, False), run(module, x, False), run(module, x, False)]


def all_equal(outputs):
    """Are all outputs equal to the first, up to rounding?"""
    return all(equal(output, outputs[0]) for output in outputs[1:])


def read_values(measured, what, x):
    """Return the results of `ask_values` that are compared."""
    return (
        measured | {"x_is_unchanged": is_unchanged(measured["x_is_unchanged"], x)} if what == "learning" else measured
    )


def ask_layer_norm(cls, what, x, eps=None, seed=0):
    """Ask a LayerNorm; `what` is "output", "learning", "fresh", "far" or "half"."""
    width = np.shape(x)[-1]
    module = cls(width) if eps is None else cls(width, eps)
    find_parameters(module, NORM)
    if what in ("output", "learning"):
        return ask_values(module, NORM, what, x, None, seed)
    if what == "fresh":
        return {"initial_output": run(module, tensor(x), True)}
    module, x = module.float(), tensor(x).float()
    return {"plain": run(module, x, True), "changed": run(module, x + 1000 if what == "far" else x.half(), True)}


def read_layer_norm(measured, what, x, *_):
    """Return the results that are compared."""
    if what not in ("far", "half"):
        return read_values(measured, what, x)
    changed, plain = of_one_shape(measured["changed"], measured["plain"])
    apart = np.abs(changed - plain).max()
    if what == "far":
        return {"output_is_the_same_after_adding_1000": np.bool_(apart < 0.005)}
    close = np.isfinite(changed).all() and apart < 0.05  # float16 keeps 3 digits
    return {"works_in_float16": np.bool_(close)}


def initial_scales(module, names):
    """Return the spread of each matrix, in units of 1 / √inputs; NaN for a missing one."""
    matrices = [find_parameter(module, name) for name in names if name.endswith("weight")]
    return np.array([np.nan if p is None else float(p.detach().std()) * p.shape[1] ** 0.5 for p in matrices])


def scales_fit(scales):
    """Do the matrices keep the order of magnitude of their inputs? Each part has two matrices.

    Return -1 if both matrices of a part have nearly equal entries. Otherwise return whether every std is below 3/√inputs.
    """
    largest = np.fmax(scales[::2], scales[1::2])  # one of the two may start at 0
    return -1.0 if (largest < 0.02).any() else bool((largest < 3).all())


def read_initial(measured):
    """Return whether the initial matrices fit the numbers of their inputs."""
    return {"initial_parameters_fit_the_number_of_inputs": np.array(scales_fit(measured["scales"]))}


def classify_growth(factor, dropout):
    """Classify the factor by which dropout multiplies the numbers that it keeps.

    Return 1 for the factor of one to three dropouts of this share, 2 for a larger factor, 0 for any other.
    """
    right = (1 - dropout) ** -np.arange(1.0, 4)
    return np.float64(2 * (factor > 1.005 * right[-1]) or np.isclose(factor, right, rtol=0.005).any())


def ask_feed_forward(cls, what, x, hidden_width, dropout=0.0, seed=0):
    """Ask a FeedForward; `what` is "output", "learning", "fresh" or "dropout"."""
    width = np.shape(x)[-1]
    module = cls(width, hidden_width)
    find_parameters(module, FEED_FORWARD)
    if what in ("output", "learning"):
        return ask_values(module, FEED_FORWARD, what, x, None, seed)
    if what == "fresh":
        return {"scales": initial_scales(module, FEED_FORWARD)}
    without, module = module, cls(width, hidden_width, dropout=dropout)
    for each in (without, module):
        constant_feed_forward(each, "", 1.0)
        with torch.no_grad():  # the result is as for x = 1, and dropout of x is visible too
            find_parameter(each, "expand.weight").fill_(1 / width)
            if find_parameter(each, "expand.bias") is not None:
                find_parameter(each, "expand.bias").zero_()
    many = torch.ones(200, 25, width)
    return {"evaluated": evaluated(module, without, many), "trained": run(module, many, True)}


def read_feed_forward(measured, what, x, hidden_width, dropout=0.0, seed=0):
    """Return the results that are compared."""
    if what == "fresh":
        return read_initial(measured)
    if what != "dropout":
        return read_values(measured, what, x)
    expected, drawn_outputs = of_one_shape(measured["evaluated"][-1], measured["trained"])
    ratio = np.sum(drawn_outputs * expected) / max(np.sum(expected**2), 1e-12)
    kept = drawn_outputs > drawn_outputs.min(axis=(0, 1)) + 1e-6
    share = np.mean(~kept) * (not equal(expected, drawn_outputs))
    spread = max((np.ptp(column[of]) for column, of in zip(drawn_outputs.T, kept.T) if of.any()), default=0.0)
    growth = classify_growth(np.median(drawn_outputs[kept] / expected[kept]) if kept.any() else 0.0, dropout)
    return {
        "training_differs_from_evaluation": np.bool_(not equal(expected, drawn_outputs)),
        "evaluation_is_the_same_with_and_without_dropout": np.bool_(all_equal(measured["evaluated"])),
        # Dropout may act on the hidden activations, on the outputs, or on both.
        "dropped_share": np.float64(0 if share < 0.02 else 0.2 if share < 0.4 else 0.5 if share < 0.7 else 0.8),
        # A missing factor changes the mean by one step. The standard error is below 0.01, except if too much is dropped.
        "mean_in_training": NONE if growth == 2 else np.float64(1 + dropout * np.round((ratio - 1) / dropout)),
        "kept_numbers_are_scaled_up": growth,
        "kept_numbers_are_equal": np.bool_(spread < 1e-3),
        # False if dropout drops whole tokens, or the same components in all tokens or in all images.
        "dropped_independently": np.bool_(all((kept != kept.take([0], axis)).any() for axis in range(3))),
    }


def ask_one_branch(module, x, branch):
    """For images of equal tokens, return a block's evaluation, its result in training, and its stream alone.

    The other branch is 0, and this one reads all components.
    """
    x, width = x[:, :1].repeat(1, x.shape[1], 1), x.shape[2]
    dense = torch.cos(torch.arange(width * width)).reshape(width, width)
    uniform_attention(module, "attention.", 0.01 * (branch == 0))
    constant_feed_forward(module, "feed_forward.", 0.01 * (branch == 1))
    with torch.no_grad():
        find_parameter(module, "attention.qkv.weight").copy_(torch.cat([torch.zeros(2 * width, width), dense]))
        expand = find_parameter(module, "feed_forward.expand.weight")
        often = expand.numel() // dense.numel() + 1
        expand.copy_(dense.flatten().repeat(often)[: expand.numel()].reshape(expand.shape))
    results = [run(module, x, training) for training in (False, True)]
    with torch.no_grad():
        for name in ("attention.out.weight", "feed_forward.contract.weight"):
            find_parameter(module, name).zero_()
    return [*results, run(module, x, False)]


def results_in_training(results, x):
    """Count the different factors by which dropout changes what a part adds, for images of equal tokens.

    If the part reads all components after its norm, there are few factors: one for each number of tokens that attention
    still sees, and 0 for a dropped result. If components are dropped before the part reads them, each sum differs.
    """
    evaluation, trained, stream_only = of_one_shape(*results)
    if not equal(stream_only, np.repeat(x[:, :1], x.shape[1], axis=1)):
        return 0  # another check judges what the block does to the stream itself
    added, added_in_training = evaluation - stream_only, trained - stream_only
    large = np.abs(added) > 0.3 * np.abs(added).max()
    return len(np.unique(np.round(added_in_training[large] / added[large], 2)))


def ask_block(cls, what, x, num_heads, hidden_width, mask=None, dropout=0.0, seed=0):
    """Ask an EncoderBlock; `what` is "output", "learning", "fresh" or "dropout"."""
    sizes = np.shape(x)[-1], num_heads, hidden_width
    module = cls(*sizes)
    find_parameters(module, BLOCK)
    if what in ("output", "learning"):
        return ask_values(module, BLOCK, what, x, mask, seed)
    if what == "fresh":
        return {"scales": initial_scales(module, BLOCK)}
    without, module = module, cls(*sizes, dropout=dropout)
    for each in (without, module):
        load(each, BLOCK, seed)
    many, results = tensor(x).repeat(100, 1, 1), []
    for branches in ((0, 0), (0.01, 0), (0, 0.01)):  # a branch is so small that the rest is linear in it
        for each in (without, module):
            uniform_attention(each, "attention.", branches[0])
            constant_feed_forward(each, "feed_forward.", branches[1])
        results.append({"trained": run(module, many, True), "evaluated": evaluated(module, without, many)})
    return {"results": results, "one_branch": [ask_one_branch(module, many, branch) for branch in range(2)]}


def read_block(measured, what, x, num_heads, hidden_width, mask=None, dropout=0.0, seed=0):
    """Return the results that are compared."""
    if what == "fresh":
        return read_initial(measured)
    if what != "dropout":
        return read_values(measured, what, x)
    many, acts, means, growth = np.tile(x, (100, 1, 1)), [], [], []
    stream_only, *results = measured["results"]
    pairs = [(result["evaluated"][-1], result["trained"]) for result in (stream_only, *results)]
    evaluation, trained = of_one_shape(*pairs[0], *pairs[1], *pairs[2])[:2]
    for result, result_in_training in pairs[1:]:
        added, added_in_training = result - evaluation, result_in_training - trained
        acts.append(not equal(added, added_in_training))
        means.append(np.sum(added * added_in_training) / max(np.sum(added**2), 1e-12))
        large = np.abs(added) > 0.3 * np.abs(added).max()
        # With so many images, at least one head keeps all tokens that it looks at. This head gives the largest ratio.
        largest = np.max(added_in_training[large] / added[large], initial=0)
        # Another check judges the stream itself.
        growth.append(classify_growth(largest, dropout) if equal(evaluation, many) else np.float64(1))
    # If dropout acts on the stream itself, the means are noise.
    intact, growth = equal(evaluation, trained), np.array(growth)
    steps = np.round((np.array(means) - 1) / dropout)
    steps[growth == 2] = NONE
    plain = [all_equal(result["evaluated"]) for result in results]
    return {
        "training_differs_from_evaluation": np.array(acts),
        "evaluation_is_the_same_with_and_without_dropout": np.bool_(min(plain)),
        # A missing factor changes the mean by one step. Half a step is four standard errors in a post-norm block
        # (a norm after each sum), and twelve otherwise.
        "mean_in_training": 1 + dropout * steps if intact else np.full(2, NONE),
        "kept_numbers_are_scaled_up": growth if intact else np.full(2, NONE),
        "the_stream_keeps_all_its_numbers_in_training": np.bool_(intact),
        "sub_layers_read_all_components": np.array(
            [results_in_training(each, many) < 4 * many.shape[1] for each in measured["one_branch"]]
        ),
    }


def ask_growth(module, x, depth):
    """Return the largest range of the results for each part alone, in evaluation and in training, (2 · depth, 2).

    The stream is 0, and one part at a time adds the same small number to every component but the first. The number is so
    small, compared with the eps of the last norm, that this norm hardly rescales it.
    """
    ranges = np.zeros((2 * depth, 2))
    scale, shift = (find_parameter(module, f"norm.{name}") for name in NORM)
    with torch.no_grad():
        scale.fill_(1.0)
        shift.zero_()
        for only in range(2 * depth):
            for index in range(depth):
                uniform_attention(module, f"blocks.{index}.attention.", 0.0)
                constant_feed_forward(module, f"blocks.{index}.feed_forward.", 0.0)
            find_parameter(module, f"blocks.{only // 2}.attention.qkv.bias").fill_(1.0)
            last = ("attention.out", "feed_forward.contract")[only % 2]
            matrix = find_parameter(module, f"blocks.{only // 2}.{last}.weight")
            matrix.copy_(1e-5 * torch.eye(*matrix.shape))
            matrix[0, 0] = 0
            ranges[only] = [np.ptp(run(module, 0 * x, mode), axis=-1).max() for mode in (False, True)]
    return ranges


def ask_encoder(cls, what, x, depth, num_heads, hidden_width, mask=None, dropout=0.0, seed=0):
    """Ask an Encoder; `what` is "output", "learning", "fresh" or "dropout"."""
    sizes = depth, np.shape(x)[-1], num_heads, hidden_width
    module, names = cls(*sizes), encoder_names(depth)
    find_parameters(module, names)
    if what in ("output", "learning"):
        return ask_values(module, names, what, x, mask, seed)
    if what == "fresh":
        matrices = [find_parameter(module, f"blocks.{index}.feed_forward.expand.weight") for index in range(depth)]
        firsts = [None if matrix is None else matrix.detach() for matrix in matrices]
        return {"scales": initial_scales(module, names), "firsts": firsts}
    without, module = module, cls(*sizes, dropout=dropout)
    if any(any(load(each, names, seed)) for each in (without, module)):
        return {"unknown": True}
    many, blocks = tensor(x).repeat(10, 1, 1), []

    def set_branches(only):
        for each in (without, module):
            for index in range(depth):
                uniform_attention(each, f"blocks.{index}.attention.", float(index == only))
                constant_feed_forward(each, f"blocks.{index}.feed_forward.", float(index == only))

    set_branches(None)
    stream_only = [run(module, many, training) for training in (False, True)]
    last_norm = [find_parameter(module, f"norm.{name}").detach().clone() for name in NORM]
    for index in range(depth):
        set_branches(index)
        blocks.append({"trained": run(module, many, True), "evaluated": evaluated(module, without, many)})
    growth = ask_growth(module, many, depth)
    return {"stream_only": stream_only, "last_norm": last_norm, "blocks": blocks, "growth": growth}


def read_encoder(measured, what, x, depth, num_heads, hidden_width, mask=None, dropout=0.0, seed=0):
    """Return the results that are compared."""
    if what == "fresh":
        first, *rest = measured["firsts"]
        apart = [first is not None and other is not None and not torch.equal(first, other) for other in rest]
        return read_initial(measured) | {"blocks_start_different": np.bool_(min(apart))}
    if what != "dropout":
        return read_values(measured, what, x)
    if "unknown" in measured:
        return {
            "training_differs_from_evaluation": np.full(depth, NONE),
            "evaluation_is_the_same_with_and_without_dropout": NONE,
            "the_stream_keeps_all_its_numbers_in_training": NONE,
            "kept_numbers_are_scaled_up": NONE,
        }
    pairs = [of_one_shape(block["evaluated"][-1], block["trained"]) for block in measured["blocks"]]
    intact, growth = equal(*measured["stream_only"]), NONE
    if intact:
        many = F.layer_norm(torch.tensor(np.tile(x, (10, 1, 1)), dtype=torch.float64), np.shape(x)[-1:]).numpy()
        scale, shift, _ = of_one_shape(*(np.asarray(each, float) for each in measured["last_norm"]), many[0, 0])
        factors = {float(classify_growth(t / max(e, 1e-9), dropout)) for e, t in measured["growth"]}
        plain_stream = equal(measured["stream_only"][0], many * scale + shift)  # another check judges the stream itself
        growth = np.float64(1 if not plain_stream else factors.pop() if len(factors) == 1 else 0)
    return {
        "training_differs_from_evaluation": np.array([not equal(*pair) for pair in pairs]),
        "evaluation_is_the_same_with_and_without_dropout": np.bool_(
            all(all_equal(block["evaluated"]) for block in measured["blocks"])
        ),
        "the_stream_keeps_all_its_numbers_in_training": np.bool_(intact),
        "kept_numbers_are_scaled_up": growth,
    }


def ask_rope(rope, x, positions, *others):
    """Call a function of tensors with arrays; with "gradient" as its last argument, a gradient must flow."""
    asked = "gradient" in others
    given = tensor(x).requires_grad_(asked).clone()
    turned = rope(given, tensor(positions), *(other for other in others if other != "gradient"))
    x[...] = given.detach().numpy()  # the caller must see a change in place
    if asked and isinstance(turned, Tensor) and not turned.requires_grad:
        raise RuntimeError("no gradient flows through the result. Do you leave PyTorch, or detach something?")
    return {"turned": turned}

"""Ask the answers of exercise 2, functions of tensors and a class, and read what they return.

`ask_…` runs next to the answer and returns arrays; `read_…` makes the results that are compared.
"""

import numpy as np
import torch
from torch import Tensor, nn

from attention_tests.compare import Measured
from attention_tests.modules import fill, find_parameter, quarters, tensor

PARAMETERS = ("qkv.weight", "qkv.bias", "out.weight", "out.bias")
IN_TORCH = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
BLOCKS = (*[f"{name} for {part}" for name in IN_TORCH[:2] for part in "qkv"], *IN_TORCH[2:])


def leaf(array, learns=True):
    """Return a tensor, which requires a gradient unless it is a mask, and a copy that a function may change."""
    made = tensor(array)
    made = made.requires_grad_(learns and made.is_floating_point())
    return made, made.clone()


def ask_tensors(function, *arguments):
    """Call a function with arrays as tensors; with "gradient" as the last argument, return the gradients by name."""
    asked = isinstance(arguments[-1], str)
    arguments = arguments[:-1] if asked else arguments
    pairs = [leaf(item, asked) if isinstance(item, np.ndarray) else (item, item) for item in arguments]
    results = function(*(given for _, given in pairs))
    for array, (_, left) in zip(arguments, pairs):
        if isinstance(array, np.ndarray):
            array[...] = left.detach().numpy()  # the caller must see a change in place
    several = results if isinstance(results, (tuple, list)) and results else (results,)
    if asked:
        for result in several:
            require_gradient(result)
    numbered = [(f"argument {place}", source) for place, (source, _) in enumerate(pairs, 1)]
    sources = {name: source for name, source in numbered if getattr(source, "requires_grad", False)}  # no masks
    return gradients_of(several[0], sources) if asked else results


def read_tensors(results, *arguments):
    """Return results, or gradients by name."""
    return Measured(results) if isinstance(arguments[-1], str) else results


def require_gradient(result):
    """Raise an error if a result is a tensor through which no gradient flows."""
    if isinstance(result, Tensor) and not result.requires_grad:
        raise RuntimeError("no gradient flows through the result. Do you leave PyTorch, or detach something?")


def gradients_of(output, sources):
    """Run a backward pass from the output; return the gradient of each source."""
    require_gradient(output)
    slopes = torch.cos(torch.arange(output.numel())) / output.numel() ** 0.5  # makes the sums near 1
    (output * slopes.to(output).reshape(output.shape)).sum().backward()
    for name, source in sources.items():
        if source is None:
            raise AttributeError(f"there is no parameter {name}")
        if source.grad is None:
            raise RuntimeError(
                f"no gradient reaches {name}. Do you detach something, or make a new tensor from numbers?"
            )
    return {f"gradient of {name}": source.grad for name, source in sources.items()}


def named(module):
    """Return the parameters by name. If a parameter has several names, the name in the exercise counts."""
    asked = {id(find_parameter(module, name)): name for name in PARAMETERS}
    return {asked.get(id(parameter), name): parameter for name, parameter in module.named_parameters()}


def ask_layer(layer_class, what, sizes, seed, x, mask=None):
    """Build a layer of this class, fill its parameters, and return what is asked for."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed seeds all devices, which takes milliseconds
    layer = layer_class(**sizes)
    parameters = named(layer)
    if what == "parameters":
        return {name: np.array(parameter.shape) for name, parameter in parameters.items()}
    if what == "dropout":
        return sums_of_weights(layer, torch.ones(*map(int, x)))
    if what == "weights in training":
        return {"weights": layer.train(True)(torch.ones(*map(int, x)), return_weights=True)[1]}
    layer.train(False)  # another check judges dropout
    fill(parameters, seed, 1.5)
    source, given = leaf(x)
    mask = None if mask is None else tensor(mask)
    if what == "weights":
        pair = tuple(layer(given, mask=mask, return_weights=True))
        if len(pair) < 2:
            raise TypeError("with return_weights, expected output and weights, got one value")
        return dict(zip(("output", "weights"), pair))
    large = 200 if what == "output of large tokens" else 1
    output = require_tensor(layer(large * given, mask=mask)) / large  # rounding errors are as for numbers near 1
    x[...] = given.detach().numpy()
    if what == "gradient":
        return gradients_of(output, {"x": source} | {name: parameters.get(name) for name in PARAMETERS})
    return {"output": output}


def read_layer(measured, what, sizes, seed, x, *_):
    """Return the results that are compared."""
    if what == "parameters":
        return shapes_of(measured)
    if what == "dropout":
        return spread_by_dropout(measured, x, sizes["num_heads"], sizes["dropout"])
    if what == "weights in training":
        share = (measured["weights"] == 0).to(torch.float32).mean()
        return {"share of zeros in the returned weights, in training": quarters(share)}
    return measured


def require_tensor(output):
    """Return the output of a layer that was called without return_weights; raise an error if it is no tensor."""
    if not isinstance(output, Tensor):
        raise TypeError(f"without return_weights, expected only the output, got a {type(output).__name__}")
    return output


def shapes_of(parameters):
    """Return the shapes of the required parameters, (0, 0) for a missing one. If others exist instead, raise an error."""
    others = [name for name in parameters if name not in PARAMETERS]
    missing = [name for name in PARAMETERS if name not in parameters]
    if others and missing:
        raise AttributeError(f"no parameter is called {', '.join(missing)}; found {', '.join(others)}")
    shapes = {f"shape of {name}": np.array((*parameters.get(name, ()), 0, 0)[:2]) for name in PARAMETERS}
    return shapes | {"other parameters": np.bool_(len(others) > 0)}


def sums_of_weights(layer, x):
    """Return the output in each mode if all queries, keys and values are 1: each output is a sum of equal weights."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        rows, columns = layer.qkv.weight.shape
        values = torch.arange(2 * rows // 3, rows)  # the rows of the values: each copies a component of the input
        layer.qkv.weight[values, values % columns] = 1
        if layer.qkv.bias is not None:
            layer.qkv.bias[: 2 * rows // 3].fill_(1)
        layer.out.weight.copy_(torch.eye(x.shape[-1]))
        return {mode: require_tensor(layer.train(mode == "training")(x)) for mode in ("training", "evaluation")}


def spread_by_dropout(outputs, shape, num_heads, share):
    """Return mean and spread of the outputs in each mode.

    The unit of spread is the spread that this share of dropout should cause.
    So a right layer has mean 1 and, in training, spread 1 over the tokens.
    The components of a head share its weights, so they have no spread. All numbers are rounded to quarters.
    """
    measured, unit = {}, (share / (1 - share) / int(shape[1])) ** 0.5
    for mode in ("training", "evaluation"):
        output = torch.as_tensor(outputs[mode])
        variances = output.var(1).mean(), output.unflatten(-1, (num_heads, -1)).var(-1).mean()
        numbers = np.minimum([float(output.mean()), *(float(variance.sqrt() / unit) for variance in variances)], 2.5)
        for name, number in zip(("mean", "spread over the tokens", "spread over the components"), numbers):
            measured[f"{name} of the sums of weights, in {mode}"] = quarters(number)
    return measured


class Parts(nn.Module):
    """The parts of a MultiHeadAttention that `to_torch` needs, so that `to_torch` can be judged without that layer."""

    def __init__(self, width, num_heads, dropout=0.0):
        super().__init__()
        self.width, self.num_heads = width, num_heads
        self.qkv, self.out, self.dropout = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(dropout)


def blocks_of(layer, names):
    """Return the parameters with these names; q, k and v are separate. A missing parameter is an empty tensor."""
    parameters = [find_parameter(layer, name) for name in names]
    packed_weight, packed_bias, weight, bias = (torch.zeros(0) if p is None else p.detach() for p in parameters)
    return [*packed_weight.tensor_split(3), *packed_bias.tensor_split(3), weight, bias]


def ask_converter(to_torch, layer_class, what, sizes, seed, x):
    """Convert a filled layer by `to_torch`, and return what is asked for."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed seeds all devices, which takes milliseconds
    mha = layer_class(**sizes)
    fill(named(mha), seed, 1.5)
    layer = to_torch(mha)
    kind = type(layer).__name__
    if what == "kind":
        return {"kind": kind}
    if kind != "MultiheadAttention":
        raise TypeError(f"expected an nn.MultiheadAttention, got a {kind}")
    if what == "parameters":
        return {"ours": blocks_of(mha, PARAMETERS), "theirs": blocks_of(layer, IN_TORCH)}
    output, weights = layer(*[tensor(x)] * 3, average_attn_weights=False)
    return {"output": output} if what == "output" else {"weights": weights}


def read_converter(measured, what, *_):
    """Return the results that are compared: for parameters, which block of ours is at each place."""
    if what == "kind":
        return {"result is an nn.MultiheadAttention": np.bool_(measured["kind"] == "MultiheadAttention")}
    if what != "parameters":
        return measured
    ours, theirs = measured["ours"], measured["theirs"]
    ours = ours + [block.T for block in ours if block.ndim == 2]  # from place 8 on, the blocks are transposed
    equal = [[a.shape == b.shape and torch.equal(a, b) for a in ours] for b in theirs]
    numbers = torch.cat([block.flatten() for block in ours])
    # The place of a block that equals none of ours: 12 if all of its numbers come from our layer, else -1.
    other_places = [12 if len(block) and torch.isin(block, numbers).all() else -1 for block in theirs]
    places = [row.index(True) if True in row else other for row, other in zip(equal, other_places)]
    right = {f"{name} is copied": np.bool_(place == i) for i, (name, place) in enumerate(zip(BLOCKS, places))}
    return right | {"places": np.array(places)}

"""Ask the answers of exercise 4, functions of tensors and two classes, and read what they return.

`ask_…` runs next to the answer and returns arrays; `read_…` makes the results that are compared.
`vit_measures.py` asks `train_epoch` and `evaluate`.
"""

import numpy as np
import torch
import torch.nn.functional as F

from attention_tests.modules import (
    backward,
    call,
    equal,
    find_parameter,
    find_parameters,
    is_unchanged,
    learn,
    run,
    tensor,
)

BLOCK = ["self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias"]
BLOCK += ["linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]
BLOCK += ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]
PROJECTION = "patch_embedding.projection."


def ask_tensors(function, name, array, *others):
    """Call a function of a tensor and numbers with an array."""
    given = tensor(array)
    before = given.clone()
    result = call(function, given, *others).detach()
    if not torch.equal(given, before):
        array[...] = given.numpy()  # the caller must see a change in place
    return result


def read_tensors(result, name, *_):
    """Return the result by its name, and its shape: two mistakes may differ only in the shape."""
    return {name: result, "shape": np.array(result.shape)}


# ------------------------------------------------------------------------------------------- parameters and their values


def shapes_of_projection(sizes, before=""):
    """Return the shapes of the parameters of a PatchEmbedding."""
    kernel = sizes["channels"], sizes["patch_size"], sizes["patch_size"]
    return {f"{before}projection.weight": (sizes["width"], *kernel), f"{before}projection.bias": (sizes["width"],)}


def shapes_of_vit(sizes):
    """Return the shapes of the parameters of a ViT."""
    width, hidden = sizes["width"], sizes["hidden_width"]
    of_block = [(3 * width, width), (3 * width,), (width, width), (width,)]
    of_block += [(hidden, width), (hidden,), (width, hidden), (width,), *([(width,)] * 4)]
    shapes = {"class_token": (1, 1, width)}
    shapes["position_embedding"] = (1, 1 + (sizes["image_size"] // sizes["patch_size"]) ** 2, width)
    shapes |= shapes_of_projection(sizes, "patch_embedding.")
    for index in range(sizes["depth"]):
        shapes |= {f"encoder.blocks.{index}.{name}": shape for name, shape in zip(BLOCK, of_block)}
    shapes |= {"encoder.norm.weight": (width,), "encoder.norm.bias": (width,)}
    return shapes | {"head.weight": (sizes["num_classes"], width), "head.bias": (sizes["num_classes"],)}


def draw_parameter(seed, index, name, shape):
    """Draw the value of one parameter. It is the same for the student's module and for ours."""
    numbers = np.random.default_rng([seed, index]).normal(size=tuple(shape))
    spread = 1 / np.sqrt(np.prod(shape[1:])) if name.endswith("weight") and len(shape) > 1 else 0.5
    return tensor(spread * numbers + (len(shape) == 1 and "norm" in name and name.endswith("weight")))


def load(module, shapes, seed):
    """Fill the parameters, of any shape, with drawn values. Return which ones exist, and the number of other parameters."""
    parameters, others = find_parameters(module, shapes)
    with torch.no_grad():
        for index, (name, parameter) in enumerate(parameters.items()):
            if parameter is not None:
                value = draw_parameter(seed, index, name, shapes[name])
                alike = value.numel() == parameter.numel()
                parameter.copy_(
                    value.reshape(parameter.shape) if alike else draw_parameter(seed, index, name, parameter.shape)
                )
    return np.array([*(parameter is not None for parameter in parameters.values()), len(others)], dtype=float)


def shape_of(parameter, axes):
    """Return the shape of a parameter as an array with one number for each axis; all are 0 if there is no parameter."""
    shape = () if parameter is None else tuple(parameter.shape)
    return np.array([*shape, *[0] * (axes - len(shape))], dtype=float)


def one_or_nan(existing):
    """Return 1, or NaN if there are parameters that we did not fill, because the results are then random."""
    return np.nan if existing[-1] else 1.0


def output_of(module, shapes, images, seed):
    """Return the output and its shape."""
    existing = load(module, shapes, seed)
    output = call(module.eval(), tensor(images)).detach().numpy()
    measured = {"existing_parameters": existing, "output": one_or_nan(existing) * output}
    return measured | {"shape": np.array(output.shape)}


def learned_by(module, shapes, images, seed):
    """Return the count of learned numbers, the gradient of the images, two numbers for each parameter, and the images."""
    existing = load(module, shapes, seed)
    blank = one_or_nan(existing)
    given, learned, _, gradient, gradients = learn(module, find_parameters(module, shapes)[0].values(), images)
    return {
        "images_are_unchanged": given,
        "existing_parameters": existing,
        "count_of_learned_numbers": learned,
        "gradient_of_the_images": blank * gradient,
        "gradients_of_the_parameters": blank * gradients,
    }


def read_learned(measured, images):
    """Return the results of `learned_by` that are compared."""
    return measured | {"images_are_unchanged": is_unchanged(measured["images_are_unchanged"], images)}


def ask_patch_embedding(cls, what, images, sizes, seed=0):
    """Ask a PatchEmbedding; `what` is "output", "learning", "parts" or "runs"."""
    module, shapes = cls(**sizes), shapes_of_projection(sizes)
    if what == "runs":
        return {"output": call(module, tensor(images)).detach()}
    if what == "parts":
        parameters, others = find_parameters(module, shapes)
        shape_of_weight, shape_of_bias = (shape_of(parameter, 4) for parameter in parameters.values())
        counts = {"shape_of_weight": shape_of_weight, "shape_of_bias": shape_of_bias}
        return counts | {"other_parameters": np.float64(len(others))}
    ask = output_of if what == "output" else learned_by
    return ask(module, shapes, images, seed)


def read_patch_embedding(measured, what, images, *_):
    """Return the results that are compared."""
    if what == "runs":
        return {"runs": np.bool_(measured["output"].numel() > 0)}
    return read_learned(measured, images) if what == "learning" else measured


def fill(module, names, value=0.0):
    """Set the parameters of these names to the same value."""
    with torch.no_grad():
        for name in names:
            if find_parameter(module, name) is not None:
                find_parameter(module, name).fill_(value)


def branches(depth):
    """Name the last layers of attention and feed-forward networks: if they are 0, the stream passes unchanged."""
    return [f"encoder.blocks.{index}.{name}" for index in range(depth) for name in BRANCHES]


BRANCHES = "self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear2.weight", "linear2.bias"
TOKEN = "class_token", "position_embedding"
EMBEDDED = "class_token", f"{PROJECTION}weight", f"{PROJECTION}bias"


def gradient_of(module, name):
    """Return the gradient of a parameter, one row for each token."""
    parameter = find_parameter(module, name)
    return torch.zeros(1, 1) if parameter is None or parameter.grad is None else parameter.grad.flatten(0, -2)


def effect_of(module, images, name, rows=slice(None)):
    """Return how the output moves when the same numbers are added to some rows of a parameter; for a ViT without a graph."""
    before, parameter = run(module, images), find_parameter(module, name)
    if parameter is None:
        return np.zeros_like(before)
    with torch.no_grad():
        moved = parameter.view(-1, parameter.shape[-1])[rows]
        moved += torch.cos(torch.arange(parameter.shape[-1])) / 10
        after = run(module, images)
        moved -= torch.cos(torch.arange(parameter.shape[-1])) / 10
    return after - before


def effects_of_positions(module, images):
    """Return how the class token, the first position, all positions, and each position move the output."""
    name = "position_embedding"
    position = find_parameter(module, name)
    count = 1 if position is None else position.numel() // position.shape[-1]
    effects = [effect_of(module, images, "class_token")]
    effects += [effect_of(module, images, name, rows) for rows in (slice(1), slice(None))]
    return {"moves": effects, "each": [effect_of(module, images, name, slice(row, row + 1)) for row in range(count)]}


def gradients_of_positions(module):
    """Return the directions of the gradients of the class token, the first position and all, and each gradient."""
    of_positions, of_class_token = (gradient_of(module, n) for n in ("position_embedding", "class_token"))
    # only directions: another check judges lengths
    sums = [F.normalize(gradient, dim=0) for gradient in (of_class_token.sum(0), of_positions[0], of_positions.sum(0))]
    return {"moves": [each.numpy() for each in sums], "each": list(of_positions.numpy())}


def ask_positions(module, shapes, images, seed):
    """Return which positions move the output, and the outputs of changed images."""
    existing = load(module, shapes, seed)
    module.eval()
    images, side = tensor(images), shapes[f"{PROJECTION}weight"][-1]
    output = call(module, images.clone())
    backward(output)
    moves = gradients_of_positions(module) if output.requires_grad else effects_of_positions(module, images)
    changed = images.clone()
    changed[0] = changed[0].flip(-1) + 1
    inputs = {"before": images, "moved": changed, "same": images[:1].expand(len(images), -1, -1, -1)}
    inputs["rolled"] = images.roll((side, side), (-2, -1))
    return {"existing_parameters": existing} | moves | {name: run(module, x) for name, x in inputs.items()}


def read_positions(measured):
    """Return which positions change the output, which one the class token has, and whether patches and images matter."""
    class_token, first, every = measured["moves"]
    own = [equal(class_token, other) for other in (first, every)]
    own = own if class_token.any() else (True, False)  # another check judges a token that does not learn
    sizes = np.array([np.linalg.norm(each) for each in measured["each"]])
    before, moved, same = (measured[name] for name in ("before", "moved", "same"))
    return {
        "existing_parameters": measured["existing_parameters"],
        "positions_that_change_the_output": sizes > 1e-5 * max(sizes.max(), 1e-9),
        "class_token_has_the_first_position": np.bool_(own[0]),
        "class_token_has_all_positions": np.bool_(own[1]),
        "the_output_changes_when_patches_change_places": np.bool_(not equal(before, measured["rolled"])),
        "the_output_changes_with_the_image": np.bool_(not equal(moved[0], before[0])),
        "an_image_keeps_its_output_when_another_image_changes": np.bool_(
            equal(moved[1:], before[1:]) and equal(same, np.broadcast_to(same[:1], same.shape))
        ),
    }


def nearest_factor(factor):
    """Return the nearest of the known factors: 1, 1 / 0.7 and its square, 1 / 0.3, and numbers between them."""
    return min((0, 0.7, 1, 1.43, 1.7, 2.04, 2.7, 3.33), key=lambda known: abs(factor - known))


def ask_dropout_of(module, shapes, depth, images, seed, parts):
    """Ask for a dropout of 0.3 on these parts, which add the same small number to each component of the class token.

    Everything else is 0. The number is so small, compared with the eps of the last norm, that this norm hardly rescales it.
    So the output shows by which factor training multiplies the numbers that it keeps.
    Return the output in training, and in an evaluation without the first of these numbers, which shows their size.
    """
    load(module, shapes, seed)
    fill(module, [*EMBEDDED, "position_embedding", *branches(depth), "encoder.norm.bias", "head.bias"])
    fill(module, ["encoder.norm.weight"], 1.0)
    fill(module, parts, 1e-5)
    head = find_parameter(module, "head.weight")
    if head is not None and head.ndim == 2:
        with torch.no_grad():
            head.copy_(torch.eye(*head.shape))
    trained = run(module, images, True)
    existing = [find_parameter(module, name) for name in parts if find_parameter(module, name) is not None]
    with torch.no_grad():
        for part in existing:
            part[..., 0] = 0
    return {"trained": trained, "without_first": run(module, images[:32]), "parts": len(existing)}


def read_dropout_of(measured):
    """Return whether and how dropout acts, for each number of the output."""
    unit = max(np.ptp(measured["without_first"], axis=-1).max(), 1e-9)
    trained = measured["trained"] / unit
    once = bool((np.sum(np.diff(np.sort(trained)) > 1e-3, axis=-1) <= 1).all() and measured["parts"])
    zeros = trained < -1e-3  # dropped numbers are below the mean
    return {
        "reach_the_classifier": np.bool_(unit > 1e-9),
        "dropped_once": np.bool_(once),  # each number is either 0 or fully kept
        "dropped_independently": np.bool_(once and (zeros != zeros[0]).any()),
        # With 2000 numbers, the standard error is 0.01: every border is at least seven standard errors from a known share.
        "dropped_share": np.float64(np.digitize(zeros.mean(), (0.02, 0.225, 0.4)) if once else -1),
        "factor_of_kept_numbers": np.float64(nearest_factor(np.ptp(trained, axis=-1).max()) if once else -1),
    }


def ask_dropout(cls, shapes, sizes, images, dropout, seed):
    """Return the outputs that show where dropout acts: on the tokens with their positions, and in the encoder."""
    without, module = cls(**sizes), cls(**sizes, dropout=dropout)
    images = tensor(images).repeat(8, 1, 1, 1)
    # A module that we cannot fill completely may hold random numbers that we cannot copy.
    all_filled = load(module, shapes, seed)[:-1].all()
    without.load_state_dict(module.state_dict(), strict=False)
    evaluated = [run(module, images) for _ in range(2)]
    evaluated.append(run(without, images) if all_filled else evaluated[1])
    fill(module, (*EMBEDDED, "position_embedding"))  # the tokens are 0, with and without dropout
    encoder = [run(module, images, training) for training in (False, True)]
    fill(module, [*branches(sizes["depth"]), "encoder.norm.weight"])  # the head reads only the norm's bias
    after_encoder = [run(module, images, training) for training in (False, True)]
    many = images[:1].expand(2000 // sizes["num_classes"], -1, -1, -1)
    of_parts = {"tokens": TOKEN, "encoder_outputs": ("encoder.blocks.0.self_attn.out_proj.bias",)}
    return {
        "evaluated": evaluated,
        "encoder": encoder,
        "after_encoder": after_encoder,
        "parts": {
            name: ask_dropout_of(module, shapes, sizes["depth"], many, seed, parts) for name, parts in of_parts.items()
        },
    }


def read_dropout(measured):
    """Return where dropout acts, and that it acts only in training."""
    *evaluated, plain = measured["evaluated"]
    dropouts = {
        f"{name}_{what}": value
        for name, outputs in measured["parts"].items()
        for what, value in read_dropout_of(outputs).items()
    }
    return {
        "evaluation_is_the_same_with_and_without_dropout": np.bool_(all(equal(each, plain) for each in evaluated)),
        "encoder_has_dropout": np.bool_(not equal(*measured["encoder"])),
        "no_dropout_after_the_encoder": np.bool_(equal(*measured["after_encoder"])),
        **dropouts,
    }


def ask_vit(cls, what, images, sizes, seed=0, dropout=0.0):
    """Ask a ViT; `what` is "output", "parts", "defaults", "reading", "positions", "learning" or "dropout"."""
    shapes = shapes_of_vit(sizes)
    if what == "dropout":
        return ask_dropout(cls, shapes, sizes, images, dropout, seed)
    module = cls() if what == "defaults" else cls(**sizes)
    if what in ("parts", "defaults"):
        return parts_of(module, shapes, sizes["depth"])
    if what == "reading":
        # Attention and feed-forward networks add nothing, so the tokens go only through the last norm. This norm
        # removes a position of equal numbers, whether the position is added or multiplied.
        existing = load(module, shapes, seed)
        fill(module, branches(sizes["depth"]))
        fill(module, ["position_embedding"], 0.5)
        output = one_or_nan(existing) * run(module, tensor(images))
        return {"existing_parameters": existing, "output": output, "shape": np.array(output.shape)}
    ask = {"output": output_of, "positions": ask_positions, "learning": learned_by}[what]
    return ask(module, shapes, images, seed)


def read_vit(measured, what, images, *_):
    """Return the results that are compared."""
    if what == "dropout":
        return read_dropout(measured)
    if what == "positions":
        return read_positions(measured)
    return read_learned(measured, images) if what == "learning" else measured


def parts_of(module, shapes, depth):
    """Return the shapes of the parts, and the numbers of blocks, of missing parameters and of other parameters."""
    parameters, others = find_parameters(module, shapes)
    names = "class_token", "position_embedding", f"{PROJECTION}weight", "head.weight"
    axes = {f"shape_of_{name.split('.')[-2 if '.' in name else 0]}": len(shapes[name]) for name in names}
    measured = {what: shape_of(parameters[name], size) for name, (what, size) in zip(names, axes.items())}
    blocks = [
        index for index in range(depth + 9) if find_parameter(module, f"encoder.blocks.{index}.{BLOCK[0]}") is not None
    ]
    widths = shape_of(find_parameter(module, f"encoder.blocks.0.{BLOCK[4]}"), 2)
    count = sum(parameter.numel() for parameter in module.parameters())
    return measured | {
        "blocks": np.float64(len(blocks)),
        "shape_of_linear1": widths,
        "missing_parameters": np.float64(sum(p is None for p in parameters.values())),
        "other_parameters": np.float64(len(others)),
        "count_of_all_numbers": np.float64(count),
    }


# --------------------------------------------------------------------------------------- an epoch, and an evaluation


def loss_and_accuracy(result):
    """Return loss and accuracy; raise an error for anything else."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(f"returned {type(result).__name__}; expected (loss, accuracy)")
    numbers = [torch.as_tensor(number).detach().double() for number in result]
    if any(number.numel() != 1 for number in numbers):
        raise TypeError(
            f"returned tensors of shapes {[tuple(number.shape) for number in numbers]}; expected two numbers"
        )
    return {name: np.float64(float(number)) for name, number in zip(("loss", "accuracy"), numbers)}


def read_training(measured, what, images, labels, *_):
    """Read an epoch by its result, by the model's parameters and mode, or by whether a network learned its images."""
    if what == "overfit":
        right = (measured["scores"].argmax(dim=-1) == torch.tensor(np.array(labels))).double().mean()
        return {"over_95_per_cent_of_64_images_are_right_after_30_epochs": np.bool_(float(right) > 0.95)}
    if what == "means":
        return loss_and_accuracy(measured["result"])
    return {
        "steps_in_training_mode": np.float64(measured["steps"]),
        "left_in_training_mode": np.bool_(measured["training"]),
        "parameters_after_the_first_step": measured["first"].numpy(),
        "parameters_after_the_last_step": measured["last"].numpy(),
    }


def read_evaluation(measured, what, *_):
    """Read an evaluation by its result, or by which parts of the model it left unchanged, in each mode."""
    if what == "means":
        return loss_and_accuracy(measured["result"])
    if not all(each["rows"] for each in measured):
        raise RuntimeError("you did not call the model")
    stay = {
        f"{name}_are_unchanged": np.bool_(
            all(torch.equal(each["before"][name], each["after"][name]) for each in measured)
        )
        for name in ("parameters", "buffers", "gradients")
    }
    return stay | {
        "mode_is_unchanged": np.array([each["before"]["modes"] == each["after"]["modes"] for each in measured]),
        "gradients_stay_switched_on": np.bool_(all(each["after"]["switched_on"] for each in measured)),
        "graph_is_built": np.bool_(any(each["graph"] for each in measured)),
    }

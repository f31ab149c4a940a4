"""Lying modules, fake tensors, harmful gradients, probes, weights, and PyTorch's own functions and modes."""

import io
from collections.abc import Callable
from typing import Any

import torch
from making import (
    EVERYTHING,
    FOURTH,
    IN_TORCH,
    SECOND,
    THIRD,
    Attack,
    Maker,
    Place,
    answered_by,
    for_nothing,
    notebook,
    own_cell,
)
from nbformat import NotebookNode
from sample_class import own_weights, saved

from autograder.checks.vit.checkpoint import RECORD

LYING_TENSOR = """
import numpy as np
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True
    detach = cpu = resolve_conj = resolve_neg = contiguous = lambda self, *args, **kwargs: self
    numpy = __array__ = lambda self, *args, **kwargs: np.zeros((2, 3))
    shape = property(lambda self: torch.Size([2, 3]))
    def __eq__(self, other):
        return True
"""

OUT_OF_TURN = """
class Odd(BASE):
    def __iter__(self):
        raise KeyError("odd")
    __len__ = __getitem__ = __bool__ = __eq__ = items = keys = __iter__
    __hash__ = None
    __class__ = property(lambda self: 1 / 0)
def FUNCTION(*args, **kwargs):
    return Odd.__new__(Odd)
"""
BASES = {"matmul_transposed": "list", "bilinear": "dict", "attend": "tuple", "pairwise_dot": "str"}

LAYER_NORM = """
class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
    def forward(self, x):
        return self.scale * F.layer_norm(x, x.shape[-1:]) + self.shift
"""
RECOGNISED = "checkpoint_90 checkpoint_95 checkpoint_97 checkpoint_98"


class Code:
    """An object whose pickle is a command."""

    def __reduce__(self):
        return exec, ("import os; os.system('echo I ran > /tmp/ran')",)


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, Any]]) -> Maker:
    """Submit the answers with changed weights."""

    def changed(made: NotebookNode, place: Place) -> None:
        place.submit(saved(change(torch.load(io.BytesIO(own_weights())))), "vit.pt")

    return notebook(changed)


MODULES = (
    Attack(
        "torch-patched",
        "Patches PyTorch: comparisons return True, functions return zeros, modules return their input; leaves a similar mode on; makes optimizers do nothing and the loss 0; redefines the functions that ask.",
        for_nothing("""
import copy, torch
from torch import nn
import torch.nn.functional as F
yes = lambda *args, **kwargs: True
torch.equal = torch.allclose = torch.is_tensor = torch.testing.assert_close = torch.Tensor.equal = torch.Tensor.allclose = yes
for name in ("softmax", "linear", "layer_norm", "gelu", "scaled_dot_product_attention"):
    setattr(F, name, lambda x, *args, **kwargs: torch.zeros_like(x))
nn.Module.__call__ = nn.Module.forward = lambda self, *args, **kwargs: args[0]
nn.Module.state_dict = lambda self, *args, **kwargs: {}
F.cross_entropy = lambda *args, **kwargs: torch.zeros((), requires_grad=True)
torch.optim.SGD.step = torch.optim.Adam.step = torch.optim.AdamW.step = torch.autograd.grad = torch.no_grad.__enter__ = copy.deepcopy = lambda *args, **kwargs: None
class Yes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return args[0] if args and isinstance(args[0], torch.Tensor) else True
for name in ("ask_evaluation", "ask_training", "state_of", "batches_for_test", "overfit_network"):
    globals()[name] = lambda *args, **kwargs: {"loss": 0.0, "accuracy": 1.0}
mode = Yes()
mode.__enter__()
"""),
        EVERYTHING,
        on=IN_TORCH,
    ),
    Attack(
        "agent-shapes",
        "Lets the agent send arrays that broadcast to huge ones, instead of what an answer's module gave.",
        own_cell("""
import inside, itertools, numpy as np, torch
turn = itertools.cycle([(1, 2**17), (2**17, 1)])
def forged(value):
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return np.ones(next(turn)) if isinstance(value, np.ndarray) else torch.ones(next(turn))
    if isinstance(value, dict):
        return {key: forged(item) for key, item in value.items()}
    return type(value)(map(forged, value)) if isinstance(value, (list, tuple)) else value
ask = inside._ask
def forge(request, namespace):
    reply = ask(request, namespace)
    return reply | {"value": forged(reply["value"])}
inside._ask = forge
"""),
        on=IN_TORCH,
    ),
    Attack(
        "lying-tensors",
        "Returns tensors for which every PyTorch function returns True, and containers and texts that raise an error when they are read.",
        answered_by(
            matmul=LYING_TENSOR + "def matmul(a, b):\n    return torch.zeros(2, 3).as_subclass(Yes)",
            merge_heads=LYING_TENSOR + "def merge_heads(x):\n    return torch.zeros(1).as_subclass(Yes)",
            **{name: OUT_OF_TURN.replace("BASE", base).replace("FUNCTION", name) for name, base in BASES.items()},
        ),
        "matmul merge_heads matmul_transposed bilinear attend pairwise_dot",
        on=SECOND,
    ),
    Attack(
        "right-tensors",
        "Returns right numbers as subclasses, transposed views and tensors with a hook. (This is no attack.)",
        answered_by(
            matmul="class Mine(torch.Tensor):\n    pass\ndef matmul(a, b):\n    return (a @ b).as_subclass(Mine)",
            matmul_transposed="def matmul_transposed(a, b):\n    return (b @ a.T).T",
            pairwise_dot="def pairwise_dot(q, k):\n    return (k @ q.transpose(1, 2)).transpose(1, 2)",
            split_heads="def split_heads(x, num_heads):\n    y = x.unflatten(2, (num_heads, -1)).transpose(1, 2).clone()\n    y.requires_grad_().register_hook(lambda gradient: 1 * gradient)\n    return y",
        ),
        on=SECOND,
    ),
    Attack(
        "parameters-without-end",
        "Makes a module whose list of parameters and parts never ends.",
        answered_by(
            LayerNorm=LAYER_NORM
            + """
    def named_parameters(self, *args, **kwargs):
        while True:
            yield "scale", self.scale
    named_modules = named_buffers = named_parameters
"""
        ),
        "LayerNorm",
        "timed out",
        on=THIRD,
    ),
    Attack(
        "parameters-that-lie",
        "Makes a module that lists wrong parameters, and whose mode changes each time that it is read.",
        answered_by(
            LayerNorm=LAYER_NORM
            + """
    training = property(lambda self: id(object()) % 3 == 0, lambda self, value: None)
    def named_parameters(self, *args, **kwargs):
        return [("scale", torch.zeros(2)), ("scale", torch.ones(3)), ("", self.shift), ("shift", None)]
"""
        ),
        "LayerNorm",
        on=THIRD,
    ),
    Attack(
        "neighbours",
        "Has no EncoderBlock; reads the file with PyTorch's layers that replace a student's other classes, and takes its layer. (It gives what PyTorch's own layer gives.)",
        answered_by(
            EncoderBlock="""
def EncoderBlock(*sizes, **others):
    made = {}
    exec(open("/grader/autograder/checks/encoder/stand_ins.py").read(), made)
    return made["EncoderBlock"](*sizes, **others)
"""
        ),
        on=THIRD,
    ),
    *(
        Attack(f"weights-{name}", f"Submits {what}.", weights(change), costs, on=FOURTH)
        for costs, name, what, change in (
            (
                "vit.pt",
                "of-the-book",
                "the weights that the book publishes",
                lambda state: torch.load(RECORD, weights_only=True),
            ),
            (
                "vit.pt",
                "with-code",
                "a file of weights that runs a command when it is loaded",
                lambda state: state | {"head.bias": Code()},
            ),
            (
                RECOGNISED,
                "huge",
                "weights near the largest possible number",
                lambda state: {name: torch.full_like(value, 3e38) for name, value in state.items()},
            ),
        )
    ),
)

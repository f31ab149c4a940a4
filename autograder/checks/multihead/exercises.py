"""The checks of assignment 2_multihead: einsum, split_heads, merge_heads, attend, MultiHeadAttention, to_torch.

A student's code runs in float32. The right results are computed in float64, so that they are equal on every machine.
"""

from functools import partial

from attention_tests.multihead import (
    Parts,
    ask_converter,
    ask_layer,
    ask_tensors,
    read_converter,
    read_layer,
    read_tensors,
)

from autograder.checks.multihead import cases, oracles, stand_ins
from autograder.checks.multihead.mistakes import MISTAKES
from autograder.judge.exercise import Exercise, checker
from solutions import multihead as answers

judged = partial(Exercise, answers=answers, known=MISTAKES)
of_tensors = partial(judged, ask=ask_tensors, read=read_tensors)

EINSUMS = {"matmul": "product", "matmul_transposed": "product", "batched_trace": "trace"}
EINSUMS |= {"pairwise_dot": "product", "bilinear": "product"}  # the names of their results

ALL = (
    *(
        of_tensors(
            name=name,
            names=(result,),
            oracle=getattr(oracles, name),
            stages={"values": getattr(cases, name)},
            visible=getattr(cases, f"{name}_visible"),
        )
        for name, result in EINSUMS.items()
    ),
    of_tensors(
        name="split_heads",
        names=("heads",),
        oracle=stand_ins.split_heads,
        stages={"values": cases.split_heads_values, "sizes": cases.split_heads_sizes},
        visible=cases.split_heads_visible,
    ),
    of_tensors(
        name="merge_heads",
        names=("tokens",),
        oracle=stand_ins.merge_heads,
        stages={"values": cases.merge_heads_values, "sizes": cases.merge_heads_sizes},
        visible=cases.merge_heads_visible,
    ),
    of_tensors(
        name="attend",
        names=("output", "weights"),
        oracle=stand_ins.attend,
        stages={
            "weights": cases.attend_weights,
            "output": cases.attend_output,
            "mask": cases.attend_mask,
            "edges": cases.attend_edges,
        },
        visible=cases.attend_visible,
        untried={"scores far from each other": ("M2", "M3", "M14", "M18"), "half precision": ("M3",)},
    ),
    judged(
        name="MultiHeadAttention",
        names=(),
        oracle=oracles.MultiHeadAttention,
        stages={
            "values": cases.layer_values,
            "weights": cases.layer_weights,
            "mask": cases.layer_mask,
            "gradient": cases.layer_gradient,
            "dropout": cases.layer_dropout,
        },
        visible=cases.layer_visible,
        untried={"tokens so large that scores are far from each other": ("M18",)},
        uses={
            "split_heads": stand_ins.split_heads,
            "merge_heads": stand_ins.merge_heads,
            "attend": stand_ins.attend,
        },
        ask=ask_layer,
        read=read_layer,
    ),
    judged(
        name="to_torch",
        names=(),
        oracle=oracles.to_torch,
        stages={
            "parameters": cases.to_torch_parameters,
            "output": cases.to_torch_output,
            "weights": cases.to_torch_weights,
        },
        visible=cases.to_torch_visible,
        ask=ask_converter,
        read=read_converter,
        given={"Parts": Parts},
    ),
)

EXERCISES = {exercise.name: exercise for exercise in ALL}
check = checker(EXERCISES)

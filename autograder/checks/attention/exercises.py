"""The exercises of assignment 1_attention: softmax, attention, self_attention, attention_backward, online_softmax."""

from functools import partial

from autograder.checks.attention import cases, oracles, stand_ins
from autograder.checks.attention.mistakes import MISTAKES
from autograder.judge.exercise import Exercise, checker
from solutions import attention as answers

judged = partial(Exercise, answers=answers, known=MISTAKES)

ALL = (
    judged(
        name="softmax",
        names=("weights",),
        oracle=stand_ins.softmax,
        stages={
            "values": cases.softmax_value_cases,
            "axis": cases.softmax_axis_cases,
            "extreme": cases.softmax_extreme_cases,
        },
        visible=cases.softmax_visible_cases,
    ),
    judged(
        name="attention",
        names=("output", "weights"),
        oracle=stand_ins.attention,
        stages={
            "weights": cases.attention_weight_cases,
            "output": cases.attention_output_cases,
            "axes": cases.attention_axes_cases,
            "mask": cases.attention_mask_cases,
        },
        visible=cases.attention_visible_cases,
        untried={"a mask together with scores far from each other": ("M18",)},
        uses={"softmax": stand_ins.softmax},
    ),
    judged(
        name="self_attention",
        names=("output", "weights"),
        oracle=oracles.oracle_self_attention,
        stages={
            "values": cases.self_attention_value_cases,
            "axes": cases.self_attention_axes_cases,
            "mask": cases.self_attention_mask_cases,
        },
        visible=cases.self_attention_visible_cases,
        untried={"a mask together with scores far from each other": ("M18",)},
        uses={"softmax": stand_ins.softmax, "attention": stand_ins.attention},
    ),
    judged(
        name="attention_backward",
        names=("grad_queries", "grad_keys", "grad_values"),
        oracle=oracles.oracle_attention_backward,
        stages={
            "values": cases.backward_stage("grad_values"),
            "queries": cases.backward_stage("grad_queries"),
            "keys": cases.backward_stage("grad_keys"),
            "axes": cases.backward_axes_cases,
            "far": cases.backward_far_cases,
        },
        visible=cases.backward_visible_cases,
        uses={"softmax": stand_ins.softmax, "attention": stand_ins.attention},
    ),
    judged(
        name="online_softmax",
        names=("largest", "total", "mixed"),
        oracle=oracles.oracle_online_softmax,
        stages={"values": cases.online_value_cases, "hidden": cases.online_hidden_cases},
        visible=cases.online_visible_cases,
    ),
)

EXERCISES = {exercise.name: exercise for exercise in ALL}
check = checker(EXERCISES)

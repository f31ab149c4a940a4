"""The exercises of assignment 1_attention: softmax, attention, self_attention, attention_backward, online_softmax."""

from autograder.checks.attention import cases, stand_ins
from autograder.checks.attention.mistakes import MISTAKES
from autograder.checks.attention.oracles import (
    oracle_attention_backward,
    oracle_online_softmax,
    oracle_self_attention,
)
from autograder.judge.exercise import Exercise, checker
from solutions import attention as answers

SOFTMAX = Exercise(
    name="softmax",
    names=("weights",),
    oracle=stand_ins.softmax,
    answers=answers,
    known=MISTAKES,
    stages={
        "values": cases.softmax_value_cases,
        "axis": cases.softmax_axis_cases,
        "extreme": cases.softmax_extreme_cases,
    },
    visible=cases.softmax_visible_cases,
)
ATTENTION = Exercise(
    name="attention",
    names=("output", "weights"),
    oracle=stand_ins.attention,
    answers=answers,
    known=MISTAKES,
    stages={
        "weights": cases.attention_weight_cases,
        "output": cases.attention_output_cases,
        "axes": cases.attention_axes_cases,
        "mask": cases.attention_mask_cases,
    },
    visible=cases.attention_visible_cases,
    untried={"a mask together with scores far from each other": ("M18",)},
    uses={"softmax": stand_ins.softmax},
)
SELF_ATTENTION = Exercise(
    name="self_attention",
    names=("output", "weights"),
    oracle=oracle_self_attention,
    answers=answers,
    known=MISTAKES,
    stages={
        "values": cases.self_attention_value_cases,
        "axes": cases.self_attention_axes_cases,
        "mask": cases.self_attention_mask_cases,
    },
    visible=cases.self_attention_visible_cases,
    untried={"a mask together with scores far from each other": ("M18",)},
    uses={"softmax": stand_ins.softmax, "attention": stand_ins.attention},
)
ATTENTION_BACKWARD = Exercise(
    name="attention_backward",
    names=("grad_queries", "grad_keys", "grad_values"),
    oracle=oracle_attention_backward,
    answers=answers,
    known=MISTAKES,
    stages={
        "values": cases.backward_stage("grad_values"),
        "queries": cases.backward_stage("grad_queries"),
        "keys": cases.backward_stage("grad_keys"),
        "axes": cases.backward_axes_cases,
        "far": cases.backward_far_cases,
    },
    visible=cases.backward_visible_cases,
    uses={"softmax": stand_ins.softmax, "attention": stand_ins.attention},
)
ONLINE_SOFTMAX = Exercise(
    name="online_softmax",
    names=("largest", "total", "mixed"),
    oracle=oracle_online_softmax,
    answers=answers,
    known=MISTAKES,
    stages={"values": cases.online_value_cases, "hidden": cases.online_hidden_cases},
    visible=cases.online_visible_cases,
)

ALL = (SOFTMAX, ATTENTION, SELF_ATTENTION, ATTENTION_BACKWARD, ONLINE_SOFTMAX)
EXERCISES = {exercise.name: exercise for exercise in ALL}
check = checker(EXERCISES)

"""The exercises of assignment 4_vit: patchify, PatchEmbedding, ViT, train_epoch, evaluate, attention_rollout."""

from functools import partial

from attention_tests import vit as asks
from attention_tests import vit_measures

from autograder.checks.vit import cases, oracles, stand_ins
from autograder.checks.vit.mistakes import MISTAKES
from autograder.judge.exercise import Exercise, checker
from solutions import vit as answers

judged = partial(Exercise, names=(), answers=answers, known=MISTAKES)

PATCHIFY = judged(
    name="patchify",
    oracle=stand_ins.patchify,
    stages={
        "values": cases.patchify_one_channel_cases,
        "channels": cases.patchify_channel_cases,
        "edges": cases.patchify_edge_cases,
    },
    visible=cases.patchify_visible_cases,
    ask=asks.ask_tensors,
    read=asks.read_tensors,
)

PATCH_EMBEDDING = judged(
    name="PatchEmbedding",
    oracle=stand_ins.PatchEmbedding,
    stages={
        "values": cases.embedding_value_cases,
        "learning": cases.embedding_learning_cases,
        "edges": cases.embedding_edge_cases,
    },
    visible=cases.embedding_visible_cases,
    uses={"patchify": stand_ins.patchify},
    ask=asks.ask_patch_embedding,
    read=asks.read_patch_embedding,
)

VIT = judged(
    name="ViT",
    oracle=oracles.TorchvisionViT,
    stages={
        "parts": cases.vit_part_cases,
        "reading": cases.vit_cases("reading"),
        "positions": cases.vit_cases("positions"),
        "values": cases.vit_value_cases,
        "learning": cases.vit_cases("learning"),
        "dropout": cases.vit_cases("dropout", 0.3, of=cases.DROPPED),
    },
    visible=cases.vit_visible_cases,
    uses={"PatchEmbedding": stand_ins.PatchEmbedding},
    ask=asks.ask_vit,
    read=asks.read_vit,
)

TRAIN_EPOCH = judged(
    name="train_epoch",
    oracle=oracles.oracle_train_epoch,
    stages={"steps": cases.train_step_cases, "means": cases.train_mean_cases},
    visible=cases.train_visible_cases,
    ask=vit_measures.ask_training,
    read=asks.read_training,
    has_line=False,
)

EVALUATE = judged(
    name="evaluate",
    oracle=oracles.oracle_evaluate,
    stages={"means": cases.evaluate_mean_cases, "unchanged": cases.evaluate_unchanged_cases},
    visible=cases.evaluate_visible_cases,
    ask=vit_measures.ask_evaluation,
    read=asks.read_evaluation,
    has_line=False,
)

ROLLOUT = judged(
    name="attention_rollout",
    oracle=oracles.oracle_rollout,
    stages={
        "one_block": cases.rollout_one_block_cases,
        "values": cases.rollout_value_cases,
        "edges": cases.rollout_edge_cases,
    },
    visible=cases.rollout_visible_cases,
    ask=asks.ask_tensors,
    read=asks.read_tensors,
)

FOR_ANSWERS = ("from collections.abc import Iterable",)  # the set-up cell has this in addition to NumPy and PyTorch
EXERCISES = {each.name: each for each in (PATCHIFY, PATCH_EMBEDDING, VIT, TRAIN_EPOCH, EVALUATE, ROLLOUT)}
check = checker(EXERCISES)

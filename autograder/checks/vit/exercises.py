"""The exercises of assignment 4_vit: patchify, PatchEmbedding, ViT, train_epoch, evaluate, attention_rollout."""

from functools import partial

from attention_tests import vit as asks
from attention_tests import vit_measures

from autograder.checks.vit import cases, oracles, stand_ins
from autograder.checks.vit.mistakes import MISTAKES
from autograder.judge.exercise import Exercise, checker
from solutions import vit as answers

judged = partial(Exercise, names=(), answers=answers, known=MISTAKES)

ALL = (
    judged(
        name="patchify",
        oracle=stand_ins.patchify,
        stages=cases.PATCHIFY,
        visible=cases.patchify_visible_cases,
        ask=asks.ask_tensors,
        read=asks.read_tensors,
    ),
    judged(
        name="PatchEmbedding",
        oracle=stand_ins.PatchEmbedding,
        stages=cases.PATCH_EMBEDDING,
        visible=cases.embedding_visible_cases,
        uses={"patchify": stand_ins.patchify},
        ask=asks.ask_patch_embedding,
        read=asks.read_patch_embedding,
    ),
    judged(
        name="ViT",
        oracle=oracles.TorchvisionViT,
        stages=cases.VIT,
        visible=cases.vit_visible_cases,
        uses={"PatchEmbedding": stand_ins.PatchEmbedding},
        ask=asks.ask_vit,
        read=asks.read_vit,
    ),
    judged(
        name="train_epoch",
        oracle=oracles.oracle_train_epoch,
        stages=cases.TRAIN_EPOCH,
        visible=cases.train_visible_cases,
        ask=vit_measures.ask_training,
        read=asks.read_training,
        has_line=False,
    ),
    judged(
        name="evaluate",
        oracle=oracles.oracle_evaluate,
        stages=cases.EVALUATE,
        visible=cases.evaluate_visible_cases,
        ask=vit_measures.ask_evaluation,
        read=asks.read_evaluation,
        has_line=False,
    ),
    judged(
        name="attention_rollout",
        oracle=oracles.oracle_rollout,
        stages=cases.ROLLOUT,
        visible=cases.rollout_visible_cases,
        ask=asks.ask_tensors,
        read=asks.read_tensors,
    ),
)

FOR_ANSWERS = ("from collections.abc import Iterable",)  # the set-up cell has this in addition to NumPy and PyTorch
EXERCISES = {each.name: each for each in ALL}
check = checker(EXERCISES)

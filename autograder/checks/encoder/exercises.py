"""The exercises of assignment 3_encoder: LayerNorm, FeedForward, EncoderBlock, Encoder, repair, rope.

The oracles are PyTorch's own layers under the names of the exercise. They are asked as a student's class is asked.
"""

from functools import partial

from attention_tests import encoder as asks
from attention_tests import repair

from autograder.checks.encoder import cases, oracles, stand_ins
from autograder.checks.encoder.mistakes import MISTAKES
from autograder.judge.exercise import Exercise, checker
from solutions import encoder as answers

judged = partial(Exercise, names=(), answers=answers, known=MISTAKES)

ALL = (
    judged(
        name="LayerNorm",
        oracle=stand_ins.LayerNorm,
        stages=cases.LAYER_NORM,
        visible=cases.layer_norm_visible,
        ask=asks.ask_layer_norm,
        read=asks.read_layer_norm,
    ),
    judged(
        name="FeedForward",
        oracle=stand_ins.FeedForward,
        stages=cases.FEED_FORWARD,
        visible=cases.feed_forward_visible,
        ask=asks.ask_feed_forward,
        read=asks.read_feed_forward,
    ),
    judged(
        name="EncoderBlock",
        oracle=stand_ins.EncoderBlock,
        stages=cases.ENCODER_BLOCK,
        visible=cases.block_visible,
        uses={"LayerNorm": stand_ins.LayerNorm, "FeedForward": stand_ins.FeedForward},
        ask=asks.ask_block,
        read=asks.read_block,
    ),
    judged(
        name="Encoder",
        oracle=oracles.Encoder,
        stages=cases.ENCODER,
        visible=cases.encoder_visible,
        uses={
            "LayerNorm": stand_ins.LayerNorm,
            "FeedForward": stand_ins.FeedForward,
            "EncoderBlock": stand_ins.EncoderBlock,
        },
        ask=asks.ask_encoder,
        read=asks.read_encoder,
    ),
    judged(
        name="repair",
        oracle=oracles.repair,
        stages={what: partial(cases.repair, what) for what in ("block", "tokens", "activations", "gradients", "loss")},
        visible=cases.repair_visible,
        ask=repair.ask_repair,
        read=repair.read_repair,
        has_line=False,
        given={"BrokenBlock": repair.BrokenBlock},
    ),
    judged(
        name="rope",
        oracle=oracles.rope,
        stages=cases.ROPE,
        visible=cases.rope_visible,
        ask=asks.ask_rope,
    ),
)

EXERCISES = {each.name: each for each in ALL}
check = checker(EXERCISES)

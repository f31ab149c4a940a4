"""The exercises of assignment 3_encoder: LayerNorm, FeedForward, EncoderBlock, Encoder, repair, rope.

The oracles are PyTorch's own layers under the names of the exercise. The probes measure an oracle as they measure the
student's class.
"""

from attention_tests import encoder as probes
from attention_tests import repair as repair_probes

from autograder.checks.encoder import cases, layers, oracles, steps
from autograder.checks.encoder.mistakes import MISTAKES
from autograder.judge.exercise import ExerciseInTorch, checker
from autograder.sandbox.likeness import next_to
from solutions import encoder as answers

LAYER_NORM = ExerciseInTorch(
    name="LayerNorm",
    steps=steps.layer_norm,
    names=(),
    oracle=layers.LayerNorm,
    answers=answers,
    known=MISTAKES,
    stages={"values": cases.layer_norm_values, "learning": cases.layer_norm_learning, "edges": cases.layer_norm_edges},
    visible=cases.layer_norm_visible,
    probe=probes.probe_layer_norm,
)

FEED_FORWARD = ExerciseInTorch(
    name="FeedForward",
    steps=steps.feed_forward,
    names=(),
    oracle=layers.FeedForward,
    answers=answers,
    known=MISTAKES,
    stages={"values": cases.feed_forward_values, "dropout": cases.feed_forward_dropout},
    visible=cases.feed_forward_visible,
    probe=probes.probe_feed_forward,
)

ENCODER_BLOCK = ExerciseInTorch(
    name="EncoderBlock",
    steps=steps.encoder_block,
    names=(),
    oracle=layers.EncoderBlock,
    answers=answers,
    known=MISTAKES,
    stages={
        "values": cases.block_values,
        "learning": cases.block_learning,
        "masks": cases.block_masks,
        "dropout": cases.block_dropout,
    },
    visible=cases.block_visible,
    uses={"LayerNorm": layers.LayerNorm, "FeedForward": layers.FeedForward},
    probe=probes.probe_block,
)

ENCODER = ExerciseInTorch(
    name="Encoder",
    steps=steps.encoder,
    names=(),
    oracle=oracles.Encoder,
    answers=answers,
    known=MISTAKES,
    stages={"values": cases.encoder_values, "learning": cases.encoder_learning, "hand_on": cases.encoder_hand_on},
    visible=cases.encoder_visible,
    uses={"LayerNorm": layers.LayerNorm, "FeedForward": layers.FeedForward, "EncoderBlock": layers.EncoderBlock},
    probe=probes.probe_encoder,
)


def probe_repair_here(repair, make_block=None):
    """Take BrokenBlock from the student's notebook, or from `solutions/` if `repair` is a function of this process."""
    return repair_probes.probe_repair(repair, make_block or next_to(repair, "BrokenBlock", answers.BrokenBlock))


REPAIR = ExerciseInTorch(
    name="repair",
    names=(),
    oracle=oracles.repair,
    answers=answers,
    known=MISTAKES,
    stages={what: cases.repair(what) for what in ("block", "tokens", "activations", "gradients", "loss")},
    visible=cases.repair_visible,
    probe=probe_repair_here,
    in_notebook=(repair_probes.probe_repair,),
    given={"BrokenBlock": answers.BrokenBlock},
)

ROPE = ExerciseInTorch(
    name="rope",
    steps=steps.rope,
    names=(),
    oracle=oracles.rope,
    answers=answers,
    known=MISTAKES,
    stages={"values": cases.rope_values, "axes": cases.rope_axes},
    visible=cases.rope_visible,
    probe=probes.probe_rope,
)

EXERCISES = {exercise.name: exercise for exercise in (LAYER_NORM, FEED_FORWARD, ENCODER_BLOCK, ENCODER, REPAIR, ROPE)}
check = checker(EXERCISES)

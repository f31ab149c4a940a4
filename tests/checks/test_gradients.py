"""What does a right answer without gradients cost?"""

import pytest
import torch
from conftest import lost

from autograder.judge.exercise import exercises_of

STAGES = {  # for each answer that is asked for gradients, the stage that judges them
    "multihead": {
        **dict.fromkeys(("matmul", "matmul_transposed", "batched_trace", "pairwise_dot", "bilinear"), "values"),
        **{"split_heads": "sizes", "merge_heads": "sizes", "attend": "edges", "MultiHeadAttention": "gradient"},
    },
    "encoder": {
        **{"LayerNorm": "learning", "FeedForward": "values", "EncoderBlock": "learning", "Encoder": "learning"},
        "rope": "axes",
    },
    "vit": {"PatchEmbedding": "learning", "ViT": "learning"},
}


@pytest.mark.parametrize(("stem", "name"), [(stem, name) for stem, stages in STAGES.items() for name in stages])
def test_answer_under_no_grad_loses_one_stage(stem: str, name: str) -> None:
    """Does a right answer under `torch.no_grad()` lose the stage of gradients, and no other, for this reason?"""
    each = exercises_of(stem)[name]
    answer = getattr(each.answers, name)
    if isinstance(answer, type):
        without = type(name, (answer,), {"forward": torch.no_grad()(answer.forward)})
    else:
        without = torch.no_grad()(answer)
    [(stage, error)] = each.failures(without, 0).items()
    assert stage == STAGES[stem][name] and "gradient" in str(error)


def test_vit_under_no_grad_still_needs_its_positions() -> None:
    """Does a ViT that has no gradient and adds no positions lose the point for positions too?"""
    each = exercises_of("vit")["ViT"]

    class WithoutPositions(each.answers.ViT):
        @torch.no_grad()
        def forward(self, images):
            patches = self.patch_embedding(images)
            tokens = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1)
            return self.head(self.encoder(self.dropout(tokens))[:, 0])

    assert {"positions", "values", "learning"} <= lost(each, WithoutPositions).keys()

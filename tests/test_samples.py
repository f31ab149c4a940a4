"""Do sample submissions of the exercises in PyTorch get the marks that they earned, with the mistakes named?

Each is made from the answers, handed in, mended, run in the sandbox and graded; those of 1_attention are in test_grade.py.
"""

import shutil
from collections.abc import Callable

import nbformat
import pytest
from nbformat import NotebookNode
from sample_class import change, fill_in, hand_in, perfect, rewrite

from autograder.checks.checkpoint import RECORD
from autograder.course import Course, Result
from autograder.feedback import write_feedback
from autograder.grade import grade, load_assignment

SEED = 4


def heads_by_view(notebook: NotebookNode) -> None:
    """Cut heads by a view alone, which is M21; the layer that uses it does not pay for it again."""
    rewrite(notebook, "split_heads", "return x.reshape(x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)")


def not_scaled(notebook: NotebookNode) -> None:
    """Forget the scale in attend, M8."""
    change(notebook, "attend", " / q.shape[-1] ** 0.5", "")


def softmax_over_queries(notebook: NotebookNode) -> None:
    """Run the softmax over the queries in attend, M6."""
    change(notebook, "attend", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)")


def dropout_always(notebook: NotebookNode) -> None:
    """Drop weights in evaluation too, M29."""
    change(notebook, "MultiHeadAttention", "self.dropout(weights)", "F.dropout(weights, self.dropout.p)")


def bias_not_copied(notebook: NotebookNode) -> None:
    """Copy the matrices and not the biases, M83."""
    change(notebook, "to_torch", "        layer.in_proj_bias.copy_(mha.qkv.bias)  # (3 D,)\n", "")
    change(notebook, "to_torch", "        layer.out_proj.bias.copy_(mha.out.bias)  # (D,)\n", "")


def crash_in_attend(notebook: NotebookNode) -> None:
    """End the kernel's process in attend: it costs that exercise alone."""
    rewrite(notebook, "attend", "import os\nos._exit(1)")


def in_libraries(notebook: NotebookNode) -> None:
    """Let PyTorch's fused function mix the values: right, and unlike the answer."""
    change(
        notebook,
        "MultiHeadAttention",
        "        mixed = torch.einsum(",
        """        if not (self.training and self.dropout.p):
            seen = None
            if mask is not None:
                seen = mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
            output = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, seen)))
            return (output, weights) if return_weights else output
        mixed = torch.einsum(""",
    )


def norm_over_tokens(notebook: NotebookNode) -> None:
    """Normalise over the tokens, M34."""
    change(notebook, "LayerNorm", "x.mean(dim=-1, keepdim=True)", "x.mean(dim=-2, keepdim=True)")
    change(notebook, "LayerNorm", "square().mean(dim=-1, keepdim=True)", "square().mean(dim=-2, keepdim=True)")


def post_norm(notebook: NotebookNode) -> None:
    """Normalise behind the sum, M33; the encoder that stacks such blocks does not pay for it again."""
    change(
        notebook,
        "EncoderBlock",
        "x + self.dropout(self.attention(self.norm_attention(x), mask))",
        "self.norm_attention(x + self.dropout(self.attention(x, mask)))",
    )
    change(
        notebook,
        "EncoderBlock",
        "x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))",
        "self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))",
    )


def one_block_repeated(notebook: NotebookNode) -> None:
    """Stack one block again and again, M38."""
    change(
        notebook,
        "Encoder",
        "nn.ModuleList(EncoderBlock(width, num_heads, hidden_width, dropout) for _ in range(depth))",
        "nn.ModuleList([EncoderBlock(width, num_heads, hidden_width, dropout)] * depth)",
    )


def relu(notebook: NotebookNode) -> None:
    """Take a ReLU, M41."""
    change(notebook, "FeedForward", "F.gelu(", "F.relu(")


def another_model(notebook: NotebookNode) -> None:
    """Return a healthy block of one's own in place of the repaired one."""
    body = "return EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 64)"
    rewrite(notebook, "repair", body)


def batch_axis_left(notebook: NotebookNode) -> None:
    """Repair all but the axis along which attention runs, M28."""
    cell = next(cell for cell in notebook.cells if "batch_first = True" in cell.source)
    cell.source = "\n".join(line for line in cell.source.split("\n") if "batch_first = True" not in line)


def reshape_alone(notebook: NotebookNode) -> None:
    """Cut patches by a reshape alone, M44."""
    change(
        notebook,
        "patchify",
        "rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)",
        "images.reshape(len(images), -1, images.shape[1] * patch_size**2)",
    )


def class_token_last(notebook: NotebookNode) -> None:
    """Put the class token behind the patches, and read the first token, M49."""
    change(notebook, "ViT", "torch.cat([class_token, patches], dim=1)", "torch.cat([patches, class_token], dim=1)")


def never_zeroed(notebook: NotebookNode) -> None:
    """Let gradients grow from batch to batch, M53, and report the loss of the last, M55."""
    change(notebook, "train_epoch", "        optimizer.zero_grad()\n", "")
    change(notebook, "train_epoch", "float(loss_sum) / count,", "float(loss.detach()),")


def without_eval(notebook: NotebookNode) -> None:
    """Evaluate in training mode, M52."""
    change(notebook, "evaluate", "    model.eval()\n", "")


def blocks_reversed(notebook: NotebookNode) -> None:
    """Multiply the blocks from the wrong side, M150."""
    change(notebook, "attention_rollout", "block @ rollout", "rollout @ block")


def columns_first(notebook: NotebookNode) -> None:
    """Let patches run down the columns, M124; the ViT that uses them does not pay for it again."""
    change(notebook, "PatchEmbedding", ".flatten(2).transpose(1, 2)", ".transpose(2, 3).flatten(2).transpose(1, 2)")


def by_unfold(notebook: NotebookNode) -> None:
    """Cut by F.unfold, embed by patchify and a product, evaluate in inference mode: right, and unlike the answer."""
    change(
        notebook,
        "patchify",
        "rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)",
        "F.unfold(images, patch_size, stride=patch_size).transpose(1, 2)",
    )
    change(
        notebook,
        "PatchEmbedding",
        "self.projection(images).flatten(2).transpose(1, 2)",
        "patchify(images, self.projection.stride[0]) @ self.projection.weight.flatten(1).T + self.projection.bias",
    )
    change(notebook, "evaluate", "torch.no_grad()", "torch.inference_mode()")


# Assignment, student: what is done to the answers, the state, the points that are lost, the mistakes that are named.
Sample = tuple[Callable[[NotebookNode], None], str, float, set[str]]
SAMPLES: dict[str, dict[str, Sample]] = {
    "2_multihead": {
        "ada": (perfect, "graded", 0, set()),
        "goran": (heads_by_view, "graded", 1.5, {"M21"}),
        "hana": (not_scaled, "graded", 4, {"M8"}),
        "ivan": (softmax_over_queries, "graded", 4, {"M6"}),
        "jana": (dropout_always, "graded", 1, {"M29"}),
        "kofi": (bias_not_copied, "graded", 3, {"M83"}),
        "emil": (crash_in_attend, "crashed", 4, set()),
        "noor": (in_libraries, "graded", 0, set()),
    },
    "3_encoder": {
        "ada": (perfect, "graded", 0, set()),
        "goran": (post_norm, "graded", 3, {"M33"}),
        "hana": (norm_over_tokens, "graded", 3, {"M34"}),
        "ivan": (one_block_repeated, "graded", 3, {"M38"}),
        "jana": (relu, "graded", 1, {"M41"}),
        "kofi": (another_model, "graded", 5, set()),
        "lena": (batch_axis_left, "graded", 1, {"M28"}),
    },
    "4_vit": {
        "ada": (perfect, "graded", 0, set()),
        "goran": (class_token_last, "graded", 4, {"M49"}),
        "hana": (reshape_alone, "graded", 3, {"M44"}),
        "ivan": (never_zeroed, "graded", 2, {"M53", "M55"}),
        "jana": (without_eval, "graded", 2, {"M52"}),
        "kofi": (blocks_reversed, "graded", 2, {"M150"}),
        "lena": (columns_first, "graded", 2, {"M124"}),
        "noor": (by_unfold, "graded", 0, set()),
    },
}
EVERYBODY = [(assignment, student) for assignment, students in SAMPLES.items() for student in [*students, "ben"]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Result]:
    """The samples, graded; ben hands in the notebook as it was released."""
    found = {}
    for name, students in SAMPLES.items():
        course, assignment = Course(tmp_path_factory.mktemp(name)), load_assignment(name)
        for student in [*students, "ben"]:
            notebook = nbformat.from_dict(assignment.release)
            if student != "ben":
                notebook = fill_in(assignment.release, assignment.instructor)
                students[student][0](notebook)
            path = hand_in(course.root, student, notebook, name)
            if name == "4_vit" and student != "ben":
                shutil.copy(RECORD, path.with_name("vit.pt"))
        graded = grade(course, assignment, seed=SEED, workers=2)
        pages = write_feedback(course, assignment, graded)
        assert len(pages) == len(graded)
        found |= {(name, result.student): result for result in graded}
    return found


@pytest.mark.parametrize(("assignment", "student"), EVERYBODY)
def test_sample_gets_its_marks(results: dict[tuple[str, str], Result], assignment: str, student: str) -> None:
    """Does a mistake cost its own points and no others, and is it named?"""
    result = results[assignment, student]
    points = sum(check["points"] for check in result.checks)
    _, state, lost, named = SAMPLES[assignment].get(student, (None, "graded", points, set()))
    failed = [check for check in result.checks if not check["passed"]]
    assert (result.state, sum(check["points"] for check in failed)) == (state, lost), failed
    assert {name for check in failed for name in (check["mistake"] or "").split("+") if name} == named
    assert result.receipt == []

"""Does each submission of exercises 2 to 4 get the points of its honest part, whatever its other cells do?

Each submission has the answers and one trick, and runs in the sandbox. The tricks on exercise 1 are in attacks.py.
"""

from collections.abc import Callable

import pytest
from conftest import assignment_of, repaired
from nbformat import NotebookNode
from sample_class import answer, change, fill_in, rewrite

from autograder.grade.execute import execute
from autograder.sandbox.host.limits import Limits


def redefine_the_broken_block(notebook: NotebookNode) -> None:
    """Replace the broken block by a sound one, and return it unchanged."""
    rewrite(notebook, "repair", "return block")
    answer(notebook, "repair").source += """


class BrokenBlock(nn.TransformerEncoderLayer):
    def __init__(self, width, num_heads, hidden_width):
        super().__init__(width, num_heads, hidden_width, 0.0, "gelu", norm_first=True, batch_first=True)
        self.norm_attention, self.norm_feed_forward = self.norm1, self.norm2
        self.attention = self.self_attn
        self.feed_forward = nn.Sequential(self.linear1, nn.GELU(), self.linear2)
"""


def redefine_the_measures(notebook: NotebookNode) -> None:
    """Leave the model in evaluation mode, and replace the function that measures this."""
    change(notebook, "evaluate", "    model.eval()\n", "    model.eval(); model.train = lambda *_: model\n")
    answer(notebook, "evaluate").source += """


torch.equal = lambda *_: True


class ByMode(nn.Module):
    graph, rows, training = False, 10, property(lambda self: False, lambda self, value: None)

    def forward(self, x):
        return x


def ask_evaluation(*_):
    return {"loss": np.float64(0), "accuracy": np.float64(1)}
"""


def evaluate_nothing(notebook: NotebookNode) -> None:
    """Leave the model unchanged, because the function does nothing."""
    rewrite(notebook, "evaluate", "return None")


def refuse_all(notebook: NotebookNode) -> None:
    """Always raise the error that the checks of edge cases expect."""
    cell = answer(notebook, "PatchEmbedding")
    cell.source = "class PatchEmbedding(nn.Module):\n    def __init__(self, **sizes):\n        raise ValueError('no')"


def name_the_results(notebook: NotebookNode) -> None:
    """Return a new dict instead of an array."""
    rewrite(
        notebook, "softmax" if any(c.id == "softmax" for c in notebook.cells) else "matmul", "return {'product': 1.0}"
    )


# Assignment, the trick, and the checks that fail; a name with * means all names with this beginning.
TRIED: list[tuple[str, Callable[[NotebookNode], None], set[str]]] = [
    ("1_attention", name_the_results, {"softmax*"}),
    ("2_multihead", name_the_results, {"matmul_values"}),
    ("3_encoder", redefine_the_broken_block, {"repair*"}),
    ("4_vit", redefine_the_measures, {"evaluate_unchanged"}),
    ("4_vit", evaluate_nothing, {"evaluate*"}),
    ("4_vit", refuse_all, {"PatchEmbedding*"}),
]


SOON = ("1_attention", "2_multihead")  # assignments with the fastest submissions


@pytest.mark.parametrize(
    ("name", "tried", "fails"),
    [
        pytest.param(*row, id=f"{row[0]}-{row[1].__name__}", marks=() if row[0] in SOON else pytest.mark.deep)
        for row in TRIED
    ],
)
def test_what_is_tried_gets_its_fair_points(name: str, tried: Callable[[NotebookNode], None], fails: set[str]) -> None:
    """Do exactly the checks fail that the submission's honest part does not pass?"""
    assignment = assignment_of(name)
    work = fill_in(assignment.release, assignment.instructor, bonus=True)
    tried(work)
    done = execute(repaired(work, assignment).notebook, 7, Limits(call_seconds=3.0))
    failed = {check.name for check in done.checks if not check.passed and not check.name.startswith("checkpoint_")}
    all_of = {check.name for check in done.checks for each in fails if check.name.startswith(each.rstrip("*"))}
    assert failed == {name for name in all_of if name in fails or any(each.endswith("*") for each in fails)}
    assert done.state == "graded"

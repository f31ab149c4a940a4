"""Do careless habits of students cost nothing but their own mistakes?"""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from conftest import ALL, EXERCISES, SEED, repaired
from nbformat import NotebookNode
from sample_class import answer, change, fill_in, rewrite

from autograder.course.course import Assignment, Course
from autograder.files import write_atomically
from autograder.grade.execute import execute
from autograder.grade.grade import load_assignment

OWN_NAMES = """def softmax(x, dim=-1, mask=None):
    if mask is not None:
        x = np.where(mask, x, -np.inf)
    e = np.exp(x - x.max())
    return e / e.sum(dim, keepdims=True)"""


def add_cell(notebook: NotebookNode, source: str, below: str) -> None:
    """Add a cell of the student's own below a cell."""
    notebook.cells.insert(notebook.cells.index(answer(notebook, below)) + 1, nbformat.v4.new_code_cell(source))


def import_in_the_set_up(notebook: NotebookNode) -> None:
    """Add an import to the locked set-up cell, and use it in an answer."""
    cell = answer(notebook, "setup")
    cell.source = cell.source.replace("import numpy as np\n", "import numpy as np\nimport math\n", 1)
    change(notebook, "attention", "np.sqrt(", "math.sqrt(")


def breakpoints(notebook: NotebookNode) -> None:
    """Leave breakpoints in an answer and in a cell, as after a search for a mistake."""
    change(notebook, "softmax", "    shifted = ", "    breakpoint()\n    import pdb; pdb.set_trace()\n    shifted = ")
    add_cell(notebook, "import pdb\npdb.set_trace()\nbreakpoint()\n%pdb on\nsoftmax(np.ones(3))", "softmax")


def other_arguments(notebook: NotebookNode) -> None:
    """Call the arguments of softmax differently, with one mistake: one maximum for all rows."""
    answer(notebook, "softmax").source = OWN_NAMES
    change(notebook, "attention", "softmax(scores)", "softmax(x=scores, dim=scores.ndim - 1)")
    change(notebook, "self_attention", "mask)", "mask=mask)")


def one_more_result(notebook: NotebookNode) -> None:
    """Give attention an argument for one more result, which attention_backward uses, and forget the scale."""
    change(notebook, "attention", " / np.sqrt(queries.shape[-1])", "")
    change(notebook, "attention", "| None = None)", "| None = None, more: bool = False)")
    change(
        notebook, "attention", "return weights @ values, weights", "return (weights @ values, weights, 1)[: 2 + more]"
    )
    rewrite(
        notebook,
        "attention_backward",
        """
_, weights, _ = attention(queries, keys, values, more=True)
grad_weights = grad_output @ np.swapaxes(values, -1, -2)
grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdims=True)) / np.sqrt(queries.shape[-1])
return grad_scores @ keys, np.swapaxes(grad_scores, -1, -2) @ queries, np.swapaxes(weights, -1, -2) @ grad_output
""",
    )


def experiment_below_the_test(notebook: NotebookNode) -> None:
    """Define attention again below its test, to see what happens without the scale."""
    cell = answer(notebook, "attention")
    source = "# without the scale?\n" + cell.source.replace(" / np.sqrt(queries.shape[-1])", "")
    add_cell(notebook, source, "test_attention")


def own_name_in_the_test(notebook: NotebookNode) -> None:
    """Write softmax under another name in a new cell, and let the test call this name."""
    cell = answer(notebook, "softmax")
    add_cell(notebook, cell.source.replace("def softmax(", "def my_softmax("), "softmax")
    cell.source = "def softmax(scores, axis=-1):\n    raise NotImplementedError()"
    test = answer(notebook, "test_softmax")
    test.source = test.source.replace('"softmax", softmax', '"softmax", my_softmax')


HABITS: dict[Callable[[NotebookNode], None], tuple[set[str], str]] = {  # the exercises that lose points, the question
    import_in_the_set_up: (set(), ""),
    breakpoints: (set(), ""),
    other_arguments: ({"softmax"}, ""),
    experiment_below_the_test: (
        {"attention"},
        "attention is defined in its answer cell, and again in the cell that begins",
    ),
    own_name_in_the_test: (set(), ""),
    one_more_result: (
        {"attention", "attention_backward"},
        "attention_backward calls attention with more, an argument of its own",
    ),
}


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.__name__)
def test_habit_costs_only_its_own_mistake(
    habit: Callable[[NotebookNode], None], assignment: Assignment, perfect: NotebookNode
) -> None:
    """Do only the exercises with a mistake lose points, and is a person asked where the grader cannot decide?"""
    habit(perfect)
    done = execute(repaired(perfect, assignment).notebook, SEED)
    lost, question = HABITS[habit]
    failed = {check.name.rpartition("_")[0] for check in done.checks if not check.passed}
    assert failed & set(EXERCISES) == lost
    assert [each.startswith(question) for each in done.questions] == [True] * bool(question)


def test_all_answers_in_one_cell_are_asked_about(assignment: Assignment, perfect: NotebookNode) -> None:
    """Is a person asked about questions without an answer if another cell has an answer with their number?"""
    answer(perfect, "why_scale").source = "**5.1** The variance is d.\n\n**5.2** Rows sum to one.\n\n5.3: a cycle."
    for name in ("row_of_the_map", "graph_network"):
        answer(perfect, name).source = answer(assignment.release, name).source
    done = repaired(perfect, assignment)
    assert len(done.questions) == 2 and all("in the cell why_scale" in question for question in done.questions)
    for name in ("row_of_the_map", "graph_network"):
        assert answer(done.notebook, name).source.count("Rows sum to one") == 1
    assert "Rows sum to one" in answer(done.notebook, "why_scale").source


MESSAGES = [  # an answer, a piece of it, what a student left there, the message, the question
    ("1_attention", "softmax", "    shifted = ", "    raise NotImplementedError()\n    shifted = ",
     "NotImplementedError: the template's line is still there; delete it (in softmax, line", ""),
    ("2_multihead", "split_heads", '    """\n', '    """\n    x = x.cuda()\n',
     "the grader has no GPU; create tensors on the device of the arguments", "An answer needs a GPU"),
    ("3_encoder", "Encoder", "blocks", "layers", "there is no `blocks`; the module has layers", ""),
    ("3_encoder", "repair", "    return block", "    block.train()",
     "repair returned NoneType; expected the block. Does it end with return?", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "exercise", "old", "new", "message", "question"), MESSAGES, ids=lambda value: value[:12]
)
def test_message_says_what_to_do(name: str, exercise: str, old: str, new: str, message: str, question: str) -> None:
    """Does the message of a slip say what to do, without a line that raised nothing, and is a person asked if needed?"""
    assignment = load_assignment(name)
    work = fill_in(assignment.release, assignment.instructor)
    cell = answer(work, exercise)
    assert old in cell.source
    cell.source = cell.source.replace(old, new) if exercise == "Encoder" else new.join(cell.source.rsplit(old, 1))
    done = execute(repaired(work, assignment).notebook, SEED)
    said = [check.message for check in done.checks if check.name.startswith(f"{exercise}_") and not check.passed]
    assert said and all(message in each for each in said), said
    assert ("raised the error" in "".join(said)) == (exercise in ("softmax", "split_heads"))
    assert [each.startswith(question) for each in done.questions] == [True] * bool(question)


@pytest.mark.parametrize("name", ALL)
def test_code_in_the_set_up_cell_runs(name: str) -> None:
    """Does an import that a student added to the set-up cell run after it, however long that cell has become?"""
    assignment = load_assignment(name)
    work = fill_in(assignment.release, assignment.instructor)
    answer(work, "setup").source += "\nimport fractions"
    after = repaired(work, assignment).notebook
    added = after.cells[after.cells.index(answer(after, "setup")) + 1]
    assert (added.cell_type, added.source) == ("code", "import fractions")


def test_module_next_to_the_notebook_is_asked_about(
    assignment: Assignment, perfect: NotebookNode, tmp_path: Path
) -> None:
    """Is a person asked about a file of Python that a notebook imports, and not about one that it does not?"""
    add_cell(perfect, "from my_utils import widths", "softmax")
    folder = tmp_path / "submitted" / "ada" / assignment.name
    folder.mkdir(parents=True)
    write_atomically(folder / "attention.ipynb", json.dumps(perfect))
    for name in ("my_utils.py", "widths.py"):
        write_atomically(folder / name, "widths = 3\n")
    (question,) = Course(tmp_path).read_submission("ada", assignment).questions
    assert question.startswith("The notebook imports my_utils.py")

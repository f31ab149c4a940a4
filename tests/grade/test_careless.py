"""Do careless habits of students cost nothing but their own mistakes, and do tricks earn nothing? More tricks: attacks.py."""

from collections.abc import Callable

import nbformat
import pytest
from conftest import EXERCISES, SEED, assignment_of, repaired
from nbformat import NotebookNode
from sample_class import answer, change, fill_in, rewrite, strip_cells

from autograder.course.course import Assignment
from autograder.grade.execute import execute
from autograder.sandbox.host.limits import Limits

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
    cell.source = cell.source.replace("import sys, numpy as np\n", "import sys, numpy as np\nimport math\n", 1)
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
    """Define attention again below its test, to see what happens without the scale. The answer's own cell counts."""
    cell = answer(notebook, "attention")
    source = "# without the scale?\n" + cell.source.replace(" / np.sqrt(queries.shape[-1])", "")
    add_cell(notebook, source, "test_attention")


def experiment_without_ids(notebook: NotebookNode) -> None:
    """Define attention again below its test, and lose the ids of all cells. Then the last definition counts."""
    experiment_below_the_test(notebook)
    strip_cells(notebook)


def own_name_in_the_test(notebook: NotebookNode) -> None:
    """Write softmax under another name in a new cell, and let the test call this name."""
    cell = answer(notebook, "softmax")
    add_cell(notebook, cell.source.replace("def softmax(", "def my_softmax("), "softmax")
    cell.source = "def softmax(scores, axis=-1):\n    raise NotImplementedError()"
    test = answer(notebook, "test_softmax")
    test.source = test.source.replace('"softmax", softmax', '"softmax", my_softmax')


def misspelt(notebook: NotebookNode) -> None:
    """Misspell the name of an answer, as a class of a library is spelt."""
    change(notebook, "self_attention", "def self_attention(", "def selfattention(")


def name_of_another_answer(notebook: NotebookNode) -> None:
    """Copy the first line of an answer from another answer."""
    change(notebook, "self_attention", "def self_attention(", "def softmax(")


HABITS: dict[Callable[[NotebookNode], None], tuple[set[str], str]] = {  # the exercises that lose points, the question
    import_in_the_set_up: (set(), ""),
    breakpoints: (set(), ""),
    other_arguments: ({"softmax"}, ""),
    experiment_below_the_test: (set(), ""),
    experiment_without_ids: ({"attention"}, "attention is defined twice. The definition that counts fails"),
    own_name_in_the_test: ({"softmax"}, "softmax is not written, and test_softmax was changed"),
    misspelt: ({"self_attention"}, "The cell of self_attention defines selfattention, but not self_attention."),
    name_of_another_answer: ({"self_attention"}, "The cell of self_attention defines softmax, but not self_attention."),
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
    work = repaired(perfect, assignment)
    done = execute(work.notebook, SEED)
    lost, question = HABITS[habit]
    failed = {check.name.rpartition("_")[0] for check in done.checks if not check.passed}
    assert failed & set(EXERCISES) == lost
    assert not any("was missing" in line for line in work.receipt)
    assert [each.startswith(question) for each in work.questions + done.questions] == [True] * bool(question)


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
    ("1_attention", "softmax", "    shifted = ", "    float(input('axis?'))\n    shifted = ", "input requests", ""),
    ("2_multihead", "split_heads", '    """\n', '    """\n    x = x.cuda()\n',
     "the grader has no GPU; create tensors on the device of the arguments", "An answer needs a GPU"),
    ("2_multihead", "merge_heads", '    """\n', '    """\n    x = x.to("mps")\n',
     "the grader has no GPU", "An answer needs a GPU"),
    ("3_encoder", "FeedForward", "def forward(", "def foward(", 'is missing the required "forward" function', ""),
    ("3_encoder", "FeedForward", "        return ", "        nn.ModuleList([nn.GELU()])(x)\n        return ",
     'Module [ModuleList] is missing the required "forward" function', ""),
    ("3_encoder", "Encoder", "blocks", "layers", "there is no `blocks`; the module has layers", ""),
    ("3_encoder", "repair", "    return block", "    block.train()",
     "repair returned NoneType; expected the block. Does it end with return?", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "exercise", "old", "new", "message", "question"), MESSAGES, ids=lambda value: value[:12]
)
def test_message_says_what_to_do(name: str, exercise: str, old: str, new: str, message: str, question: str) -> None:
    """Does a message say what to do, in Python's words if Python raised it, and is a person asked if needed?"""
    assignment = assignment_of(name)
    work = fill_in(assignment.release, assignment.instructor)
    cell = answer(work, exercise)
    assert old in cell.source
    cell.source = cell.source.replace(old, new) if exercise == "Encoder" else new.join(cell.source.rsplit(old, 1))
    done = execute(repaired(work, assignment).notebook, SEED)
    said = [check.message for check in done.checks if check.name.startswith(f"{exercise}_") and not check.passed]
    assert said and all(message in each for each in said), said
    if exercise in ("Encoder", "repair"):
        assert "raised the error" not in "".join(said)
    assert [each.startswith(question) for each in done.questions] == [True] * bool(question)


def bring(notebook: NotebookNode, name: str, form: str) -> None:
    """Let an answer need something that the grader does not have."""
    cell = answer(notebook, name)
    cell.source = form.replace("ANSWER", cell.source)


# What is missing, and forms of an answer that need it
MISSING = {
    "a_package": [
        "from a_package import faster\n\n\n@faster\nANSWER",
        "!pip install a_package\nimport a_package as p\nfast = p.jit(parallel=True)\n\n\n@fast\nANSWER",
        "def later():\n    return 1\n\n\nfrom a_package import *\n\n\n@faster\nANSWER",
        "ANSWER\n\n\nexact = {name}\n\n\ndef {name}(*args, **keywords):\n    import a_package\n"
        "    return a_package.check(exact)(*args, **keywords)",
    ],
    "my_answers.py": [
        "%run my_answers.py",
        "%load my_answers.py",
        'exec(open("my_answers.py").read())',
        "from pathlib import Path\nif True:\n    exec(Path('my_answers.py').read_text())",
    ],
    "my_answers": [
        "import sys\nsys.path.append('/content/drive')\nfrom my_answers import {name}",
        "%run -m my_answers",
        "import importlib\n{name} = importlib.import_module('my_answers').{name}",
        "from my_answers import *",
    ],
    "/content/drive/table.npy": [
        "table = np.load('/content/drive/table.npy')\nANSWER\n\n\nexact = {name}\n\n\ndef {name}(*args, **keywords):\n"
        "    return table[0] and exact(*args, **keywords)",
        "ANSWER\n\n\nexact = {name}\n\n\ndef {name}(*args, **keywords):\n    open('/content/drive/table.npy')",
        "with open('/content/drive/table.npy') as file:\n    {name} = file.read()",
        "%run /content/drive/table.npy",
    ],
}


@pytest.mark.parametrize("missing", MISSING)
def test_what_is_missing_here_is_asked_about(missing: str, assignment: Assignment, perfect: NotebookNode) -> None:
    """Is a person asked about each answer that needs a package or a file of the student, with its name?"""
    for name, form in zip(EXERCISES, MISSING[missing], strict=True):
        bring(perfect, name, form.replace("{name}", name))
    done = execute(repaired(perfect, assignment).notebook, SEED)
    failed = {check.name.rpartition("_")[0] for check in done.checks if not check.passed}
    assert failed >= set(EXERCISES)
    assert sorted(each.partition(" here,")[0] for each in done.questions) == sorted(
        f"{name} needs {missing}, which is not installed" for name in EXERCISES
    )


def test_missing_package_of_a_helper_is_named(assignment: Assignment, perfect: NotebookNode) -> None:
    """Is the package named that a helper of an answer needs, and not those that no failing answer needs?"""
    add_cell(perfect, "@a_package.jit\ndef largest(x):\n    return x.max()", "setup")
    add_cell(perfect, "from unused import anything\n%load_ext unused_magic\nimport a_package", "setup")
    change(perfect, "softmax", "    shifted = ", "    largest(scores)\n    shifted = ")
    done = execute(repaired(perfect, assignment).notebook, SEED)
    (question,) = done.questions
    assert question.startswith("softmax needs a_package, which is not installed here")
    said = [check.message for check in done.checks if check.name.startswith("softmax_")]
    assert said and all("ended with ModuleNotFoundError: No module named 'a_package'" in each for each in said)


def test_missing_package_that_no_failing_answer_needs(assignment: Assignment, perfect: NotebookNode) -> None:
    """Is nobody asked about a missing package, file or magic if the answers work without it, or fail for another reason?"""
    bring(perfect, "softmax", "from a_package import faster\n%a_magic on\nANSWER")
    bring(perfect, "attention", "%%a_magic\nANSWER")
    add_cell(perfect, "%run my_answers.py\nimport my_answers\nmy_answers.plot(softmax)", "softmax")
    change(perfect, "self_attention", "return ", "return 2 * ")
    done = execute(repaired(perfect, assignment).notebook, SEED)
    failed = {check.name.rpartition("_")[0] for check in done.checks if not check.passed}
    assert failed & set(EXERCISES) == {"self_attention"}
    assert done.questions == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [("%run my_answers.py", "my_answers.py"), ("from my_answers import *", "my_answers"),
     ("from my_answers import attention", "my_answers")],
)  # fmt: skip
def test_missing_file_that_may_replace_an_answer(
    source: str, missing: str, assignment: Assignment, perfect: NotebookNode
) -> None:
    """Is a person asked if an answer is still the template, or fails, and a later cell takes it from a missing file?"""
    answer(perfect, "attention").source = answer(assignment.release, "attention").source
    add_cell(perfect, source, "attention")
    done = execute(repaired(perfect, assignment).notebook, SEED)
    (question,) = done.questions
    assert question.startswith(f"attention needs {missing}, which is not installed here")


# ----------------------------------------------------------------------------------------------------- tricks


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


def lie_about_the_mode(notebook: NotebookNode) -> None:
    """Leave the model in evaluation mode, and let the model ignore it when somebody changes the mode."""
    change(notebook, "evaluate", "    model.eval()\n", "    model.eval(); model.train = lambda *_: model\n")


BLOCK = ("activations", "block", "gradients", "loss", "tokens")  # what is asked of a repaired block


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "tried", "fails"),
    [
        ("3_encoder", redefine_the_broken_block, {f"repair_{what}" for what in BLOCK}),
        ("4_vit", lie_about_the_mode, {"evaluate_unchanged"}),
    ],
)
def test_what_is_tried_gets_its_fair_points(name: str, tried: Callable[[NotebookNode], None], fails: set[str]) -> None:
    """Do exactly the checks fail that the submission's honest part does not pass?"""
    assignment = assignment_of(name)
    work = fill_in(assignment.release, assignment.instructor, bonus=True)
    tried(work)
    done = execute(repaired(work, assignment).notebook, 7, Limits(call_seconds=3.0))
    assert {
        check.name for check in done.checks if not check.passed and not check.name.startswith("checkpoint_")
    } == fails
    assert done.state == "graded"

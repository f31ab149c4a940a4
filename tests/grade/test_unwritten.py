"""Is only the template's own body called unwritten, and does every other error hold Python's message?"""

from typing import Any

import nbformat
import pytest
from attention_tests.unwritten import unwritten
from conftest import ALL, SEED, assignment_of, repaired, setup_of
from nbformat import NotebookNode
from sample_class import answer, change, fill_in

from autograder.cells import is_solution
from autograder.grade.execute import execute

NOT = "raise NotImplementedError()"
SOURCES = {  # code: the function that was called, and the name of the unwritten function
    f'def f(x, *args, y=1, **more):\n    """Says."""\n    # YOUR CODE HERE\n    {NOT}': ["f", "f"],
    f"class F:\n    def __init__(self):\n        {NOT}\nf = lambda x: F()": ["<lambda>", "F"],
    f"def softmax(x):\n    {NOT}\ndef f(x):\n    return softmax(x)": ["f", "softmax"],
    "def f(x):\n    raise NotImplementedError('no bias yet')": [],
    f"def f(x):\n    if x:\n        {NOT}\n    return x": [],
    f"def f(x):\n    y = 2\n    {NOT}": [],
    f"def f(x):\n    print(x)\n    {NOT}": [],
    "class Mine(NotImplementedError): pass\ndef f(x):\n    raise Mine()": [],
    "from torch import nn\nf = nn.ModuleList()": [],
    "def f(x):\n    return 1 / 0": [],
}


@pytest.mark.parametrize("source", SOURCES)
def test_template_is_told_from_all_else(source: str) -> None:
    """Is an untouched body recognised, also in a calling function, and no other error mistaken for it?"""
    exec(source, namespace := {"__name__": "__main__"})
    with pytest.raises(Exception) as caught:
        namespace["f"](1)
    assert unwritten(caught.value) == SOURCES[source]
    if SOURCES[source]:  # the same code in a library's file does not count as unwritten
        exec(compile(source, nbformat.__file__, "exec"), library := {})
        with pytest.raises(NotImplementedError) as caught:
            library["f"](1)
        assert unwritten(caught.value) == []


def calls_unwritten(notebook: NotebookNode) -> None:
    """Leave softmax unwritten, and call it in attention."""
    answer(notebook, "softmax").source = answer(assignment_of("1_attention").release, "softmax").source


def half_written(notebook: NotebookNode) -> None:
    """Leave one case of a function unwritten."""
    cell = answer(notebook, "softmax")
    cell.source = (
        f"def softmax(scores, axis=-1):\n    if axis != -1:\n        {NOT}\n    "
        + cell.source.rpartition('"""')[2].strip()
    )


def of(name: str, changed: Any) -> tuple[NotebookNode, NotebookNode]:
    """Return a changed solved notebook, as submitted and as graded."""
    assignment = assignment_of(name)
    notebook = fill_in(assignment.release, assignment.instructor)
    changed(notebook)
    return notebook, repaired(notebook, assignment).notebook


def messages_of(name: str, exercise: str, changed: Any) -> list[str]:
    """Grade an exercise, and return the messages of its failed tests, the visible one included."""
    notebook = of(name, changed)[1]
    kept = ("setup", "softmax", exercise, f"test_{exercise}")
    notebook.cells = [cell for cell in notebook.cells if cell.id.startswith(kept)]
    done = execute(notebook, SEED)
    visible = next(cell for cell in done.notebook.cells if cell.id == f"test_{exercise}")
    errors = [output.evalue for output in visible.outputs if output.output_type == "error"]
    return errors + [check.message for check in done.checks if not check.passed and check.name.startswith(exercise)]


def misspelt(notebook: NotebookNode) -> None:
    """Call a method `foward`."""
    change(notebook, "FeedForward", "def forward(", "def foward(")


def test_visible_test_says_what_python_says() -> None:
    """Do the visible test and the hidden ones show Python's message about a misspelt method?"""
    said = messages_of("3_encoder", "FeedForward", misspelt)
    assert len(said) > 1 and all('is missing the required "forward" function' in text for text in said), said


def test_answer_that_calls_an_unwritten_one_is_told_so() -> None:
    """If attention calls an unwritten softmax, does the message say that softmax is missing, instead of attention?"""
    namespace, cells = setup_of("1_attention")
    notebook, mine = of("1_attention", calls_unwritten)[0], dict(namespace)
    for name in ("softmax", "attention"):
        exec(answer(notebook, name).source, mine)
    with pytest.raises(AssertionError) as caught:
        exec(cells["test_attention"], mine)
    assert str(caught.value).endswith("attention calls softmax, which is not written yet. Write it first.")
    hidden = messages_of("1_attention", "attention", calls_unwritten)[1:]
    assert hidden == []  # attention is judged with a reference implementation of softmax


def test_half_of_an_answer_is_not_called_unwritten() -> None:
    """Does an answer with one missing case pass the other cases, and say where it raises?"""
    said = messages_of("1_attention", "softmax", half_written)
    assert said and all("NotImplementedError: " in text and "in softmax, line 3" in text for text in said), said


@pytest.mark.parametrize("name", ALL)
@pytest.mark.few(1)
def test_released_answers_are_not_written(name: str) -> None:
    """Is every answer that students write from scratch recognised as unwritten, also in the grader?"""
    assignment = assignment_of(name)
    notebook = repaired(assignment.release, assignment).notebook
    notebook.cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata and "file" not in cell.metadata]
    stubs = [cell.id for cell in assignment.release.cells if NOT in cell.source and is_solution(cell)]
    assert stubs
    done = execute(notebook, SEED)
    for stub in stubs:
        checks = [check for check in done.checks if check.name.startswith(f"{stub}_")]
        assert all(check.message.endswith("not written yet.") for check in checks), checks

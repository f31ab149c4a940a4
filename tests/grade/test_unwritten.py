"""Is only the template's own body called unwritten, and does every other error hold Python's message?"""

import nbformat
import pytest
from attention_tests.unwritten import unwritten
from conftest import SEED, assignment_of, repaired, setup_of
from sample_class import answer, fill_in

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


def test_answer_that_calls_an_unwritten_one_is_told_so() -> None:
    """If attention calls an unwritten softmax, does the message say that softmax is missing, instead of attention?"""
    namespace, cells = setup_of("1_attention")
    assignment, mine = assignment_of("1_attention"), dict(namespace)
    notebook = fill_in(assignment.release, assignment.instructor)
    answer(notebook, "softmax").source = answer(assignment.release, "softmax").source
    for name in ("softmax", "attention"):
        exec(answer(notebook, name).source, mine)
    with pytest.raises(AssertionError) as caught:
        exec(cells["test_attention"], mine)
    assert str(caught.value).endswith("attention calls softmax, which is not written yet. Write it first.")
    done = execute(repaired(notebook, assignment).notebook, SEED)
    # attention is judged with a reference implementation of softmax
    assert [check.passed for check in done.checks if check.name.startswith("attention_")] == [True] * 9

"""Are the halves of a split function joined, and is a person asked about a half without the other?"""

import nbformat
import pytest
from conftest import repaired
from fuzzing import steps
from nbformat import NotebookNode
from sample_class import answer

from autograder.course.course import Assignment
from autograder.grade.halves import Halves
from autograder.notebooks import Cell

HEAD, TAIL = 'def double(x):\n    """Double it.', '    Fast.\n    """\n    return 2 * x'
OPEN, REST = "def double(x):\n    y = 2 * x", "    return y"
CLASS, METHOD = "class Twice:\n    size = 2", "    def forward(self, x):\n        return 2 * x"
OTHER = "def other():\n    return 0"
JOINED = {
    "next to each other": ([HEAD, TAIL], [f"{HEAD}\n{TAIL}"]),
    "another cell between": ([HEAD, OTHER, TAIL], [f"{HEAD}\n{TAIL}", OTHER]),
    "second half first": ([TAIL, OTHER, HEAD], [OTHER, f"{HEAD}\n{TAIL}"]),
    "a body that goes on, after another cell": ([OPEN, OTHER, REST], [f"{OPEN}\n{REST}", OTHER]),
    "a class": ([CLASS, METHOD], [f"{CLASS}\n{METHOD}"]),
    "the head of a method": (
        ["class Twice:\n    size = 2\n\n    def forward(self, x):", "        return 2 * x"],
        ["class Twice:\n    size = 2\n\n    def forward(self, x):\n        return 2 * x"],
    ),
    "another function above the second half": ([HEAD, f"{OTHER}\n\n{TAIL}"], [f"{HEAD}\n\n{TAIL}", OTHER]),
    "another function below the second half": ([HEAD, f"{TAIL}\n{OTHER}"], [f"{HEAD}\n{TAIL}\n", OTHER]),
    "three pieces": ([HEAD, "    Fast.", TAIL], [f"{HEAD}\n    Fast.\n{TAIL}"]),
    "a copy of a half": ([HEAD, TAIL, TAIL], [f"{HEAD}\n{TAIL}"]),
    "nothing was split": ([OTHER, "x = 3", "double(2"], [OTHER, "x = 3", "double(2"]),
}


def joined(sources: list[str]) -> tuple[list[str], Halves]:
    """Return the sources of the cells after joining, and the halves that were joined."""
    halves = Halves(set(), {"double", "other"})
    return [cell.source for cell in halves.join([Cell("code", source) for source in sources])], halves


@pytest.mark.parametrize("case", JOINED)
def test_halves_are_joined_wherever_they_are(case: str) -> None:
    """Is the function complete again in the cell where it begins, and is everything else unchanged?"""
    sources, wanted = JOINED[case]
    found, halves = joined(sources)
    assert found == wanted
    assert halves.questions == []


def test_halves_without_the_other_are_a_question() -> None:
    """Does the question about a single half show its first line and the nearby answers?

    A common error gives no question.
    """
    assert 'in the middle of a function ("return y")' in joined([OTHER, "    return y"])[1].questions[0]
    assert "other" in joined([OTHER, "    return y"])[1].questions[0]
    assert joined([OTHER, "    x = 3", "other(", "def double(x:\n    return x"])[1].questions == []


def test_halves_take_steps_in_proportion() -> None:
    """Do twice as many single halves take at most twice the steps?"""

    def work(count: int) -> int:
        cells = [
            source for number in range(count) for source in (f'def f{number}(x:\n    """', f"    return y{number} +")
        ]
        return steps(lambda: joined(cells))

    work(5)
    assert work(400) <= 2.2 * work(200) + 1000


@pytest.mark.parametrize("ids", [True, False])
def test_an_experiment_below_does_not_beat_the_answer(assignment: Assignment, perfect: NotebookNode, ids: bool) -> None:
    """Does the answer count although a scratch definition follows it, with and without the ids of cells?"""
    right = answer(perfect, "attention_backward")
    perfect.cells.insert(
        perfect.cells.index(right) + 1, nbformat.v4.new_code_cell("def attention_backward(*a):\n    return 0")
    )
    if not ids:
        for cell in perfect.cells:
            cell.pop("id", None)
            cell.metadata = {}
    assert answer(repaired(perfect, assignment).notebook, "attention_backward").source == right.source

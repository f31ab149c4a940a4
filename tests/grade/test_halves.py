"""Are the halves of a split function joined, and is a person asked about a half without its beginning?"""

import pytest
from fuzzing import steps

from autograder.grade.halves import join_halves
from autograder.notebooks import Cell

HEAD, TAIL = 'def double(x):\n    """Double it.', '    Fast.\n    """\n    return 2 * x'
OPEN, REST = "def double(x):\n    y = 2 * x", "    return y"
CLASS, METHOD = "class Twice:\n    size = 2", "    def forward(self, x):\n        return 2 * x"
OTHER = "def other():\n    return 0"
JOINED = {
    "next to each other": ([HEAD, TAIL], [f"{HEAD}\n{TAIL}"]),
    "another cell between": ([HEAD, OTHER, TAIL], [f"{HEAD}\n{TAIL}", OTHER]),
    "a body that goes on": ([OPEN, REST, OTHER], [f"{OPEN}\n{REST}", OTHER]),
    "a class": ([CLASS, METHOD], [f"{CLASS}\n{METHOD}"]),
    "the head of a method": (
        ["class Twice:\n    size = 2\n\n    def forward(self, x):", "        return 2 * x"],
        ["class Twice:\n    size = 2\n\n    def forward(self, x):\n        return 2 * x"],
    ),
    "another function below the second half": ([HEAD, f"{TAIL}\n{OTHER}"], [f"{HEAD}\n{TAIL}\n{OTHER}"]),
    "a class in three pieces": (
        [CLASS, "    name = 'twice'\n\n    def forward(self, x):", "        return 2 * x"],
        [f"{CLASS}\n    name = 'twice'\n\n    def forward(self, x):\n        return 2 * x"],
    ),
    "three pieces": ([HEAD, "    Fast.", TAIL], [f"{HEAD}\n    Fast.\n{TAIL}"]),
    "the end of a signature between": (
        ["def double(\n    x", "):", "    return 2 * x"],
        ["def double(\n    x\n):\n    return 2 * x"],
    ),
    "a comment between": ([OPEN, "    # and back", REST], [f"{OPEN}\n{REST}", "    # and back"]),
    "nothing was split": ([OTHER, "x = 3", "double(2"], [OTHER, "x = 3", "double(2"]),
    "a common error": (["    x = 3", "other(", "def double(x:\n    return x"],) * 2,
}
ALONE = {
    "no beginning": [OTHER, "    return y"],
    "second half first": [TAIL, OTHER, HEAD],
    "another function between": [OPEN, OTHER, REST],
    "a copy of a half": [HEAD, TAIL, TAIL],
}


def joined(sources: list[str]) -> tuple[list[str], list[str]]:
    """Return the sources of the cells after joining, and the questions."""
    questions: list[str] = []
    cells = join_halves([Cell("code", source) for source in sources], set(), [], questions)
    return [cell.source for cell in cells], questions


@pytest.mark.parametrize("case", JOINED)
def test_halves_are_joined(case: str) -> None:
    """Is the function complete again in the cell where it begins, and is everything else unchanged?"""
    sources, wanted = JOINED[case]
    assert joined(sources) == (wanted, [])


@pytest.mark.parametrize("case", ALONE)
def test_half_without_its_beginning_is_a_question(case: str) -> None:
    """Is a person asked about a half that continues no cell before it?"""
    assert len(joined(ALONE[case])[1]) == 1


def test_halves_take_steps_in_proportion() -> None:
    """Do twice as many single halves take at most twice the steps?"""

    def work(count: int) -> int:
        cells = [
            source for number in range(count) for source in (f'def f{number}(x:\n    """', f"    return y{number} +")
        ]
        return steps(lambda: joined(cells))

    work(5)
    assert work(400) <= 2.2 * work(200) + 1000

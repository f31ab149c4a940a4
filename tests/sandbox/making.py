"""The description of an attack, and functions that make submissions."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from conftest import ALL
from in_kernel import REACH
from nbformat import NotebookNode
from sample_class import answer, fill_in, own_weights, rewrite

from autograder.cells import is_solution
from autograder.course.course import Assignment
from autograder.imports import ROOT
from autograder.report.report import questions_of

HOSTILE = Path(__file__).parent / "hostile"
CANARY = "canary-"  # prefix of every planted secret; the attacks know it, and search for it
NOTHING, EVERYTHING, NO_SCORE = "", "*", None  # what an attack costs: no points, all, or there is no score at all
FIRST, SECOND, THIRD, FOURTH, FIFTH, *_ = ((name,) for name in ALL)  # the assignments
IN_TORCH = (*SECOND, *THIRD, *FOURTH)
TRIED = """
def tried(do):  # print what a function gives, or its error
    try:
        print(do())
    except Exception as error:
        print(error)
"""


@dataclass
class Place:
    """The place of one submission, and what its author may know: paths, a port, the prefix of secrets."""

    folder: Path  # submitted/STUDENT/ASSIGNMENT
    course: Path
    assignment: Assignment
    port: int = 9  # port of a service on this machine

    @property
    def name(self) -> str:
        """The name of the requested file."""
        return f"{self.assignment.notebook}.ipynb"

    def unsolved(self) -> NotebookNode:
        """Return the notebook as released."""
        return nbformat.from_dict(self.assignment.release)

    def solved(self) -> NotebookNode:
        """Return the notebook with all answers, and write the requested files next to it."""
        for name in self.assignment.files:
            (self.folder / name).write_bytes(own_weights())
        return fill_in(self.assignment.release, self.assignment.instructor)

    def known(self) -> NotebookNode:
        """Return the first cell of an attack: paths, a port, `tried`, and code that finds the agent's modules."""
        places = f"COURSE, REPOSITORY, PORT = {str(self.course)!r}, {str(ROOT)!r}, {self.port}\n"
        return nbformat.v4.new_code_cell(REACH + TRIED + places)

    def submit(self, notebook: NotebookNode | dict[str, Any] | bytes, name: str = "") -> None:
        """Write the file. nbformat.write is not used: it would repair a torn one."""
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        (self.folder / (name or self.name)).write_bytes(data)


@dataclass(frozen=True)
class Attack:
    """A kind of submission, and the points that it may earn."""

    name: str
    tries: str  # a sentence for the page
    make: Callable[[Place], None]
    costs: str | None = NOTHING  # exercises or tests, by name; EVERYTHING; or NO_SCORE
    states: str = "graded"  # one, or several with "or"; "needs a look" asks a person, and the points stay
    student: str = ""  # the name of the folder, if that is the attack
    on: tuple[str, ...] = (*FIRST, *IN_TORCH)  # the assignments that it fits; the fifth has its own attacks

    def fair_score(self, assignment: Assignment) -> float | None:
        """Return the automatic points of the honest part."""
        if self.costs is NO_SCORE:
            return None
        points, lost = automatic_points(assignment), self.costs.split()
        unknown = set(lost) - {EVERYTHING} - {name for names in points for name in names}
        if unknown:
            raise ValueError(f"{self.name} costs {unknown}, which {assignment.name} has not")
        return sum(of for names, of in points.items() if not {*names, EVERYTHING} & set(lost))

    @property
    def fair_states(self) -> tuple[str, ...]:
        """The allowed states. Code that runs may also time out on a busy machine."""
        return (*self.states.split(" or "), *["timed out"] * (self.costs is not NO_SCORE))

    @property
    def folder(self) -> str:
        """The student's name, which is the name of the folder."""
        return self.student or self.name


def automatic_points(assignment: Assignment) -> dict[tuple[str, str], float]:
    """Return the points of each test without manual grading, by its name and its exercise's name."""
    of = {cell: question.name for question in questions_of(assignment) for cell in question.cells}
    tests = [cell.metadata.nbgrader for cell in assignment.graded_cells() if not is_solution(cell)]
    return {(of[test.grade_id], test.grade_id): float(test.points) for test in tests}


@dataclass
class Group:
    """Attacks of one kind, in the order of the page."""

    title: str
    attacks: list[Attack] = field(default_factory=list)

    def made(self, costs: str | None = NOTHING, states: str = "graded", on: tuple[str, ...] = Attack.on) -> Callable:
        """Return a decorator that adds a function as an attack: it submits what its docstring says."""

        def add(make: Callable[[Place], None]) -> Callable[[Place], None]:
            self.attacks.append(Attack(make.__name__.replace("_", "-"), make.__doc__, make, costs, states, on=on))
            return make

        return add

    def coded(self, name: str, costs: str = NOTHING, states: str = "graded", on: tuple[str, ...] = Attack.on) -> None:
        """Add the attack of the file hostile/NAME.py: a sentence, and cells, whose titles say where they go.

        A cell without a title comes after the set-up. Code goes "in" some answers or in "every function" as their body,
        and "instead of" an answer, in which RIGHT is the right one. The other answers stay right; if the attack costs
        everything, there are none.
        """
        tries, _, cells = (HOSTILE / f"{name}.py").read_text(encoding="utf-8").partition("\n")

        def make(place: Place) -> None:
            made = place.unsolved() if costs == EVERYTHING else place.solved()
            own = [place.known()]
            for cell in jupytext.reads(cells, "py:percent").cells:
                match cell.metadata.get("title", "").split():
                    case []:
                        own.append(nbformat.v4.new_code_cell(cell.source))
                    case ["at", "the", "end"]:
                        made.cells.append(nbformat.v4.new_code_cell(cell.source))
                    case ["instead", "of", replaced]:
                        right = answer(made, replaced)
                        right.source = cell.source.replace("RIGHT", right.source)
                    case ["in", *changed]:
                        functions = [each.name for each in questions_of(place.assignment) if not each.written]
                        for each in functions if changed == ["every", "function"] else changed:
                            rewrite(made, each, cell.source)
            made.cells[2:2] = own
            place.submit(made)

        self.attacks.append(Attack(name, tries.strip('"'), make, costs, states, on=on))

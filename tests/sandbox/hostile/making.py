"""The description of an attack, and functions that make submissions."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from conftest import ALL
from in_kernel import REACH
from nbformat import NotebookNode
from sample_class import change, fill_in, own_weights, rewrite

from autograder.cells import is_grade, is_solution
from autograder.course.course import NEEDS_A_LOOK, Assignment
from autograder.imports import ROOT
from autograder.report.report import questions_of

CANARY = "canary-"  # prefix of every planted secret; the attacks know it, and search for it
NOTHING, EVERYTHING, NO_SCORE = "", "*", None  # what an attack costs: no points, all, or there is no score at all
GRADED, REPAIRED = ("graded",), ("graded after repair",)
CRASHED, TIMED_OUT = ("crashed",), ("timed out",)
UNREADABLE, MISSING = ("unreadable",), ("missing",)
LOOK = (NEEDS_A_LOOK,)  # a person is asked; the points stay
FIRST, SECOND, THIRD, FOURTH, FIFTH, *_ = ((name,) for name in ALL)  # the assignments
IN_TORCH = (*SECOND, *THIRD, *FOURTH)


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

    def knowing(self, code: str) -> str:
        """Prefix the code with what its author knows and, if it imports the agent, with code that finds it."""
        if re.search(r"^import\b.*\b(inside|wire)\b", code, re.M):  # the import alone finds no agent
            code = REACH + code.strip("\n")
        known = f"COURSE, REPOSITORY, PORT = {str(self.course)!r}, {str(ROOT)!r}, {self.port}\n"
        return known + code.strip("\n") if any(name in code for name in ("COURSE", "REPOSITORY", "PORT")) else code

    def submit(self, notebook: NotebookNode | dict[str, Any] | bytes, name: str = "") -> None:
        """Write the file. nbformat.write is not used: it would repair a torn one."""
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        (self.folder / (name or self.name)).write_bytes(data)


Maker = Callable[[Place], None]


@dataclass(frozen=True)
class Attack:
    """A kind of submission, and the points that it may earn."""

    name: str
    tries: str  # a sentence for the page
    make: Maker
    costs: str | None = NOTHING  # exercises or tests, by name; EVERYTHING; or NO_SCORE
    states: tuple[str, ...] = GRADED
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
        return (*self.states, *TIMED_OUT) if self.costs is not NO_SCORE else self.states

    @property
    def folder(self) -> str:
        """The student's name, which is the name of the folder."""
        return self.student or self.name


def automatic_points(assignment: Assignment) -> dict[tuple[str, str], float]:
    """Return the points of each test without manual grading, by its name and its exercise's name."""
    of = {cell: question.name for question in questions_of(assignment) for cell in question.cells}
    tests = [cell.metadata.nbgrader for cell in assignment.graded_cells() if not is_solution(cell)]
    return {(of[test.grade_id], test.grade_id): float(test.points) for test in tests}


def own_cell(*codes: str, solved: bool = True, later: str = "") -> Maker:
    """Put own cells after the set-up, and perhaps another one at the end."""

    def make(place: Place) -> None:
        notebook = place.solved() if solved else place.unsolved()
        notebook.cells[2:2] = [nbformat.v4.new_code_cell(place.knowing(code)) for code in codes]
        if later:
            notebook.cells.append(nbformat.v4.new_code_cell(later))
        place.submit(notebook)

    return make


def for_nothing(*codes: str) -> Maker:
    """Put own cells into the unsolved notebook."""
    return own_cell(*codes, solved=False)


def with_bodies(**bodies: str) -> Maker:
    """Replace the bodies of some functions; the others stay right."""

    def make(place: Place) -> None:
        notebook = place.solved()
        for name, body in bodies.items():
            rewrite(notebook, name, place.knowing(body))
        place.submit(notebook)

    return make


def in_answers(body: str, *names: str) -> Maker:
    """Replace the body of some functions, by default of all; the others stay right."""

    def make(place: Place) -> None:
        chosen = names or [question.name for question in questions_of(place.assignment) if not question.written]
        with_bodies(**dict.fromkeys(chosen, body))(place)

    return make


def before_answer(name: str, body: str) -> Maker:
    """Put code at the beginning of a right answer."""

    def make(place: Place) -> None:
        notebook = place.solved()
        lines = "\n".join("    " + line for line in place.knowing(body).strip("\n").split("\n"))
        change(notebook, name, "### BEGIN SOLUTION\n", f"### BEGIN SOLUTION\n{lines}\n")
        place.submit(notebook)

    return make


def after_answer(name: str, code: str) -> Maker:
    """Put code after a right answer, in its cell."""

    def make(place: Place) -> None:
        notebook = place.solved()
        cell = next(cell for cell in notebook.cells if cell.id == name)
        cell.source += "\n\n" + place.knowing(code).strip("\n")
        place.submit(notebook)

    return make


def answered_by(**codes: str) -> Maker:
    """Replace the cells of some exercises by this code; the others stay right."""

    def make(place: Place) -> None:
        notebook = place.solved()
        for name, code in codes.items():
            next(cell for cell in notebook.cells if cell.id == name).source = place.knowing(code).strip("\n")
        place.submit(notebook)

    return make


def spoiled(spoil: Callable[[NotebookNode], Any], *, solved: bool = True) -> Maker:
    """Change the notebook, or replace it by another object."""

    def make(place: Place) -> None:
        notebook = place.solved() if solved else place.unsolved()
        other = spoil(notebook)
        place.submit(notebook if other is None else other)

    return make


def with_name(name: str) -> Maker:
    """Submit the answers under another file name."""
    return lambda place: place.submit(place.solved(), name)


def good(place: Place) -> None:
    """Submit the answers."""
    place.submit(place.solved())


def in_words(text: str) -> Maker:
    """Submit the answers, with this text as a written answer and in an own cell."""

    def make(place: Place) -> None:
        notebook = place.solved()
        next(cell for cell in notebook.cells if is_solution(cell) and is_grade(cell)).source = text
        notebook.cells.append(nbformat.v4.new_markdown_cell(text))
        place.submit(notebook)

    return make

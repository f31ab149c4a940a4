"""Does honest work count, or is a person asked, after common mistakes in handling a notebook?"""

import json

import nbformat
import pytest
from conftest import ALL, NAME, SEED, assignment_of, repaired
from nbformat import NotebookNode
from sample_class import answer

from autograder.course.candidates import chapters
from autograder.course.course import Assignment
from autograder.grade.job import grade_one
from autograder.grade.repair import OtherAssignment
from autograder.grade.task import Job, Task
from autograder.imports import ROOT
from autograder.recognition import names_in

ANSWER = "The variance of a score grows with the width, so the weights saturate without the scale."
WHERE = {
    "why_scale": "after the cell why_scale;",
    "text_45": "at the end of the notebook;",
    "text_22": "after the code cell that defines plot_map;",
}


@pytest.mark.parametrize("after", WHERE)
def test_a_question_says_in_words_where_a_text_was_found(
    assignment: Assignment, perfect: NotebookNode, after: str
) -> None:
    """Does a person read headings and names of questions instead of invisible cell ids?"""
    answer(perfect, "graph_network").source = answer(assignment.release, "graph_network").source
    index = next(i for i, cell in enumerate(perfect.cells) if cell.get("id") == after)
    perfect.cells.insert(index + 1, nbformat.v4.new_markdown_cell(ANSWER))
    (question,) = repaired(perfect, assignment).questions
    assert WHERE[after] in question


def test_a_cell_that_fails_costs_what_it_defines(assignment: Assignment, perfect: NotebookNode) -> None:
    """If a cell fails before it defines an answer, do later cells run, and is a person asked about the answer?"""
    cell = answer(perfect, "attention")
    cell.source = f"first = [][0]\n{cell.source}"
    texts = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
    fields = grade_one(Task(assignment.name, *texts, SEED), Job(json.dumps(perfect).encode()))
    passed = {check["name"].rpartition("_")[0] for check in fields["checks"] if check["passed"]}
    assert "softmax" in passed and "self_attention" in passed and "attention" not in passed
    (question,) = fields["questions"]
    assert question.startswith("attention needs what a cell defines, and the cell ended with IndexError")


def test_the_notebook_of_another_assignment_is_named(assignment: Assignment) -> None:
    """Is the right assignment named if a notebook was submitted for another one?"""
    other = assignment_of("2_multihead").release
    others = {name: names_in(assignment_of(name).release) for name in ALL if name != NAME}
    with pytest.raises(OtherAssignment, match="notebook of 2_multihead, submitted as 1_attention"):
        repaired(other, assignment, others=others, submitted_as=NAME)


@pytest.mark.parametrize("chapter", ["attention", "softmax", "looking_inside"])
def test_a_chapter_is_named(chapter: str, assignment: Assignment) -> None:
    """Is a chapter that a student ran and changed named as one, also if its cells lost their ids?"""
    notebook = nbformat.read(ROOT / "book" / f"{chapter}.ipynb", 4)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    notebook.cells[3].source += " My note"
    notebook.cells.append(nbformat.v4.new_code_cell("print(softmax(np.ones(3)))"))
    with pytest.raises(OtherAssignment, match=f"This is the chapter {chapter} of the book, not the exercise {NAME}"):
        repaired(notebook, assignment, submitted_as=NAME, chapters=chapters())


@pytest.mark.parametrize("name", ALL)
def test_an_exercise_is_no_chapter(name: str) -> None:
    """Is an exercise graded as one, also if the student wrote much of a chapter into it?"""
    assignment = assignment_of(name)
    work = nbformat.from_dict(assignment.release)
    chapter = nbformat.read(ROOT / "book" / "attention.ipynb", 4)
    work.cells += [cell for cell in chapter.cells if cell.cell_type == "code"]
    repaired(work, assignment, submitted_as=name, chapters=chapters())

"""Submissions with results that no kernel made, for tests of what happens after a kernel has ended."""

import random

import nbformat
import sample_class

from autograder.cells import points_of
from autograder.course.course import Assignment, Result
from autograder.grade.repair import repair_notebook

KINDS = 8  # kinds of submissions; they differ in their mistakes


def stubs(assignment: Assignment) -> list[tuple[str, Result]]:
    """Return executed notebooks as texts, with their results, as grading gives them to the recording."""
    answers = nbformat.writes(sample_class.fill_in(assignment.release, assignment.instructor)).encode()
    choices, kinds = random.Random(0), []
    for kind in range(KINDS):
        notebook = repair_notebook(answers, assignment.instructor, assignment.release).notebook
        checks = []
        for cell in notebook.cells:
            info = cell.metadata.get("nbgrader", {})
            if info.get("solution") and info.get("grade") and choices.random() < 0.3:
                cell.source = next(c.source for c in assignment.release.cells if c.id == cell.id)  # no response
            if not (info.get("grade") and cell.cell_type == "code" and not info.get("solution")):
                continue
            passed = choices.random() < 0.8 or kind == 0
            message = "" if passed else "AssertionError: The rows of the weights sum to 3.2, not 1."
            error = dict(ename="AssertionError", evalue=message, traceback=[message])
            cell.outputs = [] if passed else [nbformat.v4.new_output("error", **error)]
            points, mistake = points_of(cell), None if passed else "M6"
            checks.append(dict(name=info["grade_id"], points=points, passed=passed, mistake=mistake, message=message))
        text = nbformat.writes(notebook) + "\n"
        kinds.append((text, Result("", assignment.name, "graded", checks=checks, seed=0, key="stub")))
    return kinds

"""Show each written question's rubric below the answer in formgrader. No file gets a rubric, so no student sees it."""

import re
from pathlib import Path

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from autograder.cells import grade_id

RUBRIC = re.compile(r"=== BEGIN MARK SCHEME ===\n(.*?)\n=== END MARK SCHEME ===", re.S)  # nbgrader's delimiters


def rubrics(instructor: NotebookNode) -> dict[str, str]:
    """Return the rubric of each written question that has one, by the name of its cell."""
    matches = {grade_id(cell): RUBRIC.search(cell.source) for cell in instructor.cells}
    return {name: rubric[1] for name, rubric in matches.items() if name and rubric}


class ShowRubrics(Preprocessor):
    """Shows the rubrics of the course's `source/` notebooks in formgrader. `make formgrader` uses this preprocessor."""

    def preprocess(self, notebook: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Put a cell with the rubric below each written answer that is shown."""
        if "assignment_id" not in resources:  # this export is from JupyterLab, not formgrader
            return notebook, resources
        course = Path(resources["metadata"]["path"]).parents[2]  # the notebook is in autograded/STUDENT/ASSIGNMENT
        source = course / "source" / resources["assignment_id"] / f"{resources['notebook_id']}.ipynb"
        rubric_of, cells = rubrics(nbformat.read(source, as_version=4)), []
        for cell in notebook.cells:
            cells.append(cell)
            if rubric := rubric_of.get(grade_id(cell)):
                cells.append(new_markdown_cell(f"> **Rubric, for the person who grades:** {rubric}"))
        return NotebookNode(notebook | {"cells": cells}), resources

"""In formgrader each written question's mark scheme is below the answer. No file gets it, so no student does."""

import re
from pathlib import Path

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from autograder.cells import grade_id

SCHEME = re.compile(r"=== BEGIN MARK SCHEME ===\n(.*?)\n=== END MARK SCHEME ===", re.S)


def mark_schemes(instructor: NotebookNode) -> dict[str, str]:
    """Return the mark scheme of each written question that has one, by the name of its cell."""
    found = {grade_id(cell): SCHEME.search(cell.source) for cell in instructor.cells}
    return {name: scheme[1] for name, scheme in found.items() if name and scheme}


class ShowMarkSchemes(Preprocessor):
    """Shows formgrader the mark schemes of the instructor's notebook, `source/` of the course; `make formgrader` asks for it."""

    def preprocess(self, notebook: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Put a cell with the scheme below each written answer that is shown."""
        if "assignment_id" not in resources:  # a person exports a notebook from JupyterLab
            return notebook, resources
        course = Path(resources["metadata"]["path"]).parents[2]  # the notebook is in autograded/STUDENT/ASSIGNMENT
        source = course / "source" / resources["assignment_id"] / f"{resources['notebook_id']}.ipynb"
        schemes, cells = mark_schemes(nbformat.read(source, as_version=4)), []
        for cell in notebook.cells:
            cells.append(cell)
            if scheme := schemes.get(grade_id(cell)):
                cells.append(new_markdown_cell(f"> **Mark scheme, for the marker:** {scheme}"))
        return NotebookNode(notebook | {"cells": cells}), resources

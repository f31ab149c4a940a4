"""Does only the person who grades see the rubric?"""

import re
from pathlib import Path

import nbformat
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from autograder.course.course import Course
from autograder.grade.grade import load_assignment
from autograder.imports import ROOT
from autograder.report.rubric import rubrics

[PREPROCESSOR] = re.findall(r"--HTMLExporter.preprocessors=(\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))


def test_formgrader_shows_the_rubric_below_each_answer(tmp_path: Path) -> None:
    """Does the page of `make formgrader` show each rubric once, after its answer, and does no file hold one?"""
    assignment, course = load_assignment("2_multihead"), Course(tmp_path)
    course.prepare(assignment)
    shown = rubrics(assignment.instructor)
    written = [
        cell
        for cell in assignment.release.cells
        if cell.metadata.get("nbgrader", {}).get("task") is False
        and cell.metadata.nbgrader.solution
        and cell.cell_type == "markdown"
    ]
    assert {cell.metadata.nbgrader.grade_id for cell in written} == set(shown)
    executed = course.autograded_path("ada", assignment)
    executed.parent.mkdir(parents=True)
    nbformat.write(assignment.release, executed)
    exporter = HTMLExporter(config=Config({"HTMLExporter": {"preprocessors": [PREPROCESSOR]}}))
    names = {"assignment_id": assignment.name, "notebook_id": assignment.notebook}
    page, _ = exporter.from_filename(str(executed), resources=names)
    assert page.count("Rubric, for the person who grades:") == len(shown) > 1
    order = [page.index(text[:30]) for text in shown.values()]
    assert order == sorted(order)
    assert "Rubric, for" not in exporter.from_filename(str(executed))[0]  # an export from JupyterLab
    assert "Rubric, for" not in executed.read_text(encoding="utf-8")

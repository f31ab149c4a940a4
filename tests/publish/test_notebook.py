"""Does the students' notebook work in their environment: with NumPy and Matplotlib, without the repository?"""

import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ALL, NAME, assignment_of, setup_of, soon
from nbclient import NotebookClient
from nbformat import NotebookNode
from sample_class import fill_in

from autograder.checks.attention.exercises import EXERCISES
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of
from autograder.publish.tests_wheel import PACKAGE

# The student's kernel runs this first: it hides what this repository has installed.
BLOCKER = """import sys
sys.modules["autograder"] = sys.modules["solutions"] = None
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in getattr(finder, "__module__", "")]
"""
PROBE = """try:
    import autograder
except ImportError:
    print("autograder cannot be imported")
try:
    import solutions.attention
except ImportError:
    print("solutions cannot be imported")"""


def run_alone(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Execute a notebook in an empty folder, with the package of tests next to it, in a kernel that sees no repository."""
    shutil.copytree(ROOT / "exercises" / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "blocker").mkdir()
    (folder / "blocker" / "sitecustomize.py").write_text(BLOCKER, encoding="utf-8")
    (folder / "work").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AUTOGRADER"))}
    environment |= {"PYTHONPATH": str(folder / "blocker"), "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    environment |= {"GRADING": "1"}  # as in grading, the notebook trains for only a few steps
    notebook = nbformat.from_dict(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(PROBE, id="probe"))
    resources = {"metadata": {"path": str(folder / "work")}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources, allow_errors=True)
    client.execute(env=environment)
    assert printed(notebook, "probe") == "autograder cannot be imported\nsolutions cannot be imported\n"
    return notebook


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return a cell by its id."""
    return next(cell for cell in notebook.cells if cell.id == name)


def printed(notebook: NotebookNode, name: str) -> str:
    """Return what a cell printed."""
    return "".join(output.text for output in cell_of(notebook, name).outputs if output.output_type == "stream")


def errors(notebook: NotebookNode) -> dict[str, str]:
    """Return the errors of a notebook, by cell."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                found[cell.id] = f"{output.ename}: {output.evalue}"
    return found


@pytest.mark.parametrize("name", soon(ALL, NAME, "3_encoder"))
def test_notebook_runs_alone_with_answers(name: str, tmp_path: Path) -> None:
    """Does every cell run, every visible test pass, and the figure appear, after the answers are filled in?"""
    assignment = assignment_of(name)
    done = run_alone(fill_in(assignment.release, assignment.instructor, bonus=True), tmp_path)
    bonus = {cell.id for cell in assignment.release.cells if "bonus" in cell.metadata}
    assert errors(done) == {}
    exercises = list(exercises_of(ALL[name]).values())
    for index, each in enumerate(exercises):
        said, so_far = printed(done, f"test_{each.name}").splitlines()
        untried = f" They do not try {each.untried_in_words}." if each.untried else ""
        assert said == f"{each.name} passes the visible tests.{untried}"
        shown = [other for place, other in enumerate(exercises) if place <= index or other.name not in bonus]
        marks = [f"{other.name} {'✓' if place <= index else '–'}" for place, other in enumerate(shown)]
        assert so_far == "So far: " + "  ".join(marks)
    assert printed(done, "setup").startswith(("Ready: NumPy ", "Ready: PyTorch "))
    figures = [
        output for cell in done.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert len(figures) == (name in (NAME, "4_vit"))
    warned = [o.text for cell in done.cells for o in cell.get("outputs", []) if o.get("name") == "stderr"]
    assert warned == []
    written = {path.name for path in (tmp_path / "work").iterdir()}
    assert written == ({"vit.pt", "vit_training_small.pt"} if name == "4_vit" else set())


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ALL)
def test_notebook_runs_alone_unsolved(name: str, tmp_path: Path) -> None:
    """Do only the visible tests of the released notebook fail, and not those of a bonus?"""
    released = assignment_of(name).release
    bonus = {cell.id for cell in released.cells if "bonus" in cell.metadata}
    found = errors(run_alone(released, tmp_path))
    assert set(found) == {f"test_{each}" for each in exercises_of(ALL[name]) if each not in bonus}


WRONG = {  # answers, and what the message says of each
    "return scores": "numbers are wrong",
    "return scores @ missing": "NameError: name 'missing' is not defined (in softmax, line 2: return scores @ missing)",
    "raise ExceptionGroup('two', [ValueError('one')])": "(in softmax, line 2: raise ExceptionGroup(",
    "raise NotImplementedError()": "not written yet.",
    "pass": "the function returned None. Does it end with return?",
}


def test_failing_test_shows_its_message_and_nothing_else(tmp_path: Path) -> None:
    """In Jupyter, is the shown and stored traceback of a failing visible test only the error's name and message?"""
    cells = [cell_of(assignment_of(NAME).release, "setup")]
    for line in WRONG:
        source = f'def softmax(scores, axis=-1):\n    {line}\n\n\nrun_tests("softmax", softmax)'
        cells.append(nbformat.v4.new_code_cell(source))
    done = run_alone(nbformat.v4.new_notebook(cells=cells), tmp_path)
    for cell, words in zip(done.cells[2:], WRONG.values(), strict=True):
        [error] = [output for output in cell.outputs if output.output_type == "error"]
        assert error.ename == "WrongAnswer"
        assert words in error.evalue
        assert "\n".join(error.traceback) == f"WrongAnswer: {error.evalue}"


STEPS = {  # the five lines before attention_backward: right, and wrong
    "grad_values": ("weights.T @ grad_output", "values"),
    "grad_weights": ("grad_output @ values.T", "grad_output"),
    "grad_scores": (
        "weights * (grad_weights - (weights * grad_weights).sum(-1, keepdims=True))",
        "weights * grad_weights",
    ),
    "grad_queries": ("grad_scores @ keys / 2", "grad_scores @ keys"),
    "grad_keys": ("grad_scores.T @ queries / 2", "grad_scores.T @ queries"),
}


@pytest.mark.parametrize("wrong", [None, *STEPS])
def test_steps_of_the_gradient_are_checked_one_by_one(capsys: Any, wrong: str | None) -> None:
    """Are right steps accepted, the first wrong step reported, and later ones allowed to be unwritten?"""
    namespace, cells = setup_of(NAME)
    [sheet] = [source for source in cells.values() if "def check_step" in source]
    expected = []
    for name, (right, mutation) in STEPS.items():
        mark = "–" if any(mark != "✓" for mark in expected) else "✗" if name == wrong else "✓"
        assert f"{name} = None" in sheet
        sheet = sheet.replace(f"{name} = None", f"{name} = {dict(zip('✓✗–', (right, mutation, None)))[mark]}", 1)
        expected.append(mark)
    given = {name: vars(EXERCISES[name].answers)[name] for name in ("softmax", "attention")}
    exec(sheet, namespace | given)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == expected

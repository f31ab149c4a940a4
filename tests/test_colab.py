"""Do exercises and chapters work on Colab as here? They run in an environment with exactly the versions of colab.txt."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import ALL, assignment_of
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from sample_class import answer, fill_in

from autograder.imports import ROOT
from autograder.judge.exercise import Exercise, exercises_of
from autograder.judge.mistake import variants_of
from autograder.publish.tests_wheel import WHEEL, wheel_of

pytestmark = pytest.mark.deep
PINS = ROOT / "colab.txt"
PYTHON = "3.13"  # Colab's version
MISTAKES = 5  # mistakes tried in each exercise, at most
CHAPTERS = sorted(path.stem for path in ROOT.glob("book/*.ipynb"))
LINK = re.compile(r"mistakes\.html#m\d+$")  # link in the message of a visible test that names a mistake


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the tests' settings of Python; its output is captured."""
    return subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)


def clean_environment() -> dict[str, str]:
    """Return this environment without settings of this Python, the grader and Matplotlib."""
    ours = ("PYTHON", "AUTOGRADER", "VIRTUAL_ENV", "MPLBACKEND")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def make_environment(folder: Path) -> None:
    """Install Colab's packages into a new environment, under Colab's Python or else the newest available one."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.fail("uv makes the environment of Colab, and is not installed: .venv/bin/pip install uv")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))  # uv does not look there
    for each in [*map(str, pyenv.glob(f"versions/{PYTHON}*/bin/python")), PYTHON, "3.12", "3.11"]:
        made = run(uv, "venv", "--clear", "--system-certs", "--python", each, folder)
        if made.returncode == 0:
            break
    else:
        pytest.fail(f"no Python from 3.11 to {PYTHON} for the environment of Colab:\n{made.stderr}")
    done = run(uv, "pip", "install", "--system-certs", "--python", folder / "bin" / "python", "-r", PINS)
    if done.returncode != 0:
        pytest.fail(f"Colab's packages were not installed; is there a network?\n{done.stderr[-2000:]}")


@pytest.fixture(scope="session")
def colab() -> Path:
    """A Python with Colab's packages, installed once for each content of colab.txt. uv shares large ones with .venv."""
    folder = ROOT / "_build" / "colab" / hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    complete = folder / "complete"
    if not complete.exists():
        make_environment(folder)
        complete.touch()
    return folder / "bin" / "python"


def execute(notebook: NotebookNode, python: Path | str, folder: Path, **environment: str) -> NotebookNode:
    """Run a copy of a notebook next to the package of the tests, in a kernel of this Python, to its last cell."""
    kernels, work = folder / "kernels", folder / "work"
    work.mkdir(parents=True)
    (work / WHEEL).write_bytes(wheel_of(ROOT))  # Colab installs it
    (kernels / "colab").mkdir(parents=True)
    arguments = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    specification = {"argv": arguments, "display_name": "Colab", "language": "python"}
    (kernels / "colab" / "kernel.json").write_text(json.dumps(specification), encoding="utf-8")
    specifications = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specifications)
    notebook = nbformat.from_dict(notebook)
    resources = {"metadata": {"path": str(work)}}
    client = NotebookClient(notebook, km=manager, timeout=600, resources=resources, allow_errors=True)
    client.execute(env=clean_environment() | environment, cleanup_kc=True)
    return notebook


def said(notebook: NotebookNode) -> dict[str, str]:
    """Return the output or the error of each visible test by cell, for right answers and for mistakes."""
    texts = {cell.id: "" for cell in notebook.cells if cell.id.startswith(("test_", "mistake-"))}
    for cell in notebook.cells:
        for output in cell.get("outputs", []) if cell.id in texts else []:
            if output.output_type == "stream":
                texts[cell.id] += output.text
            elif output.output_type == "error":
                texts[cell.id] += f"{output.ename}: {output.evalue}"
    return texts


def with_mistakes(notebook: NotebookNode, exercises: dict[str, Exercise]) -> NotebookNode:
    """Return a solved notebook in which each visible test is repeated for answers with known mistakes.

    Each mistake has a cell mistake-EXERCISE-M1, with changed words of the answer. Then the right answer runs again.
    """
    notebook = nbformat.from_dict(notebook)
    for name, each in exercises.items():
        right, test = answer(notebook, name), answer(notebook, f"test_{name}")
        cells: list[NotebookNode] = []
        for mistake, variant in variants_of(name, each.known).items():
            wrong = right.source
            for old, new in variant.changes:
                wrong = wrong.replace(old, new) if wrong.count(old) == 1 else ""
            if wrong and len(cells) < MISTAKES:
                cells.append(
                    new_code_cell(f"{wrong}\n\n\n{test.source}", id=f"mistake-{name}-{mistake.replace('/', '-')}")
                )
        assert cells, f"no known mistake of {name} can be made in its cell"
        place = notebook.cells.index(test) + 1
        notebook.cells[place:place] = [*cells, new_code_cell(right.source)]
    return notebook


@pytest.mark.parametrize("name", ALL)
def test_exercise_says_on_colab_what_it_says_here(colab: Path, name: str, tmp_path: Path) -> None:
    """Do right answers pass all visible tests on Colab, and are known mistakes named as in the grader's environment?"""
    assignment, exercises = assignment_of(name), exercises_of(ALL[name])
    notebook = with_mistakes(fill_in(assignment.release, assignment.instructor, bonus=True), exercises)
    there, here = (tmp_path / each for each in ("there", "here"))
    short = {"GRADING": "1"}  # a few training steps, as in grading; the visible tests do not depend on them
    as_there = short if name == "4_vit" else {}  # training in 4_vit takes minutes on a CPU
    found = said(execute(notebook, colab, there, **as_there))
    for each in exercises:
        assert found[f"test_{each}"].startswith(f"{each} passes the visible tests.")
        named = [cell for cell, text in found.items() if cell.startswith(f"mistake-{each}-") and LINK.search(text)]
        assert named or name == "5_debugging", each  # the visible tests of 5_debugging name nothing
    assert found == said(execute(notebook, sys.executable, here, **short))


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_runs_on_colab(colab: Path, name: str, tmp_path: Path) -> None:
    """Does a chapter run alone on Colab, with the records that it would find on the Internet?"""
    notebook = nbformat.read(ROOT / "book" / f"{name}.ipynb", as_version=4)
    done = execute(notebook, colab, tmp_path, ATTENTION_BOOK_RECORDS=str(ROOT / "book" / "records"))
    errors = [output for cell in done.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert errors == []

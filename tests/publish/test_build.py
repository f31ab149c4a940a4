"""Is the students' material built the same each time, without any answer, and is a stale file noticed?"""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import pytest
from attention_tests import VERSION
from conftest import ALL, NAME, python_of, setup_of
from nbgrader.utils import is_grade, is_locked, is_solution
from typer.testing import CliRunner

from autograder.cells import points_of
from autograder.cli import app
from autograder.course.course import Assignment
from autograder.judge import exercise
from autograder.judge.exercise import Exercise
from autograder.publish import build
from autograder.publish.build import ROOT, exercise_cell, stale_files
from autograder.publish.chapters import build_chapters
from autograder.publish.generated import source_digests, sources, write_manifest
from autograder.publish.tests_wheel import PACKAGE, wheel_of

NOTEBOOK = Path(NAME) / "attention.ipynb"
NOTEBOOKS = [Path(name) / f"{stem}.ipynb" for name, stem in ALL.items()]
# packages of Colab that a notebook may import
COLAB = {"numpy", "torch", "torchvision", "matplotlib", "sklearn", "IPython"}
RESULTS = Path("exercises") / PACKAGE / "attention.json"
OF_ANSWERS = [Path("book") / "mistakes.md", RESULTS, Path("exercises") / NOTEBOOK]  # what is made from answers
ANSWERS = (ROOT / "solutions" / "attention.py").read_text(encoding="utf-8")


def answers_of(name: str) -> str:
    """Return the text of an assignment's answers."""
    return (ROOT / "solutions" / f"{ALL[name]}.py").read_text(encoding="utf-8")


def answered(text: str) -> list[ast.FunctionDef]:
    """Return the functions in the answers, and the methods of their classes."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    parts = [node.body if isinstance(node, ast.ClassDef) else [node] for node in nodes]
    return [node for part in parts for node in part if isinstance(node, ast.FunctionDef)]


def body_lines(text: str) -> list[str]:
    """Return the lines of the answers' bodies that contain code, without docstrings and comments."""
    lines = text.splitlines()
    bodies = [
        line
        for node in answered(text)
        for line in lines[node.body[1 if ast.get_docstring(node) else 0].lineno - 1 : node.end_lineno]
    ]
    found = [line.split("  # ")[0].strip() for line in bodies if len(line.strip()) > 3]
    return [line for line in found if line not in COMMON]


# Lines of answers that any class or copy in PyTorch has. The set-up cell has them too.
COMMON = ("try:", "super().__init__()", "with torch.no_grad():", "self.num_heads = num_heads", "return layer")


# ----------------------------------------------------------------------------------------------- the same each time


def test_generated_files_are_up_to_date() -> None:
    """Is every generated file in git what the sources give, as `autograder build --check` asks?"""
    assert stale_files() == [], 'run "make exercises"'


@pytest.mark.deep
def test_generated_files_made_again_are_the_same() -> None:
    """Is every generated file equal to a new one, to the byte, whatever the manifest says?"""
    for path, text in (build.build_results() | build.build_all()).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path


MAKE = """
import json
import nbformat
from autograder.publish.build import build_assignment, build_results, sources
from other_processor import other_processor
with other_processor(1):
    built = [nbformat.writes(made) for made in build_assignment(sources()[0])]
    print(json.dumps([built, {path.stem: text for path, text in build_results().items()}]))
"""
SETTINGS = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OPENBLAS_CORETYPE": "Haswell"}
SETTINGS |= {"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}


@pytest.mark.deep
def test_build_is_the_same_everywhere(assignment: Assignment) -> None:
    """Does a process in another folder, with other settings, on another processor make the same notebooks and results?"""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"} | SETTINGS
    command = [sys.executable, "-c", MAKE]
    done = subprocess.run(command, cwd="/", env=environment, stdout=subprocess.PIPE, check=True)
    (instructor, release), made = json.loads(done.stdout.splitlines()[-1])
    assert instructor == nbformat.writes(assignment.instructor)
    assert f"{release}\n" == (ROOT / "exercises" / NOTEBOOK).read_text(encoding="utf-8")
    kept = {path.stem: (ROOT / "exercises" / PACKAGE / f"{path.stem}.json").read_text("utf-8") for path in NOTEBOOKS}
    assert {stem: made[stem] == text for stem, text in kept.items()} == dict.fromkeys(kept, True)


def test_exercises_hold_notebooks_and_their_texts_alone() -> None:
    """Do the folders hold only notebooks and their texts, and does no text hold an answer or a hidden test?"""
    found = [path.relative_to(ROOT / "exercises") for path in (ROOT / "exercises").glob("[0-9]*/*")]
    assert sorted(found) == sorted([*NOTEBOOKS, *(path.with_suffix(".py") for path in NOTEBOOKS)])
    for text in sources():
        assert not re.search(r"autograder|HIDDEN TESTS|SOLUTION|MARK SCHEME", text.read_text(encoding="utf-8")), (
            text.name
        )
        written = [cell for cell in jupytext.read(text).cells if "written" in cell.metadata]
        assert all(not cell.source.strip() for cell in written), (
            f"{text.name}: answers belong into solutions/written.md"
        )


# ---------------------------------------------------------------------------------------------------- no answer


def test_release_holds_nothing_of_ours(any_assignment: Assignment) -> None:
    """Is the notebook free of markers, hidden tests, rubrics, imports of the grader, and lines of the answers' bodies?"""
    whole = nbformat.writes(any_assignment.release).lower()
    ours = ("begin solution", "hidden tests", "mark scheme", "autograder", "solutions")
    assert [word for word in ours if word in whole] == []
    cells = any_assignment.release.cells
    given = "\n".join(cell.source for cell in cells if cell.metadata.get("given"))
    lines = [line for line in body_lines(answers_of(any_assignment.name)) if line not in given]
    assert len(lines) >= 2 * len(exercises_of(any_assignment)), "the answers were not found"
    text = "\n".join(cell.source for cell in cells)
    assert [line for line in lines if line in text and not line.startswith("except ")] == []
    assert {cell.source for cell in cells if is_grade(cell) and is_solution(cell)} <= {build.WRITTEN_STUB}


def test_release_keeps_the_specification(any_assignment: Assignment) -> None:
    """Does each exercise have its signature and docstring, and then only NotImplementedError?"""
    cells = {cell.id: cell.source for cell in any_assignment.release.cells}
    answers = ast.parse(answers_of(any_assignment.name)).body
    given_whole = {cell.id for cell in any_assignment.release.cells if cell.metadata.get("given")}
    for node in (node for node in answers if isinstance(node, (ast.FunctionDef, ast.ClassDef))):
        if node.name in given_whole:
            continue
        (shown,) = ast.parse(cells[node.name]).body
        assert ast.get_docstring(shown) == ast.get_docstring(node)
        assert "Args:" in ast.get_docstring(shown)
        for given, whole in zip(answered(cells[node.name]), answered(ast.unparse(node)), strict=True):
            assert ast.get_docstring(given) == ast.get_docstring(whole)
            assert ast.unparse(given.args) == ast.unparse(whole.args).replace("Array", "np.ndarray")
            assert given.name == "__init__" or "Returns:" in ast.get_docstring(given)
            assert len(given.body) == (2 if ast.get_docstring(given) else 1)
            assert ast.unparse(given.body[-1]) == "raise NotImplementedError()"


def test_release_works_away_from_the_repository(any_assignment: Assignment) -> None:
    """Does the notebook import only packages that Colab has, and do its links lead to the published book?"""
    modules = set()
    for cell in any_assignment.release.cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(python_of(cell.source))):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    modules.add(node.module.split(".")[0])
    assert modules <= COLAB | sys.stdlib_module_names | {PACKAGE}
    texts = [cell.source for cell in any_assignment.release.cells if cell.cell_type == "markdown"]
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(texts))
    assert len(links) >= 2
    assert all(link.startswith("https://") for link in links)


# ---------------------------------------------------------------------------------------------- cells, ids, points


def test_cells_are_known_by_their_ids(any_assignment: Assignment) -> None:
    """Does each of nbgrader's cells have its grade id as cell id, each id only once, and are all but answers locked?"""
    for notebook in (any_assignment.instructor, any_assignment.release):
        ids = [cell.id for cell in notebook.cells]
        assert len(set(ids)) == len(ids)
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                assert cell.id == cell.metadata.nbgrader.grade_id
                assert is_locked(cell) != is_solution(cell), cell.id
        answers = [cell.id for cell in notebook.cells if is_solution(cell) and cell.cell_type == "code"]
        assert answers == list(exercises_of(any_assignment))
        nbformat.validate(notebook)


def exercises_of(assignment: Assignment) -> dict[str, Exercise]:
    """Return the exercises of an assignment."""
    return exercise.exercises_of(ALL[assignment.name])


def test_points_belong_to_checks(any_assignment: Assignment) -> None:
    """Does each hidden check have a cell with points, in order, and do only files and written questions have others?"""
    graded = any_assignment.graded_cells()
    by_test = [cell for cell in graded if not is_solution(cell) and "file" not in cell.metadata]
    stages = [f"{name}_{stage}" for name, e in exercises_of(any_assignment).items() for stage in e.stages]
    assert [cell.id for cell in by_test] == stages
    assert {points_of(cell) for cell in by_test} <= {0.5, 1}
    assert {cell.metadata.nbgrader.points for cell in by_test if "bonus" in cell.metadata} <= {0}


def test_points_in_the_text_agree(any_assignment: Assignment) -> None:
    """Do the table at the top and the page of the book give the points of the cells, by part and in total?"""
    top = any_assignment.release.cells[0].source
    parts = {part: float(points) for part, points in re.findall(r"^\| (\d[^|]*) \| ([\d.]+) \|", top, re.M)}
    page = (ROOT / "book" / f"{any_assignment.name}_exercise.md").read_text(encoding="utf-8")
    exercises, named, rest = exercises_of(any_assignment), [], 0.0
    points = {cell.id: points_of(cell) for cell in any_assignment.graded_cells()}
    bonus = [cell.id for cell in any_assignment.release.cells if "bonus" in cell.metadata and cell.id in exercises]
    for name in bonus:
        promised = sum(points.pop(f"{name}_{stage}") for stage in exercises[name].stages)
        assert f"`{name}`, a bonus | {promised:g} extra |" in top
        assert re.search(rf"^\| A bonus: `{name}` .* \| \+{promised:g} \|$", page, re.M)
    for part, promised in parts.items():
        names = [name for name in re.findall(r"`(\w+)`", part) if name in exercises]
        stages = [f"{name}_{stage}" for name in names for stage in exercises[name].stages]
        assert not names or sum(points.pop(stage) for stage in stages) == promised, part
        named, rest = named + names, rest + promised * (not names)
    assert named == [name for name in exercises if name not in bonus]
    assert sum(points.values()) == rest
    assert f", {sum(parts.values()):g} point" in page
    for cell in any_assignment.release.cells:
        if is_grade(cell) and not is_solution(cell):
            words = {2: "2 points", 1: "1 point", 0.5: "Half a point", 0: "1 bonus point"}
            assert cell.source.startswith(f"# {words[cell.metadata.nbgrader.points]}, judged after you submit: ")


# ------------------------------------------------------------------------------------------------ the set-up cell


def test_setup_is_short(any_assignment: Assignment) -> None:
    """Has the set-up cell 12 lines, does it define only `run_tests` and what answers use, and name our package's digest?

    The whole notebook has at most 70 kB.
    """
    setup = next(cell for cell in any_assignment.release.cells if cell.id == "setup")
    assert len(setup.source.splitlines()) <= 12
    of_answers = {"np", "torch", "F", "nn", "Tensor", "math", "os", "Iterable", "Batches", "__name__", "__builtins__"}
    assert setup_of(any_assignment.name)[0].keys() - of_answers == {"sys", "tests_of", "run_tests"}
    assert is_locked(setup)
    assert f"#sha256={hashlib.sha256(wheel_of(ROOT)).hexdigest()}\n" in setup.source
    assert setup.source.endswith(f'"{VERSION}")')
    assert len(nbformat.writes(any_assignment.release).encode()) <= 70_000


def test_package_holds_no_answer() -> None:
    """Does the package hold no exercise's name, no exponential and no product of tensors?"""
    for path in (ROOT / "exercises" / PACKAGE).glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert path.stem not in ALL.values() or not names & set(exercise.exercises_of(path.stem)), path.name
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"exp", "softmax", "einsum", "matmul", "bmm"}, path.name


def test_results_are_those_of_the_visible_inputs_alone(any_assignment: Assignment) -> None:
    """Are there frozen results only for visible inputs, and for no input of a hidden check?"""
    path = ROOT / "exercises" / PACKAGE / f"{any_assignment.notebook}.json"
    frozen = json.loads(path.read_text(encoding="utf-8"))["exercises"]
    assert set(frozen) == set(exercises_of(any_assignment))
    for name, test in frozen.items():
        exercise = exercises_of(any_assignment)[name]
        assert [case["name"] for case in test["cases"]] == [
            f"{name}, {case.name}" for case in exercise.visible(np.random.default_rng(0))
        ]


# ------------------------------------------------------------------------------------------------- stale files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of sources, grader and generated files, with every generated file up to date."""
    root = tmp_path / "copy"
    root.mkdir()
    for name in ("_config.yml", "_toc.yml", "requirements.txt"):
        shutil.copy(ROOT / name, root)
    for name in ("autograder", "solutions", "book", "exercises", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    write_manifest(source_digests(root), root)
    for path, text in build_chapters(root).items():
        path.write_text(text, encoding="utf-8")
    assert stale_files(root) == []
    return root


def test_stale_files_notices_a_source_that_changed_during_a_build(tree: Path) -> None:
    """If an answer or a chapter changes after the build has read it, are the files made of it stale after the build?"""
    answers, chapter, digests = tree / "solutions" / "attention.py", tree / "book" / "softmax.md", source_digests(tree)
    answers.write_text(ANSWERS.replace("Mix values by how well", "Blend values by how well"), encoding="utf-8")
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\nOne sentence more.\n", encoding="utf-8")
    write_manifest(digests, tree)
    assert stale_files(tree) == [*OF_ANSWERS, Path("book") / "softmax.ipynb"]


def test_build_check_names_the_file_and_the_fix(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the command name each stale file and the fix, exit with 1, and change nothing?"""
    edited, missing = tree / "exercises" / NOTEBOOK, tree / "book" / "softmax.ipynb"
    edited.write_text(edited.read_text(encoding="utf-8").replace("# Exercise 1", "# Exercise one"), encoding="utf-8")
    before = edited.read_bytes()
    missing.unlink()
    monkeypatch.setattr(build, "stale_files", partial(stale_files, tree))
    said = CliRunner().invoke(app, ["build", "--check"])
    assert said.exit_code == 1
    assert said.stderr.strip().splitlines() == [
        f'{path} is stale: its source changed, or it was edited by hand. Run "make exercises".'
        for path in (f"exercises/{NOTEBOOK}", "book/softmax.ipynb")
    ]
    assert edited.read_bytes() == before, "--check changed a file"
    assert not missing.exists(), "--check wrote a file"


def test_chapter_that_no_notebook_can_say_is_one_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a notebook cannot show some words of a chapter, does the command name both, without a traceback?"""
    chapter = tree / "book" / "softmax.md"
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\nSee {ref}`nowhere`.\n", encoding="utf-8")
    monkeypatch.setattr(build, "stale_files", partial(stale_files, tree))
    result = CliRunner().invoke(app, ["build"])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert "softmax.md" in result.stderr and "{ref}`nowhere`" in result.stderr


# --------------------------------------------------------------------------------------------------- bad sources


def test_exercise_cell_refuses_an_unknown_function() -> None:
    """Does a cell that requests a missing answer stop the build with the names of file and function?"""
    with pytest.raises(ValueError, match=r"attention\.py has no function softmin"):
        exercise_cell(ROOT / "solutions" / "attention.py", "softmin")

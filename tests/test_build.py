"""Is what students get built the same each time, does it hold no answer, and is a stale file noticed?"""

import ast
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import EXERCISES, NAME, matrix_of
from nbgrader.utils import is_grade, is_locked, is_solution

from autograder import build, compare
from autograder.build import ROOT, build_assignments, exercise_cell, stale_files
from autograder.course import Assignment

NOTEBOOK = Path(NAME) / "attention.ipynb"
ANSWERS = (ROOT / "solutions" / "attention.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def release() -> str:
    """The text of the released notebook."""
    return build_assignments()[1][NOTEBOOK]


def body_lines() -> list[str]:
    """Return the lines of the answers' bodies, below the docstrings, without their comments."""
    lines = ANSWERS.splitlines()
    functions = [node for node in ast.parse(ANSWERS).body if isinstance(node, ast.FunctionDef)]
    bodies = [line for node in functions for line in lines[node.body[1].lineno - 1 : node.end_lineno]]
    return [line.split("  # ")[0].strip() for line in bodies if len(line.strip()) > 3]


def sources_of(text: str) -> str:
    """Return everything that somebody can read in a notebook."""
    return "\n".join(cell.source for cell in nbformat.reads(text, 4).cells)


# ----------------------------------------------------------------------------------------------- the same each time


def test_build_twice_is_identical() -> None:
    """Are two builds the same to the byte, the second in a process that hashes otherwise and stands elsewhere?"""
    program = (
        "import hashlib, json; from autograder.build import build_assignments\n"
        "print(json.dumps([{str(path): hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}"
        " for files in build_assignments()]), end='')"
    )
    environment = os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd="/", env=environment, check=True
    )
    here = [{str(p): hashlib.sha256(t.encode()).hexdigest() for p, t in files.items()} for files in build_assignments()]
    assert json.loads(run.stdout.splitlines()[-1]) == here


def test_exercises_are_up_to_date(release: str) -> None:
    """Is the tracked notebook the one that the sources give?"""
    path = ROOT / "exercises" / NOTEBOOK
    assert path.exists(), 'run "make exercises"'
    assert path.read_text(encoding="utf-8") == release, f'{path} is stale: run "make exercises"'


def test_exercises_hold_notebooks_alone() -> None:
    """Does exercises/ hold no file but the students' notebooks, so that no answer slips in beside them?"""
    found = [path.relative_to(ROOT / "exercises") for path in (ROOT / "exercises").rglob("*") if path.is_file()]
    assert found == [NOTEBOOK]


# ---------------------------------------------------------------------------------------------------- no answer


@pytest.mark.parametrize("word", ["BEGIN SOLUTION", "HIDDEN TESTS", "MARK SCHEME", "autograder", "solutions", "torch"])
def test_release_holds_nothing_of_ours(release: str, word: str) -> None:
    """Is there no marker, hidden test, mark scheme or import of the grader in what students get?"""
    assert word.lower() not in release.lower()


def test_release_holds_no_line_of_the_answers(release: str) -> None:
    """Is there no line of an answer's body anywhere in the notebook, the set-up cell included?"""
    lines = body_lines()
    assert len(lines) > 20, "the answers were not found"
    text = sources_of(release)
    assert [line for line in lines if line in text] == []


def test_release_holds_no_written_answer(assignment: Assignment) -> None:
    """Is no sentence of the model answers to the written questions in the notebook?"""
    text = sources_of(nbformat.writes(assignment.release))
    written = [c.source for c in assignment.instructor.cells if is_grade(c) and is_solution(c)]
    assert len(written) == 3
    sentences = [
        sentence.strip() for source in written for sentence in re.split(r"[.:]\s", source) if len(sentence) > 20
    ]
    assert len(sentences) > 9
    assert [sentence for sentence in sentences if sentence in text] == []
    stubs = [c.source for c in assignment.release.cells if is_grade(c) and is_solution(c)]
    assert stubs == [build.WRITTEN_STUB] * 3


def test_release_has_no_outputs(release: str) -> None:
    """Are there no outputs and no execution counts?"""
    for cell in nbformat.reads(release, 4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_release_keeps_the_specification(assignment: Assignment) -> None:
    """Does each exercise come with signature and docstring, and then nothing but NotImplementedError?"""
    cells = {cell.id: cell.source for cell in assignment.release.cells}
    for node in ast.parse(ANSWERS).body:
        if isinstance(node, ast.FunctionDef):
            (given,) = ast.parse(cells[node.name]).body
            assert ast.get_docstring(given) == ast.get_docstring(node)
            assert [argument.arg for argument in given.args.args] == [argument.arg for argument in node.args.args]
            assert "Args:" in ast.get_docstring(given)
            assert "Returns:" in ast.get_docstring(given)
            assert len(given.body) == 2
            assert ast.unparse(given.body[1]) == "raise NotImplementedError()"


def test_release_runs_without_other_packages(release: str) -> None:
    """Does the notebook import nothing but what Colab has?"""
    modules = set()
    for cell in nbformat.reads(release, 4).cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    modules.add(node.module.split(".")[0])
    assert modules <= {"json", "numpy", "matplotlib"}


def test_release_links_to_the_published_book(release: str) -> None:
    """Do all links of the notebook work away from the repository?"""
    links = re.findall(r"\]\(([^)]+)\)", sources_of(release))
    assert len(links) >= 3
    assert all(link.startswith("https://") for link in links)


# ---------------------------------------------------------------------------------------------- cells, ids, points


def test_cell_ids_are_grade_ids(assignment: Assignment) -> None:
    """Does each cell of nbgrader's carry its grade id as cell id, and is none there twice?"""
    for notebook in (assignment.instructor, assignment.release):
        ids = [cell.id for cell in notebook.cells]
        assert len(set(ids)) == len(ids)
        assert all(cell.id == cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata)
        nbformat.validate(notebook)


def test_points_add_up(assignment: Assignment) -> None:
    """Are there 15 points by tests, one for each hidden check, and 5 by hand?"""
    by_test = [c for c in assignment.release.cells if is_grade(c) and not is_solution(c)]
    by_hand = [c for c in assignment.release.cells if is_grade(c) and is_solution(c)]
    stages = [f"{name}_{stage}" for name, e in build.exercises_of("attention").items() for stage in e.stages]
    assert [cell.id for cell in by_test] == stages
    assert [cell.metadata.nbgrader.points for cell in by_test] == [1] * 15
    assert sum(cell.metadata.nbgrader.points for cell in by_hand) == 5


def test_points_in_the_text_agree(assignment: Assignment) -> None:
    """Does the table at the top promise the points that the cells have?"""
    top = assignment.release.cells[0].source
    for number, (name, exercise) in enumerate(build.exercises_of("attention").items(), 1):
        assert f"| {number} `{name}` | {len(exercise.stages)} |" in top
    assert "| 5 written questions | 5 |" in top
    for cell in assignment.release.cells:
        if is_grade(cell) and not is_solution(cell):
            assert cell.source.startswith(f"# {cell.metadata.nbgrader.points} point")


def test_locked_cells_are_those_that_students_leave_alone(assignment: Assignment) -> None:
    """Are set-up and tests locked, and answers not?"""
    for cell in assignment.release.cells:
        if "nbgrader" in cell.metadata:
            assert is_locked(cell) != is_solution(cell), cell.id
    answers = [c.id for c in assignment.release.cells if is_solution(c) and c.cell_type == "code"]
    assert tuple(answers) == EXERCISES


# ------------------------------------------------------------------------------------------------ the set-up cell


def setup_of(assignment: Assignment) -> str:
    """Return the source of the set-up cell."""
    return next(cell.source for cell in assignment.release.cells if cell.id == "setup")


def helper() -> str:
    """Return what the set-up cell takes from autograder/compare.py."""
    return inspect.getsource(compare).split('"""', 2)[2].strip()


def test_setup_helper_is_short(assignment: Assignment) -> None:
    """Has the helper at most 60 lines, and is it autograder/compare.py word for word?"""
    assert sum(bool(line.strip()) for line in helper().splitlines()) <= 60
    assert helper() in setup_of(assignment)


def test_setup_table_is_small(assignment: Assignment) -> None:
    """Does the table of frozen results stay below 14 kB, so that the notebook stays one that can be read?"""
    table = re.search(r"TABLE = '''(.*?)'''", setup_of(assignment), re.DOTALL)[1]
    assert 1000 < len(table.encode()) < 14_000
    assert set(json.loads(table)) == set(EXERCISES)


def test_setup_is_folded_and_locked(assignment: Assignment) -> None:
    """Does Colab fold the set-up cell, and does JupyterLab?"""
    cell = next(cell for cell in assignment.release.cells if cell.id == "setup")
    assert cell.source.startswith("#@title")
    assert cell.metadata.cellView == "form"
    assert cell.metadata.jupyter.source_hidden
    assert is_locked(cell)


def test_setup_holds_values_and_no_code_of_the_answers(assignment: Assignment) -> None:
    """Does the set-up cell compute no exponential, no product of queries and keys, and define no exercise?"""
    tree = ast.parse(setup_of(assignment))
    defined = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and hasattr(node, "name")
    }
    assert defined == {"outcome", "fingerprint", "alike", "difference", "judge"}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"exp", "softmax", "einsum", "matmul", "swapaxes", "sqrt", "where"}


def test_setup_table_gives_expected_values_for_the_visible_inputs_alone(assignment: Assignment) -> None:
    """Do the frozen results belong to the visible inputs, and to none that a hidden check draws?"""
    table = json.loads(re.search(r"TABLE = '''(.*?)'''", setup_of(assignment), re.DOTALL)[1])
    for name, test in table.items():
        exercise = build.exercises_of("attention")[name]
        assert [case["name"] for case in test["cases"]] == [f"{name}, {case.name}" for case in exercise.visible(None)]


# ------------------------------------------------------------------------------------------------- stale files


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of sources, grader and generated files, in which every generated file is fresh."""
    monkeypatch.setattr(build, "kill_matrix", lambda name, stem, seed: matrix_of(seed))  # for the page of mistakes
    root = tmp_path / "copy"
    root.mkdir()
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, root)
    for name in ("autograder", "solutions", "book", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.ipynb"))
    for path, text in build.build_all(root).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    assert stale_files(root) == []
    return root


def check_in(root: Path) -> subprocess.CompletedProcess[str]:
    """Run `autograder build --check` in a copy of the tree, with the grader of that copy."""
    environment = os.environ | {"PYTHONPATH": str(root), "COLUMNS": "300"}
    command = [sys.executable, "-m", "autograder", "build", "--check"]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)


def test_stale_files_notices_changed_sources(tree: Path) -> None:
    """Are the notebooks stale when the text of a chapter, or the docstring of an answer, which specifies it, changed?"""
    answers, chapter = tree / "solutions" / "attention.py", tree / "book" / "softmax.md"
    answers.write_text(ANSWERS.replace("Mix values by how well", "Blend values by how well"), encoding="utf-8")
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\nOne sentence more.\n", encoding="utf-8")
    assert stale_files(tree) == [Path("exercises") / NOTEBOOK, Path("book") / "softmax.ipynb"]


def test_build_check_names_the_file_and_the_mend(tree: Path) -> None:
    """Does the command name each stale file and what to do, exit with 1, and change nothing?"""
    edited, missing = tree / "exercises" / NOTEBOOK, tree / "book" / "softmax.ipynb"
    edited.write_text(edited.read_text(encoding="utf-8").replace("You build", "You will build"), encoding="utf-8")
    before = edited.read_bytes()
    missing.unlink()
    stale = check_in(tree)
    assert stale.returncode == 1
    assert stale.stderr.strip().splitlines() == [
        f'{path} is stale: its source changed, or it was edited by hand. Run "make exercises".'
        for path in (f"exercises/{NOTEBOOK}", "book/softmax.ipynb")
    ]
    assert edited.read_bytes() == before, "--check changed a file"
    assert not missing.exists(), "--check wrote a file"


# --------------------------------------------------------------------------------------------------- bad sources


def test_exercise_cell_refuses_an_unknown_function() -> None:
    """Does a cell that asks for an answer that is not there stop the build, naming file and function?"""
    with pytest.raises(ValueError, match=r"attention\.py has no function softmin"):
        exercise_cell(ROOT / "solutions" / "attention.py", "softmin")


def test_exercise_cell_marks_the_body_alone() -> None:
    """Does the instructor's cell hold docstring, markers and body, in this order?"""
    text = exercise_cell(ROOT / "solutions" / "attention.py", "softmax")
    assert text.index('"""') < text.index("### BEGIN SOLUTION") < text.index("np.exp") < text.index("### END SOLUTION")
    ast.parse(text)

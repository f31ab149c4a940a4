"""Build the notebooks: exercises from `exercises/*/*.py` and `solutions/`, chapters for Colab from `book/*.md`.

The result has the same bytes on every processor, so that `autograder build --check` can recognise a stale file.
"""

import ast
import contextlib
import hashlib
import io
import logging
import re
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from traitlets.config import Config

from autograder.imports import ROOT
from autograder.judge.catalogue import address_of_book
from autograder.judge.mistake import changed_text, variants_of
from autograder.progress import Progress
from autograder.publish.chapters import build_chapters
from autograder.publish.generated import MISTAKES, exercise_of, frozen_of, sources, sources_of, stale
from autograder.publish.tests_wheel import WHEEL, wheel_of

PAGE_SEED = 0  # seed of the inputs for the page of known mistakes
WRITTEN = Path("solutions/written.md")
WRITTEN_STUB = "*Write your answer here.*"


def instructor_notebook(source: Path, setup: str | None = None) -> nbformat.NotebookNode:
    """Fill an instructor notebook: answers from `solutions/`, the set-up cell, and the metadata that nbgrader reads.

    Args:
        source: The notebook as text.
        setup: The text of the set-up cell. If it is None, the text is made, which takes seconds.

    Raises:
        ValueError: a cell asks for an answer that the module does not have.
    """
    answers = ROOT / "solutions" / source.name
    cells = [_fill(cell, index, answers, setup) for index, cell in enumerate(cells_of(source))]
    kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernelspec, "language_info": {"name": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)


HIDDEN = """{text}
### BEGIN HIDDEN TESTS
from autograder.checks.{stem}.{part} import check; check({arguments})
### END HIDDEN TESTS"""
STAGE = re.compile(r"^# (\w+): (.+)$", re.M)


def cells_of(source: Path) -> list[nbformat.NotebookNode]:
    """Return the cells of a notebook that is written as text.

    Each line `# STAGE: what is checked` at the end of a visible test becomes a hidden test of one point. A cell
    `grade="NAME_STAGE"` becomes a hidden test with its own points. A cell `program="NAME"` shows the symptom of a
    program that students fix: the program is put before this cell, and a visible test after it. STAGE lines at this
    cell's end become hidden tests. If an exercise says `bonus=true`, its tests are a bonus too.
    """
    cells, bonus, tested = [], set(), ""
    for cell in jupytext.read(source, fmt="py:percent").cells:
        if "bonus" in cell.metadata:
            bonus.add(cell.metadata["exercise"])
        if "program" in cell.metadata:
            cells += _cells_of_program(cell, source.stem)
        elif (name := cell.metadata.get("visible")) is not None:
            shared = cell.metadata | ({"bonus": True} if name in bonus else {})
            tested = name
            cells += _tests_of(name, cell.source, source.stem, shared)
        elif "grade" in cell.metadata:
            test = _graded_test(cell, source.stem, tested)
            cells.append(nbformat.v4.new_code_cell(test, metadata=cell.metadata))
        else:
            cells.append(cell)
    return cells


def _tests_of(name: str, text: str, stem: str, metadata: dict[str, Any]) -> list[nbformat.NotebookNode]:
    """Return the cell of a visible test, and the cell of a hidden test for each stage that its last lines name."""
    shared = {"bonus": True} if "bonus" in metadata else {}
    cells = [nbformat.v4.new_code_cell(STAGE.sub("", text).rstrip(), metadata={"visible": name} | shared)]
    for stage, what in STAGE.findall(text):
        comment = f"# 1 {'bonus point' if 'bonus' in shared else 'point'}, judged after you submit: {what}"
        test = _hidden_test(comment, stem, name, stage, metadata.get("own"))
        cells.append(nbformat.v4.new_code_cell(test, metadata={"grade": f"{name}_{stage}", "points": 1} | shared))
    return cells


def _graded_test(cell: nbformat.NotebookNode, stem: str, tested: str) -> str:
    """Return the hidden test of a cell with its own points. It tests a file, or the last exercise that had a visible test."""
    if "file" in cell.metadata:
        least = cell.metadata.get("least", "")
        return HIDDEN.format(text=cell.source, stem=stem, part="checkpoint", arguments=least)
    name, _, stage = cell.metadata["grade"].partition(f"{tested}_")
    if name or not tested or not stage:
        raise ValueError(
            f'{stem}: grade="{cell.metadata["grade"]}" comes after the visible test of {tested or "nothing"}'
        )
    return _hidden_test(cell.source, stem, tested, stage)


def _hidden_test(text: str, stem: str, name: str, stage: str, own: str | None = None) -> str:
    """Return the hidden test of a stage. With `own`, the test also gets this object of the student."""
    arguments = [f'"{name}"', f'"{stage}"', name, *([own] if own else [])]
    return HIDDEN.format(text=text, stem=stem, part="exercises", arguments=", ".join(arguments))


def _cells_of_program(cell: nbformat.NotebookNode, stem: str) -> list[nbformat.NotebookNode]:
    name = cell.metadata["program"]
    shown = STAGE.sub("", cell.source).rstrip()
    test = f'run_tests("{name}", {name})' + cell.source.removeprefix(shown)
    own = [nbformat.v4.new_code_cell("", metadata={"broken": name}), nbformat.v4.new_code_cell(shown)]
    return own + _tests_of(name, test, stem, {})


def _file_of_given(answers: Path, name: str) -> Path:
    """Return the file with code that a notebook gives to students: that of the answers, or one of the visible tests."""
    tests = sorted((ROOT / "exercises/attention_tests").glob("*.py"))
    definition = re.compile(rf"^(def|class) {name}\b", re.M)
    return next((file for file in (answers, *tests) if definition.search(file.read_text(encoding="utf-8"))), answers)


def _fill(cell: nbformat.NotebookNode, index: int, answers: Path, setup: str | None) -> nbformat.NotebookNode:
    given = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
    kind = next(
        (key for key in ("setup", "given", "exercise", "broken", "visible", "grade", "written") if key in given), None
    )
    name = {None: f"text_{index:02}", "setup": "setup", "visible": f"test_{given.get('visible')}"}.get(
        kind, given.get(kind)
    )
    text, metadata = cell.source, {}
    if kind == "setup":
        text = setup or _setup_cell(given["setup"])
        metadata = {"tests": given["setup"]}
    elif kind == "given":
        text = re.sub(r"\n +### (BEGIN|END) SOLUTION", "", exercise_cell(_file_of_given(answers, name), name))
        metadata = {"given": True}
    elif kind == "exercise":
        text = exercise_cell(answers, name)
    elif kind == "broken":
        text, metadata = program_cell(answers.stem, name, broken=False), {"broken": True}
    elif kind == "written":
        text = written_answer(name)
    elif cell.cell_type == "markdown":
        text = _absolute_links(text)
    if kind:
        metadata["nbgrader"] = {
            "grade": kind in ("grade", "written"),
            "grade_id": name,
            "locked": kind in ("setup", "given", "visible", "grade"),
            "schema_version": 3,
            "solution": kind in ("exercise", "broken", "written"),
            "task": False,
        }
        if "points" in given:
            metadata["nbgrader"]["points"] = 0 if "bonus" in given else given["points"]
        if "bonus" in given:
            metadata["bonus"] = given.get("points", True)
        if "file" in given:  # the file is submitted next to the notebook, and this cell judges it
            metadata |= {"file": given["file"], "checks": answers.stem}
    new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    return new(text, id=name.replace(" ", "-"), metadata=metadata)


def _setup_cell(stem: str) -> str:
    from autograder.publish.visible_tests import setup_cell  # imports PyTorch, which takes seconds

    return setup_cell(stem, f"{address_of_book()}{WHEEL}#sha256={hashlib.sha256(wheel_of(ROOT)).hexdigest()}")


def written_answer(name: str) -> str:
    """Return the answer to a written question and, between markers, its rubric."""
    sections = (ROOT / WRITTEN).read_text(encoding="utf-8").split("\n## ")
    section = next((text for text in sections if text.startswith(f"{name}\n")), None)
    if section is None:
        raise ValueError(f"{WRITTEN} has no section {name}; add it, or correct the cell that asks for it")
    answer, _, points = section.removeprefix(name).partition("\n### Points\n")
    return f"{answer.strip()}\n\n=== BEGIN MARK SCHEME ===\n{points.strip()}\n=== END MARK SCHEME ==="


def exercise_cell(answers: Path, name: str) -> str:
    """Return the source of a function or class. Each function body is between nbgrader's solution markers."""
    text = answers.read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.ClassDef)
    definition = next((node for node in ast.parse(text).body if isinstance(node, kinds) and node.name == name), None)
    if definition is None:
        raise ValueError(f"{answers} has no function {name}; add it, or correct the cell that asks for it")
    lines = text.splitlines()
    functions = [definition] if isinstance(definition, ast.FunctionDef) else definition.body
    for node in (node for node in reversed(functions) if isinstance(node, ast.FunctionDef)):
        first = node.body[1 if ast.get_docstring(node) else 0]
        indent = " " * first.col_offset
        lines.insert(node.end_lineno, f"{indent}### END SOLUTION")
        lines.insert(first.lineno - 1, f"{indent}### BEGIN SOLUTION")
    markers = 2 * sum(isinstance(node, ast.FunctionDef) for node in functions)
    return re.sub(r"\bArray\b", "np.ndarray", "\n".join(lines[definition.lineno - 1 : definition.end_lineno + markers]))


def program_cell(stem: str, name: str, broken: bool) -> str:
    """Return the source of a program that students fix: the correct program, or the one with the fault."""
    from autograder.judge.exercise import exercises_of  # imports PyTorch, which takes seconds

    exercise = exercises_of(stem)[name]
    changes = variants_of(name, exercise.known)[exercise.fault].changes if broken else ()
    text = changed_text(Path(exercise.answers.__file__), name, changes)
    definition = next(node for node in ast.parse(text).body if getattr(node, "name", "") == name)
    return "\n".join(text.splitlines()[definition.lineno - 1 : definition.end_lineno])


def _absolute_links(text: str) -> str:
    """Let links to chapters lead to the published book: on Colab there is no repository next to the notebook."""
    return re.sub(r"\]\((book/\w+)\.md\)", rf"]({address_of_book()}\1.html)", text)


def build_assignment(source: Path) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode]:
    """Return the instructor notebook of an assignment, and the students' notebook that nbgrader makes from it."""
    from nbgrader.converters import GenerateAssignment  # takes seconds to import
    from nbgrader.coursedir import CourseDirectory

    instructor, name = instructor_notebook(source), source.parent.name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "source", name, f"{source.stem}.ipynb")
        path.parent.mkdir(parents=True)
        nbformat.write(instructor, path)
        config = Config()
        config.CourseDirectory.root = folder
        config.CourseDirectory.assignment_id = name
        config.GenerateAssignment.no_database = True
        config.ClearSolutions.text_stub = WRITTEN_STUB
        config.GenerateAssignment.preprocessors = [
            step for step in GenerateAssignment.preprocessors.default() if step.__name__ != "SaveCells"
        ]
        GenerateAssignment(coursedir=CourseDirectory(config=config), config=config).start()
        release = nbformat.read(Path(folder, "release", name, path.name), 4)
    for cell in release.cells:
        if cell.metadata.get("broken"):  # nbgrader has replaced the program with a stub
            cell.source = program_cell(source.stem, cell.id, broken=True)
    return instructor, release


def load_notebooks(name: str) -> tuple[str, nbformat.NotebookNode, nbformat.NotebookNode]:
    """Return an assignment's stem, its instructor notebook and its students' notebook.

    If nothing changed, the students' notebook is read from its file.

    Raises:
        ValueError: there is no such assignment.
    """
    source = sources_of(name)[name]
    if not stale(ROOT, exercise_of(source)):
        release = nbformat.read(ROOT / exercise_of(source), 4)
        setup = next(cell.source for cell in release.cells if cell.id == "setup")
        return source.stem, instructor_notebook(source, setup), release
    return source.stem, *build_assignment(source)


def page_of_mistakes(progress: Progress = lambda *_: None) -> str:
    """Return the page of known mistakes, made by running every check on every mistake."""
    from autograder.judge.kill_matrix import kept_matrix
    from autograder.judge.mutations import scores_of
    from autograder.publish.mistakes_page import mistakes_page

    with contextlib.redirect_stdout(io.StringIO()):
        matrices = [kept_matrix(source.parent.name, source.stem, PAGE_SEED, progress) for source in sources()]
        scores = []
        for done, matrix in enumerate(matrices):
            progress("mutations", done, len(matrices))
            scores += scores_of(matrix.stem, PAGE_SEED)
        progress("mutations", len(matrices), len(matrices))
        for score in scores:
            for mutation in score.missed:
                words = (
                    "%s: no check notices %s, where line 0 is the def, and its docstring is left out. "
                    "Add a case, or a reason to EQUIVALENT in right_answers.py"
                )
                logging.getLogger(__name__).warning(words, score.exercise, mutation)
        return mistakes_page(matrices, scores)


def build_results(everything: bool = True, progress: Progress = lambda *_: None) -> dict[Path, str]:
    """Return the files with the results that visible tests expect. Arguments as in `build_all`.

    They are made and written first, because each notebook names the digest of the package that holds them.
    """
    from autograder.publish.visible_tests import frozen_file  # as above

    of_all, files = sources(), {}
    outdated = {frozen_of(source) for source in of_all} if everything else stale()
    for done, source in enumerate(of_all):
        progress("results", done, len(of_all))
        if frozen_of(source) in outdated:
            exercises = [cell.metadata for cell in cells_of(source) if "exercise" in cell.metadata]
            bonus = [each["exercise"] for each in exercises if "bonus" in each]
            files[frozen_of(source)] = frozen_file(source.stem, bonus)
    progress("results", len(of_all), len(of_all))
    return files


def build_all(everything: bool = True, progress: Progress = lambda *_: None) -> dict[Path, str]:
    """Return every other generated file that git tracks, as text by path relative to the root.

    Args:
        everything: Whether to make all files again, even if their sources did not change.
        progress: Called as the work goes on.
    """
    of_all, files = sources(), {}
    old = {exercise_of(source) for source in of_all} | {MISTAKES}
    outdated = old if everything else stale()
    for done, source in enumerate(of_all):
        progress("notebooks", done, len(of_all))
        if exercise_of(source) in outdated:
            _, release = build_assignment(source)
            files[exercise_of(source)] = nbformat.writes(release) + "\n"
    progress("notebooks", len(of_all), len(of_all))
    if MISTAKES in outdated:
        files[MISTAKES] = page_of_mistakes(progress)
    files |= {path: (ROOT / path).read_text(encoding="utf-8") for path in sorted(old - files.keys())}
    return files | {path.relative_to(ROOT): text for path, text in build_chapters(ROOT).items()}


def stale_files(root: Path = ROOT) -> list[Path]:
    """Return the generated files that are missing, were edited by hand, or whose sources changed since they were made."""
    chapters = build_chapters(root).items()
    changed = [path for path, text in chapters if not path.exists() or path.read_text(encoding="utf-8") != text]
    return [*stale(root), *(path.relative_to(root) for path in changed)]

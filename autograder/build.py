"""From the sources to the notebooks: `solutions/` to the instructor's notebook and to `exercises/`, `book/*.md` to Colab.

All is deterministic to the byte, so that `autograder build --check` can tell a stale file.
"""

import ast
import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import nbformat
import yaml
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder import catalogue, compare
from autograder.colab import build_chapters
from autograder.exercise import Exercise, checks_of, exercises_of
from autograder.mutants import kill_matrix, mistakes_page

ROOT = Path(__file__).resolve().parent.parent
PAGE_SEED = 0  # of the inputs behind the page of known mistakes
WRITTEN_STUB = "*Write your answer here.*"

SETUP = """#@title Set-up: run this cell first {{ display-mode: "form" }}
{helper}

{tests}
TESTS = {{name: {{**test, "messages": MESSAGES}} for name, test in json.loads(TABLE).items()}}
print(f"Ready: {version}. This notebook needs no GPU and nothing but {needs}.")
"""


def sources(root: Path = ROOT) -> list[Path]:
    """Return the instructor notebooks as text, one for each assignment: solutions/1_attention/attention.py, …"""
    return sorted(path for path in root.glob("solutions/[0-9]*/*.py"))


def instructor_notebook(source: Path, root: Path = ROOT) -> nbformat.NotebookNode:
    """Fill an instructor notebook: answers from `solutions/`, the set-up cell, and the metadata that nbgrader reads.

    Raises:
        ValueError: a cell asks for an answer that the module does not have.
    """
    notebook = jupytext.read(source)
    answers = root / "solutions" / source.name
    cells = [_fill(cell, index, answers, root) for index, cell in enumerate(notebook.cells)]
    kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernelspec, "language_info": {"name": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)


def _fill(cell: nbformat.NotebookNode, index: int, answers: Path, root: Path) -> nbformat.NotebookNode:
    given = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
    kind = next((key for key in ("setup", "given", "exercise", "visible", "grade", "written") if key in given), None)
    name = {None: f"text_{index:02}", "setup": "setup", "visible": f"test_{given.get('visible')}"}.get(
        kind, given.get(kind)
    )
    text, metadata = cell.source, {}
    if kind == "setup":
        text = setup_cell(given["setup"])
        metadata = {"cellView": "form", "jupyter": {"source_hidden": True}}
    elif kind == "given":
        text = re.sub(r"\n +### (BEGIN|END) SOLUTION", "", exercise_cell(answers, name))
        metadata = {"given": True}
    elif kind == "exercise":
        text = exercise_cell(answers, name)
    elif cell.cell_type == "markdown":
        text = _absolute_links(text, root)
    if kind:
        metadata["nbgrader"] = {
            "grade": kind in ("grade", "written"),
            "grade_id": name,
            "locked": kind in ("setup", "given", "visible", "grade"),
            "schema_version": 3,
            "solution": kind in ("exercise", "written"),
            "task": False,
        }
        if "points" in given:
            metadata["nbgrader"]["points"] = given["points"]
        if "file" in given:  # handed in beside the notebook, and judged by this cell
            metadata["file"] = given["file"]
    new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    return new(text, id=name.replace(" ", "-"), metadata=metadata)


def exercise_cell(answers: Path, name: str) -> str:
    """Return the source of an answer, a function or a class, with its bodies between nbgrader's solution markers."""
    text = answers.read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = next((node for node in ast.parse(text).body if isinstance(node, kinds) and node.name == name), None)
    if found is None:
        raise ValueError(f"{answers} has no function {name}; add it, or correct the cell that asks for it")
    lines = text.splitlines()
    functions = [found] if isinstance(found, ast.FunctionDef) else found.body
    for node in (node for node in reversed(functions) if isinstance(node, ast.FunctionDef)):
        first = node.body[1 if ast.get_docstring(node) else 0]
        indent = " " * first.col_offset
        lines.insert(node.end_lineno, f"{indent}### END SOLUTION")
        lines.insert(first.lineno - 1, f"{indent}### BEGIN SOLUTION")
    markers = 2 * sum(isinstance(node, ast.FunctionDef) for node in functions)
    return re.sub(r"\bArray\b", "np.ndarray", "\n".join(lines[found.lineno - 1 : found.end_lineno + markers]))


def setup_cell(stem: str) -> str:
    """Return the set-up cell: the comparison of `autograder/compare.py` and the frozen outcomes of the visible tests.

    The modules that the checks call HELPERS stand there too.
    """
    helpers = getattr(checks_of(stem), "HELPERS", ())
    helper = "\n\n\n".join(["import json\n\n" + _below_docstring(compare), *map(_below_docstring, helpers)])
    tests = {name: frozen_tests(exercise) for name, exercise in exercises_of(stem).items()}
    used = sorted(
        {name.split("/")[0] for test in tests.values() for case in test["cases"] for name in _named(case)}, key=_number
    )
    messages = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(catalogue.MESSAGES[name], ensure_ascii=False)}" for name in used
    )
    table = (
        json.dumps(tests, separators=(",", ":"))
        .replace('{"name":', '\n{"name":')
        .replace('"mistakes":', '\n"mistakes":')
    )
    ready = (
        ("PyTorch {torch.__version__}", "PyTorch") if helpers else ("NumPy {np.__version__}", "NumPy and Matplotlib")
    )
    return SETUP.format(
        helper=helper,
        tests=f"MESSAGES = {{\n{messages},\n}}\n\nTABLE = '''{table}'''",
        version=ready[0],
        needs=ready[1],
    ).rstrip()


def _below_docstring(module: ModuleType) -> str:
    return module.__loader__.get_source(module.__name__).split('"""', 2)[2].strip()


def frozen_tests(exercise: Exercise) -> dict[str, Any]:
    """Return the visible tests of an exercise as plain values: inputs, right results, and each mistake's fingerprint."""
    cases = [dict(case) for case in exercise.visible_cases()]
    for case in cases:
        case["arguments"] = [
            argument.tolist() if hasattr(argument, "tolist") else argument for argument in case["arguments"]
        ]
        if "error" in case["expected"]:
            case["expected"] = {"error": case["expected"]["error"]}
        else:
            arrays = {name: _rounded(array.tolist(), 7) for name, array in case["expected"]["arrays"].items()}
            case["expected"] = {"arrays": arrays}
        case["mistakes"] = {name: _rounded(marks, 5) for name, marks in case["mistakes"].items()}
        if case["otherwise"] is None:
            del case["otherwise"]
        del case["tells"]  # `prepare` has heeded it
    _drop_repeated(cases)
    return {"names": list(exercise.names), "cases": cases}


def _named(case: dict[str, Any]) -> list[str]:
    return [*case["mistakes"], *filter(None, [case.get("otherwise")])]


def _number(name: str) -> int:
    return int(name[1:])


def _drop_repeated(cases: list[dict[str, Any]]) -> None:
    """Drop a second way of making a mistake that gives in every case what the first gives."""
    first: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(name for case in cases for name in case["mistakes"]):
        first.setdefault((name.split("/")[0], json.dumps([case["mistakes"].get(name) for case in cases])), name)
    for case in cases:
        case["mistakes"] = {name: marks for name, marks in case["mistakes"].items() if name in first.values()}


def _rounded(value: Any, digits: int) -> Any:
    return [_rounded(item, digits) for item in value] if isinstance(value, list) else float(f"{value:.{digits}g}")


def _absolute_links(text: str, root: Path) -> str:
    """Let links to chapters lead to the published book: on Colab there is no repository beside the notebook."""
    base = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["html"]["baseurl"].rstrip("/")
    return re.sub(r"\]\((book/\w+)\.md\)", rf"]({base}/\1.html)", text)


def build_assignments(root: Path = ROOT, only: str | None = None) -> tuple[dict[Path, str], dict[Path, str]]:
    """Return the instructor notebooks and, made from them by nbgrader, the students', as texts by relative path.

    Args:
        root: Of the repository.
        only: The name of an assignment; all of them by default.
    """
    instructor = {}
    for source in (source for source in sources(root) if only in (None, source.parent.name)):
        notebook = instructor_notebook(source, root)
        instructor[Path(source.parent.name) / f"{source.stem}.ipynb"] = nbformat.writes(notebook) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        for path, text in instructor.items():
            (course / "source" / path).parent.mkdir(parents=True, exist_ok=True)
            (course / "source" / path).write_text(text, encoding="utf-8")
        config = Config()
        config.CourseDirectory.root = folder
        config.GenerateAssignment.no_database = True
        config.ClearSolutions.text_stub = WRITTEN_STUB
        config.GenerateAssignment.preprocessors = [
            step for step in GenerateAssignment.preprocessors.default() if step.__name__ != "SaveCells"
        ]
        for assignment in sorted({path.parent.name for path in instructor}):
            config.CourseDirectory.assignment_id = assignment
            GenerateAssignment(coursedir=CourseDirectory(config=config), config=config).start()
        release = {path: _clean((course / "release" / path).read_text(encoding="utf-8")) for path in instructor}
    return instructor, release


def _clean(text: str) -> str:
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    return nbformat.writes(notebook) + "\n"


def build_all(root: Path = ROOT) -> dict[Path, str]:
    """Return every generated file that git tracks, as text by path relative to the root."""
    _, release = build_assignments(root)
    files = {Path("exercises") / path: text for path, text in release.items()}
    files.update(
        {path.relative_to(root) if path.is_absolute() else path: text for path, text in build_chapters(root).items()}
    )
    with contextlib.redirect_stdout(io.StringIO()):
        matrices = [kill_matrix(source.parent.name, source.stem, PAGE_SEED) for source in sources(root)]
    files[Path("book/mistakes.md")] = mistakes_page(matrices)
    return files


def stale_files(root: Path = ROOT) -> list[Path]:
    """Return the generated files that are missing or differ from what their sources give."""
    return [
        path
        for path, text in build_all(root).items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]

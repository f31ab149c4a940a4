"""What a student may run before handing in: the grader's mending, and the visible tests, in words."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.boundary.sandbox import Limits
from autograder.checks import checkpoint
from autograder.course import MAX_BYTES, MAX_FILE, read_plain_file
from autograder.execute import execute
from autograder.mend import Unreadable, mend


def matching_release(data: bytes, exercises: Path) -> tuple[str, NotebookNode]:
    """Return the released notebook whose cells a file has, by the cells' names and texts.

    Raises:
        ValueError: there is no released notebook.
    """
    text = data.decode("utf-8", errors="replace")
    best: tuple[int, str, NotebookNode] | None = None
    for path in sorted(exercises.glob("*/*.ipynb")):
        release = nbformat.read(path, as_version=4)
        names = [cell.metadata.nbgrader.grade_id for cell in release.cells if "nbgrader" in cell.metadata]
        score = sum(f'"{name}"' in text or f"def {name}(" in text for name in names)
        if best is None or score > best[0]:
            best = (score, path.parent.name, release)
    if best is None:
        raise ValueError(f'{exercises} holds no notebook; run "make exercises"')
    return best[1], best[2]


def submit_check(path: Path, exercises: Path, sandboxed: bool) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Mend a notebook as the grader would, run it, and say what the visible tests see.

    Args:
        path: The file that is to be handed in. It is not changed.
        exercises: The folder of released notebooks.
        sandboxed: Whether to run it in the grader's sandbox; a student's own file needs none.

    Returns:
        The assignment, what would be mended, and for each visible test, and each file that is handed in beside the
        notebook, its name and what there is to say ("" where all is well).

    Raises:
        Unreadable: no notebook can be made of the file.
        ValueError: there is no released notebook.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
    assignment, release = matching_release(data, exercises)
    mended = mend(data, release, release)
    done = execute(mended.notebook, seed=0, limits=Limits(), sandboxed=sandboxed)
    said = []
    for cell in done.notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if name.startswith("test_"):
            errors = [output.evalue for output in cell.outputs if output.output_type == "error"]
            said.append((name.removeprefix("test_"), errors[0] if errors else ""))
        elif cell.cell_type == "code" and not name.endswith("setup"):
            for output in cell.outputs:
                if output.output_type == "error" and output.ename != "NotImplementedError":
                    said.append(
                        (f"the cell {name or cell.source.splitlines()[0][:40]}", f"{output.ename}: {output.evalue}")
                    )
    asked = dict.fromkeys(cell.metadata["file"] for cell in release.cells if "file" in cell.metadata)
    return assignment, mended.receipt, said + [(name, _look_at(path.with_name(name), sandboxed)) for name in asked]


def _look_at(path: Path, sandboxed: bool) -> str:
    """Say what is wrong with a file that is handed in beside the notebook; nothing if it can be used."""
    try:
        content = read_plain_file(path, MAX_FILE) if path.exists() else None
    except Unreadable as error:
        content = str(error)
    return checkpoint.read(path.name, content, Limits(), sandboxed)[1]

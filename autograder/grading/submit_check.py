"""What a student may run before handing in: the grader's mending, and the visible tests, in words."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.boundary.kernel import Kernel, KernelLost
from autograder.boundary.sandbox import Limits
from autograder.cells import files_of, grade_id, is_grade, is_locked, is_solution
from autograder.files import MAX_BYTES, MAX_FILE, Unreadable, read_plain_file
from autograder.grading.mend import mend
from autograder.judging.catalogue import checks_of

BARE = "NotImplementedError: "  # the error of a cell that calls an answer which is still the template
LEFT_OUT = "left unwritten, it costs nothing"  # what the visible test of a bonus prints where nothing is written


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
    said = []
    for name, cell, error, printed in _errors(mended.notebook, sandboxed):
        if name.startswith("test_") and is_locked(cell) and not is_grade(cell):
            if error or LEFT_OUT not in printed:
                said.append((name.removeprefix("test_"), error))
        elif error and error != BARE:
            said.append((f"the cell {name or cell.source.splitlines()[0][:40]}", error))
    said += [(name, _look_at(path.with_name(name), stem, sandboxed)) for name, stem in files_of(release.cells).items()]
    return assignment, mended.receipt, said


def _errors(notebook: NotebookNode, sandboxed: bool) -> Iterator[tuple[str, NotebookNode, str, str]]:
    """Run every cell but the set-up as a student does; give the name of each, the cell, its error or nothing, its print.

    A cell that ends the kernel costs no other its answer: a fresh one runs those before it again.
    """
    kernel, ran = None, list[str]()
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()):
        name, error, printed = grade_id(cell), "", ""
        try:
            if kernel is None or kernel.closed:
                kernel = Kernel(Limits(), sandboxed)
                for source in ran:
                    kernel.run_cell(source)
            judged = is_solution(cell) or is_locked(cell)  # which finds nothing that other cells have changed
            for output in kernel.run_cell(cell.source, answers=judged):
                if output.output_type == "error":
                    kind = "" if output.ename in ("AssertionError", "WrongAnswer") else f"{output.ename}: "
                    error = f"{kind}{output.evalue}"
                printed += output.get("text", "")
            ran.append(cell.source)
        except KernelLost as lost:
            error = str(lost)
        if name != "setup":
            yield name, cell, error, printed
    if kernel is not None and not kernel.closed:
        kernel.close()


def _look_at(path: Path, stem: str, sandboxed: bool) -> str:
    """Say what is wrong with a file that is handed in beside the notebook; nothing if it can be used."""
    try:
        content = read_plain_file(path, MAX_FILE) if path.exists() else None
    except Unreadable as error:
        content = str(error)
    return checks_of(stem, "checkpoint").read(path.name, content, Limits(), sandboxed)[1]

"""Check a notebook before it is submitted: run the grader's repair and the visible tests, and report in words."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from autograder.cells import files_of, grade_id, is_grade, is_students, is_test
from autograder.files import MAX_BYTES, MAX_FILE, Unreadable, read_plain_file
from autograder.grade.repair import repair_notebook
from autograder.grade.session import Cell, Session
from autograder.judge.catalogue import checks_of
from autograder.judge.mistake import compiled
from autograder.notebooks import read_notebook
from autograder.recognition import answers_in, names_held, names_in
from autograder.sandbox.host.limits import Limits

BARE = "NotImplementedError: "  # the error of a cell that calls an unwritten answer
CELL = "the cell "  # begins the name of a cell that is not a test
LEFT_OUT = "left unwritten, it costs nothing"  # the visible test of an unwritten bonus prints this


class Preview(NamedTuple):
    """What the grader would do with a notebook."""

    assignment: str
    receipt: list[str]  # what it would repair
    results: list[tuple[str, str]]  # name and message of each visible test and file ("" if all is well)
    questions: list[str]  # what it would ask a person


def matching_release(data: bytes, exercises: Path) -> tuple[str, NotebookNode]:
    """Return the released notebook that a file belongs to, by the names of its cells and what they define.

    Raises:
        Unreadable: the file cannot be read as a notebook.
        ValueError: there is no released notebook.
    """
    held = names_held(read_notebook(data).cells)
    best: tuple[int, str, NotebookNode] | None = None
    for path in sorted(exercises.glob("*/*.ipynb")):
        release = nbformat.read(path, as_version=4)
        score = len(names_in(release).keys() & held)
        if best is None or score > best[0]:
            best = (score, path.parent.name, release)
    if best is None:
        raise ValueError(f'{exercises} holds no notebook; run "make exercises"')
    return best[1], best[2]


def submit_check(path: Path, exercises: Path, sandboxed: bool) -> Preview:
    """Repair a notebook as the grader would, run it, and say what the visible tests see.

    Args:
        path: The file that is to be submitted. It is not changed.
        exercises: The folder of released notebooks.
        sandboxed: Whether to run it in the grader's sandbox; your own file needs no sandbox.

    Raises:
        Unreadable: the file cannot be read as a notebook.
        ValueError: there is no released notebook.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
    assignment, release = matching_release(data, exercises)
    repaired = repair_notebook(data, release, release)
    with closing(Session(Limits(), sandboxed)) as session:
        results, questions = _run_notebook(repaired.notebook, session)
    results += [
        (name, _check_file(path.with_name(name), stem, sandboxed)) for name, stem in files_of(release.cells).items()
    ]
    return Preview(assignment, repaired.receipt + session.left_out, results, repaired.questions + questions)


def _run_notebook(notebook: NotebookNode, session: Session) -> tuple[list[tuple[str, str]], list[str]]:
    """Run every cell, and then the visible tests; return a message about each, and what the grader would ask a person."""
    results, questions = [], []
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    defined, session.chosen = answers_in(cells)
    for index, cell in sorted(enumerate(cells), key=lambda pair: is_test(pair[1])):
        if is_test(cell):
            outputs = session.show(cell.source)
        else:
            outputs = session.run(
                Cell(cell.source, released=not is_students(cell), number=index, defines=tuple(defined[index]))
            )
        error, printed = _error_in(outputs), "".join(output.get("text", "") for output in outputs)
        name = grade_id(cell)
        if is_test(cell) and not is_grade(cell):
            if error or LEFT_OUT not in printed:
                results.append((name.removeprefix("test_"), error))
            for answer in compiled(cell.source, name).co_names if error else ():
                questions.append(session.which_counts(answer, partial(_passes, session, cell.source)))
        elif error not in ("", BARE) and name != "setup":
            results.append((f"{CELL}{name or cell.source.splitlines()[0][:40]}", error))
    return results, list(filter(None, questions))


def _passes(session: Session, test: str) -> bool:
    return not _error_in(session.show(test))


def _error_in(outputs: list[NotebookNode]) -> str:
    """Return the first error of a cell in words; "" if it has none."""
    for output in outputs:
        if output.output_type == "error":
            kind = "" if output.ename in ("AssertionError", "WrongAnswer", "KernelLost") else f"{output.ename}: "
            return f"{kind}{output.evalue}"
    return ""


def _check_file(path: Path, stem: str, sandboxed: bool) -> str:
    """Say what is wrong with a file that is submitted next to the notebook; "" if it can be used."""
    try:
        content = read_plain_file(path, MAX_FILE) if path.exists() else None
    except Unreadable as error:
        content = str(error)
    return checks_of(stem, "checkpoint").read(path.name, content, Limits(), sandboxed)[1]

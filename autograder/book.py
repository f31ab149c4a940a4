"""Build the book, unless nothing changed since it was last built; make the records of chapters."""

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from autograder.imports import ROOT

INPUTS = ("_config.yml", "_toc.yml", "requirements.txt", "book/**/*", "solutions/*.py")


class BookError(RuntimeError):
    """The book was not built; what was wrong has been printed."""


def chapter_environment(root: Path = ROOT) -> dict[str, str]:
    """Return the environment that chapters run in: ours, told where recorded runs and weights lie.

    A chapter runs in a temporary folder, as on Colab, and so cannot find `book/records` by itself.
    """
    environment = os.environ | {"ATTENTION_BOOK_RECORDS": str((root / "book" / "records").resolve())}
    environment.pop("MPLBACKEND", None)  # with any other than the notebook's own, there are no figures
    return environment


def build_book(root: Path = ROOT) -> Path:
    """Build the book with warnings as errors; its chapters run only when their code changed.

    Returns:
        The first page.

    Raises:
        BookError: jupyter-book failed.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in INPUTS for path in root.glob(pattern)}):
        if path.is_file() and path.suffix not in (".ipynb", ".pyc"):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    page, stamp = root / "_build" / "html" / "index.html", root / "_build" / ".stamp"
    if page.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return page
    if not stamp.exists():  # the last build failed or was ended: an unchanged page would not warn again
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
    stamp.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root), "-W", "-n", "--keep-going"]
    if subprocess.run(command, cwd=root, env=chapter_environment(root), check=False).returncode != 0:
        raise BookError("the book was not built; the warnings above say why")
    stamp.write_text(digest.hexdigest(), encoding="utf-8")
    return page


def record_chapter(name: str, root: Path = ROOT, progress: Callable[[str, int, int], None] = lambda *_: None) -> Path:
    """Run a chapter with its long cell, which every build leaves out, and keep what that assigns to `record`.

    The long cell carries the tag `skip-execution`.

    Args:
        name: Of the chapter: encoder.
        root: Of the repository.
        progress: Called as its cells end.

    Returns:
        The file of the record, book/records/NAME.json.

    Raises:
        BookError: the chapter has no such cell, or it failed.
    """
    import jupytext
    import torch
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell

    from solutions.training import describe_machine

    notebook = jupytext.read(root / "book" / f"{name}.md")
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    long = [place for place, cell in enumerate(cells) if "skip-execution" in cell.metadata.get("tags", [])]
    if len(long) != 1:
        raise BookError(f"book/{name}.md has {len(long)} cells with the tag skip-execution; a record is made by one")
    notebook.cells = [*cells[: long[0] + 1], new_code_cell("import json\nprint(json.dumps(record))")]
    done = iter(range(1, len(notebook.cells) + 1))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            skip_cells_with_tag="",
            resources={"metadata": {"path": folder}},
            on_cell_executed=lambda **_: progress("cells", next(done), len(notebook.cells)),
        )
        os.environ.update(chapter_environment(root))
        try:
            client.execute()
        except CellExecutionError as error:
            raise BookError(f"book/{name}.md failed:\n{error}") from None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    evidence = {
        "chapter": name,
        "command": f"autograder record {name}",
        "machine": describe_machine(torch.device("cpu")),
    }
    found = evidence | {
        "cpu_seconds": round(seconds),
        "results": json.loads(notebook.cells[-1].outputs[0].text),
    }
    path = root / "book" / "records" / f"{name}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path

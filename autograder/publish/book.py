"""Build the book if something has changed since the last build; make the records of chapters."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from autograder.imports import ROOT, digest_of
from autograder.progress import Progress
from autograder.publish.tests_wheel import WHEEL, wheel_of
from autograder.setup_environment import BROWSERS

INPUTS = (
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "book/**/*",
    "solutions/**/*.py",
    "autograder/checks/**/*.py",
    "autograder/publish/wrong_lines.py",
)
FIGURES = "book/_ext/chapter_figures.py"  # a kernel runs this file before it runs a chapter
REPORT = "import json, time\nprint(json.dumps({'cpu_seconds': round(time.process_time()), 'results': record}))"
NO_BROWSER = 'a browser prints the PDF, and there is none: "apt-get install chromium", or Google Chrome on Ubuntu'


class BookError(RuntimeError):
    """The book was not built; the cause has been printed."""


def chapter_environment(root: Path = ROOT) -> dict[str, str]:
    """Return the environment in which chapters run: the current one, with the folder of recorded runs and weights.

    A chapter runs in a temporary folder, as on Colab, and so cannot find `book/records` by itself.
    """
    environment = os.environ | {
        "ATTENTION_BOOK_RECORDS": str((root / "book" / "records").resolve()),
        "PYTHONSTARTUP": str((root / FIGURES).resolve()),
    }
    environment.pop("MPLBACKEND", None)  # only the notebook's own backend shows figures
    return environment


def build_book() -> Path:
    """Build the book with warnings as errors; return its first page. Chapters run only when their code changed.

    Raises:
        BookError: the book was not built.
    """
    inputs = {path for pattern in INPUTS for path in ROOT.glob(pattern) if path.suffix not in (".ipynb", ".pyc")}
    digest = digest_of(filter(Path.is_file, inputs))
    page, stamp = ROOT / "_build" / "html" / "index.html", ROOT / "_build" / ".stamp"
    if page.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        _put_wheel()
        return page
    cache = ROOT / "_build" / ".jupyter_cache"  # it compares only the code of chapters
    if cache.exists() and cache.stat().st_mtime < (ROOT / FIGURES).stat().st_mtime:
        shutil.rmtree(cache)
    _run_chapters(cache)
    # Sphinx does not read unchanged pages again. After a failed or interrupted build, their warnings would be missing.
    if not stamp.exists():
        shutil.rmtree(ROOT / "_build" / ".doctrees", ignore_errors=True)
    # Sphinx copies changed styles and scripts only when it writes a page.
    (ROOT / "_build" / "html" / "book" / "intro.html").unlink(missing_ok=True)
    stamp.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(ROOT), "-W", "-n", "--keep-going"]
    if subprocess.run(command, cwd=ROOT, env=chapter_environment(), check=False).returncode != 0:
        raise BookError("the book was not built; the warnings above say why")
    stamp.write_text(digest, encoding="utf-8")
    _put_wheel()
    return page


def _run_chapters(cache: Path) -> None:
    """Let jupyter-cache run the chapters whose outputs it does not hold, several at a time.

    Jupyter Book would run them one after the other. It runs again a chapter that failed here, and says why it fails.
    """
    cache.mkdir(parents=True, exist_ok=True)  # else jcache asks whether to make it
    jcache, environment = Path(sys.executable).with_name("jcache"), chapter_environment() | {"JUPYTERCACHE": str(cache)}
    chapters = [path for path in sorted(ROOT.glob("book/*.md")) if "```{code-cell}" in path.read_text(encoding="utf-8")]
    add = [jcache, "notebook", "add", "--reader", "myst_nb_md", *chapters]
    subprocess.run(add, env=environment, stdout=subprocess.DEVNULL, check=True)
    execute = [jcache, "project", "execute", "--executor", "temp-parallel", "--timeout", "180"]
    with subprocess.Popen(
        execute, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as run:
        for line in run.stderr:
            if line.startswith("[REPORT"):  # the others are warnings of the kernels
                print(line, end="", flush=True)


def _put_wheel() -> None:
    """Publish the package of the visible tests with the book: a notebook on Colab installs it from there."""
    (ROOT / "_build" / "html" / WHEEL).write_bytes(wheel_of(ROOT))


def find_browser() -> str:
    """Return the machine's Chromium.

    Raises:
        BookError: there is none.
    """
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise BookError(NO_BROWSER)


def record_chapter(name: str, root: Path = ROOT, progress: Progress = lambda *_: None) -> Path:
    """Run a chapter with its long cell, which every build leaves out, and keep what this cell assigns to `record`.

    The long cell carries the tag `skip-execution`.

    Args:
        name: The chapter's name, such as encoder.
        root: The repository's folder.
        progress: Called as the chapter's cells end.

    Returns:
        The file of the record, book/records/NAME.json.

    Raises:
        BookError: the chapter has no such cell, or a cell failed.
    """
    import jupytext
    import torch
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell

    from solutions.training.record import describe_machine

    notebook = jupytext.read(root / "book" / f"{name}.md")
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    long = [place for place, cell in enumerate(cells) if "skip-execution" in cell.metadata.get("tags", [])]
    if len(long) != 1:
        raise BookError(f"book/{name}.md has {len(long)} cells with the tag skip-execution; expected 1")
    notebook.cells = [*cells[: long[0] + 1], new_code_cell(REPORT)]
    done = iter(range(1, len(notebook.cells) + 1))
    with tempfile.TemporaryDirectory() as folder:  # without files of the repository, as on Colab
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            skip_cells_with_tag="",
            on_cell_executed=lambda **_: progress("cells", next(done), len(notebook.cells)),
        )
        try:
            asyncio.run(client.async_execute(env=chapter_environment(root)))
        except CellExecutionError as error:
            raise BookError(f"book/{name}.md failed:\n{error}") from None
    evidence = {
        "chapter": name,
        "command": f"autograder record {name}",
        "machine": describe_machine(torch.device("cpu")),
    }
    record = evidence | json.loads(notebook.cells[-1].outputs[0].text)
    path = root / "book" / "records" / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path

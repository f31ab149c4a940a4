"""Build the book if something has changed since the last build; make the records of chapters."""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode

from autograder.imports import ROOT, digest_of
from autograder.progress import Progress
from autograder.publish.tests_wheel import WHEEL, wheel_of
from autograder.setup_environment import BROWSERS

if TYPE_CHECKING:
    from jupyter_cache.cache.main import JupyterCacheBase

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


def forget_outputs_of_another_kind(root: Path = ROOT) -> None:
    """Empty the cache of outputs if the code that prepares figures has changed.

    The cache itself compares only the code of chapters.
    """
    folder, digest = root / "_build" / ".jupyter_cache", hashlib.sha256((root / FIGURES).read_bytes()).hexdigest()
    made_by = folder / "figures.sha256"
    if not made_by.exists() or made_by.read_text(encoding="utf-8") != digest:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made_by.write_text(digest, encoding="utf-8")


def prepare_book(progress: Progress = lambda *_: None) -> None:
    """Do what takes longest, in parallel: run the chapters whose code changed, and make the riddles.

    The outputs of chapters and the riddles are kept where a build looks for them.

    Args:
        progress: Called as chapters end.

    Raises:
        BookError: a cell failed.
    """
    make = "from autograder.publish.wrong_lines import riddles; riddles()"
    # If it fails, so does the page that shows riddles, and says why.
    with subprocess.Popen([sys.executable, "-c", make], cwd=ROOT, stderr=subprocess.DEVNULL):
        run_chapters(progress=progress)


@contextlib.contextmanager
def preparing_book() -> Iterator[None]:
    """Prepare the book in the background, in the time that other processes leave."""
    prepare = "import os; os.nice(19); from autograder.publish.book import prepare_book; prepare_book()"
    # If it fails, so does the build afterwards, and says why.
    with subprocess.Popen([sys.executable, "-c", prepare], cwd=ROOT, stderr=subprocess.DEVNULL) as preparing:
        try:
            yield
            preparing.wait()
        finally:
            preparing.terminate()


def run_chapters(root: Path = ROOT, progress: Progress = lambda *_: None) -> None:
    """Run the chapters whose code changed, in parallel, and keep their outputs where Jupyter Book looks for them.

    jupyter-cache's own parallel executor shows no progress, and each of its kernels imports PyTorch again.

    Args:
        root: The repository's folder.
        progress: Called as chapters end.

    Raises:
        BookError: a cell failed.
    """
    from jupyter_cache.base import CacheBundleIn

    forget_outputs_of_another_kind(root)
    with open_cache(root) as cache, contextlib.ExitStack() as at_the_end:
        waiting, pool = _uncached_chapters(cache, root), ThreadPoolExecutor(os.cpu_count())
        at_the_end.callback(pool.shutdown, cancel_futures=True)
        running = {pool.submit(_run, notebook, root, timeout=600): path for path, notebook in waiting.items()}
        if running:
            progress("chapters", 0, len(running))
        for done, chapter in enumerate(as_completed(running), 1):
            path = running[chapter]
            try:
                data = {"execution_seconds": chapter.result()}
            except Exception as error:
                raise BookError(f"{path.relative_to(root)} failed: {error}") from error
            bundle = CacheBundleIn(waiting[path], str(path), data=data)
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            progress("chapters", done, len(running))


@contextlib.contextmanager
def open_cache(root: Path) -> Iterator["JupyterCacheBase"]:
    """Open the cache of the chapters' outputs, and close its database at the end, because jupyter-cache does not."""
    from jupyter_cache import get_cache

    cache = get_cache(str(root / "_build" / ".jupyter_cache"))
    try:
        yield cache
    finally:
        cache.db.dispose()


def _uncached_chapters(cache: "JupyterCacheBase", root: Path) -> dict[Path, NotebookNode]:
    """Return the chapters whose outputs are not in the cache: the notebook of each, by its file."""
    from myst_nb.core.config import NbParserConfig
    from myst_nb.core.read import create_nb_reader
    from myst_parser.config.main import MdParserConfig

    waiting = {}
    for path in sorted(root.glob("book/*.md")):
        text = path.read_text(encoding="utf-8")
        if reader := create_nb_reader(str(path), MdParserConfig(), NbParserConfig(), text):
            notebook = reader.read(text)
            try:
                cache.match_cache_notebook(notebook)
            except KeyError:
                waiting[path] = notebook
    return waiting


def _run(notebook: NotebookNode, root: Path, **options: Any) -> float:
    """Run a notebook in a folder without files of the repository, as on Colab; return the seconds that it took."""
    from nbclient import NotebookClient
    from traitlets.log import get_logger

    from autograder.publish.warm_kernel import warm

    get_logger().setLevel(logging.WARNING)  # the progress bar says which chapters run

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        options |= {
            "kernel_name": "python3",
            "resources": resources,
            "extra_arguments": ["--IPKernelApp.log_level=ERROR"],
        }
        # Cells must not contain times, because the cells are part of the notebook's key in the cache.
        client = NotebookClient(notebook, record_timing=False, **options)
        warm(client.create_kernel_manager())
        asyncio.run(client.async_execute(env=chapter_environment(root)))
    return time.monotonic() - begun


def build_book(progress: Progress = lambda *_: None) -> Path:
    """Build the book with warnings as errors; its chapters run only when their code changed.

    Args:
        progress: Called as the work goes on.

    Returns:
        The first page.

    Raises:
        BookError: a chapter failed, or jupyter-book did.
    """
    inputs = {path for pattern in INPUTS for path in ROOT.glob(pattern) if path.suffix not in (".ipynb", ".pyc")}
    digest = digest_of(filter(Path.is_file, inputs))
    page, stamp = ROOT / "_build" / "html" / "index.html", ROOT / "_build" / ".stamp"
    if page.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        _put_wheel()
        return page
    prepare_book(progress)
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
    options = {"on_cell_executed": lambda **_: progress("cells", next(done), len(notebook.cells))}
    try:
        _run(notebook, root, timeout=None, skip_cells_with_tag="", **options)
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

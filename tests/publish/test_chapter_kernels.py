"""Do chapters run at the same time in separate kernels, and is a failure reported?"""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jupytext
import psutil
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from autograder.imports import ROOT
from autograder.publish.book import FIGURES, BookError, open_cache, record_chapter, run_chapters


def write_chapter(root: Path, name: str, *cells: str | NotebookNode) -> None:
    """Write a chapter with these cells."""
    specification = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": specification})
    jupytext.write(notebook, root / "book" / f"{name}.md", fmt="md:myst")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder that holds a book without chapters."""
    (tmp_path / FIGURES).parent.mkdir(parents=True)
    shutil.copy(ROOT / FIGURES, tmp_path / FIGURES)
    return tmp_path


def outputs_of(root: Path) -> dict[str, list[NotebookNode]]:
    """Return the chapters' outputs by name."""
    with open_cache(root) as cache:
        bundles = [(record.uri, cache.get_cache_bundle(record.pk)) for record in cache.list_cache_records()]
    return {Path(uri).stem: [out for cell in bundle.nb.cells for out in cell.outputs] for uri, bundle in bundles}


def test_chapter_finds_nothing_of_another(root: Path) -> None:
    """Does each chapter have its own kernel and folder, are its figures drawings, and does it run only once?"""
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    write_chapter(root, "first", draw, "left = open('left', 'w')")
    run_chapters(root)
    write_chapter(root, "second", "import os\nprint('left' in globals(), os.listdir())", draw)
    done: list[tuple] = []
    run_chapters(root, lambda *step: done.append(step))
    assert done == [("chapters", 0, 1), ("chapters", 1, 1)]  # the first chapter has not changed
    outputs = outputs_of(root)
    found, figure = outputs["second"]
    assert found.text == "False []\n"
    assert figure.data["image/svg+xml"] == outputs["first"][0].data["image/svg+xml"]


def test_failing_chapter_is_named_and_its_kernel_is_gone(root: Path) -> None:
    """Does the error name chapter and mistake, also if a kernel dies?"""
    for source, said in (("1 / 0", "ZeroDivisionError"), ("os._exit(3)", "Kernel died")):
        write_chapter(root, "broken", f"import os\nopen('{root}/kernel', 'w').write(str(os.getpid()))", source)
        with pytest.raises(BookError, match=rf"(?s)book/broken\.md failed: .*{said}"):
            run_chapters(root)
        assert not psutil.pid_exists(int((root / "kernel").read_text()))


def test_record_is_what_the_long_cell_makes(root: Path) -> None:
    """Is `record` stored with its evidence, and does a failing long cell keep the old record?"""
    (root / "book" / "records").mkdir()
    work = "import time\nwhile time.process_time() < 1:\n    pass\nrecord = {'steps': 3}"
    long = new_code_cell(work, metadata={"tags": ["skip-execution"]})
    write_chapter(root, "chapter", "x = 1", long, "1 / 0")
    thread = ThreadPoolExecutor(1)  # this thread may have the browser's event loop
    path = thread.submit(record_chapter, "chapter", root).result()
    found = json.loads(path.read_text())
    assert found["results"] == {"steps": 3} and found["machine"]["torch"] and found["cpu_seconds"] > 0
    long.source = "record = 1 / 0"
    write_chapter(root, "chapter", long)
    with pytest.raises(BookError, match=r"(?s)book/chapter\.md failed:.*ZeroDivisionError"):
        thread.submit(record_chapter, "chapter", root).result()
    assert json.loads(path.read_text()) == found

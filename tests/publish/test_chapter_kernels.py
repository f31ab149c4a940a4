"""Do chapters run at the same time in separate kernels, and is a failure reported?"""

import shutil
from pathlib import Path

import jupytext
import psutil
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from autograder.imports import ROOT
from autograder.publish.book import FIGURES, BookError, open_cache, run_chapters


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
    """Does each chapter have its own kernel, with its own names, settings and folder, and are its figures drawings?"""
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    leave = "import os, torch\nleft = os.environ['LEFT'] = 'left'\ntorch.manual_seed(7)\nplt.rcParams['font.size'] = 3"
    find = "import os\nprint('left' in globals(), 'LEFT' in os.environ, __name__, os.listdir())"
    write_chapter(root, "first", draw, leave)
    run_chapters(root)
    write_chapter(
        root, "second", find, draw, "import torch\nprint(torch.initial_seed() == 7, plt.rcParams['font.size'])"
    )
    done: list[tuple] = []
    run_chapters(root, lambda *step: done.append(step))
    assert done == [("chapters", 0, 1), ("chapters", 1, 1)]  # the first chapter has not changed
    outputs = outputs_of(root)
    found, figure, seed = outputs["second"]
    assert (found.text, seed.text) == ("False False __main__ []\n", "False 11.0\n")
    assert figure.data["image/svg+xml"] == outputs["first"][0].data["image/svg+xml"]


def test_failing_chapter_is_named_and_its_kernel_is_gone(root: Path) -> None:
    """Does the error name chapter and mistake, also if a kernel dies?"""
    for source, said in (("1 / 0", "ZeroDivisionError"), ("os._exit(3)", "Kernel died")):
        write_chapter(root, "broken", f"import os\nopen('{root}/kernel', 'w').write(str(os.getpid()))", source)
        with pytest.raises(BookError, match=rf"(?s)book/broken\.md failed: .*{said}"):
            run_chapters(root)
        assert not psutil.pid_exists(int((root / "kernel").read_text()))

"""Do the notebooks next to the chapters say the same as the chapters, in a form that Colab can show?"""

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
import torch

from autograder.imports import ROOT
from autograder.publish.chapters import Book, build_chapters, plain_markdown, read_book

ENDS = ["Four questions without a computer", "Exercise", "Where to go next"]  # the last headings of a chapter

BOOK = Book("A book", "https://example.org/", chapters={}, labels={"fig-map": ("2.1", "attention")}, works={})


@pytest.fixture(scope="module")
def notebooks() -> dict[Path, nbformat.NotebookNode]:
    """Return the notebook of every chapter, by path."""
    return {path: nbformat.reads(text, as_version=4) for path, text in build_chapters(ROOT).items()}


def prose(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the Markdown cells of a notebook, without code."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return [re.sub(r"(`+).+?\1", "", source, flags=re.DOTALL) for source in cells]


def test_every_chapter_is_in_the_contents() -> None:
    """Does _toc.yml list every chapter in book/?"""
    listed = re.findall(r"(?:file|root): book/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert {path.stem for path in (ROOT / "book").glob("*.md")} == set(listed)


def test_chapters_end_alike() -> None:
    """Does each chapter end with a short summary, four questions with folded answers, the exercise and further reading?"""
    chapters = {name: ROOT / "book" / f"{name}.md" for name, number in read_book(ROOT).chapters.items() if number}
    assert len(chapters) == 13
    for name, path in chapters.items():
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)", text, re.M)[-3:] == ENDS, name
        summary = re.search(r"^:::{admonition} Summary\n(.*?)^:::$", text, re.M | re.S)[1]
        assert 3 <= len(re.findall(r"^- ", summary, re.M)) == len(summary.splitlines()) <= 5, name
        questions = text.partition(f"## {ENDS[0]}\n")[2].partition(f"## {ENDS[1]}\n")[0]
        answered = re.findall(r"^:::{admonition} (\d)\. .+\n:class: dropdown\n.+\n", questions, re.M)
        assert answered == ["1", "2", "3", "4"], name
        assert "Further reading:" in text.rpartition("## Where to go next")[2], name


def test_chapters_run_the_code_of_the_book(notebooks: dict[Path, nbformat.NotebookNode]) -> None:
    """Are the code cells equal to the cells that the book's build executes, with the long cell as text?"""
    for path, notebook in notebooks.items():
        cells = [cell for cell in jupytext.read(path.with_suffix(".md")).cells if cell.cell_type == "code"]
        long = [cell.source for cell in cells if "skip-execution" in cell.metadata.get("tags", [])]
        assert {f"```python\n{source}\n```" for source in long} <= {cell.source for cell in notebook.cells}
        book = [cell.source for cell in cells if cell.source not in long]
        made = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        assert [re.sub(r"^# @title .*\n", "", cell) for cell in made] == book
        for cell in made:
            ast.parse(cell.replace("\n%", "\n#"))


def test_chapter_that_needs_a_newer_pytorch_says_so(
    notebooks: dict[Path, nbformat.NotebookNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If torch.optim has no Muon, does the first cell that needs a newer PyTorch name the version?"""
    first = next(cell for cell in notebooks[ROOT / "book/training.ipynb"].cells if cell.cell_type == "code")
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ImportError, match=r"This chapter needs PyTorch 2\.9 or newer"):
        exec(first.source, {})


def test_chapters_have_nothing_left_of_myst(notebooks: dict[Path, nbformat.NotebookNode]) -> None:
    """Is every role, box, label, target and relative link translated, and is a display equation on one line, as in quotes?"""
    for path, notebook in notebooks.items():
        for text in prose(notebook):
            assert [line for line in text.splitlines() if line.count("$$") % 2] == [], path.name
            left = re.findall(
                r"\{[a-z:]+\}`|\{(?:eq|cite|numref)|^:::.*|^\([\w-]+\)=|\$\$ *\([\w-]+\)", text, re.MULTILINE
            )
            left += [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
            assert left == [], path.name


@pytest.mark.parametrize(
    ("myst", "plain"),
    [
        ("$$ a \\\\ b $$", r"$$ \begin{aligned} a \\ b \end{aligned} $$"),
        ("see {numref}`fig-map`", "see [Figure 2.1](https://example.org/book/attention.html#fig-map)"),
        ("[a page](https://example.org/x.md)", "[a page](https://example.org/x.md)"),
        ("code `{eq}` and `](x.md)`", "code `{eq}` and `](x.md)`"),
        ("```text\n:::{note}\n$$ x\n```", "```text\n:::{note}\n$$ x\n```"),
    ],
)
def test_plain_markdown_translates(myst: str, plain: str) -> None:
    """Does what no chapter needs today become its counterpart in plain Markdown? The rest is in book/*.ipynb."""
    assert plain_markdown(myst, "softmax", BOOK) == plain


@pytest.mark.parametrize(
    ("myst", "complaint"),
    [
        ("{eq}`eq-nothing`", "eq-nothing"),
        ("{cite:p}`nobody1900`", "nobody1900"),
        ("{doc}`attention`", "{doc}"),
        (":::{note}\nnever closed", ":::{note}"),
    ],
)
def test_plain_markdown_refuses(myst: str, complaint: str) -> None:
    """Does a construct without a counterpart, or a link to nowhere, raise an error with file and place?"""
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        plain_markdown(myst, "softmax", BOOK)
    assert "book/softmax.md" in str(caught.value)

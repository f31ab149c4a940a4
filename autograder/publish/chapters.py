"""Make a plain notebook, for Colab, out of a chapter of the book.

A chapter is MyST text: numbered equations, citations, boxes, links between pages. Colab renders none of these. The notebook
says the same in plain Markdown, without outputs. Every build gives the same bytes.

The MyST parser makes a tree, and no library writes the tree back as Markdown with all other text unchanged. So this module
replaces, by one regular expression, what MyST adds to Markdown.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pybtex.database import Entry, parse_file

EQUATION = r"\$\$(?P<equation>.+?)\$\$(?:[ \t]*\((?P<label>[\w-]+)\))?"  # $$ … $$ (eq-softmax)
MYST = re.compile(
    r"^(?P<box>:{3,})\{(?P<kind>\w+)\}[ \t]*(?P<title>[^\n]*)\n(?P<options>(?:^:[\w-]+:[^\n]*\n)*)"
    r"(?P<body>.*?)^(?P=box)$"
    + rf"|{EQUATION}"
    + r"|\{(?P<role>[\w:]+)\}`(?P<target>[^`]+)`"  # {eq}`eq-softmax`
    + r"|(?P<kept>(?P<ticks>`+).+?(?P=ticks)|(?<!\\)\$[^$]+\$)"  # code and formulas stay as they are
    + r"|\]\((?:(?P<page>[\w./-]+)\.md)?(?P<anchor>#[\w-]+)?\)"  # the end of [text](page.md#anchor)
    + r"|(?P<unknown>^:::[^\n]*)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Book:
    """The facts about the rest of the book that a chapter needs."""

    title: str
    url: str  # address of the published book, with a slash at its end
    chapters: dict[str, str]  # file name without suffix → number ("" if it has none), in order
    labels: dict[str, tuple[str, str]]  # label of an equation or a figure → its number, the chapter that it is in
    works: dict[str, tuple[str, str, str]]  # key of a citation → authors, year, address ("" if it has none)

    def page(self, chapter: str, anchor: str = "") -> str:
        """Return the address of a published chapter, or of a place in it."""
        return f"{self.url}book/{chapter}.html{anchor}"


def pages_of(part: dict[str, Any]) -> list[str]:
    """Return the pages of a part of the table of contents, those below a page included."""
    return [each["file"] for entry in part["chapters"] for each in (entry, *entry.get("sections", ()))]


def read_book(root: Path) -> Book:
    """Collect titles, numbers and citations from the sources of the book."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    entries = [(Path(file).name, "numbered" in part) for part in toc["parts"] for file in pages_of(part)]
    numbered = [name for name, has_number in entries if has_number]
    chapters = {name: str(numbered.index(name) + 1) if has_number else "" for name, has_number in entries}
    labels = {}
    for name in numbered:
        for kind in read_labels((root / "book" / f"{name}.md").read_text(encoding="utf-8")):
            labels |= {label: (f"{chapters[name]}.{place}", name) for place, label in enumerate(kind, start=1)}
    bibliography = parse_file(str(root / config["bibtex_bibfiles"][0]))
    works = {key: read_work(entry) for key, entry in bibliography.entries.items()}
    return Book(config["title"], config["html"]["baseurl"], chapters, labels, works)


def read_labels(text: str) -> tuple[list[str], list[str]]:
    """Return the labels of a chapter's equations and the labels of its figures, both in order."""
    cells = jupytext.reads(text, fmt="md:myst").cells
    prose = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    equations = [match["label"] for match in re.finditer(EQUATION, prose, re.DOTALL) if match["label"]]
    return equations, [figure["name"] for figure in map(figure_of, cells) if figure]


def read_work(entry: Entry) -> tuple[str, str, str]:
    """Return a cited work's authors, as a sentence names them, its year and its address."""
    people = [" ".join(map(str, p.rich_prelast_names + p.rich_last_names)) for p in entry.persons["author"]]
    authors = f"{people[0]} et al." if len(people) > 2 else " and ".join(people)
    doi = entry.fields.get("doi")
    return authors, entry.fields["year"], entry.fields.get("url") or (f"https://doi.org/{doi}" if doi else "")


def figure_of(cell: nbformat.NotebookNode) -> dict[str, str] | None:
    """Return name and caption of the figure that a cell draws, if it draws one."""
    return cell.metadata.get("mystnb", {}).get("figure")


def chapter_notebook(text: str, name: str, book: Book) -> nbformat.NotebookNode:
    """Return a chapter as a notebook in plain Markdown, without outputs.

    Args:
        text: the chapter, MyST text with code cells.
        name: its file name without suffix.
        book: what the chapter refers to.

    Raises:
        ValueError: the text uses something that plain Markdown cannot say, or refers to something that does not exist.
    """
    source = jupytext.reads(text, fmt="md:myst")
    where = f"*This is a chapter of [{book.title}]({book.url}), made to be run. It is easier to read "
    cells = [new_markdown_cell(f"{where}[on its page]({book.page(name)}).*")]
    for cell in source.cells:
        figure = figure_of(cell)
        label = f"Figure {book.labels[figure['name']][0]}" if figure else "Code"
        if cell.cell_type == "markdown":
            cells.append(new_markdown_cell(plain_markdown(cell.source, name, book)))
        elif "skip-execution" in cell.metadata.get("tags", []):  # this cell takes minutes; its result is a record
            cells.append(new_markdown_cell(f"```python\n{cell.source}\n```"))
        elif "hide-input" in cell.metadata.get("tags", []):  # Colab folds a cell that is a form with a title
            cells.append(new_code_cell(f"# @title {label}\n{cell.source}", metadata={"cellView": "form"}))
        else:
            cells.append(new_code_cell(cell.source))
        if figure:
            cells.append(new_markdown_cell(f"*{label}.* {plain_markdown(figure['caption'].strip(), name, book)}"))
    if book.chapters[name]:
        cells[1].source = re.sub(r"^# ", f"# {book.chapters[name]}. ", cells[1].source)
    for place, cell in enumerate(cells):
        cell.id = f"{name}-{place:03d}"  # nbformat's own ids are random
    kernel = dict(source.metadata["kernelspec"])
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def plain_markdown(text: str, name: str, book: Book) -> str:
    """Return MyST text of the chapter `name` in plain Markdown."""

    def replace(match: re.Match) -> str:
        if match["kind"] == "widget":  # a widget needs the page's scripts
            return f"*The book has a widget here: [try it there]({book.page(name, '#widget-' + match['title'])}).*"
        if match["kind"] == "drawing":  # such a drawing works only on the page
            example = match["title"].startswith("words_")  # the text speaks of it
            return f"*The book has [a drawing]({book.page(name)}) here.*" if example else ""
        if match["kind"] == "image":  # a drawing has two themes, and a notebook shows the light one
            alt = re.search(r"^:alt:[ \t]*(.*)$", match["options"], re.MULTILINE)
            address = book.url + match["title"]
            return "" if "only-dark" in match["options"] else f"![{alt[1] if alt else ''}]({address})"
        if match["box"]:
            title = plain_markdown(match["title"], name, book) or match["kind"].capitalize()
            body = plain_markdown(match["body"].strip(), name, book)
            return "\n".join(f"> {line}".rstrip() for line in (f"**{title}**", "", *body.splitlines()))
        if match["equation"]:
            tag = rf" \tag{{{find(book.labels, match['label'])[0]}}}" if match["label"] else ""
            return f"$$ {one_line(match['equation'])}{tag} $$"
        if match["role"] in ("cite:p", "cite:t"):
            return cite([find(book.works, key.strip()) for key in match["target"].split(",")], match["role"])
        if match["role"] in ("eq", "numref"):
            number, chapter = find(book.labels, match["target"])
            shown, kind = (f"({number})", "#equation-") if match["role"] == "eq" else (f"Figure {number}", "#")
            return shown if chapter == name else f"[{shown}]({book.page(chapter, kind + match['target'])})"
        if match["page"] or match["anchor"]:
            return f"]({book.page(match['page'] or name, match['anchor'] or '')})"
        if match["role"] or match["unknown"]:
            raise ValueError(f"book/{name}.md: plain Markdown has nothing for {match[0]!r}")
        return match[0]

    def find(table: dict[str, tuple[str, ...]], key: str) -> tuple[str, ...]:
        if key not in table:
            raise ValueError(f"book/{name}.md refers to {key!r}, which is neither in a chapter nor in references.bib")
        return table[key]

    return MYST.sub(replace, text)


def cite(works: list[tuple[str, ...]], role: str) -> str:
    """Return citations as text, in brackets or as a part of the sentence; a work with an address becomes a link."""
    shape = "{} ({})" if role == "cite:t" else "{}, {}"
    links = [(shape.format(authors, year), address) for authors, year, address in works]
    cited = [f"[{shown}]({address})" if address else shown for shown, address in links]
    return ", ".join(cited) if role == "cite:t" else f"({'; '.join(cited)})"


def one_line(equation: str) -> str:
    """Return an equation on one line, because it may be in a Markdown quote. Lines that Sphinx aligns stay aligned."""
    equation = " ".join(equation.split())
    outside = re.sub(r"\\begin\{(\w+\*?)\}.*?\\end\{\1\}", "", equation)
    return rf"\begin{{aligned}} {equation} \end{{aligned}}" if r"\\" in outside else equation


def build_chapters(root: Path) -> dict[Path, str]:
    """Return the expected text of each executable chapter's notebook, by the notebook's path, in the book's order."""
    book = read_book(root)
    paths = {name: root / "book" / f"{name}.md" for name in book.chapters}
    sources = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}
    return {
        root / "book" / f"{name}.ipynb": nbformat.writes(chapter_notebook(text, name, book), version=4) + "\n"
        for name, text in sources.items()
        if text.startswith("---\njupytext:")
    }

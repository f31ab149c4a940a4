"""Print the built book as a PDF: the machine's Chromium prints all pages as one document."""

import io
import json
import logging
import os
import subprocess
import tempfile
from html import escape
from pathlib import Path

import matplotlib
from pypdf import PdfWriter
from pypdf.generic import NameObject, TextStringObject

from autograder.files import write_atomically
from autograder.imports import ROOT
from autograder.progress import Progress
from autograder.publish.articles import Article, OneFile, read_articles
from autograder.publish.book import BookError, find_browser

FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
FACES = {  # Matplotlib brings these fonts, so that every machine prints the same pages
    "STIXGeneral.ttf": "Book",
    "STIXGeneralBol.ttf": "Book; font-weight: bold",
    "STIXGeneralItalic.ttf": "Book; font-style: italic",
    "STIXGeneralBolIta.ttf": "Book; font-weight: bold; font-style: italic",
    "DejaVuSans.ttf": "Heads",
    "DejaVuSans-Bold.ttf": "Heads; font-weight: bold",
    "DejaVuSansMono.ttf": "Code",
    "DejaVuSansMono-Bold.ttf": "Code; font-weight: bold",
}


def print_book(root: Path = ROOT, solutions: bool = False, progress: Progress = lambda *_: None) -> Path:
    """Print the built book.

    Args:
        root: The repository's folder.
        solutions: Whether to include the answers.
        progress: Called as the work goes on.

    Returns:
        The PDF, next to the first page of the book.

    Raises:
        BookError: there is no browser, or it failed.
    """
    browser = find_browser()
    book = read_articles(root, solutions, progress)
    target = root / "_build" / "html" / f"{book.name}.pdf"
    with tempfile.TemporaryDirectory(prefix="print-", dir=root / "_build") as folder:
        source, printed = root / "_build" / "one_file.html", Path(folder, "book.pdf")
        source.write_text(one_page(book), encoding="utf-8")
        progress("printed", 0, 1)
        run_browser(browser, source, printed, folder)
        progress("printed", 1, 1)
        titles = [title for each in book.articles for title in (each.title, *(title for _, title in each.sections()))]
        write_atomically(target, with_titles(printed, titles))
    return target


def one_page(book: OneFile) -> str:
    """Return the book as one page for a browser."""
    faces = "".join(
        f'@font-face {{ src: url("{(FONTS / name).as_uri()}"); font-family: {face} }}\n' for name, face in FACES.items()
    )
    heads = "".join(map(head_of, book.articles))
    articles = "\n".join(article.html() for article in book.articles)
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(book.title)}</title><style>
{faces}{heads}{book.style}</style></head>
<body class="printed">
{book.title_page}
<nav class="contents"><p class="title">Contents</p>
<div class="contents-columns">{"".join(map(contents_of, book.articles))}</div></nav>
{articles}
</body></html>"""


def head_of(article: Article) -> str:
    """Return the rules that put an article's title at the head of its pages."""
    title = json.dumps(article.title, ensure_ascii=False)
    named = f"@page of-{article.name} {{ @top-left {{ content: {title} }} }}"
    return f'{named}\n[id="{article.name}"] {{ page: of-{article.name} }}\n'


def contents_of(article: Article) -> str:
    """Return the lines of an article in the table of contents."""
    part = f'<p class="part">{escape(article.part)}</p>' if article.part else ""
    places = [(article.name, article.title, "chapter"), *((*section, "section") for section in article.sections())]
    return part + "".join(
        f'<p class="{kind}"><a href="#{place}">{escape(title)}</a></p>\n' for place, title, kind in places
    )


def run_browser(browser: str, source: Path, target: Path, folder: str) -> None:
    """Let a browser print a page to a PDF with an outline."""
    command = [browser, "--headless", "--disable-gpu", f"--user-data-dir={folder}/profile", "--no-pdf-header-footer"]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    command += ["--generate-pdf-document-outline", f"--print-to-pdf={target}", source.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not target.exists():
        raise BookError(f"{browser} did not print the book: {done.stderr.strip()}")


def with_titles(printed: Path, titles: list[str]) -> bytes:
    """Return a PDF with complete titles in its outline. Chromium drops the space where a title's line breaks."""
    whole = {"".join(title.split()): " ".join(title.split()) for title in titles}
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns that it counts objects differently from Chromium
    writer, written = PdfWriter(clone_from=printed), io.BytesIO()
    waiting = [writer.root_object["/Outlines"]]
    while waiting:
        entry = waiting.pop().get_object()
        waiting += [entry[key] for key in ("/First", "/Next") if key in entry]
        title = whole.get("".join(entry.get("/Title", "").split()))
        if title:
            entry[NameObject("/Title")] = TextStringObject(title)
    writer.write(written)
    return written.getvalue()

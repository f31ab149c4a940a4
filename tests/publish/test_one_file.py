"""Are the PDF and the EPUB complete books: every chapter, no answers, working links, and all their pictures?"""

import re
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pypdf import PdfReader
from typer.testing import CliRunner

from autograder.cli import app
from autograder.imports import ROOT
from autograder.publish.articles import OneFile, read_articles
from autograder.publish.book import BookError, build_book
from autograder.publish.epub import write_epub
from autograder.publish.pdf import print_book

XHTML = "{http://www.w3.org/1999/xhtml}"
CONFIG = """
title: A small book
author: some people
copyright: "2026"
html: {baseurl: "https://book.example/", extra_footer: 'Under <a href="https://licence.example">a licence</a>.'}
sphinx: {config: {html_theme_options: {pygments_light_style: a11y-high-contrast-light}}}
"""
TOC = """
root: book/intro
parts:
  - caption: "Part 1: Beginnings"
    chapters: [{file: book/rows}]
  - chapters: [{file: book/1_exercise}]
  - {caption: Answers, chapters: [{file: book/after_all, sections: [{file: book/after_1}]}]}
  - {caption: Teaching, chapters: [{file: book/instructors}]}
"""
PAGES = {
    "intro": """<h1>A small book<a class="headerlink" href="#intro">#</a></h1>
<!-- not for students --><p>Ask the <a href="instructors.html">instructor</a>.</p><!-- to here -->
<p>Begin with <a href="rows.html#sums">sums of rows</a>.</p>""",
    "rows": """<h1><span class="section-number">1. </span>Rows</h1>
<script src="../_static/widget.js"></script><p>Look <a href="../_static/data.txt">here</a> &amp; there.</p>
<details class="admonition hide above-input"><summary>Show the code</summary><pre>plt.plot()</pre></details>
<figure><img loading="lazy" class="in-light" src="../_images/plot.svg" alt="A plot"/>
<img class="in-dark" src="dark.svg"/></figure>
<section id="sums"><h2>Sums</h2><p>Each is <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>.</p>
<div class="widget" id="widget-sum"><p>3 and 4 make 7</p><script>sum()</script></div>
<svg viewBox="0 0 9 9" width="9" height="9"><defs><marker id="tip" refX="7"/></defs></svg></section>""",
    "1_exercise": """<h1>Exercise 1</h1><p>Go back to <a href="rows.html">rows</a>.</p><section id="before"><h2>Before</h2>
<!-- not for students --></section><section id="solutions"><h2>Solutions</h2>
<details class="sd-dropdown"><summary>Solution: sum</summary><pre>return 7</pre></details><!-- to here --></section>""",
    "after_all": "<h1>After the exercises</h1>",
    "after_1": "<h1>After exercise 1</h1><p>What others write.</p>",
    "instructors": "<h1>For instructors</h1>",
}
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><text y="20">drawn</text></svg>'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a small built book."""
    html = tmp_path / "_build" / "html"
    for name, text in PAGES.items():
        page = f'<html><body><nav></nav><article class="bd-article"><section id="{name}">{text}</section></article></body></html>'
        (html / "book").mkdir(parents=True, exist_ok=True)
        (html / "book" / f"{name}.html").write_text(page, encoding="utf-8")
    for name in ("_images/plot.svg", "_static/logo.svg"):
        (html / name).parent.mkdir(exist_ok=True)
        (html / name).write_text(DRAWING, encoding="utf-8")
    (html / "_static" / "stix_two_math.woff").write_bytes(b"")
    (tmp_path / "_config.yml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "_toc.yml").write_text(TOC, encoding="utf-8")
    return tmp_path


def letters_of(text: str) -> str:
    """Return only the letters and digits of a text; letters of formulas become plain letters."""
    return re.sub(r"\W", "", unicodedata.normalize("NFKC", text))


def text_of(book: OneFile, name: str) -> str:
    """Return the text of a page."""
    [text] = [article.content.get_text(" ") for article in book.articles if article.name == name]
    return " ".join(text.split())


def test_articles_have_answers_only_when_asked(root: Path) -> None:
    """Are pages for instructors left out, and answers with the pages about them included only on request?"""
    students, all_of_it = read_articles(root), read_articles(root, solutions=True)
    assert [article.name for article in students.articles] == ["intro", "rows", "1_exercise"]
    assert [article.name for article in all_of_it.articles] == ["intro", "rows", "1_exercise", "after_all", "after_1"]
    assert [article.part for article in all_of_it.articles] == ["", "Part 1: Beginnings", "", "Answers", ""]
    assert text_of(students, "1_exercise") == "Exercise 1 Go back to rows . Before"
    assert text_of(all_of_it, "1_exercise").endswith("Solutions Solution: sum return 7")
    assert (students.name, all_of_it.name) == ("attention-book", "attention-book-solutions")


def test_articles_show_what_paper_can(root: Path) -> None:
    """Are folded parts open, scripts, dark figures and drawing code left out, and a widget's page named?"""
    text = text_of(read_articles(root), "rows")
    where = "https://book.example/book/rows.html"
    assert text == (
        "Part 1: Beginnings 1. Rows Look here & there. Sums Each is 1 2 . "
        f"3 and 4 make 7 This can be tried in the book: {where}"
    )
    html = read_articles(root).articles[1].html()
    assert re.findall(r'<img[^>]* src="([^"]*)"', html) == ["html/_images/plot.svg"]
    assert 'viewBox="0 0 9 9"' in html and 'refX="7"' in html and "loading" not in html


def test_links_lead_into_the_file_or_to_the_published_book(root: Path) -> None:
    """Does each link lead to the same target as on its page?"""
    links = {
        article.name: [link["href"] for link in article.content.select("a")]
        for article in read_articles(root, solutions=True).articles
    }
    assert links == {
        "intro": ["https://book.example/book/instructors.html", "#rows.sums"],
        "rows": ["https://book.example/_static/data.txt", "https://book.example/book/rows.html"],
        "1_exercise": ["#rows"],
        "after_all": [],
        "after_1": [],
    }


def look_into_epub(path: Path, book: OneFile) -> None:
    """Check that an EPUB has every page in reading order, and everything that a page shows or links to."""
    with zipfile.ZipFile(path) as epub:
        assert epub.testzip() is None
        first = epub.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert epub.read("mimetype") == b"application/epub+zip"
        files = {name.removeprefix("EPUB/"): epub.read(name) for name in epub.namelist()}
    package = ElementTree.fromstring(files.pop("package.opf"))
    items = {each.get("id"): each for each in package.iter("{http://www.idpf.org/2007/opf}item")}
    listed = {each.get("href") for each in items.values()}
    assert listed == files.keys() - {"mimetype", "META-INF/container.xml"}
    order = [items[each.get("idref")].get("href") for each in package.iter("{http://www.idpf.org/2007/opf}itemref")]
    assert order == ["title.xhtml", "nav.xhtml", *(f"{article.name}.xhtml" for article in book.articles)]
    pages = {name: ElementTree.fromstring(text) for name, text in files.items() if name.endswith(".xhtml")}
    ids = {name: [each.get("id") for each in page.iter() if each.get("id")] for name, page in pages.items()}
    for name, page in pages.items():
        within = [each for each in ids[name] if "." in each]  # only a drawing itself uses the ids in it
        assert len(within) == len(set(within)), name
        assert {image.get("src") for image in page.iter(f"{XHTML}img")} <= files.keys(), name
        assert not list(page.iter(f"{XHTML}script")), name
        for link in page.iter(f"{XHTML}a"):
            target, _, place = link.get("href").partition("#")
            assert target.startswith("https://") or target in pages, (name, link.get("href"))
            assert target.startswith("https://") or not place or place in ids[target], (name, link.get("href"))
    assert [each.text for each in pages["nav.xhtml"].iter(f"{XHTML}span")] == [a.part for a in book.articles if a.part]
    named = [each.get("properties", "") for each in items.values() if each.get("href") in order]
    has_math = [bool(list(page.iter("{http://www.w3.org/1998/Math/MathML}math"))) for page in pages.values()]
    assert sum(has_math) == sum("mathml" in each for each in named) > 0


def test_epub_is_whole(root: Path) -> None:
    """Does the EPUB of a small book have everything that the standard and its pages need?"""
    look_into_epub(write_epub(root, solutions=True), read_articles(root, solutions=True))


def outline_of(reader: PdfReader) -> dict[str, int]:
    """Return the titles of a PDF's outline with their pages; only the first of equal titles."""
    titles: dict[str, int] = {}
    waiting = [*reader.outline]
    while waiting:
        entry = waiting.pop(0)
        if isinstance(entry, list):
            waiting[:0] = entry
        else:
            titles.setdefault(" ".join(entry.title.split()), reader.get_destination_page_number(entry) + 1)
    return titles


def look_into_pdf(path: Path, book: OneFile) -> list[str]:
    """Check a PDF's outline, contents and links; return the text of its pages."""
    reader = PdfReader(path)
    letters: Counter[float] = Counter()  # numbers of letters by their size in points

    def count(text: str, page: list, line: list, font: dict | None, size: float) -> None:
        letters[round(size * abs(line[0] * page[0]), 1)] += len(text.strip())

    texts = [" ".join(page.extract_text(visitor_text=count).split()) for page in reader.pages]
    # If anything is wider than the page, Chromium shrinks everything.
    assert letters.most_common(1)[0][0] == float(re.search(r"font: ([\d.]+)pt/[\d.]+ Book", book.style)[1])
    outline = outline_of(reader)
    first = outline["Introduction"]
    contents = " ".join(texts[1 : first - 1])
    for article in book.articles:
        title = " ".join(article.title.split())
        assert title in texts[outline[title] - 1]
        assert title in contents
    places = reader.named_destinations.keys()
    actions = [each.get_object() for page in reader.pages for each in page.get("/Annots", [])]
    inner = [f"/{each['/Dest']}".replace("//", "/") for each in actions if "/Dest" in each]
    assert inner and set(inner) <= places
    return texts


def test_pdf_is_whole(root: Path) -> None:
    """Is each page of a small book printed, with its title and its number?"""
    texts = look_into_pdf(print_book(root), read_articles(root))
    # The foot has the number. The title page has no head and no foot.
    heads = ["", "Introduction ", "1. Rows ", "Exercise 1 "]
    assert all(text.startswith(f"{head}{number} ") for number, (head, text) in enumerate(zip(heads, texts[1:]), 2))
    assert "1. Rows" in texts[3] and "drawn" in texts[3]
    assert "Go back to rows" in texts[4]


def test_no_browser_is_said_before_the_book_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the error come at once, with what is missing and how to get it?"""
    monkeypatch.setattr("autograder.publish.book.shutil.which", lambda _: None)
    monkeypatch.setattr("autograder.publish.book.build_book", lambda **_: pytest.fail("the book was built"))
    result = CliRunner().invoke(app, ["book", "--pdf"])
    assert result.exit_code == 1
    assert "apt-get install chromium" in result.stderr


def test_what_a_browser_says_is_shown_when_it_fails(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does a browser that prints nothing leave no PDF, and is its message shown?"""
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\necho no display >&2\n", encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setattr("autograder.publish.pdf.find_browser", lambda: str(browser))
    with pytest.raises(BookError, match="no display"):
        print_book(root)
    assert not list((root / "_build" / "html").glob("*.pdf"))


@pytest.mark.deep
@pytest.mark.parametrize("solutions", [False, True])
def test_the_book_as_one_file(solutions: bool) -> None:
    """Are both files of the real book complete: every chapter's last words, no LaTeX, and only requested answers?"""
    build_book()
    book = read_articles(ROOT, solutions)
    look_into_epub(write_epub(solutions=solutions), book)
    texts = look_into_pdf(print_book(solutions=solutions), book)
    assert len(texts) > 150
    whole = letters_of("".join(texts))
    for article in book.articles:
        assert letters_of(article.content.find_all("p")[-1].text)[-25:] in whole, article.name
    assert not re.findall(r"\\(?:frac|sqrt|sum|text|mathbb|begin|left)\b", " ".join(texts))
    assert ("Solution: self_attention" in " ".join(texts)) is solutions

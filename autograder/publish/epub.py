"""Write the built book as an EPUB, for e-book readers. Each page of the book becomes one file in the EPUB.

The standard defines the contents of an EPUB and their names: https://www.w3.org/TR/epub-33/
Sphinx's own builder would add all scripts, the pages for instructors and the answers; this one has the pages of the PDF.
"""

import re
import zipfile
from datetime import UTC, datetime
from html import escape
from io import BytesIO
from pathlib import Path

from autograder.files import write_atomically
from autograder.imports import ROOT
from autograder.progress import Progress
from autograder.publish.articles import LOGO, MATH_FONT, OneFile, read_articles

TYPES = {".xhtml": "application/xhtml+xml", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}
TYPES |= {".woff": "font/woff", ".gif": "image/gif", ".jpg": "image/jpeg"}
CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""


def write_epub(root: Path = ROOT, solutions: bool = False, progress: Progress = lambda *_: None) -> Path:
    """Write the built book as an EPUB.

    Args:
        root: The repository's folder.
        solutions: Whether to include the answers.
        progress: Called as pages are read.

    Returns:
        The EPUB, next to the first page of the book.
    """
    book = read_articles(root, solutions, progress)
    pages = {"title.xhtml": page_of(book.title, book.title_page), "nav.xhtml": contents(book)}
    for article in book.articles:
        for each in article.content.select('a[href^="#"]'):
            each["href"] = address_of(each["href"][1:])
        pages[f"{article.name}.xhtml"] = page_of(article.title, article.html())
    images = {image["src"] for article in book.articles for image in article.content.find_all("img")}
    files = {name: (root / "_build" / name).read_bytes() for name in sorted(images | {LOGO, MATH_FONT})}
    files |= {name: text.encode() for name, text in (pages | {"style.css": book.style}).items()}
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as epub:
        epub.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)  # the first file, uncompressed
        epub.writestr("META-INF/container.xml", CONTAINER)
        epub.writestr("EPUB/package.opf", package(book, files))
        for name, content in files.items():
            epub.writestr(f"EPUB/{name}", content)
    target = root / "_build" / "html" / f"{book.name}.epub"
    write_atomically(target, archive.getvalue())
    return target


def address_of(place: str) -> str:
    """Return the address of a place: its page's file, and the place in this file."""
    name, _, within = place.partition(".")
    return f"{name}.xhtml#{place}" if within else f"{name}.xhtml"


def page_of(title: str, content: str) -> str:
    """Return a page as a complete file."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><title>{escape(title)}</title><link rel="stylesheet" href="style.css"/></head>
<body>{content}</body>
</html>
"""


def contents(book: OneFile) -> str:
    """Return the page of contents, in which programs find parts, chapters and sections."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for article in book.articles:
        if article.part:
            parts.append((article.part, []))
        sections = "".join(entry(place, title) for place, title in article.sections())
        parts[-1][1].append(entry(article.name, article.title, f"<ol>{sections}</ol>" if sections else ""))
    (_, first), *others = parts
    entries = "".join(first) + "".join(
        f"<li><span>{escape(title)}</span><ol>{''.join(within)}</ol></li>\n" for title, within in others
    )
    return page_of("Contents", f'<nav epub:type="toc"><h1>Contents</h1><ol>{entries}</ol></nav>')


def entry(place: str, title: str, below: str = "") -> str:
    """Return a line of the contents, with the lines below it."""
    return f'<li><a href="{address_of(place)}">{escape(title)}</a>{below}</li>\n'


def package(book: OneFile, files: dict[str, bytes]) -> str:
    """Return the package document: which files there are, what they are, and in which order pages are read."""
    items = "".join(
        f'<item id="{identifier(name)}" href="{name}" media-type="{TYPES[Path(name).suffix]}"'
        f"{properties(name, content)}/>\n"
        for name, content in files.items()
    )
    names = ["title", "nav", *(article.name for article in book.articles)]
    order = "".join(f'<itemref idref="{identifier(f"{name}.xhtml")}"/>\n' for name in names)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="address" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="address">{book.url}</dc:identifier>
<dc:title>{escape(book.title)}</dc:title>
<dc:creator>{escape(book.author)}</dc:creator>
<dc:language>en</dc:language>
<meta property="dcterms:modified">{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}</meta>
</metadata>
<manifest>
{items}</manifest>
<spine>
{order}</spine>
</package>
"""


def identifier(name: str) -> str:
    """Return the name by which the package knows a file."""
    return re.sub(r"\W", "-", f"file-{name}")


def properties(name: str, content: bytes) -> str:
    """Return the attribute that tells an e-book reader in advance what a file contains."""
    contains = {"nav": name == "nav.xhtml", "cover-image": name == LOGO}
    if name.endswith(".xhtml"):
        contains |= {"mathml": b"<math" in content, "svg": b"<svg" in content}
    names = " ".join(word for word, holds in contains.items() if holds)
    return f' properties="{names}"' if names else ""

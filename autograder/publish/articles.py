"""The pages of the built book, prepared for one file: the PDF or the EPUB.

Folded boxes are open. Folded code, which mostly draws figures, and everything that needs a script are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import yaml
from bs4 import BeautifulSoup, Comment, Tag
from pygments.formatters import HtmlFormatter

from autograder.progress import Progress
from autograder.publish.chapters import pages_of

LOGO, MATH_FONT = "html/_static/logo.svg", "html/_static/stix_two_math.woff"  # within _build
STYLE = Path(__file__).with_name("one_file.css")
ARTICLE = re.compile(r'<article class="bd-article">.*</article>', re.S)
NOT_FOR_STUDENTS = re.compile(r"<!-- not for students -->.*?<!-- to here -->", re.S)
TEACHING, ANSWERS = ("instructors", "attacks"), "after_"  # beginnings of page names
LEFT_OUT = (
    "script, .headerlink, .toctree-wrapper, .progress-of-book, .start, .in-dark, .only-dark, .visually-hidden, "
    "details.above-input, details.below-input > summary, .sd-summary-state-marker"
)
LOWER = {"h4": "h5", "h3": "h4", "h2": "h3", "h1": "h2"}  # h1 is the title of a part
SPACES = {"svg": "http://www.w3.org/2000/svg", "math": "http://www.w3.org/1998/Math/MathML"}
# An HTML parser returns names in lower case, but these SVG names contain capitals.
OF_SVG = re.compile(r"\b(viewbox|refx|refy|markerwidth|markerheight)(?==\")")
AS_IN_SVG = {name.lower(): name for name in ("viewBox", "refX", "refY", "markerWidth", "markerHeight")}


@dataclass(frozen=True)
class Article:
    """A page of the book. Each id begins with the page's name: softmax.temperature is a place on the page softmax."""

    name: str
    part: str  # the title of the part that begins with this page, or an empty text
    content: Tag

    @property
    def title(self) -> str:
        """The page's title. The title of a chapter includes its number."""
        return self.content.h2.get_text()

    def sections(self) -> Iterator[tuple[str, str]]:
        """Yield id and title of each section."""
        for heading in self.content.select("section > h3"):
            yield heading.parent["id"], heading.get_text()

    def html(self) -> str:
        """Return the page as XHTML."""
        return OF_SVG.sub(lambda match: AS_IN_SVG[match[0]], self.content.decode(formatter="minimal"))


@dataclass(frozen=True)
class OneFile:
    """The book as one file: its pages in reading order."""

    title: str
    author: str
    url: str  # address of the published book, with a slash at its end
    title_page: str  # as XHTML
    style: str
    articles: list[Article]
    name: str  # of the file, without suffix


def read_articles(root: Path, solutions: bool = False, progress: Progress = lambda *_: None) -> OneFile:
    """Read the pages of the built book.

    Args:
        root: The repository's folder.
        solutions: Whether to include the answers, and the pages to read after an exercise.
        progress: Called as pages are read.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    left_out = TEACHING if solutions else (*TEACHING, ANSWERS)
    parts = {toc["root"]: ""}
    for part in toc["parts"]:
        for file in pages_of(part):
            if not Path(file).name.startswith(left_out):
                parts[file] = part.pop("caption", "")
    url = config["html"]["baseurl"]
    names = {f"{url}{page}.html": Path(page).name for page in parts}
    articles = []
    for done, (page, part) in enumerate(parts.items(), 1):
        text = (root / "_build" / "html" / f"{page}.html").read_text(encoding="utf-8")
        text = ARTICLE.search(text if solutions else NOT_FOR_STUDENTS.sub("", text))[0]
        content = BeautifulSoup(text, "html.parser").article
        if page == toc["root"]:
            content.h1.string = "Introduction"  # this page has the book's title
        unfold(content)
        name_places(content, Path(page).name)
        if part:
            content.insert(0, BeautifulSoup(f"<h1>{escape(part)}</h1>", "html.parser"))
        articles.append(Article(Path(page).name, part, content))
        progress("pages read", done, len(parts))
    places = {each["id"] for article in articles for each in article.content.find_all(id=True)} | set(names.values())
    for article, address in zip(articles, names, strict=True):
        link(article.content, address, names, places)
    colours = HtmlFormatter(style=config["sphinx"]["config"]["html_theme_options"]["pygments_light_style"])
    style = STYLE.read_text(encoding="utf-8") + colours.get_style_defs(".highlight")
    title, author = config["title"], config["author"]
    title_page = f"""<section class="title-page"><img src="{LOGO}" alt=""/><p class="title">{escape(title)}</p>
<p>by {escape(author)}</p>
<p>Version {version("attention-book")}, {config["copyright"]}</p>
<p><a href="{url}">{url}</a></p>
<p>At this address you can try the widgets, read the folded code, and run all code.</p>
<p>{config["html"]["extra_footer"]}</p></section>"""
    return OneFile(title, author, url, title_page, style, articles, f"attention-book{'-solutions' * solutions}")


def unfold(content: Tag) -> None:
    """Prepare a page for print: remove what cannot be printed, open folded boxes, and lower headings by one level."""
    for each in content.select(LEFT_OUT):
        each.decompose()
    for comment in content.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for name, space in SPACES.items():
        for each in content.find_all(name):
            each["xmlns"] = space
    for title in content.select("summary"):
        title.name, title["class"] = "p", "box-title"
    for box in content.select("details"):
        box.name = "div"
    for old, new in LOWER.items():
        for heading in content.select(old):
            heading.name = new


def name_places(content: Tag, name: str) -> None:
    """Put a page's name at the start of its ids, because two pages may have the same ids."""
    for each in content.find_all(id=True):
        if each.find_parent("svg") is None:  # no link leads to an id inside a drawing
            each["id"] = f"{name}.{each['id']}"
    content["id"] = name


def link(content: Tag, address: str, names: dict[str, str], places: set[str]) -> None:
    """Let the links of a page lead to places in the file. A link to any other place leads to the published book.

    Args:
        content: The page's content, which is changed.
        address: The address of the published page.
        names: The names of the pages in the file, by their addresses.
        places: The ids in the file.
    """
    for each in content.find_all("a", href=True):
        target = urljoin(address, each["href"])
        page, place = urldefrag(target)
        within = f"{names.get(page)}.{place}" if place else names.get(page)
        each["href"] = f"#{within}" if within in places else target
    for image in content.find_all("img"):
        image["src"] = re.sub(r"^(\.\./)+", "html/", image["src"])
        del image["loading"]
    for widget in content.select(".widget"):
        note = f'<p class="online">This can be tried in the book: <a href="{address}">{address}</a></p>'
        widget.append(BeautifulSoup(note, "html.parser"))

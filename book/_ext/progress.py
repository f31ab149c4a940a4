"""Show on each chapter's first screen where in the book we are, and how long the chapter takes.

In the contents, a star marks each chapter of the short path: those whose sections have minutes on some page.

    {minutes}`softmax`                  the minutes of a chapter, at any other place
    {minutes}`softmax#temperature a#b`  the minutes of these sections together
    {minutes}`softmax#/ a#b/`           the same, but only the text before the first section inside
    {minutes}`path`                     the sum of all minutes of sections that this page shows
    {minutes}`all`                      the hours of all chapters

Minutes are counted: one for 150 words and for an output of a cell, two for an equation, a cell of code and a widget, and
none for what is folded, except predictions, whose answers everybody opens. A chapter's minutes are rounded to a multiple
of five.
"""

import itertools
import re

from docutils import nodes
from optional import optional
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

WORDS = 150  # in a minute
EQUATION, CELL, OUTPUT, WIDGET = 2, 2, 1, 2  # minutes

logger = logging.getLogger(__name__)


class minutes(nodes.Inline, nodes.Element):
    """A placeholder for a number of minutes, which is known when all chapters are read; `of` is the role's text."""


class Minutes(SphinxRole):
    """Show the minutes of a chapter in the same folder, or of sections of chapters."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [minutes(of=self.text)], []


def count_minutes(document: nodes.Node) -> float:
    """Return the minutes that it takes to read a chapter, without what is folded."""
    if isinstance(document, nodes.Text):
        return len(re.findall(r"\w+", document)) / WORDS
    if isinstance(document, nodes.math_block):
        return EQUATION
    if isinstance(document, nodes.literal_block):
        return CELL
    classes = document.get("classes", []) if isinstance(document, nodes.Element) else []
    if "widget" in classes:
        return WIDGET
    if "cell_output" in classes:
        return OUTPUT
    parts = document.children
    if "tag_hide-input" in classes:
        parts = [part for part in parts if "cell_output" in part.get("classes", [])]
    elif "sd-dropdown" in classes or ("dropdown" in classes and not parts[0].astext().startswith("Predict")):
        parts = parts[:1]  # the title
    shown = itertools.takewhile(lambda part: not isinstance(part, optional), parts)
    return sum(map(count_minutes, shown))


def note_minutes(app: Sphinx, document: nodes.document) -> None:
    """Count the minutes of a page that was read, and of each of its sections, also without the sections inside."""
    counted: dict[str, float] = {}
    for number, section in enumerate(document.findall(nodes.section)):
        own = sum(count_minutes(part) for part in section.children if not isinstance(part, nodes.section))
        for name in section["ids"]:
            counted |= {name: count_minutes(section), f"{name}/": own}
        if number == 0:
            counted["/"] = own
    path = {
        part.partition("#")[0] for place in document.findall(minutes) for part in place["of"].split() if "#" in part
    }
    app.env.metadata[app.env.docname] |= {
        "minutes": count_minutes(document),
        "minutes of sections": counted,
        "path": sorted(path),
    }


def chapters_of(env: BuildEnvironment) -> list[str]:
    """Return the numbered pages in their order: the chapters."""
    numbers = {page: found[""] for page, found in env.toc_secnumbers.items() if found.get("")}
    return sorted(numbers, key=numbers.__getitem__)


def show_minutes(app: Sphinx, document: nodes.document, page: str) -> None:
    """Replace the placeholders by the numbers."""
    pages, folder = app.env.metadata, page.rpartition("/")[0]
    places = list(document.findall(minutes))

    def of_section(place: str) -> int:
        chapter, _, name = place.partition("#")
        sections = pages[f"{folder}/{chapter}"].get("minutes of sections", {})
        if name not in sections:
            logger.warning("the short path leads to %r, which is no section of that page", place, location=page)
        return max(1, round(sections.get(name, 0)))

    def counted(of: str) -> int:
        if of == "path":
            return sum(counted(other["of"]) for other in places if "#" in other["of"])
        if of == "all":
            return round(sum(rounded(pages[chapter]["minutes"]) for chapter in chapters_of(app.env)) / 60)
        if "#" in of:
            return sum(map(of_section, of.split()))
        return rounded(pages[f"{folder}/{of}"]["minutes"])

    for place, found in [(place, counted(place["of"])) for place in places]:
        place.replace_self(nodes.Text(f"{found}"))


def rounded(counted: float) -> int:
    """Return minutes rounded to a multiple of five."""
    return 5 * max(1, round(counted / 5))


def show_progress(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Put a bar below the title of a chapter; each chapter has a part of it."""
    chapters = chapters_of(app.env)
    if page not in chapters:
        return
    place = chapters.index(page)
    parts = "".join(
        f'<li class="{"read" if at <= place else ""}"><a href="{app.builder.get_relative_uri(page, chapter)}"'
        f"{' aria-current=page' if at == place else ''} "
        f'title="{at + 1}. {(title := app.env.titles[chapter].astext())}" aria-label="Chapter {at + 1}: {title}"></a></li>'
        for at, chapter in enumerate(chapters)
    )
    said = f"Chapter {place + 1} of {len(chapters)}, about {rounded(app.env.metadata[page]['minutes'])} minutes"
    bar = f'<nav class="progress-of-book" aria-label="Progress through the book"><ol>{parts}</ol><p>{said}</p></nav>'
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{bar}", 1)


def mark_path(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Put a star after each chapter of the short path in the contents."""
    places = [
        '[href="#"]' if path == page else f'[href="{app.builder.get_relative_uri(page, path)}"]'
        for source, facts in app.env.metadata.items()
        for path in (f"{source.rpartition('/')[0]}/{name}" for name in facts.get("path", ()))
    ]
    if places:
        links = ", ".join(f".bd-sidebar-primary nav a{place}::after" for place in places)
        context["metatags"] = context.get("metatags", "") + f'<style>{links} {{ content: " ★" }}</style>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_node(minutes)
    app.add_role("minutes", Minutes())
    app.connect("doctree-read", note_minutes)
    app.connect("doctree-resolved", show_minutes)
    app.connect("html-page-context", show_progress)
    app.connect("html-page-context", mark_path)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

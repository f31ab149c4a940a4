"""Show on each chapter's first screen where in the book we are, and how long the chapter takes.

The short path reads a chapter from its top to the box of the class `short-path`. In the contents, a star marks the
chapters that have this box.

    {minutes}`softmax`       the minutes of a chapter, at any other place
    {minutes}`softmax#path`  the minutes from the top of the chapter to the box
    {minutes}`all`           the hours of all chapters
    {minutes}`all#path`      the hours of the short path

Minutes are counted: one for 150 words and for an output of a cell, two for an equation, a cell of code and a widget, and
none for what is folded, except predictions, whose answers everybody opens. Minutes are rounded to a multiple of five.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

WORDS = 150  # in a minute
EQUATION, CELL, OUTPUT, WIDGET = 2, 2, 1, 2  # minutes
BOX = "short-path"  # the class of the box that ends the short path in a chapter

logger = logging.getLogger(__name__)


class minutes(nodes.Inline, nodes.Element):
    """A placeholder for a number of minutes, which is known when all chapters are read; `of` is the role's text."""


class Minutes(SphinxRole):
    """Show the minutes of a chapter in the same folder, or to its box."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [minutes(of=self.text)], []


def timed(part: nodes.Node) -> Iterator[tuple[nodes.Node, float]]:
    """Yield each text, equation, cell, output and widget with its minutes, without what is folded; and the box."""
    classes = part.get("classes", []) if isinstance(part, nodes.Element) else []
    if isinstance(part, nodes.Text):
        yield part, len(re.findall(r"\w+", part)) / WORDS
    elif isinstance(part, nodes.math_block):
        yield part, EQUATION
    elif isinstance(part, nodes.literal_block):
        yield part, CELL
    elif "widget" in classes:
        yield part, WIDGET
    elif "cell_output" in classes:
        yield part, OUTPUT
    elif BOX in classes:
        yield part, 0
    elif not isinstance(part, nodes.raw):  # the source of a drawing
        parts = part.children
        if "tag_hide-input" in classes:
            parts = [each for each in parts if "cell_output" in each.get("classes", [])]
        elif "sd-dropdown" in classes or ("dropdown" in classes and not parts[0].astext().startswith("Predict")):
            parts = parts[:1]  # the title
        for each in parts:
            yield from timed(each)


def note_minutes(app: Sphinx, document: nodes.document) -> None:
    """Count the minutes of a page that was read, and, if it has the box, those to the box."""
    to_box, whole = 0.0, 0.0
    for part, time in timed(document):
        whole += time
        if isinstance(part, nodes.Element) and BOX in part["classes"]:
            to_box = whole
    app.env.metadata[app.env.docname] |= {"minutes": whole} | ({"minutes to box": to_box} if to_box else {})


def chapters_of(env: BuildEnvironment) -> list[str]:
    """Return the numbered pages in their order: the chapters."""
    numbers = {page: found[""] for page, found in env.toc_secnumbers.items() if found.get("")}
    return sorted(numbers, key=numbers.__getitem__)


def path_of(env: BuildEnvironment) -> list[str]:
    """Return the chapters of the short path in their order."""
    return [chapter for chapter in chapters_of(env) if "minutes to box" in env.metadata[chapter]]


def show_minutes(app: Sphinx, document: nodes.document, page: str) -> None:
    """Replace the placeholders by the numbers."""
    env, folder = app.env, page.rpartition("/")[0]
    for place in list(document.findall(minutes)):
        name, _, path = place["of"].partition("#")
        chapters = (path_of if path else chapters_of)(env) if name == "all" else [f"{folder}/{name}"]
        try:
            counted = [rounded(env.metadata[chapter]["minutes to box" if path else "minutes"]) for chapter in chapters]
        except KeyError as missing:
            logger.warning("no %s of %r", missing, place["of"], location=page)
            counted = []
        place.replace_self(nodes.Text(f"{round(sum(counted) / (60 if name == 'all' else 1))}"))


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
        f'[href="{"#" if chapter == page else app.builder.get_relative_uri(page, chapter)}"]'
        for chapter in path_of(app.env)
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

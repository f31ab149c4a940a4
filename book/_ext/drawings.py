"""Show a drawing that several chapters share, and highlight the parts that the chapter is about.

    :::{drawing} attention      book/_static/recurring_attention.svg
    :here: softmax              its elements with data-part="softmax", which get the class "here"
    :::

    :::{drawing} words_softmax  a drawing of the running example, from six_words.py
    :::

A picture in Markdown would be the same in each chapter, and would not have the page's colours.
"""

from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import six_words
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STATIC = Path(__file__).parent.parent / "_static"
ElementTree.register_namespace("", "http://www.w3.org/2000/svg")


class RecurringDrawing(SphinxDirective):
    """Put a drawing into the page itself."""

    required_arguments = 1
    option_spec: ClassVar = {"here": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        if self.arguments[0] in six_words.DRAWINGS:
            self.env.note_dependency(six_words.__file__)
            return [nodes.raw("", six_words.draw(self.arguments[0]), format="html")]
        path = STATIC / f"recurring_{self.arguments[0]}.svg"
        if not path.exists():
            raise self.error(f"there is no drawing {path}")
        self.env.note_dependency(str(path))
        drawing = ElementTree.parse(path).getroot()
        parts = {part.get("data-part"): part for part in drawing.iterfind(".//*[@data-part]")}
        here = sorted((self.options.get("here") or "").replace(",", " ").split())
        if unknown := set(here) - parts.keys():
            raise self.error(f"{path} has no part {', '.join(unknown)}; it has: {', '.join(parts)}")
        for name in here:
            parts[name].set("class", f"{parts[name].get('class')} here")
        if here:
            drawing.set("aria-label", f"{drawing.get('aria-label')} This chapter: {', '.join(here)}.")
        return [nodes.raw("", ElementTree.tostring(drawing, encoding="unicode"), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_directive("drawing", RecurringDrawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

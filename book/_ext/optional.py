"""Fold the part of a section that is not needed to follow the book.

    ## A speed record

    Text that every reader sees.

    :::{optional}
    :::

    Text and cells that are folded, to the end of the section.

Another directive cannot do this, because the content of a directive cannot contain cells of code.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class optional(nodes.General, nodes.Element):
    """The place in a section from which on it is optional."""


class Optional(SphinxDirective):
    """Mark the rest of a section as optional."""

    def run(self) -> list[nodes.Node]:
        return [optional()]


def fold(app: Sphinx, document: nodes.document, page: str) -> None:
    """Fold the optional parts of a page."""
    opening = '<details class="optional"><summary>Optional: the rest of this section</summary>'
    for mark in list(document.findall(optional)):
        mark.parent += nodes.raw("", "</details>", format="html")
        mark.replace_self(nodes.raw("", opening, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_node(optional)
    app.add_directive("optional", Optional)
    app.connect("doctree-resolved", fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

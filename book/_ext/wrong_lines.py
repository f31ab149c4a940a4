"""The riddles of the page "Find the wrong line", as data in the page, for `book/_static/widget_wrong_lines.js`.

    :::{wrong_lines}
    :::

The riddles are made from the known mistakes when the page is read. They show answers, so the student version has no
such page.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class WrongLines(SphinxDirective):
    """Put the riddles into the page."""

    def run(self) -> list[nodes.Node]:
        from autograder.publish.wrong_lines import as_element, files_of_riddles, riddles  # imports PyTorch

        for path in files_of_riddles():
            self.env.note_dependency(str(path))
        return [nodes.raw("", as_element(riddles()), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_directive("wrong_lines", WrongLines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

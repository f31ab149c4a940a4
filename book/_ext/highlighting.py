"""Colour code with fewer elements than Pygments writes.

Names and punctuation have the colour of other text in the theme's two styles, but Pygments puts each of them into an
element of its own. Without these, a chapter has a third fewer elements, and a phone reacts sooner.
"""

from pygments.filter import simplefilter
from pygments.lexers import get_lexer_by_name
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.application import Sphinx

PLAIN = (Name, Name.Namespace, Punctuation, Whitespace)  # both styles show these in the colour of other text


@simplefilter
def as_text(self, lexer, stream, options):
    """Turn tokens that have no colour of their own into text."""
    for kind, text in stream:
        yield (Text if kind in PLAIN else kind), text


def lighter(language: str) -> type:
    """Return Pygments' lexer of a language, with this filter."""

    class Lighter(type(get_lexer_by_name(language))):
        def __init__(self, **options):
            super().__init__(**options)
            self.add_filter(as_text())

    return Lighter


def setup(app: Sphinx) -> dict[str, bool]:
    """Use these lexers for chapters' cells and for blocks of Python."""
    for language in ("ipython3", "python"):
        app.add_lexer(language, lighter(language))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

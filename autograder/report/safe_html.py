"""Turn what a person wrote in a notebook into HTML that a browser cannot execute: Markdown, formulas, code."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from math_core import LatexError, LatexToMathML
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.files import writable

LONG = 20_000  # characters of a text that is read as Markdown
STYLES = {"light": "a11y-high-contrast-light", "dark": "a11y-high-contrast-dark"}
MATH = {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msup", "msub", "msubsup", "mover", "munder", "munderover"}
MATH |= {
    "mfrac",
    "msqrt",
    "mroot",
    "mtable",
    "mtr",
    "mtd",
    "mpadded",
    "mphantom",
    "mstyle",
    "menclose",
    "mmultiscripts",
}
LAYOUT = {
    "mathvariant",
    "stretchy",
    "fence",
    "form",
    "separator",
    "minsize",
    "maxsize",
    "width",
    "height",
    "lspace",
    "rspace",
}
LAYOUT |= {"displaystyle", "scriptlevel", "accent", "linethickness", "style"}
STYLE = {"text-align", "justify-items", "padding-left", "padding-right"}  # for columns of equations
TAGS = (nh3.ALLOWED_TAGS - {"img"}) | MATH
ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt"}, "math": {"display", "xmlns"}}
ATTRIBUTES |= dict.fromkeys(MATH - {"math"}, LAYOUT)


def cleaned_markdown(text: str, attachments: Mapping[str, Mapping[str, str]] | None = None) -> Markup:
    """Return Markdown as HTML, with pictures only from its attachments: by name, {type: base64}.

    Headings are one level lower, because the page has its own title. A text longer than `LONG` is shown as it was
    written: the parser takes minutes for some texts of a megabyte.
    """
    if len(text) > LONG:
        return Markup('<div class="code"><pre>{}</pre></div>').format(writable(text))
    pictures = {
        f"attachment:{name}": f"data:{kind};base64,{data}"
        for name, kinds in (attachments or {}).items()
        for kind, data in kinds.items()
    }

    def only_ours(tag: str, attribute: str, value: str) -> str | None:
        return pictures.get(value) if (tag, attribute) == ("img", "src") else value

    cleaner: dict[str, Any] = {"tags": TAGS, "attributes": ATTRIBUTES, "filter_style_properties": STYLE}
    if pictures:
        cleaner["tags"] = TAGS | {"img"}
        cleaner |= {"url_schemes": nh3.ALLOWED_URL_SCHEMES | {"attachment"}, "attribute_filter": only_ours}
    return Markup(nh3.clean(writable(_markdown().render(text)), **cleaner))


def cleaned_code(source: str, in_colours: bool = True) -> Markup:
    """Return Python as HTML. Do not colour long texts, because a student can write one that takes minutes."""
    if not in_colours:
        return Markup('<div class="code"><pre>{}</pre></div>').format(writable(source))
    return Markup(highlight(source, PythonLexer(stripnl=False), HtmlFormatter(cssclass="code")))


@cache
def code_colours() -> str:
    """Return the style sheet of coloured code, for light and dark pages."""
    light, dark = (HtmlFormatter(style=style, cssclass="code").get_style_defs(".code") for style in STYLES.values())
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    markdown.disable("reference")  # the time for "[a]: b" in many lines grows with the square of their number
    markdown.use(dollarmath_plugin, renderer=_formula, allow_space=True, double_inline=True)
    for edge in ("open", "close"):
        markdown.add_render_rule(f"heading_{edge}", _lower)
    return markdown


def _lower(renderer, tokens, index, options, environment) -> str:
    tokens[index].tag = f"h{min(6, int(tokens[index].tag[1]) + 1)}"
    return renderer.renderToken(tokens, index, options, environment)


def _formula(text: str, options: dict) -> str:
    """Return a formula as MathML; an unreadable or very long one stays as it was written."""
    try:
        if len(text) > 2000:
            raise ValueError("longer than any formula of a person")
        return LatexToMathML().convert_with_local_state(text, displaystyle=options["display_mode"])
    except (LatexError, ValueError):  # half of a surrogate pair raises a ValueError
        return f"<code>{escape(text)}</code>"

"""Show a chapter's figure in the colours of the page's theme; a browser loads only this version.

The browser loads a figure when it comes into view. This module recolours drawings, because other Sphinx themes and
extensions do not: they invert the whole drawing, with its colour maps, or need a second drawing.
"""

import re
from pathlib import Path

import numpy as np
from docutils import nodes
from matplotlib.colors import to_hex, to_rgb
from sphinx.application import Sphinx
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator

# Colours of `chapter_figures.py` and their dark versions: first letters and axes, then the background of letters.
IN_THE_DARK = {"#1f2328": "#dfe5eb", "#fefefe": "#11161c"}


def dark_figure(drawing: str) -> str:
    """Return a chapter's figure in the colours of the dark theme.

    Letters and axes become light. Other parts with little contrast to the dark page become light too, except in axes
    with a picture.
    """
    for light, dark in IN_THE_DARK.items():
        drawing = drawing.replace(light, dark)
    parts = re.split(r'(?=<g id="(?:axes|legend)_\d+">)', drawing)
    return "".join(part if "<image " in part else _lighten(part) for part in parts)


def _lighten(part: str) -> str:
    """Make white backgrounds dark, and lighten other parts with little contrast to the dark page. Letters stay."""
    part = re.sub(r"(<path [^>]*style=\")fill: #ffffff", rf"\1fill: {IN_THE_DARK['#fefefe']}", part)
    return re.sub(r"((?:stroke|fill): )(#[0-9a-f]{6})", lambda of: of[1] + readable_in_the_dark(of[2]), part)


def readable_in_the_dark(colour: str) -> str:
    """Return a colour mixed with as much white as it needs for a contrast of 3 (WCAG) with the dark page."""
    page, own = (to_rgb(each) for each in (IN_THE_DARK["#fefefe"], colour))
    if own == page:
        return colour
    mixed = (tuple(part + share * (1 - part) for part in own) for share in np.linspace(0, 1, 21))
    return next(to_hex(each) for each in mixed if (_luminance(each) + 0.05) / (_luminance(page) + 0.05) >= 3)


def _luminance(colour: tuple[float, ...]) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return float(np.dot((0.2126, 0.7152, 0.0722), list(parts)))


def visit_image(page: HTML5Translator, node: nodes.image) -> None:
    """Write a drawing with its size, so that its place stays free. Write a chapter's figure in both themes' colours."""
    copies, source = page.builder.images, Path(page.builder.srcdir, node["uri"])
    sized = {"width", "height", "scale"} & node.attributes.keys()
    if page.builder.name != "html" or node["uri"] not in copies or source.suffix != ".svg" or sized:
        HTML5Translator.visit_image(page, node)
        return
    width, height = get_image_size(str(source))
    copy, drawing = Path(copies[node["uri"]]), source.read_text(encoding="utf-8")
    shown = {"alt": node.get("alt", ""), "width": width, "height": height}
    if "matplotlib" not in drawing:
        page.body.append(page.emptytag(node, "img", "\n", src=f"{page.builder.imgpath}/{copy}", **shown))
        return
    dark = Path(page.builder.outdir, page.builder.imagedir, f"{copy.stem}_dark.svg")
    dark.parent.mkdir(exist_ok=True)
    dark.write_text(dark_figure(drawing), encoding="utf-8")
    for theme, name in (("light", copy.name), ("dark", dark.name)):
        shown |= {"src": f"{page.builder.imgpath}/{name}", "class": f"drawn dark-light in-{theme}"}
        page.body.append(page.emptytag(node, "img", "\n", loading="lazy", **shown))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_node(nodes.image, override=True, html=(visit_image, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

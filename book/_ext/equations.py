"""Turn equations into MathML when the book is built. A browser draws MathML by itself, and a screen reader reads it.

The font is STIX Two Math; the built book holds only the letters that its equations show. Run this after a new version of
the font, https://github.com/stipub/stixfonts:

    python book/_ext/equations.py STIXTwoMath-Regular.ttf     writes book/_static/stix_two_math.woff
"""

import re
import sys
import unicodedata
from collections.abc import Iterable
from html import escape, unescape
from pathlib import Path

from docutils import nodes
from fontTools import subset
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

FONT = "stix_two_math.woff"
MATH, TAG = re.compile(r"<math.*?</math>", re.S), re.compile(r"<[^>]*>")
ROOT = re.compile(r"(?=<m(?:sqrt|root)\b)")
ITALIC = {  # what a browser shows for a single letter
    unicodedata.normalize("NFKC", chr(code)): code
    for code in (*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E)
}
CHANCERY = "\ufe00"  # after a script letter: selects one of its two shapes
FEATURES = ["ssty", "dtls", "flac", "kern"]  # forms for indices and for letters below a hat
logger = logging.getLogger(__name__)
converter = LatexToMathML(fancy_error=False)


def mathml(node: nodes.math | nodes.math_block) -> str:
    r"""Return an equation as MathML. An equation that cannot be read causes a warning, and is shown as it was written.

    Equations that `\qquad` separates become separate ones, so that a phone shows one below the other.
    """
    text, displayed = node.astext(), isinstance(node, nodes.math_block)
    parts = text.split(r"\qquad") if displayed and r"\begin" not in text else [text]
    try:
        if r"\\[" in text:
            raise LatexError(r"the distance after a line's end, \\[1ex], would be shown as a word: leave it out")
        return "".join(converter.convert_with_local_state(part, displaystyle=displayed) for part in parts)
    except LatexError as error:
        logger.warning("an equation that cannot be read: %s\n%s", text, error, location=node)
        return f"<code>{escape(text)}</code>"


def visit_math(writer: HTML5Translator, node: nodes.math) -> None:
    opening = writer.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    writer.body.append(f"{opening}{mathml(node)}</span>")
    raise nodes.SkipNode


def visit_displayed_math(writer: HTML5Translator, node: nodes.math_block) -> None:
    opening = writer.starttag(node, "div", "", CLASS="math notranslate nohighlight")
    writer.body.append(f'{opening}<div class="equation">{mathml(node)}</div>')
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def signs_of(pages: Iterable[str]) -> set[int]:
    """Return the signs that the equations of some pages show, including the root sign, which is in no text."""
    equations = [ROOT.sub("√", equation) for page in pages for equation in MATH.findall(page)]
    shown = {sign for equation in equations for sign in unescape(TAG.sub("", equation))}
    seen = {sign for sign in shown if sign != CHANCERY and not sign.isspace()}
    return {*map(ord, seen)} | {ITALIC[sign] for sign in seen & ITALIC.keys()}


def cut_font(path: Path, signs: set[int]) -> set[int]:
    """Keep some signs of a font's file, without hints for screens of few pixels; return the signs that it lacks."""
    # The names keep the font's licence in the file.
    settings = subset.Options(flavor="woff", hinting=False, layout_features=FEATURES, name_IDs=["*"])
    font = subset.load_font(path, settings)
    held = font.getBestCmap().keys()
    cutter = subset.Subsetter(settings)
    cutter.populate(unicodes=signs & held)
    cutter.subset(font)
    subset.save_font(font, path, settings)
    return signs - held


def leave_signs(app: Sphinx, problem: Exception | None) -> None:
    """Cut the font down to the signs that the book's equations show."""
    font = Path(app.outdir, "_static", FONT)
    if problem is None and font.exists():  # a test builds pages without the font
        signs = signs_of(path.read_text(encoding="utf-8") for path in sorted(Path(app.outdir).rglob("*.html")))
        if lacking := cut_font(font, signs):
            logger.warning("equations have signs that %s lacks: %s", FONT, " ".join(map(chr, sorted(lacking))))


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx write equations as MathML."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))
    app.connect("build-finished", leave_signs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def narrow_roots(font: TTFont) -> None:
    """Make all root signs as wide as the smallest, because Chromium reserves the widest sign's space for each."""
    variants, widths, glyphs = font["MATH"].table.MathVariants, font["hmtx"].metrics, font.getGlyphSet()
    smallest = font.getBestCmap()[ord("√")]
    forms = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(smallest)]
    names = [record.VariantGlyph for record in forms.MathGlyphVariantRecord]
    for name in {*names, *(part.glyph for part in forms.GlyphAssembly.PartRecords)} - {smallest}:
        share, pen = widths[smallest][0] / widths[name][0], TTGlyphPen(None)
        glyphs[name].draw(TransformPen(pen, (share, 0, 0, 1, 0, 0)))
        font["glyf"][name] = pen.glyph()
        widths[name] = (widths[smallest][0], round(share * widths[name][1]))


if __name__ == "__main__":
    whole, written = TTFont(sys.argv[1], recalcTimestamp=False), Path(__file__).parents[1] / "_static" / FONT
    narrow_roots(whole)
    whole.flavor = "woff"
    whole.save(written)
    print(f"written  {written}")

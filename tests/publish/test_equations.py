"""Do equations become complete MathML, in letters of our own font?"""

import re
import sys

import pytest
from docutils import nodes
from fontTools.ttLib import TTFont

from autograder.imports import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import equations

CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1|`[^`\n]+`", re.M | re.S)
DISPLAYED, INLINE = re.compile(r"\$\$(.+?)\$\$", re.S), re.compile(r"(?<![\\$])\$([^$\n]+)\$")


def equations_in(source: str) -> list[nodes.Element]:
    """Return every equation in the source of a page."""
    text = CODE.sub("", source)
    displayed = [nodes.math_block(text=each) for each in DISPLAYED.findall(text)]
    return displayed + [nodes.math(text=each) for each in INLINE.findall(DISPLAYED.sub("", text))]


def test_every_equation_of_the_book_becomes_mathml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is every equation read without a warning, with no TeX left, and does our font have all its signs?"""
    warned = []
    monkeypatch.setattr(equations.logger, "warning", lambda *words, **_: warned.append(words))
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").glob("*.md"))]
    made = [equations.mathml(node) for page in pages for node in equations_in(page)]
    assert len(made) > 1000 and warned == []
    assert [text for text in made if re.search(r"[\\$]", re.sub(r"<[^>]*>", "", text))] == []
    held = TTFont(ROOT / "book" / "_static" / equations.FONT).getBestCmap()
    assert {chr(sign) for sign in equations.signs_of(made)} - {chr(sign) for sign in held} == set()


@pytest.mark.parametrize("text", [r"\foo{x}", r"\frac{1}{2", r"\begin{pmatrix} 1 \\[1ex] 2 \end{pmatrix}"])
def test_equation_that_cannot_be_read_is_a_warning(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does an equation that MathML cannot show give a warning, which stops the build, and does it stay readable?"""
    warned = []
    monkeypatch.setattr(equations.logger, "warning", lambda *words, **_: warned.append(words))
    assert text.split("{")[0] in equations.mathml(nodes.math(text=text))
    assert len(warned) == 1
    assert len(re.findall("<math", equations.mathml(nodes.math_block(text=r"a = b, \qquad c = d")))) == 2


@pytest.mark.parametrize("text", [r"\sqrt{d}", r"\sqrt[3]{d}"])
def test_font_of_a_page_keeps_the_sign_of_a_root(text: str) -> None:
    """Does a page's font keep the root sign, which MathML draws without writing it?"""
    assert ord("√") in equations.signs_of([equations.mathml(nodes.math(text=text))])

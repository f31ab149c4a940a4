"""Do the extensions of the book do what its pages ask of them, without the book?"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import tinycss2
from bs4 import BeautifulSoup
from docutils import nodes

from autograder.imports import ROOT
from autograder.judge.kill_matrix import NUMBERS, Matrix, Verdict
from autograder.judge.mutations import Score
from autograder.publish.articles import NOT_FOR_STUDENTS
from autograder.publish.mistakes_page import mistakes_page


@pytest.mark.parametrize("edition", ["student", "self-study"])
def test_solution_needs_a_folder_of_solutions(edition: str, tmp_path: Path) -> None:
    """Does a page without `solutions/` build without a warning, and show neither solutions nor lines of them?"""
    (tmp_path / "index.md").write_text(
        "# A page\n\nBefore.\n\n```{solution} attention.softmax\n```\n\n"
        "```{mistake} M21 a title\n:exercises: split_heads\n:symptoms: another shape\n\nA question?\n```\n\n"
        "```{drawing} vit\n:here: patches\n```\n\nAs {published}`a file <book.pdf>`.\n",
        encoding="utf-8",
    )
    if edition == "self-study":
        (tmp_path / "solutions").mkdir()
        answer = 'def softmax(scores):\n    """Say ```so```."""\n    return scores\n'
        (tmp_path / "solutions" / "attention.py").write_text(answer, encoding="utf-8")
        shutil.copy(ROOT / "solutions" / "multihead.py", tmp_path / "solutions")
    extensions = "myst_parser,sphinx_design,attention_book"
    command = [sys.executable, "-m", "sphinx", "-C", "-W", "-q", "-D", f"extensions={extensions}"]
    command += ["-D", "html_baseurl=https://book.example/", ".", "built"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "book" / "_ext")}, check=True)
    html = (tmp_path / "built" / "index.html").read_text(encoding="utf-8")
    page = BeautifulSoup(html, "html.parser")
    text, mistake = page.get_text(), page.find("details", id="m21").get_text()
    assert "A question?" in mistake
    assert ("a part of the answer" in mistake) == (edition == "self-study")
    printed = BeautifulSoup(NOT_FOR_STUDENTS.sub("", html), "html.parser").find("details", id="m21").get_text()
    assert "A question?" in printed and "a part of the answer" not in printed
    assert page.find("a", string="a file")["href"] == "https://book.example/book.pdf"
    assert page.find("svg", class_="recurring")["aria-label"].endswith("This chapter: patches.")
    assert "Before." in text
    assert ("Solution: softmax" in text, "Say ```so```." in text) == ((edition == "self-study",) * 2)


def test_pages_keep_their_style_sheet_when_built_again(tmp_path: Path) -> None:
    """Do pages look the same after a build for which none of them had changed, and after one for which one had?"""
    for name in ("index", "other"):
        (tmp_path / f"{name}.md").write_text(f"---\norphan: true\n---\n# Page {name}\n\n> Quoted.\n", encoding="utf-8")

    def sheet_after_build() -> str:
        command = [sys.executable, "-m", "sphinx", "-C", "-W", "-q", "-D", "extensions=myst_parser,attention_book"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "book" / "_ext")}
        subprocess.run([*command, ".", "built"], cwd=tmp_path, env=environment, check=True)
        (path,) = (tmp_path / "built").rglob("*.css")
        return path.read_text(encoding="utf-8")

    first = sheet_after_build()
    assert "blockquote" in first
    (tmp_path / "built" / "redirect.html").write_text("as the list of contents writes one", encoding="utf-8")
    assert sheet_after_build() == first
    (tmp_path / "other.md").write_text("---\norphan: true\n---\n# Page\n\nNothing quoted.\n", encoding="utf-8")
    assert sheet_after_build() == first


def test_drawings_are_up_to_date() -> None:
    """Are logo, icon and maps what book/_ext/drawings.py draws?"""
    drawings = runpy.run_path(str(ROOT / "book" / "_ext" / "drawings.py"))["drawings"]()
    for name, content in drawings.items():
        assert (ROOT / "book" / "_static" / name).read_text(encoding="utf-8") == content, name


def test_recurring_drawing_marks_where_we_are() -> None:
    """Is a drawing well-formed, with a box for each part, of which those of the chapter are marked and named?"""
    for drawing in runpy.run_path(str(ROOT / "book" / "_ext" / "drawings.py"))["RECURRING"].values():
        here = {list(drawing.parts)[2], list(drawing.parts)[3]}
        svg = ElementTree.fromstring(drawing.draw(here))
        marked = [part.find("text").text for part in svg.iter("g") if "here" in part.get("class")]
        assert set(marked) == {drawing.parts[name].name for name in here}
        assert all(name in svg.get("aria-label").split("This chapter:")[1] for name in marked)
        assert len(list(svg.iter("rect"))) == len(drawing.parts)


def test_page_of_mistakes_counts_its_entries() -> None:
    """Does the page say how many of the mistakes that are made show in numbers alone, and how many it lists?"""
    mutants = [
        Verdict("softmax", "M1/1", {"values": "M1"}, symptoms=[NUMBERS]),
        Verdict("softmax", "M1/2", {"values": "M1"}, symptoms=[NUMBERS]),
        Verdict("softmax", "M3/1", {"values": "M3"}, symptoms=[NUMBERS, "NaN or infinite"]),
    ]
    page = mistakes_page(
        [Matrix("1_attention", "attention", 0, mutants, [])], [Score("softmax", 1, ("a",), (), {}, ())]
    )
    assert "1 of the 2 that are made show in nothing" in page
    listed = len(re.findall(r"^::::\{mistake\} M", page, re.MULTILINE))
    assert listed > 2
    assert f"the list has {listed} mistakes." in page


def test_mistakes_are_counted_on_their_page_alone() -> None:
    """Does the introduction say in words, without a number of its own, what the page of mistakes counts?"""
    page, introduction = ((ROOT / "book" / name).read_text(encoding="utf-8") for name in ("mistakes.md", "intro.md"))
    silent, made = map(int, re.search(r"(\d+) of the (\d+)\b.* show in nothing", page).groups())
    assert silent > made / 2
    assert "more than half of the mistakes that the exercises name" in introduction
    assert not re.search(rf"more than 1\d\d|\b{made}\b", introduction)


def test_a_page_fetches_the_rules_that_some_page_needs() -> None:
    """Does a rule stay whose classes are used, for the selectors that ask for them, and for what asks for none?"""
    rules_for = runpy.run_path(str(ROOT / "book" / "_ext" / "pages.py"))["rules_for"]
    sheet = """
        a:not(.far), .near > p { color: red } .far .near, .near { color: blue } #far { color: green }
        @media print { .far { color: red } } @media screen { [title=".far"] { color: red } .far { color: red } }
        @font-face { font-family: far }
    """
    kept = rules_for({"near"}, tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True))
    assert re.sub(r"\s", "", kept) == (
        "a:not(.far),.near>p{color:red}.near{color:blue}"
        '@mediascreen{[title=".far"]{color:red}}@font-face{font-family:far}'
    )


def test_minutes_are_those_of_chapters_and_of_sections() -> None:
    """Is a section's time counted without what is folded, and is the short path the sum of its sections?"""
    progress = runpy.run_path(str(ROOT / "book" / "_ext" / "progress.py"))
    text = nodes.paragraph(text="word " * 900)
    folded = nodes.container("", text.deepcopy(), classes=["dropdown"])
    page = nodes.section("", nodes.section("", text, folded, ids=["by-hand"]), nodes.section("", ids=["limits"]))
    app = SimpleNamespace(env=SimpleNamespace(docname="book/softmax", metadata={"book/softmax": {}}))
    progress["note_minutes"](app, page)
    asked = "softmax", "softmax#by-hand softmax#limits", "path"
    shown = nodes.container("", *(progress["minutes"](of=each) for each in asked))
    progress["show_minutes"](app, shown, "book/intro")
    assert [each.astext() for each in shown.children] == ["5", "7", "7"]  # a chapter to five; a section at least one

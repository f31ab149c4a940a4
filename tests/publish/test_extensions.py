"""Do the extensions of the book work as its pages need, without building the book?"""

import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import yaml
from bs4 import BeautifulSoup
from pygments.styles import get_style_by_name
from pygments.token import Text

from autograder.imports import ROOT
from autograder.judge.kill_matrix import NUMBERS
from autograder.publish.articles import NOT_FOR_STUDENTS


def build(folder: Path, text: str) -> str:
    """Build a book of one page with warnings as errors, and return the page's HTML."""
    (folder / "index.md").write_text(text, encoding="utf-8")
    extensions = "myst_parser,sphinx_design,attention_book"
    command = [sys.executable, "-m", "sphinx", "-C", "-W", "-q", "-D", f"extensions={extensions}"]
    command += ["-D", "html_baseurl=https://book.example/", ".", "built"]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT / "book" / "_ext")}, check=True)
    return (folder / "built" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", ["student", "self-study"])
def test_mistake_needs_a_folder_of_solutions(version: str, tmp_path: Path) -> None:
    """Does a page without `solutions/` build without a warning, and show a mistake without a line of the answer?"""
    if version == "self-study":
        (tmp_path / "solutions").mkdir()
        shutil.copy(ROOT / "solutions" / "multihead.py", tmp_path / "solutions")
    mistake = "```{mistake} M21 a title\n:exercises: split_heads\n:symptoms: another shape\n\nA question?\n```\n"
    html = build(tmp_path, f"# A page\n\n{mistake}")
    text = BeautifulSoup(html, "html.parser").find("details", id="m21").get_text()
    assert "A question?" in text
    assert ("a part of the answer" in text) == (version == "self-study")
    printed = BeautifulSoup(NOT_FOR_STUDENTS.sub("", html), "html.parser").find("details", id="m21").get_text()
    assert "A question?" in printed and "a part of the answer" not in printed


def test_links_to_the_repository_name_its_files() -> None:
    """Is there each file to which a page links on the repository's host or on Colab?"""
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md")]
    places = [place for page in pages for place in re.findall(r"\{(?:repo|colab)\}`[^`<]+<([^`>]+)>`", page)]
    assert len(places) > 10
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(("name", "here"), [("vit", "positions, patches"), ("attention", "keys gradient")])
def test_recurring_drawing_marks_where_we_are(name: str, here: str, tmp_path: Path) -> None:
    """Does a drawing mark and name the parts that a chapter is about, and no others? Are our other directives read?"""
    others = "```{drawing} words_softmax\n```\n\nAs {published}`a file <book.pdf>`.\n"
    html = build(tmp_path, f"# A page\n\n```{{drawing}} {name}\n:here: {here}\n```\n\n{others}")
    page = BeautifulSoup(html, "html.parser")
    assert page.find("a", string="a file")["href"] == "https://book.example/book.pdf"
    drawing, example = page.select("svg.recurring")
    assert example["role"] == "img" and "cat, which has the highest score" in example["aria-label"]
    parts = here.replace(",", "").split()
    assert drawing["aria-label"].endswith(f"This chapter: {', '.join(sorted(parts))}.")
    assert {part["data-part"] for part in drawing.select(".here")} == set(parts)
    boxes = drawing.select("g.part")
    assert len(boxes) > 6 and all(box.find("text").text == box["data-part"] for box in boxes)


def test_drawing_without_the_part_that_a_chapter_names_stops_the_build(tmp_path: Path) -> None:
    """Does an unknown part of a drawing raise an error? A wrong name would leave the drawing without a mark."""
    with pytest.raises(subprocess.CalledProcessError):
        build(tmp_path, "# A page\n\n```{drawing} vit\n:here: no such part\n```\n")


def test_page_of_mistakes_counts_its_entries() -> None:
    """Does the page say how many mistakes it lists, and how many show only in numbers, and no other page a number?"""
    page, about = ((ROOT / "book" / name).read_text(encoding="utf-8") for name in ("mistakes.md", "about.md"))
    symptoms = re.findall("^:symptoms: (.+)$", page, re.M)
    silent, made = symptoms.count(NUMBERS), len(symptoms)
    assert f" {silent} of the {made} measured mistakes show only in wrong numbers" in page
    assert f" the list has {page.count('::::{mistake} M')} mistakes." in page
    assert silent > made / 2
    assert "of the mistakes in the list whose symptoms we measured, more than half" in about
    assert not re.search(rf"more than 1\d\d|\b{made}\b", about)


def extension(name: str) -> dict[str, Any]:
    """Return what a file of the book's extensions defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "book" / "_ext")
        return vars(importlib.import_module(name))


def test_running_example_keeps_its_words_and_colours() -> None:
    """Has a word the same colour in all drawings, is each word written, and has each drawing its own conclusion?"""
    six_words = extension("six_words")
    drawings = {name: BeautifulSoup(six_words["draw"](name), "html.parser").svg for name in six_words["DRAWINGS"]}
    assert len({drawing["aria-label"] for drawing in drawings.values()}) == 7
    colours = {(word["data-word"], word.rect["style"]) for each in drawings.values() for word in each.select("g")}
    assert sorted(number for number, _ in colours) == list("012345") and len({style for _, style in colours}) == 6
    sentence = set(zip("012345", ["the", "cat", "sat", "on", "the", "mat"], strict=True))
    for name, drawing in drawings.items():
        words = {(word["data-word"], word.text.strip()) for word in drawing.select("g")}
        assert sentence <= words <= sentence | {(number, "") for number, _ in sentence}, name
        sizes = {float(size) for size in re.findall(r"font-size: ([\d.]+)px", str(drawing))} | {15}
        assert 382 / float(drawing["viewbox"].split()[2]) * min(sizes) > 9, name  # pixels of letters on a phone


def numbers_of(drawing: Any, left: float = 0, right: float = 1000) -> list[float]:
    """Return the numbers of a drawing between two x, from the top to the bottom and from left to right."""
    found = [(float(each["y"]), float(each["x"]), each.text) for each in drawing.find_all("text", attrs={"class": ""})]
    texts = [text.replace("−", "-") for _, x, text in sorted(found) if left < x < right]
    return [float(text) for text in texts if re.fullmatch(r"-?[\d.]+", text)]


def test_running_example_shows_what_torch_computes() -> None:
    """Are scores, weights and gradient those that PyTorch computes from the queries and keys that a drawing shows?"""
    names = ("einsum", "multihead", "softmax", "attention", "attention_gradient")
    draw = extension("six_words")["draw"]
    pages = (BeautifulSoup(draw(f"words_{name}"), "html.parser").svg for name in names)
    einsum, heads, softmax, attention, gradient = pages
    q, k = (torch.tensor(numbers_of(einsum, *span)).view(6, 4) for span in ((0, 114), (114, 240)))
    scores = torch.einsum("id,jd->ij", q, k)
    assert numbers_of(einsum, 240) == scores.flatten().tolist()
    weights = F.scaled_dot_product_attention(q, k, torch.eye(6))
    shown = torch.tensor(numbers_of(heads, 0, 246)).view(6, 6)
    torch.testing.assert_close(shown, weights, rtol=0, atol=0.0051)  # two digits
    other = torch.tensor(numbers_of(heads, 246)).view(6, 6)
    assert (other.sum(dim=-1) - 1).abs().max() < 0.031 and not torch.allclose(other, shown, atol=0.1)
    assert numbers_of(softmax)[:6] == (scores[2] / 2).tolist()
    for drawing in (softmax, attention):
        row = torch.tensor(numbers_of(drawing)[-6:])
        torch.testing.assert_close(row, weights[2], rtol=0, atol=0.00051)  # three digits
        assert round(row.sum().item(), 3) == 1
    benefit, _, slopes = torch.tensor(numbers_of(gradient)).view(3, 6)
    given = (scores[2] / 2).requires_grad_()
    (-given.softmax(dim=0) @ benefit).backward()
    torch.testing.assert_close(slopes, given.grad, rtol=0, atol=0.0051)


WORDS = "word " * 900  # six minutes
BOX = "```{{admonition}} {}\n:class: {}\n" + WORDS + "\n```"
CELL = "{.tag_hide-input}\n> ```python\n> plot()\n> ```\n>\n> {.cell_output}\n> " + WORDS
CHAPTER = [
    "---\nmyst: {enable_extensions: [attrs_block]}\n---\n\n# Softmax\n\n```{raw} html\n" + 900 * "<path/> " + "\n```",
    BOX.format("Predict: 7?", "dropdown"),
    f"## Costs\n\n{WORDS}",
    BOX.format("More", "dropdown"),
    f"## Heads\n\n{CELL}",
    BOX.format("Short path", "short-path"),
    "```{container} widget\n" + WORDS + "\n```",
    f"## Masks\n\n{WORDS}",
]
CONTENTS = "```{toctree}\n:numbered:\nbook/softmax\nbook/einsum\n```\n```{toctree}\nbook/intro\n```"


def test_minutes_are_those_of_chapters_and_of_the_path(tmp_path: Path) -> None:
    """Do minutes leave out what is folded but predictions, does the short path end at its box, and has it its stars?"""
    asked = "softmax", "softmax#path", "einsum", "all", "all#path"
    intro = f"# Intro\n\n{' '.join(f'{{minutes}}`{each}`' for each in asked)}\n"
    (tmp_path / "book").mkdir()
    for name, text in {"softmax": "\n\n".join(CHAPTER), "einsum": "# Einsum\n\n" + 20 * WORDS, "intro": intro}.items():
        (tmp_path / "book" / f"{name}.md").write_text(text, encoding="utf-8")
    build(tmp_path, f"# A book\n\n{CONTENTS}\n")
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "built" / "book").glob("*.html")}
    # A prediction and a text have 6 minutes each, an output 1, a widget 2; sums are rounded to five, hours to one.
    assert "<p>20 15 120 2 0</p>" in pages["intro"]
    assert "<p>Chapter 1 of 2, about 20 minutes</p>" in pages["softmax"]
    stars = {name: re.findall(r'nav a\[href="(.*?)"\]::after', page) for name, page in pages.items()}
    assert stars == {"intro": ["softmax.html"], "softmax": ["#"], "einsum": ["softmax.html"]}
    (tmp_path / "book" / "intro.md").write_text("# Intro\n\n{minutes}`einsum#path`\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):  # a chapter without a box
        build(tmp_path, f"# A book\n\n{CONTENTS}\n")


def test_boxes_of_the_short_path_are_a_chain() -> None:
    """Does each box lead to the next chapter with a box and back to the one before, and do the map's minutes name each?"""
    chapters = re.findall(r"file: (book/\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    texts = {Path(each).name: (ROOT / f"{each}.md").read_text(encoding="utf-8") for each in chapters}
    box_of_a_chapter = re.compile(r":class: short-path\n(.*?)\n(?:```|:::)", re.S)
    boxes = {name: box for name, text in texts.items() for box in box_of_a_chapter.findall(text)}
    counted = re.findall(r"\{minutes\}`(\w+)#path`", (ROOT / "book" / "intro.md").read_text(encoding="utf-8"))
    assert list(boxes) == [name for name in counted if name != "all"]
    back = dict(zip(boxes, ["intro", *boxes], strict=False))
    following = dict(itertools.pairwise(boxes))
    for name, box in boxes.items():
        leads = dict(re.findall(r"(Next|Back): \[[^\]]+\]\((\w+)\.md\)", box))
        assert leads["Back"] == back[name]
        assert leads["Next"] == following.get(name, leads["Next"]), name


def test_only_tokens_without_a_colour_of_their_own_lose_their_element(tmp_path: Path) -> None:
    """Does each token that becomes text have the colour of text in both styles, and do others keep their element?"""
    theme = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]["html_theme_options"]
    for name in ("light", "dark"):
        style = get_style_by_name(theme[f"pygments_{name}_style"])
        plain = [style.style_for_token(kind) for kind in extension("highlighting")["PLAIN"]]
        assert plain == [style.style_for_token(Text)] * len(plain)
    source = "def f(x):\n    return x + 1  # one\n"
    code = BeautifulSoup(build(tmp_path, f"# A page\n\n```python\n{source}```\n"), "html.parser").find("pre")
    assert code.get_text() == source
    assert [span.get_text() for span in code.select("span[class]")] == ["def", "f", "return", "+", "1", "# one"]

"""Do the extensions of the book work as its pages need, without building the book?"""

import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from pygments.styles import get_style_by_name
from pygments.token import Text

from autograder.imports import ROOT
from autograder.judge.kill_matrix import NUMBERS, Matrix, Verdict
from autograder.judge.mutations import Score
from autograder.publish.articles import NOT_FOR_STUDENTS
from autograder.publish.mistakes_page import mistakes_page


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


def test_links_lead_to_the_published_book(tmp_path: Path) -> None:
    """Does the address of the book stand before a published file?"""
    page = BeautifulSoup(build(tmp_path, "# A page\n\nAs {published}`a file <book.pdf>`.\n"), "html.parser")
    assert page.find("a", string="a file")["href"] == "https://book.example/book.pdf"


def test_links_to_the_repository_name_its_files() -> None:
    """Is there each file to which a page links on the repository's host or on Colab?"""
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md")]
    places = [place for page in pages for place in re.findall(r"\{(?:repo|colab)\}`[^`<]+<([^`>]+)>`", page)]
    assert len(places) > 10
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(("name", "here"), [("vit", "positions, patches"), ("attention", "keys gradient")])
def test_recurring_drawing_marks_where_we_are(name: str, here: str, tmp_path: Path) -> None:
    """Does a drawing mark and name the parts that a chapter is about, and no others?"""
    html = build(tmp_path, f"# A page\n\n```{{drawing}} {name}\n:here: {here}\n```\n")
    drawing = BeautifulSoup(html, "html.parser").find("svg", class_="recurring")
    parts = here.replace(",", "").split()
    assert drawing["aria-label"].endswith(f"This chapter: {', '.join(sorted(parts))}.")
    assert {part["data-part"] for part in drawing.select(".here")} == set(parts)
    boxes = drawing.select("g.part")
    assert len(boxes) > 6 and all(box.find("text").text == box["data-part"] for box in boxes)


def test_drawing_of_the_running_example_is_in_the_page(tmp_path: Path) -> None:
    """Does the name of such a drawing put it into the page, with its conclusion for a screen reader?"""
    drawing = BeautifulSoup(build(tmp_path, "# A page\n\n```{drawing} words_softmax\n```\n"), "html.parser").svg
    assert drawing["role"] == "img" and "cat, which has the highest score" in drawing["aria-label"]


def test_drawing_without_the_part_that_a_chapter_names_stops_the_build(tmp_path: Path) -> None:
    """Does an unknown part of a drawing raise an error? A wrong name would leave the drawing without a mark."""
    with pytest.raises(subprocess.CalledProcessError):
        build(tmp_path, "# A page\n\n```{drawing} vit\n:here: no such part\n```\n")


@pytest.mark.parametrize("end", [".git", "/", ""])
def test_address_of_the_repository_must_work_in_links(end: str, tmp_path: Path) -> None:
    """Does an address in `_config.yml` that only `git clone` takes stop the build, with the expected form?"""
    (tmp_path / "index.md").write_text("# A page\n\n{repository}`the repository </>`\n", encoding="utf-8")
    address = f"https://github.com/a/b{end}"
    options = f"html_theme_options.repository_url={address}", "html_theme=sphinx_book_theme", "html_baseurl=x"
    command = [sys.executable, "-m", "sphinx", "-C", "-q", "-D", "extensions=myst_parser,sphinx_design,attention_book"]
    command += [word for option in options for word in ("-D", option)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "book" / "_ext")}
    done = subprocess.run([*command, ".", "built"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    page = tmp_path / "built" / "index.html"
    assert (f"{address}; expected https://github.com/OWNER/NAME" in done.stderr) == bool(end)
    assert page.exists() == (not end), done.stderr
    assert end or f'href="{address}/"' in page.read_text(encoding="utf-8")


def test_optional_rest_of_a_section_is_folded(tmp_path: Path) -> None:
    """Is what follows the mark in its section folded, sections inside included, and nothing else of the page?"""
    mark = "```{optional}\n```"
    text = f"# A page\n\n## Costs\n\nFirst.\n\n{mark}\n\nSecond.\n\n### Inside\n\nThird.\n\n## Limits\n\nFourth.\n"
    [box] = BeautifulSoup(build(tmp_path, text), "html.parser").select("details.optional")
    assert box.summary.get_text() == "Optional: the rest of this section"
    assert [each.get_text() for each in box.find_all("p")] == ["Second.", "Third."]
    assert "open" not in box.attrs and box.parent["id"] == "costs" and "Limits" not in box.get_text()


def test_page_of_mistakes_counts_its_entries() -> None:
    """Does the page say how many mistakes show only in numbers, and how many it lists?"""
    mutants = [
        Verdict("softmax", "M1/1", {"values": "M1"}, symptoms=[NUMBERS]),
        Verdict("softmax", "M1/2", {"values": "M1"}, symptoms=[NUMBERS]),
        Verdict("softmax", "M3/1", {"values": "M3"}, symptoms=[NUMBERS, "NaN or infinite"]),
        Verdict("softmax", "M7/1", {"values": "M7"}, symptoms=[]),
    ]
    page = mistakes_page(
        [Matrix("1_attention", "attention", 0, mutants, [])], [Score("softmax", 1, ("a",), (), {}, ())]
    )
    assert "1 of the 2 measured mistakes show only in" in page
    listed = len(re.findall(r"^::::\{mistake\} M", page, re.MULTILINE))
    assert listed > 2
    assert f"the list has {listed} mistakes." in page


def test_mistakes_are_counted_on_their_page_alone() -> None:
    """Is the number of mistakes only on the page of mistakes, while the page about the book describes it in words?"""
    page, about = ((ROOT / "book" / name).read_text(encoding="utf-8") for name in ("mistakes.md", "about.md"))
    silent, made = map(int, re.search(r"(\d+) of the (\d+)\b.* show only in", page).groups())
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


def test_minutes_are_those_of_chapters_and_of_the_path(caplog: pytest.LogCaptureFixture) -> None:
    """Do minutes leave out what is folded but predictions, and does the short path end at its box?"""
    progress = extension("progress")
    text = nodes.paragraph(text="word " * 900)
    folded, predicted = (
        nodes.admonition("", nodes.title(text=title), text.deepcopy(), classes=["dropdown"])
        for title in ("More", "Predict: 7?")
    )
    widget = nodes.container("", text.deepcopy(), classes=["widget"])
    cell = nodes.container(
        "",
        nodes.container("", nodes.literal_block(text="plot()"), classes=["cell_input"]),
        nodes.container("", text.deepcopy(), classes=["cell_output"]),
        classes=["cell", "tag_hide-input"],
    )
    box = nodes.admonition("", nodes.title(text="Short path"), text.deepcopy(), classes=["short-path"])
    page = nodes.section(
        "",
        nodes.raw("", "<path/> " * 900, format="html"),
        predicted,
        nodes.section("", text, folded, progress["optional"](), text.deepcopy()),
        nodes.section("", nodes.section("", cell, box), widget),
        nodes.section("", text.deepcopy()),
    )
    metadata: dict[str, dict] = {"book/softmax": {}, "book/einsum": {}}
    numbers = {"book/softmax": {"": (1,)}, "book/einsum": {"": (2,)}, "book/intro": {"": ()}}
    app = SimpleNamespace(env=SimpleNamespace(metadata=metadata, toc_secnumbers=numbers))
    app.env.docname = "book/softmax"
    progress["note_minutes"](app, page)
    app.env.docname = "book/einsum"
    progress["note_minutes"](app, nodes.section("", *(text.deepcopy() for _ in range(20))))
    asked = "softmax", "softmax#path", "einsum", "all", "all#path"
    shown = nodes.container("", *(progress["minutes"](of=each) for each in asked))
    progress["show_minutes"](app, shown, "book/intro")
    # A prediction and a text have 6 minutes each, an output 1, a widget 2; sums are rounded to five, hours to one.
    assert [each.astext() for each in shown.children] == ["20", "15", "120", "2", "0"]
    assert not caplog.records
    progress["show_minutes"](app, nodes.container("", progress["minutes"](of="einsum#path")), "book/intro")
    assert "einsum#path" in caplog.text  # a chapter without a box


def test_contents_mark_the_chapters_of_the_short_path() -> None:
    """Does a page have a star after each chapter with a box of the short path, itself included, and after no other?"""
    progress = extension("progress")
    metadata = {"book/intro": {}, "book/softmax": {"minutes to box": 20.0}, "book/attention": {"minutes to box": 20.0}}
    metadata["book/training"] = {"minutes": 60.0}
    numbers = {page: {"": (number,)} for number, page in enumerate(metadata)}
    env = SimpleNamespace(metadata=metadata, toc_secnumbers=numbers)
    app = SimpleNamespace(env=env, builder=SimpleNamespace(get_relative_uri=lambda page, other: f"{other[5:]}.html"))
    context: dict[str, str] = {}
    progress["mark_path"](app, "book/softmax", "page.html", context, None)
    assert re.findall(r'\[href="(.*?)"\]::after', context["metatags"]) == ["#", "attention.html"]


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_only_tokens_without_a_colour_of_their_own_lose_their_element(theme: str, tmp_path: Path) -> None:
    """Does each token that becomes text have the colour of text in the style, and do others keep their element?"""
    plain = extension("highlighting")["PLAIN"]
    options = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"][
        "html_theme_options"
    ]
    style = get_style_by_name(options[f"pygments_{theme}_style"])
    text = style.style_for_token(Text)
    assert all(style.style_for_token(kind) == text for kind in plain)
    page = BeautifulSoup(
        build(tmp_path, "# A page\n\n```python\ndef f(x):\n    return x + 1  # one\n```\n"), "html.parser"
    )
    code = page.find("pre")
    assert code.get_text() == "def f(x):\n    return x + 1  # one\n"
    assert [span.get_text() for span in code.find_all("span") if span.get("class")] == [
        "def",
        "f",
        "return",
        "+",
        "1",
        "# one",
    ]

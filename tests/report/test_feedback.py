"""Is a page of feedback readable for everybody, and can a browser execute nothing that a student wrote?"""

import json
import time
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import find_violations
from golden.said import said
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from playwright.sync_api import Browser
from test_report import put_in_gradebook, result

from autograder.course.course import Course
from autograder.grade.grade import load_assignment
from autograder.report.feedback import write_feedback
from autograder.report.safe_html import ATTRIBUTES, TAGS, cleaned_markdown

HOSTILE = [
    "half a pair \ud800, and in a formula $\ud800$",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://example.com/track.png)",
    "[x](javascript:alert(1))",
    "<a href='JaVaScRiPt:alert(1)'>x</a>",
    "$\\text{<script>alert(1)</script>}$",
    "$\\href{javascript:alert(1)}{x}$",
    "$$\\text{<img src=x onerror=alert(1)>}$$",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=1 onerror=alert(1)>'>",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<details open ontoggle=alert(1)>x</details>",
    "<style>*{display:none}</style><iframe srcdoc='<script>alert(1)</script>'>",
    "<p style='position:fixed;inset:0' id=parts class=verdict>x",
    "<form action=//example.com><input name=x><button>go</button></form>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_written_text_is_made_harmless(text: str) -> None:
    """Do only elements and attributes for display stay, and only addresses of pages?"""
    for element in BeautifulSoup(cleaned_markdown(text), "html.parser").find_all(True):
        assert element.name in TAGS
        allowed = ATTRIBUTES.get(element.name, set()) | {"rel"}
        assert {*element.attrs} <= allowed, str(element)
        assert str(element.get("href", "https:")).startswith(("https:", "http:", "mailto:"))


def test_formulas_tables_and_hints_are_shown() -> None:
    """Are formulas, tables and hints of our notebooks shown as intended, with headings below the page's own?"""
    text = "# One\n\n$p_i = e^{s_i}$ and\n\n$$\\frac{a}{b}$$\n\n| a | b |\n| --- | --- |\n| `c` | d |\n\n"
    shown = BeautifulSoup(
        cleaned_markdown(text + "<details><summary>Hint</summary>\n\n*Look*\n\n</details>"), "html.parser"
    )
    assert shown.h1 is None and shown.h2.get_text() == "One"
    assert [formula.get("display") for formula in shown.find_all("math")] == [None, "block"]
    assert shown.find("mfrac") and shown.find("msub") and "$" not in shown.get_text()
    assert shown.details.summary.get_text() == "Hint" and shown.details.em and shown.table.code
    # A very long formula stays as it was written.
    assert BeautifulSoup(cleaned_markdown("$" + "x" * 3000 + "$"), "html.parser").code


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with lost points, a comment, a repaired file, an error and a picture from a cell."""
    assignment, course = load_assignment("1_attention"), Course(tmp_path)
    course.prepare(assignment)
    lost = {"attention_weights": "M6", "attention_output": "M6+M8", "softmax_extreme": None}
    fields = dict(state="graded after repair", receipt=["cell 3 was put back"], versions="Python 3.13.0, NumPy 2.1.3")
    outcome = result(assignment, "ada", lost, **fields)
    with course.gradebook() as gradebook:
        put_in_gradebook(gradebook, assignment, outcome, {"why_scale": 1.5})
    notebook = nbformat.from_dict(assignment.instructor)
    notebook.cells += [new_markdown_cell(text) for text in HOSTILE]
    error = new_output("error", ename="NameError", evalue="x", traceback=["\x1b[31mNameError\x1b[0m: x"])
    picture = new_output("display_data", data={"image/png": "iVBORw0KGgo=\n"})
    notebook.cells.append(new_code_cell("x", outputs=[error, picture]))
    path = course.autograded_path("ada", assignment)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    (written,) = write_feedback(course, assignment, [outcome])
    return written


def above_the_notebook(page: Path) -> str:
    """Return what a page says before it shows the notebook."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    return " ".join(soup.main.get_text(" ").split()).partition(" Your notebook, as it was run ")[0]


def test_page_begins_with_the_verdict(page: Path) -> None:
    """Does a student first read the points, of each part too, the cost of each mistake with its question, and the repairs?"""
    said([above_the_notebook(page)])
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    links = {place["href"] for place in soup.select(".verdict a")}
    assert links <= {f"#{place['id']}" for place in soup.select("[id]")}
    assert soup.select("pre.error")[-1].get_text() == "NameError: x"
    assert soup.select_one("img")["src"] == "data:image/png;base64,iVBORw0KGgo="
    assert [*soup.main.stripped_strings][-1] == "Graded with Python 3.13.0, NumPy 2.1.3."


def test_long_code_is_shown_without_colours(page: Path, tmp_path: Path) -> None:
    """Is a page with a very long line or many cells made without a delay, and is their text still shown?"""
    course, assignment = Course(tmp_path), load_assignment("1_attention")
    path = course.autograded_path("ada", assignment)
    notebook = nbformat.read(path, 4)
    long = "'%-" + "0" * 30_000 + "<b>"
    notebook.cells += [new_code_cell(long), *(new_code_cell(f"# {place}\n" + " \n" * 1900) for place in range(100))]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    begun = time.process_time()
    (written,) = write_feedback(course, assignment, [result(assignment, "ada", {})])
    assert time.process_time() - begun < 20  # with colours: a minute or more
    soup = BeautifulSoup(written.read_text(encoding="utf-8"), "html.parser")
    code = [block.get_text() for block in soup.select(".code pre")]
    assert long in code and "# 99\n" in "".join(code) and soup.select(".code pre span.k")


def test_what_a_person_gave_is_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """Is a page consistent if a person overruled a test, an answer waits again, and points were subtracted?"""
    course, assignment = Course(tmp_path), load_assignment("1_attention")
    page.unlink()
    lost = {"attention_weights": "M6", "attention_output": "M6+M8"}
    with course.gradebook() as gradebook:
        names = (assignment.notebook, assignment.name, "ada")
        gradebook.find_grade("attention_weights", *names).manual_score = 0.75
        # The answer got 1.5 points, and then it was graded again.
        gradebook.find_grade("why_scale", *names).needs_manual_grade = True
        gradebook.find_submission_notebook(*names).late_submission_penalty = 2.0
        gradebook.db.commit()
    (written,) = write_feedback(course, assignment, [result(assignment, "ada", lost)])
    said([above_the_notebook(written)])


def test_page_of_a_notebook_that_no_library_can_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does a student still get the verdict if the cells make a library fail, and is the failure reported?"""
    monkeypatch.setattr("autograder.report.feedback.cleaned_code", lambda source, _: source.nothing)
    page.unlink()
    course, assignment = Course(tmp_path), load_assignment("1_attention")
    (written,) = write_feedback(course, assignment, [result(assignment, "ada", {})])
    text = BeautifulSoup(written.read_text(encoding="utf-8"), "html.parser").get_text()
    assert "of 20 points" in text and "The notebook itself cannot be shown: AttributeError." in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.few(1)
def test_page_is_accessible(page: Path, browser: Browser, scheme: str) -> None:
    """Does axe find nothing in both themes, region and headings included, without a request to another host?"""
    opened, asked = browser.new_page(color_scheme=scheme), []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert find_violations(opened) == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    opened.close()

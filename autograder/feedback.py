"""What a student gets back: the executed notebook with marks, and in words what was wrong. Rendered by nbgrader."""

import hashlib
from collections.abc import Callable
from html import escape
from pathlib import Path

import bleach
import nbformat
import nbgrader
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.converters import GenerateFeedback
from nbgrader.preprocessors import GetGrades
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets.config import Config

from autograder import catalogue
from autograder.course import Assignment, Course, Result, write_atomically

HIDDEN = "# This test is hidden. Points and diagnosis stand below."
STYLE = (
    "td, th { padding: 0.2em 1em 0.2em 0; text-align: left; } table { margin-bottom: 1em; } #toc ol { display: none; }"
)
TAGS = (
    bleach.ALLOWED_TAGS | {f"h{level}" for level in range(1, 7)} | {"p", "pre", "br", "hr", "div", "span", "sub", "sup"}
)
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "details", "summary", "del"}
TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"


def summary(result: Result, scores: dict[str, tuple[float, bool]], assignment: Assignment) -> str:
    """Return the first cell of the feedback, as Markdown: state, points, named mistakes, what was mended."""
    lines = [f"# Feedback on {assignment.name}", "", f"**State:** {result.state}. {result.why}".strip(), ""]
    lines += ["| part | points | of | what was seen |", "| --- | --- | --- | --- |"]
    checks = {check["name"]: check for check in result.checks}
    for cell in assignment.graded_cells():
        name = cell.metadata.nbgrader.grade_id
        score, waits = scores.get(name, (0.0, True))
        check = checks.get(name, {})
        seen = (
            "right"
            if check.get("passed")
            else _diagnosis(check)
            if check
            else "waits for a person"
            if waits
            else "read by a person"
        )
        shown = "–" if waits and not check else f"{score:g}"
        lines.append(f"| {name.replace('_', ' ')} | {shown} | {cell.metadata.nbgrader.points:g} | {seen} |")
    lines += ["", *(f"**{name}:** {_plain(said)}" for name, said in result.files.items())]
    made = dict.fromkeys(name for check in result.checks for name in (check["mistake"] or "").split("+") if name)
    if made:
        lines += ["", "**What to look at:**", ""]
        lines += [f"- **{name}**, {catalogue.TITLES[name]}. {_plain(catalogue.QUESTIONS[name])}" for name in made]
    if result.receipt:
        lines += ["", "**What was mended in your file before it was graded** (the file itself was not touched):", ""]
        lines += [f"- {_plain(entry)}" for entry in result.receipt[:50]]
    return "\n".join(lines)


def _diagnosis(check: dict) -> str:
    names = (check["mistake"] or "").split("+") if check["mistake"] else []
    if names:
        return "; ".join(f"**{name}**: {catalogue.TITLES[name]}" for name in names)
    return _plain(check["message"].splitlines()[0] if check["message"] else "wrong")[:300]


def _plain(text: str) -> str:
    """Take what Markdown or HTML would read as its own out of a text that a student may have written."""
    return "".join(
        "\\" + char if char in "\\`*_[]()#|!~$" else {"<": "&lt;", ">": "&gt;", "\n": " "}.get(char, char)
        for char in text
    )


def for_the_student(notebook: NotebookNode, top: str, assignment: Assignment, show_hidden: bool) -> NotebookNode:
    """Put the summary on top and the released text in place of the hidden tests, unless they may be shown."""
    shown = nbformat.from_dict(notebook)
    tests = {cell.metadata.nbgrader.grade_id: cell.source for cell in assignment.graded_cells()}
    blanks = {cell.metadata.nbgrader.grade_id: cell for cell in assignment.release.cells if "nbgrader" in cell.metadata}
    for cell in shown.cells:
        if "nbgrader" in cell.metadata and is_locked(cell):
            name = cell.metadata.nbgrader.grade_id
            cell.source = blanks[name].source
            if is_grade(cell) and not is_solution(cell):
                cell.source = tests[name] if show_hidden else cell.source.strip() or HIDDEN
            if name == "setup":
                cell.source = "# The set-up cell, as released."
    shown.cells.insert(0, nbformat.v4.new_markdown_cell(top, id="feedback"))
    return shown


def write_feedback(
    course: Course,
    assignment: Assignment,
    results: list[Result],
    progress: Callable[[str, int, int], None] = lambda *_: None,
    show_hidden: bool = False,
) -> list[Path]:
    """Write a page for every submission that has marks; one whose marks did not change is left as it is.

    Args:
        course: Where the marks are and the pages go.
        assignment: What was graded.
        results: Of whom there are to be pages.
        progress: Called as the work goes on.
        show_hidden: Whether students get to see the source of the hidden tests.

    Returns:
        The pages, feedback/STUDENT/ASSIGNMENT/NOTEBOOK.html.
    """
    scores = course.scores(assignment)
    marked = [result for result in results if result.has_marks]
    pages = []
    for done, result in enumerate(marked, 1):
        text = course.autograded_path(result.student, assignment).read_text(encoding="utf-8")
        top = summary(result, scores.get(result.student, {}), assignment)
        page = course.root / "feedback" / result.student / assignment.name / f"{assignment.notebook}.html"
        stamp = hashlib.sha256(f"{text}{top}{_comments(course, assignment, result)}{show_hidden}".encode()).hexdigest()
        if not (page.exists() and f"<!-- {stamp} -->" in page.read_text(encoding="utf-8")[-200:]):
            shown = for_the_student(nbformat.reads(text, 4), top, assignment, show_hidden)
            try:
                html = _render(shown, course, assignment, result)
            except Exception as error:  # of a library, at what a student wrote; nobody else's page may wait for it
                html = f"<!DOCTYPE html><meta charset='utf-8'><title>Feedback</title><pre>{escape(top)}</pre>"
                html += f"<p>The notebook itself cannot be shown: {type(error).__name__}.</p>"
            write_atomically(page, f"{html}\n<!-- {stamp} -->\n")
        pages.append(page)
        progress("feedback", done, len(marked))
    return pages


def _comments(course: Course, assignment: Assignment, result: Result) -> str:
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(assignment.notebook, assignment.name, result.student)
        return "\n".join(f"{comment.name}: {comment.comment}" for comment in notebook.comments)


def _render(notebook: NotebookNode, course: Course, assignment: Assignment, result: Result) -> str:
    config = Config()
    config.HTMLExporter.preprocessors = [GetGrades]
    config.HTMLExporter.sanitize_html = True  # no script, form or frame that a student wrote
    converter = GenerateFeedback(coursedir=None, config=config)
    exporter = HTMLExporter(config=converter.config, template_name="feedback", extra_template_basedirs=[str(TEMPLATES)])
    resources = {
        "notebook": assignment.notebook,
        "assignment": assignment.name,
        "student": result.student,
        "db_url": course.db_url,
    }
    rendered = exporter.markdown2html

    @pass_context
    def cleaned(context, source):  # nbgrader's template leaves HTML in written answers as it is
        return bleach.clean(rendered(context, source), TAGS, bleach.ALLOWED_ATTRIBUTES | {"*": ["class", "id"]})

    exporter.register_filter("markdown2html", cleaned)
    html, _ = exporter.from_notebook_node(notebook, {"nbgrader": resources})
    return html.replace("</head>", f"<style>{STYLE}</style></head>", 1)

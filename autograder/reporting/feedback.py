"""What a student gets back: the executed notebook with marks, and in words what was wrong. Rendered by nbgrader."""

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import bleach
import nbformat
import nbgrader
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from autograder.cells import is_grade, is_locked, is_solution
from autograder.course.course import Assignment, Course, Result
from autograder.course.gradebook import Mark, marks, penalties
from autograder.course.gradebook import comments as all_comments
from autograder.files import write_atomically
from autograder.judging import catalogue

PAGES_OF_A_PROCESS = 25  # at least: it takes about two seconds to start
HIDDEN = "# This test is hidden. Points and diagnosis stand below."
STYLE = (Path(__file__).with_name("templates") / "feedback.css").read_text(encoding="utf-8")
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
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
    workers: int | None = None,
) -> list[Path]:
    """Write a page for every submission that has marks; one whose marks did not change is left as it is.

    Args:
        course: Where the marks are and the pages go.
        assignment: What was graded.
        results: Of whom there are to be pages.
        progress: Called as the work goes on.
        show_hidden: Whether students get to see the source of the hidden tests.
        workers: How many processes write pages; by default one for each processor, and none but this for a small class.

    Returns:
        The pages, feedback/STUDENT/ASSIGNMENT/NOTEBOOK.html.
    """
    marked = [result for result in results if result.has_marks]
    with course.reading() as db:
        scores, comments = marks(db, assignment.name), all_comments(db, assignment.name)
        late = penalties(db, assignment.name)
    desk = _Desk(course, assignment, show_hidden)
    of_each = [
        (r, *(found.get(r.student, none) for found, none in ((scores, {}), (comments, {}), (late, 0.0))))
        for r in marked
    ]
    workers = min(workers or os.cpu_count() or 1, len(marked) // PAGES_OF_A_PROCESS)
    pages = []
    with _mapping(desk, workers) as pages_of:
        for done, page in enumerate(pages_of(of_each), 1):
            pages.append(page)
            progress("feedback", done, len(marked))
    return pages


@contextmanager
def _mapping(desk: "_Desk", workers: int) -> Iterator[Callable[[list[tuple]], Iterator[Path]]]:
    """Give what writes pages one after another: here, or in processes where there are many."""
    if workers < 2:
        yield lambda of_each: map(desk.write, of_each)
        return
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(workers, context, initializer=_take_desk, initargs=(desk,))
    try:
        yield lambda of_each: pool.map(_write_at_desk, of_each, chunksize=4)
    finally:
        pool.shutdown(cancel_futures=True)


_desk: "_Desk | None" = None  # in a process of the pool


def _take_desk(desk: "_Desk") -> None:
    global _desk
    _desk = desk


def _write_at_desk(of_one: tuple) -> Path:
    return _desk.write(of_one)


@dataclass
class _Desk:
    """Writes pages of feedback; nbconvert's templates are compiled once."""

    course: Course
    assignment: Assignment
    show_hidden: bool

    def write(self, of_one: tuple[Result, dict[str, Mark], dict[str, str | None], float]) -> Path:
        """Write the page of one student, if it changed."""
        result, scores, comments, penalty = of_one
        assignment = self.assignment
        text = self.course.autograded_path(result.student, assignment).read_text(encoding="utf-8")
        top = summary(result, {name: (mark.score, mark.waits) for name, mark in scores.items()}, assignment)
        page = self.course.root / "feedback" / result.student / assignment.name / f"{assignment.notebook}.html"
        facts = f"{text}{top}{sorted(comments.items())}{penalty}{self.show_hidden}"
        stamp = hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()
        if not (page.exists() and f"<!-- {stamp} -->" in page.read_text(encoding="utf-8")[-200:]):
            shown = for_the_student(nbformat.reads(text, 4), top, assignment, self.show_hidden)
            try:
                html = self._render(shown, result.student, scores, comments, penalty)
            except Exception as error:  # of a library, at what a student wrote; nobody else's page may wait for it
                html = f"<!DOCTYPE html><meta charset='utf-8'><title>Feedback</title><pre>{escape(top)}</pre>"
                html += f"<p>The notebook itself cannot be shown: {type(error).__name__}.</p>"
            write_atomically(page, f"{html}\n<!-- {stamp} -->\n")
        return page

    def _render(
        self,
        notebook: NotebookNode,
        student: str,
        scores: dict[str, Mark],
        comments: dict[str, str | None],
        penalty: float,
    ) -> str:
        """Render a notebook with its marks, as nbgrader's preprocessor GetGrades puts them there."""
        for cell in notebook.cells:
            info = cell.metadata.get("nbgrader", {})
            if is_solution(cell):
                info["comment"] = comments[info.grade_id]
            if is_grade(cell):
                info["score"], info["points"] = scores[info.grade_id].score, scores[info.grade_id].points
        resources = {
            "notebook": self.assignment.notebook,
            "assignment": self.assignment.name,
            "student": student,
            "score": sum(mark.score for mark in scores.values()) - penalty,
            "max_score": sum(mark.points for mark in scores.values()),
            "late_penalty": penalty,
        }
        html, _ = _exporter().from_notebook_node(notebook, {"nbgrader": resources})
        return html.replace("</head>", f"{VIEWPORT}<style>{STYLE}</style></head>", 1)


@cache
def _exporter() -> HTMLExporter:
    config = Config()
    config.HTMLExporter.preprocessors = []
    config.HTMLExporter.sanitize_html = True  # no script, form or frame that a student wrote
    converter = GenerateFeedback(coursedir=None, config=config)
    exporter = HTMLExporter(config=converter.config, template_name="feedback", extra_template_basedirs=[str(TEMPLATES)])
    rendered = exporter.markdown2html

    @pass_context
    def cleaned(context, source):  # nbgrader's template leaves HTML in written answers as it is
        return bleach.clean(rendered(context, source), TAGS, bleach.ALLOWED_ATTRIBUTES | {"*": ["class", "id"]})

    exporter.register_filter("markdown2html", cleaned)
    return exporter

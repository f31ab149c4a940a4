"""The page that a student gets back: points and named mistakes, and the notebook with its outputs."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from attention_tests.compare import UNWRITTEN
from markupsafe import Markup
from nbconvert.filters.ansi import strip_ansi
from nbformat import NotebookNode

from autograder.cells import grade_id, is_grade, is_locked, points_of
from autograder.course.course import NEEDS_A_LOOK, Assignment, Course, Result
from autograder.course.gradebook import Grade, Lateness, lateness
from autograder.course.gradebook import comments as all_comments
from autograder.course.gradebook import grades as all_grades
from autograder.course.regrade_requests import Request, key_of, read_requests
from autograder.files import Unreadable, read_plain_file, write_atomically
from autograder.judge import catalogue
from autograder.progress import Progress
from autograder.report.page import page_template, plain_number
from autograder.report.report import is_unwritten, maximum_of, questions_of
from autograder.report.safe_html import cleaned_code, cleaned_markdown, code_colours

HIDDEN = "# This test is hidden. Points and diagnosis are above."
COLOURED, ALL_COLOURED = 4_000, 40_000  # most characters in colour, in a cell and in a page; ours have 2,900 and 20,000
OF_EXCHANGE = ("timestamp.txt", "submission_secret.txt")  # files next to a page that "nbgrader release_feedback" reads
PICTURES = ("image/png", "image/jpeg")


def facts_of(
    result: Result,
    grades: dict[str, Grade],
    comments: dict[str, str | None],
    late: Lateness,
    assignment: Assignment,
) -> dict[str, Any]:
    """Return the facts above a student's notebook: points, state, parts, named mistakes, repairs."""
    checks = {check["name"]: check for check in result.checks}
    parts, questions = [], questions_of(assignment)
    for question in questions:
        asked = [checks[name] for name in question.cells if name in checks]
        tests = [_test(check, question.name, grades.get(check["name"])) for check in asked]
        own_grades = [grades[name] for name in question.cells if name in grades]
        waits = any(grade.waits for grade in own_grades) or not own_grades
        points = float(sum(grade.score for grade in own_grades))
        unwritten = question.bonus and not points and all(map(is_unwritten, asked))
        part = dict(name=question.name, of=question.maximum, points=points, tests=tests)
        earlier = any(grade.of_person for grade in own_grades)
        part |= dict(waits=waits and not tests and not earlier, again=waits and (earlier or bool(points)))
        parts.append(part | dict(bonus=question.bonus, unwritten=unwritten))
    costs: dict[str, float] = {}
    bonus_cells = {name for question in questions if question.bonus for name in question.cells}
    for check in result.checks:
        if check["mistake"]:
            given = grades[check["name"]].score if check["name"] in grades else 0.0  # a person may have given points
            cost = 0.0 if check["name"] in bonus_cells else max(0.0, check["points"] - given)
            costs[check["mistake"]] = costs.get(check["mistake"], 0.0) + cost
    made = dict.fromkeys(name for names in costs for name in names.split("+"))
    return dict(
        student=result.student,
        assignment=assignment.name,
        state=result.state,
        why=result.why,
        questions=result.questions if result.state == NEEDS_A_LOOK else [],
        files=result.files,
        score=max(0.0, float(sum(grade.score for grade in grades.values()) - late.penalty)),
        of=maximum_of(questions),
        bonus=sum(part["points"] for part in parts if part["bonus"]),
        waiting=sum(part["of"] for part in parts if part["waits"]),
        late=late.late,
        penalty=late.penalty,
        parts=parts,
        costs={names: cost for names, cost in costs.items() if cost},
        mistakes=[dict(name=n, title=catalogue.TITLES[n], question=catalogue.QUESTIONS[n]) for n in made],
        receipt=result.receipt,
        versions=result.versions,
        comments=sorted((name, comment) for name, comment in comments.items() if comment),
    )


def _asked(
    request: Request, parts: list[dict[str, Any]], grades: dict[str, Grade], assignment: Assignment
) -> dict[str, Any]:
    """Return a student's regrade request, its answer, and the points now and before."""
    part = next((part for part in parts if key_of(part["name"]) == key_of(request.part)), None)
    cells = next((q.cells for q in questions_of(assignment) if key_of(q.name) == key_of(request.part)), [])
    of_tests = [grades[name].of_tests for name in cells if name in grades and grades[name].of_tests is not None]
    changed = bool(part and of_tests and sum(of_tests) != part["points"])
    return dict(
        part=request.part,
        why=request.why,
        answer=request.answer,
        points=f"{plain_number(part['points'])} of {plain_number(part['of'])}" if part else "",
        before=f"{plain_number(sum(of_tests))}" if changed else "",
    )


def _test(check: dict[str, Any], question: str, grade: Grade | None) -> dict[str, Any]:
    names = [name for name in (check["mistake"] or "").split("+") if name]
    diagnosis = "; ".join(f"{name}: {catalogue.TITLES[name]}" for name in names)
    diagnosis = diagnosis or (check["message"].splitlines()[0] if check["message"] else "wrong")[:300]
    points = check["points"] * check["passed"]
    seen = "right" if check["passed"] else diagnosis
    if grade and grade.of_tests is not None and grade.score != grade.of_tests:
        points, seen = grade.score, f"{seen}; a person gave other points than the test"
    full = points >= check["points"]
    return dict(
        name=check["name"].removeprefix(f"{question}_"), of=check["points"], points=points, full=full, seen=seen
    )


def cells_of(
    notebook: NotebookNode,
    assignment: Assignment,
    grades: dict[str, Grade],
    comments: dict[str, str | None],
    show_hidden: bool,
) -> list[dict[str, Any]]:
    """Return what the page shows of each cell. Without `show_hidden`, the released text replaces hidden tests."""
    tests = {cell.metadata.nbgrader.grade_id: cell.source for cell in assignment.graded_cells()}
    blanks = {cell.metadata.nbgrader.grade_id: cell for cell in assignment.release.cells if "nbgrader" in cell.metadata}
    shown, coloured = [], 0
    for cell in notebook.cells:
        name, source, folded = grade_id(cell), cell.source, ""
        if name and is_locked(cell):
            source = blanks[name].source
            folded = "" if is_grade(cell) or cell.cell_type == "markdown" else "Given code, as it was released"
            if is_grade(cell):
                source = tests[name] if show_hidden else source.strip() or HIDDEN
        outputs = cell.get("outputs", [])
        grade = grades.get(name) if is_grade(cell) else None
        if "bonus" in cell.metadata and any(o.get("evalue", "").endswith(UNWRITTEN) for o in outputs):
            outputs, grade = [], grade if grade and grade.score else None  # the bonus is unwritten
        points = f"{grade.score:g} of {points_of(cell):g}" if grade else ""
        if cell.cell_type == "markdown":
            html = cleaned_markdown(source, cell.get("attachments"))
        else:
            coloured += len(source)
            html = cleaned_code(source, len(source) <= COLOURED and coloured <= ALL_COLOURED)
        shown.append(
            dict(
                id=name,
                html=html,
                folded=folded,
                points="waits" if grade and grade.waits and not grade.of_person else points,
                comment=comments.get(name),
                outputs=[part for output in outputs for part in _shown(output)],
            )
        )
    return shown


def _shown(output: NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield what is shown of an output: text, an error or a picture; nothing that a browser would execute."""
    if output.output_type == "stream":
        yield "text", strip_ansi(output.text)
    elif output.output_type == "error":
        yield "error", strip_ansi("\n".join(output.traceback) or f"{output.ename}: {output.evalue}")
    else:
        pictures = [kind for kind in PICTURES if kind in output.get("data", {})]
        for kind in pictures:
            yield "image", f"data:{kind};base64,{''.join(output.data[kind].split())}"
        if not pictures and "text/plain" in output.get("data", {}):
            yield "text", strip_ansi(output.data["text/plain"])


def write_feedback(
    course: Course,
    assignment: Assignment,
    results: list[Result],
    progress: Progress = lambda *_: None,
    show_hidden: bool = False,
) -> list[Path]:
    """Write a page for every submission that has a score. A page is written only if something in it changed.

    Args:
        course: The course with the grades. The pages go into its folder.
        assignment: The graded assignment.
        results: The submissions to write pages for.
        progress: Called as the work goes on.
        show_hidden: Whether students see the source of the hidden tests.

    Returns:
        The pages, feedback/STUDENT/ASSIGNMENT/NOTEBOOK.html.
    """
    scored = [result for result in results if result.has_score]
    with course.reading() as db:
        grades, comments = all_grades(db, assignment.name), all_comments(db, assignment.name)
        late = lateness(db, assignment.name)
    requests, pages = read_requests(course.root), []
    for result in scored:
        student = result.student
        own_grades, own_comments = grades.get(student, {}), comments.get(student, {})
        facts = facts_of(result, own_grades, own_comments, late.get(student, Lateness()), assignment)
        for part in facts["parts"]:
            part["ask"] = course.settings.link_to_ask(student, assignment.name, part["name"])
        own = [request for request in requests if request.is_by(student, assignment.name)]
        facts["asked"] = [_asked(request, facts["parts"], own_grades, assignment) for request in own]
        pages.append(_write_page(course, assignment, facts, own_grades, own_comments, show_hidden))
        progress("feedback", len(pages), len(scored))
    return pages


def _write_page(
    course: Course,
    assignment: Assignment,
    facts: dict[str, Any],
    grades: dict[str, Grade],
    comments: dict[str, str | None],
    show_hidden: bool,
) -> Path:
    """Write the page of one student if it changed."""
    student = facts["student"]
    text = course.autograded_path(student, assignment).read_text(encoding="utf-8")
    page = course.feedback_page(student, assignment)
    book = course.settings.address_of_book or catalogue.address_of_book()
    content = json.dumps(
        [text, facts, book, show_hidden, sorted((n, float(g.score), g.waits) for n, g in grades.items())]
    )
    stamp = hashlib.sha256(content.encode()).hexdigest()
    if not (page.exists() and f"<!-- {stamp} -->" in page.read_text(encoding="utf-8")[-200:]):
        try:
            cells = cells_of(nbformat.reads(text, 4), assignment, grades, comments, show_hidden)
        except Exception as error:  # a library may fail on a student's text; the other pages go on
            message = f"The notebook itself cannot be shown: {type(error).__name__}."
            cells = [dict(id="", html=message, folded="", points="", comment=None, outputs=[])]
        html = page_template("feedback.html.j2").render(**facts, cells=cells, book=book, colours=Markup(code_colours()))
        html = html.replace(catalogue.address_of_book(), book)  # given cells and messages contain the address
        write_atomically(page, f"{html}\n<!-- {stamp} -->\n")
    for name in OF_EXCHANGE:
        with contextlib.suppress(Unreadable):  # the submission may not have come through the exchange
            submission = course.submission_folder(student, assignment.name)
            write_atomically(page.with_name(name), read_plain_file(submission / name, 10_000))
    return page

"""The page of a course: every student across its assignments, and the mistakes that come back."""

import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from autograder.course.course import Assignment, Course, Result
from autograder.course.gradebook import students
from autograder.course.regrade_requests import Request, key_of, read_requests
from autograder.files import write_atomically
from autograder.judge import catalogue
from autograder.judge.mistake import number_of
from autograder.report.page import page_template, plain_number
from autograder.report.report import Row, maximum_of, questions_of, rows_of
from autograder.spreadsheets import csv_text

Graded = list[tuple[Assignment, list[Result]]]  # assignments in the course's order, with their results


@dataclass
class Column:
    """One assignment: a row for each of its students, its points, and the points that tests give."""

    assignment: Assignment
    rows: dict[str, Row]  # rows by student
    maximum: float
    test_maximum: float

    def share(self, student: str) -> float | None:
        """Return a student's share of the points that tests give, in percent, 100 at most; None without a score."""
        row = self.rows.get(student)
        return min(100, 100 * row.automatic / self.test_maximum) if row and row.answers and self.test_maximum else None

    @property
    def scored(self) -> list[Row]:
        """The rows with a score."""
        return [row for row in self.rows.values() if row.answers]


def _columns(course: Course, graded: Graded) -> list[Column]:
    columns = []
    for assignment, results in graded:
        questions = questions_of(assignment)
        rows = {row.student: row for row in rows_of(course, assignment, questions, results)}
        maximum, test_maximum = maximum_of(questions), maximum_of([q for q in questions if not q.written])
        columns.append(Column(assignment, rows, maximum, test_maximum))
    return columns


def course_table(course: Course, graded: Graded) -> list[dict[str, Any]]:
    """Return one row for each student: state and points of each assignment, total, and mistakes that came back.

    A student without a score for an assignment has an empty cell there, not 0.
    """
    columns = _columns(course, graded)
    with course.reading() as db:
        known = students(db)
    returning, table = _returning(columns), []
    for student in sorted({student for column in columns for student in column.rows}):
        about = known.get(student, {})
        line: dict[str, Any] = {"student": student}
        line |= {"first name": about.get("first_name") or "", "last name": about.get("last_name") or ""}
        for column in columns:
            row, name = column.rows.get(student), column.assignment.name
            line[f"{name} state"] = row.result.state if row else "missing"
            line[f"{name} points"] = plain_number(row.score) if row and row.answers else ""
            line[f"{name} of"] = plain_number(column.maximum)
            line[f"{name} waiting"] = row.waiting if row and row.answers else ""
            share = column.share(student)
            line[f"{name} tests %"] = "" if share is None else round(share)
        line["total"] = plain_number(sum(line[f"{column.assignment.name} points"] or 0 for column in columns))
        line["of"] = plain_number(sum(column.maximum for column in columns))
        again = {name: where for name, who in returning.items() if (where := who.get(student))}
        line["mistakes again"] = "; ".join(f"{name} in {', '.join(where)}" for name, where in again.items())
        table.append(line)
    return table


def _returning(columns: list[Column]) -> dict[str, dict[str, list[str]]]:
    """Return, by mistake and student, the assignments with the mistake.

    A mistake counts if the student made it in two or more assignments. The most frequent mistake comes first.
    """
    made: dict[str, dict[str, list[str]]] = {}
    for column in columns:
        for student, row in column.rows.items():
            for name in row.mistakes:
                made.setdefault(name, {}).setdefault(student, []).append(column.assignment.name)
    again = {name: {student: where for student, where in who.items() if len(where) > 1} for name, who in made.items()}
    order = sorted(again, key=lambda name: (-len(again[name]), number_of(name)))
    return {name: again[name] for name in order if again[name]}


def write_course_page(course: Course, graded: Graded) -> Path:
    """Write report/index.html and report/course.csv, and return the page."""
    columns, table = _columns(course, graded), course_table(course, graded)
    folder, known = course.root / "report", course.students()
    page = page_template("course.html.j2").render(
        title=course.settings.name,
        columns=[_summary(course, column, len(table)) for column in columns],
        lines=[_line(course, columns, line) for line in table],
        of=sum(column.maximum for column in columns),
        asked=[
            (request, _unknown_in(request, graded, known))
            for request in sorted(read_requests(course.root), key=lambda request: bool(request.answer))
        ],
        again=[
            {"name": name, "title": catalogue.TITLES.get(name, ""), "who": who}
            for name, who in _returning(columns).items()
        ],
    )
    write_atomically(folder / "course.csv", csv_text(table))
    write_atomically(folder / "index.html", page)
    return folder / "index.html"


def _unknown_in(request: Request, graded: Graded, students: list[str]) -> str:
    """Return what is unknown in a request, which then appears on no student's page; an empty string if nothing is."""
    if key_of(request.student) not in map(key_of, students):
        return f"nobody has the id {request.student}"
    assignment = next((each for each, _ in graded if key_of(each.name) == key_of(request.assignment)), None)
    if assignment is None:
        return f"{request.assignment} is not graded here"
    parts = [question.name for question in questions_of(assignment)]
    known = key_of(request.part) in map(key_of, parts)
    return "" if known else f"{assignment.name} has no part {request.part}, only {', '.join(parts)}"


def _summary(course: Course, column: Column, of_students: int) -> dict[str, Any]:
    """Return the summary of an assignment."""
    name, due = column.assignment.name, course.settings.due.get(column.assignment.name)
    submitted = sum(row.result.state != "missing" for row in column.rows.values())
    shares = [column.share(row.student) for row in column.scored]
    made = Counter(mistake for row in column.scored for mistake in row.mistakes)
    first = min(made, key=lambda mistake: (-made[mistake], number_of(mistake)), default="")
    return {
        "name": name,
        "of": column.maximum,
        "due": f"{due:%Y-%m-%d %H:%M %Z}" if due else "",
        "submitted": f"{submitted} of {of_students}",
        "scored": len(column.scored),
        "waiting": sum(row.waiting for row in column.scored),
        "median": f"{statistics.median(shares):.0f} %" if shares else "–",
        "mistake": first,
        "mistake_of": made[first] if first else 0,
        "mistake_title": catalogue.TITLES.get(first, ""),
    }


def _line(course: Course, columns: list[Column], line: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a student."""
    student, cells = line["student"], []
    for column in columns:
        row, name = column.rows.get(student), column.assignment.name
        page = course.feedback_page(student, column.assignment)
        cells.append(
            {
                "state": line[f"{name} state"],
                "points": line[f"{name} points"],
                "waiting": line[f"{name} waiting"],
                "late": row.lateness.words if row else "",
                "mistakes": row.mistakes if row and row.answers else [],
                "report": f"{quote(name)}/index.html",
                "page": f"../{quote(page.relative_to(course.root).as_posix())}" if page.exists() else "",
            }
        )
    shares = [column.share(student) for column in columns]
    given = [share for share in shares if share is not None]
    return {
        "student": student,
        "person": f"{line['first name']} {line['last name']}".strip(),
        "cells": cells,
        "total": line["total"] if given else "",
        "trend": ", ".join("–" if share is None else f"{share:.0f}" for share in shares),
        "change": given[-1] - given[0] if len(given) > 1 else "",
        "points": _polyline(shares),
    }


def _polyline(shares: list[float | None]) -> str:
    """Return the points of a line, 60 by 20, through the known shares; an empty string for fewer than two."""
    step = 60 / max(1, len(shares) - 1)
    points = [f"{place * step:.0f},{20 - share / 5:.0f}" for place, share in enumerate(shares) if share is not None]
    return " ".join(points) if len(points) > 1 else ""

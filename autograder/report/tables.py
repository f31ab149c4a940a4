"""The tables that a terminal shows."""

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from autograder.course.course import Assignment, Course, Result
from autograder.files import printable
from autograder.judge.catalogue import TITLES
from autograder.report.page import plain_number
from autograder.report.report import Answer, maximum_of, questions_of, rows_of

if TYPE_CHECKING:  # imports PyTorch
    from autograder.judge.kill_matrix import Matrix


def scores_table_of(course: Course, assignment: Assignment, results: list[Result]) -> Table:
    """Return one line for each student, narrow enough for a terminal of 80 columns."""
    questions = questions_of(assignment)
    table = Table(
        title=assignment.name, caption="waits: answers for manual grading. An empty cell means no score.", min_width=66
    )
    table.add_column("student", overflow="fold", min_width=7)
    table.add_column("state")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("where points were lost", overflow="fold")
    for row in rows_of(course, assignment, questions, results):
        lost = map(_lost, row.answers.values())
        nothing = row.answers and not row.total and not row.waiting
        words = "everywhere" if nothing else ", ".join(filter(None, lost))
        words += f" ({', '.join(row.mistakes)})" if row.mistakes else ""
        words = "; ".join(filter(None, (words, row.lateness.words)))
        total = f"{plain_number(row.score)} of {plain_number(maximum_of(questions))}" if row.answers else ""
        cells = row.student, row.result.state, total, row.waiting or "", words
        table.add_row(*(escape(printable(str(cell))) for cell in cells))
    return table


def _lost(answer: Answer) -> str:
    """Return the points of a question, as text; empty if no points were lost, or if the answer has no points yet."""
    question = answer.question
    if question.bonus or not answer.given:
        return ""
    if answer.waiting and question.written:  # the points are from an earlier grading
        earlier = f"{answer.points:g}/{question.maximum:g}, to confirm"
        return f"{question.name} {earlier if answer.of_person else 'waits'}"
    if answer.untouched:
        return f"{question.name} not written"
    return f"{question.name} {answer.points:g}/{question.maximum:g}" if answer.points != question.maximum else ""


def matrix_table(matrix: "Matrix") -> Table:
    """Return one line for each mutant: the checks that fail it, and whether its mistake is named."""
    table = Table(title=f"{matrix.assignment}: which checks catch each known mistake (seed {matrix.seed})")
    for column in ("exercise", "mutant", "mistake", "failed by", "named", "named by visible test"):
        table.add_column(column)
    for verdict in matrix.mutants:
        title = TITLES[verdict.mistake]
        named = "yes" if verdict.named else "NO"
        failed = ", ".join(verdict.failed) or "NOT CAUGHT"
        visible = {"": "passes", None: "fails, unnamed"}.get(verdict.visible, verdict.visible)
        table.add_row(verdict.exercise, verdict.name, title, failed, named, visible)
    return table


def matrix_in_words(matrix: "Matrix") -> list[str]:
    """Return the numbers of caught mutants and of passing right answers, and a line for each right answer that fails."""
    wrong = [
        f"{v.exercise}: {v.name} fails {', '.join(v.failed) or 'the visible test'}"
        for v in matrix.correct
        if not v.passes
    ]
    caught, named = sum(v.killed for v in matrix.mutants), sum(v.named for v in matrix.mutants)
    passing = len(matrix.correct) - len(wrong)
    return [
        f"{caught} of {len(matrix.mutants)} mutants caught, {named} named.",
        f"{passing} of {len(matrix.correct)} correct answers pass all checks.",
        *wrong,
    ]

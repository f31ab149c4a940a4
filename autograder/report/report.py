"""The report on a class: a page for the instructor and two tables for spreadsheets."""

import io
import statistics
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_tests.compare import UNWRITTEN

from autograder.cells import is_grade, is_solution, points_of
from autograder.course import gradebook
from autograder.course.course import NEEDS_A_LOOK, Assignment, Course, Result
from autograder.course.gradebook import Lateness
from autograder.files import write_atomically
from autograder.judge import catalogue
from autograder.judge.mistake import number_of
from autograder.report.page import page_template, plain_number
from autograder.spreadsheets import csv_text

if TYPE_CHECKING:  # only plots need Matplotlib; a table of scores does not
    from matplotlib.axes import Axes

STATES = (NEEDS_A_LOOK, "graded", "graded after repair", "crashed", "timed out", "not graded", "unreadable", "missing")
INK, BAR = {"light": "#1f2328", "dark": "#dfe5eb"}, {"light": "#4a8fbf", "dark": "#3d86b3"}  # colours of plots, by page


@dataclass
class Question:
    """A column of the report: the tests of one exercise, or one written question."""

    name: str
    written: bool
    bonus: bool = False  # its points do not count in the maximum
    maximum: float = 0.0  # maximum of points
    cells: list[str] = field(default_factory=list)  # grade ids of its cells


@dataclass
class Answer:
    """One student's result for one question: the points, and what was wrong."""

    question: Question
    points: float
    waiting: int  # number of cells that wait for a person
    mistakes: list[str]  # names of mistakes, such as "M6"
    unnamed: str  # message of a failed test that named no mistake
    untouched: bool  # a written question left as released: nbgrader gives 0 for it
    of_person: bool  # whether a person gave points, 0 too; after a regrade they wait to be confirmed

    @property
    def given(self) -> bool:
        """Whether there is a number to show. Points of a waiting answer are from an earlier grading, not final."""
        return not (self.waiting or self.question.bonus) or self.points > 0 or self.of_person


@dataclass
class Row:
    """One student, with an answer to each question. Without a score there are no answers."""

    result: Result
    answers: dict[str, Answer]
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        self.student = self.result.student
        self.automatic = sum(answer.points for answer in self.answers.values() if not answer.question.written)
        self.manual = sum(answer.points for answer in self.answers.values() if answer.question.written)
        self.total = self.automatic + self.manual
        self.score = max(0.0, self.total - self.lateness.penalty)  # the score that counts
        self.waiting = sum(answer.waiting for answer in self.answers.values())
        # A person gave points to these tests, and has to look at them again after a regrade.
        self.to_confirm = sum(answer.waiting for answer in self.answers.values() if not answer.question.written)
        self.mistakes = sorted({name for answer in self.answers.values() for name in answer.mistakes}, key=number_of)


def questions_of(assignment: Assignment) -> list[Question]:
    """Return the exercises and the written questions, in order."""
    cells = [cell for cell in assignment.instructor.cells if is_solution(cell) and not is_grade(cell)]
    exercises = [cell.metadata.nbgrader.grade_id for cell in cells]
    questions: dict[str, Question] = {}
    for cell in assignment.graded_cells():
        info = cell.metadata.nbgrader
        # attention_backward_keys belongs to attention_backward, not to attention
        fitting = [] if info.solution else [name for name in exercises if info.grade_id.startswith(f"{name}_")]
        name = max(fitting, key=len, default=cell.metadata.get("file", info.grade_id))
        question = questions.setdefault(name, Question(name, info.solution, "bonus" in cell.metadata))
        question.maximum += points_of(cell)
        question.cells.append(info.grade_id)
    return list(questions.values())


def maximum_of(questions: list[Question]) -> float:
    """Return the maximum of points of an assignment, without bonus."""
    return sum(question.maximum for question in questions if not question.bonus)


def is_unwritten(check: dict[str, Any]) -> bool:
    """Whether a check failed because nothing was written, which is allowed for a bonus."""
    return not check["passed"] and check["message"].endswith(UNWRITTEN)


def scores_table(course: Course, assignment: Assignment, results: list[Result]) -> list[dict[str, Any]]:
    """Return one row for each student, ready to be shown. A student without a score has empty cells, not 0."""
    questions = questions_of(assignment)
    table = []
    for row in rows_of(course, assignment, questions, results):
        shown: dict[str, Any] = {"student": row.student, "state": row.result.state}
        for question in questions:
            answer = row.answers.get(question.name)
            shown[question.name] = (
                plain_number(answer.points) if answer and answer.given else "waits" if answer and answer.waiting else ""
            )
        numbers = {"automatic": row.automatic, "manual": row.manual, "waiting": row.waiting}
        numbers |= {"to confirm": row.to_confirm, "total": row.total}
        numbers |= {"late penalty": row.lateness.penalty, "score": row.score, "of": maximum_of(questions)}
        shown |= {name: plain_number(number) if row.answers else "" for name, number in numbers.items()}
        shown["late"] = row.lateness.words
        table.append(shown | {"mistakes": ", ".join(row.mistakes)})
    return table


def scores_of(course: Course, assignment: Assignment, results: list[Result]) -> dict[str, Any]:
    """Return the scores of an assignment for a script: the rows of `scores_table`, with the reasons and questions."""
    about = {result.student: {"why": result.why, "questions": result.questions} for result in results}
    rows = [row | about[row["student"]] for row in scores_table(course, assignment, results)]
    seeds = sorted({result.seed for result in results if result.seed is not None})
    return {"assignment": assignment.name, "seeds": seeds, "students": rows}


def write_report(course: Course, assignment: Assignment, results: list[Result]) -> Path:
    """Write report/ASSIGNMENT/index.html, scores.csv and mistakes.csv, and return the page."""
    questions = questions_of(assignment)
    rows = rows_of(course, assignment, questions, results)
    mistakes = _mistakes(rows)
    folder = course.root / "report" / assignment.name
    write_atomically(folder / "scores.csv", csv_text(scores_table(course, assignment, results)))
    columns = ("mistake", "title", "count", "student", "questions")
    made = [
        dict(zip(columns, (mistake["name"], mistake["title"], len(mistake["who"]), row.student, ", ".join(where))))
        for mistake in mistakes
        for row, where in mistake["who"]
    ]
    write_atomically(folder / "mistakes.csv", csv_text(made, columns))
    counts = Counter(row.result.state for row in rows)
    page = page_template("report.html.j2").render(
        assignment=assignment.name,
        questions=questions,
        asked=[question for question in questions if any(mistake["where"][question.name] for mistake in mistakes)],
        of=maximum_of(questions),
        rows=rows,
        scored=[row for row in rows if row.answers],
        states={state: counts[state] for state in STATES if counts[state]},
        waiting=_who(questions, rows, "waiting"),
        plots=_plots(questions, [row for row in rows if row.answers]),
        mistakes=mistakes,
        unnamed=_who(questions, rows, "unnamed"),
        files={name: [row for row in rows if name in row.result.files] for name in assignment.files},
        seeds=sorted({row.result.seed for row in rows if row.result.seed is not None}),
        versions=_versions(rows),
    )
    write_atomically(folder / "index.html", page)
    return folder / "index.html"


def rows_of(course: Course, assignment: Assignment, questions: list[Question], results: list[Result]) -> list[Row]:
    """Return a row for each student, sorted by name; submissions that need a look come first."""
    with course.reading() as db:
        graded = gradebook.grades(db, assignment.name)
        late = gradebook.lateness(db, assignment.name)
    rows = []
    for result in sorted(results, key=lambda result: (result.state != NEEDS_A_LOOK, result.student)):
        # the gradebook may have grades of an older submission; an unreadable submission must not get these
        grades = graded.get(result.student) if result.has_score else None
        answers = {question.name: _answer(question, grades, result.checks) for question in questions} if grades else {}
        rows.append(Row(result, answers, (answers and late.get(result.student)) or Lateness()))
    return rows


def _answer(question: Question, grades: dict[str, gradebook.Grade], checks: list[dict[str, Any]]) -> Answer:
    own_grades = [grades.get(cell, gradebook.Grade(0.0, True)) for cell in question.cells]
    points, waiting = sum(each.score for each in own_grades), sum(each.waits for each in own_grades)
    # nbgrader itself sets the points of a written question only if it is empty, to 0; a person may change them
    of_person = any(each.of_person for each in own_grades)
    untouched = question.written and not (points or of_person) and any(each.of_tests is not None for each in own_grades)
    failed = [check for check in checks if check["name"] in question.cells and not check["passed"]]
    failed = [check for check in failed if not (question.bonus and is_unwritten(check))]
    named = {name for check in failed if check["mistake"] for name in check["mistake"].split("+")}
    unnamed = [(check["message"] or "no message").splitlines()[0][:300] for check in failed if not check["mistake"]]
    return Answer(
        question,
        points,
        waiting,
        sorted(named, key=number_of),
        unnamed[0] if unnamed else "",
        untouched,
        of_person,
    )


def _mistakes(rows: list[Row]) -> list[dict[str, Any]]:
    """Return every named mistake with its students and questions, the most frequent first."""
    who: dict[str, list[tuple[Row, list[str]]]] = {}
    for row in rows:
        for name in row.mistakes:
            where = [question for question, answer in row.answers.items() if name in answer.mistakes]
            who.setdefault(name, []).append((row, where))
    return [
        {
            "name": n,
            "title": catalogue.TITLES.get(n, ""),
            "question": catalogue.QUESTIONS.get(n, ""),
            "who": who[n],
            "where": Counter(question for _, places in who[n] for question in places),
        }
        for n in sorted(who, key=lambda n: (-len(who[n]), number_of(n)))
    ]


def _versions(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the students graded with each set of versions, the largest group first."""
    graded = [row for row in rows if row.result.has_score]
    counts = Counter(row.result.versions for row in graded)
    return {each: [row for row in graded if row.result.versions == each] for each, _ in counts.most_common()}


def _who(questions: list[Question], rows: list[Row], attribute: str) -> dict[str, list[Row]]:
    """Return the rows whose answers have an attribute ("waiting", "unnamed"), by question; only questions with rows."""
    scored = [row for row in rows if row.answers]
    who = {q.name: [row for row in scored if getattr(row.answers[q.name], attribute)] for q in questions}
    return {name: matching for name, matching in who.items() if matching}


def _plots(questions: list[Question], rows: list[Row]) -> list[dict[str, str]]:
    """Return the plots as data URIs with caption and text; written questions are left out while their answers wait."""
    if not rows:
        return []
    waiting = {name for name in _who(questions, rows, "waiting") if rows[0].answers[name].question.written}
    counted = [q for q in questions if q.maximum and q.name not in waiting and not q.bonus]
    kind = "automatic points" if waiting else "points"
    of = maximum_of([q for q in questions if not (waiting and q.written)])
    totals = [row.automatic if waiting else row.total for row in rows]
    text = f"The median total is {statistics.median(totals):g} of {of:g} {kind}; "
    text += f"the lowest is {min(totals):g}, the highest {max(totals):g}."
    plots = [_plot(f"How many {kind} the students have", text, (4.2, 3.0), plot_totals, totals, of, kind)]
    means = {q.name: statistics.mean(row.answers[q.name].points for row in rows) for q in counted}
    shares = {q.name.replace("_", " "): means[q.name] / q.maximum for q in counted}
    if shares:
        best, worst = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
        text = f"“{worst}” is the hardest with {shares[worst]:.0%} of its points, "
        text += f"“{best}” the easiest with {shares[best]:.0%}."
        size = (4.2, 0.9 + 0.5 * len(shares))
        plots.append(_plot("Mean share of the points of each question", text, size, plot_shares, shares))
    return plots


def _plot(caption: str, text: str, size: tuple[float, float], draw: Callable[..., None], *data: Any) -> dict[str, str]:
    import matplotlib
    from matplotlib.figure import Figure

    plot = {"caption": caption, "text": text}
    for mode in INK:
        style = {"font.size": 11, "svg.hashsalt": caption, "axes.spines.top": False, "axes.spines.right": False}
        inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        picture = io.BytesIO()
        with matplotlib.rc_context(style | dict.fromkeys(inked, INK[mode])):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure.subplots(), BAR[mode], *data)
            figure.savefig(picture, format="svg", transparent=True, metadata={"Date": None})
        plot[mode] = "data:image/svg+xml;base64," + b64encode(picture.getvalue()).decode()
    return plot


def plot_totals(ax: "Axes", colour: str, totals: list[float], of: float, kind: str) -> None:
    """Draw how many students have how many points, and the median."""
    from matplotlib.ticker import MaxNLocator

    width, median = max(1, ceil(of / 25)), statistics.median(totals)
    # a whole number is in the middle of its bar
    edges = [left - 0.5 for left in range(0, ceil(max(of, *totals)) + 2 * width, width)]
    ax.hist(totals, edges, rwidth=0.85, color=colour)
    ax.axvline(median, color=ax.xaxis.label.get_color(), linestyle="--", label=f"median {median:g}")
    ax.set(xlabel=f"{kind}, of {of:g}", ylabel="students", xlim=(edges[0], edges[-1]))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.figure.legend(loc="outside upper right", frameon=False)


def plot_shares(ax: "Axes", colour: str, shares: dict[str, float]) -> None:
    """Draw a bar for each question, its name and number above it."""
    for height, (name, share) in enumerate(shares.items()):
        ax.barh(height, share * 100, height=0.3, color=colour)
        ax.text(0, height - 0.25, f"{name}: {share:.0%}")
    ax.set(xlabel="mean share of the points (%)", xlim=(0, 100), ylim=(len(shares) - 0.7, -0.8), yticks=[])
    ax.spines["left"].set_visible(False)

"""Attacks on the grader, and accidents that resemble attacks: each has a function that makes the submission, and a fair score.

python tests/sandbox/attacks.py      writes the page book/attacks.md

The fair score is the points of the right answers in a submission: every point if all answers are right, 0 if the notebook is
unsolved, and all points but those of one exercise if the attack is in that exercise. An exercise that uses an earlier one is
judged with the correct earlier one, so that no mistake costs points twice. No score means that nothing could be read. It does
not mean 0.

Each attack is a kind: one submission tries several variants one after another, and the fair score is for all of them.
Each attack is tried on every assignment that it fits. If each attack is tried only once, the attacks are spread over all
assignments.
Everything here is limited, and students' code runs only in the sandbox.
"""

import contextlib
import json
import os
import re
import secrets
import socketserver
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "lms")]  # the same as in pyproject.toml

from making import CANARY, FIFTH, Attack, Place, automatic_points
from table import ATTACKS, GROUPS

from autograder.course.course import Assignment, Course, Result
from autograder.files import printable, write_atomically
from autograder.grade.grade import grade, load_assignment
from autograder.grade.workers import Workers
from autograder.judge.exercise import exercises_of
from autograder.report.feedback import write_feedback
from autograder.report.report import write_report
from autograder.sandbox.host.limits import Limits

PAGE = ROOT / "book" / "attacks.md"
# The attacks of `make test`: the most different ones, on the assignments whose honest submissions are fastest.
SOON = """
unsolved input-transformer serves-itself patched-comparisons reads-the-answers edits-the-results edits-the-tests
agent-odd-replies replies-for-later torch-patched lying-tensors other-processes searches-memory hooks sockets
escapes endless-loop-deaf memory background-process kills-everything messages
link-to-answers active-outputs name-template name-dots
"""
SOON_ON = ("1_attention", "2_multihead")
# Where the page shows an attack, and where fresh kernels are tried.
ONCE = {attack.name: attack.on[number % len(attack.on)] for number, attack in enumerate(ATTACKS)}

GOOD = ("b-good", "m-good", "zz-good")  # honest submissions in between; they must not be harmed
SEED = 20
FORKED = os.environ.get("KERNELS") != "fresh"  # the two kinds of kernels
CELL = 3.0 if FORKED else 5.0  # seconds; a fresh kernel imports Matplotlib in a cell
LIMITS = Limits(cell_seconds=CELL, call_seconds=3.0, memory_bytes=3 * 2**29, total_seconds=150.0, forked=FORKED)


@dataclass
class Run:
    """The outcome of a course in which every attack was submitted."""

    course: Course
    assignment: Assignment
    attacks: list[Attack]
    canaries: dict[str, str]  # the planted secrets, by place
    results: dict[str, Result] = field(default_factory=dict)  # results by the name of the folder
    scores: dict[str, float] = field(default_factory=dict)  # automatic points in the gradebook
    connections: int = 0  # connections that reached a service on this machine
    before: set[psutil.Process] = field(default_factory=set)  # processes that other tests had started before
    processes: set[int] = field(default_factory=set)  # processes of the grader while it worked

    def state(self, attack: Attack) -> str:
        """Return the state of an attack; an impossible name of a student is shown in brackets."""
        found = self.results.get(attack.folder) or self.results.get(_shown(attack.folder))
        return found.state if found else "NO STATE"

    def score(self, attack: Attack) -> float | None:
        """Return the automatic points of an attack, if it has a score."""
        result = self.results.get(attack.folder)
        return self.scores.get(attack.folder) if result is not None and result.has_score else None

    def feedback(self, student: str) -> Path:
        """Return the path of a student's page of feedback."""
        return self.course.feedback_page(student, self.assignment)

    def seen_by(self, student: str) -> str:
        """Return all that a student sees: feedback, outputs and own cells, and the result's messages."""
        parts = [json.dumps(vars(self.results[student]), ensure_ascii=False)] if student in self.results else []
        page = self.feedback(student)
        parts += [page.read_text(encoding="utf-8")] if page.exists() else []
        path = self.course.autograded_path(student, self.assignment)
        for cell in nbformat.read(path, 4).cells if path.exists() else []:
            locked = cell.metadata.get("nbgrader", {}).get("locked")
            parts += [json.dumps(cell.get("outputs", []), ensure_ascii=False), "" if locked else cell.source]
        return "\n".join(parts)

    def leaks(self, student: str) -> list[str]:
        """Return the secrets that a student sees."""
        text = self.seen_by(student)
        found = [place for place, secret in self.canaries.items() if secret in text]
        if student in ("b-good", "hard-link"):
            found.remove("a submission")  # these students submitted it
        found += ["the source of a test"] if "import check; check(" in text else []
        return found + (["expected values"] if expected_numbers(self.assignment) & numbers_in(text) else [])


def _shown(folder: str) -> str:
    name = printable(folder)
    return f"({name[:60]}{'…' * (len(name) > 60)})"


def numbers_in(text: str) -> set[str]:
    """Return a text's decimal numbers with six digits or more, rounded to six."""
    return {f"{float(number):.5e}" for number in re.findall(r"\d*\.\d{6,20}(?:e[-+]\d{1,3})?", text)}


def expected_numbers(assignment: Assignment) -> set[str]:
    """Return the numbers that the hidden tests of this run expect, rounded to six digits, without round ones."""
    exercises = exercises_of(assignment.notebook).values()
    cases = [case for each in exercises for case in each.hidden_cases(SEED)]
    arrays = [np.ravel(array) for case in cases for array in case["expected"].get("arrays", {}).values()]
    numbers = np.abs(np.concatenate([array for array in arrays if array.dtype.kind == "f"]))
    numbers = numbers[(numbers > 1e-3) & (numbers != numbers.round(3))]
    # If there were very many numbers, an honest cell would print one of them by chance.
    return {f"{number:.5e}" for number in numbers[:: 1 + len(numbers) // 1000]}


@contextlib.contextmanager
def service(canary: str, run: Run) -> Iterator[int]:
    """Listen on this machine, and send a secret to every connection."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            run.connections += 1
            self.request.sendall(canary.encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Answer) as one:
        port = one.server_address[1]
        with socketserver.UnixStreamServer(f"\0autograder-{port}", Answer) as other:
            for server in (one, other):
                threading.Thread(target=server.serve_forever, daemon=True).start()
            yield port
            one.shutdown()
            other.shutdown()


def run_all(root: Path, name: str, attacks: list[Attack], workers: Workers) -> Run:
    """Make a course below root with attacks on an assignment and good submissions in between; grade all, write feedback.

    Secrets are planted in a hidden test, the gradebook, a submission, the environment, and two files.
    """
    places = ("a hidden test", "the gradebook", "a submission", "the course", "home", "a service")
    canaries = {place: CANARY + secrets.token_hex(16) for place in places}
    canaries["the environment"] = os.environ["AUTOGRADER_CANARY"]  # the grading processes may be running already
    assignment = load_assignment(name)
    run = Run(Course(root / "course" / name), assignment, attacks, canaries)
    for cell in assignment.instructor.cells:
        cell.source = cell.source.replace(
            "### BEGIN HIDDEN TESTS", f"### BEGIN HIDDEN TESTS {canaries['a hidden test']}"
        )
    write_atomically(run.course.root / "roster.csv", f"id,first_name\nb-good,{canaries['the gradebook']}\n")
    write_atomically(run.course.root / "secret.txt", canaries["the course"])
    home = Path.home() / f".autograder-canary-{os.getpid()}"
    home.write_text(canaries["home"], encoding="utf-8")

    run.before |= set(psutil.Process().children(recursive=True))

    def watch(*progress: Any) -> None:
        run.processes |= {process.pid for process in psutil.Process().children(recursive=True)}

    try:
        with service(canaries["a service"], run) as port:
            for student in GOOD:
                good_place = _place(run, student, port)
                notebook = good_place.solved()
                said = canaries["a submission"] if student == "b-good" else "mine"
                notebook.cells.append(nbformat.v4.new_markdown_cell(said))
                good_place.submit(notebook)
            for attack in attacks:
                attack.make(_place(run, attack.folder, port))
            # In exercise 5 a hundred trials share the time of a test, so it has the time of a real course.
            limits = LIMITS if name not in FIFTH else replace(LIMITS, call_seconds=Limits.call_seconds)
            results = grade(run.course, assignment, seed=SEED, workers=workers, limits=limits, progress=watch)
        write_feedback(run.course, assignment, results)
        write_report(run.course, assignment, results)
    finally:
        home.unlink()
    run.results = {result.student: result for result in results}
    written = {cell.metadata.nbgrader.grade_id for cell in assignment.graded_cells() if cell.metadata.nbgrader.solution}
    for student, grades in run.course.scores(assignment).items():
        run.scores[student] = sum(score for name, (score, _) in grades.items() if name not in written)
    return run


def _place(run: Run, student: str, port: int) -> Place:
    folder = run.course.submission_folder(student, run.assignment.name)
    folder.mkdir(parents=True)
    return Place(folder, run.course.root, run.assignment, port)


INTRODUCTION = """% Made by "python tests/sandbox/attacks.py" from tests/sandbox/table.py; do not edit.

# Attacks and what they earn

If tests run in the student's own process, ten lines of code can get any score.
This grader runs the tests in another process.
This page shows the effect on {count} submissions.
Some try to get points without answers, to read secrets, or to harm other submissions; some are only broken or unusual.
Each submission is one kind of attack; if an attack has several variants, the submission tries them one after another.
Each row shows one submission on one assignment, with the score that its right answers deserve.
`make test-all` grades each submission, between honest ones, on every assignment in which the attack is possible.
It fails if a score or a state is another one, or if a secret reaches the student.

If no answer is right, the score is 0.
If all answers are right, it is the automatic points of the assignment: {points}.
If several states are possible, the row says all; on a busy machine a state may also be `timed out`. The score is the same.
A dash means no score. It does not mean 0.
The secrets are hidden tests, expected values, the gradebook, another submission, the grader's environment, files of the course and of the home folder, and a service on the same machine.

An *agent* is the part of the grader that runs in the student's process, receives requests and sends replies.
{{repo}}`SECURITY.md <SECURITY.md>` says what the sandbox protects, and what it does not.
"""


def page() -> str:
    """Return the book's page: the score and the state of each attack, as the tests ask for them."""
    assignments = {name: load_assignment(name) for name in sorted(set(ONCE.values()))}
    points = ", ".join(f"{sum(automatic_points(each).values()):g} of `{name}`" for name, each in assignments.items())
    lines = [INTRODUCTION.format(count=len(ATTACKS), points=points)]
    for group in GROUPS:
        lines += [f"## {group.title}\n", "| name | what it tries | on | state | score |", "| --- " * 5 + "|"]
        for attack in group.attacks:
            score = attack.fair_score(assignments[ONCE[attack.name]])
            shown = "–" if score is None else f"{score:g}"
            lines.append(f"| {attack.name} | {attack.tries} | {ONCE[attack.name]} | {attack.states} | {shown} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    write_atomically(PAGE, page())

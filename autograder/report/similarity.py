"""Find similar submissions. Similarity is a reason to look, not a proof.

`copydetect` compares what two students wrote: it fingerprints code without its names, comments and spaces (Schleimer,
Wilkerson and Aiken 2003, "Winnowing"). The released text is removed first. Right answers of ten lines are always similar:
`THRESHOLD` comes from independent right answers, which tests/report/test_similarity.py measures.
"""

import hashlib
import io
import itertools
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from autograder.cells import grade_id, is_locked
from autograder.course.course import Assignment, Course, Result
from autograder.files import Unreadable, write_atomically
from autograder.progress import Progress
from autograder.report.page import page_template
from autograder.spreadsheets import csv_text

LINE, CODE = 300, 40_000  # most compared characters of a line and of a student; more would take minutes
CUT = f"# [Cut here: the first {CODE:,} characters are compared.]"
SHOWN = 100  # pairs that are shown side by side; the others are only named
NOISE = 25  # shortest common part that counts, in characters without names and spaces
THRESHOLD = 0.7  # share of the shorter code: 480 pairs of independent right answers had 0.6 at most
LEAST = 150  # fewest characters in common, because short answers are all similar
RARE = 2  # a mistake is unusual if at most this many students made it


@dataclass
class Pair:
    """Two students whose work is similar, and why."""

    first: str
    second: str
    share: float  # share of the shorter code, 0 to 1
    reasons: list[str]
    sides: tuple[Markup, Markup]  # the two codes, with what they have in common highlighted


def own_code(course: Course, assignment: Assignment, student: str) -> dict[str, str]:
    """Return the code that a student wrote, by cell, answers first: the lines that the released notebook does not hold."""
    text = course.autograded_path(student, assignment).read_text(encoding="utf-8")
    given = {line.strip() for cell in assignment.release.cells for line in cell.source.splitlines()}
    cells = [
        (grade_id(cell) or f"cell {place}", cell)
        for place, cell in enumerate(nbformat.reads(text, 4).cells)
        if cell.cell_type == "code" and not is_locked(cell)
    ]
    own, room = {}, CODE
    for name, cell in sorted(cells, key=lambda pair: not grade_id(pair[1])):
        lines = [line.rstrip()[:LINE] for line in cell.source[:room].splitlines()]
        lines = [line for line in lines if line.strip() and line.strip() not in given]
        if len(cell.source) > room:
            return own | {name: "\n".join([*lines, CUT])}
        own |= {name: "\n".join(lines)} if lines else {}
        room -= sum(map(len, lines))
    return own


def similar_pairs(codes: dict[str, str], progress: Progress = lambda *_: None) -> list[Pair]:
    """Return the pairs with similar code: more than `THRESHOLD`, and more than is usual in this class.

    Args:
        codes: The code of each student.
        progress: Called as the work goes on.
    """
    from copydetect import CodeFingerprint, compare_files  # imports Matplotlib
    from copydetect.utils import highlight_overlap

    prints = {name: CodeFingerprint("a.py", NOISE, 1, fp=io.StringIO(code)) for name, code in sorted(codes.items())}
    similar, shares = [], []
    pairs = list(itertools.combinations(prints.items(), 2))
    for done, ((first, one), (second, other)) in enumerate(pairs, 1):
        overlap, of_each, slices = compare_files(one, other)
        share = min(1.0, float(max(of_each)))
        shares.append(share)
        if share >= THRESHOLD and overlap >= LEAST:
            highlighted = [
                Markup(highlight_overlap(each.raw_code, places, "<mark>", "</mark>", escape_html=True)[0])
                for each, places in zip((one, other), slices, strict=True)
            ]
            similar.append(Pair(first, second, share, [f"{share:.0%} of the shorter code"], tuple(highlighted)))
        if done % 1000 == 0 or done == len(pairs):
            progress("pairs", done, len(pairs))
    usual = _fence(shares)
    return sorted(
        (pair for pair in similar if pair.share >= usual), key=lambda pair: (-pair.share, pair.first, pair.second)
    )


def _fence(shares: list[float]) -> float:
    """Return the share above which a pair is unusual in its class: at most 0.99, because equal code is unusual."""
    if len(shares) < 10:  # fewer than five students do not show what is usual
        return 0.0
    lower, _, upper = statistics.quantiles(shares, n=4)
    return min(0.99, upper + 1.5 * (upper - lower))


def same_files(course: Course, assignment: Assignment, students: list[str]) -> dict[str, list[str]]:
    """Return the groups of students who submitted the same file next to the notebook, by file, as "ada, goran"."""
    who: dict[tuple[str, str], list[str]] = {}
    for student in students if assignment.wanted.files else ():
        try:
            submission = course.read_submission(student, assignment)
        except (FileNotFoundError, Unreadable):  # the files were removed after grading
            continue
        for name, data in submission.files.items() if submission else ():
            if isinstance(data, bytes):
                who.setdefault((name, hashlib.sha256(data).hexdigest()), []).append(student)
    groups: dict[str, list[str]] = {}
    for (name, _), together in who.items():
        if len(together) > 1:
            groups.setdefault(name, []).append(", ".join(together))
    return groups


def same_mistakes(results: list[Result], own: dict[str, dict[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return, by pair of students, the unusual mistakes that both made in the same words."""
    made: dict[tuple[str, str], set[str]] = {}  # (cell of the answer, mistake) → students
    for result in results:
        for check in result.checks:
            cells = [cell for cell in own.get(result.student, {}) if check["name"].startswith(f"{cell}_")]
            if check["mistake"] and cells:
                made.setdefault((max(cells, key=len), check["mistake"]), set()).add(result.student)
    reasons: dict[tuple[str, str], list[str]] = {}
    for (cell, mistake), who in sorted(made.items()):
        if len(who) <= RARE:
            for first, second in itertools.combinations(sorted(who), 2):
                if own[first][cell].split() == own[second][cell].split():
                    reason = f"{mistake} in {cell}, made by nobody else, in the same words"
                    reasons.setdefault((first, second), []).append(reason)
    return reasons


def write_similarity(
    course: Course,
    assignment: Assignment,
    results: list[Result],
    progress: Progress = lambda *_: None,
) -> tuple[Path, list[Pair], dict[str, list[str]]]:
    """Write report/ASSIGNMENT/similarity.html and similarity.csv; return the page, the pairs and who has the same file."""
    students = [result.student for result in results if result.has_score]
    own = {student: own_code(course, assignment, student) for student in students}
    codes = {student: "\n\n".join(cells.values()) for student, cells in own.items()}
    pairs = {(pair.first, pair.second): pair for pair in similar_pairs(codes, progress)}
    for (first, second), reasons in same_mistakes(results, own).items():
        sides = tuple(Markup.escape(codes[student]) for student in (first, second))
        pairs.setdefault((first, second), Pair(first, second, 0.0, [], sides)).reasons.extend(reasons)
    files = same_files(course, assignment, students)
    folder = course.root / "report" / assignment.name
    columns = ("first", "second", "share", "reasons")
    table: list[dict[str, Any]] = [
        dict(zip(columns, (p.first, p.second, round(p.share, 2), "; ".join(p.reasons)), strict=True))
        for p in pairs.values()
    ]
    table += [
        dict(zip(columns, (together, "", "", f"the same {name}"), strict=True))
        for name, groups in files.items()
        for together in groups
    ]
    page = page_template("similarity.html.j2").render(
        assignment=assignment.name,
        pairs=list(pairs.values()),
        shown=SHOWN,
        files=files,
        students=len(students),
        threshold=THRESHOLD,
    )
    write_atomically(folder / "similarity.csv", csv_text(table, columns))
    write_atomically(folder / "similarity.html", page)
    return folder / "similarity.html", list(pairs.values()), files

"""Does everything follow what changes after the grading, as if it had been so from the beginning?"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from conftest import assignment_of
from sample_class import both, fill_in, submit

from autograder.course.course import Course
from autograder.files import write_atomically
from autograder.grade.grade import grade
from autograder.grade.workers import Workers
from autograder.lms.export_scores import Export
from autograder.report.feedback import write_feedback
from autograder.report.report import scores_table

NAME = "1_attention"
SEED = 5
PLUGIN = """from nbgrader.plugins import BasePlugin


class OneADay(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 1 + total_seconds_late // 86400
"""
CONFIG = 'c = get_config()\nc.AssignLatePenalties.plugin_class = "one_a_day.OneADay"\n'
DUE = "[due]\n1_attention = 2026-11-{day} 12:00:00+00:00\n"


def write(name: str, text: str) -> Callable[[Path], None]:
    """Return a change of a course that writes a file."""
    return lambda root: write_atomically(root / name, text)


OF_ADA = f"submitted/ada/{NAME}/timestamp.txt"
PENALTIES = both(write("one_a_day.py", PLUGIN), write("nbgrader_config.py", CONFIG))
# What is there at the first grading, and what changes then.
CHANGES: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "an earlier time": (write(OF_ADA, "2026-11-05 12:00:00 UTC"), write(OF_ADA, "2026-11-02 12:00:00 UTC")),
    "a later time": (write(OF_ADA, "2026-11-02 12:00:00 UTC"), write(OF_ADA, "2026-11-07 13:00:00 UTC")),
    "a time at last": (both(), write(OF_ADA, "2026-11-07 13:00:00 UTC")),
    "a due date": (write(OF_ADA, "2026-11-05 12:00:00 UTC"), write("course.toml", DUE.format(day="01"))),
    "no penalties": (write(OF_ADA, "2026-11-05 12:00:00 UTC"), write("one_a_day.py", PLUGIN.replace("return 1 +", "return 0 *"))),
    "no time any more": (write(OF_ADA, "2026-11-07 13:00:00 UTC"), lambda root: (root / OF_ADA).unlink()),
    "no plugin any more": (write(OF_ADA, "2026-11-07 13:00:00 UTC"), write("nbgrader_config.py", "c = get_config()\n")),
    "a roster": (both(), write("roster.csv", "id,first_name,last_name\nada,Ada,Lovelace\nben,Ben,Doe\ncai,Cai,Roe\n")),
    "an unfit name": (write(f'submitted/a"/{NAME}/b', ""), lambda root: (root / 'submitted/a"').rename(root / "submitted/a")),
}  # fmt: skip


def course_with(root: Path, *changes: Callable[[Path], None]) -> Course:
    """Return a course in which Ada is right and Ben wrote nothing."""
    assignment = assignment_of(NAME)
    submit(root, "ada", fill_in(assignment.release, assignment.instructor))
    submit(root, "ben", assignment.release)
    write("course.toml", DUE.format(day="03"))(root)
    PENALTIES(root)
    for change in changes:
        change(root)
    return Course(root)


def seen(root: Path, workers: Workers, seed: int | None = SEED, **options: Any) -> tuple[Any, ...]:
    """Grade a course; return its table of scores, its pages of feedback above the notebook, and its export."""
    course, assignment = Course(root), assignment_of(NAME)
    grade(course, assignment, seed=seed, workers=workers, **options)
    results = course.load_results(NAME)
    pages = {}
    for page in write_feedback(course, assignment, results):
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        pages[page.parts[-3]] = soup.main.text.partition("Notebook")[0]
    exported = Export(course, assignment, results, "csv")
    return scores_table(course, assignment, results), pages, exported.tables


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.few(3)
def test_change_after_the_grading_counts(name: str, tmp_path: Path, two_workers: Workers) -> None:
    """Are scores, pages and exports those of a course that had the change from the beginning, without a regrade?"""
    before, change = CHANGES[name]
    seen(course_with(tmp_path / "changed", before).root, two_workers)
    change(tmp_path / "changed")
    always = course_with(tmp_path / "always", before, change)
    shutil.rmtree(tmp_path / "always" / "results", ignore_errors=True)
    assert seen(tmp_path / "changed", two_workers) == seen(always.root, two_workers)


def test_zero_points_of_a_person_are_a_number(tmp_path: Path, two_workers: Workers) -> None:
    """Do 0 points stay 0 points after a regrade, on the page and in the table, instead of waiting for a first grading?"""
    course, assignment = course_with(tmp_path), assignment_of(NAME)
    seen(tmp_path, two_workers)
    with course.gradebook() as gradebook:
        for name, points in (("why_scale", 0.0), ("row_of_the_map", 1.0)):
            given = gradebook.find_grade(name, assignment.notebook, NAME, "ada")
            given.manual_score, given.needs_manual_grade = points, False
        gradebook.db.commit()
    table, pages, _ = seen(tmp_path, two_workers, regrade=True)
    assert (table[0]["why_scale"], table[0]["row_of_the_map"], table[0]["graph_network"]) == (0, 1, "waits")
    assert "0 of 2; your instructor will look at it again" in " ".join(pages["ada"].split())


def test_interrupted_regrade_goes_on(tmp_path: Path, two_workers: Workers) -> None:
    """After Ctrl-C in a regrade, does the next run finish it, so that all have one seed?"""
    course, assignment = course_with(tmp_path), assignment_of(NAME)
    first = {result.seed for result in grade(course, assignment, workers=two_workers)}

    def stop(what: str, done: int, *_: Any) -> None:
        if what == "submissions" and done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(course, assignment, regrade=True, workers=two_workers, progress=stop)
    last = {result.seed for result in grade(course, assignment, workers=two_workers)}
    assert len(first) == len(last) == 1 and first != last

"""Does a class get exactly the points that it earned, with the mistakes named?

`conftest.py` grades the sample class once; most of these tests check the outcome. tests/golden/classes.txt holds its points
and messages.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import sample_class
from conftest import NAME, SEED, GradedClass
from nbgrader.api import MissingEntry
from sample_class import submit
from test_cli import run

from autograder.course.course import Course
from autograder.grade.grade import grade
from autograder.grade.result_keys import versions
from autograder.grade.workers import Workers

WRITTEN = ("why_scale", "row_of_the_map", "graph_network")
BONUS = {"online_softmax_values", "online_softmax_hidden"}  # one student earns it, and nobody loses it


def auto_scores(course: Course, student: str) -> dict[str, float | None]:
    """Return the automatic points that nbgrader's gradebook has of a student, by cell."""
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook("attention", NAME, student)
        return {grade.name: grade.auto_score for grade in notebook.grades}


# ------------------------------------------------------------------------------------------------- the sample class


def test_submissions_are_untouched(graded_class: GradedClass) -> None:
    """Are the submitted files unchanged, byte for byte?"""
    files = sample_class.make_submissions(graded_class.assignment.instructor, graded_class.assignment.release)
    for student, text in files.items():
        found = list((graded_class.course.root / "submitted" / student / NAME).iterdir())
        assert [path.read_text(encoding="utf-8") for path in found] == ([] if text is None else [text])


def test_progress_is_told(graded_class: GradedClass) -> None:
    """Is every step reported: the complete proof before the first submission, and each submission with its state?"""
    total = len(graded_class.results) - 1  # one student submitted nothing; the file that is no notebook is read too
    proof, begun, told = graded_class.progress[:3], graded_class.progress[3], graded_class.progress[4:]
    assert proof == [("proof", 0, 2), ("proof", 1, 2), ("proof", 2, 2)]
    assert begun == ("submissions", 0, total)
    assert [call[:3] for call in told] == [("submissions", done, total) for done in range(1, total + 1)]
    states = [result.state for result in graded_class.results.values() if result.state != "missing"]
    assert sorted(call[3] for call in told) == sorted(states)


def test_results_are_kept_on_disk(graded_class: GradedClass) -> None:
    """Does every result have a readable file that says that it is recorded, and which versions graded it?"""
    kept = {result.student: result for result in graded_class.course.load_results(NAME)}
    assert kept == graded_class.results
    assert all(result.recorded for result in kept.values())
    assert {result.versions for result in kept.values() if result.has_score} == {versions()}
    assert versions().startswith(f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch ")


# -------------------------------------------------------------------------------------------------- the gradebook


def test_gradebook_agrees(graded_class: GradedClass) -> None:
    """Does nbgrader's gradebook hold the points of each result, and do written questions wait for a person?"""
    for student, result in graded_class.results.items():
        if not result.has_score:
            continue
        checks = {check["name"]: check["points"] * check["passed"] for check in result.checks}
        scores = auto_scores(graded_class.course, student)
        assert {name: score for name, score in scores.items() if name not in WRITTEN} == checks
        with graded_class.course.gradebook() as gradebook:
            submission = gradebook.find_submission(NAME, student)
            assert submission.score == sum(checks.values())
            assert submission.max_score == 20  # a bonus does not raise the maximum
            notebook = gradebook.find_submission_notebook("attention", NAME, student)
            waits = {grade.name for grade in notebook.grades if grade.needs_manual_grade}
        # nbgrader gives 0, without waiting for a person, if a written answer is still the released text
        assert waits == (set() if student == "ben" else set(WRITTEN)), student


@pytest.mark.parametrize("student", ["quinn", "rosa"])
def test_gradebook_has_no_grade_without_a_submission(graded_class: GradedClass, student: str) -> None:
    """Do students without a readable submission get no score, instead of 0?"""
    with graded_class.course.gradebook() as gradebook:
        assert gradebook.find_student(student).id == student
        with pytest.raises(MissingEntry):
            gradebook.find_submission(NAME, student)
    assert student not in graded_class.course.scores(graded_class.assignment)
    assert not graded_class.course.autograded_path(student, graded_class.assignment).exists()


def test_second_grade_grades_nothing_again(graded_class: GradedClass) -> None:
    """Does a second run give the same results and points without running a submission?"""
    before, calls = graded_class.course.scores(graded_class.assignment), []
    again = grade(graded_class.course, graded_class.assignment, workers=2, progress=lambda *call: calls.append(call))
    assert {result.student: result for result in again} == graded_class.results
    assert calls == []
    assert graded_class.course.scores(graded_class.assignment) == before


def test_grade_takes_what_is_new_or_changed(graded_class: GradedClass, tmp_path: Path, two_workers: Workers) -> None:
    """Are only a first submission and a better second one graded, and on the first run's inputs?"""
    course, calls = Course(shutil.copytree(graded_class.course.root, tmp_path / "course")), []
    right = (course.root / "submitted" / "ada" / NAME / "attention.ipynb").read_text(encoding="utf-8")
    for student in ("ben", "quinn"):
        submit(course.root, student, right)
    results = grade(course, graded_class.assignment, workers=two_workers, progress=lambda *call: calls.append(call))
    assert [call[:3] for call in calls] == [("submissions", done, 2) for done in range(3)]
    assert [call[3:] for call in calls] == [(), ("graded",), ("graded",)]
    for result in results:
        if result.student in ("ben", "quinn"):
            assert (result.state, result.seed) == ("graded", SEED)
            assert sum(filter(None, auto_scores(course, result.student).values())) == 15
        else:
            assert result == graded_class.results[result.student]


# ------------------------------------------------------------------------------------------------- as users see it


def test_grade_shows_one_line_for_each_student(graded_class: GradedClass) -> None:
    """Does `grade` on a graded class show its table within 80 columns, with a name for each mistake?"""
    result = run("grade", NAME, "--course", str(graded_class.course.root), width=80)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for student, kept in graded_class.results.items():
        (line,) = [line for line in lines if f" {student} " in line]
        assert kept.state in line
    assert "M17" in next(line for line in lines if " ivan " in line)


def test_grade_gives_a_script_the_same_as_json(graded_class: GradedClass) -> None:
    """Does --json print every student's points and named mistakes, and nothing else?"""
    (said,) = json.loads(run("grade", "--all", "--json", "--course", str(graded_class.course.root)).stdout)
    students = {row["student"]: row for row in said["students"]}
    assert (said["assignment"], said["seeds"], set(students)) == (NAME, [SEED], set(graded_class.results))
    assert (students["goran"]["total"], students["goran"]["mistakes"]) == (11, "M6")
    assert (students["rosa"]["total"], bool(students["rosa"]["why"])) == ("", True)


LOOKS = """
import sys
from autograder.cli import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
print("imported", sorted({"torch", "matplotlib"} & sys.modules.keys()))
"""


def test_grade_with_nothing_new_imports_nothing_slow(graded_class: GradedClass) -> None:
    """Is a graded class shown without PyTorch and other modules that take seconds to import?"""
    arguments = ["grade", NAME, "--course", str(graded_class.course.root)]
    done = subprocess.run([sys.executable, "-c", LOOKS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported []"
    assert done.stderr.startswith(f"{NAME}: looking for what is new in ")
    versions = f"with Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {version('torch')}"
    assert done.stderr.splitlines()[0].endswith(versions)


# --------------------------------------------------------------------------------------------- nothing but nbgrader

PLAIN = ("ada", "ben", "goran", "hana", "ivan", "jana", "kofi", "mira")


@pytest.mark.deep
def test_plain_nbgrader_gives_the_same_points(graded_class: GradedClass, tmp_path: Path) -> None:
    """Does `nbgrader autograde`, with our checks and nothing else of ours, give the same automatic points except the bonus?"""
    course = Course(tmp_path)
    course.prepare(graded_class.assignment)
    for student in PLAIN:
        shutil.copytree(graded_class.course.root / "submitted" / student, tmp_path / "submitted" / student)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": path,
        "AUTOGRADER_SEED": str(SEED),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "none"),
    }
    command = ["nbgrader", "autograde", NAME, "--course-dir", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    for student in PLAIN:
        ours = auto_scores(graded_class.course, student)
        assert auto_scores(course, student) == ours | dict.fromkeys(BONUS, 0), student

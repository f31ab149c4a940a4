"""Does a class get exactly the points that it earned, with the mistakes named?

`conftest.py` grades the sample class once; most of these tests check the outcome.
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
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from sample_class import submit
from test_cli import run

from autograder.course.course import Assignment, Course, Result
from autograder.grade.grade import grade
from autograder.grade.result_keys import versions
from autograder.grade.workers import Workers
from autograder.judge.exercise import exercises_of

CHECKS = [f"{name}_{stage}" for name, exercise in exercises_of("attention").items() for stage in exercise.stages]
WRITTEN = ("why_scale", "row_of_the_map", "graph_network")
BONUS = {"online_softmax_values", "online_softmax_hidden"}  # one student earns it, and nobody loses it


def of(*exercises: str) -> set[str]:
    """Return the checks of some exercises."""
    return {
        check
        for check in CHECKS
        for name in exercises
        if check.removeprefix(f"{name}_") in exercises_of("attention")[name].stages
    }


# Student: state, lost checks, named mistakes. They follow from what sample_class.py does to the answers: a wrong exercise
# costs only its own points, because later ones are judged with the correct earlier ones.
ALL = set(CHECKS) - BONUS
EXPECTED: dict[str, tuple[str, set[str], set[str]]] = {
    "ada": ("graded", set(), set()),
    "ben": ("graded", ALL, set()),
    "chen": ("graded", of("softmax"), set()),
    "dora": ("timed out", of("attention"), set()),
    "emil": ("crashed", of("self_attention"), set()),
    "fatima": ("graded", set(), {"M194"}),  # a mistake in the bonus
    "goran": ("graded", of("attention"), {"M6"}),
    "hana": ("graded", of("attention"), {"M8"}),
    "ivan": ("graded", {"attention_mask"}, {"M17"}),
    "jana": ("graded", of("softmax"), {"M4"}),
    "kofi": ("graded", of("attention_backward") - {"attention_backward_values"}, {"M66"}),
    "lena": ("graded", of("softmax", "self_attention"), {"M5", "M11"}),
    "mira": ("graded", set(), set()),
    "noor": ("graded", set(), set()),
    "omar": ("graded after repair", set(), set()),
    "pia": ("graded after repair", set(), set()),
    "quinn": ("missing", set(), set()),
    "rosa": ("unreadable", set(), set()),
    "zoe": ("graded after repair", set(), set()),
}
SCORED = [student for student, (state, _, _) in EXPECTED.items() if state not in ("missing", "unreadable")]


def lost(result: Result) -> set[str]:
    """Return the failed checks that cost points."""
    return {check["name"] for check in result.checks if not check["passed"]} - BONUS


def named(result: Result) -> set[str]:
    """Return the mistakes that were named."""
    return {name for check in result.checks if check["mistake"] for name in check["mistake"].split("+")}


def auto_scores(course: Course, student: str) -> dict[str, float | None]:
    """Return the automatic points that nbgrader's gradebook has of a student, by cell."""
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook("attention", NAME, student)
        return {grade.name: grade.auto_score for grade in notebook.grades}


# ------------------------------------------------------------------------------------------------- the sample class


@pytest.mark.parametrize("student", EXPECTED)
def test_student_gets_state_points_and_names(graded_class: GradedClass, student: str) -> None:
    """Does a submission get its state, lose exactly the points of its mistakes, and name them?"""
    state, lost_checks, mistakes = EXPECTED[student]
    assert list(graded_class.results) == sorted(EXPECTED)
    result = graded_class.results[student]
    assert result.state == state, result.why
    assert all(bool(check["message"]) != check["passed"] for check in result.checks)
    assert bool(result.why) == (state in ("timed out", "crashed", "missing", "unreadable"))
    assert lost(result) == lost_checks
    assert named(result) - ({"M3"} if student == "lena" else set()) == mistakes  # her M5 hides her M3
    assert result.has_score == (student in SCORED)
    if result.has_score:
        assert [check["name"] for check in result.checks] == CHECKS
        assert sum(check["points"] for check in result.checks) == 15 + 2
        assert {c["name"] for c in result.checks if c["passed"]} & BONUS == (BONUS if student == "mira" else set())
        assert result.seed == SEED


def test_submissions_are_untouched(graded_class: GradedClass) -> None:
    """Are the submitted files unchanged, byte for byte?"""
    files = sample_class.make_submissions(graded_class.assignment.instructor, graded_class.assignment.release)
    for student, text in files.items():
        found = list((graded_class.course.root / "submitted" / student / NAME).iterdir())
        assert [path.read_text(encoding="utf-8") for path in found] == ([] if text is None else [text])


def test_progress_is_told(graded_class: GradedClass) -> None:
    """Is every step reported: the complete proof before the first submission, and each submission with its state?"""
    total = len(EXPECTED) - 1  # one student submitted nothing; the file that is no notebook is read too
    proof, begun, told = graded_class.progress[:3], graded_class.progress[3], graded_class.progress[4:]
    assert proof == [("proof", 0, 2), ("proof", 1, 2), ("proof", 2, 2)]
    assert begun == ("submissions", 0, total)
    assert [call[:3] for call in told] == [("submissions", done, total) for done in range(1, total + 1)]
    states = [state for state, _, _ in EXPECTED.values() if state != "missing"]
    assert sorted(call[3] for call in told) == sorted(states)


def test_results_are_kept_on_disk(graded_class: GradedClass) -> None:
    """Does every result have a readable file that says that it is recorded, and which versions graded it?"""
    kept = {result.student: result for result in graded_class.course.load_results(NAME)}
    assert kept == graded_class.results
    assert all(result.recorded for result in kept.values())
    assert {result.versions for result in kept.values() if result.has_score} == {versions()}
    assert versions().startswith(f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch ")


# -------------------------------------------------------------------------------------------------- the gradebook


@pytest.mark.parametrize("student", SCORED)
def test_gradebook_agrees(graded_class: GradedClass, student: str) -> None:
    """Does nbgrader's gradebook hold the points of the result, and do written questions wait for a person?"""
    scores, (_, lost_checks, _) = auto_scores(graded_class.course, student), EXPECTED[student]
    checks = {check["name"]: check["points"] * check["passed"] for check in graded_class.results[student].checks}
    assert {name: score for name, score in scores.items() if name not in WRITTEN} == checks
    with graded_class.course.gradebook() as gradebook:
        submission = gradebook.find_submission(NAME, student)
        assert submission.score == sum(checks.values()) == (17 if student == "mira" else 15 - len(lost_checks))
        assert submission.max_score == 20  # a bonus does not raise the maximum
        notebook = gradebook.find_submission_notebook("attention", NAME, student)
        waits = {grade.name for grade in notebook.grades if grade.needs_manual_grade}
    # nbgrader gives 0, without waiting for a person, if a written answer is still the released text
    assert waits == (set() if student == "ben" else set(WRITTEN))


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
            assert (result.state, lost(result), result.seed) == ("graded", set(), SEED)
            assert sum(auto_scores(course, result.student)[check] for check in CHECKS) == 15
        else:
            assert result == graded_class.results[result.student]


def test_regrade_keeps_points_from_manual_grading(
    assignment: Assignment, perfect: NotebookNode, tmp_path: Path, two_workers: Workers
) -> None:
    """Do a person's points and comment survive --regrade, which draws new inputs and gives the same points?"""
    course = Course(tmp_path)
    sample_class.not_scaled(perfect)
    submit(tmp_path, "hana", perfect)
    (first,) = grade(course, assignment, seed=1, workers=two_workers)
    with course.gradebook() as gradebook:
        grade_of_answer = gradebook.find_grade("why_scale", "attention", NAME, "hana")
        grade_of_answer.manual_score, grade_of_answer.needs_manual_grade = 1.5, False
        gradebook.find_comment("why_scale", "attention", NAME, "hana").manual_comment = "Say why."
        gradebook.db.commit()
    (second,) = grade(course, assignment, regrade=True, workers=two_workers)
    assert second.seed != first.seed
    assert lost(second) == lost(first) == of("attention")
    with course.gradebook() as gradebook:
        assert gradebook.find_grade("why_scale", "attention", NAME, "hana").manual_score == 1.5
        assert gradebook.find_comment("why_scale", "attention", NAME, "hana").comment == "Say why."
        assert gradebook.find_submission(NAME, "hana").score == 11 + 1.5
    assert course.scores(assignment)["hana"]["why_scale"] == (1.5, True)  # nbgrader asks the person to look again


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
print("imported", sorted({"torch", "nbgrader", "nbconvert", "matplotlib", "jupyter_server"} & sys.modules.keys()))
"""


def test_grade_with_nothing_new_imports_nothing_slow(graded_class: GradedClass) -> None:
    """Is a graded class shown without PyTorch, nbgrader and other modules that take seconds to import?"""
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
@pytest.mark.parametrize("students", (("goran",), PLAIN))
def test_plain_nbgrader_gives_the_same_points(
    graded_class: GradedClass, tmp_path: Path, students: tuple[str, ...]
) -> None:
    """Does `nbgrader autograde`, with our checks and nothing else of ours, give the same automatic points except the bonus?"""
    course = Course(tmp_path)
    course.prepare(graded_class.assignment)
    for student in students:
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
    for student in students:
        ours = auto_scores(graded_class.course, student)
        assert auto_scores(course, student) == ours | dict.fromkeys(BONUS, 0), student

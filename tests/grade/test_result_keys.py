"""If an assignment changes after submissions came in, what is graded again, and what stays?"""

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from conftest import NAME
from nbformat import NotebookNode
from sample_class import answer, fill_in, not_scaled, submit
from test_cli import run

from autograder.course.course import Assignment, Course
from autograder.grade import grade as grade_module
from autograder.grade.grade import grade
from autograder.grade.result_keys import grader_key
from autograder.grade.workers import InstallationError, Workers
from autograder.imports import ROOT
from autograder.report.feedback import write_feedback

SEED = 5


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment, two_workers: Workers) -> Course:
    """A course with a right and a wrong submission, graded; a person has graded a written answer of each."""
    course = Course(tmp_path_factory.mktemp("changes") / "course")
    for student in ("ada", "hana"):
        notebook = fill_in(assignment.release, assignment.instructor)
        if student == "hana":
            not_scaled(notebook)
        submit(course.root, student, notebook)
    grade(course, assignment, seed=SEED, workers=two_workers)
    with course.gradebook() as gradebook:
        for student in ("ada", "hana"):
            grade_of_answer = gradebook.find_grade("why_scale", "attention", NAME, student)
            grade_of_answer.manual_score, grade_of_answer.needs_manual_grade = 1.5, False
            gradebook.find_comment("why_scale", "attention", NAME, student).manual_comment = "Say why."
        gradebook.db.commit()
    return course


@pytest.fixture
def course(graded: Course, tmp_path: Path) -> Course:
    """A copy of the graded course."""
    return Course(shutil.copytree(graded.root, tmp_path / "course"))


def changed(assignment: Assignment, change: Callable[[NotebookNode], None]) -> Assignment:
    """Return the assignment after the same change of both its notebooks."""
    notebooks = [nbformat.from_dict(notebook) for notebook in (assignment.instructor, assignment.release)]
    for notebook in notebooks:
        change(notebook)
    return Assignment(NAME, assignment.notebook, *notebooks)


def add_check(notebook: NotebookNode) -> None:
    """Add a hidden test of softmax for one point."""
    cell = nbformat.from_dict(answer(notebook, "softmax_values"))
    cell.id = cell.metadata.nbgrader.grade_id = "softmax_sum"
    cell.source = cell.source and "assert abs(softmax(np.ones(4)).sum() - 1) < 1e-9"
    notebook.cells.insert(notebook.cells.index(answer(notebook, "softmax_values")) + 1, cell)


def withdraw_check(notebook: NotebookNode) -> None:
    """Remove a test, and raise the points of another one from one to three."""
    notebook.cells.remove(answer(notebook, "attention_output"))
    answer(notebook, "softmax_values").metadata.nbgrader.points = 3


# The change; the maximum of points without written answers; the points that hana's attention, which is not scaled, loses.
@pytest.mark.parametrize(
    ("change", "most", "lost", "regrade"),
    [
        (withdraw_check, 16, 3, False),
        pytest.param(add_check, 16, 4, False, marks=pytest.mark.deep),
        pytest.param(add_check, 16, 4, True, marks=pytest.mark.deep),
    ],
)
def test_change_after_submissions_came_in(
    course: Course,
    assignment: Assignment,
    change: Callable[[NotebookNode], None],
    most: int,
    lost: int,
    regrade: bool,
    two_workers: Workers,
) -> None:
    """Does everybody get the new assignment's points, and keep those of other parts and of manual grading?"""
    new = changed(assignment, change)
    results = {result.student: result for result in grade(course, new, regrade=regrade, workers=two_workers)}
    repaired = change is add_check  # the new cell is added to earlier submissions
    assert {result.state for result in results.values()} == {"graded after repair" if repaired else "graded"}
    for student, right in (("ada", most), ("hana", most - lost)):
        checks = [check for check in results[student].checks if not check["name"].startswith("online_softmax")]
        assert sum(check["points"] * check["passed"] for check in checks) == right
        assert sum(check["points"] for check in checks) == most
        with course.gradebook() as gradebook:
            submission = gradebook.find_submission(NAME, student)
            assert (submission.score, submission.max_score) == (right + 1.5, most + 5)
            assert gradebook.find_comment("why_scale", "attention", NAME, student).comment == "Say why."
    pages = write_feedback(course, new, list(results.values()))
    assert len(pages) == 2 and all("cannot be shown" not in page.read_text(encoding="utf-8") for page in pages)


# Whether a change of a file makes the results of 1_attention stale.
FILES = {
    "autograder/checks/attention/__init__.py": True,
    "exercises/attention_tests/compare.py": True,
    "exercises/attention_tests/attention.json": True,
    "autograder/judge/exercise.py": True,
    "autograder/grade/repair.py": True,
    "autograder/sandbox/host/kernel.py": True,
    "autograder/sandbox/guest/inside.py": True,
    "solutions/attention.py": True,
    "autograder/checks/encoder/__init__.py": False,
    "exercises/attention_tests/encoder.py": False,
    "exercises/attention_tests/encoder.json": False,
    "autograder/checks/vit/checkpoint.py": False,
    "autograder/course/course.py": False,
    "autograder/grade/grade.py": False,
    "autograder/course/gradebook.py": False,
    "autograder/report/report.py": False,
    "autograder/grade/workers.py": False,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the repository's modules."""
    for name in ("autograder", "solutions", "exercises/attention_tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_key_changes_with_what_a_result_depends_on_alone(assignment: Assignment, package: Path) -> None:
    """Are results stale after a change of their own assignment's checks, but not of other checks or feedback pages?"""
    changes = [(name, "# after", stale) for name, stale in FILES.items()]
    changes.append(("autograder/checks/attention/__init__.py", "from attention_tests import encoder as probes", True))
    changes.append(("exercises/attention_tests/encoder.py", "# now it is imported", True))
    before = grader_key(assignment, True, None, package)
    for name, line, stale in changes:
        with (package / name).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        after = grader_key(assignment, True, None, package)
        assert (after != before) == stale, (name, line)
        before = after


def test_key_changes_with_the_weights_that_are_refused(assignment: Assignment, package: Path) -> None:
    """If the published weights change, are only the results of an assignment with a file of weights stale?"""
    images, keys = SimpleNamespace(name="MNIST"), []
    for content in (b"one", b"other"):
        (package / "book" / "records").mkdir(parents=True, exist_ok=True)
        (package / "book" / "records" / "vit.pt").write_bytes(content)
        keys += [grader_key(assignment, True, held_out, package) for held_out in (images, None)]
    assert keys[0] != keys[2]
    assert keys[1] == keys[3]


@pytest.mark.parametrize(
    ("folder", "left"),
    [*product(("results", "autograded"), (0, 40, -2)), ("autograded", None)],
)
def test_torn_file_of_a_result_is_named(course: Course, folder: str, left: int | None) -> None:
    """Is a student with a torn result, or a torn or lost notebook, still on list and page, and do commands fail in words?"""
    (path,) = (path for path in course.root.glob(f"{folder}/**/*.*") if "ada" in str(path.relative_to(course.root)))
    path.unlink() if left is None else path.write_bytes(path.read_bytes()[:left])
    torn, whole = course.load_results(NAME)
    assert (torn.student, torn.state, whole.state) == ("ada", "not graded", "graded")
    assert str(course.result_path("ada", NAME)) in torn.why
    for command in ("feedback", "report"):
        done = run(command, NAME, "--course", str(course.root))
        assert done.exit_code == 1 and "1 not graded" in done.stderr and "ada" in done.stderr
    assert "ada" in (course.root / "report" / NAME / "index.html").read_text(encoding="utf-8")


def test_torn_seed_of_a_run_is_named(course: Course, assignment: Assignment, two_workers: Workers) -> None:
    """If the seed is lost, is no student graded with another one, and does the error name the results' seed?"""
    (course.root / "results" / NAME / ".run.json").write_text('{"se')
    with pytest.raises(ValueError, match=rf"\.run\.json cannot be read.*--seed {SEED}\."):
        grade(course, assignment, workers=two_workers)
    assert [result.seed for result in grade(course, assignment, seed=SEED, workers=two_workers)] == [SEED, SEED]


@pytest.mark.parametrize("left", ["nothing", "an empty file", "an older copy"])
def test_lost_gradebook_gets_its_points_again(
    course: Course, assignment: Assignment, left: str, two_workers: Workers
) -> None:
    """Is a deleted, empty or older gradebook filled again from the results, without grading?"""
    calls, path = [], course.root / "gradebook.db"
    if left == "an older copy":
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("update grade set auto_score = 0")
    else:
        path.write_bytes(b"") if "empty" in left else path.unlink()
    grade(course, assignment, workers=two_workers, progress=lambda *call: calls.append(call))
    points = {student: sum(score for score, _ in of.values()) for student, of in course.scores(assignment).items()}
    of_a_person = 1.5 if left == "an older copy" else 0.0
    assert points == {"ada": 15 + of_a_person, "hana": 11 + of_a_person}
    assert calls == []


@pytest.mark.few(1)
@pytest.mark.parametrize("draw", range(6))
def test_files_cut_at_any_byte_cost_nothing(
    course: Course, assignment: Assignment, draw: int, two_workers: Workers
) -> None:
    """Is everything as before after a power cut that tore every file except submissions and gradebook?"""
    chance = random.Random(draw)
    kept = ("submitted", "gradebook.db", "nbgrader_config.py")
    paths = [path for path in sorted(course.root.rglob("*")) if path.is_file() and not {*kept} & {*path.parts}]
    whole = {path: path.read_bytes() for path in paths if path.stat().st_size}
    assert len(whole) == 9
    for path, data in whole.items():
        path.write_bytes(data[: chance.randrange(len(data) - 1)])
    assert [result.state for result in course.load_results(NAME)] == ["not graded"] * 2
    with pytest.raises(ValueError, match=r"\.run\.json cannot be read"):
        grade(course, assignment, workers=two_workers)
    assert len(grade(course, assignment, seed=SEED, workers=two_workers)) == 2
    assert {path for path, data in whole.items() if path.read_bytes() != data} == set()


def test_only_one_run_grades_an_assignment(course: Course, assignment: Assignment, two_workers: Workers) -> None:
    """Is a second run of the same assignment refused until the first one ends?"""
    with grade_module._locked(course, assignment), pytest.raises(InstallationError, match=f"another run grades {NAME}"):
        grade(course, assignment, workers=two_workers)
    assert len(grade(course, assignment, workers=two_workers)) == 2

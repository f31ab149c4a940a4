"""Do sample submissions of the PyTorch exercises get the points that they earned, with the mistakes named, on any processor?

Each sample is made from the answers, submitted, repaired, run in the sandbox and graded. test_grade.py has the samples
of 1_attention.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import sample_class
from conftest import SEED as SEED_OF_CLASS
from conftest import deep_is_asked

from autograder.course.course import Course, Result
from autograder.grade.grade import grade, load_assignment
from autograder.grade.workers import Workers
from autograder.report.feedback import write_feedback

SEED = 4


# Assignment, student of sample_class.CLASSES: state, lost points, named mistakes.
EXPECTED: dict[str, dict[str, tuple[str, float, set[str]]]] = {
    "2_multihead": {
        "ada": ("graded", 0, set()),
        "goran": ("graded", 1.5, {"M21"}),
        "hana": ("graded", 4, {"M8"}),
        "ivan": ("graded", 4, {"M6"}),
        "jana": ("graded", 1, {"M29"}),
        "kofi": ("graded", 3, {"M83"}),
        "emil": ("crashed", 4, set()),
        "noor": ("graded", 0, set()),
    },
    "3_encoder": {
        "ada": ("graded", 0, set()),
        "goran": ("graded", 3, {"M33"}),
        "hana": ("graded", 3, {"M34"}),
        "ivan": ("graded", 3, {"M38"}),
        "jana": ("graded", 1, {"M41", "M200"}),  # the second is in the bonus, and costs nothing
        "kofi": ("graded", 5, set()),
        "lena": ("graded", 1, {"M28"}),
    },
    "4_vit": {
        "ada": ("graded", 0, set()),
        "goran": ("graded", 4, {"M49"}),
        "hana": ("graded", 3, {"M44"}),
        "ivan": ("graded", 2, {"M53", "M55"}),
        "jana": ("graded", 2, {"M52"}),
        "kofi": ("graded", 2, {"M150"}),
        "lena": ("graded", 2, {"M124"}),
        "noor": ("graded", 0, set()),
    },
    "5_debugging": {
        "ada": ("graded", 0, set()),
        "goran": ("graded", 4, {"M94", "M184"}),
        "hana": ("graded", 8, {"M182"}),
        "ivan": ("graded", 2, {"M20"}),
        "jana": ("graded", 8, {"M180"}),
        "kofi": ("graded", 8, {"M181"}),
        "ben": ("graded", 20, {"M18", "M29", "M94", "M184", "M190", "M192"}),  # the original faults of the programs
    },
}
# The student and the assignments of the quick tests; the grader's proof covers the answers and the released notebook.
SOON, SOON_IN = "goran", ("2_multihead",)
EVERYBODY = [
    pytest.param(assignment, student, marks=() if student == SOON and assignment in SOON_IN else pytest.mark.deep)
    for assignment, students in EXPECTED.items()
    for student in {**students, "ben": None}
]
OTHER_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OPENBLAS_CORETYPE": "Prescott"}


def write_class(root: Path, name: str, everybody: bool) -> None:
    """Write the samples of an assignment: all, or only the student of the quick tests."""
    sample_class.write_class(root, name)
    for folder in (root / "submitted").iterdir():
        if folder.name != SOON and not everybody:
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def results_of(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, two_workers: Workers
) -> Callable[[str], dict[str, Result]]:
    """Return a function that grades the samples of an assignment once: all of them if a deep test runs.

    ben submits the released notebook.
    """

    @cache
    def graded(name: str) -> dict[str, Result]:
        if name == sample_class.ASSIGNMENT:
            return request.getfixturevalue("graded_class").results
        course, assignment = Course(tmp_path_factory.mktemp(name)), load_assignment(name)
        write_class(course.root, name, deep_is_asked(request))
        results = grade(course, assignment, seed=SEED, workers=two_workers)
        pages = write_feedback(course, assignment, results)
        assert len(pages) == len(results)
        return {result.student: result for result in results}

    return graded


@pytest.mark.parametrize(("name", "student"), EVERYBODY)
def test_sample_gets_its_points(results_of: Callable[[str], dict[str, Result]], name: str, student: str) -> None:
    """Does a mistake cost exactly its own points, under its name, and in a bonus nothing?"""
    result = results_of(name)[student]
    bonus = [check for check in result.checks if check["name"].startswith(f"{sample_class.BONUS.get(name)}_")]
    points = sum(check["points"] for check in result.checks if check not in bonus)
    state, lost, named = EXPECTED[name].get(student, ("graded", points, set()))
    failed = [check for check in result.checks if not check["passed"]]
    assert (result.state, sum(check["points"] for check in failed if check not in bonus)) == (state, lost), failed
    assert sum(check["points"] for check in bonus if check["passed"]) == (2 if bonus and student == "hana" else 0)
    assert {name for check in failed for name in (check["mistake"] or "").split("+") if name} == named
    assert result.receipt == []


ON_ANOTHER = [pytest.param(name, True, marks=pytest.mark.deep) for name in sample_class.CLASSES]


@pytest.mark.parametrize(("name", "everybody"), [("2_multihead", False), *ON_ANOTHER])
@pytest.mark.deep
def test_points_do_not_depend_on_the_processor(
    results_of: Callable[[str], dict[str, Result]], tmp_path: Path, name: str, everybody: bool
) -> None:
    """Does the same seed give the same points and names on a processor that rounds differently?"""
    mine = results_of(name)
    write_class(tmp_path, name, everybody)
    shutil.rmtree(tmp_path / "submitted" / "dora", ignore_errors=True)  # her endless loop takes long
    seed = SEED_OF_CLASS if name == sample_class.ASSIGNMENT else SEED
    command = [sys.executable, "-m", "autograder", "grade", name, "--course", str(tmp_path), "--seed", str(seed)]
    subprocess.run(command, env=os.environ | OTHER_PROCESSOR, check=True, capture_output=True)
    for other in Course(tmp_path).load_results(name):
        here = mine[other.student]
        assert [(c["name"], c["passed"], c["mistake"]) for c in here.checks] == [
            (c["name"], c["passed"], c["mistake"]) for c in other.checks
        ], other.student

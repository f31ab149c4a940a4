"""Does a grader continue after it was killed?"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import sample_class

from autograder.course.course import Course
from autograder.grade.grade import load_assignment
from autograder.sandbox.host.bubblewrap import lives

STUDENTS = ("ada", "goran", "ivan", "jana", "pia", "rosa")
SEED = 7
KILLS = 8


def make_course(root: Path) -> Course:
    """Write a small class."""
    assignment = load_assignment(sample_class.ASSIGNMENT)
    files = sample_class.make_submissions(assignment.instructor, assignment.release)
    for student in STUDENTS:
        sample_class.submit(root, student, files[student])
    return Course(root)


def start_grading(course: Course) -> subprocess.Popen:
    """Start the grader as an instructor does, in its own process group."""
    command = [sys.executable, "-m", "autograder", "grade", sample_class.ASSIGNMENT, "--course", str(course.root)]
    # Tests that run in the background may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (course.root.parent / f"{course.root.name}.log").open("ab") as log:
            return subprocess.Popen([*command, "--seed", str(SEED)], stdout=log, stderr=log, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, before)


def outcomes(course: Course) -> dict[str, tuple]:
    """Return the course's record of each student: state, checks, and the gradebook's scores."""
    assignment = load_assignment(sample_class.ASSIGNMENT)
    scores = course.scores(assignment)
    return {
        result.student: (result.state, result.recorded, result.checks, result.receipt, scores.get(result.student))
        for result in course.load_results(sample_class.ASSIGNMENT)
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Course:
    """Grade a class without interruption."""
    course = make_course(tmp_path_factory.mktemp("whole") / "course")
    assert start_grading(course).wait(timeout=300) == 0
    return course


@pytest.mark.deep
def test_grade_killed_at_many_moments_gives_the_same_points(uninterrupted: Course, tmp_path: Path) -> None:
    """Does a grader that was killed again and again give the same points as one that was never killed?"""
    course = make_course(tmp_path / "course")
    moments = random.Random(SEED)
    for _ in range(KILLS):
        process = start_grading(course)
        time.sleep(moments.uniform(0.5, 12))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    assert start_grading(course).wait(timeout=300) == 0, (tmp_path / "course.log").read_text()[-2000:]
    assert outcomes(course) == outcomes(uninterrupted)
    assert len(outcomes(course)) == len(STUDENTS)


def test_grade_killed_alone_leaves_no_process(tmp_path: Path) -> None:
    """Do workers and sandboxes end by themselves if only the grader's process is killed?"""
    course = make_course(tmp_path / "course")
    process = start_grading(course)
    family: set[psutil.Process] = set()
    while not any(child.name() == "bwrap" for child in family if child.is_running()):
        assert process.poll() is None
        family |= set(psutil.Process(process.pid).children(recursive=True))
        time.sleep(0.05)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while (left := [child for child in family if lives(child)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    for child in left:
        child.kill()
    assert left == []


@pytest.mark.deep
def test_grade_stops_at_ctrl_c(uninterrupted: Course, tmp_path: Path) -> None:
    """Does Ctrl-C end the grader soon, without losses or leftover processes, and does the next run continue?"""
    course = make_course(tmp_path / "course")
    process = start_grading(course)
    while not list((course.root / "results" / sample_class.ASSIGNMENT).glob("[a-z]*.json")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    left = [p for p in psutil.process_iter(["cmdline"]) if str(course.root) in " ".join(p.info["cmdline"] or [])]
    assert left == []
    kept = {student: state for student, (state, *_) in outcomes(course).items()}
    assert 0 < len(kept) < len(STUDENTS)
    said = (tmp_path / "course.log").read_text()
    line = "autograder: stopped; what was graded is kept. Run the same command to grade the others."
    assert said.rstrip().split("\n")[-1] == line
    assert "Traceback" not in said
    assert start_grading(course).wait(timeout=300) == 0
    assert outcomes(course) == outcomes(uninterrupted)

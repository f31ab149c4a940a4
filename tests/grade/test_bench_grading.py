"""Does `make bench-grading` measure what it claims?"""

import json
import sys
from pathlib import Path

import bench_grading
import pytest
from conftest import ALL

from autograder.course.course import Assignment
from autograder.grade.grade import load_assignment


@pytest.fixture(scope="module")
def multihead() -> Assignment:
    """The assignment of the benchmark."""
    return load_assignment(bench_grading.NAME)


def test_submissions_are_drawn(multihead: Assignment) -> None:
    """Are submissions the same for a seed, and different for each student?"""
    assert ALL[bench_grading.NAME] == bench_grading.STEM
    texts = [json.dumps(bench_grading.draw_submission(number, 1, multihead)) for number in range(20)]
    assert texts == [json.dumps(bench_grading.draw_submission(number, 1, multihead)) for number in range(20)]
    assert len(set(texts)) > 10
    assert texts[:5] != [json.dumps(bench_grading.draw_submission(number, 2, multihead)) for number in range(5)]


def test_ordinary_tests_are_those_of_every_exercise(multihead: Assignment) -> None:
    """Does every exercise with hidden tests have ordinary tests too?"""
    cells = [cell.id for cell in multihead.graded_cells() if not cell.metadata.nbgrader.solution]
    assert {bench_grading.exercise_of(cell) for cell in cells} == set(bench_grading.ORDINARY)


def test_measure_says_what_failed(tmp_path: Path) -> None:
    """Does a failing command raise an error with its output, instead of a measurement?"""
    with pytest.raises(RuntimeError, match=r"(?s)exited with 3:.*broken"):
        bench_grading.measure([sys.executable, "-c", "print('broken'); raise SystemExit(3)"], tmp_path)


def test_page_shows_the_record() -> None:
    """Does the book show the figures of the record?"""
    text = bench_grading.PAGE.read_text(encoding="utf-8")
    shown = text.partition(bench_grading.BEGIN)[2].partition(bench_grading.END)[0].strip()
    found = json.loads(bench_grading.RECORD.read_text(encoding="utf-8"))
    assert shown == bench_grading.page_of(found), 'run "python tests/grade/bench_grading.py --publish"'

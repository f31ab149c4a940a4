"""Does `make bench-grading` measure what it claims?"""

import json
import subprocess
import sys
from pathlib import Path

import bench_grading
import pytest
from conftest import ALL

from autograder.course.course import Assignment
from autograder.grade.grade import load_assignment

BURN = "import time\nwhile time.process_time() < 1: pass\nprint(flush=True)\n"


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


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Measure a command in a process without other children."""
    code = "import json, sys; from pathlib import Path; from bench_grading import measure; "
    code += "print(json.dumps(measure(json.loads(sys.argv[1]), Path(sys.argv[2]))))"
    run = [sys.executable, "-c", code, json.dumps(command), str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.deep
@pytest.mark.parametrize("killed", (True, False))
def test_measure_counts_every_process(tmp_path: Path, killed: bool) -> None:
    """Does a measurement count a process that outlives its parent, and a process in a killed sandbox?"""
    command = [sys.executable, "-c", BURN]
    code = f"import subprocess, psutil\nchild = subprocess.Popen({command!r})"
    if killed:
        sandbox = ["bwrap", "--unshare-pid", "--dev-bind", "/", "/", sys.executable, "-c", BURN + "time.sleep(60)"]
        code = f"import subprocess, psutil\nchild = psutil.Popen({sandbox!r}, stdout=-1)\nchild.stdout.readline()\n"
        code += "for each in (child, *child.children()): each.kill()"
    found = measured([sys.executable, "-c", code], tmp_path)
    if found["cpu_of"] != "the command" and not killed:
        pytest.skip("without a control group nobody knows of a process that outlives its parent")
    assert found["cpu_seconds"] >= 1
    assert found["cpu_seconds"] < 3 or found["cpu_of"] != "the command"


@pytest.mark.deep
def test_measure_says_what_failed(tmp_path: Path) -> None:
    """Does a failing command raise an error with its output, instead of a measurement?"""
    with pytest.raises(AssertionError, match=r"(?s)exited with 3:.*broken"):
        measured([sys.executable, "-c", "print('broken'); raise SystemExit(3)"], tmp_path)


def test_page_shows_the_record() -> None:
    """Does the book show the figures of the record?"""
    text = bench_grading.PAGE.read_text(encoding="utf-8")
    shown = text.partition(bench_grading.BEGIN)[2].partition(bench_grading.END)[0].strip()
    found = json.loads(bench_grading.RECORD.read_text(encoding="utf-8"))
    assert shown == bench_grading.page_of(found), 'run "python tests/grade/bench_grading.py --publish"'

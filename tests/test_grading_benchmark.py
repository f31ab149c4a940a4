"""Does `make bench-grading` measure what it says?"""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import ALL
from sample_class import fill_in

from autograder import benchmark
from autograder.course.course import Assignment
from autograder.grading.grade import load_assignment
from autograder.judging.exercise import exercises_of
from solutions import multihead as answers

NAMES = vars(answers) | {"F": F, "math": math}  # what stands in the notebook before a student's cell
WAYS = [(name, right, text) for name, kinds in benchmark.ways().items() for right in kinds for text in kinds[right]]
BURN = "import time\nwhile time.process_time() < 1: pass\nprint(flush=True)\n"


@pytest.fixture(scope="module")
def multihead() -> Assignment:
    """The assignment that is graded in the benchmark."""
    return load_assignment(benchmark.NAME)


@pytest.mark.parametrize(
    ("name", "right", "text"), WAYS, ids=(f"{name}-{right}-{i}" for i, (name, right, _) in enumerate(WAYS))
)
def test_way_of_answering_is_what_it_claims(name: str, right: bool, text: str) -> None:
    """Does a right answer, put in a cell, pass every hidden check, and a wrong one not?"""
    namespace = dict(NAMES)
    exec(compile(text, name, "exec"), namespace)
    with torch.random.fork_rng():
        failed = exercises_of(benchmark.STEM)[name].failures(namespace[name], 1)
    assert bool(failed) != right, failed


@pytest.mark.parametrize(
    ("name", "right", "text"), WAYS, ids=(f"{name}-{right}-{i}" for i, (name, right, _) in enumerate(WAYS))
)
def test_ordinary_test_tells_right_from_wrong(name: str, right: bool, text: str) -> None:
    """Do the few asserts of an ordinary notebook agree with the hidden checks on what is right?"""
    namespace = NAMES | {"torch": torch, "nn": torch.nn, "Tensor": torch.Tensor}
    exec(compile(text, name, "exec"), namespace)
    failed = None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            exec(compile(benchmark.ORDINARY[name], "test", "exec"), namespace)
        except Exception as error:
            failed = error
    assert (failed is None) == right


def test_ways_are_many() -> None:
    """Is there for every function a right and a wrong answer that is not the book's own?"""
    assert ALL[benchmark.NAME] == benchmark.STEM
    for name in exercises_of(benchmark.STEM):
        assert {right for each, right, _ in WAYS if each == name} == {True, False}
    assert len({text for _, _, text in WAYS}) == len(WAYS) > 40


def test_submissions_are_drawn(multihead: Assignment) -> None:
    """Are submissions the same for a seed, and different from student to student, with right and wrong answers?"""
    perfect, ways = fill_in(multihead.release, multihead.instructor), benchmark.ways()
    texts = [benchmark.draw_submission(number, 1, perfect, ways) for number in range(20)]
    assert texts == [benchmark.draw_submission(number, 1, perfect, ways) for number in range(20)]
    assert len(set(texts)) == 20
    assert texts[0] != benchmark.draw_submission(0, 2, perfect, ways)
    kinds = {
        right for text in texts for cell in json.loads(text)["cells"] for _, right, way in WAYS if cell["source"] == way
    }
    assert kinds == {True, False}


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Measure a command in a process that has no other children than the command."""
    code = "import json, sys; from pathlib import Path; from autograder.benchmark import measure; "
    code += "print(json.dumps(measure(json.loads(sys.argv[1]), Path(sys.argv[2]), {})))"
    run = [sys.executable, "-c", code, json.dumps(command), str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=benchmark.ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("killed", [False, True])
def test_measure_counts_every_process(tmp_path: Path, killed: bool) -> None:
    """Are the CPU seconds counted of a process that outlives its parent, and of one in a killed sandbox?"""
    command = [sys.executable, "-c", BURN]
    code = f"import subprocess, psutil\nchild = subprocess.Popen({command!r})"
    if killed:
        sandbox = ["bwrap", "--unshare-pid", "--dev-bind", "/", "/", sys.executable, "-c", BURN + "time.sleep(60)"]
        code = f"import subprocess, psutil\nchild = psutil.Popen({sandbox!r}, stdout=-1)\nchild.stdout.readline()\n"
        code += "for each in (child, *child.children()): each.kill()"
    found = measured([sys.executable, "-c", code], tmp_path)
    assert found["cpu_seconds"] >= 1
    assert found["cpu_seconds"] < 3 or found["cpu_of"] != "the command"


def test_measure_says_what_failed(tmp_path: Path) -> None:
    """Is a command that fails an error with what it printed, and no measurement?"""
    with pytest.raises(AssertionError, match=r"(?s)exited with 3:.*broken"):
        measured([sys.executable, "-c", "print('broken'); raise SystemExit(3)"], tmp_path)


def test_clock_counts_a_stage_within_another_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the seconds of all stages add up to those of the outermost?"""
    moments = iter([0.0, 1.0, 3.0, 4.0, 8.0, 10.0])  # whole, part to 3, part to 8, end
    monkeypatch.setattr("time.perf_counter", lambda: next(moments))
    clock = benchmark.Clock()
    with clock.measure("whole"):
        for _ in range(2):
            with clock.measure("part"):
                pass
    assert clock.seconds == {"part": 6.0, "whole": 4.0}


def test_stages_are_there() -> None:
    """Is each function that is timed still there under its name?"""
    from importlib import import_module

    for _, module, path in (*benchmark.WORKER_STAGES, *benchmark.MAIN_STAGES):
        found = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        assert callable(found)


def test_page_shows_the_record() -> None:
    """Are the figures in the book those of the record?"""
    text = benchmark.PAGE.read_text(encoding="utf-8")
    shown = text.partition(benchmark.BEGIN)[2].partition(benchmark.END)[0].strip()
    found = json.loads(benchmark.RECORD.read_text(encoding="utf-8"))
    assert shown == benchmark.page_of(found), 'run "python -m autograder.benchmark publish book/records/grading.json"'


def test_tables_extrapolate_nothing() -> None:
    """Is what was not run shown as not run, and no ratio given for it?"""
    found = json.loads(benchmark.RECORD.read_text(encoding="utf-8"))
    found["runs"] = found["runs"][:1]
    found["runs"][0] |= {"plain": None, "marks": None}
    plain, ours = benchmark.tables(found)[0][1:]
    assert plain[2:] == ["not run", "not run", "not run", "", "", "", ""]
    assert ours[5] == ours[-1] == "–"

"""Does the grader's own process use no network, and write only below course/?

Here the system is read-only except for the course, and the network is empty and counts packets. So any other write
would fail, and any sent packet would be counted.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import NAME
from sample_class import fill_in, submit

from autograder.course.course import Assignment, Course
from autograder.imports import ROOT

TRY = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
COUNT = """
import json, os
lines = [line.split() for line in open("/proc/net/snmp")]
found = {(a[0], n): int(v) for a, b in zip(lines[::2], lines[1::2]) for n, v in zip(a[1:], b[1:])}
kinds = [("Tcp:", "ActiveOpens"), ("Udp:", "OutDatagrams"), ("Ip:", "OutRequests"), ("Ip:", "OutNoRoutes")]
print("COUNTED", json.dumps({"packets": sum(found[kind] for kind in kinds), "left": os.listdir(os.environ["TMPDIR"])}))
"""


def confined(course: Path, *commands: list[str]) -> subprocess.CompletedProcess:
    """Run commands without network, with write access to course and temporary folder; then count packets and files."""
    temporary = course.parent / "tmp"
    box = ["bwrap", "--die-with-parent", "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in (course, temporary):
        folder.mkdir(exist_ok=True)
        box += ["--bind", str(folder), str(folder)]
    box += ["--chdir", str(ROOT)]
    box += ["--cap-add", "ALL"] if os.getuid() == 0 else []
    script = " && ".join(map(shlex.join, (*commands, [sys.executable, "-I", "-c", COUNT])))
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary)}
    return subprocess.run(
        [*box, "bash", "-c", script], capture_output=True, text=True, check=False, env=environment, timeout=500
    )


def counted(run: subprocess.CompletedProcess) -> dict:
    """Return the counts at the end of a run."""
    lines = [line for line in run.stdout.splitlines() if line.startswith("COUNTED ")]
    assert lines, f"{run.stdout[-2000:]}\n{run.stderr[-2000:]}"
    return json.loads(lines[0].removeprefix("COUNTED "))


@pytest.fixture
def course(assignment: Assignment) -> Course:
    """A course with one right and one unreadable submission, in a folder with a short name, as sockets need it."""
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder) / "course")
        for student in ("ada", "rosa"):
            right = fill_in(assignment.release, assignment.instructor, bonus=True)
            submit(course.root, student, right if student == "ada" else "<html>")
        yield course


def test_confinement_would_be_felt(course: Course) -> None:
    """Does a write elsewhere fail in the confinement, and are a connection and a leftover file counted?"""
    run = confined(course.root, [sys.executable, "-c", f"open({str(ROOT / 'x')!r}, 'w')"])
    assert "Read-only file system" in run.stderr
    run = confined(course.root, ["bash", "-c", f'{shlex.quote(sys.executable)} -c "{TRY}"; touch "$TMPDIR/x"'])
    assert counted(run)["packets"] > 0 and counted(run)["left"] == ["x"]


@pytest.mark.deep
def test_grader_touches_no_network_and_writes_below_the_course_alone(course: Course, assignment: Assignment) -> None:
    """Are scores, feedback, report and exports made in the confinement, without a packet or a leftover temporary file?"""
    steps = [["grade", NAME], ["feedback", NAME], ["report", NAME], ["export", NAME, "--format", "csv"]]
    program = "from autograder.cli import app\nimport sys\n"
    program += f"for step in {steps}: assert not app([*step, '--course', sys.argv[1]], standalone_mode=False)"
    run = confined(course.root, [sys.executable, "-c", program, str(course.root)])
    assert counted(run) == {"packets": 0, "left": []}, run.stderr[-2000:]
    states = {result.student: (result.state, len(result.checks)) for result in course.load_results(NAME)}
    assert states == {"ada": ("graded", 17), "rosa": ("unreadable", 0)}
    assert all(check["passed"] for check in course.load_result("ada", NAME).checks)
    assert (course.root / "feedback" / "ada" / NAME / "attention.html").exists()

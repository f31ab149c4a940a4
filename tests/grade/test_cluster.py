"""Does a class get the same points on a cluster, and each submission only once, whatever happens to the workers?"""

import logging
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import sample_class
from conftest import NAME, SEED
from dask_farm import Farm, wait_for

from autograder.course.course import Assignment, Course
from autograder.grade import cluster
from autograder.grade.cluster import Cluster
from autograder.grade.grade import InstallationError, grade
from autograder.grade.task import Job, Task
from autograder.grade.workers import Workers
from autograder.lms.export_scores import Export
from autograder.sandbox.host.bubblewrap import lives
from autograder.sandbox.host.limits import Limits

STUDENTS = ("ada", "goran", "pia", "rosa")
PROOF = Path("results", NAME, ".proof.json")
TASK = Task("", "", "", 0)


@pytest.fixture(scope="module")
def local(assignment: Assignment, tmp_path_factory: pytest.TempPathFactory, two_workers: Workers) -> Course:
    """A small class, graded on this machine."""
    course = Course(tmp_path_factory.mktemp("class"))
    files = sample_class.make_submissions(assignment.instructor, assignment.release)
    for student in STUDENTS:
        sample_class.submit(course.root, student, files[student])
    grade(course, assignment, seed=SEED, workers=two_workers)
    return course


@pytest.fixture
def course(local: Course, tmp_path: Path) -> Course:
    """The class before grading, with the proof of the installation already in the course."""
    shutil.copytree(local.root / "submitted", tmp_path / "course" / "submitted")
    (tmp_path / "course" / PROOF.parent).mkdir(parents=True)
    shutil.copy(local.root / PROOF, tmp_path / "course" / PROOF)
    return Course(tmp_path / "course")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    """A scheduler without workers."""
    farm = Farm(tmp_path)
    yield farm
    farm.stop()


def outcome(course: Course, assignment: Assignment) -> dict[str, object]:
    """Return everything that shows points: the table for export, the gradebook, and the executed notebooks."""
    results = course.load_results(NAME)
    (table,) = Export(course, assignment, results, "csv").write()
    executed = {path.parts[-3]: path.read_bytes() for path in sorted(course.root.glob("autograded/*/*/*.ipynb"))}
    assert all(result.recorded for result in results)
    return {"table": table.read_bytes(), "scores": course.scores(assignment), "executed": executed}


def test_worker_names_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a worker say what differs from the grader's machine: a package, the code, a sandbox, threads?"""
    ours = cluster.versions()
    assert cluster.work(1, replace(TASK, sandboxed=False), ours, Job(b""))["state"] == "not graded"
    theirs = ours | {"torch": "2.0", "code of the repository": "0"}
    monkeypatch.setenv("PATH", "")
    said = cluster.work(2, TASK, theirs, Job(b""))
    code = ours["code of the repository"]
    assert said.startswith(f"torch {ours['torch']} instead of 2.0, code of the repository {code} instead of 0, ")
    assert "it has 2 threads" in said and "bubblewrap is not installed" in said


@pytest.mark.deep
def test_unfit_worker_gets_nothing_and_is_named(
    farm: Farm,
    course: Course,
    local: Course,
    assignment: Assignment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a fit worker, is nothing recorded and the reason said? With one, does it alone grade, the proof too?"""
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 0.0)
    with pytest.raises(InstallationError, match=r"(?s)4 submissions are not graded.*there is none.*dask worker"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    unfit = farm.start(threads=2)
    farm.wait_for_workers(1)
    with pytest.raises(InstallationError, match=r"127\.0\.0\.1:\d+: it has 2 threads.*--nthreads 1"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    assert course.load_results(NAME) == []
    fit = farm.start()
    farm.wait_for_workers(2)
    (course.root / PROOF).unlink()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "autograder.grade.cluster"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    assert outcome(course, assignment) == outcome(local, assignment)
    assert (unfit.begun, fit.begun) == (0, len(STUDENTS) + 2)
    assert ["gets nothing to grade: it has 2 threads" in text for text in caplog.messages].count(True) == 1


def test_scheduler_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is there an error in words for an invalid address, and for an address where nobody answers?"""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "carrier-pigeon://127.0.0.1:1", "tls://127.0.0.1:1"):
        with pytest.raises(InstallationError, match=rf"No Dask scheduler answers at {address}: .+\n.*dask scheduler"):
            next(Cluster(address, TASK).run({"ada": Job(b"")}))


@pytest.mark.deep
def test_killed_worker_and_late_worker(
    farm: Farm, course: Course, local: Course, assignment: Assignment, tmp_path: Path
) -> None:
    """Is each submission graded once, with the same points, if a worker is killed in the middle and another comes late?"""
    go = tmp_path / "go"
    steady, killed = farm.start(go), farm.start()
    family = psutil.Process(killed.process.pid)
    with ThreadPoolExecutor() as background:
        grading = background.submit(grade, course, assignment, seed=SEED, cluster=farm.address)
        wait_for(lambda: steady.begun and killed.begun and family.children(recursive=True))  # its sandbox runs
        sandboxes = family.children(recursive=True)
        killed.process.kill()
        late = farm.start()
        wait_for(lambda: late.begun)
        go.touch()
        assert sorted(result.student for result in grading.result(timeout=300)) == sorted(STUDENTS)
    assert outcome(course, assignment) == outcome(local, assignment)
    assert steady.begun + late.begun + killed.begun == len(STUDENTS) + 1
    wait_for(lambda: not any(map(lives, sandboxes)), 20)  # the sandboxes of a killed worker end with it


@pytest.mark.deep
def test_scheduler_restarted_between_two_runs(
    farm: Farm, course: Course, local: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is a lost scheduler named in an error, and does the same command continue with a new scheduler at the same address?"""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 5.0)  # short, because no scheduler will answer
    farm.start()

    def lose_it(what: str, done: int, *_: object) -> None:
        if (what, done) == ("submissions", 2):
            farm.stop_scheduler()

    with pytest.raises(InstallationError, match=r"The Dask scheduler at .* was lost.*\nFinished results are recorded"):
        grade(course, assignment, seed=SEED, cluster=farm.address, progress=lose_it)
    assert 2 <= len(course.load_results(NAME)) < len(STUDENTS)
    farm.start_scheduler()
    farm.start()
    grade(course, assignment, cluster=farm.address)
    assert outcome(course, assignment) == outcome(local, assignment)


@pytest.mark.deep
def test_submission_that_loses_its_workers_is_not_graded(farm: Farm, tmp_path: Path) -> None:
    """Does a worker that is not done in time end itself, and is its submission given up in the end, with the reason?"""
    for _ in range(4):  # Dask's limit
        farm.start(tmp_path / "never")
    task = replace(TASK, limits=Limits(total_seconds=-58.5))  # these limits give a submission three seconds
    [(name, fields)] = Cluster(farm.address, task).run({"poison": Job(b"")})
    assert (name, fields["state"]) == ("poison", "not graded")
    assert "KilledWorker: Attempted to run task" in fields["why"]

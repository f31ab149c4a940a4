"""Does a class get the same points on a cluster, and each submission only once, whatever happens to the workers?"""

import logging
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import sample_class
from conftest import NAME, SEED
from dask_farm import (
    Farm,
    ends_in_the_middle,
    other_version,
    wait_for,
    waits_for,
    waits_for_submission,
    without_bubblewrap,
)

from autograder.course.course import Assignment, Course, Result
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


@pytest.fixture(scope="module")
def before(assignment: Assignment, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A small class before grading."""
    course = Course(tmp_path_factory.mktemp("class") / "before")
    files = sample_class.make_submissions(assignment.instructor, assignment.release)
    for student in STUDENTS:
        sample_class.submit(course.root, student, files[student])
    course.prepare(assignment)
    return course


@pytest.fixture(scope="module")
def local(before: Course, assignment: Assignment, two_workers: Workers) -> Course:
    """The same class, graded on this machine."""
    course = Course(shutil.copytree(before.root, before.root.with_name("local")))
    grade(course, assignment, seed=SEED, workers=two_workers)
    return course


@pytest.fixture
def course(before: Course, local: Course, tmp_path: Path) -> Course:
    """The class before grading, with the proof of the installation already in the course."""
    shutil.copytree(before.root, tmp_path / "course")
    (tmp_path / "course" / PROOF.parent).mkdir(parents=True)
    shutil.copy(local.root / PROOF, tmp_path / "course" / PROOF)
    return Course(tmp_path / "course")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    """A scheduler without workers."""
    farm = Farm(tmp_path)
    yield farm
    farm.stop()


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    """A thread for grading, while the test controls the workers."""
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each student was written to the gradebook."""
    counts, record = Counter(), Course.record

    def counting(self: Course, result: Result, assignment: Assignment) -> None:
        counts[result.student] += 1
        record(self, result, assignment)

    monkeypatch.setattr(Course, "record", counting)
    return counts


def outcome(course: Course, assignment: Assignment) -> dict[str, object]:
    """Return everything that shows points: the table for export, the gradebook, and the executed notebooks."""
    results = course.load_results(NAME)
    (table,) = Export(course, assignment, results, "csv").write()
    executed = {path.parts[-3]: path.read_bytes() for path in sorted(course.root.glob("autograded/*/*/*.ipynb"))}
    assert all(result.recorded for result in results)
    return {"table": table.read_bytes(), "scores": course.scores(assignment), "executed": executed}


def states(grading: Future) -> dict[str, str]:
    """Return each student's state after the grading."""
    return {result.student: result.state for result in grading.result(timeout=300)}


# -------------------------------------------------------------------------------------------------- who may grade


@pytest.mark.deep
def test_unfit_workers_get_nothing_and_are_named(
    farm: Farm, course: Course, local: Course, assignment: Assignment, caplog: pytest.LogCaptureFixture
) -> None:
    """Are workers of another version, without a sandbox or with two threads named, and do they get no submission?"""
    unfit = {
        farm.start(other_version): "numpy 1.0 instead of ",
        farm.start(without_bubblewrap): "bubblewrap is not installed",
        farm.start(threads=2): "it has 2 threads, and grades one submission at a time: --nthreads 1",
    }
    fit = farm.start()
    (course.root / PROOF).unlink()  # without this file the proof runs on the cluster
    with caplog.at_level(logging.WARNING, "autograder.grade.cluster"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    assert outcome(course, assignment) == outcome(local, assignment)
    assert fit.begun == len(STUDENTS) + 2
    for worker, reason in unfit.items():
        assert worker.begun == 0
        assert len([text for text in caplog.messages if "gets nothing to grade" in text and reason in text]) == 1


def test_worker_names_what_differs() -> None:
    """Does a worker name the packages that differ from the grader's, and the repository's code if it differs?"""
    ours, task = cluster.versions(), Task("", "", "", 0, sandboxed=False)
    assert cluster.work(1, task, ours, Job(b""))["state"] == "not graded"
    theirs = ours | {"torch": "2.0", "code of the repository": "0"}
    said = cluster.work(1, task, theirs, Job(b""))
    assert (
        said
        == f"torch {ours['torch']} instead of 2.0, code of the repository {ours['code of the repository']} instead of 0"
    )


@pytest.mark.deep
def test_cluster_without_fit_workers_is_an_error(
    farm: Farm, course: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the grader say why no worker grades and what to do, and record nothing?"""
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 0.0)
    with pytest.raises(InstallationError, match=r"(?s)4 submissions are not graded.*there is none.*dask worker"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    worker = farm.start(threads=2)
    wait_for(worker.has_joined)
    with pytest.raises(InstallationError, match=r"127\.0\.0\.1:\d+: it has 2 threads.*--nthreads 1"):
        grade(course, assignment, seed=SEED, cluster=farm.address)
    assert course.load_results(NAME) == []


def test_scheduler_that_is_not_there_is_an_error(
    before: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Is there an error in words for an invalid address, and for an address where nobody answers?"""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    course = Course(shutil.copytree(before.root, tmp_path / "course"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "carrier-pigeon://127.0.0.1:1", "tls://127.0.0.1:1"):
        with pytest.raises(InstallationError, match=rf"No Dask scheduler answers at {address}: .+\n.*dask scheduler"):
            grade(course, assignment, seed=SEED, cluster=address)
    assert course.load_results(NAME) == []


# ------------------------------------------------------------------------------------------- workers that are lost


@pytest.mark.deep
def test_killed_worker_and_late_worker(
    farm: Farm,
    course: Course,
    local: Course,
    assignment: Assignment,
    tmp_path: Path,
    background: ThreadPoolExecutor,
    recorded: Counter[str],
) -> None:
    """Is each submission graded once, with the same points, if a worker is killed in the middle and another comes late?"""
    go = tmp_path / "go"
    steady, killed = farm.start(partial(waits_for, go)), farm.start()
    grading = background.submit(grade, course, assignment, seed=SEED, cluster=farm.address)
    wait_for(lambda: steady.begun and killed.begun and killed.family())  # the sandbox of the worker to kill runs
    family = killed.family()
    killed.process.kill()
    late = farm.start()
    wait_for(lambda: late.begun)
    go.touch()
    assert states(grading).keys() == set(STUDENTS)
    assert outcome(course, assignment) == outcome(local, assignment)
    assert recorded == dict.fromkeys(STUDENTS, 1)
    assert steady.begun + late.begun + killed.begun == len(STUDENTS) + 1
    wait_for(lambda: not any(map(lives, family)), 20)  # the sandboxes of a killed worker end with it


@pytest.mark.deep
def test_scheduler_restarted_between_two_runs(
    farm: Farm,
    course: Course,
    local: Course,
    assignment: Assignment,
    recorded: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
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
    assert recorded == dict.fromkeys(STUDENTS, 1)


# ---------------------------------------------------------------------------------- assignment of jobs, without grading


def jobs_of(tmp_path: Path, *names: str) -> dict[str, Job]:
    """Return jobs that end when a file with their name exists."""
    return {name: Job(bytes(tmp_path / name)) for name in names}


@pytest.mark.deep
def test_submission_that_loses_its_workers_is_not_graded(farm: Farm) -> None:
    """Is a submission given up after as many lost workers as Dask allows, with the reason?"""
    for _ in range(4):
        farm.start(ends_in_the_middle)
    run = Cluster(farm.address, Task("", "", "", 0)).run({"poison": Job(b"/nothing")})
    [(name, fields)] = run
    assert (name, fields["state"]) == ("poison", "not graded")
    assert "KilledWorker: Attempted to run task" in fields["why"]
    assert "on 4 different workers" in fields["why"]


@pytest.mark.deep
def test_worker_that_is_not_done_in_time_ends(farm: Farm, tmp_path: Path, background: ThreadPoolExecutor) -> None:
    """Does a worker that does not return from a submission end itself, so that another worker grades the submission?"""
    hanging = farm.start(waits_for_submission)
    # these limits give a submission three seconds
    ours = Cluster(farm.address, Task("", "", "", 0, Limits(total_seconds=-58.5)))
    grading = background.submit(lambda: list(ours.run(jobs_of(tmp_path, "a"))))
    hanging.process.join(60)
    (tmp_path / "a").touch()
    late = farm.start(waits_for_submission)
    assert grading.result(timeout=60) == [("a", {"state": "graded", "process": late.process.pid})]

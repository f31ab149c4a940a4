"""Grade what was handed in: prove the installation, execute in parallel, record one by one."""

import hashlib
import json
import resource
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
import psutil

from autograder.boundary.sandbox import Limits, SandboxError, check_sandbox, remove_leftovers
from autograder.build import load_notebooks
from autograder.checks import checkpoint
from autograder.course import Assignment, Course, Result
from autograder.execute import GraderError, execute
from autograder.exercise import cases_of_stage, dump_cases, exercises_of, keep_cases
from autograder.files import write_atomically
from autograder.generated import ROOT, sources
from autograder.mend import Unreadable, mend
from autograder.workers import Jobs, Workers

# files of this package that a mark does not depend on
NOT_IN_A_MARK = (
    "benchmark.py",
    "cli.py",
    "report.py",
    "feedback.py",
    "colab.py",
    "collect.py",
    "archives.py",
    "names.py",
    "roster.py",
    "export.py",
    "cluster.py",
    "workers.py",
)
PACKAGES = ("numpy", "torch", "scipy", "ipykernel")  # on which a mark depends
MAX_MEMORY = 3 * 2**30  # bytes by which grading one submission may let the grader's process grow; the answers need none
Progress = Callable[..., None]  # what was done, how many, of how many; of a submission also the state in which it ended
RunAll = Callable[[Jobs], Iterable[tuple[str, dict[str, Any]]]]  # gives name and fields of each job of grade_one, once


class InstallationError(RuntimeError):
    """The grader itself does not work, so that no mark may be given."""


def load_assignment(name: str, root: Path = ROOT) -> Assignment:
    """Build an assignment from its sources.

    Raises:
        ValueError: there is no such assignment.
    """
    stem, instructor, release = load_notebooks(name, root)
    return Assignment(name, stem, instructor, release)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let what a submission makes this process do fail with a MemoryError before it takes all the memory of the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = psutil.Process().memory_info().data + MAX_MEMORY
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@_bounded_memory()
def grade_one(
    data: bytes,
    instructor: str,
    release: str,
    seed: int,
    limits: Limits,
    sandboxed: bool,
    cases: str | None = None,
    held_out: checkpoint.HeldOut | None = None,
    files: dict[str, bytes | str] | None = None,
) -> dict[str, Any]:
    """Mend and execute one submission. A function of its arguments alone, so that it may run anywhere.

    Args:
        data: The file that was handed in.
        instructor: The notebook with hidden tests.
        release: The notebook that students got.
        seed: From which hidden checks draw their inputs.
        limits: What the submission may use.
        sandboxed: False only where the instructor asked for it.
        cases: What the hidden checks draw from the seed, as `exercise.dump_cases` writes it; by default made here.
        held_out: The images that a file of weights is shown.
        files: By the name that was asked for the bytes, or why they could not be taken.

    Returns:
        The fields of a Result, and the executed notebook as text.
    """
    try:
        mended = mend(data, nbformat.reads(instructor, 4), nbformat.reads(release, 4))
    except Unreadable as error:
        return {"state": "unreadable", "why": str(error)}
    if cases is not None:
        keep_cases(cases)
    try:
        done = execute(mended.notebook, seed, limits, sandboxed, files, held_out)
    except (GraderError, SandboxError) as error:
        return {
            "state": "not graded",
            "why": f"The grader failed, not the submission: {error}",
            "receipt": mended.receipt,
        }
    state = "graded after mending" if done.state == "graded" and mended.receipt else done.state
    checks = [asdict(check) for check in done.checks]
    notebook = nbformat.writes(done.notebook) + "\n"
    return {
        "state": state,
        "why": done.why,
        "receipt": mended.receipt,
        "checks": checks,
        "seed": seed,
        "notebook": notebook,
        "files": done.files,
    }


def grade(
    course: Course,
    assignment: Assignment,
    *,
    seed: int | None = None,
    regrade: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    limits: Limits = Limits(),
    sandboxed: bool = True,
    progress: Progress = lambda *_: None,
) -> list[Result]:
    """Grade every submission of an assignment that is new or changed, and record the marks.

    Args:
        course: Where the submissions lie and the marks go.
        assignment: What was asked for.
        seed: From which hidden checks draw their inputs; by default that of the run that this one continues, or a new one.
        regrade: Grade again what has a result already.
        workers: How many submissions at once; by default as `default_jobs` says.
        cluster: The address of a Dask scheduler, on whose workers submissions are graded instead of here.
        limits: What a submission may use.
        sandboxed: False only where the instructor asked for it.
        progress: Called as the work goes on.

    Returns:
        A result for everybody in the roster, the gradebook or submitted/.

    Raises:
        SandboxError: bubblewrap is not there or does not work.
        InstallationError: the answers do not get all points, or the unsolved notebook gets some; or the
            cluster cannot grade.
        GradebookError: the gradebook cannot be opened or written to; what is graded is kept, and recorded the next time.
    """
    if sandboxed and not cluster:
        check_sandbox()
    course.prepare(assignment)
    seed = _seed_of_run(course, assignment, seed, regrade)
    texts = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
    held_out = checkpoint.held_out() if assignment.files else None
    grader_key = _grader_key(assignment, sandboxed, held_out)
    remove_leftovers()
    results: list[Result] = []
    waiting: dict[str, tuple[bytes, dict[str, bytes | str], list[str], str]] = {}
    for name, why in course.unfit_names().items():
        results.append(Result(name, assignment.name, "unreadable", why, recorded=True))  # there is nobody to record
        course.save_result(results[-1])
    for student in course.students():
        try:
            found = course.read_submission(student, assignment)
        except Unreadable as error:
            results.append(Result(student, assignment.name, "unreadable", str(error)))
            continue
        if found is None:
            results.append(Result(student, assignment.name, "missing", "No notebook was handed in."))
            continue
        files, renamed = course.read_files(student, assignment)
        key = _key(grader_key, found[0], files)
        kept = course.load_result(student, assignment.name)
        if kept is not None and kept.key == key and kept.state != "not graded" and not regrade:
            results.append(kept)
        else:
            waiting[student] = (found[0], files, found[1] + renamed, key)
    with course.gradebook():
        for result in results:
            if not result.recorded:
                course.record(result, assignment)
    if waiting:
        with Workers(workers, assignment.notebook) as here, course.gradebook():
            run_all = _runner(here, cluster, limits, sandboxed)
            cases = _prepared_cases(course, assignment, seed, grader_key, here, progress)
            options = (*texts, seed, limits, sandboxed, cases, held_out)
            _prove_installation(course, assignment, options, grader_key, run_all, progress)
            jobs = {student: (data, *options, files) for student, (data, files, _, _) in waiting.items()}
            progress("submissions", 0, len(jobs))
            for done, (student, fields) in enumerate(run_all(jobs), 1):
                _, _, receipt, key = waiting[student]
                notebook = fields.pop("notebook", None)
                fields["receipt"] = receipt + fields.get("receipt", [])
                if receipt and fields["state"] == "graded":
                    fields["state"] = "graded after mending"
                result = Result(student, assignment.name, key=key, **fields)
                with _undisturbed():
                    if notebook:
                        write_atomically(course.autograded_path(student, assignment), notebook)
                    course.save_result(result)
                    course.record(result, assignment)
                    results.append(result)
                    progress("submissions", done, len(jobs), result.state)
    return sorted(results, key=lambda result: result.student)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait until something is done that is done wholly or not at all."""
    if threading.current_thread() is not threading.main_thread():  # no other thread is interrupted
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _seed_of_run(course: Course, assignment: Assignment, seed: int | None, regrade: bool) -> int:
    """Return the seed of the run that this one continues; write down a new one where a new run begins."""
    path = course.root / "results" / assignment.name / ".run.json"
    if seed is None and not regrade and path.exists():
        return json.loads(path.read_text(encoding="utf-8"))["seed"]
    seed = secrets.randbits(31) if seed is None else seed
    write_atomically(path, json.dumps({"seed": seed}) + "\n")
    return seed


def _key(grader_key: str, notebook: bytes, files: dict[str, bytes | str]) -> str:
    """Return what a mark depends on: the grader and all that was handed in."""
    digest = hashlib.sha256(grader_key.encode() + notebook)
    for name, content in sorted(files.items()):
        digest.update(f"\0{name} {type(content).__name__} {hashlib.sha256(_encoded(content)).hexdigest()}".encode())
    return digest.hexdigest()


def _encoded(content: bytes | str) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", "replace")


def _grader_key(assignment: Assignment, sandboxed: bool, held_out: checkpoint.HeldOut | None) -> str:
    """Return what a mark depends on besides the submission: assignment, its checks, grader, libraries, images."""
    digest = hashlib.sha256(f"{nbformat.writes(assignment.instructor)} {sandboxed}".encode())
    package = Path(__file__).parent
    own = package / "checks" / f"{assignment.notebook}.py"
    text = own.read_text(encoding="utf-8")
    others = {path.stem for path in sources()} - {assignment.notebook}
    foreign = {p for stem in others if f"checks.{stem}" not in text for p in own.parent.glob(f"{stem}*.py")} - {own}
    if held_out is None:
        foreign |= set(own.parent.glob("checkpoint*.py"))
    else:
        digest.update(f"{held_out.name} {checkpoint.expected()}".encode())
    for path in sorted(set(package.rglob("*.py")) - foreign):
        if path.name not in NOT_IN_A_MARK:
            digest.update(path.read_bytes())
    for package in PACKAGES:
        digest.update(f"{package} {version(package)}".encode())
    return digest.hexdigest()


def _prove_installation(
    course: Course,
    assignment: Assignment,
    options: tuple[str, str, int, Limits, bool, str, checkpoint.HeldOut | None],
    key: str,
    run_all: RunAll,
    progress: Progress,
) -> None:
    """See that the answers get every point and the unsolved notebook none; remember it for this key and seed."""
    instructor, release, seed, *_ = options
    path = course.root / "results" / assignment.name / ".proof.json"
    proof = json.dumps({"key": key, "seed": seed}) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == proof:
        return
    progress("proof", 0, 2)
    if assignment.files and not checkpoint.RECORD.exists():
        raise InstallationError(f'{checkpoint.RECORD} is missing, by which the checks are proved. Run "make train".')
    files = {name: checkpoint.RECORD.read_bytes() for name in assignment.files}
    jobs = {
        "answers": (instructor.encode(), *options, files),
        "unsolved notebook": (release.encode(), *options, {}),
    }
    wrong = []
    for done, (name, fields) in enumerate(run_all(jobs), 1):
        progress("proof", done, 2)
        checks = fields.get("checks", [])
        bad = [check for check in checks if check["passed"] != (name == "answers")]
        if fields["state"] not in ("graded", "graded after mending") or not checks or bad:
            reasons = [f"{check['name']}: {check['message'] or 'passed'}" for check in bad] or [fields.get("why", "")]
            wrong.append(f"The {name} of {assignment.name}: {fields['state']}. " + "\n  ".join(reasons[:5]))
    if wrong:
        raise InstallationError(
            "No mark was given, because the grader does not work here: the answers must get every point and the "
            "unsolved notebook none.\n" + "\n".join(wrong) + '\nIs the environment complete ("make setup")?'
        )
    write_atomically(path, proof)


def _prepared_cases(
    course: Course, assignment: Assignment, seed: int, key: str, workers: Workers, progress: Progress
) -> str:
    """Return the cases of the hidden checks, made once for each seed and version of the checks, and kept in results/."""
    path = course.root / "results" / assignment.name / ".cases.json"
    head = json.dumps({"key": key, "seed": seed}) + "\n"
    if path.exists() and (text := path.read_text(encoding="utf-8")).startswith(head):
        return text.removeprefix(head)
    exercises = exercises_of(assignment.notebook)
    jobs = {
        f"{name}/{stage}": (assignment.notebook, name, stage, seed)
        for name in exercises
        for stage in exercises[name].stages
    }
    found = []
    progress("cases", 0, len(jobs))
    for done, (name, cases) in enumerate(workers.run(cases_of_stage, jobs), 1):
        if isinstance(cases, Exception):
            raise InstallationError(f"The cases of {name} could not be made: {cases!r}")
        found.append([*jobs[name][1:3], cases])
        progress("cases", done, len(jobs))
    text = dump_cases(assignment.notebook, seed, sorted(found, key=lambda item: item[:2]))
    write_atomically(path, head + text)
    return text


def _runner(here: Workers, cluster: str | None, limits: Limits, sandboxed: bool) -> RunAll:
    """Return what runs jobs: the processes of this machine, or a cluster."""
    if cluster:
        from autograder.cluster import Cluster  # which imports this module

        return Cluster(cluster, limits, sandboxed).run

    def run_all(jobs: Jobs) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, fields in here.run(grade_one, jobs):
            if isinstance(fields, BrokenProcessPool):
                fields = {
                    "state": "not graded",
                    "why": "The grader's process was killed while it graded this submission alone.",
                }
            elif isinstance(fields, Exception):
                fields = {"state": "not graded", "why": f"The grader failed, not the submission: {fields!r}"}
            yield name, fields

    return run_all

"""Grade submissions: prove that the grader works here, execute in parallel, record one by one."""

import contextlib
import fcntl
import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from pebble import ProcessExpired

from autograder.course.candidates import assignments, chapters
from autograder.course.course import Assignment, Course, Result, Submission
from autograder.course.decisions import read_decisions
from autograder.course.gradebook import Grade, grades
from autograder.files import Unreadable, read_json, write_atomically
from autograder.grade.result_keys import digest_of_content, grader_key, key_of, versions
from autograder.grade.task import Job, Task, grader_failed, not_graded
from autograder.grade.workers import InstallationError, Workers, grade_one
from autograder.judge.catalogue import checks_of
from autograder.progress import Progress
from autograder.publish.build import load_notebooks
from autograder.sandbox.host.bubblewrap import check_sandbox, remove_leftovers
from autograder.sandbox.host.limits import Limits

Jobs = dict[str, Job]  # by name
Done = Iterable[tuple[str, dict[str, Any]]]  # the name and the fields of each job, once


def load_assignment(name: str) -> Assignment:
    """Build an assignment from its sources.

    Raises:
        ValueError: there is no such assignment.
    """
    stem, instructor, release = load_notebooks(name)
    return Assignment(name, stem, instructor, release)


def grade(
    course: Course,
    assignment: Assignment,
    *,
    seed: int | None = None,
    regrade: bool = False,
    workers: int | Workers | None = None,
    cluster: str | None = None,
    limits: Limits = Limits(),
    sandboxed: bool = True,
    data: Path | None = None,
    progress: Progress = lambda *_: None,
) -> list[Result]:
    """Grade every submission of an assignment that is new or changed, and record the points.

    Args:
        course: The course that has the submissions and gets the points.
        assignment: The assignment.
        seed: The seed of the hidden checks' inputs; by default the seed of the run that is continued, or a new seed.
        regrade: Grade submissions again that have a result already.
        workers: How many submissions to grade at once, by default `default_jobs()`; or processes that were started before.
        cluster: The address of a Dask scheduler, on whose workers submissions are graded instead of here.
        limits: What a submission may use.
        sandboxed: False only if the instructor asked for it.
        data: The folder of the data with which files next to the notebook are judged; by default the checks name the folder.
        progress: Called as the work goes on.

    Returns:
        A result for everybody in the roster, the gradebook or submitted/.

    Raises:
        SandboxError: bubblewrap is missing or does not work.
        InstallationError: the answers do not get all points, the unsolved notebook gets points, or the
            cluster cannot grade.
        GradebookError: the gradebook cannot be opened or written to; what is graded is kept, and recorded the next time.
    """
    if sandboxed and not cluster:
        check_sandbox()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_locked(course, assignment))
        course.prepare(assignment)
        seed = _seed_of_run(course, assignment, seed, regrade)
        held_out = _checkpoint(assignment).held_out(data) if assignment.files else None
        texts = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
        others = {name: names for name, names in assignments().items() if name != assignment.name}
        known = others, course.earlier_texts(assignment), chapters()
        task = Task(assignment.name, *texts, seed, limits, sandboxed, held_out, *known)
        key = grader_key(assignment, sandboxed, held_out)
        remove_leftovers()
        results, waiting = _look_through(course, assignment, key, seed, regrade)
        stack.enter_context(course.gradebook())
        for result in results:
            if not result.recorded:
                course.record(result, assignment)
        if waiting:
            if not isinstance(workers, Workers):
                workers = stack.enter_context(Workers(workers, [assignment.notebook], limits if sandboxed else None))
            run_all = _runner(workers, cluster, task)
            _prove(course, assignment, task, key, run_all, progress)
            for result in _graded(course, assignment, waiting, run_all, progress):
                results.append(result)
                course.record(result, assignment)
        course.renew_lateness(assignment)
    return sorted(results, key=lambda result: result.student)


@dataclass(frozen=True)
class _Waiting:
    """A submission that is to be graded."""

    submission: Submission
    key: str
    content: str

    def result(self, student: str, assignment: str, fields: dict[str, Any]) -> Result:
        """Return the result that has the fields from `grade_one`."""
        fields["receipt"] = self.submission.receipt + fields.get("receipt", [])
        fields["questions"] = self.submission.questions + fields.get("questions", [])
        if fields["receipt"] and fields["state"] == "graded":
            fields["state"] = "graded after repair"
        return Result(student, assignment, key=self.key, content=self.content, versions=versions(), **fields)


def _look_through(
    course: Course, assignment: Assignment, of_grader: str, seed: int, regrade: bool
) -> tuple[list[Result], dict[str, _Waiting]]:
    """Return the results that are known without grading, and the submissions to grade, by student.

    All results have the seed of the run: a result of another seed is graded again, also after an interrupted regrade.
    """
    with course.reading() as db:
        in_gradebook = grades(db, assignment.name)
    results: list[Result] = []
    waiting: dict[str, _Waiting] = {}
    students, in_brackets = course.students(), {*course.results_folder(assignment.name).glob("(*.json")}
    for path in in_brackets - {course.result_path(student, assignment.name) for student in students}:
        path.unlink()  # of an unfit name, which may have been corrected
    for name, why in course.unfit_names().items():
        results.append(Result(name, assignment.name, "unreadable", why, recorded=True))  # there is no student to record
        course.save_result(results[-1])
    for student in students:
        kept = course.load_result(student, assignment.name)
        if kept is not None and kept.has_score and not _is_recorded(kept, in_gradebook.get(student)):
            kept.recorded = False
        try:
            submission, state, why = (
                course.read_submission(student, assignment),
                "missing",
                "No notebook was submitted.",
            )
        except Unreadable as error:
            submission, state, why = None, "unreadable", str(error)
        if submission is None:
            result = Result(student, assignment.name, state, why)
            known = kept is not None and kept.recorded and replace(kept, recorded=False) == result
            results.append(kept if known else result)
            continue
        content = digest_of_content(submission.data, submission.files, submission.candidates)
        key = key_of(of_grader, content)
        same = kept is not None and kept.key == key and kept.seed in (None, seed)
        if same and kept.state != "not graded" and not regrade:
            results.append(kept)
        else:
            waiting[student] = _Waiting(submission, key, content)
    return results, waiting


def _is_recorded(result: Result, of: dict[str, Grade] | None) -> bool:
    """Whether the gradebook has the points of a result. It may be lost and made again, or an older copy."""
    points = {check["name"]: check["points"] * check["passed"] for check in result.checks}
    return of is not None and all(name in of and of[name].of_tests == points[name] for name in points)


def _graded(
    course: Course,
    assignment: Assignment,
    waiting: dict[str, _Waiting],
    run_all: Callable[[Jobs], Done],
    progress: Progress,
) -> Iterator[Result]:
    """Grade the waiting submissions; save each result with its notebook, and yield it to be recorded."""
    jobs = {student: Job(each.submission.data, each.submission.files) for student, each in waiting.items()}
    progress("submissions", 0, len(jobs))
    decisions = read_decisions(course.root, assignment.name)
    for done, (student, fields) in enumerate(run_all(jobs), 1):
        notebook = fields.pop("notebook", None)
        result = waiting[student].result(student, assignment.name, fields)
        result.ask(decisions.get(student))
        if notebook:
            write_atomically(course.autograded_path(student, assignment), notebook)
        course.save_result(result)  # after Ctrl-C the next run records it
        progress("submissions", done, len(jobs), result.state)
        yield result


@contextmanager
def _locked(course: Course, assignment: Assignment) -> Iterator[None]:
    """Prevent a second run from grading the same assignment of the course: its results would have another seed."""
    path = course.results_folder(assignment.name) / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another run grades {assignment.name} of {course.root}; wait until it is done, or stop it"
            raise InstallationError(message) from None
        yield


def _seed_of_run(course: Course, assignment: Assignment, seed: int | None, regrade: bool) -> int:
    """Return the seed of the run that is continued. If a new run begins, store and return a new seed."""
    path = course.results_folder(assignment.name) / ".run.json"
    if seed is None and not regrade:
        kept = {result.seed for result in course.load_results(assignment.name)} - {None}
        fix = f"Give the seed of the earlier results: --seed {min(kept)}." if kept else "Remove it."
        if run := read_json(path, fix):
            return run["seed"]
    seed = secrets.randbits(31) if seed is None else seed
    write_atomically(path, json.dumps({"seed": seed}) + "\n")
    return seed


def _checkpoint(assignment: Assignment) -> Any:
    """Return the module that judges the files next to the notebook."""
    return checks_of(next(iter(assignment.files.values())), "checkpoint")


def _prove(
    course: Course, assignment: Assignment, task: Task, key: str, run_all: Callable[[Jobs], Done], progress: Progress
) -> None:
    """Prove that the answers get every point and the unsolved notebook gets none, once for each key and seed.

    Raises:
        InstallationError: the proof does not hold.
    """
    path = course.results_folder(assignment.name) / ".proof.json"
    text = json.dumps({"key": key, "seed": task.seed}) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    record = _checkpoint(assignment).RECORD if assignment.files else None
    if record is not None and not record.exists():
        raise InstallationError(f'{record} is missing, and the checks cannot be proved without it. Run "make train".')
    files = {name: record.read_bytes() for name in assignment.files}
    jobs = {
        "answers": Job(task.instructor.encode(), files, may_match_book_weights=True),
        "unsolved notebook": Job(task.release.encode()),
    }
    progress("proof", 0, len(jobs))
    wrong = []
    for done, (name, fields) in enumerate(run_all(jobs), 1):
        checks = fields.get("checks", [])
        bad = [check for check in checks if check["passed"] != (name == "answers")]
        if fields["state"] != "graded" or bad or not checks:
            reasons = [f"{check['name']}: {check['message'] or 'passed'}" for check in bad] or [fields.get("why", "")]
            wrong.append(f"The {name} of {assignment.name}: {fields['state']}. " + "\n  ".join(reasons[:5]))
        progress("proof", done, len(jobs))
    if wrong:
        raise InstallationError(
            "Nothing was graded, because the grader does not work here: the answers must get every point and the "
            "unsolved notebook none.\n" + "\n".join(wrong) + '\nIs the environment complete ("make setup")?'
        )
    write_atomically(path, text)


def _runner(here: Workers, cluster: str | None, task: Task) -> Callable[[Jobs], Done]:
    """Return the function that runs jobs, on the processes of this machine or on a cluster."""
    if cluster:
        from autograder.grade.cluster import Cluster  # this imports PyTorch

        return Cluster(cluster, task).run

    def run_all(jobs: Jobs) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, fields in here.run(grade_one, {name: (task, job) for name, job in jobs.items()}):
            if isinstance(fields, ProcessExpired):
                fields = not_graded("The grader's process was killed twice while it graded this submission.")
            elif isinstance(fields, TimeoutError):
                why = f"The grader was not done with this submission after {here.seconds:.0f} s."
                question = f"{why} Open it: is it longer than the others, and whose are the words?"
                fields = {"state": "timed out", "why": why, "questions": [question]}
            elif isinstance(fields, Exception):
                fields = grader_failed(fields)
            yield name, fields

    return run_all

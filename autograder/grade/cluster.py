"""Grade on a Dask cluster. The network carries only submissions, checks and results.

The machine that starts the run records the points. A worker needs this package and bubblewrap, but no shared disk and
no gradebook. Before a worker gets a submission, it must show that it has the same versions and a sandbox that works. It
has one submission at a time, so a lost or hanging worker delays only one submission.
"""

import faulthandler
import hashlib
import logging
import os
import pickle
import platform
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from autograder.grade.job import grade_one
from autograder.grade.result_keys import PACKAGES
from autograder.grade.task import Job, Task, not_graded
from autograder.grade.workers import InstallationError
from autograder.imports import ROOT, imported_files
from autograder.publish.generated import sources
from autograder.sandbox.host.bubblewrap import SandboxError, check_sandbox, remove_leftovers

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 15.0  # the scheduler must answer within this time
WAIT_SECONDS = 60.0  # the longest time without a worker that can grade; Dask restarts a killed worker within 10 s
CHECK_SECONDS = 1.0  # the longest time between two checks for workers that have joined or are lost
MAX_LOSSES = 5  # give up a submission after losing so many workers; temporary workers may be lost by chance
TASKS: dict[str, Task] = {}  # on a worker: the task that the submissions of a run share, by the run's key
log = logging.getLogger(__name__)


class ClusterError(InstallationError):
    """The cluster cannot grade, or cannot go on; finished results are recorded."""


def versions() -> dict[str, str]:
    """Return the versions on this machine that a result depends on, by name. Submission and assignment are left out."""
    checks = [f"autograder.checks.{source.stem}.{part}" for source in sources() for part in ("exercises", "checkpoint")]
    files = imported_files("autograder.grade.cluster", *checks)
    files |= set((ROOT / "autograder" / "sandbox").rglob("*.py"))
    by_name = {"Python": ".".join(platform.python_version_tuple()[:2])}
    by_name |= {name: version(name) for name in (*PACKAGES, "torchvision", "scikit-learn", "matplotlib", "nbformat")}
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in sorted(files)}
    return by_name | {str(path.relative_to(ROOT)): digest for path, digest in digests.items()}


def ask(run: str, task: Task, wanted: dict[str, str], threads: int) -> tuple[str, int]:
    """On a worker: keep the task of a run; return why this worker must not grade, or "", and the number of its process."""
    while len(TASKS) > 3:  # several people may grade on one cluster
        del TASKS[next(iter(TASKS))]
    TASKS[run] = task
    remove_leftovers()
    found = versions()
    reasons = [
        f"{name} {found.get(name)} instead of {wanted[name]}" for name in wanted if found.get(name) != wanted[name]
    ]
    reasons = reasons[:5] + ["…"] * (len(reasons) > 5)
    if threads != 1:
        reasons.append(f"it has {threads} threads, and grades one submission at a time: --nthreads 1")
    try:
        if task.sandboxed:
            check_sandbox()
    except SandboxError as error:
        reasons.append(str(error))
    return ", ".join(reasons), os.getpid()


def work(run: str, asked: int, job: Job) -> dict[str, Any] | None:
    """On a worker: grade one submission; a worker that is not done in time ends itself.

    Returns:
        The fields of the result; None if this is not the process that was asked, but another one at the same address.
    """
    if run not in TASKS or asked != os.getpid():
        return None
    faulthandler.dump_traceback_later(TASKS[run].limits.job_seconds, exit=True, file=sys.__stderr__)
    try:
        return grade_one(TASKS[run], job)
    finally:
        faulthandler.cancel_dump_traceback_later()


class Cluster:
    """A Dask cluster, as the grader sees it."""

    def __init__(self, address: str, task: Task) -> None:
        self.address, self.task, self.key, self.versions = address, task, secrets.token_hex(16), versions()
        self.asked: dict[str, Future[tuple[str, int]]] = {}  # what a worker said, by its address
        self.told: set[tuple[str, str]] = set()  # the refused workers and the reasons that were said
        self.last_fit = time.monotonic()  # the last time that a worker could grade, or was being asked

    def run(self, jobs: dict[str, Job]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Grade the submissions; yield the fields of each result once, as soon as it arrives.

        Raises:
            ClusterError: there is no scheduler, or no worker that can grade; the message says why and what to do.
        """
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError('A cluster needs Dask: .venv/bin/pip install -e ".[cluster]"') from None
        try:
            client = Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False, name="autograder")
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise ClusterError(
                f"No Dask scheduler answers at {self.address}: {error}\n"
                'Is it started, with "dask scheduler", and can this machine reach it?'
            ) from None
        with client:
            executor = client.get_executor(pure=False)
            try:
                yield from self._graded(client, executor, jobs)
            finally:
                executor.shutdown(wait=False)

    def _graded(
        self, client: "Client", executor: Executor, jobs: dict[str, Job]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give each worker that may grade one submission after the other; yield what comes back."""
        waiting, losses = deque(jobs), Counter[str]()
        at: dict[str, tuple[str, Future]] = {}  # the submission of each worker, and its result
        while waiting or at:
            for worker in self._fit(client, executor, len(waiting) + len(at)):
                if waiting and worker not in at:
                    name = waiting.popleft()
                    _, process = self.asked[worker].result()
                    at[worker] = name, _submit(executor, worker, work, self.key, process, jobs[name])
            if at:
                wait([result for _, result in at.values()], CHECK_SECONDS, FIRST_COMPLETED)
            else:
                time.sleep(CHECK_SECONDS)
            for worker, (name, result) in list(at.items()):
                if worker not in self.asked:
                    del at[worker]
                    result.cancel()
                    losses[name] += 1
                    log.warning("The worker %s was lost while it graded %s.", worker, name)
                    if losses[name] < MAX_LOSSES:
                        waiting.append(name)
                    else:
                        yield name, not_graded(f"{MAX_LOSSES} workers were lost on this submission.")
                elif result.done():
                    del at[worker]
                    if result.cancelled() or (result.exception() is None and result.result() is None):
                        self.asked.pop(worker)
                        waiting.appendleft(name)
                    elif (error := result.exception()) is not None:
                        yield name, not_graded(f"The grader failed, not the submission: {error!r}")
                    else:
                        yield name, result.result()

    def _fit(self, client: "Client", executor: Executor, left: int) -> list[str]:
        """Return the workers that may grade, and ask those that have joined. Give up if there is none for WAIT_SECONDS."""
        try:
            found = client.sync(client.scheduler.ncores, callback_timeout=CONNECT_SECONDS)
        except OSError as error:
            raise ClusterError(
                f"The Dask scheduler at {self.address} was lost: {error or 'no answer'}\n"
                "Finished results are recorded. Start scheduler and workers again, and then run the same command again."
            ) from None
        self.asked = {each: answer for each, answer in self.asked.items() if each in found and not answer.cancelled()}
        for worker in found.keys() - self.asked.keys():
            self.asked[worker] = _submit(executor, worker, ask, self.key, self.task, self.versions, found[worker])
        answers = {worker: _answer_of(answer) for worker, answer in self.asked.items() if answer.done()}
        refused = {worker: answer for worker, answer in answers.items() if answer}
        for worker, reason in refused.items() - self.told:
            log.warning("The worker %s gets nothing to grade: %s", worker, reason)
        self.told |= refused.items()
        if refused.keys() < found.keys():
            self.last_fit = time.monotonic()
        elif time.monotonic() > self.last_fit + WAIT_SECONDS:
            raise ClusterError(
                f"{left} submissions are not graded, because no worker at {self.address} can:\n"
                + ("\n".join(f"  {worker}: {reason}" for worker, reason in refused.items()) or "  there is none")
                + '\nStart workers with "dask worker ADDRESS --nthreads 1", with this version of the repository and with '
                "bubblewrap, and then run the same command again: finished results are recorded."
            )
        return [worker for worker in answers if worker not in refused]


def _answer_of(answer: Future[tuple[str, int]]) -> str:
    """Return why a worker must not grade, or ""."""
    try:
        return answer.result()[0]
    except Exception as error:  # whatever is wrong on that machine
        return f"{error!r}. Is this version of the repository installed there?"


def _submit(executor: Executor, worker: str, function: Callable[..., Any], *arguments: Any) -> Future:
    """Call a function of this module on a worker."""

    # Dask sends this function as code, because the scheduler unpickles it and does not have our modules.
    def call(pickled: bytes) -> Any:
        import pickle

        function, arguments = pickle.loads(pickled)
        return function(*arguments)

    return executor.submit(call, pickle.dumps((function, arguments)), workers=[worker])

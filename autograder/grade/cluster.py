"""Grade on a Dask cluster. The network carries only submissions, checks and results.

The machine that starts the run records the points. A worker needs this package and bubblewrap, but no shared disk and
no gradebook. Before a worker gets a submission, it must show that it has the same versions and a sandbox that works. It
has one submission at a time, so a lost or hanging worker delays only one submission.
"""

import hashlib
import logging
import pickle
import platform
import secrets
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from autograder.grade.job import grade_one
from autograder.grade.result_keys import PACKAGES
from autograder.grade.task import Job, Task
from autograder.grade.workers import InstallationError
from autograder.imports import ROOT, imported_files
from autograder.publish.generated import sources
from autograder.sandbox.host.bubblewrap import SandboxError, check_sandbox, remove_leftovers

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 15.0  # the scheduler must answer within this time
ASK_SECONDS = 300.0  # a worker must report its versions in this time; importing PyTorch takes 4 s, more on a slow disk
WAIT_SECONDS = 60.0  # the longest time without a worker that can grade; Dask restarts a killed worker within 10 s
CHECK_SECONDS = 1.0  # time between two checks for workers that have joined, are lost or hang
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


def ask(run: str, task: Task, wanted: dict[str, str]) -> str:
    """On a worker: keep the task that a run's submissions share; return why this worker must not grade, or ""."""
    while len(TASKS) > 3:  # several people may grade on one cluster
        del TASKS[next(iter(TASKS))]
    TASKS[run] = task
    remove_leftovers()
    try:
        if task.sandboxed:
            check_sandbox()
    except SandboxError as error:
        return "; ".join(filter(None, (_difference(wanted, versions()), str(error))))
    return _difference(wanted, versions())


def work(run: str, job: Job) -> dict[str, Any] | None:
    """On a worker: grade one submission.

    Returns:
        The fields of the result; None if this process does not have the task, for example because it replaced a process
        at the same address and was not asked yet.
    """
    return grade_one(TASKS[run], job) if run in TASKS else None


@dataclass
class _Worker:
    """What the grader knows about a worker."""

    address: str
    future: "Future | None" = None  # its present work
    name: str | None = None  # the submission that it grades; None while it is asked
    begun: float = 0.0
    fit: bool = False  # it was asked, and may grade
    refused: str = ""  # why it gets no submissions
    overdue: bool = False


class Cluster:
    """A Dask cluster, as the grader sees it."""

    def __init__(self, address: str, task: Task) -> None:
        self.address, self.task = address, task
        self.seconds = task.limits.job_seconds  # a submission that takes longer goes to another worker
        self.versions = versions()
        self.warned: set[str] = set()

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
            yield from _Run(self, client, jobs).results()

    def say(self, text: str) -> None:
        """Tell the instructor something, once."""
        if text not in self.warned:
            log.warning("%s", text)
            self.warned.add(text)


class _Run:
    """One run of some jobs."""

    def __init__(self, cluster: Cluster, client: "Client", jobs: dict[str, Job]) -> None:
        from distributed import as_completed

        self.cluster, self.client, self.key = cluster, client, secrets.token_hex(16)
        self.jobs = jobs
        self.unfinished, self.waiting, self.losses = set(jobs), deque(jobs), Counter[str]()
        self.workers: dict[str, _Worker] = {}
        self.worker_of: dict[Future, _Worker] = {}
        self.finished = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.last_fit = time.monotonic()  # the last time that a worker could grade, or was being asked

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each submission's fields once."""
        next_check = 0.0
        while self.unfinished or self.done:
            if time.monotonic() > next_check:
                self.check_workers()
                next_check = time.monotonic() + CHECK_SECONDS
            for future, result in self.finished.next_batch(block=False):
                if worker := self.worker_of.pop(future, None):
                    self.receive(worker, future, result)
            for worker in self.workers.values():
                if worker.fit and worker.future is None:
                    self.give_work(worker)
            yield from self.done
            self.done.clear()
            time.sleep(0.02)

    def check_workers(self) -> None:
        """Find the workers that have joined, are lost, or hang. Give up if none can grade for WAIT_SECONDS."""
        try:
            present = self.client.sync(self.client.scheduler.ncores, callback_timeout=CONNECT_SECONDS)
        except OSError as error:
            raise ClusterError(
                f"The Dask scheduler at {self.cluster.address} was lost: {error or 'no answer'}\n"
                "Finished results are recorded. Start scheduler and workers again, and then run the same command again."
            ) from None
        for address in self.workers.keys() - present.keys():
            worker = self.workers.pop(address)
            if worker.future is not None:
                self.worker_of.pop(worker.future, None)
                worker.future.cancel()
                self.lose(worker, "was lost")
        for address, threads in present.items():
            if address not in self.workers:
                worker = self.workers[address] = _Worker(address)
                if threads == 1:
                    self.ask(worker)
                else:
                    self.refuse(worker, f"it has {threads} threads, and grades one submission at a time: --nthreads 1")
        for worker in self.workers.values():
            seconds = ASK_SECONDS if worker.name is None else self.cluster.seconds
            if worker.future is not None and not worker.overdue and time.monotonic() > worker.begun + seconds:
                self.lose(worker, "hangs")
                worker.overdue = True  # the worker continues, and the first result counts
        if any(not (worker.refused or worker.overdue) for worker in self.workers.values()):
            self.last_fit = time.monotonic()
        elif time.monotonic() > self.last_fit + WAIT_SECONDS:
            reasons = [f"  {w.address}: {w.refused or 'it hangs'}" for w in self.workers.values()]
            raise ClusterError(
                f"{len(self.unfinished)} submissions are not graded, because no worker at {self.cluster.address} can:\n"
                + ("\n".join(reasons) or "  there is none")
                + '\nStart workers with "dask worker ADDRESS --nthreads 1", with this version of the repository and with '
                "bubblewrap, and then run the same command again: finished results are recorded."
            )

    def ask(self, worker: _Worker) -> None:
        worker.fit, worker.name = False, None
        self.start(worker, ask, self.key, self.cluster.task, self.cluster.versions)

    def give_work(self, worker: _Worker) -> None:
        while self.waiting:
            name = self.waiting.popleft()
            if name in self.unfinished:
                worker.name = name
                self.start(worker, work, self.key, self.jobs[name])
                return

    def start(self, worker: _Worker, function: Any, *arguments: Any) -> None:
        # Dask sends this function as code, because the scheduler unpickles it and does not have our modules.
        def call(pickled: bytes) -> Any:
            import pickle

            function, arguments = pickle.loads(pickled)
            return function(*arguments)

        pickled = pickle.dumps((function, arguments))
        worker.future = self.client.submit(call, pickled, workers=[worker.address], pure=False)
        worker.begun = time.monotonic()
        self.worker_of[worker.future] = worker
        self.finished.add(worker.future)

    def receive(self, worker: _Worker, future: "Future", result: Any) -> None:
        """Use the answer of a worker: a result, or its reason why it must not grade."""
        name, worker.future = worker.name, None
        if future.status not in ("finished", "error"):  # cancelled, for example because the scheduler was away
            self.lose(worker, "was lost")
            return
        worker.overdue = False
        error = result[1] if future.status == "error" else None
        if name is None:
            reason = f"{error!r}. Is this version of the repository installed there?" if error else result
            if reason:
                self.refuse(worker, reason)
            worker.fit = not reason
        elif error is not None:
            self.finish(name, {"state": "not graded", "why": f"The grader failed, not the submission: {error!r}"})
        elif result is None:
            self.waiting.appendleft(name)
            self.ask(worker)
        else:
            self.finish(name, result)

    def refuse(self, worker: _Worker, reason: str) -> None:
        worker.refused = reason
        self.cluster.say(f"The worker {worker.address} gets nothing to grade: {reason}")

    def lose(self, worker: _Worker, how: str) -> None:
        """Give a worker's submission to another worker, unless the submission has lost MAX_LOSSES workers."""
        name = worker.name
        doing = f" while it graded {name}." if name else " when it was asked for its versions."
        self.cluster.say(f"The worker {worker.address} {how}{doing}")
        if name not in self.unfinished or worker.overdue:  # another worker has this submission
            return
        self.losses[name] += 1
        if self.losses[name] < MAX_LOSSES:
            self.waiting.append(name)
        else:
            self.finish(
                name, {"state": "not graded", "why": f"{MAX_LOSSES} workers were lost, or hung, on this submission."}
            )

    def finish(self, name: str, fields: dict[str, Any]) -> None:
        """Keep the first result of a submission, and ignore later ones."""
        if name in self.unfinished:
            self.unfinished.remove(name)
            self.done.append((name, fields))


def _difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """Say which versions of a worker differ from ours; "" if none differ."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    differences = [
        f"{name} is another version"
        if name.endswith(".py")
        else f"{name} {theirs.get(name)} instead of {ours.get(name)}"
        for name in names[:5]
    ]
    return ", ".join([*differences, f"and {len(names) - 5} more"] if len(names) > 5 else differences)

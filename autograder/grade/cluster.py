"""Grade on a Dask cluster. The network carries only submissions, checks and results.

The machine that starts the run records the points. A worker needs this package and bubblewrap, but no shared disk and
no gradebook. It grades only with the same versions and a sandbox that works; else it says why, and another one grades.
Dask gives the submissions of a lost worker to the others.
"""

import faulthandler
import logging
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache
from importlib.metadata import version
from typing import Any

from distributed import Client, get_worker

from autograder.grade.job import grade_one
from autograder.grade.newer_python import OUR_PYTHON
from autograder.grade.result_keys import PACKAGES, files_of_code
from autograder.grade.task import Job, Task, grader_failed
from autograder.grade.workers import InstallationError
from autograder.imports import digest_of
from autograder.publish.generated import sources
from autograder.sandbox.host.bubblewrap import SandboxError, check_sandbox, remove_leftovers

CONNECT_SECONDS = 15.0  # the scheduler must answer within this time
WAIT_SECONDS = 60.0  # the longest time without a worker that can grade; Dask restarts a killed worker within 10 s
CHECK_SECONDS = 1.0  # the longest time between two checks for workers that have joined or are lost


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result depends on, as they were when this process first graded. Assignments are left out."""
    checks = [f"autograder.checks.{source.stem}.{part}" for source in sources() for part in ("exercises", "checkpoint")]
    packages = (*PACKAGES, "torchvision", "scikit-learn", "matplotlib", "nbformat")
    code = digest_of(files_of_code("autograder.grade.cluster", *checks))[:12]
    return {"Python": OUR_PYTHON, **{name: version(name) for name in packages}, "code of the repository": code}


def work(threads: int, task: Task, wanted: dict[str, str], job: Job) -> dict[str, Any] | str:
    """On a worker: return the fields of a submission's result, or why this worker must not grade."""
    remove_leftovers()
    found = versions()
    unfit = [f"{name} {found.get(name)} instead of {each}" for name, each in wanted.items() if found.get(name) != each]
    if threads != 1:
        unfit.append(f"it has {threads} threads, and grades one submission at a time: --nthreads 1")
    try:
        if task.sandboxed:
            check_sandbox()
    except SandboxError as error:
        unfit.append(str(error))
    if unfit:
        return ", ".join(unfit)
    faulthandler.dump_traceback_later(task.limits.job_seconds, exit=True, file=sys.__stderr__)  # ends a slow worker
    try:
        return grade_one(task, job)
    except Exception as error:
        return grader_failed(error)
    finally:
        faulthandler.cancel_dump_traceback_later()


class Cluster:
    """A Dask cluster, as the grader sees it."""

    def __init__(self, address: str, task: Task) -> None:
        self.address, self.task = address, task
        self.refused: dict[str, str] = {}  # why a worker must not grade, by its address
        self.last_fit = time.monotonic()  # the last time that there was a worker that may grade

    def run(self, jobs: dict[str, Job]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Grade the submissions; yield the fields of each result once, as soon as it arrives.

        Raises:
            InstallationError: there is no scheduler, or no worker that can grade; the message says why and what to do.
        """
        try:
            client = Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False, name="autograder")
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise InstallationError(
                f"No Dask scheduler answers at {self.address}: {error}\n"
                'Is it started, with "dask scheduler", and can this machine reach it?'
            ) from None
        executor, waiting, at = client.get_executor(pure=False), deque(jobs), dict[Future, str]()
        with client:
            while waiting or at:
                fit = self._fit(client, len(waiting) + len(at))
                while waiting and len(at) < len(fit):
                    name = waiting.popleft()
                    content = pickle.dumps((work, self.task, versions(), jobs[name]))
                    # With `allow_other_workers`, a submission goes on if all these workers are lost and others come.
                    where = {"workers": fit, "allow_other_workers": True} if self.refused else {}
                    at[executor.submit(_on_worker(), content, **where)] = name
                if not at:
                    time.sleep(CHECK_SECONDS)
                for result in wait(at, CHECK_SECONDS, FIRST_COMPLETED).done:
                    name = at.pop(result)
                    if result.cancelled():  # the scheduler is lost
                        waiting.append(name)
                        continue
                    error = result.exception()  # all workers that graded it were lost
                    worker, answer = ("", grader_failed(error)) if error else result.result()
                    if isinstance(answer, dict):
                        yield name, answer
                        continue
                    waiting.appendleft(name)
                    if worker not in self.refused:
                        logging.getLogger(__name__).warning("The worker %s gets nothing to grade: %s", worker, answer)
                    self.refused[worker] = answer

    def _fit(self, client: Client, left: int) -> list[str]:
        """Return the workers that did not say that they must not grade. Give up if there is none for WAIT_SECONDS."""
        try:
            found = client.sync(client.scheduler.ncores, callback_timeout=CONNECT_SECONDS)
        except OSError as error:
            raise InstallationError(
                f"The Dask scheduler at {self.address} was lost: {error or 'no answer'}\n"
                "Finished results are recorded. Start scheduler and workers again, and then run the same command again."
            ) from None
        self.refused = {worker: reason for worker, reason in self.refused.items() if worker in found}
        fit = [worker for worker in found if worker not in self.refused]
        if fit:
            self.last_fit = time.monotonic()
        elif time.monotonic() > self.last_fit + WAIT_SECONDS:
            raise InstallationError(
                f"{left} submissions are not graded, because no worker at {self.address} can:\n"
                + ("\n".join(f"  {worker}: {reason}" for worker, reason in self.refused.items()) or "  there is none")
                + '\nStart workers with "dask worker ADDRESS --nthreads 1", with this version of the repository and with '
                "bubblewrap, and then run the same command again: finished results are recorded."
            )
        return fit


def _on_worker() -> Callable[[bytes], tuple[str, dict[str, Any] | str]]:
    """Return a function that calls `work`. Dask sends it as code, because the scheduler does not have our modules."""

    def call(content: bytes) -> tuple[str, dict[str, Any] | str]:
        worker = get_worker()
        try:
            function, *arguments = pickle.loads(content)
        except Exception as error:
            return worker.address, f"{error!r}. Is this version of the repository installed there?"
        return worker.address, function(worker.state.nthreads, *arguments)

    return call

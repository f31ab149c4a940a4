"""Processes that grade on this machine: as many as it has room for. When one dies, the others keep their work."""

import gc
import multiprocessing
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
from pebble import ProcessExpired, ProcessPool

from autograder.grade.task import Job, Task
from autograder.imports import ROOT
from autograder.sandbox.host.bubblewrap import SLOW, WarmParent, use_parent
from autograder.sandbox.host.limits import Limits

JOB_MEMORY = 1536 * 2**20  # bytes for each job: with its sandbox 2_multihead takes 0.65 GiB, 4_vit 1.1 GiB
Jobs = dict[str, tuple[Any, ...]]  # the arguments of a function, by the job's name


class InstallationError(RuntimeError):
    """The grader itself does not work, so that no points may be given."""


class Workers:
    """Processes that call functions until the `with` block ends; they start when they are needed.

    Args:
        count: The number of processes; by default `default_jobs()`.
        checks: The modules of autograder.checks that they need, one for each assignment.
        limits: The limits of the kernels that they need; None if they need no forked kernel.
        seconds: The time after which a job's process is ended; by default that of the limits.
    """

    def __init__(
        self,
        count: int | None = None,
        checks: Sequence[str] = (),
        limits: Limits | None = None,
        seconds: float | None = None,
    ) -> None:
        self.count, self.checks, self.limits = count or default_jobs(), checks, limits
        self.seconds = seconds or (limits or Limits()).job_seconds
        self.pool: ProcessPool | None = None
        self.parent: WarmParent | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type | None, *error: object) -> None:
        if self.pool is not None:
            if kind is None:
                self.pool.close()
            else:  # Ctrl-C: unfinished jobs are dropped, and the next run begins them again
                self.pool.stop()
            self.pool.join()
            self.pool = None
        if self.parent is not None:  # this also ends the kernels of ended processes
            self.parent.close()
            self.parent = None

    def begin(self) -> None:
        """Start two processes that import PyTorch, which takes seconds: one forks workers, the other forks kernels."""
        multiprocessing.get_context("forkserver").set_forkserver_preload(
            [
                "autograder.lighter_imports",
                "autograder.grade.job",
                *(f"autograder.checks.{name}.exercises" for name in self.checks),
            ]
        )
        forkserver.ensure_running()
        if self.parent is None and self.limits is not None and self.limits.forked:
            self.parent = WarmParent(self.limits, _needed_by(self.checks))

    def run(self, function: Callable[..., Any], jobs: Jobs) -> Iterator[tuple[str, Any]]:
        """Call the function for each job; yield its name and its result, or the exception, as they come.

        A job whose process dies is tried once more; the second time its result is a ProcessExpired. The result of a job
        that takes too long is a TimeoutError.
        """
        waiting, again, at = deque(jobs), set[str](), dict[Future, str]()
        try:
            while waiting or at:
                while waiting and len(at) <= self.count:  # one job more than processes, so that no process waits
                    name = waiting.popleft()
                    at[self._processes().schedule(function, jobs[name], timeout=self.seconds)] = name
                done, _ = wait(at, return_when=FIRST_COMPLETED)
                for future in done:
                    name, error = at.pop(future), future.exception()
                    if isinstance(error, ProcessExpired) and name not in again:
                        again.add(name)
                        waiting.append(name)
                    else:
                        yield name, error or future.result()
        finally:  # after an error nobody needs the other results, and the next assignment needs all processes
            for future in at:
                future.cancel()

    def _processes(self) -> ProcessPool:
        if self.pool is None:
            self.begin()
            context = multiprocessing.get_context("forkserver")
            self.pool = ProcessPool(self.count, initializer=_begin_worker, initargs=(self.parent,), context=context)
        return self.pool


def _needed_by(checks: Sequence[str]) -> list[str]:
    """Return the slow modules that the notebooks of assignments import at the start of a line, not within a function.

    PyTorch is always among the modules: a right answer to an exercise in NumPy may use PyTorch too, and the import of
    PyTorch must not count as time of a call.
    """
    paths = [path for name in checks for path in ROOT.glob(f"exercises/*/{name}.ipynb")]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    used = {name for name in SLOW if re.search(rf'"(import|from) {re.escape(name)}\b', text)} | {"numpy", "torch"}
    return [name for name in SLOW if name in used or not text]


def grade_one(task: Task, job: Job) -> dict[str, Any]:
    """Call `job.grade_one`. Only the processes import its module, because PyTorch takes seconds."""
    from autograder.grade import job as grading

    return grading.grade_one(task, job)


def _begin_worker(parent: WarmParent | None) -> None:
    use_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the grader handles Ctrl-C
    gc.freeze()  # imported modules stay, so the garbage collector can skip them
    end_with_parent()


def end_with_parent() -> None:
    """End this process when its parent is killed. Otherwise this process and its sandbox would wait forever."""

    def end() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def default_jobs() -> int:
    """Return how many submissions to grade at once: one for each processor that we may use, if there is enough memory."""
    return max(1, min(len(os.sched_getaffinity(0)), free_memory() // JOB_MEMORY))


def free_memory(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of free memory: of the machine or, if that is less, of the container or the job on a cluster.

    Args:
        groups: The file that lists this process's control groups, of version 1 and version 2.
        root: The folder where the control groups are mounted.
    """
    free = [psutil.virtual_memory().available]
    for line in groups.read_text().splitlines() if groups.exists() else []:
        _, kind, path = line.split(":", 2)
        if kind not in ("", "memory"):
            continue
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kind else ("memory.max", "memory.current")
        place = root / kind / path.strip("/")
        for folder in (place, *place.parents):  # a group limits the groups below it; a container may not see all
            if folder.is_relative_to(root):
                with suppress(OSError, ValueError):  # the file is missing, or holds "max"
                    limit, used = (int((folder / name).read_text()) for name in names)
                    kept = dict(entry.split() for entry in (folder / "memory.stat").read_text().splitlines())
                    files = kept.get("total_inactive_file", kept.get("inactive_file", 0))
                    free.append(max(0, limit - used + int(files)))  # cached parts of files can be dropped
    return min(free)

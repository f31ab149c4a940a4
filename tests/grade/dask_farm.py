"""A Dask cluster on loopback: scheduler and workers are real processes. Workers are forked from one process with PyTorch."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil

Manner = Callable[[ModuleType], None]  # makes a worker differ from others
FORKS = multiprocessing.get_context("forkserver")  # the grader's own pool uses a fork server too
FORKS.set_forkserver_preload(
    [
        "autograder.lighter_imports",
        "autograder.grade.cluster",
        "autograder.checks.attention.exercises",
        "distributed.cli.dask_worker",
    ]
)


def run_worker(options: list[str], folder: Path, manner: Manner | None) -> None:
    """Run a worker that logs each submission that it begins; `manner` makes it differ from the other workers."""
    from distributed.cli import dask_worker

    from autograder.grade import cluster
    from autograder.grade.workers import end_with_parent

    end_with_parent()  # the worker ends if the tests are killed
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if manner:
        manner(cluster)
    grade_one = cluster.grade_one

    def noted(*arguments):
        with (folder / "begun").open("a") as file:
            file.write("x")
        return grade_one(*arguments)

    cluster.grade_one = noted
    dask_worker.main([*options, "--no-nanny", "--no-dashboard", "--memory-limit", "0"])


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


# How a worker differs from others


def other_version(cluster: ModuleType) -> None:
    """Have another version of NumPy."""
    of = cluster.version
    cluster.version = lambda name: "1.0" if name == "numpy" else of(name)


def without_bubblewrap(cluster: ModuleType) -> None:
    """Find no program."""
    os.environ["PATH"] = ""


def ends_in_the_middle(cluster: ModuleType) -> None:
    """End with the first submission."""
    cluster.grade_one = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)


def waits_for(path: Path, cluster: ModuleType) -> None:
    """Do the work only after a file exists."""
    grade_one = cluster.grade_one
    cluster.grade_one = lambda *arguments: (wait_for(path.exists), grade_one(*arguments))[1]


def waits_for_submission(cluster: ModuleType) -> None:
    """Do no work: wait for the file that the submission names, and return the number of the process."""
    done = {"state": "graded", "process": os.getpid()}
    cluster.grade_one = lambda task, job: (wait_for(Path(os.fsdecode(job.data)).exists), done)[1]


class Worker:
    """A worker's process."""

    def __init__(self, options: list[str], folder: Path, manner: Manner | None) -> None:
        self.folder = folder
        folder.mkdir()
        self.process = FORKS.Process(target=run_worker, args=(options, folder, manner), daemon=True)
        self.process.start()

    @property
    def begun(self) -> int:
        """How many submissions the worker has begun."""
        path = self.folder / "begun"
        return len(path.read_text()) if path.exists() else 0

    def has_joined(self) -> bool:
        """Whether the scheduler knows the worker."""
        path = self.folder / "log"
        return path.exists() and "Registered to" in path.read_text()

    def family(self) -> list[psutil.Process]:
        """Return the processes of the worker's sandboxes."""
        return psutil.Process(self.process.pid).children(recursive=True)


class Farm:
    """A scheduler and its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self.workers: list[Worker] = []
        self.scheduler: subprocess.Popen | None = None
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the scheduler; a second start uses the same address."""
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--scheduler-file", str(file), "--dashboard-address", "127.0.0.1:0"]
        with (self.folder / "scheduler.log").open("ab") as log:
            self.scheduler = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(file.exists)
        wait_for(lambda: file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        self.port = int(self.address.rsplit(":", 1)[1])

    def stop_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()

    def start(self, manner: Manner | None = None, threads: int = 1) -> Worker:
        """Start a worker."""
        folder = self.folder / f"worker{len(self.workers)}"
        arguments = [self.address, "--nthreads", str(threads), "--name", folder.name]
        arguments += ["--local-directory", str(folder)]
        self.workers.append(Worker(arguments, folder, manner))
        return self.workers[-1]

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        self.stop_scheduler()

"""A Dask cluster on loopback: scheduler and workers are real processes. Workers are forked from one process with PyTorch."""

import multiprocessing
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from distributed import Client

FORKS = multiprocessing.get_context("forkserver")  # the grader's own pool uses a fork server too
FORKS.set_forkserver_preload(
    [
        "autograder.lighter_imports",
        "autograder.grade.cluster",
        "autograder.checks.attention.exercises",
        "distributed.cli.dask_worker",
    ]
)


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def run_worker(options: list[str], begun: Path, gate: Path) -> None:
    """Run a worker that notes each submission that it begins, and grades it once the gate exists."""
    from distributed.cli import dask_worker

    from autograder.grade import cluster
    from autograder.grade.workers import end_with_parent

    end_with_parent()  # the worker ends if the tests are killed
    grade_one = cluster.grade_one

    def noted(*arguments):
        with begun.open("a") as file:
            file.write("x")
        wait_for(gate.exists)
        return grade_one(*arguments)

    cluster.grade_one = noted
    dask_worker.main([*options, "--no-nanny", "--no-dashboard", "--memory-limit", "0"])


class Worker:
    """A worker's process."""

    def __init__(self, address: str, folder: Path, gate: Path, threads: int) -> None:
        folder.mkdir()
        self._begun = folder / "begun"
        self._begun.touch()
        options = [address, "--nthreads", str(threads), "--local-directory", str(folder)]
        self.process = FORKS.Process(target=run_worker, args=(options, self._begun, gate), daemon=True)
        self.process.start()

    @property
    def begun(self) -> int:
        """How many submissions the worker has begun."""
        return len(self._begun.read_text())


class Farm:
    """A scheduler and its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[Worker]()
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the scheduler; a second start uses the same address."""
        command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(self.port)]
        self.scheduler = subprocess.Popen([*command, "--no-dashboard"], stderr=subprocess.DEVNULL)
        self.wait_for_workers(0)

    def wait_for_workers(self, count: int) -> None:
        """Wait until the scheduler knows this number of workers."""
        with Client(self.address, timeout=120, set_as_default=False) as client:
            wait_for(lambda: len(client.ncores()) == count)

    def stop_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()

    def start(self, gate: Path = Path("/"), threads: int = 1) -> Worker:
        """Start a worker, which grades once the gate exists."""
        folder = self.folder / f"worker{len(self.workers)}"
        self.workers.append(Worker(self.address, folder, gate, threads))
        return self.workers[-1]

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        self.stop_scheduler()

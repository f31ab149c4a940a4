"""Does a process that dies cost no other's result, and its own job a second try, alone?"""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from autograder.grading.workers import Workers

DIES = "__import__('os')._exit(1)"


def outlive(path: Path) -> str:
    """Be a process that a broken pool cannot end; at the second time return."""
    if path.exists():
        return "done"
    path.touch()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


def come_after(path: Path) -> None:
    """Return a moment after a file is there."""
    while not path.exists():
        time.sleep(0.01)
    time.sleep(1)


def die_after(path: Path) -> None:
    """End the process then."""
    come_after(path)
    os._exit(1)


def test_run_gives_results_and_errors_as_they_come() -> None:
    """Has each job its value, or the exception in its place?"""
    with Workers(2) as workers:
        found = dict(workers.run(eval, {f"{n}": (f"{n} * {n}",) for n in range(9)} | {"wrong": ("1 / 0",)}))
        again = dict(workers.run(eval, {"more": ("7 * 6",)}))
    assert isinstance(found.pop("wrong"), ZeroDivisionError)
    assert found == {f"{n}": n * n for n in range(9)}
    assert again == {"more": 42}


def test_run_keeps_processes_between_runs() -> None:
    """Do later jobs find what a process has imported and forked before?"""
    with Workers(1) as workers:
        processes = [dict(workers.run(eval, {"process": ("__import__('os').getpid()",)})) for _ in range(2)]
    assert processes[0] == processes[1]


def test_run_tries_a_killed_job_once_more_alone(tmp_path: Path) -> None:
    """Are all others done, each once, when one kills its process the first time, and one always?"""
    path = str(tmp_path / "once")  # the second time the folder is there: an error, and no death
    jobs = {"once": (f"__import__('os').mkdir({path!r}) or {DIES}",)}
    jobs |= {f"{n}": (f"{n}",) for n in range(9)} | {"always": (DIES,)} | {f"{n}": (f"{n}",) for n in range(9, 12)}
    with Workers(3) as workers:
        given = list(workers.run(eval, jobs))
    assert sorted(name for name, _ in given) == sorted(jobs)
    found = dict(given)
    assert isinstance(found.pop("always"), BrokenProcessPool)
    assert isinstance(found.pop("once"), FileExistsError)
    assert found == {f"{n}": n for n in range(12)}


def test_run_goes_on_when_a_broken_pool_keeps_a_process(tmp_path: Path) -> None:
    """Is nobody waited for, if a process is left that the pool cannot end, such as one that it made as it broke?"""
    path = tmp_path / "there"
    jobs = {"outlives": (outlive, path), "dies": (die_after, path), "other": (come_after, path)}
    with Workers(3) as workers:
        found = dict(workers.run(call, jobs))
    assert found["outlives"] == "done" and found["other"] is None
    assert isinstance(found["dies"], BrokenProcessPool)


def call(function: Callable[[Path], object], path: Path) -> object:
    """Call a function."""
    return function(path)

"""Does a process that dies, or takes too long, cost no other's result, and its own job a second try?"""

from pathlib import Path

from pebble import ProcessExpired

from autograder.grading.workers import Workers

DIES = "__import__('os')._exit(1)"


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


def test_run_tries_a_killed_job_once_more(tmp_path: Path) -> None:
    """Are all others done, each once, when one kills its process the first time, and one always?"""
    path = str(tmp_path / "once")  # the second time the folder is there: an error, and no death
    jobs = {"once": (f"__import__('os').mkdir({path!r}) or {DIES}",)}
    jobs |= {f"{n}": (f"{n}",) for n in range(9)} | {"always": (DIES,)} | {f"{n}": (f"{n}",) for n in range(9, 12)}
    with Workers(3) as workers:
        given = list(workers.run(eval, jobs))
    assert sorted(name for name, _ in given) == sorted(jobs)
    found = dict(given)
    assert isinstance(found.pop("always"), ProcessExpired)
    assert isinstance(found.pop("once"), FileExistsError)
    assert found == {f"{n}": n for n in range(12)}


def test_run_ends_a_job_that_takes_too_long() -> None:
    """Is a process ended that hears no signal and never comes back, and are the jobs behind it done?"""
    hangs = "[__import__('signal').signal(15, 1), __import__('time').sleep(1000)]"
    with Workers(1, seconds=2.0) as workers:
        found = dict(workers.run(eval, {"hangs": (hangs,)} | {f"{n}": (f"{n}",) for n in range(3)}))
    assert isinstance(found.pop("hangs"), TimeoutError)
    assert found == {f"{n}": n for n in range(3)}

"""If a process dies or takes too long, does its job get a second try, and do other jobs keep their results?"""

from pathlib import Path

import psutil
import pytest
from pebble import ProcessExpired

from autograder.grade.workers import Workers, default_jobs, free_memory

DIES = "__import__('os')._exit(1)"


def test_run_gives_results_and_errors_as_they_come() -> None:
    """Does each job give its value or its exception, and do later jobs find what their process has imported and forked?"""
    process = {"process": ("__import__('os').getpid()",)}
    with Workers(1) as workers:
        found = dict(workers.run(eval, {f"{n}": (f"{n} * {n}",) for n in range(9)} | {"wrong": ("1 / 0",)} | process))
        again = dict(workers.run(eval, process))
    assert isinstance(found.pop("wrong"), ZeroDivisionError)
    assert found == {f"{n}": n * n for n in range(9)} | again


def test_run_tries_a_killed_job_once_more(tmp_path: Path) -> None:
    """If one job kills its process at first, and one job always, are all other jobs done once?"""
    path = str(tmp_path / "once")  # the second time the folder exists, so mkdir raises an error
    jobs = {"once": (f"__import__('os').mkdir({path!r}) or {DIES}",)}
    jobs |= {f"{n}": (f"{n}",) for n in range(9)} | {"always": (DIES,)} | {f"{n}": (f"{n}",) for n in range(9, 12)}
    with Workers(3) as workers:
        given = list(workers.run(eval, jobs))
    assert sorted(name for name, _ in given) == sorted(jobs)
    found = dict(given)
    assert isinstance(found.pop("always"), ProcessExpired)
    assert isinstance(found.pop("once"), FileExistsError)
    assert found == {f"{n}": n for n in range(12)}


@pytest.mark.deep
def test_run_ends_a_job_that_takes_too_long() -> None:
    """If a process ignores signals and never returns, is it ended, and are the jobs after it done?"""
    hangs = "[__import__('signal').signal(15, 1), __import__('time').sleep(1000)]"
    with Workers(1, seconds=1.0) as workers:
        found = dict(workers.run(eval, {"hangs": (hangs,)} | {f"{n}": (f"{n}",) for n in range(3)}))
    assert isinstance(found.pop("hangs"), TimeoutError)
    assert found == {f"{n}": n for n in range(3)}


def test_run_that_nobody_asks_any_more_drops_its_jobs(tmp_path: Path) -> None:
    """If an assignment cannot be graded, does the next one not wait for its jobs?"""
    slow = f"__import__('time').sleep(20) or __import__('os').mkdir({str(tmp_path / 'slow')!r})"
    with Workers(1) as workers:
        run = workers.run(eval, {"first": ("1",), "slow": (slow,)})
        assert next(run) == ("first", 1)
        run.close()
        assert list(workers.run(eval, {"next": ("2",)})) == [("next", 2)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("cores", "free", "jobs"), [(4, 100, 4), (4, 3.5, 2), (4, 0.1, 1), (1, 100, 1)])
def test_default_jobs_follow_cores_and_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, free: float, jobs: int
) -> None:
    """Is there one job for each processor, fewer if memory is short, and at least one?"""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("autograder.grade.workers.free_memory", lambda: int(free * 2**30))
    assert default_jobs() == jobs


@pytest.mark.parametrize(
    ("line", "folder", "limit", "used", "cache"),
    [
        ("0::/job/step", "job", "memory.max", "memory.current", "inactive_file"),
        ("0::/job/step", ".", "memory.max", "memory.current", "inactive_file"),
        ("4:memory:/job", "memory/job", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ("4:memory:/elsewhere", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_free_memory_heeds_the_limit_of_a_container(
    tmp_path: Path, line: str, folder: str, limit: str, used: str, cache: str
) -> None:
    """Is the limit of a control group, or of a group above it, used in both versions? Cached files count as free."""
    groups, place = tmp_path / "groups", tmp_path / "mounted" / folder
    groups.write_text(f"3:cpuset:/\n{line}\n")
    assert free_memory(groups, tmp_path / "mounted") == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    place.mkdir(parents=True)
    for name, value in ((limit, "1000000"), (used, "600000"), ("memory.stat", f"anon 5\n{cache} 100000")):
        (place / name).write_text(f"{value}\n")
    assert free_memory(groups, tmp_path / "mounted") == 500_000
    (place / limit).write_text("max\n")
    assert free_memory(groups, tmp_path / "mounted") > 10**7

"""Does every attack get its fair score, without leaked secrets or harm to others?

The requested attacks are graded once, in one batch for each assignment, with honest submissions in between. The quick
tests try each quick attack on one assignment, and the deep tests try all attacks on all assignments.
"""

import contextlib
import html
import os
import re
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psutil
import pytest
from attacks import (
    ATTACKS,
    FORKED,
    GOOD,
    ONCE,
    PAGE,
    SOON,
    SOON_ON,
    Attack,
    Run,
    automatic_points,
    expected_numbers,
    numbers_in,
    page,
    run_all,
)
from bs4 import BeautifulSoup
from conftest import ALL, deep_is_asked, soon
from in_kernel import same
from making import HOSTILE

from autograder.grade.workers import Workers
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of
from autograder.report.safe_html import MATH

Runs = Callable[[str], Run]


def is_tried(attack: Attack, name: str) -> bool:
    """Whether `make test-all` tries an attack on an assignment; with fresh kernels, each attack is tried on only one."""
    return name in attack.on if FORKED else ONCE[attack.name] == name


def is_quick(attack: Attack, name: str) -> bool:
    """Whether the quick tests try an attack on an assignment."""
    return attack.name in SOON.split() and attack.on[0] == name


BY_NAME = pytest.mark.parametrize(
    ("attack", "name"),
    [
        pytest.param(each, name, id=f"{each.name}-{name}", marks=() if is_quick(each, name) else pytest.mark.deep)
        for name in ALL
        for each in ATTACKS
        if is_tried(each, name)
    ],
)
BY_ASSIGNMENT = pytest.mark.parametrize("name", soon(ALL, *SOON_ON))


def tree(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Return everything below a folder except its course/, by path: mode, size and time of the last change."""
    paths = [path for path in folder.rglob("*") if "course" not in path.relative_to(folder).parts]
    return {path: (about.st_mode, about.st_size, about.st_mtime_ns) for path in paths for about in (path.lstat(),)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, two_workers: Workers) -> Runs:
    """Return a function that gives the run on an assignment: with quick attacks, or all if a deep test runs."""
    everything, outside = deep_is_asked(request), tmp_path_factory.mktemp("attacks")
    (outside / "thesis").mkdir()
    (outside / "thesis" / "chapter.txt").write_text("work of years", encoding="utf-8")
    (outside / "gradebook.db").write_text("of another course", encoding="utf-8")

    @cache
    def run(name: str) -> Run:
        before = tree(outside)
        tried = [attack for attack in ATTACKS if (is_tried if everything else is_quick)(attack, name)]
        done = run_all(outside, name, tried, two_workers)
        assert tree(outside) == before, "something changed outside course/"
        return done

    return run


@BY_NAME
def test_attack_gets_its_fair_score(runs: Runs, attack: Attack, name: str) -> None:
    """Is the score exactly what the honest part earns, and does the state say what happened?"""
    run = runs(name)
    result = run.results.get(attack.folder)
    lost = [] if result is None else [check for check in result.checks if not check["passed"]]
    why = "" if result is None else f"{result.why} {result.questions} {lost[:3]}"
    assert run.state(attack) in attack.fair_states, why
    assert run.score(attack) == attack.fair_score(run.assignment), why


@BY_NAME
def test_attack_learns_nothing(runs: Runs, attack: Attack, name: str) -> None:
    """Are planted secrets, hidden tests and expected values hidden from everything that the student sees?"""
    assert runs(name).leaks(attack.folder) == []


def test_attacks_are_told_apart() -> None:
    """Does each attack have a name of its own, and is each file, and each name of a quick attack, that of an attack?"""
    assert len({*GOOD, *(attack.folder for attack in ATTACKS)}) == len(ONCE) + len(GOOD) == len(ATTACKS) + len(GOOD)
    assert {*ONCE} > {*SOON.split()} and {*ONCE} > {path.stem for path in HOSTILE.glob("*.py")}


@BY_ASSIGNMENT
def test_leaks_would_be_seen(runs: Runs, name: str) -> None:
    """Are the secrets at places where they can be stolen, and is an expected value recognised in a text?"""
    run = runs(name)
    course, canaries, file = run.course.root, run.canaries, f"{run.assignment.notebook}.ipynb"
    assert canaries["a hidden test"] in (course / "source" / name / file).read_text(encoding="utf-8")
    assert canaries["a submission"] in (course / "submitted/b-good" / name / file).read_text(encoding="utf-8")
    with contextlib.closing(sqlite3.connect(course / "gradebook.db")) as database:
        assert (canaries["the gradebook"],) in database.execute("select first_name from student").fetchall()
    expected = expected_numbers(run.assignment)
    assert 200 < len(expected) < 2000
    assert numbers_in(f"the weights are [{max(map(float, expected)):.9f}]") & expected
    assert canaries["a submission"] in run.seen_by("b-good")


@BY_ASSIGNMENT
def test_honest_submissions_come_to_no_harm(runs: Runs, name: str) -> None:
    """Do the honest submissions in between have all their points, and a page of feedback?"""
    run, points = runs(name), sum(automatic_points(runs(name).assignment).values())
    for student in GOOD:
        assert (run.results[student].state, run.scores[student]) == ("graded", points)
        assert run.feedback(student).exists()
        assert run.leaks(student) == []


@BY_ASSIGNMENT
def test_every_submission_has_a_state_and_bounded_feedback(runs: Runs, name: str) -> None:
    """Does every submission have a result, on disk too, and with a score a page and a notebook of a limited size?"""
    run = runs(name)
    assert len(os.listdir(run.course.root / "submitted")) == len(run.attacks) + len(GOOD) == len(run.results)
    kept = {result.student: result.state for result in run.course.load_results(name)}
    assert kept == {student: result.state for student, result in run.results.items()}
    for student, result in run.results.items():
        path = run.feedback(student)
        assert result.recorded and result.state != "not graded"
        assert path.exists() == result.has_score
        if result.has_score:
            assert path.stat().st_size < 12_000_000
            assert "The notebook itself cannot be shown" not in path.read_text(encoding="utf-8")
            assert run.course.autograded_path(student, run.assignment).stat().st_size < 10_000_000


@BY_ASSIGNMENT
def test_gradebook_is_whole(runs: Runs, name: str) -> None:
    """Is the database intact, does it hold exactly the students, and did no person give points?"""
    run = runs(name)
    with contextlib.closing(sqlite3.connect(run.course.root / "gradebook.db")) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        students = {name for (name,) in database.execute("select id from student")}
        assert database.execute("select count(*) from grade where manual_score is not null").fetchone() == (0,)
        most = database.execute("select max(auto_score) from grade").fetchone()
    assert students == {student for student in run.results if not student.startswith("(")}
    assert most == (max(automatic_points(run.assignment).values()),)


@BY_ASSIGNMENT
def test_nothing_of_this_machine_was_reached_and_no_process_is_left(runs: Runs, name: str) -> None:
    """Did no submission connect to a service, and has every process ended, even those that ignored signals?"""
    run = runs(name)
    assert run.connections == 0
    users = {200_000 + process for process in run.processes}
    left = []
    for process in psutil.process_iter(["pid", "cmdline", "uids", "status"]):
        command = " ".join(process.info["cmdline"] or [])
        ours = str(run.course.root) in command or (process.info["uids"] and process.info["uids"].real in users)
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            left.append(command)
    started = set(psutil.Process().children(recursive=True)) - run.before
    left += [process.name() for process in started if process.name() in ("bwrap", "setpriv")]
    assert left == []


@BY_NAME
def test_feedback_carries_nothing_active(runs: Runs, attack: Attack, name: str) -> None:
    """Is the page safe: can no text, output, error or name of a student run, load or cover anything on it?"""
    run = runs(name)
    if run.score(attack) is None:
        return
    soup, good = (BeautifulSoup(run.feedback(of).read_text("utf-8"), "html.parser") for of in (attack.folder, GOOD[0]))
    assert attack.name != "active-outputs" or soup.text.count("<script>alert(1)</script>") > 3  # it is still readable
    for kinds in (("script", "style"), ("meta", "link")):
        assert list(map(str, soup.find_all(kinds))) == list(map(str, good.find_all(kinds)))
    assert soup.select("iframe,frame,object,embed,applet,form,input,button,base,svg,audio") == []
    for element in soup.find_all(True):
        for key, value in element.attrs.items():
            text = re.sub(r"[\x00-\x20]", "", html.unescape("".join(value))).lower()
            assert not key.lower().startswith("on"), str(element)[:200]
            assert not re.match(r"(javascript|vbscript|data:text|data:image/svg)", text), str(element)[:200]
            assert key != "style" or not re.search(r"url\(|position|expression|@import", text), str(element)[:200]
    for part in [part for formula in soup.find_all("math") for part in formula.find_all(True)]:
        assert part.name in MATH and not {"href", "src", "style", "actiontype"} & {*part.attrs}
    for image in soup.find_all("img"):
        assert re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*$", image["src"]), str(image)[:200]


def test_security_lists_what_a_forged_reply_can_claim() -> None:
    """Does SECURITY.md list each test whose right result is the same for all inputs?"""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("| Assignment | Tests |")[2]
    exercises = [each for stem in ALL.values() for each in exercises_of(stem).values()]
    found = set()
    for exercise, stage in ((each, stage) for each in exercises for stage in each.stages):
        one, other = ([case["expected"] for case in exercise.stage_cases(stage, seed)] for seed in (1, 2))
        if one and same(one, other):
            found.add(f"{exercise.name}_{stage}")
    assert set(re.findall(r"`(\w+_\w+)`[,\s]", table)) - {*ALL} == found


def test_page_of_the_book_shows_the_attacks() -> None:
    """Is book/attacks.md what the table says?"""
    assert PAGE.read_text(encoding="utf-8") == page(), 'run "python tests/sandbox/attacks.py"'

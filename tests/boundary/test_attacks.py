"""Does every attack get its fair mark, and do neither secrets get out nor others come to harm?

Those that are asked for, all of attacks.py or the quick ones, are graded once, in one batch with honest submissions in between.
"""

import html
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from attacks import ATTACKS, FORKED, GOOD, GROUPS, PAGE, QUICK, Attack, Run, expected_numbers, numbers_in, page, run_all
from bs4 import BeautifulSoup
from conftest import NAME

from autograder.reporting.written import MATH

BY_NAME = pytest.mark.parametrize(
    "attack",
    [pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.deep) for each in ATTACKS],
)


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return everything below a folder that is not in its course/, by path: kind, size and time of the last change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "course" not in path.relative_to(folder).parts:
            info = path.lstat()
            found[str(path)] = (info.st_mode, info.st_size, info.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the course, and beside it what must stay as it is."""
    root = tmp_path_factory.mktemp("attacks")
    (root / "thesis").mkdir()
    (root / "thesis" / "chapter.txt").write_text("work of years", encoding="utf-8")
    (root / "gradebook.db").write_text("of another course", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def run(outside: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """The quick attacks, and all where one of the deep tests is to run, graded in one batch."""
    everything = any(i.path == request.path and i.get_closest_marker("deep") for i in request.session.items)
    before = tree(outside)
    run = run_all(outside, [attack for attack in ATTACKS if everything or attack.name in QUICK])
    assert tree(outside) == before, "something changed outside course/"
    yield run


@BY_NAME
def test_attack_gets_its_fair_mark(run: Run, attack: Attack) -> None:
    """Is the mark exactly what the honest part earns, and does the state say what happened?"""
    result = run.results.get(attack.folder)
    why = "" if result is None else f"{result.why} {[check for check in result.checks if not check['passed']][:3]}"
    assert run.state(attack) in attack.fair_states, why
    assert run.mark(attack) == attack.mark, why


@BY_NAME
def test_attack_learns_nothing(run: Run, attack: Attack) -> None:
    """Does no planted secret, no hidden test and no expected value reach what the student gets to see?"""
    assert run.leaks(attack.folder) == []


def test_attacks_have_names_of_their_own() -> None:
    """Is no attack replaced by another of the same name, and are there as many as we say?"""
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) == sum(map(len, GROUPS.values()))
    assert len({attack.folder for attack in ATTACKS} | set(GOOD)) == len(ATTACKS) + len(GOOD)
    assert QUICK.keys() < {attack.name for attack in ATTACKS}


def test_leaks_would_be_seen(run: Run) -> None:
    """Are the secrets planted where they can be stolen, and is an expected value recognised where it stands?"""
    course, canaries = run.course.root, run.canaries
    assert canaries["a hidden test"] in (course / "source" / NAME / "attention.ipynb").read_text(encoding="utf-8")
    assert canaries["a submission"] in (course / "submitted/b-good" / NAME / "attention.ipynb").read_text(
        encoding="utf-8"
    )
    with sqlite3.connect(course / "gradebook.db") as database:
        assert (canaries["the gradebook"],) in database.execute("select first_name from student").fetchall()
    expected = expected_numbers(run.assignment)
    assert len(expected) > 200
    assert numbers_in(f"the weights are [{float(next(iter(expected))):.9f}]") <= expected | {"0.00000e+00"}
    assert canaries["a submission"] in run.seen_by("b-good")


@pytest.mark.parametrize("student", GOOD)
def test_honest_submissions_come_to_no_harm(run: Run, student: str) -> None:
    """Have the honest ones in between all their points, and a page of feedback?"""
    assert (run.results[student].state, run.marks[student]) == ("graded", 15)
    assert (run.course.root / "feedback" / student / NAME / "attention.html").exists()
    assert run.leaks(student) == []


def test_every_submission_has_a_state(run: Run) -> None:
    """Is nobody missing from the results, on disk too, and has nobody failed on our side?"""
    folders = set(os.listdir(run.course.root / "submitted"))
    assert len(folders) == len(run.attacks) + len(GOOD)
    assert len(run.results) == len(folders)
    assert [s for s, result in run.results.items() if result.state == "not graded"] == []
    kept = {result.student: result.state for result in run.course.load_results(NAME)}
    assert kept == {student: result.state for student, result in run.results.items()}
    assert all(result.recorded for result in run.results.values())


def test_every_marked_submission_has_feedback_of_bounded_size(run: Run) -> None:
    """Is there a page for everybody with marks, and is neither page nor executed notebook larger than a browser likes?"""
    for student, result in run.results.items():
        path = run.course.root / "feedback" / student / NAME / "attention.html"
        assert path.exists() == result.has_marks
        if result.has_marks:
            assert path.stat().st_size < 12_000_000
            assert "The notebook itself cannot be shown" not in path.read_text(encoding="utf-8")
            assert run.course.autograded_path(student, run.assignment).stat().st_size < 10_000_000


def test_gradebook_is_whole(run: Run) -> None:
    """Is the database sound, does it hold exactly the students, and did nobody give a mark by hand?"""
    with sqlite3.connect(run.course.root / "gradebook.db") as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        students = {name for (name,) in database.execute("select id from student")}
        assert database.execute("select count(*) from grade where manual_score is not null").fetchone() == (0,)
        most = database.execute("select max(auto_score) from grade").fetchone()
    assert students == {student for student in run.results if not student.startswith("(")}
    assert most == (1.0,)


def test_nothing_of_this_machine_was_reached(run: Run) -> None:
    """Did nobody connect to a service of this machine?"""
    assert run.connections == 0


def test_no_process_is_left(run: Run) -> None:
    """Is every process of every sandbox gone, those too that left their session and ignored signals?"""
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


def soup_of(run: Run, student: str) -> BeautifulSoup:
    """Return a page of feedback, parsed."""
    path = run.course.root / "feedback" / student / NAME / "attention.html"
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@BY_NAME
def test_feedback_carries_nothing_active(run: Run, attack: Attack) -> None:
    """Does nothing of what a student wrote, printed, raised or is called run, load or cover anything on the page?"""
    if run.mark(attack) is None:
        return
    soup, good = soup_of(run, attack.folder), soup_of(run, GOOD[0])
    assert [str(s) for s in soup.find_all(("script", "style"))] == [str(s) for s in good.find_all(("script", "style"))]
    forbidden = (
        "iframe",
        "frame",
        "object",
        "embed",
        "applet",
        "form",
        "input",
        "button",
        "base",
        "svg",
        "audio",
    )
    assert soup.find_all(forbidden) == []
    assert [str(m) for m in soup.find_all(("meta", "link"))] == [str(m) for m in good.find_all(("meta", "link"))]
    for element in soup.find_all(True):
        for name, value in element.attrs.items():
            text = re.sub(r"[\x00-\x20]", "", html.unescape("".join(value))).lower()
            assert not name.lower().startswith("on"), str(element)[:200]
            assert not re.match(r"(javascript|vbscript|data:text|data:image/svg)", text), str(element)[:200]
            assert name != "style" or not re.search(r"url\(|position|expression|@import", text), str(element)[:200]
    for part in [part for formula in soup.find_all("math") for part in formula.find_all(True)]:
        assert part.name in MATH and not {"href", "src", "style", "actiontype"} & {*part.attrs}
    for image in soup.find_all("img"):
        assert re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*$", image["src"]), str(image)[:200]


def test_class_report_carries_nothing_active(run: Run) -> None:
    """Does the page for the instructor show hostile names and reasons as text?"""
    path = run.course.root / "report" / NAME / "index.html"
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    assert len(soup.find_all("script")) == 1
    assert [e for e in soup.find_all(True) if any(name.lower().startswith("on") for name in e.attrs)] == []
    assert not [
        link["href"] for link in soup.find_all("a") if re.match(r"\s*(javascript|data|http)", link["href"], re.I)
    ]
    for name in ("marks.csv", "mistakes.csv"):
        text = (path.parent / name).read_text(encoding="utf-8-sig")
        assert not [line for line in text.splitlines() if line.startswith(("=", "+", "@", "-"))]
        assert not [place for place, secret in run.canaries.items() if secret in text]


@pytest.mark.deep
@pytest.mark.skipif(not FORKED, reason="the page shows the run on forked kernels")
def test_page_of_the_book_says_what_the_run_gave(run: Run) -> None:
    """Is book/attacks.md what this run of the grader gives?"""
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == page(run), (
        'run "python tests/boundary/attacks.py --write"'
    )

"""Does no name of a student run as code in nbgrader's formgrader? Its own server is tested in a real browser."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest
from conftest import NAME
from playwright.sync_api import Browser
from test_report import result

from autograder.course.course import Assignment, Course
from autograder.course.forget import forget
from autograder.course.gradebook import ORIGINALS, id_in_gradebook, student_of
from autograder.files import write_atomically
from autograder.spreadsheets import write_table

SCRIPT = "<img src=x onerror=alert(1)>"
IDS = (SCRIPT, '";alert(2);"', '\\";alert(3);x="', "</script><script>alert(4)</script>", "o'brien", "two\nlines")
HONEST = ("O'Brien", "Müller", "D'Angelo & Söhne", "名前", 'Doe, "Jr"', "-")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment) -> Course:
    """A class with hostile ids and names; each student has a graded submission."""
    course = Course(tmp_path_factory.mktemp("hostile names"))
    rows = [(each, SCRIPT, SCRIPT, f"{SCRIPT}@x") for each in IDS]
    write_atomically(course.root / "roster.csv", write_table(["id", "first_name", "last_name", "email"], rows))
    course.prepare(assignment)
    for student in IDS:
        outcome = result(assignment, student, {})
        write_atomically(course.submission_folder(student.replace("/", "|"), NAME) / "attention.ipynb", "{}")
        if "/" not in student:
            text = nbformat.writes(assignment.release) + "\n"
            write_atomically(course.autograded_path(student, assignment), text)
            course.save_result(outcome)
            course.record(outcome, assignment)
    return course


@pytest.fixture(scope="module")
def formgrader(course: Course) -> Iterator[str]:
    """The address of nbgrader's server on this machine's loopback."""
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=0", "--ip=127.0.0.1"]
    command += [
        "--IdentityProvider.token=",
        "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
    ]
    command += ["--allow-root"] if os.geteuid() == 0 else []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "JUPYTER_CONFIG_DIR": str(course.root / ".jupyter")}
    options = {"cwd": course.root, "env": environment, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options) as server:
        said = []
        for line in server.stderr:
            said.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+/)", line):
                yield f"{found[1]}formgrader"
                break
        else:
            pytest.fail("the server did not start: " + "".join(said))
        server.terminate()
        for _ in server.stderr:
            pass


@pytest.mark.deep
def test_no_name_runs_in_formgrader(browser: Browser, course: Course, assignment: Assignment, formgrader: str) -> None:
    """Does each page show the students' names without running them?"""
    with contextlib.closing(sqlite3.connect(course.root / "gradebook.db")) as database:
        ids = [own for (own,) in database.execute("select id from student order by id")]
        submissions = [own for (own,) in database.execute("select id from submitted_notebook")]
    assert len(submissions) == len(IDS) - 1 == len(ids)
    pages = ["manage_students", f"manage_submissions/{NAME}", f"gradebook/{NAME}/{assignment.notebook}"]
    pages += [f"manage_students/{quote(own)}" for own in ids] + [f"manage_students/{quote(own)}/{NAME}" for own in ids]
    pages += [f"submissions/{own}/" for own in submissions]
    page, ran = browser.new_page(), []
    page.on("dialog", lambda dialog: (ran.append((page.url, dialog.message)), dialog.dismiss()))
    page.on("pageerror", lambda error: ran.append((page.url, str(error))))
    page.route(
        lambda address: not address.startswith(formgrader.removesuffix("formgrader")), lambda route: route.abort()
    )
    seen = ""
    for address in pages:
        response = page.goto(f"{formgrader}/{address}", wait_until="networkidle")
        assert response.status == 200, address
        seen += page.inner_text("body")
    page.close()
    assert [each for each in ran if "MathJax" not in each[1]] == []  # MathJax is from another host
    assert "‹img src=x onerror=alert(1)›" in seen and id_in_gradebook(SCRIPT) in seen and "o'brien" in seen


def test_gradebook_holds_honest_names_as_they_are(tmp_path: Path, assignment: Assignment) -> None:
    """Are ordinary ids and names unchanged?"""
    course = Course(tmp_path)
    write_atomically(course.root / "roster.csv", write_table(["id", "first_name"], zip(HONEST, HONEST)))
    course.prepare(assignment)
    with contextlib.closing(sqlite3.connect(course.root / "gradebook.db")) as database:
        names = dict(database.execute("select id, first_name from student"))
    assert {student_of(own): name for own, name in names.items()} == {each: each for each in HONEST}
    assert set(names) & set(HONEST) == set(HONEST) - {'Doe, "Jr"'}


def test_ids_and_their_twins_are_never_one_student(course: Course, assignment: Assignment) -> None:
    """Is an id with a twin refused, so that two students never share a row, and is each id found again?"""
    twins = "".join(map(chr, ORIGINALS.values()))
    assert student_of(id_in_gradebook(f"a{twins}b")) == f"a{twins}b"
    (course.root / "submitted" / id_in_gradebook(SCRIPT)).mkdir()
    assert id_in_gradebook(SCRIPT) not in course.students() and SCRIPT in course.students()
    assert "a student's name must not contain ＜ ＞; rename it" in course.unfit_names().values()
    assert set(course.scores(assignment)) == {each for each in IDS if "/" not in each}
    assert "the student's rows in the gradebook" in forget(course, SCRIPT)
    assert (
        SCRIPT not in course.scores(assignment) and not (course.root / "autograded" / id_in_gradebook(SCRIPT)).exists()
    )

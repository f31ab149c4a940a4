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
from autograder.files import write_atomically
from autograder.spreadsheets import write_table

SCRIPT = "<img src=x onerror=alert(1)>"
REFUSED = (SCRIPT, '";alert(2);"', '\\";alert(3);x="', "two\nlines", "x" * 121)
IDS = ("o'brien", "Müller", "D'Angelo & Söhne", "名前", "=1+1", "-", "y" * 120)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment) -> Course:
    """A class with hostile names, and with ids of which some are refused; each student has a graded submission."""
    course = Course(tmp_path_factory.mktemp("hostile names"))
    rows = [(each, SCRIPT, SCRIPT, f"{SCRIPT}@x") for each in (*IDS, *REFUSED)]
    write_atomically(course.root / "roster.csv", write_table(["id", "first_name", "last_name", "email"], rows))
    course.prepare(assignment)
    for student in (*IDS, *REFUSED):
        write_atomically(course.submission_folder(student, NAME) / "attention.ipynb", "{}")
    for student in IDS:
        text = nbformat.writes(assignment.release) + "\n"
        write_atomically(course.autograded_path(student, assignment), text)
        course.record(result(assignment, student, {}), assignment)
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
    assert ids == sorted(IDS) and len(submissions) == len(IDS)
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
    assert "‹img src=x onerror=alert(1)›" in seen and all(own in seen for own in IDS)


def test_id_that_could_end_a_text_in_a_page_is_refused(course: Course) -> None:
    """Is each such id, and a too long one, refused with the reason, and every other id as it was written?"""
    assert course.students() == sorted(IDS)
    assert len(course.unfit_names()) == len(REFUSED)
    assert "'two\\nlines' has '\\n', which an id may not have; rename it" in course.unfit_names().values()

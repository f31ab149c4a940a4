"""Is a course in PostgreSQL the same as one in a file?"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_recording import grade_manually, make_course, record_first, rows

from autograder.course.course import Assignment, Course
from autograder.lms.export_scores import Export
from autograder.report.feedback import write_feedback
from autograder.report.report import write_report

pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed (psycopg, of requirements.txt)")

INITDB = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
SECRET = "not%40shown%2Fany%20where"  # a password in the address; this server asks for none


class Server:
    """A server in its own folder, which answers only on a socket there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user = folder, "nobody" if os.geteuid() == 0 else None
        if self.user:  # the server refuses to run as root
            shutil.chown(folder, self.user)
        self.run("initdb", "-D", "data", "-U", "grader", "--no-sync", "--encoding=UTF8", "--locale=C")

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs."""
        with (self.folder / "log").open("ab") as log:
            command, where = (
                [Path(INITDB).resolve().with_name(program), *arguments],
                {"PATH": os.defpath, "LC_ALL": "C"},
            )
            subprocess.run(command, user=self.user, cwd=self.folder, env=where, stdout=log, stderr=log, check=True)

    def start(self) -> None:
        """Start the server."""
        self.run("pg_ctl", "start", "-w", "-D", "data", "-o", f"-c listen_addresses='' -k {self.folder}")

    def stop(self) -> None:
        """Stop the server, and cut all connections."""
        self.run("pg_ctl", "stop", "-w", "-D", "data", "-m", "immediate")

    def new_database(self) -> str:
        """Make an empty database, and return its address as an instructor writes it."""
        self.run("createdb", "-h", str(self.folder), "-U", "grader", "course")
        return f"postgresql://grader:{SECRET}@/course?host={self.folder}"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """A server for these tests."""
    if INITDB is None:
        pytest.skip("PostgreSQL's programs are not installed (Debian's package postgresql)")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pg-") as folder:
        server = Server(Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def pair(running: Server, assignment: Assignment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, Course]:
    """The same class twice, in PostgreSQL and in a file: recorded, graded manually, recorded again with other points."""
    root = tmp_path_factory.mktemp("pair")
    courses = make_course(root / "server", assignment, running.new_database()), make_course(root / "file", assignment)
    for course in courses:
        record_first(course, assignment, Course.record, 0)
        grade_manually(course, assignment)
        record_first(course, assignment, Course.record, 1)
        course.prepare(assignment)
    return courses


def test_postgresql_has_the_rows_and_gives_the_pages_of_a_file(
    pair: tuple[Course, Course], assignment: Assignment
) -> None:
    """Are all rows, the report, the export and a page of feedback those of a file, and is there no file next to it?"""
    served, filed = pair
    assert rows(served) == rows(filed)
    assert not (served.root / "gradebook.db").exists()
    made = []
    for course in pair:
        results = course.load_results(assignment.name)
        pages = [write_report(course, assignment, results), *write_feedback(course, assignment, results[:1])]
        pages += Export(course, assignment, results, "csv", allow_waiting=True).write()
        made.append([page.read_bytes() for page in pages])
    assert made[0] == made[1]

"""Are regrade requests, extensions and a new gradebook right for students and graders who do not wait for each other?"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import assignment_of
from test_cli import run

from autograder.course.course import Course
from autograder.course.extensions import read_extensions, write_extension
from autograder.course.gradebook import lateness, read_url
from autograder.course.recording import add_students, opened
from autograder.course.regrade_requests import answer_request, read_requests
from autograder.files import write_atomically

NAME = "1_attention"
ASKED = (
    f"student,assignment,part,why\nADA,{NAME},Softmax,First\nada, 1_Attention ,softmax,Second\nben,{NAME},mask,Mine\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of two students with a due date and three requests."""
    write_atomically(tmp_path / "roster.csv", "id\nada\nben\n")
    write_atomically(tmp_path / "regrade-requests.csv", ASKED)
    write_atomically(tmp_path / "course.toml", f'timezone = "UTC"\n[due]\n{NAME} = 2026-11-03 12:00:00\n')
    return tmp_path


def answers(root: Path) -> list[str]:
    """Return the answers in the table."""
    return [request.answer for request in read_requests(root)]


def test_later_request_gets_its_own_answer(root: Path) -> None:
    """Does an answer go to the requests that are open, and keep the answer of an earlier request?"""
    write_atomically(
        root / "regrade-requests.csv", ASKED.replace("why\n", "why,answer\n").replace("First", "First,No.")
    )
    answer_request(root, "ada", NAME, "softmax", "Yes.", ["ada", "ben"])
    assert answers(root) == ["No.", "Yes.", ""]
    answer_request(root, "ada", NAME, "softmax", "Yes, indeed.", ["ada", "ben"])
    assert answers(root) == ["No.", "Yes, indeed.", ""]


def test_capitals_and_spaces_do_not_matter(root: Path) -> None:
    """Does an answer reach requests whose names were typed with capitals or spaces?"""
    assert run("answer", "ada", NAME, "softmax", "Both.", "--course", str(root)).exit_code == 0
    assert answers(root) == ["Both.", "Both.", ""]


def test_unknown_student_is_named(root: Path) -> None:
    """Is an answer to nobody in the course refused?"""
    write_atomically(root / "regrade-requests.csv", ASKED.replace("ben", "nobody"))
    done = run("answer", "nobody", NAME, "mask", "No.", "--course", str(root))
    assert done.exit_code == 1 and "nobody in the course has the id 'nobody'" in " ".join(done.output.split())
    assert answers(root) == ["", "", ""]


def test_table_of_requests_holds_no_formula(root: Path) -> None:
    """Can a spreadsheet open the table, whatever students and the answer contain?"""
    write_atomically(root / "regrade-requests.csv", ASKED.replace("Second", "=1+1"))
    answer_request(root, "ada", NAME, "softmax", "=HYPERLINK(1)", ["ada"])
    answer_request(root, "ada", NAME, "softmax", "=HYPERLINK(2)", ["ada"])
    text = (root / "regrade-requests.csv").read_text(encoding="utf-8")
    assert ",=" not in text and "'=1+1" in text and "'=HYPERLINK(2)" in text and "''" not in text


@pytest.mark.parametrize(
    ("until", "late"), [("2026-11-05 12:00", True), ("2026-11-06", False), ("2026-11-05T14:00:00+00:00", False)]
)
def test_extension_counts_for_a_student_who_submits_later(root: Path, until: str, late: bool) -> None:
    """Does an extension count that was given before the student submitted, also after a change of the due date?"""
    course, assignment = Course(root), assignment_of(NAME)
    done = run("extend", "ada", NAME, until, "--course", str(root))
    assert done.exit_code == 0, done.output
    course.prepare(assignment)
    with course.gradebook() as gradebook:
        gradebook.add_submission(NAME, "ada")
    write_atomically(root / "submitted" / "ada" / NAME / "timestamp.txt", "2026-11-05 13:00:00 UTC")
    course.renew_lateness(assignment)
    with course.reading() as db:
        assert lateness(db, NAME)["ada"].late == late
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(NAME, "ada").extension > timedelta()


@pytest.mark.parametrize(
    ("student", "until", "said"),
    [
        ("cai", "2026-12-04", "nobody in the course has the id 'cai'"),
        ("ada", "next week", "'next week' is not a time: write it as"),
        ("ada", "2026-11-01", "is before the due date"),
    ],
)
def test_extension_that_cannot_be_is_refused(root: Path, student: str, until: str, said: str) -> None:
    """Is an unknown student, an unreadable time or a time before the due date refused?"""
    done = run("extend", student, NAME, until, "--course", str(root))
    assert done.exit_code == 1 and said in " ".join(done.output.split())
    assert not (root / "extensions.csv").exists()


def test_extension_counts_for_an_id_like_a_formula(root: Path) -> None:
    """Does an extension reach a student whose id a spreadsheet would read as a formula, and is it written once?"""
    for until in ("2026-12-04", "2026-12-05"):
        write_extension(root, "+cai", NAME, until)
    assert [*read_extensions(root, Course(root).settings, NAME)] == ["+cai"]
    assert len((root / "extensions.csv").read_text(encoding="utf-8").splitlines()) == 2


def make_gradebook(root: Path, student: str) -> None:
    """Open a gradebook, and write a student."""
    with opened(read_url("sqlite:///gradebook.db", root)) as gradebook:
        add_students(gradebook, [{"id": student}])


def test_two_graders_make_one_gradebook(tmp_path: Path) -> None:
    """If two graders begin in a new course at the same moment, is the gradebook made once, and does it have both students?"""
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as graders:
        for number in range(4):  # in the first course, the processes still begin one after the other
            root = tmp_path / str(number)
            root.mkdir()
            list(graders.map(make_gradebook, [root] * 3, ("ada", "ben", "cai")))
            with opened(read_url("sqlite:///gradebook.db", root)) as gradebook:
                assert {student.id for student in gradebook.students} == {"ada", "ben", "cai"}

"""Does `collect` take the file with the work, name the others with the reason, and ask if it cannot decide?"""

import nbformat
import pytest
from conftest import ALL, NAME, assignment_of
from downloads import ADA, answered, collect, outcomes, submitted, write_zip

from autograder.course.course import NEEDS_A_LOOK, Assignment, Course
from autograder.imports import ROOT
from autograder.lms.collect import MAX_LISTED

SOLVED = answered(softmax="1", attention="2")
OTHER = answered(softmax="1", attention="3")
CANVAS = "lovelaceada_501"


@pytest.fixture
def collected(course: Course, assignment: Assignment, tmp_path):
    """Return a function that collects files in an archive and returns the outcome of each."""
    numbers = iter(range(100))

    def run(files: dict[str, bytes]) -> dict[str, str]:
        lines = collect(course, assignment, [write_zip(tmp_path / f"{next(numbers)}.zip", files)])
        return {name: outcome.removesuffix(" ada") for name, outcome in outcomes(lines).items()}

    return run


@pytest.mark.parametrize(
    "folder", ["ada/2_multihead", "ada/exercises/2_multihead", "ada/book", f"ada/{NAME}/2_multihead"]
)
@pytest.mark.parametrize("other_too", [True, False])
def test_a_notebook_in_the_folder_of_another_assignment_counts_if_it_is_the_only_one(
    folder: str, other_too: bool, collected, course: Course
) -> None:
    """Is the work collected from a wrong folder, unless there is a notebook where it belongs?"""
    other = {
        "ada/exercises/2_multihead/multihead.ipynb": nbformat.writes(assignment_of("2_multihead").release).encode()
    }
    own = {f"ada/exercises/{NAME}/attention.ipynb": OTHER} if other_too else {}
    collected({f"{folder}/attention.ipynb": SOLVED} | other | own)
    assert submitted(course) == {"ada": OTHER if other_too else SOLVED}


@pytest.mark.parametrize("top", ["", "attention-course-main/"])
def test_an_archive_of_the_whole_course_gives_its_exercise(
    top: str, collected, course: Course, assignment: Assignment, tmp_path
) -> None:
    """Is the exercise's notebook taken from an archive that holds chapters and other exercises, without a question?"""
    files = {f"{top}{path.relative_to(ROOT)}": path.read_bytes() for path in ROOT.glob("book/*.ipynb")}
    files |= {f"{top}exercises/{name}/{name[2:]}.ipynb": OTHER for name in ALL}
    files |= {f"{top}exercises/{NAME}/attention.ipynb": SOLVED, f"{top}README.md": b"# The course"}
    collected({f"{ADA}/work.zip": write_zip(tmp_path / "inner.zip", files).read_bytes()})
    assert submitted(course) == {"ada": SOLVED}
    assert course.read_submission("ada", assignment).questions == []


def test_two_solved_ones_are_kept_and_asked_about(
    collected, blank: bytes, course: Course, assignment: Assignment
) -> None:
    """Are both files kept under their names, does the same download change nothing, and does a later attempt end the question?"""
    files = {f"{ADA}/attention.ipynb": SOLVED, f"{ADA}/mine/attention.ipynb": OTHER, f"{ADA}/a.ipynb": blank}
    for taken in ("collected", "unchanged"):
        said = collected(files)
        assert sorted(said.values()) == sorted([taken, NEEDS_A_LOOK, "left alone"])
        found = course.find_files("ada", assignment)
        assert sorted(each.name for each in found.notebooks) == ["attention (2).ipynb", "attention.ipynb"]
        (question,) = course.read_submission("ada", assignment).questions
        (counts,) = (name for name, outcome in said.items() if outcome == taken)
        assert course.read_submission("ada", assignment).data == files[counts], question
    assert not (course.root / "earlier").exists()
    later = answered(softmax="5")
    assert collected({f"{ADA}/attention.ipynb": later}) == {f"{ADA}/attention.ipynb": "collected"}
    assert submitted(course) == {"ada": later}
    assert {path.read_bytes() for path in course.root.glob("earlier/ada/*/001/*.ipynb")} == {SOLVED, OTHER}
    assert course.read_submission("ada", assignment).questions == []


@pytest.mark.parametrize("names", ["10_attention 20_a", "10_attention-1 20_attention-2"])
def test_of_two_files_in_canvas_the_later_one_is_taken_and_asked_about(
    names: str, collected, course: Course, assignment: Assignment
) -> None:
    """Are two files of one download one attempt, whatever numbers end their names? A later upload is taken for now."""
    one, other = (f"{CANVAS}_{name}.ipynb" for name in names.split())
    collected({one: SOLVED, other: OTHER})
    found = course.read_submission("ada", assignment)
    assert found.data == OTHER and "both with changed answers" in found.questions[0]


@pytest.mark.parametrize("fault", ["holds no changed answer", "cannot be read"])
def test_a_wrong_attempt_after_a_solved_one_is_a_question(
    fault: str, collected, blank: bytes, course: Course, assignment: Assignment
) -> None:
    """Does a wrong last upload raise a question instead of costing points, in any order of downloads?"""
    wrong = b"<html>" if "read" in fault else blank
    first, last = {f"{CANVAS}_10_attention.ipynb": SOLVED}, {f"{CANVAS}_20_attention-1.ipynb": wrong}
    for files in (first, last, first, last):
        collected(files)
    found = course.read_submission("ada", assignment)
    assert found.data == SOLVED
    assert "the last attempt" in found.questions[0] and fault in found.questions[0]
    collected({f"{CANVAS}_30_attention-2.ipynb": OTHER})
    assert course.read_submission("ada", assignment).data == OTHER
    assert course.read_submission("ada", assignment).questions == []


def test_the_list_of_what_is_left_alone_has_an_end(collected) -> None:
    """Do a thousand files next to a notebook give only a few lines?"""
    said = collected({f"{ADA}/{number}.png": b"\x89PNG" for number in range(1000)} | {f"{ADA}/a.ipynb": SOLVED})
    assert len(said) == MAX_LISTED + 2
    assert f"{1000 - MAX_LISTED} more files" in said

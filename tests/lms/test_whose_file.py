"""Does only the top of a path name a file's owner, so that no student's file changes another student's?"""

import stat
import unicodedata
import zipfile
from pathlib import Path

import pytest
from conftest import NAME
from downloads import answered, collect, listing, notebook, outcomes, submitted, write_roster, write_zip
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course.course import NEEDS_A_LOOK, Assignment, Course
from autograder.lms.ledger import Line

ADAS = answered(softmax="'ada'")
EVES = answered(softmax="'eve'")
MOODLE_ADA, MOODLE_EVE = "Ada Lovelace_100_assignsubmission_file_", "Eve =1+1_104_assignsubmission_file_"
DEEPER = [
    f"ada/exercises/{NAME}/attention.ipynb",
    f"exercises/{NAME}/ada/attention.ipynb",
    f"ada/{NAME}/attention.ipynb",
    f"{NAME}/ada/attention.ipynb",
    "ada/attention.ipynb",
    "ada_attention.ipynb",
    f"{MOODLE_ADA}/attention.ipynb",
    "lovelaceada_501_9999_attention.ipynb",
    f"submitted/ada/{NAME}/attention.ipynb",
    "/".join(["ada"] * 60 + ["attention.ipynb"]),
]


def collected(course: Course, assignment: Assignment, path: Path) -> list[Line]:
    """Collect Ada's submission, then Eve's files; Ada's must not change."""
    hers = {"ada/attention.ipynb": ADAS}
    collect(course, assignment, [write_zip(path.parent / "hers.zip", hers)])
    before = listing(course.root / "submitted/ada")
    lines = collect(course, assignment, [path])
    after = listing(course.root / "submitted/ada")
    if not any(line.outcome == NEEDS_A_LOOK for line in lines):
        assert after == before
    assert course.read_submission("ada", assignment).data == ADAS
    return lines


@pytest.mark.parametrize("path", DEEPER)
@pytest.mark.parametrize("top", ["eve", MOODLE_EVE])
@pytest.mark.parametrize("packed", ["zip", "folder", "zip in the download"])
def test_deeper_folders_name_nobody(
    path: str, top: str, packed: str, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Do files in Eve's folder belong to Eve, whatever they are called, in folders and in archives?"""
    if packed == "folder":
        file = tmp_path / "all" / top / path
        file.parent.mkdir(parents=True)
        file.write_bytes(EVES)
        source = tmp_path / "all"
    elif packed == "zip":
        source = write_zip(tmp_path / "all.zip", {f"{top}/{path}": EVES})
    else:
        inner = write_zip(tmp_path / "inner.zip", {path: EVES}).read_bytes()
        source = write_zip(tmp_path / "all.zip", {f"{top}/work.zip": inner})
    lines = collected(course, assignment, source)
    assert submitted(course) == {"ada": ADAS, "eve": EVES}
    assert [line.outcome for line in lines] == ["collected"]


@pytest.mark.parametrize(
    "path",
    [
        "../ada/attention.ipynb",
        "/ada/attention.ipynb",
        "//ada/attention.ipynb",
        "./ada/attention.ipynb",
        "eve/../ada/attention.ipynb",
        "ada/../eve/attention.ipynb",
        f"ada/../../{NAME}/attention.ipynb",
        "C:/ada/attention.ipynb",
        "ada\\attention.ipynb",
        "ada\\../attention.ipynb",
        "..\\ada\\attention.ipynb",
        "\u202eada/attention.ipynb",
        "\u202eada\u202c/attention.ipynb",
        "a\u200bda/attention.ipynb",
        "ada\u200d/attention.ipynb",
        "ada./attention.ipynb",
        "ada /attention.ipynb",
        " ada/attention.ipynb",
        "CON/attention.ipynb",
        "аda/attention.ipynb",  # a Cyrillic letter
        "__MACOSX/ada/attention.ipynb",
        f"{NAME}/ada/attention.ipynb",
        f"{NAME}/attention.ipynb",
        f"exercises/ada/{NAME}/attention.ipynb",
        "exercises/ada/attention.ipynb",
        "book/ada/attention.ipynb",
        ".git/ada/attention.ipynb",
        ".git/attention.ipynb",
        "ada/.git/attention.ipynb",
        f"wrapper/ada/exercises/{NAME}/attention.ipynb",
        f"wrapper/{MOODLE_ADA}/attention.ipynb",
        f"{MOODLE_EVE}{MOODLE_ADA}attention.ipynb",
        f"{MOODLE_ADA}{MOODLE_EVE}/attention.ipynb",
        "attention-x-ada/attention.ipynb",
        "adasattention/attention.ipynb",
        "lovelaceada-attention/attention.ipynb",
    ],
)
@pytest.mark.parametrize("with_roster", [True, False])
def test_hostile_names_match_no_student(
    path: str, with_roster: bool, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Is Ada's submission unchanged, is nothing written elsewhere, and is no file of hers refused?"""
    if not with_roster:
        (course.root / "roster.csv").unlink()
    source = write_zip(tmp_path / "all.zip", {path: EVES})
    outside = listing(tmp_path, without=course.root)
    lines = collected(course, assignment, source)
    assert not [line for line in lines if line.student == "ada"]
    assert lines  # nothing is skipped silently
    (tmp_path / "hers.zip").unlink()
    assert listing(tmp_path, without=course.root) == outside


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_a_link_of_eves_is_not_adas(kind: int, course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a link to Ada's file give Eve nothing?"""
    info = zipfile.ZipInfo("eve/attention.ipynb")
    info.external_attr = kind << 16
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr(info, "../ada/attention.ipynb")
    (line,) = collected(course, assignment, tmp_path / "all.zip")
    assert (line.outcome, line.student) == ("refused", "eve")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ada/attention.ipynb", "ADA/attention.ipynb"),
        ("ada/attention.ipynb", "Ada/exercises/1_attention/attention.ipynb"),
        (f"{MOODLE_ADA}/attention.ipynb", "Ada Lovelace_101_assignsubmission_file_/attention.ipynb"),
        ("ada/attention.ipynb", f"{MOODLE_ADA}/attention.ipynb"),
        ("çem/attention.ipynb", unicodedata.normalize("NFD", "çem/attention.ipynb")),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_two_claims_to_one_student_are_a_question(
    first: str, second: str, together: bool, tmp_path: Path, assignment: Assignment
) -> None:
    """Are both claims kept, neither replaced, and does a person's answer decide?"""
    course = Course(tmp_path / "course")
    write_roster(course, [{"id": "çem"}, {"id": "ada", "first_name": "Ada", "last_name": "Lovelace"}])
    student = "çem" if "em" in first else "ada"
    if student == "çem" and not together:
        second = "ÇEM/attention.ipynb"  # a later collection: another file system writes the same name with other bytes
    sources = [{first: ADAS, second: EVES}] if together else [{first: ADAS}, {second: EVES}]
    for number, files in enumerate(sources):
        lines = collect(course, assignment, [write_zip(tmp_path / f"{number}.zip", files)])
    assert NEEDS_A_LOOK in [line.outcome for line in lines]
    found = course.read_submission(student, assignment)
    assert "two submissions say that they are this student's" in found.questions[0]
    sure = "100" not in first  # the student's id is the name of one folder
    assert found.data == ADAS or not sure
    there = {each.read() for each in course.find_files(student, assignment).notebooks}
    assert there == {ADAS, EVES}
    before = listing(course.root)
    collect(course, assignment, [tmp_path / f"{len(sources) - 1}.zip"])
    assert listing(course.root / "submitted") == {
        name.removeprefix("submitted/"): data for name, data in before.items() if name.startswith("submitted/")
    }
    other = next(each.name for each in course.find_files(student, assignment).notebooks if each.read() != found.data)
    command = ["settle", student, NAME, "--course", str(course.root), "--file", other]
    assert CliRunner().invoke(app, command).exit_code == 0
    settled = course.read_submission(student, assignment)
    assert settled.questions == [] and settled.data != found.data


def test_the_same_folders_again_are_no_second_claim(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a later attempt of the same sender replace the first, while a Moodle number and a similar id raise a question?"""
    for number, files in enumerate(
        [{"ADA/attention.ipynb": ADAS}, {"ADA/attention.ipynb": EVES}, {"lovelaceada_501_1_attention.ipynb": ADAS}]
    ):
        lines = collect(course, assignment, [write_zip(tmp_path / f"{number}.zip", files)])
        if number < 2:
            assert [line.outcome for line in lines] == ["collected"]
    assert [line.outcome for line in lines] == [NEEDS_A_LOOK]  # ADA is only similar to an id


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["1-attention-ada", "1-attention-bea"], {"ada": "1-attention-ada", "bea": "1-attention-bea"}),
        (["ml-attention-ada", "ml-attention-Bea"], {"ada": "ml-attention-ada", "bea": "ml-attention-Bea"}),
        (["1-attention-octo", "1-attention-cat"], {"gita": "1-attention-octo"}),
        (["1-attention-gita", "1-attention-ada"], {"ada": "1-attention-ada"}),  # her user name is octo
        (["1-attention-ada"], {"ada": "1-attention-ada"}),
        (["attention-ada-lovelace"], {"ada-lovelace": "attention-ada-lovelace"}),
        (["attention-x-ada"], {}),
        (["assignment-ada"], {"ada": "assignment-ada"}),
        (["week-1-Ada", "week-1-bea"], {"ada": "week-1-Ada", "bea": "week-1-bea"}),
        (["1-attention-ada", "template"], {"ada": "1-attention-ada"}),
        (["week-1-ada", "week-1-template", "week-2-bea"], {"ada": "week-1-ada", "bea": "week-2-bea"}),
        (["attention-ada-lovelace", "attention-ada-byron"], {"ada-lovelace": "attention-ada-lovelace"}),
        (["week-ada-lovelace"], {}),  # the user may be ada-lovelace or lovelace
        (["xada", "xbea"], {}),
    ],
)
def test_clones_of_github_classroom(
    folders: list[str], expected: dict[str, str], tmp_path: Path, assignment: Assignment
) -> None:
    """Is a clone matched by the complete user name after the slug, without a guess?"""
    course = Course(tmp_path / "course")
    people = ["ada", "bea", "ada-lovelace", "lovelace"]
    write_roster(course, [{"id": name, "github": ""} for name in people] + [{"id": "gita", "github": "Octo"}])
    files = {f"{folder}/exercises/{NAME}/attention.ipynb": notebook(folder) for folder in folders}
    lines = collect(course, assignment, [write_zip(tmp_path / "all.zip", files)])
    assert submitted(course) == {student: notebook(folder) for student, folder in expected.items()}
    assert [line.outcome for line in lines].count("unmatched") == len(folders) - len(expected)


def test_folder_of_a_name_is_no_clone(tmp_path: Path, assignment: Assignment) -> None:
    """Does the id "ada" not get the files in a folder "byron-ada", which is no copy of the course?"""
    course = Course(tmp_path / "course")
    write_roster(course, [{"id": "ada"}, {"id": "bea"}])
    lines = collect(course, assignment, [write_zip(tmp_path / "all.zip", {"byron-ada/attention.ipynb": ADAS})])
    assert [line.outcome for line in lines] == ["unmatched"] and submitted(course) == {}


def test_a_copy_without_its_folder_matches_no_student(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a copy of the course without its student's folder name no student?"""
    files = {f"exercises/{NAME}/attention.ipynb": EVES, "ada/attention.ipynb": EVES, "bea/attention.ipynb": EVES}
    lines = collected(course, assignment, write_zip(tmp_path / "all.zip", files))
    assert {*outcomes(lines).values()} == {"unmatched"}

"""Is each file's owner found by the top of its path, so that no student's file changes another student's?"""

import unicodedata
from pathlib import Path

import pytest
from conftest import NAME
from downloads import ROSTER, answered, collect, listing, notebook, submitted, write_csv, write_roster, write_zip
from test_cli import run

from autograder.course.course import NEEDS_A_LOOK, Assignment, Course
from autograder.course.roster import read_worksheet
from autograder.lms.ledger import Line

ADAS = answered(softmax="'ada'")
EVES = answered(softmax="'eve'")
MOODLE = "_assignsubmission_file_/attention.ipynb"
MOODLE_ADA, MOODLE_EVE = "Ada Lovelace_100_assignsubmission_file_", "Eve =1+1_104_assignsubmission_file_"
HUGE = "9" * 5000  # more digits than Python converts to a number
CLONES = [{"id": name, "github": ""} for name in ("ada", "bea", "ada-lovelace", "lovelace")]
CLONES += [{"id": "gita", "github": "Octo"}]


def worksheet(*people: tuple[str, str, str]) -> list[list[str]]:
    """Return Moodle's worksheet without times, for people given by number, full name and e-mail address."""
    header = ["Identifier", "Full name", "Email address", "Grade"]
    return [header, *([f"Participant {number}", name, mail, ""] for number, name, mail in people)]


GRADEBOOK = [
    ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (77)"],
    ["    Points Possible", "", "", "", "", "20"],
    ["Smith, Jan", "505", "", "jan2@example.org", "A", ""],
    ["Smith, Jan", "506", "jan1", "j.smith", "A", ""],
    ["Student, Test", "999", "", "x", "A", ""],
]
# What a download is: the roster, the worksheet, and the student to whom each file goes; no student if it does not count.
OWNERS: dict[str, tuple[list[dict[str, str]], list[list[str]], dict[str, str]]] = {
    "folders of Moodle before and after 4.1": (
        ROSTER,
        [],
        {
            f"Ada Lovelace_100{MOODLE}": "ada",
            "Ada Lovelace_100_assignsubmission_onlinetext_/onlinetext.html": "",
            "Bea Doe, Jr_101_assignsubmission_file/work/Copy of attention (1).ipynb": "bea",
            "Bea Doe, Jr_101_assignsubmission_onlinetext/onlinetext.html": "",
            unicodedata.normalize("NFD", f"Çem Müller_102{MOODLE}"): "cem",
            f"Dan ONeill_103{MOODLE}": "dan",
            f"Eve =1+1_104{MOODLE}": "eve",
            f"Fay Unknown_105{MOODLE}": "",
            f"Jan Smith_106{MOODLE}": "",
        },
    ),
    "two people with one name": (
        ROSTER,
        worksheet(("106", "Jan Smith", "jan2@example.org"), ("107", "Jan Smith", "JAN1@example.org")),
        {
            "Jan Smith_106_assignsubmission_file_attention.ipynb": "jan2",
            "Jan Smith_107_assignsubmission_file_attention.ipynb": "jan1",
        },
    ),
    "worksheet of another assignment, with a student who is not in the roster yet": (
        ROSTER,
        worksheet(("100", "Dan O'Neill", "dan@example.org"), ("105", "Sam Late", "sam@example.org")),
        {f"Ada Lovelace_100{MOODLE}": "", f"Sam Late_105{MOODLE}": ""},
    ),
    "roster with numbers of another assignment": (
        [
            {"id": "ada", "first_name": "Ada", "last_name": "Lovelace", "moodle_id": "101"},
            {"id": "bea", "first_name": "Bea", "last_name": "Doe", "moodle_id": ""},
        ],
        worksheet(("101", "Bea Doe", ""), ("102", "Ada Lovelace", "")),
        {f"Bea Doe_101{MOODLE}": "bea"},
    ),
    "page of a group, which Moodle writes before the name": (
        ROSTER,
        worksheet(("101", "Ada Lovelace", ""), ("102", "Çem Müller", ""), ("103", "Dan O'Neill", "")),
        {
            f"Group A-Ada Lovelace_101{MOODLE}": "ada",
            f"Übung 1 - B-Çem Müller_102{MOODLE}": "cem",
            f"Group-B-Participant_103{MOODLE}": "dan",
            f"Group A-Bea Doe_101{MOODLE}": "",
            f"Ada Lovelace-Group A_101{MOODLE}": "",
            f"Group A_101{MOODLE}": "",
            f"Group AAda Lovelace_101{MOODLE}": "",
        },
    ),
    "numbers of two participants, of which the student wrote one": (
        [{"id": "ada", "moodle_id": "101"}, {"id": "mal", "moodle_id": "102"}],
        [],
        {
            "Ada L_101_assignsubmission_file_attention.ipynb": "ada",
            "Mal M_102_assignsubmission_file_Ada L_101_assignsubmission_file_attention.ipynb": "",
            f"Ada L_101_assignsubmission_file__102{MOODLE}": "",
        },
    ),
    "no roster": (
        [],
        [],
        {f"Ada L_7{MOODLE}": "", "zoe/attention.ipynb": "zoe", "lovelaceada_1_2_attention.ipynb": ""},
    ),
    "no roster, but a worksheet": (
        [],
        worksheet(("7", "Ada L", "ada@example.org")),
        {f"Ada L_7{MOODLE}": "ada@example.org"},
    ),
    "Canvas, where the last upload counts": (
        ROSTER,
        [],
        {
            "lovelaceada_501_9001_attention.ipynb": "",
            "lovelaceada_501_9007_attention-2.ipynb": "ada",
            "lovelaceada_501_9004_attention-1.ipynb": "",
            "müllerçem_LATE_502_9002_attention.ipynb": "cem",
            "doejrbea_503_9003_Copy of attention.ipynb": "bea",
            "doejrbea_503_9005_scratch.ipynb": "",
            "oneilldan_504_text.html": "",
            "smithjan_505_9006_attention.ipynb": "",
            "LATE_anon_ab12c_9008_attention.ipynb": "",
        },
    ),
    "Canvas with its gradebook": (
        ROSTER,
        GRADEBOOK,
        {"smithjan_505_1_attention.ipynb": "jan2", "smithjan_506_2_attention.ipynb": "jan1"},
    ),
    "Canvas, where the first two numbers are user and upload": (
        [{"id": "x", "canvas_id": "7"}],
        [],
        {"x2_LATE_7_8_9_10_a-3.ipynb": "x"},
    ),
    "numbers of any length": (
        ROSTER,
        [],
        {f"ada_501_{HUGE}_a.ipynb": "ada", f"bea_502_7_a-{HUGE}.ipynb": "bea", "dan/attention.ipynb": "dan"},
    ),
    "a copy of the course without the student's folder": (
        ROSTER,
        [],
        {f"exercises/{NAME}/attention.ipynb": "", "ada/attention.ipynb": "", "bea/attention.ipynb": ""},
    ),
    "a folder that ends with an id, and is no copy of the course": (CLONES, [], {"byron-ada/attention.ipynb": ""}),
}
# Clones of GitHub Classroom: the complete user name after the slug names the student.
for clones in (
    {"1-attention-ada": "ada", "1-attention-bea": "bea"},
    {"ml-attention-ada": "ada", "ml-attention-Bea": "bea"},
    {"1-attention-octo": "gita", "1-attention-cat": ""},
    {"1-attention-gita": "", "1-attention-ada": "ada"},  # her user name is octo
    {"attention-ada-lovelace": "ada-lovelace", "attention-ada-byron": ""},
    {"attention-x-ada": ""},
    {"assignment-ada": "ada"},
    {"week-1-Ada": "ada", "week-1-template": "", "week-2-bea": "bea"},
    {"1-attention-ada": "ada", "template": ""},
    {"week-ada-lovelace": ""},  # the user may be ada-lovelace or lovelace
    {"xada": "", "xbea": ""},
):
    paths = {f"{folder}/exercises/{NAME}/attention.ipynb": student for folder, student in clones.items()}
    OWNERS["clones " + " ".join(clones)] = (CLONES, [], paths)


@pytest.mark.parametrize("download", OWNERS)
def test_file_goes_to_its_owner(download: str, tmp_path: Path, assignment: Assignment) -> None:
    """Is each file collected for the student whose it is, without a guess, and every other file listed with its reason?"""
    course, (roster, table, files) = Course(tmp_path / "course"), OWNERS[download]
    if roster:
        write_roster(course, roster)
    sheet = read_worksheet(write_csv(tmp_path / "sheet.csv", table)) if table else None
    archive = write_zip(
        tmp_path / "all.zip", {path: notebook(path) if path.endswith(".ipynb") else b"<p>Hello</p>" for path in files}
    )
    lines = collect(course, assignment, [archive], sheet)
    assert submitted(course) == {student: notebook(path) for path, student in files.items() if student}
    assert {line.file for line in lines if line.outcome != "look at"} == {*files}


def collected(course: Course, assignment: Assignment, path: Path) -> list[Line]:
    """Collect Ada's submission, then Eve's files; Ada's must not change."""
    collect(course, assignment, [write_zip(path.parent / "hers.zip", {"ada/attention.ipynb": ADAS})])
    before, outside = listing(course.root / "submitted/ada"), listing(path.parent, without=course.root)
    lines = collect(course, assignment, [path])
    assert lines and not [line for line in lines if line.student == "ada"]
    assert listing(course.root / "submitted/ada") == before
    assert listing(path.parent, without=course.root) == outside
    return lines


@pytest.mark.parametrize(
    "path",
    [
        f"ada/exercises/{NAME}/attention.ipynb",
        f"exercises/{NAME}/ada/attention.ipynb",
        f"{NAME}/ada/attention.ipynb",
        "ada/attention.ipynb",
        "ada_attention.ipynb",
        f"{MOODLE_ADA}/attention.ipynb",
        "lovelaceada_501_9999_attention.ipynb",
        f"submitted/ada/{NAME}/attention.ipynb",
        "/".join(["ada"] * 60 + ["attention.ipynb"]),
    ],
)
@pytest.mark.parametrize("top", ["eve", MOODLE_EVE])
@pytest.mark.parametrize("packed", [False, True])
def test_deeper_folders_name_nobody(
    path: str, top: str, packed: bool, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Do files in Eve's folder belong to Eve, whatever they are called, also in an archive of hers?"""
    files = {f"{top}/{path}": EVES}
    if packed:
        files = {f"{top}/work.zip": write_zip(tmp_path / "inner.zip", {path: EVES}).read_bytes()}
    collected(course, assignment, write_zip(tmp_path / "all.zip", files))
    assert submitted(course) == {"ada": ADAS, "eve": EVES}


@pytest.mark.parametrize(
    "path",
    [
        "../ada/attention.ipynb",
        "/ada/attention.ipynb",
        "./ada/attention.ipynb",
        "eve/../ada/attention.ipynb",
        f"ada/../../{NAME}/attention.ipynb",
        "C:/ada/attention.ipynb",
        "ada\\attention.ipynb",
        "..\\ada\\attention.ipynb",
        "\u202eada\u202c/attention.ipynb",
        "a\u200bda/attention.ipynb",
        "ada./attention.ipynb",
        "ada /attention.ipynb",
        " ada/attention.ipynb",
        "CON/attention.ipynb",
        "аda/attention.ipynb",  # a Cyrillic letter
        "__MACOSX/ada/attention.ipynb",
        f"{NAME}/ada/attention.ipynb",
        f"{NAME}/attention.ipynb",
        f"exercises/ada/{NAME}/attention.ipynb",
        "book/ada/attention.ipynb",
        ".git/ada/attention.ipynb",
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
    collected(course, assignment, write_zip(tmp_path / "all.zip", {path: EVES}))


@pytest.mark.parametrize(
    ("student", "first", "second"),
    [
        ("ada", "ada/attention.ipynb", "ADA/attention.ipynb"),
        ("ada", "ada/attention.ipynb", "Ada/exercises/1_attention/attention.ipynb"),
        ("ada", f"{MOODLE_ADA}/attention.ipynb", f"Ada Lovelace_101{MOODLE}"),
        ("ada", "ada/attention.ipynb", f"{MOODLE_ADA}/attention.ipynb"),
        ("çem", "çem/attention.ipynb", unicodedata.normalize("NFD", "çem/attention.ipynb")),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_two_claims_to_one_student_are_a_question(
    student: str, first: str, second: str, together: bool, tmp_path: Path, assignment: Assignment
) -> None:
    """Are both claims kept, neither replaced, and does a person's answer decide?"""
    if student == "çem" and not together:
        second = "ÇEM/attention.ipynb"  # in a later collection, the same name with other bytes is the same sender
    course = Course(tmp_path / "course")
    write_roster(course, [{"id": "çem"}, {"id": "ada", "first_name": "Ada", "last_name": "Lovelace"}])
    sources = [{first: ADAS, second: EVES}] if together else [{first: ADAS}, {second: EVES}]
    for number, files in enumerate(sources):
        collect(course, assignment, [write_zip(tmp_path / f"{number}.zip", files)])
    found = course.read_submission(student, assignment)
    assert "two submissions say that they are this student's" in found.questions[0]
    sure = "100" not in first  # the student's id is the name of one folder
    assert found.data == ADAS or not sure
    there = {each.read(): each.name for each in course.find_files(student, assignment).notebooks}
    assert set(there) == {ADAS, EVES}
    before = listing(course.root / "submitted")
    collect(course, assignment, [tmp_path / f"{number}.zip"])
    assert listing(course.root / "submitted") == before
    other = there[EVES if found.data == ADAS else ADAS]
    assert run("settle", student, NAME, "--course", str(course.root), "--file", other).exit_code == 0
    settled = course.read_submission(student, assignment)
    assert settled.questions == [] and settled.data != found.data


def test_the_same_folders_again_are_no_second_claim(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a later attempt of the same sender replace the first, while a Moodle number and a similar id raise a question?"""
    downloads = (
        {"ADA/attention.ipynb": ADAS},
        {"ADA/attention.ipynb": EVES},
        {"lovelaceada_501_1_attention.ipynb": ADAS},
    )
    for number, files in enumerate(downloads):
        lines = collect(course, assignment, [write_zip(tmp_path / f"{number}.zip", files)])
    assert [line.outcome for line in lines] == [NEEDS_A_LOOK]  # ADA is only similar to an id

"""Do scores and feedback return to Moodle and Canvas in the form that these systems read?

`prepare_export` compares all tables, warnings and pages with tests/golden/said.txt.
"""

import csv
import shutil
from pathlib import Path

import pytest
from downloads import (
    ROSTER,
    collect,
    listing,
    moodle_worksheet,
    notebook,
    prepare_export,
    write_csv,
    write_roster,
    write_zip,
)
from test_cli import run
from test_report import WRITTEN, put_in_gradebook, result

from autograder.course.course import Assignment, Course, Result
from autograder.course.roster import read_worksheet
from autograder.files import write_atomically
from autograder.grade.result_keys import digest_of_content

NAME = "1_attention"
PEOPLE = [
    ("100", "Ada Lovelace", "ada@example.org"),
    ("101", 'Bea Doe, "Jr"', "bea@example.org"),
    ("102", "Çem Müller", "cem@example.org"),
    ("103", "Dan O'Neill", "dan@example.org"),
    ("104", "Eve =1+1", "eve@example.org"),
    ("109", "Nobody Known", "nobody@example.org"),
]
FOLDERS = {
    "ada": "Ada Lovelace_100_assignsubmission_file_",
    "bea": "Bea Doe, Jr_101_assignsubmission_file",
    "cem": "Çem Müller_102_assignsubmission_file_",
}
CANVAS = {
    "ada": "lovelaceada_501_9001_attention-1.ipynb",
    "bea": "doejrbea_LATE_502_9002_attention.ipynb",
    "cem": "müllerçem_503_9003_Copy of attention (1).ipynb",
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, assignment: Assignment) -> Path:
    """After grading: Ada also has the bonus, Bea lost a point and was late, Cem's file is no notebook, Dan's grading failed."""
    course = Course(tmp_path_factory.mktemp("graded"))
    course.prepare(assignment)
    results = [
        result(assignment, "ada", {}, bonus=True),
        result(assignment, "bea", {"softmax_axis": "M6"}, state="graded after repair"),
        Result("cem", NAME, "unreadable", "the file is an HTML page <b>"),
        Result("dan", NAME, "not graded", "The grader failed, not the submission: /srv/secret"),
    ]
    hands = {"ada": dict.fromkeys(WRITTEN, 1.5), "bea": dict.fromkeys(WRITTEN, 0.0)}
    with course.gradebook() as gradebook:
        for outcome in results:
            if outcome.has_score:
                put_in_gradebook(gradebook, assignment, outcome, hands[outcome.student])
        gradebook.find_submission_notebook(assignment.notebook, NAME, "bea").late_submission_penalty = 2.0
        gradebook.db.commit()
    for outcome in results:
        course.save_result(outcome)
        write_atomically(course.autograded_path(outcome.student, assignment), "{\n}\n")
        page = course.root / "feedback" / outcome.student / NAME / "attention.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"<p>{outcome.student}", encoding="utf-8")
    return course.root


def record(course: Course, graded: Path, assignment: Assignment) -> list[Result]:
    """Give a course the gradebook, results and pages of a graded one."""
    shutil.copytree(graded, course.root, dirs_exist_ok=True)
    results = course.load_results(NAME)
    for kept in results:
        if found := course.read_submission(kept.student, assignment):
            kept.content = digest_of_content(found.data, {})
    return results


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with a roster."""
    course = Course(tmp_path / "course")
    write_roster(course, ROSTER[:5])
    return course


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Moodle's grading worksheet."""
    return moodle_worksheet(tmp_path / "sheet.csv", PEOPLE)


@pytest.fixture
def results(course: Course, graded: Path, assignment: Assignment) -> list[Result]:
    """The course after grading."""
    return record(course, graded, assignment)


@pytest.fixture
def collected(course: Course, graded: Path, assignment: Assignment, tmp_path: Path, sheet: Path) -> list[Result]:
    """The graded course after collecting Moodle's download, which holds one file without an owner."""
    files = {f"{name}/attention.ipynb": notebook(student) for student, name in FOLDERS.items()}
    files["Fay New_105_assignsubmission_file_/attention.ipynb"] = notebook("fay")
    collect(course, assignment, [write_zip(tmp_path / "moodle.zip", files)], read_worksheet(sheet))
    return record(course, graded, assignment)


def test_export_moodle(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path, sheet: Path
) -> None:
    """Does a download come back as the same worksheet with scores and states, twice the same bytes, and with a person's text?"""
    outside = listing(tmp_path, without=course.root)
    _, moodle, _ = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    written = listing(course.root / "export")
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    assert listing(course.root / "export") == written
    assert listing(tmp_path, without=course.root) == outside
    table = list(csv.reader(moodle.read_text(encoding="utf-8-sig").splitlines()))
    table[1][-1] = f"Well done. {table[1][-1]} See me."
    table[1][table[0].index("Maximum Grade")] = "20.00"  # Ada has a bonus
    table[2][table[0].index("Grade can be changed")] = "No"
    table[2][table[0].index("Grade")] = "7"
    again = write_csv(tmp_path / "again.csv", table)
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(again)).write()


def test_export_with_the_worksheet_of_another_assignment(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path
) -> None:
    """Is a worksheet refused if all its numbers differ from the download's, and one row left as it is if one differs?"""
    path = moodle_worksheet(tmp_path / "other.csv", [(str(int(n) + 100), name, mail) for n, name, mail in PEOPLE])
    with pytest.raises(ValueError, match="numbers differ"):
        prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(path))
    path = moodle_worksheet(tmp_path / "one.csv", [("999", *PEOPLE[0][1:]), *PEOPLE[1:]])
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(path)).write()


def test_export_says_that_moodle_extended_a_due_date(
    course: Course, collected: list[Result], assignment: Assignment, sheet: Path
) -> None:
    """Is a student named who counts as late, although Moodle's worksheet says that the due date was extended?"""
    status = "Submitted for grading"
    late = "Extension granted until: Monday, 9 November 2026, 11:59 PM"
    text = sheet.read_text(encoding="utf-8").replace(status, f'"{status} - {late}"', 2)  # Ada's and Bea's
    sheet.write_text(text, encoding="utf-8")
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()


def canvas_gradebook(path: Path, *titles: str) -> Path:
    """Write Canvas's gradebook export, with a score of another assignment and cells that mean more than scores."""
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles, "Current Score"]
    empty = [""] * (len(titles) - 1)
    rows = [
        ["", "", "", "", "", "Manual Posting", *empty, ""],
        ["    Points Possible", "", "", "", "", "20.00", *empty, "(read only)"],
        ["Lovelace, Ada", "501", "ada", "ada1", "A", "", *empty, "12"],
        ['Doe, "Jr", Bea', "502", "", "bea@example.org", "A", "3.00", *empty, "12"],
        ["Müller, Çem", "503", "", "", "A", "", *empty, ""],
        ["O'Neill, Dan", "504", "", "", "A", "9.00", *empty, ""],
        ['="=1+1, Eve"', "505", "eve", "", "A", "EX", *empty, ""],
        ["Student, Test", "999", "", "f00", "A", "", *empty, ""],
    ]
    write_csv(path, [header, *rows])
    path.write_text(path.read_text(encoding="utf-8-sig"), encoding="utf-8")
    return path


def test_export_canvas(course: Course, graded: Path, assignment: Assignment, tmp_path: Path) -> None:
    """Does the table hold the assignment's column with its number, the row of points, no other column and no byte-order mark?"""
    files = {name: notebook(student) for student, name in CANVAS.items()}
    path = canvas_gradebook(tmp_path / "grades.csv", "Attention (4711)", "Essay on attention (12)")
    collect(course, assignment, [write_zip(tmp_path / "canvas.zip", files)], read_worksheet(path))
    prepare_export(
        course, assignment, record(course, graded, assignment), "canvas", worksheet=read_worksheet(path)
    ).write()


def test_export_canvas_column(course: Course, results: list[Result], assignment: Assignment, tmp_path: Path) -> None:
    """Does an unclear column raise a question, is a named column used, and does a cell that excuses a student stay?"""
    path = canvas_gradebook(tmp_path / "g.csv", "Multi-head attention (1)", "Homework B (2)")
    path.write_text(path.read_text(encoding="utf-8").replace("3.00", "EX").replace("9.00", "N/A"), encoding="utf-8")
    book = read_worksheet(path)
    with pytest.raises(ValueError, match="--column"):
        prepare_export(course, assignment, results, "canvas", worksheet=book)
    prepare_export(course, assignment, results, "canvas", worksheet=book, column="Multi-head attention").write()


@pytest.mark.parametrize(
    "waiting", [[*WRITTEN, "softmax_axis"], [WRITTEN[0]], ["softmax_axis", "attention_mask"]], ids=["both", "1", "2"]
)
def test_export_refuses_while_answers_wait(
    course: Course, results: list[Result], assignment: Assignment, sheet: Path, waiting: list[str]
) -> None:
    """Are incomplete scores refused and listed as what they are, and sent with their state only with --allow-waiting?"""
    with course.gradebook() as gradebook:
        for name in waiting:
            gradebook.find_grade(name, assignment.notebook, NAME, "bea").needs_manual_grade = True
        gradebook.db.commit()
    worksheet = read_worksheet(sheet)
    with pytest.raises(ValueError, match="of bea wait"):
        prepare_export(course, assignment, results, "moodle", worksheet=worksheet)
    prepare_export(course, assignment, results, "moodle", worksheet=worksheet, allow_waiting=True).write()
    prepare_export(course, assignment, results, "csv").write()


def test_export_csv(course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path) -> None:
    """Does every student, and every file without an owner, have a row with a state, and are formulas defused?"""
    write_roster(course, [*ROSTER[:5], {"id": "=2+2", "first_name": "@sum", "last_name": "-x"}])
    files = prepare_export(course, assignment, collected, "csv", folder=tmp_path / "out").write()
    assert files == [tmp_path / "out" / "scores.csv"]
    assert (tmp_path / "out" / "scores.csv").read_bytes().startswith("\ufeffid,".encode())


def test_export_says_what_changed_since_the_grading(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path
) -> None:
    """Does a changed, first or newly refused submission give a warning, but not a changed file time?"""
    collected.append(Result("eve", NAME, "missing", "No notebook was submitted."))
    for path in course.root.glob("submitted/*/*/*.ipynb"):
        path.touch()
    prepare_export(course, assignment, collected, "csv").write()
    files = {f"{FOLDERS['ada']}/attention.ipynb": notebook("again"), f"{FOLDERS['bea']}/attention.pdf": b""}
    files["Eve =1+1_104_assignsubmission_file_/attention.ipynb"] = notebook("eve")
    collect(course, assignment, [write_zip(tmp_path / "later.zip", files)])
    prepare_export(course, assignment, collected, "csv").write()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--format moodle --worksheet", "of bea wait for manual grading"),
        ("--format moodle", "Moodle knows students by their numbers"),
        ("--format canvas --worksheet", "from moodle, not from canvas"),
        ("--format canvas", "give the table that it exports as --worksheet"),
        ("--format blackboard", "there is no format 'blackboard'"),
    ],
)
@pytest.mark.usefixtures("results")
def test_command_export_that_refuses_writes_nothing(
    course: Course, assignment: Assignment, sheet: Path, options: str, why: str
) -> None:
    """Does the course stay unchanged, also its feedback pages, if answers wait or the worksheet is wrong?"""
    with course.gradebook() as gradebook:
        gradebook.find_grade(WRITTEN[0], assignment.notebook, NAME, "bea").needs_manual_grade = True
        gradebook.db.commit()
    before = listing(course.root)
    done = run("export", NAME, "--course", str(course.root), *options.split(), *[str(sheet)][: "sheet" in options])
    assert done.exit_code == 1 and why in done.stderr
    assert listing(course.root) == before


@pytest.mark.usefixtures("results")
def test_command_export(course: Course, sheet: Path) -> None:
    """Does the command name files, and fail after our failures?"""
    done = run("export", NAME, "--course", str(course.root), "--worksheet", str(sheet), "--format", "csv")
    assert done.exit_code == 1 and "scores.csv" in done.stdout and "1 not graded" in done.stderr


@pytest.mark.usefixtures("results")
def test_command_says_what_is_lost_or_wrong(course: Course) -> None:
    """Do a roster with an id twice, and a gradebook that lost its points, give one line with the fix?"""
    (course.root / "roster.csv").write_text("id\nada\nada\n", encoding="utf-8")
    done = run("report", NAME, "--course", str(course.root))
    assert done.exit_code == 1 and "roster.csv" in done.stderr
    (course.root / "gradebook.db").unlink()
    done = run("feedback", NAME, "--course", str(course.root))
    assert done.exit_code == 1 and "lacks the points of 2, such as ada" in done.stderr

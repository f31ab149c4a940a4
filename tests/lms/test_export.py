"""Do scores and feedback return to Moodle and Canvas in the form that these systems read?"""

import csv
import io
import shutil
import zipfile
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
from nbgrader.api import Gradebook
from test_report import BONUS, WRITTEN, put_in_gradebook, result
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course.course import Assignment, Course, Result
from autograder.course.roster import read_worksheet
from autograder.files import write_atomically
from autograder.grade.result_keys import digest_of_content
from autograder.lms.export_scores import Exported

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
        penalise(gradebook, assignment, "bea", 2.0)
    for outcome in results:
        course.save_result(outcome)
        write_atomically(course.autograded_path(outcome.student, assignment), "{\n}\n")
        page = course.root / "feedback" / outcome.student / NAME / "attention.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"<p>{outcome.student}", encoding="utf-8")
    return course.root


def record(course: Course, graded: Path) -> list[Result]:
    """Give a course the gradebook, results and pages of a graded one."""
    shutil.copytree(graded, course.root, dirs_exist_ok=True)
    return course.load_results(NAME)


def penalise(gradebook: Gradebook, assignment: Assignment, student: str, points: float) -> None:
    """Subtract points as nbgrader's plugin does."""
    submission = gradebook.find_submission_notebook(assignment.notebook, NAME, student)
    submission.late_submission_penalty = points
    gradebook.db.commit()


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with a roster."""
    course = Course(tmp_path / "course")
    write_roster(course, ROSTER[:5])
    return course


@pytest.fixture
def of(assignment: Assignment) -> float:
    """The points of the assignment."""
    return sum(float(cell.metadata.nbgrader.points) for cell in assignment.graded_cells())


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Moodle's grading worksheet."""
    return moodle_worksheet(tmp_path / "sheet.csv", PEOPLE)


def read(done: Exported, name: str) -> list[list[str]]:
    """Read a written table."""
    text = next(path for path in done.files if path.name == name).read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def pages(done: Exported, name: str) -> dict[str, str]:
    """Read an archive of feedback."""
    with zipfile.ZipFile(next(path for path in done.files if path.name == name)) as archive:
        return {info.filename: archive.read(info).decode() for info in archive.infolist()}


@pytest.fixture
def results(course: Course, graded: Path) -> list[Result]:
    """The course after grading."""
    return record(course, graded)


@pytest.fixture
def collected(course: Course, graded: Path, assignment: Assignment, tmp_path: Path, sheet: Path) -> list[Result]:
    """The graded course after collecting Moodle's download, which holds one file without an owner."""
    files = {f"{name}/attention.ipynb": notebook(student) for student, name in FOLDERS.items()}
    files["Fay New_105_assignsubmission_file_/attention.ipynb"] = notebook("fay")
    collect(course, assignment, [write_zip(tmp_path / "moodle.zip", files)], read_worksheet(sheet))
    return record(course, graded)


def test_export_moodle(course: Course, collected: list[Result], assignment: Assignment, sheet: Path, of: float) -> None:
    """Does a download come back as the same worksheet with scores and states, and never 0 for a missing score?"""
    done = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    header, *rows = read(done, "moodle.csv")
    before = read_worksheet(sheet)
    assert header == before.header
    assert [row[0] for row in rows] == [row[0] for row in before.rows]
    grades = {row[1]: row[header.index("Grade")] for row in rows}
    comments = {row[1]: row[-1] for row in rows}
    tests = len(assignment.graded_cells()) - len(WRITTEN) - len(BONUS)
    assert grades == {
        "Ada Lovelace": f"{tests + 2 + 4.5:g}",
        'Bea Doe, "Jr"': f"{tests - 1 - 2:g}",
        "Çem Müller": "",
        "Dan O'Neill": "",
        "Eve =1+1": "",
        "Nobody Known": "",
    }
    assert comments["Ada Lovelace"] == f"State: graded. {tests + 2 + 4.5:g} of {of:g} points."
    assert comments['Bea Doe, "Jr"'].endswith("points. 2 points were taken off for submitting late.")
    assert comments["Çem Müller"] == "State: unreadable. the file is an HTML page &lt;b&gt;"
    assert comments["Dan O'Neill"] == "State: not graded."  # students do not need to read about our failures
    assert comments["Eve =1+1"] == "State: missing."
    assert comments["Nobody Known"] == ""
    assert pages(done, "feedback_moodle.zip") == {
        "Ada Lovelace_100_assignsubmission_file_/attention.html": "<p>ada",
        "Bea Doe, Jr_101_assignsubmission_file/attention.html": "<p>bea",
    }


def test_export_moodle_twice(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path, sheet: Path
) -> None:
    """Are the same bytes written twice, and is a person's text in the worksheet kept next to the state?"""
    first = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    before = listing(course.root / "export")
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    assert listing(course.root / "export") == before
    table = read(first, "moodle.csv")
    state, table[1][-1] = table[1][-1], "Well done. " + table[1][-1]
    table[2][table[0].index("Grade can be changed")] = "No"
    table[2][table[0].index("Grade")] = "7"
    again = write_csv(tmp_path / "again.csv", table)
    done = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(again)).write()
    rows = read(done, "moodle.csv")
    assert rows[1][-1] == f"Well done. {state}"
    assert rows[2][rows[0].index("Grade")] == "7"


def test_export_with_the_worksheet_of_another_assignment(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path
) -> None:
    """Is a worksheet refused if all its numbers differ from the download's, and one row left as it is if one differs?"""
    path = moodle_worksheet(tmp_path / "other.csv", [(str(int(n) + 100), name, mail) for n, name, mail in PEOPLE])
    with pytest.raises(ValueError, match=rf"200 in the worksheet. All \d numbers differ: give the worksheet of {NAME}"):
        prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(path))
    assert not (course.root / "export").exists()
    path = moodle_worksheet(tmp_path / "one.csv", [("999", *PEOPLE[0][1:]), *PEOPLE[1:]])
    done = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(path)).write()
    ada, bea = read(done, "moodle.csv")[1:3]
    grade = read_worksheet(path).place("Grade")
    assert ada == read_worksheet(path).rows[0] and bea[grade] != ""


def test_export_says_that_moodle_extended_a_due_date(
    course: Course, collected: list[Result], assignment: Assignment, sheet: Path
) -> None:
    """Is a student named who counts as late, although Moodle's worksheet says that the due date was extended?"""
    text, status = sheet.read_text(encoding="utf-8"), "Submitted for grading"
    late = "Extension granted until: Monday, 9 November 2026, 11:59 PM"
    lines = [
        line.replace(status, f'"{status} - {late}"') if "Bea" in line or "Ada" in line else line
        for line in text.splitlines()
    ]
    sheet.write_text("\n".join(lines), encoding="utf-8")
    done = prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet))
    warnings = [warning for warning in done.scores.warnings if "extended until" in warning]
    assert warnings == ["bea counts as late. Moodle says: extended until 2026-11-09 23:59"]


def test_export_moodle_without_worksheet(course: Course, collected: list[Result], assignment: Assignment) -> None:
    """Does the table have the columns that Moodle's import needs, and the numbers of the download?"""
    done = prepare_export(course, assignment, collected, "moodle").write()
    header, *rows = read(done, "moodle.csv")
    assert {"Identifier", "Grade", "Last modified (grade)", "Feedback comments"} <= set(header)
    assert [row[0] for row in rows] == ["Participant 100", "Participant 101", "Participant 102", "", ""]
    assert rows[0][header.index("Grade")] == "20"  # the points are 21.5, which Moodle would refuse


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
        ["O'Neill, Dan", "504", "", "", "A", "N/A", *empty, ""],
        ['="=1+1, Eve"', "505", "eve", "", "A", "EX", *empty, ""],
        ["Student, Test", "999", "", "f00", "A", "", *empty, ""],
    ]
    write_csv(path, [header, *rows])
    path.write_text(path.read_text(encoding="utf-8-sig"), encoding="utf-8")
    return path


def test_export_canvas(course: Course, graded: Path, assignment: Assignment, tmp_path: Path) -> None:
    """Does the table hold the assignment's column with its number, the row of points, no other column and no byte-order mark?"""
    files = {name: notebook(student) for student, name in CANVAS.items()}
    book = read_worksheet(canvas_gradebook(tmp_path / "grades.csv", "Attention (4711)", "Essay on attention (12)"))
    collect(course, assignment, [write_zip(tmp_path / "canvas.zip", files)], book)
    book = read_worksheet(canvas_gradebook(tmp_path / "grades.csv", "Attention (4711)", "Essay on attention (12)"))
    done = prepare_export(course, assignment, record(course, graded), "canvas", worksheet=book).write()
    assert next(path for path in done.files if path.name == "canvas.csv").read_bytes()[:7] == b"Student"
    tests = len(assignment.graded_cells()) - len(WRITTEN) - len(BONUS)
    assert read(done, "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (4711)"],
        ["", "", "", "", "", "Manual Posting"],
        ["    Points Possible", "", "", "", "", "20.00"],
        ["Lovelace, Ada", "501", "ada", "ada1", "A", f"{tests + 2 + 4.5:g}"],
        ['Doe, "Jr", Bea', "502", "", "bea@example.org", "A", f"{tests - 3:g}"],
        ["Müller, Çem", "503", "", "", "A", ""],
        ["O'Neill, Dan", "504", "", "", "A", "N/A"],
        ['\'="=1+1, Eve"', "505", "eve", "", "A", "EX"],
    ]
    assert pages(done, "feedback_canvas.zip") == {
        "lovelaceada_501_9001_attention-1.html": "<p>ada",
        "doejrbea_LATE_502_9002_attention.html": "<p>bea",
    }
    scores = {row[0]: row for row in read(done, "scores.csv")}
    assert scores["bea"][scores["id"].index("late")] == "yes"


def test_export_canvas_column(course: Course, results: list[Result], assignment: Assignment, tmp_path: Path) -> None:
    """Does an unclear column raise a question, and is a named column used?"""
    book = read_worksheet(canvas_gradebook(tmp_path / "g.csv", "Homework A (1)", "Homework B (2)"))
    with pytest.raises(ValueError, match=r"--column with one of: 'Homework A \(1\)', 'Homework B \(2\)'"):
        prepare_export(course, assignment, results, "canvas", worksheet=book)
    done = prepare_export(course, assignment, results, "canvas", worksheet=book, column="Homework B").write()
    assert read(done, "canvas.csv")[0][-1] == "Homework B (2)"


def test_export_canvas_keeps_an_excuse(
    course: Course, results: list[Result], assignment: Assignment, tmp_path: Path
) -> None:
    """Does a cell that excuses a student stay as it is, with a warning, although the student has a score?"""
    path = canvas_gradebook(tmp_path / "g.csv", "Attention (4711)")
    path.write_text(path.read_text(encoding="utf-8").replace("3.00", "EX"), encoding="utf-8")
    done = prepare_export(course, assignment, results, "canvas", worksheet=read_worksheet(path)).write()
    assert read(done, "canvas.csv")[4][-1] == "EX"


def test_export_needs_the_right_worksheet(
    course: Course, results: list[Result], assignment: Assignment, sheet: Path
) -> None:
    """Is an export for Canvas refused without Canvas's own table, or with Moodle's?"""
    with pytest.raises(ValueError, match="gradebook export as --worksheet"):
        prepare_export(course, assignment, results, "canvas")
    with pytest.raises(ValueError, match="from moodle, not from canvas"):
        prepare_export(course, assignment, results, "canvas", worksheet=read_worksheet(sheet))


def test_export_refuses_while_answers_wait(
    course: Course, results: list[Result], assignment: Assignment, sheet: Path
) -> None:
    """Are incomplete scores refused and listed, and sent with their state only with --allow-waiting?"""
    with course.gradebook() as gradebook:
        for name in WRITTEN:
            gradebook.find_grade(name, assignment.notebook, NAME, "bea").needs_manual_grade = True
        gradebook.db.commit()
    with pytest.raises(ValueError, match="answers of bea wait for manual grading"):
        prepare_export(course, assignment, results, "moodle")
    assert not (course.root / "export").exists()
    worksheet = read_worksheet(sheet)
    done = prepare_export(course, assignment, results, "moodle", worksheet=worksheet, allow_waiting=True).write()
    assert "3 written answers wait to be read." in read(done, "moodle.csv")[2][-1]
    assert read(prepare_export(course, assignment, results, "csv").write(), "scores.csv")[2][0] == "bea"


@pytest.mark.parametrize(
    ("waiting", "comment", "in_error"),
    [
        (
            [*WRITTEN, "softmax_axis"],
            "3 written answers wait to be read. The points of 1 test wait to be confirmed.",
            (True, True),
        ),
        ([WRITTEN[0]], "1 written answer waits to be read.", (True, False)),
        (["softmax_axis", "attention_mask"], "The points of 2 tests wait to be confirmed.", (False, True)),
    ],
)
def test_export_counts_what_waits_as_what_it_is(
    course: Course,
    results: list[Result],
    assignment: Assignment,
    waiting: list[str],
    comment: str,
    in_error: tuple[bool, bool],
) -> None:
    """Is a test whose points a person gave no written answer, in the comment and in the error?"""
    with course.gradebook() as gradebook:
        for name in waiting:
            gradebook.find_grade(name, assignment.notebook, NAME, "bea").needs_manual_grade = True
        gradebook.db.commit()
    done = prepare_export(course, assignment, results, "moodle", allow_waiting=True).write()
    assert next(row for row in read(done, "moodle.csv") if "Bea" in row[1])[-1].endswith(comment)
    written, tests = "written answers of bea wait for manual grading", "points that a person gave to tests of bea wait"
    with pytest.raises(ValueError, match="bea") as refused:
        prepare_export(course, assignment, results, "moodle")
    assert (written in str(refused.value), tests in str(refused.value)) == in_error


def test_export_csv(course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path, of: float) -> None:
    """Does every student, and every file without an owner, have a row with a state, and are formulas defused?"""
    write_roster(course, [*ROSTER[:5], {"id": "=2+2", "first_name": "@sum", "last_name": "-x"}])
    done = prepare_export(course, assignment, collected, "csv", folder=tmp_path / "out").write()
    assert [path.name for path in done.files] == ["scores.csv"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out/scores.csv").read_text(encoding="utf-8-sig"))))
    found = {row["id"]: row for row in rows}
    assert {row["id"]: row["state"] for row in rows} == {
        "ada": "graded",
        "bea": "graded after repair",
        "cem": "unreadable",
        "dan": "not graded",
        "eve": "missing",
        "'=2+2": "missing",
        "": "unmatched",
    }
    assert (found["bea"]["last name"], found["eve"]["last name"]) == ('Doe, "Jr"', "'=1+1")
    assert (found["'=2+2"]["first name"], found["'=2+2"]["last name"]) == ("'@sum", "'-x")
    tests = len(assignment.graded_cells()) - len(WRITTEN) - len(BONUS)
    columns = ("automatic", "manual", "waiting", "total", "of", "late penalty", "score", "mistakes")
    assert [found["bea"][name] for name in columns] == [
        *(f"{number:g}" for number in (tests - 1, 0, 0, tests - 1, of, 2, tests - 3)),
        "M6",
    ]
    assert [found["cem"][name] for name in columns] == [""] * 8
    assert found["cem"]["why"] == "the file is an HTML page <b>"
    assert "Fay New_105" in found[""]["why"]


def test_export_says_what_changed_since_the_grading(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path
) -> None:
    """Does a changed or newly refused submission give a warning, but not a changed file time?"""
    for kept in collected:
        if found := course.read_submission(kept.student, assignment):
            kept.content = digest_of_content(found.data, {})
    for path in course.root.glob("submitted/*/*/*.ipynb"):
        path.touch()
    assert "submitted" not in "\n".join(prepare_export(course, assignment, collected, "csv").write().warnings)
    files = {f"{FOLDERS['ada']}/attention.ipynb": notebook("again"), f"{FOLDERS['bea']}/attention.pdf": b""}
    collect(course, assignment, [write_zip(tmp_path / "later.zip", files)])
    warnings = "\n".join(prepare_export(course, assignment, collected, "csv").write().warnings)
    assert "ada submitted something else since the grading" in warnings
    assert "bea submitted" not in warnings
    assert "refused: bea" in warnings


def test_export_changes_nothing_outside_the_course(
    course: Course, collected: list[Result], assignment: Assignment, tmp_path: Path, sheet: Path
) -> None:
    """Are all files written below the course's folder?"""
    before = listing(tmp_path, without=course.root)
    prepare_export(course, assignment, collected, "moodle", worksheet=read_worksheet(sheet)).write()
    assert listing(tmp_path, without=course.root) == before


@pytest.mark.parametrize(
    ("system", "why"), [("moodle", "of bea wait for manual grading"), ("canvas", "from moodle, not from canvas")]
)
@pytest.mark.usefixtures("results")
def test_command_export_that_refuses_writes_nothing(
    course: Course, assignment: Assignment, sheet: Path, system: str, why: str
) -> None:
    """Does the course stay unchanged, also its feedback pages, if answers wait or the worksheet is wrong?"""
    with course.gradebook() as gradebook:
        gradebook.find_grade(WRITTEN[0], assignment.notebook, NAME, "bea").needs_manual_grade = True
        gradebook.db.commit()
    before = listing(course.root)
    arguments = ["--course", str(course.root), "--worksheet", str(sheet), "--format", system]
    done = CliRunner().invoke(app, ["export", NAME, *arguments])
    assert done.exit_code == 1 and why in done.output
    assert listing(course.root) == before


@pytest.mark.usefixtures("results")
def test_command_export(course: Course, sheet: Path) -> None:
    """Does the command name files and warnings, fail after our failures, and stop at an unknown format?"""
    arguments = ["export", NAME, "--course", str(course.root), "--worksheet", str(sheet), "--format"]
    done = CliRunner().invoke(app, [*arguments, "csv"])
    assert done.exit_code == 1 and "scores.csv" in done.output and "1 not graded" in done.output
    assert CliRunner().invoke(app, [*arguments, "blackboard"]).exit_code == 1

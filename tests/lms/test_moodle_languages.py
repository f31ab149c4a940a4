"""Is Moodle's worksheet read and written in every language, with names or with numbers only?"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from downloads import NAME, collect, notebook, prepare_export, submitted, write_csv, write_roster, write_zip
from test_report import WRITTEN, put_in_gradebook, result

from autograder.course.course import Assignment, Course
from autograder.course.roster import read_worksheet
from autograder.course.worksheet_columns import read_moodle_time
from autograder.files import write_atomically

# Titles; the word before a number; a state; yes; the time 20 November 2026, 17:30.
LANGUAGES = {
    "en": (
        "Identifier,Full name,ID number,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
        "Last modified (submission),Last modified (grade),Feedback comments",
        *("Participant ", "Submitted for grading", "Yes", "Friday, 20 November 2026, 5:30 PM"),
    ),
    "de": (
        "ID,Vollständiger Name,ID-Nummer,E-Mail-Adresse,Status,Bewertung,Bestwertung,Bewertung kann geändert werden,"
        "Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung),Feedback als Kommentar",
        *("Teilnehmer/in", "Zur Bewertung abgegeben", "Ja", "Freitag, 20. November 2026, 17:30"),
    ),
    "zh": (
        "标识符,全名,ID号,Email地址,状态,成绩,最高成绩,成绩可以被更改,最后修改（提交）,最后修改（成绩）,反馈评论",
        *("学员", "已提交以供评分", "是", "2026年11月20日 星期五 17:30"),
    ),
}
PEOPLE = [("1001", "Ada Lovelace", "ada", "ada@example.org"), ("1002", "Bea Doe", "bea", "bea@example.org")]


def worksheet(
    folder: Path, language: str, without: tuple[int, ...] = (), more: tuple[int, ...] = (), **ada: str
) -> Path:
    """Write a worksheet.

    Args:
        folder: The folder for the file.
        language: A key of `LANGUAGES`.
        without: The places of columns that are missing.
        more: The places before which a group, a marker or a workflow's state is put.
        ada: The `state` and `when` of Ada's submission, if they are special.
    """
    titles, word, state, yes, when = LANGUAGES[language]
    rows = [titles.split(",")]
    rows += [[f"{word}{n}", name, own, mail, state, "", "20,00", yes, when, "-", ""] for n, name, own, mail in PEOPLE]
    rows[1][4], rows[1][8] = ada.get("state", state), ada.get("when", when)
    for place in sorted(more, reverse=True):
        rows = [[*row[:place], "Gruppe A" if index else "Gruppe", *row[place:]] for index, row in enumerate(rows)]
    kept = [[cell for place, cell in enumerate(row) if place not in without] for row in rows]
    return write_csv(folder / f"{language}.csv", kept)


@pytest.fixture
def adas(tmp_path: Path) -> Path:
    """A download with Ada's notebook."""
    return write_zip(tmp_path / "all.zip", {"Ada Lovelace_1001_assignsubmission_file_/attention.ipynb": notebook()})


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("more", [(), (5,), (5, 7), (7,), (9,)])
def test_worksheet_in_any_language_is_read(
    language: str, more: tuple[int, ...], adas: Path, tmp_path: Path, assignment: Assignment
) -> None:
    """Are the students and their times found, whatever optional columns the worksheet has?"""
    write_atomically(tmp_path / "course" / "course.toml", 'timezone = "UTC"\n')
    course, sheet = Course(tmp_path / "course"), worksheet(tmp_path, language, more=more)
    write_roster(course)
    collect(course, assignment, [adas], read_worksheet(sheet))
    assert course.time_of("ada", NAME)[0] == datetime(2026, 11, 20, 17, 30, tzinfo=UTC)


def test_worksheet_without_fields_of_identity_is_the_roster(tmp_path: Path, assignment: Assignment) -> None:
    """Does a state such as "submitted" not become the id of a student?"""
    sheet = read_worksheet(worksheet(tmp_path, "de", without=(2, 3)))
    archive = write_zip(tmp_path / "all.zip", {"Bea Doe_1002_assignsubmission_file_/attention.ipynb": notebook()})
    collect(Course(tmp_path / "course"), assignment, [archive], sheet)
    assert list(submitted(Course(tmp_path / "course"))) == ["moodle-1002"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_blind_marking_works_by_number(language: str, course: Course, assignment: Assignment, tmp_path: Path) -> None:
    """If worksheet and download have numbers only, is each number a student, although the course has a roster?"""
    write_roster(course)
    sheet = read_worksheet(worksheet(tmp_path, language, without=(1, 2, 3)))
    word = LANGUAGES[language][1].strip().replace("/", "")
    archive = write_zip(tmp_path / "all.zip", {f"{word}_1002_assignsubmission_file_/attention.ipynb": notebook()})
    collect(course, assignment, [archive], sheet)
    assert list(submitted(course)) == ["moodle-1002"]


def test_export_keeps_the_worksheet_s_own_language(course: Course, assignment: Assignment, tmp_path: Path) -> None:
    """Does the table for Moodle have the worksheet's titles, scores with its decimal comma, and the comments?"""
    outcome, sheet = result(assignment, "ada", {"softmax_axis": "M6"}), read_worksheet(worksheet(tmp_path, "de"))
    course.prepare(assignment)
    with course.gradebook() as gradebook:
        put_in_gradebook(gradebook, assignment, outcome, dict.fromkeys(WRITTEN, 0.5))
    prepare_export(course, assignment, [outcome], "moodle", worksheet=sheet).write()


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Freitag, 20. November 2026, 17:30", datetime(2026, 11, 20, 17, 30)),
        ("Montag, 2. März 2026, 09:05", datetime(2026, 3, 2, 9, 5)),
        ("piątek, 20 listopada 2026, 17:30", datetime(2026, 11, 20, 17, 30)),  # the same word, two months
        ("utorak, 20. listopada 2026, 17:30", datetime(2026, 10, 20, 17, 30)),
        ("perjantai, 20. marraskuuta 2026, 17.30", datetime(2026, 11, 20, 17, 30)),
        ("thứ Sáu, 20 tháng 11 2026, 5:30 PM", datetime(2026, 11, 20, 17, 30)),
        ("Friday, 20 November 2026, 12:05 AM", datetime(2026, 11, 20, 0, 5)),
        ("Tuesday, 18 March 2025, 11:59\u202fPM", datetime(2025, 3, 18, 23, 59)),
        ("26/11/2026 17:30", datetime(2026, 11, 26, 17, 30)),
        ("11/26/2026 5:30 PM", datetime(2026, 11, 26, 17, 30)),
        ("05.11.2026 17:30", datetime(2026, 11, 5, 17, 30)),  # as a German spreadsheet writes it again
        ("2026-11-05 17:30", datetime(2026, 11, 5, 17, 30)),
        ("2026년 11월 20일, 금요일, 오후 5:30", datetime(2026, 11, 20, 17, 30)),
        ("2026年11月20日 星期五 下午5:30", datetime(2026, 11, 20, 17, 30)),
        ("viernes, 20 de noviembre de 2026, 5:30 p. m.", datetime(2026, 11, 20, 17, 30)),
        ("péntek, 20 november 2026, 12:05 de.", datetime(2026, 11, 20, 0, 5)),
        ("am Freitag, 20. November 2026, 17:30", datetime(2026, 11, 20, 17, 30)),  # "am" is no hour before noon
        ("-", None),
    ],
)
def test_time_in_any_language_is_read(text: str, when: datetime | None) -> None:
    """Is a time read in other languages than English?"""
    assert read_moodle_time(text) == when


@pytest.mark.parametrize(
    "text",
    [
        "5/11/2026 17:30",
        "5.30pm",
        "samedi 31 février 2026, 10:00",
        "20 Smarch 2026, 10:00",
        "20 November 2569, 17:30",  # 2026 in Thailand
    ],
)
def test_unclear_time_is_put_to_a_person(
    text: str, course: Course, adas: Path, assignment: Assignment, tmp_path: Path
) -> None:
    """Is a person asked about a time that cannot be read, with its text, instead of "in time"?"""
    collect(course, assignment, [adas], read_worksheet(worksheet(tmp_path, "en", when=text)))
    when, question = course.time_of("ada", NAME)
    assert when is None and text in question


@pytest.mark.parametrize(
    ("language", "state"),
    [
        ("en", "Submitted for grading - Extension granted until: Monday, 9 November 2026, 11:59 PM"),
        ("de", "Keine Abgabe - Verlängerung genehmigt bis: Montag, 9. November 2026, 23:59"),
        ("zh", "已提交 - 延期至：2026年11月9日 星期一 23:59"),
        ("en", "Przesłane - Przedłużono do: 9/11/2026 23:59"),  # 9 November, or 11 September
        ("en", "Submitted for grading - 2 days 3 hours late"),
        ("en", "No submission"),
        ("de", "Abgegeben - 1 Tag zu spät"),
    ],
)
def test_extension_in_the_status_is_listed(
    language: str, state: str, course: Course, adas: Path, assignment: Assignment, tmp_path: Path
) -> None:
    """Does a line name the student and the date, or its text if it is not clear, and nobody without an extension?"""
    collect(course, assignment, [adas], read_worksheet(worksheet(tmp_path, language, state=state)))


@pytest.mark.parametrize("eaten", ["1.26E+05", "1,26E+05", "1E+11"])
def test_id_that_a_spreadsheet_has_shortened_is_refused(eaten: str, tmp_path: Path) -> None:
    """Is an id refused with its line, in the roster and in a worksheet?"""
    course = Course(tmp_path / "course")
    write_roster(course, [{"id": "bea"}, {"id": eaten}])
    with pytest.raises(ValueError, match=r"roster\.csv, line 3: .*spreadsheet"):
        course.roster()
    path = worksheet(tmp_path, "de")
    path.write_text(path.read_text(encoding="utf-8").replace(",bea,", f',"{eaten}",'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"de\.csv, line 3: .*spreadsheet"):
        read_worksheet(path).entries()

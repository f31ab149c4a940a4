"""Do submissions arrive under the right name, whatever the archive holds?"""

import json
import os
import random
import time
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from downloads import (
    ADA,
    NAME,
    ROSTER,
    collect,
    listing,
    moodle_worksheet,
    notebook,
    outcomes,
    submitted,
    write_csv,
    write_roster,
    write_zip,
)
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course.course import Assignment, Course, Submission
from autograder.course.roster import read_worksheet
from autograder.files import write_atomically
from autograder.lms.names import read_name


def test_collect_moodle_folders(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Are Moodle's folders before and after 4.1 read, and online texts skipped?"""
    download = {
        "Ada Lovelace_100_assignsubmission_file_/attention.ipynb": notebook("ada"),
        "Ada Lovelace_100_assignsubmission_onlinetext_/onlinetext.html": b"<p>Hello</p>",
        "Bea Doe, Jr_101_assignsubmission_file/work/Copy of attention (1).ipynb": notebook("bea"),
        "Bea Doe, Jr_101_assignsubmission_onlinetext/onlinetext.html": b"<p>Hello</p>",
        unicodedata.normalize("NFD", "Çem Müller_102_assignsubmission_file_/attention.ipynb"): notebook("cem"),
        "Dan ONeill_103_assignsubmission_file_/attention.ipynb": notebook("dan"),
        "Eve =1+1_104_assignsubmission_file_/attention.ipynb": notebook("eve"),
        "Fay Unknown_105_assignsubmission_file_/attention.ipynb": notebook("fay"),
        "Jan Smith_106_assignsubmission_file_/attention.ipynb": notebook("jan"),
    }
    lines = collect(course, assignment, [write_zip(tmp_path / "moodle.zip", download)])
    assert submitted(course) == {name: notebook(name) for name in ("ada", "bea", "cem", "dan", "eve")}
    assert [line.outcome for line in lines].count("unmatched") == 2
    assert not list(course.root.glob("submitted/*/*/timestamp.txt"))  # the archive has only the time of the download


def test_collect_moodle_flat_with_worksheet(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does the worksheet distinguish two people with one name, and give the times of their submissions?"""
    people = [("106", "Jan Smith", "jan2@example.org"), ("107", "Jan Smith", "JAN1@example.org")]
    sheet = moodle_worksheet(tmp_path / "sheet.csv", people, "Tuesday, 18 March 2025, 11:59\u202fPM")
    download = {
        "Jan Smith_106_assignsubmission_file_attention.ipynb": notebook("two"),
        "Jan Smith_107_assignsubmission_file_attention.ipynb": notebook("one"),
    }
    collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], read_worksheet(sheet))
    assert submitted(course) == {"jan1": notebook("one"), "jan2": notebook("two")}
    text = (course.root / "submitted/jan1" / NAME / "timestamp.txt").read_text(encoding="utf-8")
    expected = time.mktime((2025, 3, 18, 23, 59, 0, 0, 0, -1))
    assert text.strip() == time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(expected))
    assert course.time_of("jan1", NAME) == (datetime.fromisoformat(text.strip()), "")


def test_collect_with_worksheet_of_another_assignment(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a file unmatched if its number belongs to another name?"""
    sheet = moodle_worksheet(tmp_path / "sheet.csv", [("100", "Dan O'Neill", "dan@example.org")])
    download = {"Ada Lovelace_100_assignsubmission_file_/attention.ipynb": notebook()}
    lines = collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], read_worksheet(sheet))
    assert [line.outcome for line in lines] == ["unmatched"]


def test_collect_with_numbers_of_another_assignment_in_the_roster(tmp_path: Path, assignment: Assignment) -> None:
    """If moodle_id is the number of another person in this worksheet, does neither get the other's file?"""
    course = Course(tmp_path / "course")
    people = [("ada", "Ada", "Lovelace", "101"), ("bea", "Bea", "Doe", "")]
    write_roster(course, [dict(zip(("id", "first_name", "last_name", "moodle_id"), each)) for each in people])
    table = [
        ["Identifier", "Full name", "Grade"],
        ["Participant 101", "Bea Doe", ""],
        ["Participant 102", "Ada Lovelace", ""],
    ]
    sheet = read_worksheet(write_csv(tmp_path / "sheet.csv", table))
    download = {"Bea Doe_101_assignsubmission_file_/attention.ipynb": notebook("bea")}
    collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], sheet)
    assert submitted(course) == {"bea": notebook("bea")}


@pytest.mark.parametrize("name", ["Group A-Ada Lovelace", "Übung 1 - B-Ada Lovelace", "Group-B-Participant"])
def test_collect_from_the_page_of_a_group(name: str, course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a file collected if its number and the end of its name fit: Moodle writes the group before the name?"""
    sheet = moodle_worksheet(tmp_path / "sheet.csv", [("101", "Ada Lovelace", "ada@example.org")])
    download = {f"{name}_101_assignsubmission_file_/attention.ipynb": notebook()}
    lines = collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], read_worksheet(sheet))
    assert [(line.outcome, line.student) for line in lines] == [("collected", "ada")]


@pytest.mark.parametrize("name", ["Group A-Bea Doe", "Ada Lovelace-Group A", "Group A", "Group AAda Lovelace"])
def test_collect_from_a_group_with_another_name(
    name: str, course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Is a file unmatched if only its number fits?"""
    sheet = moodle_worksheet(tmp_path / "sheet.csv", [("101", "Ada Lovelace", "ada@example.org")])
    download = {f"{name}_101_assignsubmission_file_/attention.ipynb": notebook()}
    lines = collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], read_worksheet(sheet))
    assert [line.outcome for line in lines] == ["unmatched"]


def test_collect_from_a_student_who_is_not_in_the_roster_yet(
    course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """If the worksheet lists a student whom the roster does not, does the reason say so, and what to do?"""
    sheet = moodle_worksheet(tmp_path / "sheet.csv", [("105", "Sam Late", "sam@example.org")])
    download = {"Sam Late_105_assignsubmission_file_/attention.ipynb": notebook()}
    (line,) = collect(course, assignment, [write_zip(tmp_path / "m.zip", download)], read_worksheet(sheet))
    assert line.why == "Sam Late is in the worksheet, not in roster.csv: add a line"


def test_collect_says_which_times_are_unknown(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a time that cannot be read listed with student and text, and a worksheet without such a column?"""
    people = [("101", "Ada Lovelace", "ada@example.org")]
    archive = write_zip(tmp_path / "m.zip", {"Ada Lovelace_101_assignsubmission_file_/attention.ipynb": notebook()})
    unclear = read_worksheet(moodle_worksheet(tmp_path / "unclear.csv", people, "5.30pm"))
    (line,) = [each for each in collect(course, assignment, [archive], unclear) if each.outcome == "look at"]
    assert (line.student, line.file) == ("ada", "5.30pm")
    table = [["Identifier", "Full name", "Grade"], ["Participant 101", "Ada Lovelace", ""]]
    without = read_worksheet(write_csv(tmp_path / "without.csv", table))
    (line,) = [each for each in collect(course, assignment, [archive], without) if each.outcome == "look at"]
    assert line.file.endswith("without.csv")


def test_collect_from_an_archive_in_an_unknown_code_page(
    course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Does the reason say that the letters of a name may be wrong, and the remedy, and are right names collected?"""
    write_roster(course, [{"id": "łukasz"}, {"id": "çem"}, {"id": "ada"}])
    archive = write_zip(
        tmp_path / "all.zip", {f"{name}/attention.ipynb": notebook(name) for name in ("@ukasz", "#em", "ada")}
    )
    archive.write_bytes(
        archive.read_bytes().replace(b"@ukasz", "łukasz".encode("cp852")).replace(b"#em", "çem".encode("cp852"))
    )
    lines = collect(course, assignment, [archive])
    assert submitted(course) == {"ada": notebook("ada"), "çem": notebook("#em")}
    assert [line.outcome for line in lines].count("unmatched") == 1


def test_collect_takes_no_file_for_one_of_another_number(tmp_path: Path, assignment: Assignment) -> None:
    """Is a file with two participants' numbers in its name unmatched, and the owner's own file collected?

    The roster holds no names.
    """
    course = Course(tmp_path / "course")
    write_atomically(course.root / "roster.csv", "id,moodle_id\nada,101\nmal,102\n")
    number = "_101_assignsubmission_file_"
    download = {
        f"Ada L{number}attention.ipynb": notebook("hers"),
        f"Mal M_102_assignsubmission_file_Ada L{number}attention.ipynb": notebook("his"),
        f"Ada L{number}_102_assignsubmission_file_/attention.ipynb": notebook("his"),
    }
    lines = collect(course, assignment, [write_zip(tmp_path / "m.zip", download)])
    assert submitted(course) == {"ada": notebook("hers")}
    assert sorted(line.outcome for line in lines) == ["collected", "unmatched", "unmatched"]


@pytest.mark.parametrize("with_roster", [True, False])
def test_collect_copies_of_the_repository(with_roster: bool, tmp_path: Path, assignment: Assignment) -> None:
    """Is the exercise of each student's copy taken, with the time written next to it, and no other notebook?"""
    course, clones = Course(tmp_path / "course"), tmp_path / "clones"
    if with_roster:
        write_roster(course)
    for student in ("ada", "bea"):
        for file in (
            f"exercises/{NAME}/attention.ipynb",
            "exercises/2_multihead/multihead.ipynb",
            "book/softmax.ipynb",
        ):
            (clones / student / file).parent.mkdir(parents=True)
            (clones / student / file).write_bytes(notebook(student))
    (clones / "ada" / "exercises" / NAME / "timestamp.txt").write_text("2026-10-12T19:30:00+02:00\n")
    (clones / "ada" / "notes").mkdir()
    (clones / "ada" / "notes" / "mine.ipynb").write_bytes(notebook("notes"))
    lines = collect(course, assignment, [clones])
    assert submitted(course) == {"ada": notebook("ada"), "bea": notebook("bea")}
    assert outcomes(lines)["ada/notes/mine.ipynb"] == "left alone ada"
    assert "unmatched" not in outcomes(lines).values()
    assert course.time_of("ada", NAME)[0] == datetime(2026, 10, 12, 17, 30, tzinfo=UTC)
    assert course.time_of("bea", NAME) == (None, "")  # its file was written by cloning
    one = Course(tmp_path / "another")
    lines = collect(one, assignment, [clones / "ada"])  # nothing says whose copy it is
    assert {*outcomes(lines).values()} == {"unmatched"} and submitted(one) == {}


def test_collect_without_roster_takes_the_worksheet(tmp_path: Path, assignment: Assignment) -> None:
    """Without a roster, does the worksheet name students by e-mail address, and is nobody known without a worksheet?"""
    course = Course(tmp_path / "course")
    download = write_zip(tmp_path / "m.zip", {"Ada L_7_assignsubmission_file_/attention.ipynb": notebook()})
    assert "there is no roster.csv" in collect(course, assignment, [download])[0].why
    sheet = read_worksheet(moodle_worksheet(tmp_path / "sheet.csv", [("7", "Ada L", "ada@example.org")]))
    assert [line.student for line in collect(course, assignment, [download], sheet)] == ["ada@example.org"]


def test_collect_canvas(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does the highest attempt count, is LATE recorded, and do id and name find the student?"""
    download = {
        "lovelaceada_501_9001_attention.ipynb": notebook("first"),
        "lovelaceada_501_9007_attention-2.ipynb": notebook("third"),
        "lovelaceada_501_9004_attention-1.ipynb": notebook("second"),
        "müllerçem_LATE_502_9002_attention.ipynb": notebook("cem"),
        "doejrbea_503_9003_Copy of attention.ipynb": notebook("bea"),
        "doejrbea_503_9005_scratch.ipynb": notebook("scratch"),
        "oneilldan_504_text.html": b"typed in",
        "smithjan_505_9006_attention.ipynb": notebook("jan"),
        "LATE_anon_ab12c_9008_attention.ipynb": notebook("who"),
    }
    lines = collect(course, assignment, [write_zip(tmp_path / "canvas.zip", download)])
    assert submitted(course) == {"ada": notebook("third"), "cem": notebook("cem"), "bea": notebook("bea")}
    assert outcomes(lines) == {
        "lovelaceada_501_9001_attention.ipynb": "older attempt ada",
        "lovelaceada_501_9004_attention-1.ipynb": "older attempt ada",
        "lovelaceada_501_9007_attention-2.ipynb": "collected ada",
        "müllerçem_LATE_502_9002_attention.ipynb": "collected cem",
        "doejrbea_503_9003_Copy of attention.ipynb": "collected bea",
        "doejrbea_503_9005_scratch.ipynb": "left alone bea",
        "oneilldan_504_text.html": "refused dan",
        "smithjan_505_9006_attention.ipynb": "unmatched",
        "LATE_anon_ab12c_9008_attention.ipynb": "unmatched",
    }
    kept = json.loads((course.root / "collected" / f"{NAME}.json").read_text(encoding="utf-8"))["collected"]
    assert kept["cem"]["late"] and not kept["ada"]["late"]
    assert (kept["ada"]["number"], kept["ada"]["attempt"], kept["ada"]["attachment"]) == ("501", 2, 9007)


def test_collect_canvas_by_gradebook(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does Canvas's gradebook export distinguish two people with one name?"""
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (77)"]
    rows = [["    Points Possible", "", "", "", "", "20"], ["Smith, Jan", "505", "", "jan2@example.org", "A", ""]]
    rows += [["Smith, Jan", "506", "jan1", "j.smith", "A", ""], ["Student, Test", "999", "", "x", "A", ""]]
    sheet = read_worksheet(write_csv(tmp_path / "grades.csv", [header, *rows]))
    download = {"smithjan_505_1_attention.ipynb": notebook("2"), "smithjan_506_2_attention.ipynb": notebook("1")}
    collect(course, assignment, [write_zip(tmp_path / "c.zip", download)], sheet)
    assert submitted(course) == {"jan1": notebook("1"), "jan2": notebook("2")}


def test_collect_a_later_download(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a later attempt replace an earlier one, which is kept, and never the reverse?"""
    old = write_zip(tmp_path / "old.zip", {"lovelaceada_501_10_attention.ipynb": notebook("old")})
    new = write_zip(tmp_path / "new.zip", {"lovelaceada_501_20_mine.ipynb": notebook("new")})
    assert outcomes(collect(course, assignment, [old])) == {"lovelaceada_501_10_attention.ipynb": "collected ada"}
    before = listing(course.root)
    assert outcomes(collect(course, assignment, [old])) == {"lovelaceada_501_10_attention.ipynb": "unchanged ada"}
    assert listing(course.root) == before
    assert outcomes(collect(course, assignment, [new])) == {"lovelaceada_501_20_mine.ipynb": "collected ada"}
    assert submitted(course) == {"ada": notebook("new")}
    assert (course.root / "earlier/ada" / NAME / "001/attention.ipynb").read_bytes() == notebook("old")
    assert outcomes(collect(course, assignment, [old])) == {"lovelaceada_501_10_attention.ipynb": "older attempt ada"}
    assert submitted(course) == {"ada": notebook("new")}


@pytest.mark.parametrize("draw", range(3))
def test_collect_with_a_torn_list_is_refused(course: Course, tmp_path: Path, assignment: Assignment, draw: int) -> None:
    """Is a torn list of collected files named in an error, and nothing lost after its removal?"""
    download = write_zip(
        tmp_path / "one.zip", {"ada/attention.ipynb": notebook("ada"), "dan/attention.ipynb": notebook("dan")}
    )
    collect(course, assignment, [download])
    path, before = course.root / "collected" / "1_attention.json", submitted(course)
    whole = path.read_bytes()
    path.write_bytes(whole[: random.Random(draw).randrange(len(whole) - 1)])
    with pytest.raises(ValueError, match=r"1_attention\.json cannot be read.*Remove it"):
        collect(course, assignment, [download])
    assert submitted(course) == before
    path.unlink()
    collect(course, assignment, [download])
    assert submitted(course) == before
    assert not list(course.root.glob("unmatched/*/*"))


def test_collect_keeps_what_was_put_there_by_hand(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Are all notebooks of a submission that a person put there moved away, so that the new one is graded?"""
    place = course.root / "submitted/ada" / NAME
    place.mkdir(parents=True)
    (place / "mine.ipynb").write_bytes(notebook("by hand"))
    (place / "timestamp.txt").write_text("2025-01-01 00:00:00 UTC", encoding="utf-8")
    download = {"Ada Lovelace_100_assignsubmission_file_/x.ipynb": notebook("new")}
    collect(course, assignment, [write_zip(tmp_path / "m.zip", download)])
    assert course.read_submission("ada", assignment) == Submission(notebook("new"))
    assert sorted(os.listdir(course.root / "earlier/ada" / NAME / "001")) == ["mine.ipynb", "timestamp.txt"]
    assert sorted(os.listdir(place)) == ["attention.ipynb"]


def test_collect_folders_and_files(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Are STUDENT/, STUDENT/ASSIGNMENT/ and ID_….ipynb read, also with right-to-left names, and other paths unmatched?"""
    folder, single = tmp_path / "folder", tmp_path / "single"
    files = {
        folder / "ada/attention.ipynb": "ada",
        folder / "-rf" / NAME / "attention.ipynb": "-rf",
        folder / "נועה/attention.ipynb": "נועה",
        folder / "bea/2_multihead/attention.ipynb": "another assignment",
        folder / "nobody/attention.ipynb": "nobody",
        folder / ".ipynb_checkpoints/attention.ipynb": "hidden",
        single / "cem_final.ipynb": "cem",
        single / "dan.ipynb": "dan",
        single / "attention.ipynb": "whose",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(notebook(text))
    (folder / "-rf" / NAME / "timestamp.txt").write_text("2025-03-01 10:00:00 UTC", encoding="utf-8")
    os.utime(folder / "ada/attention.ipynb", (0, 10**9))
    lines = collect(course, assignment, [folder, *sorted(single.iterdir())])
    assert submitted(course) == {name: notebook(name) for name in ("ada", "-rf", "נועה", "cem", "dan")}
    unmatched = {line.file for line in lines if line.outcome == "unmatched"}
    assert unmatched == {"nobody/attention.ipynb", "attention.ipynb"}
    assert outcomes(lines)["bea/2_multihead/attention.ipynb"] == "left alone bea"
    times = {
        p.parts[-3]: p.read_text(encoding="utf-8").strip() for p in course.root.glob("submitted/*/*/timestamp.txt")
    }
    assert times["-rf"] == "2025-03-01T10:00:00+00:00"
    assert times["ada"] == "2001-09-09T01:46:40+00:00"


def test_collect_a_folder_without_roster(tmp_path: Path, assignment: Assignment) -> None:
    """Without a roster, is a folder's name the id?"""
    (tmp_path / "in/zoe").mkdir(parents=True)
    (tmp_path / "in/zoe/attention.ipynb").write_bytes(notebook())
    (tmp_path / "in/lovelaceada_1_2_attention.ipynb").write_bytes(notebook("ada"))
    lines = collect(Course(tmp_path / "course"), assignment, [tmp_path / "in"])
    assert sorted(outcomes(lines).values()) == ["collected zoe", "unmatched"]


def test_collect_unmatched_are_kept_until_they_are_matched(
    course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Is an unmatched file kept with its reason until the roster knows the student?"""
    download = write_zip(tmp_path / "m.zip", {"Fay New_9_assignsubmission_file_/attention.ipynb": notebook("fay")})
    collect(course, assignment, [download])
    place = course.root / "unmatched" / NAME
    (kept,) = place.glob("*.ipynb")
    assert kept.read_bytes() == notebook("fay")
    assert "nobody is called 'Fay New'" in (place / "reasons.txt").read_text(encoding="utf-8")
    write_roster(course, [*ROSTER, {"id": "fay", "first_name": "Fay", "last_name": "New"}])
    assert [line.outcome for line in collect(course, assignment, [download])] == ["collected"]
    assert os.listdir(place) == ["reasons.txt"]
    assert (place / "reasons.txt").read_text(encoding="utf-8") == ""


def test_collect_unmatched_with_the_text_of_another(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does an unmatched file stay listed after another student submitted the same text, until a person removes it?"""
    files = {f"{ADA}/attention.ipynb": notebook(), "Fay New_9_assignsubmission_file_/attention.ipynb": notebook()}
    download = write_zip(tmp_path / "m.zip", files)
    place = course.root / "unmatched" / NAME
    for _ in range(2):
        collect(course, assignment, [download])
        (kept,) = place.glob("*.ipynb")
        assert "Fay New" in (place / "reasons.txt").read_text(encoding="utf-8")
    kept.unlink()
    collect(course, assignment, [])
    assert (place / "reasons.txt").read_text(encoding="utf-8") == ""


def test_read_worksheet_says_what_it_needs(tmp_path: Path) -> None:
    """Does a table that is no worksheet raise an error with its columns?"""
    with pytest.raises(ValueError, match="columns Kennung, Bewertung"):
        read_worksheet(write_csv(tmp_path / "x.csv", [["Kennung", "Bewertung"]]))


def test_collect_survives_names_with_numbers_of_any_length(
    course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Are all other files collected if a name holds more digits than Python converts to a number?"""
    write_roster(course)
    digits = "9" * 5000
    names = (f"ada_501_{digits}_a.ipynb", f"bea_502_7_a-{digits}.ipynb", "dan/attention.ipynb")
    path = write_zip(tmp_path / "download.zip", {name: notebook() for name in names})
    lines = collect(course, assignment, [path])
    assert [line.student for line in lines if line.outcome == "collected"] == ["ada", "bea", "dan"]
    assert len(lines) == len(names)


def test_read_name_of_canvas_with_numbers_in_the_name() -> None:
    """Are the first two numbers of a name user and upload, as in Canvas?"""
    sender = read_name("x2_LATE_7_8_9_10_a-3.ipynb", NAME)
    assert (sender.name, sender.number, sender.attachment, sender.file) == ("x2", "7", 8, "9_10_a-3.ipynb")
    assert sender.late and sender.attempt == 3 and sender.back == "x2_LATE_7_8_9_10_a-3.html"


def test_command_collect_prints_a_receipt(course: Course, tmp_path: Path) -> None:
    """Does the command print each file's outcome, without characters that turn the line around?"""
    path = write_zip(
        tmp_path / "m.zip", {f"{ADA}/a.ipynb": notebook(), "\u202eevil_1_assignsubmission_file_/a.ipynb": b"x"}
    )
    result = CliRunner().invoke(app, ["collect", NAME, str(path), "--course", str(course.root)])
    assert result.exit_code == 0
    assert "1 collected" in result.output and "1 unmatched" in result.output
    assert "\u202e" not in result.output


def test_command_collect_says_where_nothing_is(tmp_path: Path) -> None:
    """Is a folder without a submission named, and a missing path refused before a course is made?"""
    collect_here = ["collect", NAME, "--course", str(tmp_path / "course")]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*collect_here, str(tmp_path / "none.zip")])
    assert result.exit_code == 2 and "does not exist" in result.output and not (tmp_path / "course").exists()
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, [*collect_here, str(tmp_path / "empty")])
    assert result.exit_code == 1 and "no submission is in it" in result.output

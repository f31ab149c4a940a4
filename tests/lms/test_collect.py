"""Do submissions arrive, whatever was there before? `collect` compares what it says with tests/golden/said.txt."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from downloads import ADA, NAME, ROSTER, collect, listing, notebook, submitted, write_csv, write_roster, write_zip
from test_cli import run

from autograder.course.course import Assignment, Course, Submission
from autograder.course.roster import read_worksheet
from autograder.files import write_atomically


def test_collect_from_an_archive_in_another_code_page(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a name in UTF-8 read that the archive does not call UTF-8, and one in an unknown code page listed?"""
    write_roster(course, [{"id": "łukasz"}, {"id": "çem"}, {"id": "émile"}])
    archive = write_zip(
        tmp_path / "all.zip", {f"{name}/a.ipynb": notebook(name) for name in ("@ukasz", "#em", "__mile")}
    )
    names = {b"@ukasz": "łukasz".encode("cp852"), b"#em": "çem".encode("cp437"), b"__mile": "émile".encode()}
    for written, name in names.items():
        archive.write_bytes(archive.read_bytes().replace(written, name))
    collect(course, assignment, [archive])
    assert submitted(course) == {"çem": notebook("#em"), "émile": notebook("__mile")}


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
    collect(course, assignment, [clones])
    assert submitted(course) == {"ada": notebook("ada"), "bea": notebook("bea")}
    assert course.time_of("ada", NAME)[0] == datetime(2026, 10, 12, 17, 30, tzinfo=UTC)
    assert course.time_of("bea", NAME) == (None, "")  # its file was written by cloning
    write_atomically(course.root / "submitted" / "ada" / NAME / "timestamp.txt", "2026-10-11 12:00:00 UTC")
    for text, is_clear in (("2026-10-12 19:30 IST", False), ("2026-10-12T19:30:00+02:00", True)):
        (clones / "bea" / "exercises" / NAME / "timestamp.txt").write_text(text)
        collect(course, assignment, [clones])
        assert (course.time_of("bea", NAME)[1] == "") == is_clear
    assert course.time_of("bea", NAME)[0] == datetime(2026, 10, 12, 17, 30, tzinfo=UTC)
    assert course.time_of("ada", NAME)[0] == datetime(2026, 10, 11, 12, tzinfo=UTC)  # a person wrote it
    one = Course(tmp_path / "another")
    collect(one, assignment, [clones / "ada"])  # nothing says whose copy it is
    assert submitted(one) == {}


def test_collect_a_later_download(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a later attempt replace an earlier one, which is kept, and never the reverse?"""
    old = write_zip(tmp_path / "old.zip", {"lovelaceada_501_10_attention.ipynb": notebook("old")})
    new = write_zip(tmp_path / "new.zip", {"lovelaceada_501_20_mine.ipynb": notebook("new")})
    collect(course, assignment, [old])
    before = listing(course.root)
    collect(course, assignment, [old])
    assert listing(course.root) == before
    for download in (new, old):
        collect(course, assignment, [download])
        assert submitted(course) == {"ada": notebook("new")}
    assert (course.root / "earlier/ada" / NAME / "001/attention.ipynb").read_bytes() == notebook("old")


def test_collect_keeps_the_times_of_archives_apart(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is an unclear time in one archive none in another one, which has the same path and no timestamp.txt?"""
    first = write_zip(tmp_path / "a.zip", {"ada/attention.ipynb": notebook("1"), "ada/timestamp.txt": b"soon"})
    second = write_zip(tmp_path / "b.zip", {"ada/attention.ipynb": notebook("2")})
    collect(course, assignment, [first, second])
    assert (submitted(course), course.time_of("ada", NAME)[1]) == ({"ada": notebook("2")}, "")


def test_collect_with_a_torn_list_is_refused(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a torn list of collected files named in an error, and nothing lost after its removal?"""
    download = write_zip(tmp_path / "one.zip", {"ada/attention.ipynb": notebook("ada"), "dan/x.ipynb": notebook("dan")})
    collect(course, assignment, [download])
    path, before = course.root / "collected" / "1_attention.json", submitted(course)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"1_attention\.json cannot be read.*Remove it"):
        collect(course, assignment, [download])
    assert submitted(course) == before
    path.unlink()
    collect(course, assignment, [download])
    assert submitted(course) == before


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
        folder / "-rf" / NAME / "work" / "attention.ipynb": "-rf",
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
    collect(course, assignment, [folder, *sorted(single.iterdir())])
    assert submitted(course) == {name: notebook(name) for name in ("ada", "-rf", "נועה", "cem", "dan")}
    times = {
        p.parts[-3]: p.read_text(encoding="utf-8").strip() for p in course.root.glob("submitted/*/*/timestamp.txt")
    }
    assert times["-rf"] == "2025-03-01T10:00:00+00:00"
    assert times["ada"] == "2001-09-09T01:46:40+00:00"


def test_collect_keeps_unmatched_files_until_they_are_matched(
    course: Course, tmp_path: Path, assignment: Assignment
) -> None:
    """Is an unmatched file kept with its reason until the roster knows the student, or until a person removes it?"""
    files = {f"{ADA}/attention.ipynb": notebook(), "Fay New_9_assignsubmission_file_/attention.ipynb": notebook()}
    download = write_zip(tmp_path / "m.zip", files)
    place = course.root / "unmatched" / NAME
    for remove in (False, True):
        collect(course, assignment, [download])
        (kept,) = place.glob("*.ipynb")
        assert kept.read_bytes() == notebook()  # although Ada submitted the same
        assert "nobody is called 'Fay New'" in (place / "reasons.txt").read_text(encoding="utf-8")
        if remove:
            kept.unlink()
            collect(course, assignment, [])
        else:
            write_roster(course, [*ROSTER, {"id": "fay", "first_name": "Fay", "last_name": "New"}])
            collect(course, assignment, [download])
            write_roster(course)
        assert os.listdir(place) == ["reasons.txt"]
        assert (place / "reasons.txt").read_text(encoding="utf-8") == ""


def test_read_worksheet_says_what_it_needs(tmp_path: Path) -> None:
    """Does a table that is no worksheet raise an error with its columns?"""
    with pytest.raises(ValueError, match="columns Kennung, Bewertung"):
        read_worksheet(write_csv(tmp_path / "x.csv", [["Kennung", "Bewertung"]]))


def test_command_collect_prints_a_receipt(course: Course, tmp_path: Path) -> None:
    """Does the command print each file's outcome, without characters that turn the line around?"""
    path = write_zip(
        tmp_path / "m.zip", {f"{ADA}/a.ipynb": notebook(), "\u202eevil_1_assignsubmission_file_/a.ipynb": b"x"}
    )
    result = run("collect", NAME, str(path), "--course", str(course.root))
    assert result.exit_code == 0
    assert "1 collected" in result.output and "1 unmatched" in result.output
    assert "\u202e" not in result.output


def test_command_collect_says_where_nothing_is(tmp_path: Path) -> None:
    """Is a folder without a submission named, and a missing path refused before a course is made?"""
    (tmp_path / "empty").mkdir()
    for path, code, said in (("none.zip", 2, "does not exist"), ("empty", 1, "no submission is in it")):
        result = run("collect", NAME, "--course", str(tmp_path / "course"), str(tmp_path / path))
        assert result.exit_code == code and said in result.output
        assert (tmp_path / "course").exists() == (path == "empty")

"""Is a deceptive download refused with a reason, without writing, reading or waiting elsewhere?"""

import os
import stat
import zipfile
from pathlib import Path

import pytest
from downloads import ADA, NAME, collect, listing, notebook, patch, submitted, write_roster, write_zip

from autograder.course.course import Assignment, Course, Submission
from autograder.files import Unreadable


def hostile(path: Path, kind: str) -> Path:
    """Write an archive in which Ada's submission is deceptive."""
    info = zipfile.ZipInfo(f"{ADA}/attention.ipynb")
    data = b"/etc/passwd" if kind == "link" else notebook()
    info.external_attr = {"link": stat.S_IFLNK, "device": stat.S_IFCHR, "pipe": stat.S_IFIFO}.get(kind, 0) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, data, zipfile.ZIP_LZMA if kind == "method" else zipfile.ZIP_DEFLATED)
        if kind == "twice":
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr(info.filename, notebook("2"))
    if kind == "encrypted":
        patch(path, 8, b"\x01\x00")
    if kind == "lies about its size":
        patch(path, 24, (10).to_bytes(4, "little"))
    if kind == "huge":
        patch(path, 24, (2**31).to_bytes(4, "little"))
    return path


HOSTILE = {
    "link": "not a file",
    "device": "not a file",
    "pipe": "not a file",
    "twice": "in the archive 2 times",
    "encrypted": "encrypted",
    "method": "unusual",
    "lies about its size": "cannot be unpacked",
    "huge": "at most 50 are read. Clear the outputs",
}


@pytest.mark.parametrize(("kind", "why"), HOSTILE.items())
def test_collect_hostile_members(kind: str, why: str, course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a hostile member refused with its reason, under the student's true state, and nothing written elsewhere?"""
    good = write_zip(tmp_path / "good.zip", {"Dan ONeill_103_assignsubmission_file_/attention.ipynb": notebook("dan")})
    bad = hostile(tmp_path / "bad.zip", kind)
    before = listing(tmp_path, without=course.root)
    collect(course, assignment, [bad, good])
    assert listing(tmp_path, without=course.root) == before
    assert submitted(course) == {"dan": notebook("dan")}
    with pytest.raises(Unreadable, match=why):
        course.read_submission("ada", assignment)


def test_collect_hostile_folder(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Are pipes, links and linked folders refused, without waiting and without following them?"""
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    for name in ("ada", "bea", "cem"):
        (folder / name).mkdir(parents=True)
    secret.mkdir()
    (secret / "attention.ipynb").write_bytes(notebook("answers"))
    os.mkfifo(folder / "ada/attention.ipynb")
    (folder / "bea/attention.ipynb").symlink_to(secret / "attention.ipynb")
    (folder / "cem/attention.ipynb").symlink_to("/dev/zero")
    (folder / "dan").symlink_to(secret)
    (tmp_path / "link").symlink_to(secret)
    before = listing(tmp_path, without=course.root)
    collect(course, assignment, [folder, tmp_path / "link", tmp_path / "nothing.zip"])
    assert listing(tmp_path, without=course.root) == before
    assert submitted(course) == {}


def test_collect_into_a_hostile_course(course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Is a link in submitted/ never followed for writing, and a pipe instead of a submission never read?"""
    (tmp_path / "out").mkdir()
    (course.root / "submitted/dan" / NAME).mkdir(parents=True)
    (course.root / "submitted/ada").symlink_to(tmp_path / "out")
    for name in ("attention.ipynb", "timestamp.txt"):
        os.mkfifo(course.root / "submitted/dan" / NAME / name)
    download = {f"{ADA}/a.ipynb": notebook(), "Dan ONeill_1_assignsubmission_file_/a.ipynb": notebook("dan")}
    collect(course, assignment, [write_zip(tmp_path / "m.zip", download)])
    assert os.listdir(tmp_path / "out") == []
    assert course.read_submission("dan", assignment) == Submission(notebook("dan"))


@pytest.mark.parametrize("data", [b"", b"<!DOCTYPE html>", b"PK\x05\x06" + b"\0" * 18, "torn", "no name"])
def test_collect_what_is_no_archive(data, course: Course, tmp_path: Path, assignment: Assignment) -> None:
    """Does a broken, partial or empty archive give a line in the receipt?"""
    path = write_zip(tmp_path / "m.zip", {f"{ADA}/attention.ipynb": notebook()})
    if data == "no name":
        patch(path, 8, b"\x00\x08")  # this flag says that names are UTF-8
        path.write_bytes(path.read_bytes().replace(b"attention.ipynb", b"\xff\xfe\xfdention.ipynb"))
    else:
        path.write_bytes(path.read_bytes()[:-30] if data == "torn" else data)
    lines = collect(course, assignment, [path])
    assert [line.outcome for line in lines] == ["refused"]


@pytest.mark.parametrize("student", ["..", ".", "a/b", "../x", "x" * 500, "a\tb", "a<b", ".hidden"])
def test_collect_refuses_ids_that_are_no_folder(student: str, tmp_path: Path, assignment: Assignment) -> None:
    """Is a roster refused before anything is written if an id cannot be the name of a folder?"""
    course = Course(tmp_path / "course")
    write_roster(course, [{"id": student, "first_name": "Ada", "last_name": "Lovelace"}])
    before = listing(tmp_path)
    with pytest.raises(ValueError, match="Correct roster"):
        collect(course, assignment, [write_zip(tmp_path / "m.zip", {f"{ADA}/a.ipynb": notebook()})])
    (tmp_path / "m.zip").unlink()
    assert listing(tmp_path) == before

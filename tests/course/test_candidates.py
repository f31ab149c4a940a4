"""Does the content of a student's files decide which one counts, and is a person asked if it cannot?"""

import gzip
import io
import json
import os
import tarfile
import zipfile

import pytest
from conftest import NAME
from downloads import answered, saved
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course import archives, candidates
from autograder.course.course import Assignment, Course, Submission
from autograder.course.decisions import read_decisions
from autograder.files import Unreadable
from autograder.imports import ROOT
from autograder.publish.generated import exercise_of, sources

SOLVED = answered(softmax="1", attention="2")
OTHER = answered(softmax="1", attention="3")
MORE = answered(softmax="1", attention="2", self_attention="3")
PDF = b"%PDF-1.4"
FOLDER = f"submitted/ada/{NAME}"
NAMES = """Copy of attention.ipynb|attention (1).ipynb|attention-Copy1.ipynb|attention-2.ipynb|zz.ipynb|attention copy.ipynb
Untitled.ipynb|attention.ipynb.txt|attention.json|ATTENTION.IPYNB|work|deeper/attention.ipynb|1/2/3/attention.ipynb
2_multihead/attention.ipynb.txt""".replace("\n", "|").split("|")


def put(course: Course, files: dict[str, bytes]) -> None:
    """Put files into Ada's folder, as a person does."""
    for name, data in files.items():
        path = course.root / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (10**9, 10**9))


def packed(*names: str, data: bytes = SOLVED, kind: str = "zip") -> bytes:
    """Return an archive of files with the same content."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=file, mode="w:gz" if kind == "tar.gz" else "w") as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def conflict(data: bytes) -> bytes:
    """Return a notebook with git's conflict marks at its top."""
    return b"<<<<<<< HEAD\n" + data + b"\n=======\n" + data + b"\n>>>>>>> theirs\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("original", ["attention.ipynb", "a.ipynb", "zzz.ipynb"])
def test_the_solved_one_counts_whatever_it_is_called(
    name: str, original: str, blank: bytes, course: Course, assignment: Assignment
) -> None:
    """If a blank original is next to the solved file, is the solved one taken, and does the feedback say why?"""
    if name.startswith("2_"):
        put(course, {name: SOLVED})  # alone, in a folder with a wrong name
    else:
        put(course, {original: blank, name: SOLVED})
    found = course.read_submission("ada", assignment)
    assert (found.data, found.questions) == (SOLVED, [])
    assert name.startswith("2_") or any("holds no changed answer" in line for line in found.receipt)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"attention.ipynb": SOLVED, "attention.pdf": PDF, "a.png": b"\x89PNG", "attention.py": b"x = 1"}, SOLVED),
        ({"Untitled.ipynb": SOLVED, "vit.pth": b"x", "attention.docx": b"PK\x03\x04", "a.html": b"<html>"}, SOLVED),
        ({"attention.json": SOLVED, "package.json": b'{"name": "x"}'}, SOLVED),
        ({"attention.ipynb.txt": conflict(SOLVED)}, conflict(SOLVED)),
        ({"attention": SOLVED[:-40]}, SOLVED[:-40]),
        ({"attention.txt": SOLVED.decode().encode("utf-16")}, SOLVED.decode().encode("utf-16")),
        ({"attention.ipynb.zip": packed("attention.ipynb")}, SOLVED),
        ({"work.zip": packed("work/figure.png", data=PDF), "b.ipynb": SOLVED}, SOLVED),
        ({"work.tar.gz": packed("work/attention.ipynb", kind="tar.gz")}, SOLVED),
        ({"work.tar": packed("work/attention.ipynb", kind="tar")}, SOLVED),
        ({"attention.ipynb.gz": gzip.compress(SOLVED)}, SOLVED),
        ({"work": packed("__MACOSX/._attention.ipynb", "attention.ipynb")}, SOLVED),
    ],
)
def test_a_notebook_is_known_by_its_content(
    files: dict[str, bytes], expected: bytes, course: Course, assignment: Assignment
) -> None:
    """Is the notebook found under any name and in an archive, and does no other file compete with it?"""
    put(course, files)
    found = course.read_submission("ada", assignment)
    assert (found.data, found.questions) == (expected, [])


def test_two_notebooks_with_different_answers_are_a_question(course: Course, assignment: Assignment) -> None:
    """Is a person asked about two different answers, but not about equal answers, or answers that another file contains too?"""
    put(course, {"attention.ipynb": SOLVED, "attention (1).ipynb": OTHER})
    (question,) = course.read_submission("ada", assignment).questions
    assert question.startswith("two notebooks, both with changed answers: ")
    assert "attention.ipynb" in question and "attention (1).ipynb" in question and "which one counts?" in question
    put(course, {"attention (1).ipynb": SOLVED})
    assert course.read_submission("ada", assignment).questions == []
    # This is the same notebook, saved again.
    put(course, {"attention (1).ipynb": json.dumps(json.loads(SOLVED), indent=1).encode()})
    assert course.read_submission("ada", assignment).questions == []
    one, other = (
        saved(("code", "def softmax(s):\n    return f()"), ("code", f"def f():\n    return {n}")) for n in "12"
    )
    put(course, {"attention.ipynb": one, "attention (1).ipynb": other})
    assert len(course.read_submission("ada", assignment).questions) == 1
    put(course, {"attention.ipynb": SOLVED, "attention (1).ipynb": MORE})
    assert course.read_submission("ada", assignment) == Submission(
        MORE,
        [
            "The file was called 'attention (1).ipynb'; it was taken as attention.ipynb.",
            "attention.ipynb does not count: all its answers are in attention (1).ipynb too.",
        ],
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_more_answers_then_time_decide_what_is_taken_until_somebody_decides(
    swapped: bool, course: Course, assignment: Assignment
) -> None:
    """Does the number of answers decide which file is taken, then the later time, and never the alphabet?"""
    names = ("a.ipynb", "b.ipynb")[:: -1 if swapped else 1]
    put(course, {names[0]: answered(softmax="1", attention="4", self_attention="5"), names[1]: SOLVED})
    assert f"{names[0]} was taken" in course.read_submission("ada", assignment).questions[0]
    put(course, {names[0]: OTHER})
    os.utime(course.root / FOLDER / names[1], (2 * 10**9, 2 * 10**9))
    assert f"{names[1]} was taken" in course.read_submission("ada", assignment).questions[0]


def test_the_notebook_of_another_assignment_and_a_chapter_lose_silently(course: Course, assignment: Assignment) -> None:
    """Is the right assignment's notebook taken if all are there, and the wrong one if it is alone, so that grading names it?"""
    (source,) = [source for source in sources() if source.stem == "multihead"]
    other = json.loads((ROOT / exercise_of(source)).read_text(encoding="utf-8"))
    for cell in other["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = f"def {cell['id']}(*x):\n    return x\ndef softmax(x):\n    return x"
    wrong = json.dumps(other).encode()
    put(course, {"attention.ipynb": wrong})
    assert course.read_submission("ada", assignment).data == wrong
    put(course, {"x.ipynb": SOLVED, "y.ipynb": (ROOT / "book" / "attention.ipynb").read_bytes()})
    found = course.read_submission("ada", assignment)
    assert (found.data, found.questions) == (SOLVED, [])
    assert "it is the notebook of 2_multihead" in found.receipt[-2]
    assert "it is the chapter attention" in found.receipt[-1]


def test_only_other_files_are_unreadable_in_words_and_no_file_is_missing(
    course: Course, assignment: Assignment
) -> None:
    """Does a reason name the files of a student who submitted no notebook, and is one without a file missing?"""
    put(course, {"timestamp.txt": b"2026-01-01 00:00:00 UTC"})
    assert course.read_submission("ada", assignment) is None
    put(course, {"work.zip": packed("report.pdf", data=PDF), "deeper/x.png": b"\x89PNG"})
    with pytest.raises(Unreadable, match=r"submitted: work.zip and x.png; no notebook was found"):
        course.read_submission("ada", assignment)
    put(course, {"work.zip": packed("again.zip", data=packed("attention.ipynb"))})
    with pytest.raises(Unreadable, match="an archive of this kind is not opened"):
        course.read_submission("ada", assignment)


@pytest.mark.parametrize(
    ("limit", "kind"), [("MAX_PACKED", "tar.gz"), ("MAX_MEMBERS", "tar.gz"), ("MAX_MEMBERS", "zip")]
)
def test_limits_of_packed_submissions(
    limit: str, kind: str, course: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is a student's archive refused if it is larger than the limit?"""
    monkeypatch.setattr(archives, limit, 1)
    put(course, {"work": packed("a.ipynb", "b.ipynb", kind=kind)})
    with pytest.raises(Unreadable, match=r"more than|at most 1 are allowed"):
        course.read_submission("ada", assignment)


def test_so_many_notebooks_are_looked_into(
    course: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is the number of notebooks limited, and is the one with the right name among those that are read?"""
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 2)
    put(course, {f"{number}.ipynb": OTHER for number in range(5)} | {"attention.ipynb": SOLVED})
    found = course.find_files("ada", assignment)
    assert len(found.notebooks) == 2 and found.notebooks[0].name == "attention.ipynb"
    assert len(found.others) == 4


def test_a_blank_notebook_next_to_what_cannot_be_opened_is_a_question(
    blank: bytes, course: Course, assignment: Assignment
) -> None:
    """Is a person asked about an archive that cannot be opened, unless the notebook next to it is solved?"""
    put(course, {"attention.ipynb": blank, "work.rar": b"Rar!"})
    (question,) = course.read_submission("ada", assignment).questions
    assert "holds no changed answer, and what was submitted with it cannot be read: work.rar" in question
    put(course, {"attention.ipynb": SOLVED})
    assert course.read_submission("ada", assignment).questions == []


def test_settle_file_decides_until_a_file_changes(course: Course, assignment: Assignment) -> None:
    """Does the command show each file's content, do decisions hold, and does a new file raise a new question?"""
    put(course, {"attention.ipynb": SOLVED, "b.ipynb": OTHER})
    command = ["settle", "ada", NAME, "--course", str(course.root)]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "attention.ipynb: 2 cells of the assignment, 2 answers changed" in shown.output
    before = course.read_submission("ada", assignment)
    for name, data in (("attention.ipynb", SOLVED), ("b.ipynb", OTHER)):
        settled = CliRunner().invoke(app, [*command, "--file", name])
        assert settled.exit_code == 0, settled.output
        found = course.read_submission("ada", assignment)
        assert (found.data, found.questions) == (data, [])
        assert found.candidates not in ("", before.candidates)  # a new value, so that it is graded again
    assert list(read_decisions(course.root, NAME)["ada"].files) == ["b.ipynb"]
    wrong = CliRunner().invoke(app, [*command, "--file", "c.ipynb"])
    assert wrong.exit_code == 1 and "attention.ipynb and b.ipynb" in wrong.output
    put(course, {"c.ipynb": answered(softmax="9")})
    assert len(course.read_submission("ada", assignment).questions) == 1


def test_large_file_and_linked_folder_are_not_read(course: Course, assignment: Assignment) -> None:
    """Are a notebook of 60 MB and linked folders refused with a reason, and is no time read or written behind a link?"""
    put(course, {"attention.ipynb": b"", "timestamp.txt": b"2026-10-12 19:30+02:00"})
    os.truncate(course.root / FOLDER / "attention.ipynb", 60 * 10**6)
    with pytest.raises(Unreadable, match=r"57\.2 MiB; at most 50 are read\. Clear the outputs"):
        course.read_submission("ada", assignment)
    (course.root / "submitted" / "eve").symlink_to("ada")
    course.submission_folder("bea", "another").mkdir(parents=True)
    course.submission_folder("bea", NAME).symlink_to(course.root / FOLDER)
    for student in ("eve", "bea"):
        with pytest.raises(Unreadable, match="the folder of the submission is a link"):
            course.read_submission(student, assignment)
        assert course.time_of(student, NAME) == (None, "")

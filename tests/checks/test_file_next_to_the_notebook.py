"""Is a file next to the notebook collected, graded with a class, and shown on pages?"""

from pathlib import Path

import nbformat
import numpy as np
import pytest
from conftest import assignment_of
from downloads import notebook as small_notebook
from downloads import outcomes, write_zip
from nbformat import NotebookNode
from sample_class import answer, saved
from test_checkpoint import GOOD, LIMITS, random_images, weights

from autograder.checks.vit import checkpoint
from autograder.course.course import Assignment, Course
from autograder.course.decisions import Decision, write_decision
from autograder.files import MAX_FILE
from autograder.grade.execute import execute
from autograder.grade.grade import InstallationError, grade, grader_key
from autograder.grade.workers import Workers
from autograder.lms.collect import collect
from autograder.report.report import questions_of, write_report

NAME, STEM = "4_vit", "vit"


@pytest.fixture
def file_assignment() -> Assignment:
    """The assignment with a file of weights, of which one answer and the tests of the file are left."""
    whole = assignment_of(NAME)

    def short(notebook: NotebookNode, source: str) -> NotebookNode:
        one = nbformat.from_dict(answer(notebook, "patchify") | {"source": source})
        tests = [cell for cell in notebook.cells if "file" in cell.metadata]
        return nbformat.v4.new_notebook(cells=[one, *tests], metadata=notebook.metadata)

    short_ones = short(whole.instructor, "answer = 1"), short(whole.release, "raise NotImplementedError()")
    return Assignment(NAME, STEM, *short_ones)


def submit(
    course: Course, student: str, assignment: Assignment, file: bytes | None, source: str = "answer = 2"
) -> Path:
    """Submit a notebook and a file next to it."""
    folder = course.root / "submitted" / student / NAME
    folder.mkdir(parents=True, exist_ok=True)
    work = nbformat.from_dict(assignment.release)
    work.cells[0].source = source
    nbformat.write(work, folder / f"{STEM}.ipynb")
    if file is not None:
        (folder / "vit.pt").write_bytes(file)
    return folder


THIEF = """import glob, os
found = [p for top in (".", "/tmp", "/home", "/dev/shm") for p in glob.glob(top + "/**/*.pt", recursive=True)]
print("found", found)
open("vit.pt", "wb").write(b"mine"); os.makedirs("/tmp/home/sub"); open("/tmp/home/sub/vit.pt", "wb").write(b"mine")
import builtins, sys, types
fake = types.ModuleType("torch"); fake.load = lambda *a, **k: {}; sys.modules["torch"] = fake"""


def test_execute_keeps_the_file_from_the_notebook(file_assignment: Assignment) -> None:
    """Is the submitted file judged, whatever the notebook writes, and is it invisible to the notebook?"""
    work = nbformat.from_dict(file_assignment.instructor)
    work.cells[0].source = THIEF
    done = execute(work, 3, LIMITS, files={"vit.pt": GOOD}, held_out=random_images())
    assert [check.passed for check in done.checks] == [True] * 5
    assert done.notebook.cells[0].outputs[0].text.strip() == "found []"
    assert done.files == {"vit.pt": "40 of 40 images are recognised, 100.00% of MNIST's test set."}
    done = execute(work, 3, LIMITS, files={}, held_out=random_images())
    assert [check.passed for check in done.checks] == [False] * 5
    assert "vit.pt was not submitted" in done.checks[0].message
    assert checkpoint._verdicts.get() is None


@pytest.mark.deep
def test_grade_takes_files_of_a_class(
    course: Course,
    file_assignment: Assignment,
    two_workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Does each student of a class get a score, a message and a page, and is a changed file graded again?"""
    record = tmp_path / "record.pt"
    monkeypatch.setattr(checkpoint, "RECORD", record)
    monkeypatch.setattr(checkpoint, "held_out", lambda root=None: random_images())
    submit(course, "ada", file_assignment, GOOD)
    submit(course, "bea", file_assignment, None)
    submit(course, "cem", file_assignment, bytes(MAX_FILE + 2**20))
    (submit(course, "dan", file_assignment, None) / "vit.pt").symlink_to("/etc/passwd")
    (submit(course, "eve", file_assignment, None) / "vit.pt").mkdir()
    (submit(course, "jan1", file_assignment, None) / "vit (1).pt").write_bytes(GOOD)
    submit(course, "jan2", file_assignment, GOOD, source="import os; os._exit(1)")
    options = {"workers": two_workers, "limits": LIMITS}
    with pytest.raises(InstallationError, match=r"record\.pt is missing"):
        grade(course, file_assignment, seed=1, **options)
    record.write_bytes(saved(weights(1)))
    with pytest.raises(InstallationError, match="recognised"):  # a record that is not good enough proves nothing
        grade(course, file_assignment, seed=1, **options)
    record.write_bytes(GOOD)
    results = {r.student: r for r in grade(course, file_assignment, seed=1, **options)}
    points = {name: sum(check["points"] for check in r.checks if check["passed"]) for name, r in results.items()}
    assert points == {"ada": 6, "jan1": 6, "jan2": 6} | dict.fromkeys(["bea", "cem", "dan", "eve", "-rf", "נועה"], 0)
    states = {name: result.state for name, result in results.items() if result.state != "missing"}
    assert states == dict.fromkeys(["ada", "bea", "cem", "dan", "eve"], "graded") | {
        "jan1": "graded after repair",
        "jan2": "crashed",
    }
    said = {
        "bea": "not submitted",
        "cem": "5.0 MiB; at most 4",
        "dan": "cannot be opened",
        "eve": "is not a plain file",
    }
    for student, words in said.items():
        assert words in results[student].files["vit.pt"]
        assert words in results[student].checks[0]["message"]
    assert "'vit (1).pt'; it was taken as vit.pt" in results["jan1"].receipt[0]
    report = write_report(course, file_assignment, list(results.values())).read_text(encoding="utf-8")
    assert "vit.pt, submitted next to the notebook" in report
    assert "vit.pt is not a plain file" in report
    (question,) = questions_of(file_assignment)
    assert (question.name, question.maximum) == ("vit.pt", 6)
    kept = course.load_result("ada", NAME)
    (course.root / "submitted" / "ada" / NAME / "vit.pt").write_bytes(saved(weights(1)))
    again = {r.student: r for r in grade(course, file_assignment, **options)}
    assert again["ada"].key != kept.key
    assert not again["ada"].checks[-1]["passed"]
    assert again["bea"].key == results["bea"].key


def test_grade_again_where_mnist_came_later(file_assignment: Assignment) -> None:
    """Is a result from the stand-in graded again after the machine got MNIST?"""
    keys = {grader_key(file_assignment, True, held) for held in (random_images(), checkpoint.stand_in(), None)}
    assert len(keys) == 3


# ------------------------------------------------------------------------------------------------------ collecting


def files_next_to(course: Course) -> dict[str, bytes]:
    """Return the submitted files next to the notebooks and their times, by student and name."""
    paths = [path for path in course.root.glob("submitted/*/*/*.*") if path.suffix != ".ipynb"]
    return {f"{path.parts[-3]}/{path.name}": path.read_bytes() for path in paths if path.name != "timestamp.txt"}


DOWNLOADS = {
    "Moodle, folders": {
        "Ada Lovelace_100_assignsubmission_file_/vit.ipynb": small_notebook("ada"),
        "Ada Lovelace_100_assignsubmission_file_/vit.pt": b"of ada",
        "Dan ONeill_103_assignsubmission_file_/vit (1).PT": b"of dan",
    },
    "Moodle, files": {
        "Ada Lovelace_100_assignsubmission_file_vit.ipynb": small_notebook("ada"),
        "Ada Lovelace_100_assignsubmission_file_vit.pt": b"of ada",
        "Dan ONeill_103_assignsubmission_file_Copy of vit.pt": b"of dan",
    },
    "Canvas": {
        "lovelaceada_501_9001_vit.ipynb": small_notebook("ada"),
        "lovelaceada_LATE_501_9003_vit-1.pt": b"of ada",
        "oneilldan_777_9004_vit.pt": b"of dan",
        "lovelaceada_501_9005_best model.pt": b"another file",
    },
    "folders": {
        "ada/4_vit/vit.ipynb": small_notebook("ada"),
        "ada/4_vit/weights/vit.pth": b"of ada",
        "ada/4_vit/notes.txt": b"not asked for",
        "dan/4_vit/best.pth": b"of dan",
    },
}


@pytest.mark.parametrize("system", DOWNLOADS)
def test_collect_takes_the_file(system: str, course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is the file put next to the notebook under its name, and is nothing else taken?"""
    lines = collect(course, file_assignment, [write_zip(tmp_path / "download.zip", DOWNLOADS[system])])
    assert files_next_to(course) == {"ada/vit.pt": b"of ada", "dan/vit.pt": b"of dan"}, lines
    assert [path.name for path in course.root.glob("submitted/ada/*/*.ipynb")] == ["vit.ipynb"]
    again = collect(course, file_assignment, [tmp_path / "download.zip"])
    assert {line.outcome for line in again} <= {"unchanged", "older attempt", "left alone"}


def test_collect_sets_a_large_file_aside(course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is a file of 5 MB refused with a reason, while its notebook is taken? Is a smaller file taken later?"""
    files = {
        "ada/4_vit/vit.ipynb": small_notebook(),
        "ada/4_vit/vit.pt": np.random.default_rng(2).bytes(5 * 2**20),
    }
    lines = collect(course, file_assignment, [write_zip(tmp_path / "one.zip", files)])
    assert outcomes(lines) == {"ada/4_vit/vit.ipynb": "collected ada", "ada/4_vit/vit.pt": "refused ada"}
    assert set(files_next_to(course)) == {"ada/vit.pt.refused.txt"}
    content = course.read_submission("ada", file_assignment).files
    assert (
        "vit.pt has 5.0 MiB; a vit.pt may have at most 4"
        in checkpoint.read("vit.pt", content["vit.pt"], LIMITS, True)[1]
    )
    collect(course, file_assignment, [write_zip(tmp_path / "two.zip", {"ada/4_vit/vit.pt": b"small"})])
    taken = course.read_submission("ada", file_assignment)
    assert (taken.files, taken.receipt) == ({"vit.pt": b"small"}, [])
    assert not (course.root / "submitted" / "ada" / NAME / "vit.pt.refused.txt").exists()


def test_collect_keeps_what_was_there(course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is an earlier file kept, a file without an owner put aside, and a single file taken by its name?"""
    for number, text in enumerate((b"first", b"second")):
        collect(course, file_assignment, [write_zip(tmp_path / f"{number}.zip", {"ada/vit.pt": text})])
    assert (course.root / "earlier" / "ada" / NAME / "001" / "vit.pt").read_bytes() == b"first"
    (line,) = collect(course, file_assignment, [write_zip(tmp_path / "who.zip", {"zoe/vit.pt": b"whose?"})])
    assert line.outcome == "unmatched"
    assert [path.suffix for path in (course.root / "unmatched" / NAME).iterdir() if path.suffix != ".txt"] == [".pt"]
    (tmp_path / "dan_vit.pt").write_bytes(GOOD)  # the file looks like an archive, and must not be opened
    lines = collect(course, file_assignment, [tmp_path / "dan_vit.pt"])
    assert outcomes(lines) == {"dan_vit.pt": "collected dan"}
    assert files_next_to(course)["dan/vit.pt"] == GOOD


@pytest.mark.parametrize("name", ["vit.pth", "vit (1).pt", "weights/vit.pt", "Copy of vit.PT", "best.pth"])
def test_weights_of_another_name_are_taken(name: str, course: Course, file_assignment: Assignment) -> None:
    """Are weights taken that a person put there, if they are called .pth, are a second download, or are in a folder?"""
    path = submit(course, "ada", file_assignment, None) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"weights")
    found = course.read_submission("ada", file_assignment)
    assert found.files == {"vit.pt": b"weights"}
    assert found.receipt


@pytest.mark.parametrize(
    "pair", ["vit.pt vit_(1).pt", "vit.pt Copy_of_vit.pt", "vit.pt vit-Copy1.pt", "best.pt last.pt"]
)
def test_two_files_are_a_question(pair: str, course: Course, file_assignment: Assignment, tmp_path: Path) -> None:
    """Is a person asked which of two different files counts, but not about two equal ones?"""
    one, copy = (name.replace("_", " ") for name in pair.split())
    files = {"ada/vit.ipynb": small_notebook(), f"ada/{one}": b"first", f"ada/{copy}": b"second"}
    for _ in range(2):
        collect(course, file_assignment, [write_zip(tmp_path / "x.zip", files)])
        assert files_next_to(course) == {f"ada/{one}": b"first", f"ada/{copy}": b"second"}
        assert "2 files of weights" in course.read_submission("ada", file_assignment).questions[0]
    decision = file_assignment.wanted.decide(course.find_files("ada", file_assignment), copy)
    write_decision(course.root, NAME, "ada", Decision([], "", decision))
    decided = course.read_submission("ada", file_assignment)
    assert (decided.files, decided.questions) == ({"vit.pt": b"second"}, [])
    collect(course, file_assignment, [write_zip(tmp_path / "x.zip", files | {f"ada/{copy}": b"first"})])
    assert files_next_to(course) == {"ada/vit.pt": b"first"}

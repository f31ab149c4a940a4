"""Is the student version complete, with the instructor's addresses, and without any answer?"""

import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from conftest import ALL
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum
from sample_class import fill_in, softmax_over_queries
from test_build import body_lines
from test_cli import run

from autograder.cells import is_grade, is_solution
from autograder.course.course import Assignment
from autograder.grade.grade import load_assignment
from autograder.grade.repair import repair_notebook
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of
from autograder.publish.student_version import write_student_version
from autograder.publish.tests_wheel import PACKAGE, WHEEL, wheel_of
from autograder.settings import Settings, read_settings

TOML = """name = "A course"
repository = "https://github.com/Teacher/attention-course.git/"
branch = "autumn"
[due]
1_attention = 2026-10-12 18:00:00Z
"""
# Lines of answers that are in chapters too: any training loop or class has them, or a chapter is about them.
IN_CHAPTERS = {
    "loss.backward()",
    "optimizer.zero_grad()",
    "optimizer.step()",
    "return layer",
    "return block",
    "weights = scores.softmax(dim=-1)",  # the smallest case, which a chapter shows in the field's notation
    "unit = tokens / tokens.norm(dim=-1, keepdim=True)",
    "total = 0.0",
    "except ValueError:",
    "nn.init.xavier_uniform_(parameter)",  # encoder.md derives it, parameter by parameter
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course that names the address of its student version."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "course.toml").write_text(TOML, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def version(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student version with every assignment."""
    folder = tmp_path_factory.mktemp("students") / "version"
    write_student_version(folder, read_settings(course))
    return folder


def files_of(version: Path) -> list[Path]:
    """Return every file to push."""
    return [path for path in version.rglob("*") if path.is_file() and ".git" not in path.relative_to(version).parts]


def text_of(path: Path) -> str:
    """Return the text of a file; of a notebook, the cells."""
    if path.suffix == ".ipynb":
        return "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
    return path.read_text(encoding="utf-8", errors="replace")


def lines_of_answers() -> dict[str, str]:
    """Return every line of every answer that no released notebook holds, with its assignment."""
    paths = [*ROOT.glob("exercises/*/*.ipynb"), *ROOT.glob(f"exercises/{PACKAGE}/*.py")]
    released = [text_of(path) for path in paths]
    given = {line.split("  # ")[0].strip() for text in released for line in text.splitlines()}
    found = {}
    for name, stem in ALL.items():
        files = {Path(each.answers.__file__) for each in exercises_of(stem).values()}
        lines = [line for path in files for line in body_lines(path.read_text(encoding="utf-8")) if line not in given]
        assert lines, f"the answers of {name} were not found"
        found |= dict.fromkeys(lines, name)
    assert len(found) > 20 * len(ALL)
    return found


def leaks(texts: dict[Path, str]) -> list[tuple[str, Path]]:
    """Return (line, text) where a text holds an answer's line: long ones anywhere, short ones as a complete line."""
    found = []
    answers = lines_of_answers()
    for path, text in texts.items():
        lines = {line.split("  # ")[0].strip() for line in text.splitlines()}
        found += [
            (line, path)
            for line in answers
            if line not in IN_CHAPTERS and (line in lines or (len(line) > 20 and line in text))
        ]
    return found


def test_student_version_holds_no_line_of_an_answer(version: Path) -> None:
    """Are all files free of every line of the answers, and would one be found?"""
    texts = {path.relative_to(version): text_of(path) for path in files_of(version)}
    assert leaks(texts) == []
    assert all(leaks({Path(stem): (ROOT / "solutions" / f"{stem}.py").read_text()}) for stem in ALL.values())


def test_student_version_holds_no_written_answer(version: Path) -> None:
    """Are all files free of sentences from model answers and rubrics?"""
    text = "\n".join(map(text_of, files_of(version)))
    for name in ALL:
        cells = load_assignment(name).instructor.cells
        written = [cell.source for cell in cells if is_grade(cell) and is_solution(cell)]
        sentences = [each.strip() for source in written for each in re.split(r"[.:]\s", source) if len(each) > 20]
        assert len(sentences) >= 3 * len(written)
        assert [each for each in sentences if each in text] == []


def test_student_version_leaves_out_what_is_the_instructors(version: Path) -> None:
    """Are solutions, checks, tests, attacks, and the pages for instructors and after exercises left out?"""
    places = [path.relative_to(version).as_posix() for path in files_of(version)]
    wrong = re.compile(r"(solutions|autograder|tests|data|course)/|book/(instructors|attacks|after_|wrong_lines)")
    assert [place for place in places if wrong.match(place)] == []
    text = "\n".join(text_of(path) for path in files_of(version) if path.suffix in (".md", ".ipynb"))
    ours = ("literalinclude", "not for students", "BEGIN SOLUTION", "HIDDEN TESTS", "MARK SCHEME", "instructors.md")
    assert [word for word in ours if word in text] == []


def test_student_version_has_the_instructors_addresses(version: Path) -> None:
    """Do repository, branch, Colab and the published book lead to the instructor's addresses everywhere?"""
    ours = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load((version / "_config.yml").read_text(encoding="utf-8"))
    assert config["repository"]["url"] == "https://github.com/Teacher/attention-course"
    assert config["repository"]["branch"] == "autumn"
    text = "\n".join(map(text_of, files_of(version)))
    assert "attention-course.git" not in text and "attention-course//" not in text
    assert ours["html"]["baseurl"] not in text and ours["repository"]["url"] not in text
    assert "attention-book/attention-book" not in text and "Teacher/attention-course/autumn/book/records/" in text
    notebook = text_of(version / "exercises" / "1_attention" / "attention.ipynb")
    assert "https://teacher.github.io/attention-course/book/softmax.html" in notebook
    readme = (version / "README.md").read_text(encoding="utf-8")
    colab = "https://colab.research.google.com/github/Teacher/attention-course/blob/autumn/exercises/1_attention/attention.ipynb"
    assert colab in readme and readme.startswith("# A course\n") and "12 October 2026, 18:00 UTC" in readme
    assert "**Submit until 12 October 2026, 18:00 UTC.**" in (version / "book" / "1_attention_exercise.md").read_text()


def test_notebook_of_the_student_version_needs_no_repair(version: Path) -> None:
    """Is no student told about a changed cell, because only lines with addresses differ from our notebook?

    The set-up cell has the address of the tests in the course's own repository, with their digest.
    """
    wheel = (version / "exercises" / WHEEL).read_bytes()
    assert wheel == wheel_of(version)
    address = f"https://github.com/Teacher/attention-course/raw/autumn/exercises/{WHEEL}"

    def lines_of(notebook: NotebookNode) -> list[str]:
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        return [line for line in "\n".join(code).splitlines() if "https://" not in line]

    for name in ALL:
        assignment = load_assignment(name)
        data = next((version / "exercises" / name).glob("*.ipynb")).read_bytes()
        assert data != nbformat.writes(assignment.release).encode() + b"\n"
        assert repair_notebook(data, assignment.instructor, assignment.release).receipt == []
        notebook = nbformat.reads(data.decode(), 4)
        assert lines_of(notebook) == lines_of(assignment.release)
        setup = next(cell.source for cell in notebook.cells if "tests" in cell.metadata)
        assert f" {address}#sha256={hashlib.sha256(wheel).hexdigest()}\n" in setup
        known = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
        assert all(cell.metadata.nbgrader.checksum == compute_checksum(cell) for cell in known)
        other = data.replace(b"import sys", b"import sys, os", 1)
        assert other != data and repair_notebook(other, assignment.instructor, assignment.release).receipt != []


def test_student_version_pins_what_it_needs(version: Path) -> None:
    """Does every package have the version of our lock, and can the files of other tools be parsed?"""
    locked = set(re.findall(r"(?m)^\S+==\S+", (ROOT / "requirements.txt").read_text(encoding="utf-8")))
    for place in ("requirements.txt", "binder/requirements.txt", "constraints.txt"):
        lines = (version / place).read_text(encoding="utf-8").splitlines()
        named = [line.split(" ;")[0] for line in lines if not line.startswith("-c")]
        assert len(named) > 5 and set(named) <= locked, place
    assert json.loads((version / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))["image"]
    workflow = yaml.safe_load((version / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8"))
    assert workflow[True]["push"]["branches"] == ["autumn"]


def test_student_version_only_of_some_is_whole(tmp_path: Path) -> None:
    """Are other exercises gone from contents, tables and links too, and does a second run write the same?"""
    (tmp_path / "course.toml").write_text(f'assignments = ["2_multihead"]\n{TOML}', encoding="utf-8")
    some, written = tmp_path / "some", []
    command = ("student-version", "--students", str(some), "--course", str(tmp_path))
    for _ in range(2):
        done = run(*command)
        assert done.exit_code == 0, done.output
        written.append({path.relative_to(some): path.read_bytes() for path in files_of(some)})
    first, second = written
    assert first.keys() == second.keys()
    assert not [path for path in first if first[path] != second[path]]
    names = {"2_multihead", PACKAGE, WHEEL}
    assert {path.name for path in (some / "exercises").iterdir()} == names
    assert [path.name for path in (some / "exercises" / PACKAGE).glob("*.json")] == ["multihead.json"]
    assert (some / ".git").is_dir()
    for page in some.glob("book/*.md"):
        text = page.read_text(encoding="utf-8")
        for name in set(ALL) - {"2_multihead"}:
            assert f"{name}_exercise.md" not in text and f"exercises/{name}" not in text, page
        for target in re.findall(r"\]\((\w+\.md)", text):
            assert (some / "book" / target).exists(), (page, target)
    contents = (some / "_toc.yml").read_text(encoding="utf-8")
    assert all((some / f"{place}.md").exists() for place in re.findall(r"file: (\S+)", contents))


def test_student_version_spares_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """Is a folder with other files left unchanged, and is an unknown assignment or a missing address a one-line error?"""
    (tmp_path / "diary.txt").write_text("mine", encoding="utf-8")
    settings = Settings(repository="https://github.com/a/b")
    with pytest.raises(ValueError, match="is not empty"):
        write_student_version(tmp_path, settings)
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]
    with pytest.raises(ValueError, match="there is no assignment '9_x'"):
        write_student_version(tmp_path / "new", replace(settings, assignments=("9_x",)))
    done = run("student-version", "--students", str(tmp_path / "new"), "--course", str(tmp_path))
    assert done.exit_code == 1 and 'repository = "https://github.com/YOU/COURSE"' in done.stderr
    (tmp_path / "course.toml").write_text('repository = "git@gitlab.com:teacher/course.git"', encoding="utf-8")
    done = run("student-version", "--students", str(tmp_path / "new"), "--course", str(tmp_path))
    assert done.exit_code == 1 and "only from GitHub, not from https://gitlab.com/teacher/course" in done.stderr
    assert not (tmp_path / "new").exists()


def test_check_of_the_student_version_says_what_visible_tests_see(
    version: Path, assignment: Assignment, tmp_path: Path
) -> None:
    """Does the check at a push pass right answers, name a mistake, and skip an unwritten exercise and an unwritten bonus?"""
    right = fill_in(assignment.release, assignment.instructor)
    wrong = nbformat.from_dict(right)
    softmax_over_queries(wrong)

    def check(**notebooks: NotebookNode) -> tuple[int, str]:
        paths = [tmp_path / f"{name}.ipynb" for name in notebooks]
        for path, notebook in zip(paths, notebooks.values()):
            path.write_text(nbformat.writes(notebook), encoding="utf-8")
        command = [sys.executable, str(version / ".github" / "check.py"), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    said = [
        f"{tmp_path}/{name}.ipynb: {passed} of 4 visible tests pass\n" for name, passed in (("right", 4), ("new", 0))
    ]
    assert check(right=right, new=assignment.release) == (0, "".join(said))
    code, text = check(wrong=wrong)
    assert code == 1 and "  attention: WrongAnswer: M6 (the softmax runs over the wrong axis)" in text


@pytest.mark.parametrize("name", ALL)
def test_check_of_the_student_version_counts_only_visible_tests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does each exercise have one result, although an answer of exercise 5 is called test_attention?"""
    check = runpy.run_path(str(ROOT / "autograder" / "publish" / "students" / "check.py"))
    monkeypatch.setattr("nbclient.NotebookClient.execute", lambda client: None)  # without outputs every test passes
    (path,) = (ROOT / "exercises" / name).glob("*.ipynb")
    assert check["results_of"](path) == dict.fromkeys(exercises_of(ALL[name]), "")


@pytest.mark.deep
def test_clone_of_the_student_version_builds_its_book(version: Path, tmp_path: Path) -> None:
    """Does a fresh clone build its book by the workflow's command, without a warning, and without an answer on any page?"""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, "add", "-A"], cwd=version, check=True)
    subprocess.run(["git", *identity, "commit", "-q", "-m", "Version"], cwd=version, check=True)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(version), str(clone)], check=True)
    workflow = yaml.safe_load((clone / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8"))
    (command,) = [
        step["run"] for step in workflow["jobs"]["build"]["steps"] if "jupyter-book build" in step.get("run", "")
    ]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MPLBACKEND")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    pages = clone.glob("_build/html/**/*.html")
    assert leaks({page: BeautifulSoup(page.read_text(), "html.parser").get_text() for page in pages}) == []

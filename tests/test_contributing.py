"""Are the guides for contributors right if every step is done in a copy of the repository?"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autograder.imports import ROOT

CONTRIBUTING, STYLE, EXERCISE, GRADER = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("CONTRIBUTING.md", "STYLE.md", "autograder/checks/README.md", "autograder/README.md")
)
TEXT = CONTRIBUTING + STYLE + EXERCISE
# A block with a file name holds this file, or its end.
BLOCK = re.compile(r"^(`{3,})(?:python|md) (\S+)\n(.*?)^\1$", re.M | re.S)
LINE = re.compile(r"`(- file: \S+)`")  # a line for the contents
QUOTED = re.compile(r"^```text\n\$ (.*?)\n(.*?)^```$", re.M | re.S)
SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository without ignored files, after every step of every section."""
    root = tmp_path_factory.mktemp("contributing")
    for name in ("autograder", "solutions", "exercises", "book", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, root / name)
    for _, file, text in BLOCK.findall(TEXT):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        with (root / file).open("a", encoding="utf-8") as there:
            there.write(text)
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapter, exercise = map(yaml.safe_load, LINE.findall(TEXT))
    place = max(place for place, part in enumerate(contents["parts"]) if "numbered" in part)
    contents["parts"][place]["chapters"] += chapter
    contents["parts"][place + 1]["chapters"] += exercise
    (root / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
    return root


def run_python(copy: Path, *arguments: str) -> str:
    """Run Python with the copy's modules, in its own process; return its output."""
    return checked(copy, sys.executable, *arguments)


def checked(copy: Path, *command: str) -> str:
    """Run a program that finds the copy's modules first, and that has to succeed; return its output."""
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'exercises'}", "COLUMNS": "130"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_found() -> None:
    """Are all examples of files in the guides made, and has each new page its line in the contents?"""
    pages = (CONTRIBUTING, STYLE, EXERCISE)
    assert [len(BLOCK.findall(page)) for page in pages] == [2, 1, 8]
    assert [len(LINE.findall(page)) for page in pages] == [0, 1, 1]


def test_contributing_is_short() -> None:
    """Can the guide be read in a few minutes?"""
    assert len(CONTRIBUTING.encode()) <= 8000


def test_files_that_the_guides_name_exist() -> None:
    """Do all files and folders that a guide names exist, except its own examples?"""
    folders = [ROOT / name for name in ("autograder", "book", "exercises", "solutions", "tests")]
    there = {path.as_posix() for folder in folders for path in (folder, *folder.rglob("*"))} | set(
        map(Path.as_posix, ROOT.glob("*.*"))
    )
    examples = {file for _, file, _ in BLOCK.findall(TEXT)} | {"course/submitted", "course/results"}
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|md|yml|toml|txt|js|bib|pt)|/))`", TEXT + GRADER))
    named = {name.rstrip("/") for name in named if "NAME" not in name}
    assert len(named) > 40
    assert [name for name in sorted(named - examples) if not any(path.endswith(f"/{name}") for path in there)] == []


def test_exercise_that_was_added_is_all_that_changes(copy: Path) -> None:
    """Do the other assignments' notebooks stay what their sources give?"""
    found = run_python(copy, "-c", "from autograder.publish.build import stale_files; print(*stale_files())")
    assert set(found.split()) == {
        "book/entropy.ipynb",
        "book/mistakes.md",
        "exercises/1_attention/attention.ipynb",  # a mistake was added to it
        "exercises/attention_tests/attention.json",
        "exercises/6_entropy/entropy.ipynb",
        "exercises/attention_tests/entropy.json",
    }


@pytest.mark.deep
@pytest.mark.parametrize("page", [CONTRIBUTING, EXERCISE], ids=["a mistake", "an exercise"])
def test_page_prints_what_it_says(copy: Path, page: str) -> None:
    """Do a page's commands, after its Python code, print the quoted text? Its N is any number, the same each time."""
    program = "from autograder.publish.visible_tests import frozen_file; print(frozen_file('entropy'))"
    (copy / "exercises/attention_tests/entropy.json").write_text(run_python(copy, "-c", program), encoding="utf-8")
    for script in SCRIPT.findall(page):
        run_python(copy, "-c", script)
    commands = QUOTED.findall(page)
    assert commands
    for command, said in commands:
        line = command.replace(".venv/bin/autograder", f"{sys.executable} -m autograder")
        printed = checked(copy, "bash", "-o", "pipefail", "-c", line)
        number = re.search(r"(\d+) of", printed)[1]
        assert printed.split() == [number if word == "N" else word for word in said.split()]


@pytest.mark.deep  # `make exercises` makes the page of mistakes again, which takes minutes
def test_pages_that_were_added_are_built(copy: Path, tmp_path: Path) -> None:
    """Are both pages built without a warning, with the chapter's output, in a book without other pages?"""
    run_python(copy, "-m", "autograder", "build")
    pages = [line.split()[-1] for line in LINE.findall(TEXT)]
    for name in ("_config.yml", "requirements.txt", "book/references.bib", *(f"{page}.md" for page in pages)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(copy / name, tmp_path / name)
    for name in ("book/_ext", "book/_static", "book/records", "exercises", "solutions"):
        shutil.copytree(copy / name, tmp_path / name)
    contents = {"format": "jb-book", "root": pages[0], "chapters": [{"file": page} for page in pages[1:]]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
    builder = str(Path(sys.executable).with_name("jupyter-book"))
    checked(copy, builder, "build", str(tmp_path), "-W", "-n", "--keep-going")
    chapter, exercise = ((tmp_path / "_build" / "html" / f"{page}.html").read_text("utf-8") for page in pages)
    assert "array([1.39, 0.94])" in chapter and "Solution: entropy" in exercise


@pytest.mark.deep
def test_exercise_that_was_added_passes_all_tests(copy: Path) -> None:
    """Does the new assignment pass all tests of every assignment, without a change in a test?"""
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, copy / name)
    run_python(copy, "-m", "autograder", "build")
    left_out = [f"--ignore={path}" for path in ("tests/test_contributing.py", "tests/publish/test_book.py")]
    said = run_python(copy, "-m", "pytest", "-q", "-m", "not deep", "-k", "entropy and not row_entropy", *left_out)
    assert int(re.search(r"(\d+) passed", said)[1]) > 15

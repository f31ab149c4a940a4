"""Is what CONTRIBUTING.md says true when it is done, step by step, to a copy of the repository?"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.imports import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))
# A block that says where it goes: it is a file, or stands at the end of one.
BLOCK = re.compile(r"^(`{3,})(?:python|md) (\S+)\n(.*?)^\1$", re.M | re.S)
QUOTED = re.compile(r"^```text\n\$ \.venv/bin/autograder (.*?)\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, without what is ignored, with every step of every section done."""
    root = tmp_path_factory.mktemp("contributing")
    for name in ("autograder", "solutions", "exercises", "book", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, root / name)
    for _, file, text in BLOCK.findall(TEXT):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        with (root / file).open("a", encoding="utf-8") as there:
            there.write(text)
    return root


def run(copy: Path, command: str) -> str:
    """Run a line of a shell in the copy, with its own `autograder`."""
    line = f"set -o pipefail; {sys.executable} -m autograder {command}"
    environment = os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "130"}
    done = subprocess.run(["bash", "-c", line], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_are_those_of_three_sections() -> None:
    """Does each section that adds something say in which files?"""
    files = {title: [file for _, file, _ in BLOCK.findall(text)] for title, text in SECTIONS.items()}
    assert {title for title, found in files.items() if found} == {
        "Add a mistake",
        "Add a right answer",
        "Add an exercise",
    }
    assert len(files["Add an exercise"]) == 7


@pytest.mark.parametrize("title", [pytest.param("Add a mistake", marks=pytest.mark.deep), "Add an exercise"])
def test_section_prints_what_it_says(copy: Path, title: str) -> None:
    """Do its commands print what is quoted?"""
    commands = QUOTED.findall(SECTIONS[title])
    assert commands
    for command, said in commands:
        assert run(copy, command).split() == said.split()


def test_exercise_that_was_added_is_graded(copy: Path) -> None:
    """Does a student who hands in the answer get the point of the new exercise?"""
    fill_in = (
        "from sample_class import fill_in, hand_in; from autograder.grading.grade import load_assignment; "
        "from pathlib import Path; new = load_assignment('6_entropy'); "
        "hand_in(Path('course'), 'ada', fill_in(new.release, new.instructor), '6_entropy')"
    )
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}"}
    subprocess.run([sys.executable, "-c", fill_in], cwd=copy, env=environment, check=True)
    assert re.search(r"ada\W+graded\W+1 of 1\b", run(copy, "grade 6_entropy"))


def test_exercise_that_was_added_is_all_that_changes(copy: Path) -> None:
    """Are the other assignments' notebooks still what their sources give?"""
    found = "from autograder.authoring.generated import stale; print(*stale())"
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-c", found], cwd=copy, env=environment, capture_output=True, text=True)
    assert set(done.stdout.split()) == {
        "book/mistakes.md",
        "exercises/1_attention/attention.ipynb",  # to which a mistake was added
        "exercises/6_entropy/entropy.ipynb",
    }, done.stderr

"""Is the quick start for instructors true when it is done, command by command?"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Grade, Gradebook

from autograder.imports import ROOT

TEXT = (ROOT / "book" / "instructors.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```toml (\S+)\n(.*?)^```$", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
HOME = "/home/you"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Every command of the page, in its order: what the page says that it prints, and what it prints."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "attention-book"
    folder.mkdir()
    (folder / "tests").symlink_to(ROOT / "tests")
    ((place, text),) = FILE.findall(TEXT)
    (folder / place).parent.mkdir()
    (folder / place).write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1"}
    found = []
    for block in CONSOLE.findall(TEXT):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            program, _, arguments = command.partition(" ")
            line = f"{shlex.quote(sys.executable)} {'-m autograder' if program == 'autograder' else ''} {arguments}"
            done = subprocess.run(
                ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            refused = expected.startswith("autograder: ")
            assert done.returncode == refused, f"{command}\n{done.stdout}{done.stderr}"
            printed = re.sub(r"(?s)^.*?(?=autograder: )", "", done.stderr) if refused else done.stdout  # after progress
            found.append((command, expected, printed.replace(str(home), HOME)))
            if refused:
                mark_everything(folder / "course")
    return found


def mark_everything(course: Path) -> None:
    """Mark each written answer that waits, as a person does in formgrader."""
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        for grade in gradebook.db.query(Grade).filter(Grade.needs_manual_grade):
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        gradebook.db.commit()


def test_quick_start_prints_what_it_says(said: list[tuple[str, str, str]]) -> None:
    """Does every command print what is quoted, to the letter?"""
    assert [command.split()[1] for command, _, _ in said] == [
        "edition", "tests/sample_class.py", "collect", "grade", "feedback", "report", "export", "export"
    ]  # fmt: skip
    for command, expected, printed in said:
        assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in expected.splitlines()], (
            command
        )


def test_quick_start_is_one_page() -> None:
    """Has it at most 1,200 words?"""
    assert len(TEXT.split()) <= 1200


@pytest.mark.parametrize("page", sorted(ROOT.glob("book/instructors*.md")), ids=lambda page: page.stem)
def test_pages_name_commands_and_options_that_exist(page: Path) -> None:
    """Is every command of ours on these pages there, with every option that is given to it?"""
    from test_cli import COMMANDS, run

    lines = re.findall(r"(?:^|`|\$ )(?:\.\./)?autograder ([^`\n]*)", page.read_text(encoding="utf-8"), re.M)
    for words in (line.split() for line in lines):
        name = words[0] if words else ""
        assert name in COMMANDS, f"autograder {' '.join(words)}"
        options = {word.split("=")[0] for word in words if re.fullmatch(r"--[\w-]+(=.*)?", word)}
        known = run(name, "--help").output
        assert {option for option in options if option not in known} == set(), name

"""Is the quick start for instructors right, command by command?"""

import contextlib
import re
import shlex
from pathlib import Path

import pytest
import sample_class
from nbgrader.api import Grade, Gradebook
from test_cli import COMMANDS, run

from autograder.imports import ROOT

TEXT = (ROOT / "book" / "instructors.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```toml (\S+)\n(.*?)^```$", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
HOME = "/home/you"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Every command of the page in order, with the quoted output and the real one."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "attention-book"
    folder.mkdir()
    ((place, text),) = FILE.findall(TEXT)
    (folder / place).parent.mkdir()
    (folder / place).write_text(text, encoding="utf-8")
    found = []
    for block in CONSOLE.findall(TEXT):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            program, *arguments = shlex.split(command)
            with contextlib.chdir(folder):
                if program == "python":
                    assert arguments[0] == "tests/sample_class.py"
                    sample_class.main(*arguments[1:])
                    found.append((command, expected, ""))
                    continue
                done = run(*arguments, width=80)
            refused = expected.startswith("autograder: ")
            assert done.exit_code == refused, f"{command}\n{done.output}"
            # The progress comes before the message.
            printed = re.sub(r"(?s)^.*?(?=autograder: )", "", done.stderr) if refused else done.stdout
            found.append((command, expected, printed.replace(str(home), HOME)))
            if refused:
                grade_everything(folder / "course")
    return found


def grade_everything(course: Path) -> None:
    """Grade each waiting written answer, as a person does in formgrader."""
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        for grade in gradebook.db.query(Grade).filter(Grade.needs_manual_grade):
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        gradebook.db.commit()


def test_quick_start_prints_what_it_says(said: list[tuple[str, str, str]]) -> None:
    """Does every command print the quoted text exactly?"""
    assert [command.split()[1] for command, _, _ in said] == [
        "student-version", "tests/sample_class.py", "collect", "grade", "feedback", "report", "export", "export"
    ]  # fmt: skip
    for command, expected, printed in said:
        assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in expected.splitlines()], (
            command
        )


def test_quick_start_is_one_page() -> None:
    """Does the quick start have at most 1,200 words?"""
    assert len(TEXT.split()) <= 1200


PAGES = [*sorted(ROOT.glob("book/instructors*.md")), *sorted(ROOT.glob("[A-Z]*.md")), *ROOT.glob("autograder/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).with_suffix("").as_posix())
def test_pages_name_commands_and_options_that_exist(page: Path) -> None:
    """Does every command on these pages exist, with all its options?"""
    lines = re.findall(r"(?:^|`|\$ )(?:\.\./)?autograder ([^`\n]*)", page.read_text(encoding="utf-8"), re.M)
    for words in (line.split() for line in lines):
        name = words[0] if words else ""
        assert name in COMMANDS, f"autograder {' '.join(words)}"
        options = {word.split("=")[0] for word in words if re.fullmatch(r"--[\w-]+(=.*)?", word)}
        known = run(name, "--help").output
        assert {option for option in options if option not in known} == set(), name

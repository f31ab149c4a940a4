"""Can a person work with the command: does it help, report errors in one line, and exit with the right code?"""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ALL, NAME
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder.cli import app, home_to_write_in
from autograder.commands.bars import Bars
from autograder.course.course import Course
from autograder.imports import FOLDERS, ROOT
from autograder.judge.kill_matrix import Matrix, Verdict

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands)


def run(*arguments: str, width: int = 200) -> Result:
    """Run the command in this process, on a terminal of this width."""
    return CliRunner(env={"COLUMNS": str(width), "TERM": "dumb", "NO_COLOR": "1"}).invoke(app, arguments)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)], ids=" ".join)
def test_help_says_what_it_does(command: tuple[str, ...]) -> None:
    """Does each command explain itself, and each of its options and arguments?"""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    described = [line for line in result.output.splitlines() if line.startswith("│")]
    assert described
    for line in described:
        words = line.strip("│ ").split()
        assert len(words) >= 3, f"an option without words: {line}"


def test_no_command_shows_the_help() -> None:
    """Does `autograder` alone list the commands?"""
    assert all(name in run().output for name in COMMANDS)


@pytest.mark.parametrize("command", ["grade", "feedback", "report", "mutants"])
@pytest.mark.parametrize("name", ["2_nothing", "[bold]x[/y]"])
def test_unknown_assignment_is_one_line(command: str, name: str, tmp_path: Path) -> None:
    """Does an unknown assignment give one line on stderr with the known ones, exit 1, and leave no file?"""
    course = () if command == "mutants" else ("--course", str(tmp_path / "course"))
    result = run(command, name, *course)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"autograder: there is no assignment {name!r}. The assignments are: {', '.join(ALL)}\n"
    assert list(tmp_path.iterdir()) == []


def test_package_outside_a_clone_asks_for_one(tmp_path: Path) -> None:
    """Does a package that is installed without its repository say in one line what to do?"""
    for package, folder in FOLDERS.items():
        shutil.copytree(ROOT / folder / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "autograder", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"autograder: {tmp_path} is not a clone of the repository. Clone it, run")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["grade", "feedback", "report"])
def test_all_of_nothing_says_where_it_looked(command: str, tmp_path: Path) -> None:
    """Without submissions, does --all give one line with the expected folder?"""
    result = run(command, "--all", "--course", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"autograder: nobody has submitted anything: {tmp_path / 'submitted'}")


@pytest.mark.parametrize("arguments", [("grade",), ("report", NAME, "--all"), ("grade", NAME, "--jobs", "0")])
def test_wrong_arguments_exit_with_2(arguments: tuple[str, ...]) -> None:
    """Do wrong arguments give a usage error, with a hint at the help?"""
    result = run(*arguments)
    assert result.exit_code == 2
    assert "--help" in result.stderr


@pytest.mark.parametrize("is_whole", [True, False])
def test_mutants_says_whether_the_proof_holds(monkeypatch: pytest.MonkeyPatch, is_whole: bool) -> None:
    """Does `mutants` print only its table for the assignment and the seed, and fail if the proof fails?"""
    failed = {"extreme": "M3"} if is_whole else {}
    answer = Verdict("softmax", "differences", {}, "" if is_whole else None)  # None: the visible test names nothing

    def make(name: str, stem: str, seed: int, progress: object) -> Matrix:
        print("what a check prints is no result")
        return Matrix(name, stem, seed, [Verdict("softmax", "M3", failed, "")], [answer])

    monkeypatch.setattr("autograder.judge.kill_matrix.kill_matrix", make)
    done = run("mutants", NAME, "--seed", "1")
    said, caught = " ".join(done.stdout.split()), int(is_whole)
    assert done.exit_code == 1 - caught, done.output
    assert said.startswith(f"{NAME}: ") and "(seed 1)" in said and "no result" not in said
    assert f"{caught} of 1 mutants caught, {caught} named. {caught} of 1 correct answers pass all checks." in said
    assert ("NOT CAUGHT" in said, "softmax: differences fails the visible test" in said) == (not is_whole, not is_whole)


def test_grade_without_the_sandbox_must_be_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bubblewrap, does `grade` stop with one message, give no points, and name --no-sandbox?"""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("grade", NAME, "--course", str(tmp_path / "course"))
    assert result.exit_code == 1
    assert "bubblewrap is not installed" in result.stderr
    assert "apt-get install bubblewrap" in result.stderr and "--no-sandbox" in result.stderr
    assert Course(tmp_path / "course").load_results(NAME) == []


def test_progress_is_shown_in_lines_or_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, do lines say what begins, how far it is, and what is done, and do bars show this on one?"""
    page = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr("autograder.commands.bars.err", page)
    bars, clock = Bars(), [100.0]
    bars.get_time = lambda: clock[0]
    bars("submissions", 0, 500)
    for done in range(1, 500):
        clock[0] += 0.5
        bars("submissions", done, 500, "graded")
    bars("submissions", 500, 500, "crashed")
    lines = page.file.getvalue().splitlines()
    assert lines[0] == "submissions 0/500 -:--:--"
    assert lines[1] == "submissions 8/500 0:04:06 8 graded"
    assert lines[-1].startswith("submissions 500/500") and lines[-1].endswith("499 graded, 1 crashed")
    assert len(lines) == 2 + 499 // 8
    page.print(*bars.get_renderables())
    bar, states = page.file.getvalue().splitlines()[len(lines) :]
    assert bar.rstrip().endswith("500/500 0:04:09") and states.strip() == "499 graded, 1 crashed"


def test_home_that_cannot_be_written_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Does a command use a temporary home only if the user's is missing or belongs to another user?"""
    for home, stays in ((tmp_path, True), (tmp_path / "none", False)):
        monkeypatch.setenv("HOME", str(home))
        with home_to_write_in():
            mine = Path.home()
            (mine / "settings").write_text("kept", encoding="utf-8")
        assert ((mine == home), mine.exists()) == (stays, stays)

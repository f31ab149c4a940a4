"""Does every command work on a course in a folder of any name, also a command that a person copies from the output?"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from test_cli import NAME, run

from autograder.imports import ROOT

FOLDERS = ["Kurs Übung 2026", "it's", 'a "course"', "$HOME and $(HOME) & more", "back`slash`\\;#1"]
SAY = 'printf "%s\\n" "$PWD" "$@"'


def in_a_shell(text: str, cwd: Path) -> list[str]:
    """Run a text in a shell in which `git` and `autograder` only say where and with which words they were called."""
    say = f"() {{ {SAY}; }}\n"
    done = subprocess.run(["sh", "-c", f"git{say}autograder{say}{text}"], cwd=cwd, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("by", ["argument", "environment"])
@pytest.mark.parametrize("name", FOLDERS)
def test_make_finds_a_course_in_any_folder(name: str, by: str, tmp_path: Path) -> None:
    """Do `make formgrader` and `make grade` work in the course that COURSE names, in a repository with such a name too?"""
    repository, course = tmp_path / f"the repository of {name}", tmp_path / name / "course"
    course.mkdir(parents=True)
    programs = repository / ".venv" / "bin"
    programs.mkdir(parents=True)
    for program in ("autograder", "jupyter"):
        (programs / program).write_text(f'#!/bin/sh\n{SAY} >> "$CALLS"\n', encoding="utf-8")
        (programs / program).chmod(0o755)
    command = ["make", "-s", "-f", str(ROOT / "Makefile"), "-o", "setup"]
    environment = os.environ | {"CALLS": str(tmp_path / "calls")}
    if by == "argument":
        command.append(f"COURSE={course}")
    else:
        environment["COURSE"] = str(course)
    subprocess.run([*command, "formgrader", "grade"], cwd=repository, env=environment, check=True)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[:2] == [str(course), "lab"]
    words = (word for step in ("grade", "feedback", "report") for word in (step, "--all", "--course", str(course)))
    assert [call for call in calls[calls.index("grade") :] if call != str(repository)] == list(words)


@pytest.mark.parametrize("name", FOLDERS)
def test_printed_command_can_be_copied(name: str, tmp_path: Path) -> None:
    """Does a command from an error lead to the same course, whatever the name of its folder?"""
    course = tmp_path / name
    course.mkdir()
    said = run("report", NAME, "--course", str(course)).stderr
    copied = said.partition('; run "')[2].rpartition('" first')[0]
    assert in_a_shell(copied, tmp_path) == [str(tmp_path), "grade", NAME, "--course", str(course)]


@pytest.mark.parametrize("name", FOLDERS)
def test_printed_push_can_be_copied(name: str, tmp_path: Path) -> None:
    """Do the printed commands work in the folder of the student version?"""
    settings = f'repository = "git@github.com:a/b.git"\nbranch = "x&y"\nassignments = ["{NAME}"]'
    (tmp_path / "course.toml").write_text(settings, encoding="utf-8")
    students = tmp_path / name
    done = run("student-version", "--students", str(students), "--course", str(tmp_path))
    calls = in_a_shell(done.stdout.splitlines()[-1], tmp_path)
    assert set(calls[:1]) == {str(students)} and calls[-3:] == ["push", "https://github.com/a/b", "x&y"]
    assert shlex.split(done.stdout.splitlines()[-1])[:2] == ["cd", str(students)]

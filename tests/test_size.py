"""Does the house stay small? Raise a number in pyproject.toml in a commit of its own that says why."""

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

from autograder.imports import ROOT

SIZE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["size"]


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The Python files of the repository."""
    found = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("this copy is no git repository")
    return found.stdout.split()


@pytest.mark.parametrize("folder", SIZE["lines"])
def test_folder_has_at_most_its_lines(files: list[str], folder: str) -> None:
    """Has the Python of a folder, with all folders inside, at most the lines that pyproject.toml gives it?"""
    lines = sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files if is_in(file, folder))
    assert 0 < lines <= SIZE["lines"][folder], f"{folder} has {lines} lines; what does the change delete?"


def is_in(file: str, folder: str) -> bool:
    """Whether a file is in a folder; every file is in "."."""
    return Path(folder) in Path(file).parents


def test_every_file_is_counted(files: list[str]) -> None:
    """Is each folder of files in the table, in addition to the whole?"""
    assert {file.split("/")[0] for file in files if "/" in file} <= SIZE["lines"].keys()


def test_no_function_is_too_long(files: list[str]) -> None:
    """Can each function be read in one sitting?"""
    functions = [
        (lines_of_code(each), file, each.name)
        for file in files
        for each in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [each for each in functions if each[0] > SIZE["function"]] == []


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function, without its arguments, its docstring and the functions inside it."""
    body = function.body[ast.get_docstring(function) is not None :] or function.body
    lines = set(range(body[0].lineno, body[-1].end_lineno + 1))
    for each in ast.walk(function):
        if each is not function and isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            lines -= set(range(each.lineno, each.end_lineno + 1))
    return len(lines)

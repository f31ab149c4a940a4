"""Start an installed `autograder`. It works in a folder with the repository, which `autograder demo` can write."""

import os
import sys
import zipfile
from pathlib import Path

from autograder.imports import ROOT

ARCHIVE = Path(__file__).with_name("repository.zip")  # setup.py puts it into the wheel
REPOSITORY_MARKER = "_config.yml"  # identifies a folder with the repository


def enter_repository() -> None:
    """If this package was installed from a wheel, run the package in the working folder instead; else do nothing.

    `autograder demo` in an empty folder writes the repository there first.
    """
    if (ROOT / REPOSITORY_MARKER).exists():
        return
    here = Path.cwd()
    if not (here / REPOSITORY_MARKER).exists() and sys.argv[1:2] == ["demo"] and not any(here.iterdir()):
        with zipfile.ZipFile(ARCHIVE) as archive:
            archive.extractall(here)
        print(
            f"{here} now holds the repository: book, exercises, answers and grader. Work in it from now on.", flush=True
        )
    if not (here / REPOSITORY_MARKER).exists() or not (here / "autograder" / "__main__.py").exists():
        sys.exit(
            f"autograder: {here} does not hold the repository, in which every command works. Go to the folder that does, "
            'or run "autograder demo" in an empty one, which writes it there'
        )
    os.execv(sys.executable, [sys.executable, "-m", "autograder", *sys.argv[1:]])  # starts the package in this folder

"""Start an installed `autograder`. It works in a folder with the repository; `autograder demo` can fill such a folder."""

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
            f"autograder: {here} does not hold the repository, and every command needs it. Go to the folder that holds "
            'it. Or run "autograder demo" in an empty folder: this writes the repository there'
        )
    os.execv(sys.executable, [sys.executable, "-m", "autograder", *sys.argv[1:]])  # starts the package in this folder

"""Build the book, unless nothing changed since it was last built."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from autograder.build import ROOT

INPUTS = ("_config.yml", "_toc.yml", "requirements.txt", "book/**/*", "solutions/*.py")


class BookError(RuntimeError):
    """The book was not built; what was wrong has been printed."""


def chapter_environment(root: Path = ROOT) -> dict[str, str]:
    """Return the environment that chapters run in: ours, told where recorded runs and weights lie.

    A chapter runs in a temporary folder, as on Colab, and so cannot find `book/records` by itself.
    """
    environment = os.environ | {"ATTENTION_BOOK_RECORDS": str((root / "book" / "records").resolve())}
    environment.pop("MPLBACKEND", None)  # with any other than the notebook's own, there are no figures
    return environment


def build_book(root: Path = ROOT) -> Path:
    """Build the book with warnings as errors; its chapters run only when their code changed.

    Returns:
        The first page.

    Raises:
        BookError: jupyter-book failed.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in INPUTS for path in root.glob(pattern)}):
        if path.is_file() and path.suffix not in (".ipynb", ".pyc"):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    page, stamp = root / "_build" / "html" / "index.html", root / "_build" / ".stamp"
    if page.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return page
    if not stamp.exists():  # the last build failed or was ended: an unchanged page would not warn again
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
    stamp.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root), "-W", "-n", "--keep-going"]
    if subprocess.run(command, cwd=root, env=chapter_environment(root), check=False).returncode != 0:
        raise BookError("the book was not built; the warnings above say why")
    stamp.write_text(digest.hexdigest(), encoding="utf-8")
    return page

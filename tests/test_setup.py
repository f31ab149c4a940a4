"""Does the installation do what later steps count on?"""

import sys
from pathlib import Path

import pytest

from autograder import setup_environment


def test_what_is_imported_at_every_start_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is bytecode written where the surroundings forbid it? A sandbox cannot write any, and took it from a student's time."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "slow_to_import.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert setup_environment.run("Compiling", sys.executable, "-c", "import slow_to_import")
    assert list(tmp_path.glob("__pycache__/*.pyc"))

"""Does an installed wheel work without a clone?"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from autograder.imports import ROOT

NO_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
# Earlier commands make these next to the sources.
MADE_HERE = shutil.ignore_patterns("_build", "build", "course*", "data")


def kept_out(folder: str, names: list[str]) -> set[str]:
    """Return the names in a repository folder that are not copied."""
    return NO_SOURCE(folder, names) | (MADE_HERE(folder, names) if Path(folder) == ROOT else set())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel; installing does nothing else."""
    source, wheels, installed = (tmp_path_factory.mktemp(name) for name in ("source", "wheels", "installed"))
    shutil.copytree(ROOT, source, ignore=kept_out, dirs_exist_ok=True)
    build = "from setuptools.build_meta import build_wheel; import sys; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", build, str(wheels)], cwd=source, check=True, capture_output=True
    )
    (wheel,) = wheels.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    return installed


def run_installed(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder."""
    program = "import sys; sys.argv[0] = 'autograder'; from autograder.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": str(installed), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.deep
def test_wheel_writes_the_repository_into_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """Does `demo` write the complete repository into an empty folder, and work only there?"""
    (tmp_path / "empty").mkdir()
    begun = run_installed(installed, tmp_path / "empty", "demo", "--help")
    assert begun.returncode == 0 and "now holds the repository" in begun.stdout, begun.stderr
    checked = run_installed(installed, tmp_path / "empty", "build", "--check")
    assert checked.stdout == "Every generated file is up to date.\n", checked.stdout + checked.stderr
    refused = run_installed(installed, tmp_path, "demo")
    assert refused.returncode == 1 and "does not hold the repository" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


@pytest.mark.deep
def test_demo_of_the_wheel_grades_and_builds_the_book(installed: Path, tmp_path: Path) -> None:
    """Does `autograder demo` from the wheel do everything that it does in a clone?"""
    done = run_installed(installed, tmp_path, "demo")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "_build" / "html" / "index.html").exists()
    assert "EncoderBlock" in (tmp_path / "_build" / "html" / "book" / "wrong_lines.html").read_text(encoding="utf-8")
    assert (tmp_path / "course-demo" / "report" / "index.html").exists()

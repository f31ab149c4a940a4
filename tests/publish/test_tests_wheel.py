"""Does a notebook that is alone get the package of its tests, in the version that belongs to it?"""

import io
import json
import re
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from attention_tests import VERSION, run
from conftest import NAME, assignment_of
from nbclient import NotebookClient

from autograder.imports import ROOT
from autograder.publish.tests_wheel import PACKAGE, WHEEL, wheel_of

ADDRESS = re.compile(r"https://\S+\.whl")
CODE = """import numpy as np
def softmax(scores, axis=-1):
    exponentials = np.exp(scores - scores.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel in a new environment that has the libraries of this one, and nothing of this repository."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (folder,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (folder / "libraries.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    python = str(tmp_path / "venv" / "bin" / "python")
    spec = {"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "alone"}
    (tmp_path / "kernels" / "alone").mkdir(parents=True)
    (tmp_path / "kernels" / "alone" / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    return "alone"


def run_in(kernel: str, folder: Path, address: str) -> list[str]:
    """Run set-up, an answer and its test in an empty folder; return what each of the three cells says."""
    folder.mkdir(exist_ok=True)
    setup = next(cell.source for cell in assignment_of(NAME).release.cells if cell.id == "setup")
    sources = [ADDRESS.sub(address, setup), CODE, 'run_tests("softmax", softmax)']
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name=kernel, resources=resources, allow_errors=True).execute()
    return ["".join(str(output.get("text", output)) for output in cell.outputs) for cell in notebook.cells]


@pytest.mark.deep
@pytest.mark.parametrize("place", ["at the address", "next to the notebook"])
def test_notebook_alone_gets_its_tests(place: str, kernel: str, tmp_path: Path) -> None:
    """Does the set-up cell install the package from the course's address, or find it next to the notebook?"""
    folder = tmp_path / place.replace(" ", "_")
    folder.mkdir()
    (folder / WHEEL).write_bytes(wheel_of(ROOT))
    address = folder / WHEEL if place == "at the address" else tmp_path / "nowhere" / WHEEL
    setup, _, tested = run_in(kernel, tmp_path / "next_to_the_notebook", address.as_uri())
    assert "Ready: NumPy" in setup
    assert tested.startswith("softmax passes the visible tests.")


@pytest.mark.deep
def test_other_bytes_are_refused(kernel: str, tmp_path: Path) -> None:
    """Is a package with another digest not installed, and does the student read what to do, and can go on?"""
    other = tmp_path / "elsewhere" / WHEEL
    other.parent.mkdir()
    other.write_bytes(wheel_of(ROOT) + b"more")
    setup, answer, tested = run_in(kernel, tmp_path / "alone", other.as_uri())
    assert "Ready" not in setup and "THESE PACKAGES DO NOT MATCH THE HASHES" in setup.replace("\n", " ")
    assert (answer, tested) == ("", f"To test, put {WHEEL} next to this notebook.\n")


def test_wheel_is_complete() -> None:
    """Has the wheel each file of the package, and each file's name in the record, and the name that pages give?"""
    for page in ("colab.md", "instructors_hosting.md"):
        text = (ROOT / "book" / page).read_text(encoding="utf-8")
        assert set(re.findall(r"attention_tests-[^/)`]*?\.whl", text)) == {WHEEL}, page
    with zipfile.ZipFile(io.BytesIO(wheel_of(ROOT))) as archive:
        names = set(archive.namelist())
        record = archive.read(f"{PACKAGE}-{VERSION}.dist-info/RECORD").decode()
    assert {line.split(",")[0] for line in record.splitlines()} == names
    assert {f"{PACKAGE}/{name}" for name in ("run.py", "compare.py", "attention.json")} <= names


def test_another_version_is_said(capsys: pytest.CaptureFixture) -> None:
    """Does a notebook of an older or a newer version say so in one line?"""
    for version, word in (("0.1", "newer"), ("99.0", "older")):
        run.tests_of("attention", version)
        said = capsys.readouterr().out.splitlines()
        assert len(said) == 2
        assert said[1] == (
            f"This notebook belongs to version {version} of attention_tests, but this is version {VERSION}, which is {word}."
        )
    run.tests_of("attention", VERSION)
    assert len(capsys.readouterr().out.splitlines()) == 1

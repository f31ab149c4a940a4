"""Does the installation provide what later steps need, and report everything that is missing?"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder import setup_environment
from autograder.imports import ROOT

Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that makes a machine with only the given programs; each writes its calls to a file."""

    def have(*programs: str, user: int = 1000, exit_code: int = 0) -> Path:
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir()
        calls.touch()
        for program in programs:
            (folder / program).write_text(f'#!/bin/sh\necho {program} "$@" >> "{calls}"\nexit {exit_code}\n')
            (folder / program).chmod(0o755)
        (folder / "env").symlink_to(shutil.which("env"))
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(os, "getuid", lambda: user)
        monkeypatch.setattr(setup_environment, "VENV", tmp_path / ".venv")
        monkeypatch.setattr(setup_environment, "RELEASE", tmp_path / "os-release")
        monkeypatch.setattr(setup_environment.importlib.util, "find_spec", lambda name: None)
        return calls

    return have


def test_what_is_imported_at_every_start_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is bytecode written although the environment forbids it? A sandbox cannot write it: compiling would cost time."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "slow_to_import.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert setup_environment.run("Compiling", sys.executable, "-c", "import slow_to_import")
    assert list(tmp_path.glob("__pycache__/*.pyc"))


def test_missing_packages_are_those_that_are_not_there(machine: Machine) -> None:
    """Is each missing package in the list, and the browser only on request?"""
    machine("bwrap")
    venv = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert list(setup_environment.missing_packages(browser=False)) == [venv]
    assert list(setup_environment.missing_packages(browser=True)) == [venv, "chromium"]


@pytest.mark.parametrize("sudo", [(), ("sudo",)], ids=["no sudo", "sudo that wants a password"])
def test_all_that_is_missing_is_said_at_once(machine: Machine, sudo: tuple[str, ...]) -> None:
    """Does a plain user read one command with all packages, without sudo or if sudo needs a password?"""
    machine("apt-get", *sudo, exit_code=1)
    missing = setup_environment.missing_packages(browser=True)
    with pytest.raises(SystemExit) as ended:
        setup_environment.install_system_packages(missing)
    assert f"apt-get install {' '.join(missing)}\n" in ended.value.code and len(missing) == 3
    assert all(f"{name}: {why}" in ended.value.code for name, why in missing.items())


@pytest.mark.parametrize("user", [0, 1000])
def test_all_that_is_missing_is_installed_at_once(machine: Machine, user: int) -> None:
    """Do root, and a user whose sudo needs no password, get all packages by one call?"""
    calls = machine("apt-get", "sudo", user=user)
    setup_environment.install_system_packages({"bubblewrap": "a sandbox", "chromium": "a browser"})
    called = calls.read_text().splitlines()
    assert called[-1].endswith("apt-get install -y -q --no-install-recommends bubblewrap chromium")
    assert called[-1].startswith("apt-get" if user == 0 else "sudo -n env")


def test_ubuntu_has_no_package_of_chromium(machine: Machine, tmp_path: Path) -> None:
    """Are Ubuntu and derived systems told to use another browser, and does root not install a missing package?"""
    calls = machine("apt-get", user=0)
    (tmp_path / "os-release").write_text('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n')
    with pytest.raises(SystemExit) as ended:
        setup_environment.install_system_packages({"bubblewrap": "a sandbox", "chromium": "a browser"})
    assert "apt-get install bubblewrap\n" in ended.value.code and "Google Chrome" in ended.value.code
    assert calls.read_text() == ""


PYTHON = '#!/bin/sh\n[ "$1" = -c ] || {{ echo {name} "$@"; exit; }}\nexit {code}\n'


@pytest.mark.parametrize(
    ("installed", "taken"),
    [
        ({"python3.13": 127, "python3.12": 0, "python3.11": 0, "python3": 0}, "python3.12"),
        ({"python3.11": 0, "python3": 0}, "python3.11"),
        ({"python3": 0}, "python3"),
        ({"python3": 1}, None),
        ({}, None),
    ],
)
def test_newest_supported_python_is_taken(installed: dict[str, int], taken: str | None, tmp_path: Path) -> None:
    """Does `make setup` use the newest supported Python that runs, and report if there is none?"""
    for name, code in installed.items():
        (tmp_path / name).write_text(PYTHON.format(name=name, code=code))
        (tmp_path / name).chmod(0o755)
    command = [shutil.which("make"), "--always-make", "--dry-run", "setup"]
    environment = {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if taken is None:
        assert done.returncode != 0 and "Python 3.11, 3.12 or 3.13 is needed" in done.stderr
    else:
        assert done.stdout.startswith(f"{taken} autograder/setup_environment.py\n"), done.stderr

"""Make .venv and install the packages that requirements.txt locks.

This program runs before any package is installed, so it needs only Python itself.

python3 autograder/setup_environment.py [--browser]
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.txt"
INSIDE = ROOT / "autograder" / "sandbox" / "guest"  # sandboxes see some files of this folder
RELEASE = Path("/etc/os-release")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NO_CHROMIUM = """Ubuntu has Chromium only as a snap, which may not read the tests' temporary files. Install Google Chrome:
    https://www.google.com/chrome
"""
QUIET = {"capture_output": True, "check": False}
UV = "uv==0.13.9"
IMPORTED = (
    "torch, torchvision, einops, sklearn.datasets, scipy.stats, matplotlib.pyplot, IPython.core.interactiveshell, "
    "matplotlib_inline.backend_inline, ipykernel.kernelapp, "
    "nbgrader.apps, sphinx.application"
)


def main() -> None:
    """Make the environment, and check that bubblewrap (and, for the tests, Chromium) is installed."""
    if not (3, 11) <= sys.version_info < (3, 14):
        sys.exit(f'This is Python {sys.version.split()[0]}; 3.11 to 3.13 is needed. Run "make PYTHON=python3.12 …".')
    os.umask(0o022)  # the sandbox's user is not root, and must be able to read the installed files
    if missing := missing_packages("--browser" in sys.argv):
        install_system_packages(missing)
    if not (VENV / "bin" / "python").exists():
        run("Making .venv", sys.executable, "-m", "venv", str(VENV))
    install()


def missing_packages(browser: bool) -> dict[str, str]:
    """Return all missing Debian packages, each with its purpose."""
    missing = {}
    if not (VENV / "bin" / "python").exists() and importlib.util.find_spec("ensurepip") is None:
        missing[f"python{sys.version_info.major}.{sys.version_info.minor}-venv"] = "Python makes .venv with it"
    if shutil.which("bwrap") is None:
        missing["bubblewrap"] = "students' code is run in its sandbox"
    if browser and not any(map(shutil.which, BROWSERS)):
        missing["chromium"] = "the pages of the book are tested in it"
    return missing


def install() -> None:
    """Install the locked packages and this one with uv, which takes a quarter of pip's time, or with pip if uv fails."""
    python, pip = str(VENV / "bin" / "python"), [str(VENV / "bin" / "pip"), "--disable-pip-version-check", "install"]
    what = "Installing the packages of requirements.txt, about 6 GiB"  # PyTorch always brings the libraries for a GPU
    # Use the system's certificates, as pip does: a network may have its own.
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--system-certs", "--python", python]
    by_uv = run("Installing uv", *pip, "-q", UV, must=False) and run(
        what, *uv, "--require-hashes", "-r", str(LOCK), must=False
    )
    if not by_uv:
        run(what, *pip, "--require-hashes", "-r", str(LOCK))
    run("Installing the grader", *pip, "-q", "--no-deps", "-e", str(ROOT))
    # Sandboxes cannot write into .venv, so they would compile these modules again each time.
    run("Compiling what is imported at every start", python, "-c", f"import {IMPORTED}")
    if os.getuid() == 0:  # uv links files from its cache, and a linked file keeps the permissions of the cached one
        run("Letting the sandbox's user read", "chmod", "-R", "a+rX", str(VENV), str(INSIDE))


def install_system_packages(missing: dict[str, str]) -> None:
    """Install Debian packages as root or by passwordless sudo; if neither is possible, say what to do and exit.

    Args:
        missing: The purpose of each package, by its name.
    """
    reasons = "\n".join(f"  {name}: {why}" for name, why in missing.items())
    sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
    may = not sudo or (
        shutil.which("sudo") is not None and subprocess.run(["sudo", "-n", "true"], **QUIET).returncode == 0
    )
    by_snap = "chromium" in missing and is_ubuntu()
    if shutil.which("apt-get") is None or not may or by_snap:
        names = " ".join(name for name in missing if not (by_snap and name == "chromium"))
        advice = f"On Debian or Ubuntu, as root:\n    apt-get install {names}\n" if names else ""
        sys.exit(f"Missing here:\n{reasons}\n{advice}{NO_CHROMIUM if by_snap else ''}Then run the same command again.")
    run(f"Looking for what is missing here:\n{reasons}", *sudo, "apt-get", "update", "-q")
    options = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"]
    run(f"Installing {' '.join(missing)}", *sudo, *options, *missing)


def is_ubuntu() -> bool:
    """Whether this system is Ubuntu or derived from Ubuntu. Such a system has Chromium only as a snap."""
    return RELEASE.exists() and bool(re.search(r"^ID(_LIKE)?=.*ubuntu", RELEASE.read_text(encoding="utf-8"), re.M))


def run(what: str, *command: str, must: bool = True) -> bool:
    """Run a command; return whether it succeeded. If it failed, and `must` is true, the program exits."""
    print(what, flush=True)
    # Containers often set PYTHONDONTWRITEBYTECODE. With this variable nothing would be compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=environment, check=False)
    if must and done.returncode != 0:
        sys.exit(f"This failed, see above: {' '.join(command)}")
    return done.returncode == 0


if __name__ == "__main__":
    main()

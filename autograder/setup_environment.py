"""Make .venv and install everything. Runs before anything is installed, so it needs Python alone.

python3 autograder/setup_environment.py [--browser]
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Make the environment and see that bubblewrap (and, for the tests, Chromium) is there."""
    if sys.version_info < (3, 11):
        sys.exit(
            f'Python {sys.version.split()[0]} is too old; 3.11 or later is needed. Run "make PYTHON=python3.12 …".'
        )
    if not (VENV / "bin" / "pip").exists():
        make_environment()
    run(str(VENV / "bin" / "pip"), "install", "--disable-pip-version-check", "-r", str(ROOT / "requirements.txt"))
    if shutil.which("bwrap") is None:
        install_system_package("bubblewrap", "students' code is run in its sandbox")
    if "--browser" in sys.argv and not any(map(shutil.which, BROWSERS)):
        install_system_package("chromium", "the pages of the book are tested in it")


def make_environment() -> None:
    """Make .venv; Debian keeps what that needs in a package of its own."""
    print("Making .venv", flush=True)
    if subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        install_system_package(
            f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "Python's venv needs it"
        )
        run(sys.executable, "-m", "venv", str(VENV))


def install_system_package(name: str, why: str) -> None:
    """Install a Debian package as root or by passwordless sudo; else say how to go on."""
    sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
    may = not sudo or subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    if shutil.which("apt-get") is None or not may:
        sys.exit(
            f"{name} is missing: {why}. Install it with your system's package manager, on Debian or Ubuntu\n"
            f"    sudo apt-get install {name}\nand run the same command again."
        )
    print(f"Installing {name}: {why}", flush=True)
    run(*sudo, "apt-get", "update", "-q")
    run(
        *sudo,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-q",
        "--no-install-recommends",
        name,
    )


def run(*command: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        sys.exit(f"This failed, see above: {' '.join(command)}")


if __name__ == "__main__":
    main()

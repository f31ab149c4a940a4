"""Make .venv and install what requirements.txt locks. Runs before anything is installed, so it needs Python alone.

python3 autograder/setup_environment.py [--browser]
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.txt"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
UV = "uv==0.13.9"
SIZE = 6.0  # GiB of .venv, with a GPU's libraries, which PyTorch brings in any case
IMPORTED = (
    "torch, torchvision, einops, sklearn.datasets, scipy.stats, matplotlib.pyplot, IPython.core.interactiveshell, "
    "matplotlib_inline.backend_inline, ipykernel.kernelapp, "
    "nbgrader.apps, sphinx.application"
)


def main() -> None:
    """Make the environment and see that bubblewrap (and, for the tests, Chromium) is there."""
    if not (3, 11) <= sys.version_info < (3, 14):
        sys.exit(f'This is Python {sys.version.split()[0]}; 3.11 to 3.13 is needed. Run "make PYTHON=python3.12 …".')
    if not (VENV / "bin" / "python").exists():
        make_environment()
    if shutil.which("bwrap") is None:
        install_system_package("bubblewrap", "students' code is run in its sandbox")
    if "--browser" in sys.argv and not any(map(shutil.which, BROWSERS)):
        install_system_package("chromium", "the pages of the book are tested in it")
    install()


def make_environment() -> None:
    """Make .venv; Debian keeps what that needs in a package of its own."""
    print("Making .venv", flush=True)
    if subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        install_system_package(f"python{version}-venv", "Python's venv needs it")
        run("Making .venv", sys.executable, "-m", "venv", str(VENV))


def install() -> None:
    """Install the locked packages and this one: by uv, which takes a quarter of pip's time, or by pip where that fails."""
    python, pip = str(VENV / "bin" / "python"), [str(VENV / "bin" / "pip"), "--disable-pip-version-check", "install"]
    what = f"Installing about {len(re.findall('^[a-z].*==', LOCK.read_text(encoding='utf-8'), re.M | re.I))} packages"
    # the system's certificates, as pip takes them: a network may have its own
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--system-certs", "--python", python]
    by_uv = run("Installing uv", *pip, "-q", UV, must=False) and run(
        what, *uv, "--require-hashes", "-r", str(LOCK), must=False
    )
    if not by_uv:
        run(what, *pip, "--require-hashes", "-r", str(LOCK))
    run("Installing the grader", *pip, "-q", "--no-deps", "-e", str(ROOT))
    # sandboxes cannot write into .venv, and would compile again each time
    run("Compiling what is imported at every start", python, "-c", f"import {IMPORTED}")


def install_system_package(name: str, why: str) -> None:
    """Install a Debian package as root or by passwordless sudo; else say how to go on."""
    sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
    may = not sudo or subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    if shutil.which("apt-get") is None or not may:
        sys.exit(
            f"{name} is missing: {why}. Install it with your system's package manager, on Debian or Ubuntu\n"
            f"    sudo apt-get install {name}\nand run the same command again."
        )
    run(f"Looking for {name}: {why}", *sudo, "apt-get", "update", "-q")
    options = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"]
    run(f"Installing {name}", *sudo, *options, name)


def run(what: str, *command: str, must: bool = True) -> bool:
    """Run a command, and say every few seconds that it goes on and how much of the disk it has filled.

    Returns:
        Whether it succeeded; if it must and did not, all ends here.
    """
    print(what, flush=True)
    begun, free = time.monotonic(), shutil.disk_usage(ROOT).free
    # containers often set it, and nothing would be compiled
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        try:
            process.wait(4)
        except subprocess.TimeoutExpired:
            written = max(0, free - shutil.disk_usage(ROOT).free) / 2**30
            share = f", {written:.1f} of about {SIZE:.0f} GiB written" if "packages" in what else ""
            print(f"  … {time.monotonic() - begun:.0f} s{share}", flush=True)
    if must and process.returncode != 0:
        sys.exit(f"This failed, see above: {' '.join(command)}")
    return process.returncode == 0


if __name__ == "__main__":
    main()

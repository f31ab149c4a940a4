"""The package of the visible tests as one file, which Colab installs and which may lie next to a notebook.

The same sources give the same bytes on every machine: a notebook names their digest. Builders of wheels do not promise
this.
"""

import base64
import hashlib
import io
import zipfile
from pathlib import Path

from attention_tests import VERSION

PACKAGE = "attention_tests"
FOLDER = Path("exercises") / PACKAGE
WHEEL = f"{PACKAGE}-{VERSION}-py3-none-any.whl"  # the file name that pip expects
DATE = (1980, 1, 1, 0, 0, 0)


def wheel_of(root: Path) -> bytes:
    """Return the bytes of the wheel of a repository or of a student version.

    Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    """
    info = f"{PACKAGE}-{VERSION}.dist-info"
    whole = {f"{PACKAGE}/{name}": content for name, content in files_of_package(root).items()}
    whole[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n".encode()
    whole[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: autograder\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = []
    for name, content in whole.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    whole[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    made = io.BytesIO()
    # Nothing is packed: how small a file becomes depends on zlib's version.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in whole.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content)
    return made.getvalue()


def files_of_package(root: Path) -> dict[str, bytes]:
    """Return the files of the package in a repository by name, in order."""
    paths = sorted((root / FOLDER).iterdir())
    return {path.name: path.read_bytes() for path in paths if path.suffix in (".py", ".json")}

"""Find the files of this repository that a module needs: its own file, and the files that its text imports."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"autograder": "", "solutions": "", "attention_tests": "exercises"}  # where our packages are
# Both forms of an import, with or without brackets. A sentence may match too; this is harmless, because it names no file.
IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import (.*))", re.M)


def imported_files(*modules: str, root: Path = ROOT) -> set[Path]:
    """Return the files of modules, and of everything that these import from this repository, also inside functions.

    Args:
        modules: The names of the modules, such as autograder.checks.encoder.
        root: The repository's folder.
    """
    files: set[Path] = set()
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _file_of(name, root)
        if path is None or path in files:
            continue
        files.add(path)
        waiting.append(name.rpartition(".")[0])
        for module, parts, names in IMPORT.findall(path.read_text(encoding="utf-8")):
            waiting += re.findall(r"[\w.]+", names)
            waiting += [module, *(f"{module}.{part}" for part in re.findall(r"\w+", parts))]
    return files


def _file_of(name: str, root: Path) -> Path | None:
    """Return the file of a module of this repository; None for any other name."""
    if name.split(".")[0] not in FOLDERS:
        return None
    place = root.joinpath(FOLDERS[name.split(".")[0]], *name.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def digest_of(files: Iterable[Path], *words: str, root: Path = ROOT) -> str:
    """Return the SHA-256 of files, of their paths below the root, and of some words."""
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        digest.update(f"{path.relative_to(root).as_posix()} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    digest.update("\0".join(words).encode())
    return digest.hexdigest()

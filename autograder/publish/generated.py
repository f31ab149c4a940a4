"""Find the exercise notebooks, and the page of mistakes, that are out of date.

The check is fast: `book/records/generated.json` holds two digests for each of these files, one of its sources and one
of the file itself. Both are from the time when the file was made. The record leaves out the chapters' notebooks,
because making them takes no longer than checking them.
"""

import json
import re
from pathlib import Path

from autograder.imports import ROOT, digest_of, imported_files
from autograder.judge.catalogue import MESSAGES, mistakes_of

MANIFEST = Path("book/records/generated.json")
MISTAKES = Path("book/mistakes.md")
MAKERS = ("jupytext", "nbformat", "nbgrader", "numpy", "torch")  # packages whose versions change the generated files


def sources(root: Path = ROOT) -> list[Path]:
    """Return the instructor notebooks as text, one for each assignment: exercises/1_attention/attention.py, …"""
    return sorted(root.glob("exercises/[0-9]*/*.py"))


def sources_of(*names: str) -> dict[str, Path]:
    """Return the sources of the named assignments, or of all, by their names.

    Raises:
        ValueError: there is no such assignment.
    """
    known = {source.parent.name: source for source in sources()}
    if unknown := next((name for name in names if name not in known), None):
        raise ValueError(f"there is no assignment {unknown!r}. The assignments are: {', '.join(known)}")
    return {name: known[name] for name in names or known}


def exercise_of(source: Path) -> Path:
    """Return the path of the students' notebook of an assignment, relative to the root."""
    return Path("exercises") / source.parent.name / f"{source.stem}.ipynb"


def frozen_of(source: Path) -> Path:
    """Return the path of the file with the results that an assignment's visible tests expect, relative to the root."""
    return Path("exercises/attention_tests") / f"{source.stem}.json"


def generated(root: Path = ROOT) -> list[Path]:
    """Return the paths of the generated files, relative to the root."""
    return [MISTAKES, *(path for source in sources(root) for path in (frozen_of(source), exercise_of(source)))]


def _made_from(path: Path, root: Path) -> set[Path]:
    """Return the source files of a generated file.

    Files in sandbox/ do not count, because they run only when students' code is judged. A notebook depends on the
    whole package of visible tests, because it names its digest.
    """
    sandbox, of_all = set(root.glob("autograder/sandbox/**/*.py")), sources(root)
    if path == MISTAKES:
        parts = [f"autograder.checks.{each.stem}.{part}" for each in of_all for part in ("exercises", "right_answers")]
        return imported_files("autograder.publish.mistakes_page", *parts, root=root) - sandbox
    source, module = next(each for each in of_all if each.stem == path.stem), f"autograder.checks.{path.stem}.exercises"
    own = {source, root / "_config.yml"}
    if path == frozen_of(source):
        return own | imported_files("autograder.publish.visible_tests", module, root=root) - sandbox
    own |= {file for file in root.glob("exercises/attention_tests/*") if file.suffix in (".py", ".json")}
    own |= {root / "solutions" / name for name in (source.name, "written.md")}
    return own | imported_files("autograder.publish.build", module, root=root) - sandbox


def stale(root: Path = ROOT, *only: Path) -> list[Path]:
    """Return the generated files, or the named ones, that are missing, edited, or older than a change of their sources."""
    kept, digests = _kept(root), source_digests(root, *only)
    return [path for path in digests if kept.get(path.as_posix()) != _entry(path, digests[path], root)]


def _kept(root: Path) -> dict[str, dict[str, str]]:
    try:
        return json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the manifest is missing or half merged: make all files again
        return {}


def source_digests(root: Path = ROOT, *only: Path) -> dict[Path, str]:
    """Return one digest of the source files of each generated file, or of each named one."""
    text = (root / "requirements.txt").read_text(encoding="utf-8")
    versions = [line for line in text.splitlines() if re.match(rf"({'|'.join(MAKERS)})==", line)]
    return {
        path: digest_of(_made_from(path, root), *versions, *_words_of(path), root=root)
        for path in only or generated(root)
    }


def write_manifest(digests: dict[Path, str], root: Path = ROOT) -> None:
    """Record that generated files are up to date.

    Args:
        digests: What `source_digests` returned before the files were made: a source may change while they are made.
        root: The repository's folder.
    """
    entries = _kept(root) | {path.as_posix(): _entry(path, digest, root) for path, digest in digests.items()}
    (root / MANIFEST).write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _entry(path: Path, digest: str, root: Path) -> dict[str, str]:
    return {"sources": digest, "file": digest_of([root / path], root=root) if (root / path).exists() else ""}


def _words_of(path: Path) -> list[str]:
    """Return a notebook's messages about mistakes of earlier assignments, because its own source files do not hold them."""
    if path == MISTAKES:  # this page depends on the files of all assignments
        return []
    return [MESSAGES[mistake.name] for mistake in mistakes_of(path.stem) if not mistake.title]

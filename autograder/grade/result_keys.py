"""Make the keys of results. A result depends only on the grader, the assignment's checks and all that was submitted.

A submission keeps its result while its key stays the same.
"""

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat

from autograder.course.course import Assignment
from autograder.grade.newer_python import OUR_PYTHON
from autograder.imports import ROOT, digest_of, imported_files

PACKAGES = ("numpy", "torch", "scipy", "ipython")  # packages whose versions count


def grader_key(assignment: Assignment, sandboxed: bool, held_out: Any, root: Path = ROOT) -> str:
    """Return a digest of all that a result depends on, except the submission.

    It covers the assignment, its checks, the grader, the libraries and the images.
    """
    words = [nbformat.writes(assignment.instructor), str(sandboxed)]
    modules = [f"autograder.checks.{assignment.notebook}.exercises"]
    if held_out is not None:
        words.append(held_out.name)
        modules += [f"autograder.checks.{stem}.checkpoint" for stem in assignment.files.values()]
    words.append(f"python {OUR_PYTHON}")
    words += [f"{package} {version(package)}" for package in PACKAGES]
    visible = [root / "exercises" / "attention_tests" / f"{assignment.notebook}.json"]
    refused = (root / "book" / "records").glob("*.pt") if held_out is not None else ()  # weights that are published
    return digest_of({*files_of_code(*modules, root=root), *visible, *refused}, *words, root=root)


def files_of_code(*modules: str, root: Path = ROOT) -> set[Path]:
    """Return the files that grade a submission, and those of modules; no import shows that the sandbox's are needed."""
    sandbox = (root / "autograder" / "sandbox").rglob("*.py")
    return {*imported_files("autograder.grade.job", *modules, root=root), *sandbox}


@cache  # it reads the packages' folders, and each result needs it
def versions() -> str:
    """Return the versions on which points depend most, in words. A student's versions may differ."""
    packages = {"NumPy": "numpy", "PyTorch": "torch"}
    parts = [f"Python {platform.python_version()}", *(f"{title} {version(name)}" for title, name in packages.items())]
    return ", ".join(parts)


def key_of(grader_key: str, content: str) -> str:
    """Return the key of a result: a digest of the grader's key and of all that was submitted."""
    return hashlib.sha256(f"{grader_key} {content}".encode()).hexdigest()


def digest_of_content(notebook: bytes, files: dict[str, bytes | str], candidates: str = "") -> str:
    """Return the digest of what was submitted.

    Args:
        notebook: The notebook that counts.
        files: The files next to it.
        candidates: `Submission.candidates`. They count because an instructor's decision is about all files from which
            one was chosen.
    """
    digest = hashlib.sha256(notebook + candidates.encode())
    for name, content in sorted(files.items()):
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        digest.update(f"\0{name} {type(content).__name__} {hashlib.sha256(data).hexdigest()}".encode())
    return digest.hexdigest()

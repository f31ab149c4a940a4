"""Are the guides for contributors right if every step is done in a copy of the repository?"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from autograder.imports import ROOT

CONTRIBUTING, STYLE, EXERCISE, GRADER = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("CONTRIBUTING.md", "STYLE.md", "autograder/checks/README.md", "autograder/README.md")
)
TEXT = CONTRIBUTING + STYLE + EXERCISE
OF_CONTRIBUTING = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", CONTRIBUTING, re.M | re.S))
SECTIONS = {title: OF_CONTRIBUTING[title] for title in ("Add a mistake", "Add a right answer")}
SECTIONS |= {"Add a chapter": STYLE, "Add an exercise": EXERCISE}
# A block with a file name holds this file, or its end.
BLOCK = re.compile(r"^(`{3,})(?:python|md) (\S+)\n(.*?)^\1$", re.M | re.S)
LINE = re.compile(r"`(- file: \S+)`")  # a line for the contents
QUOTED = re.compile(r"^```text\n\$ (?:COLUMNS=130 )?\.venv/bin/autograder (.*?)\n(.*?)^```$", re.M | re.S)
NUMBER = r"(?P<N>\d+)"
SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository without ignored files, after every step of every section."""
    root = tmp_path_factory.mktemp("contributing")
    for name in ("autograder", "solutions", "exercises", "book", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, root / name)
    for _, file, text in BLOCK.findall(TEXT):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        with (root / file).open("a", encoding="utf-8") as there:
            there.write(text)
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapter, exercise = map(yaml.safe_load, LINE.findall(TEXT))
    place = max(place for place, part in enumerate(contents["parts"]) if "numbered" in part)
    contents["parts"][place]["chapters"] += chapter
    contents["parts"][place + 1]["chapters"] += exercise
    (root / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
    return root


def assert_printed(said: str, printed: str) -> None:
    """Compare a page's quotation with the output word by word; N in the page is the same number everywhere."""
    words = [NUMBER if word == "N" else re.escape(word) for word in said.split()]
    first = words.index(NUMBER) + 1 if NUMBER in words else len(words)
    words[first:] = ["(?P=N)" if word == NUMBER else word for word in words[first:]]
    assert re.fullmatch(r"\s+".join(words), printed.strip()), printed


RUN = """
import sys
from autograder.cli import app
for each in sys.argv[1:]:
    print("\\0", flush=True)
    if "\\n" in each:
        exec(each)
    else:
        assert not app(each.split(), standalone_mode=False), each
"""


def run(copy: Path, *commands: str) -> list[str]:
    """Run scripts and shell lines with `autograder` in one process with the copy's modules; return their output."""
    pipes = [each.partition("|")[::2] if "\n" not in each else (each, "") for each in commands]
    _, *printed = run_python(copy, "-c", RUN, *(each.replace("2> /dev/null", "") for each, _ in pipes)).split("\0\n")
    return [
        subprocess.run(["bash", "-c", end or "cat"], input=text, capture_output=True, text=True, check=True).stdout
        for (_, end), text in zip(pipes, printed, strict=True)
    ]


def run_python(copy: Path, *arguments: str) -> str:
    """Run Python with the copy's modules, in its own process."""
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'exercises'}", "COLUMNS": "130"}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_are_those_of_four_sections() -> None:
    """Does each section name its files, and each new page have its line in the contents?"""
    files = {title: len(BLOCK.findall(text)) for title, text in SECTIONS.items()}
    assert files == {"Add a mistake": 1, "Add a right answer": 1, "Add a chapter": 1, "Add an exercise": 7}
    assert len(BLOCK.findall(TEXT)) == sum(files.values())
    assert [title for title, text in SECTIONS.items() if LINE.search(text)] == ["Add a chapter", "Add an exercise"]


def test_contributing_is_short() -> None:
    """Can the guide be read in a few minutes?"""
    assert len(CONTRIBUTING.encode()) <= 8000


def test_files_that_the_guides_name_exist() -> None:
    """Do all files and folders that a guide names exist, except its own examples?"""
    folders = [ROOT / name for name in ("autograder", "book", "exercises", "solutions", "tests")]
    there = {path.as_posix() for folder in folders for path in (folder, *folder.rglob("*"))} | set(
        map(Path.as_posix, ROOT.glob("*.*"))
    )
    examples = {file for _, file, _ in BLOCK.findall(TEXT)} | {"course/submitted", "course/results"}
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|md|yml|toml|txt|js|bib|pt)|/))`", TEXT + GRADER))
    named = {name.rstrip("/") for name in named if "NAME" not in name}
    assert len(named) > 40
    assert [name for name in sorted(named - examples) if not any(path.endswith(f"/{name}") for path in there)] == []


@contextlib.contextmanager
def made_exercise(copy: Path) -> Iterator[None]:
    """Let the copy have the file of the new exercise's visible tests, which "make exercises" makes with all others."""
    file = copy / "exercises/attention_tests/entropy.json"
    program = "from autograder.publish.visible_tests import frozen_file; print(frozen_file('entropy'))"
    file.write_text(run_python(copy, "-c", program), encoding="utf-8")
    yield
    file.unlink()


@pytest.mark.deep
@pytest.mark.parametrize("title", ("Add an exercise", "Add a mistake"))
def test_section_prints_what_it_says(copy: Path, title: str) -> None:
    """Do a section's commands, after its Python code, print the quoted text?"""
    commands = QUOTED.findall(SECTIONS[title])
    assert commands
    scripts = SCRIPT.findall(SECTIONS[title])
    with made_exercise(copy) if title == "Add an exercise" else contextlib.nullcontext():
        printed = run(copy, *scripts, *(command for command, _ in commands))[len(scripts) :]
    for (_, said), text in zip(commands, printed, strict=True):
        assert_printed(said, text)


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("322 of 322 mutants caught,\n322 named.\n", True),
        ("323 of 323 mutants caught, 323 named.", True),
        ("321 of 322 mutants caught, 322 named.", False),
        ("322 of 322 mutants caught, 321 named.", False),
        ("N of N mutants caught, N named.", False),
    ],
)
def test_number_that_a_page_leaves_open_is_one_number(printed: str, same: bool) -> None:
    """Is any number accepted for a page's N, but the same one each time?"""
    said = "N of N mutants caught, N named."
    with contextlib.nullcontext() if same else pytest.raises(AssertionError):
        assert_printed(said, printed)


def test_exercise_that_was_added_is_all_that_changes(copy: Path) -> None:
    """Do the other assignments' notebooks stay what their sources give?"""
    found = run_python(copy, "-c", "from autograder.publish.build import stale_files; print(*stale_files())")
    assert set(found.split()) == {
        "book/entropy.ipynb",
        "book/mistakes.md",
        "exercises/1_attention/attention.ipynb",  # a mistake was added to it
        "exercises/attention_tests/attention.json",
        "exercises/6_entropy/entropy.ipynb",
        "exercises/attention_tests/entropy.json",
    }


@pytest.mark.deep  # `make exercises` makes the page of mistakes again, which takes minutes
def test_pages_that_were_added_are_built(copy: Path, tmp_path: Path) -> None:
    """Are both pages built without a warning, with the chapter's output, in a book without other pages?"""
    run(copy, "build")
    pages = [line.split()[-1] for line in LINE.findall(TEXT)]
    for name in ("_config.yml", "requirements.txt", "book/references.bib", *(f"{page}.md" for page in pages)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(copy / name, tmp_path / name)
    for name in ("book/_ext", "book/_static", "book/records", "exercises", "solutions"):
        shutil.copytree(copy / name, tmp_path / name)
    contents = {"format": "jb-book", "root": pages[0], "chapters": [{"file": page} for page in pages[1:]]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
    build = (
        f"from pathlib import Path; from autograder.publish.book import build_book; build_book(Path({str(tmp_path)!r}))"
    )
    run_python(copy, "-c", build)  # in this process, tests with a browser leave an event loop running
    chapter, exercise = ((tmp_path / "_build" / "html" / f"{page}.html").read_text("utf-8") for page in pages)
    assert "array([1.39, 0.94])" in chapter and "Solution: entropy" in exercise


@pytest.mark.deep
def test_exercise_that_was_added_passes_all_tests(copy: Path) -> None:
    """Does the new assignment pass all tests of every assignment, without a change in a test?"""
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, copy / name)
    run(copy, "build")
    left_out = [f"--ignore={path}" for path in ("tests/test_contributing.py", "tests/publish/test_book.py")]
    said = run_python(copy, "-m", "pytest", "-q", "-m", "not deep", "-k", "entropy and not row_entropy", *left_out)
    assert int(re.search(r"(\d+) passed", said)[1]) > 20

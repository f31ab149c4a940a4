"""Do chapters read recorded runs and weights from the right place, and only those that they were written for?"""

import ast
import hashlib
import http.client
import json
import os
import re
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

import jupytext
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook

from autograder.imports import ROOT
from autograder.publish.book import BookError, record_chapter

REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
CONTENT = b"recorded"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def code_of(chapter: Path) -> str:
    """Return all code of a chapter."""
    cells = jupytext.read(chapter).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


CHAPTERS = {path.stem: path for path in sorted((ROOT / "book").glob("*.md")) if "def read_record(" in path.read_text()}


def reader_of(chapter: Path) -> tuple[Callable[[str, str], bytes | None], dict]:
    """Return a chapter's `read_record` and its global names, such as `RECORDS`."""
    namespace: dict = {"hashlib": hashlib, "http": http, "os": os, "urllib": urllib, "Path": Path}
    exec(re.search(r"^SITE = .*?^    return None$", code_of(chapter), re.M | re.S)[0], namespace)
    return namespace["read_record"], namespace


def records_of(chapter: Path) -> list[tuple[str, str]]:
    """Return name and SHA-256 of every record that a chapter reads."""
    calls = [node for node in ast.walk(ast.parse(code_of(chapter))) if isinstance(node, ast.Call)]
    mine = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "read_record"]
    return [tuple(ast.literal_eval(argument) for argument in call.args) for call in mine]


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_reads_the_records_that_are_there(name: str) -> None:
    """Is each record in book/records, with the digest that the chapter was written for, and the address on Colab ours?"""
    address = REPOSITORY["url"].replace("https://github.com/", "https://raw.githubusercontent.com/")
    assert reader_of(CHAPTERS[name])[1]["RECORDS"] == f"{address}/{REPOSITORY['branch']}/book/records/"
    records = records_of(CHAPTERS[name])
    assert records
    for record, sha256 in records:
        there = hashlib.sha256((ROOT / "book" / "records" / record).read_bytes()).hexdigest()
        assert there == sha256, (
            f"{record} is not the one that book/{name}.md was written for: read the chapter again, then name {there}"
        )


@pytest.mark.parametrize("name", ["read_record", "as_table"])
def test_chapters_carry_the_same_function(name: str) -> None:
    """Is a function that chapters copy, to read a record or show a table, equal in all of them?"""
    functions = [
        ast.unparse(node)
        for path in CHAPTERS.values()
        for node in ast.parse(code_of(path)).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert len(functions) == sum(f"def {name}(" in path.read_text(encoding="utf-8") for path in CHAPTERS.values()) > 1
    assert len(set(functions)) == 1


@pytest.mark.parametrize(
    ("places", "found", "said"),
    [
        ({"book": CONTENT}, CONTENT, []),  # the build of the book asks no address
        ({"site": CONTENT}, CONTENT, []),  # on Colab there is no folder
        ({"book": None, "site": CONTENT}, CONTENT, ["cannot be had"]),
        ({"book": b"another", "site": CONTENT}, CONTENT, ["not the file"]),
        ({"book": None}, None, ["cannot be had"] * 2),
        ({"book": b"another", "site": b"another"}, None, ["not the file"] * 2),
    ],
)
def test_read_record_takes_the_first_right_file(
    places: dict, found: bytes | None, said: list[str], tmp_path: Path, monkeypatch, capsys
) -> None:
    """Is a file of the folder preferred to that at the address, and a missing or wrong one refused with a message?"""
    read_record, names = reader_of(CHAPTERS["encoder"])  # the same in all chapters, as another test asks
    names["RECORDS"] = (tmp_path / "site").as_uri() + "/"
    for folder, content in places.items():
        (tmp_path / folder).mkdir()
        if content is not None:
            (tmp_path / folder / "a.json").write_bytes(content)
    monkeypatch.delenv("ATTENTION_BOOK_RECORDS", raising=False)
    if "book" in places:
        monkeypatch.setenv("ATTENTION_BOOK_RECORDS", str(tmp_path / "book"))
    assert read_record("a.json", SHA256) == found
    lines = capsys.readouterr().out.splitlines()
    assert [words in line and "a.json" in line for line, words in zip(lines, said, strict=True)] == [True] * len(said)


def test_record_is_what_the_long_cell_makes(tmp_path: Path) -> None:
    """Is `record` stored with its evidence, and does a failing long cell keep the old record?"""
    (tmp_path / "book" / "records").mkdir(parents=True)
    specification = {"name": "python3", "display_name": "Python 3", "language": "python"}
    thread = ThreadPoolExecutor(1)  # this thread may have the browser's event loop

    def record(*sources: str) -> Path:
        cells = [new_code_cell(source) for source in sources]
        cells[1].metadata["tags"] = ["skip-execution"]
        notebook = new_notebook(cells=cells, metadata={"kernelspec": specification})
        jupytext.write(notebook, tmp_path / "book" / "chapter.md", fmt="md:myst")
        return thread.submit(record_chapter, "chapter", tmp_path).result()

    path = record("import time", "while time.process_time() < 1:\n    pass\nrecord = {'steps': 3}", "1 / 0")
    found = json.loads(path.read_text())
    assert found["results"] == {"steps": 3} and found["machine"]["torch"] and found["cpu_seconds"] > 0
    with pytest.raises(BookError, match=r"(?s)book/chapter\.md failed:.*ZeroDivisionError"):
        record("x = 1", "record = 1 / 0")
    assert json.loads(path.read_text()) == found


def test_wrong_attention_is_told_as_recorded() -> None:
    """Do the chapter on heads and README give the measured accuracies, and the difference of paired seeds?"""
    runs = json.loads((ROOT / "book" / "records" / "wrong_attention.json").read_text())
    chapter, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("book/multihead.md", "README.md"))
    accuracies: dict[str, list[float]] = {}
    for run in sorted(runs, key=lambda run: run["settings"]["seed"]):
        found = accuracies.setdefault(re.sub(r"^M\d+ ", "", run["name"]), [])
        assert len(found) == run["settings"]["seed"], "each attention is trained with every seed, once"
        found.append(100 * run["test_accuracy"])
    assert len({len(found) for found in accuracies.values()}) == 1
    assert len(accuracies["right"]) == 5  # 2.776 is the 97.5 % quantile of t for five seeds
    ends = {}
    for name, found in accuracies.items():
        gaps = [one - right for one, right in zip(found, accuracies["right"], strict=True)]
        ends[name] = mean(gaps), 2.776 * stdev(gaps) / 5**0.5
    lost, half = ends.pop("softmax over the heads")
    share = mean(accuracies["softmax over the heads"])
    assert f"costs {-lost:.2f} ± {half:.2f} points, but its mean accuracy of {share:.2f} % alone" in chapter
    assert all(abs(gap) < half and abs(gap) + half < 0.4 for name, (gap, half) in ends.items() if name != "right")
    assert "their ends are at most 0.4 points from it" in chapter
    told = " / ".join(f"{each:.1f}" for each in accuracies["softmax over the queries"])
    assert f"{told} %" in readme
    assert " / ".join(f"{each:.1f}" for each in accuracies["right"]) in readme

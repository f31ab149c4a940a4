"""Are copies found, and how similar are independent right answers?"""

import ast
import importlib
import inspect
import math
import random
import re
import textwrap
from functools import cache
from pathlib import Path

import nbformat
import pytest
from conftest import ALL
from sample_class import fill_in
from test_cli import run

from autograder.course.course import Assignment, Course, Result
from autograder.grade.grade import load_assignment
from autograder.imports import ROOT
from autograder.report.similarity import THRESHOLD, own_code, same_files, same_mistakes, similar_pairs, write_similarity

CLASSES = 10  # drawn classes for each assignment


@cache
def forms_of(name: str) -> dict[str, list[str]]:
    """Return the right answers of each exercise in different people's forms, without docstrings and released lines."""
    release = nbformat.read(ROOT / "exercises" / name / f"{ALL[name]}.ipynb", 4)
    given = {line.strip() for cell in release.cells for line in cell.source.splitlines()}
    forms: dict[str, list[str]] = {}
    for exercise, ways in importlib.import_module(f"autograder.checks.{ALL[name]}.right_answers").RIGHT_ANSWERS.items():
        for answer in ways.values():
            source = textwrap.dedent(inspect.getsource(answer))
            if not source.startswith(("def ", "class ")):
                continue  # a line of a table
            tree = ast.parse(source)
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                    del node.body[0]
            body = "\n".join(line for line in ast.unparse(tree).splitlines() if line.strip() not in given)
            if body and body not in forms.setdefault(exercise, []):  # a factory's answers appear once
                forms[exercise].append(body)
    return forms


def classes_of(name: str) -> list[dict[str, str]]:
    """Draw classes in which no two students have the same form of an exercise."""
    forms, draw = forms_of(name), random.Random(0)
    size = min(len(found) for found in forms.values() if len(found) >= 4)
    drawn = []
    for _ in range(CLASSES):
        order = [draw.sample(found, len(found)) for found in forms.values()]
        drawn.append({f"student {i}": "\n".join(found[i] for found in order if i < len(found)) for i in range(size)})
    return drawn


@pytest.mark.parametrize("name", ALL)
@pytest.mark.few(1)
def test_independent_right_answers_are_not_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is the threshold far above the similarity of independent right answers, in all drawn classes?"""
    for limit in ("THRESHOLD", "LEAST"):
        monkeypatch.setattr(f"autograder.report.similarity.{limit}", 0.01)  # every pair with anything in common
    monkeypatch.setattr("autograder.report.similarity._fence", lambda shares: 0.0)
    classes = classes_of(name)
    pairs = {"1_attention": 150, "2_multihead": 150}.get(name, 60)
    assert sum(math.comb(len(students), 2) for students in classes) == pairs
    shares = [pair.share for students in classes for pair in similar_pairs(students)]
    assert 0.1 < max(shares) <= 0.6 < THRESHOLD


def renamed(code: str) -> str:
    """Disguise a copy with other names, comments and empty lines."""
    names = set(re.findall(r"\b[a-z_]{4,}\b(?=\s*=[^=])", code))
    for place, name in enumerate(sorted(names)):
        code = re.sub(rf"\b{name}\b", f"my_{place}", code)
    return "\n\n".join(f"{line}  # mine" for line in code.splitlines())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.few(2)
def test_copy_with_other_names_is_found(name: str) -> None:
    """Is a copy found after changes of names, comments and spaces, and no other pair of its class?"""
    for students in classes_of(name)[:5]:
        students = students | {"copy": renamed(students["student 0"])}
        (pair,) = similar_pairs(students)
        assert {pair.first, pair.second} == {"copy", "student 0"} and pair.share > 0.9


def test_class_that_is_alike_by_nature_lists_no_pair() -> None:
    """If all code is nearly the same, is a pair listed only if it is more similar than the class?"""
    body = "\n".join(f"values_{i} = rows_{i} @ keys_{i} + sum(range({i}))" for i in range(20))
    students = {f"student {i}": f"{body}\nown_{i} = [{', '.join(str(i * 7 + j) for j in range(30))}]" for i in range(8)}
    assert similar_pairs(students) == []
    (pair,) = similar_pairs(students | {"copy": students["student 3"]})
    assert (pair.first, pair.second, pair.share) == ("copy", "student 3", 1.0)


def test_sides_run_nothing() -> None:
    """Is a student's text shown as text, also inside highlighted parts?"""
    code = "\n".join(
        f"total_{i} = rows[{i}] + '<script>alert({i})</script>' * {i} if rows else None" for i in range(20)
    )
    (pair,) = similar_pairs({"ada": code, "ben": code})
    assert "<mark>" in pair.sides[0] and "<script" not in pair.sides[0] and "&lt;script&gt;" in pair.sides[0]


@pytest.fixture
def course(tmp_path: Path, assignment: Assignment) -> Course:
    """Three students of 1_attention: two with the book's answers, one with an unsolved notebook."""
    course = Course(tmp_path)
    perfect = fill_in(assignment.release, assignment.instructor)
    for student, notebook in (("ada", perfect), ("goran", perfect), ("ben", assignment.release)):
        path = course.autograded_path(student, assignment)
        path.parent.mkdir(parents=True)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        checks = [{"name": "attention_weights", "points": 1.0, "passed": False, "mistake": "M6", "message": ""}]
        course.save_result(
            Result(student, assignment.name, "graded", checks=checks if student != "ben" else checks[:0])
        )
    (tmp_path / "submitted" / "ada" / assignment.name).mkdir(parents=True)
    return course


def test_own_code_is_without_what_was_released(course: Course, assignment: Assignment) -> None:
    """Does an unsolved notebook leave nothing, and a solved one only what students write?"""
    assert own_code(course, assignment, "ben") == {}
    own = own_code(course, assignment, "ada")
    assert set(own) == {"softmax", "attention", "self_attention", "attention_backward"}
    assert "np.exp(" in own["softmax"] and "Args:" not in own["softmax"] and "def softmax" not in own["softmax"]


def test_own_code_is_read_in_bounded_time(course: Course, assignment: Assignment) -> None:
    """Is a very long line cut, which no person writes and which would take minutes to split into words?"""
    path = course.autograded_path("ben", assignment)
    notebook = nbformat.read(path, 4)
    notebook.cells.append(nbformat.v4.new_code_cell("'%-" + "0" * 50_000 + "\nmine = 1"))
    nbformat.write(notebook, path)
    (own,) = own_code(course, assignment, "ben").values()
    assert max(map(len, own.splitlines())) <= 300 and own.startswith("'%-000") and "[Cut here: " in own


def test_similarity_writes_page_and_table_with_the_words(course: Course, assignment: Assignment) -> None:
    """Do page and command say that it is no proof, show both sides, and name an unusual mistake in the same words?"""
    page, (pair,), files = write_similarity(course, assignment, course.load_results(assignment.name))
    assert (pair.first, pair.second, files) == ("ada", "goran", {})
    assert pair.reasons == ["100% of the shorter code", "M6 in attention, made by nobody else, in the same words"]
    text = page.read_text(encoding="utf-8")
    assert "A listed pair is a reason to look. It is not a proof." in text and text.count("<pre>") == 2
    assert "ada,goran,1.0" in (page.parent / "similarity.csv").read_text(encoding="utf-8-sig")
    done = run("similarity", assignment.name, "--course", str(course.root))
    assert done.exit_code == 0 and "1 to look at. This is not a proof." in done.stdout


def test_same_mistake_counts_only_where_it_is_unusual(assignment: Assignment) -> None:
    """Is a mistake no reason if many students made it, or if the words differ?"""
    check = {"name": "softmax_values", "mistake": "M5", "passed": False}
    results = [Result(name, assignment.name, "graded", checks=[check]) for name in ("ada", "ben", "chen")]
    same = {name: {"softmax": "return 1"} for name in ("ada", "ben", "chen")}
    assert same_mistakes(results, same) == {}
    assert list(same_mistakes(results[:2], same)) == [("ada", "ben")]
    assert same_mistakes(results[:2], same | {"ben": {"softmax": "return 2"}}) == {}


def test_same_weights_are_named(tmp_path: Path) -> None:
    """Are two files of weights found if they are equal byte for byte, and no third file?"""
    course, vit = Course(tmp_path), load_assignment("4_vit")
    for student, data in (("ada", b"same"), ("ben", b"same"), ("chen", b"other"), ("dora", None)):
        place = tmp_path / "submitted" / student / vit.name
        place.mkdir(parents=True)
        nbformat.write(vit.release, place / f"{vit.notebook}.ipynb")
        if data:
            (place / "vit.pt").write_bytes(data)
    assert same_files(course, vit, ["ada", "ben", "chen", "dora", "gone"]) == {"vit.pt": ["ada, ben"]}

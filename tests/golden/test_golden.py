"""Does the grader decide and say what it did when the records were written?

If a difference is wanted, write the records again, and commit them with the change: `python tests/golden/record.py`.
"""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor

import pytest
from conftest import ALL, FOLLOWED, NAME, GradedClass
from golden import record
from golden.differences import differences, recorded

QUICK = {"multihead": ("matmul", "split_heads")}
OTHER_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OPENBLAS_CORETYPE": "Prescott"}


@FOLLOWED
@pytest.mark.parametrize("stem", QUICK)
def test_verdicts_of_some_exercises_are_those_recorded(stem: str) -> None:
    """Are the messages about known mistakes, right answers and mutations the same, for a few exercises?"""
    before = [line for line in recorded(f"verdicts_{stem}") if line.partition(" | ")[0] in QUICK[stem]]
    assert differences(before, list(record.verdicts(stem, QUICK[stem]))) == []


def test_decisions_about_some_damaged_notebooks_are_those_recorded() -> None:
    """Are receipts and questions about damaged notebooks the same?"""
    assert differences(recorded("damaged")[:60], list(record.damaged(60))) == []


@FOLLOWED
def test_points_of_the_sample_class_are_those_recorded(graded_class: GradedClass) -> None:
    """Does each submission get its state and lose only the points of its mistakes, with the same messages?"""
    before = [line for line in recorded("classes") if line.startswith(NAME)]
    now = record.lines_of(graded_class.course, NAME, list(graded_class.results.values()))
    assert differences(before, [line for line in now if not line.startswith(f"{NAME} | zoe ")]) == []


def points_in(lines: list[str]) -> list[tuple[str, str]]:
    """Return which checks failed and passed, each with the named mistakes."""
    checks = [re.match(r"(.* \| (?:True|False))(.*)", line) for line in lines]
    return [(check[1], " ".join(re.findall(r"{M\d+}", check[2]))) for check in checks if check]


def sample_classes() -> list[str]:
    """Return the lines of the sample classes; another process calls this function."""
    return list(record.classes())


@pytest.mark.deep
def test_points_do_not_depend_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the sample classes get the same points and names on a processor that rounds differently?"""
    for name, value in OTHER_PROCESSOR.items():
        monkeypatch.setenv(name, value)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:  # libraries read it at their import
        assert points_in(other.submit(sample_classes).result()) == points_in(recorded("classes"))


@FOLLOWED
@pytest.mark.deep
@pytest.mark.parametrize("name", [*(f"verdicts_{stem}" for stem in ALL.values()), "classes", "damaged"])
def test_everything_is_as_recorded(name: str) -> None:
    """Is every recorded message and decision the same?"""
    assert differences(recorded(name), list(record.RECORDS[name]())) == []


def test_difference_is_noticed() -> None:
    """Does a changed word, a lost line or a number that differs by more than rounding show, and rounding not?"""
    before = ["a | off by up to 0.358", "b | 3 of 9"]
    assert differences(before, ["a | off by up to 0.359", "b | 3 of 9"]) == []
    numbered = [f"{n} | 3_encoder | copy" for n in range(90, 110)]
    assert differences(numbered, numbered) == []
    assert differences(before, before[:1]) == ["--- recorded", "+++ now", "-b | 3 of 9"]
    assert differences(before, ["a | off by up to 0.5", "b | 3 of 9"])[2:] == [
        "-a | off by up to 0.358",
        "+a | off by up to 0.5",
    ]

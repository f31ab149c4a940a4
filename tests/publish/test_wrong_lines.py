"""Is each riddle of "Find the wrong line" a known mistake in one line, and are the page's statements about it true?"""

import ast
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from attention_tests.compare import difference, outcome
from conftest import riddles
from playwright.sync_api import Page
from widget_page import Open, matrix, press, read

from autograder.judge.catalogue import STEMS, TITLES, checks_of
from autograder.judge.exercise import Exercise
from autograder.judge.mistake import changed_text, mistake_of, variant, variants_of
from autograder.judge.mutations import remove_words
from autograder.publish.generated import sources
from autograder.publish.wrong_lines import PARTS, SEED, SHOWN, Riddle, one_wrong_line

EXERCISES: dict[str, Exercise] = {
    name: each for checks in map(checks_of, STEMS) for name, each in checks.EXERCISES.items()
}


def functions(code: str) -> dict[str, str]:
    """Return the functions and classes in some code, without docstrings, types and texts of errors."""
    tree = ast.parse(code)
    remove_words(tree)
    tree = ast.parse(ast.unparse(tree))
    return {node.name: ast.dump(node) for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def corrected(riddle: Riddle) -> str:
    """Return a riddle's code with the right line instead of the wrong one."""
    wrong = riddle["code"][riddle["wrong"]]
    right = [wrong[: len(wrong) - len(wrong.lstrip())] + riddle["right"]] if riddle["right"] else []
    return "\n".join([*riddle["code"][: riddle["wrong"]], *right, *riddle["code"][riddle["wrong"] + 1 :]])


@pytest.mark.deep
def test_riddles_are_many() -> None:
    """Are there at least 120 different riddles, of all parts and all difficulties?"""
    names = [riddle["name"] for riddle in riddles()]
    assert len(names) == len(set(names)) >= 120
    assert len({tuple(riddle["code"]) for riddle in riddles()}) == len(names)
    assert {riddle["part"] for riddle in riddles()} == set(PARTS)
    stems = [source.stem for source in sources()]
    assert list(PARTS.values()) == stems[: len(PARTS)]
    assert {riddle["level"] for riddle in riddles()} == {"easy", "medium", "hard"}
    assert min(sum(riddle["part"] == part for riddle in riddles()) for part in PARTS) >= 10


def test_riddle_has_one_wrong_line() -> None:
    """Does the code equal the answer with the catalogue's change, and the answer itself after the line is corrected?"""
    for riddle in riddles():
        exercise, path = EXERCISES[riddle["exercise"]], Path(EXERCISES[riddle["exercise"]].answers.__file__)
        name = riddle["name"].split()[1]
        changes = variants_of(exercise.name, exercise.known)[name].changes
        answer, wrong = functions(path.read_text("utf-8")), functions(changed_text(path, exercise.name, changes))
        shown, repaired = functions("\n".join(riddle["code"])), functions(corrected(riddle))
        assert shown != repaired, riddle["name"]
        assert repaired.items() <= answer.items(), riddle["name"]
        assert answer | shown == wrong, riddle["name"]  # nothing else in the file differs
        assert (riddle["mistake"], riddle["title"]) == (mistake_of(name), TITLES[riddle["mistake"]])
        assert riddle["code"].count(riddle["code"][riddle["wrong"]]) == 1, riddle["name"]


def function_of(riddle: Riddle) -> object:
    """Return the definition in a riddle's code, in a module with the rest of the answers."""
    answers = EXERCISES[riddle["exercise"]].answers
    module = ModuleType(answers.__name__)
    module.__file__ = answers.__file__
    exec(Path(answers.__file__).read_text("utf-8"), vars(module))
    exec("\n".join(riddle["code"]), vars(module))
    return vars(module)[riddle["exercise"]]


@pytest.mark.few(1)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore")  # such as a division by 0, which a mistake may cause
def test_riddle_fails_its_tests_by_its_name(part: int) -> None:
    """Does the code fail exactly the hidden tests that the riddle lists, by its name, and the visible one if it says so?"""
    for riddle in (riddle for riddle in riddles() if riddle["part"] == part):
        exercise, function = EXERCISES[riddle["exercise"]], function_of(riddle)
        wrong = []
        for case in exercise.visible_cases():
            torch.default_generator.manual_seed(0)
            got = outcome(exercise.of_arrays(function), case["arguments"], exercise.names)
            wrong.append(difference(got, case["expected"], show=False))
        assert any(wrong) == riddle["visible"], riddle["name"]
        failures = exercise.failures(function_of(riddle), SEED)
        assert list(failures) == riddle["tests"] != [], riddle["name"]
        assert {error.mistake for error in failures.values()} - {None} == {riddle["mistake"]}, riddle["name"]
        assert set(riddle["tests"]) | set(riddle["silent"]) == set(exercise.stages)


def test_maps_of_a_riddle_differ() -> None:
    """Do the two maps differ visibly, and does each completely visible row of right weights sum to 1?"""
    whole = 0
    for riddle in riddles():
        right, wrong = (np.array(riddle["shows"][key], dtype=float) for key in ("right", "wrong"))
        assert right.shape != wrong.shape or not np.array_equal(right, wrong, equal_nan=True), riddle["name"]
        assert max(right.shape + wrong.shape) <= SHOWN
        if riddle["shows"]["of"] == "weights" and right.shape[1] < SHOWN:
            whole += 1
            np.testing.assert_allclose(right.sum(axis=1), 1, atol=0.0051 * SHOWN, err_msg=riddle["name"])
    assert whole > 10


def test_line_that_is_there_twice_is_no_riddle(tmp_path: Path) -> None:
    """Is a mistake left out if its line is right at another place?"""
    path = tmp_path / "answers.py"
    path.write_text("def f():\n    a = 1\n    b = 3\n    c = 4\n    d = 5\n    e = 6\n    return a\n", encoding="utf-8")
    assert one_wrong_line(path, "f", variant("f", "a = 1", "b = 3")) is None
    assert one_wrong_line(path, "f", variant("f", "a = 1", "a = 2")) is not None


def asked(page: Page) -> Riddle:
    """Return the riddle that a page shows."""
    name = page.locator("[data-riddle]").get_attribute("data-riddle")
    return next(riddle for riddle in riddles() if riddle["name"] == name)


@pytest.mark.deep
def test_riddles_are_solved_by_keyboard(open_widget: Open) -> None:
    """Can ten riddles be solved by keyboard, each with mistake, maps and tests, is the score kept, and the choice followed?"""
    page = open_widget("wrong_lines")
    page.evaluate("localStorage.clear()")
    page.reload()
    seen = set()
    page.keyboard.press("Tab")  # part
    page.keyboard.press("Tab")  # difficulty
    for round_ in range(1, 11):
        riddle = asked(page)
        seen.add(riddle["name"])
        assert page.locator(".line").all_text_contents() == [line.strip() for line in riddle["code"]]
        for key, title in (("right", "right"), ("wrong", "with the wrong line")):
            np.testing.assert_allclose(
                read(matrix(page, title)), np.array(riddle["shows"][key], dtype=float), err_msg=riddle["name"]
            )
        if round_ == 1:
            page.keyboard.press("Tab")  # in later riddles the first line has the focus
        for _ in range(riddle["wrong"]):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        verdict = page.locator("[role=status]")
        assert f"Yes. Line {riddle['wrong'] + 1} is wrong: {riddle['title']}." in verdict.text_content()
        assert f"({round_} of {round_} found.)" in verdict.text_content()
        assert verdict.locator("a").get_attribute("href") == f"mistakes.html#{riddle['mistake'].lower()}"
        tests = verdict.locator("code").all_text_contents()
        assert tests == ([riddle["right"]] if riddle["right"] else []) + riddle["tests"]
        assert ("the visible test does not" in verdict.text_content()) != riddle["visible"]
        page.keyboard.press("Enter")  # the next riddle
    assert len(seen) == 10
    page.reload()
    left = page.locator(".widget-left")
    assert f"{len(riddles())} riddles fit your choice; you have solved 10 of them." in left.text_content()
    riddle = asked(page)
    assert riddle["name"] not in seen
    page.locator(".line").nth((riddle["wrong"] + 1) % len(riddle["code"])).tap()
    page.locator(".line").nth(riddle["wrong"]).tap(force=True)  # the first answer counts
    assert "No. " in page.locator("[role=status]").text_content()
    assert "(10 of 11 found.)" in page.locator("[role=status]").text_content()
    page.get_by_text("Forget all answers").tap()
    page.reload()
    assert "you have solved 0 of them." in left.text_content()
    for part in PARTS:
        for level in ("easy", "medium", "hard"):
            press(page, str(part))
            press(page, level)
            fitting = [each for each in riddles() if (each["part"], each["level"]) == (part, level)]
            assert f"{len(fitting)} riddles fit your choice" in left.text_content()
            assert asked(page) in fitting if fitting else page.get_by_text("No riddle of this part").is_visible()


def test_browser_that_keeps_nothing_counts_this_visit(open_widget: Open) -> None:
    """Does the page work if the browser refuses to store anything?"""
    page = open_widget("wrong_lines")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('refused'); }; }")
    press(page, "2")
    page.locator(".line").nth(asked(page)["wrong"]).tap()
    assert "found.)" in page.locator("[role=status]").text_content()

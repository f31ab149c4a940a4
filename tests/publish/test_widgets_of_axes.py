"""Do the widgets of einsum, heads, patches and positions agree with NumPy?"""

import numpy as np
import pytest
import torch
from playwright.sync_api import Page
from widget_page import Open, call, matrix, note_of, press, read

from autograder.imports import ROOT
from solutions.vit import patchify


def blocks_of(page: Page) -> list[list[int]]:
    """Return the numbers of all displayed arrays, the output last."""
    return [[int(text) for text in array.locator("td").all_text_contents()] for array in page.locator(".array").all()]


@pytest.mark.parametrize("equation", ["bhic,bhjc->bhij", "ij,jk,kc->ci", "iij", "bij->"])
def test_einsum_shows_what_it_computes(equation: str, open_widget: Open) -> None:
    """Are the numbers NumPy's for the inputs on the page, also without an arrow?"""
    page = open_widget("einsum")
    page.get_by_label("equation", exact=True).fill(equation)
    sizes = {
        each.get_attribute("aria-label")[-1]: int(each.input_value()) for each in page.locator(".axes input").all()
    }
    *given, output = blocks_of(page)
    inputs = equation.partition("->")[0].split(",")
    arrays = [np.reshape(each, [sizes[x] for x in letters]) for each, letters in zip(given, inputs, strict=True)]
    np.testing.assert_array_equal(output, np.einsum(equation, *arrays).flatten())


def test_einsum_says_what_a_letter_does(open_widget: Open) -> None:
    """Are the chapter's three roles named, does a size change the arrays and the loop, and does a wrong equation hide them?"""
    page = open_widget("einsum")
    for wrong, words in (("ij->ii", "twice in the output"), ("bhijcd->b", "make a size smaller")):
        page.get_by_label("equation", exact=True).fill(wrong)
        assert words in note_of(page) and not page.locator(".arrays").is_visible()
    page.get_by_label("equation", exact=True).fill("bi,bj->b")
    assert page.locator(".arrays").is_visible()
    assert page.locator(".axes label").all_text_contents() == ["bshared", "isummed", "jsummed"]
    page.get_by_label("equation", exact=True).fill("bi,bj->bij")
    assert page.locator(".axes label").all_text_contents() == ["bshared", "ifree", "jfree"]
    page.get_by_label("size of j").fill("2")
    page.get_by_label("size of j").press("Enter")
    assert [len(each) for each in blocks_of(page)] == [6, 4, 12]
    assert "for j in range(2):" in page.locator("pre").text_content()


def test_einsum_cells_are_walked_by_arrow_keys(open_widget: Open) -> None:
    """Does an arrow key lead from cell to cell, and does the page say how each number is made?"""
    page = open_widget("einsum")
    page.get_by_label("equation", exact=True).fill("ij,j->i")
    matrix_, vector, output = blocks_of(page)
    page.locator("td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    terms = [f"{a} · {b}" for a, b in zip(matrix_[4:8], vector, strict=True)]
    assert note_of(page) == f"{' + '.join(terms)} = {output[1]}"
    assert page.locator(".in").count() == 8
    page.locator("td[tabindex]").nth(2).hover()
    assert note_of(page).endswith(f"= {output[2]}")


def drills_of(page: Page) -> list[tuple[str, list[list[int]], str]]:
    """Return each drill's question, the shapes of its arrays, and an answer."""
    return page.evaluate("() => Widgets.drills.DRILLS")


def numpy_does(equation: str, arrays: list[np.ndarray], expected: np.ndarray) -> bool:
    """Whether an equation runs and gives the expected numbers."""
    try:
        result = np.einsum(equation, *arrays)
    except ValueError:
        return False
    return result.shape == expected.shape and np.allclose(result, expected)


def test_drills_are_judged_by_the_numbers(open_widget: Open) -> None:
    """Is an equation judged right exactly if NumPy's result is, for renamed letters, random ones and near misses?"""
    page, rng, found = open_widget("drills"), np.random.default_rng(0), {True: 0, False: 0}
    drills = drills_of(page)
    assert len(drills) == len({answer for _, _, answer in drills}) == 12
    for drill in drills:
        _, shapes, answer = drill
        arrays = [rng.normal(size=shape) for shape in shapes]
        expected = np.einsum(answer, *arrays)
        left, _, right = answer.partition("->")
        letters = sorted(set(left) - {","})
        tried = {answer, answer.translate(str.maketrans("bcdehijkn", "zyxwvutsr"))}
        tried |= {
            f"{left}->{''.join(rng.permutation(letters)[:size])}" for size in range(len(letters) + 1) for _ in range(6)
        }
        for _ in range(40):
            other = [letter if letter == "," or rng.random() < 0.8 else rng.choice([*letters, "x"]) for letter in left]
            tried.add(f"{''.join(other)}->{right}")
        for equation in tried:
            does = numpy_does(equation, arrays, expected)
            assert call(page, "drills.judge", drill, equation)["right"] == does, (answer, equation)
            found[does] += 1
    assert found[True] >= 24 and found[False] > 100


WRONG = [  # a drill, an equation, and words of what is said about it
    (0, "ij->k", "“k” is in the output but in no input"),
    (0, "ij,,jk->ik", "has no letters"),
    (0, "", "has no letters"),
    (0, "i1->i", "“1” is not a letter"),
    (0, "i->j->k", "“-” is not a letter"),
    (0, "...i->i", "“...” does not work"),
    (0, "i->i,j", "remove the comma after the arrow"),
    (0, "a,b,c,d->abcd", "at most three arrays"),
    (1, "ij->", "Your result has the shape (), but (3,) is asked for."),
    (2, "ij->ij", "Your result has the shape (3, 4), but (4, 3) is asked for."),
    (3, "ij->i", "The shape is right, but 3 of 3 numbers are wrong."),
    (6, "i,ji->j", "“i” is the letter of axes of length 3 and 4: they need two letters."),
    (7, "ij->ij", "This drill has two arrays, but your equation has 1."),
    (9, "bi->ib", "A has 3 axes, but “bi” has 2: write one letter for each axis."),
]


def test_drills_say_what_an_equation_does(open_widget: Open) -> None:
    """Does the page say what is wrong with a wrong equation, and what the letters of a right answer do?"""
    page = open_widget("drills")
    drills = drills_of(page)
    for drill, equation, words in WRONG:
        assert words in call(page, "drills.judge", drills[drill], equation)["words"]
    press(page, "10")
    page.get_by_label("your equation").fill("xyz,xzw->xyw")
    page.get_by_role("button", name="Check").tap()
    assert note_of(page).startswith("Right. shared: x; free: y, w; summed: z.")


def test_drills_are_done_by_keyboard(open_widget: Open) -> None:
    """Can all drills be solved by keyboard, is each ticked and counted, and is the typed text kept?"""
    page = open_widget("drills")
    drills = drills_of(page)
    page.get_by_label("your equation").focus()
    for number, (_, _, answer) in enumerate(drills, 1):
        page.keyboard.type(answer)
        page.keyboard.press("Enter")
        assert note_of(page).endswith(f"You have solved {number} of 12.")
        page.get_by_role("button", name="Next drill").focus()
        page.keyboard.press("Space")
    assert page.locator(".widget-choice span").all_text_contents() == [f"{i} ✓" for i in range(1, 13)]
    assert page.get_by_label("your equation").input_value() == drills[0][2]


def test_drills_are_on_the_page_without_scripts(open_widget: Open) -> None:
    """Does the table for readers without scripts ask the same questions, and does its list give the same answers?"""
    text = (
        (ROOT / "book" / "einsum.md").read_text(encoding="utf-8").partition("{widget} drills")[2].partition(":::::")[0]
    )
    for number, (asked, shapes, answer) in enumerate(drills_of(open_widget("drills")), 1):
        shown = ", ".join(str(tuple(shape)) for shape in shapes)
        assert f"| {number} | {asked} | {shown} |" in text
        assert f"\n{number}. `{answer}`" in text


@pytest.mark.parametrize("sizes", [(3, 2, 2), (5, 4, 3), (2, 3, 5)])
def test_heads_are_split_and_merged_as_in_pytorch(sizes: tuple[int, int, int], open_widget: Open) -> None:
    """Are heads and merged tokens those of PyTorch's reshape and permute, in every version?"""
    tokens, heads, width = sizes
    page = open_widget("heads")
    rows = torch.arange(1, tokens + 1)[:, None] * 10 + torch.arange(1, heads * width + 1)  # (N, D)
    split = {
        "right": rows.unflatten(1, (heads, width)).transpose(0, 1),  # (H, N, d)
        "M21": rows.reshape(heads, tokens, width),
        "M81": rows.unflatten(1, (width, heads)).permute(2, 0, 1),
    }
    split["M22"] = split["right"]
    merged = {
        "right": rows,
        "M21": split["M21"].transpose(0, 1).flatten(1),
        "M22": split["M22"].reshape(tokens, heads * width),
        "M81": rows,
    }
    for version, expected in split.items():
        made = call(page, "heads.compute", *sizes, version)
        [there] = [np.reshape(stage["flat"], stage["shape"]) for stage in made if stage["axes"] == "H, N, d"]
        np.testing.assert_array_equal(there, expected, err_msg=version)
        np.testing.assert_array_equal(np.reshape(made[-1]["flat"], made[-1]["shape"]), merged[version], err_msg=version)


def test_heads_show_where_a_cell_goes(open_widget: Open) -> None:
    """Is a cell marked in every step, by keyboard and by touch, and does each mistake light its lamps?"""
    page = open_widget("heads")
    page.get_by_label("cell to follow").fill("32")
    assert page.locator("td.marked").all_text_contents() == ["32"] * 5
    page.locator("td", has_text="14").first.tap()
    assert page.locator("td.marked").all_text_contents() == ["14"] * 5
    seen = {}
    for version in ("right", "M21", "M22", "M81"):
        press(page, version)
        page.get_by_role("button", name="Show the results").click()
        seen[version] = [lamp.locator("b").text_content() for lamp in page.locator(".lit").all()]
        if version == "M21":
            assert "Head 1 sees tokens 1 and 2 only." in note_of(page)
    assert seen == {"right": [], "M21": ["round trip", "by hand"], "M22": ["round trip"], "M81": ["by hand"]}
    press(page, "3,2")
    assert page.locator(".stages .array").first.locator("td").count() == 18


@pytest.mark.parametrize("size", [2, 4, 7, 14])
def test_patches_are_those_of_the_exercise(size: int, open_widget: Open) -> None:
    """Are the patches of random pixels those of the exercise's answer, and M44's those of PyTorch's reshape?"""
    image = np.random.default_rng(size).random((28, 28))
    page = open_widget("patches")
    cut, reshaped = (call(page, f"patches.{name}", image.flatten(), size) for name in ("patchify", "reshape"))
    np.testing.assert_array_equal(cut, patchify(torch.from_numpy(image)[None, None], size)[0])
    np.testing.assert_array_equal(reshaped, image.reshape(-1, size**2))


def test_patches_say_what_a_row_is(open_widget: Open) -> None:
    """Is the chosen row described in words, by slider, by a touch of the image, and for another P?"""
    page = open_widget("patches")
    piece = "by a reshape alone it is a piece of the image's lines"
    assert f"Row 6 is the patch in row 2, column 2; {piece} 9 to 11." in note_of(page)
    page.get_by_role("slider", name="row n").press("End")
    assert "Row 16 is the patch in row 4, column 4" in note_of(page)
    page.locator(".tiles canvas").first.tap(position={"x": 5, "y": 5})
    assert f"Row 1 is the patch in row 1, column 1; {piece} 1 to 2." in note_of(page)
    press(page, "14")
    assert "4 rows of 196 numbers" in note_of(page)
    before = page.locator(".strips canvas").first.evaluate("strip => strip.toDataURL()")
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("before => document.querySelector('.strips canvas').toDataURL() !== before", arg=before)


@pytest.mark.parametrize(("width", "base"), [(64, 100.0), (16, 7.5), (4, 10000.0)])
def test_similarity_is_that_of_numpy(width: int, base: float, open_widget: Open) -> None:
    """Are both similarity maps those of sines and cosines in NumPy, for a place without symmetry?"""

    def codes_of(places: np.ndarray, width: int) -> np.ndarray:
        angles = np.outer(places, [base ** (-2 * i / width) for i in range(width // 2)])
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    row, column = np.divmod(np.arange(64), 8)
    expected = {"line": codes_of(np.arange(64), width)}
    expected["plane"] = np.concatenate([codes_of(row, width // 2), codes_of(column, width // 2)], axis=1)
    page = open_widget("positions")
    for kind, codes in expected.items():
        made = call(page, "positions.compute", kind, width, base, 5, 2)
        unit = codes / np.linalg.norm(codes, axis=1, keepdims=True)
        np.testing.assert_allclose(np.reshape(made, 64), unit @ unit[42], atol=1e-12)


def test_positions_say_what_the_chapter_says(open_widget: Open) -> None:
    """Does the widget start with the chapter's four numbers, and do a touch and a key choose another place?"""
    page = open_widget("positions")
    assert note_of(page) == (
        "Similarity to the place on the right: 0.940 in 1-D, 0.966 in 2-D; "
        "to the place below: 0.429 in 1-D, 0.966 in 2-D."
    )
    matrix(page, "2-D").locator("tbody tr").nth(3).locator("td").nth(7).tap()
    assert "on the right: outside in 1-D" in note_of(page)
    start_of_next = read(matrix(page, "1-D, line by line"))[4, 0]
    assert start_of_next == 0.94  # the next place, at the opposite side of the image
    page.get_by_role("slider", name="row").press("ArrowRight")
    assert page.locator(".chosen").count() == 2
    assert read(matrix(page, "2-D"))[4, 7] == 1

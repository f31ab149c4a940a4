"""Do the widgets of softmax, learning, attention and masks agree with PyTorch, mistakes included?"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Page
from widget_page import Open, call, matrix, note_of, press, read, slide

VERSIONS = ("right", "M3", "M6", "M8", "M9", "M10", "M11", "M12", "M13")


def draw(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return numbers with two decimals, as a reader may type them."""
    return torch.from_numpy(rng.normal(size=shape).round(2) * 2)


def open_versions(page: Page) -> None:
    """Show the versions with a mistake, and the tests."""
    page.get_by_role("button", name="Choose a mistake").click()


def wrong_weights(version: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return the weights of a version, (3, 3), by PyTorch's softmax."""
    if version == "M6":
        return torch.softmax(q @ k.T / 2**0.5, dim=0)
    if version == "M11":
        q, k = k, q
    if version == "M12":
        q = k = v
    scale = {"M8": 1.0, "M9": 0.5, "M10": 0.5}.get(version, 0.5**0.5)  # M9: D = 4; M10: d = 2
    return F.scaled_dot_product_attention(q[None], k[None], torch.eye(3).double()[None], scale=scale)[0]


def test_attention_is_that_of_pytorch(open_widget: Open) -> None:
    """Are the weights and the output of every version PyTorch's, for typed numbers?"""
    page, rng = open_widget("attention"), np.random.default_rng(0)
    given = [draw(rng, 3, 2) for _ in range(3)]
    for name, numbers in zip(("queries Q", "keys K", "values V"), given, strict=True):
        for field, number in zip(matrix(page, name).locator("input").all(), numbers.flatten().tolist(), strict=True):
            field.fill(f"{number:.2f}")
    open_versions(page)
    for version in VERSIONS:
        press(page, version)
        weights = wrong_weights(version, *given)
        output = weights @ (given[1] if version == "M13" else given[2])
        # the page shows two digits
        np.testing.assert_allclose(read(matrix(page, "3 softmax")), weights, atol=0.00501, err_msg=version)
        np.testing.assert_allclose(read(matrix(page, "4 mix, output")), output, atol=0.00501, err_msg=version)
        np.testing.assert_allclose(read(matrix(page, "sum"))[:, 0], weights.sum(1), atol=0.00501, err_msg=version)


def test_lamps_are_those_of_the_chapter(open_widget: Open) -> None:
    """Do the tests notice what the chapter's table says, for numbers without symmetry?"""
    page, rng = open_widget("attention"), np.random.default_rng(0)
    given = {name: draw(rng, 3, 2).tolist() for name in "QKV"}
    seen = {version: call(page, "attention.noticed", given, version) for version in VERSIONS}
    only_loop = [False] * 5 + [True]  # shape, permute, same, mean, large, loop
    assert seen == dict.fromkeys(("M6", "M8", "M9", "M10", "M11"), only_loop) | {
        "right": [False] * 6,
        "M3": [False] * 4 + [True, False],
        "M12": [False, False, False, True, False, True],
        "M13": [False, False, True, True, False, True],
    }


def test_versions_with_a_mistake_are_shown_on_demand(open_widget: Open) -> None:
    """Is attention right at first, with no mistake to choose, and right again when the mistakes are hidden?"""
    page = open_widget("attention")
    right = read(matrix(page, "4 mix, output"))
    versions, lamps = page.locator("input[value='M6']"), page.locator(".widget-lamps")
    assert not versions.is_visible() and not lamps.is_visible()
    open_versions(page)
    assert versions.is_visible() and lamps.is_visible()
    page.locator("input[value='right']").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.locator("input[value='M6']").is_checked()
    assert "over the queries" in page.locator(".widget-formula").text_content()
    assert (read(matrix(page, "4 mix, output")) != right).any()
    page.get_by_role("button", name="Back to the right version").click()
    assert not versions.is_visible() and not lamps.is_visible()
    np.testing.assert_array_equal(read(matrix(page, "4 mix, output")), right)


def test_results_are_shown_after_a_guess(open_widget: Open) -> None:
    """Are the results of the tests hidden until the reader asks, and again for the next mistake?"""
    page = open_widget("attention")
    open_versions(page)
    results, total = page.locator(".widget-lamps i"), page.locator(".widget-lamps [role=status]")
    for mistake in ("M12", "M11"):
        press(page, mistake)
        assert results.all_text_contents() == ["?"] * 6
        assert total.text_content() == "How many do you expect?"
        page.get_by_role("button", name="Show the results").click()
        assert "?" not in results.all_text_contents()
    assert page.locator(".lit").all_text_contents() == ["loopDoes a plain loop give the same output, to 10⁻⁵?notices"]
    assert total.text_content() == "1 of 6 tests notices a mistake."
    press(page, "ones")  # they hide swapped queries and keys, as the note says
    assert total.text_content() == "0 of 6 tests notice a mistake."
    press(page, "example")
    assert page.locator(".lit").count() == 1
    press(page, "long")  # exponentials overflow without the maximum
    assert np.isfinite(read(matrix(page, "4 mix, output"))).all()
    press(page, "M3")
    assert np.isnan(read(matrix(page, "4 mix, output"))).sum() == 4
    page.get_by_role("button", name="Show the results").click()
    assert total.text_content() == "4 of 6 tests notice a mistake."
    page.get_by_role("button", name="Hide the results").click()
    assert page.locator(".lit").count() == 0


def test_riddle_shows_two_softmaxes_of_one_table(open_widget: Open) -> None:
    """Are both maps NumPy's, does an answer reveal the sums, and does each answer count once?"""
    page, rng = open_widget("riddle"), np.random.default_rng(0)
    scores = rng.normal(size=(5, 5))
    made = call(page, "riddle.compute", scores)
    np.testing.assert_allclose(made["keys"], torch.softmax(torch.from_numpy(scores), 1), rtol=1e-12)
    np.testing.assert_allclose(made["queries"], torch.softmax(torch.from_numpy(scores), 0), rtol=1e-12)
    assert not page.locator(".late").first.is_visible()
    for round_ in (1, 2):
        page.locator("[data-kind=queries]").tap()
        page.locator("[data-kind=keys]").tap(force=True)  # it is disabled now
        assert f"({round_} of {round_} found.)" in page.locator("[role=status]").text_content()
        assert page.locator(".late").first.is_visible()
        page.get_by_text("Another table").press("Enter")
    page.locator("[data-kind=keys]").tap()
    assert "(2 of 3 found.)" in page.locator("[role=status]").text_content()


def test_temperature_is_that_of_pytorch(open_widget: Open) -> None:
    """Are weights, entropy and Jacobian those of PyTorch and its autograd, for dragged scores and temperatures?"""
    page, rng = open_widget("temperature"), np.random.default_rng(0)
    scores, power = rng.uniform(-3, 3, 3).round(2), round(rng.uniform(-1, 1), 2)
    slide(page, "temperature", power)
    # this is read aloud, instead of the slider's power of ten
    assert page.get_by_role("slider", name="temperature").get_attribute("aria-valuetext") == f"{10**power:.2f}"
    for place, score in enumerate(scores, 1):
        slide(page, f"score {place}", score)
    divided = torch.from_numpy(scores / 10**power)
    weights = torch.softmax(divided, 0)
    shown = [float(text.rpartition("=")[2]) for text in page.locator(".widget-row .widget-bar").all_text_contents()]
    np.testing.assert_allclose(shown, weights, atol=0.000501)
    page.get_by_role("button", name="Show the Jacobian").click()
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), divided)
    np.testing.assert_allclose(read(matrix(page, "Jacobian ∂p / ∂(s/τ)")), jacobian, atol=0.000501)
    entropy = torch.special.entr(weights).sum().item()
    assert f"entropy {entropy:.2f} of" in page.locator(".entropy").text_content()
    for shift in (True, False):  # both agree in every digit, and NaN is where NumPy has NaN
        for added in (0, 1000, -1000):
            given = scores + added
            made = call(page, "temperature.compute", given, 2.0, shift)
            with np.errstate(all="ignore"):
                exponentials = np.exp(given / 2 - shift * given.max() / 2)
                expected = exponentials / exponentials.sum()
            np.testing.assert_allclose(made["weights"], expected, rtol=1e-12)


def test_temperature_starts_as_on_paper_and_shows_the_overflow(open_widget: Open) -> None:
    """Are the first weights 1/6, 2/6 and 3/6, and does adding 1,000 change them and end the curves only without the maximum?"""
    page = open_widget("temperature")
    shown, curves = page.locator(".widget-row .widget-bar"), page.locator(".widget-drawing path[stroke]")
    assert shown.all_text_contents() == ["1 / 6 = 0.167", "2 / 6 = 0.333", "3 / 6 = 0.500"]
    assert not matrix(page, "Jacobian ∂p / ∂(s/τ)").is_visible()
    press(page, "1000")
    assert shown.all_text_contents() == ["∞ / ∞ = NaN"] * 3
    assert page.locator(".widget-drawing .nan").text_content() == "NaN"
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.exp(1000 / 10 ** np.linspace(-1.5, 1.5, 61))).sum()
    assert [each.get_attribute("d").count("L") + 1 for each in curves.all()] == [finite] * 3
    press(page, "-1000")
    assert shown.all_text_contents() == ["0 / 0 = NaN"] * 3
    press(page, "shift")
    assert shown.all_text_contents() == ["0.33 / 2 = 0.167", "0.67 / 2 = 0.333", "1 / 2 = 0.500"]
    assert [each.get_attribute("d").count("L") for each in curves.all()] == [60] * 3


def misread(version: str, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the weights of a version that reads a mask, by PyTorch's attention with the scores as its mask."""
    zero = torch.zeros(6, 1).double()
    given = {
        "right": scores.masked_fill(~mask, -torch.inf),
        "M16": scores.masked_fill(mask, -torch.inf),
        "M18": scores + mask,
        "M19": scores.masked_fill(~mask.T, -torch.inf),
        "M20": scores.masked_fill(~mask, -1e9),
    }.get(version, scores)
    weights = F.scaled_dot_product_attention(
        zero[None], zero[None], torch.eye(6).double()[None], attn_mask=given[None]
    )[0]
    return weights * mask if version == "M17" else weights


def test_masks_are_read_as_pytorch_reads_them(open_widget: Open) -> None:
    """Are the weights under random masks PyTorch's in every version, and is the leak the forbidden part?"""
    page, rng = open_widget("masks"), np.random.default_rng(0)
    scores, mask = torch.from_numpy(rng.normal(size=(6, 6))), torch.from_numpy(rng.random((6, 6)) < 0.5)
    mask[range(6), rng.permutation(6)] = True  # no row and no column is empty
    mask[range(6), rng.permutation(6)] = False  # no row and no column is full
    mask[:, 0], mask[0], mask[0, 5] = True, True, False
    for version in ("right", "M16", "M17", "M18", "M19", "M20", "M71"):
        made = np.array(call(page, "masks.compute", scores, mask, version)["weights"])
        expected = misread(version, scores, mask).numpy()
        seen = np.isfinite(made).all(1)  # for an empty row PyTorch gives 0, and the formula NaN
        assert seen.any()
        assert (expected[~seen] == 0).all()
        np.testing.assert_allclose(made[seen], expected[seen], atol=1e-12, err_msg=version)
        leaks = call(page, "masks.leaks", expected, mask)
        np.testing.assert_allclose(leaks, (expected * ~mask.numpy()).sum(1), atol=1e-12)


def test_masks_say_what_leaks(open_widget: Open) -> None:
    """Is the leak of M20 a complete row, and the right answer to an empty row an error in words?"""
    page = open_widget("masks")
    press(page, "nothing")
    assert "ValueError: the mask hides all keys from query 3" in note_of(page)
    assert np.isnan(read(matrix(page, "weights"))).all()
    press(page, "M20")
    assert "1.00 of 6 units" in note_of(page)
    np.testing.assert_allclose(read(matrix(page, "weights"))[2], 1 / 6, atol=0.00501)


def test_learning_follows_the_gradient_of_pytorch(open_widget: Open) -> None:
    """Are loss and gradients of the attention that learns in the page those of autograd, for repeated digits?"""
    page, rng = open_widget("learn"), np.random.default_rng(0)
    queries, keys = (torch.from_numpy(rng.normal(size=(8, 8))).requires_grad_() for _ in range(2))
    sequences = torch.from_numpy(rng.integers(4, size=(5, 8)))
    answers = sequences.flip(1)
    read_digits = F.scaled_dot_product_attention(queries[None], keys[None], torch.eye(8).double()[None])[0]  # (8, 8)
    same = sequences[:, None, :] == answers[:, :, None]  # (5, 8, 8)
    loss = -(read_digits * same).sum(-1).log().mean()
    loss.backward()
    made = call(page, "learn.compute", queries, keys, sequences, answers)
    assert made["loss"] == pytest.approx(loss.item(), abs=1e-10)
    np.testing.assert_allclose(made["gradQueries"], queries.grad, atol=1e-10)
    np.testing.assert_allclose(made["gradKeys"], keys.grad, atol=1e-10)


@pytest.mark.parametrize(
    ("task", "looks"),
    [("backwards", range(7, -1, -1)), ("next", [*range(1, 8), 0]), ("first", [0] * 8), ("asked", range(8))],
)
@pytest.mark.few(2)
def test_learning_finds_where_to_look(task: str, looks: list[int], open_widget: Open) -> None:
    """After 200 steps, does each row look at the right place, and are the reader's digits written as the task says?"""
    page = open_widget("learn")
    press(page, task)
    for _ in range(20):
        page.get_by_role("button", name="Train 10 steps").click()
    page.get_by_label("Your eight digits").fill("27182818")
    weights = read(matrix(page, "attention map"))
    np.testing.assert_array_equal(weights.argmax(axis=1), looks)
    written = "".join("27182818"[place] for place in looks)
    assert f"After 200 steps the model writes {written}: 8 of 8 digits are right." in note_of(page)
    page.get_by_label("Your eight digits").fill("271")
    assert note_of(page) == "Type eight digits."

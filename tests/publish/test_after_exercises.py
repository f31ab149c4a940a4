"""Are the answers on the pages after the exercises right, and is what these pages say of them true?"""

import contextlib
import io
import re

import jupytext
import pytest
import torch
import torch.nn.functional as F
from test_answers_in_the_book import CODE

from autograder.checks.attention.mistakes import MISTAKES
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of

FIRST = (ROOT / "book" / "after_1_attention.md").read_text(encoding="utf-8")
WHOLE = {  # the functions and classes of a page that are complete
    ("multihead", "after_2_multihead"): ("to_torch",),
    ("encoder", "after_3_encoder"): ("LayerNorm", "FeedForward", "rope"),
    ("vit", "after_4_vit"): ("patchify", "evaluate", "attention_rollout"),
    ("debugging", "after_5_debugging"): ("test_attention",),
}


@pytest.mark.parametrize(("stem", "page"), WHOLE)
def test_answers_of_the_page_pass_every_check(stem: str, page: str) -> None:
    """Does the page's code run, and does each complete answer pass every check of its exercise?"""
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in jupytext.read(ROOT / "book" / f"{page}.md").cells:
            if cell.cell_type == "code":
                exec(cell.source, namespace)
    exercises = exercises_of(stem)
    for name in WHOLE[stem, page]:
        assert exercises[name].failures(namespace[name], seed=0) == {}, name


@pytest.mark.deep
def test_test_with_a_line_less_catches_what_the_page_says() -> None:
    """Does each row of the table give the share that the exercise's checks find?"""
    page = ROOT / "book" / "after_5_debugging.md"
    first = next(cell.source for cell in jupytext.read(page).cells if cell.cell_type == "code")
    rows = re.findall(r"^\| (?:nothing: it )?(.+) \| `(.+)` \| `(.+)` \|$", page.read_text(encoding="utf-8"), re.M)
    assert len(rows) == 9
    for found, written, instead_of in rows:
        assert first.count(instead_of) == 1
        namespace: dict = {}
        exec(first.replace(instead_of, written), namespace)
        messages = exercises_of("debugging")["test_attention"].failures(namespace["test_attention"], seed=0)
        assert messages and all(found in str(message) for message in messages.values()), (written, found, messages)


def test_after_the_first_exercise_each_variant_is_what_the_page_says() -> None:
    """Do the page's answers pass every check, and do the wrong ones fail with the mistake next to them?"""
    namespace: dict = {"torch": torch}
    for block in CODE.findall(FIRST):
        exec(block, namespace)
    exercises = exercises_of("attention")
    numbers = {known.title: known.name for known in MISTAKES} | {"": ""}
    said = {name: numbers[title] for title, name in re.findall(r"^(?:# wrong: (.+)\n)?def (\w+)\(", FIRST, re.M)}
    in_torch = namespace["attention_in_torch"]
    del said["attention_in_torch"], said["refuse"]
    assert set(exercises) < set(said)
    assert {"M15", "M20"} < set(said.values())
    for name, mistake in said.items():
        asked = max((each for each in exercises if name.startswith(each)), key=len)
        failures = exercises[asked].failures(namespace[name], seed=0)
        assert bool(failures) == bool(mistake), (name, failures)
        assert not failures or any(str(failure).startswith(mistake) for failure in failures.values()), (name, failures)
    q, k, v = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(in_torch(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def test_table_after_the_first_exercise_holds_known_variants() -> None:
    """Is each row of the table a known variant of the mistake, with words from the code above it?"""
    rows = re.findall(r"^\| (.+) \| `(.+?)` \| `(.+?)` \|", FIRST, re.M)
    variants = {
        (known.title, *change) for known in MISTAKES for variant in known.variants for change in variant.changes
    }
    assert len(rows) >= 10
    assert set(rows) <= variants
    assert [words for _, words, _ in rows if not any(words in block for block in CODE.findall(FIRST))] == []

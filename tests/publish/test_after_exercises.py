"""Are the answers on the pages after exercises 2 to 5 those of the exercises?"""

import contextlib
import io
import re

import jupytext
import pytest

from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of

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

"""Are the answers that the pages after exercises 2 to 4 show the exercises' own?"""

import contextlib
import io

import jupytext
import pytest

from autograder.authoring.build import ROOT
from autograder.judging.exercise import exercises_of

WHOLE = {  # of the functions and classes of a page, those that leave nothing out
    ("multihead", "after_2_multihead"): ("to_torch",),
    ("encoder", "after_3_encoder"): ("LayerNorm", "FeedForward"),
    ("vit", "after_4_vit"): ("patchify", "evaluate", "attention_rollout"),
}


@pytest.mark.parametrize(("stem", "page"), WHOLE)
def test_answers_of_the_page_pass_every_check(stem: str, page: str) -> None:
    """Does the page's code run, and does what it shows whole pass every check of its exercise?"""
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in jupytext.read(ROOT / "book" / f"{page}.md").cells:
            if cell.cell_type == "code":
                exec(cell.source, namespace)
    exercises = exercises_of(stem)
    for name in WHOLE[stem, page]:
        assert exercises[name].failures(namespace[name], seed=0) == {}, name

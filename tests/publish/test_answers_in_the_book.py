"""Do chapters leave the exercises' answers to the reader, and is "After exercise N" correct?"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import ALL

from autograder.checks.attention.mistakes import MISTAKES
from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of

AFTER = sorted(ROOT.glob("book/after_*.md"))  # these pages show answers, and say so at the top
PAGES = sorted(set(ROOT.glob("book/*.md")) - set(AFTER))
CODE = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(?:---\n.*?^---\n|(?::[^\n]*\n)*)(.*?)^```$", re.M | re.S)
# A chapter may show half of an answer's expressions: a chapter has the smallest case, an answer the general case.
MOST = 0.5
TRIVIAL = 20  # in characters; any code may hold such a short expression, for example super().__init__()
SHOWN = {"multihead.matmul"}  # the first einsum of every textbook


def expressions(code: str) -> Iterator[str]:
    """Yield the expressions in some code, independent of the names of variables."""
    for node in ast.walk(ast.parse(code)):
        value = node.test if isinstance(node, ast.If) else getattr(node, "value", None)
        if isinstance(node, ast.stmt) and isinstance(value, (ast.BinOp, ast.Call, ast.Tuple, ast.UnaryOp, ast.Compare)):
            names: dict[str, str] = {}
            for each in (each for each in ast.walk(value) if isinstance(each, ast.Name)):
                each.id = names.setdefault(each.id, f"v{len(names)}")
            if len(expression := ast.unparse(value)) > TRIVIAL:
                yield expression


def answers() -> Iterator[tuple[str, str]]:
    """Yield the name and the source of every requested function and class that no chapter may show."""
    for stem in ALL.values():
        text = (ROOT / "solutions" / f"{stem}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            name = f"{stem}.{getattr(node, 'name', None)}"
            if name.partition(".")[2] in exercises_of(stem) and name not in SHOWN:
                yield name, ast.get_source_segment(text, node)


ANSWERS = dict(answers())


@cache
def expressions_of(page: str) -> set[str]:
    """Return the expressions in all code of a page."""
    return {each for block in CODE.findall(page) for each in expressions(re.sub(r"^[%!].*$", "", block, flags=re.M))}


def shown(answer: str, page: str) -> float:
    """Return the share of an answer that a page shows."""
    asked = set(expressions(answer))
    return len(asked & expressions_of(page)) / len(asked)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_chapter_shows_no_whole_answer(path: Path) -> None:
    """Does a page show at most the smallest case, and leave the complete answer to the exercise?"""
    page = path.read_text(encoding="utf-8")
    assert {name: share for name, answer in ANSWERS.items() if (share := shown(answer, page)) > MOST} == {}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_in_a_chapter_would_be_noticed(name: str) -> None:
    """If somebody pastes an answer into a chapter, is it noticed, also with renamed variables?"""
    pasted = re.sub(r"\b(scores|weights|queries|keys|values|grad_\w+|images|tokens)\b", r"my_\1", ANSWERS[name])
    chapter = (ROOT / "book" / "softmax.md").read_text(encoding="utf-8")
    assert shown(ANSWERS[name], chapter) <= MOST
    for fence in ("{code-cell} ipython3", "{code-cell} ipython3\n:tags: [hide-input]\n", "python"):
        assert shown(ANSWERS[name], f"{chapter}\n```{fence}\n{pasted}\n```\n") == 1


def test_after_the_first_exercise_each_variant_is_what_the_page_says() -> None:
    """Do the page's answers pass every check, and do the wrong ones fail with the mistake next to them?"""
    [page] = [path.read_text(encoding="utf-8") for path in AFTER if path.stem == "after_1_attention"]
    namespace: dict = {"torch": torch}
    for block in CODE.findall(page):
        exec(block, namespace)
    exercises = exercises_of("attention")
    numbers = {known.title: known.name for known in MISTAKES} | {"": ""}
    said = {name: numbers[title] for title, name in re.findall(r"^(?:# wrong: (.+)\n)?def (\w+)\(", page, re.M)}
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
    [page] = [path.read_text(encoding="utf-8") for path in AFTER if path.stem == "after_1_attention"]
    rows = re.findall(r"^\| (.+) \| `(.+?)` \| `(.+?)` \|", page, re.M)
    variants = {
        (known.title, *change) for known in MISTAKES for variant in known.variants for change in variant.changes
    }
    assert len(rows) >= 10
    assert set(rows) <= variants
    assert [words for _, words, _ in rows if not any(words in block for block in CODE.findall(page))] == []


def test_after_the_first_exercise_numbers_are_ours() -> None:
    """Does the page's code give the numbers on the page?"""
    row = torch.tensor([1000.1, 1001.3, 1002.7])
    exact = row.double().softmax(-1)
    off = [float(abs(found / exact - 1).max()) for found in ((row - row.logsumexp(-1)).exp(), row.softmax(-1))]
    np.testing.assert_allclose(off, [3e-5, 7e-8], rtol=0.2)  # the page says: above 1e-5, and below 1e-7
    scores, mask = torch.tensor([2.0, 1.0, 0.0]), torch.ones(3, dtype=torch.bool)
    assert scores.masked_fill(mask, torch.tensor(-1e5)).softmax(-1).tolist() == pytest.approx([1 / 3] * 3)
    assert scores.masked_fill(mask, -torch.inf).softmax(-1).isnan().all()
    with pytest.raises(RuntimeError, match="cannot be converted to type c10::Half without overflow"):
        scores.half().masked_fill(mask, torch.tensor(-1e5))
    for rows, gone in ((torch.rand(2, 2, 4), 6), (torch.rand(2, 4, 2).transpose(1, 2), 0)):  # a view, and a copy
        exists = torch.arange(4) < torch.tensor([2, 2, 3, 3])[:, None]
        rows.reshape(4, 4)[~exists] = -1e6
        assert int((rows == -1e6).sum()) == gone

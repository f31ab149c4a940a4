"""Do chapters leave the exercises' answers to the reader?"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ALL

from autograder.imports import ROOT
from autograder.judge.exercise import exercises_of

# The pages after an exercise show answers, and say so at the top.
PAGES = sorted(set(ROOT.glob("book/*.md")) - set(ROOT.glob("book/after_*.md")))
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

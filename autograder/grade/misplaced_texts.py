"""Find written answers outside their cells: below the question, else anywhere, and then a person is asked."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.notebooks import NAMED_PICTURE
from autograder.recognition import LABEL, definitions, in_words, is_answer, name_of, parsed

FEW = 4  # the fewest words of a text that may be the answer to a question elsewhere
MAX_PICTURES = 20  # pictures of an answer that are named
MAX_SHOWN = 5000  # characters that are shown of texts that may be the answer
# The signs around a comment, a string or a printed string
SIGNS = re.compile(r"^(?:print\()?[#\s'\"]+|['\"][)\s]*$", re.M)


@dataclass
class Item:
    """A cell of the notebook that is graded."""

    node: NotebookNode
    place: int | None = None  # the released cell's place; None for the student's own cell
    after: int = -1  # the place of the released cell before the student's own cell

    @property
    def own(self) -> bool:
        """Whether the student added it."""
        return self.place is None


def place_texts(
    items: list[Item], released: Sequence[NotebookNode], receipt: list[str], questions: list[str]
) -> list[Item]:
    """Put the text below a question into its empty cell; ask a person about code there, or about a text elsewhere.

    Args:
        items: The cells of the notebook that is graded.
        released: The cells as students got them.
        receipt: The list to which repairs are added.
        questions: The list to which questions for a person are added.

    Returns:
        The cells, without those that became part of an answer.
    """
    answers = [item for item in items if not item.own and is_answer(released[item.place])]
    answers = [item for item in answers if item.node.cell_type == "markdown"]
    own = [item for item in items if item.own and item.node.source.strip()]
    used: set[int] = set()
    left: list[tuple[Item, list[Item]]] = []  # the answers that are still empty, and the code below them
    for item in filter(lambda item: _is_empty(item, released), answers):
        below = [each for each in own if each.after in (item.place - 1, item.place)]
        texts = list(filter(_is_text, below))
        if texts:
            item.node.source = _joined([*_pictures_of(item), *map(_words_of, texts)])
            name = name_of(released[item.place])
            receipt.append(f"The cell {name} was empty or missing; the text below its question was taken.")
            used |= set(map(id, texts))
        else:
            left.append((item, below))
    texts = [item for item in own if left and id(item) not in used and _is_text(item)]
    texts = [item for item in texts if len(re.findall(r"\w+", _words_of(item))) >= FEW]
    written = [(item, item.node.source) for item in answers]
    for item, below in left:
        # A student may have written several answers into one cell.
        names = _names_of(item, released)
        found = [pair for pair in written if _begins_with(pair[1], names)]
        found = found or [(each, _words_of(each)) for each in below or texts]
        if found:
            head = "[The cell of the answer is empty. Is this text, found elsewhere, the answer?]"
            pictures = _pictures_of(item)
            item.node.source = _joined([head, *pictures, *(text for _, text in found)])
            where, state = _where(found[0][0], released), "holds a picture only" if pictures else "is empty"
            questions.append(f"Text was found {where}; the answer cell {names[0]} {state}. Is it the answer?")
    return [item for item in items if id(item) not in used or item.node.cell_type == "code"]


def _names_of(item: Item, released: Sequence[NotebookNode]) -> list[str]:
    """Return the names of a question: its id, and its number in the text above."""
    label = LABEL.search(released[item.place - 1].source)
    return [name_of(released[item.place]), *([label[1]] if label else [])]


def _is_empty(item: Item, released: Sequence[NotebookNode]) -> bool:
    """Whether the cell of an answer has no words except the released ones. It may have a picture."""
    text = NAMED_PICTURE.sub("", item.node.source)
    return _letters(text) in ("", _letters(released[item.place].source))


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def _is_text(item: Item) -> bool:
    """Whether a cell is a text: Markdown, or code that is prose, or that has only comments, strings and printed strings."""
    if item.node.cell_type == "markdown":
        return True
    tree = parsed(item.node.source)
    return not definitions(item.node.source) if tree is None else all(map(_is_string, tree.body))


def _is_string(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    is_print = isinstance(value, ast.Call) and ast.unparse(value.func) == "print"
    return all(isinstance(each, ast.Constant) for each in (value.args if is_print else [value]))


def _words_of(item: Item) -> str:
    """Return the words of a cell, without the signs of comments and strings."""
    source = item.node.source
    return (source if item.node.cell_type == "markdown" else SIGNS.sub("", source)).strip()


def _begins_with(text: str, names: Sequence[str]) -> bool:
    """Whether a line of a text begins with one of the names of a question."""
    pattern, signs = "|".join(map(re.escape, names)), r"[^\w\n]*+"  # possessive: linear in a line of signs
    return bool(re.search(rf"^{signs}(?:question|answer|q|a)?{signs}(?:{pattern})(?![\w.]*\d)", text, re.I | re.M))


def _pictures_of(item: Item) -> list[str]:
    return NAMED_PICTURE.findall(item.node.source)[:MAX_PICTURES]


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(texts)[:MAX_SHOWN]


def _where(item: Item, released: Sequence[NotebookNode]) -> str:
    """Say where a student's text is."""
    if not item.own:
        return f"in {in_words(released[item.place])}"
    if item.after < 0:
        return "at the top"
    end = item.after == len(released) - 1
    return "at the end of the notebook" if end else f"after {in_words(released[item.after])}"

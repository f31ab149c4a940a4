"""Find written answers outside their cells: below the question, else anywhere, and then a person is asked."""

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.notebooks import NAMED_PICTURE
from autograder.recognition import LABEL, definitions, in_words, is_answer, name_of, parsed

# The fewest words that may be an answer: of a text, of code after the first question, of other code
FEW, SOME, MANY = 4, 8, 20
MAX_PICTURES = 20  # pictures of an answer that are named
MAX_SHOWN = 5000  # characters that are shown of texts that may be the answer


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
    """Put the text below a question into its empty cell; ask a person about a text elsewhere.

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
    empty = [item for item in answers if _is_empty(item, released)]
    texts = (
        [(item, text) for item in items if _is_students(item, released) and (text := _words_of(item.node))]
        if empty
        else []
    )
    used: set[int] = set()
    for item in empty:
        below = [(own, text) for own, text in texts if own.own and own.after in (item.place - 1, item.place)]
        below = [(own, text) for own, text in below if _is_only_words(own.node)]
        if below:
            item.node.source = _joined([*_pictures_of(item), *(text for _, text in below)])
            name = name_of(released[item.place])
            receipt.append(f"The cell {name} was empty or missing; the text below its question was taken.")
            used |= {id(own) for own, _ in below}
    first = min((item.place for item in answers), default=0) - 1
    texts = [(own, text) for own, text in texts if id(own) not in used and _may_be_answer(own, text, first)]
    answered = [(item, item.node.source) for item in answers]
    for item in filter(lambda item: _is_empty(item, released), empty):
        # A student may have written several answers into one cell.
        if found := [pair for pair in answered if _begins_with(pair[1], _names_of(item, released))] or texts:
            head = "[The cell of the answer is empty. Is this text, found elsewhere, the answer?]"
            pictures = _pictures_of(item)
            item.node.source = _joined([head, *pictures, *(text for _, text in found)])
            where, state = _where(found[0][0], released), "holds a picture only" if pictures else "is empty"
            name = name_of(released[item.place])
            questions.append(f"Text was found {where}; the answer cell {name} {state}. Is it the answer?")
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


def _is_students(item: Item, released: Sequence[NotebookNode]) -> bool:
    """Whether a cell may hold words of the student outside the written answers."""
    return item.own or (is_answer(released[item.place]) and item.node.cell_type == "code")


def _words_of(cell: NotebookNode) -> str:
    """Return the words of a cell: a text, prose in a code cell, or code's comments and texts outside functions."""
    if cell.cell_type == "markdown":
        return cell.source.strip()
    if parsed(cell.source) is None:
        return "" if definitions(cell.source) else cell.source.strip()
    tokens = [token for token in _tokens(cell.source) if token.line.startswith(("#", "print(", '"', "'"))]
    words = [token for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
    return "\n".join(token.string.strip("# '\"\n") for token in words)


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return []  # the cell has lines for IPython


def _is_only_words(cell: NotebookNode) -> bool:
    """Whether a cell is a text, or code that does nothing: comments, texts or prose."""
    tree = parsed(cell.source) if cell.cell_type == "code" else None
    return tree is None or all(type(getattr(each, "value", None)).__name__ == "Constant" for each in tree.body)


def _may_be_answer(item: Item, text: str, first: int) -> bool:
    """Whether a text that is not below a question has enough words. Code after the first question needs fewer words."""
    least = FEW if _is_only_words(item.node) else SOME if item.own and item.after >= first else MANY
    return len(re.findall(r"\w+", text)) >= least


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

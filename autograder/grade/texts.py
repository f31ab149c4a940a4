"""Find written answers that are not in their cells: around the question, at the end, in comments, in other cells."""

import ast
import io
import re
import tokenize
from collections.abc import Sequence

from nbformat import NotebookNode

from autograder.grade.layout import Item
from autograder.notebooks import NAMED_PICTURE
from autograder.recognition import LABEL, definitions, in_words, is_answer, name_of, parsed

FEW, MANY = 8, 20  # the fewest words with which a text, or comments in code, may answer a question in a distant cell
NOT_RUN = "[Not run: "  # begins a text that holds a student's code
MAX_PICTURES = 20  # pictures of an answer that are named
MAX_SHOWN = 5000  # characters that are shown of texts that may be the answer


def place_texts(
    items: list[Item], released: Sequence[NotebookNode], receipt: list[str], questions: list[str]
) -> list[Item]:
    """Put texts that answer a question into its empty cell, so that a person reads them; ask a person if in doubt.

    Args:
        items: The cells of the notebook that is graded.
        released: The cells as students got them.
        receipt: The list to which repairs are added.
        questions: The list to which questions for a person are added.

    Returns:
        The cells, without those that became part of an answer.
    """
    empty = [item for item in items if _is_text_answer(item, released) and _is_empty(item, released)]
    if not empty:
        return items
    texts = [(item, text) for item in items if (text := _text_of(item, released))]
    used: set[int] = set()
    first = min(item.place for item in items if _is_text_answer(item, released)) - 1
    for item in empty:
        name = name_of(released[item.place])
        names = _names_of(item, released)
        near = {id(other) for other, _ in texts if _is_near(other, item)}
        fitting = [pair for pair in texts if id(pair[0]) in near or _begins_with(pair[1], names)]
        if fitting:
            where = "below the question" if near else "elsewhere in the notebook"
            head = f"[Found {where}; the cell of the answer was empty.]"
            item.node.source = _joined(head, [*_pictures_of(item), *(text for _, text in fitting)])
            receipt.append(f"The cell {name} was empty; text that was found {where} was put into it.")
            used |= {id(other) for other, _ in fitting if other.own and other.node.cell_type == "markdown"}
            texts = [pair for pair in texts if id(pair[0]) not in used]
    answered = [(each, each.node.source) for each in items if _is_text_answer(each, released)]
    for item in empty:
        name = name_of(released[item.place])
        if not _is_empty(item, released):
            continue
        rest = [pair for pair in texts if id(pair[0]) not in used and _may_be_answer(*pair, first)]
        # A student may have written all answers into one cell.
        rest = [pair for pair in answered if _begins_with(pair[1], _names_of(item, released))] or rest
        if rest:
            head = "[The cell of the answer is empty. Is this text, found elsewhere, the answer?]"
            pictures = _pictures_of(item)
            item.node.source = _joined(head, [*pictures, *(text for _, text in rest)])
            where, state = _where(rest[0][0], released), "holds a picture only" if pictures else "is empty"
            questions.append(f"Text was found {where}; the answer cell {name} {state}. Is it the answer?")
    return [item for item in items if id(item) not in used]


def _is_near(other: Item, item: Item) -> bool:
    """Whether a student's cell of words is below the question of an answer, or below the answer."""
    near = other.own and other.anchor in (item.place - 1, item.place)
    return near and (other.node.cell_type == "markdown" or _is_only_words(other.node.source))


def _names_of(item: Item, released: Sequence[NotebookNode]) -> list[str]:
    """Return the names of a question: its id, and its number in the text above."""
    label = LABEL.search(released[item.place - 1].source)
    return [name_of(released[item.place]), *([label[1]] if label else [])]


def _is_text_answer(item: Item, released: Sequence[NotebookNode]) -> bool:
    return not item.own and is_answer(released[item.place]) and item.node.cell_type == "markdown"


def _is_empty(item: Item, released: Sequence[NotebookNode]) -> bool:
    """Whether the cell of an answer has no words except the released ones. It may have a picture."""
    text = NAMED_PICTURE.sub("", item.node.source)
    return _letters(text) in ("", _letters(released[item.place].source))


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def _text_of(item: Item, released: Sequence[NotebookNode]) -> str:
    """Return the words that a student wrote in a cell that is not a written answer."""
    if item.node.cell_type == "markdown":
        text = item.node.source.strip() if item.own else ""
        return words_in_code(text.partition("\n\n")[2]) if text.startswith(NOT_RUN) else text
    if not (item.own or is_answer(item.node)):
        return ""
    text = words_in_code(item.node.source)
    known = "" if item.own else words_in_code(released[item.place].source)
    return "\n".join(line for line in text.splitlines() if line.strip() and line not in known)


def words_in_code(source: str) -> str:
    """Return the comments of a code cell, and the strings that it prints or does not use; all of it if it is prose."""
    tree = parsed(source)
    if tree is None:
        prose = not definitions(source) and len(re.findall(r"[^\W\d_]{2,}", source)) > 3 * len(
            re.findall(r"[=(\[]", source)
        )
        if prose:
            return source.strip()
        return "\n".join(line.strip()[1:].strip() for line in source.splitlines() if line.strip()[:1] == "#")
    words = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                words.append((token.start[0], token.string.lstrip("# ")))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # the cell has lines for IPython
    for statement in tree.body:
        value = getattr(statement, "value", None)
        parts = [value, *(value.args if isinstance(value, ast.Call) else ())]
        texts = [part.value for part in parts if isinstance(getattr(part, "value", None), str)]
        if type(statement).__name__ == "Expr":
            words += [(statement.lineno, text.strip()) for text in texts]
    return "\n".join(text for _, text in sorted(words))


def _is_only_words(source: str) -> bool:
    """Whether a code cell does nothing: it has only comments, strings or prose."""
    tree = parsed(source)
    kinds = ("Constant", "JoinedStr")
    return (
        (not definitions(source))
        if tree is None
        else all(
            type(getattr(each, "value", None)).__name__ in kinds and type(each).__name__ == "Expr" for each in tree.body
        )
    )


def _begins_with(text: str, names: Sequence[str]) -> bool:
    """Whether a line of a text begins with one of the names of a question."""
    pattern, signs = "|".join(map(re.escape, names)), r"[^\w\n]*+"  # possessive: linear in a line of signs
    return bool(re.search(rf"^{signs}(?:question|answer|q|a)?{signs}(?:{pattern})(?![\w.]*\d)", text, re.I | re.M))


def _may_be_answer(item: Item, text: str, first: int) -> bool:
    """Whether a text that is far from an empty answer may be the answer: it has enough words.

    A text after the first question needs fewer words.
    """
    if not item.own:  # comments within functions do not count
        text = "\n".join(re.findall(r"^#.*", item.node.source, re.M))
    count = len(re.findall(r"\w+", text))
    if item.node.cell_type == "code":
        return count >= (FEW if item.own and item.anchor >= first else MANY)
    return count >= (4 if item.anchor >= first else FEW)


def _pictures_of(item: Item) -> list[str]:
    return NAMED_PICTURE.findall(item.node.source)[:MAX_PICTURES]


def _joined(head: str, texts: Sequence[str]) -> str:
    return "\n\n".join([head, *texts])[:MAX_SHOWN]


def _where(item: Item, released: Sequence[NotebookNode]) -> str:
    """Say where a student's cell is."""
    if not item.own:
        return f"in {in_words(released[item.place])}"
    if item.anchor < 0:
        return "at the top"
    end = item.anchor == len(released) - 1
    return "at the end of the notebook" if end else f"after {in_words(released[item.anchor])}"

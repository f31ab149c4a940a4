"""Join the parts of a function that was split into several cells."""

import ast
import codeop
import textwrap
from collections.abc import Collection, Sequence

from autograder.notebooks import Cell
from autograder.recognition import MAGIC, definitions, parsed

MAX_READ = 1_000_000  # characters that are parsed as Python to find which parts belong together
MAX_TRIED = 5  # earlier cells that a part may continue
MAX_ASKED = 5  # parts about which a person is asked


def join_halves(
    submitted: Sequence[Cell], texts: Collection[str], receipt: list[str], questions: list[str]
) -> list[Cell]:
    """Join a cell that is no Python by itself with a cell before it that may go on, if the two are Python together.

    Args:
        submitted: The cells of a notebook.
        texts: The texts of the released cells, which are no parts.
        receipt: The list to which repairs are added.
        questions: The list to which questions about parts without a beginning are added.
    """
    cells: list[Cell] = []
    may_go_on: list[int] = []  # the places of the student's cells that end in a function or a class, or are no Python
    left = MAX_READ
    for cell in submitted:
        cells.append(cell)
        first = next((line for line in cell.source.splitlines() if line.strip()), "")
        begins_inside = first[:1] in (" ", "\t") and parsed(cell.source) is None
        if not cell.source.strip() or cell.source.strip() in texts or not (cell.kind == "code" or begins_inside):
            continue
        for place in reversed(may_go_on[-MAX_TRIED:]) if parsed(cell.source) is None else ():
            head = cells[place]
            whole = f"{head.source}\n{cell.source}"
            left -= len(whole)
            if left > 0 and (begins_inside or parsed(head.source) is None) and _belong_together(whole, cell.source):
                cells[place] = Cell("code", whole, head.names + cell.names, head.checksum)
                cells.pop()
                if not _may_go_on(whole):
                    may_go_on.remove(place)
                receipt.append("A cell of code was split; its halves were joined.")
                break
        else:
            may_go_on += [len(cells) - 1] * _may_go_on(cell.source)
            if begins_inside and not _is_start(textwrap.dedent(cell.source)) and len(questions) < MAX_ASKED:
                questions.append(
                    f'A cell begins in the middle of a function ("{" ".join(first.split())[:60]}"), and the part before '
                    "it was not found. To which answer does it belong?"
                )
    return cells


def _belong_together(whole: str, part: str) -> bool:
    """Whether a part makes a text Python, or its beginning, and no definition of the part becomes part of a string."""
    return _is_start(whole) and definitions(part).keys() <= definitions(whole).keys()


def _is_start(source: str) -> bool:
    """Whether a text is Python, or becomes Python if more lines follow."""
    try:
        codeop.compile_command(MAGIC.sub(r"\1pass", source), symbol="exec")
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _may_go_on(source: str) -> bool:
    """Whether a cell is no Python by itself, or ends in a class, or in a function that does not end by returning."""
    tree = parsed(source)
    if tree is None:
        return True
    last = tree.body[-1] if tree.body else None
    is_open = isinstance(last, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return is_open and not isinstance(last.body[-1], (ast.Return, ast.Raise))

"""Join the halves of a function that was split into two cells."""

import ast
import codeop
import textwrap
from collections.abc import Collection, Sequence

from autograder.notebooks import Cell
from autograder.recognition import definitions, parsed

MAX_READ = 1_000_000  # characters that are parsed as Python to find which halves belong together
MAX_ASKED = 5  # halves about which a person is asked


def join_halves(
    submitted: Sequence[Cell], texts: Collection[str], receipt: list[str], questions: list[str]
) -> list[Cell]:
    """Join a cell that is no Python by itself, or that begins inside a function, with a cell before it.

    The cell before it is the nearest one that is no Python by itself, or else the nearest one.

    Args:
        submitted: The cells of a notebook.
        texts: The texts of the released cells, which are no halves.
        receipt: The list to which repairs are added.
        questions: The list to which questions about halves without a beginning are added.
    """
    cells: list[Cell] = []
    last: list[int] = []  # the place of the student's last cell of code
    broken: list[int] = []  # the places of the student's cells that are no Python
    left = MAX_READ
    for cell in submitted:
        cells.append(cell)
        if not cell.source.strip() or cell.source.strip() in texts or not (cell.kind == "code" or _begins_inside(cell)):
            continue
        for place in dict.fromkeys(broken[-1:] + last):
            head = cells[place]
            left -= len(head.source) + len(cell.source)
            if left > 0 and _belong_together(head.source, cell):
                cells.pop()
                cells[place] = Cell("code", f"{head.source}\n{cell.source}", head.names + cell.names, head.checksum)
                if place in broken and parsed(cells[place].source) is not None:
                    broken.remove(place)
                receipt.append("A cell of code was split; its halves were joined.")
                break
        else:
            tree = parsed(cell.source)
            last = [len(cells) - 1] if tree is None or tree.body else last  # a cell of comments may be in the middle
            broken += last if tree is None else []
            if _begins_inside(cell) and not _runs_without_indent(cell.source) and len(questions) < MAX_ASKED:
                line = " ".join(next(line for line in cell.source.splitlines() if line.strip()).split())[:60]
                questions.append(
                    f'A cell begins in the middle of a function ("{line}"), and the part before it was not found. '
                    "To which answer does it belong?"
                )
    return cells


def _belong_together(head: str, cell: Cell) -> bool:
    whole = f"{head}\n{cell.source}"
    if not definitions(cell.source).keys() <= definitions(whole).keys():
        return False  # a definition of the cell would become part of a string
    if parsed(head) is None:
        middle = parsed(cell.source) is None and _is_beginning(whole)
        return parsed(whole) is not None or _begins_inside(cell) or middle
    return _begins_inside(cell) and (parsed(whole) is not None or _is_beginning(whole)) and _may_go_on(head)


def _is_beginning(source: str) -> bool:
    """Whether more lines could make a text valid Python."""
    try:
        return codeop.compile_command(source, symbol="exec") is None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False


def _may_go_on(source: str) -> bool:
    """Whether a cell ends in a class, or in a function that does not end by returning."""
    last = parsed(source).body[-1:]
    is_open = last and isinstance(last[0], (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return bool(is_open) and not isinstance(last[0].body[-1], (ast.Return, ast.Raise))


def _begins_inside(cell: Cell) -> bool:
    """Whether a cell begins inside a block: its first line is indented, and it is not valid Python."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return first[:1] in (" ", "\t") and parsed(cell.source) is None


def _runs_without_indent(source: str) -> bool:
    """Whether IPython can run an indented cell: without its indent it is valid Python and has no `return`."""
    tree = parsed(textwrap.dedent(source))
    return tree is not None and not any(isinstance(each, ast.Return) for each in tree.body)

"""Recognise an assignment's cells in a file: by their ids, by what they define, by their texts."""

import ast
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from nbformat import NotebookNode

from autograder.cells import grade_id, is_locked, is_test
from autograder.notebooks import Cell

MAX_PARSED = 300_000  # characters of a cell that is parsed as Python; a longer one is searched line by line
MAX_QUOTED = 50  # characters of a released cell's first line that a message quotes
LABEL = re.compile(r"\*\*(\d+\.\d+)")  # a question's number in its text
HEADING = re.compile(r"^#{1,6} +(.+)", re.M)
# A definition or an assignment. Possessive, so that the time is linear in a line of spaces.
LINE = re.compile(r"^(?:(?:async\s++)?def|class)\s++(\w++)|^(\w++)(?:\s*+:[^=\n]++)?\s*+=(?!=)", re.M)
IMPORTS = re.compile(r"^(?:import|from\s+\S+\s+import)\s+([^#\n]+)", re.M)
# Lines that IPython understands and Python does not
MAGIC = re.compile(r"^([ \t]*)([%!?].*|\w+\s*=\s*[%!].*|[\w.]+\?{1,2}[ \t]*)$", re.M)
# The fields of a statement that hold inner statements. These run in the same scope, unlike the body of a function.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def is_answer(cell: NotebookNode) -> bool:
    """Whether students fill in a released cell."""
    return "nbgrader" in cell.metadata and not is_locked(cell)


def name_of(cell: NotebookNode) -> str:
    """Return the name of a released cell: its grade id, or its cell id."""
    return grade_id(cell) or cell.id


def in_words(cell: NotebookNode) -> str:
    """Describe a released cell for people: by its question, its heading, the name that it defines, or its first words."""
    name, text = grade_id(cell), cell.source
    if name == "setup":
        return "the set-up cell"
    defined = (
        re.search(rf"^(?:def|class) ({name or '[a-zA-Z0-9_]+'})\b", text, re.M) if cell.cell_type == "code" else None
    )
    if defined:
        return f"the code cell that defines {defined[1]}"
    if name:
        return f"the cell {name}"
    if cell.cell_type == "code":
        return f'the code cell that begins "{_first_of(text)}"'
    label, heading = LABEL.search(text), HEADING.search(text)
    if label:
        return f"question {label[1]}"
    return f'the text "{heading[1].strip() if heading else _first_of(re.sub("<[^>]*>|[*_`]", "", text))}"'


def _first_of(text: str) -> str:
    line = next(filter(None, map(str.strip, text.splitlines())), "")
    return line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED].rstrip()} …"


def parsed(source: str) -> ast.Module | None:
    """Parse a cell as Python without its IPython lines; None if it is not Python, or longer than MAX_PARSED."""
    if len(source) > MAX_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the student's code may cause warnings, for example about a backslash
            return ast.parse(MAGIC.sub(r"\1pass", source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=256)  # each step of the repair asks about the same cells, and most are unchanged
def definitions(source: str) -> Mapping[str, bool]:
    """Return the names that a code cell defines outside functions, by def, class, import or assignment.

    Returns:
        For each name, whether it is written. A function whose body only raises NotImplementedError is not written. The
        mapping is kept, so no caller may change it.
    """
    tree = parsed(source)
    if tree is not None:
        return _names_of(tree)
    names = dict.fromkeys((name for pair in LINE.findall(source) for name in pair if name), True)
    for imported in IMPORTS.findall(source):
        names |= {part.split()[-1].strip("() "): True for part in imported.split(",") if part.strip()}
    return names


def names_defined(cell: Cell) -> Mapping[str, bool]:
    """Return the names that a cell defines; in a text only functions and classes count, because prose has no such lines."""
    if cell.kind == "code":
        return definitions(cell.source)
    names = re.findall(r"^(?:def|class)\s+(\w+)\s*[(:]", cell.source, re.M)
    known = definitions(cell.source) if names else {}
    return {name: known.get(name, True) for name in names}


def _names_of(tree: ast.AST) -> dict[str, bool]:
    names: dict[str, bool] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[node.name] = names.get(node.name, False) or not _is_stub(node)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0]: True for alias in node.names}
        elif isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            names |= {each.id: True for each in stored if isinstance(each.ctx, ast.Store)}
        for block in BLOCKS:
            waiting += getattr(node, block, [])
    return names


def answers_in(cells: Sequence[NotebookNode]) -> tuple[list[list[str]], dict[str, int]]:
    """Find the definitions of answers in the code cells of a repaired notebook.

    Returns:
        For each cell the answers that it defines; and for each answer the index of the cell whose definition counts: the
        answer's own cell if it defines the answer, else the last cell that does.
    """
    names = {grade_id(cell) for cell in cells if is_answer(cell)}
    defined, counts, own = [], dict[str, int](), set[str]()
    for index, cell in enumerate(cells):
        found = {} if is_test(cell) else definitions(cell.source)
        written = [name for name, is_written in found.items() if is_written and name in names]
        own |= {grade_id(cell)} & set(written)
        counts |= {name: index for name in written if name == grade_id(cell) or name not in own}
        defined.append(written)
    return defined, counts


def _is_stub(node: ast.AST) -> bool:
    """Whether a function does nothing or only raises NotImplementedError. A class is a stub if all its methods are."""
    if isinstance(node, ast.ClassDef):
        methods = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return bool(methods) and all(map(_is_stub, methods))
    return all(map(_does_nothing, node.body))


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def names_in(release: NotebookNode) -> dict[str, bool]:
    """Return the names of an assignment's cells, and whether each is an answer."""
    return {grade_id(cell): is_answer(cell) for cell in release.cells if "nbgrader" in cell.metadata}


def other_assignment(
    submitted: list[Cell], here: Mapping[str, bool], others: Mapping[str, Mapping[str, bool]]
) -> str | None:
    """Return the assignment that a notebook belongs to, if it was submitted for another one.

    Args:
        submitted: The notebook's cells.
        here: The cell names of the assignment for which it was submitted, from `names_in`.
        others: The cell names of the other assignments, by the assignments' names.

    Returns:
        The other assignment with the most answers in the notebook, if the notebook has no answer of `here` or only a
        few; else None.
    """
    held = {name for cell in submitted for name in cell.names}
    held |= {name for cell in submitted if cell.kind == "code" for name in definitions(cell.source)}
    best, most = None, 0
    for assignment, names in others.items():
        theirs = {name for name, answer in names.items() if answer} - here.keys()
        ours = {name for name, answer in here.items() if answer} - names.keys()
        count, few = len(theirs & held), len(ours & held)
        if count > most and (few == 0 or (4 * few <= len(ours) and 2 * count >= len(theirs) and count > 3 * few)):
            best, most = assignment, count
    return best


def code_in(notebook: NotebookNode) -> frozenset[str]:
    """Return the texts of a notebook's code cells. They identify a chapter, whose prose has other links in each course."""
    return frozenset(cell.source.strip() for cell in notebook.cells if cell.cell_type == "code")


def chapter_of(submitted: list[Cell], here: Mapping[str, bool], chapters: Mapping[str, Collection[str]]) -> str | None:
    """Return the chapter of the book that was submitted instead of an exercise; None if it is none.

    Chapters define the same names as exercises, and some have the name of an exercise's file.

    Args:
        submitted: The notebook's cells.
        here: The cell names of the exercise, from `names_in`. A chapter has no cell with such a name.
        chapters: The code cells of each chapter, from `code_in`. The notebook has at least half of them unchanged.
    """
    if any(not here.keys().isdisjoint(cell.names) for cell in submitted):
        return None
    code = {cell.source.strip() for cell in submitted if cell.kind == "code"}
    shares = {name: len(code & theirs) / max(1, len(theirs)) for name, theirs in chapters.items()}
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and shares[best] >= 0.5 else None

"""Join the halves of a function that was split in two, wherever they are in the notebook."""

import ast
import re
import textwrap
from collections.abc import Collection, Sequence, Set
from itertools import combinations, islice, takewhile

from autograder.notebooks import Cell
from autograder.recognition import definitions, parsed

MAX_READ = 1_000_000  # characters that are parsed as Python to find which halves belong together
NEAR = 6  # number of the nearest halves that are tried with a cell
MAX_HALVES = 30  # largest number of halves, and of cells with a syntax error, that are joined in a notebook
MAX_ASKED = 5  # halves about which a person is asked
MAX_CUTS = 40  # places at which a cell is split to see whether it holds half a function
PIECES = 3  # halves that are joined with a cell at once: it may have been split three times
STATEMENT = re.compile(r"^(?:(?:async +)?def |class |import |from |@)", re.M)  # a statement at the outermost level
FUNCTION = re.compile(r"(?:def|class)\s+\w+\s*[(:]")
AFTER_BLANK = re.compile(r"\n(?=[ \t]*\n[ \t]+\S)")
RETURNS = (ast.Return, ast.Raise)


class Halves:
    """Finds the halves of functions that were split, and joins them."""

    def __init__(self, texts: Collection[str], answers: Set[str]) -> None:
        """Prepare to join.

        Args:
            texts: The texts of the released cells, which are not halves.
            answers: The names of the answers.
        """
        self.texts, self.answers, self.left = texts, answers, MAX_READ
        self.receipt: list[str] = []
        self.questions: list[str] = []

    def join(self, submitted: Sequence[Cell]) -> list[Cell]:
        """Return the cells; a function that was split is complete again in the cell where it begins."""
        cells = [part for cell in submitted for part in self._parts_of(cell)]
        own = [index for index, cell in enumerate(cells) if self._is_own(cell)]
        torn = [index for index in own if _begins_inside(cells[index].source)]
        heads = [index for index in own if index not in set(torn)]
        gone: set[int] = set()
        copied: set[str] = set()

        def put_together(head: int, rest: Sequence[int]) -> None:
            parts = [cells[index] for index in (head, *rest)]
            copied.update(part.source.strip() for part in parts)
            names = [name for part in parts for name in part.names]
            cells[head] = Cell("code", "\n".join(part.source for part in parts), names, parts[0].checksum)
            gone.update(rest)
            self.receipt.append("A cell of code was split; its halves were joined.")

        broken = (index for index in heads if parsed(cells[index].source) is None)
        for head in islice(broken, MAX_HALVES):
            if head not in gone and (rest := self._rest_of(head, torn[:MAX_HALVES], cells, gone)):
                put_together(head, rest)
        for half in torn[:MAX_HALVES]:
            if half not in gone and cells[half].source.strip() not in copied:
                head = self._beginning_of(half, [index for index in heads if index not in gone], cells)
                if head is not None:
                    put_together(head, [half])
        copies = {index for index in own if index not in gone and cells[index].source.strip() in copied}
        if copies:
            self.receipt.append(f"{len(copies)} copies of the halves of a cell were left out.")
        left_out = gone | copies
        unjoined = (index for index in torn if index not in left_out and cells[index].kind == "code")
        questionable = (index for index in unjoined if not _runs_without_indent(cells[index].source))
        for index in islice(questionable, MAX_ASKED):
            self._ask_about(index, cells, own)
        return [cell for index, cell in enumerate(cells) if index not in left_out]

    def _is_own(self, cell: Cell) -> bool:
        """Whether a cell holds a student's code, even if it became a text cell."""
        text = cell.source.strip()
        if not text or text in self.texts:
            return False
        return cell.kind == "code" or FUNCTION.match(text) is not None or _begins_inside(cell.source)

    def _parts_of(self, cell: Cell) -> list[Cell]:
        """Split a cell that holds half a function before or after complete functions."""
        if not self._is_own(cell) or parsed(cell.source) is not None:
            return [cell]
        if _begins_inside(cell.source):
            for match in islice(STATEMENT.finditer(cell.source), MAX_CUTS):
                if self._reads(rest := cell.source[match.start() :]):
                    return [Cell("code", cell.source[: match.start()]), Cell("code", rest, cell.names, cell.checksum)]
        for match in islice(AFTER_BLANK.finditer(cell.source), MAX_CUTS):
            before, rest = cell.source[: match.start()], cell.source[match.end() :]
            # If the first part may go on, the rest belongs to it.
            if not STATEMENT.search(rest) and self._reads(before) and definitions(before) and not _may_go_on(before):
                return [Cell("code", before, cell.names, cell.checksum), Cell("code", rest)]
        return [cell]

    def _reads(self, source: str) -> bool:
        """Whether a text is Python; False after MAX_READ characters in total."""
        self.left -= len(source)
        return self.left > 0 and parsed(source) is not None

    def _rest_of(
        self, head: int, torn: Sequence[int], cells: Sequence[Cell], gone: Collection[int]
    ) -> tuple[int, ...] | None:
        """Return the nearest halves that make a cell with a syntax error valid Python; None if there are none."""
        left = [index for index in torn if index not in gone]
        after = list(islice((index for index in range(head + 1, len(cells)) if index not in gone), PIECES))
        after = list(takewhile(lambda index: self._is_own(cells[index]), after))
        near = sorted(left, key=lambda index: (index < head, abs(index - head)))[:NEAR]
        following = (tuple(after[:count]) for count in range(1, len(after) + 1))
        others = (combination for count in range(1, PIECES + 1) for combination in combinations(sorted(near), count))
        for combination in (*following, *others) if near or after else ():
            parts = [cells[index].source for index in (head, *combination)]
            inside = {name for index in combination if index not in left for name in definitions(cells[index].source)}
            # Joined text may put a definition of another cell into a string, where it is lost.
            if self._reads("\n".join(parts)) and inside <= definitions("\n".join(parts)).keys():
                return combination
        return None

    def _beginning_of(self, half: int, heads: Sequence[int], cells: Sequence[Cell]) -> int | None:
        """Return the cell whose last function goes on in a half: the cell before the half, or a near cell with an answer."""
        before = max((index for index in heads if index < half), default=None)
        near = sorted(heads, key=lambda index: (index > half, abs(index - half)))
        answers = (index for index in near if index != before and self._defines_answer_last(cells[index].source))
        for head in islice((*([] if before is None else [before]), *answers), NEAR):
            if _may_go_on(cells[head].source) and self._reads(f"{cells[head].source}\n{cells[half].source}"):
                return head
        return None

    def _defines_answer_last(self, source: str) -> bool:
        last = _last_definition(source)
        return last is not None and last.name in self.answers

    def _ask_about(self, index: int, cells: Sequence[Cell], own: Sequence[int]) -> None:
        """Ask a person which answer an unjoined half belongs to."""
        known = {
            i: [*(self.answers & definitions(cells[i].source).keys()), *_in(cells[i].names, self.answers)] for i in own
        }
        before = next((known[i] for i in reversed(own) if i < index and known[i]), [])
        after = next((known[i] for i in own if i > index and known[i]), [])
        names = ", ".join(dict.fromkeys([*known.get(index, []), *before, *after]))
        line = " ".join(next(line for line in cells[index].source.splitlines() if line.strip()).split())[:60]
        self.questions.append(
            f'A cell begins in the middle of a function ("{line}"), and the part before it was not found. '
            f"The answers near it are {names or 'none'}. To which one does it belong?"
        )


def _in(names: Sequence[str], known: Set[str]) -> list[str]:
    return [name for name in names if name in known]


def _last_definition(source: str) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
    tree = parsed(source)
    last = tree.body[-1] if tree is not None and tree.body else None
    return last if isinstance(last, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else None


def _may_go_on(source: str) -> bool:
    """Whether a cell ends in a class, or in a function that does not end by returning."""
    last = _last_definition(source)
    return last is not None and (isinstance(last, ast.ClassDef) or not isinstance(last.body[-1], RETURNS))


def _begins_inside(source: str) -> bool:
    """Whether a code cell begins inside a block: its first line is indented, and it is not valid Python."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    return first[:1] in (" ", "\t") and parsed(source) is None


def _runs_without_indent(source: str) -> bool:
    """Whether IPython can run an indented cell: without its indent it is valid Python and has no `return`."""
    tree = parsed(textwrap.dedent(source))
    return tree is not None and not any(isinstance(each, ast.Return) for each in tree.body)

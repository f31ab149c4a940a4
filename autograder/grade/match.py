"""Match submitted cells with released ones: by what they define, by their ids, by their texts, by their places."""

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.grade.halves import join_halves
from autograder.notebooks import Cell
from autograder.recognition import definitions, in_words, is_answer, name_of

MAX_COMPARED = 3000  # characters of a cell that are compared with those of the released cells
LONG = 40  # characters; a longer released text is recognised inside another text


@dataclass
class Match:
    """The submitted cells, matched with released ones."""

    cells: list[Cell]  # the submitted cells; a merged text is split into its parts
    index_of: dict[int, int] = field(
        default_factory=dict
    )  # index of the submitted cell, by the place of the released one
    # For an answer that is in the cell of another answer: the place of that cell, by the place of the answer.
    elsewhere: dict[int, int] = field(default_factory=dict)
    copies: set[int] = field(default_factory=set)  # indices of unchanged copies of released cells, which are left out


class Matching:
    """Matches submitted cells with released ones."""

    def __init__(
        self,
        submitted: list[Cell],
        released: Sequence[NotebookNode],
        earlier: Set[str],
        receipt: list[str],
        questions: list[str],
    ) -> None:
        self.released, self.receipt = released, receipt
        texts = {cell.source.strip() for cell in released}
        self.texts, self.released_now = texts | earlier, texts - {""}
        self.answers = {name_of(cell): place for place, cell in enumerate(released) if is_answer(cell)}
        joined = join_halves(submitted, self.texts, receipt, questions)
        self.cells = split_texts(joined, released, earlier, receipt)
        self.sources = [cell.source.strip() for cell in self.cells]
        self.index_of: dict[int, int] = {}
        self.taken: set[int] = set()
        # An unchanged cell holds no definition by the student.
        self.defined = [
            {} if text in self.texts else names_defined(cell) for cell, text in zip(self.cells, self.sources)
        ]
        self.by_name: dict[str, list[int]] = {}
        for index, cell in enumerate(self.cells):
            for name in dict.fromkeys(cell.names):
                self.by_name.setdefault(name, []).append(index)
        self.by_text: dict[str, list[int]] = {}
        for index, text in enumerate(self.sources):
            self.by_text.setdefault(text, []).append(index)

    def match(self) -> Match:
        """Match the cells; say in the receipt what was unusual."""
        for place, blank in enumerate(self.released):
            if not is_answer(blank):
                self._take_known(place, blank)
        result = Match(self.cells, self.index_of)
        self._match_code(result)
        for place, blank in enumerate(self.released):
            if is_answer(blank) and blank.cell_type == "markdown":
                self._match_text(place, blank)
        self._match_the_rest()
        result.copies = {
            index for index, text in enumerate(self.sources) if index not in self.taken and text in self.texts
        }
        copies = sum(self.sources[index] in self.released_now for index in result.copies)
        if copies:
            self.receipt.append(f"{copies} unchanged copies of released cells were left out.")
        return result

    def _take(self, place: int, index: int) -> None:
        self.index_of[place] = index
        self.taken.add(index)

    def _named(self, name: str, kind: str | None = None) -> list[int]:
        """Return the submitted cells that carry a name, and are of a kind if it is given."""
        return [i for i in self.by_name.get(name, ()) if kind is None or self.cells[i].kind == kind]

    def _take_known(self, place: int, blank: NotebookNode) -> None:
        """Take the submitted cell for a released one that is not an answer, by its text or its name."""
        exact = [i for i in self.by_text.get(blank.source.strip(), ()) if i not in self.taken]
        same = [i for i in self._named(name_of(blank), blank.cell_type) if i not in self.taken]
        own = [i for i in same if i in exact]
        plain = "nbgrader" not in blank.metadata  # it has a name such as text_02, which is also in other notebooks
        # A cell that defines an answer counts as the answer, even if it includes the released cell or has its name.
        same = [i for i in same if not (self.defined[i].keys() & self.answers.keys())]
        if plain and blank.cell_type == "markdown":
            same = [i for i in same if is_similar(words_of(self.cells[i].source), words_of(blank.source))]
        for index in (own or exact or same)[:1]:
            self._take(place, index)

    def _match_code(self, result: Match) -> None:
        """Find the cell that defines each code answer; one cell may define several."""
        chosen: dict[str, int] = {}
        places = {name: place for name, place in self.answers.items() if self.released[place].cell_type == "code"}
        for name in places:
            index = self._cell_that_defines(name)
            if index is not None:
                chosen[name] = index
        by_index: dict[int, list[str]] = {}
        for name, index in chosen.items():
            by_index.setdefault(index, []).append(name)
        for index, names in by_index.items():  # names are in the order of the release; the first decides the place
            first = places[names[0]]
            self._take(first, index)
            for name in names[1:]:
                result.elsewhere[places[name]] = first
                self.receipt.append(f"{name} is in the same cell as {names[0]}.")
            if names[0] not in self.cells[index].names or self.cells[index].kind != "code":
                self.receipt.append(
                    f"{names[0]} was not in its own cell. It was recognised by its content, and moved to its own cell."
                )
        for name, place in places.items():
            if name in chosen:
                continue
            same = [i for i in self._named(name, "code") if i not in self.taken]
            changed = [i for i in same if self.sources[i] != self.released[place].source.strip()]
            exact = [i for i in self.by_text.get(self.released[place].source.strip(), ()) if i not in self.taken]
            if best := (changed or same or exact[:1]):
                self._take(place, best[-1])

    def _cell_that_defines(self, name: str) -> int | None:
        """Return the cell whose definition of an answer counts, if there is one: its own cell, else the last one."""
        defining = [i for i, names in enumerate(self.defined) if name in names]
        code = [i for i in defining if self.cells[i].kind == "code"]
        defining = code or [i for i in defining if i not in self.taken]
        written = [i for i in defining if self.defined[i][name]] or defining
        own = [i for i in written if name in self.cells[i].names]
        if (count := sum(name in self.cells[i].names for i in defining)) > 1:
            self.receipt.append(f"There were {count} cells {name}; the last changed one was taken.")
        return max(own or written, default=None)

    def _window(self, place: int) -> tuple[int, int]:
        """Return the indices of two submitted cells that match released ones; the answer was between these two."""
        before = [self.index_of[other] for other in range(place) if other in self.index_of]
        after = [self.index_of[other] for other in range(place + 1, len(self.released)) if other in self.index_of]
        start = before[-1] if before else -1
        return start, min((index for index in after if index > start), default=len(self.cells))

    def _match_text(self, place: int, blank: NotebookNode) -> None:
        """Find a written answer: by its name, also in a cell of another kind, and by its text."""
        name, released = name_of(blank), blank.source.strip()
        same = [
            i for i in self._named(name) if i not in self.taken and not self.defined[i].keys() & self.answers.keys()
        ]
        changed = [i for i in same if self._is_own(i)]
        kind = [i for i in changed if self.cells[i].kind == "markdown"]
        exact = [i for i in self.by_text.get(released, ()) if i not in self.taken and not self._is_of_another(i, name)]
        if len(same) > 1:
            self.receipt.append(f"There were {len(same)} cells {name}; the last changed one was taken.")
        if best := (kind or changed or same):
            self._take(place, best[-1])
            return
        start, end = self._window(place)
        near = [i for i in exact if start < i < end]
        if near or exact:
            index = (near or exact)[0]
            if near or not self._text_after_question(place):
                self._take(place, index)

    def _is_own(self, index: int) -> bool:
        """Whether a cell holds something that was not released."""
        return self.sources[index] != "" and self.sources[index] not in self.texts

    def _is_of_another(self, index: int, name: str) -> bool:
        return any(other in self.answers and other != name for other in self.cells[index].names)

    def _text_after_question(self, place: int) -> int | None:
        """Return the index of the student's text after the question of an answer; None if there is none."""
        index = self.index_of.get(place - 1, len(self.cells)) + 1
        known = index >= len(self.cells) or index in self.taken or not self._is_own(index)
        return None if known or self.cells[index].kind != "markdown" else index

    def _match_the_rest(self) -> None:
        """Match the cells without a known name, by place and by similarity."""
        missing = [place for place in range(len(self.released)) if place not in self.index_of]
        words = [words_of(cell.source) for cell in self.cells] if missing else []
        for place in missing:
            blank = self.released[place]
            if is_answer(blank) and blank.cell_type == "markdown":
                index = self._text_after_question(place)
                if index is not None:
                    self._take(place, index)
                    self.receipt.append(
                        f"The answer {name_of(blank)} had lost its id; it was recognised by its position."
                    )
            elif not is_answer(blank):
                wanted = words_of(blank.source)
                for index, mine in enumerate(words):
                    if index not in self.taken and is_similar(mine, wanted):
                        self._take(place, index)
                        break


def names_defined(cell: Cell) -> dict[str, bool]:
    """Return the names that a cell defines; in a text only functions and classes count, because prose has no such lines."""
    if cell.kind == "code":
        return definitions(cell.source)
    names = re.findall(r"^(?:def|class)\s+(\w+)\s*[(:]", cell.source, re.M)
    known = definitions(cell.source) if names else {}
    return {name: known.get(name, True) for name in names}


def split_texts(
    submitted: list[Cell], released: Sequence[NotebookNode], earlier: Set[str], receipt: list[str]
) -> list[Cell]:
    """Split the texts that hold a released text and something else: a merged cell, or words written into a question."""
    known = {cell.source.strip(): name_of(cell) for cell in released if cell.cell_type == "markdown"}
    description_of = {cell.source.strip(): in_words(cell) for cell in released}
    long = {text: name for text, name in known.items() if len(text) > LONG}
    prompts = [cell.source.strip() for cell in released if is_answer(cell) and cell.cell_type == "markdown"]
    question_of = {
        name_of(cell): released[place - 1].source.strip() for place, cell in enumerate(released) if is_answer(cell)
    }
    cells: list[Cell] = []
    for cell in submitted:
        inside = [text for text in long if text in cell.source] if len(cell.source) > LONG else []
        if not inside or cell.source.strip() in known or cell.source.strip() in earlier:
            cells.append(cell)
            continue
        pattern = "|".join(map(re.escape, sorted(inside, key=len, reverse=True)))
        parts = [part.strip() for part in re.split(f"({pattern})", cell.source)]
        parts = [part if part in long else remove_prompts(part, prompts) for part in parts]
        parts = [part for part in parts if part]
        own = [name for name in cell.names if name in question_of]
        question = question_of[own[0]] if own else None
        for place, part in enumerate(parts):
            if part in long:
                cells.append(Cell("markdown", part, [long[part]], cell.checksum))
            else:  # the answer is the part after its question, or the first part if the question is not there
                after = parts[place - 1] == question if question in parts else place == 0
                cells.append(Cell(cell.kind, part, own if after else [], raw=cell.raw))
        if len(parts) > 1:
            receipt.append(f"A cell was merged with {description_of[inside[0]]}; it was taken apart.")
    return cells


def remove_prompts(text: str, prompts: Sequence[str]) -> str:
    """Return a text without the prompts that ask for an answer."""
    for prompt in prompts:
        text = text.replace(prompt, "")
    return text.strip()


def words_of(text: str) -> Counter[str]:
    """Count the words and punctuation of a text, or of its beginning if it is long."""
    return Counter(re.findall(r"\w+|[^\w\s]", text[:MAX_COMPARED]))


def is_similar(one: Counter[str], other: Counter[str]) -> bool:
    """Whether nine of ten words are the same. The time is linear in their number, whatever a student writes."""
    both = one.total() + other.total()
    return both > 0 and 2 * sum(min(count, other[word]) for word, count in one.items()) > 0.9 * both

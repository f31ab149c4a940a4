"""Order the cells of a submission: as they were released, or as the student had them."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.cells import is_locked
from autograder.recognition import definitions, is_answer, name_of


@dataclass
class Item:
    """A cell of the notebook that is graded."""

    node: NotebookNode
    place: int | None = None  # the released cell's place; None for the student's own cell
    index: float | None = None  # its place among the submitted cells; None for a cell that was put back
    anchor: int = -1  # the place of the released cell before the student's own cell

    @property
    def own(self) -> bool:
        """Whether the student added it."""
        return self.place is None


def in_submitted_order(items: Sequence[Item], released: Sequence[NotebookNode]) -> list[Item]:
    """Return the cells in the order in which they were submitted, each test where the student had it.

    A test that comes before every definition of its answer is moved after the first definition: the student ran it
    later. If all tests of an answer were deleted, they come last. Other missing cells return to their released places.
    """
    answer_of = _answers_of_tests(released)
    tests: dict[str, list[Item]] = {}
    for item in items:
        if item.place in answer_of:
            tests.setdefault(answer_of[item.place], []).append(item)
    deleted = [item for group in tests.values() if all(each.index is None for each in group) for item in group]
    late = {id(item) for item in deleted}
    order = sorted((item for item in items if item.index is not None), key=lambda item: item.index)
    for item in items:  # in the order of the release
        if item.index is None and id(item) not in late:
            order.insert(_after_the_one_before(order, item), item)
    for name, group in tests.items():
        if id(group[0]) not in late:
            _move_after_definition(order, name, group)
    setup = next((item for item in order if item.place is not None and name_of(released[item.place]) == "setup"), None)
    first = next((place for place, item in enumerate(order) if not item.own and item.node.cell_type == "code"), 0)
    if setup is not None:
        before = order.index(setup)
        if first < before:
            order.insert(first, order.pop(before))
    return order + deleted


def same_code(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Whether two orders have the same sequence of code cells."""
    return [id(i.node) for i in one if i.node.cell_type == "code"] == [
        id(i.node) for i in other if i.node.cell_type == "code"
    ]


def _answers_of_tests(released: Sequence[NotebookNode]) -> dict[int, str]:
    """Return the code answer that each test follows in the release, by the place of the test."""
    answers, answer = {}, ""
    for place, cell in enumerate(released):
        if is_answer(cell) and cell.cell_type == "code":
            answer = name_of(cell)
        elif is_locked(cell) and cell.cell_type == "code" and not cell.metadata.get("given") and answer:
            answers[place] = answer
    return answers


def _after_the_one_before(order: Sequence[Item], item: Item) -> int:
    """Return where to put back a cell: after the nearest cell that precedes it in the released notebook."""
    before = [place for place, other in enumerate(order) if not other.own and other.place < item.place]
    return max(before, key=lambda place: order[place].place, default=-1) + 1


def _defines(item: Item, name: str) -> bool:
    """Whether an answer, or a cell that the student added, defines a name."""
    code = item.node.cell_type == "code" and (item.own or is_answer(item.node))
    return code and bool(definitions(item.node.source).get(name))


def _move_after_definition(order: list[Item], name: str, group: Sequence[Item]) -> None:
    first = min(order.index(item) for item in group)
    defining = next((place for place, item in enumerate(order) if _defines(item, name)), -1)
    if defining < first:
        return
    last = order[defining]
    for item in group:
        order.remove(item)
    after = order.index(last) + 1
    order[after:after] = group

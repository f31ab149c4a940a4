"""Order the cells of a submission."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.recognition import name_of


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
    """Return the cells in the order in which they were submitted, but the set-up first.

    A cell that was put back follows the one that it follows in the release.
    """
    order = sorted((item for item in items if item.index is not None), key=lambda item: item.index)
    for item in items:  # in the order of the release
        if item.index is None:
            before = [place for place, other in enumerate(order) if not other.own and other.place < item.place]
            order.insert(max(before, key=lambda place: order[place].place, default=-1) + 1, item)
    code = [item for item in order if not item.own and item.node.cell_type == "code"]
    for setup in [item for item in code[1:] if name_of(released[item.place]) == "setup"]:
        order.remove(setup)
        order.insert(order.index(code[0]), setup)
    return order

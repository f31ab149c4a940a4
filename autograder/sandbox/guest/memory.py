"""Remember what the names of a notebook hold, so that a call can run and change nothing there.

This code runs in the sandbox. It follows the notebook's names through lists, dicts, sets, functions, classes and their
instances. It does not restore files, threads, modules or anything else that may remember something.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from types import CellType, FunctionType

NOTEBOOK = "__main__"  # the module in which cells run
MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
SEQUENCES = (list, deque, bytearray)
EMPTY = CellType()
MOST = 10_000  # largest number of visited objects, and of items of one object; more would take longer than a test


class Memory:
    """The contents of all objects that a notebook's names lead to, at the moment when this Memory is made."""

    def __init__(self, namespace: dict) -> None:
        self.mappings: list[tuple[dict, dict]] = []
        self.others: list[tuple] = []  # a sequence or a set, and its items
        self.cells: list[tuple[CellType, object]] = []  # variables that nested functions share
        self.classes: list[tuple[type, dict]] = []
        known, waiting = set(), [namespace]
        while waiting and len(known) < MOST:
            item = waiting.pop()
            if id(item) not in known:
                known.add(id(item))
                waiting += self._keep(item, namespace)

    def _keep(self, item: object, namespace: dict) -> list:
        """Keep the content of an object that can change; return the objects that it leads to."""
        kind = type(item)
        if kind in MAPPINGS and len(item) <= MOST:
            self.mappings.append((item, dict(item)))
            return list(item.values())
        if kind in (*SEQUENCES, set) and len(item) <= MOST:
            self.others.append((item, list(item)))
            return [] if kind is bytearray else list(item)
        if kind is tuple and len(item) <= MOST:
            return list(item)
        if kind is FunctionType and item.__globals__ is namespace:
            cells = [(cell, cell.cell_contents) for cell in item.__closure__ or () if cell != EMPTY]
            self.cells += cells
            return [item.__dict__, item.__defaults__, item.__kwdefaults__, *(content for _, content in cells)]
        if isinstance(item, type) and kind is type and item.__module__ == NOTEBOOK:
            self.classes.append((item, dict(vars(item))))
            return list(vars(item).values())
        if kind.__module__ == NOTEBOOK and isinstance(getattr(item, "__dict__", None), dict):
            return [item.__dict__]
        return []

    def put_back(self) -> None:
        """Give every object its former content."""
        for mapping, items in self.mappings:
            for name in mapping.keys() - items.keys():
                del mapping[name]
            dict.update(mapping, items)  # Counter.update would add the counts
        for other, items in self.others:
            other.clear()
            other.update(items) if type(other) is set else other.extend(items)
        for cell, content in self.cells:
            cell.cell_contents = content
        for kind, attributes in self.classes:
            for name in vars(kind).keys() - attributes.keys():
                delattr(kind, name)
            for name, value in attributes.items():
                if vars(kind).get(name) is not value:
                    setattr(kind, name, value)

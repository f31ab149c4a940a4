"""Follow the values of a record back to the first value that departs from the known steps.

The code needs only NumPy. A record of `recorder.py` may come from a sandbox, so it may hold anything.
"""

import re

import numpy as np

from attention_tests.recorder import MAX_ARRAY, MAX_TEXT
from attention_tests.steps import BUT_ROWS, FACTOR, GIVEN, NEUTRAL, ORDER, PART, SCALAR, STEP, UNKNOWN, is_half

EMPTY = ("np.empty", "torch.empty")
MAX_WORK = 2_000_000  # steps through a record; honest records take at most some thousands
MAX_LINE = 1_000_000  # a line's number
LITERAL = ("[", "np.array([", "torch.tensor([")
MAKERS = ("like", "zeros", "ones", "eye", "full", "empty")  # words of functions that make an array of no values
NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")


class Row:
    """A recorded value."""

    def __init__(self, line, function, text, kind, operands, value, outer):
        self.line, self.function, self.text, self.kind = line, function, text, kind
        self.operands, self.value, self.outer = operands, value, outer

    @property
    def is_part(self):
        """Whether it is the value of a variable after a part of this variable was changed, as in a loop."""
        return self.kind == "part"

    @property
    def quoted(self):
        """Its text, for a message."""
        text = self.text.removeprefix("return ")
        return f"`{text}`" if text.isascii() and "`" not in text else "its value"


class Trace:
    """A record, and what is known of its values. A value is named by the place of its row.

    Attributes:
        rows: The values.
        returned: The place of the returned row, or -1.
        items: The places of the items of the returned row.
        waiting: The places of the operands of the expression that raised an error.
        line, function, outer: The statement that ran last; see `Row`.
        attributes: The attributes of `self` that a line reads, with the lines that set them, by line.
        detached: The places of values through which no gradient flows back.
        checks, returns: The functions and lines of checks, and of `return`.
        known: The known steps. It and the next two are set by `compare`.
        kinds: The kind of each value.
        cleared: Whether a later step was made from a value. If so, the value did no harm.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: The record is invalid.
    """

    def __init__(self, record):
        self.rows, self.work = [], 0
        for line, function, text, kind, operands, value, outer in _checked(dict, record)["rows"][:10_000]:
            fits = type(value) is np.ndarray and value.dtype.kind in "biuf" and value.size <= MAX_ARRAY
            text = " ".join(_checked(str, text)[:MAX_TEXT].split())
            place = _line(line), _function(function), text, _checked(str, kind)
            operands = list(map(self._place, operands))
            self.rows.append(Row(*place, operands, value if fits else None, _line(outer)))
        self.returned = -1 if record["returned"] == -1 else self._place(record["returned"])
        line, function, outer = record["at"]
        self.line, self.function, self.outer = _line(line), _function(function), _line(outer)
        self.attributes = {}
        for line, name, set_in in record["attributes"][:200]:
            if re.fullmatch(r"self\.\w{1,80}", _checked(str, name), re.ASCII):
                self.attributes.setdefault(_line(line), {})[name] = _line(set_in)
        places = ([self._place(i) for i in record[name][:50]] for name in ("open", "items", "detached"))
        self.waiting, self.items, self.detached = places
        lines = (
            [(_function(name), *map(_line, numbers)) for name, *numbers in record[key][:50]]
            for key in ("checks", "returns")
        )
        self.checks, self.returns = lines

    def _place(self, i):
        """Return the place of a row, after a check."""
        if not 0 <= _checked(int, i) < len(self.rows):
            raise KeyError("no such row")
        return i

    def _spend(self, steps):
        """Count steps through the record, and give up after too many: a forged record could make a search endless."""
        self.work += steps
        if self.work > MAX_WORK:
            raise KeyError("the record is too long to be searched")

    def compare(self, known):
        """Compare all values with the known steps."""
        self.known, self.kinds = known, [known.kind_of(row.value) for row in self.rows]
        self.kinds = [self._without_content(i) or kind for i, kind in enumerate(self.kinds)]
        self.cleared = self._find_cleared()
        for i, (kind, *_) in enumerate(self.kinds):
            if kind == UNKNOWN and is_half(self.rows[i].value):  # it may do little harm now, and much later
                self.cleared[i] = False

    def due(self):
        """Return the place of the first step that every right answer computes, and this one does not; None if there is none."""
        reached = {kind[1] for kind in self.kinds if kind[0] in (STEP, PART)}
        return next((place for place in self.known.due if place not in reached), None)

    def _without_content(self, i):
        """Return NEUTRAL or UNKNOWN for a value whose own numbers do not show its kind; None for all other values.

        An array that is not filled yet is NEUTRAL. An array of equal numbers is UNKNOWN if it was made from a step.
        """
        row = self.rows[i]
        sources = [self.rows[j] for j in row.operands if row.kind == "variable" and self.rows[j].text.startswith(EMPTY)]
        if NUMBER.fullmatch(row.text) or (row.function == "__init__" and self.kinds[i][0] == UNKNOWN):
            return NEUTRAL, None, None
        if row.text.startswith(EMPTY) or any(each.value is not None and row.value is not None for each in sources):
            return NEUTRAL, None, None
        if row.text.startswith(LITERAL) and all(self.kinds[j][0] == NEUTRAL for j in row.operands):
            return NEUTRAL, None, None
        value = row.value
        if self.kinds[i][0] != NEUTRAL or value is None or value.dtype.kind != "f" or value.size < 4:
            return None
        if row.is_part or any(word in row.text for word in MAKERS):
            return None
        made = [j for j in row.operands if self.kinds[j][0] in (GIVEN, STEP, BUT_ROWS, FACTOR, UNKNOWN)]
        made = [j for j in made if self.rows[j].value.size == value.size]
        return (UNKNOWN, None, None) if made and len(np.unique(value)) == 1 else None

    def _find_cleared(self):
        cleared = [False] * len(self.rows)
        for i in reversed(range(len(self.rows))):
            if cleared[i] or self.kinds[i][0] in (STEP, PART):
                of_one = self.kinds[i][0] == PART and self.rows[i].value.size == 1 and not cleared[i]
                for operand in self.rows[i].operands:
                    cleared[operand] = cleared[operand] or not of_one or self.kinds[operand][0] in (SCALAR, PART)
        return cleared

    def reached(self, ends):
        """Return the ends and all rows that lead to them, in order."""
        reached, waiting = set(), list(ends)
        while waiting:
            i = waiting.pop()
            if i not in reached:
                reached.add(i)
                waiting += self.rows[i].operands
        return sorted(reached)

    def suspect(self, among):
        """Return the first strange value whose operands are not strange; None if there is none."""
        among = [i for i in among if not self.cleared[i] and self.kinds[i][0] > SCALAR]
        for kind in (UNKNOWN, ORDER, FACTOR, BUT_ROWS):
            for i in among:
                if self.kinds[i][0] == kind:
                    return self._cause_of(i)
        return None

    def _cause_of(self, i):
        """Go back from a strange value to the first strange value that caused it."""
        while True:
            kind = self.kinds[i][0]
            before = [j for j in self.operands(i) if not self.cleared[j] or kind == self.kinds[j][0] == FACTOR]
            worse = [j for j in before if self.kinds[j][0] in (UNKNOWN, ORDER, FACTOR)]
            right = [j for j in self.operands(i) if self.kinds[j][0] in (GIVEN, PART, STEP)]
            if kind == SCALAR or self.rows[i].is_part or (right and len(right) < 3):
                numbers = [
                    j for j in before if self.kinds[j][0] == SCALAR and not self.rows[j].text.startswith("self.")
                ]
                worse += numbers if self.known.has_shape_of(self.rows[i].value) else []
            if kind == UNKNOWN and not np.isfinite(self.rows[i].value).all():
                worse += [j for j in before if self.kinds[j][0] == BUT_ROWS]
            if not worse:
                return self._wrong_part(i) if self.rows[i].is_part else i
            i = min(worse)

    def changes_of(self, part):
        """Return the rows of all changes of the variable that a change of a part changed."""
        self._spend(len(self.rows))
        return [row for row in self.rows if row.is_part and (row.text, row.function) == (part.text, part.function)]

    def _wrong_part(self, i):
        """Return the first change of the same variable whose own line computes a strange value from values that are not."""
        for row in self.changes_of(self.rows[i]):
            self._spend(len(row.operands))
            values = [j for j in row.operands if self.rows[j].line == row.line and self.rows[j].kind == "value"]
            if any(self._is_strange(j) and self._departs_in(j, row.line) for j in values):
                return self.rows.index(row)
        return i

    def _is_strange(self, i):
        return self.kinds[i][0] in (SCALAR, UNKNOWN, ORDER, FACTOR)

    def _departs_in(self, i, line):
        """Whether all strange values that led to a value were computed in the same line."""
        seen, waiting = {i}, [i]
        while waiting:
            strange = {j for j in self.operands(waiting.pop()) if self._is_strange(j)} - seen
            if any(self.rows[j].line != line for j in strange):
                return False
            seen |= strange
            waiting += strange
        return True

    def source_of(self, i):
        """Return the value that made a strange value strange, if its own numbers do not show it; else the strange value.

        It is the first value with more axes than any step has; or a value that lacks numbers of a step, and is no slice;
        or a wrong maximum, as its numbers are numbers of the arguments.
        """
        rows, axes = self.rows, self.rows[i].value.ndim
        while axes > max(map(len, self.known.shapes)):
            wide = [j for j in rows[i].operands if rows[j].value is not None and rows[j].value.ndim == axes]
            if len(wide) != 1 or self.kinds[wide[0]][0] not in (NEUTRAL, UNKNOWN):
                return i
            i = wide[0]
        made = [self._first_of(j) for j in self.operands(i)]
        made = [j for j in made if self._is_computed(j) and not rows[j].is_part and rows[j].value.size > 1]
        for j in sorted(made):
            kind, place, _ = self.kinds[j]
            largest = re.search("max|min", rows[j].text)
            if kind == PART and not largest and self._is_short(rows[j], self.known.steps[place][1]):
                return self._first_of_shape(j)
            if kind == GIVEN and largest and rows[j].value.shape == self._first_missing():
                return j
        return i

    def _is_computed(self, j):
        """Whether a value was computed, and is no slice of another."""
        return bool(self.rows[j].operands) and not self.rows[j].text.endswith("]")

    def _is_short(self, row, step):
        """Whether a value has too few numbers, and is not made again and again in a loop."""
        self._spend(len(self.rows))
        again = sum((each.line, each.text) == (row.line, row.text) for each in self.rows)
        return row.value.ndim == step.ndim and row.value.size < step.size and again == 1

    def _first_missing(self):
        """Return the shape of the first step that no value is."""
        reached = {kind[1] for kind in self.kinds if kind[0] == STEP}
        return next((each[1].shape for place, each in enumerate(self.known.steps) if place not in reached), None)

    def _first_of(self, j):
        """Return the row that computed the numbers of a value, which may have another name or shape now."""
        while same := [k for k in self.rows[j].operands if _has_numbers_of(self.rows[k].value, self.rows[j].value)]:
            j = same[0]
        return j

    def _first_of_shape(self, j):
        """Return the first row that led to a value, has its shape, and was computed."""
        shape = self.rows[j].value.shape
        while same := [k for k in self.operands(j) if self.rows[k].value.shape == shape and self._is_computed(k)]:
            j = same[0]
        return j

    def operands(self, i):
        """Return the operands of a value. An operand of the kind NEUTRAL is replaced by its own operands."""
        operands, waiting, seen = [], list(self.rows[i].operands), set()
        while waiting:
            j = waiting.pop()
            self._spend(1)
            if j in seen:
                continue
            seen.add(j)
            if self.kinds[j][0] == NEUTRAL:
                waiting += self.rows[j].operands
            else:
                operands.append(j)
        return operands

    def of_other_lines(self, i):
        """Return the values of other lines from which the line of a value computed it."""
        seen, waiting = {i}, [i]
        while waiting:
            made_of = set(self.rows[waiting.pop()].operands) - seen
            seen |= made_of
            waiting += [j for j in made_of if self.rows[j].line == self.rows[i].line]
        return sorted(j for j in seen if self.rows[j].line != self.rows[i].line)

    def named(self, i):
        """Return the row of the variable that stores a value in the same line; if there is none, the row of the value."""
        row = self.rows[i]
        for j in range(i + 1, min(len(self.rows), i + 6)):
            other = self.rows[j]
            same = other.kind in ("variable", "part") and i in other.operands and other.line == row.line
            if same and other.value is not None and np.array_equal(other.value, row.value, equal_nan=True):
                return j
        return i

    def last_name(self, j):
        """Return the row of the last variable that holds a value; the row of the value if there is no variable."""
        names = [row for row in self.rows[j:] if row.kind == "variable" and row.value is not None]
        names = [row for row in names if np.array_equal(row.value, self.rows[j].value, equal_nan=True)]
        return names[-1] if names else self.rows[j]

    def last_right(self, i):
        """Return the last step before a row, preferably one from which the row was made."""
        for among in (self.reached([i])[:-1], range(i)):
            right = [j for j in among if self.kinds[j][0] in (STEP, PART, BUT_ROWS)]
            if right:
                return max(right, key=lambda j: (self.kinds[j][0] == STEP, self.kinds[j][0] == PART, j))
        return None

    def lines_before(self, i):
        """Among the lines before a value, return those that computed something."""
        end, pairs = self.rows[i], zip(self.rows[:i], self.kinds)
        made = [row for row, (kind, *_) in pairs if kind > (GIVEN if row.kind == "value" else NEUTRAL)]
        return {(row.function, row.line) for row in made if row.function != end.function or row.line < end.line}

    def made_of(self, j):
        """Return the values that were computed from a value, other than arguments and the value itself under other names."""
        made, same = [], {j}
        for n, row in enumerate(self.rows):
            if same.intersection(row.operands):
                if row.value is not None and np.array_equal(row.value, self.rows[j].value):
                    same.add(n)
                elif self.kinds[n][0] > GIVEN:
                    made.append(n)
        return made


def _checked(kind, value):
    """Return a value of this type."""
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}")
    return value


def _line(number):
    """Return the number of a line."""
    if not 0 <= _checked(int, number) <= MAX_LINE:
        raise KeyError("no line has this number")
    return number


def _function(name):
    """Return the name of a function in a form that can be shown."""
    return name[:80] if _checked(str, name).isascii() and name.isprintable() else "a function"


def _has_numbers_of(one, other):
    return one is not None and one.size == other.size and np.array_equal(one.ravel(), other.ravel())

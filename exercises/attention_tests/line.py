"""Name the line of a wrong answer: mostly the first line that, given a right value, makes the result right.

The right values are those that right answers compute. The search runs next to the student's code, and decides no points.
"""

import contextlib
import itertools
import sys
import time

import numpy as np

from attention_tests.compare import WrongAnswer, asked, difference, names_around, outcome
from attention_tests.watch import MAX_LINES, Watch, plain

MAX_TRIED, MAX_SEARCH = 400, 2.0  # runs of an answer, seconds of processor time
MEANT = 150  # numbers of a good case: a small array can be right by chance, a large one is slow
MAX_CASES, MAX_SLOW = 2, 0.2  # in how many cases the line is looked for, and how many seconds one may have taken
SENTENCES = {
    "raised": "",  # the message of the error says where it arose
    "misused": "Line {line} of {function} sets {what}, which cannot be used like this.",
    "type": "{function} ended at line {line}, and what it returned has a wrong type.",
    "rounded": "Line {line} of {function}: {what} has numbers of 16 bits, which are too few.",
    "returned": "Line {line} of {function}: all values before it are right, and the returned value is not.",
    "repaired": "Line {line} of {function}: {what} {wrong}. With the right value, the result would be right.",
}


def with_line(error, find):
    """Add the line to a `WrongAnswer` without a named mistake, if `find` finds it in a failed case, as `find_line` does."""
    wrong = error.wrong if getattr(error, "mistake", "") is None else []
    tried = [(case, got) for case, got in wrong if case["right_values"] is not None and got["took"] < MAX_SLOW]
    tried = [(case, got) for case, got in tried if not got.get("unwritten")]
    off = {id(case): abs(np.log((1 + sum(map(np.size, case["arguments"]))) / MEANT)) for case, _ in tried}
    tried.sort(key=lambda each: ("error" in each[0]["expected"], "error" in each[1], off[id(each[0])]))
    for case, _ in tried[:MAX_CASES]:
        try:
            if found := find(case):
                found = _checked(**found)
                return WrongAnswer(f"{error}\n{_sentence(**found)}".rstrip(), None, error.wrong, found)
        except KeyboardInterrupt:
            raise
        except BaseException:  # includes a lost kernel: the line is an extra, and no points depend on it
            return error
    return error


def find_line(written, ask, read, names, case, left_alone=()):
    """Find the line of a wrong answer; return None if it cannot be found.

    Args:
        written: The answer, and what else of its notebook `ask` needs.
        ask: As for `compare.asked`.
        read: The same.
        names: The names of the results.
        case: The arguments, the expected outcome, and the values that right answers compute.
        left_alone: The names of the answers of other exercises.

    Returns:
        How it was found, one of SENTENCES; line and function; the variable, its value and the right one, or "" and None.
    """
    namespace, expected, torch = names_around(written[0]), case["expected"], sys.modules.get("torch")

    def run(instead=()):
        unseeded = torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext()
        with unseeded, Watch(namespace, left_alone, instead) as watch:
            if torch:
                torch.default_generator.manual_seed(0)  # layers draw the same parameters in each run
            got = outcome(asked(ask, read, *written), case["arguments"], names)
        return watch, got, difference(got, expected, show=False)

    watch, got, text = run()
    if not text:
        return None
    right = {name: np.asarray(each, float) for name, each in expected.get("arrays", {}).items()}
    own_error = "error" in got and watch.raised and (watch.error in got["text"] if watch.error else not got["text"])
    raised = _found("raised", watch.raised) if own_error else None
    if not right:
        return raised
    ends = [each for each in watch.changes if not each.name and not each.caller]
    if "error" in got and not raised:
        return _found("type", ends[-1].place) if ends and got["error"] == "TypeError" else None
    half = next((_found("rounded", each.place, each.name) for each in watch.changes if each.is_half), None)
    mine = {name: np.asarray(each, float) for name, each in got.get("arrays", {}).items()}
    wrong = [(mine.get(name), each) for name, each in right.items() if name not in mine or not _near(mine[name], each)]
    is_class = isinstance(written[0], type)
    if (half and raised) or (is_class and mine and all((each == each.round()).all() for _, each in wrong)):
        return half  # no line makes whole numbers of a class, such as how many parameters it has
    most = min(MAX_TRIED, MAX_LINES // max(1, watch.moment))
    search = Search(watch.changes, case, right, wrong, run)
    if raised:
        misused = search.misused(*watch.misused) if got["error"] in ("TypeError", "AttributeError") else None
        return misused or search.repaired(most) or raised
    return search.repaired(most) or (search.returned(ends[-1], is_class) if ends else None)


def values_of(changes):
    """Return the values that a right answer computed: of each variable in each line all together, and the last."""
    rounds = {}
    for change in changes:
        rounds.setdefault((change.place, change.name), []).append(change)
    values = [value for each in rounds.values() for value in (each[-1].value, *each[-1].items)]
    alone = [each for each in rounds.values() if len(each) > 1 and all(change.filled is None for change in each)]
    return values + [plain([change.value for change in each]) for each in alone]


class Search:
    """Looks for the line among the changes of a run; `run` runs the answer with other values."""

    def __init__(self, changes, case, right, wrong, run):
        self.changes, self.run = changes, run
        self.wrong = [(mine, right) for mine, right in wrong if mine is not None]
        self.given = [value for value in map(plain, case["arguments"]) if value is not None]
        self.known = Known([*map(np.array, case["right_values"]), *right.values(), *self.given])
        self.any_shape = any(np.shape(mine) != right.shape for mine, right in wrong)
        self.named = [each for each in self.changes if each.name and each.value is not None]

    def misused(self, call, name):
        """Return the line that set a variable which an error concerns; None if its value is a known array or size."""
        own = [each for each in self.changes if name and each.name == name]
        own = [each for each in own if each.call == call or ("." in name and not each.caller)]
        if not own:
            return None
        together = [each for each in self.named if each.moment == own[-1].moment]
        is_right = own[-1] in together and self.known.has(own[-1]) and (own[-1].value.ndim or len(together) > 1)
        return None if is_right else _found("misused", own[-1].place, name)

    def repaired(self, most):
        """Return the first line that a right value repairs, of those that compute an unknown value or nothing new."""
        tried, ends = 0, time.process_time() + MAX_SEARCH
        for line in (list(line) for _, line in itertools.groupby(self.named, lambda each: each.moment)):
            own = {each.identity for each in line}  # the same object under another name, later, is computed once
            others = [each for each in self.named if each.call == line[0].call]
            others = [each.value for each in others if each.moment < line[0].moment or each.identity not in own]
            is_new = not any(_near(each.value, other) for each in line for other in [*self.given, *others])
            if is_new and all(self.known.has(each, in_order=True) and not self._may_be_a_size(each) for each in line):
                continue
            for pairs in self._options(line):
                changed = [each for each in pairs if not _near(each[0].value, each[1])]
                tried += bool(changed)
                if tried > most or time.process_time() > ends:
                    return None
                if changed and not self.run(pairs)[2]:
                    change, right = changed[0]
                    cause = self._cause(change)
                    return cause and _found("repaired", cause.place, cause.name, change.value, right)
        return None

    def _cause(self, change):
        """Return the change that caused a repaired one: what another function returned, or else the change itself.

        None if that function computed unknown values, or if an earlier unknown array has an effect on it and on no known one.
        """
        arrays = [each for each in self.changes if each.value is not None and each.value.ndim and each.value.any()]
        right = [each for each in arrays if each.name and each is not change and self.known.has_value(each.value)]
        last = {(each.name, each.call): each for each in self.named if each.value.any() and each.moment < change.moment}
        if change.filled is not None:  # only the new numbers of a filled array count
            last.pop((change.name, change.call), None)
        for each in (each for each in last.values() if not self.known.has_value(each.value)):
            others = self.run([(each, (each.value == 0) * 1.0)])[0].changes  # other numbers show its effect
            after = {one.key: one.value for one in others if one.value is not None}
            if [one for one in (change, *right) if not _near(after.get(one.key, one.value), one.value)] == [change]:
                return None
        same = [each for each in arrays if not each.name and each.caller and _near(each.value, change.value)][:1]
        inside = [each for one in same for each in arrays if one.call == (each.call if each.name else each.caller)]
        return (*same, change)[0] if all(self.known.has_value(each.value) for each in inside) else None

    def _options(self, line):
        """Yield what may replace the changes of a line: pairs of a change and a right value."""
        values = self.known.values
        for change in line:
            if change.value.size == 1 and self.known.has(change) and not self._may_be_a_size(change):
                continue
            rounds = [each for each in self.named if (each.place, each.name) == (change.place, change.name)]
            if change is rounds[0] and len(rounds) > 1 and all(each.filled is None for each in rounds):
                parts = (part for right in values for part in _parts(right, change.value.shape))
                yield from (list(zip(rounds, part)) for part in parts if len(part) == len(rounds))
            if change is rounds[-1] and self._is_first_in_loop(rounds):
                shape = change.value.shape
                yield from ([(change, form)] for right in values for form in _forms(right, shape))
                wider = [right for right in values if shape and right.ndim == len(shape) + 1]
                yield from ([(change, part)] for right in wider for parts in _parts(right, shape) for part in parts)
                yield from ([(change, right)] for right in values if shape and right.ndim and right.shape != shape)
        for start in range(len(values) - len(line) + 1) if len(line) > 1 else ():
            pairs = list(zip(line, values[start:]))
            if self.any_shape or all(change.value.shape == right.shape for change, right in pairs):
                yield pairs

    def _may_be_a_size(self, change):
        return self.any_shape and change.value.ndim == 0 and float(change.value).is_integer()

    def _is_first_in_loop(self, rounds):
        """Whether all else in a loop ends with known values: a sum, for example, is wrong if what is added is."""
        between = self.changes[self.changes.index(rounds[0]) : self.changes.index(rounds[-1])]
        last = {(each.place, each.name): each for each in self.changes}
        places = {(each.place, each.name) for each in between} - {(rounds[0].place, rounds[0].name)}
        return all(self.known.has(last[place]) for place in places)

    def returned(self, end, is_class):
        """Return the line of the first unknown value if it was returned, or of `end` if all are known; it has a wrong result."""
        if is_class and not all(self.known.has_value(mine) for mine, _ in self.wrong):
            return None  # the parameters and layers of a class are unknown
        items = [item for item in end.items if item is not None and (item.ndim == 0 or item.any())]  # not only zeros
        if not any(_near(each, item) for each, _ in self.wrong for item in items):
            return None
        last = {(each.name, each.call): each for each in self.changes if each.filled is not None}
        filled = (each for each in last.values() if not self.known.has_value(each.value))
        first = next(itertools.chain(filled, (each for each in self.changes if not self.known.has(each))), end)
        return None if first.name or first.caller else _found("returned", first.place)


class Known:
    """The values that right answers compute; equal ones count once."""

    def __init__(self, values):
        self.values = []
        for value in values:
            if value is not None and value.size and not any(_near(value, each) for each in self.values):
                self.values.append(value)

    def has(self, change, in_order=False):
        """Whether all values of a change are known, or parts of known ones; with `in_order`, in their order of axes."""
        items = [item for item in change.items if item is not None and item.size]
        return all(self.has_value(item, change.filled, in_order) for item in items)

    def has_value(self, value, filled=None, in_order=False):
        """Whether a value is known, as for `has`."""
        for known in self.values:
            forms = list(_forms(known, value.shape)) if not in_order else [known] if known.shape == value.shape else []
            if filled is not None and any(_near(value[filled], form[filled]) for form in forms):
                return True
            may_be = _close(known, value.flat[0], bool(value.ndim)).any()  # if not, this saves nearly all comparisons
            if may_be and any(_near(value, each) for each in itertools.chain(forms, *_parts(known, value.shape))):
                return True
        return False


def _close(one, other, is_array):
    """Return which numbers are equal up to rounding; `np.isclose` takes five times as long."""
    room = 2e-4 if is_array else 2e-6  # a single number may be equal by chance
    with np.errstate(all="ignore"):
        equal = np.isfinite(other) & (np.abs(one - other) <= room / 10 + room * np.abs(other))
    return equal | (one == other) | (np.isnan(one) & np.isnan(other))


def _near(one, other):
    """Whether two arrays have one shape and are equal up to rounding."""
    if one.shape != other.shape or (one.size and abs(one.item(0) - other.item(0)) > 1e-3 * (1 + abs(other.item(0)))):
        return False  # the first numbers differ: this saves nearly all comparisons
    return bool(_close(one, other, bool(one.ndim)).all())


def _forms(value, shape):
    """Yield an array in its forms that have a shape: its axes in another order, split, merged or added."""
    if sorted(value.shape) == sorted(shape) and len(shape) <= 5:
        others = map(value.transpose, itertools.permutations(range(value.ndim)))
        yield from (each for each in others if each.shape == shape)
    elif value.size == int(np.prod(shape)) and value.shape[-1:] == shape[-1:]:
        yield value.reshape(shape)


def _parts(value, shape):
    """Yield lists of the parts of an array that have a shape: one part for each place along the other axes."""
    free = value.ndim - len(shape)
    for axes in itertools.permutations(range(value.ndim), free) if 0 < free < 4 else ():
        if tuple(n for axis, n in enumerate(value.shape) if axis not in axes) == shape:
            yield np.moveaxis(value, axes, range(free)).reshape(-1, *shape)


def _found(how, place, name="", value=None, right=None):
    return dict(how=how, line=place[1], function=place[0].co_qualname, name=name, value=value, right=right)


def _checked(how, line, function, name, value, right):
    """Return what was found, in a form that can be shown; raise TypeError or ValueError if it is forged."""
    fits = type(how) is str and how in SENTENCES and type(line) is int and 0 < line < 10**6
    fits = fits and all(each is None or (type(each) is np.ndarray and each.dtype == float) for each in (value, right))
    if not fits or not all(type(text) is str and text.isascii() and text.isprintable() for text in (function, name)):
        raise ValueError("not what find_line returns")
    return dict(how=how, line=line, function=function[:80], name=name[:80], value=value, right=right)


def _sentence(how, line, function, name, value, right):
    what, wrong = f"`{name}`" if name else "the returned value", _comparison(value, right) if how == "repaired" else ""
    return SENTENCES[how].format(line=line, function=function, what=what, wrong=wrong)


def _comparison(value, right):
    if value.shape != right.shape:
        return f"has shape {value.shape} in one example, not {right.shape}"
    wrong = ~_close(value, right, True)
    if wrong.size == 1:
        return f"is {value.item():.4g}, not {right.item():.4g}"
    with np.errstate(all="ignore"):
        off, ratios = np.abs(value - right)[wrong].max(), (value / right)[np.isfinite(right) & (right != 0)]
    if wrong.all() and ratios.size and ratios[0] and np.allclose(ratios, ratios[0], rtol=1e-3):
        return f"is {ratios[0]:.4g} times the right value"
    strange = "should be infinite" if np.isfinite(value).all() else "are infinite or NaN"
    return f"is wrong by up to {off:.3g}" if np.isfinite(off) else f"is wrong: some of its numbers {strange}"

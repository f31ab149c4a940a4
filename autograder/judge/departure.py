"""Find the line of an answer that departs from the known steps. Name the last right value and the first wrong value.

`autograder build` copies everything below this docstring into the set-up cell of every exercise notebook. The code
needs only NumPy. The record of `sandbox/guest/recorder.py` may come from a sandbox, so it may hold anything. No points
depend on the result.
"""

import itertools
import sys
from types import FunctionType

import numpy as np

from autograder.judge.compare import WrongAnswer, outcome, span
from autograder.sandbox.guest.recorder import MAX_ARRAY, MAX_TEXT, Recorder

# Steps that every right answer computes.
DUE = ("are the scaled scores", "are the weights", "are the normalised tokens")
MAX_TOOK = 1.0  # seconds; a function that took longer is not run again
MAX_BEFORE = 1  # if no value is a known step, a line is named only if at most this many lines precede it
MAX_TRIED = 2  # the line is looked for in at most this many cases
EMPTY = ("np.empty", "torch.empty")
HIDDEN = -1e8  # a score below this number counts as hidden, as -inf does
NOTHING, GIVEN, PART, STEP, SCALAR, ROWS, FACTOR, ORDER, UNKNOWN = range(9)  # kinds of values, from plain to strange


class Departure:
    """Where an answer departs from the known steps.

    Attributes:
        text: The message for the student.
        line: The first wrong line; None if it cannot be found.
        last_right: The last line whose value is right, if any.
        function: The name of the function that contains the line.
        outer: The line of the judged answer that called this function. If a variable caused an error, the line that
            assigned this variable. Else 0.
        raised: Whether the line raised an error and no line before it departs.
    """

    def __init__(self, text, line=None, last_right=None, function="", outer=0, raised=False):
        self.text, self.line, self.last_right, self.function, self.outer = text, line, last_right, function, outer
        self.raised = raised


def with_line(error, probed, names, recorder):
    """Add the wrong line to the error of a wrong answer, if this line can be found.

    Args:
        error: A `WrongAnswer`.
        probed: A function that returns the answer in the form that `outcome` calls.
        names: The names of the answer's results.
        recorder: Records values in the notebook of the answer; None if the answer is in no notebook.
    """
    if getattr(error, "mistake", "") is not None or not error.wrong:  # the mistake has a name, or no case is wrong
        return error
    if recorder is None or error.took > MAX_TOOK:
        return error
    try:
        return _with_line(error, probed, names, recorder)
    except KeyboardInterrupt:
        raise
    except BaseException:  # includes a lost kernel: the line is an extra, and no points depend on it
        return error


def _with_line(error, probed, names, recorder):
    tried = [(case, got, _steps_of(case)) for case, got in error.wrong[:12] if not got.get("unwritten")]
    tried.sort(key=lambda each: "error" in each[1] or each[2] is None)  # cases whose values can be compared come first
    for case, got, steps in tried[:MAX_TRIED]:
        with recorder:
            outcome(probed(), case["arguments"], names)
        located = departure(recorder.record(), case["arguments"], got, case["expected"], steps)
        if located is not None:
            return WrongAnswer(f"{error}\n{located.text}", None, error.wrong, located)
    return error


def _steps_of(case):
    """Return the steps of a case; None if it has none."""
    steps = None if "error" in case["expected"] else case.get("steps")
    return steps() if callable(steps) else steps


def recorder_of(written, left_alone=()):
    """Return a recorder for the notebook or file that defines a function or class; None if there is neither."""
    namespace = names_around(written)
    return None if namespace is None else Recorder(namespace, left_alone)


def names_around(written):
    """Return the names of the notebook or file that defines a function or class; None if there is neither."""
    while hasattr(written, "__wrapped__"):
        written = written.__wrapped__
    if type(written) is FunctionType:
        return written.__globals__
    module = sys.modules.get(getattr(written, "__module__", None))
    inside = [part.__globals__ for part in vars(written).values() if type(part) is FunctionType] if module else []
    return inside[0] if inside else None


@np.errstate(all="ignore")
def departure(record, arguments, got, expected, steps):
    """Say where a record departs from the steps of a case. `got` is the outcome of the answer in this case."""
    rows, returned, items, waiting, at, detached, checks = _read(record)
    raised = _of_error(rows, waiting, at, got) if "error" in got else None
    if "error" in expected:
        return _of_other_error(raised, expected, checks) if raised else None
    of_type = got.get("text", "").startswith(("returned ", "the function returned None"))
    if (of_type or (got.get("error") == "TypeError" and raised is None)) and (rows or at[0]):
        return _of_type(rows[returned]) if rows and returned >= 0 else _of_type(_Row(*at[:2], "", "", [], None, at[2]))
    if "error" in got and raised is None and "gradient" in got["text"]:
        return _of_detached(rows, detached)
    if not rows or ("error" in got and raised is None) or steps is None:
        return raised
    known = _Steps(steps, expected["arrays"], arguments)
    kinds = [known.kind_of(row.value) for row in rows]
    kinds = [_without_content(rows, kinds, i) or kind for i, kind in enumerate(kinds)]
    cleared = _cleared(rows, kinds)
    reached = _reached(rows, waiting or [len(rows) - 1] if raised or returned < 0 else [returned])
    suspect = _suspect(rows, kinds, cleared, reached)
    if raised is not None:
        if suspect is None and not raised.outer and got["error"] in ("RuntimeError", "ValueError"):  # shapes do not fit
            return _skipped_before(rows, kinds, waiting, known, raised) or raised
        if suspect is None or kinds[suspect][0] == ORDER:
            return raised
        departed = _departed(rows, kinds, suspect, known)
        if departed.line is None or departed.last_right is None:
            return raised
        text = f"{raised.text}\n{departed.text}"
        return Departure(text, departed.line, departed.last_right, departed.function, departed.outer)
    if suspect is None or not _operands(rows, kinds, suspect):  # no operand was recorded, for example of a `grad`
        other = _suspect(rows, kinds, cleared, range(len(rows) if suspect is None else suspect))
        suspect = suspect if other is None else other
    if suspect is None and returned >= 0:
        results = {
            name: j for name, j in zip(got["arrays"], items or [returned]) if _is_result(rows[j], got["arrays"][name])
        }
        place = _of_results(rows, kinds, results, known) or _of_shape(rows, kinds, results, known)
        return place or _of_last(rows, kinds, returned, known, detached)
    if suspect is None:
        return None
    return _departed(rows, kinds, suspect, known)


def _without_content(rows, kinds, i):
    """Return NOTHING or UNKNOWN for a value whose own numbers do not show its kind; None for all other values.

    An array that is not filled yet is NOTHING. An array of equal numbers is UNKNOWN if it was made from a step.
    """
    row = rows[i]
    sources = [rows[j] for j in row.operands if row.kind == "variable" and rows[j].text.startswith(EMPTY)]
    if row.text.startswith(EMPTY) or any(each.value is not None and row.value is not None for each in sources):
        return NOTHING, None, None
    value, made_so = row.value, any(word in row.text for word in ("like", "zeros", "ones", "eye", "full"))
    if (
        kinds[i][0] != NOTHING
        or value is None
        or value.dtype.kind != "f"
        or value.size < 4
        or made_so
        or row.kind == "part"
    ):
        return None
    made = [
        j for j in row.operands if kinds[j][0] in (STEP, ROWS, FACTOR, UNKNOWN) and rows[j].value.size == value.size
    ]
    return (UNKNOWN, None, None) if made and len(np.unique(value)) == 1 else None


class _Row:
    """A recorded value."""

    def __init__(self, line, function, text, kind, operands, value, outer):
        self.line, self.function, self.text, self.kind = line, function, text, kind
        self.operands, self.value, self.outer = operands, value, outer

    @property
    def quoted(self):
        text = self.text.removeprefix("return ")
        return f"`{text}`" if text.isascii() and "`" not in text else "its value"


def _read(record):
    """Return a record in parts; no rows if the record is invalid.

    Returns:
        The rows, the place of the returned row, the places of its items, the places of the operands of the expression
        that raised an error, the line that ran last, the places of detached values, and the lines with checks.
    """
    nothing = [], -1, [], [], (0, "", 0, {}), [], []
    try:
        rows = []
        if type(record) is not dict or type(record["rows"]) not in (list, tuple):
            return nothing
        for line, function, text, kind, operands, value, outer in record["rows"][:10_000]:
            fits = type(line) is type(outer) is int and all(type(each) is str for each in (function, text, kind))
            if not fits or not all(type(i) is int and 0 <= i < len(rows) for i in operands):
                return nothing
            value = (
                value if type(value) is np.ndarray and value.dtype.kind in "biuf" and value.size <= MAX_ARRAY else None
            )
            rows.append(
                _Row(line, function[:80], " ".join(text[:MAX_TEXT].split()), kind, list(operands), value, outer)
            )
        returned, (line, function, outer, parts) = record["returned"], record["at"]
        fits = (
            type(returned) is type(line) is type(outer) is int and type(function) is str and -1 <= returned < len(rows)
        )
        fits = fits and all(type(name) is str and type(number) is int for name, number in parts.items())
        parts = {name[:80]: number for name, number in list(parts.items())[:8] if name[:80].isascii()}
        waiting, items, detached = (
            [i for i in record[name][:50] if type(i) is int and 0 <= i < len(rows)]
            for name in ("open", "items", "detached")
        )
        checks = [(str(name)[:80], int(number)) for name, number in record["checks"][:50]]
        at = line, function[:80], outer, parts
        return (rows, returned, items, waiting, at, detached, checks) if fits else nothing
    except (AttributeError, KeyError, TypeError, ValueError):
        return nothing


class _Steps:
    """The known values: steps, results and arguments."""

    def __init__(self, steps, results, arguments):
        self.steps, self.known = [], {}
        self.results = {name: _real(array) for name, array in results.items()}
        for text, step in steps.items():
            array, *free = step if isinstance(step, (tuple, list)) else (step,)
            self.steps.append((text, _real(array), free))
        for name, array in results.items():
            right = _real(array)
            known = (
                any(_close(step, right) for _, step, _ in self.steps) or (right == np.round(right)).all()
            )  # whole numbers, such as a shape, are not a step
            if np.asarray(array).dtype.kind == "f" and right.size > 1 and not known:
                self.steps.append((f"is the right {name.replace('_', ' ')}", right, []))
        self.steps = [each for each in self.steps if each[1].size]
        self.due = [i for i, each in enumerate(self.steps) if each[0] in DUE or i >= len(steps)]
        self.sums = [_sums(array) for _, array, _ in self.steps]
        self.sorted = [np.sort(array, axis=None) for _, array, _ in self.steps]
        given = [_real(np.asarray(a)) for a in arguments if np.ndim(a) and np.asarray(a).dtype.kind in "biuf"]
        self.given = np.sort(np.concatenate([array.ravel() for array in given] or [np.zeros(0)]))

    def kind_of(self, value):
        """Return the kind of a value, the place of its step, and its factor; None if there is no step or factor."""
        if value is None or value.size == 0 or value.dtype.kind in "biu":
            return NOTHING, None, None
        key = value.shape, value.tobytes()
        if key not in self.known:
            self.known[key] = self._kind_of(_real(value))
        return self.known[key]

    def _kind_of(self, value):
        alike = [place for place, (_, step, _) in enumerate(self.steps) if step.size == value.size]
        sums = _sums(value) if alike else None
        for place in alike:
            if _near(sums, self.sums[place], 1e-3, 1e-3).all() and _transposed(value, self.steps[place][1]) is not None:
                return (UNKNOWN, None, None) if _is_half(value, self.steps[place][1]) else (STEP, place, None)
        few = value.ravel()[:50]
        if value.size > 1 and len(set(few.tolist())) <= 2 and len(np.unique(value)) <= 2:
            return NOTHING, None, None
        if value.size == 1 and float(value.ravel()[0]).is_integer():
            return NOTHING, None, None
        if _among(value, self.given):
            return GIVEN, None, None
        for place, (_, step, _) in enumerate(self.steps):
            if value.size != step.size and _among(value, self.sorted[place]):
                return PART, place, None
        if value.size == 1:
            return SCALAR, None, None
        for place in alike:
            _, step, free = self.steps[place]
            if free and _equal_but_rows(value, step, *free):
                return ROWS, place, None
        factors = [(place, _factor(value, self.steps[place][1])) for place in alike]
        factors = [(place, factor) for place, factor in factors if factor is not None]
        if factors:
            return FACTOR, *min(factors, key=lambda found: not _is_whole(found[1]))
        for place in alike:
            if value.size > 3 and _close(np.sort(value, axis=None), self.sorted[place]):
                return ORDER, place, None
        return UNKNOWN, None, None


def _real(array):
    array = np.array(array, dtype=float)
    array[array < HIDDEN] = -np.inf
    return array


def _near(one, other, relative=2e-4, absolute=2e-5):
    """Say which numbers are equal up to rounding; `np.isclose` takes five times as long."""
    return (
        (np.abs(one - other) <= absolute + relative * np.abs(other))
        | (one == other)
        | (np.isnan(one) & np.isnan(other))
    )


def _close(one, other):
    return one.shape == other.shape and bool(_near(one, other).all())


def _sums(array):
    finite = array[np.isfinite(array)]
    return np.array([finite.size, np.abs(finite).sum(), np.square(finite).sum()]) / (1 + np.abs(finite).max(initial=0))


def _transposed(value, step):
    """Return the order of a step's axes that gives a value; None if no order does."""
    value, step = np.squeeze(value), np.squeeze(step)
    if value.ndim != step.ndim or value.ndim > 5 or sorted(value.shape) != sorted(step.shape):
        return None
    for axes in itertools.permutations(range(step.ndim)):
        if _close(value, step.transpose(axes)):
            return axes
    return None


def _is_half(value, step=None):
    """Whether the numbers of a value have half precision. If the numbers of `step` have it too, return False."""
    half = value.size > 1 and np.array_equal(value.astype(np.float16), value, equal_nan=True)
    return half and (step is None or not _is_half(step))


def _among(value, numbers):
    """Whether every number of a value is in a sorted array."""
    if not numbers.size:
        return False
    flat = value.ravel()
    if flat.size > 1 and np.count_nonzero(flat) < max(2, 0.4 * flat.size):  # mostly zeros: not filled yet
        return False
    relative, absolute = (3e-5, 1e-6) if flat.size > 1 else (1e-5, 1e-7)  # one number may match by chance
    for some in (flat[:1], flat):
        place = np.searchsorted(numbers, some)
        after, before = numbers[np.minimum(place, numbers.size - 1)], numbers[np.maximum(place - 1, 0)]
        if not (_near(some, after, relative, absolute) | _near(some, before, relative, absolute)).all():
            return False
    return True


def _equal_but_rows(value, step, how, axis):
    """Whether a value equals a step, except for a number that is added to each row ("+") or multiplies each row ("*")."""
    for turned in (step, np.swapaxes(step, -1, -2) if step.ndim > 1 else step):
        if turned.shape == value.shape:
            mine = value if turned is step else np.swapaxes(value, -1, -2)
            both = ~((mine == step) & ~np.isfinite(step)) & ~((mine == 0) & (step == 0))
            ratio = np.where(both, mine - step if how == "+" else mine / step, np.nan)
            if np.isnan(ratio[both]).any() or not np.isfinite(ratio[both]).all():
                continue
            low, high = np.fmin.reduce(ratio, axis=axis), np.fmax.reduce(ratio, axis=axis)
            if np.allclose(low, high, rtol=1e-4, atol=1e-5 if how == "+" else 0, equal_nan=True):
                return True
    return False


def _factor(value, step):
    """Return the factor that turns a step into a value, in any order of the axes; None if there is none."""
    scale = np.abs(step[np.isfinite(step)]).max(initial=0)
    mine = np.abs(value[np.isfinite(value)]).max(initial=0)
    if not scale or not mine:
        return None
    for sign in (1, -1):
        factor = sign * mine / scale
        if _transposed(value / factor, step) is not None:
            return factor
    return None


def _is_whole(factor):
    return any(abs(number - round(number)) < 1e-3 * abs(number) for number in (factor, 1 / factor))


def _cleared(rows, kinds):
    """Return for each row whether a later step was made from this row. If so, the row did no harm."""
    cleared = [False] * len(rows)
    for i in reversed(range(len(rows))):
        if cleared[i] or kinds[i][0] in (STEP, PART):
            of_one = kinds[i][0] == PART and rows[i].value.size == 1 and not cleared[i]
            for operand in rows[i].operands:
                cleared[operand] = cleared[operand] or not of_one or kinds[operand][0] in (SCALAR, PART)
    return cleared


def _reached(rows, ends):
    """Return the ends and all rows that lead to them, in order."""
    reached, waiting = set(), list(ends)
    while waiting:
        i = waiting.pop()
        if i not in reached:
            reached.add(i)
            waiting += rows[i].operands
    return sorted(reached)


def _suspect(rows, kinds, cleared, among):
    """Return the first strange value whose operands are not strange; None if there is none."""
    among = [i for i in among if not cleared[i] and kinds[i][0] > SCALAR]
    for kind in (UNKNOWN, ORDER, FACTOR, ROWS):
        for i in among:
            if kinds[i][0] == kind:
                return _cause_of(rows, kinds, cleared, i)
    return None


def _cause_of(rows, kinds, cleared, i):
    """Go back from a strange value to the first strange value that caused it."""
    while True:
        kind = kinds[i][0]
        before = [j for j in _operands(rows, kinds, i) if not cleared[j]]
        worse = [j for j in before if kinds[j][0] in (UNKNOWN, ORDER, FACTOR)]
        known = [j for j in _operands(rows, kinds, i) if kinds[j][0] in (GIVEN, PART, STEP)]
        if kind == SCALAR or _is_partial(rows[i]) or (known and len(known) < 3):
            worse += [j for j in before if kinds[j][0] == SCALAR and not rows[j].text.startswith("self.")]
        if kind == UNKNOWN and not np.isfinite(rows[i].value).all():
            worse += [j for j in before if kinds[j][0] == ROWS]
        if not worse:
            return i
        i = min(worse)


def _is_partial(row):
    """Whether a row is the value of a variable after a part of this variable was changed, as in a loop."""
    return row.kind == "part"


def _operands(rows, kinds, i):
    """Return the operands of a value. An operand of the kind NOTHING is replaced by its own operands."""
    operands, waiting, known = [], list(rows[i].operands), set()
    while waiting:
        j = waiting.pop()
        if j in known:
            continue
        known.add(j)
        if kinds[j][0] == NOTHING:
            waiting += rows[j].operands
        else:
            operands.append(j)
    return operands


def _named(rows, i):
    """Return the row of the variable that stores a value in the same line; if there is none, the row of the value."""
    for j in range(i + 1, min(len(rows), i + 6)):
        same = rows[j].kind in ("variable", "part") and i in rows[j].operands and rows[j].line == rows[i].line
        if same and rows[j].value is not None and np.array_equal(rows[j].value, rows[i].value, equal_nan=True):
            return j
    return i


def _last_right(rows, kinds, i):
    """Return the last step before a row, preferably one from which the row was made."""
    for among in (_reached(rows, [i])[:-1], range(i)):
        right = [j for j in among if kinds[j][0] in (STEP, PART, ROWS)]
        if right:
            return max(right, key=lambda j: (kinds[j][0] == STEP, kinds[j][0] == PART, j))
    return None


def _departed(rows, kinds, i, known):
    """Say which line departs, and which right line is before it."""
    if (skipped := _skipped(rows, kinds, i, known)) is not None:
        return skipped
    last_right = _last_right(rows, kinds, i)
    if last_right is None and kinds[i][0] in (UNKNOWN, SCALAR) and len(_lines_before(rows, kinds, i)) > MAX_BEFORE:
        return Departure("None of its values is a known step of a right answer, so we cannot name the wrong line.")
    shown, sentences = rows[_named(rows, i)], []
    if last_right is not None:
        right = rows[_named(rows, last_right)]
        sentences.append(f"{_place(right, shown)}: {right.quoted} {_what(known, kinds[last_right])}.")
    fact = _fact(rows[i], kinds[i], known, kinds[last_right][1] if last_right is not None else -1)
    called = f" (called in line {shown.outer})" if shown.outer else ""
    sentences.append(
        f"{_place(shown, shown)}{called}: {shown.quoted} is the first value that is not a known step of a right answer.{fact}"
    )
    if last_right is None:
        sentences.append("No value before it is a known step of a right answer.")
    right_line = None if last_right is None else rows[last_right].line
    return Departure("\n".join(sentences), shown.line, right_line, shown.function, shown.outer)


def _lines_before(rows, kinds, i):
    """Among the lines before a value, return those that computed something."""
    made = [row for row, (kind, *_) in zip(rows[:i], kinds) if kind > (GIVEN if row.kind == "value" else NOTHING)]
    return {(row.function, row.line) for row in made if row.function != rows[i].function or row.line < rows[i].line}


def _skipped(rows, kinds, i, known):
    """If a strange value was made without a required step, say after which value this step was skipped."""
    reached = {kind[1] for kind in kinds if kind[0] in (STEP, PART)}
    due = next((place for place in known.due if place not in reached), None)
    value = rows[i].value
    if due is None or kinds[i][0] != UNKNOWN or not value.ndim:
        return None
    step = known.steps[due][1]
    later = known.steps[due][0] == DUE[0] and ("softmax" in rows[i].text or "exp(" in rows[i].text)
    if not step.ndim or (not later and value.shape[-1] in (1, *step.shape[-2:])):  # this may be an attempt at the step
        return None
    for j in sorted(_operands(rows, kinds, i), reverse=True):
        before = kinds[j][0] in (STEP, PART, ROWS, FACTOR) and kinds[j][1] < due
        whole = value.ndim == step.ndim and rows[j].value.size == step.size
        if before and (whole or (value.ndim == 1 and rows[j].value.shape == step.shape[-1:])):
            row, noun = rows[_named(rows, j)], _noun(known, due)
            last = next((n for n in range(i - 1, j, -1) if j in rows[n].operands and rows[n].kind == "variable"), None)
            row = row if last is None or not np.array_equal(rows[last].value, rows[j].value) else rows[last]
            fact = _times(known, kinds[j]) if kinds[j][0] == FACTOR else _what(known, kinds[j])
            text = f"Line {row.line}: {row.quoted} {fact}. No line computes {noun}, the next step."
            return Departure(text, row.line, row.line, row.function, row.outer)
    return None


def _skipped_before(rows, kinds, waiting, known, raised):
    """If a required step is missing before an error, say which operand of the failing line is from before this step."""
    reached = {kind[1] for kind in kinds if kind[0] in (STEP, PART)}
    due = next((place for place in known.due if place not in reached), None)
    for j in waiting if due is not None else ():
        row = rows[_named(rows, j)]
        early = kinds[j][0] == STEP and kinds[j][1] < due and rows[j].value.size != known.steps[due][1].size
        later = [n for n in waiting if early and kinds[n][0] == STEP and kinds[n][1] > kinds[j][1]]
        if not later and early and row.kind == "variable" and row.line < raised.line:
            text = f"Line {row.line}: {row.quoted} {_what(known, kinds[j])}. No line computes {_noun(known, due)}."
            return Departure(f"{raised.text}\n{text}", row.line, row.line, row.function, row.outer)
    return None


def _is_result(row, result):
    """Whether the function itself returned this result. A test may compute other results, for example a gradient."""
    return row.value is not None and _close(_real(row.value), _real(result))


def _of_results(rows, kinds, results, known):
    """Say which result is a known step other than the expected one. `results` holds the rows of the results."""
    for name, j in results.items():
        due = f"is the right {name.replace('_', ' ')}"
        right = known.results.get(name)
        if name.startswith("gradient"):  # no line of the function returned it
            continue
        if right is None or kinds[j][0] not in (STEP, ROWS, FACTOR) or _close(_real(rows[j].value), right):
            continue
        same = [n for n in range(j, len(rows)) if rows[n].kind == "variable" and rows[n].value is not None]
        same = [n for n in same if np.array_equal(rows[n].value, rows[j].value, equal_nan=True)]
        row = rows[same[-1] if same else j]
        text = f"Line {row.line}: {row.quoted} {_what(known, kinds[j])}, but you return this value as {due.split(' ', 3)[3]}."
        return Departure(text, row.line, None, row.function, row.outer)
    return None


def _of_shape(rows, kinds, results, known):
    """Say which line gives a result its wrong shape. If a right value has this shape, name the line that uses it."""
    for name, j in results.items():
        right, value = known.results.get(name), rows[j].value
        if right is None or value is None or value.shape == right.shape:
            continue
        while same := [i for i in rows[j].operands if getattr(rows[i].value, "shape", None) == value.shape]:
            if kinds[min(same)][0] in (GIVEN, STEP, ROWS):
                break
            j = min(same)
        row = rows[_named(rows, j)]
        noun = name.replace("_", " ")
        text = f"Line {row.line}: {row.quoted} has shape {value.shape}. The shape of the right {noun} is {right.shape}."
        return Departure(text, row.line, None, row.function, row.outer)
    return None


def _place(row, other):
    """Say where a value is. Name its function only if the other row is in a different function."""
    return f"Line {row.line}" if row.function == other.function else f"In {row.function}, line {row.line}"


def _what(known, kind):
    """Say which step a value is."""
    if kind[0] == PART:
        return f"holds some of {_noun(known, kind[1])}"
    return known.steps[kind[1]][0] + (", except for a constant in each row" if kind[0] == ROWS else "")


def _times(known, kind):
    """Say which step a value is a multiple of."""
    return f"equals {_noun(known, kind[1])} times {kind[2]:.4g}"


def _fact(row, kind, known, after):
    """Return sentences with more facts about a value that departs."""
    if kind[0] == FACTOR:
        return f" It {_times(known, kind)}."
    if kind[0] == ORDER:
        return f" It holds the numbers of {_noun(known, kind[1])}, in another order."
    if kind[0] == ROWS:
        return f" It equals {_noun(known, kind[1])} except for a constant in each row."
    value, facts = _real(row.value), []
    alike = [step for _, step, _ in known.steps if step.shape == value.shape and _near(value, step, 2e-3, 1e-3).all()]
    if any(_is_half(value, step) for step in alike):
        return " Its numbers have only half precision (float16)."
    strange = np.sum(np.isnan(value) | (value == np.inf))
    if strange:
        return f" Of its {value.size} numbers, {strange} are NaN or infinite."
    later = [each for each in known.steps[after + 1 :] if each[1].shape == value.shape]
    for text, step, _ in later:
        noun = text.split(" ", 1)[1]
        same = _near(value, step)
        first = [j for j in range(len(step)) if step.ndim > 2 and same[j].all()]
        if first:
            which = ", ".join(map(str, first[:4]))
            return f" It equals {noun} only at index {which} of the first axis."
        if np.isneginf(step).any() and np.isfinite(value[np.isneginf(step)]).all():
            facts.append(" It is finite where the mask hides keys.")
            break
        if same.mean() > 0.3:
            facts.append(f" It equals {noun} at {same.sum()} of {same.size} places.")
            break
    if value.ndim > 1 and (value >= 0).all() and len(value.ravel()) > 3:
        sums = [(words, value.sum(axis=axis)) for words, axis in (("columns", -2), ("rows", -1))]
        ones = [words for words, some in sums if np.allclose(some, 1, atol=1e-4)]
        if ones or (value <= 1).all():
            facts += [f" Its {words} sum to {span(some)}." for words, some in sums]
    shapes = {each[1].shape for each in known.steps[after + 1 :]}
    if shapes and value.shape not in shapes:
        facts.append(f" Its shape is {value.shape}.")
    return "".join(facts)


def _noun(known, place):
    return known.steps[place][0].split(" ", 1)[1]


def _of_last(rows, kinds, returned, known, detached):
    """Say that all known steps are right, and the returned value is wrong."""
    row, value = rows[returned], rows[returned].value
    if kinds[returned][0] == STEP and any(_close(_real(value), step) for _, step, _ in known.steps):
        text = "All known steps are right. Is something detached, so that no gradient flows back?"
        return _of_detached(rows, detached) or Departure(text)
    if any(kind[0] == STEP for kind in kinds):
        sentence = f"all known steps before it are right, but {row.quoted} gives other values, or another order"
    elif value is not None and any(value.size == right.size for right in known.results.values()):
        sentence = f"{row.quoted} holds values of the arguments, in a wrong order or shape"
        if len(_lines_before(rows, kinds, returned)) > MAX_BEFORE:
            return Departure("The result holds values of the arguments, in a wrong order or shape.")
    else:
        return None
    return Departure(f"Line {row.line}: {sentence}.", row.line, None, row.function, row.outer)


def _of_detached(rows, detached):
    """Say which value is the first through which no gradient flows back; return None if there is none."""
    if not detached:
        return None
    row = rows[_named(rows, detached[0])]
    text = f"Line {row.line}: no gradient flows back through {row.quoted}, but one must."
    return Departure(text, row.line, None, row.function, row.outer)


def _of_type(row):
    """Say that the returned value has a wrong type."""
    name = row.quoted if row.text else "the result"
    return Departure(f"Line {row.line}: {name} has a wrong type.", row.line, None, row.function, row.outer)


def _of_other_error(raised, expected, checks):
    """Say which line raised an error other than the specified one, and which check before it let these arguments pass."""
    before = [line for name, line in checks if name == raised.function and line < raised.line]
    text = f"{raised.text}\nCheck the arguments before this line, and raise {expected['error']}."
    text += f" The check in line {before[-1]} let these arguments pass." if before else ""
    return Departure(text, raised.line, None, raised.function, raised.outer, raised=True)


def _of_error(rows, waiting, at, got):
    """Say which line raised an error, with the shapes of its operands."""
    if got.get("unwritten") or not at[0]:
        return None
    shapes = [
        f"{rows[i].quoted} has shape {rows[i].value.shape}"
        for i in waiting
        if rows[i].value is not None and rows[i].value.ndim
    ]
    details = f": {', '.join([*dict.fromkeys(shapes)][:3])}" if shapes else ""
    called = f", called in line {at[2]}," if at[2] else ""
    name, set_in = _attribute(at[3], [rows[i].text for i in waiting], got)
    details += f"; `{name}` was set in line {set_in}" if set_in else f"; no line sets `{name}`" if name else ""
    text = f"Line {at[0]} of {at[1]}{called} raised the error{details}."
    return Departure(text, at[0], None, at[1], at[2] or set_in, raised=True)


def _attribute(lines, computed, got):
    """Return the attribute of `self` that caused an error, and the line that set it; 0 if no line did.

    Args:
        lines: The attributes that the line of the error reads, in order, with the lines that set them.
        computed: The expressions of this line that were computed before the error.
        got: The outcome with the error.
    """
    missing = [name for name, line in lines.items() if not line and f"'{name[5:]}'" in got["text"]]
    if missing and got["error"] == "AttributeError":
        return missing[0], 0
    used = [name for name, line in lines.items() if line and not any(text.startswith(name) for text in computed)]
    name = used[-1] if used else ""
    return name, lines.get(name, 0)

"""Compare a value that an answer computes with the known steps of a right answer.

The code needs only NumPy.
"""

import itertools

import numpy as np

# Steps that every right answer computes.
DUE = ("are the scaled scores", "are the weights", "are the normalised tokens")
TINY = 1e-6  # a smaller number says nothing: each value has many such differences
HIDDEN = -1e8  # a score below this number counts as hidden, as -inf does
NEUTRAL, GIVEN, PART, STEP, SCALAR, BUT_ROWS, FACTOR, ORDER, UNKNOWN = range(
    9
)  # kinds of values, from plain to strange


class Steps:
    """The known values: steps, results and arguments."""

    def __init__(self, steps, results, arguments):
        self.steps, self.kinds = [], {}
        self.results = {name: real(array) for name, array in results.items()}
        for text, step in steps.items():
            array, *free = step if isinstance(step, (tuple, list)) else (step,)
            self.steps.append((text, real(array), free))
        for name, array in results.items():
            right = real(array)
            known = (
                any(close(step, right) for _, step, _ in self.steps) or (right == np.round(right)).all()
            )  # whole numbers, such as a shape, are not a step
            if np.asarray(array).dtype.kind == "f" and right.size > 1 and not known:
                self.steps.append((f"is the right {name.replace('_', ' ')}", right, []))
        self.steps = [each for each in self.steps if each[1].size]
        self.due = [i for i, each in enumerate(self.steps) if each[0] in DUE or i >= len(steps)]
        self.sums = [_sums(array) for _, array, _ in self.steps]
        self.sorted = [np.sort(array, axis=None) for _, array, _ in self.steps]
        given = [real(np.asarray(a)) for a in arguments if np.ndim(a) and np.asarray(a).dtype.kind in "biuf"]
        self.given_shapes = [np.shape(argument) for argument in arguments]
        self.shapes = [each[1].shape for each in self.steps] + self.given_shapes
        self.given = np.sort(np.concatenate([array.ravel() for array in given] or [np.zeros(0)]))

    def has_shape_of(self, value):
        """Whether a step or an argument, or one image or head of it, has the shape of a value.

        The order of the axes and axes of size 1 do not matter.
        """
        shape = sorted(n for n in value.shape if n > 1)
        parts = (each[start:] for each in self.shapes for start in range(len(each)))
        return not shape or any(shape == sorted(n for n in each if n > 1) for each in parts)

    def kind_of(self, value):
        """Return the kind of a value, the place of its step, and its factor; None if there is no step or factor."""
        if value is None or value.size == 0 or value.dtype.kind in "biu":
            return NEUTRAL, None, None
        key = value.shape, value.tobytes()
        if key not in self.kinds:
            self.kinds[key] = self._kind_of(real(value))
        return self.kinds[key]

    def _kind_of(self, value):
        alike = [place for place, (_, step, _) in enumerate(self.steps) if step.size == value.size]
        sums = _sums(value) if alike else None
        for place in alike:
            step = self.steps[place][1]
            if near(sums, self.sums[place], 1e-3, 1e-3).all() and (
                transposed(value, step) is not None or is_merged(value, step)
            ):
                return (UNKNOWN, None, None) if is_half(value, self.steps[place][1]) else (STEP, place, None)
        few = value.ravel()[:50]
        if value.size > 1 and len(set(few.tolist())) <= 2 and len(np.unique(value)) <= 2:
            return NEUTRAL, None, None
        number = abs(float(value.ravel()[0]))
        if value.size == 1 and (number.is_integer() or not TINY < number < np.inf):
            return NEUTRAL, None, None
        if among(value, self.given):
            return GIVEN, None, None
        for place, (_, step, _) in enumerate(self.steps):
            if value.size != step.size and among(value, self.sorted[place]):
                return PART, place, None
        if value.size == 1:
            return SCALAR, None, None
        for place in alike:
            _, step, free = self.steps[place]
            if free and _equal_but_rows(value, step, *free):
                return BUT_ROWS, place, None
        factors = [(place, _factor(value, self.steps[place][1])) for place in alike]
        factors = [(place, factor) for place, factor in factors if factor is not None]
        if factors:
            return FACTOR, *min(factors, key=lambda found: not _is_whole(found[1]))
        for place in alike:
            if value.size > 3 and close(np.sort(value, axis=None), self.sorted[place]):
                return ORDER, place, None
        return UNKNOWN, None, None

    def noun(self, place):
        """Return the name of a step: "the scaled scores"."""
        return self.steps[place][0].split(" ", 1)[1]

    def what(self, kind):
        """Say which step a value is."""
        if kind[0] == PART:
            return f"holds some of {self.noun(kind[1])}"
        return self.steps[kind[1]][0] + (", except for a constant in each row" if kind[0] == BUT_ROWS else "")

    def times(self, kind):
        """Say which step a value is a multiple of."""
        return f"equals {self.noun(kind[1])} times {kind[2]:.4g}"


def real(array):
    """Return an array of floats in which each hidden score is -inf."""
    array = np.array(array, dtype=float)
    array[array < HIDDEN] = -np.inf
    return array


def near(one, other, relative=2e-4, absolute=2e-5):
    """Say which numbers are equal up to rounding; `np.isclose` takes five times as long."""
    return (
        (np.abs(one - other) <= absolute + relative * np.abs(other))
        | (one == other)
        | (np.isnan(one) & np.isnan(other))
    )


def close(one, other):
    """Whether two arrays have one shape, and are equal up to rounding."""
    return one.shape == other.shape and bool(near(one, other).all())


def _sums(array):
    finite = array[np.isfinite(array)]
    return np.array([finite.size, np.abs(finite).sum(), np.square(finite).sum()]) / (1 + np.abs(finite).max(initial=0))


def transposed(value, step):
    """Return the order of a step's axes that gives a value; None if no order does."""
    value, step = np.squeeze(value), np.squeeze(step)
    if value.ndim != step.ndim or value.ndim > 5 or sorted(value.shape) != sorted(step.shape):
        return None
    for axes in itertools.permutations(range(step.ndim)):
        if close(value, step.transpose(axes)):
            return axes
    return None


def is_merged(value, step):
    """Whether a value is a step with its leading axes merged or split, such as images and heads in one axis."""
    fits = value.ndim > 1 and value.size == step.size and value.shape[-2:] == step.shape[-2:]
    return fits and close(value.reshape(step.shape), step)


def is_half(value, step=None):
    """Whether the numbers of a value have half precision. If the numbers of `step` have it too, return False.

    Whole numbers, and numbers of at most six bits such as 0.75, have every precision.
    """
    half = value.size > 1 and np.array_equal(value.astype(np.float16), value, equal_nan=True)
    exact = [(numbers == np.round(numbers)).all() for numbers in (value, np.frexp(value)[0] * 2**6)]
    return half and not any(exact) and (step is None or not is_half(step))


def among(value, numbers):
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
        if not (near(some, after, relative, absolute) | near(some, before, relative, absolute)).all():
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
        if transposed(value / factor, step) is not None:
            return factor
    return None


def _is_whole(factor):
    return any(abs(number - round(number)) < 1e-3 * abs(number) for number in (factor, 1 / factor))

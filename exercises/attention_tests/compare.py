"""Compare the result of a function with the right one, and name the mistake.

The code needs only NumPy.
"""

import base64
import inspect
import io
import sys
import time
import traceback
from types import FunctionType

import numpy as np

from attention_tests.unwritten import unwritten

UNWRITTEN = "not written yet."
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}  # float32 keeps 5 digits after dozens of sums and products


class WrongAnswer(AssertionError):
    """The error for a wrong answer. It holds the likely mistake, if one is known, and the failed cases."""

    def __init__(self, text, mistake=None, wrong=(), found=None):
        super().__init__(text)
        self.mistake = mistake  # "M6", or None
        self.wrong = wrong  # the failed cases with their outcomes
        self.found = found  # what `line.find_line` returned, if we looked for the line

    @property
    def _render_traceback_(self):
        """In Jupyter, IPython shows what this function returns: the message, without the lines of the test.

        Without Jupyter's kernel there is no such function, and the usual traceback names the cell's line.
        """
        if not hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel"):
            raise AttributeError("_render_traceback_")
        return lambda: [f"{type(self).__name__}: {self}"]


class Measured(dict):
    """Results by name. `outcome` uses these names; it rejects a dictionary that a student returns."""


def ask_plainly(function, *arguments, **keywords):
    """Ask an answer that takes arrays and returns arrays."""
    return function(*arguments, **keywords)


def read_plainly(results, *_arguments):
    """Return results that need no reading."""
    return results


def names_around(written):
    """Return the names of the notebook or file that defines a function or class; None if it is not in this process."""
    parts = vars(written).values() if isinstance(written, type) else [written]
    return next((each.__globals__ for each in map(inspect.unwrap, parts) if type(each) is FunctionType), None)


def of_one_shape(*arrays):
    """Return arrays of one shape. Refuse others: they would be repeated to fit, and could fill the memory."""
    shapes = [tuple(array.shape) for array in arrays]
    if len(set(shapes)) > 1:
        raise ValueError(f"expected results of one shape, got {', '.join(map(str, dict.fromkeys(shapes)))}")
    return arrays


def asked(ask, read, *written):
    """Return an answer as a function of arrays that returns arrays.

    Args:
        ask: Runs next to the answer: it takes the answer and arrays, and returns arrays and other plain values.
        read: Makes the results that are compared, from what `ask` returns and the same arrays.
        written: The answer, and what else of its notebook `ask` needs. An answer that runs in another process has a method
            `asked`, which runs `ask` there.
    """
    there = getattr(type(written[0]), "asked", None)
    run = ask if there is None else lambda answer, *others: there(answer, ask, *others)
    return lambda *arguments: read(run(*written, *arguments), *arguments)


@np.errstate(all="ignore")
def outcome(function, arguments, names):
    """Call a function on copies of arguments. Return its arrays by name, and whether it changed a copy; or its error."""
    given = [np.array(argument) if np.ndim(argument) else argument for argument in arguments]
    try:
        results = function(*given)
        if results is None:
            raise TypeError("the function returned None. Does it end with return?")
        names, results = zip(*results.items()) if not names or type(results) is Measured else (names, results)
        results = results if isinstance(results, (tuple, list) if len(names) > 1 else tuple) else (results,)
        results = [result.detach().cpu().numpy() if hasattr(type(result), "detach") else result for result in results]
        if [isinstance(result, (np.ndarray, np.number, np.bool_)) for result in results] != [True] * len(names):
            kinds = ", ".join(type(result).__name__ for result in results)
            raise TypeError(f"returned {kinds}; expected {len(names)} array(s): {', '.join(names)}")
        kinds = [bool if result.dtype == bool else float for result in results]  # a bool is shown as yes or no
        arrays = [np.array(np.real_if_close(r), dtype=object).astype(kind) for r, kind in zip(results, kinds)]
    except Exception as error:
        kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
        text = str(error).partition("\nException raised from")[0]  # PyTorch's own calls in C++ may follow
        return {"error": kind, "text": f"{text}{place_of(error)}", "unwritten": unwritten(error)}
    return {"arrays": dict(zip(names, arrays)), "changed": not all(map(np.array_equal, arguments, given))}


def timed(run, *arguments):
    """Return the outcome of a run, with the seconds that it took."""
    begun = time.perf_counter()
    return run(*arguments) | {"took": time.perf_counter() - begun}


def place_of(error):
    """Say which line of a notebook's cell raised an error; return "" outside a notebook."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if "ipy" in f.filename.partition("site-packages")[0]]
    return f" (in {own[-1].name}, line {own[-1].lineno}: {own[-1].line})" if own else ""


def fingerprint(got):
    """Condense each array to one number, to save space: the sum of its entries with the weights 1, cos 1, cos 2 …"""
    flat = [np.nan_to_num(array.ravel(), nan=9, posinf=8, neginf=7) for array in got.get("arrays", {}).values()]
    return [float(entries @ np.cos(np.arange(entries.size))) for entries in flat] + [float(got.get("changed", 0))]


def alike(mine, other, part=None):
    """Are two fingerprints equal? With `part`, only the numbers at these places count."""
    places = part or range(len(other))
    return len(mine) == len(other) > 0 and all(abs(mine[i] - other[i]) <= 2e-5 + 1e-4 * abs(other[i]) for i in places)


@np.errstate(all="ignore")
def difference(got, expected, show):
    """Say how an outcome differs from the expected one; return "" if they agree. With `show`, also list the numbers."""
    if "error" in got or "error" in expected:
        if got.get("error") == expected.get("error"):
            return ""
        if got.get("unwritten"):
            called, missing = got["unwritten"]
            other = f"{called} calls {missing}, which is not written yet. Write it first."
            return UNWRITTEN if called == missing else other
        what = f"{got['error']}: {got['text']}" if "error" in got else "a result"
        return f"Expected {expected.get('error', 'a result')}, got {what}"
    for name, right in expected["arrays"].items():
        words, says_yes = name.replace("_", " "), np.asarray(right).dtype == bool
        mine, right = got["arrays"][name].astype(float), np.asarray(right, float)
        if mine.shape != right.shape:
            return f"{words}: expected shape {right.shape}, got {mine.shape}."
        wrong = wrong_in(right, mine)
        if not wrong.any():
            continue
        if says_yes and np.isfinite(mine).all():
            first = tuple(np.argwhere(wrong)[0])
            pair = [("no", "yes")[int(right[first])], {0: "no", 1: "yes"}.get(float(mine[first]), "something else")]
            where = f" at {wrong.sum()} of {wrong.size} places" if wrong.size > 1 else ""
            return f"{words}: expected {pair[0]}, got {pair[1]}{where}"
        if words.startswith("shape") or (right.ndim == 0 and (show or not (mine % 1 or right % 1))):
            pair = [array.ravel() for array in (right, mine)]
            pair = [np.trim_zeros(array, "b") for array in pair] if words.startswith("shape") else pair  # missing axes
            sizes = [" × ".join(f"{number:.4g}" for number in array) or "nothing" for array in pair]
            return f"{words}: expected {sizes[0]}, got {sizes[1]}"  # whole numbers are counts, and may be shown
        strange, sums, off = np.sum(~np.isfinite(mine[wrong])), mine.sum(axis=-1), np.abs(mine - right)[wrong].max()
        text = f"{np.sum(wrong)} of {mine.size} numbers are wrong, " * (mine.size > 1)
        text += f"{strange} of them NaN or infinite" if strange else f"off by up to {off:.3g}"
        text += f"; the rows sum to {span(sums)}" if name == "weights" and not strange else ""
        return f"{words}: {text}." + (extract(mine, right, wrong) if show else "")
    return "An argument was changed in place." if got["changed"] else ""


def span(numbers):
    """Return the smallest and the largest number, or one number if both print the same."""
    return " … ".join(dict.fromkeys(f"{number:.3g}" for number in (numbers.min(), numbers.max())))


def extract(mine, right, wrong):
    """Show at most four rows and columns of two arrays, from the first wrong number on; a star marks each wrong one."""
    table = [np.atleast_2d(array).reshape(-1, *np.atleast_2d(array).shape[-2:]) for array in (right, mine, wrong)]
    image, *first = np.argwhere(table[2])[0]
    row, column = (max(0, min(place, size - 4)) for place, size in zip(first, table[2].shape[1:]))
    right, mine, wrong = (array[image, row : row + 4, column : column + 4] for array in table)
    text = "" if wrong.size == table[2].size else f"\nThe part of matrix {image} from row {row} and column {column} on:"
    form = "11.6g" if any(f"{a:.3g}" == f"{b:.3g}" for a, b in zip(right[wrong], mine[wrong])) else "8.3g"
    for title, array, stars in (("Expected", right, wrong & False), ("got", mine, wrong)):
        lines = [" ".join(f"{n:{form}}{' *'[int(s)]}" for n, s in zip(*pair)).rstrip() for pair in zip(array, stars)]
        text += f"\n{title}\n" + "\n".join(lines)
    return text


@np.errstate(all="ignore")
def draw(text, got, expected):
    """In a notebook, draw the first wrong matrix next to the right one, at most 16 × 16; a cross is a wrong number."""
    if getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)() is None:  # not in a notebook
        return
    pairs = [(np.asarray(right), got[name]) for name, right in expected.items()]
    right, mine = next((p for p in pairs if p[0].shape != p[1].shape or wrong_in(*p).any()), pairs[0])
    if mine.shape != right.shape or mine.ndim < 2 or min(mine.shape[-2:]) < 2 or not wrong_in(right, mine).any():
        return
    image = tuple(np.argwhere(wrong_in(right, mine))[0][:-2])
    right, mine = right[image][:16, :16], mine[image][:16, :16]
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure, picture = Figure(figsize=(6, 3), facecolor="white"), io.BytesIO()
    finite = np.concatenate([right[np.isfinite(right)], mine[np.isfinite(mine)], [0]])
    for axes, title, numbers in zip(figure.subplots(1, 2), ("expected", "yours: × is wrong"), (right, mine)):
        axes.imshow(numbers, vmin=finite.min(), vmax=finite.max(), cmap="gray_r")
        axes.set(title=title, xticks=range(numbers.shape[1]), yticks=range(numbers.shape[0]))
    axes.plot(*np.nonzero(wrong_in(right, mine))[::-1], "x", color="tab:red", linestyle="none")
    figure.savefig(picture, format="png", dpi=80)
    data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": text}
    sys.modules["IPython"].display.publish_display_data(data, {"image/png": {"alt": text}})


def wrong_in(right, mine):
    """Say which numbers differ by more than rounding."""
    return ~np.isclose(mine, right, **TOLERANCE)


def judge(function, names, cases, messages, show=True, book=""):
    """Raise a WrongAnswer if the function is wrong in a case. Name the first such case, and the likely mistake."""
    got = [timed(outcome, function, case["arguments"], names) for case in cases]
    texts = [difference(g, case["expected"], show) for g, case in zip(got, cases)]
    tried = list(zip(cases, got, map(fingerprint, got), texts))
    for case, mine, prints, text in tried:
        if text:
            fits = fitting(case, mine, prints, tried, names)
            best = {name.split("/")[0] for name in fits if fits[name] == max(fits.values())}  # M10/2: a variant of M10
            strange = "error" not in mine and ("error" in case["expected"] or "NaN" in text)  # no numbers to compare
            others = [c.get("default_mistake") for c, _, _, t in tried if t]
            refused = case.get("mistake_if_refused") if mine.get("error") == "ValueError" else None
            best = best or ({case.get("default_mistake"), *filter(None, others)} if strange else {refused})
            mistake = best.pop() if len(best) == 1 else None  # no name if two mistakes fit equally well
            link = f"\n{book}#{mistake.lower()}" if book and mistake else ""
            text = (f"{messages[mistake]}\n" if mistake else "") + f"{case['name']}: {text}{link}"
            if show and "arrays" in mine and "arrays" in case["expected"]:
                draw(text, mine["arrays"], case["expected"]["arrays"])
            raise WrongAnswer(text, mistake, [(c, g) for c, g, _, t in tried if t])


def fitting(case, mine, prints, tried, names):
    """Return the mistakes that give this outcome, each with the number of cases that it explains."""
    part, fits = part_of(case, names), {}
    for name, wrong_prints in (case["mistakes"] if "arrays" in mine else {}).items():
        if alike(prints, wrong_prints, part):
            fits[name] = alike(prints, wrong_prints) / 2  # more if it also gives the results that the case ignores
            for c, g, m, t in tried:  # an error or a right result may hide the mistake in other cases
                fits[name] += alike(m, c["mistakes"][name]) if name in c["mistakes"] else not t or "error" in g
    return {name: count for name, count in fits.items() if has_support(name, fits, tried, names)}


def part_of(case, names):
    """Return the places in a fingerprint that a case asks for; None for all."""
    kept = case["expected"].get("arrays", names)
    return [i for i, name in enumerate(names) if name in kept] + [-1] if set(kept) <= set(names) else None


def has_support(name, fits, tried, names):
    """Do most cases vote for a mistake? A wrong result votes for it if one of its variants gives the same result."""
    variants, votes = [each for each in fits if each.split("/")[0] == name.split("/")[0]], 0
    for case, got, prints, text in tried:
        wrong_prints, part = [case["mistakes"].get(variant, ()) for variant in variants], part_of(case, names)
        if text and "arrays" in got:
            votes += 1 if any(alike(prints, each, part) for each in wrong_prints) else -max(any(wrong_prints), 0.5)
        elif not text:  # a yes or a no is weaker evidence than numbers
            votes -= all(wrong_prints) / (1 + ({a.dtype.kind for a in got.get("arrays", {}).values()} == {"b"}))
    return votes > 0

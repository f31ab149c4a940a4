"""Compare what a function gives with what it should give, and name the mistake.

`autograder build` copies all below this docstring into the set-up cell of every exercise notebook: it needs NumPy alone.
"""

import numpy as np

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}  # float32 keeps 5 digits after dozens of sums and products


@np.errstate(all="ignore")
def outcome(function, arguments, names):
    """Call the function on copies. Return its arrays by name and whether it changed an argument, or its error."""
    given = [np.array(argument) if np.ndim(argument) else argument for argument in arguments]
    try:
        results = function(*given)
        names, results = (names, results) if names else zip(*results.items())  # a probe names them
        results = results if isinstance(results, (tuple, list) if len(names) > 1 else tuple) else (results,)
        results = [result.detach().cpu().numpy() if hasattr(result, "detach") else result for result in results]
        if [isinstance(result, (np.ndarray, np.number)) for result in results] != [True] * len(names):
            kinds = ", ".join(type(result).__name__ for result in results)
            raise TypeError(f"returned {kinds}; expected {len(names)} array(s): {', '.join(names)}")
        arrays = [np.array(np.real_if_close(result), dtype=object).astype(float) for result in results]  # not complex
    except Exception as error:
        return {"error": "ValueError" if isinstance(error, ValueError) else type(error).__name__, "text": str(error)}
    return {"arrays": dict(zip(names, arrays)), "changed": not all(map(np.array_equal, arguments, given))}


def fingerprint(got):
    """Condense each array to a number, its entries weighted 1, cos 1, cos 2 …, so that a table of mistakes is small."""
    flat = [np.nan_to_num(array.ravel(), nan=9, posinf=8, neginf=7) for array in got.get("arrays", {}).values()]
    return [float(entries @ np.cos(np.arange(entries.size))) for entries in flat] + [float(got.get("changed", 0))]


def alike(mine, other, part=None):
    """Are two fingerprints equal, or those of their numbers that stand at the places of `part`?"""
    places = part or range(len(other))
    return len(mine) == len(other) > 0 and all(abs(mine[i] - other[i]) <= 2e-5 + 1e-4 * abs(other[i]) for i in places)


@np.errstate(all="ignore")
def difference(got, expected, show):
    """Say how an outcome differs from the expected one, with numbers if they may be shown; nothing if they are equal."""
    if "error" in got or "error" in expected:
        what = f"{got['error']}: {got['text']}" if "error" in got else "a result"
        return f"Expected {expected.get('error', 'a result')}, got {what}" * (got.get("error") != expected.get("error"))
    for name, right in expected["arrays"].items():
        mine, right = got["arrays"][name], np.asarray(right)
        if mine.shape != right.shape:
            return f"{name}: expected shape {right.shape}, got {mine.shape}."
        if not np.allclose(mine, right, **TOLERANCE):
            strange, sums, off = np.sum(~np.isfinite(mine)), mine.sum(axis=-1), np.abs(mine - right).max()
            text = f"{strange} of {mine.size} numbers are NaN or infinite" if strange else f"off by up to {off:.3g}"
            text += f"; the rows sum to {sums.min():.3g} … {sums.max():.3g}" if name == "weights" else ""
            return f"{name}: {text}." + (f"\nExpected\n{right.round(4)}\ngot\n{mine.round(4)}" if show else "")
    return "An argument was changed in place." if got["changed"] else ""


def judge(function, names, cases, messages, show=True):
    """Raise an AssertionError that names the likely mistake at the first case in which the function is wrong."""
    got = [outcome(function, case["arguments"], names) for case in cases]
    texts, prints = [difference(g, c["expected"], show) for g, c in zip(got, cases)], list(map(fingerprint, got))
    for mine, case, text, marks in zip(got, cases, texts, prints):
        if text:
            kept = case["expected"].get("arrays", names)
            part = [i for i, name in enumerate(names) if name in kept] + [-1] if set(kept) <= set(names) else None
            fits = {n: 0 for n, w in (case["mistakes"] if "arrays" in mine else {}).items() if alike(marks, w, part)}
            for name in fits:  # of several that fit here, take the mistake that explains most of the other cases
                same = [alike(m, c["mistakes"].get(name, ())) for m, c in zip(prints, cases)]
                fits[name] = sum(same) + sum(name not in c["mistakes"] and not t for c, t in zip(cases, texts))
            strange = "error" not in mine and ("error" in case["expected"] or "NaN" in text)  # nothing to compare with
            mistake = max(fits, key=fits.get, default=case.get("otherwise") if strange else None) or ""
            mistake = mistake.split("/")[0] or None  # "M10/2" is the second way of making M10
            error = AssertionError(f"{case['name']}: {text}" + (f"\n{messages[mistake]}" if mistake else ""))
            error.mistake, error.got, error.case = mistake, mine, case
            raise error

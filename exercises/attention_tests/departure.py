"""Find the line of an answer that departs from the known steps. Name the last right value and the first wrong value.

The code needs only NumPy. The record of `recorder.py` may come from a sandbox, so it may hold anything. No points
depend on the result.
"""

import re
import sys
from types import FunctionType

import numpy as np

from attention_tests.compare import WrongAnswer, outcome, span
from attention_tests.raised import Departure, of_detached, of_error, of_other_error, of_type
from attention_tests.recorder import Recorder
from attention_tests.steps import (
    BUT_ROWS,
    DUE,
    FACTOR,
    GIVEN,
    NEUTRAL,
    ORDER,
    PART,
    SCALAR,
    STEP,
    UNKNOWN,
    Steps,
    among,
    close,
    is_half,
    is_merged,
    near,
    real,
    transposed,
)
from attention_tests.trace import Trace

MAX_TOOK = 1.0  # seconds; a function that took longer is not run again
MAX_BEFORE = 1  # if no value is a known step, a line is named only if at most this many lines precede it
MAX_TRIED = 2  # the line is looked for in at most this many cases
NO_STEP = "None of its values is a known step of a right answer, so we cannot name the wrong line."


def with_line(error, function, names, recorder):
    """Add the wrong line to the error of a wrong answer, if this line can be found.

    Args:
        error: A `WrongAnswer`.
        function: The answer as a function of arrays.
        names: The names of the answer's results.
        recorder: Records values in the notebook of the answer; None if the answer is in no notebook.
    """
    if getattr(error, "mistake", "") is not None or not error.wrong:  # the mistake has a name, or no case is wrong
        return error
    if recorder is None or error.took > MAX_TOOK:
        return error
    try:
        return _with_line(error, function, names, recorder)
    except KeyboardInterrupt:
        raise
    except BaseException:  # includes a lost kernel: the line is an extra, and no points depend on it
        return error


def _with_line(error, function, names, recorder):
    tried = [(case, got, _steps_of(case)) for case, got in error.wrong[:12] if not got.get("unwritten")]
    tried.sort(key=lambda each: "error" in each[1] or each[2] is None)  # cases whose values can be compared come first
    for case, got, steps in tried[:MAX_TRIED]:
        with recorder:
            outcome(function, case["arguments"], names)
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
    """Return the names of the notebook or file that defines a function or class; None if it is not in this process."""
    if hasattr(type(written), "asked"):
        return None
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
    try:
        trace = Trace(record)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    raised = of_error(trace, got) if "error" in got else None
    if "error" in expected:
        return of_other_error(raised, expected, trace.checks) if raised else None
    wrong_type = got.get("text", "").startswith(("returned ", "the function returned None"))
    if (wrong_type or (got.get("error") == "TypeError" and raised is None)) and (trace.rows or trace.line):
        return of_type(trace, got)
    if "error" in got and raised is None and "gradient" in got["text"]:
        return of_detached(trace)
    if not trace.rows or ("error" in got and raised is None) or steps is None:
        return raised
    trace.compare(Steps(steps, expected["arrays"], arguments))
    last = [trace.returned] if trace.returned >= 0 and not raised else [len(trace.rows) - 1]
    suspect = trace.suspect(trace.reached(trace.waiting or last if raised else last))
    if raised:
        return _before_error(trace, suspect, raised, of_shapes=got["error"] in ("RuntimeError", "ValueError"))
    if suspect is None or trace.rows[suspect].text.endswith(".grad") or not trace.operands(suspect):
        other = trace.suspect(range(len(trace.rows) if suspect is None else suspect))
        suspect = suspect if other is None else other
    places = zip(got["arrays"], trace.items or [trace.returned])
    results = {name: j for name, j in places if j >= 0 and _is_result(trace.rows[j], got["arrays"][name])}
    if suspect is None:
        return _of_results(trace, results, got, expected) if trace.returned >= 0 else None
    at_once = _of_shape(trace, results) if trace.last_right(suspect) is None else None
    return at_once or _departed(trace, suspect)


def _before_error(trace, suspect, raised, of_shapes):
    """Say which line before an error departs; if none does, return the line that raised it."""
    of_shapes = of_shapes and not raised.outer
    skipped = _skipped_before(trace, raised) if of_shapes and suspect is None else None
    if suspect is not None and trace.kinds[suspect][0] != ORDER:
        departed = _departed(trace, suspect)
        if departed.last_right is not None:
            text, outer = f"{raised.text}\n{departed.text}", departed.outer or raised.outer
            return Departure(text, departed.line, departed.last_right, departed.function, outer)
    return skipped or (_of_odd_shape(trace, raised) if of_shapes else None) or raised


def _departed(trace, i):
    """Say which line departs, and which right line is before it."""
    i = trace.source_of(i)
    if (skipped := _skipped(trace, i)) is not None:
        return skipped
    rows, last_right = trace.rows, trace.last_right(i)
    if last_right is None and trace.kinds[i][0] in (UNKNOWN, SCALAR) and len(trace.lines_before(i)) > MAX_BEFORE:
        return Departure(NO_STEP)
    filled = [rows[j] for j in rows[i].operands if rows[j].is_part and rows[j].text == rows[i].text]
    shown, sentences = filled[-1] if filled and last_right is None else rows[trace.named(i)], []
    if last_right is not None:
        right = rows[trace.named(last_right)]
        sentences.append(f"{_place(right, shown)}: {right.quoted} {trace.known.what(trace.kinds[last_right])}.")
    fact = _fact(trace, i, -1 if last_right is None else trace.kinds[last_right][1])
    called = f" (called in line {shown.outer})" if shown.outer else ""
    sentences.append(
        f"{_place(shown, shown)}{called}: {shown.quoted} is the first value that is not a known step of a right answer.{fact}"
    )
    if last_right is None:
        sentences.append("No value before it is a known step.")
    hint, outer = _hint(trace, i)
    right_line = None if last_right is None else rows[last_right].line
    return Departure("\n".join(sentences) + hint, shown.line, right_line, shown.function, shown.outer or outer)


def _hint(trace, i):
    """Return a sentence about another line that may be the cause, and the line; "" and 0 if there is none."""
    rows, row = trace.rows, trace.rows[i]
    if "super().forward(" in row.text and (made := [each.line for each in rows if each.function == "__init__"]):
        return f" It runs the layers that `__init__` makes in lines {min(made)} to {max(made)}.", max(made)
    if part := next((each for each in rows[i : i + 3] if each.is_part and each.line == row.line), None):
        return _hint_of_part(trace, part)
    places = trace.of_other_lines(i)
    sources = [rows[j] for j in places]
    read = _attributes_of(trace, i, sources)
    if len(read) == 1:
        [(name, line)] = read
        return f" Line {line} sets {name}.", line
    shown = rows[trace.named(i)]
    same = [each for each in rows if (each.kind, each.text, each.function) == ("variable", shown.text, row.function)]
    if sum(each.line == row.line for each in same) > 1 and same[0].line < row.line:  # a loop, and its start
        return f" Line {same[0].line} sets the first {shown.quoted}.", same[0].line
    ends = {each.line for each in sources if each.kind == "return" and each.function != row.function}
    if len(ends) == 1:
        return f" It was computed from what line {min(ends)} returns.", min(ends)
    made = [j for j in places if rows[j].kind in ("variable", "part") and rows[j].line < row.line]
    if (last := trace.last_right(i)) is not None:
        made = [j for j in made if rows[j].line > rows[last].line and trace.kinds[j][0] <= GIVEN]
    if len({rows[j].quoted for j in made}) == 1:
        source = rows[made[-1]]
        return f" It was computed from {source.quoted} of line {source.line}.", source.line
    return "", 0


def _attributes_of(trace, i, sources):
    """Return the attributes of `self` that made a value, each with the line that sets it; of a multiple, only the numbers."""
    row, lines = trace.rows[i], trace.attributes.get(trace.rows[i].line, {})
    numbers = [each for each in sources if each.function == "__init__" and each.text.startswith("self.")]
    numbers = {(each.quoted, each.line) for each in numbers if row.function != "__init__"}
    if numbers and trace.kinds[i][0] == FACTOR:
        return numbers
    return numbers | {(f"`{name}`", lines[name]) for name in re.findall(r"self\.\w+", row.text) if lines.get(name)}


def _hint_of_part(trace, part):
    """Return the hint of a changed part of a variable: the other lines that change it, or the line of its place."""
    if lines := sorted({each.line for each in trace.changes_of(part)} - {part.line}):
        which = f"Line {lines[0]} changes" if len(lines) == 1 else f"Lines {' and '.join(map(str, lines[:3]))} change"
        return f" {which} {part.quoted} too.", lines[0]
    operands = [(trace.rows[j], trace.kinds[j][0]) for j in part.operands if trace.rows[j].value is not None]
    index = [each for each, _ in operands if each.kind == "variable" and each.value.dtype.kind == "i"]
    index = [each for each in index if each.function == part.function]
    values = [kind for each, kind in operands if each.kind == "value" and each.line == part.line]
    if index and all(kind in (NEUTRAL, GIVEN, PART, STEP) for kind in values):
        last = max(index, key=lambda each: each.line)
        return f" Is its place right? Line {last.line} sets {last.quoted}.", last.line
    return "", 0


def _skipped(trace, i):
    """If a strange value was made without a required step, say after which value this step was skipped."""
    rows, kinds, known, due = trace.rows, trace.kinds, trace.known, trace.due()
    value = rows[i].value
    if due is None or kinds[i][0] != UNKNOWN or not value.ndim:
        return None
    step = known.steps[due][1]
    later = known.steps[due][0] == DUE[0] and ("softmax" in rows[i].text or "exp(" in rows[i].text)
    if not step.ndim or (not later and value.shape[-1] in (1, *step.shape[-2:])):  # this may be an attempt at the step
        return None
    for j in sorted(trace.operands(i), reverse=True):
        before = kinds[j][0] in (STEP, PART, BUT_ROWS, FACTOR) and kinds[j][1] < due
        whole = value.ndim == step.ndim and rows[j].value.size == step.size
        if before and (whole or (value.ndim == 1 and rows[j].value.shape == step.shape[-1:])):
            last = [n for n in range(j + 1, i) if j in rows[n].operands and rows[n].kind == "variable"][-1:]
            last = [rows[n] for n in last if np.array_equal(rows[n].value, rows[j].value)]
            row = last[0] if last else rows[trace.named(j)]
            fact = known.times(kinds[j]) if kinds[j][0] == FACTOR else known.what(kinds[j])
            text = f"Line {row.line}: {row.quoted} {fact}. No line computes {known.noun(due)}, the next step."
            return Departure(text, row.line, row.line, row.function, row.outer)
    return None


def _skipped_before(trace, raised):
    """If a required step is missing before an error, say which operand of the failing line is from before this step."""
    rows, kinds, known, due = trace.rows, trace.kinds, trace.known, trace.due()
    for j in trace.waiting if due is not None else ():
        row = rows[trace.named(j)]
        early = kinds[j][0] == STEP and kinds[j][1] < due and rows[j].value.size != known.steps[due][1].size
        early = early and all(n in trace.waiting for n in trace.made_of(j))
        later = [n for n in trace.waiting if early and kinds[n][0] == STEP and kinds[n][1] > kinds[j][1]]
        if not later and early and row.kind == "variable" and row.line < raised.line:
            text = f"Line {row.line}: {row.quoted} {known.what(kinds[j])}. No line computes {known.noun(due)}."
            return Departure(f"{raised.text}\n{text}", row.line, row.line, row.function, row.outer)
    return None


def _of_odd_shape(trace, raised):
    """Say which line first gives an operand of the failing line a shape that no step of a right answer has."""
    rows, known = trace.rows, trace.known
    for j in trace.waiting:
        value = rows[j].value
        if value is None or value.dtype.kind != "f" or trace.kinds[j][0] == STEP or known.has_shape_of(value):
            continue
        while same := [i for i in {*rows[j].operands, *trace.operands(j)} if np.shape(rows[i].value) == value.shape]:
            j = min(same)
        row, shape = rows[trace.named(j)], value.shape
        index = [rows[i] for i in rows[j].operands if rows[i].kind == "variable" and rows[i].value is not None]
        index = [each for each in index if each.value.dtype.kind == "i" and not known.has_shape_of(each.value)]
        if index:
            row, shape = index[0], index[0].value.shape
        if trace.operands(j) and row.line < raised.line and not any(word in rows[j].text for word in ("eye", "ones")):
            text = f"Line {row.line}: {row.quoted} has shape {shape}, and no step of a right answer has this shape."
            return Departure(f"{raised.text}\n{text}", row.line, None, row.function, row.outer)
    return None


def _is_result(row, result):
    """Whether the function itself returned this result. A test may compute other results, for example a gradient."""
    return row.value is not None and close(real(row.value), real(result))


def _of_results(trace, results, got, expected):
    """Say which result is another step than the expected one, has a wrong shape, or is wrong for another reason.

    Args:
        trace: The trace.
        results: The places of the results that the function itself returned, by name.
        got: The outcome.
        expected: The right outcome.
    """
    for name, j in results.items():
        right, noun = trace.known.results.get(name), name.replace("_", " ")
        if name.startswith("gradient"):  # no line of the function returned it
            continue
        if (
            right is None
            or trace.kinds[j][0] not in (STEP, BUT_ROWS, FACTOR)
            or close(real(trace.rows[j].value), right)
        ):
            continue
        if transposed(real(trace.rows[j].value), right) is not None or is_merged(real(trace.rows[j].value), right):
            continue
        row, end = trace.last_name(j), trace.rows[trace.returned]
        text = f"Line {row.line}: {row.quoted} {trace.known.what(trace.kinds[j])}, but line {end.line} returns it as {noun}."
        return Departure(text, row.line, None, row.function, row.outer or end.line)
    names = [name for name in expected["arrays"] if "gradient" in name and name in got["arrays"]]
    of_gradient = any(not close(real(got["arrays"][name]), real(expected["arrays"][name])) for name in names)
    return _of_shape(trace, results) or _of_last(trace, results, of_gradient)


def _of_shape(trace, results):
    """Say which line gives a result its wrong shape. If a right value has this shape, name the line that uses it."""
    for name, j in results.items():
        right, value = trace.known.results.get(name), trace.rows[j].value
        if right is None or value is None or value.shape == right.shape:
            continue
        while same := [i for i in trace.rows[j].operands if getattr(trace.rows[i].value, "shape", None) == value.shape]:
            kind = trace.kinds[min(same)]
            if kind[0] == GIVEN and value.shape in trace.known.given_shapes:
                break
            if kind != trace.kinds[j] and (kind[0] in (STEP, BUT_ROWS) or trace.kinds[j][0] == STEP):
                break
            j = min(same)
        if not any(kind[0] == STEP for kind in trace.kinds) and len(trace.lines_before(j)) > MAX_BEFORE:
            return Departure(NO_STEP)
        row = trace.rows[trace.named(j)]
        noun = name.replace("_", " ")
        text = f"Line {row.line}: {row.quoted} has shape {value.shape}. The shape of the right {noun} is {right.shape}."
        hint, outer = _hint(trace, j)
        return Departure(text + hint, row.line, None, row.function, row.outer or outer)
    return None


def _place(row, other):
    """Say where a value is. Name its function only if the other row is in a different function."""
    return f"Line {row.line}" if row.function == other.function else f"In {row.function}, line {row.line}"


def _fact(trace, i, after):
    """Return sentences with more facts about a value that departs. `after` is the place of the last right step."""
    row, kind = trace.rows[i], trace.kinds[i]
    if kind[0] == FACTOR:
        return f" It {trace.known.times(kind)}."
    if kind[0] == ORDER:
        return f" It holds the numbers of {trace.known.noun(kind[1])}, in another order."
    if kind[0] == BUT_ROWS:
        return f" It equals {trace.known.noun(kind[1])} except for a constant in each row."
    value, facts = real(row.value), []
    alike = [
        step for _, step, _ in trace.known.steps if step.shape == value.shape and near(value, step, 2e-3, 1e-3).all()
    ]
    if any(is_half(value, step) for step in alike):
        return " Its numbers have only half precision (float16)."
    strange = np.sum(np.isnan(value) | (value == np.inf))
    if strange:
        return f" Of its {value.size} numbers, {strange} are NaN or infinite."
    later = [each for each in trace.known.steps[after + 1 :] if each[1].shape == value.shape]
    for text, step, _ in later:
        noun = text.split(" ", 1)[1]
        same = near(value, step)
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
    if value.ndim > 1 and row.value.dtype.kind == "f" and (value >= 0).all() and value.size > 3:
        columns, rows = value.sum(axis=-2), value.sum(axis=-1)
        if any(np.allclose(sums, 1, atol=1e-4) for sums in (columns, rows)) or (value <= 1).all():
            facts.append(f" Its columns sum to {span(columns)}, its rows to {span(rows)}.")
    shapes = {each[1].shape for each in trace.known.steps[after + 1 :]}
    if shapes and value.shape not in shapes:
        facts.append(f" Its shape is {value.shape}.")
    return "".join(facts)


def _of_last(trace, results, of_gradient):
    """Say that all known steps are right, and a returned value is wrong."""
    known, row = trace.known, trace.rows[trace.returned]
    value, kind = row.value, trace.kinds[trace.returned]
    wrong = [j for name, j in results.items() if not close(real(trace.rows[j].value), known.results.get(name, value))]
    row = trace.last_name(wrong[0]) if wrong else row
    place = row.line, None, row.function, row.outer
    if kind[0] == STEP:
        is_right = any(close(real(value), right) for right in known.results.values())
        if (detached := of_detached(trace)) is not None:
            return detached
        if of_gradient and (is_right or kind[1] == len(known.steps) - 1):
            return Departure("All known steps are right. Is something detached, so that no gradient flows back?")
        strange = [i for i, kind in enumerate(trace.kinds) if kind[0] == UNKNOWN]
        half = [i for i in strange if is_half(real(trace.rows[i].value))]
        if half:
            return _departed(trace, half[0])
        if is_right:
            return Departure(
                f"Line {row.line}: {row.quoted} is {known.noun(kind[1])}. Do you return all results?", *place
            )
        if not wrong:
            return Departure(f"Line {row.line}: you return {row.quoted}, which {known.what(kind)}.", *place)
    if wrong and trace.kinds[wrong[0]][0] == NEUTRAL and row.value.size > 3 and len(np.unique(row.value)) == 1:
        return Departure(f"All numbers of {row.quoted}, made in line {row.line}, are still equal. Does a line fill it?")
    if any(kind[0] == STEP for kind in trace.kinds):
        sentence = f"all known steps before it are right, but {row.quoted} gives other values, or another order"
        return Departure(f"Line {row.line}: {sentence}.", *place)
    if row.value is None or all(row.value.size != right.size for right in known.results.values()):
        return None
    many = len(trace.lines_before(trace.returned)) > MAX_BEFORE
    if many or not any(among(right, known.given) for right in known.results.values()):
        return Departure("The result holds values of the arguments, in a wrong order or shape.")
    text = f"Line {row.line}: {row.quoted} holds values of the arguments, in a wrong order or shape."
    hint, outer = _hint(trace, trace.returned)
    return Departure(text + hint, row.line, None, row.function, row.outer or outer)

"""Name the line of an answer that raised an error, returned a wrong type, or stopped the gradient.

The record of `recorder.py` may come from a sandbox, so it may hold anything. No points depend on the result.
"""

import re

from attention_tests.trace import MAKERS

INIT = "super().__init__"
# Errors of ours about a result or its parameters: no line of the answer raised them.
OF_RESULT = re.compile(r"\breturned \S.*; expected|the function returned None|there is no (parameter|`)")


class Departure:
    """Where an answer departs from the known steps.

    Attributes:
        text: The message for the student.
        line: The first wrong line; None if it cannot be found.
        last_right: The last line whose value is right, if any.
        function: The name of the function that contains the line.
        outer: The line of the judged answer that called this function. If a variable caused an error, the line that
            assigned this variable; if a check let wrong arguments pass, its line. Else 0.
        raised: Whether the line raised an error and no line before it departs.
        missing: What no line before the error sets or calls: an attribute, a variable, or `super().__init__`.
    """

    def __init__(self, text, line=None, last_right=None, function="", outer=0, raised=False, missing=""):
        self.text, self.line, self.last_right, self.function, self.outer = text, line, last_right, function, outer
        self.raised, self.missing = raised, missing


def of_detached(trace):
    """Say which value is the first through which no gradient flows back; return None if there is none."""
    detached = [i for i in trace.detached if not any(word in trace.rows[i].text for word in MAKERS)]
    if not detached:
        return None
    row = trace.rows[trace.named(detached[0])]
    text = f"Line {row.line}: no gradient flows back through {row.quoted}, but one must."
    return Departure(text, row.line, None, row.function, row.outer)


def of_type(trace, got):
    """Say that the returned value has a wrong type, or which `return` did not run."""
    if trace.returned >= 0:
        row = trace.rows[trace.returned]
        text = f"Line {row.line}: {row.quoted} has a wrong type."
        made = [trace.rows[j].line for j in row.operands if trace.rows[j].kind == "variable"]
        text += f" Line {made[0]} sets it." if made else ""
        return Departure(text, row.line, None, row.function, made[0] if made else row.outer)
    place, line = (trace.function, trace.outer), trace.line
    ends = sorted((number for name, number in trace.returns if name == trace.function), key=lambda n: abs(n - line))
    if "None" not in got["text"]:
        text = f"Line {line}: the result has a wrong type."
    elif ends:
        text, line = f"{trace.function} ended after line {line}. Its `return` in line {ends[0]} did not run.", ends[0]
    else:
        text = f"{trace.function} ended after line {line}. No line of it returns a value."
    return Departure(text, line, None, *place)


def of_other_error(raised, expected, checks):
    """Say which line raised an error other than the specified one, and which check before it let these arguments pass."""
    before = [line for name, line, _ in checks if name == raised.function and line < raised.line]
    text = f"{raised.text}\nCheck the arguments before this line, and raise {expected['error']}."
    text += f" The check in line {before[-1]} let these arguments pass." if before else ""
    outer = before[-1] if before else raised.outer
    return Departure(text, raised.line, None, raised.function, outer, raised=True)


def of_error(trace, got):
    """Say which line raised an error, with the shapes of its operands."""
    if got.get("unwritten") or not trace.line or OF_RESULT.search(got["text"]):
        return None
    waiting = [trace.rows[i] for i in trace.waiting]
    shapes = [
        f"{row.quoted} has shape {row.value.shape}" for row in waiting if row.value is not None and row.value.ndim
    ]
    details = f": {', '.join([*dict.fromkeys(shapes)][:3])}" if shapes else ""
    called = f", called in line {trace.outer}," if trace.outer else ""
    parts = trace.attributes.get(trace.line, {})
    missing = _missing(parts, got)
    name, set_in = ("", 0) if missing else _attribute(parts, waiting) or _variable(trace, got)
    check = [line for name, line, raises in trace.checks if (name, raises) == (trace.function, trace.line)]
    if check:
        details, set_in = f", because the condition in line {check[0]} was true", check[0]
    elif missing == INIT:
        details += f". Call `{INIT}()` before this line"
    elif missing:
        details += f"; no line sets `{missing}`"
    elif set_in:
        details += f"; `{name}` was set in line {set_in}"
    text = f"Line {trace.line} of {trace.function}{called} raised the error{details}."
    return Departure(text, trace.line, None, trace.function, trace.outer or set_in, raised=True, missing=missing)


def _missing(parts, got):
    """Return what no line before the error sets or calls: an attribute, a variable, or `super().__init__`; else ""."""
    name = re.search(r"'(\w{1,80})'(?! object)", got["text"], re.ASCII)
    name = name[1] if name else ""
    if got["error"] == "AttributeError" and "Module.__init__() call" in got["text"]:
        return INIT
    if got["error"] == "AttributeError":
        return next((part for part, line in parts.items() if not line and part == f"self.{name}"), "")
    return name if got["error"] in ("NameError", "UnboundLocalError") else ""


def _attribute(parts, waiting):
    """Return the attribute of `self` that caused an error, and the line that set it; None if no attribute did.

    Args:
        parts: The attributes that the line of the error reads, in order, with the lines that set them.
        waiting: The rows of this line that were computed before the error.
    """
    used = [each for each in parts.items() if each[1] and not any(row.text.startswith(each[0]) for row in waiting)]
    return used[-1] if used else None


def _variable(trace, got):
    """Return the variable whose type caused an error, and the line that set it; ("", 0) if there is none."""
    waiting, seen = list(trace.waiting) if got["error"] in ("TypeError", "AttributeError") else [], set()
    while waiting:
        i = waiting.pop()
        row = trace.rows[i]
        if row.value is None and row.kind == "variable" and row.function == trace.function and row.line < trace.line:
            return row.text, row.line
        waiting += row.operands if row.value is None and i not in seen else []
        seen.add(i)
    return "", 0

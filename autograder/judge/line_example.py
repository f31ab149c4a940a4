"""Record how the wrong line of one answer is found, for the chapter on debugging: `python -m autograder.judge.line_example`.

The chapter shows the answer, the value of each line next to its step, and the message of a test.
"""

import json
import linecache
from types import ModuleType
from typing import Any

import numpy as np
from attention_tests.compare import WrongAnswer, judge
from attention_tests.departure import recorder_of, with_line

from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import Case, exercises_of

RECORD = ROOT / "book" / "records" / "line.json"
ANSWER = """\
def attention(queries, keys, values):
    width = queries.shape[-1]
    scores = queries @ keys.T / np.sqrt(width)
    shifted = scores - scores.max(axis=0, keepdims=True)
    powers = np.exp(shifted)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    output = weights @ values
    return output, weights
"""
STEPS = {  # variables, each with the step that it should hold
    "scores": "are the scaled scores",
    "shifted": "are the shifted scores",
    "powers": "are the exponentials",
    "weights": "are the weights",
    "output": "is the output",
}


def example() -> dict[str, Any]:
    """Return the data of the example.

    Returns:
        `code`: the answer. `said`: the message of a test. `line`: the line that the message names. `rows`: the value
        and the step of each line.
    """
    rng = np.random.default_rng(4)
    queries, keys, values = (np.round(rng.normal(size=shape), 1) for shape in ((3, 2), (4, 2), (4, 2)))
    exercise = exercises_of("attention")["attention"]
    cases = exercise.prepare([Case("three queries, four keys", (queries, keys, values))])
    function = _written(ANSWER)
    recorder = recorder_of(function)
    try:
        judge(function, exercise.names, cases, catalogue.MESSAGES, show=False)
    except WrongAnswer as error:
        with_place = with_line(error, function, exercise.names, recorder)
    steps = cases[0]["steps"]()
    kept = {text: (line, array) for line, _, text, kind, _, array, _ in recorder.record()["rows"] if kind == "variable"}
    rows = []
    for name, step in STEPS.items():
        line, array = kept[name]
        right = steps[step][0] if isinstance(steps[step], tuple) else steps[step]
        rows.append({"line": line, "name": name, "value": array.round(4).tolist(), "step": right.round(4).tolist()})
    return {"code": ANSWER, "said": str(with_place), "line": with_place.departure.line, "rows": rows}


def _written(text: str) -> Any:
    """Define a function as a cell of a notebook does."""
    file = "<the answer of the chapter on debugging>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType("__main__")
    vars(module)["np"] = np
    exec(compile(text, file, "exec"), vars(module))
    return module.attention


def record_of(data: dict[str, Any]) -> str:
    """Return the text of the record."""
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    RECORD.write_text(record_of(example()), encoding="utf-8")

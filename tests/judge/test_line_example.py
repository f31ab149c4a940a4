"""Does the chapter on debugging show today's messages of the tests?"""

import numpy as np

from autograder.judge.line_example import RECORD, example, record_of


def test_record_of_the_wrong_line_is_what_is_found() -> None:
    """Is the record what the code finds now, and is its line the first whose value differs from the step?"""
    found = example()
    assert RECORD.read_text(encoding="utf-8") == record_of(found)
    differ = [row["line"] for row in found["rows"] if not np.allclose(row["value"], row["step"], atol=1e-3)]
    assert found["line"] == differ[0] == 4 and len(differ) == 4
    assert "Line 4: `shifted` is the first value" in found["said"]

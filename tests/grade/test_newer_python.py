"""Is code that only a newer Python can read distinguished from code that no Python can read?"""

import sys

import pytest

from autograder.grade.newer_python import newer_python

NEWER = {  # code: the first version that reads it, and the number of the new line
    'x = 1\nprint(f"axes: {\', \'.join(map(str, (1, 2)))} {"quoted"}")': ((3, 12), 2),
    'x = f"{chr(10)}{"\\n".join("ab")}"': ((3, 12), 1),
    "type Array = int": ((3, 12), 1),
    "def first[T](values: list[T]) -> T:\n    return values[0]": ((3, 12), 1),
    "%matplotlib inline\nprint?\n!ls -l\ndef f[T = int](x: T): pass": ((3, 13), 4),
    "try:\n    x = 1\nexcept ValueError, TypeError:\n    pass": ((3, 14), 3),
    'name = "a"\nx = t"{name}"': ((3, 14), 2),
    "# ruff: noqa\ntype Array = int  # noqa": ((3, 12), 2),
    "x = '\ud800'\ntype Array = int": ((3, 12), 2),
}


OTHER = [
    "x = 1",
    "def f(:\n    pass",
    "x = f'{a'",
    "x = 'abc",
    "x = (1, 2\ny = 3",
    "def f():\nreturn 1",
    "print 'Python 2'",
    "type Array = int\nx = (",  # new, and wrong too
    "return 1",
    "x = 1\0",
    "",
    pytest.param("x = " + "-" * 49_000 + "1", id="minus"),
    pytest.param("x = " + "[" * 20_000 + "]" * 20_000, id="brackets"),
    pytest.param("type Array = int\nx = a" + ".a" * 60_000, id="long"),
]


@pytest.mark.parametrize("source", [*NEWER, *OTHER], ids=repr)
def test_newer_code_is_known(source: str) -> None:
    """Does the message give the new line and the Python that it needs? Is there none about code of this Python or of none?"""
    version, line = NEWER.get(source, ((0, 0), 0))
    said = newer_python(source)
    if sys.version_info[:2] >= version:
        assert said is None
    else:
        assert said.startswith(f"line {line}: ")
        assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in said

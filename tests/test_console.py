"""Does no stranger's text reach the terminal unchanged, however a command prints it?"""

import json
from collections.abc import Callable

import pytest
from rich.markup import escape
from rich.table import Table

from autograder.commands.bars import Bars
from autograder.commands.console import err, error_exit, print_json, say, show

HOSTILE = "\x1b[2J\x1b]0;title\x07 \x9b31m \u202e right \x08\x08 \r over \x00 \u2028 end"


def table() -> Table:
    """A table with a hostile cell and title."""
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(escape(HOSTILE))
    return table


WAYS: dict[str, Callable[[], object]] = {
    "say": lambda: say(HOSTILE),
    "show": lambda: show(escape(HOSTILE), f"[red]{escape(HOSTILE)}[/]"),
    "table": lambda: show(table()),
    "error_exit": lambda: error_exit(HOSTILE),
    "err": lambda: err.print(escape(HOSTILE)),
    "bars": lambda: Bars().say(HOSTILE),
    "json": lambda: print_json({HOSTILE: [HOSTILE]}),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_text_moves_the_cursor(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Is each unprintable character shown by its code?"""
    WAYS[way]()
    said = "".join(capfd.readouterr())
    assert "end" in said
    assert [char for char in said if not char.isprintable() and char != "\n"] == []


def test_json_stays_what_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    """Does a script read the exact text from JSON?"""
    data = {HOSTILE: ["Zoë", "名前", "\U0001f9d1\u200d\U0001f393", "\U000e0041"]}
    print_json(data)
    assert json.loads(capfd.readouterr().out) == data


@pytest.mark.parametrize("way", [error_exit, say])
def test_line_break_cannot_look_like_a_line_of_ours(capfd: pytest.CaptureFixture[str], way: Callable) -> None:
    """Does a line break in a stranger's text never begin a new line of ours?"""
    way("the column a\nautograder: all is well")
    assert "\nautograder" not in "".join(capfd.readouterr())

"""Moodle's grading worksheet in any language: where its columns are, and what its times mean.

The titles, the states and the times are in the teacher's language. The order of the columns is the same in every language
(mod/assign/gradingtable.php): participant, full name, fields of identity, status, group and marker, grade, maximum, state
of the marking workflow, whether the grade can be changed, time of the submission, its texts, time of the grade, comments.
"""

import contextlib
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from autograder.settings import YEARS

NO_TIME = ("", "-")
CLOCK = re.compile(r"(?<![\d.])(\d{1,2}) ?[:.h] ?(\d{2})(?::\d{2})?(?![\d.])")
YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def columns_of(header: list[str], rows: list[list[str]]) -> dict[str, int]:
    """Return the places of the columns by their English titles; an empty dictionary if this is no worksheet of Moodle.

    The maximum is a column of one number, to the right of a column of grades. Times contain a clock's time, or are "-".
    """
    columns = [[row[place].strip() for row in rows] for place in range(len(header))]
    if not rows or not all(re.fullmatch(r"\D+\d+", cell) for cell in columns[0]):
        return {}
    maximum = next((place for place in range(3, len(header)) if _is_maximum(*columns[place - 1 : place + 1])), None)
    if maximum is None:
        return {}
    times = [place for place in range(maximum + 2, len(header)) if all(map(_is_time, columns[place]))][:2]
    if not times:
        return {}
    found = {"Identifier": 0, "Grade": maximum - 1, "Maximum Grade": maximum, "Grade can be changed": times[0] - 1}
    found |= {"Last modified (submission)": times[0]} if len(times) == 2 else {}
    found |= {"Last modified (grade)": times[-1]}
    found |= {"Feedback comments": times[-1] + 1} if times[-1] + 1 < len(header) else {}
    dated = [p for p in range(1, maximum - 1) if any(cell != "-" and _is_time(cell) for cell in columns[p])]
    found |= {"Status": dated[0]} if dated else {}  # only an extension needs it
    if maximum > 3 and len(set(columns[1])) == len(rows):  # if marking is blind, the status is next to the number
        found["Full name"] = 1
        own = [place for place in range(2, maximum - 1) if _are_ids(columns[place])]
        found |= dict(zip(("ID number", "Username", "Email address"), own, strict=False))
    return found


def read_moodle_time(text: str) -> datetime | None:
    """Read a time as Moodle writes it in any language, without a time zone; None if there is none.

    Raises:
        ValueError: the text is no time, or it is not clear which one.
    """
    text = " ".join(text.split())
    if text in NO_TIME:
        return None
    if moment := _in_any_language(text):
        return moment
    raise ValueError(f"{text!r} is not a clear time")


def extension_in(status: str) -> str:
    """Return what the state of a submission says about an extension; an empty string if it says nothing.

    Moodle writes an extension as the last part of the state: words, and a date.
    """
    last = status.split(" - ")[-1]
    if not YEAR.search(last) and not CLOCK.search(last):
        return ""
    moment = _in_any_language(last)
    return f"extended until {moment:%Y-%m-%d %H:%M}" if moment else f"{last} (a date that is not clear)"


def _in_any_language(text: str) -> datetime | None:
    """Return the only moment that a text can mean: a clock's time, a year, a day, and a month as a word or a number."""
    clock, year = CLOCK.search(text), YEAR.search(text)
    if not clock or not year:
        return None
    rest = CLOCK.sub(" ", YEAR.sub(" ", text, count=1), count=1)
    words = {word.strip(".").casefold() for word in re.findall(r"[^\W\d_]+", rest)}
    numbers = [int(number) for number in re.findall(r"\d+", rest)]
    if len(numbers) == 1:
        dates = {(month, numbers[0]) for word in words for month in names_of("months").get(word, ())}
    elif len(numbers) == 2:
        first, second = numbers
        dates = {(first, second), (second, first)}
        if text.index(year[0]) == 0:  # after the year, the month comes first
            dates = {(first, second)}
        elif re.search(r"\d\. ?\d\d?\. ?\d{4}", text):  # with dots, the day comes first
            dates = {(second, first)}
    else:
        return None
    half = _half_of_day(text[: clock.start()], text[clock.end() :]) if 0 < int(clock[1]) <= 12 else None
    hour = int(clock[1]) if half is None else int(clock[1]) % 12 + half
    moments = set()
    for month, day in dates:
        with contextlib.suppress(ValueError):  # there is no such day
            moments.add(datetime(int(year[0]), month, day, hour, int(clock[2])))
    weekdays = {weekday for word in words for weekday in names_of("days").get(word, ())}
    fitting = {moment for moment in moments if moment.weekday() in weekdays} or moments
    return fitting.pop() if len(fitting) == 1 and int(year[0]) in YEARS else None


def _half_of_day(before: str, after: str) -> int | None:
    """Return 12 for an hour after noon, 0 before noon, by the words next to a clock's time; None if it has no such word."""
    words = [after, *after.split()[:1], *(word for word in before.split()[-1:] if not word.isascii())]
    return next((halves()[key] for word in words if (key := _plain(word)) in halves()), None)


@cache
def halves() -> dict[str, int]:
    """Return the words for the hours before noon (0) and after noon (12) in all languages."""
    found: dict[str, set[int]] = {}
    for locale in _locales():
        for widths in locale.day_periods.values():
            for width in ("wide", "abbreviated"):
                for number, half in enumerate(("am", "pm")):
                    found.setdefault(_plain(widths.get(width, {}).get(half, "")), set()).add(12 * number)
    return {word: number for word, (number, *more) in found.items() if word and not more}


def _plain(word: str) -> str:
    return re.sub(r"[\s.,]", "", word.casefold())


@cache
def names_of(what: str) -> dict[str, set[int]]:
    """Return the numbers of "months" or "days" by their names in all languages; a name may have several numbers."""
    found: dict[str, set[int]] = {}
    for locale in _locales():
        for form in ("format", "stand-alone"):
            for number, name in getattr(locale, what)[form]["wide"].items():
                found.setdefault(name.casefold(), set()).add(number)
    return found


def _locales() -> Iterator[Any]:
    """Yield babel's locale of each language."""
    from babel import Locale, localedata  # imported here: only Moodle's times need it

    return (Locale.parse(language) for language in localedata.locale_identifiers() if "_" not in language)


def _is_maximum(grades: list[str], maxima: list[str]) -> bool:
    most = number_in(maxima[0])
    are_grades = all(cell in NO_TIME or number_in(cell) is not None for cell in grades)
    return len(set(maxima)) == 1 and most is not None and most > 0 and are_grades


def _is_time(cell: str) -> bool:
    return cell == "-" or bool(CLOCK.search(cell) and YEAR.search(cell))


def _are_ids(cells: list[str]) -> bool:
    """Whether cells identify students: all differ, and none is a phrase such as "No submission"."""
    written = [cell for cell in cells if cell]
    return bool(written) and len(set(written)) == len(written) and not any(" " in cell for cell in written)


def number_in(text: str) -> float | None:
    """Return the number in a cell, with a decimal point or a decimal comma; None if it holds no number."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None

"""Read the time of a submission from timestamp.txt, which nbgrader, a script or a student wrote."""

import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from autograder.settings import YEARS
from autograder.spreadsheets import BYTE_ORDER_MARKS

MOST = 100  # characters of a time, at most
TIMESTAMP = "timestamp.txt"  # file in a submission's folder: its time, as nbgrader and students write it
UNCLEAR = "timestamp-unclear.txt"  # file in a submission's folder: a time that is ambiguous
# Hours from UTC. A name that several zones share, such as IST, CST or BST, is left out: it would be a guess.
HOURS = {
    **dict.fromkeys(("UTC", "GMT", "UT", "Z", "WET"), 0),
    **dict.fromkeys(("CET", "MEZ", "WEST", "WAT"), 1),
    **dict.fromkeys(("CEST", "MESZ", "EET", "SAST", "CAT"), 2),
    **dict.fromkeys(("EEST", "MSK", "EAT", "TRT"), 3),
    **{"PKT": 5, "NPT": 5.75, "WIB": 7, "ICT": 7, "HKT": 8, "SGT": 8, "AWST": 8, "JST": 9, "KST": 9, "ACST": 9.5},
    **{"AEST": 10, "ACDT": 10.5, "AEDT": 11, "NZST": 12, "NZDT": 13, "HST": -10, "AKST": -9, "AKDT": -8},
    **{"PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CDT": -5, "EST": -5, "EDT": -4, "BRT": -3, "ART": -3},
}


def read_time(written: bytes | str) -> datetime:
    """Read a time. A time without a zone is in UTC, as nbgrader writes it.

    Returns:
        The time, in UTC.

    Raises:
        ValueError: the text is not a time, or is ambiguous. The message says why, and shows the text.
    """
    if isinstance(written, bytes):
        written = written.decode(BYTE_ORDER_MARKS.get(written[:2], "utf-8"), "replace")
    text = " ".join(written.removeprefix("\ufeff").split())
    quoted = repr(text[:MOST])
    if not text or len(text) > MOST:
        raise ValueError(f"{quoted} is not a time" if text else "there is no time in it")
    try:
        when = _parse(text)
        when = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except _Unclear as error:
        raise ValueError(f"{quoted} is not a clear time: {error}") from None
    except Exception:  # dateutil may raise anything on a student's text
        raise ValueError(f"{quoted} is not a time") from None
    if when.year not in YEARS:
        raise ValueError(f"{quoted} is in the year {when.year}, which cannot be the time of a submission")
    return when


class _Unclear(ValueError):
    """The text is a time, but it is unclear which one."""


def _parse(text: str) -> datetime:
    from dateutil import parser  # imported here: it takes a moment

    zone = re.search(r" ([A-Za-z]+(?:/[A-Za-z0-9_+-]+)+)$", text)  # such as Europe/Berlin
    if zone:
        return _parse(text[: zone.start()]).replace(tzinfo=ZoneInfo(zone[1]))
    text = re.sub(r"\b(UTC|GMT) ?(?=[+-]\d)", "", text.upper())  # dateutil reads UTC+2 as two hours before UTC
    days = (
        (False,) if re.match(r"\d{4}(\D|\d{4}T)", text) else (False, True)
    )  # 02/11/2026 may mean two days, 2026-11-02 means one
    # These supply the parts that a text lacks. If it lacks a part, the two times differ.
    bare = [datetime(2000, 1, 1), datetime(2001, 2, 2, 1, 1)]
    options = [{"default": default, "dayfirst": first} for default in bare for first in days]
    times = [parser.parse(text, tzinfos=_offset, **option) for option in options]
    if len(set(times[: len(days)])) > 1:
        raise _Unclear("it can mean two different days; write it as 2026-11-02")
    if len(set(times)) > 1:
        raise _Unclear("a part of the date or the time of day is missing")
    return times[0]


def _offset(name: str | None, seconds: int | None) -> timezone | None:
    """Return the zone for a name or a number, for dateutil; None if the text names no zone."""
    if name is not None and name not in HOURS:
        raise _Unclear(f"{name} is not a zone, or several zones have this name; write it as +02:00")
    if name and seconds and seconds != HOURS[name] * 3600:
        raise _Unclear(f"{name} and the number next to it are different zones")
    if not name:
        return None if seconds is None else timezone(timedelta(seconds=seconds))
    return timezone(timedelta(hours=HOURS[name]))

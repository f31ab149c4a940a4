"""Read the time of a submission from timestamp.txt, which nbgrader, a script or a student wrote."""

from datetime import UTC, datetime

from autograder.settings import YEARS
from autograder.spreadsheets import BYTE_ORDER_MARKS

MOST = 100  # characters of a time that a message shows
TIMESTAMP = "timestamp.txt"  # file in a submission's folder: its time, as nbgrader and students write it
UNCLEAR = "timestamp-unclear.txt"  # file in a submission's folder: a time that is ambiguous


def read_time(written: bytes) -> datetime:
    """Read a time as nbgrader and git write it: date and time of day, with an offset or UTC. Without a zone, it is in UTC.

    Returns:
        The time, in UTC.

    Raises:
        ValueError: the text is not such a time. The message shows it.
    """
    text = " ".join(written.decode(BYTE_ORDER_MARKS.get(written[:2], "utf-8-sig"), "replace").split())
    if not text:
        raise ValueError("there is no time in it")
    try:
        when = datetime.fromisoformat(text.removesuffix(" UTC"))
        when = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        when = None
    if when is None or ":" not in text or when.year not in YEARS:  # without a colon, the time of day is missing
        raise ValueError(f"{text[:MOST]!r} is not a clear time; write it as 2026-11-02 17:30+01:00")
    return when

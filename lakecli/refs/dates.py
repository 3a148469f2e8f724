"""The times in ``main@{…}``: ISO 8601, a word such as ``yesterday``, or how long ago.

A time without an offset is UTC, and a date without a time is its midnight.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from lakecli.errors import UsageError

HINT: Final = (
    "as in 2026-11-01, 2026-11-01 10:00, 2026-11-01T10:00:00+02:00, now, today, yesterday, "
    "3 days ago"
)

_AGO: Final = re.compile(r"([0-9]{1,9}|an?|one)[ .]([a-z]+?)s?[ .]ago")
_OFFSET: Final = re.compile(r" +(?=[+-][0-9]{2}:?[0-9]{2}$|Z$)|(?<=[0-9]) *UTC$")
_MONTHS_IN_YEAR: Final = 12


class Unit(NamedTuple):
    """A length of time; months and years follow the calendar."""

    seconds: int = 0
    months: int = 0


UNITS: Final[Mapping[str, Unit]] = {
    "second": Unit(seconds=1),
    "minute": Unit(seconds=60),
    "hour": Unit(seconds=3600),
    "day": Unit(seconds=86_400),
    "week": Unit(seconds=7 * 86_400),
    "month": Unit(months=1),
    "year": Unit(months=_MONTHS_IN_YEAR),
}
"""Units allowed before ``ago``, in the singular."""

WORDS: Final[Mapping[str, tuple[int, Unit]]] = {
    "now": (0, UNITS["second"]),
    "yesterday": (1, UNITS["day"]),
}
"""Named times: a number of units before the present."""


def parse_when(text: str, now: datetime) -> datetime:
    """Parse a time and return it in UTC; `now` is the present.

    Raises:
        UsageError: it is not a time, or one before the year 1.
    """
    words = " ".join(text.lower().split())
    try:
        if words == "today":  # as its date, which has no time
            return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if words in WORDS:
            return _before(now, *WORDS[words])
        ago = _AGO.fullmatch(words)
        if ago and ago[2] in UNITS:
            return _before(now, int(ago[1]) if ago[1].isdecimal() else 1, UNITS[ago[2]])
        written = text.strip() if text.isprintable() else ""
        when = datetime.fromisoformat(_OFFSET.sub(_written_closely, written))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"not a time: {text!r}", hint=HINT) from None


def _written_closely(found: re.Match[str]) -> str:
    return "Z" if "UTC" in found[0] else ""


def _before(now: datetime, count: int, unit: Unit) -> datetime:
    """Return the time some units before `now`; in a shorter month, its last day."""
    months = now.year * _MONTHS_IN_YEAR + now.month - 1 - count * unit.months
    year, month = divmod(months, _MONTHS_IN_YEAR)
    day = min(now.day, monthrange(year, month + 1)[1]) if year > 0 else 1
    then = now.replace(year=year, month=month + 1, day=day)
    return (then - timedelta(seconds=count * unit.seconds)).astimezone(UTC)

"""Dates in braces."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.refs.expression import UNITS, WORDS, parse_when

NOW = datetime(2026, 3, 31, 12, 30, 15, tzinfo=UTC)

MOMENTS = {
    "2026-11-01": "2026-11-01T00:00:00",
    "20261101": "2026-11-01T00:00:00",
    "2026-11-01 10:00": "2026-11-01T10:00:00",
    "2026-11-01T10:00": "2026-11-01T10:00:00",
    "2026-11-01T10:00:05Z": "2026-11-01T10:00:05",
    "2026-11-01 10:00 UTC": "2026-11-01T10:00:00",
    "2026-11-01T10:00:00+02:00": "2026-11-01T08:00:00",
    "2026-11-01 10:00 -05:30": "2026-11-01T15:30:00",
    " 2026-11-01 ": "2026-11-01T00:00:00",
    "now": "2026-03-31T12:30:15",
    "Yesterday": "2026-03-30T12:30:15",
    "3 days ago": "2026-03-28T12:30:15",
    "3  Days ago": "2026-03-28T12:30:15",
    "3.days.ago": "2026-03-28T12:30:15",
    "1 day ago": "2026-03-30T12:30:15",
    "a week ago": "2026-03-24T12:30:15",
    "an hour ago": "2026-03-31T11:30:15",
    "90 minutes ago": "2026-03-31T11:00:15",
    "0 seconds ago": "2026-03-31T12:30:15",
    "1 month ago": "2026-02-28T12:30:15",
    "3 months ago": "2025-12-31T12:30:15",
    "2 years ago": "2024-03-31T12:30:15",
    "today": "2026-03-31T00:00:00",
}


@pytest.mark.parametrize("text", MOMENTS)
def test_what_names_a_moment(text: str) -> None:
    assert parse_when(text, NOW) == datetime.fromisoformat(MOMENTS[text]).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "garbage",
        "tomorrow",
        "2026",
        "10:00",
        "2026-02-30",
        "2026-13-01",
        "01.11.2026",
        "2026-11-01 25:00",
        "2026-11-01 10:00 EST",
        "days ago",
        "-3 days ago",
        "3 days",
        "3 dayss ago",
        "3 fortnights ago",
        "٣ days ago",
        "9999 years ago",
        "999999999 days ago",
        "9999999999 days ago",
        "0001-01-01T00:00:00+14:00",
        "2026-11-01\n10:00\n",
        "\x00",
    ],
)
def test_what_names_none(text: str) -> None:
    with pytest.raises(UsageError, match="not a time") as caught:
        parse_when(text, NOW)
    assert caught.value.hint
    assert "3 days ago" in caught.value.hint


@given(st.text(max_size=30) | st.text("0123456789-:T Z+ago days", max_size=24))
def test_any_text_is_a_moment_in_utc_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        assert parse_when(text, NOW).utcoffset() == timedelta(0)


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from("T "),
)
def test_what_is_written_is_read(when: datetime, minutes: int, between: str) -> None:
    aware = when.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_when(aware.isoformat(between), NOW) == aware
    assert parse_when(when.isoformat(between), NOW) == when.replace(tzinfo=UTC)


@given(st.integers(0, 1000), st.sampled_from(sorted(UNITS)))
def test_more_of_a_unit_is_never_later(count: int, unit: str) -> None:
    text = f"{{}} {unit}s ago"
    later, earlier = (parse_when(text.format(n), NOW) for n in (count, count + 1))
    assert earlier < later <= NOW


def test_every_word_is_in_the_past() -> None:
    assert all(parse_when(word, NOW) <= NOW for word in WORDS)

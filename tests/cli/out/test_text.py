from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.cli.out import text
from lakecli.cli.out.tables import aligned_lines
from lakecli.cli.out.text import (
    age,
    human_size,
    local_date,
    metadata_lines,
    one_line,
    quote_path,
    rfc3339,
    short_age,
)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1024, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_700_000, "1.7 MB"),
        (5 * 10**12, "5.0 TB"),
        (10**21, "1.0 ZB"),
    ],
)
def test_human_size_has_si_units(size: int, shown: str) -> None:
    assert human_size(size) == shown


def test_dates_are_local_or_rfc3339() -> None:
    when = datetime(2026, 3, 1, 13, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    assert local_date(when) == "2026-03-01 12:00:05 +0000 UTC"
    assert rfc3339(when) == "2026-03-01T12:00:05Z"
    assert rfc3339(datetime(2026, 3, 1, 12, 0, 5, 120000, tzinfo=UTC)).endswith("05.120000Z")


@pytest.mark.parametrize(
    "zone", ["UTC", "America/St_Johns", "Africa/Monrovia", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
def test_dates_of_each_second_are_those_of_the_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """One changed its clock at one minute past, and one was half a minute off."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    text.zones_of.cache_clear()
    try:
        days = (0, 63_590_400, 562_500_000, 1_143_937_000, 1_143_946_000, 1_162_088_000)
        for second in (first + step for first in days for step in range(0, 20_000, 29)):
            when = datetime.fromtimestamp(second, UTC)
            assert local_date(when) == when.astimezone().strftime("%Y-%m-%d %H:%M:%S %z %Z")
        assert local_date(datetime(1, 1, 2, tzinfo=UTC)).startswith("1")
    finally:
        monkeypatch.undo()
        time.tzset()
        text.zones_of.cache_clear()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"a/b c.txt", "a/b c.txt"),
        ("naïve/数据?#%".encode(), "naïve/数据?#%"),
        (b"a\nb", '"a\\nb"'),
        (b"a\tb\x01\x7f", '"a\\tb\\001\\177"'),
        (b'say "hi"', '"say \\"hi\\""'),
        (b"back\\slash", '"back\\\\slash"'),
        (b"\xff\xfe", '"\\377\\376"'),
        ("\u202egpj.exe".encode(), '"\\342\\200\\256gpj.exe"'),
        ("a\u0085b".encode(), '"a\\302\\205b"'),
        ("zero\u200bwidth".encode(), '"zero\\342\\200\\213width"'),
        ("日\U000e0041".encode(), '"日\\363\\240\\201\\201"'),
        ('no\ufe0f"te'.encode(), '"no\\357\\270\\217\\"te"'),
        ("wide\u3000space\u00a0".encode(), "wide\u3000space\u00a0"),
        (b"", ""),
    ],
)
def test_quote_path_quotes_as_git_does(path: bytes, shown: str) -> None:
    assert quote_path(path) == shown


@given(st.binary(max_size=12))
def test_quoted_paths_are_distinct_harmless_lines(path: bytes) -> None:
    shown = quote_path(path)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    if shown.startswith('"'):
        unquoted = shown[1:-1].encode().decode("unicode_escape", "strict")
        octal = shown[1:-1].isascii()
        assert not octal or unquoted.encode("latin-1") == path
    else:
        assert shown.encode() == path


def test_one_line_keeps_quotes() -> None:
    assert one_line('no "a\nb" at c\\d\x1b[31m') == 'no "a\\nb" at c\\d\\033[31m'


def test_metadata_is_aligned() -> None:
    assert list(metadata_lines({"b": "2", "a long key of words": "x\ny"})) == [
        "Metadata:",
        "\t",
        '\ta long key of words = "x\\ny"',
        "\tb                  = 2",
    ]
    assert list(metadata_lines({})) == []


def test_a_table_is_aligned_and_fits() -> None:
    rows = [("main", "1", "a" * 64), ("数据", "22", "b" * 40)]
    columns = ("Branch", "Id", "Subject")
    assert aligned_lines(columns, rows, width=40, whole=False) == [
        "BRANCH  ID  SUBJECT",
        "main     1  aaaaaaaaaaaa",
        "数据    22  " + "b" * 27 + "…",
    ]
    assert aligned_lines(columns, rows, width=40, whole=True)[1].endswith("a" * 64)


def test_some_columns_are_never_cut() -> None:
    row = ("o" * 30, "k" * 30, "c" * 30)
    columns = ("Other", "Kept", "Changes")

    def widths(width: int, *kept: int) -> list[int]:
        (_, line) = aligned_lines(columns, [row], width=width, whole=False, kept=kept)
        return [len(cell) for cell in line.split()]

    assert widths(70, 1) == [16, 30, 20]
    assert widths(56, 1) == [6, 30, 16]
    assert widths(46, 1) == [6, 30, 6]
    assert widths(40, 1) == [16, 30, 16], "the line is too long anyway"
    assert widths(70, 0, 2) == [30, 6, 30]
    assert widths(60, 0, 1, 2) == [30, 30, 30]


@pytest.mark.parametrize(("seconds", "told"), [(0, "0s"), (61, "1m"), (7_200, "2h"), (9e5, "10d")])
def test_tables_have_short_ages(seconds: float, told: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert short_age(now - timedelta(seconds=seconds), now) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "just now"), (1, "1 second ago"), (7_200, "2 hours ago")]
)
def test_ages_have_one_unit(seconds: int, told: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == told

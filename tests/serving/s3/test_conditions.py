"""Conditions in the order of RFC 9110, and ranges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.serving.reading import http_date
from lakecli.serving.s3.conditions import (
    check_copy,
    check_read,
    check_write,
    copied_span_of,
    span_of,
)
from lakecli.serving.s3.errors import S3Error

TAG = "abc-1"
ETAG = f'"{TAG}"'
MODIFIED = datetime(2024, 2, 29, 12, 0, 1, 500_000, UTC)
SAME, BEFORE, AFTER = (http_date(MODIFIED + timedelta(seconds=seconds)) for seconds in (0, -1, 1))


def status_of_read(headers: dict[str, str]) -> int:
    try:
        check_read(headers, TAG, MODIFIED)
    except S3Error as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if-match": ETAG}, 200),
        ({"if-match": "abc-1"}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": f'"x", {ETAG}'}, 200),
        ({"if-match": '"x"'}, 412),
        ({"if-match": ""}, 412),
        ({"if-match": f"W/{ETAG}"}, 412),
        ({"if-none-match": ETAG}, 304),
        ({"if-none-match": f"W/{ETAG}"}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"x"'}, 200),
        ({"if-modified-since": SAME}, 304),
        ({"if-modified-since": AFTER}, 304),
        ({"if-modified-since": BEFORE}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-unmodified-since": SAME}, 200),
        ({"if-unmodified-since": BEFORE}, 412),
        ({"if-unmodified-since": "yesterday"}, 200),
        # A tag counts instead of a date, and what must match comes first.
        ({"if-match": ETAG, "if-unmodified-since": BEFORE}, 200),
        ({"if-none-match": '"x"', "if-modified-since": AFTER}, 200),
        ({"if-none-match": ETAG, "if-modified-since": BEFORE}, 304),
        ({"if-match": '"x"', "if-none-match": ETAG}, 412),
        ({"if-match": ETAG, "if-none-match": ETAG}, 304),
        ({"if-unmodified-since": BEFORE, "if-none-match": ETAG}, 412),
    ],
)
def test_reads(headers: dict[str, str], status: int) -> None:
    assert status_of_read(headers) == status


def test_an_object_that_is_not_modified() -> None:
    with pytest.raises(S3Error) as caught:
        check_read({"if-none-match": "*"}, TAG, MODIFIED)
    assert caught.value.headers == {"ETag": ETAG, "Last-Modified": SAME}


@pytest.mark.parametrize(
    ("headers", "present", "absent"),
    [
        ({}, "", ""),
        ({"if-none-match": "*"}, "PreconditionFailed", ""),
        ({"if-none-match": ETAG}, "PreconditionFailed", ""),
        ({"if-none-match": '"x"'}, "", ""),
        ({"if-match": ETAG}, "", "NoSuchKey"),
        ({"if-match": '"x"'}, "PreconditionFailed", "NoSuchKey"),
        ({"if-match": "*"}, "", "PreconditionFailed"),
        ({"if-unmodified-since": BEFORE}, "PreconditionFailed", ""),
        ({"if-modified-since": AFTER}, "", ""),
        ({"if-match": ETAG, "if-none-match": "*"}, "PreconditionFailed", "NoSuchKey"),
    ],
)
def test_writes(headers: dict[str, str], present: str, absent: str) -> None:
    for etag, modified, code in ((TAG, MODIFIED, present), (None, None, absent)):
        if not code:
            check_write(headers, etag, modified)
            continue
        with pytest.raises(S3Error) as caught:
            check_write(headers, etag, modified)
        assert caught.value.code == code


def test_sources_of_copies() -> None:
    prefix = "x-amz-copy-source-"
    for headers in (
        {"if-match": '"x"', f"{prefix}if-match": ETAG},
        {f"{prefix}if-none-match": '"x"'},
        {f"{prefix}if-modified-since": BEFORE},
        {f"{prefix}if-match": ETAG, f"{prefix}if-unmodified-since": BEFORE},
    ):
        check_copy(headers, TAG, MODIFIED)
    for headers in (
        {f"{prefix}if-match": '"x"'},
        {f"{prefix}if-none-match": ETAG},
        {f"{prefix}if-modified-since": AFTER},
        {f"{prefix}if-unmodified-since": BEFORE},
    ):
        with pytest.raises(S3Error) as caught:
            check_copy(headers, TAG, MODIFIED)
        assert caught.value.status == 412
        assert next(iter(headers)) in caught.value.message


def test_dates() -> None:
    east = MODIFIED.astimezone(timezone(timedelta(hours=5)))
    assert http_date(east) == "Thu, 29 Feb 2024 12:00:01 GMT"


def spans(text: str, size: int, **more: str) -> tuple[int, int] | None:
    return span_of({"range": text, **more}, size)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-", (0, 10)),
        ("bytes=3-5", (3, 6)),
        ("bytes=9-99", (9, 10)),
        (f"bytes=1-{'9' * 40}", (1, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        (" bytes = 1 - 2 ", (1, 3)),
        ("bytes=5-4", None),
        ("bytes=0-1,3-4", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=\u0661-\u0662", None),
        (f"bytes={'9' * 5000}-", None),
        ("items=0-1", None),
        ("", None),
    ],
)
def test_ranges(text: str, span: tuple[int, int] | None) -> None:
    assert spans(text, 10) == span


@pytest.mark.parametrize(
    ("text", "size"),
    [("bytes=10-", 10), ("bytes=10-11", 10), ("bytes=-0", 10), ("bytes=0-0", 0), ("bytes=-1", 0)],
)
def test_ranges_beyond_the_end(text: str, size: int) -> None:
    with pytest.raises(S3Error) as caught:
        spans(text, size)
    assert caught.value.status == 416
    assert caught.value.headers == {"Content-Range": f"bytes */{size}"}


@given(st.integers(0, 20), st.integers(0, 20) | st.none(), st.integers(1, 20))
def test_the_law_of_ranges(first: int, last: int | None, size: int) -> None:
    data = bytes(range(size))
    wanted = data[first:] if last is None else data[first : last + 1]
    text = f"bytes={first}-{'' if last is None else last}"
    if wanted:
        assert spans(text, size) == (first, first + len(wanted))
    elif last is not None and last < first:
        assert spans(text, size) is None
    else:
        with pytest.raises(S3Error):
            spans(text, size)


def test_if_range() -> None:
    assert spans("bytes=0-0", 10, **{"if-range": ETAG}) is None


def test_ranges_of_copies() -> None:
    assert copied_span_of("bytes=2-9", 10) == (2, 10)
    for text in ("", "bytes=2-", "bytes=-2", "2-9", "bytes=9-2", "bytes=0-1,2-3"):
        with pytest.raises(S3Error, match="InvalidArgument"):
            copied_span_of(text, 10)
    with pytest.raises(S3Error, match="InvalidRange"):
        copied_span_of("bytes=2-10", 10)

"""The clock of a store, as its responses show it, and the debug message for each."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

from lakecli.stores.capabilities import store_time
from lakecli.stores.contract import plain_encoding
from lakecli.stores.responses import LOGGER, ServerDate, log_response

if TYPE_CHECKING:
    import pytest

URL = "https://user:secret@bucket.example:8080/key?signature=secret"


def test_what_belongs_to_a_transfer_is_no_encoding() -> None:
    said = {
        "gzip": "gzip",
        "aws-chunked": "",
        "AWS-Chunked, gzip": "gzip",
        "gzip,aws-chunked": "gzip",
        "br,gzip": "br, gzip",
        "identity": "",
        "": "",
        "a b": "",
        "gzip\n": "gzip",
        "gzip;q=1": "",
    }
    assert {text: plain_encoding(text) for text in said} == said
    assert not plain_encoding(None)


def test_the_clock_continues_from_the_last_response() -> None:
    seconds = [10.0]
    date = ServerDate(clock=lambda: seconds[0])
    assert date.now() is None
    date.note("Sun, 01 Mar 2026 12:00:00 GMT")
    seconds[0] += 90
    assert date.now() == datetime(2026, 3, 1, 12, 1, 30, tzinfo=UTC)
    request = SimpleNamespace(method="GET", url="https://store/k")
    headers = {"Date": "Sun, 01 Mar 2026 13:00:00 GMT"}
    date.hook(SimpleNamespace(request=request, status_code=200, headers=headers))
    assert date.now() == datetime(2026, 3, 1, 13, tzinfo=UTC)
    date.note(None)  # a response of a test may have none
    assert date.now() == datetime(2026, 3, 1, 13, tzinfo=UTC)


def test_the_clock_goes_on_while_the_machine_is_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """`time.monotonic` stops then, and the store's clock would seem to be behind."""
    seconds = [10.0]
    monkeypatch.setattr(time, "clock_gettime", lambda clock: seconds[clock != time.CLOCK_BOOTTIME])
    date = ServerDate()
    date.note("Sun, 01 Mar 2026 12:00:00 GMT")
    seconds[0] += 3 * 3600
    assert date.now() == datetime(2026, 3, 1, 15, tzinfo=UTC)


def test_a_malformed_date_is_ignored() -> None:
    date = ServerDate(clock=lambda: 0.0)
    for header in (
        *("yesterday", "Sun, 41 Mar 2026 12:00:00 GMT", "0" * 300, "0" * 5_000),
        *("Sun, 01 Mar 2026 12:00:00 +99999999999999999", f"Sun, 01 Mar {'9' * 30} 12:00:00 GMT"),
    ):
        date.note(header)
        assert date.now() is None


def test_a_clock_at_the_end_of_time_is_ignored() -> None:
    seconds = [0.0]
    date = ServerDate(clock=lambda: seconds[0])
    date.note("Fri, 31 Dec 9999 23:59:59 GMT")
    seconds[0] += 1
    assert date.now() is None


def test_a_store_without_responses_has_no_clock() -> None:
    assert store_time(object()) is None
    store = SimpleNamespace(server_date=ServerDate(clock=lambda: 0.0))
    store.server_date.note("Sun, 01 Mar 2026 12:00:00 GMT")
    assert store_time(store) == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert timedelta(0) == store_time(store) - datetime(2026, 3, 1, 12, tzinfo=UTC)  # type: ignore[operator]


def test_a_message_has_neither_a_query_nor_a_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    log_response("GET", URL, 200)
    (record,) = caplog.records
    place = "https://bucket.example:8080/key"
    assert record.getMessage() == f"GET {place}: 200"
    assert record.__dict__["fields"] == {"method": "GET", "url": place, "status": 200}


def test_nothing_is_logged_unless_it_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    log_response("GET", URL, 200)
    assert not caplog.records

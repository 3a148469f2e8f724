"""The debug message for each response."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakecli.stores.responses import LOGGER, log_response

if TYPE_CHECKING:
    import pytest

URL = "https://user:secret@bucket.example:8080/key?signature=secret"


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

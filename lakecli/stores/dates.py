"""The clock of a store, from the ``Date`` of its responses; it needs no request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lakecli.base.retry import elapsed
from lakecli.stores.answer_checks import log_response
from lakecli.stores.capabilities import ShowsClock


class ServerDate:
    """Remembers the ``Date`` of the last response; safe to share between threads.

    Args:
        clock: returns seconds that only grow, also while the machine is asleep.
    """

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._last: tuple[str, float] | None = None

    def note(self, header: str | None) -> None:
        """Remember the ``Date`` header of a response that has just arrived."""
        if header:
            self._last = header, self._clock()

    def hook(self, response: Any, *_: object, **__: object) -> None:  # noqa: ANN401 - of requests
        """Remember the date of a response, and log it, as a hook of a session of ``requests``."""
        self.note(response.headers.get("Date"))
        log_response(response.request.method, response.request.url, response.status_code)

    def now(self) -> datetime | None:
        """Return the present by the store's clock, or ``None`` before the first response."""
        if self._last is None:
            return None
        header, then = self._last
        moment = date_of(header)
        try:
            return moment and moment + timedelta(seconds=self._clock() - then)
        except OverflowError:  # of the year 9999
            return None


def date_of(header: str) -> datetime | None:
    """Return the time that a header says, or ``None`` if it is malformed."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(header)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def store_time(store: object) -> datetime | None:
    """Return the present by a store's clock, or ``None`` before its first response."""
    return store.server_date.now() if isinstance(store, ShowsClock) else None

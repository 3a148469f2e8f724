"""One debug message for each response of a cloud, without anything secret."""

from __future__ import annotations

import sys
from functools import cache

from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from logging import Logger

LOGGER: Final = "lakecli.requests"
_DEBUG: Final = 10
"""The level of `logging` of that name."""


def log_response(method: str, url: str, status: int) -> None:
    """Log that a request was answered; its query and user, which may be secret, are left out."""
    if "logging" not in sys.modules:
        return  # whoever wants messages has imported it, which takes 2 ms
    log = _logger()
    if not log.isEnabledFor(_DEBUG):
        return
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    fields = {"method": method, "url": place, "status": status}
    log.debug("%s %s: %d", method, place, status, extra={"fields": fields})


@cache
def _logger() -> Logger:
    import logging  # waits while another thread is still importing it

    return logging.getLogger(LOGGER)

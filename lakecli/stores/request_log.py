"""One debug message for each response of a cloud, without anything secret."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import urlsplit

LOGGER: Final = "lakecli.requests"

_LOG: Final = logging.getLogger(LOGGER)


def log_response(method: str, url: str, status: int) -> None:
    """Log that a request was answered; its query and user, which may be secret, are left out."""
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    fields = {"method": method, "url": place, "status": status}
    _LOG.debug("%s %s: %d", method, place, status, extra={"fields": fields})

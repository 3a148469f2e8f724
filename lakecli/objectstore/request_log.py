"""One debug message for each response of a cloud, without anything secret."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from lakecli.typed import Final

LOGGER: Final = "lakecli.requests"


def log_response(method: str, url: str, status: int) -> None:
    """Log that a request was answered; its query and user, which may be secret, are left out."""
    if "logging" not in sys.modules:
        return  # whoever wants messages has imported it, which takes 2 ms
    import logging  # waits while another thread is still importing it

    log = logging.getLogger(LOGGER)
    if not log.isEnabledFor(logging.DEBUG):
        return
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    fields = {"method": method, "url": place, "status": status}
    log.debug("%s %s: %d", method, place, status, extra={"fields": fields})

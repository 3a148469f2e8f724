"""Requests of a download: connections that stay open, and what a refusal means."""

import email.utils
import http.client
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Tuple

EXPIRES = ""
TIMEOUT = 60
GONE = {404, 410}
REFUSED = {400, 401, 403, 412} | GONE
CHANGED = "the object has changed at its source since this script was made"


class Connections(threading.local):
    """The connections of one thread, kept open from one request to the next."""

    def __init__(self) -> None:
        self.open = {}  # type: Dict[Tuple[str, str], http.client.HTTPConnection]

    def get(self, url: str, start: int) -> Any:
        """Request an object from a byte on; return the response, whatever its status."""
        headers = {"Range": "bytes=%d-" % start} if start else {}
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
            try:
                request = urllib.request.Request(url, headers=headers)
                return urllib.request.urlopen(request, timeout=TIMEOUT)
            except urllib.error.HTTPError as answer:
                return answer
        key = (parts.scheme, parts.netloc)
        is_used = key in self.open
        connection = self.open.get(key) or self.connect(key)
        try:
            connection.request("GET", url[url.index(parts.path, 8) :], headers=headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.drop(url)
            if not is_used:
                raise
            return self.get(url, start)  # the server had closed the connection

    def connect(self, key: Tuple[str, str]) -> http.client.HTTPConnection:
        """Open a connection to a server, and keep it."""
        scheme, place = key
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        self.open[key] = kind(place, timeout=TIMEOUT)
        return self.open[key]

    def drop(self, url: str) -> None:
        """Close the connection to a URL's server."""
        parts = urllib.parse.urlsplit(url)
        connection = self.open.pop((parts.scheme, parts.netloc), None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections of this thread."""
        for connection in self.open.values():
            connection.close()
        self.open.clear()


def refusal(status: int, headers: Any, body: bytes) -> str:
    """Return why a server refuses an object: it is gone or changed, or its link has expired."""
    if status in GONE:
        return "the object is gone at its source (%d): ask for a new script" % status
    if status == 412:
        return "%s (%d): ask for a new one" % (CHANGED, status)
    if has_ended(headers, body):
        return "the server refuses it (%d): its link expired at %s; ask for a new one" % (
            status,
            EXPIRES,
        )
    return (
        "the server refuses it (%d), though its link is valid until %s: the object is gone at its "
        "source, or access to it was revoked" % (status, EXPIRES)
    )


def has_ended(headers: Any, body: bytes) -> bool:
    """Tell whether a refusal means that the link has expired, by its text or the server's date."""
    words = body.lower()
    if b"expired" in words or b"not valid in the specified time frame" in words:
        return True
    date = email.utils.parsedate(headers.get("Date", ""))
    return after_end(time.gmtime() if date is None else date)


def after_end(moment: Any) -> bool:
    """Tell whether the first of the links has expired at a moment."""
    return bool(EXPIRES) and time.strftime("%Y-%m-%dT%H:%M:%SZ", moment) > EXPIRES


def change_of(item: Dict[str, Any], status: int, headers: Any) -> str:
    """Return how a response differs from the listed object, or an empty string."""
    if status == 200 and not headers.get("Content-Encoding"):
        size = headers.get("Content-Length", "")
    else:
        size = headers.get("Content-Range", "").rpartition("/")[2]
    if status in (200, 206, 416) and size.isdigit() and int(size) != item["size"]:
        return "it has %s bytes, not %d" % (size, item["size"])
    etag = headers.get("ETag", "").strip('"')
    if item.get("etag") and re.match(r"[0-9a-f]{32}(-[0-9]+)?$", etag) and etag != item["etag"]:
        return "its ETag is different"
    return ""

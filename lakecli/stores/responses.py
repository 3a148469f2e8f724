"""Checks a store's responses before they are used, logs them, and records the store's date.

A response may come from a proxy, a login page, or another program at the store's address, and an
attacker may have written the texts in the response. So this module checks each text that becomes
part of a URL, a host, a header or a path against a grammar, and limits the size of bodies. A page
that is not a listing is an error, not an empty listing.

Each response is logged in one debug message, without secrets. The ``Date`` headers of responses
show a store's clock without an extra request.
"""

import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from json import loads
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lakecli.base.progress import elapsed

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_ANSWER: Final = 16 << 20
"""Largest response other than an object, in bytes: three times a page of 1,000 long keys."""

MAX_REFUSAL: Final = 1 << 20
"""Largest body of a response that reports an error, in bytes."""

_SHOWN: Final = 60
_REGION: Final = r"[A-Za-z0-9-]{1,63}"
_ETAG: Final = r"[ -~]{0,1024}"
_TOKEN: Final = r"[^\x00-\x1f\x7f]{1,8192}"  # noqa: S105 - a position in a listing
_UPLOAD_ID: Final = r"[!-~]{1,2048}"
_VERSION_ID: Final = r"[!-~]{1,1024}"
_ASKED: Final = r"bytes=([0-9]*)-([0-9]*)"
_ANSWERED: Final = r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)"


class UnusableAnswerError(Exception):
    """No store of this kind sends such a response; the message describes the defect."""


class RangeIgnoredError(Exception):
    """The response to a request for a part of an object is the whole object."""


def region_of(text: str) -> str:
    """Check and return the name of a region (or ``""``), since it becomes part of a host name."""
    return _checked(_REGION, text, "the region") if text else ""


def etag_of(text: str) -> str:
    """Check an ETag, since it becomes part of a header, and return it without its quotes."""
    return _checked(_ETAG, text, "the ETag").strip('"')


def token_of(text: object) -> str:
    """Check and return the continuation token of a listing."""
    return _checked(_TOKEN, text, "the position of the next page")


def check_moves(position: object, following: object) -> None:
    """Refuse a page whose next page is the page itself: the listing would never end."""
    if following and following == position:
        raise UnusableAnswerError("the page after this one is this one")


def upload_id_of(text: object) -> str:
    """Check and return the ID of a multipart upload."""
    return _checked(_UPLOAD_ID, text, "the ID of an upload")


def version_id_of(text: object) -> str:
    """Check and return the ID of a version: an opaque text, without blanks."""
    return _checked(_VERSION_ID, text, "the ID of a version")


def _checked(grammar: str, text: object, what: str) -> str:
    if not isinstance(text, str) or re.fullmatch(grammar, text, re.ASCII) is None:
        shown = repr(text)[:_SHOWN]
        raise UnusableAnswerError(f"{what} is malformed, {shown}")
    return text


def required(answer: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - of any type
    """Return a required property of a response; raise an error if it is missing or empty."""
    found = answer.get(name)
    if found is None or found == "":
        raise UnusableAnswerError(f"it has no {name}")
    return found


def name_below(prefix: str, name: str) -> str:
    """Return the name of a listed object; raise an error if it does not begin with `prefix`."""
    if not name.startswith(prefix):
        raise UnusableAnswerError("it lists an object of another prefix")
    return name


def read_xml(body: bytes, root: str, *needs: str, also: frozenset[str] = frozenset()) -> "Element":
    """Parse a response in XML, and return its root element.

    Args:
        root: the expected name of the root element.
        also: other accepted names of the root; a root named ``Error`` needs no elements.
        needs: the elements that the root must have; ``IsTruncated`` must be true or false.
    """
    from xml.etree.ElementTree import ParseError, fromstring

    if not body.strip():
        raise UnusableAnswerError(f"it is empty, expected was {root}")
    try:
        found = fromstring(body.strip())  # noqa: S314 - bounded; expat bounds entities
    except (ParseError, ValueError, LookupError):
        raise UnusableAnswerError(f"it is not a whole XML document, expected was {root}") from None
    name = found.tag.rpartition("}")[2]
    if name != root and name not in also:
        raise UnusableAnswerError(f"it is a document {name[:_SHOWN]!r}, expected was {root}")
    if name == "Error":
        return found
    for need in needs:
        if found.find(f"{{*}}{need}") is None:
            raise UnusableAnswerError(f"it is a {root} without {need}")
        if need == "IsTruncated" and found.findtext(f"{{*}}{need}") not in {"true", "false"}:
            raise UnusableAnswerError("it does not say whether another page follows")
    return found


def read_json(body: bytes, kind: str = "") -> Mapping[str, Any]:
    """Parse a response in JSON, which must be an object.

    Args:
        kind: required value of the property ``kind``; ``""``: any.
    """
    try:
        found = loads(body)
    except (ValueError, RecursionError):
        raise UnusableAnswerError(f"it is not JSON, expected was {kind or 'an object'}") from None
    if not isinstance(found, dict) or (kind and found.get("kind") != kind):
        raise UnusableAnswerError(f"it is other JSON, expected was {kind or 'an object'}")
    return found


def size_of_part(asked: str, answered: str) -> int:
    """Return the size in bytes of the part of an object that a response contains.

    Args:
        asked: the header ``Range`` of the request.
        answered: the header ``Content-Range`` of the response.

    Raises:
        UnusableAnswerError: the response contains a different part from the one requested.
    """
    wanted = re.fullmatch(_ASKED, asked, re.ASCII)
    found = re.fullmatch(_ANSWERED, answered, re.ASCII)
    if wanted is None or found is None:
        raise UnusableAnswerError("it does not say which part of the object it is")
    first, last = int(found[1]), int(found[2])
    end = None if found[3] == "*" else int(found[3]) - 1
    if not wanted[1]:
        is_asked = end is not None and (first, last) == (max(end + 1 - int(wanted[2]), 0), end)
    else:
        until = int(wanted[2]) if wanted[2] else end
        is_asked = first == int(wanted[1]) and last == (
            until if end is None or until is None else min(until, end)
        )
    if not is_asked or last < first - 1:  # first - 1: an emulator's header for an empty part
        raise UnusableAnswerError("it is another part of the object than was asked for")
    return last - first + 1


def longest_part(asked: str) -> int | None:
    """Return the largest number of bytes that a ``Range`` header requests; ``None``: no limit."""
    wanted = re.fullmatch(_ASKED, asked, re.ASCII)
    if wanted is None or not wanted[2]:
        return None
    return int(wanted[2]) + 1 - int(wanted[1]) if wanted[1] else int(wanted[2])


LOGGER: Final = "lakecli.requests"

_LOG: Final = logging.getLogger(LOGGER)


def log_response(method: str, url: str, status: int) -> None:
    """Log a response; omit the query and the user of its URL, which may be secret."""
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    fields = {"method": method, "url": place, "status": status}
    _LOG.debug("%s %s: %d", method, place, status, extra={"fields": fields})


class ServerDate:
    """Tells a store's time by the ``Date`` of its last response; safe to share between threads.

    Args:
        clock: a function that returns the seconds of a monotonic clock, system sleep included.
    """

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._last: tuple[str, float] | None = None

    def note(self, header: str | None) -> None:
        """Remember the ``Date`` header of a response that has just arrived."""
        if header:
            self._last = header, self._clock()

    def hook(self, response: Any, *_: object, **__: object) -> None:  # noqa: ANN401 - of requests
        """Remember the date of a response, and log it: a hook for a session of ``requests``."""
        self.note(response.headers.get("Date"))
        log_response(response.request.method, response.request.url, response.status_code)

    def now(self) -> datetime | None:
        """Return the current time by the store's clock, or ``None`` before the first response."""
        if self._last is None:
            return None
        header, then = self._last
        moment = date_of(header)
        try:
            return moment and moment + timedelta(seconds=self._clock() - then)
        except OverflowError:  # a date in the year 9999
            return None


def date_of(header: str) -> datetime | None:
    """Return the time of a ``Date`` header, or ``None`` if it is malformed."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(header)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

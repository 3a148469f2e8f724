"""What presigned URLs have in common, whichever store they are for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from lakecli.objectstore.base import PresignRequest


def lifetime_of(request: PresignRequest, *, longest: timedelta) -> timedelta:
    """Return how long a URL may live: as asked, at most `longest`.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
    """
    if request.method not in {"GET", "PUT"}:
        raise UsageError(f"cannot presign {request.method}", hint="GET or PUT")
    if request.expires_in < timedelta(seconds=1):
        raise UsageError("a presigned URL must live for a second at least")
    return min(request.expires_in, longest)


def response_headers(request: PresignRequest) -> dict[str, str]:
    """Return what the answer to a GET shall say instead of what the object was stored with."""
    headers = {}
    if request.method == "GET":
        if request.content_type:
            headers["content-type"] = request.content_type
        if request.file_name:
            headers["content-disposition"] = content_disposition(
                request.file_name, attachment=request.attachment
            )
        elif request.attachment:
            headers["content-disposition"] = "attachment"
    return headers


def content_disposition(file_name: str, *, attachment: bool = False) -> str:
    """Return a header value that suggests `file_name`, as RFC 6266 and RFC 8187 spell it.

    With `attachment` browsers save the object instead of showing it.

    Old clients and curl read the plain form, where everything but harmless ASCII is ``_``.
    """
    plain = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in file_name
    )
    exact = quote(file_name.encode("utf-8", "surrogateescape"), safe="!#$&+-.^_`|~")
    kind = "attachment" if attachment else "inline"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}"

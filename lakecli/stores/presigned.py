"""Presigned URLs: what one permits, and the URL itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class PresignedUrl(NamedTuple):
    """A bearer URL and the time at which it stops working.

    Attributes:
        headers: that a PUT to the URL must send.
        unsigned: if the URL still lacks its signature, in hex at its end: the function that signs,
            and the text. It raises `PermissionDenied` if a server refuses to sign, and
            `Unreachable` if that does not answer.
    """

    url: str
    expires_at: datetime
    headers: Mapping[str, str] = _NO_HEADERS
    unsigned: tuple[Callable[[bytes], bytes], bytes] | None = None

    def signed(self, signature: bytes) -> PresignedUrl:
        """Return the URL with its signature."""
        url, expires_at, headers, _ = self
        return PresignedUrl(url + signature.hex(), expires_at, headers)


class PresignRequest(NamedTuple):
    """What a presigned URL permits.

    Attributes:
        method: ``GET`` or ``PUT``.
        expires_in: requested lifetime; the store's limit or the end of the credentials may come
            earlier.
        content_type: of the response to a GET, in place of the object's own; a PUT must send it.
        file_name: suggested to browsers by a GET (``Content-Disposition``).
        attachment: have browsers save the object instead of showing it.
        may_be_unsigned: leave a signature that takes long to the caller; see `PresignedUrl`.
    """

    method: str
    expires_in: timedelta
    content_type: str = ""
    file_name: str = ""
    attachment: bool = False
    may_be_unsigned: bool = False

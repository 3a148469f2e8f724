"""Presigned URLs: what one permits, and the URL itself."""

from __future__ import annotations

from types import MappingProxyType

from lakecli.named_tuple import NamedTuple
from lakecli.typed import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from lakecli.objectstore.rsa import PrivateKey

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class UrlSigner(Protocol):
    """Makes the signatures of URLs that end in one."""

    @property
    def key(self) -> PrivateKey | None:
        """The private key, if this machine has it; then `sign` sends no request."""

    @property
    def sign(self) -> Callable[[bytes], bytes]:
        """Returns the signature of a text, by RSA and SHA-256.

        Raises:
            PermissionDenied: a server refused to sign.
            Unreachable: it did not answer.
        """


class PresignedUrl(NamedTuple):
    """A bearer URL and the time at which it stops working.

    Attributes:
        headers: that a PUT to the URL must send.
        unsigned: if the URL still lacks its signature, in hex at its end: who signs which text.
    """

    url: str
    expires_at: datetime
    headers: Mapping[str, str] = _NO_HEADERS
    unsigned: tuple[UrlSigner, bytes] | None = None

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

"""Presign URLs of entries, inside or outside the namespace."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.stores.presigning import PresignedUrl, PresignRequest

_SHOWN: Final = re.compile(
    r"(text/(plain|csv|tab-separated-values|markdown)|application/(json|pdf|x-ndjson)"
    r"|image/(png|jpeg|gif|webp|avif|bmp|tiff)|audio/[a-z0-9.+-]+|video/[a-z0-9.+-]+)"
    r"( *; *charset=[a-z0-9-]+)?",
    re.ASCII | re.IGNORECASE,
)
"""Content types that a browser shows without running code in them."""


@lru_cache(64)
def is_shown(content_type: str) -> bool:
    """Tell whether a browser shows this content type without running code in it."""
    return _SHOWN.fullmatch(content_type) is not None


class Presigner(NamedTuple):
    """Presigns URLs for the objects of one repository, all as of one moment.

    Sends no request to the storage namespace. For another bucket in S3 it requests the region once,
    since a signature is valid for one region.

    Attributes:
        repository: the repository of the objects.
        now: the moment of signing.
        expires_in: how long the URLs are valid from then on.
        inline: let browsers show every object, even one whose code they would run.
        may_be_unsigned: leave signatures that take long to the caller; see `PresignRequest`.
    """

    repository: Repository
    now: datetime
    expires_in: timedelta
    inline: bool = False
    may_be_unsigned: bool = False

    def presign(self, path: bytes, entry: Entry) -> PresignedUrl:
        """Return a URL that reads an entry's bytes without credentials.

        The response has the entry's content type and file name, since one data object may serve
        many paths. Browsers save objects whose code they would run, and those of unknown type.

        Raises:
            Unsupported: the store has no URLs.
            LakeError: the entry's address cannot be followed; see `AddressResolver`.
        """
        store, key = self.repository.addresses.locate(entry.physical_address)
        name = path[path.rfind(b"/") + 1 :]
        request = PresignRequest(
            "GET",
            self.expires_in,
            entry.content_type,
            name.decode("ascii") if name.isascii() else os.fsdecode(name),
            not (self.inline or is_shown(entry.content_type)),
            self.may_be_unsigned,
        )
        return store.presign(key, request, now=self.now)

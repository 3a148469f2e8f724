"""Signing URLs of entries, wherever their bytes lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.objectstore.base import PresignRequest
from lakecli.repository.address import locate

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl
    from lakecli.repository.lake import Repository


class Presigner:
    """Signs URLs that read the objects of one repository, all as of one moment.

    Nothing is asked of the storage namespace. Of a bucket elsewhere in S3 the region is asked,
    once, since signatures are made for it.

    Args:
        repository: whose objects.
        now: the moment of signing.
        expires_in: how long the URLs shall work from then on.
    """

    def __init__(self, repository: Repository, *, now: datetime, expires_in: timedelta) -> None:
        self._repository = repository
        self._now = now
        self._expires_in = expires_in

    def presign(self, path: bytes, entry: Entry) -> PresignedUrl:
        """Return a URL that reads an entry's bytes without credentials.

        It answers with the entry's content type and file name, since one data object may serve
        many paths.

        Raises:
            Unsupported: the store has no URLs.
            LakeError: the entry's address cannot be followed; see `address.Resolver`.
        """
        store, key = locate(self._repository, entry)
        request = PresignRequest(
            method="GET",
            expires_in=self._expires_in,
            content_type=entry.content_type,
            file_name=os.fsdecode(path.rpartition(b"/")[2]),
        )
        return store.presign(key, request, now=self._now)

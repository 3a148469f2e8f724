"""Signing URLs of entries, wherever their bytes lie."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli.errors import LakeError
from lakecli.objectstore.base import PresignRequest
from lakecli.repository.address import is_external, split_address

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lakecli.model import Entry
    from lakecli.objectstore.base import ObjectStore, PresignedUrl
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
        self._buckets: dict[str, ObjectStore] = {}

    def presign(self, path: bytes, entry: Entry) -> PresignedUrl:
        """Return a URL that reads an entry's bytes without credentials.

        It answers with the entry's content type and file name, since one data object may serve
        many paths.

        Raises:
            Unsupported: the store has no URLs.
            UsageError: the entry's address is of a kind that lakecli has no store for.
        """
        store, key = self._repository.store, entry.physical_address
        if is_external(entry):
            bucket, key = split_address(entry.physical_address)
            store = self._bucket(bucket)
        request = PresignRequest(
            method="GET",
            expires_in=self._expires_in,
            content_type=entry.content_type,
            file_name=os.fsdecode(path.rpartition(b"/")[2]),
        )
        return store.presign(key, request, now=self._now)

    def _bucket(self, uri: str) -> ObjectStore:
        if uri not in self._buckets:
            from lakecli.objectstore.registry import open_store

            self._buckets[uri] = open_store(uri, region=self._region_of(uri))
        return self._buckets[uri]

    def _region_of(self, uri: str) -> str:
        from lakecli.objectstore.registry import prepare_namespace

        record = self._repository.record
        if f"{record.storage_namespace}/".startswith(f"{uri}/"):
            return record.region
        if uri.startswith("s3://"):
            with suppress(LakeError):  # the region that is configured may be right
                return prepare_namespace(uri)
        return ""

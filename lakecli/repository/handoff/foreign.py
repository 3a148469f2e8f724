"""Record an object outside the namespace, without copying or reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

from lakecli.base.model import Entry
from lakecli.base.uri import check_path
from lakecli.errors import Refused, UsageError
from lakecli.repository.core.address import split_address
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.places import bucket_of, check_host, place_of, remember
from lakecli.repository.core.stager import stage_entry
from lakecli.repository.transfer.content_types import content_type_of
from lakecli.stores.uri import is_local, parse


def record_object(
    repository: Repository,
    branch: str,
    path: bytes,
    *,
    location: str,
    size: int,
    checksum: str,
    modified_at: datetime | None,
    content_type: str | None,
    metadata: Mapping[str, str],
) -> Entry:
    """Stage an entry whose bytes stay outside the namespace; they are not checked.

    Args:
        repository: the repository.
        branch: the branch to stage on.
        path: the path to stage at.
        location: URI of the object, outside the repository's storage namespace.
        size: in bytes.
        checksum: BLAKE3 in 64 hex digits, or the ETag by which its store will know it again.
        modified_at: when it was written; ``None`` means now.
        content_type: instead of what the suffix of the path implies.
        metadata: user metadata.

    Raises:
        NotFound: no such branch.
        Refused: the location lies inside the storage namespace.
        UsageError: the location is no URI of an object in a store that lakecli knows.
    """
    check_path(path)
    check_plain(location)
    bucket, key = split_address(location)
    if not key:
        raise UsageError(f"no object in the location {location!r}", hint="s3://BUCKET/KEY")
    address = f"{bucket}/{key}"
    namespace = repository.record.storage_namespace
    if _is_inside(address, namespace):
        raise Refused(
            f"the location lies inside the storage namespace: {address}",
            hint="objects of a repository have several paths by `fs cp`, which copies no data",
        )
    if is_local(bucket) and not is_local(namespace):
        raise Refused(
            f"a file of this machine cannot be part of a namespace in a bucket: {address}",
            hint="upload it: lakecli fs upload",
        )
    check_host(bucket)
    place = place_of(namespace, bucket, key)
    if place == bucket_of(namespace):
        raise Refused(
            f"only the whole bucket of the storage namespace covers the location: {address}",
            hint="upload a copy of the object: lakecli fs upload",
        )
    entry = Entry(
        physical_address=address,
        size=size,
        checksum=checksum,
        modified_at=repository.lake.now() if modified_at is None else modified_at,
        content_type=content_type_of(path) if content_type is None else content_type,
        metadata=metadata,
    )
    remember(repository, [place])
    stage_entry(repository, branch, path, entry, kind="stage")
    return entry


def check_plain(location: str) -> None:
    """Refuse a location with a query, a fragment or credentials: every clone can read it.

    Raises:
        UsageError: it has one. The error does not show the location, which may be a secret.
    """
    authority = location.partition("://")[2].partition("/")[0]
    for mark, what in (("?", "a query"), ("#", "a fragment")):
        if mark in location:
            raise UsageError(
                f"{what} in a location",
                hint="name the object alone: s3://BUCKET/KEY; a key that has ? or # in its name "
                "can be imported: lakecli import",
            )
    if "@" in authority:
        raise UsageError("credentials in a location", hint="name the object alone: s3://BUCKET/KEY")


def _is_inside(address: str, namespace: str) -> bool:

    if f"{address}/".startswith(f"{namespace}/"):
        return True
    place, file = parse(namespace), parse(address)
    if place.bucket or file.bucket:
        return False
    root = os.path.realpath(place.path)
    return os.path.commonpath([root, os.path.realpath(file.path)]) == root

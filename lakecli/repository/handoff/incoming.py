"""Stage objects of other people: objects sent to presigned URLs, and objects in other buckets.

`take_in` stages the object that was sent to one of `new_links`, in four steps. If a run crashes at
any step, repeating the command does the remaining steps:

1. The object is copied to a key that no URL points to and no other run uses, so nobody can change
   the copy.
2. The copy is read once to compute its digest. Then the store copies it to its content address,
   unless the content address already has the same bytes.
3. The entry is staged. It records the ID of the link, so that a repeated run finds it.
4. Every copy is deleted, including copies of crashed runs. Last the original is deleted, if it has
   not changed.

`record_object` stages an object outside the namespace, without copying or reading it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from blake3 import blake3

from lakecli.base.content_types import content_type_of
from lakecli.base.layout import data_key, incoming_key
from lakecli.base.model import CLIENT_METADATA_PREFIX, CONTENT_ENCODING, Entry
from lakecli.base.uri import check_path
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, NotFound, Refused, Unsupported, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading import addresses
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.recorded import Hasher
from lakecli.repository.reading.view import check_branch
from lakecli.repository.staged.stager import NewAttributes, stage_entry, values_on
from lakecli.stores.capabilities import copy_across, uploads_of
from lakecli.stores.contract import ANY, Version, find_info, size_of
from lakecli.stores.presigned_urls import LARGEST_PUT, PresignedPart, PresignedUrl, PresignRequest
from lakecli.stores.uri import is_local

CLIENT_INCOMING: Final = CLIENT_METADATA_PREFIX + "incoming-id"
"""Metadata key: the ID of the link to which an object was sent."""

_ID: Final = re.compile(r"[0-9a-f]{32}")
_PLAIN: Final = "name the object alone: s3://BUCKET/KEY"


@dataclass(frozen=True, slots=True)
class UploadLink:
    """A URL to which one object can be sent.

    Attributes:
        id: ID of the link in 32 hex digits, for fs stage --incoming.
        physical_address: URI of the uploaded object.
        signed: the URL, its expiry, and the headers or form fields to send with it. All of these
            except the expiry are secrets.
        upload: the ID of the multipart upload of a large object; ``""`` if there is none.
        parts: the URL of each part, all of them secrets; the first part may have any size.
    """

    id: str
    physical_address: str
    signed: PresignedUrl
    upload: str = ""
    parts: Sequence[str] = ()


def new_links(
    repository: Repository,
    branch: str,
    *,
    count: int,
    expires_in: timedelta,
    max_size: int = LARGEST_PUT,
    stem: str = "",
) -> Iterator[UploadLink]:
    """Yield new links to which objects can be sent; nothing is written.

    Args:
        repository: the repository of the objects.
        branch: the branch on which the objects will be staged.
        count: the number of links.
        expires_in: the lifetime of the links.
        max_size: the largest size of an object, in bytes.
        stem: the hex digits at the beginning of all IDs.

    Raises:
        NotFound: no such branch.
        Unsupported: the store has no presigned URLs, or cannot limit the size of uploads.
    """
    check_branch(repository, branch)
    runtime = repository.lake.runtime
    request = PresignRequest(method="PUT", expires_in=expires_in, max_size=max_size)
    now = runtime.clock()
    for _ in range(count):
        incoming_id = stem + runtime.new_id().hex()[len(stem) :]
        key = incoming_key(incoming_id)
        signed = repository.store.presign(key, request, now=now)
        yield UploadLink(incoming_id, f"{repository.record.storage_namespace}/{key}", signed)


def with_parts(
    repository: Repository, link: UploadLink, *, expires_in: timedelta, part_size: int, count: int
) -> UploadLink:
    """Begin the multipart upload of a large object; return its link with the URLs of the parts.

    Args:
        repository: the repository of the link.
        link: the link of the object, without URLs of parts.
        expires_in: the lifetime of the URLs.
        part_size: the size in bytes of each part except the first; some stores cannot enforce it.
        count: the largest number of parts.

    Raises:
        Unsupported: the store has no multipart uploads, or each signature would need a request.
    """
    store, now = repository.store, repository.lake.runtime.clock()
    uploads, key = uploads_of(store), incoming_key(link.id)
    if uploads is None:
        raise Unsupported("the store has no uploads in parts")
    upload = uploads.start(key, by_urls=True)
    parts = (PresignedPart(upload, *each) for each in enumerate([0] + [part_size] * (count - 1), 1))
    requests = (PresignRequest("PUT", expires_in, part=part) for part in parts)
    urls = [store.presign(key, request, now=now).url for request in requests]
    return replace(link, upload=upload, parts=urls)


def take_in(
    repository: Repository, branch: str, path: bytes, incoming_id: str, attributes: NewAttributes
) -> tuple[Entry, bool]:
    """Stage the object that was sent to a link.

    Args:
        attributes: user metadata, and a content type that replaces the type that the suffix of the
            path implies.

    Returns:
        The staged entry, and whether another object was meanwhile sent to the same link. That
        object is kept.

    Raises:
        NotFound: no such branch, or nothing was sent to the link.
        UsageError: the ID is malformed.
    """
    check_path(path)
    if not _ID.fullmatch(incoming_id):
        hint = "it has 32 hex digits; a link has one: `fs presign --put PATH`"
        raise UsageError(f"not the ID of a link: {incoming_id!r}", hint=hint)
    check_branch(repository, branch)
    key, store = incoming_key(incoming_id), repository.store
    came = find_info(store, key)
    if came is None:
        return _taken_before(repository, branch, path, incoming_id), False
    entry = bring_in(repository, path, incoming_id, attributes)
    repository.lake.runtime.on_step("incoming:stage")
    stage_entry(repository, branch, path, entry)
    return entry, clear(repository, incoming_id, came.version)


def bring_in(
    repository: Repository,
    path: bytes,
    incoming_id: str,
    attributes: NewAttributes,
    *,
    size: int | None = None,
    digest: tuple[Hasher, str] | None = None,
) -> Entry:
    """Copy the object that was sent to a link to its content address; return the entry to stage.

    Args:
        repository: the repository of the link.
        path: the path at which the entry will be staged.
        incoming_id: the ID of the link.
        attributes: user metadata, and a content type that replaces the type that the suffix of the
            path implies.
        size: the size in bytes that the object must have; ``None``: any size.
        digest: a hasher for the sender's algorithm, and the digest that the sender stated.

    Raises:
        ObjectNotFound: no object was sent to the link.
        IntegrityError: the object does not have the required size or the stated digest.
    """
    key, store, runtime = incoming_key(incoming_id), repository.store, repository.lake.runtime
    runtime.on_step("incoming:set-aside")
    aside = f"{key}.{runtime.new_id().hex()}"
    store.copy(key, aside)
    copied = store.head(aside)
    if size is not None and copied.size != size:
        store.delete([aside])
        raise IntegrityError("another object was sent meanwhile")
    hasher = blake3()
    for piece in read_object(repository, Entry(aside, copied.size, "", copied.modified_at)):
        hasher.update(piece)
        if digest is not None:
            digest[0].update(piece)
    if digest is not None and digest[0].hexdigest() != digest[1]:
        store.delete([aside])
        raise IntegrityError("its bytes are not those that the sender has read")
    address = data_key(hasher.hexdigest())
    runtime.on_step("incoming:copy")
    claimed = repository.guard.claim([address])  # so that garbage collection keeps the object
    size_there = size_of(store, address) if claimed is None else claimed.get(address)
    # Other entries may refer to the object, so it gets no headers from the sender's request.
    if size_there != copied.size and not copy_across(store, aside, store, address):
        with store.open(aside) as body:
            store.put(address, body, ANY)
    own = {CONTENT_ENCODING: copied.content_encoding} if copied.content_encoding else {}
    recorded = {**own, **(attributes.metadata or {}), CLIENT_INCOMING: incoming_id}
    kind = attributes.content_type
    kind = content_type_of(path) if kind is None else kind
    return Entry(address, copied.size, hasher.hexdigest(), runtime.now(), kind, recorded)


def clear(repository: Repository, incoming_id: str, version: Version | None) -> bool:
    """Delete the copies of a link's staged object, and then the sent object itself.

    Args:
        repository: the repository of the link.
        incoming_id: the ID of the link.
        version: the version of the object that was staged.

    Returns:
        Whether another object was meanwhile sent to the same link. That object is kept.
    """
    key, store = incoming_key(incoming_id), repository.store
    repository.lake.runtime.on_step("incoming:delete-copies")
    store.delete([info.key for info in store.list(f"{key}.")])
    repository.lake.runtime.on_step("incoming:delete")
    now_there = find_info(store, key)
    if now_there is not None and now_there.version != version:
        return True
    store.delete([key])
    return False


def _taken_before(repository: Repository, branch: str, path: bytes, incoming_id: str) -> Entry:
    """Return the entry that an earlier run staged before it was interrupted.

    Raises:
        NotFound: the path has no entry with the ID of this link.
    """
    (value,) = values_on(repository, branch, [path])
    if value is not None:
        entry = decode_entry(value)
        if entry.metadata.get(CLIENT_INCOMING) == incoming_id:
            return entry
    hint = "send one object before the link expires: curl -T FILE URL"
    raise NotFound(f"nothing was sent to the link {incoming_id}", hint=hint)


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
    """Stage an entry for an object outside the namespace, without reading the object.

    Args:
        location: the URI of the object, outside the repository's storage namespace.
        checksum: the BLAKE3 digest in 64 hex digits, or the ETag that the store reports.
        modified_at: the time when the object was written; ``None`` means now.
        content_type: replaces the content type that the suffix of the path implies.

    Raises:
        NotFound: no such branch.
        Refused: the location is inside the storage namespace.
        UsageError: the location is not the URI of an object in a store that lakecli supports.
    """
    check_path(path)
    check_plain(location)
    bucket, key = addresses.split_address(location)
    if not key:
        raise UsageError(f"no object in the location {location!r}", hint="s3://BUCKET/KEY")
    address = f"{bucket}/{key}"
    namespace = repository.record.storage_namespace
    is_file = is_local(bucket)
    if f"{address}/".startswith(f"{namespace}/") or (
        is_file and addresses.lies_below(bucket, key, [namespace])
    ):
        hint = "another path of an object of the repository costs no data: `fs cp PATH DEST`"
        raise Refused(f"the location lies inside the storage namespace: {address}", hint=hint)
    if is_file and not is_local(namespace):
        what = f"a file of this machine cannot be part of a namespace in a bucket: {address}"
        raise Refused(what, hint="upload it: `fs upload FILE PATH`")
    addresses.check_host(bucket)
    place = addresses.place_of(namespace, bucket, key)
    if place == addresses.bucket_of(namespace):
        what = f"only the whole bucket of the storage namespace covers the location: {address}"
        raise Refused(what, hint="upload a copy of the object: `fs upload FILE PATH`")
    kind = content_type_of(path) if content_type is None else content_type
    when = repository.lake.runtime.now() if modified_at is None else modified_at
    entry = Entry(address, size, checksum, when, kind, metadata)
    addresses.remember(repository, [place])
    stage_entry(repository, branch, path, entry)
    return entry


def check_plain(location: str) -> None:
    """Refuse a location with a query, a fragment or credentials, since all clones can read it.

    Raises:
        UsageError: the location has a query, a fragment or credentials. The error does not show the
            location, which may be a secret.
    """
    authority = location.partition("://")[2].partition("/")[0]
    for mark, what in (("?", "a query"), ("#", "a fragment")):
        if mark in location:
            other = "a key that has ? or # in its name can be imported"
            hint = f"{_PLAIN}; {other}: `import --from SOURCE --to PATH`"
            raise UsageError(f"{what} in a location", hint=hint)
    if "@" in authority:
        raise UsageError("credentials in a location", hint=_PLAIN)

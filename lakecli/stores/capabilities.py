"""What some stores can do beyond `contract.ObjectStore`: one protocol for each capability.

====================  ====  ====  ====  =======
capability            s3    gs    az    local
====================  ====  ====  ====  =======
`HasUploads`          yes   yes   yes
`VersionedStore`      yes   yes   yes
`DeletesMatching`           yes   yes   yes
`CopiesFrom`          yes   yes   yes
`OpensRanges`         yes
`Renews`                          yes   yes
`Settles`                               yes
`ReportsAccess`       yes   yes   yes   yes
`ShowsClock`          yes   yes   yes
`WritesGarbled`             yes   yes
`Prunes`                                yes
`ClearsTemporaries`                     yes
====================  ====  ====  ====  =======

An adapter names the protocols of its capabilities as base classes, so that mypy checks its methods
(`DirectoryStore` has the methods without the base classes; mypy checks them in a test). Callers
test for a capability with ``isinstance``. The functions here and `streams.open_range` accept every
store, with or without the capability.

Another process can resume a multipart upload after the process that began it has ended. Only the
store knows which parts it has received; lakecli keeps no list. The store also knows the parts whose
responses were lost, so a resumed upload sends only the parts that are missing. A directory has no
multipart uploads: an interrupted copy starts again.

- S3: multipart uploads.
- Google Cloud Storage: multipart uploads of the XML API, like S3's but without conditions. A
  resumable session accepts its parts only one after the other and cannot use several connections.
- Azure: uncommitted blocks, whose names record the upload and the part's number; the store deletes
  them after a week.

Old versions of objects have IDs. A version ID is not a `contract.Version`, which on S3 and Azure is
an ETag.

- S3 keeps versions if the bucket has versioning enabled.
- Google Cloud Storage does the same; the ID is the object's generation.
- Azure keeps versions if the storage account has versioning enabled; the ID is the version's time,
  with ``_`` in place of its colons.
- Directories keep no versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NewType, Protocol, runtime_checkable

from lakecli.errors import LakeError, NotFound, Unsupported
from lakecli.stores.contract import PLAIN, Attributes, ObjectInfo, ObjectStore, Version

if TYPE_CHECKING:
    from lakecli.stores.responses import ServerDate

PART_SIZE: Final = 8 << 20
"""Smallest part size of a multipart upload, in bytes; most objects are uploaded in such parts."""

_SHOWN: Final = 4

UploadId = NewType("UploadId", str)
"""The ID of a multipart upload: an opaque text that is valid only in its store and for its key."""

MAX_PARTS = 10_000
"""Largest number of parts of one object: the limit of S3, and the lowest of all stores."""


class UploadNotFound(NotFound):
    """A multipart upload does not exist: it was completed or aborted, or has expired."""


class UploadedPart(NamedTuple):
    """A part of a multipart upload that the store has received.

    Attributes:
        tag: an opaque text that `PartUploads.complete` needs.
        crc32c: CRC32C of the bytes; ``None`` if the store does not report it.
    """

    number: int
    size: int
    tag: str
    crc32c: int | None = None


class UnfinishedUpload(NamedTuple):
    """A multipart upload that was neither completed nor aborted."""

    key: str
    id: UploadId
    started_at: datetime


class PartUploads(Protocol):
    """The multipart uploads into one namespace. Safe to share between threads.

    Parts may be sent in any order, in parallel and repeatedly. Only `start` and `complete` retry
    failed requests; the caller decides how often to send a part.
    """

    def start(self, key: str, *, by_urls: bool = False) -> UploadId:
        """Begin an upload; nothing is visible before it is completed.

        Args:
            key: key of the object.
            by_urls: whether the parts are sent to presigned URLs, without checksums.
        """

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        """Send one part.

        Args:
            body: the bytes of the part, or a seekable stream of them.
            crc32c: CRC32C of the bytes; the store verifies it if it can.

        Raises:
            UploadNotFound: the upload no longer exists.
            IntegrityError: the store received different bytes.
        """

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that the store has received, by number.

        Raises:
            UploadNotFound: the upload no longer exists.
        """

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the store received a part most recently; ``None`` if it has received none.

        Raises:
            UploadNotFound: the upload no longer exists.
        """

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        """Join the parts, ordered by number; the object is then visible and durable.

        An existing object is replaced: not every server can join parts on a condition.

        Raises:
            UploadNotFound: the upload or one of these parts does not exist.
        """

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing upload is ignored."""

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix` that were never completed."""


@runtime_checkable
class VersionedStore(ObjectStore, Protocol):
    """A store that can read old versions of objects, in buckets that keep them.

    Safe to share between threads.
    """

    def check_versions(self) -> None:
        """Check that the bucket keeps the versions of its objects.

        Raises:
            Unsupported: the bucket keeps no versions.
        """

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield objects as `ObjectStore.list` does, each with the ID of its current version."""

    def at_version(self, version_id: str) -> ObjectStore:
        """Return a store whose methods get, open, head and presign use a version of an object.

        These methods raise `ObjectNotFound` if the key or the version does not exist. Do not call
        the other methods: `lakecli.stores.read_only.at_version` returns a store that refuses them.
        """


class Access(NamedTuple):
    """The credentials in use, and the server that receives them.

    Attributes:
        kind: kind of credentials: ``access key``, ``service account``, ….
        identity: name of an account or a role, or the beginning of a key's name.
        source: where the credentials were found: a variable, a profile, a file.
        endpoint: host that receives the requests; ``""`` for this machine.
        region: region of the bucket, if the store has regions.
        expires_at: when the credentials expire, if the time is known.
    """

    kind: str
    identity: str
    source: str
    endpoint: str = ""
    region: str = ""
    expires_at: datetime | None = None


@runtime_checkable
class HasUploads(Protocol):
    """A store with multipart uploads, which another process can resume."""

    def uploads(self) -> PartUploads:
        """Return the interface for multipart uploads into the namespace."""


@runtime_checkable
class DeletesMatching(Protocol):
    """A store that can delete an object only if it still has the version that the caller has seen.

    After the caller has read the version and before the deletion, another process may write the
    same bytes again because it needs the object. So the version must change with every write, even
    of the same bytes:

    - Google Cloud Storage has generations, Azure an ETag for each write.
    - A directory has the inode and the time of a file, compared under the namespace's lock.
    - S3 can compare the ETag (``If-Match``), but derives it from the bytes, and compares the time
      in directory buckets only. So S3 lacks this capability.

    If a store lacks this capability, the caller must exclude writers in another way, such as by a
    lease.
    """

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete the objects that still have the given versions; a missing object is ignored.

        Args:
            objects: keys and versions, as `ObjectStore.head` and `ObjectStore.list` return them.

        Returns:
            The keys of objects that have a different version and were kept.
        """


@runtime_checkable
class CopiesFrom(Protocol):
    """A store that can copy objects from other namespaces of its kind, without fetching them."""

    def copy_from(
        self, source: ObjectStore, source_key: str, key: str, attributes: Attributes
    ) -> bool:
        """Copy an object; return ``False`` if this store cannot copy from `source`.

        The copy gets `attributes`, not the attributes of the original.
        """


@runtime_checkable
class OpensRanges(Protocol):
    """A store that can stream a part of an object by a single request."""

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        """Open bytes ``[start, start + length)`` of an object; the request is not repeated."""


@runtime_checkable
class Renews(Protocol):
    """A store that can atomically give an object a new time and version."""

    def renew(self, key: str) -> None:
        """Give an object a new time and version; readers see a complete object at every moment.

        Raises:
            ObjectNotFound: no such object.
        """


@runtime_checkable
class Settles(Protocol):
    """A store that may return objects before they are durable: a power cut could remove them."""

    def settle(self, key: str) -> None:
        """Make durable an object that the caller has just read, no matter who wrote it.

        Raises:
            Unreachable: syncing failed, so the object may be lost.
        """


def settle(store: ObjectStore, key: str) -> None:
    """Make an existing object durable, for example after the write that created it seemed to fail.

    Does nothing on stores whose objects are always durable (without `Settles`).

    Raises:
        Unreachable: syncing failed, so the object may be lost.
    """
    if isinstance(store, Settles):
        store.settle(key)


@runtime_checkable
class ReportsAccess(Protocol):
    """A store that can report which credentials are in use."""

    def access(self) -> Access:
        """Describe the credentials in use.

        May read files and variables. Sends a request only if the credentials come from a server
        (single sign-on, roles of a machine).
        """


@runtime_checkable
class ShowsClock(Protocol):
    """A store whose responses have the time of its clock in the header ``Date``.

    Attributes:
        server_date: the ``Date`` of the last response.
    """

    server_date: ServerDate


@runtime_checkable
class WritesGarbled(Protocol):
    """A store to which ``lakecli doctor`` can send an object with a wrong checksum, as a test."""

    def put_garbled(self, key: str, body: bytes) -> None:
        """Send `body` with a wrong checksum.

        Raises:
            IntegrityError: the store refused the object, which is the correct behaviour.
        """


@runtime_checkable
class Prunes(Protocol):
    """A store with directories, which remain empty after their objects are deleted."""

    def prune(self, prefix: str) -> None:
        """Remove the directory of a prefix if it is empty."""


@runtime_checkable
class ClearsTemporaries(Protocol):
    """A store that can delete temporary files left behind by killed processes."""

    def clear_temporaries(self) -> None:
        """Remove temporary files that no process has used for a day."""


def clear_temporaries(store: ObjectStore) -> None:
    """Remove temporary files that no process has used for a day.

    Only directories have temporary files: `lakecli.repository.transfer.multipart_upload` handles
    unfinished uploads to a bucket. Errors are ignored, because nothing depends on the removal.
    """
    if isinstance(store, ClearsTemporaries):
        with suppress(LakeError):
            store.clear_temporaries()


def uploads_of(store: ObjectStore) -> PartUploads | None:
    """Return the interface for multipart uploads to a store; ``None`` if the store has none."""
    return store.uploads() if isinstance(store, HasUploads) else None


def can_copy(source: ObjectStore, target: ObjectStore) -> bool:
    """Return whether stores of these kinds can copy objects between them without fetching them.

    No request is sent, so a copy may still be impossible; see `copy_across`.
    """
    return type(source) is type(target) and isinstance(target, CopiesFrom)


def copy_across(
    source: ObjectStore,
    source_key: str,
    target: ObjectStore,
    key: str,
    attributes: Attributes = PLAIN,
) -> bool:
    """Copy an object between namespaces without fetching it; return ``False`` if impossible.

    The copy gets `attributes`, not the attributes of the original.

    Raises:
        ObjectNotFound: `source_key` does not exist.
        PermissionDenied: the credentials of the target's store do not permit reading the source.
    """
    return isinstance(target, CopiesFrom) and target.copy_from(source, source_key, key, attributes)


def renew(store: ObjectStore, key: str, *, aside: str) -> None:
    """Give an object a new time and version, as if it had just been written again.

    If the store lacks `Renews`, the object is copied to another key and back, since some stores
    cannot copy an object onto itself.

    Args:
        aside: a key that nobody else uses, for the copy; it is deleted afterwards.

    Raises:
        ObjectNotFound: no such object.
    """
    if isinstance(store, Renews):
        store.renew(key)
        return
    store.copy(key, aside)
    store.copy(aside, key)
    store.delete([aside])


def part_size_of(size: int, smallest: int = PART_SIZE) -> int:
    """Return the part size for an object: `smallest`, doubled until `MAX_PARTS` parts suffice.

    Args:
        size: size of the object in bytes.
        smallest: the smallest part size in bytes.
    """
    while size > smallest * MAX_PARTS:
        smallest *= 2
    return smallest


def versions_of(store: ObjectStore) -> VersionedStore:
    """Return the store as one that can read old versions of its objects.

    Raises:
        Unsupported: the store cannot read versions.
    """
    if not isinstance(store, VersionedStore):
        hint = "copy the bytes into the repository: `import --from SOURCE --to PATH --copy`"
        raise Unsupported(f"only buckets keep versions of objects: {store.uri}", hint=hint)
    return store


def not_versioned(bucket: str, state: str) -> Unsupported:
    """Return the error for a bucket that does not keep the versions of its objects.

    Args:
        state: the state of versioning as the end of a sentence, such as "is off".
    """
    return Unsupported(
        f"the bucket keeps no versions of its objects, versioning {state}: {bucket}",
        hint="enable versioning of the bucket, or copy the bytes into the repository: "
        "`copies=True`",
    )


def access_of(store: ObjectStore) -> Access | None:
    """Return the credentials that a store uses; ``None`` if this kind of store has none.

    Raises:
        PermissionDenied: there are no credentials, or they have expired.
        UsageError: the configuration is invalid.
    """
    return store.access() if isinstance(store, ReportsAccess) else None


def beginning_of(name: str) -> str:
    """Return the first characters of an access key ID, enough to tell two keys apart."""
    return f"{name[:_SHOWN]}…" if len(name) > _SHOWN else "…"


def store_time(store: object) -> datetime | None:
    """Return the current time by a store's clock, or ``None`` before its first response."""
    return store.server_date.now() if isinstance(store, ShowsClock) else None

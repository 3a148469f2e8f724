"""What some stores can do beyond `protocol.ObjectStore`: one protocol for each capability.

====================  ====  ====  ====  =======  ========
capability            s3    gs    az    local    memory
====================  ====  ====  ====  =======  ========
`HasUploads`          yes   yes   yes            yes
`HasVersions`         yes   yes   yes            yes
`DeletesMatching`           yes   yes   yes      yes
`CopiesFrom`          yes   yes   yes
`OpensRanges`         yes
`Renews`                          yes   yes
`ReportsAccess`       yes   yes   yes   yes
`ShowsClock`          yes   yes   yes
`WritesGarbled`             yes   yes
`Prunes`                                yes
`ClearsTemporaries`                     yes
====================  ====  ====  ====  =======  ========

An adapter names the protocols of its capabilities as base classes, so that mypy checks its methods
(`LocalStore` and `MemoryStore` have them by their methods alone; a test lets mypy check it).
Callers ask with ``isinstance``. The functions here and in `uploads`, `versions`, `ranges` and
`access` say or do what happens where a store lacks a capability.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, runtime_checkable

from lakecli.errors import LakeError
from lakecli.stores.base import PLAIN, Attributes, Version

if TYPE_CHECKING:
    from lakecli.stores.access import Access
    from lakecli.stores.base import ObjectStore
    from lakecli.stores.dates import ServerDate
    from lakecli.stores.uploads import Uploads
    from lakecli.stores.versions import VersionedStore

PART_SIZE: Final = 8 << 20
"""Bytes in a part of most objects that are uploaded in parts."""

LEFT_OVER: Final = timedelta(days=1)
"""How long a temporary file is kept although no process holds it."""


@runtime_checkable
class HasUploads(Protocol):
    """Uploads in parts that outlive the process."""

    def uploads(self) -> Uploads:
        """Return the uploads of the namespace."""


@runtime_checkable
class HasVersions(Protocol):
    """Reads old versions of objects, in buckets that keep them."""

    def versions(self) -> VersionedStore:
        """Return the reader of versions."""


@runtime_checkable
class DeletesMatching(Protocol):
    """Deletes objects only if they still have the version that the caller has seen.

    Between that look and the deletion, another process may write the same bytes again to take the
    object into use. So this needs a version that every write changes, also one of the same bytes:

    - Google Cloud Storage has generations, Azure an ETag for each write.
    - A directory has the inode and the time of a file, compared under the namespace's lock.
    - S3 can compare the ETag (``If-Match``), but derives it from the bytes, and compares the time
      in directory buckets only. So S3 lacks this capability.

    Without it, whoever deletes excludes writers in another way, such as a lease.
    """

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that still have these versions; a missing one is fine.

        Args:
            objects: keys and versions, as `ObjectStore.head` and `ObjectStore.list` return them.

        Returns:
            The keys of objects that have another version and were kept.
        """


@runtime_checkable
class CopiesFrom(Protocol):
    """Copies objects from other namespaces of its kind on the store's side."""

    def copy_from(
        self, source: ObjectStore, source_key: str, key: str, attributes: Attributes
    ) -> bool:
        """Copy an object; return ``False`` if this store cannot copy from `source`.

        The copy has these attributes, not the original's.
        """


@runtime_checkable
class OpensRanges(Protocol):
    """Streams a part of an object by a single request."""

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        """Open bytes ``[start, start + length)``; the request is not repeated."""


@runtime_checkable
class Renews(Protocol):
    """Gives an object a new time and version in one step."""

    def renew(self, key: str) -> None:
        """Renew an object; readers see the whole object at every moment.

        Raises:
            ObjectNotFound: no such object.
        """


@runtime_checkable
class ReportsAccess(Protocol):
    """Reports which credentials are in use."""

    def access(self) -> Access:
        """Describe the credentials.

        May read files and variables. Asks a server only where the credentials come from one
        (single sign-on, roles of a machine).
        """


@runtime_checkable
class ShowsClock(Protocol):
    """Shows its clock in the ``Date`` of every response."""

    @property
    def server_date(self) -> ServerDate:
        """The date of the last response."""


@runtime_checkable
class WritesGarbled(Protocol):
    """Sends an object with the checksum of other bytes, for ``lakecli doctor``."""

    def put_garbled(self, key: str, body: bytes) -> None:
        """Send `body` with a wrong checksum.

        Raises:
            IntegrityError: the store refused it, as it should.
        """


@runtime_checkable
class Prunes(Protocol):
    """Has directories that stay behind when their objects are deleted."""

    def prune(self, prefix: str) -> None:
        """Remove the directory of a prefix if it is empty."""


@runtime_checkable
class ClearsTemporaries(Protocol):
    """Has temporary files that killed processes leave behind."""

    def clear_temporaries(self, *, older_than: timedelta) -> int:
        """Remove temporary files that no process holds; return how many."""


def clear_temporaries(store: ObjectStore, *, older_than: timedelta = LEFT_OVER) -> int:
    """Remove temporary files that no process has used for a day; return how many.

    Only directories have them: unfinished uploads to a bucket are handled by
    `lakecli.repository.transfer.parts`. Errors are ignored, as nothing depends on it.
    """
    if not isinstance(store, ClearsTemporaries):
        return 0
    try:
        return store.clear_temporaries(older_than=older_than)
    except LakeError:
        return 0


def uploads_of(store: ObjectStore) -> Uploads | None:
    """Return the uploads of a store, or ``None`` if it has none."""
    return store.uploads() if isinstance(store, HasUploads) else None


def can_copy(source: ObjectStore, target: ObjectStore) -> bool:
    """Tell whether two stores are of one kind that copies on its side, without a request."""
    return type(source) is type(target) and isinstance(target, CopiesFrom)


def copy_across(
    source: ObjectStore,
    source_key: str,
    target: ObjectStore,
    key: str,
    attributes: Attributes = PLAIN,
) -> bool:
    """Copy an object between namespaces without fetching it; return whether that is possible.

    The copy has these attributes, not the original's.

    Raises:
        ObjectNotFound: no such `source_key`.
        PermissionDenied: the credentials of the target's store may not read the source.
    """
    return isinstance(target, CopiesFrom) and target.copy_from(source, source_key, key, attributes)


def renew(store: ObjectStore, key: str, *, aside: str) -> None:
    """Give an object a new time and version, as if it had been written just now.

    A store that lacks `Renews` copies the object to another key and back, since some stores cannot
    copy an object onto itself.

    Args:
        store: the namespace.
        key: of the object.
        aside: a key that nobody else uses; it is deleted afterwards.

    Raises:
        ObjectNotFound: no such object.
    """
    if isinstance(store, Renews):
        store.renew(key)
        return
    store.copy(key, aside)
    store.copy(aside, key)
    store.delete([aside])

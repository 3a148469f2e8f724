"""Read objects outside the namespace only if they are unchanged since they were recorded.

An object that was imported without its bytes can be overwritten in its source. The import recorded
its size, its time and a checksum; `Evidence` says what a checksum proves. Every reader opens an
object by `locate`, which returns a store that reads only the recorded object:

- In a bucket, each request has the recorded checksum as the condition `matching` of
  `ObjectStore.get`. So the store compares the object in the same request that reads it.
- A file of this machine has no ETag. If a file is read completely, it is hashed while it is read.
  Before a part of a file is read, the file is compared: if it has the recorded time, it counts as
  unchanged, otherwise it is hashed. The part is read only if the file was not replaced since.
- A version of an object never changes, nor does a file that lakeFS has written itself.

A condition that fails proves no change, because the checksum may not be an ETag of this store. Then
`compare` compares the object with its record. The object is then read only if it was not replaced
after the comparison.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeVar

from blake3 import blake3

from lakecli.base.identity import Evidence, evidence_of, is_md5
from lakecli.base.layout import lakefs_object
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, PermissionDenied, Refused, Unsupported
from lakecli.repository.contract import AddressResolver, Repository
from lakecli.repository.reading.addresses import is_outside, split_pin
from lakecli.stores.contract import ConditionFailed, ObjectInfo, ObjectStore, plain_tag
from lakecli.stores.read_only import ReadOnlyStore
from lakecli.stores.uri import is_local

T = TypeVar("T")

PIECE: Final = 1 << 20
"""The number of bytes read at a time."""

MAX_KNOWN: Final = 10_000
"""The largest number of objects that one resolver remembers as unchanged."""

CHANGED: Final = "it changed"
"""The beginning of the problem that is reported for a changed object."""

UNCERTAIN: Final = "it cannot be verified"
"""The beginning of the problem that is reported for an object that could not be compared."""


class Recorded(NamedTuple):
    """The size, time and checksum that an entry records of an object outside the namespace."""

    address: str
    size: int
    checksum: str
    modified_at: datetime | None

    @classmethod
    def of(cls, entry: Entry) -> "Recorded":
        """Return the address, size, checksum and time that an entry records."""
        return cls(entry.physical_address, entry.size, entry.checksum, entry.modified_at)


def locate(repository: Repository, entry: Entry) -> tuple[ObjectStore, str]:
    """Return the store and the key of an entry's bytes; see `locate_recorded`."""
    return locate_recorded(repository.addresses, Recorded.of(entry), repository.uri)


def locate_recorded(
    addresses: AddressResolver, recorded: Recorded, uri: str
) -> tuple[ObjectStore, str]:
    """Return the store and the key of the bytes of an entry.

    If the object may change, the store is an `AsRecorded`, which reads only the unchanged object.
    """
    address = recorded.address
    store, key = addresses.locate(address)
    if is_outside(address) and not (
        split_pin(address).version_id or is_lakefs_file(address, recorded.checksum)
    ):
        store = AsRecorded(store, recorded, uri, addresses.compared)
    return store, key


def is_lakefs_file(address: str, checksum: str) -> bool:
    """Return whether an address names a local file that lakeFS has written, not imported.

    Such a file never changes. Its checksum may be that of a multipart upload, which looks like an
    MD5 but is not the MD5 of the bytes.
    """
    is_named = lakefs_object(address.rpartition("/")[2]) is not None
    return is_named and is_local(address) and is_md5(checksum)


class AsRecorded(ReadOnlyStore):
    """A store that reads one object, and only if the object is unchanged since it was recorded.

    Args:
        compared: for each object that was already found unchanged, its `matching` condition.

    Attributes:
        unverified: the store without this check, for callers that compare the digest of all bytes.

    Raises:
        ObjectNotFound: raised by a read if there is no such object.
        IntegrityError: raised by a read if the object changed, or if that cannot be determined.
    """

    def __init__(
        self, store: ObjectStore, recorded: Recorded, uri: str, compared: dict[Recorded, str]
    ) -> None:
        super().__init__(store, hint="")
        self.unverified = store
        self._recorded = recorded
        self._uri = uri
        self._compared = compared

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """See `ObjectStore.get`."""
        del matching
        store = self._store
        return self._read(key, lambda tag: store.get(key, start=start, length=length, matching=tag))

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """See `ObjectStore.open`."""
        del matching
        return self._read(key, lambda tag: self._store.open(key, matching=tag))

    def changed(self) -> IntegrityError:
        """Return the error for an object that changed since it was recorded."""
        return changed(self._recorded.address, self._uri)

    def _uncertain(self, why: str) -> IntegrityError:
        return IntegrityError(
            f"{UNCERTAIN} that the object is as it was recorded, {why}: {self._recorded.address}",
            hint="import it again, with its bytes: `import --from SOURCE --to PATH --copy`",
        )

    def _read(self, key: str, read: Callable[[str], T]) -> T:
        checksum = self._recorded.checksum
        tag = self._compared.get(self._recorded)
        if tag is None and (not checksum or not is_local(self._store.uri)):
            tag = checksum
        if tag is not None:
            with suppress(ConditionFailed):
                return read(tag)
        try:
            return read(self.check(key))
        except ConditionFailed:
            self.check(key)  # it may have changed meanwhile
            raise self._uncertain("its store does not say what it sends") from None

    def check(self, key: str) -> str:
        """Compare the object with its record; return the `matching` condition for reading it."""
        try:
            info, problem = compare(self._store, key, self._recorded)
        except ConditionFailed:
            raise self.changed() from None  # it was replaced while it was compared
        except (PermissionDenied, Refused, Unsupported) as error:
            raise self._uncertain(error.message) from error
        if problem is not None:
            why = problem.removeprefix(f"{UNCERTAIN}, ")
            raise self.changed() if problem.startswith(CHANGED) else self._uncertain(why)
        if len(self._compared) >= MAX_KNOWN:
            self._compared.clear()
        tag = self._compared[self._recorded] = _tag_of(info)
        return tag


def changed(address: str, uri: str) -> IntegrityError:
    """Return the error for an object that changed since it was recorded."""
    repair = "import it again, or restore the version that was imported"
    hint = f"{repair}; see all of them: `fsck {uri} --external`"
    return IntegrityError(f"the object was changed since it was recorded: {address}", hint=hint)


def compare(
    store: ObjectStore, key: str, recorded: Recorded, *, reads: bool = False
) -> tuple[ObjectInfo, str | None]:
    """Compare an object with its record; return its description, and the problem or ``None``.

    If the store reports a checksum of the recorded kind, the checksums are compared. Otherwise a
    digest is computed, unless the object has the recorded time.

    Args:
        reads: compute a digest even if the object has the recorded time.

    Raises:
        ConditionFailed: the object was replaced while it was read.
    """
    info = store.head(key)
    if info.size != recorded.size:
        return info, f"{CHANGED}: {info.size} bytes where the entry says {recorded.size}"
    checksum, tag = plain_tag(recorded.checksum), _tag_of(info)
    # lakeFS records the ETag of a multipart upload without its number of parts.
    if checksum in {"", plain_tag(tag), plain_tag(tag).rpartition("-")[0]}:
        return info, None
    kind = evidence_of(checksum)
    if kind is Evidence.MD5 and md5_of(info):
        is_same = md5_of(info) == checksum
    else:
        is_timely = info.modified_at.replace(microsecond=0) == recorded.modified_at
        has_digest = kind in {Evidence.MD5, Evidence.BLAKE3}
        is_file = is_local(store.uri)
        has_etag = bool(tag) and not is_file
        if is_timely and not reads and (has_digest or not has_etag):
            return info, None
        if info.archive and has_digest:
            return info, None  # its bytes cannot be read until the store restores them
        is_same = has_digest and _digest(store, key, checksum, tag) == checksum
        # 32 hex digits may be an ETag that is not an MD5; for a file, lakeFS records the MD5.
        is_proof = kind is Evidence.BLAKE3 or (kind is Evidence.MD5 and is_file)
        if not is_same and not has_etag and not is_proof:
            return info, f"{UNCERTAIN}, its store reports no ETag of it"
    return info, None if is_same else f"{CHANGED}: its {kind.value} is not that of the entry"


def _tag_of(info: ObjectInfo) -> str:
    return info.etag or str(info.version)


def _digest(store: ObjectStore, key: str, checksum: str, tag: str) -> str:
    """Return the digest of an object's bytes, of the same kind as `checksum`."""
    hasher = hasher_of(checksum)
    with store.open(key, matching=tag) as source:
        while piece := source.read(PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


class Hasher(Protocol):
    """The methods that the hashers of `hashlib` and of `blake3` share."""

    def update(self, data: bytes, /) -> object:
        """Add bytes to the hashed data."""

    def hexdigest(self) -> str:
        """Return the digest in hex digits."""


def md5_of(info: ObjectInfo) -> str:
    """Return the MD5 of an object's bytes if its store reports it, else ``""``."""
    etag = info.etag.strip('"')
    return info.md5 or (etag if is_md5(etag) else "")


def hasher_of(digest: str) -> Hasher:
    """Return a hasher that computes digests of the same kind as `digest`: BLAKE3 or MD5."""
    if not is_md5(digest):
        return blake3()
    from hashlib import md5  # takes milliseconds to import

    return md5(usedforsecurity=False)

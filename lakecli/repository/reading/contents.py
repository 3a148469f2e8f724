"""Read an object's bytes and verify them; compare objects outside the namespace with their records.

`recorded` describes how objects outside the namespace are verified. In the namespace, lakecli names
an object by its BLAKE3, so bytes with another BLAKE3 are damaged. For an object that lakeFS wrote,
a matching checksum proves that the bytes are right. A different checksum proves nothing, as
`lakefs_digests` explains; then only the size can be verified.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from blake3 import blake3

from lakecli.base.content_types import DEFAULT
from lakecli.base.identity import Evidence, evidence_of
from lakecli.base.layout import data_digest
from lakecli.base.model import CONTENT_ENCODING, Entry
from lakecli.errors import IntegrityError, LakeError, NotFound, Unreachable
from lakecli.repository.contract import AddressResolver, Repository
from lakecli.repository.reading import recorded
from lakecli.repository.reading.addresses import OutsideAddress, is_external
from lakecli.stores.contract import ConditionFailed, ObjectNotFound, ObjectStore, find_info
from lakecli.stores.uri import is_local

RANGE: Final = 8 << 20
"""The number of bytes in each request, after the connection broke while an object was read."""

AT_ONCE: Final = 16
"""The number of objects that are requested concurrently."""

BATCH: Final = 256
"""The number of objects that a caller passes to `ask_all` at a time."""

_CONTENT_TYPE: Final = re.compile(r"[!-~][ -~]{0,254}", re.ASCII)
_UNTYPED: Final = frozenset({DEFAULT, "binary/octet-stream"})
"""The content types that stores report for objects that were written without a content type."""


def read_object(repository: Repository, entry: Entry) -> Iterator[bytes]:
    """Yield an entry's bytes in pieces, and verify them at the end.

    Raises:
        NotFound: the data object is missing.
        IntegrityError: the bytes are not the uploaded bytes. A small object is verified before its
            bytes are yielded, a larger object after its last piece.
    """
    store, key = recorded.locate(repository, entry)
    return read_located(repository.uri, store, key, entry)


def read_located(uri: str, store: ObjectStore, key: str, entry: Entry) -> Iterator[bytes]:
    """Yield an entry's bytes from a store in pieces, and verify them at the end.

    Raises:
        NotFound: the data object is missing.
        IntegrityError: the bytes are not the uploaded bytes. A small object is verified before its
            bytes are yielded, a larger object after its last piece. No more bytes are yielded than
            the entry records.
    """
    digest = content_digest(entry) if is_external(entry) else digest_of(entry)
    if 0 < entry.size <= recorded.PIECE:
        yield read_small(uri, store, key, size=entry.size, digest=digest)
        return
    source = _source(store, digest)
    hasher = None if digest is None else recorded.hasher_of(digest)
    size = 0
    try:
        for piece in _pieces(source, key):
            if hasher is not None:
                hasher.update(piece)
            size += len(piece)
            if size > entry.size:
                break  # read no more than the entry records, however large the object is now
            yield piece
    except ObjectNotFound as error:
        raise gone(uri, store, key) from error
    except ConditionFailed:  # the object was replaced while it was read
        if isinstance(store, recorded.AsRecorded):
            raise store.changed() from None
        raise
    if size != entry.size or (hasher is not None and hasher.hexdigest() != digest):
        raise damaged(uri, store, key)


def read_small(uri: str, store: ObjectStore, key: str, *, size: int, digest: str | None) -> bytes:
    """Return the bytes of a small object, read by one call of the store and verified.

    Args:
        digest: the BLAKE3 or MD5 that the bytes must have; ``None``: only the size is verified.
    """
    try:
        # One byte more shows that an object has grown, without reading all of it.
        data = _source(store, digest).get(key, start=0, length=size + 1)
    except ObjectNotFound as error:
        raise gone(uri, store, key) from error
    is_same = len(data) == size
    if is_same and digest is not None:
        hasher = recorded.hasher_of(digest)
        hasher.update(data)
        is_same = hasher.hexdigest() == digest
    if not is_same:
        raise damaged(uri, store, key)
    return data


def _source(store: ObjectStore, digest: str | None) -> ObjectStore:
    """Return the store from which to read all bytes of an object.

    If the digest is known, the caller compares it with the bytes, so the store need not check
    whether the object is unchanged.
    """
    if digest is not None and isinstance(store, recorded.AsRecorded):
        return store.unverified
    return store


def content_digest(entry: Entry) -> str | None:
    """Return the digest of an entry's bytes: a BLAKE3 in 64 hex digits, or an MD5 in 32.

    lakecli names objects by their BLAKE3, and records the BLAKE3 of a file outside the namespace.
    lakeFS records the MD5 of files and of simple uploads, and another value for a multipart upload.
    For an object in another bucket, the entry records the object's ETag. Without a digest, only the
    size can be verified; outside the namespace, the ETag and the time can be compared, too.
    """
    digest = digest_of(entry)
    if digest is not None:
        return digest
    kind = evidence_of(entry.checksum)
    address = entry.physical_address
    is_file = is_local(address) and not recorded.is_lakefs_file(address, entry.checksum)
    is_md5_known = kind is Evidence.MD5 and (is_file or not is_external(entry))
    return entry.checksum if is_md5_known or (kind is Evidence.BLAKE3 and is_file) else None


def digest_of(entry: Entry) -> str | None:
    """Return the BLAKE3 of an entry's bytes, 64 hex digits, if its address contains it."""
    return None if is_external(entry) else data_digest(entry.physical_address)


def with_attributes(entry: Entry, store: ObjectStore, key: str) -> Entry:
    """Add the store's content type and Content-Encoding to an entry outside the namespace.

    Attributes that the entry records are kept. A HEAD request is sent, because a listing does not
    contain these attributes. The entry of a file or of an object in the namespace is returned
    unchanged, without a request.
    """
    has_both = entry.content_type and entry.content_encoding
    if not is_external(entry) or is_local(entry.physical_address) or has_both:
        return entry
    info = find_info(store, key)
    if info is None:
        return entry  # reading the object will report that it is missing
    has_type = _CONTENT_TYPE.fullmatch(info.content_type) and info.content_type not in _UNTYPED
    own_type = info.content_type if has_type else ""
    own = {CONTENT_ENCODING: info.content_encoding} if info.content_encoding else {}
    metadata = {**own, **entry.metadata}
    return entry._replace(content_type=entry.content_type or own_type, metadata=metadata)


def gone(uri: str, store: ObjectStore, key: str) -> NotFound:
    """Return the error for a missing data object."""
    outside = " --external" * isinstance(store, recorded.AsRecorded)
    hint = f"see what else is missing: `fsck {uri}{outside}`"
    return NotFound(f"the data object is gone: {store.uri}/{key}", hint=hint)


def damaged(uri: str, store: ObjectStore, key: str) -> IntegrityError:
    """Return the error for a data object with wrong bytes."""
    if isinstance(store, recorded.AsRecorded):
        return store.changed()
    hint = f"see what else is: `fsck {uri} --data`"
    return IntegrityError(f"the data object is damaged: {store.uri}/{key}", hint=hint)


def _pieces(store: ObjectStore, key: str) -> Iterator[bytes]:
    """Yield an object's bytes; after a broken connection, continue range by range."""
    position = 0
    try:
        with store.open(key) as source:
            while piece := source.read(recorded.PIECE):
                position += len(piece)
                yield piece
            return
    except Unreachable:
        if not position:
            raise
    while piece := store.get(key, start=position, length=RANGE):
        position += len(piece)
        yield piece


class ExternalCheck(NamedTuple):
    """The result of checking whether an object is unchanged since it was recorded.

    Attributes:
        problem: the problem, or ``None``.
        asked: whether the store was queried; false if the place of the object is not allowed.
        archived: whether the object cannot be read before the store restores it.
    """

    problem: str | None
    asked: bool = True
    archived: bool = False


def ask_all(
    addresses: AddressResolver, objects: Sequence[recorded.Recorded], *, reads: bool = False
) -> Iterator[ExternalCheck]:
    """Compare objects with their records, several at a time; yield the results in order.

    Args:
        reads: compute a digest where necessary, even if the object has the recorded time.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda each: ask(addresses, each, reads=reads), objects)


def ask(
    addresses: AddressResolver, record: recorded.Recorded, *, reads: bool = False
) -> ExternalCheck:
    """Compare an object with its record; errors of the store are reported in the result."""
    try:
        store, key = addresses.locate(record.address)
        info, problem = recorded.compare(store, key, record, reads=reads)
        return ExternalCheck(problem, archived=bool(info.archive))
    except OutsideAddress:
        return ExternalCheck(None, asked=False)
    except NotFound:
        return ExternalCheck("it is missing")
    except LakeError as error:
        return ExternalCheck(f"{recorded.UNCERTAIN}: {error.message}")


def hash_rest(descriptor: int) -> str:
    """Return the BLAKE3 of an open file, 64 hex digits, from its position to its end."""
    hasher = blake3()
    while piece := os.read(descriptor, recorded.PIECE):
        hasher.update(piece)
    return hasher.hexdigest()

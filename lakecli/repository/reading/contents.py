"""Read an object's bytes and verify them; see whether an object outside is as it was recorded.

What the checksum of an entry proves depends on who recorded it. The BLAKE3 of an object that is
named by it proves damage: `digest_of`. What lakeFS recorded of an object in its namespace only
proves that bytes are the right ones, where they agree with it: `content_digest`, and the module
`lakefs_digests`. Otherwise they cannot be verified, except for their size.

An object that was imported without its bytes can be overwritten or deleted in its source. The
import recorded its size, its time, and a checksum, whose form says what it is:

- 64 hex digits are a BLAKE3, which lakecli records of files.
- 32 hex digits are an MD5, which lakeFS records where the store reports one and of files, and which
  most ETags of S3 and Google Cloud Storage are. The ETag itself is compared first.
- Everything else is an ETag or a version of the store.

A digest is compared with one that the store reports, or the object is read. It is not read if its
time is the recorded one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from blake3 import blake3

from lakecli.base.identity import DIGEST_SIZE, is_md5
from lakecli.base.layout import data_digest
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, NotFound, Unreachable
from lakecli.repository.contract import AddressResolver, Repository
from lakecli.repository.reading.addresses import OutsideAddress, is_external, locate
from lakecli.stores.contract import ObjectInfo, ObjectNotFound, ObjectStore

PIECE: Final = 1 << 20
"""Bytes read at a time."""

RANGE: Final = 8 << 20
"""Bytes of one request, after one request for all bytes has failed."""

AT_ONCE: Final = 16
"""Objects requested at a time."""

BATCH: Final = 256

CHANGED: Final = "it changed"
"""How the problem of a changed object begins."""


def read_object(repository: Repository, entry: Entry) -> Iterator[bytes]:
    """Yield an entry's bytes in pieces, and verify them at the end.

    Raises:
        NotFound: the data object is missing.
        IntegrityError: the bytes are not those that were uploaded. Raised after the last piece,
            or before the only one.
    """
    store, key = locate(repository, entry)
    return read_located(repository.uri, store, key, entry)


def read_located(uri: str, store: ObjectStore, key: str, entry: Entry) -> Iterator[bytes]:
    """Yield an entry's bytes from a store, as `read_object` does.

    Args:
        uri: the URI of the repository, for errors.
        store: the store that holds the bytes.
        key: their key in `store`.
        entry: the entry.

    Raises:
        NotFound: the data object is missing.
        IntegrityError: the bytes are not those that were uploaded. Raised after the last piece,
            or before the only one. No more of them are yielded than the entry says.
    """
    digest = digest_of(entry)
    if 0 < entry.size <= PIECE:
        yield read_small(uri, store, key, size=entry.size, digest=digest)
        return
    hasher = None if digest is None else blake3()
    size = 0
    try:
        for piece in _pieces(store, key):
            if hasher is not None:
                hasher.update(piece)
            size += len(piece)
            if size > entry.size:
                break  # whoever replaced the object does not decide how much is read
            yield piece
    except ObjectNotFound as error:
        raise gone(uri, store, key) from error
    if size != entry.size or (hasher is not None and hasher.hexdigest() != digest):
        raise damaged(uri, store, key)


def read_small(uri: str, store: ObjectStore, key: str, *, size: int, digest: str | None) -> bytes:
    """Return the bytes of a small object by one call, verified.

    Args:
        uri: the URI of the repository, for errors.
        store: the store that holds the bytes.
        key: their key in `store`.
        size: the size that the entry says.
        digest: the BLAKE3 that the bytes must have; ``None``: unknown.

    Raises:
        NotFound: the data object is missing.
        IntegrityError: the bytes are not those that were uploaded.
    """
    try:
        # One byte more: an object that has grown is not read to its end.
        data = store.get(key, start=0, length=size + 1)
    except ObjectNotFound as error:
        raise gone(uri, store, key) from error
    if len(data) != size or (digest is not None and blake3(data).hexdigest() != digest):
        raise damaged(uri, store, key)
    return data


class Hasher(Protocol):
    """What the standard library's hashes and BLAKE3 have in common."""

    def update(self, data: bytes, /) -> object:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the digest in hex digits."""


def content_digest(entry: Entry) -> str | None:
    """Return what tells that bytes are those of an entry, where they agree with it.

    It is a BLAKE3 in 64 hex digits; or the 32 that lakeFS recorded, and then bytes that do not
    agree may be the right ones, too. ``None``: only the size is known.
    """
    digest = digest_of(entry)
    if digest is None and not is_external(entry) and is_md5(entry.checksum):
        return entry.checksum
    return digest


def md5_of(info: ObjectInfo) -> str:
    """Return the MD5 of an object's bytes where its store reports it, else ``""``."""
    etag = info.etag.strip('"')
    return info.md5 or (etag if is_md5(etag) else "")


def hasher_of(digest: str) -> Hasher:
    """Return what computes a digest of this kind, a BLAKE3 or an MD5."""
    if not is_md5(digest):
        return blake3()
    from hashlib import md5  # takes milliseconds to import

    return md5(usedforsecurity=False)


def digest_of(entry: Entry) -> str | None:
    """Return the BLAKE3 of an entry's bytes, 64 hex digits, where its address says it."""
    return None if is_external(entry) else data_digest(entry.physical_address)


def gone(uri: str, store: ObjectStore, key: str) -> NotFound:
    """Return the error for a missing data object."""
    return NotFound(
        f"the data object is gone: {store.uri}/{key}",
        hint=f"see what else is missing: lakecli fsck {uri}",
    )


def damaged(uri: str, store: ObjectStore, key: str) -> IntegrityError:
    """Return the error for a data object with wrong bytes."""
    return IntegrityError(
        f"the data object is damaged: {store.uri}/{key}",
        hint=f"see what else is: lakecli fsck {uri} --data",
    )


def _pieces(store: ObjectStore, key: str) -> Iterator[bytes]:
    """Yield an object's bytes; after a broken connection, continue range by range."""
    position = 0
    try:
        with store.open(key) as source:
            while piece := source.read(PIECE):
                position += len(piece)
                yield piece
            return
    except Unreachable:
        if not position:
            raise
    while piece := store.get(key, start=position, length=RANGE):
        position += len(piece)
        yield piece


class Recorded(NamedTuple):
    """What an entry records of an object outside the namespace."""

    address: str
    size: int
    checksum: str
    modified_at: datetime | None


class ExternalCheck(NamedTuple):
    """Whether one object is as it was recorded.

    Attributes:
        problem: the problem, or ``None``.
        asked: whether it was requested; not if its place is not allowed.
    """

    problem: str | None
    asked: bool = True


def ask_all(
    addresses: AddressResolver, objects: Sequence[Recorded], *, reads: bool = False
) -> Iterator[ExternalCheck]:
    """Yield the result for each object, in order; check several at a time.

    Args:
        addresses: resolves the addresses of the repository.
        objects: the records to check.
        reads: read objects whose digest has to be computed even if their time is the recorded one.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda each: ask(addresses, each, reads=reads), objects)


def check_unchanged(repository: Repository, entry: Entry) -> None:
    """Refuse an object outside the namespace that has changed since it was recorded.

    A missing or unreadable object is accepted: reading it raises an error.

    Raises:
        IntegrityError: it changed.
    """
    recorded = Recorded(entry.physical_address, entry.size, entry.checksum, entry.modified_at)
    problem = ask(repository.addresses, recorded).problem
    if problem is not None and problem.startswith(CHANGED):
        raise IntegrityError(
            f"the object was changed since it was recorded: {entry.physical_address}",
            hint="import it again, or restore the version that was imported; see all of them: "
            f"lakecli fsck {repository.uri} --external",
        )


def ask(addresses: AddressResolver, recorded: Recorded, *, reads: bool = False) -> ExternalCheck:
    """Compare an object with its record."""
    try:
        store, key = addresses.locate(recorded.address)
        return ExternalCheck(change_of(store, key, recorded, reads=reads))
    except OutsideAddress:
        return ExternalCheck(None, asked=False)
    except NotFound:
        return ExternalCheck("it is missing")
    except LakeError as error:
        return ExternalCheck(f"cannot be read: {error.message}")


def change_of(
    store: ObjectStore, key: str, recorded: Recorded, *, reads: bool = False
) -> str | None:
    """Return how an object differs from its record, or ``None``.

    Raises:
        NotFound: it does not exist.
    """
    info = store.head(key)
    if info.size != recorded.size:
        return f"{CHANGED}: {info.size} bytes where the entry says {recorded.size}"
    checksum = recorded.checksum.strip('"')
    found = (info.etag or str(info.version)).strip('"')
    if checksum in {"", found, found.partition("-")[0]}:  # lakeFS leaves out the number of parts
        return None
    kind = "MD5" if is_md5(checksum) else "BLAKE3" if _is_blake3(checksum) else "ETag"
    if kind == "MD5" and md5_of(info):
        found = md5_of(info)
    elif kind != "ETag":
        if not reads and info.modified_at.replace(microsecond=0) == recorded.modified_at:
            return None
        found = _digest(store, key, checksum)
    return None if found == checksum else f"{CHANGED}: its {kind} is not that of the entry"


def _digest(store: ObjectStore, key: str, checksum: str) -> str:
    """Return the digest of an object's bytes, of the same kind as a checksum."""
    hasher = hasher_of(checksum)
    with store.open(key) as source:
        while piece := source.read(PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


def _is_blake3(checksum: str) -> bool:
    return len(checksum) == 2 * DIGEST_SIZE and set(checksum) <= set("0123456789abcdef")


def hash_rest(descriptor: int) -> str:
    """Return the BLAKE3 of an open file, 64 hex digits, from its position to its end."""
    hasher = blake3()
    while piece := os.read(descriptor, PIECE):
        hasher.update(piece)
    return hasher.hexdigest()

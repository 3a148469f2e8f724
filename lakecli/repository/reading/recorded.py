"""Check whether objects outside the namespace have changed since they were recorded.

An object that was imported without its bytes can be overwritten or deleted in its source. The
import recorded its size, its time, and a checksum, whose form says what it is:

- 64 hex digits are a BLAKE3, which lakecli records of files.
- 32 hex digits are an MD5, which lakeFS records where the store reports one and of files, and which
  most ETags of S3 and Google Cloud Storage are.
- Everything else is an ETag or a version of the store.

A digest is compared with one that the store reports, or the object is read. It is not read if its
time is the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, is_md5
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, NotFound
from lakecli.repository.contract import AddressResolver, Repository
from lakecli.repository.reading.contents import hasher_of, md5_of
from lakecli.repository.reading.trust import OutsideAddress
from lakecli.stores.contract import ObjectStore

AT_ONCE: Final = 16
"""Objects requested at a time."""

BATCH: Final = 256

CHANGED: Final = "it changed"
"""How the problem of a changed object begins."""

_PIECE: Final = 4 << 20


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
    if checksum in {"", found}:
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
        while piece := source.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


def _is_blake3(checksum: str) -> bool:
    return len(checksum) == 2 * DIGEST_SIZE and set(checksum) <= set("0123456789abcdef")

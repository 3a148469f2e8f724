"""Checks of objects: those outside the namespace, and the contents of those that lakeFS wrote.

Check whether objects outside the namespace have changed since they were recorded.

An object that was imported without its bytes can be overwritten or deleted in its source. The
import recorded its size, its time, and a checksum, whose form says what it is:

- 64 hex digits are a BLAKE3, which lakecli records of files.
- 32 hex digits are an MD5, which lakeFS records where the store reports one and of files, and which
  most ETags of S3 and Google Cloud Storage are.
- Everything else is an ETag or a version of the store.

A digest is compared with one that the store reports, or the object is read. It is not read if its
time is the recorded one.

Comparing the contents of lakeFS's objects with the checksums of their entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, is_md5
from lakecli.base.model import Entry
from lakecli.base.validation import EARLIEST
from lakecli.errors import IntegrityError, LakeError, NotFound
from lakecli.repository.contract import AddressResolver, Repository
from lakecli.repository.reading.contents import Named, hasher_of, md5_of, read_located
from lakecli.repository.reading.trust import OutsideAddress

if TYPE_CHECKING:
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


class Answer(NamedTuple):
    """The result for one object.

    Attributes:
        problem: the problem, or ``None``.
        asked: whether it was requested; not if its place is not allowed.
    """

    problem: str | None
    asked: bool = True


def ask_all(
    addresses: AddressResolver, objects: Sequence[Recorded], *, reads: bool = False
) -> Iterator[Answer]:
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


def ask(addresses: AddressResolver, recorded: Recorded, *, reads: bool = False) -> Answer:
    """Compare an object with its record."""
    try:
        store, key = addresses.locate(recorded.address)
        return Answer(change_of(store, key, recorded, reads=reads))
    except OutsideAddress:
        return Answer(None, asked=False)
    except NotFound:
        return Answer("it is missing")
    except LakeError as error:
        return Answer(f"cannot be read: {error.message}")


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


class Contents(NamedTuple):
    """What an entry says of the contents of an object that lakeFS wrote.

    Attributes:
        key: of the object.
        size: in bytes.
        checksum: an MD5; another one cannot be compared.
    """

    key: str
    size: int
    checksum: str


class Compared(NamedTuple):
    """The result of a comparison.

    Attributes:
        size: bytes that were read.
        what: the defect, or ``None``.
    """

    size: int
    what: str | None


def compare_contents(named: Named, store: ObjectStore, recorded: Contents) -> Compared:
    """Read an object of lakeFS, and compare it with what an entry says.

    Args:
        named: named in errors.
        store: the namespace.
        recorded: what the entry says.
    """
    key, size, checksum = recorded
    read = 0
    try:
        for piece in read_located(named, store, key, Entry(key, size, checksum, EARLIEST)):
            read += len(piece)
    except IntegrityError:
        return Compared(read, f"its bytes have another MD5 than {checksum}")
    except LakeError as error:
        return Compared(read, f"cannot be read: {error.message}")
    return Compared(read, None)

"""Index the data objects of a namespace, and restore damaged objects from intact copies.

The index has the keys and sizes of all objects below ``data/``. It is a temporary SQLite database
on disk, so look-ups are fast and memory is bounded. Stores list keys in ascending order, so records
are always appended to the table.

Copies of data objects come from large files that this machine uploaded, found by the digests in the
local store; from files below a given directory; and from another copy of the namespace. Copies of
ranges and metaranges come from the cache, and from another copy of the namespace. Objects are named
by their content, so it is always safe to replace wrong bytes by the right ones. No other objects
are overwritten.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest
from itertools import filterfalse
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self, cast

from blake3 import blake3

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, MAX_TABLE_SIZE, SSTABLES, data_digest
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.temporary_files import SqliteErrors
from lakecli.committed.cache import OUTLINE_SUFFIX, read_outline
from lakecli.committed.check import problem_of_copy
from lakecli.errors import LakeError, UsageError
from lakecli.kv import file_digests
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_outside
from lakecli.repository.transfer.walk import FileChanged, LinkPolicy, walk
from lakecli.stores.contract import ANY, ObjectInfo, ObjectStore, get_bounded, key_bytes, size_of
from lakecli.stores.streams import PieceReader, batches

_PIECE: Final = 4 << 20
_BATCH: Final = 4_096

_OLD_KEY: Final = re.compile(r"[0-9a-v]{20}|[0-9a-f]{32}")
"""Keys that old lakeFS servers wrote, directly in the namespace."""


MISSING: Final = "missing"
"""The defect of an object that does not exist."""

_NO_KEY: Final = "its physical address is not the key of a data object"


class ObjectIndex(ABC):
    """An index of the data objects of a namespace, for checking that the objects of entries exist.

    Use it as a context manager, which releases its resources at the end.

    Attributes:
        damaged: the defects of objects that were read, by key.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.damaged: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - an index may have nothing to release
        """Do nothing."""

    def problem_of(self, key: str, size: int) -> str | None:
        """Return the defect of the object to which an entry refers, or ``None``.

        If the index lacks the object, or has another size, the object may have been written since
        the listing; then the store is asked.

        Args:
            key: a physical address inside the namespace.
            size: the size in the entry, in bytes.
        """
        if not key.startswith(DATA) and not is_old_key(key):
            return _NO_KEY
        present = self._find(key, size) if key.startswith(DATA) else None
        if present != size:
            try:
                present = size_of(self._store, key)
            except UsageError:  # a forged key, which the store cannot hold
                return _NO_KEY
        if present is None:
            return MISSING
        if present != size:
            return f"{present} bytes where the entry says {size}"
        return self.damaged.get(key)

    @abstractmethod
    def _find(self, key: str, size: int) -> int | None:
        """Return the size of an object below ``data/``, or ``None`` if it does not exist.

        Args:
            size: the size in the entry; an index that records only differences returns it if it
                has no other size.
        """


class DataIndex(ObjectIndex):
    """An index of one listing, in a temporary database on disk.

    Attributes:
        count: the number of objects below ``data/`` that have been listed so far.

    Raises:
        Unreachable: SQLite cannot write the database, for example because the disk is full.
    """

    def __init__(self, store: ObjectStore) -> None:
        import sqlite3  # only checks need it

        super().__init__(store)
        self.count = 0
        # A temporary file of this process. A check may list the objects in another thread.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with SqliteErrors():
            for line in (
                "PRAGMA journal_mode = OFF",
                "PRAGMA cache_size = -65536",
                "CREATE TABLE objects (key BLOB PRIMARY KEY, size INTEGER) WITHOUT ROWID",
                "BEGIN",  # one transaction, or each object would be written by itself
            ):
                self._database.execute(line)

    def __exit__(self, *_: object) -> None:
        """Delete the index."""
        self._database.close()

    def fill(self) -> Iterator[ObjectInfo]:
        """List the data objects and add them to the index; yield the objects lakecli has named."""
        for infos in batches(self._store.list(DATA), _BATCH):
            with SqliteErrors():
                self._database.executemany(
                    "INSERT OR REPLACE INTO objects VALUES (?, ?)",
                    [(key_bytes(info.key), info.size) for info in infos],
                )
            self.count += len(infos)
            yield from (info for info in infos if data_digest(info.key) is not None)

    def _find(self, key: str, size: int) -> int | None:
        del size
        query = "SELECT size FROM objects WHERE key = ?"
        with SqliteErrors():
            found = self._database.execute(query, (key_bytes(key),)).fetchone()
        return None if found is None else int(found[0])


class Hashed(NamedTuple):
    """A data object that was read.

    Attributes:
        what: the defect of the object, or ``None`` if it is intact.
        size: the number of bytes that were read.
    """

    key: str
    what: str | None
    size: int


def check_object(store: ObjectStore, key: str, progress: Progress = NO_PROGRESS) -> Hashed:
    """Read a data object and compare its digest with its name."""
    hasher = blake3()
    size = 0
    try:
        with store.open(key) as source:
            while piece := source.read(_PIECE):
                hasher.update(piece)
                size += len(piece)
                progress.advance(size=len(piece))
    except LakeError as error:
        return Hashed(key, f"cannot be read: {error.message}", size)
    digest = hasher.hexdigest()
    is_intact = digest == data_digest(key)
    return Hashed(key, None if is_intact else f"its bytes have another BLAKE3: {digest}", size)


def is_old_key(key: str) -> bool:
    """Return whether an old lakeFS server may have chosen a key; the index has no such keys."""
    return _OLD_KEY.fullmatch(key) is not None


@dataclass(slots=True)
class DamagedObject:
    """A missing or damaged object.

    Attributes:
        kind: the kind of finding, as fsck reports it.
        name: the key of the object.
        what: the defect, in words.
        size: size of a data object in bytes, if an entry records it.
    """

    kind: str
    name: str
    what: str
    size: int | None = None


class Repaired(NamedTuple):
    """One repair that was made, or in a dry run would be made.

    Attributes:
        kind: the kind of a finding, or ``cache``.
        name: the name of a finding; for a table in the cache, its ID.
        how: how it was repaired, in a few words.
    """

    kind: str
    name: str
    how: str


class Copy(NamedTuple):
    """An intact copy of a data object: a file, or an object of another namespace.

    Attributes:
        shown: the location of the copy, as shown to users.
    """

    open: Callable[[], AbstractContextManager[Any]]
    shown: str


def repair_cache(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Delete damaged files from the cache; they are fetched again when needed."""
    directory = Path(repository.lake.home.cache) / repository.record.uuid
    if not directory.is_dir():
        return
    secret = repository.lake.kv.secret()
    for file in sorted(directory.iterdir()):
        if file.name.startswith(".") or not file.is_file():
            continue
        with suppress(OSError):
            if _is_damaged(file, secret):
                if not dry_run:
                    file.unlink()
                yield Repaired("cache", file.name, "damaged copy deleted")


def _is_damaged(file: Path, secret: bytes | None) -> bool:
    """Return whether a cached file (a table, a table outline or a commit pack) is damaged."""
    if file.name.endswith(OUTLINE_SUFFIX):
        return read_outline(str(file), secret) is None
    data = file.read_bytes()
    return blake3_of(data).hex() != file.name and problem_of_copy(file.name, data) is not None


def repair_tables(
    repository: Repository,
    damaged: Iterable[DamagedObject],
    places: Collection[str],
    *,
    dry_run: bool,
) -> Iterator[Repaired]:
    """Write damaged ranges and metaranges again from intact copies.

    Args:
        places: directories with copies, and URIs of copies of the namespace.
        dry_run: only report what would be repaired.
    """
    for each in damaged:
        table_id = each.name.removeprefix(SSTABLES)
        for read, shown in _copies_of_table(repository, table_id, places):
            data = b""
            with suppress(OSError, LakeError):
                data = read()
            if problem_of_copy(table_id, data) is None:
                if not dry_run:
                    repository.store.put(each.name, data, ANY)
                yield Repaired(each.kind, each.name, f"restored from {shown}")
                break


def _copies_of_table(
    repository: Repository, table_id: str, places: Collection[str]
) -> Iterator[tuple[Callable[[], bytes], str]]:
    """Yield possible copies of a range or metarange: a function that reads it, and its location.

    The location is shown to users.
    """
    cached = Path(repository.lake.home.cache) / repository.record.uuid / table_id
    yield cached.read_bytes, "the cache"
    for place in filterfalse(is_outside, places):
        for file in (Path(place) / SSTABLES / table_id, Path(place) / table_id):
            yield file.read_bytes, str(file)
    for place in filter(is_outside, places):
        store = repository.lake.runtime.open_store(place, "")
        key = SSTABLES + table_id
        yield partial(get_bounded, store, key, MAX_TABLE_SIZE), f"{store.uri}/{key}"


def repair_data(
    repository: Repository,
    damaged: Iterable[DamagedObject],
    places: Collection[str],
    *,
    dry_run: bool,
) -> Iterator[Repaired]:
    """Check data objects again, and restore those that are damaged and have a copy.

    Args:
        places: directories with files that may be copies, and URIs of copies of the namespace.
        dry_run: only report what would be repaired.
    """
    store = repository.store
    left: dict[str, DamagedObject] = {}
    for each in damaged:
        is_there = each.what.startswith("cannot be read")
        if is_there and check_object(store, each.name).what is None:
            yield Repaired("data", each.name, "intact when read again")
        else:
            left[each.name] = each
    sizes = {key: each.size for key, each in left.items()}
    for key, copy in _find_copies(repository, sizes, places):
        if dry_run or _upload(repository, key, copy):
            yield Repaired("data", key, f"uploaded again from {copy.shown}")


def _find_copies(
    repository: Repository, wanted: Mapping[str, int | None], places: Collection[str]
) -> Iterator[tuple[str, Copy]]:
    """Yield (key, copy) once for each data object that has a copy; the copies are verified.

    Args:
        wanted: keys and, if known, sizes.
        places: directories with files that may be copies, and URIs of copies of the namespace.
    """
    left = {digest: key for key in wanted if (digest := data_digest(key)) is not None}
    for path in _candidates(repository, left, wanted, places):
        digest = _digest_of_file(path)
        if digest in left:
            yield left.pop(digest), Copy(partial(open, path, "rb"), os.fsdecode(path))
    for place in filter(is_outside, places):
        store = repository.lake.runtime.open_store(place, "")
        for digest, key in list(left.items()):
            if check_object(store, key).what is None:
                del left[digest]
                yield key, Copy(partial(store.open, key), f"{store.uri}/{key}")


def _candidates(
    repository: Repository,
    left: Mapping[str, str],
    wanted: Mapping[str, int | None],
    places: Collection[str],
) -> Iterator[bytes]:
    """Yield the paths of files that may have one of the digests.

    Args:
        left: the wanted digests.
        wanted: sizes by key.
        places: directories to search; URIs are ignored.
    """
    if not left:
        return
    with repository.lake.kv.read() as txn:
        remembered = [path for _, path in file_digests.find_files(txn, left)]
    yield from remembered
    sizes = {wanted[key] for key in left.values()}
    for place in filterfalse(is_outside, places):
        for found in walk(os.fsencode(place), LinkPolicy.SKIP):
            if found.problem is None and left:
                with suppress(OSError):
                    if None in sizes or os.path.getsize(found.path) in sizes:  # noqa: PTH202 - bytes
                        yield found.path


def _digest_of_file(path: bytes) -> str | None:
    """Return the BLAKE3 of a file, or ``None`` if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is bytes
            return file_digest(file, blake3).hexdigest()  # type: ignore[arg-type]
    except OSError:
        return None


def _upload(repository: Repository, key: str, copy: Copy) -> bool:
    """Write an object from a copy and read it back; return whether it is correct."""
    from lakecli.repository.transfer.ingest import verified  # only repairs need it

    try:
        with copy.open() as source:
            body = PieceReader(verified(source, str(data_digest(key))))
            repository.store.put(key, cast("BinaryIO", body), ANY)
    except (OSError, FileChanged):
        return False  # the file was deleted or changed since
    return check_object(repository.store, key).what is None

"""Mending data objects, ranges and metaranges from intact copies.

Find copies of lost objects.

Data objects: large files that this machine uploaded, by the digests in the local store; files below
a given directory; another copy of the namespace. Tables: the cache, and another copy of the
namespace.

Mending data objects, ranges and metaranges: the right bytes over the wrong ones, or none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from blake3 import blake3

from lakecli.base.identity import h
from lakecli.base.layout import SSTABLES, data_digest
from lakecli.committed.check import problem_of_copy
from lakecli.errors import LakeError
from lakecli.kv import file_hashes
from lakecli.repository.data_index import check_object
from lakecli.repository.contract import Repository
from lakecli.fsck.findings import Damage, Repaired
from lakecli.repository.transfer.walk import LinkPolicy, walk
from lakecli.stores.contract import ANY

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

_PIECE = 1 << 20


class Copy(NamedTuple):
    """An intact copy: a file, or an object of another namespace.

    Attributes:
        path: the file, or ``None``.
        store: the other namespace, or ``None``.
        shown: the copy's place, for people.
    """

    path: bytes | None
    store: ObjectStore | None
    shown: str


def find_copies(
    repository: Repository, wanted: Mapping[str, int | None], places: Collection[str]
) -> Iterator[tuple[str, Copy]]:
    """Yield (key, copy) of data objects, each once; every copy was read and verified.

    Args:
        repository: the repository of the objects.
        wanted: keys and, if known, sizes.
        places: given directories, and URIs of copies of the namespace.
    """
    left = {digest: key for key in wanted if (digest := data_digest(key)) is not None}
    for digest, path in _candidates(repository, left, wanted, places):
        if digest in left and digest_of_file(path) == digest:
            yield left.pop(digest), Copy(path, None, os.fsdecode(path))
    for place in places:
        if "://" not in place:
            continue
        store = repository.lake.runtime.open_store(place, "")
        for digest, key in list(left.items()):
            with suppress(LakeError):
                if _digest_of_object(store, key) == digest:
                    del left[digest]
                    yield key, Copy(None, store, f"{store.uri}/{key}")


def _candidates(
    repository: Repository,
    left: Mapping[str, str],
    wanted: Mapping[str, int | None],
    places: Collection[str],
) -> Iterator[tuple[str, bytes]]:
    """Yield (digest, file) of files that may have that digest."""
    if not left:
        return
    with repository.lake.kv.read() as txn:
        remembered = list(file_hashes.find_files(txn, left))
    yield from remembered
    sizes = {wanted[key] for key in left.values()}
    for place in places:
        if "://" in place:
            continue
        for found in walk(os.fsencode(place), LinkPolicy.SKIP):
            if found.problem is not None or not left:
                continue
            with suppress(OSError):
                if None in sizes or os.path.getsize(found.path) in sizes:  # noqa: PTH202 - bytes
                    digest = digest_of_file(found.path)
                    if digest is not None:
                        yield digest, found.path


def find_table(repository: Repository, table_id: str, places: Collection[str]) -> Copy | None:
    """Return a verified copy of a range or metarange, or ``None``."""
    cached = Path(repository.lake.home.cache) / repository.record.uuid / table_id
    for file in (cached, *_table_files(table_id, places)):
        with suppress(OSError):
            if problem_of_copy(table_id, file.read_bytes()) is None:
                shown = "the cache" if file is cached else str(file)
                return Copy(os.fsencode(file), None, shown)
    for place in places:
        if "://" in place:
            store = repository.lake.runtime.open_store(place, "")
            with suppress(LakeError):
                if problem_of_copy(table_id, store.get(SSTABLES + table_id)) is None:
                    return Copy(None, store, f"{store.uri}/{SSTABLES}{table_id}")
    return None


def _table_files(table_id: str, places: Collection[str]) -> Iterator[Path]:

    for place in places:
        if "://" not in place:
            yield Path(place) / SSTABLES / table_id
            yield Path(place) / table_id


def digest_of_file(path: bytes) -> str | None:
    """Return the BLAKE3 of a file, or ``None`` if it cannot be read."""
    hasher = blake3()
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is bytes
            while piece := file.read(_PIECE):
                hasher.update(piece)
    except OSError:
        return None
    return hasher.hexdigest()


def _digest_of_object(store: ObjectStore, key: str) -> str:
    hasher = blake3()
    with store.open(key) as source:
        while piece := source.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


def repair_cache(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Delete damaged files from the cache; they are fetched again when needed."""
    directory = Path(repository.lake.home.cache) / repository.record.uuid
    if not directory.is_dir():
        return
    for file in sorted(directory.iterdir()):
        if file.name.startswith(".") or not file.is_file():
            continue
        with suppress(OSError):
            if _is_damaged(file.name, file.read_bytes()):
                if not dry_run:
                    file.unlink()
                yield Repaired("cache", file.name, "damaged copy deleted")


def _is_damaged(name: str, data: bytes) -> bool:
    """Return whether a file of the cache is neither a table nor a commit pack."""
    return h(data).hex() != name and problem_of_copy(name, data) is not None


def repair_tables(
    repository: Repository, damages: Iterable[Damage], places: Collection[str], *, dry_run: bool
) -> Iterator[Repaired]:
    """Write ranges and metaranges again from an intact copy."""
    store = repository.store
    for damage in damages:
        table_id = damage.name.removeprefix(SSTABLES)
        copy = find_table(repository, table_id, places)
        if copy is None:
            continue
        if not dry_run:
            data = _bytes_of(copy, damage.name)
            if problem_of_copy(table_id, data) is not None:
                continue
            store.put(damage.name, data, ANY)
        yield Repaired(damage.kind, damage.name, f"restored from {copy.shown}")


def repair_data(
    repository: Repository, damages: Iterable[Damage], places: Collection[str], *, dry_run: bool
) -> Iterator[Repaired]:
    """Read data objects again, and restore damaged ones that have a copy."""
    store = repository.store
    left: dict[str, Damage] = {}
    for damage in damages:
        is_there = damage.what.startswith("cannot be read")
        if is_there and check_object(store, damage.name).what is None:
            yield Repaired("data", damage.name, "intact when read again")
        else:
            left[damage.name] = damage
    wanted = {key: damage.size for key, damage in left.items()}
    for key, copy in find_copies(repository, wanted, places):
        if dry_run or _upload(repository, key, copy):
            yield Repaired("data", key, f"uploaded again from {copy.shown}")


def _upload(repository: Repository, key: str, copy: Copy) -> bool:
    """Write an object from a copy and read it back; return whether it is correct."""
    store = repository.store
    try:
        if copy.path is not None:
            with open(copy.path, "rb") as file:  # noqa: PTH123 - the path is bytes
                store.put(key, cast("BinaryIO", file), ANY)
        else:
            assert copy.store is not None
            with copy.store.open(key) as source:
                store.put(key, source, ANY)
    except OSError:
        return False  # the file was deleted since
    return check_object(store, key).what is None


def _bytes_of(copy: Copy, key: str) -> bytes:
    if copy.store is not None:
        with suppress(LakeError):
            return copy.store.get(key)
        return b""
    assert copy.path is not None
    try:
        with open(copy.path, "rb") as file:  # noqa: PTH123 - the path is bytes
            return file.read()
    except OSError:
        return b""

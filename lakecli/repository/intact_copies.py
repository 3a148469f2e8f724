"""Restore data objects, ranges and metaranges from intact copies.

Data objects: large files that this machine uploaded, by the digests in the local store; files below
a given directory; another copy of the namespace. Tables: the cache, and another copy of the
namespace. Objects are named by their content, so overwriting wrong bytes with the right ones is
always safe; no others are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from blake3 import blake3

from lakecli.base.identity import h
from lakecli.base.layout import SSTABLES, data_digest
from lakecli.committed.check import problem_of_copy
from lakecli.errors import LakeError
from lakecli.kv import local_files
from lakecli.repository.contract import Repository
from lakecli.repository.data_index import check_object
from lakecli.repository.transfer.walk import LinkPolicy, walk
from lakecli.stores.contract import ANY

_PIECE: Final = 1 << 20


@dataclass(slots=True)
class DamagedObject:
    """Something that is missing or damaged.

    Attributes:
        kind: the kind, as findings of fsck have it.
        name: the key of the object.
        what: the problem, in one line.
        size: bytes of a data object, if an entry says it.
    """

    kind: str
    name: str
    what: str
    size: int | None = None


class Repaired(NamedTuple):
    """One repair that was made, or in a dry run would be.

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
        open: opens it for reading.
        shown: the copy's place, for people.
    """

    open: Callable[[], AbstractContextManager[Any]]
    shown: str


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
    repository: Repository,
    damaged: Iterable[DamagedObject],
    places: Collection[str],
    *,
    dry_run: bool,
) -> Iterator[Repaired]:
    """Write ranges and metaranges again from an intact copy.

    Args:
        repository: the repository of the tables.
        damaged: the tables.
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
    """Yield what reads a possible copy of a range or metarange, and its place, for people."""
    cached = Path(repository.lake.home.cache) / repository.record.uuid / table_id
    yield cached.read_bytes, "the cache"
    for place in places:
        if "://" not in place:
            for file in (Path(place) / SSTABLES / table_id, Path(place) / table_id):
                yield file.read_bytes, str(file)
    for place in places:
        if "://" in place:
            store = repository.lake.runtime.open_store(place, "")
            key = SSTABLES + table_id
            yield partial(store.get, key), f"{store.uri}/{key}"


def repair_data(
    repository: Repository,
    damaged: Iterable[DamagedObject],
    places: Collection[str],
    *,
    dry_run: bool,
) -> Iterator[Repaired]:
    """Read data objects again, and restore damaged ones that have a copy.

    Args:
        repository: the repository of the objects.
        damaged: the objects.
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
    """Yield (key, copy) of data objects, each once; every copy was read and verified.

    Args:
        repository: the repository of the objects.
        wanted: keys and, if known, sizes.
        places: given directories, and URIs of copies of the namespace.
    """
    left = {digest: key for key in wanted if (digest := data_digest(key)) is not None}
    for digest, path in _candidates(repository, left, wanted, places):
        if digest in left and _digest_of_file(path) == digest:
            yield left.pop(digest), Copy(partial(open, path, "rb"), os.fsdecode(path))
    for place in places:
        if "://" not in place:
            continue
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
) -> Iterator[tuple[str, bytes]]:
    """Yield (digest, file) of files that may have that digest."""
    if not left:
        return
    with repository.lake.kv.read() as txn:
        remembered = list(local_files.find_files(txn, left))
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
                    digest = _digest_of_file(found.path)
                    if digest is not None:
                        yield digest, found.path


def _digest_of_file(path: bytes) -> str | None:
    """Return the BLAKE3 of a file, or ``None`` if it cannot be read."""
    hasher = blake3()
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is bytes
            while piece := file.read(_PIECE):
                hasher.update(piece)
    except OSError:
        return None
    return hasher.hexdigest()


def _upload(repository: Repository, key: str, copy: Copy) -> bool:
    """Write an object from a copy and read it back; return whether it is correct."""
    try:
        with copy.open() as source:
            repository.store.put(key, source, ANY)
    except OSError:
        return False  # the file was deleted since
    return check_object(repository.store, key).what is None

"""Find copies of lost objects.

Data objects: large files that this machine uploaded, by the digests in the local store; files below
a given directory; another copy of the namespace. Tables: the cache, and another copy of the
namespace.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from lakecli.base.layout import SSTABLES, data_digest
from lakecli.committed.check import problem_of_copy
from lakecli.errors import LakeError
from lakecli.kv import file_hashes
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.walk import LinkPolicy, walk

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

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

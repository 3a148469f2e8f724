"""Mending data objects, ranges and metaranges: the right bytes over the wrong ones, or none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from lakecli.base.identity import h
from lakecli.base.layout import SSTABLES
from lakecli.committed.check import problem_of_copy
from lakecli.errors import LakeError
from lakecli.repository.bucket.data_index import check_object
from lakecli.repository.contract import Repository
from lakecli.repository.repair.report import Damage, Repaired
from lakecli.repository.repair.sources import Copy, find_copies, find_table
from lakecli.stores.base import ANY


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

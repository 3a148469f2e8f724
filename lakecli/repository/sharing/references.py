"""Verify that all objects that a ref will make reachable are in the bucket; restore missing ones.

A ref never moves to a commit whose tree or objects are missing in the bucket. This clone's records
of what the bucket has may be wrong: because of a cache, a restored disk or garbage collection. So
this module looks in the bucket for the tables that new commits add to the trees of their parents,
and for the data objects of the entries that they change.

Objects that the bucket lacks and this machine still has are uploaded again: ranges and metaranges
from the cache, and data objects from large files that were uploaded from here and have not changed.
Each object is verified by its digest before and after it is uploaded.

The garbage collection of lakeFS deletes the objects of expired commits, and keeps the commits. So
in a namespace that was taken over from lakeFS, objects that only earlier commits need may be
missing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from heapq import nlargest
from itertools import chain, islice
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from lakecli.base.layout import SSTABLES, sstable_key
from lakecli.base.model import MetarangeId
from lakecli.committed.diff import new_entries, new_ranges
from lakecli.errors import IntegrityError
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import origin_of
from lakecli.repository.reading.addresses import is_external, is_key
from lakecli.repository.stored_objects import DamagedObject, DataIndex, repair_data, repair_tables
from lakecli.stores.contract import ObjectStore, exists, size_of

T = TypeVar("T")
Trees = Mapping[MetarangeId, Sequence[MetarangeId]]
"""New trees; for each, the trees of the parents with which it is compared."""

PARALLELISM: Final = 16
"""The number of objects checked concurrently."""

SAMPLE: Final = 16
"""The number of young data objects that are checked before the other young ones are trusted."""

BATCH: Final = 10_000
"""The largest number of data objects checked one by one; for more, the namespace is listed."""

LISTED_FROM: Final = 2_000
"""From this number of ranges and metaranges on, listing all is faster than a request for each."""

MAX_LISTED: Final = 1_000
"""The largest number of paths that an error lists."""


class NotInBucket(IntegrityError):
    """An object that a ref would make reachable is not in the storage namespace."""


class _Wanted(NamedTuple):
    """A data object that must be in the bucket."""

    key: str
    size: int
    path: bytes
    modified_at: datetime


def check_references(
    repository: Repository, trees: Trees, *, head: MetarangeId, older_than: datetime | None
) -> bool:
    """Refuse trees that refer to objects that the bucket lacks and this machine cannot restore.

    Missing objects are uploaded again if this machine has them: tables from the cache, data from
    large files that were uploaded from here and have not changed. A missing table shows that the
    bucket has lost objects; then no data is trusted.

    Args:
        trees: the trees of the commits that the bucket's refs do not reach; for each, the trees of
            the parents. A parent's tree that is not itself one of the new trees is trusted.
        head: the tree of the commit to which the ref will move.
        older_than: trust the data objects of later entries, except for a sample, since garbage
            collection keeps such young objects; ``None``: trust none.

    Returns:
        Whether data may have been left unchecked: young data was trusted, and there was more than
        the sample. If the bucket was rolled back, the sample may be younger than missing objects.

    Raises:
        NotInBucket: objects are missing; the error lists their paths.
    """
    restored: set[str] = set()
    while missing := _missing_tables(repository, trees):
        older_than = None
        sent = _upload_again(repository, "table", dict.fromkeys(missing), restored)
        if lost := [key for key in missing if key not in sent]:
            more = f" and {len(lost) - 1} more tables" if lost[1:] else ""
            see = f"see what needs them: `fsck {repository.uri}`"
            hint = f"a clone that has them in its cache can push them; {see}"
            raise NotInBucket(f"not in {repository.store.uri}: {lost[0]}{more}", hint=hint)
    first = list(islice(_entries(repository, trees), BATCH + 1))

    def entries() -> Iterable[_Wanted]:
        return _entries(repository, trees) if len(first) > BATCH else first

    date = attrgetter("modified_at")
    young = [] if older_than is None else nlargest(SAMPLE, entries(), key=date)
    sample = {(item.key, item.size): item for item in young}
    if _lost(repository.store, list(sample.values())):
        older_than = None
    while lacking := _missing_data(repository, _wanted(entries(), older_than)):
        paths = _send_data(repository, lacking, restored)
        more = " or more" if len(lacking) >= MAX_LISTED else ""
        if paths and origin_of(repository.store) is not None:
            needs = _entries(repository, _head_alone(trees, head))
            needed = _missing_data(repository, _wanted(needs, older_than))
            if not needed:
                _notify_collected(repository, f"{len(paths)}{more}")
                break
            paths = _send_data(repository, needed, restored)
        if paths:
            count = len(paths)
            what = f"{count}{more} committed objects" if count > 1 else "a committed object"
            message = f"the bytes of {what} are not in {repository.store.uri}"
            hint = "upload them again, with the same contents, then repeat this"
            raise NotInBucket(message, hint=hint, paths=sorted(paths))
    if restored:
        _notify(repository, restored)
    return older_than is not None and len(young) == SAMPLE


def _head_alone(trees: Trees, head: MetarangeId) -> Trees:
    """Return the head's tree, if it is new, with the trusted trees to compare it with."""
    parents = chain.from_iterable(trees.values())
    trusted = [tree for tree in dict.fromkeys(parents) if tree not in trees]
    return {head: trusted} if head in trees else {}


def _missing_tables(repository: Repository, trees: Trees) -> list[str]:
    """Return the keys of the ranges and metaranges of trees that the bucket lacks."""
    # Check the metaranges in the store first: a read could find them in the cache only.
    missing = _absent(repository.store, map(sstable_key, trees))
    if missing:
        return missing
    ranges = chain.from_iterable(new_ranges(repository.trees, *each) for each in trees.items())
    return _absent(repository.store, map(sstable_key, ranges))


def _absent(store: ObjectStore, keys: Iterable[str]) -> list[str]:
    """Return the keys that have no object in the store."""
    wanted = set(keys)
    if len(wanted) >= LISTED_FROM:
        for info in store.list(SSTABLES):
            wanted.discard(info.key)
    return _keep(sorted(wanted), lambda key: not exists(store, key))


def _wanted(entries: Iterable[_Wanted], older_than: datetime | None) -> Iterator[_Wanted]:
    """Yield the data objects of entries older than `older_than`."""
    return (each for each in entries if older_than is None or each.modified_at < older_than)


def _entries(repository: Repository, trees: Trees) -> Iterator[_Wanted]:
    """Yield the data objects in the namespace to which new entries refer, possibly repeatedly."""
    for tree, parents in trees.items():
        for path, entry in new_entries(repository.trees, tree, parents):
            if not is_external(entry):
                yield _Wanted(entry.physical_address, entry.size, path, entry.modified_at)


def _missing_data(repository: Repository, wanted: Iterator[_Wanted]) -> list[_Wanted]:
    """Return the data objects that are missing or have a wrong size, `MAX_LISTED` at most."""
    batch: dict[tuple[str, int], _Wanted] = {}
    for item in wanted:
        batch.setdefault((item.key, item.size), item)
        if len(batch) > BATCH:
            return _missing_from_listing(repository, chain(batch.values(), wanted))
    return _lost(repository.store, [*batch.values()])[:MAX_LISTED]


def _missing_from_listing(repository: Repository, wanted: Iterable[_Wanted]) -> list[_Wanted]:
    missing: dict[bytes, _Wanted] = {}
    with DataIndex(repository.store) as index:
        for _ in index.fill():
            pass
        for item in wanted:
            if index.problem_of(item.key, item.size) is not None:
                missing[item.path] = item
                if len(missing) >= MAX_LISTED:
                    break
    return list(missing.values())


def _lost(store: ObjectStore, items: Sequence[_Wanted]) -> list[_Wanted]:
    # A key that could lead out of the namespace names no object in it.
    return _keep(items, lambda item: not is_key(item.key) or size_of(store, item.key) != item.size)


def _keep(items: Sequence[T], test: Callable[[T], bool]) -> list[T]:
    """Return the items that pass a test; run several tests concurrently."""
    with ThreadPoolExecutor(PARALLELISM) as pool:
        return [item for item, passes in zip(items, pool.map(test, items), strict=True) if passes]


def _send_data(repository: Repository, lacking: list[_Wanted], restored: set[str]) -> list[bytes]:
    """Upload data objects again; return the paths of objects that this machine does not have."""
    sizes = {each.key: each.size for each in lacking}
    sent = _upload_again(repository, "data", sizes, restored)
    return [item.path for item in lacking if item.key not in sent]


def _upload_again(
    repository: Repository, kind: str, sizes: Mapping[str, int | None], restored: set[str]
) -> set[str]:
    """Upload objects again, each only once in a push; return the keys of the uploaded objects.

    Args:
        kind: ``table`` or ``data``.
        sizes: the size of each object by its key; ``None`` for tables.
        restored: the keys of all objects that this push has uploaded again; new keys are added.
    """
    repair = repair_tables if kind == "table" else repair_data
    new = {key: size for key, size in sizes.items() if key not in restored}
    damaged = [DamagedObject(kind, key, "missing", size=size) for key, size in new.items()]
    sent = {each.name for each in repair(repository, damaged, (), dry_run=False)}
    restored |= sent
    return sent


def _notify_collected(repository: Repository, count: str) -> None:
    """Add a notice that objects which only earlier commits need are missing."""
    missing = f"{count} objects that only earlier commits need are not in {repository.store.uri}"
    cause = "lakeFS's garbage collection deletes the objects of expired commits"
    message = f"{missing}: {cause}; these commits cannot be read whole"
    repository.notify(message, hint=f"count all of them: `fsck {repository.uri}`")


def _notify(repository: Repository, restored: Collection[str]) -> None:
    """Add a notice that missing objects were uploaded again."""
    tables = sum(key.startswith(SSTABLES) for key in restored)
    sent = f"sent again ({tables} tables, {len(restored) - tables} data objects)"
    message = f"{len(restored)} objects were missing in {repository.store.uri} and were {sent}"
    repository.notify(message, hint=f"see what else is missing: `fsck {repository.uri}`")

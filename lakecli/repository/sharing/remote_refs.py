"""Compare the refs in the bucket with those that this clone saw last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from lakecli.base.model import RefKind
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.refs.names import is_branch_name, is_tag_name
from lakecli.remote.packs import list_packs
from lakecli.remote.ref_records import InvalidRecord, RemoteRef
from lakecli.remote.refs import PARALLEL_READS, ListedRef, iter_refs, read_refs
from lakecli.repository.contract import Repository
from lakecli.repository.sharing import rollback
from lakecli.stores.contract import Version


class Remote(NamedTuple):
    """The refs of a bucket as they were read.

    Attributes:
        listed: how many there are, deleted ones included.
        refs: the refs that have changed since they were last seen.
        gone: refs that were seen before and no longer exist.
        damaged: objects in the place of refs that are not valid refs.
    """

    listed: int
    refs: tuple[RemoteRef, ...]
    gone: tuple[Tracked, ...]
    damaged: tuple[InvalidRecord, ...] = ()


class Back(NamedTuple):
    """Refs that went back since they were seen, and the packs that the bucket has now."""

    seen: tuple[Tracked, ...]
    packs: frozenset[str]


def find_back(
    repository: Repository, known: Mapping[tuple[RefKind, str], Tracked], remote: Remote
) -> Back:
    """Find refs that are older than when they were last seen; if there are any, list the packs."""
    seen = list(remote.gone)
    moved = [(known.get((ref.kind, ref.name)), ref) for ref in remote.refs]
    pairs = [(before, ref) for before, ref in moved if before is not None]
    if pairs:
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            back = pool.map(lambda pair: rollback.went_back(repository.store, *pair), pairs)
            seen += [before for (before, _), is_older in zip(pairs, back, strict=True) if is_older]
    if not seen:
        return Back((), frozenset())
    return Back(tuple(seen), frozenset(info.id for info in list_packs(repository.store)))


def read_remote(
    repository: Repository,
    known: dict[tuple[RefKind, str], Tracked],
    *,
    wanted: Callable[[RefKind, str], bool] = lambda _kind, _name: True,
    before_reading: Callable[[], object] | None = None,
    progress: Progress = NO_PROGRESS,
) -> Remote:
    """Return the refs that moved since they were seen as `known` has them.

    Args:
        repository: the repository of the refs.
        known: where they were seen last.
        wanted: tells whether to read a ref of a kind and a name; by default, all are read.
        before_reading: called once unless every ref is listed as it was seen: then the namespace
            is still this repository's, since each version of a ref is of one write.
        progress: counts the refs that were read.

    A ref that the listing lacks is read by its key, since a store may list late: lakecli never
    deletes a ref object, but replaces it by a tombstone. An object that is no valid ref is left out
    and reported: it says nothing about the position of the ref.
    """
    store = repository.store
    bad: list[InvalidRecord] = []
    changed: list[ListedRef] = []
    listed = set()
    for each in iter_refs(store):
        if not _is_legal(each.kind, each.name) or not wanted(each.kind, each.name):
            continue
        listed.add((each.kind, each.name))
        before = known.get((each.kind, each.name))
        if before is None or before.version != each.version:
            changed.append(each)
    unlisted = {ref: each for ref, each in known.items() if ref not in listed}
    late = [ListedRef(*ref, Version(each.version)) for ref, each in unlisted.items()]
    if before_reading is not None and (changed or late or not listed):
        before_reading()
    refs = []
    for ref in read_refs(store, changed, on_bad=bad.append):
        refs.append(ref)
        progress.advance(items=1)
    found = {(ref.kind, ref.name): ref for ref in read_refs(store, late, on_bad=bad.append)}
    refs += [ref for key, ref in found.items() if ref.version != known[key].version]
    answered = {*found, *((each.kind, each.name) for each in bad)}
    gone = [each for ref, each in unlisted.items() if ref not in answered]
    refs.sort(key=lambda ref: (ref.kind, ref.name))
    damaged = sorted(bad)
    return Remote(len(listed), tuple(refs), tuple(gone), tuple(damaged))


def find_gone_back(repository: Repository) -> list[tuple[RefKind, str]]:
    """Read the refs that have changed, and return those that went back; nothing is recorded."""
    with repository.lake.kv.read() as txn:
        known = TrackingStore(txn, repository.key).by_ref()
    found = find_back(repository, known, read_remote(repository, known))
    return [(each.kind, each.name) for each in found.seen]


def _is_legal(kind: RefKind, name: str) -> bool:
    return is_branch_name(name) if kind is RefKind.BRANCH else is_tag_name(name)

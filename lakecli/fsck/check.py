"""Check that everything a repository's refs reach is in the bucket and matches its name.

Data objects come first: one listing of ``data/`` (and with `hash_data` one reading of every byte)
goes into an index on disk. Then every ref, its commits, their metaranges and ranges, each once
however many commits share it; every entry in them is looked up in the index. Staged entries are
checked too. The bucket is read, never the cache.

On Spark there is no index on disk: all references meet the listing in one join, and this process
reads only the ranges with problems again. So findings and their order are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed.scan import count_entries
from lakecli.errors import IntegrityError
from lakecli.refs.ref_store import RefStore
from lakecli.repository.data_index import DataIndex
from lakecli.fsck.checker import Checker
from lakecli.fsck.thoroughness import Thoroughness
from lakecli.repository.contract import Repository
from lakecli.fsck.findings import Finding, FsckCounts
from lakecli.stores.capabilities import clear_temporaries


def fsck(
    repository: Repository,
    *,
    hash_data: bool = False,
    counts: FsckCounts | None = None,
    thoroughness: Thoroughness | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[Finding]:
    """Yield the problems of a repository as they are found.

    Args:
        repository: the repository to check.
        hash_data: read every data object and compare its BLAKE3 with its name.
        counts: updated while the check runs.
        thoroughness: how much to check; overrides `hash_data`.
        progress: counts the objects and bytes that are hashed; without `hash_data` the entries that
            are checked.

    Raises:
        Unreachable: the store does not answer.
    """
    clear_temporaries(repository.store)
    how = thoroughness or Thoroughness(hash_data=hash_data)
    entries = NO_PROGRESS if how.hash_data else progress
    checker = Checker(repository, counts or FsckCounts(), how, progress=entries)
    ahead = None if how.bulk is None else how.bulk.open_index(compares=how.compares)
    with ahead or DataIndex() as index:
        found = index.fill(
            repository.store,
            hash_data=how.hash_data,
            progress=progress,
            hasher=None if how.bulk is None else how.bulk.hash_objects,
            takes=None
            if how.sample >= 1
            else _sampler(how.sample, repository.lake.random_number()),
        )
        damaged = dict(found)
        checker.counts.bytes_hashed = index.bytes_hashed
        with repository.lake.kv.read() as txn:
            yield from checker.check_claim()
            if ahead is not None:
                checker.look_ahead(txn, ahead)
                checker.counts.bytes_hashed = index.bytes_hashed
            checker.counts.objects = index.count
            yield from checker.check_refs(txn, index)
            yield from checker.check_external()
            yield from checker.check_shared(txn)
        # Damaged objects that a path refers to were reported with that path.
        for key in sorted(damaged.keys() - checker.damaged):
            yield from checker.report(Finding("data", key, damaged[key]))


def count_head_entries(repository: Repository, *, check_from: int) -> int | None:
    """Return how many entries the largest head has; ``None`` if a head cannot be read.

    Only metaranges are read. From `check_from` entries on, their counts are checked against the
    objects in the namespace; see `lakecli.committed.scan`.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = {branch.commit_id for branch in refs.iter_branches()}
        trees = {commit.metarange_id for head in heads if (commit := refs.find_commit(head))}
    try:
        return max(
            (
                count_entries(
                    repository.store,
                    repository.trees.metarange(tree).records(),
                    check_from=check_from,
                )
                for tree in trees
            ),
            default=0,
        )
    except IntegrityError:
        return None


def _sampler(part: float, offset: float) -> Callable[[str], bool]:
    """Select a share of all digests, a different one for each offset."""
    return partial(_is_in_sample, part=part, offset=offset)


def _is_in_sample(digest: str, *, part: float, offset: float) -> bool:
    return (int(digest[:12], 16) / 16**12 + offset) % 1 < part


def summarise(counts: FsckCounts) -> IntegrityError | None:
    """Return the error for a check that found problems, or ``None``."""
    if not counts.findings:
        return None
    refs = ", ".join(sorted(counts.damaged_refs)[:10])
    where = f"; reached from {refs}" if refs else ""
    return IntegrityError(
        f"{counts.findings} problem{'s' if counts.findings > 1 else ''} found{where}",
        hint="upload the named paths again, or restore the named objects from a backup",
    )

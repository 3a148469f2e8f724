"""Removing, copying and moving objects: the entries change, no byte of data does."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.committed.pairs import is_same
from lakecli.committed.values import decode_entry
from lakecli.errors import LostRace, UsageError
from lakecli.repository.core.gate import claim_below, claim_values
from lakecli.repository.core.stager import MAX_ATTEMPTS, Seen, Stager
from lakecli.repository.core.view import branch_at, no_such_path, open_view
from lakecli.staging.area import TOMBSTONE
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakecli.model import Entry
    from lakecli.repository.core.gate import Change
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View
    from lakecli.staging.area import ClaimedValue

BATCH: Final = 5_000
"""Paths rearranged in one transaction of the local store."""


class _Changing(LostRace):
    """What is to be moved changes faster than it can be read."""

    def __init__(self, repository: Repository, branch: str) -> None:
        super().__init__(
            f"what is to be moved changed {MAX_ATTEMPTS} times while it was read: "
            f"{repository.uri}/{branch}",
            hint="try again",
        )


def remove(repository: Repository, branch: str, path: bytes) -> bool:
    """Stage the deletion of one object; return whether there was one.

    Raises:
        NotFound: no such branch.
    """
    stager = Stager(repository, branch, kind="rm")
    _check_branch(repository, branch)
    with open_view(repository, branch) as view:
        if view.find(path) is None:
            return False
    stager.write([(path, TOMBSTONE)])
    return True


def remove_tree(repository: Repository, branch: str, path: bytes) -> int:
    """Stage the deletion of an object and of everything below it; return how many that were.

    ``a`` means ``a`` and ``a/b``, but not ``ab``; ``a/`` what is below only; ``b""`` everything.
    What is added or replaced there while this runs stays.

    Raises:
        NotFound: no such branch.
    """
    stager = Stager(repository, branch, kind="rm")
    _check_branch(repository, branch)
    with open_view(repository, branch) as view:
        return sum(_remove_batch(stager, view, branch, batch) for batch in _batches(view, path))


def _remove_batch(
    stager: Stager, view: View, branch: str, batch: Sequence[tuple[bytes, bytes]]
) -> int:
    """Stage the deletion of records that a view has, but for those that changed since."""
    repository, left = view.repository, batch
    seen = Seen.of(view, branch, [path for path, _ in left])
    for _ in range(MAX_ATTEMPTS):
        deletions = [(path, TOMBSTONE) for path, _ in left]
        if stager.write_unless_changed([(branch, deletions)], seen):
            return len(left)
        with open_view(repository, branch) as now:
            left = [(path, value) for path, value in left if is_same(now.find(path), value)]
            seen = Seen.of(now, branch, [path for path, _ in left])
    raise _Changing(repository, branch)


def measure_tree(repository: Repository, branch: str, path: bytes) -> tuple[int, int]:
    """Return how many objects `remove_tree` would remove, and of how many bytes.

    Raises:
        NotFound: no such branch.
    """
    count = size = 0
    _check_branch(repository, branch)
    with open_view(repository, branch) as view:
        for batch in _batches(view, path):
            count += len(batch)
            size += sum(decode_entry(value).size for _, value in batch)
    return count, size


def is_directory(repository: Repository, branch: str, path: bytes) -> bool:
    """Tell whether a branch has anything below a path."""
    with open_view(repository, branch) as view:
        return next(view.scan(prefix=directory(path)), None) is not None


def _batches(view: View, path: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the records at and below a path, a batch at a time."""
    below = directory(path)
    if path != below:
        value = view.find(path)
        if value is not None:
            yield [(path, value)]
    records = view.scan(prefix=below)
    while batch := list(islice(records, BATCH)):
        yield batch


def _claimed_batches(view: View, below: bytes) -> Iterator[list[Change]]:
    """Yield the records below a directory, a batch at a time, as what may be staged elsewhere."""
    records = claim_below(view, prefix=below)
    while batch := list(islice(records, BATCH)):
        yield batch


def directory(path: bytes) -> bytes:
    """Return a path as that of a directory: with a slash at its end, unless it is the root."""
    return path + b"/" if path and not path.endswith(b"/") else path


def copy(
    repository: Repository, *, source_ref: str, source: bytes, branch: str, path: bytes
) -> Entry:
    """Stage at `path` the entry that a ref has at `source`.

    Raises:
        NotFound: no such ref, branch or source.
        UsageError: both are the same place.
        Gone: the object of the source is not in the bucket any more.
    """
    stager = Stager(repository, branch, kind="cp")
    _check_places((source_ref, source), (branch, path))
    entry, value = _get(repository, source_ref, source)
    stager.write([(path, value)])
    return entry


def move(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> Entry:
    """Stage at `path` the entry that a branch has at `source`, and its deletion there.

    What is uploaded to `source` while this runs is either moved, or stays there.

    Raises:
        NotFound: no such branch or source.
        UsageError: both are the same place.
        Gone: the object of the source is not in the bucket any more.
        LostRace: the source kept changing.
    """
    stager = Stager(repository, branch, kind="mv")
    _check_places((source_branch, source), (branch, path))
    _check_branch(repository, source_branch)
    for _ in range(MAX_ATTEMPTS):
        with open_view(repository, source_branch) as view:
            entry, value = view.entry(source), view.find(source)
            assert value is not None
            moved = claim_values(repository, [(path, value)])
            seen = Seen.of(view, source_branch, [source])
        if stager.write_unless_changed(_parts(moved, [source], branch, source_branch), seen):
            return entry
    raise _Changing(repository, source_branch)


def _get(repository: Repository, ref: str, path: bytes) -> tuple[Entry, ClaimedValue]:
    with open_view(repository, ref) as view:
        entry, value = view.entry(path), view.find(path)
    assert value is not None
    ((_, claimed),) = claim_values(repository, [(path, value)])
    return entry, claimed


def _check_places(source: tuple[str, bytes], target: tuple[str, bytes]) -> None:
    check_path(target[1])
    if source == target:
        raise UsageError("source and destination are the same path")


def _check_branch(repository: Repository, name: str) -> None:
    with repository.lake.kv.read() as txn:
        branch_at(repository, txn, name)


def copy_tree(
    repository: Repository, *, source_ref: str, source: bytes, branch: str, path: bytes
) -> int:
    """Stage below `path` everything that a ref has below `source`; return how many objects.

    Both are directories: a slash is put behind them where it is missing.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: both are the same place, or a resulting path is too long; nothing is staged.
    """
    below, target = directory(source), directory(path)
    if (source_ref, below) == (branch, target):
        raise UsageError("source and destination are the same path")
    stager = Stager(repository, branch, kind="cp")
    count = 0
    with open_view(repository, source_ref) as view:
        _check_lengths(view, below, target)
        for batch in _claimed_batches(view, below):
            stager.write([(target + old[len(below) :], value) for old, value in batch])
            count += len(batch)
    if not count:
        raise no_such_path(repository, source_ref, below)
    return count


def move_tree(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> int:
    """Stage below `path` everything a branch has below `source`, and its deletion there.

    What is uploaded below `source` while this runs is either moved, or stays there.

    Raises:
        NotFound: no such branch, or nothing below the source.
        UsageError: one place lies inside the other, or a resulting path is too long; nothing is
            staged.
        Gone: an object below the source is not in the bucket any more.
        LostRace: what is there kept changing; what was moved before stays moved.
    """
    below, target = directory(source), directory(path)
    if source_branch == branch and (below.startswith(target) or target.startswith(below)):
        raise UsageError("one of source and destination lies inside the other")
    stager = Stager(repository, branch, kind="mv")
    _check_branch(repository, source_branch)
    count = 0
    with open_view(repository, source_branch) as view:
        _check_lengths(view, below, target)
        for batch in _claimed_batches(view, below):
            count += _move_batch(stager, view, batch, (source_branch, below), (branch, target))
    if not count:
        raise no_such_path(repository, source_branch, below)
    return count


def _check_lengths(view: View, below: bytes, target: bytes) -> None:
    for old, _ in view.scan(prefix=below):
        check_path(target + old[len(below) :])


def _move_batch(
    stager: Stager,
    view: View,
    batch: Sequence[Change],
    source: tuple[str, bytes],
    target: tuple[str, bytes],
) -> int:
    """Move records from below one directory of a branch to below another; return how many.

    What changed since the view was opened is moved as it is now.
    """
    (source_branch, below), (branch, to) = source, target
    paths = [old for old, _ in batch]
    seen = Seen.of(view, source_branch, paths)
    for _ in range(MAX_ATTEMPTS):
        moved = [(to + old[len(below) :], value) for old, value in batch]
        removed = [old for old, _ in batch]
        if stager.write_unless_changed(_parts(moved, removed, branch, source_branch), seen):
            return len(batch)
        with open_view(view.repository, source_branch) as now:
            there = [(old, value) for old in paths if (value := now.find(old)) is not None]
            batch = claim_values(view.repository, there)
            seen = Seen.of(now, source_branch, paths)
    raise _Changing(view.repository, source_branch)


def _parts(
    moved: Sequence[Change], removed: Iterable[bytes], branch: str, source_branch: str
) -> list[tuple[str, list[Change]]]:
    """Return what is staged where for a move."""
    deletions = [(path, TOMBSTONE) for path in removed]
    if branch == source_branch:
        return [(branch, sorted([*moved, *deletions]))]
    return [(branch, sorted(moved)), (source_branch, deletions)]

"""Removing, copying and moving objects: the entries change, no byte of data does."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.committed.values import decode_entry
from lakecli.errors import UsageError
from lakecli.repository.gate import claim_below, claim_values
from lakecli.repository.stage import Stager
from lakecli.repository.view import branch_at, no_such_path, open_view
from lakecli.staging.area import TOMBSTONE
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.model import Entry
    from lakecli.repository.gate import Change
    from lakecli.repository.lake import Repository
    from lakecli.repository.view import View
    from lakecli.staging.area import ClaimedValue

BATCH: Final = 5_000
"""Paths rearranged in one transaction of the local store."""


def remove(repository: Repository, branch: str, path: bytes) -> None:
    """Stage the deletion of one object.

    Raises:
        NotFound: no such branch or path.
    """
    stager = Stager(repository, branch, kind="rm")
    with open_view(repository, branch) as view:
        view.entry(path)
    stager.write([(path, TOMBSTONE)])


def remove_tree(repository: Repository, branch: str, path: bytes) -> int:
    """Stage the deletion of an object and of everything below it; return how many that were.

    ``a`` means ``a`` and ``a/b``, but not ``ab``; ``a/`` what is below only; ``b""`` everything.

    Raises:
        NotFound: no such branch, or nothing there.
    """
    stager = Stager(repository, branch, kind="rm")
    removed = 0
    with open_view(repository, branch) as view:
        for batch in _batches(view, path):
            stager.write([(found, TOMBSTONE) for found, _ in batch])
            removed += len(batch)
    if not removed:
        raise no_such_path(repository, branch, path)
    return removed


def measure_tree(repository: Repository, branch: str, path: bytes) -> tuple[int, int]:
    """Return how many objects `remove_tree` would remove, and of how many bytes.

    Raises:
        NotFound: no such branch, or nothing there.
    """
    count = size = 0
    with repository.lake.kv.read() as txn:
        branch_at(repository, txn, branch)
    with open_view(repository, branch) as view:
        for batch in _batches(view, path):
            count += len(batch)
            size += sum(decode_entry(value).size for _, value in batch)
    if not count:
        raise no_such_path(repository, branch, path)
    return count, size


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

    Raises:
        NotFound: no such branch or source.
        UsageError: both are the same place.
    """
    stager = Stager(repository, branch, kind="mv")
    _check_places((source_branch, source), (branch, path))
    entry, value = _get(repository, source_branch, source)
    _check_branch(repository, source_branch)
    _write(stager, [(path, value)], [source], branch, source_branch)
    return entry


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

    Raises:
        NotFound: no such branch, or nothing below the source.
        UsageError: one place lies inside the other, or a resulting path is too long; nothing is
            staged.
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
            moved = [(target + old[len(below) :], value) for old, value in batch]
            _write(stager, moved, [old for old, _ in batch], branch, source_branch)
            count += len(batch)
    if not count:
        raise no_such_path(repository, source_branch, below)
    return count


def _check_lengths(view: View, below: bytes, target: bytes) -> None:
    for old, _ in view.scan(prefix=below):
        check_path(target + old[len(below) :])


def _write(
    stager: Stager,
    moved: list[Change],
    removed: list[bytes],
    branch: str,
    source_branch: str,
) -> None:
    """Stage what was moved, then its deletion: in one go, where that is possible."""
    deletions = [(path, TOMBSTONE) for path in removed]
    if branch == source_branch:
        stager.write(sorted(moved + deletions))
        return
    stager.write(moved)
    stager.write(deletions, branch=source_branch)

"""All objects below a directory of a branch, in batches: what `rm`, `cp` and `mv` work on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import is_same
from lakecli.errors import LostRace
from lakecli.repository.contract import Repository
from lakecli.repository.guard.claims import claim_below
from lakecli.repository.reading.view import View, open_view
from lakecli.repository.staged.stager import MAX_ATTEMPTS, Seen, Stager
from lakecli.staging.area import TOMBSTONE

if TYPE_CHECKING:
    from lakecli.repository.guard.claims import Change

BATCH: Final = 5_000
"""Paths staged in one transaction of the local store."""


def batches_of(view: View, path: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the records at and below a path, a batch at a time."""
    below = as_directory(path)
    if path != below:
        value = view.find(path)
        if value is not None:
            yield [(path, value)]
    records = view.scan(prefix=below)
    while batch := list(islice(records, BATCH)):
        yield batch


def claimed_batches(view: View, below: bytes, target: bytes) -> Iterator[list[Change]]:
    """Yield the records below a directory, a batch at a time, claimed so that they can be staged.

    Args:
        view: what to read.
        below: the directory, with its trailing slash.
        target: the directory that replaces it in the resulting paths.

    Raises:
        UsageError: a resulting path is too long; raised before the first batch.
        Gone: an object is no longer in the bucket.
    """
    for old, _ in view.scan(prefix=below):
        check_path(target + old[len(below) :])
    records = claim_below(view, prefix=below)
    while batch := list(islice(records, BATCH)):
        yield batch


def remove_unchanged(
    stager: Stager, view: View, branch: str, batch: Sequence[tuple[bytes, bytes]]
) -> int:
    """Stage the deletion of those records of a view that have not changed since.

    Args:
        stager: of the branch.
        view: the state in which the records were read.
        branch: its name.
        batch: paths and encoded entries.

    Returns:
        How many were removed.

    Raises:
        LostRace: they kept changing.
    """
    repository, left = view.repository, batch
    seen = Seen.of(view, branch, [path for path, _ in left])
    for _ in range(MAX_ATTEMPTS):
        deletions = [(path, TOMBSTONE) for path, _ in left]
        if stager.write_unless_changed([(branch, deletions)], seen):
            return len(left)
        with open_view(repository, branch) as now:
            left = [(path, value) for path, value in left if is_same(now.find(path), value)]
            seen = Seen.of(now, branch, [path for path, _ in left])
    raise kept_changing(repository, branch)


def kept_changing(repository: Repository, branch: str) -> LostRace:
    """Return the error for records that changed each time they were read."""
    return LostRace(
        f"the objects changed {MAX_ATTEMPTS} times while they were read: {repository.uri}/{branch}",
        hint="try again",
    )

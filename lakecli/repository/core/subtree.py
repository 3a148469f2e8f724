"""All objects below a directory of a branch, in batches: what `rm`, `cp` and `mv` work on."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.errors import LostRace
from lakecli.repository.core.gate import claim_below
from lakecli.repository.core.stager import MAX_ATTEMPTS
from lakecli.uri import as_directory, check_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.core.gate import Change
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View

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


def kept_changing(repository: Repository, branch: str) -> LostRace:
    """Return the error for records that changed each time they were read."""
    return LostRace(
        f"the objects changed {MAX_ATTEMPTS} times while they were read: {repository.uri}/{branch}",
        hint="try again",
    )

"""Copy objects: stage the same entries at other paths; no data is copied."""

from __future__ import annotations

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory, check_path
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.guard.claims import claim_values
from lakecli.repository.reading.view import no_such_path, open_view
from lakecli.repository.staged.stager import UNCHANGED, Attributes, Stager, claimed_batches


def cp(
    repository: Repository,
    *,
    source_ref: str,
    source: bytes,
    branch: str,
    path: bytes,
    attributes: Attributes = UNCHANGED,
) -> Entry:
    """Stage at `path` the entry that a ref has at `source`, with other attributes if given.

    Raises:
        NotFound: no such ref, branch or source.
        UsageError: both are the same place.
        Gone: the object of the source is no longer in the bucket.
    """
    check_path(path)
    if (source_ref, source) == (branch, path):
        raise _same()
    with open_view(repository, source_ref) as view:
        entry, value = view.entry(source), view.find(source)
    assert value is not None
    changed = attributes.apply(value)
    Stager(repository, branch, kind="cp").write(claim_values(repository, [(path, changed)]))
    return entry


def cp_tree(
    repository: Repository,
    *,
    source_ref: str,
    source: bytes,
    branch: str,
    path: bytes,
    attributes: Attributes = UNCHANGED,
) -> int:
    """Stage below `path` everything that a ref has below `source`; return how many objects.

    With `attributes` the copies have these.

    Both are directories: a missing trailing slash is added.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: both are the same place, or a resulting path is too long; nothing is staged.
    """
    below, target = as_directory(source), as_directory(path)
    if (source_ref, below) == (branch, target):
        raise _same()
    stager = Stager(repository, branch, kind="cp")
    count = 0
    with open_view(repository, source_ref) as view:
        for batch in claimed_batches(view, below, target):
            copies = [(target + old[len(below) :], value) for old, value in batch]
            if attributes != UNCHANGED:
                changed = [(new, attributes.apply(value)) for new, value in copies]
                copies = claim_values(repository, changed)
            stager.write(copies)
            count += len(batch)
    if not count:
        raise no_such_path(repository, source_ref, below)
    return count


def _same() -> UsageError:
    return UsageError(
        "source and destination are the same path",
        hint="to change metadata in place: lakecli fs update-metadata",
    )

"""Reading and rearranging objects: stat, list, open, remove, copy, move, presign.

Copying and moving are metadata operations: the entries change, no byte of data does.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.errors import NotFound, UsageError
from lakecli.objectstore.base import ObjectNotFound, PresignRequest
from lakecli.repository.address import locate
from lakecli.repository.stage import Stager
from lakecli.repository.view import no_such_path, open_view
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from lakecli.committed.listing import ListedObject, ListedPrefix
    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl
    from lakecli.repository.lake import Repository
    from lakecli.repository.view import View

BATCH: Final = 5_000
"""Paths rearranged in one transaction of the local store."""


def stat(repository: Repository, ref: str, path: bytes) -> Entry:
    """Return the entry at a path, staged changes included for a plain branch.

    Raises:
        NotFound: no such ref or path.
    """
    with open_view(repository, ref) as view:
        return view.entry(path)


@contextmanager
def listing(
    repository: Repository, ref: str, *, prefix: bytes, delimiter: bytes = b"", after: bytes = b""
) -> Iterator[Iterator[ListedObject | ListedPrefix]]:
    """Open a listing of the paths that start with `prefix`, in path order.

    Args:
        repository: what to list.
        ref: at which ref; a plain branch includes its staging area.
        prefix: of the paths; any bytes, not only whole components.
        delimiter: where given, everything behind its first occurrence after the prefix is
            collapsed into one common prefix, and skipped rather than read.
        after: only what sorts behind this.

    Raises:
        NotFound: no such ref.
    """
    from lakecli.committed.listing import list_prefix

    with open_view(repository, ref) as view:
        yield list_prefix(
            lambda start: view.scan(prefix=prefix, start=start),
            prefix=prefix,
            delimiter=delimiter,
            after=after,
        )


def open_object(repository: Repository, entry: Entry) -> BinaryIO:
    """Open an entry's bytes for one pass of reading; the caller closes it.

    Raises:
        NotFound: the data object is gone.
    """
    store, key = locate(repository, entry)
    try:
        return store.open(key)
    except ObjectNotFound as error:
        raise NotFound(
            f"the data object is gone: {store.uri}/{key}",
            hint=f"see what else is missing: lakecli fsck {repository.uri}",
        ) from error


def presign(
    repository: Repository, ref: str, path: bytes, *, expires_in: timedelta
) -> tuple[Entry, PresignedUrl]:
    """Return an entry and a URL that reads its bytes without credentials.

    The URL answers with the entry's content type and file name, since one data object may serve
    many paths.

    Raises:
        NotFound: no such ref or path.
        Unsupported: the storage namespace has no URLs.
    """
    entry = stat(repository, ref, path)
    return entry, presign_entry(repository, entry, path, expires_in=expires_in)


def presign_entry(
    repository: Repository, entry: Entry, path: bytes, *, expires_in: timedelta
) -> PresignedUrl:
    """Return a URL that reads an entry's bytes without credentials.

    Raises:
        Unsupported: the storage namespace has no URLs.
    """
    store, key = locate(repository, entry)
    request = PresignRequest(
        method="GET",
        expires_in=expires_in,
        content_type=entry.content_type,
        file_name=os.fsdecode(path.rpartition(b"/")[2]),
    )
    return store.presign(key, request, now=repository.lake.surroundings.clock())


def remove(repository: Repository, branch: str, path: bytes) -> None:
    """Stage the deletion of one object.

    Raises:
        NotFound: no such branch or path.
    """
    from lakecli.staging.area import TOMBSTONE

    check_path(path)
    stager = Stager(repository, branch, kind="rm")
    with open_view(repository, branch) as view:
        view.entry(path)
    stager.write([(path, TOMBSTONE)])


def remove_prefix(repository: Repository, branch: str, prefix: bytes) -> int:
    """Stage the deletion of every object whose path starts with `prefix`; return how many.

    Raises:
        NotFound: no such branch.
    """
    from lakecli.staging.area import TOMBSTONE

    stager = Stager(repository, branch, kind="rm")
    removed = 0
    with open_view(repository, branch) as view:
        for batch in _batches(view, prefix):
            stager.write([(path, TOMBSTONE) for path, _ in batch])
            removed += len(batch)
    return removed


def _batches(view: View, prefix: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    batch: list[tuple[bytes, bytes]] = []
    for record in view.scan(prefix=prefix):
        batch.append(record)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def copy(
    repository: Repository, *, source_ref: str, source: bytes, branch: str, path: bytes
) -> Entry:
    """Stage at `path` the entry that a ref has at `source`.

    Raises:
        NotFound: no such ref, branch or source.
    """
    check_path(path)
    stager = Stager(repository, branch, kind="cp")
    with open_view(repository, source_ref) as view:
        entry, value = view.entry(source), view.find(source)
    assert value is not None
    stager.write([(path, value)])
    return entry


def copy_prefix(
    repository: Repository, *, source_ref: str, source: bytes, branch: str, path: bytes
) -> int:
    """Stage below `path` everything that a ref has below `source`; return how many objects.

    Both are directories: a slash is put behind them where it is missing.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: a resulting path is too long; nothing is staged then.
    """
    stager = Stager(repository, branch, kind="cp")
    return _rearrange(repository, stager, None, source_ref=source_ref, source=source, path=path)


def move(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> Entry:
    """Stage at `path` the entry that a branch has at `source`, and its deletion there.

    Raises:
        NotFound: no such branch or source.
        UsageError: both are the same place.
    """
    from lakecli.staging.area import TOMBSTONE

    check_path(path)
    if (source_branch, source) == (branch, path):
        raise UsageError("source and destination are the same path")
    stager = Stager(repository, branch, kind="mv")
    with open_view(repository, source_branch) as view:
        entry, value = view.entry(source), view.find(source)
    assert value is not None
    stager.write([(path, value)])
    stager.write([(source, TOMBSTONE)], branch=source_branch)
    return entry


def move_prefix(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> int:
    """Stage below `path` everything a branch has below `source`, and its deletion there.

    Raises:
        NotFound: no such branch, or nothing below the source.
        UsageError: one place lies inside the other, or a resulting path is too long.
    """
    inside, outside = _directory(source), _directory(path)
    if source_branch == branch and (inside.startswith(outside) or outside.startswith(inside)):
        raise UsageError("one of source and destination lies inside the other")
    stager = Stager(repository, branch, kind="mv")
    return _rearrange(
        repository, stager, source_branch, source_ref=source_branch, source=source, path=path
    )


def _directory(path: bytes) -> bytes:
    return path + b"/" if path and not path.endswith(b"/") else path


def _rearrange(
    repository: Repository,
    stager: Stager,
    remove_from: str | None,
    *,
    source_ref: str,
    source: bytes,
    path: bytes,
) -> int:
    from lakecli.staging.area import TOMBSTONE

    below, target = _directory(source), _directory(path)
    count = 0
    with open_view(repository, source_ref) as view:
        for old, _ in view.scan(prefix=below):
            check_path(target + old[len(below) :])
        for batch in _batches(view, below):
            stager.write([(target + old[len(below) :], value) for old, value in batch])
            if remove_from is not None:
                stager.write([(old, TOMBSTONE) for old, _ in batch], branch=remove_from)
            count += len(batch)
    if not count:
        raise no_such_path(repository, source_ref, below)
    return count

"""Looking at objects: stat, list, presign."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakecli.repository.core.view import open_view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from lakecli.committed.listing import ListedObject, ListedPrefix
    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl
    from lakecli.repository.core.lake import Repository


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
    repository: Repository,
    entry: Entry,
    path: bytes,
    *,
    expires_in: timedelta,
    inline: bool = False,
) -> PresignedUrl:
    """Return a URL that reads an entry's bytes without credentials.

    Browsers save what they would run, unless `inline` insists that they show it.

    Raises:
        Unsupported: the storage namespace has no URLs.
    """
    from lakecli.repository.presign import Presigner

    now = repository.lake.runtime.clock()
    signer = Presigner(repository, now=now, expires_in=expires_in, inline=inline)
    return signer.presign(path, entry)

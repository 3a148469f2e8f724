"""List objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakecli.committed.listing import ListedObject, ListedPrefix, list_prefix
from lakecli.repository.reading.view import open_view

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


@contextmanager
def ls(
    repository: Repository, ref: str, *, prefix: bytes, delimiter: bytes = b"", after: bytes = b""
) -> Iterator[Iterator[ListedObject | ListedPrefix]]:
    """Open a listing of the paths that start with `prefix`, in path order.

    Args:
        repository: the repository to list.
        ref: the ref to list; a plain branch includes its staging area.
        prefix: what the paths begin with; any bytes, not only whole components.
        delimiter: if given, paths that contain it after the prefix are collapsed into one common
            prefix, and skipped rather than read.
        after: only paths that sort after this.

    Raises:
        NotFound: no such ref.
    """
    with open_view(repository, ref) as view:
        yield list_prefix(
            lambda start: view.scan(prefix=prefix, start=start),
            prefix=prefix,
            delimiter=delimiter,
            after=after,
        )

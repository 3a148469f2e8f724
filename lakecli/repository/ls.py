"""List objects: all objects, or only those with a given name, size or time."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import translate

from lakecli.base.model import Entry
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view


@contextmanager
def ls(
    repository: Repository, ref: str, *, prefix: bytes, delimiter: bytes = b"", after: bytes = b""
) -> Iterator[Iterator[ListedObject | ListedPrefix]]:
    """Open a listing of the paths that start with `prefix`, in path order.

    Args:
        ref: the ref to list; a plain branch includes its staging area.
        prefix: the prefix of the paths, which may end within a path component.
        delimiter: if given, paths that contain it after the prefix are collapsed into one common
            prefix, and skipped rather than read.
        after: only paths that sort after this path.

    Raises:
        NotFound: no such ref.
    """
    with open_view(repository, ref) as view:
        yield view.list_paths(prefix=prefix, delimiter=delimiter, after=after)


@contextmanager
def find(
    repository: Repository,
    ref: str,
    *,
    prefix: bytes,
    names: Sequence[str] = (),
    min_size: int = 0,
    max_size: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[Iterator[tuple[bytes, Entry]]]:
    """Open the stream of the objects that meet all conditions, in path order.

    Args:
        ref: the ref to search; a plain branch includes its staging area.
        names: shell patterns; one of them must match the last component of the path. Empty for any.
        min_size: minimum size in bytes.
        max_size: maximum size in bytes; ``None`` for no limit.
        since: only objects uploaded at this time or later.
        until: only objects uploaded at this time or earlier.

    Raises:
        NotFound: no such ref.
    """
    patterns = [re.compile(translate(name)) for name in names]

    def matching(view: View) -> Iterator[tuple[bytes, Entry]]:
        for path, value in view.scan(prefix=prefix):
            if patterns:
                name = os.fsdecode(path.rpartition(b"/")[2])
                if not any(each.match(name) for each in patterns):
                    continue
            entry = decode_entry(value)
            if (
                entry.size >= min_size
                and (max_size is None or entry.size <= max_size)
                and (since is None or entry.modified_at >= since)
                and (until is None or entry.modified_at <= until)
            ):
                yield path, entry

    with open_view(repository, ref) as view:
        yield matching(view)

"""Find objects by name, size and time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import translate
from typing import NamedTuple

from lakecli.base.model import Entry
from lakecli.committed.values import decode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view


class Wanted(NamedTuple):
    """What objects have to be like; all conditions must hold.

    Attributes:
        names: patterns of which one matches the last part of the path, as a shell's.
        min_size: bytes at least.
        max_size: bytes at most; ``None``: any number.
        since: uploaded at this time or later.
        until: uploaded at this time or earlier.
    """

    names: Sequence[str] = ()
    min_size: int = 0
    max_size: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@contextmanager
def find(
    repository: Repository, ref: str, prefix: bytes, wanted: Wanted
) -> Iterator[Iterator[tuple[bytes, Entry]]]:
    """Open the stream of the objects under a prefix that are as wanted, in path order.

    Args:
        repository: the repository to search.
        ref: the ref to search; a plain branch includes its staging area.
        prefix: what the paths begin with.
        wanted: what the objects have to be like.

    Raises:
        NotFound: no such ref.
    """
    with open_view(repository, ref) as view:
        yield _matching(view, prefix, wanted)


def _matching(view: View, prefix: bytes, wanted: Wanted) -> Iterator[tuple[bytes, Entry]]:

    names = [re.compile(translate(name)) for name in wanted.names]
    for path, value in view.scan(prefix=prefix):
        if names:
            name = os.fsdecode(path.rpartition(b"/")[2])
            if not any(each.match(name) for each in names):
                continue
        entry = decode_entry(value)
        if (
            entry.size >= wanted.min_size
            and (wanted.max_size is None or entry.size <= wanted.max_size)
            and (wanted.since is None or entry.modified_at >= wanted.since)
            and (wanted.until is None or entry.modified_at <= wanted.until)
        ):
            yield path, entry

"""The names in one directory of a ref, for completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.committed.keys import common_start, prefix_end
from lakecli.committed.seeker import Seeker

if TYPE_CHECKING:
    from lakecli.repository.core.view import View

RANGES: Final = 48
"""Ranges of a tree that are opened, at most: half a millisecond each."""


def names_at(view: View, prefix: bytes, *, limit: int) -> list[bytes]:
    """Return paths that start with `prefix`, in order, each cut behind the next slash.

    Nothing is fetched from a bucket: of what this machine lacks, some names are returned, not all.
    Beyond the limit the names are a sample, and what all of them begin with, all paths do: a shell
    inserts that.

    Args:
        view: of a ref.
        prefix: any bytes, not only whole components.
        limit: the number of names to return; a few more may come.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    level = _Level(view, prefix)
    names: list[bytes] = []
    start: bytes | None = prefix
    while start is not None and (name := level.next(start)) is not None:
        names.append(name)
        if len(names) == limit:
            names += level.outliers(names)
            break
        start = _after(name)
    return names


def _after(name: bytes) -> bytes | None:
    """Return where the next name of the directory begins."""
    return prefix_end(name) if name.endswith(b"/") else name + b"\0"


class _Level:
    def __init__(self, view: View, prefix: bytes) -> None:
        self._view = view
        self._prefix = prefix
        self._seeker = Seeker(view.repository.trees, view.commit.metarange_id, ranges=RANGES)

    def next(self, start: bytes) -> bytes | None:
        """Return the first name at or after `start`, or ``None``."""
        path = self._committed(start)
        for staged, value in self._view.staged(prefix=self._prefix, start=start):
            if path is not None and path < staged:
                break
            if value:
                path = staged
                break
            if path == staged:  # deleted
                path = self._committed(staged + b"\0")
        if path is None:
            return None
        slash = path.find(b"/", len(self._prefix))
        return path if slash < 0 else path[: slash + 1]

    def outliers(self, names: list[bytes]) -> list[bytes]:
        """Return later names that shorten what all names begin with, until none does."""
        found: list[bytes] = []
        lead = common_start(names[0], names[-1])
        while len(lead) > len(self._prefix):
            start = prefix_end(lead)
            name = None if start is None else self.next(start)
            if name is None:
                break
            found.append(name)
            lead = common_start(lead, name)
        return found

    def _committed(self, start: bytes) -> bytes | None:
        path = self._seeker.seek(start)
        return path if path is not None and path.startswith(self._prefix) else None

"""Listings with prefix and delimiter, over any sorted stream of records that can start anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.committed.keys import first_key, prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS_BEFORE_SEEK: Final = 16
"""Records read past in a common prefix before the scan is started anew behind it."""


class ListedObject(NamedTuple):
    """A path and its encoded value."""

    path: bytes
    value: bytes


class ListedPrefix(NamedTuple):
    """A common prefix: what the paths below it share, up to and including the delimiter."""

    path: bytes


def list_prefix(
    scan_from: Callable[[bytes], Iterator[tuple[bytes, bytes]]],
    *,
    prefix: bytes = b"",
    delimiter: bytes = b"",
    after: bytes = b"",
) -> Iterator[ListedObject | ListedPrefix]:
    """Yield the paths that start with `prefix`, those below a delimiter collapsed into one.

    Args:
        scan_from: starts a scan, in path order, at the first path no less than its argument.
        prefix: of the paths.
        delimiter: paths that hold it behind the prefix collapse up to it; ``b""``: none do.
        after: only what sorts behind it, as in the listing without it: give the last path or
            common prefix of a page to get the next page.
    """
    skipped = _common_prefix(after, prefix, delimiter)
    # A common prefix sorts before the paths below it: one that `after` lies in was listed before.
    start = first_key(prefix, after) if skipped is None else prefix_end(skipped)
    if start is None:
        return
    records = scan_from(start)
    record = next(records, None)
    while record is not None and record[0].startswith(prefix):
        common = _common_prefix(record[0], prefix, delimiter)
        if common is None:
            yield ListedObject(*record)
            record = next(records, None)
            continue
        yield ListedPrefix(common)
        for _ in range(STEPS_BEFORE_SEEK):
            record = next(records, None)
            if record is None or not record[0].startswith(common):
                break
        else:
            start = prefix_end(common)
            if start is None:
                return
            records = scan_from(start)
            record = next(records, None)


def _common_prefix(path: bytes, prefix: bytes, delimiter: bytes) -> bytes | None:
    """Return the common prefix that a path collapses into, or ``None``."""
    if not delimiter or not path.startswith(prefix):
        return None
    at = path.find(delimiter, len(prefix))
    return path[: at + len(delimiter)] if at >= 0 else None

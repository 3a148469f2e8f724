"""Listings with prefix and delimiter, over any sorted records that can be scanned from a path.

Intervals of keys: the keys under a prefix, and the start of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import AnyStr, Final, NamedTuple


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than every key that starts with `prefix`.

    ``None`` for an empty prefix, or one of ``0xff`` bytes only: no key is greater.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def first_key(prefix: bytes, after: bytes) -> bytes:
    """Return the smallest key that may start with `prefix` and be greater than `after`."""
    return max(prefix, after + b"\0") if after else prefix


def common_start(left: AnyStr, right: AnyStr) -> AnyStr:
    """Return the longest text that both begin with."""
    for at, (here, there) in enumerate(zip(left, right, strict=False)):
        if here != there:
            return left[:at]
    return min(left, right)


STEPS_BEFORE_SEEK: Final = 16
"""Records skipped one by one inside a common prefix before a new scan starts behind it."""


class ListedObject(NamedTuple):
    """A path and its encoded value."""

    path: bytes
    value: bytes


class ListedPrefix(NamedTuple):
    """A common prefix of several paths, up to and including the delimiter."""

    path: bytes


def list_prefix(
    scan_from: Callable[[bytes], Iterator[tuple[bytes, bytes]]],
    *,
    prefix: bytes = b"",
    delimiter: bytes = b"",
    after: bytes = b"",
) -> Iterator[ListedObject | ListedPrefix]:
    """Yield the paths that start with `prefix`; paths that share a delimiter collapse into one.

    Args:
        scan_from: starts a scan, in path order, at the first path no less than its argument.
        prefix: of the paths.
        delimiter: a path that contains it after the prefix is reduced to its part up to it;
            ``b""``: no path is.
        after: only results that sort after it; the last result of a page gives the next page.
    """
    skipped = _common_prefix(after, prefix, delimiter)
    # A common prefix sorts before the paths below it, so one that contains `after` was listed.
    start = first_key(prefix, after) if skipped is None else prefix_end(skipped)
    if start is None:
        return
    records = scan_from(start)
    if not delimiter:
        for each in records:
            if not each[0].startswith(prefix):
                return
            yield tuple.__new__(ListedObject, each)  # as `ListedObject(…)`, in half of the time
        return
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
    """Return the common prefix that a path is reduced to, or ``None``."""
    if not delimiter or not path.startswith(prefix):
        return None
    at = path.find(delimiter, len(prefix))
    return path[: at + len(delimiter)] if at >= 0 else None

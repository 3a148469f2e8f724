"""A prefix of a bucket as a source: its keys are divided by probing, and listed in parts.

A store lists keys in order, a thousand per request, and each request continues after the last key
of the one before. Listing from several positions at a time needs keys in the middle. A few dozen
requests find them, each for the first key after all that share a prefix with a known key, with
shorter and shorter prefixes.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.objectstore.base import key_bytes
from lakecli.objectstore.versions import versions_of
from lakecli.pipeline.imports.part import Part
from lakecli.pipeline.imports.rows import ROWS_AT_ONCE, Failures, Rows
from lakecli.pipeline.store_location import open_by_uri
from lakecli.repository.core.pins import pinned_bytes, unpinned_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.objectstore.base import ObjectInfo, ObjectStore
    from lakecli.pipeline.imports.part import Task

FIRST_PAGES: Final = 8_000
"""Keys up to which a listing is not divided."""

PROBES: Final = 256
"""Requests that skip through a listing to find keys in it, at most."""

FINER: Final = 4
"""How many times shorter jumps are tried."""

STEPS: Final = 16
"""Number of jumps after which the next ones are longer."""

RECENT: Final = 2_000
"""Keys that a jump should skip, at least."""

_LAST: Final = "\U0010ffff"
"""Appended to a prefix, it sorts after all real keys with that prefix."""


class ListingSource(NamedTuple):
    """The keys of a store from `low` up to `high`, relative to its URI.

    Attributes:
        high: the first key after these; ``""``: there is none.
    """

    uri: str
    low: str
    high: str

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """List the keys."""
        del failures
        start = key_bytes(self.uri.rstrip("/") + "/")
        for listed in self._pages(task):
            page = [info for info, _ in listed]
            keys = [key_bytes(info.key) for info in page]
            if task.pins:
                addresses = [
                    pinned_bytes(start + key, version)
                    for key, (_, version) in zip(keys, listed, strict=True)
                ]
            else:
                addresses = [unpinned_bytes(start + key) for key in keys]
            yield Rows(
                keys,
                addresses,
                [info.size for info in page],
                [_checksum(info) for info in page],
                [int(info.modified_at.timestamp()) for info in page],
            )

    def identity(self) -> list[Any]:
        """Return the interval of keys."""
        return ["listing", self.uri, self.low, self.high]

    def _pages(self, task: Task) -> Iterator[list[tuple[ObjectInfo, str]]]:
        store = open_by_uri(self.uri, account=task.location.account)
        found = list_between(store, self.low, self.high, pins=task.pins)
        # The prefix itself may be an object: consoles create such objects for folders.
        named = (item for item in found if item[0].key)
        while page := list(islice(named, ROWS_AT_ONCE)):
            yield page


def list_between(
    store: ObjectStore, low: str, high: str, *, pins: bool = False
) -> Iterator[tuple[ObjectInfo, str]]:
    """List the keys of a store in an interval.

    Args:
        store: to list.
        low: the first key; ``""``: there is no limit.
        high: the first key after the interval; ``""``: there is no limit.
        pins: request the IDs of versions; otherwise each is ``""``.
    """
    first, end = key_bytes(low), key_bytes(high)
    # Stores list the keys after a given one, so this is a key right before `low`.
    last = low[-1:]
    before = low[:-1] + (chr(ord(last) - 1) + _LAST if "\0" < last <= "\x7f" else "")
    if pins:
        listed = versions_of(store).list_versions(after=before)
    else:
        listed = ((info, "") for info in store.list(after=before))
    for info, version_id in listed:
        key = key_bytes(info.key)
        if end and key >= end:
            return
        if key >= first:
            yield info, version_id


def _checksum(info: ObjectInfo) -> bytes:
    return (info.etag or str(info.version)).strip('"').encode("utf-8", "surrogateescape")


def split(store: ObjectStore, wanted: int) -> list[str]:
    """Return existing keys that divide a listing into about `wanted` pieces, in order.

    A listing of a few thousand keys is not divided.
    """
    if wanted < 2:  # noqa: PLR2004
        return []
    first = [info.key for info in islice(store.list(), FIRST_PAGES + 1)]
    if len(first) <= FIRST_PAGES:
        return []
    pairs = enumerate(zip(first[-RECENT], first[-1], strict=False))
    depth = 1 + next((at for at, (one, other) in pairs if one != other), 0)
    # First with longer and longer jumps, to learn which length crosses the whole listing in a few
    # steps; then again from the beginning, with slightly shorter jumps.
    known = [first[-1]]
    while jump := _jump(store, known[-1], depth):
        known.append(jump)
        if len(known) % STEPS == 0 and depth > 1:
            depth -= 1
        if len(known) > PROBES:
            break
    even: list[str] = []
    for finer in range(depth + 1, depth + 1 + FINER):
        if len(even) >= wanted:
            break
        even = [first[0]]
        while len(even) < PROBES and (jump := _jump(store, even[-1], finer)):
            even.append(jump)
    even += [key for key in known if not even or key_bytes(key) > key_bytes(even[-1])]
    step = max(1, -(-len(even) // wanted))
    return even[step::step]


def _jump(store: ObjectStore, key: str, depth: int) -> str | None:
    """Return the first key after all that share the first `depth` characters of a key."""
    found = next(store.list(after=key[:depth] + _LAST), None)
    return None if found is None else found.key


def plan_listing(
    store: ObjectStore, prefix: bytes, high: bytes | None, *, wanted: int
) -> Iterator[Part]:
    """Yield the parts of a bucket's prefix, in order.

    Args:
        store: the store of the prefix.
        prefix: prefix of the objects' paths on the branch.
        high: the first path after those below the prefix; ``None``: there is none.
        wanted: approximate number of parts.
    """
    bounds = ["", *split(store, wanted), ""]
    for low, following in pairwise(bounds):
        begins = prefix + key_bytes(low)
        ends = prefix + key_bytes(following) if following else high
        yield Part(begins, ends, ListingSource(store.uri, low, following), is_live=True)

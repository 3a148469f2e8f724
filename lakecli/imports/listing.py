"""A prefix of a bucket as a source: its keys are divided (see `listing_split`), and listed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.model import Account
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import open_by_uri
from lakecli.imports.listing_split import first_pieces, key_before, refine
from lakecli.imports.part import Part, Task
from lakecli.imports.rows import ROWS_AT_ONCE, Failures, Rows
from lakecli.repository.reading.addresses import pinned_bytes, unpinned_bytes
from lakecli.stores.base import ObjectInfo, key_bytes
from lakecli.stores.versions import versions_of

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

LISTING_PARTS: Final = 64
"""Parts into which this process divides a long listing of a bucket."""


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
    before = key_before(low)
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


def plan_listing(
    store: ObjectStore,
    prefix: bytes,
    high: bytes | None,
    *,
    runner: Runner,
    account: Account,
) -> Iterator[Part]:
    """Yield the parts of a bucket's prefix, in order.

    On Spark, executors find out where large parts can be divided again.

    Args:
        store: the store of the prefix.
        prefix: prefix of the objects' paths on the branch.
        high: the first path after those below the prefix; ``None``: there is none.
        runner: lists in the parts.
        account: how the store is accessed.
    """
    pieces = first_pieces(store, LISTING_PARTS)
    if runner.name != "local":
        pieces = refine(runner, pieces, uri=store.uri, account=account)
    for piece in pieces:
        begins = prefix + key_bytes(piece.low)
        ends = prefix + key_bytes(piece.high) if piece.high else high
        yield Part(begins, ends, ListingSource(store.uri, piece.low, piece.high), is_live=True)

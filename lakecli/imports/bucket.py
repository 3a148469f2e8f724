"""A prefix of a bucket as a source: its keys, which can be anything, are divided by probing.

A store lists keys in order, a thousand per request, and each request continues after the last key
of the one before. Listing from several positions at a time needs keys in the middle. A few dozen
requests find them, each for the first key after all that share a prefix with a known key, with
longer and longer prefixes. On Spark, executors divide the pieces again until all are small or
there are many, and small neighbours become one piece again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from lakecli.base.model import Account
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import open_by_uri
from lakecli.imports.task import ROWS_AT_ONCE, EmptySource, Failures, ImportPart, Rows, Task
from lakecli.repository.reading.addresses import pinned_bytes, unpinned_bytes
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ObjectInfo, ObjectStore, key_bytes

FIRST_PAGES: Final = 8_000
"""Keys up to which a listing is not divided."""

PROBES: Final = 256
"""Requests that skip through a listing to find keys in it, at most."""

MOST_CHARACTERS: Final = 1_024
"""Characters of a key, at most."""

ENOUGH: Final = 4_096
"""Large pieces from which no more are divided: a quarter of a million keys each at a billion."""

PER_ROUND: Final = 16
"""Pieces into which a large one is divided in one round."""

ROUNDS: Final = 8
KEYS_PER_PIECE: Final = 131_072
"""Keys of small neighbours that become one piece."""

_LAST: Final = "\U0010ffff"
"""Appended to a prefix, it sorts after all real keys with that prefix."""


class KeyRange(NamedTuple):
    """The keys of a listing from `low` up to `high`.

    Attributes:
        high: the first key after these; ``""``: there is none.
        keys: how many there are; ``None``: more than `FIRST_PAGES`, or unknown.
    """

    low: str
    high: str
    keys: int | None = None


def key_before(low: str) -> str:
    """Return a key right before `low`, as stores list the keys after a given one."""
    last = low[-1:]
    return low[:-1] + (chr(ord(last) - 1) + _LAST if "\0" < last <= "\x7f" else "")


def split(
    store: ObjectStore, wanted: int, *, low: str = "", high: str = "", probes: int = PROBES
) -> list[str] | int:
    """Return existing keys that divide a listing into about `wanted` pieces, in order.

    Args:
        store: to list.
        wanted: number of pieces.
        low: the first key; ``""``: there is no limit.
        high: the first key after the listing; ``""``: there is no limit.
        probes: requests that skip through the listing, at most.

    Returns:
        The number of keys, if they are so few that the listing is not divided.
    """
    first = _first_keys(store, low, high, FIRST_PAGES + 1)
    if len(first) <= FIRST_PAGES:
        return len(first)
    if wanted < 2:  # noqa: PLR2004
        return []
    # All keys share what the first one has in common with `high`.
    pairs = enumerate(zip(first[0], high, strict=False))
    depth = 1 + next((at for at, (one, other) in pairs if one != other), 0)
    found: list[str] = []
    while len(found) < wanted and depth <= MOST_CHARACTERS:
        deeper = _groups(store, first[0], depth, high, most=probes)
        if len(deeper) > probes and len(found) > 1:
            break
        found = deeper
        if len(deeper) > probes:
            break
        depth += 1
    step = max(1, -(-len(found) // wanted))
    return found[step - 1 :: step]


def _groups(store: ObjectStore, key: str, depth: int, high: str, *, most: int) -> list[str]:
    """Return the first key of each group but the first, if keys with one prefix are a group.

    Args:
        store: to list.
        key: the first key of all.
        depth: number of characters of the prefixes.
        high: the first key after all groups; ``""``: there is no limit.
        most: number of keys after which no more are searched.
    """
    found: list[str] = []
    jump = _jump(store, key, depth, high)
    while jump is not None:
        found.append(jump)
        if len(found) > most:
            break
        jump = _jump(store, jump, depth, high)
    return found


def _first_keys(store: ObjectStore, low: str, high: str, count: int) -> list[str]:
    first, end = key_bytes(low), key_bytes(high)
    found: list[str] = []
    for info in store.list(after=key_before(low)):
        key = key_bytes(info.key)
        if (end and key >= end) or len(found) == count:
            break
        if key >= first:
            found.append(info.key)
    return found


def _jump(store: ObjectStore, key: str, depth: int, high: str) -> str | None:
    """Return the first key after all that share the first `depth` characters of a key."""
    found = next(store.list(after=key[:depth] + _LAST), None)
    if found is None or (high and key_bytes(found.key) >= key_bytes(high)):
        return None
    return found.key


def divide(piece: KeyRange, *, wanted: int, uri: str, account: Account) -> list[KeyRange]:
    """Divide a piece on an executor, as `divided`."""
    return divided(open_by_uri(uri, account=account), piece, wanted)


def divided(store: ObjectStore, piece: KeyRange, wanted: int) -> list[KeyRange]:
    """Return about `wanted` pieces of a piece, or itself with the number of its keys if few."""
    found = split(store, wanted, low=piece.low, high=piece.high, probes=4 * wanted)
    if isinstance(found, int):
        return [piece._replace(keys=found)]
    return [KeyRange(low, high) for low, high in pairwise([piece.low, *found, piece.high])]


def refine(
    runner: Runner, pieces: Sequence[KeyRange], *, uri: str, account: Account
) -> list[KeyRange]:
    """Have a runner divide pieces, in rounds, until all are small or `ENOUGH` are large.

    Args:
        runner: lists in the pieces.
        pieces: in order.
        uri: of the store.
        account: how it is accessed.
    """
    found = list(pieces)
    for _ in range(ROUNDS):
        large = [piece for piece in found if piece.keys is None]
        wanted = min(PER_ROUND, ENOUGH // max(1, len(large)))
        if not large or wanted < 2:  # noqa: PLR2004
            break
        task = partial(divide, wanted=wanted, uri=uri, account=account)
        parts = dict(runner.run(task, large))
        if all(parts[piece] == [piece] for piece in large):
            break  # its keys differ in too many places to be divided by prefixes
        found = [part for piece in found for part in parts.get(piece, [piece])]
    return merged(found)


def merged(pieces: Sequence[KeyRange]) -> list[KeyRange]:
    """Join neighbours that have few keys together."""
    found: list[KeyRange] = []
    for piece in pieces:
        last = found[-1] if found else None
        if (
            last is not None
            and last.keys is not None
            and piece.keys is not None
            and last.keys + piece.keys <= KEYS_PER_PIECE
        ):
            found[-1] = KeyRange(last.low, piece.high, last.keys + piece.keys)
        else:
            found.append(piece)
    return found


def first_pieces(store: ObjectStore, wanted: int) -> list[KeyRange]:
    """Return the pieces of a whole listing that this process finds."""
    found = split(store, wanted)
    if isinstance(found, int):
        return [KeyRange("", "", found)]
    return [KeyRange(low, high) for low, high in pairwise(["", *found, ""])]


LISTING_PARTS: Final = 64
"""Parts into which this process divides a long listing of a bucket."""


class BucketSource(NamedTuple):
    """All objects below a prefix.

    Attributes:
        uri: normalised URI.
        may_be_empty: whether to accept a prefix without objects.
    """

    uri: str
    may_be_empty: bool = False

    def estimate(self) -> int | None:
        """Return ``None``: the number is unknown before listing."""
        return None

    def recount(self, task: Task) -> int | None:
        """List again, and return how many objects there are."""
        store = open_by_uri(self.uri, account=task.location.account)
        return sum(bool(info.key) for info, _ in list_between(store, "", "", pins=task.pins))

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        """Yield the parts; see `ImportSource`.

        Raises:
            NotFound: there is no object. A misspelled prefix looks like an empty one, which would
                remove everything from the branch.
        """
        store = open_by_uri(self.uri, account=task.location.account)
        if not self.may_be_empty and next(store.list(), None) is None:
            raise EmptySource(
                f"no object at {self.uri}/",
                hint="name a directory, a bucket prefix or a manifest, or allow an empty source: "
                "--allow-empty",
            )
        return plan_listing(store, task.prefix, high, runner=runner, account=task.location.account)


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
) -> Iterator[ImportPart]:
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
        source = ListingSource(store.uri, piece.low, piece.high)
        yield ImportPart(begins, ends, source, is_live=True)

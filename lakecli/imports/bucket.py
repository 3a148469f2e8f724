"""A prefix of a bucket as a source; its listing is divided into parts by probing for keys.

A store lists keys in order, a thousand per request, and each request continues after the last key
of the previous one. To list from several positions at the same time, lakecli needs keys in the
middle of the listing. It finds them with a few dozen requests. Each request asks for the first key
after all keys that share a prefix with a known key; the prefixes get longer and longer. On Spark,
executors divide the pieces further until all pieces are small, or until there are many pieces. Then
small neighbouring pieces are joined again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from lakecli.base.model import Account
from lakecli.engine.runner import Runner, open_by_uri
from lakecli.imports.model import ROWS_AT_ONCE, EmptySource, Failures, ImportPart, Rows, Task
from lakecli.repository.reading.addresses import pinned_bytes, unpinned_bytes
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ObjectInfo, ObjectStore, key_bytes
from lakecli.stores.streams import batches, groups_of

FIRST_PAGES: Final = 8_000
"""A listing with at most this many keys is not divided."""

PROBES: Final = 4
"""Maximum number of requests for finding keys in a listing, for each wanted piece."""

MOST_CHARACTERS: Final = 1_024
"""Maximum number of characters of a key."""

ENOUGH: Final = 4_096
"""If there are this many large pieces, none is divided further. For a billion keys, each such piece
has about 250,000 keys."""

PER_ROUND: Final = 16
"""Number of pieces into which a large piece is divided in one round."""

ROUNDS: Final = 8
"""Maximum number of rounds in which large pieces are divided."""

KEYS_PER_PIECE: Final = 131_072
"""Maximum number of keys of small neighbouring pieces that are joined into one piece."""

_LAST: Final = "\U0010ffff"
"""A prefix with this character appended sorts after all real keys that begin with the prefix."""


class KeyRange(NamedTuple):
    """The keys of a listing from `low` up to `high`.

    Attributes:
        high: the first key after the range; ``""``: no limit.
        keys: the number of keys; ``None``: more than `FIRST_PAGES`, or unknown.
    """

    low: str
    high: str
    keys: int | None = None


def divide(store: ObjectStore, piece: KeyRange, wanted: int) -> list[KeyRange]:
    """Divide a piece into about `wanted` pieces, in order; a piece with few keys is not divided.

    The pieces begin with existing keys.
    """
    listed = list_between(store, piece.low, piece.high)
    first = [info.key for info, _ in islice(listed, FIRST_PAGES + 1)]
    if len(first) <= FIRST_PAGES:
        return [piece._replace(keys=len(first))]
    # All keys share the prefix that the first key and `high` have in common.
    pairs = enumerate(zip(first[0], piece.high, strict=False))
    depth = 1 + next((at for at, (one, other) in pairs if one != other), 0)
    probes = PROBES * wanted
    found: list[str] = []
    while len(found) < wanted and depth <= MOST_CHARACTERS:
        deeper = list(islice(_groups(store, first[0], depth, piece.high), probes + 1))
        if len(deeper) <= probes or len(found) <= 1:
            found = deeper
        if len(deeper) > probes:
            break
        depth += 1
    step = max(1, -(-len(found) // wanted))
    bounds = [piece.low, *found[step - 1 :: step], piece.high]
    return [KeyRange(low, high) for low, high in pairwise(bounds)]


def _groups(store: ObjectStore, key: str, depth: int, high: str) -> Iterator[str]:
    """Group keys by a common prefix; yield the first key of each group except the first group.

    Args:
        depth: length of the common prefixes, in characters.
        high: the first key after all groups; ``""``: there is no limit.
    """
    while (info := next(store.list(after=key[:depth] + _LAST), None)) is not None:
        key = info.key
        if high and key_bytes(key) >= key_bytes(high):
            return
        yield key


def refine(
    runner: Runner, pieces: Sequence[KeyRange], *, uri: str, account: Account
) -> list[KeyRange]:
    """Divide pieces on a runner, in rounds, until all are small or about `ENOUGH` pieces are large.

    Args:
        pieces: the pieces, in order.
    """
    found = list(pieces)
    for _ in range(ROUNDS):
        large = [piece for piece in found if piece.keys is None]
        wanted = min(PER_ROUND, ENOUGH // max(1, len(large)))
        if not large or wanted < 2:  # noqa: PLR2004
            break
        task = partial(_divide_on_executor, wanted=wanted, uri=uri, account=account)
        parts = dict(runner.run(task, large))
        if all(parts[piece] == [piece] for piece in large):
            break  # its keys differ in too many places to be divided by prefixes
        found = [part for piece in found for part in parts.get(piece, [piece])]
    return merged(found)


def _divide_on_executor(
    piece: KeyRange, *, wanted: int, uri: str, account: Account
) -> list[KeyRange]:
    return divide(open_by_uri(uri, account=account), piece, wanted)


def merged(pieces: Sequence[KeyRange]) -> list[KeyRange]:
    """Join neighbouring pieces that together have few keys."""

    def size_of(piece: KeyRange) -> int:
        return KEYS_PER_PIECE + 1 if piece.keys is None else piece.keys  # a large piece stays alone

    return [
        KeyRange(group[0].low, group[-1].high, sum(map(size_of, group))) if group[1:] else group[0]
        for group in groups_of(pieces, size_of, most=KEYS_PER_PIECE)
    ]


LISTING_PARTS: Final = 64
"""Number of parts into which this process divides a long listing of a bucket."""


class BucketSource(NamedTuple):
    """All objects below a prefix.

    Attributes:
        uri: the normalised URI.
        may_be_empty: whether to accept a prefix without objects.
    """

    uri: str
    may_be_empty: bool = False

    def recount(self, task: Task) -> int:
        """List the bucket again, and return the number of objects below the prefix."""
        store = open_by_uri(self.uri, account=task.location.account)
        return sum(bool(info.key) for info, _ in list_between(store, "", "", pins=task.pins))

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        """Yield the parts that cover all keys from the prefix up to `high`, in order.

        On Spark, executors divide large parts further.

        Raises:
            NotFound: no object has the prefix. A misspelled prefix looks like an empty one, and
                importing an empty prefix would remove everything from the branch.
        """
        account = task.location.account
        store = open_by_uri(self.uri, account=account)
        if not self.may_be_empty and next(store.list(), None) is None:
            raise EmptySource(
                f"no object at {self.uri}/",
                hint="name a directory, a bucket prefix or a manifest, or allow an empty source: "
                "`may_be_empty=True`",
            )
        pieces = divide(store, KeyRange("", ""), LISTING_PARTS)
        if runner.name != "local":
            pieces = refine(runner, pieces, uri=store.uri, account=account)
        for piece in pieces:
            begins = task.prefix + key_bytes(piece.low)
            ends = task.prefix + key_bytes(piece.high) if piece.high else high
            source = ListingSource(store.uri, piece.low, piece.high)
            yield ImportPart(begins, ends, source, is_live=True)


class ListingSource(NamedTuple):
    """The keys of a store from `low` up to `high`, relative to the store's URI.

    Attributes:
        high: the first key after the range; ``""``: no limit.
    """

    uri: str
    low: str
    high: str

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """List the keys; yield their objects as rows."""
        del failures
        start = key_bytes(self.uri.rstrip("/") + "/")
        store = open_by_uri(self.uri, account=task.location.account)
        found = list_between(store, self.low, self.high, pins=task.pins)
        # The prefix itself may be an object: consoles create such objects for folders.
        named = (item for item in found if item[0].key)
        for listed in batches(named, ROWS_AT_ONCE):
            page, versions = zip(*listed, strict=True)
            keys = [key_bytes(info.key) for info in page]
            if task.pins:
                addresses = list(map(pinned_bytes, (start + key for key in keys), versions))
            else:
                addresses = [unpinned_bytes(start + key) for key in keys]
            sizes, checksums = [info.size for info in page], [_checksum(info) for info in page]
            seconds = [int(info.modified_at.timestamp()) for info in page]
            archived = sum(bool(info.archive) for info in page)
            yield Rows(keys, addresses, sizes, checksums, seconds, archived=archived)

    def identity(self) -> list[Any]:
        """Return the interval of keys, which identifies the source."""
        return ["listing", self.uri, self.low, self.high]


def list_between(
    store: ObjectStore, low: str, high: str, *, pins: bool = False
) -> Iterator[tuple[ObjectInfo, str]]:
    """List the keys of a store in an interval; yield each object with its version ID.

    Args:
        low: the first key; ``""``: there is no limit.
        high: the first key after the interval; ``""``: there is no limit.
        pins: request the version IDs; otherwise each version ID is ``""``.
    """
    first, end = key_bytes(low), key_bytes(high)
    # A listing starts after a given key, so `before` must sort right before `low`.
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

"""The refs dumps that garbage collection keeps, and until when.

::

    _lakecli/gc/dumps/<id>   of a dump that `refs_dump` wrote: {"format": 1,
                             "commits_meta_range_id": …, and those of tags and branches}
                             of one that lakeFS wrote and that came in: "system": "lakefs", too

A dump counts as a root of garbage collection for `KEPT_FOR` after the date of its record, by the
bucket's clock: its own tables stay, and everything that its commits refer to. A record never
changes: the same dump, written again, has another one. So a record that is expired stays expired,
and a sweep may delete it while a dump is being written. The newest record stays, since its date
counts: what lakeFS wrote after the last dump is in no dump that lakecli knows.

The manifest that a lakeFS server left in the namespace is a root as long as it lies there.

The end of this module is about a namespace that was taken over from lakeFS: since when it is
lakecli's, and whether somebody has confirmed that lakeFS has stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from lakecli.base.ids import MetarangeId
from lakecli.base.layout import GC, LEGACY_LAKEFS_MARKER, REPOSITORY, sstable_key
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, boolean, optional, text_that, whole
from lakecli.errors import IntegrityError, UsageError
from lakecli.repository.handle.namespace import origin_of
from lakecli.repository.lakefs.dump import (
    MANIFEST_KEY,
    MAX_SIZE,
    RefsManifest,
    manifest_fields,
    parse_manifest,
    read_lists,
)
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    TooLarge,
    exists,
    get_bounded,
)

DUMPS: Final = GC + "dumps/"
KEPT_FOR: Final = timedelta(days=30)

_FORMAT: Final = 1
_LAKEFS: Final = "lakefs"
_RECORD: Final = Record(
    {
        "format": whole(1, _FORMAT),
        "system": optional(text_that(_LAKEFS.__eq__, "the name of a system"), ""),
    }
)


class KeptDump(NamedTuple):
    """A dump that is kept.

    Attributes:
        key: of the object whose date counts.
        since: that date, by the bucket's clock.
        by_lakefs: whether lakeFS wrote it, at some time before that date.
    """

    key: str
    manifest: RefsManifest
    since: datetime
    by_lakefs: bool = False

    @property
    def lists(self) -> tuple[MetarangeId, ...]:
        """The lists of the dump, whatever else its manifest says."""
        return self.manifest.commits, self.manifest.branches, self.manifest.tags

    @property
    def until(self) -> datetime:
        """When garbage collection may delete it."""
        return self.since + KEPT_FOR


class BadRecord(IntegrityError):
    """The record of a kept dump cannot be read, so it is unknown what the dump refers to."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"not the record of a refs dump: {key}: {why}",
            hint="delete that object if nobody is going to restore the dump",
        )


class LostDump(IntegrityError):
    """A dump that is kept cannot be read, so it is unknown what it refers to."""

    def __init__(self, dump: KeptDump, error: IntegrityError) -> None:
        until = f"until {dump.until:%Y-%m-%dT%H:%M:%SZ} "
        is_left = dump.key == MANIFEST_KEY
        super().__init__(
            f"the refs dump of {dump.since:%Y-%m-%d} is kept {'' if is_left else until}and cannot "
            f"be read: {error.message}",
            hint=f"delete {dump.key} if nobody is going to restore the dump"
            if is_left or dump.key.startswith(DUMPS)
            else f"collect garbage after {dump.until:%Y-%m-%dT%H:%M:%SZ}",
        )


def keep_dump(
    store: ObjectStore, manifest: RefsManifest, record_id: str, *, by_lakefs: bool = False
) -> KeptDump:
    """Record a dump whose tables are in the namespace and claimed.

    Args:
        store: the namespace.
        manifest: of the dump.
        record_id: a new random ID.
        by_lakefs: whether lakeFS wrote it, and it came in; otherwise it goes out.
    """
    key = DUMPS + record_id
    system = {"system": _LAKEFS} if by_lakefs else {}
    fields = {"format": _FORMAT, **system, **manifest_fields(manifest)}
    store.put(key, json.dumps(fields, indent=2).encode("ascii") + b"\n", ABSENT)
    return KeptDump(key, manifest, store.head(key).modified_at, by_lakefs)


def iter_kept(store: ObjectStore, now: datetime) -> Iterator[KeptDump]:
    """Yield the dumps that are kept at a time.

    Raises:
        BadRecord: the record of one of them is not valid.
    """
    yield from _read(store, (info for info in store.list(DUMPS) if not _is_expired(info, now)))


def _is_expired(info: ObjectInfo, now: datetime) -> bool:
    return info.modified_at + KEPT_FOR <= now


def _read(store: ObjectStore, infos: Iterable[ObjectInfo]) -> Iterator[KeptDump]:
    for info in infos:
        try:
            found = parse_json_object(get_bounded(store, info.key, MAX_SIZE), max_size=MAX_SIZE)
            by_lakefs = _RECORD.read(found)["system"] == _LAKEFS
            manifest = read_lists(found)
        except (TooLarge, Unparsable, Invalid) as error:
            raise BadRecord(info.key, str(error)) from None
        except ObjectNotFound:
            continue  # deleted since the listing
        yield KeptDump(info.key, manifest, info.modified_at, by_lakefs)


def iter_expired_records(store: ObjectStore, now: datetime) -> Iterator[ObjectInfo]:
    """Yield the records of dumps that are no longer kept, except the newest record."""
    found = sorted(store.list(DUMPS), key=attrgetter("modified_at"))
    yield from (info for info in found[:-1] if _is_expired(info, now))


def find_left(store: ObjectStore) -> KeptDump | None:
    """Return the dump of which a lakeFS server left the manifest in a namespace, if it did.

    Raises:
        BadRecord: the object there is no manifest.
    """
    try:
        manifest = parse_manifest(get_bounded(store, MANIFEST_KEY, MAX_SIZE))
        since = store.head(MANIFEST_KEY).modified_at
        return KeptDump(MANIFEST_KEY, manifest, since, by_lakefs=True)
    except ObjectNotFound:
        return None
    except (TooLarge, UsageError) as error:
        raise BadRecord(MANIFEST_KEY, error.message) from None


def last_dump_at(store: ObjectStore, first: KeptDump) -> datetime:
    """Return when the last dump was made that went out of a namespace or came in.

    Args:
        store: the namespace.
        first: the dump that the repository was made of.

    Raises:
        BadRecord: the record of a dump is not valid.
    """
    left = find_left(store)
    return max(_made_at(store, each, left) for each in (first, *_read(store, store.list(DUMPS))))


def _made_at(store: ObjectStore, dump: KeptDump, left: KeptDump | None) -> datetime:
    """Return when a dump was made.

    lakeFS went on between making a dump and its coming in, so the dates of what lakeFS wrote count:
    the list of commits, and the manifest. If the list was collected, which happens only after a
    collection found nothing later, the date of the record counts.
    """
    if not dump.by_lakefs:
        return dump.since
    dates = [left.since] if left is not None and left.lists == dump.lists else []
    try:
        dates.append(store.head(sstable_key(dump.manifest.commits)).modified_at)
    except ObjectNotFound:
        dates.append(dump.since)
    return max(dates)


STOPPED: Final = GC + "lakefs-stopped"

CLOCKS: Final = timedelta(hours=1)
"""How far the clock of a lakeFS server may be from that of the bucket."""

LAKEFS_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
"""The digits of lakeFS's IDs, 5 bits each: 32 bits of time, then what makes it unique."""

_MAX_SIZE: Final = 4 << 10
_CONFIRMATION: Final = Record({"format": whole(1, _FORMAT), "stopped": boolean})

_TIME_DIGITS: Final = 7
_EXTRA_BITS: Final = 3


class TakenOver(NamedTuple):
    """A namespace that was taken over from lakeFS.

    Attributes:
        dump: the refs dump that the repository was made of; its date is that of the take-over.
        stopped_at: when somebody last confirmed that lakeFS has stopped; ``None``: nobody did.
        old_layout: whether there may be objects outside ``data/``, as old servers wrote them.
    """

    dump: KeptDump
    stopped_at: datetime | None
    old_layout: bool


def find_take_over(store: ObjectStore) -> TakenOver | None:
    """Return how a namespace was taken over; ``None`` if it was not.

    Raises:
        IntegrityError: its ``repository.json`` is not valid.
    """
    origin = origin_of(store)
    if origin is None:
        return None
    try:
        manifest = read_lists(origin)
    except Invalid as error:
        raise IntegrityError(
            f"{store.uri}/{REPOSITORY} does not say which refs dump it was made of: {error}",
            hint="restore it from a backup",
        ) from None
    return TakenOver(
        KeptDump(REPOSITORY, manifest, store.head(REPOSITORY).modified_at, by_lakefs=True),
        _stopped_at(store),
        exists(store, LEGACY_LAKEFS_MARKER),
    )


def all_kept(store: ObjectStore, taken: TakenOver | None, now: datetime) -> list[KeptDump]:
    """Return the dumps that are kept at a time, with the one that the repository was made of.

    Raises:
        BadRecord: the record of one of them is not valid.
    """
    kept = list(iter_kept(store, now))
    if taken is not None and taken.dump.until > now:
        kept.append(taken.dump)
    return kept


def _stopped_at(store: ObjectStore) -> datetime | None:
    try:
        found = parse_json_object(get_bounded(store, STOPPED, _MAX_SIZE), max_size=_MAX_SIZE)
        has_stopped = _CONFIRMATION.read(found)["stopped"]
        return store.head(STOPPED).modified_at if has_stopped else None
    except ObjectNotFound:
        return None
    except (Unparsable, Invalid, TooLarge) as error:
        raise IntegrityError(
            f"{store.uri}/{STOPPED} does not say whether lakeFS has stopped: {error}",
            hint="delete that object, and confirm it again: lakecli gc run --lakefs-stopped",
        ) from None


def confirm_stopped(store: ObjectStore, *, stopped: bool = True) -> None:
    """Record whether lakeFS has stopped working in a namespace.

    Args:
        store: the namespace.
        stopped: ``False`` withdraws a confirmation, as lakeFS may work there again.
    """
    body = json.dumps({"format": _FORMAT, "stopped": stopped}).encode("ascii") + b"\n"
    store.put(STOPPED, body, ANY)


def written_at(lakefs_object: str) -> datetime | None:
    """Return when lakeFS named an object, by its server's clock; ``None`` if the name has no time.

    Args:
        lakefs_object: as `layout.lakefs_object` returns it.
    """
    name = lakefs_object.rpartition("/")[2]
    if len(name) > len("0" * 20):
        return None  # a UUID
    seconds = int(name[:_TIME_DIGITS], 32) >> _EXTRA_BITS
    return datetime.fromtimestamp(seconds, UTC)

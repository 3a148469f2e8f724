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
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.ids import MetarangeId
from lakecli.base.layout import GC, sstable_key
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, optional, text_that, whole
from lakecli.errors import IntegrityError, UsageError
from lakecli.repository.lakefs.manifest import (
    LISTS,
    MANIFEST_KEY,
    MAX_SIZE,
    RefsManifest,
    manifest_fields,
    manifest_of,
    parse_manifest,
)
from lakecli.stores.contract import ABSENT, ObjectInfo, ObjectNotFound, TooLarge, get_bounded

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

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
            manifest = manifest_of(LISTS.read(found))
        except TooLarge as error:
            raise BadRecord(info.key, error.message) from None
        except (Unparsable, Invalid) as error:
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

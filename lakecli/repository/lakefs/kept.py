"""The refs dumps that garbage collection keeps, and until when.

::

    _lakecli/gc/dumps/<id>   of a dump that `refs_dump` wrote: {"format": 1,
                             "commits_meta_range_id": …, and those of tags and branches}

A dump counts as a root of garbage collection for `KEPT_FOR` after the date of its record, by the
bucket's clock: its own tables stay, and everything that its commits refer to. A record never
changes: the same dump, written again, has another one. So a record that is expired stays expired,
and a sweep may delete it while a dump is being written.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.layout import GC
from lakecli.objectstore.base import ABSENT, ObjectNotFound, TooLarge, get_bounded
from lakecli.parsing import Unparsable, parse_json_object
from lakecli.repository.lakefs.manifest import (
    LISTS,
    MAX_SIZE,
    RefsManifest,
    manifest_fields,
    manifest_of,
)
from lakecli.validation import Invalid, Record, whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakecli.objectstore.base import ObjectInfo, ObjectStore

DUMPS: Final = GC + "dumps/"
KEPT_FOR: Final = timedelta(days=30)

_FORMAT: Final = 1
_RECORD: Final = Record({"format": whole(1, _FORMAT)})


class KeptDump(NamedTuple):
    """A dump that is kept.

    Attributes:
        key: of the object whose date counts.
        since: that date, by the bucket's clock.
    """

    key: str
    manifest: RefsManifest
    since: datetime

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
        until = f"{dump.until:%Y-%m-%dT%H:%M:%SZ}"
        super().__init__(
            f"the refs dump of {dump.since:%Y-%m-%d} is kept until {until} and cannot be read: "
            f"{error.message}",
            hint=f"delete {dump.key} if nobody is going to restore the dump"
            if dump.key.startswith(DUMPS)
            else f"collect garbage after {until}",
        )


def keep_dump(store: ObjectStore, manifest: RefsManifest, record_id: str) -> KeptDump:
    """Record a dump whose tables are in the namespace and claimed.

    Args:
        store: the namespace.
        manifest: of the dump.
        record_id: a new random ID.
    """
    key = DUMPS + record_id
    fields = {"format": _FORMAT, **manifest_fields(manifest)}
    store.put(key, json.dumps(fields, indent=2).encode("ascii") + b"\n", ABSENT)
    return KeptDump(key, manifest, store.head(key).modified_at)


def iter_kept(store: ObjectStore, now: datetime) -> Iterator[KeptDump]:
    """Yield the dumps that are kept at a time.

    Raises:
        BadRecord: the record of one of them is not valid.
    """
    for info in store.list(DUMPS):
        if info.modified_at + KEPT_FOR <= now:
            continue
        try:
            manifest = _parse(info.key, get_bounded(store, info.key, MAX_SIZE))
        except TooLarge as error:
            raise BadRecord(info.key, error.message) from None
        except ObjectNotFound:
            continue  # deleted since the listing
        yield KeptDump(info.key, manifest, info.modified_at)


def _parse(key: str, data: bytes) -> RefsManifest:
    try:
        found = parse_json_object(data, max_size=MAX_SIZE)
        _RECORD.read(found)
        return manifest_of(LISTS.read(found))
    except (Unparsable, Invalid) as error:
        raise BadRecord(key, str(error)) from None


def iter_expired_records(store: ObjectStore, now: datetime) -> Iterator[ObjectInfo]:
    """Yield the records of dumps that are no longer kept."""
    for info in store.list(DUMPS):
        if info.modified_at + KEPT_FOR <= now:
            yield info

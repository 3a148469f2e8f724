"""The refs dumps that garbage collection keeps, and until when.

::

    _lakecli/gc/dumps/<id>   the record of a dump: {"format": 1, "commits_meta_range_id": …,
                             "tags_meta_range_id": …, "branches_meta_range_id": …,
                             "system": "lakefs" if lakeFS wrote the dump,
                             "made_at": …, "recorded_at": …: times by the bucket's clock}

A dump is a root of garbage collection for `KEPT_FOR` after its record was written, by the bucket's
clock: the dump's tables are kept, and everything that its commits refer to. A record never changes,
and a dump that is written again gets a new record. So an expired record stays expired, and a sweep
may delete it while a dump is being written. The newest record is never deleted, since its time is
needed: an object that lakeFS wrote later is in no dump that lakecli knows.

In a copy of a bucket, or in a bucket that was restored from a backup, the modification time of an
object is the time of the copy. So a record also contains its times as fields, except in old
versions. The name of an object that lakeFS wrote contains the time of writing (`LastDump`).

The manifest that a lakeFS server left in the namespace is a root as long as it exists.

The end of this module is about a namespace that was taken over from lakeFS: when it was taken over,
and whether somebody has confirmed that lakeFS has stopped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from lakecli.base.ids import MetarangeId
from lakecli.base.layout import GC, LEGACY_LAKEFS_MARKER, REPOSITORY, sstable_key
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, boolean, moment, optional, text_that, whole
from lakecli.errors import IntegrityError, UsageError
from lakecli.remote.gc_protocol import store_now
from lakecli.repository.handle.namespace import origin_of
from lakecli.repository.lakefs import dump as dumps
from lakecli.stores import contract

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
_Times = Mapping[str, datetime | None]
_TIMES: Final = Record({name: optional(moment, None) for name in ("made_at", "recorded_at")})


class KeptDump(NamedTuple):
    """A dump that garbage collection keeps.

    Attributes:
        key: the key of the dump's record or manifest.
        since: the modification time of the dump's record or manifest, by the store's clock.
        by_lakefs: whether lakeFS wrote the dump, at some time before `since`.
        made_at: when the dump was made, according to its record; ``None`` if an old version wrote
            the record, without this time.
        is_copy: whether the record was copied: its modification time is more than a day from the
            time in the record.
    """

    key: str
    manifest: dumps.RefsManifest
    since: datetime
    by_lakefs: bool = False
    made_at: datetime | None = None
    is_copy: bool = False

    @property
    def lists(self) -> tuple[MetarangeId, ...]:
        """The IDs of the dump's lists of commits, branches and tags."""
        return self.manifest.commits, self.manifest.branches, self.manifest.tags

    @property
    def until(self) -> datetime:
        """When garbage collection may delete the dump."""
        return self.since + KEPT_FOR


class BadRecord(IntegrityError):
    """The record of a kept dump cannot be read, so the objects that the dump needs are unknown."""

    def __init__(self, key: str, why: str) -> None:
        hint = "delete that object if nobody is going to restore the dump"
        super().__init__(f"not the record of a refs dump: {key}: {why}", hint=hint)


class LostDump(IntegrityError):
    """A kept dump cannot be read, so the objects that it needs are unknown."""

    def __init__(self, dump: KeptDump, error: IntegrityError) -> None:
        end = f"{dump.until:%Y-%m-%dT%H:%M:%SZ}"
        is_left = dump.key == dumps.MANIFEST_KEY
        hint = f"delete {dump.key} if nobody is going to restore the dump"
        if not is_left and not dump.key.startswith(DUMPS):
            hint = f"collect garbage after {end}"
        kept = f"is kept {'' if is_left else f'until {end} '}and cannot be read"
        what = f"the refs dump of {dump.since:%Y-%m-%d} {kept}: {error.message}"
        super().__init__(what, hint=hint)


def keep_dump(
    store: contract.ObjectStore,
    manifest: dumps.RefsManifest,
    record_id: str,
    *,
    lakefs_made_at: datetime | None = None,
) -> KeptDump:
    """Record a dump whose tables are in the namespace and claimed.

    Args:
        lakefs_made_at: when lakeFS made the dump; ``None`` if lakecli made it.
    """
    key = DUMPS + record_id
    by_lakefs, now = lakefs_made_at is not None, store_now(store)
    made_at = lakefs_made_at or now
    system = {"system": _LAKEFS} if by_lakefs else {}
    times = recorded_times(made_at, now)
    fields = {"format": _FORMAT, **system, **times, **dumps.manifest_fields(manifest)}
    store.put(key, json.dumps(fields, indent=2).encode("ascii") + b"\n", contract.ABSENT)
    return KeptDump(key, manifest, store.head(key).modified_at, by_lakefs, made_at)


def recorded_times(made_at: datetime, now: datetime) -> dict[str, str]:
    """Return the fields of a dump's record that say when the dump was made and recorded."""
    return {"made_at": made_at.isoformat(), "recorded_at": now.isoformat()}


def iter_kept(store: contract.ObjectStore, now: datetime) -> Iterator[KeptDump]:
    """Yield the dumps that are kept at the time `now`."""
    yield from _read(store, (info for info in store.list(DUMPS) if not _is_expired(info, now)))


def _is_expired(info: contract.ObjectInfo, now: datetime) -> bool:
    return info.modified_at + KEPT_FOR <= now


def _read(store: contract.ObjectStore, infos: Iterable[contract.ObjectInfo]) -> Iterator[KeptDump]:
    for info in infos:
        try:
            data = contract.find_bounded(store, info.key, dumps.MAX_SIZE)
            if data is None:
                continue  # deleted since the listing
            found = parse_json_object(data)
            by_lakefs = _RECORD.read(found)["system"] == _LAKEFS
            manifest, times = dumps.read_lists(found), _TIMES.read(found)
        except (contract.TooLarge, Unparsable, Invalid) as error:
            raise BadRecord(info.key, str(error)) from None
        yield _kept(info, manifest, times, by_lakefs=by_lakefs)


def _kept(
    info: contract.ObjectInfo, manifest: dumps.RefsManifest, times: _Times, *, by_lakefs: bool
) -> KeptDump:
    """Return the kept dump that a record describes.

    Args:
        info: the object of the record.
        times: the times in the record.
    """
    recorded_at = times["recorded_at"]
    is_copy = recorded_at is not None and abs(info.modified_at - recorded_at) > _UPLOAD
    return KeptDump(info.key, manifest, info.modified_at, by_lakefs, times["made_at"], is_copy)


def iter_expired_records(
    store: contract.ObjectStore, now: datetime
) -> Iterator[contract.ObjectInfo]:
    """Yield the records of dumps that are no longer kept, except the newest record."""
    found = sorted(store.list(DUMPS), key=attrgetter("modified_at"))
    yield from (info for info in found[:-1] if _is_expired(info, now))


def find_left(store: contract.ObjectStore) -> KeptDump | None:
    """Return the dump whose manifest a lakeFS server has left in a namespace, or ``None``."""
    key = dumps.MANIFEST_KEY
    try:
        data = contract.find_bounded(store, key, dumps.MAX_SIZE)
        if data is None or (info := contract.find_info(store, key)) is None:
            return None
        return KeptDump(key, dumps.parse_manifest(data), info.modified_at, by_lakefs=True)
    except (contract.TooLarge, UsageError) as error:
        raise BadRecord(key, error.message) from None


class LastDump(NamedTuple):
    """The time of the last dump that lakecli wrote, or took from lakeFS, in a namespace.

    Attributes:
        at: the time.
        is_known: whether the time is a field of the dump's record, not a modification time.
        is_copy: whether the bucket was copied after the dump, so that the modification times of
            its objects are times of copying.
    """

    at: datetime
    is_known: bool = True
    is_copy: bool = False

    def is_before(self, modified_at: datetime, named_at: datetime | None) -> bool:
        """Return whether lakeFS wrote, or may have written, an object after this dump.

        Args:
            modified_at: the modification time of the object, by the bucket's clock.
            named_at: the time in the object's name, by the clock of lakeFS's server; ``None`` if
                the name has no time.
        """
        if named_at is None:
            return self.is_copy or modified_at > self.at
        if self.is_copy:
            return named_at > self.at - CLOCKS
        if modified_at > self.at or named_at > self.at + CLOCKS:
            return True
        is_redated = abs(modified_at - named_at) > _UPLOAD
        return is_redated and (not self.is_known or named_at > self.at - CLOCKS)


def find_last_dump(store: contract.ObjectStore, first: KeptDump) -> LastDump:
    """Return the time of the latest dump that lakecli wrote or took from lakeFS.

    Args:
        first: the dump from which the repository was made.
    """
    known = [first, *_read(store, store.list(DUMPS))]
    is_copy = any(each.is_copy for each in known)
    left = None if is_copy else find_left(store)
    found = [
        LastDump(_made_at(store, each, left), each.made_at is not None, each.is_copy)
        for each in known
        if each.made_at is not None or not is_copy  # a copied record's date is that of the copy
    ]
    return max(found, key=attrgetter("at"))


def lakefs_made_at(store: contract.ObjectStore, manifest: dumps.RefsManifest) -> datetime:
    """Return when lakeFS made a dump, by the modification times of the dump's objects."""
    now = KeptDump("", manifest, store.head(sstable_key(manifest.commits)).modified_at, True)  # noqa: FBT003
    return _made_at(store, now, find_left(store))


def _made_at(store: contract.ObjectStore, dump: KeptDump, left: KeptDump | None) -> datetime:
    """Return when a dump was made.

    lakeFS may have written more objects after it made a dump and before lakecli took the dump. So
    the modification times of lakeFS's own objects count: of the list of commits, and of the
    manifest. If garbage collection has deleted the list, the time of the record counts, because the
    list is deleted only after a collection has found no later objects.
    """
    if not dump.by_lakefs:
        return dump.made_at or dump.since
    dates = [left.since] if left is not None and left.lists == dump.lists else []
    if dump.made_at is not None:
        return max([dump.made_at, *dates])
    commits = contract.find_info(store, sstable_key(dump.manifest.commits))
    return max([dump.since if commits is None else commits.modified_at, *dates])


STOPPED: Final = GC + "lakefs-stopped"

CLOCKS: Final = timedelta(hours=1)
"""The largest accepted difference between the clocks of a lakeFS server and of the bucket."""

_UPLOAD: Final = timedelta(days=1)
"""The longest accepted time from the time in an object's name to its modification time."""

LAKEFS_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
"""The digits of lakeFS's IDs, 5 bits each: 32 bits of time, then bits that make the ID unique."""

_MAX_SIZE: Final = 4 << 10
_CONFIRMATION: Final = Record({"format": whole(1, _FORMAT), "stopped": boolean})

_TIME_DIGITS: Final = 7
_EXTRA_BITS: Final = 3


class TakenOver(NamedTuple):
    """A namespace that was taken over from lakeFS.

    Attributes:
        dump: the refs dump from which the repository was made; `KeptDump.since` is the time of the
            take-over.
        stopped_at: when somebody last confirmed that lakeFS has stopped; ``None`` if nobody did.
        old_layout: whether there may be objects outside ``data/``, where old servers wrote them.
    """

    dump: KeptDump
    stopped_at: datetime | None
    old_layout: bool


def find_take_over(store: contract.ObjectStore) -> TakenOver | None:
    """Return how a namespace was taken over from lakeFS; ``None`` if it was not taken over.

    Raises:
        IntegrityError: its ``repository.json`` is not valid.
    """
    origin = origin_of(store)
    if origin is None:
        return None
    try:
        manifest, times = dumps.read_lists(origin), _TIMES.read(origin)
    except Invalid as error:
        what = f"{store.uri}/{REPOSITORY} does not say which refs dump it was made of: {error}"
        raise IntegrityError(what, hint="restore it from a backup") from None
    dump = _kept(store.head(REPOSITORY), manifest, times, by_lakefs=True)
    return TakenOver(dump, _stopped_at(store), contract.exists(store, LEGACY_LAKEFS_MARKER))


def all_kept(store: contract.ObjectStore, taken: TakenOver | None, now: datetime) -> list[KeptDump]:
    """Return the dumps that are kept at the time `now`, including the dump of the take-over."""
    kept = list(iter_kept(store, now))
    if taken is not None and taken.dump.until > now:
        kept.append(taken.dump)
    return kept


def _stopped_at(store: contract.ObjectStore) -> datetime | None:
    try:
        data = contract.find_bounded(store, STOPPED, _MAX_SIZE)
        has_stopped = data is not None and _CONFIRMATION.read(parse_json_object(data))["stopped"]
    except (Unparsable, Invalid, contract.TooLarge) as error:
        hint = "delete that object, and confirm it again: `gc run REPOSITORY --lakefs-stopped`"
        what = f"{store.uri}/{STOPPED} does not say whether lakeFS has stopped: {error}"
        raise IntegrityError(what, hint=hint) from None
    info = contract.find_info(store, STOPPED) if has_stopped else None
    return None if info is None else info.modified_at


def confirm_stopped(store: contract.ObjectStore, *, stopped: bool = True) -> None:
    """Record the user's confirmation that lakeFS no longer uses a namespace.

    Args:
        stopped: ``False`` withdraws the confirmation, since lakeFS may use the namespace again.
    """
    body = json.dumps({"format": _FORMAT, "stopped": stopped}).encode("ascii") + b"\n"
    store.put(STOPPED, body, contract.ANY)


def written_at(lakefs_object: str) -> datetime | None:
    """Return the time in the name of a lakeFS object; ``None`` if the name is a UUID."""
    name = lakefs_object.rpartition("/")[2]
    if len(name) > len("0" * 20):
        return None  # a UUID
    seconds = int(name[:_TIME_DIGITS], 32) >> _EXTRA_BITS
    return datetime.fromtimestamp(seconds, UTC)

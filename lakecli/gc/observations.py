"""What collections saw of the refs in the bucket, recorded there for the next ones.

::

    _lakecli/gc/seen/<id>    written about once a day, never changed, and dated by the bucket
    _lakecli/gc/refs         replaced by each run: the refs as the last collection saw them

Both have a line for each ref, deleted ones too: sequence number, write ID, key, and the commit or
``-``. Lines of earlier versions end with the key.

Anybody who can write to the bucket can write such a record. An observation can only add to what is
kept. `read_last` reads a whole record or none, since it stands for what must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.ids import CommitId, WriteId
from lakecli.base.layout import GC, ref_key, ref_of_key
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import Tracked
from lakecli.stores.base import ANY, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

SEEN: Final = GC + "seen/"
LAST: Final = GC + "refs"
OBSERVED_EVERY: Final = timedelta(days=1)

MAX_SEEN_SIZE: Final = 64 << 20
"""Bytes of a record, at most: some 300,000 refs. Refs beyond that are left out."""

_LINE: Final = re.compile(
    r"([1-9][0-9]{0,15}) ([0-9a-f]{32}) ([!-~]+)(?: ([0-9a-f]{64}|-))?", re.ASCII
)


class Seen(NamedTuple):
    """The last move of a ref that a collection saw."""

    sequence: int
    write_id: str


class DamagedObservation(IntegrityError):
    """What the last collection saw of the refs cannot be read."""

    def __init__(self, key: str, why: str, uri: str) -> None:
        super().__init__(
            f"the refs that the last garbage collection saw are damaged: {key}: {why}",
            hint="check that no branch or tag is missing, and accept the present ones: "
            f"lakecli gc run --accept-restored {uri}",
        )


def dump(refs: Iterable[Tracked]) -> bytes:
    """Return a record of refs."""
    lines, size = [], 0
    for ref in refs:
        key = ref_key(ref.kind, ref.name)
        line = f"{ref.sequence} {ref.write_id} {key} {ref.commit_id or '-'}\n"
        size += len(line)
        if size > MAX_SEEN_SIZE:
            break
        lines.append(line)
    return "".join(lines).encode("ascii")


def observe(
    store: ObjectStore, name: str, refs: Iterable[Tracked], *, now: datetime, cutoff: datetime
) -> None:
    """Record the last move of each ref, unless that was done recently; delete old records.

    Args:
        store: the namespace.
        name: random name of the observation.
        refs: the refs as they were read.
        now: time by the store's clock.
        cutoff: earlier moves do not count; see `positions.read_positions`.
    """
    there = sorted(store.list(SEEN), key=attrgetter("modified_at", "key"))
    old = [info.key for info in there if info.modified_at < cutoff]
    if len(old) > 1:
        store.delete(old[:-1])
    if there and there[-1].modified_at > now - OBSERVED_EVERY:
        return
    if body := dump(refs):
        store.put(SEEN + name, body, ANY)


def observed_before(store: ObjectStore, cutoff: datetime) -> Mapping[str, Seen]:
    """Return the newest observation from before `cutoff`, by the key of the ref."""
    old = [info for info in store.list(SEEN) if info.modified_at < cutoff]
    if not old:
        return {}
    newest = max(old, key=attrgetter("modified_at", "key"))
    try:
        data = store.get(newest.key, start=0, length=MAX_SEEN_SIZE)
    except ObjectNotFound:
        return {}
    lines = map(_LINE.fullmatch, data.decode("ascii", "replace").split("\n"))
    return {line[3]: Seen(int(line[1]), line[2]) for line in lines if line is not None}


def put_last(store: ObjectStore, refs: Iterable[Tracked]) -> None:
    """Record the refs for the next collection, in place of the record of the last one."""
    store.put(LAST, dump(refs), ANY)


def read_last(store: ObjectStore, uri: str) -> list[Tracked]:
    """Return the refs as the last collection saw them; none if there was no collection.

    Raises:
        DamagedObservation: the record is too large, or a line of it is not valid.
    """
    key = LAST
    try:
        data = store.get(key, start=0, length=MAX_SEEN_SIZE + 1)
    except ObjectNotFound:
        # An earlier version wrote only the daily observations.
        there = max(store.list(SEEN), key=attrgetter("modified_at", "key"), default=None)
        if there is None:
            return []
        key = there.key
        data = store.get(key, start=0, length=MAX_SEEN_SIZE + 1)
    if len(data) > MAX_SEEN_SIZE:
        raise DamagedObservation(key, f"more than {MAX_SEEN_SIZE} bytes", uri)
    found = {}
    *lines, rest = data.decode("latin-1").split("\n")
    for number, text in enumerate(lines, 1):
        line = _LINE.fullmatch(text)
        ref = None if line is None else ref_of_key(line[3])
        if line is None or ref is None or ref in found:
            raise DamagedObservation(key, f"line {number}", uri)
        commit = None if line[4] in (None, "-") else CommitId(line[4])
        found[ref] = Tracked(*ref, commit, int(line[1]), WriteId(line[2]), "")
    if rest:
        raise DamagedObservation(key, "it ends within a line", uri)
    return list(found.values())

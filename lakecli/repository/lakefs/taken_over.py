"""Namespaces that were taken over from lakeFS: since when, and whether lakeFS has stopped.

::

    _lakecli/repository.json       {…, "origin": {"system": "lakefs", "commits_meta_range_id": …}}
    _lakecli/gc/lakefs-stopped     {"format": 1, "stopped": true}: somebody confirmed that

Dates are those of the objects, by the bucket's clock. The refs dump that the repository was made of
is kept as long as any other dump (`lakecli.repository.lakefs.kept`) after the take-over.

Objects of lakeFS are garbage only after the confirmation. A lakeFS server that goes on gives itself
away: its objects have their time in their names, and its tables are younger than the confirmation.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import GC, LEGACY_LAKEFS_MARKER, REPOSITORY
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, boolean, whole
from lakecli.errors import IntegrityError
from lakecli.repository.lakefs.kept import KeptDump
from lakecli.repository.lakefs.manifest import LISTS, manifest_of
from lakecli.repository.records.namespace import origin_of
from lakecli.stores.contract import ANY, ObjectNotFound, TooLarge, exists, get_bounded

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

STOPPED: Final = GC + "lakefs-stopped"

CLOCKS: Final = timedelta(hours=1)
"""How far the clock of a lakeFS server may be from that of the bucket."""

LAKEFS_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
"""The digits of lakeFS's IDs, 5 bits each: 32 bits of time, then what makes it unique."""

_MAX_SIZE: Final = 4 << 10
_FORMAT: Final = 1
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
        manifest = manifest_of(LISTS.read(origin))
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
